/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A channel of the net_device: a send queue, a receive queue, one CQ for both,
 * and the NAPI context that polls the CQ. A raw-packet QP sends. A single
 * channel also receives on that QP; with several channels each receives on a
 * WQ (rss.h). channel.c creates and destroys channels; tx.c and rx.c handle
 * frames.
 */
#ifndef FAKERNIC_DRIVER_CHANNEL_H
#define FAKERNIC_DRIVER_CHANNEL_H

#include <linux/netdevice.h>
#include "../core/object.h"
#include "../core/queue.h"

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
	struct fakernic_qp_hw wq;	/* qpn 0: none */
	bool waited;			/* a CQE was pending at last look */
	u32 waited_ci;			/* its index */

	/* tx.c */
	struct fakernic_queue sq;
	struct fakernic_tx_frame *tx_frames;
	struct fakernic_tx_map *tx_maps;
	u32 tx_pi;
	u32 tx_ci;			/* entries before it are free */
	u32 tx_rung;			/* index that was published last */
	u32 tx_next;			/* to complete; NAPI from here on */
	u32 tx_done_frames, tx_done_bytes;	/* from tx_ci to tx_next */
	u64 tx_csum;			/* frames with checksum offload */
	u64 tx_tso;			/* frames with segmentation offload */

	/* rx.c */
	struct fakernic_queue rq;
	struct page_pool *rx_pool;
	struct fakernic_rx_buffer *rx_buffers;
	u32 rx_pages;			/* of each buffer */
	u32 rx_pi;
	u32 rx_ci;
	u64 rx_frames;
	u64 rx_csum;			/* of these, checksum verified */
};

/* Initializes a channel once, for the lifetime of the net_device. */
void fakernic_channel_init(struct fakernic_channel *ch,
			   struct fakernic_netdev *priv, u32 index);

/*
 * Creates the channel's queues. The device does not receive yet, and NAPI is
 * disabled. After an error there is nothing to undo. Under RTNL.
 */
int fakernic_channel_up(struct fakernic_channel *ch);

/* Destroys the queues. NAPI is disabled and no sends run. Under RTNL. */
void fakernic_channel_down(struct fakernic_channel *ch);

/*
 * Schedules NAPI and returns true if a completion was already pending at the
 * previous call: its event was lost. Called every half second while the
 * channel is up. Under RTNL.
 */
bool fakernic_channel_check(struct fakernic_channel *ch);

/*
 * Schedules a restart of all channels, from any context. The delay is half a
 * second and doubles after each failed restart, up to 64 s. Queues that come
 * up in the meantime cancel it.
 */
void fakernic_restart_later(struct fakernic_netdev *priv);

/* Sets the device's interrupt moderation for the channel (ethtool -C). */
int fakernic_channel_coalesce(struct fakernic_channel *ch);

#endif
