/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * All objects of the device: creates their empty tables at realize and after a
 * reset, and frees the tables with their objects.
 */
#include "qemu/osdep.h"
#include "budget.h"
#include "memory.h"
#include "objects.h"
#include "queue/cq.h"
#include "queue/qp.h"
#include "queue/ring.h"
#include "state.h"

void fakernic_objects_init(FakernicState *s)
{
    fakernic_table_init(&s->eqs, 1, FAKERNIC_MAX_EQ + 1);
    fakernic_table_init(&s->cqs, 1, s->max_cq + 1);
    fakernic_table_init(&s->srqs, 1, s->max_srq + 1);
    fakernic_table_init(&s->pds, 1, s->max_pd + 1);
    fakernic_table_init(&s->xrcds, 1, FAKERNIC_MAX_XRCD + 1);
    fakernic_table_init(&s->counters, 1, FAKERNIC_MAX_COUNTER + 1);
    fakernic_table_init(&s->ind_tables, 1, FAKERNIC_MAX_IND_TABLE + 1);
    fakernic_table_init(&s->flow_table, 1, FAKERNIC_MAX_FLOW + 1);
    for (unsigned type = 0; type < ARRAY_SIZE(s->flows); type++) {
        QTAILQ_INIT(&s->flows[type]);
    }
    fakernic_table_init(&s->uar_table, 1, s->uars);
    s->qps = g_new0(FakernicQp *, s->max_qp);
    QTAILQ_INIT(&s->awake_sqs);
    QTAILQ_INIT(&s->watched_sqs);
    s->awake_sq_count = 0;
    s->keys = g_new0(FakernicKey, s->max_mr);
    s->qps_cleared = 0;
    s->copying_flows = 0;
    s->mr_pages = 0;
    fakernic_memory_reset(s);
    s->page_request_count = 0;
    s->async_eq = NULL;
    QTAILQ_INIT(&s->async_waiting);
    QTAILQ_INIT(&s->late_eqs);
    fakernic_cqs_init(s);
    memset(&s->port_events, 0, sizeof(s->port_events));
    memset(&s->device_events, 0, sizeof(s->device_events));
}

static void fakernic_release_srq(FakernicState *s, void *srq)
{
    fakernic_ring_free(s, &((FakernicSrq *)srq)->ring);
}

static void fakernic_release_cq(FakernicState *s, void *cq)
{
    fakernic_ring_free(s, &((FakernicCq *)cq)->ring);
}

static void fakernic_release_eq(FakernicState *s, void *eq)
{
    fakernic_ring_free(s, &((FakernicEq *)eq)->ring);
}

/*
 * Frees the objects of a table from the end, within the budget; calls 'release'
 * first, unless NULL. True: the table is empty.
 */
static bool fakernic_table_clear(FakernicState *s, FakernicTable *t,
                                 void (*release)(FakernicState *s, void *))
{
    while (t->next > 0) {
        void *object = fakernic_table_get(t, --t->next);

        if (!object) {
            continue;
        }
        if (release) {
            release(s, object);
        }
        g_free(object);
        t->slots[t->next] = NULL;
        if (!fakernic_spend(s, 1)) {
            return false;
        }
    }
    return true;
}

static bool fakernic_qps_clear(FakernicState *s)
{
    for (; s->qps_cleared < s->max_qp; s->qps_cleared++) {
        FakernicQp *qp = s->qps[s->qps_cleared];

        if (!qp) {
            continue;
        }
        s->qps[s->qps_cleared] = NULL;
        fakernic_qp_free(s, qp);
        if (!fakernic_spend(s, 1)) {
            return false;
        }
    }
    return true;
}

void fakernic_progress_drop(FakernicState *s, FakernicProgress *p)
{
    if (p->pages.pages) {
        fakernic_memory_give(s, p->pages.needed * sizeof(uint64_t));
    }
    fakernic_page_reader_drop(&p->pages);
    fakernic_ring_free(s, &p->ring);
    p->next = 0;
    p->waking = false;
}

bool fakernic_objects_free_some(FakernicState *s)
{
    fakernic_progress_drop(s, &s->progress);
    return fakernic_qps_clear(s) &&
           fakernic_table_clear(s, &s->srqs, fakernic_release_srq) &&
           fakernic_table_clear(s, &s->cqs, fakernic_release_cq) &&
           fakernic_table_clear(s, &s->eqs, fakernic_release_eq) &&
           fakernic_table_clear(s, &s->pds, NULL) &&
           fakernic_table_clear(s, &s->xrcds, NULL) &&
           fakernic_table_clear(s, &s->uar_table, NULL) &&
           fakernic_table_clear(s, &s->counters, NULL) &&
           fakernic_table_clear(s, &s->ind_tables, NULL) &&
           fakernic_table_clear(s, &s->flow_table, NULL);
}

void fakernic_objects_free(FakernicState *s)
{
    g_free(s->qps);
    fakernic_table_free(&s->srqs);
    fakernic_table_free(&s->cqs);
    fakernic_table_free(&s->eqs);
    fakernic_table_free(&s->pds);
    fakernic_table_free(&s->xrcds);
    fakernic_table_free(&s->uar_table);
    fakernic_table_free(&s->counters);
    fakernic_table_free(&s->ind_tables);
    fakernic_table_free(&s->flow_table);
    fakernic_cqs_free(s);
    g_free(s->keys);
}
