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

#endif
