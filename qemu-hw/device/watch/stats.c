/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The names of counters and of activity.
 */
#include "qemu/osdep.h"
#include "fakernic/stat_names.h"
#include "stats.h"

#define FAKERNIC_STAT_ROW(stat, name) \
    [FAKERNIC_STAT_##stat] = name,

const char *const fakernic_stat_names[] = {
    FAKERNIC_STAT_NAMES(FAKERNIC_STAT_ROW)
};

const char *const fakernic_did_names[] = {
    [FAKERNIC_DID_DOORBELL_SQ] = "doorbell-sq",
    [FAKERNIC_DID_DOORBELL_CQ_ARM] = "doorbell-cq-arm",
    [FAKERNIC_DID_DOORBELL_EQ] = "doorbell-eq",
    [FAKERNIC_DID_DOORBELL_POLL] = "doorbell-poll",
    [FAKERNIC_DID_DOORBELL_OTHER] = "doorbell-other",
    [FAKERNIC_DID_DOORBELL_LOAD] = "doorbell-load",
    [FAKERNIC_DID_CONFIG_LOAD] = "config-load",
    [FAKERNIC_DID_CONFIG_STORE] = "config-store",
    [FAKERNIC_DID_MSIX] = "msix",
    [FAKERNIC_DID_INTERRUPT] = "interrupt",
    [FAKERNIC_DID_DMA_READ] = "dma-read",
    [FAKERNIC_DID_DMA_WRITE] = "dma-write",
    [FAKERNIC_DID_DMA_ATOMIC] = "dma-atomic",
    [FAKERNIC_DID_DMA_MAP] = "dma-map",
    [FAKERNIC_DID_TURN] = "turn",
    [FAKERNIC_DID_BOTTOM_HALF] = "bottom-half",
};

QEMU_BUILD_BUG_ON(ARRAY_SIZE(fakernic_stat_names) != FAKERNIC_STAT_COUNT);
