/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * All objects of the device: made empty, freed as a whole.
 */
#ifndef FAKERNIC_DEVICE_OBJECTS_H
#define FAKERNIC_DEVICE_OBJECTS_H

#include "common.h"

/* Empty tables, of the sizes that the properties tell. */
void fakernic_objects_init(FakernicState *s);

/*
 * Frees them, as far as the turn's budget goes: nobody will see a completion or
 * an event of theirs any more. True: that was all.
 */
bool fakernic_objects_free_some(FakernicState *s);

/* And then their tables. */
void fakernic_objects_free(FakernicState *s);

#endif
