// SPDX-License-Identifier: GPL-2.0-only
/*
 * Receive path. Each slot of the receive queue has as many single pages as the
 * MTU needs. The driver copies a short frame and keeps its pages in the slot.
 * Of a long frame it copies the headers and passes the pages on with the skb;
 * new pages replace them. If no new pages are available the frame is dropped,
 * so the queue is always refilled.
 *
 * The pages come from a page_pool, to which sockets return them. The driver
 * maps them itself. A pool that maps pages keeps the mappings until the last
 * socket is done, and the removal of a device cannot wait for that.
 */
#include <linux/dma-mapping.h>
#include <linux/etherdevice.h>
#include <linux/if_vlan.h>
#include <linux/slab.h>
#include <rdma/ib_verbs.h>
#include <fakernic/cq.h>
#include "../compat/page_pool.h"
#include "../core/device.h"
#include "../core/queue.h"
#include "../core/rq.h"
#include "channel.h"
#include "netdev.h"
#include "rx.h"
#include "tstamp.h"

#define FAKERNIC_RX_COPY	1024	/* frames up to this are copied */
#define FAKERNIC_RX_HEADER	256	/* of longer ones, this much is */

#define FAKERNIC_RX_PAGES_MAX	DIV_ROUND_UP(FAKERNIC_FRAME_MAX, PAGE_SIZE)

/*
 * Initial fill: the allocation may sleep and retry, but must not invoke the OOM
 * killer.
 */
#define FAKERNIC_RX_PATIENTLY	(GFP_KERNEL | __GFP_RETRY_MAYFAIL)

struct fakernic_rx_buffer {
	struct page *page[FAKERNIC_RX_PAGES_MAX];
	dma_addr_t dma[FAKERNIC_RX_PAGES_MAX];
};

u32 fakernic_rx_pages_for(u32 mtu)
{
	return DIV_ROUND_UP(mtu + FAKERNIC_FRAME_OVERHEAD, PAGE_SIZE);
}

static int fakernic_rx_alloc_page(struct fakernic_channel *ch,
				  struct page **page, dma_addr_t *dma,
				  gfp_t gfp)
{
	struct device *device = &ch->dev->pdev->dev;

	*page = page_pool_alloc_pages(ch->rx_pool, gfp | __GFP_NOWARN);
	if (!*page)
		return -ENOMEM;
	*dma = dma_map_page(device, *page, 0, PAGE_SIZE, DMA_FROM_DEVICE);
	if (dma_mapping_error(device, *dma)) {
		page_pool_put_full_page(ch->rx_pool, *page, false);
		*page = NULL;
		return -ENOMEM;
	}
	return 0;
}

static void fakernic_rx_free_buffer(struct fakernic_channel *ch,
				    struct fakernic_rx_buffer *buffer)
{
	u32 i;

	for (i = 0; i < FAKERNIC_RX_PAGES_MAX; i++) {
		if (!buffer->page[i])
			continue;
		dma_unmap_page(&ch->dev->pdev->dev, buffer->dma[i],
			       PAGE_SIZE, DMA_FROM_DEVICE);
		page_pool_put_full_page(ch->rx_pool, buffer->page[i], false);
		buffer->page[i] = NULL;
	}
}

static int fakernic_rx_fill_buffer(struct fakernic_channel *ch,
				   struct fakernic_rx_buffer *buffer, u32 count,
				   gfp_t gfp)
{
	u32 i;

	for (i = 0; i < count; i++)
		if (fakernic_rx_alloc_page(ch, &buffer->page[i],
					   &buffer->dma[i], gfp)) {
			fakernic_rx_free_buffer(ch, buffer);
			return -ENOMEM;
		}
	return 0;
}

/* Posts the buffer of the next slot; the caller publishes rx_pi. */
static void fakernic_rx_post(struct fakernic_channel *ch)
{
	u32 place = ch->rx_pi & ch->rq.mask;
	struct fakernic_rx_buffer *buffer = &ch->rx_buffers[place];
	struct ib_sge sge[FAKERNIC_RX_PAGES_MAX];
	u32 i;

	for (i = 0; i < ch->rx_pages; i++) {
		sge[i].addr = buffer->dma[i];
		sge[i].length = PAGE_SIZE;
		sge[i].lkey = ch->priv->lkey;
	}
	fakernic_rq_write(&ch->rq, ch->rx_pi, place, sge, ch->rx_pages);
	ch->rx_pi++;
}

/* The pool caches up to as many pages as the queue holds. */
static int fakernic_rx_make_pool(struct fakernic_channel *ch, u32 depth)
{
	struct page_pool_params params = {
		.pool_size = depth * ch->rx_pages,
		.nid = NUMA_NO_NODE,
		.dev = &ch->dev->pdev->dev,
		.dma_dir = DMA_FROM_DEVICE,
	};
	struct page_pool *pool;

	fakernic_page_pool_is_of(&params, ch->netdev);
	pool = page_pool_create(&params);
	if (IS_ERR(pool))
		return PTR_ERR(pool);
	ch->rx_pool = pool;
	return 0;
}

int fakernic_rx_init(struct fakernic_channel *ch)
{
	u32 i, depth = 1U << ch->priv->shape.rx_log_depth;
	int ret;

	ch->rx_pages = fakernic_rx_pages_for(ch->netdev->mtu);
	ch->rx_pi = 0;
	ch->rx_ci = 0;
	ret = fakernic_queue_alloc(ch->dev, &ch->rq,
				   ch->priv->shape.rx_log_depth,
				   fakernic_rq_log_stride(ch->rx_pages));
	if (ret)
		return ret;
	ret = fakernic_rx_make_pool(ch, depth);
	if (ret)
		goto err_cleanup;
	ch->rx_buffers = kvcalloc(depth, sizeof(*ch->rx_buffers), GFP_KERNEL);
	ret = -ENOMEM;
	if (!ch->rx_buffers)
		goto err_cleanup;
	for (i = 0; i < depth; i++) {
		ret = fakernic_rx_fill_buffer(ch, &ch->rx_buffers[i],
					      ch->rx_pages,
					      FAKERNIC_RX_PATIENTLY);
		if (ret)
			goto err_cleanup;
		fakernic_rx_post(ch);
	}
	fakernic_queue_publish(&ch->rq, ch->rx_pi);
	return 0;

err_cleanup:
	fakernic_rx_cleanup(ch);
	return ret;
}

void fakernic_rx_cleanup(struct fakernic_channel *ch)
{
	u32 i;

	for (i = 0; ch->rx_buffers && i <= ch->rq.mask; i++)
		fakernic_rx_free_buffer(ch, &ch->rx_buffers[i]);
	kvfree(ch->rx_buffers);
	ch->rx_buffers = NULL;
	/* The pool is freed once all its pages have been returned. */
	page_pool_destroy(ch->rx_pool);
	ch->rx_pool = NULL;
	fakernic_queue_free(ch->dev, &ch->rq);
}

/* Copies the first bytes of the frame; the pages stay in the slot. */
static struct sk_buff *fakernic_rx_copy(struct fakernic_channel *ch,
					const struct fakernic_rx_buffer *buffer,
					u32 length)
{
	struct device *device = &ch->dev->pdev->dev;
	struct sk_buff *skb = napi_alloc_skb(&ch->napi, length);

	if (!skb)
		return NULL;
	dma_sync_single_range_for_cpu(device, buffer->dma[0], 0, length,
				      DMA_FROM_DEVICE);
	skb_put_data(skb, page_address(buffer->page[0]), length);
	dma_sync_single_range_for_device(device, buffer->dma[0], 0, length,
					 DMA_FROM_DEVICE);
	return skb;
}

/* Passes the pages of a long frame to the skb, if they can be replaced. */
static struct sk_buff *fakernic_rx_steal(struct fakernic_channel *ch,
					 struct fakernic_rx_buffer *buffer,
					 u32 length)
{
	u32 i, count = DIV_ROUND_UP(length, PAGE_SIZE);
	struct fakernic_rx_buffer fresh = {};
	u32 offset = FAKERNIC_RX_HEADER;
	struct sk_buff *skb;

	if (fakernic_rx_fill_buffer(ch, &fresh, count, GFP_ATOMIC))
		return NULL;
	skb = fakernic_rx_copy(ch, buffer, FAKERNIC_RX_HEADER);
	if (!skb) {
		fakernic_rx_free_buffer(ch, &fresh);
		return NULL;
	}
	for (i = 0; i < count; i++) {
		u32 end = min_t(u32, length - i * PAGE_SIZE, PAGE_SIZE);

		dma_unmap_page(&ch->dev->pdev->dev, buffer->dma[i],
			       PAGE_SIZE, DMA_FROM_DEVICE);
		skb_add_rx_frag(skb, i, buffer->page[i], offset, end - offset,
				PAGE_SIZE);
		buffer->page[i] = fresh.page[i];
		buffer->dma[i] = fresh.dma[i];
		offset = 0;
	}
	skb_mark_for_recycle(skb);
	return skb;
}

bool fakernic_rx_complete(struct fakernic_channel *ch,
			  const struct fakernic_cqe *cqe)
{
	struct net_device *netdev = ch->netdev;
	u32 place = ch->rx_ci & ch->rq.mask;
	u32 length = le32_to_cpu(cqe->byte_count);
	struct fakernic_rx_buffer *buffer = &ch->rx_buffers[place];
	struct sk_buff *skb;

	if ((le32_to_cpu(cqe->wqe_index) & ch->rq.mask) != place ||
	    ch->rx_ci == ch->rx_pi) {
		if (net_ratelimit())
			netdev_err(netdev,
				   "queue %u: completion of receive %u, expected %u\n",
				   ch->index,
				   le32_to_cpu(cqe->wqe_index), ch->rx_ci);
		return false;
	}
	ch->rx_ci++;
	/* After an error the queue goes down: do not refill it. */
	if (cqe->status != FAKERNIC_WC_SUCCESS)
		return true;
	if (length < ETH_HLEN || length > ch->rx_pages * PAGE_SIZE) {
		DEV_STATS_INC(netdev, rx_errors);
		goto post;
	}
	skb = length <= FAKERNIC_RX_COPY ?
		fakernic_rx_copy(ch, buffer, length) :
		fakernic_rx_steal(ch, buffer, length);
	if (!skb) {
		dev_core_stats_rx_dropped_inc(netdev);
		goto post;
	}
	dev_sw_netstats_rx_add(netdev, length);
	ch->rx_frames++;
	skb->protocol = eth_type_trans(skb, netdev);
	skb_record_rx_queue(skb, ch->index);
	fakernic_tstamp_received(ch->priv, skb, cqe);
	if (cqe->flags & FAKERNIC_CQE_L4_CSUM_OK &&
	    netdev->features & NETIF_F_RXCSUM) {
		skb->ip_summed = CHECKSUM_UNNECESSARY;
		ch->rx_csum++;
	}
	if (cqe->flags & FAKERNIC_CQE_VLAN)
		__vlan_hwaccel_put_tag(skb, htons(ETH_P_8021Q),
				       le16_to_cpu(cqe->vlan));
	napi_gro_receive(&ch->napi, skb);
post:
	fakernic_rx_post(ch);
	return true;
}
