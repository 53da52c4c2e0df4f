/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Limits the number of lines that a link prints. */
#include "harness.h"
#include "loglimit.h"

#define START   INT64_C(5000000000000)
#define SECOND  INT64_C(1000000000)

static unsigned lines(LinkLogLimit *limit, int64_t from, int64_t to, int64_t every)
{
    unsigned count = 0, suppressed;

    for (int64_t now = from; now < to; now += every) {
        count += link_log_limit_pass(limit, now, &suppressed);
    }
    return count;
}

static void first_lines_are_printed(void)
{
    LinkLogLimit limit = { 0 };

    CHECK_EQ(lines(&limit, START, START + 1000, 1), LINK_LOG_BURST);
}

/* After the burst a flood prints one line per LINK_LOG_NS. */
static void flood_prints_one_line_a_minute(void)
{
    LinkLogLimit limit = { 0 };

    CHECK_EQ(lines(&limit, START, START + 3600 * SECOND, SECOND / 100),
             LINK_LOG_BURST + 59);
}

static void rare_lines_are_all_printed(void)
{
    LinkLogLimit limit = { 0 };

    CHECK_EQ(lines(&limit, START, START + 100 * 60 * SECOND, 60 * SECOND), 100);
}

static void suppressed_lines_are_counted(void)
{
    LinkLogLimit limit = { 0 };
    unsigned suppressed = 1;

    CHECK(link_log_limit_pass(&limit, START, &suppressed));
    CHECK_EQ(suppressed, 0);
    lines(&limit, START, START + LINK_LOG_BURST - 1 + 10, 1);
    CHECK(link_log_limit_pass(&limit, START + LINK_LOG_NS, &suppressed));
    CHECK_EQ(suppressed, 10);
    CHECK(link_log_limit_pass(&limit, START + 2 * LINK_LOG_NS, &suppressed));
    CHECK_EQ(suppressed, 0);
}

/* A link that was silent for years has the same burst. */
static void silence_does_not_raise_the_limit(void)
{
    LinkLogLimit limit = { 0 };
    const int64_t late = INT64_MAX / 2;

    lines(&limit, START, START + 10, 1);
    CHECK_EQ(lines(&limit, late, late + 1000, 1), LINK_LOG_BURST);
}

static const Test tests[] = {
    TEST(first_lines_are_printed),
    TEST(flood_prints_one_line_a_minute),
    TEST(rare_lines_are_all_printed),
    TEST(suppressed_lines_are_counted),
    TEST(silence_does_not_raise_the_limit),
};

TEST_MAIN(tests)
