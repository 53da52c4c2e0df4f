// SPDX-License-Identifier: GPL-2.0-only
/*
 * Mappings of BAR2 into applications: doorbell pages, the clock page, device
 * memory. An entry describes contiguous pages and their offset in the context's
 * file. It exists until it is removed and its last mapping is gone.
 */
#include <linux/mm.h>
#include <linux/slab.h>
#include "../compat/compat.h"
#include "../core/device.h"
#include "mmap.h"
#include "ucontext.h"

struct fakernic_mmap_entry {
	struct rdma_user_mmap_entry rdma_entry;
	phys_addr_t address;
	bool read_only;
	fakernic_mmap_unused_fn unused;
};

struct rdma_user_mmap_entry *
fakernic_mmap_insert(struct fakernic_ucontext *context, phys_addr_t address,
		     u32 page_count, bool read_only,
		     fakernic_mmap_unused_fn unused)
{
	struct fakernic_mmap_entry *entry;
	int ret;

	entry = kzalloc(sizeof(*entry), GFP_KERNEL);
	if (!entry)
		return ERR_PTR(-ENOMEM);
	entry->address = address;
	entry->read_only = read_only;
	entry->unused = unused;
	ret = rdma_user_mmap_entry_insert(&context->ibucontext,
					  &entry->rdma_entry,
					  (size_t)page_count * PAGE_SIZE);
	if (ret) {
		kfree(entry);
		return ERR_PTR(ret);
	}
	return &entry->rdma_entry;
}

int fakernic_mmap(struct ib_ucontext *ibucontext, struct vm_area_struct *vma)
{
	struct rdma_user_mmap_entry *rdma_entry;
	struct fakernic_mmap_entry *entry;
	int ret;

	rdma_entry = rdma_user_mmap_entry_get(ibucontext, vma);
	if (!rdma_entry) {
		fakernic_dbg(to_fakernic_dev(ibucontext->device),
			     "mmap: no mapping of that size at page %#lx\n",
			     vma->vm_pgoff);
		return -EINVAL;
	}
	entry = container_of(rdma_entry, struct fakernic_mmap_entry,
			     rdma_entry);
	if (entry->read_only) {
		if (vma->vm_flags & VM_WRITE) {
			ret = -EPERM;
			goto out;
		}
		vm_flags_clear(vma, VM_MAYWRITE);
	}
	ret = rdma_user_mmap_io(ibucontext, vma, entry->address >> PAGE_SHIFT,
				vma->vm_end - vma->vm_start,
				pgprot_noncached(vma->vm_page_prot),
				rdma_entry);
out:
	rdma_user_mmap_entry_put(rdma_entry);
	return ret;
}

void fakernic_mmap_free(struct rdma_user_mmap_entry *rdma_entry)
{
	struct fakernic_mmap_entry *entry =
		container_of(rdma_entry, struct fakernic_mmap_entry,
			     rdma_entry);

	if (entry->unused)
		entry->unused(to_fakernic_dev(rdma_entry->ucontext->device),
			      entry->address, rdma_entry->npages);
	kfree(entry);
}
