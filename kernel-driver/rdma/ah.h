/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Address handles (IBTA 10.2.2). Only this file converts address vectors
 * between the RDMA core's format and the device's.
 */
#ifndef FAKERNIC_DRIVER_AH_H
#define FAKERNIC_DRIVER_AH_H

#include <rdma/ib_verbs.h>
#include <fakernic/qp.h>

struct fakernic_ah {
	struct ib_ah ibah;
	struct fakernic_av av;		/* copied into datagram WQEs */
};

/*
 * Converts attr to av. attr must have a GRH and the destination MAC that the
 * core resolved. Callable in any context.
 */
void fakernic_fill_av(struct fakernic_av *av, const struct rdma_ah_attr *attr);

/* Converts av to attr. Callable in any context. */
void fakernic_read_av(const struct fakernic_av *av, struct rdma_ah_attr *attr);

/*
 * Operations of struct ib_device_ops. Kernel users may create an AH in atomic
 * context, where this never sleeps. Returns -EINVAL without a GRH, which RoCE
 * requires (IBTA A16.5.1).
 */
int fakernic_create_ah(struct ib_ah *ibah, struct rdma_ah_init_attr *init,
		       struct ib_udata *udata);

/* Returns the attributes of the creation. Callable in any context. */
int fakernic_query_ah(struct ib_ah *ibah, struct rdma_ah_attr *attr);

/* Always succeeds: the device has no such object. Callable in any context. */
int fakernic_destroy_ah(struct ib_ah *ibah, u32 flags);

static inline struct fakernic_ah *to_fakernic_ah(struct ib_ah *ibah)
{
	return container_of(ibah, struct fakernic_ah, ibah);
}

#endif
