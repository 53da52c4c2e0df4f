/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * See odp.h. A hash of region and chunk number finds the chunks; its chains
 * are in an array. A hand moves round the chunks to choose the one to drop.
 * The guest chooses the numbers, so the hash is keyed with a secret of the
 * host. No choice of numbers then makes chains long.
 */
#include "odp.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define ODP_NONE UINT32_MAX

typedef struct OdpChunk {
    bool used;
    uint32_t region;
    uint32_t owner;
    uint64_t number;            /* page / ROCE_ODP_CHUNK */
    uint32_t next;              /* next in the hash chain or of the unused;
                                 * ODP_NONE: none */
} OdpChunk;

typedef struct OdpOwner {
    uint32_t chunks;            /* chunks that it holds */
    uint32_t regions;           /* regions of it that hold chunks */
} OdpOwner;

struct RoceOdp {
    uint32_t max;
    uint32_t hand;              /* where the search for a chunk to drop
                                 * starts */
    uint32_t unused;            /* first unused chunk, or ODP_NONE */
    uint32_t max_owners;
    uint32_t max_regions;
    uint32_t owners;            /* owners that hold chunks */
    OdpOwner *owner;
    uint32_t *held;             /* chunks, by region */
    uint64_t looks;             /* entries and chunks examined */
    uint64_t hash[4];           /* secret multipliers */
    RoceFault fault;
    uint32_t bucket_mask;
    uint32_t *buckets;
    uint64_t *entries;          /* of all chunks; uses memory only when
                                 * touched */
    OdpChunk chunks[];
};

/* The next of a sequence of random numbers (splitmix64). */
static uint64_t odp_random(uint64_t *state)
{
    uint64_t mix = *state += 0x9e3779b97f4a7c15u;

    mix = (mix ^ mix >> 30) * 0xbf58476d1ce4e5b9u;
    mix = (mix ^ mix >> 27) * 0x94d049bb133111ebu;
    return mix ^ mix >> 31;
}

RoceOdp *roce_odp_new(uint32_t max_chunks, uint32_t max_owners,
                      uint32_t max_regions, uint64_t seed)
{
    RoceOdp *odp = calloc(1, sizeof(*odp) + max_chunks *
                                                sizeof(odp->chunks[0]));
    uint32_t buckets = 1;

    assert(max_chunks >= 1 && max_chunks <= 1u << 24);
    /* Not reached by tests, as below: out of memory. */
    if (!odp) {
        return NULL;
    }
    while (buckets < max_chunks) {
        buckets *= 2;
    }
    odp->max = max_chunks;
    odp->bucket_mask = buckets - 1;
    for (unsigned i = 0; i < sizeof(odp->hash) / sizeof(odp->hash[0]); i++) {
        odp->hash[i] = odp_random(&seed);
    }
    odp->max_owners = max_owners;
    odp->max_regions = max_regions;
    odp->owner = calloc(max_owners, sizeof(odp->owner[0]));
    odp->held = calloc(max_regions, sizeof(odp->held[0]));
    odp->buckets = malloc(buckets * sizeof(odp->buckets[0]));
    odp->entries = calloc(max_chunks, ROCE_ODP_CHUNK * sizeof(odp->entries[0]));
    if (!odp->buckets || !odp->owner || !odp->held || !odp->entries) {
        /* Not reached by tests. */
        roce_odp_free(odp);
        return NULL;
    }
    roce_odp_reset(odp);
    return odp;
}

void roce_odp_free(RoceOdp *odp)
{
    if (odp) {
        free(odp->entries);
        free(odp->owner);
        free(odp->held);
        free(odp->buckets);
        free(odp);
    }
}

void roce_odp_reset(RoceOdp *odp)
{
    memset(odp->chunks, 0, odp->max * sizeof(odp->chunks[0]));
    for (uint32_t i = 0; i < odp->max; i++) {
        odp->chunks[i].next = i + 1 < odp->max ? i + 1 : ODP_NONE;
    }
    odp->unused = 0;
    odp->owners = 0;
    memset(odp->owner, 0, odp->max_owners * sizeof(odp->owner[0]));
    memset(odp->held, 0, odp->max_regions * sizeof(odp->held[0]));
    for (uint32_t i = 0; i <= odp->bucket_mask; i++) {
        odp->buckets[i] = ODP_NONE;
    }
    odp->hand = 0;
}

/*
 * Multiply-shift hashing of three words (Dietzfelbinger, 1996): two different
 * keys share a bucket with a probability of one in the number of buckets,
 * whatever the keys are.
 */
static uint32_t *odp_bucket(RoceOdp *odp, uint32_t region, uint64_t number)
{
    uint64_t mix = odp->hash[0] + odp->hash[1] * (uint32_t)number +
                   odp->hash[2] * (uint32_t)(number >> 32) +
                   odp->hash[3] * region;

    return &odp->buckets[mix >> 32 & odp->bucket_mask];
}

static uint64_t *odp_entries(const RoceOdp *odp, const OdpChunk *chunk)
{
    return odp->entries + (size_t)(chunk - odp->chunks) * ROCE_ODP_CHUNK;
}

static OdpChunk *odp_find(RoceOdp *odp, uint32_t region, uint64_t number)
{
    uint32_t i = *odp_bucket(odp, region, number);

    while (i != ODP_NONE) {
        OdpChunk *chunk = &odp->chunks[i];

        if (chunk->region == region && chunk->number == number) {
            return chunk;
        }
        odp->looks++;
        i = chunk->next;
    }
    return NULL;
}

static void odp_drop(RoceOdp *odp, OdpChunk *chunk)
{
    uint32_t index = (uint32_t)(chunk - odp->chunks);
    uint32_t *link = odp_bucket(odp, chunk->region, chunk->number);
    OdpOwner *owner = &odp->owner[chunk->owner];

    odp->looks++;
    while (*link != index) {
        odp->looks++;
        link = &odp->chunks[*link].next;
    }
    *link = chunk->next;
    chunk->used = false;
    chunk->next = odp->unused;
    odp->unused = index;
    odp->owners -= --owner->chunks == 0;
    owner->regions -= --odp->held[chunk->region] == 0;
}

static uint32_t odp_share(uint32_t all, uint32_t among)
{
    uint32_t share = all / among;

    return share > ROCE_ODP_SHARE_MIN ? share : ROCE_ODP_SHARE_MIN;
}

/*
 * Does the chunk's region hold more than its part of this share? The chunk's
 * owner is above the share. 'region' and 'owner' request one more chunk.
 */
static bool odp_is_greedy(const RoceOdp *odp, const OdpChunk *chunk,
                          uint32_t share, uint32_t region, uint32_t owner)
{
    const bool joins = chunk->owner == owner && odp->held[region] == 0;

    return odp->held[chunk->region] + (chunk->region == region) >
           odp_share(share, odp->owner[chunk->owner].regions + joins);
}

static uint32_t odp_next(const RoceOdp *odp, uint32_t i)
{
    return i + 1 < odp->max ? i + 1 : 0;
}

/*
 * Drops a chunk of an owner and a region above their shares. Otherwise it
 * drops one of such an owner, otherwise the oldest.
 */
static void odp_make_room(RoceOdp *odp, uint32_t region, uint32_t owner)
{
    const uint32_t share = odp_share(
        odp->max, odp->owners + (odp->owner[owner].chunks == 0));
    uint32_t at = ODP_NONE, k = odp->hand;

    for (uint32_t i = 0; i < odp->max; i++, k = odp_next(odp, k)) {
        uint32_t holder = odp->chunks[k].owner;

        odp->looks++;
        if (odp->owner[holder].chunks + (holder == owner) <= share) {
            continue;
        }
        at = at == ODP_NONE ? k : at;
        if (odp_is_greedy(odp, &odp->chunks[k], share, region, owner)) {
            at = k;
            break;
        }
    }
    at = at == ODP_NONE ? odp->hand : at;
    odp->hand = odp_next(odp, at);
    odp_drop(odp, &odp->chunks[at]);
}

/* Takes a chunk with all pages absent. */
static OdpChunk *odp_take(RoceOdp *odp, uint32_t region, uint32_t owner,
                          uint64_t number)
{
    OdpChunk *chunk;
    uint32_t *bucket;

    if (odp->unused == ODP_NONE) {
        odp_make_room(odp, region, owner);
    }
    chunk = &odp->chunks[odp->unused];
    odp->unused = chunk->next;
    memset(odp_entries(odp, chunk), 0,
           ROCE_ODP_CHUNK * sizeof(odp->entries[0]));
    chunk->used = true;
    chunk->region = region;
    chunk->owner = owner;
    chunk->number = number;
    odp->owners += odp->owner[owner].chunks++ == 0;
    odp->owner[owner].regions += odp->held[region]++ == 0;
    bucket = odp_bucket(odp, region, number);
    chunk->next = *bucket;
    *bucket = (uint32_t)(chunk - odp->chunks);
    return chunk;
}

void roce_odp_set_fault(RoceOdp *odp, const RoceFault *fault)
{
    odp->fault = *fault;
}

const RoceFault *roce_odp_fault(const RoceOdp *odp)
{
    return &odp->fault;
}

uint64_t roce_odp_get(RoceOdp *odp, uint32_t region, uint64_t page)
{
    const OdpChunk *chunk = odp_find(odp, region, page / ROCE_ODP_CHUNK);

    return chunk ? odp_entries(odp, chunk)[page % ROCE_ODP_CHUNK] : 0;
}

uint64_t roce_odp_absent(RoceOdp *odp, uint32_t region, uint64_t page)
{
    const OdpChunk *chunk = odp_find(odp, region, page / ROCE_ODP_CHUNK);
    const uint32_t first = page % ROCE_ODP_CHUNK;
    const uint64_t *entries;
    uint32_t i = first;

    if (!chunk) {
        odp->looks++;
        return ROCE_ODP_CHUNK - first;
    }
    entries = odp_entries(odp, chunk);
    while (i < ROCE_ODP_CHUNK && !(entries[i] & ROCE_ODP_PRESENT)) {
        i++;
    }
    odp->looks += i - first;
    return i - first;
}

void roce_odp_set(RoceOdp *odp, uint32_t region, uint32_t owner,
                  uint64_t page, uint64_t entry)
{
    OdpChunk *chunk = odp_find(odp, region, page / ROCE_ODP_CHUNK);

    odp->looks++;
    if (!chunk) {
        chunk = odp_take(odp, region, owner, page / ROCE_ODP_CHUNK);
    }
    odp_entries(odp, chunk)[page % ROCE_ODP_CHUNK] = entry;
}

/*
 * Clears the part of a chunk in the range of pages. Drops the chunk if it is
 * wholly in the range.
 */
static void odp_clear_part(RoceOdp *odp, OdpChunk *chunk, uint64_t first,
                           uint64_t count)
{
    uint64_t *entries = odp_entries(odp, chunk);
    uint64_t start = chunk->number * ROCE_ODP_CHUNK;

    if (start >= first && start - first + (ROCE_ODP_CHUNK - 1) < count) {
        odp_drop(odp, chunk);
        return;
    }
    odp->looks += ROCE_ODP_CHUNK;
    for (uint32_t i = 0; i < ROCE_ODP_CHUNK; i++) {
        /*
         * One comparison checks both ends: pages before 'first' wrap to large
         * numbers.
         */
        if (start + i - first < count) {
            entries[i] = 0;
        }
    }
}

void roce_odp_clear(RoceOdp *odp, uint32_t region, uint64_t first,
                    uint64_t count)
{
    uint64_t chunks = count / ROCE_ODP_CHUNK + 2;
    uint64_t number = first / ROCE_ODP_CHUNK;

    odp->looks += chunks < odp->max ? chunks : odp->max;
    if (chunks > odp->max) {
        for (uint32_t i = 0; i < odp->max; i++) {
            if (odp->chunks[i].used && odp->chunks[i].region == region) {
                odp_clear_part(odp, &odp->chunks[i], first, count);
            }
        }
        return;
    }
    for (; chunks > 0; chunks--, number++) {
        OdpChunk *chunk = odp_find(odp, region, number);

        if (chunk) {
            odp_clear_part(odp, chunk, first, count);
        }
    }
}

uint64_t roce_odp_looks(const RoceOdp *odp)
{
    return odp->looks;
}

void roce_odp_set_looks(RoceOdp *odp, uint64_t looks)
{
    odp->looks = looks;
}
