/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Completion queues (IBTA 11.4.2).
 */
#ifndef FAKERNIC_PROVIDER_CQ_H
#define FAKERNIC_PROVIDER_CQ_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <infiniband/driver.h>

#include "fakernic/cq.h"
#include "lock.h"
#include "queue.h"

struct fakernic_context;
struct fakernic_qp;

struct fakernic_cq {
	struct verbs_cq vcq;
	struct fakernic_queue queue;
	struct fakernic_lock lock;
	uint32_t ci;
	uint32_t reported;		/* index after the entry that the last
					 * event reported
					 */
	uint32_t armed;			/* index at the last arm */
	uint32_t cqn;
	uint32_t empty_polls;		/* since the last entry */
	atomic_uint events;		/* taken since the last poll */
	bool may_be_gone;		/* an event may mean: device gone */
	struct fakernic_cqe *cqe;	/* between start_poll and end_poll */
	_Atomic(pthread_t) poller;	/* thread between them, or 0 */
	struct fakernic_cqe cqe_copy;	/* copy of the last entry taken */
};

/* cqe is rounded up to a power of two; the kernel learns the depth. */
struct ibv_cq *fakernic_ucreate_cq(struct ibv_context *context, int cqe,
				   struct ibv_comp_channel *channel,
				   int comp_vector);

/* EOPNOTSUPP: attributes, flags or fields that the device lacks. */
struct ibv_cq_ex *fakernic_ucreate_cq_ex(struct ibv_context *context,
					 struct ibv_cq_init_attr_ex *attr);

/*
 * Entries that were not polled are kept. EINVAL: they do not fit, or cqe is out
 * of range.
 */
int fakernic_uresize_cq(struct ibv_cq *cq, int cqe);

/* EBUSY: a queue uses it, or events were not acknowledged. */
int fakernic_udestroy_cq(struct ibv_cq *cq);

/*
 * Returns the number of entries, at most count. -EINVAL: the first one names no
 * queue of this context. Repeated empty polls detect that the device is gone.
 * Then all outstanding WRs are flushed (IBTA 10.3.1), except for receives of
 * SRQs.
 */
int fakernic_upoll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wc);

/*
 * Requests one event for an entry that was neither polled nor reported by an
 * event; at once if there is one already. IBTA 11.4.2.2 asks only for events of
 * future entries; real cards report both. May be called between start_poll and
 * end_poll.
 */
int fakernic_ureq_notify_cq(struct ibv_cq *cq, int solicited_only);

/*
 * Called when an event of this CQ is taken: the event reports the next entry,
 * if any. On a CQ without a lock the calling thread may differ from the one
 * that uses the CQ, because any thread may take the next event of a channel.
 */
void fakernic_ucq_event(struct ibv_cq *cq);

/*
 * Locks the CQs of a queue that is being destroyed, in an order that cannot
 * deadlock. Skips a CQ that this thread has locked by start_poll. Both may be
 * the same, or NULL.
 */
void fakernic_lock_cqs(struct ibv_cq *one, struct ibv_cq *other);

/* The same without waiting. False: one is taken; neither is locked. */
bool fakernic_try_lock_cqs(struct ibv_cq *one, struct ibv_cq *other);

/* Unlocks the same CQs. */
void fakernic_unlock_cqs(struct ibv_cq *one, struct ibv_cq *other);

/*
 * Removes the entries of a QP or WQ from a locked CQ. The device must write no
 * more of them. Receives of an SRQ return their tags.
 */
void fakernic_clean_cq_of_qp_locked(struct ibv_cq *cq, uint32_t qpn);

/* The same for both CQs of a QP; it may lack either. */
void fakernic_clean_cqs_of_qp_locked(struct ibv_qp *qp);

/* The same for an XRC SRQ, whose tags are freed with it. */
void fakernic_clean_cq_of_srq_locked(struct ibv_cq *cq, uint32_t srqn);

/*
 * Removes the QP or WQ with this number, if there is one, from its CQs and its
 * table: the device has destroyed it. Called when it is destroyed, or earlier
 * if a new object gets its number. The caller holds the mutex of qp_table.
 * False: another thread holds one of its CQs and may want that mutex; nothing
 * was removed.
 */
bool fakernic_try_forget_number_locked(struct fakernic_context *context,
				       uint32_t number);

/* Makes a new QP available by its number. 0 or ENOMEM. */
int fakernic_enter_qp(struct fakernic_context *context,
		      struct fakernic_qp *qp);

static inline struct fakernic_cq *fakernic_to_cq(struct ibv_cq *cq)
{
	return container_of(cq, struct fakernic_cq, vcq.cq);
}

#endif
