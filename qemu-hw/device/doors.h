/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The doors: all entry points of the device.
 */
#ifndef FAKERNIC_DEVICE_DOORS_H
#define FAKERNIC_DEVICE_DOORS_H

#include "common.h"
#include "compat.h"
#include "hw/pci/pci_device.h"

extern const MemoryRegionOps fakernic_register_door;
extern const MemoryRegionOps fakernic_doorbell_door;

/*
 * The gate, which every door, method and property checks. False: the device is
 * unplugged, and its parts must not be used.
 */
bool fakernic_gate(const FakernicState *s);

/* Guards QEMU's MSI-X table and pending bits by the gate. */
void fakernic_msix_doors(PCIDevice *pci);

/* Called after a write to, or a reset of, configuration space. */
void fakernic_configured(FakernicState *s);

/*
 * Registers the doors of the net layer, VM state, timer and bottom half.
 */
void fakernic_doors_open(FakernicState *s);

/*
 * Closes the gate and frees the device's objects. When the device itself is on
 * the stack, its outermost door frees them.
 */
void fakernic_doors_close(FakernicState *s);

#endif
