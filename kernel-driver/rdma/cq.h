/* SPDX-License-Identifier: GPL-2.0-only */
/* Completion queues of verbs, for applications and for the kernel. */
#ifndef FAKERNIC_DRIVER_CQ_H
#define FAKERNIC_DRIVER_CQ_H

#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <rdma/ib_verbs.h>
#include "../core/object.h"

struct fakernic_dev;
struct fakernic_qp;
struct ib_umem;

struct fakernic_cq {
	struct ib_cq ibcq;
	struct fakernic_cq_hw hw;
	struct ib_umem *umem;		/* user CQ: its memory; else NULL */
	bool made;			/* user CQ: reported to its user */
	struct mutex resize_lock;	/* umem; serializes user resizes */
	u16 count;			/* moderation: CQEs per event */
	u16 period_us;
	spinlock_t lock;		/* kernel CQ: hw.ci, both lists */
	struct list_head send_qps;	/* kernel QPs that complete here */
	struct list_head recv_qps;
};

/* Operations of struct ib_device_ops. Depths are rounded up to powers of 2. */
int fakernic_create_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
		       struct uverbs_attr_bundle *attrs);

/* Returns -EBUSY while a QP, WQ or SRQ uses the CQ. */
int fakernic_destroy_cq(struct ib_cq *ibcq, struct ib_udata *udata);

/* Moderation: one event per count CQEs, or period_us after the first CQE. */
int fakernic_modify_cq(struct ib_cq *ibcq, u16 count, u16 period_us);

/*
 * User CQs only. No kernel consumer resizes its CQ; supporting that would
 * require polling the old and the new ring.
 */
int fakernic_resize_cq(struct ib_cq *ibcq, unsigned int cqe,
		       struct ib_udata *udata);

/*
 * Kernel CQs only. Returns the number of completions, at most count. Callable
 * in any context.
 */
int fakernic_poll_cq(struct ib_cq *ibcq, int count, struct ib_wc *wc);

/*
 * Kernel CQs only, in any context. If the ring already has a CQE, the device
 * raises the event at once, so no completion is missed. A dead device does
 * not; with IB_CQ_REPORT_MISSED_EVENTS the function then returns 1 if a poll
 * would find or flush something.
 */
int fakernic_req_notify_cq(struct ib_cq *ibcq, enum ib_cq_notify_flags flags);

/*
 * Removes the CQEs of a kernel QP that produces no more of them: sets their QPN
 * to 0, which no QP has, so polling skips them. Receives from an SRQ go back
 * to it. Callable in any context, without the CQ's lock.
 */
void fakernic_cq_clean(struct fakernic_cq *cq, struct fakernic_qp *qp);

/*
 * On a dead device, makes all kernel consumers poll, which flushes their
 * requests. Consumers with IB_POLL_DIRECT poll on their own, and the RDMA core
 * treats an event for them as a bug.
 */
void fakernic_cqs_kick(struct fakernic_dev *dev);

/*
 * On a dead device, wakes all programs that sleep on a completion channel. Each
 * call adds events that use memory until they are read, so calls are few.
 */
void fakernic_cqs_wake_users(struct fakernic_dev *dev);

static inline struct fakernic_cq *to_fakernic_cq(struct ib_cq *ibcq)
{
	return container_of(ibcq, struct fakernic_cq, ibcq);
}

#endif
