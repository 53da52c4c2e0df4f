/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Completion queues (fakernic/cq.h; IBTA 11.4.2).
 */
#ifndef FAKERNIC_DEVICE_QUEUE_CQ_H
#define FAKERNIC_DEVICE_QUEUE_CQ_H

#include "eq.h"
#include "../fault/effects.h"

typedef enum FakernicArm {
    FAKERNIC_ARM_NONE,
    FAKERNIC_ARM_SOLICITED,
    FAKERNIC_ARM_ANY,
} FakernicArm;

/* An object that fails with its CQ: a QP or an XRC SRQ. */
typedef struct FakernicCqUser {
    struct FakernicQp *qp;
    struct FakernicSrq *srq;
    QLIST_ENTRY(FakernicCqUser) next;
} FakernicCqUser;

typedef struct FakernicCq {
    uint32_t id;
    FakernicRing ring;
    FakernicEq *eq;
    uint32_t uar;
    uint32_t pi;
    uint32_t ci;                /* as last read from the record */
    uint32_t stamped;           /* ci of the last stamp */
    uint32_t solicited_pi;      /* pi after the last solicited entry */
    uint32_t users;             /* QPs, XRC SRQs */
    FakernicArm arm;
    bool ignore_overrun;
    bool error;
    QLIST_HEAD(, FakernicCqUser) fail_with;     /* users that have not failed */
    QTAILQ_ENTRY(FakernicCq) failed;            /* in s->failed_cqs */
    uint16_t count;             /* moderation: entries per event */
    uint16_t period_us;         /* moderation: longest wait of an entry, or 0 */
    uint32_t held;              /* entries whose event is held */
    RoceTime deadline;          /* of the held event, while in s->held_cqs */
    bool is_held;
    FakernicEventSource completion;
    FakernicEventSource async;
} FakernicCq;

/* Writes an entry. Does not match fault rules: 'fault' is their result. */
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
