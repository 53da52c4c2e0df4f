/* SPDX-License-Identifier: GPL-2.0-or-later */
/* All objects of the device, in the stream that the engine's state is in. */
#ifndef FAKERNIC_DEVICE_SAVE_OBJECTS_H
#define FAKERNIC_DEVICE_SAVE_OBJECTS_H

#include "common.h"

/* Saves or loads all objects. A load begins without objects. */
void fakernic_save_objects(RoceStream *s, FakernicState *d);
/* The engine is loaded, too: compares the two, and connects counters. */
void fakernic_save_compare(RoceStream *s, FakernicState *d);

#endif
