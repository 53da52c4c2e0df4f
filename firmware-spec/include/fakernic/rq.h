/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Receive queues and shared receive queues: the host produces, the device
 * consumes in order. A ring has slots of one size (rq_log_stride). The producer
 * index is in the doorbell record, and the device reads it when it needs a
 * receive. So posting needs only memory stores: the slot, a write barrier, the
 * index. If a QP is in the error state, the device polls for new receives after
 * FAKERNIC_RQ_FLUSH_INTERVAL_NS. Each poll that finds none doubles the
 * interval, up to FAKERNIC_RQ_FLUSH_INTERVAL_MAX_NS.
 */
#ifndef FAKERNIC_RQ_H
#define FAKERNIC_RQ_H

#include "base.h"

/* HW DATA: a scatter/gather entry. IBTA 10.7.2. */
struct fakernic_sge {
	__le64 address;		/* in the address space of lkey */
	__le32 length;		/* bytes; 0 is 0 */
	__le32 lkey;
};
FAKERNIC_SIZE(struct fakernic_sge, 16);

/*
 * HW DATA: a receive WQE; sge_count entries follow. The device copies it when
 * it starts a message; the slot may be written again once the number of
 * outstanding receives (posted, not yet completed) is below the depth.
 */
struct fakernic_rq_wqe {
	__le32 tag;		/* returned as wqe_index in the CQE; any value */
	__u8 sge_count;		/* 0..what the slot holds */
	__u8 rsvd[11];
	struct fakernic_sge sge[];
};
FAKERNIC_SIZE(struct fakernic_rq_wqe, 16);

#define FAKERNIC_RQ_FLUSH_INTERVAL_NS	10000000
#define FAKERNIC_RQ_FLUSH_INTERVAL_MAX_NS	640000000
#define FAKERNIC_RQ_LOG_STRIDE_MIN	5	/* 1 SGE */
#define FAKERNIC_RQ_LOG_STRIDE_MAX	9	/* 31 SGEs */
#define FAKERNIC_SGE_MAX		30	/* the limit in WRs, SQ and RQ */

#endif
