/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Commands on queue pairs and multicast groups (fakernic/cmdq.h, fakernic/qp.h;
 * IBTA 10.3, 11.2.4, 11.2.5). This file checks numbers and formats, and sets up
 * rings. The engine decides whether a QP may change its state with the given
 * attributes.
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "qemu/cutils.h"
#include "../queue/av.h"
#include "../clock.h"
#include "cmd.h"
#include "../port/rss.h"
#include "../memory.h"
#include "../queue/qp.h"
#include "../state.h"
#include "../fault/gate.h"
#include "../queue/eq.h"
#include "../queue/cq.h"
#include "../queue/ring.h"
#include "../queue/sq.h"
#include "../../trace.h"

typedef struct fakernic_create_qp_req CreateQpReq;

/* Memory windows of a destroyed QP that one turn unbinds. */
#define FAKERNIC_WINDOWS_PER_TURN 512

/* The feature bit of a QP type; 0: unknown type. */
static uint64_t fakernic_qp_type_feature(uint8_t type)
{
    switch (type) {
    case FAKERNIC_QP_RC:
        return FAKERNIC_FEATURE_RC;
    case FAKERNIC_QP_UC:
        return FAKERNIC_FEATURE_UC;
    case FAKERNIC_QP_UD:
    case FAKERNIC_QP_GSI:
        return FAKERNIC_FEATURE_UD;
    case FAKERNIC_QP_RAW_PACKET:
        return FAKERNIC_FEATURE_RAW_PACKET;
    case FAKERNIC_QP_XRC_INI:
    case FAKERNIC_QP_XRC_TGT:
        return FAKERNIC_FEATURE_XRC;
    default:
        return 0;
    }
}

/* Checks depths and strides, and that the fields of absent queues are zero. */
static FakernicVerdict fakernic_check_qp_queues(const CreateQpReq *req)
{
    const bool has_sq = req->sq_log_depth != FAKERNIC_QUEUE_NONE;
    const bool has_rq = req->rq_log_depth != FAKERNIC_QUEUE_NONE;

    if (has_sq && req->sq_log_depth > FAKERNIC_QUEUE_LOG_DEPTH_MAX) {
        return FAKERNIC_REFUSE(BAD_PARAM, CreateQpReq, sq_log_depth);
    }
    if (has_rq && req->rq_log_depth > FAKERNIC_QUEUE_LOG_DEPTH_MAX) {
        return FAKERNIC_REFUSE(BAD_PARAM, CreateQpReq, rq_log_depth);
    }
    if (has_rq ? req->rq_log_stride < FAKERNIC_RQ_LOG_STRIDE_MIN ||
                 req->rq_log_stride > FAKERNIC_RQ_LOG_STRIDE_MAX :
                 req->rq_log_stride) {
        return FAKERNIC_REFUSE(BAD_PARAM, CreateQpReq, rq_log_stride);
    }
    if (!has_sq && !fakernic_page_list_is_zero(&req->sq_pages)) {
        return FAKERNIC_REFUSE(BAD_PARAM, CreateQpReq, sq_pages);
    }
    if (!has_rq && !fakernic_page_list_is_zero(&req->rq_pages)) {
        return FAKERNIC_REFUSE(BAD_PARAM, CreateQpReq, rq_pages);
    }
    return FAKERNIC_VERDICT(FAKERNIC_CMD_OK);
}

/* An XRC target has no queues; each message's SRQ provides PD and CQ. */
static FakernicVerdict fakernic_check_xrc_target(FakernicState *s,
                                                 const CreateQpReq *req)
{
    static const size_t zero[] = {
        offsetof(CreateQpReq, pdn), offsetof(CreateQpReq, send_cqn),
        offsetof(CreateQpReq, recv_cqn), offsetof(CreateQpReq, srqn),
        offsetof(CreateQpReq, uar),
    };

    if (req->sq_log_depth != FAKERNIC_QUEUE_NONE) {
        return FAKERNIC_REFUSE(BAD_PARAM, CreateQpReq, sq_log_depth);
    }
    if (req->rq_log_depth != FAKERNIC_QUEUE_NONE) {
        return FAKERNIC_REFUSE(BAD_PARAM, CreateQpReq, rq_log_depth);
    }
    for (unsigned i = 0; i < ARRAY_SIZE(zero); i++) {
        if (!buffer_is_zero((const uint8_t *)req + zero[i], sizeof(uint32_t))) {
            return fakernic_refuse_at(FAKERNIC_CMD_BAD_PARAM, zero[i]);
        }
    }
    if (!fakernic_xrcd(s, le32_to_cpu(req->xrcdn))) {
        return FAKERNIC_REFUSE(BAD_ID, CreateQpReq, xrcdn);
    }
    return FAKERNIC_VERDICT(FAKERNIC_CMD_OK);
}

/* Checks the RQ or SRQ, and the CQ of receives. */
static FakernicVerdict fakernic_check_qp_receive(FakernicState *s,
                                                 const CreateQpReq *req)
{
    const uint32_t srqn = le32_to_cpu(req->srqn);
    const bool has_rq = req->rq_log_depth != FAKERNIC_QUEUE_NONE;
    const FakernicSrq *srq = fakernic_table_get(&s->srqs, srqn);
    uint8_t status;

    if (req->type == FAKERNIC_QP_XRC_INI) {
        if (has_rq) {
            return FAKERNIC_REFUSE(BAD_PARAM, CreateQpReq, rq_log_depth);
        }
        if (req->recv_cqn) {
            return FAKERNIC_REFUSE(BAD_PARAM, CreateQpReq, recv_cqn);
        }
        if (srqn) {
            return FAKERNIC_REFUSE(BAD_PARAM, CreateQpReq, srqn);
        }
        return FAKERNIC_VERDICT(FAKERNIC_CMD_OK);
    }
    status = fakernic_cq_check(s, le32_to_cpu(req->recv_cqn));
    if (status != FAKERNIC_CMD_OK) {
        return fakernic_refuse_at(status, offsetof(CreateQpReq, recv_cqn));
    }
    if (srqn && !srq) {
        return FAKERNIC_REFUSE(BAD_ID, CreateQpReq, srqn);
    }
    if (srqn && (has_rq || srq->cq || req->type == FAKERNIC_QP_RAW_PACKET)) {
        return FAKERNIC_REFUSE(BAD_PARAM, CreateQpReq, srqn);
    }
    return FAKERNIC_VERDICT(FAKERNIC_CMD_OK);
}

static FakernicVerdict fakernic_check_qp_ids(FakernicState *s,
                                             const CreateQpReq *req)
{
    uint8_t status;

    if (req->type == FAKERNIC_QP_XRC_TGT) {
        return fakernic_check_xrc_target(s, req);
    }
    if (!fakernic_pd(s, le32_to_cpu(req->pdn))) {
        return FAKERNIC_REFUSE(BAD_ID, CreateQpReq, pdn);
    }
    status = fakernic_cq_check(s, le32_to_cpu(req->send_cqn));
    if (status != FAKERNIC_CMD_OK) {
        return fakernic_refuse_at(status, offsetof(CreateQpReq, send_cqn));
    }
    if (req->xrcdn) {
        return FAKERNIC_REFUSE(BAD_PARAM, CreateQpReq, xrcdn);
    }
    if (!fakernic_uar_exists(s, le32_to_cpu(req->uar))) {
        return FAKERNIC_REFUSE(BAD_ID, CreateQpReq, uar);
    }
    return fakernic_check_qp_receive(s, req);
}

void fakernic_qp_free(FakernicState *s, FakernicQp *qp)
{
    fakernic_sq_forget(s, qp);
    fakernic_ring_free(s, &qp->sq);
    fakernic_ring_free(s, &qp->rq);
    fakernic_memory_give(s, qp->memory);
    g_free(qp->rss);
    g_free(qp);
}

static FakernicVerdict fakernic_qp_rings(FakernicState *s, FakernicQp *qp,
                                         const CreateQpReq *req)
{
    uint8_t status;

    if (req->sq_log_depth != FAKERNIC_QUEUE_NONE) {
        status = fakernic_ring_init(s, &qp->sq, &req->sq_pages,
                                    req->sq_log_depth, FAKERNIC_SQ_BB_SHIFT,
                                    ROCE_WHY_WQE);
        if (status != FAKERNIC_CMD_OK) {
            return fakernic_page_list_verdict(status,
                                              offsetof(CreateQpReq, sq_pages));
        }
    }
    if (req->rq_log_depth != FAKERNIC_QUEUE_NONE) {
        status = fakernic_ring_init(s, &qp->rq, &req->rq_pages,
                                    req->rq_log_depth, req->rq_log_stride,
                                    ROCE_WHY_WQE);
        if (status != FAKERNIC_CMD_OK) {
            return fakernic_page_list_verdict(status,
                                              offsetof(CreateQpReq, rq_pages));
        }
    }
    return FAKERNIC_VERDICT(FAKERNIC_CMD_OK);
}

/* The flags that a QP of this type may have with the negotiated features. */
static uint8_t fakernic_qp_flags(const FakernicState *s, uint8_t type)
{
    return type == FAKERNIC_QP_UD &&
           s->driver_features & FAKERNIC_FEATURE_BLOCK_MCAST_LB ?
           FAKERNIC_QP_BLOCK_MCAST_LB : 0;
}

/* Takes (1) or releases (-1) references to the objects that the QP uses. */
static void fakernic_qp_refer(FakernicState *s, FakernicQp *qp, int users)
{
    if (qp->xrcdn) {
        fakernic_xrcd(s, qp->xrcdn)->users += users;
        return;
    }
    fakernic_pd(s, qp->pdn)->users += users;
    if (qp->srq) {
        qp->srq->users += users;
    }
    if (qp->rss) {
        qp->rss->table->users += users;
    }
    fakernic_uar_use(s, qp->uar, users);
}

/*
 * Host memory of a QP in the device and the engine, without its rings. With an
 * SQ, it includes the page list of a REG_MR that waits.
 */
static uint64_t fakernic_qp_memory(FakernicState *s, const FakernicQp *qp,
                                   const RoceQpInit *init)
{
    return sizeof(*qp) + (qp->rss ? sizeof(*qp->rss) : 0) +
           roce_qp_memory(s->roce, init) +
           (qp->sq.pages ? FAKERNIC_MAX_FAST_REG_PAGES * sizeof(uint64_t) : 0);
}

uint8_t fakernic_qp_add(FakernicState *s, FakernicQp *qp,
                        const RoceQpInit *init)
{
    const uint64_t memory = fakernic_qp_memory(s, qp, init);
    uint8_t status = FAKERNIC_CMD_NO_RESOURCE;

    if (fakernic_memory_take(s, memory)) {
        qp->memory = memory;
        status = roce_qp_create(s->roce, init, &qp->qpn);
    }
    if (status != FAKERNIC_CMD_OK) {
        fakernic_qp_free(s, qp);
        return status;
    }
    assert(qp->qpn < s->max_qp && !s->qps[qp->qpn]);
    qp->async.id = qp->qpn;
    s->qps[qp->qpn] = qp;
    fakernic_qp_refer(s, qp, 1);
    qp->send_user.qp = qp->recv_user.qp = qp;
    fakernic_cq_join(qp->send_cq, &qp->send_user);
    fakernic_cq_join(qp->recv_cq, &qp->recv_user);
    return FAKERNIC_CMD_OK;
}

void fakernic_qp_remove(FakernicState *s, FakernicQp *qp)
{
    fakernic_sq_end(s, qp);
    roce_qp_destroy(s->roce, qp->qpn);
    fakernic_gate_forget_qp(s, qp->qpn);
    fakernic_event_forget(s, NULL, &qp->async);
    fakernic_qp_refer(s, qp, -1);
    fakernic_cq_leave(qp->send_cq, &qp->send_user);
    fakernic_cq_leave(qp->recv_cq, &qp->recv_user);
    s->qps[qp->qpn] = NULL;
    fakernic_qp_free(s, qp);
}

FakernicVerdict fakernic_run_create_qp(FakernicState *s, const void *request,
                                       void *response)
{
    const CreateQpReq *req = request;
    struct fakernic_id *resp = response;
    const uint64_t feature = fakernic_qp_type_feature(req->type);
    FakernicVerdict v;
    FakernicQp *qp;
    RoceQpInit init;
    uint8_t status;

    if (!feature) {
        return FAKERNIC_REFUSE(BAD_PARAM, CreateQpReq, type);
    }
    if (!(s->driver_features & feature) ||
        (req->srqn && !(s->driver_features & FAKERNIC_FEATURE_SRQ))) {
        return FAKERNIC_VERDICT(FAKERNIC_CMD_UNSUPPORTED);
    }
    if (req->flags & ~fakernic_qp_flags(s, req->type)) {
        return FAKERNIC_REFUSE(BAD_PARAM, CreateQpReq, flags);
    }
    v = fakernic_check_qp_queues(req);
    if (fakernic_accepts(&v)) {
        v = fakernic_check_qp_ids(s, req);
    }
    if (!fakernic_accepts(&v)) {
        return v;
    }
    qp = g_new0(FakernicQp, 1);
    qp->type = req->type;
    qp->pdn = le32_to_cpu(req->pdn);
    qp->xrcdn = le32_to_cpu(req->xrcdn);
    qp->uar = le32_to_cpu(req->uar);
    qp->send_cq = fakernic_table_get(&s->cqs, le32_to_cpu(req->send_cqn));
    qp->recv_cq = fakernic_table_get(&s->cqs, le32_to_cpu(req->recv_cqn));
    qp->srq = fakernic_table_get(&s->srqs, le32_to_cpu(req->srqn));
    v = fakernic_qp_rings(s, qp, req);
    if (!fakernic_accepts(&v)) {
        fakernic_qp_free(s, qp);
        return v;
    }
    init = (RoceQpInit) {
        .type = qp->type,
        .has_sq = qp->sq.pages,
        .has_rq = qp->rq.pages,
        .pd = fakernic_pd_handle(s, qp->pdn),
        .send_cqn = le32_to_cpu(req->send_cqn),
        .recv_cqn = le32_to_cpu(req->recv_cqn),
        .srqn = le32_to_cpu(req->srqn),
        .xrcdn = qp->xrcdn,
        .block_mcast_lb = req->flags & FAKERNIC_QP_BLOCK_MCAST_LB,
    };
    status = fakernic_qp_add(s, qp, &init);
    if (status != FAKERNIC_CMD_OK) {
        return FAKERNIC_VERDICT(status);
    }
    resp->id = cpu_to_le32(qp->qpn);
    return FAKERNIC_VERDICT(FAKERNIC_CMD_OK);
}

FakernicVerdict fakernic_run_destroy_qp(FakernicState *s, const void *request,
                                        void *response)
{
    const struct fakernic_id *req = request;
    FakernicQp *qp = fakernic_qp(s, le32_to_cpu(req->id));

    if (!qp) {
        return FAKERNIC_REFUSE(BAD_ID, struct fakernic_id, id);
    }
    if (qp->flows) {
        return FAKERNIC_VERDICT(FAKERNIC_CMD_BUSY);
    }
    if (!roce_qp_unbind(s->roce, qp->qpn, FAKERNIC_WINDOWS_PER_TURN)) {
        return FAKERNIC_VERDICT(FAKERNIC_CMD_LATER);
    }
    if (s->port_qpn == qp->qpn) {
        s->port_qpn = 0;
    }
    if (qp->counter) {
        qp->counter->users--;
    }
    fakernic_qp_remove(s, qp);
    return FAKERNIC_VERDICT(FAKERNIC_CMD_OK);
}

static void fakernic_qp_attr_decode(RoceQpAttr *attr,
                                    const struct fakernic_qp_attr *from)
{
    *attr = (RoceQpAttr) {
        .state = from->state,
        .cur_state = from->cur_state,
        .path_mtu = from->path_mtu,
        .path_mig_state = from->path_mig_state,
        .qkey = le32_to_cpu(from->qkey),
        .rq_psn = le32_to_cpu(from->rq_psn),
        .sq_psn = le32_to_cpu(from->sq_psn),
        .dest_qpn = le32_to_cpu(from->dest_qpn),
        .access_flags = le32_to_cpu(from->access_flags),
        .pkey_index = le16_to_cpu(from->pkey_index),
        .alt_pkey_index = le16_to_cpu(from->alt_pkey_index),
        .port = from->port,
        .alt_port = from->alt_port,
        .max_rd_atomic = from->max_rd_atomic,
        .max_dest_rd_atomic = from->max_dest_rd_atomic,
        .min_rnr_timer = from->min_rnr_timer,
        .timeout = from->timeout,
        .retry_cnt = from->retry_cnt,
        .rnr_retry = from->rnr_retry,
        .alt_timeout = from->alt_timeout,
        .sqd_async_notify = from->sqd_async_notify,
        .rate_limit_kbps = le32_to_cpu(from->rate_limit_kbps),
    };
    attr->av = fakernic_av_decode(&from->av);
    attr->alt_av = fakernic_av_decode(&from->alt_av);
}

static void fakernic_qp_attr_encode(struct fakernic_qp_attr *to,
                                    const RoceQpAttr *attr)
{
    *to = (struct fakernic_qp_attr) {
        .state = attr->state,
        .cur_state = attr->cur_state,
        .path_mtu = attr->path_mtu,
        .path_mig_state = attr->path_mig_state,
        .qkey = cpu_to_le32(attr->qkey),
        .rq_psn = cpu_to_le32(attr->rq_psn),
        .sq_psn = cpu_to_le32(attr->sq_psn),
        .dest_qpn = cpu_to_le32(attr->dest_qpn),
        .access_flags = cpu_to_le32(attr->access_flags),
        .pkey_index = cpu_to_le16(attr->pkey_index),
        .alt_pkey_index = cpu_to_le16(attr->alt_pkey_index),
        .port = attr->port,
        .alt_port = attr->alt_port,
        .max_rd_atomic = attr->max_rd_atomic,
        .max_dest_rd_atomic = attr->max_dest_rd_atomic,
        .min_rnr_timer = attr->min_rnr_timer,
        .timeout = attr->timeout,
        .retry_cnt = attr->retry_cnt,
        .rnr_retry = attr->rnr_retry,
        .alt_timeout = attr->alt_timeout,
        .sqd_async_notify = attr->sqd_async_notify,
        .sq_draining = attr->sq_draining,
        .rate_limit_kbps = cpu_to_le32(attr->rate_limit_kbps),
    };
    to->av = fakernic_av_encode(&attr->av);
    to->alt_av = fakernic_av_encode(&attr->alt_av);
}

/* The offset in the request of the attribute of a FAKERNIC_QP_ATTR_* bit. */
static uint32_t fakernic_qp_attr_offset(uint32_t bit)
{
    static const struct {
        uint32_t bit;
        uint32_t offset;
    } places[] = {
#define PLACE(name, field) \
        { FAKERNIC_QP_ATTR_ ## name, \
          offsetof(struct fakernic_modify_qp_req, attr.field) }
        PLACE(STATE, state),
        PLACE(CUR_STATE, cur_state),
        PLACE(SQD_ASYNC_NOTIFY, sqd_async_notify),
        PLACE(ACCESS_FLAGS, access_flags),
        PLACE(PKEY_INDEX, pkey_index),
        PLACE(PORT, port),
        PLACE(QKEY, qkey),
        PLACE(AV, av),
        PLACE(PATH_MTU, path_mtu),
        PLACE(TIMEOUT, timeout),
        PLACE(RETRY_CNT, retry_cnt),
        PLACE(RNR_RETRY, rnr_retry),
        PLACE(RQ_PSN, rq_psn),
        PLACE(MAX_RD_ATOMIC, max_rd_atomic),
        PLACE(ALT_PATH, alt_av),
        PLACE(MIN_RNR_TIMER, min_rnr_timer),
        PLACE(SQ_PSN, sq_psn),
        PLACE(MAX_DEST_RD_ATOMIC, max_dest_rd_atomic),
        PLACE(PATH_MIG_STATE, path_mig_state),
        PLACE(DEST_QPN, dest_qpn),
        PLACE(RATE_LIMIT, rate_limit_kbps),
#undef PLACE
    };

    for (unsigned i = 0; i < ARRAY_SIZE(places); i++) {
        if (places[i].bit & bit) {
            return places[i].offset;
        }
    }
    return offsetof(struct fakernic_modify_qp_req, attr.state);
}

/* Finds an attribute that needs a feature not negotiated, or exceeds a limit
 * that the device reports; 0: none does. */
static uint32_t fakernic_qp_attr_beyond(FakernicState *s, uint32_t mask,
                                        const RoceQpAttr *attr)
{
    if (!(s->driver_features & FAKERNIC_FEATURE_APM)) {
        if (mask & FAKERNIC_QP_ATTR_ALT_PATH) {
            return FAKERNIC_QP_ATTR_ALT_PATH;
        }
        if ((mask & FAKERNIC_QP_ATTR_PATH_MIG_STATE) &&
            attr->path_mig_state != FAKERNIC_MIG_MIGRATED) {
            return FAKERNIC_QP_ATTR_PATH_MIG_STATE;
        }
    }
    if ((mask & FAKERNIC_QP_ATTR_RATE_LIMIT) &&
        (!(s->driver_features & FAKERNIC_FEATURE_RATE_LIMIT) ||
         attr->rate_limit_kbps > s->speed_mbps * 1000)) {
        return FAKERNIC_QP_ATTR_RATE_LIMIT;
    }
    return 0;
}

bool fakernic_qp_is_mute(const FakernicQp *qp)
{
    return (qp->send_cq && qp->send_cq->error) ||
           (qp->recv_cq && qp->recv_cq->error);
}

FakernicVerdict fakernic_run_modify_qp(FakernicState *s, const void *request,
                                       void *response)
{
    const struct fakernic_modify_qp_req *req = request;
    const uint32_t mask = le32_to_cpu(req->mask);
    FakernicQp *qp = fakernic_qp(s, le32_to_cpu(req->qpn));
    uint32_t bad_field = 0;
    RoceQpAttr attr;
    uint8_t status;
    bool begins;

    if (!qp) {
        return FAKERNIC_REFUSE(BAD_ID, struct fakernic_modify_qp_req, qpn);
    }
    fakernic_qp_attr_decode(&attr, &req->attr);
    bad_field = fakernic_qp_attr_beyond(s, mask, &attr);
    begins = (mask & FAKERNIC_QP_ATTR_STATE) &&
             attr.state == FAKERNIC_QPS_INIT;
    status = bad_field ? FAKERNIC_CMD_BAD_PARAM :
             begins && fakernic_qp_is_mute(qp) ? FAKERNIC_CMD_BAD_STATE :
             roce_qp_modify(s->roce, fakernic_now(), qp->qpn, mask, &attr,
                            &bad_field);
    trace_fakernic_modify_qp(s->name, qp->qpn, mask, attr.state, status,
                             bad_field);
    if (status != FAKERNIC_CMD_OK) {
        bool is_bad = status == FAKERNIC_CMD_BAD_PARAM ||
                      status == FAKERNIC_CMD_BAD_STATE ||
                      status == FAKERNIC_CMD_BAD_ID;

        return (FakernicVerdict) {
            .status = status,
            .detail = is_bad ? offsetof(struct fakernic_cmd, payload) +
                               fakernic_qp_attr_offset(bad_field) : 0,
        };
    }
    if ((mask & FAKERNIC_QP_ATTR_STATE) && attr.state == FAKERNIC_QPS_RESET) {
        /* All work requests are discarded; the rings start at 0 again. */
        fakernic_sq_end(s, qp);
        fakernic_sq_forget(s, qp);
        qp->sq_pi = qp->sq_ci = 0;
        qp->sq_streams = false;
        qp->rq_pi = qp->rq_ci = 0;
        qp->sq_waits = qp->rq_waits = 0;
        fakernic_gate_forget_qp(s, qp->qpn);
    } else if (qp->sq_pi != qp->sq_ci) {
        roce_post_send(s->roce, fakernic_now(), qp->qpn);
    }
    return FAKERNIC_VERDICT(FAKERNIC_CMD_OK);
}

FakernicVerdict fakernic_run_query_qp(FakernicState *s, const void *request,
                                      void *response)
{
    const struct fakernic_id *req = request;
    const uint32_t qpn = le32_to_cpu(req->id);
    RoceQpAttr attr;

    if (!fakernic_qp(s, qpn)) {
        return FAKERNIC_REFUSE(BAD_ID, struct fakernic_id, id);
    }
    memset(&attr, 0, sizeof(attr));
    if (roce_qp_query(s->roce, qpn, &attr) != FAKERNIC_CMD_OK) {
        return FAKERNIC_REFUSE(BAD_ID, struct fakernic_id, id);
    }
    fakernic_qp_attr_encode(response, &attr);
    return FAKERNIC_VERDICT(FAKERNIC_CMD_OK);
}

static FakernicVerdict
fakernic_check_mcast(FakernicState *s, const struct fakernic_mcast_req *req)
{
    FakernicQp *qp = fakernic_qp(s, le32_to_cpu(req->qpn));

    if (!qp) {
        return FAKERNIC_REFUSE(BAD_ID, struct fakernic_mcast_req, qpn);
    }
    if (qp->type != FAKERNIC_QP_UD) {
        return FAKERNIC_REFUSE(BAD_PARAM, struct fakernic_mcast_req, qpn);
    }
    return FAKERNIC_VERDICT(FAKERNIC_CMD_OK);
}

FakernicVerdict fakernic_run_attach_mcast(FakernicState *s,
                                          const void *request, void *response)
{
    const struct fakernic_mcast_req *req = request;
    FakernicVerdict v = fakernic_check_mcast(s, req);

    if (fakernic_accepts(&v)) {
        v.status = roce_mcast_attach(s->roce, req->gid, le32_to_cpu(req->qpn));
    }
    if (v.status == FAKERNIC_CMD_BAD_PARAM && !v.detail) {
        return FAKERNIC_REFUSE(BAD_PARAM, struct fakernic_mcast_req, gid);
    }
    return v;
}

FakernicVerdict fakernic_run_detach_mcast(FakernicState *s,
                                          const void *request, void *response)
{
    const struct fakernic_mcast_req *req = request;
    FakernicVerdict v = fakernic_check_mcast(s, req);

    if (fakernic_accepts(&v)) {
        v.status = roce_mcast_detach(s->roce, req->gid, le32_to_cpu(req->qpn));
    }
    return v;
}
