// SPDX-License-Identifier: GPL-2.0-only
/*
 * On-demand paging (FAKERNIC_FEATURE_ODP): regions of user memory that is not
 * pinned. The device knows the pages that UPDATE_PAGES has reported to it. When
 * it needs another page it sends PAGE_REQUEST. fakernic_page_request_work()
 * then queries the requests, and the region's work item faults the pages in and
 * reports them PRESENT or REFUSED. When the kernel takes pages away it calls
 * invalidate(), which reports them ABSENT. Once the device has answered that
 * command it does not touch the pages.
 *
 * An implicit region covers a whole address space with one key. It has a child
 * umem for each 2 MiB that was used. When there are many children, the driver
 * frees those without mapped pages.
 *
 * The core keeps 16 bytes for each page that a region or a child covers,
 * present or not. A user could make the kernel allocate any amount of such
 * memory, so the driver charges it as pinned memory (RLIMIT_MEMLOCK) of the
 * process.
 *
 * Locks, outer first: fault_lock, mmap_lock (in the core's functions), the
 * umem_mutex of a umem. invalidate() also runs during memory reclaim and takes
 * umem_mutex, so nothing may be allocated under umem_mutex. Therefore the page
 * table for PRESENT is allocated with the region, and one command covers at
 * most as many pages as fit into it: a block.
 */
#include <linux/capability.h>
#include <linux/completion.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/xarray.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_umem_odp.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_netlink.h>
#include <fakernic/base.h>
#include <fakernic/cmdq.h>
#include "../compat/compat.h"
#include "../compat/odp.h"
#include "../core/cmd.h"
#include "../core/cmdq.h"
#include "../core/device.h"
#include "../core/pages.h"
#include "../lifecycle.h"
#include "mr.h"
#include "odp.h"

#define FAKERNIC_ODP_BLOCK_PAGES	FAKERNIC_PAGE_TABLE_ENTRIES
#define FAKERNIC_ODP_CHILD_SIZE						\
	((u64)FAKERNIC_ODP_BLOCK_PAGES * PAGE_SIZE)
#define FAKERNIC_ODP_CHILDREN_MIN	64
/* Bytes that the core allocates for each page that a umem covers. */
#define FAKERNIC_ODP_NOTE_SIZE						\
	(sizeof(unsigned long) + sizeof(dma_addr_t))
#define FAKERNIC_ODP_CHILD_CHARGE					\
	DIV_ROUND_UP(FAKERNIC_ODP_BLOCK_PAGES * FAKERNIC_ODP_NOTE_SIZE,	\
		     PAGE_SIZE)
/* Limits on prefetches without FLUSH, which are only advice. */
#define FAKERNIC_ODP_ADVICE_MAX		16
#define FAKERNIC_ODP_ASYNC_MAX		((u64)SZ_1G)
/* Delay in jiffies before a failed command is retried. */
#define FAKERNIC_ODP_AGAIN		(HZ / 10)
/* Failed REFUSED commands in a row before the device is killed. */
#define FAKERNIC_ODP_TRIES		10

/* How to handle a range of pages. */
#define FAKERNIC_ODP_WRITE		BIT(0)	/* write access is required */
#define FAKERNIC_ODP_READ_ONLY		BIT(1)	/* map without write access */
#define FAKERNIC_ODP_NO_FAULT		BIT(2)	/* only pages in memory */
#define FAKERNIC_ODP_PREFETCH		BIT(3)	/* no work request waits */

/* Addresses are those of the region, as users of its keys see them. */
struct fakernic_odp_range {
	struct list_head node;		/* in fakernic_odp.wanted */
	u64 first;
	u64 last;
	u32 flags;
};

struct fakernic_odp {
	struct fakernic_dev *dev;
	struct ib_pd *ibpd;
	struct ib_umem_odp *umem;	/* implicit: parent of the children */
	struct mm_struct *mm;
	unsigned long pinned_max;	/* limit of mm, in pages */
	u64 first;			/* of the region */
	u64 last;
	u64 to_user;			/* added to a region address */
	u32 key;
	refcount_t users;		/* the region itself is one */
	struct completion unused;
	bool stopping;			/* being destroyed */

	struct mutex fault_lock;	/* serializes faults; all below */
	struct fakernic_page_table table;
	struct xarray children;		/* address / size -> ib_umem_odp */
	u32 child_count;
	u32 child_limit;		/* then free the unused ones */
	unsigned long charged;		/* kernel pages charged to mm */

	spinlock_t lock;		/* all below */
	struct list_head wanted;
	u32 wanted_count;
	u32 advice_count;		/* of those */
	struct work_struct work;	/* serves wanted; holds a user */

	atomic64_t faults;		/* all three count pages */
	atomic64_t invalidations;
	atomic64_t prefetched;
};

/*
 * Takes a reference, which keeps the driver's structure but not the device's
 * region. NULL: no such region.
 */
static struct fakernic_odp *fakernic_odp_get(struct fakernic_dev *dev, u32 key)
{
	struct fakernic_odp *odp;

	xa_lock(&dev->odps);
	odp = xa_load(&dev->odps, key);
	if (odp && !refcount_inc_not_zero(&odp->users))
		odp = NULL;
	xa_unlock(&dev->odps);
	return odp;
}

static void fakernic_odp_put(struct fakernic_odp *odp)
{
	if (refcount_dec_and_test(&odp->users))
		complete(&odp->unused);
}

/* Charges kernel pages to the process. -ENOMEM: above its limit. */
static int fakernic_odp_charge(struct fakernic_odp *odp, unsigned long pages)
{
	unsigned long pinned = atomic64_add_return(pages, &odp->mm->pinned_vm);

	if (pinned > odp->pinned_max) {
		atomic64_sub(pages, &odp->mm->pinned_vm);
		return -ENOMEM;
	}
	odp->charged += pages;
	return 0;
}

static void fakernic_odp_uncharge(struct fakernic_odp *odp,
				  unsigned long pages)
{
	atomic64_sub(pages, &odp->mm->pinned_vm);
	odp->charged -= pages;
}

/*
 * Why faulting must stop: -EIO, the device is dead; -ECANCELED, the region is
 * being destroyed. Caller holds fault_lock.
 */
static int fakernic_odp_check_stop(const struct fakernic_odp *odp)
{
	if (READ_ONCE(odp->dev->dead))
		return -EIO;
	return READ_ONCE(odp->stopping) ? -ECANCELED : 0;
}

/*
 * A prefetch may take minutes, so it stops when the hardware is quiesced. If
 * only the bus quiesces it, the device stays up or is dead, so the prefetch
 * need not stop for that.
 */
static int fakernic_odp_is_unwanted(const struct fakernic_odp *odp,
				    const struct fakernic_odp_range *range)
{
	unsigned long reasons = READ_ONCE(odp->dev->quiesced);

	return range->flags & FAKERNIC_ODP_PREFETCH &&
	       reasons & ~BIT(FAKERNIC_QUIESCE_BUS) ? -EIO : 0;
}

/* With PRESENT the pages are in the table. address: in the process. */
static int fakernic_odp_update(struct fakernic_odp *odp, u64 address,
			       u32 count, u32 flags)
{
	struct fakernic_update_pages_req req = {
		.address = cpu_to_le64(address - odp->to_user),
		.key = cpu_to_le32(odp->key),
		.flags = cpu_to_le32(flags),
	};

	if (flags & FAKERNIC_PAGES_PRESENT)
		fakernic_page_table_list(&odp->table, count,
					 odp->umem->page_shift, &req.pages);
	else
		req.pages.page_count = cpu_to_le32(count);
	return fakernic_cmd_update_pages(odp->dev, &req);
}

static u64 fakernic_odp_page_address(struct ib_umem_odp *umem, size_t index)
{
	return ib_umem_start(umem) + ((u64)index << umem->page_shift);
}

/* Reports adjacent pages that are in the table. flags 0: absent, no report. */
static int fakernic_odp_update_run(struct fakernic_odp *odp,
				   struct ib_umem_odp *umem, size_t first,
				   u32 count, u32 flags)
{
	if (!flags)
		return 0;
	return fakernic_odp_update(odp, fakernic_odp_page_address(umem, first),
				   count, flags);
}

/* PRESENT with the access rights, 0 if the page is absent, or an error. */
static int fakernic_odp_page_flags(struct ib_umem_odp *umem, size_t index,
				   dma_addr_t *address)
{
	struct fakernic_umem_page page;
	int ret = fakernic_umem_page(umem, index, &page);

	if (ret <= 0)
		return ret;
	*address = page.address;
	return FAKERNIC_PAGES_PRESENT |
	       (page.writable ? FAKERNIC_PAGES_WRITABLE : 0);
}

/*
 * Reports the present pages of a range to the device. The range starts at index
 * first and is at most one block. One command covers adjacent pages with the
 * same rights. Returns the number of present pages, or an error. Caller holds
 * fault_lock and umem_mutex.
 */
static int fakernic_odp_update_pages(struct fakernic_odp *odp,
				     struct ib_umem_odp *umem, size_t first,
				     u32 count)
{
	u32 i, start = 0, run_flags = 0;
	dma_addr_t address = 0;
	int ret, flags, present = 0;

	for (i = 0; i < count; i++) {
		flags = fakernic_odp_page_flags(umem, first + i, &address);
		if (flags < 0)
			return flags;
		if (flags != run_flags) {
			ret = fakernic_odp_update_run(odp, umem, first + start,
						      i - start, run_flags);
			if (ret)
				return ret;
			start = i;
			run_flags = flags;
		}
		if (!flags)
			continue;
		fakernic_page_table_set(&odp->table, i - start, address);
		present++;
	}
	ret = fakernic_odp_update_run(odp, umem, first + start, count - start,
				      run_flags);
	return ret ? ret : present;
}

/* Makes the device stop using these pages. Caller holds umem_mutex. */
static void fakernic_odp_remove_pages(struct fakernic_odp *odp,
				      struct ib_umem_odp *umem, u64 start,
				      u64 end)
{
	size_t i = (start - ib_umem_start(umem)) >> umem->page_shift;
	size_t past = (end - ib_umem_start(umem)) >> umem->page_shift;
	size_t first = past, last = 0;
	u32 count = 0;
	int ret;

	for (; i < past; i++) {
		if (!fakernic_umem_page_mapped(umem, i))
			continue;
		first = min(first, i);
		last = i;
		count++;
	}
	if (!count)
		return;
	atomic64_add(count, &odp->invalidations);
	ret = fakernic_odp_update(odp, fakernic_odp_page_address(umem, first),
				  last - first + 1, FAKERNIC_PAGES_ABSENT);
	/* The device may have destroyed a stopping region already. */
	if (!ret || READ_ONCE(odp->dev->dead) ||
	    (ret == -EINVAL && READ_ONCE(odp->stopping)))
		return;
	dev_err(&odp->dev->pdev->dev,
		"device did not release pages of MR %#x: %d\n", odp->key,
		ret);
	fakernic_cmdq_kill(odp->dev, FAKERNIC_DEATH_NOT_RELEASED);
}

/* MMU notifier: pages are taken away or their access rights change. */
static bool fakernic_odp_invalidate(struct mmu_interval_notifier *notifier,
				    const struct mmu_notifier_range *range,
				    unsigned long seq)
{
	struct ib_umem_odp *umem =
		container_of(notifier, struct ib_umem_odp, notifier);
	u64 start, end;

	if (!mmu_notifier_range_blockable(range))
		return false;
	mutex_lock(&umem->umem_mutex);
	mmu_interval_set_seq(notifier, seq);
	/* private is set before the first page is mapped. */
	if (umem->npages) {
		start = max_t(u64, ib_umem_start(umem), range->start);
		end = min_t(u64, ib_umem_end(umem), range->end);
		start = round_down(start, BIT_ULL(umem->page_shift));
		end = round_up(end, BIT_ULL(umem->page_shift));
		fakernic_odp_remove_pages(umem->private, umem, start, end);
		ib_umem_odp_unmap_dma_pages(umem, start, end);
	}
	mutex_unlock(&umem->umem_mutex);
	return true;
}

static const struct mmu_interval_notifier_ops fakernic_odp_notifier_ops = {
	.invalidate = fakernic_odp_invalidate,
};

/* Frees children without mapped pages. Caller holds fault_lock. */
static void fakernic_odp_drop_children(struct fakernic_odp *odp)
{
	struct ib_umem_odp *child;
	unsigned long index;

	xa_for_each(&odp->children, index, child) {
		if (READ_ONCE(child->npages))
			continue;
		xa_erase(&odp->children, index);
		ib_umem_odp_release(child);
		fakernic_odp_uncharge(odp, FAKERNIC_ODP_CHILD_CHARGE);
		odp->child_count--;
	}
	odp->child_limit = max_t(u32, FAKERNIC_ODP_CHILDREN_MIN,
				 2 * odp->child_count);
}

/* Charges one more child. Caller holds fault_lock. */
static int fakernic_odp_charge_child(struct fakernic_odp *odp)
{
	if (odp->child_count < odp->child_limit &&
	    !fakernic_odp_charge(odp, FAKERNIC_ODP_CHILD_CHARGE))
		return 0;
	fakernic_odp_drop_children(odp);
	return fakernic_odp_charge(odp, FAKERNIC_ODP_CHILD_CHARGE);
}

/* Caller holds fault_lock. */
static struct ib_umem_odp *fakernic_odp_add_child(struct fakernic_odp *odp,
						  u64 index)
{
	struct ib_umem_odp *child;
	int ret;

	ret = fakernic_odp_charge_child(odp);
	if (ret)
		return ERR_PTR(ret);
	child = ib_umem_odp_alloc_child(odp->umem,
					index * FAKERNIC_ODP_CHILD_SIZE,
					FAKERNIC_ODP_CHILD_SIZE,
					&fakernic_odp_notifier_ops);
	if (IS_ERR(child))
		goto err_uncharge;
	child->private = odp;
	ret = xa_err(xa_store(&odp->children, index, child, GFP_KERNEL));
	if (ret) {
		ib_umem_odp_release(child);
		child = ERR_PTR(ret);
		goto err_uncharge;
	}
	odp->child_count++;
	return child;

err_uncharge:
	fakernic_odp_uncharge(odp, FAKERNIC_ODP_CHILD_CHARGE);
	return child;
}

/* The umem that covers a process address. Caller holds fault_lock. */
static struct ib_umem_odp *fakernic_odp_umem(struct fakernic_odp *odp,
					     u64 address)
{
	u64 index = address / FAKERNIC_ODP_CHILD_SIZE;
	struct ib_umem_odp *child;

	if (!odp->umem->is_implicit_odp)
		return odp->umem;
	child = xa_load(&odp->children, index);
	return child ? child : fakernic_odp_add_child(odp, index);
}

/*
 * Maps pages for the device. On success umem_mutex is locked and the result is
 * the number of pages; otherwise an error. Pages of a writable region are
 * mapped writable even for a read: a write often follows and would fault again.
 * They are mapped read-only if the caller passes READ_ONLY, or if the memory
 * cannot be written.
 */
static int fakernic_odp_map(struct ib_umem_odp *umem, u64 address, u64 length,
			    u32 flags)
{
	bool fault = !(flags & FAKERNIC_ODP_NO_FAULT);
	u64 rights = FAKERNIC_UMEM_READ;
	int ret;

	if (flags & FAKERNIC_ODP_WRITE && !umem->umem.writable)
		return -EPERM;
	if (umem->umem.writable && !(flags & FAKERNIC_ODP_READ_ONLY))
		rights = FAKERNIC_UMEM_WRITE;
	ret = ib_umem_odp_map_dma_and_lock(umem, address, length, rights,
					   fault);
	if (ret != -EPERM || flags & FAKERNIC_ODP_WRITE ||
	    rights == FAKERNIC_UMEM_READ)
		return ret;
	return ib_umem_odp_map_dma_and_lock(umem, address, length,
					    FAKERNIC_UMEM_READ, fault);
}

/* Faults in pages of one block. Caller holds fault_lock. */
static int fakernic_odp_fault(struct fakernic_odp *odp, u64 address,
			      u64 length, u32 flags)
{
	struct ib_umem_odp *umem = fakernic_odp_umem(odp, address);
	size_t first;
	int count;

	if (IS_ERR(umem))
		return PTR_ERR(umem);
	/* -EBUSY: pages were invalidated while they were mapped. */
	do
		count = fakernic_odp_map(umem, address, length, flags);
	while (count == -EBUSY && !READ_ONCE(odp->stopping) &&
	       !fatal_signal_pending(current));
	if (count < 0)
		return count;
	first = (address - ib_umem_start(umem)) >> umem->page_shift;
	count = fakernic_odp_update_pages(odp, umem, first, count);
	mutex_unlock(&umem->umem_mutex);
	if (count < 0)
		return count;
	atomic64_add(count, flags & FAKERNIC_ODP_PREFETCH ? &odp->prefetched :
							     &odp->faults);
	return 0;
}

static void fakernic_odp_refuse(struct fakernic_odp *odp, u64 address,
				u32 count)
{
	unsigned int tries = 0;

	if (!count)
		return;
	fakernic_dbg(odp->dev, "MR %#x: %u pages at %#llx cannot be faulted in\n",
		     odp->key, count, address);
	/* Without an answer the waiting work requests would never finish. */
	while (fakernic_odp_update(odp, address, count,
				   FAKERNIC_PAGES_REFUSED) &&
	       !fakernic_odp_check_stop(odp)) {
		if (++tries == FAKERNIC_ODP_TRIES) {
			fakernic_cmdq_kill(odp->dev,
					   FAKERNIC_DEATH_NOT_RELEASED);
			return;
		}
		schedule_timeout_uninterruptible(FAKERNIC_ODP_AGAIN);
	}
}

/*
 * Answers a request for pages of one block. Each page needs an answer, so if
 * the whole range fails the pages are tried one by one. Returns an error if the
 * device died or the region is being destroyed. Caller holds fault_lock.
 */
static int fakernic_odp_answer(struct fakernic_odp *odp, u64 address,
			       u64 length, u32 flags)
{
	u8 shift = odp->umem->page_shift;
	u64 last = address + (length - 1);
	u64 page = address >> shift;
	u32 refused = 0;
	bool had;
	int ret;

	if (!fakernic_odp_fault(odp, address, length, flags))
		return 0;
	for (; page <= last >> shift; page++) {
		had = !fakernic_odp_fault(odp, page << shift, 1, flags);
		/* An interrupted fault says nothing about the page. */
		ret = fakernic_odp_check_stop(odp);
		if (ret)
			return ret;
		if (!had) {
			refused++;
			continue;
		}
		fakernic_odp_refuse(odp, (page - refused) << shift, refused);
		refused = 0;
	}
	fakernic_odp_refuse(odp, (page - refused) << shift, refused);
	return 0;
}

/*
 * Serves a range block by block. Errors: the device died, the region is being
 * destroyed, or a signal came; for a prefetch also why it failed.
 */
static int fakernic_odp_serve(struct fakernic_odp *odp,
			      const struct fakernic_odp_range *range)
{
	u64 block = (u64)FAKERNIC_ODP_BLOCK_PAGES << odp->umem->page_shift;
	u64 address = range->first + odp->to_user;
	u64 left = range->last - range->first;	/* bytes left - 1 */
	u64 part;
	int ret;

	for (;; address += part, left -= part) {
		part = min(left, block - 1 - (address & (block - 1))) + 1;
		mutex_lock(&odp->fault_lock);
		ret = fakernic_odp_check_stop(odp) ?:
		      fakernic_odp_is_unwanted(odp, range);
		if (!ret && range->flags & FAKERNIC_ODP_PREFETCH)
			ret = fakernic_odp_fault(odp, address, part,
						 range->flags);
		else if (!ret)
			ret = fakernic_odp_answer(odp, address, part,
						  range->flags);
		mutex_unlock(&odp->fault_lock);
		if (ret || part > left)
			return ret;
		if (fatal_signal_pending(current))
			return -EINTR;
		cond_resched();
	}
}

/* Removes the oldest wanted range; the caller frees it. NULL: none. */
static struct fakernic_odp_range *fakernic_odp_next(struct fakernic_odp *odp)
{
	struct fakernic_odp_range *range;

	spin_lock(&odp->lock);
	range = list_first_entry_or_null(&odp->wanted,
					 struct fakernic_odp_range, node);
	if (range) {
		list_del(&range->node);
		odp->wanted_count--;
		if (range->flags & FAKERNIC_ODP_PREFETCH)
			odp->advice_count--;
	}
	spin_unlock(&odp->lock);
	return range;
}

static void fakernic_odp_work(struct work_struct *work)
{
	struct fakernic_odp *odp =
		container_of(work, struct fakernic_odp, work);
	struct fakernic_odp_range *range;

	while (!READ_ONCE(odp->stopping) && (range = fakernic_odp_next(odp))) {
		fakernic_odp_serve(odp, range);
		kfree(range);
	}
	fakernic_odp_put(odp);
}

/* A wanted range with the same flags that overlaps, or NULL. */
static struct fakernic_odp_range *
fakernic_odp_overlapping(struct fakernic_odp *odp,
			 const struct fakernic_odp_range *range)
{
	struct fakernic_odp_range *there;

	list_for_each_entry(there, &odp->wanted, node)
		if (there->flags == range->flags &&
		    there->first <= range->last && range->first <= there->last)
			return there;
	return NULL;
}

/*
 * The caller holds a reference. Each region has its own work item, so that
 * regions do not wait for each other's pages.
 */
static void fakernic_odp_queue_work(struct fakernic_odp *odp)
{
	refcount_inc(&odp->users);
	if (!queue_work(odp->dev->odp_wq, &odp->work))
		fakernic_odp_put(odp);
}

/*
 * A QP waits for at most three ranges. Requests of QPs that are reset remain in
 * the list.
 */
static u32 fakernic_odp_wanted_max(const struct fakernic_odp *odp)
{
	return 3 * odp->dev->ibdev->attrs.max_qp;
}

/*
 * Queues a range for the work item. The device requests pages only once and a
 * program waits for them, so this allocation must not fail. Advice is dropped
 * when too much of it is queued. Errors: -ENOMEM, no memory for advice;
 * -ENOSPC, more ranges are queued than all QPs can wait for.
 */
static int fakernic_odp_queue_range(struct fakernic_odp *odp,
				    const struct fakernic_odp_range *range)
{
	struct fakernic_odp_range *there, *new;
	bool advice = range->flags & FAKERNIC_ODP_PREFETCH;
	int ret = 0;

	new = kmemdup(range, sizeof(*range),
		      advice ? GFP_KERNEL : GFP_KERNEL | __GFP_NOFAIL);
	if (!new)
		return -ENOMEM;

	spin_lock(&odp->lock);
	there = fakernic_odp_overlapping(odp, range);
	if (there) {
		there->first = min(there->first, range->first);
		there->last = max(there->last, range->last);
	} else if (odp->wanted_count >= fakernic_odp_wanted_max(odp)) {
		ret = -ENOSPC;
	} else if (!advice || odp->advice_count < FAKERNIC_ODP_ADVICE_MAX) {
		list_add_tail(&new->node, &odp->wanted);
		odp->wanted_count++;
		odp->advice_count += advice;
		new = NULL;
	}
	spin_unlock(&odp->lock);
	kfree(new);
	fakernic_odp_queue_work(odp);
	return ret;
}

/* False: address is outside the region, or length is 0. */
static bool fakernic_odp_range_init(const struct fakernic_odp *odp,
				    struct fakernic_odp_range *range,
				    u64 address, u64 length, u32 flags)
{
	if (!length || address < odp->first || address > odp->last)
		return false;
	range->first = address;
	range->last = address + min(length - 1, odp->last - address);
	range->flags = flags;
	return true;
}

/* Refuses at once a request that could not be queued. */
static void fakernic_odp_refuse_range(struct fakernic_odp *odp,
				      const struct fakernic_odp_range *range)
{
	u8 shift = odp->umem->page_shift;
	u64 first = (range->first + odp->to_user) >> shift;
	u64 last = (range->last + odp->to_user) >> shift;

	for (; first <= last; first += FAKERNIC_UPDATE_PAGES_MAX)
		fakernic_odp_refuse(odp, first << shift,
				    min(last - first + 1,
					(u64)FAKERNIC_UPDATE_PAGES_MAX));
}

static void fakernic_odp_request(struct fakernic_dev *dev,
				 const struct fakernic_page_request *request)
{
	struct fakernic_odp *odp =
		fakernic_odp_get(dev, le32_to_cpu(request->key));
	struct fakernic_odp_range range;
	u32 flags = 0;

	/* The device fails the work requests of a destroyed region. */
	if (!odp)
		return;
	if (le32_to_cpu(request->flags) & FAKERNIC_PAGE_REQUEST_WRITE)
		flags = FAKERNIC_ODP_WRITE;
	if (fakernic_odp_range_init(odp, &range, le64_to_cpu(request->address),
				    le64_to_cpu(request->length), flags) &&
	    fakernic_odp_queue_range(odp, &range))
		fakernic_odp_refuse_range(odp, &range);
	fakernic_odp_put(odp);
}

void fakernic_page_request_work(struct work_struct *work)
{
	struct fakernic_dev *dev =
		container_of(work, struct fakernic_dev, page_request_work.work);
	struct fakernic_query_page_requests_resp resp;
	u32 count, i;
	int ret;

	do {
		ret = fakernic_cmd_page_requests(dev, &resp);
		/* Retry: the device announces its requests only once. */
		if (ret && ret != -EIO)
			queue_delayed_work(system_dfl_wq,
					   &dev->page_request_work,
					   FAKERNIC_ODP_AGAIN);
		if (ret)
			return;
		count = min_t(u32, le32_to_cpu(resp.count),
			      FAKERNIC_PAGE_REQUESTS_MAX);
		for (i = 0; i < count; i++)
			fakernic_odp_request(dev, &resp.request[i]);
	} while (count);
}

/* Kernel pages that the core needs to track the pages of a region. */
static unsigned long fakernic_odp_tracking_pages(u64 start, u64 length)
{
	u64 pages = (offset_in_page(start) + length + PAGE_SIZE - 1) >>
		    PAGE_SHIFT;

	return DIV_ROUND_UP_ULL(pages * FAKERNIC_ODP_NOTE_SIZE, PAGE_SIZE);
}

static struct ib_umem_odp *fakernic_odp_get_umem(struct fakernic_odp *odp,
						 u64 start, u64 length,
						 u64 iova, int access)
{
	struct fakernic_dev *dev = odp->dev;
	struct ib_umem_odp *umem;
	int ret;

	if (!start && length == U64_MAX)
		return iova ? ERR_PTR(-EINVAL) :
			      ib_umem_odp_alloc_implicit(dev->ibdev, access);
	if (length > dev->ibdev->attrs.max_mr_size)
		return ERR_PTR(-EINVAL);
	/* The core could not allocate its arrays. */
	if (length >> PAGE_SHIFT > INT_MAX / sizeof(dma_addr_t) - 2)
		return ERR_PTR(-ENOMEM);
	ret = fakernic_odp_charge(odp,
				  fakernic_odp_tracking_pages(start, length));
	if (ret)
		return ERR_PTR(ret);
	umem = ib_umem_odp_get(dev->ibdev, start, length,
			       fakernic_umem_odp_access(access),
			       &fakernic_odp_notifier_ops);
	if (!IS_ERR(umem) && (start ^ iova) & (BIT_ULL(umem->page_shift) - 1)) {
		ib_umem_odp_release(umem);
		return ERR_PTR(-EINVAL);
	}
	return umem;
}

/* Sets the process that is charged, and its limit. */
static void fakernic_odp_set_owner(struct fakernic_odp *odp)
{
	/* Children may be charged after the process has exited. */
	odp->mm = current->mm;
	mmgrab(odp->mm);
	odp->pinned_max = capable(CAP_IPC_LOCK) ?
				  ULONG_MAX :
				  rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT;
}

static void fakernic_odp_drop_owner(struct fakernic_odp *odp)
{
	/* The mm outlives the process, and so does its account. */
	fakernic_odp_uncharge(odp, odp->charged);
	mmdrop(odp->mm);
}

struct fakernic_odp *fakernic_odp_alloc(struct ib_pd *ibpd, u64 start,
					u64 length, u64 iova, int access)
{
	struct fakernic_dev *dev = to_fakernic_dev(ibpd->device);
	struct fakernic_odp *odp;
	int ret;

	odp = kzalloc(sizeof(*odp), GFP_KERNEL);
	if (!odp)
		return ERR_PTR(-ENOMEM);
	odp->dev = dev;
	odp->ibpd = ibpd;
	odp->first = iova;
	odp->last = iova + (length - 1);
	odp->to_user = start - iova;
	odp->child_limit = FAKERNIC_ODP_CHILDREN_MIN;
	refcount_set(&odp->users, 1);
	init_completion(&odp->unused);
	mutex_init(&odp->fault_lock);
	xa_init(&odp->children);
	spin_lock_init(&odp->lock);
	INIT_LIST_HEAD(&odp->wanted);
	INIT_WORK(&odp->work, fakernic_odp_work);
	ret = fakernic_page_table_alloc(dev, &odp->table,
					FAKERNIC_ODP_BLOCK_PAGES);
	if (ret)
		goto err_free;
	fakernic_odp_set_owner(odp);
	/* For the page table. fakernic_odp_drop_owner() uncharges it. */
	ret = fakernic_odp_charge(odp, 1);
	if (ret)
		goto err_drop_owner;
	odp->umem = fakernic_odp_get_umem(odp, start, length, iova, access);
	if (IS_ERR(odp->umem)) {
		ret = PTR_ERR(odp->umem);
		fakernic_dbg(dev, "on-demand MR: %#llx, %#llx bytes: %d\n",
			     start, length, ret);
		goto err_drop_owner;
	}
	odp->umem->private = odp;
	return odp;

err_drop_owner:
	fakernic_odp_drop_owner(odp);
	fakernic_page_table_free(dev, &odp->table);
err_free:
	kfree(odp);
	return ERR_PTR(ret);
}

void fakernic_odp_free(struct fakernic_odp *odp)
{
	struct fakernic_odp_range *range, *next;
	struct ib_umem_odp *child;
	unsigned long index;

	/* No entry if fakernic_odp_start() was never called. */
	xa_cmpxchg(&odp->dev->odps, odp->key, odp, NULL, 0);
	fakernic_odp_put(odp);
	wait_for_completion(&odp->unused);
	/* The work item may still be running after its final put. */
	cancel_work_sync(&odp->work);
	list_for_each_entry_safe(range, next, &odp->wanted, node)
		kfree(range);
	xa_for_each(&odp->children, index, child)
		ib_umem_odp_release(child);
	xa_destroy(&odp->children);
	ib_umem_odp_release(odp->umem);
	fakernic_odp_drop_owner(odp);
	fakernic_page_table_free(odp->dev, &odp->table);
	kfree(odp);
}

int fakernic_odp_start(struct fakernic_odp *odp, u32 key)
{
	odp->key = key;
	return xa_err(xa_store(&odp->dev->odps, key, odp, GFP_KERNEL));
}

u8 fakernic_odp_page_shift(const struct fakernic_odp *odp)
{
	return odp->umem->page_shift;
}

void fakernic_odp_stop(struct fakernic_odp *odp)
{
	WRITE_ONCE(odp->stopping, true);
	/* Wait for handlers that missed the flag; later ones see it. */
	mutex_lock(&odp->fault_lock);
	mutex_unlock(&odp->fault_lock);
}

u64 fakernic_odp_address(const struct fakernic_odp *odp)
{
	return odp->first + odp->to_user;
}

/* Checks a prefetch. On success the caller holds a reference. */
static struct fakernic_odp *fakernic_odp_check_sge(struct ib_pd *ibpd,
						   const struct ib_sge *sge,
						   u32 flags)
{
	struct fakernic_dev *dev = to_fakernic_dev(ibpd->device);
	struct fakernic_odp *odp = fakernic_odp_get(dev, sge->lkey);
	int ret = 0;

	if (!odp)
		ret = -ENOENT;
	else if (odp->ibpd != ibpd)
		ret = -EPERM;
	else if (flags & FAKERNIC_ODP_WRITE && !odp->umem->umem.writable)
		ret = -EPERM;
	else if (sge->addr < odp->first || sge->addr > odp->last ||
		 (sge->length && sge->length - 1 > odp->last - sge->addr))
		ret = -EFAULT;
	if (!ret)
		return odp;
	fakernic_dbg(dev, "prefetch of %#llx, %#x bytes, key %#x: %d\n",
		     sge->addr, sge->length, sge->lkey, ret);
	if (odp)
		fakernic_odp_put(odp);
	return ERR_PTR(ret);
}

/* Maps a fault error to one that ibv_advise_mr(3) documents. */
static int fakernic_odp_advice_error(int ret)
{
	switch (ret) {
	case 0:
	case -ENOMEM:
	case -EINTR:
	case -EIO:
		return ret;
	case -ECANCELED:
		return -EIO;
	default:
		return -EFAULT;
	}
}

static int fakernic_odp_prefetch(struct ib_pd *ibpd, const struct ib_sge *sge,
				 u32 flags, bool wait)
{
	struct fakernic_odp *odp = fakernic_odp_check_sge(ibpd, sge, flags);
	struct fakernic_odp_range range;
	u64 length = sge->length;
	int ret = 0;

	if (IS_ERR(odp))
		return PTR_ERR(odp);
	if (!wait)
		length = min(length, FAKERNIC_ODP_ASYNC_MAX);
	if (fakernic_odp_range_init(odp, &range, sge->addr, length, flags)) {
		if (wait)
			ret = fakernic_odp_serve(odp, &range);
		else
			fakernic_odp_queue_range(odp, &range);
	}
	fakernic_odp_put(odp);
	return fakernic_odp_advice_error(ret);
}

static int fakernic_odp_advice_flags(enum ib_uverbs_advise_mr_advice advice,
				     u32 *flags)
{
	switch (advice) {
	case IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH:
		*flags = FAKERNIC_ODP_PREFETCH | FAKERNIC_ODP_READ_ONLY;
		return 0;
	case IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE:
		*flags = FAKERNIC_ODP_PREFETCH | FAKERNIC_ODP_WRITE;
		return 0;
	case IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT:
		*flags = FAKERNIC_ODP_PREFETCH | FAKERNIC_ODP_NO_FAULT;
		return 0;
	default:
		return -EOPNOTSUPP;
	}
}

static int fakernic_advise_mr(struct ib_pd *ibpd,
			      enum ib_uverbs_advise_mr_advice advice,
			      u32 advise_flags,
			      struct ib_sge *sg_list, u32 num_sge,
			      struct uverbs_attr_bundle *attrs)
{
	bool wait = advise_flags & IB_UVERBS_ADVISE_MR_FLAG_FLUSH;
	struct fakernic_odp *odp;
	u32 flags, i;
	int ret;

	ret = fakernic_odp_advice_flags(advice, &flags);
	if (ret)
		return ret;
	/* Check all entries first, so that a bad list prefetches nothing. */
	for (i = 0; i < num_sge; i++) {
		odp = fakernic_odp_check_sge(ibpd, &sg_list[i], flags);
		if (IS_ERR(odp))
			return PTR_ERR(odp);
		fakernic_odp_put(odp);
	}
	for (i = 0; i < num_sge && !ret; i++)
		ret = fakernic_odp_prefetch(ibpd, &sg_list[i], flags, wait);
	return ret;
}

/* "rdma statistic show mr". */
static int fakernic_fill_stat_mr(struct sk_buff *msg, struct ib_mr *ibmr)
{
	struct fakernic_odp *odp = to_fakernic_mr(ibmr)->odp;
	struct nlattr *nest;

	if (!odp)
		return 0;
	nest = nla_nest_start(msg, RDMA_NLDEV_ATTR_STAT_HWCOUNTERS);
	if (!nest)
		return -EMSGSIZE;
	if (rdma_nl_stat_hwcounter_entry(msg, "page_faults",
					 atomic64_read(&odp->faults)) ||
	    rdma_nl_stat_hwcounter_entry(msg, "page_invalidations",
					 atomic64_read(&odp->invalidations)) ||
	    rdma_nl_stat_hwcounter_entry(msg, "page_prefetch",
					 atomic64_read(&odp->prefetched))) {
		nla_nest_cancel(msg, nest);
		return -EMSGSIZE;
	}
	nla_nest_end(msg, nest);
	return 0;
}

const struct ib_device_ops fakernic_odp_ops = {
	.advise_mr = fakernic_advise_mr,
	.fill_stat_mr_entry = fakernic_fill_stat_mr,
};
