/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Services without connections: UD, GSI and multicast datagrams, and Ethernet
 * frames of raw-packet QPs. SimSend.copies counts how often each host received
 * a message: one counter, or one for each member of a group.
 */
#include <string.h>

#include "sim.h"

#define ETHERTYPE_TEST 0x88b5u          /* local experimental (IEEE 802) */

/* ---- multicast groups ---------------------------------------------------- */

static void group_gids(SimGroup *g, uint32_t number)
{
    memset(g->gid, 0, sizeof(g->gid));
    g->gid[0][0] = 0xff;
    g->gid[0][1] = 0x0e;
    g->gid[0][12] = 0x7a;
    g->gid[0][15] = (uint8_t)(number + 1);
    g->gid[1][10] = g->gid[1][11] = 0xff;
    g->gid[1][12] = 239;
    g->gid[1][13] = 0x91;       /* the MAC omits its top bit */
    g->gid[1][15] = (uint8_t)(number + 1);
}

static void build_groups(World *w, SimQp **ud, uint32_t count)
{
    for (uint32_t i = 0; i < w->options.groups && i < SIM_GROUPS; i++) {
        SimGroup *g = &w->group[w->group_count++];

        group_gids(g, i);
        for (uint32_t k = 0; k < count; k++) {
            int status;

            if (ud[k]->type != FAKERNIC_QP_UD || rng_pct(&w->rng, 40)) {
                continue;
            }
            status = roce_mcast_attach(ud[k]->host->roce,
                                       g->gid[ud[k]->gid_index & 1],
                                       ud[k]->qpn);
            if (status != FAKERNIC_CMD_OK) {
                world_fail(w, "roce_mcast_attach: %d", status);
            }
            g->member[g->count++] = ud[k];
        }
    }
}

/* ---- UD and GSI ---------------------------------------------------------- */

/* A local error leads to SQE; the receiver detects a wrong Q_Key. */
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
            if (s->group || s->ud_dest->type == FAKERNIC_QP_UD) {
                s->error = e;
            }
            continue;
        }
        if (workload_error_fits(qp, s, e)) {
            s->error = e;
            qp->planned = (int32_t)i;
            if (e == SIM_ERR_LKEY) {
                s->sge[s->sge_count - 1].mr = NULL;
            }
            return;
        }
    }
}

static void add_datagram_recv(World *w, SimQp *to)
{
    uint32_t room = SIM_GRH + 4096;

    if (!rng_pct(&w->rng, 100 - w->options.ud_no_recv_pct)) {
        return;
    }
    /* Receives that are too small: the datagram is dropped. */
    if (rng_pct(&w->rng, w->options.ud_no_recv_pct)) {
        room = rng_below(&w->rng, 300);
    }
    workload_add_recv(to->rq, room);
}

static void build_datagram(World *w, SimQp *qp, SimQp *to, bool last)
{
    uint32_t size = program_size(w, 4096);
    uint8_t opcode = rng_pct(&w->rng, 30) ? FAKERNIC_SQ_SEND_IMM
                                          : FAKERNIC_SQ_SEND;
    SimSend *s;

    size = size > 4096 ? 4096 : size;
    s = workload_add_send(qp, opcode, size,
                          program_flags(w, opcode, size, last));
    if (w->group_count && rng_pct(&w->rng, 40)) {
        s->group = &w->group[rng_below(&w->rng, w->group_count)];
        s->copies = world_alloc(w, s->group->count + 1);
        for (uint32_t i = 0; i < s->group->count; i++) {
            add_datagram_recv(w, s->group->member[i]);
        }
        return;
    }
    /* Only GSI may use GSI's Q_Key (IBTA 10.2.5). */
    if (to->type == FAKERNIC_QP_GSI && qp->type != to->type) {
        to = qp;
    }
    s->ud_dest = to;
    s->copies = world_alloc(w, 1);
    add_datagram_recv(w, to);
}

void datagrams_build(World *w)
{
    SimQp *ud[SIM_HOSTS * 2];
    uint32_t count = 0;

    for (unsigned i = 0; i < w->options.hosts; i++) {
        uint8_t type = rng_pct(&w->rng, w->options.gsi_pct)
                       ? FAKERNIC_QP_GSI : FAKERNIC_QP_UD;

        workload_host(w->host[i]);
        for (unsigned k = 0; k < 2 && !w->failed; k++) {
            ud[count] = host_qp_new(w->host[i], type,
                                    host_rq_new(w->host[i], false));
            ud[count]->gid_index = ud[0]->gid_index;
            host_connect(ud[count++], NULL, 0);
            type = FAKERNIC_QP_UD;
            if (rng_pct(&w->rng, 70)) {
                break;          /* few hosts have a second one */
            }
        }
    }
    build_groups(w, ud, count);
    for (uint32_t i = 0; i < count && !w->failed; i++) {
        uint32_t left = rng_below(&w->rng, w->options.datagrams + 1);

        /* Every history has at least the PSNs ffffff and 0. */
        left = ud[i] == w->qp && left < 2 ? 2 : left;
        for (uint32_t k = left; k; k--) {
            build_datagram(w, ud[i], ud[rng_below(&w->rng, count)], k == 1);
        }
        if (rng_pct(&w->rng, w->options.error_pct)) {
            plan_datagram_error(w, ud[i]);
        }
    }
}

/* ---- raw packets --------------------------------------------------------- */

/* Writes a frame's header into the memory from which it is sent. */
static void raw_header(SimQp *qp, SimSend *s, const uint8_t *dmac)
{
    uint8_t header[14];

    memcpy(header, dmac, 6);
    memcpy(header + 6, qp->host->mac, 6);
    header[12] = ETHERTYPE_TEST >> 8;
    header[13] = ETHERTYPE_TEST & 0xff;
    mr_put(s->sge[0].mr, qp->host->memory, s->sge[0].offset, header, 14);
    mr_put(s->sge[0].mr, qp->host->expected, s->sge[0].offset, header, 14);
    memcpy(s->data, header, 14);
}

static void build_raw_frame(World *w, SimQp *qp, SimMr *source,
                            uint32_t offset, SimQp *to, bool last)
{
    static const uint8_t broadcast[6] = { 255, 255, 255, 255, 255, 255 };
    uint32_t size = 14 + rng_below(&w->rng, 1500);
    SimSend *s = workload_add_send(qp, FAKERNIC_SQ_SEND, size,
                                   last ? FAKERNIC_SQ_SIGNALED : 0);

    s->sge = world_alloc(w, sizeof(*s->sge));
    s->sge[0] = (SimSge) { .mr = source, .offset = offset, .length = size };
    s->sge_count = 1;
    mr_get(source, qp->host->expected, offset, s->data, size);
    if (to == qp) {
        s->group = &w->everybody;
        s->copies = world_alloc(w, SIM_HOSTS);
        raw_header(qp, s, broadcast);
        for (uint32_t i = 0; i < w->everybody.count; i++) {
            workload_add_recv(w->everybody.member[i]->rq, 2000);
        }
        return;
    }
    s->ud_dest = to;
    s->copies = world_alloc(w, 1);
    raw_header(qp, s, to->host->mac);
    workload_add_recv(to->rq, 2000);
}

void raw_build(World *w)
{
    SimGroup *all = &w->everybody;

    for (unsigned i = 0; i < w->options.hosts; i++) {
        SimQp *qp = host_qp_new(w->host[i], FAKERNIC_QP_RAW_PACKET,
                                host_rq_new(w->host[i], false));

        workload_host(w->host[i]);
        host_connect(qp, NULL, 0);
        all->member[all->count++] = qp;
    }
    for (uint32_t i = 0; i < all->count && !w->failed; i++) {
        uint32_t frames = rng_below(&w->rng, w->options.raw + 1);
        SimMr *source = host_mr_new(w->host[i], frames * 1600 + 1, 0, SIM_PD);

        for (uint32_t k = 0; k < frames; k++) {
            build_raw_frame(w, all->member[i], source, k * 1600,
                            all->member[rng_below(&w->rng, all->count)],
                            k == frames - 1);
        }
    }
}
