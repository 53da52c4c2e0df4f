/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Page lists and the rings they describe (fakernic/base.h).
 *
 * A page list is part of a command or a work request. The device reads its
 * addresses once, checks and copies them, so that the guest may free or change
 * the tables afterwards. The caller limits the number of pages needed, which
 * bounds the memory used, whatever the guest claims. A long list is read over
 * several turns.
 */
#include "qemu/osdep.h"
#include "qemu/atomic.h"
#include "qemu/bswap.h"
#include "qemu/cutils.h"
#include "../budget.h"
#include "../dma.h"
#include "../memory.h"
#include "ring.h"
#include "../state.h"
#include "../fault/gate.h"

bool fakernic_page_list_is_zero(const struct fakernic_page_list *list)
{
    return buffer_is_zero(list, sizeof(*list));
}

/* The number of pages that a list with 'levels' levels can name. */
static uint64_t fakernic_page_list_capacity(unsigned levels)
{
    return levels ? 1ULL << (9 * levels) : UINT32_MAX;
}

static bool fakernic_page_list_is_sane(const struct fakernic_page_list *list,
                                       uint64_t needed)
{
    uint64_t address = le64_to_cpu(list->address);
    uint32_t count = le32_to_cpu(list->page_count);
    unsigned shift;

    if (list->page_shift < FAKERNIC_PAGE_SHIFT ||
        list->page_shift > FAKERNIC_PAGE_SHIFT_MAX ||
        list->levels > FAKERNIC_PAGE_LIST_LEVELS_MAX || list->rsvd) {
        return false;
    }
    if (count == 0 || count < needed ||
        count > fakernic_page_list_capacity(list->levels)) {
        return false;
    }
    shift = list->levels ? FAKERNIC_PAGE_SHIFT : list->page_shift;
    if (address & ((1ULL << shift) - 1)) {
        return false;
    }
    if (address & ROCE_ADDRESS_DM) {
        return false;
    }
    /* Contiguous pages must not extend beyond the DMA address space. */
    return list->levels ||
           ((uint64_t)count << shift) <= ROCE_ADDRESS_DM - address;
}

/*
 * Reads the first 'count' entries of a table, and checks that the addresses are
 * aligned to 1 << shift.
 */
static uint8_t fakernic_page_table_read(FakernicState *s, uint64_t table,
                                        uint64_t *to, uint32_t count,
                                        unsigned shift)
{
    if (!fakernic_dma_read(s, table, to, count * sizeof(*to),
                           ROCE_WHY_PAGE_LIST)) {
        return FAKERNIC_CMD_DMA_ERROR;
    }
    for (uint32_t i = 0; i < count; i++) {
        le64_to_cpus(&to[i]);
        if (to[i] & (ROCE_ADDRESS_DM | ((1ULL << shift) - 1))) {
            return FAKERNIC_CMD_BAD_PAGE_LIST;
        }
    }
    return FAKERNIC_CMD_OK;
}

/*
 * Finds the address of table 'number' of a level; leaves are level 1. The table
 * above stays cached until the next one is needed, so each entry is read once.
 */
static uint8_t fakernic_page_table_find(FakernicState *s,
                                        FakernicPageReader *r, unsigned level,
                                        uint64_t number, uint64_t *address)
{
    const uint64_t above = number / FAKERNIC_PAGE_TABLE_ENTRIES;
    FakernicUpperTable *upper = &r->upper[level - 1];
    uint8_t status = FAKERNIC_CMD_OK;

    if (level == r->levels) {
        *address = r->address;
        return status;
    }
    if (!upper->valid || upper->number != above) {
        uint64_t tables = DIV_ROUND_UP(r->needed,
                                       fakernic_page_list_capacity(level));
        uint64_t at;

        status = fakernic_page_table_find(s, r, level + 1, above, &at);
        if (status == FAKERNIC_CMD_OK) {
            status = fakernic_page_table_read(s, at, upper->entries,
                MIN(tables - above * FAKERNIC_PAGE_TABLE_ENTRIES,
                    FAKERNIC_PAGE_TABLE_ENTRIES), FAKERNIC_PAGE_SHIFT);
        }
        upper->valid = status == FAKERNIC_CMD_OK;
        upper->number = above;
    }
    *address = upper->entries[number % FAKERNIC_PAGE_TABLE_ENTRIES];
    return status;
}

/* Reads the addresses of one table. */
static uint8_t fakernic_page_reader_step(FakernicState *s,
                                         FakernicPageReader *r)
{
    const uint32_t count = MIN(r->needed - r->done,
                               FAKERNIC_PAGE_TABLE_ENTRIES);
    uint64_t *to = r->pages + r->done;
    uint8_t status = FAKERNIC_CMD_OK;
    uint64_t table;

    if (r->levels) {
        status = fakernic_page_table_find(s, r, 1,
                                          r->done / FAKERNIC_PAGE_TABLE_ENTRIES,
                                          &table);
        if (status == FAKERNIC_CMD_OK) {
            status = fakernic_page_table_read(s, table, to, count,
                                              r->page_shift);
        }
    } else {
        for (uint32_t i = 0; i < count; i++) {
            to[i] = r->address + ((r->done + i) << r->page_shift);
        }
    }
    r->done += count;
    return status;
}

uint8_t fakernic_page_reader_begin_at(FakernicPageReader *r, uint64_t address,
                                      unsigned page_shift, uint64_t needed)
{
    memset(r, 0, sizeof(*r));
    r->address = address;
    r->page_shift = page_shift;
    r->needed = needed;
    /* Not g_malloc(): the engine frees this with free(). */
    r->pages = malloc(needed * sizeof(*r->pages));
    return r->pages ? FAKERNIC_CMD_OK : FAKERNIC_CMD_NO_RESOURCE;
}

uint8_t fakernic_page_reader_begin(FakernicPageReader *r,
                                   const struct fakernic_page_list *list,
                                   uint64_t needed)
{
    uint8_t status;

    if (!fakernic_page_list_is_sane(list, needed)) {
        return FAKERNIC_CMD_BAD_PAGE_LIST;
    }
    status = fakernic_page_reader_begin_at(r, le64_to_cpu(list->address),
                                           list->page_shift, needed);
    r->levels = list->levels;
    return status;
}

uint8_t fakernic_page_reader_run(FakernicState *s, FakernicPageReader *r,
                                 unsigned tables, uint64_t **pages)
{
    if (r->done == 0 && !fakernic_gate_page_list(s, r->needed)) {
        fakernic_page_reader_drop(r);
        return FAKERNIC_CMD_DMA_ERROR;
    }
    while (r->done < r->needed) {
        uint8_t status;

        if (!tables--) {
            return FAKERNIC_CMD_LATER;
        }
        status = fakernic_page_reader_step(s, r);
        if (status != FAKERNIC_CMD_OK) {
            fakernic_page_reader_drop(r);
            return status;
        }
        if (!fakernic_spend(s, FAKERNIC_PAGE_TABLE_ENTRIES / 64) &&
            r->done < r->needed) {
            tables = 0;
        }
    }
    *pages = r->pages;
    r->pages = NULL;
    return FAKERNIC_CMD_OK;
}

void fakernic_page_reader_drop(FakernicPageReader *r)
{
    free(r->pages);
    r->pages = NULL;
}

uint8_t fakernic_page_list_read(FakernicState *s,
                                const struct fakernic_page_list *list,
                                uint64_t needed, uint64_t **pages)
{
    g_autofree FakernicPageReader *r = g_new(FakernicPageReader, 1);
    uint8_t status = fakernic_page_reader_begin(r, list, needed);

    while (status == FAKERNIC_CMD_OK || status == FAKERNIC_CMD_LATER) {
        status = fakernic_page_reader_run(s, r, UINT_MAX, pages);
        if (status == FAKERNIC_CMD_OK) {
            break;
        }
    }
    return status;
}

/* Accounts memory for the ring's page addresses, and begins to read them. */
static uint8_t fakernic_ring_begin(FakernicState *s, FakernicPageReader *r,
                                   const struct fakernic_page_list *list,
                                   unsigned log_size)
{
    const uint64_t bytes = (1ULL << log_size) +
                           sizeof(struct fakernic_queue_record);
    uint64_t needed;
    uint8_t status;

    if (list->page_shift < FAKERNIC_PAGE_SHIFT ||
        list->page_shift > FAKERNIC_PAGE_SHIFT_MAX) {
        return FAKERNIC_CMD_BAD_PAGE_LIST;
    }
    needed = DIV_ROUND_UP(bytes, 1ULL << list->page_shift);
    if (!fakernic_memory_take(s, needed * sizeof(uint64_t))) {
        return FAKERNIC_CMD_NO_RESOURCE;
    }
    status = fakernic_page_reader_begin(r, list, needed);
    if (status != FAKERNIC_CMD_OK) {
        fakernic_memory_give(s, needed * sizeof(uint64_t));
    }
    return status;
}

uint8_t fakernic_ring_init_some(FakernicState *s, FakernicRing *ring,
                                FakernicPageReader *r,
                                const struct fakernic_page_list *list,
                                unsigned log_depth, unsigned log_entry,
                                RoceWhy why)
{
    uint8_t status = FAKERNIC_CMD_OK;
    uint64_t *pages;
    uint64_t count;

    if (!r->pages) {
        status = fakernic_ring_begin(s, r, list, log_depth + log_entry);
    }
    if (status != FAKERNIC_CMD_OK) {
        return status;
    }
    count = r->needed;
    status = fakernic_page_reader_run(s, r, FAKERNIC_TABLES_PER_TURN, &pages);
    if (status == FAKERNIC_CMD_OK) {
        *ring = (FakernicRing) {
            .pages = pages,
            .page_count = count,
            .page_shift = list->page_shift,
            .log_entry = log_entry,
            .why = why,
            .depth = 1U << log_depth,
        };
    } else if (status != FAKERNIC_CMD_LATER) {
        fakernic_memory_give(s, count * sizeof(uint64_t));
    }
    return status;
}

uint8_t fakernic_ring_init(FakernicState *s, FakernicRing *ring,
                           const struct fakernic_page_list *list,
                           unsigned log_depth, unsigned log_entry,
                           RoceWhy why)
{
    g_autofree FakernicPageReader *r = g_new0(FakernicPageReader, 1);
    uint8_t status;

    do {
        status = fakernic_ring_init_some(s, ring, r, list, log_depth,
                                         log_entry, why);
    } while (status == FAKERNIC_CMD_LATER);
    return status;
}

void fakernic_ring_free(FakernicState *s, FakernicRing *ring)
{
    if (ring->pages) {
        free(ring->pages);
        fakernic_memory_give(s, ring->page_count * sizeof(*ring->pages));
    }
    ring->pages = NULL;
}

static uint64_t fakernic_ring_address(const FakernicRing *ring, uint64_t offset)
{
    return ring->pages[offset >> ring->page_shift] +
           (offset & ((1ULL << ring->page_shift) - 1));
}

typedef bool FakernicRingMove(FakernicState *s, uint64_t address, uint8_t *at,
                              size_t len, RoceWhy why);

static bool fakernic_ring_fetch(FakernicState *s, uint64_t address, uint8_t *at,
                                size_t len, RoceWhy why)
{
    return fakernic_dma_read(s, address, at, len, why);
}

static bool fakernic_ring_look(FakernicState *s, uint64_t address, uint8_t *at,
                               size_t len, RoceWhy why)
{
    return fakernic_dma_peek(s, address, at, len);
}

static bool fakernic_ring_store(FakernicState *s, uint64_t address, uint8_t *at,
                                size_t len, RoceWhy why)
{
    return fakernic_dma_write(s, address, at, len, why);
}

/* Copies in pieces that end at the end of a page or of the ring. */
static bool fakernic_ring_move(FakernicState *s, const FakernicRing *ring,
                               uint32_t index, uint8_t *at, size_t len,
                               FakernicRingMove *move)
{
    uint64_t size = (uint64_t)ring->depth << ring->log_entry;
    uint64_t offset = (uint64_t)(index & (ring->depth - 1)) << ring->log_entry;

    while (len) {
        uint64_t in_page = (1ULL << ring->page_shift) -
                           (offset & ((1ULL << ring->page_shift) - 1));
        size_t piece = MIN(len, MIN(in_page, size - offset));

        if (!move(s, fakernic_ring_address(ring, offset), at, piece,
                  ring->why)) {
            return false;
        }
        at += piece;
        len -= piece;
        offset = (offset + piece) & (size - 1);
    }
    return true;
}

bool fakernic_ring_read(FakernicState *s, const FakernicRing *ring,
                        uint32_t index, void *buf, size_t len)
{
    return fakernic_ring_move(s, ring, index, buf, len, fakernic_ring_fetch);
}

bool fakernic_ring_peek(FakernicState *s, const FakernicRing *ring,
                        uint32_t index, void *buf, size_t len)
{
    return fakernic_ring_move(s, ring, index, buf, len, fakernic_ring_look);
}

bool fakernic_ring_write(FakernicState *s, const FakernicRing *ring,
                         uint32_t index, const void *buf, size_t len)
{
    return fakernic_ring_move(s, ring, index, (uint8_t *)buf, len,
                              fakernic_ring_store);
}

/* Copies the first bytes of the doorbell record. */
static bool fakernic_ring_host(FakernicState *s, const FakernicRing *ring,
                               void *at, size_t len, FakernicRingMove *move)
{
    uint64_t offset = (uint64_t)ring->depth << ring->log_entry;

    return move(s, fakernic_ring_address(ring, offset), at, len,
                ROCE_WHY_RECORD);
}

static bool fakernic_ring_index(FakernicState *s, const FakernicRing *ring,
                                uint32_t *index, FakernicRingMove *move)
{
    uint32_t value;

    QEMU_BUILD_BUG_ON(offsetof(struct fakernic_queue_record, index) != 0);
    if (!fakernic_ring_host(s, ring, &value, sizeof(value), move)) {
        return false;
    }
    *index = le32_to_cpu(value);
    return true;
}

bool fakernic_ring_record(FakernicState *s, const FakernicRing *ring,
                          uint32_t *index)
{
    const bool good = fakernic_ring_index(s, ring, index, fakernic_ring_fetch);

    /*
     * Reads the index before the entries that it covers. Pairs with the host's
     * write barrier between entries and index.
     */
    smp_rmb();
    return good;
}

bool fakernic_ring_announce(FakernicState *s, const FakernicRing *ring,
                            uint32_t event, uint32_t *index)
{
    const uint64_t offset = ((uint64_t)ring->depth << ring->log_entry) +
                            offsetof(struct fakernic_queue_record,
                                     device_index);
    /* With the reserved field behind it: 8 bytes are one store. */
    const uint32_t words[2] = { cpu_to_le32(event) };

    if (!fakernic_dma_write(s, fakernic_ring_address(ring, offset), words,
                            sizeof(words), ROCE_WHY_RECORD)) {
        return false;
    }
    /*
     * Stores the event index before it loads the host's index. Pairs with the
     * host's full barrier between the same two, in the other order.
     */
    smp_mb();
    return fakernic_ring_record(s, ring, index);
}

bool fakernic_ring_peek_record(FakernicState *s, const FakernicRing *ring,
                               uint32_t *index)
{
    return fakernic_ring_index(s, ring, index, fakernic_ring_look);
}

uint64_t fakernic_ring_stamp(FakernicState *s, const FakernicRing *ring,
                             uint32_t *index)
{
    struct fakernic_queue_record record;

    if (!(s->driver_features & FAKERNIC_FEATURE_STAMPS) ||
        !fakernic_recorder_is_on(s) ||
        !fakernic_ring_host(s, ring, &record, sizeof(record),
                            fakernic_ring_look)) {
        return 0;
    }
    *index = le32_to_cpu(record.index);
    return le64_to_cpu(record.stamp);
}
