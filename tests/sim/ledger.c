/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What each connection has sent on the wire: messages, PSNs, credits.
 *
 * Every new request must be the next one of the program, with the next PSN
 * (IBTA 9.7.2). A READ may be requested in parts, each a message to the
 * responder. Every response must belong to a request.
 *
 * Credits are counted twice, from responses and from posted receives. A
 * responder reports no more credits than it has receives. Beyond its limit a
 * requester sends only one message that needs a receive. RNR NAKs occur only
 * beyond the limit (IBTA 9.7.7.2). A response counts when it is sent, not when
 * it arrives, as the requester never knows more than that.
 *
 * Rates are leaky buckets. A congestion notification needs a cause and a
 * minimum distance to the one before.
 */
#include "sim.h"

#define NO_CREDIT_CODE 31
#define BURST_NS MS                     /* the time a QP may catch up */
#define BURST_FRAMES 2
#define CNP_DISTANCE (50 * US)          /* DCQCN's N */

/* IBTA table 46: 0 to 4, then powers of two and halfway between. */
static uint32_t credits_of(uint8_t code)
{
    return code < 4 ? code : (2u + (code & 1)) << (code / 2 - 1);
}

static bool before(uint32_t a, uint32_t b)
{
    return ((a - b) & 0xffffff) >= 0x800000;
}

static uint32_t psn_span(const SimQp *qp, const SimSend *s)
{
    uint32_t mtu = mtu_bytes(qp->mtu);

    return opcode_is_atomic(s->opcode) || s->opcode == FAKERNIC_SQ_FLUSH ||
           !s->length ? 1 : (s->length - 1) / mtu + 1;
}

static bool on_wire(const SimSend *s)
{
    return s->opcode < FAKERNIC_SQ_LOCAL_INV;
}

void ledger_open(SimQp *qp)
{
    qp->ledger = (SimLedger){ .psn = qp->sq_psn, .acked = qp->sq_psn,
                              .send = qp->fetched, .base = qp->fetched };
}

/* Whether a message of this send may begin with the opcode. */
static bool begins_with(const SimSend *s, uint8_t opcode)
{
    switch (opcode & 0x1f) {
    case 0x00: case 0x04: case 0x05: case 0x17:
        return opcode_is_send(s->opcode);
    case 0x06: case 0x0a: case 0x0b:
        return s->opcode == FAKERNIC_SQ_RDMA_WRITE ||
               s->opcode == FAKERNIC_SQ_RDMA_WRITE_IMM;
    case 0x0c:
        return opcode_is_read(s->opcode);
    case 0x13: case 0x14:
        return opcode_is_atomic(s->opcode);
    case 0x1c:
        return s->opcode == FAKERNIC_SQ_FLUSH;
    case 0x1d:
        return s->opcode == FAKERNIC_SQ_ATOMIC_WRITE;
    default:
        return false;
    }
}

/* READs, atomics, etc. take responder resources (IBTA 9.7.5.1.4). */
static bool is_answered(const SimSend *s)
{
    return opcode_is_read(s->opcode) || opcode_is_atomic(s->opcode) ||
           s->opcode == FAKERNIC_SQ_FLUSH ||
           s->opcode == FAKERNIC_SQ_ATOMIC_WRITE;
}

/* The number of these on the wire whose last response was not sent yet. */
static uint32_t unanswered(const SimQp *qp)
{
    const SimLedger *l = &qp->ledger;
    uint32_t count = 0;

    for (uint32_t i = l->send + 1; i > l->base; i--) {
        const SimSend *s = &qp->send[i - 1];

        if (!on_wire(s)) {
            continue;
        }
        if (before(s->last_psn, l->acked)) {
            break;
        }
        count += is_answered(s);
    }
    return count;
}

/* A READ request continues a READ that has begun before. */
static void read_part(SimQp *qp, const SimFrame *f)
{
    SimLedger *l = &qp->ledger;
    uint32_t mtu = mtu_bytes(qp->mtu);
    uint32_t end = (f->psn + (f->read ? (f->read - 1) / mtu + 1 : 1)) &
                   0xffffff;

    if ((f->opcode & 0x1f) != 0x0c || !before(l->asked, end)) {
        return;
    }
    if (f->psn != l->asked) {
        world_fail(qp->world, "QP %u: READ from PSN %06x to %06x, %06x was the "
                   "end", qp->qpn, f->psn, end, l->asked);
    }
    l->ssn++;
    l->asked = end;
}

void ledger_request(SimQp *qp, const SimFrame *f)
{
    SimLedger *l = &qp->ledger;
    World *w = qp->world;
    const SimSend *s;

    if (f->psn != l->psn) {
        if (before(l->psn, f->psn)) {
            world_fail(w, "QP %u: request PSN %06x, the next one is %06x",
                       qp->qpn, f->psn, l->psn);
        }
        read_part(qp, f);
        return;                 /* a repeated or a later packet of a message */
    }
    while (l->send < qp->fetched && !on_wire(&qp->send[l->send])) {
        l->send++;
    }
    s = &qp->send[l->send];
    if (l->send >= qp->fetched || !begins_with(s, f->opcode)) {
        world_fail(w, "QP %u: %s with new PSN %06x, the next send is %u",
                   qp->qpn, frame_opcode_name(f->opcode), f->psn, l->send);
        return;
    }
    l->ssn++;
    if (s->message >= 0 && qp->type == FAKERNIC_QP_RC && !l->unlimited &&
        l->ssn > l->limit && before(l->acked, l->psn)) {
        world_fail(w, "QP %u: message %u (send %u) is beyond the credit limit "
                   "%u, and not alone", qp->qpn, l->ssn, l->send, l->limit);
    }
    l->asked = l->psn;
    if ((f->opcode & 0x1f) == 0x0c) {
        l->ssn--;
        read_part(qp, f);
    }
    l->psn = (l->psn + psn_span(qp, s)) & 0xffffff;
    if ((f->opcode & 0x1f) != 0x0c) {
        l->asked = l->psn;
    }
    qp->send[l->send].last_psn = (l->psn - 1) & 0xffffff;
    if (is_answered(s) && unanswered(qp) > qp->rd_atomic) {
        world_fail(w, "QP %u: more READs and atomics outstanding than the %u "
                   "granted", qp->qpn, qp->rd_atomic);
    }
    l->send++;
}

/* The SSN of the message the responder waits for. */
static uint32_t awaited_ssn(const SimQp *qp)
{
    uint32_t ssn = 0, received = qp->peer->received;

    if (received >= qp->message_count) {
        return 0;
    }
    for (uint32_t i = qp->ledger.base;
         i <= (uint32_t)qp->message[received]; i++) {
        ssn += on_wire(&qp->send[i]);
    }
    return ssn;
}

static void answer_credits(SimQp *qp, const SimFrame *f)
{
    SimLedger *l = &qp->ledger;
    const SimRq *rq = qp->peer->rq;
    uint32_t credits = credits_of(f->syndrome & 0x1f);

    if ((f->syndrome & 0x1f) == NO_CREDIT_CODE) {
        l->unlimited = true;
        return;
    }
    if (rq->srqn || qp->type != FAKERNIC_QP_RC ||
        credits > rq->posted - rq->done) {
        world_fail(qp->world, "QP %u promises %u receives, has %u",
                   qp->peer->qpn, credits, rq->posted - rq->done);
    }
    if (f->msn + credits > l->limit) {
        l->limit = f->msn + credits;
    }
}

void ledger_answer(SimQp *qp, const SimFrame *f)
{
    SimLedger *l = &qp->ledger;
    World *w = qp->world;
    uint8_t kind = f->has_aeth ? f->syndrome & 0x60 : 0;
    uint32_t known = kind ? f->psn : (f->psn + 1) & 0xffffff;

    if (before(l->psn, known)) {
        world_fail(w, "QP %u: %s for PSN %06x, which was not asked", qp->qpn,
                   frame_opcode_name(f->opcode), f->psn);
        return;
    }
    if (before(l->acked, known)) {
        l->acked = known;
    }
    if (f->has_aeth && f->msn > l->ssn) {
        world_fail(w, "QP %u: MSN %u after %u messages", qp->qpn, f->msn,
                   l->ssn);
    }
    if (f->has_aeth && !kind) {
        answer_credits(qp, f);
    }
    /* The pages of a posted receive may be absent. */
    if (kind == 0x20 && !l->unlimited && awaited_ssn(qp) <= l->limit &&
        !w->options.odp_pct) {
        world_fail(w, "QP %u: RNR NAK for message %u, %u were promised",
                   qp->qpn, awaited_ssn(qp), l->limit);
    }
}

static uint32_t ledger_kbps(const SimQp *qp)
{
    static const uint32_t rates[] = {           /* enum ibv_rate */
        [2] = 2500000, [3] = 10000000, [4] = 30000000, [5] = 5000000,
        [6] = 20000000, [7] = 40000000,
    };
    uint32_t fixed = qp->static_rate < 8 ? rates[qp->static_rate] : 0;

    return fixed && (!qp->limit_kbps || fixed < qp->limit_kbps)
           ? fixed : qp->limit_kbps;
}

void ledger_rate(SimQp *qp, size_t len)
{
    SimLedger *l = &qp->ledger;
    World *w = qp->world;
    uint64_t kbps = ledger_kbps(qp), drained, most;

    if (!kbps) {
        return;
    }
    drained = (uint64_t)(w->now - l->burst_at) * kbps / 1000000;
    most = BURST_NS / 1000 * kbps / 1000 + BURST_FRAMES * ROCE_FRAME_MAX * 8;
    l->burst = (l->burst > drained ? l->burst - drained : 0) + len * 8;
    l->burst_at = w->now;
    if (l->burst > most) {
        world_fail(w, "QP %u: faster than its %llu kbit/s: %llu bits at once",
                   qp->qpn, (unsigned long long)kbps,
                   (unsigned long long)l->burst);
    }
}

void ledger_cnp(SimQp *qp)
{
    SimLedger *l = &qp->ledger;
    World *w = qp->world;

    if (!w->marks && !w->options.corrupt_ppm) {
        world_fail(w, "QP %u: a CNP without a mark", qp->qpn);
    }
    if (l->cnps && w->now - l->cnp_at < CNP_DISTANCE) {
        world_fail(w, "QP %u: two CNPs within %lld ns", qp->qpn,
                   (long long)(w->now - l->cnp_at));
    }
    l->cnp_at = w->now;
    l->cnps++;
}
