// SPDX-License-Identifier: GPL-2.0-only
/*
 * Address handles. The device has no such object: an AH is an address vector
 * that is copied into each datagram WQE. A provider creates its AHs through the
 * kernel because only the kernel can resolve the next hop's MAC.
 */
#include <linux/string.h>
#include <fakernic/qp.h>
#include <rdma/fakernic-abi.h>
#include "../core/device.h"
#include "../core/port.h"
#include "ah.h"
#include "udata.h"

void fakernic_fill_av(struct fakernic_av *av, const struct rdma_ah_attr *attr)
{
	const struct ib_global_route *grh = rdma_ah_read_grh(attr);

	memset(av, 0, sizeof(*av));
	memcpy(av->dgid, grh->dgid.raw, sizeof(av->dgid));
	memcpy(av->dmac, attr->roce.dmac, sizeof(av->dmac));
	av->sgid_index = cpu_to_le16(grh->sgid_index);
	av->flow_label = cpu_to_le32(grh->flow_label & 0xfffff);
	av->traffic_class = grh->traffic_class;
	av->hop_limit = grh->hop_limit;
	av->sl = rdma_ah_get_sl(attr) & 7;
	av->static_rate = rdma_ah_get_static_rate(attr);
}

void fakernic_read_av(const struct fakernic_av *av, struct rdma_ah_attr *attr)
{
	memset(attr, 0, sizeof(*attr));
	attr->type = RDMA_AH_ATTR_TYPE_ROCE;
	rdma_ah_set_port_num(attr, FAKERNIC_PORT);
	rdma_ah_set_sl(attr, av->sl);
	rdma_ah_set_static_rate(attr, av->static_rate);
	rdma_ah_set_grh(attr, NULL, le32_to_cpu(av->flow_label),
			le16_to_cpu(av->sgid_index), av->hop_limit,
			av->traffic_class);
	rdma_ah_set_dgid_raw(attr, (void *)av->dgid);
	memcpy(attr->roce.dmac, av->dmac, sizeof(av->dmac));
}

int fakernic_create_ah(struct ib_ah *ibah, struct rdma_ah_init_attr *init,
		       struct ib_udata *udata)
{
	struct fakernic_dev *dev = to_fakernic_dev(ibah->device);
	struct fakernic_uresp_create_ah uresp = {};
	struct fakernic_ah *ah = to_fakernic_ah(ibah);
	int ret;

	/* No command follows that would fail on a dead device. */
	if (READ_ONCE(dev->dead))
		return -EIO;
	if (!(rdma_ah_get_ah_flags(init->ah_attr) & IB_AH_GRH)) {
		fakernic_dbg(dev, "create AH: RoCE needs a GRH\n");
		return -EINVAL;
	}
	ret = fakernic_check_no_ureq(dev, udata);
	if (ret)
		return ret;
	fakernic_fill_av(&ah->av, init->ah_attr);
	if (!udata)
		return 0;
	memcpy(uresp.dmac, ah->av.dmac, sizeof(uresp.dmac));
	return fakernic_copy_uresp(udata, &uresp, sizeof(uresp));
}

int fakernic_query_ah(struct ib_ah *ibah, struct rdma_ah_attr *attr)
{
	fakernic_read_av(&to_fakernic_ah(ibah)->av, attr);
	return 0;
}

int fakernic_destroy_ah(struct ib_ah *ibah, u32 flags)
{
	return 0;
}
