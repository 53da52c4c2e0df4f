/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The completer of RC and XRC: it receives ACKs, NAKs, READ and atomic
 * responses, and completes or retries work requests (IBTA 9.7.5 to 9.7.7,
 * 9.9.2). It checks an answer against the send window before the answer
 * changes anything. An answer outside the window is stale or an attack, and is
 * dropped.
 */
#include "engine.h"

/*
 * The peer has answered: all retries are available again, and the ACK timer
 * restarts.
 */
static void roce_completer_progress(Roce *r, RoceTime now, RoceQp *qp)
{
    roce_retry_timed(&qp->retry, now, qp->sq.una);
    roce_retry_progress(&qp->retry, now, &qp->attr,
                        qp->sq.tx_psn != qp->sq.una);
    roce_sched_timer(r, qp);
}

/*
 * READ or atomic data is missing before the PSN that was answered (IBTA
 * 9.7.5.1.3.2, "implied NAK").
 */
static void roce_completer_gap(Roce *r, RoceTime now, RoceQp *qp)
{
    if (!roce_retry_sign(&qp->retry, ROCE_SIGN_GAP)) {
        roce_drop(r, FAKERNIC_STAT_DROP_RESPONSE, qp->qpn, qp->sq.una);
        return;
    }
    roce_count(r, qp, FAKERNIC_STAT_IMPLIED_NAK);
    roce_window_lost(&qp->answers);
    roce_requester_retry(r, now, qp, FAKERNIC_VENDOR_SEQ_RETRY_EXCEEDED);
}

/* journey: acked */
/* Acknowledges all PSNs up to 'psn'. True: nothing up to it is missing. */
static bool roce_completer_acked(Roce *r, RoceTime now, RoceQp *qp,
                                 uint32_t psn)
{
    uint32_t old = qp->sq.una;
    bool progress;
    bool complete = roce_sendq_ack(&qp->sq, psn, &progress);

    if (progress) {
        roce_window_answered(&qp->requests, roce_psn_sub(qp->sq.una, old));
        roce_completer_progress(r, now, qp);
        roce_retire(r, now, qp);
    }
    return complete;
}
/* journey: end */

/* Acknowledges all PSNs before 'psn'. True: nothing before it is missing. */
static bool roce_completer_before(Roce *r, RoceTime now, RoceQp *qp,
                                  uint32_t psn)
{
    return psn == qp->sq.una ||
           roce_completer_acked(r, now, qp, roce_psn_sub(psn, 1));
}

static void roce_completer_ack(Roce *r, RoceTime now, RoceQp *qp, uint32_t psn)
{
    bool complete = roce_completer_acked(r, now, qp, psn);

    if (!complete && qp->attr.state != FAKERNIC_QPS_ERR) {
        roce_completer_gap(r, now, qp);
    }
}

static void roce_completer_rnr(Roce *r, RoceTime now, RoceQp *qp,
                               uint8_t timer)
{
    roce_count(r, qp, FAKERNIC_STAT_RX_RNR_NAK);
    switch (roce_retry_rnr(&qp->retry, now, &qp->attr, timer)) {
    case ROCE_RNR_KNOWN:
        break;
    case ROCE_RNR_WAIT:
        roce_sendq_rewind(&qp->sq);
        roce_sched_timer(r, qp);
        break;
    case ROCE_RNR_EXCEEDED:
        roce_count(r, qp, FAKERNIC_STAT_RNR_RETRY_EXCEEDED);
        roce_fail_send(r, now, qp, FAKERNIC_WC_RNR_RETRY_EXC_ERR,
                       FAKERNIC_VENDOR_RNR_RETRY_EXCEEDED);
        break;
    }
}

static void roce_completer_nak(Roce *r, RoceTime now, RoceQp *qp, uint8_t code)
{
    uint8_t status;
    uint16_t vendor_err;
    enum fakernic_stat stat;

    switch (code) {
    case ROCE_NAK_SEQUENCE:
        roce_count(r, qp, FAKERNIC_STAT_RX_SEQ_NAK);
        if (roce_retry_sign(&qp->retry, ROCE_SIGN_NAK)) {
            roce_window_lost(&qp->requests);
            roce_requester_retry(r, now, qp,
                                 FAKERNIC_VENDOR_SEQ_RETRY_EXCEEDED);
        }
        return;
    case ROCE_NAK_INVALID_REQUEST:
        status = FAKERNIC_WC_REM_INV_REQ_ERR;
        vendor_err = FAKERNIC_VENDOR_NAK_INVALID_REQUEST;
        stat = FAKERNIC_STAT_RX_NAK_INVALID_REQUEST;
        break;
    case ROCE_NAK_REMOTE_ACCESS:
        status = FAKERNIC_WC_REM_ACCESS_ERR;
        vendor_err = FAKERNIC_VENDOR_NAK_REMOTE_ACCESS;
        stat = FAKERNIC_STAT_RX_NAK_REMOTE_ACCESS;
        break;
    case ROCE_NAK_REMOTE_OPERATION:
        status = FAKERNIC_WC_REM_OP_ERR;
        vendor_err = FAKERNIC_VENDOR_NAK_REMOTE_OPERATION;
        stat = FAKERNIC_STAT_RX_NAK_REMOTE_OPERATION;
        break;
    default:
        roce_drop(r, FAKERNIC_STAT_DROP_RESPONSE, qp->qpn, qp->sq.una);
        return;
    }
    roce_count(r, qp, stat);
    roce_fail_send(r, now, qp, status, vendor_err);
}

static void roce_completer_aeth(Roce *r, RoceTime now, RoceQp *qp,
                                const RocePacket *packet)
{
    uint8_t syndrome = packet->aeth.syndrome;
    uint8_t type = syndrome & ROCE_AETH_TYPE;

    if (type == ROCE_AETH_ACK) {
        roce_completer_ack(r, now, qp, packet->psn);
        return;
    }
    if (type != ROCE_AETH_RNR && type != ROCE_AETH_NAK) {
        roce_drop(r, FAKERNIC_STAT_DROP_RESPONSE, qp->qpn, packet->psn);
        return;
    }
    roce_trace(r, ROCE_TRACE_NAK_RX, qp->qpn, packet->psn, syndrome);
    /* A NAK acknowledges all packets before the one that it names. */
    if (!roce_completer_before(r, now, qp, packet->psn)) {
        roce_completer_gap(r, now, qp);
        return;
    }
    if (qp->attr.state == FAKERNIC_QPS_ERR || roce_sendq_empty(&qp->sq)) {
        return;
    }
    if (type == ROCE_AETH_RNR) {
        roce_completer_rnr(r, now, qp, syndrome & 31);
    } else {
        roce_completer_nak(r, now, qp, syndrome & 31);
    }
}

/* Stores the data of answer packet k in guest memory. Returns 0 or a status. */
static uint8_t roce_completer_store(Roce *r, RoceQp *qp, RoceSend *send,
                                    uint32_t k, const RocePacket *packet,
                                    uint16_t *vendor_err)
{
    const RoceSendWr *wr = send->wr;
    bool last = k + 1 == send->psn_count;
    uint8_t original[8];
    const uint8_t *data = packet->payload;
    size_t len = packet->payload_len;
    size_t expect = last ? send->length - k * qp->mtu : qp->mtu;
    unsigned i;

    if (roce_opcode_info(packet->opcode)->operation == ROCE_OP_ATOMIC_ACK) {
        for (i = 0; i < 8; i++) {
            original[i] = (uint8_t)(packet->atomic_ack >> 8 * i);
        }
        data = original;
        len = expect = sizeof(original);
    } else if (!(roce_wr_info(wr->opcode)->flags & ROCE_WR_SCATTERS)) {
        expect = 0;
    }
    if (len != expect) {
        *vendor_err = FAKERNIC_VENDOR_BAD_RESPONSE;
        return FAKERNIC_WC_BAD_RESP_ERR;
    }
    if (len > 0) {
        const RoceSgl list = { qp->init.pd, wr->sge, wr->sge_count };

        *vendor_err = roce_sgl_scatter(r->mrs, &list, (uint64_t)k * qp->mtu,
                                       data, len);
        if (*vendor_err) {
            return FAKERNIC_WC_LOC_PROT_ERR;
        }
    }
    if (last && wr->opcode == FAKERNIC_SQ_RDMA_READ_INV) {
        *vendor_err = roce_mr_invalidate(r->mrs, wr->imm_or_key, qp->init.pd,
                                         qp->qpn, false);
        return *vendor_err ? FAKERNIC_WC_MW_BIND_ERR : FAKERNIC_WC_SUCCESS;
    }
    return FAKERNIC_WC_SUCCESS;
}

/* Does this kind of answer packet fit its place in the answer? */
static bool roce_completer_fits(const RoceSendq *sq, const RoceSend *send,
                                const RoceOpcodeInfo *info)
{
    uint32_t next = roce_psn_next(sq->una);
    /* Last packet of the READ, or of the part that was requested. */
    bool last = next == roce_send_end(send) || next == sq->high;

    if (roce_wr_info(send->wr->opcode)->kind == ROCE_KIND_ATOMIC) {
        return info->operation == ROCE_OP_ATOMIC_ACK;
    }
    /*
     * An answer may begin anywhere, because it may have been requested again.
     */
    return info->operation == ROCE_OP_READ_RESPONSE &&
           ((info->flags & ROCE_LAST) != 0) == last;
}

static void roce_completer_data(Roce *r, RoceTime now, RoceQp *qp,
                                const RocePacket *packet,
                                const RoceOpcodeInfo *info)
{
    RoceSendq *sq = &qp->sq;
    uint16_t vendor_err = 0;
    RoceSend *head;
    uint8_t status;
    uint32_t k;

    if (!roce_completer_before(r, now, qp, packet->psn)) {
        roce_completer_gap(r, now, qp);
        return;
    }
    if (qp->attr.state == FAKERNIC_QPS_ERR || roce_sendq_empty(sq)) {
        return;
    }
    head = roce_sendq_at(sq, sq->ci);
    k = roce_psn_sub(packet->psn, head->psn);
    if (!head->started || !head->answered || k >= head->psn_count ||
        packet->psn != sq->una) {
        /* Data for a SEND or WRITE: C9-152, treated as not received. */
        roce_drop(r, FAKERNIC_STAT_DROP_RESPONSE, qp->qpn, packet->psn);
        return;
    }
    if (!roce_completer_fits(sq, head, info)) {
        roce_fail_send(r, now, qp, FAKERNIC_WC_BAD_RESP_ERR,
                       FAKERNIC_VENDOR_BAD_RESPONSE);
        return;
    }
    status = roce_completer_store(r, qp, head, k, packet, &vendor_err);
    if (vendor_err == ROCE_VENDOR_FAULT) {
        /* Requested again when the pages are present. */
        roce_requester_wait_pages(r, qp);
        return;
    }
    if (status != FAKERNIC_WC_SUCCESS) {
        roce_fail_send(r, now, qp, status, vendor_err);
        return;
    }
    roce_sendq_answer(sq);
    roce_window_answered(&qp->answers, 1);
    roce_completer_progress(r, now, qp);
    roce_retire(r, now, qp);
}

/*
 * An answer also contains the number of the peer's receives (IBTA 9.7.7.2).
 * The peer may repeat its last ACK only for this. True: such a repeated ACK
 * has raised the limit.
 */
static bool roce_completer_credits(RoceQp *qp, const RocePacket *packet,
                                   const RoceOpcodeInfo *info, bool awaited)
{
    RoceSendq *sq = &qp->sq;
    uint8_t code = packet->aeth.syndrome & ROCE_CREDIT_NONE;

    if (!(info->flags & ROCE_HAS_AETH) ||
        (packet->aeth.syndrome & ROCE_AETH_TYPE) != ROCE_AETH_ACK ||
        (!awaited && packet->psn != roce_psn_sub(sq->una, 1))) {
        return false;
    }
    if (code == ROCE_CREDIT_NONE) {
        roce_sendq_uncredited(sq);
        return false;
    }
    return roce_sendq_credit(sq, packet->aeth.msn, roce_credit_decode(code));
}

void roce_completer_input(Roce *r, RoceTime now, RoceQp *qp,
                          const RocePacket *packet)
{
    const RoceOpcodeInfo *info = roce_opcode_info(packet->opcode);
    bool awaited = !roce_sendq_empty(&qp->sq) &&
                   roce_sendq_awaits(&qp->sq, packet->psn);
    bool credits = roce_completer_credits(qp, packet, info, awaited);

    if (!awaited && credits) {
        roce_sched_ready(r, qp);
        return;
    }
    if (!awaited) {
        roce_drop(r, FAKERNIC_STAT_DROP_RESPONSE, qp->qpn, packet->psn);
        return;
    }
    if (info->operation == ROCE_OP_ACK) {
        roce_completer_aeth(r, now, qp, packet);
    } else {
        roce_completer_data(r, now, qp, packet, info);
    }
    roce_sched_ready(r, qp);
}
