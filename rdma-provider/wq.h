/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Work queues, indirection tables and RSS QPs.
 */
#ifndef FAKERNIC_PROVIDER_WQ_H
#define FAKERNIC_PROVIDER_WQ_H

#include <infiniband/driver.h>

#include "rq.h"

/* A receive queue without a QP; numbered like a QP. */
struct fakernic_wq {
	struct ibv_wq wq;
	struct fakernic_rq rq;
};

/* On success attr has the actual sizes: at least those requested. */
struct ibv_wq *fakernic_ucreate_wq(struct ibv_context *context,
				   struct ibv_wq_init_attr *attr);

/* RESET removes its completions from their CQ and empties it. */
int fakernic_umodify_wq(struct ibv_wq *wq, struct ibv_wq_attr *attr);

/* EBUSY: a table uses it. Removes its completions from their CQ. */
int fakernic_udestroy_wq(struct ibv_wq *wq);

/* EINVAL: more entries than the kernel supports (2^13). */
struct ibv_rwq_ind_table *
fakernic_ucreate_rwq_ind_table(struct ibv_context *context,
			       struct ibv_rwq_ind_table_init_attr *attr);

/* EBUSY: a QP uses it. */
int fakernic_udestroy_rwq_ind_table(struct ibv_rwq_ind_table *table);

/* Part of fakernic_ucreate_qp_ex(): attr has a table or a hash. */
struct ibv_qp *fakernic_ucreate_rss_qp(struct ibv_context *context,
				       struct ibv_qp_init_attr_ex *attr);

static inline struct fakernic_wq *fakernic_to_wq(struct ibv_wq *wq)
{
	return container_of(wq, struct fakernic_wq, wq);
}

#endif
