/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The asynchronous events of queue pairs, CQs and SRQs as a program sees them.
 *
 * Each case has two fresh RC queue pairs on one device, causes an event, and
 * checks its type and object. No other event may come. Prints TAP.
 *
 * Finally a queue pair is destroyed before its event is acknowledged. Only that
 * call must wait for the acknowledgment.
 */
#define _GNU_SOURCE
#include "verbs_pair.h"

#include <poll.h>
#include <pthread.h>

#define BUFFER_SIZE 4096
#define EVENT_WAIT_MS 30000
#define SILENCE_MS 100
#define STUCK_S 30

struct bench {
    struct endpoint end;
    struct ibv_mr *mr;
    struct ibv_cq *send_side, *recv_side;
    struct ibv_srq *srq;
    struct ibv_qp *sender, *receiver;
    struct address sender_address, receiver_address;
};

struct expected {
    enum ibv_event_type type;
    void *element;              /* the object it must name */
};

static void post_receive(struct bench *bench)
{
    struct ibv_sge sge = { (uintptr_t)bench->mr->addr, 64, bench->mr->lkey };
    struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };

    if (bench->srq ? ibv_post_srq_recv(bench->srq, &wr, &bad)
                   : ibv_post_recv(bench->receiver, &wr, &bad)) {
        die("post a receive");
    }
}

static void send_one(struct bench *bench, enum ibv_wr_opcode opcode,
                     uint32_t rkey)
{
    struct ibv_sge sge = { (uintptr_t)bench->mr->addr, 8, bench->mr->lkey };

    post(bench->sender, opcode, &sge, (uintptr_t)bench->mr->addr, rkey, 1);
}

/* ---- the cases ----------------------------------------------------------- */

static int communication_established(struct bench *bench,
                                     struct expected *event)
{
    receive_rc(&bench->end, bench->receiver, &bench->sender_address, 0);
    connect_rc(&bench->end, bench->sender, &bench->receiver_address, 1, 0, 14,
               7);
    post_receive(bench);
    send_one(bench, IBV_WR_SEND, 0);
    *event = (struct expected) { IBV_EVENT_COMM_EST, bench->receiver };
    return 1;
}

static void connect_both(struct bench *bench, int access)
{
    connect_rc(&bench->end, bench->receiver, &bench->sender_address, 2, access,
               14, 7);
    connect_rc(&bench->end, bench->sender, &bench->receiver_address, 1, access,
               14, 7);
}

static int send_queue_drained(struct bench *bench, struct expected *event)
{
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD,
                                .en_sqd_async_notify = 1 };

    connect_both(bench, 0);
    if (ibv_modify_qp(bench->sender, &attr,
                      IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY)) {
        die("modify to SQD");
    }
    *event = (struct expected) { IBV_EVENT_SQ_DRAINED, bench->sender };
    return 1;
}

static int access_error(struct bench *bench, struct expected *event)
{
    connect_both(bench, IBV_ACCESS_REMOTE_WRITE);
    send_one(bench, IBV_WR_RDMA_WRITE, bench->mr->rkey ^ 0xffff00);
    *event = (struct expected) { IBV_EVENT_QP_ACCESS_ERR, bench->receiver };
    return 1;
}

/* The receiver's access flags do not include READ. */
static int request_error(struct bench *bench, struct expected *event)
{
    connect_both(bench, IBV_ACCESS_REMOTE_WRITE);
    send_one(bench, IBV_WR_RDMA_READ, bench->mr->rkey);
    *event = (struct expected) { IBV_EVENT_QP_REQ_ERR, bench->receiver };
    return 1;
}

static int last_wqe_reached(struct bench *bench, struct expected *event)
{
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

    connect_both(bench, 0);
    if (ibv_modify_qp(bench->receiver, &attr, IBV_QP_STATE)) {
        die("modify to ERR");
    }
    *event = (struct expected) { IBV_EVENT_QP_LAST_WQE_REACHED,
                                 bench->receiver };
    return 1;
}

static int srq_limit_reached(struct bench *bench, struct expected *event)
{
    struct ibv_srq_attr attr = { .srq_limit = 2 };

    connect_both(bench, 0);
    post_receive(bench);
    post_receive(bench);
    if (ibv_modify_srq(bench->srq, &attr, IBV_SRQ_LIMIT)) {
        die("ibv_modify_srq");
    }
    send_one(bench, IBV_WR_SEND, 0);
    *event = (struct expected) { IBV_EVENT_SRQ_LIMIT_REACHED, bench->srq };
    return 1;
}

/* Completions without a poll, until the CQ is full. */
static int cq_overrun(struct bench *bench, struct expected *event)
{
    connect_both(bench, IBV_ACCESS_REMOTE_WRITE);
    for (int i = 0; i < bench->send_side->cqe + 1; i++) {
        send_one(bench, IBV_WR_RDMA_WRITE, bench->mr->rkey);
    }
    event[0] = (struct expected) { IBV_EVENT_CQ_ERR, bench->send_side };
    event[1] = (struct expected) { IBV_EVENT_QP_FATAL, bench->sender };
    return 2;
}

static const struct {
    const char *name;
    int (*provoke)(struct bench *bench, struct expected *event);
    bool srq;
} cases[] = {
    { "COMM_EST", communication_established, false },
    { "SQ_DRAINED", send_queue_drained, false },
    { "QP_ACCESS_ERR", access_error, false },
    { "QP_REQ_ERR", request_error, false },
    { "QP_LAST_WQE_REACHED", last_wqe_reached, true },
    { "SRQ_LIMIT_REACHED", srq_limit_reached, true },
    { "CQ_ERR and QP_FATAL", cq_overrun, false },
};

/* ---- judging ------------------------------------------------------------- */

/* Marks the event as seen; false: it was not expected. */
static bool is_expected(const struct ibv_async_event *event,
                        struct expected *list, int count)
{
    for (int i = 0; i < count; i++) {
        /* The members of the union are pointers, all of them. */
        if (list[i].element && list[i].type == event->event_type &&
            list[i].element == (void *)event->element.qp) {
            list[i].element = NULL;
            return true;
        }
    }
    return false;
}

/*
 * Every event of the list must come, and then none; what went wrong, or NULL.
 */
static const char *judge(struct ibv_context *context, struct expected *list,
                         int count)
{
    struct pollfd fd = { .fd = context->async_fd, .events = POLLIN };
    struct ibv_async_event event;
    static char why[128];
    int seen = 0;

    while (poll(&fd, 1, seen < count ? EVENT_WAIT_MS : SILENCE_MS) == 1) {
        bool fine;

        if (ibv_get_async_event(context, &event)) {
            die("ibv_get_async_event");
        }
        fine = is_expected(&event, list, count);
        ibv_ack_async_event(&event);
        if (!fine) {
            snprintf(why, sizeof(why), "unexpected: %s",
                     ibv_event_type_str(event.event_type));
            return why;
        }
        seen++;
    }
    return seen == count ? NULL : "no event";
}

static void set_up(struct bench *bench, bool srq)
{
    struct ibv_srq_init_attr srq_attr = { .attr = { .max_wr = 16,
                                                    .max_sge = 1 } };
    struct ibv_qp_init_attr attr = {
        .qp_type = IBV_QPT_RC,
        .cap = { .max_send_wr = 16, .max_recv_wr = srq ? 0 : 16,
                 .max_send_sge = 1, .max_recv_sge = srq ? 0 : 1 },
    };

    bench->send_side = ibv_create_cq(bench->end.context, 4, NULL, NULL, 0);
    bench->recv_side = ibv_create_cq(bench->end.context, 16, NULL, NULL, 0);
    bench->srq = srq ? ibv_create_srq(bench->end.pd, &srq_attr) : NULL;
    attr.send_cq = attr.recv_cq = bench->recv_side;
    attr.srq = bench->srq;
    bench->receiver = ibv_create_qp(bench->end.pd, &attr);
    bench->sender = create_rc(&bench->end, bench->send_side);
    if (!bench->receiver) {
        die("ibv_create_qp");
    }
    bench->sender_address = (struct address) {
        .gid = bench->end.gid, .psn = 1, .qpn = bench->sender->qp_num };
    bench->receiver_address = (struct address) {
        .gid = bench->end.gid, .psn = 2, .qpn = bench->receiver->qp_num };
}

static void tear_down(struct bench *bench)
{
    if (ibv_destroy_qp(bench->sender) || ibv_destroy_qp(bench->receiver) ||
        (bench->srq && ibv_destroy_srq(bench->srq)) ||
        ibv_destroy_cq(bench->send_side) || ibv_destroy_cq(bench->recv_side)) {
        die("destroy");
    }
}

/* ---- an event that is acknowledged late ---------------------------------- */

static void *destroy(void *qp)
{
    return (void *)(intptr_t)ibv_destroy_qp(qp);
}

/* Other objects can be used at the same time; SIGALRM ends a hang. */
static const char *destroyed_unacknowledged(struct bench *bench)
{
    struct ibv_async_event event;
    struct expected expected;
    struct ibv_qp *another;
    pthread_t thread;
    bool waited;
    void *failed;

    last_wqe_reached(bench, &expected);
    if (ibv_get_async_event(bench->end.context, &event)) {
        die("ibv_get_async_event");
    }
    alarm(STUCK_S);
    if (pthread_create(&thread, NULL, destroy, bench->receiver)) {
        die("pthread_create");
    }
    usleep(SILENCE_MS * 1000);
    another = create_rc(&bench->end, bench->recv_side);
    connect_rc(&bench->end, another, &bench->sender_address, 3, 0, 14, 7);
    if (ibv_destroy_qp(another)) {
        die("ibv_destroy_qp");
    }
    waited = pthread_tryjoin_np(thread, &failed) == EBUSY;
    ibv_ack_async_event(&event);
    if (waited) {
        pthread_join(thread, &failed);
    }
    alarm(0);
    bench->receiver = create_rc(&bench->end, bench->recv_side);
    return event.event_type != expected.type ? "another event" :
           !waited ? "it did not wait" : failed ? "it failed" : NULL;
}

int main(void)
{
    const int count = sizeof(cases) / sizeof(cases[0]);
    struct bench bench = { 0 };
    const char *why;
    int failed = 0;

    setvbuf(stdout, NULL, _IOLBF, 0);
    open_endpoint(&bench.end);
    bench.mr = ibv_reg_mr(bench.end.pd, aligned_alloc(4096, BUFFER_SIZE),
                          BUFFER_SIZE, IBV_ACCESS_LOCAL_WRITE |
                          IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
    if (!bench.mr) {
        die("ibv_reg_mr");
    }
    printf("1..%d\n", count + 1);
    for (int i = 0; i < count; i++) {
        struct expected events[2] = { 0 };

        set_up(&bench, cases[i].srq);
        why = judge(bench.end.context, events,
                    cases[i].provoke(&bench, events));
        printf("%sok %d - %s%s%s\n", why ? "not " : "", i + 1, cases[i].name,
               why ? " # " : "", why ? why : "");
        failed += !!why;
        tear_down(&bench);
    }
    set_up(&bench, true);
    why = destroyed_unacknowledged(&bench);
    printf("%sok %d - destroyed before its event is acknowledged%s%s\n",
           why ? "not " : "", count + 1, why ? " # " : "", why ? why : "");
    tear_down(&bench);
    failed += !!why;
    return failed != 0;
}
