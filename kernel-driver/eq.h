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
	spinlock_t lock;		/* ci, and held while events are told */
	u32 eqn;
	u32 ci;
	u16 vector;
	bool live;			/* the device has it */
	bool waited;			/* at the last look (eqs_look) */
	u32 waited_ci;			/* the event that did */
	char name[48];
};

/*
 * Vectors, handlers and memory: as many EQs as there are CPUs and one, or fewer
 * if the device or the system has no more vectors; sets eqs and eq_count (at
 * least 2). The device does not know of them yet.
 */
int fakernic_eqs_init(struct fakernic_dev *dev);

/* Brings them up on the device, which forgets them when it is reset. */
int fakernic_eqs_create(struct fakernic_dev *dev);

/* The device has been reset: no event of an earlier life is told any more. */
void fakernic_eqs_forget(struct fakernic_dev *dev);

/* The device has been stopped: no handler runs from here on. */
void fakernic_eqs_silence(struct fakernic_dev *dev);

/* Frees them. After fakernic_eqs_silence(), when nobody syncs any more. */
void fakernic_eqs_cleanup(struct fakernic_dev *dev);

/*
 * Tells the events that were there when this was called last, and have not been
 * told: their interrupt was lost. Calls are half a second apart, in process
 * context, while no EQ comes or goes.
 */
void fakernic_eqs_look(struct fakernic_dev *dev);

/*
 * On return, all events that the device wrote to eq before the call have been
 * told, and nobody is telling one of them. Tells them itself. In process
 * context, without the EQ's lock; does not sleep.
 */
void fakernic_eq_sync(struct fakernic_eq *eq);

#endif
