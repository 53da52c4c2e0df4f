/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A user context. Each object type has its own header: it has the structure,
 * which embeds that of libibverbs, and documents the functions that the .c file
 * of the same name defines.
 *
 * fakernic_uVERB() implements ibv_VERB(3) and takes only objects of this
 * provider. The u distinguishes it from the driver's fakernic_VERB(). An int is
 * 0 or an errno value, and a pointer is NULL with errno set, as in libibverbs.
 * All but posting, polling and arming enter the kernel. Any number of threads
 * may call them at the same time, unless a thread domain forbids it.
 */
#ifndef FAKERNIC_PROVIDER_CONTEXT_H
#define FAKERNIC_PROVIDER_CONTEXT_H

#include <endian.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <infiniband/driver.h>
#include <util/mmio.h>

#include "fakernic/doorbell.h"
#include "table.h"

struct fakernic_context {
	struct verbs_context vctx;
	void *uar;			/* doorbell page */
	const void *clock_page;		/* NULL: none */
	uint64_t features;		/* FAKERNIC_FEATURE_* in use */
	uint64_t wall_offset_ns;	/* Unix - device time; 0: unknown */
	uint32_t max_qp_wr;
	uint32_t max_inline;		/* bytes */
	uint32_t max_send_sge;
	uint32_t max_recv_sge;
	atomic_bool gone;		/* device is gone; never cleared */
	struct fakernic_table qp_table;
	struct fakernic_table wq_table;	/* numbers not in qp_table; changed
					 * under the mutex of qp_table
					 */
	struct fakernic_table srq_table;
};

static inline struct fakernic_context *
fakernic_to_context(struct ibv_context *context)
{
	return container_of(context, struct fakernic_context, vctx.context);
}

/*
 * Returns err for a request that the provider refuses without the kernel.
 * VERBS_LOG_LEVEL=4 with VERBS_LOG_FILE logs why.
 */
#define fakernic_refuse(context, err, ...)				\
	({								\
		verbs_debug(&(context)->vctx, __VA_ARGS__);		\
		(err);							\
	})

/* Reads the device's clock. The context must have a clock page. */
static inline uint64_t
fakernic_clock_ns(const struct fakernic_context *context)
{
	const struct fakernic_clock_page *page = context->clock_page;

#if SIZEOF_LONG == 8
	return le64toh(mmio_read64_le(&page->time_ns));
#else
	/* mmio.h has no 64-bit read on 32-bit machines. */
	return le64toh(*(const volatile __le64 *)&page->time_ns);
#endif
}

/* The device is gone: see fakernic_check_if_gone(). */
static inline bool fakernic_no_time(uint64_t now_ns)
{
	return !now_ns || now_ns == UINT64_MAX;
}

/*
 * The device was found to be gone: nothing of this context will be completed
 * except for entries that are already in a CQ's ring.
 */
static inline bool fakernic_device_gone(struct fakernic_context *context)
{
	/* Loads gone before the rings: see fakernic_check_if_gone(). */
	return atomic_load_explicit(&context->gone, memory_order_acquire);
}

/*
 * Checks whether the device is gone, by the clock page if there is one. The
 * kernel takes the pages of a device that died, was reset or was unplugged from
 * the process; then they read as zeros. A device that does not respond reads as
 * ones.
 */
static inline void fakernic_check_if_gone(struct fakernic_context *context)
{
	if (!context->clock_page)
		return;
	/* The clock is read before gone is set: see fakernic_device_gone(). */
	if (fakernic_no_time(fakernic_clock_ns(context)))
		atomic_store_explicit(&context->gone, true,
				      memory_order_release);
}

#endif
