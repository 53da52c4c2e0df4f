/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What differs between the kernels the driver is built for: Linux 6.1 and
 * 6.12. Everything else in this folder is written for the newest of them.
 */
#ifndef FAKERNIC_COMPAT_H
#define FAKERNIC_COMPAT_H

#include <linux/mm.h>
#include <linux/version.h>
#include <rdma/uverbs_ioctl.h>

/* Block iterators moved out of ib_verbs.h and ib_umem.h, also in stable. */
#if __has_include(<rdma/iter.h>)
#include <rdma/iter.h>
#endif

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 3, 0)
static inline void vm_flags_clear(struct vm_area_struct *vma,
				  vm_flags_t flags)
{
	vma->vm_flags &= ~flags;
}
#endif

/* Since 6.11 create_cq is handed the attribute bundle the udata lies in. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 11, 0)
#define FAKERNIC_CREATE_CQ_ARG		struct ib_udata
#define fakernic_create_cq_udata(arg)	(arg)
#else
#define FAKERNIC_CREATE_CQ_ARG		struct uverbs_attr_bundle
#define fakernic_create_cq_udata(arg)	((arg) ? &(arg)->driver_udata : NULL)
#endif

#endif
