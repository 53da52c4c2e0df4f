/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The wire: takes frames from one end to the others. With two ends all frames
 * pass. With more it is a switch that learns the end of each address.
 *
 *      end --tx rules--> switch --rx rules--> end
 *
 * While an end is full the frames of the others wait, for a limited time
 * (end.h). Frames of an end also wait while rules hold too many of its frames.
 * So memory is limited.
 */
#ifndef RELAY_WIRE_H
#define RELAY_WIRE_H

#include "capture.h"
#include "end.h"
#include "faults.h"
#include "held.h"

#define WIRE_ENDS_MAX  64
#define WIRE_BEHIND    4096

typedef struct WireEnd {
    End end;
    Faults faults;
    Held *overtaken[2];         /* the reordered frame at tx, at rx */
    bool blamed;                /* its invalid frame was reported */
    unsigned held;              /* its frames that rules hold */
    size_t held_bytes;
} WireEnd;

typedef struct Wire {
    WireEnd *ends;
    unsigned count;
    LinkStall stalls;           /* of all ends, if there are more than two */
    RoceTime now;               /* since the wire started */
    Capture capture;            /* of frames as they were sent */
    Heap late;                  /* the held frames */
    /* The end of each address; the hash of the address is the index. */
    struct {
        uint8_t address[6];
        bool known;
        uint8_t end;
    } behind[WIRE_BEHIND];
    uint8_t changed[2][END_FRAME_MAX];  /* copy, at tx, at rx */
} Wire;

/* Passes on received frames and held frames that are due. */
void wire_turn(Wire *w);

/*
 * The time of the next turn if no event comes first: now if frames wait,
 * ROCE_TIME_NEVER if none is needed.
 */
RoceTime wire_deadline(const Wire *w);

/* May the wire read from this end, or must its frames wait? */
bool wire_reads(const Wire *w, unsigned number);

/* Sends the end a frame that no end sent. False: no QEMU is connected. */
bool wire_inject(Wire *w, unsigned number, const uint8_t *frame, size_t len);

/* The end of this name, or NULL. */
WireEnd *wire_named(Wire *w, const char *name);

#endif
