// SPDX-License-Identifier: GPL-2.0-only
/*
 * The net_device: an Ethernet port on the same kind of queues that RDMA uses.
 * Opening it brings its channels up and makes the port deliver all frames
 * except RoCEv2 to them. Stopping it undoes that. It shares its link with the
 * RDMA port (port.c). While the hardware goes down and comes up again the
 * net_device stays registered with all its settings, but is detached and has no
 * queues.
 */
#include <linux/etherdevice.h>
#include <linux/ethtool.h>
#include <linux/minmax.h>
#include <linux/rtnetlink.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <fakernic/cmdq.h>
#include <fakernic/mr.h>
#include <fakernic/regs.h>
#include "../compat/compat.h"
#include "../compat/tstamp.h"
#include "../core/cmd.h"
#include "../core/device.h"
#include "../core/gid.h"
#include "../core/object.h"
#include "../core/port.h"
#include "../core/regs.h"
#include "../core/stats.h"
#include "channel.h"
#include "channel_set.h"
#include "ethtool.h"
#include "netdev.h"
#include "rss.h"
#include "rx.h"
#include "tx.h"
#include "vf.h"

#define FAKERNIC_TX_TIMEOUT_SECONDS	20
#define FAKERNIC_VLAN_OFFLOADS		(NETIF_F_HW_VLAN_CTAG_TX |	\
					 NETIF_F_HW_VLAN_CTAG_RX)

static struct fakernic_netdev *fakernic_netdev_of(struct fakernic_dev *dev)
{
	return netdev_priv(dev->netdev);
}

static int fakernic_set_filter_locked(struct fakernic_netdev *priv)
{
	struct fakernic_set_port_req req = {
		.mask = cpu_to_le32(FAKERNIC_PORT_FILTER),
		.filter = fakernic_rx_filter(priv->netdev),
	};

	return fakernic_cmd_set_port(priv->dev, &req);
}

/*
 * Retries until the device accepts the filter, dies, or the net_device is
 * stopped.
 */
static void fakernic_rx_mode_work(struct work_struct *work)
{
	struct fakernic_netdev *priv =
		container_of(work, struct fakernic_netdev, rx_mode_work.work);
	unsigned long pause;
	int ret;

	mutex_lock(&priv->filter_lock);
	ret = fakernic_set_filter_locked(priv);
	if (!ret || READ_ONCE(priv->dev->dead) ||
	    !netif_running(priv->netdev)) {
		priv->filter_refusals = 0;
	} else {
		pause = fakernic_pause(priv->filter_refusals++);
		netdev_err(priv->netdev,
			   "receive filter cannot be set: %d; next attempt in %u ms\n",
			   ret, jiffies_to_msecs(pause));
		queue_delayed_work(system_dfl_wq, &priv->rx_mode_work, pause);
	}
	mutex_unlock(&priv->filter_lock);
}

/* Called under a spinlock; commands sleep. */
static void fakernic_set_rx_mode(struct net_device *netdev)
{
	struct fakernic_netdev *priv = netdev_priv(netdev);

	mod_delayed_work(system_dfl_wq, &priv->rx_mode_work, 0);
}

/* Also succeeds on a dead device: its recovery creates the queues. */
static int fakernic_open(struct net_device *netdev)
{
	struct fakernic_netdev *priv = netdev_priv(netdev);
	int ret = 0;

	if (fakernic_netdev_is_ready(priv))
		ret = fakernic_channels_up(priv);
	if (!ret)
		fakernic_port_set_open(priv->dev, true);
	return ret;
}

static int fakernic_stop(struct net_device *netdev)
{
	struct fakernic_netdev *priv = netdev_priv(netdev);

	fakernic_channels_down(priv);
	fakernic_port_set_open(priv->dev, false);
	return 0;
}

/* Replaces the queues after an error or a send timeout. */
static void fakernic_restart_work(struct work_struct *work)
{
	struct fakernic_netdev *priv =
		container_of(work, struct fakernic_netdev, restart_work.work);
	u32 restarts;

	/* Do not hold RTNL while the device does not respond. */
	if (fakernic_cmd_ping(priv->dev) == -ETIMEDOUT) {
		queue_delayed_work(system_dfl_wq, &priv->restart_work, HZ);
		return;
	}
	rtnl_lock();
	/* Skip queues that were already replaced since the error. */
	if (netif_running(priv->netdev) && fakernic_netdev_is_ready(priv) &&
	    READ_ONCE(priv->restart_of) == priv->generation) {
		netdev_info(priv->netdev, "restarting\n");
		restarts = READ_ONCE(priv->restarts);
		fakernic_channels_down(priv);
		WRITE_ONCE(priv->restarts, restarts + 1);
		fakernic_channels_up(priv);
	}
	rtnl_unlock();
}

static void fakernic_tx_timeout(struct net_device *netdev, unsigned int queue)
{
	struct fakernic_netdev *priv = netdev_priv(netdev);
	struct fakernic_channel *ch = &priv->channels[queue];

	/* The queues are being replaced, and the device is slow. */
	if (!READ_ONCE(priv->up))
		return;
	netdev_err(netdev,
		   "queue %u: send timeout: posted up to %u, completed up to %u\n",
		   queue, READ_ONCE(ch->tx_pi), READ_ONCE(ch->tx_ci));
	DEV_STATS_INC(netdev, tx_errors);
	WRITE_ONCE(priv->restart_of, READ_ONCE(priv->generation));
	/* Run at once, even if a restart is already scheduled for later. */
	mod_delayed_work(system_dfl_wq, &priv->restart_work, 0);
}

static int fakernic_change_mtu(struct net_device *netdev, int mtu)
{
	struct fakernic_netdev *priv = netdev_priv(netdev);
	struct fakernic_set_port_req req = {
		.mask = cpu_to_le32(FAKERNIC_PORT_MTU),
		.mtu = cpu_to_le32(mtu),
	};
	int ret, old = netdev->mtu;

	if (!fakernic_netdev_is_ready(priv)) {
		WRITE_ONCE(netdev->mtu, mtu);
		return 0;
	}
	if (priv->up &&
	    fakernic_rx_pages_for(mtu) != priv->channels[0].rx_pages) {
		fakernic_channels_down(priv);
		WRITE_ONCE(netdev->mtu, mtu);
		ret = fakernic_channels_up(priv);
		if (!ret)
			return 0;
		WRITE_ONCE(netdev->mtu, old);
		fakernic_channels_up(priv);
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
	ret = fakernic_netdev_is_ready(priv) ?
		fakernic_cmd_set_port(priv->dev, &req) : 0;
	if (ret)
		return ret;
	ether_addr_copy(old, netdev->dev_addr);
	eth_commit_mac_addr_change(netdev, address);
	fakernic_gids_follow_mac(priv->dev, old, netdev->dev_addr);
	return 0;
}

/* Only VLAN stripping is a setting of the device. */
static int fakernic_set_features(struct net_device *netdev,
				 netdev_features_t features)
{
	struct fakernic_netdev *priv = netdev_priv(netdev);
	struct fakernic_set_port_req req = {
		.mask = cpu_to_le32(FAKERNIC_PORT_VLAN_STRIP),
		.vlan_strip = !!(features & NETIF_F_HW_VLAN_CTAG_RX),
	};

	if (!((features ^ netdev->features) & NETIF_F_HW_VLAN_CTAG_RX) ||
	    !fakernic_netdev_is_ready(priv))
		return 0;
	return fakernic_cmd_set_port(priv->dev, &req);
}

/*
 * May run in atomic context, so it returns the device's count as of the last
 * query.
 */
static void fakernic_get_stats64(struct net_device *netdev,
				 struct rtnl_link_stats64 *stats)
{
	struct fakernic_netdev *priv = netdev_priv(netdev);

	dev_get_tstats64(netdev, stats);
	stats->rx_missed_errors = READ_ONCE(priv->missed);
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
	.ndo_set_features = fakernic_set_features,
	.ndo_tx_timeout = fakernic_tx_timeout,
	.ndo_set_rx_mode = fakernic_set_rx_mode,
	.ndo_set_mac_address = fakernic_set_mac,
	.ndo_validate_addr = eth_validate_addr,
	.ndo_change_mtu = fakernic_change_mtu,
	.ndo_get_stats64 = fakernic_get_stats64,
	.ndo_set_vf_mac = fakernic_vf_set_mac,
	.ndo_set_vf_vlan = fakernic_vf_set_vlan,
	.ndo_set_vf_rate = fakernic_vf_set_rate,
	.ndo_set_vf_spoofchk = fakernic_vf_set_spoofchk,
	.ndo_set_vf_trust = fakernic_vf_set_trust,
	.ndo_set_vf_link_state = fakernic_vf_set_link,
	.ndo_set_vf_rss_query_en = fakernic_vf_set_rss_query,
	.ndo_get_vf_config = fakernic_vf_get_config,
	.ndo_get_vf_stats = fakernic_vf_get_stats,
	FAKERNIC_HWTSTAMP_OPS,
};

/* Allocates a PD and a key for all of DMA space, while the hardware is up. */
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
		fakernic_cmd_drop(priv->dev, FAKERNIC_CMD_DEALLOC_PD,
				  priv->pdn);
	return ret;
}

static void fakernic_netdev_free_key(struct fakernic_netdev *priv)
{
	fakernic_mr_hw_drop(priv->dev, priv->lkey);
	fakernic_cmd_drop(priv->dev, FAKERNIC_CMD_DEALLOC_PD, priv->pdn);
}

/* Offloads that the device has; users can turn them off. */
static netdev_features_t
fakernic_netdev_features(const struct fakernic_dev *dev)
{
	netdev_features_t features = NETIF_F_SG;

	if (dev->features & FAKERNIC_FEATURE_CSUM)
		features |= NETIF_F_IP_CSUM | NETIF_F_IPV6_CSUM |
			    NETIF_F_RXCSUM;
	if (dev->features & FAKERNIC_FEATURE_TSO)
		features |= NETIF_F_TSO | NETIF_F_TSO6 | NETIF_F_TSO_ECN;
	if (dev->features & FAKERNIC_FEATURE_VLAN)
		features |= FAKERNIC_VLAN_OFFLOADS;
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
	netdev->vlan_features = (netdev->hw_features &
				 ~FAKERNIC_VLAN_OFFLOADS) | NETIF_F_HIGHDMA;
	/* IFF_UNICAST_FLT: fakernic_rx_filter() handles unicast addresses
	 * itself. Without it Linux would set promiscuous mode for them, but not
	 * while the net_device is detached.
	 */
	netdev->priv_flags |= IFF_LIVE_ADDR_CHANGE | IFF_UNICAST_FLT;
	netdev->min_mtu = max_t(u32, le32_to_cpu(info->min_mtu),
				ETH_MIN_MTU);
	netdev->max_mtu = min_t(u32, le32_to_cpu(info->max_mtu),
				FAKERNIC_FRAME_MAX - FAKERNIC_FRAME_OVERHEAD);
	netdev->mtu = clamp_t(u32, le32_to_cpu(info->mtu),
			      netdev->min_mtu, netdev->max_mtu);
}

/*
 * Each channel has a vector; without RSS there is one channel. A channel uses a
 * QP, a WQ, which counts as a QP, and a CQ. The port uses one more QP, or two
 * while its table changes. These limits leave half of the QPs and CQs of a
 * small device to RDMA.
 */
static u32 fakernic_channels_max(const struct fakernic_dev *dev)
{
	u32 vectors = dev->eq_count - FAKERNIC_EQ_COMPLETION;
	u32 by_qps = le32_to_cpu(dev->caps.max_qp) / 6;
	u32 by_cqs = le32_to_cpu(dev->caps.max_cq) / 2;

	if (!(dev->features & FAKERNIC_FEATURE_WQ_RSS))
		return 1;
	return clamp_t(u32, min3(vectors, by_qps, by_cqs), 1,
		       FAKERNIC_CHANNELS_MAX);
}

static int fakernic_netdev_setup_channels(struct fakernic_netdev *priv)
{
	u32 i;

	priv->channels_max = priv->netdev->num_tx_queues;
	priv->channels = kcalloc(priv->channels_max, sizeof(*priv->channels),
				 GFP_KERNEL);
	if (!priv->channels)
		return -ENOMEM;
	for (i = 0; i < priv->channels_max; i++)
		fakernic_channel_init(&priv->channels[i], priv, i);
	priv->shape = (struct fakernic_shape) {
		.channels = min_t(u32, priv->channels_max,
				  netif_get_num_default_rss_queues()),
		.tx_log_depth = FAKERNIC_TX_LOG_DEPTH,
		.rx_log_depth = FAKERNIC_RX_LOG_DEPTH,
	};
	fakernic_rss_init(priv);
	return netif_set_real_num_queues(priv->netdev, priv->shape.channels,
					 priv->shape.channels);
}

int fakernic_netdev_add(struct fakernic_dev *dev)
{
	struct fakernic_netdev *priv;
	struct net_device *netdev;
	int ret;

	netdev = alloc_etherdev_mq(sizeof(*priv), fakernic_channels_max(dev));
	if (!netdev)
		return -ENOMEM;
	SET_NETDEV_DEV(netdev, &dev->pdev->dev);
	priv = netdev_priv(netdev);
	priv->dev = dev;
	priv->netdev = netdev;
	dev->netdev = netdev;
	mutex_init(&priv->filter_lock);
	INIT_DELAYED_WORK(&priv->rx_mode_work, fakernic_rx_mode_work);
	INIT_DELAYED_WORK(&priv->restart_work, fakernic_restart_work);
	ret = fakernic_cmd_query_port(dev, &dev->port.info);
	if (ret)
		goto err;
	fakernic_netdev_setup(netdev, priv);
	ret = fakernic_netdev_setup_channels(priv);
	if (ret)
		goto err;
	netif_carrier_off(netdev);
	/* It may be opened at once, without queues: attach brings them. */
	ret = register_netdev(netdev);
	if (ret)
		goto err;
	fakernic_port_set_netdev(dev, true);
	return 0;

err:
	cancel_delayed_work_sync(&priv->rx_mode_work);
	dev_err(&dev->pdev->dev, "Ethernet port setup failed: %d\n", ret);
	return ret;
}

void fakernic_netdev_check(struct fakernic_dev *dev)
{
	u32 lost;

	if (!rtnl_trylock())
		return;
	lost = fakernic_channels_check(fakernic_netdev_of(dev));
	rtnl_unlock();
	if (!lost)
		return;
	atomic_add(lost, &dev->lost_events);
	dev_warn_once(&dev->pdev->dev,
		      "completions of the port came without an event\n");
}

void fakernic_netdev_update_missed(struct fakernic_dev *dev)
{
	struct fakernic_netdev *priv = fakernic_netdev_of(dev);
	u32 resets = READ_ONCE(priv->resets);
	u64 stats[FAKERNIC_STAT_COUNT];
	u64 missed;

	if (fakernic_read_stats(dev, stats))
		return;
	mutex_lock(&dev->past_lock);
	/* Drop the value if the device was reset since, or is about to be. */
	missed = priv->missed_before + stats[FAKERNIC_STAT_RX_NO_BUFFER];
	if (resets == priv->resets && missed > priv->missed)
		WRITE_ONCE(priv->missed, missed);
	mutex_unlock(&dev->past_lock);
}

/* The device's counter restarts at 0; the reported sum must not decrease. */
static void fakernic_netdev_reset_missed(struct fakernic_netdev *priv)
{
	mutex_lock(&priv->dev->past_lock);
	priv->missed_before = priv->missed;
	WRITE_ONCE(priv->resets, priv->resets + 1);
	mutex_unlock(&priv->dev->past_lock);
}

int fakernic_netdev_attach(struct fakernic_dev *dev)
{
	struct fakernic_netdev *priv = fakernic_netdev_of(dev);
	int ret;

	fakernic_netdev_reset_missed(priv);
	rtnl_lock();
	ret = fakernic_netdev_alloc_key(priv);
	if (ret)
		goto unlock;
	priv->ready = true;
	/*
	 * Without channels there is no carrier, but RDMA works with the port's
	 * MTU.
	 */
	if (!netif_running(dev->netdev) || fakernic_channels_up(priv))
		ret = fakernic_channels_set_port(priv, 0);
	if (ret) {
		priv->ready = false;
		fakernic_netdev_free_key(priv);
		goto unlock;
	}
	netif_device_attach(dev->netdev);
	/* Linux reports no address changes to a detached net_device. */
	if (netif_running(dev->netdev))
		fakernic_set_rx_mode(dev->netdev);
unlock:
	rtnl_unlock();
	return ret;
}

/* Its carrier is off, and the driver drops frames that are still sent. */
void fakernic_netdev_attach_dead(struct fakernic_dev *dev)
{
	rtnl_lock();
	netif_device_attach(dev->netdev);
	rtnl_unlock();
}

void fakernic_netdev_detach(struct fakernic_dev *dev)
{
	struct fakernic_netdev *priv = fakernic_netdev_of(dev);

	rtnl_lock();
	netif_device_detach(dev->netdev);
	fakernic_channels_down(priv);
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
	cancel_delayed_work_sync(&priv->rx_mode_work);
}

void fakernic_netdev_free(struct fakernic_dev *dev)
{
	struct fakernic_channel *channels;

	if (!dev->netdev)
		return;
	channels = fakernic_netdev_of(dev)->channels;
	/* Free the channels last: they contain its NAPI contexts. */
	free_netdev(dev->netdev);
	kfree(channels);
	dev->netdev = NULL;
}
