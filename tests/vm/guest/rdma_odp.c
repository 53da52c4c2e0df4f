/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rdma_odp [CASE...]: memory that is not pinned, with every byte compared.
 *
 * Each case makes two RC queue pairs of one process, connected to each other,
 * and on-demand regions; then memory is taken away, moved, copied on write or
 * unmapped before and while the device uses it. Prints TAP.
 */
#define _GNU_SOURCE
#include <grp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "verbs_pair.h"

#define PAGE page_bytes
#define AREA (1024u * PAGE)             /* more than a block */
#define CHUNK_MAX (300u * 1024)         /* of a request */
#define ROUNDS 60
#define RIGHTS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | \
                IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)
#define RNR_FOREVER 7
#define ACK_TIMEOUT 18                  /* 1 s: pages may take their time */

static uint32_t page_bytes;             /* of the kernel */

struct bench {
    struct endpoint end;
    struct ibv_cq *cq_a, *cq_b;
    struct ibv_qp *a, *b;
};

#define CHECK(condition, ...) \
    do { \
        if (!(condition)) { \
            printf("# line %d: " #condition ": ", __LINE__); \
            printf(__VA_ARGS__); \
            printf("\n"); \
            return false; \
        } \
    } while (0)

/* ---- the bench --------------------------------------------------------- */

static void connect_to(struct bench *bench, struct ibv_qp *qp,
                       struct ibv_qp *other)
{
    struct address peer = {
        .gid = bench->end.gid, .qpn = other->qp_num, .psn = 100,
    };

    connect_rc(&bench->end, qp, &peer, 100, RIGHTS, ACK_TIMEOUT, RNR_FOREVER);
}

static void set_up(struct bench *bench)
{
    bench->cq_a = ibv_create_cq(bench->end.context, 64, NULL, NULL, 0);
    bench->cq_b = ibv_create_cq(bench->end.context, 64, NULL, NULL, 0);
    if (!bench->cq_a || !bench->cq_b) {
        die("ibv_create_cq");
    }
    bench->a = create_rc(&bench->end, bench->cq_a);
    bench->b = create_rc(&bench->end, bench->cq_b);
    connect_to(bench, bench->a, bench->b);
    connect_to(bench, bench->b, bench->a);
}

static void tear_down(struct bench *bench)
{
    if (ibv_destroy_qp(bench->a) || ibv_destroy_qp(bench->b) ||
        ibv_destroy_cq(bench->cq_a) || ibv_destroy_cq(bench->cq_b)) {
        die("something is still in use");
    }
}

static uint8_t *map(size_t size, int fd)
{
    uint8_t *area = mmap(NULL, size, PROT_READ | PROT_WRITE,
                         fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED,
                         fd, 0);

    if (area == MAP_FAILED) {
        die("mmap");
    }
    return area;
}

static struct ibv_mr *reg(struct bench *bench, void *area, size_t size)
{
    struct ibv_mr *mr = ibv_reg_mr(bench->end.pd, area, size,
                                   RIGHTS | IBV_ACCESS_ON_DEMAND);

    if (!mr) {
        die("ibv_reg_mr on demand");
    }
    return mr;
}

static struct ibv_mr *reg_all(struct bench *bench)
{
    struct ibv_mr *mr = reg(bench, NULL, SIZE_MAX);

    if (mr->length != SIZE_MAX) {
        die("the implicit region is of %zu bytes", mr->length);
    }
    return mr;
}

static uint64_t draw(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

static void fill(uint8_t *to, uint32_t length, uint64_t seed)
{
    for (uint32_t i = 0; i < length; i++) {
        if (i % 8 == 0) {
            draw(&seed);
        }
        to[i] = seed >> i % 8 * 8;
    }
}

static void receive(struct ibv_qp *qp, struct ibv_mr *mr, void *at,
                    uint32_t length)
{
    struct ibv_sge sge = {
        .addr = (uintptr_t)at, .length = length, .lkey = mr->lkey,
    };
    struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };

    if (ibv_post_recv(qp, &wr, &bad)) {
        die("ibv_post_recv");
    }
}

/* One request of A on memory of both; its status. */
static int go(struct bench *bench, enum ibv_wr_opcode opcode,
              struct ibv_mr *local, void *from, struct ibv_mr *remote,
              void *to, uint32_t length)
{
    struct ibv_sge sge = {
        .addr = (uintptr_t)from, .length = length, .lkey = local->lkey,
    };
    struct ibv_wc wc;

    if (opcode == IBV_WR_SEND) {
        receive(bench->b, remote, to, length);
    }
    post(bench->a, opcode, &sge, (uintptr_t)to, remote->rkey, 1);
    wc = next_completion(bench->cq_a);
    if (opcode == IBV_WR_SEND && wc.status == IBV_WC_SUCCESS) {
        wc = next_completion(bench->cq_b);
    }
    return wc.status;
}

/* The same for its whole life: data arrive, and nothing else changes. */
static bool moves(struct bench *bench, struct ibv_mr *mr_a, uint8_t *a,
                  struct ibv_mr *mr_b, uint8_t *b, uint8_t *model,
                  uint64_t *state)
{
    static const enum ibv_wr_opcode opcodes[] = {
        IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
    };
    enum ibv_wr_opcode opcode = opcodes[draw(state) % 3];
    uint32_t length = 1 + draw(state) % CHUNK_MAX;
    uint32_t at = draw(state) % (AREA - length);
    int status;

    /* A READ brings from B to A, the others from A to B. */
    if (opcode == IBV_WR_RDMA_READ) {
        fill(b + at, length, draw(state));
        memcpy(model + at, b + at, length);
        status = go(bench, opcode, mr_a, a + at, mr_b, b + at, length);
    } else {
        fill(a + at, length, draw(state));
        memcpy(model + at, a + at, length);
        status = go(bench, opcode, mr_a, a + at, mr_b, b + at, length);
    }
    CHECK(status == IBV_WC_SUCCESS, "opcode %d, %u bytes at %u: %s", opcode,
          length, at, ibv_wc_status_str(status));
    CHECK(!memcmp(a + at, model + at, length), "opcode %d at A", opcode);
    CHECK(!memcmp(b, model, AREA), "opcode %d, %u bytes at %u", opcode,
          length, at);
    return true;
}

/* ---- the cases --------------------------------------------------------- */

/* Anonymous memory that is given back before each request. */
static bool given_back(struct bench *bench)
{
    uint8_t *a = map(AREA, -1), *b = map(AREA, -1), *model = map(AREA, -1);
    struct ibv_mr *mr_a = reg(bench, a, AREA), *mr_b = reg(bench, b, AREA);
    uint64_t state = 1;

    for (int i = 0; i < ROUNDS; i++) {
        madvise(a, AREA, MADV_DONTNEED);
        madvise(b, AREA, MADV_DONTNEED);
        memset(model, 0, AREA);
        if (!moves(bench, mr_a, a, mr_b, b, model, &state)) {
            return false;
        }
    }
    CHECK(!ibv_dereg_mr(mr_a) && !ibv_dereg_mr(mr_b), "dereg");
    munmap(a, AREA);
    munmap(b, AREA);
    munmap(model, AREA);
    return true;
}

struct thief {
    uint8_t *area[2];
    atomic_bool stop;
    unsigned taken;
};

/* Takes pages away all the time; they keep their contents, being a file's. */
static void *steal(void *opaque)
{
    struct thief *thief = opaque;
    uint64_t state = 77;

    while (!atomic_load(&thief->stop)) {
        uint32_t page = draw(&state) % (AREA / PAGE);
        uint32_t count = 1 + draw(&state) % 64;
        uint8_t *area = thief->area[draw(&state) % 2];

        if (count > AREA / PAGE - page) {
            count = AREA / PAGE - page;
        }
        madvise(area + page * PAGE, count * PAGE, MADV_DONTNEED);
        thief->taken++;
        usleep(draw(&state) % 500);
    }
    return NULL;
}

/* Pages are taken away while they are used. */
static bool stolen(struct bench *bench)
{
    int fd_a = memfd_create("a", 0), fd_b = memfd_create("b", 0);
    uint8_t *a, *b, *model = map(AREA, -1);
    struct ibv_mr *mr_a, *mr_b;
    struct thief thief = { .stop = false };
    uint64_t state = 2;
    pthread_t thread;
    bool good = true;

    if (ftruncate(fd_a, AREA) || ftruncate(fd_b, AREA)) {
        die("ftruncate");
    }
    a = map(AREA, fd_a);
    b = map(AREA, fd_b);
    mr_a = reg(bench, a, AREA);
    mr_b = reg(bench, b, AREA);
    thief.area[0] = a;
    thief.area[1] = b;
    if (pthread_create(&thread, NULL, steal, &thief)) {
        die("pthread_create");
    }
    for (int i = 0; good && i < ROUNDS; i++) {
        good = moves(bench, mr_a, a, mr_b, b, model, &state);
    }
    atomic_store(&thief.stop, true);
    pthread_join(thread, NULL);
    CHECK(good && thief.taken > ROUNDS, "pages taken %u times", thief.taken);
    CHECK(!ibv_dereg_mr(mr_a) && !ibv_dereg_mr(mr_b), "dereg");
    close(fd_a);
    close(fd_b);
    munmap(a, AREA);
    munmap(b, AREA);
    munmap(model, AREA);
    return true;
}

/* Atomics on a page that comes and goes count exactly. */
static bool atomics(struct bench *bench)
{
    int fd = memfd_create("counter", 0);
    uint64_t *counter, *result = (uint64_t *)map(PAGE, -1);
    struct ibv_mr *mr, *mr_result;
    struct ibv_sge sge = { .length = 8 };
    struct ibv_send_wr *bad, wr = {
        .sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED,
        .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
    };

    if (ftruncate(fd, PAGE)) {
        die("ftruncate");
    }
    counter = (uint64_t *)map(PAGE, fd);
    mr = reg(bench, counter, PAGE);
    mr_result = reg(bench, result, PAGE);
    sge.addr = (uintptr_t)result;
    sge.lkey = mr_result->lkey;
    wr.wr.atomic.remote_addr = (uintptr_t)&counter[1];
    wr.wr.atomic.rkey = mr->rkey;
    wr.wr.atomic.compare_add = 3;
    for (uint64_t i = 0; i < ROUNDS; i++) {
        struct ibv_wc wc;

        madvise(counter, PAGE, MADV_DONTNEED);
        madvise(result, PAGE, MADV_DONTNEED);
        if (ibv_post_send(bench->a, &wr, &bad)) {
            die("ibv_post_send");
        }
        wc = next_completion(bench->cq_a);
        CHECK(wc.status == IBV_WC_SUCCESS, "%s", ibv_wc_status_str(wc.status));
        CHECK(*result == 3 * i, "fetched %lu in round %lu", *result, i);
    }
    CHECK(counter[1] == 3 * ROUNDS, "%lu", counter[1]);
    CHECK(!ibv_dereg_mr(mr) && !ibv_dereg_mr(mr_result), "dereg");
    close(fd);
    munmap(counter, PAGE);
    munmap(result, PAGE);
    return true;
}

/* The region stays the parent's: a child has its own copy of what it had. */
static bool forked(struct bench *bench)
{
    uint8_t *a = map(AREA, -1), *b = map(AREA, -1);
    struct ibv_mr *mr_a = reg(bench, a, AREA), *mr_b = reg(bench, b, AREA);
    int hold[2], state;
    uint8_t byte;
    pid_t child;

    memset(b, 1, AREA);
    fill(a, AREA, 5);
    CHECK(go(bench, IBV_WR_RDMA_WRITE, mr_a, a, mr_b, b, PAGE) == 0, "first");
    if (pipe(hold)) {
        die("pipe");
    }
    child = fork();
    if (child == 0) {
        /* Waits for the parent's writes, which must not be seen here. */
        bool good = read(hold[0], &byte, 1) == 1 && !memcmp(b, a, PAGE);

        for (uint32_t i = PAGE; i < AREA; i++) {
            good = good && b[i] == 1;
        }
        memset(b, 2, AREA);
        _exit(good ? 0 : 1);
    }
    CHECK(child > 0, "fork");
    CHECK(go(bench, IBV_WR_RDMA_WRITE, mr_a, a, mr_b, b, AREA) == 0, "second");
    CHECK(write(hold[1], "x", 1) == 1, "write");
    CHECK(waitpid(child, &state, 0) == child && state == 0,
          "the child saw the parent's data");
    CHECK(!memcmp(a, b, AREA), "the parent sees the child's data");
    CHECK(!ibv_dereg_mr(mr_a) && !ibv_dereg_mr(mr_b), "dereg");
    close(hold[0]);
    close(hold[1]);
    munmap(a, AREA);
    munmap(b, AREA);
    return true;
}

/* An unmapped address is an access error of that request, and no more. */
static bool unmapped_at(struct bench *bench, bool local, int status)
{
    uint8_t *a = map(AREA, -1), *b = map(AREA, -1);
    struct ibv_mr *mr_a = reg(bench, a, AREA), *mr_b = reg(bench, b, AREA);
    int found;

    CHECK(go(bench, IBV_WR_RDMA_WRITE, mr_a, a, mr_b, b, AREA) == 0, "all");
    munmap((local ? a : b) + AREA / 2, PAGE);
    CHECK(go(bench, IBV_WR_RDMA_WRITE, mr_a, a, mr_b, b, AREA / 2) == 0,
          "the pages before it");
    found = go(bench, IBV_WR_RDMA_WRITE, mr_a, a + AREA / 2 - 8, mr_b,
               b + AREA / 2 - 8, 16);
    CHECK(found == status, "%s", ibv_wc_status_str(found));
    CHECK(!ibv_dereg_mr(mr_a) && !ibv_dereg_mr(mr_b), "dereg");
    munmap(a, AREA);
    munmap(b, AREA);
    return true;
}

static bool unmapped_locally(struct bench *bench)
{
    return unmapped_at(bench, true, IBV_WC_LOC_PROT_ERR);
}

static bool unmapped_remotely(struct bench *bench)
{
    return unmapped_at(bench, false, IBV_WC_REM_ACCESS_ERR);
}

/* So is an address that was never mapped. */
static bool never_mapped(struct bench *bench)
{
    uint8_t *a = map(PAGE, -1), *b = map(PAGE, -1);
    struct ibv_mr *mr_a = ibv_reg_mr(bench->end.pd, a, PAGE, RIGHTS);
    struct ibv_mr *mr_b = reg(bench, b, PAGE);
    int found;

    CHECK(mr_a, "ibv_reg_mr");
    munmap(b, PAGE);
    found = go(bench, IBV_WR_RDMA_WRITE, mr_a, a, mr_b, b, 16);
    CHECK(found == IBV_WC_REM_ACCESS_ERR, "%s", ibv_wc_status_str(found));
    CHECK(!ibv_dereg_mr(mr_a) && !ibv_dereg_mr(mr_b), "dereg");
    munmap(a, PAGE);
    return true;
}

/* All of the address space by one key: memory that comes later, too. */
static bool implicit(struct bench *bench)
{
    struct ibv_mr *mr = reg_all(bench);
    uint8_t *model = map(AREA, -1);
    uint64_t state = 3;

    for (int i = 0; i < ROUNDS / 4; i++) {
        uint8_t *a = map(AREA, -1), *b = map(AREA, -1);

        memset(model, 0, AREA);
        for (int k = 0; k < 3; k++) {
            if (!moves(bench, mr, a, mr, b, model, &state)) {
                return false;
            }
        }
        munmap(a, AREA);
        munmap(b, AREA);
    }
    CHECK(!ibv_dereg_mr(mr), "dereg");
    munmap(model, AREA);
    return true;
}

/* Memory that may only be read can be sent from, and not be written to. */
static bool read_only(struct bench *bench)
{
    struct ibv_mr *mr = reg_all(bench);
    uint8_t *from = map(AREA, -1), *to = map(AREA, -1);
    int status;

    fill(from, AREA, 6);
    mprotect(from, AREA, PROT_READ);
    CHECK(go(bench, IBV_WR_SEND, mr, from, mr, to, CHUNK_MAX) == 0, "SEND");
    CHECK(!memcmp(from, to, CHUNK_MAX), "data");
    status = go(bench, IBV_WR_RDMA_WRITE, mr, to, mr, from, 8);
    CHECK(status == IBV_WC_REM_ACCESS_ERR, "%s", ibv_wc_status_str(status));
    CHECK(!ibv_dereg_mr(mr), "dereg");
    munmap(from, AREA);
    munmap(to, AREA);
    return true;
}

/* Many places of the address space, then none: the driver's children. */
static bool scattered(struct bench *bench)
{
    struct ibv_mr *mr = reg_all(bench);
    uint8_t *a = map(PAGE, -1);

    for (int i = 0; i < 200; i++) {
        uint8_t *b = mmap((void *)(0x200000000000 + i * 0x40000000l), PAGE,
                          PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

        CHECK(b != MAP_FAILED, "mmap");
        fill(a, PAGE, i);
        CHECK(go(bench, IBV_WR_RDMA_WRITE, mr, a, mr, b, PAGE) == 0, "%d", i);
        CHECK(!memcmp(a, b, PAGE), "data of %d", i);
        if (i % 3) {
            munmap(b, PAGE);
        }
    }
    CHECK(!ibv_dereg_mr(mr), "dereg");
    munmap(a, PAGE);
    return true;
}

static int advise(struct bench *bench, struct ibv_mr *mr, void *at,
                  uint32_t length, enum ibv_advise_mr_advice advice)
{
    struct ibv_sge sge = {
        .addr = (uintptr_t)at, .length = length, .lkey = mr->lkey,
    };

    return ibv_advise_mr(bench->end.pd, advice, IBV_ADVISE_MR_FLAG_FLUSH, &sge,
                         1);
}

/* ibv_advise_mr(3), its errors included. */
static bool advice(struct bench *bench)
{
    uint8_t *a = map(AREA, -1);
    struct ibv_mr *mr = reg(bench, a, AREA), gone = *mr;
    struct ibv_mr *plain = ibv_reg_mr(bench->end.pd, a, PAGE, 0);
    struct ibv_mr *reading = ibv_reg_mr(bench->end.pd, a, AREA,
                                        IBV_ACCESS_ON_DEMAND);
    struct ibv_pd *pd = bench->end.pd;
    const enum ibv_advise_mr_advice get = IBV_ADVISE_MR_ADVICE_PREFETCH;
    const enum ibv_advise_mr_advice get_write =
        IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
    int err;

    CHECK(plain && reading, "ibv_reg_mr");
    CHECK(!advise(bench, mr, a, AREA, get), "PREFETCH");
    CHECK(!advise(bench, mr, a, AREA, get_write), "PREFETCH_WRITE");
    CHECK(!advise(bench, mr, a, AREA, IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT),
          "PREFETCH_NO_FAULT");
    CHECK(!advise(bench, reading, a, AREA, get), "PREFETCH to read");
    err = advise(bench, reading, a, AREA, get_write);
    CHECK(err == EPERM, "writing a region to be read: %d", err);
    err = advise(bench, mr, a + 1, AREA, get);
    CHECK(err == EFAULT, "past the end: %d", err);
    err = advise(bench, mr, a - 1, 1, get);
    CHECK(err == EFAULT, "before the start: %d", err);
    err = advise(bench, plain, a, PAGE, get);
    CHECK(err == ENOENT, "a pinned region: %d", err);
    err = advise(bench, mr, a, PAGE, 77);
    CHECK(err == EOPNOTSUPP, "unknown advice: %d", err);
    bench->end.pd = ibv_alloc_pd(bench->end.context);
    err = advise(bench, mr, a, PAGE, get);
    CHECK(err == EPERM, "another PD's: %d", err);
    CHECK(!ibv_dealloc_pd(bench->end.pd), "dealloc_pd");
    bench->end.pd = pd;
    munmap(a + PAGE, PAGE);
    err = advise(bench, mr, a, 2 * PAGE, get);
    CHECK(err == EFAULT, "not mapped: %d", err);
    CHECK(!ibv_dereg_mr(mr) && !ibv_dereg_mr(plain) && !ibv_dereg_mr(reading),
          "dereg");
    err = advise(bench, &gone, a, PAGE, get);
    CHECK(err == ENOENT, "no region: %d", err);
    munmap(a, AREA);
    return true;
}

static int reg_error(struct bench *bench, void *at, size_t size, int access)
{
    struct ibv_mr *mr = ibv_reg_mr(bench->end.pd, at, size,
                                   access | IBV_ACCESS_ON_DEMAND);

    if (!mr) {
        return errno;
    }
    ibv_dereg_mr(mr);
    return 0;
}

/* What cannot be had on demand; and a region that changes its kind. */
static bool registration(struct bench *bench)
{
    uint8_t *a = map(AREA, -1), *b = map(AREA, -1);
    struct ibv_mr *mr, *plain;
    int err;

    err = reg_error(bench, a, AREA, IBV_ACCESS_LOCAL_WRITE |
                    IBV_ACCESS_MW_BIND);
    CHECK(err == EOPNOTSUPP, "with windows: %d", err);
    err = reg_error(bench, a, 0, 0);
    CHECK(err == EINVAL, "nothing: %d", err);
    err = reg_error(bench, NULL, SIZE_MAX, IBV_ACCESS_HUGETLB);
    CHECK(err == EINVAL, "all, in huge pages: %d", err);
    err = reg_error(bench, a, (size_t)1 << 50, 0);
    CHECK(err == EINVAL, "more than max_mr_size: %d", err);
    err = reg_error(bench, a, AREA, IBV_ACCESS_REMOTE_WRITE);
    CHECK(err == EINVAL, "remote write without local: %d", err);

    mr = reg(bench, a, AREA);
    plain = ibv_reg_mr(bench->end.pd, b, AREA, RIGHTS);
    CHECK(plain, "ibv_reg_mr");
    err = ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, bench->end.pd,
                       a + PAGE, AREA - PAGE, 0);
    CHECK(!err, "rereg: %d", err);
    CHECK(go(bench, IBV_WR_RDMA_WRITE, mr, a + PAGE, plain, b, AREA - PAGE)
          == 0, "after rereg");
    err = ibv_rereg_mr(plain, IBV_REREG_MR_CHANGE_ACCESS, bench->end.pd,
                       b, AREA, RIGHTS | IBV_ACCESS_ON_DEMAND);
    CHECK(!err, "rereg to on demand: %d", err);
    madvise(b, AREA, MADV_DONTNEED);
    fill(a, AREA, 8);
    CHECK(go(bench, IBV_WR_RDMA_WRITE, mr, a + PAGE, plain, b + PAGE,
             AREA - PAGE) == 0, "on demand now");
    CHECK(!memcmp(a + PAGE, b + PAGE, AREA - PAGE), "data");
    CHECK(!ibv_dereg_mr(mr) && !ibv_dereg_mr(plain), "dereg");
    munmap(a, AREA);
    munmap(b, AREA);
    return true;
}

#define MANY 96

/* Many queue pairs miss a page of their own of one region at once. */
static bool many(struct bench *bench)
{
    uint8_t *a = map(AREA, -1), *b = map(AREA, -1);
    struct ibv_mr *mr_a = reg(bench, a, AREA);
    struct ibv_mr *mr_b = ibv_reg_mr(bench->end.pd, b, AREA, RIGHTS);
    struct ibv_cq *cq = ibv_create_cq(bench->end.context, MANY, NULL, NULL, 0);
    struct ibv_qp *from[MANY], *to[MANY];

    CHECK(mr_b && cq, "%d pairs", MANY);
    for (int i = 0; i < MANY; i++) {
        from[i] = create_rc(&bench->end, cq);
        to[i] = create_rc(&bench->end, bench->cq_b);
        connect_to(bench, from[i], to[i]);
        connect_to(bench, to[i], from[i]);
    }
    for (int round = 0; round < 3; round++) {
        CHECK(!madvise(a, AREA, MADV_DONTNEED), "madvise");
        for (int i = 0; i < MANY; i++) {
            struct ibv_sge sge = {
                .addr = (uintptr_t)(a + 2 * i * PAGE), .length = 64,
                .lkey = mr_a->lkey,
            };

            memset(b + i * PAGE, 1, 64);
            post(from[i], IBV_WR_RDMA_WRITE, &sge, (uintptr_t)(b + i * PAGE),
                 mr_b->rkey, 1);
        }
        for (int i = 0; i < MANY; i++) {
            CHECK(next_completion(cq).status == IBV_WC_SUCCESS, "round %d",
                  round);
        }
        for (int i = 0; i < MANY; i++) {
            CHECK(b[i * PAGE] == 0 && b[i * PAGE + 63] == 0, "of %d", i);
        }
    }
    for (int i = 0; i < MANY; i++) {
        CHECK(!ibv_destroy_qp(from[i]) && !ibv_destroy_qp(to[i]), "QP %d", i);
    }
    CHECK(!ibv_destroy_cq(cq), "CQ");
    CHECK(!ibv_dereg_mr(mr_a) && !ibv_dereg_mr(mr_b), "dereg");
    munmap(a, AREA);
    munmap(b, AREA);
    return true;
}

#define NOBODY 65534
#define SPAN ((size_t)PAGE << 18)        /* its lists have 4 MiB */
#define PINNED_MAX (8u << 20)           /* bytes */
#define STRIDE (512u * PAGE)            /* of an implicit region's children */
#define CHILD_LISTS 8192u               /* bytes, at least a page */

/* KiB that the kernel counts as pinned by this process. */
static long pinned_kib(void)
{
    FILE *status = fopen("/proc/self/status", "r");
    char line[256];
    long kib = -1;

    while (status && fgets(line, sizeof(line), status)) {
        sscanf(line, "VmPin: %ld kB", &kib);
    }
    if (!status || kib < 0) {
        die("VmPin");
    }
    fclose(status);
    return kib;
}

/* How many regions of that size there can be at once. */
static unsigned regions_of(struct bench *bench, void *area, size_t size)
{
    struct ibv_mr *mr[64];
    unsigned count = 0;

    while (count < 64 && (mr[count] = ibv_reg_mr(
                              bench->end.pd, area, size,
                              RIGHTS | IBV_ACCESS_ON_DEMAND))) {
        count++;
    }
    for (unsigned i = 0; i < count; i++) {
        if (ibv_dereg_mr(mr[i])) {
            die("ibv_dereg_mr");
        }
    }
    return count;
}

/* A page of each of many children, until there can be no more: how many. */
static unsigned touch_children(struct bench *bench, struct ibv_mr *mr,
                               uint8_t *area, unsigned count)
{
    unsigned i = 0;
    int err = 0;

    while (i < count && !err) {
        err = advise(bench, mr, area + (size_t)i * STRIDE, PAGE,
                     IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE);
        i += !err;
    }
    if (err && err != ENOMEM) {
        printf("# page %u: errno %d\n", i, err);
        exit(1);
    }
    return i;
}

static bool pays(struct bench *bench)
{
    const unsigned most = 4 * SPAN / STRIDE;
    uint8_t *area = mmap(NULL, 64 * SPAN, PROT_READ | PROT_WRITE, MAP_PRIVATE |
                         MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    long before = pinned_kib();
    struct ibv_mr *all;
    unsigned count, children;
    int err;

    CHECK(area != MAP_FAILED && !madvise(area, 64 * SPAN, MADV_NOHUGEPAGE),
          "mmap: %d", errno);
    err = reg_error(bench, area, 4 * SPAN, 0);
    CHECK(err == ENOMEM, "16 MiB of lists: %d", err);
    err = reg_error(bench, area, 64 * SPAN, 0);
    CHECK(err == ENOMEM, "256 MiB of lists: %d", err);
    /* Each is noted in a MiB, and has a page of its own. */
    for (int i = 0; i < 3; i++) {
        count = regions_of(bench, area, SPAN / 4);
        CHECK(count == 7, "%u regions in round %d", count, i);
        CHECK(pinned_kib() == before, "%ld", pinned_kib() - before);
    }
    all = reg_all(bench);
    count = touch_children(bench, all, area, most);
    children = PINNED_MAX / (PAGE > CHILD_LISTS ? PAGE : CHILD_LISTS);
    CHECK(count > children - children / 8 && count < children, "%u children",
          count);
    CHECK(pinned_kib() <= PINNED_MAX >> 10, "%ld", pinned_kib());
    /* Those of which nothing is there any more make room. */
    madvise(area, 4 * SPAN, MADV_DONTNEED);
    err = advise(bench, all, area + 8 * SPAN, PAGE,
                 IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE);
    CHECK(!err, "room again: %d", err);
    CHECK(pinned_kib() < before + 16 * PAGE / 1024, "%ld",
          pinned_kib() - before);
    CHECK(!ibv_dereg_mr(all), "dereg");
    CHECK(pinned_kib() == before, "%ld", pinned_kib() - before);
    /* What is left goes when the process has gone. */
    return regions_of(bench, area, SPAN) == 1 && reg(bench, area, SPAN);
}

/* What regions cost the kernel counts as pinned by their user. */
static bool charged(struct bench *bench)
{
    const struct rlimit limit = { PINNED_MAX, PINNED_MAX };
    pid_t child = fork();
    int state;

    (void)bench;
    if (!child) {
        struct bench own;

        if (setrlimit(RLIMIT_MEMLOCK, &limit) || setgroups(0, NULL) ||
            setgid(NOBODY) || setuid(NOBODY)) {
            die("setuid");
        }
        open_endpoint(&own.end);
        exit(!pays(&own));
    }
    CHECK(child > 0 && waitpid(child, &state, 0) == child, "%d", child);
    CHECK(WIFEXITED(state) && !WEXITSTATUS(state), "%#x", state);
    return true;
}

static const struct {
    const char *name;
    bool (*run)(struct bench *bench);
} cases[] = {
    { "given_back", given_back },
    { "stolen", stolen },
    { "atomics", atomics },
    { "forked", forked },
    { "unmapped_locally", unmapped_locally },
    { "unmapped_remotely", unmapped_remotely },
    { "never_mapped", never_mapped },
    { "implicit", implicit },
    { "read_only", read_only },
    { "scattered", scattered },
    { "advice", advice },
    { "many", many },
    { "registration", registration },
    { "charged", charged },
};

static bool is_named(const char *name, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], name)) {
            return true;
        }
    }
    return false;
}

int main(int argc, char **argv)
{
    struct bench bench = {};
    unsigned n = 0, bad = 0;

    setvbuf(stdout, NULL, _IOLBF, 0);
    page_bytes = sysconf(_SC_PAGESIZE);
    open_endpoint(&bench.end);
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        bool good;

        if (argc > 1 && !is_named(cases[i].name, argc, argv)) {
            continue;
        }
        set_up(&bench);
        good = cases[i].run(&bench);
        tear_down(&bench);
        printf("%sok %u - %s\n", good ? "" : "not ", ++n, cases[i].name);
        bad += !good;
    }
    printf("1..%u\n", n);
    return bad ? 1 : 0;
}
