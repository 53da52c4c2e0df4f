/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The Internet checksum (RFC 1071). A sum does not mind the order of bytes: it
 * is made of them as they lie in memory, and so is the checksum, which is
 * stored as it is. The parts of a sum begin at even places of the whole.
 */
#ifndef ROCE_CSUM_H
#define ROCE_CSUM_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A sum that has these bytes added; len is even but in the last part. */
static inline uint64_t roce_csum_add(uint64_t sum, const uint8_t *p, size_t len)
{
    for (; len >= 4; p += 4, len -= 4) {
        uint32_t word;

        memcpy(&word, p, 4);
        sum += word;
    }
    for (; len > 0; p += 2, len -= len < 2 ? 1 : 2) {
        uint8_t last[2] = { p[0], len < 2 ? 0 : p[1] };
        uint16_t half;

        memcpy(&half, last, 2);
        sum += half;
    }
    return sum;
}

/* Its checksum; 0 when the sum includes one that is right. */
static inline uint16_t roce_csum_end(uint64_t sum)
{
    while (sum >> 16) {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    return (uint16_t)~sum;
}

#endif
