/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Times: when work is posted, and which objects the host removes during work.
 * Programs are fixed before; this file draws the times. Each injection sets the
 * statuses that it may cause on each side (SimQp.fault_send, fault_recv).
 */
#include <string.h>

#include "sim.h"

enum { INJECT_ERR, INJECT_RESET, INJECT_DESTROY, INJECT_MR, INJECT_DMA_ZONE,
       INJECT_DMA_RECV, INJECT_DMA_ARENA, INJECT_SQ_BROKEN, INJECT_RQ_BROKEN,
       INJECT_CQ_ERROR, INJECT_FIRST,
       /* kinds that were added later (SimOptions.change_pct, odp_pct) */
       INJECT_DMA_SOURCE = INJECT_FIRST, INJECT_REREG, INJECT_LATER,
       INJECT_REFUSE_ZONE = INJECT_LATER, INJECT_REFUSE_RECV,
       INJECT_REFUSE_ARENA, INJECT_REFUSE_SOURCE, INJECT_COUNT };

#define FLUSHED BIT(FAKERNIC_WC_WR_FLUSH_ERR)
#define UNANSWERED BIT(FAKERNIC_WC_RETRY_EXC_ERR)
#define REFUSED (BIT(FAKERNIC_WC_REM_ACCESS_ERR) | \
                 BIT(FAKERNIC_WC_REM_OP_ERR) | UNANSWERED)

/* ---- time ---------------------------------------------------------------- */

/* No send may wait for a send of another life. */
static void cut_waiting(World *w)
{
    bool changed = true;

    while (changed) {
        changed = false;
        for (uint32_t i = 0; i < w->qp_count; i++) {
            SimQp *qp = &w->qp[i];

            for (uint32_t k = 0; k < qp->life_end; k++) {
                const SimSend *s = &qp->send[k];

                if (s->after && s->after_index >= s->after->life_end) {
                    qp->life_end = k;
                    changed = true;
                }
            }
        }
    }
}

/* Sets the end of each QP's first life. Receives are posted for all lives. */
static void set_lives(World *w)
{
    for (uint32_t i = 0; i < w->qp_count; i++) {
        SimQp *qp = &w->qp[i];

        qp->life_end = qp->send_count;
        if (w->options.lives > 1 && qp->type != FAKERNIC_QP_UC &&
            !qp->unborn) {
            qp->life_end = rng_below(&w->rng, qp->send_count + 1);
        }
        /* The two sends around the wrap stay in one life. */
        if (i == 0 && qp->life_end < 2) {
            qp->life_end = qp->send_count < 2 ? qp->send_count : 2;
        }
    }
    cut_waiting(w);
    for (uint32_t i = 0; i < w->qp_count; i++) {
        SimQp *qp = &w->qp[i];

        /* The last send of a life must be signaled, as others wait for it. */
        if (qp->life_end) {
            qp->send[qp->life_end - 1].flags |= FAKERNIC_SQ_SIGNALED;
        }
    }
}

static void schedule_sends(World *w, uint32_t i)
{
    world_schedule(w, w->now + rng_below(&w->rng,
                   w->options.post_gap_us * 1000 + 1), EV_POST_SEND, 0)->a = i;
}

static void schedule_recvs(World *w, uint32_t i)
{
    const SimOptions *o = &w->options;
    SimRq *rq = &w->rq[i];
    uint32_t left = rq->count;

    if (rng_pct(&w->rng, 100 - o->late_recv_pct)) {
        host_post_recv(rq, left);
        return;
    }
    while (left) {
        uint32_t n = rng_range(&w->rng, 1, left < 8 ? left : 8);
        SimEvent *ev = world_schedule(w, w->now + rng_below(&w->rng,
                                      o->late_recv_us * 1000 + 1),
                                      EV_POST_RECV, 0);

        ev->a = i;
        ev->b = n;
        left -= n;
    }
}

static void schedule_posts(World *w)
{
    for (uint32_t i = 0; i < w->qp_count; i++) {
        if (!w->qp[i].unborn) {
            schedule_sends(w, i);
        }
    }
    for (uint32_t i = 0; i < w->rq_count; i++) {
        schedule_recvs(w, i);
    }
}

static RoceTime in_mid_flight(World *w)
{
    uint32_t span = w->options.post_gap_us * US * (w->options.sends / 2 + 2);

    return w->now + rng_below(&w->rng, span + 1);
}

static void schedule_injections(World *w)
{
    for (uint32_t i = 0; i < w->conn_count; i++) {
        if (rng_pct(&w->rng, w->options.inject_pct)) {
            SimEvent *ev = world_schedule(w, in_mid_flight(w), EV_INJECT, 0);

            ev->a = i;
            ev->b = (uint32_t)rng_next(&w->rng);
        }
        if (rng_pct(&w->rng, w->options.migrate_pct)) {
            SimEvent *ev = world_schedule(w, in_mid_flight(w), EV_MIGRATE, 0);

            ev->a = i;
            ev->b = (uint32_t)rng_next(&w->rng);
        }
        if (w->conn[i].heir) {
            world_schedule(w, in_mid_flight(w), EV_RECONNECT, 0)->a = i;
            w->births++;
        }
    }
}

void inject_completed(SimQp *qp)
{
    SimQp *waiting[] = { qp, qp->peer };

    for (unsigned i = 0; i < 2; i++) {
        if (waiting[i] && waiting[i]->gated) {
            waiting[i]->gated = false;
            world_schedule(qp->world, qp->world->now, EV_POST_SEND, 0)->a =
                (uint32_t)(waiting[i] - qp->world->qp);
        }
    }
}

static void fail_dma(SimMr *mr, Rng *rng)
{
    uint32_t page = rng_below(rng, mr->page_count);

    mr->host->dma_fail_lo = mr->pages[page];
    mr->host->dma_fail_hi = mr->pages[page] + (1ull << mr->page_shift);
}

/* Adds the statuses that both sides may get, for sends and receives. */
static void may_fail(SimQp *qp, uint32_t own, uint32_t peers, uint32_t recv)
{
    qp->conn->injected = true;
    qp->fault_send |= own;
    qp->peer->fault_send |= peers;
    qp->fault_recv |= recv;
    qp->peer->fault_recv |= FLUSHED | BIT(FAKERNIC_WC_LOC_ACCESS_ERR);
}

static void inject_state(World *w, SimQp *qp, uint32_t kind)
{
    may_fail(qp, FLUSHED, UNANSWERED, FLUSHED);
    if (kind == INJECT_DESTROY) {
        host_qp_destroy(qp);
        return;
    }
    qp->error = true;
    if (kind == INJECT_CQ_ERROR) {
        roce_qp_error(qp->host->roce, w->now, qp->qpn,
                      FAKERNIC_VENDOR_CQ_OVERRUN);
        return;
    }
    /* The flush completes during the call; RESET causes no completions. */
    qp->silent = kind == INJECT_RESET;
    if (host_modify_state(qp, kind == INJECT_ERR ? FAKERNIC_QPS_ERR
                                                 : FAKERNIC_QPS_RESET)) {
        world_fail(w, "modify in mid-flight was refused");
    }
}

/* The source of the data that all QPs of the host send fails. */
static void inject_source(World *w, Host *h, bool refused)
{
    for (uint32_t i = 0; i < w->qp_count; i++) {
        SimQp *qp = &w->qp[i];

        if (qp->host != h || (refused && !h->source->on_demand)) {
            continue;
        }
        if (qp->conn) {
            may_fail(qp, FLUSHED | BIT(FAKERNIC_WC_LOC_PROT_ERR), UNANSWERED,
                     FLUSHED);
        } else {
            qp->fault_send |= BIT(FAKERNIC_WC_LOC_PROT_ERR);
        }
    }
    if (!refused) {
        fail_dma(h->source, &w->rng);
    } else if (h->source->on_demand) {
        paging_refuse(h->source);
    }
}

/* The owner takes rights away, or moves the region to another PD. */
static void inject_rereg(World *w, SimQp *qp)
{
    SimMr *mr = qp->zone;
    RoceMrInit init = { .pd = SIM_PD_OTHER,
                        .access = FAKERNIC_ACCESS_LOCAL_WRITE };
    uint32_t key = mr->key;

    if (mr->on_demand) {
        return;
    }
    may_fail(qp, REFUSED | FLUSHED, FLUSHED | UNANSWERED, FLUSHED);
    if (roce_mr_rereg(mr->host->roce, rng_pct(&w->rng, 50)
                      ? FAKERNIC_REREG_PD : FAKERNIC_REREG_ACCESS, &init,
                      &key) != FAKERNIC_CMD_OK || key != mr->key) {
        world_fail(w, "roce_mr_rereg in mid-flight was refused");
    }
}

static void inject_refusal(SimQp *qp, uint32_t kind)
{
    if (kind == INJECT_REFUSE_ZONE && qp->zone->on_demand) {
        may_fail(qp, REFUSED | FLUSHED, FLUSHED | UNANSWERED, FLUSHED);
        paging_refuse(qp->zone);
    } else if (kind == INJECT_REFUSE_RECV && qp->rq->arena &&
               !qp->rq->srqn && qp->rq->arena->on_demand) {
        may_fail(qp, FLUSHED, REFUSED,
                 FLUSHED | BIT(FAKERNIC_WC_LOC_PROT_ERR));
        paging_refuse(qp->rq->arena);
    } else if (kind == INJECT_REFUSE_ARENA && qp->arena &&
               qp->arena->on_demand) {
        may_fail(qp, FLUSHED | BIT(FAKERNIC_WC_LOC_PROT_ERR), UNANSWERED,
                 FLUSHED);
        paging_refuse(qp->arena);
    }
}

static void inject_memory(World *w, SimQp *qp, uint32_t kind)
{
    if (kind == INJECT_MR) {
        may_fail(qp, REFUSED | FLUSHED, FLUSHED | UNANSWERED, FLUSHED);
        host_mr_destroy(qp->zone);
    } else if (kind == INJECT_DMA_ZONE) {
        may_fail(qp, REFUSED | FLUSHED, FLUSHED | UNANSWERED, FLUSHED);
        fail_dma(qp->zone, &w->rng);
    } else if (kind == INJECT_DMA_RECV && qp->rq->arena && !qp->rq->srqn) {
        may_fail(qp, FLUSHED, REFUSED,
                 FLUSHED | BIT(FAKERNIC_WC_LOC_PROT_ERR));
        fail_dma(qp->rq->arena, &w->rng);
    } else if (kind == INJECT_DMA_ARENA && qp->arena) {
        may_fail(qp, FLUSHED | BIT(FAKERNIC_WC_LOC_PROT_ERR), UNANSWERED,
                 FLUSHED);
        fail_dma(qp->arena, &w->rng);
    }
}

static void inject(World *w, SimConn *conn, uint32_t roll)
{
    SimQp *qp = conn->side[roll & 1];
    const SimOptions *o = &w->options;
    uint32_t kind = (roll >> 1) % (!o->change_pct ? INJECT_FIRST
                                   : !o->odp_pct ? INJECT_LATER
                                                  : INJECT_COUNT);

    if (qp->silent || qp->peer->silent) {
        return;                 /* in a new life, or not born yet */
    }
    world_log(w, qp->host->number, LOG_INJECT, kind, qp->qpn, 0, 0, 0);
    switch (kind) {
    case INJECT_MR:
    case INJECT_DMA_ZONE:
    case INJECT_DMA_RECV:
    case INJECT_DMA_ARENA:
        inject_memory(w, qp, kind);
        break;
    case INJECT_DMA_SOURCE:
    case INJECT_REFUSE_SOURCE:
        inject_source(w, qp->host, kind == INJECT_REFUSE_SOURCE);
        break;
    case INJECT_REREG:
        inject_rereg(w, qp);
        break;
    case INJECT_REFUSE_ZONE:
    case INJECT_REFUSE_RECV:
    case INJECT_REFUSE_ARENA:
        inject_refusal(qp, kind);
        break;
    case INJECT_SQ_BROKEN:
        may_fail(qp, FLUSHED, UNANSWERED, FLUSHED);
        qp->sq_broken = true;
        inject_completed(qp);
        break;
    case INJECT_RQ_BROKEN:
        may_fail(qp, FLUSHED, REFUSED, FLUSHED);
        qp->rq_broken = true;
        break;
    default:
        inject_state(w, qp, kind);
        inject_completed(qp);
        break;
    }
    world_pump(w, qp->host);
    world_pump(w, qp->peer->host);
}

/* RESET of both sides with frames in flight, then a new connection. */
static void reconnect(World *w, SimConn *conn)
{
    SimConn *heir = conn->heir;

    w->births--;
    if (!conn->side[0]->alive || !conn->side[1]->alive) {
        return;
    }
    conn->injected = true;
    for (unsigned i = 0; i < 2; i++) {
        SimQp *old = conn->side[i], *qp = heir->side[i];

        old->silent = true;
        if (host_modify_state(old, FAKERNIC_QPS_RESET)) {
            world_fail(w, "QP %u: RESET in mid-flight was refused", old->qpn);
        }
        old->alive = false;
        qp->qpn = old->qpn;
        qp->unborn = qp->silent = false;
        qp->alive = true;
    }
    for (unsigned i = 0; i < 2; i++) {
        SimQp *qp = heir->side[i];

        host_connect(qp, qp->peer, qp->peer->sq_psn);
        schedule_sends(w, (uint32_t)(qp - w->qp));
    }
}

/*
 * An armed connection must survive that its primary path is cut, in one or both
 * directions, or that software migrates it.
 */
static void migrate(World *w, SimConn *conn, uint32_t roll)
{
    SimQp *qp = conn->side[roll & 1];
    RoceQpAttr attr = { .path_mig_state = FAKERNIC_MIG_MIGRATED };
    uint32_t bad;

    if (!host_qp_armed(qp) || !host_qp_armed(qp->peer)) {
        return;
    }
    world_log(w, qp->host->number, LOG_MIGRATE, qp->qpn, roll >> 1 & 3, 0, 0,
              0);
    w->link.faults++;           /* packets on the old path are lost */
    if (roll & 2) {
        conn->cut[0] = roll & 4 || roll & 1;
        conn->cut[1] = roll & 4 || !(roll & 1);
        return;
    }
    if (roce_qp_modify(qp->host->roce, w->now, qp->qpn,
                       FAKERNIC_QP_ATTR_PATH_MIG_STATE, &attr, &bad)) {
        world_fail(w, "QP %u: migration by software was refused", qp->qpn);
    }
    world_pump(w, qp->host);
}

static void change_pause(World *w, SimQp *qp, bool pause)
{
    RoceQpAttr attr = { .state = 0 };
    uint32_t bad;

    if (!qp->alive || qp->silent ||
        roce_qp_query(qp->host->roce, qp->qpn, &attr) ||
        attr.state != (pause ? FAKERNIC_QPS_RTS : FAKERNIC_QPS_SQD)) {
        return;
    }
    if (!pause) {
        change_drained(qp);
    }
    qp->paused = pause;
    qp->drained = false;
    attr = (RoceQpAttr) { .state = pause ? FAKERNIC_QPS_SQD : FAKERNIC_QPS_RTS,
                          .sqd_async_notify = 1 };
    world_log(w, qp->host->number, LOG_MODIFY, qp->qpn, attr.state, 0, 0, 0);
    if (roce_qp_modify(qp->host->roce, w->now, qp->qpn,
                       (uint32_t)(FAKERNIC_QP_ATTR_STATE |
                       (pause ? FAKERNIC_QP_ATTR_SQD_ASYNC_NOTIFY : 0)),
                       &attr, &bad) != FAKERNIC_CMD_OK) {
        world_fail(w, "QP %u: modify to state %u was refused", qp->qpn,
                   attr.state);
    }
    world_pump(w, qp->host);
}

static void schedule_pauses(World *w)
{
    for (uint32_t i = 0; i < w->qp_count; i++) {
        RoceTime at = w->now + rng_below(&w->rng, 1000000);

        if (w->qp[i].conn && w->qp[i].type != FAKERNIC_QP_XRC_TGT &&
            rng_pct(&w->rng, w->options.pause_pct)) {
            world_schedule(w, at, EV_PAUSE, 0)->a = i;
            at += rng_below(&w->rng, rng_pct(&w->rng, 50) ? 3000000 : 50000);
            world_schedule(w, at + 1, EV_RESUME, 0)->a = i;
        }
    }
}

void inject_event(World *w, const SimEvent *ev)
{
    SimQp *qp;

    switch (ev->kind) {
    case EV_POST_SEND:
        qp = &w->qp[ev->a];
        host_post_send(qp, rng_range(&w->rng, 1, 8));
        if (qp->posted < qp->life_end && !qp->gated) {
            schedule_sends(w, ev->a);
        }
        break;
    case EV_POST_RECV:
        host_post_recv(&w->rq[ev->a], ev->b);
        break;
    case EV_INJECT:
        inject(w, &w->conn[ev->a], ev->b);
        break;
    case EV_MIGRATE:
        migrate(w, &w->conn[ev->a], ev->b);
        break;
    case EV_RECONNECT:
        reconnect(w, &w->conn[ev->a]);
        break;
    case EV_PAUSE:
    case EV_RESUME:
        change_pause(w, &w->qp[ev->a], ev->kind == EV_PAUSE);
        break;
    case EV_PAGES:
        paging_answer(w->host[ev->host], ev->a);
        break;
    case EV_PAGER:
        paging_churn(w->host[ev->host]);
        break;
    case EV_TENANT:
        tenant_event(w->host[ev->host]);
        break;
    case EV_CHANGE:
        change_event(w->host[ev->host], ev->a);
        break;
    default:
        break;
    }
}

static bool conn_intact(const SimConn *conn)
{
    for (unsigned i = 0; i < 2; i++) {
        const SimQp *qp = conn->side[i];

        if (qp->silent || qp->sq_failed || qp->rq_failed || qp->error ||
            qp->sq_broken || qp->rq_broken || qp->paused ||
            (!qp_is_reliable(qp) && qp->type != FAKERNIC_QP_XRC_TGT)) {
            return false;
        }
    }
    return !conn->injected && !model_may_break(conn->side[0]);
}

/* The host moves QPs from SQE to RTS; flushed work stays flushed (10.3.1.6). */
static void recover_datagrams(World *w)
{
    for (uint32_t i = 0; i < w->qp_count; i++) {
        SimQp *qp = &w->qp[i];

        if (!qp->conn && qp->sq_failed && qp->alive) {
            qp->sq_failed = false;
            if (host_modify_state(qp, FAKERNIC_QPS_RTS) != FAKERNIC_CMD_OK) {
                world_fail(w, "QP %u: SQE to RTS was refused", qp->qpn);
            }
        }
    }
}

void inject_next_life(World *w)
{
    recover_datagrams(w);
    for (uint32_t i = 0; i < w->conn_count; i++) {
        SimQp **side = w->conn[i].side;

        if (conn_intact(&w->conn[i])) {
            for (unsigned k = 0; k < 2; k++) {
                if (host_modify_state(side[k], FAKERNIC_QPS_RESET)) {
                    world_fail(w, "QP %u: RESET was refused", side[k]->qpn);
                }
                side[k]->sq_psn = (uint32_t)rng_next(&w->rng) & 0xffffff;
            }
            for (unsigned k = 0; k < 2; k++) {
                host_connect(side[k], side[!k], side[!k]->sq_psn);
            }
        }
    }
    for (uint32_t i = 0; i < w->qp_count; i++) {
        SimQp *qp = &w->qp[i];

        if (qp->life_end < qp->send_count) {
            qp->life_end = qp->send_count;
            schedule_sends(w, i);
        }
    }
    paging_schedule(w);
    change_schedule(w);
}

void inject_schedule(World *w)
{
    set_lives(w);
    tenants_begin(w);
    schedule_posts(w);
    schedule_injections(w);
    schedule_pauses(w);
    paging_schedule(w);
    change_schedule(w);
}
