// SPDX-License-Identifier: GPL-2.0-only
/*
 * Work queues, indirection tables and RSS QPs, for user space only. A work
 * queue is a user's receive queue. The device numbers it like a QP, so the
 * driver registers it among the QPs for its events. An RSS QP has no queues;
 * its creation request has its own structure.
 */
#include <linux/dma-mapping.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <rdma/ib_umem.h>
#include <fakernic/base.h>
#include <fakernic/cmdq.h>
#include <fakernic/eq.h>
#include <fakernic/qp.h>
#include <fakernic/rq.h>
#include <fakernic/wq.h>
#include <rdma/fakernic-abi.h>
#include "../core/cmd.h"
#include "../core/device.h"
#include "../core/eq.h"
#include "../core/explain.h"
#include "../core/object.h"
#include "../core/pages.h"
#include "../core/queue.h"
#include "cq.h"
#include "pd.h"
#include "qp.h"
#include "udata.h"
#include "wq.h"

static void fakernic_wq_event(struct fakernic_qp_hw *hw, u8 type, u32 data)
{
	struct fakernic_wq *wq = container_of(hw, struct fakernic_wq, hw);
	struct ib_event event = {
		.device = wq->ibwq.device,
		.event = IB_EVENT_WQ_FATAL,
		.element.wq = &wq->ibwq,
	};

	if (type != FAKERNIC_EVENT_QP_FATAL)
		return;
	fakernic_dbg(to_fakernic_dev(wq->ibwq.device), "WQ %#x: fatal: %s\n",
		     hw->qpn, fakernic_vendor_name(data));
	if (wq->ibwq.event_handler)
		wq->ibwq.event_handler(&event, wq->ibwq.wq_context);
}

static int fakernic_check_wq(struct fakernic_dev *dev,
			     const struct ib_wq_init_attr *attr,
			     const struct fakernic_ureq_create_wq *ureq)
{
	const struct ib_device_attr *limit = &dev->ibdev->attrs;

	/* Without a CQ the core passes an ERR_PTR instead of failing. */
	if (IS_ERR_OR_NULL(attr->cq)) {
		fakernic_dbg(dev, "create WQ: no CQ\n");
		return -EINVAL;
	}
	if (attr->wq_type != IB_WQT_RQ || attr->create_flags) {
		fakernic_dbg(dev, "create WQ: type %d, flags %#x\n",
			     attr->wq_type, attr->create_flags);
		return -EOPNOTSUPP;
	}
	if (memchr_inv(ureq->reserved, 0, sizeof(ureq->reserved)) ||
	    ureq->log_depth > FAKERNIC_QUEUE_LOG_DEPTH_MAX ||
	    ureq->log_stride < FAKERNIC_RQ_LOG_STRIDE_MIN ||
	    ureq->log_stride > FAKERNIC_RQ_LOG_STRIDE_MAX ||
	    !attr->max_wr || attr->max_wr > limit->max_qp_wr ||
	    attr->max_wr > 1U << ureq->log_depth ||
	    attr->max_sge > limit->max_recv_sge) {
		fakernic_dbg(dev,
			     "create WQ: %u WRs, %u SGEs, log depth %u, log stride %u\n",
			     attr->max_wr, attr->max_sge, ureq->log_depth,
			     ureq->log_stride);
		return -EINVAL;
	}
	return 0;
}

static int fakernic_create_wq_hw(struct fakernic_dev *dev,
				 struct fakernic_wq *wq,
				 const struct fakernic_ureq_create_wq *ureq,
				 u32 pdn, u32 cqn)
{
	struct fakernic_create_wq_req req = {
		.type = FAKERNIC_WQT_RQ,
		.log_depth = ureq->log_depth,
		.log_stride = ureq->log_stride,
		.pdn = cpu_to_le32(pdn),
		.cqn = cpu_to_le32(cqn),
	};
	struct fakernic_page_table table;
	int ret;

	wq->umem = fakernic_user_queue(dev, ureq->buf_va, ureq->log_depth,
				       ureq->log_stride, &table, &req.pages);
	if (IS_ERR(wq->umem))
		return PTR_ERR(wq->umem);
	ret = fakernic_wq_hw_create(dev, &wq->hw, &req);
	fakernic_page_table_free(dev, &table);
	if (ret)
		ib_umem_release(wq->umem);
	return ret;
}

struct ib_wq *fakernic_create_wq(struct ib_pd *ibpd,
				 struct ib_wq_init_attr *attr,
				 struct ib_udata *udata)
{
	struct fakernic_dev *dev = to_fakernic_dev(ibpd->device);
	struct fakernic_ureq_create_wq ureq = {};
	struct fakernic_wq *wq;
	int ret;

	BUILD_BUG_ON((int)FAKERNIC_WQS_ERR != (int)IB_WQS_ERR);

	ret = fakernic_copy_ureq(dev, &ureq, sizeof(ureq), udata);
	if (ret)
		return ERR_PTR(ret);
	ret = fakernic_check_wq(dev, attr, &ureq);
	if (ret)
		return ERR_PTR(ret);
	wq = kzalloc(sizeof(*wq), GFP_KERNEL);
	if (!wq)
		return ERR_PTR(-ENOMEM);
	mutex_init(&wq->lock);
	wq->hw.event = fakernic_wq_event;
	/*
	 * The core fills in the other fields except the handler. A WQ in RESET
	 * has no events, and the user cannot change its state yet.
	 */
	wq->ibwq.device = ibpd->device;
	wq->ibwq.event_handler = attr->event_handler;
	wq->ibwq.state = IB_WQS_RESET;
	ret = fakernic_create_wq_hw(dev, wq, &ureq, to_fakernic_pd(ibpd)->pdn,
				    to_fakernic_cq(attr->cq)->hw.cqn);
	if (ret) {
		kfree(wq);
		return ERR_PTR(ret);
	}
	wq->ibwq.wq_num = wq->hw.qpn;
	return &wq->ibwq;
}

/* The device checks transitions: a WQ may enter ERR by itself. */
static bool fakernic_wq_may_be_in_state(const struct fakernic_wq *wq,
					enum ib_wq_state state)
{
	return wq->ibwq.state == state ||
	       (wq->ibwq.state == IB_WQS_RDY && state == IB_WQS_ERR);
}

int fakernic_modify_wq(struct ib_wq *ibwq, struct ib_wq_attr *attr, u32 mask,
		       struct ib_udata *udata)
{
	struct fakernic_dev *dev = to_fakernic_dev(ibwq->device);
	struct fakernic_wq *wq = to_fakernic_wq(ibwq);
	int ret;

	ret = fakernic_check_no_ureq(dev, udata);
	if (ret)
		return ret;
	if (mask & ~(IB_WQ_STATE | IB_WQ_CUR_STATE)) {
		fakernic_dbg(dev, "modify WQ %#x: attributes %#x\n",
			     wq->hw.qpn, mask);
		return -EOPNOTSUPP;
	}
	mutex_lock(&wq->lock);
	if (mask & IB_WQ_CUR_STATE &&
	    !fakernic_wq_may_be_in_state(wq, attr->curr_wq_state)) {
		fakernic_dbg(dev, "modify WQ %#x: the WQ is not in state %d\n",
			     wq->hw.qpn, attr->curr_wq_state);
		ret = -EINVAL;
	} else if (mask & IB_WQ_STATE) {
		ret = fakernic_cmd_modify_wq(dev, wq->hw.qpn, attr->wq_state);
		/* A dead device receives nothing; let its users clean up. */
		if (ret && READ_ONCE(dev->dead) &&
		    attr->wq_state != IB_WQS_RDY)
			ret = 0;
		if (!ret)
			ibwq->state = attr->wq_state;
	}
	mutex_unlock(&wq->lock);
	return ret;
}

int fakernic_destroy_wq(struct ib_wq *ibwq, struct ib_udata *udata)
{
	struct fakernic_dev *dev = to_fakernic_dev(ibwq->device);
	struct fakernic_wq *wq = to_fakernic_wq(ibwq);

	fakernic_wq_hw_drop(dev, &wq->hw);
	ib_umem_release(wq->umem);
	kfree(wq);
	return 0;
}

int fakernic_create_ind_table(struct ib_rwq_ind_table *ibtable,
			      struct ib_rwq_ind_table_init_attr *attr,
			      struct ib_udata *udata)
{
	struct fakernic_dev *dev = to_fakernic_dev(ibtable->device);
	struct fakernic_ind_table *table = to_fakernic_ind_table(ibtable);
	u32 i, size;
	__le32 *wqns;
	dma_addr_t dma;
	int ret;

	ret = fakernic_check_no_ureq(dev, udata);
	if (ret)
		return ret;
	if (attr->log_ind_tbl_size > 31 || 1U << attr->log_ind_tbl_size >
	    dev->ibdev->attrs.rss_caps.max_rwq_indirection_table_size) {
		fakernic_dbg(dev, "create indirection table: log size %u\n",
			     attr->log_ind_tbl_size);
		return -EINVAL;
	}
	size = 1U << attr->log_ind_tbl_size;
	wqns = dma_alloc_coherent(&dev->pdev->dev, size * sizeof(*wqns), &dma,
				  GFP_KERNEL);
	if (!wqns)
		return -ENOMEM;
	for (i = 0; i < size; i++)
		wqns[i] = cpu_to_le32(attr->ind_tbl[i]->wq_num);
	ret = fakernic_cmd_create_ind_table(dev, dma, attr->log_ind_tbl_size,
					    &table->id);
	dma_free_coherent(&dev->pdev->dev, size * sizeof(*wqns), wqns, dma);
	if (!ret)
		ibtable->ind_tbl_num = table->id;
	return ret;
}

int fakernic_destroy_ind_table(struct ib_rwq_ind_table *ibtable)
{
	struct fakernic_ind_table *table = to_fakernic_ind_table(ibtable);

	fakernic_cmd_drop(to_fakernic_dev(ibtable->device),
			  FAKERNIC_CMD_DESTROY_IND_TABLE, table->id);
	return 0;
}

static int fakernic_check_rss_qp(struct fakernic_dev *dev,
				 const struct fakernic_qp *qp,
				 const struct ib_qp_init_attr *attr,
				 const struct fakernic_ureq_create_rss_qp *ureq)
{
	const struct ib_qp_cap *cap = &attr->cap;

	BUILD_BUG_ON(sizeof(ureq->rx_hash_key) != FAKERNIC_HASH_KEY_SIZE);

	if (qp->type != FAKERNIC_QP_RAW_PACKET || attr->send_cq ||
	    attr->recv_cq || attr->srq || cap->max_send_wr ||
	    cap->max_recv_wr || cap->max_inline_data) {
		fakernic_dbg(dev,
			     "create RSS QP: type %d, or queues of its own\n",
			     attr->qp_type);
		return -EINVAL;
	}
	if (ureq->rx_hash_fields & ~FAKERNIC_HASH_FIELDS ||
	    ureq->rx_hash_function != FAKERNIC_HASH_TOEPLITZ) {
		fakernic_dbg(dev, "create RSS QP: hash fields %#x, function %u\n",
			     ureq->rx_hash_fields, ureq->rx_hash_function);
		return -EOPNOTSUPP;
	}
	if (ureq->rx_hash_key_len != FAKERNIC_HASH_KEY_SIZE ||
	    memchr_inv(ureq->reserved, 0, sizeof(ureq->reserved))) {
		fakernic_dbg(dev, "create RSS QP: key of %u bytes\n",
			     ureq->rx_hash_key_len);
		return -EINVAL;
	}
	return 0;
}

int fakernic_create_rss_qp(struct fakernic_dev *dev, struct fakernic_qp *qp,
			   const struct ib_qp_init_attr *attr,
			   struct ib_udata *udata)
{
	struct fakernic_ureq_create_rss_qp ureq = {};
	struct fakernic_uresp_create_qp uresp = {};
	struct fakernic_create_rss_qp_req req = {};
	int ret;

	ret = fakernic_copy_ureq(dev, &ureq, sizeof(ureq), udata);
	if (ret)
		return ret;
	ret = fakernic_check_rss_qp(dev, qp, attr, &ureq);
	if (ret)
		return ret;
	req.pdn = cpu_to_le32(to_fakernic_pd(qp->ibqp.pd)->pdn);
	req.table = cpu_to_le32(to_fakernic_ind_table(attr->rwq_ind_tbl)->id);
	req.hash_fields = cpu_to_le32(ureq.rx_hash_fields);
	req.hash_function = ureq.rx_hash_function;
	memcpy(req.key, ureq.rx_hash_key, sizeof(req.key));
	ret = fakernic_rss_qp_hw_create(dev, &qp->hw, &req);
	if (ret)
		return ret;
	/* An RSS QP receives from its creation on. */
	qp->state = IB_QPS_RTR;
	uresp.qpn = qp->hw.qpn;
	ret = fakernic_copy_uresp(udata, &uresp, sizeof(uresp));
	if (ret)
		fakernic_qp_hw_drop(dev, &qp->hw);
	return ret;
}
