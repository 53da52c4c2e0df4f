/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The budget of a turn (turn.h), which the stations charge for their work.
 */
#ifndef FAKERNIC_DEVICE_BUDGET_H
#define FAKERNIC_DEVICE_BUDGET_H

#include "common.h"

/*
 * Charges 'work' units to the turn's budget. A unit is about a microsecond: one
 * DMA access, one frame, 64 list or table entries. False: the turn is over. The
 * caller stops at the next possible point and calls fakernic_kick() if work is
 * left.
 */
bool fakernic_spend(FakernicState *s, unsigned work);

/* True: the budget is not used up. */
bool fakernic_budget_left(const FakernicState *s);

/* Starts a new budget, and updates longest_turn from the old one. */
void fakernic_budget_renew(FakernicState *s);

/*
 * For tests, with x-cost-limit: begins a step of work, which ends with
 * fakernic_step_end(). A step is reported if it took more CPU time than the
 * units that it charged. The end of a step begins the next one.
 */
void fakernic_step_begin(FakernicState *s);
/* Ends a step of this station, which the report names. */
void fakernic_step_end(FakernicState *s, const char *station);

/*
 * Notes that there is work for a turn. Stations call this and never the turn
 * itself. If the device is not on the stack, the bottom half gives the turn.
 */
void fakernic_kick(FakernicState *s);

#endif
