/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A hostile peer: it changes the contents of real frames, but keeps lengths and
 * checksums valid, so that the frames reach the transport. They may break
 * connections, and data within their rights. They must not crash or hang the
 * engine, reach other memory, or make work complete twice or never.
 */
#include <string.h>

#include "sim.h"

static uint8_t *find_bth(uint8_t *frame)
{
    size_t at = frame[12] == 0x81 ? 16 : 12;

    return frame + at + 2 + (frame[at] == 0x86 ? 40 : 20) + 8;
}

uint8_t *frame_payload(uint8_t *frame)
{
    return find_bth(frame) + 12;
}

/* Mostly opcodes that exist, sometimes any other. */
static uint8_t forge_opcode(Rng *r, uint8_t was)
{
    switch (rng_below(r, 10)) {
    case 0:
        return (uint8_t)rng_next(r);
    case 1:
        return 0x81;            /* CNP */
    case 2:
        return (uint8_t)(0x64 + rng_below(r, 2));       /* UD */
    case 3:                     /* masked atomics, RC and XRC */
        return (uint8_t)(0xd3 + rng_below(r, 2) + 0x20 * rng_below(r, 2));
    case 4:                     /* the same of another service */
        return (was & 0x1f) | (uint8_t)(rng_below(r, 8) << 5);
    case 5:                     /* FLUSH, ATOMIC WRITE */
        return (was & 0xe0) | (uint8_t)(0x1c + rng_below(r, 2));
    default:
        return (was & 0xe0) | (uint8_t)rng_below(r, 0x18);
    }
}

static void forge_psn(Rng *r, uint8_t *bth)
{
    uint32_t psn = (uint32_t)bth[9] << 16 | (uint32_t)bth[10] << 8 | bth[11];

    psn = rng_pct(r, 70) ? psn + rng_range(r, 0, 16) - 8
                         : (uint32_t)rng_next(r);
    bth[9] = (uint8_t)(psn >> 16);
    bth[10] = (uint8_t)(psn >> 8);
    bth[11] = (uint8_t)psn;
}

/* Inserts or removes bytes behind the BTH. frame_seal() fixes the lengths. */
static size_t forge_length(Rng *r, uint8_t *bth, size_t tail)
{
    uint32_t by = rng_pct(r, 70) ? 4 * rng_range(r, 1, 8)
                                 : rng_range(r, 1, 300);

    if (rng_pct(r, 50)) {
        memset(bth + 12 + tail, (int)rng_below(r, 256), by);
        return tail + by;
    }
    return by < tail ? tail - by : 0;
}

/* Changes 'out' (room: ROCE_FRAME_MAX + 512); returns its new length. */
size_t forge_frame(World *w, uint8_t *out, size_t len)
{
    Rng *r = &w->rng;
    uint8_t *bth = find_bth(out);
    size_t tail = len - (size_t)(bth - out) - 12 - 4;

    for (unsigned i = rng_range(r, 1, 3); i; i--) {
        switch (rng_below(r, 7)) {
        case 0:
            bth[0] = forge_opcode(r, bth[0]);
            break;
        case 1:
            forge_psn(r, bth);
            break;
        case 2:
            tail = forge_length(r, bth, tail);
            break;
        case 3:
            bth[7] = (uint8_t)rng_below(r, 8);          /* QPN */
            break;
        case 4:
            bth[1] ^= (uint8_t)rng_next(r);             /* SE, pad, version */
            break;
        case 5:                                         /* AETH, mostly */
            bth[12] = (uint8_t)rng_next(r);
            tail = tail < 1 ? 1 : tail;
            break;
        default:
            if (tail) {
                bth[12 + rng_below(r, tail < 28 ? (uint32_t)tail : 28)] =
                    (uint8_t)rng_next(r);
            }
        }
    }
    len = (size_t)(bth - out) + 12 + tail + 4;
    frame_seal(out, len);
    return len;
}
