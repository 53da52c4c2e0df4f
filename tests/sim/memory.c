/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Guest memory: pages, regions, keys, and the DMA of an engine.
 *
 * There are three images of the same layout: the actual bytes, the bytes that
 * the model expects, and a mark for bytes that it cannot know. Regions consist
 * of pages in random order with unused pages between them, so that a byte
 * written to a wrong place is detected. A DMA outside of registered memory, or
 * beyond its rights, fails the history. Inside of [dma_fail_lo, dma_fail_hi) a
 * DMA fails on purpose.
 */
#include <stdlib.h>
#include <string.h>

#include "../bytes.h"
#include "sim.h"

#define POISON 0xdb
#define HOST_IMAGE ((size_t)SIM_BLOCKS * SIM_BLOCK)

/* Worlds reuse these images, as only one world exists at a time. */
static uint8_t *host_images[SIM_HOSTS][3];

void host_memory_open(Host *h)
{
    for (unsigned i = 0; i < 3; i++) {
        if (!host_images[h->number][i]) {
            host_images[h->number][i] = calloc(1, HOST_IMAGE);
        }
    }
    h->memory = host_images[h->number][0];
    h->expected = host_images[h->number][1];
    h->unknown = host_images[h->number][2];
}

/* ---- memory -------------------------------------------------------------- */

static uint64_t host_block_new(Host *h)
{
    uint64_t base = (uint64_t)h->block_count * SIM_BLOCK;
    uint64_t fill = h->world->seed ^ (base << 8) ^ h->number;

    if (h->block_count >= SIM_BLOCKS) {
        world_fail(h->world, "the simulator's guest memory is exhausted");
        return 0;
    }
    h->block_count++;
    for (unsigned i = 0; i < SIM_BLOCK / 8; i++) {
        fill += 0x9e3779b97f4a7c15ull;
        bytes_store64(h->memory + base + 8 * i, fill * 0xbf58476d1ce4e5b9ull);
    }
    memcpy(h->expected + base, h->memory + base, SIM_BLOCK);
    memset(h->unknown + base, 0, SIM_BLOCK);
    return base;
}

/* Opens two blocks. Every fifth page is a guard; the others are shuffled. */
static uint64_t host_small_page(Host *h)
{
    if (!h->small_page_count) {
        for (unsigned block = 0; block < 2; block++) {
            uint64_t base = host_block_new(h);

            for (unsigned i = 0; i < SIM_BLOCK / SIM_PAGE; i++) {
                if (i % 5) {
                    h->small_page[h->small_page_count++] =
                        base + i * SIM_PAGE;
                }
            }
        }
        for (uint32_t i = h->small_page_count - 1; i; i--) {
            uint32_t j = rng_below(&h->world->rng, i + 1);
            uint64_t swap = h->small_page[i];

            h->small_page[i] = h->small_page[j];
            h->small_page[j] = swap;
        }
    }
    return h->small_page[--h->small_page_count];
}

static SimMr *mr_new(Host *h, uint32_t access, RocePd pd)
{
    SimMr *mr = &h->mr[h->mr_count++];

    if (h->mr_count >= SIM_MRS) {
        world_fail(h->world, "the simulator's region table is full");
        h->mr_count--;
    }
    mr->host = h;
    mr->pd = pd;
    mr->access = access;
    mr->alive = true;
    return mr;
}

/* Registers a region with the engine, with its pages or on demand. */
static void mr_register(SimMr *mr)
{
    World *w = mr->host->world;
    RoceMrInit init = { .type = FAKERNIC_MR_MEMORY, .pd = mr->pd,
                        .access = mr->access, .length = mr->length,
                        .iova = mr->iova, .page_shift = mr->page_shift };
    int status;

    init.tag = (uint8_t)rng_next(&w->rng);
    if (mr->on_demand) {
        init.type = FAKERNIC_MR_ON_DEMAND;
        init.access |= FAKERNIC_ACCESS_ON_DEMAND;
    } else {
        init.page_count = mr->page_count;
        init.pages = malloc(mr->page_count * sizeof(uint64_t));
        memcpy(init.pages, mr->pages, mr->page_count * sizeof(uint64_t));
    }
    status = roce_mr_create(mr->host->roce, &init, &mr->key);
    if (status != FAKERNIC_CMD_OK) {
        free(init.pages);
        world_fail(w, "roce_mr_create: %d", status);
    } else if ((mr->key & 0xff) != init.tag || mr->key < 256) {
        world_fail(w, "roce_mr_create returned key %08x for tag %02x",
                   mr->key, init.tag);
    }
}

/* The region of all addresses with these rights in this PD; one per host. */
static SimMr *mr_implicit(Host *h, uint32_t access, RocePd pd)
{
    SimMr *mr;

    for (uint32_t i = 0; i < h->mr_count; i++) {
        mr = &h->mr[i];
        if (mr->on_demand && mr->length == UINT64_MAX && mr->pd == pd &&
            mr->access == access) {
            return mr;
        }
    }
    mr = mr_new(h, access, pd);
    mr->on_demand = true;
    mr->length = UINT64_MAX;
    mr->page_shift = 12;
    mr_register(mr);
    return mr;
}

static SimMr *mr_choose(Host *h, uint64_t length, uint32_t access,
                        RocePd pd, bool on_demand)
{
    World *w = h->world;
    SimMr *whole = on_demand && rng_pct(&w->rng, w->options.implicit_pct)
                   ? mr_implicit(h, access, pd) : NULL;
    SimMr *mr = mr_new(h, access, pd);

    mr->on_demand = on_demand;
    mr->implicit = whole;
    mr->length = length;
    mr->page_shift = !whole && rng_pct(&w->rng, 25) ? 16 : 12;
    mr->iova = (rng_next(&w->rng) & 0x7fffffffffffull) | 1ull << 46;
    mr->page_count = (uint32_t)(((mr->iova & ((1u << mr->page_shift) - 1)) +
                                 length - 1) >> mr->page_shift) + 1;
    mr->pages = world_alloc(w, mr->page_count * sizeof(uint64_t));
    for (uint32_t i = 0; i < mr->page_count; i++) {
        mr->pages[i] = SIM_DMA_BASE(h->number) +
                       (mr->page_shift == 16 ? host_block_new(h)
                                             : host_small_page(h));
    }
    if (whole) {
        mr->key = whole->key;
    } else {
        mr_register(mr);
    }
    if (on_demand) {
        mr->changed = world_alloc(w, mr->page_count * sizeof(uint64_t));
    } else {
        mr_rights(mr);
    }
    return mr;
}

SimMr *host_mr_new(Host *h, uint64_t length, uint32_t access, RocePd pd)
{
    /* On-demand regions cannot have windows. */
    bool on_demand = !(access & FAKERNIC_ACCESS_MW_BIND) &&
                     rng_pct(&h->world->rng, h->world->options.odp_pct);

    return mr_choose(h, length, access, pd, on_demand);
}

SimMr *host_mr_refused(Host *h, uint64_t length, uint32_t access)
{
    SimMr *mr = mr_choose(h, length, access, SIM_PD, true);

    mr->refused = true;
    return mr;
}

SimMr *host_vault_new(Host *h, uint64_t length, uint64_t iova, RocePd pd)
{
    SimMr *mr = mr_new(h, FAKERNIC_ACCESS_LOCAL_WRITE | SIM_REMOTE |
                       FAKERNIC_ACCESS_MW_BIND, pd);

    mr->length = length;
    mr->iova = iova;
    mr->page_shift = 12;
    mr->page_count = (uint32_t)(((iova & 4095) + length - 1) >> 12) + 1;
    mr->pages = world_alloc(h->world, mr->page_count * sizeof(uint64_t));
    for (uint32_t i = 0; i < mr->page_count; i++) {
        mr->pages[i] = SIM_DMA_BASE(h->number) + host_small_page(h);
    }
    mr_register(mr);
    return mr;
}

SimMr *host_fast_mr_new(Host *h, uint32_t pages)
{
    SimMr *mr = &h->mr[h->mr_count++];
    RoceMrInit init = { .type = FAKERNIC_MR_FAST_REG, .pd = SIM_PD,
                        .page_count = pages, .tag = 0x77 };
    int status = roce_mr_create(h->roce, &init, &mr->key);

    if (status != FAKERNIC_CMD_OK) {
        world_fail(h->world, "roce_mr_create of FAST_REG: %d", status);
    }
    mr->host = h;
    mr->pd = SIM_PD;
    mr->alive = true;
    return mr;
}

SimMr *host_fast_mr_next(SimMr *base, uint64_t length, uint32_t access)
{
    World *w = base->host->world;
    SimMr *mr = world_alloc(w, sizeof(*mr));

    *mr = (SimMr){ .host = base->host, .pd = SIM_PD, .page_shift = 12,
                   .length = length, .access = access };
    mr->key = (base->key & ~0xffu) | (uint8_t)rng_next(&w->rng);
    mr->iova = (rng_next(&w->rng) & 0x7fffffffffffull) | 1ull << 46;
    mr->page_count = (uint32_t)(((mr->iova & 4095) + length - 1) >> 12) + 1;
    mr->pages = world_alloc(w, mr->page_count * sizeof(uint64_t));
    for (uint32_t i = 0; i < mr->page_count; i++) {
        mr->pages[i] = SIM_DMA_BASE(base->host->number) +
                       host_small_page(base->host);
    }
    mr_rights(mr);
    return mr;
}

SimMr *host_mw_new(Host *h, uint8_t type)
{
    SimMr *mw = &h->mr[h->mr_count++];
    int status = roce_mw_create(h->roce, type, 0x42, SIM_PD, &mw->key);

    if (status != FAKERNIC_CMD_OK) {
        world_fail(h->world, "roce_mw_create: %d", status);
    }
    mw->host = h;
    mw->window = true;
    mw->pd = SIM_PD;
    mw->alive = true;
    return mw;
}

SimMr *host_mw_next(const SimMr *mw, const SimMr *mr, uint64_t offset,
                    uint64_t length, uint32_t access)
{
    SimMr *next = world_alloc(mw->host->world, sizeof(*next));
    uint64_t skip = ((mr->iova & ((1ull << mr->page_shift) - 1)) + offset) >>
                    mr->page_shift;

    *next = *mr;
    next->key = (mw->key & ~0xffu) | (uint8_t)(mw->key + 1);
    next->iova = mr->iova + offset;
    next->length = length;
    next->access = access;
    next->shadow = mr->shadow ? mr->shadow + offset : NULL;
    next->pages = mr->pages + skip;
    next->page_count = mr->page_count - (uint32_t)skip;
    return next;
}

void host_mr_destroy(SimMr *mr)
{
    int status = FAKERNIC_CMD_OK;

    mr->alive = false;
    if (mr->implicit) {
        paging_take_back(mr);
    } else if (mr->window) {
        status = roce_mw_destroy(mr->host->roce, mr->key);
    } else {
        status = roce_mr_destroy(mr->host->roce, mr->key);
    }
    if (status != FAKERNIC_CMD_OK) {
        world_fail(mr->host->world, "roce_mr_destroy: %d", status);
    }
    for (uint32_t i = 0; i < mr->page_count; i++) {
        mr_page_rights(mr, i, SIM_NO_RIGHTS);
    }
}

/* Finds the image offset of a region's byte, and the number of bytes there. */
static size_t mr_locate(const SimMr *mr, uint64_t offset, size_t *run)
{
    uint64_t size = 1ull << mr->page_shift;
    uint64_t at = (mr->iova & (size - 1)) + offset;

    *run = (size_t)(size - (at & (size - 1)));
    return (size_t)(mr->pages[at >> mr->page_shift] -
                    SIM_DMA_BASE(mr->host->number) + (at & (size - 1)));
}

void mr_get(const SimMr *mr, const uint8_t *image, uint64_t offset, void *buf,
            size_t len)
{
    uint8_t *out = buf;
    size_t run, at;

    for (; len; len -= run, offset += run, out += run) {
        at = mr_locate(mr, offset, &run);
        run = run < len ? run : len;
        memcpy(out, image + at, run);
    }
}

void mr_put(const SimMr *mr, uint8_t *image, uint64_t offset, const void *buf,
            size_t len)
{
    const uint8_t *in = buf;
    size_t run, at;

    for (; len; len -= run, offset += run, in += run) {
        at = mr_locate(mr, offset, &run);
        run = run < len ? run : len;
        memcpy(image + at, in, run);
    }
}

uint64_t mr_get64(const SimMr *mr, const uint8_t *image, uint64_t offset)
{
    uint8_t bytes[8];

    mr_get(mr, image, offset, bytes, 8);
    return bytes_load64(bytes);
}

void mr_put64(const SimMr *mr, uint8_t *image, uint64_t offset, uint64_t value)
{
    uint8_t bytes[8];

    bytes_store64(bytes, value);
    mr_put(mr, image, offset, bytes, 8);
}

void mr_fill(const SimMr *mr, uint8_t *image, uint64_t offset, uint8_t byte,
             size_t len)
{
    size_t run, at;

    for (; len; len -= run, offset += run) {
        at = mr_locate(mr, offset, &run);
        run = run < len ? run : len;
        memset(image + at, byte, run);
    }
}

void mr_page_rights(const SimMr *mr, uint32_t page, SimRights rights)
{
    uint64_t at = (mr->pages[page] - SIM_DMA_BASE(mr->host->number)) /
                  SIM_PAGE;

    memset(mr->host->rights + at, (int)rights, (1u << mr->page_shift) /
                                               SIM_PAGE);
}

SimRights mr_page_has(const SimMr *mr, uint32_t page)
{
    uint64_t at = mr->pages[page] - SIM_DMA_BASE(mr->host->number);

    return (SimRights)mr->host->rights[at / SIM_PAGE];
}

void mr_rights(const SimMr *mr)
{
    for (uint32_t i = 0; i < mr->page_count; i++) {
        mr_page_rights(mr, i, mr->access & FAKERNIC_ACCESS_LOCAL_WRITE
                              ? SIM_WRITABLE : SIM_READABLE);
    }
}

/* Returns a page that has been unused for some time, or a new one. The old page
 * retires. */
static uint64_t page_exchange(Host *h, uint64_t old, bool small)
{
    SimRetired *retired = &h->retired[!small];
    uint64_t page;

    if (retired->count == SIM_PAGE_REQUESTS) {
        page = retired->page[retired->first];
        retired->page[retired->first] = old;
        retired->first = (retired->first + 1) % SIM_PAGE_REQUESTS;
        /* Memory that fails is not reused. */
        if (SIM_DMA_BASE(h->number) + page >= h->dma_fail_hi ||
            SIM_DMA_BASE(h->number) + page + (small ? SIM_PAGE : SIM_BLOCK) <=
                h->dma_fail_lo) {
            return page;
        }
    } else {
        retired->page[retired->count++] = old;
    }
    return small ? host_small_page(h) : host_block_new(h);
}

void mr_move_page(SimMr *mr, uint32_t page)
{
    Host *h = mr->host;
    uint8_t *images[] = { h->memory, h->expected, h->unknown };
    uint64_t old = mr->pages[page] - SIM_DMA_BASE(h->number);
    uint64_t to = page_exchange(h, old, mr->page_shift == 12);

    for (unsigned i = 0; i < 3; i++) {
        memcpy(images[i] + to, images[i] + old, 1u << mr->page_shift);
        memset(images[i] + old, i < 2 ? POISON : 0, 1u << mr->page_shift);
    }
    memcpy(h->rights + to / SIM_PAGE, h->rights + old / SIM_PAGE,
           (1u << mr->page_shift) / SIM_PAGE);
    mr_page_rights(mr, page, SIM_NO_RIGHTS);
    mr->pages[page] = SIM_DMA_BASE(h->number) + to;
}

void mr_shadow(SimMr *mr)
{
    mr->shadow = world_alloc(mr->host->world, mr->length);
    mr_get(mr, mr->host->expected, 0, mr->shadow, mr->length);
}

/* ---- RoceHostOps: memory ------------------------------------------------- */

static uint8_t *host_dma(Host *h, uint64_t address, size_t len,
                         SimRights wanted)
{
    uint64_t base = SIM_DMA_BASE(h->number);
    uint64_t size = (uint64_t)h->block_count * SIM_BLOCK;

    if (len == 0 || address < base || address - base >= size ||
        len > size - (address - base)) {
        world_fail(h->world, "host %u: DMA of %zu bytes at %llx is outside "
                   "of memory", h->number, len, (unsigned long long)address);
        return NULL;
    }
    for (uint64_t at = (address - base) / SIM_PAGE;
         at <= (address - base + len - 1) / SIM_PAGE; at++) {
        if (h->rights[at] < wanted) {
            world_fail(h->world, "host %u: DMA %s %zu bytes at %llx, where it "
                       "has no right to", h->number,
                       wanted == SIM_WRITABLE ? "writes" : "reads", len,
                       (unsigned long long)address);
            return NULL;
        }
    }
    if (address < h->dma_fail_hi && address + len > h->dma_fail_lo) {
        return NULL;
    }
    return h->memory + (address - base);
}

bool host_dma_read(void *host, uint64_t address, void *buf, size_t len)
{
    uint8_t *p = host_dma(host, address, len, SIM_READABLE);

    if (p) {
        memcpy(buf, p, len);
    }
    return p != NULL;
}

bool host_dma_write(void *host, uint64_t address, const void *buf,
                    size_t len)
{
    uint8_t *p = host_dma(host, address, len, SIM_WRITABLE);

    if (p) {
        memcpy(p, buf, len);
    }
    return p != NULL;
}

/* Uses the engine's arithmetic, as a device does; program.c checks it. */
bool host_dma_atomic(void *host, uint64_t address, RoceAtomic *op)
{
    uint8_t *p = host_dma(host, address, 8, SIM_WRITABLE);

    if (!p) {
        return false;
    }
    if (address % 8) {
        world_fail(((Host *)host)->world, "unaligned atomic");
    }
    op->original = bytes_load64(p);
    bytes_store64(p, roce_atomic_result(op, op->original));
    return true;
}

bool mr_find(const SimMr *mr, uint64_t address, uint64_t *offset)
{
    uint64_t size = 1ull << mr->page_shift;

    for (uint32_t i = 0; i < mr->page_count; i++) {
        if (address - mr->pages[i] < size) {
            *offset = i * size + (address - mr->pages[i]) -
                      (mr->iova & (size - 1));
            return *offset < mr->length;
        }
    }
    return false;
}

RoceFlush host_dma_flush(void *host, const RoceFlushJob *job, uint64_t *done)
{
    Host *h = host;
    const bool slow = job->persistent && h->world->options.loss_ppm;

    for (unsigned i = 0; i < job->count; i++) {
        if (!host_dma(host, job->part[i].address, job->part[i].len,
                      SIM_READABLE)) {
            return ROCE_FLUSH_FAILED;
        }
    }
    /* The medium is slow for two of three jobs, and does one job at a time. A
     * request that arrives during a job is sent again, which is not allowed in
     * a history without faults. */
    if (slow && h->flush_ticket) {
        return ROCE_FLUSH_LATER;
    }
    if (slow && h->flushes++ % 3) {
        /* Half of the last part. */
        for (unsigned i = 0; i < job->count; i++) {
            uint64_t len = job->part[i].len;

            len -= i + 1 == job->count ? len / 2 : 0;
            model_flush(h, job->part[i].address, len, true);
            *done += len;
        }
        h->flush_qpn = job->qpn;
        h->flush_ticket = job->ticket;
        world_schedule(h->world, h->world->now + 1 + h->flushes % 64 * 1000,
                       EV_FLUSHED, h->number);
        return ROCE_FLUSH_BEGUN;
    }
    for (unsigned i = 0; i < job->count; i++) {
        model_flush(h, job->part[i].address, job->part[i].len, job->persistent);
    }
    return ROCE_FLUSH_DONE;
}
