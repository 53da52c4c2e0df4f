/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A turn: the device does the work that is ready, within a budget.
 */
#ifndef FAKERNIC_DEVICE_TURN_H
#define FAKERNIC_DEVICE_TURN_H

#include "common.h"

/*
 * Does what is ready, up to the budget; what is left is kicked (budget.h), and
 * the timer is set to the next deadline. For doors.c only.
 */
void fakernic_turn(FakernicState *s);

#endif
