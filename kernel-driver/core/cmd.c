// SPDX-License-Identifier: GPL-2.0-only
/*
 * One function per command: they take structures of the hardware interface and
 * return plain values. Functions that free an object succeed on a dead device,
 * which has lost all its objects, so that the driver can clean up.
 */
#include <linux/string.h>
#include <fakernic/cmdq.h>
#include <fakernic/qp.h>
#include <fakernic/vport.h>
#include <fakernic/wq.h>
#include "cmd.h"
#include "cmdq.h"
#include "device.h"
#include "explain.h"
#include "gid.h"

int fakernic_cmd_ping(struct fakernic_dev *dev)
{
	return fakernic_cmdq_query(dev, FAKERNIC_CMD_NOP, NULL, 0, NULL, 0);
}

int fakernic_cmd_nop(struct fakernic_dev *dev)
{
	u8 sent[FAKERNIC_CMD_PAYLOAD], received[FAKERNIC_CMD_PAYLOAD];
	unsigned int i;
	int ret;

	for (i = 0; i < sizeof(sent); i++)
		sent[i] = i ^ 0xa5;
	ret = fakernic_cmdq_exec(dev, FAKERNIC_CMD_NOP, sent, sizeof(sent),
				 received, sizeof(received));
	if (ret)
		return ret;
	return memcmp(sent, received, sizeof(sent)) ? -EIO : 0;
}

int fakernic_cmd_query_device(struct fakernic_dev *dev,
			      struct fakernic_query_device_resp *resp)
{
	return fakernic_cmdq_exec(dev, FAKERNIC_CMD_QUERY_DEVICE, NULL, 0,
				  resp, sizeof(*resp));
}

int fakernic_cmd_query_port(struct fakernic_dev *dev,
			    struct fakernic_query_port_resp *resp)
{
	return fakernic_cmdq_exec(dev, FAKERNIC_CMD_QUERY_PORT, NULL, 0,
				  resp, sizeof(*resp));
}

int fakernic_cmd_query_port_timed(struct fakernic_dev *dev,
				  struct fakernic_query_port_resp *resp)
{
	return fakernic_cmdq_query(dev, FAKERNIC_CMD_QUERY_PORT, NULL, 0, resp,
				   sizeof(*resp));
}

int fakernic_cmd_set_port(struct fakernic_dev *dev,
			  const struct fakernic_set_port_req *req)
{
	return fakernic_cmdq_exec(dev, FAKERNIC_CMD_SET_PORT, req,
				  sizeof(*req), NULL, 0);
}

int fakernic_cmd_query_stats(struct fakernic_dev *dev, u32 counter_id,
			     dma_addr_t dma, u32 length, bool timed)
{
	/* QUERY_STATS requires 0 in the id field. */
	struct fakernic_query_counter_req req = {
		.address = cpu_to_le64(dma),
		.length = cpu_to_le32(length),
		.id = cpu_to_le32(counter_id),
	};
	u16 opcode = counter_id ? FAKERNIC_CMD_QUERY_COUNTER :
				  FAKERNIC_CMD_QUERY_STATS;
	struct fakernic_query_stats_resp resp = {};
	int ret;

	BUILD_BUG_ON(sizeof(req) != sizeof(struct fakernic_query_stats_req));
	BUILD_BUG_ON(offsetof(typeof(req), id) !=
		     offsetof(struct fakernic_query_stats_req, rsvd));

	if (timed)
		ret = fakernic_cmdq_query(dev, opcode, &req, sizeof(req),
					  &resp, sizeof(resp));
	else
		ret = fakernic_cmdq_exec(dev, opcode, &req, sizeof(req),
					 &resp, sizeof(resp));
	return ret ? ret : min_t(u32, le32_to_cpu(resp.count), INT_MAX);
}

int fakernic_cmd_fault(struct fakernic_dev *dev, const char *rules)
{
	struct fakernic_fault_req req = {};

	if (strlen(rules) > sizeof(req.rules))
		return -EINVAL;
	memcpy(req.rules, rules, strlen(rules));
	return fakernic_cmdq_exec(dev, FAKERNIC_CMD_FAULT, &req, sizeof(req),
				  NULL, 0);
}

int fakernic_cmd_dump(struct fakernic_dev *dev,
		      const struct fakernic_dump_req *req, u32 *size)
{
	struct fakernic_dump_resp resp = {};
	int ret;

	ret = fakernic_cmdq_exec(dev, FAKERNIC_CMD_DUMP, req, sizeof(*req),
				 &resp, sizeof(resp));
	*size = le32_to_cpu(resp.size);
	return ret ? ret : min(le32_to_cpu(resp.written),
			       le32_to_cpu(req->length));
}

int fakernic_cmd_set_qp_counter(struct fakernic_dev *dev, u32 qpn, u32 id)
{
	struct fakernic_set_qp_counter_req req = {
		.qpn = cpu_to_le32(qpn),
		.id = cpu_to_le32(id),
	};

	return fakernic_cmdq_exec(dev, FAKERNIC_CMD_SET_QP_COUNTER, &req,
				  sizeof(req), NULL, 0);
}

int fakernic_cmd_set_gid(struct fakernic_dev *dev, u16 index,
			 const struct fakernic_gid *gid)
{
	struct fakernic_set_gid_req req = {
		.index = cpu_to_le16(index),
		.type = gid->type,
	};

	if (gid->type != FAKERNIC_GID_NONE) {
		req.vlan = cpu_to_le16(gid->vlan);
		memcpy(req.mac, gid->mac, sizeof(req.mac));
		memcpy(req.gid, gid->gid, sizeof(req.gid));
	}
	return fakernic_cmdq_exec(dev, FAKERNIC_CMD_SET_GID, &req,
				  sizeof(req), NULL, 0);
}

int fakernic_cmd_set_vport(struct fakernic_dev *dev,
			   const struct fakernic_set_vport_req *req)
{
	return fakernic_cmdq_exec(dev, FAKERNIC_CMD_SET_VPORT, req,
				  sizeof(*req), NULL, 0);
}

int fakernic_cmd_vport_stats(struct fakernic_dev *dev,
			     const struct fakernic_query_vport_stats_req *req)
{
	struct fakernic_query_vport_stats_resp resp = {};

	return fakernic_cmdq_query(dev, FAKERNIC_CMD_QUERY_VPORT_STATS, req,
				   sizeof(*req), &resp, sizeof(resp));
}

/* Executes a command whose response is the number of the new object. */
static int fakernic_cmd_make(struct fakernic_dev *dev, u16 opcode,
			     const void *req, u32 req_size, u32 *id)
{
	struct fakernic_id resp = {};
	int ret;

	ret = fakernic_cmdq_exec(dev, opcode, req, req_size, &resp,
				 sizeof(resp));
	if (!ret)
		*id = le32_to_cpu(resp.id);
	return ret;
}

int fakernic_cmd_create_eq(struct fakernic_dev *dev,
			   const struct fakernic_create_eq_req *req, u32 *eqn)
{
	return fakernic_cmd_make(dev, FAKERNIC_CMD_CREATE_EQ, req,
				 sizeof(*req), eqn);
}

int fakernic_cmd_create_cq(struct fakernic_dev *dev,
			   const struct fakernic_create_cq_req *req, u32 *cqn)
{
	return fakernic_cmd_make(dev, FAKERNIC_CMD_CREATE_CQ, req,
				 sizeof(*req), cqn);
}

int fakernic_cmd_resize_cq(struct fakernic_dev *dev,
			   const struct fakernic_resize_cq_req *req)
{
	return fakernic_cmdq_exec(dev, FAKERNIC_CMD_RESIZE_CQ, req,
				  sizeof(*req), NULL, 0);
}

int fakernic_cmd_modify_cq(struct fakernic_dev *dev, u32 cqn, u16 count,
			   u16 period_us)
{
	struct fakernic_modify_cq_req req = {
		.cqn = cpu_to_le32(cqn),
		.count = cpu_to_le16(count),
		.period_us = cpu_to_le16(period_us),
	};

	return fakernic_cmdq_exec(dev, FAKERNIC_CMD_MODIFY_CQ, &req,
				  sizeof(req), NULL, 0);
}

int fakernic_cmd_create_mr(struct fakernic_dev *dev,
			   const struct fakernic_create_mr_req *req, u32 *key)
{
	return fakernic_cmd_make(dev, FAKERNIC_CMD_CREATE_MR, req,
				 sizeof(*req), key);
}

int fakernic_cmd_rereg_mr(struct fakernic_dev *dev,
			  const struct fakernic_rereg_mr_req *req, u32 *key)
{
	return fakernic_cmd_make(dev, FAKERNIC_CMD_REREG_MR, req,
				 sizeof(*req), key);
}

int fakernic_cmd_page_requests(struct fakernic_dev *dev,
			       struct fakernic_query_page_requests_resp *resp)
{
	return fakernic_cmdq_exec(dev, FAKERNIC_CMD_QUERY_PAGE_REQUESTS, NULL,
				  0, resp, sizeof(*resp));
}

int fakernic_cmd_update_pages(struct fakernic_dev *dev,
			      const struct fakernic_update_pages_req *req)
{
	return fakernic_cmdq_exec(dev, FAKERNIC_CMD_UPDATE_PAGES, req,
				  sizeof(*req), NULL, 0);
}

int fakernic_cmd_create_mw(struct fakernic_dev *dev, u32 pdn, u8 type, u8 tag,
			   u32 *key)
{
	struct fakernic_create_mw_req req = {
		.pdn = cpu_to_le32(pdn),
		.type = type,
		.tag = tag,
	};

	return fakernic_cmd_make(dev, FAKERNIC_CMD_CREATE_MW, &req,
				 sizeof(req), key);
}

int fakernic_cmd_create_qp(struct fakernic_dev *dev,
			   const struct fakernic_create_qp_req *req, u32 *qpn)
{
	return fakernic_cmd_make(dev, FAKERNIC_CMD_CREATE_QP, req,
				 sizeof(*req), qpn);
}

int fakernic_cmd_modify_qp(struct fakernic_dev *dev,
			   const struct fakernic_modify_qp_req *req)
{
	return fakernic_cmdq_exec(dev, FAKERNIC_CMD_MODIFY_QP, req,
				  sizeof(*req), NULL, 0);
}

int fakernic_cmd_query_qp(struct fakernic_dev *dev, u32 qpn,
			  struct fakernic_qp_attr *attr)
{
	struct fakernic_id req = { .id = cpu_to_le32(qpn) };

	return fakernic_cmdq_exec(dev, FAKERNIC_CMD_QUERY_QP, &req,
				  sizeof(req), attr, sizeof(*attr));
}

int fakernic_cmd_create_srq(struct fakernic_dev *dev,
			    const struct fakernic_create_srq_req *req,
			    u32 *srqn)
{
	return fakernic_cmd_make(dev, FAKERNIC_CMD_CREATE_SRQ, req,
				 sizeof(*req), srqn);
}

int fakernic_cmd_modify_srq(struct fakernic_dev *dev,
			    const struct fakernic_modify_srq_req *req)
{
	return fakernic_cmdq_exec(dev, FAKERNIC_CMD_MODIFY_SRQ, req,
				  sizeof(*req), NULL, 0);
}

int fakernic_cmd_query_srq(struct fakernic_dev *dev, u32 srqn,
			   struct fakernic_query_srq_resp *resp)
{
	struct fakernic_id req = { .id = cpu_to_le32(srqn) };

	return fakernic_cmdq_exec(dev, FAKERNIC_CMD_QUERY_SRQ, &req,
				  sizeof(req), resp, sizeof(*resp));
}

int fakernic_cmd_mcast(struct fakernic_dev *dev, u16 opcode,
		       const union ib_gid *gid, u32 qpn)
{
	struct fakernic_mcast_req req = { .qpn = cpu_to_le32(qpn) };
	int ret;

	memcpy(req.gid, gid->raw, sizeof(req.gid));
	ret = fakernic_cmdq_exec(dev, opcode, &req, sizeof(req), NULL, 0);
	if (opcode == FAKERNIC_CMD_DETACH_MCAST && READ_ONCE(dev->dead))
		return 0;
	return ret;
}

int fakernic_cmd_create_flow(struct fakernic_dev *dev,
			     const struct fakernic_create_flow_req *req,
			     u32 *id)
{
	return fakernic_cmd_make(dev, FAKERNIC_CMD_CREATE_FLOW, req,
				 sizeof(*req), id);
}

int fakernic_cmd_create_wq(struct fakernic_dev *dev,
			   const struct fakernic_create_wq_req *req, u32 *wqn)
{
	return fakernic_cmd_make(dev, FAKERNIC_CMD_CREATE_WQ, req,
				 sizeof(*req), wqn);
}

int fakernic_cmd_modify_wq(struct fakernic_dev *dev, u32 wqn, u8 state)
{
	struct fakernic_modify_wq_req req = {
		.wqn = cpu_to_le32(wqn),
		.state = state,
	};

	return fakernic_cmdq_exec(dev, FAKERNIC_CMD_MODIFY_WQ, &req,
				  sizeof(req), NULL, 0);
}

int fakernic_cmd_create_ind_table(struct fakernic_dev *dev, dma_addr_t dma,
				  u8 log_size, u32 *id)
{
	struct fakernic_create_ind_table_req req = {
		.address = cpu_to_le64(dma),
		.log_size = log_size,
	};

	return fakernic_cmd_make(dev, FAKERNIC_CMD_CREATE_IND_TABLE, &req,
				 sizeof(req), id);
}

int fakernic_cmd_create_rss_qp(struct fakernic_dev *dev,
			       const struct fakernic_create_rss_qp_req *req,
			       u32 *qpn)
{
	return fakernic_cmd_make(dev, FAKERNIC_CMD_CREATE_RSS_QP, req,
				 sizeof(*req), qpn);
}

int fakernic_cmd_alloc(struct fakernic_dev *dev, u16 opcode, u32 *id)
{
	return fakernic_cmd_make(dev, opcode, NULL, 0, id);
}

int fakernic_cmd_free(struct fakernic_dev *dev, u16 opcode, u32 id)
{
	struct fakernic_id req = { .id = cpu_to_le32(id) };
	int ret;

	ret = fakernic_cmdq_exec(dev, opcode, &req, sizeof(req), NULL, 0);
	if (!ret || READ_ONCE(dev->dead))
		return 0;
	if (ret == -EBUSY)
		return ret;
	dev_err(&dev->pdev->dev,
		"%s of object %#x failed: %d; resetting the device, which could still write to freed memory\n",
		fakernic_cmd_name(opcode), id, ret);
	fakernic_cmdq_kill(dev, FAKERNIC_DEATH_NOT_RELEASED);
	return 0;
}

void fakernic_cmd_drop(struct fakernic_dev *dev, u16 opcode, u32 id)
{
	if (fakernic_cmd_free(dev, opcode, id))
		fakernic_cmdq_kill(dev, FAKERNIC_DEATH_NOT_RELEASED);
}
