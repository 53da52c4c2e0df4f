/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Time stamp adapters for older kernels, used by netdev.c. Older kernels select
 * the frames that get time stamps by an ioctl() of the driver.
 */
#ifndef FAKERNIC_DRIVER_COMPAT_TSTAMP_H
#define FAKERNIC_DRIVER_COMPAT_TSTAMP_H

#include <linux/net_tstamp.h>
#include <linux/netdevice.h>
#include <linux/uaccess.h>
#include "../net/tstamp.h"

#ifdef FAKERNIC_HAVE_HWTSTAMP_OPS
#define FAKERNIC_HWTSTAMP_OPS						\
	.ndo_hwtstamp_get = fakernic_hwtstamp_get,			\
	.ndo_hwtstamp_set = fakernic_hwtstamp_set
#else
static inline int fakernic_eth_ioctl(struct net_device *netdev,
				     struct ifreq *request, int command)
{
	struct kernel_hwtstamp_config kernel = {};
	struct hwtstamp_config user;
	int ret;

	if (command != SIOCSHWTSTAMP && command != SIOCGHWTSTAMP)
		return -EOPNOTSUPP;
	if (copy_from_user(&user, request->ifr_data, sizeof(user)))
		return -EFAULT;
	kernel.tx_type = user.tx_type;
	kernel.rx_filter = user.rx_filter;
	ret = command == SIOCSHWTSTAMP ?
		fakernic_hwtstamp_set(netdev, &kernel, NULL) :
		fakernic_hwtstamp_get(netdev, &kernel);
	if (ret)
		return ret;
	user = (struct hwtstamp_config) {
		.tx_type = kernel.tx_type,
		.rx_filter = kernel.rx_filter,
	};
	return copy_to_user(request->ifr_data, &user, sizeof(user)) ? -EFAULT :
								      0;
}

#define FAKERNIC_HWTSTAMP_OPS	.ndo_eth_ioctl = fakernic_eth_ioctl
#endif

#endif
