/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Rates: the table, static rate, rate limit, which packets wait. */
#include "engine.h"
#include "pair.h"

#define MBIT 1000u
#define GBIT 1000000u

static void limit(Pair *p, PairHost *h, uint32_t kbps)
{
    RoceQpAttr attr = { .rate_limit_kbps = kbps };

    CHECK_EQ(pair_modify(h, p->now, FAKERNIC_QP_ATTR_RATE_LIMIT, &attr),
             FAKERNIC_CMD_OK);
}

/* Moves frames and time until nothing is left. Returns the bytes that 'from'
 * sent. */
static uint64_t run_counting(Pair *p, PairHost *from, PairHost *to)
{
    uint8_t buf[ROCE_FRAME_MAX];
    uint64_t bytes = 0;
    unsigned rounds = 0;

    for (;;) {
        RoceTime next;
        bool loopback;
        size_t len = roce_output(from->r, p->now, buf, &loopback);

        REQUIRE(++rounds < 100000);
        if (len > 0) {
            bytes += len;
            roce_input(to->r, p->now, buf, len);
            continue;
        }
        if (pair_step(p, to, from)) {
            continue;
        }
        next = roce_deadline(from->r);
        if (next == ROCE_TIME_NEVER) {
            return bytes;
        }
        CHECK(next > p->now);
        p->now = next;
        roce_tick(from->r, p->now);
    }
}

static void static_rates_match_ibv_rate(void)
{
    CHECK_EQ(roce_rate_static_kbps(0), 0);
    CHECK_EQ(roce_rate_static_kbps(1), 0);
    CHECK_EQ(roce_rate_static_kbps(2), 2500 * MBIT);
    CHECK_EQ(roce_rate_static_kbps(5), 5 * GBIT);
    CHECK_EQ(roce_rate_static_kbps(10), 120 * GBIT);
    CHECK_EQ(roce_rate_static_kbps(16), 103125 * MBIT);
    CHECK_EQ(roce_rate_static_kbps(24), 1275 * GBIT);
    CHECK_EQ(roce_rate_static_kbps(25), 0);
    CHECK_EQ(roce_rate_static_kbps(255), 0);
    CHECK_EQ(roce_rate_cost_ns(1250, 10 * GBIT), 1000);
    CHECK_EQ(roce_rate_cost_ns(1, 3 * GBIT), 3);
    CHECK_EQ(roce_rate_cost_ns(ROCE_FRAME_MAX, 1), 72176000000);
}

/* The mean is exact except for the first millisecond. */
static void check_duration(RoceTime took, uint64_t bytes, uint32_t kbps)
{
    RoceTime ideal = (RoceTime)(bytes * 8000000 / kbps);

    CHECK(took >= ideal - 2000000);
    CHECK(took <= ideal + 2000000);
}

static void rate_limit_is_kept(void)
{
    uint64_t bytes;
    PAIR(p, FAKERNIC_QP_RC);

    limit(&p, &p.a, 100 * MBIT);
    pair_fill(p.a.memory, 500000, 3);
    pair_post_rdma(&p, 1, FAKERNIC_SQ_RDMA_WRITE, 0, 500000);
    bytes = run_counting(&p, &p.a, &p.b);
    check_duration(p.now, bytes, 100 * MBIT);
    pair_expect(&p.a, FAKERNIC_CQE_RDMA_WRITE, 1, FAKERNIC_WC_SUCCESS);
    CHECK_MEM(p.b.memory, p.a.memory, 500000);
    CHECK_EQ(pair_stat(&p.a, FAKERNIC_STAT_RETRANSMITS), 0);
}

static void removed_rate_limit_ends_the_wait(void)
{
    RoceQpAttr attr;
    PAIR(p, FAKERNIC_QP_RC);

    limit(&p, &p.a, 1);
    pair_post_rdma(&p, 1, FAKERNIC_SQ_RDMA_WRITE, 0, 4096);
    pair_run(&p);
    pair_expect_none(&p.a);
    CHECK_EQ(roce_qp_query(p.a.r, p.a.qpn, &attr), FAKERNIC_CMD_OK);
    CHECK_EQ(attr.rate_limit_kbps, 1);
    limit(&p, &p.a, 0);
    pair_run(&p);
    pair_expect(&p.a, FAKERNIC_CQE_RDMA_WRITE, 1, FAKERNIC_WC_SUCCESS);
}

/* 2.5 Gbit/s, at the requester and at the responder to a READ. */
static void static_rate_paces_requests_and_read_data(void)
{
    static const uint8_t opcodes[] = {
        FAKERNIC_SQ_RDMA_WRITE, FAKERNIC_SQ_RDMA_READ,
    };
    unsigned i;

    for (i = 0; i < TEST_COUNT(opcodes); i++) {
        bool read = opcodes[i] == FAKERNIC_SQ_RDMA_READ;
        PairHost *slow;
        uint64_t bytes;
        PAIR(p, FAKERNIC_QP_RC);

        slow = read ? &p.b : &p.a;
        pair_qp(slow)->attr.av.static_rate = 2;
        pair_post_rdma(&p, 1, opcodes[i], 0, PAIR_SIZE);
        /* Time follows the slow side's timers. The other's ACK timer of a
         * quarter of a second never runs. */
        bytes = run_counting(&p, slow, read ? &p.a : &p.b);
        check_duration(p.now, bytes, 2500 * MBIT);
        pair_expect(&p.a, read ? FAKERNIC_CQE_RDMA_READ
                               : FAKERNIC_CQE_RDMA_WRITE,
                    1, FAKERNIC_WC_SUCCESS);
    }
}

/* The 32 packets up to the one that requests an ACK take longer than the ACK
 * timer. That is no timeout. */
static void paced_sending_is_no_timeout(void)
{
    PAIR(p, FAKERNIC_QP_RC);

    pair_qp(&p.a)->attr.timeout = 1;
    pair_qp(&p.a)->attr.retry_cnt = pair_qp(&p.a)->retry.retry_left = 0;
    limit(&p, &p.a, 1 * MBIT);
    pair_post_rdma(&p, 1, FAKERNIC_SQ_RDMA_WRITE, 0, 40 * PAIR_MTU);
    run_counting(&p, &p.a, &p.b);
    CHECK_EQ(pair_stat(&p.a, FAKERNIC_STAT_TIMEOUTS), 0);
    pair_expect(&p.a, FAKERNIC_CQE_RDMA_WRITE, 1, FAKERNIC_WC_SUCCESS);
}

/* The ACK timer starts with the packet that requests an ACK. */
static void ack_timer_starts_with_the_last_packet(void)
{
    uint8_t buf[ROCE_FRAME_MAX];
    RocePacket packet;
    PAIR(p, FAKERNIC_QP_RC);

    pair_qp(&p.a)->attr.timeout = 1;
    limit(&p, &p.a, 82500);     /* 32 us for the first frame of 330 bytes */
    pair_post_rdma(&p, 1, FAKERNIC_SQ_RDMA_WRITE, 0, 2 * PAIR_MTU);
    CHECK(pair_take(&p, &p.a, buf, &packet));
    CHECK(!pair_take(&p, &p.a, buf, &packet));
    p.now = 32000;
    roce_tick(p.a.r, p.now);
    CHECK(pair_take(&p, &p.a, buf, &packet));
    CHECK(packet.ack_req);
    CHECK_EQ(roce_deadline(p.a.r), p.now + roce_retry_ack_ns(1));
    roce_tick(p.a.r, roce_retry_ack_ns(1));
    CHECK_EQ(pair_stat(&p.a, FAKERNIC_STAT_TIMEOUTS), 0);
}

/* A slow sender still detects a peer that does not answer. */
static void paced_sender_detects_dead_peer(void)
{
    PAIR(p, FAKERNIC_QP_RC);

    pair_qp(&p.a)->attr.timeout = 1;
    limit(&p, &p.a, 1 * MBIT);
    p.b.mute = true;
    pair_post_rdma(&p, 1, FAKERNIC_SQ_RDMA_WRITE, 0, 40 * PAIR_MTU);
    pair_run_until(&p, 10000000000);
    pair_expect(&p.a, FAKERNIC_CQE_RDMA_WRITE, 1, FAKERNIC_WC_RETRY_EXC_ERR);
    CHECK_EQ(pair_stat(&p.a, FAKERNIC_STAT_TIMEOUTS), 4);
}

/* A QP that waits delays neither other QPs nor its own responses. */
static void paced_qp_delays_no_other_qp(void)
{
    uint32_t slow;
    RoceSendWr wr;
    PAIR(p, FAKERNIC_QP_RC);

    limit(&p, &p.a, 1);
    slow = p.a.qpn;
    pair_post_rdma(&p, 1, FAKERNIC_SQ_RDMA_WRITE, 0, 4096);
    pair_run(&p);
    /* The slow QP acknowledges the other direction at once. */
    wr = pair_rdma_wr(&p.b, &p.a, 2, FAKERNIC_SQ_RDMA_WRITE, 8192, 4096);
    pair_send(&p, &p.b, &wr);
    pair_run(&p);
    pair_expect(&p.b, FAKERNIC_CQE_RDMA_WRITE, 2, FAKERNIC_WC_SUCCESS);
    /* Another QP of the same host is not slower. */
    pair_create(&p.a, FAKERNIC_QP_RC);
    pair_create(&p.b, FAKERNIC_QP_RC);
    pair_connect(&p.a, &p.b, FAKERNIC_QP_RC);
    pair_connect(&p.b, &p.a, FAKERNIC_QP_RC);
    pair_post_rdma(&p, 3, FAKERNIC_SQ_RDMA_WRITE, 0, 65536);
    pair_run(&p);
    pair_expect(&p.a, FAKERNIC_CQE_RDMA_WRITE, 3, FAKERNIC_WC_SUCCESS);
    CHECK_EQ(p.now, 0);
    /* Only its timer wakes the slow QP, and not early. */
    CHECK(!roce_qp_find(p.a.r, slow)->listed);
    CHECK(roce_deadline(p.a.r) > 0);
    CHECK(roce_deadline(p.a.r) < ROCE_TIME_NEVER);
}

/* An ACK before a READ response does not wait with it. */
static void ack_is_not_delayed_by_paced_read_response(void)
{
    uint8_t buf[ROCE_FRAME_MAX];
    RocePacket packet;
    PAIR(p, FAKERNIC_QP_RC);

    limit(&p, &p.b, 1);
    pair_qp(&p.b)->pace.next = 1000000;
    pair_post_rdma(&p, 1, FAKERNIC_SQ_RDMA_WRITE, 0, 64);
    pair_post_rdma(&p, 2, FAKERNIC_SQ_RDMA_READ, 0, 64);
    pair_post_rdma(&p, 3, FAKERNIC_SQ_RDMA_WRITE, 128, 64);
    CHECK(pair_step(&p, &p.a, &p.b));
    CHECK(pair_step(&p, &p.a, &p.b));
    CHECK(pair_take(&p, &p.b, buf, &packet));
    CHECK_EQ(packet.opcode, ROCE_BTH_ACK);
    CHECK_EQ(packet.psn, PAIR_PSN);
    /* A later ACK waits: it would show a gap. */
    CHECK(pair_step(&p, &p.a, &p.b));
    CHECK(!pair_take(&p, &p.b, buf, &packet));
    p.now = 1000000;
    roce_tick(p.b.r, p.now);
    CHECK(pair_take(&p, &p.b, buf, &packet));
    CHECK_EQ(packet.opcode, ROCE_BTH_READ_RESPONSE_ONLY);
    CHECK(pair_take(&p, &p.b, buf, &packet));
    CHECK_EQ(packet.opcode, ROCE_BTH_ACK);
}

static void raw_packets_are_paced(void)
{
    RoceQpInit init = {
        .type = FAKERNIC_QP_RAW_PACKET, .has_sq = true, .pd = 1,
        .send_cqn = 10,
    };
    RoceQpAttr attr = {
        .port = 1, .rate_limit_kbps = 8 * MBIT, .state = FAKERNIC_QPS_INIT,
    };
    uint8_t buf[ROCE_FRAME_MAX];
    bool loopback;
    unsigned i;
    PAIR(p, FAKERNIC_QP_RC);

    CHECK_EQ(roce_qp_create(p.a.r, &init, &p.a.qpn), FAKERNIC_CMD_OK);
    CHECK_EQ(pair_modify(&p.a, 0, FAKERNIC_QP_ATTR_STATE |
                         FAKERNIC_QP_ATTR_PORT, &attr), FAKERNIC_CMD_OK);
    attr.state = FAKERNIC_QPS_RTR;
    CHECK_EQ(pair_modify(&p.a, 0, FAKERNIC_QP_ATTR_STATE, &attr),
             FAKERNIC_CMD_OK);
    attr.state = FAKERNIC_QPS_RTS;
    CHECK_EQ(pair_modify(&p.a, 0, FAKERNIC_QP_ATTR_STATE |
                         FAKERNIC_QP_ATTR_RATE_LIMIT, &attr),
             FAKERNIC_CMD_OK);
    for (i = 0; i < 4; i++) {
        pair_post(&p, i, FAKERNIC_SQ_SEND, 0, 1000);
    }
    /* 1,000 bytes at 8 Mbit/s take 1 ms. Two leave at once, then one per ms. */
    p.now = 5000000;
    CHECK_EQ(roce_output(p.a.r, p.now, buf, &loopback), 1000);
    CHECK_EQ(roce_output(p.a.r, p.now, buf, &loopback), 1000);
    CHECK_EQ(roce_output(p.a.r, p.now, buf, &loopback), 0);
    CHECK_EQ(roce_deadline(p.a.r), 6000000);
    roce_tick(p.a.r, 5999999);
    CHECK_EQ(roce_output(p.a.r, 5999999, buf, &loopback), 0);
    roce_tick(p.a.r, 6000000);
    CHECK_EQ(roce_output(p.a.r, 6000000, buf, &loopback), 1000);
    CHECK_EQ(roce_output(p.a.r, 6000000, buf, &loopback), 0);
    /* After a late wake-up the last frame leaves at once. */
    roce_tick(p.a.r, 90000000);
    CHECK_EQ(roce_output(p.a.r, 90000000, buf, &loopback), 1000);
    CHECK_EQ(roce_deadline(p.a.r), ROCE_TIME_NEVER);
    CHECK_EQ(fake_queue_left(p.a.host, FAKE_SQ, p.a.qpn), 0);
}

/* A QP that waits for the pacer can be destroyed, reset, or fail. */
static void paced_qp_can_be_destroyed(void)
{
    RoceQpAttr attr = { .state = FAKERNIC_QPS_RESET };
    unsigned i;
    Pair p;

    for (i = 0; i < 3; i++) {
        pair_init(&p, FAKERNIC_QP_UC);
        limit(&p, &p.a, 1);
        pair_post_rdma(&p, 1, FAKERNIC_SQ_RDMA_WRITE, 0, 4096);
        pair_run(&p);
        CHECK(roce_deadline(p.a.r) < ROCE_TIME_NEVER);
        if (i == 0) {
            CHECK_EQ(roce_qp_destroy(p.a.r, p.a.qpn), FAKERNIC_CMD_OK);
        } else if (i == 1) {
            CHECK_EQ(pair_modify(&p.a, 0, FAKERNIC_QP_ATTR_STATE, &attr),
                     FAKERNIC_CMD_OK);
        } else {
            roce_qp_error(p.a.r, 0, p.a.qpn, FAKERNIC_VENDOR_CQ_OVERRUN);
            pair_expect(&p.a, FAKERNIC_CQE_RDMA_WRITE, 1,
                        FAKERNIC_WC_WR_FLUSH_ERR);
            roce_qp_destroy(p.a.r, p.a.qpn);
        }
        CHECK_EQ(roce_deadline(p.a.r), ROCE_TIME_NEVER);
        pair_free(&p);
    }
}

/*
 * A QP waits for the pacer, then for its share of the window. The responses are
 * lost, so its timer must run again.
 */
static void timer_runs_again_after_pacing(void)
{
    PairHost others[8];
    RoceSendWr wr;
    unsigned i;
    PAIR(p, FAKERNIC_QP_RC);

    limit(&p, &p.a, 8 * MBIT);
    p.b.mute = true;
    wr = pair_rdma_wr(&p.a, &p.b, 1, FAKERNIC_SQ_RDMA_WRITE, 0, 60 * PAIR_MTU);
    pair_send(&p, &p.a, &wr);
    while (roce_psn_sub(pair_qp(&p.a)->sq.tx_psn, PAIR_PSN) < 40) {
        pair_run(&p);
        p.now = roce_deadline(p.a.r);
        roce_tick(p.a.r, p.now);
    }
    pair_run(&p);
    CHECK(pair_qp(&p.a)->retry.paced);
    for (i = 0; i < TEST_COUNT(others); i++) {
        PairHost peer = p.b;

        others[i] = p.a;
        pair_create(&others[i], FAKERNIC_QP_RC);
        pair_create(&peer, FAKERNIC_QP_RC);
        pair_connect(&others[i], &peer, FAKERNIC_QP_RC);
        pair_connect(&peer, &others[i], FAKERNIC_QP_RC);
        pair_send(&p, &others[i], &wr);
    }
    pair_run_until(&p, p.now + ROCE_ACK_WAIT_FLOOR_NS / 2);
    CHECK(!pair_qp(&p.a)->retry.paced);
    CHECK(pair_qp(&p.a)->retry.deadline < ROCE_TIME_NEVER);
    p.b.mute = false;
    pair_run_until(&p, p.now + 4 * ROCE_ACK_WAIT_FLOOR_NS);
    for (i = 0; i <= TEST_COUNT(others); i++) {
        const RoceCompletion *c = fake_next_completion(p.a.host);

        REQUIRE(c != NULL);
        CHECK_EQ(c->status, FAKERNIC_WC_SUCCESS);
    }
}

/* A QP that fails while it waits for the pacer has no timer any more. */
static void failed_qp_has_no_timer(void)
{
    RoceSendWr wr;
    PAIR(p, FAKERNIC_QP_XRC_INI);

    limit(&p, &p.a, 8 * MBIT);
    wr = pair_rdma_wr(&p.a, &p.b, 1, FAKERNIC_SQ_RDMA_WRITE, 0, 60 * PAIR_MTU);
    wr.xrc_srqn = p.a.srqn;
    wr.rdma.rkey ^= 1;
    pair_send(&p, &p.a, &wr);
    while (pair_step(&p, &p.a, &p.b)) {
    }
    CHECK(pair_qp(&p.a)->retry.paced);
    while (pair_step(&p, &p.b, &p.a)) {
    }
    CHECK_EQ(pair_state(&p.a), FAKERNIC_QPS_ERR);
    pair_expect(&p.a, FAKERNIC_CQE_RDMA_WRITE, 1, FAKERNIC_WC_REM_ACCESS_ERR);
    pair_run(&p);
    CHECK_EQ(roce_deadline(p.a.r), ROCE_TIME_NEVER);
    pair_run_until(&p, p.now + 4 * ROCE_ACK_WAIT_FLOOR_NS);
    pair_expect_none(&p.a);
}

static const Test tests[] = {
    TEST(static_rates_match_ibv_rate),
    TEST(rate_limit_is_kept),
    TEST(removed_rate_limit_ends_the_wait),
    TEST(static_rate_paces_requests_and_read_data),
    TEST(paced_sending_is_no_timeout),
    TEST(ack_timer_starts_with_the_last_packet),
    TEST(paced_sender_detects_dead_peer),
    TEST(paced_qp_delays_no_other_qp),
    TEST(ack_is_not_delayed_by_paced_read_response),
    TEST(raw_packets_are_paced),
    TEST(paced_qp_can_be_destroyed),
    TEST(timer_runs_again_after_pacing),
    TEST(failed_qp_has_no_timer),
};

TEST_MAIN(tests)
