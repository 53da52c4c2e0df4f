/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The memory that the engine accesses (RoceHostOps): device memory if an
 * address has ROCE_ADDRESS_DM set, else guest memory by DMA.
 */
#ifndef FAKERNIC_DEVICE_DM_H
#define FAKERNIC_DEVICE_DM_H

#include "common.h"

#define FAKERNIC_DM_MAX (256 * MiB)

/* False: the range is not within device memory. */
bool fakernic_dm_contains(const FakernicState *s, uint64_t offset,
                          uint64_t len);

/* The page of BAR2 at which device memory begins. */
uint32_t fakernic_dm_page(const FakernicState *s);

/* Called after device memory is created. Makes the host use small pages for it,
 * because clearing a huge page takes longer than a turn may. */
void fakernic_dm_make(FakernicState *s);

/* Zeroes device memory from dm_zeroed on, within the budget; true: all. */
bool fakernic_dm_zero_some(FakernicState *s);

/* RoceHostOps.dma_read; this and the next three: as those of dma.h. */
bool fakernic_memory_read(void *host, uint64_t address, void *buf, size_t len);
/* RoceHostOps.dma_write. */
bool fakernic_memory_write(void *host, uint64_t address, const void *buf,
                           size_t len);
/* RoceHostOps.dma_atomic. */
bool fakernic_memory_atomic(void *host, uint64_t address, RoceAtomic *op);
/* RoceHostOps.dma_flush. */
RoceFlush fakernic_memory_flush(void *host, const RoceFlushJob *flush,
                                uint64_t *done);

#endif
