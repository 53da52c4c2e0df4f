/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rdma_qp_states COUNT SEED: creates COUNT queue pairs of all types, in states
 * and with attributes drawn from the seed, and two SRQs, the second for XRC.
 *
 * Prints one line of words NAME=VALUE for each object, with the results of
 * ibv_query_qp() and ibv_query_srq(). Then it prints "ready" and waits until it
 * is killed.
 */
#include "verbs_pair.h"

#include <fcntl.h>

#define DEPTH 4
#define QKEY 0x11111111

struct bench {
    struct endpoint end;
    struct ibv_cq *cq;
    struct ibv_srq *srq, *xrc_srq;
    struct ibv_xrcd *xrcd;
    uint64_t chance;
};

/* An enum ibv_qp_state for each step, and how far a type goes. */
static const enum ibv_qp_state steps[] = {
    IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_SQD,
};
#define STEPS (sizeof(steps) / sizeof(steps[0]))

static const struct {
    const char *name;
    enum ibv_qp_type type;
} types[] = {
    { "RC", IBV_QPT_RC }, { "UC", IBV_QPT_UC }, { "UD", IBV_QPT_UD },
    { "RAW_PACKET", IBV_QPT_RAW_PACKET }, { "XRC_INI", IBV_QPT_XRC_SEND },
    { "XRC_TGT", IBV_QPT_XRC_RECV },
};
#define TYPES (sizeof(types) / sizeof(types[0]))

static uint32_t draw(struct bench *bench, uint32_t below)
{
    bench->chance = bench->chance * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(bench->chance >> 33) % below;
}

static void set_up(struct bench *bench)
{
    struct ibv_xrcd_init_attr xrcd = {
        .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
        .fd = -1, .oflags = O_CREAT,
    };
    struct ibv_srq_init_attr srq = { .attr = { .max_wr = 4, .max_sge = 1 } };
    struct ibv_srq_init_attr_ex xrc = {
        .attr = { .max_wr = 8, .max_sge = 2 }, .srq_type = IBV_SRQT_XRC,
        .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_XRCD |
                     IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_PD,
    };

    open_endpoint(&bench->end);
    bench->cq = ibv_create_cq(bench->end.context, 64, NULL, NULL, 0);
    bench->srq = ibv_create_srq(bench->end.pd, &srq);
    bench->xrcd = ibv_open_xrcd(bench->end.context, &xrcd);
    if (!bench->cq || !bench->srq || !bench->xrcd) {
        die("ibv_create_cq, ibv_create_srq or ibv_open_xrcd");
    }
    xrc.pd = bench->end.pd;
    xrc.xrcd = bench->xrcd;
    xrc.cq = bench->cq;
    bench->xrc_srq = ibv_create_srq_ex(bench->end.context, &xrc);
    if (!bench->xrc_srq) {
        die("ibv_create_srq_ex");
    }
}

/* Its receives are never used. */
static void fill(struct ibv_srq *srq, unsigned receives, unsigned limit)
{
    struct ibv_srq_attr attr = { .srq_limit = limit };
    struct ibv_recv_wr *bad, wr = { 0 };

    while (receives--) {
        if (ibv_post_srq_recv(srq, &wr, &bad)) {
            die("ibv_post_srq_recv");
        }
    }
    if (ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT)) {
        die("ibv_modify_srq");
    }
}

/* Verbs return the number of an XRC SRQ. */
static void print_srq(struct ibv_srq *srq)
{
    struct ibv_srq_attr attr;
    uint32_t number = 0;

    ibv_get_srq_num(srq, &number);
    if (ibv_query_srq(srq, &attr)) {
        die("ibv_query_srq");
    }
    printf("srqn=%u limit=%u max-wr=%u\n", number, attr.srq_limit,
           attr.max_wr);
}

static struct ibv_qp *create(struct bench *bench, enum ibv_qp_type type)
{
    struct ibv_qp_init_attr_ex attr = {
        .qp_type = type, .comp_mask = IBV_QP_INIT_ATTR_PD, .pd = bench->end.pd,
        .send_cq = bench->cq, .recv_cq = bench->cq,
        .cap = { .max_send_wr = DEPTH, .max_recv_wr = DEPTH,
                 .max_send_sge = 1, .max_recv_sge = 1 },
    };

    if (type == IBV_QPT_XRC_RECV) {
        attr = (struct ibv_qp_init_attr_ex) {
            .qp_type = type, .comp_mask = IBV_QP_INIT_ATTR_XRCD,
            .xrcd = bench->xrcd,
        };
    } else if (type == IBV_QPT_XRC_SEND) {
        attr.recv_cq = NULL;
        attr.cap.max_recv_wr = attr.cap.max_recv_sge = 0;
    } else if (type == IBV_QPT_RC && draw(bench, 2)) {
        attr.srq = bench->srq;
        attr.cap.max_recv_wr = attr.cap.max_recv_sge = 0;
    }
    return ibv_create_qp_ex(bench->end.context, &attr);
}

static bool is_connected(enum ibv_qp_type type)
{
    return type != IBV_QPT_UD && type != IBV_QPT_RAW_PACKET;
}

static bool is_reliable(enum ibv_qp_type type)
{
    return is_connected(type) && type != IBV_QPT_UC;
}

static int mask_of(enum ibv_qp_type type, enum ibv_qp_state state)
{
    const bool asks = is_reliable(type) && type != IBV_QPT_XRC_RECV;
    const bool answers = is_reliable(type) && type != IBV_QPT_XRC_SEND;

    switch (state) {
    case IBV_QPS_INIT:
        return type == IBV_QPT_RAW_PACKET ? IBV_QP_STATE | IBV_QP_PORT :
               IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
               (type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
    case IBV_QPS_RTR:
        return IBV_QP_STATE | (!is_connected(type) ? 0 :
               IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN) |
               (answers ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0);
    case IBV_QPS_RTS:
        return IBV_QP_STATE |
               (type == IBV_QPT_RAW_PACKET ? 0 : IBV_QP_SQ_PSN) |
               (is_reliable(type) ? IBV_QP_TIMEOUT : 0) |
               (asks ? IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                IBV_QP_MAX_QP_RD_ATOMIC : 0);
    default:
        return IBV_QP_STATE;
    }
}

/* Moves a QP to a state through the earlier ones. */
static void move(struct bench *bench, struct ibv_qp *qp, enum ibv_qp_type type,
                 unsigned last)
{
    struct ibv_qp_attr attr = {
        .port_num = PORT_NUMBER, .qkey = QKEY,
        .qp_access_flags = draw(bench, 2) ? IBV_ACCESS_REMOTE_WRITE : 0,
        .path_mtu = IBV_MTU_256 + draw(bench, 3),
        .dest_qp_num = 2 + draw(bench, 0xfffff0),
        .rq_psn = draw(bench, 1 << 24), .sq_psn = draw(bench, 1 << 24),
        .max_rd_atomic = draw(bench, 4), .max_dest_rd_atomic = draw(bench, 4),
        .min_rnr_timer = draw(bench, 32), .timeout = draw(bench, 32),
        .retry_cnt = draw(bench, 8), .rnr_retry = draw(bench, 8),
        .ah_attr = {
            .is_global = 1, .port_num = PORT_NUMBER,
            .grh = { .dgid = bench->end.gid, .hop_limit = 64,
                     .sgid_index = bench->end.gid_index },
        },
    };

    for (unsigned i = 1; i <= last; i++) {
        attr.qp_state = steps[i];
        if (ibv_modify_qp(qp, &attr, mask_of(type, steps[i]))) {
            die("%u: modify to %u", type, steps[i]);
        }
    }
}

static void print(struct ibv_qp *qp, const char *name)
{
    static const char *const states[] = {
        [IBV_QPS_RESET] = "RESET", [IBV_QPS_INIT] = "INIT",
        [IBV_QPS_RTR] = "RTR", [IBV_QPS_RTS] = "RTS", [IBV_QPS_SQD] = "SQD",
        [IBV_QPS_ERR] = "ERR",
    };
    struct ibv_qp_init_attr init;
    struct ibv_qp_attr attr;

    if (ibv_query_qp(qp, &attr, IBV_QP_RATE_LIMIT - 1, &init)) {
        die("ibv_query_qp");
    }
    printf("qpn=%u type=%s state=%s dest-qpn=%u rq-psn=%u sq-psn=%u timeout=%u "
           "retry-cnt=%u rnr-retry=%u path-mtu=%u qkey=%u access=%u "
           "max-rd-atomic=%u max-dest-rd-atomic=%u min-rnr-timer=%u\n",
           qp->qp_num, name, states[attr.qp_state], attr.dest_qp_num,
           attr.rq_psn, attr.sq_psn, attr.timeout, attr.retry_cnt,
           attr.rnr_retry, attr.path_mtu, attr.qkey,
           (unsigned)attr.qp_access_flags, attr.max_rd_atomic,
           attr.max_dest_rd_atomic, attr.min_rnr_timer);
}

static void make(struct bench *bench, unsigned which)
{
    const enum ibv_qp_type type = types[which].type;
    struct ibv_qp *qp = create(bench, type);
    unsigned last = draw(bench, STEPS);
    struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };

    if (!qp) {
        die("ibv_create_qp of type %s", types[which].name);
    }
    /* A target has nothing to drain. */
    if (type == IBV_QPT_XRC_RECV && steps[last] == IBV_QPS_SQD) {
        last--;
    }
    move(bench, qp, type, last);
    if (last && draw(bench, 6) == 0 &&
        ibv_modify_qp(qp, &error, IBV_QP_STATE)) {
        die("modify to ERR");
    }
    print(qp, types[which].name);
}

int main(int argc, char **argv)
{
    struct bench bench = { 0 };

    if (argc != 3) {
        fprintf(stderr, "usage: rdma_qp_states COUNT SEED\n");
        return 2;
    }
    bench.chance = strtoull(argv[2], NULL, 0);
    set_up(&bench);
    fill(bench.srq, 3, 2);
    fill(bench.xrc_srq, 6, 5);
    print_srq(bench.srq);
    print_srq(bench.xrc_srq);
    for (int i = 0; i < atoi(argv[1]); i++) {
        make(&bench, (unsigned)i % TYPES);
    }
    puts("ready");
    fflush(stdout);
    pause();
    return 0;
}
