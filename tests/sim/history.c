/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The phases of a history.
 *
 * In the first phase there are faults (safety). Then there are none, and all
 * work must complete within a bound (liveness). After that the world must be
 * silent, and counters and states must fit the events. At the end all QPs are
 * flushed or destroyed, and all memory is compared.
 */
#include <string.h>

#include "sim.h"

/* IBTA table 45, in units of 10 us. */
static const uint32_t rnr_10us[32] = {
    65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384,
    512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576,
    32768, 49152,
};

/* ---- phases -------------------------------------------------------------- */

/* The number of sends that must have completed. With a failed ring these end
 * where the engine stopped reading, and earlier unsignaled successes are
 * silent. */
static uint32_t sends_owed(const SimQp *qp)
{
    uint32_t owed = qp->fetched;

    if (qp->silent) {
        return 0;
    }
    if (!qp->sq_broken) {
        return qp->life_end;
    }
    while (!qp->sq_failed && owed &&
           !(qp->send[owed - 1].flags & FAKERNIC_SQ_SIGNALED)) {
        owed--;
    }
    return owed;
}

bool model_all_done(World *w)
{
    if (w->births) {
        return false;
    }
    for (uint32_t i = 0; i < w->qp_count; i++) {
        if (w->qp[i].done < sends_owed(&w->qp[i])) {
            return false;
        }
    }
    return true;
}

static uint8_t qp_state(SimQp *qp)
{
    RoceQpAttr attr = { .state = 0xff };
    int status = roce_qp_query(qp->host->roce, qp->qpn, &attr);

    if (status != FAKERNIC_CMD_OK) {
        world_fail(qp->world, "roce_qp_query: %d", status);
    }
    return attr.state;
}

/* A QP in error polls its receives: only its engine may have a deadline. */
static bool host_polls(World *w, const Host *h)
{
    for (uint32_t i = 0; i < w->qp_count; i++) {
        if (w->qp[i].host == h && w->qp[i].alive &&
            qp_state(&w->qp[i]) == FAKERNIC_QPS_ERR) {
            return true;
        }
    }
    return false;
}

static bool history_settled(World *w)
{
    if (w->heap_count) {
        return false;
    }
    for (unsigned i = 0; i < SIM_HOSTS && w->host[i]; i++) {
        if (roce_deadline(w->host[i]->roce) != ROCE_TIME_NEVER &&
            !host_polls(w, w->host[i])) {
            return false;
        }
    }
    return true;
}

static bool never(World *w)
{
    (void)w;
    return false;
}

/* The time within which all work must complete on a good link. */
static RoceTime liveness_bound(World *w)
{
    const SimOptions *o = &w->options;
    RoceTime bound = SEC / 10 + (RoceTime)o->late_recv_us * US +
                     (RoceTime)o->post_gap_us * US * (o->sends + 2);
    uint64_t bytes = 0, messages = 0;

    for (uint32_t i = 0; i < w->qp_count; i++) {
        messages += w->qp[i].send_count;
        for (uint32_t k = 0; k < w->qp[i].send_count; k++) {
            bytes += w->qp[i].send[k].length + 300;
        }
    }
    if (o->rate_mbps) {
        bound += (RoceTime)(bytes * 8000 / o->rate_mbps) * 20;
    }
    /* The link is good: the hostile tenant must not delay anything. */
    if (o->tenants) {
        return bound + (RoceTime)messages * MS;
    }
    /* DCQCN may reduce a rate to 10 Mbit/s. */
    if (o->dcqcn) {
        bound += (RoceTime)(bytes * 800);
    }
    if (o->limit_mbps) {
        bound += (RoceTime)(bytes * 8000 / o->limit_mbps);
    }
    bound += (RoceTime)messages * (rnr_10us[o->rnr_timer & 31] * 20 * US +
                                   (RoceTime)o->delay_ns * 20);
    /* Each part waits for its pages, at the peer with RNR NAKs of up to 41 ms.
     * Other pages may have become absent by then. */
    if (o->odp_pct) {
        bound += (RoceTime)(messages * 10 + bytes / 16384) *
                 (o->odp_wait_us + 41000) * US *
                 (o->odp_chunks || o->save_every ? 4 : 1);
    }
    /* A forged RNR NAK may have the longest timer. */
    if (o->hostile_ppm) {
        bound += 120 * SEC;
    }
    /* One series of retries, each up to four times the timeout (C9-140). There
     * are more where one path must fail before the other is used, or one side
     * waits until the other fails. */
    bound += (4096ll << o->timeout) * 4 * 10 *
             (1 + 2 * (o->apm_pct > 0) + 2 * (o->grant_pct > 0)) *
             (1 + (o->change_pct > 0));
    return bound;
}

static void report_stuck(World *w)
{
    for (uint32_t i = 0; i < w->qp_count; i++) {
        const SimQp *qp = &w->qp[i];

        if (qp->done < sends_owed(qp)) {
            world_fail(w, "liveness: host %u QP %u: send %u of %u is not done "
                       "(posted %u, fetched %u), %lld us after the last fault",
                       qp->host->number, qp->qpn, qp->done, qp->life_end,
                       qp->posted, qp->fetched,
                       (long long)((w->now - w->faults_end) / US));
        }
    }
}

static void history_settle(World *w)
{
    RoceTime limit = w->now + 5 * SEC + (RoceTime)w->options.late_recv_us * US;

    if (world_run(w, limit, history_settled) || w->failed) {
        return;
    }
    for (unsigned i = 0; i < SIM_HOSTS && w->host[i]; i++) {
        if (roce_deadline(w->host[i]->roce) != ROCE_TIME_NEVER) {
            world_fail(w, "host %u: nothing is outstanding, but the engine "
                       "still wants time", i);
        }
    }
    world_fail(w, "frames still fly long after all work is done");
}

/* ---- checks at rest ------------------------------------------------------ */

/* A frame to all hosts does not return to its sender. */
static void final_datagram(World *w, const SimQp *qp, uint32_t index)
{
    const SimSend *s = &qp->send[index];
    uint32_t count = s->group ? s->group->count : 1;

    for (uint32_t i = 0; i < count; i++) {
        bool own = s->group == &w->everybody && s->group->member[i] == qp;

        if (s->copies[i] != !own) {
            world_fail(w, "QP %u: datagram %u arrived %u times on a good link",
                       qp->qpn, index, s->copies[i]);
        }
    }
}

static void final_qp(World *w, SimQp *qp)
{
    uint8_t state = qp_state(qp);
    bool failed = qp->sq_failed || qp->rq_failed || qp->error;
    uint32_t delivered = 0;

    if (qp->silent || w->options.hostile_ppm) {
        return;
    }
    /* Unreliable services fail their send queue only (IBTA 10.3.1.6). */
    if (qp->type == FAKERNIC_QP_UC && qp->conn->injected) {
        failed = false;         /* an injection may fail the whole QP */
    } else if ((!qp->conn || (qp->type == FAKERNIC_QP_UC && !qp->rq_failed)) &&
               qp->sq_failed && !qp->error) {
        if (state != FAKERNIC_QPS_SQE) {
            world_fail(w, "QP %u is in state %u, not in SQE", qp->qpn, state);
        }
    } else if (failed ? state != FAKERNIC_QPS_ERR
                      : state != FAKERNIC_QPS_RTS && !model_may_break(qp)) {
        world_fail(w, "QP %u is in state %u, failed %d", qp->qpn, state,
                   failed);
    }
    /* Only the peer's MigReq arms a QP (IBTA 17.2.8.1). */
    if (qp->apm && !qp->peer->apm && host_qp_armed(qp)) {
        world_fail(w, "QP %u is armed by itself", qp->qpn);
    }
    for (uint32_t k = 0; k < qp->message_count; k++) {
        delivered += qp->send[qp->message[k]].done == SIM_OK;
    }
    if (qp_is_reliable(qp) &&
        (qp->peer->received < delivered ||
         (qp->peer->received > delivered && !qp->sq_failed &&
          !qp->sq_broken))) {
        world_fail(w, "QP %u: %u messages delivered, %u received", qp->qpn,
                   delivered, qp->peer->received);
    }
    if (!qp->conn && !model_may_drop(w)) {
        for (uint32_t k = 0; k < qp->send_count; k++) {
            if (qp->send[k].done == SIM_OK &&
                qp->send[k].error == SIM_ERR_NONE) {
                final_datagram(w, qp, k);
            }
        }
    }
}

static void final_counters(World *w)
{
    static const uint8_t zero_always[] = {
        FAKERNIC_STAT_TIMEOUTS, FAKERNIC_STAT_RETRY_EXCEEDED,
        FAKERNIC_STAT_RNR_RETRY_EXCEEDED, FAKERNIC_STAT_RX_SEQ_NAK,
        FAKERNIC_STAT_RX_NAK_INVALID_REQUEST,
        FAKERNIC_STAT_RX_NAK_REMOTE_ACCESS,
        FAKERNIC_STAT_RX_NAK_REMOTE_OPERATION, FAKERNIC_STAT_IMPLIED_NAK,
        FAKERNIC_STAT_LOCAL_ERRORS, FAKERNIC_STAT_TX_SEQ_NAK,
        FAKERNIC_STAT_TX_NAK_INVALID_REQUEST,
        FAKERNIC_STAT_TX_NAK_REMOTE_ACCESS,
        FAKERNIC_STAT_TX_NAK_REMOTE_OPERATION,
        FAKERNIC_STAT_REMOTE_ACCESS_ERRORS,
        FAKERNIC_STAT_DROP_SHORT, FAKERNIC_STAT_DROP_IP_CSUM,
        FAKERNIC_STAT_DROP_FRAGMENT, FAKERNIC_STAT_DROP_ICRC,
        FAKERNIC_STAT_DROP_BTH_VERSION, FAKERNIC_STAT_DROP_OPCODE,
        FAKERNIC_STAT_DROP_QPN, FAKERNIC_STAT_DROP_QP_STATE,
        FAKERNIC_STAT_DROP_PKEY, FAKERNIC_STAT_DROP_QKEY,
        FAKERNIC_STAT_DROP_ADDRESS, FAKERNIC_STAT_DROP_UD_LENGTH,
        FAKERNIC_STAT_DROP_RESPONSE,
    };
    static const uint8_t zero_without_rnr[] = {
        FAKERNIC_STAT_RETRANSMITS, FAKERNIC_STAT_PROBES,
        FAKERNIC_STAT_DUPLICATES,
        FAKERNIC_STAT_OUT_OF_SEQUENCE, FAKERNIC_STAT_TX_RNR_NAK,
    };
    const SimOptions *o = &w->options;

    if (w->link.faults || o->error_pct || o->hostile_ppm || o->inject_pct ||
        o->harsh || o->tenants || o->timeout < 16) {
        return;
    }
    for (unsigned i = 0; i < SIM_HOSTS && w->host[i]; i++) {
        const uint64_t *stats = roce_stats(w->host[i]->roce);

        for (unsigned k = 0; k < sizeof(zero_always); k++) {
            /* Responses are dropped while their page is absent. */
            if (o->odp_pct &&
                (zero_always[k] == FAKERNIC_STAT_DROP_RESPONSE ||
                 zero_always[k] == FAKERNIC_STAT_IMPLIED_NAK)) {
                continue;
            }
            /* Packets that arrive during a FLUSH are requested again. */
            if (o->flush_pct && (zero_always[k] == FAKERNIC_STAT_TX_SEQ_NAK ||
                                 zero_always[k] == FAKERNIC_STAT_RX_SEQ_NAK)) {
                continue;
            }
            if (stats[zero_always[k]]) {
                world_fail(w, "host %u: counter %u is %llu after a history "
                           "without faults", i, zero_always[k],
                           (unsigned long long)stats[zero_always[k]]);
            }
        }
        for (unsigned k = 0; !o->late_recv_pct && !o->odp_pct &&
                             !o->flush_pct && k < sizeof(zero_without_rnr);
             k++) {
            if (stats[zero_without_rnr[k]]) {
                world_fail(w, "host %u: counter %u is %llu after a history "
                           "without faults or RNR", i, zero_without_rnr[k],
                           (unsigned long long)stats[zero_without_rnr[k]]);
            }
        }
    }
}

void model_final(World *w)
{
    for (uint32_t i = 0; i < w->qp_count && !w->failed; i++) {
        if (w->qp[i].alive) {
            final_qp(w, &w->qp[i]);
        }
    }
    final_counters(w);
    if (w->options.wrap && !w->wraps && !w->link.faults &&
        !w->options.inject_pct && !w->options.error_pct &&
        !w->options.reborn_pct && !w->options.harsh) {
        world_fail(w, "no PSN wrapped in this history");
    }
}

/* ---- teardown: flush, destroy, compare ----------------------------------- */

/* Some QPs go to ERR and get work there, which must be flushed. */
static void teardown_flush(World *w)
{
    for (uint32_t i = 0; i < w->qp_count && !w->failed; i++) {
        SimQp *qp = &w->qp[i];

        if (!qp->alive || qp->silent || rng_pct(&w->rng, 40)) {
            continue;
        }
        if (qp_state(qp) != FAKERNIC_QPS_ERR) {
            qp->error = true;
            if (host_modify_state(qp, FAKERNIC_QPS_ERR) != FAKERNIC_CMD_OK) {
                world_fail(w, "QP %u: modify to ERR was refused", qp->qpn);
            }
            world_pump(w, qp->host);
        }
        qp->error = true;
        qp->rq->count += qp->rq->spare;
        qp->rq->spare = 0;
        host_post_recv(qp->rq, qp->rq->srqn ? 0 : UINT32_MAX);
        if (qp->type != FAKERNIC_QP_XRC_TGT) {
            qp->life_end = ++qp->send_count;
            host_post_send(qp, 1);
        }
    }
    world_run(w, w->now + FAKERNIC_RQ_FLUSH_INTERVAL_MAX_NS +
                 w->options.tick_late_ns + MS, never);
    for (uint32_t i = 0; i < w->qp_count && !w->failed; i++) {
        SimQp *qp = &w->qp[i];

        if (qp->silent || !qp->error) {
            continue;
        }
        if (qp->done < sends_owed(qp) ||
            (!qp->rq->srqn && qp->rq->done < (qp->rq_broken
                                                  ? qp->rq->fetched
                                                  : qp->rq->posted))) {
            world_fail(w, "QP %u in ERR: flushed sends %u of %u, receives %u "
                       "of %u", qp->qpn, qp->done, qp->posted, qp->rq->done,
                       qp->rq->posted);
        }
        for (uint32_t k = 0; k < w->rq_count; k++) {
            model_recv_kept(qp, &w->rq[k], "in ERR");
        }
    }
}

static void teardown_destroy(World *w)
{
    for (uint32_t i = 0; i < w->qp_count; i++) {
        if (w->qp[i].alive) {
            host_qp_destroy(&w->qp[i]);
        }
    }
    for (unsigned i = 0; i < SIM_HOSTS && w->host[i]; i++) {
        Host *h = w->host[i];

        world_pump(w, h);
        /* A region with a bound window is busy. */
        for (unsigned windows = 2; windows--;) {
            for (uint32_t k = 0; k < h->mr_count; k++) {
                if (h->mr[k].alive && h->mr[k].window == windows) {
                    host_mr_destroy(&h->mr[k]);
                }
            }
        }
        if (roce_pd_users(h->roce, SIM_PD) ||
            roce_pd_users(h->roce, SIM_PD_OTHER) ||
            roce_pd_users(h->roce, SIM_PD_XRC)) {
            world_fail(w, "host %u: keys are left in a PD", i);
        }
        if (roce_deadline(h->roce) != ROCE_TIME_NEVER) {
            world_fail(w, "host %u: a deadline without any QP", i);
        }
    }
}

static void mark_unknown(const SimMr *mr, uint32_t offset, uint32_t length)
{
    if (mr && length) {
        mr_fill(mr, mr->host->unknown, offset, 1, length);
    }
}

/*
 * No send at or behind a planned error is executed. An exception is a host that
 * refuses pages in the middle of a message, or for a response.
 */
static bool never_executed(const SimQp *qp, uint32_t index)
{
    const SimSend *planned;

    if (qp->planned < 0 || index < (uint32_t)qp->planned) {
        return false;
    }
    planned = &qp->send[qp->planned];
    return (planned->error != SIM_ERR_LPAGES &&
            !(planned->error == SIM_ERR_LBOUNDS && qp->world->options.odp_pct))
           || (index > (uint32_t)qp->planned &&
            (opcode_is_send(planned->opcode) ||
             opcode_is_write(planned->opcode)));
}

/* A failed send may or may not have been executed: its bytes are unknown. */
static void unknown_effect(World *w, SimQp *qp, uint32_t index)
{
    const SimSend *s = &qp->send[index];
    unsigned there = qp->peer->host->number;
    bool one_sided = !opcode_is_send(s->opcode);
    bool to_arena = one_sided && !opcode_is_write(s->opcode);

    if (to_arena) {
        for (unsigned i = 0; i < s->sge_count; i++) {
            mark_unknown(s->sge[i].mr, s->sge[i].offset, s->sge[i].length);
        }
    }
    if (s->shared && s->executed) {
        w->shared_adds[there]++;
    }
    if (s->executed || !s->zone || opcode_is_read(s->opcode) ||
        never_executed(qp, index)) {
        return;
    }
    if (s->shared) {
        w->shared_maybe[there]++;
    } else {
        mark_unknown(s->zone, s->zone_offset, s->length);
    }
}

static void settle_sends(World *w, SimQp *qp)
{
    for (uint32_t i = 0; i < qp->fetched && qp->peer; i++) {
        SimSend *s = &qp->send[i];

        if (s->done != SIM_OK) {
            unknown_effect(w, qp, i);
        } else if (qp->type == FAKERNIC_QP_UC &&
                   (s->opcode == FAKERNIC_SQ_RDMA_WRITE ||
                    s->opcode == FAKERNIC_SQ_RDMA_WRITE_IMM)) {
            mr_put(s->zone, qp->peer->host->expected, s->zone_offset, s->data,
                   s->length);
            if (model_unreliable(qp)) {
                mark_unknown(s->zone, s->zone_offset, s->length);
            }
        }
    }
}

static void settle_recvs(const SimRq *rq)
{
    for (uint32_t i = 0; i < rq->fetched; i++) {
        const SimRecv *r = &rq->recv[i];

        for (unsigned k = 0; r->done == SIM_OPEN && k < r->sge_count; k++) {
            mark_unknown(r->sge[k].mr, r->sge[k].offset, r->sge[k].length);
        }
    }
}

static void settle_shared(World *w, Host *h)
{
    uint64_t start, value;
    uint32_t offset;

    if (!h->counter || w->options.hostile_ppm) {
        return;
    }
    offset = (uint32_t)(-h->counter->iova & 7);
    start = mr_get64(h->counter, h->expected, offset);
    value = mr_get64(h->counter, h->memory, offset);
    if (value - start < w->shared_adds[h->number] ||
        value - start > w->shared_adds[h->number] +
                            w->shared_maybe[h->number]) {
        world_fail(w, "host %u: %u FETCH_ADDs succeeded, %u may have, %llu "
                   "were executed", h->number, w->shared_adds[h->number],
                   w->shared_maybe[h->number],
                   (unsigned long long)(value - start));
    }
    mr_put64(h->counter, h->expected, offset, value);
}

/* Finds the region of an image offset, for the report. */
static uint64_t find_region(const Host *h, size_t at, uint32_t *key)
{
    for (uint32_t i = 0; i < h->mr_count; i++) {
        const SimMr *mr = &h->mr[i];
        uint64_t size = 1ull << mr->page_shift;

        for (uint32_t k = 0; k < mr->page_count; k++) {
            uint64_t page = mr->pages[k] - SIM_DMA_BASE(h->number);

            if (at >= page && at < page + size) {
                *key = mr->key;
                return k * size + (at - page) - (mr->iova & (size - 1));
            }
        }
    }
    *key = 0;
    return 0;
}

static void compare_memory(World *w, const Host *h)
{
    size_t size = (size_t)h->block_count * SIM_BLOCK;

    for (size_t at = 0; at < size; at += SIM_BLOCK) {
        if (memcmp(h->memory + at, h->expected + at, SIM_BLOCK) == 0) {
            continue;
        }
        for (size_t i = at; i < at + SIM_BLOCK; i++) {
            if (h->memory[i] != h->expected[i] && !h->unknown[i]) {
                uint32_t key;
                uint64_t offset = find_region(h, i, &key);

                world_fail(w, "host %u: memory at %zx is %02x, not %02x: a "
                              "byte that nobody may have written (key %08x, "
                           "offset %lld)", h->number, i, h->memory[i],
                           h->expected[i], key, (long long)offset);
                return;
            }
        }
    }
}

/*
 * A hostile peer may write only where it has the right. With a key of the whole
 * address space that is all of its pages.
 */
static void forget_writable(World *w)
{
    for (unsigned i = 0; i < SIM_HOSTS && w->host[i]; i++) {
        Host *h = w->host[i];

        for (uint32_t k = 0; k < h->mr_count; k++) {
            const SimMr *mr = &h->mr[k];

            if (!mr->page_count ||
                !(mr->access & FAKERNIC_ACCESS_LOCAL_WRITE) ||
                (!w->options.hostile_ppm &&
                 ROCE_PD_NUMBER(mr->pd) < SIM_PD_TENANT)) {
                continue;
            }
            mark_unknown(mr, 0, (uint32_t)mr->length);
            for (uint32_t page = 0; mr->implicit && page < mr->page_count;
                 page++) {
                memset(h->unknown + (mr->pages[page] - SIM_DMA_BASE(i)), 1,
                       1u << mr->page_shift);
            }
        }
    }
}

void model_teardown(World *w)
{
    if (!w->failed) {
        teardown_flush(w);
    }
    if (!w->failed) {
        teardown_destroy(w);
    }
    for (uint32_t i = 0; i < w->qp_count && !w->failed; i++) {
        settle_sends(w, &w->qp[i]);
    }
    for (uint32_t i = 0; i < w->rq_count && !w->failed; i++) {
        settle_recvs(&w->rq[i]);
    }
    if (w->options.hostile_ppm || w->options.tenants) {
        forget_writable(w);
    }
    for (unsigned i = 0; i < SIM_HOSTS && w->host[i] && !w->failed; i++) {
        settle_shared(w, w->host[i]);
        compare_memory(w, w->host[i]);
    }
}

/* One life: faults, then none, until all work is done; then silence. */
static void history_life(World *w)
{
    RoceTime bound = w->now + w->options.faults_ms * MS + liveness_bound(w);

    w->faults_end = w->now + w->options.faults_ms * MS;
    if (!w->failed && !world_run(w, bound, model_all_done) && !w->failed) {
        report_stuck(w);
    }
    if (!w->failed) {
        tenants_end(w);
        history_settle(w);
    }
}

bool world_history(World *w)
{
    history_life(w);
    for (uint32_t i = 1; i < w->options.lives && !w->failed; i++) {
        inject_next_life(w);
        history_life(w);
    }
    if (!w->failed) {
        model_final(w);
    }
    model_teardown(w);
    return !w->failed;
}
