/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How many lines a link prints, whatever its members do. */
#include "harness.h"
#include "told.h"

#define START   INT64_C(5000000000000)
#define SECOND  INT64_C(1000000000)

static unsigned lines(LinkTold *told, int64_t from, int64_t to, int64_t every)
{
    unsigned count = 0, untold;

    for (int64_t now = from; now < to; now += every) {
        count += link_told_next(told, now, &untold);
    }
    return count;
}

static void first_lines_are_told_at_once(void)
{
    LinkTold told = { 0 };

    CHECK_EQ(lines(&told, START, START + 1000, 1), LINK_TOLD_AT_ONCE);
}

/* A hundred an hour at most beside them, however many there would be. */
static void a_flood_is_told_once_a_minute(void)
{
    LinkTold told = { 0 };

    CHECK_EQ(lines(&told, START, START + 3600 * SECOND, SECOND / 100),
             LINK_TOLD_AT_ONCE + 59);
}

static void seldom_lines_are_all_told(void)
{
    LinkTold told = { 0 };

    CHECK_EQ(lines(&told, START, START + 100 * 60 * SECOND, 60 * SECOND), 100);
}

static void what_was_not_told_is_counted(void)
{
    LinkTold told = { 0 };
    unsigned untold = 1;

    CHECK(link_told_next(&told, START, &untold));
    CHECK_EQ(untold, 0);
    lines(&told, START, START + LINK_TOLD_AT_ONCE - 1 + 10, 1);
    CHECK(link_told_next(&told, START + LINK_TOLD_NS, &untold));
    CHECK_EQ(untold, 10);
    CHECK(link_told_next(&told, START + 2 * LINK_TOLD_NS, &untold));
    CHECK_EQ(untold, 0);
}

/* Nor does one that was quiet for years have more to say at once. */
static void silence_earns_no_more(void)
{
    LinkTold told = { 0 };
    const int64_t late = INT64_MAX / 2;

    lines(&told, START, START + 10, 1);
    CHECK_EQ(lines(&told, late, late + 1000, 1), LINK_TOLD_AT_ONCE);
}

static const Test tests[] = {
    TEST(first_lines_are_told_at_once),
    TEST(a_flood_is_told_once_a_minute),
    TEST(seldom_lines_are_all_told),
    TEST(what_was_not_told_is_counted),
    TEST(silence_earns_no_more),
};

TEST_MAIN(tests)
