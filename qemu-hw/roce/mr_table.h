/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The table of memory keys as the three files about them share it: mr.c makes
 * and destroys keys, mr_access.c uses them, mr_wr.c changes them by work
 * request. Everyone else knows mr.h.
 */
#ifndef ROCE_MR_TABLE_H
#define ROCE_MR_TABLE_H

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

_Static_assert(ROCE_ODP_SHARE_MIN >= 2 * FAKERNIC_SGE_MAX,
               "a packet finds all its pages in a share");

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
    RocePd pd;
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
    uint32_t qp_next, qp_prev;  /* type 2B: windows of the same QP, 0: none */
    /* free entries: the next one, 0 at the end */
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
    uint64_t *retired;          /* page lists to be freed bit by bit */
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

/* Looks an index up whatever the tag says; NULL: names nothing. */
static inline RoceMr *mr_by_index(const RoceMrTable *t, uint32_t key)
{
    uint32_t index = mr_index(key);

    /* Entries beyond used_end are zero, which is ROCE_MR_FREE. */
    if (index >= t->max || t->entries[index].kind == ROCE_MR_FREE) {
        return NULL;
    }
    return (RoceMr *)&t->entries[index];
}

/* Index and tag must be right. */
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
/* Do page_count aligned pages hold [iova, iova + length)? As above. */
int roce_mr_check_translation(uint64_t iova, uint64_t length,
                              uint8_t page_shift, uint32_t page_count,
                              const uint64_t *pages);
/* The pages change hands; mr->access is set already. */
void roce_mr_set_translation(RoceMrTable *t, RoceMr *mr, uint64_t iova,
                             uint64_t length, uint8_t page_shift,
                             uint32_t page_count, uint64_t *pages);
/* Does the region have these bytes? len >= 1. */
bool roce_mr_in_bounds(const RoceMr *mr, uint64_t address, uint64_t len);
/* Puts a window of type 2B that is being bound on its QP's list. */
void roce_mr_link_window(RoceMrTable *t, RoceMr *mw);
/* Takes a window's hold on its region away. */
void roce_mr_unbind(RoceMrTable *t, RoceMr *mw);

#endif
