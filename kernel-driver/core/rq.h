/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The receive queue of a kernel QP; its slots complete in order.
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
	u32 ci;				/* written under the CQ lock */
	u64 *wr_id;
	u32 max_sge;
};

/* log2 of the slot size in bytes for max_sge SGEs, of an RQ or an SRQ. */
u8 fakernic_rq_log_stride(u32 max_sge);

/*
 * Writes a receive of count SGEs, which must fit into the slot, at index pi.
 * The caller holds the queue's lock and publishes it. The completion returns
 * tag.
 */
void fakernic_rq_write(struct fakernic_queue *queue, u32 pi, u32 tag,
		       const struct ib_sge *sge, u32 count);

/*
 * Operation of struct ib_device_ops, in any context. -EINVAL: in RESET, without
 * a queue, or too many SGEs. -ENOMEM: the queue is full. Requests before bad_wr
 * are posted.
 */
int fakernic_post_recv(struct ib_qp *ibqp, const struct ib_recv_wr *wr,
		       const struct ib_recv_wr **bad_wr);

/*
 * Completes the receive with this tag, its free-running index, and returns its
 * wr_id. Receives before it are dropped too: a fault rule has dropped their
 * completions. False: the tag is not posted, or was completed before, so the
 * CQE is a duplicate or wrong. The caller holds the lock of the receive CQ.
 */
bool fakernic_rq_complete(struct fakernic_rq *rq, u32 tag, u64 *wr_id);

/*
 * The device is dead: completes the oldest receive as flushed. False: there is
 * none. The caller holds the lock of the receive CQ.
 */
bool fakernic_rq_flush_one(struct fakernic_qp *qp, struct ib_wc *wc);

#endif
