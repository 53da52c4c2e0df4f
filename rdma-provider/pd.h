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
	/* Protection domain: its parent domains. Parent domain: its queues. */
	atomic_int users;
	struct fakernic_pd *protection;	/* NULL: not a parent domain */
	/* Parent domains only; each may be NULL. */
	struct fakernic_td *td;
	void *(*alloc)(struct ibv_pd *pd, void *context, size_t size,
		       size_t alignment, uint64_t resource_type);
	void (*free)(struct ibv_pd *pd, void *context, void *memory,
		     uint64_t resource_type);
	void *alloc_context;
};

/* Freed by fakernic_udealloc_pd(). */
struct ibv_pd *fakernic_ualloc_pd(struct ibv_context *context);

/* Frees a parent domain, too. EBUSY: users is not 0. */
int fakernic_udealloc_pd(struct ibv_pd *pd);

/* The handle is not checked until an object is created in the domain. */
struct ibv_pd *fakernic_uimport_pd(struct ibv_context *context,
				   uint32_t handle);

/* Frees the handle; the other process still owns the domain. */
void fakernic_uunimport_pd(struct ibv_pd *pd);

/* No kernel object. Freed by fakernic_udealloc_pd(). */
struct ibv_pd *
fakernic_ualloc_parent_domain(struct ibv_context *context,
			      struct ibv_parent_domain_init_attr *attr);

/* No kernel object. Freed by fakernic_udealloc_td(). */
struct ibv_td *fakernic_ualloc_td(struct ibv_context *context,
				  struct ibv_td_init_attr *attr);

/* EBUSY: a parent domain has it. */
int fakernic_udealloc_td(struct ibv_td *td);

/* NULL if pd is not a parent domain, or NULL. */
struct fakernic_pd *fakernic_to_parent_domain(struct ibv_pd *pd);

/* False: the parent domain has a thread domain, so no locks are needed. */
bool fakernic_pd_needs_locks(struct ibv_pd *pd);

#endif
