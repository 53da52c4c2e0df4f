/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Retries and timeouts: from attributes, answers and the time this file
 * derives waits, retries and decisions (IBTA 9.7.5.2.8, 9.7.6.1). It knows
 * neither packets nor queues, and reads no clock.
 */
#include "retry.h"

#include "psn.h"
#include "stream.h"

/* Table 45 in units of 10 us; value 0 is the longest wait. */
static const uint32_t roce_rnr_10us[32] = {
    65536, 1, 2, 3, 4, 6, 8, 12,
    16, 24, 32, 48, 64, 96, 128, 192,
    256, 384, 512, 768, 1024, 1536, 2048, 3072,
    4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
};

RoceTime roce_retry_rnr_ns(uint8_t timer)
{
    return (RoceTime)roce_rnr_10us[timer & 31] * 10000;
}

/*
 * An emulated peer may be descheduled for tens of milliseconds although no
 * frame is lost. Retransmissions then make it slower still. The specification
 * allows four times the attribute's wait. Short waits use that, up to the
 * floor.
 */
RoceTime roce_retry_ack_ns(uint8_t timeout)
{
    RoceTime base;

    timeout &= 31;
    if (timeout == 0) {
        return ROCE_TIME_NEVER;
    }
    base = (RoceTime)4096 << timeout;
    if (base >= ROCE_ACK_WAIT_FLOOR_NS) {
        return base;
    }
    return base * 4 < ROCE_ACK_WAIT_FLOOR_NS ? base * 4
                                             : ROCE_ACK_WAIT_FLOOR_NS;
}

static RoceTime roce_retry_ack_at(RoceTime now, const RoceQpAttr *attr)
{
    RoceTime wait = roce_retry_ack_ns(attr->timeout);

    return wait == ROCE_TIME_NEVER ? ROCE_TIME_NEVER : now + wait;
}

/*
 * After progress or a timeout a NAK counts again: a retransmission may be
 * lost.
 */
static void roce_retry_forget_signs(RoceRetry *t)
{
    t->signs = 0;
    t->refused = false;
}

void roce_retry_init(RoceRetry *t)
{
    *t = (RoceRetry) {
        .deadline = ROCE_TIME_NEVER, .ack_at = ROCE_TIME_NEVER,
    };
}

void roce_retry_refill(RoceRetry *t, const RoceQpAttr *attr)
{
    t->retry_left = attr->retry_cnt;
    t->rnr_left = attr->rnr_retry;
}

/*
 * Packets in flight will be retransmitted or discarded: stops the timer and
 * the round-trip measurement.
 */
static void roce_retry_quiet(RoceRetry *t)
{
    t->deadline = ROCE_TIME_NEVER;
    t->timing = false;
    t->probe = false;
}

/*
 * Two guests that poll on two processors keep each other's device waiting for
 * several time slices. On a path that has lost nothing a probe would then be a
 * duplicate.
 *
 * A longer silence counts as a loss if one packet or answers to a READ are
 * outstanding, because silence is the only sign of their loss. Of many packets
 * the last may be lost too, and each such silence lasts long. But if those
 * silences counted, 64 queue pairs next to programs that compute retransmitted
 * ten times as many packets.
 */
static RoceTime roce_retry_first_probe_ns(const RoceRetry *t)
{
    RoceTime floor = t->lossy ? ROCE_PROBE_FLOOR_NS : ROCE_PROBE_TRUST_NS;
    RoceTime wait = t->trip + 4 * t->deviation;

    return wait > floor ? wait : floor;
}

RoceTime roce_retry_probe_ns(const RoceRetry *t)
{
    if (t->trip == 0 || t->probes >= ROCE_PROBES_MAX) {
        return ROCE_TIME_NEVER;
    }
    return roce_retry_first_probe_ns(t) << t->probes;
}

/*
 * Sets the timer for a silence from 'now' on: a probe first, a timeout at
 * ack_at.
 */
static void roce_retry_set_timer(RoceRetry *t, RoceTime now)
{
    RoceTime wait = roce_retry_probe_ns(t);

    t->deadline = t->ack_at;
    if (t->ack_at != ROCE_TIME_NEVER && wait < t->ack_at - now) {
        t->deadline = now + wait;
    }
}

void roce_retry_time(RoceRetry *t, RoceTime now, uint32_t psn)
{
    if (!t->timing) {
        t->timing = true;
        t->timed_psn = psn;
        t->timed_at = now;
    }
}

/*
 * RFC 6298, section 2: gains of an eighth and a quarter. After a probe it is
 * unknown which packet an answer belongs to. If the whole time counted as the
 * round trip, each loss would lengthen the next wait several times. If none of
 * it counted, a peer that has become slow would be probed without limit.
 */
void roce_retry_timed(RoceRetry *t, RoceTime now, uint32_t una)
{
    RoceTime trip = now - t->timed_at;
    RoceTime off;

    if (!t->timing || !roce_psn_before(t->timed_psn, una)) {
        return;
    }
    t->timing = false;
    if (t->trip == 0) {
        t->trip = trip > 0 ? trip : 1;
        t->deviation = trip / 2;
        return;
    }
    if (t->probes > 0 && trip > roce_retry_first_probe_ns(t)) {
        trip = roce_retry_first_probe_ns(t);
    }
    off = trip > t->trip ? trip - t->trip : t->trip - trip;
    t->deviation += (off - t->deviation) / 4;
    t->trip += (trip - t->trip) / 8;
    if (t->trip < 1) {
        t->trip = 1;
    }
}

void roce_retry_probed(RoceRetry *t)
{
    t->probe = false;
}

void roce_retry_restart(RoceRetry *t, const RoceQpAttr *attr)
{
    t->retry_left = attr->retry_cnt;
    roce_retry_forget_signs(t);
    t->lossy = false;
    t->trip = 0;
    if (t->mode == ROCE_RETRY_SENDING) {
        roce_retry_quiet(t);
    }
}

void roce_retry_stop(RoceRetry *t)
{
    roce_retry_quiet(t);
    t->paced = false;
}

void roce_retry_sent(RoceRetry *t, RoceTime now, const RoceQpAttr *attr,
                     bool slow)
{
    t->unsent = false;
    if (t->deadline == ROCE_TIME_NEVER || slow) {
        t->ack_at = roce_retry_ack_at(now, attr);
        roce_retry_set_timer(t, now);
    }
}

void roce_retry_pace(RoceRetry *t, RoceTime now, const RoceQpAttr *attr,
                     bool waits, bool outstanding)
{
    if (t->paced && !waits && outstanding && t->mode == ROCE_RETRY_SENDING &&
        t->deadline == ROCE_TIME_NEVER) {
        t->ack_at = roce_retry_ack_at(now, attr);
        roce_retry_set_timer(t, now);
    }
    t->paced = waits;
}

void roce_retry_progress(RoceRetry *t, RoceTime now, const RoceQpAttr *attr,
                         bool outstanding)
{
    roce_retry_refill(t, attr);
    roce_retry_forget_signs(t);
    t->probes = 0;
    t->late = 0;
    t->probe = false;
    t->unsent = false;
    /* The packet that found no receive is the oldest. Progress shows that a
     * copy of it found one, so the wait is over. */
    if (t->mode == ROCE_RETRY_WAIT_RNR) {
        t->mode = ROCE_RETRY_SENDING;
    }
    if (t->mode == ROCE_RETRY_SENDING) {
        t->ack_at = outstanding ? roce_retry_ack_at(now, attr)
                                : ROCE_TIME_NEVER;
        roce_retry_set_timer(t, now);
    }
}

/*
 * One loss causes one NAK (C9-115). Copies that the network makes show no new
 * loss, and stale answers show the same gap again. After an RNR NAK the packet
 * that found no receive has arrived. A NAK then reports the packets behind it,
 * which the responder dropped (rxe sends such a NAK, C9-115 would not).
 */
bool roce_retry_sign(RoceRetry *t, RoceSign sign)
{
    uint8_t bit = (uint8_t)(1u << sign);

    if (t->mode != ROCE_RETRY_SENDING || t->signs & bit ||
        (sign == ROCE_SIGN_NAK && t->refused)) {
        return false;
    }
    t->signs |= bit;
    t->lossy = true;
    return true;
}

bool roce_retry_take(RoceRetry *t)
{
    if (t->retry_left == 0) {
        return false;
    }
    t->retry_left--;
    roce_retry_quiet(t);
    return true;
}

RoceRnr roce_retry_rnr(RoceRetry *t, RoceTime now, const RoceQpAttr *attr,
                       uint8_t timer)
{
    if (t->mode == ROCE_RETRY_WAIT_RNR || t->unsent) {
        return ROCE_RNR_KNOWN;
    }
    if (attr->rnr_retry != ROCE_RNR_RETRY_FOREVER) {
        if (t->rnr_left == 0) {
            return ROCE_RNR_EXCEEDED;
        }
        t->rnr_left--;
    }
    roce_retry_quiet(t);
    t->mode = ROCE_RETRY_WAIT_RNR;
    t->refused = true;
    t->deadline = now + roce_retry_rnr_ns(timer);
    return ROCE_RNR_WAIT;
}

RoceExpiry roce_retry_expire(RoceRetry *t, RoceTime now, bool only_silence)
{
    const RoceTime late_by = now - t->deadline;
    /* As late as the silence before the probe was long. */
    const bool stood_still = late_by >= roce_retry_probe_ns(t);
    const bool late = t->late < ROCE_LATE_MAX &&
                      (stood_still || (late_by > ROCE_LATE_NS && !t->lossy));

    t->deadline = ROCE_TIME_NEVER;
    if (t->mode == ROCE_RETRY_WAIT_RNR) {
        t->mode = ROCE_RETRY_SENDING;
        t->unsent = true;
        return ROCE_EXPIRY_RNR;
    }
    if (t->paced) {
        /* The packet that asks for an ACK waits for the pacer. Sending it, or
         * the end of that wait, starts the timer again. */
        return ROCE_EXPIRY_NOTHING;
    }
    if (now < t->ack_at && late) {
        t->late++;
        roce_retry_set_timer(t, now);
        return ROCE_EXPIRY_NOTHING;
    }
    if (now < t->ack_at) {
        t->probe = true;
        t->lossy |= only_silence;
        t->probes++;
        roce_retry_set_timer(t, now);
        return ROCE_EXPIRY_PROBE;
    }
    roce_retry_forget_signs(t);
    return ROCE_EXPIRY_TIMEOUT;
}

void roce_retry_wait_pages(RoceRetry *t)
{
    roce_retry_quiet(t);
    t->mode = ROCE_RETRY_WAIT_PAGES;
}

bool roce_retry_pages(RoceRetry *t)
{
    if (t->mode != ROCE_RETRY_WAIT_PAGES) {
        return false;
    }
    t->mode = ROCE_RETRY_SENDING;
    return true;
}

/* A round trip is far below this. Probes wait up to 32 times as long. */
#define RETRY_TRIP_MAX ((RoceTime)1 << 50)

void roce_retry_transfer(RoceStream *s, RoceRetry *t, bool reliable)
{
    ROCE_ENUM(s, t->mode, ROCE_RETRY_MODES);
    roce_stream_time(s, &t->deadline);
    ROCE_FIELD(s, t->retry_left);
    ROCE_FIELD(s, t->rnr_left);
    ROCE_FIELD(s, t->signs);
    ROCE_FIELD(s, t->refused);
    ROCE_FIELD(s, t->unsent);
    ROCE_FIELD(s, t->paced);
    roce_stream_time(s, &t->ack_at);
    ROCE_FIELD(s, t->lossy);
    ROCE_FIELD(s, t->probe);
    ROCE_FIELD(s, t->probes);
    ROCE_FIELD(s, t->late);
    roce_stream_time(s, &t->trip);
    roce_stream_time(s, &t->deviation);
    ROCE_FIELD(s, t->timing);
    ROCE_PSN(s, t->timed_psn);
    roce_stream_time(s, &t->timed_at);
    ROCE_CHECK(s, t->trip >= 0 && t->trip < RETRY_TRIP_MAX &&
                      t->deviation >= 0 && t->deviation < RETRY_TRIP_MAX,
               "round-trip time");
    ROCE_CHECK(s, reliable || (t->mode != ROCE_RETRY_WAIT_RNR && !t->probe &&
                               t->deadline == ROCE_TIME_NEVER),
               "wait for a peer");
}
