/* SPDX-License-Identifier: GPL-2.0-only */
/* Functions on all channels of the net_device. Called under RTNL. */
#ifndef FAKERNIC_DRIVER_CHANNEL_SET_H
#define FAKERNIC_DRIVER_CHANNEL_SET_H

#include <linux/netdevice.h>

struct fakernic_netdev;
struct fakernic_shape;

/* Returns true if the device is up and not dead. */
bool fakernic_netdev_is_ready(struct fakernic_netdev *priv);

/* Returns the receive filter (FAKERNIC_FILTER_*). Under filter_lock. */
u8 fakernic_rx_filter(struct net_device *netdev);

/*
 * Sets the QP that receives frames (0: none), the MAC and offloads. Sets the
 * filter only if a QP receives.
 */
int fakernic_channels_set_port(struct fakernic_netdev *priv, u32 qpn);

/*
 * Creates the channels and enables both directions. After an error the channels
 * are down, and the driver retries while the net_device is open.
 */
int fakernic_channels_up(struct fakernic_netdev *priv);

/* Destroys the channels and resets the restart delay. May be called again. */
void fakernic_channels_down(struct fakernic_netdev *priv);

/*
 * Handles completions whose events were lost; see fakernic_channel_check().
 * Returns the number of channels that had some.
 */
u32 fakernic_channels_check(struct fakernic_netdev *priv);

/*
 * Changes the number or depth of the channels. Channels that are up are taken
 * down and brought up again. After an error the old shape is restored.
 */
int fakernic_channels_reshape(struct fakernic_netdev *priv,
			      const struct fakernic_shape *shape);

#endif
