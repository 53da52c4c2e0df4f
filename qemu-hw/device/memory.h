/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Host memory that the guest can make the device allocate: one account, with
 * the limit of the property max-memory. Its bytes also count for the card. It
 * covers the page lists of regions and rings, and QPs with their send slots. It
 * does not cover what is fixed when the device is created (tables, pages of
 * on-demand regions), objects of less than a KiB whose number is limited,
 * frames that wait in the switch, and memory of the command under execution.
 */
#ifndef FAKERNIC_DEVICE_MEMORY_H
#define FAKERNIC_DEVICE_MEMORY_H

#include "common.h"

/* Accounts 'bytes'. False, and no change: the limit would be exceeded. */
bool fakernic_memory_take(FakernicState *s, uint64_t bytes)
    G_GNUC_WARN_UNUSED_RESULT;

/* Releases bytes that were accounted. */
void fakernic_memory_give(FakernicState *s, uint64_t bytes);

/* Releases all: a reset has freed the objects. */
void fakernic_memory_reset(FakernicState *s);

#endif
