/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Protection domains (IBTA 10.2.3), parent domains, thread domains.
 */
#ifndef FAKERNIC_PROVIDER_PD_H
#define FAKERNIC_PROVIDER_PD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <infiniband/driver.h>

struct fakernic_td;

struct fakernic_pd {
	struct ibv_pd pd;
	atomic_int users;		/* parent domains that stand for it;
					 * of a parent domain: its queues
					 */
	struct fakernic_pd *protection;	/* NULL: not a parent domain */
	/* Of a parent domain, each may be NULL. */
	struct fakernic_td *td;
	void *(*alloc)(struct ibv_pd *pd, void *context, size_t size,
		       size_t alignment, uint64_t resource_type);
	void (*free)(struct ibv_pd *pd, void *context, void *memory,
		     uint64_t resource_type);
	void *alloc_context;
};

/* EBUSY: a parent domain stands for it, or has queues. */
struct ibv_pd *fakernic_alloc_pd(struct ibv_context *context);

/* Also of a parent domain. EBUSY: see users. */
int fakernic_dealloc_pd(struct ibv_pd *pd);

/* The handle is not checked before something is made in the domain. */
struct ibv_pd *fakernic_import_pd(struct ibv_context *context, uint32_t handle);

/* Forgets it here; it stays the other process'. */
void fakernic_unimport_pd(struct ibv_pd *pd);

/* Nothing of the kernel's: ends with fakernic_dealloc_pd(). */
struct ibv_pd *
fakernic_alloc_parent_domain(struct ibv_context *context,
			     struct ibv_parent_domain_init_attr *attr);

/* Likewise. EBUSY: a parent domain carries it. */
struct ibv_td *fakernic_alloc_td(struct ibv_context *context,
				 struct ibv_td_init_attr *attr);

/* EBUSY: a parent domain carries it. */
int fakernic_dealloc_td(struct ibv_td *td);

/* NULL when pd is none (or NULL). */
struct fakernic_pd *fakernic_to_parent_domain(struct ibv_pd *pd);

/* False: the thread domain of this parent domain serialises its objects. */
bool fakernic_pd_needs_locks(struct ibv_pd *pd);

#endif
