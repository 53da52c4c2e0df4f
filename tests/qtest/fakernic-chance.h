/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A list of frames, and which of them a rule with a probability hits. The
 * engine's table (tests/unit/test_fault.c) and a device on a wire
 * (fakernic-fault.c) must hit the same frames.
 */
#ifndef FAKERNIC_CHANCE_H
#define FAKERNIC_CHANCE_H

#include <stdint.h>
#include <string.h>

#define CHANCE_RULE   "at=rx class=ether percent=30 seed=4711 times=0 do=drop"
#define CHANCE_FRAMES 40
#define CHANCE_LENGTH 64
/* Bit i is set if the rule hits frame i. */
#define CHANCE_HITS   0x1154341144ull

/*
 * Frame i of the list; its last byte is i. Each fourth frame is a RoCEv2 packet
 * between other hosts, which the rule does not match.
 */
static inline void chance_frame(unsigned i, const uint8_t dst[6],
                                uint8_t frame[CHANCE_LENGTH])
{
    static const uint8_t ether[] = { 2, 0, 0, 0, 0, 9, 0x88, 0xb5 };
    static const uint8_t roce[] = {
        2, 0, 0, 0, 0, 9, 0x08, 0x00,
        0x45, 0, 0, CHANCE_LENGTH - 14, 0, 0, 0x40, 0, 64, 17, 0, 0,
        192, 0, 2, 1, 192, 0, 2, 2,
        0xc0, 0, 0x12, 0xb7, 0, CHANCE_LENGTH - 34, 0, 0,
    };

    memset(frame, 0x3c, CHANCE_LENGTH);
    memcpy(frame, dst, 6);
    memcpy(frame + 6, i % 4 == 3 ? roce : ether,
           i % 4 == 3 ? sizeof(roce) : sizeof(ether));
    frame[CHANCE_LENGTH - 1] = (uint8_t)i;
}

#endif
