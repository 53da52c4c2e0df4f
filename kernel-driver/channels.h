/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * All channels of the net_device together. All functions: under RTNL.
 */
#ifndef FAKERNIC_DRIVER_CHANNELS_H
#define FAKERNIC_DRIVER_CHANNELS_H

#include <linux/netdevice.h>

struct fakernic_netdev;
struct fakernic_shape;

/* Has the net_device hardware to work with? */
bool fakernic_netdev_works(struct fakernic_netdev *priv);

/* What the device is to let in (FAKERNIC_FILTER_*). Under filter_lock. */
u8 fakernic_rx_filter(struct net_device *netdev);

/* Who receives; qpn 0: nobody. The filter only when there is somebody. */
int fakernic_channels_set_port(struct fakernic_netdev *priv, u32 qpn);

/*
 * Frames go both ways from now on. After an error the channels are down, and
 * are tried again for as long as the net_device is open.
 */
int fakernic_channels_up(struct fakernic_netdev *priv);

/* May be called again. What is up next has failed nowhere yet. */
void fakernic_channels_down(struct fakernic_netdev *priv);

/*
 * Looks after completions whose events were lost; see fakernic_channel_look().
 * The number of channels that had some.
 */
u32 fakernic_channels_look(struct fakernic_netdev *priv);

/*
 * Another shape: what is up goes down and comes up again for it. After an error
 * the shape is as it was.
 */
int fakernic_channels_reshape(struct fakernic_netdev *priv,
			      const struct fakernic_shape *shape);

#endif
