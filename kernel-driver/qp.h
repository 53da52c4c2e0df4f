/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Queue pairs of verbs, users' and the kernel's.
 */
#ifndef FAKERNIC_DRIVER_QP_H
#define FAKERNIC_DRIVER_QP_H

#include <linux/list.h>
#include <linux/mutex.h>
#include <rdma/ib_verbs.h>
#include "hw.h"
#include "rq.h"
#include "sq.h"

struct ib_umem;

struct fakernic_qp {
	struct ib_qp ibqp;
	struct fakernic_qp_hw hw;
	struct fakernic_sq sq;		/* a kernel's, both */
	struct fakernic_rq rq;
	struct ib_umem *sq_umem;	/* a user's */
	struct ib_umem *rq_umem;
	struct list_head send_node;	/* a kernel's: fakernic_cq.send_qps */
	struct list_head recv_node;
	struct mutex lock;		/* state */
	enum ib_qp_state state;		/* posting reads it without the lock */
	bool end_told;			/* on a dead device */
	struct ib_qp_cap cap;		/* as asked for */
	u8 type;			/* enum fakernic_qp_type */
};

/*
 * Operations of struct ib_device_ops. The device judges every change of state
 * and every attribute (IBTA 10.3.1); what the core asks of a driver is checked
 * here, and what could harm the kernel. On a dead device changes to ERR and
 * RESET succeed.
 */
int fakernic_create_qp(struct ib_qp *ibqp, struct ib_qp_init_attr *attr,
		       struct ib_udata *udata);

/*
 * As the core's table of changes allows (IBTA 10.3.1). To RESET: a kernel's QP
 * has no completions of its past any more.
 */
int fakernic_modify_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		       struct ib_udata *udata);

/* All attributes, whatever mask says. */
int fakernic_query_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		      struct ib_qp_init_attr *init);

/* -EBUSY while flow rules name it. */
int fakernic_destroy_qp(struct ib_qp *ibqp, struct ib_udata *udata);

static inline struct fakernic_qp *to_fakernic_qp(struct ib_qp *ibqp)
{
	return container_of(ibqp, struct fakernic_qp, ibqp);
}

#endif
