/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Flow rules of raw-packet QPs.
 */
#ifndef FAKERNIC_PROVIDER_FLOW_H
#define FAKERNIC_PROVIDER_FLOW_H

#include <infiniband/driver.h>

/* EINVAL or EOPNOTSUPP: specifications that the kernel refuses. */
struct ibv_flow *fakernic_ucreate_flow(struct ibv_qp *qp,
				       struct ibv_flow_attr *attr);

/* New frames are delivered as they would be without the rule. */
int fakernic_udestroy_flow(struct ibv_flow *flow);

#endif
