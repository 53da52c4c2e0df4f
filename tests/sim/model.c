/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The oracle: what verbs promise, checked at every completion and at the end.
 *
 *  - each work request completes exactly once, in order, as it should;
 *  - a message that completes at the sender has completed at the receiver;
 *  - memory is, byte for byte, what the completed requests made it;
 *  - READs return what was there when they were executed, or what a later
 *    unfenced request of the same QP put there (IBTA 10.8.3.3, table 79);
 *  - atomics execute once;
 *  - what fails, fails with the status the verbs chapter names (IBTA 11.6.2),
 *    and everything behind it is flushed.
 *
 * A history without planned errors, injections or harsh links gets no leeway.
 * Where an outcome truly is open (a request that failed may have been executed),
 * its bytes are marked unknown, and only those.
 */
#include <string.h>

#include "sim.h"

#define BIT(status) (1u << (status))
#define ANY_STATUS 0xffffffffu

/* ---- what may happen ----------------------------------------------------- */

static bool link_may_lose(const World *w)
{
    return w->link.faults || w->options.harsh;
}

/* Is there, by now, a reason for this connection to end in an error? */
bool model_may_break(const SimQp *qp)
{
    const SimQp *peer = qp->peer;

    if (!peer) {
        return false;
    }
    return qp->conn->injected || qp->world->options.harsh ||
           (qp->planned >= 0 && (uint32_t)qp->planned < qp->fetched) ||
           (peer->planned >= 0 && (uint32_t)peer->planned < peer->fetched);
}

static uint32_t planned_status(SimError e)
{
    switch (e) {
    case SIM_ERR_RKEY_INDEX:
    case SIM_ERR_RKEY_TAG:
    case SIM_ERR_RKEY_PD:
    case SIM_ERR_BOUNDS:
    case SIM_ERR_ACCESS:
    case SIM_ERR_INVALIDATED:
        return BIT(FAKERNIC_WC_REM_ACCESS_ERR);
    case SIM_ERR_ALIGN:         /* the requester may see it first */
        return BIT(FAKERNIC_WC_REM_INV_REQ_ERR) |
               BIT(FAKERNIC_WC_LOC_QP_OP_ERR);
    case SIM_ERR_RECV_SMALL:
        return BIT(FAKERNIC_WC_REM_INV_REQ_ERR);
    case SIM_ERR_LKEY:
    case SIM_ERR_LBOUNDS:
    case SIM_ERR_STALE:
        return BIT(FAKERNIC_WC_LOC_PROT_ERR);
    case SIM_ERR_FORMAT:
        return BIT(FAKERNIC_WC_LOC_QP_OP_ERR);
    case SIM_ERR_RECV_LKEY:
        return BIT(FAKERNIC_WC_REM_OP_ERR);
    default:
        return BIT(FAKERNIC_WC_SUCCESS);
    }
}

/* The statuses send 'index' may complete with, as the first failing one. */
static uint32_t send_statuses(const SimQp *qp, uint32_t index)
{
    const World *w = qp->world;
    uint32_t set = planned_status(qp->send[index].error);

    if (qp->conn == NULL) {
        return set;
    }
    if (qp->conn->injected) {
        return ANY_STATUS;
    }
    if (w->options.harsh) {
        set |= BIT(FAKERNIC_WC_RETRY_EXC_ERR) |
               BIT(FAKERNIC_WC_RNR_RETRY_EXC_ERR);
    }
    /* Its own error: before it everything succeeds, unless the answers were
     * lost and the responder, in error, gives none a second time. */
    if (qp->planned >= 0 && model_may_break(qp) && link_may_lose(w)) {
        set |= BIT(FAKERNIC_WC_RETRY_EXC_ERR);
    }
    /* The peer's error: this QP goes to ERR, or its peer no longer answers. */
    if (qp->peer->planned >= 0 && model_may_break(qp)) {
        set |= BIT(FAKERNIC_WC_RETRY_EXC_ERR);
        if (qp->planned_responder) {
            set |= BIT(FAKERNIC_WC_WR_FLUSH_ERR);
        }
    }
    return set;
}

static uint8_t send_cqe_opcode(uint8_t opcode)
{
    switch (opcode) {
    case FAKERNIC_SQ_SEND:
    case FAKERNIC_SQ_SEND_IMM:
    case FAKERNIC_SQ_SEND_INV:
        return FAKERNIC_CQE_SEND;
    case FAKERNIC_SQ_LOCAL_INV:
        return FAKERNIC_CQE_LOCAL_INV;
    case FAKERNIC_SQ_REG_MR:
        return FAKERNIC_CQE_REG_MR;
    case FAKERNIC_SQ_BIND_MW:
        return FAKERNIC_CQE_BIND_MW;
    case FAKERNIC_SQ_RDMA_WRITE:
    case FAKERNIC_SQ_RDMA_WRITE_IMM:
        return FAKERNIC_CQE_RDMA_WRITE;
    case FAKERNIC_SQ_RDMA_READ:
        return FAKERNIC_CQE_RDMA_READ;
    case FAKERNIC_SQ_ATOMIC_CMP_SWAP:
        return FAKERNIC_CQE_CMP_SWAP;
    case FAKERNIC_SQ_ATOMIC_FETCH_ADD:
        return FAKERNIC_CQE_FETCH_ADD;
    case FAKERNIC_SQ_ATOMIC_MASKED_CMP_SWAP:
        return FAKERNIC_CQE_MASKED_CMP_SWAP;
    case FAKERNIC_SQ_ATOMIC_MASKED_FETCH_ADD:
        return FAKERNIC_CQE_MASKED_FETCH_ADD;
    case FAKERNIC_SQ_ATOMIC_WRITE:
        return FAKERNIC_CQE_ATOMIC_WRITE;
    case FAKERNIC_SQ_NOP:
        return FAKERNIC_CQE_NOP;
    default:
        return 0;
    }
}

static bool is_atomic(const SimSend *s)
{
    return s->opcode >= FAKERNIC_SQ_ATOMIC_CMP_SWAP &&
           s->opcode <= FAKERNIC_SQ_ATOMIC_MASKED_FETCH_ADD;
}

static bool is_write(const SimSend *s)
{
    return s->opcode == FAKERNIC_SQ_RDMA_WRITE ||
           s->opcode == FAKERNIC_SQ_RDMA_WRITE_IMM ||
           s->opcode == FAKERNIC_SQ_ATOMIC_WRITE;
}

/* ---- effects at the responder -------------------------------------------- */

/* May a send after 'index' have put this byte at that place of the zone? */
static bool later_byte(const SimQp *qp, uint32_t index, uint32_t offset,
                       uint8_t byte, bool stop_at_fence)
{
    for (uint32_t i = index + 1; i < qp->fetched; i++) {
        const SimSend *s = &qp->send[i];

        if (stop_at_fence && (s->flags & FAKERNIC_SQ_FENCE)) {
            return false;
        }
        if (s->shared || offset - s->zone_offset >= s->length) {
            continue;
        }
        if (is_atomic(s)) {
            const uint8_t *result = (const uint8_t *)&s->result;

            if (result[offset - s->zone_offset] == byte) {
                return true;
            }
        } else if (is_write(s) && s->data[offset - s->zone_offset] == byte) {
            return true;
        }
    }
    return false;
}

/* Memory at a write's target: what it wrote, or what came after it. */
static void check_zone(SimQp *qp, uint32_t index)
{
    const SimSend *s = &qp->send[index];
    Host *h = qp->peer->host;
    uint8_t *is = qp->world->scratch[0], *should = qp->world->scratch[1];

    mr_get(qp->zone, h->memory, s->zone_offset, is, s->length);
    mr_get(qp->zone, h->expected, s->zone_offset, should, s->length);
    if (memcmp(is, should, s->length) == 0) {
        return;
    }
    for (uint32_t i = 0; i < s->length; i++) {
        if (is[i] != should[i] &&
            !later_byte(qp, index, s->zone_offset + i, is[i], false)) {
            world_fail(qp->world, "QP %u send %u: byte %u of %u at the target "
                       "is %02x, not %02x", qp->qpn, index, i, s->length,
                       is[i], should[i]);
            return;
        }
    }
}

static void apply_effect(SimQp *qp, SimSend *s)
{
    Host *h = qp->peer->host;

    s->executed = true;
    if (s->shared) {
        return;
    }
    if (is_atomic(s)) {
        mr_put(qp->zone, h->expected, s->zone_offset, &s->result, 8);
    } else if (is_write(s)) {
        mr_put(qp->zone, h->expected, s->zone_offset, s->data, s->length);
    }
}

/* Sends before 'end' are known to have been executed. */
static void mark_executed(SimQp *qp, uint32_t end)
{
    uint32_t from = qp->executed;

    if (qp->type != FAKERNIC_QP_RC || end <= from) {
        return;
    }
    for (uint32_t i = from; i < end; i++) {
        apply_effect(qp, &qp->send[i]);
    }
    qp->executed = end;
    for (uint32_t i = from; i < end && !qp->world->failed; i++) {
        if (is_write(&qp->send[i])) {
            check_zone(qp, i);
        }
    }
}

/* ---- completions of sends ------------------------------------------------ */

static void check_read(SimQp *qp, uint32_t index)
{
    const SimSend *s = &qp->send[index];
    uint8_t *got = qp->world->scratch[0];
    uint32_t at = 0;

    for (unsigned i = 0; i < s->sge_count; i++) {
        const SimSge *sge = &s->sge[i];

        if (sge->length) {
            mr_get(sge->mr, qp->host->memory, sge->offset, got + at,
                   sge->length);
            mr_put(sge->mr, qp->host->expected, sge->offset, got + at,
                   sge->length);
            at += sge->length;
        }
    }
    for (uint32_t i = 0; i < s->length; i++) {
        if (got[i] != s->data[i] &&
            !later_byte(qp, index, s->zone_offset + i, got[i], true)) {
            world_fail(qp->world, "QP %u READ %u: byte %u of %u is %02x, not "
                       "%02x", qp->qpn, index, i, s->length, got[i],
                       s->data[i]);
            return;
        }
    }
}

/* The word that all QPs add 1 to: originals are all different, 0.. */
static void check_shared(SimQp *qp, uint32_t index, uint64_t original)
{
    World *w = qp->world;
    const Host *there = qp->peer->host;
    uint8_t *seen = w->shared_seen[there->number];
    uint64_t start, count;

    mr_get(there->counter, there->expected, qp->send[index].zone_offset,
           &start, 8);
    count = original - start;
    w->shared_adds[there->number]++;
    if (count >= 4096 || seen[count]) {
        world_fail(w, "QP %u: FETCH_ADD %u returned %llu for the second time, "
                   "or out of nowhere", qp->qpn, index,
                   (unsigned long long)count);
        return;
    }
    seen[count] = 1;
}

static void check_atomic(SimQp *qp, uint32_t index)
{
    const SimSend *s = &qp->send[index];
    uint8_t got[8];
    uint64_t original;
    uint32_t at = 0;

    for (unsigned i = 0; i < s->sge_count; i++) {
        if (s->sge[i].length) {
            mr_get(s->sge[i].mr, qp->host->memory, s->sge[i].offset, got + at,
                   s->sge[i].length);
            mr_put(s->sge[i].mr, qp->host->expected, s->sge[i].offset,
                   got + at, s->sge[i].length);
            at += s->sge[i].length;
        }
    }
    memcpy(&original, got, 8);
    if (s->shared) {
        check_shared(qp, index, original);
    } else if (original != s->original) {
        world_fail(qp->world, "QP %u atomic %u returned %016llx, not %016llx",
                   qp->qpn, index, (unsigned long long)original,
                   (unsigned long long)s->original);
    }
}

static void send_succeeded(SimQp *qp, uint32_t index)
{
    SimSend *s = &qp->send[index];

    s->done = SIM_OK;
    if (qp->world->options.hostile_ppm) {
        return;
    }
    if (s->error != SIM_ERR_NONE && s->error != SIM_ERR_QKEY &&
        !(qp->conn && qp->conn->injected)) {
        world_fail(qp->world, "QP %u send %u succeeded in spite of error %d",
                   qp->qpn, index, s->error);
        return;
    }
    if (qp->type != FAKERNIC_QP_RC) {
        return;
    }
    if (s->message >= 0 && qp->peer->received <= (uint32_t)s->message) {
        world_fail(qp->world, "QP %u send %u completed before its receive did",
                   qp->qpn, index);
        return;
    }
    mark_executed(qp, index + 1);
    if (s->opcode == FAKERNIC_SQ_RDMA_READ) {
        check_read(qp, index);
    } else if (is_atomic(s)) {
        check_atomic(qp, index);
    }
}

static void send_failed(SimQp *qp, uint32_t index, uint8_t status)
{
    SimSend *s = &qp->send[index];
    uint32_t allowed = qp->sq_failed || qp->error
                       ? BIT(FAKERNIC_WC_WR_FLUSH_ERR)
                       : send_statuses(qp, index) & ~1u;

    s->done = SIM_FAILED;
    s->status = status;
    qp->sq_failed = true;
    if (qp->world->options.hostile_ppm) {
        return;
    }
    if (status >= 32 || !(allowed & BIT(status))) {
        world_fail(qp->world, "QP %u send %u (error %d) completed with status "
                   "%u; allowed: %x", qp->qpn, index, s->error, status,
                   allowed);
    }
}

static void model_send(SimQp *qp, const RoceCompletion *c)
{
    World *w = qp->world;
    uint32_t index = c->wqe_index;
    const SimSend *s;

    if (index < qp->done || index >= qp->fetched) {
        world_fail(w, "QP %u: completion of send %u, expected %u..%u", qp->qpn,
                   index, qp->done, qp->fetched);
        return;
    }
    if (c->cqn != qp->send_cqn || c->srqn != 0) {
        world_fail(w, "QP %u: send completion for CQ %u", qp->qpn, c->cqn);
    }
    /* Unsignaled ones before it have succeeded, silently. */
    for (uint32_t i = qp->done; i < index && !w->failed; i++) {
        if ((qp->send[i].flags & FAKERNIC_SQ_SIGNALED) || qp->sq_failed) {
            world_fail(w, "QP %u: send %u completes, %u never did", qp->qpn,
                       index, i);
            return;
        }
        send_succeeded(qp, i);
    }
    s = &qp->send[index];
    qp->done = index + 1;
    if (c->status != FAKERNIC_WC_SUCCESS) {
        send_failed(qp, index, c->status);
        return;
    }
    if (qp->sq_failed || !(s->flags & FAKERNIC_SQ_SIGNALED)) {
        world_fail(w, "QP %u send %u: success after a failure, or unsignaled",
                   qp->qpn, index);
        return;
    }
    if (w->options.hostile_ppm) {
        send_succeeded(qp, index);
        return;
    }
    if (c->opcode != send_cqe_opcode(s->opcode) || c->vendor_err) {
        world_fail(w, "QP %u send %u: CQE opcode %u for opcode %u", qp->qpn,
                   index, c->opcode, s->opcode);
    }
    if ((is_atomic(s) || s->opcode == FAKERNIC_SQ_RDMA_READ) &&
        c->byte_count != s->length) {
        world_fail(w, "QP %u send %u: byte count %u, not %u", qp->qpn, index,
                   c->byte_count, s->length);
    }
    send_succeeded(qp, index);
}

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

/* The bytes of a receive that may hold part of an unfinished message. */
static void recv_unknown(const SimRecv *r)
{
    for (unsigned i = 0; i < r->sge_count; i++) {
        if (r->sge[i].length && r->sge[i].mr) {
            mr_fill(r->sge[i].mr, r->sge[i].mr->host->unknown,
                    r->sge[i].offset, 1, r->sge[i].length);
        }
    }
}

static bool recv_matches(const SimSend *s, const RoceCompletion *c)
{
    bool write = is_write(s);
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
 * UC loses messages, and on a link that repeats or reorders packets it takes
 * any first packet for a new message (IBTA 9.8.2.2). What arrives must be one
 * that was sent: a later one if there is one that fits.
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

        if ((uint32_t)peer->message[k] < peer->fetched && recv_matches(s, c) &&
            (is_write(s) || memcmp(s->data, got, s->length) == 0)) {
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

    if (peer->type == FAKERNIC_QP_UC && w->link.faults) {
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
    if (!recv_matches(s, c)) {
        world_fail(w, "QP %u: message %u (send %u, opcode %u, %u bytes, imm "
                   "%08x) received as opcode %u, %u bytes, imm %08x, flags %x",
                   qp->qpn, qp->received, index, s->opcode, s->length, s->imm,
                   c->opcode, c->byte_count, c->imm_or_key, c->flags);
        return;
    }
    qp->received++;
    if (peer->type == FAKERNIC_QP_UC && w->link.faults) {
        recv_unknown(r);        /* remains of messages that lost their end */
    }
    if (!is_write(s)) {
        expect_recv(qp, r, 0, s->data, s->length);
    }
    mark_executed(peer, index + 1);
}

/* IBTA A17.4.5.2: what a UD receiver finds before its data. Who sent it? */
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
    if (memcmp(dst, qp->host->gid[qp->gid_index] + skip, size) != 0) {
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

/* Finds the datagram that arrived; each arrives once, plus duplicates. */
static SimSend *find_datagram(const SimQp *qp, SimQp *src, const uint8_t *data,
                              const RoceCompletion *c)
{
    World *w = qp->world;
    SimSend *again = NULL;
    RoceCompletion without = *c;

    without.byte_count -= SIM_GRH;
    without.flags &= (uint8_t)~FAKERNIC_CQE_VLAN;
    for (uint32_t i = 0; i < src->fetched; i++) {
        SimSend *s = &src->send[i];

        if (s->error != SIM_ERR_NONE || s->done == SIM_FAILED) {
            continue;
        }
        if (s->ud_dest != qp || !recv_matches(s, &without) ||
            memcmp(s->data, data, s->length) != 0) {
            if (s->ud_dest == qp && !s->ud_copies && !w->link.faults &&
                !w->options.ud_no_recv_pct) {
                return NULL;    /* overtaken without a reason */
            }
            continue;
        }
        if (!s->ud_copies) {
            return s;
        }
        again = s;
    }
    return w->link.duplicates ? again : NULL;
}

static void model_recv_datagram(SimQp *qp, const SimRecv *r,
                                const RoceCompletion *c)
{
    World *w = qp->world;
    uint8_t buf[SIM_GRH + 4096];
    SimQp *src = NULL;
    SimSend *s;
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
    s = find_datagram(qp, src, buf + SIM_GRH, c);
    if (!s) {
        world_fail(w, "QP %u: datagram of %u bytes was never sent, is out of "
                   "order or came twice", qp->qpn, c->byte_count - SIM_GRH);
        return;
    }
    s->ud_copies++;
    expect_recv(qp, r, 0, buf, c->byte_count);
}

static uint32_t recv_statuses(const SimQp *qp)
{
    const SimQp *peer = qp->peer;
    uint32_t set = 0;

    if (qp->world->options.hostile_ppm) {
        return ANY_STATUS;
    }
    if (qp->error || qp->rq_failed) {
        return BIT(FAKERNIC_WC_WR_FLUSH_ERR);
    }
    if (!peer) {
        return 0;
    }
    if (qp->conn->injected) {
        return ANY_STATUS;
    }
    if (model_may_break(qp)) {
        set = BIT(FAKERNIC_WC_WR_FLUSH_ERR);
    }
    if (qp->received < peer->message_count) {
        SimError e = peer->send[peer->message[qp->received]].error;

        if (e == SIM_ERR_RECV_SMALL) {
            set |= BIT(FAKERNIC_WC_LOC_LEN_ERR);
        } else if (e == SIM_ERR_RECV_LKEY) {
            set |= BIT(FAKERNIC_WC_LOC_PROT_ERR);
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
    /* Only the first one can have been begun, by a message on its way. */
    if (!qp->rq_failed && qp->peer &&
        ((qp->type == FAKERNIC_QP_UC && qp->world->link.faults) ||
         (qp->received < qp->peer->message_count &&
          (uint32_t)qp->peer->message[qp->received] < qp->peer->fetched))) {
        recv_unknown(r);
    }
    qp->rq_failed = true;
}

static void model_recv(SimQp *qp, const RoceCompletion *c)
{
    World *w = qp->world;
    SimRq *rq = qp->rq;
    uint32_t index = c->wqe_index - rq->tag_base;
    SimRecv *r;

    if (index >= rq->fetched || rq->recv[index].done != SIM_OPEN ||
        rq->recv[index].qp != qp || (!rq->srqn && index != rq->done)) {
        world_fail(w, "QP %u: completion of receive %u, not outstanding or "
                   "not the next", qp->qpn, index);
        return;
    }
    if (c->cqn != qp->recv_cqn || c->srqn != rq->srqn) {
        world_fail(w, "QP %u: receive completion for CQ %u, SRQ %u", qp->qpn,
                   c->cqn, c->srqn);
    }
    r = &rq->recv[index];
    rq->done = index + 1;
    rq->open--;
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
    } else {
        model_recv_datagram(qp, r, c);
    }
}

/* ---- reports ------------------------------------------------------------- */

void model_complete(Host *h, const RoceCompletion *c)
{
    SimQp *qp = host_find_qp(h, c->qpn);

    if (!qp || qp->silent) {
        world_fail(h->world, "completion for QP %u, which has no work",
                   c->qpn);
        return;
    }
    /* The opcode tells the queue, in errors too (cq.h: >= 128 receives). */
    if (c->opcode & 0x80) {
        model_recv(qp, c);
    } else {
        model_send(qp, c);
    }
}

void model_event(Host *h, uint8_t type, uint32_t id, uint16_t vendor_err)
{
    SimQp *qp = host_find_qp(h, id);
    bool broken = qp && (qp->error || model_may_break(qp));

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
    case FAKERNIC_EVENT_LAST_WQE_REACHED:
        if (!broken || !qp->rq->srqn) {
            world_fail(h->world, "LAST_WQE_REACHED for QP %u", id);
        }
        break;
    default:
        world_fail(h->world, "unexpected event %u", type);
    }
}
