/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * All objects of the device: creates their tables, frees them together.
 */
#ifndef FAKERNIC_DEVICE_OBJECTS_H
#define FAKERNIC_DEVICE_OBJECTS_H

#include "queue/types.h"

/* Creates empty tables, of the sizes that the properties set. */
void fakernic_objects_init(FakernicState *s);

/* Frees the work done of the command under execution, which begins again. */
void fakernic_progress_drop(FakernicState *s, FakernicProgress *p);

/*
 * Frees objects within the turn's budget, without completions or events. True:
 * all are freed.
 */
bool fakernic_objects_free_some(FakernicState *s);

/* Frees the tables, after their objects. */
void fakernic_objects_free(FakernicState *s);

#endif
