/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The device's health: it is looked at now and then, and if it died, whoever
 * uses it is told and it is brought up anew, by itself or on demand
 * (devlink health).
 */
#ifndef FAKERNIC_DRIVER_HEALTH_H
#define FAKERNIC_DRIVER_HEALTH_H

#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/workqueue.h>

struct devlink;
struct devlink_health_reporter;
struct fakernic_dev;

enum fakernic_death {
	FAKERNIC_DEATH_NONE,		/* alive, or stopped by the driver */
	FAKERNIC_DEATH_GONE,		/* from the bus */
	FAKERNIC_DEATH_FATAL,		/* it says so */
	FAKERNIC_DEATH_RESET,		/* it forgot all */
	FAKERNIC_DEATH_BUS,		/* AER says so */
	FAKERNIC_DEATH_UNBORN,		/* it does not come up */
	FAKERNIC_DEATH_TIMEOUT,		/* of a command */
	FAKERNIC_DEATH_NONSENSE,	/* on the command queue */
	FAKERNIC_DEATH_KEEPS,		/* an object or a page */
};

struct fakernic_health {
	struct devlink *devlink;
	struct devlink_health_reporter *fatal;
	struct devlink_health_reporter *cmdq;
	struct devlink_health_reporter *fw;	/* what the device tells */
	struct delayed_work poll_work;
	struct work_struct ill_work;		/* tells devlink */
	struct delayed_work recover_work;
	spinlock_t lock;		/* watched */
	bool watched;			/* these two may be queued */
	unsigned long up_since;		/* jiffies */
	u32 pause_s;			/* before the next recovery */
	unsigned int wakes;		/* of users, still to come */
	u32 polls;
	u32 deaths;
	u32 recoveries;
	/* cmdq.c, as the device died */
	enum fakernic_death cause;
	u32 status;
	u32 fatal_code;
	u32 in_flight;			/* commands */
	/* cmdq.c: since ENABLE the log says that there were fault rules */
	u32 faults_told;
};

/* Before anything can die; nothing is watched yet. -ENOMEM. */
int fakernic_health_init(struct fakernic_dev *dev);

/* Frees it. After fakernic_health_stop(). */
void fakernic_health_cleanup(struct fakernic_dev *dev);

/* From now on it is watched, and devlink shows it. */
void fakernic_health_start(struct fakernic_dev *dev);

/*
 * Nobody looks at it or recovers it any more, and devlink will not have it done
 * but on demand. Waits for a recovery that runs. May be called again.
 */
void fakernic_health_rest(struct fakernic_dev *dev);

/* The same, and devlink does not show it any more. */
void fakernic_health_stop(struct fakernic_dev *dev);

/*
 * An error of the bus took the device down. Unless the bus resumes it, it will
 * be recovered as one that died.
 */
void fakernic_health_bus_error(struct fakernic_dev *dev);

/*
 * The hardware came up, or did not (ret), as somebody wanted it to who resets
 * the device: its state is healthy, or it will be tried again.
 */
void fakernic_health_update(struct fakernic_dev *dev, int ret);

#endif
