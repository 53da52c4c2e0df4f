/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Time: the device clock, and the timer of the next deadline.
 */
#ifndef FAKERNIC_DEVICE_CLOCK_H
#define FAKERNIC_DEVICE_CLOCK_H

#include "common.h"
#include "qemu/timer.h"

/* The device clock: nanoseconds of the virtual clock. */
RoceTime fakernic_now(void);

/* Creates the timer, which calls 'fire' with the device at a deadline. */
void fakernic_clock_init(FakernicState *s, QEMUTimerCB *fire);
/* Frees the timer; no deadline may be set after it. */
void fakernic_clock_cleanup(FakernicState *s);

/*
 * Sets the next deadline; ROCE_TIME_NEVER: there is none. An earlier deadline
 * stays armed, so the timer may fire with nothing to do.
 */
void fakernic_clock_set(FakernicState *s, RoceTime deadline);

/* The timer has fired: no deadline is set. */
void fakernic_clock_fired(FakernicState *s);

#endif
