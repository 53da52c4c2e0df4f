/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Host memory that the guest can make the device take: one account, one bound
 * (property max-memory). Page lists of regions and rings, QPs with their send
 * slots are on it; what is left out is fixed when the device is made (tables
 * by the other limits, pages of on-demand regions), less than a KiB per object
 * that a limit counts, or of the one command that is being executed.
 */
#ifndef FAKERNIC_DEVICE_MEMORY_H
#define FAKERNIC_DEVICE_MEMORY_H

#include "common.h"

/* Takes 'bytes' from what is left. False, and nothing is taken: too many. */
bool fakernic_memory_take(FakernicState *s, uint64_t bytes)
    G_GNUC_WARN_UNUSED_RESULT;

/* Gives back what was taken. */
void fakernic_memory_give(FakernicState *s, uint64_t bytes);

#endif
