/* SPDX-License-Identifier: GPL-2.0-only */
/* Multicast groups of UD QPs (IBTA 10.5). */
#ifndef FAKERNIC_DRIVER_MCAST_H
#define FAKERNIC_DRIVER_MCAST_H

#include <rdma/ib_verbs.h>

/* Operations of struct ib_device_ops. */
int fakernic_attach_mcast(struct ib_qp *ibqp, union ib_gid *gid, u16 lid);

/* Returns -EINVAL if the QP is not attached. Succeeds on a dead device. */
int fakernic_detach_mcast(struct ib_qp *ibqp, union ib_gid *gid, u16 lid);

#endif
