/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ThreadSanitizer does not see order that a device causes. These calls declare
 * it: data written before a release can be read after an acquire. Included
 * before every source, this file also makes it see the provider's barriers.
 */
#ifndef TSAN_H
#define TSAN_H

#ifdef __SANITIZE_THREAD__
#include <stdatomic.h>
#include <util/udma_barrier.h>

void __tsan_acquire(void *bus);
void __tsan_release(void *bus);
extern char model_bus;
#define MODEL_ACQUIRE()	__tsan_acquire(&model_bus)
#define MODEL_RELEASE()	__tsan_release(&model_bus)
/* For functions that read what the other side may change at any time. */
#define MODEL_SHARED	__attribute__((no_sanitize("thread"), noinline))

#undef udma_to_device_barrier
#define udma_to_device_barrier()	MODEL_RELEASE()
#undef udma_from_device_barrier
#define udma_from_device_barrier()	MODEL_ACQUIRE()
#undef atomic_thread_fence
#define atomic_thread_fence(order)	MODEL_RELEASE()
#else
#define MODEL_ACQUIRE()	((void)0)
#define MODEL_RELEASE()	((void)0)
#define MODEL_SHARED
#endif

#endif
