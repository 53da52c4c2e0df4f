/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Ring arithmetic for all queues that the device reads or writes: the address
 * of an entry, its owner, and the index in the doorbell record behind the ring
 * (fakernic/base.h). Indices run freely modulo 2^32. Nothing here locks; the
 * caller owns the queue.
 */
#ifndef FAKERNIC_PROVIDER_QUEUE_H
#define FAKERNIC_PROVIDER_QUEUE_H

#include <endian.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <infiniband/driver.h>
#include <util/udma_barrier.h>

#include "fakernic/base.h"

/*
 * The use of a queue's memory: the low half of the resource type that a parent
 * domain's allocators receive. The high half is the driver id.
 */
enum fakernic_resource {
	FAKERNIC_RESOURCE_SQ	= 1,
	FAKERNIC_RESOURCE_RQ	= 2,
	FAKERNIC_RESOURCE_SRQ	= 3,
	FAKERNIC_RESOURCE_CQ	= 4,
};

struct fakernic_queue {
	uint8_t *ring;
	struct fakernic_queue_record *record;
	size_t size_bytes;	/* ring, record, rest of page */
	uint32_t depth;		/* entries, a power of two */
	uint8_t log_depth;
	uint8_t log_stride;
	uint8_t resource;	/* enum fakernic_resource */
	bool custom;		/* from domain's allocator */
	struct ibv_pd *domain;	/* its parent domain, or NULL */
};

static inline uint8_t fakernic_log2_ceil(uint64_t count)
{
	return count <= 1 ? 0 : 64 - __builtin_clzll(count - 1);
}

/*
 * Allocates a zeroed ring of 1 << log_depth entries of 1 << log_stride bytes,
 * and its record. pd, which may be NULL, selects the allocator. 0, ENOMEM, or
 * EINVAL: the memory of the domain's allocator is not page-aligned.
 */
int fakernic_uqueue_alloc(struct fakernic_queue *queue, struct ibv_pd *pd,
			  enum fakernic_resource resource, uint8_t log_depth,
			  uint8_t log_stride);

/* Frees a queue that the device no longer uses. No ring: does nothing. */
void fakernic_uqueue_free(struct fakernic_queue *queue);

static inline uint32_t fakernic_uqueue_slot(const struct fakernic_queue *queue,
					    uint32_t index)
{
	return index & (queue->depth - 1);
}

static inline void *fakernic_uqueue_entry(const struct fakernic_queue *queue,
					  uint32_t index)
{
	return queue->ring + ((size_t)fakernic_uqueue_slot(queue, index)
			      << queue->log_stride);
}

/* Bit 0 of the owner byte once the device has written entry index. */
static inline bool fakernic_uqueue_pass(const struct fakernic_queue *queue,
					uint32_t index)
{
	return !((index >> queue->log_depth) & 1);
}

/* Stores an index that the device may read at any time. */
static inline void fakernic_uqueue_store(struct fakernic_queue *queue,
					 uint32_t index)
{
	__atomic_store_n(&queue->record->index, htole32(index),
			 __ATOMIC_RELAXED);
}

/* The index stored last; the entries before it can be read. */
static inline uint32_t fakernic_uqueue_load(const struct fakernic_queue *queue)
{
	/* The index before the entries: see fakernic_uqueue_publish(). */
	return le32toh(__atomic_load_n(&queue->record->index,
				       __ATOMIC_ACQUIRE));
}

/* Producer: the entries before index are written. */
static inline void fakernic_uqueue_publish(struct fakernic_queue *queue,
					   uint32_t index)
{
	/*
	 * The entries before the index. Pairs with the device, which loads the
	 * index first, and with fakernic_uqueue_load().
	 */
	udma_to_device_barrier();
	fakernic_uqueue_store(queue, index);
}

/*
 * Whether the producer index of an SQ crossed the device's event index when it
 * moved from last to next. Called after fakernic_uqueue_publish(), with
 * FAKERNIC_FEATURE_SHADOW_DOORBELL.
 */
static inline bool fakernic_uqueue_crosses(const struct fakernic_queue *queue,
					   uint32_t last, uint32_t next)
{
	uint32_t event;

	/*
	 * Stores the producer index before it loads the event index. Pairs with
	 * the device, which stores the event index before it loads the producer
	 * index: one side sees the other.
	 */
	atomic_thread_fence(memory_order_seq_cst);
	event = le32toh(__atomic_load_n(&queue->record->device_index,
					__ATOMIC_RELAXED));
	return FAKERNIC_MUST_RING(event, last, next);
}

/* Consumer: the entries before index will not be read again. */
static inline void fakernic_uqueue_release(struct fakernic_queue *queue,
					   uint32_t index)
{
	/*
	 * Loads of the entries before the index that frees them. Pairs with the
	 * device, which writes an entry only after it has read the index.
	 */
	atomic_thread_fence(memory_order_release);
	fakernic_uqueue_store(queue, index);
}

#endif
