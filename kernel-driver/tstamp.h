/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Hardware time stamps of the Ethernet port's frames: the device's clock when
 * it made a frame's completion, on the time scale of the PTP hardware clock
 * (ptp.h).
 */
#ifndef FAKERNIC_DRIVER_TSTAMP_H
#define FAKERNIC_DRIVER_TSTAMP_H

#include <linux/netdevice.h>
#include <linux/skbuff.h>
#include <fakernic/cq.h>
#include "compat.h"

struct fakernic_netdev;

/* Which frames get stamps; an operation of the net_device, under RTNL. */
int fakernic_hwtstamp_get(struct net_device *netdev,
			  struct kernel_hwtstamp_config *config);

/*
 * Sets it, and tells what is done then. Of those sent: whose socket asks, or
 * none; of those received: all or none, also when some were asked for. -ERANGE:
 * one-step stamps. Under RTNL.
 */
int fakernic_hwtstamp_set(struct net_device *netdev,
			  struct kernel_hwtstamp_config *config,
			  struct netlink_ext_ack *extack);

/*
 * Before a frame is sent: is its completion's time wanted? The skb's own flags
 * do not tell later: its clones, which others send, have them, too.
 */
bool fakernic_tstamp_sending(const struct fakernic_netdev *priv,
			     struct sk_buff *skb);

/* It was sent, and the time is wanted: its socket gets it. */
void fakernic_tstamp_sent(const struct fakernic_netdev *priv,
			  struct sk_buff *skb, const struct fakernic_cqe *cqe);

/* A frame that was received gets the time, if all do. */
void fakernic_tstamp_received(const struct fakernic_netdev *priv,
			      struct sk_buff *skb,
			      const struct fakernic_cqe *cqe);

#endif
