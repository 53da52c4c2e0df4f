/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The budget of a turn: counts the work of stations, and notes when there is
 * more. doors.c begins and ends turns; this file is below all stations.
 *
 * Work is counted in units so that tests can assert a bound. It is also timed,
 * because a unit is only roughly a microsecond. The host's clock is used: the
 * bound is on how long others wait for the main loop. It is read once in
 * several units.
 *
 * Tests check that steps do not cost more than they charge (x-cost-limit). They
 * use the thread's CPU time, which other programs hardly affect.
 */
#include "qemu/osdep.h"
#include "qemu/error-report.h"
#include "qemu/main-loop.h"
#include "qemu/timer.h"
#include "budget.h"
#include "state.h"

#define FAKERNIC_UNITS_PER_LOOK 16
/* CPU time that every step may take in addition. Interrupts of a busy host are
 * accounted to the thread: steps without any work took up to half of it. */
#define FAKERNIC_STEP_FREE_NS 1000000

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
    s->costs.declared += work;
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

static int64_t fakernic_cpu_time(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * NANOSECONDS_PER_SECOND + now.tv_nsec;
}

void fakernic_step_begin(FakernicState *s)
{
    if (s->costs.limit) {
        s->costs.declared = 0;
        s->costs.began = fakernic_cpu_time();
    }
}

void fakernic_step_end(FakernicState *s, const char *station)
{
    FakernicCosts *c = &s->costs;
    int64_t took;

    if (!c->limit) {
        return;
    }
    do {
        took = fakernic_cpu_time() - c->began;
    } while (took < c->planted * 1000LL);
    c->planted = 0;
    if (took > FAKERNIC_STEP_FREE_NS &&
        took > (int64_t)c->limit * c->declared) {
        c->found++;
        warn_report("fakernic: a step of %s took %" PRId64 " us of CPU time and "
                    "counted as %u units", station, took / 1000, c->declared);
    }
    fakernic_step_begin(s);
}

void fakernic_kick(FakernicState *s)
{
    s->kicked = true;
    if (!s->inside && s->bh) {
        qemu_bh_schedule(s->bh);
    }
}
