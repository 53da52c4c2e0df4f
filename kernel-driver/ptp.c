// SPDX-License-Identifier: GPL-2.0-only
/*
 * The device clock as a PTP hardware clock (/dev/ptpN): by it, programs and
 * phc2sys(8) learn how the clock of completion timestamps and the system's
 * clocks compare. It counts nanoseconds from the VM's start and cannot be set:
 * applications read it in a mapped page. Frames get no hardware timestamps.
 */
#include "fakernic.h"

static int fakernic_ptp_gettime(struct ptp_clock_info *info,
				struct timespec64 *now,
				struct ptp_system_timestamp *system)
{
	struct fakernic_dev *dev =
		container_of(info, struct fakernic_dev, ptp_info);
	unsigned long flags;
	u32 low, high;

	if (READ_ONCE(dev->dead))
		return -ENODEV;
	spin_lock_irqsave(&dev->ptp_lock, flags);
	ptp_read_system_prets(system);
	low = fakernic_read(dev, FAKERNIC_REG_CLOCK_LO);
	ptp_read_system_postts(system);
	high = fakernic_read(dev, FAKERNIC_REG_CLOCK_HI);
	spin_unlock_irqrestore(&dev->ptp_lock, flags);
	*now = ns_to_timespec64((u64)high << 32 | low);
	return 0;
}

static int fakernic_ptp_adjfine(struct ptp_clock_info *info, long scaled_ppm)
{
	return -EOPNOTSUPP;
}

static int fakernic_ptp_adjtime(struct ptp_clock_info *info, s64 delta)
{
	return -EOPNOTSUPP;
}

static int fakernic_ptp_settime(struct ptp_clock_info *info,
				const struct timespec64 *time)
{
	return -EOPNOTSUPP;
}

static int fakernic_ptp_enable(struct ptp_clock_info *info,
			       struct ptp_clock_request *request, int on)
{
	return -EOPNOTSUPP;
}

/* Everything but the clock works without it. */
void fakernic_ptp_add(struct fakernic_dev *dev)
{
	struct ptp_clock *clock;

	spin_lock_init(&dev->ptp_lock);
	dev->ptp_info = (struct ptp_clock_info) {
		.owner = THIS_MODULE,
		.name = FAKERNIC_NAME,
		.gettimex64 = fakernic_ptp_gettime,
		.settime64 = fakernic_ptp_settime,
		.adjfine = fakernic_ptp_adjfine,
		.adjtime = fakernic_ptp_adjtime,
		.enable = fakernic_ptp_enable,
	};
	/* NULL: a kernel without such clocks. */
	clock = ptp_clock_register(&dev->ptp_info, &dev->pdev->dev);
	if (IS_ERR(clock))
		dev_warn(&dev->pdev->dev,
			 "PTP clock cannot be registered: %ld\n",
			 PTR_ERR(clock));
	dev->ptp = IS_ERR(clock) ? NULL : clock;
}

void fakernic_ptp_remove(struct fakernic_dev *dev)
{
	if (dev->ptp)
		ptp_clock_unregister(dev->ptp);
	dev->ptp = NULL;
}
