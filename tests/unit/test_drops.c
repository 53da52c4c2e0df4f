/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Every dropped frame counts in exactly one drop counter. Every drop counter
 * has a test here.
 */
#include "engine.h"
#include "pair.h"

#define FIRST FAKERNIC_STAT_DROP_SHORT
#define LAST FAKERNIC_STAT_DROP_MCAST
#define ETH 14
#define BTH (ETH + 20 + 8)
#define RESERVED 0x15           /* in every service */

static bool reached[FAKERNIC_STAT_COUNT];

static uint64_t drops(const PairHost *h)
{
    uint64_t sum = pair_stat(h, FAKERNIC_STAT_DROP_UC);
    unsigned i;

    for (i = FIRST; i <= LAST; i++) {
        sum += pair_stat(h, i);
    }
    return sum;
}

/* A frame for b, and the counter that must count it. */
static void put(Pair *p, const uint8_t *frame, size_t len,
                enum fakernic_stat stat)
{
    uint64_t sum = drops(&p->b);
    uint64_t one = pair_stat(&p->b, stat);

    CHECK_EQ(roce_input(p->b.r, p->now, frame, len), ROCE_INPUT_TAKEN);
    CHECK_EQ(pair_stat(&p->b, stat), one + 1);
    CHECK_EQ(drops(&p->b), sum + 1);
    reached[stat] = true;
}

static void put_packet(Pair *p, RocePacket *packet, size_t len,
                       enum fakernic_stat stat)
{
    uint8_t buf[ROCE_FRAME_MAX] = { 0 };
    size_t at;

    packet->payload_len = len;
    at = roce_wire_encode(buf, packet);
    put(p, buf, roce_wire_finish(buf, at, len), stat);
}

static RocePacket write_packet(const Pair *p, uint8_t opcode, uint32_t psn)
{
    RocePacket packet = pair_packet(&p->a, &p->b, opcode, psn);

    packet.reth.address = PAIR_MEMORY;
    packet.reth.rkey = p->b.key;
    packet.reth.length = 2 * PAIR_MTU;
    return packet;
}

/* ---- drops because of the frame ------------------------------------------ */

static void ip_checksum(uint8_t *ip)
{
    uint32_t sum = 0;
    unsigned i;

    ip[10] = ip[11] = 0;
    for (i = 0; i < 20; i += 2) {
        sum += (uint32_t)(ip[i] << 8 | ip[i + 1]);
    }
    sum = (sum & 0xffff) + (sum >> 16);
    ip[10] = (uint8_t)(~sum >> 8);
    ip[11] = (uint8_t)~sum;
}

static void malformed_frames_are_counted(void)
{
    uint8_t good[ROCE_FRAME_MAX], bad[ROCE_FRAME_MAX];
    RocePacket packet;
    size_t len;
    PAIR(p, FAKERNIC_QP_RC);

    packet = write_packet(&p, ROCE_BTH_WRITE_ONLY, PAIR_PSN);
    packet.payload_len = 0;
    len = roce_wire_finish(good, roce_wire_encode(good, &packet), 0);

    memcpy(bad, good, len);
    put(&p, bad, len - 1, FAKERNIC_STAT_DROP_SHORT);
    bad[ETH + 10] ^= 1;
    put(&p, bad, len, FAKERNIC_STAT_DROP_IP_CSUM);
    memcpy(bad, good, len);
    bad[ETH + 6] = 0x20;
    ip_checksum(bad + ETH);
    put(&p, bad, len, FAKERNIC_STAT_DROP_FRAGMENT);
    memcpy(bad, good, len);
    bad[len - 1] ^= 1;
    put(&p, bad, len, FAKERNIC_STAT_DROP_ICRC);
    memcpy(bad, good, len);
    bad[BTH + 1] |= 1;
    roce_wire_finish(bad, len - ROCE_ICRC_SIZE, 0);
    put(&p, bad, len, FAKERNIC_STAT_DROP_BTH_VERSION);
    memcpy(bad, good, len);
    bad[BTH] = 0xff;
    roce_wire_finish(bad, len - ROCE_ICRC_SIZE, 0);
    put(&p, bad, len, FAKERNIC_STAT_DROP_OPCODE);
}

/* ---- drops because of the QP --------------------------------------------- */

static void packets_to_unknown_qps_are_counted(void)
{
    RocePacket packet;
    PAIR(p, FAKERNIC_QP_RC);

    packet = write_packet(&p, ROCE_BTH_UC | ROCE_BTH_SEND_ONLY, PAIR_PSN);
    put_packet(&p, &packet, 4, FAKERNIC_STAT_DROP_OPCODE);
    packet = write_packet(&p, ROCE_BTH_XRC | RESERVED, PAIR_PSN);
    put_packet(&p, &packet, 4, FAKERNIC_STAT_DROP_OPCODE);
    packet = write_packet(&p, ROCE_BTH_SEND_ONLY, PAIR_PSN);
    packet.dest_qpn = 0x123456;
    put_packet(&p, &packet, 4, FAKERNIC_STAT_DROP_QPN);
    packet.dest_qpn = p.b.qpn;
    packet.pkey = 0x1234;
    put_packet(&p, &packet, 4, FAKERNIC_STAT_DROP_PKEY);
    packet.pkey = 0xffff;
    packet.sgid[15] = 99;
    put_packet(&p, &packet, 4, FAKERNIC_STAT_DROP_ADDRESS);
    roce_qp_error(p.b.r, 0, p.b.qpn, FAKERNIC_VENDOR_CQ_OVERRUN);
    put_packet(&p, &packet, 4, FAKERNIC_STAT_DROP_QP_STATE);
}

static void unexpected_responses_are_counted(void)
{
    static const uint8_t opcodes[] = {
        ROCE_BTH_ACK, ROCE_BTH_READ_RESPONSE_ONLY, ROCE_BTH_ATOMIC_ACK,
    };
    RocePacket packet;
    RoceSendWr wr;
    unsigned i;
    PAIR(p, FAKERNIC_QP_RC);

    for (i = 0; i < TEST_COUNT(opcodes); i++) {
        packet = pair_packet(&p.a, &p.b, opcodes[i], PAIR_PSN);
        put_packet(&p, &packet, 0, FAKERNIC_STAT_DROP_RESPONSE);
    }
    /* Data for a WRITE, and a NAK code that does not exist. */
    wr = pair_rdma_wr(&p.b, &p.a, 1, FAKERNIC_SQ_RDMA_WRITE, 0, 64);
    p.b.mute = true;
    pair_send(&p, &p.b, &wr);
    pair_run(&p);
    packet = pair_packet(&p.a, &p.b, ROCE_BTH_READ_RESPONSE_ONLY, PAIR_PSN);
    put_packet(&p, &packet, 64, FAKERNIC_STAT_DROP_RESPONSE);
    packet = pair_packet(&p.a, &p.b, ROCE_BTH_ACK, PAIR_PSN);
    packet.aeth.syndrome = ROCE_AETH_NAK | 17;
    put_packet(&p, &packet, 0, FAKERNIC_STAT_DROP_RESPONSE);
    packet.aeth.syndrome = 0x40;
    put_packet(&p, &packet, 0, FAKERNIC_STAT_DROP_RESPONSE);
}

/* The first response behind a gap is an implied NAK; the others are stale. */
static void responses_behind_a_gap_are_counted(void)
{
    RocePacket packet;
    RoceSendWr wr;
    uint8_t data[PAIR_MTU] = { 0 };
    PAIR(p, FAKERNIC_QP_RC);

    wr = pair_rdma_wr(&p.b, &p.a, 1, FAKERNIC_SQ_RDMA_READ, 0, 4 * PAIR_MTU);
    p.b.mute = true;
    pair_send(&p, &p.b, &wr);
    pair_run(&p);
    packet = pair_packet(&p.a, &p.b, ROCE_BTH_READ_RESPONSE_MIDDLE,
                         PAIR_PSN + 1);
    pair_inject(&p, &p.b, &packet, data, sizeof(data));
    CHECK_EQ(pair_stat(&p.b, FAKERNIC_STAT_IMPLIED_NAK), 1);
    CHECK_EQ(drops(&p.b), 0);
    pair_run(&p);
    packet = pair_packet(&p.a, &p.b, ROCE_BTH_READ_RESPONSE_MIDDLE,
                         PAIR_PSN + 2);
    put_packet(&p, &packet, PAIR_MTU, FAKERNIC_STAT_DROP_RESPONSE);
    CHECK_EQ(pair_stat(&p.b, FAKERNIC_STAT_IMPLIED_NAK), 1);
}

/* ---- UC ------------------------------------------------------------------ */

static RocePacket uc_packet(const Pair *p, uint8_t opcode, uint32_t psn)
{
    return write_packet(p, ROCE_BTH_UC | opcode, psn);
}

static void lost_uc_messages_are_counted(void)
{
    uint8_t data[2 * PAIR_MTU] = { 1 };
    RocePacket packet;
    PAIR(p, FAKERNIC_QP_UC);

    /* A middle packet without a first one. */
    packet = uc_packet(&p, ROCE_BTH_SEND_MIDDLE, PAIR_PSN);
    put_packet(&p, &packet, PAIR_MTU, FAKERNIC_STAT_DROP_UC);
    /* A message without a receive: all its packets are dropped. */
    packet = uc_packet(&p, ROCE_BTH_SEND_FIRST, PAIR_PSN + 1);
    put_packet(&p, &packet, PAIR_MTU, FAKERNIC_STAT_DROP_UC);
    packet = uc_packet(&p, ROCE_BTH_SEND_LAST, PAIR_PSN + 2);
    put_packet(&p, &packet, 4, FAKERNIC_STAT_DROP_UC);
    /* A gap. */
    packet = uc_packet(&p, ROCE_BTH_WRITE_FIRST, PAIR_PSN + 3);
    pair_inject(&p, &p.b, &packet, data, PAIR_MTU);
    packet = uc_packet(&p, ROCE_BTH_WRITE_LAST, PAIR_PSN + 5);
    put_packet(&p, &packet, PAIR_MTU, FAKERNIC_STAT_DROP_UC);
    /* A wrong length, and a wrong key. */
    packet = uc_packet(&p, ROCE_BTH_WRITE_ONLY, PAIR_PSN + 6);
    put_packet(&p, &packet, 4, FAKERNIC_STAT_DROP_UC);
    packet = uc_packet(&p, ROCE_BTH_WRITE_FIRST, PAIR_PSN + 7);
    packet.reth.rkey ^= 0x100;
    put_packet(&p, &packet, PAIR_MTU, FAKERNIC_STAT_DROP_UC);
    /* The next message is received. */
    packet = uc_packet(&p, ROCE_BTH_WRITE_FIRST, PAIR_PSN + 9);
    pair_inject(&p, &p.b, &packet, data, PAIR_MTU);
    packet = uc_packet(&p, ROCE_BTH_WRITE_LAST, PAIR_PSN + 10);
    pair_inject(&p, &p.b, &packet, data + PAIR_MTU, PAIR_MTU);
    CHECK_MEM(p.b.memory, data, sizeof(data));
    CHECK_EQ(drops(&p.b), 6);
    CHECK_EQ(pair_state(&p.b), FAKERNIC_QPS_RTS);
}

/* UC has no NAK, so the packet is dropped. */
static void reserved_uc_opcode_is_counted(void)
{
    uint8_t buf[ROCE_FRAME_MAX];
    RocePacket packet;
    size_t len;
    PAIR(p, FAKERNIC_QP_UC);

    packet = uc_packet(&p, ROCE_BTH_SEND_ONLY, PAIR_PSN);
    len = roce_wire_finish(buf, roce_wire_encode(buf, &packet), 0);
    buf[BTH] = ROCE_BTH_UC | RESERVED;
    roce_wire_finish(buf, len - ROCE_ICRC_SIZE, 0);
    put(&p, buf, len, FAKERNIC_STAT_DROP_OPCODE);
    CHECK_EQ(pair_state(&p.b), FAKERNIC_QPS_RTS);
    CHECK_EQ(pair_qp(&p.b)->rs.epsn, PAIR_PSN);
}

/* ---- datagrams ----------------------------------------------------------- */

static void make_datagram_qp(PairHost *h)
{
    RoceQpInit init = {
        .type = FAKERNIC_QP_UD, .has_rq = true, .pd = 1, .recv_cqn = 11,
    };
    RoceQpAttr attr = { .port = 1, .qkey = 5, .state = FAKERNIC_QPS_INIT };

    CHECK_EQ(roce_qp_create(h->r, &init, &h->qpn), FAKERNIC_CMD_OK);
    CHECK_EQ(pair_modify(h, 0, FAKERNIC_QP_ATTR_STATE | FAKERNIC_QP_ATTR_PORT |
                         FAKERNIC_QP_ATTR_QKEY | FAKERNIC_QP_ATTR_PKEY_INDEX,
                         &attr), FAKERNIC_CMD_OK);
    attr.state = FAKERNIC_QPS_RTR;
    CHECK_EQ(pair_modify(h, 0, FAKERNIC_QP_ATTR_STATE, &attr),
             FAKERNIC_CMD_OK);
}

static void datagrams_without_receive_are_counted(void)
{
    RocePacket packet;
    PAIR(p, FAKERNIC_QP_RC);

    make_datagram_qp(&p.b);
    packet = pair_packet(&p.a, &p.b, ROCE_BTH_UD | ROCE_BTH_SEND_ONLY, 0);
    packet.deth.qkey = 6;
    put_packet(&p, &packet, 4, FAKERNIC_STAT_DROP_QKEY);
    packet.deth.qkey = 5;
    put_packet(&p, &packet, 4, FAKERNIC_STAT_DROP_UD_NO_BUFFER);
    pair_recv(&p.b, 1, 0, ROCE_GRH_SIZE + 3);
    put_packet(&p, &packet, 4, FAKERNIC_STAT_DROP_UD_LENGTH);
    roce_set_port_mtu(p.b.r, 400);
    put_packet(&p, &packet, 300, FAKERNIC_STAT_DROP_UD_LENGTH);
    /* None of the dropped datagrams took the receive. */
    pair_inject(&p, &p.b, &packet, "abc", 3);
    pair_expect(&p.b, FAKERNIC_CQE_RECV, 1, FAKERNIC_WC_SUCCESS);
    fake_queue_break(p.b.host, FAKE_RQ, p.b.qpn, FAKERNIC_VENDOR_RQ_DMA);
    put_packet(&p, &packet, 4, FAKERNIC_STAT_DROP_UD_NO_BUFFER);
    pair_expect_event(&p.b, FAKERNIC_EVENT_QP_FATAL);
}

static void multicasts_without_member_are_counted(void)
{
    static const uint8_t group[16] = {
        [10] = 0xff, 0xff, 239, 1, 2, 3,
    };
    RocePacket packet;
    PAIR(p, FAKERNIC_QP_RC);

    packet = pair_packet(&p.a, &p.b, ROCE_BTH_UD | ROCE_BTH_SEND_ONLY, 0);
    memcpy(packet.dgid, group, 16);
    put_packet(&p, &packet, 4, FAKERNIC_STAT_DROP_QPN);
    packet.dest_qpn = FAKERNIC_QPN_MULTICAST;
    put_packet(&p, &packet, 4, FAKERNIC_STAT_DROP_MCAST);
    packet = write_packet(&p, ROCE_BTH_SEND_ONLY, 0);
    memcpy(packet.dgid, group, 16);
    put_packet(&p, &packet, 4, FAKERNIC_STAT_DROP_OPCODE);
}

/* Runs last. */
static void every_counter_was_reached(void)
{
    unsigned i;

    for (i = FIRST; i <= LAST; i++) {
        if (!reached[i]) {
            printf("# no case for counter %u\n", i);
        }
        CHECK(reached[i]);
    }
    CHECK(reached[FAKERNIC_STAT_DROP_UC]);
}

static const Test tests[] = {
    TEST(malformed_frames_are_counted),
    TEST(packets_to_unknown_qps_are_counted),
    TEST(unexpected_responses_are_counted),
    TEST(responses_behind_a_gap_are_counted),
    TEST(lost_uc_messages_are_counted),
    TEST(reserved_uc_opcode_is_counted),
    TEST(datagrams_without_receive_are_counted),
    TEST(multicasts_without_member_are_counted),
    TEST(every_counter_was_reached),
};

TEST_MAIN(tests)
