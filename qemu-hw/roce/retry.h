/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Retry arithmetic of a requester: how long to wait, and how often.
 *
 * Pure functions of their arguments; who calls them acts on the answer.
 */
#ifndef ROCE_RETRY_H
#define ROCE_RETRY_H

#include <stdbool.h>
#include <stdint.h>

#include "roce.h"

#define ROCE_RNR_RETRY_FOREVER 7

/* The lowest wait for an ACK where IBTA's range allows it: see retry.c. */
#define ROCE_ACK_WAIT_FLOOR_NS 250000000

/* Requester RNR NAK timer field to nanoseconds (IBTA 9.7.5.2.8, table 45). */
RoceTime roce_retry_rnr_ns(uint8_t timer);

/*
 * How long to wait for an ACK (IBTA 9.7.6.1.3, C9-141: from one to four times
 * 4.096 us << timeout); ROCE_TIME_NEVER for timeout 0.
 */
RoceTime roce_retry_ack_ns(uint8_t timeout);

/* Takes one try; false when none is left. */
bool roce_retry_take(uint8_t *left);
/* The same for RNR retries, of which 'limit' 7 gives any number. */
bool roce_retry_take_rnr(uint8_t *left, uint8_t limit);

#endif
