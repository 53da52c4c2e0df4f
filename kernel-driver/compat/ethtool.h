/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Adapters of ethtool's receive side scaling operations for older kernels.
 * ethtool.c implements those of the newest kernel.
 */
#ifndef FAKERNIC_DRIVER_COMPAT_ETHTOOL_H
#define FAKERNIC_DRIVER_COMPAT_ETHTOOL_H

#include <linux/ethtool.h>

/* Older kernels pass key, table and function as separate arguments. */
#ifndef FAKERNIC_HAVE_RXFH_PARAM
struct ethtool_rxfh_param {
	u8 hfunc;
	u32 *indir;
	u8 *key;
};
#endif

static int fakernic_get_rxfh(struct net_device *netdev,
			     struct ethtool_rxfh_param *rxfh);
static int fakernic_set_rxfh(struct net_device *netdev,
			     struct ethtool_rxfh_param *rxfh,
			     struct netlink_ext_ack *extack);
static u32 fakernic_get_rx_ring_count(struct net_device *netdev);

#ifdef FAKERNIC_HAVE_RXFH_PARAM
#define FAKERNIC_GET_RXFH	fakernic_get_rxfh
#define FAKERNIC_SET_RXFH	fakernic_set_rxfh
#else
static inline int fakernic_get_rxfh_args(struct net_device *netdev, u32 *indir,
					 u8 *key, u8 *hfunc)
{
	struct ethtool_rxfh_param rxfh = { .indir = indir, .key = key };
	int ret = fakernic_get_rxfh(netdev, &rxfh);

	if (hfunc)
		*hfunc = rxfh.hfunc;
	return ret;
}

static inline int fakernic_set_rxfh_args(struct net_device *netdev,
					 const u32 *indir, const u8 *key,
					 const u8 hfunc)
{
	struct ethtool_rxfh_param rxfh = {
		.hfunc = hfunc,
		.indir = (u32 *)indir,
		.key = (u8 *)key,
	};

	return fakernic_set_rxfh(netdev, &rxfh, NULL);
}

#define FAKERNIC_GET_RXFH	fakernic_get_rxfh_args
#define FAKERNIC_SET_RXFH	fakernic_set_rxfh_args
#endif

/* Older kernels query the number of rings by get_rxnfc(). */
#ifdef FAKERNIC_HAVE_RX_RING_COUNT
#define FAKERNIC_RX_RING_COUNT_OP					\
	.get_rx_ring_count = fakernic_get_rx_ring_count
#else
static inline int fakernic_get_rxnfc(struct net_device *netdev,
				     struct ethtool_rxnfc *info, u32 *rules)
{
	if (info->cmd != ETHTOOL_GRXRINGS)
		return -EOPNOTSUPP;
	info->data = fakernic_get_rx_ring_count(netdev);
	return 0;
}

#define FAKERNIC_RX_RING_COUNT_OP	.get_rxnfc = fakernic_get_rxnfc
#endif

#endif
