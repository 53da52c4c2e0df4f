/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The one port, shared by the net_device and the RDMA device: its link and who
 * is told of it.
 */
#ifndef FAKERNIC_DRIVER_PORT_H
#define FAKERNIC_DRIVER_PORT_H

#include <linux/mutex.h>
#include <linux/types.h>
#include <linux/workqueue.h>
#include <fakernic/cmdq.h>

#define FAKERNIC_PORT		1	/* its number, in verbs */

struct fakernic_dev;

struct fakernic_port {
	struct mutex ask_lock;		/* taken first; while it is asked */
	struct mutex lock;		/* all below, carrier, port events */
	bool netdev_registered;		/* then the carrier may change */
	bool ib_registered;		/* then there are events */
	bool end_told;			/* of that RDMA device */
	bool link;			/* what the device said last */
	bool enabled;			/* what the device was set to last */
	bool open;			/* the net_device, and not on its way */
	bool bare;			/* the net_device has no queues */
	bool active;			/* read without the lock */
	struct fakernic_query_port_resp info;	/* as of the last change */
	struct delayed_work work;	/* fakernic_port_changed() */
	u32 refusals;			/* in a row; under ask_lock */
};

/* Before all else; cannot fail. */
void fakernic_port_init(struct fakernic_dev *dev);

/* The device has been reset: its port is enabled. */
void fakernic_port_begin(struct fakernic_dev *dev);

/*
 * Enables the device's port or disables it, as the net_device is open or not.
 * Then queries the link and notifies both sides of a change. If the device
 * lives and refuses, all stays as it was and the driver retries later.
 */
void fakernic_port_changed(struct fakernic_dev *dev);

/*
 * What the device says of the port now; or said last, if it is dead or silent.
 * Waits three seconds at most.
 */
int fakernic_port_ask(struct fakernic_dev *dev,
		      struct fakernic_query_port_resp *info);

/* Returns when nobody is telling the other side's former state any more. */
void fakernic_port_set_netdev(struct fakernic_dev *dev, bool registered);

/* Likewise for the RDMA device: whether there are events. */
void fakernic_port_set_ib(struct fakernic_dev *dev, bool registered);

/* The net_device could have no queues, hence has no carrier; or it has some. */
void fakernic_port_set_bare(struct fakernic_dev *dev, bool bare);

/*
 * The net_device is open, or has stopped: then it has no carrier, and the
 * device's port is disabled. Executes commands.
 */
void fakernic_port_set_open(struct fakernic_dev *dev, bool open);

/*
 * The hardware has died or is to go down. Of a death both sides are told,
 * once. A living device works until the core takes it from its users, and says
 * so.
 */
void fakernic_port_end(struct fakernic_dev *dev);

#endif
