// SPDX-License-Identifier: GPL-2.0-only
/*
 * The ib_device: its attributes and capabilities, its port, its events. The
 * verbs of each kind of object are in a separate file.
 */
#include <linux/rcupdate.h>
#include <linux/string.h>
#include <net/net_namespace.h>
#include <rdma/ib_addr.h>
#include <rdma/ib_cache.h>
#include <rdma/ib_mad.h>
#include <rdma/uverbs_ioctl.h>
#include <fakernic/base.h>
#include <fakernic/cmdq.h>
#include <fakernic/regs.h>
#include <fakernic/wq.h>
#include <rdma/fakernic-abi.h>
#include "../compat/compat.h"
#include "../compat/ops.h"
#include "../core/cmd.h"
#include "../core/device.h"
#include "../core/gid.h"
#include "../core/port.h"
#include "../core/rq.h"
#include "ah.h"
#include "counter.h"
#include "cq.h"
#include "dm.h"
#include "flow.h"
#include "ibdev.h"
#include "mcast.h"
#include "mmap.h"
#include "mr.h"
#include "mw.h"
#include "odp.h"
#include "pd.h"
#include "pma.h"
#include "qp.h"
#include "restrack.h"
#include "sq.h"
#include "srq.h"
#include "ucontext.h"
#include "udata.h"
#include "wq.h"

/*
 * Objects that are not available to applications. The Ethernet port uses a QP,
 * a CQ, a PD and a key. The core's management (MAD) uses a CQ, a PD and a key;
 * its QP is not counted in the limit.
 */
enum {
	FAKERNIC_OWN_QPS = 1,
	FAKERNIC_OWN_CQS = 2,
	FAKERNIC_OWN_PDS = 2,
	FAKERNIC_OWN_KEYS = 2,
};

/* The device's limits are unsigned, those of the core are int. */
static int fakernic_limit(__le32 value)
{
	return min_t(u32, le32_to_cpu(value), INT_MAX);
}

static int fakernic_limit_minus(__le32 value, int own)
{
	return max(fakernic_limit(value) - own, 0);
}

static void fakernic_device_flags(struct fakernic_dev *dev,
				  struct ib_device_attr *attr)
{
	u64 features = dev->features;

	attr->device_cap_flags = IB_DEVICE_CURR_QP_STATE_MOD |
				 IB_DEVICE_RC_RNR_NAK_GEN |
				 IB_DEVICE_SYS_IMAGE_GUID |
				 IB_DEVICE_PORT_ACTIVE_EVENT;
	if (features & FAKERNIC_FEATURE_FAST_REG)
		attr->device_cap_flags |= IB_DEVICE_MEM_MGT_EXTENSIONS;
	if (features & FAKERNIC_FEATURE_MW)
		attr->device_cap_flags |= IB_DEVICE_MEM_WINDOW |
					  IB_DEVICE_MEM_WINDOW_TYPE_2B;
	if (features & FAKERNIC_FEATURE_XRC)
		attr->device_cap_flags |= IB_DEVICE_XRC;
	if (features & FAKERNIC_FEATURE_FLOW)
		attr->device_cap_flags |= IB_DEVICE_MANAGED_FLOW_STEERING;
	if (features & FAKERNIC_FEATURE_RESIZE_SRQ)
		attr->device_cap_flags |= IB_DEVICE_SRQ_RESIZE;
	if (features & FAKERNIC_FEATURE_FLUSH)
		attr->device_cap_flags |= FAKERNIC_DEVICE_FLUSH;
	if (features & FAKERNIC_FEATURE_ATOMIC_WRITE)
		attr->device_cap_flags |= IB_DEVICE_ATOMIC_WRITE;
	if (features & FAKERNIC_FEATURE_ATOMIC)
		attr->atomic_cap = IB_ATOMIC_GLOB;
	if (features & FAKERNIC_FEATURE_CSUM) {
		attr->device_cap_flags |= IB_DEVICE_RAW_IP_CSUM;
		attr->raw_packet_caps |= IB_RAW_PACKET_CAP_IP_CSUM;
	}
	if (features & FAKERNIC_FEATURE_ATOMIC_MASKED)
		attr->masked_atomic_cap = IB_ATOMIC_GLOB;
}

/*
 * Operations that each transport supports on absent pages. UD and UC have no
 * retransmission, so they only support sends.
 */
static void fakernic_odp_caps(struct fakernic_dev *dev,
			      struct ib_odp_caps *caps)
{
	u32 all = IB_ODP_SUPPORT_SEND | IB_ODP_SUPPORT_RECV |
		  IB_ODP_SUPPORT_WRITE | IB_ODP_SUPPORT_READ;

	if (dev->features & FAKERNIC_FEATURE_ATOMIC)
		all |= IB_ODP_SUPPORT_ATOMIC;
	if (dev->features & FAKERNIC_FEATURE_SRQ)
		all |= IB_ODP_SUPPORT_SRQ_RECV;
	if (dev->features & FAKERNIC_FEATURE_ATOMIC_WRITE)
		all |= FAKERNIC_ODP_SUPPORT_ATOMIC_WRITE;
	caps->general_caps = IB_ODP_SUPPORT | IB_ODP_SUPPORT_IMPLICIT;
	caps->per_transport_caps.rc_odp_caps = all;
	caps->per_transport_caps.ud_odp_caps = IB_ODP_SUPPORT_SEND;
	if (dev->features & FAKERNIC_FEATURE_UC)
		caps->per_transport_caps.uc_odp_caps = IB_ODP_SUPPORT_SEND;
	if (dev->features & FAKERNIC_FEATURE_XRC)
		caps->per_transport_caps.xrc_odp_caps = all;
}

static void fakernic_fill_rss_caps(struct fakernic_dev *dev,
				   struct ib_device_attr *attr)
{
	attr->rss_caps.supported_qpts = BIT(IB_QPT_RAW_PACKET);
	attr->rss_caps.max_rwq_indirection_tables =
		le32_to_cpu(dev->caps.max_ind_table);
	attr->rss_caps.max_rwq_indirection_table_size =
		le32_to_cpu(dev->caps.max_ind_table_size);
	attr->max_wq_type_rq = attr->max_qp;
}

static void fakernic_fill_device_attr(struct fakernic_dev *dev,
				      struct ib_device_attr *attr)
{
	const struct fakernic_query_device_resp *caps = &dev->caps;

	memset(attr, 0, sizeof(*attr));
	fakernic_device_flags(dev, attr);
	attr->fw_ver = dev->fw_version;
	attr->sys_image_guid = dev->ibdev->node_guid;
	attr->vendor_id = dev->pdev->vendor;
	attr->vendor_part_id = dev->pdev->device;
	attr->hw_ver = dev->pdev->revision;
	attr->max_mr_size = le64_to_cpu(caps->max_mr_size);
	attr->page_size_cap = le64_to_cpu(caps->page_sizes);
	attr->max_qp = fakernic_limit_minus(caps->max_qp, FAKERNIC_OWN_QPS);
	attr->max_qp_wr = fakernic_limit(caps->max_qp_wr);
	attr->max_send_sge = le16_to_cpu(caps->max_send_sge);
	attr->max_recv_sge = le16_to_cpu(caps->max_recv_sge);
	attr->max_sge_rd = le16_to_cpu(caps->max_read_sge);
	if (dev->features & FAKERNIC_FEATURE_RAW_PACKET)
		attr->max_raw_ethy_qp = attr->max_qp;
	attr->max_cq = fakernic_limit_minus(caps->max_cq, FAKERNIC_OWN_CQS);
	attr->max_cqe = fakernic_limit(caps->max_cqe);
	attr->max_mr = fakernic_limit_minus(caps->max_mr, FAKERNIC_OWN_KEYS);
	attr->max_pd = fakernic_limit_minus(caps->max_pd, FAKERNIC_OWN_PDS);
	attr->max_ah = INT_MAX;
	attr->max_qp_rd_atom = caps->max_dest_rd_atomic;
	attr->max_qp_init_rd_atom = caps->max_rd_atomic;
	attr->max_res_rd_atom = min_t(u64, INT_MAX, (u64)attr->max_qp *
				      caps->max_dest_rd_atomic);
	attr->max_pkeys = le16_to_cpu(caps->pkey_count);
	attr->local_ca_ack_delay = caps->ack_delay;
	if (dev->features & FAKERNIC_FEATURE_SRQ) {
		attr->max_srq = fakernic_limit(caps->max_srq);
		attr->max_srq_wr = fakernic_limit(caps->max_srq_wr);
		attr->max_srq_sge = le16_to_cpu(caps->max_recv_sge);
	}
	if (dev->features & FAKERNIC_FEATURE_MCAST) {
		attr->max_mcast_grp = fakernic_limit(caps->max_mcast_groups);
		attr->max_mcast_qp_attach =
			fakernic_limit(caps->max_mcast_qps);
		attr->max_total_mcast_qp_attach =
			min_t(u64, INT_MAX, (u64)attr->max_mcast_grp *
			      attr->max_mcast_qp_attach);
	}
	if (dev->features & FAKERNIC_FEATURE_MW)
		attr->max_mw = fakernic_limit_minus(caps->max_mw,
						    FAKERNIC_OWN_KEYS);
	if (dev->features & FAKERNIC_FEATURE_FAST_REG)
		attr->max_fast_reg_page_list_len =
			fakernic_limit(caps->max_fast_reg_pages);
	if (dev->dm.page_count)
		attr->max_dm_size = (u64)dev->dm.page_count * PAGE_SIZE;
	if (dev->features & FAKERNIC_FEATURE_ODP) {
		attr->kernel_cap_flags |= IBK_ON_DEMAND_PAGING;
		fakernic_odp_caps(dev, &attr->odp_caps);
	}
	if (dev->features & FAKERNIC_FEATURE_WQ_RSS)
		fakernic_fill_rss_caps(dev, attr);
	if (dev->features & FAKERNIC_FEATURE_CQ_MODERATION) {
		attr->cq_caps.max_cq_moderation_count = U16_MAX;
		attr->cq_caps.max_cq_moderation_period = U16_MAX;
	}
	if (dev->features & FAKERNIC_FEATURE_BLOCK_MCAST_LB)
		attr->kernel_cap_flags |= IBK_BLOCK_MULTICAST_LOOPBACK;
	/* Completion timestamps are nanoseconds. */
	attr->timestamp_mask = U64_MAX;
	attr->hca_core_clock = 1000000;
}

static int fakernic_query_device(struct ib_device *ibdev,
				 struct ib_device_attr *attr,
				 struct ib_udata *udata)
{
	struct fakernic_dev *dev = to_fakernic_dev(ibdev);
	struct fakernic_uresp_query_device uresp = {};
	int ret;

	ret = fakernic_check_no_ureq(dev, udata);
	if (ret)
		return ret;
	fakernic_fill_device_attr(dev, attr);
	if (!udata || !udata->outlen)
		return 0;
	if (dev->features & FAKERNIC_FEATURE_RATE_LIMIT) {
		uresp.rate_limit_min_kbps =
			le32_to_cpu(dev->caps.rate_limit_min_kbps);
		uresp.rate_limit_max_kbps =
			le32_to_cpu(dev->caps.rate_limit_max_kbps);
	}
	if (dev->features & FAKERNIC_FEATURE_WQ_RSS) {
		uresp.rx_hash_fields = FAKERNIC_HASH_FIELDS;
		uresp.rx_hash_functions = FAKERNIC_HASH_TOEPLITZ;
	}
	return fakernic_copy_uresp(udata, &uresp, sizeof(uresp));
}

/* rdma-ndd sets the description; the device has no use for it. */
static int fakernic_modify_device(struct ib_device *ibdev, int mask,
				  struct ib_device_modify *attr)
{
	if (mask & ~IB_DEVICE_MODIFY_NODE_DESC)
		return -EOPNOTSUPP;
	if (mask & IB_DEVICE_MODIFY_NODE_DESC)
		memcpy(ibdev->node_desc, attr->node_desc,
		       IB_DEVICE_NODE_DESC_MAX);
	return 0;
}

static int fakernic_query_port(struct ib_device *ibdev, u32 port,
			       struct ib_port_attr *attr)
{
	struct fakernic_dev *dev = to_fakernic_dev(ibdev);
	struct fakernic_query_port_resp resp;
	int ret;

	ret = fakernic_port_query(dev, &resp);
	if (ret)
		return ret;
	attr->gid_tbl_len = le16_to_cpu(dev->caps.gid_count);
	attr->pkey_tbl_len = le16_to_cpu(dev->caps.pkey_count);
	attr->port_cap_flags = IB_PORT_CM_SUP;
	attr->max_msg_sz = le32_to_cpu(dev->caps.max_message_size);
	attr->bad_pkey_cntr = le32_to_cpu(resp.bad_pkeys);
	attr->max_mtu = dev->caps.max_mtu;
	attr->active_mtu = resp.active_mtu;
	attr->max_vl_num = 1;
	if (READ_ONCE(dev->port.active)) {
		attr->state = IB_PORT_ACTIVE;
		attr->phys_state = IB_PORT_PHYS_STATE_LINK_UP;
	} else {
		attr->state = IB_PORT_DOWN;
		attr->phys_state = IB_PORT_PHYS_STATE_DISABLED;
	}
	return ib_get_eth_speed(ibdev, port, &attr->active_speed,
				&attr->active_width);
}

static int fakernic_query_pkey(struct ib_device *ibdev, u32 port, u16 index,
			       u16 *pkey)
{
	if (index >= le16_to_cpu(to_fakernic_dev(ibdev)->caps.pkey_count))
		return -EINVAL;
	*pkey = IB_DEFAULT_PKEY_FULL;
	return 0;
}

static enum rdma_link_layer fakernic_get_link_layer(struct ib_device *ibdev,
						    u32 port)
{
	return IB_LINK_LAYER_ETHERNET;
}

static int fakernic_get_port_immutable(struct ib_device *ibdev, u32 port,
				       struct ib_port_immutable *immutable)
{
	struct fakernic_dev *dev = to_fakernic_dev(ibdev);

	immutable->gid_tbl_len = le16_to_cpu(dev->caps.gid_count);
	immutable->pkey_tbl_len = le16_to_cpu(dev->caps.pkey_count);
	immutable->core_cap_flags = RDMA_CORE_PORT_IBA_ROCE_UDP_ENCAP;
	immutable->max_mad_size = IB_MGMT_MAD_SIZE;
	return 0;
}

static void fakernic_get_dev_fw_str(struct ib_device *ibdev, char *str)
{
	u32 version = to_fakernic_dev(ibdev)->fw_version;

	snprintf(str, IB_FW_VERSION_NAME_MAX, "%u.%u.%u", version >> 24,
		 version >> 16 & 0xff, version & 0xffff);
}

/*
 * Records the device's network namespace. The core calls this when the device
 * is registered or moved to a namespace, and blocks further moves during the
 * call.
 */
static int fakernic_ib_save_net(struct ib_device *ibdev)
{
	to_fakernic_dev(ibdev)->ib_net =
		read_pnet(&ibdev->coredev.rdma_net)->net_cookie;
	return 0;
}

static const struct uapi_definition fakernic_uapi_defs[] = {
	UAPI_DEF_CHAIN(fakernic_ucontext_defs),
	UAPI_DEF_CHAIN(fakernic_dm_defs),
	{},
};

static const struct ib_device_ops fakernic_device_ops = {
	.owner = THIS_MODULE,
	.driver_id = RDMA_DRIVER_UNKNOWN,
	.uverbs_abi_ver = FAKERNIC_ABI_VERSION,
	.uverbs_no_driver_id_binding = 1,
	.enable_driver = fakernic_ib_save_net,

	.query_device = fakernic_query_device,
	.modify_device = fakernic_modify_device,
	.query_port = fakernic_query_port,
	.query_pkey = fakernic_query_pkey,
	.get_link_layer = fakernic_get_link_layer,
	.get_port_immutable = fakernic_get_port_immutable,
	.get_dev_fw_str = fakernic_get_dev_fw_str,
	.alloc_hw_port_stats = fakernic_alloc_hw_port_stats,
	.alloc_hw_device_stats = fakernic_alloc_hw_device_stats,
	.get_hw_stats = fakernic_get_hw_stats,
	.process_mad = fakernic_process_mad,
	.add_gid = fakernic_add_gid,
	.del_gid = fakernic_del_gid,

	.alloc_ucontext = fakernic_alloc_ucontext,
	.dealloc_ucontext = fakernic_dealloc_ucontext,
	.query_ucontext = fakernic_query_ucontext,
	.disassociate_ucontext = fakernic_disassociate_ucontext,
	.mmap = fakernic_mmap,
	.mmap_free = fakernic_mmap_free,

	.alloc_pd = fakernic_alloc_pd,
	.dealloc_pd = fakernic_dealloc_pd,
	.create_ah = fakernic_create_ah,
	.create_user_ah = fakernic_create_ah,
	.query_ah = fakernic_query_ah,
	.destroy_ah = fakernic_destroy_ah,

	.get_dma_mr = fakernic_get_dma_mr,
	.reg_user_mr = FAKERNIC_REG_USER_MR,
	.reg_user_mr_dmabuf = FAKERNIC_REG_USER_MR_DMABUF,
	.dereg_mr = fakernic_dereg_mr,

	.create_cq = FAKERNIC_CREATE_CQ,
	.destroy_cq = fakernic_destroy_cq,
	.poll_cq = fakernic_poll_cq,
	.req_notify_cq = fakernic_req_notify_cq,

	.create_qp = fakernic_create_qp,
	.modify_qp = fakernic_modify_qp,
	.query_qp = fakernic_query_qp,
	.destroy_qp = fakernic_destroy_qp,
	.post_send = fakernic_post_send,
	.post_recv = fakernic_post_recv,

	.fill_res_cq_entry = fakernic_fill_res_cq,
	.fill_res_mr_entry = fakernic_fill_res_mr,
	.fill_res_qp_entry = fakernic_fill_res_qp,

	INIT_RDMA_OBJ_SIZE(ib_ah, fakernic_ah, ibah),
	INIT_RDMA_OBJ_SIZE(ib_cq, fakernic_cq, ibcq),
	INIT_RDMA_OBJ_SIZE(ib_pd, fakernic_pd, ibpd),
	INIT_RDMA_OBJ_SIZE(ib_qp, fakernic_qp, ibqp),
	INIT_RDMA_OBJ_SIZE(ib_ucontext, fakernic_ucontext, ibucontext),
};

static const struct ib_device_ops fakernic_srq_ops = {
	.create_srq = fakernic_create_srq,
	.modify_srq = fakernic_modify_srq,
	.query_srq = fakernic_query_srq,
	.destroy_srq = fakernic_destroy_srq,
	.post_srq_recv = fakernic_post_srq_recv,

	INIT_RDMA_OBJ_SIZE(ib_srq, fakernic_srq, ibsrq),
};

static const struct ib_device_ops fakernic_xrc_ops = {
	.alloc_xrcd = fakernic_alloc_xrcd,
	.dealloc_xrcd = fakernic_dealloc_xrcd,

	INIT_RDMA_OBJ_SIZE(ib_xrcd, fakernic_xrcd, ibxrcd),
};

static const struct ib_device_ops fakernic_mcast_ops = {
	.attach_mcast = fakernic_attach_mcast,
	.detach_mcast = fakernic_detach_mcast,
};

static const struct ib_device_ops fakernic_flow_ops = {
	.create_flow = fakernic_create_flow,
	.destroy_flow = fakernic_destroy_flow,
};

static const struct ib_device_ops fakernic_wq_ops = {
	.create_wq = fakernic_create_wq,
	.modify_wq = fakernic_modify_wq,
	.destroy_wq = fakernic_destroy_wq,
	.create_rwq_ind_table = fakernic_create_ind_table,
	.destroy_rwq_ind_table = fakernic_destroy_ind_table,

	INIT_RDMA_OBJ_SIZE(ib_rwq_ind_table, fakernic_ind_table, ibtable),
};

static const struct ib_device_ops fakernic_counter_ops = {
	.counter_alloc_stats = fakernic_counter_alloc_stats,
	.counter_bind_qp = FAKERNIC_COUNTER_BIND_QP,
	.counter_unbind_qp = FAKERNIC_COUNTER_UNBIND_QP,
	.counter_update_stats = fakernic_counter_update_stats,
	.counter_dealloc = fakernic_counter_dealloc,
};

static const struct ib_device_ops fakernic_fast_reg_ops = {
	.alloc_mr = fakernic_alloc_mr,
	.map_mr_sg = fakernic_map_mr_sg,
};

static const struct ib_device_ops fakernic_modify_cq_ops = {
	.modify_cq = fakernic_modify_cq,
};

static const struct ib_device_ops fakernic_dm_ops = {
	.alloc_dm = fakernic_alloc_dm,
	.dealloc_dm = fakernic_dealloc_dm,
	.reg_dm_mr = fakernic_reg_dm_mr,
};

static const struct ib_device_ops fakernic_rereg_mr_ops = {
	.rereg_user_mr = fakernic_rereg_user_mr,
};

static const struct ib_device_ops fakernic_mw_ops = {
	.alloc_mw = fakernic_alloc_mw,
	.dealloc_mw = fakernic_dealloc_mw,

	INIT_RDMA_OBJ_SIZE(ib_mw, fakernic_mw, ibmw),
};

static void fakernic_set_ops(struct fakernic_dev *dev)
{
	struct ib_device *ibdev = dev->ibdev;

	ib_set_device_ops(ibdev, &fakernic_device_ops);
	ib_set_device_ops(ibdev, &fakernic_new_ops);
	if (dev->features & FAKERNIC_FEATURE_DUMP)
		ib_set_device_ops(ibdev, &fakernic_raw_ops);
	if (dev->features & FAKERNIC_FEATURE_SRQ)
		ib_set_device_ops(ibdev, &fakernic_srq_ops);
	if (dev->features & FAKERNIC_FEATURE_XRC)
		ib_set_device_ops(ibdev, &fakernic_xrc_ops);
	if (dev->features & FAKERNIC_FEATURE_MCAST)
		ib_set_device_ops(ibdev, &fakernic_mcast_ops);
	if (dev->features & FAKERNIC_FEATURE_FLOW)
		ib_set_device_ops(ibdev, &fakernic_flow_ops);
	if (dev->features & FAKERNIC_FEATURE_WQ_RSS)
		ib_set_device_ops(ibdev, &fakernic_wq_ops);
	if (dev->features & FAKERNIC_FEATURE_COUNTERS)
		ib_set_device_ops(ibdev, &fakernic_counter_ops);
	if (dev->features & FAKERNIC_FEATURE_FAST_REG)
		ib_set_device_ops(ibdev, &fakernic_fast_reg_ops);
	if (dev->features & FAKERNIC_FEATURE_RESIZE_CQ)
		ib_set_device_ops(ibdev, &fakernic_resize_cq_ops);
	if (dev->features & FAKERNIC_FEATURE_CQ_MODERATION)
		ib_set_device_ops(ibdev, &fakernic_modify_cq_ops);
	if (dev->dm.page_count)
		ib_set_device_ops(ibdev, &fakernic_dm_ops);
#ifdef CONFIG_INFINIBAND_ON_DEMAND_PAGING
	if (dev->features & FAKERNIC_FEATURE_ODP)
		ib_set_device_ops(ibdev, &fakernic_odp_ops);
#endif
	if (dev->features & FAKERNIC_FEATURE_REREG_MR)
		ib_set_device_ops(ibdev, &fakernic_rereg_mr_ops);
	if (dev->features & FAKERNIC_FEATURE_MW)
		ib_set_device_ops(ibdev, &fakernic_mw_ops);
}

/*
 * Returns the recorded namespace, or init_net if it no longer exists. The
 * caller releases the reference.
 */
static struct net *fakernic_ib_get_net(const struct fakernic_dev *dev)
{
	struct net *net, *found = NULL;

	rcu_read_lock();
	for_each_net_rcu(net)
		if (net->net_cookie == dev->ib_net)
			found = maybe_get_net(net);
	rcu_read_unlock();
	return found ? found : get_net(&init_net);
}

static struct ib_device *fakernic_ib_alloc(struct fakernic_dev *dev,
					   struct net *net)
{
	struct fakernic_ib *ib;

	ib = ib_alloc_device_with_net(fakernic_ib, ibdev, net);
	if (!ib)
		return NULL;
	ib->dev = dev;
	return &ib->ibdev;
}

/* Reuses the last name, unless another device has it now. */
static int fakernic_ib_register(struct fakernic_dev *dev)
{
	struct device *device = &dev->pdev->dev;
	int ret = -ENFILE;

	if (dev->ib_name[0])
		ret = ib_register_device(dev->ibdev, dev->ib_name, device);
	if (ret == -ENFILE)
		ret = ib_register_device(dev->ibdev, "fakernic%d", device);
	return ret;
}

static void fakernic_ib_free(struct fakernic_dev *dev)
{
	fakernic_dm_cleanup(dev);
	fakernic_gids_free(dev);
	ib_dealloc_device(dev->ibdev);
	dev->ibdev = NULL;
}

/* The caller holds a reference on net. */
static int fakernic_ib_add_to(struct fakernic_dev *dev, struct net *net)
{
	struct ib_device *ibdev = fakernic_ib_alloc(dev, net);
	int ret;

	if (!ibdev)
		return -ENOMEM;
	dev->ibdev = ibdev;
	/* The reset has cleared the device's counters. */
	memset(dev->past, 0, sizeof(dev->past));
	ibdev->node_type = RDMA_NODE_IB_CA;
	ibdev->node_guid = cpu_to_be64(le64_to_cpu(dev->caps.node_guid));
	memcpy(ibdev->node_desc, dev->ib_desc, sizeof(ibdev->node_desc));
	ibdev->use_cq_dim = dev->ib_dim;
	ibdev->phys_port_cnt = 1;
	/* Report one vector even if the device is dead and has no EQs. */
	ibdev->num_comp_vectors = max(dev->eq_count, FAKERNIC_EQ_COMPLETION +
				      1U) - FAKERNIC_EQ_COMPLETION;
	ibdev->driver_def = fakernic_uapi_defs;
	ibdev->dev.parent = &dev->pdev->dev;
	ret = fakernic_gids_alloc(dev);
	if (!ret)
		ret = fakernic_dm_init(dev);
	if (ret)
		goto err_free;
	fakernic_set_ops(dev);

	ret = ib_device_set_netdev(ibdev, dev->netdev, FAKERNIC_PORT);
	if (ret)
		goto err_free;
	ret = fakernic_ib_register(dev);
	if (ret) {
		dev_err(&dev->pdev->dev,
			"RDMA device cannot be registered: %d\n", ret);
		/* Drop its reference, or the netdev could not be freed. */
		ib_device_set_netdev(ibdev, NULL, FAKERNIC_PORT);
		goto err_free;
	}
	fakernic_port_set_ib(dev, true);
	/* The port may have changed before events could be dispatched. */
	fakernic_port_changed(dev);
	return 0;

err_free:
	fakernic_ib_free(dev);
	return ret;
}

int fakernic_ib_add(struct fakernic_dev *dev)
{
	struct net *net = fakernic_ib_get_net(dev);
	int ret = fakernic_ib_add_to(dev, net);

	put_net(net);
	return ret;
}

void fakernic_ib_remove(struct fakernic_dev *dev)
{
	fakernic_port_set_ib(dev, false);
	ib_unregister_device(dev->ibdev);
	/* No user can rename it or change its settings now: save them. */
	strscpy(dev->ib_name, dev_name(&dev->ibdev->dev), sizeof(dev->ib_name));
	memcpy(dev->ib_desc, dev->ibdev->node_desc, sizeof(dev->ib_desc));
	dev->ib_dim = dev->ibdev->use_cq_dim;
	fakernic_ib_free(dev);
}
