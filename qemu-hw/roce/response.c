/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The answers of a responder: one coalesced ACK or NAK, and the answers to
 * READs and atomics, sent in PSN order, one packet per call (IBTA 9.7.5.1).
 * The data of a READ is read when its packet is made, after a new check of its
 * key. A replayed READ executes again; a replayed atomic only repeats its
 * answer.
 */
#include "engine.h"

#include <stdlib.h>

/*
 * These two are not called after a fatal NAK: the responder drops all requests
 * then.
 */
void roce_response_ack(Roce *r, RoceQp *qp, uint32_t psn)
{
    RoceResponder *rs = &qp->rs;

    rs->due = ROCE_DUE_ACK;
    rs->due_psn = psn;
    roce_sched_ready(r, qp);
}

void roce_response_nak(Roce *r, RoceQp *qp, uint8_t syndrome, uint32_t psn)
{
    RoceResponder *rs = &qp->rs;

    rs->due = ROCE_DUE_NAK;
    rs->due_psn = psn;
    rs->syndrome = syndrome;
    rs->nak_sent = true;
    roce_sched_ready(r, qp);
}

void roce_response_fatal(Roce *r, RoceQp *qp, uint8_t nak, uint32_t psn,
                         uint8_t event, uint16_t vendor_err)
{
    RoceResponder *rs = &qp->rs;

    /* The counters are in the order of the NAK codes. */
    roce_count(r, qp, FAKERNIC_STAT_TX_NAK_INVALID_REQUEST + nak -
                      ROCE_NAK_INVALID_REQUEST);
    rs->due = ROCE_DUE_FATAL;
    rs->due_psn = psn;
    rs->syndrome = ROCE_AETH_NAK | nak;
    rs->event = event;
    rs->vendor_err = vendor_err;
    roce_sched_ready(r, qp);
}

static RoceResource *roce_resource_at(const RoceResponder *rs, uint32_t i)
{
    return &rs->ring[i % rs->ring_size];
}

/*
 * Number of resources that may be in use: the whole ring, because the peer may
 * have had a larger grant before (SQD can change it). Those beyond the grant
 * are not valid.
 */
static uint32_t roce_resource_count(const RoceQp *qp)
{
    return qp->rs.ring_size < qp->rs.res_pi ? qp->rs.ring_size
                                            : qp->rs.res_pi;
}

static void roce_resource_pend(RoceResponder *rs, RoceResource *res, bool on)
{
    if (res->pending != on) {
        res->pending = on;
        rs->res_pending += on ? 1 : -1u;
    }
}

/* Doubles the ring. Each resource keeps its number. */
static bool roce_resources_grow(RoceResponder *rs)
{
    uint32_t size = 2 * rs->ring_size;
    RoceResource *ring = calloc(size, sizeof(*ring));

    if (!ring) {
        /* Not reached by tests: out of memory. */
        return false;
    }
    for (uint32_t i = rs->res_pi - rs->ring_size; i != rs->res_pi; i++) {
        ring[i % size] = *roce_resource_at(rs, i);
    }
    free(rs->ring);
    rs->ring = ring;
    rs->ring_size = size;
    return true;
}

bool roce_response_set_size(RoceResponder *rs, uint32_t size)
{
    while (rs->ring_size < size && rs->ring_size > 0 &&
           rs->ring_size <= UINT8_MAX) {
        RoceResource *ring = calloc(2 * rs->ring_size, sizeof(*ring));

        if (!ring) {
            /* Not reached by tests: out of memory. */
            return false;
        }
        free(rs->ring);
        rs->ring = ring;
        rs->ring_size *= 2;
    }
    return rs->ring_size == size;
}

/*
 * Makes room for one more resource, in addition to all that the peer may ask
 * for again.
 */
static bool roce_resources_fit(RoceResponder *rs, uint32_t granted)
{
    while (rs->ring_size < granted && rs->res_pi >= rs->ring_size) {
        if (!roce_resources_grow(rs)) {
            return false;
        }
    }
    return true;
}

RoceResource *roce_response_take(RoceQp *qp)
{
    RoceResponder *rs = &qp->rs;
    uint32_t granted = qp->attr.max_dest_rd_atomic;
    RoceResource *res;

    if (granted == 0 || rs->ring_size == 0 ||
        !roce_resources_fit(rs, granted)) {
        return NULL;
    }
    if (rs->res_pi >= granted) {
        res = roce_resource_at(rs, rs->res_pi - granted);
        /* A replay may be abandoned, but not a first answer. */
        if (res->pending && !res->replays) {
            return NULL;
        }
        roce_resource_pend(rs, res, false);
        res->valid = false;
    }
    res = roce_resource_at(rs, rs->res_pi);
    if (res->pending && !res->replays) {
        /* Not reached: under a larger grant this resource is older than the
         * one above, and answers are sent oldest first. */
        return NULL;
    }
    roce_resource_pend(rs, res, false);
    rs->res_pi++;
    /*
     * Keeps the free-running index from wrapping; only the ring's entries are
     * needed.
     */
    if (rs->res_pi >= 0x40000000u) {
        rs->res_pi -= 0x40000000u / rs->ring_size * rs->ring_size -
                      rs->ring_size;
        rs->res_first = 0;
    }
    *res = (RoceResource) { .valid = true, .pd = rs->pd };
    roce_resource_pend(rs, res, true);
    return res;
}

void roce_response_cancel(RoceQp *qp, RoceResource *res)
{
    roce_resource_pend(&qp->rs, res, false);
}

static void roce_response_flush_done(Roce *r, RoceQp *qp, RoceResource *res)
{
    RoceResponder *rs = &qp->rs;

    res->kind = ROCE_ANSWER_DONE;
    rs->flushing = false;
    if (rs->flush_gap) {
        rs->flush_gap = false;
        roce_response_nak(r, qp, ROCE_AETH_NAK | ROCE_NAK_SEQUENCE, rs->epsn);
    }
}

/* The oldest resource with an answer to send. */
static RoceResource *roce_resource_pending(RoceQp *qp)
{
    RoceResponder *rs = &qp->rs;
    uint32_t oldest = rs->res_pi - roce_resource_count(qp);

    if (rs->res_pending == 0) {
        return NULL;
    }
    if (rs->res_first < oldest) {
        rs->res_first = oldest;
    }
    for (; rs->res_first != rs->res_pi; rs->res_first++) {
        RoceResource *res = roce_resource_at(rs, rs->res_first);

        if (res->pending) {
            return res;
        }
    }
    return NULL;
}

/*
 * The next page of a persistent FLUSH is absent. Data may have been written to
 * it before, so it is requested. An older answer goes first, and may wait for
 * its own pages.
 */
static void roce_response_flush_page(Roce *r, RoceQp *qp,
                                     const RoceResource *res)
{
    if (roce_resource_pending(qp) == res) {
        qp->rs.pages_awaited = true;
        roce_pages_wait(r, qp, ROCE_WAIT_ANSWER);
    }
}

uint16_t roce_response_flush(Roce *r, RoceQp *qp, RoceResource *res)
{
    const RoceAccess access = {
        .key = res->rkey,
        .rights = res->access,
        .pd = res->pd,
        .qpn = qp->qpn,
        .address = res->flush.address,
        .length = res->flush.left,
    };
    RoceResponder *rs = &qp->rs;
    const RoceMr *mr;
    uint16_t error;

    r->work++;
    error = res->flush.persistent
                ? roce_mr_grant(r->mrs, &access, 1, res->flush.left, &mr)
                : roce_mr_check(r->mrs, &access, &mr);
    if (rs->flush_failed) {
        rs->flush_failed = false;
        return FAKERNIC_VENDOR_KEY_DMA;
    }
    if (error == ROCE_VENDOR_FAULT) {
        rs->flushing = true;
        roce_response_flush_page(r, qp, res);
        return 0;
    }
    if (error) {
        return error;
    }
    res->flush.qpn = qp->qpn;
    res->flush.ticket = ++r->flush_tickets;
    rs->flushing = true;
    /* An empty range is granted and needs no work. */
    switch (mr ? roce_mr_flush(r->mrs, mr, &res->flush)
               : ROCE_FLUSH_DONE) {
    case ROCE_FLUSH_FAILED:
        rs->flushing = false;
        return FAKERNIC_VENDOR_KEY_DMA;
    case ROCE_FLUSH_DONE:
        roce_response_flush_done(r, qp, res);
        break;
    case ROCE_FLUSH_BEGUN:
        rs->flush_ticket = res->flush.ticket;
        break;
    case ROCE_FLUSH_LATER:
        roce_sched_flush_wait(r, qp);
        break;
    case ROCE_FLUSH_MORE:
        break;
    }
    return 0;
}

/* Continues the oldest answer, a FLUSH. True: it is done and can be sent. */
static bool roce_response_flushed(Roce *r, RoceQp *qp, RoceResource *res)
{
    uint16_t error;

    if (qp->rs.flush_waits || qp->rs.flush_ticket || qp->rs.pages_awaited) {
        return false;
    }
    error = roce_response_flush(r, qp, res);
    if (error) {
        roce_count(r, qp, FAKERNIC_STAT_REMOTE_ACCESS_ERRORS);
        roce_response_fatal(r, qp, ROCE_NAK_REMOTE_ACCESS, res->psn,
                            FAKERNIC_EVENT_QP_ACCESS_ERROR, error);
        roce_resource_pend(&qp->rs, res, false);
        return false;
    }
    roce_sched_ready(r, qp);
    return res->kind == ROCE_ANSWER_DONE;
}

/*
 * Does a duplicate READ match the original from packet k on, with a key that
 * still permits it?
 */
static bool roce_response_same_read(Roce *r, const RoceQp *qp,
                                    const RocePacket *packet,
                                    const RoceResource *res, uint32_t k)
{
    uint64_t address = res->address + (uint64_t)k * qp->mtu;
    uint32_t length = res->length - k * qp->mtu;
    const RoceAccess access = {
        .key = packet->reth.rkey,
        .rights = FAKERNIC_ACCESS_REMOTE_READ,
        .pd = res->pd,
        .qpn = qp->qpn,
        .address = address,
        .length = length,
    };
    const RoceMr *mr;

    return packet->reth.address == address && packet->reth.length == length &&
           roce_mr_check(r->mrs, &access, &mr) == 0;
}

/*
 * Repeats the answer of a duplicate READ or atomic, whose answer was lost
 * (IBTA 9.7.5.1.4, C9-110). The answer restarts at the requested packet. A
 * later answer in progress starts over, because the peer sees a gap in it. A
 * request that differs from the original changes nothing.
 */
static void roce_response_replay(Roce *r, RoceQp *qp, const RocePacket *packet,
                                 RoceAnswer kind)
{
    RoceResponder *rs = &qp->rs;
    uint32_t count = roce_resource_count(qp);
    RoceResource *found = NULL;
    uint32_t i, k;

    /* Newest first: the PSNs of an old one may have been used again. */
    for (i = rs->res_pi; i != rs->res_pi - count && !found; i--) {
        RoceResource *res = roce_resource_at(rs, i - 1);

        if (res->valid && roce_psn_sub(packet->psn, res->psn) <
                              res->psn_count) {
            found = res;
        }
    }
    if (!found || found->kind != kind) {
        return;
    }
    k = roce_psn_sub(packet->psn, found->psn);
    if (kind == ROCE_ANSWER_READ &&
        !roce_response_same_read(r, qp, packet, found, k)) {
        return;
    }
    for (i++; i != rs->res_pi; i++) {
        RoceResource *res = roce_resource_at(rs, i);

        if (res->pending) {
            res->next = res->start = 0;
        }
    }
    if (!found->pending || found->replays) {
        found->replays += found->replays < UINT8_MAX - 1;
    }
    if (!found->pending) {
        rs->res_first = 0;
        roce_resource_pend(rs, found, true);
    }
    if (kind == ROCE_ANSWER_READ) {
        found->rkey = packet->reth.rkey;
    }
    found->start = found->next = k;
    roce_sched_ready(r, qp);
}

/*
 * Acknowledges other duplicates that ask for it (C9-105), but not beyond the
 * next READ or atomic: the peer would treat its answer as lost.
 */
static void roce_response_again(Roce *r, RoceQp *qp, uint32_t psn)
{
    RoceResponder *rs = &qp->rs;
    uint32_t count = roce_resource_count(qp);
    uint32_t ack = roce_psn_sub(rs->epsn, 1);
    uint32_t i;

    if (rs->due != ROCE_DUE_NOTHING && rs->due != ROCE_DUE_ACK) {
        return;
    }
    for (i = rs->res_pi - count; i != rs->res_pi; i++) {
        RoceResource *res = roce_resource_at(rs, i);

        /*
         * Distances count back from epsn: an old resource is before any
         * duplicate.
         */
        if (res->valid && roce_psn_sub(rs->epsn, res->psn) <
                              roce_psn_sub(rs->epsn, psn)) {
            ack = roce_psn_sub(res->psn, 1);
            break;
        }
    }
    /* An earlier scheduled ACK may be for a duplicate before that READ. */
    if (rs->due == ROCE_DUE_NOTHING || roce_psn_before(rs->due_psn, ack)) {
        roce_response_ack(r, qp, ack);
    }
}

void roce_response_duplicate(Roce *r, RoceQp *qp, const RocePacket *packet,
                             RoceOperation operation)
{
    roce_count(r, qp, FAKERNIC_STAT_DUPLICATES);
    switch (operation) {
    case ROCE_OP_READ_REQUEST:
        roce_response_replay(r, qp, packet, ROCE_ANSWER_READ);
        break;
    case ROCE_OP_CMP_SWAP:
    case ROCE_OP_FETCH_ADD:
    case ROCE_OP_MASKED_CMP_SWAP:
    case ROCE_OP_MASKED_FETCH_ADD:
        roce_response_replay(r, qp, packet, ROCE_ANSWER_ATOMIC);
        break;
    case ROCE_OP_ATOMIC_WRITE:
    case ROCE_OP_FLUSH:
        roce_response_replay(r, qp, packet, ROCE_ANSWER_DONE);
        break;
    case ROCE_OP_RESERVED:
        break;                  /* there is no earlier one */
    default:
        /*
         * Without AckReq a duplicate gets no ACK, just like a new packet.
         * While Soft-RoCE (6.12) repeats a message, an ACK of the whole
         * message stops its timer. If the next one is lost, Soft-RoCE waits
         * without limit.
         */
        if (packet->ack_req) {
            roce_response_again(r, qp, packet->psn);
        }
        break;
    }
}

/*
 * The syndrome of an ACK: the number of receives (IBTA 9.7.7.2). A held
 * receive counts, because its message is not in the MSN yet. Receives of an
 * SRQ belong to no QP in particular, so such a QP reports none (C9-150).
 */
static uint8_t roce_response_syndrome(Roce *r, const RoceQp *qp)
{
    if (!r->ops->recv_count || !qp->init.has_rq) {
        return ROCE_AETH_ACK | ROCE_CREDIT_NONE;
    }
    return ROCE_AETH_ACK |
           roce_credit_encode((qp->rq_broken
                                   ? 0
                                   : r->ops->recv_count(r->host, qp->qpn)) +
                              (qp->rx.held ? 1 : 0));
}

/*
 * Copies the data of a READ response, from byte 'done' of the answer on, to
 * 'to'. Returns 0, FAULT, or enum fakernic_vendor_err.
 */
static uint16_t roce_response_data(Roce *r, const RoceQp *qp,
                                   const RoceResource *res, uint64_t done,
                                   uint8_t *to, size_t len)
{
    const RoceAccess access = {
        .key = res->rkey,
        .rights = FAKERNIC_ACCESS_REMOTE_READ,
        .pd = res->pd,
        .qpn = qp->qpn,
        .address = res->address + done,
        .length = len,
    };
    const RoceMr *mr;
    uint16_t error;

    if (len == 0) {
        return 0;
    }
    error = roce_mr_grant(r->mrs, &access, len, res->length - done, &mr);
    if (!error && !roce_mr_read(r->mrs, mr, access.address, to, len)) {
        error = FAKERNIC_VENDOR_KEY_DMA;
    }
    return error;
}

/*
 * Handles an answer whose data is not available now, or no longer, or at all.
 */
static void roce_response_no_data(Roce *r, RoceQp *qp, RoceResource *res,
                                  uint32_t psn, uint16_t error)
{
    if (error == ROCE_VENDOR_FAULT) {
        /* The rest of the answer waits, and everything after it. */
        qp->rs.pages_awaited = true;
        roce_pages_wait(r, qp, ROCE_WAIT_ANSWER);
    } else if (res->replays) {
        /*
         * A late replay: the application may have deregistered the key after
         * the first answer.
         */
        roce_resource_pend(&qp->rs, res, false);
        roce_sched_ready(r, qp);
    } else {
        roce_count(r, qp, FAKERNIC_STAT_REMOTE_ACCESS_ERRORS);
        roce_response_fatal(r, qp, ROCE_NAK_REMOTE_ACCESS, psn,
                            FAKERNIC_EVENT_QP_ACCESS_ERROR, error);
    }
}

/*
 * Makes a packet of an answer; 'packet' has its addresses. 0: there is no data
 * for it.
 */
static size_t roce_response_answer(Roce *r, RoceTime now, RoceQp *qp,
                                   RoceResource *res, RocePacket *packet,
                                   uint8_t *buf)
{
    uint8_t service = roce_qp_bth(qp);
    uint32_t k = res->next;
    bool first = k == res->start;
    bool last = k + 1 == res->psn_count;
    uint64_t done = (uint64_t)k * qp->mtu;
    uint16_t error = 0;
    size_t at;

    packet->psn = roce_psn_add(res->psn, k);
    packet->aeth.msn = res->msn;
    if (first || last) {
        packet->aeth.syndrome = roce_response_syndrome(r, qp);
    }
    if (res->kind == ROCE_ANSWER_ATOMIC) {
        packet->opcode = service | ROCE_BTH_ATOMIC_ACK;
        packet->atomic_ack = res->original;
        at = roce_wire_encode_on(buf, &qp->head, packet);
    } else {
        packet->opcode = service |
                         (first ? (last ? ROCE_BTH_READ_RESPONSE_ONLY
                                        : ROCE_BTH_READ_RESPONSE_FIRST)
                                : (last ? ROCE_BTH_READ_RESPONSE_LAST
                                        : ROCE_BTH_READ_RESPONSE_MIDDLE));
        packet->payload_len = last ? res->length - done : qp->mtu;
        packet->traffic_class = roce_congestion_class(r,
                                                      packet->traffic_class);
        at = roce_wire_encode_on(buf, &qp->head, packet);
        error = roce_response_data(r, qp, res, done, buf + at,
                                   packet->payload_len);
    }
    if (error) {
        roce_response_no_data(r, qp, res, packet->psn, error);
        return 0;
    }
    res->next++;
    if (last) {
        res->start = res->next = 0;
        roce_resource_pend(&qp->rs, res, false);
    }
    at = roce_wire_finish(buf, at, packet->payload_len);
    if (packet->payload_len > 0) {
        roce_pacer_charge(r, now, qp, qp->attr.av.static_rate, at);
    }
    return at;
}

static size_t roce_response_due(Roce *r, RoceTime now, RoceQp *qp,
                                RocePacket *packet, uint8_t *buf)
{
    RoceResponder *rs = &qp->rs;
    RoceDue due = rs->due;
    size_t at;

    /* journey: ack */
    packet->opcode = roce_qp_bth(qp) | ROCE_BTH_ACK;
    packet->payload_len = 0;    /* an answer may have set it before */
    packet->psn = rs->due_psn;
    packet->aeth.syndrome = due == ROCE_DUE_ACK
                                ? roce_response_syndrome(r, qp)
                                : rs->syndrome;
    packet->aeth.msn = rs->msn;
    at = roce_wire_encode_on(buf, &qp->head, packet);
    rs->due = ROCE_DUE_NOTHING;
    /* journey: end */
    if (due != ROCE_DUE_ACK) {
        roce_trace(r, ROCE_TRACE_NAK_TX, qp->qpn, packet->psn, rs->syndrome);
    }
    if (due == ROCE_DUE_NAK) {
        roce_count(r, qp, rs->syndrome == (ROCE_AETH_NAK | ROCE_NAK_SEQUENCE)
                              ? FAKERNIC_STAT_TX_SEQ_NAK
                              : FAKERNIC_STAT_TX_RNR_NAK);
    } else if (due == ROCE_DUE_FATAL) {
        roce_enter_error(r, now, qp, rs->event, rs->vendor_err);
    }
    return roce_wire_finish(buf, at, 0);
}

/*
 * Without a source GID no answer can be sent; the peer will repeat its
 * request. 'res', the answer that is due, or NULL, is cancelled. The repeated
 * request brings it back.
 */
static void roce_response_not_sent(Roce *r, RoceTime now, RoceQp *qp,
                                   RoceResource *res)
{
    RoceResponder *rs = &qp->rs;
    const RoceDue due = rs->due;

    if (res) {
        roce_resource_pend(rs, res, false);
    }
    rs->due = ROCE_DUE_NOTHING;
    if (due == ROCE_DUE_FATAL) {
        roce_enter_error(r, now, qp, rs->event, rs->vendor_err);
    }
    if (res || due != ROCE_DUE_NOTHING) {
        roce_sched_ready(r, qp);
    }
}

size_t roce_response_output(Roce *r, RoceTime now, RoceQp *qp, uint8_t *buf)
{
    RoceResponder *rs = &qp->rs;
    RoceResource *res = roce_resource_pending(qp);
    RocePacket packet;
    uint32_t at;
    size_t len = 0;
    bool waits = false;

    if (!res && rs->due == ROCE_DUE_NOTHING) {
        return 0;
    }
    /*
     * Continue the FLUSH even if its answer cannot be sent: nothing later
     * executes before it is done.
     */
    if (res && res->kind == ROCE_ANSWER_FLUSH) {
        waits = !roce_response_flushed(r, qp, res);
        res = rs->due == ROCE_DUE_FATAL ? NULL : res;
    }
    if (!roce_path_begin(r, qp, &packet)) {
        roce_response_not_sent(r, now, qp, waits ? NULL : res);
        return 0;
    }
    /*
     * Compares with the answer's next packet: one answer may span half of all
     * PSNs.
     */
    at = res ? roce_psn_add(res->psn, res->next) : 0;
    if (res && res->kind == ROCE_ANSWER_READ && res->length > 0) {
        waits = rs->pages_awaited || roce_pacer_wait(r, now, qp);
    }
    if (res && rs->due == ROCE_DUE_ACK && !waits &&
        roce_psn_before(rs->due_psn, at)) {
        rs->due = ROCE_DUE_NOTHING;   /* the answer implies it (C9-119) */
    }
    if (res && (rs->due == ROCE_DUE_NOTHING ||
                !roce_psn_before(rs->due_psn, at))) {
        if (waits) {
            return 0;
        }
        len = roce_response_answer(r, now, qp, res, &packet, buf);
        if (len == 0 && rs->pages_awaited) {
            return 0;
        }
    }
    if (len == 0 && rs->due == ROCE_DUE_NOTHING) {
        return 0;
    }
    if (len == 0) {
        len = roce_response_due(r, now, qp, &packet, buf);
    }
    roce_note_output(r, qp, &packet, ROCE_INDEX_NONE,
                     res ? res->replays + 1 : 1);
    return len;
}
