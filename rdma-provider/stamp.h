/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Stamps in doorbell records (fakernic/base.h): the time when work requests
 * were posted and completions taken, for a device that records its work. The
 * clock is the processor's counter, which needs no system call. A store into
 * the device would cost an exit.
 */
#ifndef FAKERNIC_PROVIDER_STAMP_H
#define FAKERNIC_PROVIDER_STAMP_H

#include "fakernic/regs.h"
#include "context.h"
#include "queue.h"

/* Ticks; 0: this processor has no such counter. */
static inline uint64_t fakernic_ticks(void)
{
#if defined(__x86_64__) || defined(__i386__)
	return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
	uint64_t ticks;

	asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
	return ticks;
#else
	return 0;
#endif
}

/* Stamps the index that is stored next. The queue must have a ring. */
static inline void fakernic_uqueue_stamp(struct fakernic_queue *queue,
					 struct ibv_context *context)
{
	if (fakernic_to_context(context)->features & FAKERNIC_FEATURE_STAMPS)
		*(volatile __le64 *)&queue->record->stamp =
			htole64(fakernic_ticks());
}

#endif
