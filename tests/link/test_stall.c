/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How long one peer may delay a member's other peers. */
#include "harness.h"
#include "account.h"

#define START   INT64_C(5000000000000)
#define MS      INT64_C(1000000)

/* The charge of a peer, and the sum of all charges. */
static LinkStall peer_stall, all;
static uint32_t taken;          /* bytes taken, as last reported */

static void begin(void)
{
    peer_stall = all = (LinkStall) { 0 };
    taken = 0;
}

static void waited(int64_t ns, uint32_t head, int64_t now)
{
    link_stall_add(&peer_stall, &all, ns, head - taken, now);
    taken = head;
}

static int64_t wait_left(int64_t now)
{
    return link_stall_left(&peer_stall, &all, now);
}

static void peer_without_charge_is_waited_for(void)
{
    begin();
    CHECK_EQ(wait_left(START), LINK_STALL_NS);
}

static void waiting_adds_to_the_charge(void)
{
    begin();
    waited(40 * MS, 0, START);
    CHECK_EQ(wait_left(START), 160 * MS);
    waited(160 * MS, 0, START);
    CHECK_EQ(wait_left(START), 0);
}

static void charge_falls_by_a_tenth_of_elapsed_time(void)
{
    begin();
    waited(200 * MS, 0, START);
    CHECK_EQ(wait_left(START + 200 * MS), 20 * MS);
    CHECK_EQ(wait_left(START + 2000 * MS), 200 * MS);
    /* The charge does not fall below 0. */
    CHECK_EQ(wait_left(START + 9000 * MS), 200 * MS);
    waited(10 * MS, 0, START + 9000 * MS);
    CHECK_EQ(wait_left(START + 9000 * MS), 190 * MS);
}

/* The member slept for an hour, which is not the peer's fault. */
static void charge_is_bounded(void)
{
    begin();
    waited(3600000 * MS, 0, START);
    CHECK_EQ(wait_left(START + 2000 * MS), 0);
    CHECK(wait_left(START + 2001 * MS) > 0);
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
        int64_t wait = wait_left(now);

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

static void stuck_peer_costs_a_tenth_of_time(void)
{
    static const int64_t every[] = { 1000, 1 * MS, 700 * MS };
    static const int64_t late[] = { 0, 50000, 10 * MS };

    for (unsigned i = 0; i < TEST_COUNT(every); i++) {
        for (unsigned k = 0; k < TEST_COUNT(late); k++) {
            int64_t lost = stuck_for(10000 * MS, every[i], late[k]);

            CHECK(lost >= LINK_STALL_NS);
            CHECK(lost <= 1000 * MS + LINK_STALL_NS + late[k]);
        }
    }
}

/* A peer takes a ring of 1 MiB every 50 ms: the member waits each time. */
static void slow_peer_is_waited_for(void)
{
    uint32_t head = UINT32_MAX - (4 << 20);
    int64_t now = START;

    begin();
    waited(0, head, now);
    for (unsigned i = 0; i < 200; i++) {
        now += 50 * MS;
        head += 1 << 20;
        waited(50 * MS, head, now);
        CHECK_EQ(wait_left(now), LINK_STALL_NS);
    }
}

/* A peer takes 32 MB/s, and each wait is reported every 100 us. */
static void long_wait_may_be_reported_in_parts(void)
{
    uint32_t head = 0;
    int64_t now = START;

    begin();
    for (unsigned i = 0; i < 100000; i++) {
        now += MS / 10;
        head += i % 320 ? 0 : 1 << 20;
        waited(MS / 10, head, now);
        CHECK(wait_left(now) > LINK_STALL_NS / 2);
    }
}

/* The bytes that a peer took before a wait give it no credit. */
static void earlier_bytes_give_no_credit(void)
{
    begin();
    waited(0, UINT32_MAX, START);
    CHECK_EQ(wait_left(START), LINK_STALL_NS);
    waited(LINK_STALL_NS, UINT32_MAX, START);
    CHECK_EQ(wait_left(START), 0);
}

/* ---- several peers ------------------------------------------------------- */

/* Waits for a peer as long as allowed. Returns the time lost. */
static int64_t wait_for(LinkAccount *peer, LinkAccounts *link, int64_t *now)
{
    const int64_t wait = link_stall_left(&peer->stall, &link->all, *now);

    *now += wait;
    link_stall_add(&peer->stall, &link->all, wait, 0, *now);
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
                lost += wait_for(peers[i], &link, &now);
            }
            now += MS;
        }
        for (unsigned i = 0; i < number; i++) {
            link_account_close(peers[i]);
        }
    }
    return lost;
}

static void rejoining_peer_keeps_its_charge(void)
{
    CHECK(rejoined(1, 300 * MS, false, 10000 * MS) <= 1000 * MS + LINK_STALL_NS);
    CHECK(rejoined(1, 1 * MS, false, 10000 * MS) <= 1000 * MS + LINK_STALL_NS);
}

static void connections_of_a_process_share_its_charge(void)
{
    CHECK(rejoined(32, 60000 * MS, false, 10000 * MS) <=
          1000 * MS + LINK_STALL_NS);
}

static void stall_by_many_processes_is_bounded(void)
{
    static const unsigned numbers[] = { 1, 4, 32 };
    static const int64_t stays[] = { 1 * MS, 300 * MS, 60000 * MS };

    for (unsigned i = 0; i < TEST_COUNT(numbers); i++) {
        for (unsigned k = 0; k < TEST_COUNT(stays); k++) {
            CHECK(rejoined(numbers[i], stays[k], true, 10000 * MS) <=
                  1000 * MS + LINK_STALLS_NS);
        }
    }
}

/* The member still waits for other peers as long as before. */
static void stuck_peer_does_not_change_waits_for_others(void)
{
    LinkAccounts link = { 0 };
    LinkAccount *stuck = link_account_open(&link, 1, START);
    LinkAccount *other = link_account_open(&link, 2, START);
    int64_t now = START;

    for (unsigned i = 0; i < 10000; i++) {
        wait_for(stuck, &link, &now);
        now += MS;
        CHECK_EQ(link_stall_left(&other->stall, &link.all, now),
                 LINK_STALL_NS);
    }
}

/* The bytes that a peer takes reduce only its own charge. */
static void bytes_read_reduce_only_own_charge(void)
{
    LinkAccounts link = { 0 };
    LinkAccount *fast = link_account_open(&link, 1, START);
    LinkAccount *stuck = link_account_open(&link, 2, START);

    link_stall_add(&stuck->stall, &link.all, LINK_STALL_NS, 0, START);
    link_stall_add(&fast->stall, &link.all, 0, 1U << 30, START);
    CHECK_EQ(link_stall_charged(&link.all, START), LINK_STALL_NS);
    link_stall_add(&fast->stall, &link.all, 50 * MS, 0, START);
    CHECK_EQ(link_stall_charged(&link.all, START), LINK_STALL_NS + 50 * MS);
    link_stall_add(&fast->stall, &link.all, 0, 1U << 30, START);
    CHECK_EQ(link_stall_charged(&link.all, START), LINK_STALL_NS);
}

/* Processes without a known number must not share one account. */
static void unknown_processes_have_separate_accounts(void)
{
    LinkAccounts link = { 0 };

    CHECK(link_account_open(&link, 0, START) !=
          link_account_open(&link, 0, START));
}

/* With more processes than accounts, the largest charges are kept. */
static void smallest_charge_is_dropped_first(void)
{
    static LinkAccounts link;
    LinkAccount *peer;

    link = (LinkAccounts) { 0 };
    for (long i = 1; i <= 2 * LINK_ACCOUNTS; i++) {
        peer = link_account_open(&link, i, START);
        link_stall_add(&peer->stall, &link.all, i == 7 ? 90 * MS : i, 0, START);
        link_account_close(peer);
    }
    peer = link_account_open(&link, 7, START);
    CHECK_EQ(link_stall_charged(&peer->stall, START), 90 * MS);
    CHECK_EQ(peer->connections, 1);
}

static const Test tests[] = {
    TEST(peer_without_charge_is_waited_for),
    TEST(waiting_adds_to_the_charge),
    TEST(charge_falls_by_a_tenth_of_elapsed_time),
    TEST(charge_is_bounded),
    TEST(stuck_peer_costs_a_tenth_of_time),
    TEST(slow_peer_is_waited_for),
    TEST(long_wait_may_be_reported_in_parts),
    TEST(earlier_bytes_give_no_credit),
    TEST(rejoining_peer_keeps_its_charge),
    TEST(connections_of_a_process_share_its_charge),
    TEST(stall_by_many_processes_is_bounded),
    TEST(stuck_peer_does_not_change_waits_for_others),
    TEST(bytes_read_reduce_only_own_charge),
    TEST(unknown_processes_have_separate_accounts),
    TEST(smallest_charge_is_dropped_first),
};

TEST_MAIN(tests)
