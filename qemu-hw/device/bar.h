/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * BAR0 registers and BAR2 doorbell pages: what a load returns, what a store
 * does. The guest chooses offset and size. An access that the interface does
 * not define reads zero, has no effect and is logged.
 */
#ifndef FAKERNIC_DEVICE_BAR_H
#define FAKERNIC_DEVICE_BAR_H

#include "common.h"
#include "exec/hwaddr.h"

/*
 * Reads a register for the guest: all ones while the device is dead, 0 if
 * there is no such register.
 */
uint64_t fakernic_register_load(FakernicState *s, hwaddr offset,
                                unsigned size);
/* Writes a register for the guest; if there is none, this is only logged. */
void fakernic_register_store(FakernicState *s, hwaddr offset, uint64_t value,
                             unsigned size);
/*
 * Reads a doorbell page for the guest: 0, except in the clock page; all ones
 * while the device is dead.
 */
uint64_t fakernic_doorbell_load(FakernicState *s, hwaddr offset,
                                unsigned size);
/* The guest rings a doorbell; fault rules apply first. */
void fakernic_doorbell_store(FakernicState *s, hwaddr offset, uint64_t word,
                             unsigned size);

/* Executes a doorbell, after fault rules have passed or released it. */
void fakernic_doorbell_hear(FakernicState *s, hwaddr offset, uint64_t word);

#endif
