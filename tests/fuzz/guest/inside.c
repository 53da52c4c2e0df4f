/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * FAULT and DUMP: rules from known words, most of them valid, and dumps of
 * existing objects. The actions 'pause' and 'dead' are left out, as they would
 * end the input.
 *
 * It also queries the device by QOM. The queries must show any objects and
 * rings of the guest, and change nothing.
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "qapi/error.h"
#include "qobject/qjson.h"
#include "qobject/qobject.h"
#include "guest.h"

#define PICK(words, choice) (words)[(choice) % ARRAY_SIZE(words)]

static const char *const points[] = {
    "tx", "rx", "doorbell", "command", "send-wqe", "recv-wqe", "cqe", "eqe",
    "interrupt", "dma-read", "dma-write", "page-list", "cmd-doorbell",
    "dma-atomic", "dma-flush", "device",
};

/* Mostly the actions that a point offers. */
static const char *const frame_actions[] = {
    "drop", "delay delay-ns=20000", "duplicate", "reorder by=2",
    "corrupt offset=50 mask=0xff", "truncate bytes=60", "mark", "count",
    "corrupt offset=60 fix-icrc=on", "throttle mbps=100",
    "corrupt offset=14 mask=0x20 fix-icrc=on",
};
static const char *const other_actions[] = {
    "drop", "delay delay-ns=5000", "duplicate", "fail", "fail status=7",
    "fail status=5 code=3", "count", "fail code=9",
    "corrupt", "corrupt offset=3 mask=0x41", "reorder", "overrun",
};
static const char *const device_actions[] = {
    "fatal code=4", "freeze for-ns=30000", "link-down for-ns=50000", "count",
    "fatal", "freeze", "aer severity=nonfatal", "link-down",
};
static const char *const matches[] = {
    "", "class=roce", "opcode=rc-*", "class=ether", "psn=0-100", "attempt=2",
    "len=1-64", "cmd=CREATE_QP", "number=1-3", "opcode=ud-send-only",
    "rpsn=0-9", "syndrome=0-63", "why=payload", "why=cqe",
    "address=0-0x3fffffff",
};
static const char *const counts[] = {
    "", "times=0", "nth=3", "times=0 every=2", "times=0 percent=30 seed=7",
    "after=f1", "until-ns=1", "times=4",
};

static void make_rule(const Nic *n, const FuzzRecord *r, GString *rule)
{
    const unsigned point = r->b % ARRAY_SIZE(points);
    const char *act = PICK(other_actions, r->c);

    if (point < 2) {
        act = PICK(frame_actions, r->c);
    } else if (point == ARRAY_SIZE(points) - 1) {
        act = PICK(device_actions, r->c);
    }
    if (r->d % 16 == 0) {
        g_string_assign(rule, "remove=all");
        return;
    }
    g_string_printf(rule, "at=%s do=%s %s", points[point], act,
                    PICK(counts, r->c >> 4));
    if (r->d & 1) {
        g_string_append_printf(rule, " %s", PICK(matches, r->d >> 4));
    }
    if (r->d & 2) {
        g_string_append_printf(rule, " qpn=%u",
                               nic_pick(n, KIND_QP, r->e & 0xff));
    }
}

static void command_fault(Guest *g, Nic *n, const FuzzRecord *r)
{
    struct fakernic_fault_req req = { 0 };
    g_autoptr(GString) rule = g_string_new(NULL);

    make_rule(n, r, rule);
    memcpy(req.rules, rule->str, MIN(rule->len, sizeof(req.rules)));
    nic_command(g, n, FAKERNIC_CMD_FAULT, &req, sizeof(req), NULL, 0);
}

static void command_dump(Guest *g, Nic *n, const FuzzRecord *r)
{
    static const struct {
        uint8_t dump;
        Kind kind;
    } kinds[] = {
        { FAKERNIC_DUMP_QP, KIND_QP }, { FAKERNIC_DUMP_QP, KIND_WQ },
        { FAKERNIC_DUMP_CQ, KIND_CQ }, { FAKERNIC_DUMP_SRQ, KIND_SRQ },
        { FAKERNIC_DUMP_EQ, KIND_EQ }, { FAKERNIC_DUMP_KEY, KIND_KEY },
        { FAKERNIC_DUMP_RECORDER, KINDS }, { FAKERNIC_DUMP_FAULTS, KINDS },
    };
    const Kind kind = PICK(kinds, r->b).kind;
    struct fakernic_dump_req req = {
        .address = LE64(nic_page(n, PAGE_DATA) + r->d),
        .length = LE32(r->c),
        .first = LE32(r->f % 3 ? 0 : r->f >> 8 & 0xffff),
        .id = LE32(kind == KINDS ? r->e >> 31
                                 : nic_pick(n, kind, r->e & 0xff)),
        .kind = PICK(kinds, r->b).dump,
    };

    nic_command(g, n, FAKERNIC_CMD_DUMP, &req, sizeof(req), NULL, 0);
}

void command_inside(Guest *g, Nic *n, uint16_t opcode, const FuzzRecord *r)
{
    if (opcode == FAKERNIC_CMD_FAULT) {
        command_fault(g, n, r);
    } else {
        command_dump(g, n, r);
    }
}

/* ---- queries by QOM ------------------------------------------------------ */

static const struct {
    const char *property;
    bool json;
    bool parts;                 /* accepts "from=INDEX count=N" */
} looks[] = {
    { "x-state", true, false }, { "x-qps", true, true },
    { "x-cqs", true, true }, { "x-srqs", true, true },
    { "x-eqs", true, true }, { "x-keys", true, true },
    { "x-gids", true, false }, { "x-flows", true, false },
    { "x-counters", true, false }, { "x-activity", true, false },
    { "x-recorder", false, false }, { "x-recorder-now", false, false },
    { "x-fault", false, false },
};

/* In addition to numbers from the record: edges, and malformed texts. */
static const char *const parts[] = {
    "", "count=1", "from=1 count=2", "from=4294967295", "from=0x8 count=0x3",
    "count=4294967295", "count=0", "from=-1", "from=4294967296", "from=2x",
    "until=3", "from=", "count", "from=1  count=1", "count=257",
};

/* The text of a property. NULL: an error. */
static char *look_get(Nic *n, const char *property)
{
    Error *err = NULL;
    char *text = object_property_get_str(OBJECT(n->pci), property, &err);

    GUEST_CHECK(!text == (err != NULL));
    error_free(err);
    return text;
}

/* Sets a property. False: it was refused. */
static bool look_set(Nic *n, const char *property, const char *words)
{
    Error *err = NULL;
    const bool taken = object_property_set_str(OBJECT(n->pci), property, words,
                                               &err);

    GUEST_CHECK(taken == !err);
    error_free(err);
    return taken;
}

static void look_check_json(const char *text)
{
    QObject *value = qobject_from_json(text, NULL);

    GUEST_CHECK(value);
    qobject_unref(value);
}

/* The part of a list or ring that the record selects. */
static void look_part(GString *words, const FuzzRecord *r)
{
    if (r->d & 1) {
        g_string_append_printf(words, " %s", PICK(parts, r->d >> 1));
    }
    if (r->d & 0x4000) {
        g_string_append_printf(words, " from=%u", r->f);
    }
    if (r->d & 0x8000) {
        g_string_append_printf(words, " count=%u", r->c);
    }
}

static void look_objects(Nic *n, const FuzzRecord *r)
{
    const unsigned i = r->b % ARRAY_SIZE(looks);
    g_autoptr(GString) words = g_string_new(NULL);
    g_autofree char *text = NULL;

    look_part(words, r);
    if (looks[i].parts && words->len) {
        /* The text begins with a blank. */
        look_set(n, looks[i].property, words->str + 1);
    }
    text = look_get(n, looks[i].property);
    GUEST_CHECK(text);
    if (looks[i].json) {
        look_check_json(text);
    }
}

/* Queries a ring, mostly an existing one, twice. */
static void look_ring(Nic *n, const FuzzRecord *r)
{
    static const struct {
        const char *ring;
        Kind kind;
    } rings[] = {
        { "sq", KIND_QP }, { "rq", KIND_QP }, { "rq", KIND_WQ },
        { "srq", KIND_SRQ }, { "cq", KIND_CQ }, { "eq", KIND_EQ },
        { "sq", KIND_KEY }, { "tq", KIND_QP },
    };
    const unsigned i = r->b % ARRAY_SIZE(rings);
    g_autoptr(GString) words = g_string_new(rings[i].ring);
    g_autofree char *first = NULL, *second = NULL;

    g_string_append_printf(words, " %u",
                           nic_pick(n, rings[i].kind, r->e & 0xff));
    look_part(words, r);
    look_set(n, "x-ring", words->str);
    first = look_get(n, "x-ring");
    second = look_get(n, "x-ring");
    GUEST_CHECK(!g_strcmp0(first, second));
    if (first) {
        look_check_json(first);
    }
}

void step_look(Nic *n, const FuzzRecord *r)
{
    g_autofree char *state = look_get(n, "x-state");
    g_autofree char *counters = look_get(n, "x-counters");
    g_autofree char *state_after = NULL, *counters_after = NULL;

    if (r->where & 64) {
        look_objects(n, r);
    } else {
        look_ring(n, r);
    }
    state_after = look_get(n, "x-state");
    counters_after = look_get(n, "x-counters");
    GUEST_CHECK(g_str_equal(state, state_after));
    GUEST_CHECK(g_str_equal(counters, counters_after));
}

void nic_forget_rules(Nic *n)
{
    object_property_set_str(OBJECT(n->pci), "x-fault", "remove=all",
                            &error_abort);
}
