/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Time: the device clock, and the engine's next deadline on a QEMU timer.
 *
 * The virtual clock is used, so that a stopped VM does not time out. A timer
 * that is armed too early stays armed. Firing once without need is cheaper than
 * moving the timer at each packet, which may wake the main loop each time.
 */
#include "qemu/osdep.h"
#include "clock.h"
#include "state.h"

RoceTime fakernic_now(void)
{
    return qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL);
}

void fakernic_clock_init(FakernicState *s, QEMUTimerCB *fire)
{
    s->timer = timer_new_ns(QEMU_CLOCK_VIRTUAL, fire, s);
    s->timer_deadline = ROCE_TIME_NEVER;
}

void fakernic_clock_fired(FakernicState *s)
{
    s->timer_deadline = ROCE_TIME_NEVER;
}

void fakernic_clock_set(FakernicState *s, RoceTime deadline)
{
    if (deadline < s->timer_deadline) {
        s->timer_deadline = deadline;
        timer_mod_ns(s->timer, deadline);
    }
}

void fakernic_clock_cleanup(FakernicState *s)
{
    timer_free(s->timer);
    s->timer = NULL;
}
