/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Names of the device's codes for messages, as in the data sheet. Strings are
 * constant and never NULL; an unnamed code is "unknown". Callable in any
 * context.
 */
#ifndef FAKERNIC_DRIVER_EXPLAIN_H
#define FAKERNIC_DRIVER_EXPLAIN_H

#include <linux/types.h>
#include "death.h"

/* Names of codes in registers, commands and completions. */
const char *fakernic_fatal_name(u32 code);		/* FAKERNIC_FATAL_* */
const char *fakernic_cmd_status_name(u8 status);	/* of a command */
const char *fakernic_cmd_name(u16 opcode);		/* FAKERNIC_CMD_* */
const char *fakernic_vendor_name(u32 code);		/* FAKERNIC_VENDOR_* */

/* The cause of the device's death that the driver detected. */
const char *fakernic_death_name(enum fakernic_death cause);

/*
 * Returns the name of the field at that byte of a refused MODIFY_QP, whose
 * fields come from applications; "" for all other commands.
 */
const char *fakernic_cmd_field(u16 opcode, u32 offset);

#endif
