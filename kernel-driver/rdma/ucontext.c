// SPDX-License-Identifier: GPL-2.0-only
/*
 * User contexts. Each has its own doorbell page, which rings only objects of
 * that context, and may map the device's clock page, read-only. A process that
 * imported a context by its file descriptor queries the offsets of both.
 *
 * A process maps whole pages of the kernel. If these are larger than a doorbell
 * page, one of them shows several, of which only the first is used.
 */
#include <linux/string.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/uverbs_ioctl.h>
#include <fakernic/base.h>
#include <fakernic/cmdq.h>
#include <fakernic/regs.h>
#include <rdma/fakernic-abi.h>
#include "../core/cmd.h"
#include "../core/cmdq.h"
#include "../core/device.h"
#include "../core/regs.h"
#include "mmap.h"
#include "ucontext.h"
#include "udata.h"

#define UVERBS_MODULE_NAME fakernic
#include <rdma/uverbs_named_ioctl.h>

/*
 * Every provider requests the fields up to max_recv_sge. Newer fields are only
 * for providers that know them.
 */
#define FAKERNIC_CONTEXT_RESP	struct fakernic_uresp_alloc_ucontext
#define FAKERNIC_CONTEXT_RESP_MIN					\
	offsetofend(FAKERNIC_CONTEXT_RESP, max_recv_sge)

/* Doorbell pages in a page of the kernel. */
#define FAKERNIC_UARS_PER_PAGE	(PAGE_SIZE / FAKERNIC_PAGE_SIZE)
/* Page number on a dead device: any page but the kernel's. */
#define FAKERNIC_UAR_OF_DEAD	(FAKERNIC_KERNEL_UAR + FAKERNIC_UARS_PER_PAGE)

static_assert(FAKERNIC_UVERBS_BASE == 1U << UVERBS_ID_NS_SHIFT);

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

	entry = fakernic_mmap_insert(context, dev->uar_address +
				     (u64)context->uar * FAKERNIC_PAGE_SIZE,
				     1, false, NULL);
	if (IS_ERR(entry))
		return PTR_ERR(entry);
	context->uar_entry = entry;

	if (!(dev->features & FAKERNIC_FEATURE_CLOCK_PAGE) ||
	    !fakernic_read(dev, FAKERNIC_REG_CLOCK_PAGE_COUNT))
		return 0;
	clock = fakernic_read(dev, FAKERNIC_REG_CLOCK_PAGE_OFFSET);
	/* Programs expect the clock page at the start of their mapping. */
	if (clock % FAKERNIC_UARS_PER_PAGE ||
	    (clock + FAKERNIC_UARS_PER_PAGE) * FAKERNIC_PAGE_SIZE >
		    pci_resource_len(dev->pdev, FAKERNIC_BAR_UAR))
		return 0;
	entry = fakernic_mmap_insert(context, dev->uar_address +
				     clock * FAKERNIC_PAGE_SIZE, 1, true,
				     NULL);
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

/* Pages behind the BAR belong to other devices; page 0 is the kernel's. */
static bool fakernic_is_user_uar(struct fakernic_dev *dev, u32 uar)
{
	return uar != FAKERNIC_KERNEL_UAR &&
	       ((u64)uar + FAKERNIC_UARS_PER_PAGE) * FAKERNIC_PAGE_SIZE <=
		       pci_resource_len(dev->pdev, FAKERNIC_BAR_UAR);
}

/*
 * Allocates a doorbell page that begins a page of the kernel. Others stay
 * allocated until a reset, so that the device does not return them again.
 */
static int fakernic_alloc_first_uar(struct fakernic_dev *dev, u32 *uar)
{
	u32 tries = fakernic_read(dev, FAKERNIC_REG_UAR_COUNT);
	int ret;

	do {
		ret = fakernic_cmd_alloc(dev, FAKERNIC_CMD_ALLOC_UAR, uar);
	} while (!ret && *uar % FAKERNIC_UARS_PER_PAGE && tries--);
	return ret;
}

/*
 * A dead device can be opened for inspection. Any page will do: no doorbell
 * works before the device recovers, and by then the mappings are gone.
 */
static int fakernic_alloc_uar(struct fakernic_dev *dev, u32 *uar)
{
	int ret = fakernic_alloc_first_uar(dev, uar);

	if (!ret && (*uar % FAKERNIC_UARS_PER_PAGE ||
		     !fakernic_is_user_uar(dev, *uar))) {
		dev_err(&dev->pdev->dev, "device has no doorbell page %#x\n",
			*uar);
		fakernic_cmdq_kill(dev, FAKERNIC_DEATH_INVALID_ANSWER);
		return -EIO;
	}
	if (ret != -EIO || !READ_ONCE(dev->dead))
		return ret;
	*uar = FAKERNIC_UAR_OF_DEAD;
	return fakernic_is_user_uar(dev, *uar) ? 0 : ret;
}

int fakernic_alloc_ucontext(struct ib_ucontext *ibucontext,
			    struct ib_udata *udata)
{
	struct fakernic_dev *dev = to_fakernic_dev(ibucontext->device);
	struct fakernic_ucontext *context = to_fakernic_ucontext(ibucontext);
	struct fakernic_uresp_alloc_ucontext uresp;
	int ret;

	if (dev->bounced) {
		ibdev_err_ratelimited(dev->ibdev,
				      "no RDMA for programs: bounce buffers keep their memory from the device: boot without swiotlb=force\n");
		return -EOPNOTSUPP;
	}
	if (udata->outlen < FAKERNIC_CONTEXT_RESP_MIN) {
		fakernic_dbg(dev,
			     "alloc context: response of %zu bytes, %zu needed\n",
			     udata->outlen, FAKERNIC_CONTEXT_RESP_MIN);
		return -EINVAL;
	}
	ret = fakernic_check_no_ureq(dev, udata);
	if (ret)
		return ret;
	ret = fakernic_alloc_uar(dev, &context->uar);
	if (ret)
		return ret;
	ret = fakernic_insert_pages(dev, context);
	if (ret)
		goto err_dealloc;
	fakernic_describe_ucontext(dev, context, &uresp);
	ret = fakernic_copy_uresp(udata, &uresp, sizeof(uresp));
	if (ret)
		goto err_remove;
	return 0;

err_remove:
	fakernic_remove_pages(context);
err_dealloc:
	fakernic_cmd_drop(dev, FAKERNIC_CMD_DEALLOC_UAR, context->uar);
	return ret;
}

void fakernic_dealloc_ucontext(struct ib_ucontext *ibucontext)
{
	struct fakernic_ucontext *context = to_fakernic_ucontext(ibucontext);

	fakernic_remove_pages(context);
	fakernic_cmd_drop(to_fakernic_dev(ibucontext->device),
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

ADD_UVERBS_ATTRIBUTES_SIMPLE(fakernic_query_context, UVERBS_OBJECT_DEVICE,
			     UVERBS_METHOD_QUERY_CONTEXT,
			     UVERBS_ATTR_PTR_OUT(FAKERNIC_ATTR_QUERY_CONTEXT_RESP,
						 UVERBS_ATTR_STRUCT(FAKERNIC_CONTEXT_RESP,
								    max_recv_sge),
						 UA_MANDATORY));

const struct uapi_definition fakernic_ucontext_defs[] = {
	UAPI_DEF_CHAIN_OBJ_TREE(UVERBS_OBJECT_DEVICE, &fakernic_query_context),
	{},
};

/* The core zaps the mappings; users can reach nothing else. */
void fakernic_disassociate_ucontext(struct ib_ucontext *ibucontext)
{
}
