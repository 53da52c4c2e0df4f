/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Interrupts: MSI-X vectors are raised anywhere and sent from one place.
 */
#ifndef FAKERNIC_DEVICE_INTERRUPT_H
#define FAKERNIC_DEVICE_INTERRUPT_H

#include "common.h"

/* Raises a vector, 0..FAKERNIC_VECTOR_COUNT - 1. It is sent later. */
void fakernic_interrupt(FakernicState *s, unsigned vector);

/*
 * Sends the vectors raised, each once, as far as the budget goes; the others,
 * and those raised meanwhile, are left. A
 * message is a store to where the guest says, so anything may come of it: a
 * frame received, a doorbell, a reset, even the removal of the device. For
 * doors.c only, with nothing else of the device on the stack.
 */
void fakernic_interrupts_send(FakernicState *s);

#endif
