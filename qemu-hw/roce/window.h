/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The number of packets that may be in flight without an answer.
 *
 * A window starts at its maximum, so that it does not limit a wire without
 * losses. Each loss halves it, and each full window of answers adds one
 * packet: additive increase, multiplicative decrease (Chiu and Jain, 1989; RFC
 * 5681). QPs that share a queue so converge to fair shares. Each QP has one
 * window for the packets of its SENDs and WRITEs, and one for the answers to
 * its READs, because they travel, and are lost, in different directions. Only
 * these functions write the fields.
 */
#ifndef ROCE_WINDOW_H
#define ROCE_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#include "roce.h"

/* Limit of SEND and WRITE packets in flight. */
#define ROCE_WINDOW_REQUESTS 128
/* Limit of requested answers. A slow peer sends what eight QPs request
 * together long before one of them times out. */
#define ROCE_WINDOW_ANSWERS 512
#define ROCE_WINDOW_MIN 2
/*
 * Packets in flight of all QPs together, of either kind: 1 MiB in packets of 4
 * KiB, as much as a link's ring holds. More would wait in queues. Each QP may
 * have at least ROCE_WINDOW_SHARE in flight, which is the largest distance
 * between two packets that ask for an ACK. With fewer it would wait for an
 * answer that it has not requested.
 */
#define ROCE_WINDOW_ALL 256
#define ROCE_WINDOW_SHARE 32

typedef struct RoceWindow {
    uint32_t size;
    uint32_t max;
    uint32_t answered;      /* answers since it last grew */
} RoceWindow;

/* Initializes a window of 'max' packets, without losses. */
void roce_window_init(RoceWindow *w, uint32_t max);
/* 'count' packets were answered. */
void roce_window_answered(RoceWindow *w, uint32_t count);
/* A packet was lost, or seems to be. */
void roce_window_lost(RoceWindow *w);
/* The number of packets that one of 'busy' QPs may have in flight. */
uint32_t roce_window_share(const RoceWindow *w, uint32_t busy);
/* The number of packets after which to ask for an ACK, at most 'most'. */
uint32_t roce_window_ack_every(const RoceWindow *w, uint32_t most);

/* Saves or loads the window of a QP, whose maximum is this or, before it is
 * connected, 0. */
void roce_window_transfer(RoceStream *s, RoceWindow *w, uint32_t max);

/* Is the window still reduced by a loss? */
static inline bool roce_window_reduced(const RoceWindow *w)
{
    return w->size < w->max;
}

#endif
