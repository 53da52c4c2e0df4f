/* SPDX-License-Identifier: GPL-2.0-or-later */
/* QP states and attributes: IBTA 11.2.5.2, 10.3.1. */
#include "pair.h"

#include "engine.h"

#define STATE FAKERNIC_QP_ATTR_STATE

static int modify(PairHost *h, uint32_t mask, const RoceQpAttr *attr,
                  uint32_t *bad)
{
    return roce_qp_modify(h->r, 0, h->qpn, mask, attr, bad);
}

static int to_state(PairHost *h, uint8_t state)
{
    RoceQpAttr attr = { .state = state };
    uint32_t bad;

    return modify(h, STATE, &attr, &bad);
}

static void required_attributes_are_required(void)
{
    RoceQpAttr attr;
    uint32_t bad;
    uint32_t bit;
    PAIR(p, FAKERNIC_QP_RC);

    CHECK_EQ(to_state(&p.a, FAKERNIC_QPS_RESET), FAKERNIC_CMD_OK);
    attr = pair_attr(&p.b);
    attr.state = FAKERNIC_QPS_INIT;
    CHECK_EQ(modify(&p.a, PAIR_INIT_MASK, &attr, &bad), FAKERNIC_CMD_OK);
    attr.state = FAKERNIC_QPS_RTR;
    for (bit = 2; bit <= PAIR_RTR_MASK; bit <<= 1) {
        if (PAIR_RTR_MASK & bit) {
            CHECK_EQ(modify(&p.a, PAIR_RTR_MASK & ~bit, &attr, &bad),
                     FAKERNIC_CMD_BAD_PARAM);
            CHECK_EQ(bad, bit);
            CHECK_EQ(pair_state(&p.a), FAKERNIC_QPS_INIT);
        }
    }
    CHECK_EQ(modify(&p.a, PAIR_RTR_MASK | FAKERNIC_QP_ATTR_SQ_PSN, &attr,
                    &bad), FAKERNIC_CMD_BAD_PARAM);
    CHECK_EQ(bad, FAKERNIC_QP_ATTR_SQ_PSN);
    CHECK_EQ(modify(&p.a, PAIR_RTR_MASK, &attr, &bad), FAKERNIC_CMD_OK);
}

static void forbidden_transitions_are_refused(void)
{
    PAIR(p, FAKERNIC_QP_RC);

    CHECK_EQ(to_state(&p.a, FAKERNIC_QPS_INIT), FAKERNIC_CMD_BAD_STATE);
    CHECK_EQ(to_state(&p.a, FAKERNIC_QPS_RTR), FAKERNIC_CMD_BAD_STATE);
    CHECK_EQ(to_state(&p.a, FAKERNIC_QPS_SQE), FAKERNIC_CMD_BAD_PARAM);
    CHECK_EQ(to_state(&p.a, 7), FAKERNIC_CMD_BAD_PARAM);
    CHECK_EQ(pair_state(&p.a), FAKERNIC_QPS_RTS);
    CHECK_EQ(to_state(&p.a, FAKERNIC_QPS_ERR), FAKERNIC_CMD_OK);
    CHECK_EQ(to_state(&p.a, FAKERNIC_QPS_RTS), FAKERNIC_CMD_BAD_STATE);
    CHECK_EQ(to_state(&p.a, FAKERNIC_QPS_RESET), FAKERNIC_CMD_OK);
}

/* Sets one attribute, and returns its bit. */
static uint32_t set_bad_value(RoceQpAttr *attr, unsigned i)
{
    switch (i) {
    case 0:
        attr->path_mtu = 6;
        return FAKERNIC_QP_ATTR_PATH_MTU;
    case 1:
        attr->path_mtu = 0;
        return FAKERNIC_QP_ATTR_PATH_MTU;
    case 2:
        attr->min_rnr_timer = 32;
        return FAKERNIC_QP_ATTR_MIN_RNR_TIMER;
    case 3:
        attr->max_dest_rd_atomic = 5;
        return FAKERNIC_QP_ATTR_MAX_DEST_RD_ATOMIC;
    case 4:
        attr->rq_psn = 1 << 24;
        return FAKERNIC_QP_ATTR_RQ_PSN;
    case 5:
        attr->av.sgid_index = 3;
        return FAKERNIC_QP_ATTR_AV;
    }
    return 0;
}

static void bad_values_are_refused(void)
{
    RoceQpAttr attr;
    uint32_t bad, bit;
    unsigned i;
    PAIR(p, FAKERNIC_QP_RC);

    CHECK_EQ(to_state(&p.a, FAKERNIC_QPS_RESET), FAKERNIC_CMD_OK);
    attr = pair_attr(&p.b);
    attr.state = FAKERNIC_QPS_INIT;
    CHECK_EQ(modify(&p.a, PAIR_INIT_MASK, &attr, &bad), FAKERNIC_CMD_OK);
    for (i = 0;; i++) {
        attr = pair_attr(&p.b);
        attr.state = FAKERNIC_QPS_RTR;
        bit = set_bad_value(&attr, i);
        if (!bit) {
            break;
        }
        CHECK_EQ(modify(&p.a, PAIR_RTR_MASK, &attr, &bad),
                 FAKERNIC_CMD_BAD_PARAM);
        CHECK_EQ(bad, bit);
    }
    /* 4096 + headers do not fit a port of 1500. */
    roce_set_port_mtu(p.a.r, 1500);
    attr = pair_attr(&p.b);
    attr.state = FAKERNIC_QPS_RTR;
    attr.path_mtu = FAKERNIC_MTU_4096;
    CHECK_EQ(modify(&p.a, PAIR_RTR_MASK, &attr, &bad), FAKERNIC_CMD_BAD_PARAM);
    attr.path_mtu = FAKERNIC_MTU_1024;
    CHECK_EQ(modify(&p.a, PAIR_RTR_MASK, &attr, &bad), FAKERNIC_CMD_OK);
}

static void query_returns_attributes_that_were_set(void)
{
    RoceQpAttr attr;
    PAIR(p, FAKERNIC_QP_RC);

    CHECK_EQ(roce_qp_query(p.a.r, p.a.qpn, &attr), FAKERNIC_CMD_OK);
    CHECK_EQ(attr.state, FAKERNIC_QPS_RTS);
    CHECK_EQ(attr.dest_qpn, p.b.qpn);
    CHECK_EQ(attr.sq_psn, PAIR_PSN);
    CHECK_EQ(attr.rq_psn, PAIR_PSN);
    CHECK_EQ(attr.retry_cnt, 3);
    CHECK_EQ(attr.av.dgid[15], 2);
    CHECK_EQ(roce_qp_query(p.a.r, 14, &attr), FAKERNIC_CMD_BAD_ID);
}

/* The first PSNs of a QP stay known after traffic, for each direction. */
static void query_returns_first_psns_after_traffic(void)
{
    RoceQpAttr attr;
    uint32_t bad, psn;
    RoceSendWr wr;
    PAIR(p, FAKERNIC_QP_RC);

    CHECK_EQ(to_state(&p.a, FAKERNIC_QPS_RESET), FAKERNIC_CMD_OK);
    attr = pair_attr(&p.b);
    attr.rq_psn = 0xfffff0;
    attr.state = FAKERNIC_QPS_INIT;
    CHECK_EQ(modify(&p.a, PAIR_INIT_MASK, &attr, &bad), FAKERNIC_CMD_OK);
    attr.state = FAKERNIC_QPS_RTR;
    CHECK_EQ(modify(&p.a, PAIR_RTR_MASK, &attr, &bad), FAKERNIC_CMD_OK);
    attr.state = FAKERNIC_QPS_RTS;
    CHECK_EQ(modify(&p.a, PAIR_RTS_MASK, &attr, &bad), FAKERNIC_CMD_OK);
    wr = pair_wr(&p.a, 0, FAKERNIC_SQ_SEND, 0, 64);
    pair_recv(&p.b, 0, 0, 64);
    pair_send(&p, &p.a, &wr);
    pair_run(&p);
    pair_expect(&p.a, FAKERNIC_CQE_SEND, 0, FAKERNIC_WC_SUCCESS);
    CHECK(roce_qp_first_psn(p.a.r, p.a.qpn, true, &psn));
    CHECK_EQ(psn, PAIR_PSN);
    CHECK(roce_qp_first_psn(p.a.r, p.a.qpn, false, &psn));
    CHECK_EQ(psn, 0xfffff0);
    CHECK(!roce_qp_first_psn(p.a.r, 14, true, &psn));
}

static void err_flushes_both_queues_in_order(void)
{
    RoceSendWr wr;
    unsigned i;
    PAIR(p, FAKERNIC_QP_RC);

    p.a.mute = true;
    for (i = 0; i < 40; i++) {
        wr = pair_wr(&p.a, i, FAKERNIC_SQ_SEND, 0, 64);
        wr.flags = 0;
        pair_send(&p, &p.a, &wr);
        pair_recv(&p.a, i, 0, 64);
    }
    pair_run(&p);
    CHECK_EQ(to_state(&p.a, FAKERNIC_QPS_ERR), FAKERNIC_CMD_OK);
    for (i = 0; i < 10 && roce_deadline(p.a.r) <= p.now; i++) {
        roce_tick(p.a.r, p.now);
    }
    for (i = 0; i < 40; i++) {
        pair_expect(&p.a, FAKERNIC_CQE_SEND, i, FAKERNIC_WC_WR_FLUSH_ERR);
    }
    for (i = 0; i < 40; i++) {
        pair_expect(&p.a, FAKERNIC_CQE_RECV, i, FAKERNIC_WC_WR_FLUSH_ERR);
    }
    pair_expect_none(&p.a);
    CHECK(fake_next_event(p.a.host) == NULL);
}

/* Receives ring no doorbell, so a QP in error polls for them. */
static void err_flushes_receives_posted_later(void)
{
    PAIR(p, FAKERNIC_QP_RC);

    CHECK_EQ(to_state(&p.a, FAKERNIC_QPS_ERR), FAKERNIC_CMD_OK);
    pair_post(&p, 1, FAKERNIC_SQ_SEND, 0, 64);
    pair_expect(&p.a, FAKERNIC_CQE_SEND, 1, FAKERNIC_WC_WR_FLUSH_ERR);
    pair_recv(&p.a, 2, 0, 64);
    CHECK(roce_deadline(p.a.r) <= FAKERNIC_RQ_FLUSH_INTERVAL_NS);
    roce_tick(p.a.r, FAKERNIC_RQ_FLUSH_INTERVAL_NS);
    pair_expect(&p.a, FAKERNIC_CQE_RECV, 2, FAKERNIC_WC_WR_FLUSH_ERR);
}

/*
 * A QP in error without receives polls less and less often. A receive that is
 * posted later is flushed within the longest interval.
 */
static void err_polls_less_often_without_receives(void)
{
    const RoceTime second = 1000000000;
    unsigned ticks = 0;
    RoceTime now;
    PAIR(p, FAKERNIC_QP_RC);

    CHECK_EQ(to_state(&p.a, FAKERNIC_QPS_ERR), FAKERNIC_CMD_OK);
    while ((now = roce_deadline(p.a.r)) < 10 * second) {
        roce_tick(p.a.r, now);
        ticks++;
    }
    CHECK(ticks < 30);
    now = 10 * second;
    pair_recv(&p.a, 2, 0, 64);
    CHECK(roce_deadline(p.a.r) <= now + FAKERNIC_RQ_FLUSH_INTERVAL_MAX_NS);
    now = roce_deadline(p.a.r);
    roce_tick(p.a.r, now);
    pair_expect(&p.a, FAKERNIC_CQE_RECV, 2, FAKERNIC_WC_WR_FLUSH_ERR);
    CHECK_EQ(roce_deadline(p.a.r), now + FAKERNIC_RQ_FLUSH_INTERVAL_NS);
}

/* A send doorbell makes an idle QP in ERR poll its receives at once. */
static void send_doorbell_in_err_polls_receives(void)
{
    RoceTime now = 0;
    RoceSendWr wr;
    PAIR(p, FAKERNIC_QP_RC);

    CHECK_EQ(to_state(&p.a, FAKERNIC_QPS_ERR), FAKERNIC_CMD_OK);
    for (unsigned i = 0; i < 8; i++) {
        now = roce_deadline(p.a.r);
        roce_tick(p.a.r, now);
    }
    pair_recv(&p.a, 2, 0, 64);
    wr = pair_wr(&p.a, 1, FAKERNIC_SQ_SEND, 0, 64);
    fake_post_send(p.a.host, p.a.qpn, &wr);
    roce_post_send(p.a.r, now, p.a.qpn);
    pair_expect(&p.a, FAKERNIC_CQE_SEND, 1, FAKERNIC_WC_WR_FLUSH_ERR);
    pair_expect(&p.a, FAKERNIC_CQE_RECV, 2, FAKERNIC_WC_WR_FLUSH_ERR);
    CHECK_EQ(roce_deadline(p.a.r), now + FAKERNIC_RQ_FLUSH_INTERVAL_NS);
}

static void reset_discards_requests_without_completions(void)
{
    PAIR(p, FAKERNIC_QP_RC);

    pair_post(&p, 1, FAKERNIC_SQ_SEND, 0, 64);
    CHECK(pair_step(&p, &p.a, &p.b));
    CHECK_EQ(to_state(&p.a, FAKERNIC_QPS_RESET), FAKERNIC_CMD_OK);
    pair_run(&p);
    pair_expect_none(&p.a);
    CHECK_EQ(roce_deadline(p.a.r), ROCE_TIME_NEVER);
    CHECK_EQ(pair_stat(&p.a, FAKERNIC_STAT_DROP_QP_STATE), 1);
}

static void sends_wait_for_rts(void)
{
    RoceQpAttr attr;
    uint32_t bad;
    PAIR(p, FAKERNIC_QP_RC);

    CHECK_EQ(to_state(&p.a, FAKERNIC_QPS_RESET), FAKERNIC_CMD_OK);
    attr = pair_attr(&p.b);
    attr.state = FAKERNIC_QPS_INIT;
    CHECK_EQ(modify(&p.a, PAIR_INIT_MASK, &attr, &bad), FAKERNIC_CMD_OK);
    attr.state = FAKERNIC_QPS_RTR;
    CHECK_EQ(modify(&p.a, PAIR_RTR_MASK, &attr, &bad), FAKERNIC_CMD_OK);
    pair_post_rdma(&p, 1, FAKERNIC_SQ_RDMA_WRITE, 0, 64);
    pair_run(&p);
    pair_expect_none(&p.a);
    attr.state = FAKERNIC_QPS_RTS;
    CHECK_EQ(modify(&p.a, PAIR_RTS_MASK, &attr, &bad), FAKERNIC_CMD_OK);
    pair_run(&p);
    pair_expect(&p.a, FAKERNIC_CQE_RDMA_WRITE, 1, FAKERNIC_WC_SUCCESS);
}

/* In RTR the first request causes one event. */
static void first_request_causes_comm_est(void)
{
    RoceSendWr wr;
    RoceQpAttr attr;
    uint32_t bad;
    PAIR(p, FAKERNIC_QP_RC);

    CHECK_EQ(to_state(&p.b, FAKERNIC_QPS_RESET), FAKERNIC_CMD_OK);
    attr = pair_attr(&p.a);
    attr.state = FAKERNIC_QPS_INIT;
    CHECK_EQ(modify(&p.b, PAIR_INIT_MASK, &attr, &bad), FAKERNIC_CMD_OK);
    attr.state = FAKERNIC_QPS_RTR;
    CHECK_EQ(modify(&p.b, PAIR_RTR_MASK, &attr, &bad), FAKERNIC_CMD_OK);
    wr = pair_rdma_wr(&p.a, &p.b, 1, FAKERNIC_SQ_RDMA_WRITE, 0, 64);
    pair_send(&p, &p.a, &wr);
    pair_send(&p, &p.a, &wr);
    pair_run(&p);
    pair_expect_event(&p.b, FAKERNIC_EVENT_COMM_ESTABLISHED);
    CHECK(fake_next_event(p.b.host) == NULL);
    pair_expect(&p.a, FAKERNIC_CQE_RDMA_WRITE, 1, FAKERNIC_WC_SUCCESS);
}

/* Moves a QP through RESET to RTR. */
static void to_rtr(Pair *p, PairHost *h, PairHost *peer)
{
    uint32_t mask = p->type == FAKERNIC_QP_UC ? PAIR_UC_RTR_MASK
                                              : PAIR_RTR_MASK;
    RoceQpAttr attr = pair_attr(peer);
    uint32_t bad;

    CHECK_EQ(to_state(h, FAKERNIC_QPS_RESET), FAKERNIC_CMD_OK);
    attr.state = FAKERNIC_QPS_INIT;
    CHECK_EQ(modify(h, PAIR_INIT_MASK, &attr, &bad), FAKERNIC_CMD_OK);
    attr.state = FAKERNIC_QPS_RTR;
    CHECK_EQ(modify(h, mask, &attr, &bad), FAKERNIC_CMD_OK);
}

/* A request with another PSN is not the first one of this connection. */
static void stale_request_causes_no_comm_est(void)
{
    RocePacket packet;
    PAIR(p, FAKERNIC_QP_RC);

    to_rtr(&p, &p.b, &p.a);
    packet = pair_packet(&p.a, &p.b, ROCE_BTH_SEND_ONLY, PAIR_PSN + 1);
    pair_inject(&p, &p.b, &packet, "abcd", 4);
    packet.psn = PAIR_PSN - 1;
    pair_inject(&p, &p.b, &packet, "abcd", 4);
    CHECK(fake_next_event(p.b.host) == NULL);
    /* The first request counts even without a receive. */
    packet.psn = PAIR_PSN;
    pair_inject(&p, &p.b, &packet, "abcd", 4);
    pair_expect_event(&p.b, FAKERNIC_EVENT_COMM_ESTABLISHED);
    pair_inject(&p, &p.b, &packet, "abcd", 4);
    CHECK(fake_next_event(p.b.host) == NULL);
}

/* UC: the first packet of a message may have any PSN, others must follow. */
static void uc_message_causes_comm_est(void)
{
    uint8_t data[PAIR_MTU] = { 0 };
    RocePacket packet;
    PAIR(p, FAKERNIC_QP_UC);

    to_rtr(&p, &p.b, &p.a);
    packet = pair_packet(&p.a, &p.b, ROCE_BTH_UC | ROCE_BTH_SEND_MIDDLE,
                         PAIR_PSN);
    pair_inject(&p, &p.b, &packet, data, sizeof(data));
    CHECK(fake_next_event(p.b.host) == NULL);
    packet = pair_packet(&p.a, &p.b, ROCE_BTH_UC | ROCE_BTH_SEND_ONLY,
                         PAIR_PSN + 9);
    pair_inject(&p, &p.b, &packet, "abcd", 4);
    pair_expect_event(&p.b, FAKERNIC_EVENT_COMM_ESTABLISHED);
}

/* SQD finishes what was begun, starts nothing, and reports the end. */
static void sqd_drains_and_resumes(void)
{
    RoceSendWr wr;
    RoceQpAttr attr = { .state = FAKERNIC_QPS_SQD, .sqd_async_notify = 1 };
    uint32_t bad;
    PAIR(p, FAKERNIC_QP_RC);

    wr = pair_rdma_wr(&p.a, &p.b, 1, FAKERNIC_SQ_RDMA_WRITE, 0, 2000);
    pair_send(&p, &p.a, &wr);
    CHECK(pair_step(&p, &p.a, &p.b));
    wr.index = 2;
    pair_send(&p, &p.a, &wr);
    CHECK_EQ(modify(&p.a, STATE | FAKERNIC_QP_ATTR_SQD_ASYNC_NOTIFY, &attr,
                    &bad), FAKERNIC_CMD_OK);
    CHECK_EQ(roce_qp_query(p.a.r, p.a.qpn, &attr), FAKERNIC_CMD_OK);
    CHECK_EQ(attr.sq_draining, 1);
    CHECK(fake_next_event(p.a.host) == NULL);
    pair_run(&p);
    pair_expect(&p.a, FAKERNIC_CQE_RDMA_WRITE, 1, FAKERNIC_WC_SUCCESS);
    pair_expect_none(&p.a);
    pair_expect_event(&p.a, FAKERNIC_EVENT_SQ_DRAINED);
    CHECK_EQ(roce_qp_query(p.a.r, p.a.qpn, &attr), FAKERNIC_CMD_OK);
    CHECK_EQ(attr.sq_draining, 0);
    CHECK_EQ(to_state(&p.a, FAKERNIC_QPS_RTS), FAKERNIC_CMD_OK);
    pair_run(&p);
    pair_expect(&p.a, FAKERNIC_CQE_RDMA_WRITE, 2, FAKERNIC_WC_SUCCESS);
}

/* b receives from SRQ 5. Returns a receive to post to it. */
static RoceRecvWr srq_init(Pair *p)
{
    RoceQpInit init = {
        .type = FAKERNIC_QP_RC, .has_sq = true, .srqn = 5, .pd = 1,
        .send_cqn = 10, .recv_cqn = 11,
    };
    RoceRecvWr recv = { .tag = 8, .sge_count = 1 };

    pair_init(p, FAKERNIC_QP_RC);
    CHECK_EQ(roce_qp_destroy(p->b.r, p->b.qpn), FAKERNIC_CMD_OK);
    CHECK_EQ(roce_qp_create(p->b.r, &init, &p->b.qpn), FAKERNIC_CMD_OK);
    pair_connect(&p->b, &p->a, FAKERNIC_QP_RC);
    CHECK_EQ(to_state(&p->a, FAKERNIC_QPS_RESET), FAKERNIC_CMD_OK);
    pair_connect(&p->a, &p->b, FAKERNIC_QP_RC);
    recv.sge[0] = pair_sge(&p->b, 0, 64);
    return recv;
}

static void srq_receives_are_not_flushed(void)
{
    RoceRecvWr recv;
    Pair p;

    recv = srq_init(&p);
    fake_post_srq(p.b.host, 5, &recv);
    fake_post_srq(p.b.host, 5, &recv);
    pair_post(&p, 1, FAKERNIC_SQ_SEND, 0, 64);
    pair_run(&p);
    CHECK_EQ(p.b.host->completions[0].srqn, 5);
    pair_expect(&p.b, FAKERNIC_CQE_RECV, 8, FAKERNIC_WC_SUCCESS);
    CHECK_EQ(to_state(&p.b, FAKERNIC_QPS_ERR), FAKERNIC_CMD_OK);
    pair_expect_none(&p.b);
    pair_expect_event(&p.b, FAKERNIC_EVENT_LAST_WQE_REACHED);
    CHECK_EQ(fake_queue_left(p.b.host, FAKE_SRQ, 5), 1);
    CHECK_EQ(roce_deadline(p.b.r), ROCE_TIME_NEVER);
    pair_free(&p);
}

/*
 * The QP is destroyed or reset in the middle of a message. Its receive of the
 * SRQ must be flushed, as nothing else would report it.
 */
static void receive_taken_from_srq_is_flushed_with_qp(void)
{
    unsigned i;

    for (i = 0; i < 2; i++) {
        RoceRecvWr recv;
        Pair p;

        recv = srq_init(&p);
        recv.sge[0] = pair_sge(&p.b, 0, 2 * PAIR_MTU);
        fake_post_srq(p.b.host, 5, &recv);
        pair_post(&p, 1, FAKERNIC_SQ_SEND, 0, 2 * PAIR_MTU);
        CHECK(pair_step(&p, &p.a, &p.b));
        CHECK_EQ(fake_queue_left(p.b.host, FAKE_SRQ, 5), 0);
        CHECK_EQ(i ? roce_qp_destroy(p.b.r, p.b.qpn)
                   : to_state(&p.b, FAKERNIC_QPS_RESET), FAKERNIC_CMD_OK);
        CHECK_EQ(p.b.host->completions[0].srqn, 5);
        pair_expect(&p.b, FAKERNIC_CQE_RECV, 8, FAKERNIC_WC_WR_FLUSH_ERR);
        pair_expect_none(&p.b);
        pair_free(&p);
    }
}

static void empty_srq_causes_rnr_nak(void)
{
    RoceRecvWr recv;
    RoceSendWr wr;
    Pair p;

    recv = srq_init(&p);
    fake_post_srq(p.b.host, 5, &recv);
    wr = pair_wr(&p.a, 1, FAKERNIC_SQ_SEND, 0, 64);
    pair_send(&p, &p.a, &wr);
    pair_send(&p, &p.a, &wr);
    pair_run(&p);
    CHECK_EQ(pair_stat(&p.b, FAKERNIC_STAT_TX_RNR_NAK), 1);
    pair_expect(&p.b, FAKERNIC_CQE_RECV, 8, FAKERNIC_WC_SUCCESS);
    pair_expect_none(&p.b);
    fake_post_srq(p.b.host, 5, &recv);
    pair_run_until(&p, 10000000);
    pair_expect(&p.b, FAKERNIC_CQE_RECV, 8, FAKERNIC_WC_SUCCESS);
    CHECK_EQ(pair_stat(&p.b, FAKERNIC_STAT_TX_RNR_NAK), 1);
    pair_free(&p);
}

static void failed_queue_fails_qp(void)
{
    RoceSendWr wr;
    Pair p;

    pair_init(&p, FAKERNIC_QP_RC);
    wr = pair_wr(&p.a, 1, FAKERNIC_SQ_SEND, 0, 64);
    pair_send(&p, &p.a, &wr);
    fake_queue_break(p.a.host, FAKE_SQ, p.a.qpn, FAKERNIC_VENDOR_SQ_OVERRUN);
    pair_run(&p);
    pair_expect_event(&p.a, FAKERNIC_EVENT_QP_FATAL);
    CHECK_EQ(p.a.host->events[0].vendor_err, FAKERNIC_VENDOR_SQ_OVERRUN);
    CHECK_EQ(pair_state(&p.a), FAKERNIC_QPS_ERR);
    pair_free(&p);
    pair_init(&p, FAKERNIC_QP_RC);
    fake_queue_break(p.b.host, FAKE_RQ, p.b.qpn, FAKERNIC_VENDOR_RQ_DMA);
    pair_send(&p, &p.a, &wr);
    wr.sge[0].lkey = p.a.key;
    pair_run(&p);
    pair_expect_event(&p.b, FAKERNIC_EVENT_QP_FATAL);
    CHECK_EQ(pair_state(&p.b), FAKERNIC_QPS_ERR);
    CHECK_EQ(pair_state(&p.a), FAKERNIC_QPS_ERR);
    pair_expect(&p.a, FAKERNIC_CQE_SEND, 1, FAKERNIC_WC_REM_OP_ERR);
    pair_free(&p);
}

static void host_errors_are_reported_once(void)
{
    PAIR(p, FAKERNIC_QP_RC);

    pair_recv(&p.a, 1, 0, 64);
    roce_qp_error(p.a.r, 0, p.a.qpn, FAKERNIC_VENDOR_CQ_OVERRUN);
    roce_qp_error(p.a.r, 0, p.a.qpn, FAKERNIC_VENDOR_CQ_OVERRUN);
    roce_qp_error(p.a.r, 0, 9999, FAKERNIC_VENDOR_CQ_OVERRUN);
    pair_expect_event(&p.a, FAKERNIC_EVENT_QP_FATAL);
    CHECK(fake_next_event(p.a.host) == NULL);
    pair_expect(&p.a, FAKERNIC_CQE_RECV, 1, FAKERNIC_WC_WR_FLUSH_ERR);
}

static void qp_numbers_are_reused_last(void)
{
    RoceQpInit init = { .type = FAKERNIC_QP_UD };
    uint32_t first, qpn;
    unsigned i;
    PAIR(p, FAKERNIC_QP_RC);

    CHECK_EQ(roce_qp_create(p.a.r, &init, &first), FAKERNIC_CMD_OK);
    CHECK_EQ(roce_qp_destroy(p.a.r, first), FAKERNIC_CMD_OK);
    for (i = 0; i < 12; i++) {
        CHECK_EQ(roce_qp_create(p.a.r, &init, &qpn), FAKERNIC_CMD_OK);
        CHECK(qpn != first && qpn > 1);
    }
    CHECK_EQ(roce_qp_create(p.a.r, &init, &qpn), FAKERNIC_CMD_OK);
    CHECK_EQ(qpn, first);
    CHECK_EQ(roce_qp_create(p.a.r, &init, &qpn), FAKERNIC_CMD_NO_RESOURCE);
    init.type = FAKERNIC_QP_GSI;
    CHECK_EQ(roce_qp_create(p.a.r, &init, &qpn), FAKERNIC_CMD_OK);
    CHECK_EQ(qpn, 1);
    CHECK_EQ(roce_qp_create(p.a.r, &init, &qpn), FAKERNIC_CMD_BUSY);
}

static void engine_reset_destroys_everything(void)
{
    RoceQpAttr attr;
    PAIR(p, FAKERNIC_QP_RC);

    pair_post(&p, 1, FAKERNIC_SQ_SEND, 0, 64);
    CHECK(pair_step(&p, &p.a, &p.b));
    roce_reset(p.a.r);
    CHECK_EQ(roce_deadline(p.a.r), ROCE_TIME_NEVER);
    CHECK_EQ(roce_qp_query(p.a.r, p.a.qpn, &attr), FAKERNIC_CMD_BAD_ID);
    CHECK_EQ(pair_stat(&p.a, FAKERNIC_STAT_TX_ROCE), 0);
    pair_expect_none(&p.a);
}

/* In SQD max_dest_rd_atomic may shrink while READs wait for their response. */
static void read_response_survives_reduced_max_dest_rd_atomic(void)
{
    RoceQpAttr attr = { .max_dest_rd_atomic = 1 };
    uint32_t bad;
    unsigned i;
    PAIR(p, FAKERNIC_QP_RC);

    pair_fill(p.b.memory, 4000, 3);
    for (i = 0; i < 4; i++) {
        pair_post_rdma(&p, i, FAKERNIC_SQ_RDMA_READ, i * 1000, 1000);
        CHECK(pair_step(&p, &p.a, &p.b));
    }
    CHECK_EQ(to_state(&p.b, FAKERNIC_QPS_SQD), FAKERNIC_CMD_OK);
    CHECK_EQ(modify(&p.b, FAKERNIC_QP_ATTR_MAX_DEST_RD_ATOMIC, &attr, &bad),
             FAKERNIC_CMD_OK);
    pair_run(&p);
    for (i = 0; i < 4; i++) {
        pair_expect(&p.a, FAKERNIC_CQE_RDMA_READ, i, FAKERNIC_WC_SUCCESS);
    }
    CHECK_MEM(p.a.memory, p.b.memory, 4000);
    for (i = 0; i < 6; i++) {
        pair_post_rdma(&p, i, FAKERNIC_SQ_RDMA_READ, 0, 1000);
        pair_run(&p);
        pair_expect(&p.a, FAKERNIC_CQE_RDMA_READ, i, FAKERNIC_WC_SUCCESS);
    }
}

/* A READ waits for a resource. When max_rd_atomic becomes 0, it fails. */
static void waiting_read_fails_when_max_rd_atomic_is_0(void)
{
    RoceQpAttr attr = { .max_rd_atomic = 0 };
    uint32_t bad;
    unsigned i;
    PAIR(p, FAKERNIC_QP_RC);

    for (i = 0; i < 5; i++) {
        pair_post_rdma(&p, i, FAKERNIC_SQ_RDMA_READ, 0, 64);
    }
    while (pair_step(&p, &p.a, &p.b)) {
        continue;
    }
    CHECK_EQ(to_state(&p.a, FAKERNIC_QPS_SQD), FAKERNIC_CMD_OK);
    pair_run(&p);
    CHECK_EQ(modify(&p.a, FAKERNIC_QP_ATTR_MAX_RD_ATOMIC, &attr, &bad),
             FAKERNIC_CMD_OK);
    CHECK_EQ(to_state(&p.a, FAKERNIC_QPS_RTS), FAKERNIC_CMD_OK);
    pair_run(&p);
    for (i = 0; i < 4; i++) {
        pair_expect(&p.a, FAKERNIC_CQE_RDMA_READ, i, FAKERNIC_WC_SUCCESS);
    }
    pair_expect(&p.a, FAKERNIC_CQE_RDMA_READ, 4, FAKERNIC_WC_LOC_QP_OP_ERR);
    CHECK_EQ(pair_state(&p.a), FAKERNIC_QPS_ERR);
}

/* Events of a QP count in its set of counters and in the engine's. */
static void qp_counter_set_counts_its_events(void)
{
    uint64_t mine[FAKERNIC_STAT_COUNT] = { 0 };
    RocePacket packet;
    unsigned i;
    PAIR(p, FAKERNIC_QP_RC);

    CHECK_EQ(roce_qp_set_counters(p.a.r, p.a.qpn + 1, mine),
             FAKERNIC_CMD_BAD_ID);
    CHECK_EQ(roce_qp_set_counters(p.a.r, p.a.qpn, mine), FAKERNIC_CMD_OK);
    pair_lose(&p.b, 1);
    pair_post_rdma(&p, 1, FAKERNIC_SQ_RDMA_WRITE, 0, 64);
    pair_run_until(&p, 1000000000);
    packet = pair_packet(&p.b, &p.a, ROCE_BTH_SEND_ONLY, PAIR_PSN);
    packet.sgid[15] = 99;
    packet.traffic_class = 3;
    pair_inject(&p, &p.a, &packet, NULL, 0);
    packet.sgid[15] = 2;
    pair_inject(&p, &p.a, &packet, NULL, 0);
    pair_run(&p);
    CHECK_EQ(mine[FAKERNIC_STAT_TIMEOUTS], 1);
    CHECK_EQ(mine[FAKERNIC_STAT_RETRANSMITS], 1);
    CHECK_EQ(mine[FAKERNIC_STAT_DROP_ADDRESS], 1);
    CHECK_EQ(mine[FAKERNIC_STAT_TX_RNR_NAK], 1);
    CHECK_EQ(mine[FAKERNIC_STAT_TX_CNP], 1);
    CHECK_EQ(mine[FAKERNIC_STAT_RX_ECN_MARKED], 1);
    for (i = 0; i < FAKERNIC_STAT_COUNT; i++) {
        if (i != FAKERNIC_STAT_RX_ECN_MARKED) {
            CHECK_EQ(mine[i], pair_stat(&p.a, i));
        }
    }
    /* Without a set, the old one does not change any more. */
    CHECK_EQ(roce_qp_set_counters(p.a.r, p.a.qpn, NULL), FAKERNIC_CMD_OK);
    pair_inject(&p, &p.a, &packet, NULL, 0);
    CHECK_EQ(mine[FAKERNIC_STAT_TX_RNR_NAK], 1);
}

/* Counters of bytes include everything from Ethernet header to ICRC. */
static void byte_counters_include_all_headers(void)
{
    const uint64_t write = 14 + 20 + 8 + 12 + 16 + 64 + 4;
    const uint64_t ack = 14 + 20 + 8 + 12 + 4 + 4;
    PAIR(p, FAKERNIC_QP_RC);

    pair_post_rdma(&p, 1, FAKERNIC_SQ_RDMA_WRITE, 0, 64);
    pair_run(&p);
    pair_expect(&p.a, FAKERNIC_CQE_RDMA_WRITE, 1, FAKERNIC_WC_SUCCESS);
    CHECK_EQ(pair_stat(&p.a, FAKERNIC_STAT_TX_ROCE_BYTES), write);
    CHECK_EQ(pair_stat(&p.b, FAKERNIC_STAT_RX_ROCE_BYTES), write);
    CHECK_EQ(pair_stat(&p.b, FAKERNIC_STAT_TX_ROCE_BYTES), ack);
    CHECK_EQ(pair_stat(&p.a, FAKERNIC_STAT_RX_ROCE_BYTES), ack);
}

static const Test tests[] = {
    TEST(required_attributes_are_required),
    TEST(forbidden_transitions_are_refused),
    TEST(bad_values_are_refused),
    TEST(query_returns_attributes_that_were_set),
    TEST(query_returns_first_psns_after_traffic),
    TEST(err_flushes_both_queues_in_order),
    TEST(err_flushes_receives_posted_later),
    TEST(err_polls_less_often_without_receives),
    TEST(send_doorbell_in_err_polls_receives),
    TEST(reset_discards_requests_without_completions),
    TEST(sends_wait_for_rts),
    TEST(first_request_causes_comm_est),
    TEST(stale_request_causes_no_comm_est),
    TEST(uc_message_causes_comm_est),
    TEST(sqd_drains_and_resumes),
    TEST(srq_receives_are_not_flushed),
    TEST(receive_taken_from_srq_is_flushed_with_qp),
    TEST(empty_srq_causes_rnr_nak),
    TEST(failed_queue_fails_qp),
    TEST(host_errors_are_reported_once),
    TEST(qp_numbers_are_reused_last),
    TEST(engine_reset_destroys_everything),
    TEST(read_response_survives_reduced_max_dest_rd_atomic),
    TEST(waiting_read_fails_when_max_rd_atomic_is_0),
    TEST(qp_counter_set_counts_its_events),
    TEST(byte_counters_include_all_headers),
};

TEST_MAIN(tests)
