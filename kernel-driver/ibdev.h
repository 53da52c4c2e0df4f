/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The ib_device: which verbs there are, registered with the RDMA core.
 */
#ifndef FAKERNIC_DRIVER_IBDEV_H
#define FAKERNIC_DRIVER_IBDEV_H

struct fakernic_dev;

/* After fakernic_netdev_add(). On failure there is nothing to remove. */
int fakernic_ib_add(struct fakernic_dev *dev);

/* Returns when no user has an object any more. */
void fakernic_ib_remove(struct fakernic_dev *dev);

#endif
