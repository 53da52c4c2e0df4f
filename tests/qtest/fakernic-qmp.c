/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Typed QMP commands and the event. They show the same as the properties, which
 * fakernic-query.c and fakernic-fault.c test.
 */
#include "qemu/osdep.h"
#include "qapi/error.h"
#include "qobject/qdict.h"
#include "qobject/qjson.h"
#include "qobject/qlist.h"
#include "qobject/qnum.h"
#include "fakernic-inside.h"

#define SECOND 1000000000ll

/* ---- asking -------------------------------------------------------------- */

/* Returns the result of a command, which the caller owns. '*error' is the text
 * of its error, or NULL. */
static QObject *ask(Machine *m, const char *command, const char *arguments,
                    char **error)
{
    g_autofree char *text = g_strdup_printf(
        "{ 'execute': '%s', 'arguments': { 'path': '%s'%s%s } }", command,
        NIC0, *arguments ? ", " : "", arguments);
    QDict *reply = qobject_to(QDict, qobject_from_json(text, &error_abort));
    QDict *answer, *wrong;
    QObject *result;

    qtest_qmp_send(m->qts, "%p", reply);
    answer = qtest_qmp_receive(m->qts);
    wrong = qdict_get_qdict(answer, "error");
    *error = wrong ? g_strdup(qdict_get_str(wrong, "desc")) : NULL;
    result = qobject_ref(qdict_get(answer, "return"));
    qobject_unref(answer);
    return result;
}

static QObject *returned(Machine *m, const char *command, const char *arguments)
{
    g_autofree char *error = NULL;
    QObject *result = ask(m, command, arguments, &error);

    if (error) {
        g_error("%s: %s", command, error);
    }
    return result;
}

static void done(Machine *m, const char *command, const char *arguments)
{
    qobject_unref(returned(m, command, arguments));
}

static void refused(Machine *m, const char *command, const char *arguments,
                    const char *why)
{
    g_autofree char *error = NULL;
    QObject *result = ask(m, command, arguments, &error);

    g_assert_null(result);
    g_assert_nonnull(error);
    if (!strstr(error, why)) {
        g_error("%s says '%s', not '%s'", command, error, why);
    }
}

/* A property's JSON, with names spelled as in the schema. */
static QObject *property(Machine *m, const char *name)
{
    QDict *reply = qtest_qmp(m->qts, "{ 'execute': 'qom-get', 'arguments': {"
                             " 'path': %s, 'property': %s } }", NIC0, name);
    g_autofree char *text = g_ascii_strdown(qdict_get_str(reply, "return"), -1);
    QObject *value = qobject_from_json(g_strdelimit(text, "_", '-'),
                                       &error_abort);

    qobject_unref(reply);
    return value;
}

static void same(QObject *one, QObject *other, const char *what)
{
    g_autoptr(GString) a = qobject_to_json(one), b = qobject_to_json(other);

    if (!qobject_is_equal(one, other)) {
        g_error("%s: %s is not %s", what, a->str, b->str);
    }
    qobject_unref(other);
}

/* A command lists 'count' objects, the same as the property. */
static void same_list(Machine *m, const char *command, const char *key,
                      const char *name, size_t count)
{
    QObject *answer = returned(m, command, "");
    QDict *dict = qobject_to(QDict, answer);
    QObject *list = dict ? qdict_get(dict, key) : answer;

    g_assert_cmpuint(qlist_size(qobject_to(QList, list)), ==, count);
    same(list, property(m, name), command);
    qobject_unref(answer);
}

/* ---- objects and rings --------------------------------------------------- */

static void test_objects(Rig *r)
{
    struct fakernic_create_flow_req flow = { .type = FAKERNIC_FLOW_NORMAL };
    QObject *state;
    Qp raw;

    port_up(&r->n, &r->s, &raw, 0);
    flow.qpn = LE32(raw.qpn);
    cmd_create(&r->n, FAKERNIC_CMD_CREATE_FLOW, &flow, sizeof(flow));
    one_read(&r->n, &r->s, &r->a);
    cq_arm(&r->n, &r->s.cq, 0, false);
    assert_status(qp_to(&r->n, r->b.qpn, FAKERNIC_QPS_ERR), OK);
    state = returned(&r->m, "x-query-fakernic", "");
    same(state, property(&r->m, "x-state"), "x-query-fakernic");
    qobject_unref(state);
    same_list(&r->m, "x-query-fakernic-qps", "qps", "x-qps", 3);
    same_list(&r->m, "x-query-fakernic-cqs", "cqs", "x-cqs", 1);
    same_list(&r->m, "x-query-fakernic-eqs", "eqs", "x-eqs", 2);
    same_list(&r->m, "x-query-fakernic-srqs", "srqs", "x-srqs", 0);
    same_list(&r->m, "x-query-fakernic-keys", "keys", "x-keys", 1);
    same_list(&r->m, "x-query-fakernic-gids", NULL, "x-gids", 1);
    same_list(&r->m, "x-query-fakernic-flows", NULL, "x-flows", 1);
}

/* QPs of each type, and keys of several types. */
static void test_types(Rig *r)
{
    static const uint8_t types[] = {
        FAKERNIC_QP_RC, FAKERNIC_QP_UC, FAKERNIC_QP_UD, FAKERNIC_QP_GSI,
        FAKERNIC_QP_RAW_PACKET,
    };
    struct fakernic_create_qp_req xrc = {
        .type = FAKERNIC_QP_XRC_INI, .sq_log_depth = 5,
        .rq_log_depth = FAKERNIC_QUEUE_NONE,
    };
    struct fakernic_create_wq_req wq = {
        .type = FAKERNIC_WQT_RQ, .log_depth = 2, .log_stride = 6,
    };
    struct fakernic_create_mw_req mw = { .type = FAKERNIC_MW_TYPE_2B };
    Queue rq;
    Qp qp;

    for (unsigned i = 0; i < ARRAY_SIZE(types); i++) {
        qp_create(&r->n, &qp, types[i], r->s.pd, &r->s.cq, 0);
    }
    xrc.sq_pages = queue_alloc(&r->n, &qp.sq, 5, FAKERNIC_SQ_BB_SHIFT);
    xrc.pdn = LE32(r->s.pd);
    xrc.send_cqn = LE32(r->s.cq.id);
    cmd_create(&r->n, FAKERNIC_CMD_CREATE_QP, &xrc, sizeof(xrc));
    wq.pages = queue_alloc(&r->n, &rq, 2, 6);
    wq.pdn = LE32(r->s.pd);
    wq.cqn = LE32(r->s.cq.id);
    cmd_create(&r->n, FAKERNIC_CMD_CREATE_WQ, &wq, sizeof(wq));
    mw.pdn = LE32(r->s.pd);
    cmd_create(&r->n, FAKERNIC_CMD_CREATE_MW, &mw, sizeof(mw));
    same_list(&r->m, "x-query-fakernic-qps", "qps", "x-qps",
              2 + ARRAY_SIZE(types) + 2);
    same_list(&r->m, "x-query-fakernic-keys", "keys", "x-keys", 2);
}

static void test_ranges(Rig *r)
{
    g_autofree char *rest = NULL;
    QDict *answer;
    uint32_t next;

    answer = qobject_to(QDict, returned(&r->m, "x-query-fakernic-qps",
                                        "'count': 1"));
    g_assert_cmpuint(qlist_size(qdict_get_qlist(answer, "qps")), ==, 1);
    next = qdict_get_int(answer, "next");
    qobject_unref(answer);
    rest = g_strdup_printf("'from': %u", next);
    answer = qobject_to(QDict, returned(&r->m, "x-query-fakernic-qps", rest));
    g_assert_cmpuint(qlist_size(qdict_get_qlist(answer, "qps")), ==, 1);
    g_assert_false(qdict_haskey(answer, "next"));
    qobject_unref(answer);
    refused(&r->m, "x-query-fakernic-qps", "'count': 0", "'count'");
}

static void test_counters(Rig *r)
{
    QObject *answer;
    QDict *device;
    QList *values;
    const QListEntry *entry;
    uint64_t seen = 0;

    one_read(&r->n, &r->s, &r->a);
    answer = returned(&r->m, "x-query-fakernic-counters", "");
    device = qobject_to(QDict, qlist_peek(qobject_to(QList, answer)));
    g_assert_cmpint(qdict_get_int(device, "counter"), ==, 0);
    values = qdict_get_qlist(device, "values");
    g_assert_cmpuint(qlist_size(values), ==, FAKERNIC_STAT_COUNT);
    QLIST_FOREACH_ENTRY(values, entry) {
        QDict *one = qobject_to(QDict, qlist_entry_obj(entry));

        if (!strcmp(qdict_get_str(one, "name"), "tx_roce")) {
            seen = qdict_get_int(one, "value");
        }
    }
    g_assert_cmpuint(seen, >, 0);
    g_assert_cmpuint(seen, ==, nic_stat(&r->n, FAKERNIC_STAT_TX_ROCE));
    qobject_unref(answer);
}

static void property_set(Machine *m, const char *name, const char *words)
{
    qtest_qmp_assert_success(m->qts, "{ 'execute': 'qom-set', 'arguments': {"
                             " 'path': %s, 'property': %s, 'value': %s } }",
                             NIC0, name, words);
}

/* The command shows the same ring as the property. */
static void same_ring(Machine *m, const char *kind, uint32_t number,
                      const char *more)
{
    g_autofree char *words = g_strdup_printf("'ring': '%s', 'number': %u%s",
                                             kind, number, more);
    g_autofree char *said = g_strdup_printf(
        "%s %u%s", kind, number, *more ? " from=0 count=2" : "");
    QObject *ring = returned(m, "x-query-fakernic-ring", words);

    property_set(m, "x-ring", said);
    g_assert_cmpstr(qdict_get_str(qobject_to(QDict, ring), "ring"), ==, kind);
    g_assert_false(qlist_empty(qdict_get_qlist(qobject_to(QDict, ring),
                                               "entries")));
    same(ring, property(m, "x-ring"), words);
    qobject_unref(ring);
}

static void test_rings(Rig *r)
{
    AtomicWqe atomic;

    cq_arm(&r->n, &r->s.cq, 0, false);
    one_read(&r->n, &r->s, &r->a);
    atomic = wqe_atomic(&r->s, FAKERNIC_SQ_ATOMIC_FETCH_ADD, 0, 64, 1);
    POST(r, atomic);
    rig_cqe(r, FAKERNIC_CQE_FETCH_ADD, FAKERNIC_WC_SUCCESS);
    rq_post(&r->n, &r->b.rq, 77, r->s.data, 300, r->s.key);
    same_ring(&r->m, "sq", r->a.qpn, ", 'from': 0, 'count': 2");
    same_ring(&r->m, "rq", r->b.qpn, "");
    same_ring(&r->m, "cq", r->s.cq.id, "");
    same_ring(&r->m, "eq", r->s.eq.id, "");
    refused(&r->m, "x-query-fakernic-ring", "'ring': 'srq', 'number': 1",
            "there is no srq 1");
    refused(&r->m, "x-query-fakernic-ring", "'ring': 'tq', 'number': 1", "tq");
    refused(&r->m, "x-query-fakernic-ring",
            "'ring': 'cq', 'number': 1, 'count': 257", "count");
}

/* Commands neither use nor change the ranges and the ring that a client has
 * selected by properties. */
static void test_independent_of_properties(Rig *r)
{
    g_autofree char *words = NULL;
    QObject *part;

    one_read(&r->n, &r->s, &r->a);
    words = g_strdup_printf("sq %u from=0 count=1", r->a.qpn);
    property_set(&r->m, "x-ring", words);
    property_set(&r->m, "x-qps", "count=1");
    done(&r->m, "x-query-fakernic-cqs", "'count': 1");
    same_list(&r->m, "x-query-fakernic-cqs", "cqs", "x-cqs", 1);
    part = returned(&r->m, "x-query-fakernic-qps", "");
    g_assert_cmpuint(qlist_size(qdict_get_qlist(qobject_to(QDict, part),
                                                "qps")), ==, 2);
    qobject_unref(part);
    done(&r->m, "x-query-fakernic-qps", "'from': 4000000000, 'count': 1");
    part = property(&r->m, "x-qps");
    g_assert_cmpuint(qlist_size(qobject_to(QList, part)), ==, 2);
    g_assert_true(qdict_haskey(qobject_to(QDict, qlist_entry_obj(
        QTAILQ_LAST(&qobject_to(QList, part)->head))), "next"));
    qobject_unref(part);
    qobject_unref(returned(&r->m, "x-query-fakernic-ring",
                           "'ring': 'cq', 'number': 1"));
    part = property(&r->m, "x-ring");
    g_assert_cmpstr(qdict_get_str(qobject_to(QDict, part), "ring"), ==, "sq");
    g_assert_cmpint(qdict_get_int(qobject_to(QDict, part), "count"), ==, 1);
    qobject_unref(part);
}

static void test_recorder(Rig *r)
{
    QList *records;
    QDict *last;
    const char *what;

    one_read(&r->n, &r->s, &r->a);
    records = qobject_to(QList, returned(&r->m, "x-query-fakernic-recorder",
                                         "'now': true"));
    last = qobject_to(QDict, qlist_entry_obj(QTAILQ_LAST(&records->head)));
    what = qdict_get_str(last, "what");
    g_assert_cmpint(qdict_get_int(last, "number"), ==,
                    qlist_size(records) - 1);
    g_assert_cmpint(qdict_get_int(last, "time-ns"), >, 0);
    if (!g_str_has_prefix(what, "cqe_visible cqn=")) {
        g_error("the last that it did is '%s'", what);
    }
    qobject_unref(records);
}

/* Each query succeeds in each state of the device. */
static void test_states(Rig *r)
{
    static const char *const commands[] = {
        "x-query-fakernic", "x-query-fakernic-qps", "x-query-fakernic-cqs",
        "x-query-fakernic-srqs", "x-query-fakernic-eqs",
        "x-query-fakernic-keys", "x-query-fakernic-gids",
        "x-query-fakernic-flows", "x-query-fakernic-counters",
        "x-query-fakernic-recorder", "x-query-fakernic-faults",
    };

    for (unsigned state = 0; state < 4; state++) {
        for (unsigned i = 0; i < ARRAY_SIZE(commands); i++) {
            done(&r->m, commands[i], "");
        }
        switch (state) {
        case 0:
            nic_bringup(&r->n);
            break;
        case 1:
            qtest_qmp_assert_success(r->m.qts, "{ 'execute': 'stop' }");
            break;
        case 2:
            done(&r->m, "x-fakernic-fault-add",
                 "'rule': { 'id': 'd', 'at': 'device', 'do': 'dead' }");
            qtest_qmp_assert_success(r->m.qts, "{ 'execute': 'cont' }");
            ring(&r->n, 0, FAKERNIC_DOORBELL_SQ, doorbell(1, 0));
            break;
        }
    }
}

/* ---- fault rules --------------------------------------------------------- */

static void test_rules(Rig *r)
{
    QObject *answer;
    QDict *info, *event, *data;

    done(&r->m, "x-fakernic-fault-add",
         "'rule': { 'id': 'r3', 'at': 'rx', 'nth': 1, 'class': 'roce',"
         " 'opcode': 'rc-read-response-first', 'psn': '0-0xffffff',"
         " 'offset': 60, 'mask': 3, 'fix-icrc': true, 'do': 'corrupt' }");
    g_assert_cmphex(
        reg_read(&r->n, FAKERNIC_REG_STATUS) & FAKERNIC_STATUS_FAULTS, !=, 0);
    one_read(&r->n, &r->s, &r->a);
    event = qtest_qmp_eventwait_ref(r->m.qts, "FAKERNIC_FAULT");
    data = qdict_get_qdict(event, "data");
    g_assert_cmpstr(qdict_get_str(data, "path"), ==, NIC0);
    g_assert_cmpstr(qdict_get_str(data, "id"), ==, "r3");
    g_assert_cmpstr(qdict_get_str(data, "at"), ==, "rx");
    g_assert_cmpstr(qdict_get_str(data, "do"), ==, "corrupt");
    g_assert_cmpint(qdict_get_int(data, "hits"), ==, 1);
    g_assert_cmpint(qdict_get_int(data, "qpn"), ==, r->a.qpn);
    g_assert_cmpint(qdict_get_int(data, "untold"), ==, 0);
    qobject_unref(event);
    answer = returned(&r->m, "x-query-fakernic-faults", "");
    g_assert_cmpuint(qlist_size(qobject_to(QList, answer)), ==, 1);
    info = qobject_to(QDict, qlist_peek(qobject_to(QList, answer)));
    g_assert_cmpint(qdict_get_int(info, "matches"), ==, 1);
    g_assert_cmpint(qdict_get_int(info, "hits"), ==, 1);
    data = qdict_get_qdict(info, "rule");
    g_assert_cmpstr(qdict_get_str(data, "id"), ==, "r3");
    g_assert_cmpstr(qdict_get_str(data, "psn"), ==, "0-16777215");
    g_assert_cmpint(qdict_get_int(data, "mask"), ==, 3);
    g_assert_true(qdict_get_bool(data, "fix-icrc"));
    g_assert_cmpuint(qdict_size(data), ==, 10);
    qobject_unref(answer);
    done(&r->m, "x-fakernic-fault-remove", "'id': 'r3'");
    answer = returned(&r->m, "x-query-fakernic-faults", "");
    g_assert_true(qlist_empty(qobject_to(QList, answer)));
    qobject_unref(answer);
}

/* A frozen device thaws when all rules are removed. */
static void test_thaw(Rig *r)
{
    done(&r->m, "x-fakernic-fault-add",
         "'rule': { 'id': 'f', 'at': 'device', 'do': 'freeze' }");
    ring(&r->n, 0, FAKERNIC_DOORBELL_SQ, doorbell(1, 0));
    done(&r->m, "x-fakernic-fault-remove", "");
    one_read(&r->n, &r->s, &r->a);
}

static void test_refused(Rig *r)
{
    static const struct {
        const char *command, *arguments, *why;
    } wrong[] = {
        { "x-fakernic-fault-add", "'rule': { 'id': 'r', 'at': 'moon',"
          " 'do': 'drop' }", "moon" },
        { "x-fakernic-fault-add", "'rule': { 'id': 'r', 'at': 'rx' }", "do" },
        { "x-fakernic-fault-add", "'rule': { 'id': 'r', 'at': 'rx',"
          " 'do': 'freeze' }", "freeze" },
        { "x-fakernic-fault-add", "'rule': { 'id': 'r', 'at': 'rx',"
          " 'do': 'drop', 'nht': 3 }", "nht" },
        { "x-fakernic-fault-add", "'rule': { 'id': 'r', 'at': 'rx',"
          " 'do': 'drop', 'psn': '1 times=0' }", "is not a value of 'psn'" },
        { "x-fakernic-fault-add", "'rule': { 'id': 'r', 'at': 'rx',"
          " 'do': 'drop', 'psn': '1;remove=all' }", "is not a value of 'psn'" },
        { "x-fakernic-fault-add", "'rule': { 'id': '', 'at': 'rx',"
          " 'do': 'drop' }", "is not a value of 'id'" },
        { "x-fakernic-fault-add", "'rule': { 'id': 'r', 'at': 'rx',"
          " 'do': 'drop', 'percent': -1 }", "percent" },
        { "x-fakernic-fault-add", "'rule': { 'id': 'r', 'at': 'rx',"
          " 'do': 'drop', 'nth': 'first' }", "nth" },
        { "x-fakernic-fault-remove", "'id': 'nobody'", "nobody" },
        { "x-fakernic-fault-remove", "'id': 'a;remove=b'", "not a value" },
    };
    QObject *rules;

    for (unsigned i = 0; i < ARRAY_SIZE(wrong); i++) {
        refused(&r->m, wrong[i].command, wrong[i].arguments, wrong[i].why);
    }
    rules = returned(&r->m, "x-query-fakernic-faults", "");
    g_assert_true(qlist_empty(qobject_to(QList, rules)));
    qobject_unref(rules);
}

/* Typed numbers have the limits of those in a text. None wraps, and an error
 * names the wrong one. */
static void test_numbers(Rig *r)
{
    static const char *const words[] = {
        "nth", "times", "every", "seed", "percent", "ppm", "from-ns",
        "until-ns", "delay-ns",
    };
    static const char *const values[] = { "-1", "-9223372036854775808" };
    QObject *rules;

    for (unsigned i = 0; i < ARRAY_SIZE(words); i++) {
        for (unsigned k = 0; k < ARRAY_SIZE(values); k++) {
            g_autofree char *rule = g_strdup_printf(
                "'rule': { 'id': 'r', 'at': 'rx', 'do': 'drop', '%s': %s }",
                words[i], values[k]);
            g_autofree char *why = g_strdup_printf(
                "'%s' is invalid for '%s'", values[k], words[i]);

            refused(&r->m, "x-fakernic-fault-add", rule, why);
        }
    }
    refused(&r->m, "x-fakernic-fault-add", "'rule': { 'id': 'r', 'at': 'rx',"
            " 'do': 'drop', 'seed': 9223372036854775808 }", "seed");
    /* The typed query shows the largest numbers that a text may have. */
    property_set(&r->m, "x-fault", "id=w at=rx nth=9223372036854775807 "
                 "times=9223372036854775807 every=9223372036854775807 "
                                   "seed=9223372036854775807 do=drop");
    rules = returned(&r->m, "x-query-fakernic-faults", "");
    g_assert_cmpuint(qlist_size(qobject_to(QList, rules)), ==, 1);
    qobject_unref(rules);
}

/* Paths of another device, of none, and of an unplugged one fail. */
static void test_paths(void)
{
    static const char *const paths[] = { "/machine", "nic1", "/" };
    QDict *reply;
    Machine m;

    machine_start(&m, "-machine pc");
    qtest_qmp_device_add(m.qts, "fakernic", "nic0", "{'addr': '06'}");
    for (unsigned i = 0; i < ARRAY_SIZE(paths); i++) {
        reply = qtest_qmp(m.qts, "{ 'execute': 'x-query-fakernic-qps',"
                          " 'arguments': { 'path': %s } }", paths[i]);
        g_assert_true(qdict_haskey(reply, "error"));
        qobject_unref(reply);
    }
    reply = qtest_qmp(m.qts, "{ 'execute': 'x-query-fakernic-qps',"
                             " 'arguments': { 'path': 'nic0' } }");
    g_assert_true(qdict_haskey(reply, "return"));
    qobject_unref(reply);
    qpci_unplug_acpi_device_test(m.qts, "nic0", 6);
    refused(&m, "x-query-fakernic-qps", "", "there is no fakernic");
    machine_stop(&m);
}

/* The number of pending events, and "untold" of the last one. */
static unsigned events(Machine *m, int64_t *untold)
{
    unsigned count = 0;
    QDict *event;

    qtest_qmp_assert_success(m->qts, "{ 'execute': 'query-status' }");
    while ((event = qtest_qmp_event_ref(m->qts, "FAKERNIC_FAULT"))) {
        *untold = qdict_get_int(qdict_get_qdict(event, "data"), "untold");
        qobject_unref(event);
        count++;
    }
    return count;
}

/* A client that does not read gets at most some 100 events per second. */
static void test_flood(Rig *r)
{
    int64_t untold = 0;

    done(&r->m, "x-fakernic-fault-add",
         "'rule': { 'id': 'each', 'at': 'doorbell',"
         " 'times': 0, 'do': 'drop' }");
    for (unsigned i = 0; i < 250; i++) {
        ring(&r->n, 0, FAKERNIC_DOORBELL_SQ, doorbell(r->a.qpn, 0));
    }
    g_assert_cmpuint(events(&r->m, &untold), ==, 100);
    g_assert_cmpint(untold, ==, 0);
    qtest_clock_step(r->m.qts, SECOND);
    ring(&r->n, 0, FAKERNIC_DOORBELL_SQ, doorbell(r->a.qpn, 0));
    g_assert_cmpuint(events(&r->m, &untold), ==, 1);
    g_assert_cmpint(untold, ==, 150);
    /* The limit does not apply to the first hits of another rule. */
    for (unsigned i = 0; i < 250; i++) {
        ring(&r->n, 0, FAKERNIC_DOORBELL_SQ, doorbell(r->a.qpn, 0));
    }
    g_assert_cmpuint(events(&r->m, &untold), ==, 99);
    done(&r->m, "x-fakernic-fault-remove", "");
    done(&r->m, "x-fakernic-fault-add",
         "'rule': { 'id': 'new', 'at': 'doorbell',"
         " 'times': 20, 'do': 'drop' }");
    for (unsigned i = 0; i < 20; i++) {
        ring(&r->n, 0, FAKERNIC_DOORBELL_SQ, doorbell(r->a.qpn, 0));
    }
    g_assert_cmpuint(events(&r->m, &untold), ==, 16);
}

/* A second monitor, which a test reads line by line. */
typedef struct Monitor {
    int fd;
    FILE *lines;
    uint64_t events, untold;    /* of FAKERNIC_FAULT */
} Monitor;

static void monitor_says(Monitor *monitor, const char *command)
{
    char line[4096];
    const char *untold;

    g_assert_cmpint(write(monitor->fd, command, strlen(command)), ==,
                    strlen(command));
    do {
        g_assert_nonnull(fgets(line, sizeof(line), monitor->lines));
        untold = strstr(line, "\"untold\": ");
        if (untold) {
            monitor->untold += g_ascii_strtoull(untold + strlen("\"untold\": "),
                                                NULL, 10);
            monitor->events++;
        }
    } while (!strstr(line, "\"return\": "));
}

static void monitor_start(Monitor *monitor, Machine *m)
{
    const struct timeval patience = { .tv_sec = 60 };
    int ends[2];

    g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), ==, 0);
    setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    machine_start(m, "%s,id=nic0 -chardev socket,id=second,fd=%d "
                     "-mon chardev=second,mode=control", DEVICE, ends[1]);
    close(ends[1]);
    *monitor = (Monitor) { .fd = ends[0], .lines = fdopen(ends[0], "r") };
    monitor_says(monitor, "{ 'execute': 'qmp_capabilities' }");
}

static void monitor_rules(Monitor *monitor, const char *rules)
{
    g_autofree char *command = g_strdup_printf(
        "{ 'execute': 'qom-set', 'arguments': { 'path': '%s',"
        " 'property': 'x-fault', 'value': '%s' } }", NIC0, rules);

    monitor_says(monitor, command);
}

/* Causes this many hits, a hundred per second. */
static void hits_of_doorbells(Machine *m, Nic *n, unsigned count,
                              Monitor *monitor)
{
    for (unsigned i = 1; i <= count; i++) {
        ring(n, 0, FAKERNIC_DOORBELL_SQ, doorbell(1, 0));
        if (i % 100 == 0 || i == count) {
            qtest_clock_step(m->qts, SECOND);
            monitor_says(monitor, "{ 'execute': 'query-status' }");
        }
    }
}

/* In the long run fewer and fewer hits cause an event, except the first hits of
 * a rule. */
static void test_long_flood(void)
{
    const uint64_t first = 65600, more = 10000;
    Monitor monitor;
    Machine m;
    Nic n;

    monitor_start(&monitor, &m);
    nic_find(&n, &m, SLOT);
    nic_bringup(&n);
    monitor_rules(&monitor, "at=doorbell times=0 do=drop");
    hits_of_doorbells(&m, &n, first, &monitor);
    g_assert_cmpuint(monitor.events, >=, 65536);
    g_assert_cmpuint(monitor.events, <=, 65536 + 1);
    monitor.events = monitor.untold = 0;
    hits_of_doorbells(&m, &n, more, &monitor);
    g_assert_cmpuint(monitor.events, >=, 1024 * more / (first + more) - 1);
    g_assert_cmpuint(monitor.events, <=, 1024 * more / first + 1);
    g_assert_cmpuint(monitor.events + monitor.untold, >, more - 75);
    monitor.events = 0;
    monitor_rules(&monitor, "remove=all; at=doorbell times=20 do=drop");
    hits_of_doorbells(&m, &n, 20, &monitor);
    g_assert_cmpuint(monitor.events, ==, 16);
    machine_stop(&m);
    fclose(monitor.lines);
}

/* ---- schema and descriptions --------------------------------------------- */

static bool has_name(QList *list, const char *name, const char *kind)
{
    const QListEntry *entry;

    QLIST_FOREACH_ENTRY(list, entry) {
        QDict *one = qobject_to(QDict, qlist_entry_obj(entry));

        if (!g_strcmp0(qdict_get_try_str(one, "name"), name) &&
            !g_strcmp0(qdict_get_try_str(one, "meta-type"), kind)) {
            return true;
        }
    }
    return false;
}

static void test_schema(void)
{
    static const char *const commands[] = {
        "x-fakernic-fault-add", "x-fakernic-fault-remove",
        "x-query-fakernic-faults", "x-query-fakernic", "x-query-fakernic-qps",
        "x-query-fakernic-cqs", "x-query-fakernic-srqs",
        "x-query-fakernic-eqs", "x-query-fakernic-keys",
        "x-query-fakernic-gids", "x-query-fakernic-flows",
        "x-query-fakernic-counters", "x-query-fakernic-ring",
        "x-query-fakernic-recorder",
    };
    QDict *reply;
    QList *schema;
    Machine m;

    machine_start(&m, "%s,id=nic0", DEVICE);
    reply = qtest_qmp(m.qts, "{ 'execute': 'query-qmp-schema' }");
    schema = qdict_get_qlist(reply, "return");
    for (unsigned i = 0; i < ARRAY_SIZE(commands); i++) {
        g_assert_true(has_name(schema, commands[i], "command"));
    }
    g_assert_true(has_name(schema, "FAKERNIC_FAULT", "event"));
    qobject_unref(reply);
    machine_stop(&m);
}

static QDict *properties_of(Machine *m, const char *type)
{
    return qtest_qmp(m->qts, "{ 'execute': 'qom-list-properties',"
                             " 'arguments': { 'typename': %s } }", type);
}

static bool has_property(QList *list, const char *name)
{
    const QListEntry *entry;

    QLIST_FOREACH_ENTRY(list, entry) {
        QDict *one = qobject_to(QDict, qlist_entry_obj(entry));

        if (!strcmp(qdict_get_str(one, "name"), name)) {
            return true;
        }
    }
    return false;
}

/* Each x- property has a description, except those of all PCI devices. */
static void test_property_descriptions(void)
{
    unsigned ours = 0;
    const QListEntry *entry;
    QDict *reply, *any;
    Machine m;

    machine_start(&m, "%s,id=nic0", DEVICE);
    reply = properties_of(&m, "fakernic");
    any = properties_of(&m, "pci-device");
    QLIST_FOREACH_ENTRY(qdict_get_qlist(reply, "return"), entry) {
        QDict *one = qobject_to(QDict, qlist_entry_obj(entry));
        const char *name = qdict_get_str(one, "name");
        const char *text = qdict_get_try_str(one, "description");

        if (g_str_has_prefix(name, "x-") &&
            !has_property(qdict_get_qlist(any, "return"), name)) {
            if (!text || !*text) {
                g_error("%s is not described", name);
            }
            ours++;
        }
    }
    g_assert_cmpuint(ours, >=, 20);
    qobject_unref(reply);
    qobject_unref(any);
    machine_stop(&m);
}

const FakernicTest fakernic_qmp_tests[] = {
    { "qmp/objects", ON(inside_pair, test_objects) },
    { "qmp/types", ON(inside_pair, test_types) },
    { "qmp/ranges", ON(inside_pair, test_ranges) },
    { "qmp/counters", ON(inside_pair, test_counters) },
    { "qmp/rings", ON(inside_pair, test_rings) },
    { "qmp/independent-of-properties",
      ON(inside_pair, test_independent_of_properties) },
    { "qmp/recorder", ON(inside_pair, test_recorder) },
    { "qmp/states", BARE(test_states) },
    { "qmp/rules", ON(inside_pair, test_rules) },
    { "qmp/thaw", ON(inside_pair, test_thaw) },
    { "qmp/refused", ON(inside_pair, test_refused) },
    { "qmp/numbers", ON(inside_pair, test_numbers) },
    { "qmp/paths", test_paths },
    { "qmp/flood", ON(inside_pair, test_flood) },
    { "qmp/long-flood", test_long_flood },
    { "qmp/schema", test_schema },
    { "qmp/property-descriptions", test_property_descriptions },
    {}
};
