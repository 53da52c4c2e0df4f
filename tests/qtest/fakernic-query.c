/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Introspection: queries show the values that commands and work requests set. A
 * query changes nothing, in any state of the device.
 */
#include "qemu/osdep.h"
#include "qapi/error.h"
#include "qobject/qdict.h"
#include "qobject/qjson.h"
#include "qobject/qlist.h"
#include "qobject/qnum.h"
#include "fakernic-inside.h"

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

/* The object with the number 'id', which must be listed exactly once. */
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

static void test_qps(Rig *r)
{
    QList *list;
    QDict *qp;
    struct fakernic_qp_attr attr;
    struct fakernic_id id;

    one_read(&r->n, &r->s, &r->a);
    list = query_list(&r->m, "x-qps");
    g_assert_cmpuint(qlist_size(list), ==, 2);
    for (unsigned i = 0; i < 2; i++) {
        const Qp *one = i ? &r->b : &r->a, *other = i ? &r->a : &r->b;

        id.id = LE32(one->qpn);
        assert_status(cmd(&r->n, FAKERNIC_CMD_QUERY_QP, &id, sizeof(id), &attr,
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
        g_assert_cmpint(qdict_get_int(qp, "pdn"), ==, r->s.pd);
        g_assert_cmpint(qdict_get_int(qp, "send-cqn"), ==, r->s.cq.id);
        g_assert_cmpint(qdict_get_int(qp, "sq-pi"), ==, i ? 0 : 1);
        g_assert_cmpint(qdict_get_int(qp, "sq-ci"), ==, i ? 0 : 1);
        g_assert_cmpint(qdict_get_int(qp, "msn"), ==, i ? 1 : 0);
        g_assert_cmpint(qdict_get_int(qp, "in-flight"), ==, 0);
        g_assert_true(qdict_get_bool(qp, "loopback") || i);
    }
    qobject_unref(list);
}

/* A lost work request stays in flight. After a timeout a retry less is left. */
static void test_in_flight(Rig *r)
{
    QList *list;
    QDict *qp;
    Wqe wqe;
    int64_t left;

    fault(&r->m, "at=tx times=0 do=drop");
    wqe = wqe_rdma(&r->s, FAKERNIC_SQ_RDMA_READ, 16384, 0, 5000);
    POST(r, wqe);
    list = query_list(&r->m, "x-qps");
    qp = find(list, "qpn", r->a.qpn);
    g_assert_cmpint(qdict_get_int(qp, "in-flight"), ==, 1);
    g_assert_cmpint(qdict_get_int(qp, "una-psn"), !=,
                    qdict_get_int(qp, "high-psn"));
    left = qdict_get_int(qp, "retry-left");
    g_assert_cmpint(left, ==, qdict_get_int(qp, "retry-cnt"));
    qobject_unref(list);
    for (unsigned ms = 0; ms < 2000; ms += 10) {
        qtest_clock_step(r->m.qts, 10000000);
    }
    list = query_list(&r->m, "x-qps");
    g_assert_cmpint(qdict_get_int(find(list, "qpn", r->a.qpn), "retry-left"), <,
                    left);
    qobject_unref(list);
}

static void test_queues(Rig *r)
{
    QList *list;
    QDict *one;

    one_read(&r->n, &r->s, &r->a);
    cq_arm(&r->n, &r->s.cq, 0, false);
    list = query_list(&r->m, "x-cqs");
    g_assert_cmpuint(qlist_size(list), ==, 1);
    one = find(list, "cqn", r->s.cq.id);
    g_assert_cmpint(qdict_get_int(one, "pi"), ==, 1);
    g_assert_cmpint(qdict_get_int(one, "depth"), ==, r->s.cq.depth);
    g_assert_cmpint(qdict_get_int(one, "eqn"), ==, r->s.eq.id);
    g_assert_cmpint(qdict_get_int(one, "users"), ==, 4);
    g_assert_cmpstr(qdict_get_str(one, "armed"), ==, "any");
    g_assert_false(qdict_get_bool(one, "error"));
    qobject_unref(list);
    list = query_list(&r->m, "x-eqs");
    g_assert_cmpuint(qlist_size(list), ==, 2);
    one = find(list, "eqn", r->s.eq.id);
    g_assert_cmpint(qdict_get_int(one, "vector"), ==, 1);
    g_assert_true(qdict_get_bool(one, "armed"));
    g_assert_false(qdict_get_bool(one, "async"));
    g_assert_true(qdict_get_bool(find(list, "eqn", r->s.async.id), "async"));
    qobject_unref(list);
    list = query_list(&r->m, "x-keys");
    g_assert_cmpuint(qlist_size(list), ==, 1);
    one = find(list, "index", FAKERNIC_GET(FAKERNIC_KEY_INDEX, r->s.key));
    g_assert_cmpint(qdict_get_int(one, "pdn"), ==, r->s.pd);
    g_assert_cmpint(qdict_get_int(one, "pages"), ==,
                    DATA_SIZE / FAKERNIC_PAGE_SIZE);
    qobject_unref(list);
    list = query_list(&r->m, "x-srqs");
    g_assert_true(qlist_empty(list));
    qobject_unref(list);
}

/* Selects a part of a list by 'words', and returns it. */
static QList *query_from(Machine *m, const char *property, const char *words)
{
    qtest_qmp_assert_success(m->qts, "{ 'execute': 'qom-set', 'arguments': {"
                             " 'path': %s, 'property': %s, 'value': %s } }",
                             NIC0, property, words);
    return query_list(m, property);
}

static void query_from_refused(Machine *m, const char *property,
                               const char *words)
{
    QDict *reply = qtest_qmp(m->qts, "{ 'execute': 'qom-set', 'arguments': {"
                             " 'path': %s, 'property': %s, 'value': %s } }",
                             NIC0, property, words);

    g_assert_nonnull(qdict_get_qdict(reply, "error"));
    qobject_unref(reply);
}

static void test_ranges(Rig *r)
{
    g_autofree char *rest = NULL;
    QList *all, *list;
    uint32_t next;

    all = query_list(&r->m, "x-qps");
    list = query_from(&r->m, "x-qps", "count=1");
    g_assert_cmpuint(qlist_size(list), ==, 2);
    next = qdict_get_int(qobject_to(QDict, qlist_entry_obj(
        QTAILQ_LAST(&list->head))), "next");
    qobject_unref(list);
    rest = g_strdup_printf("from=%u", next);
    list = query_from(&r->m, "x-qps", rest);
    g_assert_cmpuint(qlist_size(list), ==, qlist_size(all) - 1);
    g_assert_true(next == r->a.qpn || next == r->b.qpn);
    g_assert_nonnull(find(list, "qpn", next));
    qobject_unref(list);
    /* The selection is valid for one answer. */
    list = query_list(&r->m, "x-qps");
    g_assert_cmpuint(qlist_size(list), ==, qlist_size(all));
    qobject_unref(list);
    list = query_from(&r->m, "x-cqs", "from=4000000000");
    g_assert_true(qlist_empty(list));
    qobject_unref(list);
    list = query_from(&r->m, "x-qps", "from=0x0 count=010");
    g_assert_cmpuint(qlist_size(list), ==, qlist_size(all));
    qobject_unref(list);
    query_from_refused(&r->m, "x-qps", "from=-1");
    query_from_refused(&r->m, "x-qps", "from=+1");
    query_from_refused(&r->m, "x-qps", "from=4294967296");
    query_from_refused(&r->m, "x-qps", "count=0x");
    query_from_refused(&r->m, "x-qps", "until=3");
    query_from_refused(&r->m, "x-gids", "from=1");
    qobject_unref(all);
}

static void test_device(Rig *r)
{
    QDict *state, *use;

    one_read(&r->n, &r->s, &r->a);
    state = query_dict(&r->m, "x-state");
    g_assert_cmpint(qdict_get_int(state, "status"), ==,
                    FAKERNIC_STATUS_READY | FAKERNIC_STATUS_ENABLED);
    g_assert_true(qdict_get_bool(state, "running"));
    g_assert_cmpint(qdict_get_int(state, "command-ci"), ==, r->n.cmd_pi);
    use = qdict_get_qdict(state, "qp");
    g_assert_cmpint(qdict_get_int(use, "used"), ==, 2);
    g_assert_cmpint(qdict_get_int(use, "limit"), ==, 64);
    g_assert_cmpint(qdict_get_int(qdict_get_qdict(state, "mr"), "used"), ==, 1);
    g_assert_cmpint(qdict_get_int(qdict_get_qdict(state, "eq"), "used"), ==, 2);
    qobject_unref(state);
}

static void test_counters(Rig *r)
{
    struct fakernic_set_qp_counter_req bind = { 0 };
    QList *list;
    QDict *one;
    uint32_t id;

    id = cmd_create(&r->n, FAKERNIC_CMD_CREATE_COUNTER, NULL, 0);
    bind.qpn = LE32(r->a.qpn);
    bind.id = LE32(id);
    assert_status(CMD(&r->n, SET_QP_COUNTER, bind), OK);
    fault(&r->m, "at=rx opcode=rc-read-response-first do=drop");
    one_read(&r->n, &r->s, &r->a);
    list = query_list(&r->m, "x-counters");
    g_assert_cmpuint(qlist_size(list), ==, 2);
    one = find(list, "counter", 0);
    g_assert_cmpuint(qdict_size(one), ==, FAKERNIC_STAT_COUNT + 1);
    g_assert_cmpint(qdict_get_int(one, "tx_roce"), ==,
                    nic_stat(&r->n, FAKERNIC_STAT_TX_ROCE));
    g_assert_cmpint(qdict_get_int(one, "rx_roce_bytes"), ==,
                    nic_stat(&r->n, FAKERNIC_STAT_RX_ROCE_BYTES));
    g_assert_cmpint(qdict_get_int(one, "tx_roce"), >, 0);
    one = find(list, "counter", id);
    g_assert_cmpint(qdict_get_int(one, "users"), ==, 1);
    g_assert_cmpint(qdict_get_int(one, "implied_nak"), ==, 1);
    g_assert_false(qdict_haskey(one, "timeouts"));
    qobject_unref(list);
}

static void test_gids_and_flows(Rig *r)
{
    Qp raw;
    QList *list;
    QDict *one;
    struct fakernic_create_flow_req flow = {
        .type = FAKERNIC_FLOW_NORMAL,
        .priority = LE16(3),
    };
    uint32_t id;

    port_up(&r->n, &r->s, &raw, 0);
    list = query_list(&r->m, "x-gids");
    g_assert_cmpuint(qlist_size(list), ==, 1);
    one = find(list, "index", 0);
    g_assert_cmpstr(qdict_get_str(one, "gid"), ==,
                    "0000:0000:0000:0000:0000:ffff:0a00:0001");
    g_assert_cmpstr(qdict_get_str(one, "type"), ==, "IPV4");
    g_assert_cmpstr(qdict_get_str(one, "mac"), ==, MAC_STRING);
    g_assert_cmpint(qdict_get_int(one, "vlan"), ==, FAKERNIC_VLAN_NONE);
    qobject_unref(list);
    list = query_list(&r->m, "x-flows");
    g_assert_true(qlist_empty(list));
    qobject_unref(list);
    flow.qpn = LE32(raw.qpn);
    memset(flow.mask.dmac, 0xff, 6);
    memcpy(flow.value.dmac, nic_mac, 6);
    id = cmd_create(&r->n, FAKERNIC_CMD_CREATE_FLOW, &flow, sizeof(flow));
    list = query_list(&r->m, "x-flows");
    one = find(list, "flow", id);
    g_assert_cmpint(qdict_get_int(one, "qpn"), ==, raw.qpn);
    g_assert_cmpint(qdict_get_int(one, "priority"), ==, 3);
    g_assert_true(g_str_has_prefix(qdict_get_str(one, "value"),
                                   "5254000a0b0c0000"));
    g_assert_true(g_str_has_prefix(qdict_get_str(one, "mask"),
                                   "ffffffffffff0000"));
    qobject_unref(list);
}

/* ---- rings --------------------------------------------------------------- */

/* Selects a ring. Returns NULL, or the error's text, which the caller owns. */
static char *look_at(Machine *m, const char *words)
{
    QDict *reply = qtest_qmp(m->qts, "{ 'execute': 'qom-set', 'arguments': {"
                             " 'path': %s, 'property': 'x-ring', 'value': %s"
                             " } }", NIC0, words);
    QDict *error = qdict_get_qdict(reply, "error");
    char *text = error ? g_strdup(qdict_get_str(error, "desc")) : NULL;

    qobject_unref(reply);
    return text;
}

static void look_fails(Machine *m, const char *words, const char *why)
{
    g_autofree char *error = look_at(m, words);

    g_assert_nonnull(error);
    g_assert_nonnull(strstr(error, why));
}

/* The ring shows this many entries. The caller owns them. */
static QList *look(Machine *m, const char *kind, uint32_t number,
                   const char *more, size_t count)
{
    g_autofree char *words = g_strdup_printf("%s %u%s", kind, number, more);
    g_autofree char *error = look_at(m, words);
    const char *asked = strstr(more, "count=");
    QDict *seen;
    QList *entries;

    g_assert_null(error);
    seen = query_dict(m, "x-ring");
    g_assert_cmpstr(qdict_get_str(seen, "ring"), ==, kind);
    g_assert_cmpint(qdict_get_int(seen, "number"), ==, number);
    /* The answer must be to this selection, not to another client's. */
    g_assert_cmpint(qdict_haskey(seen, "from"), ==, !!strstr(more, "from="));
    g_assert_cmpint(qdict_get_int(seen, "count"), ==, asked ? atoi(asked + 6)
                                                            : 16);
    entries = qobject_ref(qdict_get_qlist(seen, "entries"));
    qobject_unref(seen);
    g_assert_cmpuint(qlist_size(entries), ==, count);
    return entries;
}

/* A number in an entry, or in its only data segment. */
static uint64_t entry_number(QDict *entry, const char *name)
{
    return qnum_get_uint(qobject_to(QNum, qdict_get(entry, name)));
}

static void assert_segment(QDict *entry, uint64_t address, uint32_t length,
                           uint32_t key)
{
    QList *sges = qdict_get_qlist(entry, "sges");
    QDict *sge = qobject_to(QDict, qlist_peek(sges));

    g_assert_cmpuint(qlist_size(sges), ==, 1);
    g_assert_cmphex(entry_number(sge, "address"), ==, address);
    g_assert_cmpuint(entry_number(sge, "length"), ==, length);
    g_assert_cmphex(entry_number(sge, "lkey"), ==, key);
}

static void test_send_ring(Rig *r)
{
    Qp c;
    QList *list;
    QDict *one;
    Wqe wqe;

    one_read(&r->n, &r->s, &r->a);
    /* The WQE is complete: none is pending, but its slot can still be shown. */
    qobject_unref(look(&r->m, "sq", r->a.qpn, "", 0));
    list = look(&r->m, "sq", r->a.qpn, " from=0 count=1", 1);
    one = find(list, "index", 0);
    g_assert_cmpstr(qdict_get_str(one, "opcode"), ==, "RDMA_READ");
    g_assert_cmpuint(entry_number(one, "vendor-err"), ==, 0);
    g_assert_cmpuint(entry_number(one, "rkey"), ==, r->s.key);
    g_assert_cmphex(entry_number(one, "remote-address"), ==, r->s.data);
    assert_segment(one, r->s.data + 16384, 5000, r->s.key);
    qobject_unref(list);
    /* A QP in RESET sends nothing: valid and invalid WQEs are pending. */
    qp_create(&r->n, &c, FAKERNIC_QP_RC, r->s.pd, &r->s.cq, 0);
    wqe = wqe_send(&r->s, 64, 100);
    sq_put(&r->n, &c, &wqe, sizeof(wqe));
    wqe.hdr.opcode = 99;
    sq_put(&r->n, &c, &wqe, sizeof(wqe));
    sq_ring(&r->n, &c);
    list = look(&r->m, "sq", c.qpn, "", 2);
    one = find(list, "index", 0);
    g_assert_cmpstr(qdict_get_str(one, "opcode"), ==, "SEND");
    assert_segment(one, r->s.data + 64, 100, r->s.key);
    one = find(list, "index", 1);
    g_assert_cmpuint(entry_number(one, "vendor-err"), ==,
                     FAKERNIC_VENDOR_SQ_OPCODE);
    qobject_unref(list);
}

static void test_other_rings(Rig *r)
{
    QList *list;
    QDict *one;

    cq_arm(&r->n, &r->s.cq, 0, false);
    one_read(&r->n, &r->s, &r->a);
    list = look(&r->m, "cq", r->s.cq.id, "", 1);
    one = find(list, "index", 0);
    g_assert_cmpstr(qdict_get_str(one, "opcode"), ==, "RDMA_READ");
    g_assert_cmpstr(qdict_get_str(one, "status"), ==, "SUCCESS");
    g_assert_cmpuint(entry_number(one, "qpn"), ==, r->a.qpn);
    g_assert_cmpuint(entry_number(one, "owner"), ==, 1);
    qobject_unref(list);
    list = look(&r->m, "eq", r->s.eq.id, "", 1);
    one = find(list, "index", 0);
    g_assert_cmpstr(qdict_get_str(one, "type"), ==, "COMPLETION");
    g_assert_cmpuint(entry_number(one, "id"), ==, r->s.cq.id);
    qobject_unref(list);
    qobject_unref(look(&r->m, "rq", r->b.qpn, "", 0));
    rq_post(&r->n, &r->b.rq, 77, r->s.data, 300, r->s.key);
    list = look(&r->m, "rq", r->b.qpn, "", 1);
    one = find(list, "index", 0);
    g_assert_cmpuint(entry_number(one, "tag"), ==, 77);
    assert_segment(one, r->s.data, 300, r->s.key);
    qobject_unref(list);
}

static void test_no_ring(Rig *r)
{
    static const struct {
        const char *words, *why;
    } wrong[] = {
        { "", "select a ring" },
        { "sq", "select a ring" },
        { "tq 1", "select a ring" },
        { "sq -1", "select a ring" },
        { "sq 4294967296", "select a ring" },
        { "sq 4000", "there is no sq 4000" },
        { "sq 04000", "there is no sq 4000" },
        { "sq 0xfa0", "there is no sq 4000" },
        { "sq +1", "select a ring" },
        { "sq 0x", "select a ring" },
        { "cq 4294967295", "there is no cq 4294967295" },
        { "srq 1", "there is no srq 1" },
        { "eq 99", "there is no eq 99" },
        { "eq 1 count=0", "count" },
        { "eq 1 count=257", "count" },
        { "eq 1 from=x", "from=" },
        { "eq 1 1", "'1' is neither" },
    };
    QDict *reply;

    reply = qtest_qmp(r->m.qts, "{ 'execute': 'qom-get', 'arguments': {"
                      " 'path': %s, 'property': 'x-ring' } }", NIC0);
    g_assert_true(qdict_haskey(reply, "error"));
    qobject_unref(reply);
    for (unsigned i = 0; i < G_N_ELEMENTS(wrong); i++) {
        look_fails(&r->m, wrong[i].words, wrong[i].why);
    }
    qobject_unref(look(&r->m, "sq", r->a.qpn, "", 0));
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_QP, r->a.qpn), OK);
    reply = qtest_qmp(r->m.qts, "{ 'execute': 'qom-get', 'arguments': {"
                      " 'path': %s, 'property': 'x-ring' } }", NIC0);
    g_assert_nonnull(strstr(qdict_get_str(qdict_get_qdict(reply, "error"),
                                          "desc"), "there is no sq"));
    qobject_unref(reply);
    /* The ring's memory exists, but the device may not access it. */
    qobject_unref(look(&r->m, "sq", r->b.qpn, "", 0));
    qpci_config_writew(r->n.pci, PCI_COMMAND, PCI_COMMAND_MEMORY);
    reply = qtest_qmp(r->m.qts, "{ 'execute': 'qom-get', 'arguments': {"
                      " 'path': %s, 'property': 'x-ring' } }", NIC0);
    g_assert_nonnull(
        strstr(qdict_get_str(qdict_get_qdict(reply, "error"), "desc"),
               "the device cannot access the memory"));
    qobject_unref(reply);
}

/* ---- from the guest ------------------------------------------------------ */

#define DUMP_ROOM 65536

/* Reads the whole text in pieces of 'piece' bytes. The caller owns it. */
static char *dump(Nic *n, uint8_t kind, uint32_t id, uint32_t piece)
{
    const uint64_t at = mem_alloc(n->m, DUMP_ROOM);
    struct fakernic_dump_req req = {
        .address = LE64(at), .length = LE32(piece), .id = LE32(id),
        .kind = kind,
    };
    struct fakernic_dump_resp resp;
    GString *text = g_string_new(NULL);

    do {
        g_autofree char *bytes = g_malloc0(piece);

        req.first = LE32(text->len);
        assert_status(cmd(n, FAKERNIC_CMD_DUMP, &req, sizeof(req), &resp,
                          sizeof(resp)), OK);
        g_assert_cmpuint(le32_to_cpu(resp.written), <=, piece);
        qtest_memread(n->m->qts, at, bytes, piece);
        g_string_append_len(text, bytes, le32_to_cpu(resp.written));
    } while (text->len < le32_to_cpu(resp.size));
    return g_string_free(text, false);
}

static uint8_t dump_status(Nic *n, uint8_t kind, uint32_t id, uint32_t length,
                           uint32_t first)
{
    struct fakernic_dump_req req = {
        .address = LE64(mem_alloc(n->m, 4096)), .length = LE32(length),
        .id = LE32(id), .first = LE32(first), .kind = kind,
    };

    return CMD(n, DUMP, req);
}

/* DUMP returns the object as QMP shows it. */
static void dump_is(Machine *m, Nic *n, uint8_t kind, uint32_t id,
                    const char *property, const char *number, uint32_t value)
{
    g_autofree char *text = dump(n, kind, id, 100);
    QObject *one = qobject_from_json(text, &error_abort);
    QList *list = query_list(m, property);
    QDict *other = find(list, number, value);

    g_assert_true(qobject_is_equal(one, QOBJECT(other)));
    qobject_unref(one);
    qobject_unref(list);
}

static void test_dump(Rig *r)
{
    g_autofree char *text = NULL, *again = NULL;

    one_read(&r->n, &r->s, &r->a);
    dump_is(&r->m, &r->n, FAKERNIC_DUMP_QP, r->a.qpn, "x-qps", "qpn", r->a.qpn);
    dump_is(&r->m, &r->n, FAKERNIC_DUMP_CQ, r->s.cq.id, "x-cqs", "cqn",
            r->s.cq.id);
    dump_is(&r->m, &r->n, FAKERNIC_DUMP_EQ, r->s.eq.id, "x-eqs", "eqn",
            r->s.eq.id);
    dump_is(&r->m, &r->n, FAKERNIC_DUMP_KEY, r->s.key, "x-keys", "key",
            r->s.key);
    text = dump(&r->n, FAKERNIC_DUMP_RECORDER, 0, DUMP_ROOM);
    g_assert_nonnull(strstr(text, " cqe "));
    g_assert_nonnull(strstr(text, " dma_read address="));
    again = dump(&r->n, FAKERNIC_DUMP_FAULTS, 0, 10);
    g_assert_cmpstr(again, ==, "");
}

/* The events before the first error are shown after the reset, too. */
static void test_dump_of_an_error(Rig *r)
{
    Wqe wqe;
    g_autofree char *text = NULL;

    wqe = wqe_rdma(&r->s, FAKERNIC_SQ_RDMA_READ, 16384, 0, 5000);
    wqe.rdma.sge[0].lkey ^= LE32(1);
    POST(r, wqe);
    rig_cqe(r, FAKERNIC_CQE_RDMA_READ, FAKERNIC_WC_LOC_PROT_ERR);
    nic_reset(&r->n);
    nic_bringup(&r->n);
    text = dump(&r->n, FAKERNIC_DUMP_RECORDER, 0, DUMP_ROOM);
    g_assert_nonnull(strstr(text, " wqe "));
    g_assert_nonnull(strstr(text, " qp_error "));
    g_assert_null(strstr(text, " reset "));
}

static void test_dump_refused(Rig *r)
{
    assert_status(dump_status(&r->n, 0, 1, 10, 0), BAD_PARAM);
    assert_status(dump_status(&r->n, 6, 1, 10, 0), BAD_PARAM);
    assert_status(dump_status(&r->n, FAKERNIC_DUMP_QP, 40000, 10, 0), BAD_ID);
    assert_status(dump_status(&r->n, FAKERNIC_DUMP_KEY, 0xffffffff, 10, 0),
                  BAD_ID);
    assert_status(dump_status(&r->n, FAKERNIC_DUMP_SRQ, 1, 10, 0), BAD_ID);
    assert_status(dump_status(&r->n, FAKERNIC_DUMP_RECORDER, 1, 10, 0), BAD_ID);
    assert_status(dump_status(&r->n, FAKERNIC_DUMP_QP, r->a.qpn, 10, 1),
                  BAD_STATE);
    assert_status(dump_status(&r->n, FAKERNIC_DUMP_QP, r->a.qpn,
                              FAKERNIC_DUMP_LENGTH_MAX + 1, 0), BAD_PARAM);
    assert_status(dump_status(&r->n, FAKERNIC_DUMP_QP, r->a.qpn, 0, 0), OK);
    assert_status(dump_status(&r->n, FAKERNIC_DUMP_QP, r->a.qpn, 10, 1), OK);
    assert_status(dump_status(&r->n, FAKERNIC_DUMP_QP, r->a.qpn, 10, 1000000),
                  BAD_PARAM);
}

/* Sets a fault rule from the guest. Returns the command's status. */
static uint8_t guest_rule(Nic *n, const char *rule)
{
    struct fakernic_fault_req req = { 0 };

    memcpy(req.rules, rule, strlen(rule));
    return CMD(n, FAULT, req);
}

static void test_guest_faults(void)
{
    Machine m;
    Nic n;
    Setup s;
    Qp a, b;
    char longest[FAKERNIC_CMD_PAYLOAD + 1];
    g_autofree char *before = NULL, *after = NULL, *wrong = NULL;

    machine_start(&m, "%s,id=nic0,x-guest-faults=on", DEVICE);
    nic_find(&n, &m, SLOT);
    nic_bringup(&n);
    setup_pair(&n, &s, &a, &b);
    assert_status(guest_rule(&n, "id=mine at=tx opcode=rc-read-request "
                             "do=duplicate"), OK);
    g_assert_cmphex(reg_read(&n, FAKERNIC_REG_STATUS) & FAKERNIC_STATUS_FAULTS,
                    !=, 0);
    before = dump(&n, FAKERNIC_DUMP_FAULTS, 0, 4096);
    g_assert_nonnull(strstr(before, "id=mine "));
    g_assert_nonnull(strstr(before, " hits=0\n"));
    one_read(&n, &s, &a);
    after = dump(&n, FAKERNIC_DUMP_FAULTS, 0, 4096);
    g_assert_nonnull(strstr(after, " hits=1\n"));
    assert_status(guest_rule(&n, "at=moon do=drop"), BAD_PARAM);
    wrong = dump(&n, FAKERNIC_DUMP_FAULTS, 0, 4096);
    g_assert_nonnull(strstr(wrong, "id=mine "));
    g_assert_nonnull(strstr(wrong, "\n# fault rule: "));
    g_assert_nonnull(strstr(wrong, "moon"));
    memset(longest, 'x', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = 0;
    assert_status(guest_rule(&n, longest), BAD_PARAM);
    assert_status(guest_rule(&n, "remove=all"), OK);
    g_free(g_steal_pointer(&after));
    after = dump(&n, FAKERNIC_DUMP_FAULTS, 0, 4096);
    g_assert_cmpstr(after, ==, "");
    machine_stop(&m);
}

/* ---- shared receive queues ----------------------------------------------- */

#define SRQ_LOG_DEPTH 3

static void srq_create(Nic *n, Queue *srq, uint32_t pdn, uint32_t xrcdn,
                       uint32_t cqn)
{
    struct fakernic_create_srq_req req = {
        .pages = queue_alloc(n, srq, SRQ_LOG_DEPTH, 6),
        .log_depth = SRQ_LOG_DEPTH, .log_stride = 6, .pdn = LE32(pdn),
        .xrcdn = LE32(xrcdn), .cqn = LE32(cqn),
    };

    srq->id = cmd_create(n, FAKERNIC_CMD_CREATE_SRQ, &req, sizeof(req));
}

/* b receives from the SRQ. */
static void srq_pair(Nic *n, Setup *s, Qp *a, Qp *b, const Queue *srq)
{
    struct fakernic_create_qp_req req = {
        .sq_pages = queue_alloc(n, &b->sq, 2, FAKERNIC_SQ_BB_SHIFT),
        .type = FAKERNIC_QP_RC, .sq_log_depth = 2,
        .rq_log_depth = FAKERNIC_QUEUE_NONE, .pdn = LE32(s->pd),
        .send_cqn = LE32(s->cq.id), .recv_cqn = LE32(s->cq.id),
        .srqn = LE32(srq->id),
    };

    b->qpn = cmd_create(n, FAKERNIC_CMD_CREATE_QP, &req, sizeof(req));
    qp_create(n, a, FAKERNIC_QP_RC, s->pd, &s->cq, 0);
    rc_connect(n, a->qpn, b->qpn, own_gid, nic_mac);
    rc_connect(n, b->qpn, a->qpn, own_gid, nic_mac);
}

static void srq_set_limit(Nic *n, const Queue *srq, uint32_t limit)
{
    struct fakernic_modify_srq_req req = {
        .srqn = LE32(srq->id), .mask = FAKERNIC_SRQ_LIMIT,
        .limit = LE32(limit),
    };

    assert_status(CMD(n, MODIFY_SRQ, req), OK);
}

static void srq_send(Nic *n, Setup *s, Qp *a, uint32_t tag)
{
    Wqe wqe = wqe_send(s, 0, 16);
    struct fakernic_cqe cqe;

    sq_put(n, a, &wqe, sizeof(wqe));
    sq_ring(n, a);
    cq_expect(n, &s->cq, &cqe, FAKERNIC_CQE_RECV, FAKERNIC_WC_SUCCESS);
    g_assert_cmpuint(le32_to_cpu(cqe.wqe_index), ==, tag);
    cq_expect(n, &s->cq, &cqe, FAKERNIC_CQE_SEND, FAKERNIC_WC_SUCCESS);
}

/* The fields that x-srqs must show for an SRQ. */
typedef struct SrqSeen {
    uint32_t pdn, xrcdn, cqn, pi, ci, limit, users;
    bool error;
} SrqSeen;

static void srq_is(Machine *m, Nic *n, const Queue *srq, SrqSeen want)
{
    QList *list = query_list(m, "x-srqs");
    QDict *seen = find(list, "srqn", srq->id);

    g_assert_cmpuint(qdict_size(seen), ==, 10);
    g_assert_cmpint(qdict_get_int(seen, "pdn"), ==, want.pdn);
    g_assert_cmpint(qdict_get_int(seen, "xrcdn"), ==, want.xrcdn);
    g_assert_cmpint(qdict_get_int(seen, "cqn"), ==, want.cqn);
    g_assert_cmpint(qdict_get_int(seen, "depth"), ==, 1 << SRQ_LOG_DEPTH);
    g_assert_cmpint(qdict_get_int(seen, "pi"), ==, want.pi);
    g_assert_cmpint(qdict_get_int(seen, "ci"), ==, want.ci);
    g_assert_cmpint(qdict_get_int(seen, "limit"), ==, want.limit);
    g_assert_cmpint(qdict_get_int(seen, "users"), ==, want.users);
    g_assert_cmpint(qdict_get_bool(seen, "error"), ==, want.error);
    qobject_unref(list);
    dump_is(m, n, FAKERNIC_DUMP_SRQ, srq->id, "x-srqs", "srqn", srq->id);
}

/* The ring shows the receives from 'from' on, as they were posted. */
static void srq_holds(Machine *m, const Setup *s, const Queue *srq,
                      const char *more, uint32_t from, uint32_t count)
{
    QList *list = look(m, "srq", srq->id, more, count);

    for (uint32_t i = from; i < from + count; i++) {
        QDict *one = find(list, "index", i);

        g_assert_cmpuint(qdict_size(one), ==, 4);
        g_assert_cmpuint(entry_number(one, "tag"), ==, 70 + i);
        g_assert_cmpuint(entry_number(one, "vendor-err"), ==, 0);
        assert_segment(one, s->data + 1024 * i, 300 + i, s->key);
    }
    qobject_unref(list);
}

/* The indexes of the ring that x-ring shows. */
static void srq_ring_is(Machine *m, uint32_t pi, uint32_t ci, uint32_t record)
{
    QDict *seen = query_dict(m, "x-ring");

    g_assert_cmpint(qdict_get_int(seen, "depth"), ==, 1 << SRQ_LOG_DEPTH);
    g_assert_cmpint(qdict_get_int(seen, "pi"), ==, pi);
    g_assert_cmpint(qdict_get_int(seen, "ci"), ==, ci);
    g_assert_cmpint(qdict_get_int(seen, "record"), ==, record);
    qobject_unref(seen);
}

/* Three receives are posted and one is taken. Later all are taken, so that
 * fewer than the limit are left. */
static void test_srqs(Rig *r)
{
    Qp a, b;
    Queue srq, xrc;
    SrqSeen want;
    uint32_t xrcdn;
    Wqe wqe;

    srq_create(&r->n, &srq, r->s.pd, 0, 0);
    want = (SrqSeen) { .pdn = r->s.pd };
    srq_is(&r->m, &r->n, &srq, want);
    qobject_unref(look(&r->m, "srq", srq.id, "", 0));
    srq_pair(&r->n, &r->s, &a, &b, &srq);
    for (uint32_t i = 0; i < 3; i++) {
        rq_post(&r->n, &srq, 70 + i, r->s.data + 1024 * i, 300 + i, r->s.key);
    }
    srq_set_limit(&r->n, &srq, 2);
    srq_send(&r->n, &r->s, &a, 70);
    want =
        (SrqSeen) { .pdn = r->s.pd, .pi = 3, .ci = 1, .limit = 2, .users = 1 };
    srq_is(&r->m, &r->n, &srq, want);
    srq_holds(&r->m, &r->s, &srq, "", 1, 2);
    srq_ring_is(&r->m, 3, 1, 3);
    srq_holds(&r->m, &r->s, &srq, " from=0 count=1", 0, 1);

    /* A receive is posted, but the device has not read the record yet. */
    rq_post(&r->n, &srq, 73, r->s.data + 1024 * 3, 303, r->s.key);
    srq_is(&r->m, &r->n, &srq, want);
    srq_holds(&r->m, &r->s, &srq, "", 1, 3);
    srq_ring_is(&r->m, 3, 1, 4);

    /* An SRQ of an XRC domain, which has a CQ. */
    xrcdn = cmd_create(&r->n, FAKERNIC_CMD_ALLOC_XRCD, NULL, 0);
    srq_create(&r->n, &xrc, r->s.pd, xrcdn, r->s.cq.id);
    srq_is(&r->m, &r->n, &xrc, (SrqSeen) { .pdn = r->s.pd, .xrcdn = xrcdn,
                                     .cqn = r->s.cq.id });

    for (uint32_t i = 1; i < 4; i++) {
        srq_send(&r->n, &r->s, &a, 70 + i);
    }
    g_assert_cmpuint(eq_expect(&r->n, &r->s.async, FAKERNIC_EVENT_SRQ_LIMIT),
                     ==, srq.id);
    want = (SrqSeen) { .pdn = r->s.pd, .pi = 4, .ci = 4, .users = 1 };
    srq_is(&r->m, &r->n, &srq, want);

    /* The record claims more receives than the ring can hold. */
    queue_record(&r->n, &srq, 100);
    wqe = wqe_send(&r->s, 0, 16);
    sq_put(&r->n, &a, &wqe, sizeof(wqe));
    sq_ring(&r->n, &a);
    g_assert_cmpuint(eq_expect(&r->n, &r->s.async, FAKERNIC_EVENT_SRQ_ERROR),
                     ==, srq.id);
    want.error = true;
    srq_is(&r->m, &r->n, &srq, want);
    qobject_unref(look(&r->m, "srq", srq.id, "", 0));
    srq_ring_is(&r->m, 4, 4, 100);
}

/* ---- at any time --------------------------------------------------------- */

static const char *const nouns[] = {
    "x-state", "x-qps", "x-cqs", "x-srqs", "x-eqs", "x-keys", "x-gids",
    "x-flows", "x-counters", "x-activity", "x-recorder", "x-recorder-now",
};

/* Two queries of everything in a row return the same: a query changes nothing,
 * and the device is idle. */
static void assert_still(Machine *m)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(nouns); i++) {
        g_autofree char *first = query_text(m, nouns[i]);
        g_autofree char *second = query_text(m, nouns[i]);

        g_assert_cmpstr(first, ==, second);
        if (!g_str_has_prefix(nouns[i], "x-recorder")) {
            qobject_unref(qobject_from_json(first, &error_abort));
        }
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
    fault(m, text);
    while (!state_is(m, flag)) {
        g_usleep(1000);
    }
}

static void assert_same_text(Machine *m, const char *property,
                             const char *before)
{
    g_autofree char *now = query_text(m, property);

    g_assert_cmpstr(before, ==, now);
}

static void test_every_state(void)
{
    Rig r;
    g_autofree char *before = NULL, *after = NULL;
    g_autofree char *recorded = NULL, *counted = NULL;

    rig_bare(&r);
    assert_still(&r.m);
    machine_stop(&r.m);
    inside_pair(&r);
    one_read(&r.n, &r.s, &r.a);
    assert_still(&r.m);
    recorded = query_text(&r.m, "x-recorder");
    counted = query_text(&r.m, "x-counters");
    qobject_unref(look(&r.m, "sq", r.a.qpn, " from=0 count=256", 32));
    assert_same_text(&r.m, "x-recorder", recorded);
    assert_same_text(&r.m, "x-counters", counted);
    qtest_qmp_assert_success(r.m.qts, "{ 'execute': 'stop' }");
    g_assert_true(state_is(&r.m, "stopped"));
    assert_still(&r.m);
    qtest_qmp_assert_success(r.m.qts, "{ 'execute': 'cont' }");
    before = query_text(&r.m, "x-qps");
    rule(&r.m, "id=ice at=device do=freeze", "frozen");
    assert_still(&r.m);
    after = query_text(&r.m, "x-qps");
    g_assert_cmpstr(before, ==, after);
    fault(&r.m, "remove=ice");
    rule(&r.m, "at=device do=dead", "dead");
    assert_still(&r.m);
    machine_stop(&r.m);
}

/* The text of all properties; the caller frees it. */
static char *everything(Machine *m)
{
    GString *all = g_string_new(NULL);

    for (unsigned i = 0; i < G_N_ELEMENTS(nouns); i++) {
        g_autofree char *text = query_text(m, nouns[i]);

        g_string_append_printf(all, "%s %s\n", nouns[i], text);
    }
    return g_string_free(all, false);
}

/* A device that has failed still shows its state. */
static void test_fatal(Rig *r)
{
    static const char *const kept[] = { "x-qps", "x-cqs", "x-srqs", "x-keys",
                                        "x-gids", "x-flows" };
    char *before[G_N_ELEMENTS(kept)];
    QList *list;
    QDict *state;

    one_read(&r->n, &r->s, &r->a);
    for (unsigned i = 0; i < G_N_ELEMENTS(kept); i++) {
        before[i] = query_text(&r->m, kept[i]);
    }
    g_assert_true(state_is(&r->m, "running"));
    fault(&r->m, "at=device code=5 do=fatal");
    while (state_is(&r->m, "running")) {
        g_usleep(1000);
    }
    assert_still(&r->m);
    state = query_dict(&r->m, "x-state");
    g_assert_cmphex(qdict_get_int(state, "status") & FAKERNIC_STATUS_FATAL, !=,
                    0);
    g_assert_cmpint(qdict_get_int(state, "fatal-code"), ==, 5);
    qobject_unref(state);
    for (unsigned i = 0; i < G_N_ELEMENTS(kept); i++) {
        assert_same_text(&r->m, kept[i], before[i]);
        g_free(before[i]);
    }
    list = look(&r->m, "sq", r->a.qpn, " from=0 count=1", 1);
    g_assert_cmpstr(qdict_get_str(find(list, "index", 0), "opcode"), ==,
                    "RDMA_READ");
    qobject_unref(list);
    list = look(&r->m, "eq", r->s.async.id, "", 1);
    g_assert_cmpstr(qdict_get_str(find(list, "index", 0), "type"), ==,
                    "DEVICE_FATAL");
    qobject_unref(list);
}

static const char *const of_a_reset[] = {
    "x-qps", "x-cqs", "x-srqs", "x-eqs", "x-keys", "x-gids", "x-flows",
    "x-counters", "x-ring",
};
#define ALL_OF_A_RESET ((1u << ARRAY_SIZE(of_a_reset)) - 1)

/* Returns whether x-ring fails because of a reset. The caller asserts it, once
 * it knows that the reset still lasted. */
static bool ring_is_being_reset(Machine *m)
{
    g_autofree char *set = look_at(m, "sq 17");
    QDict *got = qtest_qmp(m->qts, "{ 'execute': 'qom-get', 'arguments': {"
                           " 'path': %s, 'property': 'x-ring' } }", NIC0);
    QDict *error = qdict_get_qdict(got, "error");
    const bool refused = set && strstr(set, "is being reset") && error &&
                         strstr(qdict_get_str(error, "desc"), "is being reset");

    qobject_unref(got);
    return refused;
}

static bool query_is(Machine *m, const char *name, const char *text)
{
    g_autofree char *shown = query_text(m, name);

    return g_str_equal(shown, text);
}

/*
 * During a reset the property of_a_reset[which] shows no objects. Returns false
 * if the reset ended before the query did, so that the try shows nothing.
 */
static bool reset_is_empty(Machine *m, unsigned which)
{
    const char *name = of_a_reset[which];
    g_autofree char *first = query_text(m, "x-state");
    const bool empty = g_str_equal(name, "x-ring")
                           ? ring_is_being_reset(m)
                           : query_is(m, name, "[]");
    g_autofree char *last = query_text(m, "x-state");
    const bool seen = g_str_equal(first, "{}") && g_str_equal(last, "{}");

    g_assert_true(empty || !seen);
    return seen;
}

/*
 * A reset lasts long because it clears device memory. On a busy machine a query
 * may take milliseconds, so each try queries one property.
 */
static void test_mid_reset(void)
{
    unsigned seen = 0;

    for (unsigned tries = 0; seen != ALL_OF_A_RESET && tries < 500; tries++) {
        const unsigned which = tries % ARRAY_SIZE(of_a_reset);
        g_autofree char *gone = NULL;
        Machine m;
        Nic n;
        Setup s;
        Qp a, b;

        if (seen & 1u << which) {
            continue;
        }
        machine_start(&m, "%s,id=nic0,turn-work=64,dm-size=100M", DEVICE);
        nic_find(&n, &m, SLOT);
        nic_bringup(&n);
        setup_pair(&n, &s, &a, &b);
        one_read(&n, &s, &a);
        qobject_unref(look(&m, "sq", a.qpn, "", 0));
        reg_write(&n, FAKERNIC_REG_CONTROL, FAKERNIC_CONTROL_RESET);
        seen |= reset_is_empty(&m, which) ? 1u << which : 0;
        nic_await_reset(&n);
        gone = everything(&m);
        g_assert_null(strstr(gone, "x-state {}"));
        g_assert_nonnull(strstr(gone, "\nx-qps []\n"));
        look_fails(&m, "sq 17", "there is no sq 17");
        nic_bringup(&n);
        assert_still(&m);
        machine_stop(&m);
    }
    /* For each property one query must have come during a reset. */
    g_assert_cmphex(seen, ==, ALL_OF_A_RESET);
}

/* A query of a removed device fails, and does not show another one. */
static void test_unplugged(void)
{
    Machine m;
    Nic n;
    Setup s;
    Qp a, b;
    QDict *reply;

    machine_start(&m, "-machine pc");
    qtest_qmp_device_add(m.qts, "fakernic", "nic0", "{'addr': '06'}");
    nic_find(&n, &m, 6);
    nic_bringup(&n);
    setup_pair(&n, &s, &a, &b);
    qobject_unref(look(&m, "sq", a.qpn, "", 0));
    qpci_unplug_acpi_device_test(m.qts, "nic0", 6);
    g_free(n.pci);
    for (unsigned i = 0; i < G_N_ELEMENTS(nouns); i++) {
        reply = qtest_qmp(m.qts, "{ 'execute': 'qom-get', 'arguments': {"
                          " 'path': %s, 'property': %s } }", NIC0, nouns[i]);
        g_assert_true(qdict_haskey(reply, "error"));
        qobject_unref(reply);
    }
    look_fails(&m, "sq 17", "not found");
    qtest_qmp_device_add(m.qts, "fakernic", "nic0", "{'addr': '06'}");
    assert_still(&m);
    assert_same_text(&m, "x-qps", "[]");
    reply = qtest_qmp(m.qts, "{ 'execute': 'qom-get', 'arguments': {"
                      " 'path': %s, 'property': 'x-ring' } }", NIC0);
    g_assert_nonnull(strstr(qdict_get_str(qdict_get_qdict(reply, "error"),
                                          "desc"), "select a ring first"));
    qobject_unref(reply);
    machine_stop(&m);
}

const FakernicTest fakernic_query_tests[] = {
    { "query/qps", ON(inside_pair, test_qps) },
    { "query/in-flight", ON(inside_pair, test_in_flight) },
    { "query/queues", ON(inside_pair, test_queues) },
    { "query/srqs", READY(test_srqs) },
    { "query/ranges", ON(inside_pair, test_ranges) },
    { "query/device", ON(inside_pair, test_device) },
    { "query/counters", ON(inside_pair, test_counters) },
    { "query/gids-and-flows", READY(test_gids_and_flows) },
    { "query/send-ring", ON(inside_pair, test_send_ring) },
    { "query/other-rings", ON(inside_pair, test_other_rings) },
    { "query/no-ring", ON(inside_pair, test_no_ring) },
    { "query/dump", ON(inside_pair, test_dump) },
    { "query/dump-of-an-error", ON(inside_pair, test_dump_of_an_error) },
    { "query/dump-refused", ON(inside_pair, test_dump_refused) },
    { "query/guest-faults", test_guest_faults },
    { "query/every-state", test_every_state },
    { "query/fatal", ON(inside_pair, test_fatal) },
    { "query/mid-reset", test_mid_reset },
    { "query/unplugged", test_unplugged },
    {}
};
