/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Time: the device clock, and the engine's next deadline on a QEMU timer.
 *
 * The clock is the virtual one, so that a stopped VM does not time out. A timer
 * that is armed too early is left alone: firing once for nothing is cheaper
 * than moving it at every packet.
 */
#include "qemu/osdep.h"
#include "fakernic.h"

RoceTime fakernic_now(void)
{
    return qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL);
}

static void fakernic_timer(void *opaque)
{
    FakernicState *s = opaque;

    s->timer_deadline = ROCE_TIME_NEVER;
    fakernic_pump(s);
}

void fakernic_clock_init(FakernicState *s)
{
    s->timer = timer_new_ns(QEMU_CLOCK_VIRTUAL, fakernic_timer, s);
    s->timer_deadline = ROCE_TIME_NEVER;
}

void fakernic_clock_set(FakernicState *s, RoceTime deadline)
{
    if (deadline < s->timer_deadline) {
        s->timer_deadline = deadline;
        timer_mod_ns(s->timer, deadline);
    } else if (deadline == ROCE_TIME_NEVER &&
               s->timer_deadline != ROCE_TIME_NEVER) {
        s->timer_deadline = ROCE_TIME_NEVER;
        timer_del(s->timer);
    }
}

void fakernic_clock_cleanup(FakernicState *s)
{
    timer_free(s->timer);
    s->timer = NULL;
}
