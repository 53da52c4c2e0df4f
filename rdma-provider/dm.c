/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Device memory: pages of a BAR that the kernel allocates and that are mapped
 * here, so that copying needs no command. Copies use words of four bytes, and
 * mmio.h, because s390x accesses a BAR by special instructions. Their range is
 * checked because the mapping is larger than the allocation.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <infiniband/cmd_ioctl.h>
#include <infiniband/driver.h>
#include <util/mmio.h>
#include <util/udma_barrier.h>
#include <util/util.h>

#include "context.h"
#include "dm.h"
#include "fakernic-abi.h"

#define FAKERNIC_DM_WORD	sizeof(uint32_t)

static bool fakernic_dm_range_ok(const struct fakernic_dm *dm, uint64_t offset,
				 size_t length)
{
	return offset % FAKERNIC_DM_WORD == 0 &&
	       length % FAKERNIC_DM_WORD == 0 && offset <= dm->length &&
	       length <= dm->length - offset;
}

static int fakernic_memcpy_to_dm(struct ibv_dm *ibdm, uint64_t offset,
				 const void *from, size_t length)
{
	struct fakernic_dm *dm = fakernic_to_dm(ibdm);
	const uint8_t *bytes = from;
	__le32 word;			/* bytes in the order of memory */
	size_t i;

	if (!fakernic_dm_range_ok(dm, offset, length))
		return EINVAL;
	for (i = 0; i < length; i += sizeof(word)) {
		memcpy(&word, bytes + i, sizeof(word));
		mmio_write32_le(dm->map + offset + i, word);
	}
	/*
	 * The data before the doorbell of a request that reads it. The device
	 * reads device memory after the doorbell.
	 */
	mmio_flush_writes();
	return 0;
}

static int fakernic_memcpy_from_dm(void *to, struct ibv_dm *ibdm,
				   uint64_t offset, size_t length)
{
	struct fakernic_dm *dm = fakernic_to_dm(ibdm);
	uint8_t *bytes = to;
	__le32 word;
	size_t i;

	if (!fakernic_dm_range_ok(dm, offset, length))
		return EINVAL;
	/*
	 * The completion before the data of the request that wrote it. Pairs
	 * with the device, which stores the data before its CQE.
	 */
	udma_from_device_barrier();
	for (i = 0; i < length; i += sizeof(word)) {
		word = mmio_read32_le(dm->map + offset + i);
		memcpy(bytes + i, &word, sizeof(word));
	}
	return 0;
}

/* Maps it and sets the copy functions. 0 or an errno value. */
static int fakernic_map_dm(struct fakernic_dm *dm, struct ibv_context *context,
			   uint64_t map_offset, size_t length)
{
	size_t map_bytes = align(length, sysconf(_SC_PAGESIZE));
	void *map;

	map = mmap(NULL, map_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
		   context->cmd_fd, map_offset);
	if (map == MAP_FAILED)
		return errno;
	dm->map = map;
	dm->map_bytes = map_bytes;
	dm->length = length;
	dm->vdm.dm.memcpy_to_dm = fakernic_memcpy_to_dm;
	dm->vdm.dm.memcpy_from_dm = fakernic_memcpy_from_dm;
	return 0;
}

struct ibv_dm *fakernic_ualloc_dm(struct ibv_context *context,
				  struct ibv_alloc_dm_attr *attr)
{
	DECLARE_COMMAND_BUFFER(cmd, UVERBS_OBJECT_DM, UVERBS_METHOD_DM_ALLOC,
			       1);
	struct fakernic_dm *dm;
	uint64_t map_offset;
	int err;

	if (attr->comp_mask) {
		errno = EINVAL;
		return NULL;
	}
	dm = calloc(1, sizeof(*dm));
	if (!dm)
		return NULL;
	fill_attr_out_ptr(cmd, FAKERNIC_ATTR_ALLOC_DM_RESP_OFFSET, &map_offset);
	err = ibv_cmd_alloc_dm(context, attr, &dm->vdm, cmd);
	if (err)
		goto err_free;
	err = fakernic_map_dm(dm, context, map_offset, attr->length);
	if (err)
		goto err_dealloc;
	return &dm->vdm.dm;

err_dealloc:
	ibv_cmd_free_dm(&dm->vdm);
err_free:
	free(dm);
	errno = err;
	return NULL;
}

int fakernic_ufree_dm(struct ibv_dm *ibdm)
{
	struct fakernic_dm *dm = fakernic_to_dm(ibdm);
	int err;

	err = ibv_cmd_free_dm(&dm->vdm);
	if (err)
		return err;
	fakernic_uunimport_dm(ibdm);
	return 0;
}

/* Memory of another process with the same context, which still owns it. */
struct ibv_dm *fakernic_uimport_dm(struct ibv_context *context, uint32_t handle)
{
	DECLARE_COMMAND_BUFFER(cmd, UVERBS_OBJECT_DM, FAKERNIC_METHOD_DM_QUERY,
			       3);
	uint64_t map_offset, length;
	struct fakernic_dm *dm;
	int err;

	dm = calloc(1, sizeof(*dm));
	if (!dm)
		return NULL;
	fill_attr_in_obj(cmd, FAKERNIC_ATTR_QUERY_DM_HANDLE, handle);
	fill_attr_out_ptr(cmd, FAKERNIC_ATTR_QUERY_DM_RESP_OFFSET, &map_offset);
	fill_attr_out_ptr(cmd, FAKERNIC_ATTR_QUERY_DM_RESP_LENGTH, &length);
	err = execute_ioctl(context, cmd);
	if (!err)
		err = fakernic_map_dm(dm, context, map_offset, length);
	if (err) {
		free(dm);
		errno = err;
		return NULL;
	}
	dm->vdm.handle = handle;
	dm->vdm.dm.handle = handle;
	dm->vdm.dm.comp_mask = IBV_DM_MASK_HANDLE;
	dm->vdm.dm.context = context;
	return &dm->vdm.dm;
}

void fakernic_uunimport_dm(struct ibv_dm *ibdm)
{
	struct fakernic_dm *dm = fakernic_to_dm(ibdm);

	munmap(dm->map, dm->map_bytes);
	free(dm);
}

struct ibv_mr *fakernic_ureg_dm_mr(struct ibv_pd *pd, struct ibv_dm *ibdm,
				   uint64_t offset, size_t length,
				   unsigned int access)
{
	struct fakernic_dm *dm = fakernic_to_dm(ibdm);
	struct verbs_mr *vmr;
	int err;

	if (offset > dm->length || length > dm->length - offset) {
		errno = EINVAL;
		return NULL;
	}
	vmr = calloc(1, sizeof(*vmr));
	if (!vmr)
		return NULL;
	err = ibv_cmd_reg_dm_mr(pd, &dm->vdm, offset, length, access, vmr,
				NULL);
	if (err) {
		free(vmr);
		errno = err;
		return NULL;
	}
	return &vmr->ibv_mr;
}
