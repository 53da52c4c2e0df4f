/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The performance management agent (IBTA 16.1).
 */
#ifndef FAKERNIC_DRIVER_PMA_H
#define FAKERNIC_DRIVER_PMA_H

#include <rdma/ib_verbs.h>

struct ib_mad;

/*
 * Operation of struct ib_device_ops; returns IB_MAD_RESULT_*. Answers Get of
 * class PerfMgt and leaves all other MADs to the agents.
 */
int fakernic_process_mad(struct ib_device *ibdev, int flags, u32 port,
			 const struct ib_wc *wc, const struct ib_grh *grh,
			 const struct ib_mad *in, struct ib_mad *out,
			 size_t *out_size, u16 *out_pkey_index);

#endif
