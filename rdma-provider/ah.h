/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Address handles (IBTA 10.2.2).
 */
#ifndef FAKERNIC_PROVIDER_AH_H
#define FAKERNIC_PROVIDER_AH_H

#include <infiniband/driver.h>

#include "fakernic/qp.h"

struct fakernic_ah {
	struct ibv_ah ah;
	struct fakernic_av av;		/* as in UD work requests */
};

/* EINVAL: no GRH, which RoCE must have (IBTA A16.5.1). */
struct ibv_ah *fakernic_ucreate_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr);

/* Sends that were posted with it are not affected. */
int fakernic_udestroy_ah(struct ibv_ah *ah);

/*
 * Logs why the kernel refused this address with err, and returns err. Queries
 * the GID.
 */
int fakernic_refuse_address(struct ibv_context *context,
			    const struct ibv_ah_attr *attr, int err);

static inline struct fakernic_ah *fakernic_to_ah(struct ibv_ah *ah)
{
	return container_of(ah, struct fakernic_ah, ah);
}

#endif
