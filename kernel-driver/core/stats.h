/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The device's counters (fakernic/stats.h), by number and by name.
 */
#ifndef FAKERNIC_DRIVER_STATS_H
#define FAKERNIC_DRIVER_STATS_H

#include <linux/mutex.h>
#include <linux/types.h>
#include <fakernic/stats.h>

struct fakernic_dev;

struct fakernic_stats_buffer {
	struct mutex lock;		/* the buffer: one query at a time */
	__le64 *counters;
	dma_addr_t dma;
};

/* -ENOMEM. */
int fakernic_stats_buffer_init(struct fakernic_dev *dev);

/* Called after the device has been stopped. */
void fakernic_stats_buffer_cleanup(struct fakernic_dev *dev);

/* Number of counters of the device itself; all others are the port's. */
#define FAKERNIC_DEVICE_STAT_COUNT					\
	(FAKERNIC_STAT_COMMANDS_FAILED - FAKERNIC_STAT_DOORBELL_DROPPED + 1 + \
	 FAKERNIC_STAT_PAGES_REFUSED - FAKERNIC_STAT_PAGE_REQUESTS + 1 + \
	 FAKERNIC_STAT_SQ_LOST - FAKERNIC_STAT_SQ_RECORDS + 1)
#define FAKERNIC_PORT_STAT_COUNT					\
	(FAKERNIC_STAT_COUNT - FAKERNIC_DEVICE_STAT_COUNT)

/* FAKERNIC_STAT_COUNT names. */
extern const char *const fakernic_stat_names[];

/*
 * Reads all counters of the device into FAKERNIC_STAT_COUNT values. Counters
 * that an older device lacks are 0. -ENOMEM, or the command's error.
 */
int fakernic_read_stats(struct fakernic_dev *dev, u64 *values);

/*
 * The same (counter_id 0), or the counters of a set, for callers with a
 * fallback. Times out as fakernic_cmdq_query(), or after twice that time if
 * other callers query, too.
 */
int fakernic_query_stats(struct fakernic_dev *dev, u32 counter_id, u64 *values);

static inline bool fakernic_stat_is_devices(int stat)
{
	return (stat >= FAKERNIC_STAT_DOORBELL_DROPPED &&
		stat <= FAKERNIC_STAT_COMMANDS_FAILED) ||
	       (stat >= FAKERNIC_STAT_PAGE_REQUESTS &&
		stat <= FAKERNIC_STAT_PAGES_REFUSED) ||
	       (stat >= FAKERNIC_STAT_SQ_RECORDS &&
		stat <= FAKERNIC_STAT_SQ_LOST);
}

#endif
