/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Commands on shared receive queues (fakernic/cmdq.h; IBTA 10.2.9, 11.2.3). An
 * XRC SRQ belongs to an XRC domain and has a CQ of its own: XRC target QPs of
 * that domain find it by the number in each message.
 *
 * A resize moves the receives that the device has not taken to a new ring. The
 * host must post none during the resize. The producer index that it has written
 * into both doorbell records proves that.
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "cmd.h"
#include "../queue/rq.h"
#include "../state.h"
#include "../queue/eq.h"
#include "../queue/cq.h"
#include "../queue/ring.h"

typedef struct fakernic_create_srq_req CreateSrqReq;
typedef struct fakernic_modify_srq_req ModifySrqReq;

/* Checks that the request has an XRC domain and a CQ, or neither. */
static FakernicVerdict fakernic_check_srq_xrc(FakernicState *s,
                                              const CreateSrqReq *req)
{
    uint8_t status;

    if (!req->xrcdn) {
        return req->cqn ? FAKERNIC_REFUSE(BAD_PARAM, CreateSrqReq, cqn) :
               FAKERNIC_VERDICT(FAKERNIC_CMD_OK);
    }
    if (!(s->driver_features & FAKERNIC_FEATURE_XRC)) {
        return FAKERNIC_VERDICT(FAKERNIC_CMD_UNSUPPORTED);
    }
    if (!fakernic_xrcd(s, le32_to_cpu(req->xrcdn))) {
        return FAKERNIC_REFUSE(BAD_ID, CreateSrqReq, xrcdn);
    }
    status = fakernic_cq_check(s, le32_to_cpu(req->cqn));
    return status == FAKERNIC_CMD_OK ? FAKERNIC_VERDICT(FAKERNIC_CMD_OK) :
           fakernic_refuse_at(status, offsetof(CreateSrqReq, cqn));
}

static FakernicVerdict fakernic_check_create_srq(FakernicState *s,
                                                 const CreateSrqReq *req)
{
    if (req->log_depth > FAKERNIC_QUEUE_LOG_DEPTH_MAX) {
        return FAKERNIC_REFUSE(BAD_PARAM, CreateSrqReq, log_depth);
    }
    if (req->log_stride < FAKERNIC_RQ_LOG_STRIDE_MIN ||
        req->log_stride > FAKERNIC_RQ_LOG_STRIDE_MAX) {
        return FAKERNIC_REFUSE(BAD_PARAM, CreateSrqReq, log_stride);
    }
    if (!fakernic_pd(s, le32_to_cpu(req->pdn))) {
        return FAKERNIC_REFUSE(BAD_ID, CreateSrqReq, pdn);
    }
    if (le32_to_cpu(req->limit) > 1U << req->log_depth) {
        return FAKERNIC_REFUSE(BAD_PARAM, CreateSrqReq, limit);
    }
    return fakernic_check_srq_xrc(s, req);
}

/* Takes (1) or releases (-1) references to the objects that the SRQ uses. */
static void fakernic_srq_refer(FakernicState *s, FakernicSrq *srq, int users)
{
    fakernic_pd(s, srq->pdn)->users += users;
    if (srq->cq) {
        fakernic_xrcd(s, srq->xrcdn)->users += users;
    }
}

FakernicVerdict fakernic_run_create_srq(FakernicState *s, const void *request,
                                        void *response)
{
    const CreateSrqReq *req = request;
    struct fakernic_id *resp = response;
    FakernicVerdict v = fakernic_check_create_srq(s, req);
    FakernicRing ring;
    FakernicSrq *srq;
    uint8_t status;

    if (!fakernic_accepts(&v)) {
        return v;
    }
    if (fakernic_table_is_full(&s->srqs)) {
        return FAKERNIC_VERDICT(FAKERNIC_CMD_NO_RESOURCE);
    }
    status = fakernic_ring_init(s, &ring, &req->pages, req->log_depth,
                                req->log_stride, ROCE_WHY_WQE);
    if (status != FAKERNIC_CMD_OK) {
        return fakernic_page_list_verdict(status,
                                          offsetof(CreateSrqReq, pages));
    }
    srq = g_new0(FakernicSrq, 1);
    srq->ring = ring;
    srq->pdn = le32_to_cpu(req->pdn);
    srq->xrcdn = le32_to_cpu(req->xrcdn);
    srq->cq = fakernic_table_get(&s->cqs, le32_to_cpu(req->cqn));
    srq->limit = le32_to_cpu(req->limit);
    srq->id = fakernic_table_add(&s->srqs, srq);
    srq->serial = ++s->srq_serial;
    srq->async.id = srq->id;
    fakernic_srq_refer(s, srq, 1);
    srq->cq_user.srq = srq;
    fakernic_cq_join(srq->cq, &srq->cq_user);
    resp->id = cpu_to_le32(srq->id);
    return FAKERNIC_VERDICT(FAKERNIC_CMD_OK);
}

FakernicVerdict fakernic_run_destroy_srq(FakernicState *s, const void *request,
                                         void *response)
{
    const struct fakernic_id *req = request;
    FakernicSrq *srq = fakernic_table_get(&s->srqs, le32_to_cpu(req->id));

    if (!srq) {
        return FAKERNIC_REFUSE(BAD_ID, struct fakernic_id, id);
    }
    if (srq->users) {
        return FAKERNIC_VERDICT(FAKERNIC_CMD_BUSY);
    }
    fakernic_event_forget(s, NULL, &srq->async);
    fakernic_srq_refer(s, srq, -1);
    fakernic_cq_leave(srq->cq, &srq->cq_user);
    fakernic_table_remove(&s->srqs, srq->id);
    fakernic_ring_free(s, &srq->ring);
    g_free(srq);
    return FAKERNIC_VERDICT(FAKERNIC_CMD_OK);
}

static FakernicVerdict fakernic_check_modify_srq(FakernicState *s,
                                                 const FakernicSrq *srq,
                                                 const ModifySrqReq *req)
{
    const bool resize = req->mask & FAKERNIC_SRQ_RESIZE;
    const bool limit = req->mask & FAKERNIC_SRQ_LIMIT;
    const uint32_t wanted = le32_to_cpu(req->limit);
    uint32_t depth = srq->ring.depth;

    if (req->mask & ~(FAKERNIC_SRQ_LIMIT | FAKERNIC_SRQ_RESIZE)) {
        return FAKERNIC_REFUSE(BAD_PARAM, ModifySrqReq, mask);
    }
    if (resize && !(s->driver_features & FAKERNIC_FEATURE_RESIZE_SRQ)) {
        return FAKERNIC_VERDICT(FAKERNIC_CMD_UNSUPPORTED);
    }
    if (resize ? req->log_depth > FAKERNIC_QUEUE_LOG_DEPTH_MAX :
                 req->log_depth) {
        return FAKERNIC_REFUSE(BAD_PARAM, ModifySrqReq, log_depth);
    }
    if (!resize && !fakernic_page_list_is_zero(&req->pages)) {
        return FAKERNIC_REFUSE(BAD_PARAM, ModifySrqReq, pages);
    }
    if (resize) {
        depth = 1U << req->log_depth;
    }
    if (limit ? wanted > depth : wanted) {
        return FAKERNIC_REFUSE(BAD_PARAM, ModifySrqReq, limit);
    }
    if (!limit && srq->limit > depth) {
        return FAKERNIC_REFUSE(BAD_PARAM, ModifySrqReq, log_depth);
    }
    if (srq->error) {
        return FAKERNIC_REFUSE(BAD_STATE, ModifySrqReq, srqn);
    }
    return FAKERNIC_VERDICT(FAKERNIC_CMD_OK);
}

/* Bytes of slots in a piece, and pieces that one turn copies. */
#define FAKERNIC_SLOT_PIECE      FAKERNIC_PAGE_SIZE
#define FAKERNIC_PIECES_PER_TURN 16

/*
 * Checks that the producer index has not changed since the resize began, and is
 * possible in both rings.
 */
static FakernicVerdict fakernic_srq_check_pi(FakernicState *s,
                                             const FakernicSrq *srq)
{
    const FakernicProgress *p = &s->progress;
    uint32_t pi;

    if (!fakernic_ring_record(s, &srq->ring, &pi)) {
        return FAKERNIC_VERDICT(FAKERNIC_CMD_DMA_ERROR);
    }
    if (pi - srq->ci > srq->ring.depth) {
        return FAKERNIC_REFUSE(BAD_STATE, ModifySrqReq, srqn);
    }
    if (pi - srq->ci > p->ring.depth) {
        return FAKERNIC_REFUSE(BAD_PARAM, ModifySrqReq, log_depth);
    }
    if (pi != p->last) {
        return FAKERNIC_REFUSE(BAD_STATE, ModifySrqReq, srqn);
    }
    return FAKERNIC_VERDICT(FAKERNIC_CMD_OK);
}

/* Begins to move the receives from ci to the index in both records. */
static FakernicVerdict fakernic_srq_resize_begin(FakernicState *s,
                                                 const FakernicSrq *srq,
                                                 const ModifySrqReq *req)
{
    FakernicProgress *p = &s->progress;
    uint8_t status = fakernic_ring_init(s, &p->ring, &req->pages,
                                        req->log_depth, srq->ring.log_entry,
                                        ROCE_WHY_WQE);

    if (status != FAKERNIC_CMD_OK) {
        return fakernic_page_list_verdict(status,
                                          offsetof(ModifySrqReq, pages));
    }
    if (!fakernic_ring_record(s, &p->ring, &p->last)) {
        return FAKERNIC_VERDICT(FAKERNIC_CMD_DMA_ERROR);
    }
    p->next = srq->ci;
    return fakernic_srq_check_pi(s, srq);
}

/* Copies the next slots to the same indexes of the new ring. */
static bool fakernic_srq_resize_copy(FakernicState *s, const FakernicSrq *srq)
{
    uint8_t slots[FAKERNIC_SLOT_PIECE];
    FakernicProgress *p = &s->progress;
    const unsigned log_entry = p->ring.log_entry;
    const uint32_t count = MIN(p->last - p->next, sizeof(slots) >> log_entry);

    if (!fakernic_ring_read(s, &srq->ring, p->next, slots,
                            count << log_entry) ||
        !fakernic_ring_write(s, &p->ring, p->next, slots,
                             count << log_entry)) {
        return false;
    }
    p->next += count;
    return true;
}

/*
 * Copies slots within the budget. Messages still take receives from the old
 * ring; those need no copy, and a copy made already does no harm.
 */
static FakernicVerdict fakernic_srq_resize_run(FakernicState *s,
                                               const FakernicSrq *srq)
{
    FakernicProgress *p = &s->progress;

    for (unsigned i = 0; i < FAKERNIC_PIECES_PER_TURN; i++) {
        if (p->next == p->last) {
            return fakernic_srq_check_pi(s, srq);
        }
        if (!fakernic_srq_resize_copy(s, srq)) {
            return FAKERNIC_VERDICT(FAKERNIC_CMD_DMA_ERROR);
        }
    }
    return FAKERNIC_VERDICT(FAKERNIC_CMD_LATER);
}

static FakernicVerdict fakernic_srq_resize(FakernicState *s, FakernicSrq *srq,
                                           const ModifySrqReq *req)
{
    FakernicProgress *p = &s->progress;
    FakernicVerdict v = FAKERNIC_VERDICT(FAKERNIC_CMD_OK);

    if (!p->ring.pages) {
        v = fakernic_srq_resize_begin(s, srq, req);
    }
    if (fakernic_accepts(&v)) {
        v = fakernic_srq_resize_run(s, srq);
    }
    if (fakernic_accepts(&v)) {
        fakernic_ring_free(s, &srq->ring);
        srq->ring = p->ring;
        srq->pi = p->last;
        p->ring.pages = NULL;
    }
    return v;
}

FakernicVerdict fakernic_run_modify_srq(FakernicState *s, const void *request,
                                        void *response)
{
    const ModifySrqReq *req = request;
    FakernicSrq *srq = fakernic_table_get(&s->srqs, le32_to_cpu(req->srqn));
    FakernicVerdict v;

    if (!srq) {
        return FAKERNIC_REFUSE(BAD_ID, ModifySrqReq, srqn);
    }
    v = fakernic_check_modify_srq(s, srq, req);
    if (fakernic_accepts(&v) && (req->mask & FAKERNIC_SRQ_RESIZE)) {
        v = fakernic_srq_resize(s, srq, req);
    }
    if (fakernic_accepts(&v) && (req->mask & FAKERNIC_SRQ_LIMIT)) {
        fakernic_srq_set_limit(s, srq, le32_to_cpu(req->limit));
    }
    return v;
}

FakernicVerdict fakernic_run_query_srq(FakernicState *s, const void *request,
                                       void *response)
{
    const struct fakernic_id *req = request;
    struct fakernic_query_srq_resp *resp = response;
    FakernicSrq *srq = fakernic_table_get(&s->srqs, le32_to_cpu(req->id));

    if (!srq) {
        return FAKERNIC_REFUSE(BAD_ID, struct fakernic_id, id);
    }
    resp->limit = cpu_to_le32(srq->limit);
    resp->depth = cpu_to_le32(srq->ring.depth);
    return FAKERNIC_VERDICT(FAKERNIC_CMD_OK);
}
