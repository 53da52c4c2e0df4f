/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shared receive queues (IBTA 10.2.9), in user space and in the kernel.
 */
#ifndef FAKERNIC_DRIVER_SRQ_H
#define FAKERNIC_DRIVER_SRQ_H

#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <rdma/ib_verbs.h>
#include "../core/object.h"
#include "../core/queue.h"

struct ib_umem;

struct fakernic_srq {
	struct ib_srq ibsrq;
	struct fakernic_srq_hw hw;
	struct fakernic_queue queue;	/* a kernel's */
	struct ib_umem *umem;		/* a user's */
	struct mutex resize_lock;	/* umem; modify calls may race */
	u8 log_stride;			/* a user's */
	spinlock_t lock;		/* kernel SRQs only: all below */
	u32 pi;
	u32 free_count;
	u16 *free;			/* stack of slots not in use */
	u32 *tag;			/* slot, turn (odd: posted) */
	u64 *wr_id;			/* by slot */
	u32 max_sge;
};

/* Operations of struct ib_device_ops. Only user SRQs can be resized. */
int fakernic_create_srq(struct ib_srq *ibsrq, struct ib_srq_init_attr *attr,
			struct ib_udata *udata);

/*
 * Sets the limit, or the depth of a user SRQ. -EOPNOTSUPP: the depth of a
 * kernel SRQ.
 */
int fakernic_modify_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr,
			enum ib_srq_attr_mask mask, struct ib_udata *udata);

/* Returns depth and limit from the device. */
int fakernic_query_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr);

/* -EBUSY while a QP receives from it. */
int fakernic_destroy_srq(struct ib_srq *ibsrq, struct ib_udata *udata);

/* As fakernic_post_recv(). */
int fakernic_post_srq_recv(struct ib_srq *ibsrq, const struct ib_recv_wr *wr,
			   const struct ib_recv_wr **bad_wr);

/*
 * Completes a receive of a kernel SRQ: returns its wr_id and frees the tag. In
 * any context; the caller holds a CQ's lock, not the SRQ's. False: the tag is
 * not posted, so the CQE is a duplicate or wrong.
 */
bool fakernic_srq_complete(struct fakernic_srq *srq, u32 tag, u64 *wr_id);

static inline struct fakernic_srq *to_fakernic_srq(struct ib_srq *ibsrq)
{
	return container_of(ibsrq, struct fakernic_srq, ibsrq);
}

#endif
