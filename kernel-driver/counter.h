/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Hardware counters of "rdma statistic" and sysfs: operations of struct
 * ib_device_ops.
 */
#ifndef FAKERNIC_DRIVER_COUNTER_H
#define FAKERNIC_DRIVER_COUNTER_H

#include <linux/types.h>

struct ib_device;
struct ib_qp;
struct rdma_counter;
struct rdma_hw_stats;

/* NULL: no memory. The core frees it. */
struct rdma_hw_stats *fakernic_alloc_hw_port_stats(struct ib_device *ibdev,
						   u32 port);

/* The same for the counters of the device. */
struct rdma_hw_stats *fakernic_alloc_hw_device_stats(struct ib_device *ibdev);

/*
 * Fills in all values, whatever index; port 0 stands for the device. Returns
 * how many there are, or an error.
 */
int fakernic_get_hw_stats(struct ib_device *ibdev, struct rdma_hw_stats *stats,
			  u32 port, int index);

/* Sets bound to QPs, with FAKERNIC_FEATURE_COUNTERS. The core serialises. */
struct rdma_hw_stats *
fakernic_counter_alloc_stats(struct rdma_counter *counter);

/*
 * From now on the set counts the QP's packets. It gets its id with its first
 * QP.
 */
int fakernic_counter_bind_qp(struct rdma_counter *counter, struct ib_qp *ibqp,
			     u32 port);

/* No set counts the QP any more. Fails only if none did: -EINVAL. */
int fakernic_counter_unbind_qp(struct ib_qp *ibqp, u32 port);

/* Reads the set into its stats, in the order of the port's. */
int fakernic_counter_update_stats(struct rdma_counter *counter);

/* Forgets the set; what it has counted goes to the past. Never fails. */
int fakernic_counter_dealloc(struct rdma_counter *counter);

#endif
