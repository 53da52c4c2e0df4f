/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Vports: the ports of the embedded switch that connects the physical function
 * (PF), its virtual functions (VFs) and the wire. The driver of the PF sets the
 * vports of VFs (FAKERNIC_FEATURE_VPORT).
 */
#ifndef FAKERNIC_VPORT_H
#define FAKERNIC_VPORT_H

#include "base.h"

/* Numbers of vports; VF n has vport n + 1. */
#define FAKERNIC_VPORT_PF	0
#define FAKERNIC_VPORT_UPLINK	0xffff	/* the port to the wire */

/* The numbers are those of Linux's IFLA_VF_LINK_STATE_*. */
enum fakernic_vport_link {
	FAKERNIC_VPORT_LINK_AUTO	= 0,	/* follows the uplink */
	FAKERNIC_VPORT_LINK_ENABLE	= 1,	/* up, also without uplink */
	FAKERNIC_VPORT_LINK_DISABLE	= 2,
};

/* HW DATA: settings of a VF's vport. */
struct fakernic_vport_settings {
	__u8 mac[6];		/* administrative address; zeros: none */
	__le16 vid;		/* port VLAN, 1..4094; 0: none */
	__le16 vlan_proto;	/* Ethertype of its tag: 0x8100, 0x88a8 */
	__u8 qos;		/* priority in the tag, 0..7 */
	__u8 link;		/* enum fakernic_vport_link */
	__u8 spoof_check;	/* 0 or 1 */
	__u8 trust;		/* 0 or 1 */
	__u8 rss_query;		/* 0 or 1; kept, without effect */
	__u8 rsvd;
	__le32 min_mbps;	/* kept, without effect */
	__le32 max_mbps;	/* of what the VF sends; 0: no limit */
};
FAKERNIC_SIZE(struct fakernic_vport_settings, 24);

/* SET_VPORT: sets what mask names. HW DATA */
struct fakernic_set_vport_req {
	__le16 vport;		/* of a VF: 1..number of VFs */
	__le16 rsvd;
	__le32 mask;
#define FAKERNIC_VPORT_MAC		FAKERNIC_BITS(0, 0)
#define FAKERNIC_VPORT_VLAN		FAKERNIC_BITS(1, 1) /* proto, qos */
#define FAKERNIC_VPORT_LINK		FAKERNIC_BITS(2, 2)
#define FAKERNIC_VPORT_SPOOF_CHECK	FAKERNIC_BITS(3, 3)
#define FAKERNIC_VPORT_TRUST		FAKERNIC_BITS(4, 4)
#define FAKERNIC_VPORT_RSS_QUERY	FAKERNIC_BITS(5, 5)
#define FAKERNIC_VPORT_RATE		FAKERNIC_BITS(6, 6) /* both limits */
	struct fakernic_vport_settings settings;
};
FAKERNIC_SIZE(struct fakernic_set_vport_req, 32);

/* QUERY_VPORT: struct fakernic_id, the vport -> HW DATA */
struct fakernic_query_vport_resp {
	struct fakernic_vport_settings settings;
	__u8 permanent_mac[6];
	__u8 driver_mac[6];	/* of SET_PORT, zeros: absent */
	__u8 filter;		/* of SET_PORT, FAKERNIC_FILTER_* */
	__u8 flags;
#define FAKERNIC_VPORT_PRESENT	FAKERNIC_BITS(0, 0)
#define FAKERNIC_VPORT_ENABLED	FAKERNIC_BITS(1, 1) /* its driver is on */
#define FAKERNIC_VPORT_LINK_UP	FAKERNIC_BITS(2, 2)
	__u8 rsvd[2];
};
FAKERNIC_SIZE(struct fakernic_query_vport_resp, 40);

/*
 * Counters of a vport, as its function sees them: rx is what the function
 * receives. New ones are appended.
 */
enum fakernic_vport_stat {
	FAKERNIC_VPORT_STAT_RX_FRAMES,
	FAKERNIC_VPORT_STAT_RX_BYTES,	/* without FCS and port VLAN, also tx */
	FAKERNIC_VPORT_STAT_RX_BROADCAST,
	FAKERNIC_VPORT_STAT_RX_MULTICAST,	/* without broadcast, also tx */
	FAKERNIC_VPORT_STAT_RX_DROPPED,	/* link down, or its queue is full */
	FAKERNIC_VPORT_STAT_TX_FRAMES,	/* that entered the switch */
	FAKERNIC_VPORT_STAT_TX_BYTES,
	FAKERNIC_VPORT_STAT_TX_BROADCAST,
	FAKERNIC_VPORT_STAT_TX_MULTICAST,
	FAKERNIC_VPORT_STAT_TX_DROPPED,	/* without those in TX_SPOOFED */
	FAKERNIC_VPORT_STAT_TX_SPOOFED,	/* foreign source address */
	FAKERNIC_VPORT_STAT_TX_WAITED,	/* times a frame waited for max_mbps */
	FAKERNIC_VPORT_STAT_COUNT
};

/*
 * QUERY_VPORT_STATS: writes 'counters' counters of each vport, __le64 each, of
 * length / (8 * counters) vports from 'first' on. HW DATA
 */
struct fakernic_query_vport_stats_req {
	__le64 address;		/* DMA address, 8-byte aligned */
	__le32 length;		/* bytes, multiple of 8 * counters */
	__le16 first;		/* vport */
	__le16 counters;	/* 1..FAKERNIC_VPORT_STAT_COUNT */
};
FAKERNIC_SIZE(struct fakernic_query_vport_stats_req, 16);

/* HW DATA */
struct fakernic_query_vport_stats_resp {
	__le32 vports;		/* written */
	__le32 counters;	/* that the device has for each */
};
FAKERNIC_SIZE(struct fakernic_query_vport_stats_resp, 8);

/* RESET_VPORT: struct fakernic_id, the vport of a VF. */

#endif
