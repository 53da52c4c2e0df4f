/* SPDX-License-Identifier: GPL-2.0-only */
/* Mappings of BAR2 pages into applications. */
#ifndef FAKERNIC_DRIVER_MMAP_H
#define FAKERNIC_DRIVER_MMAP_H

#include <linux/types.h>

struct fakernic_dev;
struct fakernic_ucontext;
struct ib_ucontext;
struct rdma_user_mmap_entry;
struct vm_area_struct;

/* Called when no object and no mapping uses the pages. May sleep. */
typedef void (*fakernic_mmap_unused_fn)(struct fakernic_dev *dev,
					phys_addr_t address, u32 page_count);

/*
 * Allows a context to map page_count pages of PAGE_SIZE from address on, which
 * is a multiple of it. The caller removes the entry by
 * rdma_user_mmap_entry_remove(). unused() is called, if not NULL, when the last
 * mapping is gone as well. Returns ERR_PTR(-ENOMEM) on failure.
 */
struct rdma_user_mmap_entry *
fakernic_mmap_insert(struct fakernic_ucontext *context, phys_addr_t address,
		     u32 page_count, bool read_only,
		     fakernic_mmap_unused_fn unused);

/*
 * Operations of struct ib_device_ops. A mapping must cover a whole entry, or it
 * fails with -EINVAL. A writable mapping of a read-only entry fails with
 * -EPERM.
 */
int fakernic_mmap(struct ib_ucontext *ibucontext, struct vm_area_struct *vma);

/* The core calls this when an entry and all its mappings are gone. */
void fakernic_mmap_free(struct rdma_user_mmap_entry *rdma_entry);

#endif
