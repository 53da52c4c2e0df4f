/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Moves a machine to another QEMU. */
#ifndef FAKERNIC_SAVE_H
#define FAKERNIC_SAVE_H

#include "fakernic-driver.h"

/* Saves the machine to a file, whose name it returns, and ends its QEMU. */
char *save_end(Machine *m, int64_t *now);

/* Continues in another QEMU. The allocator and the bus know the machine. */
void save_begin(Machine *m, const char *options, const char *path, int64_t now);

/* Both: the machine moves to a QEMU with these options. */
void save_move(Machine *m, const char *options);

/* A QEMU with these options refuses the file with these words. */
void save_refused(const char *options, const char *path, const char *words);

#endif
