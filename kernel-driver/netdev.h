/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The net_device: channels (channel.h) and who of them receives what (rss.h).
 * netdev.c is its life.
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

/* What ethtool sets of its queues. */
struct fakernic_shape {
	u32 channels;
	u8 tx_log_depth;		/* basic blocks */
	u8 rx_log_depth;		/* frames */
	u16 coalesce_frames;		/* 0: any number */
	u16 coalesce_us;		/* 0: each frame has its event */
};

struct fakernic_netdev {
	struct fakernic_dev *dev;
	struct net_device *netdev;
	struct delayed_work rx_mode_work;
	struct mutex filter_lock;	/* while the device is told one */
	u32 filter_refusals;		/* in a row; under filter_lock */
	struct delayed_work restart_work;
	unsigned long up_since;		/* jiffies, of its queues */
	u32 generation;			/* of its queues; with vain tries */
	u32 restart_of;			/* the one that erred */
	u32 restarts;			/* in vain, one after another */
	u32 pdn;
	u32 lkey;			/* of all of DMA space */
	bool ready;			/* pdn, lkey exist; under RTNL */
	bool up;			/* its queues exist; under RTNL */
	bool tstamp_tx;			/* frames get time stamps: tstamp.h */
	bool tstamp_rx;
	u64 stats[FAKERNIC_STAT_COUNT];	/* ethtool's last; under RTNL */
	u64 missed;			/* frames without a buffer: */
	u64 missed_before;		/* of these, in earlier lives */
	u32 lives;			/* these three under dev->past_lock */
	struct fakernic_shape shape;	/* under RTNL */
	struct fakernic_rss rss;	/* under RTNL */
	struct fakernic_channel *channels;
	u32 channels_max;
};

/*
 * Registers the net_device, detached; sets dev->netdev. Also after a failure
 * the caller calls fakernic_netdev_free().
 */
int fakernic_netdev_add(struct fakernic_dev *dev);

/*
 * The hardware is up, as new: the net_device gets what it needs of it,
 * according to its settings and whether it is open, and is attached. Takes
 * RTNL. After a failure it is detached, and there is nothing to undo.
 */
int fakernic_netdev_attach(struct fakernic_dev *dev);

/*
 * The hardware is dead and stopped, and has been detached: the net_device is
 * attached without it, to say so and to take settings. Takes RTNL.
 */
void fakernic_netdev_attach_dead(struct fakernic_dev *dev);

/*
 * The hardware will go down, or has: the net_device is detached and keeps
 * nothing of it. Takes RTNL. May be called again.
 */
void fakernic_netdev_detach(struct fakernic_dev *dev);

/*
 * Looks after completions whose events were lost, half a second after the last
 * call; not if somebody holds RTNL. While the hardware is up.
 */
void fakernic_netdev_look(struct fakernic_dev *dev);

/* Asks the device for what "ip -s link" is to tell. Executes a command. */
void fakernic_netdev_count(struct fakernic_dev *dev);

/* Unregisters it, detached. Its memory stays until no work looks at it. */
void fakernic_netdev_remove(struct fakernic_dev *dev);

/* Frees the memory; when there is none, does nothing. */
void fakernic_netdev_free(struct fakernic_dev *dev);

#endif
