/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Queue pairs: creation, attributes, states (IBTA 10.3.1, 11.2.5). MODIFY_QP
 * is checked against a table of transitions, with the attributes that each
 * requires and allows. Then every value is checked, and only then does
 * anything change. The engine does not rely on the driver's own checks.
 */
#include "engine.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define A(name) FAKERNIC_QP_ATTR_##name

/* Attributes that are valid with every transition. */
#define ROCE_ATTR_ALWAYS (A(STATE))

typedef struct RoceTransition {
    uint8_t type, from, to;
    uint32_t required, optional;
} RoceTransition;

#define T(t, f, n, req, opt)                                     \
    { FAKERNIC_QP_##t, FAKERNIC_QPS_##f, FAKERNIC_QPS_##n, (uint32_t)(req), \
      (uint32_t)(opt) }

#define CONNECTED_INIT (A(PKEY_INDEX) | A(PORT) | A(ACCESS_FLAGS))
#define UC_RTR (A(AV) | A(PATH_MTU) | A(DEST_QPN) | A(RQ_PSN))
#define RC_RTR (UC_RTR | A(MAX_DEST_RD_ATOMIC) | A(MIN_RNR_TIMER))
#define RC_RTS (A(TIMEOUT) | A(RETRY_CNT) | A(RNR_RETRY) | A(SQ_PSN) | \
                A(MAX_RD_ATOMIC))
#define PATHS (A(ALT_PATH) | A(PATH_MIG_STATE))
#define RTR_OPTIONAL (A(ALT_PATH) | A(ACCESS_FLAGS) | A(PKEY_INDEX))
#define UC_RTS_OPTIONAL (A(CUR_STATE) | A(ACCESS_FLAGS) | PATHS | \
                         A(RATE_LIMIT))
#define RC_RTS_OPTIONAL (UC_RTS_OPTIONAL | A(MIN_RNR_TIMER))
#define UC_SQD (A(AV) | A(ACCESS_FLAGS) | A(PKEY_INDEX) | PATHS)
#define RC_SQD (UC_SQD | A(PORT) | A(TIMEOUT) | A(RETRY_CNT) |        \
                A(RNR_RETRY) | A(MAX_RD_ATOMIC) | A(MIN_RNR_TIMER) |  \
                A(MAX_DEST_RD_ATOMIC))
/* Each half of XRC has the attributes of its half of RC (IBTA annex A14).
 * Linux gives a target two requester attributes, which have no effect. */
#define XRC_INI_SQD (UC_SQD | A(PORT) | A(TIMEOUT) | A(RETRY_CNT) |   \
                     A(RNR_RETRY) | A(MAX_RD_ATOMIC))
#define XRC_TGT_RTS (A(TIMEOUT) | A(SQ_PSN))
#define XRC_TGT_SQD (UC_SQD | A(PORT) | A(TIMEOUT) | A(MIN_RNR_TIMER) | \
                     A(MAX_DEST_RD_ATOMIC))

/* IBTA 11.2.5.2, tables 91 to 97. Any state may go to RESET and ERR. */
static const RoceTransition roce_transitions[] = {
    T(RC, RESET, INIT, CONNECTED_INIT, 0),
    T(RC, INIT, INIT, 0, CONNECTED_INIT),
    T(RC, INIT, RTR, RC_RTR, RTR_OPTIONAL),
    T(RC, RTR, RTS, RC_RTS, RC_RTS_OPTIONAL),
    T(RC, RTS, RTS, 0, RC_RTS_OPTIONAL),
    T(RC, RTS, SQD, 0, A(SQD_ASYNC_NOTIFY)),
    T(RC, SQD, RTS, 0, RC_RTS_OPTIONAL),
    T(RC, SQD, SQD, 0, RC_SQD),

    T(UC, RESET, INIT, CONNECTED_INIT, 0),
    T(UC, INIT, INIT, 0, CONNECTED_INIT),
    T(UC, INIT, RTR, UC_RTR, RTR_OPTIONAL),
    T(UC, RTR, RTS, A(SQ_PSN), UC_RTS_OPTIONAL),
    T(UC, RTS, RTS, 0, UC_RTS_OPTIONAL),
    T(UC, RTS, SQD, 0, A(SQD_ASYNC_NOTIFY)),
    T(UC, SQD, RTS, 0, UC_RTS_OPTIONAL),
    T(UC, SQD, SQD, 0, UC_SQD),
    T(UC, SQE, RTS, 0, A(CUR_STATE) | A(ACCESS_FLAGS)),

    T(XRC_INI, RESET, INIT, CONNECTED_INIT, 0),
    T(XRC_INI, INIT, INIT, 0, CONNECTED_INIT),
    T(XRC_INI, INIT, RTR, UC_RTR, RTR_OPTIONAL),
    T(XRC_INI, RTR, RTS, RC_RTS, UC_RTS_OPTIONAL),
    T(XRC_INI, RTS, RTS, 0, UC_RTS_OPTIONAL),
    T(XRC_INI, RTS, SQD, 0, A(SQD_ASYNC_NOTIFY)),
    T(XRC_INI, SQD, RTS, 0, UC_RTS_OPTIONAL),
    T(XRC_INI, SQD, SQD, 0, XRC_INI_SQD),

    T(XRC_TGT, RESET, INIT, CONNECTED_INIT, 0),
    T(XRC_TGT, INIT, INIT, 0, CONNECTED_INIT),
    T(XRC_TGT, INIT, RTR, RC_RTR, RTR_OPTIONAL),
    T(XRC_TGT, RTR, RTS, 0, XRC_TGT_RTS | RC_RTS_OPTIONAL),
    T(XRC_TGT, RTS, RTS, 0, RC_RTS_OPTIONAL),
    T(XRC_TGT, RTS, SQD, 0, A(SQD_ASYNC_NOTIFY)),
    T(XRC_TGT, SQD, RTS, 0, RC_RTS_OPTIONAL),
    T(XRC_TGT, SQD, SQD, 0, XRC_TGT_SQD),

    T(UD, RESET, INIT, A(PKEY_INDEX) | A(PORT) | A(QKEY), 0),
    T(UD, INIT, INIT, 0, A(PKEY_INDEX) | A(PORT) | A(QKEY)),
    T(UD, INIT, RTR, 0, A(PKEY_INDEX) | A(QKEY)),
    T(UD, RTR, RTS, A(SQ_PSN), A(CUR_STATE) | A(QKEY) | A(RATE_LIMIT)),
    T(UD, RTS, RTS, 0, A(CUR_STATE) | A(QKEY) | A(RATE_LIMIT)),
    T(UD, RTS, SQD, 0, A(SQD_ASYNC_NOTIFY)),
    T(UD, SQD, RTS, 0, A(CUR_STATE) | A(QKEY) | A(RATE_LIMIT)),
    T(UD, SQD, SQD, 0, A(PKEY_INDEX) | A(QKEY)),
    T(UD, SQE, RTS, 0, A(CUR_STATE) | A(QKEY)),

    T(GSI, RESET, INIT, A(PKEY_INDEX) | A(QKEY), A(PORT)),
    T(GSI, INIT, INIT, 0, A(PKEY_INDEX) | A(QKEY) | A(PORT)),
    T(GSI, INIT, RTR, 0, A(PKEY_INDEX) | A(QKEY)),
    T(GSI, RTR, RTS, A(SQ_PSN), A(CUR_STATE) | A(QKEY)),
    T(GSI, RTS, RTS, 0, A(CUR_STATE) | A(QKEY)),
    T(GSI, RTS, SQD, 0, A(SQD_ASYNC_NOTIFY)),
    T(GSI, SQD, RTS, 0, A(CUR_STATE) | A(QKEY)),
    T(GSI, SQD, SQD, 0, A(PKEY_INDEX) | A(QKEY)),
    T(GSI, SQE, RTS, 0, A(CUR_STATE) | A(QKEY)),

    T(RAW_PACKET, RESET, INIT, A(PORT), 0),
    T(RAW_PACKET, INIT, INIT, 0, A(PORT)),
    T(RAW_PACKET, INIT, RTR, 0, 0),
    T(RAW_PACKET, RTR, RTS, 0, A(CUR_STATE) | A(RATE_LIMIT)),
    T(RAW_PACKET, RTS, RTS, 0, A(CUR_STATE) | A(RATE_LIMIT)),
    T(RAW_PACKET, RTS, SQD, 0, A(SQD_ASYNC_NOTIFY)),
    T(RAW_PACKET, SQD, RTS, 0, A(CUR_STATE) | A(RATE_LIMIT)),
    T(RAW_PACKET, SQD, SQD, 0, 0),
    T(RAW_PACKET, SQE, RTS, 0, A(CUR_STATE)),
};

/* Lowest bit of a mask. */
static uint32_t roce_low_bit(uint32_t mask)
{
    return mask & -mask;
}

/* FAKERNIC_CMD_OK, or the reason for refusing the transition. */
static int roce_qp_transition(const RoceQp *qp, uint8_t to, uint32_t mask,
                              uint32_t *bad_field)
{
    uint8_t from = qp->attr.state;
    uint32_t required = 0;
    uint32_t optional = A(CUR_STATE);
    size_t i;

    if (to != FAKERNIC_QPS_RESET && to != FAKERNIC_QPS_ERR) {
        for (i = 0;; i++) {
            const RoceTransition *t = &roce_transitions[i];

            if (i == sizeof(roce_transitions) / sizeof(*t)) {
                *bad_field = A(STATE);
                return FAKERNIC_CMD_BAD_STATE;
            }
            if (t->type == qp->init.type && t->from == from && t->to == to) {
                required = t->required;
                optional = t->optional;
                break;
            }
        }
    }
    *bad_field = roce_low_bit(required & ~mask);
    if (!*bad_field) {
        *bad_field = roce_low_bit(mask & ~(required | optional |
                                           ROCE_ATTR_ALWAYS));
    }
    return *bad_field ? FAKERNIC_CMD_BAD_PARAM : FAKERNIC_CMD_OK;
}

/* Checks the attribute values. Returns the first bad one, or 0. */
static uint32_t roce_qp_bad_value(const Roce *r, const RoceQp *qp,
                                  uint32_t mask, const RoceQpAttr *attr)
{
    const uint32_t remote = FAKERNIC_ACCESS_REMOTE_WRITE |
                            FAKERNIC_ACCESS_REMOTE_READ |
                            FAKERNIC_ACCESS_REMOTE_ATOMIC |
                            FAKERNIC_ACCESS_LOCAL_WRITE |
                            FAKERNIC_ACCESS_MW_BIND |
                            FAKERNIC_ACCESS_FLUSH_GLOBAL |
                            FAKERNIC_ACCESS_FLUSH_PERSISTENT;
    const struct {
        uint32_t bit;
        bool bad;
    } checks[] = {
        { A(CUR_STATE), attr->cur_state != qp->attr.state },
        { A(SQD_ASYNC_NOTIFY), attr->sqd_async_notify > 1 },
        { A(ACCESS_FLAGS), (attr->access_flags & ~remote) != 0 },
        { A(PKEY_INDEX), attr->pkey_index != 0 },
        { A(PORT), attr->port != 1 },
        { A(AV), !roce_path_av_valid(r, &attr->av) },
        { A(PATH_MTU), roce_mtu_bytes(attr->path_mtu) == 0 ||
                           attr->path_mtu > roce_path_port_mtu(r) },
        { A(TIMEOUT), attr->timeout > 31 },
        { A(RETRY_CNT), attr->retry_cnt > 7 },
        { A(RNR_RETRY), attr->rnr_retry > 7 },
        { A(RQ_PSN), attr->rq_psn > ROCE_PSN_MASK },
        { A(MAX_RD_ATOMIC), attr->max_rd_atomic > r->limits.max_rd_atomic },
        { A(MIN_RNR_TIMER), attr->min_rnr_timer > 31 },
        { A(SQ_PSN), attr->sq_psn > ROCE_PSN_MASK },
        { A(MAX_DEST_RD_ATOMIC),
          attr->max_dest_rd_atomic > r->limits.max_rd_atomic },
        { A(DEST_QPN), attr->dest_qpn > FAKERNIC_QPN_MAX },
    };
    size_t i;

    for (i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
        if (mask & checks[i].bit && checks[i].bad) {
            return checks[i].bit;
        }
    }
    return roce_migration_bad_attr(r, qp, mask, attr);
}

static void roce_qp_assign(RoceQp *qp, uint32_t mask, const RoceQpAttr *attr)
{
    RoceQpAttr *own = &qp->attr;

#define SET(bit, field)              \
    do {                             \
        if (mask & A(bit)) {         \
            own->field = attr->field; \
        }                            \
    } while (0)
    SET(SQD_ASYNC_NOTIFY, sqd_async_notify);
    SET(ACCESS_FLAGS, access_flags);
    SET(PKEY_INDEX, pkey_index);
    SET(PORT, port);
    SET(QKEY, qkey);
    SET(AV, av);
    SET(PATH_MTU, path_mtu);
    SET(TIMEOUT, timeout);
    SET(RETRY_CNT, retry_cnt);
    SET(RNR_RETRY, rnr_retry);
    SET(RQ_PSN, rq_psn);
    SET(MAX_RD_ATOMIC, max_rd_atomic);
    SET(MIN_RNR_TIMER, min_rnr_timer);
    SET(SQ_PSN, sq_psn);
    SET(MAX_DEST_RD_ATOMIC, max_dest_rd_atomic);
    SET(DEST_QPN, dest_qpn);
    SET(RATE_LIMIT, rate_limit_kbps);
#undef SET
    if (qp->init.type == FAKERNIC_QP_GSI) {
        own->qkey = ROCE_QKEY_GSI;
    }
    qp->mtu = roce_mtu_bytes(own->path_mtu);
    qp->gid_epoch--;        /* the cached values may belong to another path */
    if (mask & A(RQ_PSN)) {
        qp->rs.epsn = own->rq_psn;
        qp->rs.msn = 0;
    }
    if (mask & A(SQ_PSN)) {
        roce_sendq_reset(&qp->sq, own->sq_psn);
        roce_retry_init(&qp->retry);
        roce_window_init(&qp->requests, ROCE_WINDOW_REQUESTS);
        roce_window_init(&qp->answers, ROCE_WINDOW_ANSWERS);
    }
    if (mask & (A(RETRY_CNT) | A(RNR_RETRY))) {
        roce_retry_refill(&qp->retry, own);
    }
}

static void roce_qp_reset(Roce *r, RoceQp *qp)
{
    roce_return_recv(r, qp);
    roce_forget(r, qp);
    roce_qp_set_state(r, qp, FAKERNIC_QPS_RESET);
    memset(&qp->attr, 0, sizeof(qp->attr));
    qp->alt_path = false;
    qp->rs.epsn = 0;
    qp->rs.msn = 0;
}

static void roce_qp_enter(Roce *r, RoceTime now, RoceQp *qp, uint8_t from,
                          uint8_t to)
{
    roce_qp_set_state(r, qp, to);
    if (to == FAKERNIC_QPS_SQD && from != FAKERNIC_QPS_SQD) {
        qp->drain_reported = false;
        roce_retire(r, now, qp);
    }
    if (from == FAKERNIC_QPS_SQE) {
        qp->flush_at = ROCE_TIME_NEVER;
        roce_sched_timer(r, qp);
    }
    if (to == FAKERNIC_QPS_RTS || to == FAKERNIC_QPS_SQD) {
        roce_sched_ready(r, qp);
    }
}

int roce_qp_modify(Roce *r, RoceTime now, uint32_t qpn, uint32_t mask,
                   const RoceQpAttr *attr, uint32_t *bad_field)
{
    RoceQp *qp = roce_qp_find(r, qpn);
    uint8_t from;
    uint8_t to;
    int status;

    *bad_field = 0;
    if (!qp) {
        return FAKERNIC_CMD_BAD_ID;
    }
    from = qp->attr.state;
    to = mask & A(STATE) ? attr->state : from;
    if (to > FAKERNIC_QPS_ERR || (mask & A(STATE) && to == FAKERNIC_QPS_SQE)) {
        *bad_field = A(STATE);
        return FAKERNIC_CMD_BAD_PARAM;
    }
    status = roce_qp_transition(qp, to, mask, bad_field);
    if (status != FAKERNIC_CMD_OK) {
        return status;
    }
    *bad_field = roce_qp_bad_value(r, qp, mask, attr);
    if (*bad_field) {
        return *bad_field == A(CUR_STATE) ? FAKERNIC_CMD_BAD_STATE
                                          : FAKERNIC_CMD_BAD_PARAM;
    }
    if (to == FAKERNIC_QPS_RESET) {
        roce_qp_reset(r, qp);
    } else if (to == FAKERNIC_QPS_ERR) {
        roce_enter_error(r, now, qp, FAKERNIC_EVENT_NONE, 0);
    } else {
        roce_migration_assign(r, qp, mask, attr);
        roce_qp_assign(qp, mask, attr);
        if (mask & (A(RATE_LIMIT) | A(AV))) {
            roce_pacer_restart(r, qp);
        }
        roce_qp_enter(r, now, qp, from, to);
    }
    return FAKERNIC_CMD_OK;
}

int roce_qp_query(Roce *r, uint32_t qpn, RoceQpAttr *attr)
{
    RoceQp *qp = roce_qp_find(r, qpn);

    if (!qp) {
        return FAKERNIC_CMD_BAD_ID;
    }
    *attr = qp->attr;
    attr->cur_state = attr->state;
    attr->sq_draining = attr->state == FAKERNIC_QPS_SQD &&
                        !roce_sendq_drained(&qp->sq);
    if (roce_qp_connected(qp)) {
        attr->rq_psn = qp->rs.epsn;
        attr->sq_psn = qp->sq.next_psn;
    } else if (roce_qp_datagram(qp)) {
        attr->sq_psn = qp->sq.next_psn;
    }
    return FAKERNIC_CMD_OK;
}

bool roce_qp_first_psn(const Roce *r, uint32_t qpn, bool sends, uint32_t *psn)
{
    const RoceQp *qp = roce_qp_find(r, qpn);

    if (qp) {
        *psn = sends ? qp->attr.sq_psn : qp->attr.rq_psn;
    }
    return qp;
}

bool roce_qp_query_init(const Roce *r, uint32_t qpn, RoceQpInit *init)
{
    const RoceQp *qp = roce_qp_find(r, qpn);

    if (qp) {
        *init = qp->init;
    }
    return qp;
}

bool roce_qp_is_foreign(Roce *r, uint32_t qpn)
{
    RoceQp *qp = roce_qp_find(r, qpn);

    return qp && roce_qp_connected(qp) &&
           qp->attr.state >= FAKERNIC_QPS_RTR &&
           qp->attr.state <= FAKERNIC_QPS_SQE && !roce_path_loopback(r, qp);
}

bool roce_qp_view(const Roce *r, uint32_t qpn, RoceQpView *view)
{
    const RoceQp *qp = roce_qp_find(r, qpn);

    if (!qp) {
        return false;
    }
    *view = (RoceQpView) {
        .una_psn = qp->sq.una,
        .tx_psn = qp->sq.tx_psn,
        .high_psn = qp->sq.high,
        .in_flight = qp->sq.pi - qp->sq.ci,
        .msn = qp->rs.msn,
        .retry_left = qp->retry.retry_left,
        .rnr_left = qp->retry.rnr_left,
        .nak_sent = qp->rs.nak_sent,
        .loopback = qp->loopback,
    };
    return true;
}

int roce_qp_set_counters(Roce *r, uint32_t qpn, uint64_t *counters)
{
    RoceQp *qp = roce_qp_find(r, qpn);

    if (!qp) {
        return FAKERNIC_CMD_BAD_ID;
    }
    qp->counters = counters;
    return FAKERNIC_CMD_OK;
}

void roce_qp_error(Roce *r, RoceTime now, uint32_t qpn, uint16_t vendor_err)
{
    RoceQp *qp = roce_qp_find(r, qpn);

    if (qp && qp->attr.state != FAKERNIC_QPS_RESET) {
        roce_enter_error(r, now, qp, FAKERNIC_EVENT_QP_FATAL, vendor_err);
    }
}

RoceQp *roce_qp_find(const Roce *r, uint32_t qpn)
{
    return qpn < r->limits.max_qp ? r->qps[qpn] : NULL;
}

/* All numbers except 0, which is never used, and the GSI's. */
void roce_qp_numbers_reset(Roce *r)
{
    uint32_t qpn;

    r->free_head = 0;
    r->free_count = 0;
    for (qpn = FAKERNIC_QPN_GSI + 1; qpn < r->limits.max_qp; qpn++) {
        r->free_qpns[r->free_count++] = (uint16_t)qpn;
    }
}

/* The number that was released longest ago; 0: all are in use. */
static uint32_t roce_qp_number(Roce *r, uint8_t type)
{
    if (type == FAKERNIC_QP_GSI) {
        return FAKERNIC_QPN_GSI < r->limits.max_qp &&
               !r->qps[FAKERNIC_QPN_GSI] ? FAKERNIC_QPN_GSI : 0;
    }
    return r->free_count > 0 ? r->free_qpns[r->free_head] : 0;
}

static void roce_qp_number_take(Roce *r, uint32_t qpn)
{
    if (qpn != FAKERNIC_QPN_GSI) {
        r->free_head = (r->free_head + 1) & (r->limits.max_qp - 1);
        r->free_count--;
    }
}

static void roce_qp_number_give(Roce *r, uint32_t qpn)
{
    uint32_t tail = r->free_head + r->free_count;

    if (qpn != FAKERNIC_QPN_GSI) {
        r->free_qpns[tail & (r->limits.max_qp - 1)] = (uint16_t)qpn;
        r->free_count++;
    }
}

/* Overhead of malloc() for each allocation. */
#define ROCE_MALLOC_COST 16

/* Sends of a service without answers complete before the next frame is made. */
static uint32_t roce_qp_sends(const Roce *r, const RoceQpInit *init)
{
    if (!init->has_sq) {
        return 0;
    }
    return init->type == FAKERNIC_QP_RC || init->type == FAKERNIC_QP_XRC_INI
               ? r->limits.max_sends : 1;
}

/* READs and atomics that the peer may have outstanding. */
static uint32_t roce_qp_resources(const Roce *r, const RoceQpInit *init)
{
    return init->type == FAKERNIC_QP_RC || init->type == FAKERNIC_QP_XRC_TGT
               ? r->limits.max_rd_atomic : 0;
}

size_t roce_qp_memory(const Roce *r, const RoceQpInit *init)
{
    const RoceQp *qp = NULL;
    const size_t send = sizeof(*qp->sq.ring) + sizeof(RoceSendWr) +
                        ROCE_MALLOC_COST;

    return sizeof(*qp) + roce_qp_sends(r, init) * send +
           roce_qp_resources(r, init) * sizeof(*qp->rs.ring);
}

static bool roce_qp_allocate(const Roce *r, RoceQp *qp)
{
    uint32_t sends = roce_qp_sends(r, &qp->init);

    if (sends > 0 && !roce_sendq_init(&qp->sq, sends)) {
        /* Not reached by tests: out of memory. */
        return false;
    }
    qp->rs.ring_size = roce_qp_resources(r, &qp->init);
    if (qp->rs.ring_size > ROCE_RESOURCES_FIRST) {
        qp->rs.ring_size = ROCE_RESOURCES_FIRST;
    }
    if (qp->rs.ring_size > 0) {
        qp->rs.ring = calloc(qp->rs.ring_size, sizeof(*qp->rs.ring));
        return qp->rs.ring != NULL;
    }
    return true;
}

/* Does the type have these queues? Other types may have any. */
static bool roce_qp_init_ok(const RoceQpInit *init)
{
    bool receives = init->has_rq || init->srqn;

    switch (init->type) {
    case FAKERNIC_QP_XRC_INI:
        return !receives && init->xrcdn == 0;
    case FAKERNIC_QP_XRC_TGT:
        return !init->has_sq && !receives && init->xrcdn != 0;
    default:
        return init->type >= FAKERNIC_QP_RC &&
               init->type < FAKERNIC_QP_XRC_INI && init->xrcdn == 0 &&
               !(init->has_rq && init->srqn);
    }
}

RoceQp *roce_qp_make(Roce *r, const RoceQpInit *init, uint32_t number)
{
    RoceQp *qp;

    if (!roce_qp_init_ok(init) || number == 0 || number >= r->limits.max_qp ||
        r->qps[number] || (number == FAKERNIC_QPN_GSI) !=
                              (init->type == FAKERNIC_QP_GSI)) {
        return NULL;
    }
    qp = calloc(1, sizeof(*qp));
    if (!qp) {
        /* Not reached by tests: out of memory. */
        return NULL;
    }
    qp->qpn = number;
    qp->init = *init;
    qp->deadline = qp->flush_at = ROCE_TIME_NEVER;
    roce_retry_init(&qp->retry);
    roce_pacer_init(qp);
    qp->heap_index = UINT32_MAX;
    qp->rs.pd = init->pd;
    qp->rx.srqn = init->srqn;
    qp->rx.cqn = init->recv_cqn;
    if (!roce_qp_allocate(r, qp)) {
        /* Not reached by tests: out of memory. */
        roce_sendq_free(&qp->sq);
        free(qp);
        return NULL;
    }
    r->qps[number] = qp;
    return qp;
}

int roce_qp_create(Roce *r, const RoceQpInit *init, uint32_t *qpn)
{
    uint32_t number;

    if (!roce_qp_init_ok(init)) {
        return FAKERNIC_CMD_BAD_PARAM;
    }
    number = roce_qp_number(r, init->type);
    if (number == 0) {
        return init->type == FAKERNIC_QP_GSI ? FAKERNIC_CMD_BUSY
                                             : FAKERNIC_CMD_NO_RESOURCE;
    }
    if (!roce_qp_make(r, init, number)) {
        /* Not reached by tests: out of memory. */
        return FAKERNIC_CMD_NO_RESOURCE;
    }
    roce_qp_number_take(r, number);
    *qpn = number;
    return FAKERNIC_CMD_OK;
}

void roce_qp_free(Roce *r, RoceQp *qp)
{
    roce_sched_flush_wake(r, qp);
    roce_pages_forget(r, qp);
    roce_sched_remove(r, qp);
    if (r->sent == qp) {
        r->sent = NULL;
    }
    if (r->served == qp) {
        r->served = NULL;
    }
    r->qps[qp->qpn] = NULL;
    roce_qp_number_give(r, qp->qpn);
    roce_sendq_free(&qp->sq);
    free(qp->rs.ring);
    free(qp);
}

/* ---- loading ------------------------------------------------------------- */

/* Values that do not depend on the state of others, as GIDs and the port. */
#define QP_LOADED_MASK (A(SQD_ASYNC_NOTIFY) | A(ACCESS_FLAGS) |           \
                        A(PKEY_INDEX) | A(TIMEOUT) | A(RETRY_CNT) |       \
                        A(RNR_RETRY) | A(RQ_PSN) | A(MAX_RD_ATOMIC) |     \
                        A(MIN_RNR_TIMER) | A(SQ_PSN) |                    \
                        A(MAX_DEST_RD_ATOMIC) | A(DEST_QPN))

bool roce_qp_attr_valid(const Roce *r, const RoceQp *qp)
{
    const RoceQpAttr *attr = &qp->attr;
    const bool connected = roce_qp_connected(qp) &&
                           attr->state >= FAKERNIC_QPS_RTR &&
                           attr->state <= FAKERNIC_QPS_SQE;

    return attr->state <= FAKERNIC_QPS_ERR &&
           (attr->state != FAKERNIC_QPS_SQE || !roce_qp_reliable(qp)) &&
           attr->path_mig_state <= FAKERNIC_MIG_ARMED &&
           attr->path_mtu <= FAKERNIC_MTU_4096 &&
           (!connected || roce_mtu_bytes(attr->path_mtu) > 0) &&
           attr->av.sgid_index < r->limits.gid_count &&
           attr->alt_av.sgid_index < r->limits.gid_count &&
           attr->alt_pkey_index == 0 && attr->alt_timeout <= 31 &&
           roce_qp_bad_value(r, qp, QP_LOADED_MASK, attr) == 0;
}

void roce_qp_numbers_transfer(RoceStream *s, Roce *r)
{
    uint8_t seen[ROCE_QPNS / 8] = { 0 };
    uint32_t count = 0;

    for (uint32_t qpn = FAKERNIC_QPN_GSI + 1; qpn < r->limits.max_qp; qpn++) {
        count += !r->qps[qpn];
    }
    for (uint32_t i = 0; i < count && !s->failed; i++) {
        uint32_t at = (r->free_head + i) & (r->limits.max_qp - 1);
        uint16_t qpn = r->free_qpns[at];

        ROCE_FIELD(s, qpn);
        ROCE_CHECK(s, qpn > FAKERNIC_QPN_GSI && qpn < r->limits.max_qp &&
                          !r->qps[qpn] && !(seen[qpn / 8] & 1u << qpn % 8),
                   "list of free queue pairs");
        if (s->loads && !s->failed) {
            seen[qpn / 8] |= (uint8_t)(1u << qpn % 8);
            r->free_qpns[at] = qpn;
        }
    }
    if (s->loads) {
        r->free_count = count;
    }
}
