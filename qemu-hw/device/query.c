/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What is inside, as JSON. All values are numbers but for names of a few
 * states, so nothing is to be quoted. Objects are as many as the device's
 * limits allow: no answer is longer than that.
 */
#include "qemu/osdep.h"
#include "clock.h"
#include "life.h"
#include "query.h"
#include "state.h"

/* ---- JSON ---------------------------------------------------------------- */

/* A comma, unless this is the first of its array or object. */
static void fakernic_query_next(GString *text)
{
    const char last = text->str[text->len - 1];

    if (last != '{' && last != '[') {
        g_string_append_c(text, ',');
    }
}

static void fakernic_query_begin(GString *text)
{
    fakernic_query_next(text);
    g_string_append(text, "\n{");
}

static void fakernic_query_end(GString *text)
{
    g_string_append_c(text, '}');
}

static void fakernic_query_number(GString *text, const char *name,
                                  uint64_t value)
{
    fakernic_query_next(text);
    g_string_append_printf(text, "\"%s\":%" PRIu64, name, value);
}

static void fakernic_query_bool(GString *text, const char *name, bool value)
{
    fakernic_query_next(text);
    g_string_append_printf(text, "\"%s\":%s", name, value ? "true" : "false");
}

static void fakernic_query_name(GString *text, const char *name,
                                const char *const *names, size_t count,
                                unsigned value)
{
    fakernic_query_next(text);
    g_string_append_printf(text, "\"%s\":\"%s\"", name,
                           value < count && names[value] ? names[value] : "?");
}

/* ---- the device ---------------------------------------------------------- */

static void fakernic_query_use(GString *text, const char *name, uint64_t used,
                               uint64_t limit)
{
    fakernic_query_next(text);
    g_string_append_printf(text, "\"%s\":{\"used\":%" PRIu64
                           ",\"limit\":%" PRIu64 "}", name, used, limit);
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

/* Those of enum fakernic_stat, in its order. */
static void fakernic_query_counters(const uint64_t *values, GString *text)
{
    fakernic_query_next(text);
    g_string_append(text, "\"counters\":[");
    for (unsigned i = 0; i < FAKERNIC_STAT_COUNT; i++) {
        fakernic_query_next(text);
        g_string_append_printf(text, "%" PRIu64, values[i]);
    }
    g_string_append_c(text, ']');
}

static void fakernic_query_state(FakernicState *s, GString *text)
{
    fakernic_query_number(text, "status", s->status);
    fakernic_query_number(text, "fatal-code", s->fatal_code);
    fakernic_query_number(text, "features", s->features);
    fakernic_query_number(text, "driver-features", s->driver_features);
    fakernic_query_bool(text, "running", fakernic_is_running(s));
    fakernic_query_bool(text, "stopped", s->held & FAKERNIC_HELD_STOPPED);
    fakernic_query_bool(text, "frozen", s->held & FAKERNIC_HELD_FAULT);
    fakernic_query_bool(text, "dead", s->held & FAKERNIC_HELD_DEAD);
    fakernic_query_number(text, "clock-ns", fakernic_now());
    fakernic_query_number(text, "command-pi", s->cmdq.pi);
    fakernic_query_number(text, "command-ci", s->cmdq.ci);
    fakernic_query_number(text, "port-mtu", s->port_mtu);
    fakernic_query_bool(text, "wire-blocked", s->tx_blocked);
    fakernic_query_number(text, "interrupts", s->interrupts);
    fakernic_query_number(text, "faults-held", s->faults.held_count);
    fakernic_query_limits(s, text);
    fakernic_query_counters(s->stats, text);
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
    fakernic_query_name(text, "state", fakernic_query_states,
                        ARRAY_SIZE(fakernic_query_states), attr.state);
    fakernic_query_number(text, "dest-qpn", attr.dest_qpn);
    fakernic_query_number(text, "rq-psn", attr.rq_psn);
    fakernic_query_number(text, "sq-psn", attr.sq_psn);
    fakernic_query_number(text, "timeout", attr.timeout);
    fakernic_query_number(text, "retry-cnt", attr.retry_cnt);
    fakernic_query_number(text, "retry-left", view.retry_left);
    fakernic_query_number(text, "rnr-retry", attr.rnr_retry);
    fakernic_query_number(text, "rnr-left", view.rnr_left);
    fakernic_query_number(text, "una-psn", view.una_psn);
    fakernic_query_number(text, "tx-psn", view.tx_psn);
    fakernic_query_number(text, "high-psn", view.high_psn);
    fakernic_query_number(text, "msn", view.msn);
    fakernic_query_number(text, "in-flight", view.in_flight);
    fakernic_query_bool(text, "nak-sent", view.nak_sent);
    fakernic_query_bool(text, "loopback", view.loopback);
}

static void fakernic_query_qp(FakernicState *s, const FakernicQp *qp,
                              GString *text)
{
    fakernic_query_number(text, "qpn", qp->qpn);
    fakernic_query_name(text, "type", fakernic_query_types,
                        ARRAY_SIZE(fakernic_query_types), qp->type);
    fakernic_query_bool(text, "wq", qp->is_wq);
    fakernic_query_number(text, "pdn", qp->pdn);
    fakernic_query_number(text, "uar", qp->uar);
    fakernic_query_number(text, "send-cqn", qp->send_cq ? qp->send_cq->id : 0);
    fakernic_query_number(text, "recv-cqn", qp->recv_cq ? qp->recv_cq->id : 0);
    fakernic_query_number(text, "srqn", qp->srq ? qp->srq->id : 0);
    fakernic_query_number(text, "sq-depth", qp->sq.depth);
    fakernic_query_number(text, "sq-pi", qp->sq_pi);
    fakernic_query_number(text, "sq-ci", qp->sq_ci);
    fakernic_query_number(text, "rq-depth", qp->rq.depth);
    fakernic_query_number(text, "rq-pi", qp->rq_pi);
    fakernic_query_number(text, "rq-ci", qp->rq_ci);
    fakernic_query_engine(s, qp->qpn, text);
}

static void fakernic_query_qps(FakernicState *s, GString *text)
{
    for (uint32_t i = 0; i < s->max_qp; i++) {
        if (s->qps[i]) {
            fakernic_query_begin(text);
            fakernic_query_qp(s, s->qps[i], text);
            fakernic_query_end(text);
        }
    }
}

/* ---- queues and keys ----------------------------------------------------- */

static void fakernic_query_cqs(FakernicState *s, GString *text)
{
    static const char *const arms[] = { "no", "solicited", "any" };

    for (uint32_t id = s->cqs.first; id < s->cqs.next; id++) {
        const FakernicCq *cq = fakernic_table_get(&s->cqs, id);

        if (!cq) {
            continue;
        }
        fakernic_query_begin(text);
        fakernic_query_number(text, "cqn", id);
        fakernic_query_number(text, "eqn", cq->eq ? cq->eq->id : 0);
        fakernic_query_number(text, "uar", cq->uar);
        fakernic_query_number(text, "depth", cq->ring.depth);
        fakernic_query_number(text, "pi", cq->pi);
        fakernic_query_number(text, "ci-seen", cq->ci);
        fakernic_query_name(text, "armed", arms, ARRAY_SIZE(arms), cq->arm);
        fakernic_query_number(text, "users", cq->users);
        fakernic_query_bool(text, "error", cq->error);
        fakernic_query_end(text);
    }
}

static void fakernic_query_srqs(FakernicState *s, GString *text)
{
    for (uint32_t id = s->srqs.first; id < s->srqs.next; id++) {
        const FakernicSrq *srq = fakernic_table_get(&s->srqs, id);

        if (!srq) {
            continue;
        }
        fakernic_query_begin(text);
        fakernic_query_number(text, "srqn", id);
        fakernic_query_number(text, "pdn", srq->pdn);
        fakernic_query_number(text, "xrcdn", srq->xrcdn);
        fakernic_query_number(text, "depth", srq->ring.depth);
        fakernic_query_number(text, "pi", srq->pi);
        fakernic_query_number(text, "ci", srq->ci);
        fakernic_query_number(text, "limit", srq->limit);
        fakernic_query_number(text, "users", srq->users);
        fakernic_query_bool(text, "error", srq->error);
        fakernic_query_end(text);
    }
}

static void fakernic_query_eqs(FakernicState *s, GString *text)
{
    for (uint32_t id = s->eqs.first; id < s->eqs.next; id++) {
        const FakernicEq *eq = fakernic_table_get(&s->eqs, id);

        if (!eq) {
            continue;
        }
        fakernic_query_begin(text);
        fakernic_query_number(text, "eqn", id);
        fakernic_query_number(text, "vector", eq->vector);
        fakernic_query_number(text, "depth", eq->ring.depth);
        fakernic_query_number(text, "pi", eq->pi);
        fakernic_query_number(text, "ci", eq->ci);
        fakernic_query_bool(text, "armed", eq->armed);
        fakernic_query_bool(text, "async", eq == s->async_eq);
        fakernic_query_number(text, "users", eq->users);
        fakernic_query_end(text);
    }
}

static void fakernic_query_keys(FakernicState *s, GString *text)
{
    for (uint32_t i = 0; i < s->max_mr; i++) {
        if (s->keys[i].pdn) {
            fakernic_query_begin(text);
            fakernic_query_number(text, "index", i);
            fakernic_query_number(text, "pdn", s->keys[i].pdn);
            fakernic_query_number(text, "pages", s->keys[i].pages);
            fakernic_query_end(text);
        }
    }
}

/* ---- all there is to ask for --------------------------------------------- */

const FakernicQuery fakernic_queries[] = {
    { "x-state", "registers, limits and use, counters, in JSON", '{', '}',
      fakernic_query_state },
    { "x-qps", "QPs and WQs, in JSON", '[', ']', fakernic_query_qps },
    { "x-cqs", "CQs, in JSON", '[', ']', fakernic_query_cqs },
    { "x-srqs", "SRQs, in JSON", '[', ']', fakernic_query_srqs },
    { "x-eqs", "EQs, in JSON", '[', ']', fakernic_query_eqs },
    { "x-keys", "memory keys, in JSON", '[', ']', fakernic_query_keys },
    {}
};

char *fakernic_query(FakernicState *s, const FakernicQuery *query)
{
    GString *text = g_string_new(NULL);

    g_string_append_c(text, query->open);
    if (s->nic && !(s->held & (FAKERNIC_HELD_RESET | FAKERNIC_HELD_LEAVING))) {
        query->write(s, text);
    }
    g_string_append_c(text, query->close);
    return g_string_free(text, false);
}
