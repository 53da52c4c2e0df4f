/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The table of memory keys, which three files share: mr.c creates and destroys
 * keys, mr_access.c uses them, and mr_wr.c changes them by work request. Other
 * files include mr.h.
 */
#ifndef ROCE_MR_TABLE_H
#define ROCE_MR_TABLE_H

#include "mr.h"
#include "odp.h"

#define ACCESS_REMOTE                                                   \
    (FAKERNIC_ACCESS_REMOTE_WRITE | FAKERNIC_ACCESS_REMOTE_READ |       \
     FAKERNIC_ACCESS_REMOTE_ATOMIC | FAKERNIC_ACCESS_FLUSH_GLOBAL |     \
     FAKERNIC_ACCESS_FLUSH_PERSISTENT)
/* Remote rights to change memory require the local right to change it. */
#define ACCESS_REMOTE_CHANGE                                            \
    (FAKERNIC_ACCESS_REMOTE_WRITE | FAKERNIC_ACCESS_REMOTE_ATOMIC)
#define ACCESS_REGION                                                   \
    (ACCESS_REMOTE | FAKERNIC_ACCESS_LOCAL_WRITE |                      \
     FAKERNIC_ACCESS_MW_BIND | FAKERNIC_ACCESS_ZERO_BASED |             \
     FAKERNIC_ACCESS_HUGETLB | FAKERNIC_ACCESS_RELAXED_ORDERING)
#define ACCESS_WINDOW (ACCESS_REMOTE | FAKERNIC_ACCESS_ZERO_BASED)

_Static_assert(ROCE_ODP_SHARE_MIN >= 2 * FAKERNIC_SGE_MAX,
               "a packet finds all its pages in a share");

typedef enum RoceMrKind {
    ROCE_MR_FREE = 0,           /* the entry is unused */
    ROCE_MR_REGION,
    ROCE_MR_WINDOW,
} RoceMrKind;

struct RoceMr {
    uint8_t kind;               /* RoceMrKind */
    uint8_t type;               /* enum fakernic_mr_type or _mw_type */
    uint8_t page_shift;
    bool valid;                 /* registered, or bound */
    uint32_t key;
    RocePd pd;
    uint32_t access;
    uint64_t start;             /* address of the first byte, as users see it */
    uint64_t length;
    uint64_t first_offset;      /* offset of the first byte in the page list */
    /* regions */
    uint64_t *pages;
    uint32_t page_count;        /* entries of pages; FAST_REG: of the current
                                 * registration */
    uint32_t page_max;          /* FAST_REG */
    uint32_t windows;           /* windows bound to this region */
    RoceOdp *odp;               /* ON_DEMAND: the table of its pages */
    /* windows, while bound */
    uint32_t qpn;               /* type 2B */
    uint32_t region;            /* index */
    const uint64_t *region_pages;
    uint32_t qp_next, qp_prev;  /* type 2B: windows of the same QP, 0: none */
    /* free entries: the next one; 0: none */
    uint32_t next_free;
};

struct RoceMrTable {
    const RoceHostOps *ops;
    void *host;
    uint32_t max;
    uint32_t used_end;          /* entries from here on were never used */
    uint32_t free_first;        /* FIFO of used and freed entries, 0: none */
    uint32_t free_last;
    uint32_t *qp_windows;       /* by QPN: the first of type 2B, 0: none */
    uint64_t *retired;          /* page lists that are freed step by step */
    RoceOdp *odp;               /* NULL: no on-demand paging */
    uint32_t max_pd;
    uint32_t *pd_keys;          /* by PD number */
    uint64_t looks;             /* see roce_mr_table_looks() */
    RoceMr entries[];
};

static inline uint32_t mr_index(uint32_t key)
{
    return (uint32_t)FAKERNIC_GET(FAKERNIC_KEY_INDEX, key);
}

static inline uint64_t mr_page_mask(uint8_t page_shift)
{
    return (1ULL << page_shift) - 1;
}

/* Looks up an index with any tag. NULL: the entry is unused. */
static inline RoceMr *mr_by_index(const RoceMrTable *t, uint32_t key)
{
    uint32_t index = mr_index(key);

    /* Entries beyond used_end are zero, which is ROCE_MR_FREE. */
    if (index >= t->max || t->entries[index].kind == ROCE_MR_FREE) {
        return NULL;
    }
    return (RoceMr *)&t->entries[index];
}

/* Looks up a key; index and tag must match. */
static inline uint16_t mr_find(const RoceMrTable *t, uint32_t key, RoceMr **mr)
{
    *mr = mr_by_index(t, key);
    if (!*mr) {
        return FAKERNIC_VENDOR_KEY_INDEX;
    }
    return (*mr)->key == key ? FAKERNIC_VENDOR_NONE : FAKERNIC_VENDOR_KEY_TAG;
}

/* IBTA 10.6.3.1, 11.2.8.2: 0 or the command status. */
int roce_mr_check_rights(uint32_t access);
/*
 * Do page_count aligned pages hold [iova, iova + length)? Returns 0 or the
 * command status.
 */
int roce_mr_check_translation(uint64_t iova, uint64_t length,
                              uint8_t page_shift, uint32_t page_count,
                              const uint64_t *pages);
/*
 * Gives the region its pages, which it then owns. mr->access must be set
 * already.
 */
void roce_mr_set_translation(RoceMrTable *t, RoceMr *mr, uint64_t iova,
                             uint64_t length, uint8_t page_shift,
                             uint32_t page_count, uint64_t *pages);
/* Does the region contain these bytes? len >= 1. */
bool roce_mr_in_bounds(const RoceMr *mr, uint64_t address, uint64_t len);
/* Adds a window of type 2B that is being bound to its QP's list. */
void roce_mr_link_window(RoceMrTable *t, RoceMr *mw);
/* Unbinds a window from its region. */
void roce_mr_unbind(RoceMrTable *t, RoceMr *mw);

#endif
