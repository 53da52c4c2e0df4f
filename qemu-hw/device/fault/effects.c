/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Faults: adds and prints rules, and applies them to frames, doorbells, DMAs,
 * completions, events and interrupts.
 *
 * Stations call this file for each item. It drops, holds or corrupts the item
 * as a rule says; a turn releases held items (turn.c). Freezing, removal from
 * the bus and fatal errors are in life.c, which is above: the turn calls it.
 */
#include "qemu/osdep.h"
#include "qemu/cutils.h"
#include "net/eth.h"
#include "../budget.h"
#include "../clock.h"
#include "effects.h"
#include "../watch/qmp.h"
#include "../watch/record.h"
#include "../state.h"
#include "../../trace.h"

/* Limits of held items and their bytes; beyond them the oldest is dropped. */
#define FAKERNIC_HELD_MAX       1024
#define FAKERNIC_HELD_BYTES_MAX (16 * MiB)
/* Limit of stalls; beyond it no further send queue is stalled. */
#define FAKERNIC_STALLS_MAX     1024
/*
 * Report every hit up to TOLD_MAX, then one per 0.1 % growth of the hit count:
 * a log file ends at about 100,000 lines.
 */
#define FAKERNIC_TOLD_MAX       65536
#define FAKERNIC_TOLD_PART      1024
/* In addition, report this many first hits of rules that are added later. */
#define FAKERNIC_TOLD_FIRSTS    8192
/* A reordered item waits this long for the others to pass. */
#define FAKERNIC_REORDER_NS     100000000

void fakernic_fault_init(FakernicState *s)
{
    QTAILQ_INIT(&s->faults.held);
}

/* True: the rule that has hit the device still exists. A new rule with the same
 * id is another one, and has no hits yet. */
static bool fakernic_fault_stays(const FakernicFaults *f, const char *id)
{
    const RoceFaultRule *rule = roce_fault_find(&f->rules, id);

    return rule && rule->hits > 0;
}

bool fakernic_fault_add(FakernicState *s, const char *text, Error **errp)
{
    FakernicFaults *f = &s->faults;
    char error[ROCE_FAULT_ERROR];

    if (!roce_fault_add(&f->rules, text, error)) {
        error_setg(errp, "fault rule: %s", error);
        error_append_hint(errp, "A rule is \"at=rx opcode=rc-read-response* "
                          "nth=3 do=drop\"; its words are explained in the "
                                "device's documentation.\n");
        return false;
    }
    f->told |= f->rules.count > 0;
    if (f->frozen_by[0] && !fakernic_fault_stays(f, f->frozen_by)) {
        f->thaw = 0;
    }
    if (f->link_by[0] && !fakernic_fault_stays(f, f->link_by)) {
        f->link_until = MIN(f->link_until, fakernic_now());
    }
    return true;
}

char *fakernic_fault_text(const FakernicState *s)
{
    const RoceFaults *rules = &s->faults.rules;
    GString *text = g_string_new(NULL);
    char line[ROCE_FAULT_TEXT];

    for (unsigned i = 0; i < rules->count; i++) {
        roce_fault_print(&rules->rules[i], line);
        g_string_append_printf(text, "%s\n", line);
    }
    return g_string_free(text, false);
}

/* True: this hit is not reported, because there were too many. */
static bool fakernic_fault_is_flood(FakernicFaults *f, uint64_t hits)
{
    if (++f->heard <= FAKERNIC_TOLD_MAX) {
        return false;
    }
    if (hits <= FAKERNIC_TOLD_FIRST && f->firsts < FAKERNIC_TOLD_FIRSTS) {
        f->firsts++;
        return false;
    }
    return f->untold + 1 < f->heard / FAKERNIC_TOLD_PART;
}

void (*fakernic_told)(Object *device, const RoceFaultRule *rule,
                      const RoceFaultSubject *subject);

/* Never waits for a slow reader: 'untold' in a later line counts lost lines. */
static void fakernic_fault_tell(FakernicState *s, const RoceFaultRule *rule,
                                const RoceFaultSubject *subject)
{
    FakernicFaults *f = &s->faults;
    g_autofree char *line = NULL;
    int len, taken;

    if (fakernic_told) {
        fakernic_told(OBJECT(s), rule, subject);
    }
    if (!qemu_chr_fe_backend_connected(&f->listener)) {
        return;
    }
    if (fakernic_fault_is_flood(f, rule->hits)) {
        f->untold++;
        return;
    }
    fakernic_spend(s, 1);
    line = g_strdup_printf(
        "%s{\"event\": \"FAKERNIC_FAULT\", \"data\": {\"id\": \"%s\", "
        "\"at\": \"%s\", \"do\": \"%s\", \"hits\": %" PRIu64 ", "
        "\"time-ns\": %" PRId64 ", \"qpn\": %u, \"psn\": %u, "
        "\"index\": %u, \"untold\": %" PRIu64 "}}\n", f->torn ? "\n" : "",
        rule->id, roce_fault_point_name(rule->at),
        roce_fault_action_name(rule->act), rule->hits, subject->now,
        subject->qpn, subject->psn, subject->index, f->untold);
    len = strlen(line);
    taken = qemu_chr_fe_write(&f->listener, (const uint8_t *)line, len);
    if (taken == len) {
        f->torn = false;
        f->untold = 0;
    } else {
        f->torn |= taken > 0;
        f->untold++;
    }
}

const RoceFaultRule *fakernic_fault_hit(FakernicState *s,
                                        RoceFaultSubject *subject)
{
    const RoceFaultRule *rule;

    subject->now = fakernic_now();
    rule = roce_fault_hit(&s->faults.rules, subject);
    if (rule) {
        trace_fakernic_fault(s->name, rule->id, roce_fault_point_name(rule->at),
                             roce_fault_action_name(rule->act), subject->qpn,
                             subject->psn);
        fakernic_record(s, FAULT, 0, rule->at, rule->act, subject->qpn,
                        subject->psn, rule->hits, rule - s->faults.rules.rules);
        fakernic_fault_tell(s, rule, subject);
    }
    if (rule && rule->act == ROCE_FAULT_PAUSE) {
        qemu_system_vmstop_request_prepare();
        qemu_system_vmstop_request(RUN_STATE_PAUSED);
    }
    return rule;
}

/* ---- held items ---------------------------------------------------------- */

/*
 * A stall: a queue or a vector that waits. It is never dropped to make room,
 * because the queue or vector would then wait without limit.
 */
static bool fakernic_fault_is_stall(RoceFaultPoint point)
{
    return point == ROCE_FAULT_EQE || point == ROCE_FAULT_SEND_WQE ||
           point == ROCE_FAULT_INTERRUPT;
}

static void fakernic_fault_unlink(FakernicState *s, FakernicHeld *held)
{
    FakernicFaults *f = &s->faults;

    QTAILQ_REMOVE(&f->held, held, next);
    f->held_count--;
    f->stalls -= fakernic_fault_is_stall(held->point);
    f->held_bytes -= held->len;
}

static void fakernic_fault_forget(FakernicState *s, FakernicHeld *held)
{
    fakernic_fault_unlink(s, held);
    g_free(held);
}

/* True: there is no room for another item of 'len' bytes; stalls have room. */
static bool fakernic_fault_is_full(const FakernicFaults *f, size_t len)
{
    return f->held_count - f->stalls >= FAKERNIC_HELD_MAX ||
           f->held_bytes + len > FAKERNIC_HELD_BYTES_MAX;
}

/* Drops the oldest item that is not a stall. */
static void fakernic_fault_forget_oldest(FakernicState *s)
{
    FakernicHeld *held;

    QTAILQ_FOREACH(held, &s->faults.held, next) {
        if (!fakernic_fault_is_stall(held->point)) {
            fakernic_fault_forget(s, held);
            return;
        }
    }
}

static FakernicHeld *fakernic_fault_hold(FakernicState *s,
                                         RoceFaultPoint point, RoceTime due,
                                         size_t len)
{
    FakernicFaults *f = &s->faults;
    FakernicHeld *held = g_malloc0(sizeof(*held) + len);

    held->point = point;
    held->due = due;
    held->len = len;
    while (!fakernic_fault_is_stall(point) && fakernic_fault_is_full(f, len)) {
        fakernic_fault_forget_oldest(s);
    }
    QTAILQ_INSERT_TAIL(&f->held, held, next);
    f->held_count++;
    f->stalls += fakernic_fault_is_stall(point);
    f->held_bytes += len;
    fakernic_kick(s);
    return held;
}

/*
 * An item has passed: items held before it wait for one less. 'gone' is the
 * item if it was held itself, else NULL.
 */
static void fakernic_fault_pass(FakernicState *s, RoceFaultPoint point,
                                uint32_t number, const FakernicHeld *gone)
{
    FakernicHeld *held;

    QTAILQ_FOREACH(held, &s->faults.held, next) {
        if (held == gone) {
            break;
        }
        if (held->point == point && held->number == number &&
            held->behind && !--held->behind) {
            held->due = 0;
            fakernic_kick(s);
        }
    }
}

static bool fakernic_fault_may_go(const FakernicHeld *held,
                                  FakernicGoes which)
{
    switch (which) {
    case FAKERNIC_GOES_RECEIVED:
        return held->point == ROCE_FAULT_RX && !held->loopback;
    case FAKERNIC_GOES_UNSENT:
        return held->point != ROCE_FAULT_TX || held->loopback;
    default:
        return true;
    }
}

FakernicHeld *fakernic_fault_due(FakernicState *s, RoceTime now,
                                 FakernicGoes which)
{
    FakernicHeld *held, *first = NULL;

    QTAILQ_FOREACH(held, &s->faults.held, next) {
        if (held->due <= now && fakernic_fault_may_go(held, which) &&
            (!first || held->due < first->due)) {
            first = held;
        }
    }
    if (first && first->point == ROCE_FAULT_CQE) {
        fakernic_fault_pass(s, first->point, first->number, first);
    }
    if (first) {
        fakernic_fault_unlink(s, first);
    }
    return first;
}

RoceTime fakernic_fault_deadline(const FakernicState *s,
                                 FakernicGoes which)
{
    RoceTime deadline = s->cmdq.delayed_until ?: ROCE_TIME_NEVER;
    FakernicHeld *held;

    if (s->faults.link_until) {
        deadline = MIN(deadline, s->faults.link_until);
    }
    QTAILQ_FOREACH(held, &s->faults.held, next) {
        if (fakernic_fault_may_go(held, which)) {
            deadline = MIN(deadline, held->due);
        }
    }
    return deadline;
}

void fakernic_fault_reset(FakernicState *s)
{
    FakernicHeld *held;

    while ((held = QTAILQ_FIRST(&s->faults.held))) {
        fakernic_fault_forget(s, held);
    }
    s->faults.frozen_by[0] = '\0';
    s->faults.link_by[0] = '\0';
    s->faults.link_until = 0;
    s->faults.judged = 0;
}

/* ---- the points ---------------------------------------------------------- */

bool fakernic_fault_holds(const FakernicState *s)
{
    return !QTAILQ_EMPTY(&s->faults.held);
}

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

bool fakernic_fault_at_frame(const FakernicState *s, RoceFaultPoint point,
                             const uint8_t *frame, size_t len)
{
    const FakernicFaults *f = &s->faults;

    return roce_fault_at_frame(&f->rules, point, frame, len) ||
           (roce_fault_at(&f->rules, point) && !QTAILQ_EMPTY(&f->held));
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

bool fakernic_fault_frame(FakernicState *s, RoceFaultSubject *subject,
                          uint8_t *frame, size_t *len, bool loopback)
{
    const RoceFaultPoint point = subject->point;
    const RoceFaultRule *rule;
    FakernicHeld *held;

    roce_fault_look(subject, frame, *len);
    subject->rpsn = fakernic_fault_rpsn(s, subject);
    rule = fakernic_fault_hit(s, subject);
    switch (rule ? rule->act : ROCE_FAULT_COUNT) {
    case ROCE_FAULT_DROP:
        return false;
    case ROCE_FAULT_DELAY:
        fakernic_fault_hold_frame(s, point, subject->now + rule->delay_ns,
                                  frame, *len, loopback);
        return false;
    case ROCE_FAULT_THROTTLE:
        if (rule->goes <= subject->now && QTAILQ_EMPTY(&s->faults.held)) {
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
        *len = roce_fault_spoil(rule, frame, *len);
        break;
    default:
        break;
    }
    fakernic_fault_pass(s, point, 0, NULL);
    return *len >= ETH_HLEN;
}

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

void fakernic_fault_hold_doorbell(FakernicState *s, uint64_t offset,
                                  uint64_t word)
{
    fakernic_fault_hold_word(s, ROCE_FAULT_DOORBELL, 0, offset, word);
}

bool fakernic_fault_doorbell(FakernicState *s, RoceFaultSubject *subject,
                             uint64_t offset, uint64_t *word)
{
    const RoceFaultRule *rule = fakernic_fault_hit(s, subject);
    FakernicHeld *held;

    switch (rule ? rule->act : ROCE_FAULT_COUNT) {
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
        cpu_to_le64s(word);
        roce_fault_corrupt(&rule->spoil, word, sizeof(*word));
        le64_to_cpus(word);
        break;
    default:
        break;
    }
    fakernic_fault_pass(s, subject->point, 0, NULL);
    return true;
}

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

bool fakernic_fault_cqe(FakernicState *s, RoceCompletion *c,
                        FakernicCqeFault *fault)
{
    RoceFaultSubject subject = { .point = ROCE_FAULT_CQE, .number = c->cqn,
                                 .qpn = c->qpn, .index = c->wqe_index };
    const RoceTime behind = fakernic_fault_behind(s, c->cqn);
    const RoceFaultRule *rule = fakernic_fault_hit(s, &subject);
    const RoceFaultAction act = rule ? rule->act : ROCE_FAULT_COUNT;
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
        fault->spoil = rule->spoil;
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

/* Forgets all items held for a CQ or an EQ. */
static void fakernic_fault_forget_queue(FakernicState *s, RoceFaultPoint point,
                                        uint32_t number)
{
    FakernicHeld *held, *next;

    QTAILQ_FOREACH_SAFE(held, &s->faults.held, next, next) {
        if (held->point == point && held->number == number) {
            fakernic_fault_forget(s, held);
        }
    }
}

void fakernic_fault_forget_cq(FakernicState *s, uint32_t cqn)
{
    fakernic_fault_forget_queue(s, ROCE_FAULT_CQE, cqn);
}

void fakernic_fault_forget_eq(FakernicState *s, uint32_t eqn)
{
    fakernic_fault_forget_queue(s, ROCE_FAULT_EQE, eqn);
}

void fakernic_fault_forget_qp(FakernicState *s, uint32_t qpn)
{
    FakernicHeld *held, *next;

    if (s->qps[qpn]->type == FAKERNIC_QP_XRC_TGT) {
        return;
    }
    QTAILQ_FOREACH_SAFE(held, &s->faults.held, next, next) {
        if ((held->point == ROCE_FAULT_CQE && held->completion.qpn == qpn) ||
            (held->point == ROCE_FAULT_SEND_WQE && held->number == qpn)) {
            fakernic_fault_forget(s, held);
        }
    }
}

/* The stall of a queue or vector, or NULL. */
static FakernicHeld *fakernic_fault_stalled(const FakernicState *s,
                                            RoceFaultPoint point,
                                            uint32_t number)
{
    FakernicHeld *held;

    QTAILQ_FOREACH(held, &s->faults.held, next) {
        if (held->point == point && held->number == number) {
            return held;
        }
    }
    return NULL;
}

/* A queue has one stall at most, so the guest's queues bound their number. */
void fakernic_fault_stall(FakernicState *s, RoceFaultPoint point,
                          uint32_t number, RoceTime until)
{
    FakernicHeld *held = fakernic_fault_stalled(s, point, number) ?:
                         fakernic_fault_hold(s, point, until, 0);

    held->number = number;
    held->due = until;
}

bool fakernic_fault_wqe(FakernicState *s, RoceFaultSubject *subject,
                        RoceTime *waits, const RoceFaultRule **rule)
{
    *rule = NULL;
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

const RoceFaultRule *fakernic_fault_eqe(FakernicState *s, uint32_t eqn,
                                        RoceTime *until)
{
    RoceFaultSubject subject = { .point = ROCE_FAULT_EQE, .number = eqn };
    const RoceFaultRule *rule = fakernic_fault_hit(s, &subject);

    if (rule && rule->act == ROCE_FAULT_DELAY) {
        *until = subject.now + rule->delay_ns;
        fakernic_fault_stall(s, ROCE_FAULT_EQE, eqn, *until);
    }
    return rule;
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

const RoceFaultRule *fakernic_fault_device(FakernicState *s)
{
    FakernicFaults *f = &s->faults;
    RoceFaultSubject subject = { .point = ROCE_FAULT_DEVICE };
    const RoceFaultRule *rule = fakernic_fault_hit(s, &subject);
    const RoceTime until = rule && rule->for_ns ? subject.now + rule->for_ns
                                                : ROCE_TIME_NEVER;

    if (rule && rule->act == ROCE_FAULT_FREEZE) {
        pstrcpy(f->frozen_by, sizeof(f->frozen_by), rule->id);
        f->thaw = until;
    } else if (rule && rule->act == ROCE_FAULT_LINK_DOWN) {
        pstrcpy(f->link_by, sizeof(f->link_by), rule->id);
        f->link_until = until;
    }
    return rule;
}

bool fakernic_fault_link_back(FakernicState *s)
{
    FakernicFaults *f = &s->faults;

    if (!f->link_until || fakernic_now() < f->link_until) {
        return false;
    }
    f->link_until = 0;
    f->link_by[0] = '\0';
    return true;
}
