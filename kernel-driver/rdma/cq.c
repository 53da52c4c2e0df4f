// SPDX-License-Identifier: GPL-2.0-only
/*
 * Completion queues of verbs. The driver polls kernel CQs only. The provider
 * polls user CQs; for these the driver only handles events.
 *
 * A kernel CQ holds CQEs of several QPs, and each CQE names its QP by number.
 * That QP still exists when the CQE is polled: destroying the QP, or moving it
 * to RESET, first stops its completions and then removes its remaining CQEs
 * (fakernic_cq_clean()).
 */
#include <linux/if_vlan.h>
#include <linux/log2.h>
#include <linux/string.h>
#include <linux/xarray.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_verbs.h>
#include <fakernic/base.h>
#include <fakernic/cmdq.h>
#include <fakernic/cq.h>
#include <fakernic/qp.h>
#include <rdma/fakernic-abi.h>
#include "../core/cmd.h"
#include "../core/device.h"
#include "../core/explain.h"
#include "../core/object.h"
#include "../core/pages.h"
#include "../core/port.h"
#include "../core/queue.h"
#include "../core/rq.h"
#include "cq.h"
#include "qp.h"
#include "sq.h"
#include "srq.h"
#include "ucontext.h"
#include "udata.h"

#define FAKERNIC_CQE_LOG_SIZE	6
#define FAKERNIC_CQ_LOG_DEPTH_MIN	1

/*
 * Called under the EQ's lock. Ignores events of a user CQ whose creation has
 * not finished, because it may still fail.
 */
static void fakernic_cq_complete(struct fakernic_cq_hw *hw)
{
	struct fakernic_cq *cq = container_of(hw, struct fakernic_cq, hw);

	if (cq->ibcq.comp_handler && (!cq->umem || READ_ONCE(cq->made)))
		cq->ibcq.comp_handler(&cq->ibcq, cq->ibcq.cq_context);
}

static void fakernic_cq_fail(struct fakernic_cq_hw *hw)
{
	struct fakernic_cq *cq = container_of(hw, struct fakernic_cq, hw);
	struct ib_event event = {
		.device = cq->ibcq.device,
		.event = IB_EVENT_CQ_ERR,
		.element.cq = &cq->ibcq,
	};

	fakernic_dbg(hw->dev,
		     "CQ %#x: overrun, or memory not accessible\n",
		     hw->cqn);
	if (cq->ibcq.event_handler)
		cq->ibcq.event_handler(&event, cq->ibcq.cq_context);
}

/* Returns true if the device supports the depth and it fits the entries. */
static bool fakernic_cq_depth_fits(struct fakernic_dev *dev, u8 log_depth,
				   u32 entries)
{
	return log_depth >= FAKERNIC_CQ_LOG_DEPTH_MIN &&
	       log_depth <= ilog2(dev->ibdev->attrs.max_cqe) &&
	       entries <= 1U << log_depth;
}

static int fakernic_create_user_cq(struct fakernic_dev *dev,
				   struct fakernic_cq *cq,
				   const struct ib_cq_init_attr *attr,
				   struct ib_udata *udata)
{
	struct fakernic_ureq_create_cq ureq = {};
	struct fakernic_uresp_create_cq uresp = {};
	struct fakernic_create_cq_req req = {
		.uar = cpu_to_le32(fakernic_udata_uar(udata)),
	};
	struct fakernic_page_table table;
	int ret;

	ret = fakernic_copy_ureq(dev, &ureq, sizeof(ureq), udata);
	if (ret)
		return ret;
	if (memchr_inv(ureq.reserved, 0, sizeof(ureq.reserved)) ||
	    !fakernic_cq_depth_fits(dev, ureq.log_depth, attr->cqe)) {
		fakernic_dbg(dev, "create CQ: log depth %u for %u entries\n",
			     ureq.log_depth, attr->cqe);
		return -EINVAL;
	}
	cq->umem = fakernic_user_queue(dev, ureq.buf_va, ureq.log_depth,
				       FAKERNIC_CQE_LOG_SIZE, &table,
				       &req.pages);
	if (IS_ERR(cq->umem))
		return PTR_ERR(cq->umem);
	req.log_depth = ureq.log_depth;
	if (attr->flags & IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN)
		req.flags |= FAKERNIC_CQ_IGNORE_OVERRUN;
	ret = fakernic_cq_hw_create(dev, &cq->hw, &req, attr->comp_vector);
	fakernic_page_table_free(dev, &table);
	if (ret)
		goto err_release;

	cq->ibcq.cqe = 1 << ureq.log_depth;
	uresp.cqn = cq->hw.cqn;
	ret = fakernic_copy_uresp(udata, &uresp, sizeof(uresp));
	if (ret)
		goto err_destroy;
	WRITE_ONCE(cq->made, true);
	return 0;

err_destroy:
	fakernic_cq_hw_drop(&cq->hw);
err_release:
	ib_umem_release(cq->umem);
	return ret;
}

static int fakernic_create_kernel_cq(struct fakernic_dev *dev,
				     struct fakernic_cq *cq,
				     const struct ib_cq_init_attr *attr)
{
	u8 log_depth = max_t(u8, order_base_2(attr->cqe),
			     FAKERNIC_CQ_LOG_DEPTH_MIN);
	struct fakernic_create_cq_req req = {
		.log_depth = log_depth,
		.uar = cpu_to_le32(FAKERNIC_KERNEL_UAR),
	};
	int ret;

	ret = fakernic_queue_alloc(dev, &cq->hw.queue, log_depth,
				   FAKERNIC_CQE_LOG_SIZE);
	if (ret)
		return ret;
	fakernic_queue_pages(&cq->hw.queue, &req.pages);
	ret = fakernic_cq_hw_create(dev, &cq->hw, &req, attr->comp_vector);
	if (ret) {
		fakernic_queue_free(dev, &cq->hw.queue);
		return ret;
	}
	cq->ibcq.cqe = 1 << log_depth;
	return 0;
}

int fakernic_create_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
		       struct uverbs_attr_bundle *attrs)
{
	struct fakernic_dev *dev = to_fakernic_dev(ibcq->device);
	struct ib_udata *udata = attrs ? &attrs->driver_udata : NULL;
	struct fakernic_cq *cq = to_fakernic_cq(ibcq);

	if (attr->flags & ~(IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION |
			    IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN))
		return -EOPNOTSUPP;
	if (!attr->cqe || attr->cqe > dev->ibdev->attrs.max_cqe) {
		fakernic_dbg(dev, "create CQ: %u entries, limit %d\n",
			     attr->cqe, dev->ibdev->attrs.max_cqe);
		return -EINVAL;
	}
	mutex_init(&cq->resize_lock);
	spin_lock_init(&cq->lock);
	INIT_LIST_HEAD(&cq->send_qps);
	INIT_LIST_HEAD(&cq->recv_qps);
	cq->hw.complete = fakernic_cq_complete;
	cq->hw.fail = fakernic_cq_fail;
	if (udata)
		return fakernic_create_user_cq(dev, cq, attr, udata);
	return fakernic_create_kernel_cq(dev, cq, attr);
}

int fakernic_destroy_cq(struct ib_cq *ibcq, struct ib_udata *udata)
{
	struct fakernic_cq *cq = to_fakernic_cq(ibcq);

	fakernic_cq_hw_drop(&cq->hw);
	fakernic_queue_free(cq->hw.dev, &cq->hw.queue);
	ib_umem_release(cq->umem);
	return 0;
}

int fakernic_modify_cq(struct ib_cq *ibcq, u16 count, u16 period_us)
{
	struct fakernic_dev *dev = to_fakernic_dev(ibcq->device);
	struct fakernic_cq *cq = to_fakernic_cq(ibcq);
	int ret;

	ret = fakernic_cmd_modify_cq(dev, cq->hw.cqn, count, period_us);
	if (ret)
		return ret;
	cq->count = count;
	cq->period_us = period_us;
	return 0;
}

int fakernic_resize_cq(struct ib_cq *ibcq, unsigned int cqe,
		       struct ib_udata *udata)
{
	struct fakernic_dev *dev = to_fakernic_dev(ibcq->device);
	struct fakernic_cq *cq = to_fakernic_cq(ibcq);
	struct fakernic_resize_cq_req req = {};
	struct fakernic_ureq_resize_cq ureq = {};
	struct fakernic_page_table table;
	struct ib_umem *umem;
	int ret;

	if (!cq->umem)
		return -EOPNOTSUPP;
	ret = fakernic_copy_ureq(dev, &ureq, sizeof(ureq), udata);
	if (ret)
		return ret;
	if (memchr_inv(ureq.reserved, 0, sizeof(ureq.reserved)) ||
	    cqe < 1 || cqe > dev->ibdev->attrs.max_cqe ||
	    !fakernic_cq_depth_fits(dev, ureq.log_depth, cqe)) {
		fakernic_dbg(dev,
			     "resize CQ %#x: log depth %u for %u entries\n",
			     cq->hw.cqn, ureq.log_depth, cqe);
		return -EINVAL;
	}
	umem = fakernic_user_queue(dev, ureq.buf_va, ureq.log_depth,
				   FAKERNIC_CQE_LOG_SIZE, &table, &req.pages);
	if (IS_ERR(umem))
		return PTR_ERR(umem);
	req.cqn = cpu_to_le32(cq->hw.cqn);
	req.log_depth = ureq.log_depth;
	mutex_lock(&cq->resize_lock);
	ret = fakernic_cmd_resize_cq(dev, &req);
	if (!ret) {
		swap(cq->umem, umem);
		ibcq->cqe = 1 << ureq.log_depth;
	}
	mutex_unlock(&cq->resize_lock);
	fakernic_page_table_free(dev, &table);
	/* After success this is the old memory, else the new one. */
	ib_umem_release(umem);
	return ret;
}

static enum ib_wc_status fakernic_wc_status(u8 status)
{
	/* The interface uses the values of ibv_wc_status: so does the core. */
	BUILD_BUG_ON((int)FAKERNIC_WC_GENERAL_ERR != (int)IB_WC_GENERAL_ERR);
	BUILD_BUG_ON((int)FAKERNIC_WC_RETRY_EXC_ERR !=
		     (int)IB_WC_RETRY_EXC_ERR);

	return status <= FAKERNIC_WC_GENERAL_ERR ? status : IB_WC_GENERAL_ERR;
}

static enum ib_wc_opcode fakernic_wc_opcode(u8 opcode)
{
	switch (opcode) {
	case FAKERNIC_CQE_RDMA_WRITE:
		return IB_WC_RDMA_WRITE;
	case FAKERNIC_CQE_RDMA_READ:
		return IB_WC_RDMA_READ;
	case FAKERNIC_CQE_CMP_SWAP:
		return IB_WC_COMP_SWAP;
	case FAKERNIC_CQE_FETCH_ADD:
		return IB_WC_FETCH_ADD;
	case FAKERNIC_CQE_MASKED_CMP_SWAP:
		return IB_WC_MASKED_COMP_SWAP;
	case FAKERNIC_CQE_MASKED_FETCH_ADD:
		return IB_WC_MASKED_FETCH_ADD;
	case FAKERNIC_CQE_LOCAL_INV:
		return IB_WC_LOCAL_INV;
	case FAKERNIC_CQE_REG_MR:
		return IB_WC_REG_MR;
	case FAKERNIC_CQE_RECV:
		return IB_WC_RECV;
	case FAKERNIC_CQE_RECV_RDMA_IMM:
		return IB_WC_RECV_RDMA_WITH_IMM;
	default:
		return IB_WC_SEND;
	}
}

/* Datagram receives: the sender and the network type. */
static void fakernic_wc_datagram(struct ib_wc *wc,
				 const struct fakernic_cqe *cqe)
{
	wc->src_qp = le32_to_cpu(cqe->src_qpn);
	wc->pkey_index = le16_to_cpu(cqe->pkey_index);
	wc->sl = cqe->sl;
	wc->port_num = FAKERNIC_PORT;
	if (cqe->flags & FAKERNIC_CQE_GRH)
		wc->wc_flags |= IB_WC_GRH;
	if (cqe->network_type == FAKERNIC_GID_IPV4 ||
	    cqe->network_type == FAKERNIC_GID_IPV6) {
		wc->network_hdr_type = cqe->network_type;
		wc->wc_flags |= IB_WC_WITH_NETWORK_HDR_TYPE;
	}
	memcpy(wc->smac, cqe->smac, ETH_ALEN);
	wc->wc_flags |= IB_WC_WITH_SMAC;
	if (cqe->flags & FAKERNIC_CQE_VLAN) {
		wc->vlan_id = le16_to_cpu(cqe->vlan) & VLAN_VID_MASK;
		wc->wc_flags |= IB_WC_WITH_VLAN;
	}
}

static bool fakernic_wc_recv(struct fakernic_qp *qp, struct ib_wc *wc,
			     const struct fakernic_cqe *cqe)
{
	u32 tag = le32_to_cpu(cqe->wqe_index);
	bool posted;

	if (qp->ibqp.srq)
		posted = fakernic_srq_complete(to_fakernic_srq(qp->ibqp.srq),
					       tag, &wc->wr_id);
	else
		posted = fakernic_rq_complete(&qp->rq, tag, &wc->wr_id);
	if (!posted)
		return false;
	wc->byte_len = le32_to_cpu(cqe->byte_count);
	if (cqe->flags & FAKERNIC_CQE_IMM) {
		wc->ex.imm_data = cpu_to_be32(le32_to_cpu(cqe->imm_or_key));
		wc->wc_flags |= IB_WC_WITH_IMM;
	} else if (cqe->flags & FAKERNIC_CQE_INV) {
		wc->ex.invalidate_rkey = le32_to_cpu(cqe->imm_or_key);
		wc->wc_flags |= IB_WC_WITH_INVALIDATE;
	}
	if (qp->type == FAKERNIC_QP_UD || qp->type == FAKERNIC_QP_GSI)
		fakernic_wc_datagram(wc, cqe);
	return true;
}

static bool fakernic_wc_send(struct fakernic_qp *qp, struct ib_wc *wc,
			     const struct fakernic_cqe *cqe)
{
	wc->byte_len = le32_to_cpu(cqe->byte_count);
	return fakernic_sq_complete(&qp->sq, le32_to_cpu(cqe->wqe_index),
				    &wc->wr_id);
}

/* Returns the kernel QP with this number, or NULL. */
static struct fakernic_qp *fakernic_cq_find_qp(struct fakernic_cq *cq, u32 qpn)
{
	struct fakernic_qp_hw *hw = xa_load(&cq->hw.dev->qps, qpn);

	return hw ? hw->qp : NULL;
}

/* Returns false if the CQE's QP or request no longer exists. */
static bool fakernic_wc_fill(struct fakernic_cq *cq, struct ib_wc *wc,
			     const struct fakernic_cqe *cqe)
{
	struct fakernic_qp *qp = fakernic_cq_find_qp(cq,
						     le32_to_cpu(cqe->qpn));
	bool recv = cqe->opcode >= FAKERNIC_CQE_RECV;

	if (!qp || (recv ? qp->ibqp.recv_cq : qp->ibqp.send_cq) != &cq->ibcq)
		return false;
	memset(wc, 0, sizeof(*wc));
	wc->qp = &qp->ibqp;
	wc->status = fakernic_wc_status(cqe->status);
	wc->opcode = fakernic_wc_opcode(cqe->opcode);
	wc->vendor_err = le16_to_cpu(cqe->vendor_err);
	if (wc->status && wc->status != IB_WC_WR_FLUSH_ERR)
		fakernic_dbg(cq->hw.dev, "QP %#x: %s: %s\n", qp->hw.qpn,
			     ib_wc_status_msg(wc->status),
			     fakernic_vendor_name(wc->vendor_err));
	return recv ? fakernic_wc_recv(qp, wc, cqe) :
		      fakernic_wc_send(qp, wc, cqe);
}

/*
 * Completes the requests that a dead device will not complete, so that kernel
 * users can drain their QPs. Called under the CQ's lock when the ring has no
 * CQE left.
 */
static int fakernic_flush_dead(struct fakernic_cq *cq, int count,
			       struct ib_wc *wc)
{
	struct fakernic_qp *qp;
	int n = 0;

	list_for_each_entry(qp, &cq->send_qps, send_node)
		while (n < count && fakernic_sq_flush_one(qp, &wc[n]))
			n++;
	list_for_each_entry(qp, &cq->recv_qps, recv_node)
		while (n < count && fakernic_rq_flush_one(qp, &wc[n]))
			n++;
	return n;
}

int fakernic_poll_cq(struct ib_cq *ibcq, int count, struct ib_wc *wc)
{
	struct fakernic_cq *cq = to_fakernic_cq(ibcq);
	struct fakernic_cqe cqe;
	unsigned long flags;
	u32 start;
	bool dead;
	int n = 0;

	spin_lock_irqsave(&cq->lock, flags);
	/*
	 * Loads dead before the ring. Then the ring has a completion for each
	 * request that the device completed, and no such request is flushed.
	 * Pairs with the release in fakernic_cmdq_die_locked().
	 */
	dead = smp_load_acquire(&cq->hw.dev->dead);
	start = cq->hw.ci;
	while (n < count && fakernic_cq_hw_next(&cq->hw, &cqe)) {
		if (fakernic_wc_fill(cq, &wc[n], &cqe))
			n++;
		cq->hw.ci++;
	}
	if (cq->hw.ci != start)
		fakernic_queue_publish(&cq->hw.queue, cq->hw.ci);
	if (unlikely(dead))
		n += fakernic_flush_dead(cq, count - n, &wc[n]);
	spin_unlock_irqrestore(&cq->lock, flags);
	return n;
}

/* Returns true if polling would flush a request. Under the CQ's lock. */
static bool fakernic_cq_has_flushes(struct fakernic_cq *cq)
{
	struct fakernic_qp *qp;

	list_for_each_entry(qp, &cq->send_qps, send_node)
		if (qp->sq.ci != READ_ONCE(qp->sq.pi))
			return true;
	list_for_each_entry(qp, &cq->recv_qps, recv_node)
		if (qp->rq.ci != READ_ONCE(qp->rq.pi))
			return true;
	return false;
}

int fakernic_req_notify_cq(struct ib_cq *ibcq, enum ib_cq_notify_flags flags)
{
	struct fakernic_cq *cq = to_fakernic_cq(ibcq);
	struct fakernic_cqe cqe;
	unsigned long irq_flags;
	bool missed = false;

	spin_lock_irqsave(&cq->lock, irq_flags);
	fakernic_cq_hw_arm(&cq->hw, (flags & IB_CQ_SOLICITED_MASK) ==
					    IB_CQ_SOLICITED);
	/*
	 * fakernic_cqs_kick() has no effect on a caller that is polling. Arms
	 * before it loads dead. Pairs with queue_work() after dead is set:
	 * either the kick comes after this point, or dead is seen here.
	 */
	smp_mb();
	if (unlikely(READ_ONCE(cq->hw.dev->dead)))
		missed = flags & IB_CQ_REPORT_MISSED_EVENTS &&
			 (fakernic_cq_hw_next(&cq->hw, &cqe) ||
			  fakernic_cq_has_flushes(cq));
	spin_unlock_irqrestore(&cq->lock, irq_flags);
	return missed;
}

void fakernic_cq_clean(struct fakernic_cq *cq, struct fakernic_qp *qp)
{
	struct fakernic_cqe cqe;
	unsigned long flags;
	u64 unused;
	u32 ci;

	if (!cq->hw.queue.ring)
		return;
	spin_lock_irqsave(&cq->lock, flags);
	for (ci = cq->hw.ci; ci - cq->hw.ci <= cq->hw.queue.mask; ci++) {
		if (!fakernic_cq_hw_peek(&cq->hw, ci, &cqe))
			break;
		if (le32_to_cpu(cqe.qpn) != qp->hw.qpn)
			continue;
		if (qp->ibqp.srq && cqe.opcode >= FAKERNIC_CQE_RECV)
			fakernic_srq_complete(to_fakernic_srq(qp->ibqp.srq),
					      le32_to_cpu(cqe.wqe_index),
					      &unused);
		fakernic_cq_hw_void(&cq->hw, ci);
	}
	spin_unlock_irqrestore(&cq->lock, flags);
}

/* A kernel CQ without QPs has nothing to flush and may be in destruction. */
static bool fakernic_cq_has_qps(struct fakernic_cq *cq)
{
	bool has;

	spin_lock(&cq->lock);
	has = !list_empty(&cq->send_qps) || !list_empty(&cq->recv_qps);
	spin_unlock(&cq->lock);
	return has;
}

/* Makes a kernel consumer poll. Called under the EQ's lock. */
static void fakernic_cq_kick(struct fakernic_cq_hw *hw)
{
	struct fakernic_cq *cq = container_of(hw, struct fakernic_cq, hw);

	/* Skip the CQs of the net_device. */
	if (hw->complete != fakernic_cq_complete)
		return;
	if (cq->ibcq.poll_ctx != IB_POLL_DIRECT && fakernic_cq_has_qps(cq))
		fakernic_cq_complete(hw);
}

void fakernic_cqs_kick(struct fakernic_dev *dev)
{
	fakernic_cq_hw_for_each(dev, fakernic_cq_kick);
}

/* The woken provider checks for a dead device. Called under the EQ's lock. */
static void fakernic_cq_wake_user(struct fakernic_cq_hw *hw)
{
	struct fakernic_cq *cq = container_of(hw, struct fakernic_cq, hw);

	if (hw->complete == fakernic_cq_complete && cq->umem)
		fakernic_cq_complete(hw);
}

void fakernic_cqs_wake_users(struct fakernic_dev *dev)
{
	fakernic_cq_hw_for_each(dev, fakernic_cq_wake_user);
}
