// SPDX-License-Identifier: GPL-2.0-only
/*
 * Device memory (IBV_ALLOC_DM): whole pages of the memory behind BAR2. The
 * driver allocates them and maps them into the calling process. They are
 * registered like any other memory, and the device only knows the keys.
 *
 * The mmap entry owns the pages, not the verbs object, because a process may
 * free the object and keep the mapping. The pages become free when the last
 * mapping is gone, and are zeroed before the next use.
 */
#include <linux/bitmap.h>
#include <linux/io.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/uverbs_ioctl.h>
#include <fakernic/base.h>
#include <fakernic/cmdq.h>
#include <fakernic/mr.h>
#include <fakernic/regs.h>
#include <rdma/fakernic-abi.h>
#include "../core/device.h"
#include "../core/regs.h"
#include "dm.h"
#include "mmap.h"
#include "mr.h"
#include "ucontext.h"

#define UVERBS_MODULE_NAME fakernic
#include <rdma/uverbs_named_ioctl.h>

/* Log2 of the largest alignment that is accepted. */
#define FAKERNIC_DM_LOG_ALIGN_MAX	31

static phys_addr_t fakernic_dm_address(struct fakernic_dev *dev, u32 page)
{
	return dev->uar_address + ((u64)dev->dm.first_page + page) * PAGE_SIZE;
}

int fakernic_dm_init(struct fakernic_dev *dev)
{
	u64 start, end, first, past;

	spin_lock_init(&dev->dm.lock);
	if (!(dev->features & FAKERNIC_FEATURE_DM) || READ_ONCE(dev->dead))
		return 0;
	start = (u64)fakernic_read(dev, FAKERNIC_REG_DM_OFFSET) *
		FAKERNIC_PAGE_SIZE;
	end = start + (u64)fakernic_read(dev, FAKERNIC_REG_DM_PAGES) *
			      FAKERNIC_PAGE_SIZE;
	if (end > pci_resource_len(dev->pdev, FAKERNIC_BAR_UAR)) {
		dev_warn(&dev->pdev->dev,
			 "device memory, bytes %#llx to %#llx, exceeds its BAR\n",
			 start, end);
		return 0;
	}
	first = DIV_ROUND_UP_ULL(start, PAGE_SIZE);
	past = end >> PAGE_SHIFT;
	if (past <= first)
		return 0;
	dev->dm.used = bitmap_zalloc(past - first, GFP_KERNEL);
	if (!dev->dm.used)
		return -ENOMEM;
	dev->dm.first_page = first;
	dev->dm.page_count = past - first;
	dev->dm.skipped = first * PAGE_SIZE - start;
	return 0;
}

void fakernic_dm_cleanup(struct fakernic_dev *dev)
{
	WARN_ON(dev->dm.page_count &&
		!bitmap_empty(dev->dm.used, dev->dm.page_count));
	bitmap_free(dev->dm.used);
	dev->dm.used = NULL;
	dev->dm.page_count = 0;
}

/* Frees pages without mappings. fakernic_dm_alloc_pages() zeroes them later. */
static void fakernic_dm_free_pages(struct fakernic_dev *dev,
				   phys_addr_t address, u32 count)
{
	u32 page = (address - fakernic_dm_address(dev, 0)) >> PAGE_SHIFT;

	spin_lock(&dev->dm.lock);
	bitmap_clear(dev->dm.used, page, count);
	spin_unlock(&dev->dm.lock);
}

/* Allocates count contiguous pages; returns the first one or an error. */
static int fakernic_dm_alloc_pages(struct fakernic_dev *dev, u32 count,
				   u8 log_align)
{
	unsigned long mask = 0, page;
	void __iomem *memory;

	if (log_align > PAGE_SHIFT)
		mask = (1UL << (log_align - PAGE_SHIFT)) - 1;
	spin_lock(&dev->dm.lock);
	page = bitmap_find_next_zero_area(dev->dm.used, dev->dm.page_count, 0,
					  count, mask);
	if (page < dev->dm.page_count)
		bitmap_set(dev->dm.used, page, count);
	spin_unlock(&dev->dm.lock);
	if (page >= dev->dm.page_count)
		return -ENOMEM;

	/* Zero the pages so that no data leaks from their last user. */
	memory = ioremap(fakernic_dm_address(dev, page),
			 (size_t)count * PAGE_SIZE);
	if (!memory) {
		fakernic_dm_free_pages(dev, fakernic_dm_address(dev, page),
				       count);
		return -ENOMEM;
	}
	memset_io(memory, 0, (size_t)count * PAGE_SIZE);
	iounmap(memory);
	return page;
}

static int fakernic_check_dm(struct fakernic_dev *dev,
			     const struct ib_dm_alloc_attr *attr)
{
	if (!attr->length || attr->alignment > FAKERNIC_DM_LOG_ALIGN_MAX ||
	    attr->flags) {
		fakernic_dbg(dev,
			     "alloc DM: %llu bytes, log alignment %u, flags %#x\n",
			     attr->length, attr->alignment, attr->flags);
		return -EINVAL;
	}
	if (attr->length > dev->ibdev->attrs.max_dm_size) {
		fakernic_dbg(dev, "alloc DM: %llu bytes of %llu\n",
			     attr->length, dev->ibdev->attrs.max_dm_size);
		return -ENOMEM;
	}
	return 0;
}

struct ib_dm *fakernic_alloc_dm(struct ib_device *ibdev,
				struct ib_ucontext *ibucontext,
				struct ib_dm_alloc_attr *attr,
				struct uverbs_attr_bundle *attrs)
{
	struct fakernic_dev *dev = to_fakernic_dev(ibdev);
	struct fakernic_ucontext *context = to_fakernic_ucontext(ibucontext);
	struct rdma_user_mmap_entry *entry;
	struct fakernic_dm *dm;
	u32 count;
	u64 offset;
	int ret;

	ret = fakernic_check_dm(dev, attr);
	if (ret)
		return ERR_PTR(ret);
	/* No command follows that would fail on a dead device. */
	if (READ_ONCE(dev->dead))
		return ERR_PTR(-EIO);
	dm = kzalloc(sizeof(*dm), GFP_KERNEL);
	if (!dm)
		return ERR_PTR(-ENOMEM);
	count = DIV_ROUND_UP(attr->length, PAGE_SIZE);
	ret = fakernic_dm_alloc_pages(dev, count, attr->alignment);
	if (ret < 0)
		goto err_free;
	dm->page = ret;
	entry = fakernic_mmap_insert(context,
				     fakernic_dm_address(dev, dm->page), count,
				     false, fakernic_dm_free_pages);
	if (IS_ERR(entry)) {
		ret = PTR_ERR(entry);
		fakernic_dm_free_pages(dev, fakernic_dm_address(dev, dm->page),
				       count);
		goto err_free;
	}
	dm->entry = entry;
	offset = rdma_user_mmap_get_offset(entry);
	ret = uverbs_copy_to(attrs, FAKERNIC_ATTR_ALLOC_DM_RESP_OFFSET,
			     &offset, sizeof(offset));
	if (ret)
		goto err_remove;
	return &dm->ibdm;

err_remove:
	/* Removing the entry frees the pages. */
	rdma_user_mmap_entry_remove(entry);
err_free:
	kfree(dm);
	return ERR_PTR(ret);
}

int fakernic_dealloc_dm(struct ib_dm *ibdm, struct uverbs_attr_bundle *attrs)
{
	struct fakernic_dm *dm = to_fakernic_dm(ibdm);

	rdma_user_mmap_entry_remove(dm->entry);
	kfree(dm);
	return 0;
}

/* The core has checked the range, and that ZERO_BASED is set. */
struct ib_mr *fakernic_reg_dm_mr(struct ib_pd *ibpd, struct ib_dm *ibdm,
				 struct ib_dm_mr_attr *attr,
				 struct uverbs_attr_bundle *attrs)
{
	struct fakernic_dm *dm = to_fakernic_dm(ibdm);
	u64 first = to_fakernic_dev(ibpd->device)->dm.skipped +
		    (u64)dm->page * PAGE_SIZE + attr->offset;
	u32 in_page = first & (FAKERNIC_PAGE_SIZE - 1);
	struct fakernic_create_mr_req req = {
		.type = FAKERNIC_MR_DM,
		.iova = cpu_to_le64(in_page),
		.length = cpu_to_le64(attr->length),
		.pages.address = cpu_to_le64(first - in_page),
		.pages.page_shift = FAKERNIC_PAGE_SHIFT,
	};

	req.pages.page_count =
		cpu_to_le32(max_t(u64, 1, DIV_ROUND_UP(in_page + attr->length,
						       FAKERNIC_PAGE_SIZE)));
	return fakernic_make_mr(ibpd, &req, attr->access_flags);
}

static int
UVERBS_HANDLER(FAKERNIC_METHOD_DM_QUERY)(struct uverbs_attr_bundle *attrs)
{
	struct ib_dm *ibdm =
		uverbs_attr_get_obj(attrs, FAKERNIC_ATTR_QUERY_DM_HANDLE);
	struct fakernic_dm *dm;
	u64 offset, length;
	int ret;

	if (IS_ERR(ibdm))
		return PTR_ERR(ibdm);
	dm = to_fakernic_dm(ibdm);
	offset = rdma_user_mmap_get_offset(dm->entry);
	length = ibdm->length;
	ret = uverbs_copy_to(attrs, FAKERNIC_ATTR_QUERY_DM_RESP_OFFSET,
			     &offset, sizeof(offset));
	if (ret)
		return ret;
	return uverbs_copy_to(attrs, FAKERNIC_ATTR_QUERY_DM_RESP_LENGTH,
			      &length, sizeof(length));
}

DECLARE_UVERBS_NAMED_METHOD(FAKERNIC_METHOD_DM_QUERY,
			    UVERBS_ATTR_IDR(FAKERNIC_ATTR_QUERY_DM_HANDLE,
					    UVERBS_OBJECT_DM,
					    UVERBS_ACCESS_READ, UA_MANDATORY),
			    UVERBS_ATTR_PTR_OUT(FAKERNIC_ATTR_QUERY_DM_RESP_OFFSET,
						UVERBS_ATTR_TYPE(u64),
						UA_MANDATORY),
			    UVERBS_ATTR_PTR_OUT(FAKERNIC_ATTR_QUERY_DM_RESP_LENGTH,
						UVERBS_ATTR_TYPE(u64),
						UA_MANDATORY));

ADD_UVERBS_METHODS(fakernic_dm_query, UVERBS_OBJECT_DM,
		   &UVERBS_METHOD(FAKERNIC_METHOD_DM_QUERY));

ADD_UVERBS_ATTRIBUTES_SIMPLE(fakernic_dm_alloc, UVERBS_OBJECT_DM,
			     UVERBS_METHOD_DM_ALLOC,
			     UVERBS_ATTR_PTR_OUT(FAKERNIC_ATTR_ALLOC_DM_RESP_OFFSET,
						 UVERBS_ATTR_TYPE(u64),
						 UA_MANDATORY));

const struct uapi_definition fakernic_dm_defs[] = {
	UAPI_DEF_CHAIN_OBJ_TREE(UVERBS_OBJECT_DM, &fakernic_dm_alloc),
	UAPI_DEF_CHAIN_OBJ_TREE(UVERBS_OBJECT_DM, &fakernic_dm_query),
	{},
};
