/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Named histories: pages that arrive late, become absent during a message,
 * move, or are refused.
 */
#include "scenario.h"

static void paged(SimOptions *o)
{
    o->odp_pct = 100;
}

static uint64_t frames_wanted;

static bool requester_has_sent(World *world)
{
    return world->link.sent[0] >= frames_wanted;
}

static bool responder_has_sent(World *world)
{
    return world->link.sent[1] >= frames_wanted;
}

static void every_operation_waits_for_pages(void)
{
    static const uint8_t opcodes[] = {
        FAKERNIC_SQ_SEND, FAKERNIC_SQ_SEND_IMM, FAKERNIC_SQ_RDMA_WRITE,
        FAKERNIC_SQ_RDMA_WRITE_IMM, FAKERNIC_SQ_RDMA_READ,
        FAKERNIC_SQ_ATOMIC_CMP_SWAP, FAKERNIC_SQ_ATOMIC_FETCH_ADD,
        FAKERNIC_SQ_ATOMIC_WRITE, FAKERNIC_SQ_FLUSH,
    };

    for (unsigned i = 0; i < sizeof(opcodes); i++) {
        open_world(paged);
        if (opcode_is_send(opcodes[i])) {
            workload_add_send(a, opcodes[i], 1000, SIGNALED);
            workload_add_recv(b->rq, 1000);
        } else {
            add(opcodes[i], 1000);
        }
        run();
        CHECK(succeeded() == 1);
        CHECK(STAT(0, TIMEOUTS) == 0);
        CHECK(opcodes[i] == FAKERNIC_SQ_FLUSH ||
              opcodes[i] == FAKERNIC_SQ_RDMA_READ ||
              STAT(1, TX_RNR_NAK) >= 1);
        if (i + 1 < sizeof(opcodes) && !w->failed) {
            world_free(w);
        } else {
            break;
        }
    }
}

/* 100 ms are a hundred times the ACK timeout, longer than all retries. */
static void slow_host(SimOptions *o)
{
    o->odp_pct = 100;
    o->odp_wait_us = 100000;
    o->retry_cnt = 1;
}

static void page_wait_uses_no_retries(void)
{
    open_world(slow_host);
    add(FAKERNIC_SQ_RDMA_WRITE, 3000);
    add(FAKERNIC_SQ_RDMA_READ, 10);
    add_send(10);
    run();
    CHECK(succeeded() == 3);
    CHECK(STAT(0, RETRY_EXCEEDED) == 0);
}

static void read_waits_for_page_midway(void)
{
    open_world(paged);
    add(FAKERNIC_SQ_RDMA_READ, 8000);
    workload_finish(w);
    frames_wanted = 8;
    host_post_send(a, 1);
    /* The first frames leave as soon as their pages are present. */
    world_run(w, SEC, responder_has_sent);
    paging_move(a->zone);
    world_history(w);
    CHECK(succeeded() == 1);
}

static void one_frame_at_a_time(SimOptions *o)
{
    o->odp_pct = 100;
    o->tx_burst = 1;
    o->rate_mbps = 1000;
}

static void message_is_gathered_from_two_pages(void)
{
    open_world(one_frame_at_a_time);
    add_send(8000);
    workload_finish(w);
    host_post_recv(b->rq, 1);
    host_post_send(a, 1);
    for (frames_wanted = 3; frames_wanted < 24; frames_wanted += 3) {
        world_run(w, SEC, requester_has_sent);
        paging_move(w->host[0]->source);
    }
    world_history(w);
    CHECK(b->received == 1);
}

static void message_is_scattered_to_two_pages(void)
{
    open_world(one_frame_at_a_time);
    add_send(8000);
    add(FAKERNIC_SQ_RDMA_WRITE, 8000);
    workload_finish(w);
    host_post_recv(b->rq, 1);
    host_post_send(a, 2);
    for (frames_wanted = 4; frames_wanted < 60; frames_wanted += 7) {
        world_run(w, SEC, requester_has_sent);
        paging_move(b->rq->arena);
        paging_move(a->zone);
    }
    world_history(w);
    CHECK(b->received == 1);
    CHECK(succeeded() == 2);
    CHECK(STAT(1, TX_RNR_NAK) >= 2);
}

static void response_without_page_is_requested_again(void)
{
    open_world(one_frame_at_a_time);
    add(FAKERNIC_SQ_RDMA_READ, 8000);
    workload_finish(w);
    host_post_send(a, 1);
    for (frames_wanted = 3; frames_wanted < 33; frames_wanted += 5) {
        world_run(w, SEC, responder_has_sent);
        paging_move(a->arena);
    }
    world_history(w);
    CHECK(succeeded() == 1);
    CHECK(STAT(0, RETRANSMITS) >= 1);
}

/* The page for its response is absent at first. The add is executed once. */
static void atomic_response_waits_for_page(void)
{
    open_world(paged);
    add(FAKERNIC_SQ_ATOMIC_FETCH_ADD, 8);
    run();
    CHECK(succeeded() == 1);
    CHECK(STAT(1, DUPLICATES) == 1);
}

static void slow_enough(SimOptions *o)
{
    one_frame_at_a_time(o);
    o->odp_wait_us = 20000;
}

static bool requester_is_done(World *world)
{
    (void)world;
    return a->done == a->posted;
}

/*
 * A READ response waits in its middle, and the atomic before it is repeated.
 */
static void response_is_repeated_before_waiting_one(void)
{
    open_world(slow_enough);
    add(FAKERNIC_SQ_RDMA_WRITE, 8192);
    add(FAKERNIC_SQ_ATOMIC_FETCH_ADD, 8);
    add(FAKERNIC_SQ_RDMA_READ, 8000);
    workload_finish(w);
    host_post_send(a, 1);
    world_run(w, SEC, requester_is_done);
    w->script.cut[1] = true;
    frames_wanted = sent(1) + 4;
    host_post_send(a, 2);
    world_run(w, 2 * SEC, responder_has_sent);
    paging_take_back(a->zone);
    w->script.cut[1] = false;
    world_run(w, w->now + 5 * MS, never_stop);
    CHECK(STAT(0, TIMEOUTS) == 1);
    CHECK(STAT(1, DUPLICATES) >= 1);
    CHECK(sent(1) > frames_wanted);
    world_history(w);
    CHECK(succeeded() == 3);
}

static void refused_pages(uint8_t opcode, bool source, uint8_t status)
{
    open_world(paged);
    a->conn->injected = true;
    a->fault_send = b->fault_send = ANY_STATUS;
    a->fault_recv = b->fault_recv = ANY_STATUS;
    add(opcode, 1000);
    if (opcode == FAKERNIC_SQ_SEND) {
        workload_add_recv(b->rq, 1000);
    }
    workload_finish(w);
    paging_refuse(source ? w->host[0]->source
                  : opcode == FAKERNIC_SQ_SEND ? b->rq->arena : a->zone);
    host_post_recv(b->rq, 1);
    host_post_send(a, 1);
    world_history(w);
    CHECK(a->send[0].status == status);
}

static void refused_page_fails_with_status_of_its_side(void)
{
    refused_pages(FAKERNIC_SQ_SEND, true, FAKERNIC_WC_LOC_PROT_ERR);
    if (!w->failed) {
        world_free(w);
        refused_pages(FAKERNIC_SQ_SEND, false, FAKERNIC_WC_REM_OP_ERR);
    }
    if (!w->failed) {
        world_free(w);
        refused_pages(FAKERNIC_SQ_RDMA_WRITE, false,
                      FAKERNIC_WC_REM_ACCESS_ERR);
    }
    if (!w->failed) {
        world_free(w);
        refused_pages(FAKERNIC_SQ_RDMA_READ, false,
                      FAKERNIC_WC_REM_ACCESS_ERR);
    }
}

static void short_list(SimOptions *o)
{
    o->odp_pct = 100;
    o->odp_list = 1;
    o->odp_wait_us = 50;
}

/* Both sides of loopback and two connections share a list of one request. */
static void lost_page_requests_are_repeated(void)
{
    SimQp *other;

    open_world(short_list);
    other = workload_connect(w, 0, 1, FAKERNIC_QP_RC)->side[0];
    workload_add_send(other, FAKERNIC_SQ_RDMA_READ, 5000, SIGNALED);
    add(FAKERNIC_SQ_RDMA_READ, 5000);
    workload_finish(w);
    host_post_send(other, 1);
    host_post_send(a, 1);
    world_history(w);
    CHECK(succeeded() == 1);
    CHECK(other->send[0].done == SIM_OK);
}

/* Fewer chunks than regions: each access displaces pages of another one. */
static void few_chunks(SimOptions *o)
{
    o->odp_pct = 100;
    o->odp_chunks = 2;
}

static void dropped_pages_are_requested_again(void)
{
    open_world(few_chunks);
    for (unsigned i = 0; i < 4; i++) {
        add_send(3000);
        add(FAKERNIC_SQ_RDMA_READ, 3000);
        add(FAKERNIC_SQ_RDMA_WRITE, 3000);
    }
    run();
    CHECK(succeeded() == 12);
}

const Scenario scenarios_paging[] = {
    S(every_operation_waits_for_pages),
    S(page_wait_uses_no_retries),
    S(read_waits_for_page_midway),
    S(message_is_gathered_from_two_pages),
    S(message_is_scattered_to_two_pages),
    S(response_without_page_is_requested_again),
    S(atomic_response_waits_for_page),
    S(response_is_repeated_before_waiting_one),
    S(refused_page_fails_with_status_of_its_side),
    S(lost_page_requests_are_repeated),
    S(dropped_pages_are_requested_again),
    { NULL, NULL },
};
