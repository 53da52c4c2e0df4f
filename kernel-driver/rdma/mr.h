/* SPDX-License-Identifier: GPL-2.0-only */
/* Memory regions (IBTA 10.6). */
#ifndef FAKERNIC_DRIVER_MR_H
#define FAKERNIC_DRIVER_MR_H

#include <rdma/ib_verbs.h>
#include "../core/pages.h"

struct fakernic_create_mr_req;
struct fakernic_odp;
struct ib_dmah;
struct ib_umem;

struct fakernic_mr {
	struct ib_mr ibmr;
	struct ib_umem *umem;		/* pinned user memory, or NULL */
	struct fakernic_odp *odp;	/* on-demand user memory, or NULL */
	int access;			/* as requested */
	const struct mm_struct *mm;	/* owner; only compared */
	u8 type;			/* enum fakernic_mr_type */
	struct fakernic_page_table table;	/* of a fast-registration MR */
	u32 page_count;			/* mapped by map_mr_sg */
	u32 max_pages;
};

/*
 * Creates a region that owns only its key. The caller fills in req except PD,
 * access and tag. access: IB_ACCESS_*; unsupported bits fail with -EOPNOTSUPP.
 * Destroyed by fakernic_dereg_mr().
 */
struct ib_mr *fakernic_make_mr(struct ib_pd *ibpd,
			       struct fakernic_create_mr_req *req, int access);

/*
 * Operations of struct ib_device_ops; those that return a region use ERR_PTR.
 * Lengths and addresses are in bytes. The DMA region is for kernel users only:
 * the core never gives it to applications.
 */
struct ib_mr *fakernic_get_dma_mr(struct ib_pd *ibpd, int access);

/*
 * Registers memory of the calling process, pinned or paged on demand. Returns
 * -EINVAL if the length is 0 or too large, or if start and iova have different
 * offsets in a page.
 */
struct ib_mr *fakernic_reg_user_mr(struct ib_pd *ibpd, u64 start, u64 length,
				   u64 iova, int access, struct ib_dmah *dmah,
				   struct ib_udata *udata);

/* Pins the buffer: the device cannot be notified if the buffer moves. */
struct ib_mr *fakernic_reg_user_mr_dmabuf(struct ib_pd *ibpd, u64 offset,
					  u64 length, u64 iova, int fd,
					  int access, struct ib_dmah *dmah,
					  struct uverbs_attr_bundle *attrs);

/*
 * Returns NULL if the region was changed in place, or a new region that
 * replaces the old one. On an error the region is unchanged.
 */
struct ib_mr *fakernic_rereg_user_mr(struct ib_mr *ibmr, int flags, u64 start,
				     u64 length, u64 iova, int access,
				     struct ib_pd *ibpd,
				     struct ib_udata *udata);

/* Allocates a region for REG_MR. */
struct ib_mr *fakernic_alloc_mr(struct ib_pd *ibpd, enum ib_mr_type type,
				u32 max_num_sg);

/*
 * Sets the pages from sg; returns the number of its entries that fit. Callable
 * in any context.
 */
int fakernic_map_mr_sg(struct ib_mr *ibmr, struct scatterlist *sg, int count,
		       unsigned int *offset);

/* Returns -EBUSY while windows are bound to the region. */
int fakernic_dereg_mr(struct ib_mr *ibmr, struct ib_udata *udata);

static inline struct fakernic_mr *to_fakernic_mr(struct ib_mr *ibmr)
{
	return container_of(ibmr, struct fakernic_mr, ibmr);
}

#endif
