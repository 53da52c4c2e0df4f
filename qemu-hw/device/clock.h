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

/* 'fire' is called with the device when a deadline set has come. */
void fakernic_clock_init(FakernicState *s, QEMUTimerCB *fire);
/* The timer is gone; no deadline may be set. */
void fakernic_clock_cleanup(FakernicState *s);

/*
 * The next deadline; ROCE_TIME_NEVER: there is none. An earlier one that is set
 * stays, so that the timer may fire before there is anything to do.
 */
void fakernic_clock_set(FakernicState *s, RoceTime deadline);

/* The timer has fired: no deadline is set. */
void fakernic_clock_fired(FakernicState *s);

#endif
