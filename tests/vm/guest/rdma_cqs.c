/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rdma_cqs: completion queues with moderated events, and completion queues that
 * are resized while a queue pair, connected to itself, uses them. Prints TAP.
 */
#define _GNU_SOURCE
#include "report.h"
#include "verbs_pair.h"

#include <poll.h>
#include <pthread.h>

#define WINDOW 8                /* work requests under way */
#define RESIZES 200
#define QUIET_MS 100
#define EVENT_WAIT_MS 10000

struct bench {
    struct endpoint end;
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
};

static void set_up(struct bench *bench)
{
    static uint8_t memory[4096];

    open_endpoint(&bench->end);
    bench->channel = ibv_create_comp_channel(bench->end.context);
    bench->cq = ibv_create_cq(bench->end.context, 64, NULL, bench->channel, 0);
    bench->mr = ibv_reg_mr(bench->end.pd, memory, sizeof(memory),
                           IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    if (!bench->channel || !bench->cq || !bench->mr) {
        die("channel, CQ and region");
    }
    bench->qp = create_rc(&bench->end, bench->cq);
    connect_to_itself(&bench->end, bench->qp, IBV_ACCESS_REMOTE_WRITE);
}

static void write_one(struct bench *bench, uint64_t wr_id)
{
    struct ibv_sge sge = { (uintptr_t)bench->mr->addr, 8, bench->mr->lkey };

    post(bench->qp, IBV_WR_RDMA_WRITE, &sge,
         (uintptr_t)bench->mr->addr + 2048, bench->mr->rkey, wr_id);
}

/* ---- events, moderated or not -------------------------------------------- */

static bool event_within(struct bench *bench, int wait_ms)
{
    struct pollfd fd = { .fd = bench->channel->fd, .events = POLLIN };
    struct ibv_cq *cq;
    void *context;

    if (poll(&fd, 1, wait_ms) != 1) {
        return false;
    }
    if (ibv_get_cq_event(bench->channel, &cq, &context) || cq != bench->cq) {
        die("ibv_get_cq_event");
    }
    ibv_ack_cq_events(cq, 1);
    return true;
}

/*
 * A completion that came before the arm and was not polled wakes the sleeper.
 */
static void armed_behind_a_completion(struct bench *bench)
{
    struct ibv_wc wc;
    bool late;

    write_one(bench, 1);
    write_one(bench, 2);
    usleep(QUIET_MS * 1000);    /* both have completed */
    if (ibv_poll_cq(bench->cq, 1, &wc) != 1 ||
        ibv_req_notify_cq(bench->cq, 0)) {
        die("poll, then arm");
    }
    late = event_within(bench, EVENT_WAIT_MS);
    report(late, "an entry not polled before the arm makes an event");
    if (ibv_poll_cq(bench->cq, 1, &wc) != 1 ||
        ibv_req_notify_cq(bench->cq, 0)) {
        die("poll the second, then arm");
    }
    report(!event_within(bench, QUIET_MS), "one that was polled makes none");
}

static void moderate(struct bench *bench, int count, int period_us)
{
    struct ibv_modify_cq_attr attr = {
        .attr_mask = IBV_CQ_ATTR_MODERATE,
        .moderate = { .cq_count = count, .cq_period = period_us },
    };

    if (ibv_modify_cq(bench->cq, &attr) || ibv_req_notify_cq(bench->cq, 0)) {
        die("ibv_modify_cq");
    }
}

/* The event comes with the fourth completion. */
static void moderated_by_count(struct bench *bench)
{
    bool early = false;

    moderate(bench, 4, 0);
    for (int i = 0; i < 3; i++) {
        write_one(bench, i);
    }
    early = event_within(bench, QUIET_MS);
    write_one(bench, 3);
    report(!early && event_within(bench, EVENT_WAIT_MS),
           "an event for four completions");
    for (int i = 0; i < 4; i++) {
        next_completion(bench->cq);
    }
}

/* A thousand never complete: the event comes after the time limit. */
static void moderated_by_period(struct bench *bench)
{
    const double period = 0.06;
    double start;
    bool came;

    moderate(bench, 1000, period * 1e6);
    start = seconds_now();
    write_one(bench, 0);
    came = event_within(bench, EVENT_WAIT_MS);
    report(came && seconds_now() - start >= period,
           "an event when its period is over");
    next_completion(bench->cq);
}

static void not_moderated(struct bench *bench)
{
    moderate(bench, 0, 0);
    write_one(bench, 0);
    report(event_within(bench, EVENT_WAIT_MS), "an event without delay");
    next_completion(bench->cq);
}

/* ---- resizing ------------------------------------------------------------ */

static void *resize(void *argument)
{
    static const int sizes[] = { 64, 16, 300, 9, 2000, 33 };
    struct bench *bench = argument;
    intptr_t failed = 0;

    for (int i = 0; i < RESIZES; i++) {
        int size = sizes[i % (sizeof(sizes) / sizeof(sizes[0]))];

        failed += ibv_resize_cq(bench->cq, size) || bench->cq->cqe < size;
    }
    return (void *)failed;
}

/* Every completion comes once, in order, whatever ring it was written to. */
static void resized_under_load(struct bench *bench)
{
    uint64_t posted = 0, polled = 0;
    pthread_t thread;
    bool fine = true, running = true;
    void *failed;

    if (pthread_create(&thread, NULL, resize, bench)) {
        die("pthread_create");
    }
    while (running || polled < posted) {
        struct ibv_wc wc;

        running = running && pthread_tryjoin_np(thread, &failed);
        while (running && posted - polled < WINDOW) {
            write_one(bench, posted++);
        }
        if (polled == posted) {
            continue;
        }
        wc = next_completion(bench->cq);
        fine &= wc.status == IBV_WC_SUCCESS && wc.wr_id == polled++;
    }
    report(!failed, "two hundred resizes");
    report(fine && polled > WINDOW, "no completion lost, doubled or overtaken");
    fprintf(stderr, "%ju completions\n", (uintmax_t)polled);
}

/* The entries do not fit into the new ring: the CQ keeps its size. */
static void not_smaller_than_full(struct bench *bench)
{
    bool fine = true;

    if (ibv_resize_cq(bench->cq, 16)) {
        die("ibv_resize_cq");
    }
    for (int i = 0; i < WINDOW; i++) {
        write_one(bench, i);
    }
    sleep(1);
    report(ibv_resize_cq(bench->cq, 4) && bench->cq->cqe == 16,
           "smaller than what lies in it");
    for (int i = 0; i < WINDOW; i++) {
        struct ibv_wc wc = next_completion(bench->cq);

        fine &= wc.status == IBV_WC_SUCCESS && wc.wr_id == (uint64_t)i;
    }
    report(fine, "entries stay after a refused resize");
}

int main(void)
{
    struct bench bench = { 0 };

    setvbuf(stdout, NULL, _IOLBF, 0);
    set_up(&bench);
    armed_behind_a_completion(&bench);
    moderated_by_count(&bench);
    moderated_by_period(&bench);
    not_moderated(&bench);
    not_smaller_than_full(&bench);
    resized_under_load(&bench);
    return end_report();
}
