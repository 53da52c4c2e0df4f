/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * RoCEv2 frames: the only place that knows network byte order.
 *
 * Ethernet, optional VLAN tag, IPv4 or IPv6, UDP port 4791, BTH, extended
 * transport headers, payload, pad, ICRC (IBTA annex A17, chapter 9). Decoding
 * checks what one frame shows by itself; encoding cannot fail.
 */
#ifndef ROCE_WIRE_H
#define ROCE_WIRE_H

#include <string.h>

#include "roce.h"

#define ROCE_UDP_PORT 4791
#define ROCE_ICRC_SIZE 4
/* Ethernet + VLAN + IPv6 + UDP + BTH + the longest extended headers. */
#define ROCE_HEADERS_MAX 160

/*
 * A packet with its headers in host order. The opcode determines the extended
 * headers (opcode.h); the others are zero.
 */
typedef struct RocePacket {
    size_t frame_len;           /* decode: the whole frame, without FCS */
    /* Ethernet and IP */
    uint8_t dmac[6];
    uint8_t smac[6];
    bool has_vlan;
    uint16_t vlan_tci;
    uint8_t network_type;       /* FAKERNIC_GID_IPV4 or _IPV6 */
    uint8_t sgid[16];           /* source address as a GID */
    uint8_t dgid[16];
    uint8_t traffic_class;      /* with the ECN bits */
    uint8_t hop_limit;
    uint32_t flow_label;        /* IPv6 only */
    uint16_t udp_sport;
    uint16_t ip_id;             /* IPv4 identification */
    const uint8_t *ip;          /* decode: the IP header in the frame */
    /* BTH (IBTA 9.2) */
    uint8_t opcode;
    bool solicited;
    bool mig_req;
    bool fecn;
    bool becn;
    bool ack_req;
    uint16_t pkey;
    uint32_t dest_qpn;
    uint32_t psn;
    /* extended headers (IBTA 9.3) */
    struct {
        uint32_t srqn;
    } xrceth;
    struct {
        uint32_t qkey;
        uint32_t src_qpn;
    } deth;
    struct {
        uint64_t address;
        uint32_t rkey;
        uint32_t length;
    } reth;
    struct {
        uint64_t address;
        uint32_t rkey;
        uint64_t swap_or_add;
        uint64_t compare;
        uint64_t swap_mask_or_boundary;     /* masked atomics, with the next */
        uint64_t compare_mask;
    } atomic_eth;
    struct {
        uint8_t syndrome;
        uint32_t msn;
    } aeth;
    uint64_t atomic_ack;
    uint32_t imm;               /* ImmDt, as a number */
    uint32_t ieth_rkey;
    uint32_t feth;              /* FLUSH: type and level */
    /* payload, without pad */
    const uint8_t *payload;     /* decode only */
    size_t payload_len;
} RocePacket;

#define ROCE_PACKET_PIECE 64

/*
 * Clears all headers and the payload. It works in pieces, because gcc emits a
 * "rep stos" for one long memset, which takes as long as encoding all headers.
 */
static inline void roce_packet_clear(RocePacket *packet)
{
    uint8_t *at = (uint8_t *)packet;

    _Static_assert(sizeof(*packet) > 3 * ROCE_PACKET_PIECE &&
                       sizeof(*packet) <= 4 * ROCE_PACKET_PIECE,
                   "four pieces");
    memset(at, 0, ROCE_PACKET_PIECE);
    memset(at + ROCE_PACKET_PIECE, 0, ROCE_PACKET_PIECE);
    memset(at + 2 * ROCE_PACKET_PIECE, 0, ROCE_PACKET_PIECE);
    memset(at + 3 * ROCE_PACKET_PIECE, 0,
           sizeof(*packet) - 3 * ROCE_PACKET_PIECE);
}

typedef enum RoceDecode {
    ROCE_DECODE_OK,
    ROCE_DECODE_NOT_ROCE,       /* no UDP datagram to port 4791 */
    ROCE_DECODE_DROP,           /* *drop is set to the failed check */
} RoceDecode;

/*
 * Parses an Ethernet frame of any length. Trailing bytes beyond the IP length
 * (Ethernet padding) are ignored. Checks, in this order: lengths, IPv4 header
 * checksum, fragments, UDP port, ICRC, BTH version, known opcode, headers and
 * pad fit. UDP checksums are not checked (IBTA A17.9.2: may be zero). With
 * ROCE_DECODE_DROP the Ethernet and IP fields of *packet are valid, so that
 * the caller can find out whose frame it was.
 */
RoceDecode roce_wire_decode(const uint8_t *frame, size_t len,
                            RocePacket *packet, enum fakernic_stat *drop);

/*
 * Writes all headers for a payload of packet->payload_len bytes. Returns the
 * offset of the payload, which the caller then writes. 'buf' holds
 * ROCE_FRAME_MAX bytes.
 */
size_t roce_wire_encode(uint8_t *buf, const RocePacket *packet);

/* Ethernet with a VLAN tag, IPv6, UDP and BTH. */
#define ROCE_HEAD_MAX 78

/* The headers, up to the BTH, that all packets of a path share. */
typedef struct RoceHead {
    uint8_t bytes[ROCE_HEAD_MAX];
    uint8_t ip, len;            /* offset of the IP header; total length */
    uint8_t network_type;
    uint32_t sum;               /* IPv4: of the constant header fields */
} RoceHead;

/* Makes the head for packets with the path of this one. */
void roce_wire_head(RoceHead *head, const RocePacket *packet);

/*
 * roce_wire_encode() for a packet on this path. Before the extended headers it
 * uses only the fields that differ per packet: traffic class, IP
 * identification, opcode, solicited, mig_req, ack_req, PSN.
 */
size_t roce_wire_encode_on(uint8_t *buf, const RoceHead *head,
                           const RocePacket *packet);

/*
 * Adds pad and ICRC after a payload that is in place. Returns the frame's
 * length. Callers call it once, when the payload no longer changes.
 */
size_t roce_wire_finish(uint8_t *buf, size_t payload_offset,
                        size_t payload_len);

#define ROCE_GRH_SIZE 40
/* Writes the 40 bytes before the data of a UD receive: the IPv6 header, or 20
 * unspecified (zero) bytes and the IPv4 header (IBTA A17.4.5.2). */
void roce_wire_grh(const RocePacket *packet, uint8_t grh[ROCE_GRH_SIZE]);

/* Is it an IPv4-mapped address, ::ffff:a.b.c.d (IBTA A17.4.5)? */
bool roce_gid_is_ipv4(const uint8_t gid[16]);
/* Is it a multicast address: IPv6 (ff00::/8) or IPv4-mapped (224.0.0.0/4)? */
bool roce_gid_is_multicast(const uint8_t gid[16]);

#endif
