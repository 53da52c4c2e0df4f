// SPDX-License-Identifier: GPL-2.0-only
/*
 * The net_device: an Ethernet port on the same queues that RDMA uses. Opening
 * it creates a CQ and a raw-packet QP and tells the port to deliver there all
 * frames that are not RoCEv2; stopping it undoes that. Its link is that of the
 * RDMA port, too: see port.c. It stays, with all its settings, while the
 * hardware goes down and comes up again: detached, without queues.
 */
#include <linux/etherdevice.h>
#include <linux/ethtool.h>
#include <linux/log2.h>
#include <linux/rtnetlink.h>
#include <linux/string.h>
#include <fakernic/cmdq.h>
#include <fakernic/cq.h>
#include <fakernic/mr.h>
#include <fakernic/qp.h>
#include <fakernic/regs.h>
#include "cmd.h"
#include "device.h"
#include "ethtool.h"
#include "gid.h"
#include "hw.h"
#include "netdev.h"
#include "port.h"
#include "queue.h"
#include "regs.h"
#include "rx.h"
#include "tx.h"

#define FAKERNIC_TX_TIMEOUT_SECONDS	20
#define FAKERNIC_RESTART_DELAY		(HZ / 2)

static struct fakernic_netdev *fakernic_netdev_of(struct fakernic_dev *dev)
{
	return netdev_priv(dev->netdev);
}

static u8 fakernic_rx_filter(const struct net_device *netdev)
{
	u8 filter = FAKERNIC_FILTER_BROADCAST;

	if (netdev->flags & IFF_PROMISC)
		filter |= FAKERNIC_FILTER_PROMISCUOUS;
	/* The device knows only none or all of the groups. */
	if (netdev->flags & IFF_ALLMULTI || !netdev_mc_empty(netdev))
		filter |= FAKERNIC_FILTER_MULTICAST;
	return filter;
}

static void fakernic_rx_mode_work(struct work_struct *work)
{
	struct fakernic_netdev *priv =
		container_of(work, struct fakernic_netdev, rx_mode_work);
	struct fakernic_set_port_req req = {
		.mask = cpu_to_le32(FAKERNIC_PORT_FILTER),
		.filter = fakernic_rx_filter(priv->netdev),
	};
	int ret;

	ret = fakernic_cmd_set_port(priv->dev, &req);
	if (ret && !READ_ONCE(priv->dev->dead))
		netdev_err(priv->netdev, "receive filter %#x: %d\n",
			   req.filter, ret);
}

/* Called under a spinlock; commands sleep. */
static void fakernic_set_rx_mode(struct net_device *netdev)
{
	struct fakernic_netdev *priv = netdev_priv(netdev);

	schedule_work(&priv->rx_mode_work);
}

static void fakernic_netdev_cq_complete(struct fakernic_cq_hw *hw)
{
	napi_schedule(&container_of(hw, struct fakernic_netdev, cq)->napi);
}

static void fakernic_netdev_restart(struct fakernic_netdev *priv)
{
	schedule_delayed_work(&priv->restart_work, FAKERNIC_RESTART_DELAY);
}

/*
 * A send or receive failed. That completion is all the device says about it:
 * the QP then is in an error state and only flushes what follows.
 */
static void fakernic_netdev_error(struct fakernic_netdev *priv,
				  const struct fakernic_cqe *cqe)
{
	bool recv = cqe->opcode >= FAKERNIC_CQE_RECV;
	struct net_device *netdev = priv->netdev;

	if (recv)
		DEV_STATS_INC(netdev, rx_errors);
	else
		DEV_STATS_INC(netdev, tx_errors);
	if (cqe->status == FAKERNIC_WC_WR_FLUSH_ERR)
		return;
	netdev_err(netdev, "%s failed: status %u, vendor error %u\n",
		   recv ? "receive" : "send", cqe->status,
		   le16_to_cpu(cqe->vendor_err));
	fakernic_netdev_restart(priv);
}

static void fakernic_netdev_cq_fail(struct fakernic_cq_hw *hw)
{
	struct fakernic_netdev *priv =
		container_of(hw, struct fakernic_netdev, cq);

	netdev_err(priv->netdev, "completion queue is in error\n");
	fakernic_netdev_restart(priv);
}

static void fakernic_netdev_qp_event(struct fakernic_qp_hw *hw, u8 type,
				     u32 data)
{
	struct fakernic_netdev *priv =
		container_of(hw, struct fakernic_netdev, qp);

	netdev_err(priv->netdev, "queue pair event %u, vendor error %u\n",
		   type, data);
	fakernic_netdev_restart(priv);
}

static void fakernic_netdev_complete(struct fakernic_netdev *priv,
				     const struct fakernic_cqe *cqe,
				     int budget)
{
	bool known = cqe->opcode >= FAKERNIC_CQE_RECV ?
		     fakernic_rx_complete(priv, cqe) :
		     fakernic_tx_complete(priv, cqe, budget);

	if (known && cqe->status != FAKERNIC_WC_SUCCESS)
		fakernic_netdev_error(priv, cqe);
}

static int fakernic_poll(struct napi_struct *napi, int budget)
{
	struct fakernic_netdev *priv =
		container_of(napi, struct fakernic_netdev, napi);
	u32 start = priv->cq.ci, rx_start = priv->rx_pi;
	struct fakernic_cqe *cqe;
	int work = 0;

	while ((cqe = fakernic_cq_hw_next(&priv->cq))) {
		if (cqe->opcode >= FAKERNIC_CQE_RECV) {
			if (work == budget)
				break;
			work++;
		}
		fakernic_netdev_complete(priv, cqe, budget);
		priv->cq.ci++;
	}
	if (priv->cq.ci != start)
		fakernic_queue_publish(&priv->cq.queue, priv->cq.ci);
	if (priv->rx_pi != rx_start)
		fakernic_queue_publish(&priv->rq, priv->rx_pi);
	fakernic_tx_wake(priv);
	if (work < budget && napi_complete_done(napi, work))
		fakernic_cq_hw_arm(&priv->cq, false);
	return work;
}

static int fakernic_netdev_create_cq(struct fakernic_netdev *priv)
{
	struct fakernic_create_cq_req req = {
		.log_depth = FAKERNIC_NETDEV_CQ_LOG_DEPTH,
		.uar = cpu_to_le32(FAKERNIC_KERNEL_UAR),
	};
	int ret;

	ret = fakernic_queue_alloc(priv->dev, &priv->cq.queue,
				   FAKERNIC_NETDEV_CQ_LOG_DEPTH,
				   ilog2(sizeof(struct fakernic_cqe)));
	if (ret)
		return ret;
	priv->cq.complete = fakernic_netdev_cq_complete;
	priv->cq.fail = fakernic_netdev_cq_fail;
	fakernic_queue_pages(&priv->cq.queue, &req.pages);
	ret = fakernic_cq_hw_create(priv->dev, &priv->cq, &req, 0);
	if (ret)
		fakernic_queue_free(priv->dev, &priv->cq.queue);
	return ret;
}

/* From RESET to RTS; a raw-packet QP needs to be told nothing more. */
static int fakernic_netdev_create_qp(struct fakernic_netdev *priv)
{
	struct fakernic_create_qp_req req = {
		.type = FAKERNIC_QP_RAW_PACKET,
		.sq_log_depth = priv->sq.log_depth,
		.rq_log_depth = priv->rq.log_depth,
		.rq_log_stride = priv->rq.log_stride,
		.pdn = cpu_to_le32(priv->pdn),
		.send_cqn = cpu_to_le32(priv->cq.cqn),
		.recv_cqn = cpu_to_le32(priv->cq.cqn),
		.uar = cpu_to_le32(FAKERNIC_KERNEL_UAR),
	};
	enum fakernic_qp_state state;
	int ret;

	fakernic_queue_pages(&priv->sq, &req.sq_pages);
	fakernic_queue_pages(&priv->rq, &req.rq_pages);
	priv->qp.event = fakernic_netdev_qp_event;
	ret = fakernic_qp_hw_create(priv->dev, &priv->qp, &req);
	if (ret)
		return ret;
	for (state = FAKERNIC_QPS_INIT; state <= FAKERNIC_QPS_RTS; state++) {
		ret = fakernic_qp_hw_set_state(priv->dev, &priv->qp, state);
		if (ret) {
			fakernic_qp_hw_destroy(priv->dev, &priv->qp);
			return ret;
		}
	}
	return 0;
}

/* Who receives; qpn 0: nobody. The filter only when there is somebody. */
static int fakernic_netdev_set_port(struct fakernic_netdev *priv, u32 qpn)
{
	struct net_device *netdev = priv->netdev;
	struct fakernic_set_port_req req = {
		.mask = cpu_to_le32(FAKERNIC_PORT_QPN | FAKERNIC_PORT_MTU |
				    FAKERNIC_PORT_MAC),
		.qpn = cpu_to_le32(qpn),
		.mtu = cpu_to_le32(netdev->mtu),
	};

	memcpy(req.mac, netdev->dev_addr, ETH_ALEN);
	if (qpn) {
		req.mask |= cpu_to_le32(FAKERNIC_PORT_FILTER);
		req.filter = fakernic_rx_filter(netdev);
	}
	return fakernic_cmd_set_port(priv->dev, &req);
}

static int fakernic_netdev_up(struct fakernic_netdev *priv)
{
	struct fakernic_dev *dev = priv->dev;
	int ret;

	ret = fakernic_tx_init(priv);
	if (ret)
		return ret;
	ret = fakernic_rx_init(priv);
	if (ret)
		goto err_tx_cleanup;
	ret = fakernic_netdev_create_cq(priv);
	if (ret)
		goto err_rx_cleanup;
	ret = fakernic_netdev_create_qp(priv);
	if (ret)
		goto err_destroy_cq;
	napi_enable(&priv->napi);
	ret = fakernic_netdev_set_port(priv, priv->qp.qpn);
	if (ret)
		goto err_destroy_qp;
	WRITE_ONCE(priv->up, true);
	fakernic_cq_hw_arm(&priv->cq, false);
	/* After a restart there may be frames that wait for it. */
	netif_wake_queue(priv->netdev);
	return 0;

err_destroy_qp:
	napi_disable(&priv->napi);
	fakernic_qp_hw_destroy(dev, &priv->qp);
err_destroy_cq:
	fakernic_cq_hw_destroy(&priv->cq);
	fakernic_queue_free(dev, &priv->cq.queue);
err_rx_cleanup:
	fakernic_rx_cleanup(priv);
err_tx_cleanup:
	fakernic_tx_cleanup(priv);
	netdev_err(priv->netdev, "queues cannot be set up: %d\n", ret);
	return ret;
}

static void fakernic_netdev_down(struct fakernic_netdev *priv)
{
	struct fakernic_dev *dev = priv->dev;

	if (!priv->up)
		return;
	/* Whoever comes now, after the core has started the queue, drops. */
	WRITE_ONCE(priv->up, false);
	/* First NAPI, which would wake the queue again. */
	napi_disable(&priv->napi);
	netif_tx_disable(priv->netdev);
	fakernic_netdev_set_port(priv, 0);
	fakernic_qp_hw_destroy(dev, &priv->qp);
	fakernic_cq_hw_destroy(&priv->cq);
	fakernic_queue_free(dev, &priv->cq.queue);
	fakernic_rx_cleanup(priv);
	fakernic_tx_cleanup(priv);
}

/* Has the net_device hardware to work with? Under RTNL. */
static bool fakernic_netdev_works(struct fakernic_netdev *priv)
{
	return priv->ready && !READ_ONCE(priv->dev->dead);
}

/* On a dead device, too: its recovery will bring the queues. */
static int fakernic_open(struct net_device *netdev)
{
	struct fakernic_netdev *priv = netdev_priv(netdev);
	int ret;

	if (!fakernic_netdev_works(priv))
		return 0;
	ret = fakernic_netdev_up(priv);
	if (ret)
		return ret;
	schedule_work(&priv->dev->port.work);
	return 0;
}

static int fakernic_stop(struct net_device *netdev)
{
	struct fakernic_netdev *priv = netdev_priv(netdev);

	fakernic_netdev_down(priv);
	fakernic_port_stopped(priv->dev);
	return 0;
}

/* Queues anew, after an error or a timeout of theirs. */
static void fakernic_restart_work(struct work_struct *work)
{
	struct fakernic_netdev *priv =
		container_of(work, struct fakernic_netdev, restart_work.work);

	rtnl_lock();
	if (netif_running(priv->netdev) && fakernic_netdev_works(priv)) {
		netdev_info(priv->netdev, "restarting\n");
		fakernic_netdev_down(priv);
		fakernic_netdev_up(priv);
	}
	rtnl_unlock();
}

static void fakernic_tx_timeout(struct net_device *netdev, unsigned int queue)
{
	struct fakernic_netdev *priv = netdev_priv(netdev);

	netdev_err(netdev, "send timeout: posted up to %u, completed up to %u\n",
		   priv->tx_pi, priv->tx_ci);
	DEV_STATS_INC(netdev, tx_errors);
	fakernic_netdev_restart(priv);
}

static int fakernic_change_mtu(struct net_device *netdev, int mtu)
{
	struct fakernic_netdev *priv = netdev_priv(netdev);
	struct fakernic_set_port_req req = {
		.mask = cpu_to_le32(FAKERNIC_PORT_MTU),
		.mtu = cpu_to_le32(mtu),
	};
	int ret, old = netdev->mtu;

	if (!fakernic_netdev_works(priv)) {
		WRITE_ONCE(netdev->mtu, mtu);
		return 0;
	}
	if (priv->up && fakernic_rx_pages_for(mtu) != priv->rx_pages) {
		fakernic_netdev_down(priv);
		WRITE_ONCE(netdev->mtu, mtu);
		ret = fakernic_netdev_up(priv);
		if (!ret)
			return 0;
		WRITE_ONCE(netdev->mtu, old);
		fakernic_netdev_up(priv);
		return ret;
	}
	ret = fakernic_cmd_set_port(priv->dev, &req);
	if (!ret)
		WRITE_ONCE(netdev->mtu, mtu);
	return ret;
}

static int fakernic_set_mac(struct net_device *netdev, void *address)
{
	struct fakernic_netdev *priv = netdev_priv(netdev);
	struct fakernic_set_port_req req = {
		.mask = cpu_to_le32(FAKERNIC_PORT_MAC),
	};
	struct sockaddr *sockaddr = address;
	u8 old[ETH_ALEN];
	int ret;

	ret = eth_prepare_mac_addr_change(netdev, address);
	if (ret)
		return ret;
	memcpy(req.mac, sockaddr->sa_data, ETH_ALEN);
	ret = fakernic_netdev_works(priv) ?
		fakernic_cmd_set_port(priv->dev, &req) : 0;
	if (ret)
		return ret;
	ether_addr_copy(old, netdev->dev_addr);
	eth_commit_mac_addr_change(netdev, address);
	fakernic_gids_follow_mac(priv->dev, old, netdev->dev_addr);
	return 0;
}

static int fakernic_netdev_init(struct net_device *netdev)
{
	netdev->tstats = netdev_alloc_pcpu_stats(struct pcpu_sw_netstats);
	return netdev->tstats ? 0 : -ENOMEM;
}

static void fakernic_netdev_uninit(struct net_device *netdev)
{
	free_percpu(netdev->tstats);
}

static const struct net_device_ops fakernic_netdev_ops = {
	.ndo_init = fakernic_netdev_init,
	.ndo_uninit = fakernic_netdev_uninit,
	.ndo_open = fakernic_open,
	.ndo_stop = fakernic_stop,
	.ndo_start_xmit = fakernic_start_xmit,
	.ndo_features_check = fakernic_features_check,
	.ndo_tx_timeout = fakernic_tx_timeout,
	.ndo_set_rx_mode = fakernic_set_rx_mode,
	.ndo_set_mac_address = fakernic_set_mac,
	.ndo_validate_addr = eth_validate_addr,
	.ndo_change_mtu = fakernic_change_mtu,
	.ndo_get_stats64 = dev_get_tstats64,
};

/* A PD and a key for all of DMA space: as long as the hardware is up. */
static int fakernic_netdev_alloc_key(struct fakernic_netdev *priv)
{
	struct fakernic_create_mr_req req = {
		.access = cpu_to_le32(FAKERNIC_ACCESS_LOCAL_WRITE),
		.type = FAKERNIC_MR_DMA,
	};
	int ret;

	ret = fakernic_cmd_alloc(priv->dev, FAKERNIC_CMD_ALLOC_PD,
				 &priv->pdn);
	if (ret)
		return ret;
	req.pdn = cpu_to_le32(priv->pdn);
	ret = fakernic_mr_hw_create(priv->dev, &req, &priv->lkey);
	if (ret)
		fakernic_cmd_free(priv->dev, FAKERNIC_CMD_DEALLOC_PD,
				  priv->pdn);
	return ret;
}

static void fakernic_netdev_free_key(struct fakernic_netdev *priv)
{
	fakernic_mr_hw_destroy(priv->dev, priv->lkey);
	fakernic_cmd_free(priv->dev, FAKERNIC_CMD_DEALLOC_PD, priv->pdn);
}

/* What the device can be asked for, and left to be done by the stack. */
static netdev_features_t
fakernic_netdev_features(const struct fakernic_dev *dev)
{
	netdev_features_t features = NETIF_F_SG;

	if (dev->features & FAKERNIC_FEATURE_CSUM)
		features |= NETIF_F_IP_CSUM | NETIF_F_IPV6_CSUM |
			    NETIF_F_RXCSUM;
	if (dev->features & FAKERNIC_FEATURE_TSO)
		features |= NETIF_F_TSO | NETIF_F_TSO6 | NETIF_F_TSO_ECN;
	return features;
}

static void fakernic_netdev_setup(struct net_device *netdev,
				  struct fakernic_netdev *priv)
{
	const struct fakernic_query_port_resp *info = &priv->dev->port.info;
	u32 mac[2] = {
		fakernic_read(priv->dev, FAKERNIC_REG_MAC_LO),
		fakernic_read(priv->dev, FAKERNIC_REG_MAC_HI),
	};
	u8 address[ETH_ALEN];
	int i;

	for (i = 0; i < ETH_ALEN; i++)
		address[i] = mac[i / 4] >> (i % 4 * 8);
	eth_hw_addr_set(netdev, address);
	memcpy(netdev->perm_addr, address, ETH_ALEN);

	netdev->netdev_ops = &fakernic_netdev_ops;
	netdev->ethtool_ops = &fakernic_ethtool_ops;
	netdev->watchdog_timeo = FAKERNIC_TX_TIMEOUT_SECONDS * HZ;
	netdev->hw_features = fakernic_netdev_features(priv->dev);
	netdev->features = netdev->hw_features | NETIF_F_GRO | NETIF_F_HIGHDMA;
	netdev->vlan_features = netdev->hw_features | NETIF_F_HIGHDMA;
	netdev->priv_flags |= IFF_LIVE_ADDR_CHANGE;
	netdev->min_mtu = max_t(u32, le32_to_cpu(info->min_mtu),
				ETH_MIN_MTU);
	netdev->max_mtu = min_t(u32, le32_to_cpu(info->max_mtu),
				FAKERNIC_FRAME_MAX - FAKERNIC_FRAME_OVERHEAD);
	netdev->mtu = clamp_t(u32, le32_to_cpu(info->mtu),
			      netdev->min_mtu, netdev->max_mtu);
}

int fakernic_netdev_add(struct fakernic_dev *dev)
{
	struct fakernic_netdev *priv;
	struct net_device *netdev;
	int ret;

	netdev = alloc_etherdev(sizeof(*priv));
	if (!netdev)
		return -ENOMEM;
	SET_NETDEV_DEV(netdev, &dev->pdev->dev);
	priv = netdev_priv(netdev);
	priv->dev = dev;
	priv->netdev = netdev;
	dev->netdev = netdev;
	INIT_WORK(&priv->rx_mode_work, fakernic_rx_mode_work);
	INIT_DELAYED_WORK(&priv->restart_work, fakernic_restart_work);
	ret = fakernic_cmd_query_port(dev, &dev->port.info);
	if (ret)
		goto err;
	fakernic_netdev_setup(netdev, priv);
	netif_napi_add(netdev, &priv->napi, fakernic_poll);
	netif_carrier_off(netdev);
	netif_device_detach(netdev);
	ret = register_netdev(netdev);
	if (ret)
		goto err;
	fakernic_port_set_netdev(dev, true);
	return 0;

err:
	cancel_work_sync(&priv->rx_mode_work);
	dev_err(&dev->pdev->dev, "Ethernet port cannot be set up: %d\n", ret);
	return ret;
}

int fakernic_netdev_attach(struct fakernic_dev *dev)
{
	struct fakernic_netdev *priv = fakernic_netdev_of(dev);
	int ret;

	rtnl_lock();
	ret = fakernic_netdev_alloc_key(priv);
	if (ret)
		goto unlock;
	priv->ready = true;
	ret = netif_running(dev->netdev) ? fakernic_netdev_up(priv) :
					   fakernic_netdev_set_port(priv, 0);
	if (ret) {
		priv->ready = false;
		fakernic_netdev_free_key(priv);
		goto unlock;
	}
	netif_device_attach(dev->netdev);
unlock:
	rtnl_unlock();
	return ret;
}

void fakernic_netdev_detach(struct fakernic_dev *dev)
{
	struct fakernic_netdev *priv = fakernic_netdev_of(dev);

	rtnl_lock();
	netif_device_detach(dev->netdev);
	fakernic_netdev_down(priv);
	if (priv->ready)
		fakernic_netdev_free_key(priv);
	priv->ready = false;
	rtnl_unlock();
}

void fakernic_netdev_remove(struct fakernic_dev *dev)
{
	struct fakernic_netdev *priv = fakernic_netdev_of(dev);

	fakernic_port_set_netdev(dev, false);
	unregister_netdev(dev->netdev);
	cancel_delayed_work_sync(&priv->restart_work);
	cancel_work_sync(&priv->rx_mode_work);
}

void fakernic_netdev_free(struct fakernic_dev *dev)
{
	if (dev->netdev)
		free_netdev(dev->netdev);
	dev->netdev = NULL;
}
