// SPDX-License-Identifier: GPL-2.0-only
/*
 * Frames out: an skb becomes a SEND WQE with an SGE for its head and each of
 * its fragments; the device fills in checksums and cuts what is longer than a
 * frame. Each WQE is completed. The queue is stopped before it could meet an
 * skb that does not fit, and woken by the completions.
 */
#include <linux/dma-mapping.h>
#include <linux/if_vlan.h>
#include <linux/ipv6.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/tcp.h>
#include <fakernic/cq.h>
#include <fakernic/doorbell.h>
#include <fakernic/rq.h>
#include <fakernic/sq.h>
#include "device.h"
#include "netdev.h"
#include "queue.h"
#include "regs.h"
#include "tx.h"

/* Stop below the largest WQE; wake when a few of them fit. */
#define FAKERNIC_TX_STOP	FAKERNIC_SQ_WQE_BB_MAX
#define FAKERNIC_TX_WAKE	(4 * FAKERNIC_SQ_WQE_BB_MAX)

/* What a WQE that begins at this place of the ring sends. */
struct fakernic_tx_frame {
	struct sk_buff *skb;
	u8 bb_count;
	u8 sge_count;
};

/* Four for each basic block: no WQE has more SGEs than that. */
struct fakernic_tx_map {
	dma_addr_t dma;
	u32 length;
};

#define FAKERNIC_TX_MAPS_PER_BB	4

struct fakernic_tx_wqe {
	union {
		struct {
			struct fakernic_sq_hdr hdr;
			struct fakernic_sge sge[FAKERNIC_SGE_MAX];
		};
		u8 bytes[FAKERNIC_SQ_WQE_SIZE_MAX];
	};
};

int fakernic_tx_init(struct fakernic_netdev *priv)
{
	size_t depth = 1UL << FAKERNIC_TX_LOG_DEPTH;
	int ret;

	ret = fakernic_queue_alloc(priv->dev, &priv->sq, FAKERNIC_TX_LOG_DEPTH,
				   FAKERNIC_SQ_BB_SHIFT);
	if (ret)
		return ret;
	priv->tx_frames = kvcalloc(depth, sizeof(*priv->tx_frames),
				   GFP_KERNEL);
	priv->tx_maps = kvcalloc(depth * FAKERNIC_TX_MAPS_PER_BB,
				 sizeof(*priv->tx_maps), GFP_KERNEL);
	priv->tx_pi = 0;
	priv->tx_ci = 0;
	if (priv->tx_frames && priv->tx_maps)
		return 0;
	fakernic_tx_cleanup(priv);
	return -ENOMEM;
}

static struct fakernic_tx_map *fakernic_tx_map_at(struct fakernic_netdev *priv,
						  u32 pi, u32 index)
{
	u32 place = pi * FAKERNIC_TX_MAPS_PER_BB + index;

	return &priv->tx_maps[place & ((priv->sq.mask + 1) *
				       FAKERNIC_TX_MAPS_PER_BB - 1)];
}

/* The first is the head, mapped as such; the others are pages. */
static void fakernic_tx_unmap(struct fakernic_netdev *priv, u32 pi, u32 count)
{
	struct device *device = &priv->dev->pdev->dev;
	struct fakernic_tx_map *map;
	u32 i;

	for (i = 0; i < count; i++) {
		map = fakernic_tx_map_at(priv, pi, i);
		if (i)
			dma_unmap_page(device, map->dma, map->length,
				       DMA_TO_DEVICE);
		else
			dma_unmap_single(device, map->dma, map->length,
					 DMA_TO_DEVICE);
	}
}

/* Returns the number of SGEs, 0 when the skb cannot be mapped. */
static u32 fakernic_tx_map(struct fakernic_netdev *priv, struct sk_buff *skb,
			   struct fakernic_tx_wqe *wqe)
{
	struct device *device = &priv->dev->pdev->dev;
	u32 count = skb_shinfo(skb)->nr_frags + 1;
	struct fakernic_tx_map *map;
	u32 i;

	for (i = 0; i < count; i++) {
		map = fakernic_tx_map_at(priv, priv->tx_pi, i);
		if (i) {
			skb_frag_t *frag = &skb_shinfo(skb)->frags[i - 1];

			map->length = skb_frag_size(frag);
			map->dma = skb_frag_dma_map(device, frag, 0,
						    map->length,
						    DMA_TO_DEVICE);
		} else {
			map->length = skb_headlen(skb);
			map->dma = dma_map_single(device, skb->data,
						  map->length, DMA_TO_DEVICE);
		}
		if (dma_mapping_error(device, map->dma)) {
			fakernic_tx_unmap(priv, priv->tx_pi, i);
			return 0;
		}
		wqe->sge[i].address = cpu_to_le64(map->dma);
		wqe->sge[i].length = cpu_to_le32(map->length);
		wqe->sge[i].lkey = cpu_to_le32(priv->lkey);
	}
	return count;
}

static u32 fakernic_tx_free(const struct fakernic_netdev *priv)
{
	return priv->sq.mask + 1 - (priv->tx_pi - READ_ONCE(priv->tx_ci));
}

static void fakernic_tx_maybe_stop(struct fakernic_netdev *priv)
{
	if (fakernic_tx_free(priv) >= FAKERNIC_TX_STOP)
		return;
	netif_stop_queue(priv->netdev);
	/* Pairs with fakernic_tx_wake(): one of the two sees the other. */
	smp_mb();
	if (fakernic_tx_free(priv) >= FAKERNIC_TX_WAKE)
		netif_start_queue(priv->netdev);
}

static void fakernic_tx_ring(struct fakernic_netdev *priv)
{
	fakernic_queue_publish(&priv->sq, priv->tx_pi);
	fakernic_doorbell(priv->dev, FAKERNIC_DOORBELL_SQ, 0, priv->qp.qpn,
			  priv->tx_pi);
}

netdev_features_t fakernic_features_check(struct sk_buff *skb,
					  struct net_device *netdev,
					  netdev_features_t features)
{
	features = vlan_features_check(skb, features);
	if (skb->ip_summed != CHECKSUM_PARTIAL)
		return features;
	/* The device looks behind some extension headers only. */
	if (vlan_get_protocol(skb) == htons(ETH_P_IPV6) &&
	    skb_network_header_len(skb) != sizeof(struct ipv6hdr))
		return features & ~(NETIF_F_CSUM_MASK | NETIF_F_GSO_MASK);
	if (skb_is_gso(skb) &&
	    skb_tcp_all_headers(skb) > FAKERNIC_TSO_HEADERS_MAX)
		return features & ~NETIF_F_GSO_MASK;
	return features;
}

/* What the device is to do of the frame on its way. */
static void fakernic_tx_offload(struct fakernic_netdev *priv,
				const struct sk_buff *skb,
				struct fakernic_sq_hdr *hdr)
{
	if (skb->ip_summed == CHECKSUM_PARTIAL) {
		hdr->flags |= FAKERNIC_SQ_L4_CSUM;
		priv->tx_csum++;
	}
	if (skb_is_gso(skb)) {
		hdr->mss = cpu_to_le16(skb_shinfo(skb)->gso_size);
		priv->tx_tso++;
	}
}

netdev_tx_t fakernic_start_xmit(struct sk_buff *skb,
				struct net_device *netdev)
{
	struct fakernic_netdev *priv = netdev_priv(netdev);
	struct fakernic_tx_frame *frame;
	struct fakernic_tx_wqe wqe;
	u32 count, bb_count, size;
	bool ring;

	/* Without hardware there are no queues. */
	if (unlikely(!READ_ONCE(priv->up)))
		goto drop_quietly;
	/* On failure it has freed the skb. */
	if (skb_put_padto(skb, ETH_ZLEN))
		goto dropped;
	if (skb_shinfo(skb)->nr_frags + 1 > FAKERNIC_SGE_MAX &&
	    skb_linearize(skb))
		goto drop;

	count = fakernic_tx_map(priv, skb, &wqe);
	if (!count)
		goto drop;
	size = sizeof(wqe.hdr) + count * sizeof(wqe.sge[0]);
	bb_count = DIV_ROUND_UP(size, FAKERNIC_SQ_BB_SIZE);
	memset(&wqe.hdr, 0, sizeof(wqe.hdr));
	memset(wqe.bytes + size, 0, bb_count * FAKERNIC_SQ_BB_SIZE - size);
	wqe.hdr.opcode = FAKERNIC_SQ_SEND;
	wqe.hdr.flags = FAKERNIC_SQ_SIGNALED;
	wqe.hdr.sge_count = count;
	wqe.hdr.bb_count = bb_count;
	fakernic_tx_offload(priv, skb, &wqe.hdr);

	frame = &priv->tx_frames[priv->tx_pi & priv->sq.mask];
	frame->skb = skb;
	frame->bb_count = bb_count;
	frame->sge_count = count;
	fakernic_queue_write(&priv->sq, priv->tx_pi, &wqe, bb_count);
	skb_tx_timestamp(skb);
	ring = __netdev_sent_queue(netdev, skb->len, netdev_xmit_more());
	priv->tx_pi += bb_count;
	fakernic_tx_maybe_stop(priv);
	if (ring || netif_queue_stopped(netdev))
		fakernic_tx_ring(priv);
	return NETDEV_TX_OK;

drop:
	dev_kfree_skb_any(skb);
dropped:
	dev_core_stats_tx_dropped_inc(netdev);
	/* Frames before it may count on being rung along. */
	if (!netdev_xmit_more())
		fakernic_tx_ring(priv);
	return NETDEV_TX_OK;

drop_quietly:
	dev_kfree_skb_any(skb);
	dev_core_stats_tx_dropped_inc(netdev);
	return NETDEV_TX_OK;
}

bool fakernic_tx_complete(struct fakernic_netdev *priv,
			  const struct fakernic_cqe *cqe, int budget)
{
	u32 place = priv->tx_ci & priv->sq.mask;
	struct fakernic_tx_frame *frame = &priv->tx_frames[place];
	struct sk_buff *skb = frame->skb;

	if (!skb || (le32_to_cpu(cqe->wqe_index) & priv->sq.mask) != place) {
		if (net_ratelimit())
			netdev_err(priv->netdev,
				   "completion of send %u, expected %u\n",
				   le32_to_cpu(cqe->wqe_index), priv->tx_ci);
		return false;
	}
	fakernic_tx_unmap(priv, priv->tx_ci, frame->sge_count);
	if (cqe->status == FAKERNIC_WC_SUCCESS)
		dev_sw_netstats_tx_add(priv->netdev,
				       max_t(u16, skb_shinfo(skb)->gso_segs, 1),
				       skb->len);
	netdev_completed_queue(priv->netdev, 1, skb->len);
	frame->skb = NULL;
	napi_consume_skb(skb, budget);
	WRITE_ONCE(priv->tx_ci, priv->tx_ci + frame->bb_count);
	return true;
}

void fakernic_tx_wake(struct fakernic_netdev *priv)
{
	/* Pairs with fakernic_tx_maybe_stop(). */
	smp_mb();
	if (unlikely(netif_queue_stopped(priv->netdev)) &&
	    fakernic_tx_free(priv) >= FAKERNIC_TX_WAKE)
		netif_wake_queue(priv->netdev);
}

void fakernic_tx_cleanup(struct fakernic_netdev *priv)
{
	while (priv->tx_frames && priv->tx_ci != priv->tx_pi) {
		struct fakernic_tx_frame *frame =
			&priv->tx_frames[priv->tx_ci & priv->sq.mask];

		fakernic_tx_unmap(priv, priv->tx_ci, frame->sge_count);
		dev_kfree_skb(frame->skb);
		priv->tx_ci += frame->bb_count;
	}
	netdev_reset_queue(priv->netdev);
	kvfree(priv->tx_frames);
	kvfree(priv->tx_maps);
	priv->tx_frames = NULL;
	priv->tx_maps = NULL;
	fakernic_queue_free(priv->dev, &priv->sq);
}
