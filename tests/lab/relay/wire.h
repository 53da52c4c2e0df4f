/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The wire: frames from one end to the others. Between two ends all pass, with
 * more it is a switch that learns which address is behind which end.
 *
 *      end --tx rules--> switch --rx rules--> end
 *
 * While an end is full the frames of the others wait, for a bounded time
 * (end.h); so do those of an end of which much is held by rules. Memory is
 * bounded.
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
    Held *overtaken[2];         /* at tx, at rx: it lets others pass */
    bool blamed;                /* it has sent what is no frame */
    unsigned held;              /* frames of this end's */
    size_t held_bytes;
} WireEnd;

typedef struct Wire {
    WireEnd *ends;
    unsigned count;
    LinkDebt debts;             /* of all ends, if there are more than two */
    RoceTime now;               /* since the wire began */
    Capture capture;            /* of frames as they were sent */
    Heap late;
    /* Which address was behind which end, at the place its bytes say. */
    struct {
        uint8_t address[6];
        bool known;
        uint8_t end;
    } behind[WIRE_BEHIND];
    uint8_t spoilt[2][END_FRAME_MAX];   /* by the point */
} Wire;

/* Passes on what has come and what is due, as far as ends take it. */
void wire_turn(Wire *w);

/*
 * When the next turn is due if nothing comes: now, if one would do anything;
 * ROCE_TIME_NEVER.
 */
RoceTime wire_deadline(const Wire *w);

/* May the end be read, or are its frames to wait? */
bool wire_reads(const Wire *w, unsigned number);

/* A frame of nobody's comes to the end; false: nobody is there. */
bool wire_inject(Wire *w, unsigned number, const uint8_t *frame, size_t len);

/* The end of this name, or NULL. */
WireEnd *wire_named(Wire *w, const char *name);

#endif
