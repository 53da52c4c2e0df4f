/* SPDX-License-Identifier: GPL-2.0-only */
/* The ib_device: its verbs and its registration with the RDMA core. */
#ifndef FAKERNIC_DRIVER_IBDEV_H
#define FAKERNIC_DRIVER_IBDEV_H

struct fakernic_dev;

/*
 * Registers the RDMA device, after fakernic_netdev_add(). After a failure there
 * is nothing to remove.
 */
int fakernic_ib_add(struct fakernic_dev *dev);

/* Unregisters the RDMA device, and waits until no user has an object. */
void fakernic_ib_remove(struct fakernic_dev *dev);

#endif
