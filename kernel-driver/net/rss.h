/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Selects the channel that receives a frame: the device hashes addresses and
 * ports with a key, and looks up the channel in a table.
 */
#ifndef FAKERNIC_DRIVER_RSS_H
#define FAKERNIC_DRIVER_RSS_H

#include <linux/types.h>
#include <fakernic/wq.h>
#include "../core/object.h"

#define FAKERNIC_RSS_TABLE_MAX	128

struct fakernic_netdev;

/* Objects in the device, while the channels are up. */
struct fakernic_rss_hw {
	struct fakernic_qp_hw qp;	/* qpn 0: there is none */
	u32 table_id;
};

/* Settings, which are kept. */
struct fakernic_rss_setting {
	u8 key[FAKERNIC_HASH_KEY_SIZE];
	u32 table[FAKERNIC_RSS_TABLE_MAX];	/* indices of channels */
};

struct fakernic_rss {
	struct fakernic_rss_setting set;
	u32 size;			/* entries, a power of two */
	struct fakernic_rss_hw hw[2];	/* a change creates the other */
	u8 used;			/* index of the one in use */
};

/* Sets a key and the size of the largest table that the device supports. */
void fakernic_rss_init(struct fakernic_netdev *priv);

/* Fills the table with all configured channels. */
void fakernic_rss_reset(struct fakernic_netdev *priv);

/*
 * Creates the table and the QP for channels that are up. Does nothing for a
 * single channel. Under RTNL.
 */
int fakernic_rss_up(struct fakernic_netdev *priv);

/* Frees them. The port must not receive through them. Under RTNL. */
void fakernic_rss_down(struct fakernic_netdev *priv);

/*
 * Makes the port use the changed table and key without losing a frame. After an
 * error it keeps using the old ones. Under RTNL.
 */
int fakernic_rss_change(struct fakernic_netdev *priv);

/* The QP through which the port receives. */
u32 fakernic_rss_qpn(const struct fakernic_netdev *priv);

#endif
