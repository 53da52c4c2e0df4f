/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The net_device: its channels (channel.h) and how frames are distributed to
 * them (rss.h). netdev.c registers, opens, attaches and removes it.
 */
#ifndef FAKERNIC_DRIVER_NETDEV_H
#define FAKERNIC_DRIVER_NETDEV_H

#include <linux/if_ether.h>
#include <linux/if_vlan.h>
#include <linux/mutex.h>
#include <linux/netdevice.h>
#include <linux/workqueue.h>
#include <fakernic/stats.h>
#include "rss.h"

#define FAKERNIC_TX_LOG_DEPTH	10	/* basic blocks */
#define FAKERNIC_RX_LOG_DEPTH	9	/* frames */
#define FAKERNIC_TX_LOG_DEPTH_MIN	7
#define FAKERNIC_RX_LOG_DEPTH_MIN	6
#define FAKERNIC_RING_LOG_DEPTH_MAX	12
#define FAKERNIC_CHANNELS_MAX	16

/* Ethernet header, two VLAN tags. */
#define FAKERNIC_FRAME_OVERHEAD	(ETH_HLEN + 2 * VLAN_HLEN)
#define FAKERNIC_FRAME_MAX	(9000 + FAKERNIC_FRAME_OVERHEAD)

struct fakernic_channel;
struct fakernic_dev;

/* Queue parameters that ethtool sets. */
struct fakernic_shape {
	u32 channels;
	u8 tx_log_depth;		/* basic blocks */
	u8 rx_log_depth;		/* frames */
	u16 coalesce_frames;		/* 0: any number */
	u16 coalesce_us;		/* 0: one event per frame */
};

struct fakernic_netdev {
	struct fakernic_dev *dev;
	struct net_device *netdev;
	struct delayed_work rx_mode_work;
	struct mutex filter_lock;	/* while the filter is set */
	u32 filter_refusals;		/* in a row; under filter_lock */
	struct delayed_work restart_work;
	unsigned long up_since;		/* jiffies: queues exist since */
	u32 generation;			/* number of attempts to make queues */
	u32 restart_of;			/* generation that failed */
	u32 restarts;			/* in a row */
	u32 pdn;
	u32 lkey;			/* covers all of DMA space */
	bool ready;			/* pdn, lkey exist; under RTNL */
	bool up;			/* its queues exist; under RTNL */
	bool tstamp_tx;			/* frames get time stamps: tstamp.h */
	bool tstamp_rx;
	u64 stats[FAKERNIC_STAT_COUNT];	/* last ethtool read; under RTNL */
	/* Frames dropped for lack of a buffer; under dev->past_lock. */
	u64 missed;
	u64 missed_before;		/* of these before the last reset */
	u32 resets;
	struct fakernic_shape shape;	/* under RTNL */
	struct fakernic_rss rss;	/* under RTNL */
	struct fakernic_channel *channels;
	u32 channels_max;
};

/*
 * Registers the net_device, detached, and sets dev->netdev. The caller calls
 * fakernic_netdev_free() even after a failure.
 */
int fakernic_netdev_add(struct fakernic_dev *dev);

/*
 * The hardware was reset and is up: creates the net_device's objects, according
 * to its settings and whether it is open, and attaches it. Takes RTNL. After a
 * failure it stays detached and there is nothing to undo.
 */
int fakernic_netdev_attach(struct fakernic_dev *dev);

/*
 * The hardware is dead and stopped, and the net_device was detached. Attaches
 * it without hardware, so that it shows no carrier and accepts settings. Takes
 * RTNL.
 */
void fakernic_netdev_attach_dead(struct fakernic_dev *dev);

/*
 * The hardware goes down or is down: detaches the net_device and frees its
 * objects. Takes RTNL. May be called again.
 */
void fakernic_netdev_detach(struct fakernic_dev *dev);

/*
 * Handles completions whose events were lost. Called every half second while
 * the hardware is up. Does nothing if RTNL is taken.
 */
void fakernic_netdev_check(struct fakernic_dev *dev);

/* Queries the counters that "ip -s link" shows. Executes a command. */
void fakernic_netdev_update_missed(struct fakernic_dev *dev);

/* Unregisters it, detached. Work items may use its memory until _free(). */
void fakernic_netdev_remove(struct fakernic_dev *dev);

/* Frees its memory. Does nothing if there is none. */
void fakernic_netdev_free(struct fakernic_dev *dev);

#endif
