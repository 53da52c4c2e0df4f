/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Objects by number, and the kinds that are little more than a number:
 * protection domains, XRC domains and doorbell pages. All lookups by a number
 * that the guest supplies are here.
 */
#include "qemu/osdep.h"
#include "state.h"
#include "table.h"

void fakernic_table_init(FakernicTable *t, uint32_t first, uint32_t size)
{
    *t = (FakernicTable) {
        .slots = g_new0(void *, size),
        .freed = g_new(uint32_t, size),
        .first = first,
        .size = size,
        .next = first,
    };
}

void fakernic_table_free(FakernicTable *t)
{
    g_free(t->slots);
    g_free(t->freed);
    t->slots = NULL;
    t->freed = NULL;
}

bool fakernic_table_is_full(const FakernicTable *t)
{
    return t->next == t->size && !t->freed_count;
}

uint32_t fakernic_table_add(FakernicTable *t, void *object)
{
    uint32_t id;

    assert(!fakernic_table_is_full(t));
    if (t->next < t->size) {
        id = t->next++;
    } else {
        id = t->freed[t->freed_head];
        t->freed_head = (t->freed_head + 1) % t->size;
        t->freed_count--;
    }
    t->slots[id] = object;
    return id;
}

void *fakernic_table_get(const FakernicTable *t, uint32_t id)
{
    return id < t->size ? t->slots[id] : NULL;
}

void fakernic_table_remove(FakernicTable *t, uint32_t id)
{
    assert(fakernic_table_get(t, id));
    t->slots[id] = NULL;
    t->freed[(t->freed_head + t->freed_count++) % t->size] = id;
}

FakernicPd *fakernic_pd(FakernicState *s, uint32_t pdn)
{
    return fakernic_table_get(&s->pds, pdn);
}

RocePd fakernic_pd_handle(FakernicState *s, uint32_t pdn)
{
    const FakernicPd *pd = fakernic_pd(s, pdn);

    return pd ? pd->handle : 0;
}

FakernicXrcd *fakernic_xrcd(FakernicState *s, uint32_t xrcdn)
{
    return fakernic_table_get(&s->xrcds, xrcdn);
}

FakernicQp *fakernic_qp_or_wq(FakernicState *s, uint32_t number)
{
    return number < s->max_qp ? s->qps[number] : NULL;
}

FakernicQp *fakernic_qp(FakernicState *s, uint32_t qpn)
{
    FakernicQp *qp = fakernic_qp_or_wq(s, qpn);

    return qp && !qp->is_wq ? qp : NULL;
}

FakernicQp *fakernic_wq(FakernicState *s, uint32_t wqn)
{
    FakernicQp *wq = fakernic_qp_or_wq(s, wqn);

    return wq && wq->is_wq ? wq : NULL;
}

uint8_t fakernic_cq_check(FakernicState *s, uint32_t cqn)
{
    const FakernicCq *cq = fakernic_table_get(&s->cqs, cqn);

    if (!cq) {
        return FAKERNIC_CMD_BAD_ID;
    }
    return cq->error ? FAKERNIC_CMD_BAD_STATE : FAKERNIC_CMD_OK;
}

/* Page 0 belongs to the kernel driver and always exists. */
bool fakernic_uar_exists(FakernicState *s, uint32_t uar)
{
    return uar == 0 || fakernic_table_get(&s->uar_table, uar);
}

void fakernic_uar_use(FakernicState *s, uint32_t uar, int users)
{
    if (uar) {
        FakernicUar *page = fakernic_table_get(&s->uar_table, uar);

        page->users += users;
    }
}
