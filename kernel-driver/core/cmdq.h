/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The command queue. The ring's size limits the commands in flight; each
 * caller sleeps until its command completes. When the device dies, the queue
 * is dead until it is enabled again: fakernic_dev.dead is set, all waiting
 * callers get -EIO, and later commands fail with -EIO at once.
 */
#ifndef FAKERNIC_DRIVER_CMDQ_H
#define FAKERNIC_DRIVER_CMDQ_H

#include <linux/semaphore.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include "death.h"

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
	struct semaphore query_slot;	/* one query at a time */
	spinlock_t lock;		/* both rings and all fields below */
	u32 pi;
	u32 ci;
	u32 abandoned;			/* in flight, caller timed out */
	u8 log_depth;
	bool dead;
};

/*
 * Allocates the rings of a queue that is dead at first, or returns -ENOMEM.
 * Does not access the device.
 */
int fakernic_cmdq_init(struct fakernic_dev *dev);

/* Frees them, after fakernic_cmdq_end(). */
void fakernic_cmdq_cleanup(struct fakernic_dev *dev);

/*
 * Sets the ring addresses in a device that has been reset and enables it. The
 * queue is then no longer dead. Returns -ETIMEDOUT after 2 s, or -EIO if the
 * device refuses and logs the reason. No caller may still wait for a command
 * from before the reset.
 */
int fakernic_cmdq_enable(struct fakernic_dev *dev);

/*
 * Tests a dead queue, which stays dead for all other callers: enables the
 * device and executes a NOP. Returns the errors above and those of a command.
 * The NOP times out after three seconds.
 */
int fakernic_cmdq_test(struct fakernic_dev *dev);

/*
 * Processes the completions in the ring. Called by the interrupt handler of
 * vector 0; callable in any context.
 */
void fakernic_cmdq_interrupt(struct fakernic_dev *dev);

/*
 * Stops the device, then fails all commands in flight with -EIO. Callable in
 * any context. Returns false if the queue was dead already.
 */
bool fakernic_cmdq_end(struct fakernic_dev *dev);

/*
 * The same after an unexpected error: fatal_work then logs the cause and
 * notifies the users. Callable in any context.
 */
void fakernic_cmdq_kill(struct fakernic_dev *dev, enum fakernic_death cause);

/*
 * Checks whether the device does not answer on the bus, reports FATAL, or was
 * reset by something else. If so, kills the queue. Returns true if the queue is
 * dead. Callable in any context.
 */
bool fakernic_cmdq_check(struct fakernic_dev *dev);

/*
 * Executes a command. Request and response are at most FAKERNIC_CMD_PAYLOAD
 * bytes and may be NULL with a size of 0. resp is never written after the
 * return. Does not allocate, so memory reclaim may call it. Sleeps until the
 * ring has a free entry, then until the command completes. After 30 s (module
 * parameter cmd_timeout) without an answer the driver kills the device.
 *
 * Returns -EIO on a dead device, else an errno for the command's status:
 * -ENOMEM no resource, -EBUSY in use, -EFAULT the device cannot access memory,
 * -EOPNOTSUPP not supported, -EINVAL any error in the request.
 */
int fakernic_cmdq_exec(struct fakernic_dev *dev, u16 opcode,
		       const void *req, u32 req_size,
		       void *resp, u32 resp_size);

/*
 * Executes a query whose caller has a fallback. Returns -ETIMEDOUT if the ring
 * has no free entry, or the device no answer, within three seconds. While an
 * earlier query that timed out is still unanswered, it fails at once. Queries
 * run one at a time, so at most one is abandoned on a silent device.
 *
 * After -ETIMEDOUT the device may still execute the command. The caller must
 * not free memory that the command names until a later query returns anything
 * else.
 */
int fakernic_cmdq_query(struct fakernic_dev *dev, u16 opcode,
			const void *req, u32 req_size,
			void *resp, u32 resp_size);

#endif
