/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * TCP and UDP in Ethernet frames of any origin: fills in and checks checksums,
 * and cuts a long TCP segment into segments that fit the wire (RFC 791, 768,
 * 9293, 8200; IEEE 802.1Q). Each length in a frame is compared with the bytes
 * present before it is used.
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
 * Longest permitted length of a frame that begins with these 'len' bytes, at
 * least 14. Each of up to two VLAN tags is added to the MTU and the header.
 */
size_t roce_ether_limit(const uint8_t *frame, size_t len, uint32_t mtu);

/* Writes an 802.1Q tag of type 0x8100 after the addresses. */
void roce_ether_put_tag(uint8_t *frame, uint16_t tci);

/* Reads the tag. False: the frame has none. */
bool roce_ether_get_tag(const uint8_t *frame, size_t len, uint16_t *tci);

/*
 * Fills in the checksums that FAKERNIC_SQ_IP_CSUM and _L4_CSUM in flags
 * request. A header that is absent, truncated or part of a fragment is not
 * changed.
 */
void roce_ether_fill(uint8_t *frame, size_t len, uint8_t flags);

/*
 * Returns FAKERNIC_CQE_IP_CSUM_OK and _L4_CSUM_OK for correct checksums.
 * *wrong: one is present and incorrect.
 */
uint8_t roce_ether_check(const uint8_t *frame, size_t len, bool *wrong);

/*
 * Length of the headers of a TCP segment that begins with these bytes. 0: it
 * is not TCP, or its headers are longer than these bytes.
 */
size_t roce_ether_tcp_headers(const uint8_t *frame, size_t len);

/* A part of a long TCP segment. */
typedef struct RoceEtherPart {
    size_t headers;             /* result of roce_ether_tcp_headers() */
    uint32_t number;            /* 0: the first */
    uint32_t offset;            /* of its data in the whole segment's */
    bool last;
} RoceEtherPart;

/*
 * Turns a frame with the headers of the whole and the data of the part into a
 * segment: lengths, identification, sequence number, flags, checksums.
 */
void roce_ether_cut(uint8_t *frame, size_t len, const RoceEtherPart *part);

#endif
