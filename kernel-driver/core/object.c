// SPDX-License-Identifier: GPL-2.0-only
/*
 * The device's objects, shared by verbs and the net_device. A command creates
 * or destroys an object, and an event finds it by number. The owner embeds the
 * object's structure and receives events through its function pointers.
 * Memory keys have no events. Consecutive keys differ in their low byte, so
 * that the device detects a stale key.
 *
 * The create command precedes the object's insertion, and the destroy command
 * follows its removal. fakernic_eq_sync() after each command consumes events
 * for the former owner of the number (eq.c).
 */
#include <linux/xarray.h>
#include <fakernic/cmdq.h>
#include <fakernic/cq.h>
#include <fakernic/doorbell.h>
#include <fakernic/qp.h>
#include <fakernic/wq.h>
#include "cmd.h"
#include "cmdq.h"
#include "device.h"
#include "eq.h"
#include "object.h"
#include "port.h"
#include "queue.h"
#include "regs.h"

static void fakernic_object_sync(struct fakernic_dev *dev)
{
	fakernic_eq_sync(&dev->eqs[FAKERNIC_EQ_ASYNC]);
}

/*
 * Inserts an object that the device has created, so that events find it. On
 * failure destroys it. If the number is in use, that would destroy the other
 * object of this number, so the driver kills the device instead.
 */
static int fakernic_object_insert(struct fakernic_dev *dev, struct xarray *all,
				  u32 number, void *hw, u16 destroy_opcode)
{
	int ret;

	fakernic_object_sync(dev);
	ret = xa_insert(all, number, hw, GFP_KERNEL);
	if (ret == -EBUSY) {
		dev_err(&dev->pdev->dev, "duplicate object number %#x returned\n", number);
		fakernic_cmdq_kill(dev, FAKERNIC_DEATH_INVALID_ANSWER);
		return -EIO;
	}
	if (ret)
		fakernic_cmd_drop(dev, destroy_opcode, number);
	return ret;
}

/*
 * Destroys an object that has been removed. On return neither the device nor an
 * interrupt handler accesses it.
 */
static void fakernic_object_destroy(struct fakernic_dev *dev, u32 number,
				    u16 destroy_opcode)
{
	fakernic_cmd_drop(dev, destroy_opcode, number);
	fakernic_object_sync(dev);
}

static void fakernic_object_drop(struct fakernic_dev *dev, struct xarray *all,
				 u32 number, u16 destroy_opcode)
{
	xa_erase(all, number);
	fakernic_object_destroy(dev, number, destroy_opcode);
}

int fakernic_cq_hw_create(struct fakernic_dev *dev, struct fakernic_cq_hw *hw,
			  struct fakernic_create_cq_req *req, u32 comp_vector)
{
	u32 vectors = dev->eq_count - FAKERNIC_EQ_COMPLETION;
	int ret;

	/* A device that did not come up has no EQs. */
	if (!dev->eqs)
		return -EIO;
	hw->dev = dev;
	hw->ci = 0;
	hw->eq = &dev->eqs[FAKERNIC_EQ_COMPLETION + comp_vector % vectors];
	req->eqn = cpu_to_le32(hw->eq->eqn);
	ret = fakernic_cmd_create_cq(dev, req, &hw->cqn);
	if (ret)
		return ret;
	fakernic_eq_sync(hw->eq);
	return fakernic_object_insert(dev, &dev->cqs, hw->cqn, hw,
				      FAKERNIC_CMD_DESTROY_CQ);
}

void fakernic_cq_hw_drop(struct fakernic_cq_hw *hw)
{
	struct fakernic_dev *dev = hw->dev;

	/* The lock waits until a running visit of all CQs has finished. */
	mutex_lock(&dev->cqs_lock);
	xa_erase(&dev->cqs, hw->cqn);
	mutex_unlock(&dev->cqs_lock);
	fakernic_object_destroy(dev, hw->cqn, FAKERNIC_CMD_DESTROY_CQ);
	fakernic_eq_sync(hw->eq);
}

void fakernic_cq_hw_for_each(struct fakernic_dev *dev,
			     void (*visit)(struct fakernic_cq_hw *hw))
{
	struct fakernic_cq_hw *hw;
	unsigned long flags, cqn;

	mutex_lock(&dev->cqs_lock);
	xa_for_each(&dev->cqs, cqn, hw) {
		/* A softirq that visit() raises runs at local_bh_enable(). */
		local_bh_disable();
		spin_lock_irqsave(&hw->eq->lock, flags);
		visit(hw);
		spin_unlock_irqrestore(&hw->eq->lock, flags);
		local_bh_enable();
	}
	mutex_unlock(&dev->cqs_lock);
}

bool fakernic_cq_hw_peek(const struct fakernic_cq_hw *hw, u32 ci,
			 struct fakernic_cqe *cqe)
{
	BUILD_BUG_ON(offsetof(typeof(*cqe), owner) != sizeof(*cqe) - 1);
	return fakernic_queue_read(&hw->queue, ci, cqe, sizeof(*cqe));
}

void fakernic_cq_hw_void(struct fakernic_cq_hw *hw, u32 ci)
{
	__le32 *qpn = fakernic_queue_entry(&hw->queue, ci) +
		      offsetof(struct fakernic_cqe, qpn);

	WRITE_ONCE(*qpn, 0);
}

void fakernic_cq_hw_arm(struct fakernic_cq_hw *hw, bool solicited)
{
	fakernic_doorbell(hw->dev, FAKERNIC_DOORBELL_CQ_ARM,
			  solicited ? FAKERNIC_DOORBELL_SOLICITED : 0,
			  hw->cqn, hw->ci);
}

int fakernic_qp_hw_create(struct fakernic_dev *dev, struct fakernic_qp_hw *hw,
			  const struct fakernic_create_qp_req *req)
{
	int ret;

	ret = fakernic_cmd_create_qp(dev, req, &hw->qpn);
	return ret ? ret : fakernic_object_insert(dev, &dev->qps, hw->qpn, hw,
					     FAKERNIC_CMD_DESTROY_QP);
}

int fakernic_rss_qp_hw_create(struct fakernic_dev *dev,
			      struct fakernic_qp_hw *hw,
			      const struct fakernic_create_rss_qp_req *req)
{
	int ret;

	ret = fakernic_cmd_create_rss_qp(dev, req, &hw->qpn);
	return ret ? ret : fakernic_object_insert(dev, &dev->qps, hw->qpn, hw,
					     FAKERNIC_CMD_DESTROY_QP);
}

void fakernic_qp_hw_drop(struct fakernic_dev *dev, struct fakernic_qp_hw *hw)
{
	fakernic_object_drop(dev, &dev->qps, hw->qpn, FAKERNIC_CMD_DESTROY_QP);
}

int fakernic_qp_hw_set_state(struct fakernic_dev *dev,
			     struct fakernic_qp_hw *hw,
			     enum fakernic_qp_state state)
{
	struct fakernic_modify_qp_req req = {
		.qpn = cpu_to_le32(hw->qpn),
		.mask = cpu_to_le32(FAKERNIC_QP_ATTR_STATE),
		.attr.state = state,
	};

	if (state == FAKERNIC_QPS_INIT) {
		req.mask |= cpu_to_le32(FAKERNIC_QP_ATTR_PORT);
		req.attr.port = FAKERNIC_PORT;
	}
	return fakernic_cmd_modify_qp(dev, &req);
}

int fakernic_wq_hw_create(struct fakernic_dev *dev, struct fakernic_qp_hw *hw,
			  const struct fakernic_create_wq_req *req)
{
	int ret;

	ret = fakernic_cmd_create_wq(dev, req, &hw->qpn);
	return ret ? ret : fakernic_object_insert(dev, &dev->qps, hw->qpn, hw,
					     FAKERNIC_CMD_DESTROY_WQ);
}

void fakernic_wq_hw_drop(struct fakernic_dev *dev, struct fakernic_qp_hw *hw)
{
	fakernic_object_drop(dev, &dev->qps, hw->qpn, FAKERNIC_CMD_DESTROY_WQ);
}

int fakernic_srq_hw_create(struct fakernic_dev *dev,
			   struct fakernic_srq_hw *hw,
			   const struct fakernic_create_srq_req *req)
{
	int ret;

	ret = fakernic_cmd_create_srq(dev, req, &hw->srqn);
	return ret ? ret : fakernic_object_insert(dev, &dev->srqs, hw->srqn, hw,
					     FAKERNIC_CMD_DESTROY_SRQ);
}

void fakernic_srq_hw_drop(struct fakernic_dev *dev,
			  struct fakernic_srq_hw *hw)
{
	fakernic_object_drop(dev, &dev->srqs, hw->srqn,
			     FAKERNIC_CMD_DESTROY_SRQ);
}

int fakernic_mr_hw_create(struct fakernic_dev *dev,
			  struct fakernic_create_mr_req *req, u32 *key)
{
	req->tag = atomic_inc_return(&dev->key_tag);
	return fakernic_cmd_create_mr(dev, req, key);
}

int fakernic_mr_hw_destroy(struct fakernic_dev *dev, u32 key)
{
	return fakernic_cmd_free(dev, FAKERNIC_CMD_DESTROY_MR, key);
}

void fakernic_mr_hw_drop(struct fakernic_dev *dev, u32 key)
{
	fakernic_cmd_drop(dev, FAKERNIC_CMD_DESTROY_MR, key);
}

int fakernic_mw_hw_create(struct fakernic_dev *dev, u32 pdn, u8 type, u32 *key)
{
	return fakernic_cmd_create_mw(dev, pdn, type,
				      atomic_inc_return(&dev->key_tag), key);
}

void fakernic_mw_hw_drop(struct fakernic_dev *dev, u32 key)
{
	fakernic_cmd_drop(dev, FAKERNIC_CMD_DESTROY_MW, key);
}
