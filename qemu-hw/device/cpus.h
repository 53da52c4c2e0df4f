/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the device needs of the guest's CPUs.
 */
#ifndef FAKERNIC_DEVICE_CPUS_H
#define FAKERNIC_DEVICE_CPUS_H

/* From now on their locked instructions are atomic against RDMA atomics. */
void fakernic_cpus_init(void);

#endif
