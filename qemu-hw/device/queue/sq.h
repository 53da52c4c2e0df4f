/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Send queues: work requests for the engine (fakernic/sq.h).
 */
#ifndef FAKERNIC_DEVICE_QUEUE_SQ_H
#define FAKERNIC_DEVICE_QUEUE_SQ_H

#include "types.h"

/* A doorbell: the driver has posted the basic blocks before 'pi'. */
void fakernic_sq_doorbell(FakernicState *s, FakernicQp *qp, uint32_t pi);

/*
 * Decodes a WQE for monitoring: 0 or enum fakernic_vendor_err. 'wqe' has
 * FAKERNIC_SQ_WQE_SIZE_MAX bytes, of which only those of its blocks are used.
 * 'wr' has its opcode and flags already. Page lists are not read.
 */
uint16_t fakernic_sq_look(const FakernicState *s, const FakernicQp *qp,
                          const uint8_t *wqe, RoceSendWr *wr);

/* RoceHostOps.next_send. */
RoceFetch fakernic_next_send(void *host, uint32_t qpn, RoceSendWr *wr);

#endif
