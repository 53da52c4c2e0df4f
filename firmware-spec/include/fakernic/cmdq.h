/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The command queue: requests, responses, status codes.
 *
 * Two rings of 1 << CMDQ_LOG_DEPTH entries of 256 bytes. The driver writes a
 * request at producer index pi & (depth - 1) and stores pi + 1 into
 * FAKERNIC_REG_CMDQ_DOORBELL. The device executes requests in order, each once,
 * and writes one completion per request into the completion ring, in order,
 * then raises vector 0. The driver never has more than depth requests without a
 * consumed completion, so neither ring has a consumer index; an index more than
 * depth beyond what was executed is FATAL_CMDQ_OVERRUN. A completion is the
 * driver's when bit 0 of its owner byte differs from that of the previous pass,
 * as in a CQ.
 *
 * A request carries exactly the structure of its opcode; every byte behind it
 * and every reserved field must be zero. A failed command changes nothing.
 */
#ifndef FAKERNIC_CMDQ_H
#define FAKERNIC_CMDQ_H

#include "base.h"
#include "qp.h"

#define FAKERNIC_CMD_PAYLOAD	240

/* HW DATA: an entry of the submission ring. */
struct fakernic_cmd {
	__le16 opcode;		/* enum fakernic_cmd_opcode */
	__le16 rsvd;
	__le32 cookie;		/* returned in the completion */
	__le64 rsvd2;
	__u8 payload[FAKERNIC_CMD_PAYLOAD];	/* struct fakernic_*_req */
};
FAKERNIC_SIZE(struct fakernic_cmd, 256);

/*
 * HW DATA: an entry of the completion ring. The payload is all zero unless
 * status is OK and the opcode has a response structure.
 */
struct fakernic_cmd_completion {
	__le32 cookie;
	__le16 opcode;
	__u8 status;		/* enum fakernic_cmd_status */
	__u8 rsvd;
	__le32 detail;		/* BAD_*: byte offset in the request (from the
				 * opcode) of the field that was refused; else 0
				 */
	__u8 rsvd2[3];
	__u8 owner;		/* bit 0: pass; written last */
	__u8 payload[FAKERNIC_CMD_PAYLOAD];	/* struct fakernic_*_resp */
};
FAKERNIC_SIZE(struct fakernic_cmd_completion, 256);

enum fakernic_cmd_status {
	FAKERNIC_CMD_OK			= 0,
	FAKERNIC_CMD_BAD_OPCODE		= 1,	/* unknown */
	FAKERNIC_CMD_BAD_RESERVED	= 2,	/* a reserved byte is not 0 */
	FAKERNIC_CMD_BAD_PARAM		= 3,	/* a value out of its range */
	FAKERNIC_CMD_BAD_ID		= 4,	/* no such object */
	FAKERNIC_CMD_BAD_STATE		= 5,	/* not in the object's state */
	FAKERNIC_CMD_BUSY		= 6,	/* others still refer to it, or
						 * the only one there may be
						 * exists already
						 */
	FAKERNIC_CMD_NO_RESOURCE	= 7,	/* limit of objects reached */
	FAKERNIC_CMD_BAD_PAGE_LIST	= 8,	/* malformed, or too short */
	FAKERNIC_CMD_DMA_ERROR		= 9,	/* page tables, counters */
	FAKERNIC_CMD_UNSUPPORTED	= 10,	/* needs a feature not taken */
};

enum fakernic_cmd_opcode {
	/* device and port */
	FAKERNIC_CMD_NOP		= 0x01,
	FAKERNIC_CMD_QUERY_DEVICE	= 0x02,
	FAKERNIC_CMD_QUERY_PORT		= 0x03,
	FAKERNIC_CMD_SET_PORT		= 0x04,
	FAKERNIC_CMD_QUERY_STATS	= 0x05,
	FAKERNIC_CMD_SET_GID		= 0x06,
	FAKERNIC_CMD_SET_PKEY		= 0x07,	/* reserved */
	/* event and completion queues */
	FAKERNIC_CMD_CREATE_EQ		= 0x10,
	FAKERNIC_CMD_DESTROY_EQ		= 0x11,
	FAKERNIC_CMD_CREATE_CQ		= 0x18,
	FAKERNIC_CMD_DESTROY_CQ		= 0x19,
	FAKERNIC_CMD_RESIZE_CQ		= 0x1a,
	FAKERNIC_CMD_MODIFY_CQ		= 0x1b,
	/* protection, contexts */
	FAKERNIC_CMD_ALLOC_PD		= 0x20,
	FAKERNIC_CMD_DEALLOC_PD		= 0x21,
	FAKERNIC_CMD_ALLOC_XRCD		= 0x22,
	FAKERNIC_CMD_DEALLOC_XRCD	= 0x23,
	FAKERNIC_CMD_ALLOC_UAR		= 0x24,
	FAKERNIC_CMD_DEALLOC_UAR	= 0x25,
	/* memory */
	FAKERNIC_CMD_CREATE_MR		= 0x28,
	FAKERNIC_CMD_DESTROY_MR		= 0x29,
	FAKERNIC_CMD_REREG_MR		= 0x2a,
	FAKERNIC_CMD_CREATE_MW		= 0x2b,
	FAKERNIC_CMD_DESTROY_MW		= 0x2c,
	/* queue pairs */
	FAKERNIC_CMD_CREATE_QP		= 0x30,
	FAKERNIC_CMD_DESTROY_QP		= 0x31,
	FAKERNIC_CMD_MODIFY_QP		= 0x32,
	FAKERNIC_CMD_QUERY_QP		= 0x33,
	/* shared receive queues */
	FAKERNIC_CMD_CREATE_SRQ		= 0x38,
	FAKERNIC_CMD_DESTROY_SRQ	= 0x39,
	FAKERNIC_CMD_MODIFY_SRQ		= 0x3a,
	FAKERNIC_CMD_QUERY_SRQ		= 0x3b,
	/* multicast */
	FAKERNIC_CMD_ATTACH_MCAST	= 0x40,
	FAKERNIC_CMD_DETACH_MCAST	= 0x41,
	/* flow rules */
	FAKERNIC_CMD_CREATE_FLOW	= 0x48,
	FAKERNIC_CMD_DESTROY_FLOW	= 0x49,
	/* work queues and RSS (wq.h) */
	FAKERNIC_CMD_CREATE_WQ		= 0x50,
	FAKERNIC_CMD_DESTROY_WQ		= 0x51,
	FAKERNIC_CMD_MODIFY_WQ		= 0x52,
	FAKERNIC_CMD_CREATE_IND_TABLE	= 0x53,
	FAKERNIC_CMD_DESTROY_IND_TABLE	= 0x54,
	FAKERNIC_CMD_CREATE_RSS_QP	= 0x55,
	/* on-demand paging */
	FAKERNIC_CMD_QUERY_PAGE_REQUESTS	= 0x60,
	FAKERNIC_CMD_UPDATE_PAGES	= 0x61,
	/* counters bound to QPs */
	FAKERNIC_CMD_CREATE_COUNTER	= 0x68,
	FAKERNIC_CMD_DESTROY_COUNTER	= 0x69,
	FAKERNIC_CMD_SET_QP_COUNTER	= 0x6a,
	FAKERNIC_CMD_QUERY_COUNTER	= 0x6b,
	/* number set aside: device memory */
	FAKERNIC_CMD_RSVD_DM		= 0x58,
	/* fault rules, and the inside of the device as text */
	FAKERNIC_CMD_FAULT		= 0x70,
	FAKERNIC_CMD_DUMP		= 0x71,
	/* vports of the embedded switch (vport.h) */
	FAKERNIC_CMD_SET_VPORT		= 0x78,
	FAKERNIC_CMD_QUERY_VPORT	= 0x79,
	FAKERNIC_CMD_QUERY_VPORT_STATS	= 0x7a,
	FAKERNIC_CMD_RESET_VPORT	= 0x7b,
};

/* NOP: response payload = request payload, all 240 bytes, any content. */

/* QUERY_DEVICE: no request structure. HW DATA */
struct fakernic_query_device_resp {
	__le64 node_guid;	/* EUI-64 of the MAC */
	__le64 max_mr_size;	/* bytes */
	__le64 page_sizes;	/* bit n: pages of 1 << n bytes */
	__le32 max_qp;
	__le32 max_cq;
	__le32 max_eq;
	__le32 max_srq;
	__le32 max_pd;
	__le32 max_xrcd;
	__le32 max_mr;
	__le32 max_mw;
	__le32 max_uar;
	__le32 max_mcast_groups;
	__le32 max_mcast_qps;	/* per group */
	__le32 max_qp_wr;	/* work requests in an SQ, of any size, or RQ */
	__le32 max_cqe;
	__le32 max_srq_wr;
	__le32 max_message_size;	/* bytes */
	__le32 max_fast_reg_pages;
	__le32 max_inline;	/* bytes */
	__le16 max_send_sge;
	__le16 max_recv_sge;
	__le16 max_read_sge;	/* local SGEs of an RDMA READ */
	__le16 gid_count;
	__le16 pkey_count;
	__u8 max_rd_atomic;	/* as initiator, per QP */
	__u8 max_dest_rd_atomic;	/* as responder, per QP */
	__u8 ack_delay;		/* local CA ACK delay, 4.096 us << n */
	__u8 port_count;	/* 1 */
	__u8 max_mtu;		/* enum fakernic_mtu */
	__u8 vector_count;
	__le32 max_flow;	/* flow rules */
	__le32 dm_size;		/* bytes of device memory */
	__le32 rate_limit_min_kbps;	/* of a QP; 0: no limits */
	__le32 rate_limit_max_kbps;
	__le32 max_counter;	/* sets of counters bound to QPs */
	__le32 max_ind_table;	/* indirection tables */
	__le32 max_ind_table_size;	/* entries of one */
};
FAKERNIC_SIZE(struct fakernic_query_device_resp, 136);

/* QUERY_PORT: no request structure. HW DATA */
struct fakernic_query_port_resp {
	__u8 link_up;		/* 0 or 1 */
	__u8 active_mtu;	/* enum fakernic_mtu: the largest that fits */
	__u8 mac[6];		/* the permanent one */
	__le32 speed_mbps;
	__le32 mtu;		/* Ethernet payload, bytes */
	__le32 max_mtu;
	__le32 min_mtu;
	__le32 bad_pkeys;
	__le32 vf_flags;	/* FEATURE_FUNCTION, of a VF: what the PF has
				 * set; else 0
				 */
#define FAKERNIC_PORT_FLAG_TRUSTED	FAKERNIC_BITS(0, 0)
#define FAKERNIC_PORT_FLAG_SPOOF_CHECK	FAKERNIC_BITS(1, 1)
#define FAKERNIC_PORT_FLAG_VLAN	FAKERNIC_BITS(2, 2)	/* has a port VLAN */
#define FAKERNIC_PORT_FLAG_FORCED_UP	FAKERNIC_BITS(3, 3)
#define FAKERNIC_PORT_FLAG_FORCED_DOWN	FAKERNIC_BITS(4, 4)
};
FAKERNIC_SIZE(struct fakernic_query_port_resp, 32);

/* SET_PORT: sets what mask names. HW DATA */
struct fakernic_set_port_req {
	__le32 mask;
#define FAKERNIC_PORT_MTU	FAKERNIC_BITS(0, 0)
#define FAKERNIC_PORT_MAC	FAKERNIC_BITS(1, 1)
#define FAKERNIC_PORT_FILTER	FAKERNIC_BITS(2, 2)
#define FAKERNIC_PORT_QPN	FAKERNIC_BITS(3, 3)
/* FEATURE_VLAN: */
#define FAKERNIC_PORT_VLAN_STRIP	FAKERNIC_BITS(4, 4)
/* FEATURE_PORT_DISABLE: */
#define FAKERNIC_PORT_ENABLED	FAKERNIC_BITS(5, 5)
	__le32 mtu;		/* Ethernet payload, min_mtu..max_mtu */
	__le32 qpn;		/* raw-packet QP that receives what is not
				 * RoCEv2; 0: none
				 */
	__u8 filter;		/* received besides its own MAC address */
#define FAKERNIC_FILTER_BROADCAST	FAKERNIC_BITS(0, 0)
#define FAKERNIC_FILTER_MULTICAST	FAKERNIC_BITS(1, 1)	/* all groups */
#define FAKERNIC_FILTER_PROMISCUOUS	FAKERNIC_BITS(2, 2)
	__u8 vlan_strip;	/* 1: qpn gets frames without their tag */
	__u8 mac[6];		/* unicast filter */
	__u8 enabled;		/* 0: nothing leaves or enters the port */
	__u8 rsvd[7];
};
FAKERNIC_SIZE(struct fakernic_set_port_req, 28);

/* QUERY_STATS: writes min(length / 8, count) counters. HW DATA */
struct fakernic_query_stats_req {
	__le64 address;		/* DMA address, 8-byte aligned */
	__le32 length;		/* bytes, multiple of 8 */
	__le32 rsvd;
};
FAKERNIC_SIZE(struct fakernic_query_stats_req, 16);

/* HW DATA */
struct fakernic_query_stats_resp {
	__le32 count;		/* counters the device has */
	__le32 rsvd;
};
FAKERNIC_SIZE(struct fakernic_query_stats_resp, 8);

/*
 * CREATE_COUNTER: no request structure -> struct fakernic_id; DESTROY_COUNTER:
 * struct fakernic_id (FEATURE_COUNTERS). SET_QP_COUNTER. HW DATA
 */
struct fakernic_set_qp_counter_req {
	__le32 qpn;
	__le32 id;		/* 0: none */
};
FAKERNIC_SIZE(struct fakernic_set_qp_counter_req, 8);

/* QUERY_COUNTER -> struct fakernic_query_stats_resp, as QUERY_STATS. HW DATA */
struct fakernic_query_counter_req {
	__le64 address;		/* DMA address, 8-byte aligned */
	__le32 length;		/* bytes, multiple of 8 */
	__le32 id;
};
FAKERNIC_SIZE(struct fakernic_query_counter_req, 16);

/* The numbers are those of enum rdma_network_type. */
enum fakernic_gid_type {
	FAKERNIC_GID_NONE	= 0,	/* clears the entry */
	FAKERNIC_GID_IPV4	= 2,	/* RoCEv2 over IPv4 */
	FAKERNIC_GID_IPV6	= 3,	/* RoCEv2 over IPv6 */
};

/* SET_GID: one entry of the GID table. HW DATA */
struct fakernic_set_gid_req {
	__le16 index;		/* < gid_count */
	__u8 type;		/* enum fakernic_gid_type */
	__u8 rsvd;
	__le16 vlan;		/* VLAN id, or FAKERNIC_VLAN_NONE */
#define FAKERNIC_VLAN_NONE	0xffff
	__u8 mac[6];		/* source MAC of frames from this GID */
	__u8 gid[16];		/* IPv4 as ::ffff:a.b.c.d */
	__le32 rsvd2;
};
FAKERNIC_SIZE(struct fakernic_set_gid_req, 32);

/* CREATE_EQ. HW DATA */
struct fakernic_create_eq_req {
	struct fakernic_page_list pages;
	__u8 log_depth;		/* 4..FAKERNIC_QUEUE_LOG_DEPTH_MAX */
	__u8 rsvd;
	__le16 vector;		/* < vector_count */
	__u8 async;		/* 1: for asynchronous events; one EQ only */
	__u8 rsvd2[3];
};
FAKERNIC_SIZE(struct fakernic_create_eq_req, 24);

/* HW DATA: a new object's number; requests that carry one and nothing else. */
struct fakernic_id {
	__le32 id;		/* eqn, cqn, pdn, xrcdn, uar, qpn, srqn, key */
	__le32 rsvd;
};
FAKERNIC_SIZE(struct fakernic_id, 8);

/* CREATE_CQ -> struct fakernic_id. HW DATA */
struct fakernic_create_cq_req {
	struct fakernic_page_list pages;
	__u8 log_depth;		/* 1..FAKERNIC_QUEUE_LOG_DEPTH_MAX; with
				 * FEATURE_DEEP_CQ 1..FAKERNIC_CQ_LOG_DEPTH_MAX
				 */
	__u8 flags;
#define FAKERNIC_CQ_IGNORE_OVERRUN	FAKERNIC_BITS(0, 0)
	__le16 rsvd;
	__le32 uar;		/* doorbell page that arms it */
	__le32 eqn;		/* FAKERNIC_EVENT_COMPLETION goes here */
	__le32 rsvd2;
};
FAKERNIC_SIZE(struct fakernic_create_cq_req, 32);

/*
 * RESIZE_CQ (FEATURE_RESIZE_CQ): moves to a new ring, which the device fills
 * with the entries not yet consumed, from index 0 on; the doorbell record of
 * the old ring says which they are. HW DATA
 */
struct fakernic_resize_cq_req {
	struct fakernic_page_list pages;
	__le32 cqn;
	__u8 log_depth;
	__u8 rsvd[3];
};
FAKERNIC_SIZE(struct fakernic_resize_cq_req, 24);

/* HW DATA: MODIFY_CQ: an event per count entries or period. */
struct fakernic_modify_cq_req {
	__le32 cqn;
	__le16 count;		/* entries; 0, 1: an event for each */
	__le16 period_us;	/* that the first waits at most; 0: no limit */
};
FAKERNIC_SIZE(struct fakernic_modify_cq_req, 8);

/* CREATE_MR -> struct fakernic_id: the key. HW DATA */
struct fakernic_create_mr_req {
	__le64 iova;		/* first address; low page_shift bits are the
				 * offset into the first page
				 */
	__le64 length;		/* bytes, 1..max_mr_size, DM: 0..;
				 * ON_DEMAND: 1..2^64 - 1; DMA, NULL: 0
				 */
	struct fakernic_page_list pages;	/* MEMORY; DM: levels 0, 4 KiB
						 * pages, address is a byte
						 * offset; ON_DEMAND:
						 * page_shift only;
						 * else zero
						 */
	__le32 pdn;
	__le32 access;		/* FAKERNIC_ACCESS_* */
	__u8 type;		/* enum fakernic_mr_type */
	__u8 tag;		/* low byte of the key */
	__le16 rsvd;
	__le32 max_pages;	/* FAST_REG: 1..max_fast_reg_pages, else 0 */
};
FAKERNIC_SIZE(struct fakernic_create_mr_req, 48);

/* DESTROY_MR, DESTROY_MW and REREG_MR use only the index of the key. */

/* HW DATA: pages of an ON_DEMAND region that the device requests. */
struct fakernic_page_request {
	__le64 address;		/* in the region's addresses, any */
	__le64 length;		/* bytes */
	__le32 key;
	__le32 flags;
#define FAKERNIC_PAGE_REQUEST_WRITE	FAKERNIC_BITS(0, 0)
};
FAKERNIC_SIZE(struct fakernic_page_request, 24);

#define FAKERNIC_PAGE_REQUESTS_MAX	9	/* in one answer */

/* QUERY_PAGE_REQUESTS, no request structure (FEATURE_ODP): takes requests off
 * the device's list. HW DATA
 */
struct fakernic_query_page_requests_resp {
	__le32 count;		/* 0: there are no more */
	__le32 rsvd;
	struct fakernic_page_request request[FAKERNIC_PAGE_REQUESTS_MAX];
};
FAKERNIC_SIZE(struct fakernic_query_page_requests_resp, 224);

/* UPDATE_PAGES (FEATURE_ODP). HW DATA */
struct fakernic_update_pages_req {
	struct fakernic_page_list pages;	/* PRESENT: of the region's page
						 * size; else page_count only
						 */
	__le64 address;		/* of the first page, as the region has it */
	__le32 key;
	__le32 flags;		/* one of PRESENT, ABSENT, REFUSED */
#define FAKERNIC_PAGES_PRESENT		FAKERNIC_BITS(0, 0)
#define FAKERNIC_PAGES_WRITABLE		FAKERNIC_BITS(1, 1) /* with PRESENT */
#define FAKERNIC_PAGES_ABSENT		FAKERNIC_BITS(2, 2)
#define FAKERNIC_PAGES_REFUSED		FAKERNIC_BITS(3, 3)
};
FAKERNIC_SIZE(struct fakernic_update_pages_req, 32);

#define FAKERNIC_UPDATE_PAGES_MAX	65536	/* PRESENT, REFUSED */

/* REREG_MR -> struct fakernic_id: the key (FEATURE_REREG_MR). HW DATA */
struct fakernic_rereg_mr_req {
	__le64 iova;
	__le64 length;
	struct fakernic_page_list pages;
	__le32 pdn;
	__le32 access;
	__le32 key;
	__le32 mask;
#define FAKERNIC_REREG_TRANSLATION	FAKERNIC_BITS(0, 0)
#define FAKERNIC_REREG_PD		FAKERNIC_BITS(1, 1)
#define FAKERNIC_REREG_ACCESS		FAKERNIC_BITS(2, 2)
};
FAKERNIC_SIZE(struct fakernic_rereg_mr_req, 48);

/* CREATE_MW -> struct fakernic_id: the rkey. HW DATA */
struct fakernic_create_mw_req {
	__le32 pdn;
	__u8 type;		/* enum fakernic_mw_type */
	__u8 tag;
	__le16 rsvd;
};
FAKERNIC_SIZE(struct fakernic_create_mw_req, 8);

/* CREATE_QP -> struct fakernic_id: the QPN. HW DATA */
struct fakernic_create_qp_req {
	struct fakernic_page_list sq_pages;	/* 0: sq_log_depth is 0xff */
	struct fakernic_page_list rq_pages;	/* 0: rq_log_depth is 0xff */
	__u8 type;		/* enum fakernic_qp_type */
	__u8 sq_log_depth;	/* in basic blocks, 0..16; NONE: no SQ */
	__u8 rq_log_depth;	/* in slots, 0..16; NONE: no RQ, or an SRQ */
#define FAKERNIC_QUEUE_NONE	0xff
	__u8 rq_log_stride;	/* RQ_LOG_STRIDE_MIN..MAX; without RQ 0 */
	__le32 pdn;		/* XRC_TGT: 0, the SRQ's counts */
	__le32 send_cqn;	/* also without an SQ; XRC_TGT: 0 */
	__le32 recv_cqn;	/* XRC_INI, XRC_TGT: 0 */
	__le32 srqn;		/* 0: none */
	__le32 xrcdn;		/* XRC_TGT, else 0 */
	__le32 uar;		/* doorbell page that rings its SQ;
				 * XRC_TGT: 0
				 */
	__u8 flags;		/* FEATURE_BLOCK_MCAST_LB, UD; else 0 */
#define FAKERNIC_QP_BLOCK_MCAST_LB	FAKERNIC_BITS(0, 0)
	__u8 rsvd[3];
};
FAKERNIC_SIZE(struct fakernic_create_qp_req, 64);

/* MODIFY_QP. HW DATA */
struct fakernic_modify_qp_req {
	__le32 qpn;
	__le32 mask;		/* FAKERNIC_QP_ATTR_* */
	struct fakernic_qp_attr attr;	/* what mask does not name is ignored */
};
FAKERNIC_SIZE(struct fakernic_modify_qp_req, 144);

/* QUERY_QP: struct fakernic_id -> struct fakernic_qp_attr. */

/* CREATE_SRQ -> struct fakernic_id. HW DATA */
struct fakernic_create_srq_req {
	struct fakernic_page_list pages;
	__u8 log_depth;		/* 0..16 */
	__u8 log_stride;
	__le16 rsvd;
	__le32 pdn;
	__le32 xrcdn;		/* XRC SRQ, else 0 */
	__le32 cqn;		/* XRC SRQ, else 0 */
	__le32 limit;		/* SRQ_LIMIT when fewer are left; 0: never */
	__le32 rsvd2;
};
FAKERNIC_SIZE(struct fakernic_create_srq_req, 40);

/*
 * MODIFY_SRQ. RESIZE (FEATURE_RESIZE_SRQ): the host stops posting and stores
 * its producer index into the new ring's record, too. The device copies the
 * receives that it has not taken to the same indices of the new ring. After
 * the command the host posts to the new ring, from that index on. HW DATA
 */
struct fakernic_modify_srq_req {
	struct fakernic_page_list pages;	/* with RESIZE, else zero */
	__le32 srqn;
	__u8 mask;
#define FAKERNIC_SRQ_LIMIT	FAKERNIC_BITS(0, 0)
#define FAKERNIC_SRQ_RESIZE	FAKERNIC_BITS(1, 1)
	__u8 log_depth;		/* with RESIZE; the stride stays */
	__le16 rsvd;
	__le32 limit;		/* with LIMIT: arms one SRQ_LIMIT event */
	__le32 rsvd2;
};
FAKERNIC_SIZE(struct fakernic_modify_srq_req, 32);

/* QUERY_SRQ: struct fakernic_id -> HW DATA */
struct fakernic_query_srq_resp {
	__le32 limit;		/* 0 when not armed */
	__le32 depth;
};
FAKERNIC_SIZE(struct fakernic_query_srq_resp, 8);

/* ATTACH_MCAST, DETACH_MCAST. HW DATA */
struct fakernic_mcast_req {
	__u8 gid[16];		/* multicast GID, IPv4 as ::ffff:a.b.c.d */
	__le32 qpn;		/* UD */
	__le32 rsvd;
};
FAKERNIC_SIZE(struct fakernic_mcast_req, 24);

/* The numbers are those of enum ibv_flow_attr_type. */
enum fakernic_flow_type {
	FAKERNIC_FLOW_NORMAL		= 0,	/* frames that match */
	FAKERNIC_FLOW_ALL_DEFAULT	= 1,	/* frames without a taker */
	FAKERNIC_FLOW_MC_DEFAULT	= 2,	/* of these, the multicast */
	FAKERNIC_FLOW_SNIFFER		= 3,	/* a copy of every frame */
};

/* Headers that a frame must have to match a rule. */
#define FAKERNIC_FLOW_VLAN	FAKERNIC_BITS(0, 0)	/* one 802.1Q tag */
#define FAKERNIC_FLOW_IPV4	FAKERNIC_BITS(1, 1)
#define FAKERNIC_FLOW_IPV6	FAKERNIC_BITS(2, 2)
#define FAKERNIC_FLOW_TCP	FAKERNIC_BITS(3, 3)	/* with IPV4 or IPV6 */
#define FAKERNIC_FLOW_UDP	FAKERNIC_BITS(4, 4)	/* with IPV4 or IPV6 */

/* HW DATA: fields of a frame, or a mask for them; numbers in host order. */
struct fakernic_flow_match {
	__u8 dmac[6];
	__u8 smac[6];
	__le16 ethertype;	/* behind a VLAN tag */
	__le16 vlan;		/* TCI; VLAN */
	__u8 src_ip[16];	/* IPV4: in the last 4 bytes; IPV6 */
	__u8 dst_ip[16];
	__le32 flow_label;	/* IPV6 */
	__le16 src_port;	/* TCP, UDP */
	__le16 dst_port;
	__u8 protocol;		/* IPv4 protocol, IPv6 next header */
	__u8 tos;		/* IPv4 TOS, IPv6 traffic class */
	__u8 ttl;		/* IPv4 TTL, IPv6 hop limit */
	__u8 rsvd[5];
};
FAKERNIC_SIZE(struct fakernic_flow_match, 64);

/* CREATE_FLOW -> struct fakernic_id (FEATURE_FLOW). HW DATA */
struct fakernic_create_flow_req {
	__le32 qpn;		/* RAW_PACKET; with DROP 0 */
	__le16 priority;	/* NORMAL: lower is evaluated first; else 0 */
	__u8 type;		/* enum fakernic_flow_type */
	__u8 flags;		/* NORMAL, else 0 */
#define FAKERNIC_FLOW_DROP	FAKERNIC_BITS(0, 0)
#define FAKERNIC_FLOW_DONT_TRAP	FAKERNIC_BITS(1, 1)	/* gets a copy; later
							 * rules also apply
							 */
	__le32 layers;		/* NORMAL: FAKERNIC_FLOW_VLAN..UDP, else 0 */
	__le32 rsvd;
	struct fakernic_flow_match value;	/* NORMAL, else zero; no bit
						 * outside mask
						 */
	struct fakernic_flow_match mask;
};
FAKERNIC_SIZE(struct fakernic_create_flow_req, 144);

/* DESTROY_FLOW: struct fakernic_id (FEATURE_FLOW). */

/* FAULT (FEATURE_FAULTS): fault rules, in words. HW DATA */
struct fakernic_fault_req {
	__u8 rules[FAKERNIC_CMD_PAYLOAD];	/* text; zeros behind it */
};
FAKERNIC_SIZE(struct fakernic_fault_req, 240);

/* What DUMP can describe. */
enum fakernic_dump_kind {
	FAKERNIC_DUMP_QP	= 1,	/* id: qpn or wqn */
	FAKERNIC_DUMP_CQ	= 2,	/* cqn */
	FAKERNIC_DUMP_SRQ	= 3,	/* srqn */
	FAKERNIC_DUMP_EQ	= 4,	/* eqn */
	FAKERNIC_DUMP_KEY	= 5,	/* key, of any tag */
	FAKERNIC_DUMP_RECORDER	= 16,	/* 0; the last actions of the device,
					 * or those before its first error
					 */
	FAKERNIC_DUMP_FAULTS	= 17,	/* 0; fault rules and their hits */
};

/*
 * DUMP (FEATURE_DUMP): writes human-readable text: min(length, size - first)
 * bytes of it, from byte 'first' on. With 'first' 0 the device makes a new
 * text. Otherwise it writes a later part of the last text. HW DATA
 */
struct fakernic_dump_req {
	__le64 address;		/* DMA address */
	__le32 length;		/* bytes, 0..FAKERNIC_DUMP_LENGTH_MAX */
#define FAKERNIC_DUMP_LENGTH_MAX	65536
	__le32 first;
	__le32 id;
	__u8 kind;		/* enum fakernic_dump_kind */
	__u8 rsvd[3];
};
FAKERNIC_SIZE(struct fakernic_dump_req, 24);

/* HW DATA */
struct fakernic_dump_resp {
	__le32 size;		/* of the whole text */
	__le32 written;
};
FAKERNIC_SIZE(struct fakernic_dump_resp, 8);

#endif
