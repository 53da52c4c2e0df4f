/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Completion queues: the engine's completions become CQEs in guest memory, and
 * events when the CQ is armed (fakernic/cq.h; IBTA 11.4.2). A moderated CQ
 * holds its event back until there are enough entries or the first has waited.
 *
 * The consumer index is read only when the ring looks full. A CQ that is full,
 * or whose memory cannot be written, goes into error: it raises an event, gets
 * no more entries, and its QPs fail. The engine is in the middle of a call
 * then, and there may be thousands of QPs. So the following turns move them to
 * the error state, some in each turn.
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "../budget.h"
#include "../clock.h"
#include "cq.h"
#include "rq.h"
#include "../state.h"
#include "../fault/gate.h"
#include "eq.h"
#include "ring.h"
#include "../../trace.h"

/* True: there is room for an entry. Reads the doorbell record if necessary. */
static bool fakernic_cq_has_room(FakernicState *s, FakernicCq *cq)
{
    uint32_t ci;

    if (cq->pi - cq->ci < cq->ring.depth || cq->ignore_overrun) {
        return true;
    }
    /* journey: cq-full */
    if (!fakernic_ring_record(s, &cq->ring, &ci) ||
        cq->pi - ci > cq->ring.depth) {
        return false;
    }
    cq->ci = ci;
    return cq->pi - ci < cq->ring.depth;
    /* journey: end */
}

static void fakernic_cqe_encode(struct fakernic_cqe *cqe,
                                const RoceCompletion *c)
{
    *cqe = (struct fakernic_cqe) {
        .timestamp = cpu_to_le64(fakernic_now()),
        .qpn = cpu_to_le32(c->qpn),
        .wqe_index = cpu_to_le32(c->wqe_index),
        .byte_count = cpu_to_le32(c->byte_count),
        .imm_or_key = cpu_to_le32(c->imm_or_key),
        .src_qpn = cpu_to_le32(c->src_qpn),
        .srqn = cpu_to_le32(c->srqn),
        .vendor_err = cpu_to_le16(c->vendor_err),
        .pkey_index = cpu_to_le16(c->pkey_index),
        .vlan = cpu_to_le16(c->vlan),
        .opcode = c->opcode,
        .status = c->status,
        .flags = c->flags,
        .sl = c->sl,
        .network_type = c->network_type,
    };
    memcpy(cqe->smac, c->smac, sizeof(cqe->smac));
}

/* ---- events, and their moderation ------------------------------------ */

static gint fakernic_cq_compare(gconstpointer a, gconstpointer b)
{
    const FakernicCq *x = a, *y = b;

    return x->deadline != y->deadline ? (x->deadline < y->deadline ? -1 : 1) :
           x->id != y->id ? (x->id < y->id ? -1 : 1) : 0;
}

static gboolean fakernic_cq_take_first(gpointer cq, gpointer value,
                                       gpointer first)
{
    *(FakernicCq **)first = cq;
    return true;
}

/* The CQ whose event is due first, or NULL. */
static FakernicCq *fakernic_cq_first_held(FakernicState *s)
{
    FakernicCq *first = NULL;

    g_tree_foreach(s->held_cqs, fakernic_cq_take_first, &first);
    return first;
}

static void fakernic_cq_unhold(FakernicState *s, FakernicCq *cq)
{
    cq->held = 0;
    if (cq->is_held) {
        g_tree_remove(s->held_cqs, cq);
        cq->is_held = false;
    }
}

static void fakernic_cq_raise(FakernicState *s, FakernicCq *cq)
{
    cq->arm = FAKERNIC_ARM_NONE;
    fakernic_cq_unhold(s, cq);
    fakernic_event(s, cq->eq, &cq->completion, FAKERNIC_EVENT_COMPLETION, 0);
}

/* Raises the event now, or holds it for more entries or for its period. */
static void fakernic_cq_hold(FakernicState *s, FakernicCq *cq)
{
    if (cq->held >= cq->count) {
        fakernic_cq_raise(s, cq);
    } else if (cq->period_us && !cq->is_held) {
        cq->deadline = fakernic_now() + cq->period_us * 1000LL;
        cq->is_held = true;
        g_tree_insert(s->held_cqs, cq, cq);
    }
}

void fakernic_cq_moderate(FakernicState *s, FakernicCq *cq, uint16_t count,
                          uint16_t period_us)
{
    const uint32_t held = cq->held;

    fakernic_cq_unhold(s, cq);
    cq->count = count;
    cq->period_us = period_us;
    if (held) {
        cq->held = held;
        fakernic_cq_hold(s, cq);
    }
}

RoceTime fakernic_cq_run(FakernicState *s, RoceTime now)
{
    FakernicCq *cq;
    bool lasts = true;

    while ((cq = fakernic_cq_first_held(s)) && cq->deadline <= now && lasts) {
        fakernic_cq_raise(s, cq);
        lasts = fakernic_spend(s, 1);
    }
    return cq ? cq->deadline : ROCE_TIME_NEVER;
}

/* Records when the application took entries, if it has stamped that. */
static void fakernic_cq_stamped(FakernicState *s, FakernicCq *cq)
{
    uint32_t ci;
    const uint64_t stamp = fakernic_ring_stamp(s, &cq->ring, &ci);

    if (stamp && ci != cq->stamped) {
        cq->stamped = ci;
        fakernic_record_mark(s, FAKERNIC_RECORD_POLL, cq->id, ci, stamp);
    }
}

/* ---- errors ---------------------------------------------------------- */

void fakernic_cq_join(FakernicCq *cq, FakernicCqUser *user)
{
    if (cq) {
        cq->users++;
        QLIST_INSERT_HEAD(&cq->fail_with, user, next);
    }
}

void fakernic_cq_leave(FakernicCq *cq, FakernicCqUser *user)
{
    if (cq) {
        cq->users--;
        QLIST_SAFE_REMOVE(user, next);
    }
}

/* Fails a QP (IBTA C10-76) or an XRC SRQ, which becomes unusable. */
static void fakernic_cq_tell(FakernicState *s, const FakernicCqUser *user)
{
    if (user->qp) {
        roce_qp_error(s->roce, fakernic_now(), user->qp->qpn,
                      FAKERNIC_VENDOR_CQ_OVERRUN);
    } else {
        fakernic_srq_fail(s, user->srq, FAKERNIC_VENDOR_CQ_OVERRUN);
    }
}

bool fakernic_cq_errors_run(FakernicState *s)
{
    FakernicCq *cq;

    while ((cq = QTAILQ_FIRST(&s->failed_cqs))) {
        FakernicCqUser *user = QLIST_FIRST(&cq->fail_with);

        if (user) {
            QLIST_SAFE_REMOVE(user, next);
            fakernic_cq_tell(s, user);
        } else {
            QTAILQ_REMOVE(&s->failed_cqs, cq, failed);
        }
        if (!fakernic_spend(s, 1)) {
            return true;
        }
    }
    return false;
}

void fakernic_cq_forget(FakernicState *s, FakernicCq *cq)
{
    fakernic_cq_stamped(s, cq);
    fakernic_cq_unhold(s, cq);
    fakernic_gate_forget_cq(s, cq->id);
    if (QTAILQ_IN_USE(cq, failed)) {
        QTAILQ_REMOVE(&s->failed_cqs, cq, failed);
    }
}

void fakernic_cqs_init(FakernicState *s)
{
    QTAILQ_INIT(&s->failed_cqs);
    s->held_cqs = g_tree_new(fakernic_cq_compare);
}

void fakernic_cqs_free(FakernicState *s)
{
    g_tree_unref(s->held_cqs);
}

/* ---- entries --------------------------------------------------------- */

/* journey: cq-fail */
static void fakernic_cq_error(FakernicState *s, FakernicCq *cq)
{
    trace_fakernic_err_cq(s->name, cq->id, cq->pi, cq->ci);
    s->stats[FAKERNIC_STAT_CQ_OVERRUNS]++;
    cq->error = true;
    QTAILQ_INSERT_TAIL(&s->failed_cqs, cq, failed);
    if (cq->held) {
        /* No more entries will come to fill up the held event. */
        fakernic_cq_raise(s, cq);
    }
    fakernic_event(s, NULL, &cq->async, FAKERNIC_EVENT_CQ_ERROR, 0);
}
/* journey: end */

void fakernic_cq_put(FakernicState *s, const RoceCompletion *completion,
                     const FakernicCqeFault *fault)
{
    FakernicCq *cq = fakernic_table_get(&s->cqs, completion->cqn);
    struct fakernic_cqe cqe;
    bool solicited;

    if (!cq || cq->error) {
        return;
    }
    if (completion->srqn &&
        !fakernic_table_get(&s->srqs, completion->srqn)) {
        /* The XRC SRQ was destroyed while a message was received into it. */
        return;
    }
    if (fakernic_gate_overruns(fault) || !fakernic_cq_has_room(s, cq)) {
        fakernic_cq_error(s, cq);
        return;
    }
    /* journey: cqe */
    fakernic_cqe_encode(&cqe, completion);
    cqe.owner = !(cq->pi & cq->ring.depth);
    fakernic_cq_stamped(s, cq);
    trace_fakernic_cqe(s->name, cq->id, cq->pi, completion->qpn,
                       completion->wqe_index, completion->opcode,
                       completion->status, completion->vendor_err);
    fakernic_gate_cqe_bytes(fault, &cqe, sizeof(cqe));
    fakernic_record(s, CQE, 0, cq->id, cq->pi, completion->qpn,
                    completion->wqe_index, completion->opcode,
                    completion->status, completion->vendor_err);
    if (!fakernic_ring_write(s, &cq->ring, cq->pi, &cqe, sizeof(cqe))) {
        fakernic_cq_error(s, cq);
        return;
    }
    fakernic_record(s, CQE_VISIBLE, 0, cq->id, cq->pi, completion->qpn,
                    completion->wqe_index);
    cq->pi++;
    /* journey: end */
    solicited = (completion->flags & FAKERNIC_CQE_SOLICITED) ||
                completion->status != FAKERNIC_WC_SUCCESS;
    if (solicited) {
        cq->solicited_pi = cq->pi;
    }
    if (cq->arm == FAKERNIC_ARM_ANY ||
        (cq->arm == FAKERNIC_ARM_SOLICITED && solicited)) {
        cq->held++;
        fakernic_cq_hold(s, cq);
    }
}

void fakernic_complete(void *host, const RoceCompletion *completion)
{
    FakernicState *s = host;
    const FakernicCqeFault *fault;

    if (fakernic_gate_cqe(s, &completion, &fault)) {
        fakernic_cq_put(s, completion, fault);
    }
}

void fakernic_cq_arm(FakernicState *s, FakernicCq *cq, uint32_t ci,
                     bool solicited)
{
    /* 'behind' is how many entries the driver has not seen. 'since' is invalid
     * if the indexes have wrapped after the last solicited entry. */
    const uint32_t behind = cq->pi - ci;
    const uint32_t since = cq->pi - cq->solicited_pi;

    fakernic_cq_stamped(s, cq);
    trace_fakernic_doorbell_cq_arm(s->name, cq->id, ci, cq->pi, solicited);
    fakernic_record(s, ARM, 0, cq->id, ci, cq->pi, solicited);
    /* IBTA 11.4.2.2: a request for any completion is not weakened. */
    if (!solicited) {
        cq->arm = FAKERNIC_ARM_ANY;
    } else if (cq->arm == FAKERNIC_ARM_NONE) {
        cq->arm = FAKERNIC_ARM_SOLICITED;
    }
    if ((int32_t)behind > 0 && (!solicited || since < behind)) {
        fakernic_cq_raise(s, cq);
    }
}
