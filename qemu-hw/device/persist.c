/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Persistent FLUSH. A job has one range per RAM block, around all pages to
 * flush there: msync() of pages that are not dirty costs nothing. The job has
 * references to its memory regions and to the device, so that they outlive an
 * unplug. Its thread uses nothing else.
 */
#include "qemu/osdep.h"
#include "block/thread-pool.h"
#include "exec/cpu-common.h"
#include "budget.h"
#include "compat.h"
#include "dma.h"
#include "life.h"
#include "persist.h"
#include "state.h"
#include "fault/gate.h"
#include "../trace.h"

/* A range of one RAM block, which is a shared mapping of a file. */
typedef struct FakernicPersistRange {
    MemoryRegion *mr;
    int fd;
    uint8_t *from, *to;
} FakernicPersistRange;

struct FakernicPersist {
    FakernicState *s;
    uint32_t qpn;               /* the engine's names of the FLUSH */
    uint64_t ticket;
    bool forgotten;             /* a reset discarded the FLUSH */
    bool ended;
    int error;
    unsigned count;
    FakernicPersistRange range[ROCE_FLUSH_PARTS];
};

/* ---- ranges -------------------------------------------------------------- */

/* The file of the memory, or -1: the memory is not persistent. */
static int fakernic_persist_fd(MemoryRegion *mr)
{
    return mr->ram_block && qemu_ram_is_shared(mr->ram_block) ?
           memory_region_get_fd(mr) : -1;
}

static bool fakernic_persist_add(FakernicPersist *job, uint8_t *p, size_t len)
{
    ram_addr_t offset;
    MemoryRegion *mr = memory_region_from_host(p, &offset);
    FakernicPersistRange *range = job->range;
    const int fd = mr ? fakernic_persist_fd(mr) : -1;

    if (fd < 0) {
        return false;
    }
    while (range < job->range + job->count && range->mr != mr) {
        range++;
    }
    if (range == job->range + job->count) {
        memory_region_ref(mr);
        *range = (FakernicPersistRange) { mr, fd, p, p + len };
        job->count++;
    }
    range->from = MIN(range->from, p);
    range->to = MAX(range->to, p + len);
    return true;
}

/* Adds up to ROCE_FLUSH_PARTS pieces, returns their bytes; 0: a piece is not
 * persistent. */
static uint64_t fakernic_persist_gather(FakernicPersist *job,
                                        const RoceFlushJob *flush)
{
    unsigned pieces = ROCE_FLUSH_PARTS;
    uint64_t done = 0;

    for (unsigned i = 0; i < flush->count; i++) {
        uint64_t at = 0;

        while (at < flush->part[i].len) {
            const uint64_t address = flush->part[i].address + at;
            uint64_t piece = flush->part[i].len - at;
            uint8_t *p;

            if (pieces-- == 0) {
                return done;
            }
            p = fakernic_dma_find(job->s, address, &piece);
            if (!p || !fakernic_persist_add(job, p, piece)) {
                trace_fakernic_err_dma(job->s->name, address, piece, true);
                job->s->stats[FAKERNIC_STAT_DMA_ERRORS]++;
                return 0;
            }
            at += piece;
            done += piece;
        }
    }
    return done;
}

/* ---- the thread ---------------------------------------------------------- */

static int fakernic_persist_thread(void *opaque)
{
    FakernicPersist *job = opaque;

    for (unsigned ms = 0; ms < qatomic_read(&job->s->persist_hold); ms++) {
        g_usleep(1000);
    }
    for (unsigned i = 0; i < job->count; i++) {
        const FakernicPersistRange *range = &job->range[i];

        if (qemu_msync(range->from, range->to - range->from, range->fd)) {
            return -EIO;
        }
    }
    return 0;
}

/* ---- jobs ---------------------------------------------------------------- */

static void fakernic_persist_free(FakernicPersist *job)
{
    for (unsigned i = 0; i < job->count; i++) {
        memory_region_unref(job->range[i].mr);
    }
    g_free(job);
}

static void fakernic_persist_end(FakernicState *s)
{
    FakernicPersist *job = s->persist;

    s->persist = NULL;
    if (!job->forgotten) {
        roce_flush_ended(s->roce, job->qpn, job->ticket, !job->error);
    }
    fakernic_persist_free(job);
    object_unref(OBJECT(s));
}

RoceFlush fakernic_dma_flush(void *host, const RoceFlushJob *flush,
                             uint64_t *done)
{
    FakernicState *s = host;
    const FakernicHit *hit;
    FakernicPersist *job;

    if (flush->persistent && s->persist) {
        s->flush_waits = true;
        return ROCE_FLUSH_LATER;
    }
    hit = fakernic_gate_flush(s, flush);
    if (fakernic_gate_fails(hit)) {
        s->stats[FAKERNIC_STAT_DMA_ERRORS]++;
        return ROCE_FLUSH_FAILED;
    }
    /*
     * All writes were stores to guest memory. The barrier orders them before
     * the answer, and before the thread's msync().
     */
    smp_mb();
    if (!flush->persistent || fakernic_gate_drops(hit)) {
        return ROCE_FLUSH_DONE;
    }
    job = g_new0(FakernicPersist, 1);
    job->s = s;
    job->qpn = flush->qpn;
    job->ticket = flush->ticket;
    *done = fakernic_persist_gather(job, flush);
    if (!*done) {
        fakernic_persist_free(job);
        return ROCE_FLUSH_FAILED;
    }
    object_ref(OBJECT(s));
    s->persist = job;
    thread_pool_submit_aio(fakernic_persist_thread, job, s->persisted, job);
    return ROCE_FLUSH_BEGUN;
}

FakernicState *fakernic_persist_done(void *opaque, int error)
{
    FakernicPersist *job = opaque;

    job->ended = true;
    job->error = error;
    return job->s;
}

void fakernic_persist_run(FakernicState *s)
{
    if (s->persist && s->persist->ended) {
        fakernic_persist_end(s);
    }
    /* The resumed FLUSH may start no job; the next turn resumes another. */
    if (s->flush_waits && !s->persist) {
        s->flush_waits = roce_flush_resume(s->roce);
        fakernic_kick(s);
    }
}

void fakernic_persist_wait(FakernicState *s)
{
    while (s->persist && !s->persist->ended) {
        aio_poll(qemu_get_aio_context(), true);
    }
    if (s->persist) {
        fakernic_persist_end(s);
    }
}

void fakernic_persist_forget(FakernicState *s)
{
    s->flush_waits = false;
    if (s->persist) {
        s->persist->forgotten = true;
    }
    if (s->persist && s->persist->ended) {
        fakernic_persist_end(s);
    }
}
