// SPDX-License-Identifier: GPL-2.0-only
/*
 * The life cycle of the hardware. To bring the device up, the driver resets
 * it and creates the command queue and the event queues. It then creates the
 * net_device's queues, attaches it and registers an RDMA device. Going down
 * undoes that in reverse. A dead device goes down the same way: its commands
 * fail at once, and the reset has already destroyed its objects.
 *
 * If the device does not come up again, the driver still registers both
 * interfaces: users then see a dead device instead of a missing one. The
 * interfaces have no queues and show the capabilities that were last read.
 *
 * life_lock is taken before RTNL and the RDMA core's locks. Code that runs
 * inside a command, an event handler or a verb never takes it.
 */
#include <linux/bitops.h>
#include <linux/delay.h>
#include <linux/jiffies.h>
#include <linux/pci.h>
#include <linux/xarray.h>
#include <fakernic/regs.h>
#include "core/cmd.h"
#include "core/cmdq.h"
#include "core/device.h"
#include "core/eq.h"
#include "core/port.h"
#include "core/regs.h"
#include "core/trace.h"
#include "core/vport.h"
#include "net/netdev.h"
#include "rdma/cq.h"
#include "rdma/ibdev.h"
#include "lifecycle.h"

#define FAKERNIC_BUS_TIMEOUT	(10 * HZ)

int fakernic_hw_start(struct fakernic_dev *dev)
{
	int ret;

	ret = fakernic_check_device(dev);
	if (ret)
		return ret;
	ret = fakernic_reset_device(dev);
	if (ret)
		return ret;
	fakernic_port_begin(dev);
	ret = fakernic_negotiate(dev);
	if (ret)
		return ret;
	ret = fakernic_eqs_init(dev);
	if (ret)
		return ret;
	pci_set_master(dev->pdev);
	ret = fakernic_cmdq_enable(dev);
	if (ret)
		goto err_end;
	ret = fakernic_cmd_nop(dev);
	if (ret) {
		dev_err(&dev->pdev->dev, "command queue test failed: %d\n",
			ret);
		goto err_end;
	}
	ret = fakernic_cmd_query_device(dev, &dev->caps);
	if (ret)
		goto err_end;
	/* An FLR of the PF has reset the settings of vports. */
	ret = fakernic_vports_restore(dev);
	if (ret)
		goto err_end;
	ret = fakernic_eqs_create(dev);
	if (ret)
		goto err_end;
	return 0;

err_end:
	fakernic_hw_stop(dev);
	return ret;
}

/*
 * All objects must be destroyed by now. After the reset the device assigns
 * their numbers again.
 */
static void fakernic_check_empty(struct xarray *all)
{
	if (WARN_ON(!xa_empty(all)))
		xa_destroy(all);
}

void fakernic_hw_stop(struct fakernic_dev *dev)
{
	/* Callers that still wait for a command fail. */
	fakernic_cmdq_end(dev);
	pci_clear_master(dev->pdev);
	/* Interrupts queue the works below, and these use the event queues. */
	fakernic_eqs_free_irqs(dev);
	cancel_delayed_work_sync(&dev->port.work);
	/* The work may have set the link up again in the meantime. */
	fakernic_port_end(dev);
	cancel_delayed_work_sync(&dev->page_request_work);
	cancel_work_sync(&dev->fatal_work);
	fakernic_eqs_cleanup(dev);
	fakernic_check_empty(&dev->cqs);
	fakernic_check_empty(&dev->qps);
	fakernic_check_empty(&dev->srqs);
	fakernic_check_empty(&dev->counters);
	fakernic_check_empty(&dev->odps);
}

int fakernic_hw_register(struct fakernic_dev *dev)
{
	int ret;

	ret = fakernic_netdev_attach(dev);
	if (ret)
		return ret;
	ret = fakernic_ib_add(dev);
	if (ret) {
		fakernic_netdev_detach(dev);
		return ret;
	}
	dev->up = true;
	/* fatal_work reports the next death, or one during the bring-up. */
	WRITE_ONCE(dev->death_reported, false);
	/*
	 * Stores death_reported before it loads dead. Pairs with queue_work()
	 * after dead is set: either this code sees dead, or fatal_work sees
	 * that death_reported is false.
	 */
	smp_mb();
	if (READ_ONCE(dev->dead))
		queue_work(dev->fatal_wq, &dev->fatal_work);
	return 0;
}

/* Never returns -EBUSY: callers take that for "nothing to do". */
static int fakernic_hw_bring_up(struct fakernic_dev *dev)
{
	int ret;

	ret = fakernic_hw_start(dev);
	if (!ret) {
		ret = fakernic_hw_register(dev);
		trace_fakernic_life(dev->pdev, "brought up", ret);
		if (ret)
			fakernic_hw_stop(dev);
	}
	return ret == -EBUSY ? -EIO : ret;
}

static void fakernic_hw_tear_down(struct fakernic_dev *dev, bool gently)
{
	if (!dev->up)
		return;
	dev->up = false;
	trace_fakernic_life(dev->pdev, "torn down", 0);
	if (!gently || fakernic_cmdq_check(dev)) {
		fakernic_cmdq_end(dev);
		fakernic_cqs_kick(dev);
	}
	fakernic_port_end(dev);
	fakernic_ib_remove(dev);
	fakernic_netdev_detach(dev);
	fakernic_hw_stop(dev);
}

void fakernic_hw_announce(struct fakernic_dev *dev,
			  enum fakernic_quiesce_reason reason)
{
	if (reason == FAKERNIC_QUIESCE_BUS)
		WRITE_ONCE(dev->bus_error_at, jiffies);
	set_bit(reason, &dev->quiesced);
}

/*
 * A suspend and a bus error leave a device alone that was already dead. It
 * has been stopped, and devlink's settings decide whether it is recovered.
 */
static bool fakernic_hw_stays_dead(struct fakernic_dev *dev,
				   enum fakernic_quiesce_reason reason)
{
	return dev->was_dead && (reason == FAKERNIC_QUIESCE_SUSPEND ||
				 reason == FAKERNIC_QUIESCE_BUS);
}

void fakernic_hw_quiesce(struct fakernic_dev *dev,
			 enum fakernic_quiesce_reason reason, bool gently)
{
	/* First, because the lock's owner may be waiting for a command. */
	fakernic_hw_announce(dev, reason);
	mutex_lock(&dev->life_lock);
	if (dev->up || READ_ONCE(dev->quiesced) == BIT(reason))
		dev->was_dead = READ_ONCE(dev->dead);
	if (!fakernic_hw_stays_dead(dev, reason))
		fakernic_hw_tear_down(dev, gently);
	mutex_unlock(&dev->life_lock);
}

bool fakernic_hw_must_wait(struct fakernic_dev *dev)
{
	unsigned long reasons = READ_ONCE(dev->quiesced);

	if (reasons == BIT(FAKERNIC_QUIESCE_BUS))
		return time_before(jiffies, READ_ONCE(dev->bus_error_at) +
						    FAKERNIC_BUS_TIMEOUT);
	return reasons;
}

/*
 * Stops waiting for the bus: it did not resume the device in time, or a user
 * does not wait. Linux may have marked the device as absent. If it still
 * answers, the mark is cleared so that the device can be used.
 */
static void fakernic_hw_abandon_bus(struct fakernic_dev *dev)
{
	struct pci_dev *pdev = dev->pdev;
	/* A VF has no ids of its own. */
	struct pci_dev *pf = pci_physfn(pdev);
	u32 id;

	if (!test_and_clear_bit(FAKERNIC_QUIESCE_BUS, &dev->quiesced))
		return;
	dev_info(&pdev->dev, "no recovery after the bus error\n");
	/* pci_read_config_dword() does not read a device so marked. */
	if (!pci_bus_read_config_dword(pf->bus, pf->devfn, PCI_VENDOR_ID,
				       &id) &&
	    id == (pf->vendor | (u32)pf->device << 16))
		pdev->error_state = pci_channel_io_normal;
}

/* Issues a Function Level Reset and restores the configuration space. */
static int fakernic_hw_reset_function(struct fakernic_dev *dev)
{
	struct pci_dev *pdev = dev->pdev;
	int ret;

	if (!pci_device_is_present(pdev))
		return -ENODEV;
	dev_info(&pdev->dev, "issuing a function level reset\n");
	ret = pcie_flr(pdev);
	trace_fakernic_life(pdev, "function reset", ret);
	pci_load_saved_state(pdev, dev->saved_state);
	pci_restore_state(pdev);
	return ret;
}

/*
 * Tests whether the device would come up, then stops it again. To all other
 * code it remains dead, so the RDMA device and the net_device can stay.
 */
static int fakernic_hw_test(struct fakernic_dev *dev)
{
	int ret;

	if (fakernic_is_gone(dev))
		return -ENODEV;
	ret = fakernic_reset_device(dev);
	if (ret)
		return ret;
	fakernic_eqs_reset(dev);
	ret = fakernic_negotiate(dev);
	if (ret)
		return ret;
	pci_set_master(dev->pdev);
	ret = fakernic_cmdq_test(dev);
	fakernic_stop_device(dev);
	pci_clear_master(dev->pdev);
	trace_fakernic_life(dev->pdev, "tested", ret);
	return ret;
}

/*
 * Registers both interfaces of a device that did not come up and has been
 * stopped. Users then see a dead device instead of a missing one.
 */
static void fakernic_hw_register_dead(struct fakernic_dev *dev)
{
	int ret;

	/* No other code writes the cause while the device is down. */
	if (dev->health.cause == FAKERNIC_DEATH_NONE)
		dev->health.cause = FAKERNIC_DEATH_BRING_UP;
	fakernic_netdev_attach_dead(dev);
	ret = fakernic_ib_add(dev);
	trace_fakernic_life(dev->pdev, "registered as dead", ret);
	if (ret)
		fakernic_netdev_detach(dev);
	else
		dev->up = true;
}

/*
 * A dead device keeps its interfaces until the reset device has executed a
 * NOP, so a failed recovery does not remove them.
 */
static int fakernic_hw_replace(struct fakernic_dev *dev)
{
	int ret;

	ret = fakernic_hw_test(dev);
	if (ret)
		ret = fakernic_hw_reset_function(dev) ?:
		      fakernic_hw_test(dev);
	if (!ret)
		fakernic_hw_tear_down(dev, false);
	return ret;
}

static int fakernic_hw_recover_locked(struct fakernic_dev *dev)
{
	int ret;

	if (dev->up && !READ_ONCE(dev->dead))
		return 0;
	ret = dev->up ? fakernic_hw_replace(dev) : 0;
	if (ret)
		return ret == -EBUSY ? -EIO : ret;
	ret = fakernic_is_gone(dev) ? -ENODEV : fakernic_hw_bring_up(dev);
	if (ret)
		ret = fakernic_hw_reset_function(dev) ?:
		      fakernic_hw_bring_up(dev);
	if (ret)
		fakernic_hw_register_dead(dev);
	return ret;
}

int fakernic_hw_resume(struct fakernic_dev *dev,
		       enum fakernic_quiesce_reason reason)
{
	int ret = -EBUSY;

	mutex_lock(&dev->life_lock);
	if (!fakernic_hw_stays_dead(dev, reason))
		dev->was_dead = false;
	/* After a reset or reload by a user, do not wait for the bus. */
	if (reason == FAKERNIC_QUIESCE_RELOAD ||
	    reason == FAKERNIC_QUIESCE_RESET)
		fakernic_hw_abandon_bus(dev);
	if (test_and_clear_bit(reason, &dev->quiesced) &&
	    !READ_ONCE(dev->quiesced) && !dev->was_dead)
		ret = fakernic_hw_recover_locked(dev);
	mutex_unlock(&dev->life_lock);
	return ret;
}

int fakernic_hw_recover(struct fakernic_dev *dev, bool by_user)
{
	int ret = -EBUSY;

	mutex_lock(&dev->life_lock);
	if (by_user || !fakernic_hw_must_wait(dev))
		fakernic_hw_abandon_bus(dev);
	if (!READ_ONCE(dev->quiesced))
		ret = fakernic_hw_recover_locked(dev);
	mutex_unlock(&dev->life_lock);
	return ret;
}

void fakernic_hw_abandon(struct fakernic_dev *dev)
{
	mutex_lock(&dev->life_lock);
	if (!dev->up && !fakernic_hw_must_wait(dev))
		fakernic_hw_register_dead(dev);
	mutex_unlock(&dev->life_lock);
}
