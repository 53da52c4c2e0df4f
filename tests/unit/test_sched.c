/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Scheduling: waiting for a wire that takes no frames, and turns of QPs. */
#include "pair.h"

typedef struct Blocked {
    Pair p;
    PairHost here, there;       /* two more QPs of a, connected to each other */
} Blocked;

static void blocked_init(Blocked *t)
{
    pair_init(&t->p, FAKERNIC_QP_RC);
    t->here = t->there = t->p.a;
    pair_create(&t->here, FAKERNIC_QP_RC);
    pair_create(&t->there, FAKERNIC_QP_RC);
    pair_connect(&t->here, &t->there, FAKERNIC_QP_RC);
    pair_connect(&t->there, &t->here, FAKERNIC_QP_RC);
    roce_set_wire(t->p.a.r, false);
}

static void blocked_write(Blocked *t, PairHost *from, PairHost *to,
                          uint32_t index, uint32_t length)
{
    RoceSendWr wr = pair_rdma_wr(from, to, index, FAKERNIC_SQ_RDMA_WRITE, 0,
                                 length);

    pair_send(&t->p, from, &wr);
}

/* Moves frames of host a until it has none. Returns the number for the wire. */
static unsigned blocked_drain(Blocked *t)
{
    PairHost *a = &t->p.a;
    uint8_t buf[ROCE_FRAME_MAX];
    unsigned frames = 0, wire = 0;
    bool loopback;
    size_t len;

    while ((len = roce_output(a->r, t->p.now, buf, &loopback)) > 0) {
        REQUIRE(++frames < PAIR_FRAMES);
        if (loopback) {
            roce_input(a->r, t->p.now, buf, len);
        } else {
            wire++;
            roce_input(t->p.b.r, t->p.now, buf, len);
        }
    }
    return wire;
}

static void loopback_continues_while_wire_is_blocked(void)
{
    Blocked t;

    blocked_init(&t);
    blocked_write(&t, &t.p.a, &t.p.b, 1, 4 * PAIR_MTU);
    blocked_write(&t, &t.here, &t.there, 2, 40 * PAIR_MTU);
    CHECK_EQ(blocked_drain(&t), 0);
    pair_expect(&t.here, FAKERNIC_CQE_RDMA_WRITE, 2, FAKERNIC_WC_SUCCESS);
    pair_expect_none(&t.p.a);
    /* A parked QP sets no deadline. */
    CHECK(roce_deadline(t.p.a.r) > t.p.now);
    roce_set_wire(t.p.a.r, true);
    CHECK_EQ(blocked_drain(&t), 4);
    pair_run(&t.p);
    pair_expect(&t.p.a, FAKERNIC_CQE_RDMA_WRITE, 1, FAKERNIC_WC_SUCCESS);
    pair_free(&t.p);
}

/* A request of the peer is executed; its response waits. */
static void response_waits_for_blocked_wire(void)
{
    Blocked t;

    blocked_init(&t);
    pair_fill(t.p.b.memory, PAIR_MTU, 9);
    blocked_write(&t, &t.p.b, &t.p.a, 1, PAIR_MTU);
    while (pair_step(&t.p, &t.p.b, &t.p.a)) {
    }
    CHECK_MEM(t.p.a.memory, t.p.b.memory, PAIR_MTU);
    CHECK_EQ(blocked_drain(&t), 0);
    roce_set_wire(t.p.a.r, true);
    CHECK_EQ(blocked_drain(&t), 1);
    pair_expect(&t.p.b, FAKERNIC_CQE_RDMA_WRITE, 1, FAKERNIC_WC_SUCCESS);
    pair_free(&t.p);
}

/* While the wire takes no frame, a probe waits instead of being lost. */
static void probe_waits_for_blocked_wire(void)
{
    uint8_t buf[ROCE_FRAME_MAX];
    bool loopback;
    Blocked t;
    size_t len;

    blocked_init(&t);
    roce_set_wire(t.p.a.r, true);
    blocked_write(&t, &t.p.a, &t.p.b, 1, PAIR_MTU);
    pair_run(&t.p);
    pair_expect(&t.p.a, FAKERNIC_CQE_RDMA_WRITE, 1, FAKERNIC_WC_SUCCESS);
    blocked_write(&t, &t.p.a, &t.p.b, 2, 2 * PAIR_MTU);
    CHECK_EQ(blocked_drain(&t), 2);
    roce_set_wire(t.p.a.r, false);
    t.p.now = roce_deadline(t.p.a.r);
    roce_tick(t.p.a.r, t.p.now);
    CHECK_EQ(blocked_drain(&t), 0);
    CHECK(roce_deadline(t.p.a.r) > t.p.now);
    roce_set_wire(t.p.a.r, true);
    len = roce_output(t.p.a.r, t.p.now, buf, &loopback);
    REQUIRE(len > 0);
    CHECK_EQ(roce_output_info(t.p.a.r)->attempt, 2);
    CHECK_EQ(roce_output_info(t.p.a.r)->index, 2);
    CHECK_EQ(blocked_drain(&t), 0);
    pair_run(&t.p);
    pair_expect(&t.p.a, FAKERNIC_CQE_RDMA_WRITE, 2, FAKERNIC_WC_SUCCESS);
    pair_free(&t.p);
}

/* A work request without packets completes at once. */
static void request_without_packets_ignores_blocked_wire(void)
{
    RoceSendWr wr = {
        .index = 5, .opcode = FAKERNIC_SQ_NOP, .flags = FAKERNIC_SQ_SIGNALED,
    };
    Blocked t;

    blocked_init(&t);
    pair_send(&t.p, &t.p.a, &wr);
    CHECK_EQ(blocked_drain(&t), 0);
    pair_expect(&t.p.a, FAKERNIC_CQE_NOP, 5, FAKERNIC_WC_SUCCESS);
    pair_free(&t.p);
}

/* A parked QP may get more work, fail, or be destroyed. */
static void waiting_qp_can_be_flushed_and_destroyed(void)
{
    RoceQpAttr attr = { .state = FAKERNIC_QPS_ERR };
    Blocked t;

    blocked_init(&t);
    blocked_write(&t, &t.p.a, &t.p.b, 1, PAIR_MTU);
    CHECK_EQ(blocked_drain(&t), 0);
    blocked_write(&t, &t.p.a, &t.p.b, 2, PAIR_MTU);
    CHECK_EQ(blocked_drain(&t), 0);
    CHECK_EQ(pair_modify(&t.p.a, 0, FAKERNIC_QP_ATTR_STATE, &attr), 0);
    pair_expect(&t.p.a, FAKERNIC_CQE_RDMA_WRITE, 1, FAKERNIC_WC_WR_FLUSH_ERR);
    CHECK_EQ(roce_qp_destroy(t.p.a.r, t.p.a.qpn), FAKERNIC_CMD_OK);
    roce_set_wire(t.p.a.r, true);
    CHECK_EQ(blocked_drain(&t), 0);
    pair_free(&t.p);
}

/* Datagrams keep their order: one for the wire delays those behind it. */
static void waiting_datagrams_keep_their_order(void)
{
    const uint32_t mask = FAKERNIC_QP_ATTR_STATE | FAKERNIC_QP_ATTR_PORT |
                          FAKERNIC_QP_ATTR_QKEY | FAKERNIC_QP_ATTR_PKEY_INDEX;
    RoceQpAttr attr = { .port = 1, .qkey = 7, .state = FAKERNIC_QPS_INIT };
    Blocked t;

    blocked_init(&t);
    pair_create(&t.here, FAKERNIC_QP_UD);
    CHECK_EQ(pair_modify(&t.here, 0, mask, &attr), 0);
    attr.state = FAKERNIC_QPS_RTR;
    CHECK_EQ(pair_modify(&t.here, 0, FAKERNIC_QP_ATTR_STATE, &attr), 0);
    attr.state = FAKERNIC_QPS_RTS;
    CHECK_EQ(pair_modify(&t.here, 0, PAIR_UC_RTS_MASK, &attr), 0);
    for (uint32_t i = 0; i < 4; i++) {
        RoceSendWr wr = pair_wr(&t.here, i, FAKERNIC_SQ_SEND, 0, 100);

        wr.ud.av = pair_av(i == 2 ? &t.p.b : &t.p.a);
        wr.ud.dest_qpn = t.here.qpn;
        wr.ud.qkey = 7;
        pair_send(&t.p, &t.here, &wr);
    }
    CHECK_EQ(blocked_drain(&t), 0);
    pair_expect(&t.here, FAKERNIC_CQE_SEND, 0, FAKERNIC_WC_SUCCESS);
    pair_expect(&t.here, FAKERNIC_CQE_SEND, 1, FAKERNIC_WC_SUCCESS);
    pair_expect_none(&t.here);
    roce_set_wire(t.p.a.r, true);
    CHECK_EQ(blocked_drain(&t), 1);
    pair_expect(&t.here, FAKERNIC_CQE_SEND, 2, FAKERNIC_WC_SUCCESS);
    pair_expect(&t.here, FAKERNIC_CQE_SEND, 3, FAKERNIC_WC_SUCCESS);
    pair_free(&t.p);
}

/* Each QP sends its share, all whole frames, before the next has its turn. */
static void qps_take_turns(uint32_t length, unsigned count)
{
    uint8_t buf[ROCE_FRAME_MAX];
    size_t sent = 0, len;
    uint32_t qpn = 0;
    unsigned turns = 0;
    bool loopback;
    Pair p;
    PairHost other;

    pair_init(&p, FAKERNIC_QP_RC);
    other = p.a;
    pair_create(&other, FAKERNIC_QP_RC);
    pair_connect(&other, &p.b, FAKERNIC_QP_RC);
    for (unsigned i = 0; i < 2 * count; i++) {
        PairHost *from = i % 2 ? &other : &p.a;
        RoceSendWr wr = pair_rdma_wr(from, &p.b, i, FAKERNIC_SQ_RDMA_WRITE, 0,
                                     length);

        pair_send(&p, from, &wr);
    }
    while ((len = roce_output(p.a.r, p.now, buf, &loopback)) > 0) {
        if (roce_output_info(p.a.r)->qpn != qpn) {
            CHECK(turns == 0 || sent >= ROCE_SHARE_BYTES);
            qpn = roce_output_info(p.a.r)->qpn;
            sent = 0;
            turns++;
        }
        CHECK(sent < ROCE_SHARE_BYTES);
        sent += len;
    }
    CHECK(turns >= 4);
    pair_free(&p);
}

static void qps_take_turns_with_short_frames(void)
{
    qps_take_turns(200, 16);
}

static void qps_take_turns_with_long_messages(void)
{
    qps_take_turns(14 * PAIR_MTU, 1);
}

static const Test tests[] = {
    TEST(loopback_continues_while_wire_is_blocked),
    TEST(response_waits_for_blocked_wire),
    TEST(probe_waits_for_blocked_wire),
    TEST(request_without_packets_ignores_blocked_wire),
    TEST(waiting_qp_can_be_flushed_and_destroyed),
    TEST(waiting_datagrams_keep_their_order),
    TEST(qps_take_turns_with_short_frames),
    TEST(qps_take_turns_with_long_messages),
};

TEST_MAIN(tests)
