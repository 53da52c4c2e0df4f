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
#include "fault/release.h"
#include "queue/interrupt.h"
#include "life.h"
#include "persist.h"
#include "port/port.h"
#include "turn.h"
#include "queue/eq.h"
#include "queue/cq.h"
#include "queue/sq.h"
#include "state.h"
#include "vcpus.h"
#include "fault/gate.h"
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

/*
 * A snapshot goes back in time: the PSNs of a loaded connection are in its
 * peer's past, and the peer would acknowledge new requests as duplicates
 * without executing them. So these connections end, some in each turn.
 */
static void fakernic_turn_snapshot(FakernicState *s)
{
    while (s->saved.foreign) {
        const uint32_t qpn = s->saved.foreign++;

        if (s->saved.foreign >= s->max_qp) {
            s->saved.foreign = 0;
        }
        if (roce_qp_is_foreign(s->roce, qpn)) {
            roce_qp_error(s->roce, fakernic_now(), qpn,
                          FAKERNIC_VENDOR_SNAPSHOT);
            if (!fakernic_turn_lasts(s, 1)) {
                fakernic_kick(s);
                return;
            }
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

/* May the turn release one more item that fault rules hold? */
static bool fakernic_turn_releases(FakernicState *s)
{
    return fakernic_gate_held(s) && fakernic_is_running(s) &&
           fakernic_turn_lasts(s, 1);
}

/* Releases all held items that are due, within the budget. */
static void fakernic_turn_release(FakernicState *s)
{
    while (fakernic_turn_releases(s) && fakernic_release_next(s)) {
    }
}

void fakernic_turn_received(FakernicState *s)
{
    while (fakernic_turn_releases(s) && fakernic_release_received(s)) {
    }
}

/*
 * The part of a turn that serves fault rules. False: the device stopped.
 */
static bool fakernic_turn_faults(FakernicState *s)
{
    fakernic_release_turn(s);
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
    if (fakernic_gate_tx(s, s->frame, &len, loopback)) {
        fakernic_port_emit(s, s->frame, len, loopback);
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

    fakernic_cpus_look();
    fakernic_turn_lasts(s, 0);
    fakernic_step_begin(s);
    if (!fakernic_turn_faults(s)) {
        return false;
    }
    fakernic_turn_step(s, "fault rules");
    fakernic_turn_snapshot(s);
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
    fakernic_sqs_look(s, now);
    fakernic_turn_step(s, "send queues");
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

    deadline = MIN(deadline, fakernic_release_deadline(s));
    deadline = MIN(deadline, fakernic_sqs_deadline(s));
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
