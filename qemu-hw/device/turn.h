/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A turn: the device does the work that is ready, within a budget. For doors.c
 * only; the device runs.
 */
#ifndef FAKERNIC_DEVICE_TURN_H
#define FAKERNIC_DEVICE_TURN_H

#include "common.h"

/*
 * Does what is ready, until the budget is used or an interrupt is raised. What
 * is left for another turn is kicked (budget.h). True: the turn goes on; send
 * the interrupts, and if the device still runs, call this again.
 */
bool fakernic_turn(FakernicState *s);

/*
 * Charges 'work' units and what the engine has done since it was asked last to
 * the budget. False: the turn is over.
 */
bool fakernic_turn_lasts(FakernicState *s, unsigned work);

/* fakernic_step_end(), with what the engine has done. */
void fakernic_turn_step(FakernicState *s, const char *station);

/* Takes the frames that a fault rule held until others, one of which has just
 * come in, had overtaken them. */
void fakernic_turn_received(FakernicState *s);

/* The turn is over: sets the timer to the next deadline, or kicks if it has
 * come. */
void fakernic_turn_end(FakernicState *s);

#endif
