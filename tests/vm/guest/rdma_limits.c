/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rdma_limits: checks the limits that ibv_query_device_ex() reports.
 *
 * It creates as many objects of each kind as possible, and asks for the largest
 * of each size and for one more. It prints a line for each limit: its name, the
 * reported value, the reached value, and the errno at the end.
 */
#include "verbs_pair.h"

#define PAGE 4096
#define MANY 100000             /* more than any device of the test has */
#define GROUP "\xff\x0e\0\0\0\0\0\0\0\0\0\0\0\x07"

struct bench {
    struct endpoint end;
    struct ibv_device_attr_ex attr;
    struct ibv_cq *cq;
    struct ibv_wq *wq;
    void *page;
};

static void report(const char *name, uint64_t reported, uint64_t reached)
{
    printf("%s %ju %ju %d\n", name, (uintmax_t)reported, (uintmax_t)reached,
           errno);
}

/* ---- how many ------------------------------------------------------------ */

static void *make_pd(struct bench *bench)
{
    return ibv_alloc_pd(bench->end.context);
}

static void *make_cq(struct bench *bench)
{
    return ibv_create_cq(bench->end.context, 1, NULL, NULL, 0);
}

static void *make_mr(struct bench *bench)
{
    return ibv_reg_mr(bench->end.pd, bench->page, PAGE, 0);
}

static void *make_mw(struct bench *bench)
{
    return ibv_alloc_mw(bench->end.pd, IBV_MW_TYPE_2);
}

static void *make_srq(struct bench *bench)
{
    struct ibv_srq_init_attr attr = { .attr = { .max_wr = 1, .max_sge = 1 } };

    return ibv_create_srq(bench->end.pd, &attr);
}

static void *make_some_qp(struct bench *bench, enum ibv_qp_type type)
{
    struct ibv_qp_init_attr attr = {
        .send_cq = bench->cq, .recv_cq = bench->cq, .qp_type = type,
        .cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1,
                 .max_recv_sge = 1 },
    };

    return ibv_create_qp(bench->end.pd, &attr);
}

static void *make_qp(struct bench *bench)
{
    return make_some_qp(bench, IBV_QPT_RC);
}

static void *make_raw_qp(struct bench *bench)
{
    return make_some_qp(bench, IBV_QPT_RAW_PACKET);
}

static void *make_wq(struct bench *bench)
{
    struct ibv_wq_init_attr attr = {
        .wq_type = IBV_WQT_RQ, .max_wr = 1, .max_sge = 1,
        .pd = bench->end.pd, .cq = bench->cq,
    };

    return ibv_create_wq(bench->end.context, &attr);
}

static void *make_table_of(struct bench *bench, unsigned log_size)
{
    struct ibv_rwq_ind_table_init_attr attr = { .log_ind_tbl_size = log_size };
    struct ibv_rwq_ind_table *table;

    attr.ind_tbl = calloc(1U << log_size, sizeof(*attr.ind_tbl));
    for (unsigned i = 0; i < 1U << log_size; i++) {
        attr.ind_tbl[i] = bench->wq;
    }
    table = ibv_create_rwq_ind_table(bench->end.context, &attr);
    free(attr.ind_tbl);
    return table;
}

static void *make_table(struct bench *bench)
{
    return make_table_of(bench, 0);
}

static const struct {
    const char *name;
    size_t offset;                  /* of the limit in the attributes */
    void *(*make)(struct bench *bench);
    int (*unmake)(void *object);
    int held;                       /* how many the bench itself has */
} kinds[] = {
#define KIND(name, field, make, unmake, held) \
    { name, offsetof(struct ibv_device_attr_ex, field), make, \
      (int (*)(void *))(void (*)(void))unmake, held }
    KIND("max_pd", orig_attr.max_pd, make_pd, ibv_dealloc_pd, 1),
    KIND("max_cq", orig_attr.max_cq, make_cq, ibv_destroy_cq, 1),
    KIND("max_mr", orig_attr.max_mr, make_mr, ibv_dereg_mr, 0),
    KIND("max_mw", orig_attr.max_mw, make_mw, ibv_dealloc_mw, 0),
    KIND("max_srq", orig_attr.max_srq, make_srq, ibv_destroy_srq, 0),
    /* Work queues have numbers of the same table, and the bench has one. */
    KIND("max_qp", orig_attr.max_qp, make_qp, ibv_destroy_qp, 1),
    KIND("max_raw_qp", orig_attr.max_qp, make_raw_qp, ibv_destroy_qp, 1),
    KIND("max_wq", max_wq_type_rq, make_wq, ibv_destroy_wq, 1),
    KIND("max_tables", rss_caps.max_rwq_indirection_tables, make_table,
         ibv_destroy_rwq_ind_table, 0),
};

static void count(struct bench *bench, size_t kind)
{
    static void *made[MANY];
    uint32_t reported;
    int number = 0;

    memcpy(&reported, (char *)&bench->attr + kinds[kind].offset,
           sizeof(reported));
    errno = 0;
    while (number < MANY && (made[number] = kinds[kind].make(bench))) {
        number++;
    }
    report(kinds[kind].name, reported, number + kinds[kind].held);
    while (number--) {
        if (kinds[kind].unmake(made[number])) {
            die("%s: cannot be destroyed", kinds[kind].name);
        }
    }
}

static void multicast(struct bench *bench)
{
    int reported = bench->attr.orig_attr.max_mcast_grp;
    struct ibv_qp_attr attr = { .port_num = PORT_NUMBER,
                                .qp_state = IBV_QPS_INIT };
    union ibv_gid group = { .raw = GROUP };
    struct ibv_qp *qp = make_some_qp(bench, IBV_QPT_UD);
    static struct ibv_qp *qps[MANY];
    int groups = 0, members = 0;

    if (!qp || ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX |
                             IBV_QP_PORT | IBV_QP_QKEY)) {
        die("UD QP");
    }
    for (; groups < MANY; groups++) {
        group.raw[14] = groups >> 8;
        group.raw[15] = groups;
        errno = ibv_attach_mcast(qp, &group, 0);
        if (errno) {
            break;
        }
    }
    report("max_mcast_grp", reported, groups);
    if (ibv_destroy_qp(qp) != EBUSY) {
        die("a QP of multicast groups was destroyed");
    }
    while (groups--) {
        group.raw[14] = groups >> 8;
        group.raw[15] = groups;
        if (ibv_detach_mcast(qp, &group, 0)) {
            die("ibv_detach_mcast");
        }
    }
    for (; members < MANY; members++) {
        qps[members] = make_some_qp(bench, IBV_QPT_UD);
        errno = qps[members] ? ibv_attach_mcast(qps[members], &group, 0) : -1;
        if (errno) {
            break;
        }
    }
    report("max_mcast_qp_attach", bench->attr.orig_attr.max_mcast_qp_attach,
           members);
    if (qps[members]) {
        ibv_destroy_qp(qps[members]);
    }
    while (members--) {
        if (ibv_detach_mcast(qps[members], &group, 0) ||
            ibv_destroy_qp(qps[members])) {
            die("detach and destroy");
        }
    }
    ibv_destroy_qp(qp);
}

/* ---- how large ----------------------------------------------------------- */

/* Creates and destroys a queue of that size: 0 or an errno value. */
typedef int (*try_size)(struct bench *bench, uint64_t size);

static int try_cqe(struct bench *bench, uint64_t size)
{
    struct ibv_cq *cq = ibv_create_cq(bench->end.context, size, NULL, NULL, 0);

    return cq ? ibv_destroy_cq(cq) : errno;
}

static int try_resized_cqe(struct bench *bench, uint64_t size)
{
    int error = ibv_resize_cq(bench->cq, size);

    ibv_resize_cq(bench->cq, 16);
    return error;
}

static int try_cap(struct bench *bench, struct ibv_qp_cap cap)
{
    struct ibv_qp_init_attr attr = { .send_cq = bench->cq,
                                     .recv_cq = bench->cq,
                                     .qp_type = IBV_QPT_RC, .cap = cap };
    struct ibv_qp *qp = ibv_create_qp(bench->end.pd, &attr);

    return qp ? ibv_destroy_qp(qp) : errno;
}

static int try_send_wr(struct bench *bench, uint64_t size)
{
    return try_cap(bench, (struct ibv_qp_cap) { size, 1, 30, 1, 0 });
}

static int try_recv_wr(struct bench *bench, uint64_t size)
{
    return try_cap(bench, (struct ibv_qp_cap) { 1, size, 1, 30, 0 });
}

static int try_send_sge(struct bench *bench, uint64_t size)
{
    return try_cap(bench, (struct ibv_qp_cap) { 1, 1, size, 1, 0 });
}

static int try_recv_sge(struct bench *bench, uint64_t size)
{
    return try_cap(bench, (struct ibv_qp_cap) { 1, 1, 1, size, 0 });
}

static int try_srq(struct bench *bench, uint32_t wr, uint32_t sge)
{
    struct ibv_srq_init_attr attr = { .attr = { .max_wr = wr,
                                                .max_sge = sge } };
    struct ibv_srq *srq = ibv_create_srq(bench->end.pd, &attr);

    return srq ? ibv_destroy_srq(srq) : errno;
}

static int try_srq_wr(struct bench *bench, uint64_t size)
{
    return try_srq(bench, size, 1);
}

static int try_srq_sge(struct bench *bench, uint64_t size)
{
    return try_srq(bench, 1, size);
}

static int try_dm(struct bench *bench, uint64_t size)
{
    struct ibv_alloc_dm_attr attr = { .length = size };
    struct ibv_dm *dm = ibv_alloc_dm(bench->end.context, &attr);

    return dm ? ibv_free_dm(dm) : errno;
}

static int try_table_size(struct bench *bench, uint64_t size)
{
    unsigned log_size = 0;
    void *table;

    while (1U << log_size < size) {
        log_size++;
    }
    table = make_table_of(bench, log_size);
    return table ? ibv_destroy_rwq_ind_table(table) : errno;
}

/* From INIT to RTS, to itself, with IN and OUT concurrent READs or atomics. */
static int try_rd_atom(struct bench *bench, uint8_t in, uint8_t out)
{
    struct ibv_qp_attr rts = { .qp_state = IBV_QPS_RTS, .max_rd_atomic = out };
    struct ibv_qp_attr rtr = {
        .qp_state = IBV_QPS_RTR, .path_mtu = bench->end.mtu,
        .max_dest_rd_atomic = in, .min_rnr_timer = 12,
        .ah_attr = { .is_global = 1, .port_num = PORT_NUMBER,
                     .grh = { .dgid = bench->end.gid, .hop_limit = 1,
                              .sgid_index = bench->end.gid_index } },
    };
    struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT,
                                .port_num = PORT_NUMBER };
    struct ibv_qp *qp = make_qp(bench);
    int error;

    if (!qp || ibv_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX |
                             IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)) {
        die("QP to INIT");
    }
    rtr.dest_qp_num = qp->qp_num;
    error = ibv_modify_qp(qp, &rtr, IBV_QP_STATE | IBV_QP_AV |
                          IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    if (!error) {
        error = ibv_modify_qp(qp, &rts, IBV_QP_STATE | IBV_QP_SQ_PSN |
                              IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                              IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
    }
    ibv_destroy_qp(qp);
    return error;
}

static int try_dest_rd_atom(struct bench *bench, uint64_t size)
{
    return try_rd_atom(bench, size, 1);
}

static int try_init_rd_atom(struct bench *bench, uint64_t size)
{
    return try_rd_atom(bench, 1, size);
}

static int try_pkeys(struct bench *bench, uint64_t size)
{
    __be16 pkey;

    errno = 0;
    return ibv_query_pkey(bench->end.context, PORT_NUMBER, size - 1, &pkey)
               ? errno : 0;
}

/* The largest of 'reported', and whether what is larger is refused. */
static void measure(struct bench *bench, const char *name, uint64_t reported,
                    try_size try)
{
    int error = try(bench, reported);

    if (error) {
        errno = error;
        report(name, reported, 0);
        return;
    }
    error = try(bench, reported + 1);
    errno = error;
    report(name, reported, reported + !error);
}

int main(void)
{
    struct bench bench = { .page = aligned_alloc(PAGE, PAGE) };
    const struct ibv_device_attr *attr = &bench.attr.orig_attr;

    setvbuf(stdout, NULL, _IOLBF, 0);
    open_endpoint(&bench.end);
    if (ibv_query_device_ex(bench.end.context, NULL, &bench.attr)) {
        die("ibv_query_device_ex");
    }
    bench.cq = ibv_create_cq(bench.end.context, 16, NULL, NULL, 0);
    bench.wq = make_wq(&bench);
    if (!bench.cq || !bench.wq) {
        die("CQ and WQ");
    }
    for (size_t kind = 0; kind < sizeof(kinds) / sizeof(kinds[0]); kind++) {
        count(&bench, kind);
    }
    multicast(&bench);
    measure(&bench, "max_cqe", attr->max_cqe, try_cqe);
    measure(&bench, "max_cqe_resized", attr->max_cqe, try_resized_cqe);
    measure(&bench, "max_qp_wr_send", attr->max_qp_wr, try_send_wr);
    measure(&bench, "max_qp_wr_recv", attr->max_qp_wr, try_recv_wr);
    measure(&bench, "max_sge_send", attr->max_sge, try_send_sge);
    measure(&bench, "max_sge_recv", attr->max_sge, try_recv_sge);
    measure(&bench, "max_srq_wr", attr->max_srq_wr, try_srq_wr);
    measure(&bench, "max_srq_sge", attr->max_srq_sge, try_srq_sge);
    measure(&bench, "max_qp_rd_atom", attr->max_qp_rd_atom, try_dest_rd_atom);
    measure(&bench, "max_qp_init_rd_atom", attr->max_qp_init_rd_atom,
            try_init_rd_atom);
    measure(&bench, "max_pkeys", attr->max_pkeys, try_pkeys);
    measure(&bench, "max_dm_size", bench.attr.max_dm_size, try_dm);
    measure(&bench, "max_table_size",
            bench.attr.rss_caps.max_rwq_indirection_table_size,
            try_table_size);
    return 0;
}
