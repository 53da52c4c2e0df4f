/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Flow rules: what CREATE_FLOW refuses, which frames a rule takes, and which QP
 * gets the others. Also sets of counters, to which QPs are bound.
 */
#include "qemu/osdep.h"
#include "fakernic-setup.h"

static const uint8_t peer[6] = { 2, 0, 0, 0, 0, 9 };
static const uint8_t mine[6] = { 2, 0, 0, 0, 0, 0x77 };
static const uint8_t group[6] = { 1, 0, 0x5e, 0, 0, 5 };

typedef struct fakernic_create_flow_req FlowReq;

/* A raw-packet QP in RTS with four receives, tagged 'tag' and up. */
static void raw_create(Nic *n, Setup *s, Qp *qp, uint32_t tag)
{
    struct fakernic_modify_qp_req req = {
        .mask = LE32(FAKERNIC_QP_ATTR_STATE | FAKERNIC_QP_ATTR_PORT),
        .attr = { .state = FAKERNIC_QPS_INIT, .port = 1 },
    };

    qp_create(n, qp, FAKERNIC_QP_RAW_PACKET, s->pd, &s->cq, 0);
    req.qpn = LE32(qp->qpn);
    assert_status(CMD(n, MODIFY_QP, req), OK);
    assert_status(qp_to(n, qp->qpn, FAKERNIC_QPS_RTR), OK);
    assert_status(qp_to(n, qp->qpn, FAKERNIC_QPS_RTS), OK);
    for (unsigned i = 0; i < 4; i++) {
        rq_post(n, &qp->rq, tag + i, s->data + 4096, 2048, s->key);
    }
}

static FlowReq flow_dmac(const Qp *qp, const uint8_t *dmac)
{
    FlowReq req = { .qpn = LE32(qp->qpn), .type = FAKERNIC_FLOW_NORMAL };

    memcpy(req.value.dmac, dmac, 6);
    memset(req.mask.dmac, 0xff, 6);
    return req;
}

static FlowReq flow_type(const Qp *qp, uint8_t type)
{
    return (FlowReq) { .qpn = LE32(qp->qpn), .type = type };
}

static uint32_t flow_create(Nic *n, FlowReq req)
{
    return cmd_create(n, FAKERNIC_CMD_CREATE_FLOW, &req, sizeof(req));
}

/* The next receive that completes belongs to this QP. */
static void expect_at(Nic *n, Setup *s, const Qp *qp)
{
    struct fakernic_cqe cqe;

    cq_expect(n, &s->cq, &cqe, FAKERNIC_CQE_RECV, FAKERNIC_WC_SUCCESS);
    g_assert_cmpuint(le32_to_cpu(cqe.qpn), ==, qp->qpn);
}

/* Sends a frame and waits until the device has received it. */
static void deliver(Nic *n, int fd, const uint8_t *frame, size_t len)
{
    uint64_t frames = nic_stat(n, FAKERNIC_STAT_RX_FRAMES);

    wire_send(fd, frame, len);
    for (unsigned i = 0; nic_stat(n, FAKERNIC_STAT_RX_FRAMES) == frames; i++) {
        g_assert_cmpuint(i, <, 5000);
        g_usleep(1000);
    }
}

/* No queue pair has received the frame. */
static void expect_no_receiver(Nic *n, Setup *s)
{
    struct fakernic_cqe cqe;

    g_assert_false(cq_poll(n, &s->cq, &cqe));
}

/* UDP or TCP over IPv4 with a VLAN tag if vlan is not 0. */
static size_t frame_ip(uint8_t *frame, const uint8_t *dst, uint16_t vlan,
                       uint8_t protocol, uint16_t dst_port)
{
    size_t at = 14;

    frame_make(frame, dst, 100);
    if (vlan) {
        stw_be_p(frame + 12, 0x8100);
        stw_be_p(frame + 14, vlan);
        at = 18;
    }
    stw_be_p(frame + at - 2, 0x0800);
    memset(frame + at, 0, 28);
    frame[at] = 0x45;
    stw_be_p(frame + at + 2, 60);
    frame[at + 8] = 64;
    frame[at + 9] = protocol;
    stl_be_p(frame + at + 12, 0x0a000009);
    stl_be_p(frame + at + 16, 0x0a000001);
    stw_be_p(frame + at + 20, 1234);
    stw_be_p(frame + at + 22, dst_port);
    stw_be_p(frame + at + 24, 40);
    return 100;
}

static void test_flow_refused(Rig *r)
{
    Qp raw, rc;
    FlowReq req, good;
    struct fakernic_query_device_resp dev;
    uint32_t id;

    raw_create(&r->n, &r->s, &raw, 0);
    qp_create(&r->n, &rc, FAKERNIC_QP_RC, r->s.pd, &r->s.cq, 0);
    assert_status(cmd(&r->n, FAKERNIC_CMD_QUERY_DEVICE, NULL, 0, &dev,
                      sizeof(dev)), OK);
    g_assert_cmpuint(le32_to_cpu(dev.max_flow), >=, 64);
    good = flow_dmac(&raw, mine);
#define BAD(change, code, field) \
    do { \
        req = good; \
        change; \
        assert_refused(&r->n, CMD(&r->n, CREATE_FLOW, req), code, \
                       fakernic_create_flow_req, field); \
    } while (0)
    BAD(req.qpn = LE32(999), BAD_ID, qpn);
    BAD(req.qpn = 0, BAD_ID, qpn);
    BAD(req.qpn = LE32(rc.qpn), BAD_PARAM, qpn);
    BAD(req.flags = FAKERNIC_FLOW_DROP, BAD_PARAM, qpn);
    BAD(req.flags = 4, BAD_PARAM, flags);
    BAD(req.flags = FAKERNIC_FLOW_DROP | FAKERNIC_FLOW_DONT_TRAP, BAD_PARAM,
        flags);
    BAD(req.type = 4, BAD_PARAM, type);
    BAD(req.layers = LE32(0x20), BAD_PARAM, layers);
    BAD(req.layers = LE32(FAKERNIC_FLOW_IPV4 | FAKERNIC_FLOW_IPV6), BAD_PARAM,
        layers);
    BAD(req.layers = LE32(FAKERNIC_FLOW_UDP), BAD_PARAM, layers);
    BAD(req.layers = LE32(FAKERNIC_FLOW_IPV4 | FAKERNIC_FLOW_UDP |
                          FAKERNIC_FLOW_TCP), BAD_PARAM, layers);
    BAD(req.mask.vlan = LE16(1), BAD_PARAM, mask);
    BAD(req.mask.tos = 1, BAD_PARAM, mask);
    BAD(req.mask.dst_ip[15] = 1, BAD_PARAM, mask);
    BAD(req.mask.src_ip[0] = 1; req.layers = LE32(FAKERNIC_FLOW_IPV4),
                                BAD_PARAM, mask);
    BAD(req.mask.dst_port = LE16(1); req.layers = LE32(FAKERNIC_FLOW_IPV4),
                                     BAD_PARAM, mask);
    BAD(req.mask.flow_label = LE32(1); req.layers = LE32(FAKERNIC_FLOW_IPV4),
                                       BAD_PARAM, mask);
    BAD(req.mask.flow_label = LE32(1 << 20);
        req.layers = LE32(FAKERNIC_FLOW_IPV6), BAD_PARAM, mask);
    BAD(req.value.smac[0] = 1, BAD_PARAM, value);
    BAD(req.mask.rsvd[0] = 1, BAD_RESERVED, mask.rsvd);
    BAD(req.value.rsvd[0] = 1, BAD_RESERVED, value.rsvd);
    good = flow_type(&raw, FAKERNIC_FLOW_SNIFFER);
    BAD(req.priority = LE16(1), BAD_PARAM, priority);
    BAD(req.flags = FAKERNIC_FLOW_DONT_TRAP, BAD_PARAM, flags);
    BAD(req.layers = LE32(1), BAD_PARAM, layers);
    BAD(req.mask.dmac[0] = 1, BAD_PARAM, mask);
    BAD(req.value.dmac[0] = 1, BAD_PARAM, value);
#undef BAD
    id = flow_create(&r->n, good);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_QP, raw.qpn), BUSY);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_FLOW, id), OK);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_FLOW, id), BAD_ID);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_FLOW, 0), BAD_ID);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_QP, raw.qpn), OK);
}

/* Where frames go: rules by priority, copies, drops, the port, the defaults. */
static void test_flow_order(void)
{
    Machine m;
    Nic n;
    Setup s;
    Qp port, a, b;
    FlowReq req;
    uint8_t frame[100];
    int fd = start_wired(&m, &n);
    uint32_t first, second, all;

    setup(&n, &s);
    port_up(&n, &s, &port, FAKERNIC_FILTER_BROADCAST);
    rq_post(&n, &port.rq, 0, s.data, 2048, s.key);
    rq_post(&n, &port.rq, 1, s.data, 2048, s.key);
    raw_create(&n, &s, &a, 0x100);
    raw_create(&n, &s, &b, 0x200);
    /* A frame to an address other than the port's. */
    frame_make(frame, mine, 100);
    deliver(&n, fd, frame, 100);
    expect_no_receiver(&n, &s);
    req = flow_dmac(&a, mine);
    req.priority = LE16(5);
    first = flow_create(&n, req);
    wire_send(fd, frame, 100);
    expect_at(&n, &s, &a);
    /* A rule with a higher priority, which passes the frame on. */
    req = flow_dmac(&b, mine);
    req.priority = LE16(4);
    req.flags = FAKERNIC_FLOW_DONT_TRAP;
    second = flow_create(&n, req);
    wire_send(fd, frame, 100);
    expect_at(&n, &s, &b);
    expect_at(&n, &s, &a);
    req = (FlowReq) { .flags = FAKERNIC_FLOW_DROP, .mask.smac[5] = 0xff,
                      .value.smac[5] = peer[5] };
    all = flow_create(&n, req);
    deliver(&n, fd, frame, 100);
    expect_no_receiver(&n, &s);
    assert_status(cmd_id(&n, FAKERNIC_CMD_DESTROY_FLOW, all), OK);
    assert_status(cmd_id(&n, FAKERNIC_CMD_DESTROY_FLOW, first), OK);
    assert_status(cmd_id(&n, FAKERNIC_CMD_DESTROY_FLOW, second), OK);
    /* Default rules get the frames that the port's filter refuses. */
    all = flow_create(&n, flow_type(&a, FAKERNIC_FLOW_ALL_DEFAULT));
    wire_send(fd, frame, 100);
    expect_at(&n, &s, &a);
    frame_make(frame, group, 100);
    first = flow_create(&n, flow_type(&b, FAKERNIC_FLOW_MC_DEFAULT));
    wire_send(fd, frame, 100);
    expect_at(&n, &s, &b);
    frame_make(frame, nic_mac, 100);
    wire_send(fd, frame, 100);
    expect_at(&n, &s, &port);
    close(fd);
    machine_stop(&m);
}

/* Rules match VLAN, addresses, protocol and ports. A header that is cut short
 * does not match. */
static void test_flow_headers(void)
{
    Machine m;
    Nic n;
    Setup s;
    Qp a;
    FlowReq req;
    uint8_t frame[100];
    int fd = start_wired(&m, &n);
    struct {
        uint16_t vlan;
        uint8_t protocol;
        uint16_t port;
        bool match;
    } cases[] = {
        { 0x2064, 17, 7777, true }, { 0x2065, 17, 7777, false },
        { 0, 17, 7777, false }, { 0x2064, 6, 7777, false },
        { 0x2064, 17, 7778, false }, { 0x0064, 17, 7777, true },
    };

    setup(&n, &s);
    raw_create(&n, &s, &a, 0);
    req = (FlowReq) {
        .qpn = LE32(a.qpn),
        .layers = LE32(FAKERNIC_FLOW_VLAN | FAKERNIC_FLOW_IPV4 |
                       FAKERNIC_FLOW_UDP),
        .value = { .vlan = LE16(0x64), .dst_port = LE16(7777),
                   .dst_ip = { [12] = 10, [15] = 1 },
                   .ethertype = LE16(0x0800), .ttl = 64 },
        .mask = { .vlan = LE16(0xfff), .dst_port = LE16(0xffff),
                  .ethertype = LE16(0xffff), .ttl = 0xff },
    };
    memset(req.mask.dst_ip + 12, 0xff, 4);
    flow_create(&n, req);
    for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
        frame_ip(frame, mine, cases[i].vlan, cases[i].protocol, cases[i].port);
        deliver(&n, fd, frame, 100);
        if (cases[i].match) {
            expect_at(&n, &s, &a);
        } else {
            expect_no_receiver(&n, &s);
        }
    }
    /* A fragment; a header longer than the frame; a frame that ends early. */
    frame_ip(frame, mine, 0x64, 17, 7777);
    frame[18 + 6] = 0x20;
    deliver(&n, fd, frame, 100);
    frame_ip(frame, mine, 0x64, 17, 7777);
    frame[18] = 0x4f;
    deliver(&n, fd, frame, 18 + 40);
    frame_ip(frame, mine, 0x64, 17, 7777);
    deliver(&n, fd, frame, 18 + 23);
    deliver(&n, fd, frame, 18);
    deliver(&n, fd, frame, 14);
    expect_no_receiver(&n, &s);
    deliver(&n, fd, frame, 18 + 24);
    expect_at(&n, &s, &a);
    close(fd);
    machine_stop(&m);
}

/* A raw-packet QP sends a frame of 100 bytes. */
static void frame_send(Nic *n, const Setup *s, Qp *from, const uint8_t *frame)
{
    const Wqe wqe = wqe_send(s, 0, 100);

    qtest_memwrite(n->m->qts, s->data, frame, 100);
    sq_put(n, from, &wqe, sizeof(wqe));
    sq_ring(n, from);
}

/* A frame to an address that a rule names does not leave the device. */
static void test_flow_loopback(void)
{
    Machine m;
    Nic n;
    Setup s;
    Qp a, b, sniffer;
    uint8_t frame[100], seen[200];
    int fd = start_wired(&m, &n);
    struct fakernic_cqe cqe;

    setup(&n, &s);
    raw_create(&n, &s, &a, 0);
    raw_create(&n, &s, &b, 0);
    raw_create(&n, &s, &sniffer, 0);
    flow_create(&n, flow_dmac(&b, mine));
    flow_create(&n, flow_dmac(&b, group));
    frame_make(frame, mine, 100);
    frame_send(&n, &s, &a, frame);
    expect_at(&n, &s, &b);
    cq_expect(&n, &s.cq, &cqe, FAKERNIC_CQE_SEND, FAKERNIC_WC_SUCCESS);
    qtest_memread(m.qts, s.data + 4096, seen, 100);
    g_assert_cmpmem(seen, 100, frame, 100);
    /* A frame to a group is looped back and sent. The sniffer gets the frames
     * that are sent and those that are received. */
    flow_create(&n, flow_type(&sniffer, FAKERNIC_FLOW_SNIFFER));
    frame_make(frame, group, 100);
    frame_send(&n, &s, &a, frame);
    expect_at(&n, &s, &sniffer);
    expect_at(&n, &s, &b);
    cq_expect(&n, &s.cq, &cqe, FAKERNIC_CQE_SEND, FAKERNIC_WC_SUCCESS);
    /* The first frame on the wire is this one. */
    g_assert_cmpint(wire_receive(fd, seen, sizeof(seen)), ==, 100);
    g_assert_cmpmem(seen, 100, frame, 100);
    frame_make(frame, peer, 100);
    wire_send(fd, frame, 100);
    expect_at(&n, &s, &sniffer);
    close(fd);
    machine_stop(&m);
}

/* A rule without an address gets a copy of sent frames whose source address is
 * not the port's. */
static void test_flow_copy_of_sent(void)
{
    Machine m;
    Nic n;
    Setup s;
    Qp a, b;
    FlowReq req;
    uint8_t frame[100], seen[200];
    int fd = start_wired(&m, &n);
    struct fakernic_cqe cqe;

    setup(&n, &s);
    raw_create(&n, &s, &a, 0);
    raw_create(&n, &s, &b, 0);
    req = (FlowReq) {
        .qpn = LE32(b.qpn),
        .layers = LE32(FAKERNIC_FLOW_IPV4 | FAKERNIC_FLOW_UDP),
        .value.dst_port = LE16(7777), .mask.dst_port = LE16(0xffff),
    };
    flow_create(&n, req);
    for (unsigned i = 0; i < 4; i++) {
        const bool own = i & 1;

        frame_ip(frame, i & 2 ? group : mine, 0, 17, 7777);
        if (own) {
            memcpy(frame + 6, nic_mac, 6);
        }
        frame_send(&n, &s, &a, frame);
        if (!own) {
            expect_at(&n, &s, &b);
        }
        cq_expect(&n, &s.cq, &cqe, FAKERNIC_CQE_SEND, FAKERNIC_WC_SUCCESS);
        g_assert_cmpint(wire_receive(fd, seen, sizeof(seen)), ==, 100);
        expect_no_receiver(&n, &s);
    }
    close(fd);
    machine_stop(&m);
}

/* A drop rule drops only the copy of a sent frame, which is not counted. The
 * frame leaves. */
static void test_flow_drop_of_sent(void)
{
    Machine m;
    Nic n;
    Setup s;
    Qp a;
    const FlowReq req = { .flags = FAKERNIC_FLOW_DROP, .mask.smac[5] = 0xff,
                          .value.smac[5] = peer[5] };
    uint8_t frame[100], seen[200];
    int fd = start_wired(&m, &n);
    struct fakernic_cqe cqe;

    setup(&n, &s);
    raw_create(&n, &s, &a, 0);
    flow_create(&n, req);
    frame_make(frame, mine, 100);
    frame_send(&n, &s, &a, frame);
    cq_expect(&n, &s.cq, &cqe, FAKERNIC_CQE_SEND, FAKERNIC_WC_SUCCESS);
    g_assert_cmpint(wire_receive(fd, seen, sizeof(seen)), ==, 100);
    g_assert_cmpuint(nic_stat(&n, FAKERNIC_STAT_RX_FILTERED), ==, 0);
    deliver(&n, fd, frame, 100);
    g_assert_cmpuint(nic_stat(&n, FAKERNIC_STAT_RX_FILTERED), ==, 1);
    close(fd);
    machine_stop(&m);
}

/* ---- counters -------------------------------------------------------- */

static uint64_t counter_read(Nic *n, uint32_t id, enum fakernic_stat which)
{
    uint64_t copy = mem_alloc(n->m, FAKERNIC_PAGE_SIZE), value;
    struct fakernic_query_counter_req req = {
        .address = LE64(copy), .length = LE32(FAKERNIC_STAT_COUNT * 8),
        .id = LE32(id),
    };
    struct fakernic_query_stats_resp resp;

    assert_status(cmd(n, FAKERNIC_CMD_QUERY_COUNTER, &req, sizeof(req), &resp,
                      sizeof(resp)), OK);
    g_assert_cmpuint(le32_to_cpu(resp.count), ==, FAKERNIC_STAT_COUNT);
    value = qtest_readq(n->m->qts, copy + which * 8);
    guest_free(&n->m->alloc, copy);
    return value;
}

static uint8_t counter_bind(Nic *n, uint32_t qpn, uint32_t id)
{
    struct fakernic_set_qp_counter_req req = { LE32(qpn), LE32(id) };

    return CMD(n, SET_QP_COUNTER, req);
}

static void test_counters(Rig *r)
{
    struct fakernic_query_counter_req bad = { .length = LE32(8) };
    uint32_t id, other;
    Wqe wqe;

    id = cmd_create(&r->n, FAKERNIC_CMD_CREATE_COUNTER, NULL, 0);
    other = cmd_create(&r->n, FAKERNIC_CMD_CREATE_COUNTER, NULL, 0);
    assert_status(counter_bind(&r->n, 999, id), BAD_ID);
    assert_status(counter_bind(&r->n, r->a.qpn, 999), BAD_ID);
    assert_status(counter_bind(&r->n, r->a.qpn, id), OK);
    assert_status(counter_bind(&r->n, r->b.qpn, other), OK);
    wqe = wqe_rdma(&r->s, FAKERNIC_SQ_RDMA_WRITE, 0, 4096, 2048);
    POST(r, wqe);
    rig_cqe(r, FAKERNIC_CQE_RDMA_WRITE, FAKERNIC_WC_SUCCESS);
    g_assert_cmpuint(counter_read(&r->n, id, FAKERNIC_STAT_TX_ROCE), ==, 2);
    g_assert_cmpuint(counter_read(&r->n, other, FAKERNIC_STAT_RX_ROCE), ==, 2);
    g_assert_cmpuint(counter_read(&r->n, id, FAKERNIC_STAT_COMMANDS), ==, 0);
    /* The QP moves to another set. The first keeps its values, and is free. */
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_COUNTER, id), BUSY);
    assert_status(counter_bind(&r->n, r->a.qpn, other), OK);
    POST(r, wqe);
    rig_cqe(r, FAKERNIC_CQE_RDMA_WRITE, FAKERNIC_WC_SUCCESS);
    g_assert_cmpuint(counter_read(&r->n, id, FAKERNIC_STAT_TX_ROCE), ==, 2);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_COUNTER, id), OK);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_COUNTER, id), BAD_ID);
    /* DESTROY_QP releases the set. */
    assert_status(counter_bind(&r->n, r->b.qpn, 0), OK);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_COUNTER, other), BUSY);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_QP, r->a.qpn), OK);
    bad.id = LE32(other);
    bad.address = LE64(4);
    assert_refused(&r->n, CMD(&r->n, QUERY_COUNTER, bad), BAD_PARAM,
                   fakernic_query_counter_req, address);
    bad.address = LE64(1ull << 50);
    assert_status(CMD(&r->n, QUERY_COUNTER, bad), DMA_ERROR);
    bad.length = LE32(7);
    bad.address = 0;
    assert_refused(&r->n, CMD(&r->n, QUERY_COUNTER, bad), BAD_PARAM,
                   fakernic_query_counter_req, length);
    bad.id = 0;
    assert_refused(&r->n, CMD(&r->n, QUERY_COUNTER, bad), BAD_ID,
                   fakernic_query_counter_req, id);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_COUNTER, other), OK);
}

const FakernicTest fakernic_flow_tests[] = {
    { "flow/refused", READY(test_flow_refused) },
    { "flow/order", test_flow_order },
    { "flow/headers", test_flow_headers },
    { "flow/loopback", test_flow_loopback },
    { "flow/copy-of-sent", test_flow_copy_of_sent },
    { "flow/drop-of-sent", test_flow_drop_of_sent },
    { "counters", PAIR(test_counters) },
    { NULL }
};
