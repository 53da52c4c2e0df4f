/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The hash of receive side scaling: see toeplitz.h. */
#include "toeplitz.h"

#include <assert.h>

/* The 40 bits of the key that eight input bits use, in the top bits. */
static uint64_t roce_toeplitz_window(const uint8_t *key)
{
    uint64_t window = 0;
    unsigned i;

    for (i = 0; i < 5; i++) {
        window = window << 8 | key[i];
    }
    return window << 24;
}

uint32_t roce_toeplitz(const uint8_t key[FAKERNIC_HASH_KEY_SIZE],
                       const uint8_t *input, size_t len)
{
    uint32_t hash = 0;
    size_t i;

    assert(len <= ROCE_TOEPLITZ_INPUT_MAX);
    for (i = 0; i < len; i++) {
        uint64_t window = roce_toeplitz_window(key + i);
        unsigned bit;

        for (bit = 0; bit < 8; bit++) {
            if (input[i] & 0x80 >> bit) {
                hash ^= (uint32_t)(window << bit >> 32);
            }
        }
    }
    return hash;
}
