/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Event queues and their interrupts. EQ FAKERNIC_EQ_ASYNC shares vector 0 with
 * the command queue; all others take completion events.
 */
#ifndef FAKERNIC_DRIVER_EQ_H
#define FAKERNIC_DRIVER_EQ_H

#include <linux/spinlock.h>
#include <linux/types.h>
#include "queue.h"

struct fakernic_dev;

struct fakernic_eq {
	struct fakernic_dev *dev;
	struct fakernic_queue queue;
	spinlock_t lock;		/* ci; held during event delivery */
	u32 eqn;
	u32 ci;
	u16 vector;
	bool live;			/* exists in the device */
	bool waited;			/* event was pending at last look */
	u32 waited_ci;			/* its index */
	char name[48];
};

/*
 * Allocates vectors, handlers and memory for one EQ per CPU plus one, or fewer
 * if the device or the system lacks vectors. Sets eqs and eq_count (at least
 * 2). Does not create the EQs in the device.
 */
int fakernic_eqs_init(struct fakernic_dev *dev);

/* Creates the EQs in the device. A reset of the device destroys them. */
int fakernic_eqs_create(struct fakernic_dev *dev);

/* Called after a device reset: events from before it are not delivered. */
void fakernic_eqs_reset(struct fakernic_dev *dev);

/* Frees the interrupts of a stopped device: no handler runs after it. */
void fakernic_eqs_free_irqs(struct fakernic_dev *dev);

/*
 * Frees the EQs, after fakernic_eqs_free_irqs() and the last call of
 * fakernic_eq_sync().
 */
void fakernic_eqs_cleanup(struct fakernic_dev *dev);

/*
 * Delivers events that were already pending at the previous call: their
 * interrupt was lost. Called every half second in process context, while no EQ
 * is created or destroyed.
 */
void fakernic_eqs_check(struct fakernic_dev *dev);

/*
 * Delivers all events that the device wrote to eq before the call, and waits
 * for handlers that deliver some of them. Called in process context, without
 * the EQ's lock; does not sleep.
 */
void fakernic_eq_sync(struct fakernic_eq *eq);

#endif
