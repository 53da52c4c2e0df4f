/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The oracle checks the guarantees of verbs at every completion and at the end.
 * This file checks sends, model_recv.c receives, history.c the end.
 *
 *  - each work request completes exactly once, in order, with its status;
 *  - a message that completes at the sender has completed at the receiver;
 *  - memory has, byte for byte, the result of the completed requests;
 *  - READs return the bytes at the time of their execution, or those that a
 *    later unfenced request of the same QP wrote (IBTA 10.8.3.3, table 79);
 *  - atomics execute once;
 *  - a failed request has the status of the verbs chapter (IBTA 11.6.2), and
 *    all requests behind it are flushed.
 *
 * A history without planned errors, injections or harsh links gets no leeway.
 * Only where an outcome really is open (a failed request may have been
 * executed) the oracle marks its bytes as unknown.
 */
#include <string.h>

#include "../bytes.h"
#include "sim.h"

/* ---- what may happen ----------------------------------------------------- */

/* A response whose page is absent is lost, too. */
static bool link_may_lose(const World *w)
{
    return w->link.faults || w->options.harsh || w->options.odp_pct;
}

/* Whether this connection has a reason to fail by now. */
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

/* Whether a datagram may find no receive, or may not arrive. */
bool model_may_drop(const World *w)
{
    return w->link.faults || w->options.ud_no_recv_pct ||
           w->options.late_recv_pct || w->options.odp_pct;
}

/* UC loses a message if a packet, receive or right is missing. */
bool model_unreliable(const SimQp *qp)
{
    return qp->type == FAKERNIC_QP_UC &&
           (model_may_drop(qp->world) || model_may_break(qp));
}

/* Whether a send failed for which one of these sends waited. Then keys may have
 * a state that the programs of both sides do not expect. */
bool model_waited_in_vain(const SimQp *qp)
{
    for (uint32_t i = 0; i < qp->fetched; i++) {
        const SimSend *s = &qp->send[i];

        if (s->after && s->after->send[s->after_index].done != SIM_OK) {
            return true;
        }
    }
    return false;
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
    case SIM_ERR_PAGES:
        return BIT(FAKERNIC_WC_REM_ACCESS_ERR);
    case SIM_ERR_ALIGN:         /* the requester may see it first */
        return BIT(FAKERNIC_WC_REM_INV_REQ_ERR) |
               BIT(FAKERNIC_WC_LOC_QP_OP_ERR);
    case SIM_ERR_RECV_SMALL:
    case SIM_ERR_XRC_SRQ:
        return BIT(FAKERNIC_WC_REM_INV_REQ_ERR);
    case SIM_ERR_LKEY:
    case SIM_ERR_LBOUNDS:
    case SIM_ERR_STALE:
    case SIM_ERR_LPAGES:
        return BIT(FAKERNIC_WC_LOC_PROT_ERR);
    case SIM_ERR_FORMAT:
        return BIT(FAKERNIC_WC_LOC_QP_OP_ERR);
    case SIM_ERR_RECV_LKEY:
    case SIM_ERR_RECV_PAGES:
        return BIT(FAKERNIC_WC_REM_OP_ERR);
    default:
        return BIT(FAKERNIC_WC_SUCCESS);
    }
}

/* The statuses that send 'index' may have as the first failing one. */
static uint32_t send_statuses(const SimQp *qp, uint32_t index)
{
    const World *w = qp->world;
    uint32_t set = planned_status(qp->send[index].error);

    set |= qp->fault_send;
    if (qp->conn == NULL) {
        return set;
    }
    if (model_waited_in_vain(qp) || model_waited_in_vain(qp->peer)) {
        set |= BIT(FAKERNIC_WC_MW_BIND_ERR) | BIT(FAKERNIC_WC_LOC_PROT_ERR) |
               BIT(FAKERNIC_WC_REM_ACCESS_ERR) |
               BIT(FAKERNIC_WC_RETRY_EXC_ERR) | BIT(FAKERNIC_WC_WR_FLUSH_ERR);
    }
    if (w->options.harsh) {
        set |= BIT(FAKERNIC_WC_RETRY_EXC_ERR) |
               BIT(FAKERNIC_WC_RNR_RETRY_EXC_ERR);
    }
    /* Its own error: earlier sends succeed, unless their responses were lost
     * and the responder, in error, does not repeat them. */
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
    case FAKERNIC_SQ_RDMA_READ_INV:
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
    case FAKERNIC_SQ_FLUSH:
        return FAKERNIC_CQE_FLUSH;
    case FAKERNIC_SQ_NOP:
        return FAKERNIC_CQE_NOP;
    default:
        return 0;
    }
}

/* ---- effects at the responder -------------------------------------------- */

/* Whether a send after 'index' may have written this byte there in the zone. */
static bool later_byte(const SimQp *qp, uint32_t index, uint32_t offset,
                       uint8_t byte, bool stop_at_fence)
{
    const SimMr *zone = qp->send[index].zone;

    for (uint32_t i = index + 1; i < qp->fetched; i++) {
        const SimSend *s = &qp->send[i];

        if (stop_at_fence && (s->flags & FAKERNIC_SQ_FENCE)) {
            return false;
        }
        if (s->zone != zone || s->shared ||
            offset - s->zone_offset >= s->length) {
            continue;
        }
        if (opcode_is_atomic(s->opcode)) {
            uint8_t result[8];

            bytes_store64(result, s->result);
            if (result[offset - s->zone_offset] == byte) {
                return true;
            }
        } else if (opcode_is_write(s->opcode) &&
                   s->data[offset - s->zone_offset] == byte) {
            return true;
        }
    }
    return false;
}

/* A write's target must have its bytes, or those of a later send. */
static void check_zone(SimQp *qp, uint32_t index)
{
    const SimSend *s = &qp->send[index];
    Host *h = qp->peer->host;
    uint8_t *is = qp->world->scratch[0], *should = qp->world->scratch[1];

    mr_get(s->zone, h->memory, s->zone_offset, is, s->length);
    mr_get(s->zone, h->expected, s->zone_offset, should, s->length);
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
    if (opcode_is_atomic(s->opcode)) {
        mr_put64(s->zone, h->expected, s->zone_offset, s->result);
    } else if (opcode_is_write(s->opcode)) {
        mr_put(s->zone, h->expected, s->zone_offset, s->data, s->length);
    }
}

/* Sends before 'end' are known to have been executed. */
void model_executed(SimQp *qp, uint32_t end)
{
    uint32_t from = qp->executed;

    if (!qp_is_reliable(qp) || end <= from) {
        return;
    }
    for (uint32_t i = from; i < end; i++) {
        apply_effect(qp, &qp->send[i]);
    }
    qp->executed = end;
    for (uint32_t i = from; i < end && !qp->world->failed; i++) {
        if (opcode_is_write(qp->send[i].opcode)) {
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

/* All QPs add 1 to this word: each original, from 0 on, occurs once. */
static void check_shared(SimQp *qp, uint32_t index, uint64_t original)
{
    World *w = qp->world;
    const Host *there = qp->peer->host;
    uint8_t *seen = w->shared_seen[there->number];
    uint64_t start, count;

    start = mr_get64(there->counter, there->expected,
                     qp->send[index].zone_offset);
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
    original = bytes_load64(got);
    if (s->shared) {
        check_shared(qp, index, original);
    } else if (original != s->original) {
        world_fail(qp->world, "QP %u atomic %u returned %016llx, not %016llx",
                   qp->qpn, index, (unsigned long long)original,
                   (unsigned long long)s->original);
    }
}

static uint64_t flush_length(const SimSend *s)
{
    return s->flush & FAKERNIC_FLUSH_LEVEL_MR ? s->zone->length : s->length;
}

/* Bytes that the host must flush. One barrier suffices for visibility. */
static uint64_t flush_owes(const SimSend *s)
{
    uint64_t length = flush_length(s);

    return s->flush & FAKERNIC_FLUSH_PERSISTENT || length == 0 ? length : 1;
}

/* Whether a FLUSH waits for these bytes. An on-demand region may have absent
 * pages, so the number of its bytes is not known. */
static bool flush_covers(const SimSend *s, uint64_t offset, uint64_t len,
                         const SimMr *zone, bool persistent)
{
    uint64_t from = s->flush & FAKERNIC_FLUSH_LEVEL_MR ? 0 : s->zone_offset;

    return s->opcode == FAKERNIC_SQ_FLUSH && s->zone == zone &&
           (s->flushed < flush_owes(s) || zone->on_demand) &&
           offset >= from && offset + len <= from + flush_length(s) &&
           persistent == !!(s->flush & FAKERNIC_FLUSH_PERSISTENT);
}

/* All bytes written before a FLUSH in program order must be in the memory that
 * it flushes (IBTA A19.4). */
static void check_flushed(SimQp *qp, uint32_t index, uint64_t offset,
                          uint64_t len)
{
    const SimSend *s = &qp->send[index];
    uint8_t is;

    for (uint64_t k = 0; !(s->flush & FAKERNIC_FLUSH_LEVEL_MR) && k < len;
         k++) {
        mr_get(s->zone, qp->peer->host->memory, offset + k, &is, 1);
        if (is != s->data[offset + k - s->zone_offset] &&
            !qp->world->options.hostile_ppm) {
            world_fail(qp->world, "QP %u: FLUSH %u before byte %u of the "
                       "zone was written", qp->qpn, index,
                       (uint32_t)(offset + k));
            return;
        }
    }
}

/* The oldest FLUSH that covers these bytes gets them. With absent pages any of
 * them may be meant, so the bytes are checked only if there is one. */
static bool flush_meets(SimQp *qp, uint64_t offset, uint64_t len,
                        const SimMr *zone, bool persistent)
{
    uint32_t met = 0, oldest = 0;

    for (uint32_t i = qp->executed; i < qp->fetched; i++) {
        if (!flush_covers(&qp->send[i], offset, len, zone, persistent)) {
            continue;
        }
        qp->send[i].flushed += len;
        if (met++ == 0) {
            oldest = i;
        }
        if (!zone->on_demand) {
            break;
        }
    }
    if (met == 1) {
        check_flushed(qp, oldest, offset, len);
    }
    return met > 0;
}

void model_flush(Host *h, uint64_t address, uint64_t len, bool persistent)
{
    World *w = h->world;

    for (uint32_t i = 0; i < w->qp_count; i++) {
        SimQp *qp = &w->qp[i];

        for (uint32_t k = 0; k < qp->fetched; k++) {
            const SimSend *s = &qp->send[k];
            uint64_t offset;

            if (s->opcode == FAKERNIC_SQ_FLUSH && qp->peer->host == h &&
                mr_find(s->zone, address, &offset)) {
                if (flush_meets(qp, offset, len, s->zone, persistent)) {
                    return;
                }
            }
        }
    }
    if (!w->options.hostile_ppm) {
        world_fail(w, "host %u: an unexpected flush of %llu bytes",
                   h->number, (unsigned long long)len);
    }
}

static void check_flush(SimQp *qp, uint32_t index)
{
    const SimSend *s = &qp->send[index];
    uint64_t owed = flush_owes(s);

    /* One for visibility skips absent pages. */
    if (s->zone->on_demand && !(s->flush & FAKERNIC_FLUSH_PERSISTENT) &&
        !paging_constant(s->zone, s->zone_offset, s->length, s->fetched_at)) {
        owed = 0;
    }
    if (s->flushed < owed) {
        world_fail(qp->world, "QP %u: FLUSH %u is done, %llu of %llu bytes are "
                   "flushed", qp->qpn, index, (unsigned long long)s->flushed,
                   (unsigned long long)owed);
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
    if (!qp_is_reliable(qp)) {
        return;
    }
    if (s->message >= 0 && qp->peer->received <= (uint32_t)s->message) {
        world_fail(qp->world, "QP %u send %u completed before its receive did",
                   qp->qpn, index);
        return;
    }
    model_executed(qp, index + 1);
    if (opcode_is_read(s->opcode)) {
        check_read(qp, index);
    } else if (s->opcode == FAKERNIC_SQ_FLUSH) {
        check_flush(qp, index);
    } else if (opcode_is_atomic(s->opcode)) {
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

void model_send(SimQp *qp, const RoceCompletion *c)
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
    /* Unsignaled sends before it have succeeded without a completion. */
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
    inject_completed(qp);
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
    if ((opcode_is_atomic(s->opcode) || opcode_is_read(s->opcode)) &&
        c->byte_count != s->length) {
        world_fail(w, "QP %u send %u: byte count %u, not %u", qp->qpn, index,
                   c->byte_count, s->length);
    }
    send_succeeded(qp, index);
}
