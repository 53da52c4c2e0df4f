/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Protection domains (IBTA 10.2.3) and XRC domains (annex A14).
 */
#ifndef FAKERNIC_DRIVER_PD_H
#define FAKERNIC_DRIVER_PD_H

#include <linux/atomic.h>
#include <linux/rwsem.h>
#include <rdma/ib_verbs.h>

struct fakernic_pd {
	struct ib_pd ibpd;
	u32 pdn;
	struct rw_semaphore windows_lock;	/* read: alloc, free of windows
						 */
	atomic_t windows;
};

struct fakernic_xrcd {
	struct ib_xrcd ibxrcd;
	u32 xrcdn;
};

/*
 * Operations of struct ib_device_ops. Freeing fails with -EBUSY while objects
 * are in the domain.
 */
int fakernic_alloc_pd(struct ib_pd *ibpd, struct ib_udata *udata);

/* -EBUSY while objects are in the domain. */
int fakernic_dealloc_pd(struct ib_pd *ibpd, struct ib_udata *udata);

/* -ENOMEM: the device has no more. */
int fakernic_alloc_xrcd(struct ib_xrcd *ibxrcd, struct ib_udata *udata);

/* -EBUSY while SRQs or target QPs are in the domain. */
int fakernic_dealloc_xrcd(struct ib_xrcd *ibxrcd, struct ib_udata *udata);

static inline struct fakernic_pd *to_fakernic_pd(struct ib_pd *ibpd)
{
	return container_of(ibpd, struct fakernic_pd, ibpd);
}

static inline struct fakernic_xrcd *to_fakernic_xrcd(struct ib_xrcd *ibxrcd)
{
	return container_of(ibxrcd, struct fakernic_xrcd, ibxrcd);
}

#endif
