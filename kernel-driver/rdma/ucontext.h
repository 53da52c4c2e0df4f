/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * User contexts.
 */
#ifndef FAKERNIC_DRIVER_UCONTEXT_H
#define FAKERNIC_DRIVER_UCONTEXT_H

#include <rdma/ib_verbs.h>
#include <rdma/uverbs_ioctl.h>
#include "../core/device.h"

struct fakernic_ucontext {
	struct ib_ucontext ibucontext;
	struct rdma_user_mmap_entry *uar_entry;
	struct rdma_user_mmap_entry *clock_entry;	/* NULL: none */
	u32 uar;			/* its doorbell page */
};

/* Operations of struct ib_device_ops. */
int fakernic_alloc_ucontext(struct ib_ucontext *ibucontext,
			    struct ib_udata *udata);

/* Frees it. Mappings that still exist keep their entries. */
void fakernic_dealloc_ucontext(struct ib_ucontext *ibucontext);

/* Returns the allocation's response again, for an imported context. */
int fakernic_query_ucontext(struct ib_ucontext *ibucontext,
			    struct uverbs_attr_bundle *attrs);

/*
 * The device is being removed: the core removes the mappings, and nothing else
 * is needed.
 */
void fakernic_disassociate_ucontext(struct ib_ucontext *ibucontext);

/* The driver's additions to the core's device object. */
extern const struct uapi_definition fakernic_ucontext_defs[];

static inline struct fakernic_ucontext *
to_fakernic_ucontext(struct ib_ucontext *ibucontext)
{
	return container_of(ibucontext, struct fakernic_ucontext, ibucontext);
}

/* Doorbell page of a user object; FAKERNIC_KERNEL_UAR if udata is NULL. */
static inline u32 fakernic_udata_uar(struct ib_udata *udata)
{
	struct fakernic_ucontext *context =
		rdma_udata_to_drv_context(udata, struct fakernic_ucontext,
					  ibucontext);

	return context ? context->uar : FAKERNIC_KERNEL_UAR;
}

#endif
