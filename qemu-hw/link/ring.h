/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A ring of frames in memory that two processes share, for one direction: one
 * writes, the other reads. Plain C11, without QEMU.
 *
 * Neither side trusts the other. Each keeps a private copy of its own index,
 * checks the other's index at each read, and copies a frame before it is used.
 * So a faulty peer can only cause LINK_RING_BROKEN.
 *
 * Every shared word has one writer. The signals:
 *
 *     the reader    publishes a ticket in 'asleep', looks again for a
 *                   frame, and sleeps only if there is none;
 *     the writer    publishes the frame, then looks for a ticket, and signals
 *                   each ticket once.
 *
 * Each side has a full barrier between its two steps. So if both happen at
 * once, the reader sees the frame or the writer sees the ticket. A writer
 * without room does the same with 'wants_room', and the reader signals it.
 * tests/link/model.py checks all interleavings, tests/litmus the barriers.
 *
 * While its guest polls, a reader is not asleep: it looks at every poll, and a
 * timer looks when the polls end. A writer may still signal a reader that has
 * unread frames and has not polled for a while. This saves time and is not
 * needed for correctness. The writer checks for it when it writes, and when its
 * own guest polls for an answer.
 */
#ifndef FAKERNIC_LINK_RING_H
#define FAKERNIC_LINK_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LINK_RING_SIZE      (1U << 20)
#define LINK_FRAME_MAX      65536U
#define LINK_RECORD_ALIGN   8U

_Static_assert((LINK_RING_SIZE & (LINK_RING_SIZE - 1)) == 0,
               "indexes count modulo 2^32, places modulo the ring's size");
_Static_assert(LINK_FRAME_MAX + LINK_RECORD_ALIGN <= LINK_RING_SIZE,
               "the longest frame fits into a ring");

/* A reader counts as polling for this long after its last poll, in ns. */
#define LINK_POLL_RECENT    30000

/* The shared control words; the indexes count bytes, modulo 2^32. */
typedef struct LinkControl {
    /* written by the writer */
    _Alignas(64) uint32_t tail;
    uint32_t wants_room;        /* a ticket, or 0 */
    /* written by the reader */
    _Alignas(64) uint32_t head;
    uint32_t asleep;            /* a ticket, or 0 */
    uint64_t polled;            /* last poll of the reader's guest, or 0 */
} LinkControl;

/* 'data' is mapped twice in succession, so that no frame wraps around. */
typedef struct LinkWriter {
    LinkControl *control;
    uint8_t *data;
    uint32_t tail;
    uint32_t head;              /* as last seen */
    uint32_t ticket;            /* last one put into 'wants_room' */
    uint32_t signalled;         /* last ticket of 'asleep' signalled */
    uint64_t signalled_poll;    /* last value of 'polled' signalled for */
} LinkWriter;

typedef struct LinkReader {
    LinkControl *control;
    const uint8_t *data;
    uint32_t head;
    uint32_t ticket;            /* last one put into 'asleep' */
    uint32_t signalled;         /* last ticket of 'wants_room' signalled */
} LinkReader;

typedef enum LinkRingResult {
    LINK_RING_OK,
    LINK_RING_NONE,             /* no frame, or no room for one */
    LINK_RING_BROKEN,           /* the peer violates the protocol */
} LinkRingResult;

/* Writes one frame of 1..LINK_FRAME_MAX bytes. */
LinkRingResult link_ring_put(LinkWriter *w, const void *frame, uint32_t len);

/* After frames were written: true if the caller must signal the reader. */
bool link_ring_wakes(LinkWriter *w, uint64_t now);

/*
 * True: the reader has not taken all frames. *taken changes when it takes some.
 * The value is not checked, so the caller may only compare it.
 */
bool link_ring_unread(const LinkWriter *w, uint32_t *taken);

/*
 * The ticket of a reader that sleeps although frames wait and the ticket is not
 * signalled; else 0. The reader may be about to look again: only if the ticket
 * stays, a wake-up is lost. Meaningless between link_ring_put() and
 * link_ring_wakes().
 */
uint32_t link_ring_oversleeps(const LinkWriter *w);

/*
 * For a writer that waits for room: its ticket, if the reader has taken all
 * frames and sleeps; else 0. The signal may be under way: only if the ticket
 * stays, it is lost.
 */
uint32_t link_ring_overwaits(const LinkWriter *w);

/* Updates w->head from the reader's index, unless that is invalid. */
void link_ring_see(LinkWriter *w);

/* NONE: there is no room, and the reader will signal when there is. */
LinkRingResult link_ring_await_room(LinkWriter *w, uint32_t len);

/* Copies the next frame to a buffer of LINK_FRAME_MAX bytes. */
LinkRingResult link_ring_get(LinkReader *r, void *frame, uint32_t *len);

/* After frames were taken: true if the caller must signal the writer. */
bool link_ring_frees(LinkReader *r);

/* False: there is a frame. True: the reader sleeps until it is signalled. */
bool link_ring_sleep(LinkReader *r);

/* The reader is awake and looks by itself: it needs no signal. */
void link_ring_wake(LinkReader *r);

/* Publishes when the reader's guest polled last; 0: it does not poll. */
void link_ring_polled(LinkReader *r, uint64_t now);

/* True: there is a frame in the ring. */
bool link_ring_filled(const LinkReader *r);

#endif
