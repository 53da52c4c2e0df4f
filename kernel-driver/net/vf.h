/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * "ip link set DEV vf N ...": the operations of a PF's net_device on its VFs.
 * All run under RTNL. -EINVAL: no such VF, or it is not enabled.
 */
#ifndef FAKERNIC_DRIVER_VF_H
#define FAKERNIC_DRIVER_VF_H

#include <linux/if_link.h>
#include <linux/netdevice.h>

/* Sets the administrative address; zeros remove it. */
int fakernic_vf_set_mac(struct net_device *netdev, int vf, u8 *mac);

/* Sets the port VLAN; vlan and qos 0 remove it. */
int fakernic_vf_set_vlan(struct net_device *netdev, int vf, u16 vlan, u8 qos,
			 __be16 proto);

/* Sets the rates in Mbit/s; 0: none. min has no effect. */
int fakernic_vf_set_rate(struct net_device *netdev, int vf, int min, int max);

/* Sets whether frames with a foreign source address are dropped. */
int fakernic_vf_set_spoofchk(struct net_device *netdev, int vf, bool on);

/* Sets whether the VF may choose its address, and receive everything. */
int fakernic_vf_set_trust(struct net_device *netdev, int vf, bool on);

/* Sets the link to IFLA_VF_LINK_STATE_*. */
int fakernic_vf_set_link(struct net_device *netdev, int vf, int state);

/* Sets whether the VF's RSS settings may be queried. Has no effect. */
int fakernic_vf_set_rss_query(struct net_device *netdev, int vf, bool on);

/* Returns what the operations above have set. Executes no command. */
int fakernic_vf_get_config(struct net_device *netdev, int vf,
			   struct ifla_vf_info *info);

/* Returns the counters of the VF's vport, at most 100 ms old. */
int fakernic_vf_get_stats(struct net_device *netdev, int vf,
			  struct ifla_vf_stats *stats);

#endif
