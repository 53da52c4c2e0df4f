/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A turn: the device does the work that is ready, within a budget. Only doors.c
 * calls this, while the device runs.
 */
#ifndef FAKERNIC_DEVICE_TURN_H
#define FAKERNIC_DEVICE_TURN_H

#include "common.h"

/*
 * Does the work that is ready, until the budget is used or an interrupt is
 * raised. Kicks (budget.h) if work is left for another turn. True: the caller
 * sends the interrupts and, if the device still runs, calls this again.
 */
bool fakernic_turn(FakernicState *s);

/*
 * Charges the budget with 'work' units and the engine's work since the last
 * call. False: the turn is over.
 */
bool fakernic_turn_lasts(FakernicState *s, unsigned work);

/* As fakernic_step_end(), after charging the engine's work. */
void fakernic_turn_step(FakernicState *s, const char *station);

/* Takes the held received frames that are due, now that another frame has
 * arrived and may have overtaken them. */
void fakernic_turn_received(FakernicState *s);

/* Ends a turn: sets the timer to the next deadline, or kicks if it has
 * passed. */
void fakernic_turn_end(FakernicState *s);

#endif
