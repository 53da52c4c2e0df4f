/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rdma_queue_depth: an SQ, RQ and SRQ of the depth that ibv_query_device()
 * reports accept that many work requests and not one more. Each request
 * completes once, and sends complete in order.
 */
#include "report.h"
#include "verbs_pair.h"

struct bench {
    struct endpoint end;
    struct ibv_device_attr limits;
    struct ibv_cq *cq;
    uint8_t *waits;                 /* by wr_id of a receive */
    int sent, received;
    bool orderly;                   /* so far */
};

/* Of no bytes. */
static int post_receive(struct ibv_qp *qp, struct ibv_srq *srq, uint64_t wr_id)
{
    struct ibv_recv_wr *bad, wr = { .wr_id = wr_id };

    return srq ? ibv_post_srq_recv(srq, &wr, &bad) :
                 ibv_post_recv(qp, &wr, &bad);
}

static int post_send(struct ibv_qp *qp, uint64_t wr_id)
{
    struct ibv_send_wr *bad, wr = {
        .wr_id = wr_id, .opcode = IBV_WR_SEND,
        .send_flags = IBV_SEND_SIGNALED,
    };

    return ibv_post_send(qp, &wr, &bad);
}

static void complete_one(struct bench *bench)
{
    struct ibv_wc wc = next_completion(bench->cq);

    if (wc.status) {
        bench->orderly = false;
    } else if (wc.opcode == IBV_WC_RECV) {
        bench->orderly &= bench->waits[wc.wr_id];
        bench->waits[wc.wr_id] = false;
        bench->received++;
    } else {
        bench->orderly &= wc.wr_id == (uint64_t)bench->sent;
        bench->sent++;
    }
}

/* Returns whether it is full after DEPTH receives. */
static bool fill_receives(struct bench *bench, struct ibv_qp *qp,
                          struct ibv_srq *srq, int depth)
{
    for (int i = 0; i < depth; i++) {
        if (post_receive(qp, srq, i)) {
            return false;
        }
        bench->waits[i] = true;
    }
    return post_receive(qp, srq, depth) == ENOMEM;
}

/* To itself, a full queue at a time. Was it full each time? */
static bool send_all(struct bench *bench, struct ibv_qp *qp, int messages)
{
    int depth = bench->limits.max_qp_wr;
    bool full = true;

    bench->sent = bench->received = 0;
    bench->orderly = true;
    for (int posted = 0; posted < messages;) {
        for (int i = 0; i < depth; i++) {
            full &= !post_send(qp, posted++);
        }
        full &= post_send(qp, posted) == ENOMEM;
        while (bench->sent < posted) {
            complete_one(bench);
        }
    }
    while (bench->received < messages) {
        complete_one(bench);
    }
    return full;
}

static struct ibv_qp *make_qp(struct bench *bench, struct ibv_srq *srq)
{
    struct ibv_qp_init_attr attr = {
        .send_cq = bench->cq, .recv_cq = bench->cq, .srq = srq,
        .qp_type = IBV_QPT_RC,
        .cap = { .max_send_wr = bench->limits.max_qp_wr, .max_send_sge = 1,
                 .max_recv_wr = bench->limits.max_qp_wr, .max_recv_sge = 1 },
    };
    struct ibv_qp *qp = ibv_create_qp(bench->end.pd, &attr);

    if (!qp) {
        die("ibv_create_qp");
    }
    return qp;
}

static void own_receives(struct bench *bench)
{
    int depth = bench->limits.max_qp_wr;
    struct ibv_qp *qp = make_qp(bench, NULL);

    connect_to_itself(&bench->end, qp, 0);
    report(fill_receives(bench, qp, NULL, depth), "an RQ of max_qp_wr");
    report(send_all(bench, qp, depth), "an SQ of max_qp_wr");
    report(bench->orderly, "all of them complete");
    if (ibv_destroy_qp(qp)) {
        die("ibv_destroy_qp");
    }
}

static void shared_receives(struct bench *bench)
{
    int depth = bench->limits.max_srq_wr;
    struct ibv_srq_init_attr attr = { .attr = { depth, 1, 0 } };
    struct ibv_srq *srq = ibv_create_srq(bench->end.pd, &attr);
    struct ibv_qp *qp;

    if (!srq) {
        die("ibv_create_srq");
    }
    qp = make_qp(bench, srq);
    connect_to_itself(&bench->end, qp, 0);
    for (int round = 0; round < 2; round++) {
        report(fill_receives(bench, qp, srq, depth), "an SRQ of max_srq_wr");
        report(send_all(bench, qp, depth), "an SQ of max_qp_wr with the SRQ");
        report(bench->orderly, "all of them complete");
    }
    if (ibv_destroy_qp(qp) || ibv_destroy_srq(srq)) {
        die("ibv_destroy_qp, ibv_destroy_srq");
    }
}

int main(void)
{
    struct bench bench = {};

    setvbuf(stdout, NULL, _IOLBF, 0);
    open_endpoint(&bench.end);
    if (ibv_query_device(bench.end.context, &bench.limits)) {
        die("ibv_query_device");
    }
    bench.cq = ibv_create_cq(bench.end.context, bench.limits.max_srq_wr +
                             bench.limits.max_qp_wr, NULL, NULL, 0);
    bench.waits = calloc(bench.limits.max_srq_wr + 1, 1);
    if (!bench.cq || !bench.waits) {
        die("ibv_create_cq");
    }
    own_receives(&bench);
    shared_receives(&bench);
    return end_report();
}
