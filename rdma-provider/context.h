/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A user context. Each noun has a header of its own: its structure, which
 * embeds the one libibverbs knows, and the contracts of the functions that the
 * file of the same name defines.
 *
 * Functions with a name of libibverbs' are the verbs, ibv_*(3), called with
 * objects of this provider only. As there, an int is 0 or an errno value, and
 * a pointer is NULL with errno set. All but posting, polling and arming enter
 * the kernel. Any thread may call any of them, at once, unless a thread domain
 * says otherwise.
 */
#ifndef FAKERNIC_PROVIDER_CONTEXT_H
#define FAKERNIC_PROVIDER_CONTEXT_H

#include <endian.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <infiniband/driver.h>

#include "fakernic/doorbell.h"
#include "table.h"

struct fakernic_context {
	struct verbs_context vctx;
	void *uar;			/* doorbell page */
	const void *clock_page;		/* NULL: none */
	uint64_t features;		/* FAKERNIC_FEATURE_* in use */
	uint64_t wall_offset_ns;	/* Unix time - device clock; 0: unknown */
	uint32_t max_qp_wr;
	uint32_t max_inline;		/* bytes */
	uint32_t max_send_sge;
	uint32_t max_recv_sge;
	atomic_bool gone;		/* the device, for ever */
	struct fakernic_table qp_table;
	struct fakernic_table wq_table;	/* numbers not in qp_table; changed
					 * under the mutex of that
					 */
	struct fakernic_table srq_table;
};

static inline struct fakernic_context *
fakernic_to_context(struct ibv_context *context)
{
	return container_of(context, struct fakernic_context, vctx.context);
}

/*
 * The errno value err, for what never reaches the kernel; VERBS_LOG_LEVEL=4,
 * with VERBS_LOG_FILE, tells a user why.
 */
#define fakernic_refuse(context, err, ...)				\
	({								\
		verbs_debug(&(context)->vctx, __VA_ARGS__);		\
		(err);							\
	})

/* The device's clock. The context has a clock page. */
static inline uint64_t
fakernic_clock_ns(const struct fakernic_context *context)
{
	const struct fakernic_clock_page *page = context->clock_page;

	return le64toh(*(const volatile __le64 *)&page->time_ns);
}

/* Of a device that is gone: see fakernic_look_if_gone(). */
static inline bool fakernic_no_time(uint64_t now_ns)
{
	return !now_ns || now_ns == UINT64_MAX;
}

/*
 * It was found to be gone: nothing of this context will be completed but what
 * lies in a CQ's ring by now.
 */
static inline bool fakernic_is_gone(struct fakernic_context *context)
{
	return atomic_load_explicit(&context->gone, memory_order_acquire);
}

/*
 * Is it gone? The clock is the sign, if there is one: the kernel takes a
 * process the pages of a device that died, was reset or unplugged, which then
 * read as zeros; one that does not answer reads as ones.
 */
static inline void fakernic_look_if_gone(struct fakernic_context *context)
{
	if (!context->clock_page)
		return;
	if (fakernic_no_time(fakernic_clock_ns(context)))
		atomic_store_explicit(&context->gone, true,
				      memory_order_release);
}

#endif
