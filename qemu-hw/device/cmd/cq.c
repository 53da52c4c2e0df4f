/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * CREATE_CQ, DESTROY_CQ, RESIZE_CQ, MODIFY_CQ (fakernic/cmdq.h, fakernic/cq.h).
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "cmd.h"
#include "../queue/cq.h"
#include "../state.h"
#include "../queue/eq.h"
#include "../queue/ring.h"

/* Larger CQs need a feature that the driver must have negotiated. */
static unsigned fakernic_cq_log_depth_max(const FakernicState *s)
{
    return s->driver_features & FAKERNIC_FEATURE_DEEP_CQ ?
           FAKERNIC_CQ_LOG_DEPTH_MAX : FAKERNIC_QUEUE_LOG_DEPTH_MAX;
}

uint32_t fakernic_cq_depth_max(const FakernicState *s)
{
    return 1U << fakernic_cq_log_depth_max(s);
}

static bool fakernic_cq_log_depth_ok(const FakernicState *s, uint8_t log_depth)
{
    return log_depth >= 1 && log_depth <= fakernic_cq_log_depth_max(s);
}

/* Sets up the ring of a request; LATER: its page list is not yet read. */
static uint8_t fakernic_cq_ring(FakernicState *s, FakernicRing *ring,
                                const struct fakernic_page_list *list,
                                uint8_t log_depth)
{
    return fakernic_ring_init_some(s, ring, &s->progress.pages, list, log_depth,
                                   ctz32(sizeof(struct fakernic_cqe)),
                                   ROCE_WHY_CQE);
}

FakernicVerdict fakernic_run_create_cq(FakernicState *s, const void *request,
                                       void *response)
{
    const struct fakernic_create_cq_req *req = request;
    struct fakernic_id *resp = response;
    const uint32_t uar = le32_to_cpu(req->uar);
    FakernicEq *eq = fakernic_table_get(&s->eqs, le32_to_cpu(req->eqn));
    FakernicCq *cq;
    FakernicRing ring;
    uint8_t status;

    if (!fakernic_cq_log_depth_ok(s, req->log_depth)) {
        return FAKERNIC_REFUSE(BAD_PARAM, struct fakernic_create_cq_req,
                               log_depth);
    }
    if (req->flags & ~FAKERNIC_CQ_IGNORE_OVERRUN) {
        return FAKERNIC_REFUSE(BAD_PARAM, struct fakernic_create_cq_req, flags);
    }
    if (!fakernic_uar_exists(s, uar)) {
        return FAKERNIC_REFUSE(BAD_ID, struct fakernic_create_cq_req, uar);
    }
    if (!eq) {
        return FAKERNIC_REFUSE(BAD_ID, struct fakernic_create_cq_req, eqn);
    }
    if (fakernic_table_is_full(&s->cqs)) {
        return FAKERNIC_VERDICT(FAKERNIC_CMD_NO_RESOURCE);
    }
    status = fakernic_cq_ring(s, &ring, &req->pages, req->log_depth);
    if (status != FAKERNIC_CMD_OK) {
        return fakernic_page_list_verdict(status,
            offsetof(struct fakernic_create_cq_req, pages));
    }
    cq = g_new0(FakernicCq, 1);
    cq->ring = ring;
    cq->eq = eq;
    cq->uar = uar;
    cq->ignore_overrun = req->flags & FAKERNIC_CQ_IGNORE_OVERRUN;
    cq->id = fakernic_table_add(&s->cqs, cq);
    cq->completion.id = cq->id;
    cq->async.id = cq->id;
    eq->users++;
    fakernic_uar_use(s, uar, 1);
    resp->id = cpu_to_le32(cq->id);
    return FAKERNIC_VERDICT(FAKERNIC_CMD_OK);
}

FakernicVerdict fakernic_run_destroy_cq(FakernicState *s, const void *request,
                                        void *response)
{
    const struct fakernic_id *req = request;
    FakernicCq *cq = fakernic_table_get(&s->cqs, le32_to_cpu(req->id));

    if (!cq) {
        return FAKERNIC_REFUSE(BAD_ID, struct fakernic_id, id);
    }
    if (cq->users) {
        return FAKERNIC_VERDICT(FAKERNIC_CMD_BUSY);
    }
    fakernic_cq_forget(s, cq);
    fakernic_event_forget(s, cq->eq, &cq->completion);
    fakernic_event_forget(s, NULL, &cq->async);
    cq->eq->users--;
    fakernic_uar_use(s, cq->uar, -1);
    fakernic_table_remove(&s->cqs, cq->id);
    fakernic_ring_free(s, &cq->ring);
    g_free(cq);
    return FAKERNIC_VERDICT(FAKERNIC_CMD_OK);
}

typedef struct fakernic_resize_cq_req ResizeCqReq;

/* CQEs in a piece of one page, and pieces that one turn copies. */
#define FAKERNIC_CQES_PER_PIECE  (FAKERNIC_PAGE_SIZE / sizeof(struct fakernic_cqe))
#define FAKERNIC_PIECES_PER_TURN 16

/* Sets up the new ring and reads the consumer index, to begin the copy. */
static FakernicVerdict fakernic_resize_begin(FakernicState *s,
                                             const FakernicCq *cq,
                                             const ResizeCqReq *req)
{
    FakernicProgress *p = &s->progress;
    uint8_t status = fakernic_cq_ring(s, &p->ring, &req->pages,
                                      req->log_depth);
    uint32_t ci;

    if (status != FAKERNIC_CMD_OK) {
        return fakernic_page_list_verdict(status, offsetof(ResizeCqReq, pages));
    }
    if (!fakernic_ring_record(s, &cq->ring, &ci)) {
        return FAKERNIC_VERDICT(FAKERNIC_CMD_DMA_ERROR);
    }
    if (cq->pi - ci > cq->ring.depth) {
        return FAKERNIC_REFUSE(BAD_STATE, ResizeCqReq, cqn);
    }
    if (cq->pi - ci > 1U << req->log_depth) {
        return FAKERNIC_REFUSE(BAD_PARAM, ResizeCqReq, log_depth);
    }
    p->first = p->next = ci;
    return FAKERNIC_VERDICT(FAKERNIC_CMD_OK);
}

/* Copies the next entries of the old ring to their places in the new one. */
static bool fakernic_resize_copy(FakernicState *s, const FakernicCq *cq)
{
    struct fakernic_cqe cqes[FAKERNIC_CQES_PER_PIECE];
    FakernicProgress *p = &s->progress;
    const uint32_t count = MIN(cq->pi - p->next, ARRAY_SIZE(cqes));

    if (!fakernic_ring_read(s, &cq->ring, p->next, cqes,
                            count * sizeof(cqes[0]))) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        cqes[i].owner = 1;
    }
    if (!fakernic_ring_write(s, &p->ring, p->next - p->first, cqes,
                             count * sizeof(cqes[0]))) {
        return false;
    }
    p->next += count;
    return true;
}

/*
 * Copies entries within the budget. Completions go to the old ring until all
 * entries are copied, and may then be more than the new ring can hold.
 */
static FakernicVerdict fakernic_resize_run(FakernicState *s,
                                           const FakernicCq *cq)
{
    FakernicProgress *p = &s->progress;

    for (unsigned i = 0; i < FAKERNIC_PIECES_PER_TURN; i++) {
        if (cq->pi - p->first > p->ring.depth) {
            return FAKERNIC_REFUSE(BAD_PARAM, ResizeCqReq, log_depth);
        }
        if (p->next == cq->pi) {
            return FAKERNIC_VERDICT(FAKERNIC_CMD_OK);
        }
        if (!fakernic_resize_copy(s, cq)) {
            return FAKERNIC_VERDICT(FAKERNIC_CMD_DMA_ERROR);
        }
    }
    return FAKERNIC_VERDICT(FAKERNIC_CMD_LATER);
}

static void fakernic_resize_end(FakernicState *s, FakernicCq *cq)
{
    FakernicProgress *p = &s->progress;

    fakernic_ring_free(s, &cq->ring);
    cq->ring = p->ring;
    p->ring.pages = NULL;
    cq->solicited_pi -= p->first;
    cq->pi -= p->first;
    cq->ci = 0;
}

FakernicVerdict fakernic_run_resize_cq(FakernicState *s, const void *request,
                                       void *response)
{
    const ResizeCqReq *req = request;
    FakernicCq *cq = fakernic_table_get(&s->cqs, le32_to_cpu(req->cqn));
    FakernicVerdict v = FAKERNIC_VERDICT(FAKERNIC_CMD_OK);

    if (!cq) {
        return FAKERNIC_REFUSE(BAD_ID, ResizeCqReq, cqn);
    }
    if (!fakernic_cq_log_depth_ok(s, req->log_depth)) {
        return FAKERNIC_REFUSE(BAD_PARAM, ResizeCqReq, log_depth);
    }
    if (cq->error) {
        return FAKERNIC_REFUSE(BAD_STATE, ResizeCqReq, cqn);
    }
    if (!s->progress.ring.pages) {
        v = fakernic_resize_begin(s, cq, req);
    }
    if (fakernic_accepts(&v)) {
        v = fakernic_resize_run(s, cq);
    }
    if (fakernic_accepts(&v)) {
        fakernic_resize_end(s, cq);
    }
    return v;
}

FakernicVerdict fakernic_run_modify_cq(FakernicState *s, const void *request,
                                       void *response)
{
    const struct fakernic_modify_cq_req *req = request;
    FakernicCq *cq = fakernic_table_get(&s->cqs, le32_to_cpu(req->cqn));

    if (!cq) {
        return FAKERNIC_REFUSE(BAD_ID, struct fakernic_modify_cq_req, cqn);
    }
    fakernic_cq_moderate(s, cq, le16_to_cpu(req->count),
                         le16_to_cpu(req->period_us));
    return FAKERNIC_VERDICT(FAKERNIC_CMD_OK);
}
