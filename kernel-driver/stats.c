// SPDX-License-Identifier: GPL-2.0-only
/*
 * The device's counters, by name, and how they are read. ethtool.c shows all of
 * them, counter.c those of the port and of the device to "rdma statistic" and
 * sysfs, pma.c some under InfiniBand's names.
 */
#include <linux/dma-mapping.h>
#include <fakernic/stat_names.h>
#include "cmd.h"
#include "device.h"
#include "stats.h"

#define FAKERNIC_STAT_ROW(stat, name) \
	[FAKERNIC_STAT_##stat] = name,

const char *const fakernic_stat_names[] = {
	FAKERNIC_STAT_NAMES(FAKERNIC_STAT_ROW)
};

static_assert(ARRAY_SIZE(fakernic_stat_names) == FAKERNIC_STAT_COUNT);

int fakernic_read_stats(struct fakernic_dev *dev, u32 counter_id, u64 *values)
{
	size_t size = FAKERNIC_STAT_COUNT * sizeof(__le64);
	struct device *device = &dev->pdev->dev;
	__le64 *counters;
	dma_addr_t dma;
	int i, count;

	counters = dma_alloc_coherent(device, size, &dma, GFP_KERNEL);
	if (!counters)
		return -ENOMEM;
	if (counter_id)
		count = fakernic_cmd_query_counter(dev, counter_id, dma, size);
	else
		count = fakernic_cmd_query_stats(dev, dma, size);
	for (i = 0; count >= 0 && i < FAKERNIC_STAT_COUNT; i++)
		values[i] = i < count ? le64_to_cpu(counters[i]) : 0;
	dma_free_coherent(device, size, counters, dma);
	return count < 0 ? count : 0;
}
