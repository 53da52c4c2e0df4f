/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The life of the device: what holds it, how it dies, how it begins anew, how
 * it ends.
 *
 * A reset and the end free what the device works on. Both may come from the
 * device's own doing, so a reset waits until no work is on the stack, and the
 * end until no door is (doors.c).
 */
#include "qemu/osdep.h"
#include "qemu/main-loop.h"
#include "budget.h"
#include "clock.h"
#include "dm.h"
#include "interrupt.h"
#include "life.h"
#include "objects.h"
#include "port.h"
#include "../trace.h"

void fakernic_hold(FakernicState *s, unsigned reason, bool hold)
{
    const unsigned was = s->held;

    s->held = hold ? was | reason : was & ~reason;
    if (s->held != was) {
        trace_fakernic_held(s->held);
    }
    if (was && !s->held) {
        fakernic_kick(s);
    }
}

void fakernic_fatal(FakernicState *s, enum fakernic_fatal_code code)
{
    trace_fakernic_err_fatal(code);
    FAKERNIC_GUEST_ERR("fatal error %u, reset needed", code);
    s->fatal_code = code;
    if (s->status & FAKERNIC_STATUS_ENABLED) {
        fakernic_event(s, NULL, &s->device_events,
                       FAKERNIC_EVENT_DEVICE_FATAL, code);
    }
    s->status |= FAKERNIC_STATUS_FATAL;
    fakernic_clock_set(s, ROCE_TIME_NEVER);
    fakernic_interrupt(s, FAKERNIC_VECTOR_CMDQ);
}

void fakernic_thaw(FakernicState *s)
{
    if (!(s->held & FAKERNIC_HELD_FAULT)) {
        return;
    }
    if (fakernic_now() < s->faults.thaw) {
        fakernic_clock_set(s, s->faults.thaw);
        return;
    }
    s->faults.frozen_by[0] = '\0';
    fakernic_hold(s, FAKERNIC_HELD_FAULT, false);
}

static void fakernic_reset_registers(FakernicState *s)
{
    s->control = 0;
    s->status = FAKERNIC_STATUS_READY;
    s->fatal_code = FAKERNIC_FATAL_NONE;
    s->test = 0;
    s->driver_features = 0;
    s->clock_high = 0;
    memset(&s->cmdq, 0, sizeof(s->cmdq));
}

static void fakernic_reset_now(FakernicState *s)
{
    trace_fakernic_reset();
    fakernic_clock_set(s, ROCE_TIME_NEVER);
    s->interrupts = 0;
    s->kicked = false;
    roce_reset(s->roce);
    fakernic_objects_free(s);
    fakernic_objects_init(s);
    fakernic_reset_registers(s);
    fakernic_port_reset(s);
    fakernic_dm_reset(s);
    fakernic_fault_reset(s);
    fakernic_hold(s, FAKERNIC_HELD_RESET | FAKERNIC_HELD_FAULT |
                     FAKERNIC_HELD_DEAD, false);
}

void fakernic_reset(FakernicState *s)
{
    if (s->held & FAKERNIC_HELD_LEAVING) {
        return;
    }
    if (s->working) {
        fakernic_hold(s, FAKERNIC_HELD_RESET, true);
    } else {
        fakernic_reset_now(s);
    }
}

void fakernic_life_settle(FakernicState *s)
{
    if ((s->held & FAKERNIC_HELD_RESET) && !(s->held & FAKERNIC_HELD_LEAVING)) {
        fakernic_reset_now(s);
    }
}

void fakernic_life_end(FakernicState *s)
{
    fakernic_fault_reset(s);
    fakernic_objects_free(s);
    roce_free(s->roce);
    s->roce = NULL;
}
