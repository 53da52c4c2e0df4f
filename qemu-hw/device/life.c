/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The life of the device: reasons that stop it, fatal errors, reset, unplug.
 *
 * A reset and an unplug free the objects that the device works on, and its own
 * work can cause both. So a reset waits until no work is on the stack, and the
 * unplug until no door is (doors.c). Freeing may take several turns. Until it
 * is complete the device is held, and nothing new enters it.
 */
#include "qemu/osdep.h"
#include "qemu/main-loop.h"
#include "budget.h"
#include "clock.h"
#include "dm.h"
#include "cmd/dump.h"
#include "queue/interrupt.h"
#include "life.h"
#include "objects.h"
#include "persist.h"
#include "port/port.h"
#include "watch/record.h"
#include "queue/eq.h"
#include "state.h"
#include "../trace.h"

void fakernic_hold(FakernicState *s, unsigned reason, bool hold)
{
    const unsigned was = s->held;

    s->held = hold ? was | reason : was & ~reason;
    if (s->held != was) {
        trace_fakernic_held(s->name, s->held);
        fakernic_record(s, HELD, 0, s->held);
    }
    if (was && !s->held) {
        fakernic_kick(s);
    }
}

void fakernic_fatal(FakernicState *s, enum fakernic_fatal_code code)
{
    trace_fakernic_err_fatal(s->name, code);
    fakernic_record(s, FATAL, 0, code);
    fakernic_record_keep(s, true);
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

static void fakernic_reset_registers(FakernicState *s, uint32_t status)
{
    s->control = 0;
    s->status = status;
    s->fatal_code = FAKERNIC_FATAL_NONE;
    s->test = 0;
    s->driver_features = 0;
    s->clock_high = 0;
    memset(&s->cmdq, 0, sizeof(s->cmdq));
}

/* Engine objects that one step frees, and the units that each counts as: it
 * owns several allocations. */
#define FAKERNIC_FREED_AT_ONCE 16
#define FAKERNIC_FREED_WORK 4
/* Units for emptying all tables of the engine, which completes its reset. */
#define FAKERNIC_EMPTY_WORK 16

/*
 * Frees objects within the budget; true: all are freed. The engine is last: a
 * further call after it has finished would empty its tables again.
 */
static bool fakernic_free_some(FakernicState *s)
{
    if (!fakernic_objects_free_some(s)) {
        return false;
    }
    while (!roce_reset_some(s->roce, FAKERNIC_FREED_AT_ONCE)) {
        if (!fakernic_spend(s, FAKERNIC_FREED_AT_ONCE * FAKERNIC_FREED_WORK)) {
            return false;
        }
    }
    fakernic_spend(s, FAKERNIC_EMPTY_WORK);
    return true;
}

static void fakernic_reset_begin(FakernicState *s)
{
    trace_fakernic_reset(s->name);
    s->reset_wanted = false;
    fakernic_record(s, RESET, 0, 0);
    fakernic_clock_set(s, ROCE_TIME_NEVER);
    s->interrupts = 0;
    s->kicked = false;
    /* New memory has zeroes, until the migration fills it. */
    s->dm_zeroed = s->saved.has_dm || runstate_check(RUN_STATE_INMIGRATE)
                       ? s->dm_size : 0;
    fakernic_persist_forget(s);
    fakernic_reset_registers(s, 0);
}

static void fakernic_reset_end(FakernicState *s)
{
    fakernic_objects_free(s);
    fakernic_objects_init(s);
    fakernic_reset_registers(s, FAKERNIC_STATUS_READY);
    fakernic_port_reset(s);
    fakernic_fault_reset(s);
    fakernic_dump_forget(s);
    fakernic_budget_renew(s);
    s->saved.foreign = 0;
    fakernic_hold(s, FAKERNIC_HELD_RESET | FAKERNIC_HELD_FAULT |
                     FAKERNIC_HELD_DEAD, false);
    /* QEMU may have queued frames during suspend without calling the device. */
    s->frames_wait = true;
}

void fakernic_reset(FakernicState *s)
{
    if (s->held & FAKERNIC_HELD_LEAVING) {
        return;
    }
    fakernic_hold(s, FAKERNIC_HELD_RESET, true);
    s->reset_wanted = true;
    if (!s->working) {
        fakernic_life_settle(s);
    }
}

void fakernic_life_settle(FakernicState *s)
{
    if (!(s->held & FAKERNIC_HELD_RESET) ||
        (s->held & FAKERNIC_HELD_LEAVING)) {
        return;
    }
    if (s->reset_wanted) {
        fakernic_reset_begin(s);
    }
    if (fakernic_budget_left(s) && fakernic_dm_zero_some(s) &&
        fakernic_free_some(s)) {
        fakernic_reset_end(s);
    } else {
        qemu_bh_schedule(s->bh);
    }
}

bool fakernic_life_end(FakernicState *s)
{
    bool done;

    fakernic_fault_reset(s);
    fakernic_persist_forget(s);
    fakernic_budget_renew(s);
    done = fakernic_free_some(s);
    if (done) {
        fakernic_objects_free(s);
        roce_free(s->roce);
        s->roce = NULL;
        s->stats = NULL;        /* the engine owned them */
        fakernic_dump_forget(s);
        g_clear_pointer(&s->fault_refused, g_free);
    }
    return done;
}
