/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Shared receive queues (IBTA 10.2.9): srq.c is the control path, srq_recv.c
 * posts and completes receives.
 */
#ifndef FAKERNIC_PROVIDER_SRQ_H
#define FAKERNIC_PROVIDER_SRQ_H

#include <stdbool.h>
#include <stdint.h>
#include <infiniband/driver.h>

#include "lock.h"
#include "queue.h"

struct fakernic_srq {
	struct verbs_srq vsrq;
	struct fakernic_queue queue;
	struct fakernic_lock lock;	/* all below except numbers, limits */
	uint64_t *wr_id;		/* by place of the tag */
	uint32_t *tag;			/* likewise: tag in use, or next one */
	uint32_t *free_tag;		/* stack of free tags */
	uint32_t free_count;
	uint32_t tag_count;		/* largest depth so far */
	uint32_t pi;
	uint32_t sge_max;
	uint32_t srqn;
};

/*
 * On success attr has the actual depth and number of SGEs: at least those
 * requested.
 */
struct ibv_srq *fakernic_ucreate_srq(struct ibv_pd *pd,
				     struct ibv_srq_init_attr *attr);

/* Likewise, also for XRC SRQs. EINVAL: a PD, domain or CQ is missing. */
struct ibv_srq *fakernic_ucreate_srq_ex(struct ibv_context *context,
					struct ibv_srq_init_attr_ex *attr);

/* EINVAL: a resize below the number of outstanding receives. */
int fakernic_umodify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr,
			 int mask);

/* Returns the ring's depth and the kernel's limit. */
int fakernic_uquery_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr);

/* Never fails. */
int fakernic_uget_srq_num(struct ibv_srq *srq, uint32_t *srqn);

/*
 * EBUSY: a QP receives from it. Removes the completions of an XRC SRQ from its
 * CQ.
 */
int fakernic_udestroy_srq(struct ibv_srq *srq);

/*
 * Grows the tag arrays to count; the new tags are free. ENOMEM: nothing
 * changed. The caller owns the SRQ or holds its lock.
 */
int fakernic_usrq_add_tags(struct fakernic_srq *srq, uint32_t count);

/*
 * Called for a receive's CQE with its CQ locked: returns the wr_id and frees
 * the tag. False: the tag is not in use.
 */
bool fakernic_usrq_complete(struct fakernic_srq *srq, uint32_t tag,
			    uint64_t *wr_id);

/* As fakernic_urq_post(). */
int fakernic_upost_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr,
			    struct ibv_recv_wr **bad_wr);

static inline struct fakernic_srq *fakernic_to_srq(struct ibv_srq *srq)
{
	return container_of(srq, struct fakernic_srq, vsrq.srq);
}

/* Receives posted and not completed. The lock is held. */
static inline uint32_t fakernic_usrq_outstanding(const struct fakernic_srq *srq)
{
	return srq->tag_count - srq->free_count;
}

#endif
