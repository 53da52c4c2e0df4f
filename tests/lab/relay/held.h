/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Delayed frames, in a heap with the next one that is due at the top.
 */
#ifndef RELAY_HELD_H
#define RELAY_HELD_H

#include "fault/rules.h"

/* A point on the way of a frame. */
typedef struct Place {
    RoceFaultPoint point;       /* tx: it leaves 'from'; rx: it comes to 'to' */
    unsigned from, to;
} Place;

typedef struct Held {
    Place place;
    RoceTime due;
    uint64_t serial;            /* orders frames with the same time */
    size_t at;                  /* its index in the heap */
    uint64_t behind;            /* reorder: frames that still overtake it */
    size_t len;
    uint8_t frame[];
} Held;

typedef struct Heap {
    Held **items;
    size_t count, room;
    uint64_t serial;
} Heap;

/* Adds a frame that continues at 'due'. NULL: out of memory. */
Held *held_add(Heap *h, Place place, RoceTime due, const uint8_t *frame,
               size_t len);

/* The time at which the first is due; ROCE_TIME_NEVER: the heap is empty. */
RoceTime held_deadline(const Heap *h);

/* Takes the first frame that is due by 'now' out of the heap, or NULL. */
Held *held_take(Heap *h, RoceTime now);

/* Makes the frame due now, before all others. */
void held_hurry(Heap *h, Held *held);

#endif
