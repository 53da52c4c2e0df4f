/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * RC between two engines: data, completions, loss, duplicates, NAKs, errors.
 * Tests with requests in only one direction also run over XRC.
 */
#include "pair.h"

#include "engine.h"

static uint8_t rc_service = FAKERNIC_QP_RC;

static void send_arrives(void)
{
    Pair p;
    RoceSendWr wr;

    pair_init(&p, rc_service);
    pair_fill(p.a.memory, 1000, 3);
    pair_recv(&p.b, 77, 4096, 2000);
    wr = pair_wr(&p.a, 5, FAKERNIC_SQ_SEND_IMM, 0, 1000);
    wr.imm_or_key = 0x12345678;
    wr.flags |= FAKERNIC_SQ_SOLICITED;
    pair_send(&p, &p.a, &wr);
    pair_run(&p);
    CHECK_MEM(p.b.memory + 4096, p.a.memory, 1000);
    CHECK_EQ(p.b.memory[4096 + 1000], 0);
    pair_expect(&p.a, FAKERNIC_CQE_SEND, 5, FAKERNIC_WC_SUCCESS);
    CHECK_EQ(p.b.host->completions[0].byte_count, 1000);
    CHECK_EQ(p.b.host->completions[0].imm_or_key, 0x12345678);
    CHECK_EQ(p.b.host->completions[0].flags,
             FAKERNIC_CQE_IMM | FAKERNIC_CQE_SOLICITED);
    CHECK_EQ(p.b.host->completions[0].cqn, 11);
    pair_expect(&p.b, FAKERNIC_CQE_RECV, 77, FAKERNIC_WC_SUCCESS);
    CHECK_EQ(roce_deadline(p.a.r), ROCE_TIME_NEVER);
    pair_free(&p);
}

static void write_arrives(void)
{
    PAIR(p, rc_service);

    pair_fill(p.a.memory, 100000, 9);
    pair_post_rdma(&p, 1, FAKERNIC_SQ_RDMA_WRITE, 0, 100000);
    pair_run(&p);
    CHECK_MEM(p.b.memory, p.a.memory, 100000);
    pair_expect(&p.a, FAKERNIC_CQE_RDMA_WRITE, 1, FAKERNIC_WC_SUCCESS);
    pair_expect_none(&p.b);
}

static void read_arrives(void)
{
    PAIR(p, rc_service);

    pair_fill(p.b.memory, 100000, 11);
    pair_post_rdma(&p, 1, FAKERNIC_SQ_RDMA_READ, 0, 100000);
    pair_run(&p);
    CHECK_MEM(p.a.memory, p.b.memory, 100000);
    pair_expect(&p.a, FAKERNIC_CQE_RDMA_READ, 1, FAKERNIC_WC_SUCCESS);
    CHECK_EQ(p.a.host->completions[0].byte_count, 100000);
}

/* Edges of segmentation: no byte, whole packets, one byte more or less. */
static void lengths_at_packet_boundaries(void)
{
    static const uint32_t lengths[] = { 0, 1, 255, 256, 257, 511, 512, 513 };
    unsigned i;
    PAIR(p, rc_service);

    pair_fill(p.a.memory, PAIR_SIZE, 5);
    for (i = 0; i < TEST_COUNT(lengths); i++) {
        uint32_t len = lengths[i];
        RoceSendWr wr = pair_rdma_wr(&p.a, &p.b, i, FAKERNIC_SQ_RDMA_WRITE,
                                     0, len);

        memset(p.b.memory, 0, 4096);
        pair_send(&p, &p.a, &wr);
        wr = pair_rdma_wr(&p.a, &p.b, i, FAKERNIC_SQ_RDMA_READ, 0, len);
        wr.sge[0].address += 8192;
        pair_send(&p, &p.a, &wr);
        pair_recv(&p.b, i, 16384, len);
        pair_post(&p, i, FAKERNIC_SQ_SEND, 0, len);
        pair_run(&p);
        CHECK_MEM(p.b.memory, p.a.memory, len);
        CHECK_MEM(p.a.memory + 8192, p.a.memory, len);
        CHECK_MEM(p.b.memory + 16384, p.a.memory, len);
        pair_expect(&p.a, FAKERNIC_CQE_RDMA_WRITE, i, FAKERNIC_WC_SUCCESS);
        pair_expect(&p.a, FAKERNIC_CQE_RDMA_READ, i, FAKERNIC_WC_SUCCESS);
        pair_expect(&p.a, FAKERNIC_CQE_SEND, i, FAKERNIC_WC_SUCCESS);
        pair_expect(&p.b, FAKERNIC_CQE_RECV, i, FAKERNIC_WC_SUCCESS);
    }
}

static void inline_and_unsignaled(void)
{
    RoceSendWr wr = {
        .index = 1, .opcode = FAKERNIC_SQ_SEND, .flags = FAKERNIC_SQ_INLINE,
        .inline_length = 300,
    };
    PAIR(p, rc_service);

    pair_fill(wr.inline_data, 300, 1);
    wr.xrc_srqn = p.a.srqn;
    pair_recv(&p.b, 1, 0, 300);
    pair_send(&p, &p.a, &wr);
    pair_run(&p);
    CHECK_MEM(p.b.memory, wr.inline_data, 300);
    pair_expect_none(&p.a);
    pair_expect(&p.b, FAKERNIC_CQE_RECV, 1, FAKERNIC_WC_SUCCESS);
}

/* In a mixed workload each frame is lost in turn. */
static void loss_of_each_frame_is_recovered(void)
{
    unsigned direction, n, limit = 1;

    for (n = 1; n <= limit; n++) {
        for (direction = 0; direction < 2; direction++) {
            Pair p;
            uint32_t i;

            pair_init(&p, rc_service);
            pair_fill(p.a.memory, 8192, (uint8_t)n);
            pair_fill(p.b.memory + 65536, 8192, (uint8_t)(n + 1));
            pair_lose(direction ? &p.b : &p.a, n);
            for (i = 0; i < 3; i++) {
                pair_recv(&p.b, i, 32768, 2000);
                pair_post(&p, i, FAKERNIC_SQ_SEND, 0, 2000);
                pair_post_rdma(&p, i, FAKERNIC_SQ_RDMA_READ, 65536 + i * 1300,
                               1300);
                pair_post_rdma(&p, i, FAKERNIC_SQ_RDMA_WRITE, i * 1000, 1000);
            }
            pair_run_until(&p, 20000000000);
            CHECK_MEM(p.b.memory, p.a.memory, 3000);
            CHECK_MEM(p.b.memory + 32768, p.a.memory, 2000);
            CHECK_MEM(p.a.memory + 65536, p.b.memory + 65536, 3900);
            for (i = 0; i < 3; i++) {
                pair_expect(&p.a, FAKERNIC_CQE_SEND, i, 0);
                pair_expect(&p.a, FAKERNIC_CQE_RDMA_READ, i, 0);
                pair_expect(&p.a, FAKERNIC_CQE_RDMA_WRITE, i, 0);
                pair_expect(&p.b, FAKERNIC_CQE_RECV, i, 0);
            }
            pair_expect_none(&p.a);
            pair_expect_none(&p.b);
            limit = p.a.sent > p.b.sent ? p.a.sent : p.b.sent;
            REQUIRE(limit < 200);
            pair_free(&p);
        }
    }
}

/* > w0  > w1 lost  > w2  < NAK w1  > w1  > w2  < ACK w2 */
static void gap_is_nacked_once_without_a_timeout(void)
{
    PAIR(p, rc_service);

    pair_lose(&p.a, 2);
    pair_post_rdma(&p, 0, FAKERNIC_SQ_RDMA_WRITE, 0, 256 * 6);
    pair_run(&p);
    pair_expect(&p.a, FAKERNIC_CQE_RDMA_WRITE, 0, 0);
    CHECK_EQ(p.now, 0);
    CHECK_EQ(pair_stat(&p.b, FAKERNIC_STAT_TX_SEQ_NAK), 1);
    CHECK_EQ(pair_stat(&p.a, FAKERNIC_STAT_RX_SEQ_NAK), 1);
    CHECK(pair_stat(&p.a, FAKERNIC_STAT_RETRANSMITS) > 0);
}

static void lost_ack_is_requested_again(void)
{
    PAIR(p, rc_service);

    pair_lose(&p.b, 1);
    pair_recv(&p.b, 1, 0, 64);
    pair_post(&p, 0, FAKERNIC_SQ_SEND, 0, 64);
    pair_run(&p);
    pair_expect_none(&p.a);
    CHECK_EQ(roce_deadline(p.a.r), roce_retry_ack_ns(14));
    pair_run_until(&p, 1000000000);
    pair_expect(&p.a, FAKERNIC_CQE_SEND, 0, 0);
    pair_expect(&p.b, FAKERNIC_CQE_RECV, 1, 0);
    pair_expect_none(&p.b);
    CHECK_EQ(pair_stat(&p.b, FAKERNIC_STAT_DUPLICATES), 1);
    CHECK_EQ(pair_stat(&p.a, FAKERNIC_STAT_TIMEOUTS), 1);
}

/* A duplicate gets an ACK only if it requests one, as an ACK of the whole
 * message in reply to its first packet would be unexpected. */
static void duplicate_is_acknowledged_on_request(void)
{
    static const uint8_t data[2 * PAIR_MTU];
    RocePacket packet;
    PAIR(p, rc_service);

    pair_recv(&p.b, 1, 0, 2 * PAIR_MTU);
    pair_post(&p, 0, FAKERNIC_SQ_SEND, 0, 2 * PAIR_MTU);
    pair_run(&p);
    CHECK_EQ(p.b.sent, 1);
    packet = pair_packet(&p.a, &p.b, ROCE_BTH_SEND_FIRST, PAIR_PSN);
    packet.ack_req = false;
    pair_inject(&p, &p.b, &packet, data, PAIR_MTU);
    pair_run(&p);
    CHECK_EQ(p.b.sent, 1);
    packet = pair_packet(&p.a, &p.b, ROCE_BTH_SEND_LAST, PAIR_PSN + 1);
    pair_inject(&p, &p.b, &packet, data, PAIR_MTU);
    pair_run(&p);
    CHECK_EQ(p.b.sent, 2);
    CHECK_EQ(pair_stat(&p.b, FAKERNIC_STAT_DUPLICATES), 2);
}

static void silent_peer_exhausts_retries(void)
{
    Pair p;
    RoceSendWr wr;

    pair_init(&p, rc_service);
    p.a.mute = true;
    wr = pair_rdma_wr(&p.a, &p.b, 0, FAKERNIC_SQ_RDMA_WRITE, 0, 64);
    wr.flags = 0;
    pair_send(&p, &p.a, &wr);
    pair_send(&p, &p.a, &wr);
    pair_recv(&p.a, 9, 0, 64);
    pair_run_until(&p, 3 * roce_retry_ack_ns(14));
    pair_expect_none(&p.a);
    pair_run_until(&p, 4 * roce_retry_ack_ns(14));
    pair_expect(&p.a, FAKERNIC_CQE_RDMA_WRITE, 0, FAKERNIC_WC_RETRY_EXC_ERR);
    pair_expect(&p.a, FAKERNIC_CQE_RDMA_WRITE, 0, FAKERNIC_WC_WR_FLUSH_ERR);
    pair_expect(&p.a, FAKERNIC_CQE_RECV, 9, FAKERNIC_WC_WR_FLUSH_ERR);
    CHECK_EQ(p.a.sent, 2 * 4);
    CHECK_EQ(pair_state(&p.a), FAKERNIC_QPS_ERR);
    CHECK_EQ(p.a.host->completions[0].vendor_err,
             FAKERNIC_VENDOR_RETRY_EXCEEDED);
    pair_free(&p);
}

/* > SEND  < RNR NAK  (0.64 ms)  > SEND  < ACK */
static void rnr_waits_for_a_receive(void)
{
    PAIR(p, rc_service);

    pair_fill(p.a.memory, 600, 8);
    pair_post(&p, 0, FAKERNIC_SQ_SEND, 0, 600);
    pair_run(&p);
    CHECK_EQ(roce_deadline(p.a.r), 640000);
    CHECK_EQ(pair_stat(&p.b, FAKERNIC_STAT_TX_RNR_NAK), 1);
    CHECK_EQ(pair_stat(&p.b, FAKERNIC_STAT_TX_SEQ_NAK), 0);
    pair_recv(&p.b, 4, 4096, 600);
    pair_run_until(&p, 1000000);
    pair_expect(&p.a, FAKERNIC_CQE_SEND, 0, 0);
    pair_expect(&p.b, FAKERNIC_CQE_RECV, 4, 0);
    CHECK_MEM(p.b.memory + 4096, p.a.memory, 600);
}

/* A copy of the packet finds a receive. Its ACK ends the RNR wait. */
static void ack_ends_an_rnr_wait(void)
{
    RocePacket packet;
    PAIR(p, rc_service);

    pair_post(&p, 0, FAKERNIC_SQ_SEND, 0, 0);
    pair_run(&p);
    CHECK_EQ(roce_deadline(p.a.r), 640000);
    pair_post(&p, 1, FAKERNIC_SQ_SEND, 0, 0);
    pair_run(&p);
    CHECK_EQ(p.a.sent, 1);
    pair_recv(&p.b, 4, 0, 0);
    pair_recv(&p.b, 5, 0, 0);
    packet = pair_packet(&p.a, &p.b, ROCE_BTH_SEND_ONLY, PAIR_PSN);
    pair_inject(&p, &p.b, &packet, NULL, 0);
    pair_run(&p);
    pair_expect(&p.a, FAKERNIC_CQE_SEND, 0, FAKERNIC_WC_SUCCESS);
    pair_expect(&p.a, FAKERNIC_CQE_SEND, 1, FAKERNIC_WC_SUCCESS);
    pair_expect(&p.b, FAKERNIC_CQE_RECV, 4, FAKERNIC_WC_SUCCESS);
    pair_expect(&p.b, FAKERNIC_CQE_RECV, 5, FAKERNIC_WC_SUCCESS);
    CHECK_EQ(p.now, 0);
    CHECK_EQ(roce_deadline(p.a.r), ROCE_TIME_NEVER);
}

/* rxe also sends a NAK for packets behind the one that found no receive. */
static void sequence_nak_after_rnr_nak_is_ignored(void)
{
    static const uint8_t nak = ROCE_AETH_NAK | ROCE_NAK_SEQUENCE;
    RocePacket packet;
    unsigned i;
    PAIR(p, rc_service);

    pair_qp(&p.a)->attr.rnr_retry = pair_qp(&p.a)->retry.rnr_left = 7;
    pair_post(&p, 0, FAKERNIC_SQ_SEND, 0, 0);
    for (i = 0; i < 20; i++) {
        pair_run(&p);
        /* The NAK of a slow peer arrives after the wait. */
        p.now = roce_deadline(p.a.r);
        roce_tick(p.a.r, p.now);
        packet = pair_packet(&p.b, &p.a, ROCE_BTH_ACK, PAIR_PSN);
        packet.aeth.syndrome = nak;
        pair_inject(&p, &p.a, &packet, NULL, 0);
    }
    CHECK_EQ(pair_stat(&p.a, FAKERNIC_STAT_RX_SEQ_NAK), 20);
    CHECK_EQ(pair_state(&p.a), FAKERNIC_QPS_RTS);
    for (i = 0; i < 3; i++) {
        pair_recv(&p.b, 4 + i, 0, 0);
    }
    pair_run_until(&p, p.now + 640000);
    pair_expect(&p.a, FAKERNIC_CQE_SEND, 0, FAKERNIC_WC_SUCCESS);

    /* A NAK of the next packet reports a loss. */
    pair_lose(&p.a, 1);
    for (i = 1; i < 3; i++) {
        pair_post(&p, i, FAKERNIC_SQ_SEND, 0, 0);
    }
    pair_run(&p);
    CHECK_EQ(pair_stat(&p.a, FAKERNIC_STAT_RX_SEQ_NAK), 21);
    pair_expect(&p.a, FAKERNIC_CQE_SEND, 1, FAKERNIC_WC_SUCCESS);
    pair_expect(&p.a, FAKERNIC_CQE_SEND, 2, FAKERNIC_WC_SUCCESS);
}

static void rnr_retries_are_limited(void)
{
    PAIR(p, rc_service);

    pair_post(&p, 0, FAKERNIC_SQ_SEND, 0, 64);
    pair_run_until(&p, 1000000000);
    pair_expect(&p.a, FAKERNIC_CQE_SEND, 0, FAKERNIC_WC_RNR_RETRY_EXC_ERR);
    CHECK_EQ(pair_stat(&p.b, FAKERNIC_STAT_TX_RNR_NAK), 4);
}

/* Only the packet with the immediate needs the receive, and waits with its
 * data. */
static void write_imm_waits_for_a_receive(void)
{
    Pair p;
    RoceSendWr wr;

    pair_init(&p, rc_service);
    pair_fill(p.a.memory, 600, 8);
    wr = pair_rdma_wr(&p.a, &p.b, 0, FAKERNIC_SQ_RDMA_WRITE_IMM, 0, 600);
    wr.imm_or_key = 42;
    pair_send(&p, &p.a, &wr);
    pair_run(&p);
    CHECK_MEM(p.b.memory, p.a.memory, 512);
    CHECK_EQ(p.b.memory[512], 0);
    pair_recv(&p.b, 4, 4096, 0);
    pair_run_until(&p, 1000000);
    CHECK_MEM(p.b.memory, p.a.memory, 600);
    CHECK_EQ(p.b.host->completions[0].imm_or_key, 42);
    CHECK_EQ(p.b.host->completions[0].byte_count, 600);
    pair_expect(&p.b, FAKERNIC_CQE_RECV_RDMA_IMM, 4, 0);
    pair_expect(&p.a, FAKERNIC_CQE_RDMA_WRITE, 0, 0);
    pair_free(&p);
}

static void wrong_key_fails_both_sides(void)
{
    static const uint8_t opcodes[] = {
        FAKERNIC_SQ_RDMA_WRITE, FAKERNIC_SQ_RDMA_READ,
    };
    unsigned i;

    for (i = 0; i < 2; i++) {
        Pair p;
        RoceSendWr wr;

        pair_init(&p, rc_service);
        pair_recv(&p.b, 3, 0, 64);
        wr = pair_rdma_wr(&p.a, &p.b, 0, opcodes[i], 0, 64);
        pair_send(&p, &p.a, &wr);
        wr.rdma.rkey ^= 1;
        wr.index = 1;
        pair_send(&p, &p.a, &wr);
        wr.index = 2;
        pair_send(&p, &p.a, &wr);
        pair_run(&p);
        pair_expect(&p.a, i ? FAKERNIC_CQE_RDMA_READ : FAKERNIC_CQE_RDMA_WRITE,
                    0, FAKERNIC_WC_SUCCESS);
        pair_expect(&p.a, i ? FAKERNIC_CQE_RDMA_READ : FAKERNIC_CQE_RDMA_WRITE,
                    1, FAKERNIC_WC_REM_ACCESS_ERR);
        pair_expect(&p.a, i ? FAKERNIC_CQE_RDMA_READ : FAKERNIC_CQE_RDMA_WRITE,
                    2, FAKERNIC_WC_WR_FLUSH_ERR);
        pair_expect_event(&p.b, FAKERNIC_EVENT_QP_ACCESS_ERROR);
        CHECK_EQ(p.b.host->events[0].vendor_err, FAKERNIC_VENDOR_KEY_TAG);
        pair_expect(&p.b, FAKERNIC_CQE_RECV, 3, FAKERNIC_WC_WR_FLUSH_ERR);
        CHECK_EQ(pair_state(&p.a), FAKERNIC_QPS_ERR);
        CHECK_EQ(pair_state(&p.b), FAKERNIC_QPS_ERR);
        pair_free(&p);
    }
}

static void short_receive_fails_both_sides(void)
{
    PAIR(p, rc_service);

    pair_recv(&p.b, 3, 4096, 500);
    pair_fill(p.a.memory, 600, 1);
    pair_post(&p, 0, FAKERNIC_SQ_SEND, 0, 600);
    pair_run(&p);
    pair_expect(&p.b, FAKERNIC_CQE_RECV, 3, FAKERNIC_WC_LOC_LEN_ERR);
    pair_expect(&p.a, FAKERNIC_CQE_SEND, 0, FAKERNIC_WC_REM_INV_REQ_ERR);
    CHECK_EQ(p.b.memory[4096 + 500], 0);
    CHECK(fake_next_event(p.b.host) == NULL);
    CHECK_EQ(pair_state(&p.b), FAKERNIC_QPS_ERR);
}

static void receive_without_memory_is_a_remote_operation_error(void)
{
    Pair p;
    RoceRecvWr recv;

    pair_init(&p, rc_service);
    recv = (RoceRecvWr){ .tag = 3, .sge_count = 1,
                         .sge = { pair_sge(&p.b, 0, 64) } };
    recv.sge[0].lkey += 0x100;
    pair_post_recv(&p.b, &recv);
    pair_post(&p, 0, FAKERNIC_SQ_SEND, 0, 64);
    pair_run(&p);
    pair_expect(&p.b, FAKERNIC_CQE_RECV, 3, FAKERNIC_WC_LOC_PROT_ERR);
    pair_expect(&p.a, FAKERNIC_CQE_SEND, 0, FAKERNIC_WC_REM_OP_ERR);
    pair_free(&p);
}

/* perftest posts such receives. Only the bytes that are written must be in the
 * region. */
static void receive_may_be_longer_than_its_region(void)
{
    static const struct {
        uint32_t length;
        uint8_t recv, send;
    } cases[] = {
        { 64, FAKERNIC_WC_SUCCESS, FAKERNIC_WC_SUCCESS },
        { 65, FAKERNIC_WC_LOC_PROT_ERR, FAKERNIC_WC_REM_OP_ERR },
    };
    unsigned i;

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        PAIR(p, rc_service);

        pair_fill(p.a.memory, 65, 3);
        pair_recv(&p.b, 3, PAIR_SIZE - 64, 1000);
        pair_post(&p, 0, FAKERNIC_SQ_SEND, 0, cases[i].length);
        pair_run(&p);
        pair_expect(&p.b, FAKERNIC_CQE_RECV, 3, cases[i].recv);
        pair_expect(&p.a, FAKERNIC_CQE_SEND, 0, cases[i].send);
        if (cases[i].recv == FAKERNIC_WC_SUCCESS) {
            CHECK_MEM(p.b.memory + PAIR_SIZE - 64, p.a.memory, 64);
        }
    }
}

/* Earlier requests complete, later ones are flushed. */
static void local_error_completes_in_order(void)
{
    Pair p;
    RoceSendWr wr;

    pair_init(&p, rc_service);
    wr = pair_rdma_wr(&p.a, &p.b, 0, FAKERNIC_SQ_RDMA_WRITE, 0, 3000);
    pair_send(&p, &p.a, &wr);
    wr.index = 1;
    wr.sge[0].length = PAIR_SIZE + 1;
    wr.flags = 0;
    pair_send(&p, &p.a, &wr);
    wr.index = 2;
    pair_send(&p, &p.a, &wr);
    pair_run(&p);
    pair_expect(&p.a, FAKERNIC_CQE_RDMA_WRITE, 0, 0);
    pair_expect(&p.a, FAKERNIC_CQE_RDMA_WRITE, 1, FAKERNIC_WC_LOC_PROT_ERR);
    pair_expect(&p.a, FAKERNIC_CQE_RDMA_WRITE, 2, FAKERNIC_WC_WR_FLUSH_ERR);
    CHECK_EQ(pair_state(&p.a), FAKERNIC_QPS_ERR);
    CHECK_EQ(pair_state(&p.b), FAKERNIC_QPS_RTS);
    pair_free(&p);
}

static void refused_work_requests(void)
{
    static const struct {
        uint8_t opcode;
        uint8_t flags;
        uint16_t format_error;
        uint32_t length;
        uint8_t status;
    } cases[] = {
        { 99, 0, 0, 8, FAKERNIC_WC_LOC_QP_OP_ERR },
        { FAKERNIC_SQ_FLUSH, 0, 0, 8, FAKERNIC_WC_LOC_QP_OP_ERR },
        { FAKERNIC_SQ_SEND, 0, FAKERNIC_VENDOR_SQ_RSVD, 8,
          FAKERNIC_WC_LOC_QP_OP_ERR },
        { FAKERNIC_SQ_RDMA_READ, FAKERNIC_SQ_INLINE, 0, 8,
          FAKERNIC_WC_LOC_QP_OP_ERR },
        { FAKERNIC_SQ_ATOMIC_WRITE, 0, 0, 16, FAKERNIC_WC_LOC_LEN_ERR },
        { FAKERNIC_SQ_ATOMIC_FETCH_ADD, 0, 0, 16, FAKERNIC_WC_LOC_LEN_ERR },
        { FAKERNIC_SQ_SEND, 0, 0, 0x80000001, FAKERNIC_WC_LOC_LEN_ERR },
    };
    unsigned i;

    for (i = 0; i < TEST_COUNT(cases); i++) {
        Pair p;
        RoceSendWr wr;

        pair_init(&p, rc_service);
        wr = pair_wr(&p.a, i, cases[i].opcode, 0, cases[i].length);
        wr.flags = cases[i].flags;
        wr.format_error = cases[i].format_error;
        pair_send(&p, &p.a, &wr);
        pair_run(&p);
        CHECK_EQ(p.a.host->completion_count, 1);
        CHECK_EQ(p.a.host->completions[0].status, cases[i].status);
        CHECK_EQ(p.a.host->completions[0].wqe_index, i);
        CHECK_EQ(p.a.sent, 0);
        pair_free(&p);
    }
}

static void atomics_return_the_original_value(void)
{
    Pair p;
    RoceSendWr wr;

    pair_init(&p, rc_service);
    bytes_store64(p.b.memory + 64, 40);
    wr = pair_wr(&p.a, 0, FAKERNIC_SQ_ATOMIC_FETCH_ADD, 0, 8);
    wr.atomic.remote_address = PAIR_MEMORY + 64;
    wr.atomic.rkey = p.b.key;
    wr.atomic.swap_or_add = 2;
    pair_send(&p, &p.a, &wr);
    wr.opcode = FAKERNIC_SQ_ATOMIC_CMP_SWAP;
    wr.index = 1;
    wr.sge[0].address += 8;
    wr.atomic.compare = 42;
    wr.atomic.swap_or_add = 7;
    pair_send(&p, &p.a, &wr);
    pair_run(&p);
    CHECK_EQ(bytes_load64(p.a.memory), 40);
    CHECK_EQ(bytes_load64(p.a.memory + 8), 42);
    CHECK_EQ(bytes_load64(p.b.memory + 64), 7);
    pair_expect(&p.a, FAKERNIC_CQE_FETCH_ADD, 0, 0);
    pair_expect(&p.a, FAKERNIC_CQE_CMP_SWAP, 1, 0);
    pair_free(&p);
}

/* The response is lost. The peer repeats it, but adds only once. */
static void atomic_is_executed_once(void)
{
    Pair p;
    RoceSendWr wr;

    pair_init(&p, rc_service);
    bytes_store64(p.b.memory + 64, 40);
    wr = pair_wr(&p.a, 0, FAKERNIC_SQ_ATOMIC_FETCH_ADD, 0, 8);
    wr.atomic.remote_address = PAIR_MEMORY + 64;
    wr.atomic.rkey = p.b.key;
    wr.atomic.swap_or_add = 2;
    pair_lose(&p.b, 1);
    pair_send(&p, &p.a, &wr);
    pair_run_until(&p, 1000000000);
    CHECK_EQ(bytes_load64(p.a.memory), 40);
    CHECK_EQ(bytes_load64(p.b.memory + 64), 42);
    pair_expect(&p.a, FAKERNIC_CQE_FETCH_ADD, 0, 0);
    CHECK_EQ(pair_stat(&p.b, FAKERNIC_STAT_DUPLICATES), 1);
    pair_free(&p);
}

/* An ATOMIC_WRITE is stored once, even if its response is lost. */
static void atomic_write_is_executed_once(void)
{
    Pair p;
    RoceSendWr wr;
    unsigned frames;

    pair_init(&p, rc_service);
    pair_fill(p.a.memory, 8, 9);
    pair_lose(&p.b, 1);
    wr = pair_rdma_wr(&p.a, &p.b, 0, FAKERNIC_SQ_ATOMIC_WRITE, 0, 8);
    pair_send(&p, &p.a, &wr);
    pair_run(&p);
    CHECK_MEM(p.b.memory, p.a.memory, 8);
    memset(p.b.memory, 0, 8);
    frames = p.b.sent;
    pair_run_until(&p, 1000000000);
    CHECK_EQ(p.b.memory[0], 0);
    CHECK_EQ(p.b.sent, frames + 1);
    pair_expect(&p.a, FAKERNIC_CQE_ATOMIC_WRITE, 0, 0);
    wr.rdma.remote_address += 4;
    pair_send(&p, &p.a, &wr);
    pair_run(&p);
    pair_expect(&p.a, FAKERNIC_CQE_ATOMIC_WRITE, 0, FAKERNIC_WC_LOC_QP_OP_ERR);
    pair_free(&p);
}

/* The middle of a READ response is lost: only the rest is requested again. */
static void lost_read_response_resumes_at_the_gap(void)
{
    PAIR(p, rc_service);

    pair_fill(p.b.memory, 2560, 2);
    pair_lose(&p.b, 4);
    pair_post_rdma(&p, 0, FAKERNIC_SQ_RDMA_READ, 0, 2560);
    pair_run(&p);
    CHECK_MEM(p.a.memory, p.b.memory, 2560);
    pair_expect(&p.a, FAKERNIC_CQE_RDMA_READ, 0, 0);
    CHECK_EQ(p.now, 0);
    CHECK_EQ(pair_stat(&p.a, FAKERNIC_STAT_IMPLIED_NAK), 1);
}

static void reads_are_limited_to_max_rd_atomic(void)
{
    uint8_t buf[ROCE_FRAME_MAX];
    RocePacket packet;
    unsigned i;
    PAIR(p, rc_service);

    for (i = 0; i < 6; i++) {
        pair_post_rdma(&p, i, FAKERNIC_SQ_RDMA_READ, 0, 64);
    }
    for (i = 0; pair_take(&p, &p.a, buf, &packet); i++) {
        CHECK_EQ(pair_opcode(&packet), ROCE_BTH_READ_REQUEST);
    }
    CHECK_EQ(i, 4);
}

/* The responder refuses more READs than it has granted. */
static void responder_enforces_max_dest_rd_atomic(void)
{
    RocePacket packet;
    Pair p;
    unsigned i;

    pair_init(&p, rc_service);
    for (i = 0; i < 5; i++) {
        packet = pair_packet(&p.a, &p.b, ROCE_BTH_READ_REQUEST, PAIR_PSN + i);
        packet.reth.address = PAIR_MEMORY;
        packet.reth.rkey = p.b.key;
        packet.reth.length = 64;
        pair_inject(&p, &p.b, &packet, NULL, 0);
    }
    CHECK_EQ(pair_stat(&p.b, FAKERNIC_STAT_TX_NAK_INVALID_REQUEST), 1);
    pair_run(&p);
    CHECK_EQ(pair_state(&p.b), FAKERNIC_QPS_ERR);
    pair_expect_event(&p.b, FAKERNIC_EVENT_QP_REQUEST_ERROR);
    CHECK_EQ(p.b.host->events[0].vendor_err, FAKERNIC_VENDOR_REQUEST_READS);
    pair_free(&p);
}

/* The counter of used resources wraps without losing any. */
static void resource_counter_wraps_without_loss(void)
{
    unsigned i;
    PAIR(p, rc_service);

    p.b.r->qps[p.b.qpn]->rs.res_pi = 0x3ffffffe;
    pair_fill(p.b.memory, 1000, 4);
    pair_lose(&p.b, 3);
    for (i = 0; i < 6; i++) {
        pair_post_rdma(&p, i, FAKERNIC_SQ_RDMA_READ, 8 * i, 8);
    }
    pair_run_until(&p, 1000000000);
    for (i = 0; i < 6; i++) {
        pair_expect(&p.a, FAKERNIC_CQE_RDMA_READ, i, FAKERNIC_WC_SUCCESS);
    }
    CHECK_MEM(p.a.memory, p.b.memory, 48);
    CHECK(p.b.r->qps[p.b.qpn]->rs.res_pi < 100);
}

static void fence_waits_for_reads(void)
{
    uint8_t buf[ROCE_FRAME_MAX];
    RocePacket packet;
    RoceSendWr wr;
    PAIR(p, rc_service);

    pair_post_rdma(&p, 0, FAKERNIC_SQ_RDMA_READ, 0, 64);
    wr = pair_rdma_wr(&p.a, &p.b, 1, FAKERNIC_SQ_RDMA_WRITE, 0, 64);
    wr.flags |= FAKERNIC_SQ_FENCE;
    pair_send(&p, &p.a, &wr);
    CHECK(pair_take(&p, &p.a, buf, &packet));
    CHECK(!pair_take(&p, &p.a, buf, &packet));
    packet = pair_packet(&p.b, &p.a, ROCE_BTH_READ_RESPONSE_ONLY, PAIR_PSN);
    packet.aeth.syndrome = ROCE_AETH_ACK;
    memset(buf, 1, 64);
    pair_inject(&p, &p.a, &packet, buf, 64);
    CHECK(pair_take(&p, &p.a, buf, &packet));
    CHECK_EQ(pair_opcode(&packet), ROCE_BTH_WRITE_ONLY);
}

static void packets_in_flight_are_bounded(void)
{
    uint8_t buf[ROCE_FRAME_MAX];
    RocePacket packet;
    unsigned asked = 0;
    unsigned i;
    PAIR(p, rc_service);

    pair_post_rdma(&p, 0, FAKERNIC_SQ_RDMA_WRITE, 0, PAIR_SIZE);
    for (i = 0; pair_take(&p, &p.a, buf, &packet); i++) {
        asked += packet.ack_req;
        CHECK(packet.mig_req);
    }
    CHECK_EQ(i, ROCE_WINDOW_REQUESTS);
    CHECK_EQ(asked, ROCE_WINDOW_REQUESTS / ROCE_ACK_EVERY);
}

/* Bad sequences of opcodes and lengths from a peer: NAK, event, ERR. */
static void malformed_requests_are_refused(void)
{
    static const struct {
        uint8_t first, second;
        size_t len;
        uint32_t reth_length;
        uint16_t vendor_err;
    } cases[] = {
        { 0xff, ROCE_BTH_WRITE_MIDDLE, 256, 0,
          FAKERNIC_VENDOR_REQUEST_OPCODE },
        { ROCE_BTH_WRITE_FIRST, ROCE_BTH_SEND_LAST, 256, 600,
          FAKERNIC_VENDOR_REQUEST_OPCODE },
        { ROCE_BTH_WRITE_FIRST, ROCE_BTH_WRITE_ONLY, 256, 600,
          FAKERNIC_VENDOR_REQUEST_OPCODE },
        { ROCE_BTH_WRITE_FIRST, ROCE_BTH_WRITE_MIDDLE, 255, 600,
          FAKERNIC_VENDOR_REQUEST_LENGTH },
        { ROCE_BTH_WRITE_FIRST, ROCE_BTH_WRITE_LAST, 100, 600,
          FAKERNIC_VENDOR_REQUEST_LENGTH },
        { ROCE_BTH_WRITE_FIRST, ROCE_BTH_WRITE_LAST, 0, 256,
          FAKERNIC_VENDOR_REQUEST_LENGTH },
        { 0xff, ROCE_BTH_WRITE_ONLY, 300, 300,
          FAKERNIC_VENDOR_REQUEST_LENGTH },
        { 0xff, ROCE_BTH_WRITE_ONLY, 20, 0x80000001,
          FAKERNIC_VENDOR_REQUEST_LENGTH },
    };
    uint8_t data[512] = { 1 };
    unsigned i;

    for (i = 0; i < TEST_COUNT(cases); i++) {
        RocePacket packet;
        uint32_t psn = PAIR_PSN;
        PAIR(p, rc_service);

        if (cases[i].first != 0xff) {
            packet = pair_packet(&p.a, &p.b, cases[i].first, psn++);
            packet.reth.address = PAIR_MEMORY;
            packet.reth.rkey = p.b.key;
            packet.reth.length = cases[i].reth_length;
            pair_inject(&p, &p.b, &packet, data, 256);
        }
        packet = pair_packet(&p.a, &p.b, cases[i].second, psn);
        packet.reth.address = PAIR_MEMORY;
        packet.reth.rkey = p.b.key;
        packet.reth.length = cases[i].reth_length;
        pair_inject(&p, &p.b, &packet, data, cases[i].len);
        pair_run(&p);
        CHECK_EQ(pair_state(&p.b), FAKERNIC_QPS_ERR);
        CHECK_EQ(p.b.host->event_count, 1);
        CHECK_EQ(p.b.host->events[0].vendor_err, cases[i].vendor_err);
    }
}

/* The ends have different path MTUs: each refuses packets longer than its
 * own. */
static void packets_above_own_path_mtu_are_refused(void)
{
    static const struct {
        uint8_t opcode, status;
        uint16_t vendor_err;
        bool recv;
    } cases[] = {
        { FAKERNIC_SQ_SEND, FAKERNIC_WC_REM_INV_REQ_ERR,
          FAKERNIC_VENDOR_NAK_INVALID_REQUEST, true },
        { FAKERNIC_SQ_RDMA_WRITE, FAKERNIC_WC_REM_INV_REQ_ERR,
          FAKERNIC_VENDOR_NAK_INVALID_REQUEST, false },
        { FAKERNIC_SQ_RDMA_READ, FAKERNIC_WC_BAD_RESP_ERR,
          FAKERNIC_VENDOR_BAD_RESPONSE, false },
    };
    unsigned i;

    for (i = 0; i < TEST_COUNT(cases); i++) {
        RoceQpAttr attr = { .state = FAKERNIC_QPS_RESET };
        PAIR(p, FAKERNIC_QP_RC);

        CHECK_EQ(pair_modify(&p.a, 0, FAKERNIC_QP_ATTR_STATE, &attr), 0);
        attr = pair_attr(&p.b);
        attr.path_mtu = FAKERNIC_MTU_512;
        attr.state = FAKERNIC_QPS_INIT;
        CHECK_EQ(pair_modify(&p.a, 0, PAIR_INIT_MASK, &attr), 0);
        attr.state = FAKERNIC_QPS_RTR;
        CHECK_EQ(pair_modify(&p.a, 0, PAIR_RTR_MASK, &attr), 0);
        attr.state = FAKERNIC_QPS_RTS;
        CHECK_EQ(pair_modify(&p.a, 0, PAIR_RTS_MASK, &attr), 0);
        pair_recv(&p.b, 4, 0, 1000);
        pair_post_rdma(&p, 0, cases[i].opcode, 4096, 1000);
        pair_run(&p);
        CHECK_EQ(p.a.host->completions[0].status, cases[i].status);
        CHECK_EQ(p.a.host->completions[0].vendor_err, cases[i].vendor_err);
        CHECK_EQ(pair_state(&p.a), FAKERNIC_QPS_ERR);
        if (cases[i].recv) {
            pair_expect(&p.b, FAKERNIC_CQE_RECV, 4,
                        FAKERNIC_WC_REM_INV_REQ_ERR);
            CHECK_EQ(p.b.host->completions[0].vendor_err,
                     FAKERNIC_VENDOR_REQUEST_LENGTH);
        } else if (cases[i].status == FAKERNIC_WC_REM_INV_REQ_ERR) {
            pair_expect_event(&p.b, FAKERNIC_EVENT_QP_REQUEST_ERROR);
            CHECK_EQ(p.b.host->events[0].vendor_err,
                     FAKERNIC_VENDOR_REQUEST_LENGTH);
        }
    }
}

static void stray_responses_are_dropped(void)
{
    static const uint8_t opcodes[] = {
        ROCE_BTH_ACK, ROCE_BTH_READ_RESPONSE_ONLY, ROCE_BTH_ATOMIC_ACK,
    };
    RoceSendWr wr;
    RocePacket packet;
    unsigned i;
    PAIR(p, rc_service);

    wr = pair_rdma_wr(&p.a, &p.b, 0, FAKERNIC_SQ_RDMA_WRITE, 0, 64);
    p.a.mute = true;
    pair_send(&p, &p.a, &wr);
    pair_run(&p);
    for (i = 0; i < TEST_COUNT(opcodes); i++) {
        uint8_t data[16] = { 0 };

        packet = pair_packet(&p.b, &p.a, opcodes[i], PAIR_PSN + 1);
        packet.aeth.syndrome = ROCE_AETH_ACK;
        pair_inject(&p, &p.a, &packet, data, opcodes[i] ==
                    ROCE_BTH_READ_RESPONSE_ONLY ? 16 : 0);
        packet = pair_packet(&p.b, &p.a, opcodes[i], PAIR_PSN - 1);
        packet.aeth.syndrome = ROCE_AETH_NAK | ROCE_NAK_REMOTE_ACCESS;
        pair_inject(&p, &p.a, &packet, data, opcodes[i] ==
                    ROCE_BTH_READ_RESPONSE_ONLY ? 16 : 0);
    }
    pair_expect_none(&p.a);
    CHECK_EQ(pair_stat(&p.a, FAKERNIC_STAT_DROP_RESPONSE), 6);
    CHECK_EQ(pair_state(&p.a), FAKERNIC_QPS_RTS);
}

static void misaddressed_packets_are_dropped(void)
{
    RocePacket packet;
    PAIR(p, rc_service);

    packet = pair_packet(&p.a, &p.b, ROCE_BTH_SEND_ONLY, PAIR_PSN);
    packet.sgid[15] = 9;
    pair_inject(&p, &p.b, &packet, NULL, 0);
    CHECK_EQ(pair_stat(&p.b, FAKERNIC_STAT_DROP_ADDRESS), 1);
    packet = pair_packet(&p.a, &p.b, ROCE_BTH_SEND_ONLY, PAIR_PSN);
    packet.pkey = 0x1234;
    pair_inject(&p, &p.b, &packet, NULL, 0);
    CHECK_EQ(pair_stat(&p.b, FAKERNIC_STAT_DROP_PKEY), 1);
    packet = pair_packet(&p.a, &p.b, ROCE_BTH_SEND_ONLY, PAIR_PSN);
    packet.dest_qpn = 0xabcdef;
    pair_inject(&p, &p.b, &packet, NULL, 0);
    CHECK_EQ(pair_stat(&p.b, FAKERNIC_STAT_DROP_QPN), 1);
    packet = pair_packet(&p.a, &p.b, ROCE_BTH_SEND_ONLY, PAIR_PSN);
    packet.opcode = ROCE_BTH_UC | ROCE_BTH_SEND_ONLY;
    pair_inject(&p, &p.b, &packet, NULL, 0);
    CHECK_EQ(pair_stat(&p.b, FAKERNIC_STAT_DROP_OPCODE), 1);
}

/* A region is destroyed during the response to a READ of it. */
static void region_destroyed_during_read_fails_it(void)
{
    uint8_t buf[ROCE_FRAME_MAX];
    RocePacket packet;
    PAIR(p, rc_service);

    pair_post_rdma(&p, 0, FAKERNIC_SQ_RDMA_READ, 0, 1000);
    CHECK(pair_step(&p, &p.a, &p.b));
    CHECK(pair_step(&p, &p.b, &p.a));
    CHECK_EQ(roce_mr_destroy(p.b.r, p.b.key), FAKERNIC_CMD_OK);
    pair_run(&p);
    pair_expect(&p.a, FAKERNIC_CQE_RDMA_READ, 0, FAKERNIC_WC_REM_ACCESS_ERR);
    pair_expect_event(&p.b, FAKERNIC_EVENT_QP_ACCESS_ERROR);
    CHECK(!pair_take(&p, &p.b, buf, &packet));
}

/*
 * A duplicate READ arrives after its response was used and the key destroyed.
 * It must not fail the connection.
 */
static void duplicate_read_of_destroyed_key_is_dropped(void)
{
    uint8_t buf[ROCE_FRAME_MAX];
    RocePacket packet;
    PAIR(p, FAKERNIC_QP_RC);

    pair_post_rdma(&p, 0, FAKERNIC_SQ_RDMA_READ, 0, 64);
    pair_run(&p);
    pair_expect(&p.a, FAKERNIC_CQE_RDMA_READ, 0, FAKERNIC_WC_SUCCESS);
    packet = pair_packet(&p.a, &p.b, ROCE_BTH_READ_REQUEST, PAIR_PSN);
    packet.reth.address = PAIR_MEMORY;
    packet.reth.rkey = p.b.key;
    packet.reth.length = 64;
    CHECK_EQ(roce_mr_destroy(p.b.r, p.b.key), FAKERNIC_CMD_OK);
    pair_inject(&p, &p.b, &packet, NULL, 0);
    CHECK(!pair_take(&p, &p.b, buf, &packet));
    CHECK_EQ(pair_state(&p.b), FAKERNIC_QPS_RTS);
    CHECK_EQ(pair_stat(&p.b, FAKERNIC_STAT_DUPLICATES), 1);
    CHECK_EQ(p.b.host->event_count, 0);
}

static RocePacket read_packet(const Pair *p, uint32_t psn, uint32_t length)
{
    RocePacket packet = pair_packet(&p->a, &p->b, ROCE_BTH_READ_REQUEST, psn);

    packet.reth.address = PAIR_MEMORY;
    packet.reth.rkey = p->b.key;
    packet.reth.length = length;
    return packet;
}

/* The next response of b has this PSN. */
static void expect_answer(Pair *p, uint32_t psn)
{
    uint8_t buf[ROCE_FRAME_MAX];
    RocePacket packet;

    REQUIRE(pair_take(p, &p->b, buf, &packet));
    CHECK_EQ(roce_opcode_info(packet.opcode)->operation,
             ROCE_OP_READ_RESPONSE);
    CHECK_EQ(packet.psn, psn & 0xffffff);
}

/*
 * A READ with an old PSN, but another address, length or key, is no duplicate.
 * It restarts no response, and does not corrupt the one in progress.
 */
static void changed_duplicate_read_is_ignored(void)
{
    uint8_t buf[ROCE_FRAME_MAX];
    RocePacket packet;
    unsigned i;
    PAIR(p, rc_service);

    packet = read_packet(&p, PAIR_PSN, 64);
    pair_inject(&p, &p.b, &packet, NULL, 0);
    expect_answer(&p, PAIR_PSN);
    packet = read_packet(&p, PAIR_PSN + 1, 8 * PAIR_MTU);
    pair_inject(&p, &p.b, &packet, NULL, 0);
    expect_answer(&p, PAIR_PSN + 1);
    for (i = 0; i < 6; i++) {
        packet = i < 3 ? read_packet(&p, PAIR_PSN, 64)
                       : read_packet(&p, PAIR_PSN + 1, 8 * PAIR_MTU);
        packet.reth.address += i % 3 == 0 ? 8 : 0;
        packet.reth.length += i % 3 == 1 ? 1 : 0;
        packet.reth.rkey ^= i % 3 == 2 ? 0x100 : 0;
        pair_inject(&p, &p.b, &packet, NULL, 0);
        expect_answer(&p, PAIR_PSN + 2 + i);
    }
    /* A true duplicate restarts its response and those behind it. */
    packet = read_packet(&p, PAIR_PSN, 64);
    pair_inject(&p, &p.b, &packet, NULL, 0);
    for (i = 0; i < 9; i++) {
        expect_answer(&p, PAIR_PSN + i);
    }
    CHECK(!pair_take(&p, &p.b, buf, &packet));
    CHECK_EQ(pair_state(&p.b), FAKERNIC_QPS_RTS);
    CHECK_EQ(pair_stat(&p.b, FAKERNIC_STAT_DUPLICATES), 7);
}

/* Opcodes that RC and XRC reserve (IBTA table 38). */
static const uint8_t reserved_codes[] = {
    0x15, 0x18, 0x19, 0x1a, 0x1b, 0x1e, 0x1f,
};

/* IBTA 9.9.3, table 62: a NAK in the packet's turn. */
static void reserved_opcode_is_an_invalid_request(void)
{
    uint8_t buf[ROCE_FRAME_MAX];
    RocePacket packet;
    unsigned i;
    Pair p;

    for (i = 0; i < TEST_COUNT(reserved_codes); i++) {
        pair_init(&p, rc_service);
        packet = pair_packet(&p.a, &p.b, reserved_codes[i], PAIR_PSN - 1);
        pair_inject(&p, &p.b, &packet, "abcdefg", 7);
        CHECK_EQ(pair_stat(&p.b, FAKERNIC_STAT_DUPLICATES), 1);
        CHECK(!pair_take(&p, &p.b, buf, &packet));
        packet = pair_packet(&p.a, &p.b, reserved_codes[i], PAIR_PSN + 1);
        pair_inject(&p, &p.b, &packet, NULL, 0);
        REQUIRE(pair_take(&p, &p.b, buf, &packet));
        CHECK_EQ(packet.aeth.syndrome, ROCE_AETH_NAK | ROCE_NAK_SEQUENCE);
        CHECK_EQ(pair_state(&p.b), FAKERNIC_QPS_RTS);
        packet = pair_packet(&p.a, &p.b, reserved_codes[i], PAIR_PSN);
        pair_inject(&p, &p.b, &packet, "abcdefg", 7);
        REQUIRE(pair_take(&p, &p.b, buf, &packet));
        CHECK_EQ(pair_opcode(&packet), ROCE_BTH_ACK);
        CHECK_EQ(packet.psn, PAIR_PSN);
        CHECK_EQ(packet.aeth.syndrome,
                 ROCE_AETH_NAK | ROCE_NAK_INVALID_REQUEST);
        pair_expect_event(&p.b, FAKERNIC_EVENT_QP_REQUEST_ERROR);
        CHECK_EQ(p.b.host->events[0].vendor_err,
                 FAKERNIC_VENDOR_REQUEST_OPCODE);
        CHECK_EQ(pair_state(&p.b), FAKERNIC_QPS_ERR);
        CHECK_EQ(pair_stat(&p.b, FAKERNIC_STAT_DROP_OPCODE), 0);
        pair_free(&p);
    }
}

/* A gigabyte on one QP does not delay a small message on another. */
static void long_transfer_does_not_delay_other_qp(void)
{
    uint8_t buf[ROCE_FRAME_MAX];
    RocePacket packet;
    RoceSendWr wr;
    size_t before = 0;
    uint32_t big;
    PAIR(p, rc_service);

    big = p.a.qpn;
    pair_create(&p.a, FAKERNIC_QP_RC);
    pair_connect(&p.a, &p.b, FAKERNIC_QP_RC);
    wr = pair_rdma_wr(&p.a, &p.b, 0, FAKERNIC_SQ_RDMA_WRITE, 0, PAIR_SIZE);
    fake_post_send(p.a.host, big, &wr);
    roce_post_send(p.a.r, 0, big);
    CHECK(pair_take(&p, &p.a, buf, &packet));
    pair_post_rdma(&p, 0, FAKERNIC_SQ_RDMA_WRITE, 0, 8);
    while (pair_take(&p, &p.a, buf, &packet) &&
           pair_opcode(&packet) != ROCE_BTH_WRITE_ONLY) {
        before += packet.payload_len;
    }
    /* The small message waits only for the rest of the big one's share. */
    CHECK(before < ROCE_SHARE_BYTES);
}

/* Sets the PSNs as after 'count' packets. */
static void skip_psns(Pair *p, uint32_t count)
{
    RoceSendq *sq = &roce_qp_find(p->a.r, p->a.qpn)->sq;
    RoceResponder *rs = &roce_qp_find(p->b.r, p->b.qpn)->rs;

    CHECK_EQ(sq->una, sq->next_psn);
    CHECK_EQ(sq->una, rs->epsn);
    rs->epsn = roce_psn_add(rs->epsn, count);
    sq->una = sq->tx_psn = sq->high = sq->next_psn = rs->epsn;
}

/* An old READ whose PSN is half of all PSNs away is not taken for a new one. */
static void psns_half_a_range_old_do_not_match_reads(void)
{
    static const uint32_t distances[] = { 0x7fff00, 0x900000, 0xfff000 };
    unsigned i;
    Pair p;

    for (i = 0; i < TEST_COUNT(distances); i++) {
        pair_init(&p, rc_service);
        pair_post_rdma(&p, 1, FAKERNIC_SQ_RDMA_READ, 0, 64);
        pair_run(&p);
        pair_expect(&p.a, FAKERNIC_CQE_RDMA_READ, 1, FAKERNIC_WC_SUCCESS);
        skip_psns(&p, distances[i]);
        pair_lose(&p.b, 1);
        pair_post_rdma(&p, 2, FAKERNIC_SQ_RDMA_WRITE, 0, 64);
        pair_run_until(&p, 10000000000);
        pair_expect(&p.a, FAKERNIC_CQE_RDMA_WRITE, 2, FAKERNIC_WC_SUCCESS);
        pair_free(&p);
    }
}

/* After a wrap of the PSNs, an old READ's range is not taken for that of a new
 * atomic. */
static void psn_wrap_does_not_match_old_reads(void)
{
    RoceSendWr wr;
    PAIR(p, rc_service);

    pair_post_rdma(&p, 1, FAKERNIC_SQ_RDMA_READ, 0, 2560);
    pair_run(&p);
    pair_expect(&p.a, FAKERNIC_CQE_RDMA_READ, 1, FAKERNIC_WC_SUCCESS);
    skip_psns(&p, 0x1000000 - 5);
    pair_lose(&p.b, 1);
    wr = pair_rdma_wr(&p.a, &p.b, 2, FAKERNIC_SQ_ATOMIC_FETCH_ADD, 0, 8);
    wr.atomic.remote_address = PAIR_MEMORY;
    wr.atomic.rkey = p.b.key;
    wr.atomic.swap_or_add = 1;
    pair_send(&p, &p.a, &wr);
    pair_run_until(&p, 10000000000);
    pair_expect(&p.a, FAKERNIC_CQE_FETCH_ADD, 2, FAKERNIC_WC_SUCCESS);
    CHECK_EQ(p.b.memory[0], 1);
}

#define OVER_XRC(name)                     \
    static void name##_over_xrc(void)      \
    {                                      \
        rc_service = FAKERNIC_QP_XRC_INI;  \
        name();                            \
    }

OVER_XRC(send_arrives)
OVER_XRC(write_arrives)
OVER_XRC(read_arrives)
OVER_XRC(lengths_at_packet_boundaries)
OVER_XRC(inline_and_unsignaled)
OVER_XRC(loss_of_each_frame_is_recovered)
OVER_XRC(gap_is_nacked_once_without_a_timeout)
OVER_XRC(lost_ack_is_requested_again)
OVER_XRC(duplicate_is_acknowledged_on_request)
OVER_XRC(rnr_waits_for_a_receive)
OVER_XRC(ack_ends_an_rnr_wait)
OVER_XRC(rnr_retries_are_limited)
OVER_XRC(write_imm_waits_for_a_receive)
OVER_XRC(short_receive_fails_both_sides)
OVER_XRC(receive_without_memory_is_a_remote_operation_error)
OVER_XRC(receive_may_be_longer_than_its_region)
OVER_XRC(local_error_completes_in_order)
OVER_XRC(refused_work_requests)
OVER_XRC(atomics_return_the_original_value)
OVER_XRC(atomic_is_executed_once)
OVER_XRC(atomic_write_is_executed_once)
OVER_XRC(lost_read_response_resumes_at_the_gap)
OVER_XRC(reads_are_limited_to_max_rd_atomic)
OVER_XRC(responder_enforces_max_dest_rd_atomic)
OVER_XRC(fence_waits_for_reads)
OVER_XRC(packets_in_flight_are_bounded)
OVER_XRC(malformed_requests_are_refused)
OVER_XRC(stray_responses_are_dropped)
OVER_XRC(misaddressed_packets_are_dropped)
OVER_XRC(region_destroyed_during_read_fails_it)
OVER_XRC(changed_duplicate_read_is_ignored)
OVER_XRC(reserved_opcode_is_an_invalid_request)
OVER_XRC(long_transfer_does_not_delay_other_qp)
OVER_XRC(psns_half_a_range_old_do_not_match_reads)
OVER_XRC(psn_wrap_does_not_match_old_reads)

/* The network duplicates a NAK: one loss costs one retry (C9-115). */
static void copies_of_a_nak_cost_one_try(uint8_t syndrome, uint8_t retry_left,
                                         uint8_t rnr_left)
{
    uint8_t buf[ROCE_FRAME_MAX];
    RocePacket packet;
    unsigned i;
    PAIR(p, FAKERNIC_QP_RC);

    pair_post_rdma(&p, 1, FAKERNIC_SQ_RDMA_WRITE, 0, 3 * PAIR_MTU);
    for (i = 0; i < 3; i++) {
        REQUIRE(pair_take(&p, &p.a, buf, &packet));
    }
    packet = pair_packet(&p.b, &p.a, ROCE_BTH_ACK, PAIR_PSN + 1);
    packet.aeth.syndrome = syndrome;
    for (i = 0; i < 5; i++) {
        pair_inject(&p, &p.a, &packet, NULL, 0);
        /* The requester goes back to the missing packet at once. */
        if (pair_qp(&p.a)->retry.mode == ROCE_RETRY_SENDING) {
            RocePacket again;

            CHECK_EQ(pair_take(&p, &p.a, buf, &again), i < 2);
        }
    }
    CHECK_EQ(pair_state(&p.a), FAKERNIC_QPS_RTS);
    CHECK_EQ(pair_qp(&p.a)->retry.retry_left, retry_left);
    CHECK_EQ(pair_qp(&p.a)->retry.rnr_left, rnr_left);
    /* An older NAK, of an acknowledged packet, costs none. */
    packet.psn = PAIR_PSN & 0xffffff;
    pair_inject(&p, &p.a, &packet, NULL, 0);
    CHECK_EQ(pair_qp(&p.a)->retry.retry_left, retry_left);
    CHECK_EQ(pair_qp(&p.a)->retry.rnr_left, rnr_left);
}

static void duplicate_sequence_naks_use_one_retry(void)
{
    copies_of_a_nak_cost_one_try(ROCE_AETH_NAK | ROCE_NAK_SEQUENCE, 2, 3);
}

static void duplicate_rnr_naks_use_one_retry(void)
{
    copies_of_a_nak_cost_one_try(ROCE_AETH_RNR | 12, 3, 2);
}

/* Copies of an RNR NAK arrive after the wait, before the retransmission. */
static void late_duplicate_rnr_naks_use_no_retry(void)
{
    RocePacket packet;
    unsigned i;
    PAIR(p, FAKERNIC_QP_RC);

    pair_post(&p, 1, FAKERNIC_SQ_SEND, 0, 64);
    pair_run(&p);
    CHECK_EQ(pair_qp(&p.a)->retry.rnr_left, 2);
    p.now = roce_deadline(p.a.r);
    roce_tick(p.a.r, p.now);
    packet = pair_packet(&p.b, &p.a, ROCE_BTH_ACK, PAIR_PSN);
    packet.aeth.syndrome = ROCE_AETH_RNR | 12;
    for (i = 0; i < 5; i++) {
        pair_inject(&p, &p.a, &packet, NULL, 0);
        CHECK_EQ(pair_qp(&p.a)->retry.rnr_left, 2);
    }
    CHECK_EQ(pair_state(&p.a), FAKERNIC_QPS_RTS);
    /* The copies do not start another wait. */
    pair_recv(&p.b, 1, 0, 64);
    pair_run(&p);
    pair_expect(&p.a, FAKERNIC_CQE_SEND, 1, FAKERNIC_WC_SUCCESS);
}

/* The last packets are lost and no later packet shows that: a probe does. */
static void loss_of_last_packets_is_found_by_probe(void)
{
    RoceSendWr wr;
    RoceTime before;
    PAIR(p, FAKERNIC_QP_RC);

    wr = pair_rdma_wr(&p.a, &p.b, 1, FAKERNIC_SQ_RDMA_WRITE, 0, 5 * PAIR_MTU);
    pair_send(&p, &p.a, &wr);
    pair_run(&p);
    pair_expect(&p.a, FAKERNIC_CQE_RDMA_WRITE, 1, FAKERNIC_WC_SUCCESS);
    pair_fill(p.a.memory, 5 * PAIR_MTU, 3);
    pair_lose(&p.a, 4);
    pair_lose(&p.a, 5);
    before = p.now;
    wr.index = 2;
    pair_send(&p, &p.a, &wr);
    pair_run_until(&p, before + 2 * ROCE_PROBE_TRUST_NS);
    pair_expect(&p.a, FAKERNIC_CQE_RDMA_WRITE, 2, FAKERNIC_WC_SUCCESS);
    CHECK_MEM(p.b.memory, p.a.memory, 5 * PAIR_MTU);
    CHECK_EQ(pair_stat(&p.a, FAKERNIC_STAT_TIMEOUTS), 0);
    CHECK_EQ(pair_stat(&p.b, FAKERNIC_STAT_TX_SEQ_NAK), 1);
}

/* The table "How long a dead peer takes" of the data sheet. */
static void dead_peer_is_detected_after_documented_time(void)
{
    static const struct {
        uint8_t timeout, retry_cnt;
        RoceTime us;
    } rows[] = {
        { 8, 7, 33554 }, { 12, 7, 536870 }, { 13, 7, 1073741 },
        { 14, 7, 2000000 }, { 14, 3, 1000000 }, { 16, 7, 2147483 },
        { 18, 3, 4294967 }, { 20, 7, 34359738 },
    };

    for (unsigned i = 0; i < TEST_COUNT(rows); i++) {
        const RoceTime end = rows[i].us * 1000;
        PAIR(p, FAKERNIC_QP_RC);

        pair_qp(&p.a)->attr.timeout = rows[i].timeout;
        pair_qp(&p.a)->attr.retry_cnt = rows[i].retry_cnt;
        roce_retry_refill(&pair_qp(&p.a)->retry, &pair_qp(&p.a)->attr);
        CHECK_EQ(roce_qp_destroy(p.b.r, p.b.qpn), FAKERNIC_CMD_OK);
        pair_post_rdma(&p, 1, FAKERNIC_SQ_RDMA_WRITE, 0, 64);
        pair_run_until(&p, end - 1);
        pair_expect_none(&p.a);
        pair_run_until(&p, end + 1000000);
        pair_expect(&p.a, FAKERNIC_CQE_RDMA_WRITE, 1,
                    FAKERNIC_WC_RETRY_EXC_ERR);
        CHECK_EQ(pair_stat(&p.a, FAKERNIC_STAT_TIMEOUTS),
                 rows[i].retry_cnt + 1);
    }
}

/* Loses the last of 'packets' packets. Returns whether the path counts as
 * lossy. */
static bool silence_makes_lossy(unsigned packets)
{
    RoceSendWr wr;
    bool lossy;
    PAIR(p, FAKERNIC_QP_RC);

    for (unsigned i = 1; i <= 2; i++) {
        wr = pair_rdma_wr(&p.a, &p.b, i, FAKERNIC_SQ_RDMA_WRITE, 0,
                          packets * PAIR_MTU);
        if (i == 2) {
            pair_lose(&p.a, packets);
        }
        pair_send(&p, &p.a, &wr);
        pair_run_until(&p, p.now + 2 * ROCE_PROBE_TRUST_NS);
        pair_expect(&p.a, FAKERNIC_CQE_RDMA_WRITE, i, FAKERNIC_WC_SUCCESS);
    }
    CHECK_EQ(pair_stat(&p.a, FAKERNIC_STAT_PROBES), 1);
    CHECK_EQ(pair_stat(&p.a, FAKERNIC_STAT_RETRANSMITS), 0);
    lossy = pair_qp(&p.a)->retry.lossy;
    return lossy;
}

static void silence_about_one_packet_marks_path_lossy(void)
{
    CHECK(silence_makes_lossy(1));
    CHECK(!silence_makes_lossy(2));
    CHECK(!silence_makes_lossy(5));
}

/*
 * The peer reports a missing packet once (C9-115). If the packet is lost again,
 * only a timer ends the silence. Without a measured round trip that is the
 * local ACK timer, and all later packets arrive in order.
 */
static void second_loss_is_found_by_timeout(void)
{
    RoceSendWr wr;
    PAIR(p, FAKERNIC_QP_RC);

    pair_fill(p.a.memory, 5 * PAIR_MTU, 3);
    wr = pair_rdma_wr(&p.a, &p.b, 1, FAKERNIC_SQ_RDMA_WRITE, 0, 5 * PAIR_MTU);
    /* 1, 2 (lost), 3, which causes the NAK; 2 (lost), 3, 4, 5 */
    pair_lose(&p.a, 2);
    pair_lose(&p.a, 4);
    pair_send(&p, &p.a, &wr);
    pair_run(&p);
    CHECK_EQ(p.a.sent, 7);
    CHECK_EQ(pair_stat(&p.b, FAKERNIC_STAT_TX_SEQ_NAK), 1);
    pair_expect_none(&p.a);
    pair_run_until(&p, 4 * ROCE_ACK_WAIT_FLOOR_NS);
    CHECK_EQ(pair_stat(&p.a, FAKERNIC_STAT_TIMEOUTS), 1);
    CHECK_EQ(pair_stat(&p.b, FAKERNIC_STAT_TX_SEQ_NAK), 1);
    CHECK_EQ(p.a.sent, 11);
    pair_expect(&p.a, FAKERNIC_CQE_RDMA_WRITE, 1, FAKERNIC_WC_SUCCESS);
    CHECK_MEM(p.b.memory, p.a.memory, 5 * PAIR_MTU);
}

/* A WRITE of one packet measures the round trip, which probes need. */
static void measure_trip(Pair *p)
{
    RoceSendWr wr = pair_rdma_wr(&p->a, &p->b, 1, FAKERNIC_SQ_RDMA_WRITE, 0,
                                 PAIR_MTU);

    pair_send(p, &p->a, &wr);
    pair_run(p);
    pair_expect(&p->a, FAKERNIC_CQE_RDMA_WRITE, 1, FAKERNIC_WC_SUCCESS);
}

/*
 * The same with probes before that timer. The first probe is the last packet,
 * which the peer does not answer, as it has sent its NAK. The second one is the
 * oldest packet, which is the missing one.
 */
static void second_loss_is_found_by_probes(void)
{
    RoceSendWr wr;
    RoceTime before;
    PAIR(p, FAKERNIC_QP_RC);

    measure_trip(&p);
    pair_fill(p.a.memory, 5 * PAIR_MTU, 3);
    pair_lose(&p.a, 2);
    pair_lose(&p.a, 4);
    wr = pair_rdma_wr(&p.a, &p.b, 2, FAKERNIC_SQ_RDMA_WRITE, 0, 5 * PAIR_MTU);
    before = p.now;
    pair_send(&p, &p.a, &wr);
    pair_run(&p);
    pair_expect_none(&p.a);
    CHECK_EQ(pair_stat(&p.b, FAKERNIC_STAT_TX_SEQ_NAK), 1);
    /* The probe of the last packet gets no answer. */
    p.now = roce_deadline(p.a.r);
    CHECK(p.now < before + ROCE_ACK_WAIT_FLOOR_NS);
    roce_tick(p.a.r, p.now);
    pair_run(&p);
    pair_expect_none(&p.a);
    CHECK_EQ(pair_stat(&p.b, FAKERNIC_STAT_TX_SEQ_NAK), 1);
    pair_run_until(&p, before + ROCE_ACK_WAIT_FLOOR_NS);
    pair_expect(&p.a, FAKERNIC_CQE_RDMA_WRITE, 2, FAKERNIC_WC_SUCCESS);
    CHECK_EQ(pair_stat(&p.a, FAKERNIC_STAT_TIMEOUTS), 0);
    CHECK_MEM(p.b.memory, p.a.memory, 5 * PAIR_MTU);
}

/* A probe requests each one again, so its duration is no round trip. */
static void lost_reads_do_not_lengthen_probe_interval(void)
{
    unsigned i;
    PAIR(p, FAKERNIC_QP_RC);

    for (i = 0; i < 5; i++) {
        if (i > 0) {
            pair_lose(&p.a, 1);
        }
        pair_post_rdma(&p, i, FAKERNIC_SQ_RDMA_READ, 0, PAIR_MTU);
        pair_run_until(&p, p.now + 4 * ROCE_ACK_WAIT_FLOOR_NS);
        pair_expect(&p.a, FAKERNIC_CQE_RDMA_READ, i, FAKERNIC_WC_SUCCESS);
    }
    CHECK_EQ(pair_stat(&p.a, FAKERNIC_STAT_TIMEOUTS), 0);
}

/* The source GID is missing for a while after the request was sent. */
static void probe_without_source_gid_is_no_error(void)
{
    RoceGid none = { .type = FAKERNIC_GID_NONE };
    uint8_t buf[ROCE_FRAME_MAX];
    bool loopback;
    PAIR(p, FAKERNIC_QP_RC);

    measure_trip(&p);
    pair_post_rdma(&p, 2, FAKERNIC_SQ_RDMA_WRITE, 0, PAIR_MTU);
    CHECK(pair_step(&p, &p.a, &p.b));
    CHECK_EQ(roce_gid_set(p.a.r, 0, &none), FAKERNIC_CMD_OK);
    p.now = roce_deadline(p.a.r);
    roce_tick(p.a.r, p.now);
    CHECK_EQ(pair_qp(&p.a)->retry.probes, 1);
    CHECK_EQ(roce_output(p.a.r, p.now, buf, &loopback), 0);
    CHECK_EQ(roce_gid_set(p.a.r, 0, &p.a.gid), FAKERNIC_CMD_OK);
    pair_run(&p);
    pair_expect(&p.a, FAKERNIC_CQE_RDMA_WRITE, 2, FAKERNIC_WC_SUCCESS);
    CHECK_EQ(pair_state(&p.a), FAKERNIC_QPS_RTS);
}

/* A packet, or its response, is always lost. Its attempts are 1, 2, 3, ... */
static void each_attempt_has_its_number(Pair *p, PairHost *mute, uint8_t opcode)
{
    RoceSendWr wr = pair_rdma_wr(&p->a, &p->b, 2, opcode, 0, PAIR_MTU);
    unsigned attempts = 0;

    mute->mute = true;
    pair_send(p, &p->a, &wr);
    while (pair_state(&p->a) == FAKERNIC_QPS_RTS) {
        PairHost *const hosts[] = { &p->a, &p->b };

        for (unsigned i = 0; i < 2; i++) {
            while (pair_step(p, hosts[i], hosts[1 - i])) {
                if (hosts[i] == mute) {
                    CHECK_EQ(roce_output_info(mute->r)->attempt, ++attempts);
                }
            }
        }
        p->now = roce_deadline(p->a.r);
        roce_tick(p->a.r, p->now);
    }
    CHECK(attempts > 3);
    CHECK_EQ(pair_stat(&p->a, FAKERNIC_STAT_RETRY_EXCEEDED), 1);
}

static void transmissions_are_counted(void)
{
    Pair p;

    for (unsigned i = 0; i < 2; i++) {
        pair_init(&p, FAKERNIC_QP_RC);
        pair_post_rdma(&p, 1, FAKERNIC_SQ_RDMA_WRITE, 0, PAIR_MTU);
        pair_run(&p);
        each_attempt_has_its_number(&p, i ? &p.b : &p.a,
                                    i ? FAKERNIC_SQ_RDMA_READ
                                      : FAKERNIC_SQ_RDMA_WRITE);
        pair_free(&p);
    }
}

/* Several READ responses behind a gap report one gap. */
static void duplicate_implied_naks_use_one_retry(void)
{
    uint8_t buf[ROCE_FRAME_MAX];
    uint8_t data[PAIR_MTU] = { 0 };
    RocePacket packet;
    unsigned i;
    PAIR(p, FAKERNIC_QP_RC);

    pair_post_rdma(&p, 1, FAKERNIC_SQ_RDMA_READ, 0, 4 * PAIR_MTU);
    REQUIRE(pair_take(&p, &p.a, buf, &packet));
    packet = pair_packet(&p.b, &p.a, ROCE_BTH_READ_RESPONSE_MIDDLE,
                         PAIR_PSN + 1);
    for (i = 0; i < 5; i++) {
        pair_inject(&p, &p.a, &packet, data, sizeof(data));
    }
    CHECK_EQ(pair_state(&p.a), FAKERNIC_QPS_RTS);
    CHECK_EQ(pair_qp(&p.a)->retry.retry_left, 2);
    CHECK_EQ(pair_stat(&p.a, FAKERNIC_STAT_IMPLIED_NAK), 1);
}

static const Test tests[] = {
    TEST(dead_peer_is_detected_after_documented_time),
    TEST(loss_of_last_packets_is_found_by_probe),
    TEST(silence_about_one_packet_marks_path_lossy),
    TEST(second_loss_is_found_by_timeout),
    TEST(second_loss_is_found_by_probes),
    TEST(lost_reads_do_not_lengthen_probe_interval),
    TEST(probe_without_source_gid_is_no_error),
    TEST(transmissions_are_counted),
    TEST(duplicate_sequence_naks_use_one_retry),
    TEST(duplicate_rnr_naks_use_one_retry),
    TEST(late_duplicate_rnr_naks_use_no_retry),
    TEST(duplicate_implied_naks_use_one_retry),
    TEST(send_arrives),
    TEST(write_arrives),
    TEST(read_arrives),
    TEST(lengths_at_packet_boundaries),
    TEST(inline_and_unsignaled),
    TEST(loss_of_each_frame_is_recovered),
    TEST(gap_is_nacked_once_without_a_timeout),
    TEST(lost_ack_is_requested_again),
    TEST(duplicate_is_acknowledged_on_request),
    TEST(silent_peer_exhausts_retries),
    TEST(rnr_waits_for_a_receive),
    TEST(ack_ends_an_rnr_wait),
    TEST(sequence_nak_after_rnr_nak_is_ignored),
    TEST(rnr_retries_are_limited),
    TEST(write_imm_waits_for_a_receive),
    TEST(wrong_key_fails_both_sides),
    TEST(short_receive_fails_both_sides),
    TEST(receive_without_memory_is_a_remote_operation_error),
    TEST(receive_may_be_longer_than_its_region),
    TEST(local_error_completes_in_order),
    TEST(refused_work_requests),
    TEST(atomics_return_the_original_value),
    TEST(atomic_is_executed_once),
    TEST(atomic_write_is_executed_once),
    TEST(lost_read_response_resumes_at_the_gap),
    TEST(reads_are_limited_to_max_rd_atomic),
    TEST(responder_enforces_max_dest_rd_atomic),
    TEST(resource_counter_wraps_without_loss),
    TEST(fence_waits_for_reads),
    TEST(packets_in_flight_are_bounded),
    TEST(malformed_requests_are_refused),
    TEST(packets_above_own_path_mtu_are_refused),
    TEST(stray_responses_are_dropped),
    TEST(misaddressed_packets_are_dropped),
    TEST(region_destroyed_during_read_fails_it),
    TEST(duplicate_read_of_destroyed_key_is_dropped),
    TEST(changed_duplicate_read_is_ignored),
    TEST(reserved_opcode_is_an_invalid_request),
    TEST(long_transfer_does_not_delay_other_qp),
    TEST(psns_half_a_range_old_do_not_match_reads),
    TEST(psn_wrap_does_not_match_old_reads),
    /* From here on rc_service is XRC. */
    TEST(send_arrives_over_xrc),
    TEST(write_arrives_over_xrc),
    TEST(read_arrives_over_xrc),
    TEST(lengths_at_packet_boundaries_over_xrc),
    TEST(inline_and_unsignaled_over_xrc),
    TEST(loss_of_each_frame_is_recovered_over_xrc),
    TEST(gap_is_nacked_once_without_a_timeout_over_xrc),
    TEST(lost_ack_is_requested_again_over_xrc),
    TEST(duplicate_is_acknowledged_on_request_over_xrc),
    TEST(rnr_waits_for_a_receive_over_xrc),
    TEST(ack_ends_an_rnr_wait_over_xrc),
    TEST(rnr_retries_are_limited_over_xrc),
    TEST(write_imm_waits_for_a_receive_over_xrc),
    TEST(short_receive_fails_both_sides_over_xrc),
    TEST(receive_without_memory_is_a_remote_operation_error_over_xrc),
    TEST(receive_may_be_longer_than_its_region_over_xrc),
    TEST(local_error_completes_in_order_over_xrc),
    TEST(refused_work_requests_over_xrc),
    TEST(atomics_return_the_original_value_over_xrc),
    TEST(atomic_is_executed_once_over_xrc),
    TEST(atomic_write_is_executed_once_over_xrc),
    TEST(lost_read_response_resumes_at_the_gap_over_xrc),
    TEST(reads_are_limited_to_max_rd_atomic_over_xrc),
    TEST(responder_enforces_max_dest_rd_atomic_over_xrc),
    TEST(fence_waits_for_reads_over_xrc),
    TEST(packets_in_flight_are_bounded_over_xrc),
    TEST(malformed_requests_are_refused_over_xrc),
    TEST(stray_responses_are_dropped_over_xrc),
    TEST(misaddressed_packets_are_dropped_over_xrc),
    TEST(region_destroyed_during_read_fails_it_over_xrc),
    TEST(changed_duplicate_read_is_ignored_over_xrc),
    TEST(reserved_opcode_is_an_invalid_request_over_xrc),
    TEST(long_transfer_does_not_delay_other_qp_over_xrc),
    TEST(psns_half_a_range_old_do_not_match_reads_over_xrc),
    TEST(psn_wrap_does_not_match_old_reads_over_xrc),
};

TEST_MAIN(tests)
