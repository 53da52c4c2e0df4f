// SPDX-License-Identifier: GPL-2.0-only
/*
 * Flow steering: rules that direct Ethernet frames to raw-packet QPs. The core
 * has checked CAP_NET_RAW and passes a list of specifications, one per header.
 * The device expects one structure with the fields of all headers.
 */
#include <linux/etherdevice.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <fakernic/cmdq.h>
#include "../core/cmd.h"
#include "../core/device.h"
#include "flow.h"
#include "udata.h"

struct fakernic_flow {
	struct ib_flow ibflow;
	u32 id;
};

static __le16 fakernic_flow_number(__be16 value)
{
	return cpu_to_le16(be16_to_cpu(value));
}

static void fakernic_flow_eth(struct fakernic_flow_match *to,
			      const struct ib_flow_eth_filter *from)
{
	ether_addr_copy(to->dmac, from->dst_mac);
	ether_addr_copy(to->smac, from->src_mac);
	to->ethertype = fakernic_flow_number(from->ether_type);
	to->vlan = fakernic_flow_number(from->vlan_tag);
}

static void fakernic_flow_ipv4(struct fakernic_flow_match *to,
			       const struct ib_flow_ipv4_filter *from)
{
	memcpy(to->src_ip + 12, &from->src_ip, sizeof(from->src_ip));
	memcpy(to->dst_ip + 12, &from->dst_ip, sizeof(from->dst_ip));
	to->protocol = from->proto;
	to->tos = from->tos;
	to->ttl = from->ttl;
}

static void fakernic_flow_ipv6(struct fakernic_flow_match *to,
			       const struct ib_flow_ipv6_filter *from)
{
	memcpy(to->src_ip, from->src_ip, sizeof(to->src_ip));
	memcpy(to->dst_ip, from->dst_ip, sizeof(to->dst_ip));
	to->flow_label = cpu_to_le32(be32_to_cpu(from->flow_label));
	to->protocol = from->next_hdr;
	to->tos = from->traffic_class;
	to->ttl = from->hop_limit;
}

static void fakernic_flow_ports(struct fakernic_flow_match *to,
				const struct ib_flow_tcp_udp_filter *from)
{
	to->src_port = fakernic_flow_number(from->src_port);
	to->dst_port = fakernic_flow_number(from->dst_port);
}

/* Adds one specification. Returns its FAKERNIC_FLOW_* layers or an error. */
static int fakernic_flow_spec(struct fakernic_create_flow_req *req,
			      const union ib_flow_spec *spec)
{
	switch (spec->type) {
	case IB_FLOW_SPEC_ETH:
		fakernic_flow_eth(&req->value, &spec->eth.val);
		fakernic_flow_eth(&req->mask, &spec->eth.mask);
		return spec->eth.mask.vlan_tag ? FAKERNIC_FLOW_VLAN : 0;
	case IB_FLOW_SPEC_IPV4:
		/* The device cannot match the fragment flags. */
		if (spec->ipv4.mask.flags)
			return -EOPNOTSUPP;
		fakernic_flow_ipv4(&req->value, &spec->ipv4.val);
		fakernic_flow_ipv4(&req->mask, &spec->ipv4.mask);
		return FAKERNIC_FLOW_IPV4;
	case IB_FLOW_SPEC_IPV6:
		fakernic_flow_ipv6(&req->value, &spec->ipv6.val);
		fakernic_flow_ipv6(&req->mask, &spec->ipv6.mask);
		return FAKERNIC_FLOW_IPV6;
	case IB_FLOW_SPEC_TCP:
	case IB_FLOW_SPEC_UDP:
		fakernic_flow_ports(&req->value, &spec->tcp_udp.val);
		fakernic_flow_ports(&req->mask, &spec->tcp_udp.mask);
		return spec->type == IB_FLOW_SPEC_TCP ? FAKERNIC_FLOW_TCP :
							FAKERNIC_FLOW_UDP;
	case IB_FLOW_SPEC_ACTION_DROP:
		req->flags |= FAKERNIC_FLOW_DROP;
		req->qpn = 0;
		return 0;
	default:
		return -EOPNOTSUPP;
	}
}

/* The device refuses value bits outside the mask. */
static void fakernic_flow_apply_mask(struct fakernic_create_flow_req *req)
{
	const u8 *mask = (const u8 *)&req->mask;
	u8 *value = (u8 *)&req->value;
	u32 i;

	for (i = 0; i < sizeof(req->value); i++)
		value[i] &= mask[i];
}

/* Converts the specifications, which follow each other and vary in size. */
static int fakernic_flow_specs(struct fakernic_dev *dev,
			       struct fakernic_create_flow_req *req,
			       const struct ib_flow_attr *attr)
{
	const void *spec = attr->flows;
	u32 layers = 0, seen = 0;
	int i, ret;

	for (i = 0; i < attr->num_of_specs; i++) {
		const union ib_flow_spec *one = spec;
		/* Layers are 0x20, 0x30, 0x40; actions have higher values. */
		u32 layer = BIT(one->type >> 4 & 0x1f);

		ret = fakernic_flow_spec(req, one);
		if (ret >= 0 && seen & layer)
			ret = -EINVAL;
		if (ret < 0) {
			fakernic_dbg(dev,
				     "create flow: specification %d of type %#x\n",
				     i, one->type);
			return ret;
		}
		seen |= layer;
		layers |= ret;
		spec += one->size;
	}
	req->layers = cpu_to_le32(layers);
	fakernic_flow_apply_mask(req);
	return 0;
}

struct ib_flow *fakernic_create_flow(struct ib_qp *ibqp,
				     struct ib_flow_attr *attr,
				     struct ib_udata *udata)
{
	struct fakernic_dev *dev = to_fakernic_dev(ibqp->device);
	struct fakernic_create_flow_req req = {
		.qpn = cpu_to_le32(ibqp->qp_num),
		.type = attr->type,
	};
	struct fakernic_flow *flow;
	int ret;

	BUILD_BUG_ON((int)FAKERNIC_FLOW_SNIFFER != (int)IB_FLOW_ATTR_SNIFFER);

	ret = fakernic_check_no_ureq(dev, udata);
	if (ret)
		return ERR_PTR(ret);
	if (attr->type > IB_FLOW_ATTR_SNIFFER) {
		fakernic_dbg(dev, "create flow: type %#x\n", attr->type);
		return ERR_PTR(-EINVAL);
	}
	if (attr->flags & ~IB_FLOW_ATTR_FLAGS_DONT_TRAP) {
		fakernic_dbg(dev, "create flow: flags %#x\n", attr->flags);
		return ERR_PTR(-EOPNOTSUPP);
	}
	if (attr->type == IB_FLOW_ATTR_NORMAL)
		req.priority = cpu_to_le16(attr->priority);
	if (attr->flags & IB_FLOW_ATTR_FLAGS_DONT_TRAP)
		req.flags |= FAKERNIC_FLOW_DONT_TRAP;
	ret = fakernic_flow_specs(dev, &req, attr);
	if (ret)
		return ERR_PTR(ret);
	flow = kzalloc(sizeof(*flow), GFP_KERNEL);
	if (!flow)
		return ERR_PTR(-ENOMEM);
	ret = fakernic_cmd_create_flow(dev, &req, &flow->id);
	if (ret) {
		kfree(flow);
		return ERR_PTR(ret);
	}
	return &flow->ibflow;
}

int fakernic_destroy_flow(struct ib_flow *ibflow)
{
	struct fakernic_flow *flow =
		container_of(ibflow, struct fakernic_flow, ibflow);

	fakernic_cmd_drop(to_fakernic_dev(ibflow->device),
			  FAKERNIC_CMD_DESTROY_FLOW, flow->id);
	kfree(flow);
	return 0;
}
