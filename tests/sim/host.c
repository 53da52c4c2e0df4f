/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A fake host: work requests, and the queries and reports of its engine. Its
 * memory is in memory.c, its queue pairs are in qp.c.
 */
#include <stdlib.h>
#include <string.h>

#include "sim.h"

#define ODP_CHUNKS 4096u                /* more than a history needs */

/* ---- RoceHostOps: work requests ------------------------------------------ */

/*
 * The offset from which 'length' bytes exceed a region by one. In a part of the
 * whole address space, only another page is absent.
 */
static uint64_t host_beyond(const SimMr *mr, uint64_t length)
{
    uint64_t end = mr->iova + mr->length;

    return mr->implicit ? ((end - 1) | ((1ull << mr->page_shift) - 1)) + 1
                        : end - length + 1;
}

static RoceSge host_sge(const SimSge *s, bool beyond)
{
    RoceSge sge = { .length = s->length };

    if (!s->mr) {
        sge.address = 0x1234;
        sge.lkey = 0x7fff1234;
        return sge;
    }
    sge.address = s->mr->iova + s->offset;
    sge.lkey = s->mr->key;
    if (beyond) {
        sge.address = host_beyond(s->mr, s->length);
    }
    return sge;
}

bool opcode_is_send(uint8_t opcode)
{
    return opcode >= FAKERNIC_SQ_SEND && opcode <= FAKERNIC_SQ_SEND_INV;
}

bool opcode_is_atomic(uint8_t opcode)
{
    return opcode >= FAKERNIC_SQ_ATOMIC_CMP_SWAP &&
           opcode <= FAKERNIC_SQ_ATOMIC_MASKED_FETCH_ADD;
}

bool opcode_is_read(uint8_t opcode)
{
    return opcode == FAKERNIC_SQ_RDMA_READ ||
           opcode == FAKERNIC_SQ_RDMA_READ_INV;
}

bool opcode_is_write(uint8_t opcode)
{
    return opcode == FAKERNIC_SQ_RDMA_WRITE ||
           opcode == FAKERNIC_SQ_RDMA_WRITE_IMM ||
           opcode == FAKERNIC_SQ_ATOMIC_WRITE;
}

static void host_build_remote(const SimQp *qp, const SimSend *s,
                              uint64_t *address, uint32_t *rkey)
{
    const SimMr *mr = s->zone;

    if (s->shared) {
        mr = qp->peer->host->counter;
    } else if (s->error == SIM_ERR_ACCESS) {
        mr = qp->zone_ro;
    } else if (s->error == SIM_ERR_RKEY_PD) {
        mr = qp->zone_pd;
    } else if (s->error == SIM_ERR_PAGES) {
        mr = qp->zone_gone;
    }
    *address = mr->iova + s->zone_offset;
    *rkey = mr->key;
    if (mr != s->zone && (opcode_is_atomic(s->opcode) ||
                          s->opcode == FAKERNIC_SQ_ATOMIC_WRITE)) {
        *address &= ~7ull;
    }
    if (s->error == SIM_ERR_RKEY_INDEX) {
        *rkey = 0x7fee0000 | (mr->key & 0xff);
    } else if (s->error == SIM_ERR_RKEY_TAG) {
        *rkey = mr->key ^ 0x40;
    } else if (s->error == SIM_ERR_BOUNDS) {
        *address = host_beyond(mr, s->length ? s->length : 1);
    } else if (s->error == SIM_ERR_ALIGN) {
        *address += 4;
    }
}

void host_build_path(const SimQp *qp, const SimQp *to, uint16_t index,
                     RoceAv *av)
{
    const Host *peer = to->host;

    *av = (RoceAv){ .sgid_index = index, .hop_limit = 64,
                    .traffic_class = qp->traffic_class,
                    .static_rate = qp->static_rate,
                    .sl = index & 3 };
    memcpy(av->dgid, peer->gid[index], 16);
    memcpy(av->dmac, peer->mac, 6);
    if (qp->qpn & 1) {
        av->flow_label = (qp->qpn * 2654435761u) & 0xfffff;
    }
}

static void host_build_key(const SimQp *qp, const SimSend *s, RoceSendWr *wr)
{
    if (s->opcode == FAKERNIC_SQ_REG_MR) {
        wr->reg_mr.iova = s->mr->iova;
        wr->reg_mr.length = s->mr->length;
        wr->reg_mr.key = s->mr->key;
        wr->reg_mr.access = s->mr->access;
        wr->reg_mr.page_count = s->mr->page_count;
        wr->reg_mr.page_shift = s->mr->page_shift;
        wr->reg_mr.pages = malloc(s->mr->page_count * sizeof(uint64_t));
        memcpy(wr->reg_mr.pages, s->mr->pages,
               s->mr->page_count * sizeof(uint64_t));
    } else if (s->opcode == FAKERNIC_SQ_BIND_MW) {
        wr->bind_mw.address = s->mr->iova;
        wr->bind_mw.length = s->mr->length;
        wr->bind_mw.mw_key = s->imm;
        wr->bind_mw.new_key = s->mr->key;
        wr->bind_mw.mr_key = s->parent->key;
        wr->bind_mw.access = s->mr->access;
        wr->imm_or_key = 0;
    }
    (void)qp;
}

static void host_build_datagram(const SimQp *qp, const SimSend *s,
                                RoceSendWr *wr)
{
    bool gsi = s->ud_dest && s->ud_dest->type == FAKERNIC_QP_GSI;

    if (s->ud_dest) {
        host_build_path(qp, s->ud_dest, qp->gid_index, &wr->ud.av);
        wr->ud.dest_qpn = s->ud_dest->qpn;
    } else if (s->group) {
        host_build_path(qp, qp, qp->gid_index, &wr->ud.av);
        memcpy(wr->ud.av.dgid, s->group->gid[qp->gid_index & 1], 16);
        frame_group_mac(wr->ud.av.dgid, wr->ud.av.dmac);
        wr->ud.dest_qpn = 0xffffff;
    }
    wr->ud.qkey = gsi ? 0x80010000u : SIM_QKEY;
    wr->ud.qkey ^= s->error == SIM_ERR_QKEY ? 1 : 0;
}

static void host_build_send(const SimQp *qp, uint32_t index, RoceSendWr *wr)
{
    const SimSend *s = &qp->send[index];

    memset(wr, 0, sizeof(*wr));
    wr->index = index;
    wr->opcode = s->opcode;
    wr->flags = s->flags;
    wr->imm_or_key = s->imm;
    if (s->error == SIM_ERR_FORMAT) {
        wr->format_error = FAKERNIC_VENDOR_SQ_FORMAT;
        wr->opcode = 0xff;
        return;
    }
    if (s->flags & FAKERNIC_SQ_INLINE) {
        wr->inline_length = (uint16_t)s->length;
        memcpy(wr->inline_data, s->data, s->length);
    } else {
        wr->sge_count = s->sge_count;
        for (unsigned i = 0; i < s->sge_count; i++) {
            wr->sge[i] = host_sge(&s->sge[i], s->error == SIM_ERR_LBOUNDS &&
                                                  i == s->sge_count - 1u);
        }
    }
    if (s->xrc) {
        wr->xrc_srqn = s->error == SIM_ERR_XRC_SRQ ? 9999 : s->xrc->srqn;
    }
    if (qp->type == FAKERNIC_QP_RAW_PACKET) {
        return;
    }
    if (!qp->conn) {
        host_build_datagram(qp, s, wr);
    } else if (opcode_is_atomic(s->opcode)) {
        host_build_remote(qp, s, &wr->atomic.remote_address,
                          &wr->atomic.rkey);
        wr->atomic.swap_or_add = s->operand;
        wr->atomic.compare = s->compare;
        wr->atomic.swap_mask_or_boundary = s->mask;
        wr->atomic.compare_mask = s->compare_mask;
    } else if (s->opcode >= FAKERNIC_SQ_LOCAL_INV) {
        host_build_key(qp, s, wr);
    } else if (!opcode_is_send(s->opcode)) {
        host_build_remote(qp, s, &wr->rdma.remote_address, &wr->rdma.rkey);
        wr->rdma.flush = s->flush;
    }
}

/* Checks the limit of sends in flight, if every success is reported
 * (RoceLimits.max_sends). */
static bool send_has_room(const SimQp *qp)
{
    const SimOptions *o = &qp->world->options;

    return o->unsignaled_pct || qp->type == FAKERNIC_QP_RAW_PACKET ||
           qp->fetched - qp->done < o->max_sends;
}

static RoceFetch host_next_send(void *host, uint32_t qpn, RoceSendWr *wr)
{
    Host *h = host;
    SimQp *qp = host_find_qp(h, qpn);

    if (!qp && tenant_has(h, qpn)) {
        return tenant_next_send(h, qpn, wr);
    }
    if (!qp || qp->silent) {
        world_fail(h->world, "next_send of QP %u, which has none", qpn);
        return ROCE_FETCH_NONE;
    }
    if (qp->sq_broken) {
        wr->format_error = FAKERNIC_VENDOR_SQ_DMA;
        return ROCE_FETCH_ERROR;
    }
    if (qp->fetched == qp->posted) {
        return ROCE_FETCH_NONE;
    }
    if (!send_has_room(qp)) {
        world_fail(h->world, "QP %u: more sends in flight than there may be",
                   qpn);
    }
    host_build_send(qp, qp->fetched, wr);
    world_log(h->world, h->number, LOG_FETCH_SEND, qpn, qp->fetched,
              qp->send[qp->fetched].length, wr->opcode, wr->flags);
    if (qp->peer) {
        qp->send[qp->fetched].fetched_at = qp->peer->host->page_changes;
    }
    qp->fetched++;
    return ROCE_FETCH_OK;
}

static SimRq *host_find_xrc(const Host *h, uint32_t srqn)
{
    for (unsigned i = 0; i < 2; i++) {
        if (h->xrc[i] && h->xrc[i]->srqn == srqn) {
            return h->xrc[i];
        }
    }
    return NULL;
}

static bool host_xrc_srq(void *host, uint32_t srqn, uint32_t xrcdn,
                         RoceXrcSrq *srq)
{
    const SimRq *rq = host_find_xrc(host, srqn);

    if (!rq) {
        return tenant_xrc_srq(host, srqn, xrcdn, srq);
    }
    if (xrcdn != SIM_XRCD) {
        return false;
    }
    *srq = (RoceXrcSrq) { .id = srqn, .pd = rq->pd, .cqn = rq->cqn };
    return true;
}

static uint32_t host_recv_count(void *host, uint32_t qpn)
{
    const SimQp *qp = host_find_qp(host, qpn);

    return !qp || qp->silent || qp->rq_broken || qp->rq->srqn
           ? 0 : qp->rq->posted - qp->rq->fetched;
}

static RoceFetch host_next_recv(void *host, uint32_t qpn, uint32_t srqn,
                                RoceRecvWr *wr)
{
    Host *h = host;
    SimQp *qp = host_find_qp(h, qpn);
    SimRecv *r;
    SimRq *rq;

    if (!qp && tenant_has(h, qpn)) {
        return tenant_next_recv(h, qpn, wr);
    }
    rq = qp && qp->type == FAKERNIC_QP_XRC_TGT ? host_find_xrc(h, srqn)
         : qp && qp->rq->srqn == srqn ? qp->rq : NULL;
    if (!rq || qp->silent) {
        world_fail(h->world, "next_recv of QP %u, SRQ %u: no such", qpn, srqn);
        return ROCE_FETCH_NONE;
    }
    if (qp->rq_broken) {
        wr->format_error = FAKERNIC_VENDOR_RQ_DMA;
        return ROCE_FETCH_ERROR;
    }
    if (rq->fetched == rq->posted) {
        return ROCE_FETCH_NONE;
    }
    r = &rq->recv[rq->fetched];
    memset(wr, 0, sizeof(*wr));
    wr->tag = rq->tag_base + rq->fetched;
    wr->sge_count = r->sge_count;
    for (unsigned i = 0; i < r->sge_count; i++) {
        wr->sge[i] = host_sge(&r->sge[i], false);
    }
    world_log(h->world, h->number, LOG_FETCH_RECV, qpn, rq->fetched, r->length,
              0, 0);
    r->qp = qp;
    rq->fetched++;
    rq->open++;
    return ROCE_FETCH_OK;
}

/* ---- RoceHostOps: reports ------------------------------------------------ */

static void host_complete(void *host, const RoceCompletion *c)
{
    Host *h = host;

    world_log(h->world, h->number, LOG_COMPLETE, c->qpn, c->wqe_index,
              c->byte_count, c->opcode, c->status);
    h->world->completions++;
    if (tenant_has(h, c->qpn)) {
        tenant_complete(h, c);
        return;
    }
    model_complete(h, c);
}

static void host_event(void *host, uint8_t type, uint32_t id,
                       uint16_t vendor_err)
{
    Host *h = host;

    world_log(h->world, h->number, LOG_EVENT, type, id, vendor_err, 0, 0);
    if (!tenant_has(h, id)) {
        model_event(h, type, id, vendor_err);
    }
}

static void host_trace(void *host, RoceTracePoint point, uint32_t qpn,
                       uint32_t a, uint32_t b)
{
    Host *h = host;
    World *w = h->world;

    /* The log already has RX, with more detail. */
    if (point != ROCE_TRACE_RX) {
        world_log(w, h->number, LOG_TRACE, qpn, a, b, (uint8_t)point, 0);
    }
    if ((point == ROCE_TRACE_RETRY || point == ROCE_TRACE_TIMEOUT) &&
        w->options.mercy && b <= 3) {
        w->link.mercy_until = w->now + (4096ll << w->options.timeout) * 5 +
                              w->options.reorder_us * US;
    }
}

static const RoceHostOps host_ops = {
    .dma_read = host_dma_read,
    .dma_write = host_dma_write,
    .dma_atomic = host_dma_atomic,
    .dma_flush = host_dma_flush,
    .next_send = host_next_send,
    .next_recv = host_next_recv,
    .recv_count = host_recv_count,
    .xrc_srq = host_xrc_srq,
    .page_request = host_page_request,
    .complete = host_complete,
    .event = host_event,
    .trace = host_trace,
};

/* ---- the host itself ----------------------------------------------------- */

static void host_set_gids(Host *h)
{
    for (uint16_t i = 0; i < 4; i++) {
        RoceGid gid = { .type = i & 1 ? FAKERNIC_GID_IPV4 : FAKERNIC_GID_IPV6,
                        .vlan = i & 2 ? 5 : FAKERNIC_VLAN_NONE };
        int status;

        if (i & 1) {
            gid.gid[10] = gid.gid[11] = 0xff;
            gid.gid[12] = 10;
            gid.gid[14] = (uint8_t)i;
        } else {
            gid.gid[0] = 0xfe;
            gid.gid[1] = 0x80;
            gid.gid[7] = (uint8_t)i;
        }
        gid.gid[15] = (uint8_t)(h->number + 1);
        memcpy(gid.mac, h->mac, 6);
        memcpy(h->gid[i], gid.gid, 16);
        h->gid_type[i] = gid.type;
        h->gid_vlan[i] = gid.vlan;
        status = roce_gid_set(h->roce, i, &gid);
        if (status != FAKERNIC_CMD_OK) {
            world_fail(h->world, "roce_gid_set: %d", status);
        }
    }
}

Roce *host_engine_new(Host *h)
{
    World *w = h->world;
    RoceLimits limits = { .max_qp = 64, .max_mr = 1024, .max_pd = SIM_PDS,
                          .max_mcast_groups = 4,
                          .gid_count = 4, .max_rd_atomic = 16,
                          .max_sends = (uint16_t)w->options.max_sends,
                          .dcqcn = w->options.dcqcn,
                          .hash_seed = w->seed,
                          .link_kbps = w->options.rate_mbps * 1000 };

    if (w->options.odp_pct) {
        limits.max_odp_chunks = w->options.odp_chunks ? w->options.odp_chunks
                                                      : ODP_CHUNKS;
    }
    return roce_new(&limits, &host_ops, h);
}

Host *host_new(World *w, unsigned number)
{
    Host *h = calloc(1, sizeof(*h));

    h->world = w;
    h->number = number;
    host_memory_open(h);
    memcpy(h->mac, (uint8_t[]) { 0x52, 0x54, 0, 0, 0, (uint8_t)(number + 1) },
           6);
    h->wake = ROCE_TIME_NEVER;
    h->next_cqn = 1000 * (number + 1);
    h->roce = host_engine_new(h);
    roce_set_port_mtu(h->roce, 9000);
    host_set_gids(h);
    return h;
}

void host_free(Host *h)
{
    roce_free(h->roce);
    free(h);
}
