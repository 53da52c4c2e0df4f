/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Page lists and the rings they describe (fakernic/base.h).
 *
 * A page list comes in from a command or a work request; its addresses are read
 * once, checked and copied, so that the guest may free or change the tables
 * afterwards. Work and memory are bounded by the number of pages needed, which
 * the caller has bounded, not by what the guest claims to have.
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "qemu/cutils.h"
#include "dma.h"
#include "ring.h"
#include "state.h"

bool fakernic_page_list_is_zero(const struct fakernic_page_list *list)
{
    return buffer_is_zero(list, sizeof(*list));
}

/* Pages a list of so many levels can name. */
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
    /* Contiguous pages must not run over the end of DMA space. */
    return list->levels ||
           ((uint64_t)count << shift) <= ROCE_ADDRESS_DM - address;
}

/*
 * Replaces the 'tables' table addresses in 'from' by the first 'entries'
 * addresses those tables hold, each aligned to 1 << shift.
 */
static uint8_t fakernic_page_tables_read(FakernicState *s,
                                         const uint64_t *from, uint64_t *to,
                                         uint64_t entries, unsigned shift)
{
    uint64_t done = 0;

    while (done < entries) {
        uint64_t n = MIN(entries - done, FAKERNIC_PAGE_TABLE_ENTRIES);

        if (!fakernic_dma_read(s, from[done / FAKERNIC_PAGE_TABLE_ENTRIES],
                               to + done, n * sizeof(*to))) {
            return FAKERNIC_CMD_DMA_ERROR;
        }
        for (uint64_t i = done; i < done + n; i++) {
            le64_to_cpus(&to[i]);
            if (to[i] & (ROCE_ADDRESS_DM | ((1ULL << shift) - 1))) {
                return FAKERNIC_CMD_BAD_PAGE_LIST;
            }
        }
        done += n;
    }
    return FAKERNIC_CMD_OK;
}

/* Walks down from the root table; 'pages' has room for 'needed' addresses. */
static uint8_t fakernic_page_tables_walk(FakernicState *s, uint64_t root,
                                         unsigned levels, unsigned page_shift,
                                         uint64_t needed, uint64_t *pages)
{
    uint64_t *from = g_new(uint64_t, 1);
    uint8_t status = FAKERNIC_CMD_OK;

    from[0] = root;
    for (unsigned level = levels; level > 0 && status == FAKERNIC_CMD_OK;
         level--) {
        uint64_t below = fakernic_page_list_capacity(level - 1);
        uint64_t entries = level > 1 ? DIV_ROUND_UP(needed, below) : needed;
        uint64_t *to = level > 1 ? g_new(uint64_t, entries) : pages;

        status = fakernic_page_tables_read(s, from, to, entries,
                                           level > 1 ? FAKERNIC_PAGE_SHIFT :
                                           page_shift);
        g_free(from);
        from = level > 1 ? to : NULL;
    }
    g_free(from);
    return status;
}

uint8_t fakernic_page_list_read(FakernicState *s,
                                const struct fakernic_page_list *list,
                                uint64_t needed, uint64_t **pages)
{
    uint64_t address = le64_to_cpu(list->address);
    uint64_t *copy;
    uint8_t status = FAKERNIC_CMD_OK;

    if (!fakernic_page_list_is_sane(list, needed)) {
        return FAKERNIC_CMD_BAD_PAGE_LIST;
    }
    /* The engine frees what it is handed with free(). */
    copy = malloc(needed * sizeof(*copy));
    if (!copy) {
        return FAKERNIC_CMD_NO_RESOURCE;
    }
    if (list->levels) {
        status = fakernic_page_tables_walk(s, address, list->levels,
                                           list->page_shift, needed, copy);
    } else {
        for (uint64_t i = 0; i < needed; i++) {
            copy[i] = address + (i << list->page_shift);
        }
    }
    if (status != FAKERNIC_CMD_OK) {
        free(copy);
        return status;
    }
    *pages = copy;
    return FAKERNIC_CMD_OK;
}

uint8_t fakernic_ring_init(FakernicState *s, FakernicRing *ring,
                           const struct fakernic_page_list *list,
                           unsigned log_depth, unsigned log_entry)
{
    uint64_t bytes = (1ULL << (log_depth + log_entry)) +
                     sizeof(struct fakernic_queue_record);
    uint8_t status;

    if (list->page_shift < FAKERNIC_PAGE_SHIFT ||
        list->page_shift > FAKERNIC_PAGE_SHIFT_MAX) {
        return FAKERNIC_CMD_BAD_PAGE_LIST;
    }
    status = fakernic_page_list_read(s, list,
                                     DIV_ROUND_UP(bytes,
                                                  1ULL << list->page_shift),
                                     &ring->pages);
    if (status == FAKERNIC_CMD_OK) {
        ring->page_shift = list->page_shift;
        ring->log_entry = log_entry;
        ring->depth = 1U << log_depth;
    }
    return status;
}

void fakernic_ring_free(FakernicRing *ring)
{
    free(ring->pages);
    ring->pages = NULL;
}

static uint64_t fakernic_ring_address(const FakernicRing *ring, uint64_t offset)
{
    return ring->pages[offset >> ring->page_shift] +
           (offset & ((1ULL << ring->page_shift) - 1));
}

bool fakernic_ring_read(FakernicState *s, const FakernicRing *ring,
                        uint32_t index, void *buf, size_t len)
{
    uint64_t size = (uint64_t)ring->depth << ring->log_entry;
    uint64_t offset = (uint64_t)(index & (ring->depth - 1)) << ring->log_entry;
    uint8_t *to = buf;

    while (len) {
        uint64_t in_page = (1ULL << ring->page_shift) -
                           (offset & ((1ULL << ring->page_shift) - 1));
        size_t piece = MIN(len, MIN(in_page, size - offset));

        if (!fakernic_dma_read(s, fakernic_ring_address(ring, offset), to,
                               piece)) {
            return false;
        }
        to += piece;
        len -= piece;
        offset = (offset + piece) & (size - 1);
    }
    return true;
}

bool fakernic_ring_write(FakernicState *s, const FakernicRing *ring,
                         uint32_t index, const void *buf, size_t len)
{
    uint64_t offset = (uint64_t)(index & (ring->depth - 1)) << ring->log_entry;

    assert(len <= 1ULL << ring->log_entry);
    return fakernic_dma_write(s, fakernic_ring_address(ring, offset), buf, len);
}

bool fakernic_ring_record(FakernicState *s, const FakernicRing *ring,
                          uint32_t *index)
{
    uint64_t offset = ((uint64_t)ring->depth << ring->log_entry) +
                      offsetof(struct fakernic_queue_record, index);
    uint32_t value;

    if (!fakernic_dma_read(s, fakernic_ring_address(ring, offset), &value,
                           sizeof(value))) {
        return false;
    }
    *index = le32_to_cpu(value);
    return true;
}
