/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The Toeplitz hash of receive side scaling. Each set input bit n, counted
 * from the top of the first byte, XORs the 32 bits of the key from bit n on
 * into the hash. Published verification values are in tests/unit.
 */
#ifndef ROCE_TOEPLITZ_H
#define ROCE_TOEPLITZ_H

#include <stddef.h>
#include <stdint.h>

#include "fakernic/wq.h"

/*
 * Two IPv6 addresses and two ports: the last bit uses the last 32 bits of the
 * key.
 */
#define ROCE_TOEPLITZ_INPUT_MAX (FAKERNIC_HASH_KEY_SIZE - 4)

/* len <= ROCE_TOEPLITZ_INPUT_MAX; the hash of an empty input is 0. */
uint32_t roce_toeplitz(const uint8_t key[FAKERNIC_HASH_KEY_SIZE],
                       const uint8_t *input, size_t len);

#endif
