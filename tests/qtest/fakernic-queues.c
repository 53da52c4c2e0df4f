/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Completion and event queues, interrupts, doorbells.
 */
#include "qemu/osdep.h"
#include <poll.h>
#include "fakernic-setup.h"

/* ---- completion queues, events, interrupts --------------------------- */

static void test_event_and_interrupt(Rig *r)
{
    struct fakernic_eqe eqe;

    /* Not armed: a completion, no event. */
    complete_nops(&r->n, &r->a, 1);
    rig_cqe(r, FAKERNIC_CQE_NOP, FAKERNIC_WC_SUCCESS);
    g_assert_false(eq_poll(&r->n, &r->s.eq, &eqe));
    g_assert_false(msix_fired(&r->n, 1));
    /* Armed: one event for two completions, one interrupt. */
    cq_arm(&r->n, &r->s.cq, 0, false);
    g_assert_false(eq_poll(&r->n, &r->s.eq, &eqe));
    complete_nops(&r->n, &r->a, 2);
    g_assert_cmpuint(eq_expect(&r->n, &r->s.eq, FAKERNIC_EVENT_COMPLETION), ==,
                     r->s.cq.id);
    g_assert_false(eq_poll(&r->n, &r->s.eq, &eqe));
    g_assert_true(msix_fired(&r->n, 1));
    /* Armed behind unconsumed entries: at once. The EQ itself is not armed. */
    cq_arm(&r->n, &r->s.cq, 0, false);
    g_assert_cmpuint(eq_expect(&r->n, &r->s.eq, FAKERNIC_EVENT_COMPLETION), ==,
                     r->s.cq.id);
    g_assert_false(msix_fired(&r->n, 1));
    r->s.eq.index--;
    eq_ring(&r->n, &r->s.eq, true);       /* an entry is pending: at once */
    g_assert_true(msix_fired(&r->n, 1));
    r->s.eq.index++;
    eq_ring(&r->n, &r->s.eq, true);
    g_assert_false(msix_fired(&r->n, 1));
}

static void test_event_solicited(Rig *r)
{
    struct fakernic_eqe eqe;
    Wqe wqe;

    cq_arm(&r->n, &r->s.cq, 0, true);
    complete_nops(&r->n, &r->a, 1);
    rig_cqe(r, FAKERNIC_CQE_NOP, FAKERNIC_WC_SUCCESS);
    g_assert_false(eq_poll(&r->n, &r->s.eq, &eqe));
    rq_post(&r->n, &r->b.rq, 1, r->s.data + 4096, 4096, r->s.key);
    wqe = wqe_send(&r->s, 0, 8);
    wqe.hdr.flags |= FAKERNIC_SQ_SOLICITED;
    POST(r, wqe);
    g_assert_cmpuint(eq_expect(&r->n, &r->s.eq, FAKERNIC_EVENT_COMPLETION), ==,
                     r->s.cq.id);
    /* Arming counts solicited entries from ci on, but none before ci. */
    rig_cqe(r, FAKERNIC_CQE_RECV, FAKERNIC_WC_SUCCESS);
    cq_arm(&r->n, &r->s.cq, 0, true);
    g_assert_false(eq_poll(&r->n, &r->s.eq, &eqe));
    r->s.cq.index--;
    cq_arm(&r->n, &r->s.cq, 0, true);
    g_assert_true(eq_poll(&r->n, &r->s.eq, &eqe));
}

static void test_msix_masked(Rig *r)
{
    msix_mask(&r->n, 0, true);
    assert_status(cmd(&r->n, FAKERNIC_CMD_NOP, NULL, 0, NULL, 0), OK);
    g_assert_false(msix_fired(&r->n, 0));
    g_assert_true(qpci_msix_pending(r->n.pci, 0));
    msix_mask(&r->n, 0, false);
    g_assert_true(msix_fired(&r->n, 0));
    g_assert_false(qpci_msix_pending(r->n.pci, 0));
}

/* More objects raise events than the 16 that the EQ holds: none is lost. */
static void test_eq_full(Rig *r)
{
    Qp qp[20];
    struct fakernic_eqe eqe;
    bool seen[20] = { false };
    unsigned count = 0;

    for (unsigned i = 0; i < 20; i++) {
        qp_create(&r->n, &qp[i], FAKERNIC_QP_RC, r->s.pd, &r->s.cq, 0);
        rc_connect(&r->n, qp[i].qpn, qp[i].qpn, own_gid, nic_mac);
        ring(&r->n, 0, FAKERNIC_DOORBELL_SQ, doorbell(qp[i].qpn, 1000));
    }
    g_assert_cmpuint(nic_stat(&r->n, FAKERNIC_STAT_EQ_DELAYED), >=, 4);
    while (eq_poll(&r->n, &r->s.async, &eqe)) {
        count++;
        g_assert_cmpuint(eqe.type, ==, FAKERNIC_EVENT_QP_FATAL);
        g_assert_cmpuint(le32_to_cpu(eqe.data), ==, FAKERNIC_VENDOR_SQ_OVERRUN);
        for (unsigned i = 0; i < 20; i++) {
            seen[i] |= le32_to_cpu(eqe.id) == qp[i].qpn;
        }
        if (count % 5 == 0) {
            eq_ring(&r->n, &r->s.async, true);
        }
    }
    g_assert_cmpuint(count, ==, 20);
    for (unsigned i = 0; i < 20; i++) {
        g_assert_true(seen[i]);
    }
    /* An index the queue cannot have. */
    r->s.async.index += 100;
    eq_ring(&r->n, &r->s.async, false);
    g_assert_cmpuint(nic_stat(&r->n, FAKERNIC_STAT_DOORBELL_DROPPED), ==, 1);
}

static void cq_moderate(Nic *n, const Queue *cq, uint16_t count,
                        uint16_t period_us)
{
    struct fakernic_modify_cq_req req = {
        .cqn = LE32(cq->id), .count = LE16(count), .period_us = LE16(period_us),
    };

    assert_status(CMD(n, MODIFY_CQ, req), OK);
}

/* Consumes what is in the CQ, then arms it. */
static void cq_drain_arm(Nic *n, Queue *cq, bool solicited)
{
    struct fakernic_cqe cqe;

    while (cq_poll(n, cq, &cqe)) {
    }
    queue_record(n, cq, cq->index);
    cq_arm(n, cq, 0, solicited);
}

static void test_cq_moderation(Rig *r)
{
    struct fakernic_eqe eqe;
    struct fakernic_modify_cq_req bad = { .cqn = LE32(99) };

    assert_refused(&r->n, CMD(&r->n, MODIFY_CQ, bad), BAD_ID,
                   fakernic_modify_cq_req, cqn);
    /* By count alone, without a time limit. */
    cq_moderate(&r->n, &r->s.cq, 3, 0);
    cq_drain_arm(&r->n, &r->s.cq, false);
    complete_nops(&r->n, &r->a, 2);
    qtest_clock_step(r->m.qts, 1000000000);
    g_assert_false(eq_poll(&r->n, &r->s.eq, &eqe));
    complete_nops(&r->n, &r->a, 1);
    g_assert_cmpuint(eq_expect(&r->n, &r->s.eq, FAKERNIC_EVENT_COMPLETION), ==,
                     r->s.cq.id);
    /* By time: 50 us after the first entry. */
    cq_moderate(&r->n, &r->s.cq, 3, 50);
    cq_drain_arm(&r->n, &r->s.cq, false);
    qtest_clock_step(r->m.qts, 1000000);
    complete_nops(&r->n, &r->a, 1);
    qtest_clock_step(r->m.qts, 30000);
    complete_nops(&r->n, &r->a, 1);
    g_assert_false(eq_poll(&r->n, &r->s.eq, &eqe));
    qtest_clock_step(r->m.qts, 30000);
    eq_expect(&r->n, &r->s.eq, FAKERNIC_EVENT_COMPLETION);
    /* There is one event, and no other one when the count is reached. */
    complete_nops(&r->n, &r->a, 3);
    qtest_clock_step(r->m.qts, 1000000);
    g_assert_false(eq_poll(&r->n, &r->s.eq, &eqe));
    /* Armed behind unconsumed entries: at once. */
    cq_arm(&r->n, &r->s.cq, 0, false);
    eq_expect(&r->n, &r->s.eq, FAKERNIC_EVENT_COMPLETION);
    /* Unsolicited entries neither hold an event back nor start the timer. */
    cq_drain_arm(&r->n, &r->s.cq, true);
    complete_nops(&r->n, &r->a, 5);
    qtest_clock_step(r->m.qts, 1000000);
    g_assert_false(eq_poll(&r->n, &r->s.eq, &eqe));
}

/* New values or an error release an event that is held back. The destruction of
 * the CQ drops it. */
static void test_cq_moderation_changes(Rig *r)
{
    Queue small;
    struct fakernic_eqe eqe;

    cq_moderate(&r->n, &r->s.cq, 100, 0);
    cq_drain_arm(&r->n, &r->s.cq, false);
    complete_nops(&r->n, &r->a, 2);
    cq_moderate(&r->n, &r->s.cq, 5, 0);
    g_assert_false(eq_poll(&r->n, &r->s.eq, &eqe));
    cq_moderate(&r->n, &r->s.cq, 2, 0);
    eq_expect(&r->n, &r->s.eq, FAKERNIC_EVENT_COMPLETION);
    cq_drain_arm(&r->n, &r->s.cq, false);
    complete_nops(&r->n, &r->a, 1);
    cq_moderate(&r->n, &r->s.cq, 5, 10);
    g_assert_false(eq_poll(&r->n, &r->s.eq, &eqe));
    qtest_clock_step(r->m.qts, 20000);
    eq_expect(&r->n, &r->s.eq, FAKERNIC_EVENT_COMPLETION);
    /* A CQ of two entries cannot reach the count of three: an error occurs. */
    cq_create(&r->n, &small, 1, &r->s.eq, 0, 0);
    qp_create(&r->n, &r->a, FAKERNIC_QP_RC, r->s.pd, &small, 0);
    rc_connect(&r->n, r->a.qpn, r->b.qpn, own_gid, nic_mac);
    cq_moderate(&r->n, &small, 3, 0);
    cq_drain_arm(&r->n, &small, false);
    complete_nops(&r->n, &r->a, 2);
    g_assert_false(eq_poll(&r->n, &r->s.eq, &eqe));
    complete_nops(&r->n, &r->a, 1);
    g_assert_cmpuint(eq_expect(&r->n, &r->s.eq, FAKERNIC_EVENT_COMPLETION), ==,
                     small.id);
    g_assert_cmpuint(eq_expect(&r->n, &r->s.async, FAKERNIC_EVENT_CQ_ERROR), ==,
                     small.id);
    /* The CQ is destroyed while its event is held back. */
    cq_create(&r->n, &small, 4, &r->s.eq, 0, 0);
    qp_create(&r->n, &r->a, FAKERNIC_QP_RC, r->s.pd, &small, 0);
    rc_connect(&r->n, r->a.qpn, r->b.qpn, own_gid, nic_mac);
    cq_moderate(&r->n, &small, 9, 100);
    cq_drain_arm(&r->n, &small, false);
    complete_nops(&r->n, &r->a, 1);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_QP, r->a.qpn), OK);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_CQ, small.id), OK);
    qtest_clock_step(r->m.qts, 1000000);
    g_assert_false(eq_poll(&r->n, &r->s.eq, &eqe));
}

static void test_cq_overrun(Rig *r)
{
    Queue small;
    Qp a;
    struct fakernic_cqe cqe;

    cq_create(&r->n, &small, 2, &r->s.eq, 0, 0);
    qp_create(&r->n, &a, FAKERNIC_QP_RC, r->s.pd, &small, 0);
    rc_connect(&r->n, a.qpn, a.qpn, own_gid, nic_mac);
    /* Entries consumed in time: the device reads the record. */
    complete_nops(&r->n, &a, 4);
    for (unsigned i = 0; i < 4; i++) {
        cq_expect(&r->n, &small, &cqe, FAKERNIC_CQE_NOP, FAKERNIC_WC_SUCCESS);
    }
    queue_record(&r->n, &small, small.index);
    complete_nops(&r->n, &a, 4);
    g_assert_cmpuint(qp_state(&r->n, a.qpn), ==, FAKERNIC_QPS_RTS);
    complete_nops(&r->n, &a, 1);
    g_assert_cmpuint(eq_expect(&r->n, &r->s.async, FAKERNIC_EVENT_CQ_ERROR), ==,
                     small.id);
    g_assert_cmpuint(eq_expect(&r->n, &r->s.async, FAKERNIC_EVENT_QP_FATAL), ==,
                     a.qpn);
    g_assert_cmpuint(qp_state(&r->n, a.qpn), ==, FAKERNIC_QPS_ERR);
    g_assert_cmpuint(nic_stat(&r->n, FAKERNIC_STAT_CQ_OVERRUNS), ==, 1);
    /* The four written entries are intact, and there is no fifth. */
    for (unsigned i = 0; i < 4; i++) {
        g_assert_true(cq_poll(&r->n, &small, &cqe));
        g_assert_cmpuint(le32_to_cpu(cqe.wqe_index), ==, 4 + i);
    }
    g_assert_false(cq_poll(&r->n, &small, &cqe));
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_QP, a.qpn), OK);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_CQ, small.id), OK);
}

/* A QP of a CQ in error could report nothing, so it does not leave RESET. */
static void test_cq_overrun_in_reset(Rig *r)
{
    struct fakernic_modify_qp_req init = {
        .mask = LE32(FAKERNIC_QP_ATTR_STATE | FAKERNIC_QP_ATTR_PKEY_INDEX |
                     FAKERNIC_QP_ATTR_PORT | FAKERNIC_QP_ATTR_ACCESS_FLAGS),
        .attr = { .state = FAKERNIC_QPS_INIT, .port = 1 },
    };
    Queue small;
    Qp a, b;

    cq_create(&r->n, &small, 1, &r->s.eq, 0, 0);
    qp_create(&r->n, &a, FAKERNIC_QP_RC, r->s.pd, &small, 0);
    qp_create(&r->n, &b, FAKERNIC_QP_RC, r->s.pd, &small, 0);
    rc_connect(&r->n, a.qpn, a.qpn, own_gid, nic_mac);
    complete_nops(&r->n, &a, 3);
    g_assert_cmpuint(eq_expect(&r->n, &r->s.async, FAKERNIC_EVENT_CQ_ERROR), ==,
                     small.id);
    g_assert_cmpuint(eq_expect(&r->n, &r->s.async, FAKERNIC_EVENT_QP_FATAL), ==,
                     a.qpn);
    init.qpn = LE32(b.qpn);
    assert_refused(&r->n, CMD(&r->n, MODIFY_QP, init), BAD_STATE,
                   fakernic_modify_qp_req, attr.state);
    g_assert_cmpuint(qp_state(&r->n, b.qpn), ==, FAKERNIC_QPS_RESET);
    /* Neither does one that failed with the CQ and was then reset. */
    assert_status(qp_to(&r->n, a.qpn, FAKERNIC_QPS_RESET), OK);
    init.qpn = LE32(a.qpn);
    assert_refused(&r->n, CMD(&r->n, MODIFY_QP, init), BAD_STATE,
                   fakernic_modify_qp_req, attr.state);
}

static void test_cq_resize(Rig *r)
{
    Queue cq, wide;
    Qp a;
    struct fakernic_cqe cqe;
    struct fakernic_resize_cq_req req;

    cq_create(&r->n, &cq, 2, &r->s.eq, 0, 0);
    qp_create(&r->n, &a, FAKERNIC_QP_RC, r->s.pd, &cq, 0);
    rc_connect(&r->n, a.qpn, a.qpn, own_gid, nic_mac);
    complete_nops(&r->n, &a, 4);
    cq_expect(&r->n, &cq, &cqe, FAKERNIC_CQE_NOP, FAKERNIC_WC_SUCCESS);
    queue_record(&r->n, &cq, cq.index);
    complete_nops(&r->n, &a, 1);       /* ring positions 1, 2, 3, 0 */
    req = (struct fakernic_resize_cq_req) {
        .pages = queue_alloc(&r->n, &wide, 4, 6), .cqn = LE32(cq.id),
        .log_depth = 1,
    };
    assert_refused(&r->n, CMD(&r->n, RESIZE_CQ, req), BAD_PARAM,
                   fakernic_resize_cq_req, log_depth);
    req.log_depth = 4;
    req.cqn = LE32(cq.id + 1);
    assert_refused(&r->n, CMD(&r->n, RESIZE_CQ, req), BAD_ID,
                   fakernic_resize_cq_req, cqn);
    req.cqn = LE32(cq.id);
    assert_status(CMD(&r->n, RESIZE_CQ, req), OK);
    complete_nops(&r->n, &a, 2);
    for (unsigned i = 0; i < 6; i++) {
        g_assert_true(cq_poll(&r->n, &wide, &cqe));
        g_assert_cmpuint(le32_to_cpu(cqe.wqe_index), ==, 1 + i);
    }
    g_assert_false(cq_poll(&r->n, &wide, &cqe));
}

#define DEEP_PAGES ((1U << (FAKERNIC_CQ_LOG_DEPTH_MAX - 6)) + 1)

/* The largest CQ. All its entries share one page; the record has its own. */
static struct fakernic_page_list deep_queue(Machine *m, Queue *q)
{
    const uint64_t page = mem_alloc(m, FAKERNIC_PAGE_SIZE);
    const uint64_t at[2] = { page, mem_alloc(m, FAKERNIC_PAGE_SIZE) };
    const uint64_t root = mem_alloc(m, FAKERNIC_PAGE_SIZE);
    uint64_t entries[FAKERNIC_PAGE_TABLE_ENTRIES];
    uint64_t leaves[2];

    for (unsigned i = 0; i < 2; i++) {
        leaves[i] = mem_alloc(m, FAKERNIC_PAGE_SIZE);
        for (unsigned j = 0; j < FAKERNIC_PAGE_TABLE_ENTRIES; j++) {
            entries[j] = LE64(at[i]);
        }
        qtest_memwrite(m->qts, leaves[i], entries, sizeof(entries));
    }
    for (unsigned i = 0; i < FAKERNIC_PAGE_TABLE_ENTRIES; i++) {
        entries[i] = LE64(leaves[i * FAKERNIC_PAGE_TABLE_ENTRIES >=
                                 DEEP_PAGES - 1]);
    }
    qtest_memwrite(m->qts, root, entries, sizeof(entries));
    *q = (Queue) {
        .address = page, .depth = 1U << FAKERNIC_CQ_LOG_DEPTH_MAX, .entry = 64,
    };
    return (struct fakernic_page_list) {
        .address = LE64(root), .page_count = LE32(DEEP_PAGES),
        .page_shift = FAKERNIC_PAGE_SHIFT, .levels = 2,
    };
}

static uint32_t max_cqe(Nic *n)
{
    struct fakernic_query_device_resp resp;

    assert_status(cmd(n, FAKERNIC_CMD_QUERY_DEVICE, NULL, 0, &resp,
                      sizeof(resp)), OK);
    return le32_to_cpu(resp.max_cqe);
}

/* Without the feature a CQ has the old limit of its depth. */
static void test_cq_deep_not_taken(Rig *r)
{
    struct fakernic_create_cq_req req = {
        .log_depth = FAKERNIC_QUEUE_LOG_DEPTH_MAX + 1,
    };
    Setup s;
    Queue cq;

    nic_reset(&r->n);
    nic_set_features(&r->n, nic_offered(&r->n) & ~FAKERNIC_FEATURE_DEEP_CQ);
    nic_set_cmdq(&r->n, r->n.cmd_sq, r->n.cmd_cq, 4);
    qtest_memset(r->m.qts, r->n.cmd_cq, 0, 16 * sizeof(struct fakernic_cmd));
    reg_write(&r->n, FAKERNIC_REG_CONTROL, FAKERNIC_CONTROL_ENABLE);
    setup(&r->n, &s);
    g_assert_cmpuint(max_cqe(&r->n), ==, 1 << FAKERNIC_QUEUE_LOG_DEPTH_MAX);
    req.eqn = LE32(s.eq.id);
    req.pages = deep_queue(&r->m, &cq);
    assert_refused(&r->n, CMD(&r->n, CREATE_CQ, req), BAD_PARAM,
                   fakernic_create_cq_req, log_depth);
}

/*
 * The device needs several turns to read the page list of the largest CQ. The
 * test creates such a CQ, makes it small, and large again. A list that is too
 * short, or has a bad entry near its end, is refused.
 */
static void test_cq_deep(Rig *r)
{
    const unsigned deep = FAKERNIC_CQ_LOG_DEPTH_MAX;
    struct fakernic_resize_cq_req resize;
    struct fakernic_create_cq_req req;
    struct fakernic_cqe cqe;
    Queue cq, small;
    uint32_t id;
    uint64_t root;
    Qp a;

    g_assert_cmpuint(max_cqe(&r->n), ==, 1 << deep);
    req = (struct fakernic_create_cq_req) {
        .pages = deep_queue(&r->m, &cq), .eqn = LE32(r->s.eq.id),
        .log_depth = deep + 1,
    };
    assert_refused(&r->n, CMD(&r->n, CREATE_CQ, req), BAD_PARAM,
                   fakernic_create_cq_req, log_depth);
    req.log_depth = deep;
    req.pages.page_count = LE32(DEEP_PAGES - 1);
    assert_status(CMD(&r->n, CREATE_CQ, req), BAD_PAGE_LIST);
    req.pages.page_count = LE32(DEEP_PAGES);
    root = le64_to_cpu(req.pages.address);
    qtest_writeq(r->m.qts, root + 100 * 8, qtest_readq(r->m.qts, root) + 8);
    assert_status(CMD(&r->n, CREATE_CQ, req), BAD_PAGE_LIST);
    qtest_writeq(r->m.qts, root + 100 * 8, qtest_readq(r->m.qts, root));
    id = cmd_create(&r->n, FAKERNIC_CMD_CREATE_CQ, &req, sizeof(req));
    cq.id = id;
    qp_create(&r->n, &a, FAKERNIC_QP_RC, r->s.pd, &cq, 0);
    rc_connect(&r->n, a.qpn, a.qpn, own_gid, nic_mac);
    complete_nops(&r->n, &a, 3);
    resize = (struct fakernic_resize_cq_req) {
        .pages = queue_alloc(&r->n, &small, 2, 6), .cqn = LE32(id),
        .log_depth = 2,
    };
    assert_status(CMD(&r->n, RESIZE_CQ, resize), OK);
    small.id = id;
    for (unsigned i = 0; i < 3; i++) {
        cq_expect(&r->n, &small, &cqe, FAKERNIC_CQE_NOP, FAKERNIC_WC_SUCCESS);
    }
    queue_record(&r->n, &small, small.index);
    resize.pages = deep_queue(&r->m, &cq);
    resize.log_depth = deep;
    assert_status(CMD(&r->n, RESIZE_CQ, resize), OK);
    complete_nops(&r->n, &a, 1);
    cq_expect(&r->n, &cq, &cqe, FAKERNIC_CQE_NOP, FAKERNIC_WC_SUCCESS);
    g_assert_cmpuint(le32_to_cpu(cqe.wqe_index), ==, 3);
}

/* ---- doorbells ------------------------------------------------------- */

static void test_doorbell_rules(Rig *r)
{
    Qp a, b;
    struct fakernic_cqe cqe;
    uint32_t uar, other;
    uint64_t page, word;
    unsigned dropped = 0;
    Wqe nop = { .hdr = { .opcode = FAKERNIC_SQ_NOP, .bb_count = 1,
                         .flags = FAKERNIC_SQ_SIGNALED } };

    uar = cmd_create(&r->n, FAKERNIC_CMD_ALLOC_UAR, NULL, 0);
    other = cmd_create(&r->n, FAKERNIC_CMD_ALLOC_UAR, NULL, 0);
    qp_create(&r->n, &a, FAKERNIC_QP_RC, r->s.pd, &r->s.cq, uar);
    qp_create(&r->n, &b, FAKERNIC_QP_RC, r->s.pd, &r->s.cq, uar);
    rc_connect(&r->n, a.qpn, b.qpn, own_gid, nic_mac);
    sq_put(&r->n, &a, &nop, sizeof(nop));
    word = doorbell(a.qpn, 1);
    page = r->n.uar.addr + uar * FAKERNIC_PAGE_SIZE;

    ring(&r->n, other, FAKERNIC_DOORBELL_SQ, word);
    ring(&r->n, 0, FAKERNIC_DOORBELL_SQ, word);
    ring(&r->n, other + 1, FAKERNIC_DOORBELL_SQ, word);
    ring(&r->n, 1024, FAKERNIC_DOORBELL_SQ, word);
    ring(&r->n, uar, 0x18, word);
    ring(&r->n, uar, 0xff8, word);
    ring(&r->n, uar, FAKERNIC_DOORBELL_SQ, word | 1ull << 58);
    ring(&r->n, uar, FAKERNIC_DOORBELL_SQ, word | FAKERNIC_DOORBELL_ARM);
    ring(&r->n, uar, FAKERNIC_DOORBELL_SQ, doorbell(0xffffff, 1));
    ring(&r->n, uar, FAKERNIC_DOORBELL_CQ_ARM, doorbell(r->s.cq.id, 0));
    ring(&r->n, uar, FAKERNIC_DOORBELL_EQ, doorbell(r->s.eq.id, 0));
    dropped += 11;
    qtest_writel(r->m.qts, page, 1);
    qtest_writel(r->m.qts, page + 4, a.qpn);
    qtest_writew(r->m.qts, page, 1);
    qtest_writeb(r->m.qts, page, 1);
    dropped += 4;
    g_assert_cmpuint(nic_stat(&r->n, FAKERNIC_STAT_DOORBELL_DROPPED), ==,
                     dropped);
    g_assert_false(cq_poll(&r->n, &r->s.cq, &cqe));
    g_assert_cmphex(qtest_readq(r->m.qts, page), ==, 0);

    sq_ring(&r->n, &a);
    cqe = rig_cqe(r, FAKERNIC_CQE_NOP, FAKERNIC_WC_SUCCESS);
    /* A doorbell with an older index is ignored. */
    ring(&r->n, uar, FAKERNIC_DOORBELL_SQ, doorbell(a.qpn, 0));
    g_assert_cmpuint(qp_state(&r->n, a.qpn), ==, FAKERNIC_QPS_RTS);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DEALLOC_UAR, uar), BUSY);
}

const FakernicTest fakernic_queues_tests[] = {
    { "cq/event", PAIR(test_event_and_interrupt) },
    { "cq/solicited", PAIR(test_event_solicited) },
    { "cq/moderation", PAIR(test_cq_moderation) },
    { "cq/moderation-changes", PAIR(test_cq_moderation_changes) },
    { "cq/overrun", READY(test_cq_overrun) },
    { "cq/overrun_in_reset", READY(test_cq_overrun_in_reset) },
    { "cq/resize", READY(test_cq_resize) },
    { "cq/deep", READY(test_cq_deep) },
    { "cq/deep_not_taken", ENABLED(test_cq_deep_not_taken) },
    { "eq/full", READY(test_eq_full) },
    { "msix/masked", ENABLED(test_msix_masked) },
    { "doorbell/rules", READY(test_doorbell_rules) },
    { NULL }
};
