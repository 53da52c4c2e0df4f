/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Raw-packet QPs: complete Ethernet frames without FCS, sent and received
 * unchanged except for the requested offloads: checksums, VLAN tags, TCP
 * segmentation. The Ethernet port is a pair of these QPs. Nothing on the wire
 * fails such a QP; frames that do not fit are dropped and counted.
 */
#include "engine.h"

#include <string.h>

#define ROCE_ETHERNET_HEADER 14

/* False: the send waits for pages, or has failed (see send->status). */
static bool roce_raw_gather(Roce *r, RoceQp *qp, RoceSend *send,
                            uint32_t offset, uint8_t *buf, uint32_t length)
{
    const RoceSendWr *wr = send->wr;
    const RoceSgl list = { qp->init.pd, wr->sge, wr->sge_count };
    uint16_t error;

    if (wr->flags & FAKERNIC_SQ_INLINE) {
        memcpy(buf, wr->inline_data + offset, length);
        return true;
    }
    error = roce_sgl_gather(r->mrs, &list, offset, buf, length);
    if (error == ROCE_VENDOR_FAULT) {
        roce_requester_wait_pages(r, qp);
    } else if (error) {
        roce_send_refuse(send, FAKERNIC_WC_LOC_PROT_ERR, error);
    }
    return !error;
}

/* Size of the tag to insert. */
static size_t roce_raw_tag(const RoceSendWr *wr)
{
    return wr->flags & FAKERNIC_SQ_VLAN ? ROCE_ETHER_TAG : 0;
}

/*
 * Does a frame of this length fit the port? 'frame' has its first 'there'
 * bytes, without the tag to insert.
 */
static bool roce_raw_fits(const Roce *r, const RoceSendWr *wr, size_t length,
                          const uint8_t *frame, size_t there)
{
    const size_t limit = roce_ether_limit(frame, there, r->port_mtu);

    return length <= limit &&
           length + roce_raw_tag(wr) <= r->port_mtu + ROCE_ETHER_HEADERS_MAX;
}

/*
 * Copies the frame to buf. 0: there is none; send->status says whether by
 * error.
 */
static size_t roce_raw_whole(Roce *r, RoceQp *qp, RoceSend *send, uint8_t *buf)
{
    if (!roce_raw_gather(r, qp, send, 0, buf, send->length)) {
        return 0;
    }
    if (!roce_raw_fits(r, send->wr, send->length, buf, send->length)) {
        roce_count(r, qp, FAKERNIC_STAT_TX_DROPPED);
        return 0;
    }
    roce_ether_fill(buf, send->length, send->wr->flags);
    return send->length;
}

/*
 * Makes the next part of a long TCP segment. The headers are read again for
 * each part, and checked again, because the guest may have changed them.
 */
static size_t roce_raw_part(Roce *r, RoceQp *qp, RoceSend *send, uint8_t *buf)
{
    const uint32_t mss = send->wr->mss;
    const uint32_t look = send->length < FAKERNIC_TSO_HEADERS_MAX ?
                          send->length : FAKERNIC_TSO_HEADERS_MAX;
    RoceEtherPart part = { .number = send->cut_off / mss,
                           .offset = send->cut_off };
    uint32_t left, length;

    if (!roce_raw_gather(r, qp, send, 0, buf, look)) {
        return 0;
    }
    part.headers = roce_ether_tcp_headers(buf, look);
    left = send->length - (uint32_t)part.headers;
    left -= part.offset < left ? part.offset : left;
    length = left < mss ? left : mss;
    part.last = length == left;
    if (!part.headers ||
        !roce_raw_fits(r, send->wr, part.headers + length, buf, look)) {
        roce_count(r, qp, FAKERNIC_STAT_TX_DROPPED);
        send->cut_off = send->length;
        return 0;
    }
    if (length && !roce_raw_gather(r, qp, send,
                                   (uint32_t)part.headers + part.offset,
                                   buf + part.headers, length)) {
        return 0;
    }
    send->cut_off = part.last ? send->length : part.offset + length;
    roce_ether_cut(buf, part.headers + length, &part);
    return part.headers + length;
}

/* Makes one frame in buf, without a tag. 0: there is none; send->status says
 * whether by error. */
static size_t roce_raw_bare(Roce *r, RoceQp *qp, RoceSend *send, uint8_t *buf)
{
    const RoceSendWr *wr = send->wr;

    if (!roce_send_check(send, qp->init.type,
                         wr->mss ? FAKERNIC_TSO_MAX :
                                   ROCE_FRAME_MAX - roce_raw_tag(wr)) ||
        wr->opcode == FAKERNIC_SQ_NOP) {
        return 0;
    }
    if (send->length < ROCE_ETHERNET_HEADER) {
        roce_send_refuse(send, FAKERNIC_WC_LOC_LEN_ERR,
                         FAKERNIC_VENDOR_LENGTH);
        return 0;
    }
    return wr->mss ? roce_raw_part(r, qp, send, buf) :
                     roce_raw_whole(r, qp, send, buf);
}

/* The same, with the tag to insert. */
static size_t roce_raw_frame(Roce *r, RoceQp *qp, RoceSend *send, uint8_t *buf)
{
    const size_t tag = roce_raw_tag(send->wr);
    const size_t len = roce_raw_bare(r, qp, send, buf + tag);

    if (tag == 0 || len == 0) {
        return len;
    }
    memmove(buf, buf + tag, ROCE_ETHER_ADDRESSES);
    roce_ether_put_tag(buf, (uint16_t)send->wr->imm_or_key);
    return len + tag;
}

/* Does the work request have another frame to send? */
static bool roce_raw_more(const RoceSend *send)
{
    return send->wr->mss && send->status == FAKERNIC_WC_SUCCESS &&
           send->cut_off < send->length;
}

size_t roce_raw_output(Roce *r, RoceTime now, RoceQp *qp, uint8_t *buf)
{
    unsigned budget = ROCE_WQES_PER_TURN;

    while (budget-- > 0) {
        RoceSend *send;
        size_t len;

        if (roce_pacer_wait(r, now, qp) || !roce_requester_next(r, now, qp)) {
            return 0;
        }
        send = roce_sendq_at(&qp->sq, qp->sq.ci);
        if (send->wr->opcode != FAKERNIC_SQ_NOP && roce_path_raw_waits(r)) {
            return 0;
        }
        len = roce_raw_frame(r, qp, send, buf);
        if (qp->retry.mode == ROCE_RETRY_WAIT_PAGES) {
            return 0;
        }
        send->done = !roce_raw_more(send) &&
                     send->status == FAKERNIC_WC_SUCCESS;
        if (len > 0) {
            r->sent = qp;
            roce_pacer_charge(r, now, qp, 0, len);
            return len;
        }
        roce_retire(r, now, qp);
    }
    roce_sched_ready(r, qp);
    return 0;
}

/* Checks the frame's checksums and sets the completion's flags. */
static void roce_raw_check(Roce *r, RoceQp *qp, const uint8_t *frame,
                           size_t len, RoceCompletion *completion)
{
    bool wrong;

    completion->flags |= roce_ether_check(frame, len, &wrong);
    if (wrong) {
        roce_count(r, qp, FAKERNIC_STAT_RX_CSUM_WRONG);
    }
}

/* Copies the frame to the receive, without a tag of 'tag' bytes. */
static uint16_t roce_raw_scatter(Roce *r, RoceQp *qp, const uint8_t *frame,
                                 size_t len, size_t tag)
{
    const RoceSgl list = { qp->init.pd, qp->rx.wr.sge, qp->rx.wr.sge_count };
    const uint32_t start = tag ? ROCE_ETHER_ADDRESSES : 0;
    uint16_t error = roce_sgl_scatter(r->mrs, &list, 0, frame, start);

    return error ? error :
           roce_sgl_scatter(r->mrs, &list, start, frame + start + tag,
                            len - start - tag);
}

bool roce_raw_input(Roce *r, RoceTime now, RoceQp *qp, const uint8_t *frame,
                    size_t len, bool strip)
{
    RoceCompletion completion = {
        .opcode = FAKERNIC_CQE_RECV,
        .status = FAKERNIC_WC_SUCCESS,
    };
    RoceFetch fetch = roce_take_recv(r, qp);
    size_t tag = 0;
    uint16_t error;

    if (fetch != ROCE_FETCH_OK) {
        roce_count(r, qp, FAKERNIC_STAT_RX_NO_BUFFER);
        if (fetch == ROCE_FETCH_ERROR) {
            roce_enter_error(r, now, qp, FAKERNIC_EVENT_QP_FATAL,
                             qp->rx.wr.format_error);
        }
        return false;
    }
    if (qp->rx.wr.format_error) {
        error = qp->rx.wr.format_error;
        roce_fail_recv(r, qp, FAKERNIC_WC_LOC_QP_OP_ERR, error);
        roce_enter_error(r, now, qp, FAKERNIC_EVENT_NONE, error);
        return false;
    }
    if (strip && roce_ether_get_tag(frame, len, &completion.vlan)) {
        completion.flags |= FAKERNIC_CQE_VLAN;
        tag = ROCE_ETHER_TAG;
    }
    completion.byte_count = (uint32_t)(len - tag);
    if (len - tag > qp->rx.capacity || len > ROCE_FRAME_MAX) {
        roce_count(r, qp, FAKERNIC_STAT_RX_OVERSIZE);
        return false;
    }
    error = roce_raw_scatter(r, qp, frame, len, tag);
    if (error == ROCE_VENDOR_FAULT) {
        roce_pages_wait(r, qp, ROCE_WAIT_REQUEST);
        roce_count(r, qp, FAKERNIC_STAT_RX_NO_BUFFER);
        return false;
    }
    if (error) {
        roce_fail_recv(r, qp, FAKERNIC_WC_LOC_PROT_ERR, error);
        roce_enter_error(r, now, qp, FAKERNIC_EVENT_NONE, error);
        return false;
    }
    if (r->checks_csum) {
        roce_raw_check(r, qp, frame, len, &completion);
    }
    roce_complete_recv(r, qp, &completion);
    return true;
}
