/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The text of the DUMP command (cmd/dump.c).
 */
#ifndef FAKERNIC_DEVICE_CMD_DUMP_H
#define FAKERNIC_DEVICE_CMD_DUMP_H

#include "../common.h"

/* Frees the text that the guest reads in pieces. */
void fakernic_dump_forget(FakernicState *s);

#endif
