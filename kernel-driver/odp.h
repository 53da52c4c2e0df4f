/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The paging behind an on-demand region (struct fakernic_mr.odp). A kernel
 * without on-demand paging has none of it, and FAKERNIC_ODP_FEATURE is 0.
 */
#ifndef FAKERNIC_DRIVER_ODP_H
#define FAKERNIC_DRIVER_ODP_H

#include <linux/err.h>
#include <linux/types.h>
#include <rdma/ib_verbs.h>
#include <fakernic/regs.h>

struct fakernic_odp;
struct work_struct;

#ifdef CONFIG_INFINIBAND_ON_DEMAND_PAGING
#define FAKERNIC_ODP_FEATURE	FAKERNIC_FEATURE_ODP

/* fakernic_dev.page_request_work: the device has said that it wants pages. */
void fakernic_page_request_work(struct work_struct *work);

/*
 * Pages of the calling process, from start on, for a region at iova; both share
 * their offset in a page. start 0 and length U64_MAX: all of its memory, then
 * iova is 0. ERR_PTR: -EINVAL, -ENOMEM. Ends with fakernic_odp_free().
 */
struct fakernic_odp *fakernic_odp_alloc(struct ib_pd *ibpd, u64 start,
					u64 length, u64 iova, int access);

/* The device has the region under this key: its requests are served now. */
int fakernic_odp_start(struct fakernic_odp *odp, u32 key);

/*
 * Comes before the region is destroyed: of its pages the device is told no more
 * than that some go.
 */
void fakernic_odp_stop(struct fakernic_odp *odp);

/* The device has forgotten the region, or never knew it. */
void fakernic_odp_free(struct fakernic_odp *odp);

/* log2 of the bytes of its pages. */
u8 fakernic_odp_page_shift(const struct fakernic_odp *odp);

/* Where it begins in the process' memory. */
u64 fakernic_odp_address(const struct fakernic_odp *odp);

/* Advice and statistics, with FAKERNIC_FEATURE_ODP. */
extern const struct ib_device_ops fakernic_odp_ops;
#else
#define FAKERNIC_ODP_FEATURE	0

static inline void fakernic_page_request_work(struct work_struct *work)
{
}

static inline struct fakernic_odp *
fakernic_odp_alloc(struct ib_pd *ibpd, u64 start, u64 length, u64 iova,
		   int access)
{
	return ERR_PTR(-EOPNOTSUPP);
}

static inline int fakernic_odp_start(struct fakernic_odp *odp, u32 key)
{
	return -EOPNOTSUPP;
}

static inline void fakernic_odp_stop(struct fakernic_odp *odp)
{
}

static inline void fakernic_odp_free(struct fakernic_odp *odp)
{
}

static inline u8 fakernic_odp_page_shift(const struct fakernic_odp *odp)
{
	return 0;
}

static inline u64 fakernic_odp_address(const struct fakernic_odp *odp)
{
	return 0;
}
#endif

#endif
