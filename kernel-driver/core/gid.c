// SPDX-License-Identifier: GPL-2.0-only
/*
 * The GID table. The core fills it with the addresses of the net_device and of
 * interfaces on top of it. The device has a copy with the source MAC and VLAN
 * of each entry. If an address is deleted while QPs use it, the device keeps
 * the entry until they are gone. So no connection breaks when an address is
 * deleted and added again, as some DHCP clients do to renew a lease.
 */
#include <linux/etherdevice.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/xarray.h>
#include <rdma/ib_cache.h>
#include <fakernic/cmdq.h>
#include "../rdma/qp.h"
#include "cmd.h"
#include "device.h"
#include "gid.h"
#include "object.h"

/* Called under gid_lock. */
static int fakernic_set_gid(struct fakernic_dev *dev, u16 index,
			    const struct fakernic_gid *gid)
{
	int ret;

	if (index >= le16_to_cpu(dev->caps.gid_count))
		return -EINVAL;
	ret = fakernic_cmd_set_gid(dev, index, gid);
	if (ret)
		return ret;
	if (dev->gids[index].deleted)
		WRITE_ONCE(dev->gids_deleted, dev->gids_deleted - 1);
	dev->gids[index] = *gid;
	return 0;
}

/*
 * Returns true if a QP uses the entry. The core records the entry in its QP
 * only after modify_qp(), so a QP that is being connected is missed, and its
 * connection fails. The lock keeps QPs in memory.
 */
static bool fakernic_gid_is_used(struct fakernic_dev *dev,
				 const struct ib_gid_attr *attr)
{
	struct fakernic_qp_hw *hw;
	bool used = false;
	unsigned long qpn;

	xa_lock(&dev->qps);
	xa_for_each(&dev->qps, qpn, hw) {
		const struct ib_qp *qp = hw->qp ? &hw->qp->ibqp : NULL;

		used = qp && (READ_ONCE(qp->av_sgid_attr) == attr ||
			      READ_ONCE(qp->alt_path_sgid_attr) == attr);
		if (used)
			break;
	}
	xa_unlock(&dev->qps);
	return used;
}

int fakernic_add_gid(const struct ib_gid_attr *attr, void **context)
{
	enum rdma_network_type type = rdma_gid_attr_network_type(attr);
	struct fakernic_dev *dev = to_fakernic_dev(attr->device);
	struct fakernic_gid gid = {};
	int ret;

	BUILD_BUG_ON((int)FAKERNIC_GID_IPV4 != (int)RDMA_NETWORK_IPV4);
	BUILD_BUG_ON((int)FAKERNIC_GID_IPV6 != (int)RDMA_NETWORK_IPV6);

	if (type != RDMA_NETWORK_IPV4 && type != RDMA_NETWORK_IPV6)
		return -EOPNOTSUPP;
	gid.type = type;
	memcpy(gid.gid, attr->gid.raw, sizeof(gid.gid));
	mutex_lock(&dev->gid_lock);
	/* Under the lock, or fakernic_gids_follow_mac() may miss the entry. */
	ret = rdma_read_gid_l2_fields(attr, &gid.vlan, gid.mac);
	if (!ret)
		ret = fakernic_set_gid(dev, attr->index, &gid);
	mutex_unlock(&dev->gid_lock);
	/* On a dead device the core's table is freed soon, so succeed. */
	return READ_ONCE(dev->dead) ? 0 : ret;
}

int fakernic_del_gid(const struct ib_gid_attr *attr, void **context)
{
	struct fakernic_dev *dev = to_fakernic_dev(attr->device);
	struct fakernic_gid none = {};
	int ret;

	mutex_lock(&dev->gid_lock);
	if (fakernic_gid_is_used(dev, attr)) {
		dev->gids[attr->index].deleted = attr;
		WRITE_ONCE(dev->gids_deleted, dev->gids_deleted + 1);
		ret = 0;
	} else {
		ret = fakernic_set_gid(dev, attr->index, &none);
	}
	mutex_unlock(&dev->gid_lock);
	return READ_ONCE(dev->dead) ? 0 : ret;
}

void fakernic_gids_clear_deleted(struct fakernic_dev *dev)
{
	const struct fakernic_gid none = {};
	u16 i;

	if (!READ_ONCE(dev->gids_deleted))
		return;
	mutex_lock(&dev->gid_lock);
	for (i = 0; dev->gids && i < le16_to_cpu(dev->caps.gid_count); i++)
		if (dev->gids[i].deleted &&
		    !fakernic_gid_is_used(dev, dev->gids[i].deleted))
			fakernic_set_gid(dev, i, &none);
	mutex_unlock(&dev->gid_lock);
}

int fakernic_gids_alloc(struct fakernic_dev *dev)
{
	struct fakernic_gid *gids =
		kvcalloc(le16_to_cpu(dev->caps.gid_count), sizeof(*gids),
			 GFP_KERNEL);

	if (!gids)
		return -ENOMEM;
	mutex_lock(&dev->gid_lock);
	dev->gids = gids;
	dev->gids_deleted = 0;
	mutex_unlock(&dev->gid_lock);
	return 0;
}

void fakernic_gids_free(struct fakernic_dev *dev)
{
	mutex_lock(&dev->gid_lock);
	kvfree(dev->gids);
	dev->gids = NULL;
	WRITE_ONCE(dev->gids_deleted, 0);
	mutex_unlock(&dev->gid_lock);
}

void fakernic_gids_follow_mac(struct fakernic_dev *dev, const u8 *old,
			      const u8 *mac)
{
	u16 i;

	mutex_lock(&dev->gid_lock);
	for (i = 0; dev->gids && i < le16_to_cpu(dev->caps.gid_count); i++) {
		struct fakernic_gid *gid = &dev->gids[i];

		if (gid->type == FAKERNIC_GID_NONE ||
		    !ether_addr_equal(gid->mac, old))
			continue;
		ether_addr_copy(gid->mac, mac);
		fakernic_cmd_set_gid(dev, i, gid);
	}
	mutex_unlock(&dev->gid_lock);
}
