/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Congestion: CE marks, CNPs, and DCQCN's reaction to them. */
#include "engine.h"
#include "pair.h"

#define LINK 100000000u
#define CE 3

/* A marked SEND of the next PSN arrives at b. */
static void mark(Pair *p)
{
    RocePacket packet = pair_packet(&p->a, &p->b, ROCE_BTH_WRITE_ONLY,
                                    pair_qp(&p->b)->rs.epsn);

    if (p->type == FAKERNIC_QP_UC) {
        packet.opcode |= ROCE_BTH_UC;
    }
    packet.ack_req = false;
    packet.traffic_class = 26 << 2 | CE;
    packet.reth.address = PAIR_MEMORY;
    packet.reth.rkey = p->b.key;
    packet.reth.length = 4;
    pair_inject(p, &p->b, &packet, "abcd", 4);
}

static void cnp(Pair *p, PairHost *from, PairHost *to)
{
    RocePacket packet = pair_packet(from, to, ROCE_BTH_CNP, 0);
    static const uint8_t zeros[16];

    packet.becn = true;
    packet.mig_req = false;
    packet.ack_req = false;
    pair_inject(p, to, &packet, zeros, sizeof(zeros));
}

/* ---- notification point -------------------------------------------------- */

static void marked_packet_is_answered_with_a_cnp(void)
{
    static const uint8_t types[] = { FAKERNIC_QP_RC, FAKERNIC_QP_UC };
    uint8_t buf[ROCE_FRAME_MAX];
    static const uint8_t zeros[16];
    RocePacket packet;
    unsigned i;
    Pair p;

    for (i = 0; i < TEST_COUNT(types); i++) {
        pair_init(&p, types[i]);
        mark(&p);
        CHECK(pair_take(&p, &p.b, buf, &packet));
        CHECK_EQ(packet.opcode, ROCE_BTH_CNP);
        CHECK(packet.becn && !packet.fecn);
        CHECK(!packet.mig_req && !packet.ack_req && !packet.solicited);
        CHECK_EQ(packet.psn, 0);
        CHECK_EQ(packet.pkey, 0xffff);
        CHECK_EQ(packet.dest_qpn, p.a.qpn);
        CHECK_EQ(packet.traffic_class, 26 << 2);
        CHECK_EQ(packet.payload_len, 16);
        CHECK_MEM(packet.payload, zeros, 16);
        CHECK_MEM(packet.dgid, p.a.gid.gid, 16);
        CHECK_EQ(pair_stat(&p.b, FAKERNIC_STAT_RX_ECN_MARKED), 1);
        CHECK_EQ(pair_stat(&p.b, FAKERNIC_STAT_TX_CNP), 1);
        CHECK(!pair_take(&p, &p.b, buf, &packet));
        pair_free(&p);
    }
}

static void cnps_have_a_minimum_interval(void)
{
    uint8_t buf[ROCE_FRAME_MAX];
    RocePacket packet;
    unsigned sent = 0;
    PAIR(p, FAKERNIC_QP_RC);

    for (p.now = 0; p.now < 500000; p.now += 1000) {
        mark(&p);
        sent += pair_take(&p, &p.b, buf, &packet);
    }
    CHECK_EQ(sent, 10);
    CHECK_EQ(pair_stat(&p.b, FAKERNIC_STAT_TX_CNP), 10);
    CHECK_EQ(pair_stat(&p.b, FAKERNIC_STAT_RX_ECN_MARKED), 500);
}

/* A CNP that waited for the wire still keeps its distance to the next one. */
static void delayed_cnp_keeps_the_minimum_interval(void)
{
    uint8_t buf[ROCE_FRAME_MAX];
    RocePacket packet;
    PAIR(p, FAKERNIC_QP_RC);

    mark(&p);
    p.now = 49000;
    CHECK(pair_take(&p, &p.b, buf, &packet));
    for (p.now = 50000; p.now < 99000; p.now += 1000) {
        mark(&p);
        CHECK(!pair_take(&p, &p.b, buf, &packet));
    }
    mark(&p);
    CHECK(pair_take(&p, &p.b, buf, &packet));
    CHECK_EQ(packet.opcode, ROCE_BTH_CNP);
}

static void only_ce_causes_a_cnp(void)
{
    uint8_t buf[ROCE_FRAME_MAX];
    RocePacket packet;
    unsigned ecn;
    PAIR(p, FAKERNIC_QP_RC);

    for (ecn = 0; ecn < CE; ecn++) {
        packet = pair_packet(&p.a, &p.b, ROCE_BTH_ACK, PAIR_PSN);
        packet.traffic_class = (uint8_t)ecn;
        pair_inject(&p, &p.b, &packet, NULL, 0);
    }
    CHECK(!pair_take(&p, &p.b, buf, &packet));
    CHECK_EQ(pair_stat(&p.b, FAKERNIC_STAT_RX_ECN_MARKED), 0);
}

/* A packet that fails its checks causes no CNP, nor does a CNP. */
static void bad_packets_and_cnps_cause_no_cnp(void)
{
    uint8_t buf[ROCE_FRAME_MAX];
    static const uint8_t zeros[16];
    RocePacket packet;
    PAIR(p, FAKERNIC_QP_RC);

    packet = pair_packet(&p.a, &p.b, ROCE_BTH_SEND_ONLY, PAIR_PSN);
    packet.traffic_class = CE;
    packet.sgid[15] = 9;
    pair_inject(&p, &p.b, &packet, NULL, 0);
    packet = pair_packet(&p.a, &p.b, ROCE_BTH_CNP, 0);
    packet.traffic_class = CE;
    pair_inject(&p, &p.b, &packet, zeros, 16);
    CHECK(!pair_take(&p, &p.b, buf, &packet));
    CHECK_EQ(pair_stat(&p.b, FAKERNIC_STAT_RX_ECN_MARKED), 2);
    CHECK_EQ(pair_stat(&p.b, FAKERNIC_STAT_DROP_ADDRESS), 1);
    CHECK_EQ(pair_stat(&p.b, FAKERNIC_STAT_RX_CNP), 1);
}

static uint32_t datagram_qp(PairHost *h)
{
    RoceQpInit init = {
        .type = FAKERNIC_QP_UD, .has_sq = true, .has_rq = true, .pd = 1,
        .send_cqn = 10, .recv_cqn = 11,
    };
    RoceQpAttr attr = { .port = 1, .qkey = 5, .state = FAKERNIC_QPS_INIT };
    uint32_t bad, qpn;

    CHECK_EQ(roce_qp_create(h->r, &init, &qpn), FAKERNIC_CMD_OK);
    CHECK_EQ(roce_qp_modify(h->r, 0, qpn, FAKERNIC_QP_ATTR_STATE |
                            FAKERNIC_QP_ATTR_PORT | FAKERNIC_QP_ATTR_QKEY |
                            FAKERNIC_QP_ATTR_PKEY_INDEX, &attr, &bad),
             FAKERNIC_CMD_OK);
    attr.state = FAKERNIC_QPS_RTR;
    CHECK_EQ(roce_qp_modify(h->r, 0, qpn, FAKERNIC_QP_ATTR_STATE, &attr,
                            &bad), FAKERNIC_CMD_OK);
    return qpn;
}

/* The CNP for a datagram goes to the QP and address that sent it. */
static void marked_datagram_causes_a_cnp(void)
{
    uint8_t buf[ROCE_FRAME_MAX];
    RocePacket packet;
    PAIR(p, FAKERNIC_QP_RC);

    p.b.qpn = datagram_qp(&p.b);
    packet = pair_packet(&p.a, &p.b, ROCE_BTH_UD | ROCE_BTH_SEND_ONLY, 7);
    packet.traffic_class = 8 | CE;
    packet.deth.qkey = 5;
    packet.deth.src_qpn = 0x1234;
    pair_inject(&p, &p.b, &packet, "x", 1);
    CHECK(pair_take(&p, &p.b, buf, &packet));
    CHECK_EQ(packet.opcode, ROCE_BTH_CNP);
    CHECK_EQ(packet.dest_qpn, 0x1234);
    CHECK_EQ(packet.traffic_class, 8);
    CHECK_MEM(packet.dgid, p.a.gid.gid, 16);
    CHECK_MEM(packet.sgid, p.b.gid.gid, 16);
    CHECK_MEM(packet.dmac, p.a.gid.mac, 6);
    /* A CNP for a datagram QP is only counted. */
    cnp(&p, &p.a, &p.b);
    CHECK_EQ(pair_stat(&p.b, FAKERNIC_STAT_RX_CNP), 1);
    CHECK_EQ(pair_stat(&p.b, FAKERNIC_STAT_RATE_CUTS), 0);
}

/*
 * A marked datagram to a group is counted. Its sender gets no CNP, as every
 * member would send one.
 */
static void marked_multicasts_are_counted_without_cnp(void)
{
    static const uint8_t group[16] = { [10] = 0xff, 0xff, 224, 1, 2, 3 };
    uint8_t buf[ROCE_FRAME_MAX];
    RocePacket packet;
    PAIR(p, FAKERNIC_QP_RC);

    p.b.qpn = datagram_qp(&p.b);
    CHECK_EQ(roce_mcast_attach(p.b.r, group, p.b.qpn), FAKERNIC_CMD_OK);
    packet = pair_packet(&p.a, &p.b, ROCE_BTH_UD | ROCE_BTH_SEND_ONLY, 7);
    packet.traffic_class = 8 | CE;
    packet.deth.qkey = 5;
    packet.dest_qpn = FAKERNIC_QPN_MULTICAST;
    memcpy(packet.dgid, group, 16);
    pair_inject(&p, &p.b, &packet, "x", 1);
    CHECK_EQ(pair_stat(&p.b, FAKERNIC_STAT_RX_ROCE), 1);
    CHECK_EQ(pair_stat(&p.b, FAKERNIC_STAT_RX_ECN_MARKED), 1);
    CHECK(!pair_take(&p, &p.b, buf, &packet));
}

static void cnps_are_checked_like_requests(void)
{
    static const uint8_t zeros[16];
    RocePacket packet;
    PAIR(p, FAKERNIC_QP_RC);

    p.a.r->limits.dcqcn = true;
    packet = pair_packet(&p.b, &p.a, ROCE_BTH_CNP, 0);
    packet.sgid[15] = 77;
    pair_inject(&p, &p.a, &packet, zeros, 16);
    packet = pair_packet(&p.b, &p.a, ROCE_BTH_CNP, 0);
    packet.pkey = 0x1234;
    pair_inject(&p, &p.a, &packet, zeros, 16);
    packet = pair_packet(&p.b, &p.a, ROCE_BTH_CNP, 0);
    packet.dest_qpn = 0x777;
    pair_inject(&p, &p.a, &packet, zeros, 16);
    roce_qp_error(p.a.r, 0, p.a.qpn, FAKERNIC_VENDOR_CQ_OVERRUN);
    cnp(&p, &p.b, &p.a);
    CHECK_EQ(pair_stat(&p.a, FAKERNIC_STAT_DROP_ADDRESS), 1);
    CHECK_EQ(pair_stat(&p.a, FAKERNIC_STAT_DROP_PKEY), 1);
    CHECK_EQ(pair_stat(&p.a, FAKERNIC_STAT_DROP_QPN), 1);
    CHECK_EQ(pair_stat(&p.a, FAKERNIC_STAT_DROP_QP_STATE), 1);
    CHECK_EQ(pair_stat(&p.a, FAKERNIC_STAT_RX_CNP), 0);
    CHECK_EQ(pair_stat(&p.a, FAKERNIC_STAT_RATE_CUTS), 0);
}

/* A due CNP is discarded when the QP enters ERR. */
static void failed_qp_sends_no_cnp(void)
{
    uint8_t buf[ROCE_FRAME_MAX];
    RocePacket packet;
    PAIR(p, FAKERNIC_QP_RC);

    mark(&p);
    roce_qp_error(p.b.r, 0, p.b.qpn, FAKERNIC_VENDOR_CQ_OVERRUN);
    CHECK(!pair_take(&p, &p.b, buf, &packet));
}

/* ---- reaction point ------------------------------------------------------ */

static void first_cnp_halves_the_rate(void)
{
    RoceDcqcn d;

    roce_dcqcn_init(&d);
    CHECK_EQ(roce_dcqcn_rate(&d, 0, LINK), 0);
    CHECK(roce_dcqcn_notified(&d, 0, LINK));
    CHECK_EQ(roce_dcqcn_rate(&d, 0, LINK), LINK / 2);
    CHECK_EQ(d.target_kbps, LINK);
    /* The same congestion, reported twice. */
    CHECK(!roce_dcqcn_notified(&d, ROCE_DCQCN_CUT_NS - 1, LINK));
    CHECK_EQ(roce_dcqcn_rate(&d, ROCE_DCQCN_CUT_NS - 1, LINK), LINK / 2);
    CHECK(roce_dcqcn_notified(&d, ROCE_DCQCN_CUT_NS, LINK));
    CHECK_EQ(roce_dcqcn_rate(&d, ROCE_DCQCN_CUT_NS, LINK), LINK / 4);
    CHECK_EQ(d.target_kbps, LINK / 2);
}

/* Five steps halve the distance, then the target itself moves. */
static void fast_recovery_then_additive_increase(void)
{
    RoceDcqcn d;
    uint32_t rate = LINK / 4;
    unsigned i;

    roce_dcqcn_init(&d);
    roce_dcqcn_notified(&d, 0, LINK);
    roce_dcqcn_notified(&d, ROCE_DCQCN_CUT_NS, LINK);
    for (i = 1; i < ROCE_DCQCN_RECOVERY_STEPS; i++) {
        RoceTime now = ROCE_DCQCN_CUT_NS + i * ROCE_DCQCN_INCREASE_NS;

        CHECK_EQ(roce_dcqcn_rate(&d, now - 1, LINK), rate);
        rate = (rate + LINK / 2 + 1) / 2;
        CHECK_EQ(roce_dcqcn_rate(&d, now, LINK), rate);
        CHECK_EQ(d.target_kbps, LINK / 2);
    }
    roce_dcqcn_rate(&d, ROCE_DCQCN_CUT_NS + 5 * ROCE_DCQCN_INCREASE_NS, LINK);
    CHECK_EQ(d.target_kbps, LINK / 2 + ROCE_DCQCN_ADDITIVE_KBPS);
}

/* Hyper increase needs both timer and byte counter past fast recovery. */
static void hyper_increase_needs_time_and_bytes(void)
{
    RoceDcqcn d;
    uint32_t before;
    unsigned i;

    roce_dcqcn_init(&d);
    roce_dcqcn_notified(&d, 0, LINK);
    roce_dcqcn_notified(&d, ROCE_DCQCN_CUT_NS, LINK);
    for (i = 0; i < 7; i++) {
        roce_dcqcn_sent(&d, ROCE_DCQCN_INCREASE_BYTES, LINK);
    }
    CHECK_EQ(d.byte_steps, 7);
    CHECK_EQ(d.target_kbps, LINK / 2 + 3 * ROCE_DCQCN_ADDITIVE_KBPS);
    roce_dcqcn_rate(&d, ROCE_DCQCN_CUT_NS + 5 * ROCE_DCQCN_INCREASE_NS, LINK);
    before = d.target_kbps;
    roce_dcqcn_rate(&d, ROCE_DCQCN_CUT_NS + 6 * ROCE_DCQCN_INCREASE_NS, LINK);
    CHECK_EQ(d.target_kbps, before + ROCE_DCQCN_HYPER_KBPS);
}

static void alpha_grows_with_cnps_and_decays_over_time(void)
{
    RoceDcqcn d;
    uint32_t alpha;

    roce_dcqcn_init(&d);
    roce_dcqcn_notified(&d, 0, LINK);
    CHECK_EQ(d.alpha, ROCE_DCQCN_ONE);
    roce_dcqcn_rate(&d, ROCE_DCQCN_ALPHA_NS, LINK);
    CHECK_EQ(d.alpha, ROCE_DCQCN_ONE - ROCE_DCQCN_ONE / 256);
    alpha = d.alpha;
    roce_dcqcn_notified(&d, ROCE_DCQCN_ALPHA_NS, LINK);
    CHECK_EQ(d.alpha, alpha + (ROCE_DCQCN_ONE - alpha) / 256);
    /* A second without CNPs restores the link's rate and the estimate. */
    CHECK_EQ(roce_dcqcn_rate(&d, 1000000000, LINK), 0);
    roce_dcqcn_notified(&d, 10000000000, LINK);
    CHECK_EQ(d.alpha, ROCE_DCQCN_ONE / 256);
    CHECK_EQ(d.rate_kbps, LINK);
}

static void rate_has_a_floor(void)
{
    RoceDcqcn d;
    RoceTime now;

    roce_dcqcn_init(&d);
    for (now = 0; now < 10000000; now += ROCE_DCQCN_CUT_NS) {
        roce_dcqcn_notified(&d, now, LINK);
    }
    CHECK_EQ(d.rate_kbps, ROCE_DCQCN_MIN_KBPS);
    CHECK(roce_dcqcn_rate(&d, now + ROCE_DCQCN_INCREASE_NS, LINK) > 0);
}

/* The whole loop: marked packets at b, CNPs, and a's rate. */
static void congested_sender_slows_down_and_recovers(void)
{
    uint8_t buf[ROCE_FRAME_MAX];
    RocePacket packet;
    PAIR(p, FAKERNIC_QP_RC);

    p.a.r->limits.dcqcn = true;
    p.a.r->limits.link_kbps = 1000000;
    p.now = 100000000;
    mark(&p);
    CHECK(pair_step(&p, &p.b, &p.a));
    CHECK_EQ(pair_stat(&p.a, FAKERNIC_STAT_RX_CNP), 1);
    CHECK_EQ(pair_stat(&p.a, FAKERNIC_STAT_RATE_CUTS), 1);
    CHECK_EQ(pair_qp(&p.a)->pace.dcqcn.rate_kbps, 500000);
    pair_qp(&p.b)->rs.epsn = PAIR_PSN;
    pair_qp(&p.a)->pace.next = p.now + 1000;
    pair_post_rdma(&p, 1, FAKERNIC_SQ_RDMA_WRITE, 0, 65536);
    CHECK(!pair_take(&p, &p.a, buf, &packet));
    p.now = roce_deadline(p.a.r);
    CHECK_EQ(p.now, 100001000);
    roce_tick(p.a.r, p.now);
    CHECK(pair_take(&p, &p.a, buf, &packet));
    CHECK_EQ(packet.traffic_class, 2);      /* ECT(0); the packet is lost */
    pair_run_until(&p, p.now + 1000000000);
    pair_expect(&p.a, FAKERNIC_CQE_RDMA_WRITE, 1, FAKERNIC_WC_SUCCESS);
    p.now += 1000000000;
    CHECK_EQ(roce_dcqcn_rate(&pair_qp(&p.a)->pace.dcqcn, p.now, 1000000), 0);
}

static void without_dcqcn_a_cnp_is_only_counted(void)
{
    uint8_t buf[ROCE_FRAME_MAX];
    RocePacket packet;
    PAIR(p, FAKERNIC_QP_RC);

    cnp(&p, &p.b, &p.a);
    CHECK_EQ(pair_stat(&p.a, FAKERNIC_STAT_RX_CNP), 1);
    CHECK_EQ(pair_stat(&p.a, FAKERNIC_STAT_RATE_CUTS), 0);
    CHECK_EQ(pair_qp(&p.a)->pace.dcqcn.rate_kbps, 0);
    pair_post_rdma(&p, 1, FAKERNIC_SQ_RDMA_WRITE, 0, 64);
    CHECK(pair_take(&p, &p.a, buf, &packet));
    CHECK_EQ(packet.traffic_class, 0);
}

/* ECT(0) is for packets with data: ACKs and READ requests are not marked. */
static void only_data_is_ecn_capable(void)
{
    uint8_t buf[ROCE_FRAME_MAX];
    RocePacket packet;
    RoceSendWr wr;
    size_t len;
    bool loopback;
    PAIR(p, FAKERNIC_QP_RC);

    p.a.r->limits.dcqcn = p.b.r->limits.dcqcn = true;
    pair_post_rdma(&p, 1, FAKERNIC_SQ_RDMA_READ, 0, 64);
    len = roce_output(p.a.r, 0, buf, &loopback);
    CHECK_EQ(buf[15], 0);
    roce_input(p.b.r, 0, buf, len);
    CHECK(pair_take(&p, &p.b, buf, &packet));
    CHECK_EQ(packet.opcode, ROCE_BTH_READ_RESPONSE_ONLY);
    CHECK_EQ(packet.traffic_class, 2);
    wr = pair_rdma_wr(&p.b, &p.a, 2, FAKERNIC_SQ_RDMA_WRITE, 0, 64);
    pair_send(&p, &p.b, &wr);
    CHECK(pair_step(&p, &p.b, &p.a));
    while (pair_take(&p, &p.a, buf, &packet) &&
           packet.opcode != ROCE_BTH_ACK) {
    }
    CHECK_EQ(packet.opcode, ROCE_BTH_ACK);
    CHECK_EQ(packet.traffic_class, 0);
}

static const Test tests[] = {
    TEST(marked_packet_is_answered_with_a_cnp),
    TEST(cnps_have_a_minimum_interval),
    TEST(delayed_cnp_keeps_the_minimum_interval),
    TEST(only_ce_causes_a_cnp),
    TEST(bad_packets_and_cnps_cause_no_cnp),
    TEST(marked_datagram_causes_a_cnp),
    TEST(marked_multicasts_are_counted_without_cnp),
    TEST(cnps_are_checked_like_requests),
    TEST(failed_qp_sends_no_cnp),
    TEST(first_cnp_halves_the_rate),
    TEST(fast_recovery_then_additive_increase),
    TEST(hyper_increase_needs_time_and_bytes),
    TEST(alpha_grows_with_cnps_and_decays_over_time),
    TEST(rate_has_a_floor),
    TEST(congested_sender_slows_down_and_recovers),
    TEST(without_dcqcn_a_cnp_is_only_counted),
    TEST(only_data_is_ecn_capable),
};

TEST_MAIN(tests)
