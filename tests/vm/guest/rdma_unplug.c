/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rdma_unplug: a program whose device is removed or dies while it is used.
 *
 * It writes to itself over an RC QP, into pinned memory and into memory paged
 * on demand, polls, and prints "running". After IBV_EVENT_DEVICE_FATAL pending
 * receives of an RC and a UD QP must be flushed, each once. Every verb must
 * fail with EIO, the port is down if it can be queried, and all objects can be
 * destroyed: run it with RDMAV_ALLOW_DISASSOC_DESTROY=1.
 *
 * "rdma_unplug once": the device is removed, which must be reported exactly
 * once, after the removal.
 */
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>

#include "verbs_pair.h"

#define SIZE (256u * 1024)
#define FLUSHED_S 60            /* after the end */
#define WAITING 16              /* receives of a queue pair */
#define RIGHTS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

static void expect(const char *what, int error, int wanted)
{
    if (error != wanted) {
        printf("wrong: %s: errno %d, not %d\n", what, error, wanted);
        exit(1);
    }
}

static bool got_event(struct ibv_context *context)
{
    struct pollfd fd = { .fd = context->async_fd, .events = POLLIN };
    struct ibv_async_event event;

    if (poll(&fd, 1, 0) < 1 || ibv_get_async_event(context, &event)) {
        return false;
    }
    ibv_ack_async_event(&event);
    return event.event_type == IBV_EVENT_DEVICE_FATAL;
}

static struct ibv_mr *reg(struct endpoint *end, int access)
{
    void *area = mmap(NULL, SIZE, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct ibv_mr *mr = ibv_reg_mr(end->pd, area, SIZE, RIGHTS | access);

    if (!mr) {
        die("ibv_reg_mr");
    }
    return mr;
}

/*
 * Writes until the fatal event, without a time limit, as the caller has one.
 * Returns whether a write succeeded before. Errors are part of the end.
 */
static bool write_on(struct endpoint *end, struct ibv_qp *qp, struct ibv_cq *cq,
                     struct ibv_mr *from, struct ibv_mr *to)
{
    struct ibv_sge sge = { (uintptr_t)from->addr, SIZE, from->lkey };
    struct ibv_send_wr *bad, wr = {
        .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
        .send_flags = IBV_SEND_SIGNALED,
        .wr.rdma = { (uintptr_t)to->addr, to->rkey },
    };
    unsigned long done = 0;
    bool told = false;
    struct ibv_wc wc;

    while (!told) {
        madvise(to->addr, SIZE, MADV_DONTNEED);
        if (ibv_post_send(qp, &wr, &bad)) {
            told = got_event(end->context);
            continue;
        }
        while (!(told = got_event(end->context))) {
            if (ibv_poll_cq(cq, 1, &wc) == 1) {
                if (wc.status == IBV_WC_SUCCESS && ++done == 1) {
                    printf("running\n");
                }
                break;
            }
        }
    }
    return done > 0;
}

/* One in which datagrams can be received. */
static struct ibv_qp *create_ud(struct endpoint *end, struct ibv_cq *cq)
{
    struct ibv_qp_init_attr attr = {
        .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_UD,
        .cap = { .max_send_wr = 1, .max_recv_wr = WAITING, .max_send_sge = 1,
                 .max_recv_sge = 1 },
    };
    struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT,
                                .port_num = PORT_NUMBER };
    struct ibv_qp_attr rtr = { .qp_state = IBV_QPS_RTR };
    struct ibv_qp *qp = ibv_create_qp(end->pd, &attr);

    if (!qp || ibv_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX |
                             IBV_QP_PORT | IBV_QP_QKEY) ||
        ibv_modify_qp(qp, &rtr, IBV_QP_STATE)) {
        die("a UD queue pair");
    }
    return qp;
}

static void receive(struct ibv_qp *qp, struct ibv_mr *mr, uint64_t wr_id)
{
    struct ibv_sge sge = { (uintptr_t)mr->addr, SIZE, mr->lkey };

    for (int i = 0; i < WAITING; i++) {
        struct ibv_recv_wr *bad, wr = { .wr_id = wr_id + i, .sg_list = &sge,
                                        .num_sge = 1 };

        if (ibv_post_recv(qp, &wr, &bad)) {
            die("ibv_post_recv");
        }
    }
}

/* Receives 0 to COUNT - 1 complete, each once, and nothing else. */
static void see_flushed(struct ibv_cq *cq, int count)
{
    double limit = seconds_now() + FLUSHED_S;
    bool told[2 * WAITING] = { false };
    struct ibv_wc wc;
    int seen = 0;

    while (seen < count && seconds_now() < limit) {
        if (ibv_poll_cq(cq, 1, &wc) < 1) {
            continue;
        }
        if (wc.status != IBV_WC_WR_FLUSH_ERR ||
            wc.wr_id >= (uint64_t)count || told[wc.wr_id]) {
            printf("wrong: receive %d: %s\n", (int)wc.wr_id,
                   ibv_wc_status_str(wc.status));
            exit(1);
        }
        told[wc.wr_id] = true;
        seen++;
    }
    if (seen < count || ibv_poll_cq(cq, 1, &wc) > 0) {
        printf("wrong: %d or more of %d receives are flushed\n", seen, count);
        exit(1);
    }
}

/* Whatever the kernel is asked for. */
static void see_refused(struct endpoint *end, struct ibv_qp *qp,
                        struct ibv_cq *cq, struct ibv_mr *mr)
{
    struct ibv_ah_attr path = {
        .is_global = 1, .port_num = PORT_NUMBER,
        .grh = { .dgid = end->gid, .sgid_index = end->gid_index },
    };
    struct ibv_qp_init_attr init = {
        .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
        .cap = { 1, 1, 1, 1, 0 },
    };
    struct ibv_srq_init_attr srq = { .attr = { 16, 1, 0 } };
    struct ibv_alloc_dm_attr dm = { .length = 64 };
    /* A transition to ERR may succeed, as an exiting program needs it. */
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS };

#define REFUSED(verb, ...) \
    (errno = 0, expect(#verb, verb(__VA_ARGS__) ? 0 : errno, EIO))
    REFUSED(ibv_alloc_pd, end->context);
    REFUSED(ibv_reg_mr, end->pd, mr->addr, SIZE, 0);
    REFUSED(ibv_alloc_mw, end->pd, IBV_MW_TYPE_1);
    REFUSED(ibv_create_cq, end->context, 8, NULL, NULL, 0);
    REFUSED(ibv_create_qp, end->pd, &init);
    REFUSED(ibv_create_srq, end->pd, &srq);
    REFUSED(ibv_create_ah, end->pd, &path);
    REFUSED(ibv_alloc_dm, end->context, &dm);
    expect("ibv_resize_cq", ibv_resize_cq(cq, 64), EIO);
    expect("ibv_query_qp", ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), EIO);
    expect("ibv_modify_qp", ibv_modify_qp(qp, &attr, IBV_QP_STATE), EIO);
}

int main(int argc, char **argv)
{
    bool once = argc > 1 && !strcmp(argv[1], "once");
    struct ibv_port_attr port;
    struct endpoint end;
    struct ibv_mr *pinned, *paged;
    struct ibv_cq *cq, *receives;
    struct ibv_qp *qp, *waiting, *datagrams;
    int error;

    setvbuf(stdout, NULL, _IOLBF, 0);
    open_endpoint(&end);
    fcntl(end.context->async_fd, F_SETFL, O_NONBLOCK);
    cq = ibv_create_cq(end.context, 32, NULL, NULL, 0);
    qp = create_rc(&end, cq);
    connect_to_itself(&end, qp, RIGHTS);
    pinned = reg(&end, 0);
    paged = reg(&end, IBV_ACCESS_ON_DEMAND);
    receives = ibv_create_cq(end.context, 2 * WAITING, NULL, NULL, 0);
    waiting = create_rc(&end, receives);
    connect_to_itself(&end, waiting, RIGHTS);
    receive(waiting, pinned, 0);
    datagrams = create_ud(&end, receives);
    receive(datagrams, pinned, WAITING);
    if (!write_on(&end, qp, cq, pinned, paged)) {
        printf("wrong: the fatal event came too early\n");
        return 1;
    }
    error = ibv_query_port(end.context, 1, &port);
    if (error || port.state != IBV_PORT_DOWN) {
        expect("ibv_query_port", error, EIO);
    }
    see_flushed(receives, 2 * WAITING);
    see_refused(&end, waiting, cq, pinned);
    sleep(1);
    if (once && got_event(end.context)) {
        printf("wrong: the fatal event came twice\n");
        return 1;
    }
    expect("ibv_destroy_qp", ibv_destroy_qp(qp), 0);
    expect("ibv_destroy_qp", ibv_destroy_qp(waiting), 0);
    expect("ibv_destroy_qp of UD", ibv_destroy_qp(datagrams), 0);
    expect("ibv_destroy_cq", ibv_destroy_cq(cq), 0);
    expect("ibv_destroy_cq", ibv_destroy_cq(receives), 0);
    expect("ibv_dereg_mr", ibv_dereg_mr(pinned), 0);
    expect("ibv_dereg_mr on demand", ibv_dereg_mr(paged), 0);
    expect("ibv_dealloc_pd", ibv_dealloc_pd(end.pd), 0);
    expect("ibv_close_device", ibv_close_device(end.context), 0);
    printf("done\n");
    return 0;
}
