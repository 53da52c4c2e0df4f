/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Work queues, indirection tables and RSS QPs: what their commands refuse,
 * which WQ takes a frame, and the effects of WQ and QP states. The hashes
 * expected are those that Microsoft publishes for RSS, with its key.
 */
#include "qemu/osdep.h"
#include "fakernic-setup.h"

#define WQS 16

static const uint8_t mine[6] = { 2, 0, 0, 0, 0, 0x77 };

static const uint8_t key[FAKERNIC_HASH_KEY_SIZE] = {
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67,
    0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb,
    0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30,
    0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
};

typedef struct fakernic_create_wq_req WqReq;
typedef struct fakernic_create_ind_table_req TableReq;
typedef struct fakernic_create_rss_qp_req RssReq;

typedef struct Wq {
    uint32_t wqn;
    Queue rq;
} Wq;

static WqReq wq_req(Nic *n, Setup *s, Wq *wq)
{
    return (WqReq) {
        .pages = queue_alloc(n, &wq->rq, 2, 6),
        .type = FAKERNIC_WQT_RQ,
        .log_depth = 2,
        .log_stride = 6,
        .pdn = LE32(s->pd),
        .cqn = LE32(s->cq.id),
    };
}

static void wq_create(Nic *n, Setup *s, Wq *wq)
{
    WqReq req = wq_req(n, s, wq);

    wq->wqn = cmd_create(n, FAKERNIC_CMD_CREATE_WQ, &req, sizeof(req));
}

static uint8_t wq_to(Nic *n, uint32_t wqn, uint8_t state)
{
    struct fakernic_modify_wq_req req = { LE32(wqn), state };

    return CMD(n, MODIFY_WQ, req);
}

/* A WQ that is ready, with as many receives of 2048 bytes as it takes. */
static void wq_ready(Nic *n, Setup *s, Wq *wq, uint32_t tag)
{
    wq_create(n, s, wq);
    assert_status(wq_to(n, wq->wqn, FAKERNIC_WQS_RDY), OK);
    for (unsigned i = 0; i < wq->rq.depth; i++) {
        rq_post(n, &wq->rq, tag + i, s->data + 4096, 2048, s->key);
    }
}

static TableReq table_req(Nic *n, const Wq *wqs, uint8_t log_size)
{
    TableReq req = {
        .address = LE64(mem_alloc(n->m, FAKERNIC_PAGE_SIZE)),
        .log_size = log_size,
    };

    for (unsigned i = 0; i < 1U << log_size; i++) {
        qtest_writel(n->m->qts, le64_to_cpu(req.address) + 4 * i, wqs[i].wqn);
    }
    return req;
}

static uint32_t table_create(Nic *n, const Wq *wqs, uint8_t log_size)
{
    TableReq req = table_req(n, wqs, log_size);

    return cmd_create(n, FAKERNIC_CMD_CREATE_IND_TABLE, &req, sizeof(req));
}

static RssReq rss_req(Setup *s, uint32_t table, uint32_t fields)
{
    RssReq req = {
        .pdn = LE32(s->pd),
        .table = LE32(table),
        .hash_fields = LE32(fields),
        .hash_function = FAKERNIC_HASH_TOEPLITZ,
    };

    memcpy(req.key, key, sizeof(key));
    return req;
}

static uint32_t rss_create(Nic *n, Setup *s, uint32_t table, uint32_t fields)
{
    RssReq req = rss_req(s, table, fields);

    return cmd_create(n, FAKERNIC_CMD_CREATE_RSS_QP, &req, sizeof(req));
}

/* A rule that gives a QP the frames to 'mine'. */
static uint32_t steer(Nic *n, uint32_t qpn)
{
    struct fakernic_create_flow_req req = { .qpn = LE32(qpn) };

    memcpy(req.value.dmac, mine, 6);
    memset(req.mask.dmac, 0xff, 6);
    return cmd_create(n, FAKERNIC_CMD_CREATE_FLOW, &req, sizeof(req));
}

static void expect_at(Nic *n, Setup *s, uint32_t wqn, uint32_t tag)
{
    struct fakernic_cqe cqe;

    cq_expect(n, &s->cq, &cqe, FAKERNIC_CQE_RECV, FAKERNIC_WC_SUCCESS);
    g_assert_cmpuint(le32_to_cpu(cqe.qpn), ==, wqn);
    g_assert_cmpuint(le32_to_cpu(cqe.wqe_index), ==, tag);
    queue_record(n, &s->cq, s->cq.index);
}

/* The device drops the frame, and one counter counts it. */
static void expect_drop(Nic *n, Setup *s, int fd, const uint8_t *frame,
                        enum fakernic_stat stat)
{
    uint64_t before = nic_stat(n, stat);
    struct fakernic_cqe cqe;

    wire_send(fd, frame, 100);
    for (unsigned i = 0; nic_stat(n, stat) == before; i++) {
        g_assert_cmpuint(i, <, 1000);
        g_usleep(1000);
    }
    g_assert_cmpuint(nic_stat(n, stat), ==, before + 1);
    g_assert_false(cq_poll(n, &s->cq, &cqe));
}

/* ---- commands -------------------------------------------------------- */

static void test_wq_refused(Rig *r)
{
    Wq wq;
    WqReq req, good;
    struct fakernic_query_device_resp dev;

    assert_status(cmd(&r->n, FAKERNIC_CMD_QUERY_DEVICE, NULL, 0, &dev,
                      sizeof(dev)), OK);
    g_assert_cmpuint(le32_to_cpu(dev.max_ind_table), ==, 1024);
    g_assert_cmpuint(le32_to_cpu(dev.max_ind_table_size), ==, 128);
    good = wq_req(&r->n, &r->s, &wq);
#define BAD(change, code, field) \
    do { \
        req = good; \
        change; \
        assert_refused(&r->n, CMD(&r->n, CREATE_WQ, req), code, \
                       fakernic_create_wq_req, field); \
    } while (0)
    BAD(req.type = 1, BAD_PARAM, type);
    BAD(req.log_depth = 17, BAD_PARAM, log_depth);
    BAD(req.log_stride = 4, BAD_PARAM, log_stride);
    BAD(req.log_stride = 10, BAD_PARAM, log_stride);
    BAD(req.pdn = LE32(999), BAD_ID, pdn);
    BAD(req.cqn = LE32(999), BAD_ID, cqn);
    BAD(req.log_depth = 8, BAD_PAGE_LIST, pages);
    BAD(req.rsvd = 1, BAD_RESERVED, rsvd);
    BAD(req.rsvd2 = 1, BAD_RESERVED, rsvd2);
#undef BAD
    wq.wqn = cmd_create(&r->n, FAKERNIC_CMD_CREATE_WQ, &good, sizeof(good));
    assert_refused(&r->n, wq_to(&r->n, wq.wqn, 3), BAD_PARAM,
                   fakernic_modify_wq_req, state);
    assert_refused(&r->n, wq_to(&r->n, 999, 1), BAD_ID, fakernic_modify_wq_req,
                   wqn);
    assert_status(wq_to(&r->n, wq.wqn, FAKERNIC_WQS_RDY), OK);
    assert_status(wq_to(&r->n, wq.wqn, FAKERNIC_WQS_RDY), OK);
    assert_status(wq_to(&r->n, wq.wqn, FAKERNIC_WQS_ERR), OK);
    assert_refused(&r->n, wq_to(&r->n, wq.wqn, FAKERNIC_WQS_RDY), BAD_STATE,
                   fakernic_modify_wq_req, state);
    assert_status(wq_to(&r->n, wq.wqn, FAKERNIC_WQS_RESET), OK);
    assert_status(wq_to(&r->n, wq.wqn, FAKERNIC_WQS_ERR), OK);
    /* A WQ uses its PD and its CQ. */
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_CQ, r->s.cq.id), BUSY);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_MR, r->s.key), OK);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DEALLOC_PD, r->s.pd), BUSY);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_WQ, wq.wqn), OK);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_WQ, wq.wqn), BAD_ID);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_CQ, r->s.cq.id), OK);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DEALLOC_PD, r->s.pd), OK);
}

/* Commands for a QP refuse a WQN, and commands for a WQ refuse a QPN. */
static void test_wq_is_no_qp(Rig *r)
{
    Qp qp;
    Wq wq;
    struct fakernic_create_flow_req flow = { 0 };
    struct fakernic_set_port_req port = { .mask = LE32(FAKERNIC_PORT_QPN) };
    uint64_t dropped;

    wq_create(&r->n, &r->s, &wq);
    qp_create(&r->n, &qp, FAKERNIC_QP_RAW_PACKET, r->s.pd, &r->s.cq, 0);
    g_assert_cmpuint(wq.wqn, !=, qp.qpn);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_WQ, qp.qpn), BAD_ID);
    assert_status(wq_to(&r->n, qp.qpn, FAKERNIC_WQS_RDY), BAD_ID);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_QP, wq.wqn), BAD_ID);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_QUERY_QP, wq.wqn), BAD_ID);
    assert_status(qp_to(&r->n, wq.wqn, FAKERNIC_QPS_ERR), BAD_ID);
    flow.qpn = port.qpn = LE32(wq.wqn);
    assert_status(CMD(&r->n, CREATE_FLOW, flow), BAD_ID);
    assert_status(CMD(&r->n, SET_PORT, port), BAD_ID);
    dropped = nic_stat(&r->n, FAKERNIC_STAT_DOORBELL_DROPPED);
    ring(&r->n, 0, FAKERNIC_DOORBELL_SQ, doorbell(wq.wqn, 1));
    g_assert_cmpuint(nic_stat(&r->n, FAKERNIC_STAT_DOORBELL_DROPPED), ==,
                     dropped + 1);
    wq.wqn = qp.qpn;
    {
        TableReq req = table_req(&r->n, &wq, 0);

        assert_status(CMD(&r->n, CREATE_IND_TABLE, req), BAD_ID);
    }
}

static void test_rss_refused(Rig *r)
{
    Wq wqs[2];
    TableReq table;
    RssReq rss, good;
    uint32_t id, qpn;

    wq_create(&r->n, &r->s, &wqs[0]);
    wq_create(&r->n, &r->s, &wqs[1]);
    table = table_req(&r->n, wqs, 1);
    table.log_size = 8;
    assert_refused(&r->n, CMD(&r->n, CREATE_IND_TABLE, table), BAD_PARAM,
                   fakernic_create_ind_table_req, log_size);
    table.log_size = 2;         /* two entries of 0 */
    assert_refused(&r->n, CMD(&r->n, CREATE_IND_TABLE, table), BAD_ID,
                   fakernic_create_ind_table_req, address);
    table.log_size = 1;
    table.address = LE64(le64_to_cpu(table.address) + 4);
    assert_refused(&r->n, CMD(&r->n, CREATE_IND_TABLE, table), BAD_PARAM,
                   fakernic_create_ind_table_req, address);
    table.address = LE64(1ULL << 52);
    assert_status(CMD(&r->n, CREATE_IND_TABLE, table), DMA_ERROR);
    table.rsvd[6] = 1;
    assert_status(CMD(&r->n, CREATE_IND_TABLE, table), BAD_RESERVED);
    id = table_create(&r->n, wqs, 1);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_WQ, wqs[0].wqn), BUSY);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_WQ, wqs[1].wqn), BUSY);
    good = rss_req(&r->s, id, FAKERNIC_HASH_FIELDS);
#define BAD(change, code, field) \
    do { \
        rss = good; \
        change; \
        assert_refused(&r->n, CMD(&r->n, CREATE_RSS_QP, rss), code, \
                       fakernic_create_rss_qp_req, field); \
    } while (0)
    BAD(rss.pdn = LE32(999), BAD_ID, pdn);
    BAD(rss.table = LE32(999), BAD_ID, table);
    BAD(rss.hash_fields = LE32(0x100), BAD_PARAM, hash_fields);
    BAD(rss.hash_function = 0, BAD_PARAM, hash_function);
    BAD(rss.hash_function = 2, BAD_PARAM, hash_function);
    BAD(rss.rsvd[0] = 1, BAD_RESERVED, rsvd);
#undef BAD
    qpn = cmd_create(&r->n, FAKERNIC_CMD_CREATE_RSS_QP, &good, sizeof(good));
    g_assert_cmpuint(qp_state(&r->n, qpn), ==, FAKERNIC_QPS_RTR);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_IND_TABLE, id), BUSY);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_QP, qpn), OK);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_IND_TABLE, id), OK);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_IND_TABLE, id), BAD_ID);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_WQ, wqs[0].wqn), OK);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_WQ, wqs[1].wqn), OK);
}

static void test_rss_limits(Rig *r)
{
    Wq wqs[128];
    TableReq table;
    unsigned count = 0;
    uint32_t id;

    wq_create(&r->n, &r->s, &wqs[0]);
    for (unsigned i = 1; i < 128; i++) {
        wqs[i] = wqs[0];
    }
    /* The largest table, of one WQ; then as many small ones as there may be. */
    id = table_create(&r->n, wqs, 7);
    table = table_req(&r->n, wqs, 0);
    while (CMD(&r->n, CREATE_IND_TABLE, table) == FAKERNIC_CMD_OK) {
        count++;
    }
    g_assert_cmpuint(count, ==, 1023);
    assert_status(CMD(&r->n, CREATE_IND_TABLE, table), NO_RESOURCE);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_IND_TABLE, id), OK);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_WQ, wqs[0].wqn), BUSY);
    assert_status(CMD(&r->n, CREATE_IND_TABLE, table), OK);
    /* A reset destroys all of them. */
    rss_create(&r->n, &r->s, 2, 0);
    nic_bringup(&r->n);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_IND_TABLE, 2), BAD_ID);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_WQ, wqs[0].wqn), BAD_ID);
}

/* ---- frames ---------------------------------------------------------- */

typedef struct Vector {
    uint8_t version;
    uint8_t src[16], dst[16];
    uint16_t src_port, dst_port;
    uint32_t addresses, all;    /* their hashes */
} Vector;

static const Vector vectors[] = {
    { 4, { 66, 9, 149, 187 }, { 161, 142, 100, 80 }, 2794, 1766,
      0x323e8fc2, 0x51ccc178 },
    { 4, { 199, 92, 111, 2 }, { 65, 69, 140, 83 }, 14230, 4739,
      0xd718262a, 0xc626b0ea },
    { 4, { 24, 19, 198, 95 }, { 12, 22, 207, 184 }, 12898, 38024,
      0xd2d0a5de, 0x5c2b394a },
    { 4, { 38, 27, 205, 30 }, { 209, 142, 163, 6 }, 48228, 2217,
      0x82989176, 0xafc7327f },
    { 6, { 0x3f, 0xfe, 0x25, 0x01, 0x02, 0x00, 0x1f, 0xff, [15] = 7 },
      { 0x3f, 0xfe, 0x25, 0x01, 0x02, 0x00, 0x00, 0x03, [15] = 1 },
      2794, 1766, 0x2cc18cd5, 0x40207d3d },
    { 6, { 0x3f, 0xfe, 0x05, 0x01, 0x00, 0x08, 0, 0,
           0x02, 0x60, 0x97, 0xff, 0xfe, 0x40, 0xef, 0xab },
      { 0xff, 0x02, [15] = 1 }, 14230, 4739, 0x0f0c461c, 0xdde51bbf },
};

static void frame_vector(uint8_t *frame, const Vector *v, uint8_t protocol,
                         bool vlan)
{
    uint8_t *ip = frame + 14;

    frame_make(frame, mine, 100);
    if (vlan) {
        stw_be_p(ip - 2, 0x8100);
        stw_be_p(ip, 0x0064);
        ip += 4;
    }
    stw_be_p(ip - 2, v->version == 4 ? 0x0800 : 0x86dd);
    memset(ip, 0, 60);
    if (v->version == 4) {
        ip[0] = 0x45;
        ip[9] = protocol;
        memcpy(ip + 12, v->src, 4);
        memcpy(ip + 16, v->dst, 4);
        ip += 20;
    } else {
        ip[0] = 0x60;
        ip[6] = protocol;
        memcpy(ip + 8, v->src, 16);
        memcpy(ip + 24, v->dst, 16);
        ip += 40;
    }
    stw_be_p(ip, v->src_port);
    stw_be_p(ip + 2, v->dst_port);
}

#define IPV4 (FAKERNIC_HASH_SRC_IPV4 | FAKERNIC_HASH_DST_IPV4)
#define IPV6 (FAKERNIC_HASH_SRC_IPV6 | FAKERNIC_HASH_DST_IPV6)
#define TCP (FAKERNIC_HASH_SRC_PORT_TCP | FAKERNIC_HASH_DST_PORT_TCP)
#define UDP (FAKERNIC_HASH_SRC_PORT_UDP | FAKERNIC_HASH_DST_PORT_UDP)

/* Each frame of a flow goes to the WQ of its hash, and to no other one. */
static void test_rss_steering(void)
{
    static const struct {
        uint32_t fields;
        uint8_t protocol;
        bool vlan;
        enum { NOTHING, ADDRESSES, ALL } v4, v6;
    } cases[] = {
        { IPV4 | IPV6, 6, false, ADDRESSES, ADDRESSES },
        { IPV4 | IPV6 | TCP, 6, false, ALL, ALL },
        { IPV4 | IPV6 | TCP, 17, true, ADDRESSES, ADDRESSES },
        { IPV4 | IPV6 | UDP, 17, true, ALL, ALL },
        { IPV4 | TCP | UDP, 17, false, ALL, NOTHING },
        { IPV6, 6, false, NOTHING, ADDRESSES },
        { 0, 6, false, NOTHING, NOTHING },
    };
    Machine m;
    Nic n;
    Setup s;
    Wq wqs[WQS];
    uint8_t frame[100];
    int fd = start_wired(&m, &n);
    uint32_t table, next[WQS] = { 0 };

    setup(&n, &s);
    for (unsigned i = 0; i < WQS; i++) {
        wq_ready(&n, &s, &wqs[i], 100 * i);
    }
    table = table_create(&n, wqs, 4);
    for (unsigned c = 0; c < ARRAY_SIZE(cases); c++) {
        uint32_t qpn = rss_create(&n, &s, table, cases[c].fields);
        uint32_t rule = steer(&n, qpn);

        for (unsigned i = 0; i < ARRAY_SIZE(vectors); i++) {
            const Vector *v = &vectors[i];
            unsigned what = v->version == 4 ? cases[c].v4 : cases[c].v6;
            uint32_t hash = what == ALL ? v->all :
                            what == ADDRESSES ? v->addresses : 0;
            unsigned at = hash % WQS;

            /* IPv6 is not hashed in this case, so neither are its ports. */
            if (v->version == 6 && (cases[c].fields & (TCP | UDP)) &&
                !(cases[c].fields & IPV6)) {
                continue;
            }
            frame_vector(frame, v, cases[c].protocol, cases[c].vlan);
            wire_send(fd, frame, 100);
            expect_at(&n, &s, wqs[at].wqn, 100 * at + next[at] % 4);
            rq_post(&n, &wqs[at].rq, 100 * at + next[at] % 4, s.data + 4096,
                    2048, s.key);
            next[at]++;
        }
        assert_status(cmd_id(&n, FAKERNIC_CMD_DESTROY_QP, qpn), BUSY);
        assert_status(cmd_id(&n, FAKERNIC_CMD_DESTROY_FLOW, rule), OK);
        assert_status(cmd_id(&n, FAKERNIC_CMD_DESTROY_QP, qpn), OK);
    }
    close(fd);
    machine_stop(&m);
}

/* A frame without a field to hash goes to the first WQ. A fragment has no
 * ports. */
static void test_rss_odd_frames(void)
{
    const Vector *v = &vectors[0];
    Machine m;
    Nic n;
    Setup s;
    Wq wqs[WQS];
    uint8_t frame[100];
    int fd = start_wired(&m, &n);
    unsigned at = v->addresses % WQS;
    uint32_t qpn;

    setup(&n, &s);
    for (unsigned i = 0; i < WQS; i++) {
        wq_ready(&n, &s, &wqs[i], 0);
    }
    qpn = rss_create(&n, &s, table_create(&n, wqs, 4), FAKERNIC_HASH_FIELDS);
    steer(&n, qpn);
    frame_make(frame, mine, 100);
    wire_send(fd, frame, 100);
    expect_at(&n, &s, wqs[0].wqn, 0);
    wire_send(fd, frame, 14);
    expect_at(&n, &s, wqs[0].wqn, 1);
    frame_vector(frame, v, 6, false);
    wire_send(fd, frame, 14 + 19);          /* the IP header ends early */
    expect_at(&n, &s, wqs[0].wqn, 2);
    wire_send(fd, frame, 14 + 20 + 3);      /* the ports do */
    expect_at(&n, &s, wqs[at].wqn, 0);
    frame[14 + 6] = 0x20;                   /* more fragments */
    wire_send(fd, frame, 100);
    expect_at(&n, &s, wqs[at].wqn, 1);
    close(fd);
    machine_stop(&m);
}

/* An RSS QP is the QP of the port, and is destroyed as such. */
static void test_rss_port(void)
{
    Machine m;
    Nic n;
    Setup s;
    Wq wq;
    uint8_t frame[100];
    int fd = start_wired(&m, &n);
    struct fakernic_set_port_req port = { .mask = LE32(FAKERNIC_PORT_QPN) };
    uint32_t qpn;

    setup(&n, &s);
    wq_ready(&n, &s, &wq, 7);
    qpn = rss_create(&n, &s, table_create(&n, &wq, 0), FAKERNIC_HASH_FIELDS);
    port.qpn = LE32(qpn);
    assert_status(CMD(&n, SET_PORT, port), OK);
    frame_make(frame, nic_mac, 100);
    wire_send(fd, frame, 100);
    expect_at(&n, &s, wq.wqn, 7);
    assert_status(cmd_id(&n, FAKERNIC_CMD_DESTROY_QP, qpn), OK);
    expect_drop(&n, &s, fd, frame, FAKERNIC_STAT_RX_FILTERED);
    close(fd);
    machine_stop(&m);
}

/* ---- states and errors ------------------------------------------------- */

typedef struct Rss {
    Machine m;
    Nic n;
    Setup s;
    Wq wq;
    uint32_t qpn;
    int fd;
    uint8_t frame[100];
} Rss;

/* One WQ in RESET behind an RSS QP that gets the frames to 'mine'. */
static void rss_start(Rss *r)
{
    r->fd = start_wired(&r->m, &r->n);
    setup(&r->n, &r->s);
    wq_create(&r->n, &r->s, &r->wq);
    r->qpn = rss_create(&r->n, &r->s, table_create(&r->n, &r->wq, 0), 0);
    steer(&r->n, r->qpn);
    frame_make(r->frame, mine, 100);
}

static void rss_stop(Rss *r)
{
    close(r->fd);
    machine_stop(&r->m);
}

static void rss_post(Rss *r, uint32_t tag, uint32_t length)
{
    rq_post(&r->n, &r->wq.rq, tag, r->s.data + 4096, length, r->s.key);
}

static void rss_drop(Rss *r, enum fakernic_stat stat)
{
    expect_drop(&r->n, &r->s, r->fd, r->frame, stat);
}

static void test_wq_states(void)
{
    struct fakernic_cqe cqe;
    Rss r;

    rss_start(&r);
    rss_post(&r, 5, 2048);
    rss_drop(&r, FAKERNIC_STAT_RX_NO_BUFFER);               /* RESET */
    assert_status(wq_to(&r.n, r.wq.wqn, FAKERNIC_WQS_RDY), OK);
    wire_send(r.fd, r.frame, 100);
    expect_at(&r.n, &r.s, r.wq.wqn, 5);
    rss_drop(&r, FAKERNIC_STAT_RX_NO_BUFFER);               /* no receive */
    rss_post(&r, 6, 99);
    rss_drop(&r, FAKERNIC_STAT_RX_OVERSIZE);        /* the receive stays */
    rss_post(&r, 7, 2048);
    assert_status(wq_to(&r.n, r.wq.wqn, FAKERNIC_WQS_ERR), OK);
    for (uint32_t tag = 6; tag < 9; tag++) {
        cq_expect(&r.n, &r.s.cq, &cqe, FAKERNIC_CQE_RECV,
                  FAKERNIC_WC_WR_FLUSH_ERR);
        g_assert_cmpuint(le32_to_cpu(cqe.qpn), ==, r.wq.wqn);
        g_assert_cmpuint(le32_to_cpu(cqe.wqe_index), ==, tag);
        if (tag == 7) {
            rss_post(&r, 8, 2048);                          /* flushed, too */
        }
    }
    rss_drop(&r, FAKERNIC_STAT_RX_NO_BUFFER);               /* ERR */
    /* Back to RESET: the ring starts again, and posted entries are dropped. */
    rss_post(&r, 9, 2048);
    assert_status(wq_to(&r.n, r.wq.wqn, FAKERNIC_WQS_RESET), OK);
    r.wq.rq.index = 0;
    queue_record(&r.n, &r.wq.rq, 0);
    assert_status(wq_to(&r.n, r.wq.wqn, FAKERNIC_WQS_RDY), OK);
    while (cq_poll(&r.n, &r.s.cq, &cqe)) {
        g_assert_cmpuint(cqe.status, ==, FAKERNIC_WC_WR_FLUSH_ERR);
    }
    rss_post(&r, 10, 2048);
    wire_send(r.fd, r.frame, 100);
    expect_at(&r.n, &r.s, r.wq.wqn, 10);
    rss_stop(&r);
}

/* The RSS QP's own state: it cannot send, and in ERR nothing goes through. */
static void test_rss_states(void)
{
    struct fakernic_modify_qp_req req = {
        .mask = LE32(FAKERNIC_QP_ATTR_STATE | FAKERNIC_QP_ATTR_PORT),
        .attr = { .state = FAKERNIC_QPS_INIT, .port = 1 },
    };
    uint64_t dropped;
    Rss r;

    rss_start(&r);
    assert_status(wq_to(&r.n, r.wq.wqn, FAKERNIC_WQS_RDY), OK);
    rss_post(&r, 1, 2048);
    assert_status(qp_to(&r.n, r.qpn, FAKERNIC_QPS_ERR), OK);
    rss_drop(&r, FAKERNIC_STAT_RX_NO_BUFFER);
    assert_status(qp_to(&r.n, r.qpn, FAKERNIC_QPS_RESET), OK);
    rss_drop(&r, FAKERNIC_STAT_RX_NO_BUFFER);
    req.qpn = LE32(r.qpn);
    assert_status(CMD(&r.n, MODIFY_QP, req), OK);
    rss_drop(&r, FAKERNIC_STAT_RX_NO_BUFFER);
    assert_status(qp_to(&r.n, r.qpn, FAKERNIC_QPS_RTR), OK);
    wire_send(r.fd, r.frame, 100);
    expect_at(&r.n, &r.s, r.wq.wqn, 1);
    assert_status(qp_to(&r.n, r.qpn, FAKERNIC_QPS_RTS), OK);
    dropped = nic_stat(&r.n, FAKERNIC_STAT_DOORBELL_DROPPED);
    ring(&r.n, 0, FAKERNIC_DOORBELL_SQ, doorbell(r.qpn, 1));
    g_assert_cmpuint(nic_stat(&r.n, FAKERNIC_STAT_DOORBELL_DROPPED), ==,
                     dropped + 1);
    rss_post(&r, 2, 2048);
    wire_send(r.fd, r.frame, 100);
    expect_at(&r.n, &r.s, r.wq.wqn, 2);
    rss_stop(&r);
}

/* An invalid receive or an impossible index fails the WQ. */
static void test_wq_errors(void)
{
    struct fakernic_cqe cqe;
    Rss r;

    rss_start(&r);
    assert_status(wq_to(&r.n, r.wq.wqn, FAKERNIC_WQS_RDY), OK);
    rq_post(&r.n, &r.wq.rq, 3, r.s.data, 2048, r.s.key + 1);
    wire_send(r.fd, r.frame, 100);
    cq_expect(&r.n, &r.s.cq, &cqe, FAKERNIC_CQE_RECV,
              FAKERNIC_WC_LOC_PROT_ERR);
    g_assert_cmpuint(le32_to_cpu(cqe.qpn), ==, r.wq.wqn);
    assert_status(wq_to(&r.n, r.wq.wqn, FAKERNIC_WQS_RDY), BAD_STATE);
    assert_status(wq_to(&r.n, r.wq.wqn, FAKERNIC_WQS_RESET), OK);
    assert_status(wq_to(&r.n, r.wq.wqn, FAKERNIC_WQS_RDY), OK);
    queue_record(&r.n, &r.wq.rq, 5);        /* of a ring of 4 */
    rss_drop(&r, FAKERNIC_STAT_RX_NO_BUFFER);
    g_assert_cmpuint(eq_expect(&r.n, &r.s.async, FAKERNIC_EVENT_QP_FATAL), ==,
                     r.wq.wqn);
    /* The RSS QP itself has not failed. */
    g_assert_cmpuint(qp_state(&r.n, r.qpn), ==, FAKERNIC_QPS_RTR);
    rss_stop(&r);
}

static void test_wq_cq_overrun(void)
{
    Rss r;

    rss_start(&r);
    assert_status(wq_to(&r.n, r.wq.wqn, FAKERNIC_WQS_RDY), OK);
    for (unsigned i = 0; i < r.s.cq.depth + 1; i++) {
        rss_post(&r, i, 2048);
        wire_send(r.fd, r.frame, 100);
        for (unsigned t = 0; nic_stat(&r.n, FAKERNIC_STAT_RX_FRAMES) <= i;
             t++) {
            g_assert_cmpuint(t, <, 1000);
            g_usleep(1000);
        }
    }
    g_assert_cmpuint(eq_expect(&r.n, &r.s.async, FAKERNIC_EVENT_CQ_ERROR), ==,
                     r.s.cq.id);
    g_assert_cmpuint(eq_expect(&r.n, &r.s.async, FAKERNIC_EVENT_QP_FATAL), ==,
                     r.wq.wqn);
    /* The WQ can be reset, but cannot resume, as its CQ cannot report. */
    assert_status(wq_to(&r.n, r.wq.wqn, FAKERNIC_WQS_RESET), OK);
    assert_refused(&r.n, wq_to(&r.n, r.wq.wqn, FAKERNIC_WQS_RDY), BAD_STATE,
                   fakernic_modify_wq_req, state);
    rss_stop(&r);
}

const FakernicTest fakernic_rss_tests[] = {
    { "rss/wq_refused", READY(test_wq_refused) },
    { "rss/wq_is_no_qp", READY(test_wq_is_no_qp) },
    { "rss/refused", READY(test_rss_refused) },
    { "rss/limits", READY(test_rss_limits) },
    { "rss/steering", test_rss_steering },
    { "rss/odd_frames", test_rss_odd_frames },
    { "rss/port", test_rss_port },
    { "rss/wq_states", test_wq_states },
    { "rss/states", test_rss_states },
    { "rss/wq_errors", test_wq_errors },
    { "rss/wq_cq_overrun", test_wq_cq_overrun },
    { NULL }
};
