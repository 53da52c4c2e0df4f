/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Measures the engine alone: two engines in one process, on one core, without
 * QEMU, sockets and guests. The result is an upper bound for every wire, and
 * shows first what a change of the engine is worth. It does not pass or fail on
 * a rate, but exits with 2 if fault rules surely cost more than their limit.
 * Usage: engine [SECONDS PER CELL]; JSON on stdout, a table on stderr.
 */
#define _GNU_SOURCE
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fault/rules.h"
#include "roce.h"

#define MEMORY 0x40000000u      /* a DMA address, and the key's first one */
#define MEMORY_SIZE (4u << 20)
#define DEPTH 128u              /* work requests posted to a QP and not done */
#define QPS_MAX 1024u
#define BURST 32u               /* frames that one side takes in a turn */
#define DEVICE_SENDS 64         /* as the device has it */
#define DEVICE_READS 64

typedef struct BenchQp {
    uint32_t qpn;
    uint32_t posted, fetched, done;
} BenchQp;

typedef struct Side {
    Roce *r;
    uint8_t *memory;
    RoceGid gid;
    uint32_t key, peer_key;
    uint8_t opcode;
    uint32_t length;
    uint64_t completions, errors, frames;
    BenchQp *by_qpn[4096];
    BenchQp qp[QPS_MAX];
} Side;

static uint8_t burst[BURST][ROCE_FRAME_MAX];
static size_t burst_len[BURST];

static void die(const char *what)
{
    fprintf(stderr, "bench: %s\n", what);
    exit(1);
}

static double seconds(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static RoceTime now_ns(void)
{
    return (RoceTime)(seconds(CLOCK_MONOTONIC) * 1e9);
}

/* ---- the host ------------------------------------------------------------ */

static bool host_read(void *host, uint64_t address, void *buf, size_t len)
{
    memcpy(buf, ((Side *)host)->memory + (address - MEMORY), len);
    return true;
}

static bool host_write(void *host, uint64_t address, const void *buf,
                       size_t len)
{
    memcpy(((Side *)host)->memory + (address - MEMORY), buf, len);
    return true;
}

static RoceFetch host_next_send(void *host, uint32_t qpn, RoceSendWr *wr)
{
    Side *s = host;
    BenchQp *qp = s->by_qpn[qpn];

    if (qp->fetched == qp->posted) {
        return ROCE_FETCH_NONE;
    }
    /* What a host that decodes a WQE fills in, and no more. */
    wr->index = qp->fetched++;
    wr->opcode = s->opcode;
    wr->flags = FAKERNIC_SQ_SIGNALED;
    wr->sge_count = 1;
    wr->inline_length = 0;
    wr->format_error = 0;
    wr->imm_or_key = 0;
    wr->xrc_srqn = 0;
    wr->rdma.remote_address = MEMORY;
    wr->rdma.rkey = s->peer_key;
    wr->sge[0] = (RoceSge) { MEMORY, s->length, s->key };
    return ROCE_FETCH_OK;
}

static RoceFetch host_next_recv(void *host, uint32_t qpn, uint32_t srqn,
                                RoceRecvWr *wr)
{
    Side *s = host;

    (void)qpn;
    (void)srqn;
    wr->tag = 0;
    wr->sge_count = 1;
    wr->format_error = 0;
    wr->sge[0] = (RoceSge) { MEMORY, MEMORY_SIZE, s->key };
    return ROCE_FETCH_OK;
}

static uint32_t host_recv_count(void *host, uint32_t qpn)
{
    (void)host;
    (void)qpn;
    return 1000;
}

static void host_complete(void *host, const RoceCompletion *c)
{
    Side *s = host;

    s->errors += c->status != FAKERNIC_WC_SUCCESS;
    if (c->opcode != FAKERNIC_CQE_RECV) {
        s->completions++;
        s->by_qpn[c->qpn]->done++;
    }
}

static void host_event(void *host, uint8_t type, uint32_t id,
                       uint16_t vendor_err)
{
    (void)id;
    (void)vendor_err;
    ((Side *)host)->errors += type != FAKERNIC_EVENT_COMM_ESTABLISHED;
}

static const RoceHostOps host_ops = {
    .dma_read = host_read,
    .dma_write = host_write,
    .next_send = host_next_send,
    .next_recv = host_next_recv,
    .recv_count = host_recv_count,
    .complete = host_complete,
    .event = host_event,
};

/* ---- two sides ----------------------------------------------------------- */

static void side_new(Side *s, uint8_t last)
{
    const RoceLimits limits = {
        .max_qp = 4096, .max_mr = 65536, .max_pd = 8, .max_mcast_groups = 4,
        .gid_count = 4, .max_sends = DEVICE_SENDS,
        .max_rd_atomic = DEVICE_READS,
    };
    RoceMrInit mr = {
        .type = FAKERNIC_MR_MEMORY, .page_shift = 22, .pd = 1,
        .access = FAKERNIC_ACCESS_LOCAL_WRITE | FAKERNIC_ACCESS_REMOTE_WRITE |
                  FAKERNIC_ACCESS_REMOTE_READ,
        .page_count = 1, .iova = MEMORY, .length = MEMORY_SIZE,
        .pages = malloc(sizeof(uint64_t)),
    };

    memset(s, 0, sizeof(*s));
    s->memory = aligned_alloc(4096, MEMORY_SIZE);
    memset(s->memory, last, MEMORY_SIZE);
    s->r = roce_new(&limits, &host_ops, s);
    mr.pages[0] = MEMORY;
    s->gid = (RoceGid) {
        .type = FAKERNIC_GID_IPV4, .vlan = FAKERNIC_VLAN_NONE,
        .mac = { 2, 0, 0, 0, 0, last },
        .gid = { [10] = 0xff, 0xff, 10, 0, 0, last },
    };
    if (roce_mr_create(s->r, &mr, &s->key) || roce_gid_set(s->r, 0, &s->gid)) {
        die("no key or GID");
    }
}

static void side_free(Side *s)
{
    roce_free(s->r);
    free(s->memory);
}

static void side_create(Side *s, unsigned count)
{
    const RoceQpInit init = {
        .type = FAKERNIC_QP_RC, .has_sq = true, .has_rq = true, .pd = 1,
        .send_cqn = 1, .recv_cqn = 1,
    };

    for (unsigned i = 0; i < count; i++) {
        if (roce_qp_create(s->r, &init, &s->qp[i].qpn)) {
            die("no QP");
        }
        s->by_qpn[s->qp[i].qpn] = &s->qp[i];
    }
}

#define A(name) FAKERNIC_QP_ATTR_##name

static void side_connect(Side *s, const Side *peer, unsigned count, uint8_t mtu)
{
    static const uint32_t mask[3] = {
        A(STATE) | A(PORT) | A(PKEY_INDEX) | A(ACCESS_FLAGS),
        A(STATE) | A(AV) | A(PATH_MTU) | A(DEST_QPN) | A(RQ_PSN) |
            A(MAX_DEST_RD_ATOMIC) | A(MIN_RNR_TIMER),
        A(STATE) | A(SQ_PSN) | A(TIMEOUT) | A(RETRY_CNT) | A(RNR_RETRY) |
            A(MAX_RD_ATOMIC),
    };
    static const uint8_t state[3] = {
        FAKERNIC_QPS_INIT, FAKERNIC_QPS_RTR, FAKERNIC_QPS_RTS,
    };
    RoceQpAttr attr = {
        .port = 1, .access_flags = FAKERNIC_ACCESS_REMOTE_WRITE |
                        FAKERNIC_ACCESS_REMOTE_READ,
        .path_mtu = mtu, .max_rd_atomic = DEVICE_READS,
        .max_dest_rd_atomic = DEVICE_READS, .min_rnr_timer = 12,
        .timeout = 18, .retry_cnt = 7, .rnr_retry = 7,
    };
    uint32_t bad;

    memcpy(attr.av.dgid, peer->gid.gid, 16);
    memcpy(attr.av.dmac, peer->gid.mac, 6);
    s->peer_key = peer->key;
    for (unsigned i = 0; i < count; i++) {
        attr.dest_qpn = peer->qp[i].qpn;
        for (unsigned k = 0; k < 3; k++) {
            attr.state = state[k];
            if (roce_qp_modify(s->r, now_ns(), s->qp[i].qpn, mask[k], &attr,
                               &bad)) {
                die("a QP does not connect");
            }
        }
    }
}

/* ---- a cell -------------------------------------------------------------- */

static RoceFaults faults;

/* Adds rules that match nothing, alternately at both ends of the wire. */
static void arm(unsigned rules)
{
    char text[ROCE_FAULT_TEXT], error[ROCE_FAULT_ERROR];

    faults = (RoceFaults) { 0 };
    for (unsigned i = 0; i < rules; i++) {
        snprintf(text, sizeof(text), "at=%s qpn=%u opcode=rc-send-last nth=3 "
                                     "do=drop", i % 2 ? "rx" : "tx", 900 + i);
        if (!roce_fault_add(&faults, text, error)) {
            die(error);
        }
    }
}

/* Applies fault rules to a frame as the device does. */
static void pass(RoceFaultPoint point, const Side *s, const uint8_t *frame,
                 size_t len)
{
    if (roce_fault_at_frame(&faults, point, frame, len)) {
        const RoceFrameInfo *info = roce_output_info(s->r);
        RoceFaultSubject subject = {
            .point = point, .qpn = info->qpn, .index = info->index,
            .attempt = info->attempt,
        };

        roce_fault_look(&subject, frame, len);
        if (roce_fault_hit(&faults, &subject)) {
            die("a rule that matches nothing has hit");
        }
    }
}

/*
 * Runs one side's turn: up to 'most' frames, which the other side then takes.
 * 'hooks' is a constant, so that the compiler removes the hooks if it is false.
 */
static inline __attribute__((always_inline)) bool
turn(Side *from, Side *to, RoceTime now, unsigned most, bool hooks)
{
    bool loopback;
    unsigned n = 0;

    while (n < most && (burst_len[n] = roce_output(from->r, now, burst[n],
                                                   &loopback))) {
        if (hooks) {
            pass(ROCE_FAULT_TX, from, burst[n], burst_len[n]);
        }
        n++;
    }
    for (unsigned i = 0; i < n; i++) {
        if (hooks) {
            pass(ROCE_FAULT_RX, from, burst[i], burst_len[i]);
        }
        roce_input(to->r, now, burst[i], burst_len[i]);
    }
    from->frames += n;
    return n > 0;
}

typedef bool Turn(Side *from, Side *to, RoceTime now, unsigned most);

static bool turn_hooked(Side *from, Side *to, RoceTime now, unsigned most)
{
    return turn(from, to, now, most, true);
}

static bool turn_bare(Side *from, Side *to, RoceTime now, unsigned most)
{
    return turn(from, to, now, most, false);
}

static void post(Side *s, unsigned qps, uint32_t depth, RoceTime now)
{
    for (unsigned i = 0; i < qps; i++) {
        BenchQp *qp = &s->qp[i];

        if (qp->posted - qp->done <= depth / 2) {
            qp->posted = qp->done + depth;
            roce_post_send(s->r, now, qp->qpn);
        }
    }
}

typedef struct Cell {
    const char *name;
    uint8_t opcode;
    uint32_t length;
    unsigned qps, depth, most;
    uint8_t mtu;
    unsigned rules;
    bool bare;                  /* compiled without hooks for rules */
} Cell;

typedef struct Outcome {
    double rate, ns_per_turn, frames, frames_back;
} Outcome;

static Outcome run(const Cell *cell, double limit)
{
    static Side a, b;
    Turn *const take_turn = cell->bare ? turn_bare : turn_hooked;
    double start, spent, cpu;
    uint64_t turns = 0;
    Outcome found;

    side_new(&a, 1);
    side_new(&b, 2);
    side_create(&a, cell->qps);
    side_create(&b, cell->qps);
    side_connect(&a, &b, cell->qps, cell->mtu);
    side_connect(&b, &a, cell->qps, cell->mtu);
    a.opcode = cell->opcode;
    a.length = cell->length;
    arm(cell->rules);
    start = seconds(CLOCK_MONOTONIC);
    cpu = seconds(CLOCK_THREAD_CPUTIME_ID);
    do {
        for (unsigned i = 0; i < 16; i++) {
            const RoceTime now = now_ns();

            post(&a, cell->qps, cell->depth, now);
            take_turn(&a, &b, now, cell->most);
            take_turn(&b, &a, now, cell->most);
            turns += 2;
        }
    } while (seconds(CLOCK_MONOTONIC) - start < limit);
    /* Of this thread only: other load on the machine does not count. */
    spent = seconds(CLOCK_THREAD_CPUTIME_ID) - cpu;
    if (a.errors || b.errors || !a.completions) {
        die("errors on a clean wire");
    }
    found = (Outcome) {
        .rate = (double)a.completions / spent,
        .ns_per_turn = spent / (double)turns * 1e9,
        .frames = (double)a.frames / (double)a.completions,
        .frames_back = (double)b.frames / (double)a.completions,
    };
    side_free(&a);
    side_free(&b);
    return found;
}

static void tell(const Cell *cell, double limit, bool first)
{
    const Outcome found = run(cell, limit);
    const double gigabytes = found.rate * cell->length / 1e9;

    fprintf(stderr, "%-6s %8u B %5u QPs  depth %3u  MTU %4u  %8.3f GB/s "
                    "%9.1f k/s %7.0f ns/turn  %5.2f frames back\n",
            cell->name, cell->length, cell->qps, cell->depth, 128u << cell->mtu,
            gigabytes, found.rate / 1e3, found.ns_per_turn, found.frames_back);
    printf("%s\n  {\"op\": \"%s\", \"bytes\": %u, \"qps\": %u, \"depth\": %u, "
           "\"mtu\": %u, \"gb_per_s\": %.4f, \"messages_per_s\": %.0f, "
           "\"ns_per_turn\": %.0f, \"frames_per_message\": %.3f, "
           "\"frames_back_per_message\": %.3f}", first ? "" : ",", cell->name,
           cell->length, cell->qps, cell->depth, 128u << cell->mtu, gigabytes,
           found.rate, found.ns_per_turn, found.frames, found.frames_back);
}

/* ---- fault rules --------------------------------------------------------- */

#define PAIRS 21

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

/* Two ways to run a cell, and how much of the rate the first may cost. */
typedef struct Cost {
    const char *what;
    unsigned rules;             /* of the first */
    bool than_bare;             /* the second has no hooks; else no rules */
    double bound;
} Cost;

static const Cost costs[] = {
    { "16 rules that match nothing, against none", 16, false, 0.05 },
    { "no rule, against no place for one", 0, true, 0.01 },
};

static double cost_rate(const Cost *cost, Cell cell, bool second, double limit)
{
    cell.rules = second ? 0 : cost->rules;
    cell.bare = second && cost->than_bare;
    return run(&cell, limit).rate;
}

/*
 * Measures the cost of rules: cells with and without, by turns, each compared
 * with its neighbour. The median lies between the sixth and the sixteenth of 21
 * ratios with 97 % probability. Returns false if that range exceeds the limit.
 */
static bool rules_cost(const Cost *cost, const Cell *cell, double limit,
                       bool first)
{
    const double least = 1 - cost->bound;
    double ratio[PAIRS];
    const char *verdict;

    for (unsigned i = 0; i < PAIRS; i++) {
        double rate[2];

        for (unsigned k = 0; k < 2; k++) {
            const bool second = (i + k) % 2;

            rate[second] = cost_rate(cost, *cell, second, limit);
        }
        ratio[i] = rate[0] / rate[1];
    }
    qsort(ratio, PAIRS, sizeof(ratio[0]), compare);
    verdict = ratio[5] >= least ? "kept" : ratio[15] < least ? "EXCEEDED"
                                                             : "not decided";
    fprintf(stderr, "%s, %u B: %.3f of the rate (%.3f to %.3f); bound of %.0f "
                    "%%: %s\n", cost->what, cell->length, ratio[PAIRS / 2],
            ratio[5], ratio[15], cost->bound * 100, verdict);
    printf("%s\n  {\"what\": \"%s\", \"bytes\": %u, \"ratio\": %.4f, "
           "\"from\": %.4f, \"to\": %.4f, \"bound\": %.2f, "
           "\"verdict\": \"%s\"}", first ? "" : ",", cost->what, cell->length,
           ratio[PAIRS / 2], ratio[5], ratio[15], cost->bound, verdict);
    return ratio[15] >= least;
}

/* ---- memory -------------------------------------------------------------- */

static double in_use(void)
{
    const struct mallinfo2 m = mallinfo2();

    return (double)m.uordblks + (double)m.hblkhd;
}

/* Memory of an engine as the device has it, of a QP, of a GiB of pages. */
static void memory(void)
{
    const uint32_t pages = 1u << 18;
    static Side a, b;
    RoceMrInit mr = {
        .type = FAKERNIC_MR_MEMORY, .page_shift = 12, .pd = 1,
        .page_count = pages, .length = (uint64_t)pages << 12,
    };
    double before = in_use(), idle, qp, gib, took;
    uint32_t key;

    side_new(&a, 1);
    idle = in_use() - before - MEMORY_SIZE;
    side_new(&b, 2);
    side_create(&b, 1000);
    before = in_use();
    side_create(&a, 1000);
    side_connect(&a, &b, 1000, FAKERNIC_MTU_1024);
    qp = (in_use() - before) / 1000;
    before = in_use();
    mr.pages = malloc(pages * sizeof(*mr.pages));
    for (uint32_t i = 0; i < pages; i++) {
        mr.pages[i] = (uint64_t)i << 13;
    }
    took = seconds(CLOCK_THREAD_CPUTIME_ID);
    if (roce_mr_create(a.r, &mr, &key)) {
        die("no region");
    }
    took = seconds(CLOCK_THREAD_CPUTIME_ID) - took;
    gib = in_use() - before;
    fprintf(stderr, "memory: engine %.0f KiB, connected QP %.1f KiB, "
                    "GiB of 4 KiB pages %.0f KiB, registered in %.2f ms\n",
            idle / 1024, qp / 1024, gib / 1024, took * 1e3);
    printf(" \"memory\": {\"engine\": %.0f, \"connected_qp\": %.0f, "
           "\"registered_gib\": %.0f, \"register_gib_ms\": %.3f}}\n", idle, qp,
           gib, took * 1e3);
    side_free(&a);
    side_free(&b);
}

int main(int argc, char **argv)
{
#define CELL(name, op, bytes, qps, depth, mtu) \
    { name, FAKERNIC_SQ_##op, bytes, qps, depth, BURST, \
      FAKERNIC_MTU_##mtu, 0, false }
    static const Cell cells[] = {
        CELL("write", RDMA_WRITE, 64, 1, 128, 4096),
        CELL("write", RDMA_WRITE, 64, 8, 128, 4096),
        CELL("write", RDMA_WRITE, 64, 64, 128, 4096),
        CELL("write", RDMA_WRITE, 64, 1000, 16, 4096),
        CELL("write", RDMA_WRITE, 8, 1, 1, 4096),
        CELL("write", RDMA_WRITE, 4096, 1, 128, 4096),
        CELL("write", RDMA_WRITE, 65536, 1, 128, 1024),
        CELL("write", RDMA_WRITE, 65536, 1, 128, 4096),
        CELL("write", RDMA_WRITE, 1 << 20, 8, 16, 4096),
        CELL("read", RDMA_READ, 64, 1, 128, 4096),
        CELL("read", RDMA_READ, 65536, 1, 128, 4096),
        CELL("send", SEND, 64, 1, 128, 4096),
        CELL("send", SEND, 65536, 1, 128, 4096),
    };
    static const Cell ruled[] = {
        CELL("write", RDMA_WRITE, 64, 1, 128, 4096),
        CELL("write", RDMA_WRITE, 65536, 1, 128, 4096),
    };
    const double limit = argc > 1 ? atof(argv[1]) : 0.5;
    bool kept = true;

    printf("{\"burst\": %u, \"cells\": [", BURST);
    for (unsigned i = 0; i < sizeof(cells) / sizeof(cells[0]); i++) {
        tell(&cells[i], limit, i == 0);
    }
    printf("],\n \"rules\": [");
    for (unsigned i = 0; i < 4; i++) {
        kept &= rules_cost(&costs[i / 2], &ruled[i % 2], limit / 5, i == 0);
    }
    printf("],\n");
    memory();
    if (!kept) {
        fprintf(stderr, "fault rules cost more than they may\n");
    }
    return kept ? 0 : 2;
}
