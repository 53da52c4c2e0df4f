/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * RoCEv2 frames: conversion of bytes to RocePacket and back (IBTA chapter 9,
 * annex A17; IEEE 802.1Q; RFC 791, 768, 8200).
 *
 * Decoding compares each length field with the bytes present before it uses
 * it. It checks only what one frame shows by itself; code that knows the QP
 * checks service, state and sequence. A frame that is not certainly a RoCEv2
 * packet goes to the Ethernet port: another protocol, another port, or a later
 * fragment, which has no UDP header.
 *
 * Encoding trusts its caller: the packet is the engine's own.
 */
#include <assert.h>
#include <string.h>
#include "fakernic/cmdq.h"
#include "csum.h"
#include "icrc.h"
#include "opcode.h"
#include "wire.h"

#define ETH_SIZE        14
#define VLAN_SIZE       4
#define IPV4_SIZE       20
#define IPV6_SIZE       40
#define UDP_SIZE        8
#define BTH_SIZE        12

#define ETHERTYPE_IPV4  0x0800
#define ETHERTYPE_IPV6  0x86dd
#define ETHERTYPE_VLAN  0x8100
#define IP_PROTO_UDP    17

#define IPV4_DF         0x4000
#define IPV4_MF         0x2000
#define IPV4_OFFSET     0x1fff

/* BTH byte 1 and the top bits of bytes 4 and 8 (IBTA 9.2). */
#define BTH_SOLICITED   0x80
#define BTH_MIG_REQ     0x40
#define BTH_PAD_SHIFT   4
#define BTH_PAD_MASK    0x3
#define BTH_TVER_MASK   0x0f
#define BTH_FECN        0x80
#define BTH_BECN        0x40
#define BTH_ACK_REQ     0x80

static const uint8_t wire_ipv4_prefix[12] = {
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff
};

/* ---- network byte order -------------------------------------------------- */

static uint16_t wire_get16(const uint8_t *p)
{
    return (uint16_t)(p[0] << 8 | p[1]);
}

static uint32_t wire_get24(const uint8_t *p)
{
    return (uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2];
}

static uint32_t wire_get32(const uint8_t *p)
{
    return (uint32_t)wire_get16(p) << 16 | wire_get16(p + 2);
}

static uint64_t wire_get64(const uint8_t *p)
{
    return (uint64_t)wire_get32(p) << 32 | wire_get32(p + 4);
}

static void wire_put16(uint8_t *p, uint32_t v)
{
    p[0] = (uint8_t)(v >> 8);
    p[1] = (uint8_t)v;
}

static void wire_put24(uint8_t *p, uint32_t v)
{
    p[0] = (uint8_t)(v >> 16);
    wire_put16(p + 1, v);
}

static void wire_put32(uint8_t *p, uint32_t v)
{
    wire_put16(p, v >> 16);
    wire_put16(p + 2, v);
}

static void wire_put64(uint8_t *p, uint64_t v)
{
    wire_put32(p, (uint32_t)(v >> 32));
    wire_put32(p + 4, (uint32_t)v);
}

/* ---- GIDs ---------------------------------------------------------------- */

bool roce_gid_is_ipv4(const uint8_t gid[16])
{
    return memcmp(gid, wire_ipv4_prefix, sizeof(wire_ipv4_prefix)) == 0;
}

bool roce_gid_is_multicast(const uint8_t gid[16])
{
    return roce_gid_is_ipv4(gid) ? (gid[12] & 0xf0) == 0xe0 : gid[0] == 0xff;
}

static void wire_ipv4_to_gid(uint8_t gid[16], const uint8_t *address)
{
    memcpy(gid, wire_ipv4_prefix, sizeof(wire_ipv4_prefix));
    memcpy(gid + 12, address, 4);
}

/* ---- decoding ------------------------------------------------------------ */

/* Offset of the network header, or 0: neither IPv4 nor IPv6. */
static size_t wire_decode_eth(const uint8_t *frame, size_t len, RocePacket *p)
{
    size_t offset = ETH_SIZE;
    uint16_t type;

    if (len < ETH_SIZE) {
        return 0;
    }
    memcpy(p->dmac, frame, 6);
    memcpy(p->smac, frame + 6, 6);
    type = wire_get16(frame + 12);
    if (type == ETHERTYPE_VLAN) {
        if (len < ETH_SIZE + VLAN_SIZE) {
            return 0;
        }
        p->has_vlan = true;
        p->vlan_tci = wire_get16(frame + 14);
        type = wire_get16(frame + 16);
        offset += VLAN_SIZE;
    }
    if (type == ETHERTYPE_IPV4) {
        p->network_type = FAKERNIC_GID_IPV4;
    } else if (type == ETHERTYPE_IPV6) {
        p->network_type = FAKERNIC_GID_IPV6;
    } else {
        return 0;
    }
    return offset;
}

/* Is there a UDP header with the RoCEv2 port at ip + size? */
static bool wire_is_roce_port(const uint8_t *ip, size_t len, size_t size)
{
    return len >= size + 4 && wire_get16(ip + size + 2) == ROCE_UDP_PORT;
}

/* On success *udp_len is the IP payload's length, all of it within len. */
static RoceDecode wire_decode_ipv4(const uint8_t *ip, size_t len, RocePacket *p,
                                   size_t *udp_len, enum fakernic_stat *drop)
{
    size_t size, total;
    uint16_t fragment;

    if (len < IPV4_SIZE || ip[0] >> 4 != 4 || ip[9] != IP_PROTO_UDP) {
        return ROCE_DECODE_NOT_ROCE;
    }
    size = (size_t)(ip[0] & 0x0f) * 4;
    fragment = wire_get16(ip + 6);
    if (size < IPV4_SIZE || (fragment & IPV4_OFFSET) ||
        !wire_is_roce_port(ip, len, size)) {
        return ROCE_DECODE_NOT_ROCE;
    }
    p->traffic_class = ip[1];
    p->ip_id = wire_get16(ip + 4);
    p->hop_limit = ip[8];
    wire_ipv4_to_gid(p->sgid, ip + 12);
    wire_ipv4_to_gid(p->dgid, ip + 16);
    /* RoCEv2 has no IPv4 options: the header is 5 words (IBTA A17.4.5.1). */
    total = wire_get16(ip + 2);
    if (size != IPV4_SIZE || total > len || total < size + UDP_SIZE) {
        *drop = FAKERNIC_STAT_DROP_SHORT;
        return ROCE_DECODE_DROP;
    }
    if (roce_csum_end(roce_csum_add(0, ip, size)) != 0) {
        *drop = FAKERNIC_STAT_DROP_IP_CSUM;
        return ROCE_DECODE_DROP;
    }
    if (fragment & IPV4_MF) {
        *drop = FAKERNIC_STAT_DROP_FRAGMENT;
        return ROCE_DECODE_DROP;
    }
    *udp_len = total - size;
    return ROCE_DECODE_OK;
}

static RoceDecode wire_decode_ipv6(const uint8_t *ip, size_t len, RocePacket *p,
                                   size_t *udp_len, enum fakernic_stat *drop)
{
    /* A packet with an extension header, even of a fragment, is not RoCEv2,
     * which has UDP right after the fixed header. */
    if (len < IPV6_SIZE || ip[0] >> 4 != 6 || ip[6] != IP_PROTO_UDP ||
        !wire_is_roce_port(ip, len, IPV6_SIZE)) {
        return ROCE_DECODE_NOT_ROCE;
    }
    p->traffic_class = (uint8_t)(ip[0] << 4 | ip[1] >> 4);
    p->flow_label = wire_get24(ip + 1) & 0xfffff;
    p->hop_limit = ip[7];
    memcpy(p->sgid, ip + 8, 16);
    memcpy(p->dgid, ip + 24, 16);
    *udp_len = wire_get16(ip + 4);
    if (*udp_len > len - IPV6_SIZE || *udp_len < UDP_SIZE) {
        *drop = FAKERNIC_STAT_DROP_SHORT;
        return ROCE_DECODE_DROP;
    }
    return ROCE_DECODE_OK;
}

static void wire_decode_bth(const uint8_t *bth, RocePacket *p)
{
    p->opcode = bth[0];
    p->solicited = bth[1] & BTH_SOLICITED;
    p->mig_req = bth[1] & BTH_MIG_REQ;
    p->pkey = wire_get16(bth + 2);
    p->fecn = bth[4] & BTH_FECN;
    p->becn = bth[4] & BTH_BECN;
    p->dest_qpn = wire_get24(bth + 5);
    p->ack_req = bth[8] & BTH_ACK_REQ;
    p->psn = wire_get24(bth + 9);
}

/*
 * Decodes the headers of IBTA 9.3 in wire order. The caller has checked their
 * size.
 */
static void wire_decode_headers(const uint8_t *h, unsigned flags, RocePacket *p)
{
    if (flags & ROCE_HAS_XRCETH) {
        p->xrceth.srqn = wire_get24(h + 1);
        h += 4;
    }
    if (flags & ROCE_HAS_DETH) {
        p->deth.qkey = wire_get32(h);
        p->deth.src_qpn = wire_get24(h + 5);
        h += 8;
    }
    if (flags & ROCE_HAS_FETH) {
        p->feth = wire_get32(h);
        h += 4;
    }
    if (flags & ROCE_HAS_RETH) {
        p->reth.address = wire_get64(h);
        p->reth.rkey = wire_get32(h + 8);
        p->reth.length = wire_get32(h + 12);
        h += 16;
    }
    if (flags & ROCE_HAS_ATOMICETH) {
        p->atomic_eth.address = wire_get64(h);
        p->atomic_eth.rkey = wire_get32(h + 8);
        p->atomic_eth.swap_or_add = wire_get64(h + 12);
        p->atomic_eth.compare = wire_get64(h + 20);
        h += 28;
    }
    if (flags & ROCE_HAS_MASKETH) {
        p->atomic_eth.swap_mask_or_boundary = wire_get64(h);
        p->atomic_eth.compare_mask = wire_get64(h + 8);
        h += 16;
    }
    if (flags & ROCE_HAS_AETH) {
        p->aeth.syndrome = h[0];
        p->aeth.msn = wire_get24(h + 1);
        h += 4;
    }
    if (flags & ROCE_HAS_ATOMICACK) {
        p->atomic_ack = wire_get64(h);
        h += 8;
    }
    if (flags & ROCE_HAS_IMM) {
        p->imm = wire_get32(h);
        h += 4;
    }
    if (flags & ROCE_HAS_IETH) {
        p->ieth_rkey = wire_get32(h);
    }
}

/*
 * Decodes everything after the UDP header. The ICRC is excluded and already
 * checked. Returns ROCE_DECODE_OK or a drop.
 */
static RoceDecode wire_decode_transport(const uint8_t *bth, size_t len,
                                        RocePacket *p,
                                        enum fakernic_stat *drop)
{
    const RoceOpcodeInfo *info = roce_opcode_info(bth[0]);
    size_t pad = bth[1] >> BTH_PAD_SHIFT & BTH_PAD_MASK;
    size_t headers = BTH_SIZE + (size_t)info->header_size;

    wire_decode_bth(bth, p);
    if (bth[1] & BTH_TVER_MASK) {
        *drop = FAKERNIC_STAT_DROP_BTH_VERSION;
        return ROCE_DECODE_DROP;
    }
    if (info->service == ROCE_SERVICE_NONE) {
        *drop = FAKERNIC_STAT_DROP_OPCODE;
        return ROCE_DECODE_DROP;
    }
    /* Payload and pad are whole words (IBTA 9.2.4). */
    *drop = FAKERNIC_STAT_DROP_SHORT;
    if (len < headers + pad || (len - headers) % 4 != 0) {
        return ROCE_DECODE_DROP;
    }
    p->payload = bth + headers;
    p->payload_len = len - headers - pad;
    if (!(info->flags & ROCE_HAS_PAYLOAD) && len != headers) {
        return ROCE_DECODE_DROP;
    }
    wire_decode_headers(bth + BTH_SIZE, info->flags, p);
    return ROCE_DECODE_OK;
}

RoceDecode roce_wire_decode(const uint8_t *frame, size_t len,
                            RocePacket *packet, enum fakernic_stat *drop)
{
    size_t ip_offset, ip_size, udp_len, icrc_offset;
    const uint8_t *ip, *udp, *icrc;
    RoceDecode decoded;

    roce_packet_clear(packet);
    packet->frame_len = len;
    ip_offset = wire_decode_eth(frame, len, packet);
    if (ip_offset == 0) {
        return ROCE_DECODE_NOT_ROCE;
    }
    ip = frame + ip_offset;
    if (packet->network_type == FAKERNIC_GID_IPV4) {
        ip_size = IPV4_SIZE;
        decoded = wire_decode_ipv4(ip, len - ip_offset, packet, &udp_len, drop);
    } else {
        ip_size = IPV6_SIZE;
        decoded = wire_decode_ipv6(ip, len - ip_offset, packet, &udp_len, drop);
    }
    if (decoded != ROCE_DECODE_OK) {
        return decoded;
    }
    packet->ip = ip;
    udp = ip + ip_size;
    packet->udp_sport = wire_get16(udp);
    if (wire_get16(udp + 4) != udp_len ||
        udp_len < UDP_SIZE + BTH_SIZE + ROCE_ICRC_SIZE) {
        *drop = FAKERNIC_STAT_DROP_SHORT;
        return ROCE_DECODE_DROP;
    }
    icrc_offset = ip_size + udp_len - ROCE_ICRC_SIZE;
    icrc = ip + icrc_offset;
    /* The one little-endian number on the wire. */
    if (roce_icrc(ip, ip_size, icrc_offset) !=
        ((uint32_t)icrc[0] | (uint32_t)icrc[1] << 8 |
         (uint32_t)icrc[2] << 16 | (uint32_t)icrc[3] << 24)) {
        *drop = FAKERNIC_STAT_DROP_ICRC;
        return ROCE_DECODE_DROP;
    }
    return wire_decode_transport(udp + UDP_SIZE,
                                 udp_len - UDP_SIZE - ROCE_ICRC_SIZE, packet,
                                 drop);
}

void roce_wire_grh(const RocePacket *packet, uint8_t grh[ROCE_GRH_SIZE])
{
    if (packet->network_type == FAKERNIC_GID_IPV4) {
        memset(grh, 0, ROCE_GRH_SIZE - IPV4_SIZE);
        memcpy(grh + ROCE_GRH_SIZE - IPV4_SIZE, packet->ip, IPV4_SIZE);
    } else {
        memcpy(grh, packet->ip, IPV6_SIZE);
    }
}

/* ---- encoding ------------------------------------------------------------ */

static size_t wire_encode_eth(uint8_t *buf, const RocePacket *p)
{
    size_t offset = 12;

    memcpy(buf, p->dmac, 6);
    memcpy(buf + 6, p->smac, 6);
    if (p->has_vlan) {
        wire_put16(buf + offset, ETHERTYPE_VLAN);
        wire_put16(buf + offset + 2, p->vlan_tci);
        offset += VLAN_SIZE;
    }
    wire_put16(buf + offset, p->network_type == FAKERNIC_GID_IPV4
                                 ? ETHERTYPE_IPV4 : ETHERTYPE_IPV6);
    return offset + 2;
}

/* Returns the header's size. */
static size_t wire_encode_ip(uint8_t *ip, const RocePacket *p, size_t udp_len)
{
    uint16_t checksum;

    if (p->network_type == FAKERNIC_GID_IPV4) {
        ip[0] = 0x45;
        ip[1] = p->traffic_class;
        wire_put16(ip + 2, (uint32_t)(IPV4_SIZE + udp_len));
        wire_put16(ip + 4, p->ip_id);
        /* Routers must not fragment a packet with one ICRC (IBTA A17.4.5.1). */
        wire_put16(ip + 6, IPV4_DF);
        ip[8] = p->hop_limit;
        ip[9] = IP_PROTO_UDP;
        wire_put16(ip + 10, 0);
        memcpy(ip + 12, p->sgid + 12, 4);
        memcpy(ip + 16, p->dgid + 12, 4);
        checksum = roce_csum_end(roce_csum_add(0, ip, IPV4_SIZE));
        memcpy(ip + 10, &checksum, 2);
        return IPV4_SIZE;
    }
    wire_put32(ip, 6u << 28 | (uint32_t)p->traffic_class << 20 |
                       (p->flow_label & 0xfffff));
    wire_put16(ip + 4, (uint32_t)udp_len);
    ip[6] = IP_PROTO_UDP;
    ip[7] = p->hop_limit;
    memcpy(ip + 8, p->sgid, 16);
    memcpy(ip + 24, p->dgid, 16);
    return IPV6_SIZE;
}

static void wire_encode_udp(uint8_t *udp, const RocePacket *p, size_t udp_len)
{
    wire_put16(udp, p->udp_sport);
    wire_put16(udp + 2, ROCE_UDP_PORT);
    wire_put16(udp + 4, (uint32_t)udp_len);
    /* Zero over IPv6 too (IBTA A17.4.5.2): the ICRC protects the packet. */
    wire_put16(udp + 6, 0);
}

/*
 * Writes the BTH fields that differ per packet. The others are set already, or
 * zero.
 */
static void wire_patch_bth(uint8_t *bth, const RocePacket *p, size_t pad)
{
    bth[0] = p->opcode;
    bth[1] = (uint8_t)((p->solicited ? BTH_SOLICITED : 0) |
                       (p->mig_req ? BTH_MIG_REQ : 0) | pad << BTH_PAD_SHIFT);
    bth[8] = p->ack_req ? BTH_ACK_REQ : 0;
    wire_put24(bth + 9, p->psn);
}

static void wire_encode_bth(uint8_t *bth, const RocePacket *p, size_t pad)
{
    wire_patch_bth(bth, p, pad);
    wire_put16(bth + 2, p->pkey);
    bth[4] = (p->fecn ? BTH_FECN : 0) | (p->becn ? BTH_BECN : 0);
    wire_put24(bth + 5, p->dest_qpn);
}

static void wire_encode_headers(uint8_t *h, unsigned flags, const RocePacket *p)
{
    if (flags & ROCE_HAS_XRCETH) {
        wire_put32(h, p->xrceth.srqn & 0xffffff);
        h += 4;
    }
    if (flags & ROCE_HAS_DETH) {
        wire_put32(h, p->deth.qkey);
        wire_put32(h + 4, p->deth.src_qpn & 0xffffff);
        h += 8;
    }
    if (flags & ROCE_HAS_FETH) {
        wire_put32(h, p->feth);
        h += 4;
    }
    if (flags & ROCE_HAS_RETH) {
        wire_put64(h, p->reth.address);
        wire_put32(h + 8, p->reth.rkey);
        wire_put32(h + 12, p->reth.length);
        h += 16;
    }
    if (flags & ROCE_HAS_ATOMICETH) {
        wire_put64(h, p->atomic_eth.address);
        wire_put32(h + 8, p->atomic_eth.rkey);
        wire_put64(h + 12, p->atomic_eth.swap_or_add);
        wire_put64(h + 20, p->atomic_eth.compare);
        h += 28;
    }
    if (flags & ROCE_HAS_MASKETH) {
        wire_put64(h, p->atomic_eth.swap_mask_or_boundary);
        wire_put64(h + 8, p->atomic_eth.compare_mask);
        h += 16;
    }
    if (flags & ROCE_HAS_AETH) {
        h[0] = p->aeth.syndrome;
        wire_put24(h + 1, p->aeth.msn);
        h += 4;
    }
    if (flags & ROCE_HAS_ATOMICACK) {
        wire_put64(h, p->atomic_ack);
        h += 8;
    }
    if (flags & ROCE_HAS_IMM) {
        wire_put32(h, p->imm);
        h += 4;
    }
    if (flags & ROCE_HAS_IETH) {
        wire_put32(h, p->ieth_rkey);
    }
}

static size_t wire_pad(size_t payload_len)
{
    return -payload_len & 3;
}

static size_t wire_udp_len(const RocePacket *p, const RoceOpcodeInfo *info)
{
    return UDP_SIZE + BTH_SIZE + info->header_size + p->payload_len +
           wire_pad(p->payload_len) + ROCE_ICRC_SIZE;
}

size_t roce_wire_encode(uint8_t *buf, const RocePacket *packet)
{
    const RoceOpcodeInfo *info = roce_opcode_info(packet->opcode);
    size_t pad = wire_pad(packet->payload_len);
    size_t udp_len = wire_udp_len(packet, info);
    size_t offset = wire_encode_eth(buf, packet);

    assert(info->service != ROCE_SERVICE_NONE);
    assert(offset + IPV6_SIZE + udp_len <= ROCE_FRAME_MAX);
    offset += wire_encode_ip(buf + offset, packet, udp_len);
    wire_encode_udp(buf + offset, packet, udp_len);
    offset += UDP_SIZE;
    wire_encode_bth(buf + offset, packet, pad);
    offset += BTH_SIZE;
    wire_encode_headers(buf + offset, info->flags, packet);
    return offset + info->header_size;
}

void roce_wire_head(RoceHead *head, const RocePacket *packet)
{
    uint8_t bytes[ROCE_HEADERS_MAX];
    RocePacket bare = *packet;

    bare.opcode = ROCE_BTH_RC | ROCE_BTH_ACK;
    bare.traffic_class = 0;
    bare.ip_id = 0;
    bare.payload_len = 0;
    head->len = (uint8_t)(roce_wire_encode(bytes, &bare) -
                          roce_opcode_info(bare.opcode)->header_size);
    head->ip = bare.has_vlan ? ETH_SIZE + VLAN_SIZE : ETH_SIZE;
    head->network_type = bare.network_type;
    memcpy(head->bytes, bytes, head->len);
    head->sum = 0;
    if (bare.network_type == FAKERNIC_GID_IPV4) {
        wire_put16(head->bytes + head->ip + 2, 0);
        wire_put16(head->bytes + head->ip + 10, 0);
        for (unsigned i = 0; i < IPV4_SIZE; i += 2) {
            head->sum += wire_get16(head->bytes + head->ip + i);
        }
    }
}

/*
 * Writes length, traffic class, identification and checksum into a copy of a
 * head.
 */
static void wire_patch_ip(uint8_t *ip, const RoceHead *head,
                          const RocePacket *p, size_t udp_len)
{
    uint32_t total = (uint32_t)(IPV4_SIZE + udp_len);

    if (head->network_type == FAKERNIC_GID_IPV4) {
        ip[1] = p->traffic_class;
        wire_put16(ip + 2, total);
        wire_put16(ip + 4, p->ip_id);
        wire_put16(ip + 10, roce_csum_end((uint64_t)head->sum + total +
                                          p->ip_id + p->traffic_class));
    } else {
        ip[0] |= p->traffic_class >> 4;
        ip[1] |= (uint8_t)(p->traffic_class << 4);
        wire_put16(ip + 4, (uint32_t)udp_len);
    }
}

size_t roce_wire_encode_on(uint8_t *buf, const RoceHead *head,
                           const RocePacket *packet)
{
    const RoceOpcodeInfo *info = roce_opcode_info(packet->opcode);
    size_t udp_len = wire_udp_len(packet, info);
    uint8_t *bth = buf + head->len - BTH_SIZE;

    assert(head->len + info->header_size + packet->payload_len <=
           ROCE_FRAME_MAX - ROCE_ICRC_SIZE - 3);
    memcpy(buf, head->bytes, ROCE_HEAD_MAX);
    wire_patch_ip(buf + head->ip, head, packet, udp_len);
    wire_put16(bth - UDP_SIZE + 4, (uint32_t)udp_len);
    wire_patch_bth(bth, packet, wire_pad(packet->payload_len));
    wire_encode_headers(bth + BTH_SIZE, info->flags, packet);
    return head->len + info->header_size;
}

size_t roce_wire_finish(uint8_t *buf, size_t payload_offset, size_t payload_len)
{
    size_t end = payload_offset + payload_len;
    size_t pad = wire_pad(payload_len);
    size_t ip_offset = ETH_SIZE;
    size_t ip_size;
    uint32_t icrc;

    if (wire_get16(buf + 12) == ETHERTYPE_VLAN) {
        ip_offset += VLAN_SIZE;
    }
    ip_size = buf[ip_offset] >> 4 == 6 ? IPV6_SIZE : IPV4_SIZE;
    /* journey: icrc */
    memset(buf + end, 0, pad);
    end += pad;
    icrc = roce_icrc(buf + ip_offset, ip_size, end - ip_offset);
    for (unsigned i = 0; i < ROCE_ICRC_SIZE; i++) {
        buf[end + i] = (uint8_t)(icrc >> (8 * i));
    }
    return end + ROCE_ICRC_SIZE;
    /* journey: end */
}
