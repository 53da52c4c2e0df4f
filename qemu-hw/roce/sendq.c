/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The send window: work requests and PSNs enter, and packets sent and answered
 * move its marks (IBTA 9.7.7.1 and 9.7.6.1). It knows neither packets nor
 * time. It must keep una, tx_psn, high and next_psn in this order.
 */
#include "sendq.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "stream.h"

/* A REG_MR that was never executed still owns its page list. */
static void roce_send_wr_release(const RoceSendWr *wr)
{
    if (wr->format_error == 0 && wr->opcode == FAKERNIC_SQ_REG_MR) {
        free(wr->reg_mr.pages);
    }
}

/* Most work requests need a tenth of the longest one's size. */
static size_t roce_send_wr_size(const RoceSendWr *wr)
{
    unsigned most = wr->flags & FAKERNIC_SQ_INLINE ? FAKERNIC_INLINE_MAX
                                                   : FAKERNIC_SGE_MAX;
    unsigned count = wr->flags & FAKERNIC_SQ_INLINE ? wr->inline_length
                                                    : wr->sge_count;

    if (wr->format_error) {
        return offsetof(RoceSendWr, sge);
    }
    /*
     * A larger count is refused by the checks, which do not look at the
     * entries.
     */
    count = count < most ? count : most;
    return offsetof(RoceSendWr, sge) +
           (wr->flags & FAKERNIC_SQ_INLINE ? count
                                           : count * sizeof(RoceSge));
}

/* Most queues are never deeper. */
#define ROCE_SENDQ_FIRST 8u

bool roce_sendq_init(RoceSendq *sq, uint32_t max)
{
    sq->max = max;
    sq->size = max < ROCE_SENDQ_FIRST ? max : ROCE_SENDQ_FIRST;
    sq->ring = calloc(sq->size, sizeof(*sq->ring));
    return sq->ring != NULL;
}

/* Doubles the ring. Each entry keeps its number. */
static bool roce_sendq_grow(RoceSendq *sq)
{
    RoceSend *ring = calloc(2 * sq->size, sizeof(*ring));

    if (!ring) {
        return false;
    }
    for (uint32_t i = sq->ci; i != sq->pi; i++) {
        ring[i & (2 * sq->size - 1)] = *roce_sendq_at(sq, i);
    }
    free(sq->ring);
    sq->ring = ring;
    sq->size *= 2;
    return true;
}

void roce_sendq_free(RoceSendq *sq)
{
    if (sq->ring) {
        roce_sendq_reset(sq, 0);
    }
    free(sq->ring);
    sq->ring = NULL;
    sq->size = sq->max = 0;
}

void roce_sendq_reset(RoceSendq *sq, uint32_t psn)
{
    while (!roce_sendq_empty(sq)) {
        roce_sendq_pop(sq);
    }
    sq->ci = sq->tx = sq->pi = 0;
    sq->una = sq->tx_psn = sq->high = sq->next_psn = psn;
    sq->ssn = sq->lsn = 0;
    sq->credits_known = false;
    sq->unlimited = false;
    sq->answers = 0;
    sq->answer_psns = 0;
    sq->broken = false;
    sq->again_count = 0;
}

RoceSend *roce_sendq_push(RoceSendq *sq, const RoceSendWr *wr)
{
    size_t size = roce_send_wr_size(wr);
    RoceSendWr *copy = NULL;
    RoceSend *send;

    assert(!roce_sendq_full(sq));
    if (sq->pi - sq->ci < sq->size || roce_sendq_grow(sq)) {
        copy = malloc(size);
    }
    if (!copy) {
        roce_send_wr_release(wr);
        return NULL;
    }
    memcpy(copy, wr, size);
    send = roce_sendq_at(sq, sq->pi++);
    *send = (RoceSend) { .wr = copy };
    return send;
}

void roce_sendq_break(RoceSendq *sq)
{
    sq->broken = true;
}

void roce_sendq_pop(RoceSendq *sq)
{
    RoceSend *send = roce_sendq_at(sq, sq->ci);

    assert(!roce_sendq_empty(sq));
    if (send->answered && send->started) {
        sq->answers--;
        sq->answer_psns -= send->psn_count;
    }
    roce_send_wr_release(send->wr);
    free(send->wr);
    send->wr = NULL;
    if (sq->tx == sq->ci) {
        sq->tx++;
    }
    sq->ci++;
    /*
     * Restarting at 0 keeps a shallow queue within a few entries in the cache.
     */
    if (sq->ci == sq->pi) {
        sq->ci = sq->tx = sq->pi = 0;
    }
}

static bool roce_sendq_below_limit(const RoceSendq *sq, uint32_t ssn)
{
    return sq->unlimited || !roce_psn_before(sq->lsn, ssn);
}

bool roce_sendq_has_credit(const RoceSendq *sq)
{
    const RoceSend *send = roce_sendq_at(sq, sq->tx);

    if (!send->consumes) {
        return true;
    }
    if (!send->started) {
        return roce_sendq_below_limit(sq, roce_psn_next(sq->ssn)) ||
               roce_sendq_outstanding(sq) == 0;
    }
    /* Nothing was outstanding before a probe, so una is in it or behind it. */
    return !send->probe || sq->tx_psn == send->psn || sq->una != send->psn ||
           roce_sendq_below_limit(sq, send->ssn);
}

void roce_sendq_uncredited(RoceSendq *sq)
{
    sq->unlimited = true;
}

bool roce_sendq_credit(RoceSendq *sq, uint32_t msn, uint32_t credits)
{
    uint32_t lsn = roce_psn_add(msn, credits);

    sq->credits_known = true;
    /*
     * Receives are never withdrawn, so an older report does not lower the
     * limit.
     */
    if (!roce_psn_before(sq->lsn, lsn)) {
        return false;
    }
    sq->lsn = lsn;
    return true;
}

bool roce_sendq_start(RoceSendq *sq)
{
    RoceSend *send = roce_sendq_at(sq, sq->tx);
    uint32_t outstanding = roce_sendq_outstanding(sq);

    assert(!send->started && sq->tx_psn == sq->next_psn);
    if (outstanding > 0 && outstanding + send->psn_count > ROCE_PSN_WINDOW) {
        return false;
    }
    send->psn = sq->next_psn;
    send->started = true;
    sq->ssn = send->ssn = roce_psn_next(sq->ssn);
    send->probe = send->consumes && sq->credits_known &&
                  !roce_sendq_below_limit(sq, send->ssn);
    sq->next_psn = roce_psn_add(sq->next_psn, send->psn_count);
    if (send->answered) {
        sq->answers++;
        sq->answer_psns += send->psn_count;
    }
    return true;
}

void roce_sendq_sent(RoceSendq *sq, uint32_t psn_count)
{
    RoceSend *send = roce_sendq_at(sq, sq->tx);

    /* To the peer a later part of a READ is a separate message. */
    if (send->answered && sq->tx_psn == sq->high && sq->tx_psn != send->psn) {
        sq->ssn = roce_psn_next(sq->ssn);
    }
    sq->tx_psn = roce_psn_add(sq->tx_psn, psn_count);
    if (roce_psn_sub(sq->tx_psn, sq->una) > roce_psn_sub(sq->high, sq->una)) {
        sq->high = sq->tx_psn;
    }
    if (sq->tx_psn == roce_send_end(send)) {
        sq->tx++;
    }
}

void roce_sendq_skip(RoceSendq *sq)
{
    assert(sq->tx != sq->pi);
    sq->tx++;
}

/*
 * PSNs of READs are the peer's packets. The answered ones of the oldest READ
 * are already before una. Those of READs that will be sent again are beyond
 * tx_psn, so the difference may be negative.
 */
uint32_t roce_sendq_data_in_flight(const RoceSendq *sq)
{
    uint32_t reads = sq->answer_psns;
    uint32_t sent = roce_psn_sub(sq->tx_psn, sq->una);
    const RoceSend *head = roce_sendq_at(sq, sq->ci);

    if (!roce_sendq_empty(sq) && head->started && head->answered) {
        reads -= roce_psn_sub(sq->una, head->psn);
    }
    return sent > reads ? sent - reads : 0;
}

RoceSend *roce_sendq_find(const RoceSendq *sq, uint32_t psn)
{
    uint32_t i = sq->ci;

    for (;; i++) {
        RoceSend *send = roce_sendq_at(sq, i);

        assert(i != sq->pi);
        if (send->started &&
            roce_psn_sub(psn, send->psn) < send->psn_count) {
            return send;
        }
    }
}

/* Records that the PSNs from 'first' to before 'end' were sent. */
static void roce_sendq_note_again(RoceSendq *sq, uint32_t first, uint32_t end)
{
    for (unsigned i = 0; i < sq->again_count; i++) {
        RoceSendAgain *again = &sq->again[i];

        if (again->first == first && again->end == end) {
            again->times += again->times < UINT8_MAX;
            return;
        }
    }
    if (sq->again_count == ROCE_SENDQ_AGAIN) {
        memmove(sq->again, sq->again + 1,
                --sq->again_count * sizeof(sq->again[0]));
    }
    sq->again[sq->again_count++] = (RoceSendAgain) { first, end, 1 };
}

/*
 * Forgets answered ranges: they are not sent again, and their PSNs are reused.
 */
static void roce_sendq_forget_again(RoceSendq *sq)
{
    unsigned kept = 0;

    for (unsigned i = 0; i < sq->again_count; i++) {
        if (roce_psn_before(sq->una, sq->again[i].end)) {
            sq->again[kept++] = sq->again[i];
        }
    }
    sq->again_count = (uint8_t)kept;
}

void roce_sendq_probed(RoceSendq *sq, uint32_t psn)
{
    roce_sendq_note_again(sq, psn, roce_psn_next(psn));
}

uint8_t roce_sendq_attempts(const RoceSendq *sq, uint32_t psn)
{
    unsigned attempt = 1;

    /* Sent since the last rewind as well: then this is a probe. */
    attempt += roce_psn_sub(psn, sq->una) < roce_psn_sub(sq->tx_psn, sq->una);
    for (unsigned i = 0; i < sq->again_count; i++) {
        const RoceSendAgain *again = &sq->again[i];

        if (roce_psn_sub(psn, again->first) <
            roce_psn_sub(again->end, again->first)) {
            attempt += again->times;
        }
    }
    return attempt < UINT8_MAX ? (uint8_t)attempt : UINT8_MAX;
}

void roce_sendq_rewind(RoceSendq *sq)
{
    if (sq->tx_psn != sq->una) {
        roce_sendq_note_again(sq, sq->una, sq->tx_psn);
    }
    sq->tx = sq->ci;
    sq->tx_psn = sq->una;
}

/*
 * An answer has overtaken a retransmission: skips the packets that it covers.
 */
static void roce_sendq_catch_up(RoceSendq *sq, uint32_t old_una)
{
    if (sq->again_count > 0) {
        roce_sendq_forget_again(sq);
    }
    if (roce_psn_sub(sq->tx_psn, old_una) >= roce_psn_sub(sq->una, old_una)) {
        return;
    }
    sq->tx_psn = sq->una;
    while (sq->tx != sq->pi) {
        RoceSend *send = roce_sendq_at(sq, sq->tx);

        /* A PSN window is shorter than half the number space: no ambiguity. */
        if (!send->done &&
            (!send->started ||
             roce_psn_sub(roce_send_end(send), old_una) >
                 roce_psn_sub(sq->una, old_una))) {
            break;
        }
        sq->tx++;
    }
}

bool roce_sendq_ack(RoceSendq *sq, uint32_t psn, bool *progress)
{
    uint32_t old = sq->una;
    uint32_t span = roce_psn_sub(psn, old) + 1;     /* PSNs now answered */
    bool complete = true;
    uint32_t i;

    for (i = sq->ci; i != sq->pi; i++) {
        RoceSend *send = roce_sendq_at(sq, i);
        uint32_t end;

        if (!send->started) {
            if (send->done) {
                continue;
            }
            break;
        }
        end = roce_psn_sub(roce_send_end(send), old);
        if (end == 0 || roce_psn_sub(sq->una, old) >= end) {
            /* Not reached: a completed entry is removed at once. */
            continue;
        }
        if (send->answered) {
            /*
             * Only answers to earlier packets, or its own data, move una past
             * this entry.
             */
            complete = roce_psn_sub(sq->una, old) >= span;
            break;
        }
        if (span < end) {
            sq->una = roce_psn_add(old, span);
            break;
        }
        sq->una = roce_send_end(send);
        if (span == end) {
            break;
        }
    }
    *progress = sq->una != old;
    if (*progress) {
        roce_sendq_catch_up(sq, old);
    }
    return complete;
}

void roce_sendq_expect_nothing(RoceSendq *sq)
{
    sq->una = sq->tx_psn;
    sq->high = sq->tx_psn;
}

void roce_sendq_abandon(RoceSendq *sq)
{
    sq->next_psn = sq->tx_psn;
    roce_sendq_expect_nothing(sq);
}

void roce_sendq_datagram(RoceSendq *sq)
{
    sq->next_psn = roce_psn_next(sq->next_psn);
    sq->una = sq->tx_psn = sq->high = sq->next_psn;
}

void roce_sendq_answer(RoceSendq *sq)
{
    uint32_t old = sq->una;

    sq->una = roce_psn_next(old);
    roce_sendq_catch_up(sq, old);
}

bool roce_sendq_head_complete(const RoceSendq *sq)
{
    const RoceSend *head = roce_sendq_at(sq, sq->ci);

    if (head->done) {
        return true;
    }
    /* una is never before the head's first PSN. */
    return head->started &&
           roce_psn_sub(sq->una, head->psn) >= head->psn_count;
}

bool roce_sendq_drained(const RoceSendq *sq)
{
    return roce_sendq_empty(sq) || !roce_send_begun(roce_sendq_at(sq, sq->ci));
}

/* ---- saving and loading -------------------------------------------------- */

static void sendq_again_transfer(RoceStream *s, RoceSendAgain *again)
{
    ROCE_PSN(s, again->first);
    ROCE_PSN(s, again->end);
    ROCE_FIELD(s, again->times);
}

/*
 * Do the PSNs of the started entries follow each other, up to next_psn? They
 * are the first entries, except that local ones may be between them. *start is
 * set to the first PSN.
 */
static bool sendq_chain_valid(const RoceSendq *sq, bool reliable,
                              uint32_t *start)
{
    const RoceSend *last = NULL;
    bool open = false;
    uint64_t span = 0;

    *start = reliable ? sq->next_psn : sq->una;
    for (uint32_t i = sq->ci; i != sq->pi; i++) {
        const RoceSend *send = roce_sendq_at(sq, i);

        if (!send->started) {
            open |= !send->done;
            continue;
        }
        if (open || send->psn_count == 0 || (reliable && send->done) ||
            (last ? send->psn != roce_send_end(last)
                  : reliable && i != sq->ci)) {
            return false;
        }
        *start = !last && reliable ? send->psn : *start;
        span += send->psn_count;
        last = send;
    }
    return span <= ROCE_PSN_MASK &&
           (!last || roce_send_end(last) == sq->next_psn);
}

/* Are tx and tx_psn at the same place, and the marks in their order? */
static bool sendq_marks_valid(const RoceSendq *sq, uint32_t start)
{
    const uint32_t una = roce_psn_sub(sq->una, start);
    const uint32_t tx = roce_psn_sub(sq->tx_psn, start);
    const uint32_t high = roce_psn_sub(sq->high, start);
    const uint32_t next = roce_psn_sub(sq->next_psn, start);
    bool sent = true;
    bool started = false;

    for (uint32_t i = sq->ci; i != sq->pi; i++) {
        const RoceSend *send = roce_sendq_at(sq, i);

        sent &= i != sq->tx;
        started |= send->started;
        if (send->started &&
            (roce_psn_sub(roce_send_end(send), start) <= tx) != sent) {
            return false;
        }
    }
    return una <= tx && tx <= high && high <= next &&
           (started || (tx == high && high == next));
}

static void sendq_derive(RoceSendq *sq)
{
    sq->answers = sq->answer_psns = 0;
    for (uint32_t i = sq->ci; i != sq->pi; i++) {
        const RoceSend *send = roce_sendq_at(sq, i);

        if (send->answered && send->started) {
            sq->answers++;
            sq->answer_psns += send->psn_count;
        }
    }
}

void roce_sendq_transfer(RoceStream *s, RoceSendq *sq, bool reliable,
                         bool active)
{
    uint32_t sent = sq->tx - sq->ci, start;

    ROCE_DERIVED(sq->ring);
    ROCE_DERIVED(sq->size);
    ROCE_DERIVED(sq->max);
    ROCE_FIELD(s, sent);
    ROCE_CHECK(s, sent <= sq->pi - sq->ci, "number of sends");
    ROCE_PSN(s, sq->una);
    ROCE_PSN(s, sq->tx_psn);
    ROCE_PSN(s, sq->high);
    ROCE_PSN(s, sq->next_psn);
    ROCE_PSN(s, sq->ssn);
    ROCE_PSN(s, sq->lsn);
    ROCE_FIELD(s, sq->credits_known);
    ROCE_FIELD(s, sq->unlimited);
    ROCE_FIELD(s, sq->broken);
    ROCE_DERIVED(sq->answers);
    ROCE_DERIVED(sq->answer_psns);
    ROCE_FIELD(s, sq->again_count);
    ROCE_CHECK(s, sq->again_count <= ROCE_SENDQ_AGAIN, "number of repeats");
    for (unsigned i = 0; i < sq->again_count && !s->failed; i++) {
        sendq_again_transfer(s, &sq->again[i]);
    }
    if (s->loads && !s->failed) {
        sq->tx = sq->ci + sent;
        sendq_derive(sq);
    }
    /* A queue that sends nothing is empty, and its PSNs are not used. */
    if (active && sq->size > 0) {
        ROCE_CHECK(s, sendq_chain_valid(sq, reliable, &start) &&
                          sendq_marks_valid(sq, start), "send window");
    }
}
