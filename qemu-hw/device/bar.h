/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * BAR0 registers and BAR2 doorbell pages: what a load returns, what a store
 * does. Offsets and sizes are the guest's: any that the interface does not
 * define read zero, have no effect, and are logged.
 */
#ifndef FAKERNIC_DEVICE_BAR_H
#define FAKERNIC_DEVICE_BAR_H

#include "common.h"
#include "exec/hwaddr.h"

/*
 * A register as the guest reads it; all ones while the device is dead, 0
 * where there is none.
 */
uint64_t fakernic_register_load(FakernicState *s, hwaddr offset,
                                unsigned size);
/*
 * And as it writes it; where there is none nothing happens but a line in the
 * log.
 */
void fakernic_register_store(FakernicState *s, hwaddr offset, uint64_t value,
                             unsigned size);
/*
 * What the doorbell pages read as: 0, but for the clock page; all ones while
 * the device is dead.
 */
uint64_t fakernic_doorbell_load(FakernicState *s, hwaddr offset,
                                unsigned size);
/* A doorbell rings: fault rules judge it first. */
void fakernic_doorbell_store(FakernicState *s, hwaddr offset, uint64_t word,
                             unsigned size);

/* A doorbell that fault rules have judged, or held; one that exists. */
void fakernic_doorbell_hear(FakernicState *s, hwaddr offset, uint64_t word);

#endif
