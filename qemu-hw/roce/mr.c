/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Memory keys: regions, windows, and the only way from a key and an address to
 * DMA addresses (IBTA 10.6, 10.7.2.6, 11.2.8, 11.4.1).
 *
 * A table of entries indexed by the key's upper 24 bits. Entry 0 is never used.
 * Indices not used before go first, then the one freed longest ago, so that a
 * stale key hits a foreign object as late as possible. The last byte is a tag.
 *
 * Bounds are compared as offset <= length and len <= length - offset: nothing a
 * guest or a peer chooses is added before it has been compared. No function
 * here keeps a host pointer or reads the same guest memory twice.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include "mr.h"
#include "odp.h"

#define ACCESS_REMOTE                                                   \
    (FAKERNIC_ACCESS_REMOTE_WRITE | FAKERNIC_ACCESS_REMOTE_READ |       \
     FAKERNIC_ACCESS_REMOTE_ATOMIC | FAKERNIC_ACCESS_FLUSH_GLOBAL |     \
     FAKERNIC_ACCESS_FLUSH_PERSISTENT)
/* Remote rights that change memory need the right to change it locally. */
#define ACCESS_REMOTE_CHANGE                                            \
    (FAKERNIC_ACCESS_REMOTE_WRITE | FAKERNIC_ACCESS_REMOTE_ATOMIC)
#define ACCESS_REGION                                                   \
    (ACCESS_REMOTE | FAKERNIC_ACCESS_LOCAL_WRITE |                      \
     FAKERNIC_ACCESS_MW_BIND | FAKERNIC_ACCESS_ZERO_BASED |             \
     FAKERNIC_ACCESS_HUGETLB | FAKERNIC_ACCESS_RELAXED_ORDERING)
#define ACCESS_WINDOW (ACCESS_REMOTE | FAKERNIC_ACCESS_ZERO_BASED)

typedef enum RoceMrKind {
    ROCE_MR_FREE = 0,           /* the entry names nothing */
    ROCE_MR_REGION,
    ROCE_MR_WINDOW,
} RoceMrKind;

struct RoceMr {
    uint8_t kind;               /* RoceMrKind */
    uint8_t type;               /* enum fakernic_mr_type or _mw_type */
    uint8_t page_shift;
    bool valid;                 /* registered, or bound */
    uint32_t key;
    uint32_t pdn;
    uint32_t access;
    uint64_t start;             /* address of the first byte as users name it */
    uint64_t length;
    uint64_t first_offset;      /* of the first byte in the page list */
    /* regions */
    uint64_t *pages;
    uint32_t page_count;        /* in pages; FAST_REG: of this registration */
    uint32_t page_max;          /* FAST_REG */
    uint32_t windows;           /* bound to this region */
    RoceOdp *odp;               /* ON_DEMAND: where its pages are found */
    /* windows, while bound */
    uint32_t qpn;               /* type 2B */
    uint32_t region;            /* index */
    const uint64_t *region_pages;
    /* free entries: the next one, 0 at the end */
    uint32_t next_free;
};

struct RoceMrTable {
    uint32_t max;
    uint32_t used_end;          /* entries from here on were never used */
    uint32_t free_first;        /* FIFO of used and freed entries, 0: none */
    uint32_t free_last;
    uint32_t bound_to_qps;      /* windows of type 2B */
    RoceOdp *odp;               /* NULL: no on-demand paging */
    RoceMr entries[];
};

/* ---- the table ------------------------------------------------------------- */

RoceMrTable *roce_mr_table_new(uint32_t max)
{
    RoceMrTable *t;

    assert(max >= 2 && (max & (max - 1)) == 0 &&
           max - 1 <= FAKERNIC_GET(FAKERNIC_KEY_INDEX, UINT32_MAX));
    t = calloc(1, sizeof(*t) + (size_t)max * sizeof(t->entries[0]));
    if (t) {
        t->max = max;
        t->used_end = 1;
    }
    return t;
}

void roce_mr_table_reset(RoceMrTable *t)
{
    for (uint32_t i = 1; i < t->used_end; i++) {
        free(t->entries[i].pages);
    }
    memset(t->entries, 0, (size_t)t->used_end * sizeof(t->entries[0]));
    t->used_end = 1;
    t->free_first = 0;
    t->free_last = 0;
    t->bound_to_qps = 0;
    if (t->odp) {
        roce_odp_reset(t->odp);
    }
}

bool roce_mr_table_on_demand(RoceMrTable *t, uint32_t max_chunks)
{
    t->odp = roce_odp_new(max_chunks);
    return t->odp != NULL;
}

void roce_mr_table_free(RoceMrTable *t)
{
    if (t) {
        roce_mr_table_reset(t);
        roce_odp_free(t->odp);
        free(t);
    }
}

static uint32_t mr_index(uint32_t key)
{
    return (uint32_t)FAKERNIC_GET(FAKERNIC_KEY_INDEX, key);
}

/* A zeroed entry, or NULL when all are in use. */
static RoceMr *mr_alloc(RoceMrTable *t, RoceMrKind kind, uint8_t tag)
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
    return mr;
}

static void mr_release(RoceMrTable *t, RoceMr *mr)
{
    uint32_t index = (uint32_t)(mr - t->entries);

    if (mr->odp) {
        roce_odp_clear(mr->odp, index, 0, UINT64_MAX);
    }
    free(mr->pages);
    memset(mr, 0, sizeof(*mr));
    if (t->free_last != 0) {
        t->entries[t->free_last].next_free = index;
    } else {
        t->free_first = index;
    }
    t->free_last = index;
}

/* Looks an index up whatever the tag says; NULL: names nothing. */
static RoceMr *mr_by_index(const RoceMrTable *t, uint32_t key)
{
    uint32_t index = mr_index(key);

    /* Entries beyond used_end are zero, which is ROCE_MR_FREE. */
    if (index >= t->max || t->entries[index].kind == ROCE_MR_FREE) {
        return NULL;
    }
    return (RoceMr *)&t->entries[index];
}

/* Index and tag must be right. */
static uint16_t mr_find(const RoceMrTable *t, uint32_t key, RoceMr **mr)
{
    *mr = mr_by_index(t, key);
    if (!*mr) {
        return FAKERNIC_VENDOR_KEY_INDEX;
    }
    return (*mr)->key == key ? FAKERNIC_VENDOR_NONE : FAKERNIC_VENDOR_KEY_TAG;
}

/* ---- registration ------------------------------------------------------------ */

static uint64_t mr_page_mask(uint8_t page_shift)
{
    return (1ULL << page_shift) - 1;
}

/* IBTA 10.6.3.1, 11.2.8.2: 0 or the command status. */
static int mr_check_access(uint32_t access)
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

/* Do page_count aligned pages hold [iova, iova + length)? */
static int mr_check_translation(uint64_t iova, uint64_t length,
                                uint8_t page_shift, uint32_t page_count,
                                const uint64_t *pages)
{
    uint64_t mask, last;

    if (page_shift < FAKERNIC_PAGE_SHIFT ||
        page_shift > FAKERNIC_PAGE_SHIFT_MAX || length == 0 ||
        length - 1 > UINT64_MAX - iova) {
        return FAKERNIC_CMD_BAD_PARAM;
    }
    mask = mr_page_mask(page_shift);
    /* At most iova + length - 1, which does not wrap. */
    last = (iova & mask) + (length - 1);
    if (!pages || last >> page_shift >= page_count) {
        return FAKERNIC_CMD_BAD_PAGE_LIST;
    }
    for (uint32_t i = 0; i < page_count; i++) {
        if (pages[i] & mask) {
            return FAKERNIC_CMD_BAD_PAGE_LIST;
        }
    }
    return FAKERNIC_CMD_OK;
}

/* The pages change hands; mr->access is set already. */
static void mr_set_translation(RoceMr *mr, uint64_t iova, uint64_t length,
                               uint8_t page_shift, uint32_t page_count,
                               uint64_t *pages)
{
    free(mr->pages);
    mr->pages = pages;
    mr->page_shift = page_shift;
    mr->page_count = page_count;
    mr->first_offset = iova & mr_page_mask(page_shift);
    mr->length = length;
    /* A zero-based region's first byte has address 0 (IBTA 10.6.2.4). */
    mr->start = mr->access & FAKERNIC_ACCESS_ZERO_BASED ? 0 : iova;
}

/* Pages come later; the region must lie in an address space of pages. */
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
    int status = mr_check_access(access);

    if (status != FAKERNIC_CMD_OK) {
        return status;
    }
    switch (init->type) {
    case FAKERNIC_MR_MEMORY:
        return mr_check_translation(init->iova, init->length, init->page_shift,
                                    init->page_count, init->pages);
    case FAKERNIC_MR_DM:
        /* A part of no bytes is a region as well: it grants nothing. */
        return mr_check_translation(init->iova, init->length ? init->length : 1,
                                    init->page_shift, init->page_count,
                                    init->pages);
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
    mr = mr_alloc(t, ROCE_MR_REGION, init->tag);
    if (!mr) {
        return FAKERNIC_CMD_NO_RESOURCE;
    }
    mr->type = init->type;
    mr->pdn = init->pdn;
    mr->access = init->access;
    switch (init->type) {
    case FAKERNIC_MR_MEMORY:
    case FAKERNIC_MR_DM:
        mr_set_translation(mr, init->iova, init->length, init->page_shift,
                           init->page_count, init->pages);
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
        /* In the free state until a REG_MR gives it memory. */
        mr->page_max = init->page_count;
        break;
    default:
        /* All there is; mr_in_bounds() knows. */
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
    /* Whether addresses count from 0 belongs to the translation. */
    if ((mask & FAKERNIC_REREG_ACCESS) &&
        !(mask & FAKERNIC_REREG_TRANSLATION) &&
        ((mr->access ^ init->access) & FAKERNIC_ACCESS_ZERO_BASED)) {
        return FAKERNIC_CMD_BAD_PARAM;
    }
    if (mask & FAKERNIC_REREG_ACCESS) {
        status = mr_check_access(init->access);
    }
    if (status == FAKERNIC_CMD_OK && (mask & FAKERNIC_REREG_TRANSLATION)) {
        status = mr_check_translation(init->iova, init->length,
                                      init->page_shift, init->page_count,
                                      init->pages);
    }
    return status;
}

/*
 * IBTA 11.2.8.6. The key stays the same. Like the other commands it looks at
 * the index only: a driver cannot know which tag the last REG_MR left.
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
        mr->pdn = init->pdn;
    }
    if (mask & FAKERNIC_REREG_ACCESS) {
        mr->access = init->access;
    }
    if (mask & FAKERNIC_REREG_TRANSLATION) {
        mr_set_translation(mr, init->iova, init->length, init->page_shift,
                           init->page_count, init->pages);
    }
    *key = mr->key;
    return FAKERNIC_CMD_OK;
}

static int mr_check_update(const RoceMr *mr, const RocePageUpdate *update)
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
    for (uint32_t i = 0; listed && i < update->page_count; i++) {
        if (update->pages[i] & mask) {
            return FAKERNIC_CMD_BAD_PAGE_LIST;
        }
    }
    return FAKERNIC_CMD_OK;
}

int roce_mr_table_update(RoceMrTable *t, const RocePageUpdate *update)
{
    RoceMr *mr;
    int status;

    if (mr_find(t, update->key, &mr) || !mr->odp) {
        return FAKERNIC_CMD_BAD_ID;
    }
    status = mr_check_update(mr, update);
    if (status != FAKERNIC_CMD_OK) {
        return status;
    }
    if (update->state == ROCE_PAGES_ABSENT) {
        roce_odp_clear(mr->odp, mr_index(mr->key),
                       update->address >> mr->page_shift, update->page_count);
        return FAKERNIC_CMD_OK;
    }
    for (uint32_t i = 0; i < update->page_count; i++) {
        uint64_t entry = ROCE_ODP_REFUSED;

        if (update->state != ROCE_PAGES_REFUSED) {
            entry = update->pages[i] | ROCE_ODP_PRESENT |
                    (update->state == ROCE_PAGES_WRITABLE ? ROCE_ODP_WRITABLE
                                                          : 0);
        }
        roce_odp_set(mr->odp, mr_index(mr->key),
                     (update->address >> mr->page_shift) + i, entry);
    }
    return FAKERNIC_CMD_OK;
}

/* Takes a window's hold on its region away. */
static void mr_unbind(RoceMrTable *t, RoceMr *mw)
{
    if (mw->valid) {
        t->entries[mw->region].windows--;
        t->bound_to_qps -= mw->type == FAKERNIC_MW_TYPE_2B;
        mw->valid = false;
        mw->region = 0;
        mw->region_pages = NULL;
    }
}

/* Its number may go to another QP, which is not to inherit the windows. */
void roce_mr_table_qp_gone(RoceMrTable *t, uint32_t qpn)
{
    for (uint32_t i = 1; i < t->used_end && t->bound_to_qps > 0; i++) {
        RoceMr *mw = &t->entries[i];

        if (mw->kind == ROCE_MR_WINDOW && mw->type == FAKERNIC_MW_TYPE_2B &&
            mw->valid && mw->qpn == qpn) {
            mr_unbind(t, mw);
        }
    }
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
    mr_unbind(t, mw);
    mr_release(t, mw);
    return FAKERNIC_CMD_OK;
}

int roce_mr_table_mw_create(RoceMrTable *t, uint8_t type, uint8_t tag,
                            uint32_t pdn, uint32_t *key)
{
    RoceMr *mw;

    if (type != FAKERNIC_MW_TYPE_1 && type != FAKERNIC_MW_TYPE_2B) {
        return FAKERNIC_CMD_BAD_PARAM;
    }
    mw = mr_alloc(t, ROCE_MR_WINDOW, tag);
    if (!mw) {
        return FAKERNIC_CMD_NO_RESOURCE;
    }
    mw->type = type;
    mw->pdn = pdn;
    *key = mw->key;
    return FAKERNIC_CMD_OK;
}

uint32_t roce_mr_table_pd_users(const RoceMrTable *t, uint32_t pdn)
{
    uint32_t users = 0;

    for (uint32_t i = 1; i < t->used_end; i++) {
        users += t->entries[i].kind != ROCE_MR_FREE &&
                 t->entries[i].pdn == pdn;
    }
    return users;
}

/* ---- access ------------------------------------------------------------------ */

static bool mr_is_everything(const RoceMr *mr)
{
    return mr->kind == ROCE_MR_REGION &&
           (mr->type == FAKERNIC_MR_DMA || mr->type == FAKERNIC_MR_NULL);
}

/* len >= 1. */
static bool mr_in_bounds(const RoceMr *mr, uint64_t address, uint64_t len)
{
    uint64_t offset = address - mr->start;

    if (mr_is_everything(mr)) {
        uint64_t last = mr->type == FAKERNIC_MR_DMA ? ROCE_ADDRESS_DM - 1
                                                    : UINT64_MAX;

        return address <= last && len - 1 <= last - address;
    }
    return address >= mr->start && offset <= mr->length &&
           len <= mr->length - offset;
}

uint16_t roce_mr_check_key(const RoceMrTable *t, uint32_t key, uint32_t pdn,
                           uint32_t qpn, uint32_t access, const RoceMr **mr)
{
    RoceMr *found;
    uint16_t error = mr_find(t, key, &found);

    *mr = NULL;
    if (error) {
        return error;
    }
    if (!found->valid) {
        return FAKERNIC_VENDOR_KEY_STATE;
    }
    if (found->pdn != pdn) {
        return FAKERNIC_VENDOR_KEY_PD;
    }
    if (found->kind == ROCE_MR_WINDOW) {
        /* A window's key is an R_Key: no local access (IBTA 10.6.7.1). */
        if (!(access & ACCESS_REMOTE)) {
            return FAKERNIC_VENDOR_KEY_ACCESS;
        }
        if (found->type == FAKERNIC_MW_TYPE_2B && found->qpn != qpn) {
            return FAKERNIC_VENDOR_KEY_QP;
        }
    }
    if (access & ~found->access) {
        return FAKERNIC_VENDOR_KEY_ACCESS;
    }
    *mr = found;
    return FAKERNIC_VENDOR_NONE;
}

uint16_t roce_mr_check(const RoceMrTable *t, uint32_t key, uint32_t pdn,
                       uint32_t qpn, uint64_t address, uint64_t length,
                       uint32_t access, const RoceMr **mr)
{
    uint16_t error;

    *mr = NULL;
    if (length == 0) {
        return FAKERNIC_VENDOR_NONE;
    }
    error = roce_mr_check_key(t, key, pdn, qpn, access, mr);
    if (!error && !mr_in_bounds(*mr, address, length)) {
        *mr = NULL;
        error = FAKERNIC_VENDOR_KEY_BOUNDS;
    }
    return error;
}

/* A request for more than this is made in steps. */
#define MR_AHEAD_MAX (1u << 20)

uint16_t roce_mr_reach(const RoceMr *mr, uint64_t address, uint64_t len,
                       uint64_t ahead, bool write, const RoceHostOps *ops,
                       void *host)
{
    uint64_t wanted = write ? ROCE_ODP_WRITABLE : ROCE_ODP_PRESENT;
    uint64_t left = mr->length - (address - mr->start);
    uint64_t page, last;

    if (!mr->odp || len == 0) {
        return FAKERNIC_VENDOR_NONE;
    }
    last = (address + (len - 1)) >> mr->page_shift;
    for (page = address >> mr->page_shift; page <= last; page++) {
        uint64_t entry = roce_odp_get(mr->odp, mr_index(mr->key), page);

        if (entry & wanted) {
            continue;
        }
        if (entry & ROCE_ODP_REFUSED) {
            /* Told once: another access may find that it is there by now. */
            roce_odp_set(mr->odp, mr_index(mr->key), page, 0);
            return FAKERNIC_VENDOR_KEY_DMA;
        }
        ahead = ahead > len ? ahead : len;
        ahead = ahead < MR_AHEAD_MAX ? ahead : MR_AHEAD_MAX;
        ops->page_request(host, mr->key, address, ahead < left ? ahead : left,
                          write);
        return ROCE_VENDOR_FAULT;
    }
    return FAKERNIC_VENDOR_NONE;
}

/* With on-demand paging a page at a time; false: it is not there. */
static bool mr_translate_on_demand(const RoceMr *mr, uint64_t address,
                                   size_t len, uint64_t *dma, size_t *piece)
{
    uint64_t entry = roce_odp_get(mr->odp, mr_index(mr->key),
                                  address >> mr->page_shift);
    uint64_t in_page = address & mr_page_mask(mr->page_shift);
    uint64_t there = (1ULL << mr->page_shift) - in_page;

    *dma = (entry & ~(uint64_t)ROCE_ODP_BITS) + in_page;
    *piece = there < len ? (size_t)there : len;
    return entry & ROCE_ODP_PRESENT;
}

/*
 * The DMA address of a granted address, and how many of len bytes follow it
 * without a gap: pages that happen to be neighbours are one piece.
 */
static bool mr_translate(const RoceMr *mr, uint64_t address, size_t len,
                         uint64_t *dma, size_t *piece)
{
    const uint64_t *pages = mr->kind == ROCE_MR_WINDOW ? mr->region_pages
                                                       : mr->pages;
    uint64_t offset, page_size, index, in_page, there;

    if (mr->odp) {
        return mr_translate_on_demand(mr, address, len, dma, piece);
    }
    offset = address - mr->start + mr->first_offset;
    if (!pages) {               /* the DMA region, or a window on it */
        *piece = len;
        *dma = offset;
        return true;
    }
    page_size = 1ULL << mr->page_shift;
    index = offset >> mr->page_shift;
    in_page = offset & (page_size - 1);
    there = page_size - in_page;
    for (uint64_t i = index; there < len; i++) {
        /* Granted, so there is a page i + 1. */
        if (pages[i + 1] != pages[i] + page_size) {
            break;
        }
        there += page_size;
    }
    *piece = there < len ? (size_t)there : len;
    *dma = pages[index] + in_page;
    return true;
}

static bool mr_is_null(const RoceMr *mr)
{
    return mr->kind == ROCE_MR_REGION && mr->type == FAKERNIC_MR_NULL;
}

bool roce_mr_read(const RoceMr *mr, uint64_t address, void *buf, size_t len,
                  const RoceHostOps *ops, void *host)
{
    uint8_t *to = buf;
    uint64_t dma;
    size_t piece;

    if (len != 0 && mr_is_null(mr)) {
        memset(buf, 0, len);
        return true;
    }
    for (; len != 0; len -= piece, to += piece, address += piece) {
        if (!mr_translate(mr, address, len, &dma, &piece) ||
            !ops->dma_read(host, dma, to, piece)) {
            return false;
        }
    }
    return true;
}

bool roce_mr_write(const RoceMr *mr, uint64_t address, const void *buf,
                   size_t len, const RoceHostOps *ops, void *host)
{
    const uint8_t *from = buf;
    uint64_t dma;
    size_t piece;

    if (len != 0 && mr_is_null(mr)) {
        return true;
    }
    for (; len != 0; len -= piece, from += piece, address += piece) {
        if (!mr_translate(mr, address, len, &dma, &piece) ||
            !ops->dma_write(host, dma, from, piece)) {
            return false;
        }
    }
    return true;
}

bool roce_mr_atomic(const RoceMr *mr, uint64_t address, RoceAtomic *op,
                    const RoceHostOps *ops, void *host)
{
    size_t piece;
    uint64_t dma;

    if (mr_is_null(mr)) {
        op->original = 0;
        return true;
    }
    if (!mr_translate(mr, address, 8, &dma, &piece)) {
        /* Not reached: who asks for it has found the page there. */
        return false;
    }
    /* Where addresses count from 0 an aligned one need not be so in memory,
     * and there is no atomic access across what may be two pages. */
    if (dma % 8 != 0) {
        return false;
    }
    return ops->dma_atomic(host, dma, op);
}

/* Pieces of at most this, as a length need not fit a size_t. */
#define MR_FLUSH_MAX (1u << 30)

bool roce_mr_flush(const RoceMr *mr, uint64_t address, uint64_t len,
                   bool persistent, const RoceHostOps *ops, void *host)
{
    uint64_t dma;
    size_t piece;

    if (mr_is_null(mr)) {
        return true;
    }
    for (; len != 0; len -= piece, address += piece) {
        size_t want = len < MR_FLUSH_MAX ? (size_t)len : MR_FLUSH_MAX;

        /* A page that is not there holds nothing that was written here. */
        if (mr_translate(mr, address, want, &dma, &piece) &&
            !ops->dma_flush(host, dma, piece, persistent)) {
            return false;
        }
    }
    return true;
}

/* All DMA addresses, or what may be a whole address space, are too much. */
bool roce_mr_flush_all(const RoceMr *mr, bool persistent,
                       const RoceHostOps *ops, void *host)
{
    return mr_is_null(mr) ||
           (!mr_is_everything(mr) && !mr->odp &&
            roce_mr_flush(mr, mr->start, mr->length, persistent, ops, host));
}

/* ---- scatter and gather --------------------------------------------------------- */

uint64_t roce_sge_total(const RoceSge *sge, unsigned count)
{
    uint64_t total = 0;

    for (unsigned i = 0; i < count; i++) {
        total += sge[i].length;
    }
    return total;
}

/* Exactly one of 'in' and 'out' is there. */
static uint16_t mr_sge_copy(const RoceMrTable *t, uint32_t pdn,
                            const RoceSge *sge, unsigned count, uint64_t offset,
                            uint8_t *in, const uint8_t *out, size_t len,
                            const RoceHostOps *ops, void *host)
{
    uint32_t access = out ? FAKERNIC_ACCESS_LOCAL_WRITE : 0;

    for (unsigned i = 0; len != 0; i++) {
        uint64_t there;
        const RoceMr *mr;
        uint16_t error;
        size_t piece;
        bool done;

        assert(i < count);
        if (offset >= sge[i].length) {
            offset -= sge[i].length;
            continue;
        }
        /* All of the entry, not the part at hand: a bad one fails early. */
        error = roce_mr_check(t, sge[i].lkey, pdn, 0, sge[i].address,
                              sge[i].length, access, &mr);
        if (error) {
            return error;
        }
        there = sge[i].length - offset;
        piece = there < len ? (size_t)there : len;
        error = roce_mr_reach(mr, sge[i].address + offset, piece, there,
                              out != NULL, ops, host);
        if (error) {
            return error;
        }
        done = out ? roce_mr_write(mr, sge[i].address + offset, out, piece,
                                   ops, host)
                   : roce_mr_read(mr, sge[i].address + offset, in, piece,
                                  ops, host);
        if (!done) {
            return FAKERNIC_VENDOR_KEY_DMA;
        }
        if (out) {
            out += piece;
        } else {
            in += piece;
        }
        len -= piece;
        offset = 0;
    }
    return FAKERNIC_VENDOR_NONE;
}

uint16_t roce_sge_gather(const RoceMrTable *t, uint32_t pdn,
                         const RoceSge *sge, unsigned count, uint64_t offset,
                         void *buf, size_t len, const RoceHostOps *ops,
                         void *host)
{
    return mr_sge_copy(t, pdn, sge, count, offset, buf, NULL, len, ops, host);
}

uint16_t roce_sge_scatter(const RoceMrTable *t, uint32_t pdn,
                          const RoceSge *sge, unsigned count, uint64_t offset,
                          const void *buf, size_t len, const RoceHostOps *ops,
                          void *host)
{
    return mr_sge_copy(t, pdn, sge, count, offset, NULL, buf, len, ops, host);
}

uint16_t roce_sge_check(const RoceMrTable *t, uint32_t pdn, const RoceSge *sge,
                        unsigned count, uint32_t access)
{
    for (unsigned i = 0; i < count; i++) {
        const RoceMr *mr;
        uint16_t error = roce_mr_check(t, sge[i].lkey, pdn, 0, sge[i].address,
                                       sge[i].length, access, &mr);

        if (error) {
            return error;
        }
    }
    return FAKERNIC_VENDOR_NONE;
}

/* ---- work requests on keys -------------------------------------------------------- */

/*
 * IBTA 10.6.5, 10.6.7.2.5. A region or window that is free already stays so:
 * the peer's SEND with Invalidate and the owner's LOCAL_INV may both come.
 */
uint16_t roce_mr_invalidate(RoceMrTable *t, uint32_t key, uint32_t pdn,
                            uint32_t qpn, bool remote)
{
    RoceMr *mr;
    uint16_t error = mr_find(t, key, &mr);

    if (error) {
        return error;
    }
    if (mr->pdn != pdn) {
        return FAKERNIC_VENDOR_KEY_PD;
    }
    if (mr->type != (mr->kind == ROCE_MR_WINDOW ? FAKERNIC_MW_TYPE_2B
                                                : FAKERNIC_MR_FAST_REG)) {
        return FAKERNIC_VENDOR_KEY_STATE;
    }
    if (!mr->valid) {
        return remote ? FAKERNIC_VENDOR_KEY_STATE : FAKERNIC_VENDOR_NONE;
    }
    if (mr->kind == ROCE_MR_WINDOW) {
        if (mr->qpn != qpn) {
            return FAKERNIC_VENDOR_KEY_QP;
        }
        mr_unbind(t, mr);
        return FAKERNIC_VENDOR_NONE;
    }
    /* A peer may only take back what it has been given. */
    if (remote && !(mr->access & ACCESS_REMOTE)) {
        return FAKERNIC_VENDOR_KEY_ACCESS;
    }
    if (mr->windows != 0) {
        return FAKERNIC_VENDOR_BIND;
    }
    mr->valid = false;
    return FAKERNIC_VENDOR_NONE;
}

static uint16_t mr_check_fast_reg(const RoceMr *mr, uint32_t pdn,
                                  const RoceSendWr *wr)
{
    if (mr->kind != ROCE_MR_REGION || mr->type != FAKERNIC_MR_FAST_REG ||
        mr->valid) {
        return FAKERNIC_VENDOR_KEY_STATE;
    }
    if (mr->pdn != pdn) {
        return FAKERNIC_VENDOR_KEY_PD;
    }
    if (mr_check_access(wr->reg_mr.access) != FAKERNIC_CMD_OK) {
        return FAKERNIC_VENDOR_KEY_ACCESS;
    }
    if (wr->reg_mr.page_count > mr->page_max ||
        mr_check_translation(wr->reg_mr.iova, wr->reg_mr.length,
                             wr->reg_mr.page_shift, wr->reg_mr.page_count,
                             wr->reg_mr.pages) != FAKERNIC_CMD_OK) {
        return FAKERNIC_VENDOR_KEY_BOUNDS;
    }
    return FAKERNIC_VENDOR_NONE;
}

/* IBTA 10.6.4.3, 11.4.1: the index stays, the tag is the consumer's choice. */
uint16_t roce_mr_fast_reg(RoceMrTable *t, uint32_t pdn, RoceSendWr *wr)
{
    uint64_t *pages = wr->reg_mr.pages;
    RoceMr *mr = mr_by_index(t, wr->reg_mr.key);
    uint16_t error = mr ? mr_check_fast_reg(mr, pdn, wr)
                        : FAKERNIC_VENDOR_KEY_INDEX;

    wr->reg_mr.pages = NULL;
    if (error) {
        free(pages);
        return error;
    }
    mr->key = wr->reg_mr.key;
    mr->access = wr->reg_mr.access;
    mr_set_translation(mr, wr->reg_mr.iova, wr->reg_mr.length,
                       wr->reg_mr.page_shift, wr->reg_mr.page_count, pages);
    mr->valid = true;
    return FAKERNIC_VENDOR_NONE;
}

/* IBTA 10.6.7.2: what both kinds of window ask of the key change. */
static uint16_t mr_check_window(const RoceMr *mw, uint32_t pdn,
                                const RoceSendWr *wr)
{
    uint32_t new_key = wr->bind_mw.new_key;
    uint32_t access = wr->bind_mw.access;

    if (mw->kind != ROCE_MR_WINDOW) {
        return FAKERNIC_VENDOR_KEY_STATE;
    }
    if (mw->pdn != pdn) {
        return FAKERNIC_VENDOR_KEY_PD;
    }
    if (mr_index(new_key) != mr_index(mw->key) ||
        (access & ~(uint32_t)ACCESS_WINDOW)) {
        return FAKERNIC_VENDOR_BIND;
    }
    if (mw->type == FAKERNIC_MW_TYPE_1) {
        /* The device chooses the next key; zero-based is for type 2. */
        return (new_key & 0xff) != ((mw->key + 1) & 0xff) ||
               (access & FAKERNIC_ACCESS_ZERO_BASED)
                   ? FAKERNIC_VENDOR_BIND : FAKERNIC_VENDOR_NONE;
    }
    /* Type 2: bound only from the free state, unbound only by invalidation. */
    return mw->valid || wr->bind_mw.length == 0 ? FAKERNIC_VENDOR_BIND
                                                : FAKERNIC_VENDOR_NONE;
}

/* IBTA C10-73 to C10-75: may a window be laid on this region? */
static uint16_t mr_check_window_region(const RoceMr *mr, uint32_t pdn,
                                       const RoceSendWr *wr)
{
    uint32_t access = wr->bind_mw.access;

    if (mr->kind != ROCE_MR_REGION || !mr->valid) {
        return FAKERNIC_VENDOR_KEY_STATE;
    }
    if (mr->pdn != pdn) {
        return FAKERNIC_VENDOR_KEY_PD;
    }
    if (!(mr->access & FAKERNIC_ACCESS_MW_BIND) ||
        ((access & ACCESS_REMOTE_CHANGE) &&
         !(mr->access & FAKERNIC_ACCESS_LOCAL_WRITE))) {
        return FAKERNIC_VENDOR_KEY_ACCESS;
    }
    if (mr->type == FAKERNIC_MR_NULL || mr->odp ||
        (mr->access & FAKERNIC_ACCESS_ZERO_BASED)) {
        return FAKERNIC_VENDOR_BIND;
    }
    return mr_in_bounds(mr, wr->bind_mw.address, wr->bind_mw.length)
               ? FAKERNIC_VENDOR_NONE : FAKERNIC_VENDOR_KEY_BOUNDS;
}

static void mr_bind(RoceMrTable *t, RoceMr *mw, RoceMr *mr, uint32_t qpn,
                    const RoceSendWr *wr)
{
    mw->access = wr->bind_mw.access;
    mw->start = mw->access & FAKERNIC_ACCESS_ZERO_BASED ? 0
                                                        : wr->bind_mw.address;
    mw->length = wr->bind_mw.length;
    mw->first_offset = wr->bind_mw.address - mr->start + mr->first_offset;
    mw->page_shift = mr->page_shift;
    mw->region = mr_index(mr->key);
    mw->region_pages = mr->pages;
    mw->qpn = qpn;
    mw->valid = true;
    mr->windows++;
    t->bound_to_qps += mw->type == FAKERNIC_MW_TYPE_2B;
}

uint16_t roce_mr_bind_mw(RoceMrTable *t, uint32_t pdn, uint32_t qpn,
                         const RoceSendWr *wr)
{
    RoceMr *mw, *mr = NULL;
    uint16_t error = mr_find(t, wr->bind_mw.mw_key, &mw);

    if (!error) {
        error = mr_check_window(mw, pdn, wr);
    }
    if (!error && wr->bind_mw.length != 0) {
        error = mr_find(t, wr->bind_mw.mr_key, &mr);
        if (!error) {
            error = mr_check_window_region(mr, pdn, wr);
        }
    }
    if (error) {
        return error;
    }
    mr_unbind(t, mw);
    mw->key = wr->bind_mw.new_key;
    if (mr) {
        mr_bind(t, mw, mr, qpn, wr);
    }
    return FAKERNIC_VENDOR_NONE;
}
