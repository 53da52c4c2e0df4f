/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Costs: whatever a guest or a peer requests, the work of one turn stays within
 * its budget, and later turns do the rest. The device counts the work of a turn
 * (x-longest-turn). It also measures each step (x-cost-limit): no step may take
 * more than ten times the time for which it counts. Each test prints the
 * longest turn that its input caused. Where a test leaves work, it queries the
 * monitor in the middle of that work. It measures the CPU time that the main
 * thread uses before it answers, as other programs do not change that time.
 */
#include "qemu/osdep.h"
#include "qapi/error.h"
#include "qobject/qdict.h"
#include "qobject/qjson.h"
#include "qobject/qlist.h"
#include "fakernic-setup.h"

#define COST_WORK 256           /* the budget of a turn here, and no clock */
/* A turn finishes what it has begun: a frame for many, a CQ's worst QP. */
#define COST_STEP 256
/* The number of steps of a test that may exceed the limit. On a crowded host
 * about one step in some thousands does, at most a dozen per test. */
#define COST_BY_CHANCE 24
#define COST_DEVICE \
    "-device fakernic,id=nic,addr=04.0,mac=" MAC_STRING \
    ",turn-work=256,turn-us=1000000,x-cost-limit=10000"     /* ns a unit */

static uint64_t cost_property(Nic *n, const char *name)
{
    QDict *response = qtest_qmp(n->m->qts, "{ 'execute': 'qom-get', "
        "'arguments': { 'path': '/machine/peripheral/nic', "
        "'property': %s } }", name);
    uint64_t value;

    g_assert_true(qdict_haskey(response, "return"));
    value = qdict_get_int(response, "return");
    qobject_unref(response);
    return value;
}

static void cost_start(Machine *m, Nic *n, const char *options)
{
    machine_start(m, "%s%s", COST_DEVICE, options);
    nic_find(n, m, SLOT);
    nic_bringup(n);
}

static void cost_rig(Rig *r)
{
    cost_start(&r->m, &r->n, "");
}

static void cost_ready(Rig *r)
{
    cost_rig(r);
    setup(&r->n, &r->s);
}

static void cost_pair(Rig *r)
{
    cost_rig(r);
    setup_pair(&r->n, &r->s, &r->a, &r->b);
}

static void cost_check(Nic *n, const char *input)
{
    uint64_t longest = cost_property(n, "x-longest-turn");

    g_test_message("%s: longest turn %" PRIu64 " of %u units", input, longest,
                   COST_WORK);
    g_assert_cmpuint(cost_property(n, "turn-work"), ==, COST_WORK);
    g_assert_cmpuint(longest, >, 0);
    g_assert_cmpuint(longest, <=, COST_WORK + COST_STEP);
    g_assert_cmpuint(cost_property(n, "x-cost-found"), <=, COST_BY_CHANCE);
}

static void cost_stop(Nic *n, const char *input)
{
    cost_check(n, input);
    machine_stop(n->m);
}

/* The default limits of a turn. */
static void test_cost_defaults(void)
{
    Machine m;
    Nic n = { .m = &m };

    machine_start(&m, "%s,id=nic", DEVICE);
    g_assert_cmpuint(cost_property(&n, "turn-us"), ==, 500);
    g_assert_cmpuint(cost_property(&n, "turn-work"), ==, 2048);
    machine_stop(&m);
}

/* The device reports a step that exceeds its limit, and no other step. */
static void test_cost_exceeded_step(Rig *r)
{
    uint64_t found;

    found = cost_property(&r->n, "x-cost-found");
    for (unsigned i = 1; i <= 4; i++) {
        qtest_qmp_assert_success(r->m.qts, "{ 'execute': 'qom-set', "
            "'arguments': { 'path': '/machine/peripheral/nic', "
            "'property': 'x-cost-planted', 'value': 5000 } }");
        assert_status(cmd(&r->n, FAKERNIC_CMD_NOP, NULL, 0, NULL, 0), OK);
        g_assert_cmpuint(cost_property(&r->n, "x-cost-planted"), ==, 0);
        g_assert_cmpuint(cost_property(&r->n, "x-cost-found"), >=, found + i);
    }
    g_assert_cmpuint(cost_property(&r->n, "x-cost-found"), <=,
                     found + 4 + COST_BY_CHANCE);
}

/* Puts a command into the queue without ringing. */
static void cost_submit(Nic *n, uint16_t opcode, const void *req, size_t len)
{
    struct fakernic_cmd request = {
        .opcode = LE16(opcode),
        .cookie = LE32(0xc0de0000 + n->cmd_pi),
    };

    memcpy(request.payload, req, len);
    cmd_submit(n, &request);
}

/* The monitor answers while the device executes a command. Returns the
 * command's status. */
static uint8_t cost_status(Nic *n, uint16_t opcode, const void *req, size_t len,
                           const char *input)
{
    struct fakernic_cmd_completion completion;
    const uint32_t index = n->cmd_pi;
    uint64_t since;

    cost_submit(n, opcode, req, len);
    since = main_cpu_us(n->m);
    cmd_ring(n);
    monitor_must_answer(n->m, input, since);
    cmd_wait(n, index, &completion);
    return completion.status;
}

/* A command must succeed, and the monitor must answer during it. */
static void cost_command(Nic *n, uint16_t opcode, const void *req, size_t len,
                         const char *input)
{
    g_assert_cmpuint(cost_status(n, opcode, req, len, input), ==,
                     FAKERNIC_CMD_OK);
}

static const Wqe cost_nop = {
    .hdr = { .opcode = FAKERNIC_SQ_NOP, .flags = FAKERNIC_SQ_SIGNALED,
             .bb_count = 1 },
};

/* ---- page lists -------------------------------------------------------- */

#define COST_PAGES (1u << 24)

/* Three levels of tables, each full of the same address; 2^27 pages. */
static struct fakernic_page_list cost_list(Machine *m, uint32_t pages)
{
    uint64_t address = mem_alloc(m, FAKERNIC_PAGE_SIZE);

    for (unsigned level = 0; level < 3; level++) {
        uint64_t table = mem_alloc(m, FAKERNIC_PAGE_SIZE);

        for (unsigned i = 0; i < FAKERNIC_PAGE_TABLE_ENTRIES; i++) {
            qtest_writeq(m->qts, table + i * 8, address);
        }
        address = table;
    }
    return (struct fakernic_page_list) {
        .address = LE64(address),
        .page_count = LE32(pages),
        .page_shift = FAKERNIC_PAGE_SHIFT,
        .levels = 3,
    };
}

static struct fakernic_rereg_mr_req
cost_rereg(uint32_t key, const struct fakernic_page_list *list, uint32_t pages)
{
    return (struct fakernic_rereg_mr_req) {
        .iova = LE64(1ull << 40),
        .length = LE64((uint64_t)pages * FAKERNIC_PAGE_SIZE),
        .pages = *list,
        .key = LE32(key),
        .mask = LE32(FAKERNIC_REREG_TRANSLATION),
    };
}

/* Four commands, each for millions of pages, and a NOP behind them. */
static void test_cost_rereg(Rig *r)
{
    const uint32_t pages = 1u << 22;
    struct fakernic_cmd_completion completion;
    struct fakernic_page_list list;
    struct fakernic_rereg_mr_req req;
    uint32_t index;
    uint64_t since;

    list = cost_list(&r->m, pages);
    req = cost_rereg(r->s.key, &list, pages);
    index = r->n.cmd_pi;
    for (unsigned i = 0; i < 4; i++) {
        cost_submit(&r->n, FAKERNIC_CMD_REREG_MR, &req, sizeof(req));
    }
    cost_submit(&r->n, FAKERNIC_CMD_NOP, NULL, 0);
    since = main_cpu_us(&r->m);
    cmd_ring(&r->n);
    monitor_must_answer(&r->m, "REREG_MR of millions of pages", since);
    for (unsigned i = 0; i < 5; i++) {
        cmd_wait(&r->n, index + i, &completion);
        g_assert_cmpuint(completion.status, ==, FAKERNIC_CMD_OK);
    }
    cost_check(&r->n, "REREG_MR of millions of pages");
}

/* The data path continues during a REREG_MR, and a reset cancels it. */
static void test_cost_rereg_reset(Rig *r)
{
    struct fakernic_page_list list;
    struct fakernic_rereg_mr_req req;
    Wqe wqe;

    list = cost_list(&r->m, COST_PAGES - 64);
    req = cost_rereg(mr_create(&r->n, r->s.pd, r->s.data, 4096, 0), &list,
                     COST_PAGES - 64);
    cost_submit(&r->n, FAKERNIC_CMD_REREG_MR, &req, sizeof(req));
    cmd_ring(&r->n);
    wqe = wqe_rdma(&r->s, FAKERNIC_SQ_RDMA_WRITE, 0, 4096, 64);
    POST(r, wqe);
    rig_cqe(r, FAKERNIC_CQE_RDMA_WRITE, FAKERNIC_WC_SUCCESS);
    nic_bringup(&r->n);
    setup(&r->n, &r->s);
    /* The machine ends while another REREG_MR is in progress. */
    req.key = LE32(r->s.key);
    cost_submit(&r->n, FAKERNIC_CMD_REREG_MR, &req, sizeof(req));
    cmd_ring(&r->n);
    cost_check(&r->n, "REREG_MR and a reset");
}

/* A list whose last entry is bad leaves the region as it was. */
static void test_cost_rereg_refused(Rig *r)
{
    const uint32_t pages = 100 * FAKERNIC_PAGE_TABLE_ENTRIES;
    struct fakernic_rereg_mr_req req;
    Wqe wqe;
    struct fakernic_page_list list = {
        .page_count = LE32(pages), .page_shift = FAKERNIC_PAGE_SHIFT,
        .levels = 2,
    };
    uint64_t root, leaf, bad;

    leaf = build_tables(&r->m, 1, r->s.data, 0, FAKERNIC_PAGE_TABLE_ENTRIES);
    bad = build_tables(&r->m, 1, r->s.data, 0, FAKERNIC_PAGE_TABLE_ENTRIES);
    qtest_writeq(r->m.qts, bad + FAKERNIC_PAGE_SIZE - 8, r->s.data + 1);
    root = build_tables(&r->m, 1, leaf, 0, 100);
    qtest_writeq(r->m.qts, root + 99 * 8, bad);
    list.address = LE64(root);
    req = cost_rereg(r->s.key, &list, pages);
    assert_refused(&r->n, CMD(&r->n, REREG_MR, req), BAD_PAGE_LIST,
                   fakernic_rereg_mr_req, pages);
    /* One page fewer: the bad entry is not part of the region. */
    req.length = LE64((pages - 1ull) * FAKERNIC_PAGE_SIZE);
    assert_status(CMD(&r->n, REREG_MR, req), OK);
    req = cost_rereg(r->s.key, &list, pages);
    assert_refused(&r->n, CMD(&r->n, REREG_MR, req), BAD_PAGE_LIST,
                   fakernic_rereg_mr_req, pages);
    fill(&r->n, &r->s, 0, 64);
    wqe = wqe_rdma(&r->s, FAKERNIC_SQ_RDMA_WRITE, 0, 0, 64);
    wqe.rdma.rdma.remote_address = LE64((1ull << 40) + 51197ull * 4096 + 1024);
    wqe.rdma.sge[0].address = LE64(1ull << 40);
    POST(r, wqe);
    rig_cqe(r, FAKERNIC_CQE_RDMA_WRITE, FAKERNIC_WC_SUCCESS);
    assert_same(&r->n, &r->s, 0, 1024, 64);
    cost_check(&r->n, "REREG_MR that is refused");
}

/* ---- completion queues ------------------------------------------------- */

#define COST_QPS 1500

/* Many QPs share one ring, which they never use. */
static struct fakernic_create_qp_req cost_qp_req(Nic *n, const Setup *s,
                                                 const Queue *cq)
{
    Queue ring;

    return (struct fakernic_create_qp_req) {
        .sq_pages = queue_alloc(n, &ring, 4, FAKERNIC_SQ_BB_SHIFT),
        .rq_pages = queue_alloc(n, &ring, 4, 6),
        .type = FAKERNIC_QP_RC,
        .sq_log_depth = 4,
        .rq_log_depth = 4,
        .rq_log_stride = 6,
        .pdn = LE32(s->pd),
        .send_cqn = LE32(cq->id),
        .recv_cqn = LE32(cq->id),
    };
}

/* A CQ overruns: all of its QPs fail, some in each turn. */
static void test_cost_cq_overrun(Rig *r)
{
    struct fakernic_create_qp_req req;
    struct fakernic_modify_qp_req init = {
        .mask = LE32(FAKERNIC_QP_ATTR_STATE | FAKERNIC_QP_ATTR_PKEY_INDEX |
                     FAKERNIC_QP_ATTR_PORT | FAKERNIC_QP_ATTR_ACCESS_FLAGS),
        .attr = { .state = FAKERNIC_QPS_INIT, .port = 1 },
    };
    g_autofree uint32_t *qpn = g_new(uint32_t, COST_QPS);
    uint64_t since;
    Queue cq;
    Qp a, b;

    cq_create(&r->n, &cq, 1, &r->s.eq, 0, 0);
    req = cost_qp_req(&r->n, &r->s, &cq);
    for (unsigned i = 0; i < COST_QPS; i++) {
        qpn[i] = cmd_create(&r->n, FAKERNIC_CMD_CREATE_QP, &req, sizeof(req));
        init.qpn = LE32(qpn[i]);
        assert_status(CMD(&r->n, MODIFY_QP, init), OK);
    }
    r->s.cq = cq;
    rc_pair(&r->n, &r->s, &a, &b);
    since = main_cpu_us(&r->m);
    complete_nops(&r->n, &a, 3);
    monitor_must_answer(&r->m, "a CQ overrun with many QPs", since);
    /* The test destroys the first, the last, and some QPs in between. */
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_QP, qpn[0]), OK);
    for (unsigned i = COST_QPS / 2; i < COST_QPS / 2 + 20; i++) {
        assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_QP, qpn[i]), OK);
    }
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_QP, qpn[COST_QPS - 1]),
                  OK);
    assert_refused(&r->n, CMD(&r->n, CREATE_QP, req), BAD_STATE,
                   fakernic_create_qp_req, send_cqn);
    for (unsigned i = 1; i < COST_QPS - 1; i++) {
        if (i >= COST_QPS / 2 && i < COST_QPS / 2 + 20) {
            continue;
        }
        for (unsigned tries = 0; tries < 1000; tries++) {
            if (qp_state(&r->n, qpn[i]) == FAKERNIC_QPS_ERR) {
                break;
            }
        }
        g_assert_cmpuint(qp_state(&r->n, qpn[i]), ==, FAKERNIC_QPS_ERR);
    }
    cost_check(&r->n, "a CQ overrun with many QPs");
}

#define COST_CQS       4000
#define COST_DOORBELLS 50
#define COST_ROUNDS    20
#define COST_TRIES     5
#define COST_PAUSE_US  200000

/* CPU time of the main thread for COST_DOORBELLS doorbells, each for one NOP,
 * in nanoseconds. Returns the minimum of several rounds. */
static uint64_t cost_doorbells(Nic *n, Qp *a)
{
    uint64_t least = UINT64_MAX;

    for (unsigned round = 0; round < COST_ROUNDS; round++) {
        uint64_t since = main_thread_ns(n->m, false);

        for (unsigned i = 0; i < COST_DOORBELLS; i++) {
            a->sq.index++;
            sq_ring(n, a);
        }
        least = MIN(least, main_thread_ns(n->m, false) - since);
    }
    return least;
}

/* Repeats the measurement a few times while it exceeds BOUND. The machine may
 * be slow for longer than one measurement lasts. */
static uint64_t cost_doorbells_within(Nic *n, Qp *a, uint64_t bound)
{
    uint64_t least = cost_doorbells(n, a);

    for (unsigned i = 0; i < COST_TRIES && least > bound; i++) {
        g_usleep(COST_PAUSE_US);
        least = MIN(least, cost_doorbells(n, a));
    }
    return least;
}

/*
 * A doorbell costs the same while many moderated CQs hold an event back. Code
 * that walks over all CQs may have forgotten to count that work, so the test
 * compares CPU time. Twice the time would be 10 ns per CQ.
 */
static void test_cost_moderation(Rig *r)
{
    struct fakernic_create_qp_req req;
    struct fakernic_modify_cq_req moderate = {
        .count = LE16(0xffff), .period_us = LE16(50000),
    };
    Queue eq, cq, nops;
    Qp a, b;
    struct fakernic_eqe eqe;
    uint64_t before, since, few, many;
    unsigned events = 0;

    cq_create(&r->n, &nops, 4, &r->s.eq, 0, FAKERNIC_CQ_IGNORE_OVERRUN);
    r->s.cq = nops;
    rc_pair(&r->n, &r->s, &a, &b);
    for (unsigned i = 0; i < a.sq.depth; i++) {
        qtest_memwrite(r->m.qts, queue_entry(&a.sq, i), &cost_nop,
                       sizeof(cost_nop));
    }
    few = cost_doorbells(&r->n, &a);
    eq_create(&r->n, &eq, 12, 2, false);
    cq_create(&r->n, &cq, 1, &eq, 0, 0);
    req = cost_qp_req(&r->n, &r->s, &cq);
    qtest_memwrite(r->m.qts, le64_to_cpu(req.sq_pages.address), &cost_nop,
                   sizeof(cost_nop));
    for (unsigned i = 0; i < COST_CQS; i++) {
        struct fakernic_create_cq_req more = {
            .pages = contiguous(cq.address, queue_size(1, 6)),
            .log_depth = 1, .flags = FAKERNIC_CQ_IGNORE_OVERRUN,
            .eqn = LE32(eq.id),
        };
        uint32_t id = cmd_create(&r->n, FAKERNIC_CMD_CREATE_CQ, &more,
                                 sizeof(more));
        uint32_t qpn;

        moderate.cqn = LE32(id);
        assert_status(CMD(&r->n, MODIFY_CQ, moderate), OK);
        ring(&r->n, 0, FAKERNIC_DOORBELL_CQ_ARM, doorbell(id, 0));
        req.send_cqn = req.recv_cqn = LE32(id);
        qpn = cmd_create(&r->n, FAKERNIC_CMD_CREATE_QP, &req, sizeof(req));
        rc_connect(&r->n, qpn, qpn, own_gid, nic_mac);
        ring(&r->n, 0, FAKERNIC_DOORBELL_SQ, doorbell(qpn, 1));
    }
    many = cost_doorbells_within(&r->n, &a, 2 * few);
    g_test_message("%u doorbells took %" PRIu64 " ns, %" PRIu64 " ns beside "
                   "%u moderated CQs", COST_DOORBELLS, few, many, COST_CQS);
    g_assert_cmpuint(many, <=, 2 * few);
    before = cost_property(&r->n, "x-longest-turn");
    g_assert_false(eq_poll(&r->n, &eq, &eqe));
    /* All events are due at the same time. */
    since = main_cpu_us(&r->m);
    qtest_clock_step(r->m.qts, 60000000);
    monitor_must_answer(&r->m, "many moderated CQs", since);
    for (unsigned tries = 0; tries < 1000 && events < COST_CQS; tries++) {
        while (eq_poll(&r->n, &eq, &eqe)) {
            g_assert_cmpuint(eqe.type, ==, FAKERNIC_EVENT_COMPLETION);
            events++;
        }
        qtest_clock_step(r->m.qts, 1000);
    }
    g_assert_cmpuint(events, ==, COST_CQS);
    g_assert_cmpuint(before, <=, COST_WORK + COST_STEP);
    cost_check(&r->n, "many moderated CQs");
}

/* ---- event queues -------------------------------------------------------- */

#define COST_EVENTS 11          /* logarithm */

/* Arms each CQ, then causes a completion on it. */
static void cost_fire(Nic *n, const uint32_t *cqn, const uint32_t *qpn,
                      uint32_t round)
{
    for (unsigned i = 0; i < 1u << COST_EVENTS; i++) {
        ring(n, 0, FAKERNIC_DOORBELL_CQ_ARM, doorbell(cqn[i], round));
        ring(n, 0, FAKERNIC_DOORBELL_SQ, doorbell(qpn[i], round + 1));
    }
}

/* A full EQ, and as many events that wait for room: one store makes room for
 * all of them. */
static void test_cost_full_eq(Rig *r)
{
    const unsigned count = 1u << COST_EVENTS;
    g_autofree uint32_t *cqn = g_new(uint32_t, count);
    g_autofree uint32_t *qpn = g_new(uint32_t, count);
    struct fakernic_create_qp_req req;
    struct fakernic_eqe eqe;
    Queue eq, cq;
    uint64_t since;
    unsigned events = 0;

    eq_create(&r->n, &eq, COST_EVENTS, 2, false);
    cq_create(&r->n, &cq, 1, &eq, 0, 0);
    req = cost_qp_req(&r->n, &r->s, &cq);
    for (unsigned i = 0; i < 2; i++) {
        qtest_memwrite(r->m.qts, le64_to_cpu(req.sq_pages.address) +
                       (i << FAKERNIC_SQ_BB_SHIFT), &cost_nop,
                       sizeof(cost_nop));
    }
    for (unsigned i = 0; i < count; i++) {
        struct fakernic_create_cq_req more = {
            .pages = contiguous(cq.address, queue_size(1, 6)),
            .log_depth = 1, .flags = FAKERNIC_CQ_IGNORE_OVERRUN,
            .eqn = LE32(eq.id),
        };

        cqn[i] = cmd_create(&r->n, FAKERNIC_CMD_CREATE_CQ, &more, sizeof(more));
        req.send_cqn = req.recv_cqn = LE32(cqn[i]);
        qpn[i] = cmd_create(&r->n, FAKERNIC_CMD_CREATE_QP, &req, sizeof(req));
        rc_connect(&r->n, qpn[i], qpn[i], own_gid, nic_mac);
    }
    cost_fire(&r->n, cqn, qpn, 0);
    cost_fire(&r->n, cqn, qpn, 1);
    for (unsigned i = 0; i < count; i++) {
        g_assert_true(eq_poll(&r->n, &eq, &eqe));
        g_assert_cmpuint(le32_to_cpu(eqe.id), ==, cqn[i]);
    }
    g_assert_false(eq_poll(&r->n, &eq, &eqe));
    since = main_cpu_us(&r->m);
    eq_ring(&r->n, &eq, true);
    monitor_must_answer(&r->m, "an EQ that has room again", since);
    for (unsigned tries = 0; tries < 1000 && events < count; tries++) {
        for (; eq_poll(&r->n, &eq, &eqe); events++) {
            g_assert_cmpuint(le32_to_cpu(eqe.id), ==, cqn[events]);
        }
    }
    g_assert_cmpuint(events, ==, count);
    cost_check(&r->n, "an EQ that has room again");
}

/* ---- resizes ----------------------------------------------------------- */

#define COST_DEPTH 15

/* All entries of a full CQ arrive in the new ring, as do entries that are
 * written during the resize. */
static void test_cost_resize_cq(Rig *r)
{
    const uint32_t count = 1u << COST_DEPTH;
    struct fakernic_resize_cq_req req = { .log_depth = COST_DEPTH };
    struct fakernic_cmd_completion completion;
    struct fakernic_cqe cqe;
    Queue cq, bigger;
    Qp a, b;
    uint32_t index;
    uint64_t since;

    cq_create(&r->n, &cq, COST_DEPTH, &r->s.eq, 0, 0);
    r->s.cq = cq;
    rc_pair(&r->n, &r->s, &a, &b);
    for (unsigned i = 0; i < a.sq.depth; i++) {
        qtest_memwrite(r->m.qts, queue_entry(&a.sq, i), &cost_nop,
                       sizeof(cost_nop));
    }
    for (uint32_t i = 0; i < count - 16; i += 16) {
        a.sq.index += 16;
        queue_record(&r->n, &a.sq, a.sq.index);
        sq_ring(&r->n, &a);
    }
    req.cqn = LE32(cq.id);
    req.pages = queue_alloc(&r->n, &bigger, COST_DEPTH, 6);
    index = r->n.cmd_pi;
    cost_submit(&r->n, FAKERNIC_CMD_RESIZE_CQ, &req, sizeof(req));
    since = main_cpu_us(&r->m);
    cmd_ring(&r->n);
    for (unsigned i = 0; i < 8; i++) {
        a.sq.index++;
        queue_record(&r->n, &a.sq, a.sq.index);
        sq_ring(&r->n, &a);
    }
    monitor_must_answer(&r->m, "RESIZE_CQ of a full ring", since);
    cmd_wait(&r->n, index, &completion);
    g_assert_cmpuint(completion.status, ==, FAKERNIC_CMD_OK);
    bigger.id = cq.id;
    for (uint32_t i = 0; i < a.sq.index; i++) {
        cq_expect(&r->n, &bigger, &cqe, FAKERNIC_CQE_NOP, FAKERNIC_WC_SUCCESS);
        g_assert_cmpuint(le32_to_cpu(cqe.wqe_index), ==, i);
    }
    cost_check(&r->n, "RESIZE_CQ of a full ring");
}

/* A resize copies a full SRQ to a new ring, slot by slot. */
static void test_cost_resize_srq(Rig *r)
{
    const uint32_t count = 1u << COST_DEPTH;
    struct fakernic_create_srq_req create = {
        .log_depth = COST_DEPTH,
        .log_stride = 6,
    };
    struct fakernic_modify_srq_req req = {
        .mask = FAKERNIC_SRQ_RESIZE,
        .log_depth = COST_DEPTH,
    };
    Queue srq, next;

    create.pages = queue_alloc(&r->n, &srq, COST_DEPTH, 6);
    create.pdn = LE32(r->s.pd);
    srq.id =
        cmd_create(&r->n, FAKERNIC_CMD_CREATE_SRQ, &create, sizeof(create));
    for (uint32_t i = 0; i < count; i += 1021) {
        qtest_writeq(r->m.qts, queue_entry(&srq, i), ~(uint64_t)i);
    }
    queue_record(&r->n, &srq, count);
    req.srqn = LE32(srq.id);
    req.pages = queue_alloc(&r->n, &next, COST_DEPTH, 6);
    queue_record(&r->n, &next, count);
    cost_command(&r->n, FAKERNIC_CMD_MODIFY_SRQ, &req, sizeof(req),
                 "MODIFY_SRQ of a full ring");
    for (uint32_t i = 0; i < count; i += 1021) {
        g_assert_cmphex(qtest_readq(r->m.qts, queue_entry(&next, i)), ==,
                        ~(uint64_t)i);
    }
    cost_check(&r->n, "MODIFY_SRQ of a full ring");
}

/* ---- windows ----------------------------------------------------------- */

#define COST_WINDOWS 3000

/* DESTROY_QP of a QP with many bound windows. */
static void test_cost_windows(Rig *r)
{
    struct fakernic_create_mw_req create = {
        .type = FAKERNIC_MW_TYPE_2B,
        .tag = 1,
    };
    struct fakernic_sq_bind_mw bind = {
        .length = LE64(4096),
        .access = LE32(FAKERNIC_ACCESS_REMOTE_READ),
    };
    Wqe wqe = {
        .hdr = { .opcode = FAKERNIC_SQ_BIND_MW,
                 .flags = FAKERNIC_SQ_SIGNALED,
                 .bb_count = 1 },
    };
    struct fakernic_id id = { 0 };
    uint32_t mr;

    mr = mr_create(&r->n, r->s.pd, r->s.data, 4096, FAKERNIC_ACCESS_MW_BIND);
    create.pdn = LE32(r->s.pd);
    bind.address = LE64(r->s.data);
    bind.mr_key = LE32(mr);
    for (unsigned i = 0; i < COST_WINDOWS; i++) {
        uint32_t key = cmd_create(&r->n, FAKERNIC_CMD_CREATE_MW, &create,
                                  sizeof(create));

        bind.mw_key = LE32(key);
        bind.new_key = LE32(key ^ 3);
        memcpy(wqe.bytes + sizeof(wqe.hdr), &bind, sizeof(bind));
        POST(r, wqe);
        rig_cqe(r, FAKERNIC_CQE_BIND_MW, FAKERNIC_WC_SUCCESS);
        queue_record(&r->n, &r->s.cq, r->s.cq.index);
    }
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_MR, mr), BUSY);
    id.id = LE32(r->a.qpn);
    cost_command(&r->n, FAKERNIC_CMD_DESTROY_QP, &id, sizeof(id),
                 "DESTROY_QP with many windows");
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_MR, mr), OK);
    cost_check(&r->n, "DESTROY_QP with many windows");
}

/* ---- on-demand paging -------------------------------------------------- */

#define COST_ODP_BASE 0x7f0000000000ull

static uint32_t cost_on_demand(Nic *n, const Setup *s, uint64_t pages,
                               uint32_t access)
{
    struct fakernic_create_mr_req req = {
        .iova = LE64(COST_ODP_BASE),
        .length = LE64(pages * FAKERNIC_PAGE_SIZE),
        .pages = { .page_shift = FAKERNIC_PAGE_SHIFT },
        .pdn = LE32(s->pd),
        .access = LE32(access | FAKERNIC_ACCESS_ON_DEMAND),
        .type = FAKERNIC_MR_ON_DEMAND,
    };

    return cmd_create(n, FAKERNIC_CMD_CREATE_MR, &req, sizeof(req));
}

/* UPDATE_PAGES reports more pages than the device can keep, then that all of
 * them are absent. */
static void test_cost_update_pages(Rig *r)
{
    const uint32_t part = FAKERNIC_UPDATE_PAGES_MAX;
    const uint64_t all = 40ull * part;
    struct fakernic_update_pages_req req = {
        .flags = LE32(FAKERNIC_PAGES_PRESENT | FAKERNIC_PAGES_WRITABLE),
    };
    const struct fakernic_update_pages_req absent = {
        .pages = { .page_count = LE32(all) },
        .flags = LE32(FAKERNIC_PAGES_ABSENT),
        .address = LE64(COST_ODP_BASE),
    };
    struct fakernic_cqe cqe;
    Wqe wqe;
    struct fakernic_update_pages_req none = absent;

    req.key = none.key =
        LE32(cost_on_demand(&r->n, &r->s, all, FAKERNIC_ACCESS_LOCAL_WRITE));
    req.pages = cost_list(&r->m, part);
    for (uint64_t at = 0; at < all; at += part) {
        req.address = LE64(COST_ODP_BASE + at * FAKERNIC_PAGE_SIZE);
        assert_status(CMD(&r->n, UPDATE_PAGES, req), OK);
    }
    /* The last page is present. */
    wqe = wqe_rdma(&r->s, FAKERNIC_SQ_RDMA_WRITE, 0, 4096, 64);
    wqe.rdma.sge[0].address = LE64(COST_ODP_BASE +
                                   (all - 1) * FAKERNIC_PAGE_SIZE);
    wqe.rdma.sge[0].lkey = req.key;
    POST(r, wqe);
    cqe = rig_cqe(r, FAKERNIC_CQE_RDMA_WRITE, FAKERNIC_WC_SUCCESS);
    assert_status(CMD(&r->n, UPDATE_PAGES, none), OK);
    POST(r, wqe);
    eq_expect(&r->n, &r->s.async, FAKERNIC_EVENT_PAGE_REQUEST);
    g_assert_false(cq_poll(&r->n, &r->s.cq, &cqe));
    /* The region is destroyed while pages are present. */
    req.address = LE64(COST_ODP_BASE);
    assert_status(CMD(&r->n, UPDATE_PAGES, req), OK);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_MR, le32_to_cpu(req.key)),
                  OK);
    cost_check(&r->n, "UPDATE_PAGES of all there is");
}

#define COST_WAITERS 2400

typedef struct Waiters {
    Machine m;
    Nic n;
    Setup s;
    uint32_t key;
} Waiters;

/* Many QPs, each with a WRITE from an absent page of one region. These pages
 * are 'apart' pages apart. */
static void cost_waiters(Waiters *w, uint64_t apart)
{
    struct fakernic_create_qp_req create;

    cost_start(&w->m, &w->n, "");
    setup(&w->n, &w->s);
    cq_create(&w->n, &w->s.cq, 12, &w->s.eq, 0, 0);
    w->key = cost_on_demand(&w->n, &w->s, apart * COST_WAITERS,
                            FAKERNIC_ACCESS_LOCAL_WRITE);
    create = cost_qp_req(&w->n, &w->s, &w->s.cq);
    for (unsigned i = 0; i < COST_WAITERS; i++) {
        Wqe wqe = wqe_rdma(&w->s, FAKERNIC_SQ_RDMA_WRITE, 0, 0, 16);
        uint32_t qpn;
        Queue sq;

        create.sq_pages = queue_alloc(&w->n, &sq, 4, FAKERNIC_SQ_BB_SHIFT);
        wqe.rdma.sge[0].address =
            LE64(COST_ODP_BASE + apart * i * FAKERNIC_PAGE_SIZE);
        wqe.rdma.sge[0].lkey = LE32(w->key);
        qtest_memwrite(w->m.qts, sq.address, &wqe, sizeof(wqe));
        qpn = cmd_create(&w->n, FAKERNIC_CMD_CREATE_QP, &create,
                         sizeof(create));
        rc_connect(&w->n, qpn, qpn, own_gid, nic_mac);
        ring(&w->n, 0, FAKERNIC_DOORBELL_SQ, doorbell(qpn, 1));
    }
}

/* Fetches all page requests and returns their number. */
static unsigned cost_wanted(Waiters *w)
{
    struct fakernic_query_page_requests_resp resp;
    unsigned wanted = 0;

    do {
        assert_status(cmd(&w->n, FAKERNIC_CMD_QUERY_PAGE_REQUESTS, NULL, 0,
                          &resp, sizeof(resp)), OK);
        wanted += le32_to_cpu(resp.count);
    } while (resp.count);
    return wanted;
}

static void cost_update_pages(Waiters *w, uint32_t flags, uint64_t page,
                              uint32_t count)
{
    struct fakernic_update_pages_req req = {
        .address = LE64(COST_ODP_BASE + page * FAKERNIC_PAGE_SIZE),
        .pages = { .page_count = LE32(count) },
        .key = LE32(w->key),
        .flags = LE32(flags),
    };

    if (flags & FAKERNIC_PAGES_PRESENT) {
        req.pages = cost_list(&w->m, count);
    }
    cost_command(&w->n, FAKERNIC_CMD_UPDATE_PAGES, &req, sizeof(req),
                 "UPDATE_PAGES for many QPs");
}

static void cost_all_end(Waiters *w, uint8_t status)
{
    struct fakernic_cqe cqe;

    for (unsigned i = 0; i < COST_WAITERS; i++) {
        cq_expect(&w->n, &w->s.cq, &cqe, FAKERNIC_CQE_RDMA_WRITE, status);
    }
}

/* Many QPs wait for pages; one UPDATE_PAGES answers all of them. */
static void test_cost_odp_flood(void)
{
    Waiters w;

    cost_waiters(&w, 2);
    g_assert_cmpuint(cost_wanted(&w), ==, COST_WAITERS);
    cost_update_pages(&w, FAKERNIC_PAGES_PRESENT | FAKERNIC_PAGES_WRITABLE, 0,
                      2 * COST_WAITERS);
    cost_all_end(&w, FAKERNIC_WC_SUCCESS);
    cost_stop(&w.n, "many QPs that wait for pages");
}

/* The host refuses a page for which no QP waits, then destroys the region: the
 * requests of all QPs fail. */
static void test_cost_odp_destroy(void)
{
    Waiters w;

    cost_waiters(&w, 2);
    cost_update_pages(&w, FAKERNIC_PAGES_REFUSED, 1, 1);
    assert_status(cmd_id(&w.n, FAKERNIC_CMD_DESTROY_MR, w.key), OK);
    cost_all_end(&w, FAKERNIC_WC_LOC_PROT_ERR);
    g_assert_cmpuint(cost_wanted(&w), ==, 0);
    cost_stop(&w.n, "DESTROY_MR with many QPs that wait for its pages");
}

#define ODP_TABLE_PAGES 512
#define COST_TABLES     4096    /* of the device */
#define COST_SHARE      64      /* tables that a region may always use */

/* Fills all tables of pages of the device, with regions that use no more than
 * their share. The device searches all tables for a free one. */
static void cost_fill_tables(Waiters *w)
{
    const uint64_t step = ODP_TABLE_PAGES * (uint64_t)FAKERNIC_PAGE_SIZE;
    struct fakernic_update_pages_req req = {
        .flags = LE32(FAKERNIC_PAGES_PRESENT),
        .pages = contiguous(w->s.data, FAKERNIC_PAGE_SIZE),
    };

    for (unsigned i = 0; i < COST_TABLES; i++) {
        if (i % COST_SHARE == 0) {
            req.key = LE32(cost_on_demand(&w->n, &w->s,
                                          COST_SHARE * ODP_TABLE_PAGES, 0));
        }
        req.address = LE64(COST_ODP_BASE + i % COST_SHARE * step);
        assert_status(CMD(&w->n, UPDATE_PAGES, req), OK);
    }
}

/* The host refuses pages in many tables, and a QP waits in each. */
static void test_cost_odp_full(void)
{
    const uint64_t all = (uint64_t)COST_WAITERS * ODP_TABLE_PAGES;
    Waiters w;

    cost_waiters(&w, ODP_TABLE_PAGES);
    cost_fill_tables(&w);
    for (uint64_t at = 0; at < all; at += FAKERNIC_UPDATE_PAGES_MAX) {
        cost_update_pages(&w, FAKERNIC_PAGES_REFUSED, at,
                          MIN(FAKERNIC_UPDATE_PAGES_MAX, all - at));
    }
    cost_stop(&w.n, "pages that are refused while all tables are full");
}

/* ---- work requests and frames ------------------------------------------- */

#define COST_FLUSHES 12         /* logarithm */

/* One command flushes a full send queue. */
static void test_cost_flush(Rig *r)
{
    const uint32_t count = 1u << COST_FLUSHES;
    struct fakernic_create_qp_req req;
    struct fakernic_modify_qp_req init = {
        .mask = LE32(FAKERNIC_QP_ATTR_STATE | FAKERNIC_QP_ATTR_PKEY_INDEX |
                     FAKERNIC_QP_ATTR_PORT | FAKERNIC_QP_ATTR_ACCESS_FLAGS),
        .attr = { .state = FAKERNIC_QPS_INIT, .port = 1 },
    };
    uint32_t qpn[8];
    uint64_t since = 0;
    struct fakernic_cqe cqe;
    Queue cq, sq;

    cq_create(&r->n, &cq, COST_FLUSHES + 3, &r->s.eq, 0, 0);
    req = cost_qp_req(&r->n, &r->s, &cq);
    req.sq_pages = queue_alloc(&r->n, &sq, COST_FLUSHES, FAKERNIC_SQ_BB_SHIFT);
    req.sq_log_depth = COST_FLUSHES;
    for (uint32_t i = 0; i < count; i++) {
        qtest_memwrite(r->m.qts, queue_entry(&sq, i), &cost_nop,
                       sizeof(cost_nop));
    }
    for (unsigned i = 0; i < ARRAY_SIZE(qpn); i++) {
        qpn[i] = cmd_create(&r->n, FAKERNIC_CMD_CREATE_QP, &req, sizeof(req));
        init.qpn = LE32(qpn[i]);
        assert_status(CMD(&r->n, MODIFY_QP, init), OK);
        ring(&r->n, 0, FAKERNIC_DOORBELL_SQ, doorbell(qpn[i], count));
    }
    for (unsigned i = 0; i < ARRAY_SIZE(qpn); i++) {
        since = main_cpu_us(&r->m);
        assert_status(qp_to(&r->n, qpn[i], FAKERNIC_QPS_ERR), OK);
    }
    monitor_must_answer(&r->m, "a flush of full send queues", since);
    for (uint32_t i = 0; i < count * ARRAY_SIZE(qpn); i++) {
        cq_expect(&r->n, &cq, &cqe, FAKERNIC_CQE_NOP, FAKERNIC_WC_WR_FLUSH_ERR);
    }
    cost_check(&r->n, "a flush of full send queues");
}

#define COST_FLUSH_PAIRS 256
/*
 * Pairs in the test of a peer. The peer sends all frames in one turn, so this
 * is a small number.
 */
#define COST_FLUSH_PEERS 64
#define COST_FLUSH_WQES  31
#define COST_FLUSH_BYTES (1u << 31)     /* the longest range there is */
/* A rule delays all doorbells of send queues until the clock steps. */
#define COST_HOLD \
    ",x-fault='at=doorbell number=%u times=0 delay-ns=1000 do=delay'"

/* Connected QPs, and for each pair the key of the range that it flushes. */
typedef struct Flushes {
    Qp a[COST_FLUSH_PAIRS], b[COST_FLUSH_PAIRS];
    uint32_t rkey[COST_FLUSH_PAIRS];
    uint64_t address;
    unsigned pairs;
} Flushes;

/* All pairs flush at the same time, each with a full send queue. */
static void cost_flush_all(Nic *n, Setup *s, Flushes *f, const char *input)
{
    struct fakernic_cqe cqe;
    uint64_t since;

    for (unsigned i = 0; i < f->pairs; i++) {
        Wqe wqe = wqe_rdma(s, FAKERNIC_SQ_FLUSH, 0, 0, COST_FLUSH_BYTES);

        wqe.rdma.rdma.flush = LE32(FAKERNIC_FLUSH_GLOBAL);
        wqe.rdma.rdma.remote_address = LE64(f->address);
        wqe.rdma.rdma.rkey = LE32(f->rkey[i]);
        for (unsigned k = 0; k < COST_FLUSH_WQES; k++) {
            sq_put(n, &f->a[i], &wqe, sizeof(wqe));
        }
        since = main_cpu_us(n->m);
        sq_ring(n, &f->a[i]);
        g_assert_cmpuint(main_cpu_us(n->m) - since, <=, MONITOR_US);
    }
    g_assert_false(cq_poll(n, &s->cq, &cqe));
    since = main_cpu_us(n->m);
    qtest_clock_step(n->m->qts, 1000);
    monitor_must_answer(n->m, input, since);
    for (unsigned i = 0; i < f->pairs * COST_FLUSH_WQES; i++) {
        cq_await(n, &s->cq, &cqe, FAKERNIC_CQE_FLUSH, FAKERNIC_WC_SUCCESS);
    }
    queue_record(n, &s->cq, s->cq.index);
    cost_check(n, input);
}

/* Binds a window on all of memory for the peer of 'qp'. Returns its key. */
static uint32_t cost_dma_window(Nic *n, Setup *s, Qp *qp)
{
    const struct fakernic_create_mr_req all = {
        .pdn = LE32(s->pd),
        .access = LE32(FAKERNIC_ACCESS_MW_BIND),
        .type = FAKERNIC_MR_DMA,
    };
    const struct fakernic_create_mw_req create = {
        .pdn = LE32(s->pd), .type = FAKERNIC_MW_TYPE_2B, .tag = 1,
    };
    const uint32_t key = cmd_create(n, FAKERNIC_CMD_CREATE_MW, &create,
                                    sizeof(create));
    const struct fakernic_sq_bind_mw bind = {
        .length = LE64(1ull << 62),
        .access = LE32(FAKERNIC_ACCESS_FLUSH_GLOBAL),
        .mr_key = LE32(cmd_create(n, FAKERNIC_CMD_CREATE_MR, &all,
                                  sizeof(all))),
        .mw_key = LE32(key),
        .new_key = LE32(key ^ 3),
    };
    Wqe wqe = {
        .hdr = { .opcode = FAKERNIC_SQ_BIND_MW, .bb_count = 1 },
    };

    memcpy(wqe.bytes + sizeof(wqe.hdr), &bind, sizeof(bind));
    sq_put(n, qp, &wqe, sizeof(wqe));
    sq_ring(n, qp);
    return key ^ 3;
}

/* Creates an on-demand region of the longest range that a FLUSH may name. No
 * page is present, but the device has a table for each part of the range and
 * must look at all of them. */
static uint32_t cost_absent_pages(Nic *n, Setup *s)
{
    const uint64_t step = ODP_TABLE_PAGES * (uint64_t)FAKERNIC_PAGE_SIZE;
    const uint32_t key = cost_on_demand(n, s, COST_FLUSH_BYTES /
                                              FAKERNIC_PAGE_SIZE,
                                        FAKERNIC_ACCESS_FLUSH_GLOBAL);
    struct fakernic_update_pages_req present = {
        .key = LE32(key),
        .flags = LE32(FAKERNIC_PAGES_PRESENT),
        .pages = contiguous(s->data, FAKERNIC_PAGE_SIZE),
    };
    struct fakernic_update_pages_req absent = {
        .key = LE32(key),
        .flags = LE32(FAKERNIC_PAGES_ABSENT),
        .pages = { .page_count = LE32(1) },
    };

    for (uint64_t at = 0; at < COST_FLUSH_BYTES; at += step) {
        present.address = absent.address = LE64(COST_ODP_BASE + at);
        assert_status(CMD(n, UPDATE_PAGES, present), OK);
        assert_status(CMD(n, UPDATE_PAGES, absent), OK);
    }
    return key;
}

/* A global FLUSH is one barrier, whatever its range: over absent pages, and
 * over a window on all of memory. */
static void test_cost_flush_global(void)
{
    g_autofree char *hold = g_strdup_printf(COST_HOLD, FAKERNIC_DOORBELL_SQ);
    Machine m;
    Nic n;
    Setup s;
    Flushes f = { .address = COST_ODP_BASE, .pairs = COST_FLUSH_PAIRS };

    cost_start(&m, &n, hold);
    setup(&n, &s);
    cq_create(&n, &s.cq, 13, &s.eq, 0, 0);
    f.rkey[0] = cost_absent_pages(&n, &s);
    for (unsigned i = 0; i < COST_FLUSH_PAIRS; i++) {
        f.rkey[i] = f.rkey[0];
        rc_pair(&n, &s, &f.a[i], &f.b[i]);
    }
    cost_flush_all(&n, &s, &f, "global FLUSHes of 2 GiB of absent pages");
    f.address = s.data;
    for (unsigned i = 0; i < COST_FLUSH_PAIRS; i++) {
        f.rkey[i] = cost_dma_window(&n, &s, &f.b[i]);
    }
    qtest_clock_step(m.qts, 1000);
    cost_flush_all(&n, &s, &f, "global FLUSHes of 2 GiB of all memory");
    machine_stop(&m);
}

/* The same FLUSHes from a peer. The device counts the work of each frame when
 * it arrives, and later frames wait. */
static void test_cost_flush_frames(void)
{
    g_autofree char *hold = g_strdup_printf(
        ",turn-work=1048576,turn-us=1000000" COST_HOLD, FAKERNIC_DOORBELL_SQ);
    Neighbours t;
    Flushes f = { .address = COST_ODP_BASE, .pairs = COST_FLUSH_PEERS };

    neighbours_start(&t, hold, ",id=nic,turn-work=256,turn-us=1000000");
    cq_create(&t.nics[0], &t.s[0].cq, 13, &t.s[0].eq, 0, 0);
    f.rkey[0] = cost_absent_pages(&t.nics[1], &t.s[1]);
    for (unsigned i = 0; i < COST_FLUSH_PEERS; i++) {
        f.rkey[i] = f.rkey[0];
        neighbours_connect(&t, &f.a[i], &f.b[i]);
    }
    cost_flush_all(&t.nics[0], &t.s[0], &f, "global FLUSHes of a peer");
    machine_stop(&t.m);
}

/* The largest number of copies of a frame, behind the largest number of
 * rules. */
static void test_cost_copies(void)
{
    struct fakernic_create_flow_req rule = {
        .type = FAKERNIC_FLOW_SNIFFER,
    };
    struct fakernic_create_qp_req req;
    struct fakernic_modify_qp_req init = {
        .mask = LE32(FAKERNIC_QP_ATTR_STATE | FAKERNIC_QP_ATTR_PORT),
        .attr = { .state = FAKERNIC_QPS_INIT, .port = 1 },
    };
    uint8_t frame[1514];
    struct fakernic_cqe cqe;
    Machine m;
    Nic n;
    Setup s;
    Queue rq;
    unsigned rules = 0;
    uint64_t since;
    uint32_t qpn;
    uint8_t status;
    int fds[2];

    g_assert_cmpint(socketpair(AF_UNIX, SOCK_DGRAM, 0, fds), ==, 0);
    machine_start(&m, "-netdev dgram,id=n0,local.type=fd,local.str=%d "
                  "%s,netdev=n0", fds[1], COST_DEVICE);
    close(fds[1]);
    nic_find(&n, &m, SLOT);
    nic_bringup(&n);
    setup(&n, &s);
    cq_create(&n, &s.cq, 10, &s.eq, 0, 0);
    req = cost_qp_req(&n, &s, &s.cq);
    req.type = FAKERNIC_QP_RAW_PACKET;
    req.rq_pages = queue_alloc(&n, &rq, 10, 6);
    req.rq_log_depth = 10;
    qpn = cmd_create(&n, FAKERNIC_CMD_CREATE_QP, &req, sizeof(req));
    init.qpn = LE32(qpn);
    assert_status(CMD(&n, MODIFY_QP, init), OK);
    assert_status(qp_to(&n, qpn, FAKERNIC_QPS_RTR), OK);
    for (unsigned i = 0; i < 1000; i++) {
        rq_post(&n, &rq, i, s.data, 2048, s.key);
    }
    rule.qpn = LE32(qpn);
    while ((status = CMD(&n, CREATE_FLOW, rule)) == FAKERNIC_CMD_OK) {
        rules++;
    }
    g_assert_cmpuint(status, ==, FAKERNIC_CMD_NO_RESOURCE);
    g_assert_cmpuint(rules, ==, 64);
    /* Rules that match no frame, and one that would copy. */
    rule.type = FAKERNIC_FLOW_NORMAL;
    rule.mask.ethertype = 0xffff;
    for (unsigned i = 0; i < 900; i++) {
        rule.value.ethertype = LE16(i);
        cmd_create(&n, FAKERNIC_CMD_CREATE_FLOW, &rule, sizeof(rule));
    }
    rule.flags = FAKERNIC_FLOW_DONT_TRAP;
    assert_status(CMD(&n, CREATE_FLOW, rule), NO_RESOURCE);
    frame_make(frame, nic_mac, sizeof(frame));
    since = main_cpu_us(&m);
    for (unsigned i = 0; i < 10; i++) {
        wire_send(fds[0], frame, sizeof(frame));
    }
    monitor_must_answer(&m, "frames that many rules copy", since);
    for (unsigned i = 0; i < 10 * rules; i++) {
        cq_expect(&n, &s.cq, &cqe, FAKERNIC_CQE_RECV, FAKERNIC_WC_SUCCESS);
    }
    close(fds[0]);
    cost_stop(&n, "frames that many rules copy");
}

/* The largest number of QPs receives each datagram to their group. */
static void test_cost_multicast(Rig *r)
{
    static const uint8_t group[16] = { [10] = 0xff, 0xff, 224, 0, 1, 9 };
    struct fakernic_modify_qp_req modify = {
        .mask = LE32(FAKERNIC_QP_ATTR_STATE | FAKERNIC_QP_ATTR_PKEY_INDEX |
                     FAKERNIC_QP_ATTR_PORT | FAKERNIC_QP_ATTR_QKEY),
        .attr = { .state = FAKERNIC_QPS_INIT, .port = 1, .qkey = LE32(7) },
    };
    struct fakernic_mcast_req attach;
    struct {
        struct fakernic_sq_hdr hdr;
        struct fakernic_sq_ud ud;
        struct fakernic_sge sge;
        uint8_t rest[48];
    } wqe = {
        .hdr = { .opcode = FAKERNIC_SQ_SEND, .sge_count = 1, .bb_count = 2 },
        .ud = { .dest_qpn = LE32(FAKERNIC_QPN_MULTICAST), .qkey = LE32(7) },
    };
    uint64_t since;
    Qp qp[64];

    cq_create(&r->n, &r->s.cq, 10, &r->s.eq, 0, 0);
    attach = (struct fakernic_mcast_req) { 0 };
    memcpy(attach.gid, group, sizeof(attach.gid));
    for (unsigned i = 0; i < ARRAY_SIZE(qp); i++) {
        qp_create(&r->n, &qp[i], FAKERNIC_QP_UD, r->s.pd, &r->s.cq, 0);
        modify.qpn = attach.qpn = LE32(qp[i].qpn);
        assert_status(CMD(&r->n, MODIFY_QP, modify), OK);
        assert_status(qp_to(&r->n, qp[i].qpn, FAKERNIC_QPS_RTR), OK);
        assert_status(CMD(&r->n, ATTACH_MCAST, attach), OK);
        for (unsigned k = 0; k < 8; k++) {
            rq_post(&r->n, &qp[i].rq, k, r->s.data + 4096, 4096, r->s.key);
        }
    }
    modify.mask = LE32(FAKERNIC_QP_ATTR_STATE | FAKERNIC_QP_ATTR_SQ_PSN);
    modify.attr.state = FAKERNIC_QPS_RTS;
    modify.qpn = LE32(qp[0].qpn);
    assert_status(CMD(&r->n, MODIFY_QP, modify), OK);
    memcpy(wqe.ud.av.dgid, group, sizeof(group));
    wqe.sge =
        (struct fakernic_sge) { LE64(r->s.data), LE32(64), LE32(r->s.key) };
    for (unsigned k = 0; k < 8; k++) {
        sq_put(&r->n, &qp[0], &wqe, sizeof(wqe));
    }
    since = main_cpu_us(&r->m);
    sq_ring(&r->n, &qp[0]);
    monitor_must_answer(&r->m, "datagrams to a full group", since);
    for (unsigned i = 0; i < 8 * (ARRAY_SIZE(qp) - 1); i++) {
        rig_cqe(r, FAKERNIC_CQE_RECV, FAKERNIC_WC_SUCCESS);
    }
    cost_check(&r->n, "datagrams to a full group");
}

#define COST_FRAMES 20000
#define COST_FRAME  14

/* The shortest possible frames, as fast as a stream delivers them. */
static void test_cost_short_frames(void)
{
    struct {
        uint8_t length[4];      /* the stream's own, big endian */
        uint8_t frame[COST_FRAME];
    } frames[100];
    Machine m;
    Nic n;
    int fds[2];

    g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), ==, 0);
    machine_start(&m, "-netdev socket,id=n0,fd=%d %s,netdev=n0", fds[1],
                  COST_DEVICE);
    close(fds[1]);
    nic_find(&n, &m, SLOT);
    nic_bringup(&n);
    for (unsigned i = 0; i < ARRAY_SIZE(frames); i++) {
        memset(frames[i].length, 0, sizeof(frames[i].length));
        frames[i].length[3] = COST_FRAME;
        frame_make(frames[i].frame, nic_mac, COST_FRAME);
    }
    for (unsigned i = 0; i < COST_FRAMES; i += ARRAY_SIZE(frames)) {
        g_assert_cmpint(send(fds[0], frames, sizeof(frames), 0), ==,
                        sizeof(frames));
    }
    for (unsigned i = 0; i < 1000; i++) {
        if (nic_stat(&n, FAKERNIC_STAT_RX_FRAMES) == COST_FRAMES) {
            break;
        }
    }
    g_assert_cmpuint(nic_stat(&n, FAKERNIC_STAT_RX_FRAMES), ==, COST_FRAMES);
    close(fds[0]);
    cost_stop(&n, "a flood of short frames");
}

/* ---- messages ---------------------------------------------------------- */

#define COST_MESSAGES 16
/* DMAs of all messages together that depend on when a turn ends. */
#define COST_MORE 2

/* What one device did: x-activity, and the frames that it sent. */
typedef struct CostCounts {
    uint64_t sends, arms, events;       /* doorbells */
    uint64_t others;                    /* all other accesses by the guest */
    uint64_t interrupts, reads, writes, maps, frames;
} CostCounts;

static QObject *cost_query(Machine *m, unsigned nic, const char *property)
{
    g_autofree char *path = g_strdup_printf("/machine/peripheral/nic%u", nic);
    QDict *reply = qtest_qmp(m->qts, "{ 'execute': 'qom-get', 'arguments': {"
                             " 'path': %s, 'property': %s } }", path, property);
    QObject *found = qobject_from_json(qdict_get_str(reply, "return"),
                                       &error_abort);

    qobject_unref(reply);
    return found;
}

static bool cost_is_other_access(const char *name)
{
    return g_str_has_prefix(name, "load-") ||
           g_str_has_prefix(name, "store-") ||
           g_str_has_prefix(name, "config-") || !strcmp(name, "msix") ||
           !strcmp(name, "doorbell-poll") || !strcmp(name, "doorbell-other") ||
           !strcmp(name, "doorbell-load");
}

static CostCounts cost_counts(Machine *m, unsigned nic)
{
    QDict *did = qobject_to(QDict, cost_query(m, nic, "x-activity"));
    QList *sets = qobject_to(QList, cost_query(m, nic, "x-counters"));
    CostCounts counts = {
        .sends = qdict_get_int(did, "doorbell-sq"),
        .arms = qdict_get_int(did, "doorbell-cq-arm"),
        .events = qdict_get_int(did, "doorbell-eq"),
        .interrupts = qdict_get_int(did, "interrupt"),
        .reads = qdict_get_int(did, "dma-read"),
        .writes = qdict_get_int(did, "dma-write") +
                  qdict_get_int(did, "dma-atomic"),
        .maps = qdict_get_int(did, "dma-map"),
        .frames = qdict_get_int(qobject_to(QDict, qlist_peek(sets)),
                                "tx_frames"),
    };

    for (const QDictEntry *e = qdict_first(did); e; e = qdict_next(did, e)) {
        if (cost_is_other_access(qdict_entry_key(e))) {
            counts.others += qdict_get_int(did, qdict_entry_key(e));
        }
    }
    qobject_unref(did);
    qobject_unref(sets);
    return counts;
}

static CostCounts cost_since(Machine *m, unsigned nic, const CostCounts *then)
{
    const CostCounts now = cost_counts(m, nic);

    return (CostCounts) {
        .sends = now.sends - then->sends,
        .arms = now.arms - then->arms,
        .events = now.events - then->events,
        .others = now.others - then->others,
        .interrupts = now.interrupts - then->interrupts,
        .reads = now.reads - then->reads,
        .writes = now.writes - then->writes,
        .maps = now.maps - then->maps,
        .frames = now.frames - then->frames,
    };
}

/* An operation, and the most that a message of it may cost: DMAs and frames of
 * the requester, then of the responder. */
typedef struct CostOf {
    const char *name;
    uint8_t opcode, completion;
    uint32_t size;
    unsigned reads, writes, frames, far_reads, far_writes, far_frames;
} CostOf;

/* With a path MTU of 1,024 bytes. A requester reads WQE and payload, and writes
 * a CQE and the answer. A responder reads the producer index of its receive
 * queue for the credits of each ACK. */
static const CostOf cost_of[] = {
    { "WRITE of 8", FAKERNIC_SQ_RDMA_WRITE, FAKERNIC_CQE_RDMA_WRITE, 8,
      2, 1, 1, 1, 1, 1 },
    { "WRITE of 4096", FAKERNIC_SQ_RDMA_WRITE, FAKERNIC_CQE_RDMA_WRITE, 4096,
      5, 1, 4, 1, 4, 1 },
    { "SEND of 8", FAKERNIC_SQ_SEND, FAKERNIC_CQE_SEND, 8,
      2, 1, 1, 3, 2, 1 },
    { "READ of 8", FAKERNIC_SQ_RDMA_READ, FAKERNIC_CQE_RDMA_READ, 8,
      1, 2, 1, 2, 0, 1 },
    { "READ of 4096", FAKERNIC_SQ_RDMA_READ, FAKERNIC_CQE_RDMA_READ, 4096,
      1, 5, 1, 6, 0, 4 },
    { "FETCH_ADD", FAKERNIC_SQ_ATOMIC_FETCH_ADD, FAKERNIC_CQE_FETCH_ADD,
      8, 2, 2, 1, 1, 1, 1 },
};

static void cost_put(Neighbours *t, const CostOf *of)
{
    if (of->opcode == FAKERNIC_SQ_ATOMIC_FETCH_ADD) {
        AtomicWqe wqe = wqe_atomic(&t->s[0], of->opcode, 0, 0, 1);

        wqe.atomic.remote_address = LE64(t->s[1].data);
        wqe.atomic.rkey = LE32(t->s[1].key);
        sq_put(&t->nics[0], &t->qp[0], &wqe, sizeof(wqe));
    } else if (of->opcode == FAKERNIC_SQ_SEND) {
        Wqe wqe = wqe_send(&t->s[0], 0, of->size);

        rq_post(&t->nics[1], &t->qp[1].rq, 0, t->s[1].data, of->size,
                t->s[1].key);
        sq_put(&t->nics[0], &t->qp[0], &wqe, sizeof(wqe));
    } else {
        Wqe wqe = wqe_rdma(&t->s[0], of->opcode, 0, 0, of->size);

        wqe.rdma.rdma.remote_address = LE64(t->s[1].data);
        wqe.rdma.rdma.rkey = LE32(t->s[1].key);
        sq_put(&t->nics[0], &t->qp[0], &wqe, sizeof(wqe));
    }
}

static void cost_take(Neighbours *t, const CostOf *of)
{
    struct fakernic_cqe cqe;

    cq_expect(&t->nics[0], &t->s[0].cq, &cqe, of->completion,
              FAKERNIC_WC_SUCCESS);
    queue_record(&t->nics[0], &t->s[0].cq, t->s[0].cq.index);
    if (of->opcode == FAKERNIC_SQ_SEND) {
        cq_expect(&t->nics[1], &t->s[1].cq, &cqe, FAKERNIC_CQE_RECV,
                  FAKERNIC_WC_SUCCESS);
    }
}

static void cost_say(const char *name, const char *end, const CostCounts *c)
{
    g_test_message("%u x %s, %s: doorbells %" PRIu64 ", reads %" PRIu64
                   ", writes %" PRIu64 ", mappings %" PRIu64 ", frames %"
                   PRIu64, COST_MESSAGES, name, end, c->sends, c->reads,
                   c->writes, c->maps, c->frames);
}

/* The DMAs of the event index in each direction: one after each doorbell of a
 * queue that does not stay awake. */
static uint64_t cost_events(uint64_t features, const CostCounts *near)
{
    return features & FAKERNIC_FEATURE_SHADOW_DOORBELL ? near->sends : 0;
}

static void cost_judge(const CostOf *of, uint64_t features,
                       const CostCounts *near, const CostCounts *far)
{
    const uint64_t events = cost_events(features, near);

    cost_say(of->name, "requester", near);
    cost_say(of->name, "responder", far);
    g_assert_cmpuint(near->others, ==, 0);
    g_assert_cmpuint(far->others, ==, 0);
    g_assert_cmpuint(near->interrupts, ==, 0);
    g_assert_cmpuint(far->interrupts, ==, 0);
    g_assert_cmpuint(near->reads, <=,
                     of->reads * COST_MESSAGES + events + COST_MORE);
    g_assert_cmpuint(near->writes, <=, of->writes * COST_MESSAGES + events);
    g_assert_cmpuint(near->maps, <=, of->writes * COST_MESSAGES + events);
    g_assert_cmpuint(near->frames, <=, of->frames * COST_MESSAGES);
    g_assert_cmpuint(far->reads, <=, of->far_reads * COST_MESSAGES + COST_MORE);
    g_assert_cmpuint(far->writes, <=, of->far_writes * COST_MESSAGES);
    g_assert_cmpuint(far->maps, <=, of->far_writes * COST_MESSAGES);
    g_assert_cmpuint(far->frames, <=, of->far_frames * COST_MESSAGES);
}

/* Polled messages, one doorbell each: DMAs and frames stay within the table,
 * and nothing else reaches or leaves the device. */
static void test_cost_messages(void)
{
    Neighbours t;

    neighbours_start(&t, ",id=nic0", ",id=nic1");
    for (unsigned i = 0; i < ARRAY_SIZE(cost_of); i++) {
        const CostCounts then = cost_counts(&t.m, 0);
        const CostCounts far_then = cost_counts(&t.m, 1);
        CostCounts near, far;

        for (unsigned j = 0; j < COST_MESSAGES; j++) {
            cost_put(&t, &cost_of[i]);
            sq_ring(&t.nics[0], &t.qp[0]);
            cost_take(&t, &cost_of[i]);
        }
        near = cost_since(&t.m, 0, &then);
        far = cost_since(&t.m, 1, &far_then);
        g_assert_cmpuint(near.sends, ==, COST_MESSAGES);
        g_assert_cmpuint(far.sends, ==, 0);
        cost_judge(&cost_of[i], t.nics[0].features, &near, &far);
    }
    machine_stop(&t.m);
}

/* Messages that share one doorbell need no more DMAs, and fewer ACKs. */
static void test_cost_burst(void)
{
    const CostOf *of = &cost_of[0];
    CostCounts then, far_then, near, far;
    Neighbours t;

    neighbours_start(&t, ",id=nic0", ",id=nic1");
    then = cost_counts(&t.m, 0);
    far_then = cost_counts(&t.m, 1);
    for (unsigned j = 0; j < COST_MESSAGES; j++) {
        cost_put(&t, of);
    }
    sq_ring(&t.nics[0], &t.qp[0]);
    for (unsigned j = 0; j < COST_MESSAGES; j++) {
        cost_take(&t, of);
    }
    near = cost_since(&t.m, 0, &then);
    far = cost_since(&t.m, 1, &far_then);
    g_assert_cmpuint(near.sends, ==, 1);
    cost_judge(of, t.nics[0].features, &near, &far);
    g_assert_cmpuint(far.frames, <=, COST_MESSAGES / 4);
    machine_stop(&t.m);
}

/* With events, a message adds an arm, an interrupt, an EQE and an EQ doorbell,
 * and nothing else. */
static void test_cost_armed(void)
{
    const CostOf *of = &cost_of[0];
    CostCounts then, near;
    uint64_t events;
    Neighbours t;
    Nic *n = &t.nics[0];
    Setup *s = &t.s[0];

    neighbours_start(&t, ",id=nic0", ",id=nic1");
    then = cost_counts(&t.m, 0);
    for (unsigned j = 0; j < COST_MESSAGES; j++) {
        cq_arm(n, &s->cq, 0, false);
        cost_put(&t, of);
        sq_ring(n, &t.qp[0]);
        g_assert_cmpuint(eq_expect(n, &s->eq, FAKERNIC_EVENT_COMPLETION), ==,
                         s->cq.id);
        eq_ring(n, &s->eq, true);
        cost_take(&t, of);
    }
    near = cost_since(&t.m, 0, &then);
    g_assert_cmpuint(near.sends, ==, COST_MESSAGES);
    g_assert_cmpuint(near.arms, ==, COST_MESSAGES);
    g_assert_cmpuint(near.events, ==, COST_MESSAGES);
    g_assert_cmpuint(near.others, ==, 0);
    g_assert_cmpuint(near.interrupts, ==, COST_MESSAGES);
    events = cost_events(t.nics[0].features, &near);
    g_assert_cmpuint(near.reads, <=,
                     of->reads * COST_MESSAGES + events + COST_MORE);
    g_assert_cmpuint(near.writes, <=,
                     (of->writes + 1) * COST_MESSAGES + events);
    machine_stop(&t.m);
}

/* Each access is counted once, under its own name. */
static void test_cost_activity(void)
{
    /* accesses behind the registers */
    g_autofree char *load = g_strdup_printf("load-0x%03x", FAKERNIC_REG_END);
    g_autofree char *store = g_strdup_printf("store-0x%03x", FAKERNIC_REG_END);
    Machine m;
    Nic n;
    QDict *did;
    uint64_t before, configured;

    machine_start(&m, "%s,id=nic0", DEVICE);
    nic_find(&n, &m, SLOT);
    nic_bringup(&n);
    did = qobject_to(QDict, cost_query(&m, 0, "x-activity"));
    before = qdict_get_int(did, "load-0x020");
    configured = qdict_get_int(did, "config-load");
    g_assert_cmpint(qdict_get_int(did, "msix"), >, 0);
    g_assert_false(qdict_haskey(did, store));
    qobject_unref(did);
    reg_read(&n, FAKERNIC_REG_STATUS);
    reg_read(&n, FAKERNIC_REG_END + 64);
    reg_write(&n, FAKERNIC_REG_END, 1);
    ring(&n, 1, FAKERNIC_DOORBELL_POLL, 0);
    ring(&n, 1, FAKERNIC_PAGE_SIZE - 8, 0);
    qtest_readq(m.qts, n.uar.addr);
    qpci_config_readw(n.pci, PCI_COMMAND);
    did = qobject_to(QDict, cost_query(&m, 0, "x-activity"));
    g_assert_cmpint(qdict_get_int(did, "load-0x020"), ==, before + 1);
    g_assert_cmpint(qdict_get_int(did, load), ==, 1);
    g_assert_cmpint(qdict_get_int(did, store), ==, 1);
    g_assert_cmpint(qdict_get_int(did, "doorbell-poll"), ==, 1);
    g_assert_cmpint(qdict_get_int(did, "doorbell-other"), ==, 1);
    g_assert_cmpint(qdict_get_int(did, "doorbell-load"), ==, 1);
    g_assert_cmpint(qdict_get_int(did, "doorbell-sq"), ==, 0);
    g_assert_cmpint(qdict_get_int(did, "config-load"), ==, configured + 1);
    qobject_unref(did);
    g_free(n.pci);
    machine_stop(&m);
}

/* ---- queries ----------------------------------------------------------- */

/* The test fills the command queue with queries, 100 times. */
static void test_cost_queries(Rig *r)
{
    static const uint16_t opcodes[] = {
        FAKERNIC_CMD_QUERY_DEVICE,
        FAKERNIC_CMD_QUERY_PORT,
        FAKERNIC_CMD_QUERY_STATS,
        FAKERNIC_CMD_QUERY_QP,
        FAKERNIC_CMD_QUERY_PAGE_REQUESTS,
    };
    struct fakernic_cmd_completion completion;
    struct fakernic_query_stats_req stats;
    struct fakernic_id id;

    stats = (struct fakernic_query_stats_req) {
        .address = LE64(r->s.data),
        .length = LE32(FAKERNIC_STAT_COUNT * 8),
    };
    id.id = LE32(r->a.qpn);
    id.rsvd = 0;
    for (unsigned round = 0; round < 100; round++) {
        const uint32_t first = r->n.cmd_pi;

        for (unsigned i = 0; i < 15; i++) {
            uint16_t opcode = opcodes[i % ARRAY_SIZE(opcodes)];
            bool one = opcode == FAKERNIC_CMD_QUERY_QP;
            bool all = opcode == FAKERNIC_CMD_QUERY_STATS;

            cost_submit(&r->n, opcode, one ? (void *)&id : (void *)&stats,
                        one ? sizeof(id) : all ? sizeof(stats)
                                               : 0);
        }
        cmd_ring(&r->n);
        for (unsigned i = 0; i < 15; i++) {
            cmd_wait(&r->n, first + i, &completion);
            g_assert_cmpuint(completion.status, ==, FAKERNIC_CMD_OK);
        }
    }
    cost_check(&r->n, "a queue full of QUERY commands");
}

/* ---- memory ------------------------------------------------------------ */

#define COST_MEMORY (64u << 20)
/* For small objects, and for memory that the allocator cannot reuse. */
#define COST_MEMORY_SLACK (24u << 20)

/* Repeats a command that creates an object until the device refuses. Returns
 * the number of objects. */
static unsigned cost_create_all(Nic *n, uint16_t opcode, const void *req,
                                size_t len)
{
    unsigned count = 0;
    uint8_t status;

    while ((status = cmd(n, opcode, req, len, NULL, 0)) == FAKERNIC_CMD_OK) {
        count++;
    }
    g_assert_cmpuint(status, ==, FAKERNIC_CMD_NO_RESOURCE);
    return count;
}

/* The largest rings. The device notices only at the first access that they
 * have no memory. */
static struct fakernic_create_qp_req cost_large_qp(const Setup *s)
{
    const struct fakernic_page_list pages = {
        .page_count = LE32(8193), .page_shift = FAKERNIC_PAGE_SHIFT,
    };

    return (struct fakernic_create_qp_req) {
        .sq_pages = pages, .rq_pages = pages,
        .type = FAKERNIC_QP_RC,
        .sq_log_depth = 16, .rq_log_depth = 16,
        .rq_log_stride = 9,
        .pdn = LE32(s->pd),
        .send_cqn = LE32(s->cq.id),
        .recv_cqn = LE32(s->cq.id),
    };
}

/* A guest creates all the objects it can, several times; a reset between the
 * rounds frees them. */
static void test_cost_memory(void)
{
    struct fakernic_create_mr_req large = {
        .iova = LE64(1ull << 40),
        .length = LE64(1ull << 32),
        .type = FAKERNIC_MR_MEMORY,
    }, small;
    struct fakernic_create_qp_req qp;
    Machine m;
    Nic n;
    Setup s;
    uint64_t before, since;

    cost_start(&m, &n, ",max-memory=64M");
    large.pages = cost_list(&m, 1u << 20);
    before = anonymous_memory(&n);
    for (unsigned round = 0; round < 3; round++) {
        uint64_t taken;
        unsigned regions, qps;

        setup(&n, &s);
        qp = cost_large_qp(&s);
        large.pdn = LE32(s.pd);
        small = large;
        small.length = LE64(1ull << 26);
        /* Regions first, QPs first, or alternately. */
        qps = round == 1 ? cost_create_all(&n, FAKERNIC_CMD_CREATE_QP, &qp,
                                           sizeof(qp)) : 0;
        regions = cost_status(&n, FAKERNIC_CMD_CREATE_MR, &large, sizeof(large),
                              "CREATE_MR of 4 GiB") == FAKERNIC_CMD_OK;
        regions += cost_create_all(&n, FAKERNIC_CMD_CREATE_MR, &large,
                                   sizeof(large));
        regions += cost_create_all(&n, FAKERNIC_CMD_CREATE_MR, &small,
                                   sizeof(small));
        qps += cost_create_all(&n, FAKERNIC_CMD_CREATE_QP, &qp, sizeof(qp));
        taken = anonymous_memory(&n) - MIN(before, anonymous_memory(&n));
        g_test_message("%u regions, %u QPs: %" PRIu64 " KiB taken of %u",
                       regions, qps, taken / 1024, COST_MEMORY / 1024);
        g_assert_cmpuint(regions + qps, >, round == 1 ? 100 : 7);
        g_assert_cmpuint(taken, <=, COST_MEMORY + COST_MEMORY_SLACK);
        since = main_cpu_us(&m);
        reg_write(&n, FAKERNIC_REG_CONTROL, FAKERNIC_CONTROL_RESET);
        monitor_must_answer(&m, "a reset of as much memory as there is", since);
        nic_bringup(&n);
    }
    cost_stop(&n, "as much memory as there is");
}

#define COST_INLINE_BBS 9
#define COST_INLINES    227     /* in a ring of 2^11 */

/* Memory use of unanswered requests: as many QPs as possible, each with the
 * largest number of the largest sends in flight. */
static void test_cost_sends(void)
{
    static const uint8_t peer_mac[6] = { 2, 0, 0, 0, 0, 9 };
    static const uint8_t peer_gid[16] = { [10] = 0xff, 0xff, 10, 0, 0, 9 };
    const struct fakernic_sq_hdr write = {
        .opcode = FAKERNIC_SQ_RDMA_WRITE,
        .flags = FAKERNIC_SQ_INLINE,
        .bb_count = COST_INLINE_BBS,
        .inline_length = LE16(FAKERNIC_INLINE_MAX),
    };
    g_autofree uint32_t *qpn = g_new(uint32_t, COST_MEMORY / 1024);
    struct fakernic_create_qp_req req;
    Machine m;
    Nic n;
    Setup s;
    Queue sq;
    uint64_t before, made, taken, since = 0;
    unsigned count = 0;

    cost_start(&m, &n, ",max-memory=64M");
    setup(&n, &s);
    req = cost_qp_req(&n, &s, &s.cq);
    req.sq_log_depth = 11;
    req.sq_pages = queue_alloc(&n, &sq, 11, FAKERNIC_SQ_BB_SHIFT);
    for (unsigned i = 0; i < COST_INLINES; i++) {
        qtest_memwrite(m.qts, queue_entry(&sq, i * COST_INLINE_BBS), &write,
                       sizeof(write));
    }
    before = anonymous_memory(&n);
    while (cmd(&n, FAKERNIC_CMD_CREATE_QP, &req, sizeof(req), &qpn[count],
               sizeof(qpn[0])) == FAKERNIC_CMD_OK) {
        qpn[count] = le32_to_cpu(qpn[count]);
        rc_connect(&n, qpn[count], 77, peer_gid, peer_mac);
        count++;
    }
    made = anonymous_memory(&n) - before;
    for (unsigned i = 0; i < count; i++) {
        since = main_cpu_us(&m);
        ring(&n, 0, FAKERNIC_DOORBELL_SQ,
             doorbell(qpn[i], COST_INLINES * COST_INLINE_BBS));
    }
    monitor_must_answer(&m, "as many sends as there can be", since);
    taken = anonymous_memory(&n) - before;
    g_test_message("%u QPs: %" PRIu64 " KiB, and with their sends %" PRIu64
                   " KiB of %u", count, made / 1024, taken / 1024,
                   COST_MEMORY / 1024);
    /* The sends must be in flight. The QPs share the window, so each has half
     * of what it could have alone (ROCE_WINDOW_SHARE). */
    g_assert_cmpuint(taken, >, 2 * made);
    g_assert_cmpuint(taken, >, COST_MEMORY / 3);
    g_assert_cmpuint(taken, <=, COST_MEMORY + COST_MEMORY_SLACK / 8);
    cost_stop(&n, "as many sends as there can be");
}

#define COST_LARGE          7   /* regions of 4 GiB in COST_MEMORY */
#define COST_REGION_ROUNDS  8

/*
 * The test creates and destroys large regions: the device frees deferred memory
 * before it allocates the same amount again. Then it creates as many of the
 * smallest QPs as the memory limit allows.
 */
static void test_cost_deferred_memory(void)
{
    struct fakernic_create_mr_req large = {
        .iova = LE64(1ull << 40),
        .length = LE64(1ull << 32),
        .type = FAKERNIC_MR_MEMORY,
    };
    struct fakernic_create_qp_req req;
    uint32_t keys[COST_LARGE];
    uint64_t before, most = 0;
    unsigned qps;
    Machine m;
    Nic n;
    Setup s;

    cost_start(&m, &n, ",max-memory=64M,max-qp=65536");
    setup(&n, &s);
    large.pages = cost_list(&m, 1u << 20);
    large.pdn = LE32(s.pd);
    before = anonymous_memory(&n);
    for (unsigned round = 0; round < COST_REGION_ROUNDS; round++) {
        for (unsigned i = 0; i < COST_LARGE; i++) {
            keys[i] = cmd_create(&n, FAKERNIC_CMD_CREATE_MR, &large,
                                 sizeof(large));
        }
        most = MAX(most, anonymous_memory(&n));
        for (unsigned i = 0; i < COST_LARGE; i++) {
            assert_status(cmd_id(&n, FAKERNIC_CMD_DESTROY_MR, keys[i]), OK);
        }
        most = MAX(most, anonymous_memory(&n));
    }
    g_test_message("%u regions of 4 GiB, %u times: %" PRIu64 " KiB taken of %u",
                   COST_LARGE, COST_REGION_ROUNDS, (most - before) / 1024,
                   COST_MEMORY / 1024);
    /* The regions must have used memory. */
    g_assert_cmpuint(most - before, >=, COST_LARGE * (8u << 20));
    g_assert_cmpuint(most - before, <=, COST_MEMORY + COST_MEMORY_SLACK);
    req = cost_qp_req(&n, &s, &s.cq);
    req.type = FAKERNIC_QP_UD;
    req.sq_log_depth = req.rq_log_depth = FAKERNIC_QUEUE_NONE;
    req.rq_log_stride = 0;
    memset(&req.sq_pages, 0, sizeof(req.sq_pages));
    memset(&req.rq_pages, 0, sizeof(req.rq_pages));
    qps = cost_create_all(&n, FAKERNIC_CMD_CREATE_QP, &req, sizeof(req));
    most = anonymous_memory(&n) - MIN(before, anonymous_memory(&n));
    g_test_message("%u QPs: %" PRIu64 " KiB taken of %u", qps, most / 1024,
                   COST_MEMORY / 1024);
    g_assert_cmpuint(qps, >, 20000);
    g_assert_cmpuint(most, <=, COST_MEMORY + COST_MEMORY_SLACK);
    cost_stop(&n, "as many objects as there can be");
}

/* The largest number of each kind of object that max-memory does not count. */
static void test_cost_uncounted_objects(Rig *r)
{
    static const uint16_t plain[] = {
        FAKERNIC_CMD_ALLOC_PD, FAKERNIC_CMD_ALLOC_XRCD, FAKERNIC_CMD_ALLOC_UAR,
        FAKERNIC_CMD_CREATE_COUNTER,
    };
    struct fakernic_create_eq_req eq = { .log_depth = 4 };
    struct fakernic_create_cq_req cq = { .log_depth = 4 };
    struct fakernic_create_srq_req srq = { .log_depth = 4, .log_stride = 6 };
    struct fakernic_create_flow_req flow = {
        .mask = { .ethertype = 0xffff },
    };
    struct fakernic_create_qp_req qp;
    uint64_t before, taken;
    unsigned count = 0;
    Queue ring;

    qp = cost_qp_req(&r->n, &r->s, &r->s.cq);
    qp.type = FAKERNIC_QP_RAW_PACKET;
    flow.qpn = LE32(cmd_create(&r->n, FAKERNIC_CMD_CREATE_QP, &qp, sizeof(qp)));
    eq.pages = queue_alloc(&r->n, &ring, 4, 5);
    cq.pages = queue_alloc(&r->n, &ring, 4, 6);
    cq.eqn = LE32(r->s.eq.id);
    srq.pages = queue_alloc(&r->n, &ring, 4, 6);
    srq.pdn = LE32(r->s.pd);
    before = anonymous_memory(&r->n);
    count += cost_create_all(&r->n, FAKERNIC_CMD_CREATE_CQ, &cq, sizeof(cq));
    count += cost_create_all(&r->n, FAKERNIC_CMD_CREATE_SRQ, &srq, sizeof(srq));
    count += cost_create_all(&r->n, FAKERNIC_CMD_CREATE_EQ, &eq, sizeof(eq));
    count +=
        cost_create_all(&r->n, FAKERNIC_CMD_CREATE_FLOW, &flow, sizeof(flow));
    for (unsigned i = 0; i < ARRAY_SIZE(plain); i++) {
        count += cost_create_all(&r->n, plain[i], NULL, 0);
    }
    taken = anonymous_memory(&r->n) - before;
    g_test_message("%u objects: %" PRIu64 " KiB taken", count, taken / 1024);
    g_assert_cmpuint(count, >, 13000);
    /* The objects must have used memory. */
    g_assert_cmpuint(taken, >, count * 16);
    g_assert_cmpuint(taken, <=, count * 1024);
    cost_check(&r->n, "as many small objects as there can be");
}

#define COST_CONNECTED  2000
#define COST_REGIONS    8
#define COST_GIB_PAGES  (1u << 18)
/* Limits in bytes: a connected QP, a registered GiB, an idle device. */
#define COST_PER_QP     (4u << 10)
#define COST_PER_GIB    (5u << 19)
#define COST_IDLE       (16u << 20)

/* Memory that a machine uses in addition to one without the device. */
static uint64_t cost_idle(Nic *n)
{
    Machine m;
    Nic none = { .m = &m };
    uint64_t without;

    machine_start(&m, "%s", "");
    without = anonymous_memory(&none);
    machine_stop(&m);
    return anonymous_memory(n) - MIN(without, anonymous_memory(n));
}

/* Memory use of idle objects. */
static void test_cost_objects(Rig *r)
{
    static const uint8_t peer_mac[6] = { 2, 0, 0, 0, 0, 9 };
    static const uint8_t peer_gid[16] = { [10] = 0xff, 0xff, 10, 0, 0, 9 };
    struct fakernic_create_mr_req region = {
        .iova = LE64(1ull << 40),
        .length = LE64(1ull << 30),
        .type = FAKERNIC_MR_MEMORY,
    };
    struct fakernic_create_qp_req req;
    uint64_t idle, before, qp, gib, since;
    Setup s;

    idle = cost_idle(&r->n);
    setup(&r->n, &s);
    req = cost_qp_req(&r->n, &s, &s.cq);
    region.pages = cost_list(&r->m, COST_GIB_PAGES);
    region.pdn = LE32(s.pd);
    before = anonymous_memory(&r->n);
    for (unsigned i = 0; i < COST_CONNECTED; i++) {
        rc_connect(&r->n, cmd_create(&r->n, FAKERNIC_CMD_CREATE_QP, &req,
                                  sizeof(req)), 77, peer_gid, peer_mac);
    }
    qp = (anonymous_memory(&r->n) - before) / COST_CONNECTED;
    before = anonymous_memory(&r->n);
    since = main_cpu_us(&r->m);
    for (unsigned i = 0; i < COST_REGIONS; i++) {
        cmd_create(&r->n, FAKERNIC_CMD_CREATE_MR, &region, sizeof(region));
    }
    since = main_cpu_us(&r->m) - since;
    gib = (anonymous_memory(&r->n) - before) / COST_REGIONS;
    g_test_message("idle device %" PRIu64 " KiB, connected QP %" PRIu64
                   " bytes, registered GiB %" PRIu64 " KiB in %" PRIu64
                   " us of the main thread", idle / 1024, qp, gib / 1024,
                   since / COST_REGIONS);
    /* The objects must have used memory. */
    g_assert_cmpuint(qp, >, 1024);
    g_assert_cmpuint(gib, >=, COST_GIB_PAGES * 8);
    g_assert_cmpuint(qp, <=, COST_PER_QP);
    g_assert_cmpuint(gib, <=, COST_PER_GIB);
    g_assert_cmpuint(idle, <=, COST_IDLE);
    cost_check(&r->n, "objects that nothing goes on with");
}

/* ---- timers ------------------------------------------------------------- */

#define COST_TIMERS 3000

/* Thousands of unanswered requests time out at the same moment. The device
 * retries them until their QPs fail. */
static void test_cost_timers(Rig *r)
{
    static const uint8_t peer_mac[6] = { 2, 0, 0, 0, 0, 9 };
    static const uint8_t peer_gid[16] = { [10] = 0xff, 0xff, 10, 0, 0, 9 };
    struct fakernic_create_qp_req req;
    struct fakernic_cqe cqe;
    Queue sq;
    Wqe wqe;
    unsigned ended = 0;

    cq_create(&r->n, &r->s.cq, 12, &r->s.eq, 0, 0);
    req = cost_qp_req(&r->n, &r->s, &r->s.cq);
    req.sq_pages = queue_alloc(&r->n, &sq, 4, FAKERNIC_SQ_BB_SHIFT);
    wqe = wqe_rdma(&r->s, FAKERNIC_SQ_RDMA_WRITE, 0, 0, 64);
    qtest_memwrite(r->m.qts, sq.address, &wqe, sizeof(wqe));
    for (unsigned i = 0; i < COST_TIMERS; i++) {
        const uint32_t qpn = cmd_create(&r->n, FAKERNIC_CMD_CREATE_QP, &req,
                                        sizeof(req));

        rc_connect(&r->n, qpn, 77, peer_gid, peer_mac);
        ring(&r->n, 0, FAKERNIC_DOORBELL_SQ, doorbell(qpn, 1));
    }
    for (unsigned tries = 0; tries < 100 && ended < COST_TIMERS; tries++) {
        const uint64_t since = main_cpu_us(&r->m);

        /* Longer than the timeout may take (IBTA C9-140). */
        qtest_clock_step(r->m.qts, 500000000);
        monitor_must_answer(&r->m, "timers that are due at once", since);
        while (cq_poll(&r->n, &r->s.cq, &cqe)) {
            g_assert_cmpuint(cqe.status, ==, FAKERNIC_WC_RETRY_EXC_ERR);
            ended++;
        }
    }
    g_assert_cmpuint(ended, ==, COST_TIMERS);
    cost_check(&r->n, "timers that are due at once");
}

/* ---- resets ------------------------------------------------------------ */

#define COST_FEW ",max-qp=1024,max-mr=1024,max-cq=512,max-pd=512"

/* Creates as many QPs, regions, CQs and PDs as the device allows. */
static void cost_populate(Nic *n)
{
    struct fakernic_create_mr_req mr = {
        .iova = LE64(1ull << 40),
        .length = LE64(1ull << 24),
        .type = FAKERNIC_MR_MEMORY,
        .pages = cost_list(n->m, 1u << 12),
    };
    struct fakernic_create_cq_req cq = { .log_depth = 1 };
    struct fakernic_create_qp_req qp;
    Setup s;
    Queue ring;

    setup(n, &s);
    qp = cost_qp_req(n, &s, &s.cq);
    mr.pdn = LE32(s.pd);
    cq.pages = queue_alloc(n, &ring, 1, 6);
    cq.eqn = LE32(s.eq.id);
    g_assert_cmpuint(cost_create_all(n, FAKERNIC_CMD_CREATE_QP, &qp,
                                     sizeof(qp)), >, 1000);
    g_assert_cmpuint(cost_create_all(n, FAKERNIC_CMD_CREATE_MR, &mr,
                                     sizeof(mr)), >, 1000);
    g_assert_cmpuint(cost_create_all(n, FAKERNIC_CMD_CREATE_CQ, &cq,
                                     sizeof(cq)), >, 500);
    g_assert_cmpuint(cost_create_all(n, FAKERNIC_CMD_ALLOC_PD, NULL, 0), >,
                     500);
}

/*
 * A reset of many objects takes several turns. The main loop may end it before
 * this test reads STATUS, so the test tries up to ten times. nic_bringup()
 * begins the next reset while the first is in progress.
 */
static void test_cost_reset(void)
{
    bool seen = false;
    Machine m;
    Nic n;

    cost_start(&m, &n, COST_FEW);
    for (unsigned round = 0; round < 10 && !seen; round++) {
        uint64_t since;

        cost_populate(&n);
        since = main_cpu_us(&m);
        reg_write(&n, FAKERNIC_REG_CONTROL, FAKERNIC_CONTROL_RESET);
        seen = reg_read(&n, FAKERNIC_REG_STATUS) == 0;
        monitor_must_answer(&m, "a reset of thousands of objects", since);
        nic_bringup(&n);
    }
    g_assert_true(seen);
    cost_populate(&n);
    reg_write(&n, FAKERNIC_REG_CONTROL, FAKERNIC_CONTROL_RESET);
    cost_stop(&n, "a reset of thousands of objects");
}

/* A reset zeroes the largest device memory, some of it in each turn. */
static void test_cost_reset_dm(void)
{
    bool seen = false;
    Machine m;
    Nic n = { .m = &m };

    machine_start(&m, "%s,dm-size=256M", COST_DEVICE);
    n.pci = qpci_device_find(m.bus, QPCI_DEVFN(SLOT, 0));
    qpci_device_enable(n.pci);
    n.regs = qpci_iomap(n.pci, FAKERNIC_BAR_REGS, NULL);
    nic_await_reset(&n);
    for (unsigned round = 0; round < 10 && !seen; round++) {
        uint64_t since = main_cpu_us(&m);

        reg_write(&n, FAKERNIC_REG_CONTROL, FAKERNIC_CONTROL_RESET);
        seen = reg_read(&n, FAKERNIC_REG_STATUS) == 0;
        monitor_must_answer(&m, "a reset of 256 MiB of device memory", since);
        nic_await_reset(&n);
    }
    g_assert_true(seen);
    g_free(n.pci);
    cost_stop(&n, "a reset of 256 MiB of device memory");
}

/* ---- looking at all there can be ----------------------------------------- */

#define COST_ALL_QPS    4096
#define COST_KEYS       65536
#define COST_RESERVED   8               /* QPs and keys that are never free */
#define COST_REPLY_MAX  ((512u << 10) + 1024)

/* Creates COUNT equal objects, a full command queue at a time. */
static void cost_create_many(Nic *n, uint16_t opcode, const void *req,
                             size_t len, uint32_t count)
{
    const uint32_t room = 1U << n->cmd_log_depth;
    g_autofree struct fakernic_cmd *requests = g_new0(struct fakernic_cmd,
                                                      room);
    struct fakernic_cmd_completion completion;

    for (uint32_t i = 0; i < room; i++) {
        requests[i].opcode = LE16(opcode);
        memcpy(requests[i].payload, req, len);
    }
    /* All requests are equal, so the ring never changes. */
    qtest_memwrite(n->m->qts, n->cmd_sq, requests, room * sizeof(*requests));
    for (uint32_t i = 0; i < count; i += room) {
        n->cmd_pi += MIN(room, count - i);
        cmd_ring(n);
        cmd_wait(n, n->cmd_pi - 1, &completion);
        assert_status(completion.status, OK);
    }
}

#define COST_LOOKS 3

/*
 * Repeats a query. 'took' is the least CPU time of the main thread, as other
 * programs on the host can only add to it.
 */
static QDict *cost_look_reply(Nic *n, const char *property, uint32_t from,
                              uint64_t *took)
{
    g_autofree char *window = g_strdup_printf("from=%u", from);
    QDict *reply = NULL;

    *took = UINT64_MAX;
    for (unsigned i = 0; i < COST_LOOKS; i++) {
        uint64_t since;

        qobject_unref(reply);
        qtest_qmp_assert_success(n->m->qts,
            "{ 'execute': 'qom-set', 'arguments': { 'path': "
            "'/machine/peripheral/nic', 'property': %s, 'value': %s } }",
                                 property, window);
        since = main_cpu_us(n->m);
        reply = qtest_qmp(n->m->qts, "{ 'execute': 'qom-get', 'arguments': {"
                                     " 'path': '/machine/peripheral/nic',"
                          " 'property': %s } }", property);
        *took = MIN(*took, main_cpu_us(n->m) - since);
    }
    return reply;
}

/*
 * One bounded answer lists objects in order, from number 'from' on. Returns
 * how many it lists. '*next' is where the next answer begins, or 0.
 */
static uint32_t cost_look(Nic *n, const char *property, const char *number,
                          uint32_t from, uint32_t *next)
{
    uint64_t took;
    QDict *reply = cost_look_reply(n, property, from, &took);
    const char *text = qdict_get_str(reply, "return");
    QList *list = qobject_to(QList, qobject_from_json(text, &error_abort));
    int64_t last = (int64_t)from - 1;
    uint32_t count = 0;
    QListEntry *entry;

    g_test_message("%s: %zu objects, %zu bytes, %" PRIu64 " us of the main "
                   "thread", property, qlist_size(list), strlen(text), took);
    g_assert_cmpuint(took, <=, MONITOR_US);
    g_assert_cmpuint(strlen(text), <=, COST_REPLY_MAX);
    *next = 0;
    QLIST_FOREACH_ENTRY(list, entry) {
        const QDict *object = qobject_to(QDict, qlist_entry_obj(entry));

        g_assert_cmpuint(*next, ==, 0);
        if (qdict_haskey(object, "next")) {
            *next = qdict_get_int(object, "next");
            g_assert_cmpint(*next, >, last);
        } else {
            g_assert_cmpint(qdict_get_int(object, number), >, last);
            last = qdict_get_int(object, number);
            count++;
        }
    }
    qobject_unref(list);
    qobject_unref(reply);
    return count;
}

/* The device lists all objects, in more than one answer. */
static void cost_look_all(Nic *n, const char *property, const char *number,
                          uint32_t at_least)
{
    uint32_t answers = 0, count = 0, next = 0;

    do {
        count += cost_look(n, property, number, next, &next);
        answers++;
    } while (next);
    g_assert_cmpuint(count, >=, at_least);
    g_assert_cmpuint(answers, >, 1);
}

static void test_cost_inspection(void)
{
    struct fakernic_create_mr_req mr = {
        .iova = LE64(1ull << 40),
        .length = LE64(FAKERNIC_PAGE_SIZE),
        .type = FAKERNIC_MR_MEMORY,
    };
    struct fakernic_create_qp_req qp;
    Machine m;
    Nic n;
    Setup s;

    machine_start(&m, "%s", COST_DEVICE);
    nic_find(&n, &m, SLOT);
    nic_bringup_deep(&n, 8);
    setup(&n, &s);
    qp = cost_qp_req(&n, &s, &s.cq);
    mr.pdn = LE32(s.pd);
    mr.pages = contiguous(s.data, FAKERNIC_PAGE_SIZE);
    cost_create_many(&n, FAKERNIC_CMD_CREATE_QP, &qp, sizeof(qp),
                     COST_ALL_QPS - COST_RESERVED);
    cost_create_many(&n, FAKERNIC_CMD_CREATE_MR, &mr, sizeof(mr),
                     COST_KEYS - COST_RESERVED);
    cost_look_all(&n, "x-qps", "qpn", COST_ALL_QPS - COST_RESERVED);
    cost_look_all(&n, "x-keys", "index", COST_KEYS - COST_RESERVED);
    machine_stop(&m);
}

/* ---- tables that are full ------------------------------------------------ */

#define COST_BATCH  64          /* as many QPs as a group takes */
#define COST_GROUPS 256
#define COST_SPARE  (2 * COST_BATCH)
#define COST_PDS    65536
#define COST_MRS    65536
#define COST_CROWD ",max-pd=65536,max-qp=65536,max-mr=65536"

static const char *const cost_kinds[] = {
    "ALLOC_PD", "DEALLOC_PD", "CREATE_MR", "DESTROY_MR", "CREATE_QP",
    "ATTACH_MCAST", "DETACH_MCAST", "DESTROY_QP",
};

/* Nanoseconds that COST_BATCH commands of each kind take. */
typedef uint64_t CostOfKinds[ARRAY_SIZE(cost_kinds)];

typedef struct Crowd {
    Machine m;
    Nic n;
    Setup s;
    struct fakernic_create_qp_req qp;   /* UD, without queues */
    struct fakernic_create_mr_req mr;   /* of a page */
    CostOfKinds took;
    unsigned kind;                      /* the next one in a round */
} Crowd;

/* Linux updates the run time of a thread when the thread sleeps. */
static uint64_t main_idle_ns(Machine *m)
{
    g_usleep(500);
    return main_thread_ns(m, false);
}

/*
 * Executes COST_BATCH commands at once. Stores the numbers that they return,
 * unless 'numbers' is NULL. Returns the CPU time of the main thread.
 */
static uint64_t cost_batch(Nic *n, uint16_t opcode, const void *requests,
                           size_t len, uint32_t *numbers)
{
    const uint32_t first = n->cmd_pi;
    struct fakernic_cmd_completion completion;
    uint64_t since;

    for (unsigned i = 0; i < COST_BATCH; i++) {
        cost_submit(n, opcode, (const uint8_t *)requests + i * len, len);
    }
    since = main_idle_ns(n->m);
    cmd_ring(n);
    cmd_wait(n, n->cmd_pi - 1, &completion);
    since = main_idle_ns(n->m) - since;
    for (unsigned i = 0; i < COST_BATCH; i++) {
        cmd_wait(n, first + i, &completion);
        assert_status(completion.status, OK);
        if (numbers) {
            numbers[i] = ldl_le_p(completion.payload);
        }
    }
    return since;
}

/* Measures the next kind: COST_BATCH equal commands. crowd_undo() sends one
 * command for each of COST_BATCH numbers. */
static void crowd_do(Crowd *c, uint16_t opcode, const void *request, size_t len,
                     uint32_t *numbers)
{
    g_autofree uint8_t *requests = g_malloc(COST_BATCH * len + 1);
    uint64_t *took = &c->took[c->kind++];

    for (unsigned i = 0; i < COST_BATCH; i++) {
        memcpy(requests + i * len, request, len);
    }
    *took = MIN(*took, cost_batch(&c->n, opcode, requests, len, numbers));
}

static void crowd_undo(Crowd *c, uint16_t opcode, const uint32_t *numbers)
{
    struct fakernic_id ids[COST_BATCH] = { 0 };
    uint64_t *took = &c->took[c->kind++];

    for (unsigned i = 0; i < COST_BATCH; i++) {
        ids[i].id = LE32(numbers[i]);
    }
    *took = MIN(*took, cost_batch(&c->n, opcode, ids, sizeof(ids[0]), NULL));
}

/* CPU time to attach all of these QPs to a group, or to detach them. */
static uint64_t crowd_group(Crowd *c, uint16_t opcode, unsigned group,
                            const uint32_t *qpns)
{
    struct fakernic_mcast_req requests[COST_BATCH] = { 0 };
    const uint8_t gid[16] = { [10] = 0xff, 0xff, 224, 1, group >> 8, group };

    for (unsigned i = 0; i < COST_BATCH; i++) {
        memcpy(requests[i].gid, gid, sizeof(gid));
        requests[i].qpn = LE32(qpns[i]);
    }
    return cost_batch(&c->n, opcode, requests, sizeof(requests[0]), NULL);
}

/* Measures each kind once, with new objects. */
static void crowd_round(Crowd *c)
{
    uint32_t ids[COST_BATCH];
    uint64_t *took;

    c->kind = 0;
    crowd_do(c, FAKERNIC_CMD_ALLOC_PD, "", 0, ids);
    crowd_undo(c, FAKERNIC_CMD_DEALLOC_PD, ids);
    crowd_do(c, FAKERNIC_CMD_CREATE_MR, &c->mr, sizeof(c->mr), ids);
    crowd_undo(c, FAKERNIC_CMD_DESTROY_MR, ids);
    crowd_do(c, FAKERNIC_CMD_CREATE_QP, &c->qp, sizeof(c->qp), ids);
    took = &c->took[c->kind];
    took[0] = MIN(took[0], crowd_group(c, FAKERNIC_CMD_ATTACH_MCAST, 0, ids));
    took[1] = MIN(took[1], crowd_group(c, FAKERNIC_CMD_DETACH_MCAST, 0, ids));
    c->kind += 2;
    /* DESTROY_QP detaches a QP, too. */
    crowd_group(c, FAKERNIC_CMD_ATTACH_MCAST, 0, ids);
    crowd_undo(c, FAKERNIC_CMD_DESTROY_QP, ids);
    g_assert_cmpuint(c->kind, ==, ARRAY_SIZE(cost_kinds));
}

/* Takes the minimum of several rounds, as other programs only add time. */
static void crowd_measure(Crowd *c)
{
    memset(c->took, 0xff, sizeof(c->took));
    for (unsigned i = 0; i < COST_ROUNDS; i++) {
        crowd_round(c);
    }
}

/* Fills all groups except one, and leaves room for one round in each table. */
static void crowd_fill(Crowd *c)
{
    uint32_t qpns[COST_BATCH];

    c->kind = 0;
    crowd_do(c, FAKERNIC_CMD_CREATE_QP, &c->qp, sizeof(c->qp), qpns);
    for (unsigned group = 1; group < COST_GROUPS; group++) {
        crowd_group(c, FAKERNIC_CMD_ATTACH_MCAST, group, qpns);
    }
    cost_create_many(&c->n, FAKERNIC_CMD_ALLOC_PD, "", 0,
                     COST_PDS - COST_SPARE);
    cost_create_many(&c->n, FAKERNIC_CMD_CREATE_MR, &c->mr, sizeof(c->mr),
                     COST_MRS - COST_SPARE);
    cost_create_many(&c->n, FAKERNIC_CMD_CREATE_QP, &c->qp, sizeof(c->qp),
                     COST_PDS - COST_BATCH - COST_SPARE);
}

static void crowd_start(Crowd *c, const char *tables)
{
    machine_start(&c->m, "%s%s", COST_DEVICE, tables);
    nic_find(&c->n, &c->m, SLOT);
    nic_bringup_deep(&c->n, 8);
    setup(&c->n, &c->s);
    c->qp = (struct fakernic_create_qp_req) {
        .type = FAKERNIC_QP_UD,
        .sq_log_depth = FAKERNIC_QUEUE_NONE,
        .rq_log_depth = FAKERNIC_QUEUE_NONE,
        .pdn = LE32(c->s.pd),
        .send_cqn = LE32(c->s.cq.id),
        .recv_cqn = LE32(c->s.cq.id),
    };
    c->mr = (struct fakernic_create_mr_req) {
        .iova = LE64(1ull << 40),
        .length = LE64(FAKERNIC_PAGE_SIZE),
        .type = FAKERNIC_MR_MEMORY,
        .pdn = LE32(c->s.pd),
        .pages = contiguous(c->s.data, FAKERNIC_PAGE_SIZE),
    };
}

/*
 * Creating and destroying an object costs the same in a small, empty table and
 * in the largest, full one: nothing searches a table. The test compares CPU
 * time, as that of moderated CQs does.
 */
static void test_cost_destroy(void)
{
    CostOfKinds few;
    Crowd c;

    crowd_start(&c, COST_FEW);
    crowd_measure(&c);
    memcpy(few, c.took, sizeof(few));
    machine_stop(&c.m);
    crowd_start(&c, COST_CROWD);
    crowd_fill(&c);
    crowd_measure(&c);
    for (unsigned i = 0; i < ARRAY_SIZE(cost_kinds); i++) {
        g_test_message("%u %s took %" PRIu64 " ns, %" PRIu64 " ns with full "
                       "tables", COST_BATCH, cost_kinds[i], few[i], c.took[i]);
        g_assert_cmpuint(2 * c.took[i], <=, 5 * few[i]);
    }
    cost_stop(&c.n, "objects that go while there are many");
}

/* The device frees its objects in the background when it is unplugged, and
 * another device takes its slot. */
static void test_cost_unplug(void)
{
    Machine m;
    Nic n;
    uint64_t since;

    machine_start(&m, "-machine pc");
    for (unsigned i = 0; i < 2; i++) {
        qtest_qmp_device_add(m.qts, "fakernic", "nic",
                             "{'addr': '06', 'turn-work': 256, 'max-qp': 1024, "
                             "'max-mr': 1024, 'max-cq': 512, 'max-pd': 512}");
        nic_find(&n, &m, 6);
        nic_bringup(&n);
        cost_populate(&n);
        since = main_cpu_us(&m);
        qpci_unplug_acpi_device_test(m.qts, "nic", 6);
        monitor_must_answer(&m, "an unplug with thousands of objects", since);
        g_free(n.pci);
    }
    machine_stop(&m);
}

const FakernicTest fakernic_cost_tests[] = {
    { "cost/defaults", test_cost_defaults },
    { "cost/exceeded-step", ON(cost_rig, test_cost_exceeded_step) },
    { "cost/rereg", ON(cost_ready, test_cost_rereg) },
    { "cost/rereg_reset", ON(cost_pair, test_cost_rereg_reset) },
    { "cost/rereg_refused", ON(cost_pair, test_cost_rereg_refused) },
    { "cost/cq_overrun", ON(cost_ready, test_cost_cq_overrun) },
    { "cost/moderation", ON(cost_ready, test_cost_moderation) },
    { "cost/full-eq", ON(cost_ready, test_cost_full_eq) },
    { "cost/resize_cq", ON(cost_ready, test_cost_resize_cq) },
    { "cost/resize_srq", ON(cost_ready, test_cost_resize_srq) },
    { "cost/windows", ON(cost_pair, test_cost_windows) },
    { "cost/update_pages", ON(cost_pair, test_cost_update_pages) },
    { "cost/odp_flood", test_cost_odp_flood },
    { "cost/odp_destroy", test_cost_odp_destroy },
    { "cost/odp_full", test_cost_odp_full },
    { "cost/flush", ON(cost_ready, test_cost_flush) },
    { "cost/flush_global", test_cost_flush_global },
    { "cost/flush_frames", test_cost_flush_frames },
    { "cost/copies", test_cost_copies },
    { "cost/multicast", ON(cost_ready, test_cost_multicast) },
    { "cost/short_frames", test_cost_short_frames },
    { "cost/messages", test_cost_messages },
    { "cost/burst", test_cost_burst },
    { "cost/armed", test_cost_armed },
    { "cost/activity", test_cost_activity },
    { "cost/queries", ON(cost_pair, test_cost_queries) },
    { "cost/memory", test_cost_memory },
    { "cost/sends", test_cost_sends },
    { "cost/deferred-memory", test_cost_deferred_memory },
    { "cost/uncounted-objects", ON(cost_ready, test_cost_uncounted_objects) },
    { "cost/objects", ON(cost_rig, test_cost_objects) },
    { "cost/timers", ON(cost_ready, test_cost_timers) },
    { "cost/reset", test_cost_reset },
    { "cost/reset_dm", test_cost_reset_dm },
    { "cost/inspection", test_cost_inspection },
    { "cost/destroy", test_cost_destroy },
    { "cost/unplug", test_cost_unplug },
    { NULL }
};
