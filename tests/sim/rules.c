/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Fault rules in a history: those of the device (qemu-hw/fault/rules.h), for
 * frames that hosts send or receive. "N:" before a rule limits it to host N.
 * Otherwise each host has a copy of the rule with its own counters.
 *
 * Actions that do not apply here are refused: there is no machine to pause, and
 * an option makes the link reorder. Times at rx are those of the switch.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

static const uint32_t rules_actions =
    1u << ROCE_FAULT_COUNT | 1u << ROCE_FAULT_DROP | 1u << ROCE_FAULT_DELAY |
    1u << ROCE_FAULT_DUPLICATE | 1u << ROCE_FAULT_CORRUPT |
    1u << ROCE_FAULT_TRUNCATE | 1u << ROCE_FAULT_MARK;

static bool rules_known(const RoceFaults *f, char error[ROCE_FAULT_ERROR])
{
    for (unsigned i = 0; i < f->count; i++) {
        const RoceFaultRule *rule = &f->rules[i];

        if ((rule->at != ROCE_FAULT_TX && rule->at != ROCE_FAULT_RX) ||
            !(rules_actions & 1u << rule->act)) {
            snprintf(error, ROCE_FAULT_ERROR,
                     "at=%s do=%s is nothing in the simulator",
                     roce_fault_point_name(rule->at),
                     roce_fault_action_name(rule->act));
            return false;
        }
        if (rule->rpsn.last <= 0xffffff) {
            snprintf(error, ROCE_FAULT_ERROR,
                     "rpsn= is nothing in the simulator");
            return false;
        }
    }
    return true;
}

bool rules_add(World *w, const char *text, char error[ROCE_FAULT_ERROR])
{
    const bool one = text[0] >= '0' && text[0] <= '9' && text[1] == ':';
    const unsigned only = one ? (unsigned)(text[0] - '0') : 0;

    if (!w->rules) {
        w->rules = world_alloc(w, SIM_HOSTS * sizeof(*w->rules));
    }
    if (one && only >= w->options.hosts) {
        snprintf(error, ROCE_FAULT_ERROR, "there is no host %u", only);
        return false;
    }
    for (unsigned i = 0; i < w->options.hosts; i++) {
        RoceFaults *f = &w->rules[i];
        const RoceFaults before = *f;

        if (one && only != i) {
            continue;
        }
        if (!roce_fault_add(f, one ? text + 2 : text, error)) {
            return false;
        }
        if (!rules_known(f, error)) {
            *f = before;
            return false;
        }
    }
    return true;
}

uint64_t rules_hits(const World *w)
{
    uint64_t hits = 0;

    for (unsigned i = 0; w->rules && i < SIM_HOSTS; i++) {
        for (unsigned k = 0; k < w->rules[i].count; k++) {
            hits += w->rules[i].rules[k].hits;
        }
    }
    return hits;
}

/* The FCS detects damage of frames without an ICRC: they are lost. */
static bool rules_corrupt(World *w, const RoceFaultRule *rule, unsigned host,
                          uint8_t *frame, size_t *len)
{
    const bool lost = frame_is_raw(frame) && rule->act != ROCE_FAULT_MARK;
    const SimLogKind kind = lost ? LOG_LOST :
                            rule->act == ROCE_FAULT_MARK ? LOG_MARKED :
                            rule->act == ROCE_FAULT_CORRUPT ? LOG_CORRUPTED
                                                            : LOG_TRUNCATED;

    *len = roce_fault_change(rule, frame, *len);
    w->marks += rule->act == ROCE_FAULT_MARK;
    world_log(w, host, kind, 0, 5, (uint32_t)*len, 0, 0);
    return !lost && *len >= 14;
}

RulesVerdict rules_frame(World *w, RoceFaultPoint point, unsigned host,
                         uint8_t *frame, size_t *len, RoceTime *arrival)
{
    RoceFaultSubject subject = { .point = point, .now = w->now };
    const RoceFaultRule *rule;

    if (!w->rules || !roce_fault_at(&w->rules[host], point)) {
        return RULES_PASS;
    }
    roce_fault_look(&subject, frame, *len);
    rule = roce_fault_hit(&w->rules[host], &subject);
    if (!rule || rule->act == ROCE_FAULT_COUNT) {
        return RULES_PASS;
    }
    w->link.faults++;
    switch (rule->act) {
    case ROCE_FAULT_DROP:
        world_log(w, host, LOG_LOST, 0, 5, (uint32_t)*len, 0, 0);
        return RULES_LOST;
    case ROCE_FAULT_DELAY:
        world_log(w, host, LOG_DELAYED, 0, 5, 0, 0, 0);
        *arrival += (RoceTime)rule->delay_ns;
        return RULES_PASS;
    case ROCE_FAULT_DUPLICATE:
        world_log(w, host, LOG_DUPLICATED, 0, 5, 0, 0, 0);
        w->link.duplicates++;
        return RULES_TWICE;
    default:
        return rules_corrupt(w, rule, host, frame, len) ? RULES_PASS
                                                        : RULES_LOST;
    }
}
