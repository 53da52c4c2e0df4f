/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Completion queues (fakernic/cq.h; IBTA 11.4.2).
 */
#ifndef FAKERNIC_DEVICE_CQ_H
#define FAKERNIC_DEVICE_CQ_H

#include "eq.h"

typedef enum FakernicArm {
    FAKERNIC_ARM_NONE,
    FAKERNIC_ARM_SOLICITED,
    FAKERNIC_ARM_ANY,
} FakernicArm;

typedef struct FakernicCq {
    uint32_t id;
    FakernicRing ring;
    FakernicEq *eq;
    uint32_t uar;
    uint32_t pi;
    uint32_t ci;                /* as last read from the record */
    uint32_t solicited_pi;      /* pi behind the last solicited entry */
    uint32_t users;             /* QPs, XRC SRQs */
    FakernicArm arm;
    bool ignore_overrun;
    bool error;
    bool error_pending;         /* its QPs are still to be told */
    uint16_t count;             /* moderation: entries per event */
    uint16_t period_us;         /* and how long the first one waits, or 0 */
    uint32_t held;              /* entries that wait for their event */
    RoceTime deadline;          /* of that event, while in s->held_cqs */
    bool is_held;
    QTAILQ_ENTRY(FakernicCq) next;
    FakernicEventSource completion;
    FakernicEventSource async;
} FakernicCq;

/* RoceHostOps.complete: writes a CQE, and raises the event it is armed for. */
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

/* The CQ goes away: no entry waits for its event any more. */
void fakernic_cq_forget(FakernicState *s, FakernicCq *cq);

/*
 * Raises the events whose period has passed. Returns when the next one will
 * have, or ROCE_TIME_NEVER.
 */
RoceTime fakernic_cq_run(FakernicState *s, RoceTime now);

#endif
