/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Retry arithmetic: IBTA table 45, ACK timeouts, counts. */
#include "harness.h"

#include "retry.h"

/* Microseconds, as the table prints them (in ms there). */
static void rnr_timer_is_table_45(void)
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

static void ack_timeout_zero_is_never(void)
{
    CHECK_EQ(roce_retry_ack_ns(0), ROCE_TIME_NEVER);
}

/* C9-141: not sooner than the attribute says, not later than four times. */
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

static void tries_run_out(void)
{
    uint8_t left = 2;

    CHECK(roce_retry_take(&left));
    CHECK(roce_retry_take(&left));
    CHECK(!roce_retry_take(&left));
    CHECK_EQ(left, 0);
}

static void rnr_seven_is_for_ever(void)
{
    uint8_t left = 0;

    CHECK(roce_retry_take_rnr(&left, 7));
    CHECK(!roce_retry_take_rnr(&left, 6));
}

static const Test tests[] = {
    TEST(rnr_timer_is_table_45),
    TEST(ack_timeout_zero_is_never),
    TEST(ack_timeout_is_in_the_specified_range),
    TEST(tries_run_out),
    TEST(rnr_seven_is_for_ever),
};

TEST_MAIN(tests)
