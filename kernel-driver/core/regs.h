/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The device's registers and doorbells, its reset, and the negotiation of
 * version and features. None of these functions needs the command queue.
 */
#ifndef FAKERNIC_DRIVER_REGS_H
#define FAKERNIC_DRIVER_REGS_H

#include <linux/io.h>
#include <linux/types.h>
#include <fakernic/doorbell.h>
#include <fakernic/regs.h>
#include "device.h"
#include "queue.h"

/*
 * Reads a register of BAR0 (FAKERNIC_REG_*), in any context. A device that is
 * gone reads as all ones.
 */
u32 fakernic_read(struct fakernic_dev *dev, u32 reg);

/* A posted write: it may arrive after the call. In any context. */
void fakernic_write(struct fakernic_dev *dev, u32 reg, u32 value);

/*
 * Checks that this is a fakernic with a supported interface version. Sets
 * interface_version and fw_version. -ENODEV: it is not; -EIO: its registers do
 * not work. Logs the reason.
 */
int fakernic_check_device(struct fakernic_dev *dev);

/*
 * Accepts the offered features that this driver knows and sets features. Called
 * between reset and fakernic_cmdq_enable(). -ENODEV: a required feature is
 * missing.
 */
int fakernic_negotiate(struct fakernic_dev *dev);

/* Resets the device and waits until it is ready: -ETIMEDOUT after 5 s. */
int fakernic_reset_device(struct fakernic_dev *dev);

/* Whether a value of STATUS shows that no device responds: all ones. */
static inline bool fakernic_is_out_of_reach(u32 status)
{
	return status == U32_MAX || !(status & FAKERNIC_STATUS_READY);
}

/*
 * Stops all DMA and interrupts of the device by a reset, in any context. If the
 * device does not respond, disables its bus mastering instead.
 */
void fakernic_stop_device(struct fakernic_dev *dev);

/* No response on the bus, or another device responds. In any context. */
bool fakernic_is_gone(struct fakernic_dev *dev);

/*
 * Rings a doorbell of the kernel's page (FAKERNIC_DOORBELL_SQ, _CQ_ARM, _EQ)
 * for object id. index: its producer or consumer index. flags: those of the
 * doorbell. In any context. writeq() orders it after all stores to memory that
 * the device reads.
 */
static inline void fakernic_doorbell(struct fakernic_dev *dev, u32 doorbell,
				     u64 flags, u32 id, u32 index)
{
	writeq(flags | FAKERNIC_PUT(FAKERNIC_DOORBELL_ID, id) | index,
	       dev->uar + doorbell);
}

/*
 * Hands the entries from last to next of QP qpn's send queue to the device, and
 * rings the doorbell if the device needs it. last: next of the previous call,
 * or 0. The caller holds the queue's lock.
 */
static inline void fakernic_sq_publish(struct fakernic_dev *dev,
				       struct fakernic_queue *queue, u32 qpn,
				       u32 last, u32 next)
{
	fakernic_queue_publish(queue, next);
	if (!(dev->features & FAKERNIC_FEATURE_SHADOW_DOORBELL) ||
	    fakernic_queue_crosses(queue, last, next))
		fakernic_doorbell(dev, FAKERNIC_DOORBELL_SQ, 0, qpn, next);
}

#endif
