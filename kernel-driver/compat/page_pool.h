/* SPDX-License-Identifier: GPL-2.0-only */
/* Page pool adapters for older kernels; see compat.h. */
#ifndef FAKERNIC_DRIVER_COMPAT_PAGE_POOL_H
#define FAKERNIC_DRIVER_COMPAT_PAGE_POOL_H

#ifdef FAKERNIC_HAVE_PAGE_POOL_HELPERS
#include <net/page_pool/helpers.h>
#else
#include <net/page_pool.h>
#endif

/*
 * Sets the pool's net_device. Without one Linux warns about pages that sockets
 * keep for more than a minute.
 */
static inline void fakernic_page_pool_is_of(struct page_pool_params *params,
					    struct net_device *netdev)
{
#ifdef FAKERNIC_HAVE_PAGE_POOL_NETDEV
	params->netdev = netdev;
#endif
}

#endif
