// SPDX-License-Identifier: GPL-2.0-only
/*
 * Queue memory: single pages that tables list, whatever the queue's length. The
 * driver allocates kernel queues and pins user queues.
 */
#include <linux/dma-mapping.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <rdma/ib_umem.h>
#include <fakernic/base.h>
#include "../compat/compat.h"
#include "device.h"
#include "pages.h"
#include "queue.h"

/* The kernel address of a byte of a queue. */
static void *fakernic_queue_at(const struct fakernic_queue *queue, size_t byte)
{
	return queue->ring[byte >> PAGE_SHIFT] + offset_in_page(byte);
}

static int fakernic_queue_alloc_pages(struct fakernic_dev *dev,
				      struct fakernic_queue *queue,
				      size_t count)
{
	queue->ring = kvcalloc(count, sizeof(*queue->ring), GFP_KERNEL);
	queue->dma = kvcalloc(count, sizeof(*queue->dma), GFP_KERNEL);
	if (!queue->ring || !queue->dma)
		return -ENOMEM;
	while (queue->page_count < count) {
		u32 i = queue->page_count;

		queue->ring[i] = dma_alloc_coherent(&dev->pdev->dev, PAGE_SIZE,
						    &queue->dma[i],
						    GFP_KERNEL | __GFP_NOWARN);
		if (!queue->ring[i])
			return -ENOMEM;
		queue->page_count++;
		cond_resched();
	}
	return 0;
}

/* Allocates the tables for its pages; one page needs none. */
static int fakernic_queue_alloc_table(struct fakernic_dev *dev,
				      struct fakernic_queue *queue)
{
	u32 i;
	int ret;

	if (queue->page_count == 1)
		return 0;
	ret = fakernic_page_table_alloc(dev, &queue->table, queue->page_count);
	if (ret)
		return ret;
	for (i = 0; i < queue->page_count; i++)
		fakernic_page_table_set(&queue->table, i, queue->dma[i]);
	return 0;
}

int fakernic_queue_alloc(struct fakernic_dev *dev,
			 struct fakernic_queue *queue, u8 log_depth,
			 u8 log_stride)
{
	size_t ring_size = 1UL << (log_depth + log_stride);
	size_t size = ring_size + sizeof(*queue->record);
	int ret;

	memset(queue, 0, sizeof(*queue));
	ret = fakernic_queue_alloc_pages(dev, queue,
					 DIV_ROUND_UP(size, PAGE_SIZE));
	if (!ret)
		ret = fakernic_queue_alloc_table(dev, queue);
	if (ret) {
		fakernic_queue_free(dev, queue);
		return ret;
	}
	queue->record = fakernic_queue_at(queue, ring_size);
	queue->mask = (1U << log_depth) - 1;
	queue->log_depth = log_depth;
	queue->log_stride = log_stride;
	return 0;
}

void fakernic_queue_free(struct fakernic_dev *dev,
			 struct fakernic_queue *queue)
{
	fakernic_page_table_free(dev, &queue->table);
	while (queue->page_count) {
		u32 i = --queue->page_count;

		dma_free_coherent(&dev->pdev->dev, PAGE_SIZE,
				  queue->ring[i], queue->dma[i]);
		cond_resched();
	}
	kvfree(queue->ring);
	kvfree(queue->dma);
	queue->ring = NULL;
	queue->dma = NULL;
}

void fakernic_queue_reset(struct fakernic_queue *queue)
{
	u32 i;

	for (i = 0; i < queue->page_count; i++)
		memset(queue->ring[i], 0, PAGE_SIZE);
}

void fakernic_queue_pages(const struct fakernic_queue *queue,
			  struct fakernic_page_list *list)
{
	if (queue->page_count > 1) {
		fakernic_page_table_list(&queue->table, queue->page_count,
					 PAGE_SHIFT, list);
		return;
	}
	memset(list, 0, sizeof(*list));
	list->address = cpu_to_le64(queue->dma[0]);
	list->page_count = cpu_to_le32(1);
	list->page_shift = PAGE_SHIFT;
}

void fakernic_queue_write(struct fakernic_queue *queue, u32 index,
			  const void *entries, u32 count)
{
	size_t size = 1UL << queue->log_stride;
	u32 i;

	for (i = 0; i < count; i++)
		memcpy(fakernic_queue_entry(queue, index + i),
		       entries + i * size, size);
}

struct ib_umem *fakernic_user_queue(struct fakernic_dev *dev, u64 va,
				    u8 log_depth, u8 log_stride,
				    struct fakernic_page_table *table,
				    struct fakernic_page_list *list)
{
	size_t size = (1UL << (log_depth + log_stride)) +
		      sizeof(struct fakernic_queue_record);
	struct ib_umem *umem;
	int ret;

	if (!va || offset_in_page(va)) {
		fakernic_dbg(dev,
			     "queue memory at %#llx is not page aligned\n", va);
		return ERR_PTR(-EINVAL);
	}
	umem = ib_umem_get_va(dev->ibdev, va, size, IB_ACCESS_LOCAL_WRITE);
	if (IS_ERR(umem)) {
		fakernic_dbg(dev,
			     "queue memory at %#llx, %zu bytes, cannot be pinned: %ld\n",
			     va, size, PTR_ERR(umem));
		return umem;
	}
	ret = fakernic_umem_pages(dev, umem, PAGE_SIZE, table, list);
	if (ret) {
		ib_umem_release(umem);
		return ERR_PTR(ret);
	}
	return umem;
}
