// SPDX-License-Identifier: GPL-2.0-only
/*
 * Page lists and their tables (fakernic/base.h), for user memory and for
 * fast-registration MRs. A list of more than one page is a tree of tables; the
 * command names its root.
 */
#include <linux/dma-mapping.h>
#include <linux/log2.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <rdma/ib_umem.h>
#include <fakernic/base.h>
#include "../compat/compat.h"
#include "device.h"
#include "pages.h"

/* Stores the addresses of tables first..first + count - 1 in parents. */
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

void fakernic_page_table_list(const struct fakernic_page_table *table,
			      u32 page_count, u8 page_shift,
			      struct fakernic_page_list *list)
{
	memset(list, 0, sizeof(*list));
	/* The root is the last table. */
	list->address = cpu_to_le64(table->dma[table->count - 1]);
	list->page_count = cpu_to_le32(page_count);
	list->page_shift = page_shift;
	list->levels = table->levels;
}

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
