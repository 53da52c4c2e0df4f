/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The responder of RC, XRC and UC: it executes request packets on memory,
 * completes receives, and schedules answers to the peer (IBTA 9.7.4, 9.7.5,
 * 9.8.2, 9.9.3). It checks a whole packet before the packet changes anything,
 * so that a repeated one finds the same state. It trusts no field of a packet.
 */
#include "engine.h"

/* Result of a request packet. */
typedef enum RoceVerdict {
    ROCE_VERDICT_DONE,
    ROCE_VERDICT_WAIT,          /* no receive posted */
    ROCE_VERDICT_FAULT,         /* a page is absent */
    ROCE_VERDICT_FAILED,        /* the QP fails; the error is reported
                                 * already */
} RoceVerdict;

/*
 * The QP fails. A held receive reports the reason, otherwise an event does
 * (IBTA 9.9.3, table 62 classes A and C). UC has no NAK to send.
 */
static RoceVerdict roce_responder_fail(Roce *r, RoceTime now, RoceQp *qp,
                                       uint8_t nak, uint8_t recv_status,
                                       uint16_t vendor_err)
{
    uint8_t event = nak == ROCE_NAK_REMOTE_ACCESS
                        ? FAKERNIC_EVENT_QP_ACCESS_ERROR
                        : FAKERNIC_EVENT_QP_REQUEST_ERROR;

    if (nak == ROCE_NAK_REMOTE_ACCESS) {
        roce_count(r, qp, FAKERNIC_STAT_REMOTE_ACCESS_ERRORS);
    }
    if (qp->rx.held) {
        roce_fail_recv(r, qp, recv_status, vendor_err);
        event = FAKERNIC_EVENT_NONE;
    } else if (nak == ROCE_NAK_REMOTE_OPERATION) {
        event = FAKERNIC_EVENT_QP_FATAL;
    }
    if (qp->init.type == FAKERNIC_QP_UC) {
        roce_enter_error(r, now, qp, event, vendor_err);
    } else {
        roce_response_fatal(r, qp, nak, qp->rs.epsn, event, vendor_err);
    }
    return ROCE_VERDICT_FAILED;
}

/* The peer broke a rule; UC only loses the message (IBTA 9.8.2.1). */
static RoceVerdict roce_responder_invalid(Roce *r, RoceTime now, RoceQp *qp,
                                          uint16_t vendor_err)
{
    if (qp->init.type == FAKERNIC_QP_UC) {
        qp->rs.message = ROCE_MESSAGE_SKIP;
        return ROCE_VERDICT_DONE;
    }
    return roce_responder_fail(r, now, qp, ROCE_NAK_INVALID_REQUEST,
                               FAKERNIC_WC_REM_INV_REQ_ERR, vendor_err);
}

/* Handles an access error. A page fault is not an error: the request waits. */
static RoceVerdict roce_responder_access(Roce *r, RoceTime now, RoceQp *qp,
                                         uint16_t vendor_err)
{
    if (vendor_err == ROCE_VENDOR_FAULT) {
        return ROCE_VERDICT_FAULT;
    }
    if (qp->init.type == FAKERNIC_QP_UC) {
        roce_count(r, qp, FAKERNIC_STAT_REMOTE_ACCESS_ERRORS);
        qp->rs.message = ROCE_MESSAGE_SKIP;
        return ROCE_VERDICT_DONE;
    }
    return roce_responder_fail(r, now, qp, ROCE_NAK_REMOTE_ACCESS,
                               FAKERNIC_WC_LOC_ACCESS_ERR, vendor_err);
}

/* Fetches a receive, if none is held, and checks it. */
static RoceVerdict roce_responder_recv(Roce *r, RoceTime now, RoceQp *qp)
{
    switch (roce_take_recv(r, qp)) {
    case ROCE_FETCH_NONE:
        return ROCE_VERDICT_WAIT;
    case ROCE_FETCH_ERROR:
        return roce_responder_fail(r, now, qp, ROCE_NAK_REMOTE_OPERATION, 0,
                                   qp->rx.wr.format_error);
    default:
        break;
    }
    if (qp->rx.wr.format_error) {
        return roce_responder_fail(r, now, qp, ROCE_NAK_REMOTE_OPERATION,
                                   FAKERNIC_WC_LOC_QP_OP_ERR,
                                   qp->rx.wr.format_error);
    }
    return ROCE_VERDICT_DONE;
}

/* Completes the held receive of a complete message. */
static void roce_responder_deliver(Roce *r, RoceQp *qp,
                                   const RocePacket *packet,
                                   const RoceOpcodeInfo *info)
{
    bool write = info->operation == ROCE_OP_WRITE;
    RoceCompletion completion = {
        .byte_count = (uint32_t)qp->rs.offset,
        .opcode = write ? FAKERNIC_CQE_RECV_RDMA_IMM : FAKERNIC_CQE_RECV,
        .status = FAKERNIC_WC_SUCCESS,
        .flags = packet->solicited ? FAKERNIC_CQE_SOLICITED : 0,
    };

    if (info->flags & ROCE_HAS_IMM) {
        completion.flags |= FAKERNIC_CQE_IMM;
        completion.imm_or_key = packet->imm;
    } else if (info->flags & ROCE_HAS_IETH) {
        completion.flags |= FAKERNIC_CQE_INV;
        completion.imm_or_key = packet->ieth_rkey;
    }
    roce_complete_recv(r, qp, &completion);
}

/* Payload size by place in the message (C9-73 to C9-78). */
static bool roce_responder_length_ok(const RoceQp *qp,
                                     const RocePacket *packet, uint16_t flags)
{
    if (!(flags & ROCE_LAST)) {
        return packet->payload_len == qp->mtu;
    }
    return packet->payload_len <= qp->mtu &&
           (packet->payload_len > 0 || flags & ROCE_FIRST);
}

static RoceVerdict roce_responder_send(Roce *r, RoceTime now, RoceQp *qp,
                                       const RocePacket *packet,
                                       const RoceOpcodeInfo *info)
{
    RoceResponder *rs = &qp->rs;
    RoceReceive *rx = &qp->rx;
    uint64_t offset = info->flags & ROCE_FIRST ? 0 : rs->offset;
    RoceVerdict verdict = roce_responder_recv(r, now, qp);
    uint16_t error;

    if (verdict != ROCE_VERDICT_DONE) {
        return verdict;
    }
    if (!roce_responder_length_ok(qp, packet, info->flags) ||
        offset + packet->payload_len > ROCE_MESSAGE_MAX) {
        return roce_responder_invalid(r, now, qp,
                                      FAKERNIC_VENDOR_REQUEST_LENGTH);
    }
    if (offset + packet->payload_len > rx->capacity) {
        return roce_responder_fail(r, now, qp, ROCE_NAK_INVALID_REQUEST,
                                   FAKERNIC_WC_LOC_LEN_ERR,
                                   FAKERNIC_VENDOR_RQ_TOO_SMALL);
    }
    if (packet->payload_len > 0) {
        const RoceSgl list = { rs->pd, rx->wr.sge, rx->wr.sge_count };

        error = roce_sgl_scatter(r->mrs, &list, offset, packet->payload,
                                 packet->payload_len);
        if (error == ROCE_VENDOR_FAULT) {
            return ROCE_VERDICT_FAULT;
        }
        if (error) {
            return roce_responder_fail(r, now, qp, ROCE_NAK_REMOTE_OPERATION,
                                       FAKERNIC_WC_LOC_PROT_ERR, error);
        }
    }
    rs->message = ROCE_MESSAGE_SEND;
    rs->offset = offset + packet->payload_len;
    if (info->flags & ROCE_HAS_IETH) {
        error = roce_mr_invalidate(r->mrs, packet->ieth_rkey, rs->pd,
                                   qp->qpn, true);
        if (error) {
            return roce_responder_fail(r, now, qp, ROCE_NAK_REMOTE_ACCESS,
                                       FAKERNIC_WC_MW_BIND_ERR, error);
        }
    }
    if (info->flags & ROCE_LAST) {
        rs->message = ROCE_MESSAGE_NONE;
        roce_responder_deliver(r, qp, packet, info);
    }
    return ROCE_VERDICT_DONE;
}

/* The access to the bytes that a request's RETH names, with these rights. */
static RoceAccess roce_reth_access(const RoceQp *qp, const RocePacket *packet,
                                   uint32_t rights)
{
    return (RoceAccess) {
        .key = packet->reth.rkey,
        .rights = rights,
        .pd = qp->rs.pd,
        .qpn = qp->qpn,
        .address = packet->reth.address,
        .length = packet->reth.length,
    };
}

/* journey: first-check */
/*
 * Checks a WRITE's header: rights, region and total length. A WRITE of one
 * packet that needs no receive is checked when it is stored.
 */
static uint16_t roce_responder_check_write(Roce *r, RoceQp *qp,
                                           const RocePacket *packet,
                                           const RoceOpcodeInfo *info)
{
    const RoceAccess access = roce_reth_access(qp, packet,
                                               FAKERNIC_ACCESS_REMOTE_WRITE);
    const RoceMr *mr;

    if (packet->reth.length > ROCE_MESSAGE_MAX) {
        return FAKERNIC_VENDOR_REQUEST_LENGTH;
    }
    if (info->flags & ROCE_LAST && !(info->flags & ROCE_HAS_IMM)) {
        return 0;
    }
    return roce_mr_check(r->mrs, &access, &mr);
}
/* journey: end */

/*
 * Stores one packet's data after a new check of the key. 'left' is the number
 * of bytes of the message from there on.
 */
static uint16_t roce_responder_store(Roce *r, RoceQp *qp,
                                     const RocePacket *packet,
                                     uint64_t address, uint32_t rkey,
                                     uint64_t left)
{
    const RoceAccess access = {
        .key = rkey,
        .rights = FAKERNIC_ACCESS_REMOTE_WRITE,
        .pd = qp->rs.pd,
        .qpn = qp->qpn,
        .address = address,
        .length = packet->payload_len,
    };
    const RoceMr *mr;
    uint16_t error;

    if (packet->payload_len == 0) {
        return 0;
    }
    /* journey: second-check */
    error = roce_mr_grant(r->mrs, &access, access.length, left, &mr);
    if (error) {
        return error;
    }
    return roce_mr_write(r->mrs, mr, address, packet->payload,
                         packet->payload_len) ? 0 : FAKERNIC_VENDOR_KEY_DMA;
    /* journey: end */
}

static RoceVerdict roce_responder_write(Roce *r, RoceTime now, RoceQp *qp,
                                        const RocePacket *packet,
                                        const RoceOpcodeInfo *info)
{
    RoceResponder *rs = &qp->rs;
    bool first = info->flags & ROCE_FIRST;
    uint64_t offset = first ? 0 : rs->offset;
    uint64_t address = first ? packet->reth.address : rs->address;
    uint32_t rkey = first ? packet->reth.rkey : rs->rkey;
    uint32_t length = first ? packet->reth.length : rs->length;
    uint16_t error;

    if (!(qp->attr.access_flags & FAKERNIC_ACCESS_REMOTE_WRITE)) {
        return roce_responder_invalid(r, now, qp, FAKERNIC_VENDOR_QP_ACCESS);
    }
    error = first ? roce_responder_check_write(r, qp, packet, info) : 0;
    if (error == FAKERNIC_VENDOR_REQUEST_LENGTH ||
        !roce_responder_length_ok(qp, packet, info->flags) ||
        offset + packet->payload_len > length ||
        (info->flags & ROCE_LAST && offset + packet->payload_len != length)) {
        return roce_responder_invalid(r, now, qp,
                                      FAKERNIC_VENDOR_REQUEST_LENGTH);
    }
    if (error) {
        return roce_responder_access(r, now, qp, error);
    }
    if (info->flags & ROCE_HAS_IMM) {
        RoceVerdict verdict = roce_responder_recv(r, now, qp);

        if (verdict != ROCE_VERDICT_DONE) {
            return verdict;
        }
    }
    error = roce_responder_store(r, qp, packet, address + offset, rkey,
                                 length - offset);
    if (error) {
        return roce_responder_access(r, now, qp, error);
    }
    rs->message = ROCE_MESSAGE_WRITE;
    rs->address = address;
    rs->rkey = rkey;
    rs->length = length;
    rs->offset = offset + packet->payload_len;
    if (info->flags & ROCE_LAST) {
        rs->message = ROCE_MESSAGE_NONE;
        if (info->flags & ROCE_HAS_IMM) {
            roce_responder_deliver(r, qp, packet, info);
        }
    }
    return ROCE_VERDICT_DONE;
}

/* Accepts a READ. response.c sends the answer. */
static RoceVerdict roce_responder_read(Roce *r, RoceTime now, RoceQp *qp,
                                       const RocePacket *packet)
{
    const RoceAccess access = roce_reth_access(qp, packet,
                                               FAKERNIC_ACCESS_REMOTE_READ);
    RoceResponder *rs = &qp->rs;
    uint32_t length = packet->reth.length;
    const RoceMr *mr;
    RoceResource *res;
    uint16_t error;

    if (!(qp->attr.access_flags & FAKERNIC_ACCESS_REMOTE_READ)) {
        return roce_responder_invalid(r, now, qp, FAKERNIC_VENDOR_QP_ACCESS);
    }
    if (length > ROCE_MESSAGE_MAX) {
        return roce_responder_invalid(r, now, qp,
                                      FAKERNIC_VENDOR_REQUEST_LENGTH);
    }
    /*
     * Only the first packet's data need be present. Pages of the rest may be
     * requested when their packets are due.
     */
    error = roce_mr_grant(r->mrs, &access,
                          length < qp->mtu ? length : qp->mtu, length, &mr);
    if (error) {
        return roce_responder_access(r, now, qp, error);
    }
    res = roce_response_take(qp);
    if (!res) {
        return roce_responder_invalid(r, now, qp,
                                      FAKERNIC_VENDOR_REQUEST_READS);
    }
    res->psn = rs->epsn;
    res->psn_count = length == 0 ? 1 : (length - 1) / qp->mtu + 1;
    res->address = packet->reth.address;
    res->rkey = packet->reth.rkey;
    res->length = length;
    return ROCE_VERDICT_DONE;
}

static uint8_t roce_responder_atomic_opcode(RoceOperation operation)
{
    switch (operation) {
    case ROCE_OP_CMP_SWAP:
        return FAKERNIC_SQ_ATOMIC_CMP_SWAP;
    case ROCE_OP_MASKED_CMP_SWAP:
        return FAKERNIC_SQ_ATOMIC_MASKED_CMP_SWAP;
    case ROCE_OP_MASKED_FETCH_ADD:
        return FAKERNIC_SQ_ATOMIC_MASKED_FETCH_ADD;
    default:
        return FAKERNIC_SQ_ATOMIC_FETCH_ADD;
    }
}

/* Executes an atomic once, and keeps its answer for duplicates. */
static RoceVerdict roce_responder_atomic(Roce *r, RoceTime now, RoceQp *qp,
                                         const RocePacket *packet,
                                         const RoceOpcodeInfo *info)
{
    RoceAtomic op = {
        .opcode = roce_responder_atomic_opcode(info->operation),
        .swap_or_add = packet->atomic_eth.swap_or_add,
        .compare = packet->atomic_eth.compare,
        .swap_mask_or_boundary = packet->atomic_eth.swap_mask_or_boundary,
        .compare_mask = packet->atomic_eth.compare_mask,
    };
    uint64_t address = packet->atomic_eth.address;
    const RoceAccess access = {
        .key = packet->atomic_eth.rkey,
        .rights = FAKERNIC_ACCESS_REMOTE_ATOMIC,
        .pd = qp->rs.pd,
        .qpn = qp->qpn,
        .address = address,
        .length = 8,
    };
    const RoceMr *mr;
    RoceResource *res;
    uint16_t error;

    if (!(qp->attr.access_flags & FAKERNIC_ACCESS_REMOTE_ATOMIC)) {
        return roce_responder_invalid(r, now, qp, FAKERNIC_VENDOR_QP_ACCESS);
    }
    if (address % 8 != 0) {
        return roce_responder_invalid(r, now, qp, FAKERNIC_VENDOR_ALIGNMENT);
    }
    error = roce_mr_grant(r->mrs, &access, 8, 8, &mr);
    if (error) {
        return roce_responder_access(r, now, qp, error);
    }
    res = roce_response_take(qp);
    if (!res) {
        return roce_responder_invalid(r, now, qp,
                                      FAKERNIC_VENDOR_REQUEST_READS);
    }
    res->kind = ROCE_ANSWER_ATOMIC;
    res->psn = qp->rs.epsn;
    res->psn_count = 1;
    if (!roce_mr_atomic(r->mrs, mr, address, &op)) {
        /* A fatal NAK replaces the answer. */
        res->valid = false;
        roce_response_cancel(qp, res);
        return roce_responder_access(r, now, qp, FAKERNIC_VENDOR_KEY_DMA);
    }
    res->original = op.original;
    return ROCE_VERDICT_DONE;
}

/*
 * ATOMIC WRITE (IBTA annex A19.4): stores 8 aligned bytes once. The answer, an
 * empty READ response, is kept for duplicates like an atomic's.
 */
static RoceVerdict roce_responder_atomic_write(Roce *r, RoceTime now,
                                               RoceQp *qp,
                                               const RocePacket *packet)
{
    const RoceAccess access = roce_reth_access(qp, packet,
                                               FAKERNIC_ACCESS_REMOTE_WRITE);
    const RoceMr *mr;
    RoceResource *res;
    uint16_t error;

    if (!(qp->attr.access_flags & FAKERNIC_ACCESS_REMOTE_WRITE)) {
        return roce_responder_invalid(r, now, qp, FAKERNIC_VENDOR_QP_ACCESS);
    }
    if (packet->reth.length != 8 || packet->payload_len != 8) {
        return roce_responder_invalid(r, now, qp,
                                      FAKERNIC_VENDOR_REQUEST_LENGTH);
    }
    if (packet->reth.address % 8 != 0) {
        return roce_responder_invalid(r, now, qp, FAKERNIC_VENDOR_ALIGNMENT);
    }
    error = roce_mr_grant(r->mrs, &access, 8, 8, &mr);
    if (error) {
        return roce_responder_access(r, now, qp, error);
    }
    res = roce_response_take(qp);
    if (!res) {
        return roce_responder_invalid(r, now, qp,
                                      FAKERNIC_VENDOR_REQUEST_READS);
    }
    res->kind = ROCE_ANSWER_DONE;
    res->psn = qp->rs.epsn;
    res->psn_count = 1;
    if (!roce_mr_write(r->mrs, mr, packet->reth.address, packet->payload, 8)) {
        res->valid = false;
        roce_response_cancel(qp, res);
        return roce_responder_access(r, now, qp, FAKERNIC_VENDOR_KEY_DMA);
    }
    return ROCE_VERDICT_DONE;
}

/* Fills in the range of a FLUSH, or the whole region or window of the key. */
static uint16_t roce_responder_flush_range(Roce *r, RoceQp *qp,
                                           const RocePacket *packet,
                                           RoceResource *res)
{
    RoceAccess access;
    const RoceMr *mr;
    uint16_t error;

    res->rkey = packet->reth.rkey;
    res->flush.persistent = packet->feth & FAKERNIC_FLUSH_PERSISTENT;
    res->flush.address = packet->reth.address;
    res->flush.left = packet->reth.length;
    if (!(packet->feth & FAKERNIC_FLUSH_LEVEL_MR)) {
        return 0;
    }
    access = roce_reth_access(qp, packet, res->access);
    error = roce_mr_check_key(r->mrs, &access, &mr);
    if (!error && !roce_mr_flush_all(mr, &res->flush)) {
        error = FAKERNIC_VENDOR_KEY_DMA;
    }
    return error;
}

/*
 * FLUSH (IBTA annex A19). Packets execute in order, so all earlier requests of
 * the QP have taken effect. The answer is that of ATOMIC WRITE. If one step
 * does not finish the FLUSH, it continues when its answer is due, and nothing
 * later executes before it is complete.
 */
static RoceVerdict roce_responder_flush(Roce *r, RoceTime now, RoceQp *qp,
                                        const RocePacket *packet)
{
    const uint32_t types = FAKERNIC_FLUSH_GLOBAL | FAKERNIC_FLUSH_PERSISTENT;
    uint32_t access = 0;
    RoceResource *res;
    uint16_t error;

    if (packet->feth & FAKERNIC_FLUSH_GLOBAL) {
        access |= FAKERNIC_ACCESS_FLUSH_GLOBAL;
    }
    if (packet->feth & FAKERNIC_FLUSH_PERSISTENT) {
        access |= FAKERNIC_ACCESS_FLUSH_PERSISTENT;
    }
    if (access == 0 || packet->feth & ~(types | FAKERNIC_FLUSH_LEVEL_MR)) {
        return roce_responder_invalid(r, now, qp,
                                      FAKERNIC_VENDOR_REQUEST_OPCODE);
    }
    if (access & ~qp->attr.access_flags) {
        return roce_responder_invalid(r, now, qp, FAKERNIC_VENDOR_QP_ACCESS);
    }
    if (packet->reth.length > ROCE_MESSAGE_MAX) {
        return roce_responder_invalid(r, now, qp,
                                      FAKERNIC_VENDOR_REQUEST_LENGTH);
    }
    res = roce_response_take(qp);
    if (!res) {
        return roce_responder_invalid(r, now, qp,
                                      FAKERNIC_VENDOR_REQUEST_READS);
    }
    res->kind = ROCE_ANSWER_FLUSH;
    res->access = access;
    res->psn = qp->rs.epsn;
    res->psn_count = 1;
    error = roce_responder_flush_range(r, qp, packet, res);
    if (!error) {
        error = roce_response_flush(r, qp, res);
    }
    if (error) {
        res->valid = false;
        roce_response_cancel(qp, res);
        return roce_responder_access(r, now, qp, error);
    }
    return ROCE_VERDICT_DONE;
}

/*
 * Looks up the SRQ that a request to an XRC target names (IBTA annex A14).
 * Receives come from it, and keys belong to its PD. All packets of a message
 * name the same SRQ. A target does not keep its SRQ alive. If the SRQ is gone,
 * a receive fetched for a message that has not begun is discarded, and the
 * next SRQ with this number supplies another.
 */
static bool roce_responder_srq(Roce *r, RoceQp *qp, const RocePacket *packet)
{
    bool begun = qp->rs.message != ROCE_MESSAGE_NONE;
    RoceXrcSrq srq;
    bool found;

    if ((begun || qp->rx.held) && packet->xrceth.srqn != qp->rx.srqn) {
        return false;
    }
    found = r->ops->xrc_srq(r->host, packet->xrceth.srqn, qp->init.xrcdn,
                            &srq);
    if (!found || srq.id != qp->rx.srq) {
        qp->rx.held = false;
    }
    if (!found || (begun && srq.id != qp->rx.srq)) {
        return false;
    }
    qp->rx.srq = srq.id;
    qp->rx.srqn = packet->xrceth.srqn;
    qp->rx.cqn = srq.cqn;
    qp->rs.pd = srq.pd;
    return true;
}

/* Opcode sequence (C9-68 to C9-71): may this packet follow the previous one? */
static bool roce_responder_follows(const RoceQp *qp,
                                   const RoceOpcodeInfo *info)
{
    RoceMessage want = ROCE_MESSAGE_NONE;

    if (!(info->flags & ROCE_FIRST)) {
        want = info->operation == ROCE_OP_SEND ? ROCE_MESSAGE_SEND
                                               : ROCE_MESSAGE_WRITE;
    }
    return qp->rs.message == want;
}

static RoceVerdict roce_responder_execute(Roce *r, RoceTime now, RoceQp *qp,
                                          const RocePacket *packet,
                                          const RoceOpcodeInfo *info)
{
    if (!roce_responder_follows(qp, info)) {
        return roce_responder_invalid(r, now, qp,
                                      FAKERNIC_VENDOR_REQUEST_OPCODE);
    }
    if (info->flags & ROCE_HAS_XRCETH && !roce_responder_srq(r, qp, packet)) {
        return roce_responder_invalid(r, now, qp,
                                      FAKERNIC_VENDOR_REQUEST_SRQ);
    }
    switch (info->operation) {
    case ROCE_OP_SEND:
        return roce_responder_send(r, now, qp, packet, info);
    case ROCE_OP_WRITE:
        return roce_responder_write(r, now, qp, packet, info);
    case ROCE_OP_READ_REQUEST:
        return roce_responder_read(r, now, qp, packet);
    case ROCE_OP_CMP_SWAP:
    case ROCE_OP_FETCH_ADD:
    case ROCE_OP_MASKED_CMP_SWAP:
    case ROCE_OP_MASKED_FETCH_ADD:
        return roce_responder_atomic(r, now, qp, packet, info);
    case ROCE_OP_ATOMIC_WRITE:
        return roce_responder_atomic_write(r, now, qp, packet);
    case ROCE_OP_FLUSH:
        return roce_responder_flush(r, now, qp, packet);
    default:
        /* Reserved (IBTA 9.9.3, table 62: "unsupported or reserved OpCode"). */
        return roce_responder_invalid(r, now, qp,
                                      FAKERNIC_VENDOR_REQUEST_OPCODE);
    }
}

/*
 * Updates PSN and MSN after the expected packet was executed, and schedules
 * the ACK that it asks for.
 */
static void roce_responder_advance(Roce *r, RoceQp *qp,
                                   const RocePacket *packet,
                                   const RoceOpcodeInfo *info)
{
    RoceResponder *rs = &qp->rs;
    bool answered = info->operation != ROCE_OP_SEND &&
                    info->operation != ROCE_OP_WRITE;

    if (info->flags & ROCE_LAST) {
        rs->msn = roce_psn_next(rs->msn);
    }
    if (answered) {
        RoceResource *res = &rs->ring[(rs->res_pi - 1) % rs->ring_size];

        res->msn = rs->msn;
        rs->epsn = roce_psn_add(rs->epsn, res->psn_count);
        roce_sched_ready(r, qp);
    } else {
        rs->epsn = roce_psn_next(rs->epsn);
    }
    /* A NAK that is not sent yet is obsolete: its packet has arrived. */
    if (rs->due == ROCE_DUE_NAK || (!answered && packet->ack_req)) {
        roce_response_ack(r, qp, packet->psn);
    }
    rs->nak_sent = false;
    rs->faults = 0;
}

/* Upper limit of the growing RNR waits: 40.96 ms (IBTA table 45). */
#define ROCE_FAULT_TIMER_MAX 24

/*
 * RNR timer of a page fault. The attribute is the shortest permitted wait
 * (IBTA 9.7.5.2.8). The time that the host needs to bring a page is unknown,
 * and the peer may have few retries. So each failed retry doubles the wait,
 * which is two steps of the table.
 */
static uint8_t roce_responder_fault_timer(RoceQp *qp)
{
    uint8_t least = qp->attr.min_rnr_timer;
    uint8_t timer = least + 2 * qp->rs.faults;

    if (least == 0 || least >= ROCE_FAULT_TIMER_MAX) {
        return least;           /* 0 is the longest of all */
    }
    if (timer >= ROCE_FAULT_TIMER_MAX) {
        return ROCE_FAULT_TIMER_MAX;
    }
    qp->rs.faults++;
    return timer;
}

/*
 * A request in sequence shows that the peer has established the connection. A
 * packet with another PSN may come from an earlier connection and shows
 * nothing.
 */
static void roce_responder_establish(Roce *r, RoceQp *qp)
{
    if (qp->attr.state == FAKERNIC_QPS_RTR && !qp->established) {
        qp->established = true;
        r->ops->event(r->host, FAKERNIC_EVENT_COMM_ESTABLISHED, qp->qpn, 0);
    }
}

static void roce_responder_input_rc(Roce *r, RoceTime now, RoceQp *qp,
                                    const RocePacket *packet,
                                    const RoceOpcodeInfo *info)
{
    RoceResponder *rs = &qp->rs;
    int32_t ahead = roce_psn_diff(packet->psn, rs->epsn);

    if (rs->due == ROCE_DUE_FATAL) {
        roce_drop(r, FAKERNIC_STAT_DROP_QP_STATE, qp->qpn, packet->psn);
        return;
    }
    if (ahead >= 0 && rs->flushing) {
        /* Treated as lost: a NAK requests it when the FLUSH is complete. */
        roce_count(r, qp, FAKERNIC_STAT_OUT_OF_SEQUENCE);
        rs->flush_gap = true;
        return;
    }
    /* journey: gap */
    if (ahead > 0) {
        roce_count(r, qp, FAKERNIC_STAT_OUT_OF_SEQUENCE);
        /* One NAK per gap (C9-115), none after an RNR NAK for epsn. */
        if (!rs->nak_sent) {
            roce_response_nak(r, qp, ROCE_AETH_NAK | ROCE_NAK_SEQUENCE,
                              rs->epsn);
        }
        return;
    }
    /* journey: end */
    if (ahead < 0) {
        roce_response_duplicate(r, qp, packet, info->operation);
        return;
    }
    roce_responder_establish(r, qp);
    switch (roce_responder_execute(r, now, qp, packet, info)) {
    case ROCE_VERDICT_DONE:
        roce_responder_advance(r, qp, packet, info);
        break;
    case ROCE_VERDICT_WAIT:
        roce_response_nak(r, qp, ROCE_AETH_RNR | qp->attr.min_rnr_timer,
                          rs->epsn);
        break;
    case ROCE_VERDICT_FAULT:
        roce_pages_wait(r, qp, ROCE_WAIT_REQUEST);
        roce_response_nak(r, qp,
                          ROCE_AETH_RNR | roce_responder_fault_timer(qp),
                          rs->epsn);
        break;
    case ROCE_VERDICT_FAILED:
        break;
    }
}

/*
 * UC: a gap loses the message it is in. The next first packet starts a new
 * message with any PSN, and reuses the receive of a lost SEND (IBTA 9.8.2.2).
 */
static void roce_responder_input_uc(Roce *r, RoceTime now, RoceQp *qp,
                                    const RocePacket *packet,
                                    const RoceOpcodeInfo *info)
{
    RoceResponder *rs = &qp->rs;
    bool first = info->flags & ROCE_FIRST;

    if (packet->psn != rs->epsn) {
        roce_count(r, qp, FAKERNIC_STAT_OUT_OF_SEQUENCE);
    }
    if (first) {
        rs->message = ROCE_MESSAGE_NONE;
    } else if (packet->psn != rs->epsn) {
        rs->message = ROCE_MESSAGE_SKIP;
    }
    rs->epsn = roce_psn_next(packet->psn);
    if (!first && rs->message == ROCE_MESSAGE_NONE) {
        rs->message = ROCE_MESSAGE_SKIP;
    }
    if (rs->message != ROCE_MESSAGE_SKIP) {
        RoceVerdict verdict;

        roce_responder_establish(r, qp);
        verdict = roce_responder_execute(r, now, qp, packet, info);
        if (verdict == ROCE_VERDICT_FAULT) {
            roce_pages_wait(r, qp, ROCE_WAIT_REQUEST);
        }
        if (verdict == ROCE_VERDICT_WAIT || verdict == ROCE_VERDICT_FAULT) {
            rs->message = ROCE_MESSAGE_SKIP;
        }
    }
    if (rs->message == ROCE_MESSAGE_SKIP) {
        roce_drop(r, FAKERNIC_STAT_DROP_UC, qp->qpn, packet->psn);
    }
}

void roce_responder_input(Roce *r, RoceTime now, RoceQp *qp,
                          const RocePacket *packet)
{
    const RoceOpcodeInfo *info = roce_opcode_info(packet->opcode);

    if (qp->init.type == FAKERNIC_QP_UC) {
        roce_responder_input_uc(r, now, qp, packet, info);
    } else {
        roce_responder_input_rc(r, now, qp, packet, info);
    }
}
