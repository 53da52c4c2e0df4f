// SPDX-License-Identifier: GPL-2.0-only
/*
 * Each completion has the time when the device wrote it: after a received frame
 * was written to memory, or a sent one was passed to the network. The device
 * always does this; the settings select only which frames get the time.
 */
#include <linux/net_tstamp.h>
#include "../core/device.h"
#include "netdev.h"
#include "tstamp.h"

int fakernic_hwtstamp_get(struct net_device *netdev,
			  struct kernel_hwtstamp_config *config)
{
	struct fakernic_netdev *priv = netdev_priv(netdev);

	config->flags = 0;
	config->tx_type = priv->tstamp_tx ? HWTSTAMP_TX_ON : HWTSTAMP_TX_OFF;
	config->rx_filter = priv->tstamp_rx ? HWTSTAMP_FILTER_ALL :
					      HWTSTAMP_FILTER_NONE;
	return 0;
}

int fakernic_hwtstamp_set(struct net_device *netdev,
			  struct kernel_hwtstamp_config *config,
			  struct netlink_ext_ack *extack)
{
	struct fakernic_netdev *priv = netdev_priv(netdev);

	/* Without the PTP clock no program can read the time scale. */
	if (!priv->dev->ptp)
		return -EOPNOTSUPP;
	/* The other modes need a device that writes into frames. */
	if (config->tx_type != HWTSTAMP_TX_OFF &&
	    config->tx_type != HWTSTAMP_TX_ON) {
		NL_SET_ERR_MSG(extack, "one-step time stamps are not supported");
		return -ERANGE;
	}
	WRITE_ONCE(priv->tstamp_tx, config->tx_type == HWTSTAMP_TX_ON);
	WRITE_ONCE(priv->tstamp_rx, config->rx_filter != HWTSTAMP_FILTER_NONE);
	return fakernic_hwtstamp_get(netdev, config);
}

bool fakernic_tstamp_sending(const struct fakernic_netdev *priv,
			     struct sk_buff *skb)
{
	if (likely(!(skb_shinfo(skb)->tx_flags & SKBTX_HW_TSTAMP)) ||
	    !READ_ONCE(priv->tstamp_tx))
		return false;
	skb_shinfo(skb)->tx_flags |= SKBTX_IN_PROGRESS;
	return true;
}

static struct skb_shared_hwtstamps
fakernic_tstamp_of(const struct fakernic_dev *dev,
		   const struct fakernic_cqe *cqe)
{
	return (struct skb_shared_hwtstamps) {
		.hwtstamp = ns_to_ktime(le64_to_cpu(cqe->timestamp) +
					dev->wall_offset_ns),
	};
}

void fakernic_tstamp_sent(const struct fakernic_netdev *priv,
			  struct sk_buff *skb, const struct fakernic_cqe *cqe)
{
	struct skb_shared_hwtstamps stamps = fakernic_tstamp_of(priv->dev, cqe);

	skb_tstamp_tx(skb, &stamps);
}

void fakernic_tstamp_received(const struct fakernic_netdev *priv,
			      struct sk_buff *skb,
			      const struct fakernic_cqe *cqe)
{
	if (unlikely(READ_ONCE(priv->tstamp_rx)))
		*skb_hwtstamps(skb) = fakernic_tstamp_of(priv->dev, cqe);
}
