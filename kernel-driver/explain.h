/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The device's numbers in the data sheet's words, for messages. Strings are
 * constant and never NULL; a number without a word is "unknown". In any
 * context.
 */
#ifndef FAKERNIC_DRIVER_EXPLAIN_H
#define FAKERNIC_DRIVER_EXPLAIN_H

#include <linux/types.h>
#include "health.h"

/* Why the device has stopped: FAKERNIC_FATAL_*. */
const char *fakernic_fatal_name(u32 code);		/* FAKERNIC_FATAL_* */
const char *fakernic_cmd_status_name(u8 status);	/* of a command */
const char *fakernic_cmd_name(u16 opcode);		/* FAKERNIC_CMD_* */
const char *fakernic_vendor_name(u32 code);		/* FAKERNIC_VENDOR_* */

/* Of what the device has died, as the driver found. */
const char *fakernic_death_name(enum fakernic_death cause);

/*
 * The field at that byte of a refused command, where users get it wrong
 * (MODIFY_QP); "" for all others.
 */
const char *fakernic_cmd_field(u16 opcode, u32 offset);

#endif
