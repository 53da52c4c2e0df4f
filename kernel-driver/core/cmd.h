/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * One function per command. The caller fills in structures of the hardware
 * interface (fakernic/cmdq.h). Results outside of such structures are in CPU
 * byte order and set on success only. All functions sleep and return the errors
 * of fakernic_cmdq_exec().
 */
#ifndef FAKERNIC_DRIVER_CMD_H
#define FAKERNIC_DRIVER_CMD_H

#include <linux/types.h>
#include <fakernic/cmdq.h>
#include <fakernic/qp.h>
#include <fakernic/vport.h>
#include <fakernic/wq.h>

struct fakernic_dev;
struct fakernic_gid;
union ib_gid;

/* Also returns -EIO if the response does not echo the request. */
int fakernic_cmd_nop(struct fakernic_dev *dev);

/* Checks that the device executes commands. As fakernic_cmdq_query(). */
int fakernic_cmd_ping(struct fakernic_dev *dev);

/* Limits and sizes, which are constant until the next reset. */
int fakernic_cmd_query_device(struct fakernic_dev *dev,
			      struct fakernic_query_device_resp *resp);

/* Current link state, speed, MTU and counter of bad P_Keys. */
int fakernic_cmd_query_port(struct fakernic_dev *dev,
			    struct fakernic_query_port_resp *resp);

/* The same, with the time limit of fakernic_cmdq_query(). */
int fakernic_cmd_query_port_timed(struct fakernic_dev *dev,
				  struct fakernic_query_port_resp *resp);

/* Sets the fields that req's mask names: all of them, or none on error. */
int fakernic_cmd_set_port(struct fakernic_dev *dev,
			  const struct fakernic_set_port_req *req);

/*
 * Has the device write counters, __le64 each, to length bytes at dma: its own
 * (counter_id 0) or those of a counter set. timed: as fakernic_cmdq_query().
 * Returns the number of counters, which may exceed what fits, or an error.
 */
int fakernic_cmd_query_stats(struct fakernic_dev *dev, u32 counter_id,
			     dma_addr_t dma, u32 length, bool timed);

/* Binds a counter set to a QP; id 0 unbinds. */
int fakernic_cmd_set_qp_counter(struct fakernic_dev *dev, u32 qpn, u32 id);

/* index < caps.gid_count; a gid of type FAKERNIC_GID_NONE clears the entry. */
int fakernic_cmd_set_gid(struct fakernic_dev *dev, u16 index,
			 const struct fakernic_gid *gid);

/* Sets the fields that req's mask names: all of them, or none on error. */
int fakernic_cmd_set_vport(struct fakernic_dev *dev,
			   const struct fakernic_set_vport_req *req);

/* Makes the device write counters of vports. As fakernic_cmdq_query(). */
int fakernic_cmd_vport_stats(struct fakernic_dev *dev,
			     const struct fakernic_query_vport_stats_req *req);

/* Returns the new EQ's number in eqn. Its vector must be enabled. */
int fakernic_cmd_create_eq(struct fakernic_dev *dev,
			   const struct fakernic_create_eq_req *req, u32 *eqn);

/* Returns the new CQ's number in cqn. The CQ is not armed. */
int fakernic_cmd_create_cq(struct fakernic_dev *dev,
			   const struct fakernic_create_cq_req *req, u32 *cqn);

/* Moves the CQEs. On return the device writes only to the new ring. */
int fakernic_cmd_resize_cq(struct fakernic_dev *dev,
			   const struct fakernic_resize_cq_req *req);

/* Moderation: one event per count CQEs, or period_us after the first CQE. */
int fakernic_cmd_modify_cq(struct fakernic_dev *dev, u32 cqn, u16 count,
			   u16 period_us);

/* Returns the new region's lkey and rkey in key; its low byte is req's tag. */
int fakernic_cmd_create_mr(struct fakernic_dev *dev,
			   const struct fakernic_create_mr_req *req, u32 *key);

/* Returns the new key, which replaces the old one. No change on error. */
int fakernic_cmd_rereg_mr(struct fakernic_dev *dev,
			  const struct fakernic_rereg_mr_req *req, u32 *key);

/*
 * Returns the ranges of pages that the device waits for: at most
 * FAKERNIC_PAGE_REQUESTS_MAX.
 */
int fakernic_cmd_page_requests(struct fakernic_dev *dev,
			       struct fakernic_query_page_requests_resp *resp);

/*
 * On return the device does not access pages that were marked ABSENT. May be
 * called in memory reclaim.
 */
int fakernic_cmd_update_pages(struct fakernic_dev *dev,
			      const struct fakernic_update_pages_req *req);

/* type: FAKERNIC_MW_TYPE_*; tag: the low byte of the key. */
int fakernic_cmd_create_mw(struct fakernic_dev *dev, u32 pdn, u8 type, u8 tag,
			   u32 *key);

/* Returns the new QP's number in qpn. The QP is in RESET. */
int fakernic_cmd_create_qp(struct fakernic_dev *dev,
			   const struct fakernic_create_qp_req *req, u32 *qpn);

/* The device checks the state transition and every attribute. */
int fakernic_cmd_modify_qp(struct fakernic_dev *dev,
			   const struct fakernic_modify_qp_req *req);

/* Returns the current values of all attributes. */
int fakernic_cmd_query_qp(struct fakernic_dev *dev, u32 qpn,
			  struct fakernic_qp_attr *attr);

/* Returns the new QP's number in qpn. The QP receives at once. */
int fakernic_cmd_create_rss_qp(struct fakernic_dev *dev,
			       const struct fakernic_create_rss_qp_req *req,
			       u32 *qpn);

/* Returns the new SRQ's number in srqn. */
int fakernic_cmd_create_srq(struct fakernic_dev *dev,
			    const struct fakernic_create_srq_req *req,
			    u32 *srqn);

/* Sets limit or ring as in req's mask. On return the old ring is unused. */
int fakernic_cmd_modify_srq(struct fakernic_dev *dev,
			    const struct fakernic_modify_srq_req *req);

/* Returns the SRQ's depth and limit. */
int fakernic_cmd_query_srq(struct fakernic_dev *dev, u32 srqn,
			   struct fakernic_query_srq_resp *resp);

/*
 * opcode: FAKERNIC_CMD_ATTACH_MCAST or _DETACH_MCAST. Detaching succeeds on a
 * dead device.
 */
int fakernic_cmd_mcast(struct fakernic_dev *dev, u16 opcode,
		       const union ib_gid *gid, u32 qpn);

/* Returns the new rule's number in id. -EINVAL: not a raw-packet QP. */
int fakernic_cmd_create_flow(struct fakernic_dev *dev,
			     const struct fakernic_create_flow_req *req,
			     u32 *id);

/* Returns the new WQ's number in wqn. The WQ is in RESET. */
int fakernic_cmd_create_wq(struct fakernic_dev *dev,
			   const struct fakernic_create_wq_req *req, u32 *wqn);

/* state: enum fakernic_wq_state. */
int fakernic_cmd_modify_wq(struct fakernic_dev *dev, u32 wqn, u8 state);

/* Creates a table from 1 << log_size WQ numbers, __le32 each, at dma. */
int fakernic_cmd_create_ind_table(struct fakernic_dev *dev, dma_addr_t dma,
				  u8 log_size, u32 *id);

/* Adds or removes fault rules in text form. -EINVAL: rejected. */
int fakernic_cmd_fault(struct fakernic_dev *dev, const char *rules);

/*
 * Has the device write the DUMP text, from byte req->first on, to the memory
 * that req names. Returns the bytes written; *size is the text's full length.
 */
int fakernic_cmd_dump(struct fakernic_dev *dev,
		      const struct fakernic_dump_req *req, u32 *size);

/* ALLOC_PD, _XRCD, _UAR and CREATE_COUNTER: commands that return a number. */
int fakernic_cmd_alloc(struct fakernic_dev *dev, u16 opcode, u32 *id);

/*
 * DEALLOC_* and DESTROY_* of an object. Returns -EBUSY if another object uses
 * it, for example a window a region. Succeeds on a dead device, which has lost
 * all its objects, so that the driver can clean up. If the device refuses for
 * any other reason, the driver kills it: it might still write to memory that
 * the caller frees.
 */
int fakernic_cmd_free(struct fakernic_dev *dev, u16 opcode, u32 id);

/* The same for an object that is not in use: -EBUSY also kills the device. */
void fakernic_cmd_drop(struct fakernic_dev *dev, u16 opcode, u32 id);

#endif
