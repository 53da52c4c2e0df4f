// SPDX-License-Identifier: GPL-2.0-only
/*
 * ethtool operations of the Ethernet port:
 * - driver and device information (-i, -d, link, -T)
 * - counters (-S)
 * - queues and their settings (-g, -l, -c, -x)
 * - a self-test that does not disturb traffic (-t)
 */
#include <linux/ethtool.h>
#include <linux/log2.h>
#include <linux/string.h>
#include <fakernic/regs.h>
#include <fakernic/stats.h>
#include "../compat/compat.h"
#include "../compat/ethtool.h"
#include "../core/cmd.h"
#include "../core/device.h"
#include "../core/regs.h"
#include "../core/stats.h"
#include "channel.h"
#include "channel_set.h"
#include "ethtool.h"
#include "netdev.h"
#include "rss.h"

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
	/* Also without a link: the RDMA core derives its speed from this. */
	settings->base.speed = le32_to_cpu(priv->dev->port.info.speed_mbps);
	settings->base.duplex = DUPLEX_FULL;
	return 0;
}

/* ---- queues ---- */

static void
fakernic_get_ringparam(struct net_device *netdev,
		       struct ethtool_ringparam *param,
		       struct kernel_ethtool_ringparam *kernel_param,
		       struct netlink_ext_ack *extack)
{
	struct fakernic_netdev *priv = netdev_priv(netdev);

	param->rx_max_pending = 1U << FAKERNIC_RING_LOG_DEPTH_MAX;
	param->rx_pending = 1U << priv->shape.rx_log_depth;
	param->tx_max_pending = 1U << FAKERNIC_RING_LOG_DEPTH_MAX;
	param->tx_pending = 1U << priv->shape.tx_log_depth;
}

/* Rounds depths up to powers of two. The core has checked the maximum. */
static int fakernic_set_ringparam(struct net_device *netdev,
				  struct ethtool_ringparam *param,
				  struct kernel_ethtool_ringparam *kernel_param,
				  struct netlink_ext_ack *extack)
{
	struct fakernic_netdev *priv = netdev_priv(netdev);
	struct fakernic_shape shape = priv->shape;

	shape.rx_log_depth = max_t(u8, FAKERNIC_RX_LOG_DEPTH_MIN,
				   order_base_2(param->rx_pending));
	shape.tx_log_depth = max_t(u8, FAKERNIC_TX_LOG_DEPTH_MIN,
				   order_base_2(param->tx_pending));
	return fakernic_channels_reshape(priv, &shape);
}

static void fakernic_get_channels(struct net_device *netdev,
				  struct ethtool_channels *channels)
{
	struct fakernic_netdev *priv = netdev_priv(netdev);

	channels->max_combined = priv->channels_max;
	channels->combined_count = priv->shape.channels;
}

/* The core has checked the maximum and the configured indirection table. */
static int fakernic_set_channels(struct net_device *netdev,
				 struct ethtool_channels *channels)
{
	struct fakernic_netdev *priv = netdev_priv(netdev);
	struct fakernic_shape shape = priv->shape;

	shape.channels = channels->combined_count;
	return fakernic_channels_reshape(priv, &shape);
}

static int fakernic_get_coalesce(struct net_device *netdev,
				 struct ethtool_coalesce *coalesce,
				 struct kernel_ethtool_coalesce *kernel_param,
				 struct netlink_ext_ack *extack)
{
	struct fakernic_netdev *priv = netdev_priv(netdev);

	coalesce->rx_max_coalesced_frames = priv->shape.coalesce_frames;
	coalesce->rx_coalesce_usecs = priv->shape.coalesce_us;
	return 0;
}

static int fakernic_coalesce_all(struct fakernic_netdev *priv)
{
	u32 i;
	int ret = 0;

	if (!priv->up || !fakernic_netdev_is_ready(priv))
		return 0;
	for (i = 0; i < priv->shape.channels; i++)
		ret = fakernic_channel_coalesce(&priv->channels[i]) ?: ret;
	return ret;
}

/* One CQ serves both directions, so sends and receives share the setting. */
static int fakernic_set_coalesce(struct net_device *netdev,
				 struct ethtool_coalesce *coalesce,
				 struct kernel_ethtool_coalesce *kernel_param,
				 struct netlink_ext_ack *extack)
{
	struct fakernic_netdev *priv = netdev_priv(netdev);
	const struct fakernic_shape old = priv->shape;
	u32 frames = coalesce->rx_max_coalesced_frames;
	u32 us = coalesce->rx_coalesce_usecs;
	int ret;

	if (!(priv->dev->features & FAKERNIC_FEATURE_CQ_MODERATION))
		return -EOPNOTSUPP;
	if (frames > U16_MAX || us > U16_MAX) {
		NL_SET_ERR_MSG_MOD(extack, "coalescing parameters are limited to 65535");
		return -EINVAL;
	}
	if (frames > 1 && !us) {
		NL_SET_ERR_MSG_MOD(extack, "rx-frames requires rx-usecs");
		return -EINVAL;
	}
	priv->shape.coalesce_frames = frames;
	priv->shape.coalesce_us = us;
	ret = fakernic_coalesce_all(priv);
	if (!ret)
		return 0;
	/* Restore all channels, also those that have the new setting. */
	priv->shape = old;
	fakernic_coalesce_all(priv);
	return ret;
}

static u32 fakernic_get_rx_ring_count(struct net_device *netdev)
{
	struct fakernic_netdev *priv = netdev_priv(netdev);

	return priv->shape.channels;
}

static u32 fakernic_get_rxfh_key_size(struct net_device *netdev)
{
	return FAKERNIC_HASH_KEY_SIZE;
}

static u32 fakernic_get_rxfh_indir_size(struct net_device *netdev)
{
	struct fakernic_netdev *priv = netdev_priv(netdev);

	return priv->rss.size;
}

static int fakernic_get_rxfh(struct net_device *netdev,
			     struct ethtool_rxfh_param *rxfh)
{
	struct fakernic_netdev *priv = netdev_priv(netdev);
	const struct fakernic_rss *rss = &priv->rss;

	rxfh->hfunc = ETH_RSS_HASH_TOP;
	if (rxfh->key)
		memcpy(rxfh->key, rss->set.key, sizeof(rss->set.key));
	if (rxfh->indir)
		memcpy(rxfh->indir, rss->set.table,
		       rss->size * sizeof(rss->set.table[0]));
	return 0;
}

static int fakernic_set_rxfh(struct net_device *netdev,
			     struct ethtool_rxfh_param *rxfh,
			     struct netlink_ext_ack *extack)
{
	struct fakernic_netdev *priv = netdev_priv(netdev);
	struct fakernic_rss *rss = &priv->rss;
	struct fakernic_rss_setting old = rss->set;
	int ret;

	if (rxfh->hfunc != ETH_RSS_HASH_NO_CHANGE &&
	    rxfh->hfunc != ETH_RSS_HASH_TOP)
		return -EOPNOTSUPP;
	if (rxfh->key)
		memcpy(rss->set.key, rxfh->key, sizeof(rss->set.key));
	if (rxfh->indir)
		memcpy(rss->set.table, rxfh->indir,
		       rss->size * sizeof(rss->set.table[0]));
	ret = fakernic_netdev_is_ready(priv) ? fakernic_rss_change(priv) : 0;
	if (ret)
		rss->set = old;
	return ret;
}

/* ---- the device itself ---- */

static int fakernic_get_regs_len(struct net_device *netdev)
{
	return FAKERNIC_REG_END;
}

/* Skips the clock: reading a half could disturb another reader of both. */
static void fakernic_get_regs(struct net_device *netdev,
			      struct ethtool_regs *regs, void *data)
{
	struct fakernic_netdev *priv = netdev_priv(netdev);
	u32 reg;

	regs->version = priv->dev->interface_version;
	memset(data, 0, FAKERNIC_REG_END);
	for (reg = 0; reg < FAKERNIC_REG_CLOCK_LO; reg += sizeof(u32))
		*(u32 *)(data + reg) = fakernic_read(priv->dev, reg);
}

static int fakernic_test_registers(struct fakernic_dev *dev)
{
	return fakernic_check_device(dev);
}

static int fakernic_test_status(struct fakernic_dev *dev)
{
	u32 status = fakernic_read(dev, FAKERNIC_REG_STATUS);

	return status & FAKERNIC_STATUS_FATAL ||
	       !(status & FAKERNIC_STATUS_ENABLED) ? -EIO : 0;
}

static int fakernic_test_link(struct fakernic_dev *dev)
{
	struct fakernic_query_port_resp info;
	int ret;

	ret = fakernic_cmd_query_port_timed(dev, &info);
	return ret ? ret : info.link_up ? 0 : -ENOLINK;
}

static const struct {
	const char *name;
	int (*run)(struct fakernic_dev *dev);
} fakernic_tests[] = {
	{ "registers", fakernic_test_registers },
	{ "status", fakernic_test_status },
	{ "command queue", fakernic_cmd_ping },
	{ "link", fakernic_test_link },
};

/* Sets the result of each test: 0 or an errno. */
static void fakernic_self_test(struct net_device *netdev,
			       struct ethtool_test *test, u64 *results)
{
	struct fakernic_netdev *priv = netdev_priv(netdev);
	u32 i;

	for (i = 0; i < ARRAY_SIZE(fakernic_tests); i++) {
		results[i] = -fakernic_tests[i].run(priv->dev);
		if (results[i])
			test->flags |= ETH_TEST_FL_FAILED;
	}
}

/* ---- counters ---- */

/* The driver's counters follow the device's; those of each queue come last. */
static const char *const fakernic_own_stats[] = {
	"device_dead", "device_deaths", "device_recoveries",
	"lost_interrupts", "lost_events",
	"tx_csum", "tx_tso", "rx_csum",
};

static int fakernic_get_sset_count(struct net_device *netdev, int set)
{
	struct fakernic_netdev *priv = netdev_priv(netdev);

	switch (set) {
	case ETH_SS_STATS:
		return FAKERNIC_STAT_COUNT + ARRAY_SIZE(fakernic_own_stats) +
		       priv->channels_max;
	case ETH_SS_TEST:
		return ARRAY_SIZE(fakernic_tests);
	default:
		return -EOPNOTSUPP;
	}
}

static u8 *fakernic_write_names(u8 *data, const char *const *names, u32 count)
{
	u32 i;

	for (i = 0; i < count; i++, data += ETH_GSTRING_LEN)
		strscpy_pad((char *)data, names[i], ETH_GSTRING_LEN);
	return data;
}

static void fakernic_get_strings(struct net_device *netdev, u32 set, u8 *data)
{
	struct fakernic_netdev *priv = netdev_priv(netdev);
	u32 i;

	if (set == ETH_SS_TEST) {
		for (i = 0; i < ARRAY_SIZE(fakernic_tests); i++)
			data = fakernic_write_names(data,
						    &fakernic_tests[i].name, 1);
		return;
	}
	if (set != ETH_SS_STATS)
		return;
	data = fakernic_write_names(data, fakernic_stat_names,
				    FAKERNIC_STAT_COUNT);
	data = fakernic_write_names(data, fakernic_own_stats,
				    ARRAY_SIZE(fakernic_own_stats));
	for (i = 0; i < priv->channels_max; i++, data += ETH_GSTRING_LEN)
		snprintf((char *)data, ETH_GSTRING_LEN, "rx_queue_%u_frames",
			 i);
}

static void fakernic_get_ethtool_stats(struct net_device *netdev,
				       struct ethtool_stats *stats, u64 *data)
{
	struct fakernic_netdev *priv = netdev_priv(netdev);
	struct fakernic_dev *dev = priv->dev;
	u32 i;

	/* A dead or silent device does not answer: report the last values. */
	if (!fakernic_query_stats(dev, 0, data))
		memcpy(priv->stats, data, sizeof(priv->stats));
	else
		memcpy(data, priv->stats, sizeof(priv->stats));
	data += FAKERNIC_STAT_COUNT;
	*data++ = READ_ONCE(dev->dead);
	*data++ = READ_ONCE(dev->health.deaths);
	*data++ = READ_ONCE(dev->health.recoveries);
	*data++ = atomic_read(&dev->lost_interrupts);
	*data++ = atomic_read(&dev->lost_events);
	data[0] = 0;
	data[1] = 0;
	data[2] = 0;
	for (i = 0; i < priv->channels_max; i++) {
		const struct fakernic_channel *ch = &priv->channels[i];

		/* NAPI may increment them at the same time. */
		data[0] += READ_ONCE(ch->tx_csum);
		data[1] += READ_ONCE(ch->tx_tso);
		data[2] += READ_ONCE(ch->rx_csum);
		data[3 + i] = READ_ONCE(ch->rx_frames);
	}
}

/* Adds the device's time stamps to those of the stack. */
static int fakernic_get_ts_info(struct net_device *netdev,
				struct kernel_ethtool_ts_info *info)
{
	struct fakernic_netdev *priv = netdev_priv(netdev);
	int ret = ethtool_op_get_ts_info(netdev, info);

	if (ret || !priv->dev->ptp)
		return ret;
	info->so_timestamping |= SOF_TIMESTAMPING_TX_HARDWARE |
				 SOF_TIMESTAMPING_RX_HARDWARE |
				 SOF_TIMESTAMPING_RAW_HARDWARE;
	info->tx_types = BIT(HWTSTAMP_TX_OFF) | BIT(HWTSTAMP_TX_ON);
	info->rx_filters = BIT(HWTSTAMP_FILTER_NONE) |
			   BIT(HWTSTAMP_FILTER_ALL);
	info->phc_index = ptp_clock_index(priv->dev->ptp);
	return 0;
}

const struct ethtool_ops fakernic_ethtool_ops = {
	.supported_coalesce_params = ETHTOOL_COALESCE_RX_USECS |
				     ETHTOOL_COALESCE_RX_MAX_FRAMES,
	.get_drvinfo = fakernic_get_drvinfo,
	.get_link = ethtool_op_get_link,
	.get_link_ksettings = fakernic_get_link_ksettings,
	.get_ringparam = fakernic_get_ringparam,
	.set_ringparam = fakernic_set_ringparam,
	.get_channels = fakernic_get_channels,
	.set_channels = fakernic_set_channels,
	.get_coalesce = fakernic_get_coalesce,
	.set_coalesce = fakernic_set_coalesce,
	FAKERNIC_RX_RING_COUNT_OP,
	.get_rxfh_key_size = fakernic_get_rxfh_key_size,
	.get_rxfh_indir_size = fakernic_get_rxfh_indir_size,
	.get_rxfh = FAKERNIC_GET_RXFH,
	.set_rxfh = FAKERNIC_SET_RXFH,
	.get_regs_len = fakernic_get_regs_len,
	.get_regs = fakernic_get_regs,
	.self_test = fakernic_self_test,
	.get_sset_count = fakernic_get_sset_count,
	.get_strings = fakernic_get_strings,
	.get_ethtool_stats = fakernic_get_ethtool_stats,
	.get_ts_info = fakernic_get_ts_info,
};
