/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The net_device: a raw-packet QP and one CQ for both its queues. netdev.c is
 * its life; frames go through tx.c and rx.c.
 */
#ifndef FAKERNIC_DRIVER_NETDEV_H
#define FAKERNIC_DRIVER_NETDEV_H

#include <linux/if_ether.h>
#include <linux/if_vlan.h>
#include <linux/netdevice.h>
#include <linux/workqueue.h>
#include <fakernic/stats.h>
#include "hw.h"
#include "queue.h"

#define FAKERNIC_TX_LOG_DEPTH	10	/* basic blocks */
#define FAKERNIC_RX_LOG_DEPTH	9	/* frames */
#define FAKERNIC_NETDEV_CQ_LOG_DEPTH	11	/* both queues' entries */

/* Ethernet header, two VLAN tags. */
#define FAKERNIC_FRAME_OVERHEAD	(ETH_HLEN + 2 * VLAN_HLEN)
#define FAKERNIC_FRAME_MAX	(9000 + FAKERNIC_FRAME_OVERHEAD)

struct fakernic_dev;
struct fakernic_rx_buffer;
struct fakernic_tx_frame;
struct fakernic_tx_map;

struct fakernic_netdev {
	struct fakernic_dev *dev;
	struct net_device *netdev;
	struct napi_struct napi;
	struct work_struct rx_mode_work;
	struct delayed_work restart_work;
	u32 pdn;
	u32 lkey;			/* of all of DMA space */
	bool ready;			/* pdn, lkey exist; under RTNL */
	bool up;			/* its queues exist; under RTNL */
	u64 stats[FAKERNIC_STAT_COUNT];	/* ethtool's last; under RTNL */

	struct fakernic_cq_hw cq;
	struct fakernic_qp_hw qp;

	/* tx.c */
	struct fakernic_queue sq;
	struct fakernic_tx_frame *tx_frames;
	struct fakernic_tx_map *tx_maps;
	u32 tx_pi;
	u32 tx_ci;
	u64 tx_csum;			/* frames left to the device to sum */
	u64 tx_tso;			/* and to cut */

	/* rx.c */
	struct fakernic_queue rq;
	struct fakernic_rx_buffer *rx_buffers;
	u32 rx_pages;			/* of each buffer */
	u32 rx_pi;
	u32 rx_ci;
	u64 rx_csum;			/* frames with a sum known as right */
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
 * The hardware will go down, or has: the net_device is detached and keeps
 * nothing of it. Takes RTNL. May be called again.
 */
void fakernic_netdev_detach(struct fakernic_dev *dev);

/* Unregisters it, detached. Its memory stays until no work looks at it. */
void fakernic_netdev_remove(struct fakernic_dev *dev);

/* Frees the memory; when there is none, does nothing. */
void fakernic_netdev_free(struct fakernic_dev *dev);

#endif
