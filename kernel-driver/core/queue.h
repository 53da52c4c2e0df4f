/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Rings followed by a doorbell record (fakernic/base.h): kernel queues, and the
 * memory of user queues. Indices run freely. log_depth and log_stride are log2
 * of the number of entries and of the bytes of each.
 */
#ifndef FAKERNIC_DRIVER_QUEUE_H
#define FAKERNIC_DRIVER_QUEUE_H

#include <linux/compiler.h>
#include <linux/mm.h>
#include <linux/string.h>
#include <linux/types.h>
#include <asm/barrier.h>
#include <fakernic/base.h>
#include "pages.h"

struct fakernic_dev;
struct ib_umem;

/*
 * A ring in kernel memory: zeroed pages of PAGE_SIZE. ring is NULL if there is
 * none.
 */
struct fakernic_queue {
	void **ring;			/* its pages */
	struct fakernic_queue_record *record;
	dma_addr_t *dma;		/* of each page */
	struct fakernic_page_table table;	/* for more than one */
	u32 page_count;
	u32 mask;			/* entries - 1 */
	u8 log_depth;
	u8 log_stride;
};

/* -ENOMEM leaves ring NULL. */
int fakernic_queue_alloc(struct fakernic_dev *dev,
			 struct fakernic_queue *queue, u8 log_depth,
			 u8 log_stride);

/* Frees a queue that the device no longer uses. No ring: does nothing. */
void fakernic_queue_free(struct fakernic_dev *dev,
			 struct fakernic_queue *queue);

/*
 * Resets a queue whose QP was reset. The caller holds all locks under which the
 * queue is used.
 */
void fakernic_queue_reset(struct fakernic_queue *queue);

/* Fills in the page list for the command that creates the queue. */
void fakernic_queue_pages(const struct fakernic_queue *queue,
			  struct fakernic_page_list *list);

/*
 * Copies count whole entries to the ring from index on; they may wrap. The
 * caller holds the queue's lock and publishes them.
 */
void fakernic_queue_write(struct fakernic_queue *queue, u32 index,
			  const void *entries, u32 count);

/*
 * Pins the memory of a user queue: a ring and its record at va, a page boundary
 * of the calling process. The caller frees the table when the command with the
 * list is done, and releases the umem when the device no longer uses the queue.
 * ERR_PTR: -EINVAL, or why the memory cannot be pinned.
 */
struct ib_umem *fakernic_user_queue(struct fakernic_dev *dev, u64 va,
				    u8 log_depth, u8 log_stride,
				    struct fakernic_page_table *table,
				    struct fakernic_page_list *list);

/* The entry with this index. An entry never crosses a page. */
static inline void *fakernic_queue_entry(const struct fakernic_queue *queue,
					 u32 index)
{
	size_t byte = (size_t)(index & queue->mask) << queue->log_stride;

	return queue->ring[byte >> PAGE_SHIFT] + offset_in_page(byte);
}

/*
 * Copies an entry of a CQ or EQ; its last byte shows the pass in which it was
 * written. A faulty device may change its ring at any time, so callers check
 * and use only the copy. False: the device has not written the entry yet. In
 * any context.
 */
static inline bool fakernic_queue_read(const struct fakernic_queue *queue,
				       u32 index, void *entry, size_t size)
{
	const u8 *from = fakernic_queue_entry(queue, index);
	u8 pass = ~(index >> queue->log_depth) & 1;

	if ((READ_ONCE(from[size - 1]) & 1) != pass)
		return false;
	/*
	 * Loads the owner bit before the rest of the entry. Pairs with the
	 * device, which stores the last 8 bytes after the others.
	 */
	dma_rmb();
	memcpy(entry, from, size);
	/* The compiler must not read a field of the ring again. */
	barrier();
	return true;
}

/*
 * Hands the entries before index to the device (SQ, RQ, SRQ), or back to it
 * (CQ). The caller holds the queue's lock.
 */
static inline void fakernic_queue_publish(struct fakernic_queue *queue,
					  u32 index)
{
	/*
	 * The entries' stores (SQ, RQ, SRQ) or loads (CQ) come before the
	 * index. Pairs with the device, which loads the index before it reads
	 * new entries, and before it overwrites old ones.
	 */
	dma_mb();
	WRITE_ONCE(queue->record->index, cpu_to_le32(index));
}

/*
 * Whether the producer index of an SQ crossed the event index of the device
 * when it moved from last to next. Called after fakernic_queue_publish(), with
 * FAKERNIC_FEATURE_SHADOW_DOORBELL. The caller holds the queue's lock.
 */
static inline bool fakernic_queue_crosses(const struct fakernic_queue *queue,
					  u32 last, u32 next)
{
	u32 event;

	/*
	 * Stores the producer index before it loads the event index. Pairs with
	 * the device, which stores the event index before it loads the producer
	 * index: one side sees the other.
	 */
	dma_mb();
	event = le32_to_cpu(READ_ONCE(queue->record->device_index));
	return FAKERNIC_MUST_RING(event, last, next);
}

#endif
