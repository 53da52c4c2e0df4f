/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The steps by which both posting interfaces build a send WQE (fakernic/sq.h):
 * begin a WQE, put its segments and data, end it, ring. The SQ is locked.
 * Segment code need not handle the end of the ring: a WQE that would wrap is
 * built in a staging buffer and copied when it ends.
 */
#ifndef FAKERNIC_PROVIDER_WQE_H
#define FAKERNIC_PROVIDER_WQE_H

#include <errno.h>
#include <string.h>
#include <ccan/minmax.h>
#include <util/util.h>

#include "fakernic/base.h"
#include "fakernic/qp.h"
#include "fakernic/regs.h"
#include "fakernic/sq.h"
#include "ah.h"
#include "context.h"
#include "doorbell.h"
#include "qp.h"
#include "queue.h"
#include "sq.h"

static inline void *fakernic_usq_at(struct fakernic_sq *sq, uint32_t offset)
{
	return (uint8_t *)sq->wqe + offset;
}

/* Returns EINVAL and keeps the reason for fakernic_usq_explain(). */
static inline int fakernic_usq_bad(struct fakernic_sq *sq, const char *why)
{
	sq->why = why;
	return EINVAL;
}

/* Logs why a request was refused. A full queue (ENOMEM) is not logged. */
static inline int fakernic_usq_explain(const struct ibv_qp *qp, int err,
				       const struct fakernic_sq *sq)
{
	return err != EINVAL ? err :
		fakernic_refuse(fakernic_to_context(qp->context), err,
				"QP %u: send refused: %s\n", qp->qp_num,
				sq->why);
}

/* Starts a WQE: finds room and writes its header. 0 or an errno value. */
static inline int fakernic_usq_begin(struct fakernic_sq *sq, uint64_t wr_id,
				     uint8_t opcode, unsigned int send_flags,
				     uint32_t imm_or_key)
{
	uint32_t slot = fakernic_uqueue_slot(&sq->queue, sq->pi);
	uint8_t flags = 0;

	if (send_flags & IBV_SEND_IP_CSUM && !sq->csum_flags)
		return fakernic_usq_bad(
			sq, "this QP does not support checksums");
	/* wr_ci before the slot is written: see fakernic_usq_complete(). */
	if (sq->wr_pi - atomic_load_explicit(&sq->wr_ci,
					     memory_order_acquire) >=
	    sq->wr_max)
		return ENOMEM;
	if (sq->signal_all || send_flags & IBV_SEND_SIGNALED)
		flags |= FAKERNIC_SQ_SIGNALED;
	if (send_flags & IBV_SEND_SOLICITED)
		flags |= FAKERNIC_SQ_SOLICITED;
	if (send_flags & IBV_SEND_FENCE)
		flags |= FAKERNIC_SQ_FENCE;
	if (send_flags & IBV_SEND_IP_CSUM)
		flags |= sq->csum_flags;
	sq->wqe = slot + sq->bb_max <= sq->queue.depth ?
		fakernic_uqueue_entry(&sq->queue, slot) : (void *)sq->staging;
	*sq->wqe = (struct fakernic_sq_hdr) {
		.opcode = opcode,
		.flags = flags,
		.imm_or_key = htole32(imm_or_key),
	};
	sq->wqe_bytes = sizeof(*sq->wqe);
	sq->wqe_wr_id = wr_id;
	return 0;
}

/* journey: wqe */
static inline void
fakernic_usq_put_rdma(struct fakernic_sq *sq, uint64_t address,
		      uint32_t rkey, uint32_t flush)
{
	struct fakernic_sq_rdma *rdma = fakernic_usq_at(sq, sizeof(*sq->wqe));

	*rdma = (struct fakernic_sq_rdma) {
		.remote_address = htole64(address),
		.rkey = htole32(rkey),
		.flush = htole32(flush),
	};
	sq->wqe_bytes = FAKERNIC_SQ_DATA_OFFSET_RDMA;
}
/* journey: end */

static inline void
fakernic_usq_put_atomic(struct fakernic_sq *sq, uint64_t address,
			uint32_t rkey, uint64_t swap_or_add,
			uint64_t compare)
{
	struct fakernic_sq_atomic *atomic =
		fakernic_usq_at(sq, sizeof(*sq->wqe));

	*atomic = (struct fakernic_sq_atomic) {
		.remote_address = htole64(address),
		.rkey = htole32(rkey),
		.swap_or_add = htole64(swap_or_add),
		.compare = htole64(compare),
	};
	sq->wqe_bytes = FAKERNIC_SQ_DATA_OFFSET_ATOMIC;
}

static inline void
fakernic_usq_put_ud(struct fakernic_sq *sq, struct ibv_ah *ah,
		    uint32_t qpn, uint32_t qkey)
{
	struct fakernic_sq_ud *ud = fakernic_usq_at(sq, sizeof(*sq->wqe));

	ud->av = fakernic_to_ah(ah)->av;
	ud->dest_qpn = htole32(qpn & FAKERNIC_QPN_MAX);
	ud->qkey = htole32(qkey);
}

/* Puts the zeroed address segment of a SEND; data may follow. */
static inline void fakernic_usq_put_send(struct fakernic_sq *sq)
{
	if (sq->data_offset > sizeof(*sq->wqe))
		memset(fakernic_usq_at(sq, sizeof(*sq->wqe)), 0,
		       sq->data_offset - sizeof(*sq->wqe));
	sq->wqe_bytes = sq->data_offset;
}

/* A window has remote rights only (IBTA 10.6.7), so LOCAL_WRITE is ignored. */
static inline void
fakernic_usq_put_bind(struct fakernic_sq *sq, uint32_t mw_key,
		      uint32_t new_key,
		      const struct ibv_mw_bind_info *info)
{
	struct fakernic_sq_bind_mw *bind =
		fakernic_usq_at(sq, sizeof(*sq->wqe));

	*bind = (struct fakernic_sq_bind_mw) {
		.address = htole64(info->addr),
		.length = htole64(info->length),
		.mw_key = htole32(mw_key),
		.new_key = htole32(new_key),
		.mr_key = htole32(info->mr ? info->mr->lkey : 0),
		.access = htole32(info->mw_access_flags &
				  ~(unsigned int)IBV_ACCESS_LOCAL_WRITE),
	};
	sq->wqe_bytes += sizeof(*bind);
}

/* journey: wqe */
static inline void
fakernic_usq_put_sge(struct fakernic_sq *sq, uint64_t address,
		     uint32_t length, uint32_t lkey)
{
	struct fakernic_sge *sge = fakernic_usq_at(sq, sq->wqe_bytes);

	*sge = (struct fakernic_sge) {
		.address = htole64(address),
		.length = htole32(length),
		.lkey = htole32(lkey),
	};
	sq->wqe->sge_count++;
	sq->wqe_bytes += sizeof(*sge);
}
/* journey: end */

/* Appends to the inline data. 0 or EINVAL. */
static inline int
fakernic_usq_put_inline(struct fakernic_sq *sq, const void *data,
			size_t length)
{
	uint32_t before = le16toh(sq->wqe->inline_length);

	if (length > sq->inline_max - before)
		return fakernic_usq_bad(sq, "more data than max_inline_data");
	memcpy(fakernic_usq_at(sq, sq->wqe_bytes), data, length);
	sq->wqe->flags |= FAKERNIC_SQ_INLINE;
	sq->wqe->inline_length = htole16(before + length);
	sq->wqe_bytes += length;
	return 0;
}

/* Completes the current WQE. Cannot fail. */
static inline void fakernic_usq_end(struct fakernic_sq *sq)
{
	uint32_t slot = fakernic_uqueue_slot(&sq->queue, sq->pi);
	uint32_t bb_count = DIV_ROUND_UP(sq->wqe_bytes, FAKERNIC_SQ_BB_SIZE);
	uint32_t to_end = min_t(uint32_t, bb_count, sq->queue.depth - slot);

	sq->wqe->bb_count = bb_count;
	if ((void *)sq->wqe == (void *)sq->staging) {
		memcpy(fakernic_uqueue_entry(&sq->queue, slot), sq->staging,
		       to_end << FAKERNIC_SQ_BB_SHIFT);
		memcpy(sq->queue.ring,
		       (uint8_t *)sq->staging +
			       (to_end << FAKERNIC_SQ_BB_SHIFT),
		       (bb_count - to_end) << FAKERNIC_SQ_BB_SHIFT);
	}
	sq->wr[slot].wr_id = sq->wqe_wr_id;
	sq->wr[slot].wr_end = ++sq->wr_pi;
	sq->pi += bb_count;
	sq->wr[slot].end = sq->pi;
	sq->wqe = NULL;
}

/* Hands all completed WQEs to the device; rings if the queue sleeps. */
static inline void fakernic_usq_ring(struct fakernic_qp *qp)
{
	struct ibv_qp *ibqp = &qp->vqp.qp;
	struct fakernic_context *context = fakernic_to_context(ibqp->context);
	struct fakernic_sq *sq = &qp->sq;
	uint32_t last = sq->published;

	sq->published = sq->pi;
	fakernic_uqueue_publish(&sq->queue, sq->pi);
	if (!(context->features & FAKERNIC_FEATURE_SHADOW_DOORBELL) ||
	    fakernic_uqueue_crosses(&sq->queue, last, sq->pi))
		fakernic_ring_sq(context->uar, ibqp->qp_num, sq->pi);
}

/* IBTA 10.8.2: work requests are refused before RTS. 0 or an errno value. */
static inline int fakernic_ucheck_sender(const struct ibv_qp *qp,
					 struct fakernic_sq *sq)
{
	if (!sq->queue.ring)
		return ENOMEM;
	if (qp->state == IBV_QPS_RESET || qp->state == IBV_QPS_INIT ||
	    qp->state == IBV_QPS_RTR)
		return fakernic_usq_bad(sq, "the QP is not in RTS yet");
	return 0;
}

#endif
