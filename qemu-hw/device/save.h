/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Migration and snapshots: the state of the device in QEMU's terms. */
#ifndef FAKERNIC_DEVICE_SAVE_H
#define FAKERNIC_DEVICE_SAVE_H

#include "migration/vmstate.h"
#include "common.h"

extern const VMStateDescription fakernic_vmstate;

#endif
