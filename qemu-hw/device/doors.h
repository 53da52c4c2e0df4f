/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The doors: every way into the device.
 */
#ifndef FAKERNIC_DEVICE_DOORS_H
#define FAKERNIC_DEVICE_DOORS_H

#include "common.h"
#include "exec/memory.h"

extern const MemoryRegionOps fakernic_register_door;
extern const MemoryRegionOps fakernic_doorbell_door;

/* Opens those of the net layer, the timer and the bottom half; realize. */
void fakernic_doors_open(FakernicState *s);

/* The reverse: nothing comes in any more. */
void fakernic_doors_close(FakernicState *s);

#endif
