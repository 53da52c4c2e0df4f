/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ThreadSanitizer does not see order that a device causes. The calls declare
 * it: what was written before a release can be read behind an acquire. In
 * front of every source they also make it see the barriers by which the
 * provider orders what it and the device do.
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
/* Looks at what the other side changes at any moment, as a device does. */
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
