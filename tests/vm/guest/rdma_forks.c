/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rdma_forks: a program with queue pairs and memory regions has children.
 *
 * While a child lives and writes to all it inherited, the parent's queues and
 * buffers must stay where the device knows them, and go on to work: a queue
 * pair connected to itself writes, each time after the parent has touched
 * both pages. Children with and without ibv_fork_init(). And a child must not
 * make a region of its parent's one of its own. Prints TAP.
 */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <sys/wait.h>

#include "verbs_pair.h"

#define PAGE page_bytes
#define CHILDREN 5
#define WRITES 40               /* more than a queue holds: all of it is used */

static uint32_t page_bytes;      /* of the kernel */

struct bench {
    struct endpoint end;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    uint8_t *memory;            /* two pages of it are the region */
    uint8_t *ordinary;          /* a page that is none */
};

static void set_up(struct bench *bench)
{
    open_endpoint(&bench->end);
    bench->memory = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    bench->ordinary = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(bench->memory, 1, 2 * PAGE);
    bench->mr = ibv_reg_mr(bench->end.pd, bench->memory, 2 * PAGE,
                           IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    bench->cq = ibv_create_cq(bench->end.context, 64, NULL, NULL, 0);
    if (!bench->mr || !bench->cq) {
        die("region and CQ");
    }
    bench->qp = create_rc(&bench->end, bench->cq);
    connect_to_itself(&bench->end, bench->qp, IBV_ACCESS_REMOTE_WRITE);
}

/* Writes to what it inherited, then lives until its pipe is closed. */
static pid_t beget(struct bench *bench, bool has_region, int pipe_end[2])
{
    int ready[2];
    pid_t pid;
    char byte;

    if (pipe(pipe_end) || pipe(ready)) {
        die("pipe");
    }
    pid = fork();
    if (pid < 0) {
        die("fork");
    }
    if (!pid) {
        memset(bench->ordinary, 0xcc, PAGE);
        if (has_region) {
            memset(bench->memory, 0xcc, 2 * PAGE);
        }
        close(pipe_end[1]);
        if (write(ready[1], "", 1) != 1) {
            _exit(1);
        }
        _exit(read(pipe_end[0], &byte, 1) != 0);
    }
    close(ready[1]);
    if (read(ready[0], &byte, 1) != 1) {
        die("the child has ended");
    }
    close(ready[0]);
    close(pipe_end[0]);
    return pid;
}

/* The parent's stores reach the device, and the device's the parent. */
static bool works(struct bench *bench, uint8_t value)
{
    for (int i = 0; i < WRITES; i++) {
        struct ibv_sge sge = { (uintptr_t)bench->memory, PAGE,
                               bench->mr->lkey };

        memset(bench->memory, value + i, PAGE);
        memset(bench->memory + PAGE, 0, PAGE);
        post(bench->qp, IBV_WR_RDMA_WRITE, &sge,
             (uintptr_t)bench->memory + PAGE, bench->mr->rkey, i);
        if (next_completion(bench->cq).status != IBV_WC_SUCCESS ||
            memcmp(bench->memory, bench->memory + PAGE, PAGE)) {
            return false;
        }
    }
    return true;
}

static bool run(struct bench *bench, bool has_region)
{
    int pipes[CHILDREN][2];
    pid_t pids[CHILDREN];
    bool fine = works(bench, 0);

    for (int i = 0; i < CHILDREN; i++) {
        pids[i] = beget(bench, has_region, pipes[i]);
        fine &= works(bench, 10 * i + 1);
    }
    /* Last child first: it holds the ends of its elders' pipes. */
    for (int i = CHILDREN - 1; i >= 0; i--) {
        int status;

        close(pipes[i][1]);
        fine &= waitpid(pids[i], &status, 0) == pids[i] && status == 0 &&
                works(bench, 10 * i + 2);
    }
    return fine && bench->ordinary[0] == 0;
}

#define MAY_WRITE (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

static int let_write(struct ibv_mr *mr)
{
    return ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
                        MAY_WRITE);
}

/*
 * To allow writes to a region that could only be read, its memory is pinned
 * again: the child's attempt is refused, and the parent's succeeds.
 */
static bool child_takes_no_region(struct bench *bench)
{
    uint8_t *memory = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct ibv_sge sge = { (uintptr_t)bench->memory, PAGE, bench->mr->lkey };
    struct ibv_mr *mr;
    int status;
    pid_t pid;

    memset(memory, 0, PAGE);
    memset(bench->memory, 0x5a, PAGE);
    mr = ibv_reg_mr(bench->end.pd, memory, PAGE, 0);
    if (!mr) {
        die("region");
    }
    pid = fork();
    if (!pid) {
        _exit(let_write(mr) == 0);
    }
    if (waitpid(pid, &status, 0) != pid || status || let_write(mr)) {
        return false;
    }
    post(bench->qp, IBV_WR_RDMA_WRITE, &sge, (uintptr_t)memory, mr->rkey, 0);
    return next_completion(bench->cq).status == IBV_WC_SUCCESS &&
           !memcmp(bench->memory, memory, PAGE) && !ibv_dereg_mr(mr);
}

int main(int argc, char **argv)
{
    bool asks = argc > 1 && !strcmp(argv[1], "init");
    struct bench bench = { 0 };
    bool fine, refused;

    setvbuf(stdout, NULL, _IOLBF, 0);
    page_bytes = sysconf(_SC_PAGESIZE);
    if (asks && ibv_fork_init()) {
        die("ibv_fork_init");
    }
    set_up(&bench);
    /* With ibv_fork_init() the children do not have the region's pages, unless
     * the kernel copies pinned pages at a fork (IBV_FORK_UNNEEDED). */
    fine = run(&bench, !asks || ibv_is_fork_initialized() ==
                                    IBV_FORK_UNNEEDED);
    printf("1..2\n%sok 1 - %s ibv_fork_init()\n", fine ? "" : "not ",
           asks ? "with" : "without");
    refused = child_takes_no_region(&bench);
    printf("%sok 2 - a child takes no region\n", refused ? "" : "not ");
    return !fine || !refused;
}
