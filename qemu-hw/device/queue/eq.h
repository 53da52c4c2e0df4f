/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Event queues, and the objects that raise events (fakernic/eq.h).
 */
#ifndef FAKERNIC_DEVICE_QUEUE_EQ_H
#define FAKERNIC_DEVICE_QUEUE_EQ_H

#include "ring.h"

/*
 * An object that raises events. An event that finds its EQ full stays in
 * 'latched', one bit per type, until the consumer index moves.
 */
typedef struct FakernicEventSource {
    uint32_t id;
    uint32_t latched;
    uint32_t data;
    bool waiting;
    QTAILQ_ENTRY(FakernicEventSource) next;
} FakernicEventSource;

typedef QTAILQ_HEAD(FakernicEventList, FakernicEventSource) FakernicEventList;

typedef struct FakernicEq {
    uint32_t id;
    FakernicRing ring;
    uint32_t pi;
    uint32_t ci;
    uint16_t vector;
    bool armed;
    RoceTime stalled_until;     /* by a fault rule, or because its memory
                                 * cannot be written; 0: it is not */
    uint32_t users;             /* CQs */
    FakernicEventList waiting;  /* completion events */
    QTAILQ_ENTRY(FakernicEq) late;      /* in s->late_eqs */
} FakernicEq;

/*
 * Raises an event of an object, with 'data' for the types that have it. If 'eq'
 * is NULL it goes to the asynchronous EQ, or waits for one to be created. An
 * event that is latched in the object already is not raised twice.
 */
void fakernic_event(FakernicState *s, FakernicEq *eq, FakernicEventSource *src,
                    enum fakernic_event type, uint32_t data);

/* Discards the latched events of an object; 'eq' as above. */
void fakernic_event_forget(FakernicState *s, FakernicEq *eq,
                           FakernicEventSource *src);

/*
 * Writes the events that wait, within the room and the turn's budget; what the
 * budget leaves is written by fakernic_eqs_run().
 */
void fakernic_eq_flush(FakernicState *s, FakernicEq *eq);

/* Part of a turn: resumes EQs whose flush had used up the budget. */
void fakernic_eqs_run(FakernicState *s);

/* The EQ is about to be destroyed; asynchronous events wait for the next. */
void fakernic_eq_forget(FakernicState *s, FakernicEq *eq);

/*
 * A doorbell: the driver has consumed the entries before 'ci', and with 'arm'
 * requests an interrupt for the next one. The doorbell is dropped and counted
 * if 'ci' is not within the entries written.
 */
void fakernic_eq_doorbell(FakernicState *s, FakernicEq *eq, uint32_t ci,
                          bool arm);

/* RoceHostOps.event: an asynchronous event of the engine. */
void fakernic_engine_event(void *host, uint8_t type, uint32_t id,
                           uint16_t vendor_err);

#endif
