/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Scheduling: a list of QPs that may have frames to send, served in turn, and a
 * binary heap of QPs by deadline. Nothing here depends on how many QPs exist or
 * are ready, only the heap's logarithm on how many have a timer.
 */
#include "engine.h"

#include <assert.h>

#define ROCE_HEAP_NONE UINT32_MAX

void roce_sched_ready(Roce *r, RoceQp *qp)
{
    if (qp->ready) {
        return;
    }
    qp->ready = true;
    qp->ready_next = NULL;
    qp->ready_prev = r->ready_tail;
    if (r->ready_tail) {
        r->ready_tail->ready_next = qp;
    } else {
        r->ready_head = qp;
    }
    r->ready_tail = qp;
}

static void roce_ready_remove(Roce *r, RoceQp *qp)
{
    if (!qp->ready) {
        return;
    }
    *(qp->ready_prev ? &qp->ready_prev->ready_next : &r->ready_head) =
        qp->ready_next;
    *(qp->ready_next ? &qp->ready_next->ready_prev : &r->ready_tail) =
        qp->ready_prev;
    qp->ready_next = qp->ready_prev = NULL;
    qp->ready = false;
}

RoceQp *roce_sched_next(Roce *r)
{
    RoceQp *qp = r->ready_head;

    if (qp) {
        roce_ready_remove(r, qp);
    }
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
    RoceTime deadline = qp->retry.deadline < qp->flush_at
                            ? qp->retry.deadline : qp->flush_at;

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
    roce_ready_remove(r, qp);
}
