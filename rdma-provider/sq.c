/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Send queues: ibv_send_wr or the ibv_wr_* calls -> WQE (fakernic/sq.h), then
 * one doorbell per list. Both interfaces use the same steps: begin a WQE, put
 * its segments, end it. A WQE that would wrap is built aside and copied.
 *
 * The ring has room for wr_max WQEs of the largest size, so counting work
 * requests is enough: wr_pi posted, wr_ci freed by the completion of a request
 * and, with it, of all unsignaled ones before it (IBTA 10.8.5).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fakernic.h"
#include "doorbell.h"

enum fakernic_segment {
	FAKERNIC_SEGMENT_NONE,		/* ibv_post_send does not know it */
	FAKERNIC_SEGMENT_SEND,
	FAKERNIC_SEGMENT_RDMA,
	FAKERNIC_SEGMENT_ATOMIC,
	FAKERNIC_SEGMENT_INVALIDATE,
	FAKERNIC_SEGMENT_BIND,
};

/* One row per verbs opcode: how its WQE looks. */
static const struct {
	uint8_t opcode;			/* enum fakernic_sq_opcode */
	uint8_t segment;		/* enum fakernic_segment */
	bool has_imm;
	bool has_key;
	bool may_inline;
} fakernic_send_forms[] = {
	[IBV_WR_RDMA_WRITE] = {
		FAKERNIC_SQ_RDMA_WRITE, FAKERNIC_SEGMENT_RDMA,
		.may_inline = true },
	[IBV_WR_RDMA_WRITE_WITH_IMM] = {
		FAKERNIC_SQ_RDMA_WRITE_IMM, FAKERNIC_SEGMENT_RDMA,
		.has_imm = true, .may_inline = true },
	[IBV_WR_SEND] = {
		FAKERNIC_SQ_SEND, FAKERNIC_SEGMENT_SEND, .may_inline = true },
	[IBV_WR_SEND_WITH_IMM] = {
		FAKERNIC_SQ_SEND_IMM, FAKERNIC_SEGMENT_SEND,
		.has_imm = true, .may_inline = true },
	[IBV_WR_SEND_WITH_INV] = {
		FAKERNIC_SQ_SEND_INV, FAKERNIC_SEGMENT_SEND,
		.has_key = true, .may_inline = true },
	[IBV_WR_RDMA_READ] = {
		FAKERNIC_SQ_RDMA_READ, FAKERNIC_SEGMENT_RDMA },
	[IBV_WR_ATOMIC_CMP_AND_SWP] = {
		FAKERNIC_SQ_ATOMIC_CMP_SWAP, FAKERNIC_SEGMENT_ATOMIC },
	[IBV_WR_ATOMIC_FETCH_AND_ADD] = {
		FAKERNIC_SQ_ATOMIC_FETCH_ADD, FAKERNIC_SEGMENT_ATOMIC },
	[IBV_WR_ATOMIC_WRITE] = {
		FAKERNIC_SQ_ATOMIC_WRITE, FAKERNIC_SEGMENT_RDMA,
		.may_inline = true },
	[IBV_WR_LOCAL_INV] = {
		FAKERNIC_SQ_LOCAL_INV, FAKERNIC_SEGMENT_INVALIDATE,
		.has_key = true },
	[IBV_WR_BIND_MW] = { FAKERNIC_SQ_BIND_MW, FAKERNIC_SEGMENT_BIND },
};

/* Which ibv_wr_* function the flag asks for, and the verbs opcode it posts. */
static const struct {
	uint64_t flag;
	enum ibv_wr_opcode opcode;
} fakernic_builder_ops[] = {
	{ IBV_QP_EX_WITH_RDMA_WRITE, IBV_WR_RDMA_WRITE },
	{ IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_WRITE_WITH_IMM },
	{ IBV_QP_EX_WITH_SEND, IBV_WR_SEND },
	{ IBV_QP_EX_WITH_SEND_WITH_IMM, IBV_WR_SEND_WITH_IMM },
	{ IBV_QP_EX_WITH_SEND_WITH_INV, IBV_WR_SEND_WITH_INV },
	{ IBV_QP_EX_WITH_RDMA_READ, IBV_WR_RDMA_READ },
	{ IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_CMP_AND_SWP },
	{ IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_FETCH_AND_ADD },
	{ IBV_QP_EX_WITH_LOCAL_INV, IBV_WR_LOCAL_INV },
	{ IBV_QP_EX_WITH_BIND_MW, IBV_WR_BIND_MW },
	{ IBV_QP_EX_WITH_FLUSH, IBV_WR_FLUSH },
	{ IBV_QP_EX_WITH_ATOMIC_WRITE, IBV_WR_ATOMIC_WRITE },
};

#define FAKERNIC_WR_BIT(opcode)		(1U << (opcode))

/* ---- size, room, life ---------------------------------------------------- */

/* The verbs opcodes of a transport service (IBTA table 71) and the features. */
static uint32_t fakernic_sq_opcodes(enum ibv_qp_type type, uint64_t features)
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

/* Where the data of the longest-headed ordinary WQE starts. */
static uint32_t fakernic_sq_data_offset_max(enum ibv_qp_type type)
{
	if (type == IBV_QPT_UD)
		return FAKERNIC_SQ_DATA_OFFSET_UD;
	if (type == IBV_QPT_RAW_PACKET)
		return FAKERNIC_SQ_DATA_OFFSET_SEND;
	return FAKERNIC_SQ_DATA_OFFSET_RDMA;
}

int fakernic_sq_size(struct fakernic_sq *sq,
		     const struct fakernic_context *context,
		     const struct ibv_qp_init_attr_ex *attr,
		     uint8_t *log_depth)
{
	uint32_t offset = fakernic_sq_data_offset_max(attr->qp_type);
	const uint32_t atomics = FAKERNIC_WR_BIT(IBV_WR_ATOMIC_CMP_AND_SWP) |
				 FAKERNIC_WR_BIT(IBV_WR_ATOMIC_FETCH_AND_ADD);
	uint32_t bytes, room;

	sq->opcodes = fakernic_sq_opcodes(attr->qp_type, context->features);
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

int fakernic_sq_alloc(struct fakernic_sq *sq, uint8_t log_depth)
{
	int err;

	err = fakernic_queue_alloc(&sq->queue, log_depth,
				   FAKERNIC_SQ_BB_SHIFT);
	if (err)
		return err;
	sq->wr = calloc(sq->queue.depth, sizeof(*sq->wr));
	if (!sq->wr) {
		fakernic_queue_free(&sq->queue);
		return ENOMEM;
	}
	return 0;
}

void fakernic_sq_free(struct fakernic_sq *sq)
{
	free(sq->wr);
	fakernic_queue_free(&sq->queue);
}

void fakernic_sq_reset(struct fakernic_sq *sq)
{
	if (!sq->queue.ring)
		return;
	fakernic_lock(&sq->lock);
	sq->pi = 0;
	sq->wr_pi = 0;
	atomic_store_explicit(&sq->wr_ci, 0, memory_order_relaxed);
	fakernic_queue_tell(&sq->queue, 0);
	fakernic_unlock(&sq->lock);
}

uint64_t fakernic_sq_complete(struct fakernic_sq *sq, uint32_t index)
{
	const struct fakernic_sq_wr *wr =
		&sq->wr[fakernic_queue_slot(&sq->queue, index)];
	uint64_t wr_id = wr->wr_id;

	/* Behind the read of wr_id: its place may be posted to again now. */
	atomic_store_explicit(&sq->wr_ci, wr->wr_end, memory_order_release);
	return wr_id;
}

/* ---- the steps of building a WQE; the SQ is locked ----------------------- */

static void *fakernic_sq_at(struct fakernic_sq *sq, uint32_t offset)
{
	return (uint8_t *)sq->wqe + offset;
}

/* Starts a WQE: finds room and writes its header. 0 or an errno value. */
static int fakernic_sq_begin(struct fakernic_sq *sq, uint64_t wr_id,
			     uint8_t opcode, unsigned int send_flags,
			     uint32_t imm_or_key)
{
	uint32_t slot = fakernic_queue_slot(&sq->queue, sq->pi);
	uint8_t flags = 0;

	if (send_flags & IBV_SEND_IP_CSUM && !sq->csum_flags)
		return EINVAL;
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
		fakernic_queue_entry(&sq->queue, slot) : (void *)sq->staging;
	*sq->wqe = (struct fakernic_sq_hdr) {
		.opcode = opcode,
		.flags = flags,
		.imm_or_key = htole32(imm_or_key),
	};
	sq->wqe_bytes = sizeof(*sq->wqe);
	sq->wqe_wr_id = wr_id;
	return 0;
}

static void fakernic_sq_put_rdma(struct fakernic_sq *sq, uint64_t address,
				 uint32_t rkey, uint32_t flush)
{
	struct fakernic_sq_rdma *rdma = fakernic_sq_at(sq, sizeof(*sq->wqe));

	*rdma = (struct fakernic_sq_rdma) {
		.remote_address = htole64(address),
		.rkey = htole32(rkey),
		.flush = htole32(flush),
	};
	sq->wqe_bytes = FAKERNIC_SQ_DATA_OFFSET_RDMA;
}

static void fakernic_sq_put_atomic(struct fakernic_sq *sq, uint64_t address,
				   uint32_t rkey, uint64_t swap_or_add,
				   uint64_t compare)
{
	struct fakernic_sq_atomic *atomic =
		fakernic_sq_at(sq, sizeof(*sq->wqe));

	*atomic = (struct fakernic_sq_atomic) {
		.remote_address = htole64(address),
		.rkey = htole32(rkey),
		.swap_or_add = htole64(swap_or_add),
		.compare = htole64(compare),
	};
	sq->wqe_bytes = FAKERNIC_SQ_DATA_OFFSET_ATOMIC;
}

static void fakernic_sq_put_ud(struct fakernic_sq *sq, struct ibv_ah *ah,
			       uint32_t qpn, uint32_t qkey)
{
	struct fakernic_sq_ud *ud = fakernic_sq_at(sq, sizeof(*sq->wqe));

	ud->av = fakernic_to_ah(ah)->av;
	ud->dest_qpn = htole32(qpn & FAKERNIC_QPN_MAX);
	ud->qkey = htole32(qkey);
}

/* Header and address of a SEND; data may follow. */
static void fakernic_sq_put_send(struct fakernic_sq *sq)
{
	if (sq->data_offset > sizeof(*sq->wqe))
		memset(fakernic_sq_at(sq, sizeof(*sq->wqe)), 0,
		       sq->data_offset - sizeof(*sq->wqe));
	sq->wqe_bytes = sq->data_offset;
}

/* A window has remote rights only (IBTA 10.6.7); a local one says nothing. */
static void fakernic_sq_put_bind(struct fakernic_sq *sq, uint32_t mw_key,
				 uint32_t new_key,
				 const struct ibv_mw_bind_info *info)
{
	struct fakernic_sq_bind_mw *bind =
		fakernic_sq_at(sq, sizeof(*sq->wqe));

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

static void fakernic_sq_put_sge(struct fakernic_sq *sq, uint64_t address,
				uint32_t length, uint32_t lkey)
{
	struct fakernic_sge *sge = fakernic_sq_at(sq, sq->wqe_bytes);

	*sge = (struct fakernic_sge) {
		.address = htole64(address),
		.length = htole32(length),
		.lkey = htole32(lkey),
	};
	sq->wqe->sge_count++;
	sq->wqe_bytes += sizeof(*sge);
}

/* Appends to the inline data. 0 or EINVAL. */
static int fakernic_sq_put_inline(struct fakernic_sq *sq, const void *data,
				  size_t length)
{
	uint32_t before = le16toh(sq->wqe->inline_length);

	if (length > sq->inline_max - before)
		return EINVAL;
	memcpy(fakernic_sq_at(sq, sq->wqe_bytes), data, length);
	sq->wqe->flags |= FAKERNIC_SQ_INLINE;
	sq->wqe->inline_length = htole16(before + length);
	sq->wqe_bytes += length;
	return 0;
}

/* Finishes the WQE that was begun; nothing can fail any more. */
static void fakernic_sq_end(struct fakernic_sq *sq)
{
	uint32_t slot = fakernic_queue_slot(&sq->queue, sq->pi);
	uint32_t bb_count = DIV_ROUND_UP(sq->wqe_bytes, FAKERNIC_SQ_BB_SIZE);
	uint32_t to_end = min_t(uint32_t, bb_count, sq->queue.depth - slot);

	sq->wqe->bb_count = bb_count;
	if ((void *)sq->wqe == (void *)sq->staging) {
		memcpy(fakernic_queue_entry(&sq->queue, slot), sq->staging,
		       to_end << FAKERNIC_SQ_BB_SHIFT);
		memcpy(sq->queue.ring,
		       (uint8_t *)sq->staging +
		       (to_end << FAKERNIC_SQ_BB_SHIFT),
		       (bb_count - to_end) << FAKERNIC_SQ_BB_SHIFT);
	}
	sq->wr[slot].wr_id = sq->wqe_wr_id;
	sq->wr[slot].wr_end = ++sq->wr_pi;
	sq->pi += bb_count;
	sq->wqe = NULL;
}

/* Tells the device of all that was ended. */
static void fakernic_sq_ring(struct fakernic_qp *qp)
{
	struct ibv_qp *ibqp = &qp->vqp.qp;

	fakernic_queue_publish(&qp->sq.queue, qp->sq.pi);
	fakernic_ring_sq(fakernic_to_context(ibqp->context)->uar,
			 ibqp->qp_num, qp->sq.pi);
}

/* IBTA 10.8.2: work requests are refused before RTS. */
static bool fakernic_may_send(const struct ibv_qp *qp)
{
	return qp->state != IBV_QPS_RESET && qp->state != IBV_QPS_INIT &&
	       qp->state != IBV_QPS_RTR;
}

/* ---- ibv_post_send ------------------------------------------------------- */

static int fakernic_put_wr_data(struct fakernic_sq *sq,
				const struct ibv_send_wr *wr)
{
	const struct ibv_sge *sge;
	int err;
	int i;

	for (i = 0; i < wr->num_sge; i++) {
		sge = &wr->sg_list[i];
		if (!(wr->send_flags & IBV_SEND_INLINE)) {
			fakernic_sq_put_sge(sq, sge->addr, sge->length,
					    sge->lkey);
			continue;
		}
		err = fakernic_sq_put_inline(sq, (void *)(uintptr_t)sge->addr,
					     sge->length);
		if (err)
			return err;
	}
	return 0;
}

/* What can be refused before a WQE is begun. */
static int fakernic_check_wr(const struct fakernic_sq *sq,
			     const struct ibv_send_wr *wr)
{
	uint32_t opcode = wr->opcode;

	if (opcode >= ARRAY_SIZE(fakernic_send_forms) ||
	    !(sq->opcodes & FAKERNIC_WR_BIT(opcode)) ||
	    fakernic_send_forms[opcode].segment == FAKERNIC_SEGMENT_NONE)
		return EINVAL;
	switch (fakernic_send_forms[opcode].segment) {
	case FAKERNIC_SEGMENT_INVALIDATE:
	case FAKERNIC_SEGMENT_BIND:
		return 0;
	case FAKERNIC_SEGMENT_ATOMIC:
		if (wr->num_sge != 1)
			return EINVAL;
		break;
	}
	if (wr->send_flags & IBV_SEND_INLINE)
		return wr->num_sge >= 0 &&
		       fakernic_send_forms[opcode].may_inline ? 0 : EINVAL;
	return wr->num_sge >= 0 && (uint32_t)wr->num_sge <= sq->sge_max ?
		0 : EINVAL;
}

static uint32_t fakernic_wr_imm_or_key(const struct ibv_send_wr *wr)
{
	if (fakernic_send_forms[wr->opcode].has_imm)
		return be32toh(wr->imm_data);
	if (fakernic_send_forms[wr->opcode].has_key)
		return wr->invalidate_rkey;
	return 0;
}

static int fakernic_post_one_send(struct fakernic_qp *qp,
				  const struct ibv_send_wr *wr)
{
	struct fakernic_sq *sq = &qp->sq;
	int err;

	err = fakernic_check_wr(sq, wr);
	if (err)
		return err;
	err = fakernic_sq_begin(sq, wr->wr_id,
				fakernic_send_forms[wr->opcode].opcode,
				wr->send_flags, fakernic_wr_imm_or_key(wr));
	if (err)
		return err;
	switch (fakernic_send_forms[wr->opcode].segment) {
	case FAKERNIC_SEGMENT_SEND:
		fakernic_sq_put_send(sq);
		if (qp->vqp.qp.qp_type == IBV_QPT_UD)
			fakernic_sq_put_ud(sq, wr->wr.ud.ah,
					   wr->wr.ud.remote_qpn,
					   wr->wr.ud.remote_qkey);
		break;
	case FAKERNIC_SEGMENT_RDMA:
		fakernic_sq_put_rdma(sq, wr->wr.rdma.remote_addr,
				     wr->wr.rdma.rkey, 0);
		break;
	case FAKERNIC_SEGMENT_ATOMIC:
		fakernic_sq_put_atomic(sq, wr->wr.atomic.remote_addr,
				       wr->wr.atomic.rkey,
				       wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ?
				       wr->wr.atomic.swap :
				       wr->wr.atomic.compare_add,
				       wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ?
				       wr->wr.atomic.compare_add : 0);
		break;
	case FAKERNIC_SEGMENT_INVALIDATE:
		fakernic_sq_end(sq);
		return 0;
	case FAKERNIC_SEGMENT_BIND:
		fakernic_sq_put_bind(sq, wr->bind_mw.mw->rkey,
				     wr->bind_mw.rkey,
				     &wr->bind_mw.bind_info);
		fakernic_sq_end(sq);
		return 0;
	}
	if (qp->vqp.qp.qp_type == IBV_QPT_XRC_SEND)
		sq->wqe->xrc_srqn = htole32(wr->qp_type.xrc.remote_srqn);
	err = fakernic_put_wr_data(sq, wr);
	if (!err)
		fakernic_sq_end(sq);
	return err;
}

int fakernic_post_send(struct ibv_qp *ibqp, struct ibv_send_wr *wr,
		       struct ibv_send_wr **bad_wr)
{
	struct fakernic_qp *qp = fakernic_to_qp(ibqp);
	struct fakernic_sq *sq = &qp->sq;
	uint32_t first;
	int err = 0;

	if (!fakernic_may_send(ibqp) || !sq->queue.ring) {
		*bad_wr = wr;
		return sq->queue.ring ? EINVAL : ENOMEM;
	}
	fakernic_lock(&sq->lock);
	first = sq->pi;
	for (; wr; wr = wr->next) {
		err = fakernic_post_one_send(qp, wr);
		if (err) {
			*bad_wr = wr;
			break;
		}
	}
	if (sq->pi != first)
		fakernic_sq_ring(qp);
	fakernic_unlock(&sq->lock);
	return err;
}

/* Type 1 windows (IBTA 10.6.7.2.2): the next tag is the old one plus one. */
int fakernic_bind_mw(struct ibv_qp *ibqp, struct ibv_mw *mw,
		     struct ibv_mw_bind *bind)
{
	struct ibv_send_wr wr = {
		.wr_id = bind->wr_id,
		.opcode = IBV_WR_BIND_MW,
		.send_flags = bind->send_flags,
	};
	struct ibv_send_wr *bad_wr;
	int err;

	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
	wr.bind_mw.bind_info = bind->bind_info;
	err = fakernic_post_send(ibqp, &wr, &bad_wr);
	if (!err)
		mw->rkey = wr.bind_mw.rkey;
	return err;
}

/* ---- the ibv_wr_* interface ---------------------------------------------- */

/*
 * wr_start takes the lock, wr_complete or wr_abort gives it back. A WQE stays
 * open for its setters until the next one begins or the batch ends. The first
 * error is kept, makes the rest of the batch void, and is wr_complete's answer.
 */
static struct fakernic_qp *fakernic_ex_to_qp(struct ibv_qp_ex *qp)
{
	return container_of(qp, struct fakernic_qp, vqp.qp_ex);
}

/* The SQ if it has an open WQE that is worth going on with. */
static struct fakernic_sq *fakernic_open_sq(struct ibv_qp_ex *qp)
{
	struct fakernic_sq *sq = &fakernic_ex_to_qp(qp)->sq;

	return sq->batch_err || !sq->wqe ? NULL : sq;
}

static void fakernic_wr_start(struct ibv_qp_ex *ibqp)
{
	struct fakernic_qp *qp = fakernic_ex_to_qp(ibqp);
	struct fakernic_sq *sq = &qp->sq;

	fakernic_lock(&sq->lock);
	sq->batch_pi = sq->pi;
	sq->batch_wr_pi = sq->wr_pi;
	sq->wqe = NULL;
	sq->batch_err = 0;
	if (!sq->queue.ring)
		sq->batch_err = ENOMEM;
	else if (!fakernic_may_send(&qp->vqp.qp))
		sq->batch_err = EINVAL;
}

static void fakernic_wr_roll_back(struct fakernic_sq *sq)
{
	sq->pi = sq->batch_pi;
	sq->wr_pi = sq->batch_wr_pi;
	sq->wqe = NULL;
}

static int fakernic_wr_complete(struct ibv_qp_ex *ibqp)
{
	struct fakernic_qp *qp = fakernic_ex_to_qp(ibqp);
	struct fakernic_sq *sq = &qp->sq;
	int err = sq->batch_err;

	if (err) {
		fakernic_wr_roll_back(sq);
	} else {
		if (sq->wqe)
			fakernic_sq_end(sq);
		if (sq->pi != sq->batch_pi)
			fakernic_sq_ring(qp);
	}
	fakernic_unlock(&sq->lock);
	return err;
}

static void fakernic_wr_abort(struct ibv_qp_ex *ibqp)
{
	struct fakernic_sq *sq = &fakernic_ex_to_qp(ibqp)->sq;

	fakernic_wr_roll_back(sq);
	fakernic_unlock(&sq->lock);
}

/* Ends the open WQE and begins the next; NULL after an error. */
static struct fakernic_sq *fakernic_wr_begin(struct ibv_qp_ex *qp,
					     uint8_t opcode,
					     uint32_t imm_or_key)
{
	struct fakernic_sq *sq = &fakernic_ex_to_qp(qp)->sq;

	if (sq->batch_err)
		return NULL;
	if (sq->wqe)
		fakernic_sq_end(sq);
	sq->batch_err = fakernic_sq_begin(sq, qp->wr_id, opcode, qp->wr_flags,
					  imm_or_key);
	return sq->batch_err ? NULL : sq;
}

static void fakernic_wr_begin_send(struct ibv_qp_ex *qp, uint8_t opcode,
				   uint32_t imm_or_key)
{
	struct fakernic_sq *sq = fakernic_wr_begin(qp, opcode, imm_or_key);

	if (sq)
		fakernic_sq_put_send(sq);
}

static void fakernic_wr_begin_rdma(struct ibv_qp_ex *qp, uint8_t opcode,
				   uint32_t imm, uint64_t address,
				   uint32_t rkey)
{
	struct fakernic_sq *sq = fakernic_wr_begin(qp, opcode, imm);

	if (sq)
		fakernic_sq_put_rdma(sq, address, rkey, 0);
}

static void fakernic_wr_begin_atomic(struct ibv_qp_ex *qp, uint8_t opcode,
				     uint64_t address, uint32_t rkey,
				     uint64_t swap_or_add, uint64_t compare)
{
	struct fakernic_sq *sq = fakernic_wr_begin(qp, opcode, 0);

	if (sq)
		fakernic_sq_put_atomic(sq, address, rkey, swap_or_add,
				       compare);
}

static void fakernic_wr_send(struct ibv_qp_ex *qp)
{
	fakernic_wr_begin_send(qp, FAKERNIC_SQ_SEND, 0);
}

static void fakernic_wr_send_imm(struct ibv_qp_ex *qp, __be32 imm)
{
	fakernic_wr_begin_send(qp, FAKERNIC_SQ_SEND_IMM, be32toh(imm));
}

static void fakernic_wr_send_inv(struct ibv_qp_ex *qp, uint32_t rkey)
{
	fakernic_wr_begin_send(qp, FAKERNIC_SQ_SEND_INV, rkey);
}

static void fakernic_wr_rdma_write(struct ibv_qp_ex *qp, uint32_t rkey,
				   uint64_t address)
{
	fakernic_wr_begin_rdma(qp, FAKERNIC_SQ_RDMA_WRITE, 0, address, rkey);
}

static void fakernic_wr_rdma_write_imm(struct ibv_qp_ex *qp, uint32_t rkey,
				       uint64_t address, __be32 imm)
{
	fakernic_wr_begin_rdma(qp, FAKERNIC_SQ_RDMA_WRITE_IMM, be32toh(imm),
			       address, rkey);
}

static void fakernic_wr_rdma_read(struct ibv_qp_ex *qp, uint32_t rkey,
				  uint64_t address)
{
	fakernic_wr_begin_rdma(qp, FAKERNIC_SQ_RDMA_READ, 0, address, rkey);
}

static void fakernic_wr_atomic_cmp_swp(struct ibv_qp_ex *qp, uint32_t rkey,
				       uint64_t address, uint64_t compare,
				       uint64_t swap)
{
	fakernic_wr_begin_atomic(qp, FAKERNIC_SQ_ATOMIC_CMP_SWAP, address,
				 rkey, swap, compare);
}

static void fakernic_wr_atomic_fetch_add(struct ibv_qp_ex *qp, uint32_t rkey,
					 uint64_t address, uint64_t add)
{
	fakernic_wr_begin_atomic(qp, FAKERNIC_SQ_ATOMIC_FETCH_ADD, address,
				 rkey, add, 0);
}

static void fakernic_wr_atomic_write(struct ibv_qp_ex *qp, uint32_t rkey,
				     uint64_t address, const void *data)
{
	struct fakernic_sq *sq =
		fakernic_wr_begin(qp, FAKERNIC_SQ_ATOMIC_WRITE, 0);

	if (!sq)
		return;
	fakernic_sq_put_rdma(sq, address, rkey, 0);
	sq->batch_err = fakernic_sq_put_inline(sq, data, sizeof(uint64_t));
}

static void fakernic_wr_flush(struct ibv_qp_ex *qp, uint32_t rkey,
			      uint64_t address, size_t length, uint8_t type,
			      uint8_t level)
{
	struct fakernic_sq *sq = fakernic_wr_begin(qp, FAKERNIC_SQ_FLUSH, 0);
	uint32_t flush = 0;

	if (!sq)
		return;
	if (type & ~(IBV_FLUSH_GLOBAL | IBV_FLUSH_PERSISTENT) ||
	    level > IBV_FLUSH_MR || length > UINT32_MAX) {
		sq->batch_err = EINVAL;
		return;
	}
	if (type & IBV_FLUSH_GLOBAL)
		flush |= FAKERNIC_FLUSH_GLOBAL;
	if (type & IBV_FLUSH_PERSISTENT)
		flush |= FAKERNIC_FLUSH_PERSISTENT;
	if (level == IBV_FLUSH_MR)
		flush |= FAKERNIC_FLUSH_LEVEL_MR;
	fakernic_sq_put_rdma(sq, address, rkey, flush);
	if (level == IBV_FLUSH_RANGE)
		fakernic_sq_put_sge(sq, 0, length, 0);
}

static void fakernic_wr_local_inv(struct ibv_qp_ex *qp, uint32_t rkey)
{
	fakernic_wr_begin(qp, FAKERNIC_SQ_LOCAL_INV, rkey);
}

static void fakernic_wr_bind_mw(struct ibv_qp_ex *qp, struct ibv_mw *mw,
				uint32_t rkey,
				const struct ibv_mw_bind_info *info)
{
	struct fakernic_sq *sq = fakernic_wr_begin(qp, FAKERNIC_SQ_BIND_MW, 0);

	if (sq)
		fakernic_sq_put_bind(sq, mw->rkey, rkey, info);
}

static void fakernic_wr_set_ud_addr(struct ibv_qp_ex *qp, struct ibv_ah *ah,
				    uint32_t remote_qpn, uint32_t remote_qkey)
{
	struct fakernic_sq *sq = fakernic_open_sq(qp);

	if (sq)
		fakernic_sq_put_ud(sq, ah, remote_qpn, remote_qkey);
}

static void fakernic_wr_set_xrc_srqn(struct ibv_qp_ex *qp, uint32_t srqn)
{
	struct fakernic_sq *sq = fakernic_open_sq(qp);

	if (sq)
		sq->wqe->xrc_srqn = htole32(srqn);
}

/* How many entries the open WQE may have; its room is for no more. */
static uint32_t fakernic_wqe_sge_max(const struct fakernic_sq *sq)
{
	uint8_t opcode = sq->wqe->opcode;

	/* BIND_MW, LOCAL_INV: no data. */
	if (opcode > FAKERNIC_SQ_FLUSH)
		return 0;
	/* An atomic's segment leaves room for one entry only. */
	if (opcode >= FAKERNIC_SQ_ATOMIC_CMP_SWAP &&
	    opcode <= FAKERNIC_SQ_ATOMIC_MASKED_FETCH_ADD)
		return 1;
	return sq->sge_max;
}

static void fakernic_wr_set_sge_list(struct ibv_qp_ex *qp, size_t count,
				     const struct ibv_sge *list)
{
	struct fakernic_sq *sq = fakernic_open_sq(qp);
	size_t i, max;

	if (!sq)
		return;
	max = fakernic_wqe_sge_max(sq);
	if (sq->wqe->inline_length || count > max ||
	    count + sq->wqe->sge_count > max) {
		sq->batch_err = EINVAL;
		return;
	}
	for (i = 0; i < count; i++)
		fakernic_sq_put_sge(sq, list[i].addr, list[i].length,
				    list[i].lkey);
}

static void fakernic_wr_set_sge(struct ibv_qp_ex *qp, uint32_t lkey,
				uint64_t address, uint32_t length)
{
	struct ibv_sge sge = {
		.addr = address,
		.length = length,
		.lkey = lkey,
	};

	fakernic_wr_set_sge_list(qp, 1, &sge);
}

static void fakernic_wr_set_inline_data_list(struct ibv_qp_ex *qp,
					     size_t count,
					     const struct ibv_data_buf *list)
{
	struct fakernic_sq *sq = fakernic_open_sq(qp);
	size_t i;

	if (!sq)
		return;
	/* Only what sends its data away can have it inline. */
	if (sq->wqe->sge_count ||
	    !(sq->wqe->opcode <= FAKERNIC_SQ_RDMA_WRITE_IMM)) {
		sq->batch_err = EINVAL;
		return;
	}
	for (i = 0; i < count && !sq->batch_err; i++)
		sq->batch_err = fakernic_sq_put_inline(sq, list[i].addr,
						       list[i].length);
}

static void fakernic_wr_set_inline_data(struct ibv_qp_ex *qp, void *addr,
					size_t length)
{
	struct ibv_data_buf buf = { .addr = addr, .length = length };

	fakernic_wr_set_inline_data_list(qp, 1, &buf);
}

static void fakernic_set_setters(struct ibv_qp_ex *qp, enum ibv_qp_type type)
{
	qp->wr_start = fakernic_wr_start;
	qp->wr_complete = fakernic_wr_complete;
	qp->wr_abort = fakernic_wr_abort;
	qp->wr_set_sge = fakernic_wr_set_sge;
	qp->wr_set_sge_list = fakernic_wr_set_sge_list;
	qp->wr_set_inline_data = fakernic_wr_set_inline_data;
	qp->wr_set_inline_data_list = fakernic_wr_set_inline_data_list;
	if (type == IBV_QPT_UD)
		qp->wr_set_ud_addr = fakernic_wr_set_ud_addr;
	if (type == IBV_QPT_XRC_SEND)
		qp->wr_set_xrc_srqn = fakernic_wr_set_xrc_srqn;
}

int fakernic_sq_set_builders(struct fakernic_qp *qp, uint64_t flags)
{
	struct ibv_qp_ex *ex = &qp->vqp.qp_ex;
	uint64_t offered = 0;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(fakernic_builder_ops); i++)
		if (qp->sq.opcodes &
		    FAKERNIC_WR_BIT(fakernic_builder_ops[i].opcode))
			offered |= fakernic_builder_ops[i].flag;
	if (!check_comp_mask(flags, offered))
		return EOPNOTSUPP;
	fakernic_set_setters(ex, qp->vqp.qp.qp_type);
	if (flags & IBV_QP_EX_WITH_SEND)
		ex->wr_send = fakernic_wr_send;
	if (flags & IBV_QP_EX_WITH_SEND_WITH_IMM)
		ex->wr_send_imm = fakernic_wr_send_imm;
	if (flags & IBV_QP_EX_WITH_SEND_WITH_INV)
		ex->wr_send_inv = fakernic_wr_send_inv;
	if (flags & IBV_QP_EX_WITH_RDMA_WRITE)
		ex->wr_rdma_write = fakernic_wr_rdma_write;
	if (flags & IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM)
		ex->wr_rdma_write_imm = fakernic_wr_rdma_write_imm;
	if (flags & IBV_QP_EX_WITH_RDMA_READ)
		ex->wr_rdma_read = fakernic_wr_rdma_read;
	if (flags & IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP)
		ex->wr_atomic_cmp_swp = fakernic_wr_atomic_cmp_swp;
	if (flags & IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD)
		ex->wr_atomic_fetch_add = fakernic_wr_atomic_fetch_add;
	if (flags & IBV_QP_EX_WITH_LOCAL_INV)
		ex->wr_local_inv = fakernic_wr_local_inv;
	if (flags & IBV_QP_EX_WITH_BIND_MW)
		ex->wr_bind_mw = fakernic_wr_bind_mw;
	if (flags & IBV_QP_EX_WITH_FLUSH)
		ex->wr_flush = fakernic_wr_flush;
	if (flags & IBV_QP_EX_WITH_ATOMIC_WRITE)
		ex->wr_atomic_write = fakernic_wr_atomic_write;
	return 0;
}
