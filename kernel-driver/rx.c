// SPDX-License-Identifier: GPL-2.0-only
/*
 * Frames in: each slot of the receive queue has as many single pages as the
 * MTU asks for. A short frame is copied and its pages stay; of a long one the
 * headers are copied and the pages go with the skb, new ones take their place.
 * When there are none, the frame is dropped: the queue is always full again.
 */
#include <linux/dma-mapping.h>
#include <linux/etherdevice.h>
#include <linux/slab.h>
#include <rdma/ib_verbs.h>
#include <fakernic/cq.h>
#include "device.h"
#include "netdev.h"
#include "queue.h"
#include "rq.h"
#include "rx.h"

#define FAKERNIC_RX_COPY	1024	/* frames up to this are copied */
#define FAKERNIC_RX_HEADER	256	/* of longer ones this is */

#define FAKERNIC_RX_PAGES_MAX	DIV_ROUND_UP(FAKERNIC_FRAME_MAX, PAGE_SIZE)

struct fakernic_rx_buffer {
	struct page *page[FAKERNIC_RX_PAGES_MAX];
	dma_addr_t dma[FAKERNIC_RX_PAGES_MAX];
};

u32 fakernic_rx_pages_for(u32 mtu)
{
	return DIV_ROUND_UP(mtu + FAKERNIC_FRAME_OVERHEAD, PAGE_SIZE);
}

static int fakernic_rx_alloc_page(struct fakernic_netdev *priv,
				  struct page **page, dma_addr_t *dma)
{
	struct device *device = &priv->dev->pdev->dev;

	*page = dev_alloc_page();
	if (!*page)
		return -ENOMEM;
	*dma = dma_map_page(device, *page, 0, PAGE_SIZE, DMA_FROM_DEVICE);
	if (dma_mapping_error(device, *dma)) {
		__free_page(*page);
		*page = NULL;
		return -ENOMEM;
	}
	return 0;
}

static void fakernic_rx_free_buffer(struct fakernic_netdev *priv,
				    struct fakernic_rx_buffer *buffer)
{
	u32 i;

	for (i = 0; i < FAKERNIC_RX_PAGES_MAX; i++) {
		if (!buffer->page[i])
			continue;
		dma_unmap_page(&priv->dev->pdev->dev, buffer->dma[i],
			       PAGE_SIZE, DMA_FROM_DEVICE);
		__free_page(buffer->page[i]);
		buffer->page[i] = NULL;
	}
}

static int fakernic_rx_fill_buffer(struct fakernic_netdev *priv,
				   struct fakernic_rx_buffer *buffer, u32 count)
{
	u32 i;

	for (i = 0; i < count; i++)
		if (fakernic_rx_alloc_page(priv, &buffer->page[i],
					   &buffer->dma[i])) {
			fakernic_rx_free_buffer(priv, buffer);
			return -ENOMEM;
		}
	return 0;
}

/* Gives the buffer of that place to the device; published by the caller. */
static void fakernic_rx_post(struct fakernic_netdev *priv)
{
	u32 place = priv->rx_pi & priv->rq.mask;
	struct fakernic_rx_buffer *buffer = &priv->rx_buffers[place];
	struct ib_sge sge[FAKERNIC_RX_PAGES_MAX];
	u32 i;

	for (i = 0; i < priv->rx_pages; i++) {
		sge[i].addr = buffer->dma[i];
		sge[i].length = PAGE_SIZE;
		sge[i].lkey = priv->lkey;
	}
	fakernic_rq_write(&priv->rq, priv->rx_pi, place, sge, priv->rx_pages);
	priv->rx_pi++;
}

int fakernic_rx_init(struct fakernic_netdev *priv)
{
	u32 i, depth = 1U << FAKERNIC_RX_LOG_DEPTH;
	int ret;

	priv->rx_pages = fakernic_rx_pages_for(priv->netdev->mtu);
	priv->rx_pi = 0;
	priv->rx_ci = 0;
	ret = fakernic_queue_alloc(priv->dev, &priv->rq, FAKERNIC_RX_LOG_DEPTH,
				   fakernic_rq_log_stride(priv->rx_pages));
	if (ret)
		return ret;
	priv->rx_buffers = kvcalloc(depth, sizeof(*priv->rx_buffers),
				    GFP_KERNEL);
	ret = -ENOMEM;
	if (!priv->rx_buffers)
		goto err_cleanup;
	for (i = 0; i < depth; i++) {
		ret = fakernic_rx_fill_buffer(priv, &priv->rx_buffers[i],
					      priv->rx_pages);
		if (ret)
			goto err_cleanup;
		fakernic_rx_post(priv);
	}
	fakernic_queue_publish(&priv->rq, priv->rx_pi);
	return 0;

err_cleanup:
	fakernic_rx_cleanup(priv);
	return ret;
}

void fakernic_rx_cleanup(struct fakernic_netdev *priv)
{
	u32 i;

	for (i = 0; priv->rx_buffers && i <= priv->rq.mask; i++)
		fakernic_rx_free_buffer(priv, &priv->rx_buffers[i]);
	kvfree(priv->rx_buffers);
	priv->rx_buffers = NULL;
	fakernic_queue_free(priv->dev, &priv->rq);
}

/* A copy of the first bytes of the frame; the pages remain the device's. */
static struct sk_buff *fakernic_rx_copy(struct fakernic_netdev *priv,
					const struct fakernic_rx_buffer *buffer,
					u32 length)
{
	struct device *device = &priv->dev->pdev->dev;
	struct sk_buff *skb = napi_alloc_skb(&priv->napi, length);

	if (!skb)
		return NULL;
	dma_sync_single_range_for_cpu(device, buffer->dma[0], 0, length,
				      DMA_FROM_DEVICE);
	skb_put_data(skb, page_address(buffer->page[0]), length);
	dma_sync_single_range_for_device(device, buffer->dma[0], 0, length,
					 DMA_FROM_DEVICE);
	return skb;
}

/* The pages of a long frame go with the skb, if they can be replaced. */
static struct sk_buff *fakernic_rx_steal(struct fakernic_netdev *priv,
					 struct fakernic_rx_buffer *buffer,
					 u32 length)
{
	u32 i, count = DIV_ROUND_UP(length, PAGE_SIZE);
	struct fakernic_rx_buffer fresh = {};
	u32 offset = FAKERNIC_RX_HEADER;
	struct sk_buff *skb;

	if (fakernic_rx_fill_buffer(priv, &fresh, count))
		return NULL;
	skb = fakernic_rx_copy(priv, buffer, FAKERNIC_RX_HEADER);
	if (!skb) {
		fakernic_rx_free_buffer(priv, &fresh);
		return NULL;
	}
	for (i = 0; i < count; i++) {
		u32 end = min_t(u32, length - i * PAGE_SIZE, PAGE_SIZE);

		dma_unmap_page(&priv->dev->pdev->dev, buffer->dma[i],
			       PAGE_SIZE, DMA_FROM_DEVICE);
		skb_add_rx_frag(skb, i, buffer->page[i], offset, end - offset,
				PAGE_SIZE);
		buffer->page[i] = fresh.page[i];
		buffer->dma[i] = fresh.dma[i];
		offset = 0;
	}
	return skb;
}

bool fakernic_rx_complete(struct fakernic_netdev *priv,
			  const struct fakernic_cqe *cqe)
{
	struct net_device *netdev = priv->netdev;
	u32 place = priv->rx_ci & priv->rq.mask;
	u32 length = le32_to_cpu(cqe->byte_count);
	struct fakernic_rx_buffer *buffer = &priv->rx_buffers[place];
	struct sk_buff *skb;

	if ((le32_to_cpu(cqe->wqe_index) & priv->rq.mask) != place ||
	    priv->rx_ci == priv->rx_pi) {
		if (net_ratelimit())
			netdev_err(netdev,
				   "completion of receive %u, expected %u\n",
				   le32_to_cpu(cqe->wqe_index), priv->rx_ci);
		return false;
	}
	priv->rx_ci++;
	/* After an error the queue is going down and is not refilled. */
	if (cqe->status != FAKERNIC_WC_SUCCESS)
		return true;
	if (length < ETH_HLEN || length > priv->rx_pages * PAGE_SIZE) {
		DEV_STATS_INC(netdev, rx_errors);
		goto post;
	}
	skb = length <= FAKERNIC_RX_COPY ?
		fakernic_rx_copy(priv, buffer, length) :
		fakernic_rx_steal(priv, buffer, length);
	if (!skb) {
		dev_core_stats_rx_dropped_inc(netdev);
		goto post;
	}
	dev_sw_netstats_rx_add(netdev, length);
	skb->protocol = eth_type_trans(skb, netdev);
	if (cqe->flags & FAKERNIC_CQE_L4_CSUM_OK &&
	    netdev->features & NETIF_F_RXCSUM) {
		skb->ip_summed = CHECKSUM_UNNECESSARY;
		priv->rx_csum++;
	}
	napi_gro_receive(&priv->napi, skb);
post:
	fakernic_rx_post(priv);
	return true;
}
