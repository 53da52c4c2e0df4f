/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The parts of programs: sizes, scatter/gather lists, one request, one receive,
 * and the effect of a request on the memory that it addresses.
 *
 * All results are known before the first frame. Each direction of a connection
 * has its own zone of the peer's memory, and RC executes in order. So this file
 * can compute the zone after every request, and what each READ and atomic
 * returns, without running anything.
 */
#include <string.h>

#include "../bytes.h"
#include "sim.h"

#define SENDS_MAX 256

/* Stands for the region made by workload_finish(). */
SimMr arena_marker;

/* ---- sizes and pieces ---------------------------------------------------- */

uint32_t program_size(World *w, uint32_t mtu)
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
        /* IBTA C9-88: the key of an empty piece is not checked. */
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

/* One request per lease, which has room for it behind some first bytes. */
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

uint8_t program_opcode(World *w, const SimQp *qp)
{
    const SimOptions *o = &w->options;
    bool rc = qp_is_reliable(qp);
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
        return rng_pct(&w->rng, o->flush_pct) ? FAKERNIC_SQ_FLUSH
                                              : FAKERNIC_SQ_RDMA_READ;
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

/* The value after an atomic (IBTA 9.4.5). */
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
        /* Carries stay in their field; a mask bit is the top bit of one. */
        return ((value & ~top) + (s->operand & ~top)) ^
               ((value ^ s->operand) & top);
    }
}

static void build_atomic(World *w, SimQp *qp, SimSend *s)
{
    const SimMr *mr = s->shared ? qp->peer->host->counter : s->zone;
    uint32_t first = (uint32_t)(-mr->iova & 7);
    uint64_t value;

    s->operand = rng_next(&w->rng);
    if (s->shared) {
        s->zone_offset = first;
        s->operand = 1;
        return;
    }
    s->zone_offset = first + 8 * rng_below(&w->rng, 4);
    value = bytes_load64(s->zone->shadow + s->zone_offset);
    s->original = value;
    s->compare = rng_pct(&w->rng, 60) ? value : rng_next(&w->rng);
    if (s->opcode > FAKERNIC_SQ_ATOMIC_FETCH_ADD) {
        s->mask = rng_next(&w->rng);
        s->compare_mask = rng_next(&w->rng);
    }
    value = atomic_result(s, value);
    s->result = value;
    bytes_store64(s->zone->shadow + s->zone_offset, value);
}

static void build_one_sided(World *w, SimQp *qp, SimSend *s)
{
    s->zone = qp->target ? qp->target
              : s->xrc && s->xrc->pd == SIM_PD_XRC ? qp->zone_xrc : qp->zone;
    if (opcode_is_atomic(s->opcode)) {
        build_atomic(w, qp, s);
        return;
    }
    s->zone_offset = rng_below(&w->rng,
                               (uint32_t)s->zone->length - s->length + 1);
    if (s->opcode == FAKERNIC_SQ_ATOMIC_WRITE) {
        s->zone_offset = (uint32_t)(-s->zone->iova & 7) +
                         8 * rng_below(&w->rng, 4);
    }
    if (s->opcode == FAKERNIC_SQ_FLUSH) {
        s->flush = (uint8_t)(rng_range(&w->rng, 1, 3) |
                             (rng_pct(&w->rng, 20) ? FAKERNIC_FLUSH_LEVEL_MR
                                                   : 0));
        /* No FLUSH of a whole region that may be all the address space. */
        if (s->zone->on_demand) {
            s->flush &= (uint8_t)~FAKERNIC_FLUSH_LEVEL_MR;
        }
    }
    if (opcode_is_read(s->opcode) || s->opcode == FAKERNIC_SQ_FLUSH) {
        memcpy(s->data, s->zone->shadow + s->zone_offset, s->length);
    } else {
        memcpy(s->zone->shadow + s->zone_offset, s->data, s->length);
    }
}

static void build_data(World *w, SimQp *qp, SimSend *s)
{
    uint32_t at = 0;

    s->data = world_alloc(w, s->length + 1);
    if (s->opcode >= FAKERNIC_SQ_LOCAL_INV) {
        return;
    }
    if (s->opcode == FAKERNIC_SQ_ATOMIC_WRITE ||
        s->opcode == FAKERNIC_SQ_FLUSH) {
        s->sge = world_alloc(w, sizeof(*s->sge));
        s->sge->length = s->length;
        s->sge_count = 1;
    } else {
        s->sge_count = split(w, s->length, &s->sge);
    }
    if (s->opcode == FAKERNIC_SQ_FLUSH) {
        return;                 /* only the length of its SGE counts */
    }
    if (opcode_is_read(s->opcode) || opcode_is_atomic(s->opcode)) {
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

/* Redirects the last request to the word to which all QPs add, and undoes its
 * effect on the zone. */
void program_share(SimQp *qp)
{
    SimSend *s = &qp->send[qp->send_count - 1];

    bytes_store64(s->zone->shadow + s->zone_offset, s->original);
    s->shared = true;
    build_atomic(qp->world, qp, s);
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
    if (qp->send_count >= SENDS_MAX - 1) {
        world_fail(w, "the simulator's program is full");
        qp->send_count--;
    }
    s = &qp->send[qp->send_count];
    s->opcode = opcode;
    s->flags = flags;
    s->length = opcode_is_atomic(opcode) || opcode == FAKERNIC_SQ_ATOMIC_WRITE
                ? 8 : opcode == FAKERNIC_SQ_NOP ? 0 : length;
    s->message = -1;
    if (qp->type == FAKERNIC_QP_XRC_INI) {
        s->xrc = qp->xrc[rng_pct(&w->rng, 40)];
    }
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

uint8_t program_flags(World *w, uint8_t opcode, uint32_t length, bool last)
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
