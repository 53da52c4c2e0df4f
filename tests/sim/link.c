/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The switch: it forwards frames by MAC with a delay, and can misbehave.
 *
 * Impairments come from the world's generator until faults_end, or from the
 * masks of a LinkScript. With "mercy" the link pauses them after an engine
 * reports that its retries run out: in such histories chance alone must not
 * exhaust retries. The log has all actions of the link.
 */
#include <stdlib.h>
#include <string.h>

#include "sim.h"

static bool link_faulty(World *w)
{
    return w->now < w->faults_end && w->now >= w->link.mercy_until;
}

static void link_deliver(World *w, unsigned to, RoceTime time,
                         const uint8_t *frame, size_t len)
{
    SimEvent *ev = world_schedule(w, time, EV_FRAME, to);

    ev->frame = malloc(len);
    memcpy(ev->frame, frame, len);
    ev->frame_len = len;
    w->link.in_flight++;
}

/* Flips one to three bits, or damages up to 32 bits in a row, which a CRC32
 * always detects. It spares the Ethernet header, which the FCS protects. */
static void link_corrupt(World *w, uint8_t *frame, size_t len)
{
    uint32_t head = frame[12] == 0x81 ? 18 : 14;
    uint32_t bits = (uint32_t)(len - head) * 8;
    uint32_t at = head * 8 + rng_below(&w->rng, bits);

    if (rng_pct(&w->rng, 50)) {
        for (unsigned i = rng_range(&w->rng, 1, 3); i; i--) {
            frame[at / 8] ^= (uint8_t)(1u << (at % 8));
            at = head * 8 + rng_below(&w->rng, bits);
        }
        return;
    }
    for (unsigned i = 0; i < 4 && at / 8 + i < len; i++) {
        frame[at / 8 + i] ^= (uint8_t)rng_range(&w->rng, 1, 255);
    }
}

static bool link_loses(World *w, unsigned from)
{
    LinkState *l = &w->link;

    if (l->burst_left[from]) {
        l->burst_left[from]--;
        return true;
    }
    if (rng_ppm(&w->rng, w->options.burst_ppm)) {
        l->burst_left[from] = rng_below(&w->rng, w->options.burst_len + 1);
        return true;
    }
    return rng_ppm(&w->rng, w->options.loss_ppm);
}

/* A port flaps: its host neither sends nor receives for some time. */
static bool link_down(World *w, unsigned from, unsigned to)
{
    LinkState *l = &w->link;

    if (rng_ppm(&w->rng, w->options.flap_ppm)) {
        unsigned port = rng_pct(&w->rng, 50) ? from : to;
        RoceTime length = (RoceTime)rng_range(&w->rng, 1,
                                              w->options.flap_us) * US;

        l->down_until[port] = w->now + length;
        world_log(w, port, LOG_FLAP, (uint32_t)(length / US), 0, 0, 0, 0);
    }
    return w->now < l->down_until[from] || w->now < l->down_until[to];
}

bool link_takes(World *w, unsigned to)
{
    return !link_faulty(w) || w->now >= w->link.down_until[to];
}

/* Applies random faults, which may change the frame. False: it is lost. */
static bool link_impair(World *w, unsigned from, unsigned to, uint8_t *frame,
                        size_t *len, RoceTime *arrival)
{
    const SimOptions *o = &w->options;
    RoceTime late = (RoceTime)(o->reorder_us + 1) * US;

    if (link_loses(w, from) || link_down(w, from, to)) {
        world_log(w, from, LOG_LOST, to, 0, (uint32_t)*len, 0, 0);
        w->link.faults++;
        return false;
    }
    if (rng_ppm(&w->rng, o->reorder_ppm)) {
        *arrival += rng_range(&w->rng, 1, (uint32_t)late);
        world_log(w, from, LOG_DELAYED, to, 0, 0, 0, 0);
        w->link.faults++;
    }
    if (rng_ppm(&w->rng, o->dup_ppm)) {
        RoceTime again = rng_pct(&w->rng, 30)
                         ? 0 : rng_range(&w->rng, 0, (uint32_t)late);

        world_log(w, from, LOG_DUPLICATED, to, 0, 0, 0, 0);
        w->link.faults++;
        w->link.duplicates++;
        link_deliver(w, to, *arrival + again, frame, *len);
    }
    /* The FCS detects damage of frames without an ICRC: they are lost. */
    if (frame_is_raw(frame) &&
        (rng_ppm(&w->rng, o->corrupt_ppm) ||
         rng_ppm(&w->rng, o->truncate_ppm))) {
        world_log(w, from, LOG_LOST, to, 2, (uint32_t)*len, 0, 0);
        w->link.faults++;
        return false;
    }
    if (frame_is_raw(frame)) {
        return true;
    }
    if (rng_ppm(&w->rng, o->corrupt_ppm)) {
        link_corrupt(w, frame, *len);
        world_log(w, from, LOG_CORRUPTED, to, 0, 0, 0, 0);
        w->link.faults++;
    }
    if (rng_ppm(&w->rng, o->truncate_ppm)) {
        *len = rng_range(&w->rng, 14, (uint32_t)*len - 1);
        world_log(w, from, LOG_TRUNCATED, to, 0, (uint32_t)*len, 0, 0);
        w->link.faults++;
    }
    return true;
}

/* Applies the script. False: the frame is lost. */
static bool link_script(World *w, unsigned from, unsigned to,
                        const uint8_t *frame, size_t len, RoceTime *arrival)
{
    uint64_t number = w->link.sent[from] - 1;
    uint64_t bit = number < 64 ? 1ull << number : 0;

    if (w->script.cut[from] || (w->script.lose[from] & bit)) {
        world_log(w, from, LOG_LOST, to, 1, (uint32_t)len, 0, 0);
        w->link.faults++;
        return false;
    }
    if (w->script.duplicate[from] & bit) {
        world_log(w, from, LOG_DUPLICATED, to, 1, 0, 0, 0);
        w->link.faults++;
        link_deliver(w, to, *arrival, frame, len);
    }
    if (w->script.delay[from] & bit) {
        world_log(w, from, LOG_DELAYED, to, 1, 0, 0, 0);
        w->link.faults++;
        *arrival += w->script.delay_ns;
    }
    return true;
}

static int link_lookup(World *w, const uint8_t *dmac)
{
    for (unsigned i = 0; i < SIM_HOSTS && w->host[i]; i++) {
        if (memcmp(w->host[i]->mac, dmac, 6) == 0) {
            return (int)i;
        }
    }
    return -1;
}

static RoceTime link_arrival(World *w, unsigned from, unsigned to, size_t len)
{
    const SimOptions *o = &w->options;
    LinkState *l = &w->link;
    RoceTime start = w->now, arrival;

    if (o->rate_mbps) {
        if (l->wire_free[from] > start) {
            start = l->wire_free[from];
        }
        start += (RoceTime)((uint64_t)len * 8000 / o->rate_mbps);
        l->wire_free[from] = start;
    }
    arrival = start + o->delay_ns;
    if (o->jitter_ns) {
        arrival += rng_below(&w->rng, o->jitter_ns + 1);
    }
    /* Jitter alone does not reorder. */
    if (arrival < l->last_arrival[from][to]) {
        arrival = l->last_arrival[from][to];
    }
    l->last_arrival[from][to] = arrival;
    return arrival;
}

/* A hostile host sends a similar frame, before or after. */
static void link_forge(World *w, unsigned from, unsigned to,
                       const uint8_t *frame, size_t len, RoceTime arrival)
{
    uint8_t copy[ROCE_FRAME_MAX + 1024];
    SimFrame f;

    memcpy(copy, frame, len);
    len = forge_frame(w, copy, len);
    frame_parse(copy, len, &f);
    world_log(w, from, LOG_FORGED, f.dest_qpn, f.psn, f.payload, f.opcode,
              f.syndrome);
    w->link.faults++;
    link_deliver(w, to, arrival + rng_below(&w->rng, 3) * 100, copy, len);
}

/* Whether a frame uses a path that was cut. The second path is tagged. */
static bool link_cut(World *w, unsigned to, const uint8_t *frame, size_t len)
{
    const SimQp *qp;
    SimFrame f;

    if (frame_is_raw(frame) || frame_parse(frame, len, &f) || f.tagged) {
        return false;
    }
    qp = host_find_qp(w->host[to], f.dest_qpn);
    return qp && qp->conn && qp->conn->cut[qp == qp->conn->side[0]];
}

/* Applies the fault rules of both ends. False: the frame is lost. */
static bool link_rules(World *w, unsigned from, unsigned to, uint8_t *frame,
                       size_t *len, RoceTime *arrival)
{
    const RulesVerdict sent = rules_frame(w, ROCE_FAULT_TX, from, frame, len,
                                          arrival);
    RulesVerdict taken;

    if (sent == RULES_LOST) {
        return false;
    }
    taken = rules_frame(w, ROCE_FAULT_RX, to, frame, len, arrival);
    if (taken == RULES_LOST) {
        return false;
    }
    if (sent == RULES_TWICE || taken == RULES_TWICE) {
        link_deliver(w, to, *arrival, frame, *len);
    }
    return true;
}

/* Sends one copy of a frame to one host. */
static void link_forward(World *w, unsigned from, unsigned to,
                         const uint8_t *frame, size_t len)
{
    uint8_t copy[ROCE_FRAME_MAX + 64];
    RoceTime arrival = link_arrival(w, from, to, len);

    if (link_faulty(w) && !frame_is_raw(frame) &&
        rng_ppm(&w->rng, w->options.hostile_ppm)) {
        link_forge(w, from, to, frame, len, arrival);
    }
    memcpy(copy, frame, len);
    if (!link_script(w, from, to, copy, len, &arrival) ||
        !link_rules(w, from, to, copy, &len, &arrival)) {
        return;
    }
    if (w->options.migrate_pct && link_cut(w, to, frame, len)) {
        world_log(w, from, LOG_LOST, to, 4, (uint32_t)len, 0, 0);
        w->link.faults++;
        return;
    }
    if (rng_ppm(&w->rng, w->options.ecn_ppm) && frame_mark(copy)) {
        world_log(w, from, LOG_MARKED, to, 0, 0, 0, 0);
        w->marks++;
    }
    if (link_faulty(w) && !link_impair(w, from, to, copy, &len, &arrival)) {
        return;
    }
    /* Ethernet pads short frames, which receivers must accept. */
    if (!frame_is_raw(frame) && rng_ppm(&w->rng, w->options.pad_ppm)) {
        size_t pad = rng_range(&w->rng, 1, 46);

        memset(copy + len, rng_pct(&w->rng, 50) ? 0 : 0xa5, pad);
        len += pad;
    }
    link_deliver(w, to, arrival, copy, len);
}

void link_send(World *w, unsigned from, const uint8_t *frame, size_t len,
               bool loopback)
{
    int to = link_lookup(w, frame);
    SimFrame f;

    if (frame[0] & 1 ? to >= 0
                     : to < 0 || loopback != (to == (int)from)) {
        world_fail(w, "host %u: frame to an unknown MAC, or loopback=%d wrong",
                   from, loopback);
        return;
    }
    frame_check(w, from, to, frame, len);
    frame_parse(frame, len, &f);
    world_log(w, from, LOG_TX, f.dest_qpn, f.psn, f.payload, f.opcode,
              f.syndrome);
    w->link.sent[from]++;
    if (to >= 0) {
        link_forward(w, from, (unsigned)to, frame, len);
        return;
    }
    /* A group: the wire sends to all others, the loopback copy to itself. */
    for (unsigned i = 0; i < SIM_HOSTS && w->host[i] && !w->failed; i++) {
        if ((i == from) == loopback) {
            link_forward(w, from, i, frame, len);
        }
    }
}
