/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Device memory, mapped.
 */
#ifndef FAKERNIC_PROVIDER_DM_H
#define FAKERNIC_PROVIDER_DM_H

#include <stdint.h>
#include <infiniband/driver.h>

struct fakernic_dm {
	struct verbs_dm vdm;
	uint8_t *map;
	size_t length;			/* bytes, as requested */
	size_t map_bytes;		/* whole pages */
};

/* Copies use words of four bytes. EINVAL: not aligned to them. */
struct ibv_dm *fakernic_ualloc_dm(struct ibv_context *context,
				  struct ibv_alloc_dm_attr *attr);

/* Unmaps and frees it. EBUSY: a memory region uses it. */
int fakernic_ufree_dm(struct ibv_dm *dm);

/* Memory of another process with the same context, mapped here. */
struct ibv_dm *fakernic_uimport_dm(struct ibv_context *context,
				   uint32_t handle);

/* Unmaps it; the other process still owns it. */
void fakernic_uunimport_dm(struct ibv_dm *dm);

/* EINVAL: the range is not inside the device memory. */
struct ibv_mr *fakernic_ureg_dm_mr(struct ibv_pd *pd, struct ibv_dm *dm,
				   uint64_t offset, size_t length,
				   unsigned int access);

static inline struct fakernic_dm *fakernic_to_dm(struct ibv_dm *dm)
{
	return container_of(dm, struct fakernic_dm, vdm.dm);
}

#endif
