/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * XRC: domains, shared receive queues with a CQ of their own, initiators and
 * targets, and what a message finds at the target (IBTA annex A14).
 */
#include "qemu/osdep.h"
#include "fakernic-setup.h"

typedef struct Xrc {
    uint32_t xrcdn;
    Queue srq, cq;              /* of the target's side */
    Qp ini;
    uint32_t tgt;
} Xrc;

static uint32_t xrc_srq_create(Nic *n, const Setup *s, Xrc *x)
{
    struct fakernic_create_srq_req req = {
        .pages = queue_alloc(n, &x->srq, 2, 6),
        .log_depth = 2, .log_stride = 6,
        .pdn = LE32(s->pd), .xrcdn = LE32(x->xrcdn), .cqn = LE32(x->cq.id),
    };

    return cmd_create(n, FAKERNIC_CMD_CREATE_SRQ, &req, sizeof(req));
}

static uint32_t xrc_target_create(Nic *n, uint32_t xrcdn)
{
    struct fakernic_create_qp_req req = {
        .type = FAKERNIC_QP_XRC_TGT, .sq_log_depth = FAKERNIC_QUEUE_NONE,
        .rq_log_depth = FAKERNIC_QUEUE_NONE, .xrcdn = LE32(xrcdn),
    };

    return cmd_create(n, FAKERNIC_CMD_CREATE_QP, &req, sizeof(req));
}

static struct fakernic_create_qp_req ini_req(Nic *n, const Setup *s, Qp *qp)
{
    return (struct fakernic_create_qp_req) {
        .sq_pages = queue_alloc(n, &qp->sq, 5, FAKERNIC_SQ_BB_SHIFT),
        .type = FAKERNIC_QP_XRC_INI, .sq_log_depth = 5,
        .rq_log_depth = FAKERNIC_QUEUE_NONE,
        .pdn = LE32(s->pd), .send_cqn = LE32(s->cq.id),
    };
}

/* An initiator and a target of one device, connected, and an XRC SRQ. */
static void xrc_setup(Nic *n, Setup *s, Xrc *x)
{
    struct fakernic_create_qp_req req;

    *x = (Xrc) { .xrcdn = cmd_create(n, FAKERNIC_CMD_ALLOC_XRCD, NULL, 0) };
    cq_create(n, &x->cq, 4, &s->eq, 0, 0);
    x->srq.id = xrc_srq_create(n, s, x);
    x->tgt = xrc_target_create(n, x->xrcdn);
    req = ini_req(n, s, &x->ini);
    x->ini.qpn = cmd_create(n, FAKERNIC_CMD_CREATE_QP, &req, sizeof(req));
    connect_qp(n, FAKERNIC_QP_XRC_INI, x->ini.qpn, x->tgt, own_gid, nic_mac);
    connect_qp(n, FAKERNIC_QP_XRC_TGT, x->tgt, x->ini.qpn, own_gid, nic_mac);
}

static void xrc_post(Nic *n, Xrc *x, Wqe wqe, uint32_t srqn)
{
    wqe.hdr.xrc_srqn = LE32(srqn);
    sq_put(n, &x->ini, &wqe, sizeof(wqe));
    sq_ring(n, &x->ini);
}

static void test_xrcd(void)
{
    Machine m;
    Nic n;
    Setup s;
    Xrc x;
    struct fakernic_query_device_resp dev;
    uint32_t other;

    start_enabled(&m, &n);
    setup(&n, &s);
    assert_status(cmd(&n, FAKERNIC_CMD_QUERY_DEVICE, NULL, 0, &dev,
                      sizeof(dev)), OK);
    g_assert_cmpuint(le32_to_cpu(dev.max_xrcd), >=, 2);
    xrc_setup(&n, &s, &x);
    other = cmd_create(&n, FAKERNIC_CMD_ALLOC_XRCD, NULL, 0);
    g_assert_cmpuint(other, !=, x.xrcdn);
    assert_status(cmd_id(&n, FAKERNIC_CMD_DEALLOC_XRCD, other), OK);
    assert_status(cmd_id(&n, FAKERNIC_CMD_DEALLOC_XRCD, other), BAD_ID);
    assert_status(cmd_id(&n, FAKERNIC_CMD_DEALLOC_XRCD, 0), BAD_ID);
    /* Everything that is referred to stays. */
    assert_status(cmd_id(&n, FAKERNIC_CMD_DEALLOC_XRCD, x.xrcdn), BUSY);
    assert_status(cmd_id(&n, FAKERNIC_CMD_DESTROY_CQ, x.cq.id), BUSY);
    assert_status(cmd_id(&n, FAKERNIC_CMD_DESTROY_SRQ, x.srq.id), OK);
    assert_status(cmd_id(&n, FAKERNIC_CMD_DESTROY_CQ, x.cq.id), OK);
    assert_status(cmd_id(&n, FAKERNIC_CMD_DEALLOC_XRCD, x.xrcdn), BUSY);
    assert_status(cmd_id(&n, FAKERNIC_CMD_DESTROY_QP, x.tgt), OK);
    assert_status(cmd_id(&n, FAKERNIC_CMD_DEALLOC_XRCD, x.xrcdn), OK);
    assert_status(cmd_id(&n, FAKERNIC_CMD_DESTROY_QP, x.ini.qpn), OK);
    machine_stop(&m);
}

static void test_xrc_create(void)
{
    Machine m;
    Nic n;
    Setup s;
    Xrc x;
    Qp qp;
    Queue ring_;
    struct fakernic_create_srq_req srq, good_srq;
    struct fakernic_create_qp_req req, good;

    start_enabled(&m, &n);
    setup(&n, &s);
    xrc_setup(&n, &s, &x);
    good_srq = (struct fakernic_create_srq_req) {
        .pages = queue_alloc(&n, &ring_, 2, 6),
        .log_depth = 2, .log_stride = 6,
        .pdn = LE32(s.pd), .xrcdn = LE32(x.xrcdn), .cqn = LE32(x.cq.id),
    };
#define BAD_SRQ(field, value, code)                                          \
    srq = good_srq; srq.field = value;                                       \
    assert_refused(&n, CMD(&n, CREATE_SRQ, srq), code,                       \
                   fakernic_create_srq_req, field)
    BAD_SRQ(xrcdn, LE32(x.xrcdn + 1), BAD_ID);
    BAD_SRQ(xrcdn, LE32(~0u), BAD_ID);
    BAD_SRQ(cqn, 0, BAD_ID);
    BAD_SRQ(cqn, LE32(x.cq.id + 1), BAD_ID);
    srq = good_srq;
    srq.xrcdn = 0;
    assert_refused(&n, CMD(&n, CREATE_SRQ, srq), BAD_PARAM,
                   fakernic_create_srq_req, cqn);
#undef BAD_SRQ
#define BAD(field, value, code)                                              \
    req = good; req.field = value;                                           \
    assert_refused(&n, CMD(&n, CREATE_QP, req), code, fakernic_create_qp_req, \
                   field)
    good = ini_req(&n, &s, &qp);
    BAD(pdn, 0, BAD_ID);
    BAD(send_cqn, 0, BAD_ID);
    BAD(recv_cqn, LE32(s.cq.id), BAD_PARAM);
    BAD(srqn, LE32(x.srq.id), BAD_PARAM);
    BAD(xrcdn, LE32(x.xrcdn), BAD_PARAM);
    BAD(uar, LE32(7), BAD_ID);
    req = good;
    req.rq_log_depth = 0;
    req.rq_log_stride = 5;
    assert_refused(&n, CMD(&n, CREATE_QP, req), BAD_PARAM,
                   fakernic_create_qp_req, rq_log_depth);
    good = (struct fakernic_create_qp_req) {
        .type = FAKERNIC_QP_XRC_TGT, .sq_log_depth = FAKERNIC_QUEUE_NONE,
        .rq_log_depth = FAKERNIC_QUEUE_NONE, .xrcdn = LE32(x.xrcdn),
    };
    BAD(xrcdn, 0, BAD_ID);
    BAD(xrcdn, LE32(x.xrcdn + 1), BAD_ID);
    BAD(pdn, LE32(s.pd), BAD_PARAM);
    BAD(send_cqn, LE32(s.cq.id), BAD_PARAM);
    BAD(recv_cqn, LE32(s.cq.id), BAD_PARAM);
    BAD(srqn, LE32(x.srq.id), BAD_PARAM);
    BAD(uar, LE32(1), BAD_PARAM);
    BAD(sq_log_depth, 0, BAD_PARAM);
    req = good;
    req.rq_log_depth = 0;
    req.rq_log_stride = 5;
    assert_refused(&n, CMD(&n, CREATE_QP, req), BAD_PARAM,
                   fakernic_create_qp_req, rq_log_depth);
    /* An ordinary QP cannot receive from an XRC SRQ. */
    good = (struct fakernic_create_qp_req) {
        .type = FAKERNIC_QP_RC, .sq_log_depth = FAKERNIC_QUEUE_NONE,
        .rq_log_depth = FAKERNIC_QUEUE_NONE, .pdn = LE32(s.pd),
        .send_cqn = LE32(s.cq.id), .recv_cqn = LE32(s.cq.id),
    };
    BAD(srqn, LE32(x.srq.id), BAD_PARAM);
#undef BAD
    machine_stop(&m);
}

/* SEND and WRITE_IMM take receives of the SRQ named; READ and WRITE none. */
static void test_xrc_traffic(void)
{
    Machine m;
    Nic n;
    Setup s;
    Xrc x;
    struct fakernic_cqe cqe;
    Wqe wqe;

    start_enabled(&m, &n);
    setup(&n, &s);
    xrc_setup(&n, &s, &x);
    fill(&n, &s, 0, 3000);
    rq_post(&n, &x.srq, 0xaa, s.data + 8192, 4096, s.key);
    rq_post(&n, &x.srq, 0xbb, s.data + 16384, 4096, s.key);
    xrc_post(&n, &x, wqe_send(&s, 0, 3000), x.srq.id);
    cq_expect(&n, &x.cq, &cqe, FAKERNIC_CQE_RECV, FAKERNIC_WC_SUCCESS);
    g_assert_cmpuint(le32_to_cpu(cqe.qpn), ==, x.tgt);
    g_assert_cmpuint(le32_to_cpu(cqe.srqn), ==, x.srq.id);
    g_assert_cmphex(le32_to_cpu(cqe.wqe_index), ==, 0xaa);
    assert_same(&n, &s, 0, 8192, 3000);
    cq_expect(&n, &s.cq, &cqe, FAKERNIC_CQE_SEND, FAKERNIC_WC_SUCCESS);
    g_assert_cmpuint(le32_to_cpu(cqe.qpn), ==, x.ini.qpn);
    wqe = wqe_rdma(&s, FAKERNIC_SQ_RDMA_WRITE_IMM, 0, 32768, 2000);
    wqe.hdr.imm_or_key = LE32(0x1234);
    xrc_post(&n, &x, wqe, x.srq.id);
    cq_expect(&n, &x.cq, &cqe, FAKERNIC_CQE_RECV_RDMA_IMM, FAKERNIC_WC_SUCCESS);
    g_assert_cmphex(le32_to_cpu(cqe.wqe_index), ==, 0xbb);
    g_assert_cmphex(le32_to_cpu(cqe.imm_or_key), ==, 0x1234);
    cq_expect(&n, &s.cq, &cqe, FAKERNIC_CQE_RDMA_WRITE, FAKERNIC_WC_SUCCESS);
    assert_same(&n, &s, 0, 32768, 2000);
    xrc_post(&n, &x, wqe_rdma(&s, FAKERNIC_SQ_RDMA_READ, 40960, 0, 3000),
             x.srq.id);
    cq_expect(&n, &s.cq, &cqe, FAKERNIC_CQE_RDMA_READ, FAKERNIC_WC_SUCCESS);
    assert_same(&n, &s, 0, 40960, 3000);
    machine_stop(&m);
}

/* A number that names no SRQ of the domain: NAK 1, and the target is dead. */
static void xrc_expect_refused(Nic *n, Setup *s, Xrc *x, uint32_t srqn)
{
    struct fakernic_cqe cqe;

    xrc_post(n, x, wqe_send(s, 0, 100), srqn);
    cq_expect(n, &s->cq, &cqe, FAKERNIC_CQE_SEND, FAKERNIC_WC_REM_INV_REQ_ERR);
    g_assert_cmpuint(qp_state(n, x->tgt), ==, FAKERNIC_QPS_ERR);
    assert_status(cmd_id(n, FAKERNIC_CMD_DESTROY_QP, x->tgt), OK);
    assert_status(cmd_id(n, FAKERNIC_CMD_DESTROY_QP, x->ini.qpn), OK);
    eq_ring(n, &s->async, false);
}

static void test_xrc_wrong_srq(void)
{
    Machine m;
    Nic n;
    Setup s;
    Xrc x, y;
    Queue ring_;
    struct fakernic_create_srq_req plain = { .log_depth = 2, .log_stride = 6 };
    uint32_t srqn;

    start_enabled(&m, &n);
    setup(&n, &s);
    xrc_setup(&n, &s, &x);
    /* An SRQ of another domain. */
    xrc_setup(&n, &s, &y);
    rq_post(&n, &y.srq, 1, s.data, 4096, s.key);
    xrc_expect_refused(&n, &s, &x, y.srq.id);
    g_assert_cmpuint(eq_expect(&n, &s.async, FAKERNIC_EVENT_QP_REQUEST_ERROR),
                     ==, x.tgt);
    /* An SRQ without a domain. */
    plain.pages = queue_alloc(&n, &ring_, 2, 6);
    plain.pdn = LE32(s.pd);
    srqn = cmd_create(&n, FAKERNIC_CMD_CREATE_SRQ, &plain, sizeof(plain));
    xrc_setup(&n, &s, &x);
    xrc_expect_refused(&n, &s, &x, srqn);
    /* None at all. */
    xrc_setup(&n, &s, &x);
    xrc_expect_refused(&n, &s, &x, 0xffffff);
    machine_stop(&m);
}

/* The limit event, and an SRQ whose CQ overflows. */
static void test_xrc_srq_events(void)
{
    Machine m;
    Nic n;
    Setup s;
    Xrc x;
    struct fakernic_cqe cqe;
    struct fakernic_eqe eqe;
    struct fakernic_modify_srq_req modify;
    Queue small;

    start_enabled(&m, &n);
    setup(&n, &s);
    xrc_setup(&n, &s, &x);
    assert_status(cmd_id(&n, FAKERNIC_CMD_DESTROY_SRQ, x.srq.id), OK);
    cq_create(&n, &small, 1, &s.eq, 0, 0);
    x.cq = small;
    x.srq.id = xrc_srq_create(&n, &s, &x);
    for (unsigned i = 0; i < 3; i++) {
        rq_post(&n, &x.srq, i, s.data, 4096, s.key);
    }
    modify = (struct fakernic_modify_srq_req) {
        .srqn = LE32(x.srq.id), .mask = FAKERNIC_SRQ_LIMIT, .limit = LE32(3),
    };
    assert_status(CMD(&n, MODIFY_SRQ, modify), OK);
    xrc_post(&n, &x, wqe_send(&s, 0, 8), x.srq.id);
    cq_expect(&n, &s.cq, &cqe, FAKERNIC_CQE_SEND, FAKERNIC_WC_SUCCESS);
    g_assert_cmpuint(eq_expect(&n, &s.async, FAKERNIC_EVENT_SRQ_LIMIT), ==,
                     x.srq.id);
    /* Two entries fill the CQ, the third breaks it and the SRQ with it. */
    xrc_post(&n, &x, wqe_send(&s, 0, 8), x.srq.id);
    xrc_post(&n, &x, wqe_send(&s, 0, 8), x.srq.id);
    g_assert_cmpuint(eq_expect(&n, &s.async, FAKERNIC_EVENT_CQ_ERROR), ==,
                     x.cq.id);
    g_assert_true(eq_poll(&n, &s.async, &eqe));
    g_assert_cmpuint(eqe.type, ==, FAKERNIC_EVENT_SRQ_ERROR);
    g_assert_cmpuint(le32_to_cpu(eqe.id), ==, x.srq.id);
    g_assert_cmpuint(le32_to_cpu(eqe.data), ==, FAKERNIC_VENDOR_CQ_OVERRUN);
    cq_expect(&n, &s.cq, &cqe, FAKERNIC_CQE_SEND, FAKERNIC_WC_SUCCESS);
    cq_expect(&n, &s.cq, &cqe, FAKERNIC_CQE_SEND, FAKERNIC_WC_SUCCESS);
    assert_status(CMD(&n, MODIFY_SRQ, modify), BAD_STATE);
    xrc_post(&n, &x, wqe_send(&s, 0, 8), x.srq.id);
    cq_expect(&n, &s.cq, &cqe, FAKERNIC_CQE_SEND, FAKERNIC_WC_REM_INV_REQ_ERR);
    machine_stop(&m);
}

const FakernicTest fakernic_xrc_tests[] = {
    { "xrc/domain", test_xrcd },
    { "xrc/create", test_xrc_create },
    { "xrc/traffic", test_xrc_traffic },
    { "xrc/wrong-srq", test_xrc_wrong_srq },
    { "xrc/srq-events", test_xrc_srq_events },
    { NULL }
};
