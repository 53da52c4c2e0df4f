/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Packet sequence numbers: 24-bit serial arithmetic (IBTA 9.7.1), also used
 * for MSNs. Results are always within 0..0xffffff. Of two PSNs the later one
 * is less than half the number space ahead.
 */
#ifndef ROCE_PSN_H
#define ROCE_PSN_H

#include <stdbool.h>
#include <stdint.h>

#define ROCE_PSN_BITS 24
#define ROCE_PSN_MASK 0xffffffu
#define ROCE_PSN_HALF 0x800000

static inline uint32_t roce_psn_mask(uint32_t psn)
{
    return psn & ROCE_PSN_MASK;
}

/* n may be "negative" as a two's complement number. */
static inline uint32_t roce_psn_add(uint32_t psn, uint32_t n)
{
    return (psn + n) & ROCE_PSN_MASK;
}

static inline uint32_t roce_psn_sub(uint32_t psn, uint32_t n)
{
    return (psn - n) & ROCE_PSN_MASK;
}

static inline uint32_t roce_psn_next(uint32_t psn)
{
    return roce_psn_add(psn, 1);
}

/* How far a is ahead of b: -0x800000..0x7fffff. */
static inline int32_t roce_psn_diff(uint32_t a, uint32_t b)
{
    uint32_t distance = (a - b) & ROCE_PSN_MASK;

    return (int32_t)(distance ^ ROCE_PSN_HALF) - ROCE_PSN_HALF;
}

static inline bool roce_psn_before(uint32_t a, uint32_t b)
{
    return roce_psn_diff(a, b) < 0;
}

/* first <= psn <= last. */
static inline bool roce_psn_within(uint32_t psn, uint32_t first, uint32_t last)
{
    return roce_psn_mask(psn - first) <= roce_psn_mask(last - first);
}

#endif
