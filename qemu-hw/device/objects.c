/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * All objects of the device together: their tables are made empty when the
 * device is realized or reset, and freed with all they hold.
 */
#include "qemu/osdep.h"
#include "objects.h"
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
    s->keys = g_new0(FakernicKey, s->max_mr);
    s->copying_flows = 0;
    s->mr_pages = 0;
    s->memory = 0;
    s->page_request_count = 0;
    s->async_eq = NULL;
    QTAILQ_INIT(&s->async_waiting);
    fakernic_cqs_init(s);
    memset(&s->port_events, 0, sizeof(s->port_events));
    memset(&s->device_events, 0, sizeof(s->device_events));
}

/* Frees what a table holds, after 'release' of each (may be NULL). */
static void fakernic_table_clear(FakernicState *s, FakernicTable *t,
                                 void (*release)(FakernicState *s, void *))
{
    for (uint32_t i = 0; i < t->size; i++) {
        void *object = fakernic_table_get(t, i);

        if (object && release) {
            release(s, object);
        }
        g_free(object);
    }
    fakernic_table_free(t);
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

void fakernic_objects_free(FakernicState *s)
{
    fakernic_progress_drop(s, &s->progress);
    for (uint32_t i = 0; i < s->max_qp; i++) {
        if (s->qps[i]) {
            fakernic_qp_free(s, s->qps[i]);
        }
    }
    g_free(s->qps);
    fakernic_table_clear(s, &s->srqs, fakernic_release_srq);
    fakernic_table_clear(s, &s->cqs, fakernic_release_cq);
    fakernic_table_clear(s, &s->eqs, fakernic_release_eq);
    fakernic_table_clear(s, &s->pds, NULL);
    fakernic_table_clear(s, &s->xrcds, NULL);
    fakernic_table_clear(s, &s->uar_table, NULL);
    fakernic_table_clear(s, &s->counters, NULL);
    fakernic_table_clear(s, &s->ind_tables, NULL);
    fakernic_table_clear(s, &s->flow_table, NULL);
    fakernic_cqs_free(s);
    g_free(s->keys);
}
