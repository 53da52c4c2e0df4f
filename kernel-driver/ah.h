/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Address handles (IBTA 10.2.2), and address vectors between the core's form
 * and the device's: there is no other place where these are converted.
 */
#ifndef FAKERNIC_DRIVER_AH_H
#define FAKERNIC_DRIVER_AH_H

#include <rdma/ib_verbs.h>
#include <fakernic/qp.h>

struct fakernic_ah {
	struct ib_ah ibah;
	struct fakernic_av av;		/* as datagram WQEs carry it */
};

/*
 * attr has a GRH, and the destination MAC that the core resolved. In any
 * context, both.
 */
void fakernic_fill_av(struct fakernic_av *av, const struct rdma_ah_attr *attr);

/* The way back: attr gets all that av has. In any context. */
void fakernic_read_av(const struct fakernic_av *av, struct rdma_ah_attr *attr);

/*
 * Operations of struct ib_device_ops. Creating may be asked for in atomic
 * context and never sleeps for a kernel user. -EINVAL: no GRH, which RoCE must
 * have (IBTA A16.5.1).
 */
int fakernic_create_ah(struct ib_ah *ibah, struct rdma_ah_init_attr *init,
		       struct ib_udata *udata);

/* What it was created with. In any context. */
int fakernic_query_ah(struct ib_ah *ibah, struct rdma_ah_attr *attr);

/* Always succeeds: the device has no such object. In any context. */
int fakernic_destroy_ah(struct ib_ah *ibah, u32 flags);

static inline struct fakernic_ah *to_fakernic_ah(struct ib_ah *ibah)
{
	return container_of(ibah, struct fakernic_ah, ibah);
}

#endif
