/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The requester of RC, XRC and UC: it turns send work requests into request
 * packets, one per call (IBTA 9.7.2, 9.7.7, 9.8). It fetches a WQE when its
 * first packet is due, checks it, and assigns its PSNs. An error becomes the
 * status of the work request, which is reported when its turn to complete
 * comes. The requester reads guest memory once per packet.
 */
#include "engine.h"

#include <string.h>

/* Number of the consecutive probe that requests the answers again. */
#define ROCE_PROBE_OF_ANSWERS 3

bool roce_requester_derive(const RoceQp *qp, RoceSend *send)
{
    const RoceWrInfo *info = roce_wr_info(send->wr->opcode);

    if (!roce_send_check(send, qp->init.type, ROCE_MESSAGE_MAX)) {
        return false;
    }
    if (info->kind == ROCE_KIND_LOCAL || !roce_qp_connected(qp)) {
        return true;
    }
    send->consumes = info->flags & ROCE_WR_CONSUMES;
    send->answered = info->flags & ROCE_WR_ANSWERED;
    send->psn_count = send->length == 0 || info->kind == ROCE_KIND_ATOMIC
                          ? 1
                          : (send->length - 1) / qp->mtu + 1;
    return true;
}

/* May the requester execute it? IBTA 11.4.1.1. */
static void roce_requester_check(Roce *r, RoceQp *qp, RoceSend *send)
{
    const RoceSendWr *wr = send->wr;
    const RoceWrInfo *info = roce_wr_info(wr->opcode);
    uint16_t error = 0;

    if (!roce_requester_derive(qp, send) || info->kind == ROCE_KIND_LOCAL) {
        return;
    }
    if (!(wr->flags & FAKERNIC_SQ_INLINE) && info->kind != ROCE_KIND_FLUSH) {
        error = roce_sgl_check(r->mrs,
                               &(RoceSgl) { qp->init.pd, wr->sge,
                                            wr->sge_count },
                               info->flags & ROCE_WR_SCATTERS
                                   ? FAKERNIC_ACCESS_LOCAL_WRITE
                                   : 0);
    }
    if (error) {
        roce_send_refuse(send, FAKERNIC_WC_LOC_PROT_ERR, error);
    }
}

bool roce_requester_fetch(Roce *r, RoceTime now, RoceQp *qp)
{
    RoceSendq *sq = &qp->sq;
    const RoceSendWr *wr;
    uint16_t vendor_err;

    if (qp->attr.state != FAKERNIC_QPS_RTS || sq->size == 0 || sq->broken ||
        roce_sendq_full(sq)) {
        return false;
    }
    r->work++;
    switch (roce_take_send(r, qp, &vendor_err)) {
    case ROCE_FETCH_OK:
        wr = roce_sendq_at(sq, sq->pi - 1)->wr;
        roce_trace(r, ROCE_TRACE_SEND_WR, qp->qpn, wr->index, wr->opcode);
        return true;
    case ROCE_FETCH_ERROR:
        roce_enter_error(r, now, qp, FAKERNIC_EVENT_QP_FATAL, vendor_err);
        return false;
    default:
        return false;
    }
}

bool roce_requester_next(Roce *r, RoceTime now, RoceQp *qp)
{
    const RoceSendq *sq = &qp->sq;

    if (qp->retry.mode != ROCE_RETRY_SENDING) {
        return false;
    }
    if (qp->attr.state == FAKERNIC_QPS_SQD) {
        return !roce_sendq_drained(sq);
    }
    return qp->attr.state == FAKERNIC_QPS_RTS &&
           (!roce_sendq_empty(sq) || roce_requester_fetch(r, now, qp));
}

/*
 * Executes a work request on keys. LOCAL_INV waits until everything before it
 * has completed, because a retransmission may still need the key. The others
 * execute in their turn. False: the request has to wait.
 */
static bool roce_send_local(Roce *r, RoceQp *qp, RoceSend *send)
{
    RoceSendq *sq = &qp->sq;
    RoceSendWr *wr = send->wr;
    uint16_t error = 0;

    if ((wr->opcode == FAKERNIC_SQ_LOCAL_INV && sq->ci != sq->tx) ||
        (wr->flags & FAKERNIC_SQ_FENCE && sq->answers > 0)) {
        return false;
    }
    switch (wr->opcode) {
    case FAKERNIC_SQ_LOCAL_INV:
        error = roce_mr_invalidate(r->mrs, wr->imm_or_key, qp->init.pd,
                                   qp->qpn, false);
        break;
    case FAKERNIC_SQ_REG_MR:
        error = roce_mr_fast_reg(r->mrs, qp->init.pd, wr);
        wr->reg_mr.pages = NULL;
        break;
    case FAKERNIC_SQ_BIND_MW:
        error = roce_mr_bind_mw(r->mrs, qp->init.pd, qp->qpn, wr);
        break;
    default:
        break;
    }
    if (error) {
        roce_send_refuse(send, FAKERNIC_WC_MW_BIND_ERR, error);
    } else {
        send->done = true;
        roce_sendq_skip(sq);
    }
    return true;
}

/*
 * A READ on a QP with max_rd_atomic 0 would wait without limit. The check is
 * made when the READ's turn comes, because a change in SQD may have set
 * max_rd_atomic to 0 after the fetch.
 */
static bool roce_send_refuse_read(const RoceQp *qp, RoceSend *send)
{
    if (send->started || !send->answered || qp->attr.max_rd_atomic > 0) {
        return false;
    }
    roce_send_refuse(send, FAKERNIC_WC_LOC_QP_OP_ERR,
                     FAKERNIC_VENDOR_SQ_OPCODE);
    return true;
}

/* Must the entry at tx, or the rest of it, wait for a receive at the peer? */
static bool roce_send_lacks_credit(Roce *r, RoceQp *qp, RoceSend *send)
{
    /* Only RC counts receives: an XRC target takes from any SRQ (A14). */
    if (qp->init.type != FAKERNIC_QP_RC || roce_sendq_has_credit(&qp->sq)) {
        return false;
    }
    if (!send->held) {
        send->held = true;
        roce_count(r, qp, FAKERNIC_STAT_CREDIT_WAITS);
    }
    return true;
}

/*
 * The number of answers that the next request of the entry at tx asks for. A
 * READ longer than the window is requested in parts, one after the other. A
 * retransmitted part ends where it ended before, because the peer recognizes a
 * duplicate by its end.
 */
static uint32_t roce_send_part(const RoceQp *qp, const RoceSend *send)
{
    const RoceSendq *sq = &qp->sq;
    uint32_t left = send->started
                        ? roce_psn_sub(roce_send_end(send), sq->tx_psn)
                        : send->psn_count;
    uint32_t most = sq->tx_psn == sq->high
                        ? qp->answers.size
                        : roce_psn_sub(sq->high, sq->tx_psn);

    return left < most ? left : most;
}

/*
 * Packets in flight are limited so that a loss costs little. The limit is
 * lower while other QPs have packets in flight, so that packets do not wait in
 * queues. A part of a READ goes alone; whole READs fill the window. Two READs
 * may be in flight in any case, if the window holds them, so that the peer
 * always has one to answer.
 */
static bool roce_send_fits_window(const Roce *r, const RoceQp *qp,
                                  const RoceSend *send)
{
    const RoceSendq *sq = &qp->sq;
    uint32_t in_flight = roce_psn_sub(sq->tx_psn, sq->una);
    uint32_t busy = roce_sched_busy(r);
    bool whole = !send->started || sq->tx_psn == send->psn;
    uint32_t size;

    if (!roce_qp_reliable(qp)) {
        return true;
    }
    if (!send->answered) {
        return roce_sendq_data_in_flight(sq) <
               roce_window_share(&qp->requests, busy);
    }
    if (in_flight == 0) {
        return true;
    }
    size = roce_window_share(&qp->answers, busy);
    if (size < 2 * send->psn_count) {
        size = 2 * send->psn_count;
    }
    return whole && send->psn_count <= qp->answers.size &&
           in_flight + send->psn_count <= size &&
           in_flight + send->psn_count <= qp->answers.size;
}

/* May the entry at tx send a packet now? If so, starts the entry. */
static bool roce_send_may_go(Roce *r, RoceQp *qp, RoceSend *send)
{
    RoceSendq *sq = &qp->sq;

    if (roce_send_lacks_credit(r, qp, send) ||
        !roce_send_fits_window(r, qp, send)) {
        return false;
    }
    if (!send->started) {
        if (!roce_qp_reliable(qp)) {
            roce_sendq_expect_nothing(sq);
        }
        if (qp->attr.state != FAKERNIC_QPS_RTS ||
            (send->wr->flags & FAKERNIC_SQ_FENCE && sq->answers > 0) ||
            (send->answered && sq->answers >= qp->attr.max_rd_atomic) ||
            !roce_sendq_start(sq)) {
            return false;
        }
    }
    return true;
}

/* BTH operation of a packet of a SEND or WRITE. */
static uint8_t roce_send_operation(const RoceWrInfo *info, bool first,
                                   bool last)
{
    if (first) {
        return last ? info->only : info->first;
    }
    return last ? info->last : info->middle;
}

static void roce_send_reth(const RoceSend *send, RocePacket *packet,
                           uint32_t offset, uint32_t length)
{
    packet->reth.address = send->wr->rdma.remote_address + offset;
    packet->reth.rkey = send->wr->rdma.rkey;
    packet->reth.length = length;
}

/* Headers of packet k of a request that has an answer. */
static void roce_send_answered_headers(const RoceQp *qp, const RoceSend *send,
                                       uint32_t k, RocePacket *packet)
{
    const RoceSendWr *wr = send->wr;
    uint32_t part = roce_send_part(qp, send);

    packet->ack_req = true;
    switch (roce_wr_info(wr->opcode)->kind) {
    case ROCE_KIND_READ:
        k += part;
        roce_send_reth(send, packet, (k - part) * qp->mtu,
                       (k == send->psn_count ? send->length : k * qp->mtu) -
                           (k - part) * qp->mtu);
        break;
    case ROCE_KIND_FLUSH:
        /* The sum fits: it was checked when the WQE was. */
        roce_send_reth(send, packet, 0,
                       (uint32_t)roce_sge_total(wr->sge, wr->sge_count));
        packet->feth = wr->rdma.flush;
        break;
    case ROCE_KIND_ATOMIC_WRITE:
        roce_send_reth(send, packet, 0, send->length);
        packet->payload_len = send->length;
        break;
    default:
        packet->atomic_eth.address = wr->atomic.remote_address;
        packet->atomic_eth.rkey = wr->atomic.rkey;
        packet->atomic_eth.swap_or_add = wr->atomic.swap_or_add;
        packet->atomic_eth.compare = wr->atomic.compare;
        packet->atomic_eth.swap_mask_or_boundary =
            wr->atomic.swap_mask_or_boundary;
        packet->atomic_eth.compare_mask = wr->atomic.compare_mask;
        break;
    }
}

/*
 * Must packet k of a SEND or WRITE ask for an ACK? The last packet does, and
 * some before it, so that a full window always has an ACK on its way.
 */
static bool roce_send_asks(const RoceQp *qp, const RoceSend *send, uint32_t k)
{
    uint32_t every = roce_window_ack_every(&qp->requests, ROCE_ACK_EVERY);

    if (!roce_qp_reliable(qp)) {
        return false;
    }
    return k + 1 == send->psn_count || (send->probe && k == 0) ||
           k % every == every - 1 ||
           (roce_window_reduced(&qp->requests) &&
            roce_sendq_data_in_flight(&qp->sq) + 1 >= qp->requests.size);
}

/* journey: headers */
/* Fills in opcode, extended headers and payload length of packet k. */
static void roce_send_headers(const RoceQp *qp, const RoceSend *send,
                              uint32_t k, RocePacket *packet)
{
    const RoceSendWr *wr = send->wr;
    const RoceWrInfo *info = roce_wr_info(wr->opcode);
    bool last = k + 1 == send->psn_count;
    uint8_t operation = info->only;

    packet->xrceth.srqn = wr->xrc_srqn;
    if (send->answered) {
        roce_send_answered_headers(qp, send, k, packet);
    } else {
        operation = roce_send_operation(info, k == 0, last);
        packet->solicited = last && wr->flags & FAKERNIC_SQ_SOLICITED;
        packet->ack_req = roce_send_asks(qp, send, k);
        packet->imm = wr->imm_or_key;
        packet->ieth_rkey = wr->imm_or_key;
        roce_send_reth(send, packet, 0, send->length);
        packet->payload_len = last ? send->length - k * qp->mtu : qp->mtu;
    }
    packet->opcode = roce_qp_bth(qp) | operation;
}
/* journey: end */

/*
 * Makes the packet with this PSN. 0: the entry failed, with a status, or waits
 * for pages. If *asks is set the packet must ask for an ACK. On return *asks
 * says whether it does.
 */
static size_t roce_send_packet(Roce *r, RoceQp *qp, RoceSend *send,
                               uint32_t psn, bool *asks, uint8_t *buf)
{
    uint32_t k = roce_psn_sub(psn, send->psn);
    const RoceSendWr *wr = send->wr;
    RocePacket packet;
    size_t at;

    if (!roce_path_begin(r, qp, &packet)) {
        roce_send_refuse(send, FAKERNIC_WC_LOC_QP_OP_ERR,
                         FAKERNIC_VENDOR_GID_INDEX);
        return 0;
    }
    packet.psn = psn;
    roce_send_headers(qp, send, k, &packet);
    packet.ack_req |= *asks;
    *asks = packet.ack_req;
    if (packet.payload_len > 0) {
        packet.traffic_class = roce_congestion_class(r, packet.traffic_class);
    }
    at = roce_wire_encode_on(buf, &qp->head, &packet);
    if (packet.payload_len > 0 && wr->flags & FAKERNIC_SQ_INLINE) {
        memcpy(buf + at, wr->inline_data + k * qp->mtu, packet.payload_len);
    } else if (packet.payload_len > 0) {
        const RoceSgl list = { qp->init.pd, wr->sge, wr->sge_count };
        uint16_t error = roce_sgl_gather(r->mrs, &list,
                                         (uint64_t)k * qp->mtu, buf + at,
                                         packet.payload_len);

        if (error == ROCE_VENDOR_FAULT) {
            roce_requester_wait_pages(r, qp);
            return 0;
        }
        if (error) {
            roce_send_refuse(send, FAKERNIC_WC_LOC_PROT_ERR, error);
            return 0;
        }
    }
    roce_note_output(r, qp, &packet, wr->index,
                     roce_sendq_attempt(&qp->sq, psn));
    return roce_wire_finish(buf, at, packet.payload_len);
}

/*
 * Accounts for a packet that is sent: PSN marks and timer. On UC the last
 * packet completes the message.
 */
static void roce_send_account(Roce *r, RoceTime now, RoceQp *qp,
                              RoceSend *send, bool asks, size_t len)
{
    RoceSendq *sq = &qp->sq;
    uint32_t left = roce_psn_sub(roce_send_end(send), sq->tx_psn);
    uint32_t part = roce_send_part(qp, send);
    bool limited = roce_pacer_charge(r, now, qp, qp->attr.av.static_rate, len);

    if (roce_psn_sub(sq->tx_psn, sq->una) < roce_psn_sub(sq->high, sq->una)) {
        roce_count(r, qp, FAKERNIC_STAT_RETRANSMITS);
    } else if (asks) {
        roce_retry_time(&qp->retry, now, sq->tx_psn);
    }
    roce_sendq_sent(sq, send->answered ? part : 1);
    if (!roce_qp_reliable(qp)) {
        send->done = left == 1;
        r->sent = qp;
        return;
    }
    roce_retry_sent(&qp->retry, now, &qp->attr, limited);
    roce_sched_timer(r, qp);
}

/*
 * Probes a silence with one packet that asks for an ACK. It is the last one in
 * flight, because the peer then reports at once what it misses before it.
 * Every second probe is the oldest one, because a peer reports a gap only
 * once.
 */
static size_t roce_send_probe(Roce *r, RoceQp *qp, uint8_t *buf)
{
    RoceSendq *sq = &qp->sq;
    uint32_t psn = roce_psn_sub(sq->tx_psn, 1);
    RoceSend *send;
    bool asks = true;
    uint8_t status;
    size_t len;

    if (!qp->retry.probe || roce_path_waits(r, qp)) {
        return 0;
    }
    roce_retry_probed(&qp->retry);
    if (sq->tx_psn == sq->una) {
        return 0;
    }
    send = roce_sendq_find(sq, psn);
    if (qp->retry.probes % 2 == 0) {
        psn = sq->una;
        send = roce_sendq_find(sq, psn);
    }
    /* A READ is not probed: take the request before it. */
    while (send->answered && send != roce_sendq_at(sq, sq->ci)) {
        psn = roce_psn_sub(send->psn, 1);
        send = roce_sendq_find(sq, psn);
    }
    if (send->answered) {
        return 0;
    }
    status = send->status;
    len = roce_send_packet(r, qp, send, psn, &asks, buf);
    if (len > 0) {
        roce_count(r, qp, FAKERNIC_STAT_PROBES);
        roce_sendq_probed(sq, psn);
    } else {
        /* A failed probe is no error: the answer may be on its way. */
        send->status = status;
    }
    return len;
}

/* In SQD, requests that have begun continue. */
static bool roce_requester_works(const RoceQp *qp)
{
    return qp->attr.state == FAKERNIC_QPS_RTS ||
           qp->attr.state == FAKERNIC_QPS_SQD;
}

/* Sets *paced if the next packet waits for the pacer. */
static size_t roce_send_next(Roce *r, RoceTime now, RoceQp *qp, uint8_t *buf,
                             bool *paced)
{
    RoceSendq *sq = &qp->sq;
    unsigned budget = ROCE_WQES_PER_TURN;

    while (budget-- > 0) {
        bool asks = false;
        RoceSend *send;
        size_t len;

        if (!roce_requester_works(qp) ||
            qp->retry.mode != ROCE_RETRY_SENDING) {
            return 0;
        }
        len = roce_send_probe(r, qp, buf);
        if (len > 0 || qp->retry.mode != ROCE_RETRY_SENDING) {
            return len;
        }
        if (sq->tx == sq->pi) {
            if (!roce_requester_fetch(r, now, qp)) {
                return 0;
            }
            roce_requester_check(r, qp, roce_sendq_at(sq, sq->tx));
        }
        send = roce_sendq_at(sq, sq->tx);
        if (send->status != FAKERNIC_WC_SUCCESS) {
            roce_retire(r, now, qp);
            return 0;
        }
        if (send->done) {
            roce_sendq_skip(sq);
            continue;
        }
        if (send->psn_count == 0) {
            if (qp->attr.state == FAKERNIC_QPS_SQD ||
                !roce_send_local(r, qp, send)) {
                return 0;
            }
            roce_retire(r, now, qp);
            continue;
        }
        if (roce_send_refuse_read(qp, send)) {
            continue;
        }
        if (!roce_send_may_go(r, qp, send) || roce_path_waits(r, qp)) {
            return 0;
        }
        *paced = roce_pacer_wait(r, now, qp);
        if (*paced) {
            return 0;
        }
        len = roce_send_packet(r, qp, send, sq->tx_psn, &asks, buf);
        if (len > 0) {
            roce_send_account(r, now, qp, send, asks, len);
            return len;
        }
    }
    roce_sched_ready(r, qp);
    return 0;
}

/* Is an answer outstanding? A failed QP waits for none. */
static bool roce_requester_awaits(const RoceQp *qp)
{
    return roce_qp_reliable(qp) && roce_requester_works(qp) &&
           !roce_sendq_empty(&qp->sq) && qp->sq.tx_psn != qp->sq.una;
}

size_t roce_requester_output(Roce *r, RoceTime now, RoceQp *qp, uint8_t *buf)
{
    bool paced = false;
    size_t len = roce_send_next(r, now, qp, buf, &paced);

    if (paced != qp->retry.paced) {
        roce_retry_pace(&qp->retry, now, &qp->attr, paced,
                        roce_requester_awaits(qp));
        roce_sched_timer(r, qp);
    }
    return len;
}

void roce_requester_retry(Roce *r, RoceTime now, RoceQp *qp,
                          uint16_t vendor_err)
{
    if (qp->retry.retry_left == 0 && roce_migration_switch(r, qp)) {
        return;
    }
    if (!roce_retry_take(&qp->retry)) {
        roce_count(r, qp, FAKERNIC_STAT_RETRY_EXCEEDED);
        roce_fail_send(r, now, qp, FAKERNIC_WC_RETRY_EXC_ERR, vendor_err);
        return;
    }
    roce_trace(r, ROCE_TRACE_RETRY, qp->qpn, qp->sq.una,
               qp->retry.retry_left);
    roce_sendq_rewind(&qp->sq);
    roce_sched_timer(r, qp);
    roce_sched_ready(r, qp);
}

void roce_requester_wait_pages(Roce *r, RoceQp *qp)
{
    roce_retry_wait_pages(&qp->retry);
    roce_sched_timer(r, qp);
    roce_pages_wait(r, qp, ROCE_WAIT_SEND);
}

/* The window that the oldest entry uses. */
static RoceWindow *roce_requester_window(RoceQp *qp)
{
    const RoceSend *head = roce_sendq_at(&qp->sq, qp->sq.ci);

    return !roce_sendq_empty(&qp->sq) && head->answered ? &qp->answers
                                                        : &qp->requests;
}

/*
 * The peer has been silent for a long time. One packet cannot probe for
 * answers, and to request all of them again makes a slow peer slower. So this
 * is done late, and only once.
 */
static void roce_requester_probe(Roce *r, RoceQp *qp)
{
    if (roce_requester_window(qp) == &qp->answers) {
        roce_retry_probed(&qp->retry);
        if (qp->retry.probes != ROCE_PROBE_OF_ANSWERS) {
            return;
        }
        roce_count(r, qp, FAKERNIC_STAT_PROBES);
        roce_window_lost(&qp->answers);
        roce_sendq_rewind(&qp->sq);
    }
    roce_trace(r, ROCE_TRACE_PROBE, qp->qpn, qp->sq.una, qp->retry.probes);
    roce_sched_ready(r, qp);
}

void roce_requester_timer(Roce *r, RoceTime now, RoceQp *qp)
{
    /* In flight are one packet, or answers, the last of which may be lost. */
    const bool only_silence = roce_requester_window(qp) == &qp->answers ||
                              qp->sq.tx_psn == roce_psn_next(qp->sq.una);
    RoceExpiry expiry = roce_retry_expire(&qp->retry, now, only_silence);

    roce_sched_timer(r, qp);
    switch (expiry) {
    case ROCE_EXPIRY_NOTHING:
        break;
    case ROCE_EXPIRY_RNR:
        roce_sendq_rewind(&qp->sq);
        roce_sched_ready(r, qp);
        break;
    case ROCE_EXPIRY_PROBE:
        roce_requester_probe(r, qp);
        break;
    case ROCE_EXPIRY_TIMEOUT:
        roce_window_lost(roce_requester_window(qp));
        roce_count(r, qp, FAKERNIC_STAT_TIMEOUTS);
        roce_trace(r, ROCE_TRACE_TIMEOUT, qp->qpn, qp->sq.una,
                   qp->retry.retry_left);
        roce_requester_retry(r, now, qp, FAKERNIC_VENDOR_RETRY_EXCEEDED);
        break;
    }
}
