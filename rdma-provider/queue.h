/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Ring arithmetic for every queue the device reads or writes: where an entry
 * lies, whose it is, and how an index is told through the doorbell record that
 * follows the ring (fakernic/base.h). Indices run freely modulo 2^32. Nothing
 * here locks; the caller owns the queue.
 */
#ifndef FAKERNIC_QUEUE_H
#define FAKERNIC_QUEUE_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>
#include <infiniband/driver.h>
#include <util/udma_barrier.h>
#include <util/util.h>

#include "fakernic/base.h"

struct fakernic_queue {
	uint8_t *ring;
	struct fakernic_queue_record *record;
	size_t size_bytes;	/* of the mapping: ring, record, rest of page */
	uint32_t depth;		/* entries, a power of two */
	uint8_t log_depth;
	uint8_t log_stride;
};

static inline uint8_t fakernic_log2_ceil(uint64_t count)
{
	return count <= 1 ? 0 : 64 - __builtin_clzll(count - 1);
}

/* Maps a zeroed ring with its record; 0 or an errno value. */
static inline int fakernic_queue_alloc(struct fakernic_queue *queue,
				       uint8_t log_depth, uint8_t log_stride)
{
	size_t ring_bytes = (size_t)1 << (log_depth + log_stride);
	size_t size = align(ring_bytes + sizeof(*queue->record),
			    sysconf(_SC_PAGESIZE));
	void *map;
	int err;

	map = mmap(NULL, size, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (map == MAP_FAILED)
		return ENOMEM;
	/* The device keeps writing to the parent's pages after a fork. */
	err = ibv_dontfork_range(map, size);
	if (err) {
		munmap(map, size);
		return err;
	}
	queue->ring = map;
	queue->record = (void *)(queue->ring + ring_bytes);
	queue->size_bytes = size;
	queue->depth = 1U << log_depth;
	queue->log_depth = log_depth;
	queue->log_stride = log_stride;
	return 0;
}

static inline void fakernic_queue_free(struct fakernic_queue *queue)
{
	if (!queue->ring)
		return;
	ibv_dofork_range(queue->ring, queue->size_bytes);
	munmap(queue->ring, queue->size_bytes);
	queue->ring = NULL;
}

static inline uint32_t fakernic_queue_slot(const struct fakernic_queue *queue,
					   uint32_t index)
{
	return index & (queue->depth - 1);
}

static inline void *fakernic_queue_entry(const struct fakernic_queue *queue,
					 uint32_t index)
{
	return queue->ring + ((size_t)fakernic_queue_slot(queue, index)
			      << queue->log_stride);
}

/* What bit 0 of an owner byte is once the device has written entry index. */
static inline bool fakernic_queue_pass(const struct fakernic_queue *queue,
				       uint32_t index)
{
	return !((index >> queue->log_depth) & 1);
}

/* Stores an index that the device may read at any moment. */
static inline void fakernic_queue_tell(struct fakernic_queue *queue,
				       uint32_t index)
{
	*(volatile __le32 *)&queue->record->index = htole32(index);
}

/* Producer: the entries before index are written. */
static inline void fakernic_queue_publish(struct fakernic_queue *queue,
					  uint32_t index)
{
	udma_to_device_barrier();
	fakernic_queue_tell(queue, index);
}

/* Consumer: the entries before index have been read for the last time. */
static inline void fakernic_queue_release(struct fakernic_queue *queue,
					  uint32_t index)
{
	atomic_thread_fence(memory_order_release);
	fakernic_queue_tell(queue, index);
}

#endif
