/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The receive queue of a kernel's QP; its slots complete in order.
 */
#ifndef FAKERNIC_DRIVER_RQ_H
#define FAKERNIC_DRIVER_RQ_H

#include <linux/spinlock.h>
#include <linux/types.h>
#include "queue.h"

struct fakernic_qp;
struct ib_qp;
struct ib_recv_wr;
struct ib_sge;
struct ib_wc;

struct fakernic_rq {
	struct fakernic_queue queue;
	spinlock_t lock;		/* pi and the ring */
	u32 pi;
	u32 ci;				/* writer: whoever locks the CQ */
	u64 *wr_id;
	u32 max_sge;
};

/* log2 of the bytes of a slot with so many SGEs, of an RQ or an SRQ. */
u8 fakernic_rq_log_stride(u32 max_sge);

/*
 * Writes a receive of count SGEs, which the slot has room for, at index pi. The
 * caller holds the queue's lock and publishes it. tag: for its completion.
 */
void fakernic_rq_write(struct fakernic_queue *queue, u32 pi, u32 tag,
		       const struct ib_sge *sge, u32 count);

/*
 * Operation of struct ib_device_ops, in any context. -EINVAL in RESET, without
 * a queue, or with too many SGEs; -ENOMEM when full; requests before bad_wr
 * are posted.
 */
int fakernic_post_recv(struct ib_qp *ibqp, const struct ib_recv_wr *wr,
		       const struct ib_recv_wr **bad_wr);

/*
 * The receive of that tag, its free-running index, is done; its wr_id. Those
 * before it are lost, of which a fault rule took the completions. False: it is
 * not posted, or was done before: the device told twice, or of another one. The
 * caller holds the lock of the receive CQ.
 */
bool fakernic_rq_complete(struct fakernic_rq *rq, u32 tag, u64 *wr_id);

/*
 * The device is dead: completes the oldest slot as flushed. False: there is
 * none. The caller holds the lock of the receive CQ.
 */
bool fakernic_rq_flush_one(struct fakernic_qp *qp, struct ib_wc *wc);

#endif
