/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The device's health. The driver polls the device; if it has died, the driver
 * notifies its users and recovers it, automatically or on request (devlink
 * health).
 */
#ifndef FAKERNIC_DRIVER_HEALTH_H
#define FAKERNIC_DRIVER_HEALTH_H

#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/workqueue.h>
#include "core/death.h"

struct devlink;
struct devlink_health_reporter;
struct fakernic_dev;

struct fakernic_health {
	struct devlink *devlink;
	struct devlink_health_reporter *fatal;
	struct devlink_health_reporter *cmdq;
	struct devlink_health_reporter *fw;	/* the device's own reports */
	struct delayed_work poll_work;
	struct work_struct error_work;	/* sets devlink's state */
	struct delayed_work recover_work;
	spinlock_t lock;		/* watched */
	bool watched;			/* error_work, recover_work allowed */
	unsigned long up_since;		/* jiffies */
	u32 pause_s;			/* before the next recovery */
	unsigned int wakes;		/* repeated wake-ups still to do */
	u32 polls;
	u32 deaths;
	u32 recoveries;
	/* Recorded by cmdq.c when the device died: */
	enum fakernic_death cause;
	u32 status;
	u32 fatal_code;
	u32 in_flight;			/* commands */
	/* cmdq.c has logged since ENABLE that fault rules are in use */
	u32 faults_logged;
};

/*
 * Called before the device starts; does not begin to poll. Returns 0 or
 * -ENOMEM.
 */
int fakernic_health_init(struct fakernic_dev *dev);

/* Frees it, after fakernic_health_stop(). */
void fakernic_health_cleanup(struct fakernic_dev *dev);

/* Begins to poll the device and registers it with devlink. */
void fakernic_health_start(struct fakernic_dev *dev);

/*
 * Stops polling and automatic recovery, and waits for a recovery that is
 * running. A user can still request one by devlink. May be called again.
 */
void fakernic_health_disable(struct fakernic_dev *dev);

/* The same, and unregisters the device from devlink. */
void fakernic_health_stop(struct fakernic_dev *dev);

/*
 * Records that a bus error took the device down. Unless the bus resumes it,
 * the driver recovers it like any dead device.
 */
void fakernic_health_bus_error(struct fakernic_dev *dev);

/*
 * Reports the result of a reset requested by a user or the bus (0 or -errno):
 * marks the device as healthy, or schedules another attempt.
 */
void fakernic_health_update(struct fakernic_dev *dev, int ret);

#endif
