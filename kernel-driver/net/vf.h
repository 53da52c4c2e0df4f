/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * "ip link set DEV vf N ...": the operations of a PF's net_device on its VFs.
 * All run under RTNL. -EINVAL: no such VF, or it is not enabled.
 */
#ifndef FAKERNIC_DRIVER_VF_H
#define FAKERNIC_DRIVER_VF_H

#include <linux/if_link.h>
#include <linux/netdevice.h>

/* The administrative address; zeros remove it. */
int fakernic_vf_set_mac(struct net_device *netdev, int vf, u8 *mac);

/* The port VLAN; vlan and qos 0 remove it. */
int fakernic_vf_set_vlan(struct net_device *netdev, int vf, u16 vlan, u8 qos,
			 __be16 proto);

/* Rates in Mbit/s; 0: none. */
int fakernic_vf_set_rate(struct net_device *netdev, int vf, int min, int max);

/* Drops frames with a foreign source address. */
int fakernic_vf_set_spoofchk(struct net_device *netdev, int vf, bool on);

/* Lets the VF choose its address, and receive everything. */
int fakernic_vf_set_trust(struct net_device *netdev, int vf, bool on);

/* IFLA_VF_LINK_STATE_*. */
int fakernic_vf_set_link(struct net_device *netdev, int vf, int state);

/* Whether the VF's driver may ask for its RSS settings; only shown. */
int fakernic_vf_set_rss_query(struct net_device *netdev, int vf, bool on);

/* What the operations above have set. Executes no command. */
int fakernic_vf_get_config(struct net_device *netdev, int vf,
			   struct ifla_vf_info *info);

/* Counters of the VF's vport; at most 100 ms old. */
int fakernic_vf_get_stats(struct net_device *netdev, int vf,
			  struct ifla_vf_stats *stats);

#endif
