/* SPDX-License-Identifier: GPL-2.0-or-later */
/* End-to-end credits (IBTA 9.7.7.2): codes, reports, waiting senders. */
#include "engine.h"
#include "pair.h"

static void send_small(Pair *p, uint32_t index)
{
    RoceSendWr wr = pair_wr(&p->a, index, FAKERNIC_SQ_SEND, 0, 64);

    pair_send(p, &p->a, &wr);
}

static void write_small(Pair *p, uint32_t index)
{
    RoceSendWr wr = pair_rdma_wr(&p->a, &p->b, index, FAKERNIC_SQ_RDMA_WRITE,
                                 4096, 64);

    pair_send(p, &p->a, &wr);
}

static void post(Pair *p, unsigned count)
{
    while (count-- > 0) {
        pair_recv(&p->b, count, 8192, 4096);
    }
}

/* ---- the codes ----------------------------------------------------------- */

static void credit_codes_match_table_46(void)
{
    static const uint32_t counts[31] = {
        0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384,
        512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384,
        24576, 32768,
    };
    unsigned i;

    for (i = 0; i < 31; i++) {
        CHECK_EQ(roce_credit_decode((uint8_t)i), counts[i]);
        CHECK_EQ(roce_credit_encode(counts[i]), i);
        if (i > 4) {
            CHECK_EQ(roce_credit_encode(counts[i] - 1), i - 1);
        }
    }
    CHECK_EQ(roce_credit_encode(UINT32_MAX), 30);
    CHECK_EQ(roce_credit_encode(5), 4);
}

/* ---- the responder ------------------------------------------------------- */

/* The syndrome of b's response to a request of a. */
static uint8_t told(Pair *p, uint8_t opcode)
{
    uint8_t buf[ROCE_FRAME_MAX];
    RocePacket packet;
    RoceSendWr wr = pair_rdma_wr(&p->a, &p->b, 1, opcode, 0, 8);

    pair_send(p, &p->a, &wr);
    REQUIRE(pair_step(p, &p->a, &p->b));
    REQUIRE(pair_take(p, &p->b, buf, &packet));
    return packet.aeth.syndrome;
}

static void acks_report_free_receives(void)
{
    static const uint8_t opcodes[] = {
        FAKERNIC_SQ_RDMA_WRITE, FAKERNIC_SQ_RDMA_READ,
        FAKERNIC_SQ_ATOMIC_FETCH_ADD,
    };
    unsigned i;
    Pair p;

    for (i = 0; i < TEST_COUNT(opcodes); i++) {
        pair_init(&p, FAKERNIC_QP_RC);
        CHECK_EQ(told(&p, opcodes[i]), 0);
        post(&p, 7);
        CHECK_EQ(told(&p, opcodes[i]), 5);
        pair_free(&p);
    }
}

static void srq_and_failed_rq_report_no_credits(void)
{
    Pair p;

    pair_init(&p, FAKERNIC_QP_RC);
    pair_qp(&p.b)->init.has_rq = false;
    pair_qp(&p.b)->init.srqn = pair_qp(&p.b)->rx.srqn = 5;
    CHECK_EQ(told(&p, FAKERNIC_SQ_RDMA_WRITE), 0x1f);
    CHECK_EQ(told(&p, FAKERNIC_SQ_RDMA_READ), 0x1f);
    pair_free(&p);
    pair_init(&p, FAKERNIC_QP_RC);
    post(&p, 3);
    fake_queue_break(p.b.host, FAKE_RQ, p.b.qpn, FAKERNIC_VENDOR_RQ_DMA);
    CHECK_EQ(told(&p, FAKERNIC_SQ_RDMA_WRITE), 0);
    pair_free(&p);
}

/* In the middle of a message, its own receive counts as a credit. */
static void receive_in_use_counts_as_credit(void)
{
    uint8_t buf[ROCE_FRAME_MAX] = { 0 };
    RocePacket packet;
    PAIR(p, FAKERNIC_QP_RC);

    post(&p, 2);
    packet = pair_packet(&p.a, &p.b, ROCE_BTH_SEND_FIRST, PAIR_PSN);
    pair_inject(&p, &p.b, &packet, buf, PAIR_MTU);
    CHECK(pair_take(&p, &p.b, buf, &packet));
    CHECK_EQ(packet.aeth.msn, 0);
    CHECK_EQ(packet.aeth.syndrome, 2);
    CHECK_EQ(fake_queue_left(p.b.host, FAKE_RQ, p.b.qpn), 1);
}

/* ---- the requester ------------------------------------------------------- */

/* The requester sends one message until the peer reports credits, then as many
 * as the peer has receives. */
static void requester_sends_as_many_as_credits(void)
{
    uint32_t i;
    PAIR(p, FAKERNIC_QP_RC);

    post(&p, 6);
    for (i = 0; i < 8; i++) {
        send_small(&p, i);
    }
    CHECK(pair_step(&p, &p.a, &p.b));
    CHECK(!pair_step(&p, &p.a, &p.b));
    CHECK_EQ(pair_stat(&p.a, FAKERNIC_STAT_CREDIT_WAITS), 1);
    CHECK(pair_step(&p, &p.b, &p.a));
    /* 5 left: reported as 4. */
    for (i = 0; i < 4; i++) {
        CHECK(pair_step(&p, &p.a, &p.b));
    }
    CHECK(!pair_step(&p, &p.a, &p.b));
    pair_run(&p);
    /* Only the last one, a probe, gets an RNR NAK. */
    CHECK_EQ(pair_stat(&p.b, FAKERNIC_STAT_TX_RNR_NAK), 1);
    CHECK_EQ(p.b.host->completion_count, 6);
    CHECK_EQ(p.a.host->completion_count, 6);
}

/* A probe finds receives that the peer has not reported. */
static void probe_detects_new_receives(void)
{
    RoceTime late;
    uint32_t i;
    Pair p;

    for (late = 0; late < 3000000; late += 500000) {
        pair_init(&p, FAKERNIC_QP_RC);
        pair_qp(&p.a)->attr.rnr_retry = pair_qp(&p.a)->retry.rnr_left = 7;
        for (i = 0; i < 8; i++) {
            send_small(&p, i);
        }
        pair_run_until(&p, late);
        post(&p, 8);
        pair_run_until(&p, late + 1000000);
        for (i = 0; i < 8; i++) {
            pair_expect(&p.a, FAKERNIC_CQE_SEND, i, FAKERNIC_WC_SUCCESS);
        }
        CHECK_EQ(p.b.host->completion_count, 8);
        pair_free(&p);
    }
}

/* Only the first packet of a long message probes for a receive. */
static void credit_probe_is_one_packet(void)
{
    uint8_t buf[ROCE_FRAME_MAX];
    RocePacket packet;
    PAIR(p, FAKERNIC_QP_RC);

    pair_fill(p.a.memory, 2560, 9);
    write_small(&p, 0);
    pair_run(&p);
    pair_expect(&p.a, FAKERNIC_CQE_RDMA_WRITE, 0, FAKERNIC_WC_SUCCESS);
    pair_post(&p, 1, FAKERNIC_SQ_SEND, 0, 2560);
    CHECK(pair_take(&p, &p.a, buf, &packet));   /* and is lost */
    CHECK_EQ(packet.opcode, ROCE_BTH_SEND_FIRST);
    CHECK(packet.ack_req);
    CHECK(!pair_take(&p, &p.a, buf, &packet));
    p.now = roce_deadline(p.a.r);
    roce_tick(p.a.r, p.now);
    CHECK(pair_step(&p, &p.a, &p.b));
    CHECK(!pair_take(&p, &p.a, buf, &packet));
    CHECK(pair_step(&p, &p.b, &p.a));           /* RNR NAK */
    CHECK_EQ(pair_stat(&p.a, FAKERNIC_STAT_RX_RNR_NAK), 1);
    post(&p, 1);
    p.now = roce_deadline(p.a.r);
    roce_tick(p.a.r, p.now);
    CHECK(pair_step(&p, &p.a, &p.b));
    CHECK(!pair_step(&p, &p.a, &p.b));
    CHECK(pair_step(&p, &p.b, &p.a));           /* ACK of the first packet */
    pair_run(&p);
    pair_expect(&p.a, FAKERNIC_CQE_SEND, 1, FAKERNIC_WC_SUCCESS);
    CHECK_MEM(p.b.memory + 8192, p.a.memory, 2560);
}

/* Before the peer reports credits, one message is sent as a whole, alone. */
static void first_message_is_sent_without_credits(void)
{
    uint8_t buf[ROCE_FRAME_MAX];
    RocePacket packet;
    unsigned i;
    PAIR(p, FAKERNIC_QP_RC);

    pair_post(&p, 1, FAKERNIC_SQ_SEND, 0, 4 * PAIR_MTU);
    send_small(&p, 2);
    for (i = 0; i < 4; i++) {
        CHECK(pair_take(&p, &p.a, buf, &packet));
    }
    CHECK_EQ(packet.opcode, ROCE_BTH_SEND_LAST);
    CHECK(!pair_take(&p, &p.a, buf, &packet));
}

/* A WRITE does not wait for a receive, but keeps its order. */
static void writes_need_no_credit(void)
{
    uint32_t i;
    PAIR(p, FAKERNIC_QP_RC);

    for (i = 0; i < 8; i++) {
        write_small(&p, i);
    }
    for (i = 0; i < 8; i++) {
        CHECK(pair_step(&p, &p.a, &p.b));
    }
    send_small(&p, 8);
    write_small(&p, 9);
    CHECK(!pair_step(&p, &p.a, &p.b));
    CHECK_EQ(pair_stat(&p.a, FAKERNIC_STAT_CREDIT_WAITS), 1);
    pair_run(&p);
    CHECK_EQ(pair_stat(&p.b, FAKERNIC_STAT_TX_RNR_NAK), 1);
    post(&p, 1);
    pair_run_until(&p, 1000000000);
    for (i = 0; i < 10; i++) {
        pair_expect(&p.a, i == 8 ? FAKERNIC_CQE_SEND : FAKERNIC_CQE_RDMA_WRITE,
                    i, FAKERNIC_WC_SUCCESS);
    }
}

static void write_imm_needs_a_credit(void)
{
    RoceSendWr wr;
    PAIR(p, FAKERNIC_QP_RC);

    wr = pair_rdma_wr(&p.a, &p.b, 1, FAKERNIC_SQ_RDMA_WRITE_IMM, 0, 600);
    pair_send(&p, &p.a, &wr);
    wr.index = 2;
    pair_send(&p, &p.a, &wr);
    CHECK(pair_step(&p, &p.a, &p.b));
    CHECK(pair_step(&p, &p.a, &p.b));
    CHECK(pair_step(&p, &p.a, &p.b));
    CHECK(!pair_step(&p, &p.a, &p.b));
    post(&p, 2);
    pair_run_until(&p, 1000000000);
    pair_expect(&p.a, FAKERNIC_CQE_RDMA_WRITE, 1, FAKERNIC_WC_SUCCESS);
    pair_expect(&p.a, FAKERNIC_CQE_RDMA_WRITE, 2, FAKERNIC_WC_SUCCESS);
}

/* Peers that report no credits: 0x1f, as rdma_rxe does, or with an SRQ. */
static void peers_without_credits_do_not_limit(void)
{
    RocePacket packet;
    uint32_t i;
    PAIR(p, FAKERNIC_QP_RC);

    send_small(&p, 0);
    p.a.mute = true;
    pair_run(&p);
    packet = pair_packet(&p.b, &p.a, ROCE_BTH_ACK, PAIR_PSN);
    packet.aeth.syndrome = 0x1f;
    packet.aeth.msn = 1;
    pair_inject(&p, &p.a, &packet, NULL, 0);
    pair_expect(&p.a, FAKERNIC_CQE_SEND, 0, FAKERNIC_WC_SUCCESS);
    p.a.sent = 0;
    for (i = 1; i < 9; i++) {
        send_small(&p, i);
    }
    pair_run(&p);
    CHECK_EQ(p.a.sent, 8);
    CHECK_EQ(pair_stat(&p.a, FAKERNIC_STAT_CREDIT_WAITS), 0);
}

/* XRC does not wait: its target never reports credits (annex A14). */
static void xrc_needs_no_credit(void)
{
    uint32_t i;
    PAIR(p, FAKERNIC_QP_XRC_INI);

    p.a.mute = true;
    for (i = 0; i < 8; i++) {
        send_small(&p, i);
    }
    pair_run(&p);
    CHECK_EQ(p.a.sent, 8);
}

/* A repeated ACK with more credits lifts the limit. */
static void unsolicited_ack_lifts_the_limit(void)
{
    RocePacket packet;
    uint32_t i;
    PAIR(p, FAKERNIC_QP_RC);

    post(&p, 1);
    send_small(&p, 0);
    pair_run(&p);
    CHECK_EQ(pair_qp(&p.a)->sq.lsn, 1);
    packet = pair_packet(&p.b, &p.a, ROCE_BTH_ACK, PAIR_PSN);
    packet.aeth.msn = 1;
    packet.aeth.syndrome = 4;
    pair_inject(&p, &p.a, &packet, NULL, 0);
    CHECK_EQ(pair_qp(&p.a)->sq.lsn, 5);
    CHECK_EQ(pair_stat(&p.a, FAKERNIC_STAT_DROP_RESPONSE), 0);
    /* An older ACK does not lower it, and is dropped as stale. */
    packet.aeth.syndrome = 2;
    pair_inject(&p, &p.a, &packet, NULL, 0);
    CHECK_EQ(pair_qp(&p.a)->sq.lsn, 5);
    CHECK_EQ(pair_stat(&p.a, FAKERNIC_STAT_DROP_RESPONSE), 1);
    p.a.sent = 0;
    p.a.mute = true;
    for (i = 1; i < 9; i++) {
        send_small(&p, i);
    }
    pair_run(&p);
    CHECK_EQ(p.a.sent, 4);
}

/* A peer with a wrong MSN slows the requester down, but does not stop it. */
static void wrong_msn_does_not_hang(void)
{
    RocePacket packet;
    uint32_t i;
    PAIR(p, FAKERNIC_QP_RC);

    for (i = 0; i < 8; i++) {
        send_small(&p, i);
    }
    for (i = 0; i < 8; i++) {
        uint8_t buf[ROCE_FRAME_MAX];

        CHECK(pair_take(&p, &p.a, buf, &packet));
        CHECK(!pair_take(&p, &p.a, buf, &packet));
        packet = pair_packet(&p.b, &p.a, ROCE_BTH_ACK, PAIR_PSN + i);
        packet.aeth.msn = i % 2 ? 0x800000 : 0xfffff0;
        packet.aeth.syndrome = 3;
        pair_qp(&p.a)->sq.lsn = 0xfffff0;
        pair_inject(&p, &p.a, &packet, NULL, 0);
        pair_expect(&p.a, FAKERNIC_CQE_SEND, i, FAKERNIC_WC_SUCCESS);
    }
}

/* ---- both ---------------------------------------------------------------- */

/* Sets SSN, LSN and MSN as after 'count' messages. */
static void skip_messages(Pair *p, uint32_t count)
{
    RoceSendq *sq = &pair_qp(&p->a)->sq;

    sq->ssn = sq->lsn = count;
    pair_qp(&p->b)->rs.msn = count;
}

static void credit_limit_wraps(void)
{
    uint32_t i;
    PAIR(p, FAKERNIC_QP_RC);

    skip_messages(&p, 0xfffffa);
    post(&p, 12);
    for (i = 0; i < 12; i++) {
        send_small(&p, i);
    }
    pair_run(&p);
    for (i = 0; i < 12; i++) {
        pair_expect(&p.a, FAKERNIC_CQE_SEND, i, FAKERNIC_WC_SUCCESS);
    }
    CHECK_EQ(pair_qp(&p.a)->sq.ssn, 6);
    CHECK_EQ(pair_qp(&p.a)->sq.lsn, 6);
    CHECK_EQ(pair_stat(&p.b, FAKERNIC_STAT_TX_RNR_NAK), 0);
}

/*
 * Mixed messages, receives posted two at a time, and each pair of frames lost
 * in turn. All complete, and the limit never exceeds the number of receives.
 */
static void mix_under_loss(unsigned lose_a, unsigned lose_b)
{
    RoceSendWr wr;
    uint32_t i;
    unsigned posted = 0;
    PAIR(p, FAKERNIC_QP_RC);

    pair_qp(&p.a)->attr.rnr_retry = pair_qp(&p.a)->retry.rnr_left = 7;
    pair_qp(&p.a)->attr.retry_cnt = pair_qp(&p.a)->retry.retry_left = 7;
    skip_messages(&p, 0xfffffc);
    pair_lose(&p.a, lose_a);
    pair_lose(&p.a, lose_a + 3);
    pair_lose(&p.b, lose_b);
    for (i = 0; i < 12; i++) {
        if (i % 4 == 2) {
            wr = pair_rdma_wr(&p.a, &p.b, i, FAKERNIC_SQ_RDMA_READ, 4096, 600);
        } else if (i % 4 == 3) {
            wr = pair_rdma_wr(&p.a, &p.b, i, FAKERNIC_SQ_RDMA_WRITE_IMM, 4096,
                              300);
        } else {
            wr = pair_wr(&p.a, i, FAKERNIC_SQ_SEND, 0, i % 2 ? 700 : 64);
        }
        pair_send(&p, &p.a, &wr);
    }
    for (i = 1; i <= 20; i++) {
        pair_run_until(&p, (RoceTime)i * 300000);
        if (posted < 9 && i % 2) {
            post(&p, 2);
            posted += 2;
        }
    }
    pair_run_until(&p, 10000000000);
    for (i = 0; i < 12; i++) {
        const RoceCompletion *c = fake_next_completion(p.a.host);

        REQUIRE(c != NULL);
        CHECK_EQ(c->wqe_index, i);
        CHECK_EQ(c->status, FAKERNIC_WC_SUCCESS);
    }
    CHECK_EQ(p.b.host->completion_count, 9);
    CHECK_EQ(pair_qp(&p.b)->rs.msn, 8);
    CHECK(!roce_psn_before(roce_psn_add(8, posted - 9), pair_qp(&p.a)->sq.lsn));
}

static void credit_limit_holds_under_loss(void)
{
    unsigned a, b;

    for (a = 1; a < 24; a++) {
        for (b = 1; b < 16; b++) {
            mix_under_loss(a, b);
        }
    }
}

/* Every frame arrives twice, but no credit counts twice. */
static void duplicates_add_no_credit(void)
{
    uint8_t buf[ROCE_FRAME_MAX];
    unsigned frames = 0;
    bool moved = true;
    uint32_t i;
    PAIR(p, FAKERNIC_QP_RC);

    post(&p, 8);
    for (i = 0; i < 8; i++) {
        send_small(&p, i);
    }
    while (moved) {
        PairHost *hosts[2] = { &p.a, &p.b };

        moved = false;
        for (i = 0; i < 2; i++) {
            bool loopback;
            size_t len = roce_output(hosts[i]->r, 0, buf, &loopback);

            REQUIRE(++frames < 1000);
            if (len > 0) {
                moved = true;
                roce_input(hosts[!i]->r, 0, buf, len);
                roce_input(hosts[!i]->r, 0, buf, len);
            }
        }
    }
    CHECK_EQ(p.a.host->completion_count, 8);
    CHECK_EQ(p.b.host->completion_count, 8);
    CHECK_EQ(pair_qp(&p.a)->sq.lsn, 8);
    CHECK_EQ(pair_stat(&p.b, FAKERNIC_STAT_TX_RNR_NAK), 0);
}

static const Test tests[] = {
    TEST(credit_codes_match_table_46),
    TEST(acks_report_free_receives),
    TEST(srq_and_failed_rq_report_no_credits),
    TEST(receive_in_use_counts_as_credit),
    TEST(requester_sends_as_many_as_credits),
    TEST(probe_detects_new_receives),
    TEST(credit_probe_is_one_packet),
    TEST(first_message_is_sent_without_credits),
    TEST(writes_need_no_credit),
    TEST(write_imm_needs_a_credit),
    TEST(peers_without_credits_do_not_limit),
    TEST(xrc_needs_no_credit),
    TEST(unsolicited_ack_lifts_the_limit),
    TEST(wrong_msn_does_not_hang),
    TEST(credit_limit_wraps),
    TEST(credit_limit_holds_under_loss),
    TEST(duplicates_add_no_credit),
};

TEST_MAIN(tests)
