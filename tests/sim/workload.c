/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Random programs, all known before the first frame.
 *
 * Each direction of a connection has a zone of the peer's memory to itself, and
 * RC executes in order; so the zone after every request, what each READ and
 * atomic returns and what each receive gets can be computed here, once, without
 * running anything. Only what time decides is left to the run: when work is
 * posted, and what the host pulls away (injections).
 */
#include <string.h>

#include "sim.h"

#define SENDS_MAX 256
#define EXTRA_RECVS 3
#define SPARE 2

/* Stands for the region made by workload_finish(). */
static SimMr arena_marker;

enum { INJECT_ERR, INJECT_RESET, INJECT_DESTROY, INJECT_MR, INJECT_DMA_ZONE,
       INJECT_DMA_RECV, INJECT_SQ_BROKEN, INJECT_RQ_BROKEN, INJECT_CQ_ERROR,
       INJECT_COUNT };

/* ---- sizes and pieces ---------------------------------------------------- */

static uint32_t pick_size(World *w, uint32_t mtu)
{
    uint32_t max = w->options.max_size, size;

    switch (rng_below(&w->rng, 10)) {
    case 0:
        return rng_below(&w->rng, 2);
    case 1:
        size = rng_range(&w->rng, 2, 64);
        break;
    case 2:
    case 3:
        size = mtu - 1 + rng_below(&w->rng, 3);
        break;
    case 4:
    case 5:
        size = mtu * rng_range(&w->rng, 1, 5) - 1 + rng_below(&w->rng, 3);
        break;
    case 6:
        size = rng_range(&w->rng, 0, max);
        break;
    default:
        size = rng_range(&w->rng, 0, max / 8);
    }
    return size <= max ? size : max;
}

/* Cuts a length into pieces, some of them empty. */
static uint8_t split(World *w, uint32_t length, SimSge **out)
{
    uint32_t n = rng_pct(&w->rng, 60) ? 1 : rng_range(&w->rng, 1, 5);
    SimSge *sge;

    if (rng_pct(&w->rng, 3)) {
        n = FAKERNIC_SGE_MAX;
    }
    if (length == 0 && rng_pct(&w->rng, 50)) {
        n = 0;
    }
    *out = sge = world_alloc(w, (n + 1) * sizeof(*sge));
    for (uint32_t i = 0; i < n; i++) {
        uint32_t part = i == n - 1 ? length : rng_below(&w->rng, length + 1);

        if (i != n - 1 && n > 5) {
            part = part < length * 2 / n ? part : length / n;
        }
        sge[i].length = part;
        length -= part;
    }
    return (uint8_t)n;
}

static void place_in_source(World *w, SimMr *from, SimSge *sge, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        sge[i].mr = from;
        sge[i].offset = rng_below(&w->rng, (uint32_t)from->length -
                                           sge[i].length + 1);
        /* IBTA C9-88: the key of an empty piece is not looked at. */
        if (!sge[i].length && rng_pct(&w->rng, 20)) {
            sge[i].mr = NULL;
        }
    }
}

static void place_in_arena(World *w, uint32_t *used, SimSge *sge, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        *used += rng_below(&w->rng, 24);
        sge[i].mr = &arena_marker;
        sge[i].offset = *used;
        *used += sge[i].length;
    }
}

/* One request per lease: there is room for it, behind some first bytes. */
static void place_in_lease(World *w, SimQp *qp, SimSge *sge, unsigned n)
{
    uint32_t at = rng_below(&w->rng, 16);

    for (unsigned i = 0; i < n; i++) {
        sge[i].mr = qp->lease;
        sge[i].offset = at;
        at += sge[i].length;
    }
}

/* ---- sends --------------------------------------------------------------- */

static uint8_t pick_opcode(World *w, const SimQp *qp)
{
    const SimOptions *o = &w->options;
    bool rc = qp->type == FAKERNIC_QP_RC;
    uint32_t reads = rc ? o->read_weight : 0;
    uint32_t atomics = rc && sim_caps[SIM_CAP_ATOMIC].present
                       ? o->atomic_weight : 0;
    uint32_t roll = rng_below(&w->rng, o->send_weight + o->write_weight +
                                       reads + atomics);
    bool imm = rng_pct(&w->rng, 30);

    if (sim_caps[SIM_CAP_NOP].present && rng_pct(&w->rng, o->nop_pct)) {
        return FAKERNIC_SQ_NOP;
    }
    if (roll < o->send_weight) {
        return imm ? FAKERNIC_SQ_SEND_IMM : FAKERNIC_SQ_SEND;
    }
    roll -= o->send_weight;
    if (roll < o->write_weight) {
        return imm ? FAKERNIC_SQ_RDMA_WRITE_IMM : FAKERNIC_SQ_RDMA_WRITE;
    }
    roll -= o->write_weight;
    if (roll < reads) {
        return FAKERNIC_SQ_RDMA_READ;
    }
    if (sim_caps[SIM_CAP_ATOMIC_WRITE].present && rng_pct(&w->rng, 20)) {
        return FAKERNIC_SQ_ATOMIC_WRITE;
    }
    if (sim_caps[SIM_CAP_ATOMIC_MASKED].present && rng_pct(&w->rng, 30)) {
        return imm ? FAKERNIC_SQ_ATOMIC_MASKED_CMP_SWAP
                   : FAKERNIC_SQ_ATOMIC_MASKED_FETCH_ADD;
    }
    return imm ? FAKERNIC_SQ_ATOMIC_CMP_SWAP : FAKERNIC_SQ_ATOMIC_FETCH_ADD;
}

/* What an atomic leaves behind (IBTA 9.4.5). */
static uint64_t atomic_result(const SimSend *s, uint64_t value)
{
    uint64_t top = s->mask;

    switch (s->opcode) {
    case FAKERNIC_SQ_ATOMIC_CMP_SWAP:
        return value == s->compare ? s->operand : value;
    case FAKERNIC_SQ_ATOMIC_FETCH_ADD:
        return value + s->operand;
    case FAKERNIC_SQ_ATOMIC_MASKED_CMP_SWAP:
        return (value ^ s->compare) & s->compare_mask
               ? value : (value & ~s->mask) | (s->operand & s->mask);
    default:
        /* No carry leaves a field; a mask bit is the top bit of one. */
        return ((value & ~top) + (s->operand & ~top)) ^
               ((value ^ s->operand) & top);
    }
}

static void build_atomic(World *w, SimQp *qp, SimSend *s)
{
    const SimMr *mr = s->shared ? qp->peer->host->counter : qp->zone;
    uint32_t first = (uint32_t)(-mr->iova & 7);
    uint64_t value;

    s->operand = rng_next(&w->rng);
    if (s->shared) {
        s->zone_offset = first;
        s->operand = 1;
        return;
    }
    s->zone_offset = first + 8 * rng_below(&w->rng, 4);
    memcpy(&value, qp->shadow + s->zone_offset, 8);
    s->original = value;
    s->compare = rng_pct(&w->rng, 60) ? value : rng_next(&w->rng);
    if (s->opcode > FAKERNIC_SQ_ATOMIC_FETCH_ADD) {
        s->mask = rng_next(&w->rng);
        s->compare_mask = rng_next(&w->rng);
    }
    value = atomic_result(s, value);
    s->result = value;
    memcpy(qp->shadow + s->zone_offset, &value, 8);
}

static void build_one_sided(World *w, SimQp *qp, SimSend *s)
{
    if (opcode_is_atomic(s->opcode)) {
        build_atomic(w, qp, s);
        return;
    }
    s->zone_offset = rng_below(&w->rng,
                               (uint32_t)qp->zone->length - s->length + 1);
    if (s->opcode == FAKERNIC_SQ_ATOMIC_WRITE) {
        s->zone_offset = (uint32_t)(-qp->zone->iova & 7) +
                         8 * rng_below(&w->rng, 4);
    }
    if (s->opcode == FAKERNIC_SQ_RDMA_READ) {
        memcpy(s->data, qp->shadow + s->zone_offset, s->length);
    } else {
        memcpy(qp->shadow + s->zone_offset, s->data, s->length);
    }
}

static void build_data(World *w, SimQp *qp, SimSend *s)
{
    uint32_t at = 0;

    s->data = world_alloc(w, s->length + 1);
    if (s->opcode >= FAKERNIC_SQ_LOCAL_INV) {
        return;
    }
    if (s->opcode == FAKERNIC_SQ_ATOMIC_WRITE) {
        s->sge = world_alloc(w, sizeof(*s->sge));
        s->sge->length = 8;
        s->sge_count = 1;
    } else {
        s->sge_count = split(w, s->length, &s->sge);
    }
    if (s->opcode == FAKERNIC_SQ_RDMA_READ || opcode_is_atomic(s->opcode)) {
        if (qp->lease && qp->lease_into) {
            place_in_lease(w, qp, s->sge, s->sge_count);
        } else {
            place_in_arena(w, &qp->arena_used, s->sge, s->sge_count);
        }
        return;
    }
    place_in_source(w, qp->lease && !qp->lease_into ? qp->lease
                                                    : qp->host->source,
                    s->sge, s->sge_count);
    for (unsigned i = 0; i < s->sge_count; i++) {
        if (s->sge[i].length) {
            mr_get(s->sge[i].mr, qp->host->expected, s->sge[i].offset,
                   s->data + at, s->sge[i].length);
            at += s->sge[i].length;
        }
    }
}

SimSend *workload_add_send(SimQp *qp, uint8_t opcode, uint32_t length,
                           uint8_t flags)
{
    World *w = qp->world;
    SimSend *s;

    if (!qp->send) {
        qp->send = world_alloc(w, SENDS_MAX * sizeof(*qp->send));
        qp->message = world_alloc(w, SENDS_MAX * sizeof(*qp->message));
        qp->planned = -1;
    }
    s = &qp->send[qp->send_count];
    s->opcode = opcode;
    s->flags = flags;
    s->length = opcode_is_atomic(opcode) || opcode == FAKERNIC_SQ_ATOMIC_WRITE
                ? 8 : opcode == FAKERNIC_SQ_NOP ? 0 : length;
    s->message = -1;
    if (opcode == FAKERNIC_SQ_SEND_IMM ||
        opcode == FAKERNIC_SQ_RDMA_WRITE_IMM) {
        s->imm = (uint32_t)rng_next(&w->rng);
    }
    build_data(w, qp, s);
    if (opcode == FAKERNIC_SQ_SEND || opcode == FAKERNIC_SQ_SEND_IMM ||
        opcode == FAKERNIC_SQ_SEND_INV ||
        opcode == FAKERNIC_SQ_RDMA_WRITE_IMM) {
        s->message = (int32_t)qp->message_count;
        qp->message[qp->message_count++] = (int32_t)qp->send_count;
    }
    if (!opcode_is_send(opcode) && opcode < FAKERNIC_SQ_LOCAL_INV) {
        build_one_sided(w, qp, s);
    }
    qp->send_count++;
    return s;
}

static uint8_t pick_flags(World *w, uint8_t opcode, uint32_t length, bool last)
{
    const SimOptions *o = &w->options;
    uint8_t flags = 0;

    if (last || !rng_pct(&w->rng, o->unsignaled_pct)) {
        flags |= FAKERNIC_SQ_SIGNALED;
    }
    if (rng_pct(&w->rng, o->solicited_pct)) {
        flags |= FAKERNIC_SQ_SOLICITED;
    }
    if (rng_pct(&w->rng, o->fence_pct)) {
        flags |= FAKERNIC_SQ_FENCE;
    }
    if (length <= FAKERNIC_INLINE_MAX &&
        (opcode <= FAKERNIC_SQ_RDMA_WRITE_IMM ||
         opcode == FAKERNIC_SQ_ATOMIC_WRITE) &&
        rng_pct(&w->rng, o->inline_pct)) {
        flags |= FAKERNIC_SQ_INLINE;
    }
    return flags;
}

/* ---- planned errors ------------------------------------------------------ */

static bool error_fits(const SimQp *qp, const SimSend *s, SimError e)
{
    bool one_sided = !opcode_is_send(s->opcode);

    switch (e) {
    case SIM_ERR_RKEY_INDEX:
    case SIM_ERR_RKEY_TAG:
    case SIM_ERR_RKEY_PD:
    case SIM_ERR_ACCESS:
        return one_sided && s->length && !s->shared;
    case SIM_ERR_BOUNDS:
        return one_sided && s->length && !s->shared &&
               !opcode_is_atomic(s->opcode) &&
               s->opcode != FAKERNIC_SQ_ATOMIC_WRITE;
    case SIM_ERR_ALIGN:
        return opcode_is_atomic(s->opcode) && !s->shared;
    case SIM_ERR_LKEY:
    case SIM_ERR_LBOUNDS:
        return s->length && !(s->flags & FAKERNIC_SQ_INLINE) &&
               s->sge[s->sge_count - 1].length;
    case SIM_ERR_FORMAT:
        return true;
    case SIM_ERR_RECV_SMALL:
    case SIM_ERR_RECV_LKEY:
        return !one_sided && s->length && !qp->peer->rq->srqn;
    default:
        return false;
    }
}

static void plan_error(World *w, SimConn *conn)
{
    SimQp *qp = conn->side[rng_below(&w->rng, 2)];

    for (unsigned tries = 0; tries < 20 && qp->send_count; tries++) {
        uint32_t i = rng_below(&w->rng, qp->send_count);
        SimError e = (SimError)rng_range(&w->rng, 1, SIM_ERR_RECV_LKEY);
        SimSend *s = &qp->send[i];

        if (!error_fits(qp, s, e)) {
            continue;
        }
        s->error = e;
        qp->planned = (int32_t)i;
        qp->peer->planned_responder = e != SIM_ERR_LKEY &&
                                      e != SIM_ERR_LBOUNDS &&
                                      e != SIM_ERR_FORMAT;
        if (e == SIM_ERR_LKEY) {
            s->sge[s->sge_count - 1].mr = NULL;
        }
        return;
    }
}

/* ---- receives ------------------------------------------------------------ */

SimRecv *workload_add_recv(SimRq *rq, uint32_t length)
{
    World *w = rq->host->world;
    SimRecv *r;

    if (!rq->recv) {
        rq->recv = world_alloc(w, SENDS_MAX * 4 * sizeof(*rq->recv));
    }
    r = &rq->recv[rq->count + rq->spare];
    r->length = length;
    r->sge_count = split(w, length, &r->sge);
    place_in_arena(w, &rq->arena_used, r->sge, r->sge_count);
    if (rq->spare) {
        rq->spare++;
    } else {
        rq->count++;
    }
    return r;
}

/* UC loses messages: a receive has to do for any of them. */
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

        if (w->qp[i].rq == rq && peer) {
            uint32_t length = longest_message(peer);

            messages += peer->message_count;
            longest = length > longest ? length : longest;
        }
    }
    /* A QP in error holds one receive; leave enough for the others. */
    for (uint32_t i = 0; i < messages + SIM_CONNS; i++) {
        workload_add_recv(rq, longest);
    }
}

static void build_spares(World *w, SimQp *qp)
{
    workload_add_send(qp, FAKERNIC_SQ_SEND, 0, 0);
    qp->send_count--;
    qp->message_count--;
    qp->send[qp->send_count].message = -1;
    if (!qp->rq->srqn && !qp->rq->spare) {
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
        if (w->rq[i].host == h && w->rq[i].srqn) {
            return &w->rq[i];
        }
    }
    return host_rq_new(h, true);
}

static void build_host(Host *h)
{
    const SimOptions *o = &h->world->options;

    if (!h->source) {
        h->source = host_mr_new(h, o->max_size * 2 + 32768, 0, 7);
        h->counter = host_mr_new(h, 16, FAKERNIC_ACCESS_LOCAL_WRITE |
                                        FAKERNIC_ACCESS_REMOTE_ATOMIC, 7);
        h->world->shared_seen[h->number] = world_alloc(h->world, 4096);
    }
}

static void build_zone(World *w, SimQp *qp)
{
    Host *there = qp->peer->host;
    uint32_t size = w->options.max_size + rng_below(&w->rng, 2048) + 64;
    uint32_t all = (uint32_t)(FAKERNIC_ACCESS_LOCAL_WRITE |
                              FAKERNIC_ACCESS_REMOTE_WRITE |
                              FAKERNIC_ACCESS_REMOTE_READ |
                              FAKERNIC_ACCESS_REMOTE_ATOMIC);

    qp->zone = host_mr_new(there, size, all, 7);
    if (w->options.error_pct) {
        qp->zone_ro = host_mr_new(there, size, FAKERNIC_ACCESS_LOCAL_WRITE, 7);
        qp->zone_pd = host_mr_new(there, size, all, 8);
    }
    qp->shadow = world_alloc(w, size);
    mr_get(qp->zone, there->expected, 0, qp->shadow, size);
}

SimConn *workload_connect(World *w, unsigned a, unsigned b, uint8_t type)
{
    SimConn *conn = &w->conn[w->conn_count];
    Host *host[2] = { w->host[a], w->host[b] };

    *conn = (SimConn){ .number = w->conn_count++ };
    for (unsigned i = 0; i < 2; i++) {
        build_host(host[i]);
        conn->side[i] = host_qp_new(host[i], type, pick_rq(w, host[i]));
        conn->side[i]->conn = conn;
        conn->side[i]->planned = -1;
    }
    conn->side[1]->mtu = conn->side[0]->mtu;
    conn->side[1]->gid_index = conn->side[0]->gid_index;
    for (unsigned i = 0; i < 2; i++) {
        conn->side[i]->peer = conn->side[!i];
        build_zone(w, conn->side[i]);
    }
    for (unsigned i = 0; i < 2; i++) {
        host_connect(conn->side[i], conn->side[!i], conn->side[!i]->sq_psn);
    }
    return conn;
}

SimSend *workload_add_key(SimQp *qp, uint8_t opcode, SimMr *mr, SimMr *parent,
                          uint8_t flags)
{
    SimSend *s = workload_add_send(qp, opcode, 0, flags);

    s->mr = mr;
    s->parent = parent;
    s->imm = opcode == FAKERNIC_SQ_LOCAL_INV ? mr->key : 0;
    return s;
}

/* REG_MR, requests that use it, LOCAL_INV: as kernel clients do. */
static void build_lease(World *w, SimQp *qp)
{
    static const uint8_t opcodes[] = {
        FAKERNIC_SQ_SEND, FAKERNIC_SQ_RDMA_WRITE, FAKERNIC_SQ_RDMA_WRITE_IMM,
        FAKERNIC_SQ_RDMA_READ,
    };
    uint8_t opcode = opcodes[rng_below(&w->rng, 4)];
    uint32_t size = pick_size(w, mtu_bytes(qp->mtu)), used = 1;

    qp->lease_into = opcode == FAKERNIC_SQ_RDMA_READ;
    qp->lease = host_fast_mr_next(qp->fast, w->options.max_size + 64,
                                  FAKERNIC_ACCESS_LOCAL_WRITE);
    workload_add_key(qp, FAKERNIC_SQ_REG_MR, qp->lease, NULL,
                     pick_flags(w, FAKERNIC_SQ_REG_MR, 0, false));
    if (!qp->lease_into) {
        used = rng_range(&w->rng, 1, 3);
    }
    while (used--) {
        workload_add_send(qp, opcode, size, pick_flags(w, opcode, size, false));
    }
    workload_add_key(qp, FAKERNIC_SQ_LOCAL_INV, qp->lease, NULL,
                     pick_flags(w, FAKERNIC_SQ_LOCAL_INV, 0, false));
    if (qp->planned < 0 && qp->peer->planned < 0 && size &&
        rng_pct(&w->rng, w->options.error_pct / 8)) {
        SimSend *s = workload_add_send(qp, opcode, size, FAKERNIC_SQ_SIGNALED);

        s->error = SIM_ERR_STALE;
        qp->planned = (int32_t)qp->send_count - 1;
    }
    qp->lease = NULL;
}

static void build_program(World *w, SimQp *qp)
{
    uint32_t count = rng_range(&w->rng, 0, w->options.sends);

    if (sim_caps[SIM_CAP_FAST_REG].present && qp->type == FAKERNIC_QP_RC &&
        w->options.lease_pct) {
        qp->fast = host_fast_mr_new(qp->host, w->options.max_size / 4096 + 3);
    }

    for (uint32_t i = 0; i < count; i++) {
        uint8_t opcode;
        uint32_t size;
        bool shared;
        SimSend *s;

        if (qp->fast && rng_pct(&w->rng, w->options.lease_pct)) {
            build_lease(w, qp);
        }
        opcode = pick_opcode(w, qp);
        size = pick_size(w, mtu_bytes(qp->mtu));
        shared = opcode == FAKERNIC_SQ_ATOMIC_FETCH_ADD &&
                 rng_pct(&w->rng, 40);
        s = workload_add_send(qp, opcode, size,
                              pick_flags(w, opcode, size, i == count - 1));

        /* It moves to the word shared by all; the zone forgets it. */
        if (shared) {
            memcpy(qp->shadow + s->zone_offset, &s->original, 8);
            s->shared = true;
            build_atomic(w, qp, s);
        }
    }
}

/* A local error ends in SQE; a wrong Q_Key is the receiver's to see. */
static void plan_datagram_error(World *w, SimQp *qp)
{
    static const SimError errors[] = {
        SIM_ERR_LKEY, SIM_ERR_LBOUNDS, SIM_ERR_FORMAT, SIM_ERR_QKEY,
    };

    for (unsigned tries = 0; tries < 20 && qp->send_count; tries++) {
        uint32_t i = rng_below(&w->rng, qp->send_count);
        SimError e = errors[rng_below(&w->rng, 4)];
        SimSend *s = &qp->send[i];

        if (e == SIM_ERR_QKEY) {
            if (s->ud_dest->type == FAKERNIC_QP_UD) {
                s->error = e;
            }
            continue;
        }
        if (error_fits(qp, s, e)) {
            s->error = e;
            qp->planned = (int32_t)i;
            if (e == SIM_ERR_LKEY) {
                s->sge[s->sge_count - 1].mr = NULL;
            }
            return;
        }
    }
}

static void build_datagrams(World *w)
{
    SimQp *ud[SIM_HOSTS * 2];
    uint32_t count = 0;

    for (unsigned i = 0; i < w->options.hosts; i++) {
        uint8_t type = rng_pct(&w->rng, w->options.gsi_pct)
                       ? FAKERNIC_QP_GSI : FAKERNIC_QP_UD;

        build_host(w->host[i]);
        ud[count] = host_qp_new(w->host[i], type,
                                host_rq_new(w->host[i], false));
        ud[count]->gid_index = ud[0]->gid_index;
        host_connect(ud[count++], NULL, 0);
    }
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t k = rng_below(&w->rng, w->options.datagrams + 1); k;
             k--) {
            SimQp *to = ud[rng_below(&w->rng, count)];
            uint32_t size = pick_size(w, 4096);
            uint8_t opcode = rng_pct(&w->rng, 30) ? FAKERNIC_SQ_SEND_IMM
                                                  : FAKERNIC_SQ_SEND;
            SimSend *s;

            /* Only GSI has the right to GSI's Q_Key (IBTA 10.2.5). */
            if (to->type == FAKERNIC_QP_GSI && ud[i]->type != to->type) {
                to = ud[i];
            }
            size = size > 4096 ? 4096 : size;
            s = workload_add_send(ud[i], opcode, size,
                                  pick_flags(w, opcode, size, k == 1));
            s->ud_dest = to;
            if (rng_pct(&w->rng, 100 - w->options.ud_no_recv_pct)) {
                uint32_t room = SIM_GRH + 4096;

                /* Too small ones: the datagram is dropped. */
                if (rng_pct(&w->rng, w->options.ud_no_recv_pct)) {
                    room = rng_below(&w->rng, 300);
                }
                workload_add_recv(to->rq, room);
            }
        }
        if (rng_pct(&w->rng, w->options.error_pct)) {
            plan_datagram_error(w, ud[i]);
        }
    }
}

static void finish_arena(World *w, Host *h, SimMr **arena, uint32_t used)
{
    if (used) {
        *arena = host_mr_new(h, used + rng_below(&w->rng, 16) + 1,
                             FAKERNIC_ACCESS_LOCAL_WRITE, 7);
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

        finish_arena(w, qp->host, &qp->arena, qp->arena_used);
        for (uint32_t k = 0; k < qp->send_count; k++) {
            patch_sges(qp->send[k].sge, qp->send[k].sge_count, qp->arena);
        }
    }
    for (uint32_t i = 0; i < w->rq_count; i++) {
        SimRq *rq = &w->rq[i];

        finish_arena(w, rq->host, &rq->arena, rq->arena_used);
        for (uint32_t k = 0; k < rq->count + rq->spare; k++) {
            patch_sges(rq->recv[k].sge, rq->recv[k].sge_count, rq->arena);
        }
    }
}

/* ---- time ---------------------------------------------------------------- */

/* Where the first life of a QP ends; receives are posted for all of them. */
static void set_lives(World *w)
{
    for (uint32_t i = 0; i < w->qp_count; i++) {
        SimQp *qp = &w->qp[i];

        qp->life_end = qp->send_count;
        if (w->options.lives > 1 && qp->type != FAKERNIC_QP_UC) {
            qp->life_end = rng_below(&w->rng, qp->send_count + 1);
        }
        /* What is silent cannot be waited for. */
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

static void schedule_posts(World *w)
{
    const SimOptions *o = &w->options;

    for (uint32_t i = 0; i < w->qp_count; i++) {
        schedule_sends(w, i);
    }
    for (uint32_t i = 0; i < w->rq_count; i++) {
        SimRq *rq = &w->rq[i];
        uint32_t left = rq->count;

        if (rng_pct(&w->rng, 100 - o->late_recv_pct)) {
            host_post_recv(rq, left);
            continue;
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
}

static void schedule_injections(World *w)
{
    for (uint32_t i = 0; i < w->conn_count; i++) {
        if (rng_pct(&w->rng, w->options.inject_pct)) {
            RoceTime span = w->options.post_gap_us * US *
                            (w->options.sends / 2 + 2);
            SimEvent *ev = world_schedule(w, w->now + rng_below(&w->rng,
                                          (uint32_t)span), EV_INJECT, 0);

            ev->a = i;
            ev->b = (uint32_t)rng_next(&w->rng);
        }
    }
}

static void fail_dma(SimMr *mr, Rng *rng)
{
    uint32_t page = rng_below(rng, mr->page_count);

    mr->host->dma_fail_lo = mr->pages[page];
    mr->host->dma_fail_hi = mr->pages[page] + (1ull << mr->page_shift);
}

static void inject(World *w, SimConn *conn, uint32_t roll)
{
    SimQp *qp = conn->side[roll & 1];
    uint32_t kind = (roll >> 1) % INJECT_COUNT;

    conn->injected = true;
    world_log(w, qp->host->number, LOG_INJECT, kind, qp->qpn, 0, 0, 0);
    switch (kind) {
    case INJECT_ERR:
    case INJECT_RESET:
        qp->error = true;
        /* Completions of the flush come during the call: RESET has none. */
        qp->silent = kind == INJECT_RESET;
        if (host_modify_state(qp, kind == INJECT_ERR ? FAKERNIC_QPS_ERR
                                                     : FAKERNIC_QPS_RESET)) {
            world_fail(w, "modify in mid-flight was refused");
        }
        break;
    case INJECT_DESTROY:
        host_qp_destroy(qp);
        break;
    case INJECT_MR:
        host_mr_destroy(qp->zone);
        break;
    case INJECT_DMA_ZONE:
        fail_dma(qp->zone, &w->rng);
        break;
    case INJECT_DMA_RECV:
        if (qp->rq->arena && !qp->rq->srqn) {
            fail_dma(qp->rq->arena, &w->rng);
        }
        break;
    case INJECT_SQ_BROKEN:
        qp->sq_broken = true;
        break;
    case INJECT_RQ_BROKEN:
        qp->rq_broken = true;
        break;
    case INJECT_CQ_ERROR:
        qp->error = true;
        roce_qp_error(qp->host->roce, w->now, qp->qpn,
                      FAKERNIC_VENDOR_CQ_OVERRUN);
        break;
    }
    world_pump(w, qp->host);
    world_pump(w, qp->zone->host);
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
    qp->paused = pause;
    qp->drained = false;
    attr = (RoceQpAttr){ .state = pause ? FAKERNIC_QPS_SQD : FAKERNIC_QPS_RTS,
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

        if (w->qp[i].conn && rng_pct(&w->rng, w->options.pause_pct)) {
            world_schedule(w, at, EV_PAUSE, 0)->a = i;
            at += rng_below(&w->rng, rng_pct(&w->rng, 50) ? 3000000 : 50000);
            world_schedule(w, at + 1, EV_RESUME, 0)->a = i;
        }
    }
}

void workload_event(World *w, const SimEvent *ev)
{
    SimQp *qp;

    switch (ev->kind) {
    case EV_POST_SEND:
        qp = &w->qp[ev->a];
        host_post_send(qp, rng_range(&w->rng, 1, 8));
        if (qp->posted < qp->life_end) {
            schedule_sends(w, ev->a);
        }
        break;
    case EV_POST_RECV:
        host_post_recv(&w->rq[ev->a], ev->b);
        break;
    case EV_INJECT:
        inject(w, &w->conn[ev->a], ev->b);
        break;
    case EV_PAUSE:
    case EV_RESUME:
        change_pause(w, &w->qp[ev->a], ev->kind == EV_PAUSE);
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
            qp->type != FAKERNIC_QP_RC) {
            return false;
        }
    }
    return !conn->injected && !model_may_break(conn->side[0]);
}

/* SQE is left by the host's word; what was flushed stays so (10.3.1.6). */
static void recover_datagrams(World *w)
{
    for (uint32_t i = 0; i < w->qp_count; i++) {
        SimQp *qp = &w->qp[i];

        if (!qp->conn && qp->sq_failed) {
            qp->sq_failed = false;
            if (host_modify_state(qp, FAKERNIC_QPS_RTS) != FAKERNIC_CMD_OK) {
                world_fail(w, "QP %u: SQE to RTS was refused", qp->qpn);
            }
        }
    }
}

void workload_next_life(World *w)
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
}

void workload_build(World *w)
{
    const SimOptions *o = &w->options;

    for (uint32_t i = 0; i < o->conns && !w->failed; i++) {
        unsigned a = rng_below(&w->rng, o->hosts);
        unsigned b = rng_pct(&w->rng, o->loopback_pct) || o->hosts == 1
                     ? a : (a + rng_range(&w->rng, 1, o->hosts - 1)) % o->hosts;
        bool uc = sim_caps[SIM_CAP_UC].present && rng_pct(&w->rng, o->uc_pct);

        workload_connect(w, a, b, uc ? FAKERNIC_QP_UC : FAKERNIC_QP_RC);
    }
    for (uint32_t i = 0; i < w->conn_count && !w->failed; i++) {
        for (unsigned side = 0; side < 2; side++) {
            build_program(w, w->conn[i].side[side]);
        }
        if (w->conn[i].side[0]->planned < 0 &&
            w->conn[i].side[1]->planned < 0 && rng_pct(&w->rng, o->error_pct)) {
            plan_error(w, &w->conn[i]);
        }
    }
    for (uint32_t i = 0; i < w->qp_count && !w->failed; i++) {
        if (!w->qp[i].rq->srqn) {
            build_recvs(w, &w->qp[i]);
        }
    }
    for (uint32_t i = 0; i < w->rq_count && !w->failed; i++) {
        if (w->rq[i].srqn) {
            build_shared_recvs(w, &w->rq[i]);
        }
    }
    if (o->datagrams && !w->failed) {
        build_datagrams(w);
    }
    workload_finish(w);
    set_lives(w);
    schedule_posts(w);
    schedule_injections(w);
    schedule_pauses(w);
}
