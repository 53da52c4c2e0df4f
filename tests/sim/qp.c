/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Queue pairs of a fake host: creation, connection, states, posting.
 */
#include "sim.h"

bool qp_is_reliable(const SimQp *qp)
{
    return qp->type == FAKERNIC_QP_RC || qp->type == FAKERNIC_QP_XRC_INI;
}

uint32_t mtu_bytes(uint8_t mtu)
{
    return 128u << mtu;
}

SimQp *host_find_qp(Host *h, uint32_t qpn)
{
    World *w = h->world;

    /* The newest first, as it may have the number of an older one. */
    for (uint32_t i = w->qp_count; i; i--) {
        SimQp *qp = &w->qp[i - 1];

        if (qp->qpn == qpn && qp->host == h && !qp->unborn) {
            return qp;
        }
    }
    return NULL;
}

SimRq *host_rq_new(Host *h, bool shared)
{
    World *w = h->world;
    SimRq *rq = &w->rq[w->rq_count++];

    rq->host = h;
    rq->srqn = shared ? 70 + w->rq_count : 0;
    rq->tag_base = (uint32_t)rng_next(&w->rng);
    rq->pd = SIM_PD;
    return rq;
}

SimRq *host_rq_xrc(Host *h, unsigned number)
{
    if (!h->xrc[number]) {
        SimRq *rq = host_rq_new(h, true);

        rq->xrc = true;
        rq->pd = number ? SIM_PD_XRC : SIM_PD;
        rq->cqn = h->next_cqn++;
        h->xrc[number] = rq;
    }
    return h->xrc[number];
}

SimQp *host_qp_unborn(Host *h, uint8_t type, SimRq *rq)
{
    World *w = h->world;
    SimQp *qp = &w->qp[w->qp_count++];

    *qp = (SimQp){ .world = w, .host = h, .type = type, .rq = rq, .pd = SIM_PD,
                   .unborn = true, .silent = true };
    qp->mtu = (uint8_t)(w->options.mtu ? w->options.mtu
                                       : rng_range(&w->rng, 1, 5));
    qp->gid_index = (uint16_t)rng_below(&w->rng, 2) +
                    (rng_pct(&w->rng, w->options.vlan_pct) ? 2 : 0);
    /* The application makes the QP ECN-capable. */
    if (rng_pct(&w->rng, w->options.ect_pct)) {
        qp->traffic_class = (uint8_t)(rng_below(&w->rng, 64) << 2 |
                                      rng_range(&w->rng, 1, 2));
    }
    if (rng_pct(&w->rng, w->options.static_rate_pct)) {
        qp->static_rate = (uint8_t)rng_range(&w->rng, 2, 7);
    }
    if (type != FAKERNIC_QP_GSI && type != FAKERNIC_QP_XRC_TGT &&
        rng_pct(&w->rng, w->options.limit_pct)) {
        qp->limit_kbps = rng_range(&w->rng, w->options.limit_mbps,
                                   w->options.limit_mbps * 20) * 1000;
    }
    return qp;
}

/* Mostly just before the wrap. */
static uint32_t first_psn(World *w)
{
    if (w->options.psn) {
        return w->options.psn;
    }
    if (w->options.wrap && w->qp_count == 1) {
        return 0xffffff;
    }
    return rng_pct(&w->rng, 80) ? 0xffffff - rng_below(&w->rng, 12)
                                : (uint32_t)rng_next(&w->rng) & 0xffffff;
}

SimQp *host_qp_new(Host *h, uint8_t type, SimRq *rq)
{
    World *w = h->world;
    SimQp *qp = host_qp_unborn(h, type, rq);
    bool xrc = type >= FAKERNIC_QP_XRC_INI;
    bool target = type == FAKERNIC_QP_XRC_TGT;
    RoceQpInit init = { .type = type, .has_sq = !target,
                        .has_rq = !rq->srqn && !xrc,
                        .srqn = xrc ? 0 : rq->srqn, .pd = SIM_PD };
    int status;

    /* A target's own PD has no keys, as the SRQ's PD counts (IBTA A14). */
    if (target) {
        init.pd = SIM_PD_OTHER;
        init.xrcdn = SIM_XRCD;
    }

    qp->send_cqn = init.send_cqn = h->next_cqn++;
    qp->recv_cqn = init.recv_cqn =
        rng_pct(&w->rng, 50) ? h->next_cqn++ : init.send_cqn;
    qp->sq_psn = first_psn(w);
    qp->unborn = qp->silent = false;
    qp->alive = true;
    status = roce_qp_create(h->roce, &init, &qp->qpn);
    if (status != FAKERNIC_CMD_OK) {
        world_fail(w, "roce_qp_create type %u: %d", type, status);
    }
    return qp;
}

static void host_modify(SimQp *qp, uint32_t mask, const RoceQpAttr *attr)
{
    World *w = qp->world;
    uint32_t bad = 0;
    int status = roce_qp_modify(qp->host->roce, w->now, qp->qpn, mask, attr,
                                &bad);

    if (status != FAKERNIC_CMD_OK) {
        world_fail(w, "roce_qp_modify to %u: status %d, bad field %x",
                   attr->state, status, bad);
    }
    world_pump(w, qp->host);
}

int host_modify_state(SimQp *qp, uint8_t state)
{
    RoceQpAttr attr = { .state = state };
    uint32_t bad = 0;
    int status;

    qp->ending = state == FAKERNIC_QPS_RESET;
    status = roce_qp_modify(qp->host->roce, qp->world->now, qp->qpn,
                            FAKERNIC_QP_ATTR_STATE, &attr, &bad);
    world_log(qp->world, qp->host->number, LOG_MODIFY, qp->qpn, state,
              (uint32_t)status, 0, 0);
    if (qp->ending) {
        model_recv_ended(qp);
    }
    qp->ending = false;
    return status;
}

bool host_qp_armed(SimQp *qp)
{
    RoceQpAttr attr = { .state = 0 };

    return qp->alive && !qp->silent &&
           !roce_qp_query(qp->host->roce, qp->qpn, &attr) &&
           attr.state == FAKERNIC_QPS_RTS &&
           attr.path_mig_state == FAKERNIC_MIG_ARMED;
}

static void host_connect_raw(SimQp *qp)
{
    RoceQpAttr attr = { .state = FAKERNIC_QPS_INIT, .port = 1 };

    host_modify(qp, (uint32_t)(FAKERNIC_QP_ATTR_STATE | FAKERNIC_QP_ATTR_PORT),
                &attr);
    attr.state = FAKERNIC_QPS_RTR;
    host_modify(qp, FAKERNIC_QP_ATTR_STATE, &attr);
    attr.state = FAKERNIC_QPS_RTS;
    attr.rate_limit_kbps = qp->limit_kbps;
    host_modify(qp, (uint32_t)(FAKERNIC_QP_ATTR_STATE |
                               (qp->limit_kbps ? FAKERNIC_QP_ATTR_RATE_LIMIT
                                               : 0)), &attr);
}

static void host_connect_datagram(SimQp *qp)
{
    RoceQpAttr attr = { .state = FAKERNIC_QPS_INIT, .port = 1,
                        .sq_psn = qp->sq_psn,
                        .rate_limit_kbps = qp->limit_kbps,
                        .qkey = qp->type == FAKERNIC_QP_GSI ? 0x80010000u
                                                            : SIM_QKEY };

    if (qp->type == FAKERNIC_QP_RAW_PACKET) {
        host_connect_raw(qp);
        return;
    }
    qp->mtu = FAKERNIC_MTU_4096;
    host_modify(qp, (uint32_t)(FAKERNIC_QP_ATTR_STATE | FAKERNIC_QP_ATTR_PORT |
                               FAKERNIC_QP_ATTR_PKEY_INDEX |
                               FAKERNIC_QP_ATTR_QKEY), &attr);
    attr.state = FAKERNIC_QPS_RTR;
    host_modify(qp, FAKERNIC_QP_ATTR_STATE, &attr);
    attr.state = FAKERNIC_QPS_RTS;
    host_modify(qp, (uint32_t)(FAKERNIC_QP_ATTR_STATE |
                               FAKERNIC_QP_ATTR_SQ_PSN |
                               (qp->limit_kbps ? FAKERNIC_QP_ATTR_RATE_LIMIT
                                               : 0)), &attr);
}

void host_connect(SimQp *qp, SimQp *peer, uint32_t rq_psn)
{
    const SimOptions *o = &qp->world->options;
    bool target = qp->type == FAKERNIC_QP_XRC_TGT;
    bool asks = qp_is_reliable(qp), answers = qp->type == FAKERNIC_QP_RC ||
                                              qp->type == FAKERNIC_QP_XRC_TGT;
    RoceQpAttr attr = {
        .state = FAKERNIC_QPS_INIT, .port = 1, .path_mtu = qp->mtu,
        .rq_psn = rq_psn, .sq_psn = qp->sq_psn,
        .max_rd_atomic = (uint8_t)o->rd_atomic,
        .max_dest_rd_atomic = (uint8_t)o->rd_atomic,
        .rate_limit_kbps = qp->limit_kbps,
        .min_rnr_timer = (uint8_t)o->rnr_timer,
        .timeout = (uint8_t)o->timeout, .retry_cnt = (uint8_t)o->retry_cnt,
        .rnr_retry = (uint8_t)o->rnr_retry,
        .access_flags = (uint32_t)(FAKERNIC_ACCESS_REMOTE_WRITE |
                                   FAKERNIC_ACCESS_REMOTE_READ |
                                   FAKERNIC_ACCESS_REMOTE_ATOMIC |
                                   FAKERNIC_ACCESS_FLUSH_GLOBAL |
                                   FAKERNIC_ACCESS_FLUSH_PERSISTENT),
    };

    if (!peer) {
        host_connect_datagram(qp);
        return;
    }
    if (qp->type == FAKERNIC_QP_UC) {
        attr.access_flags = (uint32_t)FAKERNIC_ACCESS_REMOTE_WRITE;
    }
    ledger_open(qp);
    qp->rd_atomic = o->rd_atomic;
    qp->migrated = qp->conn->cut[0] = qp->conn->cut[1] = false;
    attr.alt_port = 1;
    attr.alt_timeout = (uint8_t)o->timeout;
    attr.path_mig_state = FAKERNIC_MIG_REARM;
    host_build_path(qp, peer, qp->gid_index ^ 2, &attr.alt_av);
    attr.dest_qpn = peer->qpn;
    host_build_path(qp, peer, qp->gid_index, &attr.av);
    host_modify(qp, (uint32_t)(FAKERNIC_QP_ATTR_STATE | FAKERNIC_QP_ATTR_PORT |
                               FAKERNIC_QP_ATTR_PKEY_INDEX |
                               FAKERNIC_QP_ATTR_ACCESS_FLAGS), &attr);
    attr.state = FAKERNIC_QPS_RTR;
    host_modify(qp, (uint32_t)(FAKERNIC_QP_ATTR_STATE | FAKERNIC_QP_ATTR_AV |
                               FAKERNIC_QP_ATTR_PATH_MTU |
                               FAKERNIC_QP_ATTR_DEST_QPN |
                               FAKERNIC_QP_ATTR_RQ_PSN |
                               (answers ? FAKERNIC_QP_ATTR_MAX_DEST_RD_ATOMIC |
                                     FAKERNIC_QP_ATTR_MIN_RNR_TIMER : 0)),
                &attr);
    attr.state = FAKERNIC_QPS_RTS;
    host_modify(qp, (uint32_t)(FAKERNIC_QP_ATTR_STATE |
                               (target ? 0 : FAKERNIC_QP_ATTR_SQ_PSN) |
                               (qp->apm ? FAKERNIC_QP_ATTR_ALT_PATH |
                                          FAKERNIC_QP_ATTR_PATH_MIG_STATE
                                        : 0) |
                               (qp->limit_kbps && !target
                                ? FAKERNIC_QP_ATTR_RATE_LIMIT : 0) |
                               (asks ? FAKERNIC_QP_ATTR_TIMEOUT |
                                     FAKERNIC_QP_ATTR_RETRY_CNT |
                                     FAKERNIC_QP_ATTR_RNR_RETRY |
                                     FAKERNIC_QP_ATTR_MAX_RD_ATOMIC : 0)),
                &attr);
}

void host_qp_destroy(SimQp *qp)
{
    int status;

    qp->ending = true;
    status = roce_qp_destroy(qp->host->roce, qp->qpn);
    world_log(qp->world, qp->host->number, LOG_MODIFY, qp->qpn, 99,
              (uint32_t)status, 0, 0);
    if (status != FAKERNIC_CMD_OK) {
        world_fail(qp->world, "roce_qp_destroy: %d", status);
    }
    model_recv_ended(qp);
    qp->ending = false;
    qp->alive = false;
    qp->silent = true;
}

/* Whether a send may be posted. It does not wait for a queue that has ended. */
static bool host_gate_open(const SimSend *s)
{
    return !s->after || s->after->done > s->after_index || s->after->silent ||
           s->after->sq_broken;
}

void host_post_send(SimQp *qp, uint32_t count)
{
    World *w = qp->world;

    qp->gated = false;
    for (uint32_t i = 0; i < count && qp->posted < qp->life_end; i++) {
        const SimSend *s = &qp->send[qp->posted];

        if (!host_gate_open(s)) {
            qp->gated = true;
            break;
        }
        world_log(w, qp->host->number, LOG_POST_SEND, qp->qpn, qp->posted,
                  s->length, s->opcode, s->flags);
        qp->posted++;
    }
    if (qp->alive && !qp->silent) {
        roce_post_send(qp->host->roce, w->now, qp->qpn);
        world_pump(w, qp->host);
    }
}

void host_post_recv(SimRq *rq, uint32_t count)
{
    if (count > rq->count - rq->posted) {
        count = rq->count - rq->posted;
    }
    rq->posted += count;
    world_log(rq->host->world, rq->host->number, LOG_POST_RECV, rq->srqn,
              rq->posted, count, 0, 0);
}
