/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The pages that regions with on-demand paging currently have. One sparse
 * table holds chunks of 512 pages for all such regions, and is bounded. At the
 * bound a chunk is dropped: its pages are absent and fault again. So neither a
 * guest nor a peer can make the table grow or fail.
 *
 * Owners (PDs) have equal shares of the table, and an owner's regions have
 * equal shares of the owner's. The dropped chunk belongs to an owner and a
 * region above their shares, if there is one. So an owner within its share
 * loses no pages to one that wants more, even if a peer holds the key of a
 * region that spans all addresses.
 *
 * The region is identified by its key's index, and a page by its address
 * divided by the region's page size.
 */
#ifndef ROCE_ODP_H
#define ROCE_ODP_H

#include <stdbool.h>
#include <stdint.h>

/* A page's entry: its DMA address and these bits; 0: absent. */
#define ROCE_ODP_PRESENT  1u
#define ROCE_ODP_WRITABLE 2u
#define ROCE_ODP_REFUSED  4u    /* requested, and refused by the host */
#define ROCE_ODP_BITS     0xfffu
/* Refused page, above the bits: number of further accesses that fail. */
#define ROCE_ODP_REFUSAL  0x1000u

#define ROCE_ODP_CHUNK 512u     /* pages */

typedef struct RoceOdp RoceOdp;

/*
 * The smallest share. A packet may use two chunks for each SGE, and must find
 * all of them present. In a small table chunks go to any owner.
 */
#define ROCE_ODP_SHARE_MIN 64u

/* An access that found a page absent. */
typedef struct RoceFault {
    uint32_t key;
    bool write;
    uint64_t address, length;   /* the wanted range */
    uint64_t page;              /* address of the first absent byte */
} RoceFault;

/*
 * Allocates a table; max_chunks >= 1. Owners are numbers below max_owners,
 * regions below max_regions; each region has one owner. 'seed' is a secret
 * number of this table. NULL: out of memory.
 */
RoceOdp *roce_odp_new(uint32_t max_chunks, uint32_t max_owners,
                      uint32_t max_regions, uint64_t seed);
/* May be NULL. */
void roce_odp_free(RoceOdp *odp);
/* Makes all pages absent and releases all chunks. */
void roce_odp_reset(RoceOdp *odp);

/* The entry that roce_odp_set() stored for a page; 0: it is absent. */
uint64_t roce_odp_get(RoceOdp *odp, uint32_t region, uint64_t page);
/*
 * The number of consecutive absent pages from 'page' on; 0: it is present.
 * Looks at one chunk only, so there may be more.
 */
uint64_t roce_odp_absent(RoceOdp *odp, uint32_t region, uint64_t page);
/* Stores a page's entry. Another chunk may be dropped for it. */
void roce_odp_set(RoceOdp *odp, uint32_t region, uint32_t owner,
                  uint64_t page, uint64_t entry);
/* Makes pages absent. The cost is bounded by the size of the table. */
void roce_odp_clear(RoceOdp *odp, uint32_t region, uint64_t first,
                    uint64_t count);

/* Number of entries and chunks examined so far, free running. */
uint64_t roce_odp_looks(const RoceOdp *odp);
/* Continues to count from this number. */
void roce_odp_set_looks(RoceOdp *odp, uint64_t looks);

/* Stores the latest fault, for the QP that will wait for its page. */
void roce_odp_set_fault(RoceOdp *odp, const RoceFault *fault);
/* The latest fault; all zero before the first. */
const RoceFault *roce_odp_fault(const RoceOdp *odp);

#endif
