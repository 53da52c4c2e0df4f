// SPDX-License-Identifier: GPL-2.0-only
/*
 * The device's view of an object, which "rdma -d resource show" adds to what
 * the core knows.
 */
#include <rdma/rdma_netlink.h>
#include <rdma/restrack.h>
#include <fakernic/mr.h>
#include "../core/device.h"
#include "../core/dump.h"
#include "../core/eq.h"
#include "cq.h"
#include "mr.h"
#include "qp.h"
#include "restrack.h"
#include "srq.h"

/*
 * Ends the driver's nested attributes, or cancels them if the message is full.
 */
static int fakernic_end_res(struct sk_buff *msg, struct nlattr *nest,
			    bool full)
{
	if (full) {
		nla_nest_cancel(msg, nest);
		return -EMSGSIZE;
	}
	nla_nest_end(msg, nest);
	return 0;
}

int fakernic_fill_res_qp(struct sk_buff *msg, struct ib_qp *ibqp)
{
	struct fakernic_qp *qp = to_fakernic_qp(ibqp);
	struct nlattr *nest = nla_nest_start(msg, RDMA_NLDEV_ATTR_DRIVER);
	bool full;

	if (!nest)
		return -EMSGSIZE;
	full = rdma_nl_put_driver_u32(msg, "max_send_wr",
				      qp->cap.max_send_wr) ||
	       rdma_nl_put_driver_u32(msg, "max_recv_wr",
				      qp->cap.max_recv_wr) ||
	       rdma_nl_put_driver_u32(msg, "max_inline",
				      qp->cap.max_inline_data);
	if (!full && qp->sq.queue.ring)
		full = rdma_nl_put_driver_u32(msg, "sq_pi",
					      READ_ONCE(qp->sq.pi)) ||
		       rdma_nl_put_driver_u32(msg, "sq_ci",
					      READ_ONCE(qp->sq.ci));
	if (!full && qp->rq.queue.ring)
		full = rdma_nl_put_driver_u32(msg, "rq_pi",
					      READ_ONCE(qp->rq.pi)) ||
		       rdma_nl_put_driver_u32(msg, "rq_ci",
					      READ_ONCE(qp->rq.ci));
	return fakernic_end_res(msg, nest, full);
}

int fakernic_fill_res_cq(struct sk_buff *msg, struct ib_cq *ibcq)
{
	struct fakernic_cq *cq = to_fakernic_cq(ibcq);
	struct nlattr *nest = nla_nest_start(msg, RDMA_NLDEV_ATTR_DRIVER);
	bool full;

	if (!nest)
		return -EMSGSIZE;
	full = rdma_nl_put_driver_u32_hex(msg, "cqn", cq->hw.cqn) ||
	       rdma_nl_put_driver_u32(msg, "vector", cq->hw.eq->vector) ||
	       rdma_nl_put_driver_u32(msg, "moderation_count", cq->count) ||
	       rdma_nl_put_driver_u32(msg, "moderation_us", cq->period_us);
	if (!full && cq->hw.queue.ring)
		full = rdma_nl_put_driver_u32(msg, "ci", READ_ONCE(cq->hw.ci));
	return fakernic_end_res(msg, nest, full);
}

static const char *fakernic_mr_type_name(u8 type)
{
	switch (type) {
	case FAKERNIC_MR_MEMORY:
		return "memory";
	case FAKERNIC_MR_DMA:
		return "dma";
	case FAKERNIC_MR_FAST_REG:
		return "fast_reg";
	case FAKERNIC_MR_DM:
		return "device_memory";
	case FAKERNIC_MR_ON_DEMAND:
		return "on_demand";
	default:
		return "other";
	}
}

int fakernic_fill_res_mr(struct sk_buff *msg, struct ib_mr *ibmr)
{
	struct fakernic_mr *mr = to_fakernic_mr(ibmr);
	struct nlattr *nest = nla_nest_start(msg, RDMA_NLDEV_ATTR_DRIVER);
	bool full;

	if (!nest)
		return -EMSGSIZE;
	full = rdma_nl_put_driver_string(msg, "type",
					 fakernic_mr_type_name(mr->type)) ||
	       rdma_nl_put_driver_u32_hex(msg, "access", mr->access);
	if (!full && (mr->type == FAKERNIC_MR_MEMORY ||
		      mr->type == FAKERNIC_MR_ON_DEMAND))
		full = rdma_nl_put_driver_u64_hex(msg, "iova", ibmr->iova);
	if (!full && mr->type == FAKERNIC_MR_FAST_REG)
		full = rdma_nl_put_driver_u32(msg, "max_pages", mr->max_pages);
	return fakernic_end_res(msg, nest, full);
}

int fakernic_fill_res_srq(struct sk_buff *msg, struct ib_srq *ibsrq)
{
	struct fakernic_srq *srq = to_fakernic_srq(ibsrq);
	struct nlattr *nest = nla_nest_start(msg, RDMA_NLDEV_ATTR_DRIVER);
	bool full;

	if (!nest)
		return -EMSGSIZE;
	full = rdma_nl_put_driver_u32_hex(msg, "srqn", srq->hw.srqn) ||
	       rdma_nl_put_driver_u32(msg, "max_sge", srq->max_sge);
	if (!full && srq->queue.ring)
		full = rdma_nl_put_driver_u32(msg, "pi", READ_ONCE(srq->pi)) ||
		       rdma_nl_put_driver_u32(msg, "free",
					      READ_ONCE(srq->free_count));
	return fakernic_end_res(msg, nest, full);
}

static int fakernic_fill_raw(struct sk_buff *msg, struct ib_device *ibdev,
			     u8 kind, u32 id)
{
	char *text = fakernic_dump_text(to_fakernic_dev(ibdev), kind, id);
	int ret;

	if (IS_ERR(text))
		return PTR_ERR(text);
	ret = nla_put(msg, RDMA_NLDEV_ATTR_RES_RAW, strlen(text), text);
	kvfree(text);
	return ret;
}

int fakernic_fill_raw_qp(struct sk_buff *msg, struct ib_qp *ibqp)
{
	return fakernic_fill_raw(msg, ibqp->device, FAKERNIC_DUMP_QP,
				 to_fakernic_qp(ibqp)->hw.qpn);
}

int fakernic_fill_raw_cq(struct sk_buff *msg, struct ib_cq *ibcq)
{
	return fakernic_fill_raw(msg, ibcq->device, FAKERNIC_DUMP_CQ,
				 to_fakernic_cq(ibcq)->hw.cqn);
}

int fakernic_fill_raw_mr(struct sk_buff *msg, struct ib_mr *ibmr)
{
	return fakernic_fill_raw(msg, ibmr->device, FAKERNIC_DUMP_KEY,
				 ibmr->lkey);
}

int fakernic_fill_raw_srq(struct sk_buff *msg, struct ib_srq *ibsrq)
{
	return fakernic_fill_raw(msg, ibsrq->device, FAKERNIC_DUMP_SRQ,
				 to_fakernic_srq(ibsrq)->hw.srqn);
}
