/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Where the kernel has its page pools; see compat.h.
 */
#ifndef FAKERNIC_DRIVER_COMPAT_PAGE_POOL_H
#define FAKERNIC_DRIVER_COMPAT_PAGE_POOL_H

#ifdef FAKERNIC_HAVE_PAGE_POOL_HELPERS
#include <net/page_pool/helpers.h>
#else
#include <net/page_pool.h>
#endif

/*
 * Says whose pool it is. Linux complains of pages that sockets keep for a
 * minute and more if it cannot tell.
 */
static inline void fakernic_page_pool_is_of(struct page_pool_params *params,
					    struct net_device *netdev)
{
#ifdef FAKERNIC_HAVE_PAGE_POOL_NETDEV
	params->netdev = netdev;
#endif
}

#endif
