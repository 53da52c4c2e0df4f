/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The pages that regions with on-demand paging have at the moment: for all
 * such regions together a sparse table of chunks of 512 pages, bounded in
 * number. Over the bound a chunk is dropped: its pages are absent again and
 * fault anew, so that neither a guest nor a peer can make the table grow or
 * fail. Owners (PDs) have equal shares of it, and regions of what their owner
 * has. The chunk dropped is one of a region with more than its share, of an
 * owner with more than its, if there is one: nobody loses pages to somebody who
 * wants more than a share, be it a peer with the key of one region that spans
 * all addresses.
 *
 * A region is known here by the index of its key, a page by its address divided
 * by the region's page size.
 */
#ifndef ROCE_ODP_H
#define ROCE_ODP_H

#include <stdbool.h>
#include <stdint.h>

/* What is known of a page: its DMA address and these bits; 0: it is absent. */
#define ROCE_ODP_PRESENT  1u
#define ROCE_ODP_WRITABLE 2u
#define ROCE_ODP_REFUSED  4u    /* asked for and not to be had */
#define ROCE_ODP_BITS     0xfffu
/* Of a refused page, above the bits: how many more accesses shall be told. */
#define ROCE_ODP_REFUSAL  0x1000u

#define ROCE_ODP_CHUNK 512u     /* pages */

typedef struct RoceOdp RoceOdp;

/*
 * A share is no less: a packet may be gathered from two chunks for each SGE,
 * and finds them all there. All of a small table is anybody's.
 */
#define ROCE_ODP_SHARE_MIN 64u

/* An access that found a page absent. */
typedef struct RoceFault {
    uint32_t key;
    bool write;
    uint64_t address, length;   /* what is wanted */
    uint64_t page;              /* address of the first byte not there */
} RoceFault;

/*
 * max_chunks >= 1; owners are numbers below max_owners, regions below
 * max_regions, each of one owner. 'seed' is a secret number of this table's
 * own. NULL when out of memory.
 */
RoceOdp *roce_odp_new(uint32_t max_chunks, uint32_t max_owners,
                      uint32_t max_regions, uint64_t seed);
/* May be NULL. */
void roce_odp_free(RoceOdp *odp);
/* All pages are absent, and nobody holds any. */
void roce_odp_reset(RoceOdp *odp);

/* The entry that roce_odp_set() was told of a page; 0: it is absent. */
uint64_t roce_odp_get(RoceOdp *odp, uint32_t region, uint64_t page);
/*
 * At least this many pages from 'page' on are absent; 0: it is there. Looks at
 * one chunk: all the rest of it, when none of it is there.
 */
uint64_t roce_odp_absent(RoceOdp *odp, uint32_t region, uint64_t page);
/* Remembers a page's entry; another chunk may be dropped for that. */
void roce_odp_set(RoceOdp *odp, uint32_t region, uint32_t owner,
                  uint64_t page, uint64_t entry);
/* Makes pages absent; takes no longer for many than for all there are. */
void roce_odp_clear(RoceOdp *odp, uint32_t region, uint64_t first,
                    uint64_t count);

/* At how many entries and chunks calls have looked so far, free running. */
uint64_t roce_odp_looks(const RoceOdp *odp);

/* Keeps the newest fault for whoever is to wait for its page. */
void roce_odp_set_fault(RoceOdp *odp, const RoceFault *fault);
/* The one kept last; all zero before the first. */
const RoceFault *roce_odp_fault(const RoceOdp *odp);

#endif
