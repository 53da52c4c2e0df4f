/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The Internet checksum (RFC 1071). It does not depend on byte order: the sum
 * uses the bytes as they are in memory, and the checksum is stored the same
 * way. Each part of a sum begins at an even offset of the whole.
 */
#ifndef ROCE_CSUM_H
#define ROCE_CSUM_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Adds these bytes to a sum. len is even except for the last part. */
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

/* The checksum of a sum; 0 if the sum includes a correct checksum. */
static inline uint16_t roce_csum_end(uint64_t sum)
{
    while (sum >> 16) {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    return (uint16_t)~sum;
}

#endif
