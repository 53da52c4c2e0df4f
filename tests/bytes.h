/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The operand of an atomic: 8 bytes in little-endian order, on any machine. For
 * the unit tests and the simulator.
 */
#ifndef FAKERNIC_TESTS_BYTES_H
#define FAKERNIC_TESTS_BYTES_H

#include <stdint.h>

static inline uint64_t bytes_load64(const uint8_t *p)
{
    uint64_t value = 0;

    for (unsigned i = 0; i < 8; i++) {
        value |= (uint64_t)p[i] << 8 * i;
    }
    return value;
}

static inline void bytes_store64(uint8_t *p, uint64_t value)
{
    for (unsigned i = 0; i < 8; i++) {
        p[i] = (uint8_t)(value >> 8 * i);
    }
}

#endif
