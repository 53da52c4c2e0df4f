/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The interface between libibverbs and its providers is private to a release.
 * This provider is written for rdma-core 56 (Debian 13). All code for other
 * releases, 36 to 65, is in this file. Some releases have the same interface
 * number but different structures. So FAKERNIC_LACK_ macros tell what a release
 * lacks. CMakeLists.txt finds that out from the headers; providers.py, which
 * writes the headers, has a list of it.
 */
#ifndef FAKERNIC_PROVIDER_COMPAT_H
#define FAKERNIC_PROVIDER_COMPAT_H

#include <infiniband/driver.h>

/* Arguments that newer releases have; the provider does not use them. */
#if IBVERBS_PABI_VERSION >= 57
#define FAKERNIC_NO_FDS		NULL,
#else
#define FAKERNIC_NO_FDS
#endif
#if IBVERBS_PABI_VERSION >= 59
#define FAKERNIC_HAVE_REG_MR_EX
#define FAKERNIC_NO_PROV_ATTR	NULL,
#else
#define FAKERNIC_NO_PROV_ATTR
#endif
#if IBVERBS_PABI_VERSION >= 64
#define FAKERNIC_NO_DRIVER_ATTR	, NULL
#else
#define FAKERNIC_NO_DRIVER_ATTR
#endif
#if IBVERBS_PABI_VERSION < 34 || IBVERBS_PABI_VERSION > 65
#error "written for rdma-core 36 to 65: compare infiniband/driver.h"
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
 * Releases before 45 lack FLUSH, and before 44 ATOMIC WRITE: struct ibv_qp_ex
 * ends before wr_flush or wr_atomic_write. The provider drops these features,
 * so their numbers are only used in tables.
 */
#ifdef FAKERNIC_LACK_ATOMIC_WRITE
#define FAKERNIC_MISSING_FEATURES \
	(FAKERNIC_FEATURE_FLUSH | FAKERNIC_FEATURE_ATOMIC_WRITE)
#elif defined(FAKERNIC_LACK_FLUSH)
#define FAKERNIC_MISSING_FEATURES	FAKERNIC_FEATURE_FLUSH
#else
#define FAKERNIC_MISSING_FEATURES	0
#endif
#ifdef FAKERNIC_LACK_FLUSH
#define IBV_WR_FLUSH		14
#define IBV_WC_FLUSH		(IBV_WC_TSO + 1)
#define IBV_QP_EX_WITH_FLUSH	(1 << 11)
#endif
#ifdef FAKERNIC_LACK_ATOMIC_WRITE
#define IBV_WR_ATOMIC_WRITE	15
#define IBV_WC_ATOMIC_WRITE	9
#define IBV_QP_EX_WITH_ATOMIC_WRITE	(1 << 12)
#endif

#endif
