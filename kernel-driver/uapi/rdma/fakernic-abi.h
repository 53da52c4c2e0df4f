/*
 * SPDX-License-Identifier: ((GPL-2.0 WITH Linux-syscall-note) OR BSD-2-Clause)
 */
/*
 * The uverbs ABI between the fakernic kernel driver and its rdma-core provider.
 *
 * The kernel's rules apply. Every structure is a multiple of 8 bytes and grows
 * only at its end. 64-bit fields are __aligned_u64. Reserved fields must be
 * zero, or the driver refuses the request. Queue memory has the layout of the
 * hardware interface (fakernic/base.h): the ring, then the doorbell record. It
 * starts on a page boundary. Queue depths are log2.
 */
#ifndef FAKERNIC_ABI_H
#define FAKERNIC_ABI_H

#include <linux/types.h>

#define FAKERNIC_ABI_VERSION	1

/* Methods and attributes of drivers start here: 1 << UVERBS_ID_NS_SHIFT. */
#define FAKERNIC_UVERBS_BASE	0x1000

struct fakernic_uresp_alloc_ucontext {
	__aligned_u64 uar_offset;	/* mmap offset of the doorbell page */
	__aligned_u64 features;		/* FAKERNIC_FEATURE_* in use */
	__aligned_u64 clock_offset;	/* mmap offset of the clock page, or 0 */
	__u32 interface_version;	/* FAKERNIC_REG_INTERFACE_VERSION */
	__u32 max_qp_wr;
	__u32 max_inline;		/* bytes */
	__u16 max_send_sge;
	__u16 max_recv_sge;
	__aligned_u64 wall_offset_ns;	/* Unix time - device clock */
};

/* With UVERBS_METHOD_QUERY_CONTEXT, for a context imported by its fd. */
enum fakernic_query_context_attrs {
	/* out: struct fakernic_uresp_alloc_ucontext, as at the allocation */
	FAKERNIC_ATTR_QUERY_CONTEXT_RESP = FAKERNIC_UVERBS_BASE,
};

struct fakernic_uresp_query_device {
	__u32 rate_limit_min_kbps;	/* both 0: no rate limits */
	__u32 rate_limit_max_kbps;
	__u32 rx_hash_fields;		/* FAKERNIC_HASH_*; 0: no RSS */
	__u8 rx_hash_functions;		/* bits of enum fakernic_hash_function */
	__u8 reserved[3];
};

/*
 * Device memory is mapped from its first byte on, rounded up to whole pages, at
 * the offset that its allocation or query returns.
 */
enum fakernic_alloc_dm_attrs {
	FAKERNIC_ATTR_ALLOC_DM_RESP_OFFSET = FAKERNIC_UVERBS_BASE,
						/* out: u64 */
};

enum fakernic_dm_methods {
	FAKERNIC_METHOD_DM_QUERY = FAKERNIC_UVERBS_BASE,
};

enum fakernic_query_dm_attrs {
	FAKERNIC_ATTR_QUERY_DM_HANDLE = FAKERNIC_UVERBS_BASE,
	FAKERNIC_ATTR_QUERY_DM_RESP_OFFSET,	/* out: u64 */
	FAKERNIC_ATTR_QUERY_DM_RESP_LENGTH,	/* out: u64, bytes */
};

struct fakernic_uresp_alloc_pd {
	__u32 pdn;
	__u32 reserved;
};

struct fakernic_ureq_create_cq {
	__aligned_u64 buf_va;
	__u8 log_depth;
	__u8 reserved[7];
};

struct fakernic_uresp_create_cq {
	__u32 cqn;
	__u32 reserved;
};

struct fakernic_ureq_resize_cq {
	__aligned_u64 buf_va;
	__u8 log_depth;
	__u8 reserved[7];
};

#define FAKERNIC_ABI_QUEUE_NONE	0xff

struct fakernic_ureq_create_qp {
	__aligned_u64 sq_va;
	__aligned_u64 rq_va;
	__u8 sq_log_depth;		/* basic blocks, or QUEUE_NONE */
	__u8 rq_log_depth;		/* slots, or QUEUE_NONE */
	__u8 rq_log_stride;
	__u8 reserved[5];
};

/* Not for XRC_TGT: the core creates it without any driver data. */
struct fakernic_uresp_create_qp {
	__u32 qpn;
	__u32 reserved;
};

struct fakernic_ureq_create_wq {
	__aligned_u64 buf_va;
	__u8 log_depth;
	__u8 log_stride;
	__u8 reserved[6];
};

#define FAKERNIC_ABI_HASH_KEY_SIZE	40

/* In place of fakernic_ureq_create_qp for a QP with an indirection table. */
struct fakernic_ureq_create_rss_qp {
	__u32 rx_hash_fields;		/* FAKERNIC_HASH_* */
	__u8 rx_hash_function;		/* enum fakernic_hash_function */
	__u8 rx_hash_key_len;		/* HASH_KEY_SIZE */
	__u8 reserved[2];
	__u8 rx_hash_key[FAKERNIC_ABI_HASH_KEY_SIZE];
};

struct fakernic_ureq_create_srq {
	__aligned_u64 buf_va;
	__u8 log_depth;
	__u8 log_stride;
	__u8 reserved[6];
};

struct fakernic_uresp_create_srq {
	__u32 srqn;
	__u32 reserved;
};

struct fakernic_ureq_modify_srq {
	__aligned_u64 buf_va;		/* address of the new ring for a resize,
					 * else 0; its record holds the producer
					 * index, which continues
					 */
	__u8 log_depth;
	__u8 reserved[7];
};

struct fakernic_uresp_create_ah {
	__u8 dmac[6];			/* as the kernel resolved it */
	__u16 udp_sport;		/* 0: the device chooses */
};

#endif
