/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Receive queues and shared receive queues: return a receive work request, in
 * host order, to the engine when a message needs one (fakernic/rq.h).
 *
 * Posting a receive rings no doorbell. The device reads the producer index from
 * the doorbell record when all receives before the last one read are used.
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "qemu/cutils.h"
#include "rq.h"
#include "../state.h"
#include "../fault/gate.h"
#include "eq.h"
#include "ring.h"
#include "../../trace.h"

typedef struct FakernicRqWqe {
    struct fakernic_rq_wqe wqe;
    struct fakernic_sge sge[FAKERNIC_SGE_MAX + 1];
} FakernicRqWqe;
QEMU_BUILD_BUG_ON(sizeof(FakernicRqWqe) != 1 << FAKERNIC_RQ_LOG_STRIDE_MAX);

/* A consumer's view of a ring: the RQ of a QP, or an SRQ. */
typedef struct FakernicConsumer {
    const FakernicRing *ring;
    uint32_t *pi;
    uint32_t *ci;
    RoceTime *waits;
    uint32_t qpn;               /* the QP that needs a receive */
    uint32_t srqn;              /* 0: from its own RQ */
} FakernicConsumer;

uint16_t fakernic_rq_look(const void *from, unsigned log_stride,
                          RoceRecvWr *wr)
{
    const FakernicRqWqe *slot = from;
    const unsigned room = (1U << log_stride) / sizeof(struct fakernic_sge) - 1;

    wr->tag = le32_to_cpu(slot->wqe.tag);
    wr->sge_count = 0;
    if (!buffer_is_zero(slot->wqe.rsvd, sizeof(slot->wqe.rsvd)) ||
        slot->wqe.sge_count > MIN(room, FAKERNIC_SGE_MAX)) {
        return FAKERNIC_VENDOR_RQ_FORMAT;
    }
    wr->sge_count = slot->wqe.sge_count;
    for (unsigned i = 0; i < wr->sge_count; i++) {
        wr->sge[i] = (RoceSge) {
            .address = le64_to_cpu(slot->sge[i].address),
            .length = le32_to_cpu(slot->sge[i].length),
            .lkey = le32_to_cpu(slot->sge[i].lkey),
        };
    }
    return 0;
}

static RoceFetch fakernic_rq_fetch(FakernicState *s, const FakernicConsumer *c,
                                   RoceRecvWr *wr)
{
    const FakernicHit *hit;
    FakernicRqWqe slot;

    wr->tag = 0;
    wr->sge_count = 0;
    wr->format_error = 0;
    if (*c->pi == *c->ci) {
        uint32_t pi;

        if (!fakernic_ring_record(s, c->ring, &pi)) {
            wr->format_error = FAKERNIC_VENDOR_RQ_DMA;
            return ROCE_FETCH_ERROR;
        }
        if (pi - *c->ci > c->ring->depth) {
            wr->format_error = FAKERNIC_VENDOR_RQ_OVERRUN;
            return ROCE_FETCH_ERROR;
        }
        if (pi == *c->ci) {
            return ROCE_FETCH_NONE;
        }
        *c->pi = pi;
    }
    if (!fakernic_gate_recv_wqe(s, c->qpn, c->srqn, *c->ci, c->waits, &hit)) {
        return ROCE_FETCH_NONE;
    }
    if (!fakernic_ring_read(s, c->ring, *c->ci, &slot,
                            1U << c->ring->log_entry)) {
        wr->format_error = FAKERNIC_VENDOR_RQ_DMA;
        return ROCE_FETCH_ERROR;
    }
    fakernic_gate_bytes(hit, &slot, 1U << c->ring->log_entry);
    wr->format_error = fakernic_gate_recv_error(
        hit, fakernic_rq_look(&slot, c->ring->log_entry, wr));
    (*c->ci)++;
    return ROCE_FETCH_OK;
}

/* Raises SRQ_LIMIT, once, when fewer receives are left than the limit. */
static void fakernic_srq_check_limit(FakernicState *s, FakernicSrq *srq)
{
    uint32_t pi;

    if (!srq->limit || srq->pi - srq->ci >= srq->limit) {
        return;
    }
    /* More receives may have been posted since the last read. */
    if (fakernic_ring_record(s, &srq->ring, &pi) &&
        pi - srq->ci <= srq->ring.depth) {
        srq->pi = pi;
    }
    if (srq->pi - srq->ci < srq->limit) {
        srq->limit = 0;
        fakernic_event(s, NULL, &srq->async, FAKERNIC_EVENT_SRQ_LIMIT, 0);
    }
}

void fakernic_srq_set_limit(FakernicState *s, FakernicSrq *srq, uint32_t limit)
{
    srq->limit = limit;
    fakernic_srq_check_limit(s, srq);
}

void fakernic_srq_fail(FakernicState *s, FakernicSrq *srq,
                       enum fakernic_vendor_err err)
{
    if (!srq->error) {
        srq->error = true;
        fakernic_event(s, NULL, &srq->async, FAKERNIC_EVENT_SRQ_ERROR, err);
    }
}

static RoceFetch fakernic_next_srq(FakernicState *s, FakernicSrq *srq,
                                   uint32_t qpn, RoceRecvWr *wr)
{
    const FakernicConsumer consumer = { &srq->ring, &srq->pi, &srq->ci,
                                        &srq->waits, qpn, srq->id };
    RoceFetch fetch = fakernic_rq_fetch(s, &consumer, wr);

    if (fetch == ROCE_FETCH_OK) {
        fakernic_srq_check_limit(s, srq);
    } else if (fetch == ROCE_FETCH_ERROR) {
        fakernic_srq_fail(s, srq, wr->format_error);
    }
    return fetch;
}

RoceFetch fakernic_next_recv(void *host, uint32_t qpn, uint32_t srqn,
                             RoceRecvWr *wr)
{
    FakernicState *s = host;
    FakernicQp *qp = fakernic_qp_or_wq(s, qpn);
    FakernicSrq *srq = srqn ? fakernic_table_get(&s->srqs, srqn) : NULL;
    RoceFetch fetch = ROCE_FETCH_NONE;

    if (srq) {
        fetch = fakernic_next_srq(s, srq, qpn, wr);
    } else if (!srqn && qp && qp->rq.pages) {
        const FakernicConsumer consumer = { &qp->rq, &qp->rq_pi, &qp->rq_ci,
                                            &qp->rq_waits, qpn, 0 };

        fetch = fakernic_rq_fetch(s, &consumer, wr);
    }
    if (fetch == ROCE_FETCH_OK) {
        trace_fakernic_rq_wqe(s->name, qpn, srqn, wr->tag, wr->sge_count,
                              wr->format_error);
        fakernic_record(s, RECV_WQE, 0, qpn, srqn, wr->tag, wr->sge_count,
                        wr->format_error);
    } else if (fetch == ROCE_FETCH_ERROR) {
        trace_fakernic_err_rq(s->name, qpn, srqn, wr->format_error);
    }
    return fetch;
}

uint32_t fakernic_recv_count(void *host, uint32_t qpn)
{
    FakernicState *s = host;
    FakernicQp *qp = fakernic_qp(s, qpn);
    uint32_t pi;

    if (!qp || !qp->rq.pages || !fakernic_ring_record(s, &qp->rq, &pi) ||
        pi - qp->rq_ci > qp->rq.depth) {
        return 0;
    }
    return pi - qp->rq_ci;
}

bool fakernic_xrc_srq(void *host, uint32_t srqn, uint32_t xrcdn,
                      RoceXrcSrq *found)
{
    FakernicState *s = host;
    const FakernicSrq *srq = fakernic_table_get(&s->srqs, srqn);

    if (!srq || !srq->cq || srq->xrcdn != xrcdn || srq->error) {
        return false;
    }
    *found = (RoceXrcSrq) {
        .id = srq->serial,
        .pd = fakernic_pd_handle(s, srq->pdn),
        .cqn = srq->cq->id,
    };
    return true;
}
