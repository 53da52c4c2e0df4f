/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Send queues: work requests for the engine (fakernic/sq.h).
 */
#ifndef FAKERNIC_DEVICE_SQ_H
#define FAKERNIC_DEVICE_SQ_H

#include "qp.h"

/* A doorbell: the send queue holds the basic blocks before 'pi'. */
void fakernic_sq_doorbell(FakernicState *s, FakernicQp *qp, uint32_t pi);

/*
 * What the device would make of a WQE, for whoever looks from outside: 0 or
 * enum fakernic_vendor_err. 'wqe' is FAKERNIC_SQ_WQE_SIZE_MAX bytes, of which
 * those of its blocks count; 'wr' has its opcode and flags already. Page lists
 * are not read.
 */
uint16_t fakernic_sq_look(const FakernicState *s, const FakernicQp *qp,
                          const uint8_t *wqe, RoceSendWr *wr);

/* RoceHostOps.next_send. */
RoceFetch fakernic_next_send(void *host, uint32_t qpn, RoceSendWr *wr);

#endif
