/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Queue pairs of verbs, in user space and in the kernel.
 */
#ifndef FAKERNIC_DRIVER_QP_H
#define FAKERNIC_DRIVER_QP_H

#include <linux/list.h>
#include <linux/mutex.h>
#include <rdma/ib_verbs.h>
#include "../core/object.h"
#include "../core/rq.h"
#include "sq.h"

struct ib_umem;

struct fakernic_qp {
	struct ib_qp ibqp;
	struct fakernic_qp_hw hw;
	struct fakernic_sq sq;		/* kernel QPs only */
	struct fakernic_rq rq;
	struct ib_umem *sq_umem;	/* user QPs only */
	struct ib_umem *rq_umem;
	struct list_head send_node;	/* kernel QPs: fakernic_cq.send_qps */
	struct list_head recv_node;
	struct mutex lock;		/* state */
	enum ib_qp_state state;		/* posting reads it without the lock */
	bool last_wqe_reported;		/* event LAST_WQE_REACHED */
	struct ib_qp_cap cap;		/* as requested */
	u8 type;			/* enum fakernic_qp_type */
};

/*
 * Operations of struct ib_device_ops. The device checks every state transition
 * and every attribute (IBTA 10.3.1). The driver checks what the core requires
 * of it, and what could harm the kernel. On a dead device transitions to ERR
 * and RESET succeed.
 */
int fakernic_create_qp(struct ib_qp *ibqp, struct ib_qp_init_attr *attr,
		       struct ib_udata *udata);

/*
 * The core's table decides which transitions are allowed (IBTA 10.3.1). After
 * RESET a kernel QP has no completions of earlier work.
 */
int fakernic_modify_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		       struct ib_udata *udata);

/* Returns all attributes and ignores mask. */
int fakernic_query_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		      struct ib_qp_init_attr *init);

/* -EBUSY while flow rules name it. */
int fakernic_destroy_qp(struct ib_qp *ibqp, struct ib_udata *udata);

static inline struct fakernic_qp *to_fakernic_qp(struct ib_qp *ibqp)
{
	return container_of(ibqp, struct fakernic_qp, ibqp);
}

#endif
