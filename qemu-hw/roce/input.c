/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Input from the wire: a frame becomes a checked packet for a QP, or a counted
 * drop. The order of the checks is that of IBTA 9.6.1 and of the counters in
 * fakernic/stats.h. The handlers may then rely on a known opcode of the QP's
 * service, a QP in a state to receive, and a valid P_Key, Q_Key and addresses.
 */
#include "engine.h"

/* IBTA 10.3.1: states in which a QP accepts packets. */
static bool roce_input_state_ok(const RoceQp *qp, const RoceOpcodeInfo *info)
{
    switch (qp->attr.state) {
    case FAKERNIC_QPS_RTR:
        return info->flags & ROCE_REQUEST;
    case FAKERNIC_QPS_RTS:
    case FAKERNIC_QPS_SQD:
    case FAKERNIC_QPS_SQE:
        return true;
    default:
        return false;
    }
}

static bool roce_input_service_ok(const RoceQp *qp, const RoceOpcodeInfo *info)
{
    switch (qp->init.type) {
    case FAKERNIC_QP_RC:
        return info->service == ROCE_SERVICE_RC;
    case FAKERNIC_QP_UC:
        return info->service == ROCE_SERVICE_UC;
    case FAKERNIC_QP_XRC_INI:
        return info->service == ROCE_SERVICE_XRC &&
               info->flags & ROCE_RESPONSE;
    case FAKERNIC_QP_XRC_TGT:
        return info->service == ROCE_SERVICE_XRC &&
               info->flags & ROCE_REQUEST;
    case FAKERNIC_QP_UD:
    case FAKERNIC_QP_GSI:
        return info->service == ROCE_SERVICE_UD;
    default:
        return false;
    }
}

/* C9-42: the low 15 bits match, and at most one side is a limited member. */
static bool roce_input_pkey_ok(const RocePacket *packet)
{
    return (packet->pkey & 0x7fff) == (ROCE_PKEY_DEFAULT & 0x7fff);
}

/*
 * Checks one packet for one QP. True: it passes. The last check, of the path,
 * may make the QP migrate to its other path.
 */
static bool roce_input_check(Roce *r, RoceQp *qp,
                             const RocePacket *packet,
                             const RoceOpcodeInfo *info,
                             enum fakernic_stat *drop)
{
    /* journey: input */
    if (!roce_input_service_ok(qp, info)) {
        *drop = FAKERNIC_STAT_DROP_OPCODE;
        return false;
    }
    if (!roce_input_state_ok(qp, info)) {
        *drop = FAKERNIC_STAT_DROP_QP_STATE;
        return false;
    }
    if (!roce_input_pkey_ok(packet)) {
        *drop = FAKERNIC_STAT_DROP_PKEY;
        return false;
    }
    if (roce_qp_datagram(qp)) {
        *drop = FAKERNIC_STAT_DROP_QKEY;
        return packet->deth.qkey == qp->attr.qkey;
    }
    *drop = FAKERNIC_STAT_DROP_ADDRESS;
    return roce_migration_input(r, qp, packet);
    /* journey: end */
}

static void roce_input_count(uint64_t *counters, const RocePacket *packet)
{
    counters[FAKERNIC_STAT_RX_ROCE]++;
    counters[FAKERNIC_STAT_RX_ROCE_BYTES] += packet->frame_len;
}

static void roce_input_qp(Roce *r, RoceTime now, RoceQp *qp,
                          const RocePacket *packet,
                          const RoceOpcodeInfo *info)
{
    enum fakernic_stat drop = FAKERNIC_STAT_DROP_OPCODE;

    if (qp->counters) {
        roce_input_count(qp->counters, packet);
    }
    if (!roce_input_check(r, qp, packet, info, &drop)) {
        roce_drop(r, drop, packet->dest_qpn, packet->psn);
        return;
    }
    roce_congestion_notice(r, now, qp, packet);
    if (roce_qp_datagram(qp)) {
        roce_datagram_input(r, now, qp, packet);
    } else if (info->flags & ROCE_RESPONSE) {
        roce_completer_input(r, now, qp, packet);
    } else {
        roce_responder_input(r, now, qp, packet);
    }
}

/* A CNP belongs to no service. Its sender is checked like a request's. */
static void roce_input_cnp(Roce *r, RoceTime now, RoceQp *qp,
                           const RocePacket *packet)
{
    if (qp->init.type == FAKERNIC_QP_RAW_PACKET) {
        roce_drop(r, FAKERNIC_STAT_DROP_OPCODE, qp->qpn, packet->psn);
    } else if (qp->attr.state < FAKERNIC_QPS_RTR ||
               qp->attr.state == FAKERNIC_QPS_ERR) {
        roce_drop(r, FAKERNIC_STAT_DROP_QP_STATE, qp->qpn, packet->psn);
    } else if (!roce_input_pkey_ok(packet)) {
        roce_drop(r, FAKERNIC_STAT_DROP_PKEY, qp->qpn, packet->psn);
    } else if (!roce_qp_datagram(qp) && !roce_path_is(r, &qp->attr.av, packet)) {
        roce_drop(r, FAKERNIC_STAT_DROP_ADDRESS, qp->qpn, packet->psn);
    } else {
        roce_congestion_input(r, now, qp);
    }
}

/* Did the QP send this datagram itself, with loopback blocked? */
static bool roce_input_blocked(Roce *r, const RoceQp *qp,
                               const RocePacket *packet)
{
    return qp->init.block_mcast_lb && packet->deth.src_qpn == qp->qpn &&
           roce_path_gid_ours(r, packet->sgid);
}

/*
 * Delivers a multicast datagram to every QP attached to the group (IBTA
 * 10.5.2).
 */
static void roce_input_multicast(Roce *r, RoceTime now,
                                 const RocePacket *packet,
                                 const RoceOpcodeInfo *info)
{
    const RoceMcast *group = roce_mcast_find(r, packet->dgid);
    uint32_t i;

    if (!group) {
        roce_drop(r, FAKERNIC_STAT_DROP_MCAST, packet->dest_qpn, packet->psn);
        return;
    }
    for (i = 0; i < group->count; i++) {
        RoceQp *qp = roce_qp_find(r, group->qpn[i]);

        if (qp && !roce_input_blocked(r, qp, packet)) {
            r->work++;
            roce_input_qp(r, now, qp, packet, info);
        }
    }
}

RoceInput roce_input_frame(Roce *r, RoceTime now, const uint8_t *frame,
                           size_t len)
{
    enum fakernic_stat drop = FAKERNIC_STAT_DROP_SHORT;
    const RoceOpcodeInfo *info;
    RocePacket packet;
    RoceQp *qp;
    bool group;

    switch (roce_wire_decode(frame, len, &packet, &drop)) {
    case ROCE_DECODE_NOT_ROCE:
        return ROCE_INPUT_ETHERNET;
    case ROCE_DECODE_DROP:
        /* A frame for another port is not counted here. */
        if (!roce_path_gid_ours(r, packet.dgid) &&
            !roce_gid_is_multicast(packet.dgid)) {
            return ROCE_INPUT_ETHERNET;
        }
        roce_input_count(r->stats, &packet);
        roce_drop(r, drop, 0, 0);
        return ROCE_INPUT_TAKEN;
    case ROCE_DECODE_OK:
        break;
    }
    info = roce_opcode_info(packet.opcode);
    group = roce_gid_is_multicast(packet.dgid);
    if (!group && roce_path_gid_find(r, &packet) < 0) {
        return ROCE_INPUT_ETHERNET;
    }
    roce_input_count(r->stats, &packet);
    roce_trace(r, ROCE_TRACE_RX, packet.dest_qpn, packet.psn, packet.opcode);
    if (roce_congestion_marked(&packet)) {
        r->stats[FAKERNIC_STAT_RX_ECN_MARKED]++;
    }
    if (group) {
        if (info->service != ROCE_SERVICE_UD) {
            roce_drop(r, FAKERNIC_STAT_DROP_OPCODE, packet.dest_qpn,
                      packet.psn);
        } else if (packet.dest_qpn != FAKERNIC_QPN_MULTICAST) {
            roce_drop(r, FAKERNIC_STAT_DROP_QPN, packet.dest_qpn, packet.psn);
        } else {
            roce_input_multicast(r, now, &packet, info);
        }
        return ROCE_INPUT_TAKEN;
    }
    qp = roce_qp_find(r, packet.dest_qpn);
    if (!qp) {
        roce_drop(r, FAKERNIC_STAT_DROP_QPN, packet.dest_qpn, packet.psn);
    } else if (info->service == ROCE_SERVICE_CNP) {
        roce_input_cnp(r, now, qp, &packet);
    } else {
        roce_input_qp(r, now, qp, &packet, info);
    }
    return ROCE_INPUT_TAKEN;
}
