/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Work queues and receive side scaling (FAKERNIC_FEATURE_WQ_RSS). A work queue
 * (WQ) is a receive queue (rq.h) with a state, a PD and a CQ of its own. WQs
 * and QPs share one space of numbers: qpn in a CQE or an event may be a WQ's.
 * An indirection table is a list of WQs; an RSS QP is a raw-packet QP without
 * queues that hands each frame to the WQ that the hash of the frame selects.
 */
#ifndef FAKERNIC_WQ_H
#define FAKERNIC_WQ_H

#include "base.h"

/* The numbers are those of enum ibv_wq_type. */
enum fakernic_wq_type {
	FAKERNIC_WQT_RQ		= 0,
};

/* The numbers are those of enum ibv_wq_state. */
enum fakernic_wq_state {
	FAKERNIC_WQS_RESET	= 0,	/* as created */
	FAKERNIC_WQS_RDY	= 1,
	FAKERNIC_WQS_ERR	= 2,
};

/* CREATE_WQ -> struct fakernic_id: the WQN. HW DATA */
struct fakernic_create_wq_req {
	struct fakernic_page_list pages;
	__u8 type;		/* enum fakernic_wq_type */
	__u8 log_depth;		/* 0..16 */
	__u8 log_stride;	/* RQ_LOG_STRIDE_MIN..MAX */
	__u8 rsvd;
	__le32 pdn;
	__le32 cqn;
	__le32 rsvd2;
};
FAKERNIC_SIZE(struct fakernic_create_wq_req, 32);

/* DESTROY_WQ: struct fakernic_id. MODIFY_WQ. HW DATA */
struct fakernic_modify_wq_req {
	__le32 wqn;
	__u8 state;		/* enum fakernic_wq_state */
	__u8 rsvd[3];
};
FAKERNIC_SIZE(struct fakernic_modify_wq_req, 8);

/*
 * CREATE_IND_TABLE -> struct fakernic_id; DESTROY_IND_TABLE: struct
 * fakernic_id. The WQNs are copied while the command executes; one may occur
 * several times. HW DATA
 */
struct fakernic_create_ind_table_req {
	__le64 address;		/* DMA address of the WQNs, __le32 each; 8-byte
				 * aligned
				 */
	__u8 log_size;		/* 1 << log_size <= max_ind_table_size */
	__u8 rsvd[7];
};
FAKERNIC_SIZE(struct fakernic_create_ind_table_req, 16);

/* The numbers are those of enum ibv_rx_hash_function_flags. */
enum fakernic_hash_function {
	FAKERNIC_HASH_TOEPLITZ	= 1,
};

#define FAKERNIC_HASH_KEY_SIZE	40

/* Fields of a frame; the bits are those of enum ibv_rx_hash_fields. */
#define FAKERNIC_HASH_SRC_IPV4		FAKERNIC_BITS(0, 0)
#define FAKERNIC_HASH_DST_IPV4		FAKERNIC_BITS(1, 1)
#define FAKERNIC_HASH_SRC_IPV6		FAKERNIC_BITS(2, 2)
#define FAKERNIC_HASH_DST_IPV6		FAKERNIC_BITS(3, 3)
#define FAKERNIC_HASH_SRC_PORT_TCP	FAKERNIC_BITS(4, 4)
#define FAKERNIC_HASH_DST_PORT_TCP	FAKERNIC_BITS(5, 5)
#define FAKERNIC_HASH_SRC_PORT_UDP	FAKERNIC_BITS(6, 6)
#define FAKERNIC_HASH_DST_PORT_UDP	FAKERNIC_BITS(7, 7)
#define FAKERNIC_HASH_FIELDS		FAKERNIC_BITS(7, 0)	/* all of them */

/* CREATE_RSS_QP -> struct fakernic_id: the QPN. HW DATA */
struct fakernic_create_rss_qp_req {
	__le32 pdn;
	__le32 table;		/* of CREATE_IND_TABLE */
	__le32 hash_fields;	/* FAKERNIC_HASH_*; 0: all frames have hash 0 */
	__u8 hash_function;	/* enum fakernic_hash_function */
	__u8 rsvd[3];
	__u8 key[FAKERNIC_HASH_KEY_SIZE];
};
FAKERNIC_SIZE(struct fakernic_create_rss_qp_req, 56);

#endif
