/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The send queue of a kernel QP. Positions count basic blocks.
 */
#ifndef FAKERNIC_DRIVER_SQ_H
#define FAKERNIC_DRIVER_SQ_H

#include <linux/spinlock.h>
#include <linux/types.h>
#include "../core/queue.h"

struct fakernic_qp;
struct ib_qp;
struct ib_send_wr;
struct ib_wc;

struct fakernic_sq {
	struct fakernic_queue queue;
	spinlock_t lock;		/* pi and the ring */
	u32 pi;
	u32 ci;				/* written under the CQ lock */
	u64 *wr_id;			/* by position of the first block */
	u8 *bb_count;			/* likewise; 0 for other blocks */
	u32 max_sge;
	u32 max_inline;
	bool signal_all;
};

/*
 * Size in bytes of the largest WQE of a QP of this type (enum fakernic_qp_type)
 * with max_sge SGEs or max_inline bytes.
 */
u32 fakernic_sq_wqe_size(u8 type, u32 max_sge, u32 max_inline);

/*
 * Operation of struct ib_device_ops, in any context. -EINVAL: before RTS (IBTA
 * 10.8.2), or a bad request. -EOPNOTSUPP: not supported. -ENOMEM: the queue is
 * full. Requests before bad_wr are posted.
 */
int fakernic_post_send(struct ib_qp *ibqp, const struct ib_send_wr *wr,
		       const struct ib_send_wr **bad_wr);

/*
 * Completes the request that begins at this position and all before it, which
 * have no completion of their own; returns its wr_id. False: no outstanding
 * request begins there, so the CQE is a duplicate or wrong. The caller holds
 * the lock of the send CQ.
 */
bool fakernic_sq_complete(struct fakernic_sq *sq, u32 index, u64 *wr_id);

/*
 * The device is dead: completes the oldest request as flushed. False: there is
 * none. The caller holds the lock of the send CQ.
 */
bool fakernic_sq_flush_one(struct fakernic_qp *qp, struct ib_wc *wc);

#endif
