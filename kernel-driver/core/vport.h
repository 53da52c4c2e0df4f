/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The vports of a PF's VFs (fakernic/vport.h): their settings, which the driver
 * keeps, and their counters. VFs are numbered from 0, as in Linux.
 */
#ifndef FAKERNIC_DRIVER_VPORT_H
#define FAKERNIC_DRIVER_VPORT_H

#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <fakernic/vport.h>

struct fakernic_dev;

struct fakernic_vports {
	struct mutex lock;		/* all below; held during commands */
	spinlock_t settings_lock;	/* settings, in addition to lock */
	u32 count;			/* VFs that the card has */
	struct fakernic_vport_settings *settings;
	__le64 *counters;		/* as of the last query */
	dma_addr_t dma;
	unsigned long queried_at;	/* jiffies */
	bool queried;
};

/*
 * Called once, after the device came up for the first time. A VF, and a card
 * without VFs, has no vports. -ENOMEM.
 */
int fakernic_vports_init(struct fakernic_dev *dev);

/* Called after the device has been stopped, also without an init. */
void fakernic_vports_cleanup(struct fakernic_dev *dev);

/* Sets all vports in the device to what the driver keeps, after a reset. */
int fakernic_vports_restore(struct fakernic_dev *dev);

/* Sets all vports to their defaults, before VFs are enabled. */
int fakernic_vports_set_defaults(struct fakernic_dev *dev);

/*
 * Copies the settings that the driver keeps. Executes no command, and waits for
 * none. -EINVAL: no such VF.
 */
int fakernic_vport_get(struct fakernic_dev *dev, int vf,
		       struct fakernic_vport_settings *settings);

/*
 * Sets what mask (FAKERNIC_VPORT_*) names; all of it, or nothing on error. The
 * other members of settings do not matter.
 */
int fakernic_vport_set(struct fakernic_dev *dev, int vf, u32 mask,
		       const struct fakernic_vport_settings *settings);

/*
 * Copies the counters of a VF to FAKERNIC_VPORT_STAT_COUNT values. They are at
 * most 100 ms old. While the device does not answer, or another command on
 * vports is under way, they are the last known ones.
 */
int fakernic_vport_stats(struct fakernic_dev *dev, int vf, u64 *values);

#endif
