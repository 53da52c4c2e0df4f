/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * "rdma resource show": operations of struct ib_device_ops that add the
 * driver's view of an object to a netlink message. -EMSGSIZE: it is full,
 * nothing was added.
 */
#ifndef FAKERNIC_DRIVER_RES_H
#define FAKERNIC_DRIVER_RES_H

#include <rdma/ib_verbs.h>

/* Capabilities; of a kernel's QP the indices of its queues, too. */
int fakernic_fill_res_qp(struct sk_buff *msg, struct ib_qp *ibqp);

/* CQN, vector, moderation; a kernel's consumer index. */
int fakernic_fill_res_cq(struct sk_buff *msg, struct ib_cq *ibcq);

/* Type, access rights, and what there is to that type. */
int fakernic_fill_res_mr(struct sk_buff *msg, struct ib_mr *ibmr);

/* SRQN, SGEs; of a kernel's SRQ producer index and free tags. */
int fakernic_fill_res_srq(struct sk_buff *msg, struct ib_srq *ibsrq);

/* A QP as the device knows it, in its words: a raw entry. */
int fakernic_fill_raw_qp(struct sk_buff *msg, struct ib_qp *ibqp);

/* A CQ, likewise. */
int fakernic_fill_raw_cq(struct sk_buff *msg, struct ib_cq *ibcq);

/* A memory region's key, likewise. */
int fakernic_fill_raw_mr(struct sk_buff *msg, struct ib_mr *ibmr);

/* An SRQ, likewise. */
int fakernic_fill_raw_srq(struct sk_buff *msg, struct ib_srq *ibsrq);

#endif
