/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Frames that go on later. The first to go is at the top of a heap.
 */
#ifndef RELAY_HELD_H
#define RELAY_HELD_H

#include "fault/rules.h"

/* Where a frame is on its way. */
typedef struct Place {
    RoceFaultPoint point;       /* tx: it leaves 'from'; rx: it comes to 'to' */
    unsigned from, to;
} Place;

typedef struct Held {
    Place place;
    RoceTime due;
    uint64_t serial;            /* among those of one time the first goes */
    size_t at;                  /* in the heap */
    uint64_t behind;            /* so many that pass, if it lets others */
    size_t len;
    uint8_t frame[];
} Held;

typedef struct Heap {
    Held **items;
    size_t count, room;
    uint64_t serial;
} Heap;

/* A frame that goes on at 'due'; NULL: there is no memory. */
Held *held_add(Heap *h, Place place, RoceTime due, const uint8_t *frame,
               size_t len);

/* When the first is due; ROCE_TIME_NEVER: there is none. */
RoceTime held_deadline(const Heap *h);

/* The first that is due by then, taken out of the heap, or NULL. */
Held *held_take(Heap *h, RoceTime now);

/* It is due now, before any other. */
void held_hurry(Heap *h, Held *held);

#endif
