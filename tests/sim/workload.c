/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Random programs for all queue pairs of a world, and their connections.
 */
#include <string.h>

#include "sim.h"

#define EXTRA_RECVS 3
#define SPARE 2

/* ---- planned errors ------------------------------------------------------ */

bool workload_error_fits(const SimQp *qp, const SimSend *s, SimError e)
{
    bool one_sided = s->zone != NULL;

    switch (e) {
    case SIM_ERR_RKEY_INDEX:
    case SIM_ERR_RKEY_TAG:
    case SIM_ERR_RKEY_PD:
    case SIM_ERR_ACCESS:
        return one_sided && s->length && !s->shared;
    case SIM_ERR_BOUNDS:
        return one_sided && !(s->flush & FAKERNIC_FLUSH_LEVEL_MR) &&
               s->length && !s->shared &&
               !opcode_is_atomic(s->opcode) &&
               s->opcode != FAKERNIC_SQ_ATOMIC_WRITE &&
               !(s->opcode == FAKERNIC_SQ_FLUSH && s->zone->implicit);
    case SIM_ERR_ALIGN:
        return opcode_is_atomic(s->opcode) && !s->shared;
    case SIM_ERR_XRC_SRQ:
        return s->xrc && (one_sided || opcode_is_send(s->opcode));
    case SIM_ERR_LKEY:
    case SIM_ERR_LBOUNDS:
        return s->length && s->opcode != FAKERNIC_SQ_FLUSH &&
               !(s->flags & FAKERNIC_SQ_INLINE) &&
               s->sge[s->sge_count - 1].length;
    case SIM_ERR_FORMAT:
        return true;
    case SIM_ERR_RECV_SMALL:
    case SIM_ERR_RECV_LKEY:
        return opcode_is_send(s->opcode) && s->length &&
               !qp->peer->rq->srqn;
    /* FLUSH for visibility succeeds with the pages that are present. */
    case SIM_ERR_PAGES:
        return one_sided && s->length && !s->shared &&
               s->opcode != FAKERNIC_SQ_FLUSH;
    case SIM_ERR_LPAGES:
        return workload_error_fits(qp, s, SIM_ERR_LKEY);
    case SIM_ERR_RECV_PAGES:
        return workload_error_fits(qp, s, SIM_ERR_RECV_LKEY);
    default:
        return false;
    }
}

static void plan_error(World *w, SimConn *conn)
{
    SimQp *qp = conn->side[rng_below(&w->rng, 2)];

    for (unsigned tries = 0; tries < 20 && qp->send_count; tries++) {
        uint32_t i = rng_below(&w->rng, qp->send_count);
        SimError e = (SimError)rng_range(&w->rng, 1, w->options.odp_pct
                                         ? SIM_ERR_RECV_PAGES
                                         : SIM_ERR_XRC_SRQ);
        SimSend *s = &qp->send[i];

        bool local = e == SIM_ERR_LKEY || e == SIM_ERR_LBOUNDS ||
                     e == SIM_ERR_FORMAT || e == SIM_ERR_LPAGES;

        /* UC does not report errors of the other side. */
        if (!workload_error_fits(qp, s, e) ||
            (qp->type == FAKERNIC_QP_UC && !local)) {
            continue;
        }
        s->error = e;
        qp->planned = (int32_t)i;
        qp->peer->planned_responder = !local;
        if (e == SIM_ERR_LKEY) {
            s->sge[s->sge_count - 1].mr = NULL;
        } else if (e == SIM_ERR_LPAGES) {
            s->sge[s->sge_count - 1].mr = qp->host->gone;
            s->sge[s->sge_count - 1].offset = 0;
        }
        return;
    }
}

/* ---- receives ------------------------------------------------------------ */

/* UC loses messages, so each receive must fit any of them. */
static uint32_t longest_message(const SimQp *qp)
{
    uint32_t longest = 0;

    for (uint32_t k = 0; k < qp->message_count; k++) {
        uint32_t length = qp->send[qp->message[k]].length;

        longest = length > longest ? length : longest;
    }
    return longest;
}

static void build_recvs(World *w, SimQp *qp)
{
    SimQp *peer = qp->peer;

    for (uint32_t k = 0; k < peer->message_count; k++) {
        const SimSend *s = &peer->send[peer->message[k]];
        bool write = s->opcode == FAKERNIC_SQ_RDMA_WRITE_IMM;
        uint32_t need = write ? 0 : s->length;
        SimRecv *r;

        need += rng_pct(&w->rng, 40) ? 0 : rng_below(&w->rng, 200);
        if (qp->type == FAKERNIC_QP_UC) {
            need = longest_message(peer);
        }
        if (s->error == SIM_ERR_RECV_SMALL) {
            need = rng_below(&w->rng, s->length);
        }
        r = workload_add_recv(qp->rq, need);
        if (s->error == SIM_ERR_RECV_LKEY) {
            for (unsigned i = 0; i < r->sge_count; i++) {
                r->sge[i].mr = NULL;
            }
        } else if (s->error == SIM_ERR_RECV_PAGES) {
            for (unsigned i = 0; i < r->sge_count; i++) {
                r->sge[i].mr = qp->host->gone;
                r->sge[i].offset = 0;
            }
        }
    }
    for (unsigned i = rng_below(&w->rng, EXTRA_RECVS + 1); i; i--) {
        workload_add_recv(qp->rq, qp->type == FAKERNIC_QP_UC
                                      ? longest_message(peer)
                                      : rng_below(&w->rng, 100));
    }
}

static void build_shared_recvs(World *w, SimRq *rq)
{
    uint32_t messages = 0, longest = 0;

    for (uint32_t i = 0; i < w->qp_count; i++) {
        const SimQp *peer = w->qp[i].peer;

        if (peer && (rq->xrc ? w->qp[i].type == FAKERNIC_QP_XRC_TGT &&
                                   w->qp[i].host == rq->host
                             : w->qp[i].rq == rq)) {
            uint32_t length = longest_message(peer);

            messages += peer->message_count;
            longest = length > longest ? length : longest;
        }
    }
    /* Each QP in error keeps one receive; the others need enough. */
    for (uint32_t i = 0; i < messages + SIM_CONNS; i++) {
        workload_add_recv(rq, longest);
    }
}

static void build_spares(World *w, SimQp *qp)
{
    if (qp->type == FAKERNIC_QP_XRC_TGT) {
        return;
    }
    workload_add_send(qp, FAKERNIC_SQ_SEND, 0, 0);
    qp->send_count--;
    qp->message_count--;
    qp->send[qp->send_count].message = -1;
    if (!qp->rq->srqn && !qp->rq->spare && qp->type != FAKERNIC_QP_XRC_INI) {
        for (unsigned i = 0; i < SPARE; i++) {
            workload_add_recv(qp->rq, rng_below(&w->rng, 64));
            if (!i) {
                qp->rq->count--;
                qp->rq->spare = 1;
            }
        }
    }
}

/* ---- topology ------------------------------------------------------------ */

static SimRq *pick_rq(World *w, Host *h)
{
    if (!rng_pct(&w->rng, w->options.srq_pct)) {
        return host_rq_new(h, false);
    }
    for (uint32_t i = 0; i < w->rq_count; i++) {
        if (w->rq[i].host == h && w->rq[i].srqn && !w->rq[i].xrc) {
            return &w->rq[i];
        }
    }
    return host_rq_new(h, true);
}

void workload_host(Host *h)
{
    const SimOptions *o = &h->world->options;

    if (!h->source) {
        h->source = host_mr_new(h, o->max_size * 2 + 32768, 0, SIM_PD);
        h->counter = host_mr_new(h, 16, FAKERNIC_ACCESS_LOCAL_WRITE |
                                        FAKERNIC_ACCESS_REMOTE_ATOMIC, SIM_PD);
        h->world->shared_seen[h->number] = world_alloc(h->world, 4096);
        if (o->odp_pct && o->error_pct) {
            h->gone = host_mr_refused(h, o->max_size + 4096,
                                      FAKERNIC_ACCESS_LOCAL_WRITE);
        }
    }
}

static void build_zone(World *w, SimQp *qp)
{
    Host *there = qp->peer->host;
    uint32_t size = w->options.max_size + rng_below(&w->rng, 2048) + 64;
    uint32_t all = FAKERNIC_ACCESS_LOCAL_WRITE | SIM_REMOTE;

    qp->zone = host_mr_new(there, size, all, SIM_PD);
    if (w->options.error_pct) {
        qp->zone_ro = host_mr_new(there, size, FAKERNIC_ACCESS_LOCAL_WRITE,
                                  SIM_PD);
        qp->zone_pd = host_mr_new(there, size, all, SIM_PD_OTHER);
        if (w->options.odp_pct) {
            qp->zone_gone = host_mr_refused(there, size, all);
        }
    }
    mr_shadow(qp->zone);
    if (qp->type == FAKERNIC_QP_XRC_INI) {
        qp->zone_xrc = host_mr_new(there, size, all, SIM_PD_XRC);
        mr_shadow(qp->zone_xrc);
        qp->xrc[0] = host_rq_xrc(there, 0);
        qp->xrc[1] = host_rq_xrc(there, 1);
    }
}

/* One path is untagged, the other one tagged. They are armed if both sides
 * rearm. Heirs do as the QPs before them, whose frames may arm them. */
static void conn_paths(World *w, SimQp *a, SimQp *b, const SimConn *before)
{
    if (before) {
        a->apm = before->side[0]->apm;
        b->apm = before->side[1]->apm;
    } else if (rng_pct(&w->rng, w->options.apm_pct) &&
               a->type != FAKERNIC_QP_UC) {
        a->apm = rng_pct(&w->rng, 90);
        b->apm = rng_pct(&w->rng, 90);
    }
    if (a->apm || b->apm) {
        a->gid_index &= 1;
    }
    b->gid_index = a->gid_index;
}

static SimConn *conn_new(World *w, SimQp *a, SimQp *b, const SimConn *before)
{
    SimConn *conn = &w->conn[w->conn_count];

    *conn = (SimConn) { .number = w->conn_count++, .side = { a, b } };
    b->mtu = a->mtu;
    conn_paths(w, a, b, before);
    for (unsigned i = 0; i < 2; i++) {
        conn->side[i]->conn = conn;
        conn->side[i]->planned = -1;
        conn->side[i]->peer = conn->side[!i];
        build_zone(w, conn->side[i]);
        keys_prepare(conn->side[i]);
    }
    return conn;
}

SimConn *workload_connect(World *w, unsigned a, unsigned b, uint8_t type)
{
    Host *host[2] = { w->host[a], w->host[b] };
    SimQp *qp[2];
    SimConn *conn;

    for (unsigned i = 0; i < 2; i++) {
        bool xrc = type == FAKERNIC_QP_XRC_INI;

        workload_host(host[i]);
        qp[i] = host_qp_new(host[i], xrc && i ? FAKERNIC_QP_XRC_TGT : type,
                            !xrc ? pick_rq(w, host[i])
                            : i ? host_rq_xrc(host[i], 0)
                                 : host_rq_new(host[i], false));
    }
    conn = conn_new(w, qp[0], qp[1], NULL);
    for (unsigned i = 0; i < 2; i++) {
        host_connect(qp[i], qp[!i], qp[!i]->sq_psn);
    }
    return conn;
}

/*
 * The next life of the same two QPs after a RESET during work. Its first PSNs
 * make frames of the old life look old. A real application would wait instead.
 */
static void conn_heir(World *w, SimConn *conn)
{
    SimQp *qp[2];

    for (unsigned i = 0; i < 2; i++) {
        SimQp *old = conn->side[i];
        SimRq *rq = old->rq->srqn ? old->rq : host_rq_new(old->host, false);

        qp[i] = host_qp_unborn(old->host, old->type, rq);
        qp[i]->send_cqn = old->send_cqn;
        qp[i]->recv_cqn = old->recv_cqn;
        qp[i]->sq_psn = (old->sq_psn + 0x300000 +
                         rng_below(&w->rng, 0x100000)) & 0xffffff;
    }
    conn->heir = conn_new(w, qp[0], qp[1], conn);
}

/* ---- programs ------------------------------------------------------------ */

static void build_step(World *w, SimQp *qp, bool last)
{
    uint8_t opcode;
    uint32_t size;

    if (qp->fast && rng_pct(&w->rng, w->options.lease_pct)) {
        keys_lease(w, qp);
    }
    if (qp->window_region && rng_pct(&w->rng, w->options.grant_pct)) {
        keys_grant(w, qp);
    }
    opcode = program_opcode(w, qp);
    size = program_size(w, mtu_bytes(qp->mtu));
    workload_add_send(qp, opcode, size, program_flags(w, opcode, size, last));
    /* Most QPs are in the PD of the shared word. */
    if (opcode == FAKERNIC_SQ_ATOMIC_FETCH_ADD && rng_pct(&w->rng, 40) &&
        qp->send[qp->send_count - 1].zone == qp->zone) {
        program_share(qp);
    }
}

/* Builds both sides together, as one may depend on the other's past. */
static void build_conn(World *w, SimConn *conn)
{
    uint32_t left[2];

    for (unsigned i = 0; i < 2; i++) {
        left[i] = conn->side[i]->type == FAKERNIC_QP_XRC_TGT
                  ? 0 : rng_range(&w->rng, 0, w->options.sends);
    }
    /* Every history has at least the PSNs ffffff and 0. */
    if (conn == &w->conn[0] && w->options.wrap) {
        workload_add_send(conn->side[0], FAKERNIC_SQ_SEND, 1,
                          FAKERNIC_SQ_SIGNALED);
        workload_add_send(conn->side[0], FAKERNIC_SQ_RDMA_WRITE, 1,
                          FAKERNIC_SQ_SIGNALED);
    }
    while (left[0] + left[1] && !w->failed) {
        unsigned i = rng_below(&w->rng, left[0] + left[1]) >= left[0];

        left[i]--;
        build_step(w, conn->side[i], left[i] == 0);
    }
    if (conn->side[0]->planned < 0 && conn->side[1]->planned < 0 &&
        rng_pct(&w->rng, w->options.error_pct)) {
        plan_error(w, conn);
    }
}

static void finish_arena(World *w, Host *h, SimMr **arena, uint32_t used,
                         RocePd pd)
{
    if (used) {
        *arena = host_mr_new(h, used + rng_below(&w->rng, 16) + 1,
                             FAKERNIC_ACCESS_LOCAL_WRITE, pd);
    }
}

static void patch_sges(SimSge *sge, unsigned n, SimMr *arena)
{
    for (unsigned i = 0; i < n; i++) {
        if (sge[i].mr == &arena_marker) {
            sge[i].mr = arena ? arena : NULL;
        }
    }
}

void workload_finish(World *w)
{
    for (uint32_t i = 0; i < w->qp_count; i++) {
        build_spares(w, &w->qp[i]);
        w->qp[i].life_end = w->qp[i].send_count;
    }
    for (uint32_t i = 0; i < w->qp_count; i++) {
        SimQp *qp = &w->qp[i];

        finish_arena(w, qp->host, &qp->arena, qp->arena_used, SIM_PD);
        for (uint32_t k = 0; k < qp->send_count; k++) {
            patch_sges(qp->send[k].sge, qp->send[k].sge_count, qp->arena);
        }
    }
    for (uint32_t i = 0; i < w->rq_count; i++) {
        SimRq *rq = &w->rq[i];

        finish_arena(w, rq->host, &rq->arena, rq->arena_used, rq->pd);
        for (uint32_t k = 0; k < rq->count + rq->spare; k++) {
            patch_sges(rq->recv[k].sge, rq->recv[k].sge_count, rq->arena);
        }
    }
}

static void build_conns(World *w)
{
    const SimOptions *o = &w->options;

    for (uint32_t i = 0; i < o->conns && !w->failed; i++) {
        unsigned a = rng_below(&w->rng, o->hosts);
        unsigned b = rng_pct(&w->rng, o->loopback_pct) || o->hosts == 1
                     ? a : (a + rng_range(&w->rng, 1, o->hosts - 1)) % o->hosts;
        bool uc = rng_pct(&w->rng, o->uc_pct);
        bool xrc = !uc && rng_pct(&w->rng, o->xrc_pct);
        SimConn *conn = workload_connect(w, a, b, uc ? FAKERNIC_QP_UC
                                              : xrc ? FAKERNIC_QP_XRC_INI
                                                    : FAKERNIC_QP_RC);

        if (!uc && rng_pct(&w->rng, o->reborn_pct)) {
            conn_heir(w, conn);
        }
    }
}

void workload_build(World *w)
{
    const SimOptions *o = &w->options;

    build_conns(w);
    for (uint32_t i = 0; i < w->conn_count && !w->failed; i++) {
        build_conn(w, &w->conn[i]);
    }
    for (uint32_t i = 0; i < w->qp_count && !w->failed; i++) {
        if (!w->qp[i].rq->srqn && w->qp[i].type != FAKERNIC_QP_XRC_INI) {
            build_recvs(w, &w->qp[i]);
        }
    }
    for (uint32_t i = 0; i < w->rq_count && !w->failed; i++) {
        if (w->rq[i].srqn) {
            build_shared_recvs(w, &w->rq[i]);
        }
    }
    if (o->datagrams && !w->failed) {
        datagrams_build(w);
    }
    if (o->raw && !w->failed) {
        raw_build(w);
    }
    workload_finish(w);
    inject_schedule(w);
}
