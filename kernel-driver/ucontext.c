// SPDX-License-Identifier: GPL-2.0-only
/*
 * User contexts: each gets a doorbell page of its own, which rings only what it
 * created, and may map the device's clock page, read-only. A context that was
 * imported by its file descriptor asks where they are. Also: all that users may
 * map of the device.
 */
#include <linux/slab.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include "fakernic.h"

#define UVERBS_MODULE_NAME fakernic
#include <rdma/uverbs_named_ioctl.h>

static_assert(FAKERNIC_UVERBS_BASE == 1U << UVERBS_ID_NS_SHIFT);

/*
 * Copies a request of the uverbs ABI: all of what this driver knows must be
 * there, and what it does not know must be zero.
 */
int fakernic_copy_ureq(struct fakernic_dev *dev, void *ureq, size_t size,
		       struct ib_udata *udata)
{
	if (udata->inlen < size) {
		fakernic_dbg(dev, "request of %zu bytes, %zu needed\n",
			  udata->inlen, size);
		return -EINVAL;
	}
	if (udata->inlen > size &&
	    !ib_is_udata_cleared(udata, size, udata->inlen - size)) {
		fakernic_dbg(dev,
			     "request of %zu bytes is not zero behind %zu\n",
			  udata->inlen, size);
		return -EOPNOTSUPP;
	}
	return ib_copy_from_udata(ureq, udata, size);
}

/* For verbs that have no request of their own in the ABI. */
int fakernic_check_no_ureq(struct fakernic_dev *dev, struct ib_udata *udata)
{
	if (!udata || !udata->inlen ||
	    ib_is_udata_cleared(udata, 0, udata->inlen))
		return 0;
	fakernic_dbg(dev, "request of %zu bytes, none known\n",
		     udata->inlen);
	return -EOPNOTSUPP;
}

/* Lets a context map pages of BAR2. Ends with rdma_user_mmap_entry_remove(). */
struct rdma_user_mmap_entry *
fakernic_mmap_insert(struct fakernic_ucontext *context,
		     enum fakernic_mmap_type type, phys_addr_t address,
		     u32 page_count)
{
	struct fakernic_mmap_entry *entry;
	int ret;

	entry = kzalloc(sizeof(*entry), GFP_KERNEL);
	if (!entry)
		return ERR_PTR(-ENOMEM);
	entry->type = type;
	entry->address = address;
	ret = rdma_user_mmap_entry_insert(&context->ibucontext,
					  &entry->rdma_entry,
					  (size_t)page_count *
					  FAKERNIC_PAGE_SIZE);
	if (ret) {
		kfree(entry);
		return ERR_PTR(ret);
	}
	return &entry->rdma_entry;
}

static void fakernic_remove_pages(struct fakernic_ucontext *context)
{
	rdma_user_mmap_entry_remove(context->clock_entry);
	rdma_user_mmap_entry_remove(context->uar_entry);
}

static int fakernic_insert_pages(struct fakernic_dev *dev,
				 struct fakernic_ucontext *context)
{
	struct rdma_user_mmap_entry *entry;
	u64 clock;

	entry = fakernic_mmap_insert(context, FAKERNIC_MMAP_UAR,
				     dev->uar_address +
				     (u64)context->uar * FAKERNIC_PAGE_SIZE, 1);
	if (IS_ERR(entry))
		return PTR_ERR(entry);
	context->uar_entry = entry;

	if (!(dev->features & FAKERNIC_FEATURE_CLOCK_PAGE) ||
	    !fakernic_read(dev, FAKERNIC_REG_CLOCK_PAGE_COUNT))
		return 0;
	clock = fakernic_read(dev, FAKERNIC_REG_CLOCK_PAGE_OFFSET);
	if ((clock + 1) * FAKERNIC_PAGE_SIZE >
	    pci_resource_len(dev->pdev, FAKERNIC_BAR_UAR))
		return 0;
	entry = fakernic_mmap_insert(context, FAKERNIC_MMAP_CLOCK,
				     dev->uar_address +
				     clock * FAKERNIC_PAGE_SIZE, 1);
	if (IS_ERR(entry)) {
		fakernic_remove_pages(context);
		return PTR_ERR(entry);
	}
	context->clock_entry = entry;
	return 0;
}

static void
fakernic_describe_ucontext(struct fakernic_dev *dev,
			   const struct fakernic_ucontext *context,
			   struct fakernic_uresp_alloc_ucontext *uresp)
{
	memset(uresp, 0, sizeof(*uresp));
	uresp->features = dev->features;
	uresp->interface_version = dev->interface_version;
	uresp->max_qp_wr = le32_to_cpu(dev->caps.max_qp_wr);
	uresp->max_inline = le32_to_cpu(dev->caps.max_inline);
	uresp->max_send_sge = le16_to_cpu(dev->caps.max_send_sge);
	uresp->max_recv_sge = le16_to_cpu(dev->caps.max_recv_sge);
	uresp->wall_offset_ns = dev->wall_offset_ns;
	uresp->uar_offset = rdma_user_mmap_get_offset(context->uar_entry);
	if (context->clock_entry)
		uresp->clock_offset =
			rdma_user_mmap_get_offset(context->clock_entry);
}

int fakernic_alloc_ucontext(struct ib_ucontext *ibucontext,
			    struct ib_udata *udata)
{
	struct fakernic_dev *dev = to_fakernic_dev(ibucontext->device);
	struct fakernic_ucontext *context = to_fakernic_ucontext(ibucontext);
	struct fakernic_uresp_alloc_ucontext uresp;
	int ret;

	/* A larger page would give a user the doorbells of others. */
	if (PAGE_SIZE != FAKERNIC_PAGE_SIZE)
		return -EOPNOTSUPP;
	if (udata->outlen < sizeof(uresp)) {
		fakernic_dbg(dev,
			     "alloc context: response of %zu bytes, %zu needed\n",
			  udata->outlen, sizeof(uresp));
		return -EINVAL;
	}
	ret = fakernic_cmd_alloc(dev, FAKERNIC_CMD_ALLOC_UAR, &context->uar);
	if (ret)
		return ret;
	ret = fakernic_insert_pages(dev, context);
	if (ret)
		goto err_dealloc;
	fakernic_describe_ucontext(dev, context, &uresp);
	ret = ib_copy_to_udata(udata, &uresp, sizeof(uresp));
	if (ret)
		goto err_remove;
	return 0;

err_remove:
	fakernic_remove_pages(context);
err_dealloc:
	fakernic_cmd_free(dev, FAKERNIC_CMD_DEALLOC_UAR, context->uar);
	return ret;
}

void fakernic_dealloc_ucontext(struct ib_ucontext *ibucontext)
{
	struct fakernic_ucontext *context = to_fakernic_ucontext(ibucontext);

	fakernic_remove_pages(context);
	fakernic_cmd_free(to_fakernic_dev(ibucontext->device),
			  FAKERNIC_CMD_DEALLOC_UAR, context->uar);
}

int fakernic_query_ucontext(struct ib_ucontext *ibucontext,
			    struct uverbs_attr_bundle *attrs)
{
	struct fakernic_uresp_alloc_ucontext uresp;

	fakernic_describe_ucontext(to_fakernic_dev(ibucontext->device),
				   to_fakernic_ucontext(ibucontext), &uresp);
	return uverbs_copy_to_struct_or_zero(attrs,
					     FAKERNIC_ATTR_QUERY_CONTEXT_RESP,
					     &uresp, sizeof(uresp));
}

ADD_UVERBS_ATTRIBUTES_SIMPLE(
	fakernic_query_context, UVERBS_OBJECT_DEVICE,
	UVERBS_METHOD_QUERY_CONTEXT,
	UVERBS_ATTR_PTR_OUT(FAKERNIC_ATTR_QUERY_CONTEXT_RESP,
			    UVERBS_ATTR_STRUCT(
				struct fakernic_uresp_alloc_ucontext,
				max_recv_sge),
			    UA_MANDATORY));

const struct uapi_definition fakernic_uapi_defs[] = {
	UAPI_DEF_CHAIN_OBJ_TREE(UVERBS_OBJECT_DEVICE, &fakernic_query_context),
	UAPI_DEF_CHAIN(fakernic_dm_defs),
	{},
};

int fakernic_mmap(struct ib_ucontext *ibucontext, struct vm_area_struct *vma)
{
	struct rdma_user_mmap_entry *rdma_entry;
	struct fakernic_mmap_entry *entry;
	int ret;

	rdma_entry = rdma_user_mmap_entry_get(ibucontext, vma);
	if (!rdma_entry) {
		fakernic_dbg(to_fakernic_dev(ibucontext->device),
			     "mmap: nothing of that size at page %#lx\n",
			     vma->vm_pgoff);
		return -EINVAL;
	}
	entry = container_of(rdma_entry, struct fakernic_mmap_entry,
			     rdma_entry);
	if (entry->type == FAKERNIC_MMAP_CLOCK) {
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

/* Neither an object nor a mapping needs the pages any more. */
void fakernic_mmap_free(struct rdma_user_mmap_entry *rdma_entry)
{
	struct fakernic_mmap_entry *entry =
		container_of(rdma_entry, struct fakernic_mmap_entry,
			     rdma_entry);

	if (entry->type == FAKERNIC_MMAP_DM)
		fakernic_dm_give_back(
			to_fakernic_dev(rdma_entry->ucontext->device),
			entry->address, rdma_entry->npages);
	kfree(entry);
}

/* The core zaps the mappings; there is nothing else a user could reach. */
void fakernic_disassociate_ucontext(struct ib_ucontext *ibucontext)
{
}
