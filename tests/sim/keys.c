/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Keys that work requests create and invalidate: leases, which a QP makes for
 * its own use (as kernel clients do), and grants, which it makes for its peer.
 *
 * A send that must follow one of the other side is posted after that one
 * (SimSend.after). A real application would use a message for it.
 */
#include "sim.h"


enum { GRANT_REGION, GRANT_WINDOW_1, GRANT_WINDOW_2B };

SimSend *workload_add_key(SimQp *qp, uint8_t opcode, SimMr *mr, SimMr *parent,
                          uint8_t flags)
{
    SimSend *s = workload_add_send(qp, opcode, 0, flags);

    s->mr = mr;
    s->parent = parent;
    s->imm = opcode == FAKERNIC_SQ_LOCAL_INV ? mr->key : 0;
    return s;
}

static SimSend *last_send(const SimQp *qp)
{
    return &qp->send[qp->send_count - 1];
}

/* 's' waits for the last send of 'of', which must be signaled. */
static void wait_for(SimSend *s, SimQp *of)
{
    last_send(of)->flags |= FAKERNIC_SQ_SIGNALED;
    s->after = of;
    s->after_index = of->send_count - 1;
}

void keys_prepare(SimQp *qp)
{
    const SimOptions *o = &qp->world->options;

    if (qp_is_reliable(qp) && o->lease_pct) {
        qp->fast = host_fast_mr_new(qp->host, o->max_size / 4096 + 3);
    }
    if (qp->type == FAKERNIC_QP_RC && o->grant_pct) {
        qp->window_region = host_mr_new(qp->host, 2 * o->max_size + 4096,
                                        FAKERNIC_ACCESS_LOCAL_WRITE |
                                        FAKERNIC_ACCESS_MW_BIND, SIM_PD);
        mr_shadow(qp->window_region);
    }
}

/* ---- leases -------------------------------------------------------------- */

/* A lease ends by LOCAL_INV, or by the READ that filled it. */
static void end_lease(World *w, SimQp *qp, uint8_t opcode)
{
    if (opcode == FAKERNIC_SQ_RDMA_READ_INV) {
        SimSend *s = last_send(qp);

        s->imm = qp->lease->key;
        return;
    }
    workload_add_key(qp, FAKERNIC_SQ_LOCAL_INV, qp->lease, NULL,
                     program_flags(w, FAKERNIC_SQ_LOCAL_INV, 0, false));
}

void keys_lease(World *w, SimQp *qp)
{
    static const uint8_t opcodes[] = {
        FAKERNIC_SQ_SEND, FAKERNIC_SQ_RDMA_WRITE, FAKERNIC_SQ_RDMA_WRITE_IMM,
        FAKERNIC_SQ_RDMA_READ, FAKERNIC_SQ_RDMA_READ_INV,
    };
    uint8_t opcode = opcodes[rng_below(&w->rng, 5)];
    uint32_t size = program_size(w, mtu_bytes(qp->mtu)), used = 1;
    SimSend *s;

    qp->lease_into = opcode_is_read(opcode);
    qp->lease = host_fast_mr_next(qp->fast, w->options.max_size + 64,
                                  FAKERNIC_ACCESS_LOCAL_WRITE);
    s = workload_add_key(qp, FAKERNIC_SQ_REG_MR, qp->lease, NULL,
                         program_flags(w, FAKERNIC_SQ_REG_MR, 0, false));
    /* The READ before it invalidates the old registration. */
    if (qp->lease_pending) {
        s->after = qp;
        s->after_index = qp->lease_pending - 1;
    }
    qp->lease_pending = 0;
    if (!qp->lease_into) {
        used = rng_range(&w->rng, 1, 3);
    }
    while (used--) {
        workload_add_send(qp, opcode, size,
                          program_flags(w, opcode, size, false));
    }
    end_lease(w, qp, opcode);
    if (opcode == FAKERNIC_SQ_RDMA_READ_INV) {
        last_send(qp)->flags |= FAKERNIC_SQ_SIGNALED;
        qp->lease_pending = qp->send_count;
    } else if (qp->planned < 0 && qp->peer->planned < 0 && size &&
               rng_pct(&w->rng, w->options.error_pct / 8)) {
        s = workload_add_send(qp, opcode, size, FAKERNIC_SQ_SIGNALED);
        s->error = SIM_ERR_STALE;
        qp->planned = (int32_t)qp->send_count - 1;
    }
    qp->lease = NULL;
}

/* ---- grants -------------------------------------------------------------- */

/* The owner's request that makes 'next' usable for the peer. */
static SimSend *open_grant(World *w, SimQp *owner, unsigned kind, SimMr **next)
{
    uint32_t length = w->options.max_size + 64;
    uint32_t access = (uint32_t)SIM_REMOTE;
    SimMr *key = owner->granted[kind], *before = owner->granted_last[kind];
    SimSend *s;

    if (kind == GRANT_REGION) {
        if (!key) {
            key = owner->granted[kind] =
                host_fast_mr_new(owner->host, w->options.max_size / 4096 + 3);
        }
        *next = host_fast_mr_next(key, length,
                                  access | FAKERNIC_ACCESS_LOCAL_WRITE);
        mr_shadow(*next);
        s = workload_add_key(owner, FAKERNIC_SQ_REG_MR, *next, NULL,
                             FAKERNIC_SQ_SIGNALED);
    } else {
        if (!key) {
            key = owner->granted[kind] =
                host_mw_new(owner->host, kind == GRANT_WINDOW_1
                                             ? FAKERNIC_MW_TYPE_1
                                             : FAKERNIC_MW_TYPE_2B);
        }
        *next = host_mw_next(before ? before : key, owner->window_region,
                             rng_below(&w->rng, w->options.max_size), length,
                             access);
        s = workload_add_key(owner, FAKERNIC_SQ_BIND_MW, *next,
                             owner->window_region, FAKERNIC_SQ_SIGNALED);
        s->imm = before ? before->key : key->key;
    }
    owner->granted_last[kind] = *next;
    return s;
}

/* A type 1 window ends by a bind to another place or of length 0. */
static void unbind(World *w, SimQp *owner, SimMr *window)
{
    SimMr *nothing = world_alloc(w, sizeof(*nothing));
    SimSend *s;

    *nothing = *window;
    nothing->key = (window->key & ~0xffu) | (uint8_t)(window->key + 1);
    nothing->length = 0;
    s = workload_add_key(owner, FAKERNIC_SQ_BIND_MW, nothing,
                         owner->window_region, FAKERNIC_SQ_SIGNALED);
    s->imm = window->key;
    owner->granted_last[GRANT_WINDOW_1] = nothing;
}

static void use_grant(World *w, SimQp *qp, SimMr *target)
{
    uint32_t used = rng_range(&w->rng, 1, 3);

    qp->target = target;
    for (uint32_t i = 0; i < used; i++) {
        uint8_t opcode;
        uint32_t size = program_size(w, mtu_bytes(qp->mtu));
        SimSend *s;

        do {
            opcode = program_opcode(w, qp);
        } while (w->options.write_weight && opcode == FAKERNIC_SQ_NOP);
        s = workload_add_send(qp, opcode, size,
                              program_flags(w, opcode, size, false));
        if (!i) {
            wait_for(s, qp->peer);
        }
    }
    qp->target = NULL;
}

static void use_after_end(World *w, SimQp *qp, SimMr *target, bool by_owner)
{
    uint32_t size = rng_range(&w->rng, 1, 300);
    uint8_t opcode = rng_pct(&w->rng, 50) ? FAKERNIC_SQ_RDMA_WRITE
                                          : FAKERNIC_SQ_RDMA_READ;
    SimSend *s;

    if (qp->planned >= 0 || qp->peer->planned >= 0 ||
        !rng_pct(&w->rng, w->options.error_pct / 4)) {
        return;
    }
    qp->target = target;
    s = workload_add_send(qp, opcode, size, FAKERNIC_SQ_SIGNALED);
    qp->target = NULL;
    s->error = SIM_ERR_INVALIDATED;
    if (by_owner) {
        wait_for(s, qp->peer);
    }
    qp->planned = (int32_t)qp->send_count - 1;
    qp->peer->planned_responder = true;
}

void keys_grant(World *w, SimQp *qp)
{
    SimQp *owner = qp->peer;
    unsigned kind = rng_below(&w->rng, SIM_GRANTS);
    bool by_owner = kind == GRANT_WINDOW_1 || rng_pct(&w->rng, 50);
    SimMr *target;
    SimSend *s = open_grant(w, owner, kind, &target);

    /* The peer must have finished its requests with the old key. */
    if (qp->send_count) {
        wait_for(s, qp);
    }
    use_grant(w, qp, target);
    if (kind == GRANT_WINDOW_1) {
        last_send(qp)->flags |= FAKERNIC_SQ_SIGNALED;
        unbind(w, owner, target);
        wait_for(last_send(owner), qp);
    } else if (by_owner) {
        s = workload_add_key(owner, FAKERNIC_SQ_LOCAL_INV, target, NULL,
                             FAKERNIC_SQ_SIGNALED);
        wait_for(s, qp);
    } else {
        uint32_t size = program_size(w, mtu_bytes(qp->mtu));

        /* A fence: READs with the key must have their data (10.8.3.3). */
        workload_add_send(qp, FAKERNIC_SQ_SEND_INV, size,
                          FAKERNIC_SQ_SIGNALED | FAKERNIC_SQ_FENCE)->imm =
            target->key;
    }
    use_after_end(w, qp, target, by_owner);
}
