/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Shared receive queues (IBTA 10.2.9), the control path; srq_recv.c posts and
 * completes receives. An XRC SRQ (IBTA 14.5) differs only in having a domain
 * and its own CQ.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <infiniband/driver.h>
#include <util/util.h>

#include "fakernic/base.h"
#include "fakernic/regs.h"
#include "context.h"
#include "cq.h"
#include "fakernic-abi.h"
#include "lock.h"
#include "pd.h"
#include "queue.h"
#include "rq.h"
#include "srq.h"
#include "table.h"

static void fakernic_usrq_free(struct fakernic_srq *srq)
{
	fakernic_lock_destroy(&srq->lock);
	free(srq->wr_id);
	free(srq->tag);
	free(srq->free_tag);
	fakernic_uqueue_free(&srq->queue);
	free(srq);
}

static int fakernic_ucheck_xrc_srq(struct fakernic_context *context,
				   const struct ibv_srq_init_attr_ex *attr)
{
	if (attr->srq_type != IBV_SRQT_XRC ||
	    !(context->features & FAKERNIC_FEATURE_XRC))
		return fakernic_refuse(context, EOPNOTSUPP,
				       "create SRQ: unsupported type %u\n", attr->srq_type);
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_XRCD) || !attr->xrcd ||
	    !(attr->comp_mask & IBV_SRQ_INIT_ATTR_CQ) || !attr->cq)
		return fakernic_refuse(context, EINVAL,
				       "create SRQ: an XRC SRQ needs an XRC domain and a CQ\n");
	return 0;
}

static int fakernic_ucheck_srq(struct fakernic_context *context,
			       const struct ibv_srq_init_attr_ex *attr)
{
	int err;

	if (!check_comp_mask(attr->comp_mask, IBV_SRQ_INIT_ATTR_TYPE |
						      IBV_SRQ_INIT_ATTR_PD |
						      IBV_SRQ_INIT_ATTR_XRCD |
						      IBV_SRQ_INIT_ATTR_CQ))
		return fakernic_refuse(context, EOPNOTSUPP,
				       "create SRQ: unsupported attributes %#x\n",
				       attr->comp_mask);
	if (attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE &&
	    attr->srq_type != IBV_SRQT_BASIC) {
		err = fakernic_ucheck_xrc_srq(context, attr);
		if (err)
			return err;
	}
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) || !attr->pd)
		return fakernic_refuse(context, EINVAL,
				       "create SRQ: no PD\n");
	if (!attr->attr.max_wr ||
	    attr->attr.max_wr > 1U << FAKERNIC_QUEUE_LOG_DEPTH_MAX ||
	    attr->attr.max_sge > context->max_recv_sge)
		return fakernic_refuse(context, EINVAL,
				       "create SRQ: %u receives of %u SGEs, at most %u of %u\n",
				       attr->attr.max_wr, attr->attr.max_sge,
				       1U << FAKERNIC_QUEUE_LOG_DEPTH_MAX,
				       context->max_recv_sge);
	return 0;
}

static struct fakernic_srq *
fakernic_new_srq(const struct fakernic_context *context,
		 const struct ibv_srq_init_attr_ex *attr)
{
	uint8_t log_stride = fakernic_recv_log_stride(attr->attr.max_sge);
	struct fakernic_srq *srq;
	int err;

	srq = calloc(1, sizeof(*srq));
	if (!srq)
		return NULL;
	/* Polling threads return tags, so the lock is needed in any case. */
	fakernic_lock_init(&srq->lock, true);
	err = fakernic_uqueue_alloc(&srq->queue, attr->pd,
				    FAKERNIC_RESOURCE_SRQ,
				    fakernic_log2_ceil(attr->attr.max_wr),
				    log_stride);
	if (!err)
		err = fakernic_usrq_add_tags(srq, srq->queue.depth);
	if (err) {
		fakernic_usrq_free(srq);
		errno = err;
		return NULL;
	}
	srq->sge_max = fakernic_recv_sge_max(context, log_stride);
	return srq;
}

/*
 * Removes an SRQ from its CQ and the table. The QPs of a basic SRQ are
 * destroyed, and their entries were removed with them. libibverbs may still
 * have a CQ pointer in a basic SRQ, which the SRQ does not use. The table's
 * mutex is held. False: another thread holds the CQ.
 */
static bool fakernic_try_forget_srq_locked(struct fakernic_context *context,
					   struct fakernic_srq *srq)
{
	struct ibv_cq *cq = NULL;

	if (srq->vsrq.srq_type == IBV_SRQT_XRC)
		cq = srq->vsrq.cq;
	if (!fakernic_try_lock_cqs(cq, NULL))
		return false;
	if (cq)
		fakernic_clean_cq_of_srq_locked(cq, srq->srqn);
	fakernic_utable_remove_locked(&context->srq_table, srq->srqn);
	fakernic_unlock_cqs(cq, NULL);
	return true;
}

/* First removes a former SRQ with this number that is being destroyed. */
static int fakernic_enter_srq(struct fakernic_context *context,
			      struct fakernic_srq *srq)
{
	struct fakernic_table *table = &context->srq_table;
	struct fakernic_srq *old;
	int err;

	pthread_mutex_lock(&table->mutex);
	while ((old = fakernic_utable_find(table, srq->srqn)) &&
	       !fakernic_try_forget_srq_locked(context, old))
		fakernic_utable_yield_locked(table);
	err = fakernic_utable_put_locked(table, srq->srqn, srq);
	pthread_mutex_unlock(&table->mutex);
	return err;
}

struct ibv_srq *fakernic_ucreate_srq_ex(struct ibv_context *ibctx,
					struct ibv_srq_init_attr_ex *attr)
{
	struct fakernic_context *context = fakernic_to_context(ibctx);
	struct ibv_srq_init_attr_ex kernel_attr = *attr;
	struct fakernic_cmd_create_srq_resp resp = {};
	struct fakernic_cmd_create_srq cmd = {};
	struct fakernic_srq *srq;
	int err;

	errno = fakernic_ucheck_srq(context, attr);
	if (errno)
		return NULL;
	srq = fakernic_new_srq(context, attr);
	if (!srq)
		return NULL;
	cmd.buf_va = (uintptr_t)srq->queue.ring;
	cmd.log_depth = srq->queue.log_depth;
	cmd.log_stride = srq->queue.log_stride;
	err = ibv_cmd_create_srq_ex(ibctx, &srq->vsrq, &kernel_attr,
				    &cmd.ibv_cmd, sizeof(cmd), &resp.ibv_resp,
				    sizeof(resp));
	if (err)
		goto err_free;
	srq->srqn = srq->vsrq.srq_type == IBV_SRQT_XRC ? srq->vsrq.srq_num :
							 resp.srqn;
	err = fakernic_enter_srq(context, srq);
	if (err)
		goto err_destroy;
	attr->attr.max_wr = srq->queue.depth;
	attr->attr.max_sge = srq->sge_max;
	return &srq->vsrq.srq;

err_destroy:
	ibv_cmd_destroy_srq(&srq->vsrq.srq);
err_free:
	fakernic_usrq_free(srq);
	errno = err;
	return NULL;
}

/* Without a limit: "irrelevant for ibv_create_srq", says its man page. */
struct ibv_srq *fakernic_ucreate_srq(struct ibv_pd *pd,
				     struct ibv_srq_init_attr *attr)
{
	struct ibv_srq_init_attr_ex attr_ex = {
		.srq_context = attr->srq_context,
		.attr.max_wr = attr->attr.max_wr,
		.attr.max_sge = attr->attr.max_sge,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD,
		.srq_type = IBV_SRQT_BASIC,
		.pd = pd,
	};
	struct ibv_srq *srq;

	srq = fakernic_ucreate_srq_ex(pd->context, &attr_ex);
	if (srq) {
		attr->attr.max_wr = attr_ex.attr.max_wr;
		attr->attr.max_sge = attr_ex.attr.max_sge;
	}
	return srq;
}

/*
 * MODIFY_SRQ: the device copies the receives that it has not fetched to the
 * same indices of the new ring, up to the producer index in the new record. The
 * tags are kept when the ring shrinks, because outstanding receives may use any
 * of them.
 */
static int fakernic_resize_srq_locked(struct fakernic_srq *srq,
				      struct ibv_srq_attr *attr, int mask,
				      struct fakernic_queue *queue)
{
	struct fakernic_cmd_modify_srq cmd = {};
	struct fakernic_queue old = srq->queue;
	int err;

	if (fakernic_usrq_outstanding(srq) > queue->depth)
		return fakernic_refuse(
			fakernic_to_context(srq->vsrq.srq.context), EINVAL,
			"SRQ %u: %u outstanding receives do not fit into %u\n", srq->srqn,
			fakernic_usrq_outstanding(srq), queue->depth);
	err = fakernic_usrq_add_tags(srq, queue->depth);
	if (err)
		return err;
	fakernic_uqueue_publish(queue, srq->pi);
	cmd.buf_va = (uintptr_t)queue->ring;
	cmd.log_depth = queue->log_depth;
	err = ibv_cmd_modify_srq(&srq->vsrq.srq, attr, mask, &cmd.ibv_cmd,
				 sizeof(cmd));
	if (err)
		return err;
	srq->queue = *queue;
	*queue = old;
	return 0;
}

int fakernic_umodify_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr,
			 int mask)
{
	struct fakernic_context *context = fakernic_to_context(ibsrq->context);
	struct fakernic_srq *srq = fakernic_to_srq(ibsrq);
	struct fakernic_cmd_modify_srq cmd = {};
	struct fakernic_queue queue = {};
	int err;

	if (mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT))
		return EINVAL;
	if (!(mask & IBV_SRQ_MAX_WR))
		return ibv_cmd_modify_srq(ibsrq, attr, mask, &cmd.ibv_cmd,
					  sizeof(cmd));
	if (!(context->features & FAKERNIC_FEATURE_RESIZE_SRQ))
		return EOPNOTSUPP;
	if (!attr->max_wr || attr->max_wr > 1U << FAKERNIC_QUEUE_LOG_DEPTH_MAX)
		return fakernic_refuse(context, EINVAL,
				       "SRQ %u: resize to %u receives, at most %u\n",
				       srq->srqn, attr->max_wr,
				       1U << FAKERNIC_QUEUE_LOG_DEPTH_MAX);
	err = fakernic_uqueue_alloc(&queue, srq->queue.domain,
				    FAKERNIC_RESOURCE_SRQ,
				    fakernic_log2_ceil(attr->max_wr),
				    srq->queue.log_stride);
	if (err)
		return err;
	fakernic_lock(&srq->lock);
	err = fakernic_resize_srq_locked(srq, attr, mask, &queue);
	fakernic_unlock(&srq->lock);
	/* Frees the old ring, or the new one if the resize failed. */
	fakernic_uqueue_free(&queue);
	return err;
}

int fakernic_uquery_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr)
{
	struct fakernic_srq *srq = fakernic_to_srq(ibsrq);
	struct ibv_query_srq cmd;
	int err;

	err = ibv_cmd_query_srq(ibsrq, attr, &cmd, sizeof(cmd));
	if (err)
		return err;
	attr->max_wr = srq->queue.depth;
	attr->max_sge = srq->sge_max;
	return 0;
}

int fakernic_uget_srq_num(struct ibv_srq *ibsrq, uint32_t *srqn)
{
	*srqn = fakernic_to_srq(ibsrq)->srqn;
	return 0;
}

int fakernic_udestroy_srq(struct ibv_srq *ibsrq)
{
	struct fakernic_context *context = fakernic_to_context(ibsrq->context);
	struct fakernic_table *table = &context->srq_table;
	struct fakernic_srq *srq = fakernic_to_srq(ibsrq);
	int err;

	/* No lock is held, as in fakernic_udestroy_qp(). */
	err = ibv_cmd_destroy_srq(ibsrq);
	if (err)
		return err;
	pthread_mutex_lock(&table->mutex);
	while (fakernic_utable_find(table, srq->srqn) == srq &&
	       !fakernic_try_forget_srq_locked(context, srq))
		fakernic_utable_yield_locked(table);
	pthread_mutex_unlock(&table->mutex);
	fakernic_usrq_free(srq);
	return 0;
}
