/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The fault rules of one end. */
#include "faults.h"

#include <stdlib.h>

/*
 * The number of sent packets that an end remembers, to count attempts. A hash
 * of PSN, destination and opcode selects the place, which the next packet with
 * that hash overwrites.
 */
#define SENT_MAX    65536
#define ATTEMPT_MAX 255

/* The reason why a wire cannot apply the rule, or NULL. */
static const char *faults_wrong(const RoceFaultRule *rule)
{
    if (rule->at != ROCE_FAULT_TX && rule->at != ROCE_FAULT_RX) {
        return "a wire has at=tx and at=rx alone";
    }
    if (rule->act == ROCE_FAULT_PAUSE) {
        return "a wire cannot do=pause";
    }
    if (rule->rpsn.last <= 0xffffff) {
        return "a wire does not know the first PSN, so rpsn= is nothing here";
    }
    if (rule->at == ROCE_FAULT_TX && rule->qpn.last <= 0xffffff) {
        return "a packet has no sender QP, so at=tx of a wire takes no qpn=";
    }
    return NULL;
}

/* Does a rule match on how often a packet was sent? */
static bool faults_ask_attempt(const Faults *f)
{
    for (unsigned i = 0; i < f->rules.count; i++) {
        if (f->rules.rules[i].attempt.last <= ATTEMPT_MAX) {
            return true;
        }
    }
    return false;
}

bool faults_add(Faults *f, const char *text, char error[ROCE_FAULT_ERROR])
{
    const RoceFaults before = f->rules;

    if (!roce_fault_add(&f->rules, text, error)) {
        return false;
    }
    for (unsigned i = 0; i < f->rules.count; i++) {
        const char *what = faults_wrong(&f->rules.rules[i]);

        if (what) {
            snprintf(error, ROCE_FAULT_ERROR, "%s", what);
            f->rules = before;
            return false;
        }
    }
    if (!faults_ask_attempt(f)) {
        free(f->sent);
        f->sent = NULL;
    } else if (!f->sent) {
        f->sent = calloc(SENT_MAX, sizeof(*f->sent));
    }
    return true;
}

void faults_print(const Faults *f, const char *name, FILE *to)
{
    char text[ROCE_FAULT_TEXT];

    for (unsigned i = 0; i < f->rules.count; i++) {
        roce_fault_print(&f->rules.rules[i], text);
        fprintf(to, "%s %s\n", name, text);
    }
}

/* How often this packet was sent, this time included; 1: not remembered. */
static uint8_t faults_attempt(Faults *f, const RoceFaultSubject *s)
{
    const uint64_t packet = (uint64_t)s->peer << 32 | (uint64_t)s->psn << 8 |
                            s->opcode;
    uint64_t *place;

    if (!f->sent || s->point != ROCE_FAULT_TX || !s->roce) {
        return 1;
    }
    place = &f->sent[(s->psn + s->peer * 40503u + s->opcode * 2654435761u) %
                     SENT_MAX];
    if (*place >> 8 != packet || (*place & ATTEMPT_MAX) == 0) {
        *place = packet << 8;
    }
    if ((*place & ATTEMPT_MAX) < ATTEMPT_MAX) {
        ++*place;
    }
    return *place & ATTEMPT_MAX;
}

const RoceFaultRule *faults_judge(Faults *f, RoceFaultPoint point,
                                  RoceTime now, const uint8_t *frame,
                                  size_t len)
{
    RoceFaultSubject s = { .point = point, .now = now,
                           .rpsn = ROCE_FAULT_NO_RPSN };

    if (!roce_fault_at_frame(&f->rules, point, frame, len)) {
        return NULL;
    }
    roce_fault_look(&s, frame, len);
    s.attempt = faults_attempt(f, &s);
    return roce_fault_hit(&f->rules, &s);
}
