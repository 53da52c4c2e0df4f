// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory the device reaches by page lists (fakernic/base.h): rings of the
 * kernel, which are contiguous and need no table; and tables of the pages of
 * user memory and of fast-registration MRs.
 */
#include <linux/slab.h>
#include "fakernic.h"

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

/* As new: for a queue whose QP went back to RESET. */
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

/* Enters the addresses of the tables first..first + count - 1 into parents. */
static void fakernic_page_table_link(struct fakernic_page_table *table,
				     u32 first, u32 count, u32 parent)
{
	u32 i;

	for (i = 0; i < count; i++) {
		__le64 *entries =
			table->page[parent + i / FAKERNIC_PAGE_TABLE_ENTRIES];

		entries[i % FAKERNIC_PAGE_TABLE_ENTRIES] =
			cpu_to_le64(table->dma[first + i]);
	}
}

static void fakernic_page_table_build(struct fakernic_page_table *table)
{
	u32 first = 0, count = table->leaf_count;

	table->levels = 1;
	while (count > 1) {
		fakernic_page_table_link(table, first, count, first + count);
		first += count;
		count = DIV_ROUND_UP(count, FAKERNIC_PAGE_TABLE_ENTRIES);
		table->levels++;
	}
}

/* Tables for up to page_count pages, all entries zero. */
int fakernic_page_table_alloc(struct fakernic_dev *dev,
			      struct fakernic_page_table *table,
			      size_t page_count)
{
	size_t leaves = DIV_ROUND_UP(page_count, FAKERNIC_PAGE_TABLE_ENTRIES);
	size_t total, n = leaves;
	u32 i;

	memset(table, 0, sizeof(*table));
	/* Three levels reach 2^27 pages. */
	if (!page_count || leaves > FAKERNIC_PAGE_TABLE_ENTRIES *
				    FAKERNIC_PAGE_TABLE_ENTRIES)
		return -EINVAL;
	for (total = n; n > 1; total += n)
		n = DIV_ROUND_UP(n, FAKERNIC_PAGE_TABLE_ENTRIES);

	table->page = kvcalloc(total, sizeof(*table->page), GFP_KERNEL);
	table->dma = kvcalloc(total, sizeof(*table->dma), GFP_KERNEL);
	if (!table->page || !table->dma)
		goto err_free;
	table->leaf_count = leaves;
	for (i = 0; i < total; i++) {
		table->page[i] = dma_alloc_coherent(&dev->pdev->dev,
						    FAKERNIC_PAGE_SIZE,
						    &table->dma[i],
						    GFP_KERNEL);
		if (!table->page[i])
			goto err_free;
		table->count++;
	}
	fakernic_page_table_build(table);
	return 0;

err_free:
	fakernic_page_table_free(dev, table);
	return -ENOMEM;
}

void fakernic_page_table_free(struct fakernic_dev *dev,
			      struct fakernic_page_table *table)
{
	u32 i;

	for (i = 0; i < table->count; i++)
		dma_free_coherent(&dev->pdev->dev, FAKERNIC_PAGE_SIZE,
				  table->page[i], table->dma[i]);
	kvfree(table->page);
	kvfree(table->dma);
	memset(table, 0, sizeof(*table));
}

void fakernic_page_table_set(struct fakernic_page_table *table, u32 index,
			     dma_addr_t page)
{
	__le64 *entries = table->page[index / FAKERNIC_PAGE_TABLE_ENTRIES];

	entries[index % FAKERNIC_PAGE_TABLE_ENTRIES] = cpu_to_le64(page);
}

/* The list of the first page_count pages; the root is the last table. */
void fakernic_page_table_list(const struct fakernic_page_table *table,
			      u32 page_count, u8 page_shift,
			      struct fakernic_page_list *list)
{
	memset(list, 0, sizeof(*list));
	list->address = cpu_to_le64(table->dma[table->count - 1]);
	list->page_count = cpu_to_le32(page_count);
	list->page_shift = page_shift;
	list->levels = table->levels;
}

/*
 * The page list of pinned user memory. The table may be freed as soon as the
 * command that carries the list is done; a single page needs none.
 */
int fakernic_umem_pages(struct fakernic_dev *dev, struct ib_umem *umem,
			unsigned long page_size,
			struct fakernic_page_table *table,
			struct fakernic_page_list *list)
{
	size_t count = ib_umem_num_dma_blocks(umem, page_size);
	u8 page_shift = order_base_2(page_size);
	struct ib_block_iter block;
	u32 i = 0;
	int ret;

	memset(table, 0, sizeof(*table));
	if (count == 1) {
		memset(list, 0, sizeof(*list));
		rdma_umem_for_each_dma_block(umem, &block, page_size) {
			dma_addr_t page = rdma_block_iter_dma_address(&block);

			list->address = cpu_to_le64(page);
		}
		list->page_count = cpu_to_le32(1);
		list->page_shift = page_shift;
		return 0;
	}
	ret = fakernic_page_table_alloc(dev, table, count);
	if (ret)
		return ret;
	rdma_umem_for_each_dma_block(umem, &block, page_size)
		fakernic_page_table_set(table, i++,
					rdma_block_iter_dma_address(&block));
	fakernic_page_table_list(table, count, page_shift, list);
	return 0;
}

/*
 * Pins the memory of a queue that user space made: a ring and its record,
 * starting on a page boundary. The caller frees the table after the command.
 */
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
	umem = ib_umem_get(&dev->ibdev, va, size, IB_ACCESS_LOCAL_WRITE);
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
