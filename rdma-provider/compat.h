/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * libibverbs' interface to its providers is private to a release. This provider
 * is written against rdma-core 56 (Debian 13); what releases 44 (Debian 12) and
 * 65 do differently is here, and only here. Releases from 44 to 56 have one
 * number, so CMakeLists.txt looks into the headers for what they lack.
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
#error "written for rdma-core 44, 56 and 65: compare infiniband/driver.h"
#endif

/* Before release 54. */
#ifdef FAKERNIC_LACK_DMABUF_ATTR
#define FAKERNIC_NO_DMABUF_ATTR
#else
#define FAKERNIC_NO_DMABUF_ATTR	, NULL
#endif

/* Before release 46 this verb said yes or no. */
#ifdef FAKERNIC_LACK_DATA_IN_ORDER
#define IBV_QUERY_QP_DATA_IN_ORDER_WHOLE_MSG 1
#endif

/*
 * Before release 45 there was no FLUSH, and struct ibv_qp_ex ended before
 * wr_flush. It is left out of the features; the names are for tables.
 */
#ifdef FAKERNIC_LACK_FLUSH
#define FAKERNIC_LACKING	FAKERNIC_FEATURE_FLUSH
#define IBV_WR_FLUSH		14
#define IBV_WC_FLUSH		(IBV_WC_TSO + 1)
#define IBV_QP_EX_WITH_FLUSH	(1 << 11)
#else
#define FAKERNIC_LACKING	0
#endif

#endif
