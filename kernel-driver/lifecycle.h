/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The life cycle of the hardware: it goes up, down for a reset or a suspend,
 * and up again. The net_device, the PTP clock and the function's mappings
 * survive that. The RDMA device and all its objects are destroyed and created.
 */
#ifndef FAKERNIC_DRIVER_LIFECYCLE_H
#define FAKERNIC_DRIVER_LIFECYCLE_H

#include <linux/types.h>

struct fakernic_dev;

/*
 * Reasons to keep the hardware down; several can apply at the same time. The
 * bus may never resume the device after an error. FAKERNIC_QUIESCE_REMOVE is
 * the removal of the driver or a shutdown.
 */
enum fakernic_quiesce_reason {
	FAKERNIC_QUIESCE_RELOAD,
	FAKERNIC_QUIESCE_RESET,
	FAKERNIC_QUIESCE_SUSPEND,
	FAKERNIC_QUIESCE_BUS,
	FAKERNIC_QUIESCE_REMOVE,
};

/*
 * Resets the device and brings it up to the point where it executes commands.
 * Fails if its interface version is not supported. Fills in features and caps.
 * The command queue's memory must have been allocated.
 */
int fakernic_hw_start(struct fakernic_dev *dev);

/*
 * Undoes fakernic_hw_start(). The interfaces must be down, and all objects
 * destroyed. The device may be dead.
 */
void fakernic_hw_stop(struct fakernic_dev *dev);

/*
 * Attaches the net_device and registers the RDMA device of a device that has
 * been started. On failure it undoes its own steps only.
 */
int fakernic_hw_register(struct fakernic_dev *dev);

/*
 * Announces that the hardware will be taken down: from now on every command
 * has a time limit, and no recovery starts. Callable in any state.
 */
void fakernic_hw_announce(struct fakernic_dev *dev,
			  enum fakernic_quiesce_reason reason);

/*
 * Takes the hardware down until fakernic_hw_resume() ends every reason.
 * gently: kernel users of RDMA may disconnect from their peers first.
 * Otherwise the device is stopped at once. A device that is already down is
 * left alone. A suspend and a bus error also leave a dead device alone.
 */
void fakernic_hw_quiesce(struct fakernic_dev *dev,
			 enum fakernic_quiesce_reason reason, bool gently);

/*
 * Resumes the hardware after fakernic_hw_quiesce(). Returns -EBUSY, and does
 * nothing, in three cases: another reason keeps the device down; this reason
 * did not; or the device was dead before a suspend or a bus error. After any
 * other error the device is dead. Both interfaces then exist and report that,
 * unless memory for them is short.
 */
int fakernic_hw_resume(struct fakernic_dev *dev,
		       enum fakernic_quiesce_reason reason);

/*
 * Returns true if a recovery must wait, because the hardware is quiesced. The
 * bus may never resume the device, so the wait for it ends after ten seconds.
 */
bool fakernic_hw_must_wait(struct fakernic_dev *dev);

/*
 * Recovers a device that is dead or down: first by its own reset, and if that
 * fails by a function reset. Returns 0 also for a healthy device, and -EBUSY
 * while a reason keeps it down. After an error a dead device keeps its
 * interfaces. If it executed a command and failed later, its RDMA device is
 * replaced by one that reports a dead device. by_user: a user requests the
 * recovery, which then does not wait for the bus.
 */
int fakernic_hw_recover(struct fakernic_dev *dev, bool by_user);

/*
 * Called after each recovery attempt. If the device is still down and nothing
 * will resume it, registers interfaces that report a dead device.
 */
void fakernic_hw_abandon(struct fakernic_dev *dev);

#endif
