/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the files of the driver share: struct fakernic_dev, the verbs objects,
 * and the functions, grouped by the file that defines them.
 *
 * Layers, each of which calls only those above it:
 *
 *	explain		the device's numbers in words
 *	regs		BAR0, reset, version handshake
 *	cmdq, cmd	commands
 *	pages		queue memory, page lists
 *	eq		interrupts, events
 *	cq, qp		hardware queues, used by the netdev and by verbs
 *	netdev, tx, rx	the Ethernet port
 *	odp		regions that are paged on demand
 *	device, ...	verbs
 *	main		probe and remove
 */
#ifndef FAKERNIC_H
#define FAKERNIC_H

#include <linux/bitfield.h>
#include <linux/dma-mapping.h>
#include <linux/etherdevice.h>
#include <linux/io.h>
#include <linux/mutex.h>
#include <linux/netdevice.h>
#include <linux/pci.h>
#include <linux/ptp_clock_kernel.h>
#include <linux/semaphore.h>
#include <linux/spinlock.h>
#include <linux/xarray.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_verbs.h>
#include <fakernic/base.h>
#include <fakernic/cmdq.h>
#include <fakernic/cq.h>
#include <fakernic/doorbell.h>
#include <fakernic/eq.h>
#include <fakernic/mr.h>
#include <fakernic/qp.h>
#include <fakernic/regs.h>
#include <fakernic/rq.h>
#include <fakernic/sq.h>
#include <fakernic/stats.h>
#include <fakernic/wq.h>
#include <rdma/fakernic-abi.h>
#include "compat.h"

#if !defined(CONFIG_64BIT)
#error "fakernic needs 64-bit stores to its doorbells, hence a 64-bit kernel"
#endif

#define FAKERNIC_NAME		"fakernic"

#ifdef CONFIG_INFINIBAND_ON_DEMAND_PAGING
#define FAKERNIC_ODP_FEATURE	FAKERNIC_FEATURE_ODP
#else
#define FAKERNIC_ODP_FEATURE	0
#endif

/* The features of the interface that this driver makes use of. */
#define FAKERNIC_DRIVER_FEATURES					\
	(FAKERNIC_FEATURE_RC | FAKERNIC_FEATURE_UD |			\
	 FAKERNIC_FEATURE_UC | FAKERNIC_FEATURE_XRC |			\
	 FAKERNIC_FEATURE_RAW_PACKET |					\
	 FAKERNIC_FEATURE_ATOMIC | FAKERNIC_FEATURE_ATOMIC_MASKED |	\
	 FAKERNIC_FEATURE_ATOMIC_WRITE | FAKERNIC_FEATURE_FLUSH |	\
	 FAKERNIC_FEATURE_SRQ | FAKERNIC_FEATURE_MW |			\
	 FAKERNIC_FEATURE_FAST_REG | FAKERNIC_FEATURE_REREG_MR |	\
	 FAKERNIC_FEATURE_RESIZE_CQ | FAKERNIC_FEATURE_MCAST |		\
	 FAKERNIC_FEATURE_CNP | FAKERNIC_FEATURE_DCQCN |		\
	 FAKERNIC_FEATURE_RATE_LIMIT | FAKERNIC_FEATURE_CLOCK_PAGE |	\
	 FAKERNIC_FEATURE_RESIZE_SRQ | FAKERNIC_FEATURE_CQ_MODERATION |	\
	 FAKERNIC_FEATURE_DM | FAKERNIC_FEATURE_FLOW |			\
	 FAKERNIC_FEATURE_COUNTERS | FAKERNIC_FEATURE_WQ_RSS |		\
	 FAKERNIC_ODP_FEATURE)

/* Without these the Ethernet port and rdma_cm cannot work. */
#define FAKERNIC_NEEDED_FEATURES					\
	(FAKERNIC_FEATURE_RC | FAKERNIC_FEATURE_UD |			\
	 FAKERNIC_FEATURE_RAW_PACKET)

#define FAKERNIC_PORT		1
#define FAKERNIC_KERNEL_UAR	0
#define FAKERNIC_EQ_ASYNC	0
#define FAKERNIC_EQ_COMPLETION	1	/* the first of them */

/* These counters are the device's own; all others are the port's. */
#define FAKERNIC_DEVICE_STAT_COUNT					\
	(FAKERNIC_STAT_COMMANDS_FAILED - FAKERNIC_STAT_DOORBELL_DROPPED + 1 + \
	 FAKERNIC_STAT_PAGES_REFUSED - FAKERNIC_STAT_PAGE_REQUESTS + 1)
#define FAKERNIC_PORT_STAT_COUNT					\
	(FAKERNIC_STAT_COUNT - FAKERNIC_DEVICE_STAT_COUNT)

static inline bool fakernic_stat_is_devices(int stat)
{
	return (stat >= FAKERNIC_STAT_DOORBELL_DROPPED &&
		stat <= FAKERNIC_STAT_COMMANDS_FAILED) ||
	       (stat >= FAKERNIC_STAT_PAGE_REQUESTS &&
		stat <= FAKERNIC_STAT_PAGES_REFUSED);
}

/*
 * A ring and, behind it, its doorbell record, in memory of the kernel: one
 * physically contiguous piece, zeroed.
 */
struct fakernic_queue {
	void *ring;
	struct fakernic_queue_record *record;
	dma_addr_t dma;
	size_t size;			/* of all, in bytes */
	u32 mask;			/* entries - 1 */
	u8 log_depth;
	u8 log_stride;
};

/* A page list with the tables it needs, in memory the device can read. */
struct fakernic_page_table {
	void **page;			/* leaves first, then their parents */
	dma_addr_t *dma;
	u32 count;
	u32 leaf_count;
	u8 levels;
};

/* A command that waits for its completion; on the stack of who issued it. */
struct fakernic_cmd_wait {
	struct completion done;
	void *resp;
	u32 resp_size;
	u16 opcode;
	u8 status;
	u32 detail;
	int error;			/* the device died meanwhile */
};

struct fakernic_cmdq {
	struct fakernic_cmd *sq;
	struct fakernic_cmd_completion *cq;
	dma_addr_t sq_dma;
	dma_addr_t cq_dma;
	struct fakernic_cmd_wait **waiting;	/* by ring position */
	struct semaphore free;		/* entries not in flight */
	spinlock_t lock;		/* all below, both rings */
	u32 pi;
	u32 ci;
	u8 log_depth;
	bool dead;
};

struct fakernic_eq {
	struct fakernic_dev *dev;
	struct fakernic_queue queue;
	spinlock_t lock;		/* ci, and held while events are told */
	u32 eqn;
	u32 ci;
	u16 vector;
	bool live;			/* the device has it */
	char name[48];
};

struct fakernic_cq_hw;
struct fakernic_qp_hw;

/* A completion queue as the hardware knows it: of a net_device or an ib_cq. */
struct fakernic_cq_hw {
	struct fakernic_dev *dev;
	struct fakernic_eq *eq;
	struct fakernic_queue queue;	/* ring is NULL when it is a user's */
	u32 cqn;
	u32 ci;
	void (*complete)(struct fakernic_cq_hw *hw);	/* event: entries */
	void (*fail)(struct fakernic_cq_hw *hw);	/* event: CQ error */
};

/* A queue pair, or a work queue, whose number is one of theirs. */
struct fakernic_qp_hw {
	u32 qpn;
	void (*event)(struct fakernic_qp_hw *hw, u8 type, u32 data);
};

struct fakernic_ucontext {
	struct ib_ucontext ibucontext;
	struct rdma_user_mmap_entry *uar_entry;
	struct rdma_user_mmap_entry *clock_entry;
	u32 uar;
};

enum fakernic_mmap_type {
	FAKERNIC_MMAP_UAR,
	FAKERNIC_MMAP_CLOCK,		/* read-only */
	FAKERNIC_MMAP_DM,
};

struct fakernic_mmap_entry {
	struct rdma_user_mmap_entry rdma_entry;
	phys_addr_t address;
	enum fakernic_mmap_type type;
};

struct fakernic_dm {
	struct ib_dm ibdm;
	struct rdma_user_mmap_entry *entry;	/* holds the pages */
	u32 page;			/* the first, from that of all DM on */
};

struct fakernic_pd {
	struct ib_pd ibpd;
	u32 pdn;
};

struct fakernic_xrcd {
	struct ib_xrcd ibxrcd;
	u32 xrcdn;
};

struct fakernic_ah {
	struct ib_ah ibah;
	struct fakernic_av av;
};

struct fakernic_odp;

struct fakernic_mr {
	struct ib_mr ibmr;
	struct ib_umem *umem;		/* a user's, pinned */
	struct fakernic_odp *odp;	/* a user's, on demand */
	int access;			/* as asked for */
	u8 type;			/* enum fakernic_mr_type */
	struct fakernic_page_table table;	/* of a fast-registration MR */
	u32 page_count;			/* mapped by map_mr_sg */
	u32 max_pages;
};

/* All there is to it is its rkey. */
struct fakernic_mw {
	struct ib_mw ibmw;
};

struct fakernic_cq {
	struct ib_cq ibcq;
	struct fakernic_cq_hw hw;
	struct ib_umem *umem;		/* a user's */
	struct mutex resize_lock;	/* umem, a user's: calls may be many */
	u16 count;			/* moderation: entries for an event */
	u16 period_us;
	spinlock_t lock;		/* a kernel's: hw.ci, the lists */
	struct list_head send_qps;	/* kernel QPs that complete here */
	struct list_head recv_qps;
};

/* The kernel's side of a send queue. Positions are in basic blocks. */
struct fakernic_sq {
	struct fakernic_queue queue;
	spinlock_t lock;		/* pi and the ring */
	u32 pi;
	u32 ci;				/* writer: the holder of the CQ's lock */
	u64 *wr_id;			/* by position of the first block */
	u8 *bb_count;			/* likewise */
	u32 max_sge;
	u32 max_inline;
	bool signal_all;
};

/* The kernel's side of a receive queue; slots complete in order. */
struct fakernic_rq {
	struct fakernic_queue queue;
	spinlock_t lock;		/* pi and the ring */
	u32 pi;
	u32 ci;				/* writer: the holder of the CQ's lock */
	u64 *wr_id;
	u32 max_sge;
};

struct fakernic_qp {
	struct ib_qp ibqp;
	struct fakernic_qp_hw hw;
	struct fakernic_sq sq;
	struct fakernic_rq rq;
	struct ib_umem *sq_umem;	/* a user's */
	struct ib_umem *rq_umem;
	struct list_head send_node;	/* a kernel's: in fakernic_cq.send_qps */
	struct list_head recv_node;
	struct mutex lock;		/* state */
	enum ib_qp_state state;
	struct ib_qp_cap cap;		/* as asked for */
	u8 type;			/* enum fakernic_qp_type */
};

struct fakernic_srq {
	struct ib_srq ibsrq;
	struct fakernic_queue queue;
	struct ib_umem *umem;		/* a user's */
	struct mutex resize_lock;	/* umem, a user's: calls may be many */
	u32 srqn;
	u8 log_stride;			/* a user's */
	spinlock_t lock;		/* a kernel's: all below */
	u32 pi;
	u32 free_count;
	u16 *free;			/* stack of tags not in use */
	u64 *wr_id;			/* by tag */
	u32 max_sge;
};

/* A receive queue of a user, without a QP. */
struct fakernic_wq {
	struct ib_wq ibwq;
	struct fakernic_qp_hw hw;
	struct ib_umem *umem;
	struct mutex lock;		/* ibwq.state */
};

struct fakernic_ind_table {
	struct ib_rwq_ind_table ibtable;
	u32 id;
};

/* Device memory: BAR2 from first_page on, whole pages to users. */
struct fakernic_dm_pool {
	spinlock_t lock;		/* used */
	unsigned long *used;		/* a bit for each page */
	u32 first_page;			/* of BAR2 */
	u32 page_count;
};

/* What the driver keeps of the GID table, to follow a change of the MAC. */
struct fakernic_gid {
	u8 gid[16];
	u8 type;			/* enum fakernic_gid_type */
	u8 mac[ETH_ALEN];
	u16 vlan;
};

struct fakernic_dev {
	struct ib_device ibdev;
	struct pci_dev *pdev;
	struct net_device *netdev;
	void __iomem *regs;
	void __iomem *uar;		/* page 0 */
	phys_addr_t uar_address;	/* of page 0 */
	u64 features;
	u32 interface_version;
	u32 fw_version;
	u32 vector_count;		/* those we got */

	struct fakernic_cmdq cmdq;
	bool dead;			/* no answer is to be expected */
	bool fatal_told;		/* only fatal_work uses it */
	struct work_struct fatal_work;

	struct fakernic_eq *eqs;
	u32 eq_count;
	struct xarray cqs;		/* cqn -> struct fakernic_cq_hw */
	struct xarray qps;		/* qpn, wqn -> struct fakernic_qp_hw */
	struct xarray srqs;		/* srqn -> struct fakernic_srq */
	struct xarray counters;		/* id -> struct rdma_counter */
	struct xarray odps;		/* key -> struct fakernic_odp */
	struct mutex past_lock;		/* past, counters that go there */
	u64 past[FAKERNIC_PORT_STAT_COUNT];	/* of counters that were */
	atomic_t key_tag;		/* of the next memory key */

	struct fakernic_query_device_resp caps;
	struct fakernic_dm_pool dm;
	u64 wall_offset_ns;		/* Unix time - device clock */
	struct ptp_clock *ptp;		/* NULL: none */
	struct ptp_clock_info ptp_info;
	spinlock_t ptp_lock;		/* both halves of the clock */
	struct mutex gid_lock;		/* gids */
	struct fakernic_gid *gids;
	struct mutex port_lock;		/* all below, carrier, port events */
	bool netdev_registered;
	bool port_active;
	bool ib_registered;
	struct work_struct port_work;	/* the link changed */
	struct work_struct page_request_work;	/* the device wants pages */
};

/* What a user did wrong: told on request, and not without end. */
#define fakernic_dbg(dev, ...)						\
	ibdev_dbg_ratelimited(&(dev)->ibdev, __VA_ARGS__)

static inline struct fakernic_dev *to_fakernic_dev(struct ib_device *ibdev)
{
	return container_of(ibdev, struct fakernic_dev, ibdev);
}

static inline struct fakernic_ucontext *
to_fakernic_ucontext(struct ib_ucontext *ibucontext)
{
	return container_of(ibucontext, struct fakernic_ucontext, ibucontext);
}

static inline struct fakernic_pd *to_fakernic_pd(struct ib_pd *ibpd)
{
	return container_of(ibpd, struct fakernic_pd, ibpd);
}

static inline struct fakernic_xrcd *to_fakernic_xrcd(struct ib_xrcd *ibxrcd)
{
	return container_of(ibxrcd, struct fakernic_xrcd, ibxrcd);
}

static inline struct fakernic_ah *to_fakernic_ah(struct ib_ah *ibah)
{
	return container_of(ibah, struct fakernic_ah, ibah);
}

static inline struct fakernic_mr *to_fakernic_mr(struct ib_mr *ibmr)
{
	return container_of(ibmr, struct fakernic_mr, ibmr);
}

static inline struct fakernic_cq *to_fakernic_cq(struct ib_cq *ibcq)
{
	return container_of(ibcq, struct fakernic_cq, ibcq);
}

static inline struct fakernic_qp *to_fakernic_qp(struct ib_qp *ibqp)
{
	return container_of(ibqp, struct fakernic_qp, ibqp);
}

static inline struct fakernic_dm *to_fakernic_dm(struct ib_dm *ibdm)
{
	return container_of(ibdm, struct fakernic_dm, ibdm);
}

static inline struct fakernic_wq *to_fakernic_wq(struct ib_wq *ibwq)
{
	return container_of(ibwq, struct fakernic_wq, ibwq);
}

static inline struct fakernic_ind_table *
to_fakernic_ind_table(struct ib_rwq_ind_table *ibtable)
{
	return container_of(ibtable, struct fakernic_ind_table, ibtable);
}

static inline struct fakernic_srq *to_fakernic_srq(struct ib_srq *ibsrq)
{
	return container_of(ibsrq, struct fakernic_srq, ibsrq);
}

/* The UAR of a user object, or the kernel's. */
static inline u32 fakernic_udata_uar(struct ib_udata *udata)
{
	struct fakernic_ucontext *context =
		rdma_udata_to_drv_context(udata, struct fakernic_ucontext,
					  ibucontext);

	return context ? context->uar : FAKERNIC_KERNEL_UAR;
}

/* Entry number index, which runs freely, of a ring. */
static inline void *fakernic_queue_entry(const struct fakernic_queue *queue,
					 u32 index)
{
	return queue->ring + ((size_t)(index & queue->mask)
			      << queue->log_stride);
}

/*
 * Hands the entries before index to the device (SQ, RQ, SRQ), or the entries
 * before index back to it (CQ).
 */
static inline void fakernic_queue_publish(struct fakernic_queue *queue,
					  u32 index)
{
	/* The entries, or the reads of them, come before the index. */
	dma_mb();
	WRITE_ONCE(queue->record->index, cpu_to_le32(index));
}

/* writeq() orders it behind all stores to memory the device reads. */
static inline void fakernic_doorbell(struct fakernic_dev *dev, u32 doorbell,
				     u64 flags, u32 id, u32 index)
{
	writeq(flags | FAKERNIC_PUT(FAKERNIC_DOORBELL_ID, id) | index,
	       dev->uar + doorbell);
}

/* regs.c */
u32 fakernic_read(struct fakernic_dev *dev, u32 reg);
void fakernic_write(struct fakernic_dev *dev, u32 reg, u32 value);
int fakernic_check_device(struct fakernic_dev *dev);
int fakernic_negotiate(struct fakernic_dev *dev);
int fakernic_reset_device(struct fakernic_dev *dev);
void fakernic_stop_device(struct fakernic_dev *dev);
bool fakernic_is_gone(struct fakernic_dev *dev);

/* explain.c */
const char *fakernic_fatal_name(u32 code);
const char *fakernic_cmd_status_name(u8 status);
const char *fakernic_cmd_name(u16 opcode);
const char *fakernic_cmd_field(u16 opcode, u32 offset);
const char *fakernic_vendor_name(u32 code);

/* cmdq.c */
int fakernic_cmdq_init(struct fakernic_dev *dev);
void fakernic_cmdq_cleanup(struct fakernic_dev *dev);
int fakernic_cmdq_enable(struct fakernic_dev *dev);
void fakernic_cmdq_interrupt(struct fakernic_dev *dev);
bool fakernic_cmdq_end(struct fakernic_dev *dev);
void fakernic_cmdq_kill(struct fakernic_dev *dev);
int fakernic_cmdq_exec(struct fakernic_dev *dev, u16 opcode,
		       const void *req, u32 req_size,
		       void *resp, u32 resp_size);

/* cmd.c */
int fakernic_cmd_nop(struct fakernic_dev *dev);
int fakernic_cmd_query_device(struct fakernic_dev *dev,
			      struct fakernic_query_device_resp *resp);
int fakernic_cmd_query_port(struct fakernic_dev *dev,
			    struct fakernic_query_port_resp *resp);
int fakernic_cmd_set_port(struct fakernic_dev *dev,
			  const struct fakernic_set_port_req *req);
int fakernic_cmd_query_stats(struct fakernic_dev *dev, dma_addr_t dma,
			     u32 length);
int fakernic_cmd_query_counter(struct fakernic_dev *dev, u32 id,
			       dma_addr_t dma, u32 length);
int fakernic_cmd_set_qp_counter(struct fakernic_dev *dev, u32 qpn, u32 id);
int fakernic_cmd_set_gid(struct fakernic_dev *dev, u16 index,
			 const struct fakernic_gid *gid);
int fakernic_cmd_create_eq(struct fakernic_dev *dev,
			   const struct fakernic_create_eq_req *req, u32 *eqn);
int fakernic_cmd_create_cq(struct fakernic_dev *dev,
			   const struct fakernic_create_cq_req *req, u32 *cqn);
int fakernic_cmd_resize_cq(struct fakernic_dev *dev,
			   const struct fakernic_resize_cq_req *req);
int fakernic_cmd_modify_cq(struct fakernic_dev *dev, u32 cqn, u16 count,
			   u16 period_us);
int fakernic_cmd_create_mr(struct fakernic_dev *dev,
			   const struct fakernic_create_mr_req *req, u32 *key);
int fakernic_cmd_rereg_mr(struct fakernic_dev *dev,
			  const struct fakernic_rereg_mr_req *req, u32 *key);
int fakernic_cmd_query_page_requests(
	struct fakernic_dev *dev,
	struct fakernic_query_page_requests_resp *resp);
int fakernic_cmd_update_pages(struct fakernic_dev *dev,
			      const struct fakernic_update_pages_req *req);
int fakernic_cmd_create_mw(struct fakernic_dev *dev, u32 pdn, u8 type, u8 tag,
			   u32 *key);
int fakernic_cmd_create_qp(struct fakernic_dev *dev,
			   const struct fakernic_create_qp_req *req, u32 *qpn);
int fakernic_cmd_modify_qp(struct fakernic_dev *dev,
			   const struct fakernic_modify_qp_req *req);
int fakernic_cmd_query_qp(struct fakernic_dev *dev, u32 qpn,
			  struct fakernic_qp_attr *attr);
int fakernic_cmd_create_srq(struct fakernic_dev *dev,
			    const struct fakernic_create_srq_req *req,
			    u32 *srqn);
int fakernic_cmd_modify_srq(struct fakernic_dev *dev,
			    const struct fakernic_modify_srq_req *req);
int fakernic_cmd_query_srq(struct fakernic_dev *dev, u32 srqn,
			   struct fakernic_query_srq_resp *resp);
int fakernic_cmd_mcast(struct fakernic_dev *dev, u16 opcode,
		       const union ib_gid *gid, u32 qpn);
int fakernic_cmd_create_flow(struct fakernic_dev *dev,
			     const struct fakernic_create_flow_req *req,
			     u32 *id);
int fakernic_cmd_create_wq(struct fakernic_dev *dev,
			   const struct fakernic_create_wq_req *req, u32 *wqn);
int fakernic_cmd_modify_wq(struct fakernic_dev *dev, u32 wqn, u8 state);
int fakernic_cmd_create_ind_table(struct fakernic_dev *dev, dma_addr_t dma,
				  u8 log_size, u32 *id);
int fakernic_cmd_create_rss_qp(struct fakernic_dev *dev,
			       const struct fakernic_create_rss_qp_req *req,
			       u32 *qpn);
int fakernic_cmd_alloc(struct fakernic_dev *dev, u16 opcode, u32 *id);
int fakernic_cmd_free(struct fakernic_dev *dev, u16 opcode, u32 id);

/* pages.c */
int fakernic_queue_alloc(struct fakernic_dev *dev,
			 struct fakernic_queue *queue, u8 log_depth,
			 u8 log_stride);
void fakernic_queue_free(struct fakernic_dev *dev,
			 struct fakernic_queue *queue);
void fakernic_queue_reset(struct fakernic_queue *queue);
void fakernic_queue_pages(const struct fakernic_queue *queue,
			  struct fakernic_page_list *list);
int fakernic_page_table_alloc(struct fakernic_dev *dev,
			      struct fakernic_page_table *table,
			      size_t page_count);
void fakernic_page_table_free(struct fakernic_dev *dev,
			      struct fakernic_page_table *table);
void fakernic_page_table_set(struct fakernic_page_table *table, u32 index,
			     dma_addr_t page);
void fakernic_page_table_list(const struct fakernic_page_table *table,
			      u32 page_count, u8 page_shift,
			      struct fakernic_page_list *list);
int fakernic_umem_pages(struct fakernic_dev *dev, struct ib_umem *umem,
			unsigned long page_size,
			struct fakernic_page_table *table,
			struct fakernic_page_list *list);
struct ib_umem *fakernic_user_queue(struct fakernic_dev *dev, u64 va,
				    u8 log_depth, u8 log_stride,
				    struct fakernic_page_table *table,
				    struct fakernic_page_list *list);

/* eq.c */
int fakernic_eqs_init(struct fakernic_dev *dev);
void fakernic_eqs_silence(struct fakernic_dev *dev);
void fakernic_eqs_cleanup(struct fakernic_dev *dev);
int fakernic_eqs_create(struct fakernic_dev *dev);
void fakernic_eq_sync(struct fakernic_eq *eq);

/* netdev.c */
int fakernic_netdev_add(struct fakernic_dev *dev);
void fakernic_netdev_remove(struct fakernic_dev *dev);
void fakernic_netdev_free(struct fakernic_dev *dev);
void fakernic_port_changed(struct fakernic_dev *dev);

/* ptp.c */
void fakernic_ptp_add(struct fakernic_dev *dev);
void fakernic_ptp_remove(struct fakernic_dev *dev);

/* device.c */
int fakernic_ib_add(struct fakernic_dev *dev);
void fakernic_ib_remove(struct fakernic_dev *dev);
void fakernic_dispatch_port(struct fakernic_dev *dev, bool active);

/* gid.c */
int fakernic_add_gid(const struct ib_gid_attr *attr, void **context);
int fakernic_del_gid(const struct ib_gid_attr *attr, void **context);
void fakernic_gids_follow_mac(struct fakernic_dev *dev, const u8 *old,
			      const u8 *mac);

/* stats.c */
extern const char *const fakernic_stat_names[];
int fakernic_read_stats(struct fakernic_dev *dev, u32 counter_id, u64 *values);
struct rdma_hw_stats *fakernic_alloc_hw_port_stats(struct ib_device *ibdev,
						   u32 port);
struct rdma_hw_stats *fakernic_alloc_hw_device_stats(struct ib_device *ibdev);
int fakernic_get_hw_stats(struct ib_device *ibdev, struct rdma_hw_stats *stats,
			  u32 port, int index);

/* pma.c */
int fakernic_process_mad(struct ib_device *ibdev, int flags, u32 port,
			 const struct ib_wc *wc, const struct ib_grh *grh,
			 const struct ib_mad *in, struct ib_mad *out,
			 size_t *out_size, u16 *out_pkey_index);

/* counter.c */
struct rdma_hw_stats *
fakernic_counter_alloc_stats(struct rdma_counter *counter);
int fakernic_counter_bind_qp(struct rdma_counter *counter, struct ib_qp *ibqp);
int fakernic_counter_unbind_qp(struct ib_qp *ibqp);
int fakernic_counter_update_stats(struct rdma_counter *counter);
int fakernic_counter_dealloc(struct rdma_counter *counter);
int fakernic_subtract_counters(struct fakernic_dev *dev, u64 *values);

/* ucontext.c */
int fakernic_alloc_ucontext(struct ib_ucontext *ibucontext,
			    struct ib_udata *udata);
void fakernic_dealloc_ucontext(struct ib_ucontext *ibucontext);
int fakernic_query_ucontext(struct ib_ucontext *ibucontext,
			    struct uverbs_attr_bundle *attrs);
extern const struct uapi_definition fakernic_uapi_defs[];
struct rdma_user_mmap_entry *
fakernic_mmap_insert(struct fakernic_ucontext *context,
		     enum fakernic_mmap_type type, phys_addr_t address,
		     u32 page_count);
int fakernic_mmap(struct ib_ucontext *ibucontext, struct vm_area_struct *vma);
void fakernic_mmap_free(struct rdma_user_mmap_entry *rdma_entry);
void fakernic_disassociate_ucontext(struct ib_ucontext *ibucontext);
int fakernic_copy_ureq(struct fakernic_dev *dev, void *ureq, size_t size,
		       struct ib_udata *udata);
int fakernic_check_no_ureq(struct fakernic_dev *dev, struct ib_udata *udata);

/* pd.c */
int fakernic_alloc_pd(struct ib_pd *ibpd, struct ib_udata *udata);
int fakernic_dealloc_pd(struct ib_pd *ibpd, struct ib_udata *udata);
int fakernic_alloc_xrcd(struct ib_xrcd *ibxrcd, struct ib_udata *udata);
int fakernic_dealloc_xrcd(struct ib_xrcd *ibxrcd, struct ib_udata *udata);

/* ah.c */
void fakernic_fill_av(struct fakernic_av *av, const struct rdma_ah_attr *attr);
void fakernic_read_av(struct fakernic_dev *dev, const struct fakernic_av *av,
		      struct rdma_ah_attr *attr);
int fakernic_create_ah(struct ib_ah *ibah, struct rdma_ah_init_attr *init,
		       struct ib_udata *udata);
int fakernic_query_ah(struct ib_ah *ibah, struct rdma_ah_attr *attr);
int fakernic_destroy_ah(struct ib_ah *ibah, u32 flags);

/* dm.c */
int fakernic_dm_init(struct fakernic_dev *dev);
void fakernic_dm_cleanup(struct fakernic_dev *dev);
void fakernic_dm_give_back(struct fakernic_dev *dev, phys_addr_t address,
			   u32 count);
struct ib_dm *fakernic_alloc_dm(struct ib_device *ibdev,
				struct ib_ucontext *ibucontext,
				struct ib_dm_alloc_attr *attr,
				struct uverbs_attr_bundle *attrs);
int fakernic_dealloc_dm(struct ib_dm *ibdm, struct uverbs_attr_bundle *attrs);
struct ib_mr *fakernic_reg_dm_mr(struct ib_pd *ibpd, struct ib_dm *ibdm,
				 struct ib_dm_mr_attr *attr,
				 struct uverbs_attr_bundle *attrs);
extern const struct uapi_definition fakernic_dm_defs[];

/* mr.c */
struct ib_mr *fakernic_make_mr(struct ib_pd *ibpd,
			       struct fakernic_create_mr_req *req, int access);
struct ib_mr *fakernic_reg_user_mr_dmabuf(struct ib_pd *ibpd, u64 offset,
					  u64 length, u64 iova, int fd,
					  int access,
					  FAKERNIC_DMABUF_ARG *arg);
struct ib_mr *fakernic_get_dma_mr(struct ib_pd *ibpd, int access);
struct ib_mr *fakernic_reg_user_mr(struct ib_pd *ibpd, u64 start, u64 length,
				   u64 iova, int access,
				   struct ib_udata *udata);
struct ib_mr *fakernic_alloc_mr(struct ib_pd *ibpd, enum ib_mr_type type,
				u32 max_num_sg);
int fakernic_map_mr_sg(struct ib_mr *ibmr, struct scatterlist *sg, int count,
		       unsigned int *offset);
int fakernic_dereg_mr(struct ib_mr *ibmr, struct ib_udata *udata);
struct ib_mr *fakernic_rereg_user_mr(struct ib_mr *ibmr, int flags, u64 start,
				     u64 length, u64 iova, int access,
				     struct ib_pd *ibpd,
				     struct ib_udata *udata);

/* odp.c */
#ifdef CONFIG_INFINIBAND_ON_DEMAND_PAGING
void fakernic_page_request_work(struct work_struct *work);
struct ib_mr *fakernic_reg_odp_mr(struct ib_pd *ibpd, u64 start, u64 length,
				  u64 iova, int access);
void fakernic_odp_stop(struct fakernic_odp *odp);
void fakernic_odp_resume(struct fakernic_odp *odp);
void fakernic_odp_free(struct fakernic_odp *odp);
u64 fakernic_odp_start(const struct fakernic_odp *odp);
extern const struct ib_device_ops fakernic_odp_ops;
#else
static inline void fakernic_page_request_work(struct work_struct *work)
{
}

static inline struct ib_mr *fakernic_reg_odp_mr(struct ib_pd *ibpd, u64 start,
						u64 length, u64 iova,
						int access)
{
	return ERR_PTR(-EOPNOTSUPP);
}

static inline void fakernic_odp_stop(struct fakernic_odp *odp)
{
}

static inline void fakernic_odp_resume(struct fakernic_odp *odp)
{
}

static inline void fakernic_odp_free(struct fakernic_odp *odp)
{
}

static inline u64 fakernic_odp_start(const struct fakernic_odp *odp)
{
	return 0;
}
#endif

/* mw.c */
int fakernic_alloc_mw(struct ib_mw *ibmw, struct ib_udata *udata);
int fakernic_dealloc_mw(struct ib_mw *ibmw);

/* cq.c */
void fakernic_cqs_kick(struct fakernic_dev *dev);
int fakernic_cq_hw_create(struct fakernic_dev *dev, struct fakernic_cq_hw *hw,
			  struct fakernic_create_cq_req *req, u32 comp_vector);
int fakernic_cq_hw_destroy(struct fakernic_cq_hw *hw);
struct fakernic_cqe *fakernic_cq_hw_next(struct fakernic_cq_hw *hw);
void fakernic_cq_hw_arm(struct fakernic_cq_hw *hw, bool solicited);
void fakernic_cq_clean(struct fakernic_cq *cq, struct fakernic_qp *qp);
int fakernic_create_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
		       FAKERNIC_CREATE_CQ_ARG *arg);
int fakernic_destroy_cq(struct ib_cq *ibcq, struct ib_udata *udata);
int fakernic_modify_cq(struct ib_cq *ibcq, u16 count, u16 period_us);
int fakernic_resize_cq(struct ib_cq *ibcq, int cqe, struct ib_udata *udata);
int fakernic_poll_cq(struct ib_cq *ibcq, int count, struct ib_wc *wc);
int fakernic_req_notify_cq(struct ib_cq *ibcq, enum ib_cq_notify_flags flags);

/* qp.c */
int fakernic_qp_hw_create(struct fakernic_dev *dev, struct fakernic_qp_hw *hw,
			  const struct fakernic_create_qp_req *req);
int fakernic_qp_hw_destroy(struct fakernic_dev *dev,
			   struct fakernic_qp_hw *hw);
int fakernic_qp_hw_enter(struct fakernic_dev *dev, struct fakernic_qp_hw *hw,
			 u16 destroy_opcode);
int fakernic_qp_hw_leave(struct fakernic_dev *dev, struct fakernic_qp_hw *hw,
			 u16 destroy_opcode);
int fakernic_qp_hw_set_state(struct fakernic_dev *dev,
			     struct fakernic_qp_hw *hw,
			     enum fakernic_qp_state state);
struct fakernic_qp *fakernic_qp_of(struct fakernic_dev *dev, u32 qpn);
int fakernic_create_qp(struct ib_qp *ibqp, struct ib_qp_init_attr *attr,
		       struct ib_udata *udata);
int fakernic_modify_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		       struct ib_udata *udata);
int fakernic_query_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		      struct ib_qp_init_attr *init);
int fakernic_destroy_qp(struct ib_qp *ibqp, struct ib_udata *udata);

/* srq.c */
int fakernic_create_srq(struct ib_srq *ibsrq, struct ib_srq_init_attr *attr,
			struct ib_udata *udata);
int fakernic_modify_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr,
			enum ib_srq_attr_mask mask, struct ib_udata *udata);
int fakernic_query_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr);
int fakernic_destroy_srq(struct ib_srq *ibsrq, struct ib_udata *udata);
int fakernic_post_srq_recv(struct ib_srq *ibsrq, const struct ib_recv_wr *wr,
			   const struct ib_recv_wr **bad_wr);
u64 fakernic_srq_complete(struct fakernic_srq *srq, u32 tag);
void fakernic_srq_event(struct fakernic_srq *srq, u8 type, u32 data);

/* sq.c */
void fakernic_sq_write(struct fakernic_queue *queue, u32 pi, const void *wqe,
		       u32 bb_count);
u32 fakernic_sq_wqe_size(u8 type, u32 max_sge, u32 max_inline);
int fakernic_post_send(struct ib_qp *ibqp, const struct ib_send_wr *wr,
		       const struct ib_send_wr **bad_wr);
bool fakernic_sq_flush_one(struct fakernic_qp *qp, struct ib_wc *wc);

/* rq.c */
void fakernic_rq_write(struct fakernic_queue *queue, u32 pi, u32 tag,
		       const struct ib_sge *sge, u32 count);
int fakernic_post_recv(struct ib_qp *ibqp, const struct ib_recv_wr *wr,
		       const struct ib_recv_wr **bad_wr);
bool fakernic_rq_flush_one(struct fakernic_qp *qp, struct ib_wc *wc);

/* wq.c */
struct ib_wq *fakernic_create_wq(struct ib_pd *ibpd,
				 struct ib_wq_init_attr *attr,
				 struct ib_udata *udata);
int fakernic_modify_wq(struct ib_wq *ibwq, struct ib_wq_attr *attr, u32 mask,
		       struct ib_udata *udata);
int fakernic_destroy_wq(struct ib_wq *ibwq, struct ib_udata *udata);
int fakernic_create_ind_table(struct ib_rwq_ind_table *ibtable,
			      struct ib_rwq_ind_table_init_attr *attr,
			      struct ib_udata *udata);
int fakernic_destroy_ind_table(struct ib_rwq_ind_table *ibtable);
int fakernic_create_rss_qp(struct fakernic_dev *dev, struct fakernic_qp *qp,
			   const struct ib_qp_init_attr *attr,
			   struct ib_udata *udata);

/* flow.c */
struct ib_flow *fakernic_create_flow(struct ib_qp *ibqp,
				     struct ib_flow_attr *attr,
				     struct ib_udata *udata);
int fakernic_destroy_flow(struct ib_flow *ibflow);

/* res.c */
int fakernic_fill_res_qp(struct sk_buff *msg, struct ib_qp *ibqp);
int fakernic_fill_res_cq(struct sk_buff *msg, struct ib_cq *ibcq);
int fakernic_fill_res_mr(struct sk_buff *msg, struct ib_mr *ibmr);
int fakernic_fill_res_srq(struct sk_buff *msg, struct ib_srq *ibsrq);

/* mcast.c */
int fakernic_attach_mcast(struct ib_qp *ibqp, union ib_gid *gid, u16 lid);
int fakernic_detach_mcast(struct ib_qp *ibqp, union ib_gid *gid, u16 lid);

#endif
