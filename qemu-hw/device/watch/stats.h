/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The counters by name: enum fakernic_stat without its prefix, in lower case.
 *
 * Counts of activity, which the guest cannot read: how often the guest accesses
 * the device, and how often the device accesses guest memory or interrupts. The
 * cost of a message follows from them (tests/bench/COSTS.md).
 */
#ifndef FAKERNIC_DEVICE_WATCH_STATS_H
#define FAKERNIC_DEVICE_WATCH_STATS_H

#include "../common.h"

extern const char *const fakernic_stat_names[FAKERNIC_STAT_COUNT];

typedef enum FakernicDid {
    FAKERNIC_DID_DOORBELL_SQ,       /* stores, including those dropped */
    FAKERNIC_DID_DOORBELL_CQ_ARM,
    FAKERNIC_DID_DOORBELL_EQ,
    FAKERNIC_DID_DOORBELL_POLL,
    FAKERNIC_DID_DOORBELL_OTHER,
    FAKERNIC_DID_DOORBELL_LOAD,     /* such as loads of the clock page */
    FAKERNIC_DID_CONFIG_LOAD,       /* configuration space */
    FAKERNIC_DID_CONFIG_STORE,
    FAKERNIC_DID_MSIX,              /* accesses to the MSI-X table */
    FAKERNIC_DID_INTERRUPT,         /* messages sent */
    FAKERNIC_DID_DMA_READ,
    FAKERNIC_DID_DMA_WRITE,
    FAKERNIC_DID_DMA_ATOMIC,
    FAKERNIC_DID_DMA_MAP,           /* mappings of writes and atomics */
    FAKERNIC_DID_TURN,
    FAKERNIC_DID_BOTTOM_HALF,
    FAKERNIC_DID_COUNT
} FakernicDid;

/* All 0 at realize; a reset does not clear them. */
typedef struct FakernicActivity {
    uint64_t did[FAKERNIC_DID_COUNT];
    /* by register; the last entry counts accesses behind the registers */
    uint64_t register_loads[FAKERNIC_REG_END / 4 + 1];
    uint64_t register_stores[FAKERNIC_REG_END / 4 + 1];
} FakernicActivity;

extern const char *const fakernic_did_names[FAKERNIC_DID_COUNT];

#endif
