/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Maps object numbers to objects, for the 24-bit numbers in completion entries.
 *
 * Changes need the mutex; look-ups take no lock. That is safe because a page of
 * the table is not freed before the context, and because an object is removed
 * only while its CQs are locked and have no entry of it. A thread that walks
 * the table also sees objects of other CQs; holding the walk lock keeps them in
 * the table. The walk lock is the innermost lock.
 */
#ifndef FAKERNIC_PROVIDER_TABLE_H
#define FAKERNIC_PROVIDER_TABLE_H

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

#define FAKERNIC_TABLE_SHIFT	12
#define FAKERNIC_TABLE_SIZE	(1U << FAKERNIC_TABLE_SHIFT)
#define FAKERNIC_TABLE_MASK	(FAKERNIC_TABLE_SIZE - 1)

struct fakernic_table_page {
	_Atomic(void *) object[FAKERNIC_TABLE_SIZE];
};

struct fakernic_table {
	pthread_mutex_t mutex;
	pthread_mutex_t walk;
	_Atomic(struct fakernic_table_page *) page[FAKERNIC_TABLE_SIZE];
};

/* The object with this number (24 bits), or NULL. */
static inline void *fakernic_utable_find(struct fakernic_table *table,
					 uint32_t number)
{
	struct fakernic_table_page *page;

	/* The page before its objects: see fakernic_utable_put_locked(). */
	page = atomic_load_explicit(
		&table->page[(number >> FAKERNIC_TABLE_SHIFT) &
			     FAKERNIC_TABLE_MASK], memory_order_acquire);
	if (!page)
		return NULL;
	/* The pointer before the object: see fakernic_utable_put_locked(). */
	return atomic_load_explicit(&page->object[number & FAKERNIC_TABLE_MASK],
				    memory_order_acquire);
}

/*
 * The first object with number *number or higher, or NULL; sets *number. The
 * walk lock is held.
 */
static inline void *fakernic_utable_next_locked(struct fakernic_table *table,
						uint32_t *number)
{
	void *object;

	while (*number < FAKERNIC_TABLE_SIZE << FAKERNIC_TABLE_SHIFT) {
		if (!atomic_load_explicit(
			    &table->page[*number >> FAKERNIC_TABLE_SHIFT],
			    memory_order_relaxed)) {
			*number = (*number | FAKERNIC_TABLE_MASK) + 1;
			continue;
		}
		object = fakernic_utable_find(table, *number);
		if (object)
			return object;
		++*number;
	}
	return NULL;
}

/*
 * Releases the mutex for a moment: the thread that holds a CQ the caller needs
 * may be waiting for the mutex.
 */
static inline void fakernic_utable_yield_locked(struct fakernic_table *table)
{
	pthread_mutex_unlock(&table->mutex);
	sched_yield();
	pthread_mutex_lock(&table->mutex);
}

/* The mutex is held. 0 or ENOMEM. */
static inline int fakernic_utable_put_locked(struct fakernic_table *table,
					     uint32_t number, void *object)
{
	uint32_t high = (number >> FAKERNIC_TABLE_SHIFT) & FAKERNIC_TABLE_MASK;
	struct fakernic_table_page *page;

	page = atomic_load_explicit(&table->page[high], memory_order_relaxed);
	if (!page) {
		page = calloc(1, sizeof(*page));
		if (!page)
			return ENOMEM;
		/* The zeros before the page: see fakernic_utable_find(). */
		atomic_store_explicit(&table->page[high], page,
				      memory_order_release);
	}
	/* The object before its pointer: see fakernic_utable_find(). */
	atomic_store_explicit(&page->object[number & FAKERNIC_TABLE_MASK],
			      object, memory_order_release);
	return 0;
}

/* The mutex is held, the walk lock is not; the number is in the table. */
static inline void fakernic_utable_remove_locked(struct fakernic_table *table,
						 uint32_t number)
{
	struct fakernic_table_page *page;

	page = atomic_load_explicit(
		&table->page[(number >> FAKERNIC_TABLE_SHIFT) &
			     FAKERNIC_TABLE_MASK], memory_order_relaxed);
	pthread_mutex_lock(&table->walk);
	/* Uses before the removal; the caller frees it under its CQs' locks. */
	atomic_store_explicit(&page->object[number & FAKERNIC_TABLE_MASK], NULL,
			      memory_order_release);
	pthread_mutex_unlock(&table->walk);
}

static inline void fakernic_utable_init(struct fakernic_table *table)
{
	pthread_mutex_init(&table->mutex, NULL);
	pthread_mutex_init(&table->walk, NULL);
}

/* Frees the pages. The table must be empty. */
static inline void fakernic_utable_free(struct fakernic_table *table)
{
	unsigned int i;

	for (i = 0; i < FAKERNIC_TABLE_SIZE; i++)
		free(atomic_load_explicit(&table->page[i],
					  memory_order_relaxed));
	pthread_mutex_destroy(&table->walk);
	pthread_mutex_destroy(&table->mutex);
}

#endif
