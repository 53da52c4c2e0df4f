/* SPDX-License-Identifier: GPL-2.0-only */
/* The GID table. */
#ifndef FAKERNIC_DRIVER_GID_H
#define FAKERNIC_DRIVER_GID_H

#include <linux/etherdevice.h>
#include <linux/types.h>

struct fakernic_dev;
struct ib_gid_attr;

/* The driver's copy of an entry, needed to follow a change of the MAC. */
struct fakernic_gid {
	u8 gid[16];
	u8 type;			/* enum fakernic_gid_type */
	u8 mac[ETH_ALEN];
	u16 vlan;
	/* Of an entry that was deleted while a QP uses it; only compared. */
	const struct ib_gid_attr *deleted;
};

/* Allocates an empty table, which the core fills. Returns 0 or -ENOMEM. */
int fakernic_gids_alloc(struct fakernic_dev *dev);

/* Frees the table, if any. The core must no longer use it. */
void fakernic_gids_free(struct fakernic_dev *dev);

/* Operations of struct ib_device_ops. Succeeds on a dead device. */
int fakernic_add_gid(const struct ib_gid_attr *attr, void **context);

/*
 * Clears the entry, unless QPs use it. These keep their source address, as on a
 * card whose QPs store a copy. The core does not reuse the index until they are
 * gone. Succeeds on a dead device.
 */
int fakernic_del_gid(const struct ib_gid_attr *attr, void **context);

/* Called after a QP is gone: clears deleted entries that no QP uses. */
void fakernic_gids_clear_deleted(struct fakernic_dev *dev);

/*
 * Updates the table after the net_device's MAC (ETH_ALEN bytes) has changed.
 * The core renews entries whose GID it derives from the MAC, but not the source
 * MAC of the others. Without a table it does nothing.
 */
void fakernic_gids_follow_mac(struct fakernic_dev *dev, const u8 *old,
			      const u8 *mac);

#endif
