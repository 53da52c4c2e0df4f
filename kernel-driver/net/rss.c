// SPDX-License-Identifier: GPL-2.0-only
/*
 * Receive side scaling: an indirection table of the channels' WQs, and an RSS
 * QP that uses it. The device cannot change either, so for a change the driver
 * creates new ones and switches the port to them.
 */
#include <linux/dma-mapping.h>
#include <linux/ethtool.h>
#include <linux/log2.h>
#include <linux/string.h>
#include <fakernic/cmdq.h>
#include <fakernic/wq.h>
#include "../core/cmd.h"
#include "../core/device.h"
#include "channel.h"
#include "netdev.h"
#include "rss.h"

void fakernic_rss_init(struct fakernic_netdev *priv)
{
	u32 most = le32_to_cpu(priv->dev->caps.max_ind_table_size);
	struct fakernic_rss *rss = &priv->rss;

	rss->size = most ? min_t(u32, rounddown_pow_of_two(most),
				 FAKERNIC_RSS_TABLE_MAX) : 1;
	netdev_rss_key_fill(rss->set.key, sizeof(rss->set.key));
	fakernic_rss_reset(priv);
}

void fakernic_rss_reset(struct fakernic_netdev *priv)
{
	struct fakernic_rss *rss = &priv->rss;
	u32 i, count = priv->shape.channels;

	for (i = 0; i < rss->size; i++)
		rss->set.table[i] = ethtool_rxfh_indir_default(i, count);
}

static int fakernic_rss_create_table(struct fakernic_netdev *priv, u32 *id)
{
	struct device *device = &priv->dev->pdev->dev;
	const struct fakernic_rss *rss = &priv->rss;
	size_t bytes = rss->size * sizeof(__le32);
	dma_addr_t dma;
	__le32 *wqns;
	u32 i;
	int ret;

	wqns = dma_alloc_coherent(device, bytes, &dma, GFP_KERNEL);
	if (!wqns)
		return -ENOMEM;
	for (i = 0; i < rss->size; i++)
		wqns[i] = cpu_to_le32(priv->channels[rss->set.table[i]].wq.qpn);
	ret = fakernic_cmd_create_ind_table(priv->dev, dma, ilog2(rss->size),
					    id);
	dma_free_coherent(device, bytes, wqns, dma);
	return ret;
}

/* An RSS QP has no queue of its own that could fail. */
static void fakernic_rss_event(struct fakernic_qp_hw *hw, u8 type, u32 data)
{
}

static int fakernic_rss_create(struct fakernic_netdev *priv,
			       struct fakernic_rss_hw *hw)
{
	struct fakernic_create_rss_qp_req req = {
		.pdn = cpu_to_le32(priv->pdn),
		.hash_fields = cpu_to_le32(FAKERNIC_HASH_FIELDS),
		.hash_function = FAKERNIC_HASH_TOEPLITZ,
	};
	int ret;

	ret = fakernic_rss_create_table(priv, &hw->table_id);
	if (ret)
		return ret;
	req.table = cpu_to_le32(hw->table_id);
	memcpy(req.key, priv->rss.set.key, sizeof(req.key));
	hw->qp.event = fakernic_rss_event;
	ret = fakernic_rss_qp_hw_create(priv->dev, &hw->qp, &req);
	if (!ret)
		return 0;
	hw->qp.qpn = 0;
	fakernic_cmd_drop(priv->dev, FAKERNIC_CMD_DESTROY_IND_TABLE,
			  hw->table_id);
	return ret;
}

static void fakernic_rss_destroy(struct fakernic_netdev *priv,
				 struct fakernic_rss_hw *hw)
{
	if (!hw->qp.qpn)
		return;
	fakernic_qp_hw_drop(priv->dev, &hw->qp);
	hw->qp.qpn = 0;
	fakernic_cmd_drop(priv->dev, FAKERNIC_CMD_DESTROY_IND_TABLE,
			  hw->table_id);
}

int fakernic_rss_up(struct fakernic_netdev *priv)
{
	struct fakernic_rss *rss = &priv->rss;

	return priv->shape.channels == 1 ? 0 :
		fakernic_rss_create(priv, &rss->hw[rss->used]);
}

void fakernic_rss_down(struct fakernic_netdev *priv)
{
	fakernic_rss_destroy(priv, &priv->rss.hw[priv->rss.used]);
}

u32 fakernic_rss_qpn(const struct fakernic_netdev *priv)
{
	u32 qpn = priv->rss.hw[priv->rss.used].qp.qpn;

	return qpn ? qpn : priv->channels[0].qp.qpn;
}

int fakernic_rss_change(struct fakernic_netdev *priv)
{
	struct fakernic_rss *rss = &priv->rss;
	struct fakernic_rss_hw *old = &rss->hw[rss->used];
	struct fakernic_rss_hw *new = &rss->hw[!rss->used];
	struct fakernic_set_port_req req = {
		.mask = cpu_to_le32(FAKERNIC_PORT_QPN),
	};
	int ret;

	if (!old->qp.qpn)
		return 0;
	ret = fakernic_rss_create(priv, new);
	if (ret)
		return ret;
	req.qpn = cpu_to_le32(new->qp.qpn);
	ret = fakernic_cmd_set_port(priv->dev, &req);
	fakernic_rss_destroy(priv, ret ? new : old);
	if (!ret)
		rss->used = !rss->used;
	return ret;
}
