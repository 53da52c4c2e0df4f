/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What differs between the kernels the driver is built for: Linux 6.1 and
 * 6.12. Everything else in this folder is written for the newest of them.
 */
#ifndef FAKERNIC_DRIVER_COMPAT_H
#define FAKERNIC_DRIVER_COMPAT_H

#include <linux/mm.h>
#include <linux/version.h>
#include <rdma/uverbs_ioctl.h>

/*
 * Block iterators moved out of ib_umem.h, in stable kernels too (see Kbuild).
 */
#ifdef FAKERNIC_HAVE_RDMA_ITER
#include <rdma/iter.h>
#endif

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 3, 0)
static inline void vm_flags_clear(struct vm_area_struct *vma,
				  vm_flags_t flags)
{
	vma->vm_flags &= ~flags;
}
#endif

/*
 * Since 6.2 the core knows ATOMIC WRITE and FLUSH. Before, it hands the bit of
 * the former on to users, who need no more; but it refuses to register memory
 * for the latter.
 */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 2, 0)
#define IB_DEVICE_ATOMIC_WRITE		BIT_ULL(40)
#define FAKERNIC_DEVICE_FLUSH		0
#else
#define FAKERNIC_DEVICE_FLUSH						\
	(IB_DEVICE_FLUSH_GLOBAL | IB_DEVICE_FLUSH_PERSISTENT)
#endif

/* Newer kernels have a name for it; these only hand it on to users. */
#define FAKERNIC_ODP_SUPPORT_ATOMIC_WRITE	BIT(7)

/* Since 6.11 what ethtool -T tells has a name of the kernel's own. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 11, 0)
#define FAKERNIC_TS_INFO	struct ethtool_ts_info
#else
#define FAKERNIC_TS_INFO	struct kernel_ethtool_ts_info
#endif

/* Since 6.11 create_cq is handed the attribute bundle the udata lies in. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 11, 0)
#define FAKERNIC_CREATE_CQ_ARG	struct ib_udata *

static inline struct ib_udata *
fakernic_create_cq_udata(FAKERNIC_CREATE_CQ_ARG udata)
{
	return udata;
}
#else
#define FAKERNIC_CREATE_CQ_ARG	struct uverbs_attr_bundle *

static inline struct ib_udata *
fakernic_create_cq_udata(FAKERNIC_CREATE_CQ_ARG attrs)
{
	return attrs ? &attrs->driver_udata : NULL;
}
#endif

/* Likewise reg_user_mr_dmabuf; and SRQs can tell of themselves. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 12, 0)
#define FAKERNIC_DMABUF_ARG		struct ib_udata *
#else
#define FAKERNIC_DMABUF_ARG		struct uverbs_attr_bundle *
#define FAKERNIC_HAVE_FILL_RES_SRQ
#endif

#endif
