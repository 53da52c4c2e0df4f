/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Send queues: the opcodes that a queue accepts, its size, its allocation, and
 * the slots that completions free. For WQEs see wqe.h, post_send.c and wr.c.
 *
 * The ring has room for wr_max WQEs of the largest size, so counting work
 * requests is enough. wr_pi counts posted requests. wr_ci counts freed ones:
 * the completion of a request also frees all unsignaled ones before it (IBTA
 * 10.8.5).
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <ccan/minmax.h>
#include <infiniband/driver.h>
#include <util/util.h>

#include "fakernic/base.h"
#include "fakernic/regs.h"
#include "fakernic/rq.h"
#include "fakernic/sq.h"
#include "compat.h"
#include "context.h"
#include "lock.h"
#include "queue.h"
#include "sq.h"

/* Verbs opcodes of a transport service (IBTA table 71) and the features. */
static uint32_t fakernic_usq_opcodes(enum ibv_qp_type type, uint64_t features)
{
	uint32_t send = FAKERNIC_WR_BIT(IBV_WR_SEND);
	uint32_t send_imm = send | FAKERNIC_WR_BIT(IBV_WR_SEND_WITH_IMM);
	uint32_t write = FAKERNIC_WR_BIT(IBV_WR_RDMA_WRITE) |
			 FAKERNIC_WR_BIT(IBV_WR_RDMA_WRITE_WITH_IMM);
	uint32_t opcodes;

	switch (type) {
	case IBV_QPT_RAW_PACKET:
		return send;
	case IBV_QPT_UD:
		return send_imm;
	case IBV_QPT_UC:
		opcodes = send_imm | write;
		if (features & FAKERNIC_FEATURE_MW)
			opcodes |= FAKERNIC_WR_BIT(IBV_WR_BIND_MW) |
				   FAKERNIC_WR_BIT(IBV_WR_LOCAL_INV);
		return opcodes;
	case IBV_QPT_RC:
	case IBV_QPT_XRC_SEND:
		break;
	default:
		return 0;
	}
	opcodes = send_imm | write | FAKERNIC_WR_BIT(IBV_WR_RDMA_READ);
	if (features & FAKERNIC_FEATURE_ATOMIC)
		opcodes |= FAKERNIC_WR_BIT(IBV_WR_ATOMIC_CMP_AND_SWP) |
			   FAKERNIC_WR_BIT(IBV_WR_ATOMIC_FETCH_AND_ADD);
	if (features & (FAKERNIC_FEATURE_MW | FAKERNIC_FEATURE_FAST_REG))
		opcodes |= FAKERNIC_WR_BIT(IBV_WR_SEND_WITH_INV) |
			   FAKERNIC_WR_BIT(IBV_WR_LOCAL_INV);
	if (features & FAKERNIC_FEATURE_MW)
		opcodes |= FAKERNIC_WR_BIT(IBV_WR_BIND_MW);
	if (features & FAKERNIC_FEATURE_FLUSH)
		opcodes |= FAKERNIC_WR_BIT(IBV_WR_FLUSH);
	if (features & FAKERNIC_FEATURE_ATOMIC_WRITE)
		opcodes |= FAKERNIC_WR_BIT(IBV_WR_ATOMIC_WRITE);
	return opcodes;
}

/* Data offset of the ordinary WQE with the longest headers. */
static uint32_t fakernic_usq_data_offset_max(enum ibv_qp_type type)
{
	if (type == IBV_QPT_UD)
		return FAKERNIC_SQ_DATA_OFFSET_UD;
	if (type == IBV_QPT_RAW_PACKET)
		return FAKERNIC_SQ_DATA_OFFSET_SEND;
	return FAKERNIC_SQ_DATA_OFFSET_RDMA;
}

int fakernic_usq_size(struct fakernic_sq *sq,
		      const struct fakernic_context *context,
		      const struct ibv_qp_init_attr_ex *attr,
		      uint8_t *log_depth)
{
	uint32_t offset = fakernic_usq_data_offset_max(attr->qp_type);
	const uint32_t atomics = FAKERNIC_WR_BIT(IBV_WR_ATOMIC_CMP_AND_SWP) |
				 FAKERNIC_WR_BIT(IBV_WR_ATOMIC_FETCH_AND_ADD);
	uint32_t bytes, room;

	sq->opcodes = fakernic_usq_opcodes(attr->qp_type, context->features);
	bytes = offset + max_t(uint32_t, attr->cap.max_inline_data,
			       attr->cap.max_send_sge *
				       sizeof(struct fakernic_sge));
	if (sq->opcodes & atomics)
		bytes = max_t(uint32_t, bytes,
			      FAKERNIC_SQ_DATA_OFFSET_ATOMIC +
				      sizeof(struct fakernic_sge));
	sq->bb_max = DIV_ROUND_UP(bytes, FAKERNIC_SQ_BB_SIZE);
	room = sq->bb_max * FAKERNIC_SQ_BB_SIZE - offset;
	*log_depth = fakernic_log2_ceil((uint64_t)attr->cap.max_send_wr *
					sq->bb_max);
	if (sq->bb_max > FAKERNIC_SQ_WQE_BB_MAX ||
	    *log_depth > FAKERNIC_QUEUE_LOG_DEPTH_MAX)
		return EINVAL;
	sq->sge_max = min_t(uint32_t, room / sizeof(struct fakernic_sge),
			    context->max_send_sge);
	sq->inline_max = min_t(uint32_t, room, context->max_inline);
	sq->wr_max = (1U << *log_depth) / sq->bb_max;
	sq->data_offset = attr->qp_type == IBV_QPT_UD ?
		FAKERNIC_SQ_DATA_OFFSET_UD : FAKERNIC_SQ_DATA_OFFSET_SEND;
	sq->signal_all = attr->sq_sig_all;
	if (attr->qp_type == IBV_QPT_RAW_PACKET &&
	    context->features & FAKERNIC_FEATURE_CSUM)
		sq->csum_flags = FAKERNIC_SQ_IP_CSUM | FAKERNIC_SQ_L4_CSUM;
	return 0;
}

int fakernic_usq_alloc(struct fakernic_sq *sq, struct ibv_pd *pd,
		       uint8_t log_depth)
{
	int err;

	err = fakernic_uqueue_alloc(&sq->queue, pd, FAKERNIC_RESOURCE_SQ,
				    log_depth, FAKERNIC_SQ_BB_SHIFT);
	if (err)
		return err;
	sq->wr = calloc(sq->queue.depth, sizeof(*sq->wr));
	if (!sq->wr) {
		fakernic_uqueue_free(&sq->queue);
		return ENOMEM;
	}
	return 0;
}

void fakernic_usq_free(struct fakernic_sq *sq)
{
	free(sq->wr);
	fakernic_uqueue_free(&sq->queue);
}

void fakernic_usq_reset(struct fakernic_sq *sq)
{
	if (!sq->queue.ring)
		return;
	fakernic_lock(&sq->lock);
	sq->pi = 0;
	sq->published = 0;
	sq->wr_pi = 0;
	sq->ci = 0;
	atomic_store_explicit(&sq->wr_ci, 0, memory_order_relaxed);
	fakernic_uqueue_store(&sq->queue, 0);
	__atomic_store_n(&sq->queue.record->device_index, 0, __ATOMIC_RELAXED);
	fakernic_unlock(&sq->lock);
}

bool fakernic_usq_complete(struct fakernic_sq *sq, uint32_t index,
			   uint64_t *wr_id)
{
	const struct fakernic_sq_wr *wr =
		&sq->wr[fakernic_uqueue_slot(&sq->queue, index)];

	if (index - sq->ci >= fakernic_uqueue_load(&sq->queue) - sq->ci)
		return false;
	/* journey: retire */
	*wr_id = wr->wr_id;
	sq->ci = wr->end;
	/*
	 * After the reads: the slot may be posted again now. Pairs with
	 * fakernic_usq_begin().
	 */
	atomic_store_explicit(&sq->wr_ci, wr->wr_end, memory_order_release);
	return true;
	/* journey: end */
}

bool fakernic_usq_flush(struct fakernic_sq *sq, uint64_t *wr_id)
{
	return sq->queue.ring && fakernic_usq_complete(sq, sq->ci, wr_id);
}
