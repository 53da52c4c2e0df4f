/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Cases that traffic rarely meets: endless queues, full tables, requests that
 * the peer may not make, late responses.
 */
#include "pair.h"

#include "engine.h"

/* ---- endless queues ------------------------------------------------------ */

static unsigned endless_sends, endless_recvs;

/* A guest that posts NOPs faster than the engine completes them. */
static RoceFetch endless_next_send(void *host, uint32_t qpn, RoceSendWr *wr)
{
    (void)host;
    (void)qpn;
    if (endless_sends == 0) {
        return ROCE_FETCH_NONE;
    }
    memset(wr, 0, sizeof(*wr));
    wr->opcode = FAKERNIC_SQ_NOP;
    wr->index = --endless_sends;
    return ROCE_FETCH_OK;
}

static RoceFetch endless_next_recv(void *host, uint32_t qpn, uint32_t srqn,
                                   RoceRecvWr *wr)
{
    (void)host;
    (void)qpn;
    (void)srqn;
    if (endless_recvs == 0) {
        return ROCE_FETCH_NONE;
    }
    memset(wr, 0, sizeof(*wr));
    wr->tag = --endless_recvs;
    return ROCE_FETCH_OK;
}

/* Host 'a' of this pair has the endless queues. */
static void endless_init(Pair *p, RoceHostOps *ops, uint8_t type)
{
    *ops = fake_host_ops;
    ops->next_send = endless_next_send;
    ops->next_recv = endless_next_recv;
    endless_sends = endless_recvs = 0;
    pair_init(p, type);
    p->a.r->ops = ops;
}

/* One call consumes a bounded number, and reports that more is left. */
static void output_per_call_is_bounded(void)
{
    static const uint8_t types[] = { FAKERNIC_QP_RC, FAKERNIC_QP_UC };
    uint8_t buf[ROCE_FRAME_MAX];
    bool loopback;
    unsigned i;

    for (i = 0; i < TEST_COUNT(types); i++) {
        unsigned calls = 0;
        RoceHostOps ops;
        Pair p;

        endless_init(&p, &ops, types[i]);
        endless_sends = 3000;
        roce_post_send(p.a.r, p.now, p.a.qpn);
        do {
            unsigned before = endless_sends;

            CHECK_EQ(roce_output(p.a.r, p.now, buf, &loopback), 0);
            CHECK(before - endless_sends <=
                  ROCE_STEPS_PER_OUTPUT + ROCE_WQES_PER_TURN);
            REQUIRE(++calls < 40);
        } while (roce_deadline(p.a.r) <= p.now);
        CHECK_EQ(endless_sends, 0);
        CHECK(calls > 1);
        pair_free(&p);
    }
}

/* The engine counts the work of one call, and limits it. */
static void work_per_call_is_bounded(void)
{
    const uint64_t most = ROCE_STEPS_PER_OUTPUT + 1 + 2 * ROCE_WQES_PER_TURN;
    uint8_t buf[ROCE_FRAME_MAX];
    RoceHostOps ops;
    uint64_t before;
    bool loopback;
    Pair p;

    endless_init(&p, &ops, FAKERNIC_QP_RC);
    endless_sends = 3000;
    roce_post_send(p.a.r, p.now, p.a.qpn);
    before = roce_work(p.a.r);
    CHECK_EQ(roce_output(p.a.r, p.now, buf, &loopback), 0);
    CHECK(roce_work(p.a.r) - before >= 3000 - endless_sends);
    CHECK(roce_work(p.a.r) - before <= most);
    before = roce_work(p.a.r);
    roce_input(p.a.r, p.now, buf, 0);
    CHECK_EQ(roce_work(p.a.r) - before, 1);
    pair_free(&p);
}

/* If the host does not call roce_output() again, roce_tick() clears the overdue
 * deadline, so that the host does not spin. */
static void tick_clears_an_overdue_deadline(void)
{
    uint8_t buf[ROCE_FRAME_MAX];
    bool loopback;
    RoceHostOps ops;
    Pair p;

    endless_init(&p, &ops, FAKERNIC_QP_RC);
    endless_sends = 200;
    roce_post_send(p.a.r, p.now, p.a.qpn);
    CHECK_EQ(roce_output(p.a.r, p.now, buf, &loopback), 0);
    CHECK_EQ(roce_deadline(p.a.r), 0);
    roce_tick(p.a.r, p.now);
    CHECK_EQ(roce_deadline(p.a.r), ROCE_TIME_NEVER);
    CHECK_EQ(roce_output(p.a.r, p.now, buf, &loopback), 0);
    CHECK_EQ(endless_sends, 0);
    pair_free(&p);
}

/* A long queue is flushed in parts, each of which is due at once. */
static void flush_is_bounded(void)
{
    RoceQpAttr attr = { .state = FAKERNIC_QPS_ERR };
    unsigned ticks = 0;
    RoceHostOps ops;
    Pair p;

    endless_init(&p, &ops, FAKERNIC_QP_RC);
    endless_recvs = 3000;
    CHECK_EQ(pair_modify(&p.a, p.now, FAKERNIC_QP_ATTR_STATE, &attr),
             FAKERNIC_CMD_OK);
    CHECK(endless_recvs >= 3000 - ROCE_FLUSH_BATCH);
    while (endless_recvs > 0) {
        CHECK(roce_deadline(p.a.r) <= p.now);
        roce_tick(p.a.r, p.now);
        REQUIRE(++ticks < 1000);
    }
    CHECK_EQ(p.a.host->completion_count, 3000);
    roce_tick(p.a.r, p.now);
    CHECK(roce_deadline(p.a.r) > p.now);
    pair_free(&p);
}

static void bring_datagram_up(PairHost *h, uint8_t type)
{
    RoceQpAttr attr = { .port = 1, .qkey = 7 };
    uint32_t mask = FAKERNIC_QP_ATTR_STATE | FAKERNIC_QP_ATTR_PORT;

    if (type == FAKERNIC_QP_UD) {
        mask |= FAKERNIC_QP_ATTR_PKEY_INDEX | FAKERNIC_QP_ATTR_QKEY;
    }
    attr.state = FAKERNIC_QPS_INIT;
    CHECK_EQ(pair_modify(h, 0, mask, &attr), FAKERNIC_CMD_OK);
    attr.state = FAKERNIC_QPS_RTR;
    CHECK_EQ(pair_modify(h, 0, FAKERNIC_QP_ATTR_STATE, &attr), 0);
    attr.state = FAKERNIC_QPS_RTS;
    mask = FAKERNIC_QP_ATTR_STATE;
    if (type == FAKERNIC_QP_UD) {
        mask |= FAKERNIC_QP_ATTR_SQ_PSN;
    }
    CHECK_EQ(pair_modify(h, 0, mask, &attr), FAKERNIC_CMD_OK);
}

static void single_init(PairHost *h, uint8_t type)
{
    pair_host_init(h, 1);
    pair_create(h, type);
    bring_datagram_up(h, type);
}

static void single_free(PairHost *h)
{
    roce_free(h->r);
    fake_host_free(h->host);
}

/* More work requests without frames than one turn takes: the engine requests
 * the next turn. */
static void datagrams_without_frames_continue_in_next_turn(void)
{
    static const uint8_t types[] = { FAKERNIC_QP_UD, FAKERNIC_QP_RAW_PACKET };
    uint8_t buf[ROCE_FRAME_MAX];
    bool loopback;
    unsigned i, k;

    for (i = 0; i < TEST_COUNT(types); i++) {
        PairHost h;

        single_init(&h, types[i]);
        roce_set_port_mtu(h.r, 1500);
        for (k = 0; k < 3 * ROCE_WQES_PER_TURN; k++) {
            /* A raw QP drops a frame that is too long; it does not fail. */
            RoceSendWr wr = pair_wr(&h, k, types[i] == FAKERNIC_QP_UD
                                               ? FAKERNIC_SQ_NOP
                                               : FAKERNIC_SQ_SEND, 0,
                                    types[i] == FAKERNIC_QP_UD ? 0 : 2000);

            fake_post_send(h.host, h.qpn, &wr);
        }
        roce_post_send(h.r, 0, h.qpn);
        CHECK_EQ(roce_output(h.r, 0, buf, &loopback), 0);
        CHECK_EQ(h.host->completion_count, 3 * ROCE_WQES_PER_TURN);
        single_free(&h);
    }
}

/* ---- full tables --------------------------------------------------------- */

static void multicast_groups_are_limited(void)
{
    uint8_t gid[16] = { 0xff, 0x0e };
    PairHost h;
    uint32_t i;

    single_init(&h, FAKERNIC_QP_UD);
    for (i = 0; i < pair_limits.max_mcast_groups; i++) {
        gid[15] = (uint8_t)i;
        CHECK_EQ(roce_mcast_attach(h.r, gid, h.qpn), FAKERNIC_CMD_OK);
    }
    gid[15] = 0xff;
    CHECK_EQ(roce_mcast_attach(h.r, gid, h.qpn), FAKERNIC_CMD_NO_RESOURCE);
    /* Attaching to an existing group always succeeds. */
    gid[15] = 0;
    CHECK_EQ(roce_mcast_attach(h.r, gid, h.qpn), FAKERNIC_CMD_OK);
    single_free(&h);
}

static void members_of_groups_are_limited(void)
{
    const RoceLimits limits = { .max_qp = 128, .max_mr = 16, .max_pd = 2, .gid_count = 1,
                                .max_mcast_groups = 1, .max_sends = 1 };
    const RoceQpInit init = { .type = FAKERNIC_QP_UD, .has_sq = true };
    const uint8_t gid[16] = { 0xff, 0x0e };
    FakeHost *host = fake_host_new();
    Roce *r = roce_new(&limits, &fake_host_ops, host);
    uint32_t qpn, i;

    for (i = 0; i < ROCE_MCAST_QPS_PER_GROUP; i++) {
        CHECK_EQ(roce_qp_create(r, &init, &qpn), FAKERNIC_CMD_OK);
        CHECK_EQ(roce_mcast_attach(r, gid, qpn), FAKERNIC_CMD_OK);
    }
    CHECK_EQ(roce_qp_create(r, &init, &qpn), FAKERNIC_CMD_OK);
    CHECK_EQ(roce_mcast_attach(r, gid, qpn), FAKERNIC_CMD_NO_RESOURCE);
    CHECK_EQ(roce_qp_destroy(r, 99), FAKERNIC_CMD_BAD_ID);
    roce_free(r);
    roce_free(NULL);
    fake_host_free(host);
}

/* ---- requests the peer may not make -------------------------------------- */

typedef struct Forbidden {
    uint8_t opcode;
    uint32_t rights, offset;    /* rights of the QP; offset of the address */
    uint8_t grant;              /* max_dest_rd_atomic */
    uint16_t vendor_err;
} Forbidden;

static void forbid(const Forbidden *f)
{
    uint8_t data[8] = { 1 };
    bool write = f->opcode == ROCE_BTH_ATOMIC_WRITE;
    RocePacket packet;
    RoceQpAttr attr;
    Pair p;

    memset(&p, 0, sizeof(p));
    pair_host_init(&p.a, 1);
    pair_host_init(&p.b, 2);
    pair_create(&p.a, FAKERNIC_QP_RC);
    pair_create(&p.b, FAKERNIC_QP_RC);
    attr = pair_attr(&p.a);
    attr.access_flags = f->rights;
    attr.max_dest_rd_atomic = f->grant;
    attr.state = FAKERNIC_QPS_INIT;
    CHECK_EQ(pair_modify(&p.b, 0, PAIR_INIT_MASK, &attr), FAKERNIC_CMD_OK);
    attr.state = FAKERNIC_QPS_RTR;
    CHECK_EQ(pair_modify(&p.b, 0, PAIR_RTR_MASK, &attr), FAKERNIC_CMD_OK);

    packet = pair_packet(&p.a, &p.b, f->opcode, PAIR_PSN);
    packet.reth.address = PAIR_MEMORY + f->offset;
    packet.reth.rkey = p.b.key;
    packet.reth.length = 8;
    pair_inject(&p, &p.b, &packet, data, write ? 8 : 0);
    while (pair_step(&p, &p.b, &p.a)) {
    }
    CHECK_EQ(pair_state(&p.b), FAKERNIC_QPS_ERR);
    CHECK_EQ(p.b.memory[0], 0);
    CHECK_EQ(pair_stat(&p.b, FAKERNIC_STAT_TX_NAK_INVALID_REQUEST), 1);
    /* The first event is of the first request, the last one of its error. */
    REQUIRE(p.b.host->event_count > 0);
    CHECK_EQ(p.b.host->events[p.b.host->event_count - 1].vendor_err,
             f->vendor_err);
    pair_free(&p);
}

static void forbidden_requests_are_refused(void)
{
    static const Forbidden cases[] = {
        { ROCE_BTH_READ_REQUEST, FAKERNIC_ACCESS_REMOTE_WRITE, 0, 4,
          FAKERNIC_VENDOR_QP_ACCESS },
        { ROCE_BTH_READ_REQUEST, FAKERNIC_ACCESS_REMOTE_READ, 0, 0,
          FAKERNIC_VENDOR_REQUEST_READS },
        { ROCE_BTH_ATOMIC_WRITE, FAKERNIC_ACCESS_REMOTE_READ, 0, 4,
          FAKERNIC_VENDOR_QP_ACCESS },
        { ROCE_BTH_ATOMIC_WRITE, FAKERNIC_ACCESS_REMOTE_WRITE, 4, 4,
          FAKERNIC_VENDOR_ALIGNMENT },
        { ROCE_BTH_ATOMIC_WRITE, FAKERNIC_ACCESS_REMOTE_WRITE, 0, 0,
          FAKERNIC_VENDOR_REQUEST_READS },
    };
    unsigned i;

    for (i = 0; i < TEST_COUNT(cases); i++) {
        forbid(&cases[i]);
    }
}

/* A window binds to regions of its QP's domain only (IBTA 10.6.7.2.3). */
static void windows_bind_only_within_their_pd(void)
{
    RoceMrInit init = {
        .type = FAKERNIC_MR_NULL, .pd = 2,
        .access = FAKERNIC_ACCESS_LOCAL_WRITE | FAKERNIC_ACCESS_MW_BIND,
    };
    uint32_t key, region;
    RoceSendWr wr;
    PAIR(p, FAKERNIC_QP_RC);

    CHECK_EQ(roce_mr_create(p.a.r, &init, &region), FAKERNIC_CMD_OK);
    CHECK_EQ(roce_mw_create(p.a.r, FAKERNIC_MW_TYPE_2B, 3, 1, &key),
             FAKERNIC_CMD_OK);
    wr = (RoceSendWr) {
        .opcode = FAKERNIC_SQ_BIND_MW,
        .bind_mw = {
            .length = 8, .mw_key = key, .new_key = key + 1,
            .mr_key = region, .access = FAKERNIC_ACCESS_REMOTE_READ,
        },
    };
    pair_send(&p, &p.a, &wr);
    pair_run(&p);
    pair_expect(&p.a, FAKERNIC_CQE_BIND_MW, 0, FAKERNIC_WC_MW_BIND_ERR);
    CHECK_EQ(p.a.host->completions[0].vendor_err, FAKERNIC_VENDOR_KEY_PD);
}

/* ---- frames -------------------------------------------------------------- */

/* A packet of a service that is not its QP's. */
static void packets_of_another_service_are_dropped(void)
{
    PairHost peer = { .gid = { .type = FAKERNIC_GID_IPV4, .gid = {
        [10] = 0xff, 0xff, 10, 0, 0, 9 } } };
    const uint8_t group[16] = { [10] = 0xff, 0xff, 239, 1, 1, 1 };
    Pair p = { .now = 1 };
    RocePacket packet;

    single_init(&p.a, FAKERNIC_QP_RAW_PACKET);
    packet = pair_packet(&peer, &p.a, ROCE_BTH_CNP, 0);
    packet.becn = true;
    pair_inject(&p, &p.a, &packet, NULL, 0);
    CHECK_EQ(pair_stat(&p.a, FAKERNIC_STAT_DROP_OPCODE), 1);
    packet = pair_packet(&peer, &p.a, ROCE_BTH_UD | ROCE_BTH_SEND_ONLY, 0);
    memcpy(packet.dgid, group, sizeof(group));
    pair_inject(&p, &p.a, &packet, NULL, 0);
    CHECK_EQ(pair_stat(&p.a, FAKERNIC_STAT_DROP_QPN), 1);
    single_free(&p.a);
}

static void udp_source_port_comes_from_address_vector(void)
{
    uint8_t buf[ROCE_FRAME_MAX];
    RoceSendWr wr;
    RocePacket packet;
    Pair p;

    memset(&p, 0, sizeof(p));
    pair_host_init(&p.b, 2);
    single_init(&p.a, FAKERNIC_QP_UD);
    wr = pair_wr(&p.a, 1, FAKERNIC_SQ_SEND, 0, 8);
    wr.ud.av = pair_av(&p.b);
    wr.ud.av.udp_sport = 0xd123;
    wr.ud.dest_qpn = 3;
    pair_send(&p, &p.a, &wr);
    REQUIRE(pair_take(&p, &p.a, buf, &packet));
    CHECK_EQ(packet.udp_sport, 0xd123);
    pair_free(&p);
}

/*
 * A response proves that the request before its own has arrived. Its own
 * request has failed on this side and waits for its turn to complete, so the
 * response is late and must be ignored.
 */
static void response_to_a_failed_request_is_ignored(void)
{
    uint8_t data[256] = { 7 };
    RocePacket packet;
    RoceSendWr wr;
    PAIR(p, FAKERNIC_QP_RC);

    p.a.mute = true;
    pair_post_rdma(&p, 1, FAKERNIC_SQ_RDMA_WRITE, 0, 64);
    /* The engine cannot make its second packet: it fails in its turn. */
    wr = pair_rdma_wr(&p.a, &p.b, 2, FAKERNIC_SQ_RDMA_WRITE, 0, 2 * PAIR_MTU);
    p.a.host->fail_dma_in = 3;
    pair_send(&p, &p.a, &wr);
    while (pair_step(&p, &p.a, &p.b)) {
    }
    packet = pair_packet(&p.b, &p.a, ROCE_BTH_READ_RESPONSE_ONLY,
                         PAIR_PSN + 1);
    packet.aeth.syndrome = ROCE_AETH_ACK;
    pair_inject(&p, &p.a, &packet, data, sizeof(data));
    pair_expect(&p.a, FAKERNIC_CQE_RDMA_WRITE, 1, FAKERNIC_WC_SUCCESS);
    pair_expect(&p.a, FAKERNIC_CQE_RDMA_WRITE, 2, FAKERNIC_WC_LOC_PROT_ERR);
    CHECK_EQ(pair_state(&p.a), FAKERNIC_QPS_ERR);
    pair_expect_none(&p.a);
}

static const Test tests[] = {
    TEST(output_per_call_is_bounded),
    TEST(work_per_call_is_bounded),
    TEST(tick_clears_an_overdue_deadline),
    TEST(flush_is_bounded),
    TEST(datagrams_without_frames_continue_in_next_turn),
    TEST(multicast_groups_are_limited),
    TEST(members_of_groups_are_limited),
    TEST(forbidden_requests_are_refused),
    TEST(windows_bind_only_within_their_pd),
    TEST(packets_of_another_service_are_dropped),
    TEST(udp_source_port_comes_from_address_vector),
    TEST(response_to_a_failed_request_is_ignored),
};

TEST_MAIN(tests)
