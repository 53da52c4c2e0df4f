/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The GID table.
 */
#ifndef FAKERNIC_DRIVER_GID_H
#define FAKERNIC_DRIVER_GID_H

#include <linux/etherdevice.h>
#include <linux/types.h>

struct fakernic_dev;
struct ib_gid_attr;

/* What the driver keeps of an entry, to follow a change of the MAC. */
struct fakernic_gid {
	u8 gid[16];
	u8 type;			/* enum fakernic_gid_type */
	u8 mac[ETH_ALEN];
	u16 vlan;
	const struct ib_gid_attr *gone;	/* the core's, whose address went
					 * while a QP used it; to compare
					 */
};

/* An empty table, before the core fills it. -ENOMEM. */
int fakernic_gids_alloc(struct fakernic_dev *dev);

/* Frees it; when there is none, does nothing. The core is done with it. */
void fakernic_gids_free(struct fakernic_dev *dev);

/* Operations of struct ib_device_ops. Removing succeeds on a dead device. */
int fakernic_add_gid(const struct ib_gid_attr *attr, void **context);

/*
 * Clears the entry, unless QPs use it: they keep their source address, as those
 * of a card whose QPs have a copy of it. The core does not use the index again
 * before they are gone. Succeeds on a dead device.
 */
int fakernic_del_gid(const struct ib_gid_attr *attr, void **context);

/* A QP is gone: clears entries that were left for it. */
void fakernic_gids_settle(struct fakernic_dev *dev);

/*
 * The net_device has a new MAC (ETH_ALEN bytes). The core renews the entries it
 * makes from the MAC itself, but not the source MAC of the others. Without a
 * table there is nothing to do.
 */
void fakernic_gids_follow_mac(struct fakernic_dev *dev, const u8 *old,
			      const u8 *mac);

#endif
