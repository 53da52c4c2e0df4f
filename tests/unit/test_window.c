/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The window of a QP with wires that lose frames, and with slow peers. Two
 * engines run in virtual time, with a queue of bounded length each way.
 */
#include "pair.h"

#define QPS 8
#define FRAME_NS 8000           /* one frame of 4 KiB at 500 MB/s */

/* ---- the window itself --------------------------------------------------- */

static void loss_halves_window_and_acks_enlarge_it(void)
{
    RoceWindow w;
    unsigned i;

    roce_window_init(&w, 128);
    roce_window_answered(&w, 1000);
    CHECK_EQ(w.size, 128);
    CHECK(!roce_window_reduced(&w));
    roce_window_lost(&w);
    CHECK_EQ(w.size, 64);
    roce_window_answered(&w, 63);
    CHECK_EQ(w.size, 64);
    roce_window_answered(&w, 1);
    CHECK_EQ(w.size, 65);
    for (i = 0; i < 20; i++) {
        roce_window_lost(&w);
    }
    CHECK_EQ(w.size, ROCE_WINDOW_MIN);
    roce_window_answered(&w, UINT32_MAX / 2);
    CHECK_EQ(w.size, 128);
}

static void small_windows_request_more_acks(void)
{
    RoceWindow w;

    roce_window_init(&w, 128);
    CHECK_EQ(roce_window_ack_every(&w, 32), 32);
    roce_window_lost(&w);
    CHECK_EQ(roce_window_ack_every(&w, 32), 16);
    while (w.size > ROCE_WINDOW_MIN) {
        roce_window_lost(&w);
    }
    CHECK_EQ(roce_window_ack_every(&w, 32), 1);
}

static void busy_qps_share_the_window(void)
{
    RoceWindow w;

    roce_window_init(&w, 128);
    CHECK_EQ(roce_window_share(&w, 0), 128);
    CHECK_EQ(roce_window_share(&w, 1), 128);
    CHECK_EQ(roce_window_share(&w, 2), 128);
    CHECK_EQ(roce_window_share(&w, 4), ROCE_WINDOW_ALL / 4);
    CHECK_EQ(roce_window_share(&w, 1000), ROCE_WINDOW_SHARE);
    while (w.size > ROCE_WINDOW_MIN) {
        roce_window_lost(&w);
    }
    CHECK_EQ(roce_window_share(&w, 1000), ROCE_WINDOW_MIN);
}

/* ---- the wire ------------------------------------------------------------ */

typedef struct Wire {
    unsigned room;              /* capacity in frames; more are lost */
    RoceTime frame_ns;
    struct {
        uint8_t *frame;
        size_t len;
        RoceTime at;            /* when it arrives */
    } queue[8192];
    unsigned head, tail;
    RoceTime free_at;
    unsigned sent, lost;
    unsigned most;              /* most frames since it was set to 0 */
} Wire;

typedef struct Run {
    Pair p;
    Wire wire[2];               /* frames from a, frames from b */
    uint32_t qpn[2][QPS];
    unsigned qps;
    bool b_is_slow;             /* b sends before it receives again */
    unsigned posted, completions;
} Run;

static void wire_send(Run *run, Wire *wire, const uint8_t *frame, size_t len)
{
    unsigned count = wire->tail - wire->head;

    wire->sent++;
    if (count >= wire->room) {
        wire->lost++;
        return;
    }
    REQUIRE(count < TEST_COUNT(wire->queue));
    if (wire->free_at < run->p.now) {
        wire->free_at = run->p.now;
    }
    wire->free_at += wire->frame_ns;
    count = wire->tail++ % TEST_COUNT(wire->queue);
    wire->queue[count].frame = malloc(len);
    memcpy(wire->queue[count].frame, frame, len);
    wire->queue[count].len = len;
    wire->queue[count].at = wire->free_at;
    if (wire->tail - wire->head > wire->most) {
        wire->most = wire->tail - wire->head;
    }
}

/* A host sends its frames; the slow one sends at most 256 at a time. */
static void run_pump(Run *run, unsigned side)
{
    PairHost *h = side ? &run->p.b : &run->p.a;
    unsigned budget = side && run->b_is_slow ? 256 : UINT32_MAX;
    uint8_t buf[ROCE_FRAME_MAX];
    bool loopback;
    size_t len;

    while (budget-- > 0 &&
           (len = roce_output(h->r, run->p.now, buf, &loopback)) > 0) {
        wire_send(run, &run->wire[side], buf, len);
    }
}

static RoceTime run_arrival(const Run *run, unsigned side)
{
    const Wire *wire = &run->wire[side];
    RoceTime at;

    if (wire->head == wire->tail) {
        return ROCE_TIME_NEVER;
    }
    at = wire->queue[wire->head % TEST_COUNT(wire->queue)].at;
    /* The slow host receives once its frames are on the wire. */
    if (side == 0 && run->b_is_slow && run->wire[1].free_at > at) {
        at = run->wire[1].free_at;
    }
    return at;
}

static void run_take(Run *run, unsigned side)
{
    Wire *wire = &run->wire[side];
    PairHost *h = side ? &run->p.a : &run->p.b;
    unsigned i = wire->head++ % TEST_COUNT(wire->queue);

    CHECK_EQ(roce_input(h->r, run->p.now, wire->queue[i].frame,
                        wire->queue[i].len), ROCE_INPUT_TAKEN);
    free(wire->queue[i].frame);
    run_pump(run, !side);
}

/* Runs until all is done, and counts the successful completions of a. */
static void run_all(Run *run)
{
    const RoceCompletion *c;
    unsigned half = run->posted / 2;
    unsigned steps = 0;

    run_pump(run, 0);
    for (;;) {
        RoceTime a = run_arrival(run, 0);
        RoceTime b = run_arrival(run, 1);
        RoceTime da = roce_deadline(run->p.a.r);
        RoceTime db = roce_deadline(run->p.b.r);
        RoceTime next = a < b ? a : b;

        next = da < next ? da : next;
        next = db < next ? db : next;
        if (next == ROCE_TIME_NEVER) {
            break;
        }
        REQUIRE(++steps < 2000000);
        run->p.now = next > run->p.now ? next : run->p.now;
        if (next == a) {
            run_take(run, 0);
        } else if (next == b) {
            run_take(run, 1);
        } else {
            roce_tick(run->p.a.r, run->p.now);
            roce_tick(run->p.b.r, run->p.now);
            run_pump(run, 0);
            run_pump(run, 1);
        }
        while ((c = fake_next_completion(run->p.a.host))) {
            run->completions += c->status == FAKERNIC_WC_SUCCESS;
            if (run->completions == half) {
                run->wire[0].most = run->wire[1].most = 0;
            }
        }
        fake_clear_logs(run->p.a.host);
        fake_clear_logs(run->p.b.host);
    }
}

static Run *run_new(unsigned qps, unsigned room, RoceTime frame_ns)
{
    Run *run = calloc(1, sizeof(*run));
    unsigned i;

    pair_init(&run->p, FAKERNIC_QP_RC);
    run->qps = qps;
    for (i = 0; i < qps; i++) {
        if (i > 0) {
            pair_create(&run->p.a, FAKERNIC_QP_RC);
            pair_create(&run->p.b, FAKERNIC_QP_RC);
            pair_connect(&run->p.a, &run->p.b, FAKERNIC_QP_RC);
            pair_connect(&run->p.b, &run->p.a, FAKERNIC_QP_RC);
        }
        run->qpn[0][i] = run->p.a.qpn;
        run->qpn[1][i] = run->p.b.qpn;
    }
    for (i = 0; i < 2; i++) {
        run->wire[i].room = room;
        run->wire[i].frame_ns = frame_ns;
    }
    return run;
}

/* 'count' messages of 'packets' packets on each QP. */
static void run_post(Run *run, uint8_t opcode, unsigned count,
                     unsigned packets)
{
    unsigned i, k;

    for (i = 0; i < run->qps; i++) {
        run->p.a.qpn = run->qpn[0][i];
        for (k = 0; k < count; k++) {
            RoceSendWr wr = pair_rdma_wr(&run->p.a, &run->p.b, k, opcode, 0,
                                         packets * PAIR_MTU);

            pair_send(&run->p, &run->p.a, &wr);
            run->posted++;
        }
        /* Each QP's requests leave before those of the next QP. */
        run_pump(run, 0);
    }
}

static void run_free(Run *run)
{
    pair_free(&run->p);
    free(run);
}

/* ---- wires that lose ----------------------------------------------------- */

/* A UDP socket of 213 KB holds 50 frames. */
static void lossy_run(uint8_t opcode, unsigned qps, unsigned count,
                      unsigned packets)
{
    Run *run = run_new(qps, 50, FRAME_NS);
    uint64_t useful = (uint64_t)qps * count * packets;
    RoceTime ideal = (RoceTime)useful * FRAME_NS;

    run_post(run, opcode, count, packets);
    run_all(run);
    printf("# opcode %u, %u QPs, %u x %u packets: %.1f times the ideal time, "
           "%u frames lost of %u\n", opcode, qps, count, packets,
           (double)run->p.now / (double)ideal,
           run->wire[0].lost + run->wire[1].lost,
           run->wire[0].sent + run->wire[1].sent);
    CHECK_EQ(run->completions, qps * count);
    /*
     * A retry of 128 packets after 250 ms would take 100 times as long.
     */
    CHECK(run->p.now < 8 * ideal);
    CHECK(run->wire[0].lost + run->wire[1].lost < useful / 3);
    CHECK(pair_stat(&run->p.a, FAKERNIC_STAT_RETRANSMITS) < useful);
    run_free(run);
}

static void writes_fit_a_short_queue(void)
{
    lossy_run(FAKERNIC_SQ_RDMA_WRITE, 1, 250, 16);
    lossy_run(FAKERNIC_SQ_RDMA_WRITE, 1, 100, 256);
    lossy_run(FAKERNIC_SQ_RDMA_WRITE, 8, 250, 16);
    lossy_run(FAKERNIC_SQ_RDMA_WRITE, 8, 60, 256);
}

static void reads_fit_a_short_queue(void)
{
    lossy_run(FAKERNIC_SQ_RDMA_READ, 1, 250, 16);
    lossy_run(FAKERNIC_SQ_RDMA_READ, 1, 100, 256);
    lossy_run(FAKERNIC_SQ_RDMA_READ, 8, 250, 16);
    lossy_run(FAKERNIC_SQ_RDMA_READ, 8, 60, 256);
}

/* ---- peers that are slow ------------------------------------------------- */

/*
 * The peer answers one request after the other, so the last of eight QPs waits
 * until all the others have their data. Nothing is lost.
 */
static void long_reads_from_slow_peer_do_not_time_out(void)
{
    Run *run = run_new(QPS, UINT32_MAX, 5 * FRAME_NS);

    run->b_is_slow = true;
    run_post(run, FAKERNIC_SQ_RDMA_READ, 12, 256);
    run_all(run);
    CHECK_EQ(run->completions, QPS * 12);
    CHECK_EQ(pair_stat(&run->p.a, FAKERNIC_STAT_TIMEOUTS), 0);
    /* Each QP may probe once, after a silence longer than those before. */
    CHECK(pair_stat(&run->p.b, FAKERNIC_STAT_DUPLICATES) <= QPS);
    CHECK(pair_stat(&run->p.a, FAKERNIC_STAT_DROP_RESPONSE) <
          QPS * 12 * 256 / 16);
    run_free(run);
}

/* ---- many QPs ------------------------------------------------------------ */

/*
 * Once all QPs are active, they share a window that limits the queue. No QP
 * retransmits, and the wire is never idle.
 */
static void queue_of_many(uint8_t opcode, unsigned side)
{
    Run *run = run_new(QPS, UINT32_MAX, FRAME_NS);
    uint64_t useful = (uint64_t)QPS * 75 * 16;

    run_post(run, opcode, 75, 16);
    run_all(run);
    printf("# opcode %u: %u frames in the queue\n", opcode,
           run->wire[side].most);
    CHECK_EQ(run->completions, QPS * 75);
    CHECK(run->wire[side].most >= ROCE_WINDOW_ALL / 2);
    CHECK(run->wire[side].most <= ROCE_WINDOW_ALL + 16);
    CHECK_EQ(pair_stat(&run->p.a, FAKERNIC_STAT_RETRANSMITS), 0);
    CHECK(run->p.now < (RoceTime)useful * FRAME_NS * 11 / 10);
    run_free(run);
}

static void many_qps_keep_queues_short(void)
{
    queue_of_many(FAKERNIC_SQ_RDMA_WRITE, 0);
    queue_of_many(FAKERNIC_SQ_RDMA_READ, 1);
}

/* QPs in error only poll for receives, and take no share of the window. */
static void failed_qps_have_no_share_of_window(void)
{
    unsigned i;
    PAIR(p, FAKERNIC_QP_RC);

    for (i = 0; i < 8; i++) {
        RoceQpAttr attr = { .state = FAKERNIC_QPS_ERR };
        PairHost other = p.a;

        pair_create(&other, FAKERNIC_QP_RC);
        CHECK_EQ(pair_modify(&other, 0, FAKERNIC_QP_ATTR_STATE, &attr),
                 FAKERNIC_CMD_OK);
    }
    p.b.mute = true;
    pair_post_rdma(&p, 1, FAKERNIC_SQ_RDMA_WRITE, 0, 100 * PAIR_MTU);
    pair_run(&p);
    CHECK_EQ(p.a.sent, 100);
}

static const Test tests[] = {
    TEST(loss_halves_window_and_acks_enlarge_it),
    TEST(busy_qps_share_the_window),
    TEST(small_windows_request_more_acks),
    TEST(writes_fit_a_short_queue),
    TEST(reads_fit_a_short_queue),
    TEST(long_reads_from_slow_peer_do_not_time_out),
    TEST(many_qps_keep_queues_short),
    TEST(failed_qps_have_no_share_of_window),
};

TEST_MAIN(tests)
