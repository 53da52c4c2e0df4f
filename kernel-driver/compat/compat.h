/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Adapters for the supported kernels, Linux 6.1 to 7.3. They give older kernels
 * the names of the newest one. Larger topics have their own files: ops.h (table
 * of operations), odp.h (pages of on-demand regions), devlink.h, ethtool.h,
 * tstamp.h (time stamps) and page_pool.h. probe.sh detects what the kernel has.
 * No file outside this folder depends on the kernel version.
 */
#ifndef FAKERNIC_DRIVER_COMPAT_H
#define FAKERNIC_DRIVER_COMPAT_H

#include <linux/mm.h>
#include <linux/workqueue.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_verbs.h>

/* Block iterators moved out of ib_umem.h. */
#ifdef FAKERNIC_HAVE_RDMA_ITER
#include <rdma/iter.h>
#endif

#ifndef FAKERNIC_HAVE_UMEM_GET_VA
static inline struct ib_umem *ib_umem_get_va(struct ib_device *ibdev,
					     unsigned long address, size_t size,
					     int access)
{
	return ib_umem_get(ibdev, address, size, access);
}
#endif

/*
 * Kernels without ib_alloc_device_with_net() allocate in init_net, so the
 * namespace is set before the device is registered. In shared mode every
 * device belongs to init_net.
 */
#ifndef FAKERNIC_HAVE_ALLOC_WITH_NET
static inline struct ib_device *fakernic_ib_in_net(struct ib_device *ibdev,
						   struct net *net)
{
	if (ibdev && !rdma_dev_access_netns(ibdev, net))
		write_pnet(&ibdev->coredev.rdma_net, net);
	return ibdev;
}

/* container_of() keeps NULL because member is the first one. */
#define ib_alloc_device_with_net(type, member, net)			\
	container_of(							\
		fakernic_ib_in_net(_ib_alloc_device(sizeof(struct type)), net),\
		struct type, member)
#endif

#ifndef FAKERNIC_HAVE_VM_FLAGS_CLEAR
static inline void vm_flags_clear(struct vm_area_struct *vma,
				  vm_flags_t flags)
{
	vma->vm_flags &= ~flags;
}
#endif

/* Newer kernels warn about the old name. */
#ifndef FAKERNIC_HAVE_DFL_WQ
#define system_dfl_wq	system_unbound_wq
#endif

/* Older kernels use the uapi type for ethtool -T. */
#ifndef FAKERNIC_HAVE_KERNEL_TS_INFO
#define kernel_ethtool_ts_info	ethtool_ts_info
#endif

/* Only the fields that tstamp.c uses. */
#ifdef FAKERNIC_HAVE_HWTSTAMP_CONFIG
#include <linux/net_tstamp.h>
#else
struct kernel_hwtstamp_config {
	int flags;
	int tx_type;
	int rx_filter;
};
#endif

/*
 * A core without ATOMIC WRITE still reports the bit to applications, which is
 * enough. A core without FLUSH refuses to register memory for it, so there the
 * driver does not announce it.
 */
#ifndef FAKERNIC_HAVE_ATOMIC_WRITE
#define IB_DEVICE_ATOMIC_WRITE		BIT_ULL(40)
#endif
#ifdef FAKERNIC_HAVE_FLUSH
#define FAKERNIC_DEVICE_FLUSH						\
	(IB_DEVICE_FLUSH_GLOBAL | IB_DEVICE_FLUSH_PERSISTENT)
#else
#define FAKERNIC_DEVICE_FLUSH		0
#endif

/* Newer kernels name this bit; older ones still pass it to applications. */
#define FAKERNIC_ODP_SUPPORT_ATOMIC_WRITE	BIT(7)

#endif
