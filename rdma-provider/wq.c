/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Work queues, indirection tables and RSS QPs. A work queue is a receive queue
 * as in rq.c; its number is from the same space as QP numbers. An RSS QP has no
 * queues: the device delivers each frame to the work queue that its hash
 * selects.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <infiniband/driver.h>
#include <util/util.h>

#include "fakernic/regs.h"
#include "fakernic/wq.h"
#include "compat.h"
#include "context.h"
#include "cq.h"
#include "fakernic-abi.h"
#include "lock.h"
#include "pd.h"
#include "qp.h"
#include "queue.h"
#include "rq.h"
#include "table.h"
#include "wq.h"

/* Limit of the kernel: IB_USER_VERBS_MAX_LOG_IND_TBL_SIZE. */
#define FAKERNIC_MAX_LOG_IND_TABLE	13

/* ---- work queues --------------------------------------------------------- */

static int fakernic_post_wq_recv(struct ibv_wq *ibwq, struct ibv_recv_wr *wr,
				 struct ibv_recv_wr **bad_wr)
{
	/* As for a QP: a reset would drop receives that are posted in Reset. */
	if (ibwq->state == IBV_WQS_RESET) {
		*bad_wr = wr;
		return fakernic_refuse(fakernic_to_context(ibwq->context),
				       EINVAL,
				       "WQ %u: receive refused: it is in RESET\n",
				       ibwq->wq_num);
	}
	return fakernic_urq_post(&fakernic_to_wq(ibwq)->rq, ibwq->context,
				 ibwq->wq_num, wr, bad_wr);
}

static int fakernic_ucheck_wq(struct fakernic_context *context,
			      const struct ibv_wq_init_attr *attr)
{
	if (!check_comp_mask(attr->comp_mask, IBV_WQ_INIT_ATTR_FLAGS) ||
	    (attr->comp_mask & IBV_WQ_INIT_ATTR_FLAGS && attr->create_flags) ||
	    attr->wq_type != IBV_WQT_RQ)
		return fakernic_refuse(context, EOPNOTSUPP,
				       "create WQ: unsupported type %u, attributes %#x or flags %#x\n",
				       attr->wq_type, attr->comp_mask,
				       attr->create_flags);
	if (!attr->pd || !attr->cq || !attr->max_wr ||
	    attr->max_wr > context->max_qp_wr ||
	    attr->max_sge > context->max_recv_sge)
		return fakernic_refuse(context, EINVAL,
				       "create WQ: no PD or CQ, or %u receives of %u SGEs, at most %u of %u\n",
				       attr->max_wr, attr->max_sge,
				       context->max_qp_wr,
				       context->max_recv_sge);
	return 0;
}

static void fakernic_free_wq(struct fakernic_wq *wq)
{
	fakernic_lock_destroy(&wq->rq.lock);
	fakernic_urq_free(&wq->rq);
	free(wq);
}

static struct fakernic_wq *
fakernic_new_wq(const struct fakernic_context *context,
		const struct ibv_wq_init_attr *attr)
{
	uint8_t log_stride = fakernic_recv_log_stride(attr->max_sge);
	struct fakernic_wq *wq;

	wq = calloc(1, sizeof(*wq));
	if (!wq)
		return NULL;
	errno = fakernic_urq_alloc(&wq->rq, attr->pd,
				   fakernic_log2_ceil(attr->max_wr),
				   log_stride);
	if (errno) {
		free(wq);
		return NULL;
	}
	wq->rq.sge_max = fakernic_recv_sge_max(context, log_stride);
	fakernic_lock_init(&wq->rq.lock, fakernic_pd_needs_locks(attr->pd));
	return wq;
}

static int fakernic_enter_wq(struct fakernic_context *context,
			     struct fakernic_wq *wq)
{
	struct fakernic_table *table = &context->qp_table;
	int err;

	pthread_mutex_lock(&table->mutex);
	while (!fakernic_try_forget_number_locked(context, wq->wq.wq_num))
		fakernic_utable_yield_locked(table);
	err = fakernic_utable_put_locked(&context->wq_table, wq->wq.wq_num, wq);
	pthread_mutex_unlock(&table->mutex);
	return err;
}

struct ibv_wq *fakernic_ucreate_wq(struct ibv_context *ibctx,
				   struct ibv_wq_init_attr *attr)
{
	struct fakernic_context *context = fakernic_to_context(ibctx);
	struct fakernic_cmd_create_wq_resp resp = {};
	struct ibv_wq_init_attr kernel_attr = *attr;
	struct fakernic_cmd_create_wq cmd = {};
	struct fakernic_wq *wq;
	int err;

	errno = fakernic_ucheck_wq(context, attr);
	if (errno)
		return NULL;
	wq = fakernic_new_wq(context, attr);
	if (!wq)
		return NULL;
	cmd.buf_va = (uintptr_t)wq->rq.queue.ring;
	cmd.log_depth = wq->rq.queue.log_depth;
	cmd.log_stride = wq->rq.queue.log_stride;
	/* Fields without a bit in comp_mask may be uninitialized. */
	if (!(attr->comp_mask & IBV_WQ_INIT_ATTR_FLAGS))
		kernel_attr.create_flags = 0;
	err = ibv_cmd_create_wq(ibctx, &kernel_attr, &wq->wq, &cmd.ibv_cmd,
				sizeof(cmd), &resp.ibv_resp, sizeof(resp));
	if (err)
		goto err_free;
	wq->wq.state = IBV_WQS_RESET;
	wq->wq.post_recv = fakernic_post_wq_recv;
	err = fakernic_enter_wq(context, wq);
	if (err)
		goto err_destroy;
	attr->max_wr = wq->rq.queue.depth;
	attr->max_sge = wq->rq.sge_max;
	return &wq->wq;

err_destroy:
	ibv_cmd_destroy_wq(&wq->wq);
err_free:
	fakernic_free_wq(wq);
	errno = err;
	return NULL;
}

/*
 * The kernel's core also refuses unknown states, but then leaks a reference to
 * the WQ, which can never be destroyed (Linux 6.1 and 6.12).
 */
static bool fakernic_wq_states_exist(const struct ibv_wq_attr *attr)
{
	return (!(attr->attr_mask & IBV_WQ_ATTR_STATE) ||
		attr->wq_state <= IBV_WQS_ERR) &&
	       (!(attr->attr_mask & IBV_WQ_ATTR_CURR_STATE) ||
		attr->curr_wq_state <= IBV_WQS_ERR);
}

int fakernic_umodify_wq(struct ibv_wq *ibwq, struct ibv_wq_attr *attr)
{
	struct fakernic_wq *wq = fakernic_to_wq(ibwq);
	struct ibv_modify_wq cmd = {};
	int err;

	if (!fakernic_wq_states_exist(attr))
		return fakernic_refuse(fakernic_to_context(ibwq->context),
				       EINVAL, "WQ %u: unknown state\n",
				       ibwq->wq_num);
	err = ibv_cmd_modify_wq(ibwq, attr, &cmd, sizeof(cmd));
	if (err || !(attr->attr_mask & IBV_WQ_ATTR_STATE) ||
	    attr->wq_state != IBV_WQS_RESET)
		return err;
	/* The device no longer uses its queue and restarts at index 0. */
	fakernic_lock_cqs(ibwq->cq, NULL);
	fakernic_clean_cq_of_qp_locked(ibwq->cq, ibwq->wq_num);
	fakernic_urq_reset(&wq->rq);
	fakernic_unlock_cqs(ibwq->cq, NULL);
	return 0;
}

int fakernic_udestroy_wq(struct ibv_wq *ibwq)
{
	struct fakernic_context *context = fakernic_to_context(ibwq->context);
	struct fakernic_table *table = &context->qp_table;
	struct fakernic_wq *wq = fakernic_to_wq(ibwq);
	int err;

	/* No lock is held, as in fakernic_udestroy_qp(). */
	err = ibv_cmd_destroy_wq(ibwq);
	if (err)
		return err;
	pthread_mutex_lock(&table->mutex);
	while (fakernic_utable_find(&context->wq_table, ibwq->wq_num) == wq &&
	       !fakernic_try_forget_number_locked(context, ibwq->wq_num))
		fakernic_utable_yield_locked(table);
	pthread_mutex_unlock(&table->mutex);
	fakernic_free_wq(wq);
	return 0;
}

/* ---- indirection tables -------------------------------------------------- */

struct ibv_rwq_ind_table *
fakernic_ucreate_rwq_ind_table(struct ibv_context *ibctx,
			       struct ibv_rwq_ind_table_init_attr *attr)
{
	struct fakernic_context *context = fakernic_to_context(ibctx);
	struct ib_uverbs_ex_create_rwq_ind_table_resp resp = {};
	struct ibv_rwq_ind_table *table;

	if (attr->comp_mask ||
	    attr->log_ind_tbl_size > FAKERNIC_MAX_LOG_IND_TABLE) {
		errno = fakernic_refuse(context,
					attr->comp_mask ? EOPNOTSUPP : EINVAL,
					"create indirection table: attributes %#x, 2^%u entries, at most 2^%u\n",
					attr->comp_mask,
					attr->log_ind_tbl_size,
					FAKERNIC_MAX_LOG_IND_TABLE);
		return NULL;
	}
	table = calloc(1, sizeof(*table));
	if (!table)
		return NULL;
	errno = ibv_cmd_create_rwq_ind_table(ibctx, attr, table, &resp,
					     sizeof(resp));
	if (errno) {
		int err = errno;

		free(table);
		errno = err;
		return NULL;
	}
	return table;
}

int fakernic_udestroy_rwq_ind_table(struct ibv_rwq_ind_table *table)
{
	int err;

	err = ibv_cmd_destroy_rwq_ind_table(table);
	if (err)
		return err;
	free(table);
	return 0;
}

/* ---- RSS QPs ------------------------------------------------------------- */

static int fakernic_ucheck_hash(struct fakernic_context *context,
				const struct ibv_rx_hash_conf *hash)
{
	if (hash->rx_hash_function != IBV_RX_HASH_FUNC_TOEPLITZ ||
	    hash->rx_hash_fields_mask & ~(uint64_t)FAKERNIC_HASH_FIELDS)
		return fakernic_refuse(context, EOPNOTSUPP,
				       "create RSS QP: unsupported hash function %u or fields %#" PRIx64
				       "\n", hash->rx_hash_function,
				       hash->rx_hash_fields_mask);
	if (hash->rx_hash_key_len != FAKERNIC_HASH_KEY_SIZE ||
	    !hash->rx_hash_key)
		return fakernic_refuse(context, EINVAL,
				       "create RSS QP: hash key of %u bytes, must be %u\n",
				       hash->rx_hash_key_len,
				       FAKERNIC_HASH_KEY_SIZE);
	return 0;
}

static int fakernic_ucheck_rss_qp(struct fakernic_context *context,
				  const struct ibv_qp_init_attr_ex *attr)
{
	const uint32_t needed = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_RX_HASH |
				IBV_QP_INIT_ATTR_IND_TABLE;

	if (!(context->features & FAKERNIC_FEATURE_WQ_RSS) ||
	    attr->qp_type != IBV_QPT_RAW_PACKET ||
	    !check_comp_mask(attr->comp_mask,
			     needed | IBV_QP_INIT_ATTR_CREATE_FLAGS) ||
	    (attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS &&
	     attr->create_flags))
		return fakernic_refuse(context, EOPNOTSUPP,
				       "create RSS QP: unsupported type %u or attributes %#x\n",
				       attr->qp_type, attr->comp_mask);
	if ((attr->comp_mask & needed) != needed || !attr->pd ||
	    !attr->rwq_ind_tbl || attr->send_cq || attr->recv_cq || attr->srq ||
	    attr->cap.max_send_wr || attr->cap.max_recv_wr ||
	    attr->cap.max_send_sge || attr->cap.max_recv_sge ||
	    attr->cap.max_inline_data)
		return fakernic_refuse(context, EINVAL,
				       "create RSS QP: needs PD, table and hash, and no CQ, SRQ or queue sizes\n");
	return fakernic_ucheck_hash(context, &attr->rx_hash_conf);
}

static int fakernic_create_rss_qp_hw(struct fakernic_qp *qp,
				     struct ibv_context *ibctx,
				     const struct ibv_qp_init_attr_ex *attr)
{
	struct fakernic_context *context = fakernic_to_context(ibctx);
	const struct ibv_rx_hash_conf *hash = &attr->rx_hash_conf;
	struct ibv_qp_init_attr_ex kernel_attr = *attr;
	struct fakernic_cmd_create_qp_resp resp = {};
	struct fakernic_cmd_create_rss_qp cmd = {};
	int err;

	cmd.rx_hash_fields = hash->rx_hash_fields_mask;
	cmd.rx_hash_function = hash->rx_hash_function;
	cmd.rx_hash_key_len = hash->rx_hash_key_len;
	memcpy(cmd.rx_hash_key, hash->rx_hash_key, sizeof(cmd.rx_hash_key));
	err = ibv_cmd_create_qp_ex2(ibctx, &qp->vqp, &kernel_attr,
				    &cmd.ibv_cmd, sizeof(cmd), &resp.ibv_resp,
				    sizeof(resp) FAKERNIC_NO_DRIVER_ATTR);
	if (err)
		return err;
	err = fakernic_enter_qp(context, qp);
	if (err)
		ibv_cmd_destroy_qp(&qp->vqp.qp);
	return err;
}

struct ibv_qp *fakernic_ucreate_rss_qp(struct ibv_context *ibctx,
				       struct ibv_qp_init_attr_ex *attr)
{
	struct fakernic_qp *qp;
	int err;

	errno = fakernic_ucheck_rss_qp(fakernic_to_context(ibctx), attr);
	if (errno)
		return NULL;
	qp = calloc(1, sizeof(*qp));
	if (!qp)
		return NULL;
	fakernic_lock_init(&qp->sq.lock, false);
	fakernic_lock_init(&qp->rq.lock, false);
	err = fakernic_create_rss_qp_hw(qp, ibctx, attr);
	if (err) {
		fakernic_lock_destroy(&qp->sq.lock);
		fakernic_lock_destroy(&qp->rq.lock);
		free(qp);
		errno = err;
		return NULL;
	}
	return &qp->vqp.qp;
}
