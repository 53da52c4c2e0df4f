/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Guest memory, through the PCI bus and its IOMMU, if there is one. Addresses
 * are DMA addresses of the driver; only RAM is accessed. The first argument is
 * the device, which is the engine's host.
 */
#ifndef FAKERNIC_DEVICE_DMA_H
#define FAKERNIC_DEVICE_DMA_H

#include "common.h"
#include "../fault/why.h"

/* False, and counted: not all of it is accessible RAM. Rules match 'why'. */
bool fakernic_dma_read(void *host, uint64_t address, void *buf, size_t len,
                       RoceWhy why);

/* For monitoring: nothing is counted or recorded, and no fault rule applies. */
bool fakernic_dma_peek(FakernicState *s, uint64_t address, void *buf,
                       size_t len);

/*
 * Finds the host address of guest RAM, and reduces *len to the bytes that are
 * contiguous there. NULL: it is not RAM. Marks nothing dirty. The address stays
 * valid while the caller has a reference to its memory region. The caller must
 * take that reference before it releases the big QEMU lock.
 */
uint8_t *fakernic_dma_find(FakernicState *s, uint64_t address, uint64_t *len);

/*
 * Stores bytes in ascending order, and all of them before the device's next
 * write. False as fakernic_dma_read(); the bytes in front of the inaccessible
 * piece are written then.
 */
bool fakernic_dma_write(void *host, uint64_t address, const void *buf,
                        size_t len, RoceWhy why);

/* Atomic on 8 bytes, also against vCPUs. False: not one aligned word of RAM. */
bool fakernic_dma_atomic(void *host, uint64_t address, RoceAtomic *op);

/* Used instead of memcpy(), which may store the last bytes first. */
void fakernic_copy_ascending(uint8_t *to, const uint8_t *from, size_t len);

/* Executes 'op' on an aligned word by a host atomic, and sets op->original. */
void fakernic_atomic_execute(uint64_t *word, RoceAtomic *op);

#endif
