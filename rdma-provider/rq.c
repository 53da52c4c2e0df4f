/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Receive queues: translate ibv_recv_wr to a slot (fakernic/rq.h) and store the
 * producer index in the doorbell record. Posting needs only memory stores; the
 * device reads the record when it needs a receive. Receives of a QP complete in
 * order. The tag is the index, so the last completed tag shows which slots are
 * free.
 */
#include <endian.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <ccan/minmax.h>
#include <infiniband/driver.h>

#include "fakernic/rq.h"
#include "context.h"
#include "lock.h"
#include "qp.h"
#include "queue.h"
#include "rq.h"

uint8_t fakernic_recv_log_stride(uint32_t sge_count)
{
	uint8_t log = fakernic_log2_ceil(sizeof(struct fakernic_rq_wqe) +
					 sge_count *
						 sizeof(struct fakernic_sge));

	return log < FAKERNIC_RQ_LOG_STRIDE_MIN ? FAKERNIC_RQ_LOG_STRIDE_MIN :
						  log;
}

uint32_t fakernic_recv_sge_max(const struct fakernic_context *context,
			       uint8_t log_stride)
{
	uint32_t fits = ((1U << log_stride) - sizeof(struct fakernic_rq_wqe)) /
			sizeof(struct fakernic_sge);

	return min_t(uint32_t, fits, context->max_recv_sge);
}

int fakernic_urq_alloc(struct fakernic_rq *rq, struct ibv_pd *pd,
		       uint8_t log_depth, uint8_t log_stride)
{
	int err;

	err = fakernic_uqueue_alloc(&rq->queue, pd, FAKERNIC_RESOURCE_RQ,
				    log_depth, log_stride);
	if (err)
		return err;
	rq->wr_id = calloc(rq->queue.depth, sizeof(*rq->wr_id));
	if (!rq->wr_id) {
		fakernic_uqueue_free(&rq->queue);
		return ENOMEM;
	}
	return 0;
}

void fakernic_urq_free(struct fakernic_rq *rq)
{
	free(rq->wr_id);
	fakernic_uqueue_free(&rq->queue);
}

void fakernic_urq_reset(struct fakernic_rq *rq)
{
	if (!rq->queue.ring)
		return;
	fakernic_lock(&rq->lock);
	rq->pi = 0;
	atomic_store_explicit(&rq->ci, 0, memory_order_relaxed);
	fakernic_uqueue_store(&rq->queue, 0);
	fakernic_unlock(&rq->lock);
}

bool fakernic_urq_complete(struct fakernic_rq *rq, uint32_t tag,
			   uint64_t *wr_id)
{
	uint32_t ci = atomic_load_explicit(&rq->ci, memory_order_relaxed);

	if (tag - ci >= fakernic_uqueue_load(&rq->queue) - ci)
		return false;
	*wr_id = rq->wr_id[fakernic_uqueue_slot(&rq->queue, tag)];
	/*
	 * After the read of wr_id: the slot may be posted again now. Pairs with
	 * fakernic_post_one_recv().
	 */
	atomic_store_explicit(&rq->ci, tag + 1, memory_order_release);
	return true;
}

bool fakernic_urq_flush(struct fakernic_rq *rq, uint64_t *wr_id)
{
	return rq->queue.ring &&
	       fakernic_urq_complete(rq,
				     atomic_load_explicit(&rq->ci,
							  memory_order_relaxed),
				     wr_id);
}

void fakernic_write_recv(struct fakernic_rq_wqe *wqe, uint32_t tag,
			 const struct ibv_recv_wr *wr)
{
	int i;

	*wqe = (struct fakernic_rq_wqe) {
		.tag = htole32(tag),
		.sge_count = wr->num_sge,
	};
	for (i = 0; i < wr->num_sge; i++)
		wqe->sge[i] = (struct fakernic_sge) {
			.address = htole64(wr->sg_list[i].addr),
			.length = htole32(wr->sg_list[i].length),
			.lkey = htole32(wr->sg_list[i].lkey),
		};
}

static int fakernic_post_one_recv(struct fakernic_rq *rq,
				  const struct ibv_recv_wr *wr)
{
	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > rq->sge_max)
		return EINVAL;
	/* ci before the slot is written again: see fakernic_urq_complete(). */
	if (rq->pi - atomic_load_explicit(&rq->ci, memory_order_acquire) >=
	    rq->queue.depth)
		return ENOMEM;
	rq->wr_id[fakernic_uqueue_slot(&rq->queue, rq->pi)] = wr->wr_id;
	fakernic_write_recv(fakernic_uqueue_entry(&rq->queue, rq->pi), rq->pi,
			    wr);
	rq->pi++;
	return 0;
}

void fakernic_explain_recv(struct ibv_context *context, uint32_t number,
			   const struct ibv_recv_wr *wr, uint32_t sge_max)
{
	fakernic_refuse(fakernic_to_context(context), EINVAL,
			"queue %u: receive refused: %d SGEs, at most %u\n",
			number, wr->num_sge, sge_max);
}

int fakernic_urq_post(struct fakernic_rq *rq, struct ibv_context *context,
		      uint32_t number, struct ibv_recv_wr *wr,
		      struct ibv_recv_wr **bad_wr)
{
	uint32_t first;
	int err = 0;

	fakernic_lock(&rq->lock);
	first = rq->pi;
	for (; wr; wr = wr->next) {
		err = fakernic_post_one_recv(rq, wr);
		if (err) {
			if (err == EINVAL)
				fakernic_explain_recv(context, number, wr,
						      rq->sge_max);
			*bad_wr = wr;
			break;
		}
	}
	if (rq->pi != first)
		fakernic_uqueue_publish(&rq->queue, rq->pi);
	fakernic_unlock(&rq->lock);
	return err;
}

int fakernic_upost_recv(struct ibv_qp *ibqp, struct ibv_recv_wr *wr,
			struct ibv_recv_wr **bad_wr)
{
	struct fakernic_rq *rq = &fakernic_to_qp(ibqp)->rq;

	/* IBTA 10.8.3.1: not in Reset; nor on a QP with an SRQ or no RQ. */
	if (ibqp->state == IBV_QPS_RESET || !rq->queue.ring) {
		*bad_wr = wr;
		return !rq->queue.ring && !ibqp->srq ? ENOMEM :
			fakernic_refuse(fakernic_to_context(ibqp->context),
					EINVAL, "QP %u: receive refused: %s\n",
					ibqp->qp_num, ibqp->srq ?
					"it has an SRQ" : "it is in RESET");
	}
	return fakernic_urq_post(rq, ibqp->context, ibqp->qp_num, wr, bad_wr);
}
