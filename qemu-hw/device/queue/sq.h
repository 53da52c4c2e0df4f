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
 * With FAKERNIC_FEATURE_SHADOW_DOORBELL: reads the records of queues that are
 * awake, within the budget, and lets queues sleep that got nothing for a while.
 */
void fakernic_sqs_look(FakernicState *s, RoceTime now);

/* When fakernic_sqs_look() is due. */
RoceTime fakernic_sqs_deadline(const FakernicState *s);

/* The queue has a new index, or has been loaded: it is awake from now on. */
void fakernic_sq_wake(FakernicState *s, FakernicQp *qp);

/* The queue is reset or destroyed: its record is not accessed any more. */
void fakernic_sq_forget(FakernicState *s, FakernicQp *qp);

/*
 * Before the queue is reset or destroyed: counts it as FAKERNIC_STAT_SQ_LOST if
 * it sleeps and its host has posted without the doorbell that wakes it.
 */
void fakernic_sq_end(FakernicState *s, const FakernicQp *qp);

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
