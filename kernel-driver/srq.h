/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shared receive queues (IBTA 10.2.9) of verbs, users' and the kernel's.
 */
#ifndef FAKERNIC_DRIVER_SRQ_H
#define FAKERNIC_DRIVER_SRQ_H

#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <rdma/ib_verbs.h>
#include "hw.h"
#include "queue.h"

struct ib_umem;

struct fakernic_srq {
	struct ib_srq ibsrq;
	struct fakernic_srq_hw hw;
	struct fakernic_queue queue;	/* a kernel's */
	struct ib_umem *umem;		/* a user's */
	struct mutex resize_lock;	/* umem, a user's: calls may be many */
	u8 log_stride;			/* a user's */
	spinlock_t lock;		/* a kernel's: all below */
	u32 pi;
	u32 free_count;
	u16 *free;			/* stack of slots not in use */
	u32 *tag;			/* slot, turn (odd: posted) */
	u64 *wr_id;			/* by slot */
	u32 max_sge;
};

/* Operations of struct ib_device_ops. Only a user's SRQ can be resized. */
int fakernic_create_srq(struct ib_srq *ibsrq, struct ib_srq_init_attr *attr,
			struct ib_udata *udata);

/*
 * The limit, and the depth of a user's. -EOPNOTSUPP: the depth of a
 * kernel's.
 */
int fakernic_modify_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr,
			enum ib_srq_attr_mask mask, struct ib_udata *udata);

/* Depth and limit as the device has them. */
int fakernic_query_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr);

/* -EBUSY while a QP receives from it. */
int fakernic_destroy_srq(struct ib_srq *ibsrq, struct ib_udata *udata);

/* As fakernic_post_recv(). */
int fakernic_post_srq_recv(struct ib_srq *ibsrq, const struct ib_recv_wr *wr,
			   const struct ib_recv_wr **bad_wr);

/*
 * A receive of a kernel's SRQ is done: its wr_id, and the tag is free again. In
 * any context, without the SRQ's lock; under that of a CQ. False: none of that
 * tag is posted: the device told twice, or of another one.
 */
bool fakernic_srq_complete(struct fakernic_srq *srq, u32 tag, u64 *wr_id);

static inline struct fakernic_srq *to_fakernic_srq(struct ib_srq *ibsrq)
{
	return container_of(ibsrq, struct fakernic_srq, ibsrq);
}

#endif
