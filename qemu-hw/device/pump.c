/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The pump: whenever something happened (a doorbell, a command, a frame, a
 * deadline, a wire that takes frames again) it does all the work that is ready,
 * up to a budget, and leaves the rest to the bottom half.
 *
 * Nothing else moves the engine's output, so this is also where what the
 * engine's downcalls found broken is brought to the engine. Sending a frame may
 * deliver another to this very device (a hub, a peer in the same process): a
 * nested call only notes that there is more to do.
 */
#include "qemu/osdep.h"
#include "qemu/main-loop.h"
#include "fakernic.h"
#include "../trace.h"

#define FAKERNIC_PUMP_COMMANDS  8
#define FAKERNIC_PUMP_FRAMES    256

/*
 * The QPs of a CQ that failed go to the error state (IBTA C10-76); an XRC SRQ
 * can no longer be used.
 */
static void fakernic_pump_cq_errors(FakernicState *s)
{
    s->cq_error_pending = false;
    for (uint32_t qpn = 0; qpn < s->max_qp; qpn++) {
        FakernicQp *qp = s->qps[qpn];

        if (qp && ((qp->send_cq && qp->send_cq->error_pending) ||
                   (qp->recv_cq && qp->recv_cq->error_pending))) {
            roce_qp_error(s->roce, fakernic_now(), qpn,
                          FAKERNIC_VENDOR_CQ_OVERRUN);
        }
    }
    for (uint32_t srqn = 0; srqn < s->srqs.size; srqn++) {
        FakernicSrq *srq = fakernic_table_get(&s->srqs, srqn);

        if (srq && srq->cq && srq->cq->error_pending) {
            fakernic_srq_fail(s, srq, FAKERNIC_VENDOR_CQ_OVERRUN);
        }
    }
    for (uint32_t cqn = 0; cqn < s->cqs.size; cqn++) {
        FakernicCq *cq = fakernic_table_get(&s->cqs, cqn);

        if (cq) {
            cq->error_pending = false;
        }
    }
}

/* True when the budget is used up with work left. */
static bool fakernic_pump_frames(FakernicState *s, unsigned budget)
{
    for (;;) {
        bool loopback = false;
        size_t len;

        if (s->cq_error_pending) {
            fakernic_pump_cq_errors(s);
        }
        fakernic_interrupts_send(s);
        if (!fakernic_is_running(s) || fakernic_port_must_wait(s)) {
            return false;
        }
        if (!budget--) {
            return true;
        }
        len = roce_output(s->roce, fakernic_now(), s->frame, &loopback);
        if (!len) {
            /* A WQE that ended in error makes no frame but completions. */
            return s->cq_error_pending;
        }
        if (loopback) {
            s->stats[FAKERNIC_STAT_RX_LOOPBACK]++;
            roce_input(s->roce, fakernic_now(), s->frame, len);
        } else {
            fakernic_port_send(s, s->frame, len);
        }
    }
}

static bool fakernic_pump_once(FakernicState *s)
{
    bool more = fakernic_cmdq_run(s, FAKERNIC_PUMP_COMMANDS);
    RoceTime now = fakernic_now();

    if (!fakernic_is_running(s)) {
        return false;           /* a command ring was out of reach */
    }
    if (roce_deadline(s->roce) <= now) {
        roce_tick(s->roce, now);
    }
    fakernic_cq_run(s, now);
    return fakernic_pump_frames(s, FAKERNIC_PUMP_FRAMES) || more;
}

void fakernic_pump(FakernicState *s)
{
    RoceTime deadline;
    bool more;

    if (s->pumping) {
        s->pump_again = true;
        return;
    }
    if (!fakernic_is_running(s)) {
        return;
    }
    s->pumping = true;
    s->pump_again = false;
    more = fakernic_pump_once(s);
    fakernic_interrupts_send(s);
    more |= s->pump_again || s->interrupts;
    s->pumping = false;
    if (!fakernic_is_running(s)) {
        return;
    }
    if (more) {
        qemu_bh_schedule(s->bh);
    }
    deadline = MIN(roce_deadline(s->roce),
                   fakernic_cq_run(s, fakernic_now()));
    if (fakernic_port_must_wait(s)) {
        deadline = MIN(deadline, s->tx_blocked_until);
    }
    fakernic_clock_set(s, deadline);
}

void fakernic_pump_bh(void *opaque)
{
    fakernic_pump(opaque);
}
