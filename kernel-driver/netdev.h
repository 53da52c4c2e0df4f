/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The Ethernet port: a raw-packet QP and one CQ for both its queues. Shared by
 * netdev.c (the net_device and its life), tx.c, rx.c and ethtool.c.
 */
#ifndef FAKERNIC_NETDEV_H
#define FAKERNIC_NETDEV_H

#include <linux/if_vlan.h>
#include "fakernic.h"

#define FAKERNIC_TX_LOG_DEPTH	10	/* basic blocks */
#define FAKERNIC_RX_LOG_DEPTH	9	/* frames */
#define FAKERNIC_PORT_CQ_LOG_DEPTH	11	/* holds both queues' entries */

/* Ethernet header, two VLAN tags. */
#define FAKERNIC_FRAME_OVERHEAD	(ETH_HLEN + 2 * VLAN_HLEN)
#define FAKERNIC_FRAME_MAX	(9000 + FAKERNIC_FRAME_OVERHEAD)
#define FAKERNIC_RX_PAGES_MAX	DIV_ROUND_UP(FAKERNIC_FRAME_MAX, PAGE_SIZE)

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

struct fakernic_rx_buffer {
	struct page *page[FAKERNIC_RX_PAGES_MAX];
	dma_addr_t dma[FAKERNIC_RX_PAGES_MAX];
};

struct fakernic_port {
	struct fakernic_dev *dev;
	struct net_device *netdev;
	struct napi_struct napi;
	struct work_struct rx_mode_work;
	struct delayed_work restart_work;
	struct fakernic_query_port_resp info;	/* as of the last change */
	u32 pdn;
	u32 lkey;			/* of all of DMA space */
	bool up;			/* its queues exist; under RTNL */

	struct fakernic_cq_hw cq;
	struct fakernic_qp_hw qp;

	struct fakernic_queue sq;
	struct fakernic_tx_frame *tx_frames;
	struct fakernic_tx_map *tx_maps;
	u32 tx_pi;
	u32 tx_ci;

	struct fakernic_queue rq;
	struct fakernic_rx_buffer *rx_buffers;
	u32 rx_pages;			/* of each buffer */
	u32 rx_pi;
	u32 rx_ci;
};

/* netdev.c */
void fakernic_port_error(struct fakernic_port *port, const char *what,
			 const struct fakernic_cqe *cqe);

/* tx.c */
int fakernic_tx_init(struct fakernic_port *port);
void fakernic_tx_cleanup(struct fakernic_port *port);
netdev_tx_t fakernic_start_xmit(struct sk_buff *skb,
				struct net_device *netdev);
void fakernic_tx_complete(struct fakernic_port *port,
			  const struct fakernic_cqe *cqe, int budget);
void fakernic_tx_wake(struct fakernic_port *port);

/* rx.c */
int fakernic_rx_init(struct fakernic_port *port);
void fakernic_rx_cleanup(struct fakernic_port *port);
void fakernic_rx_complete(struct fakernic_port *port,
			  const struct fakernic_cqe *cqe);
u32 fakernic_rx_pages_for(u32 mtu);

/* ethtool.c */
extern const struct ethtool_ops fakernic_ethtool_ops;

#endif
