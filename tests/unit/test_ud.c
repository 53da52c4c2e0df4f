/* SPDX-License-Identifier: GPL-2.0-or-later */
/* UD, GSI, multicast and UC: what arrives, what is dropped, what fails. */
#include "pair.h"

#include "engine.h"

#define QKEY 0x11111111u

static void datagram_rts(PairHost *h, uint32_t qkey)
{
    RoceQpAttr attr = { .port = 1, .qkey = qkey, .sq_psn = PAIR_PSN };

    attr.state = FAKERNIC_QPS_INIT;
    CHECK_EQ(pair_modify(h, 0, FAKERNIC_QP_ATTR_STATE |
                         FAKERNIC_QP_ATTR_PORT | FAKERNIC_QP_ATTR_QKEY |
                         FAKERNIC_QP_ATTR_PKEY_INDEX, &attr), 0);
    attr.state = FAKERNIC_QPS_RTR;
    CHECK_EQ(pair_modify(h, 0, FAKERNIC_QP_ATTR_STATE, &attr), 0);
    attr.state = FAKERNIC_QPS_RTS;
    CHECK_EQ(pair_modify(h, 0, PAIR_UC_RTS_MASK, &attr), 0);
}

static void datagram_init(Pair *p, uint8_t type, uint32_t qkey)
{
    memset(p, 0, sizeof(*p));
    pair_host_init(&p->a, 1);
    pair_host_init(&p->b, 2);
    pair_create(&p->a, type);
    pair_create(&p->b, type);
    datagram_rts(&p->a, qkey);
    datagram_rts(&p->b, qkey);
}

static RoceSendWr datagram_wr(const PairHost *from, const PairHost *to,
                              uint32_t index, uint32_t length)
{
    RoceSendWr wr = pair_wr(from, index, FAKERNIC_SQ_SEND, 0, length);

    wr.ud.av = pair_av(to);
    wr.ud.dest_qpn = to->qpn;
    wr.ud.qkey = QKEY;
    return wr;
}

static void datagram_arrives_behind_its_grh(void)
{
    const RoceCompletion *c;
    RoceSendWr wr;
    Pair p;

    datagram_init(&p, FAKERNIC_QP_UD, QKEY);
    pair_fill(p.a.memory, 500, 3);
    pair_recv(&p.b, 6, 4096, 600);
    wr = datagram_wr(&p.a, &p.b, 1, 500);
    wr.opcode = FAKERNIC_SQ_SEND_IMM;
    wr.imm_or_key = 99;
    wr.flags |= FAKERNIC_SQ_SOLICITED;
    pair_send(&p, &p.a, &wr);
    pair_run(&p);
    pair_expect(&p.a, FAKERNIC_CQE_SEND, 1, FAKERNIC_WC_SUCCESS);
    c = fake_next_completion(p.b.host);
    REQUIRE(c != NULL);
    CHECK_EQ(c->status, FAKERNIC_WC_SUCCESS);
    CHECK_EQ(c->wqe_index, 6);
    CHECK_EQ(c->byte_count, 540);
    CHECK_EQ(c->src_qpn, p.a.qpn);
    CHECK_EQ(c->imm_or_key, 99);
    CHECK_EQ(c->network_type, FAKERNIC_GID_IPV4);
    CHECK_EQ(c->flags, FAKERNIC_CQE_GRH | FAKERNIC_CQE_IMM |
                           FAKERNIC_CQE_SOLICITED);
    CHECK_MEM(c->smac, p.a.gid.mac, 6);
    CHECK_MEM(p.b.memory + 4096 + 40, p.a.memory, 500);
    CHECK_EQ(p.b.memory[4096 + 20], 0x45);
    CHECK_EQ(p.b.memory[4096], 0);
    pair_free(&p);
}

static void datagrams_that_do_not_fit_are_dropped(void)
{
    RoceSendWr wr;
    Pair p;

    datagram_init(&p, FAKERNIC_QP_UD, QKEY);
    wr = datagram_wr(&p.a, &p.b, 1, 64);
    pair_send(&p, &p.a, &wr);
    pair_run(&p);
    CHECK_EQ(pair_stat(&p.b, FAKERNIC_STAT_DROP_UD_NO_BUFFER), 1);
    pair_recv(&p.b, 1, 4096, 103);
    pair_send(&p, &p.a, &wr);
    pair_run(&p);
    CHECK_EQ(pair_stat(&p.b, FAKERNIC_STAT_DROP_UD_LENGTH), 1);
    pair_expect_none(&p.b);
    /* The receive stays for a datagram that fits. */
    wr.sge[0].length = 63;
    pair_send(&p, &p.a, &wr);
    pair_run(&p);
    pair_expect(&p.b, FAKERNIC_CQE_RECV, 1, FAKERNIC_WC_SUCCESS);
    pair_free(&p);
}

/*
 * A receive of an SRQ that is too small completes with an error. If the QP kept
 * it, the SRQ's owner would wait until this QP gets a datagram that fits.
 */
static void long_datagram_completes_a_receive_of_an_srq(void)
{
    const RoceQpInit init = {
        .type = FAKERNIC_QP_UD, .has_sq = true, .srqn = 5, .pd = 1,
        .send_cqn = 10, .recv_cqn = 11,
    };
    RoceRecvWr recv = { .tag = 7, .sge_count = 1 };
    RoceSendWr wr;
    Pair p;

    datagram_init(&p, FAKERNIC_QP_UD, QKEY);
    CHECK_EQ(roce_qp_create(p.b.r, &init, &p.b.qpn), FAKERNIC_CMD_OK);
    datagram_rts(&p.b, QKEY);
    recv.sge[0] = pair_sge(&p.b, 4096, 103);
    fake_post_srq(p.b.host, 5, &recv);
    wr = datagram_wr(&p.a, &p.b, 1, 64);
    pair_send(&p, &p.a, &wr);
    pair_run(&p);
    CHECK_EQ(pair_stat(&p.b, FAKERNIC_STAT_DROP_UD_LENGTH), 1);
    pair_expect(&p.b, FAKERNIC_CQE_RECV, 7, FAKERNIC_WC_LOC_LEN_ERR);
    CHECK_EQ(pair_qp(&p.b)->attr.state, FAKERNIC_QPS_RTS);
    /* The next one takes another receive. */
    recv.tag = 8;
    recv.sge[0] = pair_sge(&p.b, 4096, 104);
    fake_post_srq(p.b.host, 5, &recv);
    pair_send(&p, &p.a, &wr);
    pair_run(&p);
    pair_expect(&p.b, FAKERNIC_CQE_RECV, 8, FAKERNIC_WC_SUCCESS);
    CHECK_EQ(roce_qp_destroy(p.b.r, p.b.qpn), FAKERNIC_CMD_OK);
    pair_expect_none(&p.b);
    pair_free(&p);
}

static void wrong_qkey_is_dropped(void)
{
    RoceSendWr wr;
    Pair p;

    datagram_init(&p, FAKERNIC_QP_UD, QKEY);
    pair_recv(&p.b, 1, 4096, 200);
    wr = datagram_wr(&p.a, &p.b, 1, 64);
    wr.ud.qkey++;
    pair_send(&p, &p.a, &wr);
    pair_run(&p);
    CHECK_EQ(pair_stat(&p.b, FAKERNIC_STAT_DROP_QKEY), 1);
    /* Bit 31 selects the QP's own Q_Key. */
    wr.ud.qkey = 0x80000000u;
    pair_send(&p, &p.a, &wr);
    pair_run(&p);
    pair_expect(&p.b, FAKERNIC_CQE_RECV, 1, FAKERNIC_WC_SUCCESS);
    pair_free(&p);
}

/* A refused datagram fails the send queue only: SQE, and back to RTS. */
static void refused_datagram_causes_sqe(void)
{
    RoceQpAttr attr = { .state = FAKERNIC_QPS_RTS };
    RoceSendWr wr;
    Pair p;

    datagram_init(&p, FAKERNIC_QP_UD, QKEY);
    wr = datagram_wr(&p.a, &p.b, 1, 4097);
    pair_send(&p, &p.a, &wr);
    wr = datagram_wr(&p.a, &p.b, 2, 64);
    pair_send(&p, &p.a, &wr);
    pair_run(&p);
    pair_expect(&p.a, FAKERNIC_CQE_SEND, 1, FAKERNIC_WC_LOC_LEN_ERR);
    pair_expect(&p.a, FAKERNIC_CQE_SEND, 2, FAKERNIC_WC_WR_FLUSH_ERR);
    CHECK_EQ(pair_state(&p.a), FAKERNIC_QPS_SQE);
    pair_send(&p, &p.a, &wr);
    pair_expect(&p.a, FAKERNIC_CQE_SEND, 2, FAKERNIC_WC_WR_FLUSH_ERR);
    /* It still receives. */
    pair_recv(&p.a, 5, 4096, 200);
    wr = datagram_wr(&p.b, &p.a, 3, 64);
    wr.sge[0].lkey = p.b.key;
    pair_send(&p, &p.b, &wr);
    pair_run(&p);
    pair_expect(&p.a, FAKERNIC_CQE_RECV, 5, FAKERNIC_WC_SUCCESS);
    pair_expect(&p.b, FAKERNIC_CQE_SEND, 3, FAKERNIC_WC_SUCCESS);
    CHECK_EQ(pair_modify(&p.a, 0, FAKERNIC_QP_ATTR_STATE, &attr), 0);
    pair_recv(&p.b, 6, 4096, 200);
    wr = datagram_wr(&p.a, &p.b, 4, 64);
    pair_send(&p, &p.a, &wr);
    pair_run(&p);
    pair_expect(&p.a, FAKERNIC_CQE_SEND, 4, FAKERNIC_WC_SUCCESS);
    pair_expect(&p.b, FAKERNIC_CQE_RECV, 6, FAKERNIC_WC_SUCCESS);
    pair_free(&p);
}

static void bad_address_vector_is_refused(void)
{
    RoceSendWr wr;
    Pair p;

    datagram_init(&p, FAKERNIC_QP_UD, QKEY);
    wr = datagram_wr(&p.a, &p.b, 1, 64);
    wr.ud.av.sgid_index = 2;
    pair_send(&p, &p.a, &wr);
    pair_run(&p);
    pair_expect(&p.a, FAKERNIC_CQE_SEND, 1, FAKERNIC_WC_LOC_QP_OP_ERR);
    CHECK_EQ(p.a.host->completions[0].vendor_err, FAKERNIC_VENDOR_GID_INDEX);
    pair_free(&p);
}

static void gsi_is_qp_1_with_well_known_qkey(void)
{
    RoceSendWr wr;
    Pair p;

    datagram_init(&p, FAKERNIC_QP_GSI, 0);
    CHECK_EQ(p.a.qpn, 1);
    pair_recv(&p.b, 1, 4096, 296);
    wr = datagram_wr(&p.a, &p.b, 1, 256);
    wr.ud.qkey = 0x80010000u;
    pair_send(&p, &p.a, &wr);
    pair_run(&p);
    pair_expect(&p.a, FAKERNIC_CQE_SEND, 1, FAKERNIC_WC_SUCCESS);
    CHECK_EQ(p.b.host->completions[0].src_qpn, 1);
    pair_expect(&p.b, FAKERNIC_CQE_RECV, 1, FAKERNIC_WC_SUCCESS);
    pair_free(&p);
}

static void own_gid_is_looped_back(void)
{
    uint8_t buf[ROCE_FRAME_MAX];
    bool loopback = false;
    RoceSendWr wr;
    size_t len;
    Pair p;

    datagram_init(&p, FAKERNIC_QP_UD, QKEY);
    pair_recv(&p.a, 2, 4096, 200);
    wr = datagram_wr(&p.a, &p.a, 1, 64);
    pair_send(&p, &p.a, &wr);
    len = roce_output(p.a.r, 0, buf, &loopback);
    CHECK(len > 0 && loopback);
    CHECK_EQ(roce_input(p.a.r, 0, buf, len), ROCE_INPUT_TAKEN);
    CHECK_EQ(roce_output(p.a.r, 0, buf, &loopback), 0);
    pair_expect(&p.a, FAKERNIC_CQE_RECV, 2, FAKERNIC_WC_SUCCESS);
    pair_expect(&p.a, FAKERNIC_CQE_SEND, 1, FAKERNIC_WC_SUCCESS);
    pair_free(&p);
}

static void groups_reach_their_members(void)
{
    static const uint8_t group[16] = { [10] = 0xff, 0xff, 224, 1, 2, 3 };
    RoceSendWr wr;
    uint32_t first;
    Pair p;

    datagram_init(&p, FAKERNIC_QP_UD, QKEY);
    first = p.b.qpn;
    pair_create(&p.b, FAKERNIC_QP_UD);
    datagram_rts(&p.b, QKEY);
    wr = datagram_wr(&p.a, &p.b, 1, 64);
    memcpy(wr.ud.av.dgid, group, 16);
    wr.ud.dest_qpn = FAKERNIC_QPN_MULTICAST;
    pair_send(&p, &p.a, &wr);
    pair_run(&p);
    CHECK_EQ(pair_stat(&p.b, FAKERNIC_STAT_DROP_MCAST), 1);
    CHECK_EQ(roce_mcast_attach(p.b.r, group, p.b.qpn), FAKERNIC_CMD_OK);
    CHECK_EQ(roce_mcast_attach(p.b.r, group, first), FAKERNIC_CMD_OK);
    CHECK_EQ(roce_mcast_attach(p.b.r, group, 15), FAKERNIC_CMD_BAD_ID);
    CHECK_EQ(roce_mcast_attach(p.b.r, p.a.gid.gid, first),
             FAKERNIC_CMD_BAD_PARAM);
    pair_recv(&p.b, 1, 4096, 200);
    p.b.qpn = first;
    pair_recv(&p.b, 2, 8192, 200);
    pair_send(&p, &p.a, &wr);
    pair_run(&p);
    CHECK_EQ(p.b.host->completion_count, 2);
    CHECK_EQ(roce_mcast_detach(p.b.r, group, first), FAKERNIC_CMD_OK);
    CHECK_EQ(roce_mcast_detach(p.b.r, group, first), FAKERNIC_CMD_BAD_ID);
    pair_free(&p);
}

/* The frame goes to the wire and to members on the same port. */
static void groups_reach_members_on_the_same_port(void)
{
    static const uint8_t group[16] = { [0] = 0xff, 0x0e, [15] = 1 };
    uint8_t buf[ROCE_FRAME_MAX];
    bool loopback = true;
    RoceSendWr wr;
    size_t len;
    Pair p;

    datagram_init(&p, FAKERNIC_QP_UD, QKEY);
    p.a.gid.type = FAKERNIC_GID_IPV6;
    p.a.gid.gid[0] = 0xfd;
    CHECK_EQ(roce_gid_set(p.a.r, 1, &p.a.gid), FAKERNIC_CMD_OK);
    CHECK_EQ(roce_mcast_attach(p.a.r, group, p.a.qpn), FAKERNIC_CMD_OK);
    pair_recv(&p.a, 1, 4096, 200);
    wr = datagram_wr(&p.a, &p.b, 1, 64);
    wr.ud.av.sgid_index = 1;
    memcpy(wr.ud.av.dgid, group, 16);
    wr.ud.dest_qpn = FAKERNIC_QPN_MULTICAST;
    pair_send(&p, &p.a, &wr);
    CHECK(roce_output(p.a.r, 0, buf, &loopback) > 0);
    CHECK(!loopback);
    len = roce_output(p.a.r, 0, buf, &loopback);
    CHECK(len > 0 && loopback);
    CHECK_EQ(roce_input(p.a.r, 0, buf, len), ROCE_INPUT_TAKEN);
    CHECK_EQ(roce_output(p.a.r, 0, buf, &loopback), 0);
    pair_expect(&p.a, FAKERNIC_CQE_SEND, 1, FAKERNIC_WC_SUCCESS);
    pair_expect(&p.a, FAKERNIC_CQE_RECV, 1, FAKERNIC_WC_SUCCESS);
    pair_free(&p);
}

/* QP 'qpn' of a sends to the group. Host a receives 'times' copies. */
static void datagram_to_group(Pair *p, const uint8_t group[16], uint32_t qpn,
                              unsigned times)
{
    uint8_t buf[ROCE_FRAME_MAX];
    RoceSendWr wr;
    bool loopback;
    size_t len;

    p->a.qpn = qpn;
    wr = datagram_wr(&p->a, &p->b, 9, 64);
    memcpy(wr.ud.av.dgid, group, 16);
    wr.ud.dest_qpn = FAKERNIC_QPN_MULTICAST;
    pair_send(p, &p->a, &wr);
    CHECK(roce_output(p->a.r, 0, buf, &loopback) > 0);
    len = roce_output(p->a.r, 0, buf, &loopback);
    CHECK(len > 0 && loopback);
    pair_expect(&p->a, FAKERNIC_CQE_SEND, 9, FAKERNIC_WC_SUCCESS);
    while (times-- > 0) {
        CHECK_EQ(roce_input(p->a.r, 0, buf, len), ROCE_INPUT_TAKEN);
    }
}

/*
 * A QP that blocks its own multicast datagrams gets neither the device's copy
 * nor one from the wire. Other QPs get both, and it gets those of other QPs.
 */
static void blocked_loopback_hides_own_multicasts(void)
{
    static const uint8_t group[16] = { [10] = 0xff, 0xff, 239, 1, 2, 3 };
    const RoceQpInit init = {
        .type = FAKERNIC_QP_UD, .has_sq = true, .has_rq = true, .pd = 1,
        .block_mcast_lb = true,
    };
    uint32_t other, blocked;
    Pair p;

    datagram_init(&p, FAKERNIC_QP_UD, QKEY);
    other = p.a.qpn;
    for (uint32_t tag = 2; tag < 5; tag++) {
        pair_recv(&p.a, tag, 8192, 200);
    }
    CHECK_EQ(roce_qp_create(p.a.r, &init, &blocked), FAKERNIC_CMD_OK);
    p.a.qpn = blocked;
    datagram_rts(&p.a, QKEY);
    pair_recv(&p.a, 1, 4096, 200);
    CHECK_EQ(roce_mcast_attach(p.a.r, group, blocked), FAKERNIC_CMD_OK);
    CHECK_EQ(roce_mcast_attach(p.a.r, group, other), FAKERNIC_CMD_OK);
    datagram_to_group(&p, group, blocked, 2);
    pair_expect(&p.a, FAKERNIC_CQE_RECV, 2, FAKERNIC_WC_SUCCESS);
    pair_expect(&p.a, FAKERNIC_CQE_RECV, 3, FAKERNIC_WC_SUCCESS);
    datagram_to_group(&p, group, other, 1);
    pair_expect(&p.a, FAKERNIC_CQE_RECV, 1, FAKERNIC_WC_SUCCESS);
    pair_expect(&p.a, FAKERNIC_CQE_RECV, 4, FAKERNIC_WC_SUCCESS);
    pair_expect_none(&p.a);
    pair_free(&p);
}

static void uc_delivers_and_completes_at_once(void)
{
    PAIR(p, FAKERNIC_QP_UC);

    pair_fill(p.a.memory, 2000, 3);
    pair_recv(&p.b, 6, 4096, 2000);
    pair_post(&p, 1, FAKERNIC_SQ_SEND, 0, 2000);
    pair_post_rdma(&p, 2, FAKERNIC_SQ_RDMA_WRITE, 0, 2000);
    pair_run(&p);
    CHECK_MEM(p.b.memory + 4096, p.a.memory, 2000);
    CHECK_MEM(p.b.memory, p.a.memory, 2000);
    pair_expect(&p.a, FAKERNIC_CQE_SEND, 1, FAKERNIC_WC_SUCCESS);
    pair_expect(&p.a, FAKERNIC_CQE_RDMA_WRITE, 2, FAKERNIC_WC_SUCCESS);
    pair_expect(&p.b, FAKERNIC_CQE_RECV, 6, FAKERNIC_WC_SUCCESS);
    CHECK_EQ(p.b.sent, 0);
}

/* Sends one packet of UC or UD, which has not completed yet. */
static void unanswered_begin(Pair *p, uint8_t type)
{
    RoceSendWr wr;

    if (type == FAKERNIC_QP_UD) {
        datagram_init(p, type, QKEY);
        wr = datagram_wr(&p->a, &p->b, 1, 64);
    } else {
        pair_init(p, type);
        wr = pair_wr(&p->a, 1, FAKERNIC_SQ_SEND, 0, 64);
    }
    pair_send(p, &p->a, &wr);
    CHECK(pair_step(p, &p->a, &p->b));
    pair_expect_none(&p->a);
}

/* IBTA 9.8.2, 9.8.3: a request completes once it is on the wire. */
static void unreliable_send_completes_when_sent(void)
{
    static const uint8_t types[] = { FAKERNIC_QP_UC, FAKERNIC_QP_UD };
    const RoceQpAttr error = { .state = FAKERNIC_QPS_ERR };
    Pair p;

    for (size_t i = 0; i < TEST_COUNT(types); i++) {
        unanswered_begin(&p, types[i]);
        CHECK(!pair_step(&p, &p.a, &p.b));
        pair_expect(&p.a, FAKERNIC_CQE_SEND, 1, FAKERNIC_WC_SUCCESS);
        pair_free(&p);
        /* ERR does not flush a request that was sent. */
        unanswered_begin(&p, types[i]);
        CHECK_EQ(pair_modify(&p.a, p.now, FAKERNIC_QP_ATTR_STATE, &error),
                 FAKERNIC_CMD_OK);
        pair_expect(&p.a, FAKERNIC_CQE_SEND, 1, FAKERNIC_WC_SUCCESS);
        CHECK(!pair_step(&p, &p.a, &p.b));
        pair_expect_none(&p.a);
        pair_free(&p);
        /* A QP that is destroyed in between completes nothing. */
        unanswered_begin(&p, types[i]);
        CHECK_EQ(roce_qp_destroy(p.a.r, p.a.qpn), FAKERNIC_CMD_OK);
        CHECK(!pair_step(&p, &p.a, &p.b));
        pair_expect_none(&p.a);
        pair_free(&p);
    }
}

/* A message with a gap is lost. The next one takes its receive. */
static void uc_loses_whole_messages(void)
{
    RoceSendWr wr;
    PAIR(p, FAKERNIC_QP_UC);

    pair_recv(&p.b, 6, 4096, 2000);
    pair_lose(&p.a, 2);
    wr = pair_wr(&p.a, 1, FAKERNIC_SQ_SEND, 0, 1000);
    pair_send(&p, &p.a, &wr);
    pair_run(&p);
    pair_expect_none(&p.b);
    wr.sge[0].length = 700;
    pair_send(&p, &p.a, &wr);
    pair_run(&p);
    CHECK_EQ(p.b.host->completion_count, 1);
    CHECK_EQ(p.b.host->completions[0].byte_count, 700);
    CHECK_EQ(pair_stat(&p.b, FAKERNIC_STAT_OUT_OF_SEQUENCE), 1);
}

/* After a message that fails half way, the send queue can continue. */
static void uc_continues_after_failed_message(void)
{
    RoceQpAttr attr = { .state = FAKERNIC_QPS_RTS };
    RoceSendWr wr;
    PAIR(p, FAKERNIC_QP_UC);

    pair_fill(p.a.memory, 2000, 3);
    wr = pair_rdma_wr(&p.a, &p.b, 1, FAKERNIC_SQ_RDMA_WRITE, 0, 2000);
    pair_send(&p, &p.a, &wr);
    CHECK(pair_step(&p, &p.a, &p.b));
    fake_memory_unreachable(p.a.host, PAIR_MEMORY, true);
    pair_run(&p);
    pair_expect(&p.a, FAKERNIC_CQE_RDMA_WRITE, 1, FAKERNIC_WC_LOC_PROT_ERR);
    CHECK_EQ(pair_state(&p.a), FAKERNIC_QPS_SQE);
    fake_memory_unreachable(p.a.host, PAIR_MEMORY, false);
    CHECK_EQ(pair_modify(&p.a, p.now, FAKERNIC_QP_ATTR_STATE, &attr),
             FAKERNIC_CMD_OK);
    wr.index = 2;
    pair_send(&p, &p.a, &wr);
    pair_run(&p);
    pair_expect(&p.a, FAKERNIC_CQE_RDMA_WRITE, 2, FAKERNIC_WC_SUCCESS);
    CHECK_MEM(p.b.memory, p.a.memory, 2000);
}

static const Test tests[] = {
    TEST(datagram_arrives_behind_its_grh),
    TEST(datagrams_that_do_not_fit_are_dropped),
    TEST(long_datagram_completes_a_receive_of_an_srq),
    TEST(wrong_qkey_is_dropped),
    TEST(refused_datagram_causes_sqe),
    TEST(bad_address_vector_is_refused),
    TEST(gsi_is_qp_1_with_well_known_qkey),
    TEST(own_gid_is_looped_back),
    TEST(groups_reach_their_members),
    TEST(groups_reach_members_on_the_same_port),
    TEST(blocked_loopback_hides_own_multicasts),
    TEST(uc_delivers_and_completes_at_once),
    TEST(unreliable_send_completes_when_sent),
    TEST(uc_loses_whole_messages),
    TEST(uc_continues_after_failed_message),
};

TEST_MAIN(tests)
