/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Commands on work queues, indirection tables and RSS QPs (fakernic/wq.h). A WQ
 * is a raw-packet QP of the engine that has an RQ only. Its three states are
 * the QP states RESET, RTR and ERR.
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "../clock.h"
#include "cmd.h"
#include "../port/rss.h"
#include "../dma.h"
#include "../queue/qp.h"
#include "../state.h"
#include "../fault/gate.h"
#include "../queue/ring.h"

typedef struct fakernic_create_wq_req CreateWqReq;
typedef struct fakernic_modify_wq_req ModifyWqReq;
typedef struct fakernic_create_ind_table_req CreateIndTableReq;
typedef struct fakernic_create_rss_qp_req CreateRssQpReq;

/* Changes the state of a QP whose only attribute is the port. */
static void fakernic_set_state(FakernicState *s, const FakernicQp *qp,
                               uint8_t state)
{
    const RoceQpAttr attr = { .state = state, .port = 1 };
    const uint32_t mask = FAKERNIC_QP_ATTR_STATE |
                          (state == FAKERNIC_QPS_INIT ? FAKERNIC_QP_ATTR_PORT :
                           0);
    uint32_t bad_field;
    int status = roce_qp_modify(s->roce, fakernic_now(), qp->qpn, mask, &attr,
                                &bad_field);

    assert(status == FAKERNIC_CMD_OK);
}

/* Moves a QP from RESET to the state in which it receives. */
static void fakernic_set_receiving(FakernicState *s, const FakernicQp *qp)
{
    fakernic_set_state(s, qp, FAKERNIC_QPS_INIT);
    fakernic_set_state(s, qp, FAKERNIC_QPS_RTR);
}

/* ---- work queues ------------------------------------------------------- */

static FakernicVerdict fakernic_check_create_wq(FakernicState *s,
                                                const CreateWqReq *req)
{
    uint8_t status;

    if (req->type != FAKERNIC_WQT_RQ) {
        return FAKERNIC_REFUSE(BAD_PARAM, CreateWqReq, type);
    }
    if (req->log_depth > FAKERNIC_QUEUE_LOG_DEPTH_MAX) {
        return FAKERNIC_REFUSE(BAD_PARAM, CreateWqReq, log_depth);
    }
    if (req->log_stride < FAKERNIC_RQ_LOG_STRIDE_MIN ||
        req->log_stride > FAKERNIC_RQ_LOG_STRIDE_MAX) {
        return FAKERNIC_REFUSE(BAD_PARAM, CreateWqReq, log_stride);
    }
    if (!fakernic_pd(s, le32_to_cpu(req->pdn))) {
        return FAKERNIC_REFUSE(BAD_ID, CreateWqReq, pdn);
    }
    status = fakernic_cq_check(s, le32_to_cpu(req->cqn));
    return status == FAKERNIC_CMD_OK ? FAKERNIC_VERDICT(FAKERNIC_CMD_OK) :
           fakernic_refuse_at(status, offsetof(CreateWqReq, cqn));
}

FakernicVerdict fakernic_run_create_wq(FakernicState *s, const void *request,
                                       void *response)
{
    const CreateWqReq *req = request;
    struct fakernic_id *resp = response;
    FakernicVerdict v = fakernic_check_create_wq(s, req);
    RoceQpInit init = {
        .type = FAKERNIC_QP_RAW_PACKET,
        .has_rq = true,
        .pd = fakernic_pd_handle(s, le32_to_cpu(req->pdn)),
        .recv_cqn = le32_to_cpu(req->cqn),
    };
    FakernicQp *wq;
    uint8_t status;

    if (!fakernic_accepts(&v)) {
        return v;
    }
    wq = g_new0(FakernicQp, 1);
    wq->type = FAKERNIC_QP_RAW_PACKET;
    wq->is_wq = true;
    wq->pdn = le32_to_cpu(req->pdn);
    wq->recv_cq = fakernic_table_get(&s->cqs, init.recv_cqn);
    status = fakernic_ring_init(s, &wq->rq, &req->pages, req->log_depth,
                                req->log_stride, ROCE_WHY_WQE);
    if (status != FAKERNIC_CMD_OK) {
        fakernic_qp_free(s, wq);
        return fakernic_page_list_verdict(status, offsetof(CreateWqReq, pages));
    }
    status = fakernic_qp_add(s, wq, &init);
    if (status != FAKERNIC_CMD_OK) {
        return FAKERNIC_VERDICT(status);
    }
    resp->id = cpu_to_le32(wq->qpn);
    return FAKERNIC_VERDICT(FAKERNIC_CMD_OK);
}

FakernicVerdict fakernic_run_destroy_wq(FakernicState *s, const void *request,
                                        void *response)
{
    const struct fakernic_id *req = request;
    FakernicQp *wq = fakernic_wq(s, le32_to_cpu(req->id));

    if (!wq) {
        return FAKERNIC_REFUSE(BAD_ID, struct fakernic_id, id);
    }
    if (wq->entries) {
        return FAKERNIC_VERDICT(FAKERNIC_CMD_BUSY);
    }
    fakernic_qp_remove(s, wq);
    return FAKERNIC_VERDICT(FAKERNIC_CMD_OK);
}

FakernicVerdict fakernic_run_modify_wq(FakernicState *s, const void *request,
                                       void *response)
{
    const ModifyWqReq *req = request;
    FakernicQp *wq = fakernic_wq(s, le32_to_cpu(req->wqn));
    RoceQpAttr attr;

    if (!wq) {
        return FAKERNIC_REFUSE(BAD_ID, ModifyWqReq, wqn);
    }
    roce_qp_query(s->roce, wq->qpn, &attr);
    switch (req->state) {
    case FAKERNIC_WQS_RESET:
        fakernic_set_state(s, wq, FAKERNIC_QPS_RESET);
        wq->rq_pi = wq->rq_ci = 0;
        wq->rq_waits = 0;
        fakernic_gate_forget_qp(s, wq->qpn);
        break;
    case FAKERNIC_WQS_RDY:
        if (attr.state == FAKERNIC_QPS_ERR || fakernic_qp_is_mute(wq)) {
            return FAKERNIC_REFUSE(BAD_STATE, ModifyWqReq, state);
        }
        if (attr.state == FAKERNIC_QPS_RESET) {
            fakernic_set_receiving(s, wq);
        }
        break;
    case FAKERNIC_WQS_ERR:
        fakernic_set_state(s, wq, FAKERNIC_QPS_ERR);
        break;
    default:
        return FAKERNIC_REFUSE(BAD_PARAM, ModifyWqReq, state);
    }
    return FAKERNIC_VERDICT(FAKERNIC_CMD_OK);
}

/* ---- indirection tables ------------------------------------------------ */

/* Takes (1) or releases (-1) references to the WQs of a table. */
static void fakernic_ind_table_refer(FakernicState *s,
                                     const FakernicIndTable *table, int users)
{
    for (uint32_t i = 0; i < table->size; i++) {
        fakernic_wq(s, table->wqns[i])->entries += users;
    }
}

static FakernicVerdict fakernic_ind_table_read(FakernicState *s,
                                               const CreateIndTableReq *req,
                                               FakernicIndTable *table)
{
    table->users = 0;
    table->size = 1U << req->log_size;
    if (!fakernic_dma_read(s, le64_to_cpu(req->address), table->wqns,
                           table->size * sizeof(table->wqns[0]),
                           ROCE_WHY_CMD)) {
        return FAKERNIC_VERDICT(FAKERNIC_CMD_DMA_ERROR);
    }
    for (uint32_t i = 0; i < table->size; i++) {
        le32_to_cpus(&table->wqns[i]);
        if (!fakernic_wq(s, table->wqns[i])) {
            return FAKERNIC_REFUSE(BAD_ID, CreateIndTableReq, address);
        }
    }
    return FAKERNIC_VERDICT(FAKERNIC_CMD_OK);
}

FakernicVerdict fakernic_run_create_ind_table(FakernicState *s,
                                              const void *request,
                                              void *response)
{
    const CreateIndTableReq *req = request;
    struct fakernic_id *resp = response;
    FakernicIndTable *table;
    FakernicVerdict v;

    if (req->log_size > ctz32(FAKERNIC_MAX_IND_TABLE_SIZE)) {
        return FAKERNIC_REFUSE(BAD_PARAM, CreateIndTableReq, log_size);
    }
    if (le64_to_cpu(req->address) % sizeof(uint64_t)) {
        return FAKERNIC_REFUSE(BAD_PARAM, CreateIndTableReq, address);
    }
    if (fakernic_table_is_full(&s->ind_tables)) {
        return FAKERNIC_VERDICT(FAKERNIC_CMD_NO_RESOURCE);
    }
    table = g_new0(FakernicIndTable, 1);
    v = fakernic_ind_table_read(s, req, table);
    if (!fakernic_accepts(&v)) {
        g_free(table);
        return v;
    }
    fakernic_ind_table_refer(s, table, 1);
    resp->id = cpu_to_le32(fakernic_table_add(&s->ind_tables, table));
    return v;
}

FakernicVerdict fakernic_run_destroy_ind_table(FakernicState *s,
                                               const void *request,
                                               void *response)
{
    const struct fakernic_id *req = request;
    const uint32_t id = le32_to_cpu(req->id);
    FakernicIndTable *table = fakernic_table_get(&s->ind_tables, id);

    if (!table) {
        return FAKERNIC_REFUSE(BAD_ID, struct fakernic_id, id);
    }
    if (table->users) {
        return FAKERNIC_VERDICT(FAKERNIC_CMD_BUSY);
    }
    fakernic_ind_table_refer(s, table, -1);
    fakernic_table_remove(&s->ind_tables, id);
    g_free(table);
    return FAKERNIC_VERDICT(FAKERNIC_CMD_OK);
}

/* ---- RSS QPs ----------------------------------------------------------- */

static FakernicVerdict fakernic_check_create_rss_qp(FakernicState *s,
                                                    const CreateRssQpReq *req)
{
    if (!fakernic_pd(s, le32_to_cpu(req->pdn))) {
        return FAKERNIC_REFUSE(BAD_ID, CreateRssQpReq, pdn);
    }
    if (!fakernic_table_get(&s->ind_tables, le32_to_cpu(req->table))) {
        return FAKERNIC_REFUSE(BAD_ID, CreateRssQpReq, table);
    }
    if (le32_to_cpu(req->hash_fields) & ~FAKERNIC_HASH_FIELDS) {
        return FAKERNIC_REFUSE(BAD_PARAM, CreateRssQpReq, hash_fields);
    }
    if (req->hash_function != FAKERNIC_HASH_TOEPLITZ) {
        return FAKERNIC_REFUSE(BAD_PARAM, CreateRssQpReq, hash_function);
    }
    return FAKERNIC_VERDICT(FAKERNIC_CMD_OK);
}

FakernicVerdict fakernic_run_create_rss_qp(FakernicState *s,
                                           const void *request, void *response)
{
    const CreateRssQpReq *req = request;
    struct fakernic_id *resp = response;
    FakernicVerdict v = fakernic_check_create_rss_qp(s, req);
    RoceQpInit init = {
        .type = FAKERNIC_QP_RAW_PACKET,
        .pd = fakernic_pd_handle(s, le32_to_cpu(req->pdn)),
    };
    FakernicQp *qp;
    uint8_t status;

    if (!fakernic_accepts(&v)) {
        return v;
    }
    qp = g_new0(FakernicQp, 1);
    qp->type = FAKERNIC_QP_RAW_PACKET;
    qp->pdn = le32_to_cpu(req->pdn);
    qp->rss = g_new0(FakernicRss, 1);
    qp->rss->table = fakernic_table_get(&s->ind_tables,
                                        le32_to_cpu(req->table));
    qp->rss->fields = le32_to_cpu(req->hash_fields);
    memcpy(qp->rss->key, req->key, sizeof(qp->rss->key));
    status = fakernic_qp_add(s, qp, &init);
    if (status != FAKERNIC_CMD_OK) {
        return FAKERNIC_VERDICT(status);
    }
    fakernic_set_receiving(s, qp);
    resp->id = cpu_to_le32(qp->qpn);
    return FAKERNIC_VERDICT(FAKERNIC_CMD_OK);
}
