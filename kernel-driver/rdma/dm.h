/* SPDX-License-Identifier: GPL-2.0-only */
/* Device memory for applications. */
#ifndef FAKERNIC_DRIVER_DM_H
#define FAKERNIC_DRIVER_DM_H

#include <linux/spinlock.h>
#include <linux/types.h>
#include <rdma/ib_verbs.h>
#include <rdma/uverbs_ioctl.h>

struct fakernic_dev;

/* The pages of PAGE_SIZE that device memory fills completely. */
struct fakernic_dm_pool {
	spinlock_t lock;		/* used */
	unsigned long *used;		/* a bit for each page */
	u32 first_page;			/* of BAR2 */
	u32 page_count;			/* 0: no device memory */
	u32 skipped;			/* bytes of device memory before them */
};

struct fakernic_dm {
	struct ib_dm ibdm;
	struct rdma_user_mmap_entry *entry;	/* owns the pages */
	u32 page;			/* first one, relative to the pool */
};

/*
 * Reads the size of the device memory. A device without any is not an error.
 * Returns 0 or -ENOMEM.
 */
int fakernic_dm_init(struct fakernic_dev *dev);

/* Frees the pool, after all users and their mappings are gone. */
void fakernic_dm_cleanup(struct fakernic_dev *dev);

/*
 * Operations of struct ib_device_ops. Allocated memory is zeroed. Returns
 * -ENOMEM if no contiguous range of that size is free.
 */
struct ib_dm *fakernic_alloc_dm(struct ib_device *ibdev,
				struct ib_ucontext *ibucontext,
				struct ib_dm_alloc_attr *attr,
				struct uverbs_attr_bundle *attrs);

/* The pages stay allocated until their last mapping is gone. */
int fakernic_dealloc_dm(struct ib_dm *ibdm, struct uverbs_attr_bundle *attrs);

/* The core has checked the range, and that ZERO_BASED is set. */
struct ib_mr *fakernic_reg_dm_mr(struct ib_pd *ibpd, struct ib_dm *ibdm,
				 struct ib_dm_mr_attr *attr,
				 struct uverbs_attr_bundle *attrs);

/* The driver's extensions of the core's DM object. */
extern const struct uapi_definition fakernic_dm_defs[];

static inline struct fakernic_dm *to_fakernic_dm(struct ib_dm *ibdm)
{
	return container_of(ibdm, struct fakernic_dm, ibdm);
}

#endif
