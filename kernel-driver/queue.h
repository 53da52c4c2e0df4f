/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Rings with a doorbell record behind them (fakernic/base.h): the kernel's own,
 * and the memory of those that users made. Indices run freely; log_depth and
 * log_stride are log2 of the entries and of the bytes of each.
 */
#ifndef FAKERNIC_DRIVER_QUEUE_H
#define FAKERNIC_DRIVER_QUEUE_H

#include <linux/compiler.h>
#include <linux/string.h>
#include <linux/types.h>
#include <asm/barrier.h>
#include <fakernic/base.h>
#include "pages.h"

struct fakernic_dev;
struct ib_umem;

/*
 * A ring in memory of the kernel: zeroed pages of FAKERNIC_PAGE_SIZE. ring is
 * NULL when there is none.
 */
struct fakernic_queue {
	void **ring;			/* its pages */
	struct fakernic_queue_record *record;
	dma_addr_t *dma;		/* of each page */
	struct fakernic_page_table table;	/* of more than one */
	u32 page_count;
	u32 mask;			/* entries - 1 */
	u8 log_depth;
	u8 log_stride;
};

/* -ENOMEM leaves ring NULL. */
int fakernic_queue_alloc(struct fakernic_dev *dev,
			 struct fakernic_queue *queue, u8 log_depth,
			 u8 log_stride);

/* The device must have let go of it. One without a ring is left alone. */
void fakernic_queue_free(struct fakernic_dev *dev,
			 struct fakernic_queue *queue);

/*
 * As new, for a queue whose QP went back to RESET. The caller holds the locks
 * of all who use it.
 */
void fakernic_queue_reset(struct fakernic_queue *queue);

/* How the command that creates it names it. */
void fakernic_queue_pages(const struct fakernic_queue *queue,
			  struct fakernic_page_list *list);

/*
 * Copies count whole entries to those from index on; they may wrap. The caller
 * holds the queue's lock and publishes them.
 */
void fakernic_queue_write(struct fakernic_queue *queue, u32 index,
			  const void *entries, u32 count);

/*
 * Pins the memory of a queue that user space made at va, a page boundary of the
 * calling process: a ring and its record. The caller frees the table when the
 * command that carries the list is done, and releases the umem when the device
 * has let go of the queue. ERR_PTR: -EINVAL, or why it cannot be pinned.
 */
struct ib_umem *fakernic_user_queue(struct fakernic_dev *dev, u64 va,
				    u8 log_depth, u8 log_stride,
				    struct fakernic_page_table *table,
				    struct fakernic_page_list *list);

/* The entry of that index; none crosses a page. */
static inline void *fakernic_queue_entry(const struct fakernic_queue *queue,
					 u32 index)
{
	size_t byte = (size_t)(index & queue->mask) << queue->log_stride;

	return queue->ring[byte >> FAKERNIC_PAGE_SHIFT] +
	       (byte & (FAKERNIC_PAGE_SIZE - 1));
}

/*
 * Copies the entry of that index of a CQ or EQ, whose last byte says in which
 * pass it was written. A faulty device may change its ring at any time, so that
 * what was checked could differ from what is used: nobody else reads the ring.
 * False: the device has not written it yet. In any context.
 */
static inline bool fakernic_queue_read(const struct fakernic_queue *queue,
				       u32 index, void *entry, size_t size)
{
	const u8 *from = fakernic_queue_entry(queue, index);
	u8 pass = ~(index >> queue->log_depth) & 1;

	if ((READ_ONCE(from[size - 1]) & 1) != pass)
		return false;
	/* The rest of the entry was written before its owner bit. */
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
	/* The entries, or the reads of them, come before the index. */
	dma_mb();
	WRITE_ONCE(queue->record->index, cpu_to_le32(index));
}

#endif
