/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The ibv_wr_* interface: ibv_wr_post(3).
 *
 * wr_start takes the lock, wr_complete or wr_abort releases it. A WQE stays
 * open for its setters until the next one begins or the batch ends. After the
 * first error the rest of the batch is ignored, and wr_complete posts nothing
 * and returns that error.
 */
#include <endian.h>
#include <errno.h>
#include <ccan/array_size.h>
#include <infiniband/driver.h>
#include <util/util.h>

#include "fakernic/sq.h"
#include "compat.h"
#include "lock.h"
#include "qp.h"
#include "sq.h"
#include "stamp.h"
#include "wqe.h"
#include "wr.h"

/* The ibv_wr_* function that a flag requests, and the opcode it posts. */
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

static struct fakernic_qp *fakernic_ex_to_qp(struct ibv_qp_ex *qp)
{
	return container_of(qp, struct fakernic_qp, vqp.qp_ex);
}

/* The SQ if it has an open WQE and no error; else NULL. */
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
	sq->batch_err = fakernic_ucheck_sender(&qp->vqp.qp, sq);
	if (!sq->batch_err)
		fakernic_uqueue_stamp(&sq->queue, qp->vqp.qp.context);
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
		fakernic_usq_explain(&qp->vqp.qp, err, sq);
		fakernic_wr_roll_back(sq);
	} else {
		if (sq->wqe)
			fakernic_usq_end(sq);
		if (sq->pi != sq->batch_pi)
			fakernic_usq_ring(qp);
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
		fakernic_usq_end(sq);
	sq->batch_err = fakernic_usq_begin(sq, qp->wr_id, opcode, qp->wr_flags,
					   imm_or_key);
	return sq->batch_err ? NULL : sq;
}

static void fakernic_wr_begin_send(struct ibv_qp_ex *qp, uint8_t opcode,
				   uint32_t imm_or_key)
{
	struct fakernic_sq *sq = fakernic_wr_begin(qp, opcode, imm_or_key);

	if (sq)
		fakernic_usq_put_send(sq);
}

static void fakernic_wr_begin_rdma(struct ibv_qp_ex *qp, uint8_t opcode,
				   uint32_t imm, uint64_t address,
				   uint32_t rkey)
{
	struct fakernic_sq *sq = fakernic_wr_begin(qp, opcode, imm);

	if (sq)
		fakernic_usq_put_rdma(sq, address, rkey, 0);
}

static void fakernic_wr_begin_atomic(struct ibv_qp_ex *qp, uint8_t opcode,
				     uint64_t address, uint32_t rkey,
				     uint64_t swap_or_add, uint64_t compare)
{
	struct fakernic_sq *sq = fakernic_wr_begin(qp, opcode, 0);

	if (sq)
		fakernic_usq_put_atomic(sq, address, rkey, swap_or_add,
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

#ifndef FAKERNIC_LACK_ATOMIC_WRITE
static void fakernic_wr_atomic_write(struct ibv_qp_ex *qp, uint32_t rkey,
				     uint64_t address, const void *data)
{
	struct fakernic_sq *sq =
		fakernic_wr_begin(qp, FAKERNIC_SQ_ATOMIC_WRITE, 0);

	if (!sq)
		return;
	fakernic_usq_put_rdma(sq, address, rkey, 0);
	sq->batch_err = fakernic_usq_put_inline(sq, data, sizeof(uint64_t));
}
#endif

#ifndef FAKERNIC_LACK_FLUSH
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
		sq->batch_err = fakernic_usq_bad(
			sq, "invalid flush type, level or length");
		return;
	}
	if (type & IBV_FLUSH_GLOBAL)
		flush |= FAKERNIC_FLUSH_GLOBAL;
	if (type & IBV_FLUSH_PERSISTENT)
		flush |= FAKERNIC_FLUSH_PERSISTENT;
	if (level == IBV_FLUSH_MR)
		flush |= FAKERNIC_FLUSH_LEVEL_MR;
	fakernic_usq_put_rdma(sq, address, rkey, flush);
	if (level == IBV_FLUSH_RANGE)
		fakernic_usq_put_sge(sq, 0, length, 0);
}
#endif

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
		fakernic_usq_put_bind(sq, mw->rkey, rkey, info);
}

static void fakernic_wr_set_ud_addr(struct ibv_qp_ex *qp, struct ibv_ah *ah,
				    uint32_t remote_qpn, uint32_t remote_qkey)
{
	struct fakernic_sq *sq = fakernic_open_sq(qp);

	if (sq && !ah)
		sq->batch_err = fakernic_usq_bad(sq, "no address handle");
	else if (sq)
		fakernic_usq_put_ud(sq, ah, remote_qpn, remote_qkey);
}

static void fakernic_wr_set_xrc_srqn(struct ibv_qp_ex *qp, uint32_t srqn)
{
	struct fakernic_sq *sq = fakernic_open_sq(qp);

	if (sq)
		sq->wqe->xrc_srqn = htole32(srqn);
}

/* Largest number of SGEs that fit into the open WQE. */
static uint32_t fakernic_wqe_sge_max(const struct fakernic_sq *sq)
{
	uint8_t opcode = sq->wqe->opcode;

	/* BIND_MW and LOCAL_INV have no data; FLUSH already has its range. */
	if (opcode >= FAKERNIC_SQ_FLUSH)
		return 0;
	/* The segment of an atomic leaves room for one SGE only. */
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
		sq->batch_err = fakernic_usq_bad(
			sq, "inline data, or more SGEs than max_send_sge");
		return;
	}
	for (i = 0; i < count; i++)
		fakernic_usq_put_sge(sq, list[i].addr, list[i].length,
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
	/* Only an operation that sends data can have it inline. */
	if (sq->wqe->sge_count ||
	    !(sq->wqe->opcode <= FAKERNIC_SQ_RDMA_WRITE_IMM)) {
		sq->batch_err = fakernic_usq_bad(
			sq, "has SGEs, or its opcode cannot be inline");
		return;
	}
	for (i = 0; i < count && !sq->batch_err; i++)
		sq->batch_err = fakernic_usq_put_inline(sq, list[i].addr,
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

int fakernic_set_builders(struct fakernic_qp *qp, enum ibv_qp_type type,
			  uint64_t flags)
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
	fakernic_set_setters(ex, type);
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
#ifndef FAKERNIC_LACK_FLUSH
	if (flags & IBV_QP_EX_WITH_FLUSH)
		ex->wr_flush = fakernic_wr_flush;
#endif
#ifndef FAKERNIC_LACK_ATOMIC_WRITE
	if (flags & IBV_QP_EX_WITH_ATOMIC_WRITE)
		ex->wr_atomic_write = fakernic_wr_atomic_write;
#endif
	return 0;
}
