// SPDX-License-Identifier: GPL-2.0-only
/*
 * Creates and destroys a channel's queues in the device, and handles its
 * completions. After an error completion all queues of the net_device are
 * destroyed and created again.
 */
#include <linux/ethtool.h>
#include <linux/jiffies.h>
#include <linux/log2.h>
#include <fakernic/cmdq.h>
#include <fakernic/cq.h>
#include <fakernic/qp.h>
#include <fakernic/wq.h>
#include "../compat/compat.h"
#include "../core/cmd.h"
#include "../core/device.h"
#include "../core/object.h"
#include "../core/queue.h"
#include "channel.h"
#include "netdev.h"
#include "rx.h"
#include "tx.h"

/*
 * Restarted queues that work for this long are healthy. Their next error is a
 * new fault, so the restart delay begins at its minimum again.
 */
#define FAKERNIC_RESTART_HEALTHY		HZ

/* The limit of send completions per NAPI poll, to let other work run. */
#define FAKERNIC_SENDS_PER_POLL		128

static void fakernic_channel_cq_complete(struct fakernic_cq_hw *hw)
{
	napi_schedule(&container_of(hw, struct fakernic_channel, cq)->napi);
}

void fakernic_restart_later(struct fakernic_netdev *priv)
{
	WRITE_ONCE(priv->restart_of, READ_ONCE(priv->generation));
	if (delayed_work_pending(&priv->restart_work))
		return;
	if (READ_ONCE(priv->up) &&
	    time_after(jiffies,
		       READ_ONCE(priv->up_since) + FAKERNIC_RESTART_HEALTHY))
		WRITE_ONCE(priv->restarts, 0);
	/* fakernic_tx_timeout() uses the same workqueue. */
	queue_delayed_work(system_dfl_wq, &priv->restart_work,
			   fakernic_pause(READ_ONCE(priv->restarts)));
}

/*
 * A send or receive failed. The device reports that by this completion only.
 * The queue then flushes all later requests. Their completions still reveal the
 * error if the first one is lost.
 */
static void fakernic_channel_error(struct fakernic_channel *ch,
				   const struct fakernic_cqe *cqe)
{
	bool recv = cqe->opcode >= FAKERNIC_CQE_RECV;
	struct net_device *netdev = ch->netdev;

	if (recv)
		DEV_STATS_INC(netdev, rx_errors);
	else
		DEV_STATS_INC(netdev, tx_errors);
	if (cqe->status != FAKERNIC_WC_WR_FLUSH_ERR)
		netdev_err(netdev, "%s failed: status %u, vendor error %u\n",
			   recv ? "receive" : "send", cqe->status,
			   le16_to_cpu(cqe->vendor_err));
	fakernic_restart_later(ch->priv);
}

static void fakernic_channel_cq_fail(struct fakernic_cq_hw *hw)
{
	struct fakernic_channel *ch =
		container_of(hw, struct fakernic_channel, cq);

	netdev_err(ch->netdev, "completion queue is in error\n");
	fakernic_restart_later(ch->priv);
}

static void fakernic_channel_failed(struct fakernic_channel *ch, u8 type,
				    u32 data)
{
	netdev_err(ch->netdev, "queue pair event %u, vendor error %u\n",
		   type, data);
	fakernic_restart_later(ch->priv);
}

static void fakernic_channel_qp_event(struct fakernic_qp_hw *hw, u8 type,
				      u32 data)
{
	fakernic_channel_failed(container_of(hw, struct fakernic_channel, qp),
				type, data);
}

static void fakernic_channel_wq_event(struct fakernic_qp_hw *hw, u8 type,
				      u32 data)
{
	fakernic_channel_failed(container_of(hw, struct fakernic_channel, wq),
				type, data);
}

static void fakernic_channel_complete(struct fakernic_channel *ch,
				      const struct fakernic_cqe *cqe,
				      int budget)
{
	bool known = cqe->opcode >= FAKERNIC_CQE_RECV ?
		     fakernic_rx_complete(ch, cqe) :
		     fakernic_tx_complete(ch, cqe, budget);

	if (!known)
		/* Later completions will not match their requests, either. */
		fakernic_restart_later(ch->priv);
	else if (cqe->status != FAKERNIC_WC_SUCCESS)
		fakernic_channel_error(ch, cqe);
}

static int fakernic_channel_poll(struct napi_struct *napi, int budget)
{
	struct fakernic_channel *ch =
		container_of(napi, struct fakernic_channel, napi);
	u32 start = ch->cq.ci, rx_start = ch->rx_pi;
	struct fakernic_cqe cqe;
	int work = 0, sends = 0;

	while (fakernic_cq_hw_next(&ch->cq, &cqe)) {
		if (cqe.opcode >= FAKERNIC_CQE_RECV) {
			if (work == budget)
				break;
			work++;
		} else if (sends++ == FAKERNIC_SENDS_PER_POLL) {
			work = budget;
			break;
		}
		fakernic_channel_complete(ch, &cqe, budget);
		ch->cq.ci++;
	}
	if (ch->cq.ci != start)
		fakernic_queue_publish(&ch->cq.queue, ch->cq.ci);
	if (ch->rx_pi != rx_start)
		fakernic_queue_publish(&ch->rq, ch->rx_pi);
	fakernic_tx_done(ch);
	if (work < budget && napi_complete_done(napi, work))
		fakernic_cq_hw_arm(&ch->cq, false);
	return work;
}

bool fakernic_channel_check(struct fakernic_channel *ch)
{
	u32 ci = READ_ONCE(ch->cq.ci);
	struct fakernic_cqe cqe;
	bool waits = fakernic_cq_hw_peek(&ch->cq, ci, &cqe);
	bool lost = waits && ch->waited && ch->waited_ci == ci &&
		    napi_schedule_prep(&ch->napi);

	ch->waited = waits && !lost;
	ch->waited_ci = ci;
	if (lost) {
		/* Its softirq runs at local_bh_enable(). */
		local_bh_disable();
		__napi_schedule(&ch->napi);
		local_bh_enable();
	}
	return lost;
}

void fakernic_channel_init(struct fakernic_channel *ch,
			   struct fakernic_netdev *priv, u32 index)
{
	ch->dev = priv->dev;
	ch->netdev = priv->netdev;
	ch->priv = priv;
	ch->index = index;
	netif_napi_add(ch->netdev, &ch->napi, fakernic_channel_poll);
}

int fakernic_channel_coalesce(struct fakernic_channel *ch)
{
	const struct fakernic_shape *shape = &ch->priv->shape;
	u16 frames = shape->coalesce_frames;

	if (!(ch->dev->features & FAKERNIC_FEATURE_CQ_MODERATION))
		return 0;
	/* Only a time is set: do not limit the number of frames. */
	if (!frames && shape->coalesce_us)
		frames = U16_MAX;
	return fakernic_cmd_modify_cq(ch->dev, ch->cq.cqn, frames,
				      shape->coalesce_us);
}

static int fakernic_channel_create_cq(struct fakernic_channel *ch)
{
	const struct fakernic_shape *shape = &ch->priv->shape;
	/* The CQ holds the completions of both queues. */
	u8 log_depth = max(shape->tx_log_depth, shape->rx_log_depth) + 1;
	struct fakernic_create_cq_req req = {
		.log_depth = log_depth,
		.uar = cpu_to_le32(FAKERNIC_KERNEL_UAR),
	};
	int ret;

	ret = fakernic_queue_alloc(ch->dev, &ch->cq.queue, log_depth,
				   ilog2(sizeof(struct fakernic_cqe)));
	if (ret)
		return ret;
	ch->waited = false;
	ch->cq.complete = fakernic_channel_cq_complete;
	ch->cq.fail = fakernic_channel_cq_fail;
	fakernic_queue_pages(&ch->cq.queue, &req.pages);
	ret = fakernic_cq_hw_create(ch->dev, &ch->cq, &req, ch->index);
	if (ret)
		goto err_free;
	ret = shape->coalesce_us ? fakernic_channel_coalesce(ch) : 0;
	if (!ret)
		return 0;
	fakernic_cq_hw_drop(&ch->cq);
err_free:
	fakernic_queue_free(ch->dev, &ch->cq.queue);
	return ret;
}

static void fakernic_channel_destroy_cq(struct fakernic_channel *ch)
{
	fakernic_cq_hw_drop(&ch->cq);
	fakernic_queue_free(ch->dev, &ch->cq.queue);
}

/* Creates the receive queue as a WQ of its own. */
static int fakernic_channel_create_wq(struct fakernic_channel *ch)
{
	struct fakernic_create_wq_req req = {
		.type = FAKERNIC_WQT_RQ,
		.log_depth = ch->rq.log_depth,
		.log_stride = ch->rq.log_stride,
		.pdn = cpu_to_le32(ch->priv->pdn),
		.cqn = cpu_to_le32(ch->cq.cqn),
	};
	int ret;

	fakernic_queue_pages(&ch->rq, &req.pages);
	ch->wq.event = fakernic_channel_wq_event;
	ret = fakernic_wq_hw_create(ch->dev, &ch->wq, &req);
	if (ret)
		goto err;
	ret = fakernic_cmd_modify_wq(ch->dev, ch->wq.qpn, FAKERNIC_WQS_RDY);
	if (!ret)
		return 0;
	fakernic_wq_hw_drop(ch->dev, &ch->wq);
err:
	ch->wq.qpn = 0;
	return ret;
}

static void fakernic_channel_destroy_wq(struct fakernic_channel *ch)
{
	if (ch->wq.qpn)
		fakernic_wq_hw_drop(ch->dev, &ch->wq);
	ch->wq.qpn = 0;
}

/* Moves the QP from RESET to RTS. A raw-packet QP needs no attributes. */
static int fakernic_channel_start_qp(struct fakernic_channel *ch)
{
	enum fakernic_qp_state state;
	int ret;

	for (state = FAKERNIC_QPS_INIT; state <= FAKERNIC_QPS_RTS; state++) {
		ret = fakernic_qp_hw_set_state(ch->dev, &ch->qp, state);
		if (ret)
			return ret;
	}
	return 0;
}

static int fakernic_channel_create_qp(struct fakernic_channel *ch)
{
	struct fakernic_create_qp_req req = {
		.type = FAKERNIC_QP_RAW_PACKET,
		.sq_log_depth = ch->sq.log_depth,
		.rq_log_depth = FAKERNIC_QUEUE_NONE,
		.pdn = cpu_to_le32(ch->priv->pdn),
		.send_cqn = cpu_to_le32(ch->cq.cqn),
		.recv_cqn = cpu_to_le32(ch->cq.cqn),
		.uar = cpu_to_le32(FAKERNIC_KERNEL_UAR),
	};
	int ret;

	fakernic_queue_pages(&ch->sq, &req.sq_pages);
	if (!ch->wq.qpn) {
		req.rq_log_depth = ch->rq.log_depth;
		req.rq_log_stride = ch->rq.log_stride;
		fakernic_queue_pages(&ch->rq, &req.rq_pages);
	}
	ch->qp.event = fakernic_channel_qp_event;
	ret = fakernic_qp_hw_create(ch->dev, &ch->qp, &req);
	if (ret)
		return ret;
	ret = fakernic_channel_start_qp(ch);
	if (ret)
		fakernic_qp_hw_drop(ch->dev, &ch->qp);
	return ret;
}

/* Creates the queues in the device; their memory has been allocated. */
static int fakernic_channel_create(struct fakernic_channel *ch)
{
	int ret;

	ret = fakernic_channel_create_cq(ch);
	if (ret)
		return ret;
	if (ch->priv->shape.channels > 1) {
		ret = fakernic_channel_create_wq(ch);
		if (ret)
			goto err_destroy_cq;
	}
	ret = fakernic_channel_create_qp(ch);
	if (!ret)
		return 0;
	fakernic_channel_destroy_wq(ch);
err_destroy_cq:
	fakernic_channel_destroy_cq(ch);
	return ret;
}

int fakernic_channel_up(struct fakernic_channel *ch)
{
	int ret;

	ret = fakernic_tx_init(ch);
	if (ret)
		return ret;
	ret = fakernic_rx_init(ch);
	if (ret)
		goto err_tx_cleanup;
	ret = fakernic_channel_create(ch);
	if (!ret)
		return 0;
	fakernic_rx_cleanup(ch);
err_tx_cleanup:
	fakernic_tx_cleanup(ch);
	return ret;
}

void fakernic_channel_down(struct fakernic_channel *ch)
{
	fakernic_qp_hw_drop(ch->dev, &ch->qp);
	fakernic_channel_destroy_wq(ch);
	fakernic_channel_destroy_cq(ch);
	fakernic_rx_cleanup(ch);
	fakernic_tx_cleanup(ch);
}
