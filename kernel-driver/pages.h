/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Page lists (fakernic/base.h): how the device is told of memory that is not
 * contiguous to it.
 */
#ifndef FAKERNIC_DRIVER_PAGES_H
#define FAKERNIC_DRIVER_PAGES_H

#include <linux/types.h>
#include <fakernic/base.h>

struct fakernic_dev;
struct ib_umem;

/* A page list's tables, in memory the device can read. Zeroed: none. */
struct fakernic_page_table {
	void **page;			/* leaves first, then their parents */
	dma_addr_t *dma;
	u32 count;
	u32 leaf_count;
	u8 levels;
};

/*
 * Makes tables for up to page_count pages (1 to 2^27), all entries zero.
 * -EINVAL, -ENOMEM; then there is nothing to free.
 */
int fakernic_page_table_alloc(struct fakernic_dev *dev,
			      struct fakernic_page_table *table,
			      size_t page_count);

/* Leaves it zeroed; may be called again, and on one that never was made. */
void fakernic_page_table_free(struct fakernic_dev *dev,
			      struct fakernic_page_table *table);

/* Enters the DMA address of page number index. In any context. */
void fakernic_page_table_set(struct fakernic_page_table *table, u32 index,
			     dma_addr_t page);

/*
 * The list of the first page_count pages, each of 1 << page_shift bytes. The
 * table must last as long as the device reads the list. In any context.
 */
void fakernic_page_table_list(const struct fakernic_page_table *table,
			      u32 page_count, u8 page_shift,
			      struct fakernic_page_list *list);

/*
 * The list of pinned user memory in pages of page_size, a power of two that
 * ib_umem_find_best_pgsz() has found right. The caller frees the table when the
 * command that carries the list is done; a single page needs none.
 */
int fakernic_umem_pages(struct fakernic_dev *dev, struct ib_umem *umem,
			unsigned long page_size,
			struct fakernic_page_table *table,
			struct fakernic_page_list *list);

#endif
