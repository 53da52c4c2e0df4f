/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Guest memory, through the PCI bus and its IOMMU, if there is one.
 *
 * Only this file uses the PCI DMA interface (tests/laws). A mapping lasts for
 * one access. Only RAM is accessed: a DMA into another device's registers could
 * re-enter this device. Writes are stored in ascending address order.
 * Applications poll the last byte of an RDMA WRITE. So a barrier orders the
 * last 8 bytes behind the others, and all bytes before the device's next write.
 */
#include "qemu/osdep.h"
#include "qemu/atomic.h"
#include "qemu/bswap.h"
#include "exec/cpu-common.h"
#include "budget.h"
#include "dma.h"
#include "state.h"
#include "fault/gate.h"
#include "../trace.h"

static bool fakernic_dma_failed(FakernicState *s, uint64_t address, size_t len,
                                bool is_write)
{
    trace_fakernic_err_dma(s->name, address, len, is_write);
    s->stats[FAKERNIC_STAT_DMA_ERRORS]++;
    return false;
}

/* All accesses to guest memory are charged here. */
static void fakernic_dma_count(FakernicState *s, size_t len)
{
    fakernic_spend(s, 1 + len / FAKERNIC_PAGE_SIZE);
}

bool fakernic_dma_peek(FakernicState *s, uint64_t address, void *buf,
                       size_t len)
{
    const MemTxAttrs ram_only = { .memory = true };

    return pci_dma_rw(PCI_DEVICE(s), address, buf, len,
                      DMA_DIRECTION_TO_DEVICE, ram_only) == MEMTX_OK;
}

bool fakernic_dma_read(void *host, uint64_t address, void *buf, size_t len,
                       RoceWhy why)
{
    FakernicState *s = host;
    const FakernicHit *hit;

    fakernic_dma_count(s, len);
    s->activity.did[FAKERNIC_DID_DMA_READ]++;
    hit = fakernic_gate_dma_read(s, address, len, why);
    if (fakernic_gate_fails(hit) ||
        !fakernic_dma_peek(s, address, buf, len)) {
        return fakernic_dma_failed(s, address, len, false);
    }
    fakernic_gate_bytes(hit, buf, len);
    return true;
}

/*
 * Maps as much as is contiguous. For an address that is not RAM, QEMU returns a
 * bounce buffer, which is refused here.
 */
static void *fakernic_dma_map(FakernicState *s, uint64_t address, size_t *len)
{
    dma_addr_t mapped = *len;
    ram_addr_t offset;
    void *p = pci_dma_map(PCI_DEVICE(s), address, &mapped,
                          DMA_DIRECTION_FROM_DEVICE);

    s->activity.did[FAKERNIC_DID_DMA_MAP]++;
    if (!p) {
        return NULL;
    }
    if (!memory_region_from_host(p, &offset)) {
        pci_dma_unmap(PCI_DEVICE(s), p, mapped, DMA_DIRECTION_FROM_DEVICE, 0);
        return NULL;
    }
    *len = mapped;
    return p;
}

uint8_t *fakernic_dma_find(FakernicState *s, uint64_t address, uint64_t *len)
{
    PCIDevice *pci = PCI_DEVICE(s);
    dma_addr_t piece = *len;
    uint8_t first;
    void *p;

    fakernic_dma_count(s, 0);
    /*
     * Mapping an address that is not RAM would read it into a bounce buffer at
     * once, and reading another device's registers may change them.
     */
    if (!fakernic_dma_peek(s, address, &first, 1)) {
        return NULL;
    }
    p = pci_dma_map(pci, address, &piece, DMA_DIRECTION_TO_DEVICE);
    if (!p) {
        return NULL;
    }
    /* The memory region keeps the RAM; the mapping need not. */
    pci_dma_unmap(pci, p, piece, DMA_DIRECTION_TO_DEVICE, 0);
    *len = piece;
    return p;
}

static void fakernic_dma_unmap(FakernicState *s, void *p, size_t len)
{
    pci_dma_unmap(PCI_DEVICE(s), p, len, DMA_DIRECTION_FROM_DEVICE, len);
}

void fakernic_copy_ascending(uint8_t *to, const uint8_t *from, size_t len)
{
    while (len) {
        if (len >= 8 && QEMU_PTR_IS_ALIGNED(to, 8)) {
            /*
             * Stores the earlier bytes before these. Pairs with the host's read
             * barrier behind its load of a later byte, such as a CQE's owner.
             * On x86 this is a plain store.
             */
            __atomic_store_n((uint64_t *)to, ldq_he_p(from), __ATOMIC_RELEASE);
            to += 8, from += 8, len -= 8;
        } else {
            /* Stores the earlier bytes before this one, as above. */
            __atomic_store_n(to, *from, __ATOMIC_RELEASE);
            to++, from++, len--;
        }
    }
}

/* Stores piece by piece; false: a piece is not accessible RAM. */
static bool fakernic_dma_store(FakernicState *s, uint64_t address,
                               const uint8_t *from, size_t len)
{
    while (len) {
        size_t piece = len;
        void *p = fakernic_dma_map(s, address, &piece);

        if (!p) {
            return fakernic_dma_failed(s, address, len, true);
        }
        fakernic_copy_ascending(p, from, piece);
        fakernic_dma_unmap(s, p, piece);
        address += piece;
        from += piece;
        len -= piece;
    }
    /*
     * Orders data before its CQE, a CQE before its EQE, and an EQE before its
     * interrupt. Pairs with the host's read barriers.
     */
    smp_wmb();
    return true;
}

bool fakernic_dma_write(void *host, uint64_t address, const void *buf,
                        size_t len, RoceWhy why)
{
    FakernicState *s = host;
    const FakernicHit *hit;
    size_t part = len;

    fakernic_dma_count(s, len);
    s->activity.did[FAKERNIC_DID_DMA_WRITE]++;
    hit = fakernic_gate_dma_write(s, address, &buf, &part, why);
    return fakernic_dma_store(s, address, buf, part) &&
           (!fakernic_gate_fails(hit) ||
            fakernic_dma_failed(s, address, len, true));
}

void fakernic_atomic_execute(uint64_t *word, RoceAtomic *op)
{
    uint64_t old, seen = qatomic_read__nocheck(word);

    do {
        old = seen;
        op->original = le64_to_cpu(old);
        seen = qatomic_cmpxchg__nocheck(word, old,
                   cpu_to_le64(roce_atomic_result(op, op->original)));
    } while (seen != old);
}

bool fakernic_dma_atomic(void *host, uint64_t address, RoceAtomic *op)
{
    FakernicState *s = host;
    const FakernicHit *hit = fakernic_gate_dma_atomic(s, address);
    size_t len = 8;
    uint64_t *word;

    fakernic_dma_count(s, len);
    s->activity.did[FAKERNIC_DID_DMA_ATOMIC]++;
    if (fakernic_gate_fails(hit)) {
        return fakernic_dma_failed(s, address, 8, true);
    }
    word = fakernic_dma_map(s, address, &len);
    if (!word) {
        return fakernic_dma_failed(s, address, 8, true);
    }
    if (len < 8 || !QEMU_PTR_IS_ALIGNED(word, 8)) {
        fakernic_dma_unmap(s, word, len);
        return fakernic_dma_failed(s, address, 8, true);
    }
    if (fakernic_gate_drops(hit)) {
        op->original = le64_to_cpu(qatomic_read__nocheck(word));
    } else {
        fakernic_atomic_execute(word, op);
    }
    fakernic_gate_word(hit, &op->original);
    fakernic_dma_unmap(s, word, len);
    return true;
}
