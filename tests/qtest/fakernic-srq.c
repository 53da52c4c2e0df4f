/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Shared receive queues.
 */
#include "qemu/osdep.h"
#include "fakernic-setup.h"

static void test_srq(Rig *r)
{
    Queue ring_;
    struct fakernic_create_srq_req req, good = {
        .log_depth = 2, .log_stride = 6,
    };
    struct fakernic_modify_srq_req modify;
    struct fakernic_query_srq_resp resp;
    struct fakernic_id id;
    uint32_t srqn;

    good.pages = queue_alloc(&r->n, &ring_, 2, 6);
    good.pdn = LE32(r->s.pd);
#define BAD(field, value, code) \
    req = good; \
    req.field = value; \
    assert_refused(&r->n, CMD(&r->n, CREATE_SRQ, req), code, \
                   fakernic_create_srq_req, field)
    BAD(log_depth, 17, BAD_PARAM);
    BAD(log_stride, 4, BAD_PARAM);
    BAD(log_stride, 10, BAD_PARAM);
    BAD(pdn, 0, BAD_ID);
    BAD(limit, LE32(5), BAD_PARAM);
#undef BAD
    srqn = cmd_create(&r->n, FAKERNIC_CMD_CREATE_SRQ, &good, sizeof(good));
    id = (struct fakernic_id) { .id = LE32(srqn) };
    assert_status(cmd(&r->n, FAKERNIC_CMD_QUERY_SRQ, &id, sizeof(id), &resp,
                      sizeof(resp)), OK);
    g_assert_cmpuint(le32_to_cpu(resp.depth), ==, 4);
    g_assert_cmpuint(le32_to_cpu(resp.limit), ==, 0);
    modify = (struct fakernic_modify_srq_req) {
        .srqn = LE32(srqn), .mask = 4,
    };
    assert_refused(&r->n, CMD(&r->n, MODIFY_SRQ, modify), BAD_PARAM,
                   fakernic_modify_srq_req, mask);
    modify.mask = FAKERNIC_SRQ_LIMIT;
    modify.limit = LE32(5);
    assert_refused(&r->n, CMD(&r->n, MODIFY_SRQ, modify), BAD_PARAM,
                   fakernic_modify_srq_req, limit);
    /* No receive is posted: the limit of 2 is passed at once. */
    modify.limit = LE32(2);
    assert_status(CMD(&r->n, MODIFY_SRQ, modify), OK);
    g_assert_cmpuint(eq_expect(&r->n, &r->s.async, FAKERNIC_EVENT_SRQ_LIMIT),
                     ==, srqn);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DEALLOC_PD, r->s.pd), BUSY);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_SRQ, srqn), OK);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_SRQ, srqn), BAD_ID);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_QUERY_SRQ, srqn), BAD_ID);
}

/* An RC QP that sends to one that receives from an SRQ. */
static void srq_pair(Nic *n, Setup *s, Qp *a, Qp *b, Queue *srq)
{
    Queue sq;
    struct fakernic_create_srq_req srq_req = {
        .pages = queue_alloc(n, srq, 2, 6),
        .log_depth = 2, .log_stride = 6, .pdn = LE32(s->pd),
    };
    struct fakernic_create_qp_req qp_req = {
        .sq_pages = queue_alloc(n, &sq, 2, 6),
        .type = FAKERNIC_QP_RC, .sq_log_depth = 2,
        .rq_log_depth = FAKERNIC_QUEUE_NONE, .pdn = LE32(s->pd),
        .send_cqn = LE32(s->cq.id), .recv_cqn = LE32(s->cq.id),
    };

    srq->id = cmd_create(n, FAKERNIC_CMD_CREATE_SRQ, &srq_req,
                         sizeof(srq_req));
    qp_req.srqn = LE32(srq->id);
    b->qpn = cmd_create(n, FAKERNIC_CMD_CREATE_QP, &qp_req, sizeof(qp_req));
    qp_create(n, a, FAKERNIC_QP_RC, s->pd, &s->cq, 0);
    rc_connect(n, a->qpn, b->qpn, own_gid, nic_mac);
    rc_connect(n, b->qpn, a->qpn, own_gid, nic_mac);
}

/* One message, which must take the receive with this tag. */
static void srq_send(Nic *n, Setup *s, Qp *a, uint32_t tag)
{
    Wqe wqe = wqe_send(s, 0, 16);
    struct fakernic_cqe cqe;

    sq_put(n, a, &wqe, sizeof(wqe));
    sq_ring(n, a);
    cq_expect(n, &s->cq, &cqe, FAKERNIC_CQE_RECV, FAKERNIC_WC_SUCCESS);
    g_assert_cmphex(le32_to_cpu(cqe.wqe_index), ==, tag);
    cq_expect(n, &s->cq, &cqe, FAKERNIC_CQE_SEND, FAKERNIC_WC_SUCCESS);
    queue_record(n, &s->cq, s->cq.index);
}

/* A request for a new ring of another depth, which continues at the same
 * index. */
static struct fakernic_modify_srq_req resize_req(Nic *n, const Queue *old,
                                                 Queue *next,
                                                 unsigned log_depth)
{
    struct fakernic_modify_srq_req req = {
        .pages = queue_alloc(n, next, log_depth, 6),
        .srqn = LE32(old->id), .mask = FAKERNIC_SRQ_RESIZE,
        .log_depth = log_depth,
    };

    next->id = old->id;
    next->index = old->index;
    queue_record(n, next, next->index);
    return req;
}

static uint32_t srq_limit(Nic *n, uint32_t srqn, uint32_t *depth)
{
    struct fakernic_id id = { .id = LE32(srqn) };
    struct fakernic_query_srq_resp resp;

    assert_status(cmd(n, FAKERNIC_CMD_QUERY_SRQ, &id, sizeof(id), &resp,
                      sizeof(resp)), OK);
    *depth = le32_to_cpu(resp.depth);
    return le32_to_cpu(resp.limit);
}

/* The SRQ gets larger and smaller again, with receives posted, across the
 * wrap. */
static void test_srq_resize(Rig *r)
{
    Qp a, b;
    Queue srq, next;
    struct fakernic_modify_srq_req req;
    uint32_t taken = 0, depth;

    srq_pair(&r->n, &r->s, &a, &b, &srq);
    for (unsigned round = 0; round < 4; round++) {
        unsigned log_depth = round % 2 ? 2 : 4;

        while (srq.index - taken < 4) {
            rq_post(&r->n, &srq, srq.index, r->s.data + 4096, 4096, r->s.key);
        }
        srq_send(&r->n, &r->s, &a, taken++);
        req = resize_req(&r->n, &srq, &next, log_depth);
        assert_status(CMD(&r->n, MODIFY_SRQ, req), OK);
        /* The old ring belongs to the host again. */
        qtest_memset(r->m.qts, srq.address, 0xff, srq.depth * srq.entry + 64);
        srq = next;
        srq_limit(&r->n, srq.id, &depth);
        g_assert_cmpuint(depth, ==, 1u << log_depth);
        rq_post(&r->n, &srq, srq.index, r->s.data + 4096, 4096, r->s.key);
        for (unsigned i = 0; i < 3; i++) {
            srq_send(&r->n, &r->s, &a, taken++);
        }
    }
}

static void test_srq_resize_refused(Rig *r)
{
    Qp a, b;
    Queue srq, next;
    struct fakernic_modify_srq_req good, req;
    uint32_t depth;

    srq_pair(&r->n, &r->s, &a, &b, &srq);
    for (unsigned i = 0; i < 3; i++) {
        rq_post(&r->n, &srq, i, r->s.data + 4096, 4096, r->s.key);
    }
    good = resize_req(&r->n, &srq, &next, 3);
#define BAD(change, code, field) \
    do { \
        req = good; \
        change; \
        assert_refused(&r->n, CMD(&r->n, MODIFY_SRQ, req), code, \
                       fakernic_modify_srq_req, field); \
    } while (0)
    BAD(req.log_depth = 17, BAD_PARAM, log_depth);
    BAD(req.log_depth = 1, BAD_PARAM, log_depth);
    BAD(req.srqn = LE32(77), BAD_ID, srqn);
    BAD(req.mask |= 4, BAD_PARAM, mask);
    BAD(req.limit = LE32(1), BAD_PARAM, limit);
    BAD(req.mask |= FAKERNIC_SRQ_LIMIT; req.limit = LE32(9), BAD_PARAM, limit);
    BAD(req.pages.page_count = 0, BAD_PAGE_LIST, pages);
    BAD(req.mask = 0, BAD_PARAM, log_depth);
    BAD(req.mask = 0; req.log_depth = 0, BAD_PARAM, pages);
    /* A receive was posted during the resize: the records differ. */
    queue_record(&r->n, &next, next.index - 1);
    BAD(, BAD_STATE, srqn);
    queue_record(&r->n, &next, next.index);
    queue_record(&r->n, &srq, srq.index + 7);
    queue_record(&r->n, &next, next.index + 7);
    BAD(, BAD_STATE, srqn);
    queue_record(&r->n, &srq, srq.index);
    queue_record(&r->n, &next, next.index);
#undef BAD
    /* A ring outside of guest memory. */
    req = good;
    req.pages.address = LE64(1ull << 50);
    assert_status(CMD(&r->n, MODIFY_SRQ, req), DMA_ERROR);
    /* Nothing has changed. */
    srq_limit(&r->n, srq.id, &depth);
    g_assert_cmpuint(depth, ==, 4);
    for (unsigned i = 0; i < 3; i++) {
        srq_send(&r->n, &r->s, &a, i);
    }
}

/*
 * A limit causes one event and is 0 then. The device reads the record before it
 * raises the event.
 */
static void test_srq_limit(Rig *r)
{
    Qp a, b;
    Queue srq, next;
    struct fakernic_eqe eqe;
    struct fakernic_modify_srq_req req = {
        .mask = FAKERNIC_SRQ_LIMIT, .limit = LE32(3),
    };
    uint32_t depth;

    srq_pair(&r->n, &r->s, &a, &b, &srq);
    for (unsigned i = 0; i < 4; i++) {
        rq_post(&r->n, &srq, i, r->s.data + 4096, 4096, r->s.key);
    }
    req.srqn = LE32(srq.id);
    assert_status(CMD(&r->n, MODIFY_SRQ, req), OK);
    srq_send(&r->n, &r->s, &a, 0);
    g_assert_cmpuint(srq_limit(&r->n, srq.id, &depth), ==, 3);
    rq_post(&r->n, &srq, 4, r->s.data + 4096, 4096, r->s.key);
    srq_send(&r->n, &r->s, &a, 1);
    g_assert_cmpuint(srq_limit(&r->n, srq.id, &depth), ==, 3);
    g_assert_false(eq_poll(&r->n, &r->s.async, &eqe));
    srq_send(&r->n, &r->s, &a, 2);
    g_assert_cmpuint(eq_expect(&r->n, &r->s.async, FAKERNIC_EVENT_SRQ_LIMIT),
                     ==, srq.id);
    g_assert_cmpuint(srq_limit(&r->n, srq.id, &depth), ==, 0);
    srq_send(&r->n, &r->s, &a, 3);
    g_assert_false(eq_poll(&r->n, &r->s.async, &eqe));
    /* The limit is disarmed before it is reached. */
    req.limit = LE32(1);
    assert_status(CMD(&r->n, MODIFY_SRQ, req), OK);
    req.limit = 0;
    assert_status(CMD(&r->n, MODIFY_SRQ, req), OK);
    srq_send(&r->n, &r->s, &a, 4);
    g_assert_false(eq_poll(&r->n, &r->s.async, &eqe));
    /* Together with a resize, the limit is compared with the new depth. */
    req = resize_req(&r->n, &srq, &next, 4);
    req.mask |= FAKERNIC_SRQ_LIMIT;
    req.limit = LE32(16);
    assert_status(CMD(&r->n, MODIFY_SRQ, req), OK);
    g_assert_cmpuint(eq_expect(&r->n, &r->s.async, FAKERNIC_EVENT_SRQ_LIMIT),
                     ==, srq.id);
}

/* An impossible producer index fails the SRQ. The event has the reason. */
static void test_srq_error(Rig *r)
{
    Qp a, b;
    Queue srq;
    struct fakernic_eqe eqe;
    Wqe wqe;

    srq_pair(&r->n, &r->s, &a, &b, &srq);
    queue_record(&r->n, &srq, 5);
    wqe = wqe_send(&r->s, 0, 16);
    sq_put(&r->n, &a, &wqe, sizeof(wqe));
    sq_ring(&r->n, &a);
    rig_cqe(r, FAKERNIC_CQE_SEND, FAKERNIC_WC_REM_OP_ERR);
    g_assert_true(eq_poll(&r->n, &r->s.async, &eqe));
    g_assert_cmpuint(eqe.type, ==, FAKERNIC_EVENT_SRQ_ERROR);
    g_assert_cmpuint(le32_to_cpu(eqe.id), ==, srq.id);
    g_assert_cmpuint(le32_to_cpu(eqe.data), ==, FAKERNIC_VENDOR_RQ_OVERRUN);
    g_assert_cmpuint(qp_state(&r->n, b.qpn), ==, FAKERNIC_QPS_ERR);
}

const FakernicTest fakernic_srq_tests[] = {
    { "cmd/srq", READY(test_srq) },
    { "srq/resize", READY(test_srq_resize) },
    { "srq/resize-refused", READY(test_srq_resize_refused) },
    { "srq/limit", READY(test_srq_limit) },
    { "srq/error", READY(test_srq_error) },
    { NULL }
};
