/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the device tells of its inside, in words (FAKERNIC_FEATURE_DUMP), and
 * fault rules from this side of it (FAKERNIC_FEATURE_FAULTS).
 */
#ifndef FAKERNIC_DRIVER_DUMP_H
#define FAKERNIC_DRIVER_DUMP_H

#include <linux/mutex.h>
#include <linux/types.h>

struct dentry;
struct fakernic_dev;

struct fakernic_dump {
	struct mutex lock;		/* the text that the device keeps */
	struct dentry *folder;		/* in debugfs, or an error */
};

/* Before the device is used; no file is there yet. */
void fakernic_dump_init(struct fakernic_dev *dev);

/*
 * The text on an object (kind: enum fakernic_dump_kind), to be freed with
 * kvfree(), or an ERR_PTR: -EOPNOTSUPP if the device tells nothing.
 */
char *fakernic_dump_text(struct fakernic_dev *dev, u8 kind, u32 id);

/* The file for fault rules, if the device takes any from here. */
void fakernic_dump_add(struct fakernic_dev *dev);
/* It goes; nobody is in it any more. */
void fakernic_dump_remove(struct fakernic_dev *dev);

/* The folder of all devices' files; the module begins and ends. */
void fakernic_dump_root_add(void);
/* It is empty. */
void fakernic_dump_root_remove(void);

#endif
