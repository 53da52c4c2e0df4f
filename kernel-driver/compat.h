/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What differs between the kernels the driver is built for, Linux 6.1 to 7.3:
 * the newest one's names for all. compat_ops.h has what differs of the table
 * of operations, compat_odp.h of the pages of on-demand regions,
 * compat_devlink.h of devlink, compat_ethtool.h of ethtool, compat_tstamp.h of
 * time stamps, compat_page_pool.h of page pools; probe.sh finds out what the
 * kernel has. No other file asks which kernel it is built for.
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
 * Allocated for the initial namespace, of which it is until it is registered.
 * While namespaces share devices all are of that one.
 */
#ifndef FAKERNIC_HAVE_ALLOC_WITH_NET
static inline struct ib_device *fakernic_ib_in_net(struct ib_device *ibdev,
						   struct net *net)
{
	if (ibdev && !rdma_dev_access_netns(ibdev, net))
		write_pnet(&ibdev->coredev.rdma_net, net);
	return ibdev;
}

/* The member is the first. */
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

/* Newer kernels warn of the former name. */
#ifndef FAKERNIC_HAVE_DFL_WQ
#define system_dfl_wq	system_unbound_wq
#endif

/* What ethtool -T tells, before it had a name of the kernel's own. */
#ifndef FAKERNIC_HAVE_KERNEL_TS_INFO
#define kernel_ethtool_ts_info	ethtool_ts_info
#endif

/* What of it tstamp.c looks at. */
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
 * A core that does not know ATOMIC WRITE hands its bit on to users, who need no
 * more; but one that does not know FLUSH refuses to register memory for it.
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

/* Newer kernels have a name for it; others only hand it on to users. */
#define FAKERNIC_ODP_SUPPORT_ATOMIC_WRITE	BIT(7)

#endif
