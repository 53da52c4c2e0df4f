/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which channel a frame comes in by, if there are several: the device hashes
 * addresses and ports with a key, and looks the channel up in a table.
 */
#ifndef FAKERNIC_DRIVER_RSS_H
#define FAKERNIC_DRIVER_RSS_H

#include <linux/types.h>
#include <fakernic/wq.h>
#include "hw.h"

#define FAKERNIC_RSS_TABLE_MAX	128

struct fakernic_netdev;

/* What the device has of it: comes and goes. */
struct fakernic_rss_hw {
	struct fakernic_qp_hw qp;	/* qpn 0: there is none */
	u32 table_id;
};

/* What was set: stays. */
struct fakernic_rss_setting {
	u8 key[FAKERNIC_HASH_KEY_SIZE];
	u32 table[FAKERNIC_RSS_TABLE_MAX];	/* indices of channels */
};

struct fakernic_rss {
	struct fakernic_rss_setting set;
	u32 size;			/* of the table, a power of two */
	struct fakernic_rss_hw hw[2];	/* a change makes the other */
	u8 used;			/* of hw */
};

/* A key, and the largest table that the device takes. */
void fakernic_rss_init(struct fakernic_netdev *priv);

/* Spreads over all channels that are to be. */
void fakernic_rss_reset(struct fakernic_netdev *priv);

/*
 * For channels that are up; with a single one there is nothing to do. Under
 * RTNL.
 */
int fakernic_rss_up(struct fakernic_netdev *priv);

/* The port receives by somebody else, or not at all. Under RTNL. */
void fakernic_rss_down(struct fakernic_netdev *priv);

/*
 * Table and key have changed: the port receives by them from now on, and not a
 * frame is lost. After an error it goes on by the old ones. Under RTNL.
 */
int fakernic_rss_change(struct fakernic_netdev *priv);

/* The QP that the port is to receive by. */
u32 fakernic_rss_qpn(const struct fakernic_netdev *priv);

#endif
