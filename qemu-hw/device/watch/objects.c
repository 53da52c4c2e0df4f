/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The state of the device and its objects as JSON. The device's limits bound
 * the number of objects, and so the length of an answer.
 */
#include "qemu/osdep.h"
#include "qapi/error.h"
#include "qemu/cutils.h"
#include "../clock.h"
#include "json.h"
#include "../life.h"
#include "objects.h"
#include "../state.h"
#include "../fault/gate.h"
#include "stats.h"

/* ---- the device ---------------------------------------------------------- */

static void fakernic_query_use(GString *text, const char *name, uint64_t used,
                               uint64_t limit)
{
    fakernic_json_begin(text, name, '{');
    fakernic_json_number(text, "used", used);
    fakernic_json_number(text, "limit", limit);
    fakernic_json_end(text, '}');
}

static void fakernic_query_table(GString *text, const char *name,
                                 const FakernicTable *t)
{
    uint32_t used = 0;

    for (uint32_t id = t->first; id < t->next; id++) {
        used += fakernic_table_get(t, id) != NULL;
    }
    fakernic_query_use(text, name, used, t->size - t->first);
}

static void fakernic_query_limits(FakernicState *s, GString *text)
{
    uint32_t qps = 0, keys = 0;

    for (uint32_t i = 0; i < s->max_qp; i++) {
        qps += s->qps[i] != NULL;
    }
    for (uint32_t i = 0; i < s->max_mr; i++) {
        keys += s->keys[i].pdn != 0;
    }
    fakernic_query_use(text, "qp", qps, s->max_qp);
    fakernic_query_use(text, "mr", keys, s->max_mr);
    fakernic_query_use(text, "mr-pages", s->mr_pages, s->max_mr_pages);
    fakernic_query_use(text, "memory", s->memory, s->max_memory);
    fakernic_query_table(text, "eq", &s->eqs);
    fakernic_query_table(text, "cq", &s->cqs);
    fakernic_query_table(text, "srq", &s->srqs);
    fakernic_query_table(text, "pd", &s->pds);
    fakernic_query_table(text, "xrcd", &s->xrcds);
    fakernic_query_table(text, "counter", &s->counters);
    fakernic_query_table(text, "flow", &s->flow_table);
}

static void fakernic_query_state(FakernicState *s, GString *text)
{
    fakernic_json_number(text, "status", s->status);
    fakernic_json_number(text, "fatal-code", s->fatal_code);
    fakernic_json_number(text, "features", s->features);
    fakernic_json_number(text, "driver-features", s->driver_features);
    fakernic_json_bool(text, "running", fakernic_is_running(s));
    fakernic_json_bool(text, "stopped", s->held & FAKERNIC_HELD_STOPPED);
    fakernic_json_bool(text, "frozen", s->held & FAKERNIC_HELD_FAULT);
    fakernic_json_bool(text, "dead", s->held & FAKERNIC_HELD_DEAD);
    fakernic_json_number(text, "clock-ns", fakernic_now());
    fakernic_json_number(text, "command-pi", s->cmdq.pi);
    fakernic_json_number(text, "command-ci", s->cmdq.ci);
    fakernic_json_number(text, "port-mtu", s->port_mtu);
    fakernic_json_bool(text, "port-enabled", s->port_enabled);
    fakernic_json_bool(text, "wire-blocked", s->tx_blocked);
    fakernic_json_number(text, "interrupts", s->interrupts);
    fakernic_json_number(text, "faults-held", fakernic_gate_held(s));
    fakernic_query_limits(s, text);
}

/* ---- QPs ----------------------------------------------------------------- */

static const char *const fakernic_query_types[] = {
    [FAKERNIC_QP_RC] = "RC",
    [FAKERNIC_QP_UC] = "UC",
    [FAKERNIC_QP_UD] = "UD",
    [FAKERNIC_QP_GSI] = "GSI",
    [FAKERNIC_QP_RAW_PACKET] = "RAW_PACKET",
    [FAKERNIC_QP_XRC_INI] = "XRC_INI",
    [FAKERNIC_QP_XRC_TGT] = "XRC_TGT",
};

static const char *const fakernic_query_states[] = {
    [FAKERNIC_QPS_RESET] = "RESET",
    [FAKERNIC_QPS_INIT] = "INIT",
    [FAKERNIC_QPS_RTR] = "RTR",
    [FAKERNIC_QPS_RTS] = "RTS",
    [FAKERNIC_QPS_SQD] = "SQD",
    [FAKERNIC_QPS_SQE] = "SQE",
    [FAKERNIC_QPS_ERR] = "ERR",
};

static void fakernic_query_engine(FakernicState *s, uint32_t qpn, GString *text)
{
    RoceQpAttr attr = { 0 };
    RoceQpView view;

    if (roce_qp_query(s->roce, qpn, &attr) != FAKERNIC_CMD_OK ||
        !roce_qp_view(s->roce, qpn, &view)) {
        return;
    }
    fakernic_json_name(text, "state", fakernic_query_states,
                       ARRAY_SIZE(fakernic_query_states), attr.state);
    fakernic_json_number(text, "dest-qpn", attr.dest_qpn);
    fakernic_json_number(text, "rq-psn", attr.rq_psn);
    fakernic_json_number(text, "sq-psn", attr.sq_psn);
    fakernic_json_number(text, "path-mtu", attr.path_mtu);
    fakernic_json_number(text, "qkey", attr.qkey);
    fakernic_json_number(text, "access", attr.access_flags);
    fakernic_json_number(text, "max-rd-atomic", attr.max_rd_atomic);
    fakernic_json_number(text, "max-dest-rd-atomic", attr.max_dest_rd_atomic);
    fakernic_json_number(text, "min-rnr-timer", attr.min_rnr_timer);
    fakernic_json_number(text, "timeout", attr.timeout);
    fakernic_json_number(text, "retry-cnt", attr.retry_cnt);
    fakernic_json_number(text, "retry-left", view.retry_left);
    fakernic_json_number(text, "rnr-retry", attr.rnr_retry);
    fakernic_json_number(text, "rnr-left", view.rnr_left);
    fakernic_json_number(text, "una-psn", view.una_psn);
    fakernic_json_number(text, "tx-psn", view.tx_psn);
    fakernic_json_number(text, "high-psn", view.high_psn);
    fakernic_json_number(text, "msn", view.msn);
    fakernic_json_number(text, "in-flight", view.in_flight);
    fakernic_json_bool(text, "nak-sent", view.nak_sent);
    fakernic_json_bool(text, "loopback", view.loopback);
}

static void fakernic_show_qp(FakernicState *s, const FakernicQp *qp,
                             GString *text)
{
    fakernic_json_number(text, "qpn", qp->qpn);
    fakernic_json_name(text, "type", fakernic_query_types,
                       ARRAY_SIZE(fakernic_query_types), qp->type);
    fakernic_json_bool(text, "wq", qp->is_wq);
    fakernic_json_number(text, "pdn", qp->pdn);
    fakernic_json_number(text, "uar", qp->uar);
    fakernic_json_number(text, "send-cqn", qp->send_cq ? qp->send_cq->id : 0);
    fakernic_json_number(text, "recv-cqn", qp->recv_cq ? qp->recv_cq->id : 0);
    fakernic_json_number(text, "srqn", qp->srq ? qp->srq->id : 0);
    fakernic_json_number(text, "sq-depth", qp->sq.depth);
    fakernic_json_number(text, "sq-pi", qp->sq_pi);
    fakernic_json_number(text, "sq-ci", qp->sq_ci);
    fakernic_json_number(text, "rq-depth", qp->rq.depth);
    fakernic_json_number(text, "rq-pi", qp->rq_pi);
    fakernic_json_number(text, "rq-ci", qp->rq_ci);
    fakernic_query_engine(s, qp->qpn, text);
}

static bool fakernic_query_qp_at(FakernicState *s, uint32_t i, GString *text)
{
    if (s->qps[i]) {
        fakernic_show_qp(s, s->qps[i], text);
    }
    return s->qps[i];
}

static uint32_t fakernic_query_qps_end(const FakernicState *s)
{
    return s->max_qp;
}

/* ---- queues and keys ----------------------------------------------------- */

static void fakernic_query_cq(const FakernicCq *cq, GString *text)
{
    static const char *const arms[] = { "no", "solicited", "any" };

    fakernic_json_number(text, "cqn", cq->id);
    fakernic_json_number(text, "eqn", cq->eq ? cq->eq->id : 0);
    fakernic_json_number(text, "uar", cq->uar);
    fakernic_json_number(text, "depth", cq->ring.depth);
    fakernic_json_number(text, "pi", cq->pi);
    fakernic_json_number(text, "ci-seen", cq->ci);
    fakernic_json_name(text, "armed", arms, ARRAY_SIZE(arms), cq->arm);
    fakernic_json_number(text, "users", cq->users);
    fakernic_json_bool(text, "error", cq->error);
}

static bool fakernic_query_cq_at(FakernicState *s, uint32_t id, GString *text)
{
    const FakernicCq *cq = fakernic_table_get(&s->cqs, id);

    if (cq) {
        fakernic_query_cq(cq, text);
    }
    return cq;
}

static uint32_t fakernic_query_cqs_end(const FakernicState *s)
{
    return s->cqs.next;
}

static void fakernic_show_srq(const FakernicSrq *srq, GString *text)
{
    fakernic_json_number(text, "srqn", srq->id);
    fakernic_json_number(text, "pdn", srq->pdn);
    fakernic_json_number(text, "xrcdn", srq->xrcdn);
    fakernic_json_number(text, "cqn", srq->cq ? srq->cq->id : 0);
    fakernic_json_number(text, "depth", srq->ring.depth);
    fakernic_json_number(text, "pi", srq->pi);
    fakernic_json_number(text, "ci", srq->ci);
    fakernic_json_number(text, "limit", srq->limit);
    fakernic_json_number(text, "users", srq->users);
    fakernic_json_bool(text, "error", srq->error);
}

static bool fakernic_query_srq_at(FakernicState *s, uint32_t id, GString *text)
{
    const FakernicSrq *srq = fakernic_table_get(&s->srqs, id);

    if (srq) {
        fakernic_show_srq(srq, text);
    }
    return srq;
}

static uint32_t fakernic_query_srqs_end(const FakernicState *s)
{
    return s->srqs.next;
}

static void fakernic_query_eq(FakernicState *s, const FakernicEq *eq,
                              GString *text)
{
    fakernic_json_number(text, "eqn", eq->id);
    fakernic_json_number(text, "vector", eq->vector);
    fakernic_json_number(text, "depth", eq->ring.depth);
    fakernic_json_number(text, "pi", eq->pi);
    fakernic_json_number(text, "ci", eq->ci);
    fakernic_json_bool(text, "armed", eq->armed);
    fakernic_json_bool(text, "async", eq == s->async_eq);
    fakernic_json_number(text, "users", eq->users);
}

static bool fakernic_query_eq_at(FakernicState *s, uint32_t id, GString *text)
{
    const FakernicEq *eq = fakernic_table_get(&s->eqs, id);

    if (eq) {
        fakernic_query_eq(s, eq, text);
    }
    return eq;
}

static uint32_t fakernic_query_eqs_end(const FakernicState *s)
{
    return s->eqs.next;
}

static void fakernic_query_key(FakernicState *s, uint32_t index, GString *text)
{
    static const char *const types[] = {
        [FAKERNIC_MR_MEMORY] = "MEMORY",
        [FAKERNIC_MR_DMA] = "DMA",
        [FAKERNIC_MR_FAST_REG] = "FAST_REG",
        [FAKERNIC_MR_NULL] = "NULL",
        [FAKERNIC_MR_DM] = "DM",
        [FAKERNIC_MR_ON_DEMAND] = "ON_DEMAND",
    };
    static const char *const window_types[] = {
        [FAKERNIC_MW_TYPE_1] = "WINDOW_1",
        [FAKERNIC_MW_TYPE_2B] = "WINDOW_2B",
    };
    RoceMrView view;

    fakernic_json_number(text, "index", index);
    fakernic_json_number(text, "pdn", s->keys[index].pdn);
    fakernic_json_number(text, "pages", s->keys[index].pages);
    if (!roce_mr_view(s->roce, index, &view)) {
        return;
    }
    fakernic_json_number(text, "key", view.key);
    fakernic_json_name(text, "type", view.window ? window_types : types,
                       view.window ? ARRAY_SIZE(window_types)
                                   : ARRAY_SIZE(types), view.type);
    fakernic_json_bool(text, "valid", view.valid);
    fakernic_json_number(text, "access", view.access);
    fakernic_json_number(text, "start", view.start);
    fakernic_json_number(text, "length", view.length);
    fakernic_json_number(text, "windows", view.windows);
    fakernic_json_number(text, "qpn", view.qpn);
}

static bool fakernic_query_key_at(FakernicState *s, uint32_t i, GString *text)
{
    if (s->keys[i].pdn) {
        fakernic_query_key(s, i, text);
    }
    return s->keys[i].pdn;
}

static uint32_t fakernic_query_keys_end(const FakernicState *s)
{
    return s->max_mr;
}

/* ---- addresses, rules, counters ------------------------------------------ */

static void fakernic_query_gids(FakernicState *s, GString *text)
{
    static const char *const types[] = {
        [FAKERNIC_GID_IPV4] = "IPV4",
        [FAKERNIC_GID_IPV6] = "IPV6",
    };

    for (uint32_t i = 0; i < s->gids; i++) {
        RoceGid gid;

        if (!roce_gid_get(s->roce, i, &gid)) {
            continue;
        }
        fakernic_json_begin(text, NULL, '{');
        fakernic_json_number(text, "index", i);
        fakernic_json_name(text, "type", types, ARRAY_SIZE(types), gid.type);
        fakernic_json_hex(text, "gid", gid.gid, sizeof(gid.gid), 2);
        fakernic_json_hex(text, "mac", gid.mac, sizeof(gid.mac), 1);
        fakernic_json_number(text, "vlan", gid.vlan);
        fakernic_json_end(text, '}');
    }
}

static void fakernic_query_flows(FakernicState *s, GString *text)
{
    static const char *const types[] = {
        [FAKERNIC_FLOW_NORMAL] = "NORMAL",
        [FAKERNIC_FLOW_ALL_DEFAULT] = "ALL_DEFAULT",
        [FAKERNIC_FLOW_MC_DEFAULT] = "MC_DEFAULT",
        [FAKERNIC_FLOW_SNIFFER] = "SNIFFER",
    };

    for (uint32_t id = s->flow_table.first; id < s->flow_table.next; id++) {
        const FakernicFlow *flow = fakernic_table_get(&s->flow_table, id);

        if (!flow) {
            continue;
        }
        fakernic_json_begin(text, NULL, '{');
        fakernic_json_number(text, "flow", id);
        fakernic_json_name(text, "type", types, ARRAY_SIZE(types), flow->type);
        fakernic_json_number(text, "qpn", flow->qpn);
        fakernic_json_number(text, "priority", flow->priority);
        fakernic_json_number(text, "flags", flow->flags);
        fakernic_json_number(text, "layers", flow->layers);
        fakernic_json_hex(text, "value", &flow->value, sizeof(flow->value), 0);
        fakernic_json_hex(text, "mask", &flow->mask, sizeof(flow->mask), 0);
        fakernic_json_end(text, '}');
    }
}

/* Writes all counters, or those that are not 0. */
static void fakernic_query_values(const uint64_t *values, bool all,
                                  GString *text)
{
    for (unsigned i = 0; i < FAKERNIC_STAT_COUNT; i++) {
        if (all || values[i]) {
            fakernic_json_number(text, fakernic_stat_names[i], values[i]);
        }
    }
}

static void fakernic_query_counters(FakernicState *s, GString *text)
{
    fakernic_json_begin(text, NULL, '{');
    fakernic_json_number(text, "counter", 0);
    fakernic_query_values(s->stats, true, text);
    fakernic_json_end(text, '}');
    for (uint32_t id = s->counters.first; id < s->counters.next; id++) {
        const FakernicCounter *counter = fakernic_table_get(&s->counters, id);

        if (!counter) {
            continue;
        }
        fakernic_json_begin(text, NULL, '{');
        fakernic_json_number(text, "counter", id);
        fakernic_json_number(text, "users", counter->users);
        fakernic_query_values(counter->values, false, text);
        fakernic_json_end(text, '}');
    }
}

/* Writes the counts that are not 0, by the register's offset. */
static void fakernic_query_registers(const uint64_t *counts, const char *what,
                                     GString *text)
{
    for (unsigned i = 0; i <= FAKERNIC_REG_END / 4; i++) {
        if (counts[i]) {
            g_autofree char *name = g_strdup_printf("%s-0x%03x", what, 4 * i);

            fakernic_json_number(text, name, counts[i]);
        }
    }
}

static void fakernic_query_activity(FakernicState *s, GString *text)
{
    const FakernicActivity *activity = &s->activity;

    for (unsigned i = 0; i < FAKERNIC_DID_COUNT; i++) {
        fakernic_json_number(text, fakernic_did_names[i], activity->did[i]);
    }
    fakernic_query_registers(activity->register_loads, "load", text);
    fakernic_query_registers(activity->register_stores, "store", text);
}

/* ---- the list of queries ------------------------------------------------- */

const FakernicQuery fakernic_queries[] = {
    { "x-state", "registers, limits and use, in JSON", '{', '}',
      .write = fakernic_query_state },
    { "x-qps", "QPs and WQs, in JSON", '[', ']',
      .entry = fakernic_query_qp_at, .end = fakernic_query_qps_end },
    { "x-cqs", "CQs, in JSON", '[', ']',
      .entry = fakernic_query_cq_at, .end = fakernic_query_cqs_end },
    { "x-srqs", "SRQs, in JSON", '[', ']',
      .entry = fakernic_query_srq_at, .end = fakernic_query_srqs_end },
    { "x-eqs", "EQs, in JSON", '[', ']',
      .entry = fakernic_query_eq_at, .end = fakernic_query_eqs_end },
    { "x-keys", "memory keys, in JSON", '[', ']',
      .entry = fakernic_query_key_at, .end = fakernic_query_keys_end },
    { "x-gids", "the GID table, in JSON", '[', ']',
      .write = fakernic_query_gids },
    { "x-flows", "flow rules, in JSON", '[', ']',
      .write = fakernic_query_flows },
    { "x-counters", "counters, of the device first, in JSON", '[', ']',
      .write = fakernic_query_counters },
    { "x-activity", "accesses, interrupts and DMAs so far, in JSON", '{', '}',
      .write = fakernic_query_activity },
    {}
};

/* ---- one object ---------------------------------------------------------- */

static bool fakernic_query_object(FakernicState *s,
                                  enum fakernic_dump_kind kind, uint32_t id,
                                  GString *text)
{
    const uint32_t index = FAKERNIC_GET(FAKERNIC_KEY_INDEX, id);
    const void *object = NULL;

    switch (kind) {
    case FAKERNIC_DUMP_QP:
        object = fakernic_qp_or_wq(s, id);
        if (object) {
            fakernic_show_qp(s, object, text);
        }
        break;
    case FAKERNIC_DUMP_CQ:
        object = fakernic_table_get(&s->cqs, id);
        if (object) {
            fakernic_query_cq(object, text);
        }
        break;
    case FAKERNIC_DUMP_SRQ:
        object = fakernic_table_get(&s->srqs, id);
        if (object) {
            fakernic_show_srq(object, text);
        }
        break;
    case FAKERNIC_DUMP_EQ:
        object = fakernic_table_get(&s->eqs, id);
        if (object) {
            fakernic_query_eq(s, object, text);
        }
        break;
    case FAKERNIC_DUMP_KEY:
        if (index < s->max_mr && s->keys[index].pdn) {
            object = &s->keys[index];
            fakernic_query_key(s, index, text);
        }
        break;
    default:
        break;
    }
    return object;
}

char *fakernic_query_one(FakernicState *s, enum fakernic_dump_kind kind,
                         uint32_t id)
{
    g_autoptr(GString) text = g_string_new("{");

    if (!fakernic_query_object(s, kind, id, text)) {
        return NULL;
    }
    fakernic_json_end(text, '}');
    return g_string_free(g_steal_pointer(&text), false);
}

bool fakernic_query_number(const char *text, uint32_t max, uint32_t *value)
{
    const int base = g_str_has_prefix(text, "0x") ? 16 : 10;
    uint64_t number;

    if (!g_ascii_isdigit(*text) || parse_uint_full(text, base, &number) ||
        number > max) {
        return false;
    }
    *value = number;
    return true;
}

bool fakernic_query_possible(const FakernicState *s)
{
    return s->nic && !(s->held & (FAKERNIC_HELD_RESET | FAKERNIC_HELD_LEAVING));
}

bool fakernic_query_window(FakernicState *s, const FakernicQuery *query,
                           const char *words, Error **errp)
{
    g_auto(GStrv) word = g_strsplit_set(words, " ", -1);
    FakernicWindow window = { query, 0, FAKERNIC_QUERY_MAX };

    for (unsigned i = 0; word[i]; i++) {
        const bool from = g_str_has_prefix(word[i], "from=");
        const char *number = strchr(word[i], '=');

        if ((!from && !g_str_has_prefix(word[i], "count=")) ||
            !fakernic_query_number(number + 1, UINT32_MAX,
                                   from ? &window.from : &window.count) ||
            !window.count) {
            error_setg(errp, "property '%s' takes \"from=INDEX count=N\", "
                       "not '%s'", query->property, word[i]);
            return false;
        }
    }
    s->window = window;
    return true;
}

/* Writes up to 'count' objects of a kind, within the limits, and then the index
 * of the next one. */
static void fakernic_query_walk(FakernicState *s, const FakernicQuery *query,
                                uint32_t from, uint32_t count, GString *text)
{
    const uint32_t most = MIN(count, FAKERNIC_QUERY_MAX);
    const uint32_t end = query->end(s);
    uint32_t found = 0;

    for (uint32_t id = from; id < end; id++) {
        const size_t before = text->len;

        fakernic_json_begin(text, NULL, '{');
        if (!query->entry(s, id, text)) {
            g_string_truncate(text, before);
            continue;
        }
        if (found++ == most || before > FAKERNIC_QUERY_BYTES) {
            g_string_truncate(text, before);
            fakernic_json_begin(text, NULL, '{');
            fakernic_json_number(text, "next", id);
            id = end - 1;
        }
        fakernic_json_end(text, '}');
    }
}

char *fakernic_query_part(FakernicState *s, const FakernicQuery *query,
                          uint32_t from, uint32_t count)
{
    GString *text = g_string_new(NULL);

    g_string_append_c(text, query->open);
    if (fakernic_query_possible(s) && query->entry) {
        fakernic_query_walk(s, query, from, count, text);
    } else if (fakernic_query_possible(s)) {
        query->write(s, text);
    }
    g_string_append_c(text, query->close);
    return g_string_free(text, false);
}

char *fakernic_query(FakernicState *s, const FakernicQuery *query)
{
    const FakernicWindow window = s->window;

    if (window.query != query) {
        return fakernic_query_part(s, query, 0, FAKERNIC_QUERY_MAX);
    }
    if (fakernic_query_possible(s)) {
        s->window.query = NULL;
    }
    return fakernic_query_part(s, query, window.from, window.count);
}
