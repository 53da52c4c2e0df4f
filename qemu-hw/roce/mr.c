/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Memory keys: creation, change and destruction of regions, windows, and the
 * pages of regions with on-demand paging (IBTA 10.6, 11.2.8).
 *
 * The key's upper 24 bits index a table of entries; the last byte is a tag.
 * Entry 0 is never used. Unused indices are assigned first, then the one freed
 * longest ago, so that a stale key refers to another object as late as
 * possible.
 */
#include "mr_table.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Number of entries from which a page list is freed step by step. */
#define MR_PAGES_RETIRED 4096

/* ---- the table ---------------------------------------------------------- */

RoceMrTable *roce_mr_table_new(const RoceLimits *limits,
                               const RoceHostOps *ops, void *host)
{
    uint32_t max = limits->max_mr;
    RoceMrTable *t;

    assert(max >= 2 && (max & (max - 1)) == 0 &&
           max - 1 <= FAKERNIC_GET(FAKERNIC_KEY_INDEX, UINT32_MAX));
    t = calloc(1, sizeof(*t) + (size_t)max * sizeof(t->entries[0]));
    /* Not reached by tests, as below: out of memory. */
    if (!t) {
        return NULL;
    }
    t->ops = ops;
    t->host = host;
    t->max = max;
    t->used_end = 1;
    t->max_pd = limits->max_pd;
    t->qp_windows = calloc(ROCE_QPNS, sizeof(*t->qp_windows));
    t->pd_keys = calloc(t->max_pd, sizeof(t->pd_keys[0]));
    if (limits->max_odp_chunks > 0) {
        t->odp = roce_odp_new(limits->max_odp_chunks, limits->max_pd, max,
                              limits->hash_seed);
    }
    if (!t->qp_windows || !t->pd_keys ||
        (limits->max_odp_chunks > 0 && !t->odp)) {
        /* Not reached by tests. */
        roce_mr_table_free(t);
        return NULL;
    }
    return t;
}

/*
 * Long page lists take long to free. They wait in a list, linked through their
 * first entries, and each call of reclaim shortens them.
 */
static void mr_retire_pages(RoceMrTable *t, RoceMr *mr)
{
    if (mr->page_count < MR_PAGES_RETIRED || !mr->pages) {
        free(mr->pages);
    } else {
        mr->pages[0] = (uintptr_t)t->retired;
        mr->pages[1] = mr->page_count;
        t->retired = mr->pages;
    }
    mr->pages = NULL;
}

bool roce_mr_table_reclaim(RoceMrTable *t, uint64_t entries)
{
    while (t->retired && entries > 0) {
        uint64_t *pages = t->retired;
        uint64_t count = pages[1];
        uint64_t rest = count > entries ? count - entries : 0;

        t->retired = (uint64_t *)(uintptr_t)pages[0];
        entries -= count - rest;
        if (rest < MR_PAGES_RETIRED) {
            free(pages);
            continue;
        }
        pages[1] = rest;
        pages = realloc(pages, rest * sizeof(*pages));
        assert(pages);      /* it shrinks */
        t->retired = pages;
    }
    return t->retired == NULL;
}

bool roce_mr_table_reset_some(RoceMrTable *t, uint32_t max)
{
    for (; t->used_end > 1; t->used_end--) {
        RoceMr *mr = &t->entries[t->used_end - 1];

        if (max-- == 0) {
            return false;
        }
        mr_retire_pages(t, mr);
        memset(mr, 0, sizeof(*mr));
    }
    t->used_end = 1;
    t->free_first = 0;
    t->free_last = 0;
    memset(t->qp_windows, 0, ROCE_QPNS * sizeof(*t->qp_windows));
    memset(t->pd_keys, 0, t->max_pd * sizeof(t->pd_keys[0]));
    if (t->odp) {
        roce_odp_reset(t->odp);
    }
    return true;
}

void roce_mr_table_free(RoceMrTable *t)
{
    if (t) {
        for (uint32_t i = 1; i < t->used_end; i++) {
            free(t->entries[i].pages);
        }
        roce_mr_table_reclaim(t, UINT64_MAX);
        roce_odp_free(t->odp);
        free(t->qp_windows);
        free(t->pd_keys);
        free(t);
    }
}

/* Adds a key to the PD. */
static void mr_join_pd(RoceMrTable *t, RoceMr *mr, RocePd pd)
{
    assert(ROCE_PD_NUMBER(pd) < t->max_pd);
    mr->pd = pd;
    t->pd_keys[ROCE_PD_NUMBER(pd)]++;
}

static void mr_leave_pd(RoceMrTable *t, const RoceMr *mr)
{
    t->pd_keys[ROCE_PD_NUMBER(mr->pd)]--;
}

/* Takes a zeroed entry. NULL: all are in use. */
static RoceMr *mr_alloc(RoceMrTable *t, RoceMrKind kind, uint8_t tag,
                        RocePd pd)
{
    uint32_t index;
    RoceMr *mr;

    if (t->used_end < t->max) {
        index = t->used_end++;
    } else if (t->free_first != 0) {
        index = t->free_first;
        t->free_first = t->entries[index].next_free;
        if (t->free_first == 0) {
            t->free_last = 0;
        }
    } else {
        return NULL;
    }
    mr = &t->entries[index];
    memset(mr, 0, sizeof(*mr));
    mr->kind = (uint8_t)kind;
    mr->key = index << 8 | tag;
    mr_join_pd(t, mr, pd);
    return mr;
}

static void mr_release(RoceMrTable *t, RoceMr *mr)
{
    uint32_t index = (uint32_t)(mr - t->entries);

    if (mr->odp) {
        roce_odp_clear(mr->odp, index, 0, UINT64_MAX);
    }
    mr_leave_pd(t, mr);
    mr_retire_pages(t, mr);
    memset(mr, 0, sizeof(*mr));
    if (t->free_last != 0) {
        t->entries[t->free_last].next_free = index;
    } else {
        t->free_first = index;
    }
    t->free_last = index;
}

/* ---- registration ------------------------------------------------------- */

/* IBTA 10.6.3.1, 11.2.8.2: 0 or the command status. */
int roce_mr_check_rights(uint32_t access)
{
    if (access & FAKERNIC_ACCESS_ON_DEMAND) {
        return FAKERNIC_CMD_UNSUPPORTED;
    }
    if (access & ~(uint32_t)ACCESS_REGION) {
        return FAKERNIC_CMD_BAD_PARAM;
    }
    if ((access & ACCESS_REMOTE_CHANGE) &&
        !(access & FAKERNIC_ACCESS_LOCAL_WRITE)) {
        return FAKERNIC_CMD_BAD_PARAM;
    }
    return FAKERNIC_CMD_OK;
}

/* Do page_count pages hold [iova, iova + length)? */
static int mr_check_range(uint64_t iova, uint64_t length, uint8_t page_shift,
                          uint32_t page_count, const uint64_t *pages)
{
    uint64_t last;

    if (page_shift < FAKERNIC_PAGE_SHIFT ||
        page_shift > FAKERNIC_PAGE_SHIFT_MAX || length == 0 ||
        length - 1 > UINT64_MAX - iova) {
        return FAKERNIC_CMD_BAD_PARAM;
    }
    /* At most iova + length - 1, which does not wrap. */
    last = (iova & mr_page_mask(page_shift)) + (length - 1);
    return !pages || last >> page_shift >= page_count
               ? FAKERNIC_CMD_BAD_PAGE_LIST : FAKERNIC_CMD_OK;
}

int roce_mr_check_translation(uint64_t iova, uint64_t length,
                              uint8_t page_shift, uint32_t page_count,
                              const uint64_t *pages)
{
    int status = mr_check_range(iova, length, page_shift, page_count, pages);

    for (uint32_t i = 0; status == FAKERNIC_CMD_OK && i < page_count; i++) {
        if (pages[i] & mr_page_mask(page_shift)) {
            status = FAKERNIC_CMD_BAD_PAGE_LIST;
        }
    }
    return status;
}

/* The same for a region of 'length' bytes about to be registered. */
static int mr_check_pages(const RoceMrInit *init, uint64_t length)
{
    return (init->aligned ? mr_check_range : roce_mr_check_translation)(
        init->iova, length, init->page_shift, init->page_count, init->pages);
}

void roce_mr_set_translation(RoceMrTable *t, RoceMr *mr, uint64_t iova,
                             uint64_t length, uint8_t page_shift,
                             uint32_t page_count, uint64_t *pages)
{
    mr_retire_pages(t, mr);
    mr->pages = pages;
    mr->page_shift = page_shift;
    mr->page_count = page_count;
    mr->first_offset = iova & mr_page_mask(page_shift);
    mr->length = length;
    /* A zero-based region's first byte has address 0 (IBTA 10.6.2.4). */
    mr->start = mr->access & FAKERNIC_ACCESS_ZERO_BASED ? 0 : iova;
}

/*
 * The host supplies the pages later. The region must lie within the address
 * space.
 */
static int mr_check_on_demand(const RoceMrTable *t, const RoceMrInit *init)
{
    if (!t->odp) {
        return FAKERNIC_CMD_UNSUPPORTED;
    }
    return !(init->access & FAKERNIC_ACCESS_ON_DEMAND) ||
                   init->access & FAKERNIC_ACCESS_ZERO_BASED ||
                   init->pages || init->page_count != 0 || init->length == 0 ||
                   init->length - 1 > UINT64_MAX - init->iova ||
                   init->page_shift < FAKERNIC_PAGE_SHIFT ||
                   init->page_shift > FAKERNIC_PAGE_SHIFT_MAX
               ? FAKERNIC_CMD_BAD_PARAM : FAKERNIC_CMD_OK;
}

static int mr_check_init(const RoceMrTable *t, const RoceMrInit *init)
{
    bool on_demand = init->type == FAKERNIC_MR_ON_DEMAND;
    uint32_t access = init->access & ~(on_demand ? FAKERNIC_ACCESS_ON_DEMAND
                                                 : 0);
    int status = roce_mr_check_rights(access);

    if (status != FAKERNIC_CMD_OK) {
        return status;
    }
    switch (init->type) {
    case FAKERNIC_MR_MEMORY:
        return mr_check_pages(init, init->length);
    case FAKERNIC_MR_DM:
        /* An empty region is valid: it grants nothing. */
        return mr_check_pages(init, init->length ? init->length : 1);
    case FAKERNIC_MR_FAST_REG:
        return init->pages || init->iova != 0 || init->length != 0 ||
                       init->page_count == 0
                   ? FAKERNIC_CMD_BAD_PARAM : FAKERNIC_CMD_OK;
    case FAKERNIC_MR_DMA:
    case FAKERNIC_MR_NULL:
        return init->pages || init->iova != 0 || init->length != 0 ||
                       init->page_count != 0
                   ? FAKERNIC_CMD_BAD_PARAM : FAKERNIC_CMD_OK;
    case FAKERNIC_MR_ON_DEMAND:
        return mr_check_on_demand(t, init);
    default:
        return FAKERNIC_CMD_BAD_PARAM;
    }
}

int roce_mr_table_create(RoceMrTable *t, const RoceMrInit *init, uint32_t *key)
{
    int status = mr_check_init(t, init);
    RoceMr *mr;

    if (status != FAKERNIC_CMD_OK) {
        return status;
    }
    mr = mr_alloc(t, ROCE_MR_REGION, init->tag, init->pd);
    if (!mr) {
        return FAKERNIC_CMD_NO_RESOURCE;
    }
    mr->type = init->type;
    mr->access = init->access;
    switch (init->type) {
    case FAKERNIC_MR_MEMORY:
    case FAKERNIC_MR_DM:
        roce_mr_set_translation(t, mr, init->iova, init->length,
                                init->page_shift, init->page_count,
                                init->pages);
        mr->valid = true;
        break;
    case FAKERNIC_MR_ON_DEMAND:
        mr->odp = t->odp;
        mr->start = init->iova;
        mr->length = init->length;
        mr->page_shift = init->page_shift;
        mr->valid = true;
        break;
    case FAKERNIC_MR_FAST_REG:
        /* Not valid until a REG_MR gives it memory. */
        mr->page_max = init->page_count;
        break;
    default:
        /* All addresses; roce_mr_in_bounds() handles this type. */
        mr->length = UINT64_MAX;
        mr->valid = true;
    }
    *key = mr->key;
    return FAKERNIC_CMD_OK;
}

static int mr_check_rereg(const RoceMr *mr, uint32_t mask,
                          const RoceMrInit *init)
{
    int status = FAKERNIC_CMD_OK;

    if (!mr || mr->kind != ROCE_MR_REGION) {
        return FAKERNIC_CMD_BAD_ID;
    }
    if (mr->type != FAKERNIC_MR_MEMORY) {
        return FAKERNIC_CMD_BAD_STATE;
    }
    if (mr->windows != 0) {
        return FAKERNIC_CMD_BUSY;
    }
    if (mask == 0 || (mask & ~(uint32_t)(FAKERNIC_REREG_TRANSLATION |
                                         FAKERNIC_REREG_PD |
                                         FAKERNIC_REREG_ACCESS))) {
        return FAKERNIC_CMD_BAD_PARAM;
    }
    /* ZERO_BASED is part of the translation. */
    if ((mask & FAKERNIC_REREG_ACCESS) &&
        !(mask & FAKERNIC_REREG_TRANSLATION) &&
        ((mr->access ^ init->access) & FAKERNIC_ACCESS_ZERO_BASED)) {
        return FAKERNIC_CMD_BAD_PARAM;
    }
    if (mask & FAKERNIC_REREG_ACCESS) {
        status = roce_mr_check_rights(init->access);
    }
    if (status == FAKERNIC_CMD_OK && (mask & FAKERNIC_REREG_TRANSLATION)) {
        status = mr_check_pages(init, init->length);
    }
    return status;
}

/*
 * IBTA 11.2.8.6. The key stays the same. As for other commands only its index
 * matters: a driver cannot know which tag the last REG_MR set.
 */
int roce_mr_table_rereg(RoceMrTable *t, uint32_t mask, const RoceMrInit *init,
                        uint32_t *key)
{
    RoceMr *mr = mr_by_index(t, *key);
    int status = mr_check_rereg(mr, mask, init);

    if (status != FAKERNIC_CMD_OK) {
        return status;
    }
    if (mask & FAKERNIC_REREG_PD) {
        mr_leave_pd(t, mr);
        mr_join_pd(t, mr, init->pd);
    }
    if (mask & FAKERNIC_REREG_ACCESS) {
        mr->access = init->access;
    }
    if (mask & FAKERNIC_REREG_TRANSLATION) {
        roce_mr_set_translation(t, mr, init->iova, init->length,
                                init->page_shift, init->page_count,
                                init->pages);
    }
    *key = mr->key;
    return FAKERNIC_CMD_OK;
}

static int mr_check_update(const RoceMr *mr, const RocePageUpdate *update,
                           uint32_t from, uint32_t count)
{
    uint64_t mask = mr_page_mask(mr->page_shift);
    uint64_t first = update->address >> mr->page_shift;
    uint64_t last = (mr->start + (mr->length - 1)) >> mr->page_shift;
    bool listed = update->state == ROCE_PAGES_READABLE ||
                  update->state == ROCE_PAGES_WRITABLE;

    if (update->address & mask || update->page_count == 0 ||
        first < mr->start >> mr->page_shift || first > last ||
        update->page_count - 1 > last - first) {
        return FAKERNIC_CMD_BAD_PARAM;
    }
    if (listed && update->page_shift != mr->page_shift) {
        return FAKERNIC_CMD_BAD_PAGE_LIST;
    }
    for (uint32_t i = 0; listed && i < count; i++) {
        if (update->pages[from + i] & mask) {
            return FAKERNIC_CMD_BAD_PAGE_LIST;
        }
    }
    return FAKERNIC_CMD_OK;
}

int roce_mr_table_update(RoceMrTable *t, const RocePageUpdate *update,
                         uint32_t from, uint32_t count)
{
    RoceMr *mr;
    uint64_t first;
    int status;

    if (mr_find(t, update->key, &mr) || !mr->odp) {
        return FAKERNIC_CMD_BAD_ID;
    }
    status = mr_check_update(mr, update, from, count);
    if (status != FAKERNIC_CMD_OK) {
        return status;
    }
    first = (update->address >> mr->page_shift) + from;
    if (update->state == ROCE_PAGES_ABSENT) {
        roce_odp_clear(mr->odp, mr_index(mr->key), first, count);
        return FAKERNIC_CMD_OK;
    }
    for (uint32_t i = 0; update->state != ROCE_PAGES_REFUSED && i < count;
         i++) {
        uint64_t entry = update->pages[from + i] | ROCE_ODP_PRESENT;

        if (update->state == ROCE_PAGES_WRITABLE) {
            entry |= ROCE_ODP_WRITABLE;
        }
        roce_odp_set(mr->odp, mr_index(mr->key), ROCE_PD_NUMBER(mr->pd),
                     first + i, entry);
    }
    return FAKERNIC_CMD_OK;
}

uint64_t roce_mr_table_looks(const RoceMrTable *t)
{
    return t->looks + (t->odp ? roce_odp_looks(t->odp) : 0);
}

void roce_mr_table_refuse(RoceMrTable *t, const RoceFault *fault, bool sure)
{
    const RoceMr *mr = mr_by_index(t, fault->key);
    uint64_t page = fault->page >> mr->page_shift;
    uint64_t entry = roce_odp_get(mr->odp, mr_index(mr->key), page);

    if (!(entry & ROCE_ODP_REFUSED)) {
        entry = ROCE_ODP_REFUSED;
    } else if (sure) {
        entry += ROCE_ODP_REFUSAL;
    }
    roce_odp_set(mr->odp, mr_index(mr->key), ROCE_PD_NUMBER(mr->pd), page,
                 entry);
}

bool roce_mr_table_on_demand(const RoceMrTable *t, uint32_t key)
{
    const RoceMr *mr = mr_by_index(t, key);

    return mr && mr->odp;
}

uint8_t roce_mr_table_page_shift(const RoceMrTable *t, uint32_t key)
{
    return mr_by_index(t, key)->page_shift;
}

const RoceFault *roce_mr_fault(const RoceMrTable *t)
{
    return roce_odp_fault(t->odp);
}

static uint32_t *mr_window_link(RoceMrTable *t, const RoceMr *mw)
{
    return mw->qp_prev ? &t->entries[mw->qp_prev].qp_next
                       : &t->qp_windows[mw->qpn];
}

void roce_mr_link_window(RoceMrTable *t, RoceMr *mw)
{
    uint32_t index = mr_index(mw->key);

    assert(mw->qpn < ROCE_QPNS);
    mw->qp_prev = 0;
    mw->qp_next = t->qp_windows[mw->qpn];
    if (mw->qp_next) {
        t->entries[mw->qp_next].qp_prev = index;
    }
    t->qp_windows[mw->qpn] = index;
}

static void mr_unlink_window(RoceMrTable *t, RoceMr *mw)
{
    *mr_window_link(t, mw) = mw->qp_next;
    if (mw->qp_next) {
        t->entries[mw->qp_next].qp_prev = mw->qp_prev;
    }
    mw->qp_next = mw->qp_prev = 0;
}

void roce_mr_unbind(RoceMrTable *t, RoceMr *mw)
{
    if (mw->valid) {
        t->entries[mw->region].windows--;
        if (mw->type == FAKERNIC_MW_TYPE_2B) {
            mr_unlink_window(t, mw);
        }
        mw->valid = false;
        mw->region = 0;
        mw->region_pages = NULL;
    }
}

/* Another QP may get this number, and must not inherit the windows. */
bool roce_mr_table_qp_gone(RoceMrTable *t, uint32_t qpn, uint32_t max)
{
    while (t->qp_windows[qpn] && max-- > 0) {
        roce_mr_unbind(t, &t->entries[t->qp_windows[qpn]]);
        t->looks++;
    }
    return t->qp_windows[qpn] == 0;
}

int roce_mr_table_destroy(RoceMrTable *t, uint32_t key)
{
    RoceMr *mr = mr_by_index(t, key);

    if (!mr || mr->kind == ROCE_MR_WINDOW) {
        return FAKERNIC_CMD_BAD_ID;
    }
    if (mr->windows != 0) {
        return FAKERNIC_CMD_BUSY;
    }
    mr_release(t, mr);
    return FAKERNIC_CMD_OK;
}

int roce_mr_table_mw_destroy(RoceMrTable *t, uint32_t key)
{
    RoceMr *mw = mr_by_index(t, key);

    if (!mw || mw->kind != ROCE_MR_WINDOW) {
        return FAKERNIC_CMD_BAD_ID;
    }
    roce_mr_unbind(t, mw);
    mr_release(t, mw);
    return FAKERNIC_CMD_OK;
}

int roce_mr_table_mw_create(RoceMrTable *t, uint8_t type, uint8_t tag,
                            RocePd pd, uint32_t *key)
{
    RoceMr *mw;

    if (type != FAKERNIC_MW_TYPE_1 && type != FAKERNIC_MW_TYPE_2B) {
        return FAKERNIC_CMD_BAD_PARAM;
    }
    mw = mr_alloc(t, ROCE_MR_WINDOW, tag, pd);
    if (!mw) {
        return FAKERNIC_CMD_NO_RESOURCE;
    }
    mw->type = type;
    *key = mw->key;
    return FAKERNIC_CMD_OK;
}

bool roce_mr_table_view(const RoceMrTable *t, uint32_t index, RoceMrView *view)
{
    const RoceMr *mr;

    if (index >= t->max || t->entries[index].kind == ROCE_MR_FREE) {
        return false;
    }
    mr = &t->entries[index];
    *view = (RoceMrView) {
        .key = mr->key,
        .window = mr->kind == ROCE_MR_WINDOW,
        .type = mr->type,
        .valid = mr->valid,
        .access = mr->access,
        .start = mr->start,
        .length = mr->length,
        .windows = mr->windows,
        .qpn = mr->qpn,
    };
    return true;
}

uint32_t roce_mr_table_pd_users(const RoceMrTable *t, RocePd pd)
{
    return t->pd_keys[ROCE_PD_NUMBER(pd)];
}
