/* SPDX-License-Identifier: GPL-2.0-or-later */
/* See host.h. */
#include "host.h"
#include "mr.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Noreturn void fuzz_broken(const char *file, int line, const char *rule)
{
    fprintf(stderr, "%s:%d: broken rule: %s\n", file, line, rule);
    abort();
}

/* ---- memory -------------------------------------------------------------- */

/* Maps a page of a key to a page of memory, always the same. */
static uint64_t host_demand_page(uint64_t page)
{
    return page % HOST_DEMAND;
}

static uint8_t *host_demand(Host *h, uint64_t offset, uint64_t len, bool write)
{
    uint64_t page = offset / HOST_PAGE;
    bool granted = h->unguarded;
    uint32_t i;

    for (i = 0; i < h->grants; i++) {
        granted |= host_demand_page(h->grant[i].page) == page &&
                   (!write || h->grant[i].writable);
    }
    FUZZ_CHECK(granted);
    if (h->unguarded && len > sizeof(h->demand) - offset) {
        return NULL;
    }
    FUZZ_CHECK(h->unguarded || len <= HOST_PAGE - offset % HOST_PAGE);
    return h->demand + offset;
}

/* The bytes at an address. NULL: this access fails. */
static uint8_t *host_dma(Host *h, uint64_t address, uint64_t len, bool write)
{
    uint64_t offset = address - h->base;
    uint64_t limit = HOST_PAGE * (write ? HOST_WRITABLE : HOST_READABLE);

    FUZZ_CHECK(len > 0);
    if (h->fail_dma_in != 0 && --h->fail_dma_in == 0) {
        return NULL;
    }
    if (address & ROCE_ADDRESS_DM) {
        offset = address & ~ROCE_ADDRESS_DM;
        FUZZ_CHECK(offset < HOST_DM && len <= HOST_DM - offset);
        return h->dm + offset;
    }
    if (offset - HOST_DEMAND_AT < sizeof(h->demand)) {
        return host_demand(h, offset - HOST_DEMAND_AT, len, write);
    }
    if (h->unguarded) {
        limit = HOST_MEMORY;
        if (offset >= limit || len > limit - offset) {
            return NULL;
        }
    }
    FUZZ_CHECK(address >= h->base && offset < limit && len <= limit - offset);
    return h->memory + offset;
}

static bool host_dma_read(void *host, uint64_t address, void *buf, size_t len)
{
    const uint8_t *from = host_dma(host, address, len, false);

    if (from) {
        memcpy(buf, from, len);
    }
    return from != NULL;
}

static bool host_dma_write(void *host, uint64_t address, const void *buf,
                           size_t len)
{
    uint8_t *to = host_dma(host, address, len, true);

    if (to) {
        memcpy(to, buf, len);
    }
    return to != NULL;
}

static bool host_dma_atomic(void *host, uint64_t address, RoceAtomic *op)
{
    uint8_t *at = host_dma(host, address, 8, true);
    uint64_t value;

    FUZZ_CHECK(address % 8 == 0);
    if (!at) {
        return false;
    }
    memcpy(&value, at, 8);
    op->original = value;
    value = roce_atomic_result(op, value);
    memcpy(at, &value, 8);
    return true;
}

/* Two of three persistent FLUSHes end later, or do not even begin at once. */
static RoceFlush host_dma_flush(void *host, const RoceFlushJob *job,
                                uint64_t *done)
{
    Host *h = host;

    FUZZ_CHECK(job->count > 0 && (job->persistent || job->count == 1));
    for (unsigned i = 0; i < job->count; i++) {
        if (!host_dma(host, job->part[i].address, job->part[i].len, false)) {
            return ROCE_FLUSH_FAILED;
        }
    }
    if (!job->persistent || h->flushes++ % 3 == 0) {
        return ROCE_FLUSH_DONE;
    }
    if (h->flush_ticket || h->flushes % 3 == 0) {
        return ROCE_FLUSH_LATER;
    }
    h->flush_qpn = job->qpn;
    h->flush_ticket = job->ticket;
    *done = 1 + job->part[0].len / 2;
    return ROCE_FLUSH_BEGUN;
}

/* ---- on-demand paging ---------------------------------------------------- */

static bool host_page_request(void *host, uint32_t key, uint64_t address,
                              uint64_t length, bool write)
{
    Host *h = host;

    FUZZ_CHECK(length > 0 && length <= 1u << 20);
    FUZZ_CHECK(address + (length - 1) >= address);
    if (h->wants < HOST_WANTS) {
        h->want[h->wants++] = (HostWant) { key, address, length, write };
        return true;
    }
    return false;
}

static void host_revoke(Host *h, uint32_t key, uint64_t first, uint64_t count)
{
    uint32_t i;

    for (i = h->grants; i-- > 0;) {
        /* The index identifies a destroyed key. */
        if (FAKERNIC_GET(FAKERNIC_KEY_INDEX, h->grant[i].key ^ key) == 0 &&
            h->grant[i].page - first < count) {
            h->grant[i] = h->grant[--h->grants];
        }
    }
}

int host_update_pages(Host *h, Roce *r, uint32_t key, uint64_t address,
                      uint32_t count, RocePages state)
{
    bool present = state == ROCE_PAGES_READABLE || state == ROCE_PAGES_WRITABLE;
    RocePageUpdate update = { .key = key, .state = state, .address = address };
    uint64_t pages[HOST_DEMAND], first = address / HOST_PAGE;
    uint32_t i;
    int status;

    if (present) {
        count = count < HOST_DEMAND ? count : HOST_DEMAND;
        if (count > HOST_GRANTS - h->grants) {
            return FAKERNIC_CMD_NO_RESOURCE;
        }
        update.page_shift = FAKERNIC_PAGE_SHIFT;
        update.pages = pages;
    } else if (state == ROCE_PAGES_REFUSED &&
               count > FAKERNIC_UPDATE_PAGES_MAX) {
        count = FAKERNIC_UPDATE_PAGES_MAX;
    }
    for (i = 0; present && i < count; i++) {
        pages[i] = h->base + HOST_DEMAND_AT +
                   host_demand_page(first + i) * HOST_PAGE;
    }
    update.page_count = count;
    status = roce_mr_update_pages(r, &update);
    if (status != FAKERNIC_CMD_OK) {
        return status;
    }
    /* A refusal is an answer, not a revocation: a granted page stays granted
     * unless it was requested again. */
    if (state != ROCE_PAGES_REFUSED) {
        host_revoke(h, key, first, count);
    }
    for (i = 0; present && i < count; i++) {
        h->grant[h->grants++] = (HostGrant) {
            key, first + i, state == ROCE_PAGES_WRITABLE,
        };
    }
    return FAKERNIC_CMD_OK;
}

void host_key_forget(Host *h, uint32_t key)
{
    host_revoke(h, key, 0, UINT64_MAX);
}

/* ---- work requests ------------------------------------------------------- */

static HostQp *host_qp(Host *h, uint32_t qpn)
{
    FUZZ_CHECK(qpn < HOST_QPS && h->qp[qpn].alive);
    return &h->qp[qpn];
}

bool host_post_send(Host *h, uint32_t qpn, RoceSendWr *wr)
{
    HostQp *qp = &h->qp[qpn];

    if (!qp->alive || !qp->init.has_sq || qp->pi - qp->ci == HOST_RING) {
        return false;
    }
    wr->index = h->tag++;
    qp->send[qp->pi++ % HOST_RING] = *wr;
    return true;
}

static bool host_post(Host *h, HostRecvs *ring, RoceRecvWr *wr)
{
    if (ring->pi - ring->ci == HOST_RING) {
        return false;
    }
    wr->tag = h->tag++;
    ring->wr[ring->pi++ % HOST_RING] = *wr;
    return true;
}

bool host_post_recv(Host *h, uint32_t qpn, RoceRecvWr *wr)
{
    HostQp *qp = &h->qp[qpn];

    return qp->alive && qp->init.has_rq && host_post(h, &qp->rq, wr);
}

bool host_post_srq(Host *h, uint32_t srqn, RoceRecvWr *wr)
{
    return host_post(h, &h->srq[srqn], wr);
}

static RoceFetch host_next_send(void *host, uint32_t qpn, RoceSendWr *wr)
{
    HostQp *qp = host_qp(host, qpn);
    uint32_t slot;

    if (qp->broken) {
        wr->format_error = FAKERNIC_VENDOR_SQ_DMA;
        return ROCE_FETCH_ERROR;
    }
    if (qp->pi == qp->ci) {
        return ROCE_FETCH_NONE;
    }
    *wr = qp->send[qp->ci++ % HOST_RING];
    if (qp->fetched_pi - qp->fetched_ci == HOST_FETCHED) {
        /* It has completed long ago, and must have been unsignaled. */
        FUZZ_CHECK(!qp->fetched[qp->fetched_ci % HOST_FETCHED].signaled);
        qp->fetched_ci++;
    }
    slot = qp->fetched_pi++ % HOST_FETCHED;
    qp->fetched[slot].index = wr->index;
    qp->fetched[slot].signaled = wr->flags & FAKERNIC_SQ_SIGNALED;
    return ROCE_FETCH_OK;
}

static RoceFetch host_next_recv(void *host, uint32_t qpn, uint32_t srqn,
                                RoceRecvWr *wr)
{
    HostQp *qp = host_qp(host, qpn);
    HostRecvs *ring = &qp->rq;
    uint8_t i;

    FUZZ_CHECK(srqn < HOST_SRQS);
    FUZZ_CHECK(srqn != 0 || qp->init.srqn == 0);
    /* A target drops a receive whose XRC SRQ was destroyed. */
    FUZZ_CHECK(!qp->held || (qp->init.type == FAKERNIC_QP_XRC_TGT &&
                             qp->held_srqn != srqn));
    if (srqn) {
        ring = &((Host *)host)->srq[srqn];
    }
    if (ring->broken) {
        wr->format_error = FAKERNIC_VENDOR_RQ_DMA;
        return ROCE_FETCH_ERROR;
    }
    if (ring->pi == ring->ci) {
        return ROCE_FETCH_NONE;
    }
    *wr = ring->wr[ring->ci++ % HOST_RING];
    qp->held = true;
    qp->held_tag = wr->tag;
    qp->held_srqn = srqn;
    qp->held_bytes = 0;
    for (i = 0; i < wr->sge_count; i++) {
        qp->held_bytes += wr->sge[i].length;
    }
    return ROCE_FETCH_OK;
}

static uint32_t host_recv_count(void *host, uint32_t qpn)
{
    HostQp *qp = host_qp(host, qpn);

    return qp->rq.broken ? 0 : qp->rq.pi - qp->rq.ci;
}

static bool host_xrc_srq(void *host, uint32_t srqn, uint32_t xrcdn,
                         RoceXrcSrq *srq)
{
    Host *h = host;

    if (srqn == 0 || srqn >= HOST_SRQS || xrcdn == 0 ||
        h->srq_xrcdn[srqn] != xrcdn) {
        return false;
    }
    srq->id = srqn;
    srq->pd = h->xrc_pd;
    srq->cqn = h->xrc_cqn;
    return true;
}

/* ---- completions and events ---------------------------------------------- */

static void host_complete_send(HostQp *qp, const RoceCompletion *c)
{
    FUZZ_CHECK(c->cqn == qp->init.send_cqn);
    FUZZ_CHECK(c->opcode >= FAKERNIC_CQE_SEND &&
               c->opcode <= FAKERNIC_CQE_NOP);
    for (;;) {
        uint32_t slot = qp->fetched_ci % HOST_FETCHED;

        FUZZ_CHECK(qp->fetched_ci != qp->fetched_pi);
        qp->fetched_ci++;
        if (qp->fetched[slot].index == c->wqe_index) {
            break;
        }
        /* A request before it has succeeded; it must be unsignaled. */
        FUZZ_CHECK(!qp->fetched[slot].signaled);
    }
}

static void host_complete_recv(Host *h, HostQp *qp, const RoceCompletion *c)
{
    uint32_t cqn = qp->init.type == FAKERNIC_QP_XRC_TGT ? h->xrc_cqn
                                                        : qp->init.recv_cqn;

    FUZZ_CHECK(c->cqn == cqn);
    FUZZ_CHECK(qp->held && qp->held_tag == c->wqe_index);
    qp->held = false;
    if (c->status == FAKERNIC_WC_SUCCESS &&
        c->opcode == FAKERNIC_CQE_RECV) {
        FUZZ_CHECK(c->byte_count <= qp->held_bytes);
    }
}

static void host_complete(void *host, const RoceCompletion *c)
{
    HostQp *qp = host_qp(host, c->qpn);

    FUZZ_CHECK(c->status <= FAKERNIC_WC_GENERAL_ERR);
    FUZZ_CHECK((c->status == FAKERNIC_WC_SUCCESS) == (c->vendor_err == 0));
    FUZZ_CHECK(c->vendor_err != ROCE_VENDOR_FAULT);
    if (c->opcode >= FAKERNIC_CQE_RECV) {
        FUZZ_CHECK(c->opcode <= FAKERNIC_CQE_RECV_RDMA_IMM);
        host_complete_recv(host, qp, c);
    } else {
        host_complete_send(qp, c);
    }
}

static void host_event(void *host, uint8_t type, uint32_t id,
                       uint16_t vendor_err)
{
    FUZZ_CHECK(vendor_err != ROCE_VENDOR_FAULT);
    FUZZ_CHECK(type > FAKERNIC_EVENT_CQ_ERROR &&
               type <= FAKERNIC_EVENT_LAST_WQE_REACHED);
    host_qp(host, id);
}

/* ---- life ---------------------------------------------------------------- */

void host_init(Host *h, uint64_t base)
{
    uint32_t i;

    /* The rings need no clearing, as their indices become 0. */
    memset(h->memory, 0, sizeof(h->memory));
    memset(h->dm, 0, sizeof(h->dm));
    memset(h->demand, 0, sizeof(h->demand));
    h->grants = h->wants = 0;
    h->want_lost = false;
    h->base = base;
    h->unguarded = false;
    h->fail_dma_in = 0;
    h->tag = 1;
    for (i = 0; i < HOST_QPS; i++) {
        h->qp[i].alive = false;
        h->qp[i].pi = h->qp[i].ci = 0;
    }
    for (i = 0; i < HOST_SRQS; i++) {
        h->srq[i].pi = h->srq[i].ci = 0;
        h->srq[i].broken = false;
        h->srq_xrcdn[i] = 0;
    }
}

static void host_free_sends(HostQp *qp)
{
    for (; qp->ci != qp->pi; qp->ci++) {
        RoceSendWr *wr = &qp->send[qp->ci % HOST_RING];

        if (wr->opcode == FAKERNIC_SQ_REG_MR && !wr->format_error) {
            free(wr->reg_mr.pages);
        }
    }
}

void host_cleanup(Host *h)
{
    for (uint32_t i = 0; i < HOST_QPS; i++) {
        host_free_sends(&h->qp[i]);
    }
}

void host_qp_created(Host *h, uint32_t qpn, const RoceQpInit *init)
{
    HostQp *qp = &h->qp[qpn];

    FUZZ_CHECK(qpn > 0 && qpn < HOST_QPS && !qp->alive);
    qp->alive = true;
    qp->init = *init;
    host_qp_forget(h, qpn, false);
}

void host_qp_forget(Host *h, uint32_t qpn, bool destroyed)
{
    HostQp *qp = host_qp(h, qpn);

    host_free_sends(qp);
    qp->fetched_ci = qp->fetched_pi;
    qp->rq.ci = qp->rq.pi;
    qp->rq.broken = qp->broken = false;
    qp->held = false;
    qp->alive = !destroyed;
}

const RoceHostOps fuzz_host_ops = {
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
};
