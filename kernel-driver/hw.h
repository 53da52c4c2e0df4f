/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * CQs, QPs, WQs, SRQs and memory keys as the device knows them, for verbs and
 * the net_device alike. Whoever needs one embeds the structure, sets its
 * function pointers, and creates it; from then on events reach it.
 *
 * The function pointers are called under the lock of an EQ, with interrupts
 * off: they must not sleep, and nothing in this file may be called from them.
 *
 * Create functions return 0 with the number set; on an error there is nothing
 * to destroy. After a successful destroy neither the device nor an interrupt
 * touches the object or its memory. Destroy fails with -EBUSY while the device
 * has it in use, and then it goes on as before; on a dead device it succeeds.
 * Drop is for an owner who cannot keep it: a device that does not let it go is
 * stopped, as if it had died.
 */
#ifndef FAKERNIC_DRIVER_HW_H
#define FAKERNIC_DRIVER_HW_H

#include <linux/types.h>
#include <fakernic/cmdq.h>
#include <fakernic/cq.h>
#include <fakernic/qp.h>
#include <fakernic/wq.h>
#include "eq.h"
#include "queue.h"

struct fakernic_dev;
struct fakernic_qp;

struct fakernic_cq_hw {
	struct fakernic_dev *dev;
	struct fakernic_eq *eq;
	struct fakernic_queue queue;	/* ring is NULL when it is a user's */
	u32 cqn;
	u32 ci;				/* its owner's, who locks it */
	void (*complete)(struct fakernic_cq_hw *hw);	/* event: entries */
	void (*fail)(struct fakernic_cq_hw *hw);	/* event: CQ error */
};

/* A queue pair, or a work queue, whose number is one of theirs. */
struct fakernic_qp_hw {
	u32 qpn;
	struct fakernic_qp *qp;		/* NULL: not of verbs, or a WQ */
	/* type: FAKERNIC_EVENT_*, data: FAKERNIC_VENDOR_* */
	void (*event)(struct fakernic_qp_hw *hw, u8 type, u32 data);
};

struct fakernic_srq_hw {
	u32 srqn;
	/* type: FAKERNIC_EVENT_SRQ_*, data: FAKERNIC_VENDOR_* */
	void (*event)(struct fakernic_srq_hw *hw, u8 type, u32 data);
};

/*
 * comp_vector: any number; the completion EQs take turns. The caller has filled
 * in all of req but the EQ, and hw's queue if it is the kernel's.
 */
int fakernic_cq_hw_create(struct fakernic_dev *dev, struct fakernic_cq_hw *hw,
			  struct fakernic_create_cq_req *req, u32 comp_vector);

/* No QP, WQ or SRQ completes there. The ring is the caller's to free. */
void fakernic_cq_hw_drop(struct fakernic_cq_hw *hw);

/*
 * Visits each CQ, as an event would: under its EQ's lock, in softirq-off
 * context. None is destroyed while it is visited. May sleep between visits.
 */
void fakernic_cq_hw_for_each(struct fakernic_dev *dev,
			     void (*visit)(struct fakernic_cq_hw *hw));

/*
 * Copies the entry at index ci of a kernel's CQ. False: not written yet. The
 * caller has the CQ to itself; in any context.
 */
bool fakernic_cq_hw_peek(const struct fakernic_cq_hw *hw, u32 ci,
			 struct fakernic_cqe *cqe);

/* The entry at index ci names no QP any more. Likewise. */
void fakernic_cq_hw_void(struct fakernic_cq_hw *hw, u32 ci);

/*
 * Asks for one event, for the next entry behind the consumer index, which may
 * be there already; solicited: only for a solicited one or an error. In any
 * context.
 */
void fakernic_cq_hw_arm(struct fakernic_cq_hw *hw, bool solicited);

/* A QP in RESET. The caller has filled in all of req. */
int fakernic_qp_hw_create(struct fakernic_dev *dev, struct fakernic_qp_hw *hw,
			  const struct fakernic_create_qp_req *req);

/* An RSS QP, which receives from the start. Likewise. */
int fakernic_rss_qp_hw_create(struct fakernic_dev *dev,
			      struct fakernic_qp_hw *hw,
			      const struct fakernic_create_rss_qp_req *req);

/* Both kinds; no flow rule names it. */
void fakernic_qp_hw_drop(struct fakernic_dev *dev, struct fakernic_qp_hw *hw);

/*
 * Moves it to the state and sets no more than a raw-packet QP needs on its way
 * from RESET by INIT and RTR to RTS.
 */
int fakernic_qp_hw_set_state(struct fakernic_dev *dev,
			     struct fakernic_qp_hw *hw,
			     enum fakernic_qp_state state);

/* A WQ in RESET; hw->qpn is its number. */
int fakernic_wq_hw_create(struct fakernic_dev *dev, struct fakernic_qp_hw *hw,
			  const struct fakernic_create_wq_req *req);

/* No table names it. */
void fakernic_wq_hw_drop(struct fakernic_dev *dev, struct fakernic_qp_hw *hw);

/* The caller has filled in all of req. */
int fakernic_srq_hw_create(struct fakernic_dev *dev,
			   struct fakernic_srq_hw *hw,
			   const struct fakernic_create_srq_req *req);

/* Nothing receives from it. */
void fakernic_srq_hw_drop(struct fakernic_dev *dev, struct fakernic_srq_hw *hw);

/*
 * A region's key, which is both its lkey and its rkey; the low byte of a new
 * key is chosen here. Destroy: -EBUSY while windows are bound to the region.
 */
int fakernic_mr_hw_create(struct fakernic_dev *dev,
			  struct fakernic_create_mr_req *req, u32 *key);

/*
 * The key is worth nothing any more. -EBUSY while windows are bound to the
 * region.
 */
int fakernic_mr_hw_destroy(struct fakernic_dev *dev, u32 key);

/* No window is bound to the region. */
void fakernic_mr_hw_drop(struct fakernic_dev *dev, u32 key);

/* A window's key; type: FAKERNIC_MW_TYPE_*. */
int fakernic_mw_hw_create(struct fakernic_dev *dev, u32 pdn, u8 type, u32 *key);

/* Unbinds the window, too. */
void fakernic_mw_hw_drop(struct fakernic_dev *dev, u32 key);

/* The entry at the consumer index; the caller advances the index. */
static inline bool fakernic_cq_hw_next(const struct fakernic_cq_hw *hw,
				       struct fakernic_cqe *cqe)
{
	return fakernic_cq_hw_peek(hw, hw->ci, cqe);
}

#endif
