/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Saves and loads a queue pair: attributes, work requests in flight, the
 * responder with the answers that the peer may request again, and the pacer.
 * A load derives what it can from other fields (lengths, counts, the path), so
 * that a stream cannot contradict itself there, and checks the rest.
 */
#include "engine.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static void qp_init_transfer(RoceStream *s, RoceQpInit *init)
{
    ROCE_FIELD(s, init->type);
    ROCE_FIELD(s, init->has_sq);
    ROCE_FIELD(s, init->has_rq);
    ROCE_FIELD(s, init->block_mcast_lb);
    ROCE_FIELD(s, init->pd);
    ROCE_FIELD(s, init->send_cqn);
    ROCE_FIELD(s, init->recv_cqn);
    ROCE_FIELD(s, init->srqn);
    ROCE_FIELD(s, init->xrcdn);
}

static void qp_attr_transfer(RoceStream *s, RoceQpAttr *attr)
{
    ROCE_FIELD(s, attr->state);
    ROCE_DERIVED(attr->cur_state);
    ROCE_FIELD(s, attr->path_mtu);
    ROCE_FIELD(s, attr->path_mig_state);
    ROCE_FIELD(s, attr->qkey);
    ROCE_FIELD(s, attr->rq_psn);
    ROCE_FIELD(s, attr->sq_psn);
    ROCE_FIELD(s, attr->dest_qpn);
    ROCE_FIELD(s, attr->access_flags);
    ROCE_FIELD(s, attr->pkey_index);
    ROCE_FIELD(s, attr->alt_pkey_index);
    ROCE_FIELD(s, attr->port);
    ROCE_FIELD(s, attr->alt_port);
    ROCE_FIELD(s, attr->max_rd_atomic);
    ROCE_FIELD(s, attr->max_dest_rd_atomic);
    ROCE_FIELD(s, attr->min_rnr_timer);
    ROCE_FIELD(s, attr->timeout);
    ROCE_FIELD(s, attr->retry_cnt);
    ROCE_FIELD(s, attr->rnr_retry);
    ROCE_FIELD(s, attr->alt_timeout);
    ROCE_FIELD(s, attr->sqd_async_notify);
    ROCE_DERIVED(attr->sq_draining);
    ROCE_FIELD(s, attr->rate_limit_kbps);
    roce_av_transfer(s, &attr->av);
    roce_av_transfer(s, &attr->alt_av);
}

/* ---- the requester ------------------------------------------------------- */

/* A load has pushed the work request, and derives what it determines. */
static void qp_send_transfer(RoceStream *s, const RoceQp *qp, RoceSend *send)
{
    bool valid = true;

    ROCE_DERIVED(send->wr);
    if (s->loads) {
        valid = roce_requester_derive(qp, send);
        send->status = 0;
        send->vendor_err = 0;
    }
    ROCE_DERIVED(send->length);
    ROCE_DERIVED(send->psn_count);
    ROCE_DERIVED(send->consumes);
    ROCE_DERIVED(send->answered);
    ROCE_FIELD(s, send->cut_off);
    ROCE_PSN(s, send->psn);
    ROCE_PSN(s, send->ssn);
    ROCE_FIELD(s, send->probe);
    ROCE_FIELD(s, send->held);
    ROCE_FIELD(s, send->started);
    ROCE_FIELD(s, send->done);
    ROCE_FIELD(s, send->status);
    ROCE_FIELD(s, send->vendor_err);
    ROCE_CHECK(s, valid || send->status != FAKERNIC_WC_SUCCESS || send->done,
               "work request");
}

/* May the QP have work requests in flight? A failed QP flushes them at once. */
static bool qp_sends(const RoceQp *qp)
{
    return qp->attr.state == FAKERNIC_QPS_RTS ||
           qp->attr.state == FAKERNIC_QPS_SQD;
}

static void qp_sendq_transfer(RoceStream *s, RoceQp *qp)
{
    const bool reliable = roce_qp_reliable(qp);
    uint32_t count = qp->sq.pi - qp->sq.ci;

    ROCE_FIELD(s, count);
    ROCE_CHECK(s, count <= qp->sq.max && (count == 0 || qp_sends(qp)),
               "number of work requests in flight");
    for (uint32_t i = 0; i < count && !s->failed; i++) {
        RoceSendWr wr;
        RoceSend *send;

        if (s->loads) {
            memset(&wr, 0, sizeof(wr));
            roce_send_wr_transfer(s, &wr, qp->init.type);
            send = roce_sendq_push(&qp->sq, &wr);
            if (!send) {
                /* Not reached by tests. */
                roce_stream_fail(s, "out of memory");
                return;
            }
        } else {
            send = roce_sendq_at(&qp->sq, qp->sq.ci + i);
            roce_send_wr_transfer(s, send->wr, qp->init.type);
        }
        qp_send_transfer(s, qp, send);
    }
    roce_sendq_transfer(s, &qp->sq, reliable,
                        qp_sends(qp) || qp->attr.state == FAKERNIC_QPS_SQE);
    roce_retry_transfer(s, &qp->retry, reliable);
    roce_window_transfer(s, &qp->requests, ROCE_WINDOW_REQUESTS);
    roce_window_transfer(s, &qp->answers, ROCE_WINDOW_ANSWERS);
    ROCE_CHECK(s, !qp_sends(qp) || qp->sq.size == 0 ||
                      !roce_qp_connected(qp) ||
                      (qp->requests.max && qp->answers.max), "window");
}

/* ---- the responder ------------------------------------------------------- */

static void qp_flush_range_transfer(RoceStream *s, RoceFlushRange *range)
{
    ROCE_FIELD(s, range->address);
    ROCE_FIELD(s, range->left);
    ROCE_FIELD(s, range->persistent);
    ROCE_DERIVED(range->qpn);           /* set before each step */
    ROCE_DERIVED(range->ticket);
}

/* Is the answer as long as its request says? */
static bool qp_resource_valid(const RoceQp *qp, const RoceResource *res)
{
    uint32_t packets = 1;

    if (qp->mtu == 0 || res->length > ROCE_MESSAGE_MAX ||
        (res->length > 0 && res->kind != ROCE_ANSWER_READ)) {
        return false;
    }
    if (res->length > 0) {
        packets = (res->length - 1) / qp->mtu + 1;
    }
    return res->psn_count == packets && res->start <= res->next &&
           res->next < packets;
}

static void qp_resource_transfer(RoceStream *s, const RoceQp *qp,
                                 RoceResource *res)
{
    ROCE_FIELD(s, res->valid);
    ROCE_FIELD(s, res->pending);
    ROCE_CHECK(s, res->valid || !res->pending, "answer");
    if (!res->valid) {
        return;
    }
    ROCE_FIELD(s, res->replays);
    ROCE_ENUM(s, res->kind, ROCE_ANSWERS);
    ROCE_PSN(s, res->psn);
    ROCE_FIELD(s, res->psn_count);
    ROCE_FIELD(s, res->start);
    ROCE_FIELD(s, res->next);
    ROCE_PSN(s, res->msn);
    ROCE_FIELD(s, res->address);
    ROCE_FIELD(s, res->rkey);
    ROCE_FIELD(s, res->length);
    ROCE_FIELD(s, res->pd);
    qp_flush_range_transfer(s, &res->flush);
    ROCE_FIELD(s, res->access);
    ROCE_FIELD(s, res->original);
    ROCE_CHECK(s, res->replays < UINT8_MAX && qp_resource_valid(qp, res),
               "answer");
}

/* The free-running index restarts before it reaches this. */
#define QP_RESOURCES_MAX 0x40000000u

/* The resources that the peer may ask for again, the oldest first. */
static void qp_resources_transfer(RoceStream *s, const RoceQp *qp,
                                  RoceResponder *rs)
{
    uint32_t size = rs->ring_size, count;

    ROCE_FIELD(s, size);
    ROCE_FIELD(s, rs->res_pi);
    ROCE_FIELD(s, rs->res_first);
    ROCE_CHECK(s, rs->res_pi < QP_RESOURCES_MAX && rs->res_first <= rs->res_pi,
               "number of answers");
    if (s->loads && !s->failed && !roce_response_set_size(rs, size)) {
        roce_stream_fail(s, "invalid number of answers kept");
    }
    count = rs->res_pi < rs->ring_size ? rs->res_pi : rs->ring_size;
    for (uint32_t i = rs->res_pi - count; i != rs->res_pi && !s->failed; i++) {
        RoceResource *res = &rs->ring[i % rs->ring_size];

        qp_resource_transfer(s, qp, res);
        rs->res_pending += s->loads && res->pending;
    }
    ROCE_DERIVED(rs->ring);
    ROCE_DERIVED(rs->res_pending);
}

static void qp_responder_transfer(RoceStream *s, RoceResponder *rs)
{
    ROCE_PSN(s, rs->epsn);
    ROCE_PSN(s, rs->msn);
    ROCE_FIELD(s, rs->pd);
    ROCE_ENUM(s, rs->message, ROCE_MESSAGES);
    ROCE_FIELD(s, rs->nak_sent);
    ROCE_ENUM(s, rs->due, ROCE_DUES);
    ROCE_FIELD(s, rs->syndrome);
    ROCE_PSN(s, rs->due_psn);
    ROCE_FIELD(s, rs->event);
    ROCE_FIELD(s, rs->vendor_err);
    ROCE_FIELD(s, rs->offset);
    ROCE_FIELD(s, rs->address);
    ROCE_FIELD(s, rs->rkey);
    ROCE_FIELD(s, rs->length);
    ROCE_FIELD(s, rs->pages_awaited);
    ROCE_FIELD(s, rs->faults);
    ROCE_FIELD(s, rs->flushing);
    ROCE_FIELD(s, rs->flush_gap);
    ROCE_FIELD(s, rs->flush_failed);
    ROCE_FIELD(s, rs->flush_ticket);
    ROCE_DERIVED(rs->flush_waits);      /* sched.c */
    ROCE_DERIVED(rs->flush_next);
    ROCE_DERIVED(rs->flush_prev);
    ROCE_CHECK(s, rs->offset <= ROCE_MESSAGE_MAX, "length of a message");
    ROCE_CHECK(s, rs->event == FAKERNIC_EVENT_NONE ||
                      (rs->event >= FAKERNIC_EVENT_QP_FATAL &&
                       rs->event <= FAKERNIC_EVENT_QP_ACCESS_ERROR),
               "event");
}

static void qp_recv_wr_transfer(RoceStream *s, RoceRecvWr *wr)
{
    ROCE_FIELD(s, wr->tag);
    ROCE_FIELD(s, wr->sge_count);
    ROCE_FIELD(s, wr->format_error);
    if (wr->format_error) {
        return;
    }
    ROCE_CHECK(s, wr->sge_count <= FAKERNIC_SGE_MAX, "number of SGEs");
    for (unsigned i = 0; i < wr->sge_count && !s->failed; i++) {
        roce_sge_transfer(s, &wr->sge[i]);
    }
}

/* The SRQ of an XRC target changes with each message. */
static void qp_receive_transfer(RoceStream *s, const RoceQp *qp,
                                RoceReceive *rx)
{
    if (qp->init.type == FAKERNIC_QP_XRC_TGT) {
        ROCE_FIELD(s, rx->srqn);
        ROCE_FIELD(s, rx->srq);
        ROCE_FIELD(s, rx->cqn);
    }
    ROCE_FIELD(s, rx->held);
    if (!rx->held) {
        return;
    }
    qp_recv_wr_transfer(s, &rx->wr);
    ROCE_DERIVED(rx->capacity);
    if (s->loads && !s->failed) {
        rx->capacity = rx->wr.format_error
                           ? 0 : roce_sge_total(rx->wr.sge, rx->wr.sge_count);
    }
}

/* ---- the whole ----------------------------------------------------------- */

static void qp_pace_transfer(RoceStream *s, RocePace *pace)
{
    roce_stream_time(s, &pace->next);
    roce_stream_time(s, &pace->wake);
    roce_dcqcn_transfer(s, &pace->dcqcn);
}

static void qp_cnp_transfer(RoceStream *s, RoceCnp *cnp)
{
    ROCE_FIELD(s, cnp->due);
    roce_stream_time(s, &cnp->next);
    roce_av_transfer(s, &cnp->av);
    ROCE_FIELD(s, cnp->dest_qpn);
}

static void qp_transfer(RoceStream *s, RoceQp *qp)
{
    qp_sendq_transfer(s, qp);           /* sq, retry, requests, answers */
    ROCE_DERIVED(qp->sq);
    ROCE_DERIVED(qp->retry);
    ROCE_DERIVED(qp->requests);
    ROCE_DERIVED(qp->answers);
    qp_responder_transfer(s, &qp->rs);
    qp_resources_transfer(s, qp, &qp->rs);
    qp_receive_transfer(s, qp, &qp->rx);
    qp_pace_transfer(s, &qp->pace);
    qp_cnp_transfer(s, &qp->cnp);
    ROCE_DERIVED(qp->waits);            /* pages.c */
    ROCE_DERIVED(qp->counters);         /* the host sets them again */
    ROCE_DERIVED(qp->groups);           /* mcast.c */
    ROCE_DERIVED(qp->in_group);
    ROCE_FIELD(s, qp->rq_broken);
    ROCE_FIELD(s, qp->established);
    ROCE_FIELD(s, qp->drain_reported);
    ROCE_FIELD(s, qp->responder_first);
    ROCE_FIELD(s, qp->alt_path);
    ROCE_FIELD(s, qp->migration_refused);
    ROCE_DERIVED(qp->loopback);         /* path.c, for another gid_epoch */
    ROCE_DERIVED(qp->has_head);
    ROCE_DERIVED(qp->head);
    ROCE_DERIVED(qp->listed);           /* sched.c */
    ROCE_DERIVED(qp->next);
    ROCE_DERIVED(qp->prev);
    ROCE_DERIVED(qp->deadline);
    ROCE_DERIVED(qp->heap_index);
    ROCE_DERIVED(qp->busy);
    roce_stream_time(s, &qp->flush_at);
    roce_stream_time(s, &qp->flush_wait);
}

void roce_qp_transfer(RoceStream *s, Roce *r, RoceQp *qp)
{
    RoceQpInit init = { 0 };
    uint32_t qpn = 0;

    if (!s->loads) {
        qpn = qp->qpn;
        init = qp->init;
    }
    ROCE_FIELD(s, qpn);
    s->object = "queue pair";
    s->number = qpn;
    qp_init_transfer(s, &init);
    if (s->loads && !s->failed) {
        qp = roce_qp_make(r, &init, qpn);
        if (!qp) {
            roce_stream_fail(s, "invalid number or type");
        }
    }
    if (!s->failed) {
        qp_attr_transfer(s, &qp->attr);
        if (s->loads) {
            ROCE_CHECK(s, roce_qp_attr_valid(r, qp), "attributes");
            qp->mtu = roce_mtu_bytes(qp->attr.path_mtu);
            qp->gid_epoch = r->gid_epoch - 1;
        }
        qp_transfer(s, qp);
    }
    s->object = NULL;
}
