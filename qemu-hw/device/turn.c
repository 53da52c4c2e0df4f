/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A turn: after each event (a doorbell, a command, a frame, a deadline, a wire
 * that takes frames again) the device does the work that is ready. It stops at
 * its budget and leaves the rest to the bottom half.
 *
 * Only a turn takes frames from the engine. So it is also the place that
 * reports to the engine the errors that its downcalls found. Sending a frame
 * may deliver another one to this device (a hub, a peer in the same process),
 * reset it or unplug it. So the turn checks after each frame whether the device
 * still runs.
 */
#include "qemu/osdep.h"
#include "bar.h"
#include "budget.h"
#include "clock.h"
#include "queue/interrupt.h"
#include "life.h"
#include "persist.h"
#include "port/port.h"
#include "watch/record.h"
#include "turn.h"
#include "queue/eq.h"
#include "queue/cq.h"
#include "state.h"
#include "../trace.h"

#define FAKERNIC_STEPS_PER_UNIT 4
/* Page addresses of destroyed memory regions that one turn frees. */
#define FAKERNIC_RECLAIM_PER_TURN (128 * KiB)

bool fakernic_turn_lasts(FakernicState *s, unsigned work)
{
    const uint64_t units = (roce_work(s->roce) - s->engine_work) /
                           FAKERNIC_STEPS_PER_UNIT;

    s->engine_work += units * FAKERNIC_STEPS_PER_UNIT;
    return fakernic_spend(s, work + units);
}

void fakernic_turn_step(FakernicState *s, const char *station)
{
    if (s->costs.limit) {
        fakernic_turn_lasts(s, 0);
        fakernic_step_end(s, station);
    }
}

/*
 * Runs the timers and flushes that are due, within the budget. The turn may be
 * late itself. So it first takes the frames that wait on the link: a timer must
 * not expire although the answer has arrived.
 */
static void fakernic_turn_ticks(FakernicState *s, RoceTime now)
{
    if (s->link && roce_deadline(s->roce) <= now) {
        fakernic_link_look(s->link);
    }
    while (roce_deadline(s->roce) <= now) {
        bool lasts;

        roce_tick(s->roce, now);
        lasts = fakernic_turn_lasts(s, 1);
        fakernic_turn_step(s, "timers");
        if (!lasts) {
            return;
        }
    }
}

static void fakernic_turn_reclaim(FakernicState *s)
{
    if (!roce_reclaim(s->roce, FAKERNIC_RECLAIM_PER_TURN)) {
        fakernic_spend(s, FAKERNIC_RECLAIM_PER_TURN / FAKERNIC_PAGE_SIZE);
        fakernic_kick(s);
    }
}

static void fakernic_turn_send(FakernicState *s, uint8_t *frame, size_t len,
                               bool loopback)
{
    if (loopback) {
        fakernic_port_loopback(s, frame, len);
    } else {
        fakernic_port_send(s, frame, len);
    }
}

/* Sends the engine's frame, unless a fault rule drops or holds it. */
static void fakernic_turn_send_faulty(FakernicState *s, size_t len,
                                      bool loopback)
{
    const RoceFrameInfo *info = roce_output_info(s->roce);
    RoceFaultSubject subject = {
        .point = ROCE_FAULT_TX, .qpn = info->qpn, .index = info->index,
        .attempt = info->attempt,
    };

    if (fakernic_fault_frame(s, &subject, s->frame, &len, loopback)) {
        fakernic_turn_send(s, s->frame, len, loopback);
    }
}

static void fakernic_turn_held_frame(FakernicState *s, FakernicHeld *held)
{
    if (held->point == ROCE_FAULT_TX) {
        fakernic_turn_send(s, held->frame, held->len, held->loopback);
    } else if (held->loopback) {
        roce_input(s->roce, fakernic_now(), held->frame, held->len);
    } else {
        fakernic_port_take(s, held->frame, held->len);
    }
}

/* Resumes an EQ that a fault rule stalled, if it still exists. */
static void fakernic_turn_eq(FakernicState *s, uint32_t eqn)
{
    FakernicEq *eq = fakernic_table_get(&s->eqs, eqn);

    if (eq) {
        fakernic_eq_flush(s, eq);
    }
}

/* Resumes an SQ that a fault rule stalled: the engine fetches its next WQE. */
static void fakernic_turn_sq(FakernicState *s, uint32_t qpn)
{
    if (fakernic_qp(s, qpn)) {
        roce_post_send(s->roce, fakernic_now(), qpn);
    }
}

/* Releases one item that a fault rule held; false: none is due. */
static bool fakernic_turn_held(FakernicState *s, FakernicGoes which)
{
    g_autofree FakernicHeld *held = fakernic_fault_due(s, fakernic_now(),
                                                       which);

    if (!held) {
        return false;
    }
    switch (held->point) {
    case ROCE_FAULT_DOORBELL:
        fakernic_doorbell_hear(s, held->offset, held->word);
        break;
    case ROCE_FAULT_CMD_DOORBELL:
        fakernic_cmdq_doorbell_late(s, held->word);
        break;
    case ROCE_FAULT_CQE:
        fakernic_cq_put(s, &held->completion, &held->fault);
        break;
    case ROCE_FAULT_EQE:
        fakernic_turn_eq(s, held->number);
        break;
    case ROCE_FAULT_SEND_WQE:
        fakernic_turn_sq(s, held->number);
        break;
    case ROCE_FAULT_INTERRUPT:
        s->faults.judged |= BIT_ULL(held->number);
        fakernic_interrupt(s, held->number);
        break;
    default:
        fakernic_turn_held_frame(s, held);
        break;
    }
    return true;
}

/* While the wire is blocked, frames for it stay held. */
static FakernicGoes fakernic_turn_which(FakernicState *s)
{
    return fakernic_port_must_wait(s) ? FAKERNIC_GOES_UNSENT
                                      : FAKERNIC_GOES_ALL;
}

/* Releases all held items that are due, within the budget. */
static void fakernic_turn_release(FakernicState *s)
{
    while (fakernic_fault_holds(s) && fakernic_is_running(s) &&
           fakernic_turn_lasts(s, 1) &&
           fakernic_turn_held(s, fakernic_turn_which(s))) {
    }
}

void fakernic_turn_received(FakernicState *s)
{
    while (fakernic_fault_holds(s) && fakernic_is_running(s) &&
           fakernic_turn_lasts(s, 1) &&
           fakernic_turn_held(s, FAKERNIC_GOES_RECEIVED)) {
    }
}

/* Applies a fault rule that acts on the whole device. */
static void fakernic_turn_fault(FakernicState *s)
{
    const bool link_up = fakernic_port_link_up(s);
    const RoceFaultRule *rule = fakernic_fault_device(s);

    switch (rule ? rule->act : ROCE_FAULT_COUNT) {
    case ROCE_FAULT_FATAL:
        fakernic_fatal(s, rule->code ? rule->code : FAKERNIC_FATAL_FAULT);
        break;
    case ROCE_FAULT_FREEZE:
        fakernic_hold(s, FAKERNIC_HELD_FAULT, true);
        fakernic_thaw(s);
        break;
    case ROCE_FAULT_DEAD:
        fakernic_hold(s, FAKERNIC_HELD_DEAD, true);
        break;
    case ROCE_FAULT_AER:
        fakernic_aer(s, rule->severity);
        break;
    case ROCE_FAULT_LINK_DOWN:
        /* A rule that hits every turn must raise one event only. */
        if (link_up) {
            fakernic_port_link_changed(s);
        }
        break;
    default:
        break;
    }
}

/*
 * The part of a turn that serves fault rules. False: the device stopped.
 */
static bool fakernic_turn_faults(FakernicState *s)
{
    if (roce_fault_at(&s->faults.rules, ROCE_FAULT_DEVICE)) {
        fakernic_turn_fault(s);
    }
    if (fakernic_fault_link_back(s)) {
        fakernic_port_link_changed(s);
    }
    fakernic_turn_release(s);
    return fakernic_is_running(s);
}

static void fakernic_turn_trace(FakernicState *s, size_t len, bool loopback)
{
    const RoceFrameInfo *info = roce_output_info(s->roce);

    if (info->roce) {
        trace_fakernic_tx(s->name, info->qpn, info->peer, info->index,
                          info->psn, info->opcode, info->attempt);
    }
    fakernic_record(s, TX, 0, info->qpn, info->peer, info->index, info->psn,
                    info->opcode, info->attempt, len, loopback, info->roce);
}

/* journey: turn */
/*
 * Sends the engine's next frame; false: there is none. While the wire is
 * blocked, the engine makes loopback frames only.
 */
static bool fakernic_turn_frame(FakernicState *s)
{
    bool loopback = false;
    size_t len;

    roce_set_wire(s->roce, !fakernic_port_must_wait(s));
    len = roce_output(s->roce, fakernic_now(), s->frame, &loopback);
    if (!len) {
        return false;
    }
    fakernic_turn_trace(s, len, loopback);
    if (fakernic_fault_at_frame(s, ROCE_FAULT_TX, s->frame, len)) {
        fakernic_turn_send_faulty(s, len, loopback);
    } else {
        fakernic_turn_send(s, s->frame, len, loopback);
    }
    return true;
}
/* journey: end */

/* The engine made no frame, but has not yet looked at everything that may make
 * one. */
static bool fakernic_turn_has_more(const FakernicState *s)
{
    return roce_deadline(s->roce) == 0;
}

/* True: the caller sends interrupts, and the turn then continues. */
static bool fakernic_turn_frames(FakernicState *s)
{
    do {
        fakernic_turn_step(s, "frames");
        if (!fakernic_turn_frame(s) && !fakernic_turn_has_more(s)) {
            /* A failed WQE makes no frame, but its CQE may overrun a CQ. */
            return !QTAILQ_EMPTY(&s->failed_cqs);
        }
        fakernic_turn_release(s);   /* frames that waited for this one */
        if (!fakernic_is_running(s)) {
            return false;           /* the frame caused a reset, or worse */
        }
        fakernic_cq_errors_run(s);
        if (s->interrupts) {
            return true;
        }
    } while (fakernic_turn_lasts(s, 1));
    return false;
}

bool fakernic_turn(FakernicState *s)
{
    bool commands, more;
    RoceTime now;

    fakernic_turn_lasts(s, 0);
    fakernic_step_begin(s);
    if (!fakernic_turn_faults(s)) {
        return false;
    }
    fakernic_turn_step(s, "fault rules");
    fakernic_turn_reclaim(s);
    fakernic_persist_run(s);
    fakernic_turn_step(s, "memory given back");
    commands = fakernic_cmdq_work(s);
    fakernic_turn_step(s, "commands");
    now = fakernic_now();
    if (!fakernic_is_running(s)) {
        return false;           /* the command queue was fatal */
    }
    fakernic_turn_ticks(s, now);
    fakernic_port_events(s);
    fakernic_eqs_run(s);
    fakernic_turn_step(s, "events");
    fakernic_cq_run(s, now);
    fakernic_cq_errors_run(s);
    fakernic_turn_step(s, "completion queues");
    more = fakernic_turn_frames(s);
    fakernic_turn_step(s, "frames");
    if (commands || !fakernic_budget_left(s)) {
        fakernic_kick(s);
    }
    return more && fakernic_budget_left(s);
}

void fakernic_turn_end(FakernicState *s)
{
    RoceTime deadline = MIN(roce_deadline(s->roce),
                            fakernic_cq_run(s, fakernic_now()));

    deadline = MIN(deadline,
                   fakernic_fault_deadline(s, fakernic_turn_which(s)));
    if (fakernic_port_must_wait(s)) {
        deadline = MIN(deadline, s->tx_blocked_until);
    }
    if (deadline > fakernic_now()) {
        fakernic_clock_set(s, deadline);
    } else {
        /* QEMU runs a timer that is due again at once, and starves the rest. */
        fakernic_kick(s);
    }
}
