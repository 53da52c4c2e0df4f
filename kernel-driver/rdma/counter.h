/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Hardware counters for "rdma statistic" and sysfs: operations of struct
 * ib_device_ops.
 */
#ifndef FAKERNIC_DRIVER_COUNTER_H
#define FAKERNIC_DRIVER_COUNTER_H

#include <linux/types.h>

struct ib_device;
struct ib_qp;
struct rdma_counter;
struct rdma_hw_stats;

/* Returns the port's counters, which the core frees, or NULL (no memory). */
struct rdma_hw_stats *fakernic_alloc_hw_port_stats(struct ib_device *ibdev,
						   u32 port);

/* The same for the counters of the device. */
struct rdma_hw_stats *fakernic_alloc_hw_device_stats(struct ib_device *ibdev);

/*
 * Fills in all values and ignores index; port 0 selects the device's counters.
 * Returns their number or an error.
 */
int fakernic_get_hw_stats(struct ib_device *ibdev, struct rdma_hw_stats *stats,
			  u32 port, int index);

/*
 * Counter sets bound to QPs, with FAKERNIC_FEATURE_COUNTERS. The core
 * serializes these calls.
 */
struct rdma_hw_stats *
fakernic_counter_alloc_stats(struct rdma_counter *counter);

/*
 * Binds the QP to the set, which then counts the QP's packets. The first bind
 * allocates the set's id.
 */
int fakernic_counter_bind_qp(struct rdma_counter *counter, struct ib_qp *ibqp,
			     u32 port);

/* Unbinds the QP from its set. Fails only if it has none: -EINVAL. */
int fakernic_counter_unbind_qp(struct ib_qp *ibqp, u32 port);

/* Reads the set's values into its stats, in the order of the port's. */
int fakernic_counter_update_stats(struct rdma_counter *counter);

/* Frees the set and adds its values to dev->past. Never fails. */
int fakernic_counter_dealloc(struct rdma_counter *counter);

#endif
