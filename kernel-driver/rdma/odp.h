/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Paging of an on-demand region (struct fakernic_mr.odp). Without kernel
 * support for on-demand paging these are stubs and FAKERNIC_ODP_FEATURE is 0.
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

/* fakernic_dev.page_request_work: the device has requested pages. */
void fakernic_page_request_work(struct work_struct *work);

/*
 * Covers memory of the calling process from start on with a region at iova;
 * both have the same offset in a page. start 0 and length U64_MAX: the whole
 * address space; then iova is 0. ERR_PTR: -EINVAL, -ENOMEM. The caller ends it
 * with fakernic_odp_free().
 */
struct fakernic_odp *fakernic_odp_alloc(struct ib_pd *ibpd, u64 start,
					u64 length, u64 iova, int access);

/* Called once the device has the region: its page requests are served now. */
int fakernic_odp_start(struct fakernic_odp *odp, u32 key);

/*
 * Called before the region is destroyed. From then on the driver reports to the
 * device only pages that are taken away.
 */
void fakernic_odp_stop(struct fakernic_odp *odp);

/* Frees it. The device has destroyed the region, or never created it. */
void fakernic_odp_free(struct fakernic_odp *odp);

/* log2 of its page size. */
u8 fakernic_odp_page_shift(const struct fakernic_odp *odp);

/* Its start address in the process. */
u64 fakernic_odp_address(const struct fakernic_odp *odp);

/* ibv_advise_mr() and statistics, with FAKERNIC_FEATURE_ODP. */
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
