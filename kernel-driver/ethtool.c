// SPDX-License-Identifier: GPL-2.0-only
/*
 * ethtool on the Ethernet port: -i, -S, -g, -T and the link settings.
 */
#include <linux/ethtool.h>
#include <linux/string.h>
#include <fakernic/stats.h>
#include "compat.h"
#include "device.h"
#include "ethtool.h"
#include "netdev.h"
#include "stats.h"

static void fakernic_get_drvinfo(struct net_device *netdev,
				 struct ethtool_drvinfo *info)
{
	struct fakernic_netdev *priv = netdev_priv(netdev);
	u32 version = priv->dev->fw_version;

	strscpy(info->driver, FAKERNIC_NAME, sizeof(info->driver));
	strscpy(info->bus_info, pci_name(priv->dev->pdev),
		sizeof(info->bus_info));
	snprintf(info->fw_version, sizeof(info->fw_version), "%u.%u.%u",
		 version >> 24, version >> 16 & 0xff, version & 0xffff);
}

static int fakernic_get_link_ksettings(struct net_device *netdev,
				       struct ethtool_link_ksettings *settings)
{
	struct fakernic_netdev *priv = netdev_priv(netdev);

	ethtool_link_ksettings_zero_link_mode(settings, supported);
	ethtool_link_ksettings_zero_link_mode(settings, advertising);
	settings->base.port = PORT_OTHER;
	settings->base.autoneg = AUTONEG_DISABLE;
	/* Also without a link: that of the RDMA port is derived from it. */
	settings->base.speed = le32_to_cpu(priv->dev->port.info.speed_mbps);
	settings->base.duplex = DUPLEX_FULL;
	return 0;
}

static void
fakernic_get_ringparam(struct net_device *netdev,
		       struct ethtool_ringparam *param,
		       struct kernel_ethtool_ringparam *kernel_param,
		       struct netlink_ext_ack *extack)
{
	param->rx_max_pending = 1U << FAKERNIC_RX_LOG_DEPTH;
	param->rx_pending = param->rx_max_pending;
	param->tx_max_pending = 1U << FAKERNIC_TX_LOG_DEPTH;
	param->tx_pending = param->tx_max_pending;
}

/* The driver's own, behind the device's counters. */
static const char *const fakernic_own_names[] = {
	"device_dead", "device_deaths", "device_recoveries",
	"tx_csum", "tx_tso", "rx_csum",
};

static int fakernic_get_sset_count(struct net_device *netdev, int set)
{
	return set == ETH_SS_STATS ?
		FAKERNIC_STAT_COUNT + ARRAY_SIZE(fakernic_own_names) :
		-EOPNOTSUPP;
}

static void fakernic_get_strings(struct net_device *netdev, u32 set, u8 *data)
{
	int i;

	if (set != ETH_SS_STATS)
		return;
	for (i = 0; i < FAKERNIC_STAT_COUNT; i++)
		strscpy_pad((char *)data + i * ETH_GSTRING_LEN,
			    fakernic_stat_names[i], ETH_GSTRING_LEN);
	data += FAKERNIC_STAT_COUNT * ETH_GSTRING_LEN;
	for (i = 0; i < ARRAY_SIZE(fakernic_own_names); i++)
		strscpy_pad((char *)data + i * ETH_GSTRING_LEN,
			    fakernic_own_names[i], ETH_GSTRING_LEN);
}

static void fakernic_get_ethtool_stats(struct net_device *netdev,
				       struct ethtool_stats *stats, u64 *data)
{
	struct fakernic_netdev *priv = netdev_priv(netdev);
	struct fakernic_dev *dev = priv->dev;

	/* A dead device counts no more: what it said last. */
	if (!fakernic_read_stats(dev, 0, data))
		memcpy(priv->stats, data, sizeof(priv->stats));
	else
		memcpy(data, priv->stats, sizeof(priv->stats));
	data += FAKERNIC_STAT_COUNT;
	*data++ = READ_ONCE(dev->dead);
	*data++ = dev->health.deaths;
	*data++ = dev->health.recoveries;
	*data++ = priv->tx_csum;
	*data++ = priv->tx_tso;
	*data = priv->rx_csum;
}

/* The stack's own time stamps of frames, and which clock is the device's. */
static int fakernic_get_ts_info(struct net_device *netdev,
				struct kernel_ethtool_ts_info *info)
{
	struct fakernic_netdev *priv = netdev_priv(netdev);
	int ret = ethtool_op_get_ts_info(netdev, info);

	if (!ret && priv->dev->ptp)
		info->phc_index = ptp_clock_index(priv->dev->ptp);
	return ret;
}

const struct ethtool_ops fakernic_ethtool_ops = {
	.get_drvinfo = fakernic_get_drvinfo,
	.get_link = ethtool_op_get_link,
	.get_link_ksettings = fakernic_get_link_ksettings,
	.get_ringparam = fakernic_get_ringparam,
	.get_sset_count = fakernic_get_sset_count,
	.get_strings = fakernic_get_strings,
	.get_ethtool_stats = fakernic_get_ethtool_stats,
	.get_ts_info = fakernic_get_ts_info,
};
