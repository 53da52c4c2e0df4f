/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A ring of frames in shared memory: ring.h has the protocol. */
#include "ring.h"

#include <string.h>

/* A frame in the ring: its length, padding, its bytes, padding. */
#define RECORD_HEADER LINK_RECORD_ALIGN

static uint32_t load(const uint32_t *word)
{
    /* The word before what it covers: frames, or room. Pairs with store(). */
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static void store(uint32_t *word, uint32_t value)
{
    /* Frames written, or copied, before the word. Pairs with load(). */
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

static void full_barrier(void)
{
    /* Own stores before loads of the peer's words. Pairs with the peer's. */
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

static uint32_t record_size(uint32_t len)
{
    return (RECORD_HEADER + len + LINK_RECORD_ALIGN - 1) &
           ~(LINK_RECORD_ALIGN - 1);
}

/* Tickets are never 0. */
static uint32_t next_ticket(uint32_t ticket)
{
    return ticket + 1 ? ticket + 1 : 1;
}

/* True: the word has a ticket not signalled yet; it counts as signalled now. */
static bool take_ticket(const uint32_t *word, uint32_t *signalled)
{
    uint32_t ticket = load(word);

    if (!ticket || ticket == *signalled) {
        return false;
    }
    *signalled = ticket;
    return true;
}

/* ---- the writer ---------------------------------------------------------- */

/* Reads and checks the reader's index: it moves forward only, by whole
 * records, and never past the tail. */
static LinkRingResult look_for_room(LinkWriter *w, uint32_t size)
{
    uint32_t head = load(&w->control->head);

    if (w->tail - head > w->tail - w->head || head % LINK_RECORD_ALIGN) {
        return LINK_RING_BROKEN;
    }
    w->head = head;
    return LINK_RING_SIZE - (w->tail - head) >= size ? LINK_RING_OK :
                                                       LINK_RING_NONE;
}

LinkRingResult link_ring_put(LinkWriter *w, const void *frame, uint32_t len)
{
    uint32_t size = record_size(len);
    uint8_t *record = w->data + w->tail % LINK_RING_SIZE;

    if (LINK_RING_SIZE - (w->tail - w->head) < size) {
        LinkRingResult room = look_for_room(w, size);

        if (room != LINK_RING_OK) {
            return room;
        }
    }
    memcpy(record, &len, sizeof(len));
    memcpy(record + RECORD_HEADER, frame, len);
    w->tail += size;
    store(&w->control->tail, w->tail);
    return LINK_RING_OK;
}

bool link_ring_wakes(LinkWriter *w, uint64_t now)
{
    uint64_t polled;

    /* 'tail' before 'asleep'. Pairs with link_ring_sleep(). */
    full_barrier();
    if (take_ticket(&w->control->asleep, &w->signalled)) {
        return true;
    }
    polled = __atomic_load_n(&w->control->polled, __ATOMIC_RELAXED);
    if (!polled || polled == w->signalled_poll ||
        polled + LINK_POLL_RECENT > now) {
        return false;
    }
    w->signalled_poll = polled;
    return true;
}

bool link_ring_unread(const LinkWriter *w, uint32_t *taken)
{
    *taken = load(&w->control->head);
    return *taken != w->tail;
}

uint32_t link_ring_oversleeps(const LinkWriter *w)
{
    const uint32_t ticket = load(&w->control->asleep);
    uint32_t taken;

    return ticket != w->signalled && link_ring_unread(w, &taken) ? ticket : 0;
}

uint32_t link_ring_overwaits(const LinkWriter *w)
{
    uint32_t taken;

    /* In this order: a reader clears 'asleep' before it takes frames. */
    if (link_ring_unread(w, &taken) || !load(&w->control->asleep)) {
        return 0;
    }
    return w->ticket;
}

void link_ring_see(LinkWriter *w)
{
    look_for_room(w, 0);
}

LinkRingResult link_ring_await_room(LinkWriter *w, uint32_t len)
{
    LinkRingResult room;

    w->ticket = next_ticket(w->ticket);
    store(&w->control->wants_room, w->ticket);
    /* 'wants_room' before 'head'. Pairs with link_ring_frees(). */
    full_barrier();
    room = look_for_room(w, record_size(len));
    if (room != LINK_RING_NONE) {
        store(&w->control->wants_room, 0);
    }
    return room;
}

/* ---- the reader ---------------------------------------------------------- */

LinkRingResult link_ring_get(LinkReader *r, void *frame, uint32_t *len)
{
    uint32_t used = load(&r->control->tail) - r->head;
    const uint8_t *record = r->data + r->head % LINK_RING_SIZE;
    uint32_t length;

    if (!used) {
        return LINK_RING_NONE;
    }
    if (used > LINK_RING_SIZE || used % LINK_RECORD_ALIGN) {
        return LINK_RING_BROKEN;
    }
    /* Read once: the peer may change it after the check. */
    length = __atomic_load_n((const uint32_t *)record, __ATOMIC_RELAXED);
    if (!length || length > LINK_FRAME_MAX || record_size(length) > used) {
        return LINK_RING_BROKEN;
    }
    memcpy(frame, record + RECORD_HEADER, length);
    *len = length;
    r->head += record_size(length);
    store(&r->control->head, r->head);
    return LINK_RING_OK;
}

bool link_ring_frees(LinkReader *r)
{
    /* 'head' before 'wants_room'. Pairs with link_ring_await_room(). */
    full_barrier();
    return take_ticket(&r->control->wants_room, &r->signalled);
}

bool link_ring_filled(const LinkReader *r)
{
    return load(&r->control->tail) != r->head;
}

bool link_ring_sleep(LinkReader *r)
{
    link_ring_polled(r, 0);
    r->ticket = next_ticket(r->ticket);
    store(&r->control->asleep, r->ticket);
    /* 'asleep' before 'tail'. Pairs with link_ring_wakes(). */
    full_barrier();
    if (link_ring_filled(r)) {
        link_ring_wake(r);
        return false;
    }
    return true;
}

void link_ring_wake(LinkReader *r)
{
    store(&r->control->asleep, 0);
}

void link_ring_polled(LinkReader *r, uint64_t now)
{
    __atomic_store_n(&r->control->polled, now, __ATOMIC_RELAXED);
}
