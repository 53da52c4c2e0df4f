// SPDX-License-Identifier: GPL-2.0-only
/*
 * Transmit path. An skb becomes a SEND WQE with an SGE for its head and for
 * each fragment; the device fills in checksums and segments what is longer than
 * a frame. Each WQE has a completion. The driver stops the queue before an skb
 * might not fit, and completions wake it.
 */
#include <linux/dma-mapping.h>
#include <linux/if_vlan.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/tcp.h>
#include <fakernic/cq.h>
#include <fakernic/doorbell.h>
#include <fakernic/rq.h>
#include <fakernic/sq.h>
#include "../core/device.h"
#include "../core/queue.h"
#include "../core/regs.h"
#include "channel.h"
#include "netdev.h"
#include "tstamp.h"
#include "tx.h"

/* Stop if the largest WQE might not fit; wake when several fit. */
#define FAKERNIC_TX_STOP	FAKERNIC_SQ_WQE_BB_MAX
#define FAKERNIC_TX_WAKE	(4 * FAKERNIC_SQ_WQE_BB_MAX)

/* The frame of the WQE that begins in this slot. */
struct fakernic_tx_frame {
	struct sk_buff *skb;
	u8 bb_count;
	u8 sge_count;
	bool stamped;			/* time requested: tstamp.h */
};

/* Four per basic block: no WQE has more SGEs than that. */
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

int fakernic_tx_init(struct fakernic_channel *ch)
{
	size_t depth = 1UL << ch->priv->shape.tx_log_depth;
	int ret;

	ret = fakernic_queue_alloc(ch->dev, &ch->sq,
				   ch->priv->shape.tx_log_depth,
				   FAKERNIC_SQ_BB_SHIFT);
	if (ret)
		return ret;
	ch->tx_frames = kvcalloc(depth, sizeof(*ch->tx_frames), GFP_KERNEL);
	ch->tx_maps = kvcalloc(depth * FAKERNIC_TX_MAPS_PER_BB,
			       sizeof(*ch->tx_maps), GFP_KERNEL);
	ch->tx_pi = 0;
	ch->tx_ci = 0;
	ch->tx_rung = 0;
	ch->tx_next = 0;
	if (ch->tx_frames && ch->tx_maps)
		return 0;
	fakernic_tx_cleanup(ch);
	return -ENOMEM;
}

static struct fakernic_tx_map *fakernic_tx_map_at(struct fakernic_channel *ch,
						  u32 pi, u32 index)
{
	u32 place = pi * FAKERNIC_TX_MAPS_PER_BB + index;

	return &ch->tx_maps[place & ((ch->sq.mask + 1) *
				     FAKERNIC_TX_MAPS_PER_BB - 1)];
}

/* The first mapping is the head; the others are pages. */
static void fakernic_tx_unmap(struct fakernic_channel *ch, u32 pi, u32 count)
{
	struct device *device = &ch->dev->pdev->dev;
	struct fakernic_tx_map *map;
	u32 i;

	for (i = 0; i < count; i++) {
		map = fakernic_tx_map_at(ch, pi, i);
		if (i)
			dma_unmap_page(device, map->dma, map->length,
				       DMA_TO_DEVICE);
		else
			dma_unmap_single(device, map->dma, map->length,
					 DMA_TO_DEVICE);
	}
}

/* Returns the number of SGEs, 0 when the skb cannot be mapped. */
static u32 fakernic_tx_map(struct fakernic_channel *ch, struct sk_buff *skb,
			   struct fakernic_tx_wqe *wqe)
{
	struct device *device = &ch->dev->pdev->dev;
	u32 count = skb_shinfo(skb)->nr_frags + 1;
	struct fakernic_tx_map *map;
	u32 i;

	for (i = 0; i < count; i++) {
		map = fakernic_tx_map_at(ch, ch->tx_pi, i);
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
			fakernic_tx_unmap(ch, ch->tx_pi, i);
			return 0;
		}
		wqe->sge[i].address = cpu_to_le64(map->dma);
		wqe->sge[i].length = cpu_to_le32(map->length);
		wqe->sge[i].lkey = cpu_to_le32(ch->priv->lkey);
	}
	return count;
}

static struct netdev_queue *fakernic_txq(const struct fakernic_channel *ch)
{
	return netdev_get_tx_queue(ch->netdev, ch->index);
}

static u32 fakernic_tx_free(const struct fakernic_channel *ch)
{
	/*
	 * Loads tx_ci before slots are written again. Pairs with the release in
	 * fakernic_tx_done().
	 */
	return ch->sq.mask + 1 - (ch->tx_pi - smp_load_acquire(&ch->tx_ci));
}

static void fakernic_tx_maybe_stop(struct fakernic_channel *ch)
{
	if (fakernic_tx_free(ch) >= FAKERNIC_TX_STOP)
		return;
	netif_tx_stop_queue(fakernic_txq(ch));
	/*
	 * Stops the queue before it loads tx_ci again. Pairs with smp_mb() in
	 * fakernic_tx_done(): one side sees the other.
	 */
	smp_mb();
	if (fakernic_tx_free(ch) >= FAKERNIC_TX_WAKE)
		netif_tx_start_queue(fakernic_txq(ch));
}

static void fakernic_tx_ring(struct fakernic_channel *ch)
{
	u32 last = ch->tx_rung;

	/* The frames are written before tx_rung: see fakernic_tx_complete(). */
	smp_store_release(&ch->tx_rung, ch->tx_pi);
	fakernic_sq_publish(ch->dev, &ch->sq, ch->qp.qpn, last, ch->tx_pi);
}

/*
 * Whether the device finds the header that the stack means: it parses no
 * tunnels and only some extension headers.
 */
static bool fakernic_tx_is_plain(struct sk_buff *skb)
{
	switch (vlan_get_protocol(skb)) {
	case htons(ETH_P_IP):
		return skb_network_header_len(skb) == ip_hdr(skb)->ihl * 4;
	case htons(ETH_P_IPV6):
		return skb_network_header_len(skb) == sizeof(struct ipv6hdr);
	default:
		return false;
	}
}

netdev_features_t fakernic_features_check(struct sk_buff *skb,
					  struct net_device *netdev,
					  netdev_features_t features)
{
	features = vlan_features_check(skb, features);
	if (skb->ip_summed != CHECKSUM_PARTIAL)
		return features;
	if (!fakernic_tx_is_plain(skb))
		return features & ~(NETIF_F_CSUM_MASK | NETIF_F_GSO_MASK);
	if (skb_is_gso(skb) &&
	    skb_tcp_all_headers(skb) > FAKERNIC_TSO_HEADERS_MAX)
		return features & ~NETIF_F_GSO_MASK;
	return features;
}

/* Sets the offloads that the device performs for this frame. */
static void fakernic_tx_offload(struct fakernic_channel *ch,
				const struct sk_buff *skb,
				struct fakernic_sq_hdr *hdr)
{
	if (skb->ip_summed == CHECKSUM_PARTIAL) {
		hdr->flags |= FAKERNIC_SQ_L4_CSUM;
		ch->tx_csum++;
	}
	if (skb_vlan_tag_present(skb)) {
		hdr->flags |= FAKERNIC_SQ_VLAN;
		hdr->imm_or_key = cpu_to_le32(skb_vlan_tag_get(skb));
	}
	if (skb_is_gso(skb)) {
		hdr->mss = cpu_to_le16(skb_shinfo(skb)->gso_size);
		ch->tx_tso++;
	}
}

/*
 * Packet sockets, macvtap and tc redirection bypass the MTU check. The device
 * puts the queue into the error state for an oversized frame.
 */
static bool fakernic_tx_is_too_long(const struct sk_buff *skb)
{
	u32 tag = skb_vlan_tag_present(skb) ? VLAN_HLEN : 0;

	return !skb_is_gso(skb) && skb->len + tag > FAKERNIC_FRAME_MAX;
}

netdev_tx_t fakernic_start_xmit(struct sk_buff *skb,
				struct net_device *netdev)
{
	struct fakernic_netdev *priv = netdev_priv(netdev);
	struct fakernic_channel *ch =
		&priv->channels[skb_get_queue_mapping(skb)];
	struct fakernic_tx_frame *frame;
	struct fakernic_tx_wqe wqe;
	u32 count, bb_count, size;
	bool ring;

	/*
	 * No queues without hardware; and fewer channels may be in use. Loads
	 * up before the queues. Pairs with fakernic_channels_up().
	 */
	if (unlikely(!smp_load_acquire(&priv->up) || !ch->tx_frames))
		goto drop_uncounted;
	/* On failure skb_put_padto() has freed the skb. */
	if (skb_put_padto(skb, ETH_ZLEN))
		goto dropped;
	if (unlikely(fakernic_tx_is_too_long(skb)))
		goto drop;
	if (skb_shinfo(skb)->nr_frags + 1 > FAKERNIC_SGE_MAX &&
	    skb_linearize(skb))
		goto drop;

	count = fakernic_tx_map(ch, skb, &wqe);
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
	fakernic_tx_offload(ch, skb, &wqe.hdr);

	frame = &ch->tx_frames[ch->tx_pi & ch->sq.mask];
	frame->skb = skb;
	frame->bb_count = bb_count;
	frame->sge_count = count;
	frame->stamped = fakernic_tstamp_sending(priv, skb);
	fakernic_queue_write(&ch->sq, ch->tx_pi, &wqe, bb_count);
	skb_tx_timestamp(skb);
	ring = __netdev_tx_sent_queue(fakernic_txq(ch), skb->len,
				      netdev_xmit_more());
	ch->tx_pi += bb_count;
	fakernic_tx_maybe_stop(ch);
	if (ring || netif_tx_queue_stopped(fakernic_txq(ch)))
		fakernic_tx_ring(ch);
	return NETDEV_TX_OK;

drop:
	dev_kfree_skb_any(skb);
dropped:
	dev_core_stats_tx_dropped_inc(netdev);
	/* Earlier frames may rely on this frame to ring the doorbell. */
	if (!netdev_xmit_more())
		fakernic_tx_ring(ch);
	return NETDEV_TX_OK;

drop_uncounted:
	dev_kfree_skb_any(skb);
	dev_core_stats_tx_dropped_inc(netdev);
	return NETDEV_TX_OK;
}

bool fakernic_tx_complete(struct fakernic_channel *ch,
			  const struct fakernic_cqe *cqe, int budget)
{
	u32 place = ch->tx_next & ch->sq.mask;
	struct fakernic_tx_frame *frame = &ch->tx_frames[place];
	struct sk_buff *skb;

	/* Loads tx_rung before the frame. Pairs with fakernic_tx_ring(). */
	if (ch->tx_next == smp_load_acquire(&ch->tx_rung) ||
	    (le32_to_cpu(cqe->wqe_index) & ch->sq.mask) != place) {
		if (net_ratelimit())
			netdev_err(ch->netdev,
				   "queue %u: completion of send %u, expected %u\n",
				   ch->index,
				   le32_to_cpu(cqe->wqe_index), ch->tx_next);
		return false;
	}
	skb = frame->skb;
	fakernic_tx_unmap(ch, ch->tx_next, frame->sge_count);
	if (cqe->status == FAKERNIC_WC_SUCCESS) {
		if (unlikely(frame->stamped))
			fakernic_tstamp_sent(ch->priv, skb, cqe);
		dev_sw_netstats_tx_add(ch->netdev,
				       max_t(u16, skb_shinfo(skb)->gso_segs, 1),
				       skb->len);
	}
	ch->tx_done_frames++;
	ch->tx_done_bytes += skb->len;
	napi_consume_skb(skb, budget);
	ch->tx_next += frame->bb_count;
	return true;
}

void fakernic_tx_done(struct fakernic_channel *ch)
{
	if (!ch->tx_done_frames)
		return;
	/* Frames are freed before tx_ci moves: see fakernic_tx_free(). */
	smp_store_release(&ch->tx_ci, ch->tx_next);
	netdev_tx_completed_queue(fakernic_txq(ch), ch->tx_done_frames,
				  ch->tx_done_bytes);
	ch->tx_done_frames = 0;
	ch->tx_done_bytes = 0;
	/*
	 * Stores tx_ci before it looks whether the queue is stopped. Pairs with
	 * smp_mb() in fakernic_tx_maybe_stop().
	 */
	smp_mb();
	if (unlikely(netif_tx_queue_stopped(fakernic_txq(ch))) &&
	    fakernic_tx_free(ch) >= FAKERNIC_TX_WAKE)
		netif_tx_wake_queue(fakernic_txq(ch));
}

void fakernic_tx_cleanup(struct fakernic_channel *ch)
{
	while (ch->tx_frames && ch->tx_ci != ch->tx_pi) {
		struct fakernic_tx_frame *frame =
			&ch->tx_frames[ch->tx_ci & ch->sq.mask];

		fakernic_tx_unmap(ch, ch->tx_ci, frame->sge_count);
		dev_kfree_skb(frame->skb);
		ch->tx_ci += frame->bb_count;
	}
	netdev_tx_reset_queue(fakernic_txq(ch));
	kvfree(ch->tx_frames);
	kvfree(ch->tx_maps);
	ch->tx_frames = NULL;
	ch->tx_maps = NULL;
	fakernic_queue_free(ch->dev, &ch->sq);
}
