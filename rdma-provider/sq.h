/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Send queues (fakernic/sq.h): sizes, life, room. How WQEs are built: wqe.h.
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

/* What the provider remembers of a posted send, at its first block's place. */
struct fakernic_sq_wr {
	uint64_t wr_id;
	uint32_t wr_end;		/* wr_pi behind it */
	uint32_t end;			/* pi behind it */
};

struct fakernic_sq {
	struct fakernic_queue queue;	/* of basic blocks; no ring: no SQ */
	struct fakernic_lock lock;
	struct fakernic_sq_wr *wr;
	uint32_t pi;			/* basic blocks */
	uint32_t wr_pi;			/* work requests posted */
	atomic_uint wr_ci;		/* work requests whose room is free */
	uint32_t ci;			/* basic blocks; of the CQ's lock */
	uint32_t wr_max;		/* work requests outstanding */
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
 * Fills in what attr asks for, rounded up to what the ring has room for; the
 * caller zeroed sq. log_depth: of basic blocks. EINVAL: beyond what a ring or a
 * WQE can hold.
 */
int fakernic_sq_size(struct fakernic_sq *sq,
		     const struct fakernic_context *context,
		     const struct ibv_qp_init_attr_ex *attr,
		     uint8_t *log_depth);

/* Makes the ring. ENOMEM: there is nothing to free. */
int fakernic_sq_alloc(struct fakernic_sq *sq, struct ibv_pd *pd,
		      uint8_t log_depth);

/* One without a ring is left alone, by both. */
void fakernic_sq_free(struct fakernic_sq *sq);

/* Its QP went back to RESET and has no completions any more: it is empty. */
void fakernic_sq_reset(struct fakernic_sq *sq);

/*
 * A send's CQE was taken from its CQ, which is locked: its wr_id. Frees the
 * room of it and of all unsignaled ones before it (IBTA 10.8.5). index: as the
 * CQE has it. False: it is not posted, or was completed before.
 */
bool fakernic_sq_complete(struct fakernic_sq *sq, uint32_t index,
			  uint64_t *wr_id);

/*
 * The device is gone: the oldest of those that it has not completed is. Under
 * the lock of the CQ. False: there is none, or no SQ.
 */
bool fakernic_sq_flush(struct fakernic_sq *sq, uint64_t *wr_id);

#endif
