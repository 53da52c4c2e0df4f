/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The thread that feeds the guest's CPUs: QEMU's main loop.
 */
#ifndef FAKERNIC_DEVICE_THREAD_H
#define FAKERNIC_DEVICE_THREAD_H

/*
 * Lets the calling thread ask the host's scheduler for 'us' microseconds at a
 * time (100 to 100000; 0: nothing is changed). A thread that asks for less than
 * those that compute runs as soon as it wakes, for no larger share: frames need
 * not wait until a guest's CPU has had its turn. Linux 6.12 and later; what
 * does not know slices, or runs under another policy, stays as it is.
 */
void fakernic_thread_slice(unsigned us);

#endif
