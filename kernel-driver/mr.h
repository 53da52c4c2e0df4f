/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Memory regions (IBTA 10.6).
 */
#ifndef FAKERNIC_DRIVER_MR_H
#define FAKERNIC_DRIVER_MR_H

#include <rdma/ib_verbs.h>
#include "pages.h"

struct fakernic_create_mr_req;
struct fakernic_odp;
struct ib_dmah;
struct ib_umem;

struct fakernic_mr {
	struct ib_mr ibmr;
	struct ib_umem *umem;		/* a user's, pinned */
	struct fakernic_odp *odp;	/* a user's, on demand */
	int access;			/* as asked for */
	const struct mm_struct *mm;	/* whose memory; to compare */
	u8 type;			/* enum fakernic_mr_type */
	struct fakernic_page_table table;	/* of a fast-registration MR */
	u32 page_count;			/* mapped by map_mr_sg */
	u32 max_pages;
};

/*
 * A region that needs nothing but its key: the caller fills in req but for PD,
 * access and tag. access: IB_ACCESS_*; what is unknown of it is -EOPNOTSUPP.
 * Ends with fakernic_dereg_mr().
 */
struct ib_mr *fakernic_make_mr(struct ib_pd *ibpd,
			       struct fakernic_create_mr_req *req, int access);

/*
 * Operations of struct ib_device_ops; regions by ERR_PTR. Lengths and addresses
 * are bytes. The DMA region is the kernel's alone: the core never hands it out.
 */
struct ib_mr *fakernic_get_dma_mr(struct ib_pd *ibpd, int access);

/*
 * Memory of the calling process, pinned, or paged on demand. -EINVAL: a length
 * that is 0 or too large, or start and iova do not share their offset in a
 * page.
 */
struct ib_mr *fakernic_reg_user_mr(struct ib_pd *ibpd, u64 start, u64 length,
				   u64 iova, int access, struct ib_dmah *dmah,
				   struct ib_udata *udata);

/* The buffer is pinned: the device has no way to be told that it moves. */
struct ib_mr *fakernic_reg_user_mr_dmabuf(struct ib_pd *ibpd, u64 offset,
					  u64 length, u64 iova, int fd,
					  int access, struct ib_dmah *dmah,
					  struct uverbs_attr_bundle *attrs);

/*
 * NULL: the region was changed in its place; another region: the core replaces
 * the old one by it. On an error the region is as it was.
 */
struct ib_mr *fakernic_rereg_user_mr(struct ib_mr *ibmr, int flags, u64 start,
				     u64 length, u64 iova, int access,
				     struct ib_pd *ibpd,
				     struct ib_udata *udata);

/* A region for REG_MR. Mapping it is allowed in any context. */
struct ib_mr *fakernic_alloc_mr(struct ib_pd *ibpd, enum ib_mr_type type,
				u32 max_num_sg);

/* Enters pages of sg; returns how many entries of it fit. In any context. */
int fakernic_map_mr_sg(struct ib_mr *ibmr, struct scatterlist *sg, int count,
		       unsigned int *offset);

/* -EBUSY while windows are bound to it. */
int fakernic_dereg_mr(struct ib_mr *ibmr, struct ib_udata *udata);

static inline struct fakernic_mr *to_fakernic_mr(struct ib_mr *ibmr)
{
	return container_of(ibmr, struct fakernic_mr, ibmr);
}

#endif
