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
    FAKERNIC_HELD_RESET = 1 << 2,       /* a reset is wanted, or under way */
    FAKERNIC_HELD_LEAVING = 1 << 3,     /* unplugged */
    FAKERNIC_HELD_FAULT = 1 << 4,       /* a fault rule froze it */
    FAKERNIC_HELD_DEAD = 1 << 5,        /* or took it off the bus */
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

/*
 * Frozen by a fault rule and else alive: it answers loads of registers, loses
 * frames, and hears its doorbells when it thaws.
 */
static inline bool fakernic_is_frozen(const FakernicState *s)
{
    return s->held == FAKERNIC_HELD_FAULT;
}

/* Holds the device for one of the reasons above, or does so no longer. */
void fakernic_hold(FakernicState *s, unsigned reason, bool hold);

/* The device is dead until it is reset: STATUS, an event, vector 0. */
void fakernic_fatal(FakernicState *s, enum fakernic_fatal_code code);

/*
 * Power-on, FLR, secondary bus reset and CONTROL.RESET all end here. The
 * device is held until all is freed, a turn's worth at a time, and STATUS says
 * so. From within the device's own work (a frame that it sends may lead to
 * one) fakernic_life_settle() begins.
 */
void fakernic_reset(FakernicState *s);

/* Ends the freeze of a fault rule, if it is over by now. */
void fakernic_thaw(FakernicState *s);

/*
 * No work is on the stack: begins or goes on with a reset. What the budget does
 * not reach waits for the bottom half.
 */
void fakernic_life_settle(FakernicState *s);

/*
 * Frees a turn's worth of what lives in the device, which is LEAVING. True:
 * that was all.
 */
bool fakernic_life_end(FakernicState *s);

/* An error of the PCI Express link, as a fault rule asks for. */
void fakernic_aer(FakernicState *s, RoceFaultSeverity severity);

#endif
