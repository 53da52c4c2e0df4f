/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * XRC (IBTA annex A14) where it differs from RC. The SRQ that a request names
 * provides receives, their CQ and the PD of keys. Initiator and target have one
 * direction each. test_rc.c tests the rest, over XRC, too.
 */
#include "pair.h"

#include "engine.h"

#define OTHER_SRQN 6u           /* of the same domain, with PD 2 and CQ 22 */
#define OTHER_PD 2u
#define OTHER_CQN 22u
#define FOREIGN_SRQN 7u         /* of another domain */

static uint32_t xrc_region(PairHost *h, RocePd pd, uint32_t access)
{
    RoceMrInit mr = {
        .type = FAKERNIC_MR_MEMORY,
        .page_shift = 20,
        .pd = pd,
        .access = access,
        .page_count = 1,
        .iova = PAIR_MEMORY,
        .length = PAIR_SIZE,
        .pages = malloc(sizeof(uint64_t)),
    };
    uint32_t key = 0;

    mr.pages[0] = PAIR_MEMORY;
    CHECK_EQ(roce_mr_create(h->r, &mr, &key), FAKERNIC_CMD_OK);
    return key;
}

#define XRC_ALL (FAKERNIC_ACCESS_LOCAL_WRITE | FAKERNIC_ACCESS_REMOTE_WRITE | \
                 FAKERNIC_ACCESS_REMOTE_READ |                               \
                 FAKERNIC_ACCESS_REMOTE_ATOMIC |                             \
                 FAKERNIC_ACCESS_FLUSH_GLOBAL)

static void xrc_init(Pair *p)
{
    pair_init(p, FAKERNIC_QP_XRC_INI);
    fake_srq_xrc(p->b.host, OTHER_SRQN, PAIR_XRCDN, OTHER_PD, OTHER_CQN);
    fake_srq_xrc(p->b.host, FOREIGN_SRQN, PAIR_XRCDN + 1, 1, 11);
}

static RoceRecvWr xrc_recv(const PairHost *h, uint32_t tag, uint32_t key,
                           uint32_t offset)
{
    RoceRecvWr wr = {
        .tag = tag, .sge_count = 1, .sge = { pair_sge(h, offset, 600) },
    };

    wr.sge[0].lkey = key;
    return wr;
}

static void receives_come_from_the_srq_in_packet(void)
{
    const RoceCompletion *c;
    RoceRecvWr recv;
    RoceSendWr wr;
    uint32_t key;
    Pair p;

    xrc_init(&p);
    key = xrc_region(&p.b, OTHER_PD, XRC_ALL);
    pair_fill(p.a.memory, 600, 1);
    recv = xrc_recv(&p.b, 1, p.b.key, 0x1000);
    fake_post_srq(p.b.host, PAIR_SRQN, &recv);
    recv = xrc_recv(&p.b, 2, key, 0x2000);
    fake_post_srq(p.b.host, OTHER_SRQN, &recv);
    wr = pair_wr(&p.a, 0, FAKERNIC_SQ_SEND, 0, 600);
    wr.xrc_srqn = OTHER_SRQN;
    pair_send(&p, &p.a, &wr);
    pair_run(&p);
    c = fake_next_completion(p.b.host);
    REQUIRE(c != NULL);
    CHECK_EQ(c->cqn, OTHER_CQN);
    CHECK_EQ(c->srqn, OTHER_SRQN);
    CHECK_EQ(c->qpn, p.b.qpn);
    CHECK_EQ(c->wqe_index, 2);
    CHECK_EQ(c->byte_count, 600);
    CHECK_MEM(p.b.memory + 0x2000, p.a.memory, 600);
    CHECK_EQ(p.b.memory[0x1000], 0);

    wr.xrc_srqn = PAIR_SRQN;
    wr.opcode = FAKERNIC_SQ_SEND_IMM;
    pair_send(&p, &p.a, &wr);
    pair_run(&p);
    c = fake_next_completion(p.b.host);
    REQUIRE(c != NULL);
    CHECK_EQ(c->cqn, 11);
    CHECK_EQ(c->srqn, PAIR_SRQN);
    CHECK_EQ(c->wqe_index, 1);
    CHECK_MEM(p.b.memory + 0x1000, p.a.memory, 600);
    pair_free(&p);
}

/* An unknown SRQ, one of another domain, a failed one, one without domain. */
static void unknown_srq_is_an_invalid_request(void)
{
    static const uint32_t srqns[] = { 0, 4, FOREIGN_SRQN, OTHER_SRQN, 9 };
    static const uint8_t opcodes[] = {
        FAKERNIC_SQ_SEND, FAKERNIC_SQ_RDMA_WRITE, FAKERNIC_SQ_RDMA_READ,
    };
    unsigned i;

    for (i = 0; i < TEST_COUNT(srqns) * TEST_COUNT(opcodes); i++) {
        uint8_t opcode = opcodes[i % TEST_COUNT(opcodes)];
        RoceRecvWr recv;
        RoceSendWr wr;
        Pair p;

        xrc_init(&p);
        fake_queue_break(p.b.host, FAKE_SRQ, OTHER_SRQN, 34);
        recv = xrc_recv(&p.b, 1, p.b.key, 0x1000);
        fake_post_srq(p.b.host, 9, &recv);
        fake_post_srq(p.b.host, FOREIGN_SRQN, &recv);
        pair_fill(p.a.memory, 100, 1);
        wr = pair_rdma_wr(&p.a, &p.b, 0, opcode, 0, 100);
        wr.xrc_srqn = srqns[i / TEST_COUNT(opcodes)];
        pair_send(&p, &p.a, &wr);
        pair_run(&p);
        CHECK_EQ(p.a.host->completions[0].status, FAKERNIC_WC_REM_INV_REQ_ERR);
        CHECK_EQ(p.b.host->completion_count, 0);
        pair_expect_event(&p.b, FAKERNIC_EVENT_QP_REQUEST_ERROR);
        CHECK_EQ(p.b.host->events[0].vendor_err, FAKERNIC_VENDOR_REQUEST_SRQ);
        CHECK_EQ(pair_state(&p.b), FAKERNIC_QPS_ERR);
        CHECK_EQ(pair_state(&p.a), FAKERNIC_QPS_ERR);
        CHECK_EQ(p.b.memory[0], 0);
        pair_free(&p);
    }
}

static void keys_belong_to_the_pd_of_the_srq(void)
{
    static const uint8_t opcodes[] = {
        FAKERNIC_SQ_RDMA_WRITE, FAKERNIC_SQ_RDMA_READ,
        FAKERNIC_SQ_ATOMIC_FETCH_ADD, FAKERNIC_SQ_ATOMIC_WRITE,
        FAKERNIC_SQ_FLUSH,
    };
    unsigned i;

    for (i = 0; i < 2 * TEST_COUNT(opcodes); i++) {
        uint8_t opcode = opcodes[i / 2];
        bool good = i % 2;
        RoceSendWr wr;
        uint32_t key;
        Pair p;

        xrc_init(&p);
        key = xrc_region(&p.b, OTHER_PD, XRC_ALL);
        wr = pair_rdma_wr(&p.a, &p.b, 0, opcode, 8, 8);
        wr.xrc_srqn = OTHER_SRQN;
        if (opcode == FAKERNIC_SQ_ATOMIC_FETCH_ADD) {
            wr.atomic.remote_address = PAIR_MEMORY + 8;
            wr.atomic.rkey = good ? key : p.b.key;
            wr.atomic.swap_or_add = 1;
            wr.atomic.compare = 0;
            wr.atomic.swap_mask_or_boundary = wr.atomic.compare_mask = 0;
        } else {
            wr.rdma.rkey = good ? key : p.b.key;
            wr.rdma.flush = opcode == FAKERNIC_SQ_FLUSH
                                ? FAKERNIC_FLUSH_GLOBAL : 0;
        }
        pair_send(&p, &p.a, &wr);
        pair_run(&p);
        CHECK_EQ(p.a.host->completion_count, 1);
        CHECK_EQ(p.a.host->completions[0].status,
                 good ? FAKERNIC_WC_SUCCESS : FAKERNIC_WC_REM_ACCESS_ERR);
        if (!good) {
            pair_expect_event(&p.b, FAKERNIC_EVENT_QP_ACCESS_ERROR);
            CHECK_EQ(p.b.host->events[0].vendor_err, FAKERNIC_VENDOR_KEY_PD);
        }
        pair_free(&p);
    }
}

/* SEND_INV invalidates only keys of the SRQ's PD. */
static void send_with_invalidate(void)
{
    RoceMrInit mr = {
        .type = FAKERNIC_MR_FAST_REG, .page_count = 1, .pd = OTHER_PD,
    };
    RoceRecvWr recv;
    RoceSendWr reg = { .opcode = FAKERNIC_SQ_REG_MR };
    RoceSendWr wr;
    uint32_t keys[2];
    Pair p;
    unsigned i;

    xrc_init(&p);
    for (i = 0; i < 2; i++) {
        mr.pd = i ? OTHER_PD : 1;
        CHECK_EQ(roce_mr_create(p.b.r, &mr, &keys[i]), FAKERNIC_CMD_OK);
        reg.reg_mr.iova = PAIR_MEMORY;
        reg.reg_mr.length = 4096;
        reg.reg_mr.key = keys[i];
        reg.reg_mr.access = XRC_ALL;
        reg.reg_mr.page_count = 1;
        reg.reg_mr.page_shift = 12;
        reg.reg_mr.pages = malloc(sizeof(uint64_t));
        reg.reg_mr.pages[0] = PAIR_MEMORY;
        CHECK_EQ(roce_mr_fast_reg(p.b.r->mrs, mr.pd, &reg), 0);
    }
    recv = (RoceRecvWr) { .tag = 8 };
    fake_post_srq(p.b.host, OTHER_SRQN, &recv);
    fake_post_srq(p.b.host, OTHER_SRQN, &recv);
    wr = pair_wr(&p.a, 0, FAKERNIC_SQ_SEND_INV, 0, 0);
    wr.xrc_srqn = OTHER_SRQN;
    wr.imm_or_key = keys[1];
    pair_send(&p, &p.a, &wr);
    pair_run(&p);
    pair_expect(&p.b, FAKERNIC_CQE_RECV, 8, FAKERNIC_WC_SUCCESS);
    CHECK_EQ(p.b.host->completions[0].flags, FAKERNIC_CQE_INV);
    wr.imm_or_key = keys[0];
    pair_send(&p, &p.a, &wr);
    pair_run(&p);
    pair_expect(&p.b, FAKERNIC_CQE_RECV, 8, FAKERNIC_WC_MW_BIND_ERR);
    CHECK_EQ(p.b.host->completions[1].vendor_err, FAKERNIC_VENDOR_KEY_PD);
    pair_expect(&p.a, FAKERNIC_CQE_SEND, 0, FAKERNIC_WC_SUCCESS);
    pair_expect(&p.a, FAKERNIC_CQE_SEND, 0, FAKERNIC_WC_REM_ACCESS_ERR);
    pair_free(&p);
}

static void srq_must_not_change_during_message(void)
{
    uint8_t data[PAIR_MTU] = { 0 };
    RocePacket packet;
    RoceRecvWr recv;
    Pair p;

    xrc_init(&p);
    recv = xrc_recv(&p.b, 1, p.b.key, 0);
    fake_post_srq(p.b.host, PAIR_SRQN, &recv);
    fake_post_srq(p.b.host, OTHER_SRQN, &recv);
    packet = pair_packet(&p.a, &p.b, ROCE_BTH_SEND_FIRST, PAIR_PSN);
    pair_inject(&p, &p.b, &packet, data, sizeof(data));
    packet = pair_packet(&p.a, &p.b, ROCE_BTH_SEND_LAST, PAIR_PSN + 1);
    packet.xrceth.srqn = OTHER_SRQN;
    pair_inject(&p, &p.b, &packet, data, 4);
    pair_expect(&p.b, FAKERNIC_CQE_RECV, 1, FAKERNIC_WC_REM_INV_REQ_ERR);
    CHECK_EQ(p.b.host->completions[0].vendor_err, FAKERNIC_VENDOR_REQUEST_SRQ);
    CHECK_EQ(p.b.host->completions[0].srqn, PAIR_SRQN);
    CHECK_EQ(fake_queue_left(p.b.host, FAKE_SRQ, OTHER_SRQN), 1);
    pair_run(&p);
    CHECK_EQ(pair_state(&p.b), FAKERNIC_QPS_ERR);
    pair_free(&p);
}

/* The SRQ is destroyed during a message: its receive does not complete. */
static void destroyed_srq_discards_receive_in_use(void)
{
    unsigned by_modify;

    for (by_modify = 0; by_modify < 2; by_modify++) {
        RoceQpAttr attr = { .state = FAKERNIC_QPS_ERR };
        uint8_t data[PAIR_MTU] = { 0 };
        RocePacket packet;
        Pair p;

        xrc_init(&p);
        pair_recv(&p.b, 1, 0, 600);
        packet = pair_packet(&p.a, &p.b, ROCE_BTH_SEND_FIRST, PAIR_PSN);
        pair_inject(&p, &p.b, &packet, data, sizeof(data));
        fake_srq_xrc(p.b.host, PAIR_SRQN, 0, 0, 0);
        if (by_modify) {
            CHECK_EQ(pair_modify(&p.b, 0, FAKERNIC_QP_ATTR_STATE, &attr),
                     FAKERNIC_CMD_OK);
        } else {
            packet = pair_packet(&p.a, &p.b, ROCE_BTH_SEND_LAST, PAIR_PSN + 1);
            pair_inject(&p, &p.b, &packet, data, 4);
        }
        pair_run(&p);
        pair_expect_none(&p.b);
        CHECK_EQ(pair_state(&p.b), FAKERNIC_QPS_ERR);
        pair_free(&p);
    }
}

/* The receive does not complete in a new SRQ with the same number either. */
static void reused_srq_number_completes_no_old_receive(void)
{
    RoceQpAttr attr = { .state = FAKERNIC_QPS_ERR };
    uint8_t data[PAIR_MTU] = { 0 };
    RocePacket packet;
    Pair p;

    xrc_init(&p);
    pair_recv(&p.b, 1, 0, 600);
    packet = pair_packet(&p.a, &p.b, ROCE_BTH_SEND_FIRST, PAIR_PSN);
    pair_inject(&p, &p.b, &packet, data, sizeof(data));
    fake_srq_xrc(p.b.host, PAIR_SRQN, PAIR_XRCDN, OTHER_PD, OTHER_CQN);
    CHECK_EQ(pair_modify(&p.b, 0, FAKERNIC_QP_ATTR_STATE, &attr),
             FAKERNIC_CMD_OK);
    pair_expect_none(&p.b);
    pair_free(&p);
}

/*
 * A READ is repeated after its PD was freed. Another owner has the number now,
 * and the peer must not read with that owner's keys.
 */
static void repeated_read_does_not_use_reused_pd(void)
{
    uint8_t buf[ROCE_FRAME_MAX];
    RocePacket packet;
    uint32_t key;
    Pair p;

    xrc_init(&p);
    pair_post_rdma(&p, 0, FAKERNIC_SQ_RDMA_READ, 0, 600);
    pair_run(&p);
    pair_expect(&p.a, FAKERNIC_CQE_RDMA_READ, 0, FAKERNIC_WC_SUCCESS);
    fake_srq_xrc(p.b.host, PAIR_SRQN, 0, 0, 0);
    CHECK_EQ(roce_mr_destroy(p.b.r, p.b.key), FAKERNIC_CMD_OK);
    CHECK_EQ(roce_pd_users(p.b.r, ROCE_PD(1, 0)), 0);
    key = xrc_region(&p.b, ROCE_PD(1, 1), XRC_ALL);
    packet = pair_packet(&p.a, &p.b, ROCE_BTH_READ_REQUEST, PAIR_PSN);
    packet.reth.address = PAIR_MEMORY;
    packet.reth.length = 600;
    packet.reth.rkey = key;
    pair_inject(&p, &p.b, &packet, NULL, 0);
    while (pair_take(&p, &p.b, buf, &packet)) {
        CHECK_EQ(packet.payload_len, 0);
    }
    CHECK_EQ(pair_state(&p.b), FAKERNIC_QPS_RTS);
    pair_free(&p);
}

/*
 * The SRQ of a message is destroyed, and a new SRQ of the same CQ gets its
 * number. The message must not fill its receive with keys of the new PD.
 */
static void message_does_not_continue_in_reused_srq(void)
{
    uint8_t data[PAIR_MTU];
    RocePacket packet;
    RoceRecvWr recv;
    uint32_t key;
    Pair p;

    xrc_init(&p);
    key = xrc_region(&p.b, ROCE_PD(1, 1), XRC_ALL);
    memset(data, 0x5a, sizeof(data));
    recv = xrc_recv(&p.b, 1, p.b.key, 0);
    recv.sge[0].length = PAIR_MTU;
    recv.sge[1] = (RoceSge) { PAIR_MEMORY + 4096, PAIR_MTU, key };
    recv.sge_count = 2;
    fake_post_srq(p.b.host, PAIR_SRQN, &recv);
    packet = pair_packet(&p.a, &p.b, ROCE_BTH_SEND_FIRST, PAIR_PSN);
    pair_inject(&p, &p.b, &packet, data, sizeof(data));
    fake_srq_xrc(p.b.host, PAIR_SRQN, PAIR_XRCDN, ROCE_PD(1, 1), 11);
    packet = pair_packet(&p.a, &p.b, ROCE_BTH_SEND_LAST, PAIR_PSN + 1);
    pair_inject(&p, &p.b, &packet, data, sizeof(data));
    CHECK_EQ(p.b.memory[4096], 0);
    pair_run(&p);
    pair_expect_none(&p.b);
    pair_expect_event(&p.b, FAKERNIC_EVENT_QP_REQUEST_ERROR);
    CHECK_EQ(p.b.host->events[0].vendor_err, FAKERNIC_VENDOR_REQUEST_SRQ);
    CHECK_EQ(pair_state(&p.b), FAKERNIC_QPS_ERR);
    pair_free(&p);
}

/*
 * A message waits for a page and has already fetched its receive when its SRQ
 * is destroyed. It then takes a receive of the next SRQ with that number.
 */
static void waiting_receive_ends_with_its_srq(void)
{
    RoceMrInit init = {
        .type = FAKERNIC_MR_ON_DEMAND, .page_shift = 12, .pd = 1,
        .access = FAKERNIC_ACCESS_LOCAL_WRITE | FAKERNIC_ACCESS_ON_DEMAND,
        .iova = PAIR_MEMORY, .length = PAIR_SIZE,
    };
    uint8_t data[8] = { 1 };
    RocePacket packet;
    RoceRecvWr recv;
    uint32_t paged;
    Pair p;

    xrc_init(&p);
    CHECK_EQ(roce_mr_create(p.b.r, &init, &paged), FAKERNIC_CMD_OK);
    recv = xrc_recv(&p.b, 1, paged, 0);
    fake_post_srq(p.b.host, PAIR_SRQN, &recv);
    packet = pair_packet(&p.a, &p.b, ROCE_BTH_SEND_ONLY, PAIR_PSN);
    pair_inject(&p, &p.b, &packet, data, sizeof(data));
    CHECK(fake_next_page_request(p.b.host) != NULL);
    fake_srq_xrc(p.b.host, PAIR_SRQN, PAIR_XRCDN, 1, 11);
    recv = xrc_recv(&p.b, 2, p.b.key, 64);
    fake_post_srq(p.b.host, PAIR_SRQN, &recv);
    pair_inject(&p, &p.b, &packet, data, sizeof(data));
    pair_expect(&p.b, FAKERNIC_CQE_RECV, 2, FAKERNIC_WC_SUCCESS);
    pair_expect_none(&p.b);
    CHECK_MEM(p.b.memory + 64, data, sizeof(data));
    pair_free(&p);
}

/* A repeated READ uses the PD of its own SRQ, not of the last one. */
static void repeated_read_uses_pd_of_its_srq(void)
{
    RoceRecvWr recv = { .tag = 1 };
    RocePacket packet;
    RoceSendWr wr;
    Pair p;

    xrc_init(&p);
    pair_fill(p.b.memory, 600, 9);
    fake_post_srq(p.b.host, OTHER_SRQN, &recv);
    pair_lose(&p.b, 2);
    pair_lose(&p.b, 3);
    pair_post_rdma(&p, 0, FAKERNIC_SQ_RDMA_READ, 0, 600);
    wr = pair_wr(&p.a, 1, FAKERNIC_SQ_SEND, 0, 0);
    wr.xrc_srqn = OTHER_SRQN;
    pair_send(&p, &p.a, &wr);
    pair_run_until(&p, 1000000000);
    pair_expect(&p.a, FAKERNIC_CQE_RDMA_READ, 0, FAKERNIC_WC_SUCCESS);
    pair_expect(&p.a, FAKERNIC_CQE_SEND, 1, FAKERNIC_WC_SUCCESS);
    pair_expect(&p.b, FAKERNIC_CQE_RECV, 1, FAKERNIC_WC_SUCCESS);
    pair_expect_none(&p.b);
    CHECK_MEM(p.a.memory, p.b.memory, 600);
    /* A READ with an old PSN that was never used gets no response. */
    packet = pair_packet(&p.a, &p.b, ROCE_BTH_READ_REQUEST, PAIR_PSN - 1);
    packet.reth.length = 600;
    pair_inject(&p, &p.b, &packet, NULL, 0);
    CHECK(pair_stat(&p.b, FAKERNIC_STAT_DUPLICATES) >= 2);
    pair_free(&p);
}

/* Neither half accepts packets for the other one, or packets of RC. */
static void each_half_rejects_packets_of_the_other(void)
{
    RocePacket packet;
    Pair p;

    xrc_init(&p);
    packet = pair_packet(&p.b, &p.a, ROCE_BTH_SEND_ONLY, PAIR_PSN);
    pair_inject(&p, &p.a, &packet, NULL, 0);
    CHECK_EQ(pair_stat(&p.a, FAKERNIC_STAT_DROP_OPCODE), 1);
    packet = pair_packet(&p.a, &p.b, ROCE_BTH_ACK, PAIR_PSN);
    pair_inject(&p, &p.b, &packet, NULL, 0);
    CHECK_EQ(pair_stat(&p.b, FAKERNIC_STAT_DROP_OPCODE), 1);
    packet = pair_packet(&p.a, &p.b, ROCE_BTH_SEND_ONLY, PAIR_PSN);
    packet.opcode = ROCE_BTH_SEND_ONLY;
    pair_inject(&p, &p.b, &packet, NULL, 0);
    CHECK_EQ(pair_stat(&p.b, FAKERNIC_STAT_DROP_OPCODE), 2);
    CHECK_EQ(pair_state(&p.b), FAKERNIC_QPS_RTS);
    /* A doorbell for a QP without a send queue. */
    roce_post_send(p.b.r, 0, p.b.qpn);
    pair_run(&p);
    pair_expect_none(&p.b);
    pair_free(&p);
}

/* Every request packet has an XRCETH; responses have none. */
static void xrc_packets_have_an_xrceth(void)
{
    uint8_t buf[ROCE_FRAME_MAX];
    RocePacket packet;
    unsigned i;
    Pair p;

    xrc_init(&p);
    pair_post_rdma(&p, 0, FAKERNIC_SQ_RDMA_WRITE, 0, 600);
    pair_post_rdma(&p, 1, FAKERNIC_SQ_RDMA_READ, 0, 600);
    for (i = 0; i < 4; i++) {
        static const uint8_t want[] = {
            ROCE_BTH_WRITE_FIRST, ROCE_BTH_WRITE_MIDDLE, ROCE_BTH_WRITE_LAST,
            ROCE_BTH_READ_REQUEST,
        };
        size_t len;

        REQUIRE(pair_take(&p, &p.a, buf, &packet));
        CHECK_EQ(packet.opcode, ROCE_BTH_XRC | want[i]);
        CHECK_EQ(packet.xrceth.srqn, PAIR_SRQN);
        CHECK_EQ(packet.dest_qpn, p.b.qpn);
        len = (size_t)(packet.payload - buf) + packet.payload_len +
              (-packet.payload_len & 3) + ROCE_ICRC_SIZE;
        CHECK_EQ(roce_input(p.b.r, 0, buf, len), ROCE_INPUT_TAKEN);
    }
    /* The first packet of the READ response acknowledges the WRITE. */
    for (i = 0; i < 3; i++) {
        static const uint8_t want[] = {
            ROCE_BTH_READ_RESPONSE_FIRST, ROCE_BTH_READ_RESPONSE_MIDDLE,
            ROCE_BTH_READ_RESPONSE_LAST,
        };

        REQUIRE(pair_take(&p, &p.b, buf, &packet));
        CHECK_EQ(packet.opcode, ROCE_BTH_XRC | want[i]);
        CHECK_EQ(packet.dest_qpn, p.a.qpn);
    }
    pair_free(&p);
}

static void silent_peer_fails_the_initiator(void)
{
    RoceSendWr wr;
    Pair p;

    xrc_init(&p);
    p.a.mute = true;
    wr = pair_wr(&p.a, 0, FAKERNIC_SQ_SEND, 0, 64);
    pair_send(&p, &p.a, &wr);
    pair_send(&p, &p.a, &wr);
    pair_run_until(&p, 4 * roce_retry_ack_ns(14));
    pair_expect(&p.a, FAKERNIC_CQE_SEND, 0, FAKERNIC_WC_RETRY_EXC_ERR);
    pair_expect(&p.a, FAKERNIC_CQE_SEND, 0, FAKERNIC_WC_WR_FLUSH_ERR);
    pair_expect_none(&p.a);
    CHECK_EQ(roce_deadline(p.a.r), ROCE_TIME_NEVER);
    CHECK(fake_next_event(p.a.host) == NULL);
    pair_free(&p);
}

/* Other targets use the SRQ, too, so a target in error flushes no receive. */
static void failed_target_flushes_no_srq_receive(void)
{
    RoceQpAttr attr = { .state = FAKERNIC_QPS_ERR };
    Pair p;

    xrc_init(&p);
    pair_recv(&p.b, 1, 0, 64);
    CHECK_EQ(pair_modify(&p.b, 0, FAKERNIC_QP_ATTR_STATE, &attr),
             FAKERNIC_CMD_OK);
    pair_run_until(&p, 1000000000);
    pair_expect_none(&p.b);
    CHECK(fake_next_event(p.b.host) == NULL);
    CHECK_EQ(fake_queue_left(p.b.host, FAKE_SRQ, PAIR_SRQN), 1);
    CHECK_EQ(roce_deadline(p.b.r), ROCE_TIME_NEVER);
    pair_free(&p);
}

static void creation(void)
{
    static const struct {
        RoceQpInit init;
        int status;
    } cases[] = {
        { { .type = FAKERNIC_QP_XRC_INI, .has_sq = true, .pd = 1,
            .send_cqn = 1 }, FAKERNIC_CMD_OK },
        { { .type = FAKERNIC_QP_XRC_INI, .has_sq = true, .has_rq = true },
          FAKERNIC_CMD_BAD_PARAM },
        { { .type = FAKERNIC_QP_XRC_INI, .has_sq = true, .srqn = 1 },
          FAKERNIC_CMD_BAD_PARAM },
        { { .type = FAKERNIC_QP_XRC_INI, .has_sq = true, .xrcdn = 1 },
          FAKERNIC_CMD_BAD_PARAM },
        { { .type = FAKERNIC_QP_XRC_TGT, .xrcdn = 1 }, FAKERNIC_CMD_OK },
        { { .type = FAKERNIC_QP_XRC_TGT }, FAKERNIC_CMD_BAD_PARAM },
        { { .type = FAKERNIC_QP_XRC_TGT, .xrcdn = 1, .has_sq = true },
          FAKERNIC_CMD_BAD_PARAM },
        { { .type = FAKERNIC_QP_XRC_TGT, .xrcdn = 1, .has_rq = true },
          FAKERNIC_CMD_BAD_PARAM },
        { { .type = FAKERNIC_QP_XRC_TGT, .xrcdn = 1, .srqn = 1 },
          FAKERNIC_CMD_BAD_PARAM },
        { { .type = FAKERNIC_QP_RC, .xrcdn = 1 }, FAKERNIC_CMD_BAD_PARAM },
    };
    PairHost h;
    uint32_t qpn;
    unsigned i;

    pair_host_init(&h, 1);
    for (i = 0; i < TEST_COUNT(cases); i++) {
        CHECK_EQ(roce_qp_create(h.r, &cases[i].init, &qpn), cases[i].status);
    }
    roce_free(h.r);
    fake_host_free(h.host);
}

/* One transition is tried with every attribute missing, and every one added. */
static void check_transition(PairHost *h, const RoceQpAttr *attr,
                             uint32_t required, uint32_t optional)
{
    const uint32_t known = 0x7ffff | FAKERNIC_QP_ATTR_DEST_QPN;
    uint32_t bit;

    for (bit = 2; bit <= known; bit <<= 1) {
        uint32_t mask = required | FAKERNIC_QP_ATTR_STATE;
        uint32_t bad;

        if (!(bit & known) || optional & bit) {
            continue;
        }
        mask ^= bit;
        CHECK_EQ(roce_qp_modify(h->r, 0, h->qpn, mask, attr, &bad),
                 FAKERNIC_CMD_BAD_PARAM);
        CHECK_EQ(bad, bit);
    }
    CHECK_EQ(pair_modify(h, 0, required | FAKERNIC_QP_ATTR_STATE, attr),
             FAKERNIC_CMD_OK);
}

#define ATTR(name) FAKERNIC_QP_ATTR_##name
#define XRC_RTR (ATTR(AV) | ATTR(PATH_MTU) | ATTR(DEST_QPN) | ATTR(RQ_PSN))
#define XRC_ANY (ATTR(CUR_STATE) | ATTR(ACCESS_FLAGS) | ATTR(ALT_PATH) | \
                 ATTR(PATH_MIG_STATE))

/* Each half has the attributes of that half of RC. */
static void transitions(void)
{
    RoceQpAttr attr;
    uint8_t type;

    for (type = FAKERNIC_QP_XRC_INI; type <= FAKERNIC_QP_XRC_TGT; type++) {
        bool ini = type == FAKERNIC_QP_XRC_INI;
        PairHost h, peer;

        pair_host_init(&h, 1);
        pair_host_init(&peer, 2);
        pair_create(&h, type);
        attr = pair_attr(&peer);
        attr.state = FAKERNIC_QPS_INIT;
        check_transition(&h, &attr, ATTR(PKEY_INDEX) | ATTR(PORT) |
                         ATTR(ACCESS_FLAGS), ATTR(CUR_STATE));
        attr.state = FAKERNIC_QPS_RTR;
        check_transition(&h, &attr,
                         ini ? XRC_RTR : XRC_RTR | ATTR(MAX_DEST_RD_ATOMIC) |
                                         ATTR(MIN_RNR_TIMER),
                         ATTR(CUR_STATE) | ATTR(ACCESS_FLAGS) |
                             ATTR(PKEY_INDEX) | ATTR(ALT_PATH));
        attr.state = FAKERNIC_QPS_RTS;
        if (ini) {
            check_transition(&h, &attr, ATTR(TIMEOUT) | ATTR(RETRY_CNT) |
                             ATTR(RNR_RETRY) | ATTR(SQ_PSN) |
                             ATTR(MAX_RD_ATOMIC), XRC_ANY);
        } else {
            check_transition(&h, &attr, 0, XRC_ANY | ATTR(MIN_RNR_TIMER) |
                             ATTR(TIMEOUT) | ATTR(SQ_PSN));
        }
        attr.state = FAKERNIC_QPS_SQD;
        check_transition(&h, &attr, 0, ATTR(SQD_ASYNC_NOTIFY));
        check_transition(&h, &attr, 0,
                         ATTR(AV) | ATTR(ACCESS_FLAGS) | ATTR(PKEY_INDEX) |
                         ATTR(PORT) | ATTR(ALT_PATH) | ATTR(PATH_MIG_STATE) |
                             ATTR(TIMEOUT) |
                             (ini ? ATTR(RETRY_CNT) | ATTR(RNR_RETRY) |
                                        ATTR(MAX_RD_ATOMIC)
                                  : ATTR(MIN_RNR_TIMER) |
                                        ATTR(MAX_DEST_RD_ATOMIC)));
        attr.state = FAKERNIC_QPS_RTS;
        check_transition(&h, &attr, 0,
                         XRC_ANY | (ini ? 0 : ATTR(MIN_RNR_TIMER)));
        roce_free(h.r);
        roce_free(peer.r);
        fake_host_free(h.host);
        fake_host_free(peer.host);
    }
}

/* The first request establishes the target. The initiator gets its response. */
static void first_request_establishes_target(void)
{
    RoceQpAttr attr;
    Pair p;

    memset(&p, 0, sizeof(p));
    pair_host_init(&p.a, 1);
    pair_host_init(&p.b, 2);
    pair_create(&p.a, FAKERNIC_QP_XRC_INI);
    pair_create(&p.b, FAKERNIC_QP_XRC_TGT);
    pair_connect(&p.a, &p.b, FAKERNIC_QP_XRC_INI);
    attr = pair_attr(&p.a);
    attr.state = FAKERNIC_QPS_INIT;
    CHECK_EQ(pair_modify(&p.b, 0, PAIR_INIT_MASK, &attr), FAKERNIC_CMD_OK);
    attr.state = FAKERNIC_QPS_RTR;
    CHECK_EQ(pair_modify(&p.b, 0, PAIR_RTR_MASK, &attr), FAKERNIC_CMD_OK);
    fake_srq_xrc(p.b.host, PAIR_SRQN, PAIR_XRCDN, 1, 11);
    p.a.srqn = p.b.srqn = PAIR_SRQN;
    pair_recv(&p.b, 4, 0, 64);
    pair_post(&p, 0, FAKERNIC_SQ_SEND, 0, 64);
    pair_run(&p);
    pair_expect(&p.b, FAKERNIC_CQE_RECV, 4, FAKERNIC_WC_SUCCESS);
    pair_expect(&p.a, FAKERNIC_CQE_SEND, 0, FAKERNIC_WC_SUCCESS);
    pair_expect_event(&p.b, FAKERNIC_EVENT_COMM_ESTABLISHED);
    CHECK_EQ(roce_qp_query(p.b.r, p.b.qpn, &attr), FAKERNIC_CMD_OK);
    CHECK_EQ(attr.rq_psn, roce_psn_next(PAIR_PSN));
    pair_free(&p);
}

static const Test tests[] = {
    TEST(receives_come_from_the_srq_in_packet),
    TEST(unknown_srq_is_an_invalid_request),
    TEST(keys_belong_to_the_pd_of_the_srq),
    TEST(send_with_invalidate),
    TEST(srq_must_not_change_during_message),
    TEST(destroyed_srq_discards_receive_in_use),
    TEST(reused_srq_number_completes_no_old_receive),
    TEST(repeated_read_does_not_use_reused_pd),
    TEST(message_does_not_continue_in_reused_srq),
    TEST(waiting_receive_ends_with_its_srq),
    TEST(repeated_read_uses_pd_of_its_srq),
    TEST(each_half_rejects_packets_of_the_other),
    TEST(xrc_packets_have_an_xrceth),
    TEST(silent_peer_fails_the_initiator),
    TEST(failed_target_flushes_no_srq_receive),
    TEST(creation),
    TEST(transitions),
    TEST(first_request_establishes_target),
};

TEST_MAIN(tests)
