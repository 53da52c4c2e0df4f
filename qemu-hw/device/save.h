/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Migration and snapshots: the state of the device in QEMU's terms. */
#ifndef FAKERNIC_DEVICE_SAVE_H
#define FAKERNIC_DEVICE_SAVE_H

#include "migration/vmstate.h"
#include "common.h"

/* The capability with the serial number, and the number behind its header. */
#define FAKERNIC_DSN_OFFSET     0x150
#define FAKERNIC_DSN_NUMBER     (FAKERNIC_DSN_OFFSET + 4)

/* The serial number: the MAC address with ff:fe in its middle. */
uint64_t fakernic_save_serial(const FakernicState *s);

extern const VMStateDescription fakernic_vmstate;

#endif
