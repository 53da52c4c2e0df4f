// SPDX-License-Identifier: GPL-2.0-only
/*
 * The device's counters, their names, and how the driver reads them. ethtool.c
 * shows all of them. counter.c shows those of the port and of the device in
 * "rdma statistic" and sysfs. pma.c shows some under InfiniBand's names.
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

#define FAKERNIC_STATS_SIZE	(FAKERNIC_STAT_COUNT * sizeof(__le64))

/* Copies count counters and sets the others to 0. */
static int fakernic_copy_stats(u64 *values, const __le64 *counters, int count)
{
	int i;

	if (count < 0)
		return count;
	for (i = 0; i < FAKERNIC_STAT_COUNT; i++)
		values[i] = i < count ? le64_to_cpu(counters[i]) : 0;
	return 0;
}

int fakernic_read_stats(struct fakernic_dev *dev, u64 *values)
{
	const size_t size = FAKERNIC_STATS_SIZE;
	struct device *device = &dev->pdev->dev;
	__le64 *counters;
	dma_addr_t dma;
	int ret, count;

	counters = dma_alloc_coherent(device, size, &dma, GFP_KERNEL);
	if (!counters)
		return -ENOMEM;
	count = fakernic_cmd_query_stats(dev, 0, dma, size, false);
	ret = fakernic_copy_stats(values, counters, count);
	dma_free_coherent(device, size, counters, dma);
	return ret;
}

int fakernic_stats_buffer_init(struct fakernic_dev *dev)
{
	struct fakernic_stats_buffer *buffer = &dev->stats_buffer;

	mutex_init(&buffer->lock);
	buffer->counters = dma_alloc_coherent(&dev->pdev->dev,
					      FAKERNIC_STATS_SIZE, &buffer->dma,
					      GFP_KERNEL);
	return buffer->counters ? 0 : -ENOMEM;
}

void fakernic_stats_buffer_cleanup(struct fakernic_dev *dev)
{
	dma_free_coherent(&dev->pdev->dev, FAKERNIC_STATS_SIZE,
			  dev->stats_buffer.counters, dev->stats_buffer.dma);
}

/*
 * Queries into a permanent buffer, because the device may still write to it
 * after the query has timed out. The next query starts only after that write.
 */
int fakernic_query_stats(struct fakernic_dev *dev, u32 counter_id, u64 *values)
{
	struct fakernic_stats_buffer *buffer = &dev->stats_buffer;
	int ret;

	mutex_lock(&buffer->lock);
	ret = fakernic_cmd_query_stats(dev, counter_id, buffer->dma,
				       FAKERNIC_STATS_SIZE, true);
	ret = fakernic_copy_stats(values, buffer->counters, ret);
	mutex_unlock(&buffer->lock);
	return ret;
}
