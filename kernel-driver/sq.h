/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The send queue of a kernel's QP. Positions are in basic blocks.
 */
#ifndef FAKERNIC_DRIVER_SQ_H
#define FAKERNIC_DRIVER_SQ_H

#include <linux/spinlock.h>
#include <linux/types.h>
#include "queue.h"

struct fakernic_qp;
struct ib_qp;
struct ib_send_wr;
struct ib_wc;

struct fakernic_sq {
	struct fakernic_queue queue;
	spinlock_t lock;		/* pi and the ring */
	u32 pi;
	u32 ci;				/* writer: whoever locks the CQ */
	u64 *wr_id;			/* by position of the first block */
	u8 *bb_count;			/* likewise; of others 0 */
	u32 max_sge;
	u32 max_inline;
	bool signal_all;
};

/*
 * Bytes of the largest WQE of a QP of that type (enum fakernic_qp_type) with so
 * many SGEs or bytes inline.
 */
u32 fakernic_sq_wqe_size(u8 type, u32 max_sge, u32 max_inline);

/*
 * Operation of struct ib_device_ops, in any context. -EINVAL before RTS (IBTA
 * 10.8.2) or for a bad request, -EOPNOTSUPP, -ENOMEM when full; requests before
 * bad_wr are posted.
 */
int fakernic_post_send(struct ib_qp *ibqp, const struct ib_send_wr *wr,
		       const struct ib_send_wr **bad_wr);

/*
 * The request that begins at that position is done, and those before it, which
 * have no completion of their own; its wr_id. False: none begins there that was
 * not done before: the device told twice, or of another one. The caller holds
 * the lock of the send CQ.
 */
bool fakernic_sq_complete(struct fakernic_sq *sq, u32 index, u64 *wr_id);

/*
 * The device is dead: completes the oldest request as flushed. False: there is
 * none. The caller holds the lock of the send CQ.
 */
bool fakernic_sq_flush_one(struct fakernic_qp *qp, struct ib_wc *wc);

#endif
