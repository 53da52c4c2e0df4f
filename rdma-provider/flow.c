/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Flow rules of raw-packet QPs: the kernel checks, the device matches.
 */
#include <errno.h>
#include <stdlib.h>
#include <infiniband/driver.h>

#include "flow.h"

struct ibv_flow *fakernic_ucreate_flow(struct ibv_qp *qp,
				       struct ibv_flow_attr *attr)
{
	struct ibv_flow *flow;
	int err;

	flow = calloc(1, sizeof(*flow));
	if (!flow)
		return NULL;
	err = ibv_cmd_create_flow(qp, flow, attr, NULL, 0);
	if (err) {
		free(flow);
		errno = err;
		return NULL;
	}
	return flow;
}

int fakernic_udestroy_flow(struct ibv_flow *flow)
{
	int err;

	err = ibv_cmd_destroy_flow(flow);
	if (err)
		return err;
	free(flow);
	return 0;
}
