/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How long one peer may keep a member from its others. */
#include "harness.h"
#include "debt.h"

#define START   INT64_C(5000000000000)
#define MS      INT64_C(1000000)

static void who_owes_nothing_is_waited_for(void)
{
    LinkDebt debt = { 0 };

    CHECK_EQ(link_debt_patience(&debt, START), LINK_DEBT_NS);
}

static void waiting_uses_patience_up(void)
{
    LinkDebt debt = { 0 };

    link_debt_add(&debt, 40 * MS, 0, START);
    CHECK_EQ(link_debt_patience(&debt, START), 60 * MS);
    link_debt_add(&debt, 60 * MS, 0, START);
    CHECK_EQ(link_debt_patience(&debt, START), 0);
}

static void a_tenth_of_time_is_paid_back(void)
{
    LinkDebt debt = { 0 };

    link_debt_add(&debt, 100 * MS, 0, START);
    CHECK_EQ(link_debt_patience(&debt, START + 200 * MS), 20 * MS);
    CHECK_EQ(link_debt_patience(&debt, START + 1000 * MS), 100 * MS);
    /* And not more than it owes. */
    CHECK_EQ(link_debt_patience(&debt, START + 9000 * MS), 100 * MS);
    link_debt_add(&debt, 10 * MS, 0, START + 9000 * MS);
    CHECK_EQ(link_debt_patience(&debt, START + 9000 * MS), 90 * MS);
}

/* We slept for an hour: that is not its fault. */
static void a_debt_is_bounded(void)
{
    LinkDebt debt = { 0 };

    link_debt_add(&debt, 3600000 * MS, 0, START);
    CHECK_EQ(link_debt_patience(&debt, START + 1000 * MS), 0);
    CHECK(link_debt_patience(&debt, START + 1001 * MS) > 0);
}

/*
 * It takes nothing, and a frame for it comes every so often, or at once; what
 * wakes us comes late.
 */
static int64_t stuck_for(int64_t time, int64_t every, int64_t late)
{
    const int64_t end = START + time;
    LinkDebt debt = { 0 };
    int64_t now = START, lost = 0;

    while (now < end) {
        int64_t patience = link_debt_patience(&debt, now);

        if (patience) {
            now += patience + late;
            lost += patience + late;
            link_debt_add(&debt, patience + late, 0, now);
        } else {
            now += every;
        }
    }
    return lost;
}

static void a_stuck_peer_costs_a_tenth(void)
{
    static const int64_t every[] = { 1000, 1 * MS, 700 * MS };
    static const int64_t late[] = { 0, 50000, 10 * MS };

    for (unsigned i = 0; i < TEST_COUNT(every); i++) {
        for (unsigned k = 0; k < TEST_COUNT(late); k++) {
            int64_t lost = stuck_for(10000 * MS, every[i], late[k]);

            CHECK(lost >= LINK_DEBT_NS);
            CHECK(lost <= 1000 * MS + LINK_DEBT_NS + late[k]);
        }
    }
}

/* It takes a ring of 1 MiB every 50 ms, for which we always wait. */
static void who_is_slow_is_waited_for(void)
{
    LinkDebt debt = { 0 };
    uint32_t head = UINT32_MAX - (4 << 20);
    int64_t now = START;

    link_debt_add(&debt, 0, head, now);
    for (unsigned i = 0; i < 200; i++) {
        now += 50 * MS;
        head += 1 << 20;
        link_debt_add(&debt, 50 * MS, head, now);
        CHECK_EQ(link_debt_patience(&debt, now), LINK_DEBT_NS);
    }
}

/* The same, at 32 MB/s, told of every 100 us. */
static void a_wait_is_told_of_in_pieces(void)
{
    LinkDebt debt = { 0 };
    uint32_t head = 0;
    int64_t now = START;

    for (unsigned i = 0; i < 100000; i++) {
        now += MS / 10;
        head += i % 320 ? 0 : 1 << 20;
        link_debt_add(&debt, MS / 10, head, now);
        CHECK(link_debt_patience(&debt, now) > LINK_DEBT_NS / 2);
    }
}

/* What it is owed for a year of taking is no more than it may owe. */
static void credit_is_bounded(void)
{
    LinkDebt debt = { 0 };

    link_debt_add(&debt, 0, UINT32_MAX, START);
    CHECK_EQ(link_debt_patience(&debt, START), LINK_DEBT_NS);
    link_debt_add(&debt, 2 * LINK_DEBT_NS, UINT32_MAX, START);
    CHECK_EQ(link_debt_patience(&debt, START), 0);
}

static const Test tests[] = {
    TEST(who_owes_nothing_is_waited_for),
    TEST(waiting_uses_patience_up),
    TEST(a_tenth_of_time_is_paid_back),
    TEST(a_debt_is_bounded),
    TEST(a_stuck_peer_costs_a_tenth),
    TEST(who_is_slow_is_waited_for),
    TEST(a_wait_is_told_of_in_pieces),
    TEST(credit_is_bounded),
};

TEST_MAIN(tests)
