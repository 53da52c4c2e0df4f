/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The command queue: as many commands at once as its ring has entries, each of
 * which sleeps until it is answered. When the device dies the queue is dead
 * until it is enabled anew: fakernic_dev.dead is set, whoever waits gets -EIO,
 * and so does whoever comes later, at once.
 */
#ifndef FAKERNIC_DRIVER_CMDQ_H
#define FAKERNIC_DRIVER_CMDQ_H

#include <linux/semaphore.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include "health.h"

struct fakernic_cmd;
struct fakernic_cmd_completion;
struct fakernic_cmd_wait;
struct fakernic_dev;

struct fakernic_cmdq {
	struct fakernic_cmd *sq;
	struct fakernic_cmd_completion *cq;
	dma_addr_t sq_dma;
	dma_addr_t cq_dma;
	struct fakernic_cmd_wait **waiting;	/* by ring position */
	struct semaphore free;		/* entries not in flight */
	struct semaphore asks;		/* who asks, one at a time */
	spinlock_t lock;		/* all below, both rings */
	u32 pi;
	u32 ci;
	u32 unheard;			/* in flight, and nobody waits */
	u8 log_depth;
	bool dead;
};

/* The rings, dead; -ENOMEM. The device need not be there yet. */
int fakernic_cmdq_init(struct fakernic_dev *dev);

/* Frees them. fakernic_cmdq_end() comes before. */
void fakernic_cmdq_cleanup(struct fakernic_dev *dev);

/*
 * Tells the device, which has been reset, where the rings are, and starts it:
 * nothing is dead any more. -ETIMEDOUT after 2 s; -EIO when it refuses, with
 * the reason in the log. Nobody waits for a command of an earlier life.
 */
int fakernic_cmdq_enable(struct fakernic_dev *dev);

/*
 * Likewise, of a queue that is dead and stays so for all others: has the device
 * execute NOP. Errors as above and of that command; three seconds more.
 */
int fakernic_cmdq_try(struct fakernic_dev *dev);

/*
 * Takes the completions that are there. From the interrupt of vector 0, or any
 * other context.
 */
void fakernic_cmdq_interrupt(struct fakernic_dev *dev);

/*
 * Ends operation, in any context: stops the device, then lets all go who wait.
 * Returns true to the first who calls it.
 */
bool fakernic_cmdq_end(struct fakernic_dev *dev);

/*
 * The same against everybody's expectation, in any context: fatal_work will
 * tell them, and of the cause.
 */
void fakernic_cmdq_kill(struct fakernic_dev *dev, enum fakernic_death cause);

/*
 * Looks whether the device has died, in any context: it does not answer on the
 * bus, says FATAL, or has been reset by somebody else. Then it is killed; the
 * result is whether it is dead.
 */
bool fakernic_cmdq_check(struct fakernic_dev *dev);

/*
 * Executes the command of that opcode. Request and response are at most
 * FAKERNIC_CMD_PAYLOAD bytes and may be NULL with a size of 0; resp is written
 * before it returns, never after. Does not allocate, so it may be used in the
 * reclaim of memory; sleeps until the answer is there, 30 s at most, and before
 * that for a free entry of the ring.
 *
 * Returns -EIO on a dead device, else what the command's status means: -ENOMEM
 * no resource, -EBUSY in use, -EFAULT the device cannot reach memory,
 * -EOPNOTSUPP, and -EINVAL for all that is wrong in the request.
 */
int fakernic_cmdq_exec(struct fakernic_dev *dev, u16 opcode,
		       const void *req, u32 req_size,
		       void *resp, u32 resp_size);

/*
 * The same for who can do without the answer: -ETIMEDOUT when there is none, or
 * no free entry of the ring, within three seconds, and at once while an answer
 * is owed that somebody has not waited for. One asks at a time, so a device
 * that is silent owes nobody more than one answer.
 *
 * After -ETIMEDOUT it may execute the command yet; memory that this names is
 * the device's until a later call does not return that.
 */
int fakernic_cmdq_ask(struct fakernic_dev *dev, u16 opcode,
		      const void *req, u32 req_size,
		      void *resp, u32 resp_size);

#endif
