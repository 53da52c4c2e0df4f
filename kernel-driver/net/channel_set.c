// SPDX-License-Identifier: GPL-2.0-only
/*
 * Brings all channels up, sets the port to deliver to them, takes them down,
 * and changes their number and depth.
 */
#include <linux/string.h>
#include <fakernic/cmdq.h>
#include "../core/cmd.h"
#include "../core/device.h"
#include "../core/object.h"
#include "../core/port.h"
#include "channel.h"
#include "channel_set.h"
#include "netdev.h"
#include "rss.h"

u8 fakernic_rx_filter(struct net_device *netdev)
{
	u8 filter = FAKERNIC_FILTER_BROADCAST;

	netif_addr_lock_bh(netdev);
	/* The device filters for one unicast address, or accepts all. */
	if (netdev->flags & IFF_PROMISC || !netdev_uc_empty(netdev))
		filter |= FAKERNIC_FILTER_PROMISCUOUS;
	/* The device accepts either no multicast groups or all of them. */
	if (netdev->flags & IFF_ALLMULTI || !netdev_mc_empty(netdev))
		filter |= FAKERNIC_FILTER_MULTICAST;
	netif_addr_unlock_bh(netdev);
	return filter;
}

bool fakernic_netdev_is_ready(struct fakernic_netdev *priv)
{
	return priv->ready && !READ_ONCE(priv->dev->dead);
}

int fakernic_channels_set_port(struct fakernic_netdev *priv, u32 qpn)
{
	struct net_device *netdev = priv->netdev;
	struct fakernic_set_port_req req = {
		.mask = cpu_to_le32(FAKERNIC_PORT_QPN | FAKERNIC_PORT_MTU |
				    FAKERNIC_PORT_MAC),
		.qpn = cpu_to_le32(qpn),
		.mtu = cpu_to_le32(netdev->mtu),
	};
	int ret;

	memcpy(req.mac, netdev->dev_addr, ETH_ALEN);
	/* The lock keeps an older filter from replacing a newer one. */
	mutex_lock(&priv->filter_lock);
	if (qpn) {
		req.mask |= cpu_to_le32(FAKERNIC_PORT_FILTER);
		req.filter = fakernic_rx_filter(netdev);
	}
	if (priv->dev->features & FAKERNIC_FEATURE_VLAN) {
		req.mask |= cpu_to_le32(FAKERNIC_PORT_VLAN_STRIP);
		req.vlan_strip =
			!!(netdev->features & NETIF_F_HW_VLAN_CTAG_RX);
	}
	ret = fakernic_cmd_set_port(priv->dev, &req);
	mutex_unlock(&priv->filter_lock);
	return ret;
}

static void fakernic_channels_destroy(struct fakernic_netdev *priv, u32 count)
{
	while (count--)
		fakernic_channel_down(&priv->channels[count]);
}

static int fakernic_channels_create(struct fakernic_netdev *priv)
{
	u32 i;
	int ret;

	for (i = 0; i < priv->shape.channels; i++) {
		ret = fakernic_channel_up(&priv->channels[i]);
		if (ret) {
			fakernic_channels_destroy(priv, i);
			return ret;
		}
	}
	return 0;
}

static void fakernic_channels_napi(struct fakernic_netdev *priv, bool on)
{
	u32 i;

	for (i = 0; i < priv->shape.channels; i++)
		if (on)
			napi_enable(&priv->channels[i].napi);
		else
			napi_disable(&priv->channels[i].napi);
}

int fakernic_channels_up(struct fakernic_netdev *priv)
{
	u32 i;
	int ret;

	/* Errors of earlier queues no longer cause a restart. */
	WRITE_ONCE(priv->generation, priv->generation + 1);
	cancel_delayed_work(&priv->restart_work);
	ret = fakernic_channels_create(priv);
	if (ret)
		goto err;
	ret = fakernic_rss_up(priv);
	if (ret)
		goto err_destroy;
	fakernic_channels_napi(priv, true);
	ret = fakernic_channels_set_port(priv, fakernic_rss_qpn(priv));
	if (ret)
		goto err_rss_down;
	WRITE_ONCE(priv->up_since, jiffies);
	/* The queues exist before up is set: see fakernic_start_xmit(). */
	smp_store_release(&priv->up, true);
	for (i = 0; i < priv->shape.channels; i++)
		fakernic_cq_hw_arm(&priv->channels[i].cq, false);
	/* Frames may have been waiting for a restart. */
	netif_tx_wake_all_queues(priv->netdev);
	fakernic_port_set_no_queues(priv->dev, false);
	return 0;

err_rss_down:
	fakernic_channels_napi(priv, false);
	fakernic_rss_down(priv);
err_destroy:
	fakernic_channels_destroy(priv, priv->shape.channels);
err:
	netdev_err(priv->netdev, "queue setup failed: %d\n", ret);
	/* Drop the carrier, so that no frame waits for these queues. */
	fakernic_port_set_no_queues(priv->dev, true);
	/* Retry while the net_device is open: memory may become available. */
	fakernic_restart_later(priv);
	return ret;
}

/*
 * Stops all queues, including those without a channel. The watchdog measures
 * from a queue's last send, which may be long ago, so that time is set to now.
 * (Linux 6.12, and 6.1 since late 2024, do this themselves.)
 */
static void fakernic_channels_stop_tx(struct fakernic_netdev *priv)
{
	u32 i;

	for (i = 0; i < priv->channels_max; i++)
		txq_trans_cond_update(netdev_get_tx_queue(priv->netdev, i));
	netif_tx_disable(priv->netdev);
}

void fakernic_channels_down(struct fakernic_netdev *priv)
{
	if (!priv->up)
		return;
	WRITE_ONCE(priv->restarts, 0);
	/* From now on fakernic_start_xmit() drops frames. */
	WRITE_ONCE(priv->up, false);
	/* NAPI first, as it would wake the queues again. */
	fakernic_channels_napi(priv, false);
	fakernic_channels_stop_tx(priv);
	fakernic_channels_set_port(priv, 0);
	fakernic_rss_down(priv);
	fakernic_channels_destroy(priv, priv->shape.channels);
}

u32 fakernic_channels_check(struct fakernic_netdev *priv)
{
	u32 i, lost = 0;

	for (i = 0; priv->up && i < priv->shape.channels; i++)
		lost += fakernic_channel_check(&priv->channels[i]);
	return lost;
}

/* Sets the stack's number of queues, and the default indirection table. */
static int fakernic_channels_set_count(struct fakernic_netdev *priv,
				       const struct fakernic_shape *shape)
{
	struct net_device *netdev = priv->netdev;
	int ret;

	ret = netif_set_real_num_queues(netdev, shape->channels,
					shape->channels);
	if (ret)
		return ret;
	priv->shape = *shape;
	if (!netif_is_rxfh_configured(netdev))
		fakernic_rss_reset(priv);
	return 0;
}

int fakernic_channels_reshape(struct fakernic_netdev *priv,
			      const struct fakernic_shape *shape)
{
	struct fakernic_shape old = priv->shape;
	/* On a dead device the new shape takes effect after recovery. */
	bool was_up = priv->up && fakernic_netdev_is_ready(priv);
	int ret;

	fakernic_channels_down(priv);
	ret = fakernic_channels_set_count(priv, shape);
	if (!ret && was_up)
		ret = fakernic_channels_up(priv);
	if (!ret)
		return 0;
	if (!was_up)
		fakernic_channels_set_count(priv, &old);
	else if (!fakernic_channels_set_count(priv, &old))
		fakernic_channels_up(priv);
	else
		fakernic_restart_later(priv);
	return ret;
}
