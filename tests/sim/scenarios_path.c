/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Named histories: rates, congestion, alternate paths, credits, and keys that
 * are destroyed while frames are in flight.
 */
#include "scenario.h"

/* ---- rates --------------------------------------------------------------- */

static void bulk(SimOptions *o)
{
    o->max_size = 1000000;
    o->mtu = FAKERNIC_MTU_4096;
    o->timeout = 18;
    o->limit_pct = 100;
    o->limit_mbps = 1000;
}

/* The time of one megabyte, in microseconds. */
static int64_t time_of_megabyte(void)
{
    RoceTime start = w->now;

    add(FAKERNIC_SQ_RDMA_WRITE, 1000000);
    post_all();
    world_run(w, SEC, model_all_done);
    CHECK(succeeded() == 1);
    return (w->now - start) / US;
}

static void rate_limit_is_kept_and_reached(void)
{
    int64_t should, took;

    open_world(bulk);
    should = 8000000000ll / a->limit_kbps;
    took = time_of_megabyte();
    /* Headers add 2 %, a burst of a millisecond may go at once. */
    CHECK(took > should - 1000);
    CHECK(took < should + should / 20 + 1000);
    world_history(w);
}

static void static_rate(SimOptions *o)
{
    o->max_size = 1000000;
    o->mtu = FAKERNIC_MTU_4096;
    o->timeout = 18;
    o->static_rate_pct = 100;
}

static void static_rate_is_kept_and_reached(void)
{
    static const uint32_t gbps_x10[] = { 0, 0, 25, 100, 300, 50, 200, 400 };
    int64_t should, took;

    open_world(static_rate);
    should = 80000 / (int64_t)gbps_x10[a->static_rate];
    took = time_of_megabyte();
    CHECK(took > should - 1000);
    CHECK(took < should + should / 20 + 1000);
    world_history(w);
}

/* ---- congestion ---------------------------------------------------------- */

static void congestible(SimOptions *o)
{
    o->max_size = 1000000;
    o->mtu = FAKERNIC_MTU_4096;
    o->timeout = 20;
    o->rate_mbps = 10000;
    o->tx_burst = 1;
    o->dcqcn = 1;
}

static void marks_slow_a_sender_down(void)
{
    int64_t clean, marked;

    open_world(congestible);
    clean = time_of_megabyte();
    CHECK(clean < 2000);
    CHECK(STAT(1, TX_CNP) == 0);
    world_history(w);
    world_free(w);

    open_world(congestible);
    w->options.ecn_ppm = 1000000;
    marked = time_of_megabyte();
    CHECK(marked > 2 * clean);
    CHECK(STAT(1, RX_ECN_MARKED) > 100);
    CHECK(STAT(1, TX_CNP) > 10);
    CHECK(STAT(0, RX_CNP) == STAT(1, TX_CNP));
    world_history(w);
}

static void sender_recovers_from_marks(void)
{
    int64_t first, later;

    open_world(congestible);
    w->options.ecn_ppm = 1000000;
    add(FAKERNIC_SQ_RDMA_WRITE, 400000);
    add(FAKERNIC_SQ_RDMA_WRITE, 400000);
    workload_finish(w);
    host_post_send(a, 1);
    world_run(w, SEC, model_all_done);
    first = w->now;
    w->options.ecn_ppm = 0;
    world_run(w, w->now + 100 * MS, never_stop);
    later = w->now;
    host_post_send(a, 1);
    world_run(w, w->now + SEC, model_all_done);
    later = w->now - later;
    CHECK(succeeded() == 2);
    CHECK(later * 2 < first);
    world_history(w);
}

static void one_cnp_in_50_us(void)
{
    open_world(congestible);
    w->options.ecn_ppm = 1000000;
    w->options.dcqcn = 0;
    time_of_megabyte();
    CHECK(STAT(1, TX_CNP) <= (uint64_t)w->now / (50 * US) + 1);
    world_history(w);
}

/* ---- alternate paths ----------------------------------------------------- */

static void second_path(SimOptions *o)
{
    o->apm_pct = 100;
    o->migrate_pct = 1;         /* paths can be cut */
}

static void open_armed(void)
{
    open_world(second_path);
    a->apm = b->apm = true;
    host_modify_state(a, FAKERNIC_QPS_RESET);
    host_modify_state(b, FAKERNIC_QPS_RESET);
    a->gid_index &= 1;
    b->gid_index = a->gid_index;
    host_connect(a, b, b->sq_psn);
    host_connect(b, a, a->sq_psn);
    add_send(10);
    add_send(1000);
    add(FAKERNIC_SQ_RDMA_READ, 1000);
    workload_add_send(b, FAKERNIC_SQ_RDMA_WRITE, 10, SIGNALED);
    workload_add_send(b, FAKERNIC_SQ_RDMA_WRITE, 1000, SIGNALED);
    workload_finish(w);
    host_post_recv(b->rq, 2);
    host_post_send(a, 1);
    host_post_send(b, 1);
    world_run(w, 100 * US, never_stop);
    CHECK(host_qp_armed(a));
    CHECK(host_qp_armed(b));
}

static void primary_path_dies_both_ways(void)
{
    open_armed();
    a->conn->cut[0] = a->conn->cut[1] = true;
    host_post_send(a, 2);
    host_post_send(b, 1);
    world_history(w);
    CHECK(succeeded() == 3);
    CHECK(a->migrated && b->migrated);
    CHECK(STAT(0, PATH_MIGRATIONS) == 1);
}

static void primary_path_dies_one_way(void)
{
    open_armed();
    a->conn->cut[1] = true;     /* b's responses */
    host_post_send(a, 2);
    host_post_send(b, 1);
    world_history(w);
    CHECK(succeeded() == 3);
    CHECK(a->migrated && b->migrated);
}

/* The QP that migrates later has few retries left of the old path, and must get
 * all of them again. */
static void second_qp_to_migrate_gets_all_retries(void)
{
    open_armed();
    a->conn->cut[0] = a->conn->cut[1] = true;
    host_post_send(a, 2);
    world_run(w, w->now + 500 * US, never_stop);
    host_post_send(b, 1);
    world_history(w);
    CHECK(succeeded() == 3);
    CHECK(b->send[1].done == SIM_OK);
}

/* ---- credits ------------------------------------------------------------- */

static void credits_prevent_rnr(void)
{
    open_world(NULL);
    for (unsigned i = 0; i < 8; i++) {
        add_send(10);
    }
    workload_finish(w);
    host_post_recv(b->rq, 2);
    host_post_send(a, UINT32_MAX);
    world_run(w, 1 * MS, model_all_done);
    /* Only the probe finds no receive. */
    CHECK(b->received == 2);
    CHECK(STAT(0, CREDIT_WAITS) >= 1);
    host_post_recv(b->rq, UINT32_MAX);
    world_history(w);
    CHECK(succeeded() == 8);
}

/* ---- late frames --------------------------------------------------------- */

static void duplicate_read_of_destroyed_key_is_dropped(void)
{
    SimMr *mr;

    open_world(NULL);
    mr = host_mr_new(b->host, 4096, FAKERNIC_ACCESS_LOCAL_WRITE | REMOTE,
                     SIM_PD);
    aim_at(mr);
    add(FAKERNIC_SQ_RDMA_READ, 100);
    w->script.delay[0] = FRAME(0);
    w->script.delay_ns = 30 * MS;
    workload_finish(w);
    host_post_send(a, 1);
    world_run(w, 20 * MS, model_all_done);
    CHECK(succeeded() == 1);    /* by the second request */
    host_mr_destroy(mr);
    world_run(w, 40 * MS, world_quiet);
    CHECK(STAT(1, DUPLICATES) >= 1);
    world_history(w);
}

/* ---- memory that moves or fails ------------------------------------------ */

static void one_frame(SimOptions *o)
{
    o->tx_burst = 1;
    o->rate_mbps = 1000;
}

static uint64_t frames_wanted;

static bool has_sent(World *world)
{
    return world->link.sent[0] >= frames_wanted;
}

static void regions_are_reregistered_during_message(void)
{
    open_world(one_frame);
    add_send(8000);
    add(FAKERNIC_SQ_RDMA_WRITE, 8000);
    post_all();
    for (frames_wanted = 4; frames_wanted < 60; frames_wanted += 7) {
        world_run(w, SEC, has_sent);
        for (unsigned i = 0; i < 2; i++) {
            for (uint32_t k = 0; k < w->host[i]->mr_count; k++) {
                change_event(w->host[i], k << 1 | 1);
            }
        }
    }
    world_history(w);
    CHECK(succeeded() == 2);
    CHECK(STAT(0, RETRANSMITS) == 0);
}

/* The message ends early; later ones are flushed, and the peer gets no NAK. */
static void source_memory_fails_during_message(void)
{
    Host *h;

    open_world(one_frame);
    a->conn->injected = true;
    a->fault_send = ANY_STATUS;
    b->fault_recv = ANY_STATUS;
    add_send(8000);
    add(FAKERNIC_SQ_RDMA_WRITE, 100);
    post_all();
    frames_wanted = 5;
    world_run(w, SEC, has_sent);
    h = w->host[0];
    h->dma_fail_lo = SIM_DMA_BASE(0);
    h->dma_fail_hi = h->dma_fail_lo + (uint64_t)SIM_BLOCKS * SIM_BLOCK;
    world_history(w);
    CHECK(a->send[0].status == FAKERNIC_WC_LOC_PROT_ERR);
    CHECK(a->send[1].status == FAKERNIC_WC_WR_FLUSH_ERR);
    CHECK(b->received == 0);
}

/* ---- the list ------------------------------------------------------------ */

const Scenario scenarios_path[] = {
    S(rate_limit_is_kept_and_reached), S(static_rate_is_kept_and_reached),
    S(marks_slow_a_sender_down), S(sender_recovers_from_marks),
    S(one_cnp_in_50_us), S(primary_path_dies_both_ways),
    S(primary_path_dies_one_way), S(second_qp_to_migrate_gets_all_retries),
    S(credits_prevent_rnr), S(duplicate_read_of_destroyed_key_is_dropped),
    S(regions_are_reregistered_during_message),
    S(source_memory_fails_during_message),
    { NULL, NULL },
};
