/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rdma_unbind PCI-ADDRESS: unbinds the driver while a program uses the device.
 *
 * A second thread uses the mapped doorbell page, clock page and device memory
 * all the time. The program must get IBV_EVENT_DEVICE_FATAL, and EIO from the
 * clock and from every command. It must neither crash nor hang, and must be
 * able to destroy all its objects. Prints TAP.
 */
#include "report.h"
#include "verbs_pair.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

#define EVENT_WAIT_MS 20000
#define DM_SIZE 4096

static struct bench {
    struct endpoint end;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    struct ibv_dm *dm;
    atomic_bool stop;
} bench;

static void set_up(void)
{
    struct ibv_alloc_dm_attr dm_attr = { .length = DM_SIZE };
    static uint8_t memory[4096];

    open_endpoint(&bench.end);
    bench.cq = ibv_create_cq(bench.end.context, 64, NULL, NULL, 0);
    bench.mr = ibv_reg_mr(bench.end.pd, memory, sizeof(memory),
                          IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    bench.dm = ibv_alloc_dm(bench.end.context, &dm_attr);
    if (!bench.cq || !bench.mr || !bench.dm) {
        die("CQ, region and device memory");
    }
    bench.qp = create_rc(&bench.end, bench.cq);
    connect_to_itself(&bench.end, bench.qp, IBV_ACCESS_REMOTE_WRITE);
}

/* Returns 0, or EIO after the clock page is gone. */
static int read_clock(void)
{
    struct ibv_values_ex values = { .comp_mask = IBV_VALUES_MASK_RAW_CLOCK };

    return ibv_query_rt_values_ex(bench.end.context, &values);
}

/* Uses everything that reaches the device without the kernel. */
static void *use(void *argument)
{
    struct ibv_sge sge = { (uintptr_t)bench.mr->addr, 8, bench.mr->lkey };
    struct ibv_send_wr *bad, wr = {
        .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
        .send_flags = IBV_SEND_SIGNALED,
        .wr.rdma = { (uintptr_t)bench.mr->addr + 2048, bench.mr->rkey },
    };
    uint64_t bytes = 1;
    struct ibv_wc wc;

    (void)argument;
    while (!bench.stop) {
        ibv_post_send(bench.qp, &wr, &bad);     /* fills up in the end */
        ibv_poll_cq(bench.cq, 1, &wc);
        ibv_req_notify_cq(bench.cq, 0);
        ibv_memcpy_to_dm(bench.dm, 0, &bytes, sizeof(bytes));
        ibv_memcpy_from_dm(&bytes, bench.dm, 0, sizeof(bytes));
        read_clock();
    }
    return NULL;
}

static void unbind(const char *address)
{
    int fd = open("/sys/bus/pci/drivers/fakernic/unbind", O_WRONLY);

    if (fd < 0 || write(fd, address, strlen(address)) < 0) {
        die("unbind");
    }
    close(fd);
}

static bool gets_fatal_event(void)
{
    struct pollfd fd = { .fd = bench.end.context->async_fd, .events = POLLIN };
    struct ibv_async_event event;
    bool fatal;

    if (poll(&fd, 1, EVENT_WAIT_MS) != 1 ||
        ibv_get_async_event(bench.end.context, &event)) {
        return false;
    }
    fatal = event.event_type == IBV_EVENT_DEVICE_FATAL;
    ibv_ack_async_event(&event);
    return fatal;
}

/* Every command fails with EIO from now on. */
static void check_commands_fail(void)
{
    struct ibv_context *context = bench.end.context;
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
    struct ibv_port_attr port;
    static uint8_t memory[64];

    report(ibv_query_port(context, PORT_NUMBER, &port) == EIO, "query port");
    report(!ibv_alloc_pd(context) && errno == EIO, "allocate a PD");
    report(!ibv_reg_mr(bench.end.pd, memory, sizeof(memory), 0) &&
           errno == EIO, "register memory");
    report(!ibv_create_cq(context, 8, NULL, NULL, 0) && errno == EIO,
           "create a CQ");
    report(ibv_modify_qp(bench.qp, &attr, IBV_QP_STATE) == EIO, "modify a QP");
}

int main(int argc, char **argv)
{
    pthread_t thread;
    uint64_t bytes = 0;

    if (argc != 2) {
        fprintf(stderr, "usage: rdma_unbind PCI-ADDRESS\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    set_up();
    if (pthread_create(&thread, NULL, use, NULL)) {
        die("pthread_create");
    }
    usleep(200000);
    report(read_clock() == 0, "the clock runs");
    unbind(argv[1]);
    report(gets_fatal_event(), "the program gets IBV_EVENT_DEVICE_FATAL");
    usleep(200000);
    bench.stop = true;
    pthread_join(thread, NULL);
    report(read_clock() == EIO, "the clock is gone");
    report(!ibv_memcpy_from_dm(&bytes, bench.dm, 0, sizeof(bytes)),
           "device memory can be read");
    check_commands_fail();
    report(!ibv_destroy_qp(bench.qp) && !ibv_destroy_cq(bench.cq) &&
               !ibv_dereg_mr(bench.mr) && !ibv_free_dm(bench.dm) &&
               !ibv_dealloc_pd(bench.end.pd) &&
           !ibv_close_device(bench.end.context), "all objects are destroyed");
    return end_report();
}
