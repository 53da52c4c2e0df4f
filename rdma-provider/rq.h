/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Receive queues of QPs and WQs; slots, also those of SRQs (fakernic/rq.h).
 */
#ifndef FAKERNIC_PROVIDER_RQ_H
#define FAKERNIC_PROVIDER_RQ_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <infiniband/driver.h>

#include "fakernic/rq.h"
#include "lock.h"
#include "queue.h"

struct fakernic_context;

struct fakernic_rq {
	struct fakernic_queue queue;	/* no ring: no RQ, or an SRQ */
	struct fakernic_lock lock;
	uint64_t *wr_id;		/* by slot */
	uint32_t pi;
	atomic_uint ci;			/* index after the last completed */
	uint32_t sge_max;
};

/* Allocates the ring. ENOMEM: there is nothing to free. */
int fakernic_urq_alloc(struct fakernic_rq *rq, struct ibv_pd *pd,
		       uint8_t log_depth, uint8_t log_stride);

/* This and fakernic_urq_reset() do nothing without a ring. */
void fakernic_urq_free(struct fakernic_rq *rq);

/* Its QP or WQ was reset: empties the queue. */
void fakernic_urq_reset(struct fakernic_rq *rq);

/*
 * Called for a receive's CQE with its CQ locked: returns the wr_id, frees the
 * slot and those before it, whose CQEs were lost. tag: as in the CQE. False:
 * the receive is not posted, or was completed before.
 */
bool fakernic_urq_complete(struct fakernic_rq *rq, uint32_t tag,
			   uint64_t *wr_id);

/*
 * The device is gone: completes the oldest outstanding receive. The CQ is
 * locked. False: there is none, or no RQ.
 */
bool fakernic_urq_flush(struct fakernic_rq *rq, uint64_t *wr_id);

/* log2 of the slot size in bytes for sge_count SGEs. */
uint8_t fakernic_recv_log_stride(uint32_t sge_count);

/* SGEs that fit into a slot; at most what the device supports. */
uint32_t fakernic_recv_sge_max(const struct fakernic_context *context,
			       uint8_t log_stride);

/* Writes one receive into a slot, which must have room for its SGEs. */
void fakernic_write_recv(struct fakernic_rq_wqe *wqe, uint32_t tag,
			 const struct ibv_recv_wr *wr);

/* Logs that a receive has too many SGEs. number: of the QP, WQ or SRQ. */
void fakernic_explain_recv(struct ibv_context *context, uint32_t number,
			   const struct ibv_recv_wr *wr, uint32_t sge_max);

/*
 * Posts a list; number: of the QP or WQ. ENOMEM: the queue is full. EINVAL: too
 * many SGEs. *bad_wr is the first receive that was not posted.
 */
int fakernic_urq_post(struct fakernic_rq *rq, struct ibv_context *context,
		      uint32_t number, struct ibv_recv_wr *wr,
		      struct ibv_recv_wr **bad_wr);

/* The same for a QP: EINVAL also in RESET, or with an SRQ (IBTA 10.8.3.1). */
int fakernic_upost_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr,
			struct ibv_recv_wr **bad_wr);

#endif
