/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * XRC domains and target QPs (IBTA 14.5).
 */
#ifndef FAKERNIC_PROVIDER_XRC_H
#define FAKERNIC_PROVIDER_XRC_H

#include <infiniband/driver.h>

/* Opens a domain, which belongs to attr's file if it has one. */
struct ibv_xrcd *fakernic_uopen_xrcd(struct ibv_context *context,
				     struct ibv_xrcd_init_attr *attr);

/* EBUSY: the domain still has objects of this process. */
int fakernic_uclose_xrcd(struct ibv_xrcd *xrcd);

/* Another handle to a target QP; freed by fakernic_udestroy_qp(). */
struct ibv_qp *fakernic_uopen_qp(struct ibv_context *context,
				 struct ibv_qp_open_attr *attr);

#endif
