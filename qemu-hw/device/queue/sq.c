/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Send queues: take doorbells, and return work requests in host order to the
 * engine when it asks for them (fakernic/sq.h).
 *
 * The device copies a WQE once and decodes the copy, by the row of its opcode
 * in roce/wr.c. This file checks its format: opcode, counts, lengths and
 * reserved fields. The engine checks whether the QP may execute it. A refused
 * WQE goes to the engine with its format_error, so that it completes in order
 * and with the right index.
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "qemu/cutils.h"
#include "av.h"
#include "../budget.h"
#include "../clock.h"
#include "sq.h"
#include "../state.h"
#include "../fault/gate.h"
#include "../../roce/wr.h"
#include "ring.h"
#include "../../trace.h"

/* An SQ stays awake if that many of its work requests were not complete before
 * new ones. A doorbell serves a host that waits for each request sooner. */
#define FAKERNIC_SQ_BUSY        3
/* Queues that doorbells keep awake, and records that a turn reads in addition
 * to those of queues that are to sleep. A post that comes while its queue goes
 * to sleep may keep more queues awake, so no turn looks at all of them. */
#define FAKERNIC_SQS_AWAKE_MAX  64
#define FAKERNIC_SQS_PER_TURN   8

/* The host stored 'pi': records its stamp, unless the host has replaced it. */
static void fakernic_sq_mark(FakernicState *s, const FakernicQp *qp,
                             uint32_t pi)
{
    uint32_t index;
    const uint64_t stamp = fakernic_ring_stamp(s, &qp->sq, &index);

    if (stamp && index == pi && (int32_t)(pi - qp->sq_pi) > 0) {
        fakernic_record_mark(s, FAKERNIC_RECORD_POST, qp->qpn, qp->sq_pi,
                             stamp);
    }
}

static void fakernic_sq_take(FakernicState *s, FakernicQp *qp, uint32_t pi)
{
    qp->sq_pi = pi;
    roce_post_send(s->roce, fakernic_now(), qp->qpn);
}

void fakernic_sq_forget(FakernicState *s, FakernicQp *qp)
{
    qp->sq_unreadable = false;
    if (qp->sq_awake) {
        qp->sq_awake = false;
        s->awake_sq_count--;
        QTAILQ_REMOVE(&s->awake_sqs, qp, awake);
        QTAILQ_REMOVE(&s->watched_sqs, qp, watched);
    }
}

void fakernic_sq_wake(FakernicState *s, FakernicQp *qp)
{
    fakernic_sq_forget(s, qp);
    qp->sq_awake = true;
    qp->sq_sleeps_at = fakernic_now() + s->sq_awake_us * 1000ULL;
    s->awake_sq_count++;
    QTAILQ_INSERT_TAIL(&s->awake_sqs, qp, awake);
    QTAILQ_INSERT_TAIL(&s->watched_sqs, qp, watched);
}

/*
 * The record cannot be read or written. The host may not ring again, so the
 * queue fails, like one whose WQE cannot be read.
 */
static void fakernic_sq_fail(FakernicState *s, FakernicQp *qp)
{
    fakernic_sq_forget(s, qp);
    qp->sq_unreadable = true;
    roce_post_send(s->roce, fakernic_now(), qp->qpn);
}

/* Called before new requests are taken. A block that is not fetched yet counts
 * as a request. */
static bool fakernic_sq_is_busy(const FakernicState *s, const FakernicQp *qp)
{
    RoceQpView view;

    return roce_qp_view(s->roce, qp->qpn, &view) &&
           view.in_flight + (qp->sq_pi - qp->sq_ci) >= FAKERNIC_SQ_BUSY;
}

/*
 * Takes an index that the host stored without a doorbell, if it is new. True:
 * the queue was busy before it and should stay awake. Then its next doorbell
 * also keeps it awake: a program that has waited for its stream to end posts
 * more of it.
 */
static bool fakernic_sq_found_busy(FakernicState *s, FakernicQp *qp,
                                   uint32_t pi)
{
    if ((int32_t)(pi - qp->sq_pi) <= 0) {
        return false;
    }
    qp->sq_streams = fakernic_sq_is_busy(s, qp);
    s->stats[FAKERNIC_STAT_SQ_RECORDS]++;
    fakernic_sq_mark(s, qp, pi);
    trace_fakernic_sq_record(s->name, qp->qpn, pi, qp->sq_ci);
    fakernic_record(s, SQ_RECORD, 0, qp->qpn, pi, qp->sq_ci);
    fakernic_sq_take(s, qp, pi);
    fakernic_sq_wake(s, qp);
    return qp->sq_streams;
}

/*
 * Lets the queue sleep, unless a post of a busy host came before the event
 * index. A host may post again each time, so two posts keep the queue awake.
 */
static void fakernic_sq_sleep(FakernicState *s, FakernicQp *qp)
{
    for (unsigned tries = 0; tries < 2; tries++) {
        const uint32_t last = qp->sq_pi;
        uint32_t pi;

        if (!fakernic_ring_announce(s, &qp->sq, last, &pi)) {
            fakernic_sq_fail(s, qp);
            return;
        }
        if (fakernic_sq_found_busy(s, qp, pi)) {
            return;
        }
        if (qp->sq_pi == last) {
            fakernic_sq_forget(s, qp);
            return;
        }
    }
}

/* After a doorbell: keeps a queue awake that was busy before it, and lets
 * others sleep. */
static void fakernic_sq_rung(FakernicState *s, FakernicQp *qp, bool busy)
{
    const bool streams = qp->sq_streams;

    qp->sq_streams = false;
    if (s->sq_awake_us && (streams || busy) &&
        (qp->sq_awake || s->awake_sq_count < FAKERNIC_SQS_AWAKE_MAX)) {
        fakernic_sq_wake(s, qp);
    } else {
        fakernic_sq_sleep(s, qp);
    }
}

void fakernic_sq_doorbell(FakernicState *s, FakernicQp *qp, uint32_t pi)
{
    const bool shadow = s->driver_features & FAKERNIC_FEATURE_SHADOW_DOORBELL;
    bool busy;

    fakernic_sq_mark(s, qp, pi);
    trace_fakernic_doorbell_sq(s->name, qp->qpn, pi, qp->sq_ci);
    fakernic_record(s, DOORBELL_SQ, 0, qp->qpn, pi, qp->sq_ci);
    if ((int32_t)(pi - qp->sq_pi) < 0) {
        /* A later doorbell has overtaken this one and covers its entries. */
        return;
    }
    busy = shadow && fakernic_sq_is_busy(s, qp);
    fakernic_sq_take(s, qp, pi);
    if (shadow) {
        fakernic_sq_rung(s, qp, busy);
    }
}

void fakernic_sq_end(FakernicState *s, const FakernicQp *qp)
{
    uint32_t pi;

    if (s->driver_features & FAKERNIC_FEATURE_SHADOW_DOORBELL &&
        qp->sq.pages && !qp->sq_awake &&
        fakernic_ring_peek_record(s, &qp->sq, &pi) &&
        (int32_t)(pi - qp->sq_pi) > 0) {
        s->stats[FAKERNIC_STAT_SQ_LOST]++;
        trace_fakernic_err_sq_lost(s->name, qp->qpn, pi, qp->sq_pi);
    }
}

/* Reads the record of a queue that is awake. */
static void fakernic_sq_watch(FakernicState *s, FakernicQp *qp)
{
    const uint32_t last = qp->sq_pi;
    uint32_t pi;

    if (!fakernic_ring_record(s, &qp->sq, &pi)) {
        fakernic_sq_fail(s, qp);
    } else if (!fakernic_sq_found_busy(s, qp, pi) && qp->sq_pi != last) {
        /* The host waits for this request: it is to ring for the next one. */
        fakernic_sq_sleep(s, qp);
    }
}

/* Serves the queue that sleeps first, if it is to sleep by now. */
static bool fakernic_sqs_sleep(FakernicState *s, RoceTime now)
{
    FakernicQp *qp = QTAILQ_FIRST(&s->awake_sqs);

    if (!qp || qp->sq_sleeps_at > now) {
        return false;
    }
    fakernic_sq_sleep(s, qp);
    return true;
}

/* Reads the record that was not read for the longest time, if there are more
 * to read. */
static bool fakernic_sqs_watch(FakernicState *s, unsigned *more)
{
    FakernicQp *qp = QTAILQ_FIRST(&s->watched_sqs);

    if (!qp || !*more) {
        return false;
    }
    --*more;
    QTAILQ_REMOVE(&s->watched_sqs, qp, watched);
    QTAILQ_INSERT_TAIL(&s->watched_sqs, qp, watched);
    fakernic_sq_watch(s, qp);
    return true;
}

/* Serves at least one queue, so that other work never stops all of them. */
void fakernic_sqs_look(FakernicState *s, RoceTime now)
{
    unsigned more = MIN(s->awake_sq_count, FAKERNIC_SQS_PER_TURN);

    while (fakernic_sqs_sleep(s, now) || fakernic_sqs_watch(s, &more)) {
        if (!fakernic_budget_left(s)) {
            if (s->awake_sq_count) {
                fakernic_kick(s);
            }
            return;
        }
    }
}

RoceTime fakernic_sqs_deadline(const FakernicState *s)
{
    const FakernicQp *first = QTAILQ_FIRST(&s->awake_sqs);

    return first ? first->sq_sleeps_at : ROCE_TIME_NEVER;
}

static uint16_t fakernic_decode_ud(RoceSendWr *wr,
                                   const struct fakernic_sq_ud *ud)
{
    if (ud->av.rsvd || ud->av.rsvd2) {
        return FAKERNIC_VENDOR_SQ_RSVD;
    }
    wr->ud.av = fakernic_av_decode(&ud->av);
    wr->ud.dest_qpn = le32_to_cpu(ud->dest_qpn);
    wr->ud.qkey = le32_to_cpu(ud->qkey);
    return wr->ud.dest_qpn > FAKERNIC_QPN_MAX ? FAKERNIC_VENDOR_SQ_FORMAT : 0;
}

static uint16_t fakernic_decode_rdma(RoceSendWr *wr,
                                     const struct fakernic_sq_rdma *rdma)
{
    const uint64_t known = FAKERNIC_FLUSH_GLOBAL | FAKERNIC_FLUSH_PERSISTENT |
                           FAKERNIC_FLUSH_LEVEL_MR;

    wr->rdma.remote_address = le64_to_cpu(rdma->remote_address);
    wr->rdma.rkey = le32_to_cpu(rdma->rkey);
    wr->rdma.flush = le32_to_cpu(rdma->flush);
    if (wr->rdma.flush & ~(wr->opcode == FAKERNIC_SQ_FLUSH ? known : 0)) {
        return FAKERNIC_VENDOR_SQ_RSVD;
    }
    if (wr->opcode == FAKERNIC_SQ_FLUSH &&
        (!(wr->rdma.flush & (FAKERNIC_FLUSH_GLOBAL |
                             FAKERNIC_FLUSH_PERSISTENT)) ||
         wr->sge_count != !(wr->rdma.flush & FAKERNIC_FLUSH_LEVEL_MR))) {
        return FAKERNIC_VENDOR_SQ_FORMAT;
    }
    return 0;
}

static uint16_t fakernic_decode_atomic(RoceSendWr *wr,
                                       const struct fakernic_sq_atomic *atomic)
{
    const bool cmp_swap = wr->opcode == FAKERNIC_SQ_ATOMIC_CMP_SWAP ||
                          wr->opcode == FAKERNIC_SQ_ATOMIC_MASKED_CMP_SWAP;
    const bool masked = wr->opcode == FAKERNIC_SQ_ATOMIC_MASKED_CMP_SWAP ||
                        wr->opcode == FAKERNIC_SQ_ATOMIC_MASKED_FETCH_ADD;

    if (atomic->rsvd || (!cmp_swap && atomic->compare) ||
        (!masked && atomic->swap_mask_or_boundary) ||
        (!(masked && cmp_swap) && atomic->compare_mask)) {
        return FAKERNIC_VENDOR_SQ_RSVD;
    }
    wr->atomic.remote_address = le64_to_cpu(atomic->remote_address);
    wr->atomic.rkey = le32_to_cpu(atomic->rkey);
    wr->atomic.swap_or_add = le64_to_cpu(atomic->swap_or_add);
    wr->atomic.compare = le64_to_cpu(atomic->compare);
    wr->atomic.swap_mask_or_boundary =
        le64_to_cpu(atomic->swap_mask_or_boundary);
    wr->atomic.compare_mask = le64_to_cpu(atomic->compare_mask);
    return 0;
}

static uint16_t fakernic_decode_reg_mr(RoceSendWr *wr,
                                       const struct fakernic_sq_reg_mr *reg)
{
    const unsigned shift = reg->pages.page_shift;
    uint64_t needed;

    if (reg->rsvd) {
        return FAKERNIC_VENDOR_SQ_RSVD;
    }
    wr->reg_mr.iova = le64_to_cpu(reg->iova);
    wr->reg_mr.length = le64_to_cpu(reg->length);
    wr->reg_mr.key = le32_to_cpu(reg->key);
    wr->reg_mr.access = le32_to_cpu(reg->access);
    if (shift < FAKERNIC_PAGE_SHIFT || shift > FAKERNIC_PAGE_SHIFT_MAX ||
        wr->reg_mr.length < 1 || wr->reg_mr.length > FAKERNIC_MAX_MR_SIZE ||
        wr->reg_mr.iova > UINT64_MAX - (wr->reg_mr.length - 1)) {
        return FAKERNIC_VENDOR_SQ_FORMAT;
    }
    needed = DIV_ROUND_UP((wr->reg_mr.iova & ((1ULL << shift) - 1)) +
                          wr->reg_mr.length, 1ULL << shift);
    if (needed > FAKERNIC_MAX_FAST_REG_PAGES) {
        return FAKERNIC_VENDOR_SQ_FORMAT;
    }
    wr->reg_mr.page_count = needed;
    wr->reg_mr.page_shift = shift;
    return 0;
}

/* Copies the page list: the guest may free its tables once this completes. */
static uint16_t fakernic_read_reg_mr(FakernicState *s, RoceSendWr *wr,
                                     const struct fakernic_sq_reg_mr *reg)
{
    switch (fakernic_page_list_read(s, &reg->pages, wr->reg_mr.page_count,
                                    &wr->reg_mr.pages)) {
    case FAKERNIC_CMD_OK:
        return 0;
    case FAKERNIC_CMD_DMA_ERROR:
        return FAKERNIC_VENDOR_SQ_DMA;
    default:
        return FAKERNIC_VENDOR_SQ_FORMAT;
    }
}

static uint16_t fakernic_decode_bind_mw(RoceSendWr *wr,
                                        const struct fakernic_sq_bind_mw *bind)
{
    if (!buffer_is_zero(bind->rsvd, sizeof(bind->rsvd))) {
        return FAKERNIC_VENDOR_SQ_RSVD;
    }
    wr->bind_mw.address = le64_to_cpu(bind->address);
    wr->bind_mw.length = le64_to_cpu(bind->length);
    wr->bind_mw.mw_key = le32_to_cpu(bind->mw_key);
    wr->bind_mw.new_key = le32_to_cpu(bind->new_key);
    wr->bind_mw.mr_key = le32_to_cpu(bind->mr_key);
    wr->bind_mw.access = le32_to_cpu(bind->access);
    return 0;
}

static uint16_t fakernic_decode_segment(RoceSendWr *wr, RoceWrSegment segment,
                                        const void *from)
{
    switch (segment) {
    case ROCE_SEGMENT_UD:
        return fakernic_decode_ud(wr, from);
    case ROCE_SEGMENT_RDMA:
        return fakernic_decode_rdma(wr, from);
    case ROCE_SEGMENT_ATOMIC:
        return fakernic_decode_atomic(wr, from);
    case ROCE_SEGMENT_REG_MR:
        return fakernic_decode_reg_mr(wr, from);
    case ROCE_SEGMENT_BIND_MW:
        return fakernic_decode_bind_mw(wr, from);
    default:
        return 0;
    }
}

/* Segmentation and VLAN insertion need a whole frame: a raw-packet QP. */
static bool fakernic_may_offload(const FakernicState *s, const FakernicQp *qp,
                                 const struct fakernic_sq_hdr *hdr,
                                 uint64_t feature)
{
    return (s->driver_features & feature) &&
           qp->type == FAKERNIC_QP_RAW_PACKET &&
           hdr->opcode == FAKERNIC_SQ_SEND;
}

/* The largest valid value of the field imm_or_key. */
static uint32_t fakernic_imm_or_key_max(const struct fakernic_sq_hdr *hdr,
                                        const RoceWrInfo *info)
{
    return info->flags & ROCE_WR_IMM_OR_KEY ? UINT32_MAX :
           hdr->flags & FAKERNIC_SQ_VLAN ? UINT16_MAX : 0;
}

/* Checks flags, counts and lengths against the opcode and the WQE's size; its
 * data begin at 'end'. */
static uint16_t fakernic_check_hdr(const FakernicState *s, const FakernicQp *qp,
                                   const struct fakernic_sq_hdr *hdr,
                                   const RoceWrInfo *info, unsigned end)
{
    const unsigned inline_length = le16_to_cpu(hdr->inline_length);
    uint64_t flags = FAKERNIC_SQ_SIGNALED | FAKERNIC_SQ_SOLICITED |
                     FAKERNIC_SQ_FENCE | FAKERNIC_SQ_INLINE;

    if (qp->type == FAKERNIC_QP_RAW_PACKET &&
        (s->driver_features & FAKERNIC_FEATURE_CSUM)) {
        flags |= FAKERNIC_SQ_IP_CSUM | FAKERNIC_SQ_L4_CSUM;
    }
    if (fakernic_may_offload(s, qp, hdr, FAKERNIC_FEATURE_VLAN)) {
        flags |= FAKERNIC_SQ_VLAN;
    }
    if ((hdr->mss &&
         !fakernic_may_offload(s, qp, hdr, FAKERNIC_FEATURE_TSO)) ||
        (hdr->flags & ~flags) ||
        le32_to_cpu(hdr->imm_or_key) > fakernic_imm_or_key_max(hdr, info) ||
        (hdr->xrc_srqn && qp->type != FAKERNIC_QP_XRC_INI)) {
        return FAKERNIC_VENDOR_SQ_RSVD;
    }
    if (!roce_wr_takes(info, hdr->flags, inline_length, hdr->sge_count)) {
        return FAKERNIC_VENDOR_SQ_FORMAT;
    }
    end += inline_length + hdr->sge_count * sizeof(struct fakernic_sge);
    return end > hdr->bb_count * FAKERNIC_SQ_BB_SIZE ?
           FAKERNIC_VENDOR_SQ_FORMAT : 0;
}

uint16_t fakernic_sq_look(const FakernicState *s, const FakernicQp *qp,
                          const uint8_t *wqe, RoceSendWr *wr)
{
    const struct fakernic_sq_hdr *hdr = (const void *)wqe;
    const RoceWrInfo *info = roce_wr_info(hdr->opcode);
    const RoceWrSegment segment = roce_wr_segment(info, qp->type);
    const unsigned data_offset = roce_wr_data_offset(segment);
    const uint8_t *data = wqe + data_offset;
    uint16_t err;

    if (!info->name ||
        (info->features && !(info->features & s->driver_features))) {
        return FAKERNIC_VENDOR_SQ_OPCODE;
    }
    err = fakernic_check_hdr(s, qp, hdr, info, data_offset);
    if (err) {
        return err;
    }
    wr->sge_count = hdr->sge_count;
    wr->inline_length = le16_to_cpu(hdr->inline_length);
    wr->mss = le16_to_cpu(hdr->mss);
    wr->imm_or_key = le32_to_cpu(hdr->imm_or_key);
    wr->xrc_srqn = le32_to_cpu(hdr->xrc_srqn);
    if (wr->inline_length) {
        memcpy(wr->inline_data, data, wr->inline_length);
    }
    for (unsigned i = 0; i < wr->sge_count; i++) {
        const struct fakernic_sge *sge = (const struct fakernic_sge *)data + i;

        wr->sge[i] = (RoceSge) {
            .address = le64_to_cpu(sge->address),
            .length = le32_to_cpu(sge->length),
            .lkey = le32_to_cpu(sge->lkey),
        };
    }
    return fakernic_decode_segment(wr, segment, wqe + sizeof(*hdr));
}

/* Decodes a whole WQE; 0 or enum fakernic_vendor_err. */
static uint16_t fakernic_decode_wqe(FakernicState *s, const FakernicQp *qp,
                                    const uint8_t *wqe, RoceSendWr *wr)
{
    const struct fakernic_sq_hdr *hdr = (const void *)wqe;
    uint16_t err = fakernic_sq_look(s, qp, wqe, wr);

    /* Last, because an error after it would have to free the page list. */
    if (!err && hdr->opcode == FAKERNIC_SQ_REG_MR) {
        err = fakernic_read_reg_mr(s, wr, (const void *)(hdr + 1));
    }
    return err;
}

static RoceFetch fakernic_sq_broken(const FakernicState *s, FakernicQp *qp,
                                    RoceSendWr *wr,
                                    enum fakernic_vendor_err err)
{
    trace_fakernic_err_sq(s->name, qp->qpn, qp->sq_ci, qp->sq_pi, err);
    wr->format_error = err;
    qp->sq_ci = qp->sq_pi;
    return ROCE_FETCH_ERROR;
}

/*
 * Reads the next WQE, of at most 'available' blocks. Returns its number of
 * blocks; 0: that number is invalid; negative: the memory cannot be read.
 */
static int fakernic_sq_read(FakernicState *s, const FakernicQp *qp,
                            uint32_t available, const FakernicHit *hit,
                            uint8_t *wqe)
{
    const struct fakernic_sq_hdr *hdr = (const void *)wqe;
    const size_t first = FAKERNIC_SQ_BB_SIZE;
    unsigned count;

    if (!fakernic_ring_read(s, &qp->sq, qp->sq_ci, wqe, first)) {
        return -1;
    }
    fakernic_gate_head(hit, wqe, first);
    count = hdr->bb_count;
    if (count < 1 || count > FAKERNIC_SQ_WQE_BB_MAX || count > available) {
        return 0;
    }
    if (count > 1 && !fakernic_ring_read(s, &qp->sq, qp->sq_ci + 1,
                                         wqe + first, (count - 1) * first)) {
        return -1;
    }
    fakernic_gate_rest(hit, wqe, first, count * first);
    return count;
}

/* x-null: makes a WRITE complete without data. */
static void fakernic_sq_null(const FakernicState *s, RoceSendWr *wr)
{
    if (s->null_writes && !wr->format_error &&
        wr->opcode == FAKERNIC_SQ_RDMA_WRITE) {
        wr->opcode = FAKERNIC_SQ_NOP;
        wr->flags &= ~FAKERNIC_SQ_INLINE;
        wr->sge_count = wr->inline_length = 0;
    }
}

RoceFetch fakernic_next_send(void *host, uint32_t qpn, RoceSendWr *wr)
{
    FakernicState *s = host;
    FakernicQp *qp = fakernic_qp(s, qpn);
    QEMU_ALIGNED(8) uint8_t wqe[FAKERNIC_SQ_WQE_SIZE_MAX];
    struct fakernic_sq_hdr *hdr = (void *)wqe;
    const FakernicHit *hit;
    uint32_t available;
    int count;

    if (!qp || !qp->sq.pages ||
        (qp->sq_ci == qp->sq_pi && !qp->sq_unreadable)) {
        return ROCE_FETCH_NONE;
    }
    available = qp->sq_pi - qp->sq_ci;
    wr->index = qp->sq_ci;
    if (qp->sq_unreadable) {
        qp->sq_unreadable = false;
        return fakernic_sq_broken(s, qp, wr, FAKERNIC_VENDOR_SQ_DMA);
    }
    if (available > qp->sq.depth) {
        return fakernic_sq_broken(s, qp, wr, FAKERNIC_VENDOR_SQ_OVERRUN);
    }
    if (!fakernic_gate_send_wqe(s, qpn, qp->sq_ci, &qp->sq_waits, &hit)) {
        return ROCE_FETCH_NONE;
    }
    count = fakernic_sq_read(s, qp, available, hit, wqe);
    if (count < 0) {
        return fakernic_sq_broken(s, qp, wr, FAKERNIC_VENDOR_SQ_DMA);
    }
    if (!fakernic_gate_send_result(s, hit, qpn, wr)) {
        qp->sq_ci += MAX(count, 1);
        return ROCE_FETCH_NONE;
    }
    /* journey: fetch */
    wr->opcode = hdr->opcode;
    wr->flags = hdr->flags;
    /* The start of the WQE after a bad one is unknown: assume one block. */
    wr->format_error = count ? fakernic_decode_wqe(s, qp, wqe, wr)
                             : FAKERNIC_VENDOR_SQ_FORMAT;
    count = MAX(count, 1);
    trace_fakernic_sq_wqe(s->name, qpn, wr->index, hdr->opcode, count,
                          wr->format_error);
    fakernic_record(s, WQE, 0, qpn, wr->index, hdr->opcode, count,
                    wr->format_error);
    qp->sq_ci += count;
    /* journey: end */
    fakernic_sq_null(s, wr);
    return ROCE_FETCH_OK;
}
