// SPDX-License-Identifier: GPL-2.0-only
/*
 * The life of the hardware. Going up it is reset, gets the command queue and
 * the event queues, then its two faces: queues for the net_device, which has
 * waited detached, and an RDMA device. Going down undoes that in reverse. A
 * dead device goes down as a living one does: its commands fail at once, and
 * whatever is destroyed is gone already. One that was to come up again and did
 * not has both faces, too, to say that it is dead: without queues, and with
 * what the device said of itself when it last lived.
 *
 * life_lock is taken before RTNL and the core's locks, and by nobody from
 * within a command, an event, or a verb.
 */
#include <linux/bitops.h>
#include <linux/delay.h>
#include <linux/jiffies.h>
#include <linux/pci.h>
#include <linux/xarray.h>
#include <fakernic/regs.h>
#include "cmd.h"
#include "cmdq.h"
#include "cq.h"
#include "device.h"
#include "eq.h"
#include "ibdev.h"
#include "life.h"
#include "netdev.h"
#include "port.h"
#include "regs.h"
#include "trace.h"

#define FAKERNIC_BUS_PATIENCE	(10 * HZ)

int fakernic_life_start(struct fakernic_dev *dev)
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
		dev_err(&dev->pdev->dev, "command queue does not work: %d\n",
			ret);
		goto err_end;
	}
	ret = fakernic_cmd_query_device(dev, &dev->caps);
	if (ret)
		goto err_end;
	ret = fakernic_eqs_create(dev);
	if (ret)
		goto err_end;
	return 0;

err_end:
	fakernic_life_end(dev);
	return ret;
}

/* All users are gone. In the next life numbers are others'. */
static void fakernic_life_owes_nothing(struct xarray *all)
{
	if (WARN_ON(!xa_empty(all)))
		xa_destroy(all);
}

void fakernic_life_end(struct fakernic_dev *dev)
{
	/* Whoever still waits for a command is let go. */
	fakernic_cmdq_end(dev);
	pci_clear_master(dev->pdev);
	/* The interrupts schedule the works, which use the event queues. */
	fakernic_eqs_silence(dev);
	cancel_delayed_work_sync(&dev->port.work);
	/* It may have found a link since the hardware began to go down. */
	fakernic_port_end(dev);
	cancel_delayed_work_sync(&dev->page_request_work);
	cancel_work_sync(&dev->fatal_work);
	fakernic_eqs_cleanup(dev);
	fakernic_life_owes_nothing(&dev->cqs);
	fakernic_life_owes_nothing(&dev->qps);
	fakernic_life_owes_nothing(&dev->srqs);
	fakernic_life_owes_nothing(&dev->counters);
	fakernic_life_owes_nothing(&dev->odps);
}

int fakernic_life_show(struct fakernic_dev *dev)
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
	/* What dies from now on was alive; what died meanwhile is told now. */
	WRITE_ONCE(dev->fatal_told, false);
	/* Pairs with queue_work(), after dead was set: one sees the other. */
	smp_mb();
	if (READ_ONCE(dev->dead))
		queue_work(dev->fatal_wq, &dev->fatal_work);
	return 0;
}

/* Never -EBUSY, which would say that there was nothing to be done. */
static int fakernic_life_up(struct fakernic_dev *dev)
{
	int ret;

	ret = fakernic_life_start(dev);
	if (!ret) {
		ret = fakernic_life_show(dev);
		trace_fakernic_life(dev->pdev, "comes up", ret);
		if (ret)
			fakernic_life_end(dev);
	}
	return ret == -EBUSY ? -EIO : ret;
}

static void fakernic_life_down(struct fakernic_dev *dev, bool gently)
{
	if (!dev->up)
		return;
	dev->up = false;
	trace_fakernic_life(dev->pdev, "goes down", 0);
	if (!gently || fakernic_cmdq_check(dev)) {
		fakernic_cmdq_end(dev);
		fakernic_cqs_kick(dev);
	}
	fakernic_port_end(dev);
	fakernic_ib_remove(dev);
	fakernic_netdev_detach(dev);
	fakernic_life_end(dev);
}

void fakernic_life_claim(struct fakernic_dev *dev,
			 enum fakernic_holder holder)
{
	if (holder == FAKERNIC_HELD_BY_BUS)
		WRITE_ONCE(dev->bus_held_at, jiffies);
	set_bit(holder, &dev->held);
}

/*
 * Sleep and the bus leave one that was dead as they have found it: it has been
 * stopped, and whether it is to be recovered only devlink knows.
 */
static bool fakernic_life_leaves(struct fakernic_dev *dev,
				 enum fakernic_holder holder)
{
	return dev->found_dead && (holder == FAKERNIC_HELD_BY_SLEEP ||
				   holder == FAKERNIC_HELD_BY_BUS);
}

void fakernic_life_hold(struct fakernic_dev *dev, enum fakernic_holder holder,
			bool gently)
{
	/* Whoever has the lock may wait for a command. */
	fakernic_life_claim(dev, holder);
	mutex_lock(&dev->life_lock);
	if (dev->up || READ_ONCE(dev->held) == BIT(holder))
		dev->found_dead = READ_ONCE(dev->dead);
	if (!fakernic_life_leaves(dev, holder))
		fakernic_life_down(dev, gently);
	mutex_unlock(&dev->life_lock);
}

bool fakernic_life_is_held(struct fakernic_dev *dev)
{
	unsigned long held = READ_ONCE(dev->held);

	if (held == BIT(FAKERNIC_HELD_BY_BUS))
		return time_before(jiffies, READ_ONCE(dev->bus_held_at) +
						    FAKERNIC_BUS_PATIENCE);
	return held;
}

/*
 * The bus has given up, or a user will not wait for it. Linux may have marked
 * the device as gone; if it is there after all it can be used.
 */
static void fakernic_life_take_over(struct fakernic_dev *dev)
{
	struct pci_dev *pdev = dev->pdev;
	u32 id;

	if (!test_and_clear_bit(FAKERNIC_HELD_BY_BUS, &dev->held))
		return;
	dev_info(&pdev->dev, "nothing was heard after the bus error\n");
	/* Not pci_read_config_dword(), which asks nobody when it is marked. */
	if (!pci_bus_read_config_dword(pdev->bus, pdev->devfn, PCI_VENDOR_ID,
				       &id) &&
	    id == (pdev->vendor | (u32)pdev->device << 16))
		pdev->error_state = pci_channel_io_normal;
}

/* A Function Level Reset, from which it comes back as it was configured. */
static int fakernic_life_reset_function(struct fakernic_dev *dev)
{
	struct pci_dev *pdev = dev->pdev;
	int ret;

	if (!pci_device_is_present(pdev))
		return -ENODEV;
	dev_info(&pdev->dev, "resetting the function\n");
	ret = pcie_flr(pdev);
	trace_fakernic_life(pdev, "function is reset", ret);
	pci_load_saved_state(pdev, dev->saved_state);
	pci_restore_state(pdev);
	return ret;
}

/*
 * Would it come up? For all others it remains dead, and stopped: the RDMA
 * device and the net_device tell them so.
 */
static int fakernic_life_try(struct fakernic_dev *dev)
{
	int ret;

	if (fakernic_is_gone(dev))
		return -ENODEV;
	ret = fakernic_reset_device(dev);
	if (ret)
		return ret;
	fakernic_eqs_forget(dev);
	ret = fakernic_negotiate(dev);
	if (ret)
		return ret;
	pci_set_master(dev->pdev);
	ret = fakernic_cmdq_try(dev);
	fakernic_stop_device(dev);
	pci_clear_master(dev->pdev);
	trace_fakernic_life(dev->pdev, "is tried", ret);
	return ret;
}

/*
 * It did not come up, and has been stopped. Who asks for it is to hear that,
 * and not that there is no such device.
 */
static void fakernic_life_show_dead(struct fakernic_dev *dev)
{
	int ret;

	/* Nobody else writes it while it is down. */
	if (dev->health.cause == FAKERNIC_DEATH_NONE)
		dev->health.cause = FAKERNIC_DEATH_UNBORN;
	fakernic_netdev_attach_dead(dev);
	ret = fakernic_ib_add(dev);
	trace_fakernic_life(dev->pdev, "is shown dead", ret);
	if (ret)
		fakernic_netdev_detach(dev);
	else
		dev->up = true;
}

/*
 * What there is of a dead device stays until another one can take its place, as
 * far as a NOP can tell.
 */
static int fakernic_life_replace(struct fakernic_dev *dev)
{
	int ret;

	ret = fakernic_life_try(dev);
	if (ret)
		ret = fakernic_life_reset_function(dev) ?:
		      fakernic_life_try(dev);
	if (!ret)
		fakernic_life_down(dev, false);
	return ret;
}

static int fakernic_life_recover_locked(struct fakernic_dev *dev)
{
	int ret;

	if (dev->up && !READ_ONCE(dev->dead))
		return 0;
	ret = dev->up ? fakernic_life_replace(dev) : 0;
	if (ret)
		return ret == -EBUSY ? -EIO : ret;
	ret = fakernic_is_gone(dev) ? -ENODEV : fakernic_life_up(dev);
	if (ret)
		ret = fakernic_life_reset_function(dev) ?:
		      fakernic_life_up(dev);
	if (ret)
		fakernic_life_show_dead(dev);
	return ret;
}

int fakernic_life_go_on(struct fakernic_dev *dev,
			enum fakernic_holder holder)
{
	int ret = -EBUSY;

	mutex_lock(&dev->life_lock);
	if (!fakernic_life_leaves(dev, holder))
		dev->found_dead = false;
	/* A user who had it reset or reloaded does not wait for the bus. */
	if (holder == FAKERNIC_HELD_BY_RELOAD ||
	    holder == FAKERNIC_HELD_BY_RESET)
		fakernic_life_take_over(dev);
	if (test_and_clear_bit(holder, &dev->held) && !READ_ONCE(dev->held) &&
	    !dev->found_dead)
		ret = fakernic_life_recover_locked(dev);
	mutex_unlock(&dev->life_lock);
	return ret;
}

int fakernic_life_recover(struct fakernic_dev *dev, bool asked)
{
	int ret = -EBUSY;

	mutex_lock(&dev->life_lock);
	if (asked || !fakernic_life_is_held(dev))
		fakernic_life_take_over(dev);
	if (!READ_ONCE(dev->held))
		ret = fakernic_life_recover_locked(dev);
	mutex_unlock(&dev->life_lock);
	return ret;
}

void fakernic_life_give_up(struct fakernic_dev *dev)
{
	mutex_lock(&dev->life_lock);
	if (!dev->up && !fakernic_life_is_held(dev))
		fakernic_life_show_dead(dev);
	mutex_unlock(&dev->life_lock);
}
