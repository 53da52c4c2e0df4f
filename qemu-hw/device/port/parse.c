/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Parses an Ethernet frame into the fields of a struct fakernic_flow_match and
 * the set of its layers. Never reads beyond the frame: a header that is cut
 * counts as a layer that the frame does not have.
 */
#include "qemu/osdep.h"
#include "qemu/bitops.h"
#include "qemu/bswap.h"
#include "net/eth.h"
#include "parse.h"

static void fakernic_parse_l4(FakernicParsed *p, const uint8_t *at, size_t room)
{
    /* Rules use only the ports. */
    if (room < 4) {
        return;
    }
    if (p->match.protocol == IP_PROTO_TCP) {
        p->layers |= FAKERNIC_FLOW_TCP;
    } else if (p->match.protocol == IP_PROTO_UDP) {
        p->layers |= FAKERNIC_FLOW_UDP;
    } else {
        return;
    }
    p->match.src_port = cpu_to_le16(lduw_be_p(at));
    p->match.dst_port = cpu_to_le16(lduw_be_p(at + 2));
}

static void fakernic_parse_ipv4(FakernicParsed *p, const uint8_t *at,
                                size_t room)
{
    const size_t header = room ? (at[0] & 0xf) * 4 : 0;

    if (room < 20 || at[0] >> 4 != 4 || header < 20 || header > room) {
        return;
    }
    p->layers |= FAKERNIC_FLOW_IPV4;
    p->match.tos = at[1];
    p->match.ttl = at[8];
    p->match.protocol = at[9];
    memcpy(p->match.src_ip + 12, at + 12, 4);
    memcpy(p->match.dst_ip + 12, at + 16, 4);
    /* A fragment has no reliable ports: MF set, or an offset. */
    if (!(lduw_be_p(at + 6) & 0x3fff)) {
        fakernic_parse_l4(p, at + header, room - header);
    }
}

static void fakernic_parse_ipv6(FakernicParsed *p, const uint8_t *at,
                                size_t room)
{
    if (room < 40 || at[0] >> 4 != 6) {
        return;
    }
    p->layers |= FAKERNIC_FLOW_IPV6;
    p->match.tos = extract32(ldl_be_p(at), 20, 8);
    p->match.flow_label = cpu_to_le32(extract32(ldl_be_p(at), 0, 20));
    p->match.protocol = at[6];
    p->match.ttl = at[7];
    memcpy(p->match.src_ip, at + 8, 16);
    memcpy(p->match.dst_ip, at + 24, 16);
    fakernic_parse_l4(p, at + 40, room - 40);
}

void fakernic_parse(FakernicParsed *p, const uint8_t *frame, size_t len)
{
    uint16_t type = lduw_be_p(frame + 12);
    size_t offset = ETH_HLEN;

    memset(p, 0, sizeof(*p));
    memcpy(p->match.dmac, frame, ETH_ALEN);
    memcpy(p->match.smac, frame + ETH_ALEN, ETH_ALEN);
    if (type == ETH_P_VLAN && len >= ETH_HLEN + 4) {
        p->layers |= FAKERNIC_FLOW_VLAN;
        p->match.vlan = cpu_to_le16(lduw_be_p(frame + 14));
        type = lduw_be_p(frame + 16);
        offset += 4;
    }
    p->match.ethertype = cpu_to_le16(type);
    if (type == ETH_P_IP) {
        fakernic_parse_ipv4(p, frame + offset, len - offset);
    } else if (type == ETH_P_IPV6) {
        fakernic_parse_ipv6(p, frame + offset, len - offset);
    }
}
