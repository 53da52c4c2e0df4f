/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What DUMP tells the guest (cmd_dump.c).
 */
#ifndef FAKERNIC_DEVICE_DUMP_H
#define FAKERNIC_DEVICE_DUMP_H

#include "common.h"

/* The text that is kept to be read in pieces goes. */
void fakernic_dump_forget(FakernicState *s);

#endif
