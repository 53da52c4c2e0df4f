/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Names and types that differ between releases of QEMU: 10.0, and those that
 * ci/check_qemu.sh builds. No other file depends on the release.
 */
#ifndef FAKERNIC_DEVICE_COMPAT_H
#define FAKERNIC_DEVICE_COMPAT_H

#if __has_include("system/memory.h")
#include "system/memory.h"
#include "system/ramblock.h"
#else
#include "exec/memory.h"
#include "exec/ramblock.h"
#endif

#if __has_include("hw/core/qdev-properties.h")
#include "hw/core/qdev-properties.h"
#include "hw/core/qdev-properties-system.h"
#else
#include "hw/qdev-properties.h"
#include "hw/qdev-properties-system.h"
#endif

#include "chardev/char-fe.h"
#include "hw/pci/pcie.h"

/* The frontend of a character device, to which the device writes. */
#if QEMU_VERSION_MAJOR == 10 && QEMU_VERSION_MINOR < 2
typedef CharBackend FakernicWriter;
#else
typedef CharFrontend FakernicWriter;
#endif

/* The type of the second argument of class_init. */
#if QEMU_VERSION_MAJOR == 10 && QEMU_VERSION_MINOR == 0
typedef void FakernicClassData;
#else
typedef const void FakernicClassData;
#endif

/* Sets the link capabilities of an endpoint, without flit mode. */
static inline void fakernic_fill_link(PCIDevice *pci, PCIExpLinkWidth width,
                                      PCIExpLinkSpeed speed)
{
#if QEMU_VERSION_MAJOR < 11
    pcie_cap_fill_link_ep_usp(pci, width, speed);
#else
    pcie_cap_fill_link_ep_usp(pci, width, speed, false);
#endif
}

#endif
