// SPDX-License-Identifier: GPL-2.0-only
/*
 * Kernel post_send: translates work requests to WQEs (fakernic/sq.h). A WQE is
 * built on the stack and then copied into the ring, which may wrap between its
 * basic blocks. wr_ids are kept here, by the position of the WQE's first block.
 */
#include <linux/log2.h>
#include <linux/string.h>
#include <rdma/ib_verbs.h>
#include <fakernic/cq.h>
#include <fakernic/doorbell.h>
#include <fakernic/mr.h>
#include <fakernic/qp.h>
#include <fakernic/rq.h>
#include <fakernic/sq.h>
#include "../core/device.h"
#include "../core/pages.h"
#include "../core/queue.h"
#include "../core/regs.h"
#include "ah.h"
#include "mr.h"
#include "qp.h"
#include "sq.h"

/* One WQE while it is built. */
struct fakernic_wqe {
	union {
		struct fakernic_sq_hdr hdr;
		u8 bytes[FAKERNIC_SQ_WQE_SIZE_MAX];
		__le64 align;
	};
};

u32 fakernic_sq_wqe_size(u8 type, u32 max_sge, u32 max_inline)
{
	u32 data = max_t(u32, max_sge * sizeof(struct fakernic_sge),
			 max_inline);

	if (type == FAKERNIC_QP_UD || type == FAKERNIC_QP_GSI)
		return FAKERNIC_SQ_DATA_OFFSET_UD + data;
	return max_t(u32, FAKERNIC_SQ_DATA_OFFSET_RDMA + data,
		     FAKERNIC_SQ_DATA_OFFSET_ATOMIC +
			     sizeof(struct fakernic_sge));
}

static int fakernic_put_datagram(struct fakernic_wqe *wqe,
				 const struct ib_send_wr *wr)
{
	struct fakernic_sq_ud *ud = (void *)(wqe->bytes + sizeof(wqe->hdr));

	if (!ud_wr(wr)->ah)
		return -EINVAL;
	ud->av = to_fakernic_ah(ud_wr(wr)->ah)->av;
	ud->dest_qpn = cpu_to_le32(ud_wr(wr)->remote_qpn);
	ud->qkey = cpu_to_le32(ud_wr(wr)->remote_qkey);
	return FAKERNIC_SQ_DATA_OFFSET_UD;
}

static int fakernic_put_rdma(struct fakernic_wqe *wqe,
			     const struct ib_send_wr *wr)
{
	struct fakernic_sq_rdma *rdma = (void *)(wqe->bytes + sizeof(wqe->hdr));

	rdma->remote_address = cpu_to_le64(rdma_wr(wr)->remote_addr);
	rdma->rkey = cpu_to_le32(rdma_wr(wr)->rkey);
	return FAKERNIC_SQ_DATA_OFFSET_RDMA;
}

static int fakernic_put_atomic(struct fakernic_wqe *wqe,
			       const struct ib_send_wr *wr)
{
	struct fakernic_sq_atomic *seg =
		(void *)(wqe->bytes + sizeof(wqe->hdr));
	const struct ib_atomic_wr *atomic = atomic_wr(wr);

	seg->remote_address = cpu_to_le64(atomic->remote_addr);
	seg->rkey = cpu_to_le32(atomic->rkey);
	switch (wr->opcode) {
	case IB_WR_MASKED_ATOMIC_CMP_AND_SWP:
		seg->swap_mask_or_boundary = cpu_to_le64(atomic->swap_mask);
		seg->compare_mask = cpu_to_le64(atomic->compare_add_mask);
		fallthrough;
	case IB_WR_ATOMIC_CMP_AND_SWP:
		seg->swap_or_add = cpu_to_le64(atomic->swap);
		seg->compare = cpu_to_le64(atomic->compare_add);
		break;
	case IB_WR_MASKED_ATOMIC_FETCH_AND_ADD:
		seg->swap_mask_or_boundary =
			cpu_to_le64(atomic->compare_add_mask);
		fallthrough;
	default:
		seg->swap_or_add = cpu_to_le64(atomic->compare_add);
		break;
	}
	return FAKERNIC_SQ_DATA_OFFSET_ATOMIC;
}

static int fakernic_put_reg_mr(struct fakernic_wqe *wqe,
			       const struct ib_send_wr *wr)
{
	struct fakernic_sq_reg_mr *reg =
		(void *)(wqe->bytes + sizeof(wqe->hdr));
	const struct fakernic_mr *mr = to_fakernic_mr(reg_wr(wr)->mr);

	BUILD_BUG_ON(FAKERNIC_ACCESS_REMOTE_ATOMIC != IB_ACCESS_REMOTE_ATOMIC);
	reg->iova = cpu_to_le64(mr->ibmr.iova);
	reg->length = cpu_to_le64(mr->ibmr.length);
	reg->key = cpu_to_le32(reg_wr(wr)->key);
	reg->access = cpu_to_le32(reg_wr(wr)->access & ~IB_ACCESS_OPTIONAL);
	fakernic_page_table_list(&mr->table, mr->page_count,
				 ilog2(mr->ibmr.page_size), &reg->pages);
	return sizeof(wqe->hdr) + sizeof(*reg);
}

/* Writes the opcode and its segment; returns the data offset. */
static int fakernic_put_segment(const struct fakernic_qp *qp,
				struct fakernic_wqe *wqe,
				const struct ib_send_wr *wr)
{
	bool datagram = qp->type == FAKERNIC_QP_UD ||
			qp->type == FAKERNIC_QP_GSI;
	struct fakernic_sq_hdr *hdr = &wqe->hdr;

	if (datagram && wr->opcode != IB_WR_SEND &&
	    wr->opcode != IB_WR_SEND_WITH_IMM) {
		/* In ERR ib_drain_sq() posts a WRITE to any QP. */
		if (READ_ONCE(qp->state) != IB_QPS_ERR)
			return -EINVAL;
		hdr->opcode = FAKERNIC_SQ_NOP;
		return sizeof(*hdr);
	}
	switch (wr->opcode) {
	case IB_WR_SEND_WITH_IMM:
		hdr->opcode = FAKERNIC_SQ_SEND_IMM;
		hdr->imm_or_key = cpu_to_le32(be32_to_cpu(wr->ex.imm_data));
		return datagram ? fakernic_put_datagram(wqe, wr) :
				  FAKERNIC_SQ_DATA_OFFSET_SEND;
	case IB_WR_SEND:
		hdr->opcode = FAKERNIC_SQ_SEND;
		return datagram ? fakernic_put_datagram(wqe, wr) :
				  FAKERNIC_SQ_DATA_OFFSET_SEND;
	case IB_WR_SEND_WITH_INV:
		hdr->opcode = FAKERNIC_SQ_SEND_INV;
		hdr->imm_or_key = cpu_to_le32(wr->ex.invalidate_rkey);
		return FAKERNIC_SQ_DATA_OFFSET_SEND;
	case IB_WR_RDMA_WRITE_WITH_IMM:
		hdr->opcode = FAKERNIC_SQ_RDMA_WRITE_IMM;
		hdr->imm_or_key = cpu_to_le32(be32_to_cpu(wr->ex.imm_data));
		return fakernic_put_rdma(wqe, wr);
	case IB_WR_RDMA_WRITE:
		hdr->opcode = FAKERNIC_SQ_RDMA_WRITE;
		return fakernic_put_rdma(wqe, wr);
	case IB_WR_RDMA_READ_WITH_INV:
		hdr->opcode = FAKERNIC_SQ_RDMA_READ_INV;
		hdr->imm_or_key = cpu_to_le32(wr->ex.invalidate_rkey);
		return fakernic_put_rdma(wqe, wr);
	case IB_WR_RDMA_READ:
		hdr->opcode = FAKERNIC_SQ_RDMA_READ;
		return fakernic_put_rdma(wqe, wr);
	case IB_WR_ATOMIC_CMP_AND_SWP:
		hdr->opcode = FAKERNIC_SQ_ATOMIC_CMP_SWAP;
		return fakernic_put_atomic(wqe, wr);
	case IB_WR_ATOMIC_FETCH_AND_ADD:
		hdr->opcode = FAKERNIC_SQ_ATOMIC_FETCH_ADD;
		return fakernic_put_atomic(wqe, wr);
	case IB_WR_MASKED_ATOMIC_CMP_AND_SWP:
		hdr->opcode = FAKERNIC_SQ_ATOMIC_MASKED_CMP_SWAP;
		return fakernic_put_atomic(wqe, wr);
	case IB_WR_MASKED_ATOMIC_FETCH_AND_ADD:
		hdr->opcode = FAKERNIC_SQ_ATOMIC_MASKED_FETCH_ADD;
		return fakernic_put_atomic(wqe, wr);
	case IB_WR_LOCAL_INV:
		hdr->opcode = FAKERNIC_SQ_LOCAL_INV;
		hdr->imm_or_key = cpu_to_le32(wr->ex.invalidate_rkey);
		return sizeof(*hdr);
	case IB_WR_REG_MR:
		hdr->opcode = FAKERNIC_SQ_REG_MR;
		return fakernic_put_reg_mr(wqe, wr);
	default:
		return -EOPNOTSUPP;
	}
}

/* Copies inline data; kernel consumers pass virtual addresses. */
static int fakernic_put_inline(const struct fakernic_qp *qp,
			       struct fakernic_wqe *wqe, u32 offset,
			       const struct ib_send_wr *wr)
{
	u32 length = 0;
	int i;

	/* Reads and atomics receive their data. */
	if (wqe->hdr.opcode >= FAKERNIC_SQ_RDMA_READ)
		return -EINVAL;
	for (i = 0; i < wr->num_sge; i++) {
		const struct ib_sge *sge = &wr->sg_list[i];

		if (sge->length > qp->sq.max_inline - length)
			return -EINVAL;
		memcpy(wqe->bytes + offset + length,
		       (void *)(uintptr_t)sge->addr, sge->length);
		length += sge->length;
	}
	wqe->hdr.flags |= FAKERNIC_SQ_INLINE;
	wqe->hdr.inline_length = cpu_to_le16(length);
	return offset + length;
}

static int fakernic_put_sges(const struct fakernic_qp *qp,
			     struct fakernic_wqe *wqe, u32 offset,
			     const struct ib_send_wr *wr)
{
	struct fakernic_sge *to = (void *)(wqe->bytes + offset);
	int i;

	if (wr->num_sge > qp->sq.max_sge)
		return -EINVAL;
	for (i = 0; i < wr->num_sge; i++) {
		to[i].address = cpu_to_le64(wr->sg_list[i].addr);
		to[i].length = cpu_to_le32(wr->sg_list[i].length);
		to[i].lkey = cpu_to_le32(wr->sg_list[i].lkey);
	}
	wqe->hdr.sge_count = wr->num_sge;
	return offset + wr->num_sge * sizeof(*to);
}

/* Builds the WQE. The device makes all other checks. */
static int fakernic_build_wqe(const struct fakernic_qp *qp,
			      struct fakernic_wqe *wqe,
			      const struct ib_send_wr *wr)
{
	int size;

	memset(wqe, 0, sizeof(*wqe));
	if (qp->sq.signal_all || wr->send_flags & IB_SEND_SIGNALED)
		wqe->hdr.flags |= FAKERNIC_SQ_SIGNALED;
	if (wr->send_flags & IB_SEND_SOLICITED)
		wqe->hdr.flags |= FAKERNIC_SQ_SOLICITED;
	if (wr->send_flags & IB_SEND_FENCE)
		wqe->hdr.flags |= FAKERNIC_SQ_FENCE;

	size = fakernic_put_segment(qp, wqe, wr);
	if (size < 0)
		return size;
	if (wqe->hdr.opcode != FAKERNIC_SQ_REG_MR &&
	    wqe->hdr.opcode != FAKERNIC_SQ_LOCAL_INV &&
	    wqe->hdr.opcode != FAKERNIC_SQ_NOP) {
		if (wr->send_flags & IB_SEND_INLINE)
			size = fakernic_put_inline(qp, wqe, size, wr);
		else
			size = fakernic_put_sges(qp, wqe, size, wr);
		if (size < 0)
			return size;
	}
	wqe->hdr.bb_count = DIV_ROUND_UP(size, FAKERNIC_SQ_BB_SIZE);
	return 0;
}

static int fakernic_post_send_one(struct fakernic_qp *qp,
				  const struct ib_send_wr *wr)
{
	struct fakernic_sq *sq = &qp->sq;
	struct fakernic_wqe wqe;
	u32 place, used, i;
	int ret;

	ret = fakernic_build_wqe(qp, &wqe, wr);
	if (ret)
		return ret;
	/*
	 * Loads ci before the slot is written again. Pairs with the release in
	 * fakernic_sq_complete().
	 */
	used = sq->pi - smp_load_acquire(&sq->ci);
	if (used + wqe.hdr.bb_count > sq->queue.mask + 1)
		return -ENOMEM;
	place = sq->pi & sq->queue.mask;
	sq->wr_id[place] = wr->wr_id;
	sq->bb_count[place] = wqe.hdr.bb_count;
	/* No request begins at the other blocks. */
	for (i = 1; i < wqe.hdr.bb_count; i++)
		sq->bb_count[(sq->pi + i) & sq->queue.mask] = 0;
	fakernic_queue_write(&sq->queue, sq->pi, &wqe, wqe.hdr.bb_count);
	/* The WQE is written before pi: see fakernic_sq_complete(). */
	smp_store_release(&sq->pi, sq->pi + wqe.hdr.bb_count);
	return 0;
}

int fakernic_post_send(struct ib_qp *ibqp, const struct ib_send_wr *wr,
		       const struct ib_send_wr **bad_wr)
{
	struct fakernic_dev *dev = to_fakernic_dev(ibqp->device);
	struct fakernic_qp *qp = to_fakernic_qp(ibqp);
	enum ib_qp_state state = READ_ONCE(qp->state);
	struct fakernic_sq *sq = &qp->sq;
	unsigned long flags;
	u32 start;
	int ret = 0;

	/* In ERR requests are flushed. */
	if (state == IB_QPS_RESET || state == IB_QPS_INIT ||
	    state == IB_QPS_RTR) {
		*bad_wr = wr;
		return -EINVAL;
	}
	spin_lock_irqsave(&sq->lock, flags);
	start = sq->pi;
	for (; wr; wr = wr->next) {
		ret = fakernic_post_send_one(qp, wr);
		if (ret) {
			fakernic_dbg(dev, "QP %#x: send of opcode %d, %d SGEs: %s\n",
				     qp->hw.qpn, wr->opcode, wr->num_sge,
				     ret == -ENOMEM ? "queue full" : "refused");
			*bad_wr = wr;
			break;
		}
	}
	if (sq->pi != start)
		fakernic_sq_publish(dev, &sq->queue, qp->hw.qpn, start,
				    sq->pi);
	spin_unlock_irqrestore(&sq->lock, flags);
	/*
	 * Stores pi before it loads dead. Pairs with queue_work() after dead is
	 * set: the flush sees these requests, or this thread sees dead.
	 */
	smp_mb();
	if (unlikely(READ_ONCE(dev->dead)))
		queue_work(dev->fatal_wq, &dev->fatal_work);
	return ret;
}

bool fakernic_sq_complete(struct fakernic_sq *sq, u32 index, u64 *wr_id)
{
	u32 place = index & sq->queue.mask;
	u32 count;

	/*
	 * Loads pi before wr_id. Pairs with the release in
	 * fakernic_post_send_one().
	 */
	if (index - sq->ci >= smp_load_acquire(&sq->pi) - sq->ci)
		return false;
	count = sq->bb_count[place];
	if (!count)
		return false;
	*wr_id = sq->wr_id[place];
	/*
	 * wr_id is read before ci frees its slot. Pairs with the acquire in
	 * fakernic_post_send_one().
	 */
	smp_store_release(&sq->ci, index + count);
	return true;
}

bool fakernic_sq_flush_one(struct fakernic_qp *qp, struct ib_wc *wc)
{
	struct fakernic_sq *sq = &qp->sq;
	u64 wr_id;

	if (!fakernic_sq_complete(sq, sq->ci, &wr_id))
		return false;
	memset(wc, 0, sizeof(*wc));
	wc->qp = &qp->ibqp;
	wc->status = IB_WC_WR_FLUSH_ERR;
	wc->vendor_err = FAKERNIC_VENDOR_FLUSHED;
	wc->wr_id = wr_id;
	return true;
}
