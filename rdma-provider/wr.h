/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The ibv_wr_* interface, ibv_wr_post(3).
 */
#ifndef FAKERNIC_PROVIDER_WR_H
#define FAKERNIC_PROVIDER_WR_H

#include <stdint.h>
#include <infiniband/driver.h>

struct fakernic_qp;

/*
 * Sets the functions that send_ops_flags (IBV_QP_EX_WITH_*) requests.
 * EOPNOTSUPP: this QP does not support one of them. Called after
 * fakernic_usq_size().
 */
int fakernic_set_builders(struct fakernic_qp *qp, enum ibv_qp_type type,
			  uint64_t send_ops_flags);

#endif
