/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Work queues, indirection tables and RSS QPs, for user space only.
 */
#ifndef FAKERNIC_DRIVER_WQ_H
#define FAKERNIC_DRIVER_WQ_H

#include <linux/mutex.h>
#include <rdma/ib_verbs.h>
#include "../core/object.h"

struct fakernic_dev;
struct fakernic_qp;
struct ib_umem;

struct fakernic_wq {
	struct ib_wq ibwq;
	struct fakernic_qp_hw hw;
	struct ib_umem *umem;
	struct mutex lock;		/* ibwq.state */
};

struct fakernic_ind_table {
	struct ib_rwq_ind_table ibtable;
	u32 id;
};

/*
 * Operations of struct ib_device_ops. On a dead device changes to RESET and ERR
 * succeed. -EBUSY: a table uses the WQ, or a QP uses the table.
 */
struct ib_wq *fakernic_create_wq(struct ib_pd *ibpd,
				 struct ib_wq_init_attr *attr,
				 struct ib_udata *udata);

/* Changes the state. On a dead device RESET and ERR succeed. */
int fakernic_modify_wq(struct ib_wq *ibwq, struct ib_wq_attr *attr, u32 mask,
		       struct ib_udata *udata);

/* -EBUSY while a table uses it. */
int fakernic_destroy_wq(struct ib_wq *ibwq, struct ib_udata *udata);

/* The WQs may be in any state. -EINVAL: more entries than supported. */
int fakernic_create_ind_table(struct ib_rwq_ind_table *ibtable,
			      struct ib_rwq_ind_table_init_attr *attr,
			      struct ib_udata *udata);

/* -EBUSY while a QP uses it. */
int fakernic_destroy_ind_table(struct ib_rwq_ind_table *ibtable);

/*
 * The part of fakernic_create_qp() for a QP with an indirection table. The
 * caller has initialized what all QPs have in common. The QP starts in RTR.
 */
int fakernic_create_rss_qp(struct fakernic_dev *dev, struct fakernic_qp *qp,
			   const struct ib_qp_init_attr *attr,
			   struct ib_udata *udata);

static inline struct fakernic_wq *to_fakernic_wq(struct ib_wq *ibwq)
{
	return container_of(ibwq, struct fakernic_wq, ibwq);
}

static inline struct fakernic_ind_table *
to_fakernic_ind_table(struct ib_rwq_ind_table *ibtable)
{
	return container_of(ibtable, struct fakernic_ind_table, ibtable);
}

#endif
