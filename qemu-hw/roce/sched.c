/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Scheduling: a list of ready QPs, which are served in turn, a list of parked
 * QPs, whose next frame needs a wire that is blocked, and a binary heap of QPs
 * by deadline. The cost of an operation does not depend on the number of QPs
 * that exist or are ready. Heap operations depend on the logarithm of the
 * number of QPs with a timer.
 */
#include "engine.h"

#include <assert.h>

#define ROCE_HEAP_NONE UINT32_MAX

static void roce_list_remove(RoceQp *qp)
{
    RoceQpList *list = qp->listed;

    if (!list) {
        return;
    }
    *(qp->prev ? &qp->prev->next : &list->head) = qp->next;
    *(qp->next ? &qp->next->prev : &list->tail) = qp->prev;
    qp->next = qp->prev = NULL;
    qp->listed = NULL;
}

static void roce_list_append(RoceQpList *list, RoceQp *qp)
{
    roce_list_remove(qp);
    qp->listed = list;
    qp->prev = list->tail;
    *(list->tail ? &list->tail->next : &list->head) = qp;
    list->tail = qp;
}

static void roce_list_prepend(RoceQpList *list, RoceQp *qp)
{
    roce_list_remove(qp);
    qp->listed = list;
    qp->next = list->head;
    *(list->head ? &list->head->prev : &list->tail) = qp;
    list->head = qp;
}

void roce_sched_ready(Roce *r, RoceQp *qp)
{
    if (qp->listed != &r->ready) {
        roce_list_append(&r->ready, qp);
    }
}

void roce_sched_served(Roce *r, RoceQp *qp, size_t len)
{
    if (r->served != qp) {
        r->served = qp;
        r->share_left = ROCE_SHARE_BYTES;
    }
    if (len < r->share_left) {
        r->share_left -= len;
        roce_list_prepend(&r->ready, qp);
    } else {
        r->served = NULL;
        roce_list_append(&r->ready, qp);
    }
}

void roce_sched_park(Roce *r, RoceQp *qp)
{
    if (!qp->listed) {
        roce_list_append(&r->parked, qp);
    }
}

/* Parked QPs have waited longer. */
static RoceQp *roce_sched_peek(const Roce *r)
{
    return !r->wire_blocked && r->parked.head ? r->parked.head : r->ready.head;
}

bool roce_sched_has_next(const Roce *r)
{
    return roce_sched_peek(r) != NULL;
}

RoceQp *roce_sched_next(Roce *r)
{
    RoceQp *qp = roce_sched_peek(r);

    if (qp) {
        roce_list_remove(qp);
    }
    r->wire_wanted = false;
    return qp;
}

static void roce_heap_place(Roce *r, uint32_t i, RoceQp *qp)
{
    r->heap[i] = qp;
    qp->heap_index = i;
}

static void roce_heap_up(Roce *r, uint32_t i)
{
    RoceQp *qp = r->heap[i];

    while (i > 0 && qp->deadline < r->heap[(i - 1) / 2]->deadline) {
        roce_heap_place(r, i, r->heap[(i - 1) / 2]);
        i = (i - 1) / 2;
    }
    roce_heap_place(r, i, qp);
}

static void roce_heap_down(Roce *r, uint32_t i)
{
    RoceQp *qp = r->heap[i];

    while (2 * i + 1 < r->heap_count) {
        uint32_t child = 2 * i + 1;

        if (child + 1 < r->heap_count &&
            r->heap[child + 1]->deadline < r->heap[child]->deadline) {
            child++;
        }
        if (qp->deadline <= r->heap[child]->deadline) {
            break;
        }
        roce_heap_place(r, i, r->heap[child]);
        i = child;
    }
    roce_heap_place(r, i, qp);
}

static void roce_heap_remove(Roce *r, RoceQp *qp)
{
    uint32_t i = qp->heap_index;
    RoceQp *last = r->heap[--r->heap_count];

    qp->heap_index = ROCE_HEAP_NONE;
    if (last != qp) {
        roce_heap_place(r, i, last);
        roce_heap_up(r, i);
        roce_heap_down(r, last->heap_index);
    }
}

void roce_sched_timer(Roce *r, RoceQp *qp)
{
    const bool busy = roce_retry_awaits(&qp->retry);
    RoceTime deadline = qp->retry.deadline < qp->flush_at
                            ? qp->retry.deadline : qp->flush_at;

    if (busy != qp->busy) {
        qp->busy = busy;
        r->busy_count += busy ? 1 : UINT32_MAX;
    }
    if (qp->pace.wake < deadline) {
        deadline = qp->pace.wake;
    }
    if (deadline == qp->deadline) {
        return;
    }
    qp->deadline = deadline;
    if (deadline == ROCE_TIME_NEVER) {
        roce_heap_remove(r, qp);
        return;
    }
    if (qp->heap_index == ROCE_HEAP_NONE) {
        assert(r->heap_count < r->limits.max_qp);
        roce_heap_place(r, r->heap_count++, qp);
    }
    roce_heap_up(r, qp->heap_index);
    roce_heap_down(r, qp->heap_index);
}

RoceQp *roce_sched_first(const Roce *r)
{
    return r->heap_count > 0 ? r->heap[0] : NULL;
}

void roce_sched_remove(Roce *r, RoceQp *qp)
{
    roce_retry_stop(&qp->retry);
    qp->flush_at = ROCE_TIME_NEVER;
    qp->pace.wake = ROCE_TIME_NEVER;
    roce_sched_timer(r, qp);
    roce_list_remove(qp);
}

void roce_sched_flush_wait(Roce *r, RoceQp *qp)
{
    RoceResponder *rs = &qp->rs;

    if (rs->flush_waits) {
        return;
    }
    rs->flush_waits = true;
    rs->flush_next = NULL;
    rs->flush_prev = r->flush_tail;
    if (rs->flush_prev) {
        rs->flush_prev->rs.flush_next = qp;
    } else {
        r->flush_head = qp;
    }
    r->flush_tail = qp;
}

void roce_sched_flush_wake(Roce *r, RoceQp *qp)
{
    RoceResponder *rs = &qp->rs;

    if (!rs->flush_waits) {
        return;
    }
    rs->flush_waits = false;
    if (rs->flush_next) {
        rs->flush_next->rs.flush_prev = rs->flush_prev;
    } else {
        r->flush_tail = rs->flush_prev;
    }
    if (rs->flush_prev) {
        rs->flush_prev->rs.flush_next = rs->flush_next;
    } else {
        r->flush_head = rs->flush_next;
    }
}

/* ---- saving and loading -------------------------------------------------- */

/* The list's QPs in order, and 0. */
static void sched_list_transfer(RoceStream *s, Roce *r, RoceQpList *list)
{
    RoceQp *qp = list->head, *each;

    do {
        each = qp;
        roce_stream_qp(s, r, &each);
        ROCE_CHECK(s, !each || !each->listed, "list of queue pairs");
        if (s->loads && each && !s->failed) {
            roce_list_append(list, each);
        }
        qp = s->loads || !qp ? NULL : qp->next;
    } while (each && !s->failed);
    ROCE_DERIVED(list->tail);
}

static void sched_flush_transfer(RoceStream *s, Roce *r)
{
    RoceQp *qp = r->flush_head, *each;

    do {
        each = qp;
        roce_stream_qp(s, r, &each);
        ROCE_CHECK(s, !each || !each->rs.flush_waits, "list of FLUSHes");
        if (s->loads && each && !s->failed) {
            roce_sched_flush_wait(r, each);
        }
        qp = s->loads || !qp ? NULL : qp->rs.flush_next;
    } while (each && !s->failed);
    ROCE_DERIVED(r->flush_tail);
}

/* A load derives the deadline of each QP, then places it where it was. */
static void sched_derive(Roce *r, RoceQp *qp)
{
    qp->deadline = qp->retry.deadline < qp->flush_at ? qp->retry.deadline
                                                     : qp->flush_at;
    if (qp->pace.wake < qp->deadline) {
        qp->deadline = qp->pace.wake;
    }
    qp->busy = roce_retry_awaits(&qp->retry);
    r->busy_count += qp->busy;
}

static void sched_heap_transfer(RoceStream *s, Roce *r)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < r->limits.max_qp; i++) {
        if (r->qps[i] && s->loads) {
            sched_derive(r, r->qps[i]);
        }
        count += r->qps[i] && r->qps[i]->deadline != ROCE_TIME_NEVER;
    }
    for (uint32_t i = 0; i < count && !s->failed; i++) {
        RoceQp *qp = s->loads ? NULL : r->heap[i];

        roce_stream_qp(s, r, &qp);
        ROCE_CHECK(s, qp && qp->deadline != ROCE_TIME_NEVER &&
                          qp->heap_index == ROCE_HEAP_NONE &&
                          (i == 0 ||
                           r->heap[(i - 1) / 2]->deadline <= qp->deadline),
                   "order of deadlines");
        if (s->loads && !s->failed) {
            roce_heap_place(r, i, qp);
            r->heap_count = i + 1;
        }
    }
    ROCE_DERIVED(r->heap_count);
    ROCE_DERIVED(r->busy_count);
    /* The reset after a failed load finds only what is in the heap. */
    for (uint32_t i = 0; s->failed && i < r->limits.max_qp; i++) {
        if (r->qps[i] && r->qps[i]->heap_index == ROCE_HEAP_NONE) {
            r->qps[i]->deadline = ROCE_TIME_NEVER;
        }
    }
}

void roce_sched_transfer(RoceStream *s, Roce *r)
{
    RoceQp *served = r->served ? r->qps[r->served->qpn] : NULL;
    uint64_t left = r->share_left;

    sched_list_transfer(s, r, &r->ready);
    sched_list_transfer(s, r, &r->parked);
    sched_flush_transfer(s, r);
    sched_heap_transfer(s, r);
    roce_stream_qp(s, r, &served);
    ROCE_FIELD(s, left);
    ROCE_FIELD(s, r->wire_blocked);
    ROCE_DERIVED(r->wire_wanted);       /* only within roce_output() */
    r->served = served;
    r->share_left = (size_t)left;
}
