/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * ibv_post_send: writes a WQE for each struct ibv_send_wr of a list, then rings
 * one doorbell. A bad request ends the list; those before it are posted (IBTA
 * 11.4.1.1).
 */
#include <endian.h>
#include <errno.h>
#include <ccan/array_size.h>
#include <infiniband/driver.h>

#include "fakernic/sq.h"
#include "lock.h"
#include "post_send.h"
#include "qp.h"
#include "sq.h"
#include "stamp.h"
#include "wqe.h"

enum fakernic_segment {
	FAKERNIC_SEGMENT_NONE,		/* not for ibv_post_send */
	FAKERNIC_SEGMENT_SEND,
	FAKERNIC_SEGMENT_RDMA,
	FAKERNIC_SEGMENT_ATOMIC,
	FAKERNIC_SEGMENT_INVALIDATE,
	FAKERNIC_SEGMENT_BIND,
};

/* One row per verbs opcode: the layout of its WQE. */
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

static int fakernic_put_wr_data(struct fakernic_sq *sq,
				const struct ibv_send_wr *wr)
{
	const struct ibv_sge *sge;
	int err;
	int i;

	for (i = 0; i < wr->num_sge; i++) {
		sge = &wr->sg_list[i];
		if (!(wr->send_flags & IBV_SEND_INLINE)) {
			fakernic_usq_put_sge(sq, sge->addr, sge->length,
					     sge->lkey);
			continue;
		}
		err = fakernic_usq_put_inline(sq, (void *)(uintptr_t)sge->addr,
					      sge->length);
		if (err)
			return err;
	}
	return 0;
}

/* Checks that need no WQE. */
static int fakernic_ucheck_wr(struct fakernic_sq *sq,
			      const struct ibv_send_wr *wr)
{
	uint32_t opcode = wr->opcode;

	if (opcode >= ARRAY_SIZE(fakernic_send_forms) ||
	    !(sq->opcodes & FAKERNIC_WR_BIT(opcode)) ||
	    fakernic_send_forms[opcode].segment == FAKERNIC_SEGMENT_NONE)
		return fakernic_usq_bad(
			sq, "this QP does not support the opcode");
	switch (fakernic_send_forms[opcode].segment) {
	case FAKERNIC_SEGMENT_INVALIDATE:
	case FAKERNIC_SEGMENT_BIND:
		return 0;
	case FAKERNIC_SEGMENT_ATOMIC:
		if (wr->num_sge != 1)
			return fakernic_usq_bad(sq, "an atomic needs one SGE");
		break;
	case FAKERNIC_SEGMENT_SEND:
		if (sq->data_offset == FAKERNIC_SQ_DATA_OFFSET_UD &&
		    !wr->wr.ud.ah)
			return fakernic_usq_bad(sq, "no address handle");
		break;
	}
	if (wr->num_sge < 0)
		return fakernic_usq_bad(sq, "num_sge is negative");
	if (wr->send_flags & IBV_SEND_INLINE)
		return fakernic_send_forms[opcode].may_inline ? 0 :
			fakernic_usq_bad(
				sq, "the opcode does not support inline data");
	return (uint32_t)wr->num_sge <= sq->sge_max ? 0 :
		fakernic_usq_bad(sq, "more SGEs than max_send_sge");
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

	err = fakernic_ucheck_wr(sq, wr);
	if (err)
		return err;
	err = fakernic_usq_begin(sq, wr->wr_id,
				 fakernic_send_forms[wr->opcode].opcode,
				 wr->send_flags, fakernic_wr_imm_or_key(wr));
	if (err)
		return err;
	switch (fakernic_send_forms[wr->opcode].segment) {
	case FAKERNIC_SEGMENT_SEND:
		fakernic_usq_put_send(sq);
		if (qp->vqp.qp.qp_type == IBV_QPT_UD)
			fakernic_usq_put_ud(sq, wr->wr.ud.ah,
					    wr->wr.ud.remote_qpn,
					    wr->wr.ud.remote_qkey);
		break;
	case FAKERNIC_SEGMENT_RDMA:
		fakernic_usq_put_rdma(sq, wr->wr.rdma.remote_addr,
				      wr->wr.rdma.rkey, 0);
		break;
	case FAKERNIC_SEGMENT_ATOMIC:
		fakernic_usq_put_atomic(sq, wr->wr.atomic.remote_addr,
					wr->wr.atomic.rkey,
				       wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ?
				       wr->wr.atomic.swap :
				       wr->wr.atomic.compare_add,
				       wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ?
				       wr->wr.atomic.compare_add : 0);
		break;
	case FAKERNIC_SEGMENT_INVALIDATE:
		fakernic_usq_end(sq);
		return 0;
	case FAKERNIC_SEGMENT_BIND:
		fakernic_usq_put_bind(sq, wr->bind_mw.mw->rkey,
				      wr->bind_mw.rkey,
				      &wr->bind_mw.bind_info);
		fakernic_usq_end(sq);
		return 0;
	}
	if (qp->vqp.qp.qp_type == IBV_QPT_XRC_SEND)
		sq->wqe->xrc_srqn = htole32(wr->qp_type.xrc.remote_srqn);
	err = fakernic_put_wr_data(sq, wr);
	if (!err)
		fakernic_usq_end(sq);
	return err;
}

int fakernic_upost_send(struct ibv_qp *ibqp, struct ibv_send_wr *wr,
			struct ibv_send_wr **bad_wr)
{
	struct fakernic_qp *qp = fakernic_to_qp(ibqp);
	struct fakernic_sq *sq = &qp->sq;
	uint32_t first;
	int err;

	fakernic_lock(&sq->lock);
	first = sq->pi;
	err = fakernic_ucheck_sender(ibqp, sq);
	if (!err)
		fakernic_uqueue_stamp(&sq->queue, ibqp->context);
	while (!err && wr) {
		err = fakernic_post_one_send(qp, wr);
		if (!err)
			wr = wr->next;
	}
	if (err) {
		fakernic_usq_explain(ibqp, err, sq);
		*bad_wr = wr;
	}
	if (sq->pi != first)
		fakernic_usq_ring(qp);
	fakernic_unlock(&sq->lock);
	return err;
}

/* Type 1 windows (IBTA 10.6.7.2.2): the next tag is the old one plus one. */
int fakernic_ubind_mw(struct ibv_qp *ibqp, struct ibv_mw *mw,
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
	err = fakernic_upost_send(ibqp, &wr, &bad_wr);
	if (!err)
		mw->rkey = wr.bind_mw.rkey;
	return err;
}
