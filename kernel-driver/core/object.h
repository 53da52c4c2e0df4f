/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The device's CQs, QPs, WQs, SRQs and memory keys, for verbs and for the
 * net_device. The owner embeds the structure, sets its function pointers and
 * creates the object. From then on it receives the object's events.
 *
 * The function pointers are called under the lock of an EQ, with interrupts
 * off. They must not sleep or call any function of this file.
 *
 * Create functions return 0 and set the number; after an error there is
 * nothing to destroy. After a successful destroy neither the device nor an
 * interrupt handler accesses the object or its memory. Destroy fails with
 * -EBUSY while the device uses the object, which then stays as it was. On a
 * dead device destroy succeeds. Drop is for an owner that cannot keep the
 * object: if the device does not release it, the driver kills the device.
 */
#ifndef FAKERNIC_DRIVER_OBJECT_H
#define FAKERNIC_DRIVER_OBJECT_H

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
	struct fakernic_queue queue;	/* ring is NULL in a user CQ */
	u32 cqn;
	u32 ci;				/* under a lock of the owner */
	void (*complete)(struct fakernic_cq_hw *hw);	/* event: entries */
	void (*fail)(struct fakernic_cq_hw *hw);	/* event: CQ error */
};

/* A QP or a WQ; both use the same number space. */
struct fakernic_qp_hw {
	u32 qpn;
	struct fakernic_qp *qp;		/* NULL: a WQ or the net_device's */
	/* type: FAKERNIC_EVENT_*, data: FAKERNIC_VENDOR_* */
	void (*event)(struct fakernic_qp_hw *hw, u8 type, u32 data);
};

struct fakernic_srq_hw {
	u32 srqn;
	/* type: FAKERNIC_EVENT_SRQ_*, data: FAKERNIC_VENDOR_* */
	void (*event)(struct fakernic_srq_hw *hw, u8 type, u32 data);
};

/*
 * comp_vector: any number; its remainder selects the completion EQ. The caller
 * fills in all of req except the EQ, and hw->queue of a kernel CQ.
 */
int fakernic_cq_hw_create(struct fakernic_dev *dev, struct fakernic_cq_hw *hw,
			  struct fakernic_create_cq_req *req, u32 comp_vector);

/* No QP, WQ or SRQ may use the CQ. The caller frees the ring. */
void fakernic_cq_hw_drop(struct fakernic_cq_hw *hw);

/*
 * Calls visit() for each CQ in the context of an event: under its EQ's lock,
 * with softirqs off. No CQ is destroyed while it is visited. May sleep between
 * visits.
 */
void fakernic_cq_hw_for_each(struct fakernic_dev *dev,
			     void (*visit)(struct fakernic_cq_hw *hw));

/*
 * Copies the CQE at index ci of a kernel CQ. False: not written yet. The caller
 * serializes access to the CQ. Callable in any context.
 */
bool fakernic_cq_hw_peek(const struct fakernic_cq_hw *hw, u32 ci,
			 struct fakernic_cqe *cqe);

/* Clears the QPN of the CQE at index ci, in the same context. */
void fakernic_cq_hw_void(struct fakernic_cq_hw *hw, u32 ci);

/*
 * Arms the CQ for one event: on the next CQE at or after the consumer index,
 * which may exist already. solicited: only a solicited CQE or an error raises
 * the event. Callable in any context.
 */
void fakernic_cq_hw_arm(struct fakernic_cq_hw *hw, bool solicited);

/* Creates a QP in RESET. The caller fills in all of req. */
int fakernic_qp_hw_create(struct fakernic_dev *dev, struct fakernic_qp_hw *hw,
			  const struct fakernic_create_qp_req *req);

/* Creates an RSS QP, which receives at once. The caller fills in all of req. */
int fakernic_rss_qp_hw_create(struct fakernic_dev *dev,
			      struct fakernic_qp_hw *hw,
			      const struct fakernic_create_rss_qp_req *req);

/* Drops a QP or an RSS QP. No flow rule may name it. */
void fakernic_qp_hw_drop(struct fakernic_dev *dev, struct fakernic_qp_hw *hw);

/*
 * Moves a raw-packet QP to the state. Sets only the attributes that such a QP
 * needs between RESET, INIT, RTR and RTS.
 */
int fakernic_qp_hw_set_state(struct fakernic_dev *dev,
			     struct fakernic_qp_hw *hw,
			     enum fakernic_qp_state state);

/* Creates a WQ in RESET and sets hw->qpn to its number. */
int fakernic_wq_hw_create(struct fakernic_dev *dev, struct fakernic_qp_hw *hw,
			  const struct fakernic_create_wq_req *req);

/* No indirection table may name the WQ. */
void fakernic_wq_hw_drop(struct fakernic_dev *dev, struct fakernic_qp_hw *hw);

/* The caller fills in all of req. */
int fakernic_srq_hw_create(struct fakernic_dev *dev,
			   struct fakernic_srq_hw *hw,
			   const struct fakernic_create_srq_req *req);

/* No QP may receive from the SRQ. */
void fakernic_srq_hw_drop(struct fakernic_dev *dev, struct fakernic_srq_hw *hw);

/*
 * Creates a memory region. Its key is both lkey and rkey; the driver chooses
 * the low byte of the key.
 */
int fakernic_mr_hw_create(struct fakernic_dev *dev,
			  struct fakernic_create_mr_req *req, u32 *key);

/*
 * Invalidates the region's key. Returns -EBUSY while windows are bound to the
 * region.
 */
int fakernic_mr_hw_destroy(struct fakernic_dev *dev, u32 key);

/* No window may be bound to the region. */
void fakernic_mr_hw_drop(struct fakernic_dev *dev, u32 key);

/* Creates a memory window; type: FAKERNIC_MW_TYPE_*. */
int fakernic_mw_hw_create(struct fakernic_dev *dev, u32 pdn, u8 type, u32 *key);

/* Also unbinds the window. */
void fakernic_mw_hw_drop(struct fakernic_dev *dev, u32 key);

/* Copies the CQE at the consumer index. The caller advances the index. */
static inline bool fakernic_cq_hw_next(const struct fakernic_cq_hw *hw,
				       struct fakernic_cqe *cqe)
{
	return fakernic_cq_hw_peek(hw, hw->ci, cqe);
}

#endif
