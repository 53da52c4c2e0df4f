/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Event queues: events of CQs, QPs, SRQs, the port and the device become EQEs
 * in guest memory, and raise interrupts (fakernic/eq.h, IBTA 11.6.3).
 *
 * No event is lost, and memory is bounded. If the EQ is full, or its memory
 * cannot be written, the event sets a bit in its object. The object waits in a
 * list until the consumer index moves or a retry is due. One store of the index
 * may make room for thousands of events; several turns then write them.
 */
#include "qemu/osdep.h"
#include "qemu/bitops.h"
#include "qemu/bswap.h"
#include "qemu/host-utils.h"
#include "../budget.h"
#include "../clock.h"
#include "eq.h"
#include "interrupt.h"
#include "../state.h"
#include "../fault/gate.h"
#include "ring.h"
#include "../../trace.h"

static bool fakernic_eq_is_full(const FakernicEq *eq)
{
    return eq->pi - eq->ci == eq->ring.depth;
}

/* How often the device retries to write an entry. */
#define FAKERNIC_EQ_RETRY_NS (100 * SCALE_MS)

/* Writes an entry; false: it failed, and the event stays latched. */
static bool fakernic_eqe_write(FakernicState *s, FakernicEq *eq, uint8_t type,
                               uint32_t id, uint32_t data,
                               const FakernicHit *hit)
{
    struct fakernic_eqe eqe = {
        .type = type,
        .id = cpu_to_le32(id),
        .data = cpu_to_le32(data),
        .owner = !(eq->pi & eq->ring.depth),
    };

    trace_fakernic_eqe(s->name, eq->id, eq->pi, type, id, data);
    fakernic_record(s, EQE, 0, eq->id, eq->pi, type, id, data, eq->vector,
                    eq->armed);
    fakernic_gate_bytes(hit, &eqe, sizeof(eqe));
    if (!fakernic_ring_write(s, &eq->ring, eq->pi, &eqe, sizeof(eqe))) {
        /* Retried: without the event a driver would wait without limit. */
        trace_fakernic_err_eqe(s->name, eq->id, type, id);
        eq->stalled_until = fakernic_now() + FAKERNIC_EQ_RETRY_NS;
        fakernic_gate_retry_eq(s, eq->id, eq->stalled_until);
        return false;
    }
    eq->pi++;
    if (eq->armed) {
        eq->armed = false;
        fakernic_interrupt(s, eq->vector);
    }
    return true;
}

/* Writes an event as an entry; false: not now. */
static bool fakernic_eqe_next(FakernicState *s, FakernicEq *eq, uint8_t type,
                              uint32_t id, uint32_t data)
{
    const FakernicHit *hit;

    if (fakernic_eq_is_full(eq) ||
        !fakernic_gate_eqe(s, eq->id, &eq->stalled_until, &hit)) {
        return false;
    }
    for (unsigned copies = fakernic_gate_copies(hit);
         copies && !fakernic_eq_is_full(eq); copies--) {
        if (!fakernic_eqe_write(s, eq, type, id, data, hit)) {
            return false;
        }
    }
    return true;
}

/* Events with data: the object fails once, so at most one is latched. */
static bool fakernic_event_has_data(unsigned type)
{
    return type == FAKERNIC_EVENT_DEVICE_FATAL ||
           type == FAKERNIC_EVENT_QP_FATAL ||
           type == FAKERNIC_EVENT_QP_REQUEST_ERROR ||
           type == FAKERNIC_EVENT_QP_ACCESS_ERROR ||
           type == FAKERNIC_EVENT_SRQ_ERROR;
}

/* A failed path migration of the peer is no error, and has only one cause. */
static uint32_t fakernic_event_data(const FakernicEventSource *src,
                                    unsigned type)
{
    if (type == FAKERNIC_EVENT_PATH_MIGRATION_ERROR) {
        return FAKERNIC_VENDOR_MIGRATION;
    }
    return fakernic_event_has_data(type) ? src->data : 0;
}

/* Leaves the waiting events of this EQ to later turns. */
static void fakernic_eq_late(FakernicState *s, FakernicEq *eq)
{
    if (!QTAILQ_IN_USE(eq, late)) {
        QTAILQ_INSERT_TAIL(&s->late_eqs, eq, late);
    }
    fakernic_kick(s);
}

/* False: the EQ is full or stalled, or the budget is used. Tries at least one
 * entry, so that the caller's own event does not wait for a budget. */
static bool fakernic_event_list_flush(FakernicState *s, FakernicEq *eq,
                                      FakernicEventList *list)
{
    FakernicEventSource *src;
    bool lasts = true;

    while ((src = QTAILQ_FIRST(list))) {
        while (src->latched && lasts) {
            unsigned type = ctz32(src->latched);

            if (!fakernic_eqe_next(s, eq, type, src->id,
                                   fakernic_event_data(src, type))) {
                return false;
            }
            src->latched &= ~BIT(type);
            lasts = fakernic_spend(s, 1);
        }
        if (!src->latched) {
            QTAILQ_REMOVE(list, src, next);
            src->waiting = false;
        }
        if (!lasts) {
            fakernic_eq_late(s, eq);
            return false;
        }
    }
    return true;
}

void fakernic_eq_flush(FakernicState *s, FakernicEq *eq)
{
    if (fakernic_event_list_flush(s, eq, &eq->waiting) && eq == s->async_eq) {
        fakernic_event_list_flush(s, eq, &s->async_waiting);
    }
}

void fakernic_eqs_run(FakernicState *s)
{
    FakernicEq *eq;

    while (fakernic_budget_left(s) && (eq = QTAILQ_FIRST(&s->late_eqs))) {
        QTAILQ_REMOVE(&s->late_eqs, eq, late);
        fakernic_eq_flush(s, eq);
    }
}

void fakernic_eq_forget(FakernicState *s, FakernicEq *eq)
{
    if (eq == s->async_eq) {
        /* Latched events wait for the next asynchronous EQ. */
        s->async_eq = NULL;
    }
    if (QTAILQ_IN_USE(eq, late)) {
        QTAILQ_REMOVE(&s->late_eqs, eq, late);
    }
    fakernic_gate_forget_eq(s, eq->id);
}

void fakernic_event(FakernicState *s, FakernicEq *eq, FakernicEventSource *src,
                    enum fakernic_event type, uint32_t data)
{
    FakernicEventList *list = eq ? &eq->waiting : &s->async_waiting;

    src->latched |= BIT(type);
    if (fakernic_event_has_data(type)) {
        src->data = data;
    }
    if (!src->waiting) {
        src->waiting = true;
        QTAILQ_INSERT_TAIL(list, src, next);
    }
    eq = eq ?: s->async_eq;
    if (eq) {
        fakernic_eq_flush(s, eq);
    }
    if (src->latched & BIT(type)) {
        trace_fakernic_eq_full(s->name, eq ? eq->id : 0, type, src->id);
        s->stats[FAKERNIC_STAT_EQ_DELAYED]++;
    }
}

void fakernic_event_forget(FakernicState *s, FakernicEq *eq,
                           FakernicEventSource *src)
{
    if (src->waiting) {
        QTAILQ_REMOVE(eq ? &eq->waiting : &s->async_waiting, src, next);
        src->waiting = false;
    }
    src->latched = 0;
}

void fakernic_eq_doorbell(FakernicState *s, FakernicEq *eq, uint32_t ci,
                          bool arm)
{
    trace_fakernic_doorbell_eq(s->name, eq->id, ci, arm);
    fakernic_record(s, DOORBELL_EQ, 0, eq->id, ci, arm);
    if (ci - eq->ci > eq->pi - eq->ci) {
        FAKERNIC_GUEST_ERR("EQ %u: consumer index %u is not within %u..%u",
                           eq->id, ci, eq->ci, eq->pi);
        s->stats[FAKERNIC_STAT_DOORBELL_DROPPED]++;
        return;
    }
    eq->ci = ci;
    eq->armed |= arm;
    fakernic_eq_flush(s, eq);
    if (eq->armed && eq->pi != eq->ci) {
        eq->armed = false;
        fakernic_interrupt(s, eq->vector);
    }
}

void fakernic_engine_event(void *host, uint8_t type, uint32_t id,
                           uint16_t vendor_err)
{
    FakernicState *s = host;
    FakernicEventSource *src = NULL;

    if (type == FAKERNIC_EVENT_SRQ_ERROR || type == FAKERNIC_EVENT_SRQ_LIMIT) {
        FakernicSrq *srq = fakernic_table_get(&s->srqs, id);

        src = srq ? &srq->async : NULL;
    } else {
        FakernicQp *qp = fakernic_qp_or_wq(s, id);

        src = qp ? &qp->async : NULL;
    }
    if (src) {
        fakernic_event(s, NULL, src, type, vendor_err);
    }
}
