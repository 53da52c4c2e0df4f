/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Shared receive queues, and receive work requests for the engine
 * (fakernic/rq.h).
 */
#ifndef FAKERNIC_DEVICE_QUEUE_RQ_H
#define FAKERNIC_DEVICE_QUEUE_RQ_H

#include "types.h"

/*
 * Decodes a receive WQE of 1 << log_stride bytes, also for monitoring: 0 or
 * enum fakernic_vendor_err.
 */
uint16_t fakernic_rq_look(const void *from, unsigned log_stride,
                          RoceRecvWr *wr);

/* RoceHostOps.next_recv. */
RoceFetch fakernic_next_recv(void *host, uint32_t qpn, uint32_t srqn,
                             RoceRecvWr *wr);
/* RoceHostOps.recv_count. */
uint32_t fakernic_recv_count(void *host, uint32_t qpn);
/* RoceHostOps.xrc_srq. */
bool fakernic_xrc_srq(void *host, uint32_t srqn, uint32_t xrcdn,
                      RoceXrcSrq *found);

/* Fails an SRQ, which becomes unusable, and raises one SRQ_ERROR event. */
void fakernic_srq_fail(FakernicState *s, FakernicSrq *srq,
                       enum fakernic_vendor_err err);

/*
 * Arms one SRQ_LIMIT event, and raises it at once if fewer receives are left.
 * A limit of 0 disarms it.
 */
void fakernic_srq_set_limit(FakernicState *s, FakernicSrq *srq,
                            uint32_t limit);

#endif
