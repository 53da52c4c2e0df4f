/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Interrupts: MSI-X vectors are raised anywhere and sent from one place.
 */
#ifndef FAKERNIC_DEVICE_QUEUE_INTERRUPT_H
#define FAKERNIC_DEVICE_QUEUE_INTERRUPT_H

#include "../common.h"

/* Raises a vector, 0..FAKERNIC_VECTOR_COUNT - 1; it is sent later. */
void fakernic_interrupt(FakernicState *s, unsigned vector);

/*
 * Sends the raised vectors, each once, within the budget. Vectors raised during
 * that wait for the next call. A message is a store to an address that the
 * guest chooses, and may cause a received frame, a doorbell, a reset or an
 * unplug. Only doors.c calls this, with nothing else of the device on the
 * stack.
 */
void fakernic_interrupts_send(FakernicState *s);

#endif
