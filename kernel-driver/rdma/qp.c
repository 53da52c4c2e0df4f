// SPDX-License-Identifier: GPL-2.0-only
/*
 * Queue pairs of verbs. The device itself checks every state transition and
 * every attribute. The driver checks what the kernel's core requires of it, and
 * what could harm the kernel.
 */
#include <linux/log2.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_verbs.h>
#include <fakernic/base.h>
#include <fakernic/cmdq.h>
#include <fakernic/eq.h>
#include <fakernic/qp.h>
#include <fakernic/regs.h>
#include <fakernic/rq.h>
#include <fakernic/sq.h>
#include <rdma/fakernic-abi.h>
#include "../core/cmd.h"
#include "../core/device.h"
#include "../core/eq.h"
#include "../core/explain.h"
#include "../core/gid.h"
#include "../core/object.h"
#include "../core/pages.h"
#include "../core/queue.h"
#include "../core/rq.h"
#include "ah.h"
#include "cq.h"
#include "pd.h"
#include "qp.h"
#include "sq.h"
#include "srq.h"
#include "ucontext.h"
#include "udata.h"
#include "wq.h"

static int fakernic_qp_ib_event(u8 type, enum ib_event_type *event)
{
	switch (type) {
	case FAKERNIC_EVENT_QP_FATAL:
		*event = IB_EVENT_QP_FATAL;
		return 0;
	case FAKERNIC_EVENT_QP_REQUEST_ERROR:
		*event = IB_EVENT_QP_REQ_ERR;
		return 0;
	case FAKERNIC_EVENT_QP_ACCESS_ERROR:
		*event = IB_EVENT_QP_ACCESS_ERR;
		return 0;
	case FAKERNIC_EVENT_COMM_ESTABLISHED:
		*event = IB_EVENT_COMM_EST;
		return 0;
	case FAKERNIC_EVENT_SQ_DRAINED:
		*event = IB_EVENT_SQ_DRAINED;
		return 0;
	case FAKERNIC_EVENT_PATH_MIGRATED:
		*event = IB_EVENT_PATH_MIG;
		return 0;
	case FAKERNIC_EVENT_PATH_MIGRATION_ERROR:
		*event = IB_EVENT_PATH_MIG_ERR;
		return 0;
	case FAKERNIC_EVENT_LAST_WQE_REACHED:
		*event = IB_EVENT_QP_LAST_WQE_REACHED;
		return 0;
	default:
		return -EINVAL;
	}
}

static void fakernic_qp_event(struct fakernic_qp_hw *hw, u8 type, u32 data)
{
	struct fakernic_qp *qp = container_of(hw, struct fakernic_qp, hw);
	struct ib_event event = {
		.device = qp->ibqp.device,
		.element.qp = &qp->ibqp,
	};

	if (fakernic_qp_ib_event(type, &event.event))
		return;
	if (data)
		fakernic_dbg(to_fakernic_dev(qp->ibqp.device),
			     "QP %#x: %s: %s\n", hw->qpn,
			     ib_event_msg(event.event),
			     fakernic_vendor_name(data));
	if (qp->ibqp.event_handler)
		qp->ibqp.event_handler(&event, qp->ibqp.qp_context);
}

static int fakernic_qp_type(struct fakernic_dev *dev,
			    const struct ib_qp_init_attr *attr, bool user)
{
	switch (attr->qp_type) {
	case IB_QPT_RC:
		return FAKERNIC_QP_RC;
	case IB_QPT_UD:
		return FAKERNIC_QP_UD;
	case IB_QPT_UC:
		return dev->features & FAKERNIC_FEATURE_UC ?
			FAKERNIC_QP_UC : -EOPNOTSUPP;
	case IB_QPT_GSI:
		return user ? -EOPNOTSUPP : FAKERNIC_QP_GSI;
	case IB_QPT_RAW_PACKET:
		/* The core has checked CAP_NET_RAW. */
		return user ? FAKERNIC_QP_RAW_PACKET : -EOPNOTSUPP;
	case IB_QPT_XRC_INI:
		/* Kernel work requests have no room for the peer's SRQ. */
		return user && dev->features & FAKERNIC_FEATURE_XRC ?
			FAKERNIC_QP_XRC_INI : -EOPNOTSUPP;
	case IB_QPT_XRC_TGT:
		/* Belongs to no process: the core never names a user. */
		return dev->features & FAKERNIC_FEATURE_XRC ?
			FAKERNIC_QP_XRC_TGT : -EOPNOTSUPP;
	default:
		return -EOPNOTSUPP;
	}
}

static int fakernic_check_create_flags(struct fakernic_dev *dev,
				       const struct ib_qp_init_attr *attr)
{
	u32 known = 0;

	if (attr->qp_type == IB_QPT_UD &&
	    dev->features & FAKERNIC_FEATURE_BLOCK_MCAST_LB)
		known = IB_QP_CREATE_BLOCK_MULTICAST_LOOPBACK;
	if (!(attr->create_flags & ~known))
		return 0;
	fakernic_dbg(dev, "create QP: flags %#x\n", attr->create_flags);
	return -EOPNOTSUPP;
}

static int fakernic_check_cap(struct fakernic_dev *dev,
			      const struct ib_qp_init_attr *attr)
{
	const struct ib_qp_cap *cap = &attr->cap;
	const struct ib_device_attr *limit = &dev->ibdev->attrs;

	if (cap->max_send_wr > limit->max_qp_wr ||
	    cap->max_recv_wr > limit->max_qp_wr ||
	    cap->max_send_sge > limit->max_send_sge ||
	    cap->max_recv_sge > limit->max_recv_sge ||
	    cap->max_inline_data > le32_to_cpu(dev->caps.max_inline)) {
		fakernic_dbg(dev,
			     "create QP: %u/%u WRs, %u/%u SGEs, %u bytes inline are beyond the limits\n",
			     cap->max_send_wr, cap->max_recv_wr,
			     cap->max_send_sge, cap->max_recv_sge,
			     cap->max_inline_data);
		return -EINVAL;
	}
	return 0;
}

/*
 * Ignores the capabilities of queues that a QP of this type, or one with an
 * SRQ, does not have: the caller may pass any value (ibv_create_qp(3)).
 */
static void fakernic_drop_unused_caps(const struct fakernic_qp *qp,
				      struct ib_qp_init_attr *attr)
{
	if (qp->type == FAKERNIC_QP_XRC_TGT)
		memset(&attr->cap, 0, sizeof(attr->cap));
	if (qp->type == FAKERNIC_QP_XRC_INI || attr->srq) {
		attr->cap.max_recv_wr = 0;
		attr->cap.max_recv_sge = 0;
	}
}

/* Fills the fields that kernel and user QPs have in common. */
static void fakernic_fill_create_qp(struct fakernic_create_qp_req *req,
				    const struct fakernic_qp *qp,
				    const struct ib_qp_init_attr *attr,
				    struct ib_udata *udata)
{
	memset(req, 0, sizeof(*req));
	req->type = qp->type;
	if (attr->create_flags & IB_QP_CREATE_BLOCK_MULTICAST_LOOPBACK)
		req->flags = FAKERNIC_QP_BLOCK_MCAST_LB;
	req->sq_log_depth = FAKERNIC_QUEUE_NONE;
	req->rq_log_depth = FAKERNIC_QUEUE_NONE;
	if (qp->type == FAKERNIC_QP_XRC_TGT) {
		req->xrcdn = cpu_to_le32(to_fakernic_xrcd(attr->xrcd)->xrcdn);
		return;
	}
	req->pdn = cpu_to_le32(to_fakernic_pd(qp->ibqp.pd)->pdn);
	req->send_cqn = cpu_to_le32(to_fakernic_cq(attr->send_cq)->hw.cqn);
	if (qp->type != FAKERNIC_QP_XRC_INI)
		req->recv_cqn =
			cpu_to_le32(to_fakernic_cq(attr->recv_cq)->hw.cqn);
	if (attr->srq)
		req->srqn = cpu_to_le32(to_fakernic_srq(attr->srq)->hw.srqn);
	req->uar = cpu_to_le32(fakernic_udata_uar(udata));
}

static int fakernic_check_create_qp(struct fakernic_dev *dev,
				    const struct fakernic_ureq_create_qp *ureq,
				    const struct ib_qp_init_attr *attr)
{
	bool sq = ureq->sq_log_depth != FAKERNIC_ABI_QUEUE_NONE;
	bool rq = ureq->rq_log_depth != FAKERNIC_ABI_QUEUE_NONE;

	if (memchr_inv(ureq->reserved, 0, sizeof(ureq->reserved)) ||
	    (sq ? ureq->sq_log_depth > FAKERNIC_QUEUE_LOG_DEPTH_MAX :
		  ureq->sq_va || attr->cap.max_send_wr) ||
	    (rq ? ureq->rq_log_depth > FAKERNIC_QUEUE_LOG_DEPTH_MAX ||
			     ureq->rq_log_stride < FAKERNIC_RQ_LOG_STRIDE_MIN ||
			     ureq->rq_log_stride > FAKERNIC_RQ_LOG_STRIDE_MAX ||
		  attr->srq :
		  ureq->rq_va || ureq->rq_log_stride ||
			     attr->cap.max_recv_wr)) {
		fakernic_dbg(dev,
			     "create QP: log depths %u, %u, log stride %u, or a reserved field\n",
			     ureq->sq_log_depth, ureq->rq_log_depth,
			     ureq->rq_log_stride);
		return -EINVAL;
	}
	return 0;
}

static int fakernic_create_user_qp(struct fakernic_dev *dev,
				   struct fakernic_qp *qp,
				   struct fakernic_create_qp_req *req,
				   const struct ib_qp_init_attr *attr,
				   struct ib_udata *udata)
{
	struct fakernic_ureq_create_qp ureq = {};
	struct fakernic_uresp_create_qp uresp = {};
	struct fakernic_page_table sq_table = {}, rq_table = {};
	int ret;

	ret = fakernic_copy_ureq(dev, &ureq, sizeof(ureq), udata);
	if (ret)
		return ret;
	ret = fakernic_check_create_qp(dev, &ureq, attr);
	if (ret)
		return ret;
	if (ureq.sq_log_depth != FAKERNIC_ABI_QUEUE_NONE) {
		req->sq_log_depth = ureq.sq_log_depth;
		qp->sq_umem = fakernic_user_queue(dev, ureq.sq_va,
						  ureq.sq_log_depth,
						  FAKERNIC_SQ_BB_SHIFT,
						  &sq_table, &req->sq_pages);
		if (IS_ERR(qp->sq_umem))
			return PTR_ERR(qp->sq_umem);
	}
	if (ureq.rq_log_depth != FAKERNIC_ABI_QUEUE_NONE) {
		req->rq_log_depth = ureq.rq_log_depth;
		req->rq_log_stride = ureq.rq_log_stride;
		qp->rq_umem = fakernic_user_queue(dev, ureq.rq_va,
						  ureq.rq_log_depth,
						  ureq.rq_log_stride,
						  &rq_table, &req->rq_pages);
		if (IS_ERR(qp->rq_umem)) {
			ret = PTR_ERR(qp->rq_umem);
			goto err_release_sq;
		}
	}
	ret = fakernic_qp_hw_create(dev, &qp->hw, req);
	if (ret)
		goto err_release_rq;
	uresp.qpn = qp->hw.qpn;
	ret = fakernic_copy_uresp(udata, &uresp, sizeof(uresp));
	if (ret)
		goto err_destroy;
	fakernic_page_table_free(dev, &rq_table);
	fakernic_page_table_free(dev, &sq_table);
	return 0;

err_destroy:
	fakernic_qp_hw_drop(dev, &qp->hw);
err_release_rq:
	fakernic_page_table_free(dev, &rq_table);
	ib_umem_release(qp->rq_umem);
err_release_sq:
	fakernic_page_table_free(dev, &sq_table);
	ib_umem_release(qp->sq_umem);
	return ret;
}

static void fakernic_free_kernel_queues(struct fakernic_dev *dev,
					struct fakernic_qp *qp)
{
	fakernic_queue_free(dev, &qp->sq.queue);
	fakernic_queue_free(dev, &qp->rq.queue);
	kvfree(qp->sq.wr_id);
	kvfree(qp->sq.bb_count);
	kvfree(qp->rq.wr_id);
}

static int fakernic_alloc_kernel_sq(struct fakernic_dev *dev,
				    struct fakernic_qp *qp,
				    struct ib_qp_init_attr *attr)
{
	struct fakernic_sq *sq = &qp->sq;
	u32 size = fakernic_sq_wqe_size(qp->type, attr->cap.max_send_sge,
					attr->cap.max_inline_data);
	u32 bb_count = DIV_ROUND_UP(size, FAKERNIC_SQ_BB_SIZE);
	u32 wr_count = max_t(u32, attr->cap.max_send_wr, 1);
	u32 log_depth = order_base_2(wr_count * bb_count);
	int ret;

	if (size > FAKERNIC_SQ_WQE_SIZE_MAX ||
	    log_depth > FAKERNIC_QUEUE_LOG_DEPTH_MAX)
		return -EINVAL;
	ret = fakernic_queue_alloc(dev, &sq->queue, log_depth,
				   FAKERNIC_SQ_BB_SHIFT);
	if (ret)
		return ret;
	sq->wr_id = kvcalloc(1UL << log_depth, sizeof(*sq->wr_id), GFP_KERNEL);
	sq->bb_count = kvcalloc(1UL << log_depth, sizeof(*sq->bb_count),
				GFP_KERNEL);
	if (!sq->wr_id || !sq->bb_count)
		return -ENOMEM;
	sq->max_sge = attr->cap.max_send_sge;
	sq->max_inline = attr->cap.max_inline_data;
	return 0;
}

static int fakernic_alloc_kernel_rq(struct fakernic_dev *dev,
				    struct fakernic_qp *qp,
				    struct ib_qp_init_attr *attr)
{
	struct fakernic_rq *rq = &qp->rq;
	u32 log_depth = order_base_2(max_t(u32, attr->cap.max_recv_wr, 1));
	u8 log_stride = fakernic_rq_log_stride(attr->cap.max_recv_sge);
	int ret;

	if (log_depth > FAKERNIC_QUEUE_LOG_DEPTH_MAX)
		return -EINVAL;
	ret = fakernic_queue_alloc(dev, &rq->queue, log_depth, log_stride);
	if (ret)
		return ret;
	rq->wr_id = kvcalloc(1UL << log_depth, sizeof(*rq->wr_id), GFP_KERNEL);
	if (!rq->wr_id)
		return -ENOMEM;
	rq->max_sge = attr->cap.max_recv_sge;
	return 0;
}

static int fakernic_create_kernel_qp(struct fakernic_dev *dev,
				     struct fakernic_qp *qp,
				     struct fakernic_create_qp_req *req,
				     struct ib_qp_init_attr *attr)
{
	int ret;

	ret = fakernic_alloc_kernel_sq(dev, qp, attr);
	if (ret)
		goto err_free;
	req->sq_log_depth = qp->sq.queue.log_depth;
	fakernic_queue_pages(&qp->sq.queue, &req->sq_pages);
	if (!attr->srq) {
		ret = fakernic_alloc_kernel_rq(dev, qp, attr);
		if (ret)
			goto err_free;
		req->rq_log_depth = qp->rq.queue.log_depth;
		req->rq_log_stride = qp->rq.queue.log_stride;
		fakernic_queue_pages(&qp->rq.queue, &req->rq_pages);
	}
	ret = fakernic_qp_hw_create(dev, &qp->hw, req);
	if (ret)
		goto err_free;
	return 0;

err_free:
	fakernic_free_kernel_queues(dev, qp);
	return ret;
}

/*
 * Kernel QPs are in lists of their CQs, which flush them when the device has
 * died (cq.c).
 */
static void fakernic_list_qp(struct fakernic_qp *qp)
{
	struct fakernic_cq *send_cq = to_fakernic_cq(qp->ibqp.send_cq);
	struct fakernic_cq *recv_cq = to_fakernic_cq(qp->ibqp.recv_cq);

	spin_lock_irq(&send_cq->lock);
	list_add_tail(&qp->send_node, &send_cq->send_qps);
	spin_unlock_irq(&send_cq->lock);
	spin_lock_irq(&recv_cq->lock);
	list_add_tail(&qp->recv_node, &recv_cq->recv_qps);
	spin_unlock_irq(&recv_cq->lock);
}

static void fakernic_unlist_qp(struct fakernic_qp *qp)
{
	struct fakernic_cq *send_cq = to_fakernic_cq(qp->ibqp.send_cq);
	struct fakernic_cq *recv_cq = to_fakernic_cq(qp->ibqp.recv_cq);

	spin_lock_irq(&send_cq->lock);
	list_del(&qp->send_node);
	spin_unlock_irq(&send_cq->lock);
	spin_lock_irq(&recv_cq->lock);
	list_del(&qp->recv_node);
	spin_unlock_irq(&recv_cq->lock);
}

int fakernic_create_qp(struct ib_qp *ibqp, struct ib_qp_init_attr *attr,
		       struct ib_udata *udata)
{
	struct fakernic_dev *dev = to_fakernic_dev(ibqp->device);
	struct fakernic_qp *qp = to_fakernic_qp(ibqp);
	struct fakernic_create_qp_req req;
	int ret;

	ret = fakernic_check_create_flags(dev, attr);
	if (ret)
		return ret;
	ret = fakernic_qp_type(dev, attr, udata);
	if (ret < 0) {
		fakernic_dbg(dev, "create QP: type %d\n", attr->qp_type);
		return ret;
	}
	qp->type = ret;
	fakernic_drop_unused_caps(qp, attr);
	ret = fakernic_check_cap(dev, attr);
	if (ret)
		return ret;

	mutex_init(&qp->lock);
	spin_lock_init(&qp->sq.lock);
	spin_lock_init(&qp->rq.lock);
	qp->state = IB_QPS_RESET;
	qp->cap = attr->cap;
	qp->sq.signal_all = attr->sq_sig_type == IB_SIGNAL_ALL_WR;
	qp->hw.event = fakernic_qp_event;
	qp->hw.qp = qp;
	if (attr->rwq_ind_tbl) {
		ret = fakernic_create_rss_qp(dev, qp, attr, udata);
		goto out;
	}
	fakernic_fill_create_qp(&req, qp, attr, udata);
	if (qp->type == FAKERNIC_QP_XRC_TGT) {
		ret = fakernic_qp_hw_create(dev, &qp->hw, &req);
	} else if (udata) {
		ret = fakernic_create_user_qp(dev, qp, &req, attr, udata);
	} else {
		ret = fakernic_create_kernel_qp(dev, qp, &req, attr);
		if (!ret)
			fakernic_list_qp(qp);
	}
out:
	if (ret)
		return ret;
	ibqp->qp_num = qp->hw.qpn;
	return 0;
}

/* A kernel QP was reset: no completion of earlier work may appear later. */
static void fakernic_clean_kernel_qp(struct fakernic_qp *qp)
{
	struct fakernic_cq *send_cq = to_fakernic_cq(qp->ibqp.send_cq);
	struct fakernic_cq *recv_cq = to_fakernic_cq(qp->ibqp.recv_cq);
	unsigned long flags;

	fakernic_cq_clean(send_cq, qp);
	if (recv_cq != send_cq)
		fakernic_cq_clean(recv_cq, qp);

	/* CQ locks too: on a dead device polling flushes these. */
	spin_lock_irqsave(&send_cq->lock, flags);
	spin_lock(&qp->sq.lock);
	fakernic_queue_reset(&qp->sq.queue);
	qp->sq.pi = 0;
	qp->sq.ci = 0;
	spin_unlock(&qp->sq.lock);
	spin_unlock_irqrestore(&send_cq->lock, flags);
	if (!qp->rq.queue.ring)
		return;
	spin_lock_irqsave(&recv_cq->lock, flags);
	spin_lock(&qp->rq.lock);
	fakernic_queue_reset(&qp->rq.queue);
	qp->rq.pi = 0;
	qp->rq.ci = 0;
	spin_unlock(&qp->rq.lock);
	spin_unlock_irqrestore(&recv_cq->lock, flags);
}

static void fakernic_fill_qp_attr(struct fakernic_qp_attr *to,
				  const struct ib_qp_attr *attr, int mask)
{
	/* The device uses the bits of ib_qp_attr_mask. */
	BUILD_BUG_ON(FAKERNIC_QP_ATTR_AV != IB_QP_AV);
	BUILD_BUG_ON(FAKERNIC_QP_ATTR_DEST_QPN != IB_QP_DEST_QPN);

	to->state = attr->qp_state;
	to->cur_state = attr->cur_qp_state;
	to->path_mtu = attr->path_mtu;
	to->qkey = cpu_to_le32(attr->qkey);
	to->rq_psn = cpu_to_le32(attr->rq_psn & 0xffffff);
	to->sq_psn = cpu_to_le32(attr->sq_psn & 0xffffff);
	to->dest_qpn = cpu_to_le32(attr->dest_qp_num);
	/*
	 * Programs pass the flags that they register memory with. On-demand
	 * paging is not an access right, so drop it.
	 */
	to->access_flags = cpu_to_le32(attr->qp_access_flags &
				       ~(IB_ACCESS_OPTIONAL |
					 IB_ACCESS_ON_DEMAND));
	to->pkey_index = cpu_to_le16(attr->pkey_index);
	to->port = attr->port_num;
	to->max_rd_atomic = attr->max_rd_atomic;
	to->max_dest_rd_atomic = attr->max_dest_rd_atomic;
	to->min_rnr_timer = attr->min_rnr_timer;
	to->timeout = attr->timeout;
	to->retry_cnt = attr->retry_cnt;
	to->rnr_retry = attr->rnr_retry;
	to->sqd_async_notify = attr->en_sqd_async_notify;
	to->path_mig_state = mask & IB_QP_PATH_MIG_STATE ?
			     attr->path_mig_state : FAKERNIC_MIG_MIGRATED;
	to->rate_limit_kbps = mask & IB_QP_RATE_LIMIT ?
			      cpu_to_le32(attr->rate_limit) : 0;
	if (mask & IB_QP_AV)
		fakernic_fill_av(&to->av, &attr->ah_attr);
}

#define FAKERNIC_QP_MASK						\
	(IB_QP_STATE | IB_QP_CUR_STATE | IB_QP_EN_SQD_ASYNC_NOTIFY |	\
	 IB_QP_ACCESS_FLAGS | IB_QP_PKEY_INDEX | IB_QP_PORT |		\
	 IB_QP_QKEY | IB_QP_AV | IB_QP_PATH_MTU | IB_QP_TIMEOUT |	\
	 IB_QP_RETRY_CNT | IB_QP_RNR_RETRY | IB_QP_RQ_PSN |		\
	 IB_QP_MAX_QP_RD_ATOMIC | IB_QP_MIN_RNR_TIMER | IB_QP_SQ_PSN |	\
	 IB_QP_MAX_DEST_RD_ATOMIC | IB_QP_PATH_MIG_STATE |		\
	 IB_QP_DEST_QPN | IB_QP_RATE_LIMIT)

/* The core's table allows rate limits for raw-packet QPs only. */
static int fakernic_core_mask(int mask, enum ib_qp_state new)
{
	return new == IB_QPS_RTS ? mask & ~IB_QP_RATE_LIMIT : mask;
}

static int fakernic_modify_qp_locked(struct fakernic_dev *dev,
				     struct fakernic_qp *qp,
				     const struct ib_qp_attr *attr, int mask)
{
	enum ib_qp_state old = mask & IB_QP_CUR_STATE ?
		attr->cur_qp_state : qp->state;
	enum ib_qp_state new = mask & IB_QP_STATE ? attr->qp_state : old;
	struct fakernic_modify_qp_req req = {
		.qpn = cpu_to_le32(qp->hw.qpn),
		.mask = cpu_to_le32(mask),
	};
	int ret;

	if (!ib_modify_qp_is_ok(old, new, qp->ibqp.qp_type,
				fakernic_core_mask(mask, new))) {
		fakernic_dbg(dev,
			     "modify QP %#x: state %d to %d with mask %#x\n",
			     qp->hw.qpn, old, new, mask);
		return -EINVAL;
	}
	fakernic_fill_qp_attr(&req.attr, attr, mask);
	ret = fakernic_cmd_modify_qp(dev, &req);
	/* A dead device has stopped all QPs; let their users clean up. */
	if (ret && READ_ONCE(dev->dead) &&
	    (new == IB_QPS_ERR || new == IB_QPS_RESET)) {
		ret = 0;
		/* ib_drain_qp() of a QP with an SRQ waits for this. */
		if (new == IB_QPS_ERR && qp->ibqp.srq &&
		    !qp->last_wqe_reported) {
			qp->last_wqe_reported = true;
			fakernic_qp_event(&qp->hw,
					  FAKERNIC_EVENT_LAST_WQE_REACHED, 0);
		}
	}
	if (ret)
		return ret;
	if (new == IB_QPS_RESET && qp->sq.queue.ring)
		fakernic_clean_kernel_qp(qp);
	if (new == IB_QPS_RESET)
		qp->last_wqe_reported = false;
	WRITE_ONCE(qp->state, new);
	return 0;
}

int fakernic_modify_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		       struct ib_udata *udata)
{
	struct fakernic_dev *dev = to_fakernic_dev(ibqp->device);
	struct fakernic_qp *qp = to_fakernic_qp(ibqp);
	int ret;

	ret = fakernic_check_no_ureq(dev, udata);
	if (ret)
		return ret;
	if (mask & ~FAKERNIC_QP_MASK) {
		fakernic_dbg(dev, "modify QP %#x: attributes %#x\n",
			     qp->hw.qpn, mask & ~FAKERNIC_QP_MASK);
		return -EOPNOTSUPP;
	}
	mutex_lock(&qp->lock);
	ret = fakernic_modify_qp_locked(dev, qp, attr, mask);
	mutex_unlock(&qp->lock);
	return ret;
}

static void fakernic_read_qp_attr(const struct fakernic_qp_attr *from,
				  struct ib_qp_attr *attr)
{
	attr->qp_state = from->state;
	attr->cur_qp_state = from->state;
	attr->path_mtu = from->path_mtu;
	attr->path_mig_state = from->path_mig_state;
	attr->qkey = le32_to_cpu(from->qkey);
	attr->rq_psn = le32_to_cpu(from->rq_psn);
	attr->sq_psn = le32_to_cpu(from->sq_psn);
	attr->dest_qp_num = le32_to_cpu(from->dest_qpn);
	attr->qp_access_flags = le32_to_cpu(from->access_flags);
	attr->pkey_index = le16_to_cpu(from->pkey_index);
	attr->port_num = from->port;
	attr->max_rd_atomic = from->max_rd_atomic;
	attr->max_dest_rd_atomic = from->max_dest_rd_atomic;
	attr->min_rnr_timer = from->min_rnr_timer;
	attr->timeout = from->timeout;
	attr->retry_cnt = from->retry_cnt;
	attr->rnr_retry = from->rnr_retry;
	attr->en_sqd_async_notify = from->sqd_async_notify;
	attr->sq_draining = from->sq_draining;
	attr->rate_limit = le32_to_cpu(from->rate_limit_kbps);
	fakernic_read_av(&from->av, &attr->ah_attr);
}

int fakernic_query_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		      struct ib_qp_init_attr *init)
{
	struct fakernic_dev *dev = to_fakernic_dev(ibqp->device);
	struct fakernic_qp *qp = to_fakernic_qp(ibqp);
	struct fakernic_qp_attr from;
	int ret;

	ret = fakernic_cmd_query_qp(dev, qp->hw.qpn, &from);
	if (ret)
		return ret;
	memset(attr, 0, sizeof(*attr));
	memset(init, 0, sizeof(*init));
	fakernic_read_qp_attr(&from, attr);

	attr->cap = qp->cap;
	init->event_handler = ibqp->event_handler;
	init->qp_context = ibqp->qp_context;
	init->send_cq = ibqp->send_cq;
	init->recv_cq = ibqp->recv_cq;
	init->srq = ibqp->srq;
	init->xrcd = ibqp->xrcd;
	init->qp_type = ibqp->qp_type;
	init->cap = attr->cap;
	init->sq_sig_type = qp->sq.signal_all ? IB_SIGNAL_ALL_WR :
						IB_SIGNAL_REQ_WR;
	return 0;
}

int fakernic_destroy_qp(struct ib_qp *ibqp, struct ib_udata *udata)
{
	struct fakernic_dev *dev = to_fakernic_dev(ibqp->device);
	struct fakernic_qp *qp = to_fakernic_qp(ibqp);

	if (qp->sq.queue.ring) {
		/*
		 * The device may reuse the number after the destroy. So reset
		 * the QP first: that ends its completions, and the CQs can be
		 * cleaned while the number still identifies it.
		 */
		fakernic_qp_hw_set_state(dev, &qp->hw, FAKERNIC_QPS_RESET);
		fakernic_clean_kernel_qp(qp);
	}
	fakernic_qp_hw_drop(dev, &qp->hw);
	fakernic_gids_clear_deleted(dev);
	if (qp->sq.queue.ring) {
		fakernic_unlist_qp(qp);
		/* Wait for event handlers that are still notifying its CQs. */
		fakernic_eq_sync(to_fakernic_cq(ibqp->send_cq)->hw.eq);
		fakernic_eq_sync(to_fakernic_cq(ibqp->recv_cq)->hw.eq);
		fakernic_free_kernel_queues(dev, qp);
	}
	ib_umem_release(qp->rq_umem);
	ib_umem_release(qp->sq_umem);
	return 0;
}
