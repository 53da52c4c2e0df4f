/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The gate's slow paths: a point has a rule. Each function matches the rules of
 * its point and does to the item what the first hit says.
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "net/eth.h"
#include "../clock.h"
#include "effects.h"
#include "../state.h"
#include "gate.h"

/* Limit of stalls; beyond it no further send queue is stalled. */
#define FAKERNIC_STALLS_MAX     1024
/* A reordered item waits this long for the others to pass. */
#define FAKERNIC_REORDER_NS     100000000

static RoceFaultAction fakernic_fault_action(const RoceFaultRule *rule)
{
    return rule ? rule->act : ROCE_FAULT_COUNT;
}

/* ---- frames -------------------------------------------------------------- */

static FakernicHeld *fakernic_fault_hold_frame(FakernicState *s,
                                               RoceFaultPoint point,
                                               RoceTime due,
                                               const uint8_t *frame, size_t len,
                                               bool loopback)
{
    FakernicHeld *held = fakernic_fault_hold(s, point, due, len);

    memcpy(held->frame, frame, len);
    held->loopback = loopback;
    return held;
}

/*
 * The PSN relative to the connection's first one. Requests sent and responses
 * received count from this end's first PSN, others from the peer's.
 */
static uint32_t fakernic_fault_rpsn(const FakernicState *s,
                                    const RoceFaultSubject *subject)
{
    const bool sends = (subject->point == ROCE_FAULT_TX) != subject->response;
    uint32_t first;

    return roce_qp_first_psn(s->roce, subject->qpn, sends, &first)
               ? (subject->psn - first) & 0xffffff : ROCE_FAULT_NO_RPSN;
}

/*
 * May a rule match the frame, or does a held item wait for frames to pass? For
 * most frames the answer is no.
 */
static bool fakernic_fault_concerns(const FakernicState *s,
                                    RoceFaultPoint point, const uint8_t *frame,
                                    size_t len)
{
    const FakernicFaults *f = &s->faults;

    return roce_fault_wants_frame(&f->rules, point, frame, len) ||
           f->held_count > 0;
}

/* Applies rules to a frame, and may change it in place. */
static bool fakernic_fault_frame(FakernicState *s, RoceFaultSubject *subject,
                                 uint8_t *frame, size_t *len, bool loopback)
{
    const RoceFaultPoint point = subject->point;
    const RoceFaultRule *rule;
    FakernicHeld *held;

    roce_fault_look(subject, frame, *len);
    subject->rpsn = fakernic_fault_rpsn(s, subject);
    rule = fakernic_fault_hit(s, subject);
    switch (fakernic_fault_action(rule)) {
    case ROCE_FAULT_DROP:
        return false;
    case ROCE_FAULT_DELAY:
        fakernic_fault_hold_frame(s, point, subject->now + rule->delay_ns,
                                  frame, *len, loopback);
        return false;
    case ROCE_FAULT_THROTTLE:
        if (rule->goes <= subject->now && !s->faults.held_count) {
            break;
        }
        /* As in a router's queue, the newest frame is dropped: the oldest
         * frames are the next to go, and dropping them would stop the flow. */
        if (fakernic_fault_is_full(&s->faults, *len)) {
            roce_fault_lost(&s->faults.rules, rule);
        } else {
            fakernic_fault_hold_frame(s, point, rule->goes, frame, *len,
                                      loopback);
        }
        return false;
    case ROCE_FAULT_REORDER:
        held = fakernic_fault_hold_frame(s, point,
                                         subject->now + FAKERNIC_REORDER_NS,
                                         frame, *len, loopback);
        held->behind = rule->by;
        return false;
    case ROCE_FAULT_DUPLICATE:
        fakernic_fault_hold_frame(s, point, 0, frame, *len, loopback);
        break;
    case ROCE_FAULT_CORRUPT:
    case ROCE_FAULT_TRUNCATE:
    case ROCE_FAULT_MARK:
        *len = roce_fault_change(rule, frame, *len);
        break;
    default:
        break;
    }
    fakernic_fault_pass(s, point, 0, NULL);
    return *len >= ETH_HLEN;
}

const uint8_t *fakernic_fault_rx(FakernicState *s, const uint8_t *frame,
                                 size_t *len)
{
    RoceFaultSubject subject = { .point = ROCE_FAULT_RX };
    uint8_t *copy = s->faults.frame;

    if (!fakernic_fault_concerns(s, ROCE_FAULT_RX, frame, *len)) {
        return frame;
    }
    memcpy(copy, frame, *len);
    return fakernic_fault_frame(s, &subject, copy, len, false) ? copy : NULL;
}

bool fakernic_fault_loopback(FakernicState *s, uint8_t *frame, size_t *len)
{
    RoceFaultSubject subject = { .point = ROCE_FAULT_RX };

    return !fakernic_fault_concerns(s, ROCE_FAULT_RX, frame, *len) ||
           fakernic_fault_frame(s, &subject, frame, len, true);
}

bool fakernic_fault_tx(FakernicState *s, uint8_t *frame, size_t *len,
                       bool loopback)
{
    const RoceFrameInfo *info = roce_output_info(s->roce);
    RoceFaultSubject subject = {
        .point = ROCE_FAULT_TX, .qpn = info->qpn, .index = info->index,
        .attempt = info->attempt,
    };

    return !fakernic_fault_concerns(s, ROCE_FAULT_TX, frame, *len) ||
           fakernic_fault_frame(s, &subject, frame, len, loopback);
}

/* ---- doorbells and commands ---------------------------------------------- */

static FakernicHeld *fakernic_fault_hold_word(FakernicState *s,
                                              RoceFaultPoint point,
                                              RoceTime due, uint64_t offset,
                                              uint64_t word)
{
    FakernicHeld *held = fakernic_fault_hold(s, point, due, 0);

    held->offset = offset;
    held->word = word;
    return held;
}

void fakernic_gate_hold_doorbell(FakernicState *s, uint64_t offset,
                                 uint64_t word)
{
    fakernic_fault_hold_word(s, ROCE_FAULT_DOORBELL, 0, offset, word);
}

void fakernic_fault_bytes(const FakernicHit *hit, void *bytes, size_t len)
{
    if (hit->act == ROCE_FAULT_CORRUPT) {
        roce_fault_corrupt(&hit->corruption, bytes, len);
    }
}

void fakernic_fault_word(const FakernicHit *hit, uint64_t *word)
{
    cpu_to_le64s(word);
    fakernic_fault_bytes(hit, word, sizeof(*word));
    le64_to_cpus(word);
}

/* Applies rules to a doorbell, and may change the word in place. */
static bool fakernic_fault_store(FakernicState *s, RoceFaultSubject *subject,
                                 uint64_t offset, uint64_t *word)
{
    const RoceFaultRule *rule = fakernic_fault_hit(s, subject);
    FakernicHeld *held;

    switch (fakernic_fault_action(rule)) {
    case ROCE_FAULT_DROP:
        return false;
    case ROCE_FAULT_DELAY:
    case ROCE_FAULT_DUPLICATE:
        /* A duplicate's delay is 0. */
        fakernic_fault_hold_word(s, subject->point,
                                 subject->now + rule->delay_ns, offset, *word);
        if (rule->act == ROCE_FAULT_DELAY) {
            return false;
        }
        break;
    case ROCE_FAULT_REORDER:
        held = fakernic_fault_hold_word(s, subject->point,
                                        subject->now + FAKERNIC_REORDER_NS,
                                        offset, *word);
        held->behind = rule->by;
        return false;
    case ROCE_FAULT_CORRUPT:
        fakernic_fault_word(rule, word);
        break;
    default:
        break;
    }
    fakernic_fault_pass(s, subject->point, 0, NULL);
    return true;
}

bool fakernic_fault_doorbell(FakernicState *s, uint64_t offset, uint64_t *word)
{
    RoceFaultSubject subject = {
        .point = ROCE_FAULT_DOORBELL, .number = offset % FAKERNIC_PAGE_SIZE,
        .index = FAKERNIC_GET(FAKERNIC_DOORBELL_INDEX, *word),
    };

    if (subject.number == FAKERNIC_DOORBELL_SQ) {
        subject.qpn = FAKERNIC_GET(FAKERNIC_DOORBELL_ID, *word);
    }
    return fakernic_fault_store(s, &subject, offset, word);
}

bool fakernic_fault_cmd_doorbell(FakernicState *s, uint32_t pi)
{
    RoceFaultSubject subject = { .point = ROCE_FAULT_CMD_DOORBELL,
                                 .index = pi };
    uint64_t word = pi;

    return fakernic_fault_store(s, &subject, 0, &word);
}

FakernicVerdict fakernic_fault_command(FakernicState *s, uint16_t opcode,
                                       RoceTime *delayed_until, bool *lost)
{
    RoceFaultSubject subject = { .point = ROCE_FAULT_COMMAND,
                                 .number = opcode };
    const RoceFaultRule *rule = NULL;

    if (*delayed_until) {
        *delayed_until = 0;
    } else {
        rule = fakernic_fault_hit(s, &subject);
        *lost = fakernic_gate_drops(rule);
    }
    switch (fakernic_fault_action(rule)) {
    case ROCE_FAULT_DELAY:
        *delayed_until = fakernic_now() + rule->delay_ns;
        return FAKERNIC_VERDICT(FAKERNIC_CMD_LATER);
    case ROCE_FAULT_FAIL:
        return (FakernicVerdict) { .status = rule->status,
                                   .detail = rule->code };
    default:
        return FAKERNIC_VERDICT(FAKERNIC_CMD_OK);
    }
}

/* ---- completions --------------------------------------------------------- */

/*
 * When the last completion that is held for the CQ is due, not counting
 * reordered ones; -1: none is held.
 */
static RoceTime fakernic_fault_behind(const FakernicState *s, uint32_t cqn)
{
    const FakernicHeld *held;
    RoceTime last = -1;

    QTAILQ_FOREACH(held, &s->faults.held, next) {
        if (held->point == ROCE_FAULT_CQE && held->number == cqn &&
            !held->behind) {
            last = MAX(last, held->due);
        }
    }
    return last;
}

static void fakernic_fault_hold_cqe(FakernicState *s, const RoceCompletion *c,
                                    const FakernicCqeFault *fault, RoceTime due,
                                    uint64_t behind)
{
    FakernicHeld *held = fakernic_fault_hold(s, ROCE_FAULT_CQE, due, 0);

    held->number = c->cqn;
    held->completion = *c;
    held->fault = *fault;
    held->behind = behind;
}

/* Applies rules to a completion: may change it, and sets *fault. */
static bool fakernic_fault_completion(FakernicState *s, RoceCompletion *c,
                                      FakernicCqeFault *fault)
{
    RoceFaultSubject subject = { .point = ROCE_FAULT_CQE, .number = c->cqn,
                                 .qpn = c->qpn, .index = c->wqe_index };
    const RoceTime behind = fakernic_fault_behind(s, c->cqn);
    const RoceFaultRule *rule = fakernic_fault_hit(s, &subject);
    const RoceFaultAction act = fakernic_fault_action(rule);
    RoceTime due = behind;

    *fault = (FakernicCqeFault) { .overrun = act == ROCE_FAULT_OVERRUN };
    switch (act) {
    case ROCE_FAULT_DROP:
        return false;
    case ROCE_FAULT_REORDER:
        /* Not before those that are held already. */
        fakernic_fault_hold_cqe(s, c, fault, MAX(behind, subject.now) +
                                                 FAKERNIC_REORDER_NS, rule->by);
        return false;
    case ROCE_FAULT_CORRUPT:
        fault->corruption = rule->corruption;
        break;
    case ROCE_FAULT_FAIL:
        c->status = rule->status;
        c->vendor_err = rule->code;
        break;
    case ROCE_FAULT_DELAY:
        due = MAX(behind, subject.now + (RoceTime)rule->delay_ns);
        break;
    default:
        break;
    }
    if (due >= 0) {
        fakernic_fault_hold_cqe(s, c, fault, due, 0);
    } else {
        fakernic_fault_pass(s, ROCE_FAULT_CQE, c->cqn, NULL);
    }
    if (act == ROCE_FAULT_DUPLICATE) {
        fakernic_fault_hold_cqe(s, c, fault, MAX(due, 0), 0);
    }
    return due < 0;
}

bool fakernic_fault_cqe(FakernicState *s, const RoceCompletion **completion,
                        const FakernicCqeFault **fault)
{
    FakernicFaults *f = &s->faults;

    f->completion = **completion;
    *completion = &f->completion;
    *fault = &f->cqe;
    return fakernic_fault_completion(s, &f->completion, &f->cqe);
}

/* ---- work requests ------------------------------------------------------- */

/*
 * Applies rules once to the next WQE of a queue. False: the queue waits; with a
 * hit, its wait begins now. Beyond the limit of stalled send queues a DELAY has
 * no effect.
 */
static bool fakernic_fault_wqe(FakernicState *s, RoceFaultSubject *subject,
                               RoceTime *waits, const RoceFaultRule **rule)
{
    if (*waits > fakernic_now()) {
        return false;
    }
    if (*waits) {
        *waits = 0;
        return true;
    }
    *rule = fakernic_fault_hit(s, subject);
    if (!*rule || (*rule)->act != ROCE_FAULT_DELAY ||
        (subject->point == ROCE_FAULT_SEND_WQE &&
         s->faults.stalls >= FAKERNIC_STALLS_MAX)) {
        return true;
    }
    *waits = subject->now + (*rule)->delay_ns;
    return false;
}

bool fakernic_fault_send_wqe(FakernicState *s, uint32_t qpn, uint32_t index,
                             RoceTime *waits, const FakernicHit **hit)
{
    RoceFaultSubject subject = { .point = ROCE_FAULT_SEND_WQE, .qpn = qpn,
                                 .index = index };

    if (fakernic_fault_wqe(s, &subject, waits, hit)) {
        return true;
    }
    if (*hit) {
        fakernic_fault_stall(s, ROCE_FAULT_SEND_WQE, qpn, *waits);
    }
    return false;
}

bool fakernic_fault_send_result(FakernicState *s, const FakernicHit *hit,
                                uint32_t qpn, RoceSendWr *wr)
{
    if (hit->act == ROCE_FAULT_DROP) {
        /* There may be many dropped WQEs, so a later turn fetches the next. */
        fakernic_fault_stall(s, ROCE_FAULT_SEND_WQE, qpn, 0);
        return false;
    }
    if (hit->act == ROCE_FAULT_FAIL) {
        wr->forced_status = hit->status;
        wr->forced_error = hit->code;
    }
    return true;
}

bool fakernic_fault_recv_wqe(FakernicState *s, RoceFaultSubject *subject,
                             RoceTime *waits, const FakernicHit **hit)
{
    return fakernic_fault_wqe(s, subject, waits, hit) &&
           !fakernic_gate_drops(*hit);
}

/* ---- events and interrupts ----------------------------------------------- */

void fakernic_gate_retry_eq(FakernicState *s, uint32_t eqn, RoceTime until)
{
    fakernic_fault_stall(s, ROCE_FAULT_EQE, eqn, until);
}

/* Rules are matched once for each entry. */
bool fakernic_fault_eqe(FakernicState *s, uint32_t eqn, RoceTime *stalled_until,
                        const FakernicHit **hit)
{
    RoceFaultSubject subject = { .point = ROCE_FAULT_EQE, .number = eqn };

    if (*stalled_until > fakernic_now()) {
        return false;
    }
    if (*stalled_until) {
        *stalled_until = 0;
        return true;
    }
    *hit = fakernic_fault_hit(s, &subject);
    if (fakernic_fault_action(*hit) != ROCE_FAULT_DELAY) {
        return true;
    }
    *stalled_until = subject.now + (*hit)->delay_ns;
    fakernic_gate_retry_eq(s, eqn, *stalled_until);
    return false;
}

unsigned fakernic_fault_copies(const FakernicHit *hit)
{
    return hit->act == ROCE_FAULT_DROP ? 0 :
           hit->act == ROCE_FAULT_DUPLICATE ? 2 : 1;
}

bool fakernic_fault_interrupt(FakernicState *s, unsigned vector)
{
    RoceFaultSubject subject = { .point = ROCE_FAULT_INTERRUPT,
                                 .number = vector };
    const RoceFaultRule *rule;
    RoceTime due;

    if (s->faults.judged & BIT_ULL(vector)) {
        s->faults.judged &= ~BIT_ULL(vector);
        return true;
    }
    rule = fakernic_fault_hit(s, &subject);
    if (!rule || (rule->act != ROCE_FAULT_DELAY &&
                  rule->act != ROCE_FAULT_DUPLICATE)) {
        return !rule || rule->act != ROCE_FAULT_DROP;
    }
    due = rule->act == ROCE_FAULT_DELAY ? subject.now + rule->delay_ns : 0;
    if (!fakernic_fault_stalled(s, ROCE_FAULT_INTERRUPT, vector)) {
        fakernic_fault_stall(s, ROCE_FAULT_INTERRUPT, vector, due);
    }
    return rule->act == ROCE_FAULT_DUPLICATE;
}

/* ---- guest memory -------------------------------------------------------- */

const FakernicHit *fakernic_fault_dma(FakernicState *s, RoceFaultPoint point,
                                      RoceWhy why, uint64_t address, size_t len)
{
    RoceFaultSubject subject = { .point = point, .why = why,
                                 .address = address, .len = len };

    return fakernic_fault_hit(s, &subject);
}

const void *fakernic_fault_stored(FakernicState *s, const FakernicHit *hit,
                                  const void *bytes, size_t *len)
{
    switch (fakernic_fault_action(hit)) {
    case ROCE_FAULT_FAIL:
        *len = MIN(hit->bytes, *len);
        return bytes;
    case ROCE_FAULT_DROP:
        *len = 0;
        return bytes;
    case ROCE_FAULT_CORRUPT:
        g_free(s->faults.copy);
        s->faults.copy = g_memdup2(bytes, *len);
        roce_fault_corrupt(&hit->corruption, s->faults.copy, *len);
        return s->faults.copy;
    default:
        return bytes;
    }
}

const FakernicHit *fakernic_fault_flush(FakernicState *s,
                                        const RoceFlushJob *flush)
{
    RoceFaultSubject subject = { .point = ROCE_FAULT_DMA_FLUSH,
                                 .qpn = flush->qpn };
    uint64_t len = 0;

    for (unsigned i = 0; i < flush->count; i++) {
        len += flush->part[i].len;
    }
    subject.len = MIN(len, UINT32_MAX);
    return fakernic_fault_hit(s, &subject);
}

bool fakernic_fault_page_list(FakernicState *s, uint64_t needed)
{
    RoceFaultSubject subject = { .point = ROCE_FAULT_PAGE_LIST,
                                 .len = MIN(needed, UINT32_MAX) };

    return !fakernic_gate_fails(fakernic_fault_hit(s, &subject));
}
