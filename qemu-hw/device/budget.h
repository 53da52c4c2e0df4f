/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The budget of a turn (turn.h), for the stations that do its work.
 */
#ifndef FAKERNIC_DEVICE_BUDGET_H
#define FAKERNIC_DEVICE_BUDGET_H

#include "common.h"

/*
 * Takes 'work' units from the turn's budget (a unit is about a microsecond: one
 * DMA access, one frame, 64 list or table entries). False: the turn is over;
 * stop at the next point where stopping is possible, and say that there is more
 * (fakernic_kick()).
 */
bool fakernic_spend(FakernicState *s, unsigned work);

/* Is there any left? */
bool fakernic_budget_left(const FakernicState *s);

/*
 * A new budget; the work done on the old one is noted if it was the most yet.
 */
void fakernic_budget_renew(FakernicState *s);

/*
 * For tests, with x-cost-limit: what is done until fakernic_step_end() is one
 * step of work, which is reported if it took more CPU time than it counts as.
 * The end of a step begins the next one.
 */
void fakernic_step_begin(FakernicState *s);
/* Of this station, which the report names. */
void fakernic_step_end(FakernicState *s, const char *station);

/*
 * Notes that there is work for a turn. Stations call this, never the turn. With
 * nothing of the device on the stack the bottom half gives the turn.
 */
void fakernic_kick(FakernicState *s);

#endif
