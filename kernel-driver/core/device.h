/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * struct fakernic_dev: one PCI function, with its net_device and its RDMA
 * device. main.c allocates and frees it; lifecycle.c brings its hardware up and
 * down. Each kind of object has its own header, which declares its structures
 * and documents the functions of the .c file of the same name.
 *
 * Unless documented otherwise, a function returns 0 or a negative errno, may
 * sleep, and must not be called with a spinlock held. The device assigns all
 * object numbers (CQN, QPN, ...).
 */
#ifndef FAKERNIC_DRIVER_DEVICE_H
#define FAKERNIC_DRIVER_DEVICE_H

#include <linux/minmax.h>
#include <linux/mutex.h>
#include <linux/netdevice.h>
#include <linux/pci.h>
#include <linux/ptp_clock_kernel.h>
#include <linux/spinlock.h>
#include <linux/xarray.h>
#include <rdma/ib_verbs.h>
#include <fakernic/cmdq.h>
#include <fakernic/regs.h>
#include "cmdq.h"
#include "dump.h"
#include "port.h"
#include "stats.h"
#include "vport.h"
#include "../rdma/dm.h"
#include "../health.h"

#if !defined(CONFIG_64BIT)
#error "fakernic needs 64-bit stores to its doorbells, hence a 64-bit kernel"
#endif

#define FAKERNIC_NAME		"fakernic"
#define FAKERNIC_KERNEL_UAR	0	/* doorbell page of the kernel */
#define FAKERNIC_EQ_ASYNC	0	/* eqs[] index: all other events */
#define FAKERNIC_EQ_COMPLETION	1	/* eqs[] index: first for completions */

struct fakernic_eq;
struct fakernic_gid;

/* The RDMA device: unregistered and registered again around each reset. */
struct fakernic_ib {
	struct ib_device ibdev;
	struct fakernic_dev *dev;
};

struct fakernic_dev {
	struct ib_device *ibdev;	/* NULL: not registered (ibdev.c) */
	/* Settings of the last RDMA device, which the next one inherits. */
	char ib_name[IB_DEVICE_NAME_MAX];
	u64 ib_net;			/* cookie of its namespace */
	char ib_desc[IB_DEVICE_NODE_DESC_MAX];	/* its node_desc */
	bool ib_dim;			/* it used adaptive moderation */

	bool bounced;			/* DMA uses bounce buffers (swiotlb) */
	struct pci_dev *pdev;
	struct net_device *netdev;
	void __iomem *regs;
	void __iomem *uar;		/* page FAKERNIC_KERNEL_UAR */
	phys_addr_t uar_address;	/* of the first page of BAR2 */
	u64 features;			/* FAKERNIC_FEATURE_* in use */
	u32 interface_version;
	u32 fw_version;

	struct fakernic_cmdq cmdq;
	bool dead;			/* commands fail at once */
	bool death_reported;		/* by fatal_work */
	struct work_struct fatal_work;
	struct workqueue_struct *fatal_wq;	/* WQ_MEM_RECLAIM */
	struct workqueue_struct *odp_wq;	/* page faults may block */

	struct mutex life_lock;		/* serializes going up and down */
	bool up;			/* interfaces are registered */
	unsigned long quiesced;		/* enum fakernic_quiesce_reason */
	bool was_dead;			/* already dead when quiesced */
	unsigned long bus_error_at;	/* jiffies of the bus error */
	struct fakernic_health health;
	struct fakernic_dump dump;
	struct pci_saved_state *saved_state;	/* as at probe */

	struct fakernic_eq *eqs;	/* NULL: the device did not come up */
	u32 eq_count;
	atomic_t lost_interrupts;	/* found by polling */
	atomic_t lost_events;		/* same, of the net_device */
	struct mutex cqs_lock;		/* iteration over all CQs (object.c) */
	struct xarray cqs;		/* cqn -> struct fakernic_cq_hw */
	struct xarray qps;		/* qpn, wqn -> struct fakernic_qp_hw */
	struct xarray srqs;		/* srqn -> struct fakernic_srq_hw */
	struct xarray odps;		/* key -> struct fakernic_odp */
	atomic_t key_tag;		/* low byte of the next key */

	struct xarray counters;		/* id -> struct rdma_counter */
	struct mutex past_lock;		/* past; netdev's missed frames */
	u64 past[FAKERNIC_PORT_STAT_COUNT];	/* sum of freed counters */
	struct fakernic_stats_buffer stats_buffer;
	struct fakernic_vports vports;

	struct fakernic_query_device_resp caps;
	struct fakernic_dm_pool dm;
	u64 wall_offset_ns;		/* Unix time - device clock */
	struct ptp_clock *ptp;		/* NULL: none */
	struct ptp_clock_info ptp_info;
	spinlock_t ptp_lock;		/* reads of both clock halves */
	struct mutex gid_lock;		/* gids */
	struct fakernic_gid *gids;	/* caps.gid_count; lives with ibdev */
	u32 gids_deleted;		/* deleted entries QPs still use */
	struct fakernic_port port;
	struct delayed_work page_request_work;	/* device needs pages */
};

/* Logs an application's mistake: rate-limited, enabled by dynamic debug. */
#define fakernic_dbg(dev, ...)						\
	ibdev_dbg_ratelimited((dev)->ibdev, __VA_ARGS__)

/*
 * Returns the delay in jiffies before the next retry after that many
 * consecutive failures: half a second, doubled each time, at most 64 s.
 */
static inline unsigned long fakernic_pause(u32 failures)
{
	return HZ / 2 << min(failures, 7U);
}

static inline struct fakernic_dev *to_fakernic_dev(struct ib_device *ibdev)
{
	return container_of(ibdev, struct fakernic_ib, ibdev)->dev;
}

#endif
