/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What users may map of BAR2.
 */
#ifndef FAKERNIC_DRIVER_MMAP_H
#define FAKERNIC_DRIVER_MMAP_H

#include <linux/types.h>

struct fakernic_dev;
struct fakernic_ucontext;
struct ib_ucontext;
struct rdma_user_mmap_entry;
struct vm_area_struct;

/* Neither an object nor a mapping needs the pages any more. May sleep. */
typedef void (*fakernic_mmap_unused_fn)(struct fakernic_dev *dev,
					phys_addr_t address, u32 page_count);

/*
 * Lets a context map page_count pages of FAKERNIC_PAGE_SIZE from that address
 * on. The caller ends it with rdma_user_mmap_entry_remove(); unused, if it is
 * not NULL, is called when the last mapping has gone, too. ERR_PTR: -ENOMEM.
 */
struct rdma_user_mmap_entry *
fakernic_mmap_insert(struct fakernic_ucontext *context, phys_addr_t address,
		     u32 page_count, bool read_only,
		     fakernic_mmap_unused_fn unused);

/*
 * Operations of struct ib_device_ops. A mapping is of a whole entry: -EINVAL;
 * -EPERM for a writable one of what is read-only.
 */
int fakernic_mmap(struct ib_ucontext *ibucontext, struct vm_area_struct *vma);

/* The core calls it when an entry and all its mappings have gone. */
void fakernic_mmap_free(struct rdma_user_mmap_entry *rdma_entry);

#endif
