/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * CREATE_EQ, DESTROY_EQ (fakernic/cmdq.h, fakernic/eq.h).
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "cmd.h"
#include "../queue/eq.h"
#include "../state.h"
#include "../queue/ring.h"

#define FAKERNIC_EQ_LOG_DEPTH_MIN 4

FakernicVerdict fakernic_run_create_eq(FakernicState *s, const void *request,
                                       void *response)
{
    const struct fakernic_create_eq_req *req = request;
    struct fakernic_id *resp = response;
    const uint16_t vector = le16_to_cpu(req->vector);
    FakernicEq *eq;
    FakernicRing ring;
    uint8_t status;

    if (req->log_depth < FAKERNIC_EQ_LOG_DEPTH_MIN ||
        req->log_depth > FAKERNIC_QUEUE_LOG_DEPTH_MAX) {
        return FAKERNIC_REFUSE(BAD_PARAM, struct fakernic_create_eq_req,
                               log_depth);
    }
    if (vector >= s->vectors) {
        return FAKERNIC_REFUSE(BAD_PARAM, struct fakernic_create_eq_req,
                               vector);
    }
    if (req->async > 1) {
        return FAKERNIC_REFUSE(BAD_PARAM, struct fakernic_create_eq_req, async);
    }
    if (req->async && s->async_eq) {
        return FAKERNIC_VERDICT(FAKERNIC_CMD_BUSY);
    }
    if (fakernic_table_is_full(&s->eqs)) {
        return FAKERNIC_VERDICT(FAKERNIC_CMD_NO_RESOURCE);
    }
    status = fakernic_ring_init(s, &ring, &req->pages, req->log_depth,
                                ctz32(sizeof(struct fakernic_eqe)),
                                ROCE_WHY_EQE);
    if (status != FAKERNIC_CMD_OK) {
        return fakernic_page_list_verdict(status,
            offsetof(struct fakernic_create_eq_req, pages));
    }
    eq = g_new0(FakernicEq, 1);
    eq->ring = ring;
    eq->vector = vector;
    QTAILQ_INIT(&eq->waiting);
    eq->id = fakernic_table_add(&s->eqs, eq);
    if (req->async) {
        s->async_eq = eq;
        fakernic_eq_flush(s, eq);
    }
    resp->id = cpu_to_le32(eq->id);
    return FAKERNIC_VERDICT(FAKERNIC_CMD_OK);
}

FakernicVerdict fakernic_run_destroy_eq(FakernicState *s, const void *request,
                                        void *response)
{
    const struct fakernic_id *req = request;
    FakernicEq *eq = fakernic_table_get(&s->eqs, le32_to_cpu(req->id));

    if (!eq) {
        return FAKERNIC_REFUSE(BAD_ID, struct fakernic_id, id);
    }
    if (eq->users) {
        return FAKERNIC_VERDICT(FAKERNIC_CMD_BUSY);
    }
    fakernic_eq_forget(s, eq);
    fakernic_table_remove(&s->eqs, eq->id);
    fakernic_ring_free(s, &eq->ring);
    g_free(eq);
    return FAKERNIC_VERDICT(FAKERNIC_CMD_OK);
}
