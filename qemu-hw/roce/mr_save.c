/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Saves and loads the table of memory keys: regions with their page lists,
 * windows, and the order in which freed keys are used again. Pages of regions
 * with on-demand paging are absent after a load, which is allowed at any time.
 *
 * mr_access.c relies on what is checked here: every byte of a valid region or
 * window has an entry in its page list.
 */
#include "engine.h"
#include "mr_table.h"

#include <assert.h>

/* Are all bytes within these pages? */
static bool mr_save_fits(const RoceMr *mr, uint32_t page_count)
{
    const uint64_t last = mr->first_offset + (mr->length - 1);

    return mr->length > 0 && last >= mr->first_offset &&
           last >> mr->page_shift < page_count;
}

static bool mr_save_list_valid(const RoceMr *mr)
{
    const uint64_t mask = mr_page_mask(mr->page_shift);

    for (uint32_t i = 0; i < mr->page_count; i++) {
        if (mr->pages[i] & mask) {
            return false;
        }
    }
    return mr->first_offset <= mask &&
           (mr_save_fits(mr, mr->page_count) ||
            (mr->length == 0 && mr->type == FAKERNIC_MR_DM));
}

static bool mr_save_type_valid(const RoceMrTable *t, const RoceMr *mr)
{
    switch (mr->type) {
    case FAKERNIC_MR_MEMORY:
    case FAKERNIC_MR_DM:
        return mr->valid && mr->pages;
    case FAKERNIC_MR_FAST_REG:
        return mr->page_count <= mr->page_max && (!mr->valid || mr->pages);
    case FAKERNIC_MR_ON_DEMAND:
        return mr->valid && !mr->pages && mr->length > 0 && t->odp;
    case FAKERNIC_MR_DMA:
    case FAKERNIC_MR_NULL:
        return mr->valid && !mr->pages && mr->length == UINT64_MAX &&
               mr->start == 0 && mr->first_offset == 0;
    default:
        return false;
    }
}

static bool mr_save_region_valid(const RoceMrTable *t, const RoceMr *mr)
{
    const bool everything = mr->type == FAKERNIC_MR_DMA ||
                            mr->type == FAKERNIC_MR_NULL;

    return mr_save_type_valid(t, mr) &&
           (mr->pages ? mr_save_list_valid(mr) : mr->page_count == 0) &&
           (mr->length == 0 || everything ||
            mr->length - 1 <= UINT64_MAX - mr->start);
}

/* The loaded region that the window is bound to is in the table already. */
static bool mr_save_window_valid(const RoceMrTable *t, const RoceMr *mw)
{
    const RoceMr *mr = mr_by_index(t, mw->region << 8);

    if (!mr || mr->kind != ROCE_MR_REGION || !mr->valid || mr->odp ||
        mr->type == FAKERNIC_MR_NULL || mr->page_shift != mw->page_shift ||
        mw->qpn >= ROCE_QPNS || mw->length - 1 > UINT64_MAX - mw->start) {
        return false;
    }
    return mr->pages ? mr_save_fits(mw, mr->page_count)
                     : mw->length > 0 && mw->first_offset < ROCE_ADDRESS_DM &&
                           mw->length <= ROCE_ADDRESS_DM - mw->first_offset;
}

static void mr_save_region(RoceStream *s, RoceMrTable *t, RoceMr *mr)
{
    bool listed = !s->loads && mr->pages;
    uint32_t count = mr->page_count;

    ROCE_FIELD(s, mr->page_max);
    ROCE_FIELD(s, listed);
    ROCE_FIELD(s, count);
    ROCE_CHECK(s, listed == (count > 0), "page list");
    if (listed) {
        roce_stream_list(s, &mr->pages, count);
    }
    if (!s->loads || s->failed) {
        return;
    }
    mr->page_count = count;
    mr->odp = mr->type == FAKERNIC_MR_ON_DEMAND ? t->odp : NULL;
    ROCE_CHECK(s, mr_save_region_valid(t, mr), "region");
    ROCE_DERIVED(mr->windows);          /* counted by mr_save_bind() */
}

static void mr_save_window(RoceStream *s, RoceMr *mw)
{
    ROCE_FIELD(s, mw->qpn);
    ROCE_FIELD(s, mw->region);
    ROCE_CHECK(s, mw->type == FAKERNIC_MW_TYPE_1 ||
                      mw->type == FAKERNIC_MW_TYPE_2B, "type of a window");
    ROCE_DERIVED(mw->region_pages);     /* mr_save_bind() */
    ROCE_DERIVED(mw->qp_next);
    ROCE_DERIVED(mw->qp_prev);
}

static void mr_save_entry_transfer(RoceStream *s, RoceMrTable *t, RoceMr *mr)
{
    ROCE_FIELD(s, mr->kind);
    ROCE_CHECK(s, mr->kind <= ROCE_MR_WINDOW, "kind");
    if (mr->kind == ROCE_MR_FREE) {
        return;
    }
    ROCE_FIELD(s, mr->type);
    ROCE_FIELD(s, mr->page_shift);
    ROCE_FIELD(s, mr->valid);
    ROCE_FIELD(s, mr->key);
    ROCE_FIELD(s, mr->pd);
    ROCE_FIELD(s, mr->access);
    ROCE_FIELD(s, mr->start);
    ROCE_FIELD(s, mr->length);
    ROCE_FIELD(s, mr->first_offset);
    ROCE_CHECK(s, mr->page_shift <= FAKERNIC_PAGE_SHIFT_MAX &&
                      mr_index(mr->key) == (uint32_t)(mr - t->entries) &&
                      ROCE_PD_NUMBER(mr->pd) < t->max_pd, "key");
    if (mr->kind == ROCE_MR_REGION) {
        mr_save_region(s, t, mr);
    } else {
        mr_save_window(s, mr);
    }
    if (s->failed) {
        return;
    }
    t->pd_keys[ROCE_PD_NUMBER(mr->pd)] += s->loads;
    ROCE_DERIVED(mr->next_free);        /* mr_save_free() */
}

/* Binds the loaded windows to their regions. */
static void mr_save_bind(RoceStream *s, RoceMrTable *t)
{
    for (uint32_t i = t->used_end - 1; i > 0 && !s->failed; i--) {
        RoceMr *mw = &t->entries[i];

        if (mw->kind != ROCE_MR_WINDOW || !mw->valid) {
            continue;
        }
        s->number = i;
        ROCE_CHECK(s, mr_save_window_valid(t, mw), "window");
        if (s->failed) {
            /* It is not linked yet. */
            mw->valid = false;
            return;
        }
        t->entries[mw->region].windows++;
        mw->region_pages = t->entries[mw->region].pages;
        if (mw->type == FAKERNIC_MW_TYPE_2B) {
            roce_mr_link_window(t, mw);
        }
    }
}

/* The freed keys, the one freed longest ago first, and 0. */
static void mr_save_free(RoceStream *s, RoceMrTable *t)
{
    uint32_t next = t->free_first, index;

    do {
        index = next;
        ROCE_FIELD(s, index);
        ROCE_CHECK(s, index == 0 ||
                          (index < t->used_end &&
                           t->entries[index].kind == ROCE_MR_FREE &&
                           t->entries[index].next_free == 0 &&
                           index != t->free_last), "list of free keys");
        if (!s->loads) {
            next = index ? t->entries[index].next_free : 0;
        } else if (index && !s->failed) {
            *(t->free_last ? &t->entries[t->free_last].next_free
                           : &t->free_first) = index;
            t->free_last = index;
        }
    } while (index && !s->failed);
}

void roce_mr_table_transfer(RoceStream *s, RoceMrTable *t)
{
    uint64_t looks = t->odp ? roce_odp_looks(t->odp) : 0;
    uint32_t end = t->used_end;

    ROCE_DERIVED(t->ops);
    ROCE_DERIVED(t->host);
    ROCE_DERIVED(t->max);
    ROCE_DERIVED(t->max_pd);
    ROCE_DERIVED(t->retired);           /* is freed soon, here and there */
    ROCE_FIELD(s, end);
    ROCE_CHECK(s, end >= 1 && end <= t->max, "number of keys");
    s->object = "key index";
    for (uint32_t i = 1; i < end && !s->failed; i++) {
        s->number = i;
        t->used_end = i + 1;
        mr_save_entry_transfer(s, t, &t->entries[i]);
    }
    if (s->loads) {
        mr_save_bind(s, t);
    }
    ROCE_DERIVED(t->pd_keys);
    ROCE_DERIVED(t->qp_windows);
    mr_save_free(s, t);
    s->object = NULL;
    ROCE_FIELD(s, t->looks);
    ROCE_FIELD(s, looks);
    if (s->loads && t->odp) {
        roce_odp_set_looks(t->odp, looks);
    }
}
