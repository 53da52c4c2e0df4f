// SPDX-License-Identifier: GPL-2.0-only
/*
 * The net_device: an Ethernet port on the same queues that RDMA uses. Opening
 * it creates a CQ and a raw-packet QP and tells the port to deliver there all
 * frames that are not RoCEv2; stopping it undoes that. The link's state also is
 * that of the RDMA port, so the events of both come from here.
 */
#include <linux/ethtool.h>
#include <linux/rtnetlink.h>
#include "netdev.h"

#define FAKERNIC_TX_TIMEOUT_SECONDS	20
#define FAKERNIC_RESTART_DELAY		(HZ / 2)

static struct fakernic_port *fakernic_port_of(struct fakernic_dev *dev)
{
	return netdev_priv(dev->netdev);
}

/* Asks for the link's state and tells all who care. May sleep. */
void fakernic_port_changed(struct fakernic_dev *dev)
{
	struct fakernic_query_port_resp info;
	struct fakernic_port *port;
	bool link = false, active;

	mutex_lock(&dev->port_lock);
	if (!dev->netdev_registered)
		goto unlock;
	port = fakernic_port_of(dev);
	if (!READ_ONCE(dev->dead) && !fakernic_cmd_query_port(dev, &info)) {
		port->info = info;
		link = info.link_up;
	}
	active = link && netif_running(port->netdev);
	if (active)
		netif_carrier_on(port->netdev);
	else
		netif_carrier_off(port->netdev);
	if (active != dev->port_active) {
		WRITE_ONCE(dev->port_active, active);
		fakernic_dispatch_port(dev, active);
	}
unlock:
	mutex_unlock(&dev->port_lock);
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
	struct fakernic_port *port =
		container_of(work, struct fakernic_port, rx_mode_work);
	struct fakernic_set_port_req req = {
		.mask = cpu_to_le32(FAKERNIC_PORT_FILTER),
		.filter = fakernic_rx_filter(port->netdev),
	};
	int ret;

	ret = fakernic_cmd_set_port(port->dev, &req);
	if (ret && !READ_ONCE(port->dev->dead))
		netdev_err(port->netdev, "receive filter %#x: %d\n",
			   req.filter, ret);
}

/* Called under a spinlock; commands sleep. */
static void fakernic_set_rx_mode(struct net_device *netdev)
{
	struct fakernic_port *port = netdev_priv(netdev);

	schedule_work(&port->rx_mode_work);
}

static void fakernic_port_cq_complete(struct fakernic_cq_hw *hw)
{
	napi_schedule(&container_of(hw, struct fakernic_port, cq)->napi);
}

static void fakernic_port_restart(struct fakernic_port *port)
{
	schedule_delayed_work(&port->restart_work, FAKERNIC_RESTART_DELAY);
}

/*
 * A send or receive failed. That completion is all the device says about it:
 * the QP then is in an error state and only flushes what follows.
 */
void fakernic_port_error(struct fakernic_port *port, const char *what,
			 const struct fakernic_cqe *cqe)
{
	struct net_device *netdev = port->netdev;

	if (cqe->opcode >= FAKERNIC_CQE_RECV)
		DEV_STATS_INC(netdev, rx_errors);
	else
		DEV_STATS_INC(netdev, tx_errors);
	if (cqe->status == FAKERNIC_WC_WR_FLUSH_ERR)
		return;
	netdev_err(netdev, "%s failed: status %u, vendor error %u\n", what,
		   cqe->status, le16_to_cpu(cqe->vendor_err));
	fakernic_port_restart(port);
}

static void fakernic_port_cq_fail(struct fakernic_cq_hw *hw)
{
	struct fakernic_port *port =
		container_of(hw, struct fakernic_port, cq);

	netdev_err(port->netdev, "completion queue is in error\n");
	fakernic_port_restart(port);
}

static void fakernic_port_qp_event(struct fakernic_qp_hw *hw, u8 type,
				   u32 data)
{
	struct fakernic_port *port =
		container_of(hw, struct fakernic_port, qp);

	netdev_err(port->netdev, "queue pair event %u, vendor error %u\n",
		   type, data);
	fakernic_port_restart(port);
}

static int fakernic_poll(struct napi_struct *napi, int budget)
{
	struct fakernic_port *port =
		container_of(napi, struct fakernic_port, napi);
	u32 start = port->cq.ci, rx_start = port->rx_pi;
	struct fakernic_cqe *cqe;
	int work = 0;

	while ((cqe = fakernic_cq_hw_next(&port->cq))) {
		if (cqe->opcode >= FAKERNIC_CQE_RECV) {
			if (work == budget)
				break;
			fakernic_rx_complete(port, cqe);
			work++;
		} else {
			fakernic_tx_complete(port, cqe, budget);
		}
		port->cq.ci++;
	}
	if (port->cq.ci != start)
		fakernic_queue_publish(&port->cq.queue, port->cq.ci);
	if (port->rx_pi != rx_start)
		fakernic_queue_publish(&port->rq, port->rx_pi);
	fakernic_tx_wake(port);
	if (work < budget && napi_complete_done(napi, work))
		fakernic_cq_hw_arm(&port->cq, false);
	return work;
}

static int fakernic_port_create_cq(struct fakernic_port *port)
{
	struct fakernic_create_cq_req req = {
		.log_depth = FAKERNIC_PORT_CQ_LOG_DEPTH,
		.uar = cpu_to_le32(FAKERNIC_KERNEL_UAR),
	};
	int ret;

	ret = fakernic_queue_alloc(port->dev, &port->cq.queue,
				   FAKERNIC_PORT_CQ_LOG_DEPTH,
				   ilog2(sizeof(struct fakernic_cqe)));
	if (ret)
		return ret;
	port->cq.complete = fakernic_port_cq_complete;
	port->cq.fail = fakernic_port_cq_fail;
	fakernic_queue_pages(&port->cq.queue, &req.pages);
	ret = fakernic_cq_hw_create(port->dev, &port->cq, &req, 0);
	if (ret)
		fakernic_queue_free(port->dev, &port->cq.queue);
	return ret;
}

/* From RESET to RTS; a raw-packet QP needs to be told nothing more. */
static int fakernic_port_create_qp(struct fakernic_port *port)
{
	struct fakernic_create_qp_req req = {
		.type = FAKERNIC_QP_RAW_PACKET,
		.sq_log_depth = port->sq.log_depth,
		.rq_log_depth = port->rq.log_depth,
		.rq_log_stride = port->rq.log_stride,
		.pdn = cpu_to_le32(port->pdn),
		.send_cqn = cpu_to_le32(port->cq.cqn),
		.recv_cqn = cpu_to_le32(port->cq.cqn),
		.uar = cpu_to_le32(FAKERNIC_KERNEL_UAR),
	};
	enum fakernic_qp_state state;
	int ret;

	fakernic_queue_pages(&port->sq, &req.sq_pages);
	fakernic_queue_pages(&port->rq, &req.rq_pages);
	port->qp.event = fakernic_port_qp_event;
	ret = fakernic_qp_hw_create(port->dev, &port->qp, &req);
	if (ret)
		return ret;
	for (state = FAKERNIC_QPS_INIT; state <= FAKERNIC_QPS_RTS; state++) {
		ret = fakernic_qp_hw_set_state(port->dev, &port->qp, state);
		if (ret) {
			fakernic_qp_hw_destroy(port->dev, &port->qp);
			return ret;
		}
	}
	return 0;
}

/* Who receives; qpn 0: nobody. The rest only when there is somebody. */
static int fakernic_port_attach(struct fakernic_port *port, u32 qpn)
{
	struct net_device *netdev = port->netdev;
	struct fakernic_set_port_req req = {
		.mask = cpu_to_le32(FAKERNIC_PORT_QPN),
		.qpn = cpu_to_le32(qpn),
	};

	if (qpn) {
		req.mask |= cpu_to_le32(FAKERNIC_PORT_MTU | FAKERNIC_PORT_MAC |
					FAKERNIC_PORT_FILTER);
		req.mtu = cpu_to_le32(netdev->mtu);
		req.filter = fakernic_rx_filter(netdev);
		memcpy(req.mac, netdev->dev_addr, ETH_ALEN);
	}
	return fakernic_cmd_set_port(port->dev, &req);
}

static int fakernic_port_up(struct fakernic_port *port)
{
	struct fakernic_dev *dev = port->dev;
	int ret;

	ret = fakernic_tx_init(port);
	if (ret)
		return ret;
	ret = fakernic_rx_init(port);
	if (ret)
		goto err_tx_cleanup;
	ret = fakernic_port_create_cq(port);
	if (ret)
		goto err_rx_cleanup;
	ret = fakernic_port_create_qp(port);
	if (ret)
		goto err_destroy_cq;
	napi_enable(&port->napi);
	ret = fakernic_port_attach(port, port->qp.qpn);
	if (ret)
		goto err_destroy_qp;
	port->up = true;
	fakernic_cq_hw_arm(&port->cq, false);
	/* After a restart there may be frames that wait for it. */
	netif_wake_queue(port->netdev);
	return 0;

err_destroy_qp:
	napi_disable(&port->napi);
	fakernic_qp_hw_destroy(dev, &port->qp);
err_destroy_cq:
	fakernic_cq_hw_destroy(&port->cq);
	fakernic_queue_free(dev, &port->cq.queue);
err_rx_cleanup:
	fakernic_rx_cleanup(port);
err_tx_cleanup:
	fakernic_tx_cleanup(port);
	netdev_err(port->netdev, "queues cannot be set up: %d\n", ret);
	return ret;
}

static void fakernic_port_down(struct fakernic_port *port)
{
	struct fakernic_dev *dev = port->dev;

	if (!port->up)
		return;
	port->up = false;
	/* First NAPI, which would wake the queue again. */
	napi_disable(&port->napi);
	netif_tx_disable(port->netdev);
	fakernic_port_attach(port, 0);
	fakernic_qp_hw_destroy(dev, &port->qp);
	fakernic_cq_hw_destroy(&port->cq);
	fakernic_queue_free(dev, &port->cq.queue);
	fakernic_rx_cleanup(port);
	fakernic_tx_cleanup(port);
}

static int fakernic_open(struct net_device *netdev)
{
	struct fakernic_port *port = netdev_priv(netdev);
	int ret;

	ret = fakernic_port_up(port);
	if (ret)
		return ret;
	schedule_work(&port->dev->port_work);
	return 0;
}

static int fakernic_stop(struct net_device *netdev)
{
	struct fakernic_port *port = netdev_priv(netdev);

	fakernic_port_down(port);
	/* Not while fakernic_port_changed() is about to say otherwise. */
	mutex_lock(&port->dev->port_lock);
	netif_carrier_off(netdev);
	mutex_unlock(&port->dev->port_lock);
	schedule_work(&port->dev->port_work);
	return 0;
}

/* Queues anew, after an error or a timeout of theirs. */
static void fakernic_restart_work(struct work_struct *work)
{
	struct fakernic_port *port =
		container_of(work, struct fakernic_port, restart_work.work);

	rtnl_lock();
	if (netif_running(port->netdev) && !READ_ONCE(port->dev->dead)) {
		netdev_info(port->netdev, "restarting\n");
		fakernic_port_down(port);
		fakernic_port_up(port);
	}
	rtnl_unlock();
}

static void fakernic_tx_timeout(struct net_device *netdev, unsigned int queue)
{
	struct fakernic_port *port = netdev_priv(netdev);

	netdev_err(netdev, "send timeout: posted up to %u, completed up to %u\n",
		   port->tx_pi, port->tx_ci);
	DEV_STATS_INC(netdev, tx_errors);
	fakernic_port_restart(port);
}

static int fakernic_change_mtu(struct net_device *netdev, int mtu)
{
	struct fakernic_port *port = netdev_priv(netdev);
	struct fakernic_set_port_req req = {
		.mask = cpu_to_le32(FAKERNIC_PORT_MTU),
		.mtu = cpu_to_le32(mtu),
	};
	int ret, old = netdev->mtu;

	if (port->up && fakernic_rx_pages_for(mtu) != port->rx_pages) {
		fakernic_port_down(port);
		WRITE_ONCE(netdev->mtu, mtu);
		ret = fakernic_port_up(port);
		if (!ret)
			return 0;
		WRITE_ONCE(netdev->mtu, old);
		fakernic_port_up(port);
		return ret;
	}
	ret = fakernic_cmd_set_port(port->dev, &req);
	if (!ret)
		WRITE_ONCE(netdev->mtu, mtu);
	return ret;
}

static int fakernic_set_mac(struct net_device *netdev, void *address)
{
	struct fakernic_port *port = netdev_priv(netdev);
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
	ret = fakernic_cmd_set_port(port->dev, &req);
	if (ret)
		return ret;
	ether_addr_copy(old, netdev->dev_addr);
	eth_commit_mac_addr_change(netdev, address);
	fakernic_gids_follow_mac(port->dev, old, netdev->dev_addr);
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
	.ndo_tx_timeout = fakernic_tx_timeout,
	.ndo_set_rx_mode = fakernic_set_rx_mode,
	.ndo_set_mac_address = fakernic_set_mac,
	.ndo_validate_addr = eth_validate_addr,
	.ndo_change_mtu = fakernic_change_mtu,
	.ndo_get_stats64 = dev_get_tstats64,
};

/* A PD and a key for all of DMA space: they last as long as the port. */
static int fakernic_port_alloc_key(struct fakernic_port *port)
{
	struct fakernic_create_mr_req req = {
		.access = cpu_to_le32(FAKERNIC_ACCESS_LOCAL_WRITE),
		.type = FAKERNIC_MR_DMA,
	};
	int ret;

	ret = fakernic_cmd_alloc(port->dev, FAKERNIC_CMD_ALLOC_PD,
				 &port->pdn);
	if (ret)
		return ret;
	req.pdn = cpu_to_le32(port->pdn);
	ret = fakernic_cmd_create_mr(port->dev, &req, &port->lkey);
	if (ret)
		fakernic_cmd_free(port->dev, FAKERNIC_CMD_DEALLOC_PD,
				  port->pdn);
	return ret;
}

static void fakernic_port_free_key(struct fakernic_port *port)
{
	fakernic_cmd_free(port->dev, FAKERNIC_CMD_DESTROY_MR, port->lkey);
	fakernic_cmd_free(port->dev, FAKERNIC_CMD_DEALLOC_PD, port->pdn);
}

static void fakernic_netdev_setup(struct net_device *netdev,
				  struct fakernic_port *port)
{
	u32 mac[2] = {
		fakernic_read(port->dev, FAKERNIC_REG_MAC_LO),
		fakernic_read(port->dev, FAKERNIC_REG_MAC_HI),
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
	netdev->hw_features = NETIF_F_SG | NETIF_F_GRO;
	netdev->features = netdev->hw_features | NETIF_F_HIGHDMA;
	netdev->vlan_features = NETIF_F_SG | NETIF_F_HIGHDMA;
	netdev->priv_flags |= IFF_LIVE_ADDR_CHANGE;
	netdev->min_mtu = max_t(u32, le32_to_cpu(port->info.min_mtu),
				ETH_MIN_MTU);
	netdev->max_mtu = min_t(u32, le32_to_cpu(port->info.max_mtu),
				FAKERNIC_FRAME_MAX - FAKERNIC_FRAME_OVERHEAD);
	netdev->mtu = clamp_t(u32, le32_to_cpu(port->info.mtu),
			      netdev->min_mtu, netdev->max_mtu);
}

/* While it is, and only then, the carrier may change. */
static void fakernic_set_netdev_registered(struct fakernic_dev *dev,
					   bool registered)
{
	mutex_lock(&dev->port_lock);
	dev->netdev_registered = registered;
	mutex_unlock(&dev->port_lock);
}

int fakernic_netdev_add(struct fakernic_dev *dev)
{
	struct net_device *netdev;
	struct fakernic_port *port;
	int ret;

	netdev = alloc_etherdev(sizeof(*port));
	if (!netdev)
		return -ENOMEM;
	SET_NETDEV_DEV(netdev, &dev->pdev->dev);
	port = netdev_priv(netdev);
	port->dev = dev;
	port->netdev = netdev;
	dev->netdev = netdev;
	INIT_WORK(&port->rx_mode_work, fakernic_rx_mode_work);
	INIT_DELAYED_WORK(&port->restart_work, fakernic_restart_work);
	ret = fakernic_cmd_query_port(dev, &port->info);
	if (ret)
		goto err_free;
	fakernic_netdev_setup(netdev, port);
	netif_napi_add(netdev, &port->napi, fakernic_poll);
	ret = fakernic_port_alloc_key(port);
	if (ret)
		goto err_free;
	netif_carrier_off(netdev);
	ret = register_netdev(netdev);
	if (ret)
		goto err_free_key;
	fakernic_set_netdev_registered(dev, true);
	return 0;

err_free_key:
	cancel_work_sync(&port->rx_mode_work);
	fakernic_port_free_key(port);
err_free:
	dev_err(&dev->pdev->dev, "Ethernet port cannot be set up: %d\n", ret);
	return ret;
}

/* Its memory is freed by fakernic_netdev_free(), when no work looks at it. */
void fakernic_netdev_remove(struct fakernic_dev *dev)
{
	struct fakernic_port *port = fakernic_port_of(dev);

	fakernic_set_netdev_registered(dev, false);
	unregister_netdev(dev->netdev);
	cancel_delayed_work_sync(&port->restart_work);
	cancel_work_sync(&port->rx_mode_work);
	fakernic_port_free_key(port);
}

void fakernic_netdev_free(struct fakernic_dev *dev)
{
	if (dev->netdev)
		free_netdev(dev->netdev);
	dev->netdev = NULL;
}
