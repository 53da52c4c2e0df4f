/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A channel's send queue.
 */
#ifndef FAKERNIC_DRIVER_TX_H
#define FAKERNIC_DRIVER_TX_H

#include <linux/netdevice.h>

struct fakernic_channel;
struct fakernic_cqe;

/* Allocates an empty queue. -ENOMEM: there is nothing to clean up. */
int fakernic_tx_init(struct fakernic_channel *ch);

/* Frees the queue and its frames. The device no longer uses it. */
void fakernic_tx_cleanup(struct fakernic_channel *ch);

/* ndo_features_check: the offloads that the device has for this frame. */
netdev_features_t fakernic_features_check(struct sk_buff *skb,
					  struct net_device *netdev,
					  netdev_features_t features);

/* ndo_start_xmit: under the core's transmit lock, in softirq context. */
netdev_tx_t fakernic_start_xmit(struct sk_buff *skb,
				struct net_device *netdev);

/*
 * Handles the completion of the oldest send: frees its frame, but not yet its
 * slots. False: cqe is not for the oldest send and is ignored. Called from NAPI
 * with that budget.
 */
bool fakernic_tx_complete(struct fakernic_channel *ch,
			  const struct fakernic_cqe *cqe, int budget);

/*
 * Called after completions, once their CQ entries were released, because new
 * frames may complete at once. Frees the slots and wakes the stack's queue if
 * there is room. From NAPI.
 */
void fakernic_tx_done(struct fakernic_channel *ch);

#endif
