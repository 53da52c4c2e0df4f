/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rdma_dmabuf: memory regions of DMA-BUFs, without a graphics card.
 *
 * It uses two exporters of the kernel: udmabuf, which makes a
 * buffer of a memfd's pages, and the system heap. A queue pair connected to
 * itself writes to the region, reads from it, adds to it and sends out of it;
 * every byte is compared through a mapping of the buffer. Prints TAP.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/dma-heap.h>
#include <linux/udmabuf.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "verbs_pair.h"

#define SIZE (64 * 1024)
#define PART_OFFSET 8192        /* the region is a part of the buffer, */
#define PART_SIZE (3 * 8192)
#define IOVA 0x770000000000     /* known under an address of its own */
#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | \
                IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

struct bench {
    struct endpoint end;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    uint8_t *memory;            /* ordinary memory, of SIZE bytes */
    struct ibv_mr *mr;
    int fd;                     /* the buffer, */
    uint8_t *mapped;            /* as this process sees it */
};

static int tests, failures;

static void report(bool fine, const char *exporter, const char *what)
{
    printf("%sok %d - %s: %s\n", fine ? "" : "not ", ++tests, exporter, what);
    failures += !fine;
}

/* ---- exporters ----------------------------------------------------------- */

static int export_memfd(void)
{
    struct udmabuf_create create = { .flags = UDMABUF_FLAGS_CLOEXEC,
                                     .size = SIZE };
    int memfd = memfd_create("dmabuf", MFD_ALLOW_SEALING);
    int device = open("/dev/udmabuf", O_RDWR);
    int fd;

    if (memfd < 0 || device < 0 || ftruncate(memfd, SIZE) ||
        fcntl(memfd, F_ADD_SEALS, F_SEAL_SHRINK)) {
        die("/dev/udmabuf");
    }
    create.memfd = memfd;
    fd = ioctl(device, UDMABUF_CREATE, &create);
    close(device);
    close(memfd);
    return fd;
}

static int export_heap(void)
{
    struct dma_heap_allocation_data data = { .len = SIZE,
                                             .fd_flags = O_RDWR | O_CLOEXEC };
    int device = open("/dev/dma_heap/system", O_RDWR);
    int error;

    if (device < 0) {
        die("/dev/dma_heap/system");
    }
    error = ioctl(device, DMA_HEAP_IOCTL_ALLOC, &data);
    close(device);
    return error ? -1 : (int)data.fd;
}

static const struct {
    const char *name;
    int (*export)(void);
} exporters[] = {
    { "udmabuf", export_memfd },
    { "system heap", export_heap },
};

/* ---- transfers ----------------------------------------------------------- */

static void fill(uint8_t *bytes, size_t count, unsigned seed)
{
    for (size_t i = 0; i < count; i++) {
        bytes[i] = seed + i * 7 + i / 251;
    }
}

static bool transfer(struct bench *bench, struct ibv_send_wr *wr,
                     struct ibv_sge sge)
{
    struct ibv_send_wr *bad;

    wr->sg_list = &sge;
    wr->num_sge = 1;
    wr->send_flags = IBV_SEND_SIGNALED;
    if (ibv_post_send(bench->qp, wr, &bad)) {
        die("ibv_post_send");
    }
    return next_completion(bench->cq).status == IBV_WC_SUCCESS;
}

static struct ibv_sge ordinary(struct bench *bench, uint32_t length)
{
    return (struct ibv_sge) { (uintptr_t)bench->memory, length,
                              bench->mr->lkey };
}

/* The whole part is written; the bytes around it stay as they were. */
static bool write_to(struct bench *bench, struct ibv_mr *mr)
{
    struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE,
                              .wr.rdma = { IOVA, mr->rkey } };

    memset(bench->mapped, 0x5a, SIZE);
    fill(bench->memory, PART_SIZE, 1);
    if (!transfer(bench, &wr, ordinary(bench, PART_SIZE)) ||
        memcmp(bench->mapped + PART_OFFSET, bench->memory, PART_SIZE)) {
        return false;
    }
    for (size_t i = 0; i < SIZE; i++) {
        if ((i < PART_OFFSET || i >= PART_OFFSET + PART_SIZE) &&
            bench->mapped[i] != 0x5a) {
            return false;
        }
    }
    return true;
}

static bool read_from(struct bench *bench, struct ibv_mr *mr)
{
    struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_READ,
                              .wr.rdma = { IOVA + 100, mr->rkey } };

    fill(bench->mapped, SIZE, 2);
    memset(bench->memory, 0, SIZE);
    return transfer(bench, &wr, ordinary(bench, 9000)) &&
           !memcmp(bench->mapped + PART_OFFSET + 100, bench->memory, 9000);
}

static bool add_to(struct bench *bench, struct ibv_mr *mr)
{
    struct ibv_send_wr wr = { .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
                              .wr.atomic = { .remote_addr = IOVA + 4096,
                                             .compare_add = 5,
                                             .rkey = mr->rkey } };
    uint64_t *place = (uint64_t *)(bench->mapped + PART_OFFSET + 4096);

    *place = 1000;
    return transfer(bench, &wr, ordinary(bench, 8)) && *place == 1005 &&
           *(uint64_t *)bench->memory == 1000;
}

/* By lkey, at both ends: out of one half into the other. */
static bool send_within(struct bench *bench, struct ibv_mr *mr)
{
    struct ibv_sge to = { IOVA + PART_SIZE / 2, 5000, mr->lkey };
    struct ibv_recv_wr *bad, receive = { .sg_list = &to, .num_sge = 1 };
    struct ibv_send_wr wr = { .opcode = IBV_WR_SEND };

    fill(bench->mapped, SIZE, 3);
    if (ibv_post_recv(bench->qp, &receive, &bad)) {
        die("ibv_post_recv");
    }
    return transfer(bench, &wr, (struct ibv_sge) { IOVA, 5000, mr->lkey }) &&
           next_completion(bench->cq).status == IBV_WC_SUCCESS &&
           !memcmp(bench->mapped + PART_OFFSET,
                   bench->mapped + PART_OFFSET + PART_SIZE / 2, 5000);
}

/* ---- refusals ------------------------------------------------------------ */

static bool refused(struct bench *bench, uint64_t offset, size_t length,
                    int fd, int access, int error)
{
    errno = 0;
    return !ibv_reg_dmabuf_mr(bench->end.pd, offset, length, IOVA, fd,
                              access) && errno == error;
}

static void refusals(struct bench *bench, const char *name, struct ibv_mr *mr)
{
    int plain = memfd_create("no buffer", 0);

    report(refused(bench, 0, SIZE, -1, ACCESS, EBADF), name, "no file");
    report(refused(bench, 0, SIZE, plain, ACCESS, EINVAL), name,
           "a file that is no buffer");
    report(refused(bench, 0, 0, bench->fd, ACCESS, EINVAL), name, "no length");
    report(refused(bench, 4096, SIZE, bench->fd, ACCESS, EINVAL), name,
           "beyond the end");
    report(refused(bench, -4096ULL, 8192, bench->fd, ACCESS, EINVAL), name,
           "a range that wraps");
    report(refused(bench, 100, 4096, bench->fd, ACCESS, EINVAL), name,
           "offset and iova in different places of a page");
    /* Nothing tells whether a buffer is: the kernel's core refuses it. */
    report(refused(bench, 0, SIZE, bench->fd,
                   ACCESS | IBV_ACCESS_FLUSH_PERSISTENT, EINVAL), name,
           "persistent");
    report(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
                        IBV_ACCESS_LOCAL_WRITE) != 0, name,
           "registered again");
    close(plain);
}

/* ---- each exporter ------------------------------------------------------- */

static void run(struct bench *bench, const char *name, int (*export)(void))
{
    struct ibv_mr *mr;

    bench->fd = export();
    bench->mapped = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED,
                         bench->fd, 0);
    if (bench->fd < 0 || bench->mapped == MAP_FAILED) {
        die("%s", name);
    }
    mr = ibv_reg_dmabuf_mr(bench->end.pd, PART_OFFSET, PART_SIZE, IOVA,
                           bench->fd, ACCESS);
    if (!mr) {
        die("ibv_reg_dmabuf_mr");
    }
    refusals(bench, name, mr);
    report(write_to(bench, mr), name, "RDMA WRITE");
    report(read_from(bench, mr), name, "RDMA READ");
    report(add_to(bench, mr), name, "atomic");
    report(send_within(bench, mr), name, "SEND");
    /* The region keeps the buffer. */
    close(bench->fd);
    report(write_to(bench, mr), name, "RDMA WRITE, its file closed");
    report(!ibv_dereg_mr(mr), name, "deregistered");
    munmap(bench->mapped, SIZE);
}

int main(void)
{
    struct bench bench = { 0 };

    setvbuf(stdout, NULL, _IOLBF, 0);
    open_endpoint(&bench.end);
    bench.memory = aligned_alloc(4096, SIZE);
    bench.mr = ibv_reg_mr(bench.end.pd, bench.memory, SIZE,
                          IBV_ACCESS_LOCAL_WRITE);
    bench.cq = ibv_create_cq(bench.end.context, 64, NULL, NULL, 0);
    if (!bench.mr || !bench.cq) {
        die("region and CQ");
    }
    bench.qp = create_rc(&bench.end, bench.cq);
    connect_to_itself(&bench.end, bench.qp, ACCESS);
    for (size_t i = 0; i < sizeof(exporters) / sizeof(exporters[0]); i++) {
        run(&bench, exporters[i].name, exporters[i].export);
    }
    printf("1..%d\n", tests);
    return failures != 0;
}
