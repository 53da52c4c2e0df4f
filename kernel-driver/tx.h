/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A channel's send queue.
 */
#ifndef FAKERNIC_DRIVER_TX_H
#define FAKERNIC_DRIVER_TX_H

#include <linux/netdevice.h>

struct fakernic_channel;
struct fakernic_cqe;

/* Makes the queue, empty. -ENOMEM: there is nothing to clean up. */
int fakernic_tx_init(struct fakernic_channel *ch);

/* Frees it with the frames in it. The device has let go of the queue. */
void fakernic_tx_cleanup(struct fakernic_channel *ch);

/* ndo_features_check: what the stack has to do itself of this frame. */
netdev_features_t fakernic_features_check(struct sk_buff *skb,
					  struct net_device *netdev,
					  netdev_features_t features);

/* ndo_start_xmit: under the core's transmit lock, in softirq context. */
netdev_tx_t fakernic_start_xmit(struct sk_buff *skb,
				struct net_device *netdev);

/*
 * The oldest send is done, as cqe says; frees its frame, but not yet its place.
 * False: cqe is of another, and is ignored. From NAPI with that budget.
 */
bool fakernic_tx_complete(struct fakernic_channel *ch,
			  const struct fakernic_cqe *cqe, int budget);

/*
 * After completions, whose entries the device may use again: what takes their
 * places may complete at once. Lets the stack send if there is room. From NAPI.
 */
void fakernic_tx_done(struct fakernic_channel *ch);

#endif
