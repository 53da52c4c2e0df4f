// SPDX-License-Identifier: GPL-2.0-only
/*
 * The memory of queues. A ring of the kernel is contiguous and needs no table;
 * that of a user is pinned, page by page.
 */
#include <linux/dma-mapping.h>
#include <linux/string.h>
#include <rdma/ib_umem.h>
#include <fakernic/base.h>
#include "compat.h"
#include "device.h"
#include "pages.h"
#include "queue.h"

int fakernic_queue_alloc(struct fakernic_dev *dev,
			 struct fakernic_queue *queue, u8 log_depth,
			 u8 log_stride)
{
	size_t ring_size = 1UL << (log_depth + log_stride);

	queue->size = PAGE_ALIGN(ring_size + sizeof(*queue->record));
	queue->ring = dma_alloc_coherent(&dev->pdev->dev, queue->size,
					 &queue->dma,
					 GFP_KERNEL | __GFP_NOWARN);
	if (!queue->ring)
		return -ENOMEM;
	queue->record = queue->ring + ring_size;
	queue->mask = (1U << log_depth) - 1;
	queue->log_depth = log_depth;
	queue->log_stride = log_stride;
	return 0;
}

void fakernic_queue_free(struct fakernic_dev *dev,
			 struct fakernic_queue *queue)
{
	if (!queue->ring)
		return;
	dma_free_coherent(&dev->pdev->dev, queue->size, queue->ring,
			  queue->dma);
	queue->ring = NULL;
}

void fakernic_queue_reset(struct fakernic_queue *queue)
{
	memset(queue->ring, 0, queue->size);
}

void fakernic_queue_pages(const struct fakernic_queue *queue,
			  struct fakernic_page_list *list)
{
	memset(list, 0, sizeof(*list));
	list->address = cpu_to_le64(queue->dma);
	list->page_count = cpu_to_le32(queue->size >> FAKERNIC_PAGE_SHIFT);
	list->page_shift = FAKERNIC_PAGE_SHIFT;
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

	if (!va || va & (FAKERNIC_PAGE_SIZE - 1)) {
		fakernic_dbg(dev,
			     "queue memory at %#llx is not page aligned\n", va);
		return ERR_PTR(-EINVAL);
	}
	umem = ib_umem_get_va(&dev->ibdev, va, size, IB_ACCESS_LOCAL_WRITE);
	if (IS_ERR(umem)) {
		fakernic_dbg(dev,
			     "queue memory at %#llx, %zu bytes, cannot be pinned: %ld\n",
			     va, size, PTR_ERR(umem));
		return umem;
	}
	ret = fakernic_umem_pages(dev, umem, FAKERNIC_PAGE_SIZE, table, list);
	if (ret) {
		ib_umem_release(umem);
		return ERR_PTR(ret);
	}
	return umem;
}
