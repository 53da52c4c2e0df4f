/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The life of the device: when it runs, what holds it, how it dies, how it
 * begins anew.
 */
#ifndef FAKERNIC_DEVICE_LIFE_H
#define FAKERNIC_DEVICE_LIFE_H

#include "state.h"

/* What can hold an enabled device, one bit each (FakernicState.held). */
enum {
    FAKERNIC_HELD_STOPPED = 1 << 0,     /* the VM is stopped */
    FAKERNIC_HELD_FROZEN = 1 << 1,      /* in D3hot */
    FAKERNIC_HELD_RESET = 1 << 2,       /* a reset waits for work on the stack */
    FAKERNIC_HELD_LEAVING = 1 << 3,     /* unplugged */
};

/*
 * Enabled, not dead, and not held: only then does the device work, reach
 * memory, send frames and take them. What waits while it is held goes on
 * exactly where it was.
 */
static inline bool fakernic_is_running(const FakernicState *s)
{
    return (s->status & (FAKERNIC_STATUS_ENABLED | FAKERNIC_STATUS_FATAL)) ==
           FAKERNIC_STATUS_ENABLED && !s->held;
}

/* Holds the device for one of the reasons above, or does so no longer. */
void fakernic_hold(FakernicState *s, unsigned reason, bool hold);

/* The device is dead until it is reset: STATUS, an event, vector 0. */
void fakernic_fatal(FakernicState *s, enum fakernic_fatal_code code);

/*
 * Power-on, FLR, secondary bus reset and CONTROL.RESET all end here. From
 * within the device's own work (a frame that it sends may lead to one) it is
 * held, and reset by fakernic_life_settle().
 */
void fakernic_reset(FakernicState *s);

/* The work is done: makes up for a reset that came meanwhile. */
void fakernic_life_settle(FakernicState *s);

/* Frees all that lives in the device, which is LEAVING. */
void fakernic_life_end(FakernicState *s);

#endif
