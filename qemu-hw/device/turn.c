/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A turn: whenever something happened (a doorbell, a command, a frame, a
 * deadline, a wire that takes frames again) the device does all the work that is
 * ready, up to its budget, and leaves the rest to the bottom half.
 *
 * Nothing else moves the engine's output, so this is also where the engine is
 * told what its downcalls found broken. Sending a frame may deliver another to
 * this very device (a hub, a peer in the same process): a nested call only notes
 * that there is more to do.
 */
#include "qemu/osdep.h"
#include "qemu/main-loop.h"
#include "budget.h"
#include "clock.h"
#include "interrupt.h"
#include "life.h"
#include "port.h"
#include "turn.h"

/* One frame, from the engine to where it goes; false: there is none. */
static bool fakernic_turn_frame(FakernicState *s)
{
    bool loopback = false;
    size_t len = roce_output(s->roce, fakernic_now(), s->frame, &loopback);

    if (!len) {
        return false;
    }
    if (loopback) {
        s->stats[FAKERNIC_STAT_RX_LOOPBACK]++;
        roce_input(s->roce, fakernic_now(), s->frame, len);
    } else {
        fakernic_port_send(s, s->frame, len);
    }
    return true;
}

/* True when the budget is used up with work left. */
static bool fakernic_turn_frames(FakernicState *s)
{
    bool room = true;

    for (;;) {
        const bool failing = fakernic_cq_errors_run(s);

        fakernic_interrupts_send(s);
        if (!fakernic_is_running(s)) {
            return false;
        }
        if (fakernic_port_must_wait(s)) {
            return failing;
        }
        if (failing || !room) {
            return true;
        }
        if (!fakernic_turn_frame(s)) {
            /* A WQE that ended in error makes no frame but completions. */
            return !QTAILQ_EMPTY(&s->failed_cqs);
        }
        room = fakernic_spend(s, 1);
    }
}

static bool fakernic_turn_work(FakernicState *s)
{
    bool more = fakernic_cmdq_run(s);
    RoceTime now = fakernic_now();

    if (!fakernic_is_running(s)) {
        return false;           /* a command ring was out of reach */
    }
    if (roce_deadline(s->roce) <= now) {
        roce_tick(s->roce, now);
    }
    fakernic_cq_run(s, now);
    return fakernic_turn_frames(s) || more;
}

/* When there will be work without anybody coming in. */
static RoceTime fakernic_turn_deadline(FakernicState *s)
{
    RoceTime deadline = MIN(roce_deadline(s->roce),
                            fakernic_cq_run(s, fakernic_now()));

    if (fakernic_port_must_wait(s)) {
        deadline = MIN(deadline, s->tx_blocked_until);
    }
    return deadline;
}

void fakernic_turn(FakernicState *s)
{
    if (s->turning) {
        fakernic_kick(s);
        return;
    }
    if (!fakernic_is_running(s)) {
        return;
    }
    s->turning = true;
    s->kicked = false;
    if (fakernic_turn_work(s)) {
        fakernic_kick(s);
    }
    fakernic_interrupts_send(s);
    s->turning = false;
    s->longest_turn = MAX(s->longest_turn, s->turn_used);
    s->turn_used = 0;
    if (!fakernic_is_running(s)) {
        return;
    }
    if (s->kicked || s->interrupts) {
        qemu_bh_schedule(s->bh);
    }
    fakernic_clock_set(s, fakernic_turn_deadline(s));
}
