/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Object number -> object, for the 24-bit numbers in completion entries.
 *
 * Changes are made under the mutex; look-ups take no lock. That is safe because
 * a page of the table, once there, stays until the context goes, and because an
 * object is removed only while its CQs are locked and hold no entry of it. Who
 * walks the table meets objects of others' CQs, too: these stay while he has
 * the walk, which is asked for last of all locks.
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

/* The object of that number (24 bits), or NULL. */
static inline void *fakernic_table_find(struct fakernic_table *table,
					uint32_t number)
{
	struct fakernic_table_page *page;

	page = atomic_load_explicit(
		&table->page[(number >> FAKERNIC_TABLE_SHIFT) &
			     FAKERNIC_TABLE_MASK], memory_order_acquire);
	if (!page)
		return NULL;
	return atomic_load_explicit(&page->object[number & FAKERNIC_TABLE_MASK],
				    memory_order_acquire);
}

/*
 * The first object of that number or a higher one, which *number becomes, or
 * NULL. The walk is held.
 */
static inline void *fakernic_table_next_locked(struct fakernic_table *table,
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
		object = fakernic_table_find(table, *number);
		if (object)
			return object;
		++*number;
	}
	return NULL;
}

/*
 * Lets go of the mutex, and takes it again: who has what its holder wants may
 * want the mutex himself.
 */
static inline void fakernic_table_yield_locked(struct fakernic_table *table)
{
	pthread_mutex_unlock(&table->mutex);
	sched_yield();
	pthread_mutex_lock(&table->mutex);
}

/* The mutex is held. 0 or ENOMEM. */
static inline int fakernic_table_put_locked(struct fakernic_table *table,
					    uint32_t number, void *object)
{
	uint32_t high = (number >> FAKERNIC_TABLE_SHIFT) & FAKERNIC_TABLE_MASK;
	struct fakernic_table_page *page;

	page = atomic_load_explicit(&table->page[high], memory_order_relaxed);
	if (!page) {
		page = calloc(1, sizeof(*page));
		if (!page)
			return ENOMEM;
		atomic_store_explicit(&table->page[high], page,
				      memory_order_release);
	}
	atomic_store_explicit(&page->object[number & FAKERNIC_TABLE_MASK],
			      object, memory_order_release);
	return 0;
}

/* The mutex is held, not the walk; the number was put before. */
static inline void fakernic_table_remove_locked(struct fakernic_table *table,
						uint32_t number)
{
	struct fakernic_table_page *page;

	page = atomic_load_explicit(
		&table->page[(number >> FAKERNIC_TABLE_SHIFT) &
			     FAKERNIC_TABLE_MASK], memory_order_relaxed);
	pthread_mutex_lock(&table->walk);
	atomic_store_explicit(&page->object[number & FAKERNIC_TABLE_MASK], NULL,
			      memory_order_release);
	pthread_mutex_unlock(&table->walk);
}

static inline void fakernic_table_init(struct fakernic_table *table)
{
	pthread_mutex_init(&table->mutex, NULL);
	pthread_mutex_init(&table->walk, NULL);
}

/* Frees the pages, not the objects: there are none any more. */
static inline void fakernic_table_free(struct fakernic_table *table)
{
	unsigned int i;

	for (i = 0; i < FAKERNIC_TABLE_SIZE; i++)
		free(atomic_load_explicit(&table->page[i],
					  memory_order_relaxed));
	pthread_mutex_destroy(&table->walk);
	pthread_mutex_destroy(&table->mutex);
}

#endif
