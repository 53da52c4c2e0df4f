/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Send queues (fakernic/sq.h): sizes, allocation, completion. WQEs: wqe.h.
 */
#ifndef FAKERNIC_PROVIDER_SQ_H
#define FAKERNIC_PROVIDER_SQ_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <infiniband/driver.h>

#include "fakernic/sq.h"
#include "lock.h"
#include "queue.h"

struct fakernic_context;

#define FAKERNIC_WR_BIT(opcode)		(1U << (opcode))

/* State of a posted send, in the slot of its first block. */
struct fakernic_sq_wr {
	uint64_t wr_id;
	uint32_t wr_end;		/* wr_pi after it */
	uint32_t end;			/* pi behind it */
};

struct fakernic_sq {
	struct fakernic_queue queue;	/* basic blocks; no ring: no SQ */
	struct fakernic_lock lock;
	struct fakernic_sq_wr *wr;
	uint32_t pi;			/* basic blocks */
	uint32_t published;		/* pi that the device was given last */
	uint32_t wr_pi;			/* work requests posted */
	atomic_uint wr_ci;		/* work requests freed */
	uint32_t ci;			/* basic blocks; under the CQ's lock */
	uint32_t wr_max;		/* limit of outstanding requests */
	uint32_t sge_max;
	uint32_t inline_max;		/* bytes */
	uint32_t opcodes;		/* FAKERNIC_WR_BIT(ibv_wr_opcode) */
	uint8_t bb_max;			/* basic blocks of the largest WQE */
	uint8_t data_offset;		/* of a SEND: 16, UD 64 */
	uint8_t csum_flags;		/* what IBV_SEND_IP_CSUM becomes */
	bool signal_all;
	/* The WQE being built, and the batch of the ibv_wr_* interface. */
	struct fakernic_sq_hdr *wqe;	/* NULL: none */
	uint32_t wqe_bytes;
	uint64_t wqe_wr_id;
	uint32_t batch_pi;
	uint32_t batch_wr_pi;
	int batch_err;
	const char *why;		/* the last EINVAL */
	uint64_t staging[FAKERNIC_SQ_WQE_SIZE_MAX / 8];	/* for one that wraps */
};

/*
 * Sets the sizes that attr requests, rounded up to what the ring holds; the
 * caller zeroed sq. log_depth: of basic blocks. EINVAL: more than a ring or a
 * WQE can hold.
 */
int fakernic_usq_size(struct fakernic_sq *sq,
		      const struct fakernic_context *context,
		      const struct ibv_qp_init_attr_ex *attr,
		      uint8_t *log_depth);

/* Allocates the ring. ENOMEM: there is nothing to free. */
int fakernic_usq_alloc(struct fakernic_sq *sq, struct ibv_pd *pd,
		       uint8_t log_depth);

/* This and fakernic_usq_reset() do nothing without a ring. */
void fakernic_usq_free(struct fakernic_sq *sq);

/* Its QP was reset and its CQEs were removed: empties the queue. */
void fakernic_usq_reset(struct fakernic_sq *sq);

/*
 * Called for a send's CQE with its CQ locked: sets wr_id, and frees this
 * request and all unsignaled ones before it (IBTA 10.8.5). index: as in the
 * CQE. False: the request is not posted, or was completed before.
 */
bool fakernic_usq_complete(struct fakernic_sq *sq, uint32_t index,
			   uint64_t *wr_id);

/*
 * The device is gone: completes the oldest outstanding request. The CQ is
 * locked. False: there is none, or no SQ.
 */
bool fakernic_usq_flush(struct fakernic_sq *sq, uint64_t *wr_id);

#endif
