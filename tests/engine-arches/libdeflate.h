/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Replaces libdeflate, which the build root has for its own architecture only:
 * the one function of it that the engine and its tests use.
 */
#ifndef ARCH_LIBDEFLATE_H
#define ARCH_LIBDEFLATE_H

#include <stddef.h>
#include <stdint.h>

static inline uint32_t libdeflate_crc32(uint32_t crc, const void *buffer,
                                        size_t len)
{
    const uint8_t *p = buffer;

    crc = ~crc;
    while (len--) {
        crc ^= *p++;
        for (unsigned bit = 0; bit < 8; bit++) {
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
        }
    }
    return ~crc;
}

#endif
