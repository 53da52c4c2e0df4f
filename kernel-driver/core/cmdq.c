// SPDX-License-Identifier: GPL-2.0-only
/*
 * The command queue. The caller puts its request on the ring and sleeps. The
 * handler of vector 0 copies the response from the ring and wakes the caller.
 * The number of ring entries limits the commands in flight.
 *
 * The queue dies if a command times out, if the device reports FATAL, or if a
 * completion is invalid. It then stays dead until the device is enabled again:
 * waiting callers get -EIO and later commands fail at once. So no caller hangs
 * on a broken device.
 *
 * A command's buffers belong to its caller. The interrupt handler accesses them
 * only under the lock and while the caller is listed in cmdq.waiting.
 */
#include <linux/atomic.h>
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/dma-mapping.h>
#include <linux/io.h>
#include <linux/iopoll.h>
#include <linux/jiffies.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <fakernic/cmdq.h>
#include <fakernic/regs.h>
#include "cmdq.h"
#include "device.h"
#include "explain.h"
#include "regs.h"
#include "trace.h"

/* An emulated device may stall for seconds while its host is busy. */
#define FAKERNIC_CMD_TIMEOUT_S		30
/* The limit while the hardware is quiesced, if cmd_timeout is 0. */
#define FAKERNIC_CMD_TIMEOUT_DOWN_S	10
#define FAKERNIC_CMD_POLL_MS		500
/* The time limit of queries whose caller has a fallback. */
#define FAKERNIC_QUERY_TIMEOUT_S		3
#define FAKERNIC_CMDQ_LOG_DEPTH		6
#define FAKERNIC_ENABLE_TIMEOUT_US	(2 * USEC_PER_SEC)

static unsigned int fakernic_cmd_timeout = FAKERNIC_CMD_TIMEOUT_S;
module_param_named(cmd_timeout, fakernic_cmd_timeout, uint, 0644);
MODULE_PARM_DESC(cmd_timeout,
		 "seconds until a command times out (0: never), default 30");

/* A command that waits for its completion; on its caller's stack. */
struct fakernic_cmd_wait {
	struct completion done;
	void *resp;
	u32 resp_size;
	u32 slot;
	u16 opcode;
	bool may_give_up;		/* fails with -ETIMEDOUT at 'until' */
	unsigned long until;		/* in jiffies */
	u8 status;
	u32 detail;
	int error;			/* why no answer will come */
};

static int fakernic_cmd_status_errno(u8 status)
{
	switch (status) {
	case FAKERNIC_CMD_OK:
		return 0;
	case FAKERNIC_CMD_BAD_OPCODE:
	case FAKERNIC_CMD_UNSUPPORTED:
		return -EOPNOTSUPP;
	case FAKERNIC_CMD_BUSY:
		return -EBUSY;
	case FAKERNIC_CMD_NO_RESOURCE:
		return -ENOMEM;
	case FAKERNIC_CMD_DMA_ERROR:
		return -EFAULT;
	default:
		return -EINVAL;
	}
}

int fakernic_cmdq_init(struct fakernic_dev *dev)
{
	struct fakernic_cmdq *cmdq = &dev->cmdq;
	size_t depth = 1UL << FAKERNIC_CMDQ_LOG_DEPTH;
	struct device *device = &dev->pdev->dev;

	cmdq->log_depth = FAKERNIC_CMDQ_LOG_DEPTH;
	cmdq->dead = true;
	dev->dead = true;
	spin_lock_init(&cmdq->lock);
	sema_init(&cmdq->free, depth);
	sema_init(&cmdq->query_slot, 1);

	cmdq->waiting = kcalloc(depth, sizeof(*cmdq->waiting), GFP_KERNEL);
	if (!cmdq->waiting)
		return -ENOMEM;
	cmdq->sq = dma_alloc_coherent(device, depth * sizeof(*cmdq->sq),
				      &cmdq->sq_dma, GFP_KERNEL);
	if (!cmdq->sq)
		goto err_free_waiting;
	cmdq->cq = dma_alloc_coherent(device, depth * sizeof(*cmdq->cq),
				      &cmdq->cq_dma, GFP_KERNEL);
	if (!cmdq->cq)
		goto err_free_sq;
	return 0;

err_free_sq:
	dma_free_coherent(device, depth * sizeof(*cmdq->sq), cmdq->sq,
			  cmdq->sq_dma);
err_free_waiting:
	kfree(cmdq->waiting);
	return -ENOMEM;
}

void fakernic_cmdq_cleanup(struct fakernic_dev *dev)
{
	struct fakernic_cmdq *cmdq = &dev->cmdq;
	size_t depth = 1UL << cmdq->log_depth;
	struct device *device = &dev->pdev->dev;

	dma_free_coherent(device, depth * sizeof(*cmdq->cq), cmdq->cq,
			  cmdq->cq_dma);
	dma_free_coherent(device, depth * sizeof(*cmdq->sq), cmdq->sq,
			  cmdq->sq_dma);
	kfree(cmdq->waiting);
}

/* Resets the rings' indices, as the device starts at the first entries. */
static void fakernic_cmdq_begin(struct fakernic_dev *dev)
{
	struct fakernic_cmdq *cmdq = &dev->cmdq;
	size_t depth = 1UL << cmdq->log_depth;
	unsigned long flags;

	spin_lock_irqsave(&cmdq->lock, flags);
	memset(cmdq->cq, 0, depth * sizeof(*cmdq->cq));
	cmdq->pi = 0;
	cmdq->ci = 0;
	cmdq->abandoned = 0;
	dev->health.cause = FAKERNIC_DEATH_NONE;
	dev->health.faults_logged = 0;
	spin_unlock_irqrestore(&cmdq->lock, flags);
}

/*
 * Warns once after each reset if fault rules make the device misbehave, because
 * the resulting errors look like bugs. A rule can be added at any time.
 */
static void fakernic_cmdq_log_faults(struct fakernic_dev *dev, u32 status)
{
	if (status != U32_MAX && status & FAKERNIC_STATUS_FAULTS &&
	    !xchg(&dev->health.faults_logged, 1))
		dev_warn(&dev->pdev->dev,
			 "fault rules are active: errors may be intended\n");
}

static void fakernic_cmdq_set_alive(struct fakernic_dev *dev)
{
	unsigned long flags;

	spin_lock_irqsave(&dev->cmdq.lock, flags);
	dev->cmdq.dead = false;
	WRITE_ONCE(dev->dead, false);
	spin_unlock_irqrestore(&dev->cmdq.lock, flags);
}

/* Sets the ring addresses and enables the device; returns its *status. */
static int fakernic_cmdq_enable_device(struct fakernic_dev *dev, u32 *status)
{
	struct fakernic_cmdq *cmdq = &dev->cmdq;
	u32 code;
	int ret;

	fakernic_write(dev, FAKERNIC_REG_CMDQ_SQ_LO,
		       lower_32_bits(cmdq->sq_dma));
	fakernic_write(dev, FAKERNIC_REG_CMDQ_SQ_HI,
		       upper_32_bits(cmdq->sq_dma));
	fakernic_write(dev, FAKERNIC_REG_CMDQ_CQ_LO,
		       lower_32_bits(cmdq->cq_dma));
	fakernic_write(dev, FAKERNIC_REG_CMDQ_CQ_HI,
		       upper_32_bits(cmdq->cq_dma));
	fakernic_write(dev, FAKERNIC_REG_CMDQ_LOG_DEPTH, cmdq->log_depth);
	fakernic_write(dev, FAKERNIC_REG_CONTROL, FAKERNIC_CONTROL_ENABLE);
	ret = readl_poll_timeout(dev->regs + FAKERNIC_REG_STATUS, *status,
				 *status & (FAKERNIC_STATUS_ENABLED |
					    FAKERNIC_STATUS_FATAL),
				 1000, FAKERNIC_ENABLE_TIMEOUT_US);
	if (!ret && *status & FAKERNIC_STATUS_FATAL)
		ret = -EIO;
	if (!ret)
		return 0;
	code = fakernic_read(dev, FAKERNIC_REG_FATAL_CODE);
	dev_err(&dev->pdev->dev,
		"device cannot be enabled: status %#x, fatal code: %s\n",
		*status, fakernic_fatal_name(code));
	return ret;
}

int fakernic_cmdq_enable(struct fakernic_dev *dev)
{
	u32 status;
	int ret;

	fakernic_cmdq_begin(dev);
	ret = fakernic_cmdq_enable_device(dev, &status);
	if (ret)
		return ret;
	fakernic_cmdq_log_faults(dev, status);
	fakernic_cmdq_set_alive(dev);
	return 0;
}

/* Reuses the rings' first entries: no caller waits on a dead queue. */
int fakernic_cmdq_test(struct fakernic_dev *dev)
{
	struct fakernic_cmdq *cmdq = &dev->cmdq;
	size_t depth = 1UL << cmdq->log_depth;
	u32 status;
	u8 owner;
	int ret;

	memset(cmdq->cq, 0, depth * sizeof(*cmdq->cq));
	memset(cmdq->sq, 0, sizeof(*cmdq->sq));
	cmdq->sq->opcode = cpu_to_le16(FAKERNIC_CMD_NOP);
	ret = fakernic_cmdq_enable_device(dev, &status);
	if (ret)
		return ret;
	fakernic_write(dev, FAKERNIC_REG_CMDQ_DOORBELL, 1);
	ret = read_poll_timeout(READ_ONCE, owner, owner & 1, 1000,
				FAKERNIC_QUERY_TIMEOUT_S * USEC_PER_SEC, false,
				cmdq->cq->owner);
	if (ret)
		return ret;
	/*
	 * Loads the owner bit before the status. Pairs with the device, which
	 * stores the owner byte last.
	 */
	dma_rmb();
	return fakernic_cmd_status_errno(READ_ONCE(cmdq->cq->status));
}

/* Fails all commands in flight, as no answer will come. */
static void fakernic_cmdq_abandon_locked(struct fakernic_cmdq *cmdq)
{
	u32 mask = (1U << cmdq->log_depth) - 1;

	for (; cmdq->ci != cmdq->pi; cmdq->ci++) {
		struct fakernic_cmd_wait *wait = cmdq->waiting[cmdq->ci & mask];

		if (wait) {
			cmdq->waiting[cmdq->ci & mask] = NULL;
			wait->error = -EIO;
			complete(&wait->done);
		}
		up(&cmdq->free);
	}
	cmdq->abandoned = 0;
}

/*
 * The caller holds the lock from its check of the device until all commands
 * have failed. So the device cannot be enabled again in between, and an error
 * from before a reset cannot kill the device after it.
 */
static bool fakernic_cmdq_die_locked(struct fakernic_dev *dev,
				     enum fakernic_death cause)
{
	struct fakernic_health *health = &dev->health;
	struct fakernic_cmdq *cmdq = &dev->cmdq;

	if (cmdq->dead)
		return false;
	health->cause = cause;
	health->status = fakernic_read(dev, FAKERNIC_REG_STATUS);
	health->fatal_code = fakernic_read(dev, FAKERNIC_REG_FATAL_CODE);
	health->in_flight = cmdq->pi - cmdq->ci;
	/* Stop DMA before callers return and free the memory it targets. */
	fakernic_stop_device(dev);
	cmdq->dead = true;
	/*
	 * The stop comes before dead. Pairs with the load-acquire of dead in
	 * fakernic_poll_cq(), which then sees all CQEs.
	 */
	smp_store_release(&dev->dead, true);
	fakernic_cmdq_abandon_locked(cmdq);
	trace_fakernic_life(dev->pdev, "stopped, cause", cause);
	return true;
}

static void fakernic_cmdq_kill_locked(struct fakernic_dev *dev,
				      enum fakernic_death cause)
{
	if (fakernic_cmdq_die_locked(dev, cause))
		queue_work(dev->fatal_wq, &dev->fatal_work);
}

bool fakernic_cmdq_end(struct fakernic_dev *dev)
{
	unsigned long flags;
	bool first;

	spin_lock_irqsave(&dev->cmdq.lock, flags);
	first = fakernic_cmdq_die_locked(dev, FAKERNIC_DEATH_NONE);
	spin_unlock_irqrestore(&dev->cmdq.lock, flags);
	return first;
}

void fakernic_cmdq_kill(struct fakernic_dev *dev, enum fakernic_death cause)
{
	unsigned long flags;

	spin_lock_irqsave(&dev->cmdq.lock, flags);
	fakernic_cmdq_kill_locked(dev, cause);
	spin_unlock_irqrestore(&dev->cmdq.lock, flags);
}

/* Derives the cause of death from STATUS. */
static enum fakernic_death fakernic_status_death(u32 status)
{
	if (fakernic_is_out_of_reach(status))
		return FAKERNIC_DEATH_ABSENT;
	if (status & FAKERNIC_STATUS_FATAL)
		return FAKERNIC_DEATH_FATAL;
	if (!(status & FAKERNIC_STATUS_ENABLED))
		return FAKERNIC_DEATH_RESET;
	return FAKERNIC_DEATH_NONE;
}

bool fakernic_cmdq_check(struct fakernic_dev *dev)
{
	enum fakernic_death cause;
	unsigned long flags;
	u32 status;
	bool dead;

	spin_lock_irqsave(&dev->cmdq.lock, flags);
	status = fakernic_read(dev, FAKERNIC_REG_STATUS);
	cause = fakernic_status_death(status);
	if (cause != FAKERNIC_DEATH_NONE)
		fakernic_cmdq_kill_locked(dev, cause);
	dead = dev->cmdq.dead;
	spin_unlock_irqrestore(&dev->cmdq.lock, flags);
	if (!dead)
		fakernic_cmdq_log_faults(dev, status);
	return dead;
}

/* Passes one completion to its waiting caller. False: it is invalid. */
static bool fakernic_cmdq_complete_one(struct fakernic_cmdq *cmdq,
				       const struct fakernic_cmd_completion *cqe)
{
	u32 slot = cmdq->ci & ((1U << cmdq->log_depth) - 1);
	struct fakernic_cmd_wait *wait = cmdq->waiting[slot];

	if (cmdq->ci == cmdq->pi || le32_to_cpu(cqe->cookie) != cmdq->ci)
		return false;
	if (wait) {
		if (le16_to_cpu(cqe->opcode) != wait->opcode)
			return false;
		wait->status = cqe->status;
		wait->detail = le32_to_cpu(cqe->detail);
		/* A refused command has no results. */
		if (wait->resp_size && cqe->status == FAKERNIC_CMD_OK)
			memcpy(wait->resp, cqe->payload, wait->resp_size);
		cmdq->waiting[slot] = NULL;
		complete(&wait->done);
	} else {
		cmdq->abandoned--;
	}
	cmdq->ci++;
	up(&cmdq->free);
	return true;
}

/*
 * Copies the next completion, so that the device cannot change it after the
 * checks. False: the device has not written it yet.
 */
static bool fakernic_cmdq_take(const struct fakernic_cmdq *cmdq,
			       struct fakernic_cmd_completion *cqe)
{
	const u32 slot = cmdq->ci & ((1U << cmdq->log_depth) - 1);
	const u8 pass = ~(cmdq->ci >> cmdq->log_depth) & 1;

	if ((READ_ONCE(cmdq->cq[slot].owner) & 1) != pass)
		return false;
	/*
	 * Loads the owner bit before the rest of the entry. Pairs with the
	 * device, which stores the owner byte last.
	 */
	dma_rmb();
	*cqe = cmdq->cq[slot];
	/* The compiler must not read from the ring after the copy. */
	barrier();
	return true;
}

void fakernic_cmdq_interrupt(struct fakernic_dev *dev)
{
	struct fakernic_cmdq *cmdq = &dev->cmdq;
	struct fakernic_cmd_completion cqe;
	unsigned long flags;
	bool good = true;

	spin_lock_irqsave(&cmdq->lock, flags);
	while (good && !cmdq->dead && fakernic_cmdq_take(cmdq, &cqe))
		good = fakernic_cmdq_complete_one(cmdq, &cqe);
	if (!good)
		fakernic_cmdq_kill_locked(dev, FAKERNIC_DEATH_INVALID_ANSWER);
	spin_unlock_irqrestore(&cmdq->lock, flags);

	if (!good)
		dev_err(&dev->pdev->dev,
			"completion of a command that is not in flight\n");
}

/* Puts a request on the ring, where the caller has reserved an entry. */
static int fakernic_cmdq_submit(struct fakernic_dev *dev,
				struct fakernic_cmd_wait *wait,
				const void *req, u32 req_size)
{
	struct fakernic_cmdq *cmdq = &dev->cmdq;
	struct fakernic_cmd *cmd;
	unsigned long flags;
	int ret = 0;

	spin_lock_irqsave(&cmdq->lock, flags);
	if (cmdq->dead)
		ret = -EIO;
	else if (wait->may_give_up && cmdq->abandoned)
		ret = -ETIMEDOUT;
	if (ret) {
		spin_unlock_irqrestore(&cmdq->lock, flags);
		up(&cmdq->free);
		return ret;
	}
	wait->slot = cmdq->pi & ((1U << cmdq->log_depth) - 1);
	cmd = &cmdq->sq[wait->slot];
	memset(cmd, 0, sizeof(*cmd));
	cmd->opcode = cpu_to_le16(wait->opcode);
	cmd->cookie = cpu_to_le32(cmdq->pi);
	if (req_size)
		memcpy(cmd->payload, req, req_size);
	cmdq->waiting[wait->slot] = wait;
	cmdq->pi++;
	/*
	 * writel() orders the request before the doorbell. The device reads the
	 * request after it.
	 */
	fakernic_write(dev, FAKERNIC_REG_CMDQ_DOORBELL, cmdq->pi);
	spin_unlock_irqrestore(&cmdq->lock, flags);
	return 0;
}

/* Abandons a query whose time is up, unless its answer has arrived. */
static void fakernic_cmdq_abandon_query(struct fakernic_dev *dev,
					struct fakernic_cmd_wait *wait)
{
	struct fakernic_cmdq *cmdq = &dev->cmdq;
	unsigned long flags;

	spin_lock_irqsave(&cmdq->lock, flags);
	if (!completion_done(&wait->done)) {
		cmdq->waiting[wait->slot] = NULL;
		cmdq->abandoned++;
		wait->error = -ETIMEDOUT;
		complete(&wait->done);
	}
	spin_unlock_irqrestore(&cmdq->lock, flags);
}

/* Kills the device for a timeout, unless the command has completed by now. */
static void fakernic_cmdq_time_out(struct fakernic_dev *dev,
				   struct fakernic_cmd_wait *wait,
				   unsigned int timeout)
{
	unsigned long flags;
	bool late;

	spin_lock_irqsave(&dev->cmdq.lock, flags);
	late = !completion_done(&wait->done);
	if (late)
		fakernic_cmdq_kill_locked(dev, FAKERNIC_DEATH_TIMEOUT);
	spin_unlock_irqrestore(&dev->cmdq.lock, flags);
	if (late)
		dev_err(&dev->pdev->dev,
			"no answer to command %s within %u s\n",
			fakernic_cmd_name(wait->opcode), timeout);
}

/* A command's time limit in seconds; 0: none. May change while it waits. */
static unsigned int fakernic_cmd_time_limit(struct fakernic_dev *dev)
{
	unsigned int timeout = READ_ONCE(fakernic_cmd_timeout);

	return timeout || !READ_ONCE(dev->quiesced) ? timeout :
						  FAKERNIC_CMD_TIMEOUT_DOWN_S;
}

/*
 * Sleeps until the command completes or the queue dies. On return no other code
 * refers to wait. Polls the ring at intervals, in case an interrupt was lost.
 */
static int fakernic_cmdq_wait(struct fakernic_dev *dev,
			      struct fakernic_cmd_wait *wait)
{
	unsigned long poll = msecs_to_jiffies(FAKERNIC_CMD_POLL_MS);
	u64 waited, begin = get_jiffies_64();
	unsigned int timeout;

	while (!wait_for_completion_timeout(&wait->done, poll)) {
		fakernic_cmdq_interrupt(dev);
		if (try_wait_for_completion(&wait->done)) {
			atomic_inc(&dev->lost_interrupts);
			dev_warn_once(&dev->pdev->dev,
				      "command %s was answered without an interrupt\n",
				      fakernic_cmd_name(wait->opcode));
			break;
		}
		if (fakernic_cmdq_check(dev)) {
			/* The dying queue completes this command, too. */
			wait_for_completion(&wait->done);
			break;
		}
		waited = get_jiffies_64() - begin;
		timeout = fakernic_cmd_time_limit(dev);
		if (timeout && waited >= (u64)timeout * HZ)
			fakernic_cmdq_time_out(dev, wait, timeout);
		else if (wait->may_give_up &&
			 time_after_eq(jiffies, wait->until))
			fakernic_cmdq_abandon_query(dev, wait);
		else
			continue;
		wait_for_completion(&wait->done);
		break;
	}
	return wait->error;
}

/* Jiffies left; at least 1, so a free semaphore can still be taken. */
static long fakernic_time_left(const struct fakernic_cmd_wait *wait)
{
	return max_t(long, wait->until - jiffies, 1);
}

/*
 * Waits for a free ring entry. Each command ends within its time limit, and at
 * most one abandoned query occupies an entry, so the wait is bounded.
 */
static int fakernic_cmdq_reserve(struct fakernic_cmdq *cmdq,
				 struct fakernic_cmd_wait *wait)
{
	if (wait->may_give_up)
		return down_timeout(&cmdq->free, fakernic_time_left(wait)) ?
			-ETIMEDOUT : 0;
	down(&cmdq->free);
	return 0;
}

static int fakernic_cmdq_run(struct fakernic_dev *dev,
			     struct fakernic_cmd_wait *wait,
			     const void *req, u32 req_size)
{
	struct device *device = &dev->pdev->dev;
	u16 opcode = wait->opcode;
	u64 begin = ktime_get_ns();
	int ret;

	if (WARN_ON_ONCE(req_size > FAKERNIC_CMD_PAYLOAD ||
			 wait->resp_size > FAKERNIC_CMD_PAYLOAD))
		return -EINVAL;
	init_completion(&wait->done);
	ret = fakernic_cmdq_reserve(&dev->cmdq, wait);
	if (ret)
		return ret;
	ret = fakernic_cmdq_submit(dev, wait, req, req_size);
	if (ret)
		return ret;
	ret = fakernic_cmdq_wait(dev, wait);
	trace_fakernic_cmd(dev->pdev, opcode, wait->status, wait->detail, ret,
			   ktime_get_ns() - begin);
	if (ret)
		return ret;
	if (wait->status != FAKERNIC_CMD_OK)
		dev_dbg_ratelimited(device, "%s refused: %s, at byte %u %s\n",
				    fakernic_cmd_name(opcode),
				    fakernic_cmd_status_name(wait->status),
				    wait->detail,
				    fakernic_cmd_field(opcode, wait->detail));
	return fakernic_cmd_status_errno(wait->status);
}

int fakernic_cmdq_exec(struct fakernic_dev *dev, u16 opcode,
		       const void *req, u32 req_size,
		       void *resp, u32 resp_size)
{
	struct fakernic_cmd_wait wait = {
		.resp = resp,
		.resp_size = resp_size,
		.opcode = opcode,
	};

	return fakernic_cmdq_run(dev, &wait, req, req_size);
}

int fakernic_cmdq_query(struct fakernic_dev *dev, u16 opcode,
			const void *req, u32 req_size,
			void *resp, u32 resp_size)
{
	struct fakernic_cmd_wait wait = {
		.resp = resp,
		.resp_size = resp_size,
		.opcode = opcode,
		.may_give_up = true,
		.until = jiffies + FAKERNIC_QUERY_TIMEOUT_S * HZ,
	};
	int ret;

	/* One at a time: abandoned queries must not fill the ring. */
	if (down_timeout(&dev->cmdq.query_slot, fakernic_time_left(&wait)))
		return -ETIMEDOUT;
	ret = fakernic_cmdq_run(dev, &wait, req, req_size);
	up(&dev->cmdq.query_slot);
	return ret;
}
