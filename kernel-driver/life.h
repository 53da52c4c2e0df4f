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
 * Whoever has the hardware down until he lets it go on, of whom there may be
 * several: devlink's reload; a reset of the function; sleep; the bus after an
 * error, which may never let go; and the driver when it leaves, for good.
 */
enum fakernic_holder {
	FAKERNIC_HELD_BY_RELOAD,
	FAKERNIC_HELD_BY_RESET,
	FAKERNIC_HELD_BY_SLEEP,
	FAKERNIC_HELD_BY_BUS,
	FAKERNIC_HELD_FOR_GOOD,
};

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
 * Somebody will take the hardware down: from now on no command waits for ever,
 * and nobody begins to recover the device. At any time.
 */
void fakernic_life_claim(struct fakernic_dev *dev,
			 enum fakernic_holder holder);

/*
 * Takes the hardware down, and it stays so until fakernic_life_go_on() of each
 * holder. gently: RDMA's users in the kernel may take leave of their peers
 * first; else it is stopped at once. Does nothing more to a device that is
 * down, nor, for sleep and the bus, to one that is dead.
 */
void fakernic_life_hold(struct fakernic_dev *dev, enum fakernic_holder holder,
			bool gently);

/*
 * Brings it up after fakernic_life_hold(). -EBUSY: there is nothing to be done,
 * because somebody else still holds it, or that holder does not, or it was dead
 * before and nobody asked for it. After any other error it is dead: both faces
 * say so, unless there is no memory for them.
 */
int fakernic_life_go_on(struct fakernic_dev *dev,
			enum fakernic_holder holder);

/*
 * Is a recovery to wait? The bus has ten seconds, for it says nothing when it
 * has given up; others will tell.
 */
bool fakernic_life_is_held(struct fakernic_dev *dev);

/*
 * Brings a device up that is dead or down: by its own reset, and if that does
 * not help by one of the function. 0 also if it is well; -EBUSY while somebody
 * holds it. After an error a dead one is as it was, unless it executed a
 * command and failed later: then it has new faces, which say that it is dead.
 * asked: by a user, who need not wait for the bus.
 */
int fakernic_life_recover(struct fakernic_dev *dev, bool asked);

/*
 * The bus was given its ten seconds and has not recovered the device; nobody
 * else is to. If it is down it says that it is dead.
 */
void fakernic_life_give_up(struct fakernic_dev *dev);

#endif
