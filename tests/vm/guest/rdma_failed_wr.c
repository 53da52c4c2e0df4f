/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What two RC queue pairs on one device report when a fault rule fails a work
 * request of the first, which posts SENDS messages. It only prints:
 *
 *      sends STATUS... state STATE
 *      receives STATUS... state STATE
 *      events COUNT
 *
 * with the numbers of enum ibv_wc_status and ibv_qp_state, and the number of
 * asynchronous events until then.
 */
#include "verbs_pair.h"

#include <poll.h>

#define SENDS 4
#define SIZE  64
#define TIMEOUT 14              /* 67 ms */
#define RETRIES 7

static void post_receives(struct ibv_qp *qp, struct ibv_mr *mr)
{
    struct ibv_sge room = { (uintptr_t)mr->addr, SIZE, mr->lkey };
    struct ibv_recv_wr *bad, wr = { .sg_list = &room, .num_sge = 1 };

    for (int i = 0; i < SENDS; i++) {
        if (ibv_post_recv(qp, &wr, &bad)) {
            die("ibv_post_recv");
        }
    }
}

static void connect_both(struct endpoint *end, struct ibv_qp *a,
                         struct ibv_qp *b)
{
    const struct address to_b = { .gid = end->gid, .psn = 7,
                                  .qpn = b->qp_num };
    const struct address to_a = { .gid = end->gid, .psn = 9,
                                  .qpn = a->qp_num };

    connect_rc(end, b, &to_a, to_b.psn, 0, TIMEOUT, RETRIES);
    connect_rc(end, a, &to_b, to_a.psn, 0, TIMEOUT, RETRIES);
}

static void tell_state(struct ibv_qp *qp)
{
    struct ibv_qp_init_attr init;
    struct ibv_qp_attr attr;

    if (ibv_query_qp(qp, &attr, IBV_QP_STATE, &init)) {
        die("ibv_query_qp");
    }
    printf(" state %d\n", attr.qp_state);
}

static void tell_events(struct ibv_context *context)
{
    struct pollfd ready = { .fd = context->async_fd, .events = POLLIN };
    struct ibv_async_event event;
    int count = 0;

    while (poll(&ready, 1, 100) > 0) {
        if (ibv_get_async_event(context, &event)) {
            die("ibv_get_async_event");
        }
        ibv_ack_async_event(&event);
        count++;
    }
    printf("events %d\n", count);
}

int main(void)
{
    struct ibv_cq *send_side, *recv_side;
    struct endpoint end = { 0 };
    struct ibv_qp *sender, *receiver;
    struct ibv_sge sge;
    struct ibv_mr *mr;
    struct ibv_wc wc;
    int received = 0;

    open_endpoint(&end);
    mr = ibv_reg_mr(end.pd, aligned_alloc(4096, 4096), 4096,
                    IBV_ACCESS_LOCAL_WRITE);
    send_side = ibv_create_cq(end.context, SENDS, NULL, NULL, 0);
    recv_side = ibv_create_cq(end.context, SENDS, NULL, NULL, 0);
    if (!mr || !send_side || !recv_side) {
        die("ibv_reg_mr or ibv_create_cq");
    }
    sender = create_rc(&end, send_side);
    receiver = create_rc(&end, recv_side);
    connect_both(&end, sender, receiver);
    post_receives(receiver, mr);
    sge = (struct ibv_sge) { (uintptr_t)mr->addr + SIZE, SIZE, mr->lkey };
    for (int i = 0; i < SENDS; i++) {
        post(sender, IBV_WR_SEND, &sge, 0, 0, i);
    }
    printf("sends");
    for (int i = 0; i < SENDS; i++) {
        printf(" %d", next_completion(send_side).status);
    }
    tell_state(sender);
    printf("receives");
    while (received < SENDS && ibv_poll_cq(recv_side, 1, &wc) == 1) {
        printf(" %d", wc.status);
        received++;
    }
    tell_state(receiver);
    tell_events(end.context);
    return 0;
}
