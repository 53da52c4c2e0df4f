// SPDX-License-Identifier: GPL-2.0-only
/*
 * Operations of a PF's net_device on its VFs. Each sets a vport of the device,
 * which enforces the setting (../core/vport.h).
 */
#include <linux/etherdevice.h>
#include <linux/if_vlan.h>
#include <linux/pci.h>
#include "../core/device.h"
#include "../core/vport.h"
#include "netdev.h"
#include "vf.h"

static struct fakernic_dev *fakernic_vf_dev(struct net_device *netdev)
{
	struct fakernic_netdev *priv = netdev_priv(netdev);

	return priv->dev;
}

/* -EINVAL: the VF is not enabled. */
static int fakernic_vf_set(struct net_device *netdev, int vf, u32 mask,
			   const struct fakernic_vport_settings *settings)
{
	struct fakernic_dev *dev = fakernic_vf_dev(netdev);

	if (vf < 0 || vf >= pci_num_vf(dev->pdev))
		return -EINVAL;
	return fakernic_vport_set(dev, vf, mask, settings);
}

int fakernic_vf_set_mac(struct net_device *netdev, int vf, u8 *mac)
{
	struct fakernic_vport_settings set = {};

	if (is_multicast_ether_addr(mac))
		return -EINVAL;
	ether_addr_copy(set.mac, mac);
	return fakernic_vf_set(netdev, vf, FAKERNIC_VPORT_MAC, &set);
}

int fakernic_vf_set_vlan(struct net_device *netdev, int vf, u16 vlan, u8 qos,
			 __be16 proto)
{
	const struct fakernic_vport_settings set = {
		.vid = cpu_to_le16(vlan),
		.qos = qos,
		.vlan_proto = cpu_to_le16(be16_to_cpu(proto)),
	};

	if (vlan >= VLAN_N_VID - 1 || qos > 7)
		return -EINVAL;
	if (!eth_type_vlan(proto))
		return -EPROTONOSUPPORT;
	return fakernic_vf_set(netdev, vf, FAKERNIC_VPORT_VLAN, &set);
}

int fakernic_vf_set_rate(struct net_device *netdev, int vf, int min, int max)
{
	const struct fakernic_vport_settings set = {
		.min_mbps = cpu_to_le32(min),
		.max_mbps = cpu_to_le32(max),
	};

	return fakernic_vf_set(netdev, vf, FAKERNIC_VPORT_RATE, &set);
}

int fakernic_vf_set_spoofchk(struct net_device *netdev, int vf, bool on)
{
	const struct fakernic_vport_settings set = { .spoof_check = on };

	return fakernic_vf_set(netdev, vf, FAKERNIC_VPORT_SPOOF_CHECK, &set);
}

int fakernic_vf_set_trust(struct net_device *netdev, int vf, bool on)
{
	const struct fakernic_vport_settings set = { .trust = on };

	return fakernic_vf_set(netdev, vf, FAKERNIC_VPORT_TRUST, &set);
}

int fakernic_vf_set_link(struct net_device *netdev, int vf, int state)
{
	const struct fakernic_vport_settings set = { .link = state };

	BUILD_BUG_ON((int)FAKERNIC_VPORT_LINK_ENABLE !=
		     (int)IFLA_VF_LINK_STATE_ENABLE);
	if (state < 0 || state > FAKERNIC_VPORT_LINK_DISABLE)
		return -EINVAL;
	return fakernic_vf_set(netdev, vf, FAKERNIC_VPORT_LINK, &set);
}

int fakernic_vf_set_rss_query(struct net_device *netdev, int vf, bool on)
{
	const struct fakernic_vport_settings set = { .rss_query = on };

	return fakernic_vf_set(netdev, vf, FAKERNIC_VPORT_RSS_QUERY, &set);
}

int fakernic_vf_get_config(struct net_device *netdev, int vf,
			   struct ifla_vf_info *info)
{
	struct fakernic_dev *dev = fakernic_vf_dev(netdev);
	struct fakernic_vport_settings set;
	int ret;

	if (vf < 0 || vf >= pci_num_vf(dev->pdev))
		return -EINVAL;
	ret = fakernic_vport_get(dev, vf, &set);
	if (ret)
		return ret;
	info->vf = vf;
	ether_addr_copy(info->mac, set.mac);
	info->vlan = le16_to_cpu(set.vid);
	info->vlan_proto = cpu_to_be16(le16_to_cpu(set.vlan_proto));
	info->qos = set.qos;
	info->spoofchk = set.spoof_check;
	info->trusted = set.trust;
	info->linkstate = set.link;
	info->rss_query_en = set.rss_query;
	info->min_tx_rate = le32_to_cpu(set.min_mbps);
	info->max_tx_rate = le32_to_cpu(set.max_mbps);
	return 0;
}

int fakernic_vf_get_stats(struct net_device *netdev, int vf,
			  struct ifla_vf_stats *stats)
{
	u64 values[FAKERNIC_VPORT_STAT_COUNT];
	int ret = fakernic_vport_stats(fakernic_vf_dev(netdev), vf, values);

	if (ret)
		return ret;
	stats->rx_packets = values[FAKERNIC_VPORT_STAT_RX_FRAMES];
	stats->rx_bytes = values[FAKERNIC_VPORT_STAT_RX_BYTES];
	stats->broadcast = values[FAKERNIC_VPORT_STAT_RX_BROADCAST];
	stats->multicast = values[FAKERNIC_VPORT_STAT_RX_MULTICAST];
	stats->rx_dropped = values[FAKERNIC_VPORT_STAT_RX_DROPPED];
	stats->tx_packets = values[FAKERNIC_VPORT_STAT_TX_FRAMES];
	stats->tx_bytes = values[FAKERNIC_VPORT_STAT_TX_BYTES];
	stats->tx_dropped = values[FAKERNIC_VPORT_STAT_TX_DROPPED] +
			    values[FAKERNIC_VPORT_STAT_TX_SPOOFED];
	return 0;
}
