/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The device's only port, shared by the net_device and the RDMA device: its
 * link state and the events about it.
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
	struct mutex query_lock;	/* outer; held during commands */
	struct mutex lock;		/* all below, carrier, port events */
	bool netdev_registered;		/* if so, the carrier may change */
	bool ib_registered;		/* if so, events are dispatched */
	bool fatal_dispatched;		/* DEVICE_FATAL was dispatched */
	bool link;			/* as last reported by the device */
	bool enabled;			/* as last set in the device */
	bool open;			/* the net_device is open */
	bool no_queues;			/* the net_device has no queues */
	bool active;			/* read without the lock */
	struct fakernic_query_port_resp info;	/* as of the last change */
	struct delayed_work work;	/* fakernic_port_changed() */
	u32 refusals;			/* in a row; under query_lock */
};

/* Called before all other functions; cannot fail. */
void fakernic_port_init(struct fakernic_dev *dev);

/* The device has been reset: its port is enabled. */
void fakernic_port_begin(struct fakernic_dev *dev);

/*
 * Enables the device's port if the net_device is open, else disables it. Then
 * queries the link and notifies both sides of a change. If a living device
 * refuses, the state stays as it was and the driver retries later.
 */
void fakernic_port_changed(struct fakernic_dev *dev);

/*
 * Queries the port's state. Returns the last known state if the device is dead
 * or does not answer within three seconds.
 */
int fakernic_port_query(struct fakernic_dev *dev,
			struct fakernic_query_port_resp *info);

/* On return no thread still reports the former state to the net_device. */
void fakernic_port_set_netdev(struct fakernic_dev *dev, bool registered);

/* Likewise for the RDMA device: events are dispatched if registered. */
void fakernic_port_set_ib(struct fakernic_dev *dev, bool registered);

/* no_queues: queues could not be created, so there is no carrier. */
void fakernic_port_set_no_queues(struct fakernic_dev *dev, bool no_queues);

/*
 * The net_device was opened or stopped. A stopped one has no carrier. The
 * device's port and the RDMA port follow soon after, as that takes commands.
 */
void fakernic_port_set_open(struct fakernic_dev *dev, bool open);

/*
 * The hardware has died or is to go down. If it died, both sides are notified,
 * once. If it is alive, the RDMA device keeps working until the core takes it
 * from its users and notifies them.
 */
void fakernic_port_end(struct fakernic_dev *dev);

#endif
