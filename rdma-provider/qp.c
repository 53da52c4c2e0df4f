/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Queue pairs, the control path: sizes from capabilities (rounded up, and
 * reported as such), queue memory, state transitions. The device checks every
 * transition. When a QP is reset or destroyed, the provider drops its work: it
 * removes its CQEs from their CQs and sets its indices to 0.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <infiniband/driver.h>
#include <util/util.h>

#include "fakernic/base.h"
#include "fakernic/regs.h"
#include "ah.h"
#include "compat.h"
#include "context.h"
#include "cq.h"
#include "fakernic-abi.h"
#include "lock.h"
#include "pd.h"
#include "qp.h"
#include "queue.h"
#include "rq.h"
#include "sq.h"
#include "table.h"
#include "wq.h"
#include "wr.h"

/*
 * A copy of attr without the values that do not apply to a QP of this type, or
 * to one with an SRQ. Those may be anything (ibv_create_qp_ex(3)), and may be
 * freed before the QP.
 */
static struct ibv_qp_init_attr_ex
fakernic_used_attr(const struct ibv_qp_init_attr_ex *attr)
{
	struct ibv_qp_init_attr_ex used = *attr;

	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD))
		used.pd = NULL;
	if (attr->qp_type == IBV_QPT_XRC_RECV) {
		used.cap = (struct ibv_qp_cap) {};
		used.send_cq = NULL;
		used.recv_cq = NULL;
	} else if (attr->qp_type == IBV_QPT_XRC_SEND) {
		used.recv_cq = NULL;
	}
	if (attr->qp_type == IBV_QPT_XRC_SEND || attr->srq) {
		used.cap.max_recv_wr = 0;
		used.cap.max_recv_sge = 0;
	}
	return used;
}

static int fakernic_ucheck_caps(struct fakernic_context *context,
				const struct ibv_qp_init_attr_ex *attr)
{
	const struct ibv_qp_cap *cap = &attr->cap;

	if (cap->max_send_wr > context->max_qp_wr ||
	    cap->max_send_sge > context->max_send_sge ||
	    cap->max_inline_data > context->max_inline)
		return fakernic_refuse(context, EINVAL,
				       "create QP: %u sends, %u SGEs, %u inline bytes are beyond the limits %u, %u, %u\n",
				       cap->max_send_wr, cap->max_send_sge,
				       cap->max_inline_data,
				       context->max_qp_wr,
				       context->max_send_sge,
				       context->max_inline);
	if (cap->max_recv_wr > context->max_qp_wr ||
	    cap->max_recv_sge > context->max_recv_sge)
		return fakernic_refuse(context, EINVAL,
				       "create QP: %u receives, %u SGEs are beyond the limits %u, %u\n",
				       cap->max_recv_wr, cap->max_recv_sge,
				       context->max_qp_wr,
				       context->max_recv_sge);
	return 0;
}

/* The feature that QPs of this type need; 0: unknown type. */
static uint64_t fakernic_qp_feature(enum ibv_qp_type type)
{
	switch (type) {
	case IBV_QPT_RC:
		return FAKERNIC_FEATURE_RC;
	case IBV_QPT_UC:
		return FAKERNIC_FEATURE_UC;
	case IBV_QPT_UD:
		return FAKERNIC_FEATURE_UD;
	case IBV_QPT_RAW_PACKET:
		return FAKERNIC_FEATURE_RAW_PACKET;
	case IBV_QPT_XRC_SEND:
	case IBV_QPT_XRC_RECV:
		return FAKERNIC_FEATURE_XRC;
	default:
		return 0;
	}
}

/* Whether attr has all objects that a QP of this type needs. */
static bool fakernic_has_objects(const struct ibv_qp_init_attr_ex *attr)
{
	/* An XRC target has a domain, and neither queues nor CQs. */
	if (attr->qp_type == IBV_QPT_XRC_RECV)
		return attr->comp_mask & IBV_QP_INIT_ATTR_XRCD && attr->xrcd;
	if (!attr->pd || attr->comp_mask & IBV_QP_INIT_ATTR_XRCD ||
	    !attr->send_cq)
		return false;
	return attr->qp_type == IBV_QPT_XRC_SEND ? !attr->srq :
						   !!attr->recv_cq;
}

static uint32_t
fakernic_qp_create_flags(const struct fakernic_context *context,
			 const struct ibv_qp_init_attr_ex *attr)
{
	return attr->qp_type == IBV_QPT_UD &&
	       context->features & FAKERNIC_FEATURE_BLOCK_MCAST_LB ?
			IBV_QP_CREATE_BLOCK_SELF_MCAST_LB : 0;
}

static int fakernic_ucheck_qp(struct fakernic_context *context,
			      const struct ibv_qp_init_attr_ex *attr)
{
	if (!check_comp_mask(attr->comp_mask,
			     IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD |
				     IBV_QP_INIT_ATTR_CREATE_FLAGS |
				     IBV_QP_INIT_ATTR_SEND_OPS_FLAGS))
		return fakernic_refuse(context, EOPNOTSUPP,
				       "create QP: unsupported attributes %#x\n",
				       attr->comp_mask);
	if (!(context->features & fakernic_qp_feature(attr->qp_type)))
		return fakernic_refuse(context, EOPNOTSUPP,
				       "create QP: unsupported type %u\n", attr->qp_type);
	if (attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS &&
	    attr->create_flags & ~fakernic_qp_create_flags(context, attr))
		return fakernic_refuse(context, EOPNOTSUPP,
				       "create QP: unsupported flags %#x\n",
				       attr->create_flags);
	if (!fakernic_has_objects(attr))
		return fakernic_refuse(context, EINVAL,
				       "create QP: type %u needs another set of PD, XRCD, CQs and SRQ\n",
				       attr->qp_type);
	return fakernic_ucheck_caps(context, attr);
}

/* Allocates its queues and describes them to the kernel. */
static int fakernic_alloc_queues(struct fakernic_qp *qp,
				 struct fakernic_context *context,
				 const struct ibv_qp_init_attr_ex *attr,
				 struct fakernic_cmd_create_qp *cmd)
{
	uint8_t log_depth, log_stride;
	int err;

	cmd->sq_log_depth = FAKERNIC_ABI_QUEUE_NONE;
	cmd->rq_log_depth = FAKERNIC_ABI_QUEUE_NONE;
	if (attr->qp_type == IBV_QPT_XRC_RECV)
		return 0;
	err = fakernic_usq_size(&qp->sq, context, attr, &log_depth);
	if (err)
		return err;
	if (attr->cap.max_send_wr) {
		err = fakernic_usq_alloc(&qp->sq, attr->pd, log_depth);
		if (err)
			return err;
		cmd->sq_va = (uintptr_t)qp->sq.queue.ring;
		cmd->sq_log_depth = log_depth;
	} else {
		qp->sq.wr_max = 0;
		qp->sq.sge_max = 0;
		qp->sq.inline_max = 0;
	}
	if (!attr->cap.max_recv_wr)
		return 0;
	log_depth = fakernic_log2_ceil(attr->cap.max_recv_wr);
	log_stride = fakernic_recv_log_stride(attr->cap.max_recv_sge);
	err = log_depth > FAKERNIC_QUEUE_LOG_DEPTH_MAX ? EINVAL :
		fakernic_urq_alloc(&qp->rq, attr->pd, log_depth,
				  log_stride);
	if (err) {
		fakernic_usq_free(&qp->sq);
		return err;
	}
	qp->rq.sge_max = fakernic_recv_sge_max(context, log_stride);
	cmd->rq_va = (uintptr_t)qp->rq.queue.ring;
	cmd->rq_log_depth = log_depth;
	cmd->rq_log_stride = log_stride;
	return 0;
}

static void fakernic_free_qp(struct fakernic_qp *qp)
{
	fakernic_lock_destroy(&qp->sq.lock);
	fakernic_lock_destroy(&qp->rq.lock);
	fakernic_usq_free(&qp->sq);
	fakernic_urq_free(&qp->rq);
	free(qp);
}

static void fakernic_get_caps(const struct fakernic_qp *qp,
			      struct ibv_qp_cap *cap)
{
	*cap = (struct ibv_qp_cap) {
		.max_send_wr = qp->sq.wr_max,
		.max_recv_wr = qp->rq.queue.depth,
		.max_send_sge = qp->sq.sge_max,
		.max_recv_sge = qp->rq.sge_max,
		.max_inline_data = qp->sq.inline_max,
	};
}

/*
 * The table is for QPs that complete work requests of their own. An XRC target
 * does not, and may be opened several times under one number.
 */
static bool fakernic_qp_in_table(const struct ibv_qp *qp)
{
	return qp->qp_type != IBV_QPT_XRC_RECV;
}

static int fakernic_create_qp_hw(struct fakernic_qp *qp,
				 struct ibv_context *ibctx,
				 struct ibv_qp_init_attr_ex *attr,
				 struct fakernic_cmd_create_qp *cmd)
{
	struct fakernic_context *context = fakernic_to_context(ibctx);
	struct fakernic_cmd_create_qp_resp resp = {};
	int err;

	err = ibv_cmd_create_qp_ex2(ibctx, &qp->vqp, attr, &cmd->ibv_cmd,
				    sizeof(*cmd), &resp.ibv_resp, sizeof(resp)
				    FAKERNIC_NO_DRIVER_ATTR);
	if (err || !fakernic_qp_in_table(&qp->vqp.qp))
		return err;
	err = fakernic_enter_qp(context, qp);
	if (err)
		ibv_cmd_destroy_qp(&qp->vqp.qp);
	return err;
}

struct ibv_qp *fakernic_ucreate_qp_ex(struct ibv_context *ibctx,
				      struct ibv_qp_init_attr_ex *attr)
{
	bool has_builders = attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	struct fakernic_context *context = fakernic_to_context(ibctx);
	struct ibv_qp_init_attr_ex used = fakernic_used_attr(attr);
	struct fakernic_cmd_create_qp cmd = {};
	struct fakernic_qp *qp;

	if (attr->comp_mask & (IBV_QP_INIT_ATTR_IND_TABLE |
			       IBV_QP_INIT_ATTR_RX_HASH))
		return fakernic_ucreate_rss_qp(ibctx, attr);
	errno = fakernic_ucheck_qp(context, &used);
	if (errno)
		return NULL;
	qp = calloc(1, sizeof(*qp));
	if (!qp)
		return NULL;
	errno = fakernic_alloc_queues(qp, context, &used, &cmd);
	if (errno) {
		free(qp);
		return NULL;
	}
	fakernic_lock_init(&qp->sq.lock, fakernic_pd_needs_locks(used.pd));
	fakernic_lock_init(&qp->rq.lock, fakernic_pd_needs_locks(used.pd));
	if (has_builders) {
		errno = fakernic_set_builders(qp, attr->qp_type,
					      attr->send_ops_flags);
		if (errno) {
			verbs_debug(&context->vctx,
				    "create QP: type %u does not support send operations %#" PRIx64
				    "\n", attr->qp_type, attr->send_ops_flags);
			goto err_free;
		}
	}
	errno = fakernic_create_qp_hw(qp, ibctx, &used, &cmd);
	if (errno)
		goto err_free;
	if (has_builders)
		qp->vqp.comp_mask |= VERBS_QP_EX;
	fakernic_get_caps(qp, &attr->cap);
	return &qp->vqp.qp;

err_free: {
	int err = errno;

	fakernic_free_qp(qp);
	errno = err;
}
	return NULL;
}

struct ibv_qp *fakernic_ucreate_qp(struct ibv_pd *pd,
				   struct ibv_qp_init_attr *attr)
{
	struct ibv_qp_init_attr_ex attr_ex = {
		.qp_context = attr->qp_context,
		.send_cq = attr->send_cq,
		.recv_cq = attr->recv_cq,
		.srq = attr->srq,
		.cap = attr->cap,
		.qp_type = attr->qp_type,
		.sq_sig_all = attr->sq_sig_all,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = pd,
	};
	struct ibv_qp *qp;

	qp = fakernic_ucreate_qp_ex(pd->context, &attr_ex);
	if (qp)
		attr->cap = attr_ex.cap;
	return qp;
}

int fakernic_umodify_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int mask)
{
	struct ib_uverbs_ex_modify_qp_resp resp_ex = {};
	struct fakernic_qp *qp = fakernic_to_qp(ibqp);
	struct ibv_modify_qp_ex cmd_ex = {};
	struct ibv_modify_qp cmd = {};
	int err;

	if (mask & IBV_QP_RATE_LIMIT)
		err = ibv_cmd_modify_qp_ex(ibqp, attr, mask, &cmd_ex,
					   sizeof(cmd_ex), &resp_ex,
					   sizeof(resp_ex));
	else
		err = ibv_cmd_modify_qp(ibqp, attr, mask, &cmd, sizeof(cmd));
	if (err && mask & IBV_QP_AV)
		return fakernic_refuse_address(ibqp->context, &attr->ah_attr,
					       err);
	if (err || !(mask & IBV_QP_STATE) || attr->qp_state != IBV_QPS_RESET)
		return err;
	/* The device no longer uses its queues and restarts at index 0. */
	fakernic_lock_cqs(ibqp->send_cq, ibqp->recv_cq);
	fakernic_clean_cqs_of_qp_locked(ibqp);
	fakernic_usq_reset(&qp->sq);
	fakernic_urq_reset(&qp->rq);
	fakernic_unlock_cqs(ibqp->send_cq, ibqp->recv_cq);
	return 0;
}

/* The device spaces packets evenly and does not shape bursts. */
int fakernic_umodify_qp_rate_limit(struct ibv_qp *qp,
				   struct ibv_qp_rate_limit_attr *limit)
{
	struct ibv_qp_attr attr = { .rate_limit = limit->rate_limit };

	if (limit->comp_mask)
		return EINVAL;
	if (limit->max_burst_sz || limit->typical_pkt_sz)
		return EOPNOTSUPP;
	return fakernic_umodify_qp(qp, &attr, IBV_QP_RATE_LIMIT);
}

int fakernic_uquery_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int mask,
		       struct ibv_qp_init_attr *init_attr)
{
	struct ibv_query_qp cmd;
	int err;

	err = ibv_cmd_query_qp(ibqp, attr, mask, init_attr, &cmd, sizeof(cmd));
	if (err)
		return err;
	fakernic_get_caps(fakernic_to_qp(ibqp), &attr->cap);
	init_attr->cap = attr->cap;
	return 0;
}

int fakernic_udestroy_qp(struct ibv_qp *ibqp)
{
	struct fakernic_context *context = fakernic_to_context(ibqp->context);
	struct fakernic_table *table = &context->qp_table;
	struct fakernic_qp *qp = fakernic_to_qp(ibqp);
	int err;

	/*
	 * This waits until all events are acknowledged, which may need other
	 * verbs, so no lock is held. A new QP may get the number during this
	 * time.
	 */
	err = ibv_cmd_destroy_qp(ibqp);
	if (err)
		return err;
	pthread_mutex_lock(&table->mutex);
	while (fakernic_utable_find(table, ibqp->qp_num) == qp &&
	       !fakernic_try_forget_number_locked(context, ibqp->qp_num))
		fakernic_utable_yield_locked(table);
	pthread_mutex_unlock(&table->mutex);
	fakernic_free_qp(qp);
	return 0;
}

/* In order for all operations (data sheet, "Memory ordering"). */
int fakernic_uquery_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op,
				     uint32_t flags)
{
	return IBV_QUERY_QP_DATA_IN_ORDER_WHOLE_MSG;
}

/* Enhanced connection establishment: this vendor has no options to agree on. */
int fakernic_uquery_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	*ece = (struct ibv_ece) { .vendor_id = FAKERNIC_PCI_VENDOR_ID };
	return 0;
}

int fakernic_uset_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	if (ece->vendor_id != FAKERNIC_PCI_VENDOR_ID || ece->comp_mask)
		return EINVAL;
	ece->options = 0;	/* accepted options */
	return 0;
}
