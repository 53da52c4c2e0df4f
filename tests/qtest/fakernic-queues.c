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
    main_loop_turns(&r->m, 50);
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

/* ---- the event index --------------------------------------------------- */

#define AWAKE_US 100
#define AWAKE_OPTION ",sq-awake-us=" stringify(AWAKE_US)

/* A QP whose peer does not answer. */
static const uint8_t absent_mac[6] = { 2, 0, 0, 0, 0, 9 };
static const uint8_t absent_gid[16] = { [10] = 0xff, 0xff, 10, 0, 0, 9 };

static void rig_awake_with(Rig *r, const char *more)
{
    rig_start(r, more);
    nic_bringup(&r->n);
    setup(&r->n, &r->s);
    qp_create(&r->n, &r->a, FAKERNIC_QP_RC, r->s.pd, &r->s.cq, 0);
    rc_connect(&r->n, r->a.qpn, 77, absent_gid, absent_mac);
}

static void rig_awake(Rig *r)
{
    rig_awake_with(r, AWAKE_OPTION);
}

static uint32_t event_index(Rig *r)
{
    const Queue *sq = &r->a.sq;

    return qtest_readl(r->m.qts, sq->address + sq->depth * sq->entry +
                       offsetof(struct fakernic_queue_record, device_index));
}

/* Posts a WRITE without a doorbell. */
static void post_quietly(Rig *r)
{
    Wqe wqe = wqe_rdma(&r->s, FAKERNIC_SQ_RDMA_WRITE, 0, 4096, 8);

    sq_put(&r->n, &r->a, &wqe, sizeof(wqe));
}

/* Rings as the data sheet says, after the blocks from 'last'. True: it rang. */
static bool ring_by_rule(Rig *r, uint32_t last)
{
    if (!FAKERNIC_MUST_RING(event_index(r), last, r->a.sq.index)) {
        return false;
    }
    sq_ring(&r->n, &r->a);
    return true;
}

/* Posts a WRITE as the data sheet says. True: it rang. */
static bool post_by_rule(Rig *r)
{
    const uint32_t last = r->a.sq.index;

    post_quietly(r);
    return ring_by_rule(r, last);
}

/* The same, with a WQE of three blocks. */
static bool post_large_by_rule(Rig *r)
{
    const uint32_t last = r->a.sq.index;
    Wqe wqe[3] = { wqe_rdma(&r->s, FAKERNIC_SQ_RDMA_WRITE, 0, 4096, 8) };

    wqe->hdr.bb_count = ARRAY_SIZE(wqe);
    sq_put(&r->n, &r->a, wqe, sizeof(wqe));
    return ring_by_rule(r, last);
}

/* The fourth doorbell finds three WRITEs in flight: the queue stays awake. */
static void make_busy(Rig *r)
{
    for (unsigned i = 1; i <= 4; i++) {
        g_assert_true(post_by_rule(r));
        g_assert_cmpuint(event_index(r), ==, MIN(i, 3));
    }
}

static void time_passes(Rig *r)
{
    qtest_clock_step(r->m.qts, AWAKE_US * 1000);
}

/* After a turn, which the command gives. */
static uint64_t records_found(Rig *r)
{
    assert_status(cmd(&r->n, FAKERNIC_CMD_NOP, NULL, 0, NULL, 0), OK);
    return nic_stat(&r->n, FAKERNIC_STAT_SQ_RECORDS);
}

static void test_event_index_idle(Rig *r)
{
    for (unsigned i = 1; i <= 40; i++) {
        const uint32_t last = r->a.sq.index;

        g_assert_true(FAKERNIC_MUST_RING(event_index(r), last, last + 1));
        complete_nops(&r->n, &r->a, 1);
        rig_cqe(r, FAKERNIC_CQE_NOP, FAKERNIC_WC_SUCCESS);
        queue_record(&r->n, &r->s.cq, r->s.cq.index);
        g_assert_cmpuint(event_index(r), ==, i);
    }
    g_assert_cmpuint(records_found(r), ==, 0);
}

static void test_event_index_busy(Rig *r)
{
    make_busy(r);
    for (unsigned i = 0; i < 16; i++) {
        g_assert_false(post_by_rule(r));
    }
    /* One turn finds all of them. */
    g_assert_cmpuint(records_found(r), ==, 1);
    g_assert_false(post_by_rule(r));
    g_assert_cmpuint(records_found(r), ==, 2);
    /* Nothing came since: the queue sleeps, and the next post rings. */
    time_passes(r);
    g_assert_cmpuint(event_index(r), ==, 21);
    g_assert_true(post_by_rule(r));
}

/* Nothing but the timer reads the record, and finds a post before it sleeps. */
static void test_event_index_timer(Rig *r)
{
    make_busy(r);
    g_assert_false(post_by_rule(r));
    time_passes(r);
    g_assert_cmpuint(event_index(r), ==, 4);
    time_passes(r);
    g_assert_cmpuint(event_index(r), ==, 5);
    g_assert_cmpuint(records_found(r), ==, 1);
}

static void test_event_index_asleep(Rig *r)
{
    make_busy(r);
    time_passes(r);
    g_assert_cmpuint(event_index(r), ==, 4);
    /* A host that breaks the rule waits. */
    post_quietly(r);
    for (unsigned i = 0; i < 20; i++) {
        time_passes(r);
    }
    g_assert_cmpuint(records_found(r), ==, 0);
    g_assert_cmpuint(event_index(r), ==, 4);
    sq_ring(&r->n, &r->a);
    post_quietly(r);
    g_assert_cmpuint(records_found(r), ==, 1);
}

/* Old and impossible indices in the record of a queue that is awake. */
static void test_event_index_hostile(Rig *r)
{
    make_busy(r);
    queue_record(&r->n, &r->a.sq, 2);
    g_assert_cmpuint(records_found(r), ==, 0);
    queue_record(&r->n, &r->a.sq, 4 + 0x80000000u);
    g_assert_cmpuint(records_found(r), ==, 0);
    g_assert_cmpuint(qp_state(&r->n, r->a.qpn), ==, FAKERNIC_QPS_RTS);
    queue_record(&r->n, &r->a.sq, 4 + 33);
    g_assert_cmpuint(records_found(r), ==, 1);
    g_assert_cmpuint(eq_expect(&r->n, &r->s.async, FAKERNIC_EVENT_QP_FATAL), ==,
                     r->a.qpn);
    g_assert_cmpuint(qp_state(&r->n, r->a.qpn), ==, FAKERNIC_QPS_ERR);
}

/* Requests that a fault rule keeps from being fetched make the queue busy. */
static void test_event_index_backlog(Rig *r)
{
    fault(&r->m, "at=send-wqe times=0 delay-ns=1000000000 do=delay");
    make_busy(r);
    g_assert_false(post_by_rule(r));
    g_assert_cmpuint(records_found(r), ==, 1);
}

static void test_event_index_reset(Rig *r)
{
    make_busy(r);
    assert_status(qp_to(&r->n, r->a.qpn, FAKERNIC_QPS_RESET), OK);
    queue_record(&r->n, &r->a.sq, 20);
    for (unsigned i = 0; i < 3; i++) {
        time_passes(r);
    }
    g_assert_cmpuint(records_found(r), ==, 0);
    g_assert_cmpuint(event_index(r), ==, 3);
}

static void test_event_index_destroyed(Rig *r)
{
    make_busy(r);
    post_quietly(r);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_QP, r->a.qpn), OK);
    time_passes(r);
    g_assert_cmpuint(event_index(r), ==, 3);
    /* An awake queue needed no doorbell. */
    g_assert_cmpuint(nic_stat(&r->n, FAKERNIC_STAT_SQ_LOST), ==, 0);
}

/* A queue that is awake when the device is reset. */
static void test_event_index_device_reset(Rig *r)
{
    make_busy(r);
    nic_reset(&r->n);
    queue_record(&r->n, &r->a.sq, 20);
    time_passes(r);
    nic_bringup(&r->n);
    time_passes(r);
    g_assert_cmpuint(records_found(r), ==, 0);
    g_assert_cmpuint(event_index(r), ==, 3);
    g_assert_cmpuint(nic_stat(&r->n, FAKERNIC_STAT_DMA_ERRORS), ==, 0);
}

/* The host posts to a sleeping queue without the doorbell that wakes it. */
static void lose_doorbell(Rig *r)
{
    g_assert_true(post_by_rule(r));
    g_assert_cmpuint(event_index(r), ==, 1);
    post_quietly(r);
}

static void test_event_index_lost(Rig *r)
{
    lose_doorbell(r);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_QP, r->a.qpn), OK);
    g_assert_cmpuint(nic_stat(&r->n, FAKERNIC_STAT_SQ_LOST), ==, 1);
}

/* A driver resets a QP before it destroys it. */
static void test_event_index_lost_reset(Rig *r)
{
    lose_doorbell(r);
    assert_status(qp_to(&r->n, r->a.qpn, FAKERNIC_QPS_RESET), OK);
    g_assert_cmpuint(nic_stat(&r->n, FAKERNIC_STAT_SQ_LOST), ==, 1);
    queue_record(&r->n, &r->a.sq, 0);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_QP, r->a.qpn), OK);
    g_assert_cmpuint(nic_stat(&r->n, FAKERNIC_STAT_SQ_LOST), ==, 1);
}

/*
 * The host might not ring again for a queue whose record cannot be read or
 * written. So the queue fails.
 */
static void expect_broken(Rig *r)
{
    g_assert_cmpuint(eq_expect(&r->n, &r->s.async, FAKERNIC_EVENT_QP_FATAL), ==,
                     r->a.qpn);
    g_assert_cmpuint(qp_state(&r->n, r->a.qpn), ==, FAKERNIC_QPS_ERR);
    g_assert_cmpuint(nic_stat(&r->n, FAKERNIC_STAT_DMA_ERRORS), ==, 1);
}

static void test_event_index_unreadable(Rig *r)
{
    make_busy(r);
    fault(&r->m, "at=dma-read why=record do=fail");
    g_assert_cmpuint(records_found(r), ==, 0);
    expect_broken(r);
}

static void test_event_index_unwritable(Rig *r)
{
    make_busy(r);
    fault(&r->m, "at=dma-write why=record do=fail");
    time_passes(r);
    g_assert_cmpuint(event_index(r), ==, 3);
    expect_broken(r);
}

/* A frozen device finds the post when it thaws. */
static void test_event_index_frozen(Rig *r)
{
    make_busy(r);
    fault(&r->m, "id=cold at=device do=freeze");
    main_loop_turns(&r->m, 50);
    post_quietly(r);
    time_passes(r);
    g_assert_cmpuint(event_index(r), ==, 3);
    fault(&r->m, "remove=cold");
    g_assert_cmpuint(records_found(r), ==, 1);
}

static void test_event_index_suspended(Rig *r)
{
    make_busy(r);
    set_power_state(&r->n, 3);
    post_quietly(r);
    time_passes(r);
    g_assert_cmpuint(event_index(r), ==, 3);
    set_power_state(&r->n, 0);
    g_assert_cmpuint(records_found(r), ==, 1);
}

static void make_another_busy(Rig *r)
{
    qp_create(&r->n, &r->a, FAKERNIC_QP_RC, r->s.pd, &r->s.cq, 0);
    rc_connect(&r->n, r->a.qpn, 77, absent_gid, absent_mac);
    make_busy(r);
}

/* A turn reads eight records. The next turn reads those of other queues. */
static void test_event_index_many(Rig *r)
{
    Qp qps[20];

    for (unsigned i = 0; i < ARRAY_SIZE(qps); i++) {
        make_another_busy(r);
        qps[i] = r->a;
    }
    /* The first eight queues get nothing. They do not delay the others. */
    for (unsigned i = 8; i < ARRAY_SIZE(qps); i++) {
        r->a = qps[i];
        g_assert_false(post_by_rule(r));
    }
    for (unsigned turn = 0; turn < 3; turn++) {
        records_found(r);
    }
    g_assert_cmpuint(records_found(r), ==, ARRAY_SIZE(qps) - 8);
}

/* Queues that get a post before each turn do not hide one that got none. */
static void test_event_index_fair(Rig *r)
{
    Qp qps[40];

    for (unsigned i = 0; i < ARRAY_SIZE(qps); i++) {
        make_another_busy(r);
        qps[i] = r->a;
    }
    for (unsigned turn = 0; turn < 6; turn++) {
        if (turn == 3) {
            /* An index that ends the QP shows when it is found. */
            queue_record(&r->n, &qps[0].sq, 4 + 33);
        }
        for (unsigned i = 1; i < ARRAY_SIZE(qps); i++) {
            r->a = qps[i];
            g_assert_false(post_by_rule(r));
            qps[i] = r->a;
        }
        records_found(r);
    }
    g_assert_cmpuint(qp_state(&r->n, qps[0].qpn), ==, FAKERNIC_QPS_ERR);
}

/* More queues are awake than doorbells keep awake: the others got a post as
 * they went to sleep. A turn reads the records of some of them. */
static void test_event_index_crowd(Rig *r)
{
    Qp qps[70];

    for (unsigned i = 0; i < ARRAY_SIZE(qps); i++) {
        qp_create(&r->n, &r->a, FAKERNIC_QP_RC, r->s.pd, &r->s.cq, 0);
        rc_connect(&r->n, r->a.qpn, 77, absent_gid, absent_mac);
        for (unsigned post = 0; post < 3; post++) {
            g_assert_true(post_by_rule(r));
        }
        post_quietly(r);
        post_quietly(r);
        ring(&r->n, 0, FAKERNIC_DOORBELL_SQ, doorbell(r->a.qpn, 4));
        qps[i] = r->a;
    }
    for (unsigned turn = 0; turn < ARRAY_SIZE(qps) / 8; turn++) {
        records_found(r);
    }
    g_assert_cmpuint(records_found(r), ==, ARRAY_SIZE(qps));
    for (unsigned i = 0; i < ARRAY_SIZE(qps); i++) {
        r->a = qps[i];
        g_assert_false(post_by_rule(r));
        qps[i] = r->a;
    }
    for (unsigned turn = 0; turn < ARRAY_SIZE(qps) / 8; turn++) {
        records_found(r);
    }
    g_assert_cmpuint(records_found(r), ==, 2 * ARRAY_SIZE(qps));
    time_passes(r);
    main_loop_turns(&r->m, 20);
    for (unsigned i = 0; i < ARRAY_SIZE(qps); i++) {
        r->a = qps[i];
        g_assert_cmpuint(event_index(r), ==, 6);
    }
}

static void rig_awake_pair(Rig *r)
{
    rig_start(r, AWAKE_OPTION);
    nic_bringup(&r->n);
    setup_pair(&r->n, &r->s, &r->a, &r->b);
}

/* Makes the queue awake, with a post that it found while it was busy. All
 * requests are complete. */
static void make_awake(Rig *r)
{
    struct fakernic_cqe cqe;

    fault(&r->m, "at=tx opcode=rc-write-only times=0 delay-ns=20000 do=delay");
    make_busy(r);
    g_assert_false(post_by_rule(r));
    g_assert_cmpuint(records_found(r), ==, 1);
    qtest_clock_step(r->m.qts, 30000);
    for (unsigned i = 0; i < 5; i++) {
        g_assert_true(cq_poll(&r->n, &r->s.cq, &cqe));
        g_assert_cmpuint(cqe.status, ==, FAKERNIC_WC_SUCCESS);
    }
    g_assert_cmpuint(event_index(r), ==, 3);
}

/* A host that waits for each request again: its queue sleeps at once. */
static void lone_sleeps(Rig *r, bool (*post)(Rig *), unsigned blocks)
{
    make_awake(r);
    g_assert_false(post(r));
    g_assert_cmpuint(records_found(r), ==, 2);
    g_assert_cmpuint(event_index(r), ==, 5 + blocks);
    g_assert_true(post(r));
    g_assert_cmpuint(event_index(r), ==, 5 + 2 * blocks);
}

static void test_event_index_lone(Rig *r)
{
    lone_sleeps(r, post_by_rule, 1);
}

static void test_event_index_lone_large(Rig *r)
{
    lone_sleeps(r, post_large_by_rule, 3);
}

/* A queue also sleeps at once if only the timer finds the request. */
static void test_event_index_lone_timer(Rig *r)
{
    make_awake(r);
    g_assert_false(post_large_by_rule(r));
    time_passes(r);
    g_assert_cmpuint(event_index(r), ==, 8);
    g_assert_true(post_by_rule(r));
}

/* After a stream one doorbell is enough to keep the queue awake again, until
 * the host waits for a request. */
static void test_event_index_stream_again(Rig *r)
{
    make_awake(r);
    time_passes(r);
    g_assert_cmpuint(event_index(r), ==, 5);
    g_assert_true(post_by_rule(r));
    g_assert_cmpuint(event_index(r), ==, 5);
    qtest_clock_step(r->m.qts, 30000);
    g_assert_false(post_by_rule(r));
    g_assert_cmpuint(records_found(r), ==, 2);
    g_assert_cmpuint(event_index(r), ==, 7);
    g_assert_true(post_by_rule(r));
    g_assert_cmpuint(event_index(r), ==, 8);
}

/* If nothing comes after the doorbell that kept the queue awake, the next
 * doorbell does not keep it awake. */
static void test_event_index_stream_ended(Rig *r)
{
    make_awake(r);
    time_passes(r);
    g_assert_true(post_by_rule(r));
    g_assert_cmpuint(event_index(r), ==, 5);
    time_passes(r);
    g_assert_cmpuint(event_index(r), ==, 6);
    g_assert_true(post_by_rule(r));
    g_assert_cmpuint(event_index(r), ==, 7);
}

/* Off, or masked: the device leaves the record alone. */
static void test_event_index_masked(void)
{
    static const char *const options[] = {
        ",sq-awake-us=0", AWAKE_OPTION ",x-feature-mask=0xfffffffeffffffff",
    };

    for (unsigned i = 0; i < ARRAY_SIZE(options); i++) {
        Rig r = { 0 };

        rig_awake_with(&r, options[i]);
        g_assert_cmphex(r.n.features & FAKERNIC_FEATURE_SHADOW_DOORBELL, ==, 0);
        for (unsigned j = 0; j < 6; j++) {
            post_quietly(&r);
            sq_ring(&r.n, &r.a);
        }
        post_quietly(&r);
        time_passes(&r);
        g_assert_cmpuint(event_index(&r), ==, 0);
        g_assert_cmpuint(records_found(&r), ==, 0);
        machine_stop(&r.m);
    }
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
    { "event-index/idle-sleeps", ON(rig_awake, test_event_index_idle) },
    { "event-index/busy-needs-none", ON(rig_awake, test_event_index_busy) },
    { "event-index/timer-reads", ON(rig_awake, test_event_index_timer) },
    { "event-index/asleep-waits", ON(rig_awake, test_event_index_asleep) },
    { "event-index/hostile", ON(rig_awake, test_event_index_hostile) },
    { "event-index/reset-ends", ON(rig_awake, test_event_index_reset) },
    { "event-index/destroy-ends", ON(rig_awake, test_event_index_destroyed) },
    { "event-index/device-reset-ends",
      ON(rig_awake, test_event_index_device_reset) },
    { "event-index/lost-is-counted", ON(rig_awake, test_event_index_lost) },
    { "event-index/lost-at-reset-is-counted",
      ON(rig_awake, test_event_index_lost_reset) },
    { "event-index/unreadable-fails",
      ON(rig_awake, test_event_index_unreadable) },
    { "event-index/unwritable-fails",
      ON(rig_awake, test_event_index_unwritable) },
    { "event-index/frozen", ON(rig_awake, test_event_index_frozen) },
    { "event-index/suspended", ON(rig_awake, test_event_index_suspended) },
    { "event-index/lone-sleeps", ON(rig_awake_pair, test_event_index_lone) },
    { "event-index/lone-large-sleeps",
      ON(rig_awake_pair, test_event_index_lone_large) },
    { "event-index/lone-timer-sleeps",
      ON(rig_awake_pair, test_event_index_lone_timer) },
    { "event-index/stream-again-awake",
      ON(rig_awake_pair, test_event_index_stream_again) },
    { "event-index/stream-ended-sleeps",
      ON(rig_awake_pair, test_event_index_stream_ended) },
    { "event-index/backlog-keeps-awake",
      ON(rig_awake, test_event_index_backlog) },
    { "event-index/many-queues", ON(rig_awake, test_event_index_many) },
    { "event-index/fair", ON(rig_awake, test_event_index_fair) },
    { "event-index/crowd", ON(rig_awake, test_event_index_crowd) },
    { "event-index/masked", test_event_index_masked },
    { NULL }
};
