// SPDX-License-Identifier: GPL-2.0-only
/*
 * Event queues and interrupts. EQ 0 receives asynchronous events and shares
 * vector 0 with the command queue. Each further EQ has its own vector and
 * receives completion events.
 *
 * An event names its object by number, and the device reuses numbers. Two
 * rules keep events away from the wrong object and from freed memory:
 * - Each event is delivered under the lock of its EQ.
 * - After the command that creates or destroys an object, object.c calls
 *   fakernic_eq_sync(). That consumes all events for the number's former owner
 *   and waits until none of them is being delivered.
 */
#include <linux/interrupt.h>
#include <linux/log2.h>
#include <linux/slab.h>
#include <linux/xarray.h>
#include <fakernic/cmdq.h>
#include <fakernic/doorbell.h>
#include <fakernic/eq.h>
#include <fakernic/regs.h>
#include "../compat/compat.h"
#include "cmd.h"
#include "cmdq.h"
#include "device.h"
#include "eq.h"
#include "explain.h"
#include "object.h"
#include "queue.h"
#include "regs.h"
#include "trace.h"

#define FAKERNIC_EQ_LOG_DEPTH	9

static void fakernic_notify_cq(struct fakernic_dev *dev, u32 cqn, u8 type)
{
	struct fakernic_cq_hw *cq = xa_load(&dev->cqs, cqn);

	if (!cq)
		return;
	if (type == FAKERNIC_EVENT_COMPLETION)
		cq->complete(cq);
	else
		cq->fail(cq);
}

static void fakernic_notify_qp(struct fakernic_dev *dev, u32 qpn, u8 type,
			       u32 data)
{
	struct fakernic_qp_hw *qp = xa_load(&dev->qps, qpn);

	if (qp)
		qp->event(qp, type, data);
}

static void fakernic_notify_srq(struct fakernic_dev *dev, u32 srqn, u8 type,
				u32 data)
{
	struct fakernic_srq_hw *srq = xa_load(&dev->srqs, srqn);

	if (srq)
		srq->event(srq, type, data);
}

static void fakernic_dispatch(struct fakernic_dev *dev, u8 type, u32 id,
			      u32 data)
{
	switch (type) {
	case FAKERNIC_EVENT_COMPLETION:
	case FAKERNIC_EVENT_CQ_ERROR:
		fakernic_notify_cq(dev, id, type);
		break;
	case FAKERNIC_EVENT_QP_FATAL:
	case FAKERNIC_EVENT_QP_REQUEST_ERROR:
	case FAKERNIC_EVENT_QP_ACCESS_ERROR:
	case FAKERNIC_EVENT_COMM_ESTABLISHED:
	case FAKERNIC_EVENT_SQ_DRAINED:
	case FAKERNIC_EVENT_PATH_MIGRATED:
	case FAKERNIC_EVENT_PATH_MIGRATION_ERROR:
	case FAKERNIC_EVENT_LAST_WQE_REACHED:
		fakernic_notify_qp(dev, id, type, data);
		break;
	case FAKERNIC_EVENT_SRQ_ERROR:
	case FAKERNIC_EVENT_SRQ_LIMIT:
		fakernic_notify_srq(dev, id, type, data);
		break;
	case FAKERNIC_EVENT_PORT_ACTIVE:
	case FAKERNIC_EVENT_PORT_ERROR:
	case FAKERNIC_EVENT_PORT_CHANGED:
		mod_delayed_work(system_dfl_wq, &dev->port.work, 0);
		break;
	case FAKERNIC_EVENT_PAGE_REQUEST:
		mod_delayed_work(system_dfl_wq, &dev->page_request_work, 0);
		break;
	case FAKERNIC_EVENT_DEVICE_FATAL:
		fakernic_cmdq_kill(dev, FAKERNIC_DEATH_FATAL);
		break;
	default:
		dev_warn_ratelimited(&dev->pdev->dev,
				     "unknown event %u for object %#x\n",
				     type, id);
	}
}

/* Copies the next event. False: not written yet. Caller holds the lock. */
static bool fakernic_eq_peek_locked(const struct fakernic_eq *eq,
				    struct fakernic_eqe *eqe)
{
	BUILD_BUG_ON(offsetof(typeof(*eqe), owner) != sizeof(*eqe) - 1);
	return fakernic_queue_read(&eq->queue, eq->ci, eqe, sizeof(*eqe));
}

/* Delivers pending events, at most one ring full. Caller holds the lock. */
static bool fakernic_eq_consume_locked(struct fakernic_eq *eq)
{
	struct fakernic_eqe eqe;
	u32 start = eq->ci;

	while (eq->ci - start <= eq->queue.mask &&
	       fakernic_eq_peek_locked(eq, &eqe)) {
		trace_fakernic_eqe(eq->dev->pdev, eq->eqn, eq->ci, eqe.type,
				   le32_to_cpu(eqe.id), le32_to_cpu(eqe.data));
		fakernic_dispatch(eq->dev, eqe.type, le32_to_cpu(eqe.id),
				  le32_to_cpu(eqe.data));
		eq->ci++;
	}
	return eq->ci != start;
}

/* Releases the consumed entries and arms the interrupt for further events. */
static void fakernic_eq_arm_locked(struct fakernic_eq *eq)
{
	/*
	 * Loads of the entries come before the doorbell that frees them;
	 * writeq() orders only stores. Pairs with the device, which overwrites
	 * entries after it has received the doorbell.
	 */
	dma_mb();
	fakernic_doorbell(eq->dev, FAKERNIC_DOORBELL_EQ, FAKERNIC_DOORBELL_ARM,
			  eq->eqn, eq->ci);
}

static irqreturn_t fakernic_eq_interrupt(int irq, void *data)
{
	struct fakernic_eq *eq = data;
	unsigned long flags;

	spin_lock_irqsave(&eq->lock, flags);
	if (eq->live) {
		fakernic_eq_consume_locked(eq);
		fakernic_eq_arm_locked(eq);
	}
	spin_unlock_irqrestore(&eq->lock, flags);
	/* A fatal error may have found no room for its event in the EQ. */
	if (eq->vector == FAKERNIC_VECTOR_CMDQ &&
	    !fakernic_cmdq_check(eq->dev))
		fakernic_cmdq_interrupt(eq->dev);
	return IRQ_HANDLED;
}

void fakernic_eq_sync(struct fakernic_eq *eq)
{
	unsigned long flags;

	/* If NAPI is scheduled, its softirq runs at local_bh_enable(). */
	local_bh_disable();
	spin_lock_irqsave(&eq->lock, flags);
	if (eq->live && fakernic_eq_consume_locked(eq))
		fakernic_eq_arm_locked(eq);
	spin_unlock_irqrestore(&eq->lock, flags);
	local_bh_enable();
}

/* Returns true if an event lost its interrupt. Caller holds the lock. */
static bool fakernic_eq_check_locked(struct fakernic_eq *eq)
{
	struct fakernic_eqe eqe;
	bool waits = eq->live && fakernic_eq_peek_locked(eq, &eqe);
	bool lost = waits && eq->waited && eq->waited_ci == eq->ci;

	if (lost) {
		fakernic_eq_consume_locked(eq);
		fakernic_eq_arm_locked(eq);
	}
	eq->waited = waits && !lost;
	eq->waited_ci = eq->ci;
	return lost;
}

void fakernic_eqs_check(struct fakernic_dev *dev)
{
	unsigned long flags;
	bool lost;
	u32 i;

	for (i = 0; i < dev->eq_count; i++) {
		struct fakernic_eq *eq = &dev->eqs[i];

		local_bh_disable();
		spin_lock_irqsave(&eq->lock, flags);
		lost = fakernic_eq_check_locked(eq);
		spin_unlock_irqrestore(&eq->lock, flags);
		local_bh_enable();
		if (!lost)
			continue;
		atomic_inc(&dev->lost_interrupts);
		dev_warn_once(&dev->pdev->dev,
			      "events of vector %u came without an interrupt\n",
			      eq->vector);
	}
}

static int fakernic_eq_init(struct fakernic_dev *dev, u32 index)
{
	struct fakernic_eq *eq = &dev->eqs[index];
	int ret;

	eq->dev = dev;
	eq->vector = index;
	spin_lock_init(&eq->lock);
	ret = fakernic_queue_alloc(dev, &eq->queue, FAKERNIC_EQ_LOG_DEPTH,
				   ilog2(sizeof(struct fakernic_eqe)));
	if (ret)
		return ret;
	if (index == FAKERNIC_EQ_ASYNC)
		snprintf(eq->name, sizeof(eq->name), "fakernic-async@%s",
			 pci_name(dev->pdev));
	else
		snprintf(eq->name, sizeof(eq->name), "fakernic-comp%u@%s",
			 index - FAKERNIC_EQ_COMPLETION, pci_name(dev->pdev));
	ret = request_irq(pci_irq_vector(dev->pdev, index),
			  fakernic_eq_interrupt, 0, eq->name, eq);
	if (ret)
		fakernic_queue_free(dev, &eq->queue);
	return ret;
}

int fakernic_eqs_init(struct fakernic_dev *dev)
{
	u32 wanted = min3(num_online_cpus() + FAKERNIC_VECTOR_COMPLETION,
			  fakernic_read(dev, FAKERNIC_REG_VECTOR_COUNT),
			  (u32)FAKERNIC_VECTOR_COUNT);
	u32 i;
	int ret;

	if (wanted <= FAKERNIC_VECTOR_COMPLETION) {
		dev_err(&dev->pdev->dev,
			"device has %u interrupt vectors, 2 are required\n",
			wanted);
		return -ENODEV;
	}
	ret = pci_alloc_irq_vectors(dev->pdev, FAKERNIC_VECTOR_COMPLETION + 1,
				    wanted, PCI_IRQ_MSIX);
	if (ret < 0) {
		dev_err(&dev->pdev->dev, "no MSI-X vectors: %d\n", ret);
		return ret;
	}
	dev->eq_count = ret;
	dev->eqs = kcalloc(dev->eq_count, sizeof(*dev->eqs), GFP_KERNEL);
	if (!dev->eqs) {
		ret = -ENOMEM;
		goto err_free_vectors;
	}
	for (i = 0; i < dev->eq_count; i++) {
		ret = fakernic_eq_init(dev, i);
		if (ret)
			goto err_cleanup;
	}
	return 0;

err_cleanup:
	dev->eq_count = i;
	fakernic_eqs_free_irqs(dev);
	fakernic_eqs_cleanup(dev);
	return ret;

err_free_vectors:
	dev->eq_count = 0;
	pci_free_irq_vectors(dev->pdev);
	return ret;
}

void fakernic_eqs_reset(struct fakernic_dev *dev)
{
	unsigned long flags;
	u32 i;

	for (i = 0; i < dev->eq_count; i++) {
		struct fakernic_eq *eq = &dev->eqs[i];

		spin_lock_irqsave(&eq->lock, flags);
		eq->live = false;
		spin_unlock_irqrestore(&eq->lock, flags);
	}
}

void fakernic_eqs_free_irqs(struct fakernic_dev *dev)
{
	u32 i;

	for (i = 0; i < dev->eq_count; i++)
		free_irq(pci_irq_vector(dev->pdev, i), &dev->eqs[i]);
}

void fakernic_eqs_cleanup(struct fakernic_dev *dev)
{
	u32 i;

	for (i = 0; i < dev->eq_count; i++)
		fakernic_queue_free(dev, &dev->eqs[i].queue);
	dev->eq_count = 0;
	kfree(dev->eqs);
	dev->eqs = NULL;
	pci_free_irq_vectors(dev->pdev);
}

static int fakernic_eq_create(struct fakernic_dev *dev, struct fakernic_eq *eq)
{
	struct fakernic_create_eq_req req = {
		.log_depth = eq->queue.log_depth,
		.vector = cpu_to_le16(eq->vector),
		.async = eq->vector == FAKERNIC_EQ_ASYNC,
	};
	unsigned long flags;
	int ret;

	fakernic_queue_pages(&eq->queue, &req.pages);
	ret = fakernic_cmd_create_eq(dev, &req, &eq->eqn);
	if (ret)
		return ret;
	spin_lock_irqsave(&eq->lock, flags);
	eq->live = true;
	fakernic_eq_arm_locked(eq);
	spin_unlock_irqrestore(&eq->lock, flags);
	return 0;
}

int fakernic_eqs_create(struct fakernic_dev *dev)
{
	u32 i;
	int ret;

	for (i = 0; i < dev->eq_count; i++) {
		ret = fakernic_eq_create(dev, &dev->eqs[i]);
		if (ret) {
			dev_err(&dev->pdev->dev,
				"event queue %u cannot be created: %d\n", i,
				ret);
			return ret;
		}
	}
	return 0;
}
