/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The device's registers and doorbells; its reset, and the agreement on a
 * version and on features. None of these functions needs the command queue.
 */
#ifndef FAKERNIC_DRIVER_REGS_H
#define FAKERNIC_DRIVER_REGS_H

#include <linux/io.h>
#include <linux/types.h>
#include <fakernic/doorbell.h>
#include <fakernic/regs.h>
#include "device.h"

/*
 * A register of BAR0 (FAKERNIC_REG_*), in any context. Reads of a device that
 * is gone give all ones.
 */
u32 fakernic_read(struct fakernic_dev *dev, u32 reg);

/* A posted write: it may arrive after the call. In any context. */
void fakernic_write(struct fakernic_dev *dev, u32 reg, u32 value);

/*
 * Is this a fakernic, of an interface version that we speak? Fills in
 * interface_version and fw_version. -ENODEV: it is not; -EIO: its registers do
 * not work. Says why in the log.
 */
int fakernic_check_device(struct fakernic_dev *dev);

/*
 * Takes those of the offered features that this driver knows and fills in
 * features. Between reset and fakernic_cmdq_enable(). -ENODEV: one is missing
 * that the driver cannot do without.
 */
int fakernic_negotiate(struct fakernic_dev *dev);

/* Resets the device and waits until it is ready: -ETIMEDOUT after 5 s. */
int fakernic_reset_device(struct fakernic_dev *dev);

/* Whether nobody answers for STATUS, which was read: a bus says all ones. */
static inline bool fakernic_is_out_of_reach(u32 status)
{
	return status == U32_MAX || !(status & FAKERNIC_STATUS_READY);
}

/*
 * Ends all DMA and all interrupts of the device, in any context, by a reset.
 * One out of reach masters the bus no longer.
 */
void fakernic_stop_device(struct fakernic_dev *dev);

/* It no longer answers on the bus, or as somebody else. In any context. */
bool fakernic_is_gone(struct fakernic_dev *dev);

/*
 * Rings a doorbell of the kernel's page (FAKERNIC_DOORBELL_SQ, _CQ_ARM, _EQ)
 * for the object of that number; index: its producer or consumer index, flags:
 * those of that doorbell. In any context. writeq() orders it behind all stores
 * to memory the device reads.
 */
static inline void fakernic_doorbell(struct fakernic_dev *dev, u32 doorbell,
				     u64 flags, u32 id, u32 index)
{
	writeq(flags | FAKERNIC_PUT(FAKERNIC_DOORBELL_ID, id) | index,
	       dev->uar + doorbell);
}

#endif
