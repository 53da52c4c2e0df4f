// SPDX-License-Identifier: GPL-2.0-only
/*
 * The vports of a PF's VFs. The device enforces their settings; the driver only
 * keeps a copy, to show it and to restore it after a reset of the PF.
 */
#include <linux/bitfield.h>
#include <linux/dma-mapping.h>
#include <linux/etherdevice.h>
#include <linux/jiffies.h>
#include <linux/slab.h>
#include "cmd.h"
#include "device.h"
#include "regs.h"
#include "vport.h"

#define FAKERNIC_VPORT_ALL						\
	(FAKERNIC_VPORT_MAC | FAKERNIC_VPORT_VLAN | FAKERNIC_VPORT_LINK | \
	 FAKERNIC_VPORT_SPOOF_CHECK | FAKERNIC_VPORT_TRUST |		\
	 FAKERNIC_VPORT_RSS_QUERY | FAKERNIC_VPORT_RATE)
#define FAKERNIC_VPORT_STATS_AGE	(HZ / 10)

static const struct fakernic_vport_settings fakernic_vport_defaults = {
	.vlan_proto = cpu_to_le16(ETH_P_8021Q),
	.spoof_check = 1,
};

static u32 fakernic_vport_stats_size(const struct fakernic_vports *vports)
{
	return vports->count * FAKERNIC_VPORT_STAT_COUNT * sizeof(__le64);
}

/* Caller holds the lock. */
static void fakernic_vport_keep(struct fakernic_vports *vports, u32 vf,
				const struct fakernic_vport_settings *settings)
{
	spin_lock(&vports->settings_lock);
	vports->settings[vf] = *settings;
	spin_unlock(&vports->settings_lock);
}

static void fakernic_vports_forget_locked(struct fakernic_vports *vports)
{
	u32 i;

	for (i = 0; i < vports->count; i++)
		fakernic_vport_keep(vports, i, &fakernic_vport_defaults);
	vports->queried = false;
	memset(vports->counters, 0, fakernic_vport_stats_size(vports));
}

int fakernic_vports_init(struct fakernic_dev *dev)
{
	struct fakernic_vports *vports = &dev->vports;
	u32 count;

	if (!(dev->features & FAKERNIC_FEATURE_VPORT))
		return 0;
	count = FIELD_GET(FAKERNIC_FUNCTION_VFS,
			  fakernic_read(dev, FAKERNIC_REG_FUNCTION));
	if (!count)
		return 0;
	vports->settings = kcalloc(count, sizeof(*vports->settings),
				   GFP_KERNEL);
	if (!vports->settings)
		return -ENOMEM;
	vports->count = count;
	vports->counters = dma_alloc_coherent(&dev->pdev->dev,
					      fakernic_vport_stats_size(vports),
					      &vports->dma, GFP_KERNEL);
	if (!vports->counters) {
		kfree(vports->settings);
		vports->count = 0;
		return -ENOMEM;
	}
	fakernic_vports_forget_locked(vports);
	return 0;
}

void fakernic_vports_cleanup(struct fakernic_dev *dev)
{
	struct fakernic_vports *vports = &dev->vports;

	if (!vports->count)
		return;
	dma_free_coherent(&dev->pdev->dev, fakernic_vport_stats_size(vports),
			  vports->counters, vports->dma);
	kfree(vports->settings);
	vports->count = 0;
}

/* Caller holds the lock. */
static int fakernic_vport_write(struct fakernic_dev *dev, u32 vf, u32 mask,
				const struct fakernic_vport_settings *settings)
{
	const struct fakernic_set_vport_req req = {
		.vport = cpu_to_le16(vf + 1),
		.mask = cpu_to_le32(mask),
		.settings = *settings,
	};

	return fakernic_cmd_set_vport(dev, &req);
}

static int fakernic_vports_write_locked(struct fakernic_dev *dev)
{
	struct fakernic_vports *vports = &dev->vports;
	int ret = 0;
	u32 vf;

	for (vf = 0; !ret && vf < vports->count; vf++)
		ret = fakernic_vport_write(dev, vf, FAKERNIC_VPORT_ALL,
					   &vports->settings[vf]);
	return ret;
}

int fakernic_vports_restore(struct fakernic_dev *dev)
{
	int ret;

	mutex_lock(&dev->vports.lock);
	ret = fakernic_vports_write_locked(dev);
	mutex_unlock(&dev->vports.lock);
	return ret;
}

int fakernic_vports_set_defaults(struct fakernic_dev *dev)
{
	int ret;

	mutex_lock(&dev->vports.lock);
	fakernic_vports_forget_locked(&dev->vports);
	ret = fakernic_vports_write_locked(dev);
	mutex_unlock(&dev->vports.lock);
	return ret;
}

int fakernic_vport_get(struct fakernic_dev *dev, int vf,
		       struct fakernic_vport_settings *settings)
{
	struct fakernic_vports *vports = &dev->vports;

	if (vf < 0 || vf >= vports->count)
		return -EINVAL;
	spin_lock(&vports->settings_lock);
	*settings = vports->settings[vf];
	spin_unlock(&vports->settings_lock);
	return 0;
}

/* Copies what mask names. */
static void fakernic_vport_merge(struct fakernic_vport_settings *to, u32 mask,
				 const struct fakernic_vport_settings *from)
{
	if (mask & FAKERNIC_VPORT_MAC)
		ether_addr_copy(to->mac, from->mac);
	if (mask & FAKERNIC_VPORT_VLAN) {
		to->vid = from->vid;
		to->vlan_proto = from->vlan_proto;
		to->qos = from->qos;
	}
	if (mask & FAKERNIC_VPORT_LINK)
		to->link = from->link;
	if (mask & FAKERNIC_VPORT_SPOOF_CHECK)
		to->spoof_check = from->spoof_check;
	if (mask & FAKERNIC_VPORT_TRUST)
		to->trust = from->trust;
	if (mask & FAKERNIC_VPORT_RSS_QUERY)
		to->rss_query = from->rss_query;
	if (mask & FAKERNIC_VPORT_RATE) {
		to->min_mbps = from->min_mbps;
		to->max_mbps = from->max_mbps;
	}
}

int fakernic_vport_set(struct fakernic_dev *dev, int vf, u32 mask,
		       const struct fakernic_vport_settings *settings)
{
	struct fakernic_vports *vports = &dev->vports;
	struct fakernic_vport_settings merged;
	int ret;

	if (vf < 0 || vf >= vports->count)
		return -EINVAL;
	mutex_lock(&vports->lock);
	merged = vports->settings[vf];
	fakernic_vport_merge(&merged, mask, settings);
	ret = fakernic_vport_write(dev, vf, mask, &merged);
	if (!ret)
		fakernic_vport_keep(vports, vf, &merged);
	mutex_unlock(&vports->lock);
	return ret;
}

/* One command for all VFs: "ip link" asks for each. Caller holds the lock. */
static void fakernic_vports_query_locked(struct fakernic_dev *dev)
{
	struct fakernic_vports *vports = &dev->vports;
	const struct fakernic_query_vport_stats_req req = {
		.address = cpu_to_le64(vports->dma),
		.length = cpu_to_le32(fakernic_vport_stats_size(vports)),
		.first = cpu_to_le16(1),
		.counters = cpu_to_le16(FAKERNIC_VPORT_STAT_COUNT),
	};

	if (vports->queried &&
	    time_before(jiffies, vports->queried_at + FAKERNIC_VPORT_STATS_AGE))
		return;
	if (fakernic_cmd_vport_stats(dev, &req))
		return;
	vports->queried = true;
	vports->queried_at = jiffies;
}

int fakernic_vport_stats(struct fakernic_dev *dev, int vf, u64 *values)
{
	struct fakernic_vports *vports = &dev->vports;
	const __le64 *counters;
	u32 i;

	if (vf < 0 || vf >= vports->count)
		return -EINVAL;
	/* The caller holds RTNL, so it does not wait for the lock's owner. */
	if (mutex_trylock(&vports->lock)) {
		fakernic_vports_query_locked(dev);
		mutex_unlock(&vports->lock);
	}
	counters = &vports->counters[vf * FAKERNIC_VPORT_STAT_COUNT];
	for (i = 0; i < FAKERNIC_VPORT_STAT_COUNT; i++)
		values[i] = le64_to_cpu(READ_ONCE(counters[i]));
	return 0;
}
