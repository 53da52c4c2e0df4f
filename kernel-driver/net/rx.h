/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The net_device's receive queue.
 */
#ifndef FAKERNIC_DRIVER_RX_H
#define FAKERNIC_DRIVER_RX_H

#include <linux/types.h>

struct fakernic_channel;
struct fakernic_cqe;

/*
 * Allocates the queue for the net_device's MTU and fills it with buffers.
 * -ENOMEM: there is nothing to clean up.
 */
int fakernic_rx_init(struct fakernic_channel *ch);

/* Frees the queue and its buffers. The device must not use it any more. */
void fakernic_rx_cleanup(struct fakernic_channel *ch);

/*
 * Handles the completion of the oldest receive: passes the frame to the stack
 * and refills the queue, unless cqe reports an error. The caller publishes
 * rx_pi. False: cqe is not for the oldest receive and is ignored. Called from
 * NAPI.
 */
bool fakernic_rx_complete(struct fakernic_channel *ch,
			  const struct fakernic_cqe *cqe);

/* Number of pages in a buffer for this MTU (bytes). */
u32 fakernic_rx_pages_for(u32 mtu);

#endif
