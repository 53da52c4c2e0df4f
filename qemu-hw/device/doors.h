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
 * Every door, method and property checks this. False: the device is
 * unplugged, or a VF that was never enabled. Its parts must not be used.
 */
bool fakernic_is_plugged(const FakernicState *s);

/* Guards QEMU's MSI-X table and pending bits by that check. */
void fakernic_msix_doors(PCIDevice *pci);

/* Called after a write to, or a reset of, configuration space. */
void fakernic_configured(FakernicState *s);

/*
 * Registers the doors of the net layer, VM state, timer and bottom half.
 */
void fakernic_doors_open(FakernicState *s);

/* A VF appears, because its PF has enabled it, or disappears. */
void fakernic_appear(FakernicState *s, bool appears);

/*
 * Unplugs the device and frees its objects. When the device itself is on the
 * stack, its outermost door frees them.
 */
void fakernic_doors_close(FakernicState *s);

#endif
