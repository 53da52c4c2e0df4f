/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * the provider keeps only the kernel's handles.
 */
#ifndef FAKERNIC_PROVIDER_MR_H
#define FAKERNIC_PROVIDER_MR_H

#include <stdint.h>
#include <infiniband/driver.h>

struct ibv_mr_init_attr;

/* Lengths in bytes; hca_va and iova are the addresses that key users pass. */
struct ibv_mr *fakernic_ureg_mr(struct ibv_pd *pd, void *addr, size_t length,
				uint64_t hca_va, int access);

/* Memory behind fd, from offset on; it is pinned. */
struct ibv_mr *fakernic_ureg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset,
				       size_t length, uint64_t iova, int fd,
				       int access);

/*
 * Registers either kind, by attr's comp_mask. EOPNOTSUPP: it has an unknown
 * bit.
 */
struct ibv_mr *fakernic_ureg_mr_ex(struct ibv_pd *pd,
				   struct ibv_mr_init_attr *attr);

/* After an error the region is unchanged. */
int fakernic_urereg_mr(struct verbs_mr *vmr, int flags, struct ibv_pd *pd,
		       void *addr, size_t length, int access);

/* EBUSY: windows are bound to it. */
int fakernic_udereg_mr(struct verbs_mr *vmr);

/* Another process' region of the same context, by its handle. */
struct ibv_mr *fakernic_uimport_mr(struct ibv_pd *pd, uint32_t handle);

/* Frees the handle; the other process still owns the region. */
void fakernic_uunimport_mr(struct ibv_mr *mr);

/* Bound by work requests: post_send.h, wr.h. */
struct ibv_mw *fakernic_ualloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);

/* Unbinds it first if it is bound. */
int fakernic_udealloc_mw(struct ibv_mw *mw);

#endif
