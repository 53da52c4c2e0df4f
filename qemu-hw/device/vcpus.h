/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the device needs of the guest's CPUs, and does for them.
 */
#ifndef FAKERNIC_DEVICE_VCPUS_H
#define FAKERNIC_DEVICE_VCPUS_H

/*
 * Makes the locked instructions of all vCPUs atomic against RDMA atomics. Also
 * raises the nice value of their threads by 'nice' (setpriority(2), 0 to 19),
 * so that the host's scheduler prefers QEMU's main thread.
 */
void fakernic_cpus_init(unsigned nice);

/* The same, with the largest 'nice' so far, if a vCPU was plugged in since.
 * Each turn calls this. */
void fakernic_cpus_look(void);

/* True: QEMU emulates the vCPUs (TCG), so a doorbell store costs no exit. */
bool fakernic_cpus_emulated(void);

/*
 * The calling vCPU waits for a frame. At most once in 10 us it yields its host
 * CPU, without the big QEMU lock, to threads such as the one that receives
 * frames. No effect on a thread that is no vCPU.
 */
void fakernic_cpu_waits(void);

#endif
