/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Flow steering (FAKERNIC_FEATURE_FLOW).
 */
#ifndef FAKERNIC_DRIVER_FLOW_H
#define FAKERNIC_DRIVER_FLOW_H

#include <rdma/ib_verbs.h>

/*
 * Operations of struct ib_device_ops. ERR_PTR: -EOPNOTSUPP for a specification
 * the device cannot match, -EINVAL for two of one layer.
 */
struct ib_flow *fakernic_create_flow(struct ib_qp *ibqp,
				     struct ib_flow_attr *attr,
				     struct ib_udata *udata);

/* Frames that come from now on go where they would without the rule. */
int fakernic_destroy_flow(struct ib_flow *ibflow);

#endif
