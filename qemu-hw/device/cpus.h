/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the device needs of the guest's CPUs, and does for them.
 */
#ifndef FAKERNIC_DEVICE_CPUS_H
#define FAKERNIC_DEVICE_CPUS_H

/*
 * From now on the locked instructions of those that there are are atomic
 * against RDMA atomics; and the host's scheduler prefers QEMU's main thread to
 * theirs, by 'nice' (setpriority(2), 0 to 19).
 */
void fakernic_cpus_init(unsigned nice);

/* Whether QEMU computes what they do (TCG): a store costs no exit. */
bool fakernic_cpus_emulated(void);

/*
 * The CPU whose store this is has nothing to do but to wait for a frame. Once
 * in 10 us at most it lets other threads of the host run, such as the one that
 * receives frames, as soon as it holds no lock. Not a CPU: nothing happens.
 */
void fakernic_cpu_waits(void);

#endif
