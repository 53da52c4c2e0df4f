/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A channel of the net_device: a send queue, a receive queue, one CQ for both,
 * and the NAPI context that empties it. Sends go through a raw-packet QP; it
 * receives, too, if it is the only one, and has a WQ beside it if there are
 * several (rss.h). channel.c is its life; frames go through tx.c and rx.c.
 */
#ifndef FAKERNIC_DRIVER_CHANNEL_H
#define FAKERNIC_DRIVER_CHANNEL_H

#include <linux/netdevice.h>
#include "hw.h"
#include "queue.h"

struct fakernic_dev;
struct fakernic_netdev;
struct fakernic_rx_buffer;
struct fakernic_tx_frame;
struct fakernic_tx_map;
struct page_pool;

struct fakernic_channel {
	struct fakernic_dev *dev;
	struct net_device *netdev;
	struct fakernic_netdev *priv;
	u32 index;
	struct napi_struct napi;
	struct fakernic_cq_hw cq;
	struct fakernic_qp_hw qp;
	struct fakernic_qp_hw wq;	/* qpn 0: there is none */
	bool waited;			/* at the last look (channel_look) */
	u32 waited_ci;			/* the completion that did */

	/* tx.c */
	struct fakernic_queue sq;
	struct fakernic_tx_frame *tx_frames;
	struct fakernic_tx_map *tx_maps;
	u32 tx_pi;
	u32 tx_ci;			/* behind what is free again */
	u32 tx_rung;			/* the device knows of those before */
	u32 tx_next;			/* to complete; from here on NAPI's */
	u32 tx_done_frames, tx_done_bytes;	/* between the two */
	u64 tx_csum;			/* frames left to the device to sum */
	u64 tx_tso;			/* and to cut */

	/* rx.c */
	struct fakernic_queue rq;
	struct page_pool *rx_pool;
	struct fakernic_rx_buffer *rx_buffers;
	u32 rx_pages;			/* of each buffer */
	u32 rx_pi;
	u32 rx_ci;
	u64 rx_frames;
	u64 rx_csum;			/* of these: its sum is right */
};

/* For as long as there is the net_device. */
void fakernic_channel_init(struct fakernic_channel *ch,
			   struct fakernic_netdev *priv, u32 index);

/*
 * Queues on the device, which receives nothing yet; NAPI is off. After an error
 * there is nothing to undo. Under RTNL.
 */
int fakernic_channel_up(struct fakernic_channel *ch);

/* NAPI is off, and nobody sends. Under RTNL. */
void fakernic_channel_down(struct fakernic_channel *ch);

/*
 * Has NAPI run for a completion that was there when this was called last, and
 * has not been handled: its event was lost; then true. Calls are half a second
 * apart. It is up. Under RTNL.
 */
bool fakernic_channel_look(struct fakernic_channel *ch);

/*
 * All channels are to come up anew, from any context: after half a second, and
 * after twice as long each time that this was in vain within a minute. Queues
 * that come up meanwhile make it void.
 */
void fakernic_restart_later(struct fakernic_netdev *priv);

/* Tells the device when a completion makes an event (ethtool -C). */
int fakernic_channel_coalesce(struct fakernic_channel *ch);

#endif
