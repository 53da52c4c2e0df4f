/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A turn: whenever something happened (a doorbell, a command, a frame, a
 * deadline, a wire that takes frames again) the device does all the work that
 * is ready, up to its budget, and leaves the rest to the bottom half.
 *
 * Nothing else moves the engine's output, so this is also where the engine is
 * told what its downcalls found broken. Sending a frame may deliver another to
 * this very device (a hub, a peer in the same process), reset it or remove it:
 * after each frame the turn asks whether the device still runs.
 */
#include "qemu/osdep.h"
#include "bar.h"
#include "budget.h"
#include "clock.h"
#include "interrupt.h"
#include "life.h"
#include "persist.h"
#include "port.h"
#include "record.h"
#include "turn.h"
#include "../trace.h"

#define FAKERNIC_STEPS_PER_UNIT 4
/* Page addresses of regions that are gone, whose memory one turn frees. */
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
 * Timers and flushes that are due, as long as the turn lasts. Whoever was late
 * is no judge of it: what waits on the link comes in before a timer says that
 * nothing came.
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

/* The engine's frame, unless a fault rule has it lost or held. */
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

/* An EQ that a fault rule stalled goes on, if it is still there. */
static void fakernic_turn_eq(FakernicState *s, uint32_t eqn)
{
    FakernicEq *eq = fakernic_table_get(&s->eqs, eqn);

    if (eq) {
        fakernic_eq_flush(s, eq);
    }
}

/* The next WQE of an SQ that a fault rule stalled is fetched in its turn. */
static void fakernic_turn_sq(FakernicState *s, uint32_t qpn)
{
    if (fakernic_qp(s, qpn)) {
        roce_post_send(s->roce, fakernic_now(), qpn);
    }
}

/* One thing that a fault rule held, and that goes on; false: there is none. */
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

/* Frames for a wire that takes none wait on. */
static FakernicGoes fakernic_turn_which(FakernicState *s)
{
    return fakernic_port_must_wait(s) ? FAKERNIC_GOES_UNSENT
                                      : FAKERNIC_GOES_ALL;
}

/* All that goes on now, as long as the turn lasts. */
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

/* What a fault rule wants of the device as a whole. */
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
        /* Else a rule that hits every turn would make one of each. */
        if (link_up) {
            fakernic_port_link_changed(s);
        }
        break;
    default:
        break;
    }
}

/*
 * The part of a turn that only fault rules have work for; as fakernic_turn().
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

/*
 * One frame, from the engine to where it goes; false: there is none. While the
 * wire takes none, only those that stay in the device are made.
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

/* The engine has made no frame, but was not through with all that may make
 * one. */
static bool fakernic_turn_has_more(const FakernicState *s)
{
    return roce_deadline(s->roce) == 0;
}

/* True: interrupts are to be sent before there is more to do. */
static bool fakernic_turn_frames(FakernicState *s)
{
    do {
        fakernic_turn_step(s, "frames");
        if (!fakernic_turn_frame(s) && !fakernic_turn_has_more(s)) {
            /* A WQE that ended in error makes no frame but completions. */
            return !QTAILQ_EMPTY(&s->failed_cqs);
        }
        fakernic_turn_release(s);   /* those that this one has overtaken */
        if (!fakernic_is_running(s)) {
            return false;           /* a frame came back as a reset */
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
    commands = fakernic_cmdq_run(s);
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
        /* QEMU would serve such a timer again and again, and nobody else. */
        fakernic_kick(s);
    }
}
