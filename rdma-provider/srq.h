/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Shared receive queues (IBTA 10.2.9): srq.c is their life, srq_recv.c their
 * receives.
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
	struct fakernic_lock lock;	/* all below but numbers and limits */
	uint64_t *wr_id;		/* by place of the tag */
	uint32_t *tag;			/* likewise: the one in use, or next */
	uint32_t *free_tag;		/* stack of the tags not in use */
	uint32_t free_count;
	uint32_t tag_count;		/* the largest depth it ever had */
	uint32_t pi;
	uint32_t sge_max;
	uint32_t srqn;
};

/*
 * On success attr has the depth and the entries it got: at least what was
 * asked.
 */
struct ibv_srq *fakernic_create_srq(struct ibv_pd *pd,
				    struct ibv_srq_init_attr *attr);

/* Likewise; XRC SRQs, too. EINVAL: a PD, domain or CQ is missing. */
struct ibv_srq *fakernic_create_srq_ex(struct ibv_context *context,
				       struct ibv_srq_init_attr_ex *attr);

/* EINVAL: a resize to less than is outstanding. */
int fakernic_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr,
			int mask);

/* The depth is the ring's, the limit the kernel's. */
int fakernic_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr);

/* Never fails. */
int fakernic_get_srq_num(struct ibv_srq *srq, uint32_t *srqn);

/*
 * EBUSY: a QP receives from it. Of an XRC SRQ, its completions leave their
 * CQ.
 */
int fakernic_destroy_srq(struct ibv_srq *srq);

/*
 * Makes room for the tags up to count and has the new ones free. ENOMEM: it has
 * those that it had. The caller has the SRQ to itself, or its lock.
 */
int fakernic_srq_add_tags(struct fakernic_srq *srq, uint32_t count);

/*
 * A receive's CQE was taken from its CQ, which is locked: its wr_id; frees its
 * tag. False: it is not in use, or no more.
 */
bool fakernic_srq_complete(struct fakernic_srq *srq, uint32_t tag,
			   uint64_t *wr_id);

/* As fakernic_rq_post(). */
int fakernic_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr,
			   struct ibv_recv_wr **bad_wr);

static inline struct fakernic_srq *fakernic_to_srq(struct ibv_srq *srq)
{
	return container_of(srq, struct fakernic_srq, vsrq.srq);
}

/* Receives posted and not completed. Under the lock. */
static inline uint32_t fakernic_srq_outstanding(const struct fakernic_srq *srq)
{
	return srq->tag_count - srq->free_count;
}

#endif
