/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * libibverbs' provider interface is private to a release. This provider is
 * written against rdma-core 56 (Debian 13); what release 65 does differently is
 * here, and only here.
 */
#ifndef FAKERNIC_PROVIDER_COMPAT_H
#define FAKERNIC_PROVIDER_COMPAT_H

#include <infiniband/driver.h>

#if IBVERBS_PABI_VERSION >= 65
#define FAKERNIC_HAVE_REG_MR_EX
#define FAKERNIC_HAVE_PORT_SPEED
/* New arguments, of which nothing is wanted. */
#define FAKERNIC_NO_FDS		NULL,
#define FAKERNIC_NO_PROV_ATTR	NULL,
#define FAKERNIC_NO_DRIVER_ATTR	, NULL
#elif IBVERBS_PABI_VERSION == 34
#define FAKERNIC_NO_FDS
#define FAKERNIC_NO_PROV_ATTR
#define FAKERNIC_NO_DRIVER_ATTR
#else
#error "written for rdma-core 56 and 65: compare infiniband/driver.h"
#endif

#endif
