/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Event queues: the device produces, the driver consumes.
 *
 * An entry belongs to the driver when its owner byte's bit 0 differs from that
 * of the previous pass: the ring is zeroed at creation, the device writes
 * owner = 1 in its first pass, 0 in its second, and so on. The driver frees
 * entries with the EQ doorbell, whose ARM bit requests an interrupt; a new EQ
 * is not armed. No event is lost: if the EQ is full, the device keeps the event
 * (one per object and type) and writes it when the consumer index moves.
 */
#ifndef FAKERNIC_EQ_H
#define FAKERNIC_EQ_H

#include "base.h"

/* HW DATA: an event queue entry. */
struct fakernic_eqe {
	__u8 type;		/* enum fakernic_event */
	__u8 rsvd[3];
	__le32 id;		/* cqn, qpn, srqn, or 0 for port and device */
	__le32 data;		/* QP_*, PATH_MIGRATION_ERROR, SRQ_ERROR:
				 * enum fakernic_vendor_err (cq.h);
				 * DEVICE_FATAL: fatal code (regs.h); else 0
				 */
	__u8 rsvd2[3];
	__u8 owner;		/* bit 0: pass */
};
FAKERNIC_SIZE(struct fakernic_eqe, 16);

/* IBTA 11.6.3 (asynchronous events); names follow enum ib_event_type. */
enum fakernic_event {
	FAKERNIC_EVENT_NONE			= 0,
	FAKERNIC_EVENT_COMPLETION		= 1,	/* id: cqn */
	FAKERNIC_EVENT_CQ_ERROR			= 2,	/* id: cqn */
	FAKERNIC_EVENT_QP_FATAL			= 3,	/* id: qpn */
	FAKERNIC_EVENT_QP_REQUEST_ERROR		= 4,
	FAKERNIC_EVENT_QP_ACCESS_ERROR		= 5,
	FAKERNIC_EVENT_COMM_ESTABLISHED		= 6,
	FAKERNIC_EVENT_SQ_DRAINED		= 7,
	FAKERNIC_EVENT_PATH_MIGRATED		= 8,
	FAKERNIC_EVENT_PATH_MIGRATION_ERROR	= 9,
	FAKERNIC_EVENT_LAST_WQE_REACHED		= 10,
	FAKERNIC_EVENT_SRQ_ERROR		= 11,	/* id: srqn */
	FAKERNIC_EVENT_SRQ_LIMIT		= 12,
	FAKERNIC_EVENT_PORT_ACTIVE		= 13,
	FAKERNIC_EVENT_PORT_ERROR		= 14,
	FAKERNIC_EVENT_DEVICE_FATAL		= 15,
	FAKERNIC_EVENT_PAGE_REQUEST		= 16,	/* id 0 */
	FAKERNIC_EVENT_PORT_CHANGED		= 17,	/* id 0 */
};

#endif
