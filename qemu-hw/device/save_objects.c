/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Saves and loads the objects of the device: rings, queues, domains, keys and
 * flow rules. As in the engine (../roce/stream.h), one function per structure
 * moves its fields in both directions. References are saved as numbers. Users
 * are counted again by a load, and host memory is accounted again.
 *
 * The stream is hostile input: a load checks each number before its use, and
 * each ring against its page list.
 */
#include "qemu/osdep.h"
#include "qemu/bitops.h"
#include "qemu/host-utils.h"
#include "clock.h"
#include "memory.h"
#include "save_objects.h"
#include "port/flow.h"
#include "port/rss.h"
#include "queue/cq.h"
#include "queue/eq.h"
#include "queue/qp.h"
#include "queue/ring.h"
#include "queue/sq.h"
#include "state.h"
#include "../roce/stream.h"

/* ---- tables -------------------------------------------------------------- */

/* Moves an object of this number. */
typedef void FakernicSaveFn(RoceStream *s, FakernicState *d, void *object,
                            uint32_t id);

typedef struct FakernicSaveTable {
    const char *name;
    size_t offset;              /* of the table in FakernicState */
    size_t size;                /* of an object */
    FakernicSaveFn *move;
} FakernicSaveTable;

static bool save_is_free(const FakernicTable *t, uint32_t id)
{
    return id >= t->first && id < t->next && !t->slots[id];
}

/* The numbers that are used again, the one freed longest ago first. */
static void save_freed(RoceStream *s, FakernicTable *t)
{
    g_autofree unsigned long *seen = bitmap_new(t->size);
    uint32_t count = t->freed_count;

    ROCE_DERIVED(t->slots);             /* save_table() */
    ROCE_DERIVED(t->first);
    ROCE_DERIVED(t->next);
    ROCE_FIELD(s, count);
    for (uint32_t i = 0; i < count && !s->failed; i++) {
        uint32_t *at = &t->freed[(t->freed_head + i) % t->size];
        uint32_t id = *at;

        ROCE_FIELD(s, id);
        ROCE_CHECK(s, save_is_free(t, id) && !test_bit(id, seen),
                   "free number");
        if (s->loads && !s->failed) {
            set_bit(id, seen);
            *at = id;
            t->freed_count++;
        }
    }
}

static void save_table(RoceStream *s, FakernicState *d,
                       const FakernicSaveTable *kind)
{
    FakernicTable *t = (void *)((char *)d + kind->offset);
    uint32_t next = t->next;

    s->object = kind->name;
    s->number = 0;
    ROCE_FIELD(s, next);
    ROCE_CHECK(s, next >= t->first && next <= t->size, "number");
    for (uint32_t id = t->first; id < next && !s->failed; id++) {
        bool exists = !s->loads && t->slots[id];

        s->number = id;
        ROCE_FIELD(s, exists);
        if (s->loads) {
            t->next = id + 1;
            t->slots[id] = exists ? g_malloc0(kind->size) : NULL;
        }
        if (exists) {
            kind->move(s, d, t->slots[id], id);
        }
    }
    save_freed(s, t);
    s->object = NULL;
}

/* ---- rings and events ---------------------------------------------------- */

/* The entries of a kind of ring: sizes, and the largest depth. */
typedef struct FakernicSaveRing {
    uint8_t entry_min, entry_max;
    uint8_t depth_max;          /* logarithm */
    uint8_t why;
} FakernicSaveRing;

#define SAVE_LOG_CQE 6
#define SAVE_LOG_EQE 4
QEMU_BUILD_BUG_ON(sizeof(struct fakernic_cqe) != 1 << SAVE_LOG_CQE);
QEMU_BUILD_BUG_ON(sizeof(struct fakernic_eqe) != 1 << SAVE_LOG_EQE);

static const FakernicSaveRing save_sq = {
    FAKERNIC_SQ_BB_SHIFT, FAKERNIC_SQ_BB_SHIFT, FAKERNIC_QUEUE_LOG_DEPTH_MAX,
    ROCE_WHY_WQE,
};
static const FakernicSaveRing save_rq = {
    FAKERNIC_RQ_LOG_STRIDE_MIN, FAKERNIC_RQ_LOG_STRIDE_MAX,
    FAKERNIC_QUEUE_LOG_DEPTH_MAX, ROCE_WHY_WQE,
};
static const FakernicSaveRing save_cq = {
    SAVE_LOG_CQE, SAVE_LOG_CQE, FAKERNIC_CQ_LOG_DEPTH_MAX, ROCE_WHY_CQE,
};
static const FakernicSaveRing save_eq = {
    SAVE_LOG_EQE, SAVE_LOG_EQE, FAKERNIC_QUEUE_LOG_DEPTH_MAX, ROCE_WHY_EQE,
};

static bool save_ring_valid(const FakernicRing *ring,
                            const FakernicSaveRing *kind)
{
    uint64_t bytes;

    if (ring->page_shift < FAKERNIC_PAGE_SHIFT ||
        ring->page_shift > FAKERNIC_PAGE_SHIFT_MAX ||
        ring->log_entry < kind->entry_min ||
        ring->log_entry > kind->entry_max || !is_power_of_2(ring->depth) ||
        ring->depth > 1U << kind->depth_max) {
        return false;
    }
    bytes = ((uint64_t)ring->depth << ring->log_entry) +
            sizeof(struct fakernic_queue_record);
    return ring->page_count == DIV_ROUND_UP(bytes, 1ULL << ring->page_shift);
}

static bool save_pages_valid(const FakernicRing *ring)
{
    const uint64_t bad = ROCE_ADDRESS_DM | ((1ULL << ring->page_shift) - 1);

    for (uint32_t i = 0; i < ring->page_count; i++) {
        if (ring->pages[i] & bad) {
            return false;
        }
    }
    return true;
}

static void save_ring(RoceStream *s, FakernicState *d, FakernicRing *ring,
                      const FakernicSaveRing *kind)
{
    uint64_t *pages = ring->pages;

    ROCE_FIELD(s, ring->page_shift);
    ROCE_FIELD(s, ring->log_entry);
    ROCE_FIELD(s, ring->depth);
    ROCE_FIELD(s, ring->page_count);
    ROCE_CHECK(s, save_ring_valid(ring, kind), "ring");
    ROCE_CHECK(s, fakernic_memory_take(d, ring->page_count * sizeof(*pages)),
               "ring: property max-memory is too small here");
    ring->why = kind->why;
    if (s->failed) {
        return;
    }
    roce_stream_list(s, &pages, ring->page_count);
    if (s->failed) {
        fakernic_memory_give(d, ring->page_count * sizeof(*pages));
        return;
    }
    ring->pages = pages;
    ROCE_CHECK(s, save_pages_valid(ring), "page list of a ring");
}

/* A ring that may be absent. */
static void save_optional_ring(RoceStream *s, FakernicState *d,
                               FakernicRing *ring,
                               const FakernicSaveRing *kind)
{
    bool exists = !s->loads && ring->pages;

    ROCE_FIELD(s, exists);
    if (exists) {
        save_ring(s, d, ring, kind);
    }
}

static void save_source(RoceStream *s, FakernicEventSource *src, uint32_t id)
{
    src->id = id;
    ROCE_FIELD(s, src->latched);
    ROCE_FIELD(s, src->data);
    ROCE_DERIVED(src->waiting);         /* save_waiting() */
    ROCE_DERIVED(src->next);
}

/* Moves the number of an object of a table, or 0 for NULL. */
static void *save_reference(RoceStream *s, const FakernicTable *t,
                            uint32_t id)
{
    ROCE_FIELD(s, id);
    ROCE_CHECK(s, id == 0 || fakernic_table_get(t, id), "number of an object");
    return s->failed || id == 0 ? NULL : fakernic_table_get(t, id);
}

/* ---- objects ------------------------------------------------------------- */

static void save_pd(RoceStream *s, FakernicState *d, void *object, uint32_t id)
{
    FakernicPd *pd = object;

    ROCE_FIELD(s, pd->handle);
    ROCE_CHECK(s, ROCE_PD_NUMBER(pd->handle) == id, "handle");
    ROCE_DERIVED(pd->users);
}

/* Domains and doorbell pages have only users. */
static void save_nothing(RoceStream *s, FakernicState *d, void *object,
                         uint32_t id)
{
}

static void save_counter(RoceStream *s, FakernicState *d, void *object,
                         uint32_t id)
{
    FakernicCounter *counter = object;

    for (unsigned i = 0; i < ARRAY_SIZE(counter->values); i++) {
        ROCE_FIELD(s, counter->values[i]);
    }
    ROCE_DERIVED(counter->users);
}

static void save_eq_object(RoceStream *s, FakernicState *d, void *object,
                           uint32_t id)
{
    FakernicEq *eq = object;

    if (s->loads) {
        eq->id = id;
        QTAILQ_INIT(&eq->waiting);
    }
    save_ring(s, d, &eq->ring, &save_eq);
    ROCE_FIELD(s, eq->pi);
    ROCE_FIELD(s, eq->ci);
    ROCE_FIELD(s, eq->vector);
    ROCE_FIELD(s, eq->armed);
    roce_stream_time(s, &eq->stalled_until);
    ROCE_DERIVED(eq->users);
    ROCE_DERIVED(eq->waiting);          /* save_waiting() */
    ROCE_DERIVED(eq->late);
    ROCE_CHECK(s, eq->vector < d->vectors, "vector");
    ROCE_CHECK(s, eq->pi - eq->ci <= eq->ring.depth, "index");
}

static void save_cq_object(RoceStream *s, FakernicState *d, void *object,
                           uint32_t id)
{
    FakernicCq *cq = object;
    FakernicEq *eq = save_reference(s, &d->eqs, cq->eq ? cq->eq->id : 0);

    cq->id = id;
    save_ring(s, d, &cq->ring, &save_cq);
    ROCE_FIELD(s, cq->uar);
    ROCE_FIELD(s, cq->pi);
    ROCE_FIELD(s, cq->ci);
    ROCE_FIELD(s, cq->stamped);
    ROCE_FIELD(s, cq->solicited_pi);
    ROCE_ENUM(s, cq->arm, FAKERNIC_ARM_ANY + 1);
    ROCE_FIELD(s, cq->ignore_overrun);
    ROCE_FIELD(s, cq->error);
    ROCE_FIELD(s, cq->count);
    ROCE_FIELD(s, cq->period_us);
    ROCE_FIELD(s, cq->held);
    roce_stream_time(s, &cq->deadline);
    ROCE_FIELD(s, cq->is_held);
    save_source(s, &cq->completion, id);
    save_source(s, &cq->async, id);
    ROCE_CHECK(s, eq && fakernic_uar_exists(d, cq->uar), "EQ or doorbell page");
    ROCE_DERIVED(cq->users);            /* save_cq_user() */
    ROCE_DERIVED(cq->fail_with);
    ROCE_DERIVED(cq->failed);
    if (s->loads && !s->failed) {
        cq->eq = eq;
        eq->users++;
        fakernic_uar_use(d, cq->uar, 1);
        if (cq->is_held) {
            g_tree_insert(d->held_cqs, cq, cq);
        }
    } else if (s->loads) {
        cq->is_held = false;
    }
}

/* A user of a CQ; 'waits': it has not failed with the CQ. */
static void save_cq_user(RoceStream *s, FakernicCq *cq, FakernicCqUser *user)
{
    bool waits = !s->loads && QLIST_IS_INSERTED(user, next);

    if (!cq) {
        return;
    }
    ROCE_FIELD(s, waits);
    if (s->loads) {
        cq->users++;
        if (waits) {
            QLIST_INSERT_HEAD(&cq->fail_with, user, next);
        }
    }
    ROCE_DERIVED(user->qp);
    ROCE_DERIVED(user->srq);
    ROCE_DERIVED(user->next);
}

static void save_srq_object(RoceStream *s, FakernicState *d, void *object,
                            uint32_t id)
{
    FakernicSrq *srq = object;
    FakernicPd *pd;
    FakernicXrcd *xrcd;

    srq->id = id;
    ROCE_FIELD(s, srq->serial);
    save_ring(s, d, &srq->ring, &save_rq);
    ROCE_FIELD(s, srq->pi);
    ROCE_FIELD(s, srq->ci);
    roce_stream_time(s, &srq->waits);
    ROCE_FIELD(s, srq->limit);
    ROCE_FIELD(s, srq->pdn);
    ROCE_FIELD(s, srq->xrcdn);
    srq->cq = save_reference(s, &d->cqs, srq->cq ? srq->cq->id : 0);
    ROCE_DERIVED(srq->users);
    ROCE_FIELD(s, srq->error);
    save_source(s, &srq->async, id);
    pd = fakernic_pd(d, srq->pdn);
    xrcd = fakernic_xrcd(d, srq->xrcdn);
    ROCE_CHECK(s, pd && !srq->xrcdn == !srq->cq && (!srq->xrcdn || xrcd),
               "domain");
    ROCE_CHECK(s, srq->pi - srq->ci <= srq->ring.depth, "index");
    if (s->failed) {
        return;
    }
    srq->cq_user.srq = srq;
    save_cq_user(s, srq->cq, &srq->cq_user);
    if (s->loads) {
        pd->users++;
        if (xrcd) {
            xrcd->users++;
        }
    }
}

static void save_ind_table(RoceStream *s, FakernicState *d, void *object,
                           uint32_t id)
{
    FakernicIndTable *table = object;

    ROCE_FIELD(s, table->size);
    ROCE_CHECK(s, is_power_of_2(table->size) &&
                      table->size <= FAKERNIC_MAX_IND_TABLE_SIZE, "size");
    if (s->failed) {
        table->size = 0;
    }
    for (uint32_t i = 0; i < table->size; i++) {
        ROCE_FIELD(s, table->wqns[i]);
    }
    ROCE_DERIVED(table->users);
}

/* The tables are loaded before the WQs that they name. */
static void save_ind_table_users(RoceStream *s, FakernicState *d)
{
    for (uint32_t id = 1; s->loads && id < d->ind_tables.next; id++) {
        FakernicIndTable *table = fakernic_table_get(&d->ind_tables, id);

        for (uint32_t i = 0; table && i < table->size && !s->failed; i++) {
            FakernicQp *wq = fakernic_wq(d, table->wqns[i]);

            ROCE_CHECK(s, wq, "WQ of an indirection table");
            if (wq) {
                wq->entries++;
            }
        }
    }
}

static uint32_t save_ind_table_id(FakernicState *d, const FakernicRss *rss)
{
    uint32_t id = 1;

    while (fakernic_table_get(&d->ind_tables, id) != rss->table) {
        id++;
    }
    return id;
}

static void save_rss(RoceStream *s, FakernicState *d, FakernicRss *rss)
{
    rss->table = save_reference(s, &d->ind_tables,
                                s->loads ? 0 : save_ind_table_id(d, rss));
    ROCE_FIELD(s, rss->fields);
    roce_stream_bytes(s, rss->key, sizeof(rss->key));
    ROCE_CHECK(s, rss->table && !(rss->fields & ~FAKERNIC_HASH_FIELDS),
               "RSS");
}

static uint32_t save_counter_id(FakernicState *d, const FakernicQp *qp)
{
    uint32_t id = 0;

    while (qp->counter &&
           fakernic_table_get(&d->counters, id) != qp->counter) {
        id++;
    }
    return id;
}

/* What the QP uses exists; the load counts it as a user. */
static void save_qp_users(RoceStream *s, FakernicState *d, FakernicQp *qp)
{
    FakernicPd *pd = fakernic_pd(d, qp->pdn);
    FakernicXrcd *xrcd = fakernic_xrcd(d, qp->xrcdn);

    ROCE_CHECK(s, (qp->xrcdn ? xrcd != NULL : pd != NULL) &&
                      fakernic_uar_exists(d, qp->uar),
               "domain or doorbell page");
    if (!s->loads || s->failed) {
        return;
    }
    if (qp->counter) {
        qp->counter->users++;
    }
    if (qp->xrcdn) {
        xrcd->users++;
        return;
    }
    pd->users++;
    if (qp->srq) {
        qp->srq->users++;
    }
    if (qp->rss) {
        qp->rss->table->users++;
    }
    fakernic_uar_use(d, qp->uar, 1);
}

static void save_qp_queues(RoceStream *s, FakernicState *d, FakernicQp *qp)
{
    save_optional_ring(s, d, &qp->sq, &save_sq);
    save_optional_ring(s, d, &qp->rq, &save_rq);
    ROCE_FIELD(s, qp->sq_pi);
    ROCE_FIELD(s, qp->sq_ci);
    ROCE_FIELD(s, qp->rq_pi);
    ROCE_FIELD(s, qp->rq_ci);
    roce_stream_time(s, &qp->sq_waits);
    roce_stream_time(s, &qp->rq_waits);
    ROCE_FIELD(s, qp->sq_unreadable);
    roce_stream_time(s, &qp->sq_sleeps_at);
    ROCE_DERIVED(qp->sq_awake);         /* save_awake() */
    ROCE_DERIVED(qp->awake);
    ROCE_DERIVED(qp->watched);
    ROCE_DERIVED(qp->sq_streams);       /* a hint */
    save_source(s, &qp->async, qp->qpn);
}

/* MODIFY_WQ relies on this: a WQ has an RQ only, and an RSS QP no queue. */
static bool save_qp_kind_valid(const FakernicQp *qp)
{
    return (!qp->is_wq && !qp->rss) ||
           (qp->type == FAKERNIC_QP_RAW_PACKET && !qp->srq && !qp->sq.pages &&
            !(qp->is_wq && qp->rss) && !qp->rq.pages == !qp->is_wq);
}

static void save_qp(RoceStream *s, FakernicState *d, FakernicQp *qp)
{
    uint64_t memory = qp->memory;
    bool rss = !s->loads && qp->rss;

    ROCE_FIELD(s, qp->type);
    ROCE_FIELD(s, qp->is_wq);
    ROCE_FIELD(s, qp->pdn);
    ROCE_FIELD(s, qp->xrcdn);
    ROCE_FIELD(s, qp->uar);
    qp->send_cq = save_reference(s, &d->cqs, qp->send_cq ? qp->send_cq->id
                                                         : 0);
    qp->recv_cq = save_reference(s, &d->cqs, qp->recv_cq ? qp->recv_cq->id
                                                         : 0);
    qp->srq = save_reference(s, &d->srqs, qp->srq ? qp->srq->id : 0);
    qp->counter = save_reference(s, &d->counters, save_counter_id(d, qp));
    ROCE_FIELD(s, memory);
    ROCE_CHECK(s, fakernic_memory_take(d, memory),
               "memory: property max-memory is too small here");
    qp->memory = s->failed ? 0 : memory;
    ROCE_FIELD(s, rss);
    if (rss && s->loads) {
        qp->rss = g_new0(FakernicRss, 1);
    }
    if (rss) {
        save_rss(s, d, qp->rss);
    }
    save_qp_queues(s, d, qp);
    ROCE_CHECK(s, save_qp_kind_valid(qp), "kind");
    save_qp_users(s, d, qp);
    if (!s->failed) {
        qp->send_user.qp = qp->recv_user.qp = qp;
        save_cq_user(s, qp->send_cq, &qp->send_user);
        save_cq_user(s, qp->recv_cq, &qp->recv_user);
    }
    ROCE_DERIVED(qp->flows);            /* save_flow() */
    ROCE_DERIVED(qp->entries);          /* save_ind_table_users() */
}

static void save_qps(RoceStream *s, FakernicState *d)
{
    uint32_t qpn = 0;

    s->object = "queue pair";
    do {
        for (qpn += !s->loads; !s->loads && qpn < d->max_qp && !d->qps[qpn];) {
            qpn++;
        }
        qpn = !s->loads && qpn == d->max_qp ? 0 : qpn;
        ROCE_FIELD(s, qpn);
        s->number = qpn;
        ROCE_CHECK(s, qpn == 0 || (qpn < d->max_qp && !d->qps[qpn]), "number");
        if (qpn == 0 || s->failed) {
            break;
        }
        if (s->loads) {
            d->qps[qpn] = g_new0(FakernicQp, 1);
            d->qps[qpn]->qpn = qpn;
        }
        save_qp(s, d, d->qps[qpn]);
    } while (!s->failed);
    s->object = NULL;
}

static void save_key(RoceStream *s, FakernicState *d, FakernicKey *key)
{
    FakernicPd *pd;

    ROCE_FIELD(s, key->pages);
    ROCE_FIELD(s, key->pdn);
    pd = fakernic_pd(d, key->pdn);
    ROCE_CHECK(s, pd && d->mr_pages + key->pages <= d->max_mr_pages,
               "key: property max-mr-pages is too small here");
    ROCE_CHECK(s, fakernic_memory_take(d, key->pages * sizeof(uint64_t)),
               "key: property max-memory is too small here");
    if (s->loads && !s->failed) {
        pd->users++;
        d->mr_pages += key->pages;
    } else if (s->failed) {
        *key = (FakernicKey) { 0 };
    }
}

static void save_keys(RoceStream *s, FakernicState *d)
{
    for (uint32_t i = 1; i < d->max_mr && !s->failed; i++) {
        bool exists = !s->loads && d->keys[i].pdn;

        ROCE_FIELD(s, exists);
        if (exists) {
            s->object = "key index";
            s->number = i;
            save_key(s, d, &d->keys[i]);
            s->object = NULL;
        }
    }
}

static void save_flow(RoceStream *s, FakernicState *d, void *object,
                      uint32_t id)
{
    FakernicFlow *flow = object;
    FakernicQp *qp;

    flow->id = id;
    ROCE_FIELD(s, flow->qpn);
    ROCE_FIELD(s, flow->layers);
    ROCE_FIELD(s, flow->priority);
    ROCE_FIELD(s, flow->type);
    ROCE_FIELD(s, flow->flags);
    roce_stream_bytes(s, &flow->value, sizeof(flow->value));
    roce_stream_bytes(s, &flow->mask, sizeof(flow->mask));
    ROCE_DERIVED(flow->next);           /* save_flow_order() */
    qp = fakernic_qp(d, flow->qpn);
    ROCE_CHECK(s, flow->type < ARRAY_SIZE(d->flows) && (!flow->qpn || qp),
               "flow rule");
    if (s->loads && !s->failed && qp) {
        qp->flows++;
    }
}

/* A rule that is in no list could not be destroyed. */
static bool save_flows_valid(FakernicState *d)
{
    for (uint32_t id = 1; id < d->flow_table.next; id++) {
        const FakernicFlow *flow = fakernic_table_get(&d->flow_table, id);

        if (flow && !QTAILQ_IN_USE(flow, next)) {
            return false;
        }
    }
    return d->copying_flows <= FAKERNIC_MAX_FLOW_COPIES;
}

/* The rules of each type, in the order of their evaluation, and 0. */
static void save_flow_order(RoceStream *s, FakernicState *d)
{
    for (unsigned type = 0; type < ARRAY_SIZE(d->flows); type++) {
        FakernicFlow *flow = QTAILQ_FIRST(&d->flows[type]), *each;

        do {
            each = save_reference(s, &d->flow_table,
                                  !s->loads && flow ? flow->id : 0);
            ROCE_CHECK(s, !each || (each->type == type &&
                                    !QTAILQ_IN_USE(each, next)),
                       "order of flow rules");
            if (s->loads && each && !s->failed) {
                fakernic_flow_add(d, each);
            }
            flow = !s->loads && flow ? QTAILQ_NEXT(flow, next) : NULL;
        } while (each && !s->failed);
    }
    ROCE_CHECK(s, save_flows_valid(d), "order of flow rules");
}

/* ---- lists --------------------------------------------------------------- */

enum { SAVE_END, SAVE_CQ, SAVE_QP, SAVE_SRQ, SAVE_PORT, SAVE_DEVICE };

/* The kind of an event source of the asynchronous list. */
static uint8_t save_kind(FakernicState *d, const FakernicEventSource *src)
{
    const FakernicCq *cq = fakernic_table_get(&d->cqs, src->id);
    const FakernicQp *qp = fakernic_qp_or_wq(d, src->id);

    return src == &d->port_events ? SAVE_PORT :
           src == &d->device_events ? SAVE_DEVICE :
           cq && src == &cq->async ? SAVE_CQ :
           qp && src == &qp->async ? SAVE_QP : SAVE_SRQ;
}

static FakernicEventSource *save_find(FakernicState *d, uint8_t kind,
                                      uint32_t id)
{
    FakernicCq *cq = fakernic_table_get(&d->cqs, id);
    FakernicSrq *srq = fakernic_table_get(&d->srqs, id);
    FakernicQp *qp = fakernic_qp_or_wq(d, id);

    switch (kind) {
    case SAVE_CQ:
        return cq ? &cq->async : NULL;
    case SAVE_QP:
        return qp ? &qp->async : NULL;
    case SAVE_SRQ:
        return srq ? &srq->async : NULL;
    case SAVE_PORT:
        return &d->port_events;
    case SAVE_DEVICE:
        return &d->device_events;
    default:
        return NULL;
    }
}

static void save_wait(RoceStream *s, FakernicEventList *list,
                      FakernicEventSource *src)
{
    ROCE_CHECK(s, src && !src->waiting, "list of events");
    if (s->loads && !s->failed) {
        src->waiting = true;
        QTAILQ_INSERT_TAIL(list, src, next);
    }
}

static void save_async_waiting(RoceStream *s, FakernicState *d)
{
    FakernicEventSource *src = QTAILQ_FIRST(&d->async_waiting);
    uint8_t kind;

    do {
        uint32_t id = !s->loads && src ? src->id : 0;

        kind = !s->loads && src ? save_kind(d, src) : SAVE_END;
        ROCE_FIELD(s, kind);
        if (kind == SAVE_END) {
            break;
        }
        ROCE_FIELD(s, id);
        save_wait(s, &d->async_waiting, s->loads ? save_find(d, kind, id)
                                                 : src);
        src = s->loads ? NULL : QTAILQ_NEXT(src, next);
    } while (!s->failed);
}

/* The CQs whose completion event waits for this EQ, and 0. */
static void save_eq_waiting(RoceStream *s, FakernicState *d, FakernicEq *eq)
{
    FakernicEventSource *src = QTAILQ_FIRST(&eq->waiting);
    FakernicCq *cq;

    do {
        cq = save_reference(s, &d->cqs, !s->loads && src ? src->id : 0);
        if (cq) {
            ROCE_CHECK(s, cq->eq == eq, "list of events");
            save_wait(s, &eq->waiting, &cq->completion);
        }
        src = !s->loads && src ? QTAILQ_NEXT(src, next) : NULL;
    } while (cq && !s->failed);
}

static void save_waiting(RoceStream *s, FakernicState *d)
{
    FakernicEq *late = QTAILQ_FIRST(&d->late_eqs), *eq;

    for (uint32_t id = 1; id < d->eqs.next && !s->failed; id++) {
        eq = fakernic_table_get(&d->eqs, id);
        if (eq) {
            save_eq_waiting(s, d, eq);
        }
    }
    save_async_waiting(s, d);
    d->async_eq = save_reference(s, &d->eqs, d->async_eq ? d->async_eq->id
                                                         : 0);
    do {
        eq = save_reference(s, &d->eqs, !s->loads && late ? late->id : 0);
        ROCE_CHECK(s, !eq || !QTAILQ_IN_USE(eq, late), "list of late EQs");
        if (s->loads && eq && !s->failed) {
            QTAILQ_INSERT_TAIL(&d->late_eqs, eq, late);
        }
        late = !s->loads && late ? QTAILQ_NEXT(late, late) : NULL;
    } while (eq && !s->failed);
}

/* The send queues that are awake, the first to sleep first, and 0. A load
 * starts their time again. */
static void save_awake(RoceStream *s, FakernicState *d)
{
    FakernicQp *next = QTAILQ_FIRST(&d->awake_sqs), *qp;

    do {
        uint32_t qpn = !s->loads && next ? next->qpn : 0;

        ROCE_FIELD(s, qpn);
        qp = s->failed ? NULL : fakernic_qp(d, qpn);
        ROCE_CHECK(s, qpn == 0 || (qp && qp->sq.pages && !qp->sq_awake),
                   "list of awake send queues");
        if (s->loads && qp && !s->failed) {
            fakernic_sq_wake(d, qp);
        }
        next = !s->loads && next ? QTAILQ_NEXT(next, awake) : NULL;
    } while (qp && !s->failed);
}

/* The CQs with users that must still fail, and 0. */
static void save_failed(RoceStream *s, FakernicState *d)
{
    FakernicCq *next = QTAILQ_FIRST(&d->failed_cqs), *cq;

    do {
        cq = save_reference(s, &d->cqs, !s->loads && next ? next->id : 0);
        ROCE_CHECK(s, !cq || (cq->error && !QTAILQ_IN_USE(cq, failed)),
                   "list of failed CQs");
        if (s->loads && cq && !s->failed) {
            QTAILQ_INSERT_TAIL(&d->failed_cqs, cq, failed);
        }
        next = !s->loads && next ? QTAILQ_NEXT(next, failed) : NULL;
    } while (cq && !s->failed);
}

static void save_page_request(RoceStream *s, FakernicPageRequest *request)
{
    ROCE_FIELD(s, request->key);
    ROCE_FIELD(s, request->write);
    ROCE_FIELD(s, request->address);
    ROCE_FIELD(s, request->last);
}

static void save_page_requests(RoceStream *s, FakernicState *d)
{
    ROCE_FIELD(s, d->page_request_count);
    ROCE_CHECK(s, d->page_request_count <= FAKERNIC_PAGE_REQUEST_LIST,
               "number of page requests");
    d->page_request_count = s->failed ? 0 : d->page_request_count;
    for (uint32_t i = 0; i < d->page_request_count; i++) {
        save_page_request(s, &d->page_requests[i]);
    }
}

/* ---- all ----------------------------------------------------------------- */

#define SAVE_TABLE(title, table, type, function) \
    { title, offsetof(FakernicState, table), sizeof(type), function }

static const FakernicSaveTable save_tables[] = {
    SAVE_TABLE("doorbell page", uar_table, FakernicUar, save_nothing),
    SAVE_TABLE("protection domain", pds, FakernicPd, save_pd),
    SAVE_TABLE("XRC domain", xrcds, FakernicXrcd, save_nothing),
    SAVE_TABLE("counter", counters, FakernicCounter, save_counter),
    SAVE_TABLE("EQ", eqs, FakernicEq, save_eq_object),
    SAVE_TABLE("CQ", cqs, FakernicCq, save_cq_object),
    SAVE_TABLE("SRQ", srqs, FakernicSrq, save_srq_object),
    SAVE_TABLE("indirection table", ind_tables, FakernicIndTable,
               save_ind_table),
};
static const FakernicSaveTable save_flows =
    SAVE_TABLE("flow rule", flow_table, FakernicFlow, save_flow);

void fakernic_save_objects(RoceStream *s, FakernicState *d)
{
    for (unsigned i = 0; i < ARRAY_SIZE(save_tables) && !s->failed; i++) {
        save_table(s, d, &save_tables[i]);
    }
    if (!s->failed) {
        save_qps(s, d);
    }
    if (!s->failed) {
        save_ind_table_users(s, d);
        save_table(s, d, &save_flows);
    }
    if (!s->failed) {
        save_flow_order(s, d);
        save_keys(s, d);
    }
    if (!s->failed) {
        save_source(s, &d->port_events, 0);
        save_source(s, &d->device_events, 0);
        save_waiting(s, d);
        save_failed(s, d);
        save_awake(s, d);
        save_page_requests(s, d);
        ROCE_FIELD(s, d->pd_generation);
        ROCE_FIELD(s, d->srq_serial);
    }
}

void fakernic_save_compare(RoceStream *s, FakernicState *d)
{
    RoceMrView view;
    RoceQpInit init;

    for (uint32_t qpn = 0; qpn < d->max_qp && !s->failed; qpn++) {
        FakernicQp *qp = d->qps[qpn];

        if (roce_qp_query_init(d->roce, qpn, &init) != (qp != NULL) ||
            (qp && (init.has_sq != (qp->sq.pages != NULL) ||
                    init.has_rq != (qp->rq.pages != NULL) ||
                    init.type != qp->type ||
                    init.srqn != (qp->srq ? qp->srq->id : 0)))) {
            roce_stream_fail(s, "queue pair %u differs in device and engine",
                             qpn);
        } else if (qp && qp->counter) {
            roce_qp_set_counters(d->roce, qpn, qp->counter->values);
        }
    }
    for (uint32_t i = 1; i < d->max_mr && !s->failed; i++) {
        if (roce_mr_view(d->roce, i, &view) != (d->keys[i].pdn != 0)) {
            roce_stream_fail(s, "key index %u differs in device and engine",
                             i);
        }
    }
}
