/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The life of the hardware: up, down, up anew. The net_device, the PTP clock
 * and the function's mappings outlast it; the RDMA device and all its objects
 * go and come with it.
 */
#ifndef FAKERNIC_DRIVER_LIFE_H
#define FAKERNIC_DRIVER_LIFE_H

#include <linux/types.h>

struct fakernic_dev;

/*
 * It is a fakernic we understand, it has been reset and executes commands. The
 * memory of the command queue is there. Sets what the device says of itself.
 */
int fakernic_life_start(struct fakernic_dev *dev);

/* Undoes it; nobody uses the device any more, and it may be dead. */
void fakernic_life_end(struct fakernic_dev *dev);

/* Both faces of a device that has been started; undone by fakernic_life_end. */
int fakernic_life_show(struct fakernic_dev *dev);

/*
 * Takes the hardware down, and it stays so until fakernic_life_go_on(). gently:
 * RDMA's users in the kernel may take leave of their peers first; else it is
 * stopped at once. Does nothing more to a device that is down.
 */
void fakernic_life_hold(struct fakernic_dev *dev, bool gently);

/* Brings it up after fakernic_life_hold(). On an error it is down. */
int fakernic_life_go_on(struct fakernic_dev *dev);

/*
 * Brings a device up that is dead or down: by its own reset, and if that does
 * not help by one of the function. 0 also if it is well; -EBUSY while somebody
 * holds it.
 */
int fakernic_life_recover(struct fakernic_dev *dev);

#endif
