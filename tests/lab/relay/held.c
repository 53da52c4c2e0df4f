/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Delayed frames. */
#include "held.h"

#include <stdlib.h>
#include <string.h>

#define HEAP_FIRST 64

static bool heap_before(const Held *a, const Held *b)
{
    return a->due != b->due ? a->due < b->due : a->serial < b->serial;
}

static void heap_put(Heap *h, size_t at, Held *held)
{
    h->items[at] = held;
    held->at = at;
}

/* Moves an item towards the top until the heap is in order. */
static void heap_rise(Heap *h, Held *held)
{
    size_t at = held->at;

    while (at > 0 && heap_before(held, h->items[(at - 1) / 2])) {
        heap_put(h, at, h->items[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    heap_put(h, at, held);
}

/* Places an item at the top and moves it down until the heap is in order. */
static void heap_sink(Heap *h, Held *held)
{
    size_t at = 0;

    for (;;) {
        size_t child = 2 * at + 1;

        if (child + 1 < h->count &&
            heap_before(h->items[child + 1], h->items[child])) {
            child++;
        }
        if (child >= h->count || heap_before(held, h->items[child])) {
            break;
        }
        heap_put(h, at, h->items[child]);
        at = child;
    }
    heap_put(h, at, held);
}

Held *held_add(Heap *h, Place place, RoceTime due, const uint8_t *frame,
               size_t len)
{
    Held *held = malloc(sizeof(*held) + len);

    if (held && h->count == h->room) {
        const size_t room = h->room ? 2 * h->room : HEAP_FIRST;
        Held **items = realloc(h->items, room * sizeof(Held *));

        if (!items) {
            free(held);
            return NULL;
        }
        h->items = items;
        h->room = room;
    }
    if (!held) {
        return NULL;
    }
    *held = (Held) { .place = place, .due = due, .serial = h->serial++,
                     .at = h->count, .len = len };
    memcpy(held->frame, frame, len);
    h->count++;
    heap_rise(h, held);
    return held;
}

RoceTime held_deadline(const Heap *h)
{
    return h->count ? h->items[0]->due : ROCE_TIME_NEVER;
}

Held *held_take(Heap *h, RoceTime now)
{
    Held *first;

    if (held_deadline(h) > now) {
        return NULL;
    }
    first = h->items[0];
    if (--h->count) {
        heap_sink(h, h->items[h->count]);
    }
    return first;
}

void held_hurry(Heap *h, Held *held)
{
    held->due = 0;
    heap_rise(h, held);
}
