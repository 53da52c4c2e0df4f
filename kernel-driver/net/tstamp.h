/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Hardware time stamps of the Ethernet port's frames: the time when the device
 * wrote a frame's completion, on the time scale of the PTP hardware clock
 * (ptp.h).
 */
#ifndef FAKERNIC_DRIVER_TSTAMP_H
#define FAKERNIC_DRIVER_TSTAMP_H

#include <linux/netdevice.h>
#include <linux/skbuff.h>
#include <fakernic/cq.h>
#include "../compat/compat.h"

struct fakernic_netdev;

/* Returns which frames get stamps; a net_device operation, under RTNL. */
int fakernic_hwtstamp_get(struct net_device *netdev,
			  struct kernel_hwtstamp_config *config);

/*
 * Sets which frames get stamps, and returns the mode in use. Sent frames: those
 * whose socket requests it, or none. Received frames: all or none; a request
 * for some selects all. -ERANGE: one-step stamps. Under RTNL.
 */
int fakernic_hwtstamp_set(struct net_device *netdev,
			  struct kernel_hwtstamp_config *config,
			  struct netlink_ext_ack *extack);

/*
 * Called before a frame is sent: whether its stamp is wanted. The skb's flags
 * do not show that later, because clones that are sent elsewhere have them,
 * too.
 */
bool fakernic_tstamp_sending(const struct fakernic_netdev *priv,
			     struct sk_buff *skb);

/* Passes the time of a sent frame to its socket. */
void fakernic_tstamp_sent(const struct fakernic_netdev *priv,
			  struct sk_buff *skb, const struct fakernic_cqe *cqe);

/* Adds the time to a received frame, if received frames get stamps. */
void fakernic_tstamp_received(const struct fakernic_netdev *priv,
			      struct sk_buff *skb,
			      const struct fakernic_cqe *cqe);

#endif
