/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How long one peer may delay a member's other peers. */
#include "harness.h"
#include "account.h"

#define START   INT64_C(5000000000000)
#define MS      INT64_C(1000000)

/* The debt of a peer, and the sum of all debts. */
static LinkDebt debt, all;
static uint32_t taken;          /* bytes taken, as last reported */

static void begin(void)
{
    debt = all = (LinkDebt) { 0 };
    taken = 0;
}

static void waited(int64_t ns, uint32_t head, int64_t now)
{
    link_debt_add(&debt, &all, ns, head - taken, now);
    taken = head;
}

static int64_t patience(int64_t now)
{
    return link_debt_patience(&debt, &all, now);
}

static void who_owes_nothing_is_waited_for(void)
{
    begin();
    CHECK_EQ(patience(START), LINK_DEBT_NS);
}

static void waiting_uses_patience_up(void)
{
    begin();
    waited(40 * MS, 0, START);
    CHECK_EQ(patience(START), 160 * MS);
    waited(160 * MS, 0, START);
    CHECK_EQ(patience(START), 0);
}

static void a_tenth_of_time_is_paid_back(void)
{
    begin();
    waited(200 * MS, 0, START);
    CHECK_EQ(patience(START + 200 * MS), 20 * MS);
    CHECK_EQ(patience(START + 2000 * MS), 200 * MS);
    /* It pays back no more than it owes. */
    CHECK_EQ(patience(START + 9000 * MS), 200 * MS);
    waited(10 * MS, 0, START + 9000 * MS);
    CHECK_EQ(patience(START + 9000 * MS), 190 * MS);
}

/* The member slept for an hour, which is not the peer's fault. */
static void a_debt_is_bounded(void)
{
    begin();
    waited(3600000 * MS, 0, START);
    CHECK_EQ(patience(START + 2000 * MS), 0);
    CHECK(patience(START + 2001 * MS) > 0);
}

/*
 * A peer takes nothing. There is a frame for it every 'every' ns, and each wait
 * ends 'late' ns too late. Returns the time that the others lose.
 */
static int64_t stuck_for(int64_t time, int64_t every, int64_t late)
{
    const int64_t end = START + time;
    int64_t now = START, lost = 0;

    begin();
    while (now < end) {
        int64_t wait = patience(now);

        if (wait) {
            now += wait + late;
            lost += wait + late;
            waited(wait + late, 0, now);
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

/* A peer takes a ring of 1 MiB every 50 ms: the member waits each time. */
static void who_is_slow_is_waited_for(void)
{
    uint32_t head = UINT32_MAX - (4 << 20);
    int64_t now = START;

    begin();
    waited(0, head, now);
    for (unsigned i = 0; i < 200; i++) {
        now += 50 * MS;
        head += 1 << 20;
        waited(50 * MS, head, now);
        CHECK_EQ(patience(now), LINK_DEBT_NS);
    }
}

/* A peer takes 32 MB/s, and each wait is reported every 100 us. */
static void a_wait_is_told_of_in_pieces(void)
{
    uint32_t head = 0;
    int64_t now = START;

    begin();
    for (unsigned i = 0; i < 100000; i++) {
        now += MS / 10;
        head += i % 320 ? 0 : 1 << 20;
        waited(MS / 10, head, now);
        CHECK(patience(now) > LINK_DEBT_NS / 2);
    }
}

/* The bytes that a peer took before a wait give it no credit. */
static void there_is_no_credit(void)
{
    begin();
    waited(0, UINT32_MAX, START);
    CHECK_EQ(patience(START), LINK_DEBT_NS);
    waited(LINK_DEBT_NS, UINT32_MAX, START);
    CHECK_EQ(patience(START), 0);
}

/* ---- several peers ------------------------------------------------------- */

/* Waits for a peer as long as allowed. Returns the time lost. */
static int64_t stall(LinkAccount *peer, LinkAccounts *link, int64_t *now)
{
    const int64_t wait = link_debt_patience(&peer->debt, &link->all, *now);

    *now += wait;
    link_debt_add(&peer->debt, &link->all, wait, 0, *now);
    return wait;
}

/*
 * 'number' stuck connections at a time, which last for 'stay'. With 'forks'
 * each belongs to another process, otherwise all to one. Returns what the
 * others lose in 'time'.
 */
static int64_t rejoined(unsigned number, int64_t stay, bool forks, int64_t time)
{
    static LinkAccounts link;
    LinkAccount *peers[32];
    const int64_t end = START + time;
    int64_t now = START, lost = 0;
    long process = 100;

    link = (LinkAccounts) { 0 };
    while (now < end) {
        const int64_t leaves = now + stay < end ? now + stay : end;

        for (unsigned i = 0; i < number; i++) {
            process += forks;
            peers[i] = link_account_open(&link, process, now);
        }
        while (now < leaves) {
            for (unsigned i = 0; i < number; i++) {
                lost += stall(peers[i], &link, &now);
            }
            now += MS;
        }
        for (unsigned i = 0; i < number; i++) {
            link_account_close(peers[i]);
        }
    }
    return lost;
}

static void who_joins_again_owes_what_it_owed(void)
{
    CHECK(rejoined(1, 300 * MS, false, 10000 * MS) <= 1000 * MS + LINK_DEBT_NS);
    CHECK(rejoined(1, 1 * MS, false, 10000 * MS) <= 1000 * MS + LINK_DEBT_NS);
}

static void connections_of_a_process_share_its_debt(void)
{
    CHECK(rejoined(32, 60000 * MS, false, 10000 * MS) <=
          1000 * MS + LINK_DEBT_NS);
}

static void who_forks_gets_no_more_than_all_may(void)
{
    static const unsigned numbers[] = { 1, 4, 32 };
    static const int64_t stays[] = { 1 * MS, 300 * MS, 60000 * MS };

    for (unsigned i = 0; i < TEST_COUNT(numbers); i++) {
        for (unsigned k = 0; k < TEST_COUNT(stays); k++) {
            CHECK(rejoined(numbers[i], stays[k], true, 10000 * MS) <=
                  1000 * MS + LINK_DEBTS_NS);
        }
    }
}

/* The member still waits for other peers as long as before. */
static void one_stuck_peer_leaves_patience_for_others(void)
{
    LinkAccounts link = { 0 };
    LinkAccount *stuck = link_account_open(&link, 1, START);
    LinkAccount *other = link_account_open(&link, 2, START);
    int64_t now = START;

    for (unsigned i = 0; i < 10000; i++) {
        stall(stuck, &link, &now);
        now += MS;
        CHECK_EQ(link_debt_patience(&other->debt, &link.all, now),
                 LINK_DEBT_NS);
    }
}

/* The bytes that a peer takes pay only for waits for that peer. */
static void who_takes_pays_for_itself_alone(void)
{
    LinkAccounts link = { 0 };
    LinkAccount *fast = link_account_open(&link, 1, START);
    LinkAccount *stuck = link_account_open(&link, 2, START);

    link_debt_add(&stuck->debt, &link.all, LINK_DEBT_NS, 0, START);
    link_debt_add(&fast->debt, &link.all, 0, 1U << 30, START);
    CHECK_EQ(link_debt_owed(&link.all, START), LINK_DEBT_NS);
    link_debt_add(&fast->debt, &link.all, 50 * MS, 0, START);
    CHECK_EQ(link_debt_owed(&link.all, START), LINK_DEBT_NS + 50 * MS);
    link_debt_add(&fast->debt, &link.all, 0, 1U << 30, START);
    CHECK_EQ(link_debt_owed(&link.all, START), LINK_DEBT_NS);
}

/* Processes without a known number must not share one account. */
static void processes_that_cannot_be_seen_have_an_account_each(void)
{
    LinkAccounts link = { 0 };

    CHECK(link_account_open(&link, 0, START) !=
          link_account_open(&link, 0, START));
}

/* With more processes than accounts, the largest debts are kept. */
static void the_smallest_debt_is_forgotten(void)
{
    static LinkAccounts link;
    LinkAccount *peer;

    link = (LinkAccounts) { 0 };
    for (long i = 1; i <= 2 * LINK_ACCOUNTS; i++) {
        peer = link_account_open(&link, i, START);
        link_debt_add(&peer->debt, &link.all, i == 7 ? 90 * MS : i, 0, START);
        link_account_close(peer);
    }
    peer = link_account_open(&link, 7, START);
    CHECK_EQ(link_debt_owed(&peer->debt, START), 90 * MS);
    CHECK_EQ(peer->connections, 1);
}

static const Test tests[] = {
    TEST(who_owes_nothing_is_waited_for),
    TEST(waiting_uses_patience_up),
    TEST(a_tenth_of_time_is_paid_back),
    TEST(a_debt_is_bounded),
    TEST(a_stuck_peer_costs_a_tenth),
    TEST(who_is_slow_is_waited_for),
    TEST(a_wait_is_told_of_in_pieces),
    TEST(there_is_no_credit),
    TEST(who_joins_again_owes_what_it_owed),
    TEST(connections_of_a_process_share_its_debt),
    TEST(who_forks_gets_no_more_than_all_may),
    TEST(one_stuck_peer_leaves_patience_for_others),
    TEST(who_takes_pays_for_itself_alone),
    TEST(processes_that_cannot_be_seen_have_an_account_each),
    TEST(the_smallest_debt_is_forgotten),
};

TEST_MAIN(tests)
