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

struct fakernic_asked {
	struct mutex lock;		/* the memory, one asks at a time */
	__le64 *counters;
	dma_addr_t dma;
};

/* -ENOMEM. */
int fakernic_asked_init(struct fakernic_dev *dev);

/* The device has been stopped. */
void fakernic_asked_cleanup(struct fakernic_dev *dev);

/* These counters are the device's own; all others are the port's. */
#define FAKERNIC_DEVICE_STAT_COUNT					\
	(FAKERNIC_STAT_COMMANDS_FAILED - FAKERNIC_STAT_DOORBELL_DROPPED + 1 + \
	 FAKERNIC_STAT_PAGES_REFUSED - FAKERNIC_STAT_PAGE_REQUESTS + 1)
#define FAKERNIC_PORT_STAT_COUNT					\
	(FAKERNIC_STAT_COUNT - FAKERNIC_DEVICE_STAT_COUNT)

/* FAKERNIC_STAT_COUNT of them. */
extern const char *const fakernic_stat_names[];

/*
 * Reads all counters of the device into FAKERNIC_STAT_COUNT values. Those an
 * older device does not have are 0. -ENOMEM, or the command's error.
 */
int fakernic_read_stats(struct fakernic_dev *dev, u64 *values);

/*
 * The same (counter_id 0), or those of a set of counters, for who can do
 * without: as fakernic_cmdq_ask(), and two such times at most if others do the
 * same.
 */
int fakernic_ask_stats(struct fakernic_dev *dev, u32 counter_id, u64 *values);

static inline bool fakernic_stat_is_devices(int stat)
{
	return (stat >= FAKERNIC_STAT_DOORBELL_DROPPED &&
		stat <= FAKERNIC_STAT_COMMANDS_FAILED) ||
	       (stat >= FAKERNIC_STAT_PAGE_REQUESTS &&
		stat <= FAKERNIC_STAT_PAGES_REFUSED);
}

#endif
