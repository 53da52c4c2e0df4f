/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The provider's entry points: which PCI devices it serves, the user context,
 * and which verbs a context offers. A verb is offered only if the features that
 * driver and device agreed on include it; libibverbs returns EOPNOTSUPP for the
 * rest. Control verbs enter the kernel; posting, polling and arming do not.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <ccan/array_size.h>
#include <ccan/minmax.h>
#include <infiniband/cmd_ioctl.h>
#include <infiniband/driver.h>
#include <util/util.h>

#include "fakernic/base.h"
#include "fakernic/regs.h"
#include "fakernic/rq.h"
#include "fakernic/sq.h"
#include "ah.h"
#include "compat.h"
#include "context.h"
#include "cq.h"
#include "dm.h"
#include "fakernic-abi.h"
#include "flow.h"
#include "mr.h"
#include "pd.h"
#include "post_send.h"
#include "qp.h"
#include "rq.h"
#include "srq.h"
#include "table.h"
#include "wq.h"
#include "xrc.h"

/* QP types that support a rate limit. */
static uint32_t fakernic_pacing_qpts(struct ibv_context *context)
{
	uint64_t features = fakernic_to_context(context)->features;
	uint32_t qpts = 1 << IBV_QPT_RC | 1 << IBV_QPT_UD;

	if (features & FAKERNIC_FEATURE_UC)
		qpts |= 1 << IBV_QPT_UC;
	if (features & FAKERNIC_FEATURE_XRC)
		qpts |= 1 << IBV_QPT_XRC_SEND;
	if (features & FAKERNIC_FEATURE_RAW_PACKET)
		qpts |= 1 << IBV_QPT_RAW_PACKET;
	return qpts;
}

static int fakernic_uquery_device_ex(struct ibv_context *context,
				     const struct ibv_query_device_ex_input *in,
				     struct ibv_device_attr_ex *attr,
				     size_t attr_size)
{
	struct fakernic_cmd_query_device_resp resp = {};
	size_t resp_size = sizeof(resp);
	uint64_t fw_ver;
	int err;

	err = ibv_cmd_query_device_any(context, in, attr, attr_size,
				       &resp.ibv_resp, &resp_size);
	if (err)
		return err;
	if (attr_size >= offsetofend(struct ibv_device_attr_ex,
				     packet_pacing_caps) &&
	    resp.rate_limit_max_kbps)
		attr->packet_pacing_caps = (struct ibv_packet_pacing_caps) {
			.qp_rate_limit_min = resp.rate_limit_min_kbps,
			.qp_rate_limit_max = resp.rate_limit_max_kbps,
			.supported_qpts = fakernic_pacing_qpts(context),
		};
	if (attr_size >= offsetofend(struct ibv_device_attr_ex, rss_caps)) {
		attr->rss_caps.rx_hash_fields_mask = resp.rx_hash_fields;
		attr->rss_caps.rx_hash_function = resp.rx_hash_functions;
	}
	/* FAKERNIC_REG_FW_VERSION: 8.8.16 bits. */
	fw_ver = resp.ibv_resp.base.fw_ver;
	snprintf(attr->orig_attr.fw_ver, sizeof(attr->orig_attr.fw_ver),
		 "%u.%u.%u", (unsigned int)(fw_ver >> 24) & 0xff,
		 (unsigned int)(fw_ver >> 16) & 0xff,
		 (unsigned int)fw_ver & 0xffff);
	return 0;
}

static int fakernic_uquery_port(struct ibv_context *context, uint8_t port,
				struct ibv_port_attr *attr)
{
	struct ibv_query_port cmd;

	return ibv_cmd_query_port(context, port, attr, &cmd, sizeof(cmd));
}

#ifndef FAKERNIC_LACK_PORT_SPEED
/*
 * In units of 100 Mb/s: the speed of a lane times the lanes, by the codes that
 * IBTA 14.2.5.6 (PortInfo) has for both.
 */
static int fakernic_uquery_port_speed(struct ibv_context *context,
				      uint32_t port, uint64_t *speed)
{
	static const uint16_t lane[] = { 25, 50, 100, 100, 140, 250, 500, 1000 };
	static const uint8_t lanes[] = { 1, 4, 8, 12, 2 };
	struct ibv_port_attr attr = {};
	int err, speed_bit, width_bit;

	if (port > UINT8_MAX)
		return EINVAL;
	err = fakernic_uquery_port(context, port, &attr);
	if (err)
		return err;
	speed_bit = ffs(attr.active_speed) - 1;
	width_bit = ffs(attr.active_width) - 1;
	if (speed_bit < 0 || width_bit < 0 || width_bit >= ARRAY_SIZE(lanes))
		return EOPNOTSUPP;
	*speed = (uint64_t)lane[speed_bit] * lanes[width_bit];
	return 0;
}
#endif

static int fakernic_umodify_cq(struct ibv_cq *cq,
			       struct ibv_modify_cq_attr *attr)
{
	struct ibv_modify_cq cmd = {};

	return ibv_cmd_modify_cq(cq, attr, &cmd, sizeof(cmd));
}

static int fakernic_uquery_rt_values(struct ibv_context *context,
				     struct ibv_values_ex *values)
{
	uint64_t now_ns;

	if (!check_comp_mask(values->comp_mask, IBV_VALUES_MASK_RAW_CLOCK))
		return EINVAL;
	if (values->comp_mask & IBV_VALUES_MASK_RAW_CLOCK) {
		now_ns = fakernic_clock_ns(fakernic_to_context(context));
		if (fakernic_no_time(now_ns))
			return EIO;
		/*
		 * As on other cards, all of the count is in tv_nsec where long
		 * has 64 bits.
		 */
		values->raw_clock.tv_sec =
			sizeof(long) < 8 ? now_ns / 1000000000 : 0;
		values->raw_clock.tv_nsec =
			sizeof(long) < 8 ? now_ns % 1000000000 : now_ns;
	}
	return 0;
}

static void fakernic_free_context(struct ibv_context *ibctx)
{
	struct fakernic_context *context = fakernic_to_context(ibctx);

	if (context->clock_page)
		munmap((void *)context->clock_page, FAKERNIC_PAGE_SIZE);
	munmap(context->uar, FAKERNIC_PAGE_SIZE);
	fakernic_utable_free(&context->srq_table);
	fakernic_utable_free(&context->wq_table);
	fakernic_utable_free(&context->qp_table);
	verbs_uninit_context(&context->vctx);
	free(context);
}

static const struct verbs_context_ops fakernic_ops = {
	.alloc_parent_domain = fakernic_ualloc_parent_domain,
	.alloc_pd = fakernic_ualloc_pd,
	.alloc_td = fakernic_ualloc_td,
	.cq_event = fakernic_ucq_event,
	.create_ah = fakernic_ucreate_ah,
	.create_cq = fakernic_ucreate_cq,
	.create_cq_ex = fakernic_ucreate_cq_ex,
	.create_qp = fakernic_ucreate_qp,
	.create_qp_ex = fakernic_ucreate_qp_ex,
	.dealloc_pd = fakernic_udealloc_pd,
	.dealloc_td = fakernic_udealloc_td,
	.dereg_mr = fakernic_udereg_mr,
	.destroy_ah = fakernic_udestroy_ah,
	.destroy_cq = fakernic_udestroy_cq,
	.destroy_qp = fakernic_udestroy_qp,
	.free_context = fakernic_free_context,
	.import_mr = fakernic_uimport_mr,
	.import_pd = fakernic_uimport_pd,
	.modify_qp = fakernic_umodify_qp,
	.poll_cq = fakernic_upoll_cq,
	.post_recv = fakernic_upost_recv,
	.post_send = fakernic_upost_send,
	.query_device_ex = fakernic_uquery_device_ex,
	.query_ece = fakernic_uquery_ece,
	.query_port = fakernic_uquery_port,
#ifndef FAKERNIC_LACK_PORT_SPEED
	.query_port_speed = fakernic_uquery_port_speed,
#endif
	.query_qp = fakernic_uquery_qp,
	.query_qp_data_in_order = fakernic_uquery_qp_data_in_order,
	.reg_dmabuf_mr = fakernic_ureg_dmabuf_mr,
	.reg_mr = fakernic_ureg_mr,
#ifdef FAKERNIC_HAVE_REG_MR_EX
	.reg_mr_ex = fakernic_ureg_mr_ex,
#endif
	.req_notify_cq = fakernic_ureq_notify_cq,
	.set_ece = fakernic_uset_ece,
	.unimport_mr = fakernic_uunimport_mr,
	.unimport_pd = fakernic_uunimport_pd,
};

/* Verbs that depend on a feature. */
static const struct verbs_context_ops fakernic_srq_ops = {
	.create_srq = fakernic_ucreate_srq,
	.create_srq_ex = fakernic_ucreate_srq_ex,
	.destroy_srq = fakernic_udestroy_srq,
	.get_srq_num = fakernic_uget_srq_num,
	.modify_srq = fakernic_umodify_srq,
	.post_srq_recv = fakernic_upost_srq_recv,
	.query_srq = fakernic_uquery_srq,
};

static const struct verbs_context_ops fakernic_xrc_ops = {
	.close_xrcd = fakernic_uclose_xrcd,
	.open_qp = fakernic_uopen_qp,
	.open_xrcd = fakernic_uopen_xrcd,
};

static const struct verbs_context_ops fakernic_dm_ops = {
	.alloc_dm = fakernic_ualloc_dm,
	.free_dm = fakernic_ufree_dm,
	.import_dm = fakernic_uimport_dm,
	.reg_dm_mr = fakernic_ureg_dm_mr,
	.unimport_dm = fakernic_uunimport_dm,
};

static const struct verbs_context_ops fakernic_flow_ops = {
	.create_flow = fakernic_ucreate_flow,
	.destroy_flow = fakernic_udestroy_flow,
};

static const struct verbs_context_ops fakernic_wq_rss_ops = {
	.create_rwq_ind_table = fakernic_ucreate_rwq_ind_table,
	.create_wq = fakernic_ucreate_wq,
	.destroy_rwq_ind_table = fakernic_udestroy_rwq_ind_table,
	.destroy_wq = fakernic_udestroy_wq,
	.modify_wq = fakernic_umodify_wq,
};

static const struct verbs_context_ops fakernic_odp_ops = {
	.advise_mr = ibv_cmd_advise_mr,
};

static const struct verbs_context_ops fakernic_rate_limit_ops = {
	.modify_qp_rate_limit = fakernic_umodify_qp_rate_limit,
};

static const struct verbs_context_ops fakernic_mw_ops = {
	.alloc_mw = fakernic_ualloc_mw,
	.bind_mw = fakernic_ubind_mw,
	.dealloc_mw = fakernic_udealloc_mw,
};

static const struct verbs_context_ops fakernic_rereg_mr_ops = {
	.rereg_mr = fakernic_urereg_mr,
};

static const struct verbs_context_ops fakernic_resize_cq_ops = {
	.resize_cq = fakernic_uresize_cq,
};

static const struct verbs_context_ops fakernic_cq_moderation_ops = {
	.modify_cq = fakernic_umodify_cq,
};

static const struct verbs_context_ops fakernic_mcast_ops = {
	.attach_mcast = ibv_cmd_attach_mcast,
	.detach_mcast = ibv_cmd_detach_mcast,
};

static const struct verbs_context_ops fakernic_clock_page_ops = {
	.query_rt_values = fakernic_uquery_rt_values,
};

static const struct {
	uint64_t feature;
	const struct verbs_context_ops *ops;
} fakernic_feature_ops[] = {
	{ FAKERNIC_FEATURE_SRQ, &fakernic_srq_ops },
	{ FAKERNIC_FEATURE_XRC, &fakernic_xrc_ops },
	{ FAKERNIC_FEATURE_DM, &fakernic_dm_ops },
	{ FAKERNIC_FEATURE_FLOW, &fakernic_flow_ops },
	{ FAKERNIC_FEATURE_WQ_RSS, &fakernic_wq_rss_ops },
	{ FAKERNIC_FEATURE_ODP, &fakernic_odp_ops },
	{ FAKERNIC_FEATURE_RATE_LIMIT, &fakernic_rate_limit_ops },
	{ FAKERNIC_FEATURE_MW, &fakernic_mw_ops },
	{ FAKERNIC_FEATURE_REREG_MR, &fakernic_rereg_mr_ops },
	{ FAKERNIC_FEATURE_RESIZE_CQ, &fakernic_resize_cq_ops },
	{ FAKERNIC_FEATURE_CQ_MODERATION, &fakernic_cq_moderation_ops },
	{ FAKERNIC_FEATURE_MCAST, &fakernic_mcast_ops },
	{ FAKERNIC_FEATURE_CLOCK_PAGE, &fakernic_clock_page_ops },
};

static void fakernic_set_verbs(struct fakernic_context *context)
{
	uint64_t features = context->features;
	unsigned int i;

	if (!context->clock_page)
		features &= ~FAKERNIC_FEATURE_CLOCK_PAGE;
	verbs_set_ops(&context->vctx, &fakernic_ops);
	for (i = 0; i < ARRAY_SIZE(fakernic_feature_ops); i++)
		if (features & fakernic_feature_ops[i].feature)
			verbs_set_ops(&context->vctx,
				      fakernic_feature_ops[i].ops);
}

/*
 * Maps the doorbell page and, if there is one, the clock page. Both are at the
 * start of their mapping. mmap() and munmap() round the length up to a page of
 * the kernel, which may be larger.
 */
static int
fakernic_map_pages(struct fakernic_context *context,
		   const struct fakernic_uresp_alloc_ucontext *uresp)
{
	int cmd_fd = context->vctx.context.cmd_fd;
	void *page;

	page = mmap(NULL, FAKERNIC_PAGE_SIZE, PROT_WRITE, MAP_SHARED, cmd_fd,
		    uresp->uar_offset);
	if (page == MAP_FAILED)
		return errno;
	context->uar = page;
	if (!uresp->clock_offset)
		return 0;
	page = mmap(NULL, FAKERNIC_PAGE_SIZE, PROT_READ, MAP_SHARED, cmd_fd,
		    uresp->clock_offset);
	if (page == MAP_FAILED) {
		int err = errno;

		munmap(context->uar, FAKERNIC_PAGE_SIZE);
		return err;
	}
	context->clock_page = page;
	return 0;
}

/*
 * Features that the user turns off. Stamps cost time per work request, so
 * benchmarks can disable them.
 */
static uint64_t fakernic_not_wanted(void)
{
	const char *marks = getenv("FAKERNIC_MARKS");

	return marks && !strcmp(marks, "0") ? FAKERNIC_FEATURE_STAMPS : 0;
}

/* Sets up a context from the kernel's response. 0 or an errno value. */
static int
fakernic_init_context(struct fakernic_context *context,
		      const struct fakernic_uresp_alloc_ucontext *uresp)
{
	unsigned int major;
	int err;

	major = FAKERNIC_GET(FAKERNIC_VERSION_MAJOR, uresp->interface_version);
	if (major != FAKERNIC_INTERFACE_MAJOR) {
		verbs_err(&context->vctx,
			  "device has interface version %u, provider supports %u\n",
			  major, FAKERNIC_INTERFACE_MAJOR);
		return ENOTSUP;
	}
	context->features = uresp->features &
			    ~(FAKERNIC_MISSING_FEATURES |
			      fakernic_not_wanted());
	context->wall_offset_ns = uresp->wall_offset_ns;
	context->max_qp_wr = uresp->max_qp_wr;
	/* Never use more than a WQE can hold, whatever the driver reports. */
	context->max_inline = min_t(uint32_t, uresp->max_inline,
				    FAKERNIC_INLINE_MAX);
	context->max_send_sge = min_t(uint32_t, uresp->max_send_sge,
				      FAKERNIC_SGE_MAX);
	context->max_recv_sge = min_t(uint32_t, uresp->max_recv_sge,
				      FAKERNIC_SGE_MAX);
	err = fakernic_map_pages(context, uresp);
	if (err)
		return err;
	fakernic_utable_init(&context->qp_table);
	fakernic_utable_init(&context->wq_table);
	fakernic_utable_init(&context->srq_table);
	fakernic_set_verbs(context);
	return 0;
}

/* Frees a context in which only vctx is set up. */
static struct verbs_context *
fakernic_drop_context(struct fakernic_context *context, int err)
{
	verbs_uninit_context(&context->vctx);
	free(context);
	errno = err;
	return NULL;
}

static struct verbs_context *fakernic_alloc_context(struct ibv_device *device,
						    int cmd_fd,
						    void *private_data)
{
	struct fakernic_cmd_get_context_resp resp = {};
	struct fakernic_context *context;
	struct ibv_get_context cmd = {};
	int err;

	context = verbs_init_and_alloc_context(device, cmd_fd, context, vctx,
					       RDMA_DRIVER_UNKNOWN);
	if (!context)
		return NULL;
	err = ibv_cmd_get_context(&context->vctx, &cmd, sizeof(cmd),
				  FAKERNIC_NO_FDS &resp.ibv_resp,
				  sizeof(resp));
	if (!err)
		err = fakernic_init_context(context, &resp.drv_payload);
	return err ? fakernic_drop_context(context, err) : &context->vctx;
}

/* ibv_import_device(3): the fd already has a kernel context. */
static struct verbs_context *fakernic_import_context(struct ibv_device *device,
						     int cmd_fd)
{
	DECLARE_COMMAND_BUFFER(cmd, UVERBS_OBJECT_DEVICE,
			       UVERBS_METHOD_QUERY_CONTEXT, 1);
	struct fakernic_uresp_alloc_ucontext uresp = {};
	struct fakernic_context *context;
	int err;

	context = verbs_init_and_alloc_context(device, cmd_fd, context, vctx,
					       RDMA_DRIVER_UNKNOWN);
	if (!context)
		return NULL;
	fill_attr_out_ptr(cmd, FAKERNIC_ATTR_QUERY_CONTEXT_RESP, &uresp);
	err = ibv_cmd_query_context(&context->vctx.context, cmd);
	if (!err)
		err = fakernic_init_context(context, &uresp);
	return err ? fakernic_drop_context(context, err) : &context->vctx;
}

static struct verbs_device *
fakernic_alloc_device(struct verbs_sysfs_dev *sysfs_dev)
{
	return calloc(1, sizeof(struct verbs_device));
}

static void fakernic_uninit_device(struct verbs_device *device)
{
	free(device);
}

static const struct verbs_match_ent fakernic_match_table[] = {
	VERBS_PCI_MATCH(FAKERNIC_PCI_VENDOR_ID, FAKERNIC_PCI_DEVICE_ID, NULL),
	VERBS_PCI_MATCH(FAKERNIC_PCI_VENDOR_ID, FAKERNIC_PCI_VF_DEVICE_ID,
			NULL),
	{},
};

static const struct verbs_device_ops fakernic_dev_ops = {
	.name = "fakernic",
	.match_min_abi_version = FAKERNIC_ABI_VERSION,
	.match_max_abi_version = FAKERNIC_ABI_VERSION,
	.match_table = fakernic_match_table,
	.alloc_device = fakernic_alloc_device,
	.uninit_device = fakernic_uninit_device,
	.alloc_context = fakernic_alloc_context,
	.import_context = fakernic_import_context,
};

PROVIDER_DRIVER(fakernic, fakernic_dev_ops);
