/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Work queues, indirection tables and RSS QPs.
 */
#ifndef FAKERNIC_PROVIDER_WQ_H
#define FAKERNIC_PROVIDER_WQ_H

#include <infiniband/driver.h>

#include "rq.h"

/* A receive queue that is not of a QP; its number is like a QP's. */
struct fakernic_wq {
	struct ibv_wq wq;
	struct fakernic_rq rq;
};

/* On success attr's sizes are those it got: at least what was asked. */
struct ibv_wq *fakernic_create_wq(struct ibv_context *context,
				  struct ibv_wq_init_attr *attr);

/* To RESET: its completions leave their CQ, and it is empty. */
int fakernic_modify_wq(struct ibv_wq *wq, struct ibv_wq_attr *attr);

/* EBUSY: a table names it. Its completions leave their CQ. */
int fakernic_destroy_wq(struct ibv_wq *wq);

/* EINVAL: more entries than the kernel takes (2^13). */
struct ibv_rwq_ind_table *
fakernic_create_rwq_ind_table(struct ibv_context *context,
			      struct ibv_rwq_ind_table_init_attr *attr);

/* EBUSY: a QP uses it. */
int fakernic_destroy_rwq_ind_table(struct ibv_rwq_ind_table *table);

/* fakernic_create_qp_ex() when attr has an indirection table or a hash. */
struct ibv_qp *fakernic_create_rss_qp(struct ibv_context *context,
				      struct ibv_qp_init_attr_ex *attr);

static inline struct fakernic_wq *fakernic_to_wq(struct ibv_wq *wq)
{
	return container_of(wq, struct fakernic_wq, wq);
}

#endif
