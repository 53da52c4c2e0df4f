/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Shared receive queues (IBTA 10.2.9): as rq.c, but the QPs that share one
 * complete its receives in any order. So a receive carries a tag from a stack
 * of free ones, under which its wr_id is kept until its CQE returns the tag.
 */
#include <errno.h>
#include <stdlib.h>

#include "fakernic.h"
#include "fakernic-abi.h"

static int fakernic_srq_alloc(struct fakernic_srq *srq, uint8_t log_depth,
			      uint8_t log_stride, bool needs_lock)
{
	uint32_t i;
	int err;

	err = fakernic_queue_alloc(&srq->queue, log_depth, log_stride);
	if (err)
		return err;
	srq->wr_id = calloc(srq->queue.depth, sizeof(*srq->wr_id));
	srq->free_tag = calloc(srq->queue.depth, sizeof(*srq->free_tag));
	if (!srq->wr_id || !srq->free_tag) {
		free(srq->wr_id);
		free(srq->free_tag);
		fakernic_queue_free(&srq->queue);
		return ENOMEM;
	}
	for (i = 0; i < srq->queue.depth; i++)
		srq->free_tag[i] = srq->queue.depth - 1 - i;
	srq->free_count = srq->queue.depth;
	fakernic_lock_init(&srq->lock, needs_lock);
	return 0;
}

static void fakernic_srq_free(struct fakernic_srq *srq)
{
	fakernic_lock_destroy(&srq->lock);
	free(srq->wr_id);
	free(srq->free_tag);
	fakernic_queue_free(&srq->queue);
	free(srq);
}

struct ibv_srq *fakernic_create_srq(struct ibv_pd *pd,
				    struct ibv_srq_init_attr *attr)
{
	struct fakernic_context *context = fakernic_to_context(pd->context);
	struct fakernic_cmd_create_srq_resp resp = {};
	struct fakernic_cmd_create_srq cmd = {};
	uint8_t log_depth = fakernic_log2_ceil(attr->attr.max_wr);
	struct fakernic_srq *srq;
	uint8_t log_stride;

	if (!attr->attr.max_wr || log_depth > FAKERNIC_QUEUE_LOG_DEPTH_MAX ||
	    attr->attr.max_sge > context->max_recv_sge) {
		errno = EINVAL;
		return NULL;
	}
	log_stride = fakernic_recv_log_stride(attr->attr.max_sge);
	srq = calloc(1, sizeof(*srq));
	if (!srq)
		return NULL;
	errno = fakernic_srq_alloc(srq, log_depth, log_stride,
				   fakernic_pd_needs_locks(pd));
	if (errno) {
		free(srq);
		return NULL;
	}
	cmd.buf_va = (uintptr_t)srq->queue.ring;
	cmd.log_depth = log_depth;
	cmd.log_stride = log_stride;
	errno = ibv_cmd_create_srq(pd, &srq->vsrq.srq, attr, &cmd.ibv_cmd,
				   sizeof(cmd), &resp.ibv_resp, sizeof(resp));
	if (errno)
		goto err_free;
	srq->srqn = resp.srqn;
	srq->sge_max = fakernic_recv_sge_max(context, log_stride);
	errno = fakernic_table_put(&context->srq_table, srq->srqn, srq);
	if (errno) {
		ibv_cmd_destroy_srq(&srq->vsrq.srq);
		errno = ENOMEM;
		goto err_free;
	}
	attr->attr.max_wr = srq->queue.depth;
	attr->attr.max_sge = srq->sge_max;
	return &srq->vsrq.srq;

err_free:
	fakernic_srq_free(srq);
	return NULL;
}

int fakernic_modify_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr,
			int mask)
{
	struct fakernic_cmd_modify_srq cmd = {};

	/* Not announced: IBV_DEVICE_SRQ_RESIZE. */
	if (mask & IBV_SRQ_MAX_WR)
		return EOPNOTSUPP;
	return ibv_cmd_modify_srq(ibsrq, attr, mask, &cmd.ibv_cmd, sizeof(cmd));
}

int fakernic_query_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr)
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

int fakernic_get_srq_num(struct ibv_srq *ibsrq, uint32_t *srqn)
{
	*srqn = fakernic_to_srq(ibsrq)->srqn;
	return 0;
}

int fakernic_destroy_srq(struct ibv_srq *ibsrq)
{
	struct fakernic_context *context = fakernic_to_context(ibsrq->context);
	struct fakernic_srq *srq = fakernic_to_srq(ibsrq);
	int err;

	/* Held over both, so that a new SRQ of this number waits to be put. */
	pthread_mutex_lock(&context->srq_table.mutex);
	err = ibv_cmd_destroy_srq(ibsrq);
	if (!err)
		fakernic_table_remove_locked(&context->srq_table, srq->srqn);
	pthread_mutex_unlock(&context->srq_table.mutex);
	if (err)
		return err;
	fakernic_srq_free(srq);
	return 0;
}

uint64_t fakernic_srq_complete(struct fakernic_srq *srq, uint32_t tag)
{
	uint64_t wr_id;

	tag = fakernic_queue_slot(&srq->queue, tag);
	fakernic_lock(&srq->lock);
	wr_id = srq->wr_id[tag];
	if (srq->free_count < srq->queue.depth)
		srq->free_tag[srq->free_count++] = tag;
	fakernic_unlock(&srq->lock);
	return wr_id;
}

static int fakernic_post_one_srq_recv(struct fakernic_srq *srq,
				      const struct ibv_recv_wr *wr)
{
	uint32_t tag;

	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > srq->sge_max)
		return EINVAL;
	/* No more than depth are outstanding, so the next slot is free too. */
	if (!srq->free_count)
		return ENOMEM;
	tag = srq->free_tag[--srq->free_count];
	srq->wr_id[tag] = wr->wr_id;
	fakernic_write_recv(fakernic_queue_entry(&srq->queue, srq->pi), tag,
			    wr);
	srq->pi++;
	return 0;
}

int fakernic_post_srq_recv(struct ibv_srq *ibsrq, struct ibv_recv_wr *wr,
			   struct ibv_recv_wr **bad_wr)
{
	struct fakernic_srq *srq = fakernic_to_srq(ibsrq);
	uint32_t first;
	int err = 0;

	fakernic_lock(&srq->lock);
	first = srq->pi;
	for (; wr; wr = wr->next) {
		err = fakernic_post_one_srq_recv(srq, wr);
		if (err) {
			*bad_wr = wr;
			break;
		}
	}
	if (srq->pi != first)
		fakernic_queue_publish(&srq->queue, srq->pi);
	fakernic_unlock(&srq->lock);
	return err;
}
