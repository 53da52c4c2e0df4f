// SPDX-License-Identifier: GPL-2.0-only
/*
 * Kernel post_recv: a receive is a slot in the ring and a new producer index in
 * the doorbell record; the driver touches no register. Receives of a QP
 * complete in order, so the number of completions shows which slots are free.
 */
#include <linux/log2.h>
#include <linux/string.h>
#include <rdma/ib_verbs.h>
#include <fakernic/cq.h>
#include <fakernic/rq.h>
#include "../rdma/qp.h"
#include "device.h"
#include "queue.h"
#include "rq.h"

u8 fakernic_rq_log_stride(u32 max_sge)
{
	size_t size = sizeof(struct fakernic_rq_wqe) +
		      max_sge * sizeof(struct fakernic_sge);

	return max_t(u8, order_base_2(size), FAKERNIC_RQ_LOG_STRIDE_MIN);
}

void fakernic_rq_write(struct fakernic_queue *queue, u32 pi, u32 tag,
		       const struct ib_sge *sge, u32 count)
{
	struct fakernic_rq_wqe *wqe = fakernic_queue_entry(queue, pi);
	u32 i;

	memset(wqe, 0, sizeof(*wqe));
	wqe->tag = cpu_to_le32(tag);
	wqe->sge_count = count;
	for (i = 0; i < count; i++) {
		wqe->sge[i].address = cpu_to_le64(sge[i].addr);
		wqe->sge[i].length = cpu_to_le32(sge[i].length);
		wqe->sge[i].lkey = cpu_to_le32(sge[i].lkey);
	}
}

static int fakernic_post_recv_one(struct fakernic_rq *rq,
				  const struct ib_recv_wr *wr)
{
	if (wr->num_sge > rq->max_sge)
		return -EINVAL;
	/*
	 * Loads ci before the slot is written again. Pairs with the release in
	 * fakernic_rq_complete().
	 */
	if (rq->pi - smp_load_acquire(&rq->ci) > rq->queue.mask)
		return -ENOMEM;
	rq->wr_id[rq->pi & rq->queue.mask] = wr->wr_id;
	fakernic_rq_write(&rq->queue, rq->pi, rq->pi, wr->sg_list, wr->num_sge);
	/* The slot is written before pi: see fakernic_rq_complete(). */
	smp_store_release(&rq->pi, rq->pi + 1);
	return 0;
}

int fakernic_post_recv(struct ib_qp *ibqp, const struct ib_recv_wr *wr,
		       const struct ib_recv_wr **bad_wr)
{
	struct fakernic_dev *dev = to_fakernic_dev(ibqp->device);
	struct fakernic_qp *qp = to_fakernic_qp(ibqp);
	struct fakernic_rq *rq = &qp->rq;
	unsigned long flags;
	u32 start;
	int ret = 0;

	if (READ_ONCE(qp->state) == IB_QPS_RESET || !rq->queue.ring) {
		*bad_wr = wr;
		return -EINVAL;
	}
	spin_lock_irqsave(&rq->lock, flags);
	start = rq->pi;
	for (; wr; wr = wr->next) {
		ret = fakernic_post_recv_one(rq, wr);
		if (ret) {
			fakernic_dbg(dev, "QP %#x: receive of %d SGEs: %s\n",
				     qp->hw.qpn, wr->num_sge,
				     ret == -ENOMEM ? "queue full" : "refused");
			*bad_wr = wr;
			break;
		}
	}
	if (rq->pi != start)
		fakernic_queue_publish(&rq->queue, rq->pi);
	spin_unlock_irqrestore(&rq->lock, flags);
	/*
	 * Stores pi before it loads dead. Pairs with queue_work() after dead is
	 * set: the flush sees these receives, or this thread sees dead.
	 */
	smp_mb();
	if (unlikely(READ_ONCE(dev->dead)))
		queue_work(dev->fatal_wq, &dev->fatal_work);
	return ret;
}

bool fakernic_rq_complete(struct fakernic_rq *rq, u32 tag, u64 *wr_id)
{
	/*
	 * Loads pi before wr_id. Pairs with the release in
	 * fakernic_post_recv_one().
	 */
	if (tag - rq->ci >= smp_load_acquire(&rq->pi) - rq->ci)
		return false;
	*wr_id = rq->wr_id[tag & rq->queue.mask];
	/*
	 * wr_id is read before ci frees its slot. Pairs with the acquire in
	 * fakernic_post_recv_one().
	 */
	smp_store_release(&rq->ci, tag + 1);
	return true;
}

bool fakernic_rq_flush_one(struct fakernic_qp *qp, struct ib_wc *wc)
{
	struct fakernic_rq *rq = &qp->rq;
	u64 wr_id;

	if (!fakernic_rq_complete(rq, rq->ci, &wr_id))
		return false;
	memset(wc, 0, sizeof(*wc));
	wc->qp = &qp->ibqp;
	wc->status = IB_WC_WR_FLUSH_ERR;
	wc->opcode = IB_WC_RECV;
	wc->vendor_err = FAKERNIC_VENDOR_FLUSHED;
	wc->wr_id = wr_id;
	return true;
}
