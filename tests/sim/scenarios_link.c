/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Named histories: faults of the link.
 */
#include <string.h>

#include "scenario.h"

/* ---- a good link: exact counts ------------------------------------------- */

static void lossless_send_needs_one_ack(void)
{
    open_world(NULL);
    add_send(1024);
    run();
    CHECK(sent(0) == 4);
    CHECK(sent(1) == 1);
    CHECK(STAT(0, RETRANSMITS) == 0);
}

static void lossless_read_needs_one_request(void)
{
    open_world(NULL);
    add(FAKERNIC_SQ_RDMA_READ, 1025);
    run();
    CHECK(sent(0) == 1);
    CHECK(sent(1) == 5);
}

static void empty_messages_succeed(void)
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

static void loopback_succeeds(void)
{
    open_world(one_host);
    add_send(700);
    add(FAKERNIC_SQ_RDMA_WRITE, 300);
    add(FAKERNIC_SQ_RDMA_READ, 2000);
    run();
    CHECK(STAT(0, RETRANSMITS) == 0);
}

/* ---- fault rules --------------------------------------------------------- */

static void add_rule(const char *rule)
{
    char error[ROCE_FAULT_ERROR];

    check(rules_add(w, rule, error), rule);
}

static void rule_drops_the_third_frame(void)
{
    open_world(NULL);
    add_send(1024);
    add_rule("0:at=tx opcode=rc-send-* nth=3 do=drop");
    run();
    CHECK(rules_hits(w) == 1);
    CHECK(sent(0) > 4);
    CHECK(succeeded() == 1);
}

static void rules_apply_to_their_host(void)
{
    open_world(NULL);
    add_send(1024);
    add(FAKERNIC_SQ_RDMA_READ, 1024);
    add_rule("0:at=rx opcode=rc-read-response-first do=corrupt");
    add_rule("1:at=tx class=roce times=0 do=duplicate; "
             "at=rx opcode=rc-send-first do=duplicate");
    run();
    CHECK(rules_hits(w) > 4);
    CHECK(succeeded() == 2);
}

static void invalid_rules_are_refused(void)
{
    char error[ROCE_FAULT_ERROR];

    open_world(NULL);
    add_send(10);
    CHECK(!rules_add(w, "at=moon do=drop", error) && strstr(error, "moon"));
    CHECK(!rules_add(w, "at=cqe do=drop", error) && strstr(error, "at=cqe"));
    CHECK(!rules_add(w, "at=tx do=reorder", error) && strstr(error, "reorder"));
    CHECK(!rules_add(w, "at=rx rpsn=0 do=drop", error) &&
          strstr(error, "rpsn="));
    CHECK(!rules_add(w, "7:at=tx do=drop", error) && strstr(error, "host 7"));
    run();
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
    /* The requester requests the rest from the missing packet on. */
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
    /* The READ response is lost, and the SEND behind it is acknowledged. That
     * is an implied NAK, by which the READ must not complete. */
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
    /* The copy of the first WRITE arrives after the second one. It must not
     * write the old bytes again. */
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

static void first_packet_is_overtaken(void)
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

/* The responder cannot send while duplicates of WRITE, READ and WRITE arrive.
 * It must acknowledge the last one, not only the first. */
static bool all_came_again(World *world)
{
    (void)world;
    return STAT(1, DUPLICATES) == 3;
}

static void ack_answers_the_last_duplicate(void)
{
    open_world(NULL);
    add(FAKERNIC_SQ_RDMA_WRITE, 10);
    add(FAKERNIC_SQ_RDMA_READ, 10);
    add(FAKERNIC_SQ_RDMA_WRITE, 10);
    w->script.cut[1] = true;
    post_all();
    world_run(w, 500 * US, never_stop);
    w->script.cut[1] = false;
    w->host[1]->tx_scheduled = true;
    world_run(w, 100 * MS, all_came_again);
    CHECK(STAT(1, DUPLICATES) == 3);
    world_schedule(w, w->now + US, EV_TX, 1);
    world_history(w);
    CHECK(succeeded() == 3);
    CHECK(STAT(0, TIMEOUTS) == 1);
}

/* ---- the list ------------------------------------------------------------ */

const Scenario scenarios_link[] = {
    S(lossless_send_needs_one_ack),
    S(lossless_read_needs_one_request),
    S(empty_messages_succeed),
    S(loopback_succeeds),
    S(rule_drops_the_third_frame),
    S(rules_apply_to_their_host),
    S(invalid_rules_are_refused),
    S(send_first_lost),
    S(send_middle_lost),
    S(send_last_lost),
    S(write_last_lost_then_acked_by_retry),
    S(whole_message_lost),
    S(sequence_nak_comes_once),
    S(sequence_nak_lost),
    S(psn_wraps_within_lost_message),
    S(ack_lost),
    S(ack_lost_but_later_one_covers),
    S(ack_delayed_beyond_timeout),
    S(read_response_first_lost),
    S(read_response_middle_lost),
    S(read_response_last_lost),
    S(read_request_lost),
    S(ack_in_place_of_read_response),
    S(duplicate_send_received_once),
    S(duplicate_write_not_repeated),
    S(duplicate_read),
    S(duplicate_read_responses),
    S(duplicate_ack),
    S(duplicate_atomic_executed_once),
    S(atomic_answer_lost),
    S(atomics_and_reads_one_at_a_time),
    S(first_packet_is_overtaken),
    S(old_duplicate_after_completion),
    S(ack_answers_the_last_duplicate),
    { NULL, NULL },
};
