// SPDX-License-Identifier: GPL-2.0-only
/*
 * Shared receive queues. Receives complete out of order here, so each has a
 * tag. The tag names a slot of wr_ids, taken from a stack, and the slot's turn,
 * which detects a receive that is reported twice. A slot in the ring is free
 * once the device has copied it. That is certain while fewer receives are
 * outstanding than the ring has slots.
 */
#include <linux/log2.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_verbs.h>
#include <fakernic/base.h>
#include <fakernic/cmdq.h>
#include <fakernic/eq.h>
#include <fakernic/regs.h>
#include <fakernic/rq.h>
#include <rdma/fakernic-abi.h>
#include "../core/cmd.h"
#include "../core/device.h"
#include "../core/eq.h"
#include "../core/explain.h"
#include "../core/object.h"
#include "../core/pages.h"
#include "../core/queue.h"
#include "../core/rq.h"
#include "cq.h"
#include "pd.h"
#include "srq.h"
#include "udata.h"

static int fakernic_check_srq(struct fakernic_dev *dev,
			      const struct ib_srq_init_attr *attr, bool user)
{
	const struct ib_device_attr *limit = &dev->ibdev->attrs;

	switch (attr->srq_type) {
	case IB_SRQT_BASIC:
		break;
	case IB_SRQT_XRC:
		/* Kernel CQs cannot identify receives of an XRC SRQ. */
		if (user && dev->features & FAKERNIC_FEATURE_XRC)
			break;
		fallthrough;
	default:
		fakernic_dbg(dev, "create SRQ: type %d\n",
			     attr->srq_type);
		return -EOPNOTSUPP;
	}
	if (!attr->attr.max_wr || attr->attr.max_wr > limit->max_srq_wr ||
	    attr->attr.max_sge > limit->max_srq_sge ||
	    attr->attr.srq_limit > attr->attr.max_wr) {
		fakernic_dbg(dev, "create SRQ: %u WRs, %u SGEs, limit %u\n",
			     attr->attr.max_wr, attr->attr.max_sge,
			     attr->attr.srq_limit);
		return -EINVAL;
	}
	return 0;
}

static int fakernic_create_user_srq(struct fakernic_dev *dev,
				    struct fakernic_srq *srq,
				    struct fakernic_create_srq_req *req,
				    const struct ib_srq_init_attr *attr,
				    struct ib_udata *udata)
{
	struct fakernic_ureq_create_srq ureq = {};
	struct fakernic_uresp_create_srq uresp = {};
	struct fakernic_page_table table;
	int ret;

	ret = fakernic_copy_ureq(dev, &ureq, sizeof(ureq), udata);
	if (ret)
		return ret;
	if (memchr_inv(ureq.reserved, 0, sizeof(ureq.reserved)) ||
	    ureq.log_depth > FAKERNIC_QUEUE_LOG_DEPTH_MAX ||
	    attr->attr.max_wr > 1U << ureq.log_depth ||
	    ureq.log_stride < FAKERNIC_RQ_LOG_STRIDE_MIN ||
	    ureq.log_stride > FAKERNIC_RQ_LOG_STRIDE_MAX) {
		fakernic_dbg(dev, "create SRQ: log depth %u, log stride %u\n",
			     ureq.log_depth, ureq.log_stride);
		return -EINVAL;
	}
	req->log_depth = ureq.log_depth;
	req->log_stride = ureq.log_stride;
	srq->log_stride = ureq.log_stride;
	srq->umem = fakernic_user_queue(dev, ureq.buf_va, ureq.log_depth,
					ureq.log_stride, &table, &req->pages);
	if (IS_ERR(srq->umem))
		return PTR_ERR(srq->umem);
	ret = fakernic_srq_hw_create(dev, &srq->hw, req);
	fakernic_page_table_free(dev, &table);
	if (ret)
		goto err_release;
	if (srq->ibsrq.srq_type == IB_SRQT_XRC)
		srq->ibsrq.ext.xrc.srq_num = srq->hw.srqn;
	uresp.srqn = srq->hw.srqn;
	ret = fakernic_copy_uresp(udata, &uresp, sizeof(uresp));
	if (ret)
		goto err_destroy;
	return 0;

err_destroy:
	fakernic_srq_hw_drop(dev, &srq->hw);
err_release:
	ib_umem_release(srq->umem);
	return ret;
}

static int fakernic_create_kernel_srq(struct fakernic_dev *dev,
				      struct fakernic_srq *srq,
				      struct fakernic_create_srq_req *req,
				      struct ib_srq_init_attr *attr)
{
	u8 log_depth = order_base_2(attr->attr.max_wr);
	u32 i, depth = 1U << log_depth;
	int ret;

	req->log_depth = log_depth;
	req->log_stride = fakernic_rq_log_stride(attr->attr.max_sge);
	ret = fakernic_queue_alloc(dev, &srq->queue, log_depth,
				   req->log_stride);
	if (ret)
		return ret;
	fakernic_queue_pages(&srq->queue, &req->pages);
	ret = -ENOMEM;
	srq->wr_id = kvcalloc(depth, sizeof(*srq->wr_id), GFP_KERNEL);
	srq->free = kvcalloc(depth, sizeof(*srq->free), GFP_KERNEL);
	srq->tag = kvcalloc(depth, sizeof(*srq->tag), GFP_KERNEL);
	if (!srq->wr_id || !srq->free || !srq->tag)
		goto err_free;
	for (i = 0; i < depth; i++) {
		srq->free[i] = i;
		srq->tag[i] = i;
	}
	srq->free_count = depth;
	ret = fakernic_srq_hw_create(dev, &srq->hw, req);
	if (ret)
		goto err_free;
	attr->attr.max_wr = depth;
	return 0;

err_free:
	kvfree(srq->tag);
	kvfree(srq->free);
	kvfree(srq->wr_id);
	fakernic_queue_free(dev, &srq->queue);
	return ret;
}

static void fakernic_srq_event(struct fakernic_srq_hw *hw, u8 type, u32 data)
{
	struct fakernic_srq *srq = container_of(hw, struct fakernic_srq, hw);
	struct ib_event event = {
		.device = srq->ibsrq.device,
		.event = type == FAKERNIC_EVENT_SRQ_LIMIT ?
			 IB_EVENT_SRQ_LIMIT_REACHED : IB_EVENT_SRQ_ERR,
		.element.srq = &srq->ibsrq,
	};

	if (event.event == IB_EVENT_SRQ_ERR)
		fakernic_dbg(to_fakernic_dev(srq->ibsrq.device),
			     "SRQ %#x: %s: %s\n", srq->hw.srqn,
			     ib_event_msg(event.event),
			     fakernic_vendor_name(data));
	if (srq->ibsrq.event_handler)
		srq->ibsrq.event_handler(&event, srq->ibsrq.srq_context);
}

int fakernic_create_srq(struct ib_srq *ibsrq, struct ib_srq_init_attr *attr,
			struct ib_udata *udata)
{
	struct fakernic_dev *dev = to_fakernic_dev(ibsrq->device);
	struct fakernic_srq *srq = to_fakernic_srq(ibsrq);
	struct fakernic_create_srq_req req = {
		.pdn = cpu_to_le32(to_fakernic_pd(ibsrq->pd)->pdn),
		.limit = cpu_to_le32(attr->attr.srq_limit),
	};
	int ret;

	ret = fakernic_check_srq(dev, attr, udata);
	if (ret)
		return ret;
	if (attr->srq_type == IB_SRQT_XRC) {
		struct fakernic_xrcd *xrcd =
			to_fakernic_xrcd(attr->ext.xrc.xrcd);

		req.xrcdn = cpu_to_le32(xrcd->xrcdn);
		req.cqn = cpu_to_le32(to_fakernic_cq(attr->ext.cq)->hw.cqn);
	}
	mutex_init(&srq->resize_lock);
	spin_lock_init(&srq->lock);
	srq->max_sge = attr->attr.max_sge;
	srq->hw.event = fakernic_srq_event;
	if (udata)
		return fakernic_create_user_srq(dev, srq, &req, attr, udata);
	return fakernic_create_kernel_srq(dev, srq, &req, attr);
}

/* Copies and checks a user's description of the new ring. */
static int fakernic_copy_resize_srq(struct fakernic_dev *dev,
				    const struct fakernic_srq *srq,
				    struct fakernic_ureq_modify_srq *ureq,
				    u32 max_wr, struct ib_udata *udata)
{
	int ret;

	/* No kernel consumer resizes an SRQ, so only user SRQs support it. */
	if (!udata || !srq->umem ||
	    !(dev->features & FAKERNIC_FEATURE_RESIZE_SRQ))
		return -EOPNOTSUPP;
	ret = fakernic_copy_ureq(dev, ureq, sizeof(*ureq), udata);
	if (ret)
		return ret;
	if (memchr_inv(ureq->reserved, 0, sizeof(ureq->reserved)) ||
	    ureq->log_depth > FAKERNIC_QUEUE_LOG_DEPTH_MAX || !max_wr ||
	    max_wr > dev->ibdev->attrs.max_srq_wr ||
	    max_wr > 1U << ureq->log_depth) {
		fakernic_dbg(dev,
			     "resize SRQ %#x: log depth %u for %u receives\n",
			     srq->hw.srqn, ureq->log_depth, max_wr);
		return -EINVAL;
	}
	return 0;
}

static int fakernic_resize_srq(struct fakernic_dev *dev,
			       struct fakernic_srq *srq,
			       struct fakernic_modify_srq_req *req,
			       u32 max_wr, struct ib_udata *udata)
{
	struct fakernic_ureq_modify_srq ureq = {};
	struct fakernic_page_table table;
	struct ib_umem *umem;
	int ret;

	ret = fakernic_copy_resize_srq(dev, srq, &ureq, max_wr, udata);
	if (ret)
		return ret;
	umem = fakernic_user_queue(dev, ureq.buf_va, ureq.log_depth,
				   srq->log_stride, &table, &req->pages);
	if (IS_ERR(umem))
		return PTR_ERR(umem);
	req->mask |= FAKERNIC_SRQ_RESIZE;
	req->log_depth = ureq.log_depth;
	mutex_lock(&srq->resize_lock);
	ret = fakernic_cmd_modify_srq(dev, req);
	if (!ret)
		swap(srq->umem, umem);
	mutex_unlock(&srq->resize_lock);
	fakernic_page_table_free(dev, &table);
	/* Releases the old memory, or the new memory after a failure. */
	ib_umem_release(umem);
	return ret;
}

int fakernic_modify_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr,
			enum ib_srq_attr_mask mask, struct ib_udata *udata)
{
	struct fakernic_dev *dev = to_fakernic_dev(ibsrq->device);
	struct fakernic_srq *srq = to_fakernic_srq(ibsrq);
	struct fakernic_modify_srq_req req = {
		.srqn = cpu_to_le32(srq->hw.srqn),
	};
	int ret;

	if (mask & ~(IB_SRQ_LIMIT | IB_SRQ_MAX_WR)) {
		fakernic_dbg(dev, "modify SRQ %#x: attributes %#x\n",
			     srq->hw.srqn, mask);
		return -EINVAL;
	}
	if (mask & IB_SRQ_LIMIT) {
		req.mask |= FAKERNIC_SRQ_LIMIT;
		req.limit = cpu_to_le32(attr->srq_limit);
	}
	if (mask & IB_SRQ_MAX_WR)
		return fakernic_resize_srq(dev, srq, &req, attr->max_wr,
					   udata);
	ret = fakernic_check_no_ureq(dev, udata);
	if (ret)
		return ret;
	return mask ? fakernic_cmd_modify_srq(dev, &req) : 0;
}

int fakernic_query_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr)
{
	struct fakernic_dev *dev = to_fakernic_dev(ibsrq->device);
	struct fakernic_srq *srq = to_fakernic_srq(ibsrq);
	struct fakernic_query_srq_resp resp;
	int ret;

	ret = fakernic_cmd_query_srq(dev, srq->hw.srqn, &resp);
	if (ret)
		return ret;
	memset(attr, 0, sizeof(*attr));
	attr->max_wr = le32_to_cpu(resp.depth);
	attr->max_sge = srq->max_sge;
	attr->srq_limit = le32_to_cpu(resp.limit);
	return 0;
}

int fakernic_destroy_srq(struct ib_srq *ibsrq, struct ib_udata *udata)
{
	struct fakernic_dev *dev = to_fakernic_dev(ibsrq->device);
	struct fakernic_srq *srq = to_fakernic_srq(ibsrq);

	fakernic_srq_hw_drop(dev, &srq->hw);
	fakernic_queue_free(dev, &srq->queue);
	kvfree(srq->tag);
	kvfree(srq->free);
	kvfree(srq->wr_id);
	ib_umem_release(srq->umem);
	return 0;
}

/* Advances the turn: the slot is posted, or completed. */
static void fakernic_srq_advance(struct fakernic_srq *srq, u32 slot)
{
	srq->tag[slot] += srq->queue.mask + 1;
}

/* A posted slot has an odd turn. */
static bool fakernic_srq_is_posted(const struct fakernic_srq *srq, u32 tag)
{
	return tag & (srq->queue.mask + 1) &&
	       tag == srq->tag[tag & srq->queue.mask];
}

static int fakernic_post_srq_one(struct fakernic_srq *srq,
				 const struct ib_recv_wr *wr)
{
	u16 slot;

	if (wr->num_sge > srq->max_sge)
		return -EINVAL;
	if (!srq->free_count)
		return -ENOMEM;
	slot = srq->free[--srq->free_count];
	srq->wr_id[slot] = wr->wr_id;
	fakernic_srq_advance(srq, slot);
	fakernic_rq_write(&srq->queue, srq->pi, srq->tag[slot], wr->sg_list,
			  wr->num_sge);
	srq->pi++;
	return 0;
}

int fakernic_post_srq_recv(struct ib_srq *ibsrq, const struct ib_recv_wr *wr,
			   const struct ib_recv_wr **bad_wr)
{
	struct fakernic_srq *srq = to_fakernic_srq(ibsrq);
	unsigned long flags;
	u32 start;
	int ret = 0;

	spin_lock_irqsave(&srq->lock, flags);
	start = srq->pi;
	for (; wr; wr = wr->next) {
		ret = fakernic_post_srq_one(srq, wr);
		if (ret) {
			*bad_wr = wr;
			break;
		}
	}
	if (srq->pi != start)
		fakernic_queue_publish(&srq->queue, srq->pi);
	spin_unlock_irqrestore(&srq->lock, flags);
	return ret;
}

bool fakernic_srq_complete(struct fakernic_srq *srq, u32 tag, u64 *wr_id)
{
	u32 slot = tag & srq->queue.mask;
	unsigned long flags;
	bool posted;

	spin_lock_irqsave(&srq->lock, flags);
	posted = fakernic_srq_is_posted(srq, tag);
	if (posted) {
		*wr_id = srq->wr_id[slot];
		fakernic_srq_advance(srq, slot);
		srq->free[srq->free_count++] = slot;
	}
	spin_unlock_irqrestore(&srq->lock, flags);
	return posted;
}
