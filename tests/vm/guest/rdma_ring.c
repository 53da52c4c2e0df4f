/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rdma_ring MIB [SERVER-ADDRESS]: the client writes to a ring of blocks in the
 * server's memory until it gets SIGUSR1. Block N has its number in each word.
 * The client then reports how many it has written, and the server compares all
 * of its memory. Nothing is written again, so a lost write is noticed.
 */
#include "meet.h"

#include <signal.h>
#include <sys/mman.h>

#define TCP_PORT "18602"
#define BLOCK (64 << 10)
#define SLOTS 8
#define WORDS (BLOCK / sizeof(uint64_t))

static volatile sig_atomic_t ends;

static void end_writing(int number)
{
    ends = number;
}

static uint64_t word_of(uint64_t block, size_t at)
{
    return (block + 1) * 0x9e3779b97f4a7c15u + at;
}

static void fill(uint64_t *words, uint64_t block)
{
    for (size_t i = 0; i < WORDS; i++) {
        words[i] = word_of(block, i);
    }
}

/* The number of blocks written. All have completed. */
static uint64_t write_blocks(struct ibv_cq *cq, struct ibv_qp *qp,
                             const struct ibv_mr *mr,
                             const struct address *to, uint64_t ring)
{
    uint64_t posted = 0, done = 0;

    while (!ends || done < posted) {
        if (!ends && posted - done < SLOTS) {
            uint8_t *slot = (uint8_t *)mr->addr + posted % SLOTS * BLOCK;
            struct ibv_sge sge = { (uintptr_t)slot, BLOCK, mr->lkey };

            fill((uint64_t *)slot, posted);
            post(qp, IBV_WR_RDMA_WRITE, &sge,
                 to->buffer + posted % ring * BLOCK, to->rkey, posted);
            posted++;
            continue;
        }
        struct ibv_wc wc = next_completion(cq);

        if (wc.status || wc.wr_id != done++) {
            die("write %llu: %s", (unsigned long long)wc.wr_id,
                ibv_wc_status_str(wc.status));
        }
    }
    return done;
}

/* Compares the ring after 'count' writes. */
static void compare(const uint64_t *words, uint64_t ring, uint64_t count)
{
    for (uint64_t block = 0; block < ring; block++, words += WORDS) {
        const bool written = block < count;
        const uint64_t last = written ? block + (count - 1 - block) / ring *
                                                    ring : 0;

        for (size_t i = 0; i < WORDS; i++) {
            if (words[i] != (written ? word_of(last, i) : 0)) {
                errno = EBADMSG;
                die("byte %zu of block %llu, written as number %llu of %llu",
                    8 * i, (unsigned long long)block,
                    (unsigned long long)last, (unsigned long long)count);
            }
        }
    }
}

int main(int argc, char **argv)
{
    const char *server = argc > 2 ? argv[2] : NULL;
    const uint64_t ring = argc > 1 ? strtoull(argv[1], NULL, 10) * 16 : 0;
    const size_t size = server ? SLOTS * BLOCK : ring * BLOCK;
    struct address own = { .psn = 1 }, peer;
    uint64_t count = 0, ignored;
    struct endpoint end;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    void *memory;
    int sock;

    if (!ring) {
        die("usage: rdma_ring MIB [SERVER-ADDRESS]");
    }
    signal(SIGUSR1, end_writing);
    setvbuf(stdout, NULL, _IOLBF, 0);
    open_endpoint(&end);
    memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mr = memory == MAP_FAILED ? NULL
         : ibv_reg_mr(end.pd, memory, size, IBV_ACCESS_LOCAL_WRITE |
                                            IBV_ACCESS_REMOTE_WRITE);
    cq = ibv_create_cq(end.context, 2 * SLOTS, NULL, NULL, 0);
    if (!mr || !cq) {
        die("memory and CQ");
    }
    qp = create_rc(&end, cq);
    own.gid = end.gid;
    own.qpn = qp->qp_num;
    own.buffer = (uintptr_t)memory;
    own.rkey = mr->rkey;
    sock = meet(server, TCP_PORT);
    swap(sock, &own, &peer, sizeof(own));
    connect_rc(&end, qp, &peer, 1, IBV_ACCESS_REMOTE_WRITE, 14, 7);
    swap(sock, &count, &ignored, sizeof(count));
    printf("connected\n");
    if (server) {
        count = write_blocks(cq, qp, mr, &peer, ring);
    }
    swap(sock, &count, &ignored, sizeof(count));
    if (!server) {
        compare(memory, ring, ignored);
        count = ignored;
    }
    printf("%llu blocks\n", (unsigned long long)count);
    return 0;
}
