/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Text dumps of the device's state (FAKERNIC_FEATURE_DUMP), and fault rules
 * that are set from the guest (FAKERNIC_FEATURE_FAULTS).
 */
#ifndef FAKERNIC_DRIVER_DUMP_H
#define FAKERNIC_DRIVER_DUMP_H

#include <linux/mutex.h>
#include <linux/types.h>

struct dentry;
struct fakernic_dev;

struct fakernic_dump {
	struct mutex lock;		/* one dump at a time */
	struct dentry *folder;		/* in debugfs, or an error */
};

/* Called before the device is used; creates no file. */
void fakernic_dump_init(struct fakernic_dev *dev);

/*
 * Returns the dump of an object (kind: enum fakernic_dump_kind), which the
 * caller frees with kvfree(), or an ERR_PTR: -EOPNOTSUPP if the device does not
 * support dumps.
 */
char *fakernic_dump_text(struct fakernic_dev *dev, u8 kind, u32 id);

/* Creates the file for fault rules, if the device accepts them from here. */
void fakernic_dump_add(struct fakernic_dev *dev);
/* Removes the file and waits until no process uses it. */
void fakernic_dump_remove(struct fakernic_dev *dev);

/* Creates the folder for all devices' files, at module load. */
void fakernic_dump_root_add(void);
/* Removes the folder, which is empty by then, at module unload. */
void fakernic_dump_root_remove(void);

#endif
