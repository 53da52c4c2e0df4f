/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Memory regions and windows (IBTA 10.6). The kernel pins the memory and the
 * device checks keys, so the provider keeps no state for them. Windows are
 * bound by send WQEs (post_send.c). For regions of device memory see dm.c.
 */
#include <errno.h>
#include <stdlib.h>
#include <infiniband/driver.h>

#include "compat.h"
#include "mr.h"

struct ibv_mr *fakernic_ureg_mr(struct ibv_pd *pd, void *addr, size_t length,
				uint64_t hca_va, int access)
{
	struct ib_uverbs_reg_mr_resp resp;
	struct ibv_reg_mr cmd;
	struct verbs_mr *vmr;

	vmr = calloc(1, sizeof(*vmr));
	if (!vmr)
		return NULL;
	errno = ibv_cmd_reg_mr(pd, addr, length, hca_va, access, vmr, &cmd,
			       sizeof(cmd), &resp, sizeof(resp));
	if (errno) {
		free(vmr);
		return NULL;
	}
	return &vmr->ibv_mr;
}

struct ibv_mr *fakernic_ureg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset,
				       size_t length, uint64_t iova, int fd,
				       int access)
{
	struct verbs_mr *vmr;

	vmr = calloc(1, sizeof(*vmr));
	if (!vmr)
		return NULL;
	errno = ibv_cmd_reg_dmabuf_mr(pd, offset, length, iova, fd, access,
				      vmr FAKERNIC_NO_DMABUF_ATTR);
	if (errno) {
		free(vmr);
		return NULL;
	}
	return &vmr->ibv_mr;
}

#ifdef FAKERNIC_HAVE_REG_MR_EX
/*
 * One verb for both kinds of memory. The kernel's single command for it is much
 * newer than Linux 6.12, so use the two older commands.
 */
struct ibv_mr *fakernic_ureg_mr_ex(struct ibv_pd *pd,
				   struct ibv_mr_init_attr *attr)
{
	const uint64_t memory = IBV_REG_MR_MASK_ADDR;
	const uint64_t dmabuf = IBV_REG_MR_MASK_FD | IBV_REG_MR_MASK_FD_OFFSET;
	const uint64_t mask = attr->comp_mask & ~(uint64_t)IBV_REG_MR_MASK_IOVA;
	bool has_iova = attr->comp_mask & IBV_REG_MR_MASK_IOVA;

	if (mask & ~(memory | dmabuf)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	if (mask == memory)
		return fakernic_ureg_mr(pd, attr->addr, attr->length,
				       has_iova ? attr->iova :
						  (uintptr_t)attr->addr,
					attr->access);
	if (mask == dmabuf && has_iova)
		return fakernic_ureg_dmabuf_mr(pd, attr->fd_offset,
					       attr->length, attr->iova,
					       attr->fd, attr->access);
	errno = EINVAL;
	return NULL;
}
#endif

int fakernic_urereg_mr(struct verbs_mr *vmr, int flags, struct ibv_pd *pd,
		       void *addr, size_t length, int access)
{
	struct ib_uverbs_rereg_mr_resp resp;
	struct ibv_rereg_mr cmd;

	return ibv_cmd_rereg_mr(vmr, flags, addr, length, (uintptr_t)addr,
				access, pd, &cmd, sizeof(cmd), &resp,
				sizeof(resp));
}

int fakernic_udereg_mr(struct verbs_mr *vmr)
{
	int err;

	err = ibv_cmd_dereg_mr(vmr);
	if (err)
		return err;
	free(vmr);
	return 0;
}

/* A region of another process with the same context, which still owns it. */
struct ibv_mr *fakernic_uimport_mr(struct ibv_pd *pd, uint32_t handle)
{
	struct verbs_mr *vmr;

	vmr = calloc(1, sizeof(*vmr));
	if (!vmr)
		return NULL;
	errno = ibv_cmd_query_mr(pd, vmr, handle);
	if (errno) {
		free(vmr);
		return NULL;
	}
	return &vmr->ibv_mr;
}

void fakernic_uunimport_mr(struct ibv_mr *mr)
{
	free(verbs_get_mr(mr));
}

struct ibv_mw *fakernic_ualloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	struct ib_uverbs_alloc_mw_resp resp;
	struct ibv_alloc_mw cmd;
	struct ibv_mw *mw;

	mw = calloc(1, sizeof(*mw));
	if (!mw)
		return NULL;
	errno = ibv_cmd_alloc_mw(pd, type, mw, &cmd, sizeof(cmd), &resp,
				 sizeof(resp));
	if (errno) {
		free(mw);
		return NULL;
	}
	return mw;
}

int fakernic_udealloc_mw(struct ibv_mw *mw)
{
	int err;

	err = ibv_cmd_dealloc_mw(mw);
	if (err)
		return err;
	free(mw);
	return 0;
}
