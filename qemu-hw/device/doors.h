/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The doors: every way into the device.
 */
#ifndef FAKERNIC_DEVICE_DOORS_H
#define FAKERNIC_DEVICE_DOORS_H

#include "common.h"
#include "compat.h"
#include "hw/pci/pci_device.h"

extern const MemoryRegionOps fakernic_register_door;
extern const MemoryRegionOps fakernic_doorbell_door;

/*
 * The gate of every door, also of methods and properties. False: the device has
 * been unplugged, and nothing of it may be used.
 */
bool fakernic_gate(const FakernicState *s);

/* Puts doors in front of the MSI-X table of QEMU. */
void fakernic_msix_doors(PCIDevice *pci);

/* Configuration space has been written to, or reset. */
void fakernic_configured(FakernicState *s);

/*
 * Opens those of the net layer, the VM's state, the timer and the bottom half.
 */
void fakernic_doors_open(FakernicState *s);

/*
 * The reverse: nothing comes in any more, and all that lives in the device is
 * freed: now, or, when this comes from within the device, by the last door on
 * the stack.
 */
void fakernic_doors_close(FakernicState *s);

#endif
