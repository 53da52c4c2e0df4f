/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Guest memory, through the PCI bus and whatever IOMMU is on it. Addresses are
 * those the driver was given; nothing but RAM is reached. The first argument is
 * the device, as the engine's host.
 */
#ifndef FAKERNIC_DEVICE_DMA_H
#define FAKERNIC_DEVICE_DMA_H

#include "common.h"
#include "../roce/fault.h"

/* False, and counted: some of it is out of reach. Fault rules ask for 'why'. */
bool fakernic_dma_read(void *host, uint64_t address, void *buf, size_t len,
                       RoceFaultWhy why);

/* A look from outside the device: nothing is counted, noted or made to fail. */
bool fakernic_dma_peek(FakernicState *s, uint64_t address, void *buf,
                       size_t len);

/*
 * Where the RAM at an address is in QEMU, as much of *len bytes as are in one
 * piece; NULL: there is none. Nothing is read and nothing becomes dirty. It
 * stays where it is while the caller has a reference to its memory region,
 * taken before the big QEMU lock is given up.
 */
uint8_t *fakernic_dma_find(FakernicState *s, uint64_t address, uint64_t *len);

/*
 * Bytes land in ascending order, and before whatever the device
 * writes next; those before one that is out of reach have been written. False
 * as fakernic_dma_read().
 */
bool fakernic_dma_write(void *host, uint64_t address, const void *buf,
                        size_t len, RoceFaultWhy why);

/* On 8 bytes, atomic against the guest's CPUs. False: not one aligned word. */
bool fakernic_dma_atomic(void *host, uint64_t address, RoceAtomic *op);

/* Not memcpy(): that may store the tail first. */
void fakernic_copy_ascending(uint8_t *to, const uint8_t *from, size_t len);

/* Works on an aligned word by a host atomic, and fills in op->original. */
void fakernic_atomic_execute(uint64_t *word, RoceAtomic *op);

#endif
