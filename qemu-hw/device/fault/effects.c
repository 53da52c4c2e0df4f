/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Fault rules of a device: adds and prints them, matches and reports, and keeps
 * held items. gate.c decides what happens to an item; release.c releases held
 * items and applies rules to the whole device.
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
#include "gate.h"
#include "../../trace.h"

/* Limits of held items and their bytes; beyond them the oldest is dropped. */
#define FAKERNIC_HELD_MAX       1024
#define FAKERNIC_HELD_BYTES_MAX (16 * MiB)
/*
 * Report every hit up to REPORT_MAX, then one per 0.1 % growth of the hit
 * count: a log file ends at about 100,000 lines.
 */
#define FAKERNIC_REPORT_MAX       65536
#define FAKERNIC_REPORT_PART      1024
/* In addition, report this many first hits of rules that are added later. */
#define FAKERNIC_REPORT_FIRSTS    8192

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
    f->was_armed |= f->rules.count > 0;
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
    if (++f->heard <= FAKERNIC_REPORT_MAX) {
        return false;
    }
    if (hits <= FAKERNIC_REPORT_FIRST && f->firsts < FAKERNIC_REPORT_FIRSTS) {
        f->firsts++;
        return false;
    }
    return f->unsent + 1 < f->heard / FAKERNIC_REPORT_PART;
}

void (*fakernic_on_fault_hit)(Object *device, const RoceFaultRule *rule,
                              const RoceFaultSubject *subject);

/* Never waits for a slow reader: 'untold' in a later line counts lost lines. */
static void fakernic_fault_report(FakernicState *s, const RoceFaultRule *rule,
                                  const RoceFaultSubject *subject)
{
    FakernicFaults *f = &s->faults;
    g_autofree char *line = NULL;
    int len, taken;

    if (fakernic_on_fault_hit) {
        fakernic_on_fault_hit(OBJECT(s), rule, subject);
    }
    if (!qemu_chr_fe_backend_connected(&f->listener)) {
        return;
    }
    if (fakernic_fault_is_flood(f, rule->hits)) {
        f->unsent++;
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
        subject->qpn, subject->psn, subject->index, f->unsent);
    len = strlen(line);
    taken = qemu_chr_fe_write(&f->listener, (const uint8_t *)line, len);
    if (taken == len) {
        f->torn = false;
        f->unsent = 0;
    } else {
        f->torn |= taken > 0;
        f->unsent++;
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
        fakernic_fault_report(s, rule, subject);
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

bool fakernic_fault_is_full(const FakernicFaults *f, size_t len)
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

FakernicHeld *fakernic_fault_hold(FakernicState *s, RoceFaultPoint point,
                                  RoceTime due, size_t len)
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

void fakernic_fault_pass(FakernicState *s, RoceFaultPoint point,
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
    g_clear_pointer(&s->faults.copy, g_free);
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

void fakernic_gate_forget_cq(FakernicState *s, uint32_t cqn)
{
    fakernic_fault_forget_queue(s, ROCE_FAULT_CQE, cqn);
}

void fakernic_gate_forget_eq(FakernicState *s, uint32_t eqn)
{
    fakernic_fault_forget_queue(s, ROCE_FAULT_EQE, eqn);
}

void fakernic_gate_forget_qp(FakernicState *s, uint32_t qpn)
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
FakernicHeld *fakernic_fault_stalled(const FakernicState *s,
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
