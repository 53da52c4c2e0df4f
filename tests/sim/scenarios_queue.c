/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Named histories: receivers that are not ready, errors, keys, shares of the
 * wire.
 */
#include "scenario.h"

/* ---- receiver not ready -------------------------------------------------- */

static void send_succeeds_after_rnr(void)
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

static void rnr_wait_has_requested_length(void)
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
    CHECK(STAT(1, TX_RNR_NAK) == 3);    /* the first attempt, two retries */
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
    CHECK(STAT(0, TIMEOUTS) == 3);      /* the first attempt, two retries */
    CHECK(STAT(0, RETRY_EXCEEDED) == 1);
}

static void progress_restores_retries(void)
{
    /* Two of three attempts are lost, for each of four messages. */
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
    o->error_pct = 1;           /* creates the regions that errors need */
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

static void read_before_bad_rkey_completes(void)
{
    open_world(planned);
    add(FAKERNIC_SQ_RDMA_READ, 4000);
    add(FAKERNIC_SQ_RDMA_READ, 100);
    plan(1, SIM_ERR_BOUNDS);
    run();
    CHECK(a->send[0].done == SIM_OK);
    CHECK(a->send[1].status == FAKERNIC_WC_REM_ACCESS_ERR);
}

static void local_error_completes_in_order(void)
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
    /* The responder has failed and sends no more responses. */
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
    /* Nine frames fit in that time; the small one is among the first two. */
    CHECK(small->send[0].done == SIM_OK);
    CHECK(sent(0) - before < 12);
    CHECK(a->send[0].done == SIM_OPEN);
    world_history(w);
    CHECK(STAT(0, RETRANSMITS) == 0);
}

/* ---- the list ------------------------------------------------------------ */

const Scenario scenarios_queue[] = {
    S(send_succeeds_after_rnr),
    S(rnr_nak_lost),
    S(rnr_on_write_with_immediate),
    S(rnr_wait_has_requested_length),
    S(rnr_exhaustion),
    S(retry_exhaustion_flushes_in_order),
    S(progress_restores_retries),
    S(bad_rkey_ends_the_connection),
    S(read_before_bad_rkey_completes),
    S(local_error_completes_in_order),
    S(fatal_nak_lost),
    S(receive_too_small),
    S(error_state_flushes_late_receives),
    S(peer_invalidates_with_its_send),
    S(window_opens_and_closes),
    S(bulk_does_not_starve_others),
    { NULL, NULL },
};
