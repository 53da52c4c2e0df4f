/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The end of an input of the target "frames": each engine is saved and loaded,
 * whatever state it is in. It must load, save the same bytes again, and
 * continue in place of the old one. Then a changed stream is loaded into
 * another engine. It may be refused, but nothing may crash or hang, then or in
 * what the loaded engine does.
 */
#include "frames.h"
#include "stream.h"
#include "../stream.h"

#define CHANGES 4u              /* the last records of the input */
#define FRAMES_AFTER 8u
#define TICKS_AFTER 6u

static void save_move(World *w, Side *side, Stream *before)
{
    static Stream after;
    char error[ROCE_LOAD_ERROR];
    Roce *r = world_engine(&side->host, &w->config);

    before->size = before->read = after.size = 0;
    FUZZ_CHECK(roce_save(side->r, stream_write, before));
    if (!roce_load(r, stream_read, before, error)) {
        fuzz_broken(__FILE__, __LINE__, error);
    }
    FUZZ_CHECK(before->read == before->size);
    FUZZ_CHECK(roce_save(r, stream_write, &after));
    FUZZ_CHECK(stream_equal(&after, before));
    roce_free(side->r);
    side->r = r;
}

/* ---- a host without rules ------------------------------------------------ */

static bool any_read(void *host, uint64_t address, void *buf, size_t len)
{
    (void)host;
    memset(buf, (int)address, len);
    return address % 7 != 0;
}

static bool any_write(void *host, uint64_t address, const void *buf,
                      size_t len)
{
    (void)host, (void)buf, (void)len;
    return address % 7 != 0;
}

static bool any_atomic(void *host, uint64_t address, RoceAtomic *op)
{
    (void)host, (void)op;
    return address % 16 != 0;
}

static RoceFlush any_flush(void *host, const RoceFlushJob *job, uint64_t *done)
{
    (void)host;
    *done = 1;
    return job->persistent ? (RoceFlush)(job->ticket % 4) : ROCE_FLUSH_DONE;
}

static RoceFetch any_send(void *host, uint32_t qpn, RoceSendWr *wr)
{
    (void)host, (void)qpn, (void)wr;
    return ROCE_FETCH_NONE;
}

static RoceFetch any_recv(void *host, uint32_t qpn, uint32_t srqn,
                          RoceRecvWr *wr)
{
    (void)host, (void)srqn;
    wr->tag = 0;
    wr->sge_count = 0;
    wr->format_error = 0;
    return qpn % 2 ? ROCE_FETCH_NONE : ROCE_FETCH_ERROR;
}

static uint32_t any_recv_count(void *host, uint32_t qpn)
{
    (void)host;
    return qpn;
}

static bool any_srq(void *host, uint32_t srqn, uint32_t xrcdn, RoceXrcSrq *srq)
{
    (void)host, (void)xrcdn;
    *srq = (RoceXrcSrq) { .id = srqn, .pd = 1, .cqn = 1 };
    return srqn < 4;
}

static bool any_pages(void *host, uint32_t key, uint64_t address,
                      uint64_t length, bool write)
{
    (void)host, (void)address, (void)length, (void)write;
    return key & 0x100;
}

static void any_complete(void *host, const RoceCompletion *completion)
{
    (void)host, (void)completion;
}

static void any_event(void *host, uint8_t type, uint32_t id,
                      uint16_t vendor_err)
{
    (void)host, (void)id, (void)vendor_err;
    FUZZ_CHECK(type > FAKERNIC_EVENT_COMPLETION &&
               type <= FAKERNIC_EVENT_LAST_WQE_REACHED);
}

static const RoceHostOps any_ops = {
    .dma_read = any_read,
    .dma_write = any_write,
    .dma_atomic = any_atomic,
    .dma_flush = any_flush,
    .next_send = any_send,
    .next_recv = any_recv,
    .recv_count = any_recv_count,
    .xrc_srq = any_srq,
    .page_request = any_pages,
    .complete = any_complete,
    .event = any_event,
};

/* ---- changed streams ----------------------------------------------------- */

static void save_change(Stream *s, const FuzzRecord *r)
{
    const size_t at = r->e % (s->size + 1);
    const size_t left = s->size - at;
    size_t len = 1 + r->a % 8u;

    if (left == 0) {
        return;
    }
    len = len < left ? len : left;
    switch (r->b % 8u) {
    case 0:
        s->size = at;
        break;
    case 1:
        memset(s->bytes + at, 0, len);
        break;
    case 2:
        memset(s->bytes + at, 0xff, len);
        break;
    case 3:
        memmove(s->bytes + at, s->bytes + at + len, left - len);
        s->size -= len;
        break;
    case 4:
        s->bytes[at] ^= (uint8_t)(1u << r->c % 8u);
        break;
    default:
        memcpy(s->bytes + at, &r->g, len);
        break;
    }
}

/* Everything that a host calls without knowing what was loaded. */
static void save_use(Roce *r, RoceTime now)
{
    uint8_t buf[ROCE_FRAME_MAX];
    bool loopback;
    size_t len;

    for (uint32_t qpn = 0; qpn < HOST_QPS; qpn++) {
        roce_post_send(r, now, qpn);
        roce_flush_ended(r, qpn, qpn, true);
    }
    roce_page_requests_resume(r);
    roce_flush_resume(r);
    roce_wake_some(r);
    for (unsigned i = 0; i < TICKS_AFTER; i++) {
        RoceTime deadline = roce_deadline(r);

        for (unsigned n = 0; n < FRAMES_AFTER; n++) {
            len = roce_output(r, now, buf, &loopback);
            if (len == 0) {
                break;
            }
            FUZZ_CHECK(len <= sizeof(buf));
            roce_input(r, now, buf, len);
        }
        now = deadline > now && deadline < ROCE_STREAM_TIME_MAX ? deadline
                                                                : now + 1;
        roce_tick(r, now);
    }
    for (uint32_t qpn = 0; qpn < HOST_QPS; qpn++) {
        roce_qp_error(r, now, qpn, 1);
        roce_qp_destroy(r, qpn);
    }
}

static void save_load_changed(Frames *f, Stream *s)
{
    char error[ROCE_LOAD_ERROR] = "";
    RoceMrView view;
    RoceLimits limits = world_limits(&f->w.config);
    Roce *r = roce_new(&limits, &any_ops, NULL);
    bool loaded;

    s->read = 0;
    loaded = roce_load(r, stream_read, s, error);
    FUZZ_CHECK(loaded || (error[0] && !strchr(error, '\n')));
    FUZZ_CHECK(loaded || !roce_mr_view(r, 1, &view));
    save_use(r, f->w.now);
    roce_free(r);
}

void frames_save(Frames *f)
{
    static Stream s;
    FuzzRecord r;

    save_move(&f->w, &f->w.side[0], &s);
    save_move(&f->w, &f->w.side[1], &s);
    f->input.at = f->input.size > CHANGES * sizeof(r)
                      ? f->input.size - CHANGES * sizeof(r) : 0;
    while (fuzz_next(&f->input, &r)) {
        save_change(&s, &r);
    }
    save_load_changed(f, &s);
}
