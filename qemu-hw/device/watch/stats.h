/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The counters by name: enum fakernic_stat without its prefix, in lower case.
 */
#ifndef FAKERNIC_DEVICE_WATCH_STATS_H
#define FAKERNIC_DEVICE_WATCH_STATS_H

#include "../common.h"

extern const char *const fakernic_stat_names[FAKERNIC_STAT_COUNT];

#endif
