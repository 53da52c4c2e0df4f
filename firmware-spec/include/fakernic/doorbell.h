/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Doorbell pages (UARs): FAKERNIC_PAGE_SIZE each, from the start of BAR2.
 *
 * Page 0 belongs to the kernel; the driver maps another one into each user
 * context. A page rings only queues created with its number: any other
 * doorbell is dropped and counted (FAKERNIC_STAT_DOORBELL_DROPPED). A doorbell
 * is one aligned 64-bit store of a little-endian word; anything else is a guest
 * error and has no effect. Reads return zero.
 *
 * A doorbell is a posted write. The stores to the queue and to its doorbell
 * record must be visible to the device before it. This needs a barrier that
 * also orders device memory, such as Linux's wmb().
 */
#ifndef FAKERNIC_DOORBELL_H
#define FAKERNIC_DOORBELL_H

#include "base.h"

/*
 * New producer index of a send queue, in basic blocks. With
 * FAKERNIC_FEATURE_SHADOW_DOORBELL only where FAKERNIC_MUST_RING() is true.
 */
#define FAKERNIC_DOORBELL_SQ		0x000
/*
 * Requests one event for the next entry at consumer index ci or later, at once
 * if the CQ already holds one. With SOLICITED only solicited entries and
 * entries with an error count. The event ends the request.
 */
#define FAKERNIC_DOORBELL_CQ_ARM	0x008
/*
 * Consumer index of an event queue. With ARM the EQ's vector is raised when
 * the queue holds an entry at ci or later, at once if it already does.
 * Page 0 only.
 */
#define FAKERNIC_DOORBELL_EQ		0x010

/*
 * FAKERNIC_FEATURE_POLL_DOORBELL: a CQ was polled and found empty. The word is
 * 0. The device may process received frames at once. With POLL_SELDOM it may
 * also let another thread of the host run, which delivers frames. The doorbell
 * is a hint: software rings it at a limited rate, or not at all.
 */
#define FAKERNIC_DOORBELL_POLL		0x020

#define FAKERNIC_DOORBELL_INDEX		FAKERNIC_BITS(31, 0)	/* pi or ci */
#define FAKERNIC_DOORBELL_ID		FAKERNIC_BITS(55, 32)	/* qpn, cqn, eqn */
#define FAKERNIC_DOORBELL_SOLICITED	FAKERNIC_BITS(56, 56)	/* CQ_ARM */
#define FAKERNIC_DOORBELL_ARM		FAKERNIC_BITS(57, 57)	/* EQ */
/* Bits 63..58 are reserved and must be zero. */
#define FAKERNIC_DOORBELL_RSVD		FAKERNIC_BITS(63, 58)

/*
 * HW DATA: the clock page (FAKERNIC_FEATURE_CLOCK_PAGE), read-only for users.
 */
struct fakernic_clock_page {
	__le64 time_ns;		/* device clock, the one of CQE timestamps */
	__le64 rsvd;
};
FAKERNIC_SIZE(struct fakernic_clock_page, 16);

#endif
