/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Congestion notification (IBTA annex A17.9.3). A packet that a switch marked
 * CE is answered with a CNP to its sender; a received CNP slows its QP down.
 * Marks come in bursts, and one CNP is enough for a burst. So each QP sends at
 * most one in ROCE_CNP_INTERVAL_NS, and never a CNP for a CNP.
 */
#include "engine.h"

#include <string.h>

/* DCQCN's N: the minimum time between CNPs of one QP. */
#define ROCE_CNP_INTERVAL_NS 50000
#define ROCE_CNP_PAYLOAD 16

#define ROCE_ECN_MASK 3
#define ROCE_ECN_ECT0 2
#define ROCE_ECN_CE 3

bool roce_congestion_marked(const RocePacket *packet)
{
    return (packet->traffic_class & ROCE_ECN_MASK) == ROCE_ECN_CE;
}

uint8_t roce_congestion_class(const Roce *r, uint8_t traffic_class)
{
    return r->limits.dcqcn ? (traffic_class & ~ROCE_ECN_MASK) | ROCE_ECN_ECT0
                           : traffic_class;
}

/* The return path: the connection's own, or the reversed path of a datagram. */
static bool roce_congestion_return(Roce *r, const RoceQp *qp,
                                   const RocePacket *packet, RoceAv *av)
{
    int index;

    if (!roce_qp_datagram(qp)) {
        *av = qp->attr.av;
    } else {
        index = roce_path_gid_find(r, packet);
        if (index < 0) {
            return false;
        }
        *av = (RoceAv) {
            .sgid_index = (uint16_t)index,
            .flow_label = packet->flow_label,
        };
        memcpy(av->dgid, packet->sgid, sizeof(av->dgid));
        memcpy(av->dmac, packet->smac, sizeof(av->dmac));
    }
    /*
     * Class and priority are the flow's. Switches must not mark the CNP
     * itself.
     */
    av->traffic_class = packet->traffic_class & ~ROCE_ECN_MASK;
    if (packet->has_vlan) {
        av->sl = packet->vlan_tci >> 13;
    }
    return true;
}

void roce_congestion_notice(Roce *r, RoceTime now, RoceQp *qp,
                            const RocePacket *packet)
{
    RoceCnp *cnp = &qp->cnp;

    if (roce_congestion_marked(packet) && qp->counters) {
        qp->counters[FAKERNIC_STAT_RX_ECN_MARKED]++;
    }
    /* Management datagrams have no flow to slow down. */
    if (!roce_congestion_marked(packet) || cnp->due || now < cnp->next ||
        qp->init.type == FAKERNIC_QP_GSI ||
        !roce_congestion_return(r, qp, packet, &cnp->av)) {
        return;
    }
    cnp->dest_qpn = roce_qp_datagram(qp) ? packet->deth.src_qpn
                                         : qp->attr.dest_qpn;
    cnp->due = true;
    roce_sched_ready(r, qp);
}

size_t roce_congestion_output(Roce *r, RoceTime now, RoceQp *qp, uint8_t *buf,
                              bool *loopback)
{
    RoceCnp *cnp = &qp->cnp;
    RocePacket packet;
    size_t at;

    if (!cnp->due || roce_path_av_waits(r, &cnp->av)) {
        return 0;
    }
    cnp->due = false;
    /* Counted from the CNP's departure: it may have waited for the wire. */
    cnp->next = now + ROCE_CNP_INTERVAL_NS;
    if (!roce_path_packet(r, qp, &cnp->av, cnp->dest_qpn, &packet)) {
        return 0;
    }
    packet.opcode = ROCE_BTH_CNP;
    packet.becn = true;
    packet.mig_req = false;     /* the annex requires 0: it is no request */
    packet.payload_len = ROCE_CNP_PAYLOAD;
    at = roce_wire_encode(buf, &packet);
    memset(buf + at, 0, ROCE_CNP_PAYLOAD);
    *loopback = roce_path_loops(r, &cnp->av);
    roce_count(r, qp, FAKERNIC_STAT_TX_CNP);
    roce_note_output(r, qp, &packet, ROCE_INDEX_NONE, 1);
    return roce_wire_finish(buf, at, ROCE_CNP_PAYLOAD);
}

void roce_congestion_input(Roce *r, RoceTime now, RoceQp *qp)
{
    roce_count(r, qp, FAKERNIC_STAT_RX_CNP);
    if (r->limits.dcqcn && !roce_qp_datagram(qp) &&
        roce_dcqcn_notified(&qp->pace.dcqcn, now, roce_pacer_link_kbps(r))) {
        roce_count(r, qp, FAKERNIC_STAT_RATE_CUTS);
    }
}
