/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * See fake_host.h. A test that exceeds a limit of this file has a bug, which
 * ends the program.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "fake_host.h"

static void fake_die(const char *why)
{
    printf("Bail out! fake host: %s\n", why);
    abort();
}

static void *fake_alloc(size_t count, size_t size)
{
    void *p = calloc(count, size);

    if (!p) {
        fake_die("out of memory");
    }
    return p;
}

FakeHost *fake_host_new(void)
{
    FakeHost *h = fake_alloc(1, sizeof(FakeHost));

    h->page_room = FAKE_LOG;
    return h;
}

void fake_host_free(FakeHost *h)
{
    for (unsigned i = 0; i < h->segment_count; i++) {
        free(h->segments[i].bytes);
    }
    for (unsigned i = 0; i < h->queue_count; i++) {
        for (uint32_t n = h->queues[i].ci; n != h->queues[i].pi; n++) {
            RoceSendWr *wr;

            if (h->queues[i].kind != FAKE_SQ) {
                break;
            }
            wr = &h->queues[i].sends[n % FAKE_QUEUE_DEPTH];
            if (wr->opcode == FAKERNIC_SQ_REG_MR && !wr->format_error) {
                free(wr->reg_mr.pages);
            }
        }
        free(h->queues[i].sends);
        free(h->queues[i].recvs);
    }
    free(h);
}

/* ---- memory -------------------------------------------------------------- */

uint8_t *fake_memory_add(FakeHost *h, uint64_t dma, size_t size)
{
    FakeSegment *s = &h->segments[h->segment_count];

    if (h->segment_count == FAKE_SEGMENTS) {
        fake_die("too many segments");
    }
    h->segment_count++;
    s->dma = dma;
    s->size = size;
    s->bytes = fake_alloc(1, size);
    return s->bytes;
}

static FakeSegment *fake_segment(FakeHost *h, uint64_t dma)
{
    for (unsigned i = 0; i < h->segment_count; i++) {
        FakeSegment *s = &h->segments[i];

        if (dma >= s->dma && dma - s->dma < s->size) {
            return s;
        }
    }
    return NULL;
}

uint8_t *fake_memory(FakeHost *h, uint64_t dma, size_t len)
{
    FakeSegment *s = fake_segment(h, dma);

    if (!s || len > s->size - (dma - s->dma)) {
        return NULL;
    }
    return s->bytes + (dma - s->dma);
}

void fake_memory_unreachable(FakeHost *h, uint64_t dma, bool unreachable)
{
    FakeSegment *s = fake_segment(h, dma);

    if (!s) {
        fake_die("no such segment");
    }
    s->unreachable = unreachable;
}

static void fake_log_dma(FakeHost *h, char kind, uint64_t address, size_t len)
{
    FakeDma *d = &h->dma[h->dma_count++ % FAKE_LOG];

    d->kind = kind;
    d->address = address;
    d->len = len;
}

/* One access, which may continue into adjacent segments. */
static bool fake_access(FakeHost *h, char kind, uint64_t address, uint8_t *in,
                        const uint8_t *out, size_t len)
{
    fake_log_dma(h, kind, address, len);
    if (len == 0) {
        fake_die("DMA of no bytes");
    }
    if (h->fail_dma_in != 0 && --h->fail_dma_in == 0) {
        return false;
    }
    while (len != 0) {
        FakeSegment *s = fake_segment(h, address);
        size_t offset, piece;

        if (!s || s->unreachable) {
            return false;
        }
        offset = (size_t)(address - s->dma);
        piece = s->size - offset < len ? s->size - offset : len;
        if (in) {
            memcpy(in, s->bytes + offset, piece);
            in += piece;
        } else {
            memcpy(s->bytes + offset, out, piece);
            out += piece;
        }
        address += piece;
        len -= piece;
    }
    return true;
}

static bool fake_dma_read(void *host, uint64_t address, void *buf, size_t len)
{
    return fake_access(host, 'r', address, buf, NULL, len);
}

static bool fake_dma_write(void *host, uint64_t address, const void *buf,
                           size_t len)
{
    return fake_access(host, 'w', address, NULL, buf, len);
}

static bool fake_dma_atomic(void *host, uint64_t address, RoceAtomic *op)
{
    uint8_t bytes[8];

    if (address % 8 != 0) {
        fake_die("unaligned atomic");
    }
    if (!fake_access(host, 'a', address, bytes, NULL, 8)) {
        return false;
    }
    op->original = bytes_load64(bytes);
    bytes_store64(fake_memory(host, address, 8),
                  roce_atomic_result(op, op->original));
    return true;
}

/* Every byte must exist. This memory is visible and persistent at once. */
static bool fake_flushable(FakeHost *h, uint64_t address, uint64_t len)
{
    while (len != 0) {
        FakeSegment *s = fake_segment(h, address);
        uint64_t piece;

        if (!s || s->unreachable) {
            return false;
        }
        piece = s->size - (address - s->dma);
        piece = piece < len ? piece : len;
        address += piece;
        len -= piece;
    }
    return true;
}

static RoceFlush fake_dma_flush(void *host, const RoceFlushJob *job,
                                uint64_t *done)
{
    FakeHost *h = host;

    for (unsigned i = 0; i < job->count; i++) {
        fake_log_dma(h, job->persistent ? 'p' : 'f', job->part[i].address,
                     job->part[i].len);
        if (job->part[i].len == 0) {
            fake_die("DMA of no bytes");
        }
        if ((h->fail_dma_in != 0 && --h->fail_dma_in == 0) ||
            !fake_flushable(h, job->part[i].address, job->part[i].len)) {
            return ROCE_FLUSH_FAILED;
        }
    }
    if (job->count == 0 || (job->count > 1 && !job->persistent)) {
        fake_die("FLUSH of another number of parts");
    }
    if (job->persistent && h->flush_later > 0) {
        h->flush_later--;
        return ROCE_FLUSH_LATER;
    }
    if (job->persistent && h->flush_begun > 0) {
        h->flush_begun--;
        h->flush_qpn = job->qpn;
        h->flush_ticket = job->ticket;
        *done = h->flush_part;
        return ROCE_FLUSH_BEGUN;
    }
    return ROCE_FLUSH_DONE;
}

/* ---- queues -------------------------------------------------------------- */

static FakeQueue *fake_queue(FakeHost *h, FakeQueueKind kind, uint32_t id)
{
    FakeQueue *q;

    for (unsigned i = 0; i < h->queue_count; i++) {
        if (h->queues[i].kind == kind && h->queues[i].id == id) {
            return &h->queues[i];
        }
    }
    if (h->queue_count == FAKE_QUEUES) {
        fake_die("too many queues");
    }
    q = &h->queues[h->queue_count++];
    q->kind = kind;
    q->id = id;
    if (kind == FAKE_SQ) {
        q->sends = fake_alloc(FAKE_QUEUE_DEPTH, sizeof(q->sends[0]));
    } else {
        q->recvs = fake_alloc(FAKE_QUEUE_DEPTH, sizeof(q->recvs[0]));
    }
    return q;
}

static uint32_t fake_queue_slot(FakeQueue *q)
{
    if (q->pi - q->ci == FAKE_QUEUE_DEPTH) {
        fake_die("queue full");
    }
    return q->pi++ % FAKE_QUEUE_DEPTH;
}

void fake_post_send(FakeHost *h, uint32_t qpn, const RoceSendWr *wr)
{
    FakeQueue *q = fake_queue(h, FAKE_SQ, qpn);

    q->sends[fake_queue_slot(q)] = *wr;
}

void fake_post_recv(FakeHost *h, uint32_t qpn, const RoceRecvWr *wr)
{
    FakeQueue *q = fake_queue(h, FAKE_RQ, qpn);

    q->recvs[fake_queue_slot(q)] = *wr;
}

void fake_post_srq(FakeHost *h, uint32_t srqn, const RoceRecvWr *wr)
{
    FakeQueue *q = fake_queue(h, FAKE_SRQ, srqn);

    q->recvs[fake_queue_slot(q)] = *wr;
}

void fake_srq_xrc(FakeHost *h, uint32_t srqn, uint32_t xrcdn, RocePd pd,
                  uint32_t cqn)
{
    FakeQueue *q = fake_queue(h, FAKE_SRQ, srqn);

    q->xrcdn = xrcdn;
    q->xrc = (RoceXrcSrq) { .id = ++h->srq_ids, .pd = pd, .cqn = cqn };
}

void fake_queue_break(FakeHost *h, FakeQueueKind kind, uint32_t id,
                      uint16_t vendor_err)
{
    fake_queue(h, kind, id)->broken = vendor_err;
}

uint32_t fake_queue_left(FakeHost *h, FakeQueueKind kind, uint32_t id)
{
    FakeQueue *q = fake_queue(h, kind, id);

    return q->pi - q->ci;
}

void fake_queue_reset(FakeHost *h, FakeQueueKind kind, uint32_t id)
{
    FakeQueue *q = fake_queue(h, kind, id);

    q->ci = q->pi;
}

static RoceFetch fake_next_send(void *host, uint32_t qpn, RoceSendWr *wr)
{
    FakeQueue *q = fake_queue(host, FAKE_SQ, qpn);

    if (q->broken) {
        memset(wr, 0, sizeof(*wr));
        wr->format_error = q->broken;
        return ROCE_FETCH_ERROR;
    }
    if (q->pi == q->ci) {
        return ROCE_FETCH_NONE;
    }
    *wr = q->sends[q->ci++ % FAKE_QUEUE_DEPTH];
    return ROCE_FETCH_OK;
}

static RoceFetch fake_next_recv(void *host, uint32_t qpn, uint32_t srqn,
                                RoceRecvWr *wr)
{
    FakeQueue *q = srqn ? fake_queue(host, FAKE_SRQ, srqn)
                        : fake_queue(host, FAKE_RQ, qpn);

    if (q->broken) {
        memset(wr, 0, sizeof(*wr));
        wr->format_error = q->broken;
        return ROCE_FETCH_ERROR;
    }
    if (q->pi == q->ci) {
        return ROCE_FETCH_NONE;
    }
    *wr = q->recvs[q->ci++ % FAKE_QUEUE_DEPTH];
    return ROCE_FETCH_OK;
}

static uint32_t fake_recv_count(void *host, uint32_t qpn)
{
    const FakeQueue *q = fake_queue(host, FAKE_RQ, qpn);

    return q->broken ? 0 : q->pi - q->ci;
}

static bool fake_xrc_srq(void *host, uint32_t srqn, uint32_t xrcdn,
                         RoceXrcSrq *srq)
{
    FakeHost *h = host;

    /* Not fake_queue(): a number from the wire must not create a queue. */
    for (unsigned i = 0; i < h->queue_count; i++) {
        const FakeQueue *q = &h->queues[i];

        if (q->kind == FAKE_SRQ && q->id == srqn && q->xrcdn != 0 &&
            q->xrcdn == xrcdn && !q->broken) {
            *srq = q->xrc;
            return true;
        }
    }
    return false;
}

/* ---- logs ---------------------------------------------------------------- */

static void fake_complete(void *host, const RoceCompletion *completion)
{
    FakeHost *h = host;

    if (h->completion_count == FAKE_LOG) {
        fake_die("too many completions");
    }
    h->completions[h->completion_count++] = *completion;
}

static void fake_event(void *host, uint8_t type, uint32_t id,
                       uint16_t vendor_err)
{
    FakeHost *h = host;

    if (h->event_count == FAKE_LOG) {
        fake_die("too many events");
    }
    h->events[h->event_count++] = (FakeEvent) {
        .type = type, .id = id, .vendor_err = vendor_err
    };
}

const RoceCompletion *fake_next_completion(FakeHost *h)
{
    return h->completion_taken < h->completion_count
               ? &h->completions[h->completion_taken++] : NULL;
}

const FakeEvent *fake_next_event(FakeHost *h)
{
    return h->event_taken < h->event_count ? &h->events[h->event_taken++]
                                           : NULL;
}

static bool fake_page_request(void *host, uint32_t key, uint64_t address,
                              uint64_t length, bool write)
{
    FakeHost *h = host;

    if (h->page_count == FAKE_LOG) {
        fake_die("too many page requests");
    }
    if (h->page_count - h->page_taken == h->page_room) {
        return false;
    }
    h->pages[h->page_count++] = (FakePageRequest) {
        .key = key, .address = address, .length = length, .write = write,
    };
    return true;
}

const FakePageRequest *fake_next_page_request(FakeHost *h)
{
    return h->page_taken < h->page_count ? &h->pages[h->page_taken++] : NULL;
}

void fake_clear_logs(FakeHost *h)
{
    h->page_count = 0;
    h->page_taken = 0;
    h->completion_count = 0;
    h->completion_taken = 0;
    h->event_count = 0;
    h->event_taken = 0;
    h->dma_count = 0;
}

static void fake_trace(void *host, RoceTracePoint point, uint32_t qpn,
                       uint32_t a, uint32_t b)
{
    static const char *const names[] = {
        "send_wr", "rx", "drop", "nak_tx", "nak_rx", "retry", "timeout",
        "probe", "qp_state", "qp_error",
    };
    FakeHost *h = host;

    if ((size_t)point >= sizeof(names) / sizeof(names[0])) {
        fake_die("unknown trace point");
    }
    if (h->print_trace) {
        printf("# %-8s qpn=%" PRIu32 " a=0x%" PRIx32 " b=0x%" PRIx32 "\n",
               names[point], qpn, a, b);
    }
}

const RoceHostOps fake_host_ops = {
    .dma_read = fake_dma_read,
    .dma_write = fake_dma_write,
    .dma_atomic = fake_dma_atomic,
    .dma_flush = fake_dma_flush,
    .next_send = fake_next_send,
    .next_recv = fake_next_recv,
    .recv_count = fake_recv_count,
    .xrc_srq = fake_xrc_srq,
    .page_request = fake_page_request,
    .complete = fake_complete,
    .event = fake_event,
    .trace = fake_trace,
};
