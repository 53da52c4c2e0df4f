/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a host changes during work without any visible effect: attributes of
 * queue pairs, as their states allow (IBTA 11.2.5.2), and the memory behind a
 * region (REREG, 11.2.8.6). The new translation leads to a copy of the bytes.
 */
#include <stdlib.h>
#include <string.h>

#include "sim.h"

#define CHANGES 12u                     /* per host, at most */

static void modify(SimQp *qp, uint32_t mask, const RoceQpAttr *attr)
{
    uint32_t bad = 0;
    int status = roce_qp_modify(qp->host->roce, qp->world->now, qp->qpn, mask,
                                attr, &bad);

    world_log(qp->world, qp->host->number, LOG_MODIFY, qp->qpn, attr->state,
              mask, 0, 0);
    if (status != FAKERNIC_CMD_OK) {
        world_fail(qp->world, "QP %u: modify of %x: status %d, bad field %x",
                   qp->qpn, mask, status, bad);
    }
    world_pump(qp->world, qp->host);
}

static bool answers(const SimQp *qp)
{
    return qp->type == FAKERNIC_QP_RC || qp->type == FAKERNIC_QP_XRC_TGT;
}

/* RTS to RTS: the RNR timer, and access rights, which keep their value. */
static void change_running(World *w, SimQp *qp)
{
    RoceQpAttr attr = { .state = FAKERNIC_QPS_RTS };
    uint32_t mask = FAKERNIC_QP_ATTR_ACCESS_FLAGS;

    if (roce_qp_query(qp->host->roce, qp->qpn, &attr) ||
        attr.state != FAKERNIC_QPS_RTS) {
        return;
    }
    if (answers(qp) && w->options.rnr_timer) {
        attr.min_rnr_timer = (uint8_t)rng_range(&w->rng, 1,
                                                w->options.rnr_timer);
        mask |= FAKERNIC_QP_ATTR_MIN_RNR_TIMER;
    }
    if (rng_pct(&w->rng, 50)) {
        mask |= FAKERNIC_QP_ATTR_STATE;
    }
    modify(qp, mask, &attr);
}

/* SQD to SQD, drained: timeouts and retries, READs in flight, traffic class. */
void change_drained(SimQp *qp)
{
    World *w = qp->world;
    const SimOptions *o = &w->options;
    RoceQpAttr attr = { .state = FAKERNIC_QPS_SQD, .rnr_retry =
                        (uint8_t)o->rnr_retry };
    uint32_t mask = 0;

    if (!qp->drained || !qp_is_reliable(qp) ||
        !rng_pct(&w->rng, o->change_pct)) {
        return;
    }
    if (rng_pct(&w->rng, 70)) {
        qp->rd_atomic = attr.max_rd_atomic =
            (uint8_t)rng_range(&w->rng, 1, o->rd_atomic);
        mask |= FAKERNIC_QP_ATTR_MAX_RD_ATOMIC;
    }
    if (rng_pct(&w->rng, 50)) {
        attr.timeout = (uint8_t)(o->timeout + rng_below(&w->rng, 2));
        attr.retry_cnt = (uint8_t)o->retry_cnt;
        mask |= FAKERNIC_QP_ATTR_TIMEOUT | FAKERNIC_QP_ATTR_RETRY_CNT |
                FAKERNIC_QP_ATTR_RNR_RETRY;
    }
    if (!qp->apm && rng_pct(&w->rng, 50)) {
        /* The ECN bits stay, as the count of marks depends on them. */
        qp->traffic_class = (uint8_t)(rng_below(&w->rng, 64) << 2 |
                                      (qp->traffic_class & 3));
        host_build_path(qp, qp->peer, qp->gid_index, &attr.av);
        mask |= FAKERNIC_QP_ATTR_AV;
    }
    if (mask) {
        modify(qp, mask, &attr);
    }
}

/* Moves its bytes and reports that to the engine at once. */
static void change_memory(Host *h, uint32_t roll)
{
    SimMr *mr = &h->mr[roll % h->mr_count];
    RoceMrInit init = { .type = FAKERNIC_MR_MEMORY, .pd = mr->pd,
                        .access = mr->access, .iova = mr->iova,
                        .length = mr->length, .page_shift = mr->page_shift,
                        .page_count = mr->page_count };
    uint32_t key = mr->key, mask = FAKERNIC_REREG_TRANSLATION;
    size_t size = mr->page_count * sizeof(uint64_t);
    int status;

    /* A region with a bound window may not be changed. */
    if (!mr->alive || mr->on_demand || mr->window || !mr->page_count ||
        mr->access & FAKERNIC_ACCESS_MW_BIND) {
        return;
    }
    mask |= roll & 1 << 20 ? FAKERNIC_REREG_PD : 0;
    mask |= roll & 1 << 21 ? FAKERNIC_REREG_ACCESS : 0;
    for (uint32_t i = 0; i < mr->page_count; i++) {
        mr_move_page(mr, i);
    }
    init.pages = malloc(size);
    memcpy(init.pages, mr->pages, size);
    status = roce_mr_rereg(h->roce, mask, &init, &key);
    world_log(h->world, h->number, LOG_MOVED, mr->key, 0, mr->page_count, 1,
              0);
    if (status != FAKERNIC_CMD_OK || key != mr->key) {
        free(status != FAKERNIC_CMD_OK ? init.pages : NULL);
        world_fail(h->world, "roce_mr_rereg: %d, key %08x for %08x", status,
                   key, mr->key);
    }
}

void change_event(Host *h, uint32_t roll)
{
    World *w = h->world;
    SimQp *qp = w->qp_count ? &w->qp[(roll >> 1) % w->qp_count] : NULL;

    if (roll & 1) {
        if (h->mr_count) {
            change_memory(h, roll >> 1);
        }
    } else if (qp && qp->host == h && qp->conn && qp->alive && !qp->silent) {
        change_running(w, qp);
    }
}

void change_schedule(World *w)
{
    const SimOptions *o = &w->options;
    uint32_t span = o->sends * (o->post_gap_us + 20) * 1000;

    for (uint32_t i = 0; i < o->hosts && o->change_pct; i++) {
        for (uint32_t k = rng_below(&w->rng, CHANGES); k; k--) {
            SimEvent *ev = world_schedule(w, w->now + rng_below(&w->rng,
                                          span + 1), EV_CHANGE, i);

            ev->a = (uint32_t)rng_next(&w->rng);
        }
    }
}
