/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The memory that the engine reads and writes. An address with ROCE_ADDRESS_DM
 * set is in device memory; only the page list of a DM region has such
 * addresses. Any other address is guest memory, accessed by DMA.
 *
 * Device memory is RAM after the clock page in BAR2. The driver allocates it,
 * vCPUs access it through the BAR, and the device accesses it without DMA. As
 * for guest memory, stores ascend and atomics are atomic against vCPUs.
 */
#include "qemu/osdep.h"
#include "qemu/atomic.h"
#include "qemu/madvise.h"
#include "budget.h"
#include "dm.h"
#include "dma.h"
#include "persist.h"
#include "state.h"
#include "../trace.h"

bool fakernic_dm_contains(const FakernicState *s, uint64_t offset, uint64_t len)
{
    return len <= s->dm_size && offset <= s->dm_size - len;
}

/* After the doorbell pages and the clock page. */
uint32_t fakernic_dm_page(const FakernicState *s)
{
    return s->uars + 1;
}

void fakernic_dm_make(FakernicState *s)
{
    qemu_madvise(memory_region_get_ram_ptr(&s->dm), s->dm_size,
                 QEMU_MADV_NOHUGEPAGE);
}

/* Pages that one step zeroes, and the units of a page. Most of the cost is the
 * host's, which must first allocate a page that was never touched. */
#define FAKERNIC_DM_AT_ONCE 16
#define FAKERNIC_DM_PAGE_WORK 4

bool fakernic_dm_zero_some(FakernicState *s)
{
    bool lasts = true;

    while (s->dm_zeroed < s->dm_size && lasts) {
        const uint64_t len = MIN(FAKERNIC_DM_AT_ONCE * FAKERNIC_PAGE_SIZE,
                                 s->dm_size - s->dm_zeroed);
        uint8_t *dm = memory_region_get_ram_ptr(&s->dm);

        memset(dm + s->dm_zeroed, 0, len);
        memory_region_set_dirty(&s->dm, s->dm_zeroed, len);
        s->dm_zeroed += len;
        lasts = fakernic_spend(s, FAKERNIC_DM_AT_ONCE * FAKERNIC_DM_PAGE_WORK);
    }
    return s->dm_zeroed >= s->dm_size;
}

/* NULL, and counted: the range is not within device memory. */
static uint8_t *fakernic_dm(FakernicState *s, uint64_t address, uint64_t len)
{
    const uint64_t offset = address & ~ROCE_ADDRESS_DM;

    if (!fakernic_dm_contains(s, offset, len)) {
        trace_fakernic_err_dma(s->name, address, len, true);
        s->stats[FAKERNIC_STAT_DMA_ERRORS]++;
        return NULL;
    }
    return (uint8_t *)memory_region_get_ram_ptr(&s->dm) + offset;
}

bool fakernic_memory_read(void *host, uint64_t address, void *buf, size_t len)
{
    const uint8_t *from;

    if (!(address & ROCE_ADDRESS_DM)) {
        return fakernic_dma_read(host, address, buf, len,
                                 ROCE_WHY_PAYLOAD);
    }
    from = fakernic_dm(host, address, len);
    if (from) {
        memcpy(buf, from, len);
    }
    return from;
}

bool fakernic_memory_write(void *host, uint64_t address, const void *buf,
                           size_t len)
{
    FakernicState *s = host;
    uint8_t *to;

    if (!(address & ROCE_ADDRESS_DM)) {
        return fakernic_dma_write(host, address, buf, len,
                                  ROCE_WHY_PAYLOAD);
    }
    to = fakernic_dm(s, address, len);
    if (to) {
        fakernic_copy_ascending(to, buf, len);
        memory_region_set_dirty(&s->dm, address & ~ROCE_ADDRESS_DM, len);
        /* Orders data before its CQE. Pairs with the host's read barrier. */
        smp_wmb();
    }
    return to;
}

bool fakernic_memory_atomic(void *host, uint64_t address, RoceAtomic *op)
{
    FakernicState *s = host;
    uint8_t *word;

    if (!(address & ROCE_ADDRESS_DM)) {
        return fakernic_dma_atomic(host, address, op);
    }
    word = fakernic_dm(s, address, 8);
    /* A zero-based region may begin at any address, also an unaligned one. */
    if (!word || !QEMU_PTR_IS_ALIGNED(word, 8)) {
        return false;
    }
    fakernic_atomic_execute((uint64_t *)word, op);
    memory_region_set_dirty(&s->dm, address & ~ROCE_ADDRESS_DM, 8);
    return true;
}

/* Device memory is always visible, and is never persistent. */
RoceFlush fakernic_memory_flush(void *host, const RoceFlushJob *flush,
                                uint64_t *done)
{
    const uint64_t address = flush->part[0].address;

    /* All parts belong to one region, so the first one decides. */
    if (!(address & ROCE_ADDRESS_DM)) {
        return fakernic_dma_flush(host, flush, done);
    }
    /* The data comes before the answer, which the peer's host sees. */
    smp_mb();
    return !flush->persistent && fakernic_dm(host, address, flush->part[0].len)
               ? ROCE_FLUSH_DONE : ROCE_FLUSH_FAILED;
}
