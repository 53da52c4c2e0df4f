/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Use of memory keys: the only way from a key and an address to DMA addresses,
 * and from there to the bytes (IBTA 10.6.3, 10.7.2.6).
 *
 * Bounds are compared as offset <= length and len <= length - offset. A number
 * that a guest or a peer chooses is compared before it is added to anything.
 * No function here keeps a host pointer or reads the same guest memory twice.
 */
#include "mr_table.h"

#include <assert.h>
#include <string.h>

static bool mr_is_everything(const RoceMr *mr)
{
    return mr->kind == ROCE_MR_REGION &&
           (mr->type == FAKERNIC_MR_DMA || mr->type == FAKERNIC_MR_NULL);
}

bool roce_mr_in_bounds(const RoceMr *mr, uint64_t address, uint64_t len)
{
    uint64_t offset = address - mr->start;

    if (mr_is_everything(mr)) {
        uint64_t last = mr->type == FAKERNIC_MR_DMA ? ROCE_ADDRESS_DM - 1
                                                    : UINT64_MAX;

        return address <= last && len - 1 <= last - address;
    }
    return address >= mr->start && offset <= mr->length &&
           len <= mr->length - offset;
}

uint16_t roce_mr_check_key(const RoceMrTable *t, const RoceAccess *access,
                           const RoceMr **mr)
{
    RoceMr *found;
    uint16_t error = mr_find(t, access->key, &found);

    *mr = NULL;
    if (error) {
        return error;
    }
    /* journey: key */
    if (!found->valid) {
        return FAKERNIC_VENDOR_KEY_STATE;
    }
    if (found->pd != access->pd) {
        return FAKERNIC_VENDOR_KEY_PD;
    }
    /* journey: end */
    if (found->kind == ROCE_MR_WINDOW) {
        /* A window's key is an R_Key: no local access (IBTA 10.6.7.1). */
        if (!(access->rights & ACCESS_REMOTE)) {
            return FAKERNIC_VENDOR_KEY_ACCESS;
        }
        if (found->type == FAKERNIC_MW_TYPE_2B && found->qpn != access->qpn) {
            return FAKERNIC_VENDOR_KEY_QP;
        }
    }
    /* journey: key */
    if (access->rights & ~found->access) {
        return FAKERNIC_VENDOR_KEY_ACCESS;
    }
    *mr = found;
    return FAKERNIC_VENDOR_NONE;
    /* journey: end */
}

uint16_t roce_mr_check(const RoceMrTable *t, const RoceAccess *access,
                       const RoceMr **mr)
{
    uint16_t error;

    *mr = NULL;
    if (access->length == 0) {
        return FAKERNIC_VENDOR_NONE;
    }
    /* journey: bounds */
    error = roce_mr_check_key(t, access, mr);
    if (!error && !roce_mr_in_bounds(*mr, access->address, access->length)) {
        *mr = NULL;
        error = FAKERNIC_VENDOR_KEY_BOUNDS;
    }
    return error;
    /* journey: end */
}

/* Largest page request; more is requested in steps. */
#define MR_AHEAD_MAX (1u << 20)

/* Are the pages of a granted range present, with 'write' for writing? */
static uint16_t mr_reach(const RoceMr *mr, uint64_t address, uint64_t len,
                         uint64_t ahead, bool write)
{
    uint64_t wanted = write ? ROCE_ODP_WRITABLE : ROCE_ODP_PRESENT;
    uint64_t left = mr->length - (address - mr->start);
    uint64_t page, last;

    if (!mr->odp || len == 0) {
        return FAKERNIC_VENDOR_NONE;
    }
    last = (address + (len - 1)) >> mr->page_shift;
    for (page = address >> mr->page_shift; page <= last; page++) {
        uint64_t entry = roce_odp_get(mr->odp, mr_index(mr->key), page);

        if (entry & wanted) {
            continue;
        }
        if (entry & ROCE_ODP_REFUSED) {
            /* Each waiter fails once. Later accesses request the page again,
             * which may be available by then. */
            roce_odp_set(mr->odp, mr_index(mr->key), ROCE_PD_NUMBER(mr->pd),
                         page, entry < ROCE_ODP_REFUSAL
                                   ? 0 : entry - ROCE_ODP_REFUSAL);
            return FAKERNIC_VENDOR_KEY_DMA;
        }
        ahead = ahead > len ? ahead : len;
        ahead = ahead < MR_AHEAD_MAX ? ahead : MR_AHEAD_MAX;
        roce_odp_set_fault(mr->odp, &(RoceFault) {
            .key = mr->key, .write = write, .address = address,
                                        .length = ahead < left ? ahead : left,
                                        .page = page << mr->page_shift,
                                    });
        return ROCE_VENDOR_FAULT;
    }
    return FAKERNIC_VENDOR_NONE;
}

uint16_t roce_mr_grant(const RoceMrTable *t, const RoceAccess *access,
                       uint64_t needed, uint64_t ahead, const RoceMr **mr)
{
    const uint32_t change = FAKERNIC_ACCESS_LOCAL_WRITE | ACCESS_REMOTE_CHANGE;
    uint16_t error = roce_mr_check(t, access, mr);

    if (error || !*mr) {
        return error;
    }
    return mr_reach(*mr, access->address, needed, ahead,
                    access->rights & change);
}

static const uint64_t *mr_pages(const RoceMr *mr)
{
    return mr->kind == ROCE_MR_WINDOW ? mr->region_pages : mr->pages;
}

/* On-demand paging: one page at a time. False: it is absent. */
static bool mr_translate_on_demand(const RoceMr *mr, uint64_t address,
                                   size_t len, uint64_t *dma, size_t *piece)
{
    uint64_t entry = roce_odp_get(mr->odp, mr_index(mr->key),
                                  address >> mr->page_shift);
    uint64_t in_page = address & mr_page_mask(mr->page_shift);
    uint64_t there = (1ULL << mr->page_shift) - in_page;

    *dma = (entry & ~(uint64_t)ROCE_ODP_BITS) + in_page;
    *piece = there < len ? (size_t)there : len;
    return entry & ROCE_ODP_PRESENT;
}

/*
 * The DMA address of a granted address, and how many of len bytes follow it
 * without a gap. Adjacent pages count as one piece.
 */
static bool mr_translate(const RoceMr *mr, uint64_t address, size_t len,
                         uint64_t *dma, size_t *piece)
{
    const uint64_t *pages = mr_pages(mr);
    uint64_t offset, page_size, index, in_page, there;

    if (mr->odp) {
        return mr_translate_on_demand(mr, address, len, dma, piece);
    }
    offset = address - mr->start + mr->first_offset;
    if (!pages) {               /* the DMA region, or a window on it */
        *piece = len;
        *dma = offset;
        return true;
    }
    page_size = 1ULL << mr->page_shift;
    index = offset >> mr->page_shift;
    in_page = offset & (page_size - 1);
    there = page_size - in_page;
    for (uint64_t i = index; there < len; i++) {
        /* Granted, so there is a page i + 1. */
        if (pages[i + 1] != pages[i] + page_size) {
            break;
        }
        there += page_size;
    }
    *piece = there < len ? (size_t)there : len;
    *dma = pages[index] + in_page;
    return true;
}

static bool mr_is_null(const RoceMr *mr)
{
    return mr->kind == ROCE_MR_REGION && mr->type == FAKERNIC_MR_NULL;
}

bool roce_mr_read(const RoceMrTable *t, const RoceMr *mr, uint64_t address,
                  void *buf, size_t len)
{
    uint8_t *to = buf;
    uint64_t dma;
    size_t piece;

    if (len != 0 && mr_is_null(mr)) {
        memset(buf, 0, len);
        return true;
    }
    for (; len != 0; len -= piece, to += piece, address += piece) {
        if (!mr_translate(mr, address, len, &dma, &piece) ||
            !t->ops->dma_read(t->host, dma, to, piece)) {
            return false;
        }
    }
    return true;
}

bool roce_mr_write(const RoceMrTable *t, const RoceMr *mr, uint64_t address,
                   const void *buf, size_t len)
{
    const uint8_t *from = buf;
    uint64_t dma;
    size_t piece;

    if (len != 0 && mr_is_null(mr)) {
        return true;
    }
    for (; len != 0; len -= piece, from += piece, address += piece) {
        if (!mr_translate(mr, address, len, &dma, &piece) ||
            !t->ops->dma_write(t->host, dma, from, piece)) {
            return false;
        }
    }
    return true;
}

bool roce_mr_atomic(const RoceMrTable *t, const RoceMr *mr, uint64_t address,
                    RoceAtomic *op)
{
    size_t piece;
    uint64_t dma;

    if (mr_is_null(mr)) {
        op->original = 0;
        return true;
    }
    if (!mr_translate(mr, address, 8, &dma, &piece)) {
        /* Not reached: the caller has checked that the page is present. */
        return false;
    }
    /* In a zero-based region an aligned address may be unaligned in memory,
     * and no atomic access can span two pages. */
    if (dma % 8 != 0) {
        return false;
    }
    return t->ops->dma_atomic(t->host, dma, op);
}

/* Limits of a FLUSH step: pages of a list, and absent pages or their chunks
 * (roce_odp_looks()). */
#define MR_FLUSH_PAGES 4096u
#define MR_FLUSH_LOOKS (7 * ROCE_ODP_CHUNK)
/* Bytes of a step without a page list. */
#define MR_FLUSH_BYTES (1u << 30)
/*
 * The longest message (IBTA C9-54), which also limits a range without a list.
 */
#define MR_FLUSH_ENDLESS 0x80000000u

static size_t mr_flush_piece(const RoceMr *mr, uint64_t left)
{
    uint64_t most = MR_FLUSH_BYTES;

    if (mr_pages(mr) && (uint64_t)MR_FLUSH_PAGES << mr->page_shift < most) {
        most = (uint64_t)MR_FLUSH_PAGES << mr->page_shift;
    }
    return left < most ? (size_t)left : (size_t)most;
}

static void mr_flush_advance(RoceFlushRange *range, uint64_t done)
{
    done = done < range->left ? done : range->left;
    range->address += done;
    range->left -= done;
}

/*
 * Skips absent pages: one barrier makes all data visible. The caller has
 * requested those of a persistent FLUSH.
 */
static void mr_flush_skip(const RoceMr *mr, RoceFlushRange *range)
{
    uint64_t page = range->address >> mr->page_shift;
    uint64_t next = page + roce_odp_absent(mr->odp, mr_index(mr->key), page);
    uint64_t bytes = ((next - page) << mr->page_shift) -
                     (range->address & mr_page_mask(mr->page_shift));

    mr_flush_advance(range, bytes);
}

/*
 * Adds the first pages of the range to the job, up to the first absent one or
 * the job's limit.
 */
static void mr_flush_gather(const RoceMr *mr, const RoceFlushRange *range,
                            RoceFlushJob *job)
{
    const unsigned most = range->persistent ? ROCE_FLUSH_PARTS : 1;
    uint64_t address = range->address;
    size_t left = mr_flush_piece(mr, range->left), piece;
    uint64_t dma;

    job->count = 0;
    while (left && job->count < most &&
           mr_translate(mr, address, left, &dma, &piece)) {
        job->part[job->count].address = dma;
        job->part[job->count++].len = piece;
        address += piece;
        left -= piece;
    }
}

static uint64_t mr_flush_job_bytes(const RoceFlushJob *job)
{
    uint64_t bytes = 0;

    for (unsigned i = 0; i < job->count; i++) {
        bytes += job->part[i].len;
    }
    return bytes;
}

static RoceFlush mr_flush_step(const RoceMrTable *t, const RoceMr *mr,
                               RoceFlushRange *range)
{
    RoceFlushJob job = {
        .qpn = range->qpn,
        .ticket = range->ticket,
        .persistent = range->persistent,
    };
    uint64_t done = 0;
    RoceFlush flush;

    mr_flush_gather(mr, range, &job);
    flush = t->ops->dma_flush(t->host, &job, &done);
    if (flush == ROCE_FLUSH_BEGUN) {
        mr_flush_advance(range, done);
    } else if (flush == ROCE_FLUSH_DONE) {
        /* One barrier is enough for all memory. */
        mr_flush_advance(range, range->persistent ? mr_flush_job_bytes(&job)
                                                  : range->left);
        flush = range->left ? ROCE_FLUSH_MORE : ROCE_FLUSH_DONE;
    }
    return flush;
}

RoceFlush roce_mr_flush(const RoceMrTable *t, const RoceMr *mr,
                        RoceFlushRange *range)
{
    const uint64_t limit = mr->odp ? roce_odp_looks(mr->odp) + MR_FLUSH_LOOKS
                                   : 0;
    uint64_t dma;
    size_t piece;

    if (mr_is_null(mr)) {
        range->left = 0;
    }
    while (range->left != 0 &&
           !mr_translate(mr, range->address, 1, &dma, &piece)) {
        if (roce_odp_looks(mr->odp) > limit) {
            return ROCE_FLUSH_MORE;
        }
        mr_flush_skip(mr, range);
    }
    return range->left == 0 ? ROCE_FLUSH_DONE : mr_flush_step(t, mr, range);
}

bool roce_mr_flush_all(const RoceMr *mr, RoceFlushRange *range)
{
    range->address = mr->start;
    range->left = mr_is_null(mr) ? 0 : mr->length;
    return mr_is_null(mr) ||
           (!mr->odp && (mr_pages(mr) || mr->length <= MR_FLUSH_ENDLESS));
}

/* ---- scatter and gather ------------------------------------------------- */

uint64_t roce_sge_total(const RoceSge *sge, unsigned count)
{
    uint64_t total = 0;

    for (unsigned i = 0; i < count; i++) {
        total += sge[i].length;
    }
    return total;
}

/* Exactly one of 'in' and 'out' is not NULL. */
static uint16_t mr_sgl_copy(const RoceMrTable *t, const RoceSgl *list,
                            uint64_t offset, uint8_t *in, const uint8_t *out,
                            size_t len)
{
    for (unsigned i = 0; len != 0; i++) {
        RoceAccess access = {
            .rights = out ? FAKERNIC_ACCESS_LOCAL_WRITE : 0, .pd = list->pd,
        };
        const RoceSge *sge;
        uint64_t there;
        const RoceMr *mr;
        uint16_t error;
        size_t piece;
        bool done;

        assert(i < list->count);
        sge = &list->sge[i];
        if (offset >= sge->length) {
            offset -= sge->length;
            continue;
        }
        there = sge->length - offset;
        piece = there < len ? (size_t)there : len;
        /* Checks only the part in use: a receive may be longer than its region
         * as long as no message is. */
        access.key = sge->lkey;
        access.address = sge->address + offset;
        access.length = piece;
        error = roce_mr_grant(t, &access, piece, there, &mr);
        if (error) {
            return error;
        }
        done = out ? roce_mr_write(t, mr, access.address, out, piece)
                   : roce_mr_read(t, mr, access.address, in, piece);
        if (!done) {
            return FAKERNIC_VENDOR_KEY_DMA;
        }
        if (out) {
            out += piece;
        } else {
            in += piece;
        }
        len -= piece;
        offset = 0;
    }
    return FAKERNIC_VENDOR_NONE;
}

uint16_t roce_sgl_gather(const RoceMrTable *t, const RoceSgl *list,
                         uint64_t offset, void *buf, size_t len)
{
    return mr_sgl_copy(t, list, offset, buf, NULL, len);
}

uint16_t roce_sgl_scatter(const RoceMrTable *t, const RoceSgl *list,
                          uint64_t offset, const void *buf, size_t len)
{
    return mr_sgl_copy(t, list, offset, NULL, buf, len);
}

uint16_t roce_sgl_check(const RoceMrTable *t, const RoceSgl *list,
                        uint32_t access)
{
    for (unsigned i = 0; i < list->count; i++) {
        const RoceAccess one = {
            .key = list->sge[i].lkey,
            .rights = access,
            .pd = list->pd,
            .address = list->sge[i].address,
            .length = list->sge[i].length,
        };
        const RoceMr *mr;
        uint16_t error = roce_mr_check(t, &one, &mr);

        if (error) {
            return error;
        }
    }
    return FAKERNIC_VENDOR_NONE;
}
