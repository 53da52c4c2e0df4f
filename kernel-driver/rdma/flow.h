/* SPDX-License-Identifier: GPL-2.0-only */
/* Flow steering (FAKERNIC_FEATURE_FLOW). */
#ifndef FAKERNIC_DRIVER_FLOW_H
#define FAKERNIC_DRIVER_FLOW_H

#include <rdma/ib_verbs.h>

/*
 * Operations of struct ib_device_ops. Returns ERR_PTR(-EOPNOTSUPP) for a
 * specification that the device cannot match, and ERR_PTR(-EINVAL) for two
 * specifications of one layer.
 */
struct ib_flow *fakernic_create_flow(struct ib_qp *ibqp,
				     struct ib_flow_attr *attr,
				     struct ib_udata *udata);

/* Removes the rule, which no longer applies to frames that arrive later. */
int fakernic_destroy_flow(struct ib_flow *ibflow);

#endif
