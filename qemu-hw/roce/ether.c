/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Finds the headers of a frame, and uses them for checksums and TCP
 * segmentation.
 */
#include <string.h>

#include "fakernic/cq.h"
#include "fakernic/sq.h"
#include "csum.h"
#include "ether.h"

#define ETHER_SIZE      14
#define IPV4_SIZE       20
#define IPV6_SIZE       40
#define TCP_SIZE        20
#define UDP_SIZE        8

#define TYPE_IPV4       0x0800
#define TYPE_IPV6       0x86dd
#define TYPE_VLAN       0x8100
#define TYPE_VLAN_OUTER 0x88a8
#define TAGS_MAX        2

#define PROTO_HOPOPTS   0
#define PROTO_TCP       6
#define PROTO_UDP       17
#define PROTO_ROUTING   43
#define PROTO_DSTOPTS   60
#define EXTENSIONS_MAX  8

#define IPV4_FRAGMENT   0x3fff          /* more fragments, or an offset */

#define TCP_SEQ         4
#define TCP_OFFSET      12
#define TCP_FLAGS       13
#define TCP_CSUM        16
#define TCP_FIN         0x01
#define TCP_PSH         0x08
#define TCP_CWR         0x80
#define UDP_CSUM        6

/* Offsets of the headers from the frame's start. */
typedef struct Ether {
    size_t ip;
    size_t ip_end;      /* end of the IP packet; 0: beyond the frame */
    size_t l4;          /* TCP or UDP, not a fragment; 0: none */
    uint8_t protocol;   /* with l4; else 0 */
    bool v4;
} Ether;

static uint16_t ether_get16(const uint8_t *p)
{
    return (uint16_t)(p[0] << 8 | p[1]);
}

static void ether_put16(uint8_t *p, size_t v)
{
    p[0] = (uint8_t)(v >> 8);
    p[1] = (uint8_t)v;
}

/* The frame's type. *offset is set to the end of the tags. */
static uint16_t ether_type(const uint8_t *frame, size_t len, size_t *offset)
{
    uint16_t type = ether_get16(frame + ETHER_SIZE - 2);
    unsigned tags;

    *offset = ETHER_SIZE;
    for (tags = 0; tags < TAGS_MAX && len >= *offset + ROCE_ETHER_TAG &&
                   (type == TYPE_VLAN || type == TYPE_VLAN_OUTER); tags++) {
        type = ether_get16(frame + *offset + 2);
        *offset += ROCE_ETHER_TAG;
    }
    return type;
}

size_t roce_ether_limit(const uint8_t *frame, size_t len, uint32_t mtu)
{
    size_t offset;

    ether_type(frame, len, &offset);
    return mtu + offset;
}

void roce_ether_put_tag(uint8_t *frame, uint16_t tci)
{
    ether_put16(frame + ROCE_ETHER_ADDRESSES, TYPE_VLAN);
    ether_put16(frame + ROCE_ETHER_ADDRESSES + 2, tci);
}

bool roce_ether_get_tag(const uint8_t *frame, size_t len, uint16_t *tci)
{
    if (len < ETHER_SIZE + ROCE_ETHER_TAG ||
        ether_get16(frame + ROCE_ETHER_ADDRESSES) != TYPE_VLAN) {
        return false;
    }
    *tci = ether_get16(frame + ROCE_ETHER_ADDRESSES + 2);
    return true;
}

static void ether_l4(Ether *e, size_t offset, size_t len, uint8_t protocol)
{
    const size_t size = protocol == PROTO_TCP ? TCP_SIZE : UDP_SIZE;

    if ((protocol == PROTO_TCP || protocol == PROTO_UDP) &&
        len >= offset + size) {
        e->l4 = offset;
        e->protocol = protocol;
    }
}

static bool ether_ipv4(Ether *e, const uint8_t *frame, size_t len)
{
    const uint8_t *ip = frame + e->ip;
    size_t size, total;

    if (len < e->ip + IPV4_SIZE || ip[0] >> 4 != 4) {
        return false;
    }
    size = (size_t)(ip[0] & 0xf) * 4;
    if (size < IPV4_SIZE || len < e->ip + size) {
        return false;
    }
    total = ether_get16(ip + 2);
    e->v4 = true;
    e->ip_end = total < size || len < e->ip + total ? 0 : e->ip + total;
    if (!(ether_get16(ip + 6) & IPV4_FRAGMENT)) {
        ether_l4(e, e->ip + size, len, ip[9]);
    }
    return true;
}

/* Is this an extension header that does not affect the checksum? */
static bool ether_is_extension(uint8_t protocol, const uint8_t *header)
{
    return protocol == PROTO_HOPOPTS || protocol == PROTO_DSTOPTS ||
           /* With segments left, the final destination is another one. */
           (protocol == PROTO_ROUTING && header[3] == 0);
}

static bool ether_ipv6(Ether *e, const uint8_t *frame, size_t len)
{
    const uint8_t *ip = frame + e->ip;
    size_t offset = e->ip + IPV6_SIZE;
    unsigned extensions = EXTENSIONS_MAX;
    uint8_t protocol;

    if (len < offset || ip[0] >> 4 != 6) {
        return false;
    }
    e->ip_end = offset + ether_get16(ip + 4);
    if (len < e->ip_end) {
        e->ip_end = 0;
    }
    protocol = ip[6];
    while (extensions-- > 0 && len >= offset + 8 &&
           ether_is_extension(protocol, frame + offset)) {
        protocol = frame[offset];
        offset += (size_t)(frame[offset + 1] + 1) * 8;
    }
    ether_l4(e, offset, len, protocol);
    return true;
}

static bool ether_parse(Ether *e, const uint8_t *frame, size_t len)
{
    memset(e, 0, sizeof(*e));
    if (len < ETHER_SIZE) {
        return false;
    }
    switch (ether_type(frame, len, &e->ip)) {
    case TYPE_IPV4:
        return ether_ipv4(e, frame, len);
    case TYPE_IPV6:
        return ether_ipv6(e, frame, len);
    default:
        return false;
    }
}

/* Number of bytes that the TCP or UDP checksum covers; 0: a length is wrong. */
static size_t ether_l4_len(const Ether *e, const uint8_t *frame)
{
    size_t len, size = e->protocol == PROTO_TCP ? TCP_SIZE : UDP_SIZE;

    if (!e->l4 || e->ip_end < e->l4 + size) {
        return 0;
    }
    len = e->ip_end - e->l4;
    if (e->protocol == PROTO_UDP) {
        const size_t said = ether_get16(frame + e->l4 + 4);

        return said < UDP_SIZE || said > len ? 0 : said;
    }
    return len;
}

/* Sum of the pseudo-header and all of the data. */
static uint64_t ether_l4_sum(const Ether *e, const uint8_t *frame, size_t len)
{
    const uint8_t *ip = frame + e->ip;
    const uint8_t rest[8] = { 0, 0, (uint8_t)(len >> 8), (uint8_t)len,
                              0, 0, 0, e->protocol };
    uint64_t sum = roce_csum_add(0, rest, sizeof(rest));

    sum = e->v4 ? roce_csum_add(sum, ip + 12, 8) :
                  roce_csum_add(sum, ip + 8, 32);
    return roce_csum_add(sum, frame + e->l4, len);
}

static uint64_t ether_ipv4_sum(const Ether *e, const uint8_t *frame)
{
    return roce_csum_add(0, frame + e->ip, (size_t)(frame[e->ip] & 0xf) * 4);
}

static uint8_t *ether_l4_csum(const Ether *e, uint8_t *frame)
{
    return frame + e->l4 + (e->protocol == PROTO_TCP ? TCP_CSUM : UDP_CSUM);
}

static void ether_store(uint8_t *at, uint16_t checksum)
{
    memcpy(at, &checksum, 2);
}

static void ether_fill_l4(const Ether *e, uint8_t *frame)
{
    const size_t len = ether_l4_len(e, frame);
    uint8_t *at = ether_l4_csum(e, frame);
    uint16_t checksum;

    if (len == 0) {
        return;
    }
    ether_store(at, 0);
    checksum = roce_csum_end(ether_l4_sum(e, frame, len));
    /* Zero would mean that the UDP datagram has no checksum. */
    ether_store(at, e->protocol == PROTO_UDP && !checksum ? 0xffff : checksum);
}

void roce_ether_fill(uint8_t *frame, size_t len, uint8_t flags)
{
    Ether e;

    if (!ether_parse(&e, frame, len)) {
        return;
    }
    if (e.v4 && flags & FAKERNIC_SQ_IP_CSUM) {
        ether_store(frame + e.ip + 10, 0);
        ether_store(frame + e.ip + 10,
                    roce_csum_end(ether_ipv4_sum(&e, frame)));
    }
    if (flags & FAKERNIC_SQ_L4_CSUM) {
        ether_fill_l4(&e, frame);
    }
}

/* Was the UDP datagram sent without a checksum? */
static bool ether_unsummed(const Ether *e, const uint8_t *frame)
{
    return e->protocol == PROTO_UDP && e->v4 &&
           ether_get16(frame + e->l4 + UDP_CSUM) == 0;
}

uint8_t roce_ether_check(const uint8_t *frame, size_t len, bool *wrong)
{
    uint8_t flags = 0;
    size_t l4_len;
    Ether e;

    *wrong = false;
    if (!ether_parse(&e, frame, len)) {
        return 0;
    }
    if (e.v4 && roce_csum_end(ether_ipv4_sum(&e, frame)) == 0) {
        flags |= FAKERNIC_CQE_IP_CSUM_OK;
    } else if (e.v4) {
        *wrong = true;
    }
    l4_len = ether_l4_len(&e, frame);
    if (l4_len == 0 || ether_unsummed(&e, frame)) {
        return flags;
    }
    if (roce_csum_end(ether_l4_sum(&e, frame, l4_len)) == 0) {
        flags |= FAKERNIC_CQE_L4_CSUM_OK;
    } else {
        *wrong = true;
    }
    return flags;
}

size_t roce_ether_tcp_headers(const uint8_t *frame, size_t len)
{
    size_t size;
    Ether e;

    if (!ether_parse(&e, frame, len) || e.protocol != PROTO_TCP) {
        return 0;
    }
    size = (size_t)(frame[e.l4 + TCP_OFFSET] >> 4) * 4;
    return size < TCP_SIZE || len < e.l4 + size ? 0 : e.l4 + size;
}

/*
 * Adjusts the TCP header of a part: the sequence number, and flags that only
 * the first or last part keeps.
 */
static void ether_cut_tcp(uint8_t *tcp, const RoceEtherPart *part)
{
    const uint32_t seq = ((uint32_t)ether_get16(tcp + TCP_SEQ) << 16 |
                          ether_get16(tcp + TCP_SEQ + 2)) + part->offset;

    ether_put16(tcp + TCP_SEQ, seq >> 16);
    ether_put16(tcp + TCP_SEQ + 2, seq & 0xffff);
    if (!part->last) {
        tcp[TCP_FLAGS] &= (uint8_t)~(TCP_FIN | TCP_PSH);
    }
    /* CWR reports a smaller window once (RFC 3168). */
    if (part->number > 0) {
        tcp[TCP_FLAGS] &= (uint8_t)~TCP_CWR;
    }
}

void roce_ether_cut(uint8_t *frame, size_t len, const RoceEtherPart *part)
{
    uint8_t *ip;
    Ether e;

    if (!ether_parse(&e, frame, len) || e.protocol != PROTO_TCP) {
        return;
    }
    ip = frame + e.ip;
    if (e.v4) {
        ether_put16(ip + 2, len - e.ip);
        ether_put16(ip + 4, ether_get16(ip + 4) + part->number);
    } else {
        ether_put16(ip + 4, len - e.ip - IPV6_SIZE);
    }
    ether_cut_tcp(frame + e.l4, part);
    roce_ether_fill(frame, len, FAKERNIC_SQ_IP_CSUM | FAKERNIC_SQ_L4_CSUM);
}
