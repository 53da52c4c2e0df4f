/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Fault rules in the stream of a saved device. */
#ifndef FAKERNIC_DEVICE_FAULT_SAVE_H
#define FAKERNIC_DEVICE_FAULT_SAVE_H

#include "../common.h"

/* Why the rules cannot be saved, in words; NULL: they can. */
const char *fakernic_fault_unsaved(const FakernicState *s);

/* Whether there is something to save: a rule, an item that a rule holds, or a
 * stop of the device by a rule. */
bool fakernic_fault_saves(const FakernicState *s);

/*
 * Saves or loads all fault rules, their counters and the items that they hold.
 * A load replaces the rules of the device, which holds no items.
 */
void fakernic_fault_save(RoceStream *s, FakernicState *d);

#endif
