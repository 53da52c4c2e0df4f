/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One pacer per QP: the slowest of the static rate of its path (IBTA 9.11),
 * its rate limit and DCQCN. Request frames and READ data take turns under it.
 * ACKs, NAKs, atomic answers and CNPs are not delayed, because a peer waits
 * for them. A QP whose turn has not come leaves the ready list, and its timer
 * wakes it. So it delays no other QP.
 */
#include "engine.h"

/*
 * The host's timer may be late. A QP may make up for what it did not use of
 * the last millisecond, so that its average rate is right.
 */
#define ROCE_PACER_BURST_NS 1000000

void roce_pacer_init(RoceQp *qp)
{
    qp->pace.next = 0;
    qp->pace.wake = ROCE_TIME_NEVER;
    roce_dcqcn_init(&qp->pace.dcqcn);
}

uint32_t roce_pacer_link_kbps(const Roce *r)
{
    return r->limits.link_kbps ? r->limits.link_kbps : ROCE_DCQCN_LINK_KBPS;
}

bool roce_pacer_wait(Roce *r, RoceTime now, RoceQp *qp)
{
    RoceTime wake = qp->pace.next > now ? qp->pace.next : ROCE_TIME_NEVER;

    if (wake != qp->pace.wake) {
        qp->pace.wake = wake;
        roce_sched_timer(r, qp);
    }
    return wake != ROCE_TIME_NEVER;
}

void roce_pacer_turn(Roce *r, RoceQp *qp)
{
    qp->pace.wake = ROCE_TIME_NEVER;
    roce_sched_timer(r, qp);
    roce_sched_ready(r, qp);
}

void roce_pacer_restart(Roce *r, RoceQp *qp)
{
    qp->pace.next = 0;
    roce_pacer_turn(r, qp);
}

/* The lower of two rates; 0 is no limit. */
static uint32_t roce_pacer_lower(uint32_t a, uint32_t b)
{
    return a != 0 && (b == 0 || a < b) ? a : b;
}

bool roce_pacer_charge(Roce *r, RoceTime now, RoceQp *qp, uint8_t static_rate,
                       size_t len)
{
    uint32_t link = roce_pacer_link_kbps(r);
    uint32_t kbps = roce_pacer_lower(roce_rate_static_kbps(static_rate),
                                     qp->attr.rate_limit_kbps);
    RoceTime earliest = now - ROCE_PACER_BURST_NS;

    kbps = roce_pacer_lower(kbps, roce_dcqcn_rate(&qp->pace.dcqcn, now, link));
    if (kbps == 0) {
        return false;
    }
    roce_dcqcn_sent(&qp->pace.dcqcn, len, link);
    if (qp->pace.next < earliest) {
        qp->pace.next = earliest;
    }
    qp->pace.next += roce_rate_cost_ns(len, kbps);
    return true;
}
