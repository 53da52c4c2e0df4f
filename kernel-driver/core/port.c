// SPDX-License-Identifier: GPL-2.0-only
/*
 * The device's only port, which the net_device and the RDMA device share: its
 * link state, and the events when that changes. The RDMA port is active while
 * the device has a link and the net_device is up. While the net_device is down
 * the driver disables the device's port, which stops RDMA, as mlx5 does.
 * Replacing queues while the net_device stays up does not disable it.
 */
#include <rdma/ib_verbs.h>
#include <fakernic/cmdq.h>
#include <fakernic/regs.h>
#include "../compat/compat.h"
#include "cmd.h"
#include "device.h"
#include "port.h"
#include "trace.h"

static void fakernic_port_dispatch_locked(struct fakernic_dev *dev,
					  enum ib_event_type type)
{
	struct ib_event event = {
		.device = dev->ibdev,
		.event = type,
	};

	if (type != IB_EVENT_DEVICE_FATAL)
		event.element.port_num = FAKERNIC_PORT;
	if (dev->port.ib_registered)
		ib_dispatch_event(&event);
}

static void fakernic_port_set_carrier_locked(struct fakernic_dev *dev)
{
	if (dev->port.active && !dev->port.no_queues)
		netif_carrier_on(dev->netdev);
	else
		netif_carrier_off(dev->netdev);
}

/*
 * Updates carrier and RDMA port state. info: the device's answer, or NULL if
 * there is none; the device may have died since. Caller holds the lock.
 */
static void fakernic_port_update(struct fakernic_dev *dev,
				 const struct fakernic_query_port_resp *info)
{
	struct fakernic_port *port = &dev->port;
	bool link, active, changed;

	if (!port->netdev_registered)
		return;
	if (info) {
		port->info = *info;
		port->link = info->link_up;
	}
	link = port->link && !READ_ONCE(dev->dead);
	active = link && port->open && READ_ONCE(port->enabled);
	trace_fakernic_link(dev->pdev, link, active);
	changed = active != port->active;
	WRITE_ONCE(port->active, active);
	fakernic_port_set_carrier_locked(dev);
	if (changed)
		fakernic_port_dispatch_locked(dev, active ?
					      IB_EVENT_PORT_ACTIVE :
					      IB_EVENT_PORT_ERR);
}

/*
 * Schedules a retry after a failure: no other event may ever trigger one.
 * Caller holds query_lock.
 */
static void fakernic_port_schedule_retry(struct fakernic_dev *dev, int ret)
{
	struct fakernic_port *port = &dev->port;
	unsigned long pause;

	if (!ret || READ_ONCE(dev->dead)) {
		port->refusals = 0;
		return;
	}
	pause = fakernic_pause(port->refusals++);
	dev_err(&dev->pdev->dev,
		"port state cannot be set or queried: %d; next attempt in %u ms\n",
		ret, jiffies_to_msecs(pause));
	queue_delayed_work(system_dfl_wq, &port->work, pause);
}

/*
 * Enables or disables the port; without the feature it is always enabled.
 * Caller holds query_lock.
 */
static int fakernic_port_enable(struct fakernic_dev *dev)
{
	struct fakernic_port *port = &dev->port;
	const bool open = READ_ONCE(port->open);
	const struct fakernic_set_port_req req = {
		.mask = cpu_to_le32(FAKERNIC_PORT_ENABLED),
		.enabled = open,
	};
	int ret;

	if (!(dev->features & FAKERNIC_FEATURE_PORT_DISABLE) ||
	    port->enabled == open)
		return 0;
	ret = fakernic_cmd_set_port(dev, &req);
	if (!ret)
		WRITE_ONCE(port->enabled, open);
	return ret;
}

/*
 * query_lock is held during the commands, which may take long. It serializes
 * callers, so that no older answer is reported after a newer one.
 */
void fakernic_port_changed(struct fakernic_dev *dev)
{
	struct fakernic_port *port = &dev->port;
	struct fakernic_query_port_resp info;
	int ret;

	mutex_lock(&port->query_lock);
	ret = fakernic_port_enable(dev) ?: fakernic_cmd_query_port(dev, &info);
	mutex_lock(&port->lock);
	fakernic_port_update(dev, ret ? NULL : &info);
	mutex_unlock(&port->lock);
	fakernic_port_schedule_retry(dev, ret);
	mutex_unlock(&port->query_lock);
}

int fakernic_port_query(struct fakernic_dev *dev,
			struct fakernic_query_port_resp *info)
{
	int ret = fakernic_cmd_query_port_timed(dev, info);

	if (ret != -ETIMEDOUT && !(ret && READ_ONCE(dev->dead)))
		return ret;
	mutex_lock(&dev->port.lock);
	*info = dev->port.info;
	mutex_unlock(&dev->port.lock);
	return 0;
}

static void fakernic_port_work(struct work_struct *work)
{
	fakernic_port_changed(container_of(work, struct fakernic_dev,
					   port.work.work));
}

void fakernic_port_init(struct fakernic_dev *dev)
{
	mutex_init(&dev->port.query_lock);
	mutex_init(&dev->port.lock);
	INIT_DELAYED_WORK(&dev->port.work, fakernic_port_work);
}

void fakernic_port_begin(struct fakernic_dev *dev)
{
	mutex_lock(&dev->port.query_lock);
	WRITE_ONCE(dev->port.enabled, true);
	mutex_unlock(&dev->port.query_lock);
}

void fakernic_port_set_netdev(struct fakernic_dev *dev, bool registered)
{
	mutex_lock(&dev->port.lock);
	dev->port.netdev_registered = registered;
	mutex_unlock(&dev->port.lock);
}

void fakernic_port_set_ib(struct fakernic_dev *dev, bool registered)
{
	mutex_lock(&dev->port.lock);
	WRITE_ONCE(dev->port.ib_registered, registered);
	dev->port.fatal_dispatched = false;
	mutex_unlock(&dev->port.lock);
}

void fakernic_port_set_no_queues(struct fakernic_dev *dev, bool no_queues)
{
	struct fakernic_port *port = &dev->port;

	mutex_lock(&port->lock);
	if (port->netdev_registered && no_queues != port->no_queues) {
		port->no_queues = no_queues;
		fakernic_port_set_carrier_locked(dev);
	}
	mutex_unlock(&port->lock);
}

void fakernic_port_set_open(struct fakernic_dev *dev, bool open)
{
	mutex_lock(&dev->port.lock);
	WRITE_ONCE(dev->port.open, open);
	if (!open)
		netif_carrier_off(dev->netdev);
	mutex_unlock(&dev->port.lock);
	/* The caller holds RTNL, and a command may wait for a recovery. */
	mod_delayed_work(system_dfl_wq, &dev->port.work, 0);
}

void fakernic_port_end(struct fakernic_dev *dev)
{
	struct fakernic_port *port = &dev->port;

	mutex_lock(&port->lock);
	if (port->netdev_registered)
		netif_carrier_off(dev->netdev);
	port->link = false;
	WRITE_ONCE(port->active, false);
	if (READ_ONCE(dev->dead) && port->ib_registered &&
	    !port->fatal_dispatched) {
		port->fatal_dispatched = true;
		fakernic_port_dispatch_locked(dev, IB_EVENT_DEVICE_FATAL);
	}
	mutex_unlock(&port->lock);
}
