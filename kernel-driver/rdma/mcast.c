// SPDX-License-Identifier: GPL-2.0-only
/*
 * Multicast groups of UD QPs. rdma_cm joins the Ethernet groups (IGMP, MLD) on
 * the net_device.
 */
#include <fakernic/cmdq.h>
#include "../core/cmd.h"
#include "../core/device.h"
#include "mcast.h"
#include "qp.h"

int fakernic_attach_mcast(struct ib_qp *ibqp, union ib_gid *gid, u16 lid)
{
	return fakernic_cmd_mcast(to_fakernic_dev(ibqp->device),
				  FAKERNIC_CMD_ATTACH_MCAST, gid,
				  to_fakernic_qp(ibqp)->hw.qpn);
}

int fakernic_detach_mcast(struct ib_qp *ibqp, union ib_gid *gid, u16 lid)
{
	return fakernic_cmd_mcast(to_fakernic_dev(ibqp->device),
				  FAKERNIC_CMD_DETACH_MCAST, gid,
				  to_fakernic_qp(ibqp)->hw.qpn);
}
