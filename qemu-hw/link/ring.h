/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A ring of frames in memory that two processes share, for one direction: one
 * writes, the other reads. Plain C11, without QEMU.
 *
 * Neither trusts the other. Each keeps its own index to itself, checks the
 * other's whenever it reads it, and copies a frame before anybody looks at it:
 * a peer that lies is LINK_RING_BROKEN, and nothing worse.
 *
 * Every shared word has one writer. Who signals whom:
 *
 *     the reader    publishes a ticket in 'asleep', looks once more for a
 *                   frame, and sleeps only if there is none;
 *     the writer    publishes the frame, then looks for a ticket, and signals
 *                   each ticket once.
 *
 * Between its two steps each has a full barrier. So of a frame and a sleep that
 * happen at once, either the reader sees the frame or the writer the ticket.
 * A writer without room does the same in 'wants_room', and the reader is the
 * one who signals. tests/link/model.py goes through all interleavings.
 *
 * While its guest polls, a reader is not asleep: it looks at every poll, and by
 * a timer when they end. A writer may signal it all the same, once it has not
 * polled for a while and has not read what is there: that saves time and is not
 * needed for correctness. It looks for that when it writes, and at the polls of
 * its own guest, which is waiting for an answer.
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

/* How old a reader's last poll may be, in ns, for it to count as polling. */
#define LINK_POLL_RECENT    30000

/* What is shared beside the frames; the indexes count bytes, modulo 2^32. */
typedef struct LinkControl {
    /* the writer's */
    _Alignas(64) uint32_t tail;
    uint32_t wants_room;        /* a ticket, or 0 */
    /* the reader's */
    _Alignas(64) uint32_t head;
    uint32_t asleep;            /* a ticket, or 0 */
    uint64_t polled;            /* when its guest polled last, or 0 */
} LinkControl;

/* 'data' is mapped twice, one copy behind the other: no frame is in two. */
typedef struct LinkWriter {
    LinkControl *control;
    uint8_t *data;
    uint32_t tail;
    uint32_t head;              /* as last seen */
    uint32_t ticket;            /* of wants_room, the last one */
    uint32_t told;              /* ticket of 'asleep' signalled last */
    uint64_t told_poll;         /* poll whose reader was signalled last */
} LinkWriter;

typedef struct LinkReader {
    LinkControl *control;
    const uint8_t *data;
    uint32_t head;
    uint32_t ticket;            /* of 'asleep', the last one */
    uint32_t told;              /* ticket of 'wants_room' signalled last */
} LinkReader;

typedef enum LinkRingResult {
    LINK_RING_OK,
    LINK_RING_NONE,             /* no frame, or no room for one */
    LINK_RING_BROKEN,           /* the peer does not keep to the rules */
} LinkRingResult;

/* Puts one frame of 1..LINK_FRAME_MAX bytes in. */
LinkRingResult link_ring_put(LinkWriter *w, const void *frame, uint32_t len);

/* After frames were put in: does the reader want a signal? */
bool link_ring_wakes(LinkWriter *w, uint64_t now);

/*
 * True: the reader has not taken all that was put in. *taken moves when it
 * takes some; nothing else is to be made of it, as it is not checked.
 */
bool link_ring_unread(const LinkWriter *w, uint32_t *taken);

/*
 * The ticket of a reader that sleeps, although frames are there and nobody has
 * signalled it; else 0. It may be about to look once more: if the ticket stays,
 * a wake-up is lost. Between link_ring_put() and link_ring_wakes() it means
 * nothing.
 */
uint32_t link_ring_oversleeps(const LinkWriter *w);

/*
 * Of a writer that waits for room: the ticket that nobody has signalled,
 * although the reader has taken all that was put in, and sleeps; else 0. The
 * signal may be under way: if the ticket stays, it is lost.
 */
uint32_t link_ring_overwaits(const LinkWriter *w);

/* Sees what the reader has taken by now: w->head, if it keeps to the rules. */
void link_ring_see(LinkWriter *w);

/* NONE: there is no room, and a signal will come when there is. */
LinkRingResult link_ring_await_room(LinkWriter *w, uint32_t len);

/* Copies the next frame to a buffer of LINK_FRAME_MAX bytes. */
LinkRingResult link_ring_get(LinkReader *r, void *frame, uint32_t *len);

/* After frames were taken out: does the writer want a signal? */
bool link_ring_frees(LinkReader *r);

/* False: a frame is there. True: the reader sleeps, and will be signalled. */
bool link_ring_sleep(LinkReader *r);

/* The reader is awake, and will look by itself: it wants no signal. */
void link_ring_wake(LinkReader *r);

/* And it looks because its guest polls: now, or 0 if it does no longer. */
void link_ring_polled(LinkReader *r, uint64_t now);

/* A frame is in the ring. */
bool link_ring_filled(const LinkReader *r);

#endif
