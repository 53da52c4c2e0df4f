/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The send window: PSNs are assigned, sent, answered, and sent again. */
#include "harness.h"

#include "sendq.h"

#define FIRST 0xfffffdu

static void add(RoceSendq *sq, uint32_t packets, bool answered)
{
    const RoceSendWr wr = { .opcode = FAKERNIC_SQ_SEND };
    RoceSend *send = roce_sendq_push(sq, &wr);

    REQUIRE(send);
    send->psn_count = packets;
    send->answered = answered;
}

/* Sends all packets of the entry at tx. */
static void transmit(RoceSendq *sq)
{
    RoceSend *send = roce_sendq_at(sq, sq->tx);
    uint32_t left;

    if (!send->started) {
        CHECK(roce_sendq_start(sq));
    }
    left = roce_psn_sub(roce_send_end(send), sq->tx_psn);
    while (left > 0) {
        roce_sendq_sent(sq, send->answered ? left : 1);
        left = send->answered ? 0 : left - 1;
    }
}

static void setup(RoceSendq *sq)
{
    memset(sq, 0, sizeof(*sq));
    REQUIRE(roce_sendq_init(sq, 8));
    roce_sendq_reset(sq, FIRST);
}

static void psns_are_assigned_in_order(void)
{
    RoceSendq sq;

    setup(&sq);
    add(&sq, 2, false);
    add(&sq, 5, true);
    add(&sq, 1, false);
    transmit(&sq);
    transmit(&sq);
    transmit(&sq);
    CHECK_EQ(roce_sendq_at(&sq, 0)->psn, FIRST);
    CHECK_EQ(roce_sendq_at(&sq, 1)->psn, 0xffffff);
    CHECK_EQ(roce_sendq_at(&sq, 2)->psn, 4);
    CHECK_EQ(sq.next_psn, 5);
    CHECK_EQ(sq.high, 5);
    CHECK_EQ(sq.answers, 1);
    CHECK_EQ(roce_sendq_outstanding(&sq), 8);
    roce_sendq_free(&sq);
}

static void sendq_awaits_only_sent_psns(void)
{
    RoceSendq sq;

    setup(&sq);
    add(&sq, 4, false);
    CHECK(!roce_sendq_awaits(&sq, FIRST));
    CHECK(roce_sendq_start(&sq));
    roce_sendq_sent(&sq, 1);
    CHECK(roce_sendq_awaits(&sq, FIRST));
    CHECK(!roce_sendq_awaits(&sq, FIRST + 1));
    CHECK(!roce_sendq_awaits(&sq, FIRST - 1));
    roce_sendq_free(&sq);
}

static void ack_may_end_inside_a_message(void)
{
    RoceSendq sq;
    bool progress;

    setup(&sq);
    add(&sq, 4, false);
    transmit(&sq);
    CHECK(roce_sendq_ack(&sq, FIRST + 1, &progress));
    CHECK(progress);
    CHECK_EQ(sq.una, FIRST + 2);
    CHECK(!roce_sendq_head_complete(&sq));
    CHECK(roce_sendq_ack(&sq, 0, &progress));
    CHECK(progress && roce_sendq_head_complete(&sq));
    roce_sendq_pop(&sq);
    CHECK(roce_sendq_empty(&sq));
    roce_sendq_free(&sq);
}

/* An ACK behind a READ without data acknowledges only requests before it. */
static void ack_stops_at_a_read(void)
{
    RoceSendq sq;
    bool progress;

    setup(&sq);
    add(&sq, 2, false);
    add(&sq, 2, true);
    add(&sq, 1, false);
    transmit(&sq);
    transmit(&sq);
    transmit(&sq);
    CHECK(!roce_sendq_ack(&sq, 1, &progress));
    CHECK(progress);
    CHECK_EQ(sq.una, 0xffffff);
    CHECK(roce_sendq_head_complete(&sq));
    roce_sendq_pop(&sq);
    CHECK(!roce_sendq_ack(&sq, 1, &progress));
    CHECK(!progress);
    roce_sendq_answer(&sq);
    roce_sendq_answer(&sq);
    CHECK(roce_sendq_head_complete(&sq));
    roce_sendq_pop(&sq);
    CHECK_EQ(sq.answers, 0);
    CHECK(roce_sendq_ack(&sq, 1, &progress));
    CHECK(progress);
    roce_sendq_free(&sq);
}

static void rewind_starts_at_oldest_unacknowledged(void)
{
    RoceSendq sq;
    bool progress;

    setup(&sq);
    add(&sq, 4, false);
    add(&sq, 1, false);
    transmit(&sq);
    transmit(&sq);
    CHECK(roce_sendq_ack(&sq, FIRST, &progress));
    roce_sendq_rewind(&sq);
    CHECK_EQ(sq.tx, 0);
    CHECK_EQ(sq.tx_psn, FIRST + 1);
    CHECK_EQ(sq.high, 2);
    transmit(&sq);
    CHECK_EQ(sq.tx, 1);
    CHECK_EQ(sq.tx_psn, 1);
    roce_sendq_free(&sq);
}

/* Each PSN has its own count of attempts. */
static void attempts_are_counted_for_each_psn(void)
{
    RoceSendq sq;
    bool progress;

    setup(&sq);
    add(&sq, 4, false);
    add(&sq, 2, false);
    transmit(&sq);
    /* One packet of the next message, then two probes of the oldest one. */
    CHECK_EQ(roce_sendq_attempt(&sq, roce_psn_add(FIRST, 4)), 1);
    CHECK(roce_sendq_start(&sq));
    roce_sendq_sent(&sq, 1);
    CHECK_EQ(roce_sendq_attempt(&sq, FIRST), 2);
    roce_sendq_probed(&sq, FIRST);
    CHECK_EQ(roce_sendq_attempt(&sq, FIRST), 3);
    roce_sendq_probed(&sq, FIRST);
    CHECK_EQ(roce_sendq_attempt(&sq, FIRST + 1), 2);
    roce_sendq_rewind(&sq);
    CHECK_EQ(roce_sendq_attempt(&sq, FIRST), 4);
    CHECK_EQ(roce_sendq_attempt(&sq, FIRST + 1), 2);
    CHECK_EQ(roce_sendq_attempt(&sq, roce_psn_add(FIRST, 4)), 2);
    /* A second rewind before everything was sent again. */
    roce_sendq_sent(&sq, 1);
    roce_sendq_rewind(&sq);
    CHECK_EQ(roce_sendq_attempt(&sq, FIRST), 5);
    CHECK_EQ(roce_sendq_attempt(&sq, FIRST + 1), 2);
    transmit(&sq);
    transmit(&sq);
    CHECK_EQ(sq.tx_psn, roce_psn_add(FIRST, 6));
    roce_sendq_rewind(&sq);
    CHECK_EQ(roce_sendq_attempt(&sq, roce_psn_add(FIRST, 4)), 3);
    /* This PSN was first sent after the second rewind. */
    CHECK_EQ(roce_sendq_attempt(&sq, roce_psn_add(FIRST, 5)), 2);
    /* Counts of acknowledged PSNs are dropped, as PSNs wrap. */
    CHECK(roce_sendq_ack(&sq, roce_psn_add(FIRST, 5), &progress));
    CHECK_EQ(sq.again_count, 0);
    roce_sendq_free(&sq);
}

/* A peer without receives causes retries without limit. */
static void attempts_end_at_255(void)
{
    RoceSendq sq;

    setup(&sq);
    add(&sq, 1, false);
    for (unsigned i = 1; i < 300; i++) {
        if (i == 1) {
            CHECK(roce_sendq_start(&sq));
        }
        CHECK_EQ(roce_sendq_attempt(&sq, FIRST), i < 255 ? i : 255);
        roce_sendq_sent(&sq, 1);
        roce_sendq_rewind(&sq);
    }
    roce_sendq_free(&sq);
}

/* More parts than the queue can count: only the oldest counts are dropped. */
static void attempts_of_many_parts(void)
{
    RoceSendq sq;

    setup(&sq);
    add(&sq, ROCE_SENDQ_AGAIN + 2, false);
    transmit(&sq);
    for (uint32_t i = 0; i < ROCE_SENDQ_AGAIN + 2; i++) {
        roce_sendq_probed(&sq, roce_psn_add(FIRST, i));
    }
    for (uint32_t i = 0; i < ROCE_SENDQ_AGAIN + 2; i++) {
        CHECK_EQ(roce_sendq_attempt(&sq, roce_psn_add(FIRST, i)),
                 i < 2 ? 2 : 3);
    }
    roce_sendq_free(&sq);
}

/* The ACK of the first transmission arrives during the second one. */
static void late_ack_ends_retransmission(void)
{
    RoceSendq sq;
    bool progress;

    setup(&sq);
    add(&sq, 2, false);
    add(&sq, 2, false);
    add(&sq, 2, false);
    transmit(&sq);
    transmit(&sq);
    roce_sendq_rewind(&sq);
    CHECK(roce_sendq_ack(&sq, 0, &progress));
    CHECK_EQ(sq.una, 1);
    CHECK_EQ(sq.tx_psn, 1);
    CHECK_EQ(sq.tx, 2);
    roce_sendq_pop(&sq);
    roce_sendq_pop(&sq);
    transmit(&sq);
    CHECK_EQ(sq.tx_psn, 3);
    roce_sendq_free(&sq);
}

/* Data in flight does not include PSNs of READs or acknowledged ones. */
static void data_in_flight_excludes_reads(void)
{
    RoceSendq sq;
    bool progress;

    setup(&sq);
    add(&sq, 3, false);
    add(&sq, 100, true);
    add(&sq, 2, false);
    transmit(&sq);
    transmit(&sq);
    CHECK_EQ(roce_sendq_data_in_flight(&sq), 3);
    transmit(&sq);
    CHECK_EQ(roce_sendq_data_in_flight(&sq), 5);
    CHECK(roce_sendq_ack(&sq, FIRST + 2, &progress));
    roce_sendq_pop(&sq);
    CHECK_EQ(roce_sendq_data_in_flight(&sq), 2);
    roce_sendq_answer(&sq);
    CHECK_EQ(roce_sendq_data_in_flight(&sq), 2);
    roce_sendq_rewind(&sq);
    CHECK_EQ(roce_sendq_data_in_flight(&sq), 0);
    roce_sendq_free(&sq);
}

/* C9-139: at most half the PSNs outstanding; the longest READ fills them. */
static void psn_window_is_bounded(void)
{
    RoceSendq sq;
    bool progress;

    setup(&sq);
    add(&sq, ROCE_PSN_WINDOW, true);
    add(&sq, 1, false);
    transmit(&sq);
    CHECK(!roce_sendq_start(&sq));
    CHECK(!roce_sendq_ack(&sq, FIRST, &progress));
    CHECK(!progress);
    CHECK(roce_sendq_awaits(&sq, roce_psn_add(FIRST, ROCE_PSN_WINDOW - 1)));
    CHECK(!roce_sendq_awaits(&sq, roce_psn_add(FIRST, ROCE_PSN_WINDOW)));
    roce_sendq_answer(&sq);
    CHECK(roce_sendq_start(&sq));
    roce_sendq_free(&sq);
}

/* The ring grows to fit its entries, wherever they start, and no further. */
static void ring_grows_with_its_entries(void)
{
    const RoceSendWr wr = { .opcode = FAKERNIC_SQ_SEND };
    uint32_t first, i;

    for (first = 0; first < 9; first++) {
        RoceSendq sq = { 0 };

        REQUIRE(roce_sendq_init(&sq, 64));
        roce_sendq_reset(&sq, FIRST);
        CHECK_EQ(sq.size, 8);
        for (i = 0; i < first + 1; i++) {
            REQUIRE(roce_sendq_push(&sq, &wr));
            roce_sendq_at(&sq, sq.pi - 1)->length = i;
            if (i > 0) {
                roce_sendq_pop(&sq);
            }
        }
        CHECK_EQ(sq.size, 8);
        for (; !roce_sendq_full(&sq); i++) {
            REQUIRE(roce_sendq_push(&sq, &wr));
            roce_sendq_at(&sq, sq.pi - 1)->length = i;
        }
        CHECK_EQ(sq.size, 64);
        for (i = first; !roce_sendq_empty(&sq); i++) {
            CHECK_EQ(roce_sendq_at(&sq, sq.ci)->length, i);
            roce_sendq_pop(&sq);
        }
        CHECK_EQ(i, first + 64);
        roce_sendq_free(&sq);
    }
}

/* A page list that was never used is not leaked (LeakSanitizer checks it). */
static void reset_releases_page_lists(void)
{
    RoceSendWr wr = { .opcode = FAKERNIC_SQ_REG_MR };
    RoceSendq sq;

    setup(&sq);
    wr.reg_mr.pages = malloc(64);
    CHECK(roce_sendq_push(&sq, &wr) != NULL);
    roce_sendq_reset(&sq, 0);
    CHECK(roce_sendq_empty(&sq));
    roce_sendq_free(&sq);
}

static const Test tests[] = {
    TEST(psns_are_assigned_in_order),
    TEST(sendq_awaits_only_sent_psns),
    TEST(ack_may_end_inside_a_message),
    TEST(ack_stops_at_a_read),
    TEST(rewind_starts_at_oldest_unacknowledged),
    TEST(attempts_are_counted_for_each_psn),
    TEST(attempts_end_at_255),
    TEST(attempts_of_many_parts),
    TEST(late_ack_ends_retransmission),
    TEST(data_in_flight_excludes_reads),
    TEST(psn_window_is_bounded),
    TEST(ring_grows_with_its_entries),
    TEST(reset_releases_page_lists),
};

TEST_MAIN(tests)
