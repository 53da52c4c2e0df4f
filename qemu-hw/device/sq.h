/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Send queues: work requests for the engine (fakernic/sq.h).
 */
#ifndef FAKERNIC_DEVICE_SQ_H
#define FAKERNIC_DEVICE_SQ_H

#include "qp.h"

/* A doorbell: the send queue holds the basic blocks before 'pi'. */
void fakernic_sq_doorbell(FakernicState *s, FakernicQp *qp, uint32_t pi);

/* RoceHostOps.next_send. */
RoceFetch fakernic_next_send(void *host, uint32_t qpn, RoceSendWr *wr);

#endif
