/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * CREATE_CQ, DESTROY_CQ, RESIZE_CQ, MODIFY_CQ (fakernic/cmdq.h, fakernic/cq.h).
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "cmd.h"
#include "cq.h"
#include "state.h"

FakernicVerdict fakernic_cmd_create_cq(FakernicState *s, const void *request,
                                       void *response)
{
    const struct fakernic_create_cq_req *req = request;
    struct fakernic_id *resp = response;
    const uint32_t uar = le32_to_cpu(req->uar);
    FakernicEq *eq = fakernic_table_get(&s->eqs, le32_to_cpu(req->eqn));
    FakernicCq *cq;
    FakernicRing ring;
    uint8_t status;

    if (req->log_depth < 1 || req->log_depth > FAKERNIC_QUEUE_LOG_DEPTH_MAX) {
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
    status = fakernic_ring_init(s, &ring, &req->pages, req->log_depth,
                                ctz32(sizeof(struct fakernic_cqe)));
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

FakernicVerdict fakernic_cmd_destroy_cq(FakernicState *s, const void *request,
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
    fakernic_ring_free(&cq->ring);
    g_free(cq);
    return FAKERNIC_VERDICT(FAKERNIC_CMD_OK);
}

/* Copies the entries ci..pi of the old ring to 0.. of the new one. */
static bool fakernic_cq_move(FakernicState *s, const FakernicCq *cq,
                             const FakernicRing *to, uint32_t ci)
{
    for (uint32_t i = 0; ci + i != cq->pi; i++) {
        struct fakernic_cqe cqe;

        if (!fakernic_ring_read(s, &cq->ring, ci + i, &cqe, sizeof(cqe))) {
            return false;
        }
        cqe.owner = 1;
        if (!fakernic_ring_write(s, to, i, &cqe, sizeof(cqe))) {
            return false;
        }
    }
    return true;
}

FakernicVerdict fakernic_cmd_resize_cq(FakernicState *s, const void *request,
                                       void *response)
{
    const struct fakernic_resize_cq_req *req = request;
    FakernicCq *cq = fakernic_table_get(&s->cqs, le32_to_cpu(req->cqn));
    FakernicRing ring;
    uint32_t ci;
    uint8_t status;

    if (!cq) {
        return FAKERNIC_REFUSE(BAD_ID, struct fakernic_resize_cq_req, cqn);
    }
    if (req->log_depth < 1 || req->log_depth > FAKERNIC_QUEUE_LOG_DEPTH_MAX) {
        return FAKERNIC_REFUSE(BAD_PARAM, struct fakernic_resize_cq_req,
                               log_depth);
    }
    if (cq->error) {
        return FAKERNIC_REFUSE(BAD_STATE, struct fakernic_resize_cq_req, cqn);
    }
    if (!fakernic_ring_record(s, &cq->ring, &ci)) {
        return FAKERNIC_VERDICT(FAKERNIC_CMD_DMA_ERROR);
    }
    if (cq->pi - ci > cq->ring.depth) {
        return FAKERNIC_REFUSE(BAD_STATE, struct fakernic_resize_cq_req, cqn);
    }
    if (cq->pi - ci > 1U << req->log_depth) {
        return FAKERNIC_REFUSE(BAD_PARAM, struct fakernic_resize_cq_req,
                               log_depth);
    }
    status = fakernic_ring_init(s, &ring, &req->pages, req->log_depth,
                                ctz32(sizeof(struct fakernic_cqe)));
    if (status != FAKERNIC_CMD_OK) {
        return fakernic_page_list_verdict(status,
            offsetof(struct fakernic_resize_cq_req, pages));
    }
    if (!fakernic_cq_move(s, cq, &ring, ci)) {
        fakernic_ring_free(&ring);
        return FAKERNIC_VERDICT(FAKERNIC_CMD_DMA_ERROR);
    }
    fakernic_ring_free(&cq->ring);
    cq->ring = ring;
    cq->solicited_pi -= ci;
    cq->pi -= ci;
    cq->ci = 0;
    return FAKERNIC_VERDICT(FAKERNIC_CMD_OK);
}

FakernicVerdict fakernic_cmd_modify_cq(FakernicState *s, const void *request,
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
