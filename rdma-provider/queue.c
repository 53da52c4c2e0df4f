/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Queue memory: whole pages, zeroed. Child processes do not inherit them,
 * because after a fork the device keeps writing to the parent's pages. A parent
 * domain with allocators provides the memory itself,
 * ibv_alloc_parent_domain(3), and must then prevent copy-on-write of it.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <infiniband/driver.h>
#include <util/util.h>

#include "pd.h"
#include "queue.h"

static uint64_t fakernic_resource_type(enum fakernic_resource resource)
{
	return (uint64_t)RDMA_DRIVER_UNKNOWN << 32 | resource;
}

/* NULL with *err 0: the domain asks for the default allocation. */
static void *fakernic_alloc_custom(struct fakernic_pd *domain,
				   enum fakernic_resource resource, size_t size,
				   int *err)
{
	uint64_t type = fakernic_resource_type(resource);
	size_t page = sysconf(_SC_PAGESIZE);
	void *memory;

	*err = 0;
	memory = domain->alloc(&domain->pd, domain->alloc_context, size, page,
			       type);
	if (memory == IBV_ALLOCATOR_USE_DEFAULT)
		return NULL;
	if (!memory) {
		*err = ENOMEM;
		return NULL;
	}
	/* The device takes whole pages. */
	if ((uintptr_t)memory % page) {
		domain->free(&domain->pd, domain->alloc_context, memory, type);
		*err = EINVAL;
		return NULL;
	}
	/* Old data must not look like valid owner bytes. */
	memset(memory, 0, size);
	return memory;
}

static void *fakernic_alloc_pages(size_t size, int *err)
{
	void *memory;

	memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED) {
		*err = ENOMEM;
		return NULL;
	}
	if (ibv_dontfork_range(memory, size)) {
		munmap(memory, size);
		*err = ENOMEM;
		return NULL;
	}
	return memory;
}

int fakernic_uqueue_alloc(struct fakernic_queue *queue, struct ibv_pd *pd,
			  enum fakernic_resource resource, uint8_t log_depth,
			  uint8_t log_stride)
{
	struct fakernic_pd *domain = fakernic_to_parent_domain(pd);
	size_t ring_bytes = (size_t)1 << (log_depth + log_stride);
	size_t size = align(ring_bytes + sizeof(*queue->record),
			    sysconf(_SC_PAGESIZE));
	void *memory = NULL;
	bool custom;
	int err = 0;

	if (domain && domain->alloc)
		memory = fakernic_alloc_custom(domain, resource, size, &err);
	if (err)
		return err;
	custom = memory;
	if (!memory)
		memory = fakernic_alloc_pages(size, &err);
	if (err)
		return err;
	*queue = (struct fakernic_queue) {
		.ring = memory,
		.record = (void *)((uint8_t *)memory + ring_bytes),
		.size_bytes = size,
		.depth = 1U << log_depth,
		.log_depth = log_depth,
		.log_stride = log_stride,
		.resource = resource,
		.custom = custom,
		.domain = domain ? &domain->pd : NULL,
	};
	if (domain)
		atomic_fetch_add(&domain->users, 1);
	return 0;
}

void fakernic_uqueue_free(struct fakernic_queue *queue)
{
	struct fakernic_pd *domain = fakernic_to_parent_domain(queue->domain);

	if (!queue->ring)
		return;
	if (queue->custom) {
		domain->free(&domain->pd, domain->alloc_context, queue->ring,
			     fakernic_resource_type(queue->resource));
	} else {
		ibv_dofork_range(queue->ring, queue->size_bytes);
		munmap(queue->ring, queue->size_bytes);
	}
	queue->ring = NULL;
	if (domain)
		atomic_fetch_sub(&domain->users, 1);
}
