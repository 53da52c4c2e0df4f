/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Protection domains (IBTA 10.2.3): the kernel allocates them, the provider
 * keeps their handle. Parent and thread domains exist only in the provider. A
 * parent domain stands for a protection domain and may have a thread domain.
 * With a thread domain the application promises to serialize its use of the
 * objects created from it, so their queues take no locks. A parent domain may
 * also bring allocators for the memory of those queues (queue.c).
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <infiniband/driver.h>
#include <util/util.h>

#include "fakernic-abi.h"
#include "pd.h"

struct fakernic_td {
	struct ibv_td td;
	atomic_int parents;		/* parent domains that have it */
};

static struct fakernic_pd *fakernic_to_pd(struct ibv_pd *pd)
{
	return container_of(pd, struct fakernic_pd, pd);
}

struct ibv_pd *fakernic_ualloc_pd(struct ibv_context *context)
{
	struct fakernic_cmd_alloc_pd_resp resp = {};
	struct ibv_alloc_pd cmd = {};
	struct fakernic_pd *pd;

	pd = calloc(1, sizeof(*pd));
	if (!pd)
		return NULL;
	errno = ibv_cmd_alloc_pd(context, &pd->pd, &cmd, sizeof(cmd),
				 &resp.ibv_resp, sizeof(resp));
	if (errno) {
		free(pd);
		return NULL;
	}
	return &pd->pd;
}

/*
 * The handle comes from the process that created it. No kernel command checks
 * it, so an invalid one fails on its first use.
 */
struct ibv_pd *fakernic_uimport_pd(struct ibv_context *context, uint32_t handle)
{
	struct fakernic_pd *pd;

	pd = calloc(1, sizeof(*pd));
	if (!pd)
		return NULL;
	pd->pd.context = context;
	pd->pd.handle = handle;
	return &pd->pd;
}

void fakernic_uunimport_pd(struct ibv_pd *pd)
{
	free(fakernic_to_pd(pd));
}

static int fakernic_dealloc_parent(struct fakernic_pd *pd)
{
	if (pd->td)
		atomic_fetch_sub(&pd->td->parents, 1);
	atomic_fetch_sub(&pd->protection->users, 1);
	free(pd);
	return 0;
}

int fakernic_udealloc_pd(struct ibv_pd *ibpd)
{
	struct fakernic_pd *pd = fakernic_to_pd(ibpd);
	int err;

	if (atomic_load(&pd->users))
		return EBUSY;
	if (pd->protection)
		return fakernic_dealloc_parent(pd);
	err = ibv_cmd_dealloc_pd(ibpd);
	if (err)
		return err;
	free(pd);
	return 0;
}

static int
fakernic_ucheck_parent_domain(const struct ibv_parent_domain_init_attr *attr)
{
	if (!check_comp_mask(attr->comp_mask,
			     IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
				     IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT))
		return EOPNOTSUPP;
	if (fakernic_to_pd(attr->pd)->protection)
		return EINVAL;
	if (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS &&
	    (!attr->alloc || !attr->free))
		return EINVAL;
	return 0;
}

struct ibv_pd *
fakernic_ualloc_parent_domain(struct ibv_context *context,
			      struct ibv_parent_domain_init_attr *attr)
{
	struct fakernic_pd *pd;

	if (ibv_check_alloc_parent_domain(attr))
		return NULL;
	errno = fakernic_ucheck_parent_domain(attr);
	if (errno)
		return NULL;
	pd = calloc(1, sizeof(*pd));
	if (!pd)
		return NULL;
	ibv_initialize_parent_domain(&pd->pd, attr->pd);
	pd->protection = fakernic_to_pd(attr->pd);
	atomic_fetch_add(&pd->protection->users, 1);
	if (attr->td) {
		pd->td = container_of(attr->td, struct fakernic_td, td);
		atomic_fetch_add(&pd->td->parents, 1);
	}
	if (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) {
		pd->alloc = attr->alloc;
		pd->free = attr->free;
	}
	if (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT)
		pd->alloc_context = attr->pd_context;
	return &pd->pd;
}

struct fakernic_pd *fakernic_to_parent_domain(struct ibv_pd *pd)
{
	return pd && fakernic_to_pd(pd)->protection ? fakernic_to_pd(pd) : NULL;
}

bool fakernic_pd_needs_locks(struct ibv_pd *pd)
{
	return !pd || !fakernic_to_pd(pd)->td;
}

struct ibv_td *fakernic_ualloc_td(struct ibv_context *context,
				  struct ibv_td_init_attr *attr)
{
	struct fakernic_td *td;

	if (attr->comp_mask) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	td = calloc(1, sizeof(*td));
	if (!td)
		return NULL;
	td->td.context = context;
	return &td->td;
}

int fakernic_udealloc_td(struct ibv_td *ibtd)
{
	struct fakernic_td *td = container_of(ibtd, struct fakernic_td, td);

	if (atomic_load(&td->parents))
		return EBUSY;
	free(td);
	return 0;
}
