/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * On-demand paging by a host. It answers page requests at any time, at once or
 * in parts, supplies more pages than requested, takes pages back, moves them,
 * makes them read-only, and refuses pages that it does not have.
 *
 * The bytes of an absent page stay at SimMr.pages, where the oracle finds them.
 * The engine must not access them: memory.c fails every DMA to a page that is
 * absent for the engine at that moment. A page that moves is overwritten at its
 * old place.
 */
#include "sim.h"

#define ANSWER_PAGES 300u               /* of a request of 1 MiB at least */
#define REQUEST_MAX (1u << 20)
#define CHURN_PAGES 16u                 /* at most, moved at once */

static uint64_t page_size(const SimMr *mr)
{
    return 1ull << mr->page_shift;
}

/* The address of a region's first page. */
static uint64_t first_page(const SimMr *mr)
{
    return mr->iova & ~(page_size(mr) - 1);
}

/* The region with this key, or the implicit one. */
static SimMr *find_region(Host *h, uint32_t key)
{
    for (uint32_t i = 0; i < h->mr_count; i++) {
        SimMr *mr = &h->mr[i];

        if (mr->on_demand && !mr->implicit && mr->alive && mr->key == key) {
            return mr;
        }
    }
    return NULL;
}

/* The region and page of an address under a key. NULL: there is none. */
static SimMr *find_page(Host *h, uint32_t key, uint64_t address,
                        uint32_t *page)
{
    for (uint32_t i = 0; i < h->mr_count; i++) {
        SimMr *mr = &h->mr[i];

        if (mr->on_demand && mr->alive && mr->key == key &&
            address - first_page(mr) < mr->page_count * page_size(mr)) {
            *page = (uint32_t)((address - first_page(mr)) >> mr->page_shift);
            return mr;
        }
    }
    return NULL;
}

/* ---- reports to the engine ----------------------------------------------- */

static void update(Host *h, RocePageUpdate *u)
{
    int status = roce_mr_update_pages(h->roce, u);

    world_log(h->world, h->number, LOG_PAGES, u->key,
              (uint32_t)(u->address >> 12), u->page_count, (uint8_t)u->state,
              0);
    if (status != FAKERNIC_CMD_OK) {
        world_fail(h->world, "roce_mr_update_pages: %d", status);
    }
}

static void set_rights(SimMr *mr, uint32_t page, SimRights rights)
{
    if ((rights != SIM_NO_RIGHTS) !=
        (mr_page_has(mr, page) != SIM_NO_RIGHTS)) {
        mr->changed[page] = ++mr->host->page_changes;
    }
    mr_page_rights(mr, page, rights);
}

/* Called after the engine's answer, as it may use the pages until then. */
static void take_back(SimMr *mr, uint32_t first, uint32_t count)
{
    RocePageUpdate u = { .key = mr->key, .state = ROCE_PAGES_ABSENT,
                         .address = first_page(mr) +
                                    ((uint64_t)first << mr->page_shift),
                         .page_count = count };

    if (mr->implicit ? !mr->implicit->alive : !mr->alive) {
        return;
    }
    update(mr->host, &u);
    for (uint32_t i = first; i < first + count; i++) {
        set_rights(mr, i, SIM_NO_RIGHTS);
    }
}

void paging_take_back(SimMr *mr)
{
    take_back(mr, 0, mr->page_count);
}

void paging_refuse(SimMr *mr)
{
    mr->refused = true;
    take_back(mr, 0, mr->page_count);
}

static void move(SimMr *mr, uint32_t first, uint32_t count)
{
    world_log(mr->host->world, mr->host->number, LOG_MOVED, mr->key, first,
              count, 0, 0);
    for (uint32_t i = 0; i < count; i++) {
        mr_move_page(mr, first + i);
    }
}

void paging_move(SimMr *mr)
{
    paging_take_back(mr);
    move(mr, 0, mr->page_count);
}

/* ---- page requests ------------------------------------------------------- */

/* The host's answer for a requested page. */
static RocePages judge(World *w, const SimMr *mr, uint32_t page, bool write)
{
    if (!mr || mr->refused) {
        return ROCE_PAGES_REFUSED;
    }
    if (!(mr->access & FAKERNIC_ACCESS_LOCAL_WRITE)) {
        if (write) {
            world_fail(w, "host %u: pages are to be written that nobody may "
                       "write to, key %08x", mr->host->number, mr->key);
        }
        return ROCE_PAGES_READABLE;
    }
    return write || mr_page_has(mr, page) == SIM_WRITABLE ||
           rng_pct(&w->rng, 30) ? ROCE_PAGES_WRITABLE : ROCE_PAGES_READABLE;
}

/* Reports 'count' pages from an address on; equal ones together. */
static void give(Host *h, uint32_t key, uint64_t address, uint32_t count,
                 uint8_t shift, bool write)
{
    uint64_t pages[ANSWER_PAGES];
    RocePageUpdate u = { .key = key, .page_shift = shift, .pages = pages };

    for (uint32_t i = 0; i < count; i++, address += 1ull << shift) {
        uint32_t page = 0;
        SimMr *mr = find_page(h, key, address, &page);
        RocePages state = judge(h->world, mr, page, write);

        if (u.page_count && u.state != state) {
            update(h, &u);
            u.page_count = 0;
        }
        if (!u.page_count) {
            u.state = state;
            u.address = address;
        }
        pages[u.page_count++] = state == ROCE_PAGES_REFUSED ? 0
                                                            : mr->pages[page];
        if (state != ROCE_PAGES_REFUSED) {
            set_rights(mr, page, state == ROCE_PAGES_WRITABLE ? SIM_WRITABLE
                                                              : SIM_READABLE);
        }
    }
    update(h, &u);
}

static void schedule_answer(Host *h, uint32_t number)
{
    World *w = h->world;

    world_schedule(w, w->now + 1 +
                   rng_below(&w->rng, w->options.odp_wait_us * 1000 + 1),
                   EV_PAGES, h->number)->a = number;
}

/* The answer from an address on follows later. The request is off the list:
 * other QPs that need some of these bytes request them again. */
static void answer_rest(Host *h, uint32_t number, uint64_t from)
{
    SimPageRequest *r = &h->request[number];

    r->length -= from - r->address;
    r->address = from;
    r->taken = true;
    schedule_answer(h, number);
}

void paging_answer(Host *h, uint32_t number)
{
    World *w = h->world;
    SimPageRequest r = h->request[number];
    SimMr *mr = find_region(h, r.key);
    uint64_t size, first, count, all;

    if (!mr) {                  /* destroyed since the request */
        h->request[number].pending = false;
        roce_page_requests_resume(h->roce);
        return;
    }
    size = page_size(mr);
    first = r.address & ~(size - 1);
    all = ((r.address + (r.length - 1)) >> mr->page_shift) -
          (first >> mr->page_shift) + 1;
    count = rng_pct(&w->rng, 20) ? rng_range(&w->rng, 1, (uint32_t)all) : all;
    if (count < all) {
        answer_rest(h, number, first + count * size);
    } else {
        h->request[number].pending = false;
        roce_page_requests_resume(h->roce);
    }
    give(h, r.key, first, (uint32_t)count, mr->page_shift, r.write);
    world_pump(w, h);
}

/* An engine that requests present pages would never stop requesting. */
static bool is_missing(Host *h, uint32_t key, uint64_t address,
                       uint64_t length, bool write)
{
    SimRights wanted = write ? SIM_WRITABLE : SIM_READABLE;
    uint64_t end = address + (length - 1);
    uint32_t page;

    for (;;) {
        const SimMr *mr = find_page(h, key, address, &page);
        uint64_t next;

        if (!mr || mr_page_has(mr, page) < wanted) {
            return true;
        }
        next = (address | (page_size(mr) - 1)) + 1;
        if (next > end || next == 0) {
            return false;
        }
        address = next;
    }
}

/* Whether its pages stay until the host takes them back; a load drops them.
 * With a limit of chunks that leaves each tenant a share, pages within a share
 * stay. */
static bool keeps_pages(const SimMr *mr)
{
    const SimOptions *o = &mr->host->world->options;

    return !o->save_every &&
           (!o->odp_chunks || (o->tenants && o->odp_chunks >= 512 &&
                               ROCE_PD_NUMBER(mr->pd) < SIM_PD_TENANT));
}

static void check_request(Host *h, uint32_t key, uint64_t address,
                          uint64_t length, bool write)
{
    World *w = h->world;
    const SimMr *mr = find_region(h, key);

    if (!mr || length == 0 || length > REQUEST_MAX ||
        address - mr->iova >= mr->length ||
        length > mr->length - (address - mr->iova)) {
        world_fail(w, "host %u: page request for key %08x, %llu bytes at %llx",
                   h->number, key, (unsigned long long)length,
                   (unsigned long long)address);
    } else if (keeps_pages(mr) &&
               !is_missing(h, key, address, length, write)) {
        world_fail(w, "host %u: page request for what is there, key %08x, "
                   "%llu bytes at %llx, write %d", h->number, key,
                   (unsigned long long)length, (unsigned long long)address,
                   write);
    }
}

/* As in the device, a request that is already listed is not added. If the list
 * is full, the engine waits for room. */
bool host_page_request(void *host, uint32_t key, uint64_t address,
                       uint64_t length, bool write)
{
    Host *h = host;
    World *w = h->world;
    uint32_t limit = w->options.odp_list ? w->options.odp_list
                                         : SIM_PAGE_REQUESTS, slot = limit;

    world_log(w, h->number, LOG_WANTED, key, (uint32_t)(address >> 12),
              (uint32_t)length, write, 0);
    check_request(h, key, address, length, write);
    for (uint32_t i = 0; i < limit; i++) {
        const SimPageRequest *r = &h->request[i];

        if (!r->pending) {
            slot = i;
        } else if (!r->taken && r->key == key && r->write == write &&
                   address >= r->address &&
                   address + length <= r->address + r->length) {
            return true;
        }
    }
    if (slot == limit) {
        return false;
    }
    h->request[slot] = (SimPageRequest){ .pending = true, .write = write,
                                         .key = key, .address = address,
                                         .length = length };
    schedule_answer(h, slot);
    return true;
}

/* ---- actions of a host without a request --------------------------------- */

static SimMr *choose_region(Host *h)
{
    uint32_t start = rng_below(&h->world->rng, h->mr_count);

    for (uint32_t i = 0; i < h->mr_count; i++) {
        SimMr *mr = &h->mr[(start + i) % h->mr_count];

        if (mr->on_demand && mr->alive && mr->page_count) {
            return mr;
        }
    }
    return NULL;
}

void paging_churn(Host *h)
{
    World *w = h->world;
    SimMr *mr = h->mr_count ? choose_region(h) : NULL;
    uint32_t first, count;

    if (!mr) {
        return;
    }
    first = rng_below(&w->rng, mr->page_count);
    count = rng_range(&w->rng, 1, mr->page_count - first);
    count = count < CHURN_PAGES ? count : CHURN_PAGES;
    switch (rng_below(&w->rng, 8)) {
    case 0:                     /* aged: absent until it is requested */
        paging_take_back(mr);
        break;
    case 1:                     /* prefetch */
    case 2:
        if (!mr->refused) {
            give(h, mr->key, first_page(mr) + (uint64_t)first *
                 page_size(mr), count, mr->page_shift,
                 rng_pct(&w->rng, 50) &&
                     mr->access & FAKERNIC_ACCESS_LOCAL_WRITE);
        }
        break;
    case 3:                     /* copy on write: moved, and read-only */
        take_back(mr, first, count);
        if (!mr->refused) {
            move(mr, first, count);
            give(h, mr->key, first_page(mr) + (uint64_t)first *
                 page_size(mr), count, mr->page_shift, false);
        }
        break;
    default:                    /* migrated, or swapped out and in */
        take_back(mr, first, count);
        move(mr, first, count);
    }
    world_pump(w, h);
}

void paging_schedule(World *w)
{
    const SimOptions *o = &w->options;
    uint32_t span = o->sends * (o->post_gap_us + o->odp_wait_us + 50) * 1000;

    for (uint32_t i = 0; i < o->hosts && o->odp_pct; i++) {
        for (uint32_t k = 0; k < o->odp_churn; k++) {
            world_schedule(w, w->now + rng_below(&w->rng, span + 1),
                           EV_PAGER, i);
        }
    }
}

uint64_t paging_constant(const SimMr *mr, uint64_t offset, uint64_t length,
                         uint64_t since)
{
    const SimOptions *o = &mr->host->world->options;
    uint64_t at = mr->iova - first_page(mr) + offset, bytes = 0;

    while (length && !o->odp_chunks && !o->save_every) {
        uint64_t run = page_size(mr) - (at & (page_size(mr) - 1));
        uint32_t page = (uint32_t)(at >> mr->page_shift);

        run = run < length ? run : length;
        if (mr_page_has(mr, page) != SIM_NO_RIGHTS &&
            mr->changed[page] <= since) {
            bytes += run;
        }
        at += run;
        length -= run;
    }
    return bytes;
}
