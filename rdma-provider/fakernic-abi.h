/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Commands to the kernel driver: the core's structures with the driver's own
 * part (rdma/fakernic-abi.h) behind them, as rdma-core's macros build them.
 */
#ifndef FAKERNIC_PROVIDER_ABI_H
#define FAKERNIC_PROVIDER_ABI_H

#include <infiniband/kern-abi.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/fakernic-abi.h>
#include <kernel-abi/fakernic-abi.h>

DECLARE_DRV_CMD(fakernic_cmd_get_context, IB_USER_VERBS_CMD_GET_CONTEXT,
		empty, fakernic_uresp_alloc_ucontext);
DECLARE_DRV_CMD(fakernic_cmd_query_device, IB_USER_VERBS_EX_CMD_QUERY_DEVICE,
		empty, fakernic_uresp_query_device);
DECLARE_DRV_CMD(fakernic_cmd_alloc_pd, IB_USER_VERBS_CMD_ALLOC_PD,
		empty, fakernic_uresp_alloc_pd);
DECLARE_DRV_CMD(fakernic_cmd_create_cq, IB_USER_VERBS_EX_CMD_CREATE_CQ,
		fakernic_ureq_create_cq, fakernic_uresp_create_cq);
DECLARE_DRV_CMD(fakernic_cmd_resize_cq, IB_USER_VERBS_CMD_RESIZE_CQ,
		fakernic_ureq_resize_cq, empty);
DECLARE_DRV_CMD(fakernic_cmd_create_qp, IB_USER_VERBS_EX_CMD_CREATE_QP,
		fakernic_ureq_create_qp, fakernic_uresp_create_qp);
DECLARE_DRV_CMD(fakernic_cmd_create_rss_qp, IB_USER_VERBS_EX_CMD_CREATE_QP,
		fakernic_ureq_create_rss_qp, fakernic_uresp_create_qp);
DECLARE_DRV_CMD(fakernic_cmd_create_wq, IB_USER_VERBS_EX_CMD_CREATE_WQ,
		fakernic_ureq_create_wq, empty);
DECLARE_DRV_CMD(fakernic_cmd_create_srq, IB_USER_VERBS_CMD_CREATE_XSRQ,
		fakernic_ureq_create_srq, fakernic_uresp_create_srq);
DECLARE_DRV_CMD(fakernic_cmd_modify_srq, IB_USER_VERBS_CMD_MODIFY_SRQ,
		fakernic_ureq_modify_srq, empty);
DECLARE_DRV_CMD(fakernic_cmd_create_ah, IB_USER_VERBS_CMD_CREATE_AH,
		empty, fakernic_uresp_create_ah);

#endif
