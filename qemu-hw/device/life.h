/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The life of the device: fatal errors, reset and removal, and what holds it.
 */
#ifndef FAKERNIC_DEVICE_LIFE_H
#define FAKERNIC_DEVICE_LIFE_H

#include "common.h"

/* Sets or clears a reason, FAKERNIC_HELD_*. */
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

#endif
