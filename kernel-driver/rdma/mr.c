// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory regions of four kinds:
 * - the whole DMA space, for the kernel
 * - pinned user memory and dma-bufs
 * - regions whose pages a REG_MR work request sets (IBTA 10.6.3, 10.6.4)
 * - regions paged on demand by odp.c
 *
 * lkey and rkey of a region are always equal.
 */
#include <linux/ioport.h>
#include <linux/slab.h>
#include <rdma/ib_umem.h>
#include <fakernic/base.h>
#include <fakernic/cmdq.h>
#include <fakernic/mr.h>
#include <fakernic/regs.h>
#include "../compat/compat.h"
#include "../core/cmd.h"
#include "../core/cmdq.h"
#include "../core/device.h"
#include "../core/object.h"
#include "../core/pages.h"
#include "mr.h"
#include "odp.h"
#include "pd.h"
#include "udata.h"

/* Checks and converts a region's access bits; drops optional hints. */
static int fakernic_mr_access(struct fakernic_dev *dev, int access, __le32 *to)
{
	int known = IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE |
		    IB_ACCESS_REMOTE_READ | IB_ACCESS_HUGETLB |
		    IB_ZERO_BASED | IB_ACCESS_OPTIONAL;

	BUILD_BUG_ON(FAKERNIC_ACCESS_LOCAL_WRITE != IB_ACCESS_LOCAL_WRITE);
	BUILD_BUG_ON(FAKERNIC_ACCESS_REMOTE_READ != IB_ACCESS_REMOTE_READ);

	if (dev->features & FAKERNIC_FEATURE_ATOMIC)
		known |= IB_ACCESS_REMOTE_ATOMIC;
	if (dev->features & FAKERNIC_FEATURE_MW)
		known |= IB_ACCESS_MW_BIND;
	if (dev->features & FAKERNIC_FEATURE_FLUSH)
		known |= FAKERNIC_ACCESS_FLUSH_GLOBAL |
			 FAKERNIC_ACCESS_FLUSH_PERSISTENT;
	/* On-demand pages support no windows and no persistent FLUSH. */
	if (dev->features & FAKERNIC_FEATURE_ODP &&
	    access & IB_ACCESS_ON_DEMAND) {
		known &= ~(IB_ACCESS_MW_BIND | IB_ZERO_BASED |
			   FAKERNIC_ACCESS_FLUSH_PERSISTENT);
		known |= IB_ACCESS_ON_DEMAND;
	}
	if (access & ~known) {
		fakernic_dbg(dev, "MR: access %#x is not supported\n",
			     access & ~known);
		return -EOPNOTSUPP;
	}
	BUILD_BUG_ON(FAKERNIC_ACCESS_ZERO_BASED != IB_ZERO_BASED);
	BUILD_BUG_ON(FAKERNIC_ACCESS_ON_DEMAND != IB_ACCESS_ON_DEMAND);

	access &= ~(IB_ACCESS_OPTIONAL | IB_ACCESS_HUGETLB);
	*to = cpu_to_le32(access);
	return 0;
}

static int fakernic_create_mr(struct fakernic_dev *dev, struct fakernic_mr *mr,
			      struct ib_pd *ibpd,
			      struct fakernic_create_mr_req *req)
{
	u32 key;
	int ret;

	req->pdn = cpu_to_le32(to_fakernic_pd(ibpd)->pdn);
	ret = fakernic_mr_hw_create(dev, req, &key);
	if (ret)
		return ret;
	mr->type = req->type;
	/* The core sets this later, but an error path may need it earlier. */
	mr->ibmr.device = ibpd->device;
	mr->ibmr.lkey = key;
	mr->ibmr.rkey = key;
	return 0;
}

struct ib_mr *fakernic_make_mr(struct ib_pd *ibpd,
			       struct fakernic_create_mr_req *req, int access)
{
	struct fakernic_dev *dev = to_fakernic_dev(ibpd->device);
	struct fakernic_mr *mr;
	int ret;

	ret = fakernic_mr_access(dev, access, &req->access);
	if (ret)
		return ERR_PTR(ret);
	mr = kzalloc(sizeof(*mr), GFP_KERNEL);
	if (!mr)
		return ERR_PTR(-ENOMEM);
	ret = fakernic_create_mr(dev, mr, ibpd, req);
	if (ret) {
		kfree(mr);
		return ERR_PTR(ret);
	}
	mr->access = access;
	mr->mm = current->mm;
	mr->ibmr.length = le64_to_cpu(req->length);
	return &mr->ibmr;
}

struct ib_mr *fakernic_get_dma_mr(struct ib_pd *ibpd, int access)
{
	struct fakernic_create_mr_req req = { .type = FAKERNIC_MR_DMA };

	return fakernic_make_mr(ibpd, &req, access);
}

/* Persistent FLUSH is allowed only on persistent memory (IBTA A19). */
static int fakernic_check_persistent(struct fakernic_dev *dev,
				     struct ib_umem *umem, int access)
{
	struct scatterlist *sg;
	unsigned int i;

	if (!(access & FAKERNIC_ACCESS_FLUSH_PERSISTENT))
		return 0;
	for_each_sgtable_sg(&umem->sgt_append.sgt, sg, i) {
		if (region_intersects(sg_phys(sg), sg->length, IORESOURCE_MEM,
				      IORES_DESC_PERSISTENT_MEMORY) ==
		    REGION_INTERSECTS)
			continue;
		fakernic_dbg(dev, "MR: memory at %#lx is not persistent throughout\n",
			     umem->address);
		return -EINVAL;
	}
	return 0;
}

static int fakernic_check_length(struct fakernic_dev *dev, u64 length)
{
	if (length && length <= dev->ibdev->attrs.max_mr_size)
		return 0;
	fakernic_dbg(dev, "MR: length %#llx\n", length);
	return -EINVAL;
}

/* Lists the pages of pinned memory. Only the command needs the table. */
static int fakernic_list_mr(struct fakernic_dev *dev, struct ib_umem *umem,
			    u64 iova, struct fakernic_page_table *table,
			    struct fakernic_page_list *list)
{
	unsigned long page_sizes = le64_to_cpu(dev->caps.page_sizes) &
		GENMASK(FAKERNIC_PAGE_SHIFT_MAX, FAKERNIC_PAGE_SHIFT);
	unsigned long page_size;

	page_size = ib_umem_find_best_pgsz(umem, page_sizes, iova);
	if (!page_size) {
		fakernic_dbg(dev,
			     "MR: address and iova %#llx differ in their offset in a page\n",
			     iova);
		return -EINVAL;
	}
	return fakernic_umem_pages(dev, umem, page_size, table, list);
}

/* Pins user memory and lists its pages. */
static struct ib_umem *fakernic_pin_user_mr(struct fakernic_dev *dev,
					    u64 start, u64 length, u64 iova,
					    int access,
					    struct fakernic_page_table *table,
					    struct fakernic_page_list *list)
{
	struct ib_umem *umem;
	int ret;

	ret = fakernic_check_length(dev, length);
	if (ret)
		return ERR_PTR(ret);
	umem = ib_umem_get_va(dev->ibdev, start, length, access);
	if (IS_ERR(umem)) {
		fakernic_dbg(dev, "MR: %#llx, %#llx bytes: %ld\n", start,
			     length, PTR_ERR(umem));
		return umem;
	}
	ret = fakernic_check_persistent(dev, umem, access);
	if (!ret)
		ret = fakernic_list_mr(dev, umem, iova, table, list);
	if (ret) {
		ib_umem_release(umem);
		return ERR_PTR(ret);
	}
	return umem;
}

/* Creates a region of pinned, listed memory; on failure unpins the memory. */
static struct ib_mr *fakernic_make_umem_mr(struct ib_pd *ibpd,
					   struct ib_umem *umem,
					   struct fakernic_page_table *table,
					   struct fakernic_create_mr_req *req,
					   int access)
{
	struct ib_mr *ibmr = fakernic_make_mr(ibpd, req, access);

	fakernic_page_table_free(to_fakernic_dev(ibpd->device), table);
	if (IS_ERR(ibmr)) {
		ib_umem_release(umem);
		return ibmr;
	}
	to_fakernic_mr(ibmr)->umem = umem;
	ibmr->iova = le64_to_cpu(req->iova);
	return ibmr;
}

static struct ib_mr *fakernic_reg_odp_mr(struct ib_pd *ibpd, u64 start,
					 u64 length, u64 iova, int access)
{
	struct fakernic_create_mr_req req = {
		.type = FAKERNIC_MR_ON_DEMAND,
		.iova = cpu_to_le64(iova),
		.length = cpu_to_le64(length),
	};
	struct fakernic_odp *odp;
	struct ib_mr *ibmr;
	int ret;

	if (!length)
		return ERR_PTR(-EINVAL);
	odp = fakernic_odp_alloc(ibpd, start, length, iova, access);
	if (IS_ERR(odp))
		return ERR_CAST(odp);
	req.pages.page_shift = fakernic_odp_page_shift(odp);
	ibmr = fakernic_make_mr(ibpd, &req, access);
	if (IS_ERR(ibmr)) {
		fakernic_odp_free(odp);
		return ibmr;
	}
	ibmr->iova = iova;
	to_fakernic_mr(ibmr)->odp = odp;
	ret = fakernic_odp_start(odp, ibmr->lkey);
	if (ret) {
		fakernic_dereg_mr(ibmr, NULL);
		return ERR_PTR(ret);
	}
	return ibmr;
}

struct ib_mr *fakernic_reg_user_mr(struct ib_pd *ibpd, u64 start, u64 length,
				   u64 iova, int access, struct ib_dmah *dmah,
				   struct ib_udata *udata)
{
	struct fakernic_dev *dev = to_fakernic_dev(ibpd->device);
	struct fakernic_create_mr_req req = {
		.type = FAKERNIC_MR_MEMORY,
		.iova = cpu_to_le64(iova),
		.length = cpu_to_le64(length),
	};
	struct fakernic_page_table table;
	struct ib_umem *umem;
	int ret;

	if (dmah)
		return ERR_PTR(-EOPNOTSUPP);
	ret = fakernic_check_no_ureq(dev, udata);
	if (ret)
		return ERR_PTR(ret);
	if (access & IB_ACCESS_ON_DEMAND)
		return fakernic_reg_odp_mr(ibpd, start, length, iova, access);
	umem = fakernic_pin_user_mr(dev, start, length, iova, access, &table,
				    &req.pages);
	if (IS_ERR(umem))
		return ERR_CAST(umem);
	return fakernic_make_umem_mr(ibpd, umem, &table, &req, access);
}

/* Registers a dma-buf, which may be the memory of another device. */
struct ib_mr *fakernic_reg_user_mr_dmabuf(struct ib_pd *ibpd, u64 offset,
					  u64 length, u64 iova, int fd,
					  int access, struct ib_dmah *dmah,
					  struct uverbs_attr_bundle *attrs)
{
	struct fakernic_dev *dev = to_fakernic_dev(ibpd->device);
	struct fakernic_create_mr_req req = {
		.type = FAKERNIC_MR_MEMORY,
		.iova = cpu_to_le64(iova),
		.length = cpu_to_le64(length),
	};
	struct fakernic_page_table table;
	struct ib_umem_dmabuf *dmabuf;
	int ret;

	ret = fakernic_check_length(dev, length);
	if (ret)
		return ERR_PTR(ret);
	/* The driver cannot find out whether a dma-buf is persistent. */
	if (dmah || access & FAKERNIC_ACCESS_FLUSH_PERSISTENT)
		return ERR_PTR(-EOPNOTSUPP);
	dmabuf = ib_umem_dmabuf_get_pinned(dev->ibdev, offset, length, fd,
					   access);
	if (IS_ERR(dmabuf)) {
		fakernic_dbg(dev, "MR: dma-buf %d, %#llx, %#llx: %ld\n",
			     fd, offset, length, PTR_ERR(dmabuf));
		return ERR_CAST(dmabuf);
	}
	ret = fakernic_list_mr(dev, &dmabuf->umem, iova, &table, &req.pages);
	if (ret) {
		ib_umem_release(&dmabuf->umem);
		return ERR_PTR(ret);
	}
	return fakernic_make_umem_mr(ibpd, &dmabuf->umem, &table, &req,
				     access);
}

/* Executes the command. On success the region owns umem, if there is one. */
static int fakernic_rereg(struct fakernic_dev *dev, struct fakernic_mr *mr,
			  const struct fakernic_rereg_mr_req *req,
			  struct ib_umem *umem)
{
	u32 key;
	int ret;

	ret = fakernic_cmd_rereg_mr(dev, req, &key);
	if (ret) {
		ib_umem_release(umem);
		return ret;
	}
	mr->ibmr.lkey = key;
	mr->ibmr.rkey = key;
	if (umem) {
		ib_umem_release(mr->umem);
		mr->umem = umem;
		mr->mm = current->mm;
	}
	return 0;
}

/*
 * Returns true if the caller may pin the region's addresses again. In a forked
 * child the same addresses are other memory: the parent's region would then
 * refer to the child's memory.
 */
static bool fakernic_mr_is_owned(const struct fakernic_mr *mr)
{
	if (mr->mm == current->mm)
		return true;
	fakernic_dbg(to_fakernic_dev(mr->ibmr.device),
		     "rereg MR %#x: its memory belongs to another process\n",
		     mr->ibmr.lkey);
	return false;
}

/* Changes between pinned and on-demand: the core replaces the region. */
static struct ib_mr *fakernic_recreate_mr(struct fakernic_mr *mr, int flags,
					  u64 start, u64 length, u64 iova,
					  int access, struct ib_pd *ibpd,
					  struct ib_udata *udata)
{
	/* Windows may be bound to the region and would lose it. */
	if (mr->access & IB_ACCESS_MW_BIND)
		return ERR_PTR(-EOPNOTSUPP);
	if (!(flags & IB_MR_REREG_TRANS)) {
		if (!fakernic_mr_is_owned(mr))
			return ERR_PTR(-EPERM);
		start = mr->odp ? fakernic_odp_address(mr->odp) :
				  mr->umem->address;
		length = mr->ibmr.length;
		iova = mr->ibmr.iova;
	}
	return fakernic_reg_user_mr(ibpd, start, length, iova,
				    flags & IB_MR_REREG_ACCESS ? access :
								 mr->access,
				    NULL, udata);
}

static bool fakernic_mr_can_change(const struct fakernic_mr *mr, int flags)
{
	if (!(flags & ~IB_MR_REREG_SUPPORTED) &&
	    (mr->odp || (mr->umem && !mr->umem->is_dmabuf)))
		return true;
	fakernic_dbg(to_fakernic_dev(mr->ibmr.device),
		     "rereg MR %#x: flags %#x\n", mr->ibmr.lkey, flags);
	return false;
}

struct ib_mr *fakernic_rereg_user_mr(struct ib_mr *ibmr, int flags, u64 start,
				     u64 length, u64 iova, int access,
				     struct ib_pd *ibpd,
				     struct ib_udata *udata)
{
	struct fakernic_dev *dev = to_fakernic_dev(ibmr->device);
	struct fakernic_mr *mr = to_fakernic_mr(ibmr);
	struct fakernic_rereg_mr_req req = {
		.key = cpu_to_le32(ibmr->lkey),
	};
	struct fakernic_page_table table = {};
	struct ib_umem *umem = NULL;
	int ret;

	if (!fakernic_mr_can_change(mr, flags))
		return ERR_PTR(-EOPNOTSUPP);
	if (mr->odp || (flags & IB_MR_REREG_ACCESS &&
			access & IB_ACCESS_ON_DEMAND))
		return fakernic_recreate_mr(mr, flags, start, length, iova,
					    access, ibpd, udata);
	ret = fakernic_check_no_ureq(dev, udata);
	if (ret)
		return ERR_PTR(ret);
	if (!(flags & IB_MR_REREG_ACCESS))
		access = mr->access;
	/* Memory pinned read-only must be pinned again for writing. */
	if (!(flags & IB_MR_REREG_TRANS) && ib_access_writable(access) &&
	    !mr->umem->writable) {
		if (!fakernic_mr_is_owned(mr))
			return ERR_PTR(-EPERM);
		flags |= IB_MR_REREG_TRANS;
		start = mr->umem->address;
		length = mr->umem->length;
		iova = ibmr->iova;
	}
	if (flags & IB_MR_REREG_PD) {
		req.mask |= cpu_to_le32(FAKERNIC_REREG_PD);
		req.pdn = cpu_to_le32(to_fakernic_pd(ibpd)->pdn);
	}
	if (flags & IB_MR_REREG_ACCESS) {
		req.mask |= cpu_to_le32(FAKERNIC_REREG_ACCESS);
		ret = fakernic_mr_access(dev, access, &req.access);
		if (!ret && !(flags & IB_MR_REREG_TRANS))
			ret = fakernic_check_persistent(dev, mr->umem, access);
		if (ret)
			return ERR_PTR(ret);
	}
	if (flags & IB_MR_REREG_TRANS) {
		req.mask |= cpu_to_le32(FAKERNIC_REREG_TRANSLATION);
		req.iova = cpu_to_le64(iova);
		req.length = cpu_to_le64(length);
		umem = fakernic_pin_user_mr(dev, start, length, iova, access,
					    &table, &req.pages);
		if (IS_ERR(umem))
			return ERR_CAST(umem);
	}
	ret = fakernic_rereg(dev, mr, &req, umem);
	fakernic_page_table_free(dev, &table);
	if (ret)
		return ERR_PTR(ret);
	mr->access = access;
	if (umem) {
		ibmr->length = length;
		ibmr->iova = iova;
	}
	/* NULL: the region was changed in place. */
	return NULL;
}

/* Allocates a region for REG_MR. The driver owns its page table. */
struct ib_mr *fakernic_alloc_mr(struct ib_pd *ibpd, enum ib_mr_type type,
				u32 max_num_sg)
{
	struct fakernic_dev *dev = to_fakernic_dev(ibpd->device);
	struct fakernic_create_mr_req req = {
		.type = FAKERNIC_MR_FAST_REG,
		.max_pages = cpu_to_le32(max_num_sg),
	};
	struct fakernic_mr *mr;
	int ret;

	/* IB_MR_TYPE_SG_GAPS may map partial pages: not supported. */
	if (type != IB_MR_TYPE_MEM_REG)
		return ERR_PTR(-EOPNOTSUPP);
	if (!max_num_sg ||
	    max_num_sg > dev->ibdev->attrs.max_fast_reg_page_list_len)
		return ERR_PTR(-EINVAL);
	mr = kzalloc(sizeof(*mr), GFP_KERNEL);
	if (!mr)
		return ERR_PTR(-ENOMEM);
	mr->max_pages = max_num_sg;
	ret = fakernic_page_table_alloc(dev, &mr->table, max_num_sg);
	if (ret)
		goto err_free;
	ret = fakernic_create_mr(dev, mr, ibpd, &req);
	if (ret)
		goto err_free_table;
	return &mr->ibmr;

err_free_table:
	fakernic_page_table_free(dev, &mr->table);
err_free:
	kfree(mr);
	return ERR_PTR(ret);
}

static int fakernic_set_page(struct ib_mr *ibmr, u64 address)
{
	struct fakernic_mr *mr = to_fakernic_mr(ibmr);

	if (mr->page_count == mr->max_pages)
		return -ENOMEM;
	fakernic_page_table_set(&mr->table, mr->page_count++, address);
	return 0;
}

int fakernic_map_mr_sg(struct ib_mr *ibmr, struct scatterlist *sg, int count,
		       unsigned int *offset)
{
	struct fakernic_mr *mr = to_fakernic_mr(ibmr);

	mr->page_count = 0;
	return ib_sg_to_pages(ibmr, sg, count, offset, fakernic_set_page);
}

/*
 * Destroys a region that allows windows. Fails while windows are bound to the
 * region. If the PD has no windows, a device that refuses is broken and killed.
 */
static int fakernic_destroy_mr(struct fakernic_dev *dev, struct fakernic_mr *mr)
{
	struct fakernic_pd *pd = to_fakernic_pd(mr->ibmr.pd);
	int ret = fakernic_mr_hw_destroy(dev, mr->ibmr.lkey);

	if (!ret)
		return 0;
	down_write(&pd->windows_lock);
	if (!atomic_read(&pd->windows)) {
		fakernic_mr_hw_drop(dev, mr->ibmr.lkey);
		ret = 0;
	}
	up_write(&pd->windows_lock);
	return ret;
}

int fakernic_dereg_mr(struct ib_mr *ibmr, struct ib_udata *udata)
{
	struct fakernic_dev *dev = to_fakernic_dev(ibmr->device);
	struct fakernic_mr *mr = to_fakernic_mr(ibmr);
	int ret = 0;

	if (mr->odp)
		fakernic_odp_stop(mr->odp);
	if (udata && mr->access & IB_ACCESS_MW_BIND)
		ret = fakernic_destroy_mr(dev, mr);
	else
		fakernic_mr_hw_drop(dev, ibmr->lkey);
	if (ret)
		return ret;
	if (mr->odp)
		fakernic_odp_free(mr->odp);
	fakernic_page_table_free(dev, &mr->table);
	ib_umem_release(mr->umem);
	kfree(mr);
	return 0;
}
