/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The ethtool operations of the net_device.
 */
#ifndef FAKERNIC_DRIVER_ETHTOOL_H
#define FAKERNIC_DRIVER_ETHTOOL_H

#include <linux/ethtool.h>

extern const struct ethtool_ops fakernic_ethtool_ops;

#endif
