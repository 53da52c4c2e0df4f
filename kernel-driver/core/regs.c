// SPDX-License-Identifier: GPL-2.0-only
/*
 * BAR0: register access, identification of the device, feature negotiation,
 * reset, and detection of surprise removal.
 */
#include <linux/bitfield.h>
#include <linux/delay.h>
#include <linux/io.h>
#include <linux/iopoll.h>
#include <fakernic/regs.h>
#include "../rdma/odp.h"
#include "device.h"
#include "regs.h"

/* Features that this driver uses. */
#define FAKERNIC_DRIVER_FEATURES					\
	(FAKERNIC_FEATURE_RC | FAKERNIC_FEATURE_UD |			\
	 FAKERNIC_FEATURE_UC | FAKERNIC_FEATURE_XRC |			\
	 FAKERNIC_FEATURE_RAW_PACKET |					\
	 FAKERNIC_FEATURE_ATOMIC | FAKERNIC_FEATURE_ATOMIC_MASKED |	\
	 FAKERNIC_FEATURE_ATOMIC_WRITE | FAKERNIC_FEATURE_FLUSH |	\
	 FAKERNIC_FEATURE_SRQ | FAKERNIC_FEATURE_MW |			\
	 FAKERNIC_FEATURE_FAST_REG | FAKERNIC_FEATURE_REREG_MR |	\
	 FAKERNIC_FEATURE_RESIZE_CQ | FAKERNIC_FEATURE_MCAST |		\
	 FAKERNIC_FEATURE_CNP | FAKERNIC_FEATURE_DCQCN |		\
	 FAKERNIC_FEATURE_RATE_LIMIT | FAKERNIC_FEATURE_CLOCK_PAGE |	\
	 FAKERNIC_FEATURE_RESIZE_SRQ | FAKERNIC_FEATURE_CQ_MODERATION |	\
	 FAKERNIC_FEATURE_DM | FAKERNIC_FEATURE_FLOW |			\
	 FAKERNIC_FEATURE_COUNTERS | FAKERNIC_FEATURE_WQ_RSS |		\
	 FAKERNIC_FEATURE_DEEP_CQ | FAKERNIC_FEATURE_POLL_DOORBELL |	\
	 FAKERNIC_FEATURE_CSUM | FAKERNIC_FEATURE_TSO |			\
	 FAKERNIC_FEATURE_STAMPS | FAKERNIC_FEATURE_VLAN |		\
	 FAKERNIC_FEATURE_FAULTS | FAKERNIC_FEATURE_DUMP |		\
	 FAKERNIC_FEATURE_POLL_SELDOM | FAKERNIC_FEATURE_PORT_DISABLE |	\
	 FAKERNIC_FEATURE_BLOCK_MCAST_LB |				\
	 FAKERNIC_FEATURE_SHADOW_DOORBELL | FAKERNIC_FEATURE_VPORT |	\
	 FAKERNIC_FEATURE_FUNCTION |					\
	 FAKERNIC_ODP_FEATURE)

/*
 * Their operands in memory are little-endian numbers. Programs on a big-endian
 * CPU have numbers in its byte order, so they get no atomics.
 */
#define FAKERNIC_LITTLE_ENDIAN_FEATURES					\
	(FAKERNIC_FEATURE_ATOMIC | FAKERNIC_FEATURE_ATOMIC_MASKED)

/* The Ethernet port and rdma_cm need these. */
#define FAKERNIC_NEEDED_FEATURES					\
	(FAKERNIC_FEATURE_RC | FAKERNIC_FEATURE_UD |			\
	 FAKERNIC_FEATURE_RAW_PACKET)

#define FAKERNIC_RESET_TIMEOUT_US	(5 * USEC_PER_SEC)
#define FAKERNIC_RESET_POLL_US		1000
#define FAKERNIC_TEST_PATTERN		0x5aa50f3cU

u32 fakernic_read(struct fakernic_dev *dev, u32 reg)
{
	return readl(dev->regs + reg);
}

void fakernic_write(struct fakernic_dev *dev, u32 reg, u32 value)
{
	writel(value, dev->regs + reg);
}

bool fakernic_is_gone(struct fakernic_dev *dev)
{
	return fakernic_read(dev, FAKERNIC_REG_MAGIC) != FAKERNIC_MAGIC;
}

int fakernic_check_device(struct fakernic_dev *dev)
{
	struct device *device = &dev->pdev->dev;
	u32 magic, version, inverted;

	magic = fakernic_read(dev, FAKERNIC_REG_MAGIC);
	if (magic != FAKERNIC_MAGIC) {
		dev_err(device, "not a fakernic device: magic is %#x, expected %#x\n",
			magic, FAKERNIC_MAGIC);
		return -ENODEV;
	}

	version = fakernic_read(dev, FAKERNIC_REG_INTERFACE_VERSION);
	if (FIELD_GET(FAKERNIC_VERSION_MAJOR, version) !=
	    FAKERNIC_INTERFACE_MAJOR) {
		dev_err(device,
			"device has interface version %llu.%llu, this driver supports %d.x; use matching versions\n",
			FIELD_GET(FAKERNIC_VERSION_MAJOR, version),
			FIELD_GET(FAKERNIC_VERSION_MINOR, version),
			FAKERNIC_INTERFACE_MAJOR);
		return -ENODEV;
	}
	dev->interface_version = version;
	dev->fw_version = fakernic_read(dev, FAKERNIC_REG_FW_VERSION);

	fakernic_write(dev, FAKERNIC_REG_TEST, FAKERNIC_TEST_PATTERN);
	inverted = fakernic_read(dev, FAKERNIC_REG_TEST_INVERTED);
	fakernic_write(dev, FAKERNIC_REG_TEST, 0);
	if (inverted != ~FAKERNIC_TEST_PATTERN) {
		dev_err(device, "register test failed: read %#x, expected %#x\n",
			inverted, ~FAKERNIC_TEST_PATTERN);
		return -EIO;
	}
	return 0;
}

int fakernic_negotiate(struct fakernic_dev *dev)
{
	u64 offered = fakernic_read(dev, FAKERNIC_REG_FEATURES_LO) |
		      (u64)fakernic_read(dev, FAKERNIC_REG_FEATURES_HI) << 32;
	u64 missing = FAKERNIC_NEEDED_FEATURES & ~offered;

	if (missing) {
		dev_err(&dev->pdev->dev,
			"device lacks required features %#llx (offers %#llx)\n",
			missing, offered);
		return -ENODEV;
	}
	dev->features = offered & FAKERNIC_DRIVER_FEATURES;
	if (IS_ENABLED(CONFIG_CPU_BIG_ENDIAN))
		dev->features &= ~FAKERNIC_LITTLE_ENDIAN_FEATURES;
	fakernic_write(dev, FAKERNIC_REG_DRIVER_FEATURES_LO,
		       lower_32_bits(dev->features));
	fakernic_write(dev, FAKERNIC_REG_DRIVER_FEATURES_HI,
		       upper_32_bits(dev->features));
	return 0;
}

int fakernic_reset_device(struct fakernic_dev *dev)
{
	u32 status;
	int ret;

	fakernic_write(dev, FAKERNIC_REG_CONTROL, FAKERNIC_CONTROL_RESET);
	ret = readl_poll_timeout(dev->regs + FAKERNIC_REG_STATUS, status,
				 status == FAKERNIC_STATUS_READY,
				 FAKERNIC_RESET_POLL_US,
				 FAKERNIC_RESET_TIMEOUT_US);
	if (ret)
		dev_err(&dev->pdev->dev,
			"device did not leave reset: status %#x\n",
			status);
	return ret;
}

void fakernic_stop_device(struct fakernic_dev *dev)
{
	fakernic_write(dev, FAKERNIC_REG_CONTROL, FAKERNIC_CONTROL_RESET);
	/*
	 * The read flushes the posted write. A device that does not respond may
	 * keep running, so disable its bus mastering.
	 */
	if (fakernic_is_out_of_reach(fakernic_read(dev, FAKERNIC_REG_STATUS)))
		pci_clear_master(dev->pdev);
}
