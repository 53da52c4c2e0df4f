// SPDX-License-Identifier: GPL-2.0-only
/*
 * The PCI driver. Probe brings the device up in stages; if a stage fails, the
 * earlier ones are undone. Remove undoes all stages in reverse. A reset or a
 * suspend only takes the hardware down and up (lifecycle.c).
 */
#include <linux/bitfield.h>
#include <linux/dma-direct.h>
#include <linux/dma-mapping.h>
#include <linux/iommu.h>
#include <linux/module.h>
#include <linux/rtnetlink.h>
#include <linux/slab.h>
#include <linux/xarray.h>
#include <fakernic/base.h>
#include <fakernic/regs.h>
#include "core/cmdq.h"
#include "core/device.h"
#include "core/gid.h"
#include "core/port.h"
#include "core/stats.h"
#include "core/vport.h"
#include "net/netdev.h"
#include "net/ptp.h"
#include "rdma/odp.h"
#include "lifecycle.h"

static struct fakernic_dev *fakernic_alloc(struct pci_dev *pdev)
{
	struct fakernic_dev *dev = kzalloc(sizeof(*dev), GFP_KERNEL);

	if (!dev)
		return NULL;
	dev->pdev = pdev;
	fakernic_port_init(dev);
	mutex_init(&dev->vports.lock);
	spin_lock_init(&dev->vports.settings_lock);
	INIT_DELAYED_WORK(&dev->page_request_work, fakernic_page_request_work);
	mutex_init(&dev->gid_lock);
	mutex_init(&dev->cqs_lock);
	mutex_init(&dev->life_lock);
	fakernic_dump_init(dev);
	xa_init(&dev->cqs);
	xa_init(&dev->qps);
	xa_init(&dev->srqs);
	xa_init(&dev->counters);
	xa_init(&dev->odps);
	mutex_init(&dev->past_lock);
	dev->odp_wq = alloc_workqueue("fakernic-odp", WQ_UNBOUND, 0);
	if (!dev->odp_wq || fakernic_health_init(dev)) {
		if (dev->odp_wq)
			destroy_workqueue(dev->odp_wq);
		kfree(dev);
		return NULL;
	}
	strscpy(dev->ib_desc, FAKERNIC_NAME, sizeof(dev->ib_desc));
	pci_set_drvdata(pdev, dev);
	return dev;
}

static void fakernic_free(struct fakernic_dev *dev)
{
	pci_set_drvdata(dev->pdev, NULL);
	fakernic_health_cleanup(dev);
	destroy_workqueue(dev->odp_wq);
	kfree(dev);
}

/*
 * Returns true if the kernel copies all DMA through bounce buffers, as it does
 * with "swiotlb=force" and in confidential guests. Behind an IOMMU the DMA
 * address is first translated back to a physical one.
 */
static bool fakernic_dma_bounces(struct device *device)
{
	struct iommu_domain *domain = iommu_get_domain_for_dev(device);
	struct page *page = alloc_page(GFP_KERNEL);
	bool bounces = false;
	dma_addr_t dma;

	if (!page)
		return false;
	dma = dma_map_page(device, page, 0, PAGE_SIZE, DMA_BIDIRECTIONAL);
	if (!dma_mapping_error(device, dma)) {
		phys_addr_t at = domain ? iommu_iova_to_phys(domain, dma) :
					  dma_to_phys(device, dma);

		bounces = at != page_to_phys(page);
		dma_unmap_page(device, dma, PAGE_SIZE, DMA_BIDIRECTIONAL);
	}
	__free_page(page);
	return bounces;
}

/* Stage 1: enable the function, map its BARs and set up DMA. */
static int fakernic_map_device(struct fakernic_dev *dev)
{
	struct pci_dev *pdev = dev->pdev;
	int ret;

	ret = pci_enable_device_mem(pdev);
	if (ret) {
		dev_err(&pdev->dev, "PCI device cannot be enabled: %d\n", ret);
		return ret;
	}
	ret = pci_request_mem_regions(pdev, FAKERNIC_NAME);
	if (ret) {
		dev_err(&pdev->dev, "BARs are in use by another driver: %d\n", ret);
		goto err_disable;
	}
	ret = dma_set_mask_and_coherent(&pdev->dev, DMA_BIT_MASK(64));
	if (ret) {
		dev_err(&pdev->dev, "64-bit DMA mask refused: %d\n", ret);
		goto err_release;
	}
	/* A block of registered memory has no size limit. */
	dma_set_max_seg_size(&pdev->dev, UINT_MAX);
	dev->bounced = fakernic_dma_bounces(&pdev->dev);
	/* slot_reset and a recovery restore this state. */
	pci_save_state(pdev);
	dev->saved_state = pci_store_saved_state(pdev);
	ret = -ENOMEM;
	if (!dev->saved_state)
		goto err_release;

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
	ret = fakernic_cmdq_init(dev);
	if (ret)
		goto err_unmap_uar;
	ret = fakernic_stats_buffer_init(dev);
	if (ret)
		goto err_cleanup_cmdq;
	return 0;

err_cleanup_cmdq:
	fakernic_cmdq_cleanup(dev);
err_unmap_uar:
	pci_iounmap(pdev, dev->uar);
err_unmap:
	pci_iounmap(pdev, dev->regs);
err_release:
	kfree(dev->saved_state);
	pci_release_mem_regions(pdev);
err_disable:
	pci_disable_device(pdev);
	return ret;
}

static void fakernic_unmap_device(struct fakernic_dev *dev)
{
	fakernic_vports_cleanup(dev);
	fakernic_stats_buffer_cleanup(dev);
	fakernic_cmdq_cleanup(dev);
	pci_iounmap(dev->pdev, dev->uar);
	pci_iounmap(dev->pdev, dev->regs);
	kfree(dev->saved_state);
	pci_release_mem_regions(dev->pdev);
	pci_disable_device(dev->pdev);
}

static void fakernic_log_device(struct fakernic_dev *dev)
{
	dev_info(&dev->pdev->dev,
		 "%s and %s, %pM, interface %llu.%llu, features %#llx, %u vectors\n",
		 netdev_name(dev->netdev), dev_name(&dev->ibdev->dev),
		 dev->netdev->dev_addr,
		 FIELD_GET(FAKERNIC_VERSION_MAJOR, dev->interface_version),
		 FIELD_GET(FAKERNIC_VERSION_MINOR, dev->interface_version),
		 dev->features, dev->eq_count);
}

/*
 * Stage 3: register the clock and the net_device, which survive resets, then
 * attach the net_device and register the RDMA device.
 */
static int fakernic_add(struct fakernic_dev *dev)
{
	int ret;

	fakernic_ptp_add(dev);
	ret = fakernic_netdev_add(dev);
	if (ret)
		goto err_remove_ptp;
	mutex_lock(&dev->life_lock);
	ret = fakernic_hw_register(dev);
	mutex_unlock(&dev->life_lock);
	if (ret)
		goto err_remove_netdev;
	return 0;

err_remove_netdev:
	fakernic_netdev_remove(dev);
err_remove_ptp:
	fakernic_ptp_remove(dev);
	return ret;
}

static int fakernic_probe(struct pci_dev *pdev,
			  const struct pci_device_id *id)
{
	struct fakernic_dev *dev = fakernic_alloc(pdev);
	int ret;

	if (!dev)
		return -ENOMEM;
	ret = fakernic_map_device(dev);
	if (ret)
		goto err_free;
	ret = fakernic_hw_start(dev);
	if (ret)
		goto err_unmap;
	ret = fakernic_vports_init(dev);
	if (ret)
		goto err_stop;
	ret = fakernic_add(dev);
	if (ret)
		goto err_end;
	fakernic_log_device(dev);
	fakernic_dump_add(dev);
	fakernic_health_start(dev);
	return 0;

err_end:
	fakernic_hw_stop(dev);
	fakernic_netdev_free(dev);
	goto err_unmap;
err_stop:
	fakernic_hw_stop(dev);
err_unmap:
	fakernic_unmap_device(dev);
err_free:
	fakernic_free(dev);
	return ret;
}

/*
 * Called by sysfs's sriov_numvfs, with the PF's device lock held. Linux probes
 * the VFs inside pci_enable_sriov(). This driver treats each VF as a separate
 * NIC, which does not depend on the PF's driver.
 */
static int fakernic_sriov_configure(struct pci_dev *pdev, int vfs)
{
	struct fakernic_dev *dev = pci_get_drvdata(pdev);
	int ret;

	if (!vfs) {
		pci_disable_sriov(pdev);
		return 0;
	}
	ret = fakernic_vports_set_defaults(dev);
	if (!ret)
		ret = pci_enable_sriov(pdev, vfs);
	if (ret) {
		pci_err(pdev, "%d virtual functions cannot be enabled: %d\n",
			vfs, ret);
		return ret;
	}
	return vfs;
}

static void fakernic_remove(struct pci_dev *pdev)
{
	struct fakernic_dev *dev = pci_get_drvdata(pdev);

	/* VFs do not outlive their PF's driver. */
	pci_disable_sriov(pdev);
	fakernic_hw_announce(dev, FAKERNIC_QUIESCE_REMOVE);
	fakernic_health_stop(dev);
	fakernic_dump_remove(dev);
	fakernic_hw_quiesce(dev, FAKERNIC_QUIESCE_REMOVE, true);
	fakernic_netdev_remove(dev);
	cancel_delayed_work_sync(&dev->port.work);
	fakernic_ptp_remove(dev);
	fakernic_netdev_free(dev);
	fakernic_unmap_device(dev);
	fakernic_free(dev);
}

/* Stops DMA before a reboot or kexec, which would corrupt the next kernel. */
static void fakernic_shutdown(struct pci_dev *pdev)
{
	struct fakernic_dev *dev = pci_get_drvdata(pdev);

	/* Callers that wait for a command, such as a recovery, fail now. */
	fakernic_hw_announce(dev, FAKERNIC_QUIESCE_REMOVE);
	fakernic_cmdq_end(dev);
	fakernic_health_disable(dev);
	mutex_lock(&dev->life_lock);
	rtnl_lock();
	netif_device_detach(dev->netdev);
	rtnl_unlock();
	fakernic_cmdq_end(dev);
	pci_clear_master(pdev);
	mutex_unlock(&dev->life_lock);
}

/*
 * A function reset, a fatal bus error and a suspend all lose the device's
 * state. RDMA applications see a removal; the net_device stays, detached.
 */
static void fakernic_reset_prepare(struct pci_dev *pdev)
{
	dev_info(&pdev->dev, "device is about to be reset\n");
	fakernic_hw_quiesce(pci_get_drvdata(pdev), FAKERNIC_QUIESCE_RESET,
			    false);
}

static void fakernic_resume_after(struct fakernic_dev *dev,
				  enum fakernic_quiesce_reason reason)
{
	int ret = fakernic_hw_resume(dev, reason);

	/* -EBUSY: the hardware has to stay down, its health is unchanged. */
	if (ret != -EBUSY)
		fakernic_health_update(dev, ret);
}

static void fakernic_reset_done(struct pci_dev *pdev)
{
	fakernic_resume_after(pci_get_drvdata(pdev), FAKERNIC_QUIESCE_RESET);
}

static void fakernic_bus_error(struct fakernic_dev *dev)
{
	fakernic_hw_quiesce(dev, FAKERNIC_QUIESCE_BUS, false);
	fakernic_health_bus_error(dev);
}

/*
 * After a non-fatal error the device continues if it is still healthy. If not,
 * the bus recovers it and calls error_resume. If that fails, no callback
 * follows, so the driver relies on a timeout (fakernic_hw_must_wait()).
 */
static pci_ers_result_t fakernic_error_detected(struct pci_dev *pdev,
						pci_channel_state_t state)
{
	struct fakernic_dev *dev = pci_get_drvdata(pdev);

	if (state == pci_channel_io_normal && !fakernic_cmdq_check(dev))
		return PCI_ERS_RESULT_CAN_RECOVER;
	fakernic_bus_error(dev);
	return state == pci_channel_io_perm_failure ?
		PCI_ERS_RESULT_DISCONNECT : PCI_ERS_RESULT_NEED_RESET;
}

/*
 * A device below the same port requested a reset. Linux calls slot_reset for
 * every device there, including those that were not reset. A healthy device
 * that kept its state continues.
 */
static pci_ers_result_t fakernic_slot_reset(struct pci_dev *pdev)
{
	struct fakernic_dev *dev = pci_get_drvdata(pdev);

	if (!test_bit(FAKERNIC_QUIESCE_BUS, &dev->quiesced)) {
		if (!fakernic_cmdq_check(dev))
			return PCI_ERS_RESULT_RECOVERED;
		fakernic_bus_error(dev);
	}
	pci_load_saved_state(pdev, dev->saved_state);
	pci_restore_state(pdev);
	pci_save_state(pdev);
	return PCI_ERS_RESULT_RECOVERED;
}

static void fakernic_error_resume(struct pci_dev *pdev)
{
	fakernic_resume_after(pci_get_drvdata(pdev), FAKERNIC_QUIESCE_BUS);
}

static const struct pci_error_handlers fakernic_error_handlers = {
	.error_detected = fakernic_error_detected,
	.slot_reset = fakernic_slot_reset,
	.resume = fakernic_error_resume,
	.reset_prepare = fakernic_reset_prepare,
	.reset_done = fakernic_reset_done,
};

static int fakernic_suspend(struct device *device)
{
	fakernic_hw_quiesce(dev_get_drvdata(device), FAKERNIC_QUIESCE_SUSPEND,
			    true);
	return 0;
}

/* Never fails: if the device does not come up, recovery is retried later. */
static int fakernic_resume(struct device *device)
{
	fakernic_resume_after(dev_get_drvdata(device),
			      FAKERNIC_QUIESCE_SUSPEND);
	return 0;
}

static DEFINE_SIMPLE_DEV_PM_OPS(fakernic_pm_ops, fakernic_suspend,
				fakernic_resume);

static const struct pci_device_id fakernic_pci_ids[] = {
	{ PCI_DEVICE(FAKERNIC_PCI_VENDOR_ID, FAKERNIC_PCI_DEVICE_ID) },
	{ PCI_DEVICE(FAKERNIC_PCI_VENDOR_ID, FAKERNIC_PCI_VF_DEVICE_ID) },
	{}
};
MODULE_DEVICE_TABLE(pci, fakernic_pci_ids);

static struct pci_driver fakernic_pci_driver = {
	.name = FAKERNIC_NAME,
	.id_table = fakernic_pci_ids,
	.probe = fakernic_probe,
	.remove = fakernic_remove,
	.shutdown = fakernic_shutdown,
	.sriov_configure = fakernic_sriov_configure,
	.err_handler = &fakernic_error_handlers,
	.driver.pm = pm_sleep_ptr(&fakernic_pm_ops),
};

static int __init fakernic_init(void)
{
	int ret;

	fakernic_dump_root_add();
	ret = pci_register_driver(&fakernic_pci_driver);
	if (ret)
		fakernic_dump_root_remove();
	return ret;
}
module_init(fakernic_init);

static void __exit fakernic_module_exit(void)
{
	pci_unregister_driver(&fakernic_pci_driver);
	fakernic_dump_root_remove();
}
module_exit(fakernic_module_exit);

MODULE_DESCRIPTION("fakernic RoCEv2 NIC: Ethernet and RDMA driver");
MODULE_AUTHOR("The fakernic authors");
MODULE_LICENSE("GPL");
