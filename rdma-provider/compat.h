/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The interface between libibverbs and its providers is private to a release.
 * This provider is written for rdma-core 56 (Debian 13). All code for other
 * releases, 44 (Debian 12) and 65, is in this file. Releases 44 to 56 have the
 * same interface number, so CMakeLists.txt checks the headers for what a
 * release lacks.
 */
#ifndef FAKERNIC_PROVIDER_COMPAT_H
#define FAKERNIC_PROVIDER_COMPAT_H

#include <infiniband/driver.h>

#if IBVERBS_PABI_VERSION >= 65
#define FAKERNIC_HAVE_REG_MR_EX
#define FAKERNIC_HAVE_PORT_SPEED
/* Arguments that newer releases have; the provider does not use them. */
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

/* Releases before 54 lack this argument. */
#ifdef FAKERNIC_LACK_DMABUF_ATTR
#define FAKERNIC_NO_DMABUF_ATTR
#else
#define FAKERNIC_NO_DMABUF_ATTR	, NULL
#endif

/* Before release 46 this verb returned only a boolean. */
#ifdef FAKERNIC_LACK_DATA_IN_ORDER
#define IBV_QUERY_QP_DATA_IN_ORDER_WHOLE_MSG 1
#endif

/*
 * Releases before 45 lack FLUSH: struct ibv_qp_ex ends before wr_flush. The
 * provider drops the feature; these names are only used in tables.
 */
#ifdef FAKERNIC_LACK_FLUSH
#define FAKERNIC_MISSING_FEATURES	FAKERNIC_FEATURE_FLUSH
#define IBV_WR_FLUSH		14
#define IBV_WC_FLUSH		(IBV_WC_TSO + 1)
#define IBV_QP_EX_WITH_FLUSH	(1 << 11)
#else
#define FAKERNIC_MISSING_FEATURES	0
#endif

#endif
