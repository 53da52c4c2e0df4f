/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How many packets may be on the wire without an answer.
 *
 * A window starts at its maximum, so that a clean wire never meets it. Each
 * loss halves it, each window's worth of answers adds one packet: additive
 * increase, multiplicative decrease (Chiu and Jain, 1989; RFC 5681), under
 * which those who share a queue find their shares. A QP has one for the
 * packets of its SENDs and WRITEs, and one for the answers to its READs: they
 * are lost on different ways. Only the verbs write these fields.
 */
#ifndef ROCE_WINDOW_H
#define ROCE_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

/* SEND and WRITE packets in flight, at most. */
#define ROCE_WINDOW_REQUESTS 128
/* Answers asked for: what eight QPs ask for together a slow peer sends long
 * before any of them would take it for dead. */
#define ROCE_WINDOW_ANSWERS 512
#define ROCE_WINDOW_MIN 2
/*
 * In flight of all QPs together, of either kind: a MiB of packets of 4 KiB, as
 * much as a link's ring holds. What is in flight beyond that waits in queues.
 * A QP may have as many as come between two that ask for an ACK in any case, or
 * it would wait for an answer that it did not ask for.
 */
#define ROCE_WINDOW_ALL 256
#define ROCE_WINDOW_SHARE 32

typedef struct RoceWindow {
    uint32_t size;
    uint32_t max;
    uint32_t answered;      /* since it last grew */
} RoceWindow;

/* For up to 'max' packets in flight; nothing was lost yet. */
void roce_window_init(RoceWindow *w, uint32_t max);
/* 'count' packets were answered. */
void roce_window_answered(RoceWindow *w, uint32_t count);
/* Something was lost, or seems to be. */
void roce_window_lost(RoceWindow *w);
/* How many packets one of 'busy' QPs may have in flight. */
uint32_t roce_window_share(const RoceWindow *w, uint32_t busy);
/* After how many packets to ask for an ACK; never more than 'most'. */
uint32_t roce_window_ack_every(const RoceWindow *w, uint32_t most);

/* Has there been a loss that the window still remembers? */
static inline bool roce_window_reduced(const RoceWindow *w)
{
    return w->size < w->max;
}

#endif
