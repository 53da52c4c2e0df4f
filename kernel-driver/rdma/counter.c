// SPDX-License-Identifier: GPL-2.0-only
/*
 * Hardware counters of the RDMA core: those of the port, those of the device,
 * and sets bound to QPs ("rdma statistic qp"). A set has the same counters as
 * the port and counts for the QPs bound to it.
 *
 * The core reports the port's value as the sum of the driver's value and all
 * sets, including freed ones. The device's port counters count everything, so
 * the driver subtracts what the sets have counted.
 */
#include <linux/slab.h>
#include <linux/xarray.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_counter.h>
#include <fakernic/cmdq.h>
#include <fakernic/regs.h>
#include <fakernic/stats.h>
#include "../core/cmd.h"
#include "../core/cmdq.h"
#include "../core/device.h"
#include "../core/stats.h"
#include "counter.h"
#include "qp.h"

static struct rdma_stat_desc fakernic_port_stats[FAKERNIC_PORT_STAT_COUNT];
static struct rdma_stat_desc fakernic_device_stats[FAKERNIC_DEVICE_STAT_COUNT];

struct rdma_hw_stats *fakernic_alloc_hw_port_stats(struct ib_device *ibdev,
						   u32 port)
{
	int i, n = 0;

	for (i = 0; i < FAKERNIC_STAT_COUNT; i++)
		if (!fakernic_stat_is_devices(i))
			fakernic_port_stats[n++].name = fakernic_stat_names[i];
	return rdma_alloc_hw_stats_struct(fakernic_port_stats, n,
					  RDMA_HW_STATS_DEFAULT_LIFESPAN);
}

struct rdma_hw_stats *fakernic_alloc_hw_device_stats(struct ib_device *ibdev)
{
	int i, n = 0;

	for (i = 0; i < FAKERNIC_STAT_COUNT; i++)
		if (fakernic_stat_is_devices(i))
			fakernic_device_stats[n++].name =
				fakernic_stat_names[i];
	return rdma_alloc_hw_stats_struct(fakernic_device_stats, n,
					  RDMA_HW_STATS_DEFAULT_LIFESPAN);
}

struct rdma_hw_stats *
fakernic_counter_alloc_stats(struct rdma_counter *counter)
{
	return fakernic_alloc_hw_port_stats(counter->device, counter->port);
}

static int fakernic_counter_bind_locked(struct fakernic_dev *dev,
					struct rdma_counter *counter,
					struct ib_qp *ibqp)
{
	bool new = !counter->id;
	u32 id = counter->id;
	int ret;

	/*
	 * Two callers may bind the QP at the same time: the core checks for a
	 * set before it takes a lock of the QP, and would later release only
	 * one of the two sets.
	 */
	if (ibqp->counter)
		return -EINVAL;
	if (new) {
		ret = fakernic_cmd_alloc(dev, FAKERNIC_CMD_CREATE_COUNTER, &id);
		if (ret)
			return ret;
		ret = xa_insert(&dev->counters, id, counter, GFP_KERNEL);
		if (ret)
			goto err_destroy;
	}
	ret = fakernic_cmd_set_qp_counter(dev, ibqp->qp_num, id);
	if (ret)
		goto err_erase;
	counter->id = id;
	ibqp->counter = counter;
	return 0;

err_erase:
	if (new)
		xa_erase(&dev->counters, id);
err_destroy:
	if (new)
		fakernic_cmd_drop(dev, FAKERNIC_CMD_DESTROY_COUNTER, id);
	return ret;
}

/* The first bind allocates the set's number. */
int fakernic_counter_bind_qp(struct rdma_counter *counter, struct ib_qp *ibqp,
			     u32 port)
{
	struct fakernic_qp *qp = to_fakernic_qp(ibqp);
	int ret;

	mutex_lock(&qp->lock);
	ret = fakernic_counter_bind_locked(to_fakernic_dev(ibqp->device),
					   counter, ibqp);
	mutex_unlock(&qp->lock);
	return ret;
}

int fakernic_counter_unbind_qp(struct ib_qp *ibqp, u32 port)
{
	struct fakernic_dev *dev = to_fakernic_dev(ibqp->device);
	struct fakernic_qp *qp = to_fakernic_qp(ibqp);
	int ret = 0;

	mutex_lock(&qp->lock);
	if (!ibqp->counter) {
		/* Two unbinds at once: the core would release it twice. */
		ret = -EINVAL;
	} else {
		/* The core unbinds a destroyed QP even if this fails. */
		if (fakernic_cmd_set_qp_counter(dev, ibqp->qp_num, 0))
			fakernic_cmdq_kill(dev, FAKERNIC_DEATH_NOT_RELEASED);
		ibqp->counter = NULL;
	}
	mutex_unlock(&qp->lock);
	return ret;
}

/* Reads a set's values in the order of the port's statistics. */
static int fakernic_read_counter(struct fakernic_dev *dev, u32 id, u64 *values)
{
	u64 *all;
	int i, ret, n = 0;

	all = kcalloc(FAKERNIC_STAT_COUNT, sizeof(*all), GFP_KERNEL);
	if (!all)
		return -ENOMEM;
	ret = fakernic_query_stats(dev, id, all);
	for (i = 0; !ret && i < FAKERNIC_STAT_COUNT; i++)
		if (!fakernic_stat_is_devices(i))
			values[n++] = all[i];
	kfree(all);
	return ret;
}

/*
 * The core omits a set from the port's sum if its update fails, so the sum
 * would decrease. On a timeout the last values therefore stay valid.
 */
int fakernic_counter_update_stats(struct rdma_counter *counter)
{
	int ret = fakernic_read_counter(to_fakernic_dev(counter->device),
					counter->id, counter->stats->value);

	return ret == -ETIMEDOUT ? 0 : ret;
}

/* The core has updated the set and added its values to its own history. */
int fakernic_counter_dealloc(struct rdma_counter *counter)
{
	struct fakernic_dev *dev = to_fakernic_dev(counter->device);
	int i;

	if (!counter->id)
		return 0;
	mutex_lock(&dev->past_lock);
	for (i = 0; i < counter->stats->num_counters; i++)
		dev->past[i] += counter->stats->value[i];
	xa_erase(&dev->counters, counter->id);
	mutex_unlock(&dev->past_lock);
	fakernic_cmd_drop(dev, FAKERNIC_CMD_DESTROY_COUNTER, counter->id);
	return 0;
}

/* Subtracts the values of freed and existing sets from the port's values. */
static int fakernic_subtract_counters(struct fakernic_dev *dev, u64 *values)
{
	struct rdma_counter *counter;
	unsigned long id;
	u64 *set;
	int i, ret = 0;

	set = kcalloc(FAKERNIC_STAT_COUNT, sizeof(*set), GFP_KERNEL);
	if (!set)
		return -ENOMEM;
	mutex_lock(&dev->past_lock);
	for (i = 0; i < FAKERNIC_PORT_STAT_COUNT; i++)
		values[i] -= dev->past[i];
	xa_for_each(&dev->counters, id, counter) {
		ret = fakernic_read_counter(dev, id, set);
		if (ret)
			break;
		for (i = 0; i < FAKERNIC_PORT_STAT_COUNT; i++)
			values[i] -= set[i];
	}
	mutex_unlock(&dev->past_lock);
	kfree(set);
	return ret;
}

int fakernic_get_hw_stats(struct ib_device *ibdev, struct rdma_hw_stats *stats,
			  u32 port, int index)
{
	struct fakernic_dev *dev = to_fakernic_dev(ibdev);
	u64 *values;
	int i, ret, n = 0;

	values = kcalloc(FAKERNIC_STAT_COUNT, sizeof(*values), GFP_KERNEL);
	if (!values)
		return -ENOMEM;
	ret = fakernic_query_stats(dev, 0, values);
	for (i = 0; !ret && i < FAKERNIC_STAT_COUNT; i++)
		if (fakernic_stat_is_devices(i) == !port)
			stats->value[n++] = values[i];
	kfree(values);
	/*
	 * The core reads the counters when it registers the device and fails
	 * on an error. A slow or dead device must still be registered.
	 */
	if ((ret == -ETIMEDOUT || READ_ONCE(dev->dead)) &&
	    !READ_ONCE(dev->port.ib_registered))
		return stats->num_counters;
	if (!ret && port && dev->features & FAKERNIC_FEATURE_COUNTERS)
		ret = fakernic_subtract_counters(dev, stats->value);
	return ret ? ret : n;
}
