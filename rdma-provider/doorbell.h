/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Doorbells: a barrier and one 64-bit store to the context's doorbell page
 * (fakernic/doorbell.h). The page is mapped uncached, so stores are neither
 * combined nor reordered. The barrier in front of a store orders it behind
 * writes to the queue and its record, which are in ordinary memory.
 */
#ifndef FAKERNIC_PROVIDER_DOORBELL_H
#define FAKERNIC_PROVIDER_DOORBELL_H

#include <util/mmio.h>
#include <util/udma_barrier.h>

#include "fakernic/doorbell.h"

/* journey: doorbell */
static inline void fakernic_udoorbell(void *uar, unsigned int offset,
				      uint64_t word)
{
	/* WQEs and record before the doorbell; the device reads them after. */
	udma_to_device_barrier();
	mmio_write64_le((uint8_t *)uar + offset, htole64(word));
}

/* Reports WQEs up to basic block pi of the send queue. */
static inline void fakernic_ring_sq(void *uar, uint32_t qpn, uint32_t pi)
{
	fakernic_udoorbell(uar, FAKERNIC_DOORBELL_SQ,
			   FAKERNIC_PUT(FAKERNIC_DOORBELL_ID, qpn) |
				   FAKERNIC_PUT(FAKERNIC_DOORBELL_INDEX, pi));
}
/* journey: end */

/* Requests one event when the CQ has an entry after consumer index ci. */
static inline void fakernic_arm_cq(void *uar, uint32_t cqn, uint32_t ci,
				   bool solicited_only)
{
	fakernic_udoorbell(uar, FAKERNIC_DOORBELL_CQ_ARM,
			   FAKERNIC_PUT(FAKERNIC_DOORBELL_SOLICITED,
					solicited_only) |
				   FAKERNIC_PUT(FAKERNIC_DOORBELL_ID, cqn) |
				   FAKERNIC_PUT(FAKERNIC_DOORBELL_INDEX, ci));
}

/* Reports that the application is polling without success. */
static inline void fakernic_ring_poll(void *uar)
{
	fakernic_udoorbell(uar, FAKERNIC_DOORBELL_POLL, 0);
}

#endif
