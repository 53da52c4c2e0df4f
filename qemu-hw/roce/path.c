/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Paths: conversion of the GID table and address vectors to packet addresses,
 * and lookup of packet addresses in the table (IBTA annex A17.4). An entry may
 * be cleared while QPs use it, so it is checked for each frame.
 */
#include "engine.h"

#include <string.h>

uint32_t roce_mtu_bytes(uint8_t mtu)
{
    return mtu >= FAKERNIC_MTU_256 && mtu <= FAKERNIC_MTU_4096 ? 128u << mtu
                                                               : 0;
}

/* IPv6, UDP, BTH, the longest extended headers of a packet with data, ICRC.
 * Linux uses the same number, so driver and device agree on active_mtu. */
#define ROCE_PATH_OVERHEAD 96

uint8_t roce_path_port_mtu(const Roce *r)
{
    uint8_t mtu;

    for (mtu = FAKERNIC_MTU_4096; mtu >= FAKERNIC_MTU_256; mtu--) {
        if (roce_mtu_bytes(mtu) + ROCE_PATH_OVERHEAD <= r->port_mtu) {
            return mtu;
        }
    }
    return 0;
}

static uint16_t roce_path_vid(const RoceGid *gid)
{
    return gid->vlan == FAKERNIC_VLAN_NONE ? 0 : gid->vlan;
}

static bool roce_path_gid_matches(const RoceGid *gid, const RocePacket *packet)
{
    uint16_t vid = packet->has_vlan ? packet->vlan_tci & 0xfff : 0;

    /* VLAN ID 0 is only a priority tag. */
    return gid->type == packet->network_type && vid == roce_path_vid(gid) &&
           memcmp(gid->gid, packet->dgid, sizeof(gid->gid)) == 0;
}

int roce_path_gid_find(Roce *r, const RocePacket *packet)
{
    uint16_t i;

    if (roce_path_gid_matches(&r->gids[r->gid_hint], packet)) {
        return r->gid_hint;
    }
    for (i = 0; i < r->limits.gid_count; i++) {
        if (roce_path_gid_matches(&r->gids[i], packet)) {
            r->gid_hint = i;
            break;
        }
    }
    r->work += i / ROCE_GIDS_PER_STEP;
    return i < r->limits.gid_count ? i : -1;
}

bool roce_path_gid_ours(Roce *r, const uint8_t gid[16])
{
    uint16_t i = 0;

    while (i < r->limits.gid_count &&
           (r->gids[i].type == FAKERNIC_GID_NONE ||
            memcmp(r->gids[i].gid, gid, 16) != 0)) {
        i++;
    }
    r->work += i / ROCE_GIDS_PER_STEP;
    return i < r->limits.gid_count;
}

/*
 * The port's address in another VLAN is not local: such packets go on the
 * wire.
 */
bool roce_path_loops(Roce *r, const RoceAv *av)
{
    const RoceGid *from = &r->gids[av->sgid_index];
    uint16_t i;

    for (i = 0; i < r->limits.gid_count; i++) {
        const RoceGid *gid = &r->gids[i];

        if (gid->type == from->type &&
            roce_path_vid(gid) == roce_path_vid(from) &&
            memcmp(gid->gid, av->dgid, sizeof(gid->gid)) == 0) {
            break;
        }
    }
    r->work += i / ROCE_GIDS_PER_STEP;
    return i < r->limits.gid_count;
}

/* An IPv4 source cannot reach an IPv6 destination. */
bool roce_path_av_valid(const Roce *r, const RoceAv *av)
{
    const RoceGid *gid;

    if (av->sgid_index >= r->limits.gid_count) {
        return false;
    }
    gid = &r->gids[av->sgid_index];
    return gid->type != FAKERNIC_GID_NONE && av->sl < 8 &&
           (gid->type == FAKERNIC_GID_IPV4) == roce_gid_is_ipv4(av->dgid);
}

/*
 * UDP source port, in the dynamic range (IBTA A17.9.2). It is constant for a
 * flow, so that its packets stay in order, and differs between flows to spread
 * them.
 */
static uint16_t roce_path_udp_sport(const RoceAv *av, uint32_t qpn,
                                    uint32_t dest_qpn)
{
    uint32_t label = av->flow_label & 0xfffff;

    if (av->udp_sport) {
        return av->udp_sport;
    }
    if (label == 0) {
        uint64_t mix = (uint64_t)qpn * 0x9e3779b1u ^ dest_qpn * 0x85ebca6bULL;

        label = (uint32_t)(mix ^ mix >> 20 ^ mix >> 40) & 0xfffff;
    }
    return 0xc000 | ((label & 0x3fff) ^ label >> 14);
}

/* Fills in the fields that all packets of a path share. */
static bool roce_path_fields(const Roce *r, const RoceQp *qp, const RoceAv *av,
                             uint32_t dest_qpn, RocePacket *packet)
{
    const RoceGid *gid;

    roce_packet_clear(packet);
    if (!roce_path_av_valid(r, av)) {
        return false;
    }
    gid = &r->gids[av->sgid_index];
    memcpy(packet->dmac, av->dmac, sizeof(packet->dmac));
    memcpy(packet->smac, gid->mac, sizeof(packet->smac));
    if (gid->vlan != FAKERNIC_VLAN_NONE) {
        packet->has_vlan = true;
        packet->vlan_tci = (uint16_t)(av->sl << 13 | (gid->vlan & 0xfff));
    }
    packet->network_type = gid->type;
    memcpy(packet->sgid, gid->gid, sizeof(packet->sgid));
    memcpy(packet->dgid, av->dgid, sizeof(packet->dgid));
    packet->traffic_class = av->traffic_class;
    packet->hop_limit = av->hop_limit ? av->hop_limit : 64;
    packet->flow_label = av->flow_label & 0xfffff;
    packet->udp_sport = roce_path_udp_sport(av, qp->qpn, dest_qpn);
    packet->pkey = ROCE_PKEY_DEFAULT;
    packet->dest_qpn = dest_qpn;
    return true;
}

/* Fills in the fields that differ per packet. */
static void roce_path_number(Roce *r, const RoceQp *qp, RocePacket *packet)
{
    packet->ip_id = r->ip_id++;
    /* IBTA 17.2.8.1: a QP that never rearms always sends MigReq 1. */
    packet->mig_req = qp->attr.path_mig_state == FAKERNIC_MIG_MIGRATED;
}

bool roce_path_packet(Roce *r, const RoceQp *qp, const RoceAv *av,
                      uint32_t dest_qpn, RocePacket *packet)
{
    if (!roce_path_fields(r, qp, av, dest_qpn, packet)) {
        return false;
    }
    roce_path_number(r, qp, packet);
    return true;
}

/*
 * Caches the part of a connected QP's path that stays until a GID or the path
 * changes.
 */
static void roce_path_remember(Roce *r, RoceQp *qp)
{
    const RoceAv *av = &qp->attr.av;
    RocePacket packet;

    if (qp->gid_epoch == r->gid_epoch) {
        return;
    }
    qp->gid_epoch = r->gid_epoch;
    qp->loopback = roce_path_loops(r, av);
    qp->has_head = roce_path_fields(r, qp, av, qp->attr.dest_qpn, &packet);
    if (qp->has_head) {
        roce_wire_head(&qp->head, &packet);
    }
}

bool roce_path_begin(Roce *r, RoceQp *qp, RocePacket *packet)
{
    roce_path_remember(r, qp);
    roce_packet_clear(packet);
    if (!qp->has_head) {
        return false;
    }
    packet->traffic_class = qp->attr.av.traffic_class;
    packet->dest_qpn = qp->attr.dest_qpn;
    roce_path_number(r, qp, packet);
    return true;
}

bool roce_path_loopback(Roce *r, RoceQp *qp)
{
    roce_path_remember(r, qp);
    return qp->loopback;
}

static bool roce_path_wants_wire(Roce *r)
{
    r->wire_wanted = true;
    return true;
}

bool roce_path_waits(Roce *r, RoceQp *qp)
{
    return r->wire_blocked && !roce_path_loopback(r, qp) &&
           roce_path_wants_wire(r);
}

bool roce_path_raw_waits(Roce *r)
{
    return r->wire_blocked && roce_path_wants_wire(r);
}

/* An invalid address needs no wire. */
bool roce_path_av_waits(Roce *r, const RoceAv *av)
{
    return r->wire_blocked && roce_path_av_valid(r, av) &&
           !roce_path_loops(r, av) && roce_path_wants_wire(r);
}

bool roce_path_is(const Roce *r, const RoceAv *av, const RocePacket *packet)
{
    return roce_path_av_valid(r, av) &&
           memcmp(packet->sgid, av->dgid, 16) == 0 &&
           memcmp(packet->dgid, r->gids[av->sgid_index].gid, 16) == 0;
}
