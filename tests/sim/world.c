/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Virtual time: the event queue, the engines' deadlines, and the log.
 *
 * The loop takes the next event or deadline of an engine, sets 'now' to its
 * time, executes it, and drains that engine. The only check here is that time
 * moves. An engine whose deadline stays in the past, or a world that runs for
 * millions of steps, is a failure (livelock).
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

#define WORLD_STEPS_MAX 3000000u
#define WORLD_TICKS_AT_ONCE 256u

bool sim_verbose;

/* ---- memory that is freed with the world --------------------------------- */

typedef struct SimChunk {
    struct SimChunk *next;
    size_t used, size;
    _Alignas(16) uint8_t data[];
} SimChunk;

void *world_alloc(World *w, size_t size)
{
    SimChunk *c = w->chunks;
    void *p;

    size = (size + 15) & ~(size_t)15;
    if (!c || c->size - c->used < size) {
        size_t room = size > 65536 ? size : 65536;

        c = malloc(sizeof(*c) + room);
        c->next = w->chunks;
        c->used = 0;
        c->size = room;
        w->chunks = c;
    }
    p = c->data + c->used;
    c->used += size;
    memset(p, 0, size);
    return p;
}

World *world_new(const SimOptions *options, uint64_t seed)
{
    World *w = calloc(1, sizeof(*w));

    w->seed = seed;
    w->options = *options;
    w->verbose = sim_verbose;
    w->digest = 0xcbf29ce484222325ull;
    w->faults_end = options->faults_ms * MS;
    rng_seed(&w->rng, seed ^ 0x5deece66dull);
    rng_seed(&w->save_rng, seed ^ 0x5a7eull);
    for (unsigned i = 0; i < 2; i++) {
        uint32_t size = options->max_size > 9000 ? options->max_size : 9000;

        w->scratch[i] = malloc(size + 1);
    }
    w->heap_size = 256;
    w->heap = calloc(w->heap_size, sizeof(*w->heap));
    for (unsigned i = 0; i < options->hosts && i < SIM_HOSTS; i++) {
        w->host[i] = host_new(w, i);
    }
    return w;
}

void world_free(World *w)
{
    SimChunk *c, *next;

    for (uint32_t i = 0; i < w->heap_count; i++) {
        free(w->heap[i].frame);
    }
    for (unsigned i = 0; i < SIM_HOSTS && w->host[i]; i++) {
        host_free(w->host[i]);
    }
    for (c = w->chunks; c; c = next) {
        next = c->next;
        free(c);
    }
    free(w->scratch[0]);
    free(w->scratch[1]);
    free(w->heap);
    free(w);
}

/* ---- the log ------------------------------------------------------------- */

static const char *const trace_name[] = {
    [ROCE_TRACE_SEND_WR] = "SEND_WR", [ROCE_TRACE_RX] = "RX",
    [ROCE_TRACE_DROP] = "DROP", [ROCE_TRACE_NAK_TX] = "NAK_TX",
    [ROCE_TRACE_NAK_RX] = "NAK_RX", [ROCE_TRACE_RETRY] = "RETRY",
    [ROCE_TRACE_TIMEOUT] = "TIMEOUT", [ROCE_TRACE_PROBE] = "PROBE",
    [ROCE_TRACE_QP_STATE] = "QP_STATE", [ROCE_TRACE_QP_ERROR] = "QP_ERROR",
};

static const char *const log_name[] = {
    [LOG_TRACE] = "trace", [LOG_TX] = "->", [LOG_RX] = "<-",
    [LOG_LOST] = "LOST", [LOG_DUPLICATED] = "DUPLICATED",
    [LOG_CORRUPTED] = "CORRUPTED", [LOG_TRUNCATED] = "TRUNCATED",
    [LOG_DELAYED] = "DELAYED", [LOG_POST_SEND] = "post_send",
    [LOG_POST_RECV] = "post_recv", [LOG_FETCH_SEND] = "fetch_send",
    [LOG_FETCH_RECV] = "fetch_recv", [LOG_FORGED] = "FORGED",
    [LOG_MARKED] = "MARKED",
    [LOG_FLAP] = "FLAP", [LOG_MIGRATE] = "MIGRATE",
    [LOG_COMPLETE] = "complete",
    [LOG_EVENT] = "event", [LOG_INJECT] = "INJECT", [LOG_TICK] = "tick",
    [LOG_MODIFY] = "modify", [LOG_WANTED] = "WANTED", [LOG_PAGES] = "pages",
    [LOG_MOVED] = "MOVED",
};

static void log_print(const SimLogEntry *e)
{
    printf("# %12.3f us  h%u %-11s ", (double)e->time / 1000, e->host,
           log_name[e->kind]);
    switch (e->kind) {
    case LOG_TX:
    case LOG_FORGED:
    case LOG_RX:
        printf("%-15s qpn %u psn %06x len %u syndrome %02x\n",
               frame_opcode_name(e->d), e->a, e->b, e->c, e->e);
        break;
    case LOG_TRACE:
        printf("%-10s qpn %u a %x b %x\n",
               e->d < sizeof(trace_name) / sizeof(trace_name[0])
               ? trace_name[e->d] : "?", e->a, e->b, e->c);
        break;
    case LOG_COMPLETE:
        printf("qpn %u wr %u bytes %u opcode %u status %u\n", e->a, e->b, e->c,
               e->d, e->e);
        break;
    case LOG_POST_SEND:
    case LOG_FETCH_SEND:
        printf("qpn %u wr %u length %u opcode %u flags %02x\n", e->a, e->b,
               e->c, e->d, e->e);
        break;
    default:
        printf("%u %u %u %u %u\n", e->a, e->b, e->c, e->d, e->e);
    }
}

void world_log(World *w, unsigned host, SimLogKind kind, uint32_t a,
               uint32_t b, uint32_t c, uint8_t d, uint8_t e)
{
    SimLogEntry *entry = &w->log[w->log_count++ & (SIM_LOG - 1)];
    uint64_t words[3];

    *entry = (SimLogEntry){ .time = w->now, .kind = (uint8_t)kind,
                            .host = (uint8_t)host, .d = d, .e = e, .a = a,
                            .b = b, .c = c };
    words[0] = (uint64_t)w->now << 16 ^ (uint64_t)kind << 8 ^ host;
    words[1] = (uint64_t)a << 32 | b;
    words[2] = (uint64_t)c << 32 | (uint64_t)d << 8 | e;
    for (unsigned i = 0; i < 3; i++) {
        w->digest = (w->digest ^ words[i]) * 0x100000001b3ull;
        w->digest ^= w->digest >> 29;
    }
    if (w->verbose) {
        log_print(entry);
    }
}

void world_print_log(World *w, unsigned last)
{
    uint64_t from = w->log_count > last ? w->log_count - last : 0;

    for (uint64_t i = from; i < w->log_count; i++) {
        log_print(&w->log[i & (SIM_LOG - 1)]);
    }
}

/* Only the first failure counts. */
void world_fail(World *w, const char *format, ...)
{
    va_list args;

    if (w->failed) {
        return;
    }
    w->failed = true;
    va_start(args, format);
    vsnprintf(w->failure, sizeof(w->failure), format, args);
    va_end(args);
}

/* ---- events: a binary heap by (time, order) ------------------------------ */

static bool event_before(const SimEvent *a, const SimEvent *b)
{
    return a->time != b->time ? a->time < b->time : a->order < b->order;
}

/* The caller may fill in the returned event until the next call. */
SimEvent *world_schedule(World *w, RoceTime time, SimEventKind kind,
                         unsigned host)
{
    SimEvent ev = { .time = time, .order = w->event_order++, .kind = kind,
                    .host = host };
    uint32_t i = w->heap_count++;

    if (i == w->heap_size) {
        w->heap_size *= 2;
        w->heap = realloc(w->heap, w->heap_size * sizeof(*w->heap));
    }
    while (i && event_before(&ev, &w->heap[(i - 1) / 2])) {
        w->heap[i] = w->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    w->heap[i] = ev;
    return &w->heap[i];
}

static SimEvent event_pop(World *w)
{
    SimEvent top = w->heap[0], last = w->heap[--w->heap_count];
    uint32_t i = 0, child;

    while ((child = 2 * i + 1) < w->heap_count) {
        if (child + 1 < w->heap_count &&
            event_before(&w->heap[child + 1], &w->heap[child])) {
            child++;
        }
        if (!event_before(&w->heap[child], &last)) {
            break;
        }
        w->heap[i] = w->heap[child];
        i = child;
    }
    if (w->heap_count) {
        w->heap[i] = last;
    }
    return top;
}

/* ---- engines ------------------------------------------------------------- */

/* The host's timer is set to the engine's deadline, and fires late. */
static void world_set_wake(World *w, Host *h)
{
    RoceTime deadline = roce_deadline(h->roce);

    if (deadline == ROCE_TIME_NEVER) {
        h->wake = ROCE_TIME_NEVER;
        return;
    }
    if (deadline < w->now) {
        deadline = w->now;
    }
    h->wake = deadline + w->options.tick_late_ns;
}

void world_pump(World *w, Host *h)
{
    uint8_t buf[ROCE_FRAME_MAX];
    uint32_t budget = w->options.tx_burst ? w->options.tx_burst : UINT32_MAX;
    bool loopback;
    size_t len;

    while (budget && !h->tx_scheduled && !w->failed) {
        loopback = false;
        len = roce_output(h->roce, w->now, buf, &loopback);
        if (!len) {
            break;
        }
        link_send(w, h->number, buf, len, loopback);
        budget--;
        if (++w->steps > WORLD_STEPS_MAX) {
            world_fail(w, "livelock: too many frames");
        }
    }
    /* The wire is full: the rest waits until it has room again. */
    if (!budget && !h->tx_scheduled) {
        RoceTime wait = w->options.rate_mbps
                        ? w->link.wire_free[h->number] - w->now : 500;

        h->tx_scheduled = true;
        world_schedule(w, w->now + (wait > 0 ? wait : 1), EV_TX, h->number);
    }
    world_set_wake(w, h);
}

static void world_frame(World *w, SimEvent *ev)
{
    Host *h = w->host[ev->host];
    SimFrame f;
    RoceInput result;

    w->link.in_flight--;
    if (!link_takes(w, ev->host)) {
        world_log(w, ev->host, LOG_LOST, ev->host, 3, 0, 0, 0);
        free(ev->frame);
        return;
    }
    frame_parse(ev->frame, ev->frame_len, &f);
    world_log(w, ev->host, LOG_RX, f.dest_qpn, f.psn, f.payload, f.opcode,
              f.syndrome);
    result = roce_input(h->roce, w->now, ev->frame, ev->frame_len);
    if (result == ROCE_INPUT_ETHERNET && frame_is_raw(ev->frame) &&
        w->everybody.count) {
        roce_input_ethernet(h->roce, w->now,
                            w->everybody.member[ev->host]->qpn, ev->frame,
                            ev->frame_len, false);
    } else if (result == ROCE_INPUT_ETHERNET && !w->options.hostile_ppm &&
               !w->options.corrupt_ppm &&
               !w->options.truncate_ppm) {
        world_fail(w, "host %u took a RoCEv2 frame for plain Ethernet",
                   ev->host);
    }
    free(ev->frame);
    world_pump(w, h);
}

static void world_tick(World *w, Host *h)
{
    unsigned ticks = 0;

    do {
        world_log(w, h->number, LOG_TICK, 0, 0, 0, 0, 0);
        roce_tick(h->roce, w->now);
        world_pump(w, h);
        if (++ticks > WORLD_TICKS_AT_ONCE) {
            world_fail(w, "host %u: the deadline stays in the past",
                       h->number);
        }
    } while (roce_deadline(h->roce) <= w->now && !w->failed);
}

/* The medium has finished a job, and the next QP that needs it can begin. */
static void world_flushed(World *w, Host *h)
{
    const uint64_t ticket = h->flush_ticket;

    h->flush_ticket = 0;
    roce_flush_ended(h->roce, h->flush_qpn, ticket, true);
    do {
        world_pump(w, h);
    } while (!h->flush_ticket && roce_flush_resume(h->roce));
}

static void world_handle(World *w, SimEvent *ev)
{
    switch (ev->kind) {
    case EV_FRAME:
        world_frame(w, ev);
        break;
    case EV_TX:
        w->host[ev->host]->tx_scheduled = false;
        world_pump(w, w->host[ev->host]);
        break;
    case EV_FLUSHED:
        world_flushed(w, w->host[ev->host]);
        break;
    default:
        inject_event(w, ev);
    }
}

bool world_run(World *w, RoceTime until, bool (*stop)(World *w))
{
    while (!w->failed && !stop(w)) {
        RoceTime next = w->heap_count ? w->heap[0].time : ROCE_TIME_NEVER;
        Host *due = NULL;

        for (unsigned i = 0; i < SIM_HOSTS && w->host[i]; i++) {
            if (w->host[i]->wake < next) {
                next = w->host[i]->wake;
                due = w->host[i];
            }
        }
        if (next > until) {
            return false;
        }
        if (next > w->now) {
            w->now = next;
        }
        if (due) {
            world_tick(w, due);
        } else {
            SimEvent ev = event_pop(w);

            world_handle(w, &ev);
        }
        migrate_maybe(w);
        if (++w->steps > WORLD_STEPS_MAX) {
            world_fail(w, "livelock: too many events");
        }
    }
    return !w->failed;
}

bool world_quiet(World *w)
{
    if (w->heap_count) {
        return false;
    }
    for (unsigned i = 0; i < SIM_HOSTS && w->host[i]; i++) {
        if (roce_deadline(w->host[i]->roce) != ROCE_TIME_NEVER) {
            return false;
        }
    }
    return true;
}
