// SPDX-License-Identifier: GPL-2.0-only
/*
 * Frames in: each slot of the receive queue has as many single pages as the
 * MTU asks for. A short frame is copied and its pages stay; of a long one the
 * headers are copied and the pages go with the skb, new ones take their place.
 * When there are none, the frame is dropped: the queue is always full again.
 */
#include <linux/slab.h>
#include "netdev.h"

#define FAKERNIC_RX_COPY	1024	/* frames up to this are copied */
#define FAKERNIC_RX_HEADER	256	/* of longer ones this is */

u32 fakernic_rx_pages_for(u32 mtu)
{
	return DIV_ROUND_UP(mtu + FAKERNIC_FRAME_OVERHEAD, PAGE_SIZE);
}

static int fakernic_rx_alloc_page(struct fakernic_port *port,
				  struct page **page, dma_addr_t *dma)
{
	struct device *device = &port->dev->pdev->dev;

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

static void fakernic_rx_free_buffer(struct fakernic_port *port,
				    struct fakernic_rx_buffer *buffer)
{
	u32 i;

	for (i = 0; i < FAKERNIC_RX_PAGES_MAX; i++) {
		if (!buffer->page[i])
			continue;
		dma_unmap_page(&port->dev->pdev->dev, buffer->dma[i],
			       PAGE_SIZE, DMA_FROM_DEVICE);
		__free_page(buffer->page[i]);
		buffer->page[i] = NULL;
	}
}

static int fakernic_rx_fill_buffer(struct fakernic_port *port,
				   struct fakernic_rx_buffer *buffer, u32 count)
{
	u32 i;

	for (i = 0; i < count; i++)
		if (fakernic_rx_alloc_page(port, &buffer->page[i],
					   &buffer->dma[i])) {
			fakernic_rx_free_buffer(port, buffer);
			return -ENOMEM;
		}
	return 0;
}

/* Gives the buffer of that place to the device; published by the caller. */
static void fakernic_rx_post(struct fakernic_port *port)
{
	u32 place = port->rx_pi & port->rq.mask;
	struct fakernic_rx_buffer *buffer = &port->rx_buffers[place];
	struct ib_sge sge[FAKERNIC_RX_PAGES_MAX];
	u32 i;

	for (i = 0; i < port->rx_pages; i++) {
		sge[i].addr = buffer->dma[i];
		sge[i].length = PAGE_SIZE;
		sge[i].lkey = port->lkey;
	}
	fakernic_rq_write(&port->rq, port->rx_pi, place, sge, port->rx_pages);
	port->rx_pi++;
}

int fakernic_rx_init(struct fakernic_port *port)
{
	u32 i, depth = 1U << FAKERNIC_RX_LOG_DEPTH;
	u32 log_stride;
	int ret;

	port->rx_pages = fakernic_rx_pages_for(port->netdev->mtu);
	port->rx_pi = 0;
	port->rx_ci = 0;
	log_stride = order_base_2(sizeof(struct fakernic_rq_wqe) +
				  port->rx_pages * sizeof(struct fakernic_sge));
	ret = fakernic_queue_alloc(port->dev, &port->rq, FAKERNIC_RX_LOG_DEPTH,
				   log_stride);
	if (ret)
		return ret;
	port->rx_buffers = kvcalloc(depth, sizeof(*port->rx_buffers),
				    GFP_KERNEL);
	ret = -ENOMEM;
	if (!port->rx_buffers)
		goto err_cleanup;
	for (i = 0; i < depth; i++) {
		ret = fakernic_rx_fill_buffer(port, &port->rx_buffers[i],
					      port->rx_pages);
		if (ret)
			goto err_cleanup;
		fakernic_rx_post(port);
	}
	fakernic_queue_publish(&port->rq, port->rx_pi);
	return 0;

err_cleanup:
	fakernic_rx_cleanup(port);
	return ret;
}

/* The device has let go of the queue. */
void fakernic_rx_cleanup(struct fakernic_port *port)
{
	u32 i;

	for (i = 0; port->rx_buffers && i <= port->rq.mask; i++)
		fakernic_rx_free_buffer(port, &port->rx_buffers[i]);
	kvfree(port->rx_buffers);
	port->rx_buffers = NULL;
	fakernic_queue_free(port->dev, &port->rq);
}

/* A copy of the first bytes of the frame; the pages remain the device's. */
static struct sk_buff *fakernic_rx_copy(struct fakernic_port *port,
					const struct fakernic_rx_buffer *buffer,
					u32 length)
{
	struct device *device = &port->dev->pdev->dev;
	struct sk_buff *skb = napi_alloc_skb(&port->napi, length);

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
static struct sk_buff *fakernic_rx_steal(struct fakernic_port *port,
					 struct fakernic_rx_buffer *buffer,
					 u32 length)
{
	u32 i, count = DIV_ROUND_UP(length, PAGE_SIZE);
	struct fakernic_rx_buffer fresh = {};
	u32 offset = FAKERNIC_RX_HEADER;
	struct sk_buff *skb;

	if (fakernic_rx_fill_buffer(port, &fresh, count))
		return NULL;
	skb = fakernic_rx_copy(port, buffer, FAKERNIC_RX_HEADER);
	if (!skb) {
		fakernic_rx_free_buffer(port, &fresh);
		return NULL;
	}
	for (i = 0; i < count; i++) {
		u32 end = min_t(u32, length - i * PAGE_SIZE, PAGE_SIZE);

		dma_unmap_page(&port->dev->pdev->dev, buffer->dma[i],
			       PAGE_SIZE, DMA_FROM_DEVICE);
		skb_add_rx_frag(skb, i, buffer->page[i], offset, end - offset,
				PAGE_SIZE);
		buffer->page[i] = fresh.page[i];
		buffer->dma[i] = fresh.dma[i];
		offset = 0;
	}
	return skb;
}

/* One receive is done; they complete in order. From NAPI. */
void fakernic_rx_complete(struct fakernic_port *port,
			  const struct fakernic_cqe *cqe)
{
	struct net_device *netdev = port->netdev;
	u32 place = port->rx_ci & port->rq.mask;
	u32 length = le32_to_cpu(cqe->byte_count);
	struct fakernic_rx_buffer *buffer = &port->rx_buffers[place];
	struct sk_buff *skb;

	if ((le32_to_cpu(cqe->wqe_index) & port->rq.mask) != place ||
	    port->rx_ci == port->rx_pi) {
		if (net_ratelimit())
			netdev_err(netdev,
				   "completion of receive %u, expected %u\n",
				   le32_to_cpu(cqe->wqe_index), port->rx_ci);
		return;
	}
	port->rx_ci++;
	if (cqe->status != FAKERNIC_WC_SUCCESS) {
		/* The queue is going down and is not refilled. */
		fakernic_port_error(port, "receive", cqe);
		return;
	}
	if (length < ETH_HLEN || length > port->rx_pages * PAGE_SIZE) {
		DEV_STATS_INC(netdev, rx_errors);
		goto post;
	}
	skb = length <= FAKERNIC_RX_COPY ?
		fakernic_rx_copy(port, buffer, length) :
		fakernic_rx_steal(port, buffer, length);
	if (!skb) {
		dev_core_stats_rx_dropped_inc(netdev);
		goto post;
	}
	dev_sw_netstats_rx_add(netdev, length);
	skb->protocol = eth_type_trans(skb, netdev);
	napi_gro_receive(&port->napi, skb);
post:
	fakernic_rx_post(port);
}
