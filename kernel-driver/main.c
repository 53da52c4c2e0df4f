// SPDX-License-Identifier: GPL-2.0-only
/*
 * The PCI driver: the device is brought up in stages, each of which a failure
 * of a later one undoes, and torn down in reverse. So it goes at probe and
 * remove, and around resets and sleep. Also: what is done about a device that
 * died (fatal_work), and shutdown.
 */
#include <linux/bitfield.h>
#include <linux/dma-mapping.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/xarray.h>
#include <fakernic/base.h>
#include <fakernic/regs.h>
#include "cmd.h"
#include "cmdq.h"
#include "cq.h"
#include "device.h"
#include "eq.h"
#include "gid.h"
#include "ibdev.h"
#include "netdev.h"
#include "odp.h"
#include "port.h"
#include "ptp.h"
#include "regs.h"

/*
 * The device is dead. It has been told to stop; whoever waits for it must hear
 * of it. Runs again whenever a kernel user posts work it will not get done.
 */
static void fakernic_fatal_work(struct work_struct *work)
{
	struct fakernic_dev *dev =
		container_of(work, struct fakernic_dev, fatal_work);

	fakernic_cqs_kick(dev);
	if (dev->fatal_told)
		return;
	dev->fatal_told = true;
	dev_err(&dev->pdev->dev,
		"device is out of operation; reload the driver to reset it\n");
	fakernic_port_fatal(dev);
}

static struct fakernic_dev *fakernic_alloc(struct pci_dev *pdev)
{
	struct fakernic_dev *dev = ib_alloc_device(fakernic_dev, ibdev);

	if (!dev)
		return NULL;
	dev->pdev = pdev;
	pci_set_drvdata(pdev, dev);
	INIT_WORK(&dev->fatal_work, fakernic_fatal_work);
	fakernic_port_init(dev);
	INIT_WORK(&dev->page_request_work, fakernic_page_request_work);
	mutex_init(&dev->gid_lock);
	mutex_init(&dev->cqs_lock);
	xa_init(&dev->cqs);
	xa_init(&dev->qps);
	xa_init(&dev->srqs);
	xa_init(&dev->counters);
	xa_init(&dev->odps);
	mutex_init(&dev->past_lock);
	return dev;
}

static void fakernic_free(struct fakernic_dev *dev)
{
	WARN_ON(!xa_empty(&dev->cqs));
	WARN_ON(!xa_empty(&dev->qps));
	WARN_ON(!xa_empty(&dev->srqs));
	WARN_ON(!xa_empty(&dev->counters));
	WARN_ON(!xa_empty(&dev->odps));
	pci_set_drvdata(dev->pdev, NULL);
	ib_dealloc_device(&dev->ibdev);
}

/* Stage 1: the function answers and can do DMA. */
static int fakernic_map_device(struct fakernic_dev *dev)
{
	struct pci_dev *pdev = dev->pdev;
	int ret;

	ret = pci_enable_device_mem(pdev);
	if (ret) {
		dev_err(&pdev->dev, "device cannot be enabled: %d\n", ret);
		return ret;
	}
	ret = pci_request_mem_regions(pdev, FAKERNIC_NAME);
	if (ret) {
		dev_err(&pdev->dev, "BARs are in use: %d\n", ret);
		goto err_disable;
	}
	ret = dma_set_mask_and_coherent(&pdev->dev, DMA_BIT_MASK(64));
	if (ret) {
		dev_err(&pdev->dev, "no 64-bit DMA: %d\n", ret);
		goto err_release;
	}
	/* Blocks of registered memory may be as large as they come. */
	dma_set_max_seg_size(&pdev->dev, UINT_MAX);
	/* What slot_reset goes back to. */
	pci_save_state(pdev);

	ret = -ENODEV;
	if (pci_resource_len(pdev, FAKERNIC_BAR_REGS) <
		    FAKERNIC_BAR_REGS_SIZE ||
	    pci_resource_len(pdev, FAKERNIC_BAR_UAR) < FAKERNIC_PAGE_SIZE) {
		dev_err(&pdev->dev, "BARs are missing or too small\n");
		goto err_release;
	}
	ret = -ENOMEM;
	dev->regs = pci_iomap_range(pdev, FAKERNIC_BAR_REGS, 0,
				    FAKERNIC_BAR_REGS_SIZE);
	if (!dev->regs)
		goto err_release;
	dev->uar_address = pci_resource_start(pdev, FAKERNIC_BAR_UAR);
	dev->uar = pci_iomap_range(pdev, FAKERNIC_BAR_UAR, 0,
				   FAKERNIC_PAGE_SIZE);
	if (!dev->uar)
		goto err_unmap;
	return 0;

err_unmap:
	pci_iounmap(pdev, dev->regs);
err_release:
	pci_release_mem_regions(pdev);
err_disable:
	pci_disable_device(pdev);
	return ret;
}

static void fakernic_unmap_device(struct fakernic_dev *dev)
{
	pci_iounmap(dev->pdev, dev->uar);
	pci_iounmap(dev->pdev, dev->regs);
	pci_release_mem_regions(dev->pdev);
	pci_disable_device(dev->pdev);
}

/* Undoes stage 2. Whoever still waits for a command is let go. */
static void fakernic_end_device(struct fakernic_dev *dev)
{
	fakernic_cmdq_end(dev);
	pci_clear_master(dev->pdev);
	/* The interrupts schedule the works, which use the event queues. */
	fakernic_eqs_silence(dev);
	cancel_work_sync(&dev->port.work);
	cancel_work_sync(&dev->page_request_work);
	cancel_work_sync(&dev->fatal_work);
	fakernic_eqs_cleanup(dev);
	fakernic_cmdq_cleanup(dev);
}

/* Stage 2: it is a fakernic we understand, and it executes commands. */
static int fakernic_start_device(struct fakernic_dev *dev)
{
	int ret;

	ret = fakernic_check_device(dev);
	if (ret)
		return ret;
	ret = fakernic_reset_device(dev);
	if (ret)
		return ret;
	ret = fakernic_negotiate(dev);
	if (ret)
		return ret;
	ret = fakernic_cmdq_init(dev);
	if (ret)
		return ret;
	ret = fakernic_eqs_init(dev);
	if (ret) {
		fakernic_cmdq_cleanup(dev);
		return ret;
	}
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
	fakernic_end_device(dev);
	return ret;
}

static int fakernic_bring_up(struct pci_dev *pdev)
{
	struct fakernic_dev *dev = fakernic_alloc(pdev);
	int ret;

	if (!dev)
		return -ENOMEM;
	ret = fakernic_map_device(dev);
	if (ret)
		goto err_free;
	ret = fakernic_start_device(dev);
	if (ret)
		goto err_unmap;
	ret = -ENOMEM;
	dev->gids = kvcalloc(le16_to_cpu(dev->caps.gid_count),
			     sizeof(*dev->gids), GFP_KERNEL);
	if (!dev->gids)
		goto err_end;
	fakernic_ptp_add(dev);
	ret = fakernic_netdev_add(dev);
	if (ret)
		goto err_remove_ptp;
	ret = fakernic_ib_add(dev);
	if (ret)
		goto err_remove_netdev;
	dev_info(&pdev->dev,
		 "%s and %s, %pM, interface %llu.%llu, features %#llx, %u vectors\n",
		 netdev_name(dev->netdev), dev_name(&dev->ibdev.dev),
		 dev->netdev->dev_addr,
		 FIELD_GET(FAKERNIC_VERSION_MAJOR, dev->interface_version),
		 FIELD_GET(FAKERNIC_VERSION_MINOR, dev->interface_version),
		 dev->features, dev->eq_count);
	return 0;

err_remove_netdev:
	fakernic_netdev_remove(dev);
err_remove_ptp:
	fakernic_ptp_remove(dev);
err_end:
	fakernic_end_device(dev);
	fakernic_netdev_free(dev);
	kvfree(dev->gids);
err_unmap:
	fakernic_unmap_device(dev);
err_free:
	fakernic_free(dev);
	return ret;
}

/* Undoes all of it, unless it has been undone and not done again. */
static void fakernic_tear_down(struct pci_dev *pdev)
{
	struct fakernic_dev *dev = pci_get_drvdata(pdev);

	if (!dev)
		return;
	/* Gone by surprise: nobody shall wait for answers. */
	if (fakernic_is_gone(dev))
		fakernic_cmdq_kill(dev);
	fakernic_ib_remove(dev);
	fakernic_netdev_remove(dev);
	fakernic_ptp_remove(dev);
	fakernic_end_device(dev);
	fakernic_netdev_free(dev);
	kvfree(dev->gids);
	fakernic_unmap_device(dev);
	fakernic_free(dev);
}

static int fakernic_probe(struct pci_dev *pdev,
			  const struct pci_device_id *id)
{
	return fakernic_bring_up(pdev);
}

static void fakernic_remove(struct pci_dev *pdev)
{
	fakernic_tear_down(pdev);
}

/* Before a reboot or kexec: no DMA into what comes next. */
static void fakernic_shutdown(struct pci_dev *pdev)
{
	struct fakernic_dev *dev = pci_get_drvdata(pdev);

	if (!dev)
		return;
	netif_device_detach(dev->netdev);
	fakernic_cmdq_end(dev);
	pci_clear_master(pdev);
}

/*
 * A reset of the function, a bus error, and sleep all make the device forget
 * everything. Applications are told as if it had been unplugged; afterwards it
 * is brought up anew.
 */
static void fakernic_reset_prepare(struct pci_dev *pdev)
{
	dev_info(&pdev->dev, "device is about to be reset\n");
	fakernic_tear_down(pdev);
}

static void fakernic_reset_done(struct pci_dev *pdev)
{
	int ret = fakernic_bring_up(pdev);

	if (ret)
		dev_err(&pdev->dev, "device did not survive a reset: %d\n",
			ret);
}

static pci_ers_result_t fakernic_error_detected(struct pci_dev *pdev,
						pci_channel_state_t state)
{
	struct fakernic_dev *dev = pci_get_drvdata(pdev);

	if (dev)
		fakernic_cmdq_kill(dev);
	fakernic_tear_down(pdev);
	return state == pci_channel_io_perm_failure ?
		PCI_ERS_RESULT_DISCONNECT : PCI_ERS_RESULT_NEED_RESET;
}

static pci_ers_result_t fakernic_slot_reset(struct pci_dev *pdev)
{
	pci_restore_state(pdev);
	pci_save_state(pdev);
	return PCI_ERS_RESULT_RECOVERED;
}

static const struct pci_error_handlers fakernic_error_handlers = {
	.error_detected = fakernic_error_detected,
	.slot_reset = fakernic_slot_reset,
	.resume = fakernic_reset_done,
	.reset_prepare = fakernic_reset_prepare,
	.reset_done = fakernic_reset_done,
};

static int fakernic_suspend(struct device *device)
{
	fakernic_tear_down(to_pci_dev(device));
	return 0;
}

static int fakernic_resume(struct device *device)
{
	return fakernic_bring_up(to_pci_dev(device));
}

static DEFINE_SIMPLE_DEV_PM_OPS(fakernic_pm_ops, fakernic_suspend,
				fakernic_resume);

static const struct pci_device_id fakernic_pci_ids[] = {
	{ PCI_DEVICE(FAKERNIC_PCI_VENDOR_ID, FAKERNIC_PCI_DEVICE_ID) },
	{}
};
MODULE_DEVICE_TABLE(pci, fakernic_pci_ids);

static struct pci_driver fakernic_pci_driver = {
	.name = FAKERNIC_NAME,
	.id_table = fakernic_pci_ids,
	.probe = fakernic_probe,
	.remove = fakernic_remove,
	.shutdown = fakernic_shutdown,
	.err_handler = &fakernic_error_handlers,
	.driver.pm = pm_sleep_ptr(&fakernic_pm_ops),
};
module_pci_driver(fakernic_pci_driver);

MODULE_DESCRIPTION("fakernic RoCEv2 NIC: Ethernet and RDMA driver");
MODULE_AUTHOR("The fakernic authors");
MODULE_LICENSE("GPL");
