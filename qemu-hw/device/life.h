/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The life of the device: when it runs, what holds it, fatal errors and reset.
 */
#ifndef FAKERNIC_DEVICE_LIFE_H
#define FAKERNIC_DEVICE_LIFE_H

#include "state.h"

/* What can hold an enabled device, one bit each (FakernicState.held). */
enum {
    FAKERNIC_HELD_STOPPED = 1 << 0,     /* the VM is stopped */
    FAKERNIC_HELD_FROZEN = 1 << 1,      /* in D3hot */
    FAKERNIC_HELD_RESET = 1 << 2,       /* a reset is pending or under way */
    FAKERNIC_HELD_LEAVING = 1 << 3,     /* unplugged */
    FAKERNIC_HELD_FAULT = 1 << 4,       /* a fault rule froze it */
    FAKERNIC_HELD_DEAD = 1 << 5,        /* a fault rule took it off the bus */
};

/*
 * Enabled, without a fatal error, and not held: only then does the device
 * access memory, send and receive frames. Work that a hold interrupts resumes
 * where it stopped.
 */
static inline bool fakernic_is_running(const FakernicState *s)
{
    return (s->status & (FAKERNIC_STATUS_ENABLED | FAKERNIC_STATUS_FATAL)) ==
           FAKERNIC_STATUS_ENABLED && !s->held;
}

/*
 * Frozen by a fault rule and otherwise running: it answers register loads,
 * drops frames, and executes doorbells only when it thaws.
 */
static inline bool fakernic_is_frozen(const FakernicState *s)
{
    return s->held == FAKERNIC_HELD_FAULT;
}

/* Sets or clears one of the reasons above. */
void fakernic_hold(FakernicState *s, unsigned reason, bool hold);

/* A fatal error stops the device until a reset: STATUS, an event, vector 0. */
void fakernic_fatal(FakernicState *s, enum fakernic_fatal_code code);

/*
 * Power-on, FLR, secondary bus reset and CONTROL.RESET all call this. The
 * device is held, and STATUS lacks READY, until all objects are freed; each
 * turn frees some. If the device itself is on the stack (a frame that it sends
 * may cause a reset), fakernic_life_settle() begins the reset later.
 */
void fakernic_reset(FakernicState *s);

/* Ends a freeze whose time is over, else sets the timer for it. */
void fakernic_thaw(FakernicState *s);

/*
 * Begins or continues a reset; no work is on the stack. Beyond the budget, the
 * rest waits for the bottom half.
 */
void fakernic_life_settle(FakernicState *s);

/*
 * Frees objects of a device that is LEAVING, one turn's budget per call. True:
 * all are freed.
 */
bool fakernic_life_end(FakernicState *s);

/* Injects a PCI Express error (AER) for a fault rule. */
void fakernic_aer(FakernicState *s, RoceFaultSeverity severity);

#endif
