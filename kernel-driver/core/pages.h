/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Page lists (fakernic/base.h), which describe memory that is not contiguous
 * for the device.
 */
#ifndef FAKERNIC_DRIVER_PAGES_H
#define FAKERNIC_DRIVER_PAGES_H

#include <linux/types.h>
#include <fakernic/base.h>

struct fakernic_dev;
struct ib_umem;

/* Tables of a page list, in memory that the device can read. Zeroed: none. */
struct fakernic_page_table {
	void **page;			/* leaves first, then their parents */
	dma_addr_t *dma;
	u32 count;
	u32 leaf_count;
	u8 levels;
};

/*
 * Allocates tables for up to page_count pages (1 to 2^27), all entries zero.
 * -EINVAL, -ENOMEM: there is nothing to free.
 */
int fakernic_page_table_alloc(struct fakernic_dev *dev,
			      struct fakernic_page_table *table,
			      size_t page_count);

/* Zeroes the structure. May be called again, or if never allocated. */
void fakernic_page_table_free(struct fakernic_dev *dev,
			      struct fakernic_page_table *table);

/* Stores the DMA address of page number index. In any context. */
void fakernic_page_table_set(struct fakernic_page_table *table, u32 index,
			     dma_addr_t page);

/*
 * Fills in the list of the first page_count pages, each of 1 << page_shift
 * bytes. The table must exist as long as the device reads the list. In any
 * context.
 */
void fakernic_page_table_list(const struct fakernic_page_table *table,
			      u32 page_count, u8 page_shift,
			      struct fakernic_page_list *list);

/*
 * Fills in the list of pinned user memory in pages of page_size, a power of two
 * from ib_umem_find_best_pgsz(). The caller frees the table when the command
 * with the list is done; a single page needs none.
 */
int fakernic_umem_pages(struct fakernic_dev *dev, struct ib_umem *umem,
			unsigned long page_size,
			struct fakernic_page_table *table,
			struct fakernic_page_list *list);

#endif
