/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Inspection changes nothing. All memory of a busy engine is the same, byte by
 * byte, before and after all its queries. The linker replaces malloc() and
 * similar functions by those of this file (Makefile).
 */
#include "pair.h"

#include "engine.h"

#define BLOCKS 4096

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void __real_free(void *block);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
void __wrap_free(void *block);

static struct {
    const uint8_t *at;          /* NULL: none */
    size_t size;
} blocks[BLOCKS];

static void *noted(void *block, size_t size)
{
    for (unsigned i = 0; block && i < BLOCKS; i++) {
        if (!blocks[i].at) {
            blocks[i].at = block;
            blocks[i].size = size;
            return block;
        }
    }
    REQUIRE(!block);
    return block;
}

static void forget(const void *block)
{
    for (unsigned i = 0; i < BLOCKS; i++) {
        if (block && blocks[i].at == block) {
            blocks[i].at = NULL;
            return;
        }
    }
}

void *__wrap_malloc(size_t size)
{
    void *block = __real_malloc(size);

    if (block) {
        memset(block, 0, size);
    }
    return noted(block, size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return noted(__real_calloc(count, size), count * size);
}

void *__wrap_realloc(void *old, size_t size)
{
    forget(old);
    return noted(__real_realloc(old, size), size);
}

void __wrap_free(void *block)
{
    forget(block);
    __real_free(block);
}

/* FNV-1a of all allocated memory, and of its addresses. */
static uint64_t checksum(void)
{
    uint64_t sum = 0xcbf29ce484222325ull;

    for (unsigned i = 0; i < BLOCKS; i++) {
        for (size_t k = 0; blocks[i].at && k < blocks[i].size; k++) {
            sum = (sum ^ blocks[i].at[k]) * 0x100000001b3ull;
        }
        sum = (sum ^ (uintptr_t)blocks[i].at) * 0x100000001b3ull;
    }
    return sum;
}

/* Everything that the device queries for introspection. */
typedef struct Look {
    RoceQpAttr attr[PAIR_QPS + 2];
    RoceQpView qp[PAIR_QPS + 2];
    RoceMrView mr[64];
    RoceGid gid[4];
    RoceTime deadline;
    uint64_t stats[FAKERNIC_STAT_COUNT];
    uint64_t work;
    RoceFrameInfo frame;
} Look;

static void look(Roce *r, Look *seen)
{
    uint32_t psn;

    memset(seen, 0, sizeof(*seen));
    for (uint32_t i = 0; i < PAIR_QPS + 2; i++) {
        roce_qp_query(r, i, &seen->attr[i]);
        roce_qp_view(r, i, &seen->qp[i]);
        roce_qp_first_psn(r, i, true, &psn);
    }
    for (uint32_t i = 0; i < 64; i++) {
        roce_mr_view(r, i, &seen->mr[i]);
    }
    for (uint16_t i = 0; i < 4; i++) {
        roce_gid_get(r, i, &seen->gid[i]);
    }
    seen->deadline = roce_deadline(r);
    memcpy(seen->stats, roce_stats(r), sizeof(seen->stats));
    seen->work = roce_work(r);
    seen->frame = *roce_output_info(r);
}

/* Moves one frame. False: there is none. */
static bool one_frame(Pair *p, PairHost *from, PairHost *to)
{
    uint8_t frame[ROCE_FRAME_MAX];
    bool loopback;
    const size_t len = roce_output(from->r, p->now, frame, &loopback);

    if (len) {
        roce_input(to->r, p->now, frame, len);
    }
    return len;
}

static void check_look(Roce *r)
{
    const uint64_t before = checksum();
    static Look first, again;

    look(r, &first);
    look(r, &again);
    CHECK_MEM(&again, &first, sizeof(first));
    CHECK_EQ(checksum(), before);
}

/* The test inspects both engines after each frame of a program. */
static void inspection_changes_no_state(void)
{
    unsigned frames = 0;
    uint64_t last = 0;
    bool a, b;
    PAIR(p, FAKERNIC_QP_RC);

    p.a.r->limits.dcqcn = true;
    p.b.r->limits.dcqcn = true;
    pair_fill(p.a.memory, 8192, 1);
    pair_recv(&p.b, 0, 0x10000, 4096);
    for (unsigned i = 0; i < 4; i++) {
        static const uint8_t opcodes[] = {
            FAKERNIC_SQ_RDMA_WRITE, FAKERNIC_SQ_SEND, FAKERNIC_SQ_RDMA_READ,
            FAKERNIC_SQ_SEND,
        };
        RoceSendWr wr = pair_rdma_wr(&p.a, &p.b, i, opcodes[i], 4096, 1500);

        pair_send(&p, &p.a, &wr);
    }
    do {
        a = one_frame(&p, &p.a, &p.b);
        b = one_frame(&p, &p.b, &p.a);
        check_look(p.a.r);
        check_look(p.b.r);
        CHECK(!a || checksum() != last);
        last = checksum();
        frames++;
    } while ((a || b) && frames < 200);
    CHECK(frames > 10 && frames < 200);
    /* The last SEND still waits for a receive after some time. */
    p.now += 5000000;
    check_look(p.a.r);
}

static const Test tests[] = {
    TEST(inspection_changes_no_state),
};

TEST_MAIN(tests)
