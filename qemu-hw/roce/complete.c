/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Completions, and the ways a QP fails (IBTA 10.3.1.7 "Error", 10.3.1.6 "SQE",
 * 10.8.3). One completion or one event reports a failure. Then every other
 * work request, fetched or still in the host's rings, is flushed in order.
 * Rings may be long, and the guest may fill them as fast as they are emptied.
 * So each call flushes a bounded number and sets a timer to continue.
 */
#include "engine.h"

#include <assert.h>
#include <string.h>

void roce_note_output(Roce *r, const RoceQp *qp, const RocePacket *packet,
                      uint32_t index, uint8_t attempt)
{
    r->out = (RoceFrameInfo) {
        .qpn = qp->qpn,
        .peer = packet->dest_qpn,
        .psn = packet->psn,
        .index = index,
        .opcode = packet->opcode,
        .attempt = attempt,
        .roce = true,
    };
}

void roce_drop(Roce *r, enum fakernic_stat stat, uint32_t qpn, uint32_t psn)
{
    RoceQp *qp = qpn < r->limits.max_qp ? r->qps[qpn] : NULL;

    r->stats[stat]++;
    if (qp && qp->counters) {
        qp->counters[stat]++;
    }
    roce_trace(r, ROCE_TRACE_DROP, qpn, stat, psn);
}

void roce_qp_set_state(Roce *r, RoceQp *qp, uint8_t state)
{
    if (qp->attr.state != state) {
        roce_trace(r, ROCE_TRACE_QP_STATE, qp->qpn, qp->attr.state, state);
        qp->attr.state = state;
    }
}

void roce_complete_send(Roce *r, RoceQp *qp, uint8_t status,
                        uint16_t vendor_err)
{
    const RoceSend *send = roce_sendq_at(&qp->sq, qp->sq.ci);
    const RoceSendWr *wr = send->wr;

    r->work++;
    if (status != FAKERNIC_WC_SUCCESS || wr->flags & FAKERNIC_SQ_SIGNALED) {
        RoceCompletion completion = {
            .cqn = qp->init.send_cqn,
            .qpn = qp->qpn,
            .wqe_index = wr->index,
            .byte_count = status == FAKERNIC_WC_SUCCESS ? send->length : 0,
            .vendor_err = vendor_err,
            .opcode = roce_wr_info(wr->opcode)->cqe_opcode,
            .status = status,
        };

        r->ops->complete(r->host, &completion);
    }
    roce_sendq_pop(&qp->sq);
}

void roce_complete_recv(Roce *r, RoceQp *qp, RoceCompletion *completion)
{
    RoceXrcSrq srq;

    assert(qp->rx.held);
    r->work++;
    completion->cqn = qp->rx.cqn;
    completion->qpn = qp->qpn;
    completion->wqe_index = qp->rx.wr.tag;
    completion->srqn = qp->rx.srqn;
    qp->rx.held = false;
    /* A target does not keep its SRQs alive: this one may be gone, and its
     * number may belong to another. */
    if (qp->init.type != FAKERNIC_QP_XRC_TGT ||
        (r->ops->xrc_srq(r->host, qp->rx.srqn, qp->init.xrcdn, &srq) &&
         srq.id == qp->rx.srq)) {
        r->ops->complete(r->host, completion);
    }
}

void roce_fail_recv(Roce *r, RoceQp *qp, uint8_t status, uint16_t vendor_err)
{
    RoceCompletion completion = {
        .opcode = FAKERNIC_CQE_RECV,
        .status = status,
        .vendor_err = vendor_err,
    };

    roce_complete_recv(r, qp, &completion);
}

RoceFetch roce_take_send(Roce *r, RoceQp *qp, uint16_t *vendor_err)
{
    RoceFetch fetch;
    RoceSendWr wr;

    memset(&wr, 0, offsetof(RoceSendWr, sge));
    fetch = r->ops->next_send(r->host, qp->qpn, &wr);
    if (fetch == ROCE_FETCH_OK && !roce_sendq_push(&qp->sq, &wr)) {
        fetch = ROCE_FETCH_ERROR;
    }
    if (fetch == ROCE_FETCH_ERROR) {
        roce_sendq_break(&qp->sq);
        *vendor_err = wr.format_error;
    }
    return fetch;
}

RoceFetch roce_take_recv(Roce *r, RoceQp *qp)
{
    RoceFetch fetch;

    if (qp->rx.held) {
        return ROCE_FETCH_OK;
    }
    if (qp->rq_broken || !(qp->init.has_rq || qp->rx.srqn)) {
        return ROCE_FETCH_NONE;
    }
    fetch = r->ops->next_recv(r->host, qp->qpn, qp->rx.srqn, &qp->rx.wr);
    if (fetch == ROCE_FETCH_OK) {
        RoceRecvWr *wr = &qp->rx.wr;

        qp->rx.held = true;
        if (wr->format_error == 0 && wr->sge_count > FAKERNIC_SGE_MAX) {
            wr->format_error = FAKERNIC_VENDOR_RQ_FORMAT;
        }
        qp->rx.capacity = wr->format_error
                              ? 0
                              : roce_sge_total(wr->sge, wr->sge_count);
    } else if (fetch == ROCE_FETCH_ERROR) {
        qp->rq_broken = true;
    }
    return fetch;
}

/* True: there may be more than one batch. */
static bool roce_flush_sends(Roce *r, RoceQp *qp)
{
    RoceSendq *sq = &qp->sq;
    unsigned budget = ROCE_FLUSH_BATCH;

    /* Complete what was sent although the next frame was not requested yet. */
    while (r->sent == qp && !roce_sendq_empty(sq) &&
           roce_sendq_head_complete(sq)) {
        roce_complete_send(r, qp, FAKERNIC_WC_SUCCESS, FAKERNIC_VENDOR_NONE);
    }
    while (!roce_sendq_empty(sq)) {
        roce_complete_send(r, qp, FAKERNIC_WC_WR_FLUSH_ERR,
                           FAKERNIC_VENDOR_FLUSHED);
    }
    while (sq->size > 0 && !sq->broken && budget-- > 0) {
        uint16_t unused;

        if (roce_take_send(r, qp, &unused) != ROCE_FETCH_OK) {
            return false;
        }
        roce_complete_send(r, qp, FAKERNIC_WC_WR_FLUSH_ERR,
                           FAKERNIC_VENDOR_FLUSHED);
    }
    return sq->size > 0 && !sq->broken;
}

/* Flushes the receive that was fetched for a message and not filled. */
static void roce_flush_held(Roce *r, RoceQp *qp)
{
    if (qp->rx.held) {
        roce_fail_recv(r, qp, FAKERNIC_WC_WR_FLUSH_ERR,
                       FAKERNIC_VENDOR_FLUSHED);
    }
}

static bool roce_flush_recvs(Roce *r, RoceQp *qp)
{
    unsigned budget = ROCE_FLUSH_BATCH;

    roce_flush_held(r, qp);
    /* Receives of an SRQ belong to its other QPs (IBTA 10.2.9.3). */
    while (qp->init.has_rq && budget-- > 0) {
        if (roce_take_recv(r, qp) != ROCE_FETCH_OK) {
            return false;
        }
        roce_fail_recv(r, qp, FAKERNIC_WC_WR_FLUSH_ERR,
                       FAKERNIC_VENDOR_FLUSHED);
    }
    return qp->init.has_rq;
}

/*
 * The wait before the next poll of the receive queue of a QP in ERR. A QP may
 * stay there without limit, so each poll that finds nothing doubles the wait.
 */
static RoceTime roce_flush_next_wait(RoceTime wait)
{
    if (wait == 0) {
        return FAKERNIC_RQ_FLUSH_INTERVAL_NS;
    }
    return wait < FAKERNIC_RQ_FLUSH_INTERVAL_MAX_NS / 2
               ? 2 * wait : FAKERNIC_RQ_FLUSH_INTERVAL_MAX_NS;
}

void roce_flush(Roce *r, RoceTime now, RoceQp *qp)
{
    const bool timer = qp->flush_at <= now;
    const uint64_t work = r->work;
    bool more;

    qp->flush_at = ROCE_TIME_NEVER;
    roce_retry_stop(&qp->retry);
    qp->pace.wake = ROCE_TIME_NEVER;
    more = roce_flush_sends(r, qp);
    if (qp->attr.state == FAKERNIC_QPS_ERR && !more) {
        more = roce_flush_recvs(r, qp);
    }
    if (!timer || r->work != work) {
        qp->flush_wait = 0;
    }
    if (more) {
        qp->flush_at = now;
    } else if (qp->attr.state == FAKERNIC_QPS_ERR && qp->init.has_rq &&
               !qp->rq_broken) {
        qp->flush_wait = roce_flush_next_wait(qp->flush_wait);
        qp->flush_at = now + qp->flush_wait;
    }
    roce_sched_timer(r, qp);
}

/* Discards all scheduled answers of the responder. */
static void roce_responder_forget(Roce *r, RoceQp *qp)
{
    uint32_t i;

    qp->rs.message = ROCE_MESSAGE_NONE;
    qp->rs.due = ROCE_DUE_NOTHING;
    qp->rs.nak_sent = false;
    qp->rs.res_pi = 0;
    qp->rs.res_pending = 0;
    qp->rs.res_first = 0;
    qp->rs.pages_awaited = false;
    qp->rs.flushing = false;
    qp->rs.flush_gap = false;
    qp->rs.flush_failed = false;
    qp->rs.flush_ticket = 0;
    roce_sched_flush_wake(r, qp);
    roce_pages_forget(r, qp);
    qp->rs.faults = 0;
    for (i = 0; i < qp->rs.ring_size; i++) {
        qp->rs.ring[i].valid = false;
        qp->rs.ring[i].pending = false;
    }
}

void roce_enter_error(Roce *r, RoceTime now, RoceQp *qp, uint8_t event,
                      uint16_t vendor_err)
{
    if (qp->attr.state == FAKERNIC_QPS_ERR) {
        return;
    }
    roce_qp_set_state(r, qp, FAKERNIC_QPS_ERR);
    roce_responder_forget(r, qp);
    qp->cnp.due = false;
    if (event != FAKERNIC_EVENT_NONE) {
        roce_trace(r, ROCE_TRACE_QP_ERROR, qp->qpn, vendor_err, 0);
        r->ops->event(r->host, event, qp->qpn, vendor_err);
    }
    roce_flush(r, now, qp);
    if (qp->init.srqn) {
        /* IBTA o11-5.2.5: the QP takes nothing more from the SRQ. */
        r->ops->event(r->host, FAKERNIC_EVENT_LAST_WQE_REACHED, qp->qpn, 0);
    }
}

void roce_return_recv(Roce *r, RoceQp *qp)
{
    if (qp->rx.srqn) {
        roce_flush_held(r, qp);
    }
}

void roce_forget(Roce *r, RoceQp *qp)
{
    roce_responder_forget(r, qp);
    if (r->sent == qp) {
        r->sent = NULL;
    }
    roce_sendq_reset(&qp->sq, 0);
    roce_retry_init(&qp->retry);
    roce_sched_remove(r, qp);
    roce_pacer_init(qp);
    qp->cnp.due = false;
    qp->rx.held = false;
    qp->rq_broken = false;
    qp->established = false;
    qp->drain_reported = false;
}

void roce_fail_send(Roce *r, RoceTime now, RoceQp *qp, uint8_t status,
                    uint16_t vendor_err)
{
    roce_trace(r, ROCE_TRACE_QP_ERROR, qp->qpn, vendor_err, 0);
    roce_complete_send(r, qp, status, vendor_err);
    if (roce_qp_reliable(qp)) {
        roce_enter_error(r, now, qp, FAKERNIC_EVENT_NONE, 0);
        return;
    }
    /* Unreliable services fail their send queue only (IBTA 10.3.1.6). */
    roce_sendq_abandon(&qp->sq);
    roce_qp_set_state(r, qp, FAKERNIC_QPS_SQE);
    roce_flush(r, now, qp);
}

/* SQD is reported as drained when the last started send has completed. */
static void roce_report_drained(Roce *r, RoceQp *qp)
{
    if (qp->attr.state != FAKERNIC_QPS_SQD || qp->drain_reported ||
        !roce_sendq_drained(&qp->sq)) {
        return;
    }
    qp->drain_reported = true;
    if (qp->attr.sqd_async_notify) {
        r->ops->event(r->host, FAKERNIC_EVENT_SQ_DRAINED, qp->qpn, 0);
    }
}

void roce_retire(Roce *r, RoceTime now, RoceQp *qp)
{
    RoceSendq *sq = &qp->sq;

    while (!roce_sendq_empty(sq)) {
        RoceSend *head = roce_sendq_at(sq, sq->ci);

        if (head->status != FAKERNIC_WC_SUCCESS) {
            roce_count(r, qp, FAKERNIC_STAT_LOCAL_ERRORS);
            roce_fail_send(r, now, qp, head->status, head->vendor_err);
            return;
        }
        if (!roce_sendq_head_complete(sq)) {
            break;
        }
        roce_complete_send(r, qp, FAKERNIC_WC_SUCCESS, FAKERNIC_VENDOR_NONE);
        roce_sched_ready(r, qp);
    }
    roce_report_drained(r, qp);
}
