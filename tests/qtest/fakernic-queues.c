/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Completion and event queues, interrupts, doorbells.
 */
#include "qemu/osdep.h"
#include <poll.h>
#include "fakernic-setup.h"

/* ---- completion queues, events, interrupts --------------------------- */

static void test_event_and_interrupt(void)
{
    Machine m;
    Nic n;
    Setup s;
    Qp a, b;
    struct fakernic_eqe eqe;
    struct fakernic_cqe cqe;

    start_enabled(&m, &n);
    setup_pair(&n, &s, &a, &b);
    /* Not armed: a completion, no event. */
    complete_nops(&n, &a, 1);
    cq_expect(&n, &s.cq, &cqe, FAKERNIC_CQE_NOP, FAKERNIC_WC_SUCCESS);
    g_assert_false(eq_poll(&n, &s.eq, &eqe));
    g_assert_false(msix_fired(&n, 1));
    /* Armed: one event for two completions, one interrupt. */
    cq_arm(&n, &s.cq, 0, false);
    g_assert_false(eq_poll(&n, &s.eq, &eqe));
    complete_nops(&n, &a, 2);
    g_assert_cmpuint(eq_expect(&n, &s.eq, FAKERNIC_EVENT_COMPLETION), ==,
                     s.cq.id);
    g_assert_false(eq_poll(&n, &s.eq, &eqe));
    g_assert_true(msix_fired(&n, 1));
    /* Armed behind the device's back: at once. The EQ itself is not armed. */
    cq_arm(&n, &s.cq, 0, false);
    g_assert_cmpuint(eq_expect(&n, &s.eq, FAKERNIC_EVENT_COMPLETION), ==,
                     s.cq.id);
    g_assert_false(msix_fired(&n, 1));
    s.eq.index--;
    eq_ring(&n, &s.eq, true);       /* something lies beyond: at once */
    g_assert_true(msix_fired(&n, 1));
    s.eq.index++;
    eq_ring(&n, &s.eq, true);
    g_assert_false(msix_fired(&n, 1));
    machine_stop(&m);
}

static void test_event_solicited(void)
{
    Machine m;
    Nic n;
    Setup s;
    Qp a, b;
    struct fakernic_eqe eqe;
    struct fakernic_cqe cqe;
    Wqe wqe;

    start_enabled(&m, &n);
    setup_pair(&n, &s, &a, &b);
    cq_arm(&n, &s.cq, 0, true);
    complete_nops(&n, &a, 1);
    cq_expect(&n, &s.cq, &cqe, FAKERNIC_CQE_NOP, FAKERNIC_WC_SUCCESS);
    g_assert_false(eq_poll(&n, &s.eq, &eqe));
    rq_post(&n, &b.rq, 1, s.data + 4096, 4096, s.key);
    wqe = wqe_send(&s, 0, 8);
    wqe.hdr.flags |= FAKERNIC_SQ_SOLICITED;
    sq_put(&n, &a, &wqe, sizeof(wqe));
    sq_ring(&n, &a);
    g_assert_cmpuint(eq_expect(&n, &s.eq, FAKERNIC_EVENT_COMPLETION), ==,
                     s.cq.id);
    /* Solicited entries from ci on count when arming; those before do not. */
    cq_expect(&n, &s.cq, &cqe, FAKERNIC_CQE_RECV, FAKERNIC_WC_SUCCESS);
    cq_arm(&n, &s.cq, 0, true);
    g_assert_false(eq_poll(&n, &s.eq, &eqe));
    s.cq.index--;
    cq_arm(&n, &s.cq, 0, true);
    g_assert_true(eq_poll(&n, &s.eq, &eqe));
    machine_stop(&m);
}

static void test_msix_masked(void)
{
    Machine m;
    Nic n;

    start_enabled(&m, &n);
    msix_mask(&n, 0, true);
    assert_status(cmd(&n, FAKERNIC_CMD_NOP, NULL, 0, NULL, 0), OK);
    g_assert_false(msix_fired(&n, 0));
    g_assert_true(qpci_msix_pending(n.pci, 0));
    msix_mask(&n, 0, false);
    g_assert_true(msix_fired(&n, 0));
    g_assert_false(qpci_msix_pending(n.pci, 0));
    machine_stop(&m);
}

/* Many objects raise events, the EQ holds 16: none is lost. */
static void test_eq_full(void)
{
    Machine m;
    Nic n;
    Setup s;
    Qp qp[20];
    struct fakernic_eqe eqe;
    bool seen[20] = { false };
    unsigned count = 0;

    start_enabled(&m, &n);
    setup(&n, &s);
    for (unsigned i = 0; i < 20; i++) {
        qp_create(&n, &qp[i], FAKERNIC_QP_RC, s.pd, &s.cq, 0);
        rc_connect(&n, qp[i].qpn, qp[i].qpn, own_gid, nic_mac);
        ring(&n, 0, FAKERNIC_DOORBELL_SQ, doorbell(qp[i].qpn, 1000));
    }
    g_assert_cmpuint(nic_stat(&n, FAKERNIC_STAT_EQ_DELAYED), >=, 4);
    while (eq_poll(&n, &s.async, &eqe)) {
        count++;
        g_assert_cmpuint(eqe.type, ==, FAKERNIC_EVENT_QP_FATAL);
        g_assert_cmpuint(le32_to_cpu(eqe.data), ==, FAKERNIC_VENDOR_SQ_OVERRUN);
        for (unsigned i = 0; i < 20; i++) {
            seen[i] |= le32_to_cpu(eqe.id) == qp[i].qpn;
        }
        if (count % 5 == 0) {
            eq_ring(&n, &s.async, true);
        }
    }
    g_assert_cmpuint(count, ==, 20);
    for (unsigned i = 0; i < 20; i++) {
        g_assert_true(seen[i]);
    }
    /* An index the queue cannot have. */
    s.async.index += 100;
    eq_ring(&n, &s.async, false);
    g_assert_cmpuint(nic_stat(&n, FAKERNIC_STAT_DOORBELL_DROPPED), ==, 1);
    machine_stop(&m);
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

static void test_cq_moderation(void)
{
    Machine m;
    Nic n;
    Setup s;
    Qp a, b;
    struct fakernic_eqe eqe;
    struct fakernic_modify_cq_req bad = { .cqn = LE32(99) };

    start_enabled(&m, &n);
    setup_pair(&n, &s, &a, &b);
    assert_refused(&n, CMD(&n, MODIFY_CQ, bad), BAD_ID, fakernic_modify_cq_req,
                   cqn);
    /* By count alone: however long it takes. */
    cq_moderate(&n, &s.cq, 3, 0);
    cq_drain_arm(&n, &s.cq, false);
    complete_nops(&n, &a, 2);
    qtest_clock_step(m.qts, 1000000000);
    g_assert_false(eq_poll(&n, &s.eq, &eqe));
    complete_nops(&n, &a, 1);
    g_assert_cmpuint(eq_expect(&n, &s.eq, FAKERNIC_EVENT_COMPLETION), ==,
                     s.cq.id);
    /* By time: 50 us after the first entry. */
    cq_moderate(&n, &s.cq, 3, 50);
    cq_drain_arm(&n, &s.cq, false);
    qtest_clock_step(m.qts, 1000000);
    complete_nops(&n, &a, 1);
    qtest_clock_step(m.qts, 30000);
    complete_nops(&n, &a, 1);
    g_assert_false(eq_poll(&n, &s.eq, &eqe));
    qtest_clock_step(m.qts, 30000);
    eq_expect(&n, &s.eq, FAKERNIC_EVENT_COMPLETION);
    /* One event, not another at the count. */
    complete_nops(&n, &a, 3);
    qtest_clock_step(m.qts, 1000000);
    g_assert_false(eq_poll(&n, &s.eq, &eqe));
    /* Armed behind entries not consumed: at once. */
    cq_arm(&n, &s.cq, 0, false);
    eq_expect(&n, &s.eq, FAKERNIC_EVENT_COMPLETION);
    /* An entry that does not count holds nothing back and starts nothing. */
    cq_drain_arm(&n, &s.cq, true);
    complete_nops(&n, &a, 5);
    qtest_clock_step(m.qts, 1000000);
    g_assert_false(eq_poll(&n, &s.eq, &eqe));
    machine_stop(&m);
}

/* An event held back is not lost: new values, an error, the CQ's end. */
static void test_cq_moderation_changes(void)
{
    Machine m;
    Nic n;
    Setup s;
    Qp a, b;
    Queue small;
    struct fakernic_eqe eqe;

    start_enabled(&m, &n);
    setup_pair(&n, &s, &a, &b);
    cq_moderate(&n, &s.cq, 100, 0);
    cq_drain_arm(&n, &s.cq, false);
    complete_nops(&n, &a, 2);
    cq_moderate(&n, &s.cq, 5, 0);
    g_assert_false(eq_poll(&n, &s.eq, &eqe));
    cq_moderate(&n, &s.cq, 2, 0);
    eq_expect(&n, &s.eq, FAKERNIC_EVENT_COMPLETION);
    cq_drain_arm(&n, &s.cq, false);
    complete_nops(&n, &a, 1);
    cq_moderate(&n, &s.cq, 5, 10);
    g_assert_false(eq_poll(&n, &s.eq, &eqe));
    qtest_clock_step(m.qts, 20000);
    eq_expect(&n, &s.eq, FAKERNIC_EVENT_COMPLETION);
    /* A CQ of two entries never gets to its three. */
    cq_create(&n, &small, 1, &s.eq, 0, 0);
    qp_create(&n, &a, FAKERNIC_QP_RC, s.pd, &small, 0);
    rc_connect(&n, a.qpn, b.qpn, own_gid, nic_mac);
    cq_moderate(&n, &small, 3, 0);
    cq_drain_arm(&n, &small, false);
    complete_nops(&n, &a, 2);
    g_assert_false(eq_poll(&n, &s.eq, &eqe));
    complete_nops(&n, &a, 1);
    g_assert_cmpuint(eq_expect(&n, &s.eq, FAKERNIC_EVENT_COMPLETION), ==,
                     small.id);
    g_assert_cmpuint(eq_expect(&n, &s.async, FAKERNIC_EVENT_CQ_ERROR), ==,
                     small.id);
    /* Destroyed with an event pending in the future. */
    cq_create(&n, &small, 4, &s.eq, 0, 0);
    qp_create(&n, &a, FAKERNIC_QP_RC, s.pd, &small, 0);
    rc_connect(&n, a.qpn, b.qpn, own_gid, nic_mac);
    cq_moderate(&n, &small, 9, 100);
    cq_drain_arm(&n, &small, false);
    complete_nops(&n, &a, 1);
    assert_status(cmd_id(&n, FAKERNIC_CMD_DESTROY_QP, a.qpn), OK);
    assert_status(cmd_id(&n, FAKERNIC_CMD_DESTROY_CQ, small.id), OK);
    qtest_clock_step(m.qts, 1000000);
    g_assert_false(eq_poll(&n, &s.eq, &eqe));
    machine_stop(&m);
}

static void test_cq_overrun(void)
{
    Machine m;
    Nic n;
    Setup s;
    Queue small;
    Qp a;
    struct fakernic_cqe cqe;

    start_enabled(&m, &n);
    setup(&n, &s);
    cq_create(&n, &small, 2, &s.eq, 0, 0);
    qp_create(&n, &a, FAKERNIC_QP_RC, s.pd, &small, 0);
    rc_connect(&n, a.qpn, a.qpn, own_gid, nic_mac);
    /* Consumed in time: the device looks at the record. */
    complete_nops(&n, &a, 4);
    for (unsigned i = 0; i < 4; i++) {
        cq_expect(&n, &small, &cqe, FAKERNIC_CQE_NOP, FAKERNIC_WC_SUCCESS);
    }
    queue_record(&n, &small, small.index);
    complete_nops(&n, &a, 4);
    g_assert_cmpuint(qp_state(&n, a.qpn), ==, FAKERNIC_QPS_RTS);
    complete_nops(&n, &a, 1);
    g_assert_cmpuint(eq_expect(&n, &s.async, FAKERNIC_EVENT_CQ_ERROR), ==,
                     small.id);
    g_assert_cmpuint(eq_expect(&n, &s.async, FAKERNIC_EVENT_QP_FATAL), ==,
                     a.qpn);
    g_assert_cmpuint(qp_state(&n, a.qpn), ==, FAKERNIC_QPS_ERR);
    g_assert_cmpuint(nic_stat(&n, FAKERNIC_STAT_CQ_OVERRUNS), ==, 1);
    /* The four that were written are intact; a fifth is not. */
    for (unsigned i = 0; i < 4; i++) {
        g_assert_true(cq_poll(&n, &small, &cqe));
        g_assert_cmpuint(le32_to_cpu(cqe.wqe_index), ==, 4 + i);
    }
    g_assert_false(cq_poll(&n, &small, &cqe));
    assert_status(cmd_id(&n, FAKERNIC_CMD_DESTROY_QP, a.qpn), OK);
    assert_status(cmd_id(&n, FAKERNIC_CMD_DESTROY_CQ, small.id), OK);
    machine_stop(&m);
}

/* Nobody would hear of what such a QP does: it does not leave RESET. */
static void test_cq_overrun_in_reset(void)
{
    struct fakernic_modify_qp_req init = {
        .mask = LE32(FAKERNIC_QP_ATTR_STATE | FAKERNIC_QP_ATTR_PKEY_INDEX |
                     FAKERNIC_QP_ATTR_PORT | FAKERNIC_QP_ATTR_ACCESS_FLAGS),
        .attr = { .state = FAKERNIC_QPS_INIT, .port = 1 },
    };
    Machine m;
    Nic n;
    Setup s;
    Queue small;
    Qp a, b;

    start_enabled(&m, &n);
    setup(&n, &s);
    cq_create(&n, &small, 1, &s.eq, 0, 0);
    qp_create(&n, &a, FAKERNIC_QP_RC, s.pd, &small, 0);
    qp_create(&n, &b, FAKERNIC_QP_RC, s.pd, &small, 0);
    rc_connect(&n, a.qpn, a.qpn, own_gid, nic_mac);
    complete_nops(&n, &a, 3);
    g_assert_cmpuint(eq_expect(&n, &s.async, FAKERNIC_EVENT_CQ_ERROR), ==,
                     small.id);
    g_assert_cmpuint(eq_expect(&n, &s.async, FAKERNIC_EVENT_QP_FATAL), ==,
                     a.qpn);
    init.qpn = LE32(b.qpn);
    assert_refused(&n, CMD(&n, MODIFY_QP, init), BAD_STATE,
                   fakernic_modify_qp_req, attr.state);
    g_assert_cmpuint(qp_state(&n, b.qpn), ==, FAKERNIC_QPS_RESET);
    /* Neither does that which was told, and began anew. */
    assert_status(qp_to(&n, a.qpn, FAKERNIC_QPS_RESET), OK);
    init.qpn = LE32(a.qpn);
    assert_refused(&n, CMD(&n, MODIFY_QP, init), BAD_STATE,
                   fakernic_modify_qp_req, attr.state);
    machine_stop(&m);
}

static void test_cq_resize(void)
{
    Machine m;
    Nic n;
    Setup s;
    Queue cq, wide;
    Qp a;
    struct fakernic_cqe cqe;
    struct fakernic_resize_cq_req req;

    start_enabled(&m, &n);
    setup(&n, &s);
    cq_create(&n, &cq, 2, &s.eq, 0, 0);
    qp_create(&n, &a, FAKERNIC_QP_RC, s.pd, &cq, 0);
    rc_connect(&n, a.qpn, a.qpn, own_gid, nic_mac);
    complete_nops(&n, &a, 4);
    cq_expect(&n, &cq, &cqe, FAKERNIC_CQE_NOP, FAKERNIC_WC_SUCCESS);
    queue_record(&n, &cq, cq.index);
    complete_nops(&n, &a, 1);       /* ring positions 1, 2, 3, 0 */
    req = (struct fakernic_resize_cq_req) {
        .pages = queue_alloc(&n, &wide, 4, 6), .cqn = LE32(cq.id),
        .log_depth = 1,
    };
    assert_refused(&n, CMD(&n, RESIZE_CQ, req), BAD_PARAM,
                   fakernic_resize_cq_req, log_depth);
    req.log_depth = 4;
    req.cqn = LE32(cq.id + 1);
    assert_refused(&n, CMD(&n, RESIZE_CQ, req), BAD_ID,
                   fakernic_resize_cq_req, cqn);
    req.cqn = LE32(cq.id);
    assert_status(CMD(&n, RESIZE_CQ, req), OK);
    complete_nops(&n, &a, 2);
    for (unsigned i = 0; i < 6; i++) {
        g_assert_true(cq_poll(&n, &wide, &cqe));
        g_assert_cmpuint(le32_to_cpu(cqe.wqe_index), ==, 1 + i);
    }
    g_assert_false(cq_poll(&n, &wide, &cqe));
    machine_stop(&m);
}

#define DEEP_PAGES ((1U << (FAKERNIC_CQ_LOG_DEPTH_MAX - 6)) + 1)

/* The largest CQ: its entries in one page again and again, then the record. */
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

/* A driver that does not take the feature has CQs as they were before it. */
static void test_cq_deep_not_taken(void)
{
    struct fakernic_create_cq_req req = {
        .log_depth = FAKERNIC_QUEUE_LOG_DEPTH_MAX + 1,
    };
    Machine m;
    Nic n;
    Setup s;
    Queue cq;

    start_enabled(&m, &n);
    nic_reset(&n);
    nic_set_features(&n, nic_offered(&n) & ~FAKERNIC_FEATURE_DEEP_CQ);
    nic_set_cmdq(&n, n.cmd_sq, n.cmd_cq, 4);
    qtest_memset(m.qts, n.cmd_cq, 0, 16 * sizeof(struct fakernic_cmd));
    reg_write(&n, FAKERNIC_REG_CONTROL, FAKERNIC_CONTROL_ENABLE);
    setup(&n, &s);
    g_assert_cmpuint(max_cqe(&n), ==, 1 << FAKERNIC_QUEUE_LOG_DEPTH_MAX);
    req.eqn = LE32(s.eq.id);
    req.pages = deep_queue(&m, &cq);
    assert_refused(&n, CMD(&n, CREATE_CQ, req), BAD_PARAM,
                   fakernic_create_cq_req, log_depth);
    machine_stop(&m);
}

/*
 * The largest CQ, whose list takes several turns to read: made, resized to a
 * small one, and back. One whose list is short, or bad far behind, is refused.
 */
static void test_cq_deep(void)
{
    const unsigned deep = FAKERNIC_CQ_LOG_DEPTH_MAX;
    struct fakernic_resize_cq_req resize;
    struct fakernic_create_cq_req req;
    struct fakernic_cqe cqe;
    Machine m;
    Nic n;
    Setup s;
    Queue cq, small;
    uint32_t id;
    uint64_t root;
    Qp a;

    start_enabled(&m, &n);
    setup(&n, &s);
    g_assert_cmpuint(max_cqe(&n), ==, 1 << deep);
    req = (struct fakernic_create_cq_req) {
        .pages = deep_queue(&m, &cq), .eqn = LE32(s.eq.id),
        .log_depth = deep + 1,
    };
    assert_refused(&n, CMD(&n, CREATE_CQ, req), BAD_PARAM,
                   fakernic_create_cq_req, log_depth);
    req.log_depth = deep;
    req.pages.page_count = LE32(DEEP_PAGES - 1);
    assert_status(CMD(&n, CREATE_CQ, req), BAD_PAGE_LIST);
    req.pages.page_count = LE32(DEEP_PAGES);
    root = le64_to_cpu(req.pages.address);
    qtest_writeq(m.qts, root + 100 * 8, qtest_readq(m.qts, root) + 8);
    assert_status(CMD(&n, CREATE_CQ, req), BAD_PAGE_LIST);
    qtest_writeq(m.qts, root + 100 * 8, qtest_readq(m.qts, root));
    id = cmd_create(&n, FAKERNIC_CMD_CREATE_CQ, &req, sizeof(req));
    cq.id = id;
    qp_create(&n, &a, FAKERNIC_QP_RC, s.pd, &cq, 0);
    rc_connect(&n, a.qpn, a.qpn, own_gid, nic_mac);
    complete_nops(&n, &a, 3);
    resize = (struct fakernic_resize_cq_req) {
        .pages = queue_alloc(&n, &small, 2, 6), .cqn = LE32(id),
        .log_depth = 2,
    };
    assert_status(CMD(&n, RESIZE_CQ, resize), OK);
    small.id = id;
    for (unsigned i = 0; i < 3; i++) {
        cq_expect(&n, &small, &cqe, FAKERNIC_CQE_NOP, FAKERNIC_WC_SUCCESS);
    }
    queue_record(&n, &small, small.index);
    resize.pages = deep_queue(&m, &cq);
    resize.log_depth = deep;
    assert_status(CMD(&n, RESIZE_CQ, resize), OK);
    complete_nops(&n, &a, 1);
    cq_expect(&n, &cq, &cqe, FAKERNIC_CQE_NOP, FAKERNIC_WC_SUCCESS);
    g_assert_cmpuint(le32_to_cpu(cqe.wqe_index), ==, 3);
    machine_stop(&m);
}

/* ---- doorbells ------------------------------------------------------- */

static void test_doorbell_rules(void)
{
    Machine m;
    Nic n;
    Setup s;
    Qp a, b;
    struct fakernic_cqe cqe;
    uint32_t uar, other;
    uint64_t page, word;
    unsigned dropped = 0;
    Wqe nop = { .hdr = { .opcode = FAKERNIC_SQ_NOP, .bb_count = 1,
                         .flags = FAKERNIC_SQ_SIGNALED } };

    start_enabled(&m, &n);
    setup(&n, &s);
    uar = cmd_create(&n, FAKERNIC_CMD_ALLOC_UAR, NULL, 0);
    other = cmd_create(&n, FAKERNIC_CMD_ALLOC_UAR, NULL, 0);
    qp_create(&n, &a, FAKERNIC_QP_RC, s.pd, &s.cq, uar);
    qp_create(&n, &b, FAKERNIC_QP_RC, s.pd, &s.cq, uar);
    rc_connect(&n, a.qpn, b.qpn, own_gid, nic_mac);
    sq_put(&n, &a, &nop, sizeof(nop));
    word = doorbell(a.qpn, 1);
    page = n.uar.addr + uar * FAKERNIC_PAGE_SIZE;

    ring(&n, other, FAKERNIC_DOORBELL_SQ, word);
    ring(&n, 0, FAKERNIC_DOORBELL_SQ, word);
    ring(&n, other + 1, FAKERNIC_DOORBELL_SQ, word);
    ring(&n, 1024, FAKERNIC_DOORBELL_SQ, word);
    ring(&n, uar, 0x18, word);
    ring(&n, uar, 0xff8, word);
    ring(&n, uar, FAKERNIC_DOORBELL_SQ, word | 1ull << 58);
    ring(&n, uar, FAKERNIC_DOORBELL_SQ, word | FAKERNIC_DOORBELL_ARM);
    ring(&n, uar, FAKERNIC_DOORBELL_SQ, doorbell(0xffffff, 1));
    ring(&n, uar, FAKERNIC_DOORBELL_CQ_ARM, doorbell(s.cq.id, 0));
    ring(&n, uar, FAKERNIC_DOORBELL_EQ, doorbell(s.eq.id, 0));
    dropped += 11;
    qtest_writel(m.qts, page, 1);
    qtest_writel(m.qts, page + 4, a.qpn);
    qtest_writew(m.qts, page, 1);
    qtest_writeb(m.qts, page, 1);
    dropped += 4;
    g_assert_cmpuint(nic_stat(&n, FAKERNIC_STAT_DOORBELL_DROPPED), ==, dropped);
    g_assert_false(cq_poll(&n, &s.cq, &cqe));
    g_assert_cmphex(qtest_readq(m.qts, page), ==, 0);

    sq_ring(&n, &a);
    cq_expect(&n, &s.cq, &cqe, FAKERNIC_CQE_NOP, FAKERNIC_WC_SUCCESS);
    /* Overtaken: ignored. */
    ring(&n, uar, FAKERNIC_DOORBELL_SQ, doorbell(a.qpn, 0));
    g_assert_cmpuint(qp_state(&n, a.qpn), ==, FAKERNIC_QPS_RTS);
    assert_status(cmd_id(&n, FAKERNIC_CMD_DEALLOC_UAR, uar), BUSY);
    machine_stop(&m);
}

const FakernicTest fakernic_queues_tests[] = {
    { "cq/event", test_event_and_interrupt },
    { "cq/solicited", test_event_solicited },
    { "cq/moderation", test_cq_moderation },
    { "cq/moderation-changes", test_cq_moderation_changes },
    { "cq/overrun", test_cq_overrun },
    { "cq/overrun_in_reset", test_cq_overrun_in_reset },
    { "cq/resize", test_cq_resize },
    { "cq/deep", test_cq_deep },
    { "cq/deep_not_taken", test_cq_deep_not_taken },
    { "eq/full", test_eq_full },
    { "msix/masked", test_msix_masked },
    { "doorbell/rules", test_doorbell_rules },
    { NULL }
};
