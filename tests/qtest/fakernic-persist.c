/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Persistent FLUSH onto a slow medium. A thread waits for the medium, while the
 * device, the VM and the monitor continue, whatever happens to the device.
 * x-persist-hold sets how slow the medium is.
 */
#include "qemu/osdep.h"
#include "qobject/qdict.h"
#include "fakernic-setup.h"

#define PERSIST_SLOT 6
#define PERSIST_WORK 256
#define PERSIST_SLOW 1000       /* ms */
#define PERSIST_LONG 1000000    /* ms: until the test ends it */

/* Sets the medium's time in milliseconds, also for flushes in progress. */
static void persist_hold(Machine *m, unsigned hold)
{
    qtest_qmp_assert_success(m->qts, "{ 'execute': 'qom-set', 'arguments': "
                                     "{ 'path': '/machine/peripheral/nic', "
        "'property': 'x-persist-hold', 'value': %u } }", hold);
}

static void persist_plug(Machine *m, Nic *n)
{
    qtest_qmp_device_add(m->qts, "fakernic", "nic",
                         "{'addr': '06', 'mac': %s, 'turn-work': 256, "
                         "'turn-us': 1000000}", MAC_STRING);
    nic_find(n, m, PERSIST_SLOT);
    nic_bringup(n);
}

/* A machine whose memory is a file, and a device in it. */
static void persist_start(Machine *m, Nic *n)
{
    g_autofree char *path = g_strdup("/tmp/fakernic-qtest-XXXXXX");
    int fd = g_mkstemp(path);

    g_assert_cmpint(fd, >=, 0);
    machine_start(m, "-m 128M -object memory-backend-file,id=ram,share=on,"
                     "size=128M,mem-path=%s -machine pc,memory-backend=ram "
                     "-device fakernic,id=nic,addr=06,mac=" MAC_STRING
                     ",turn-work=256,turn-us=1000000", path);
    unlink(path);
    close(fd);
    nic_find(n, m, PERSIST_SLOT);
    nic_bringup(n);
}

static void persist_rig(Rig *r)
{
    persist_start(&r->m, &r->n);
}

static void persist_pair(Rig *r)
{
    persist_rig(r);
    setup_pair(&r->n, &r->s, &r->a, &r->b);
}

static void persist_flush(Nic *n, Setup *s, Qp *qp)
{
    Wqe wqe = wqe_rdma(s, FAKERNIC_SQ_FLUSH, 0, 0, 4096);

    wqe.rdma.rdma.flush = LE32(FAKERNIC_FLUSH_PERSISTENT);
    sq_put(n, qp, &wqe, sizeof(wqe));
    sq_ring(n, qp);
}

static void persist_expect(Nic *n, Setup *s, const Qp *qp)
{
    struct fakernic_cqe cqe;

    cq_await(n, &s->cq, &cqe, FAKERNIC_CQE_FLUSH, FAKERNIC_WC_SUCCESS);
    g_assert_cmpuint(le32_to_cpu(cqe.qpn), ==, qp->qpn);
}

/* The monitor answers and a WRITE completes, but no FLUSH does. */
static void persist_goes_on(Nic *n, Setup *s, Qp *qp)
{
    Wqe wqe = wqe_rdma(s, FAKERNIC_SQ_RDMA_WRITE, 0, 4096, 512);
    struct fakernic_cqe cqe;

    fill(n, s, 0, 512);
    monitor_must_answer(n->m, "a FLUSH that the medium holds",
                        main_cpu_us(n->m));
    sq_put(n, qp, &wqe, sizeof(wqe));
    sq_ring(n, qp);
    cq_await(n, &s->cq, &cqe, FAKERNIC_CQE_RDMA_WRITE, FAKERNIC_WC_SUCCESS);
    assert_same(n, s, 0, 4096, 512);
    g_assert_false(cq_poll(n, &s->cq, &cqe));
}

/* One FLUSH waits for the medium, two wait for that one; all else continues. */
static void test_persist_waits(Rig *r)
{
    Qp c, d, e, f, g, h;

    rc_pair(&r->n, &r->s, &c, &d);
    rc_pair(&r->n, &r->s, &e, &f);
    rc_pair(&r->n, &r->s, &g, &h);
    persist_hold(&r->m, PERSIST_LONG);
    persist_flush(&r->n, &r->s, &r->a);
    persist_flush(&r->n, &r->s, &c);
    persist_flush(&r->n, &r->s, &e);
    persist_goes_on(&r->n, &r->s, &g);
    persist_hold(&r->m, 0);
    persist_expect(&r->n, &r->s, &r->a);
    persist_expect(&r->n, &r->s, &c);
    persist_expect(&r->n, &r->s, &e);
}

/* A FLUSH that ends while the VM is stopped completes on resume. */
static void test_persist_stop(Rig *r)
{
    struct fakernic_cqe cqe;

    persist_hold(&r->m, PERSIST_LONG);
    persist_flush(&r->n, &r->s, &r->a);
    qtest_qmp_assert_success(r->m.qts, "{ 'execute': 'stop' }");
    persist_hold(&r->m, 0);
    for (unsigned i = 0; i < 20; i++) {
        g_usleep(5000);
        g_assert_false(cq_poll(&r->n, &r->s.cq, &cqe));
    }
    qtest_qmp_assert_success(r->m.qts, "{ 'execute': 'cont' }");
    persist_expect(&r->n, &r->s, &r->a);
}

/* A QP is destroyed during its FLUSH, another QP's FLUSH waits behind it, and
 * then the device is reset during a FLUSH. */
static void test_persist_reset(Rig *r)
{
    struct fakernic_cqe cqe;
    Qp c, d;

    rc_pair(&r->n, &r->s, &c, &d);
    persist_hold(&r->m, PERSIST_LONG);
    persist_flush(&r->n, &r->s, &r->a);
    persist_flush(&r->n, &r->s, &c);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_QP, r->b.qpn), OK);
    persist_hold(&r->m, 0);
    persist_expect(&r->n, &r->s, &c);
    persist_hold(&r->m, PERSIST_LONG);
    persist_flush(&r->n, &r->s, &c);
    nic_bringup(&r->n);
    /* New QPs with the same numbers: the end of the old job is not theirs. */
    setup_pair(&r->n, &r->s, &r->a, &r->b);
    rc_pair(&r->n, &r->s, &c, &d);
    persist_flush(&r->n, &r->s, &c);
    persist_flush(&r->n, &r->s, &r->a);
    g_assert_false(cq_poll(&r->n, &r->s.cq, &cqe));
    persist_hold(&r->m, 0);
    persist_expect(&r->n, &r->s, &c);
    persist_expect(&r->n, &r->s, &r->a);
}

/* The device is unplugged and its machine ends during a job. */
static void test_persist_unplug(Rig *r)
{
    for (unsigned i = 0; i < 3; i++) {
        persist_flush(&r->n, &r->s, &r->a);
        qpci_unplug_acpi_device_test(r->m.qts, "nic", PERSIST_SLOT);
        g_free(r->n.pci);
        persist_plug(&r->m, &r->n);
        setup_pair(&r->n, &r->s, &r->a, &r->b);
    }
    persist_hold(&r->m, PERSIST_LONG);
    persist_flush(&r->n, &r->s, &r->a);
    persist_hold(&r->m, 0);
    persist_flush(&r->n, &r->s, &r->a);
}

#define PERSIST_EJECT 0xae08    /* of the PCI hot-plug controller of 'pc' */

/*
 * Another device takes the slot while a job still uses the first one. The
 * client does not wait for DEVICE_DELETED, which QEMU sends when the first
 * device is freed. The names of its memory and record file are already free.
 */
static void test_persist_replug(void)
{
    g_autofree char *record = g_strdup("/tmp/fakernic-qtest-XXXXXX");
    const int fd = g_mkstemp(record);
    Machine m;
    Nic n;
    Setup s;
    Qp a, b;

    g_assert_cmpint(fd, >=, 0);
    close(fd);
    persist_start(&m, &n);
    for (unsigned i = 0; i < 3; i++) {
        setup_pair(&n, &s, &a, &b);
        persist_hold(&m, 500);
        persist_flush(&n, &s, &a);
        qtest_qmp_device_del_send(m.qts, "nic");
        qtest_outl(m.qts, PERSIST_EJECT, 1u << PERSIST_SLOT);
        g_free(n.pci);
        qtest_qmp_device_add(m.qts, "fakernic", "nic",
                             "{'addr': '06', 'mac': %s, 'x-record': %s}",
                             MAC_STRING, record);
        nic_find(&n, &m, PERSIST_SLOT);
        nic_bringup(&n);
    }
    machine_stop(&m);
    unlink(record);
}

/* Memory without a medium: the peer reports an error at once. */
static void test_persist_no_medium(void)
{
    struct fakernic_cqe cqe;
    Machine m;
    Nic n;
    Setup s;
    Qp a, b;

    machine_start(&m, "-machine pc");
    persist_plug(&m, &n);
    setup_pair(&n, &s, &a, &b);
    persist_flush(&n, &s, &a);
    cq_await(&n, &s.cq, &cqe, FAKERNIC_CQE_FLUSH, FAKERNIC_WC_REM_ACCESS_ERR);
    g_assert_cmpuint(nic_stat(&n, FAKERNIC_STAT_DMA_ERRORS), ==, 1);
    machine_stop(&m);
}

/*
 * Registers have no medium, and a FLUSH does not read them: a read of CLOCK_LO
 * would change CLOCK_HI. The registers are another device's, as QEMU blocks DMA
 * of a device to its own.
 */
static void test_persist_registers(void)
{
    struct fakernic_cqe cqe;
    Machine m;
    Nic n, other;
    Setup s;
    Qp a, b;
    Wqe wqe;

    machine_start(&m, "-machine pc");
    persist_plug(&m, &n);
    qtest_qmp_device_add(m.qts, "fakernic", "other", "{'addr': '07'}");
    nic_find(&other, &m, PERSIST_SLOT + 1);
    setup_pair(&n, &s, &a, &b);
    reg_read(&other, FAKERNIC_REG_CLOCK_LO);
    g_assert_cmphex(reg_read(&other, FAKERNIC_REG_CLOCK_HI), ==, 0);
    qtest_clock_step(m.qts, 1ll << 33);
    wqe = wqe_rdma(&s, FAKERNIC_SQ_FLUSH, 0, 0, 4);
    wqe.rdma.rdma.flush = LE32(FAKERNIC_FLUSH_PERSISTENT);
    wqe.rdma.rdma.remote_address =
        LE64(other.regs.addr + FAKERNIC_REG_CLOCK_LO);
    wqe.rdma.rdma.rkey =
        LE32(mr_create(&n, s.pd, other.regs.addr, 4096,
                       FAKERNIC_ACCESS_LOCAL_WRITE |
                           FAKERNIC_ACCESS_FLUSH_PERSISTENT));
    sq_put(&n, &a, &wqe, sizeof(wqe));
    sq_ring(&n, &a);
    cq_await(&n, &s.cq, &cqe, FAKERNIC_CQE_FLUSH, FAKERNIC_WC_REM_ACCESS_ERR);
    g_assert_cmphex(reg_read(&other, FAKERNIC_REG_CLOCK_HI), ==, 0);
    reg_read(&other, FAKERNIC_REG_CLOCK_LO);
    g_assert_cmphex(reg_read(&other, FAKERNIC_REG_CLOCK_HI), >=, 2);
    machine_stop(&m);
}

/* Neither the store that begins a job nor the monitor waits for the medium. */
static void test_persist_monitor(Rig *r)
{
    uint64_t since;
    int64_t took;

    persist_hold(&r->m, PERSIST_SLOW);
    since = main_cpu_us(&r->m);
    took = -unhindered_us(&r->m);
    persist_flush(&r->n, &r->s, &r->a);
    took += unhindered_us(&r->m);
    g_test_message("the store took %" PRId64 " us", took);
    g_assert_cmpint(took, <=, MONITOR_US);
    monitor_must_answer(&r->m, "a FLUSH to a slow medium", since);
    persist_hold(&r->m, 0);
    persist_expect(&r->n, &r->s, &r->a);
}

#define PERSIST_PAGES 262144u

/* A FLUSH of a region that repeats 512 pages in descending order, so that no
 * two are contiguous. Each turn does some of them. */
static void test_persist_scattered(void)
{
    struct fakernic_create_mr_req req = {
        .iova = LE64(1ull << 40),
        .length = LE64((uint64_t)PERSIST_PAGES * FAKERNIC_PAGE_SIZE),
        .type = FAKERNIC_MR_MEMORY,
        .access = LE32(FAKERNIC_ACCESS_LOCAL_WRITE |
                       FAKERNIC_ACCESS_FLUSH_PERSISTENT),
        .pages = { .page_count = LE32(PERSIST_PAGES),
                   .page_shift = FAKERNIC_PAGE_SHIFT, .levels = 2 },
    };
    uint64_t pages, root, leaf, longest, since;
    QDict *response;
    int64_t took;
    Machine m;
    Nic n;
    Setup s;
    Qp a, b;
    Wqe wqe;

    persist_start(&m, &n);
    setup_pair(&n, &s, &a, &b);
    pages = mem_alloc(&m, 512 * FAKERNIC_PAGE_SIZE);
    root = mem_alloc(&m, FAKERNIC_PAGE_SIZE);
    leaf = build_tables(&m, 1, pages + 511 * FAKERNIC_PAGE_SIZE,
                        -(uint64_t)FAKERNIC_PAGE_SIZE, 512);
    for (unsigned i = 0; i < PERSIST_PAGES / 512; i++) {
        qtest_writeq(m.qts, root + i * 8, leaf);
    }
    req.pages.address = LE64(root);
    req.pdn = LE32(s.pd);
    wqe = wqe_rdma(&s, FAKERNIC_SQ_FLUSH, 0, 0,
                   PERSIST_PAGES * FAKERNIC_PAGE_SIZE);
    wqe.rdma.rdma.rkey = LE32(cmd_create(&n, FAKERNIC_CMD_CREATE_MR, &req,
                                         sizeof(req)));
    wqe.rdma.rdma.remote_address = req.iova;
    wqe.rdma.rdma.flush = LE32(FAKERNIC_FLUSH_PERSISTENT);
    sq_put(&n, &a, &wqe, sizeof(wqe));
    since = main_cpu_us(&m);
    took = -unhindered_us(&m);
    sq_ring(&n, &a);
    took += unhindered_us(&m);
    g_test_message("the store took %" PRId64 " us", took);
    g_assert_cmpint(took, <=, MONITOR_US);
    monitor_must_answer(&m, "a persistent FLUSH of scattered pages", since);
    persist_expect(&n, &s, &a);
    response = qtest_qmp(m.qts, "{ 'execute': 'qom-get', 'arguments': "
                                "{ 'path': '/machine/peripheral/nic', "
                                "'property': 'x-longest-turn' } }");
    longest = qdict_get_int(response, "return");
    qobject_unref(response);
    g_test_message("a persistent FLUSH of %u pages: longest turn %" PRIu64
                   " of %u units", PERSIST_PAGES, longest, PERSIST_WORK);
    g_assert_cmpuint(longest, <=, 2 * PERSIST_WORK);
    machine_stop(&m);
}

const FakernicTest fakernic_persist_tests[] = {
    { "persist/waits", ON(persist_pair, test_persist_waits) },
    { "persist/stop", ON(persist_pair, test_persist_stop) },
    { "persist/reset", ON(persist_pair, test_persist_reset) },
    { "persist/unplug", ON(persist_pair, test_persist_unplug) },
    { "persist/replug", test_persist_replug },
    { "persist/no-medium", test_persist_no_medium },
    { "persist/registers", test_persist_registers },
    { "persist/monitor", ON(persist_pair, test_persist_monitor) },
    { "persist/scattered", test_persist_scattered },
    { NULL }
};
