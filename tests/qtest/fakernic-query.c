/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Looking inside: the values are those that commands and work requests made,
 * and looking changes nothing, whatever the device is up to.
 */
#include "qemu/osdep.h"
#include "qapi/error.h"
#include "qobject/qdict.h"
#include "qobject/qjson.h"
#include "qobject/qlist.h"
#include "qobject/qnum.h"
#include "fakernic-setup.h"

#define NIC0 "/machine/peripheral/nic0"

static char *query_text(Machine *m, const char *property)
{
    QDict *reply = qtest_qmp(m->qts, "{ 'execute': 'qom-get', 'arguments': {"
                             " 'path': %s, 'property': %s } }", NIC0, property);
    char *text = g_strdup(qdict_get_str(reply, "return"));

    qobject_unref(reply);
    return text;
}

static QObject *query(Machine *m, const char *property)
{
    g_autofree char *text = query_text(m, property);

    return qobject_from_json(text, &error_abort);
}

static QDict *query_dict(Machine *m, const char *property)
{
    return qobject_to(QDict, query(m, property));
}

static QList *query_list(Machine *m, const char *property)
{
    return qobject_to(QList, query(m, property));
}

/* The object whose number is 'id'; it must be there once. */
static QDict *find(QList *list, const char *number, uint32_t id)
{
    QDict *found = NULL;
    QListEntry *entry;

    QLIST_FOREACH_ENTRY(list, entry) {
        QDict *object = qobject_to(QDict, qlist_entry_obj(entry));

        if (qdict_get_int(object, number) == id) {
            g_assert_null(found);
            found = object;
        }
    }
    g_assert_nonnull(found);
    return found;
}

static void start_pair(Machine *m, Nic *n, Setup *s, Qp *a, Qp *b)
{
    machine_start(m, "%s,id=nic0,max-qp=64", DEVICE);
    nic_find(n, m, SLOT);
    nic_bringup(n);
    setup_pair(n, s, a, b);
}

static void one_read(Nic *n, Setup *s, Qp *a)
{
    Wqe wqe = wqe_rdma(s, FAKERNIC_SQ_RDMA_READ, 16384, 0, 5000);
    struct fakernic_cqe cqe;

    sq_put(n, a, &wqe, sizeof(wqe));
    sq_ring(n, a);
    cq_expect(n, &s->cq, &cqe, FAKERNIC_CQE_RDMA_READ, FAKERNIC_WC_SUCCESS);
}

static void test_qps(void)
{
    Machine m;
    Nic n;
    Setup s;
    Qp a, b;
    QList *list;
    QDict *qp;
    struct fakernic_qp_attr attr;
    struct fakernic_id id;

    start_pair(&m, &n, &s, &a, &b);
    one_read(&n, &s, &a);
    list = query_list(&m, "x-qps");
    g_assert_cmpuint(qlist_size(list), ==, 2);
    for (unsigned i = 0; i < 2; i++) {
        const Qp *one = i ? &b : &a, *other = i ? &a : &b;

        id.id = LE32(one->qpn);
        assert_status(cmd(&n, FAKERNIC_CMD_QUERY_QP, &id, sizeof(id), &attr,
                          sizeof(attr)), OK);
        qp = find(list, "qpn", one->qpn);
        g_assert_cmpstr(qdict_get_str(qp, "type"), ==, "RC");
        g_assert_cmpstr(qdict_get_str(qp, "state"), ==, "RTS");
        g_assert_cmpint(qdict_get_int(qp, "dest-qpn"), ==, other->qpn);
        g_assert_cmpint(qdict_get_int(qp, "rq-psn"), ==,
                        le32_to_cpu(attr.rq_psn));
        g_assert_cmpint(qdict_get_int(qp, "sq-psn"), ==,
                        le32_to_cpu(attr.sq_psn));
        g_assert_cmpint(qdict_get_int(qp, "timeout"), ==, attr.timeout);
        g_assert_cmpint(qdict_get_int(qp, "retry-cnt"), ==, attr.retry_cnt);
        g_assert_cmpint(qdict_get_int(qp, "retry-left"), ==, attr.retry_cnt);
        g_assert_cmpint(qdict_get_int(qp, "una-psn"), ==,
                        le32_to_cpu(attr.sq_psn));
        g_assert_cmpint(qdict_get_int(qp, "pdn"), ==, s.pd);
        g_assert_cmpint(qdict_get_int(qp, "send-cqn"), ==, s.cq.id);
        g_assert_cmpint(qdict_get_int(qp, "sq-pi"), ==, i ? 0 : 1);
        g_assert_cmpint(qdict_get_int(qp, "sq-ci"), ==, i ? 0 : 1);
        g_assert_cmpint(qdict_get_int(qp, "msn"), ==, i ? 1 : 0);
        g_assert_cmpint(qdict_get_int(qp, "in-flight"), ==, 0);
        g_assert_true(qdict_get_bool(qp, "loopback") || i);
    }
    qobject_unref(list);
    machine_stop(&m);
}

/* A work request that is lost on its way is in flight, and one retry less. */
static void test_in_flight(void)
{
    Machine m;
    Nic n;
    Setup s;
    Qp a, b;
    QList *list;
    QDict *qp;
    Wqe wqe;
    int64_t left;

    start_pair(&m, &n, &s, &a, &b);
    qtest_qmp_assert_success(m.qts, "{ 'execute': 'qom-set', 'arguments': {"
                             " 'path': %s, 'property': 'x-fault', 'value':"
                             " 'at=tx times=0 do=drop' } }", NIC0);
    wqe = wqe_rdma(&s, FAKERNIC_SQ_RDMA_READ, 16384, 0, 5000);
    sq_put(&n, &a, &wqe, sizeof(wqe));
    sq_ring(&n, &a);
    list = query_list(&m, "x-qps");
    qp = find(list, "qpn", a.qpn);
    g_assert_cmpint(qdict_get_int(qp, "in-flight"), ==, 1);
    g_assert_cmpint(qdict_get_int(qp, "una-psn"), !=,
                    qdict_get_int(qp, "high-psn"));
    left = qdict_get_int(qp, "retry-left");
    g_assert_cmpint(left, ==, qdict_get_int(qp, "retry-cnt"));
    qobject_unref(list);
    for (unsigned ms = 0; ms < 2000; ms += 10) {
        qtest_clock_step(m.qts, 10000000);
    }
    list = query_list(&m, "x-qps");
    g_assert_cmpint(qdict_get_int(find(list, "qpn", a.qpn), "retry-left"), <,
                    left);
    qobject_unref(list);
    machine_stop(&m);
}

static void test_queues(void)
{
    Machine m;
    Nic n;
    Setup s;
    Qp a, b;
    QList *list;
    QDict *one;

    start_pair(&m, &n, &s, &a, &b);
    one_read(&n, &s, &a);
    cq_arm(&n, &s.cq, 0, false);
    list = query_list(&m, "x-cqs");
    g_assert_cmpuint(qlist_size(list), ==, 1);
    one = find(list, "cqn", s.cq.id);
    g_assert_cmpint(qdict_get_int(one, "pi"), ==, 1);
    g_assert_cmpint(qdict_get_int(one, "depth"), ==, s.cq.depth);
    g_assert_cmpint(qdict_get_int(one, "eqn"), ==, s.eq.id);
    g_assert_cmpint(qdict_get_int(one, "users"), ==, 4);
    g_assert_cmpstr(qdict_get_str(one, "armed"), ==, "any");
    g_assert_false(qdict_get_bool(one, "error"));
    qobject_unref(list);
    list = query_list(&m, "x-eqs");
    g_assert_cmpuint(qlist_size(list), ==, 2);
    one = find(list, "eqn", s.eq.id);
    g_assert_cmpint(qdict_get_int(one, "vector"), ==, 1);
    g_assert_true(qdict_get_bool(one, "armed"));
    g_assert_false(qdict_get_bool(one, "async"));
    g_assert_true(qdict_get_bool(find(list, "eqn", s.async.id), "async"));
    qobject_unref(list);
    list = query_list(&m, "x-keys");
    g_assert_cmpuint(qlist_size(list), ==, 1);
    one = find(list, "index", FAKERNIC_GET(FAKERNIC_KEY_INDEX, s.key));
    g_assert_cmpint(qdict_get_int(one, "pdn"), ==, s.pd);
    g_assert_cmpint(qdict_get_int(one, "pages"), ==,
                    DATA_SIZE / FAKERNIC_PAGE_SIZE);
    qobject_unref(list);
    list = query_list(&m, "x-srqs");
    g_assert_true(qlist_empty(list));
    qobject_unref(list);
    machine_stop(&m);
}

static void test_device(void)
{
    Machine m;
    Nic n;
    Setup s;
    Qp a, b;
    QDict *state, *use;
    QList *counters;

    start_pair(&m, &n, &s, &a, &b);
    one_read(&n, &s, &a);
    state = query_dict(&m, "x-state");
    g_assert_cmpint(qdict_get_int(state, "status"), ==,
                    FAKERNIC_STATUS_READY | FAKERNIC_STATUS_ENABLED);
    g_assert_true(qdict_get_bool(state, "running"));
    g_assert_cmpint(qdict_get_int(state, "command-ci"), ==, n.cmd_pi);
    use = qdict_get_qdict(state, "qp");
    g_assert_cmpint(qdict_get_int(use, "used"), ==, 2);
    g_assert_cmpint(qdict_get_int(use, "limit"), ==, 64);
    g_assert_cmpint(qdict_get_int(qdict_get_qdict(state, "mr"), "used"), ==, 1);
    g_assert_cmpint(qdict_get_int(qdict_get_qdict(state, "eq"), "used"), ==, 2);
    counters = qdict_get_qlist(state, "counters");
    g_assert_cmpuint(qlist_size(counters), ==, FAKERNIC_STAT_COUNT);
    for (unsigned i = 0; i < FAKERNIC_STAT_COUNT; i++) {
        QObject *value = qlist_pop(counters);
        const uint64_t then = qnum_get_uint(qobject_to(QNum, value));

        qobject_unref(value);
        /* Commands that ask for statistics are what is counted since. */
        if (i != FAKERNIC_STAT_COMMANDS) {
            g_assert_cmpuint(then, ==, nic_stat(&n, i));
        }
    }
    qobject_unref(state);
    machine_stop(&m);
}

static const char *const nouns[] = {
    "x-state", "x-qps", "x-cqs", "x-srqs", "x-eqs", "x-keys",
};

/* All of it twice, and it is the same: nobody but us has done anything. */
static void assert_still(Machine *m)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(nouns); i++) {
        g_autofree char *first = query_text(m, nouns[i]);
        g_autofree char *second = query_text(m, nouns[i]);

        g_assert_cmpstr(first, ==, second);
        qobject_unref(qobject_from_json(first, &error_abort));
    }
}

/* One of the flags of x-state. */
static bool state_is(Machine *m, const char *flag)
{
    QDict *state = query_dict(m, "x-state");
    const bool is = qdict_get_bool(state, flag);

    qobject_unref(state);
    return is;
}

static void rule(Machine *m, const char *text, const char *flag)
{
    qtest_qmp_assert_success(m->qts, "{ 'execute': 'qom-set', 'arguments': {"
                             " 'path': %s, 'property': 'x-fault', 'value':"
                             " %s } }", NIC0, text);
    while (!state_is(m, flag)) {
        g_usleep(1000);
    }
}

static void test_any_time(void)
{
    Machine m;
    Nic n;
    Setup s;
    Qp a, b;
    g_autofree char *before = NULL, *after = NULL;

    machine_start(&m, "%s,id=nic0", DEVICE);
    assert_still(&m);
    machine_stop(&m);
    start_pair(&m, &n, &s, &a, &b);
    one_read(&n, &s, &a);
    assert_still(&m);
    qtest_qmp_assert_success(m.qts, "{ 'execute': 'stop' }");
    g_assert_true(state_is(&m, "stopped"));
    assert_still(&m);
    qtest_qmp_assert_success(m.qts, "{ 'execute': 'cont' }");
    before = query_text(&m, "x-qps");
    rule(&m, "id=ice at=device do=freeze", "frozen");
    assert_still(&m);
    after = query_text(&m, "x-qps");
    g_assert_cmpstr(before, ==, after);
    qtest_qmp_assert_success(m.qts, "{ 'execute': 'qom-set', 'arguments': {"
                             " 'path': %s, 'property': 'x-fault', 'value':"
                             " 'remove=ice' } }", NIC0);
    rule(&m, "at=device do=dead", "dead");
    assert_still(&m);
    machine_stop(&m);
}

const FakernicTest fakernic_query_tests[] = {
    { "query/qps", test_qps },
    { "query/in-flight", test_in_flight },
    { "query/queues", test_queues },
    { "query/device", test_device },
    { "query/any-time", test_any_time },
    {}
};
