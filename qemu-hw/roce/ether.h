/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * TCP and UDP in Ethernet frames of any origin: checksums made and checked, and
 * a long TCP segment cut into those that the wire takes (RFC 791, 768, 9293,
 * 8200; IEEE 802.1Q). No length of a frame is believed before it has been
 * compared with what is there.
 */
#ifndef ROCE_ETHER_H
#define ROCE_ETHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ROCE_ETHER_ADDRESSES 12  /* bytes; a tag comes next (IEEE 802.1Q) */
#define ROCE_ETHER_TAG 4
#define ROCE_ETHER_HEADERS_MAX 22   /* with two tags */

/*
 * How long a frame that begins with so many bytes, 14 at least, may be: each of
 * up to two VLAN tags comes on top of the MTU and the header.
 */
size_t roce_ether_limit(const uint8_t *frame, size_t len, uint32_t mtu);

/* Writes an 802.1Q tag, of type 0x8100, where a frame has it. */
void roce_ether_put_tag(uint8_t *frame, uint16_t tci);

/* False: the frame has none. */
bool roce_ether_get_tag(const uint8_t *frame, size_t len, uint16_t *tci);

/*
 * Fills in what FAKERNIC_SQ_IP_CSUM and _L4_CSUM in flags ask for. A header
 * that is not there, is cut off, or is one of a fragment stays as it is.
 */
void roce_ether_fill(uint8_t *frame, size_t len, uint8_t flags);

/*
 * FAKERNIC_CQE_IP_CSUM_OK and _L4_CSUM_OK for the checksums that are right.
 * *wrong: one is there that is not.
 */
uint8_t roce_ether_check(const uint8_t *frame, size_t len, bool *wrong);

/*
 * Of a TCP segment of any length that begins with these bytes: how many of them
 * are headers. 0: it is none, or its headers do not end here.
 */
size_t roce_ether_tcp_headers(const uint8_t *frame, size_t len);

/* A part of a long TCP segment. */
typedef struct RoceEtherPart {
    size_t headers;             /* as roce_ether_tcp_headers() said */
    uint32_t number;            /* 0: the first */
    uint32_t offset;            /* of its data in that of the whole */
    bool last;
} RoceEtherPart;

/*
 * Makes a segment of a frame that has the headers of the whole and the data of
 * the part: lengths, identification, sequence number, flags, checksums.
 */
void roce_ether_cut(uint8_t *frame, size_t len, const RoceEtherPart *part);

#endif
