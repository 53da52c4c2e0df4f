/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Queue pairs.
 */
#ifndef FAKERNIC_PROVIDER_QP_H
#define FAKERNIC_PROVIDER_QP_H

#include <infiniband/driver.h>

#include "rq.h"
#include "sq.h"

struct fakernic_qp {
	struct verbs_qp vqp;
	struct fakernic_sq sq;
	struct fakernic_rq rq;
};

/* On success attr has the actual capabilities: at least those requested. */
struct ibv_qp *fakernic_ucreate_qp(struct ibv_pd *pd,
				   struct ibv_qp_init_attr *attr);

/*
 * Also creates RSS QPs. EOPNOTSUPP: unsupported attributes, flags or
 * operations.
 */
struct ibv_qp *fakernic_ucreate_qp_ex(struct ibv_context *context,
				      struct ibv_qp_init_attr_ex *attr);

/* RESET removes its completions from their CQs and empties its queues. */
int fakernic_umodify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);

/* In kbit/s, 0: none. EOPNOTSUPP: shaped bursts. */
int fakernic_umodify_qp_rate_limit(struct ibv_qp *qp,
				   struct ibv_qp_rate_limit_attr *attr);

/* The provider returns the capabilities, the kernel all else. */
int fakernic_uquery_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
		       struct ibv_qp_init_attr *init_attr);

/* Always in order for whole messages, for any operation. */
int fakernic_uquery_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op,
				     uint32_t flags);

/* Returns the vendor and no options. */
int fakernic_uquery_ece(struct ibv_qp *qp, struct ibv_ece *ece);

/* EINVAL: another vendor. Accepts none of the options. */
int fakernic_uset_ece(struct ibv_qp *qp, struct ibv_ece *ece);

/* Its completions leave their CQs. */
int fakernic_udestroy_qp(struct ibv_qp *qp);

static inline struct fakernic_qp *fakernic_to_qp(struct ibv_qp *qp)
{
	return container_of(qp, struct fakernic_qp, vqp.qp);
}

#endif
