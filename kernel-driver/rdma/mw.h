/* SPDX-License-Identifier: GPL-2.0-only */
/* Memory windows (IBTA 10.6.7). */
#ifndef FAKERNIC_DRIVER_MW_H
#define FAKERNIC_DRIVER_MW_H

#include <rdma/ib_verbs.h>

/* A window's only state in the driver is its rkey. */
struct fakernic_mw {
	struct ib_mw ibmw;
};

/* Operations of struct ib_device_ops. */
int fakernic_alloc_mw(struct ib_mw *ibmw, struct ib_udata *udata);

/* Frees the window, and unbinds it if it is bound. */
int fakernic_dealloc_mw(struct ib_mw *ibmw);

#endif
