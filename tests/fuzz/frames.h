/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Shared by the files of the target "frames": see frames.c. */
#ifndef FUZZ_FRAMES_H
#define FUZZ_FRAMES_H

#include "world.h"
#include "opcode.h"

/* The change of the next frame that is delivered. */
typedef struct Patch {
    bool armed, fix;
    uint16_t offset;
    int longer;
    uint64_t bits;              /* to flip, from offset on */
} Patch;

typedef struct Frames {
    World w;
    FuzzInput input;
    Patch patch;
    uint8_t kept[ROCE_FRAME_MAX];       /* an old frame */
    size_t kept_len;
    bool raw_sent;              /* a raw QP may send anything */
} Frames;

void frames_step(Frames *f, const FuzzRecord *r);
/* control.c: posts, and what a guest changes by commands. */
void frames_control(Frames *f, Side *side, Slot slot, const FuzzRecord *r);
/* save.c: the engines are replaced by loaded ones; changed streams. */
void frames_save(Frames *f);

#endif
