/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Send queues: the host produces, the device consumes.
 *
 * The ring consists of 64-byte basic blocks. A WQE has bb_count consecutive
 * blocks; the ring may wrap between them. It starts with struct fakernic_sq_hdr
 * and the segment of its opcode. Data segments or, with INLINE, the data follow
 * directly after the segment:
 *
 *   opcode                              segment                      data at
 *   SEND* on RC, UC, XRC, RAW_PACKET    none                              16
 *   SEND, SEND_IMM on UD and GSI        struct fakernic_sq_ud             64
 *   RDMA_WRITE*, RDMA_READ*, FLUSH,     struct fakernic_sq_rdma           32
 *   ATOMIC_WRITE
 *   ATOMIC_*                            struct fakernic_sq_atomic         64
 *   LOCAL_INV                           none (key in imm_or_key)           -
 *   REG_MR                              struct fakernic_sq_reg_mr          -
 *   BIND_MW                             struct fakernic_sq_bind_mw         -
 *
 * The host stores the WQE, stores the producer index into the doorbell record,
 * and rings FAKERNIC_DOORBELL_SQ. The device copies a WQE once and checks the
 * copy. The host may reuse a slot after it has polled the completion of this
 * WQE or of a later one of the same queue.
 */
#ifndef FAKERNIC_SQ_H
#define FAKERNIC_SQ_H

#include "base.h"
#include "qp.h"
#include "rq.h"

#define FAKERNIC_SQ_BB_SHIFT		6
#define FAKERNIC_SQ_BB_SIZE		(1U << FAKERNIC_SQ_BB_SHIFT)
#define FAKERNIC_SQ_WQE_BB_MAX		9
#define FAKERNIC_SQ_WQE_SIZE_MAX	\
	(FAKERNIC_SQ_WQE_BB_MAX * FAKERNIC_SQ_BB_SIZE)
#define FAKERNIC_INLINE_MAX		512	/* bytes */
#define FAKERNIC_TSO_MAX		65557	/* bytes, with headers */
#define FAKERNIC_TSO_HEADERS_MAX	256	/* of these, the headers */
#define FAKERNIC_SQ_DATA_OFFSET_SEND	16
#define FAKERNIC_SQ_DATA_OFFSET_RDMA	32
#define FAKERNIC_SQ_DATA_OFFSET_UD	64
#define FAKERNIC_SQ_DATA_OFFSET_ATOMIC	64

/* IBTA 10.8.2, 11.4.1.1. */
enum fakernic_sq_opcode {
	FAKERNIC_SQ_SEND		= 1,
	FAKERNIC_SQ_SEND_IMM		= 2,
	FAKERNIC_SQ_SEND_INV		= 3,
	FAKERNIC_SQ_RDMA_WRITE		= 4,
	FAKERNIC_SQ_RDMA_WRITE_IMM	= 5,
	FAKERNIC_SQ_RDMA_READ		= 6,
	FAKERNIC_SQ_RDMA_READ_INV	= 7,	/* local key in imm_or_key */
	FAKERNIC_SQ_ATOMIC_CMP_SWAP	= 8,
	FAKERNIC_SQ_ATOMIC_FETCH_ADD	= 9,
	FAKERNIC_SQ_ATOMIC_MASKED_CMP_SWAP	= 10,
	FAKERNIC_SQ_ATOMIC_MASKED_FETCH_ADD	= 11,
	FAKERNIC_SQ_ATOMIC_WRITE	= 12,	/* 8 bytes, inline or one SGE */
	FAKERNIC_SQ_FLUSH		= 13,
	FAKERNIC_SQ_LOCAL_INV		= 14,
	FAKERNIC_SQ_REG_MR		= 15,
	FAKERNIC_SQ_BIND_MW		= 16,
	FAKERNIC_SQ_NOP			= 17,
};

/* HW DATA: the first 16 bytes of every send WQE. */
struct fakernic_sq_hdr {
	__u8 opcode;		/* enum fakernic_sq_opcode */
	__u8 flags;
#define FAKERNIC_SQ_SIGNALED		FAKERNIC_BITS(0, 0)	/* wants a CQE */
#define FAKERNIC_SQ_SOLICITED		FAKERNIC_BITS(1, 1)
#define FAKERNIC_SQ_FENCE		FAKERNIC_BITS(2, 2)
#define FAKERNIC_SQ_INLINE		FAKERNIC_BITS(3, 3)
#define FAKERNIC_SQ_IP_CSUM		FAKERNIC_BITS(4, 4)	/* FEATURE_CSUM */
#define FAKERNIC_SQ_L4_CSUM		FAKERNIC_BITS(5, 5)	/* FEATURE_CSUM */
/* FEATURE_VLAN: */
#define FAKERNIC_SQ_VLAN		FAKERNIC_BITS(6, 6)
	__u8 sge_count;		/* 0 with INLINE */
	__u8 bb_count;		/* 1..FAKERNIC_SQ_WQE_BB_MAX */
	__le16 inline_length;	/* bytes, 0 without INLINE */
	__le16 mss;		/* FEATURE_TSO, SEND on RAW_PACKET: a TCP
				 * segment to be split, number of data bytes in
				 * each part; else 0
				 */
	__le32 imm_or_key;	/* *_IMM: immediate data, its number in host
				 * order of the network-order value;
				 * *_INV, LOCAL_INV: key to invalidate;
				 * VLAN: the tag (TCI)
				 */
	__le32 xrc_srqn;	/* XRC_INI: destination SRQ; else 0 */
};
FAKERNIC_SIZE(struct fakernic_sq_hdr, 16);

/* HW DATA: remote buffer, behind the header. */
struct fakernic_sq_rdma {
	__le64 remote_address;
	__le32 rkey;
	__le32 flush;		/* FLUSH: type and level; else 0 */
#define FAKERNIC_FLUSH_GLOBAL		FAKERNIC_BITS(0, 0)
#define FAKERNIC_FLUSH_PERSISTENT	FAKERNIC_BITS(1, 1)
#define FAKERNIC_FLUSH_LEVEL_MR		FAKERNIC_BITS(4, 4)	/* else a range,
								 * of the length
								 * in an SGE
								 */
};
FAKERNIC_SIZE(struct fakernic_sq_rdma, 16);

/* HW DATA: atomics, behind the header. */
struct fakernic_sq_atomic {
	__le64 remote_address;	/* 8-byte aligned */
	__le32 rkey;
	__le32 rsvd;
	__le64 swap_or_add;
	__le64 compare;		/* *_CMP_SWAP */
	__le64 swap_mask_or_boundary;	/* masked atomics, else 0 */
	__le64 compare_mask;	/* MASKED_CMP_SWAP, else 0 */
};
FAKERNIC_SIZE(struct fakernic_sq_atomic, 48);

/* HW DATA: destination of a datagram, behind the header. */
struct fakernic_sq_ud {
	struct fakernic_av av;
	__le32 dest_qpn;	/* 24 bits */
	__le32 qkey;		/* bit 31 set: use the QP's own */
};
FAKERNIC_SIZE(struct fakernic_sq_ud, 48);

/* HW DATA: fast registration, behind the header. */
struct fakernic_sq_reg_mr {
	__le64 iova;
	__le64 length;		/* bytes */
	__le32 key;		/* index of a FAST_REG key, with its new tag */
	__le32 access;		/* FAKERNIC_ACCESS_* */
	struct fakernic_page_list pages;
	__le64 rsvd;
};
FAKERNIC_SIZE(struct fakernic_sq_reg_mr, 48);

/* HW DATA: memory window binding, behind the header. */
struct fakernic_sq_bind_mw {
	__le64 address;
	__le64 length;		/* bytes; 0 unbinds */
	__le32 mw_key;		/* current rkey of the window */
	__le32 new_key;		/* type 2B: the rkey after binding;
				 * type 1: the device's next tag is
				 * mw_key's tag + 1 and this must be it
				 */
	__le32 mr_key;		/* lkey of the region */
	__le32 access;		/* FAKERNIC_ACCESS_REMOTE_*, ZERO_BASED */
	__le64 rsvd[2];
};
FAKERNIC_SIZE(struct fakernic_sq_bind_mw, 48);

#endif
