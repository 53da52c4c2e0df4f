/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Retries: IBTA table 45, ACK timeouts, retry counts, and copies of a NAK. */
#include "harness.h"

#include "retry.h"

/* Microseconds, as the table prints them (in ms there). */
static void rnr_timer_matches_table_45(void)
{
    static const uint32_t us[32] = {
        655360, 10, 20, 30, 40, 60, 80, 120, 160, 240, 320, 480, 640, 960,
        1280, 1920, 2560, 3840, 5120, 7680, 10240, 15360, 20480, 30720, 40960,
        61440, 81920, 122880, 163840, 245760, 327680, 491520,
    };
    unsigned i;

    for (i = 0; i < 32; i++) {
        CHECK_EQ(roce_retry_rnr_ns((uint8_t)i), (RoceTime)us[i] * 1000);
    }
}

static void ack_timeout_0_never_expires(void)
{
    CHECK_EQ(roce_retry_ack_ns(0), ROCE_TIME_NEVER);
}

/* C9-141: the timeout is one to four times the attribute's time. */
static void ack_timeout_is_in_the_specified_range(void)
{
    unsigned i;

    for (i = 1; i < 32; i++) {
        RoceTime base = (RoceTime)4096 << i;

        CHECK(roce_retry_ack_ns((uint8_t)i) >= base);
        CHECK(roce_retry_ack_ns((uint8_t)i) <= 4 * base);
    }
    CHECK_EQ(roce_retry_ack_ns(1), 4 * 8192);
    CHECK_EQ(roce_retry_ack_ns(14), ROCE_ACK_WAIT_FLOOR_NS);
    CHECK_EQ(roce_retry_ack_ns(20), (RoceTime)4096 << 20);
}

static const RoceQpAttr patient = {
    .timeout = 20, .retry_cnt = 2, .rnr_retry = 1,
};

#define WAIT ((RoceTime)4096 << 20)

static RoceRetry started(void)
{
    RoceRetry t;

    roce_retry_init(&t);
    CHECK_EQ(t.deadline, ROCE_TIME_NEVER);
    roce_retry_refill(&t, &patient);
    roce_retry_sent(&t, 100, &patient, false);
    return t;
}

static void timer_starts_with_first_packet(void)
{
    RoceRetry t = started();

    CHECK_EQ(t.deadline, 100 + WAIT);
    roce_retry_sent(&t, 200, &patient, false);
    CHECK_EQ(t.deadline, 100 + WAIT);
    roce_retry_sent(&t, 300, &patient, true);
    CHECK_EQ(t.deadline, 300 + WAIT);
}

static void timeout_zero_sets_no_timer(void)
{
    RoceQpAttr attr = patient;
    RoceRetry t;

    attr.timeout = 0;
    roce_retry_init(&t);
    roce_retry_sent(&t, 100, &attr, false);
    CHECK_EQ(t.deadline, ROCE_TIME_NEVER);
    roce_retry_progress(&t, 200, &attr, true);
    CHECK_EQ(t.deadline, ROCE_TIME_NEVER);
}

static void progress_restarts_timer_and_retries(void)
{
    RoceRetry t = started();

    CHECK(roce_retry_take(&t));
    CHECK_EQ(t.retry_left, 1);
    roce_retry_progress(&t, 500, &patient, true);
    CHECK_EQ(t.deadline, 500 + WAIT);
    CHECK_EQ(t.retry_left, 2);
    roce_retry_progress(&t, 600, &patient, false);
    CHECK_EQ(t.deadline, ROCE_TIME_NEVER);
}

static void retries_are_limited(void)
{
    RoceRetry t = started();

    CHECK(roce_retry_take(&t));
    CHECK_EQ(t.deadline, ROCE_TIME_NEVER);
    CHECK(roce_retry_take(&t));
    CHECK(!roce_retry_take(&t));
    CHECK_EQ(t.retry_left, 0);
}

/* Each sign of loss counts once, until there is progress or a timeout. */
static void duplicate_signs_of_loss_count_once(void)
{
    static const RoceSign signs[] = { ROCE_SIGN_GAP, ROCE_SIGN_NAK };
    unsigned i;

    for (i = 0; i < TEST_COUNT(signs); i++) {
        RoceRetry t = started();

        CHECK(roce_retry_sign(&t, signs[i]));
        CHECK(!roce_retry_sign(&t, signs[i]));
        CHECK(roce_retry_sign(&t, signs[!i]));
        roce_retry_progress(&t, 500, &patient, true);
        CHECK(roce_retry_sign(&t, signs[i]));
        CHECK(!roce_retry_sign(&t, signs[i]));
        CHECK_EQ(roce_retry_expire(&t, t.deadline, true), ROCE_EXPIRY_TIMEOUT);
        CHECK(roce_retry_sign(&t, signs[i]));
    }
}

static void duplicate_rnr_nak_does_not_restart_wait(void)
{
    RoceRetry t = started();

    CHECK_EQ(roce_retry_rnr(&t, 100, &patient, 1), ROCE_RNR_WAIT);
    CHECK_EQ(t.mode, ROCE_RETRY_WAIT_RNR);
    CHECK_EQ(t.deadline, 100 + 10000);
    CHECK_EQ(roce_retry_rnr(&t, 200, &patient, 1), ROCE_RNR_KNOWN);
    CHECK_EQ(t.deadline, 100 + 10000);
    CHECK(!roce_retry_sign(&t, ROCE_SIGN_GAP));
    CHECK_EQ(roce_retry_expire(&t, t.deadline, true), ROCE_EXPIRY_RNR);
    CHECK_EQ(t.mode, ROCE_RETRY_SENDING);
    CHECK(!roce_retry_sign(&t, ROCE_SIGN_NAK));
    CHECK(roce_retry_sign(&t, ROCE_SIGN_GAP));
    roce_retry_sent(&t, 300, &patient, false);
    CHECK_EQ(roce_retry_rnr(&t, 300, &patient, 1), ROCE_RNR_EXCEEDED);
    CHECK_EQ(t.retry_left, 2);
}

/* The refused packet was not sent again, so a second RNR NAK is a copy. */
static void rnr_nak_before_retransmission_is_a_duplicate(void)
{
    RoceRetry t = started();

    CHECK_EQ(roce_retry_rnr(&t, 100, &patient, 1), ROCE_RNR_WAIT);
    CHECK_EQ(roce_retry_expire(&t, t.deadline, true), ROCE_EXPIRY_RNR);
    CHECK_EQ(roce_retry_rnr(&t, 20000, &patient, 1), ROCE_RNR_KNOWN);
    CHECK_EQ(t.mode, ROCE_RETRY_SENDING);
    CHECK_EQ(t.rnr_left, 0);
    /* There was progress, so the next RNR NAK is for another packet. */
    roce_retry_progress(&t, 20000, &patient, true);
    CHECK_EQ(roce_retry_rnr(&t, 30000, &patient, 1), ROCE_RNR_WAIT);
}

static void rnr_retry_7_is_unlimited(void)
{
    RoceQpAttr attr = patient;
    RoceRetry t = started();
    unsigned i;

    attr.rnr_retry = ROCE_RNR_RETRY_FOREVER;
    for (i = 0; i < 20; i++) {
        CHECK_EQ(roce_retry_rnr(&t, 100, &attr, 1), ROCE_RNR_WAIT);
        CHECK_EQ(roce_retry_expire(&t, t.deadline, true), ROCE_EXPIRY_RNR);
        roce_retry_sent(&t, 100, &attr, false);
    }
}

static void progress_ends_an_rnr_wait(void)
{
    RoceRetry t = started();

    CHECK_EQ(roce_retry_rnr(&t, 100, &patient, 1), ROCE_RNR_WAIT);
    roce_retry_progress(&t, 200, &patient, true);
    CHECK_EQ(t.mode, ROCE_RETRY_SENDING);
    CHECK_EQ(t.deadline, 200 + WAIT);
    CHECK_EQ(t.rnr_left, 1);
}

static void page_wait_has_no_timer(void)
{
    RoceRetry t = started();

    CHECK(!roce_retry_pages(&t));
    roce_retry_wait_pages(&t);
    CHECK_EQ(t.deadline, ROCE_TIME_NEVER);
    roce_retry_progress(&t, 200, &patient, true);
    CHECK_EQ(t.mode, ROCE_RETRY_WAIT_PAGES);
    CHECK_EQ(t.deadline, ROCE_TIME_NEVER);
    CHECK(!roce_retry_sign(&t, ROCE_SIGN_NAK));
    CHECK(roce_retry_pages(&t));
    CHECK_EQ(t.mode, ROCE_RETRY_SENDING);
}

static void delayed_sending_is_no_timeout(void)
{
    RoceRetry t = started();
    RoceTime now = t.deadline;

    roce_retry_pace(&t, now, &patient, true, true);
    CHECK_EQ(roce_retry_expire(&t, now, true), ROCE_EXPIRY_NOTHING);
    CHECK_EQ(t.deadline, ROCE_TIME_NEVER);
    now += 1000;
    roce_retry_pace(&t, now, &patient, false, false);
    CHECK_EQ(t.deadline, ROCE_TIME_NEVER);
    roce_retry_pace(&t, now, &patient, true, true);
    roce_retry_pace(&t, now, &patient, false, true);
    CHECK_EQ(t.deadline, now + WAIT);
    CHECK_EQ(roce_retry_expire(&t, t.deadline, true), ROCE_EXPIRY_TIMEOUT);
}

static void new_path_resets_timer_and_retries(void)
{
    RoceRetry t = started();

    CHECK(roce_retry_sign(&t, ROCE_SIGN_NAK));
    CHECK(roce_retry_take(&t));
    roce_retry_sent(&t, 200, &patient, false);
    roce_retry_restart(&t, &patient);
    CHECK_EQ(t.deadline, ROCE_TIME_NEVER);
    CHECK_EQ(t.retry_left, 2);
    CHECK(roce_retry_sign(&t, ROCE_SIGN_NAK));
}

/* A packet sent at 100, answered at 1100: a round trip of 1000 (RFC 6298). */
static RoceRetry measured(void)
{
    RoceRetry t = started();

    CHECK_EQ(roce_retry_probe_ns(&t), ROCE_TIME_NEVER);
    roce_retry_time(&t, 100, 0xffffff);
    roce_retry_time(&t, 600, 0);
    roce_retry_timed(&t, 800, 0xffffff);
    CHECK_EQ(t.trip, 0);
    roce_retry_timed(&t, 1100, 0);
    CHECK_EQ(t.trip, 1000);
    CHECK_EQ(t.deviation, 500);
    roce_retry_progress(&t, 1100, &patient, true);
    return t;
}

/* The same on a path that has lost a packet. */
static RoceRetry measured_lossy(void)
{
    RoceRetry t = measured();

    CHECK(roce_retry_sign(&t, ROCE_SIGN_NAK));
    roce_retry_progress(&t, 1100, &patient, true);
    return t;
}

static void probe_uses_no_retry(void)
{
    RoceTime wait = ROCE_PROBE_FLOOR_NS;
    RoceRetry t = measured_lossy();
    RoceTime now = 1100;
    unsigned i;

    for (i = 0; i < ROCE_PROBES_MAX; i++, wait *= 2) {
        now += wait;
        CHECK_EQ(t.deadline, now);
        CHECK_EQ(roce_retry_expire(&t, now, true), ROCE_EXPIRY_PROBE);
        CHECK(t.probe);
        roce_retry_probed(&t);
        CHECK(!t.probe);
        CHECK_EQ(t.retry_left, 2);
    }
    /* Then the local ACK timer expires, which probes have not moved. */
    CHECK_EQ(t.deadline, 1100 + WAIT);
    CHECK_EQ(roce_retry_expire(&t, t.deadline, true), ROCE_EXPIRY_TIMEOUT);
}

static void progress_restarts_probing(void)
{
    RoceRetry t = measured();

    CHECK_EQ(roce_retry_expire(&t, t.deadline, true), ROCE_EXPIRY_PROBE);
    roce_retry_progress(&t, 9000000, &patient, true);
    CHECK(!t.probe);
    CHECK_EQ(t.deadline, 9000000 + ROCE_PROBE_FLOOR_NS);
}

/* With many packets outstanding the peer would report a loss by NAK, so a
 * silence is no sign of loss. */
static void silence_with_many_packets_is_no_loss(void)
{
    RoceRetry t = measured();
    RoceTime now = t.deadline + 1000;

    CHECK_EQ(roce_retry_expire(&t, t.deadline, false), ROCE_EXPIRY_PROBE);
    CHECK(t.probe && !t.lossy);
    roce_retry_progress(&t, now, &patient, true);
    CHECK_EQ(t.deadline, now + ROCE_PROBE_TRUST_NS);

    /* A lossy path stays lossy. */
    t = measured_lossy();
    CHECK_EQ(roce_retry_expire(&t, t.deadline, false), ROCE_EXPIRY_PROBE);
    CHECK(t.lossy);
}

/* Before any sign of loss, a silence means that the peer has no CPU time. */
static void path_without_losses_is_probed_later(void)
{
    RoceRetry t = measured();

    CHECK_EQ(roce_retry_probe_ns(&t), ROCE_PROBE_TRUST_NS);
    CHECK(roce_retry_sign(&t, ROCE_SIGN_GAP));
    CHECK_EQ(roce_retry_probe_ns(&t), ROCE_PROBE_FLOOR_NS);
    roce_retry_restart(&t, &patient);
    roce_retry_time(&t, 100, 7);
    roce_retry_timed(&t, 1100, 8);
    CHECK_EQ(roce_retry_probe_ns(&t), ROCE_PROBE_TRUST_NS);
}

/* A late timer means that the host was busy, probably for the peer, too. The
 * silence then counts from now on. The local ACK timer does not move. */
static void late_timer_does_not_probe(void)
{
    RoceRetry t = measured();
    RoceTime now = t.deadline + ROCE_LATE_NS + 1;

    CHECK_EQ(roce_retry_expire(&t, now, true), ROCE_EXPIRY_NOTHING);
    CHECK(!t.probe && !t.lossy);
    CHECK_EQ(t.deadline, now + ROCE_PROBE_TRUST_NS);
    CHECK_EQ(roce_retry_expire(&t, t.deadline + ROCE_LATE_NS, true),
             ROCE_EXPIRY_PROBE);
    CHECK(t.probe && t.lossy);

    t = measured();
    CHECK_EQ(roce_retry_expire(&t, t.ack_at + 2 * ROCE_LATE_NS, true),
             ROCE_EXPIRY_TIMEOUT);

    /* A host that is always slow must not hide a loss. */
    t = measured();
    for (unsigned i = 0; i < ROCE_LATE_MAX; i++) {
        CHECK_EQ(roce_retry_expire(&t, t.deadline + 2 * ROCE_LATE_NS, true),
                 ROCE_EXPIRY_NOTHING);
    }
    CHECK_EQ(roce_retry_expire(&t, t.deadline + 2 * ROCE_LATE_NS, true),
             ROCE_EXPIRY_PROBE);
    t = measured();
    CHECK_EQ(roce_retry_expire(&t, t.deadline + 2 * ROCE_LATE_NS, true),
             ROCE_EXPIRY_NOTHING);
    roce_retry_progress(&t, 1100, &patient, true);
    CHECK_EQ(t.late, 0);

    /* On a lossy path it is more likely a loss. */
    t = measured_lossy();
    CHECK_EQ(roce_retry_expire(&t, t.deadline + 2 * ROCE_LATE_NS, true),
             ROCE_EXPIRY_PROBE);
}

/*
 * A timer that is late by the whole length of the silence shows nothing about
 * the peer, on any path: the silence starts again. The local ACK timer does not
 * move.
 */
static void very_late_timer_restarts_silence(void)
{
    RoceRetry t = measured_lossy();
    RoceTime now = t.deadline;
    unsigned i;

    CHECK_EQ(roce_retry_expire(&t, t.deadline + ROCE_PROBE_FLOOR_NS - 1, true),
             ROCE_EXPIRY_PROBE);
    t = measured_lossy();
    for (i = 0; i < ROCE_LATE_MAX; i++) {
        now = t.deadline + ROCE_PROBE_FLOOR_NS;
        CHECK_EQ(roce_retry_expire(&t, now, true), ROCE_EXPIRY_NOTHING);
        CHECK(!t.probe);
        CHECK_EQ(t.deadline, now + ROCE_PROBE_FLOOR_NS);
    }
    /* A host whose timers are always late still recovers a lost packet. */
    CHECK_EQ(roce_retry_expire(&t, t.deadline + ROCE_PROBE_FLOOR_NS, true),
             ROCE_EXPIRY_PROBE);
    CHECK_EQ(roce_retry_expire(&t, 1100 + WAIT, true), ROCE_EXPIRY_TIMEOUT);
}

static void long_round_trips_are_not_probed_early(void)
{
    RoceRetry t = started();

    roce_retry_time(&t, 0, 7);
    roce_retry_timed(&t, 20000000, 8);
    CHECK_EQ(roce_retry_probe_ns(&t), 60000000);
}

/*
 * Round trips become longer than the probe interval. After a few probes the
 * interval adapts. Otherwise every round trip would be probed.
 */
static void probe_interval_adapts_to_longer_round_trips(void)
{
    RoceRetry t = measured();
    RoceTime now = 1100;
    unsigned i, probes = 0;

    for (i = 1; i <= 100; i++) {
        const RoceTime answer = now + 30000000;

        roce_retry_time(&t, now, i);
        while (t.deadline < answer) {
            CHECK_EQ(roce_retry_expire(&t, t.deadline, true),
                     ROCE_EXPIRY_PROBE);
            roce_retry_probed(&t);
            probes++;
        }
        now = answer;
        roce_retry_timed(&t, now, i + 1);
        roce_retry_progress(&t, now, &patient, true);
    }
    CHECK(probes > 1 && probes < 10);
}

/*
 * One packet in ten is lost and needs three probes. The probe interval must not
 * grow by that for long.
 */
static void losses_do_not_lengthen_probe_interval(void)
{
    RoceRetry t = measured_lossy();
    RoceTime now = 1100;
    unsigned i;

    for (i = 1; i <= 1000; i++) {
        RoceTime answer = now + 1000;

        roce_retry_time(&t, now, i);
        roce_retry_sent(&t, now, &patient, true);
        while (i % 10 == 0 && t.probes < 3) {
            answer = t.deadline + 1000;
            CHECK_EQ(roce_retry_expire(&t, t.deadline, true),
                     ROCE_EXPIRY_PROBE);
        }
        now = answer;
        roce_retry_timed(&t, now, i + 1);
        roce_retry_progress(&t, now, &patient, false);
        CHECK(roce_retry_probe_ns(&t) < 4 * ROCE_PROBE_FLOOR_NS);
    }
}

/* Karn: a response does not show which of two copies it answers. */
static void retransmissions_give_no_round_trip(void)
{
    RoceRetry t = started();

    roce_retry_time(&t, 100, 7);
    CHECK(roce_retry_take(&t));
    roce_retry_timed(&t, 1100, 8);
    CHECK_EQ(t.trip, 0);
}

static const Test tests[] = {
    TEST(probe_uses_no_retry),
    TEST(progress_restarts_probing),
    TEST(silence_with_many_packets_is_no_loss),
    TEST(path_without_losses_is_probed_later),
    TEST(late_timer_does_not_probe),
    TEST(very_late_timer_restarts_silence),
    TEST(long_round_trips_are_not_probed_early),
    TEST(probe_interval_adapts_to_longer_round_trips),
    TEST(losses_do_not_lengthen_probe_interval),
    TEST(retransmissions_give_no_round_trip),
    TEST(rnr_timer_matches_table_45),
    TEST(ack_timeout_0_never_expires),
    TEST(ack_timeout_is_in_the_specified_range),
    TEST(timer_starts_with_first_packet),
    TEST(timeout_zero_sets_no_timer),
    TEST(progress_restarts_timer_and_retries),
    TEST(retries_are_limited),
    TEST(duplicate_signs_of_loss_count_once),
    TEST(duplicate_rnr_nak_does_not_restart_wait),
    TEST(rnr_nak_before_retransmission_is_a_duplicate),
    TEST(rnr_retry_7_is_unlimited),
    TEST(progress_ends_an_rnr_wait),
    TEST(page_wait_has_no_timer),
    TEST(delayed_sending_is_no_timeout),
    TEST(new_path_resets_timer_and_retries),
};

TEST_MAIN(tests)
