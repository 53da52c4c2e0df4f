/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rdma_fatal_wakeup late|solicited: a program that sleeps when its device dies.
 *
 * It takes all events, polls all completions, arms the CQ, polls again and
 * sleeps, as programs do that wait for many file descriptors. A WRITE
 * completes, and a receive never does. Then the device dies, and the receive
 * must be flushed.
 *
 * late: the program starts when the file GO exists, and both events are
 * pending by then. solicited: the completion raises no event, so only the
 * device's death does.
 */
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>

#include "verbs_pair.h"

#define GO "/tmp/drain.go"
#define SLEEP_MS 10000
#define RECEIVE 1
#define WRITE 2

static struct ibv_comp_channel *channel;
static struct ibv_cq *cq;

static unsigned take_events(void)
{
    struct ibv_cq *of;
    unsigned events = 0;
    void *context;

    while (!ibv_get_cq_event(channel, &of, &context)) {
        ibv_ack_cq_events(of, 1);
        events++;
    }
    return events;
}

/* Whether the receive is among the entries. */
static bool take_entries(void)
{
    struct ibv_wc wc;
    bool ended = false;
    int count;

    while ((count = ibv_poll_cq(cq, 1, &wc)) > 0) {
        printf("%s: %s\n", wc.wr_id == WRITE ? "WRITE" : "receive",
               ibv_wc_status_str(wc.status));
        ended |= wc.wr_id == RECEIVE;
    }
    if (count < 0) {
        die("ibv_poll_cq");
    }
    return ended;
}

static void sleep_for_an_event(void)
{
    struct pollfd file = { .fd = channel->fd, .events = POLLIN };

    if (poll(&file, 1, SLEEP_MS) <= 0) {
        die("still asleep after the fatal event");
    }
}

int main(int argc, char **argv)
{
    const bool solicited = argc > 1 && !strcmp(argv[1], "solicited");
    static uint8_t memory[64];
    struct ibv_sge sge = { .addr = (uintptr_t)memory, .length = 1 };
    struct ibv_recv_wr *bad, recv = { .wr_id = RECEIVE };
    struct endpoint end;
    struct ibv_qp *qp;
    struct ibv_mr *mr;

    setvbuf(stdout, NULL, _IOLBF, 0);
    open_endpoint(&end);
    channel = ibv_create_comp_channel(end.context);
    cq = channel ? ibv_create_cq(end.context, 16, NULL, channel, 0) : NULL;
    mr = ibv_reg_mr(end.pd, memory, sizeof(memory),
                    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    if (!cq || !mr || fcntl(channel->fd, F_SETFL, O_NONBLOCK)) {
        die("channel, CQ and region");
    }
    qp = create_rc(&end, cq);
    connect_to_itself(&end, qp, IBV_ACCESS_REMOTE_WRITE);
    sge.lkey = mr->lkey;
    if (ibv_post_recv(qp, &recv, &bad) || ibv_req_notify_cq(cq, solicited)) {
        die("posting a receive and arming");
    }
    post(qp, IBV_WR_RDMA_WRITE, &sge, sge.addr, mr->rkey, WRITE);
    usleep(200000);
    printf("begins\n");
    while (!solicited && access(GO, F_OK)) {
        usleep(10000);
    }
    for (;;) {
        sleep_for_an_event();
        printf("events: %u\n", take_events());
        if (take_entries()) {
            return 0;
        }
        if (ibv_req_notify_cq(cq, 0)) {
            die("ibv_req_notify_cq");
        }
        if (take_entries()) {
            return 0;
        }
    }
}
