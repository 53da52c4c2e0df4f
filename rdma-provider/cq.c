/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Completion queues: translate a CQE (fakernic/cq.h) to struct ibv_wc or to the
 * fields of struct ibv_cq_ex; IBTA 11.4.2.1. An entry belongs to the provider
 * when its owner byte matches the pass of the consumer index; the other fields
 * are read after a barrier. The CQE names a QP and a WQE. The wr_id is kept by
 * sq.c, rq.c and srq.c, which free the WQE's slot on completion. Polling
 * neither enters the kernel nor touches the device: the consumer index goes
 * into the doorbell record. Only repeated empty polls touch the device: they
 * ring the poll doorbell and check that the device is still present.
 */
#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <ccan/array_size.h>
#include <infiniband/driver.h>
#include <util/udma_barrier.h>
#include <util/util.h>

#include "fakernic/base.h"
#include "fakernic/cmdq.h"
#include "fakernic/cq.h"
#include "fakernic/regs.h"
#include "compat.h"
#include "context.h"
#include "cq.h"
#include "doorbell.h"
#include "fakernic-abi.h"
#include "lock.h"
#include "pd.h"
#include "qp.h"
#include "queue.h"
#include "rq.h"
#include "sq.h"
#include "srq.h"
#include "stamp.h"
#include "table.h"
#include "wq.h"

/*
 * Empty polls between poll doorbells: by default, and with POLL_SELDOM, where
 * the doorbell lets other threads run.
 */
#define FAKERNIC_POLLS_PER_DOORBELL 8
#define FAKERNIC_POLLS_PER_PAUSE	64
/* Empty polls between checks for a removed device. A check costs as much as a
 * doorbell. The number is not a multiple of those above: after an event the
 * first empty poll counts as this one, to check at once, and must not ring.
 */
#define FAKERNIC_POLLS_PER_LOOK	4097

/* The bit that is set in all receive opcodes. */
#define FAKERNIC_CQE_RECEIVE	FAKERNIC_CQE_RECV

static const uint8_t fakernic_wc_opcodes[] = {
	[FAKERNIC_CQE_SEND] = IBV_WC_SEND,
	[FAKERNIC_CQE_RDMA_WRITE] = IBV_WC_RDMA_WRITE,
	[FAKERNIC_CQE_RDMA_READ] = IBV_WC_RDMA_READ,
	[FAKERNIC_CQE_CMP_SWAP] = IBV_WC_COMP_SWAP,
	[FAKERNIC_CQE_FETCH_ADD] = IBV_WC_FETCH_ADD,
	[FAKERNIC_CQE_MASKED_CMP_SWAP] = IBV_WC_COMP_SWAP,
	[FAKERNIC_CQE_MASKED_FETCH_ADD] = IBV_WC_FETCH_ADD,
	[FAKERNIC_CQE_ATOMIC_WRITE] = IBV_WC_ATOMIC_WRITE,
	[FAKERNIC_CQE_FLUSH] = IBV_WC_FLUSH,
	[FAKERNIC_CQE_LOCAL_INV] = IBV_WC_LOCAL_INV,
	[FAKERNIC_CQE_BIND_MW] = IBV_WC_BIND_MW,
	[FAKERNIC_CQE_RECV] = IBV_WC_RECV,
	[FAKERNIC_CQE_RECV_RDMA_IMM] = IBV_WC_RECV_RDMA_WITH_IMM,
};

static enum ibv_wc_opcode fakernic_cqe_opcode(const struct fakernic_cqe *cqe)
{
	return cqe->opcode < ARRAY_SIZE(fakernic_wc_opcodes) ?
		fakernic_wc_opcodes[cqe->opcode] : IBV_WC_SEND;
}

static unsigned int fakernic_cqe_flags(const struct fakernic_cqe *cqe)
{
	const uint8_t csum_ok = FAKERNIC_CQE_IP_CSUM_OK |
				FAKERNIC_CQE_L4_CSUM_OK;
	unsigned int flags = 0;

	if (cqe->flags & FAKERNIC_CQE_GRH)
		flags |= IBV_WC_GRH;
	if (cqe->flags & FAKERNIC_CQE_IMM)
		flags |= IBV_WC_WITH_IMM;
	if (cqe->flags & FAKERNIC_CQE_INV)
		flags |= IBV_WC_WITH_INV;
	if ((cqe->flags & csum_ok) == csum_ok)
		flags |= IBV_WC_IP_CSUM_OK;
	return flags;
}

/*
 * The priority of a tagged frame. For an untagged datagram this field holds the
 * network type instead, as on ConnectX (bit 3: RoCEv2; bits 2..0: 1 IPv6, 2
 * IPv4). Programs expect it here because struct ibv_wc has no field for it.
 */
static uint8_t fakernic_cqe_sl(const struct fakernic_cqe *cqe)
{
	if (!(cqe->opcode & FAKERNIC_CQE_RECEIVE) || cqe->sl ||
	    cqe->flags & FAKERNIC_CQE_VLAN)
		return cqe->sl;
	switch (cqe->network_type) {
	case FAKERNIC_GID_IPV4:
		return 0xa;
	case FAKERNIC_GID_IPV6:
		return 0x9;
	default:
		return 0;
	}
}

/* Immediate data in wire order, or the invalidated key in host order. */
static __be32 fakernic_cqe_imm(const struct fakernic_cqe *cqe)
{
	uint32_t word = le32toh(cqe->imm_or_key);

	return cqe->flags & FAKERNIC_CQE_INV ? (__force __be32)word :
					       htobe32(word);
}

/* journey: poll */
/* The entry at index, or NULL if the device has not written it. */
static struct fakernic_cqe *fakernic_ucq_peek(struct fakernic_cq *cq,
					      uint32_t index)
{
	struct fakernic_cqe *cqe = fakernic_uqueue_entry(&cq->queue, index);
	uint8_t owner = *(volatile uint8_t *)&cqe->owner;

	if ((owner & 1) != fakernic_uqueue_pass(&cq->queue, index))
		return NULL;
	/* Owner before the rest; the device stores the last 8 bytes last. */
	udma_from_device_barrier();
	return cqe;
}
/* journey: end */

/* The receive queue of a QP, or of the WQ with this number; else NULL. */
static struct fakernic_rq *fakernic_find_rq(struct fakernic_context *context,
					    struct fakernic_qp *qp,
					    uint32_t number)
{
	struct fakernic_wq *wq;

	if (qp)
		return qp->rq.queue.ring ? &qp->rq : NULL;
	wq = fakernic_utable_find(&context->wq_table, number);
	return wq ? &wq->rq : NULL;
}

/*
 * Frees the slot of the completed WR and returns its wr_id. EINVAL: no such
 * queue. EALREADY: no such WR is outstanding, for example because a fault rule
 * repeated the CQE.
 */
static int fakernic_cqe_retire(struct fakernic_context *context,
			       const struct fakernic_cqe *cqe, uint64_t *wr_id)
{
	bool receive = cqe->opcode & FAKERNIC_CQE_RECEIVE;
	uint32_t index = le32toh(cqe->wqe_index);
	uint32_t srqn = le32toh(cqe->srqn);
	uint32_t qpn = le32toh(cqe->qpn);
	struct fakernic_srq *srq;
	struct fakernic_qp *qp;
	struct fakernic_rq *rq;

	if (receive && srqn) {
		srq = fakernic_utable_find(&context->srq_table, srqn);
		if (!srq)
			return EINVAL;
		return fakernic_usrq_complete(srq, index, wr_id) ? 0 : EALREADY;
	}
	qp = fakernic_utable_find(&context->qp_table, qpn);
	if (receive) {
		rq = fakernic_find_rq(context, qp, qpn);
		if (!rq)
			return EINVAL;
		return fakernic_urq_complete(rq, index, wr_id) ? 0 : EALREADY;
	}
	if (!qp || !qp->sq.queue.ring)
		return EINVAL;
	return fakernic_usq_complete(&qp->sq, index, wr_id) ? 0 : EALREADY;
}

/*
 * `polls` consecutive polls were empty, so the caller is spinning. Rings the
 * poll doorbell: the device may use this CPU, or give it to others, so no lock
 * is held. A caller that sleeps between entries never rings. True: the device
 * is gone, and another poll flushes what is outstanding.
 */
static bool fakernic_polled_empty(struct fakernic_cq *cq, unsigned int polls)
{
	struct fakernic_context *context =
		fakernic_to_context(cq->vcq.cq.context);
	unsigned int interval =
		context->features & FAKERNIC_FEATURE_POLL_SELDOM ?
			FAKERNIC_POLLS_PER_PAUSE :
			FAKERNIC_POLLS_PER_DOORBELL;

	if (polls % interval == 0 &&
	    context->features & FAKERNIC_FEATURE_POLL_DOORBELL)
		fakernic_ring_poll(context->uar);
	if (polls % FAKERNIC_POLLS_PER_LOOK)
		return false;
	fakernic_check_if_gone(context);
	return fakernic_device_gone(context);
}

/* The oldest outstanding WR of this QP that completes here, or false. */
static bool fakernic_flush_qp(struct fakernic_qp *qp, const struct ibv_cq *cq,
			      uint64_t *wr_id, uint8_t *opcode)
{
	*opcode = FAKERNIC_CQE_SEND;
	if (qp->vqp.qp.send_cq == cq && fakernic_usq_flush(&qp->sq, wr_id))
		return true;
	*opcode = FAKERNIC_CQE_RECV;
	return qp->vqp.qp.recv_cq == cq && fakernic_urq_flush(&qp->rq, wr_id);
}

/* The number of a QP with an outstanding WR that completes here, or 0. */
static uint32_t fakernic_flush_qps(struct fakernic_table *table,
				   const struct ibv_cq *cq, uint64_t *wr_id,
				   uint8_t *opcode)
{
	struct fakernic_qp *qp;
	uint32_t n;

	pthread_mutex_lock(&table->walk);
	for (n = 0; (qp = fakernic_utable_next_locked(table, &n)); n++)
		if (fakernic_flush_qp(qp, cq, wr_id, opcode))
			break;
	pthread_mutex_unlock(&table->walk);
	return qp ? n : 0;
}

/* The same for WQs. */
static uint32_t fakernic_flush_wqs(struct fakernic_table *table,
				   const struct ibv_cq *cq, uint64_t *wr_id)
{
	struct fakernic_wq *wq;
	uint32_t n;

	pthread_mutex_lock(&table->walk);
	for (n = 0; (wq = fakernic_utable_next_locked(table, &n)); n++)
		if (wq->wq.cq == cq && fakernic_urq_flush(&wq->rq, wr_id))
			break;
	pthread_mutex_unlock(&table->walk);
	return wq ? n : 0;
}

/*
 * Makes a flush completion for an outstanding WR; NULL: there are none. The
 * caller knew that the device was gone before it found the ring empty, so no
 * entry can follow. It never fails temporarily: a caller that was woken may
 * poll only once before it sleeps again.
 */
static struct fakernic_cqe *fakernic_ucq_flush_locked(struct fakernic_cq *cq,
						      uint64_t *wr_id)
{
	struct fakernic_context *context =
		fakernic_to_context(cq->vcq.cq.context);
	uint8_t opcode;
	uint32_t number;

	number = fakernic_flush_qps(&context->qp_table, &cq->vcq.cq, wr_id,
				    &opcode);
	if (!number) {
		opcode = FAKERNIC_CQE_RECV;
		number = fakernic_flush_wqs(&context->wq_table, &cq->vcq.cq,
					    wr_id);
	}
	if (!number)
		return NULL;
	cq->cqe_copy = (struct fakernic_cqe) {
		.opcode = opcode,
		.status = FAKERNIC_WC_WR_FLUSH_ERR,
		.vendor_err = htole16(FAKERNIC_VENDOR_FLUSHED),
		.qpn = htole32(number),
	};
	return &cq->cqe_copy;
}

/*
 * A copy of the next entry, or NULL. A faulty device may change its ring at any
 * time, so check and use the same copy.
 */
static struct fakernic_cqe *fakernic_ucq_copy_locked(struct fakernic_cq *cq)
{
	const struct fakernic_cqe *cqe = fakernic_ucq_peek(cq, cq->ci);

	if (!cqe)
		return NULL;
	cq->cqe_copy = *cqe;
	/* The compiler must not read a field of the ring again. */
	atomic_signal_fence(memory_order_seq_cst);
	return &cq->cqe_copy;
}

/*
 * Takes the next entry that completes a WR. 0: the entry and its wr_id. ENOENT:
 * the CQ is empty. EINVAL: the entry names no queue of this context.
 */
static int fakernic_ucq_take_locked(struct fakernic_cq *cq,
				    struct fakernic_cqe **cqe, uint64_t *wr_id)
{
	struct fakernic_context *context =
		fakernic_to_context(cq->vcq.cq.context);
	bool gone = fakernic_device_gone(context);
	int err;

	do {
		*cqe = fakernic_ucq_copy_locked(cq);
		if (!*cqe && unlikely(gone)) {
			*cqe = fakernic_ucq_flush_locked(cq, wr_id);
			return *cqe ? 0 : ENOENT;
		}
		if (!*cqe)
			return ENOENT;
		cq->empty_polls = 0;
		cq->ci++;
		err = fakernic_cqe_retire(context, *cqe, wr_id);
	} while (unlikely(err == EALREADY));
	if (err)
		verbs_err(&context->vctx,
			  "CQ %u: completion for unknown QP %u\n", cq->cqn,
			  le32toh((*cqe)->qpn));
	return err;
}

static void fakernic_fill_wc(const struct fakernic_cqe *cqe, struct ibv_wc *wc)
{
	wc->status = cqe->status;
	wc->opcode = fakernic_cqe_opcode(cqe);
	wc->vendor_err = le16toh(cqe->vendor_err);
	wc->byte_len = le32toh(cqe->byte_count);
	wc->imm_data = fakernic_cqe_imm(cqe);
	wc->qp_num = le32toh(cqe->qpn);
	wc->src_qp = le32toh(cqe->src_qpn);
	wc->wc_flags = fakernic_cqe_flags(cqe);
	wc->pkey_index = le16toh(cqe->pkey_index);
	wc->slid = 0;
	wc->sl = fakernic_cqe_sl(cqe);
	wc->dlid_path_bits = 0;
}

/*
 * Entries before the consumer index were polled, so the application may post
 * new WRs for them.
 */
static void fakernic_ucq_release_locked(struct fakernic_cq *cq)
{
	fakernic_uqueue_stamp(&cq->queue, cq->vcq.cq.context);
	fakernic_uqueue_release(&cq->queue, cq->ci);
}

/*
 * Notices events that were taken since the last poll. If the CQ is empty, an
 * event may be the wake-up for a dead device, so the next empty poll checks for
 * that. If there were several events, one may be for an entry and another one
 * that wake-up.
 */
static void fakernic_ucq_note_events_locked(struct fakernic_cq *cq)
{
	if (likely(!atomic_load_explicit(&cq->events, memory_order_relaxed)))
		return;
	if (atomic_exchange_explicit(&cq->events, 0, memory_order_relaxed) > 1)
		cq->may_be_gone = true;
	cq->empty_polls = FAKERNIC_POLLS_PER_LOOK - 1;
}

/* The ring is empty. Returns the number of consecutive empty polls. */
static unsigned int fakernic_ucq_count_empty_locked(struct fakernic_cq *cq)
{
	if (cq->may_be_gone)
		cq->empty_polls = FAKERNIC_POLLS_PER_LOOK - 1;
	cq->may_be_gone = false;
	return ++cq->empty_polls;
}

/* As fakernic_upoll_cq(). empty: number of consecutive empty polls, or 0. */
static int fakernic_take_wcs(struct fakernic_cq *cq, int count,
			     struct ibv_wc *wc, unsigned int *empty)
{
	struct fakernic_cqe *cqe;
	uint32_t first;
	int polled = 0;
	int err = 0;

	*empty = 0;
	fakernic_lock(&cq->lock);
	fakernic_ucq_note_events_locked(cq);
	first = cq->ci;
	while (polled < count) {
		err = fakernic_ucq_take_locked(cq, &cqe, &wc[polled].wr_id);
		if (err)
			break;
		fakernic_fill_wc(cqe, &wc[polled++]);
	}
	if (cq->ci != first)
		fakernic_ucq_release_locked(cq);
	if (err == ENOENT && (!polled || cq->may_be_gone))
		*empty = fakernic_ucq_count_empty_locked(cq);
	fakernic_unlock(&cq->lock);
	return err == EINVAL && !polled ? -EINVAL : polled;
}

int fakernic_upoll_cq(struct ibv_cq *ibcq, int count, struct ibv_wc *wc)
{
	struct fakernic_cq *cq = fakernic_to_cq(ibcq);
	unsigned int empty;
	int polled, more;

	polled = fakernic_take_wcs(cq, count, wc, &empty);
	if (!empty || !fakernic_polled_empty(cq, empty))
		return polled;
	more = fakernic_take_wcs(cq, count - polled, wc + polled, &empty);
	return more < 0 && polled ? polled : polled + more;
}

/* Whether this thread holds the lock: between start_poll and end_poll. */
static bool fakernic_ucq_is_mine(struct fakernic_cq *cq)
{
	return atomic_load_explicit(&cq->poller, memory_order_relaxed) ==
	       pthread_self();
}

/* Locks unless this thread is polling. True: the caller must unlock. */
static bool fakernic_lock_if_not_polling(struct fakernic_cq *cq)
{
	if (fakernic_ucq_is_mine(cq))
		return false;
	fakernic_lock(&cq->lock);
	return true;
}

/*
 * Marks the next entry as reported by an event, if nothing was polled since the
 * CQ was armed. Otherwise the event may be stale: its CQE may have been polled
 * already, and no event covers the CQE after it.
 */
static void fakernic_ucq_mark_reported_locked(struct fakernic_cq *cq)
{
	if (cq->armed == cq->ci && fakernic_ucq_peek(cq, cq->ci))
		cq->reported = cq->ci + 1;
}

/*
 * The index marks the entries that the application knows about; entries after
 * it cause an event at once. So a caller that polls first and then arms misses
 * nothing. An entry whose event was taken counts as known, so a caller that
 * arms first and then polls gets no second event for it.
 */
int fakernic_ureq_notify_cq(struct ibv_cq *ibcq, int solicited_only)
{
	struct fakernic_cq *cq = fakernic_to_cq(ibcq);
	bool locked = fakernic_lock_if_not_polling(cq);

	if (!cq->lock.needed &&
	    atomic_load_explicit(&cq->events, memory_order_relaxed))
		fakernic_ucq_mark_reported_locked(cq);
	cq->armed = cq->reported == cq->ci + 1 ? cq->reported : cq->ci;
	fakernic_arm_cq(fakernic_to_context(ibcq->context)->uar, cq->cqn,
			cq->armed, solicited_only);
	if (locked)
		fakernic_unlock(&cq->lock);
	return 0;
}

void fakernic_ucq_event(struct ibv_cq *ibcq)
{
	struct fakernic_cq *cq = fakernic_to_cq(ibcq);
	bool locked;

	atomic_fetch_add_explicit(&cq->events, 1, memory_order_relaxed);
	if (!cq->lock.needed)
		return;
	locked = fakernic_lock_if_not_polling(cq);
	fakernic_ucq_mark_reported_locked(cq);
	if (locked)
		fakernic_unlock(&cq->lock);
}

/* ---- the extended interface: one entry at a time, fields on demand ------- */

static struct fakernic_cq *fakernic_ex_to_cq(struct ibv_cq_ex *cq)
{
	return container_of(cq, struct fakernic_cq, vcq.cq_ex);
}

static int fakernic_ex_take_locked(struct fakernic_cq *cq)
{
	int err;

	err = fakernic_ucq_take_locked(cq, &cq->cqe, &cq->vcq.cq_ex.wr_id);
	if (!err)
		cq->vcq.cq_ex.status = cq->cqe->status;
	return err;
}

/* As fakernic_start_poll(). empty: as in fakernic_take_wcs(). */
static int fakernic_take_first(struct fakernic_cq *cq, unsigned int *empty)
{
	uint32_t first;
	int err;

	*empty = 0;
	fakernic_lock(&cq->lock);
	fakernic_ucq_note_events_locked(cq);
	first = cq->ci;
	err = fakernic_ex_take_locked(cq);
	if (err) {
		/* Release entries that were taken but discarded, too. */
		if (cq->ci != first)
			fakernic_ucq_release_locked(cq);
		if (err == ENOENT)
			*empty = fakernic_ucq_count_empty_locked(cq);
		fakernic_unlock(&cq->lock);
		return err;
	}
	atomic_store_explicit(&cq->poller, pthread_self(),
			      memory_order_relaxed);
	return 0;
}

static int fakernic_start_poll(struct ibv_cq_ex *ibcq,
			       struct ibv_poll_cq_attr *attr)
{
	struct fakernic_cq *cq = fakernic_ex_to_cq(ibcq);
	unsigned int empty;
	int err;

	if (attr->comp_mask)
		return EINVAL;
	err = fakernic_take_first(cq, &empty);
	if (empty && fakernic_polled_empty(cq, empty))
		err = fakernic_take_first(cq, &empty);
	return err;
}

static int fakernic_next_poll(struct ibv_cq_ex *ibcq)
{
	struct fakernic_cq *cq = fakernic_ex_to_cq(ibcq);
	int err;

	/* The application no longer uses the previous entry. */
	fakernic_ucq_release_locked(cq);
	err = fakernic_ex_take_locked(cq);
	if (unlikely(err == ENOENT && cq->may_be_gone)) {
		cq->may_be_gone = false;
		fakernic_check_if_gone(fakernic_to_context(ibcq->context));
		err = fakernic_ex_take_locked(cq);
	}
	return err;
}

static void fakernic_end_poll(struct ibv_cq_ex *ibcq)
{
	struct fakernic_cq *cq = fakernic_ex_to_cq(ibcq);

	fakernic_ucq_release_locked(cq);
	atomic_store_explicit(&cq->poller, 0, memory_order_relaxed);
	fakernic_unlock(&cq->lock);
}

static enum ibv_wc_opcode fakernic_read_opcode(struct ibv_cq_ex *cq)
{
	return fakernic_cqe_opcode(fakernic_ex_to_cq(cq)->cqe);
}

static uint32_t fakernic_read_vendor_err(struct ibv_cq_ex *cq)
{
	return le16toh(fakernic_ex_to_cq(cq)->cqe->vendor_err);
}

static unsigned int fakernic_read_wc_flags(struct ibv_cq_ex *cq)
{
	return fakernic_cqe_flags(fakernic_ex_to_cq(cq)->cqe);
}

static uint32_t fakernic_read_byte_len(struct ibv_cq_ex *cq)
{
	return le32toh(fakernic_ex_to_cq(cq)->cqe->byte_count);
}

static __be32 fakernic_read_imm_data(struct ibv_cq_ex *cq)
{
	return fakernic_cqe_imm(fakernic_ex_to_cq(cq)->cqe);
}

static uint32_t fakernic_read_qp_num(struct ibv_cq_ex *cq)
{
	return le32toh(fakernic_ex_to_cq(cq)->cqe->qpn);
}

static uint32_t fakernic_read_src_qp(struct ibv_cq_ex *cq)
{
	return le32toh(fakernic_ex_to_cq(cq)->cqe->src_qpn);
}

static uint32_t fakernic_read_slid(struct ibv_cq_ex *cq)
{
	return 0;	/* RoCE has no LIDs */
}

static uint8_t fakernic_read_sl(struct ibv_cq_ex *cq)
{
	return fakernic_cqe_sl(fakernic_ex_to_cq(cq)->cqe);
}

static uint8_t fakernic_read_dlid_path_bits(struct ibv_cq_ex *cq)
{
	return 0;
}

static uint64_t fakernic_read_completion_ts(struct ibv_cq_ex *cq)
{
	return le64toh(fakernic_ex_to_cq(cq)->cqe->timestamp);
}

/* On the time scale of the PTP clock (kernel-driver/net/ptp.c). */
static uint64_t fakernic_read_wallclock(struct ibv_cq_ex *cq)
{
	struct ibv_context *context = fakernic_ex_to_cq(cq)->vcq.cq.context;

	return fakernic_read_completion_ts(cq) +
	       fakernic_to_context(context)->wall_offset_ns;
}

static uint16_t fakernic_read_cvlan(struct ibv_cq_ex *cq)
{
	return le16toh(fakernic_ex_to_cq(cq)->cqe->vlan);
}

static void fakernic_set_readers(struct ibv_cq_ex *cq, uint64_t wc_flags)
{
	cq->start_poll = fakernic_start_poll;
	cq->next_poll = fakernic_next_poll;
	cq->end_poll = fakernic_end_poll;
	cq->read_opcode = fakernic_read_opcode;
	cq->read_vendor_err = fakernic_read_vendor_err;
	cq->read_wc_flags = fakernic_read_wc_flags;
	if (wc_flags & IBV_WC_EX_WITH_BYTE_LEN)
		cq->read_byte_len = fakernic_read_byte_len;
	if (wc_flags & IBV_WC_EX_WITH_IMM)
		cq->read_imm_data = fakernic_read_imm_data;
	if (wc_flags & IBV_WC_EX_WITH_QP_NUM)
		cq->read_qp_num = fakernic_read_qp_num;
	if (wc_flags & IBV_WC_EX_WITH_SRC_QP)
		cq->read_src_qp = fakernic_read_src_qp;
	if (wc_flags & IBV_WC_EX_WITH_SLID)
		cq->read_slid = fakernic_read_slid;
	if (wc_flags & IBV_WC_EX_WITH_SL)
		cq->read_sl = fakernic_read_sl;
	if (wc_flags & IBV_WC_EX_WITH_DLID_PATH_BITS)
		cq->read_dlid_path_bits = fakernic_read_dlid_path_bits;
	if (wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP)
		cq->read_completion_ts = fakernic_read_completion_ts;
	if (wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)
		cq->read_completion_wallclock_ns = fakernic_read_wallclock;
	if (wc_flags & IBV_WC_EX_WITH_CVLAN)
		cq->read_cvlan = fakernic_read_cvlan;
}

/* ---- create, resize, destroy --------------------------------------------- */

static int fakernic_ucq_check(struct fakernic_context *context,
			      const struct ibv_cq_init_attr_ex *attr)
{
	uint64_t wc_flags = IBV_WC_STANDARD_FLAGS |
			    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;

	if (context->features & FAKERNIC_FEATURE_VLAN)
		wc_flags |= IBV_WC_EX_WITH_CVLAN;
	if (context->wall_offset_ns)
		wc_flags |= IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
	if (!attr->cqe ||
	    attr->cqe > 1U << FAKERNIC_CQ_LOG_DEPTH_MAX)
		return fakernic_refuse(context, EINVAL,
				       "create CQ: %u entries, at most %u\n",
				       attr->cqe,
				       1U << FAKERNIC_CQ_LOG_DEPTH_MAX);
	if (!check_comp_mask(attr->comp_mask, IBV_CQ_INIT_ATTR_MASK_FLAGS |
					      IBV_CQ_INIT_ATTR_MASK_PD) ||
	    !check_comp_mask(attr->wc_flags, wc_flags))
		return fakernic_refuse(context, EOPNOTSUPP,
				       "create CQ: unsupported attributes %#x or fields %#" PRIx64
				       "\n", attr->comp_mask, attr->wc_flags);
	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS &&
	    !check_comp_mask(attr->flags, IBV_CREATE_CQ_ATTR_SINGLE_THREADED |
					  IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN))
		return fakernic_refuse(context, EOPNOTSUPP,
				       "create CQ: unsupported flags %#x\n",
				       attr->flags);
	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD &&
	    !fakernic_to_parent_domain(attr->parent_domain))
		return fakernic_refuse(context, EINVAL,
				       "create CQ: the PD is not a parent domain\n");
	return 0;
}

static struct ibv_pd *fakernic_ucq_pd(const struct ibv_cq_init_attr_ex *attr)
{
	return attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD ?
		attr->parent_domain : NULL;
}

static uint8_t fakernic_ucq_log_depth(uint32_t cqe)
{
	return fakernic_log2_ceil(cqe < 2 ? 2 : cqe);
}

static bool fakernic_ucq_needs_lock(const struct ibv_cq_init_attr_ex *attr)
{
	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS &&
	    attr->flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED)
		return false;
	return fakernic_pd_needs_locks(fakernic_ucq_pd(attr));
}

static struct fakernic_cq *
fakernic_new_cq(struct ibv_context *ibctx,
		const struct ibv_cq_init_attr_ex *attr)
{
	struct ibv_cq_init_attr_ex kernel_attr = *attr;
	struct fakernic_cmd_create_cq_resp resp = {};
	struct fakernic_cmd_create_cq cmd = {};
	struct fakernic_cq *cq;
	int err;

	errno = fakernic_ucq_check(fakernic_to_context(ibctx), attr);
	if (errno)
		return NULL;
	cq = calloc(1, sizeof(*cq));
	if (!cq)
		return NULL;
	err = fakernic_uqueue_alloc(&cq->queue, fakernic_ucq_pd(attr),
				    FAKERNIC_RESOURCE_CQ,
				    fakernic_ucq_log_depth(attr->cqe),
				    fakernic_log2_ceil(sizeof(*cq->cqe)));
	if (err)
		goto err_free;
	cmd.buf_va = (uintptr_t)cq->queue.ring;
	cmd.log_depth = cq->queue.log_depth;
	/* Every CQE has a timestamp, so the kernel does not need the flag. */
	kernel_attr.wc_flags &= IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_CVLAN;
	err = ibv_cmd_create_cq_ex(ibctx, &kernel_attr,
				   FAKERNIC_NO_PROV_ATTR &cq->vcq,
				   &cmd.ibv_cmd, sizeof(cmd), &resp.ibv_resp,
				   sizeof(resp), 0);
	if (err)
		goto err_queue;
	cq->cqn = resp.cqn;
	cq->vcq.cq.cqe = cq->queue.depth;
	fakernic_lock_init(&cq->lock, fakernic_ucq_needs_lock(attr));
	return cq;

err_queue:
	fakernic_uqueue_free(&cq->queue);
err_free:
	free(cq);
	/*
	 * fakernic_uqueue_free() may call the application, which may set errno.
	 */
	errno = err;
	return NULL;
}

struct ibv_cq *fakernic_ucreate_cq(struct ibv_context *context, int cqe,
				   struct ibv_comp_channel *channel,
				   int comp_vector)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = cqe < 0 ? 0 : cqe,
		.channel = channel,
		.comp_vector = comp_vector,
	};
	struct fakernic_cq *cq;

	cq = fakernic_new_cq(context, &attr);
	return cq ? &cq->vcq.cq : NULL;
}

struct ibv_cq_ex *fakernic_ucreate_cq_ex(struct ibv_context *context,
					 struct ibv_cq_init_attr_ex *attr)
{
	struct fakernic_cq *cq;

	cq = fakernic_new_cq(context, attr);
	if (!cq)
		return NULL;
	fakernic_set_readers(&cq->vcq.cq_ex, attr->wc_flags);
	return &cq->vcq.cq_ex;
}

/*
 * RESIZE_CQ moves the entries that were not consumed to the start of the new
 * ring. The lock keeps the consumer index from changing until then.
 */
int fakernic_uresize_cq(struct ibv_cq *ibcq, int cqe)
{
	struct ib_uverbs_resize_cq_resp resp = {};
	struct fakernic_cq *cq = fakernic_to_cq(ibcq);
	struct fakernic_cmd_resize_cq cmd = {};
	struct fakernic_queue queue = {};
	struct fakernic_queue old;
	int err;

	if (cqe < 1 || cqe > 1 << FAKERNIC_CQ_LOG_DEPTH_MAX)
		return EINVAL;
	err = fakernic_uqueue_alloc(&queue, cq->queue.domain,
				    FAKERNIC_RESOURCE_CQ,
				    fakernic_ucq_log_depth(cqe),
				    cq->queue.log_stride);
	if (err)
		return err;
	cmd.buf_va = (uintptr_t)queue.ring;
	cmd.log_depth = queue.log_depth;
	fakernic_lock(&cq->lock);
	fakernic_ucq_release_locked(cq);
	err = ibv_cmd_resize_cq(ibcq, cqe, &cmd.ibv_cmd, sizeof(cmd), &resp,
				sizeof(resp));
	old = err ? queue : cq->queue;
	if (!err) {
		cq->queue = queue;
		cq->armed -= cq->ci;
		cq->ci = cq->reported = 0;
		ibcq->cqe = queue.depth;
	}
	fakernic_unlock(&cq->lock);
	fakernic_uqueue_free(&old);
	return err;
}

int fakernic_udestroy_cq(struct ibv_cq *ibcq)
{
	struct fakernic_cq *cq = fakernic_to_cq(ibcq);
	int err;

	err = ibv_cmd_destroy_cq(ibcq);
	if (err)
		return err;
	fakernic_lock_destroy(&cq->lock);
	fakernic_uqueue_free(&cq->queue);
	free(cq);
	return 0;
}

/* ---- for destroyed queues ------------------------------------------------ */

/* Sorts CQs by number, so that two threads cannot deadlock. */
static void fakernic_order_cqs(struct ibv_cq *one, struct ibv_cq *other,
			       struct fakernic_cq *order[2])
{
	order[0] = one ? fakernic_to_cq(one) : NULL;
	order[1] = other && other != one ? fakernic_to_cq(other) : NULL;
	if (order[0] && order[1] && order[0]->cqn > order[1]->cqn) {
		struct fakernic_cq *swap = order[0];

		order[0] = order[1];
		order[1] = swap;
	}
}

static bool fakernic_try_lock_unless_mine(struct fakernic_cq *cq)
{
	return fakernic_ucq_is_mine(cq) || fakernic_try_lock(&cq->lock);
}

static void fakernic_unlock_unless_mine(struct fakernic_cq *cq)
{
	if (!fakernic_ucq_is_mine(cq))
		fakernic_unlock(&cq->lock);
}

void fakernic_lock_cqs(struct ibv_cq *one, struct ibv_cq *other)
{
	struct fakernic_cq *order[2];
	int i;

	fakernic_order_cqs(one, other, order);
	for (i = 0; i < 2; i++)
		if (order[i])
			fakernic_lock_if_not_polling(order[i]);
}

bool fakernic_try_lock_cqs(struct ibv_cq *one, struct ibv_cq *other)
{
	struct fakernic_cq *order[2];

	fakernic_order_cqs(one, other, order);
	if (order[0] && !fakernic_try_lock_unless_mine(order[0]))
		return false;
	if (!order[1] || fakernic_try_lock_unless_mine(order[1]))
		return true;
	if (order[0])
		fakernic_unlock_unless_mine(order[0]);
	return false;
}

void fakernic_unlock_cqs(struct ibv_cq *one, struct ibv_cq *other)
{
	struct fakernic_cq *order[2];
	int i;

	fakernic_order_cqs(one, other, order);
	for (i = 1; i >= 0; i--)
		if (order[i])
			fakernic_unlock_unless_mine(order[i]);
}

/*
 * Receives of an XRC SRQ stay when the target QP that they came through is
 * destroyed: the target QP belongs to its domain, perhaps to another process.
 */
static bool fakernic_cqe_is_of_qp(struct fakernic_context *context,
				  const struct fakernic_cqe *cqe, uint32_t qpn)
{
	uint32_t srqn = le32toh(cqe->srqn);
	struct fakernic_srq *srq;

	if (le32toh(cqe->qpn) != qpn)
		return false;
	if (!(cqe->opcode & FAKERNIC_CQE_RECEIVE) || !srqn)
		return true;
	srq = fakernic_utable_find(&context->srq_table, srqn);
	return !srq || srq->vsrq.srq_type != IBV_SRQT_XRC;
}

static bool fakernic_cqe_is_of_srq(struct fakernic_context *context,
				   const struct fakernic_cqe *cqe,
				   uint32_t srqn)
{
	return cqe->opcode & FAKERNIC_CQE_RECEIVE &&
	       le32toh(cqe->srqn) == srqn;
}

/* A removed entry must still return its tag to the SRQ. */
static void fakernic_drop_cqe(struct fakernic_context *context,
			      const struct fakernic_cqe *cqe)
{
	uint32_t srqn = le32toh(cqe->srqn);
	struct fakernic_srq *srq;
	uint64_t unread;

	if (!(cqe->opcode & FAKERNIC_CQE_RECEIVE) || !srqn)
		return;
	srq = fakernic_utable_find(&context->srq_table, srqn);
	if (srq)
		fakernic_usrq_complete(srq, le32toh(cqe->wqe_index), &unread);
}

/*
 * The device writes no more entries for this queue, but keeps writing those of
 * other queues from pi on. The remaining entries are moved up to pi, except for
 * their owner bytes, which belong to the slots. The freed slots are returned to
 * the device.
 */
static void
fakernic_clean_cq_locked(struct fakernic_cq *cq, uint32_t number,
			 bool (*is_of)(struct fakernic_context *context,
				       const struct fakernic_cqe *cqe,
				       uint32_t number))
{
	struct fakernic_context *context =
		fakernic_to_context(cq->vcq.cq.context);
	struct fakernic_cqe *cqe;
	uint32_t removed = 0;
	uint32_t pi = cq->ci;

	while (pi - cq->ci < cq->queue.depth && fakernic_ucq_peek(cq, pi))
		pi++;
	while (pi-- != cq->ci) {
		cqe = fakernic_uqueue_entry(&cq->queue, pi);
		if (is_of(context, cqe, number)) {
			fakernic_drop_cqe(context, cqe);
			removed++;
		} else if (removed) {
			memcpy(fakernic_uqueue_entry(&cq->queue, pi + removed),
			       cqe, offsetof(struct fakernic_cqe, owner));
		}
	}
	if (!removed)
		return;
	cq->ci += removed;
	fakernic_ucq_release_locked(cq);
}

void fakernic_clean_cq_of_qp_locked(struct ibv_cq *cq, uint32_t qpn)
{
	fakernic_clean_cq_locked(fakernic_to_cq(cq), qpn,
				 fakernic_cqe_is_of_qp);
}

void fakernic_clean_cqs_of_qp_locked(struct ibv_qp *qp)
{
	if (qp->recv_cq)
		fakernic_clean_cq_of_qp_locked(qp->recv_cq, qp->qp_num);
	if (qp->send_cq && qp->send_cq != qp->recv_cq)
		fakernic_clean_cq_of_qp_locked(qp->send_cq, qp->qp_num);
}

void fakernic_clean_cq_of_srq_locked(struct ibv_cq *cq, uint32_t srqn)
{
	fakernic_clean_cq_locked(fakernic_to_cq(cq), srqn,
				 fakernic_cqe_is_of_srq);
}

bool fakernic_try_forget_number_locked(struct fakernic_context *context,
				       uint32_t number)
{
	struct fakernic_wq *wq = fakernic_utable_find(&context->wq_table,
						      number);
	struct fakernic_qp *qp = fakernic_utable_find(&context->qp_table,
						      number);

	if (wq) {
		if (!fakernic_try_lock_cqs(wq->wq.cq, NULL))
			return false;
		fakernic_clean_cq_of_qp_locked(wq->wq.cq, number);
		fakernic_utable_remove_locked(&context->wq_table, number);
		fakernic_unlock_cqs(wq->wq.cq, NULL);
	}
	if (qp) {
		struct ibv_qp *ibqp = &qp->vqp.qp;

		if (!fakernic_try_lock_cqs(ibqp->send_cq, ibqp->recv_cq))
			return false;
		fakernic_clean_cqs_of_qp_locked(ibqp);
		fakernic_utable_remove_locked(&context->qp_table, number);
		fakernic_unlock_cqs(ibqp->send_cq, ibqp->recv_cq);
	}
	return true;
}

int fakernic_enter_qp(struct fakernic_context *context, struct fakernic_qp *qp)
{
	struct fakernic_table *table = &context->qp_table;
	uint32_t qpn = qp->vqp.qp.qp_num;
	int err;

	pthread_mutex_lock(&table->mutex);
	while (!fakernic_try_forget_number_locked(context, qpn))
		fakernic_utable_yield_locked(table);
	err = fakernic_utable_put_locked(table, qpn, qp);
	pthread_mutex_unlock(&table->mutex);
	return err;
}
