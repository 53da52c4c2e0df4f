/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Named histories: sequences known to be hard, with faults as constants.
 *
 * A bit of a mask is a frame of that host, counted from its first. Host 0 has
 * the requester; with a path MTU of 256 bytes a message of 1024 is frames 0..3,
 * and host 1's first frame is its first answer. The oracle checks completions,
 * bytes and silence as in any history; a scenario adds what it alone knows.
 */
#include <stdio.h>
#include <string.h>

#include "sim.h"

#define SIGNALED FAKERNIC_SQ_SIGNALED
#define FRAME(n) (1ull << (n))

static World *w;                /* the current scenario's */
static SimQp *a, *b;            /* requester on host 0, responder on host 1 */

/* ---- setting up ---------------------------------------------------------- */

static void open_world(void (*change)(SimOptions *o))
{
    SimOptions o;
    SimConn *conn;

#define SET_DEFAULT(name, value) o.name = value;
    SIM_OPTIONS(SET_DEFAULT)
#undef SET_DEFAULT
    o.mtu = FAKERNIC_MTU_256;
    o.timeout = 8;              /* 1 ms */
    o.mercy = 0;
    o.psn = 0xfffffe;           /* wraps in every message */
    if (change) {
        change(&o);
    }
    w = world_new(&o, 1);
    conn = workload_connect(w, 0, o.hosts - 1, FAKERNIC_QP_RC);
    a = conn->side[0];
    b = conn->side[1];
}

static void check(bool ok, const char *what)
{
    if (!ok) {
        world_fail(w, "expected: %s", what);
    }
}
#define CHECK(condition) check(condition, #condition)

static uint64_t stat(unsigned host, unsigned number)
{
    return roce_stats(w->host[host]->roce)[number];
}
#define STAT(host, name) stat(host, FAKERNIC_STAT_##name)

static unsigned succeeded(void)
{
    unsigned count = 0;

    for (uint32_t i = 0; i < a->send_count; i++) {
        count += a->send[i].done == SIM_OK;
    }
    return count;
}

static bool never_stop(World *world)
{
    (void)world;
    return false;
}

/* Frames so far, counted by the switch. */
static uint64_t sent(unsigned host)
{
    return w->link.sent[host];
}

static void post_all(void)
{
    workload_finish(w);
    host_post_recv(b->rq, UINT32_MAX);
    host_post_recv(a->rq, UINT32_MAX);
    host_post_send(a, UINT32_MAX);
    host_post_send(b, UINT32_MAX);
}

static void run(void)
{
    post_all();
    world_history(w);
}

static void add_send(uint32_t length)
{
    workload_add_send(a, FAKERNIC_SQ_SEND, length, SIGNALED);
    workload_add_recv(b->rq, length);
}

static void add(uint8_t opcode, uint32_t length)
{
    workload_add_send(a, opcode, length, SIGNALED);
    if (opcode == FAKERNIC_SQ_RDMA_WRITE_IMM) {
        workload_add_recv(b->rq, 0);
    }
}

/* ---- a good link: exact counts ------------------------------------------- */

static void good_send_takes_one_ack(void)
{
    open_world(NULL);
    add_send(1024);
    run();
    CHECK(sent(0) == 4);
    CHECK(sent(1) == 1);
    CHECK(STAT(0, RETRANSMITS) == 0);
}

static void good_read_takes_one_request(void)
{
    open_world(NULL);
    add(FAKERNIC_SQ_RDMA_READ, 1025);
    run();
    CHECK(sent(0) == 1);
    CHECK(sent(1) == 5);
}

static void good_empty_messages(void)
{
    open_world(NULL);
    add_send(0);
    add(FAKERNIC_SQ_RDMA_WRITE, 0);
    add(FAKERNIC_SQ_RDMA_READ, 0);
    add(FAKERNIC_SQ_RDMA_WRITE_IMM, 0);
    run();
    CHECK(succeeded() == 4);
}

static void one_host(SimOptions *o)
{
    o->hosts = 1;
}

static void good_loopback(void)
{
    open_world(one_host);
    add_send(700);
    add(FAKERNIC_SQ_RDMA_WRITE, 300);
    add(FAKERNIC_SQ_RDMA_READ, 2000);
    run();
    CHECK(STAT(0, RETRANSMITS) == 0);
}

/* ---- requests lost ------------------------------------------------------- */

static void send_first_lost(void)
{
    open_world(NULL);
    add_send(1024);
    w->script.lose[0] = FRAME(0);
    run();
    CHECK(STAT(1, TX_SEQ_NAK) == 1);
    CHECK(STAT(0, TIMEOUTS) == 0);
    CHECK(sent(0) == 8);
}

static void send_middle_lost(void)
{
    open_world(NULL);
    add_send(1024);
    w->script.lose[0] = FRAME(2);
    run();
    CHECK(STAT(1, TX_SEQ_NAK) == 1);
    CHECK(STAT(0, RETRANSMITS) == 2);
}

static void send_last_lost(void)
{
    open_world(NULL);
    add_send(1024);
    w->script.lose[0] = FRAME(3);
    run();
    CHECK(STAT(0, TIMEOUTS) == 1);
}

static void write_last_lost_then_acked_by_retry(void)
{
    open_world(NULL);
    add(FAKERNIC_SQ_RDMA_WRITE, 1024);
    w->script.lose[0] = FRAME(3);
    run();
    CHECK(STAT(0, TIMEOUTS) == 1);
}

static void whole_message_lost(void)
{
    open_world(NULL);
    add_send(1024);
    w->script.lose[0] = FRAME(0) | FRAME(1) | FRAME(2) | FRAME(3);
    run();
    CHECK(STAT(0, TIMEOUTS) == 1);
}

static void sequence_nak_comes_once(void)
{
    open_world(NULL);
    for (unsigned i = 0; i < 4; i++) {
        add_send(1024);
    }
    w->script.lose[0] = FRAME(1);
    run();
    /* 14 packets arrive out of sequence: one NAK (IBTA C9-114). */
    CHECK(STAT(1, TX_SEQ_NAK) == 1);
    CHECK(STAT(1, OUT_OF_SEQUENCE) > 1);
}

static void sequence_nak_lost(void)
{
    open_world(NULL);
    add_send(1024);
    w->script.lose[0] = FRAME(0);
    w->script.lose[1] = FRAME(0);
    run();
    CHECK(STAT(0, TIMEOUTS) == 1);
}

static void psn_wraps_within_lost_message(void)
{
    open_world(NULL);
    add(FAKERNIC_SQ_RDMA_WRITE, 1024);
    w->script.lose[0] = FRAME(1) | FRAME(2);    /* ffffff and 000000 */
    run();
    CHECK(STAT(1, TX_SEQ_NAK) == 1);
}

/* ---- answers lost -------------------------------------------------------- */

static void ack_lost(void)
{
    open_world(NULL);
    add_send(1024);
    w->script.lose[1] = FRAME(0);
    run();
    CHECK(STAT(0, TIMEOUTS) == 1);
    CHECK(STAT(1, DUPLICATES) >= 1);
    CHECK(b->received == 1);
}

static void ack_lost_but_later_one_covers(void)
{
    open_world(NULL);
    add_send(100);
    workload_finish(w);
    host_post_recv(b->rq, 1);
    host_post_send(a, 1);
    w->script.lose[1] = FRAME(0);
    world_history(w);
    CHECK(b->received == 1);
}

static void ack_delayed_beyond_timeout(void)
{
    open_world(NULL);
    add_send(1024);
    add_send(1024);
    w->script.delay[1] = FRAME(0) | FRAME(1);
    w->script.delay_ns = 10 * MS;
    run();
    CHECK(STAT(0, TIMEOUTS) >= 1);
}

static void read_response_lost(unsigned frame)
{
    open_world(NULL);
    add(FAKERNIC_SQ_RDMA_READ, 1024);
    w->script.lose[1] = FRAME(frame);
    run();
    /* Asked for again from the missing packet on, no earlier. */
    CHECK(sent(1) == 4 + 4 - frame);
}

static void read_response_first_lost(void)
{
    read_response_lost(0);
}

static void read_response_middle_lost(void)
{
    read_response_lost(2);
    CHECK(STAT(0, IMPLIED_NAK) == 1);
    CHECK(STAT(0, TIMEOUTS) == 0);
}

static void read_response_last_lost(void)
{
    read_response_lost(3);
    CHECK(STAT(0, TIMEOUTS) == 1);
}

static void read_request_lost(void)
{
    open_world(NULL);
    add(FAKERNIC_SQ_RDMA_READ, 1024);
    add(FAKERNIC_SQ_RDMA_READ, 512);
    w->script.lose[0] = FRAME(0);
    run();
    CHECK(succeeded() == 2);
}

static void ack_in_place_of_read_response(void)
{
    /* The READ's answer is lost, the SEND behind it is acknowledged: an
     * implied NAK, and the READ must not complete by that ACK. */
    open_world(NULL);
    add(FAKERNIC_SQ_RDMA_READ, 100);
    add_send(100);
    w->script.lose[1] = FRAME(0);
    run();
    CHECK(succeeded() == 2);
}

/* ---- duplicates ---------------------------------------------------------- */

static void duplicate_send_received_once(void)
{
    open_world(NULL);
    add_send(600);
    w->script.duplicate[0] = FRAME(0) | FRAME(1) | FRAME(2);
    run();
    CHECK(b->received == 1);
    CHECK(STAT(1, DUPLICATES) == 3);
}

static void duplicate_write_not_repeated(void)
{
    /* The copy of the first WRITE comes after the second one: it must not
     * bring back the old bytes. */
    open_world(NULL);
    for (unsigned i = 0; i < 8; i++) {
        add(FAKERNIC_SQ_RDMA_WRITE, 8192);
        a->send[i].zone_offset = 0;
    }
    w->script.duplicate[0] = ~0ull;
    run();
}

static void duplicate_read(void)
{
    open_world(NULL);
    add(FAKERNIC_SQ_RDMA_READ, 1024);
    w->script.duplicate[0] = FRAME(0);
    run();
    CHECK(succeeded() == 1);
}

static void duplicate_read_responses(void)
{
    open_world(NULL);
    add(FAKERNIC_SQ_RDMA_READ, 1024);
    add(FAKERNIC_SQ_RDMA_READ, 512);
    w->script.duplicate[1] = ~0ull;
    run();
    CHECK(succeeded() == 2);
}

static void duplicate_ack(void)
{
    open_world(NULL);
    for (unsigned i = 0; i < 6; i++) {
        add_send(300);
    }
    w->script.duplicate[1] = ~0ull;
    run();
    CHECK(STAT(0, RETRANSMITS) == 0);
}

static void duplicate_atomic_executed_once(void)
{
    open_world(NULL);
    add(FAKERNIC_SQ_ATOMIC_FETCH_ADD, 8);
    add(FAKERNIC_SQ_ATOMIC_CMP_SWAP, 8);
    w->script.duplicate[0] = FRAME(0) | FRAME(1);
    run();
    CHECK(succeeded() == 2);
}

static void atomic_answer_lost(void)
{
    open_world(NULL);
    add(FAKERNIC_SQ_ATOMIC_FETCH_ADD, 8);
    w->script.lose[1] = FRAME(0) | FRAME(1) | FRAME(2);
    run();
    CHECK(a->send[0].done == SIM_OK);
}

static void one_atomic_at_a_time(SimOptions *o)
{
    o->rd_atomic = 1;
}

static void atomics_and_reads_one_at_a_time(void)
{
    open_world(one_atomic_at_a_time);
    for (unsigned i = 0; i < 4; i++) {
        add(FAKERNIC_SQ_ATOMIC_FETCH_ADD, 8);
        add(FAKERNIC_SQ_RDMA_READ, 600);
    }
    w->script.lose[1] = FRAME(0) | FRAME(3) | FRAME(4);
    run();
    CHECK(STAT(1, TX_NAK_INVALID_REQUEST) == 0);
}

/* ---- reordering ---------------------------------------------------------- */

static void first_overtaken(void)
{
    open_world(NULL);
    add_send(1024);
    w->script.delay[0] = FRAME(0);
    w->script.delay_ns = 50 * US;
    run();
    CHECK(b->received == 1);
}

static void old_duplicate_after_completion(void)
{
    open_world(NULL);
    add(FAKERNIC_SQ_RDMA_WRITE, 1024);
    add_send(1024);
    w->script.delay[0] = FRAME(1);
    w->script.delay_ns = 20 * MS;       /* retransmitted long before */
    run();
    CHECK(STAT(1, DUPLICATES) >= 1);
}

/* ---- receiver not ready -------------------------------------------------- */

static void rnr_then_ok(void)
{
    open_world(NULL);
    add_send(600);
    workload_finish(w);
    host_post_send(a, 1);
    world_run(w, 300 * US, model_all_done);
    CHECK(STAT(1, TX_RNR_NAK) >= 1);
    CHECK(STAT(0, RX_RNR_NAK) >= 1);
    CHECK(STAT(0, TIMEOUTS) == 0);
    host_post_recv(b->rq, 1);
    world_history(w);
    CHECK(b->received == 1);
}

static void rnr_nak_lost(void)
{
    open_world(NULL);
    add_send(600);
    workload_finish(w);
    w->script.lose[1] = FRAME(0);
    host_post_send(a, 1);
    world_run(w, 100 * US, model_all_done);
    host_post_recv(b->rq, 1);
    world_history(w);
    CHECK(b->received == 1);
    CHECK(STAT(0, TIMEOUTS) == 1);
}

static void rnr_on_write_with_immediate(void)
{
    open_world(NULL);
    add(FAKERNIC_SQ_RDMA_WRITE_IMM, 1000);
    workload_finish(w);
    host_post_send(a, 1);
    world_run(w, 300 * US, model_all_done);
    CHECK(STAT(1, TX_RNR_NAK) >= 1);
    host_post_recv(b->rq, 1);
    world_history(w);
    CHECK(b->received == 1);
}

static void long_rnr_wait(SimOptions *o)
{
    o->rnr_timer = 21;          /* 15.36 ms (IBTA table 45) */
}

static void rnr_waits_as_long_as_told(void)
{
    uint64_t before;

    open_world(long_rnr_wait);
    add_send(10);
    workload_finish(w);
    host_post_send(a, 1);
    world_run(w, 1 * MS, model_all_done);
    before = sent(0);
    host_post_recv(b->rq, 1);
    world_run(w, 15 * MS, model_all_done);
    CHECK(sent(0) == before);
    world_run(w, 16 * MS, model_all_done);
    CHECK(succeeded() == 1);
    world_history(w);
}

static void few_rnr_retries(SimOptions *o)
{
    o->rnr_retry = 2;
    o->harsh = 1;
}

static void rnr_exhaustion(void)
{
    open_world(few_rnr_retries);
    add_send(10);
    add_send(10);
    workload_finish(w);
    host_post_send(a, 2);
    world_history(w);
    CHECK(a->send[0].status == FAKERNIC_WC_RNR_RETRY_EXC_ERR);
    CHECK(a->send[1].status == FAKERNIC_WC_WR_FLUSH_ERR);
    CHECK(STAT(1, TX_RNR_NAK) == 3);    /* the first try and two more */
    CHECK(STAT(0, RNR_RETRY_EXCEEDED) == 1);
}

/* ---- errors -------------------------------------------------------------- */

static void few_retries(SimOptions *o)
{
    o->retry_cnt = 2;
    o->harsh = 1;
}

static void retry_exhaustion_flushes_in_order(void)
{
    open_world(few_retries);
    add(FAKERNIC_SQ_RDMA_WRITE, 10);
    add_send(10);
    add(FAKERNIC_SQ_RDMA_READ, 10);
    w->script.cut[1] = true;
    run();
    CHECK(a->send[0].status == FAKERNIC_WC_RETRY_EXC_ERR);
    CHECK(a->send[1].status == FAKERNIC_WC_WR_FLUSH_ERR);
    CHECK(a->send[2].status == FAKERNIC_WC_WR_FLUSH_ERR);
    CHECK(STAT(0, TIMEOUTS) == 3);      /* the first try and two more */
    CHECK(STAT(0, RETRY_EXCEEDED) == 1);
}

static void retries_start_anew_after_progress(void)
{
    /* Two of three tries are lost, for each of four messages. */
    open_world(few_retries);
    for (unsigned i = 0; i < 4; i++) {
        add_send(10);
        if (i) {
            a->send[i].flags |= FAKERNIC_SQ_FENCE;
        }
    }
    workload_finish(w);
    host_post_recv(b->rq, UINT32_MAX);
    for (unsigned i = 0; i < 4; i++) {
        w->script.lose[0] = FRAME(3 * i) | FRAME(3 * i + 1);
        host_post_send(a, 1);
        world_run(w, w->now + 40 * MS, model_all_done);
        CHECK(a->send[i].done == SIM_OK);
    }
    world_history(w);
    CHECK(succeeded() == 4);
}

static void planned(SimOptions *o)
{
    o->error_pct = 1;           /* makes the regions that errors need */
}

static void plan(uint32_t index, SimError e)
{
    a->send[index].error = e;
    a->planned = (int32_t)index;
    b->planned_responder = true;
}

static void bad_rkey_ends_the_connection(void)
{
    open_world(planned);
    add_send(300);
    add(FAKERNIC_SQ_RDMA_WRITE, 1000);
    add_send(300);
    plan(1, SIM_ERR_RKEY_INDEX);
    run();
    CHECK(a->send[0].done == SIM_OK);
    CHECK(a->send[1].status == FAKERNIC_WC_REM_ACCESS_ERR);
    CHECK(a->send[2].status == FAKERNIC_WC_WR_FLUSH_ERR);
    CHECK(STAT(1, TX_NAK_REMOTE_ACCESS) == 1);
    CHECK(STAT(1, REMOTE_ACCESS_ERRORS) == 1);
    CHECK(STAT(0, RX_NAK_REMOTE_ACCESS) == 1);
}

static void read_before_bad_rkey_is_answered(void)
{
    open_world(planned);
    add(FAKERNIC_SQ_RDMA_READ, 4000);
    add(FAKERNIC_SQ_RDMA_READ, 100);
    plan(1, SIM_ERR_BOUNDS);
    run();
    CHECK(a->send[0].done == SIM_OK);
    CHECK(a->send[1].status == FAKERNIC_WC_REM_ACCESS_ERR);
}

static void local_error_waits_for_those_before(void)
{
    open_world(planned);
    add(FAKERNIC_SQ_RDMA_READ, 4000);
    add(FAKERNIC_SQ_RDMA_WRITE, 100);
    plan(1, SIM_ERR_FORMAT);
    run();
    CHECK(a->send[0].done == SIM_OK);
    CHECK(a->send[1].status == FAKERNIC_WC_LOC_QP_OP_ERR);
}

static void fatal_nak_lost(void)
{
    open_world(planned);
    add(FAKERNIC_SQ_RDMA_WRITE, 100);
    plan(0, SIM_ERR_RKEY_TAG);
    w->script.lose[1] = FRAME(0);
    run();
    /* The responder is in error and answers no more. */
    CHECK(a->send[0].status == FAKERNIC_WC_RETRY_EXC_ERR ||
          a->send[0].status == FAKERNIC_WC_REM_ACCESS_ERR);
}

static void receive_too_small(void)
{
    open_world(planned);
    workload_add_send(a, FAKERNIC_SQ_SEND, 600, SIGNALED);
    workload_add_recv(b->rq, 599);
    plan(0, SIM_ERR_RECV_SMALL);
    run();
    CHECK(a->send[0].status == FAKERNIC_WC_REM_INV_REQ_ERR);
}

static void error_state_flushes_late_receives(void)
{
    open_world(few_retries);
    add_send(10);
    add_send(10);
    workload_finish(w);
    w->script.cut[0] = true;
    host_post_send(a, 2);
    b->error = true;
    CHECK(host_modify_state(b, FAKERNIC_QPS_ERR) == FAKERNIC_CMD_OK);
    world_pump(w, w->host[1]);
    host_post_recv(b->rq, 2);
    world_run(w, w->now + FAKERNIC_RQ_FLUSH_INTERVAL_NS + MS, world_quiet);
    CHECK(b->rq->done == 2);
    world_history(w);
}

/* ---- keys ---------------------------------------------------------------- */

#define REMOTE (FAKERNIC_ACCESS_REMOTE_WRITE | FAKERNIC_ACCESS_REMOTE_READ)

/* What 'a' addresses from now on. */
static void aim_at(SimMr *mr)
{
    a->zone = mr;
    mr_shadow(mr);
}

static bool b_is_done(World *world)
{
    (void)world;
    return b->done == b->posted;
}

static void post_b_and_wait(uint32_t count)
{
    host_post_send(b, count);
    world_run(w, w->now + 100 * MS, b_is_done);
    CHECK(b->done == b->posted);
}

static void peer_invalidates_with_its_send(void)
{
    SimMr *fast, *mr;

    open_world(NULL);
    fast = host_fast_mr_new(b->host, 8);
    mr = host_fast_mr_next(fast, 20000, FAKERNIC_ACCESS_LOCAL_WRITE | REMOTE);
    workload_add_key(b, FAKERNIC_SQ_REG_MR, mr, NULL, SIGNALED);
    aim_at(mr);
    add(FAKERNIC_SQ_RDMA_WRITE, 1000);
    add(FAKERNIC_SQ_RDMA_READ, 600);
    workload_add_send(a, FAKERNIC_SQ_SEND_INV, 700, SIGNALED)->imm = mr->key;
    workload_add_recv(b->rq, 700);
    add(FAKERNIC_SQ_RDMA_WRITE, 10);
    plan(3, SIM_ERR_INVALIDATED);
    w->script.lose[0] = FRAME(1) | FRAME(6);
    workload_finish(w);
    host_post_recv(b->rq, 1);
    post_b_and_wait(1);
    host_post_send(a, UINT32_MAX);
    world_history(w);
    CHECK(succeeded() == 3);
    CHECK(a->send[3].status == FAKERNIC_WC_REM_ACCESS_ERR);
}

static void window_opens_and_closes(void)
{
    SimMr *mw, *mr, *window;

    open_world(NULL);
    mw = host_mw_new(b->host, FAKERNIC_MW_TYPE_2B);
    mr = host_mr_new(b->host, 30000, FAKERNIC_ACCESS_LOCAL_WRITE |
                                     FAKERNIC_ACCESS_MW_BIND, 7);
    window = host_mw_next(mw, mr, 4321, 20000, REMOTE);
    workload_add_key(b, FAKERNIC_SQ_BIND_MW, window, mr, SIGNALED)->imm =
        mw->key;
    workload_add_key(b, FAKERNIC_SQ_LOCAL_INV, window, NULL, SIGNALED);
    aim_at(window);
    add(FAKERNIC_SQ_RDMA_WRITE, 8000);
    add(FAKERNIC_SQ_RDMA_READ, 2000);
    add(FAKERNIC_SQ_RDMA_WRITE, 10);
    plan(2, SIM_ERR_INVALIDATED);
    workload_finish(w);
    post_b_and_wait(1);
    host_post_send(a, 2);
    world_run(w, w->now + 100 * MS, never_stop);
    CHECK(succeeded() == 2);
    post_b_and_wait(1);
    host_post_send(a, 1);
    world_history(w);
    CHECK(a->send[2].status == FAKERNIC_WC_REM_ACCESS_ERR);
}

/* ---- shares of the wire -------------------------------------------------- */

static void slow_wire(SimOptions *o)
{
    o->max_size = 400000;
    o->mtu = FAKERNIC_MTU_4096;
    o->rate_mbps = 1000;
    o->tx_burst = 1;
    o->timeout = 16;
}

static void bulk_does_not_starve_others(void)
{
    SimQp *small;
    uint64_t before;

    open_world(slow_wire);
    small = workload_connect(w, 0, 1, FAKERNIC_QP_RC)->side[0];
    add(FAKERNIC_SQ_RDMA_WRITE, 400000);
    workload_add_send(small, FAKERNIC_SQ_RDMA_WRITE, 64, SIGNALED);
    workload_finish(w);
    host_post_send(a, 1);
    world_run(w, 200 * US, never_stop);
    before = sent(0);
    host_post_send(small, 1);
    world_run(w, w->now + 300 * US, never_stop);
    /* Nine frames go in that time; the small one is among the first two. */
    CHECK(small->send[0].done == SIM_OK);
    CHECK(sent(0) - before < 12);
    CHECK(a->send[0].done == SIM_OPEN);
    world_history(w);
    CHECK(STAT(0, RETRANSMITS) == 0);
}

/* ---- the list ------------------------------------------------------------ */

static const struct {
    const char *name;
    void (*run)(void);
    int cap;                    /* an optional capability it needs, or -1 */
} scenarios[] = {
#define S(name) { #name, name, -1 }
#define S_ATOMIC(name) { #name, name, SIM_CAP_ATOMIC }
    S(good_send_takes_one_ack), S(good_read_takes_one_request),
    S(good_empty_messages), S(good_loopback), S(send_first_lost),
    S(send_middle_lost), S(send_last_lost),
    S(write_last_lost_then_acked_by_retry), S(whole_message_lost),
    S(sequence_nak_comes_once), S(sequence_nak_lost),
    S(psn_wraps_within_lost_message), S(ack_lost),
    S(ack_lost_but_later_one_covers), S(ack_delayed_beyond_timeout),
    S(read_response_first_lost), S(read_response_middle_lost),
    S(read_response_last_lost), S(read_request_lost),
    S(ack_in_place_of_read_response), S(duplicate_send_received_once),
    S(duplicate_write_not_repeated), S(duplicate_read),
    S(duplicate_read_responses), S(duplicate_ack),
    S_ATOMIC(duplicate_atomic_executed_once), S_ATOMIC(atomic_answer_lost),
    S_ATOMIC(atomics_and_reads_one_at_a_time), S(first_overtaken),
    S(old_duplicate_after_completion), S(rnr_then_ok), S(rnr_nak_lost),
    S(rnr_on_write_with_immediate), S(rnr_waits_as_long_as_told),
    S(rnr_exhaustion),
    S(retry_exhaustion_flushes_in_order), S(retries_start_anew_after_progress),
    S(bad_rkey_ends_the_connection), S(read_before_bad_rkey_is_answered),
    S(local_error_waits_for_those_before), S(fatal_nak_lost),
    S(receive_too_small), S(error_state_flushes_late_receives),
    { "peer_invalidates_with_its_send", peer_invalidates_with_its_send,
      SIM_CAP_FAST_REG },
    { "window_opens_and_closes", window_opens_and_closes, SIM_CAP_MW },
    S(bulk_does_not_starve_others),
};
#define SCENARIO_COUNT (sizeof(scenarios) / sizeof(scenarios[0]))

static bool run_scenario(unsigned i, const char *program)
{
    bool ok;

    scenarios[i].run();
    ok = !w->failed;
    if (!ok) {
        if (!sim_verbose) {
            world_print_log(w, 200);
        }
        printf("# %s\n# reproduce: %s %s --verbose\n", w->failure, program,
               scenarios[i].name);
    }
    world_free(w);
    return ok;
}

int main(int argc, char **argv)
{
    unsigned number = 0, failed = 0;

    if (argc > 2 && strcmp(argv[2], "--verbose") == 0) {
        sim_verbose = true;
    }
    if (!sim_caps_probe()) {
        printf("not ok 1 - sim: a required capability is missing\n1..1\n");
        return 1;
    }
    for (unsigned i = 0; i < SCENARIO_COUNT; i++) {
        bool ok;

        if ((argc > 1 && strcmp(argv[1], scenarios[i].name) != 0) ||
            (scenarios[i].cap >= 0 && !sim_caps[scenarios[i].cap].present)) {
            continue;
        }
        ok = run_scenario(i, argv[0]);
        failed += !ok;
        printf("%sok %u - sim scenario %s\n", ok ? "" : "not ", ++number,
               scenarios[i].name);
    }
    printf("1..%u\n", number);
    return failed || !number;
}
