/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Completion queues (fakernic/cq.h; IBTA 11.4.2).
 */
#ifndef FAKERNIC_DEVICE_QUEUE_CQ_H
#define FAKERNIC_DEVICE_QUEUE_CQ_H

#include "types.h"
#include "../fault/effects.h"

/* Writes an entry that has passed the gate, which has made 'fault' or NULL. */
void fakernic_cq_put(FakernicState *s, const RoceCompletion *completion,
                     const FakernicCqeFault *fault);

/* RoceHostOps.complete: writes a CQE; raises an event if the CQ is armed. */
void fakernic_complete(void *host, const RoceCompletion *completion);

/*
 * A doorbell: the host has seen the entries before 'ci' and wants an event for
 * the next one, or, with 'solicited', for the next solicited or failed one.
 */
void fakernic_cq_arm(FakernicState *s, FakernicCq *cq, uint32_t ci,
                     bool solicited);

/* One event per 'count' entries, or 'period_us' after the first; 0: at once. */
void fakernic_cq_moderate(FakernicState *s, FakernicCq *cq, uint16_t count,
                          uint16_t period_us);

/* The CQ is about to be destroyed: cancels its held event and its failure. */
void fakernic_cq_forget(FakernicState *s, FakernicCq *cq);

/*
 * Registers a QP or SRQ that fails with the CQ. 'user' is a member of it, with
 * 'qp' or 'srq' set. No effect if cq is NULL.
 */
void fakernic_cq_join(FakernicCq *cq, FakernicCqUser *user);
/* Reverses fakernic_cq_join(); no effect if cq is NULL. */
void fakernic_cq_leave(FakernicCq *cq, FakernicCqUser *user);

/*
 * Moves the QPs and XRC SRQs of CQs in error to the error state, within the
 * budget. True: there are more.
 */
bool fakernic_cq_errors_run(FakernicState *s);

/*
 * Raises the events whose period has passed, within the budget. Returns when
 * the next one is due, which may be now, or ROCE_TIME_NEVER.
 */
RoceTime fakernic_cq_run(FakernicState *s, RoceTime now);

/* Initializes the lists that the CQs of a device share; there are no CQs. */
void fakernic_cqs_init(FakernicState *s);
/* There must be no CQs. */
void fakernic_cqs_free(FakernicState *s);

#endif
