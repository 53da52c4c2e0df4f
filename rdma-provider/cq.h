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
	uint32_t told;			/* the last event told of the entry
					 * before it
					 */
	uint32_t armed;			/* where it was armed last */
	uint32_t cqn;
	uint32_t empty_polls;		/* since the last entry */
	atomic_uint events;		/* taken since the last poll */
	bool doubtful;			/* one of several may be the end */
	struct fakernic_cqe *cqe;	/* between start_poll and end_poll */
	_Atomic(pthread_t) poller;	/* who is between them, or 0 */
	struct fakernic_cqe kept;	/* the last one that was taken */
};

/* cqe entries, rounded up to a power of two; the kernel learns the depth. */
struct ibv_cq *fakernic_create_cq(struct ibv_context *context, int cqe,
				  struct ibv_comp_channel *channel,
				  int comp_vector);

/* EOPNOTSUPP: attributes, flags or fields that entries here do not have. */
struct ibv_cq_ex *fakernic_create_cq_ex(struct ibv_context *context,
					struct ibv_cq_init_attr_ex *attr);

/*
 * Entries that were not taken move. EINVAL: they do not fit, or cqe is out
 * of range.
 */
int fakernic_resize_cq(struct ibv_cq *cq, int cqe);

/* EBUSY: queues complete there, or events were not acknowledged. */
int fakernic_destroy_cq(struct ibv_cq *cq);

/*
 * Entries taken, at most count; -EINVAL: the first names no queue of ours. When
 * the device is gone, which who polls in vain finds out, all that is
 * outstanding is flushed (IBTA 10.3.1), but for the receives of SRQs.
 */
int fakernic_poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wc);

/*
 * One event when there is an entry that was neither polled nor told of, at once
 * if there is one already. IBTA 11.4.2.2 asks only for entries to come; cards
 * tell of both. Also between start_poll and end_poll.
 */
int fakernic_req_notify_cq(struct ibv_cq *cq, int solicited_only);

/*
 * An event of this CQ is being taken: it tells of the next entry, if any. Who
 * takes it may be another thread than the one that alone uses a CQ without a
 * lock, for nobody knows whose the next event of a channel is.
 */
void fakernic_cq_event(struct ibv_cq *cq);

/*
 * Locks the CQs of a queue that goes, in an order that cannot deadlock, but for
 * one that this thread has locked by start_poll; they may be one, or NULL.
 */
void fakernic_lock_cqs(struct ibv_cq *one, struct ibv_cq *other);

/* The same without waiting. False: somebody has one; neither is locked. */
bool fakernic_try_lock_cqs(struct ibv_cq *one, struct ibv_cq *other);

/* The same two. */
void fakernic_unlock_cqs(struct ibv_cq *one, struct ibv_cq *other);

/*
 * Take the entries of a QP or WQ, or those of an XRC SRQ, out of a CQ that is
 * locked. The device writes no more of them. Receives of an SRQ give their tags
 * back.
 */
void fakernic_clean_cq_of_qp_locked(struct ibv_cq *cq, uint32_t qpn);

/* Both CQs of a QP, as far as it has them. */
void fakernic_clean_cqs_of_qp_locked(struct ibv_qp *qp);

/* Likewise those of an XRC SRQ, whose tags go with it. */
void fakernic_clean_cq_of_srq_locked(struct ibv_cq *cq, uint32_t srqn);

/*
 * The QP or WQ that had this number, if there still is one, leaves its CQs and
 * its table: the device has destroyed it. The caller holds the mutex of
 * qp_table: whoever destroys it, or gets its number anew, comes first. False:
 * somebody has a CQ of it, who may want that mutex; it is there still.
 */
bool fakernic_try_forget_number_locked(struct fakernic_context *context,
				       uint32_t number);

/* A new QP, found by its number from now on. 0 or ENOMEM. */
int fakernic_enter_qp(struct fakernic_context *context,
		      struct fakernic_qp *qp);

static inline struct fakernic_cq *fakernic_to_cq(struct ibv_cq *cq)
{
	return container_of(cq, struct fakernic_cq, vcq.cq);
}

#endif
