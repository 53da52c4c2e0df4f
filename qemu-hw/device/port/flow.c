/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Flow rules: which raw-packet QPs get a frame (fakernic/cmdq.h, CREATE_FLOW).
 *
 * A frame is parsed once (parse.c). Then rules are evaluated in order of
 * priority, by masked comparisons with the parsed fields.
 */
#include "qemu/osdep.h"
#include "net/eth.h"
#include "../budget.h"
#include "flow.h"
#include "parse.h"
#include "rss.h"
#include "../state.h"
#include "../../trace.h"

/* Rules compared with a frame per unit of work. */
#define FAKERNIC_LOOKS_PER_UNIT 16

static bool fakernic_flow_matches(const FakernicFlow *flow,
                                  const FakernicParsed *p)
{
    const uint8_t *value = (const uint8_t *)&flow->value;
    const uint8_t *mask = (const uint8_t *)&flow->mask;
    const uint8_t *field = (const uint8_t *)&p->match;

    if (flow->layers & ~p->layers) {
        return false;
    }
    for (size_t i = 0; i < sizeof(p->match); i++) {
        if ((field[i] ^ value[i]) & mask[i]) {
            return false;
        }
    }
    return true;
}

/* ---- frames ---------------------------------------------------------- */

static void fakernic_flow_deliver(FakernicState *s, const FakernicFlow *flow,
                                  const uint8_t *frame, size_t len)
{
    trace_fakernic_flow(s->name, flow->id, flow->qpn, len);
    fakernic_raw_input(s, flow->qpn, frame, len, false);
}

void fakernic_flow_sniff(FakernicState *s, const uint8_t *frame, size_t len)
{
    FakernicFlow *flow;

    QTAILQ_FOREACH(flow, &s->flows[FAKERNIC_FLOW_SNIFFER], next) {
        fakernic_flow_deliver(s, flow, frame, len);
    }
}

FakernicRuled fakernic_flow_input(FakernicState *s, const uint8_t *frame,
                                  size_t len)
{
    FakernicParsed parsed;
    FakernicFlow *flow;
    unsigned looks = 0;

    if (QTAILQ_EMPTY(&s->flows[FAKERNIC_FLOW_NORMAL])) {
        return FAKERNIC_RULED_NOTHING;
    }
    fakernic_parse(&parsed, frame, len);
    QTAILQ_FOREACH(flow, &s->flows[FAKERNIC_FLOW_NORMAL], next) {
        if (++looks % FAKERNIC_LOOKS_PER_UNIT == 0) {
            fakernic_spend(s, 1);
        }
        if (!fakernic_flow_matches(flow, &parsed)) {
            continue;
        }
        if (flow->flags & FAKERNIC_FLOW_DROP) {
            return FAKERNIC_RULED_DROPPED;
        }
        fakernic_flow_deliver(s, flow, frame, len);
        if (!(flow->flags & FAKERNIC_FLOW_DONT_TRAP)) {
            return FAKERNIC_RULED_TAKEN;
        }
    }
    return FAKERNIC_RULED_NOTHING;
}

bool fakernic_flow_default(FakernicState *s, const uint8_t *frame, size_t len)
{
    FakernicFlow *flow = NULL;

    if (is_multicast_ether_addr(frame)) {
        flow = QTAILQ_FIRST(&s->flows[FAKERNIC_FLOW_MC_DEFAULT]);
    }
    flow = flow ?: QTAILQ_FIRST(&s->flows[FAKERNIC_FLOW_ALL_DEFAULT]);
    if (flow) {
        fakernic_flow_deliver(s, flow, frame, len);
    }
    return flow;
}

bool fakernic_flow_owns(FakernicState *s, const uint8_t *dmac)
{
    static const uint8_t all[ETH_ALEN] = { 255, 255, 255, 255, 255, 255 };
    const FakernicFlow *flow;
    unsigned looks = 0;

    QTAILQ_FOREACH(flow, &s->flows[FAKERNIC_FLOW_NORMAL], next) {
        if (++looks % FAKERNIC_LOOKS_PER_UNIT == 0) {
            fakernic_spend(s, 1);
        }
        if (!memcmp(flow->mask.dmac, all, ETH_ALEN) &&
            !memcmp(flow->value.dmac, dmac, ETH_ALEN)) {
            return true;
        }
    }
    return false;
}

/* ---- rules ----------------------------------------------------------- */

bool fakernic_flow_copies(uint8_t type, uint8_t flags)
{
    return type == FAKERNIC_FLOW_SNIFFER || (flags & FAKERNIC_FLOW_DONT_TRAP);
}

void fakernic_flow_add(FakernicState *s, FakernicFlow *flow)
{
    FakernicFlow *behind;

    s->copying_flows += fakernic_flow_copies(flow->type, flow->flags);
    QTAILQ_FOREACH(behind, &s->flows[flow->type], next) {
        if (behind->priority > flow->priority) {
            QTAILQ_INSERT_BEFORE(behind, flow, next);
            return;
        }
    }
    QTAILQ_INSERT_TAIL(&s->flows[flow->type], flow, next);
}

void fakernic_flow_remove(FakernicState *s, FakernicFlow *flow)
{
    s->copying_flows -= fakernic_flow_copies(flow->type, flow->flags);
    QTAILQ_REMOVE(&s->flows[flow->type], flow, next);
}
