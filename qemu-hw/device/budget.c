/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The budget of a turn: what the work of stations is counted by, and the note
 * that there is more. doors.c begins and ends turns; this is below all
 * stations.
 *
 * Work is counted so that tests can assert its bound, and timed because a unit
 * is only about a microsecond. The clock is the host's: what is bounded is how
 * long others wait for the main loop. It is read once in a few units.
 */
#include "qemu/osdep.h"
#include "qemu/main-loop.h"
#include "qemu/timer.h"
#include "budget.h"
#include "state.h"

#define FAKERNIC_UNITS_PER_LOOK 16

static int64_t fakernic_host_time(void)
{
    return qemu_clock_get_ns(QEMU_CLOCK_REALTIME);
}

bool fakernic_spend(FakernicState *s, unsigned work)
{
    FakernicBudget *b = &s->budget;

    if (!b->used) {
        b->ends = fakernic_host_time() + s->turn_us * 1000LL;
        b->look = FAKERNIC_UNITS_PER_LOOK;
    }
    b->used += work;
    if (b->used >= b->look) {
        b->look = b->used + FAKERNIC_UNITS_PER_LOOK;
        b->over |= fakernic_host_time() >= b->ends;
    }
    b->over |= b->used >= s->turn_work;
    return !b->over;
}

bool fakernic_budget_left(const FakernicState *s)
{
    return !s->budget.over;
}

void fakernic_budget_renew(FakernicState *s)
{
    s->longest_turn = MAX(s->longest_turn, s->budget.used);
    s->budget.used = 0;
    s->budget.over = false;
}

void fakernic_kick(FakernicState *s)
{
    s->kicked = true;
    if (!s->inside && s->bh) {
        qemu_bh_schedule(s->bh);
    }
}
