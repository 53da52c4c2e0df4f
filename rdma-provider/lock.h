/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A lock that single-threaded objects skip. Lock order: CQ (two of them by
 * number), table mutex, then SQ, RQ or SRQ. A thread with a table's mutex may
 * only try to lock a CQ, because a program that holds a CQ between start_poll
 * and end_poll may create and destroy objects. A completion frees slots of an
 * SQ or RQ without their locks, through one atomic counter.
 */
#ifndef FAKERNIC_PROVIDER_LOCK_H
#define FAKERNIC_PROVIDER_LOCK_H

#include <pthread.h>
#include <stdbool.h>

struct fakernic_lock {
	pthread_spinlock_t spin;
	bool needed;
};

/* needed: false when the application serialises (fakernic_pd_needs_locks()). */
static inline void fakernic_lock_init(struct fakernic_lock *lock, bool needed)
{
	pthread_spin_init(&lock->spin, PTHREAD_PROCESS_PRIVATE);
	lock->needed = needed;
}

static inline void fakernic_lock_destroy(struct fakernic_lock *lock)
{
	pthread_spin_destroy(&lock->spin);
}

static inline void fakernic_lock(struct fakernic_lock *lock)
{
	if (lock->needed)
		pthread_spin_lock(&lock->spin);
}

/* False: another thread holds it. */
static inline bool fakernic_try_lock(struct fakernic_lock *lock)
{
	return !lock->needed || !pthread_spin_trylock(&lock->spin);
}

static inline void fakernic_unlock(struct fakernic_lock *lock)
{
	if (lock->needed)
		pthread_spin_unlock(&lock->spin);
}

#endif
