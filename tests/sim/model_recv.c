/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The receiving half of the oracle: messages, datagrams, events.
 */
#include <string.h>

#include "sim.h"

/* ---- completions of receives --------------------------------------------- */

/* Expects data in a receive buffer, after 'skip' bytes of it. */
static void expect_recv(SimQp *qp, const SimRecv *r, uint32_t skip,
                        const uint8_t *data, uint32_t len)
{
    uint8_t *is = qp->world->scratch[0];
    uint32_t at = 0, done = 0;

    for (unsigned i = 0; i < r->sge_count && done < len; i++) {
        const SimSge *sge = &r->sge[i];
        uint32_t from = skip > at ? skip - at : 0, n;

        at += sge->length;
        if (from >= sge->length) {
            continue;
        }
        n = sge->length - from < len - done ? sge->length - from : len - done;
        mr_get(sge->mr, qp->host->memory, sge->offset + from, is, n);
        mr_put(sge->mr, qp->host->expected, sge->offset + from, data + done,
               n);
        if (memcmp(is, data + done, n) != 0) {
            world_fail(qp->world, "QP %u: received data differs within bytes "
                       "%u..%u of %u", qp->qpn, done, done + n, len);
            return;
        }
        done += n;
        skip = at;
    }
    if (done < len) {
        world_fail(qp->world, "QP %u: %u bytes received into a buffer of %u",
                   qp->qpn, len, r->length);
    }
}

/* Marks a receive that may contain part of an unfinished message. */
static void recv_unknown(const SimRecv *r)
{
    for (unsigned i = 0; i < r->sge_count; i++) {
        if (r->sge[i].length && r->sge[i].mr) {
            mr_fill(r->sge[i].mr, r->sge[i].mr->host->unknown,
                    r->sge[i].offset, 1, r->sge[i].length);
        }
    }
}

/* A longer datagram may have left bytes there before it met an absent page. */
static void recv_leftovers(const World *w, const SimRecv *r)
{
    if (w->options.odp_pct) {
        recv_unknown(r);
    }
}

static bool recv_matches(const SimSend *s, const RoceCompletion *c)
{
    bool write = opcode_is_write(s->opcode);
    bool imm = s->opcode == FAKERNIC_SQ_SEND_IMM || write;
    bool inv = s->opcode == FAKERNIC_SQ_SEND_INV;
    uint8_t flags = (imm ? FAKERNIC_CQE_IMM : 0) |
                    (inv ? FAKERNIC_CQE_INV : 0) |
                    (s->flags & FAKERNIC_SQ_SOLICITED ? FAKERNIC_CQE_SOLICITED
                                                      : 0);

    return c->opcode == (write ? FAKERNIC_CQE_RECV_RDMA_IMM
                               : FAKERNIC_CQE_RECV) &&
           c->byte_count == s->length && (c->flags & ~FAKERNIC_CQE_GRH) == flags
           && (!(imm || inv) || c->imm_or_key == s->imm);
}

static void read_recv(const SimQp *qp, const SimRecv *r, uint8_t *buf,
                      uint32_t len)
{
    uint32_t at = 0;

    for (unsigned i = 0; i < r->sge_count && at < len; i++) {
        uint32_t n = r->sge[i].length < len - at ? r->sge[i].length : len - at;

        if (n) {
            mr_get(r->sge[i].mr, qp->host->memory, r->sge[i].offset, buf + at,
                   n);
            at += n;
        }
    }
}

/*
 * UC loses messages. On a link that duplicates or reorders packets, any first
 * packet begins a new message (IBTA 9.8.2.2). A received message must equal one
 * that was sent; if a later one fits, it is that one.
 */
static uint32_t find_unreliable(const SimQp *qp, const SimRecv *r,
                                const RoceCompletion *c)
{
    const SimQp *peer = qp->peer;
    uint32_t count = peer->message_count;
    uint8_t *got = qp->world->scratch[0];

    read_recv(qp, r, got, c->byte_count < qp->world->options.max_size
                          ? c->byte_count : qp->world->options.max_size);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t k = (qp->received + i) % count;
        const SimSend *s = &peer->send[peer->message[k]];

        /* An empty message may look like another one that fails. */
        if ((uint32_t)peer->message[k] < peer->fetched &&
            (s->error == SIM_ERR_NONE || qp->conn->injected) &&
            recv_matches(s, c) &&
            (opcode_is_write(s->opcode) ||
             memcmp(s->data, got, s->length) == 0)) {
            return k;
        }
    }
    return count;
}

static void model_recv_message(SimQp *qp, const SimRecv *r,
                               const RoceCompletion *c)
{
    World *w = qp->world;
    SimQp *peer = qp->peer;
    uint32_t index;
    const SimSend *s;

    if (model_unreliable(peer)) {
        qp->received = find_unreliable(qp, r, c);
    }
    if (qp->received >= peer->message_count) {
        world_fail(w, "QP %u: a receive completed without a message", qp->qpn);
        return;
    }
    index = (uint32_t)peer->message[qp->received];
    s = &peer->send[index];
    if (index >= peer->fetched ||
        (s->error != SIM_ERR_NONE && !qp->conn->injected)) {
        world_fail(w, "QP %u: received send %u, which was not sent or fails",
                   qp->qpn, index);
        return;
    }
    if (s->xrc && s->xrc->srqn != c->srqn) {
        world_fail(w, "QP %u: send %u for SRQ %u received from SRQ %u",
                   qp->qpn, index, s->xrc->srqn, c->srqn);
        return;
    }
    if (!recv_matches(s, c)) {
        world_fail(w, "QP %u: message %u (send %u, opcode %u, %u bytes, imm "
                   "%08x) received as opcode %u, %u bytes, imm %08x, flags %x",
                   qp->qpn, qp->received, index, s->opcode, s->length, s->imm,
                   c->opcode, c->byte_count, c->imm_or_key, c->flags);
        return;
    }
    qp->received++;
    if (model_unreliable(peer)) {
        recv_unknown(r);        /* parts of messages that were lost */
    }
    if (!opcode_is_write(s->opcode)) {
        expect_recv(qp, r, 0, s->data, s->length);
    }
    model_executed(peer, index + 1);
}

/* Whether the QP is a member of the group with this address. */
static bool is_group(const SimQp *qp, const uint8_t *dst, size_t skip,
                     size_t size)
{
    const World *w = qp->world;

    for (uint32_t i = 0; i < w->group_count; i++) {
        const SimGroup *g = &w->group[i];

        for (uint32_t k = 0; k < g->count; k++) {
            if (g->member[k] == qp &&
                !memcmp(dst, g->gid[qp->gid_index & 1] + skip, size)) {
                return true;
            }
        }
    }
    return false;
}

/* Checks the header before the data of a UD receive (IBTA A17.4.5.2). Returns
 * the sender's host. */
static Host *check_grh(SimQp *qp, const uint8_t *grh, const RoceCompletion *c)
{
    World *w = qp->world;
    bool v4 = qp->gid_index & 1;
    const uint8_t *src = v4 ? grh + 32 : grh + 8;
    const uint8_t *dst = v4 ? grh + 36 : grh + 24;
    size_t size = v4 ? 4 : 16, skip = v4 ? 12 : 0;
    uint32_t length = c->byte_count - SIM_GRH, wire;

    /* UDP, BTH, DETH, ImmDt, payload with pad, ICRC. */
    length = 8 + 12 + 8 + (c->flags & FAKERNIC_CQE_IMM ? 4 : 0) +
             ((length + 3) & ~3u) + 4 + (v4 ? 20 : 0);
    wire = v4 ? (uint32_t)grh[22] << 8 | grh[23]
              : (uint32_t)grh[4] << 8 | grh[5];
    if ((v4 ? grh[20] != 0x45 : grh[0] >> 4 != 6) || wire != length) {
        world_fail(w, "QP %u: GRH version %02x, length %u, not %u", qp->qpn,
                   grh[v4 ? 20 : 0], wire, length);
        return NULL;
    }
    if (memcmp(dst, qp->host->gid[qp->gid_index] + skip, size) != 0 &&
        !is_group(qp, dst, skip, size)) {
        world_fail(w, "QP %u: GRH for another GID", qp->qpn);
        return NULL;
    }
    for (unsigned i = 0; i < SIM_HOSTS && w->host[i]; i++) {
        if (!memcmp(src, w->host[i]->gid[qp->gid_index] + skip, size)) {
            return w->host[i];
        }
    }
    world_fail(w, "QP %u: GRH from an unknown GID", qp->qpn);
    return NULL;
}

/* Counts the arrivals of a datagram at a QP; NULL: it is for other QPs. */
static uint8_t *datagram_copies(const SimSend *s, const SimQp *qp)
{
    if (!s->group) {
        return s->ud_dest == qp ? s->copies : NULL;
    }
    for (uint32_t i = 0; i < s->group->count; i++) {
        if (s->group->member[i] == qp) {
            return &s->copies[i];
        }
    }
    return NULL;
}

/* Finds the datagram that arrived; each arrives once, plus duplicates. */
static uint8_t *find_datagram(const SimQp *qp, SimQp *src, const uint8_t *data,
                              const RoceCompletion *c)
{
    World *w = qp->world;
    uint8_t *again = NULL;

    for (uint32_t i = 0; i < src->fetched; i++) {
        SimSend *s = &src->send[i];
        uint8_t *copies = datagram_copies(s, qp);

        if (s->error != SIM_ERR_NONE || s->done == SIM_FAILED || !copies) {
            continue;
        }
        if (!recv_matches(s, c) || memcmp(s->data, data, s->length) != 0) {
            if (!*copies && !model_may_drop(w)) {
                return NULL;    /* reordered without a reason */
            }
            continue;
        }
        if (!*copies) {
            return copies;
        }
        again = copies;
    }
    return w->link.duplicates ? again : NULL;
}

static void model_recv_datagram(SimQp *qp, const SimRecv *r,
                                const RoceCompletion *c)
{
    World *w = qp->world;
    uint8_t buf[SIM_GRH + 4096];
    RoceCompletion without = *c;
    uint8_t *copies;
    SimQp *src = NULL;
    Host *from;

    if (c->byte_count < SIM_GRH || c->byte_count > sizeof(buf) ||
        !(c->flags & FAKERNIC_CQE_GRH)) {
        world_fail(w, "QP %u: datagram of %u bytes, flags %x", qp->qpn,
                   c->byte_count, c->flags);
        return;
    }
    read_recv(qp, r, buf, c->byte_count);
    from = check_grh(qp, buf, c);
    src = from ? host_find_qp(from, c->src_qpn) : NULL;
    if (!src || src->conn) {
        world_fail(w, "QP %u: datagram from unknown QP %u", qp->qpn,
                   c->src_qpn);
        return;
    }
    if (c->network_type != qp->host->gid_type[qp->gid_index] ||
        memcmp(c->smac, from->mac, 6) != 0) {
        world_fail(w, "QP %u: datagram's network type or source MAC", qp->qpn);
    }
    if (qp->host->gid_vlan[qp->gid_index] == FAKERNIC_VLAN_NONE
            ? c->flags & FAKERNIC_CQE_VLAN
            : !(c->flags & FAKERNIC_CQE_VLAN) ||
                  (c->vlan & 0xfff) != qp->host->gid_vlan[qp->gid_index]) {
        world_fail(w, "QP %u: datagram with VLAN %u, flags %x", qp->qpn,
                   c->vlan, c->flags);
    }
    without.byte_count -= SIM_GRH;
    without.flags &= (uint8_t)~FAKERNIC_CQE_VLAN;
    copies = find_datagram(qp, src, buf + SIM_GRH, &without);
    if (!copies) {
        world_fail(w, "QP %u: datagram of %u bytes was never sent, is out of "
                   "order or came twice", qp->qpn, c->byte_count - SIM_GRH);
        return;
    }
    *copies += *copies < 255;
    recv_leftovers(w, r);
    expect_recv(qp, r, 0, buf, c->byte_count);
}

static void model_recv_raw(SimQp *qp, const SimRecv *r,
                           const RoceCompletion *c)
{
    World *w = qp->world;
    uint8_t buf[4096], *copies = NULL;

    if (c->byte_count < 14 || c->byte_count > sizeof(buf)) {
        world_fail(w, "QP %u: raw frame of %u bytes", qp->qpn, c->byte_count);
        return;
    }
    read_recv(qp, r, buf, c->byte_count);
    for (uint32_t i = 0; i < w->everybody.count; i++) {
        SimQp *src = w->everybody.member[i];

        if (memcmp(src->host->mac, buf + 6, 6) == 0) {
            copies = find_datagram(qp, src, buf, c);
        }
    }
    if (!copies) {
        world_fail(w, "QP %u: frame of %u bytes was never sent, is out of "
                   "order or came twice", qp->qpn, c->byte_count);
        return;
    }
    *copies += *copies < 255;
    recv_leftovers(w, r);
    expect_recv(qp, r, 0, buf, c->byte_count);
}

static uint32_t recv_statuses(const SimQp *qp)
{
    const SimQp *peer = qp->peer;
    uint32_t set;

    if (qp->world->options.hostile_ppm) {
        return ANY_STATUS;
    }
    if (qp->error || qp->rq_failed) {
        return BIT(FAKERNIC_WC_WR_FLUSH_ERR);
    }
    if (!peer) {
        return 0;
    }
    set = qp->fault_recv;
    /* A SEND with Invalidate may find its key in another state. */
    if (model_waited_in_vain(qp) || model_waited_in_vain(peer)) {
        set |= BIT(FAKERNIC_WC_MW_BIND_ERR) | BIT(FAKERNIC_WC_LOC_ACCESS_ERR);
    }
    if (model_may_break(qp)) {
        set |= BIT(FAKERNIC_WC_WR_FLUSH_ERR);
    }
    if (qp->received < peer->message_count) {
        SimError e = peer->send[peer->message[qp->received]].error;

        if (e == SIM_ERR_RECV_SMALL) {
            set |= BIT(FAKERNIC_WC_LOC_LEN_ERR);
        } else if (e == SIM_ERR_RECV_LKEY || e == SIM_ERR_RECV_PAGES) {
            set |= BIT(FAKERNIC_WC_LOC_PROT_ERR);
        } else if (e == SIM_ERR_PAGES ||
                   (e == SIM_ERR_BOUNDS && qp->world->options.odp_pct)) {
            /* WRITE with immediate had a receive before it met the page. */
            set |= BIT(FAKERNIC_WC_LOC_ACCESS_ERR);
        }
    }
    return set;
}

static void recv_failed(SimQp *qp, SimRecv *r, const RoceCompletion *c)
{
    uint32_t allowed = recv_statuses(qp);

    r->done = SIM_FAILED;
    if (c->status >= 32 || !(allowed & BIT(c->status))) {
        world_fail(qp->world, "QP %u: receive completed with status %u; "
                   "allowed: %x", qp->qpn, c->status, allowed);
    }
    /* Only the first one can have part of an unfinished message. */
    if (!qp->rq_failed && qp->peer &&
        (model_unreliable(qp) ||
         (qp->received < qp->peer->message_count &&
          (uint32_t)qp->peer->message[qp->received] < qp->peer->fetched))) {
        recv_unknown(r);
    }
    if (!qp->conn) {
        recv_leftovers(qp->world, r);
    }
    qp->rq_failed = true;
}

/* Removes the receive that completes. NULL: no such receive was fetched. */
static SimRecv *recv_take(SimQp *qp, const RoceCompletion *c)
{
    World *w = qp->world;
    bool target = qp->type == FAKERNIC_QP_XRC_TGT;
    SimRq *rq = target && qp->host->xrc[1]->srqn == c->srqn
                ? qp->host->xrc[1] : qp->rq;
    uint32_t index = c->wqe_index - rq->tag_base;

    if (index >= rq->fetched || rq->recv[index].done != SIM_OPEN ||
        rq->recv[index].qp != qp || (!rq->srqn && index != rq->done)) {
        world_fail(w, "QP %u: completion of receive %u, not outstanding or "
                   "not the next", qp->qpn, index);
        return NULL;
    }
    if (c->cqn != (target ? rq->cqn : qp->recv_cqn) || c->srqn != rq->srqn) {
        world_fail(w, "QP %u: receive completion for CQ %u, SRQ %u", qp->qpn,
                   c->cqn, c->srqn);
    }
    rq->done = index + 1;
    rq->open--;
    return &rq->recv[index];
}

static void model_recv(SimQp *qp, const RoceCompletion *c)
{
    World *w = qp->world;
    SimRecv *r = recv_take(qp, c);

    if (!r) {
        return;
    }
    if (c->status != FAKERNIC_WC_SUCCESS) {
        recv_failed(qp, r, c);
        return;
    }
    r->done = SIM_OK;
    if (qp->rq_failed || c->vendor_err) {
        world_fail(w, "QP %u: a receive succeeds after a failed one", qp->qpn);
    } else if (w->options.hostile_ppm) {
        recv_unknown(r);
    } else if (qp->peer) {
        model_recv_message(qp, r, c);
    } else if (qp->type == FAKERNIC_QP_RAW_PACKET) {
        model_recv_raw(qp, r, c);
    } else {
        model_recv_datagram(qp, r, c);
    }
}

/* The receive was taken for a message that may have arrived in part. */
static void model_recv_returned(SimQp *qp, const RoceCompletion *c)
{
    SimRecv *r = recv_take(qp, c);

    if (r) {
        r->done = SIM_FAILED;
        recv_unknown(r);
    }
}

void model_recv_kept(const SimQp *qp, const SimRq *rq, const char *state)
{
    for (uint32_t i = 0; i < rq->fetched; i++) {
        if (rq->recv[i].qp == qp && rq->recv[i].done == SIM_OPEN) {
            world_fail(qp->world, "QP %u %s keeps receive %u", qp->qpn, state,
                       i);
        }
    }
}

void model_recv_ended(const SimQp *qp)
{
    const World *w = qp->world;

    for (uint32_t k = 0; k < w->rq_count; k++) {
        if (w->rq[k].srqn) {
            model_recv_kept(qp, &w->rq[k], "that ended");
        }
    }
}

/* ---- reports ------------------------------------------------------------- */

void model_complete(Host *h, const RoceCompletion *c)
{
    SimQp *qp = host_find_qp(h, c->qpn);

    if (qp && qp->ending && c->opcode & 0x80 && c->srqn &&
        c->status == FAKERNIC_WC_WR_FLUSH_ERR) {
        model_recv_returned(qp, c);
        return;
    }
    if (!qp || qp->silent) {
        world_fail(h->world, "completion for QP %u, which has no work",
                   c->qpn);
        return;
    }
    /* The opcode shows the queue, also for errors (cq.h: >= 128 receives). */
    if (c->opcode & 0x80) {
        model_recv(qp, c);
    } else {
        model_send(qp, c);
    }
}

void model_event(Host *h, uint8_t type, uint32_t id, uint16_t vendor_err)
{
    SimQp *qp = host_find_qp(h, id);
    bool broken = qp && (qp->error || model_may_break(qp) ||
                         h->world->options.hostile_ppm);

    (void)vendor_err;
    if (!qp || !qp->alive) {
        world_fail(h->world, "event %u for QP %u, which is no more", type, id);
        return;
    }
    switch (type) {
    case FAKERNIC_EVENT_COMM_ESTABLISHED:
        break;
    case FAKERNIC_EVENT_SQ_DRAINED:
        if (!qp->paused || qp->drained) {
            world_fail(h->world, "SQ_DRAINED for QP %u, which is not in SQD",
                       id);
        }
        qp->drained = true;
        qp->drained_step = h->world->steps;
        break;
    case FAKERNIC_EVENT_QP_FATAL:
    case FAKERNIC_EVENT_QP_REQUEST_ERROR:
    case FAKERNIC_EVENT_QP_ACCESS_ERROR:
        if (!broken) {
            world_fail(h->world, "event %u for QP %u without a reason", type,
                       id);
        }
        break;
    case FAKERNIC_EVENT_PATH_MIGRATED:
        if ((!qp->apm || !qp->peer->apm || qp->migrated ||
             !(h->world->link.faults || broken)) &&
            !h->world->options.hostile_ppm) {
            world_fail(h->world, "QP %u has migrated", id);
        }
        qp->migrated = true;
        break;
    case FAKERNIC_EVENT_PATH_MIGRATION_ERROR:
        /* Frames of an old life, or from a hostile host. */
        if (!qp->apm || (!h->world->options.reborn_pct &&
                         h->world->options.lives == 1 &&
                         !h->world->options.hostile_ppm)) {
            world_fail(h->world, "QP %u refused a migration", id);
        }
        break;
    case FAKERNIC_EVENT_LAST_WQE_REACHED:
        if (!broken || !qp->rq->srqn) {
            world_fail(h->world, "LAST_WQE_REACHED for QP %u", id);
        }
        break;
    default:
        world_fail(h->world, "unexpected event %u", type);
    }
}
