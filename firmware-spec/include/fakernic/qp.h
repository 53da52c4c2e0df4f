/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Queue pairs as the device sees them: types, states, attributes. The device
 * checks every transition itself (IBTA 10.3.1, tables 89 to 97 in 1.4).
 */
#ifndef FAKERNIC_QP_H
#define FAKERNIC_QP_H

#include "base.h"

#define FAKERNIC_QPN_GSI		1
#define FAKERNIC_QPN_MAX		0xffffffU	/* 24 bits */
#define FAKERNIC_QPN_MULTICAST		0xffffffU

enum fakernic_qp_type {
	FAKERNIC_QP_RC		= 1,
	FAKERNIC_QP_UC		= 2,
	FAKERNIC_QP_UD		= 3,
	FAKERNIC_QP_GSI		= 4,	/* QP 1, at most one */
	FAKERNIC_QP_RAW_PACKET	= 5,	/* complete Ethernet frames without FCS */
	FAKERNIC_QP_XRC_INI	= 6,
	FAKERNIC_QP_XRC_TGT	= 7,
};

/* The numbers are those of enum ibv_qp_state. */
enum fakernic_qp_state {
	FAKERNIC_QPS_RESET	= 0,
	FAKERNIC_QPS_INIT	= 1,
	FAKERNIC_QPS_RTR	= 2,
	FAKERNIC_QPS_RTS	= 3,
	FAKERNIC_QPS_SQD	= 4,
	FAKERNIC_QPS_SQE	= 5,
	FAKERNIC_QPS_ERR	= 6,
};

enum fakernic_mig_state {
	FAKERNIC_MIG_MIGRATED	= 0,
	FAKERNIC_MIG_REARM	= 1,
	FAKERNIC_MIG_ARMED	= 2,
};

/* The numbers are those of enum ibv_mtu. */
enum fakernic_mtu {
	FAKERNIC_MTU_256	= 1,
	FAKERNIC_MTU_512	= 2,
	FAKERNIC_MTU_1024	= 3,
	FAKERNIC_MTU_2048	= 4,
	FAKERNIC_MTU_4096	= 5,
};

/* Which attributes MODIFY_QP sets; the bits are those of ibv_qp_attr_mask. */
#define FAKERNIC_QP_ATTR_STATE			FAKERNIC_BITS(0, 0)
#define FAKERNIC_QP_ATTR_CUR_STATE		FAKERNIC_BITS(1, 1)
#define FAKERNIC_QP_ATTR_SQD_ASYNC_NOTIFY	FAKERNIC_BITS(2, 2)
#define FAKERNIC_QP_ATTR_ACCESS_FLAGS		FAKERNIC_BITS(3, 3)
#define FAKERNIC_QP_ATTR_PKEY_INDEX		FAKERNIC_BITS(4, 4)
#define FAKERNIC_QP_ATTR_PORT			FAKERNIC_BITS(5, 5)
#define FAKERNIC_QP_ATTR_QKEY			FAKERNIC_BITS(6, 6)
#define FAKERNIC_QP_ATTR_AV			FAKERNIC_BITS(7, 7)
#define FAKERNIC_QP_ATTR_PATH_MTU		FAKERNIC_BITS(8, 8)
#define FAKERNIC_QP_ATTR_TIMEOUT		FAKERNIC_BITS(9, 9)
#define FAKERNIC_QP_ATTR_RETRY_CNT		FAKERNIC_BITS(10, 10)
#define FAKERNIC_QP_ATTR_RNR_RETRY		FAKERNIC_BITS(11, 11)
#define FAKERNIC_QP_ATTR_RQ_PSN			FAKERNIC_BITS(12, 12)
#define FAKERNIC_QP_ATTR_MAX_RD_ATOMIC		FAKERNIC_BITS(13, 13)
#define FAKERNIC_QP_ATTR_ALT_PATH		FAKERNIC_BITS(14, 14)
#define FAKERNIC_QP_ATTR_MIN_RNR_TIMER		FAKERNIC_BITS(15, 15)
#define FAKERNIC_QP_ATTR_SQ_PSN			FAKERNIC_BITS(16, 16)
#define FAKERNIC_QP_ATTR_MAX_DEST_RD_ATOMIC	FAKERNIC_BITS(17, 17)
#define FAKERNIC_QP_ATTR_PATH_MIG_STATE		FAKERNIC_BITS(18, 18)
#define FAKERNIC_QP_ATTR_DEST_QPN		FAKERNIC_BITS(20, 20)
#define FAKERNIC_QP_ATTR_RATE_LIMIT		FAKERNIC_BITS(25, 25)

/*
 * HW DATA: address vector. In QP attributes and in UD send WQEs. The source
 * address, source MAC and VLAN come from the GID table entry sgid_index.
 */
struct fakernic_av {
	__u8 dgid[16];		/* IPv4 as ::ffff:a.b.c.d */
	__u8 dmac[6];		/* next hop, resolved by the driver */
	__le16 sgid_index;	/* a valid entry of the GID table */
	__le32 flow_label;	/* 20 bits; IPv6 flow label, and the source of
				 * the UDP source port when udp_sport is 0
				 */
	__u8 traffic_class;	/* IPv4 DSCP/ECN, IPv6 traffic class */
	__u8 hop_limit;		/* IPv4 TTL; 0 is sent as 64 */
	__u8 sl;		/* 0..7, VLAN priority */
	__u8 static_rate;	/* enum ibv_rate, 0: as fast as the port */
	__le16 udp_sport;	/* 0xc000..0xffff, or 0: from the flow label,
				 * else from the QPNs (IBTA A17.9.2)
				 */
	__le16 rsvd;
	__le32 rsvd2;
};
FAKERNIC_SIZE(struct fakernic_av, 40);

/*
 * HW DATA: the attributes of MODIFY_QP and QUERY_QP (IBTA 11.2.5.2, 11.2.5.3).
 */
struct fakernic_qp_attr {
	__u8 state;		/* enum fakernic_qp_state */
	__u8 cur_state;
	__u8 path_mtu;		/* enum fakernic_mtu */
	__u8 path_mig_state;	/* enum fakernic_mig_state */
	__le32 qkey;
	__le32 rq_psn;		/* 24 bits */
	__le32 sq_psn;		/* 24 bits */
	__le32 dest_qpn;	/* 24 bits */
	__le32 access_flags;	/* FAKERNIC_ACCESS_REMOTE_* */
	__le16 pkey_index;
	__le16 alt_pkey_index;
	__u8 port;		/* 1 */
	__u8 alt_port;
	__u8 max_rd_atomic;	/* as initiator, 0..max_rd_atomic */
	__u8 max_dest_rd_atomic;	/* as responder */
	__u8 min_rnr_timer;	/* 5 bits, IBTA table 45 */
	__u8 timeout;		/* 5 bits: 4.096 us << timeout, 0: never */
	__u8 retry_cnt;		/* 3 bits */
	__u8 rnr_retry;		/* 3 bits, 7: no limit */
	__u8 alt_timeout;
	__u8 sqd_async_notify;	/* 0 or 1 */
	__u8 sq_draining;	/* QUERY_QP only: SQD, not yet drained */
	__u8 rsvd;
	__le32 rate_limit_kbps;	/* 0: none */
	struct fakernic_av av;
	struct fakernic_av alt_av;
	__le32 rsvd2[3];
};
FAKERNIC_SIZE(struct fakernic_qp_attr, 136);

#endif
