/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * "rdma resource show": operations of struct ib_device_ops that add the
 * driver's view of an object to a netlink message. -EMSGSIZE: the message is
 * full and unchanged.
 */
#ifndef FAKERNIC_DRIVER_RESTRACK_H
#define FAKERNIC_DRIVER_RESTRACK_H

#include <rdma/ib_verbs.h>

/* Capabilities; for a kernel QP also its queue indices. */
int fakernic_fill_res_qp(struct sk_buff *msg, struct ib_qp *ibqp);

/* CQN, vector, moderation; for a kernel CQ also its consumer index. */
int fakernic_fill_res_cq(struct sk_buff *msg, struct ib_cq *ibcq);

/* Type, access rights, and attributes of that type. */
int fakernic_fill_res_mr(struct sk_buff *msg, struct ib_mr *ibmr);

/* SRQN, SGEs; for a kernel SRQ also producer index and free tags. */
int fakernic_fill_res_srq(struct sk_buff *msg, struct ib_srq *ibsrq);

/* A raw entry: a QP in the device's own format. */
int fakernic_fill_raw_qp(struct sk_buff *msg, struct ib_qp *ibqp);

/* Likewise for a CQ. */
int fakernic_fill_raw_cq(struct sk_buff *msg, struct ib_cq *ibcq);

/* Likewise for a memory region's key. */
int fakernic_fill_raw_mr(struct sk_buff *msg, struct ib_mr *ibmr);

/* Likewise for an SRQ. */
int fakernic_fill_raw_srq(struct sk_buff *msg, struct ib_srq *ibsrq);

#endif
