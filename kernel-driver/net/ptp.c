// SPDX-License-Identifier: GPL-2.0-only
/*
 * The device's clocks. The clock of completion timestamps counts nanoseconds
 * from the VM's start; applications read it in a mapped page. The PTP hardware
 * clock (/dev/ptpN) is the same clock plus an offset to Unix time, which the
 * driver takes from the system clock when it is loaded. Wall-clock times of
 * completions and time stamps of frames (tstamp.h) are on this scale, too. The
 * clock cannot be set, so all users have the same offset.
 */
#include <fakernic/regs.h>
#include "../core/device.h"
#include "../core/regs.h"
#include "ptp.h"

/* Takes the system's time around the read that latches the device's time. */
static u64 fakernic_read_clock(struct fakernic_dev *dev,
			       struct ptp_system_timestamp *system)
{
	unsigned long flags;
	u32 low, high;

	spin_lock_irqsave(&dev->ptp_lock, flags);
	ptp_read_system_prets(system);
	low = fakernic_read(dev, FAKERNIC_REG_CLOCK_LO);
	ptp_read_system_postts(system);
	high = fakernic_read(dev, FAKERNIC_REG_CLOCK_HI);
	spin_unlock_irqrestore(&dev->ptp_lock, flags);
	return (u64)high << 32 | low;
}

static int fakernic_ptp_gettime(struct ptp_clock_info *info,
				struct timespec64 *now,
				struct ptp_system_timestamp *system)
{
	struct fakernic_dev *dev =
		container_of(info, struct fakernic_dev, ptp_info);
	u64 clock;

	if (READ_ONCE(dev->dead))
		return -ENODEV;
	clock = fakernic_read_clock(dev, system);
	/*
	 * The device may have gone during the read; then the value is invalid.
	 */
	if (fakernic_is_gone(dev))
		return -ENODEV;
	*now = ns_to_timespec64(clock + dev->wall_offset_ns);
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

void fakernic_ptp_add(struct fakernic_dev *dev)
{
	struct ptp_clock *clock;

	spin_lock_init(&dev->ptp_lock);
	dev->wall_offset_ns = ktime_get_real_ns() -
			      fakernic_read_clock(dev, NULL);
	dev->ptp_info = (struct ptp_clock_info) {
		.owner = THIS_MODULE,
		.name = FAKERNIC_NAME,
		.gettimex64 = fakernic_ptp_gettime,
		.settime64 = fakernic_ptp_settime,
		.adjfine = fakernic_ptp_adjfine,
		.adjtime = fakernic_ptp_adjtime,
		.enable = fakernic_ptp_enable,
	};
	/* NULL: the kernel has no PTP clock support. */
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
