/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * One function per command. Structures are those of the hardware interface
 * (fakernic/cmdq.h), which the caller fills in; what comes back is in the CPU's
 * byte order unless it is such a structure. All sleep, and fail as
 * fakernic_cmdq_exec() does; results are set on success only.
 */
#ifndef FAKERNIC_DRIVER_CMD_H
#define FAKERNIC_DRIVER_CMD_H

#include <linux/types.h>
#include <fakernic/cmdq.h>
#include <fakernic/qp.h>
#include <fakernic/wq.h>

struct fakernic_dev;
struct fakernic_gid;
union ib_gid;

/* -EIO also when the answer does not echo what was sent. */
int fakernic_cmd_nop(struct fakernic_dev *dev);

/* Does it execute commands? As fakernic_cmdq_ask(). */
int fakernic_cmd_ask_nop(struct fakernic_dev *dev);

/* Limits and sizes: the same until the next reset. */
int fakernic_cmd_query_device(struct fakernic_dev *dev,
			      struct fakernic_query_device_resp *resp);

/* Link, speed, MTU and the counter of bad P_Keys, as of now. */
int fakernic_cmd_query_port(struct fakernic_dev *dev,
			    struct fakernic_query_port_resp *resp);

/* Likewise, as fakernic_cmdq_ask(). */
int fakernic_cmd_ask_port(struct fakernic_dev *dev,
			  struct fakernic_query_port_resp *resp);

/* Sets what req's mask names; all of it, or nothing. */
int fakernic_cmd_set_port(struct fakernic_dev *dev,
			  const struct fakernic_set_port_req *req);

/*
 * The device writes its counters (counter_id 0), __le64 each, to length bytes
 * at dma; or those of the set with that number. ask: as fakernic_cmdq_ask().
 * Returns how many counters it has, which may be more than fit, or an error.
 */
int fakernic_cmd_query_stats(struct fakernic_dev *dev, u32 counter_id,
			     dma_addr_t dma, u32 length, bool ask);

/* Binds a set of counters to a QP; id 0: none. */
int fakernic_cmd_set_qp_counter(struct fakernic_dev *dev, u32 qpn, u32 id);

/* index < caps.gid_count; a gid of type FAKERNIC_GID_NONE clears the entry. */
int fakernic_cmd_set_gid(struct fakernic_dev *dev, u16 index,
			 const struct fakernic_gid *gid);

/* eqn is the number of the new EQ. Its vector must be enabled. */
int fakernic_cmd_create_eq(struct fakernic_dev *dev,
			   const struct fakernic_create_eq_req *req, u32 *eqn);

/* cqn is the number of the new CQ, which is not armed. */
int fakernic_cmd_create_cq(struct fakernic_dev *dev,
			   const struct fakernic_create_cq_req *req, u32 *cqn);

/*
 * On return the device writes to the new ring only; entries have moved
 * there.
 */
int fakernic_cmd_resize_cq(struct fakernic_dev *dev,
			   const struct fakernic_resize_cq_req *req);

/* Moderation: an event for count entries, or period_us after the first. */
int fakernic_cmd_modify_cq(struct fakernic_dev *dev, u32 cqn, u16 count,
			   u16 period_us);

/* key is the lkey and the rkey of the new region; its low byte is req's tag. */
int fakernic_cmd_create_mr(struct fakernic_dev *dev,
			   const struct fakernic_create_mr_req *req, u32 *key);

/* key replaces the old one. After an error the region is as it was. */
int fakernic_cmd_rereg_mr(struct fakernic_dev *dev,
			  const struct fakernic_rereg_mr_req *req, u32 *key);

/* What the device waits for now: at most FAKERNIC_PAGE_REQUESTS_MAX ranges. */
int fakernic_cmd_page_requests(struct fakernic_dev *dev,
			       struct fakernic_query_page_requests_resp *resp);

/*
 * When it has returned, the device does not touch pages that were said to be
 * ABSENT. May be used in the reclaim of memory.
 */
int fakernic_cmd_update_pages(struct fakernic_dev *dev,
			      const struct fakernic_update_pages_req *req);

/* type: FAKERNIC_MW_TYPE_*; tag: the low byte of the key. */
int fakernic_cmd_create_mw(struct fakernic_dev *dev, u32 pdn, u8 type, u8 tag,
			   u32 *key);

/* qpn is the number of the new QP, which is in RESET. */
int fakernic_cmd_create_qp(struct fakernic_dev *dev,
			   const struct fakernic_create_qp_req *req, u32 *qpn);

/* The device itself judges the change of state and every attribute. */
int fakernic_cmd_modify_qp(struct fakernic_dev *dev,
			   const struct fakernic_modify_qp_req *req);

/* All attributes, as the device has them now. */
int fakernic_cmd_query_qp(struct fakernic_dev *dev, u32 qpn,
			  struct fakernic_qp_attr *attr);

/* qpn is the number of the new QP, which receives from the start. */
int fakernic_cmd_create_rss_qp(struct fakernic_dev *dev,
			       const struct fakernic_create_rss_qp_req *req,
			       u32 *qpn);

/* srqn is the number of the new SRQ. */
int fakernic_cmd_create_srq(struct fakernic_dev *dev,
			    const struct fakernic_create_srq_req *req,
			    u32 *srqn);

/*
 * Sets limit or ring, as req's mask says. On return the old ring is not
 * used.
 */
int fakernic_cmd_modify_srq(struct fakernic_dev *dev,
			    const struct fakernic_modify_srq_req *req);

/* Depth and limit. */
int fakernic_cmd_query_srq(struct fakernic_dev *dev, u32 srqn,
			   struct fakernic_query_srq_resp *resp);

/*
 * opcode: FAKERNIC_CMD_ATTACH_MCAST or _DETACH_MCAST. Detaching succeeds on a
 * dead device.
 */
int fakernic_cmd_mcast(struct fakernic_dev *dev, u16 opcode,
		       const union ib_gid *gid, u32 qpn);

/* id is the number of the new rule. -EINVAL: the QP is not a raw-packet one. */
int fakernic_cmd_create_flow(struct fakernic_dev *dev,
			     const struct fakernic_create_flow_req *req,
			     u32 *id);

/* wqn is the number of the new WQ, which is in RESET. */
int fakernic_cmd_create_wq(struct fakernic_dev *dev,
			   const struct fakernic_create_wq_req *req, u32 *wqn);

/* state: enum fakernic_wq_state. */
int fakernic_cmd_modify_wq(struct fakernic_dev *dev, u32 wqn, u8 state);

/* The table: 1 << log_size numbers of WQs, __le32 each, at dma. */
int fakernic_cmd_create_ind_table(struct fakernic_dev *dev, dma_addr_t dma,
				  u8 log_size, u32 *id);

/* Fault rules, in words. -EINVAL: the device does not take them. */
int fakernic_cmd_fault(struct fakernic_dev *dev, const char *rules);

/*
 * The text of DUMP from byte req's first on, in the memory that it names: how
 * many bytes were written, and in *size how long all of it is.
 */
int fakernic_cmd_dump(struct fakernic_dev *dev,
		      const struct fakernic_dump_req *req, u32 *size);

/* ALLOC_PD, _XRCD, _UAR and CREATE_COUNTER: the answer is a number. */
int fakernic_cmd_alloc(struct fakernic_dev *dev, u16 opcode, u32 *id);

/*
 * DEALLOC_* and DESTROY_* of the object with that number. -EBUSY: others use
 * it, such as windows a region. Succeeds on a dead device, which has forgotten
 * all its objects: otherwise nothing could be torn down any more. A device
 * that refuses for another reason dies: nobody can keep for it what it could
 * still write to.
 */
int fakernic_cmd_free(struct fakernic_dev *dev, u16 opcode, u32 id);

/* The same of one that nobody uses, so a device that says so dies, too. */
void fakernic_cmd_drop(struct fakernic_dev *dev, u16 opcode, u32 id);

#endif
