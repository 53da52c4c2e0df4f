/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rdma_atomics [-n COUNT] [SERVER-ADDRESS]: RDMA atomics against those of a
 * CPU.
 *
 * The client adds to the upper half of a word in the server's memory by
 * FETCH_ADD. The server adds to the lower half by locked instructions, as fast
 * as it can. The device reports IBV_ATOMIC_GLOB: neither side may lose an
 * addition, and the responses count the upper half one by one.
 */
#include "meet.h"

#define TCP_PORT "18602"
#define UPPER (1ULL << 32)
#define OUTSTANDING 8
#define CPU_ADDS 20000          /* between two looks at the socket */

struct side {
    struct endpoint end;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    uint64_t *memory;           /* server: the word; client: the responses */
    struct ibv_mr *mr;
    struct address peer;
    int sock;
};

static void allocate(struct side *side)
{
    side->memory = aligned_alloc(4096, 4096);
    if (!side->memory) {
        die("aligned_alloc");
    }
    memset(side->memory, 0, 4096);
    side->mr = ibv_reg_mr(side->end.pd, side->memory, 4096,
                          IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
    side->cq = ibv_create_cq(side->end.context, OUTSTANDING, NULL, NULL, 0);
    if (!side->mr || !side->cq) {
        die("ibv_reg_mr or ibv_create_cq");
    }
}

static void set_up(struct side *side, const char *server)
{
    struct ibv_device_attr attr;
    struct address own;

    open_endpoint(&side->end);
    if (ibv_query_device(side->end.context, &attr)) {
        die("ibv_query_device");
    }
    if (attr.atomic_cap != IBV_ATOMIC_GLOB) {
        errno = 0;
        die("atomic_cap is %d, not IBV_ATOMIC_GLOB", attr.atomic_cap);
    }
    allocate(side);
    side->qp = create_rc(&side->end, side->cq);
    side->sock = meet(server, TCP_PORT);
    if (side->sock < 0) {
        die("accept");
    }
    own = (struct address) { .gid = side->end.gid, .qpn = side->qp->qp_num,
                             .psn = 1, .buffer = (uintptr_t)side->memory,
                             .rkey = side->mr->rkey };
    swap(side->sock, &own, &side->peer, sizeof(own));
    connect_rc(&side->end, side->qp, &side->peer, own.psn,
               IBV_ACCESS_REMOTE_ATOMIC, 18, 7);
    swap(side->sock, &own, &own, 1);
}

static void post_add(struct side *side, unsigned serial)
{
    struct ibv_sge sge = {
        .addr = (uintptr_t)&side->memory[serial % OUTSTANDING],
        .length = 8, .lkey = side->mr->lkey,
    };
    struct ibv_send_wr *bad, wr = {
        .wr_id = serial, .sg_list = &sge, .num_sge = 1,
        .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
        .send_flags = IBV_SEND_SIGNALED,
        .wr.atomic = { .remote_addr = side->peer.buffer,
                       .rkey = side->peer.rkey, .compare_add = UPPER },
    };
    int error = ibv_post_send(side->qp, &wr, &bad);

    if (error) {
        errno = error;
        die("ibv_post_send");
    }
}

/* Additions by the CPU, every fourth by compare and swap. */
static unsigned cpu_adds(uint64_t *word)
{
    for (unsigned i = 0; i < CPU_ADDS; i++) {
        uint64_t seen;

        if (i % 4) {
            __atomic_fetch_add(word, 1, __ATOMIC_SEQ_CST);
            continue;
        }
        seen = __atomic_load_n(word, __ATOMIC_SEQ_CST);
        while (!__atomic_compare_exchange_n(word, &seen, seen + 1, false,
                                            __ATOMIC_SEQ_CST,
                                            __ATOMIC_SEQ_CST)) {
        }
    }
    return CPU_ADDS;
}

/* Returns the number of completions; a response out of order is wrong. */
static unsigned reap(struct side *side, unsigned *wrong)
{
    struct ibv_wc wc[OUTSTANDING];
    int count = ibv_poll_cq(side->cq, OUTSTANDING, wc);

    if (count < 0) {
        die("ibv_poll_cq");
    }
    for (int i = 0; i < count; i++) {
        if (wc[i].status) {
            errno = 0;
            die("FETCH_ADD: %s", ibv_wc_status_str(wc[i].status));
        }
        *wrong += side->memory[wc[i].wr_id % OUTSTANDING] / UPPER !=
                  wc[i].wr_id;
    }
    return count;
}

/* The client: all its additions, then a message that it has finished. */
static int request(struct side *side, uint64_t total)
{
    double deadline = seconds_now() + COMPLETION_WAIT_S;
    unsigned posted = 0, done = 0, before = 0, wrong = 0;

    while (done < total) {
        while (posted < total && posted - done < OUTSTANDING) {
            post_add(side, posted++);
        }
        done += reap(side, &wrong);
        if (done != before) {
            before = done;
            deadline = seconds_now() + COMPLETION_WAIT_S;
        } else if (seconds_now() > deadline) {
            errno = ETIMEDOUT;
            die("%u completed", done);
        }
    }
    swap(side->sock, &total, &total, sizeof(total));
    printf("answers out of turn: %u\n", wrong);
    return wrong != 0;
}

/* The server: adds until that message. */
static int serve(struct side *side)
{
    uint64_t value, total = 0;
    unsigned added = 0;
    char byte;

    while (recv(side->sock, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0) {
        added += cpu_adds(side->memory);
    }
    swap(side->sock, &total, &total, sizeof(total));
    value = __atomic_load_n(side->memory, __ATOMIC_SEQ_CST);
    printf("by RDMA %u of %u, by CPU %u of %u\n", (unsigned)(value / UPPER),
           (unsigned)total, (unsigned)value, added);
    return value != total * UPPER + added;
}

int main(int argc, char **argv)
{
    struct side side = { 0 };
    unsigned total = 10000;
    int letter;

    while ((letter = getopt(argc, argv, "n:")) == 'n') {
        total = strtoul(optarg, NULL, 0);
    }
    set_up(&side, argv[optind]);
    return argv[optind] ? request(&side, total) : serve(&side);
}
