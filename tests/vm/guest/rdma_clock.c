/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rdma_clock PTP: time stamps of completions agree with the clocks.
 *
 * A queue pair connected to itself sends to itself. Before and after, the
 * device clock is read in the mapped page (ibv_query_rt_values_ex), and Unix
 * time from the PTP clock PTP (/dev/ptpN): each completion's time stamp, and
 * its wall-clock time, must lie in between. Also: the other fields of the
 * extended CQ. Prints TAP.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/timex.h>

#include "report.h"
#include "verbs_pair.h"

#define ROUNDS 50
#define FD_TO_CLOCKID(fd) ((~(clockid_t)(fd) << 3) | 3)
#define IMMEDIATE 0x12345678
/* Limit for the offset of the PTP clock from system time: both run freely. */
#define SLACK_NS 2000000000

static uint64_t to_ns(struct timespec time)
{
    return time.tv_sec * 1000000000ULL + time.tv_nsec;
}

/* tv_nsec has all of it, as with other cards. */
static uint64_t device_ns(struct ibv_context *context)
{
    struct ibv_values_ex values = { .comp_mask = IBV_VALUES_MASK_RAW_CLOCK };

    if (ibv_query_rt_values_ex(context, &values)) {
        die("ibv_query_rt_values_ex");
    }
    return values.raw_clock.tv_nsec;
}

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec now;

    if (clock_gettime(clock, &now)) {
        die("clock_gettime");
    }
    return to_ns(now);
}

/* 'offset' if it may be that of the two clocks, otherwise another one. */
static uint64_t ptp_offset(struct endpoint *end, clockid_t ptp,
                           uint64_t offset)
{
    uint64_t before = device_ns(end->context);
    uint64_t unix_ns = clock_ns(ptp);
    uint64_t after = device_ns(end->context);

    return unix_ns >= before + offset && unix_ns <= after + offset
               ? offset : unix_ns - before;
}

/* All fields that a queue pair of this service can have. */
static struct ibv_cq_ex *create_cq(struct ibv_context *context)
{
    struct ibv_cq_init_attr_ex attr = {
        .cqe = 16,
        .wc_flags = IBV_WC_STANDARD_FLAGS |
                    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
                    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK,
    };
    struct ibv_cq_ex *cq = ibv_create_cq_ex(context, &attr);

    if (!cq) {
        die("ibv_create_cq_ex");
    }
    return cq;
}

/* Waits for an entry and begins to read it. */
static void begin(struct ibv_cq_ex *cq)
{
    double deadline = seconds_now() + COMPLETION_WAIT_S;
    struct ibv_poll_cq_attr attr = { 0 };

    while (ibv_start_poll(cq, &attr)) {
        if (seconds_now() > deadline) {
            die("a completion is missing");
        }
    }
}

static void send_to_self(struct ibv_qp *qp, struct ibv_mr *mr)
{
    struct ibv_sge sge = { (uintptr_t)mr->addr, 64, mr->lkey };
    struct ibv_recv_wr *bad, receive = { .wr_id = 2, .sg_list = &sge,
                                         .num_sge = 1 };
    struct ibv_send_wr *bad_send, send = {
        .wr_id = 1, .sg_list = &sge, .num_sge = 1,
        .opcode = IBV_WR_SEND_WITH_IMM, .send_flags = IBV_SEND_SIGNALED,
        .imm_data = htonl(IMMEDIATE),
    };

    if (ibv_post_recv(qp, &receive, &bad) ||
        ibv_post_send(qp, &send, &bad_send)) {
        die("post");
    }
}

static void timestamps(struct endpoint *end, struct ibv_cq_ex *cq,
                       struct ibv_qp *qp, struct ibv_mr *mr, clockid_t ptp)
{
    bool in_page = true, in_ptp = true, ascending = true;
    uint64_t last = 0;

    for (int i = 0; i < 2 * ROUNDS; i++) {
        uint64_t before, ptp_before, ptp_after, after, wall, at;

        before = device_ns(end->context);
        ptp_before = clock_ns(ptp);
        if (i % 2 == 0) {
            send_to_self(qp, mr);
        }
        begin(cq);
        at = ibv_wc_read_completion_ts(cq);
        wall = ibv_wc_read_completion_wallclock_ns(cq);
        ibv_end_poll(cq);
        ptp_after = clock_ns(ptp);
        after = device_ns(end->context);
        /* The second of a pair may have come with the first. */
        in_page &= at <= after && (i % 2 || at >= before);
        in_ptp &= wall <= ptp_after && (i % 2 || wall >= ptp_before);
        ascending &= at >= last && wall - at == ptp_offset(end, ptp, wall - at);
        last = at;
    }
    report(in_page, "completions in the time of the mapped page");
    report(in_ptp, "completions in the time of the PTP clock");
    report(ascending, "time does not run backwards, nor do clocks drift apart");
}

static void unix_time(clockid_t ptp)
{
    int64_t apart = clock_ns(ptp) - clock_ns(CLOCK_REALTIME);

    report(apart < SLACK_NS && apart > -(int64_t)SLACK_NS,
           "the PTP clock tells Unix time");
}

static void fields(struct ibv_cq_ex *cq, struct ibv_qp *qp, struct ibv_mr *mr)
{
    bool send = false, receive = false;

    send_to_self(qp, mr);
    for (int i = 0; i < 2; i++) {
        bool fine;

        begin(cq);
        fine = cq->status == IBV_WC_SUCCESS &&
               ibv_wc_read_qp_num(cq) == qp->qp_num &&
               ibv_wc_read_vendor_err(cq) == 0 &&
               ibv_wc_read_slid(cq) == 0 && ibv_wc_read_sl(cq) == 0 &&
               ibv_wc_read_dlid_path_bits(cq) == 0;
        if (cq->wr_id == 1) {
            send = fine && ibv_wc_read_opcode(cq) == IBV_WC_SEND;
        } else {
            receive = fine && cq->wr_id == 2 &&
                      ibv_wc_read_opcode(cq) == IBV_WC_RECV &&
                      ibv_wc_read_byte_len(cq) == 64 &&
                      ibv_wc_read_wc_flags(cq) == IBV_WC_WITH_IMM &&
                      ibv_wc_read_imm_data(cq) == htonl(IMMEDIATE);
        }
        ibv_end_poll(cq);
    }
    report(send && receive, "fields of the extended CQ");
}

static void clock_is_read_only(struct ibv_context *context, clockid_t ptp)
{
    struct ibv_values_ex values = { .comp_mask = 1 << 5 };
    struct timex faster = { .modes = ADJ_FREQUENCY, .freq = 0 };
    struct timespec past = { 0 };

    report(clock_settime(ptp, &past) && errno == EOPNOTSUPP &&
               clock_adjtime(ptp, &faster) < 0 && errno == EOPNOTSUPP,
           "the PTP clock cannot be set");
    report(ibv_query_rt_values_ex(context, &values) == EINVAL,
           "values that are not known");
}

int main(int argc, char **argv)
{
    struct ibv_device_attr_ex attr;
    static uint8_t memory[4096];
    struct endpoint end;
    struct ibv_cq_ex *cq;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    int fd;

    if (argc != 2 || (fd = open(argv[1], O_RDWR)) < 0) {
        die("usage: rdma_clock /dev/ptpN");
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    open_endpoint(&end);
    if (ibv_query_device_ex(end.context, NULL, &attr)) {
        die("ibv_query_device_ex");
    }
    report(attr.completion_timestamp_mask == UINT64_MAX &&
           attr.hca_core_clock == 1000000, "64 bits of nanoseconds");
    cq = create_cq(end.context);
    qp = create_rc(&end, ibv_cq_ex_to_cq(cq));
    mr = ibv_reg_mr(end.pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);
    if (!mr) {
        die("ibv_reg_mr");
    }
    connect_to_itself(&end, qp, 0);
    timestamps(&end, cq, qp, mr, FD_TO_CLOCKID(fd));
    unix_time(FD_TO_CLOCKID(fd));
    fields(cq, qp, mr);
    clock_is_read_only(end.context, FD_TO_CLOCKID(fd));
    return end_report();
}
