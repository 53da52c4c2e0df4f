/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The net_device's receive queue.
 */
#ifndef FAKERNIC_DRIVER_RX_H
#define FAKERNIC_DRIVER_RX_H

#include <linux/types.h>

struct fakernic_channel;
struct fakernic_cqe;

/* Makes the queue for the net_device's MTU, full of buffers. -ENOMEM: none. */
int fakernic_rx_init(struct fakernic_channel *ch);

/* Frees it with its buffers. The device has let go of the queue. */
void fakernic_rx_cleanup(struct fakernic_channel *ch);

/*
 * The oldest receive is done, as cqe says: hands the frame to the stack and
 * refills the queue, unless cqe has an error; the caller publishes rx_pi.
 * False: cqe is of another, and is ignored. From NAPI.
 */
bool fakernic_rx_complete(struct fakernic_channel *ch,
			  const struct fakernic_cqe *cqe);

/* Pages that a buffer has with this MTU (bytes). */
u32 fakernic_rx_pages_for(u32 mtu);

#endif
