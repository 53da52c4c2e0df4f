/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Completion queues of verbs, users' and the kernel's.
 */
#ifndef FAKERNIC_DRIVER_CQ_H
#define FAKERNIC_DRIVER_CQ_H

#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <rdma/ib_verbs.h>
#include "hw.h"

struct fakernic_dev;
struct fakernic_qp;
struct ib_umem;

struct fakernic_cq {
	struct ib_cq ibcq;
	struct fakernic_cq_hw hw;
	struct ib_umem *umem;		/* a user's */
	bool made;			/* a user's: it has heard of it */
	struct mutex resize_lock;	/* umem, a user's: calls may be many */
	u16 count;			/* moderation: entries for an event */
	u16 period_us;
	spinlock_t lock;		/* a kernel's: hw.ci, the lists */
	struct list_head send_qps;	/* kernel QPs that complete here */
	struct list_head recv_qps;
};

/*
 * Operations of struct ib_device_ops. Depths are rounded up to powers of two.
 */
int fakernic_create_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
		       struct uverbs_attr_bundle *attrs);

/* -EBUSY while a QP, WQ or SRQ completes there. */
int fakernic_destroy_cq(struct ib_cq *ibcq, struct ib_udata *udata);

/* Moderation: one event for count entries, or period_us after the first. */
int fakernic_modify_cq(struct ib_cq *ibcq, u16 count, u16 period_us);

/* A user's only: no kernel consumer resizes, and would have to poll both. */
int fakernic_resize_cq(struct ib_cq *ibcq, unsigned int cqe,
		       struct ib_udata *udata);

/* A kernel's CQ, in any context: the number of entries taken, at most count. */
int fakernic_poll_cq(struct ib_cq *ibcq, int count, struct ib_wc *wc);

/*
 * Likewise. The device raises the event at once when there already is an entry,
 * so that none is ever missed. A dead one does not: with
 * IB_CQ_REPORT_MISSED_EVENTS 1 says that polling will flush something.
 */
int fakernic_req_notify_cq(struct ib_cq *ibcq, enum ib_cq_notify_flags flags);

/*
 * Removes the entries of a kernel's QP that will not produce any more: they are
 * given to QP 0, which is nobody, and polling passes over them. Receives of a
 * shared queue go back to it. In any context, without the CQ's lock.
 */
void fakernic_cq_clean(struct fakernic_cq *cq, struct fakernic_qp *qp);

/*
 * The device is dead: has all kernel consumers poll, for what polling then
 * flushes. Those that poll of their own accord (IB_POLL_DIRECT) are left alone:
 * to the core an event for them is a bug.
 */
void fakernic_cqs_kick(struct fakernic_dev *dev);

/*
 * The device is dead: has all programs poll that sleep on a completion channel.
 * Once for each death, as every event takes memory until it is read.
 */
void fakernic_cqs_wake_users(struct fakernic_dev *dev);

static inline struct fakernic_cq *to_fakernic_cq(struct ib_cq *ibcq)
{
	return container_of(ibcq, struct fakernic_cq, ibcq);
}

#endif
