/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Unreliable datagrams, and GSI, which is QP 1 with its own Q_Key (IBTA 9.8.3,
 * 13.6.1). A send is one packet, and is complete when it has been sent. A
 * receive contains the 40 bytes of the network header and one packet. A
 * datagram gets no answer, and fails the QP only if the receive itself is
 * invalid.
 */
#include "engine.h"

#include <string.h>

static uint32_t roce_datagram_max(const Roce *r)
{
    return roce_mtu_bytes(roce_path_port_mtu(r));
}

static size_t roce_datagram_packet(Roce *r, RoceQp *qp, RoceSend *send,
                                   uint8_t *buf)
{
    const RoceSendWr *wr = send->wr;
    RocePacket packet;
    uint16_t error = 0;
    size_t at;

    if (!roce_path_packet(r, qp, &wr->ud.av, wr->ud.dest_qpn & 0xffffff,
                          &packet)) {
        roce_send_refuse(send, FAKERNIC_WC_LOC_QP_OP_ERR,
                         FAKERNIC_VENDOR_GID_INDEX);
        return 0;
    }
    packet.opcode = ROCE_BTH_UD | roce_wr_info(wr->opcode)->only;
    packet.psn = qp->sq.next_psn;
    packet.solicited = wr->flags & FAKERNIC_SQ_SOLICITED;
    packet.imm = wr->imm_or_key;
    /* IBTA 10.2.5: the top bit selects the QP's own, privileged Q_Key. */
    packet.deth.qkey = wr->ud.qkey & 0x80000000u ? qp->attr.qkey
                                                 : wr->ud.qkey;
    packet.deth.src_qpn = qp->qpn;
    packet.payload_len = send->length;
    packet.traffic_class = roce_congestion_class(r, packet.traffic_class);
    at = roce_wire_encode(buf, &packet);
    if (wr->flags & FAKERNIC_SQ_INLINE) {
        memcpy(buf + at, wr->inline_data, send->length);
    } else if (send->length > 0) {
        const RoceSgl list = { qp->init.pd, wr->sge, wr->sge_count };

        error = roce_sgl_gather(r->mrs, &list, 0, buf + at, send->length);
    }
    if (error == ROCE_VENDOR_FAULT) {
        roce_requester_wait_pages(r, qp);
        return 0;
    }
    if (error) {
        roce_send_refuse(send, FAKERNIC_WC_LOC_PROT_ERR, error);
        return 0;
    }
    roce_note_output(r, qp, &packet, wr->index, 1);
    return roce_wire_finish(buf, at, send->length);
}

size_t roce_datagram_output(Roce *r, RoceTime now, RoceQp *qp, uint8_t *buf,
                            bool *loopback)
{
    unsigned budget = ROCE_WQES_PER_TURN;

    while (budget-- > 0) {
        RoceSend *send;
        size_t len = 0;

        if (roce_pacer_wait(r, now, qp) || !roce_requester_next(r, now, qp)) {
            return 0;
        }
        send = roce_sendq_at(&qp->sq, qp->sq.ci);
        if (roce_send_check(send, qp->init.type, roce_datagram_max(r)) &&
            send->wr->opcode != FAKERNIC_SQ_NOP) {
            if (roce_path_av_waits(r, &send->wr->ud.av)) {
                return 0;
            }
            len = roce_datagram_packet(r, qp, send, buf);
            if (qp->retry.mode == ROCE_RETRY_WAIT_PAGES) {
                return 0;
            }
            if (len > 0) {
                *loopback = roce_path_loops(r, &send->wr->ud.av);
                roce_mcast_copy(r, send->wr->ud.av.dgid, buf, len);
                roce_pacer_charge(r, now, qp, send->wr->ud.av.static_rate, len);
                roce_sendq_datagram(&qp->sq);
            }
        }
        send->done = send->status == FAKERNIC_WC_SUCCESS;
        if (len > 0) {
            r->sent = qp;
            return len;
        }
        roce_retire(r, now, qp);
    }
    roce_sched_ready(r, qp);
    return 0;
}

/* Sets the fields of a datagram's completion other than status and size. */
static void roce_datagram_describe(const RocePacket *packet,
                                   RoceCompletion *completion)
{
    completion->opcode = FAKERNIC_CQE_RECV;
    completion->src_qpn = packet->deth.src_qpn;
    completion->network_type = packet->network_type;
    completion->flags = FAKERNIC_CQE_GRH;
    memcpy(completion->smac, packet->smac, sizeof(completion->smac));
    if (packet->solicited) {
        completion->flags |= FAKERNIC_CQE_SOLICITED;
    }
    if (roce_opcode_info(packet->opcode)->flags & ROCE_HAS_IMM) {
        completion->flags |= FAKERNIC_CQE_IMM;
        completion->imm_or_key = packet->imm;
    }
    if (packet->has_vlan) {
        completion->sl = packet->vlan_tci >> 13;
        if (packet->vlan_tci & 0xfff) {
            completion->flags |= FAKERNIC_CQE_VLAN;
            completion->vlan = packet->vlan_tci;
        }
    }
}

/*
 * Copies header and data to the held receive. Returns enum
 * fakernic_vendor_err.
 */
static uint16_t roce_datagram_store(Roce *r, RoceQp *qp,
                                    const RocePacket *packet)
{
    const RoceSgl list = {
        qp->init.pd, qp->rx.wr.sge, qp->rx.wr.sge_count,
    };
    uint8_t grh[ROCE_GRH_SIZE];
    uint16_t error;

    roce_wire_grh(packet, grh);
    error = roce_sgl_scatter(r->mrs, &list, 0, grh, sizeof(grh));
    if (error || packet->payload_len == 0) {
        return error;
    }
    return roce_sgl_scatter(r->mrs, &list, sizeof(grh), packet->payload,
                            packet->payload_len);
}

/*
 * The receive WQE itself is invalid: an error of the QP, not of the datagram.
 */
static void roce_datagram_fail(Roce *r, RoceTime now, RoceQp *qp,
                               uint8_t status, uint16_t vendor_err)
{
    roce_fail_recv(r, qp, status, vendor_err);
    roce_enter_error(r, now, qp, FAKERNIC_EVENT_NONE, vendor_err);
}

/*
 * Drops the datagram. A receive of the QP's own queue waits for one that fits.
 * A receive of an SRQ completes with an error (IBTA 9.9.3, class E): the SRQ's
 * other QPs need it, and this QP may get no further datagram.
 */
static void roce_datagram_too_long(Roce *r, RoceQp *qp,
                                   const RocePacket *packet)
{
    roce_drop(r, FAKERNIC_STAT_DROP_UD_LENGTH, qp->qpn, packet->psn);
    if (qp->rx.srqn) {
        roce_fail_recv(r, qp, FAKERNIC_WC_LOC_LEN_ERR,
                       FAKERNIC_VENDOR_RQ_TOO_SMALL);
    }
}

void roce_datagram_input(Roce *r, RoceTime now, RoceQp *qp,
                         const RocePacket *packet)
{
    RoceCompletion completion = { .status = FAKERNIC_WC_SUCCESS };
    uint16_t error;

    if (packet->payload_len > roce_datagram_max(r)) {
        roce_drop(r, FAKERNIC_STAT_DROP_UD_LENGTH, qp->qpn, packet->psn);
        return;
    }
    switch (roce_take_recv(r, qp)) {
    case ROCE_FETCH_NONE:
        roce_drop(r, FAKERNIC_STAT_DROP_UD_NO_BUFFER, qp->qpn, packet->psn);
        return;
    case ROCE_FETCH_ERROR:
        roce_drop(r, FAKERNIC_STAT_DROP_UD_NO_BUFFER, qp->qpn, packet->psn);
        roce_enter_error(r, now, qp, FAKERNIC_EVENT_QP_FATAL,
                         qp->rx.wr.format_error);
        return;
    default:
        break;
    }
    if (qp->rx.wr.format_error) {
        roce_datagram_fail(r, now, qp, FAKERNIC_WC_LOC_QP_OP_ERR,
                           qp->rx.wr.format_error);
        return;
    }
    if (ROCE_GRH_SIZE + packet->payload_len > qp->rx.capacity) {
        roce_datagram_too_long(r, qp, packet);
        return;
    }
    error = roce_datagram_store(r, qp, packet);
    if (error == ROCE_VENDOR_FAULT) {
        roce_pages_wait(r, qp, ROCE_WAIT_REQUEST);
        roce_drop(r, FAKERNIC_STAT_DROP_UD_NO_BUFFER, qp->qpn, packet->psn);
        return;
    }
    if (error) {
        roce_datagram_fail(r, now, qp, FAKERNIC_WC_LOC_PROT_ERR, error);
        return;
    }
    roce_datagram_describe(packet, &completion);
    completion.byte_count = ROCE_GRH_SIZE + (uint32_t)packet->payload_len;
    roce_complete_recv(r, qp, &completion);
}
