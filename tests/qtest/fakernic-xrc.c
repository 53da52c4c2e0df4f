/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * XRC: domains, shared receive queues with their own CQ, initiators, targets,
 * and how a target treats messages (IBTA annex A14).
 */
#include "qemu/osdep.h"
#include "fakernic-setup.h"

typedef struct Xrc {
    uint32_t xrcdn;
    Queue srq, cq;              /* on the target's side */
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

static void test_xrcd(Rig *r)
{
    Xrc x;
    struct fakernic_query_device_resp dev;
    uint32_t other;

    assert_status(cmd(&r->n, FAKERNIC_CMD_QUERY_DEVICE, NULL, 0, &dev,
                      sizeof(dev)), OK);
    g_assert_cmpuint(le32_to_cpu(dev.max_xrcd), >=, 2);
    xrc_setup(&r->n, &r->s, &x);
    other = cmd_create(&r->n, FAKERNIC_CMD_ALLOC_XRCD, NULL, 0);
    g_assert_cmpuint(other, !=, x.xrcdn);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DEALLOC_XRCD, other), OK);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DEALLOC_XRCD, other), BAD_ID);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DEALLOC_XRCD, 0), BAD_ID);
    /* Objects in use cannot be destroyed. */
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DEALLOC_XRCD, x.xrcdn), BUSY);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_CQ, x.cq.id), BUSY);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_SRQ, x.srq.id), OK);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_CQ, x.cq.id), OK);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DEALLOC_XRCD, x.xrcdn), BUSY);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_QP, x.tgt), OK);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DEALLOC_XRCD, x.xrcdn), OK);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_QP, x.ini.qpn), OK);
}

static void test_xrc_create(Rig *r)
{
    Xrc x;
    Qp qp;
    Queue ring_;
    struct fakernic_create_srq_req srq, good_srq;
    struct fakernic_create_qp_req req, good;

    xrc_setup(&r->n, &r->s, &x);
    good_srq = (struct fakernic_create_srq_req) {
        .pages = queue_alloc(&r->n, &ring_, 2, 6),
        .log_depth = 2, .log_stride = 6,
        .pdn = LE32(r->s.pd), .xrcdn = LE32(x.xrcdn), .cqn = LE32(x.cq.id),
    };
#define BAD_SRQ(field, value, code) \
    srq = good_srq; \
    srq.field = value; \
    assert_refused(&r->n, CMD(&r->n, CREATE_SRQ, srq), code, \
                   fakernic_create_srq_req, field)
    BAD_SRQ(xrcdn, LE32(x.xrcdn + 1), BAD_ID);
    BAD_SRQ(xrcdn, LE32(~0u), BAD_ID);
    BAD_SRQ(cqn, 0, BAD_ID);
    BAD_SRQ(cqn, LE32(x.cq.id + 1), BAD_ID);
    srq = good_srq;
    srq.xrcdn = 0;
    assert_refused(&r->n, CMD(&r->n, CREATE_SRQ, srq), BAD_PARAM,
                   fakernic_create_srq_req, cqn);
#undef BAD_SRQ
#define BAD(field, value, code) \
    req = good; \
    req.field = value; \
    assert_refused(&r->n, CMD(&r->n, CREATE_QP, req), code, \
                   fakernic_create_qp_req, field)
    good = ini_req(&r->n, &r->s, &qp);
    BAD(pdn, 0, BAD_ID);
    BAD(send_cqn, 0, BAD_ID);
    BAD(recv_cqn, LE32(r->s.cq.id), BAD_PARAM);
    BAD(srqn, LE32(x.srq.id), BAD_PARAM);
    BAD(xrcdn, LE32(x.xrcdn), BAD_PARAM);
    BAD(uar, LE32(7), BAD_ID);
    req = good;
    req.rq_log_depth = 0;
    req.rq_log_stride = 5;
    assert_refused(&r->n, CMD(&r->n, CREATE_QP, req), BAD_PARAM,
                   fakernic_create_qp_req, rq_log_depth);
    good = (struct fakernic_create_qp_req) {
        .type = FAKERNIC_QP_XRC_TGT, .sq_log_depth = FAKERNIC_QUEUE_NONE,
        .rq_log_depth = FAKERNIC_QUEUE_NONE, .xrcdn = LE32(x.xrcdn),
    };
    BAD(xrcdn, 0, BAD_ID);
    BAD(xrcdn, LE32(x.xrcdn + 1), BAD_ID);
    BAD(pdn, LE32(r->s.pd), BAD_PARAM);
    BAD(send_cqn, LE32(r->s.cq.id), BAD_PARAM);
    BAD(recv_cqn, LE32(r->s.cq.id), BAD_PARAM);
    BAD(srqn, LE32(x.srq.id), BAD_PARAM);
    BAD(uar, LE32(1), BAD_PARAM);
    BAD(sq_log_depth, 0, BAD_PARAM);
    req = good;
    req.rq_log_depth = 0;
    req.rq_log_stride = 5;
    assert_refused(&r->n, CMD(&r->n, CREATE_QP, req), BAD_PARAM,
                   fakernic_create_qp_req, rq_log_depth);
    /* An ordinary QP cannot receive from an XRC SRQ. */
    good = (struct fakernic_create_qp_req) {
        .type = FAKERNIC_QP_RC, .sq_log_depth = FAKERNIC_QUEUE_NONE,
        .rq_log_depth = FAKERNIC_QUEUE_NONE, .pdn = LE32(r->s.pd),
        .send_cqn = LE32(r->s.cq.id), .recv_cqn = LE32(r->s.cq.id),
    };
    BAD(srqn, LE32(x.srq.id), BAD_PARAM);
#undef BAD
}

/* SEND and WRITE_IMM take receives of the named SRQ; READ and WRITE do not. */
static void test_xrc_traffic(Rig *r)
{
    Xrc x;
    struct fakernic_cqe cqe;
    Wqe wqe;

    xrc_setup(&r->n, &r->s, &x);
    fill(&r->n, &r->s, 0, 3000);
    rq_post(&r->n, &x.srq, 0xaa, r->s.data + 8192, 4096, r->s.key);
    rq_post(&r->n, &x.srq, 0xbb, r->s.data + 16384, 4096, r->s.key);
    xrc_post(&r->n, &x, wqe_send(&r->s, 0, 3000), x.srq.id);
    cq_expect(&r->n, &x.cq, &cqe, FAKERNIC_CQE_RECV, FAKERNIC_WC_SUCCESS);
    g_assert_cmpuint(le32_to_cpu(cqe.qpn), ==, x.tgt);
    g_assert_cmpuint(le32_to_cpu(cqe.srqn), ==, x.srq.id);
    g_assert_cmphex(le32_to_cpu(cqe.wqe_index), ==, 0xaa);
    assert_same(&r->n, &r->s, 0, 8192, 3000);
    cqe = rig_cqe(r, FAKERNIC_CQE_SEND, FAKERNIC_WC_SUCCESS);
    g_assert_cmpuint(le32_to_cpu(cqe.qpn), ==, x.ini.qpn);
    wqe = wqe_rdma(&r->s, FAKERNIC_SQ_RDMA_WRITE_IMM, 0, 32768, 2000);
    wqe.hdr.imm_or_key = LE32(0x1234);
    xrc_post(&r->n, &x, wqe, x.srq.id);
    cq_expect(&r->n, &x.cq, &cqe, FAKERNIC_CQE_RECV_RDMA_IMM,
              FAKERNIC_WC_SUCCESS);
    g_assert_cmphex(le32_to_cpu(cqe.wqe_index), ==, 0xbb);
    g_assert_cmphex(le32_to_cpu(cqe.imm_or_key), ==, 0x1234);
    cqe = rig_cqe(r, FAKERNIC_CQE_RDMA_WRITE, FAKERNIC_WC_SUCCESS);
    assert_same(&r->n, &r->s, 0, 32768, 2000);
    xrc_post(&r->n, &x, wqe_rdma(&r->s, FAKERNIC_SQ_RDMA_READ, 40960, 0, 3000),
             x.srq.id);
    cqe = rig_cqe(r, FAKERNIC_CQE_RDMA_READ, FAKERNIC_WC_SUCCESS);
    assert_same(&r->n, &r->s, 0, 40960, 3000);
}

/* A number that names no SRQ of the domain: NAK 1, and the target fails. */
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

static void test_xrc_wrong_srq(Rig *r)
{
    Xrc x, y;
    Queue ring_;
    struct fakernic_create_srq_req plain = { .log_depth = 2, .log_stride = 6 };
    uint32_t srqn;

    xrc_setup(&r->n, &r->s, &x);
    /* An SRQ of another domain. */
    xrc_setup(&r->n, &r->s, &y);
    rq_post(&r->n, &y.srq, 1, r->s.data, 4096, r->s.key);
    xrc_expect_refused(&r->n, &r->s, &x, y.srq.id);
    g_assert_cmpuint(
        eq_expect(&r->n, &r->s.async, FAKERNIC_EVENT_QP_REQUEST_ERROR), ==,
        x.tgt);
    /* An SRQ without a domain. */
    plain.pages = queue_alloc(&r->n, &ring_, 2, 6);
    plain.pdn = LE32(r->s.pd);
    srqn = cmd_create(&r->n, FAKERNIC_CMD_CREATE_SRQ, &plain, sizeof(plain));
    xrc_setup(&r->n, &r->s, &x);
    xrc_expect_refused(&r->n, &r->s, &x, srqn);
    /* None at all. */
    xrc_setup(&r->n, &r->s, &x);
    xrc_expect_refused(&r->n, &r->s, &x, 0xffffff);
}

/* The limit event, and an SRQ whose CQ overflows. */
static void test_xrc_srq_events(Rig *r)
{
    Xrc x;
    struct fakernic_eqe eqe;
    struct fakernic_modify_srq_req modify;
    Queue small;

    xrc_setup(&r->n, &r->s, &x);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_SRQ, x.srq.id), OK);
    cq_create(&r->n, &small, 1, &r->s.eq, 0, 0);
    x.cq = small;
    x.srq.id = xrc_srq_create(&r->n, &r->s, &x);
    for (unsigned i = 0; i < 3; i++) {
        rq_post(&r->n, &x.srq, i, r->s.data, 4096, r->s.key);
    }
    modify = (struct fakernic_modify_srq_req) {
        .srqn = LE32(x.srq.id), .mask = FAKERNIC_SRQ_LIMIT, .limit = LE32(3),
    };
    assert_status(CMD(&r->n, MODIFY_SRQ, modify), OK);
    xrc_post(&r->n, &x, wqe_send(&r->s, 0, 8), x.srq.id);
    rig_cqe(r, FAKERNIC_CQE_SEND, FAKERNIC_WC_SUCCESS);
    g_assert_cmpuint(eq_expect(&r->n, &r->s.async, FAKERNIC_EVENT_SRQ_LIMIT),
                     ==, x.srq.id);
    /* Two entries fill the CQ, the third breaks it and the SRQ with it. */
    xrc_post(&r->n, &x, wqe_send(&r->s, 0, 8), x.srq.id);
    xrc_post(&r->n, &x, wqe_send(&r->s, 0, 8), x.srq.id);
    g_assert_cmpuint(eq_expect(&r->n, &r->s.async, FAKERNIC_EVENT_CQ_ERROR), ==,
                     x.cq.id);
    g_assert_true(eq_poll(&r->n, &r->s.async, &eqe));
    g_assert_cmpuint(eqe.type, ==, FAKERNIC_EVENT_SRQ_ERROR);
    g_assert_cmpuint(le32_to_cpu(eqe.id), ==, x.srq.id);
    g_assert_cmpuint(le32_to_cpu(eqe.data), ==, FAKERNIC_VENDOR_CQ_OVERRUN);
    rig_cqe(r, FAKERNIC_CQE_SEND, FAKERNIC_WC_SUCCESS);
    rig_cqe(r, FAKERNIC_CQE_SEND, FAKERNIC_WC_SUCCESS);
    assert_status(CMD(&r->n, MODIFY_SRQ, modify), BAD_STATE);
    xrc_post(&r->n, &x, wqe_send(&r->s, 0, 8), x.srq.id);
    rig_cqe(r, FAKERNIC_CQE_SEND, FAKERNIC_WC_REM_INV_REQ_ERR);
}

const FakernicTest fakernic_xrc_tests[] = {
    { "xrc/domain", READY(test_xrcd) },
    { "xrc/create", READY(test_xrc_create) },
    { "xrc/traffic", READY(test_xrc_traffic) },
    { "xrc/wrong-srq", READY(test_xrc_wrong_srq) },
    { "xrc/srq-events", READY(test_xrc_srq_events) },
    { NULL }
};
