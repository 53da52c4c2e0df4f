/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Effects of fault rules that need the upper files: on the whole device, and
 * the release of held items. A turn calls this.
 */
#ifndef FAKERNIC_DEVICE_FAULT_RELEASE_H
#define FAKERNIC_DEVICE_FAULT_RELEASE_H

#include "../common.h"

/* Applies the rule that this turn hits, and ends the time of a LINK_DOWN. */
void fakernic_release_turn(FakernicState *s);

/* Releases the held item that is due first; false: none is. While the wire is
 * blocked, frames for it stay held. */
bool fakernic_release_next(FakernicState *s);

/* The same, only for frames from the wire. */
bool fakernic_release_received(FakernicState *s);

/* When the next held item can be released. */
RoceTime fakernic_release_deadline(FakernicState *s);

/* Ends a freeze whose time is over, else sets the timer for it. */
void fakernic_thaw(FakernicState *s);

#endif
