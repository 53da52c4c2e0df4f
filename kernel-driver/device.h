/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * struct fakernic_dev: one PCI function with both its faces. Made and torn down
 * by main.c, its hardware brought up and down by life.c; the files fill in what
 * is theirs. Each noun has a header of its own: an object's structures and the
 * contracts of the functions that the file of the same name defines.
 *
 * Unless a contract says otherwise, a function returns 0 or a negative errno,
 * may sleep, and must not be called with a spinlock held. All numbers of
 * objects (CQN, QPN, ...) are the device's.
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
#include "dm.h"
#include "dump.h"
#include "health.h"
#include "port.h"
#include "stats.h"

#if !defined(CONFIG_64BIT)
#error "fakernic needs 64-bit stores to its doorbells, hence a 64-bit kernel"
#endif

#define FAKERNIC_NAME		"fakernic"
#define FAKERNIC_KERNEL_UAR	0	/* doorbells of kernel objects */
#define FAKERNIC_EQ_ASYNC	0	/* eqs[] of all but completion events */
#define FAKERNIC_EQ_COMPLETION	1	/* and the first of those */

struct fakernic_eq;
struct fakernic_gid;

/* The RDMA device, which goes and comes again when the hardware does. */
struct fakernic_ib {
	struct ib_device ibdev;
	struct fakernic_dev *dev;
};

struct fakernic_dev {
	struct ib_device *ibdev;	/* NULL: none now (ibdev.c) */
	char ib_name[IB_DEVICE_NAME_MAX];	/* of the one before */
	u64 ib_net;			/* its namespace's cookie, likewise */
	char ib_desc[IB_DEVICE_NODE_DESC_MAX];	/* its node_desc */
	bool ib_dim;			/* it had adaptive moderation */
	bool bounced;			/* DMA goes to copies (swiotlb) */
	struct pci_dev *pdev;
	struct net_device *netdev;
	void __iomem *regs;
	void __iomem *uar;		/* page FAKERNIC_KERNEL_UAR */
	phys_addr_t uar_address;	/* of BAR2, from that page on */
	u64 features;			/* FAKERNIC_FEATURE_* in use */
	u32 interface_version;
	u32 fw_version;

	struct fakernic_cmdq cmdq;
	bool dead;			/* no answer is to be expected */
	bool fatal_told;		/* by fatal_work, since it was up */
	struct work_struct fatal_work;
	struct workqueue_struct *fatal_wq;	/* memory may wait for it */
	struct workqueue_struct *odp_wq;	/* pages may never come */

	struct mutex life_lock;		/* up; changes of it */
	bool up;			/* has both faces (life.c) */
	unsigned long held;		/* bits of enum fakernic_holder */
	bool found_dead;		/* by who holds it, before he did */
	unsigned long bus_held_at;	/* jiffies */
	struct fakernic_health health;
	struct fakernic_dump dump;
	struct pci_saved_state *saved_state;	/* as it was mapped */

	struct fakernic_eq *eqs;	/* NULL: it did not come up */
	u32 eq_count;
	atomic_t lost_interrupts;	/* found out by looking */
	atomic_t lost_events;		/* likewise, of the net_device */
	struct mutex cqs_lock;		/* whoever visits all CQs (hw.c) */
	struct xarray cqs;		/* cqn -> struct fakernic_cq_hw */
	struct xarray qps;		/* qpn, wqn -> struct fakernic_qp_hw */
	struct xarray srqs;		/* srqn -> struct fakernic_srq_hw */
	struct xarray odps;		/* key -> struct fakernic_odp */
	atomic_t key_tag;		/* of the next memory key (hw.c) */

	struct xarray counters;		/* id -> struct rdma_counter */
	struct mutex past_lock;		/* past, what goes there; netdev's */
	u64 past[FAKERNIC_PORT_STAT_COUNT];	/* of counters that were */
	struct fakernic_asked asked;

	struct fakernic_query_device_resp caps;
	struct fakernic_dm_pool dm;
	u64 wall_offset_ns;		/* Unix time - device clock */
	struct ptp_clock *ptp;		/* NULL: none */
	struct ptp_clock_info ptp_info;
	spinlock_t ptp_lock;		/* both halves of the clock */
	struct mutex gid_lock;		/* gids */
	struct fakernic_gid *gids;	/* caps.gid_count, as long as ibdev */
	u32 gids_gone;			/* entries that QPs alone still use */
	struct fakernic_port port;
	struct delayed_work page_request_work;	/* the device wants pages */
};

/* What a user did wrong: shown on request (dynamic debug), and rate-limited. */
#define fakernic_dbg(dev, ...)						\
	ibdev_dbg_ratelimited((dev)->ibdev, __VA_ARGS__)

/*
 * How long after so many failures in a row what failed is tried again, in
 * jiffies: from half a second, twice as long each time, to 64 s.
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
