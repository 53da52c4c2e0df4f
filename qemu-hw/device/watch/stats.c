/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The counters by name.
 */
#include "qemu/osdep.h"
#include "fakernic/stat_names.h"
#include "stats.h"

#define FAKERNIC_STAT_ROW(stat, name) \
    [FAKERNIC_STAT_##stat] = name,

const char *const fakernic_stat_names[] = {
    FAKERNIC_STAT_NAMES(FAKERNIC_STAT_ROW)
};

QEMU_BUILD_BUG_ON(ARRAY_SIZE(fakernic_stat_names) != FAKERNIC_STAT_COUNT);
