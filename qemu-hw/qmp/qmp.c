/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The commands and the event of fakernic.json. A command reads a property of
 * the device and converts the answer to its QAPI type. It fails if a member
 * exists only in the property or only in the schema. Fault rules are written to
 * a property, too. So there is one implementation, which the plug-in for other
 * QEMUs also has. Where a client must set a property before it reads it, the
 * command calls the device instead, because other clients may have set it.
 */
#include "qemu/osdep.h"
#include "qemu/module.h"
#include "qapi/error.h"
#include "qapi/qapi-commands-fakernic.h"
#include "qapi/qapi-events-fakernic.h"
#include "qapi/qapi-visit-fakernic.h"
#include "qapi/qobject-input-visitor.h"
#include "qapi/qobject-output-visitor.h"
#include "qobject/qbool.h"
#include "qobject/qdict.h"
#include "qobject/qjson.h"
#include "qobject/qlist.h"
#include "qobject/qnum.h"
#include "qobject/qstring.h"
#include "qom/object.h"
#include "../device/watch/qmp.h"

#define FAKERNIC_TYPE           "fakernic-function"
#define FAKERNIC_QMP_COUNT      8192        /* default number of objects */

/*
 * QEMU buffers events that a client does not read. So they are limited to
 * EVENTS a second of the virtual clock and, after MAX in total, to one per
 * 0.1 % growth of the hit count. In addition, FIRSTS first hits of rules are
 * always sent.
 */
#define FAKERNIC_QMP_EVENTS     100
#define FAKERNIC_QMP_SECOND     1000000000
#define FAKERNIC_QMP_MAX        65536
#define FAKERNIC_QMP_PART       1024
#define FAKERNIC_QMP_FIRSTS     8192

/* ---- properties ---------------------------------------------------------- */

static Object *fakernic_qmp_find(const char *path, Error **errp)
{
    bool ambiguous = false;
    Object *device = object_resolve_path_type(path, FAKERNIC_TYPE, &ambiguous);

    if (!device) {
        error_setg(errp, ambiguous ? "there is more than one '%s'"
                                   : "there is no fakernic '%s'", path);
    }
    return device;
}

static char *fakernic_qmp_get(const char *path, const char *property,
                              Error **errp)
{
    Object *device = fakernic_qmp_find(path, errp);

    return device ? object_property_get_str(device, property, errp) : NULL;
}

static bool fakernic_qmp_set(const char *path, const char *property,
                             const char *text, Error **errp)
{
    Object *device = fakernic_qmp_find(path, errp);

    return device && object_property_set_str(device, property, text, errp);
}

/* Converts a name to QAPI's form: "RAW_PACKET" to raw-packet, ? to unknown. */
static QString *fakernic_qmp_name(const char *word)
{
    g_autofree char *name = g_ascii_strdown(word, -1);

    return qstring_from_str(*name == '?' ? "unknown"
                                         : g_strdelimit(name, "_", '-'));
}

static void fakernic_qmp_names(QObject *object)
{
    QDict *dict = qobject_to(QDict, object);
    QList *list = qobject_to(QList, object);
    const QListEntry *item;

    for (const QDictEntry *entry = dict ? qdict_first(dict) : NULL; entry;
         entry = qdict_next(dict, entry)) {
        const char *key = qdict_entry_key(entry);
        const char *word = qdict_get_try_str(dict, key);

        if (word) {
            qdict_put(dict, key, fakernic_qmp_name(word));
        } else {
            fakernic_qmp_names(qdict_entry_value(entry));
        }
    }
    for (item = list ? qlist_first(list) : NULL; item;
         item = qlist_next(item)) {
        fakernic_qmp_names(qlist_entry_obj(item));
    }
}

/* Parses the device's answer; NULL if there is none. */
static QObject *fakernic_qmp_answer(const char *text, Error **errp)
{
    QObject *answer = text ? qobject_from_json(text, errp) : NULL;

    if (answer) {
        fakernic_qmp_names(answer);
    }
    return answer;
}

/* The value of a property; NULL: reading it failed. */
static QObject *fakernic_qmp_ask(const char *path, const char *property,
                                 Error **errp)
{
    g_autofree char *text = fakernic_qmp_get(path, property, errp);

    return fakernic_qmp_answer(text, errp);
}

/* { "NAME": the objects, "next": the index of the next one, if any }. */
static QObject *fakernic_qmp_objects(const char *path, const char *property,
                                     uint32_t from, uint32_t count,
                                     Error **errp)
{
    Object *device = fakernic_qmp_find(path, errp);
    g_autofree char *text = device ? fakernic_ask_objects(device, property,
                                                          from, count, errp)
                                   : NULL;
    QDict *result;
    QList *answer, *objects;
    QObject *object;

    answer = qobject_to(QList, fakernic_qmp_answer(text, errp));
    if (!answer) {
        return NULL;
    }
    result = qdict_new();
    objects = qlist_new();
    while ((object = qlist_pop(answer))) {
        QDict *dict = qobject_to(QDict, object);

        if (qdict_size(dict) == 1 && qdict_haskey(dict, "next")) {
            qdict_put_int(result, "next", qdict_get_int(dict, "next"));
            qobject_unref(object);
        } else {
            qlist_append_obj(objects, object);
        }
    }
    qobject_unref(answer);
    qdict_put(result, property + strlen("x-"), objects);
    return QOBJECT(result);
}

/* ---- state --------------------------------------------------------------- */

/* Converts the answer, which is freed, to a TYPE of the schema. */
#define FAKERNIC_QMP_TYPED(type, answer, errp)                              \
    ({                                                                      \
        QObject *answer_ = answer;                                          \
        type *typed_ = NULL;                                                \
                                                                            \
        if (answer_) {                                                      \
            Visitor *v_ = qobject_input_visitor_new(answer_);               \
                                                                            \
            visit_type_ ## type(v_, NULL, &typed_, errp);                   \
            visit_free(v_);                                                 \
            qobject_unref(answer_);                                         \
        }                                                                   \
        typed_;                                                             \
    })

#define FAKERNIC_QMP_LIST(type, name)                                       \
    type *qmp_x_query_fakernic_ ## name(const char *path, bool has_from,    \
                                        uint32_t from, bool has_count,      \
                                        uint32_t count, Error **errp)       \
    {                                                                       \
        return FAKERNIC_QMP_TYPED(                                          \
            type, fakernic_qmp_objects(path, "x-" #name,                    \
                                       has_from ? from : 0,                 \
                                       has_count ? count                    \
                                                 : FAKERNIC_QMP_COUNT,      \
                                       errp), errp);                        \
    }

FAKERNIC_QMP_LIST(FakernicQps, qps)
FAKERNIC_QMP_LIST(FakernicCqs, cqs)
FAKERNIC_QMP_LIST(FakernicSrqs, srqs)
FAKERNIC_QMP_LIST(FakernicEqs, eqs)
FAKERNIC_QMP_LIST(FakernicKeys, keys)

FakernicInfo *qmp_x_query_fakernic(const char *path, Error **errp)
{
    return FAKERNIC_QMP_TYPED(FakernicInfo,
                              fakernic_qmp_ask(path, "x-state", errp), errp);
}

FakernicGidInfoList *qmp_x_query_fakernic_gids(const char *path, Error **errp)
{
    return FAKERNIC_QMP_TYPED(FakernicGidInfoList,
                              fakernic_qmp_ask(path, "x-gids", errp), errp);
}

FakernicFlowInfoList *qmp_x_query_fakernic_flows(const char *path,
                                                 Error **errp)
{
    return FAKERNIC_QMP_TYPED(FakernicFlowInfoList,
                              fakernic_qmp_ask(path, "x-flows", errp), errp);
}

/* Converts a set of counters; the schema has their names as values. */
static QDict *fakernic_qmp_counters(const QDict *set)
{
    QDict *result = qdict_new();
    QList *values = qlist_new();

    for (const QDictEntry *entry = qdict_first(set); entry;
         entry = qdict_next(set, entry)) {
        const char *name = qdict_entry_key(entry);
        QObject *value = qobject_ref(qdict_entry_value(entry));

        if (!strcmp(name, "counter") || !strcmp(name, "users")) {
            qdict_put_obj(result, name, value);
        } else {
            QDict *one = qdict_new();

            qdict_put_str(one, "name", name);
            qdict_put_obj(one, "value", value);
            qlist_append(values, one);
        }
    }
    qdict_put(result, "values", values);
    return result;
}

FakernicCountersList *qmp_x_query_fakernic_counters(const char *path,
                                                    Error **errp)
{
    QList *answer = qobject_to(QList,
                               fakernic_qmp_ask(path, "x-counters", errp));
    QList *sets = answer ? qlist_new() : NULL;
    const QListEntry *entry;

    for (entry = answer ? qlist_first(answer) : NULL; entry;
         entry = qlist_next(entry)) {
        qlist_append(sets, fakernic_qmp_counters(
                               qobject_to(QDict, qlist_entry_obj(entry))));
    }
    qobject_unref(answer);
    return FAKERNIC_QMP_TYPED(FakernicCountersList,
                              sets ? QOBJECT(sets) : NULL, errp);
}

FakernicRingInfo *qmp_x_query_fakernic_ring(FakernicRingQuery *query,
                                            Error **errp)
{
    g_autoptr(GString) words = g_string_new(FakernicRingKind_str(query->ring));
    g_autofree char *text = NULL;
    Object *device;

    g_string_append_printf(words, " %u", query->number);
    if (query->has_from) {
        g_string_append_printf(words, " from=%u", query->from);
    }
    if (query->has_count) {
        g_string_append_printf(words, " count=%u", query->count);
    }
    device = fakernic_qmp_find(query->path, errp);
    text = device ? fakernic_ask_ring(device, words->str, errp) : NULL;
    return FAKERNIC_QMP_TYPED(FakernicRingInfo,
                              fakernic_qmp_answer(text, errp), errp);
}

/* "NUMBER TIME WHAT" */
static FakernicRecordInfo *fakernic_qmp_record(const char *line)
{
    FakernicRecordInfo *record = g_new0(FakernicRecordInfo, 1);
    char *rest;

    record->number = g_ascii_strtoull(line, &rest, 10);
    record->time_ns = g_ascii_strtoull(rest, &rest, 10);
    record->what = g_strdup(rest + (*rest == ' '));
    return record;
}

FakernicRecordInfoList *qmp_x_query_fakernic_recorder(const char *path,
                                                      bool has_now, bool now,
                                                      Error **errp)
{
    g_autofree char *text = fakernic_qmp_get(
        path, has_now && now ? "x-recorder-now" : "x-recorder", errp);
    g_auto(GStrv) lines = g_strsplit(text ?: "", "\n", -1);
    FakernicRecordInfoList *records = NULL, **tail = &records;

    for (unsigned i = 0; lines[i] && *lines[i]; i++) {
        QAPI_LIST_APPEND(tail, fakernic_qmp_record(lines[i]));
    }
    return records;
}

/* ---- fault rules --------------------------------------------------------- */

/* Adds one word of a rule; a blank or ';' would begin another word or rule. */
static bool fakernic_qmp_word(GString *text, const char *name,
                              const char *value, Error **errp)
{
    for (const char *c = value; *c || c == value; c++) {
        if (!g_ascii_isgraph(*c) || *c == ';') {
            error_setg(errp, "'%s' is not a value of '%s'", value, name);
            return false;
        }
    }
    g_string_append_printf(text, "%s=%s ", name, value);
    return true;
}

static bool fakernic_qmp_member(GString *text, const char *name,
                                QObject *value, Error **errp)
{
    const QBool *on = qobject_to(QBool, value);
    QNum *number = qobject_to(QNum, value);
    g_autofree char *digits = number ? qnum_to_string(number) : NULL;

    return fakernic_qmp_word(text, name,
                             on ? (qbool_get_bool(on) ? "on" : "off") :
                             digits ?: qstring_get_str(
                                           qobject_to(QString, value)), errp);
}

static QDict *fakernic_qmp_rule_members(FakernicFaultRule *rule)
{
    QObject *members;
    Visitor *v = qobject_output_visitor_new(&members);

    visit_type_FakernicFaultRule(v, NULL, &rule, &error_abort);
    visit_complete(v, &members);
    visit_free(v);
    return qobject_to(QDict, members);
}

void qmp_x_fakernic_fault_add(const char *path, FakernicFaultRule *rule,
                              Error **errp)
{
    g_autoptr(QDict) members = fakernic_qmp_rule_members(rule);
    g_autoptr(GString) text = g_string_new(NULL);

    for (const QDictEntry *entry = qdict_first(members); entry;
         entry = qdict_next(members, entry)) {
        if (!fakernic_qmp_member(text, qdict_entry_key(entry),
                                 qdict_entry_value(entry), errp)) {
            return;
        }
    }
    fakernic_qmp_set(path, "x-fault", text->str, errp);
}

void qmp_x_fakernic_fault_remove(const char *path, const char *id,
                                 Error **errp)
{
    g_autoptr(GString) text = g_string_new(NULL);

    if (fakernic_qmp_word(text, "remove", id ?: "all", errp)) {
        fakernic_qmp_set(path, "x-fault", text->str, errp);
    }
}

/* Parses a rule, "NAME=VALUE ... matches=N hits=N"; NULL: it does not match the
 * schema. */
static FakernicFaultInfo *fakernic_qmp_fault(const char *line, Error **errp)
{
    g_auto(GStrv) words = g_strsplit(line, " ", -1);
    QDict *info = qdict_new(), *rule = qdict_new();
    FakernicFaultInfo *typed = NULL;
    Visitor *v;

    for (unsigned i = 0; words[i]; i++) {
        char *value = strchr(words[i], '=');
        bool counts = g_str_has_prefix(words[i], "matches=") ||
                      g_str_has_prefix(words[i], "hits=");

        if (value) {
            *value++ = '\0';
            qdict_put_str(counts ? info : rule, words[i], value);
        }
    }
    qdict_put(info, "rule", rule);
    v = qobject_input_visitor_new_keyval(QOBJECT(info));
    visit_type_FakernicFaultInfo(v, NULL, &typed, errp);
    visit_free(v);
    qobject_unref(info);
    return typed;
}

FakernicFaultInfoList *qmp_x_query_fakernic_faults(const char *path,
                                                   Error **errp)
{
    g_autofree char *text = fakernic_qmp_get(path, "x-fault", errp);
    g_auto(GStrv) lines = g_strsplit(text ?: "", "\n", -1);
    FakernicFaultInfoList *rules = NULL, **tail = &rules;

    for (unsigned i = 0; lines[i] && *lines[i]; i++) {
        FakernicFaultInfo *rule = fakernic_qmp_fault(lines[i], errp);

        if (!rule) {
            qapi_free_FakernicFaultInfoList(rules);
            return NULL;
        }
        QAPI_LIST_APPEND(tail, rule);
    }
    return rules;
}

/* ---- the event ----------------------------------------------------------- */

typedef struct FakernicQmpReports {
    RoceTime second;            /* start of this second */
    uint64_t sent;              /* events in this second */
    uint64_t heard;             /* hits */
    uint64_t kept;              /* events, without additional first hits */
    uint64_t firsts;            /* events for additional first hits */
    uint64_t unsent;            /* hits without event since the last event */
} FakernicQmpReports;

/* True: no event is sent for this hit, because there were too many. */
static bool fakernic_qmp_is_flood(FakernicQmpReports *t, uint64_t hits,
                                  RoceTime now)
{
    if (now < t->second || now >= t->second + FAKERNIC_QMP_SECOND) {
        t->second = now;
        t->sent = 0;
    }
    t->heard++;
    if (t->sent < FAKERNIC_QMP_EVENTS &&
        (t->kept < FAKERNIC_QMP_MAX ||
         t->unsent + 1 >= t->heard / FAKERNIC_QMP_PART)) {
        t->sent++;
        t->kept++;
        return false;
    }
    if (hits <= FAKERNIC_REPORT_FIRST && t->firsts < FAKERNIC_QMP_FIRSTS) {
        t->firsts++;
        return false;
    }
    return true;
}

/* Called for each hit, of all devices. */
static void fakernic_qmp_hit(Object *device, const RoceFaultRule *rule,
                             const RoceFaultSubject *subject)
{
    static FakernicQmpReports reports;
    g_autofree char *path = NULL;
    const char *at = roce_fault_point_name(rule->at);
    const char *act = roce_fault_action_name(rule->act);

    if (fakernic_qmp_is_flood(&reports, rule->hits, subject->now)) {
        reports.unsent++;
        return;
    }
    path = object_get_canonical_path(device);
    qapi_event_send_fakernic_fault(
        path, rule->id,
        qapi_enum_parse(&FakernicFaultPoint_lookup, at, -1, &error_abort),
        qapi_enum_parse(&FakernicFaultAction_lookup, act, -1, &error_abort),
        rule->hits, subject->now, subject->qpn, subject->psn, subject->index,
        reports.unsent);
    reports.unsent = 0;
}

static void fakernic_qmp_listen(void)
{
    fakernic_on_fault_hit = fakernic_qmp_hit;
}

type_init(fakernic_qmp_listen)
