/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * XRC domains and target QPs (IBTA 14.5). The kernel keeps them with a file
 * that processes share. The device connects target QPs and XRC SRQs of a domain
 * by the SRQ number in each request. For the provider a target QP is only a
 * handle.
 */
#include <errno.h>
#include <stdlib.h>
#include <infiniband/driver.h>

#include "lock.h"
#include "qp.h"
#include "xrc.h"

struct ibv_xrcd *fakernic_uopen_xrcd(struct ibv_context *context,
				     struct ibv_xrcd_init_attr *attr)
{
	struct ib_uverbs_open_xrcd_resp resp = {};
	struct ibv_open_xrcd cmd = {};
	struct verbs_xrcd *xrcd;
	int err;

	xrcd = calloc(1, sizeof(*xrcd));
	if (!xrcd)
		return NULL;
	err = ibv_cmd_open_xrcd(context, xrcd, sizeof(*xrcd), attr, &cmd,
				sizeof(cmd), &resp, sizeof(resp));
	if (err) {
		free(xrcd);
		errno = err;
		return NULL;
	}
	return &xrcd->xrcd;
}

int fakernic_uclose_xrcd(struct ibv_xrcd *ibxrcd)
{
	struct verbs_xrcd *xrcd = container_of(ibxrcd, struct verbs_xrcd, xrcd);
	int err;

	err = ibv_cmd_close_xrcd(xrcd);
	if (err)
		return err;
	free(xrcd);
	return 0;
}

/* Another handle to a target QP of the domain, even of another process. */
struct ibv_qp *fakernic_uopen_qp(struct ibv_context *context,
				 struct ibv_qp_open_attr *attr)
{
	struct ib_uverbs_create_qp_resp resp = {};
	struct ibv_open_qp cmd = {};
	struct fakernic_qp *qp;
	int err;

	if (attr->comp_mask & IBV_QP_OPEN_ATTR_TYPE &&
	    attr->qp_type != IBV_QPT_XRC_RECV) {
		errno = EINVAL;
		return NULL;
	}
	qp = calloc(1, sizeof(*qp));
	if (!qp)
		return NULL;
	err = ibv_cmd_open_qp(context, &qp->vqp, sizeof(qp->vqp), attr, &cmd,
			      sizeof(cmd), &resp, sizeof(resp));
	if (err) {
		free(qp);
		errno = err;
		return NULL;
	}
	fakernic_lock_init(&qp->sq.lock, true);
	fakernic_lock_init(&qp->rq.lock, true);
	return &qp->vqp.qp;
}
