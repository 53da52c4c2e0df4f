/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Work requests on keys are executed in the order of their send queue. */
#include "pair.h"

#include "engine.h"

static uint32_t fast_reg_key(PairHost *h)
{
    RoceMrInit init = {
        .type = FAKERNIC_MR_FAST_REG, .tag = 1, .pd = 1, .page_count = 4,
    };
    uint32_t key = 0;

    CHECK_EQ(roce_mr_create(h->r, &init, &key), FAKERNIC_CMD_OK);
    return key;
}

static RoceSendWr reg_wr(uint32_t index, uint32_t key, uint32_t length)
{
    RoceSendWr wr = {
        .index = index, .opcode = FAKERNIC_SQ_REG_MR,
        .flags = FAKERNIC_SQ_SIGNALED,
        .reg_mr = {
            .iova = 0x1000, .length = length, .key = key,
            .access = FAKERNIC_ACCESS_LOCAL_WRITE |
                      FAKERNIC_ACCESS_REMOTE_WRITE |
                      FAKERNIC_ACCESS_REMOTE_READ,
            .page_count = 2, .page_shift = 12,
            .pages = malloc(2 * sizeof(uint64_t)),
        },
    };

    wr.reg_mr.pages[0] = PAIR_MEMORY + 0x8000;
    wr.reg_mr.pages[1] = PAIR_MEMORY + 0x4000;
    return wr;
}

static RoceSendWr inv_wr(uint32_t index, uint32_t key)
{
    return (RoceSendWr) {
        .index = index, .opcode = FAKERNIC_SQ_LOCAL_INV,
        .flags = FAKERNIC_SQ_SIGNALED, .imm_or_key = key,
    };
}

/* A key is registered, used and invalidated; its next use fails. */
static void fast_registered_key_works_until_invalidated(void)
{
    RoceSendWr wr;
    uint32_t key;
    PAIR(p, FAKERNIC_QP_RC);

    key = fast_reg_key(&p.a);
    pair_fill(p.a.memory + 0x8000, 4096, 1);
    pair_fill(p.a.memory + 0x4000, 4096, 2);
    wr = reg_wr(0, key, 8192);
    pair_send(&p, &p.a, &wr);
    wr = pair_rdma_wr(&p.a, &p.b, 1, FAKERNIC_SQ_RDMA_WRITE, 0, 8192);
    wr.sge[0] = (RoceSge) { .address = 0x1000, .length = 8192, .lkey = key };
    pair_send(&p, &p.a, &wr);
    wr = inv_wr(2, key);
    pair_send(&p, &p.a, &wr);
    wr = pair_rdma_wr(&p.a, &p.b, 3, FAKERNIC_SQ_RDMA_WRITE, 0, 64);
    wr.sge[0] = (RoceSge) { .address = 0x1000, .length = 64, .lkey = key };
    pair_send(&p, &p.a, &wr);
    pair_run(&p);
    CHECK_MEM(p.b.memory, p.a.memory + 0x8000, 4096);
    CHECK_MEM(p.b.memory + 4096, p.a.memory + 0x4000, 4096);
    pair_expect(&p.a, FAKERNIC_CQE_REG_MR, 0, FAKERNIC_WC_SUCCESS);
    pair_expect(&p.a, FAKERNIC_CQE_RDMA_WRITE, 1, FAKERNIC_WC_SUCCESS);
    pair_expect(&p.a, FAKERNIC_CQE_LOCAL_INV, 2, FAKERNIC_WC_SUCCESS);
    pair_expect(&p.a, FAKERNIC_CQE_RDMA_WRITE, 3, FAKERNIC_WC_LOC_PROT_ERR);
    CHECK_EQ(p.a.host->completions[3].vendor_err, FAKERNIC_VENDOR_KEY_STATE);
}

/* A WRITE may be retransmitted, so it needs its key until the ACK. */
static void invalidation_waits_for_outstanding_writes(void)
{
    RoceSendWr wr;
    uint32_t key;
    PAIR(p, FAKERNIC_QP_RC);

    key = fast_reg_key(&p.a);
    wr = reg_wr(0, key, 8192);
    pair_send(&p, &p.a, &wr);
    wr = pair_rdma_wr(&p.a, &p.b, 1, FAKERNIC_SQ_RDMA_WRITE, 0, 512);
    wr.sge[0] = (RoceSge) { .address = 0x1000, .length = 512, .lkey = key };
    pair_lose(&p.a, 2);
    pair_send(&p, &p.a, &wr);
    wr = inv_wr(2, key);
    pair_send(&p, &p.a, &wr);
    pair_run_until(&p, 1000000000);
    pair_expect(&p.a, FAKERNIC_CQE_REG_MR, 0, FAKERNIC_WC_SUCCESS);
    pair_expect(&p.a, FAKERNIC_CQE_RDMA_WRITE, 1, FAKERNIC_WC_SUCCESS);
    pair_expect(&p.a, FAKERNIC_CQE_LOCAL_INV, 2, FAKERNIC_WC_SUCCESS);
}

static void bad_keys_fail_the_send_queue(void)
{
    RoceSendWr wr;
    Pair p;

    pair_init(&p, FAKERNIC_QP_RC);
    wr = inv_wr(0, 0xabcdef01);
    pair_send(&p, &p.a, &wr);
    wr = reg_wr(1, 0x100, 8192);        /* flushed: its pages are freed */
    pair_send(&p, &p.a, &wr);
    pair_run(&p);
    pair_expect(&p.a, FAKERNIC_CQE_LOCAL_INV, 0, FAKERNIC_WC_MW_BIND_ERR);
    pair_expect(&p.a, FAKERNIC_CQE_REG_MR, 1, FAKERNIC_WC_WR_FLUSH_ERR);
    pair_free(&p);
    pair_init(&p, FAKERNIC_QP_RC);
    wr = reg_wr(0, p.a.key, 8192);
    pair_send(&p, &p.a, &wr);
    pair_run(&p);
    pair_expect(&p.a, FAKERNIC_CQE_REG_MR, 0, FAKERNIC_WC_MW_BIND_ERR);
    pair_free(&p);
}

/* The peer invalidates a key that it has received; its next WRITE fails. */
static void send_with_invalidate_invalidates_key(void)
{
    const RoceCompletion *c;
    RoceSendWr wr;
    uint32_t key;
    PAIR(p, FAKERNIC_QP_RC);

    key = fast_reg_key(&p.b);
    wr = reg_wr(0, key, 8192);
    pair_send(&p, &p.b, &wr);
    pair_run(&p);
    pair_expect(&p.b, FAKERNIC_CQE_REG_MR, 0, FAKERNIC_WC_SUCCESS);
    wr = pair_rdma_wr(&p.a, &p.b, 1, FAKERNIC_SQ_RDMA_WRITE, 0, 64);
    wr.rdma.remote_address = 0x1000;
    wr.rdma.rkey = key;
    pair_send(&p, &p.a, &wr);
    pair_recv(&p.b, 5, 0, 64);
    wr = pair_wr(&p.a, 2, FAKERNIC_SQ_SEND_INV, 0, 64);
    wr.imm_or_key = key;
    pair_send(&p, &p.a, &wr);
    pair_run(&p);
    pair_expect(&p.a, FAKERNIC_CQE_RDMA_WRITE, 1, FAKERNIC_WC_SUCCESS);
    pair_expect(&p.a, FAKERNIC_CQE_SEND, 2, FAKERNIC_WC_SUCCESS);
    c = fake_next_completion(p.b.host);
    REQUIRE(c != NULL);
    CHECK_EQ(c->flags, FAKERNIC_CQE_INV);
    CHECK_EQ(c->imm_or_key, key);
    wr = pair_rdma_wr(&p.a, &p.b, 3, FAKERNIC_SQ_RDMA_WRITE, 0, 64);
    wr.rdma.remote_address = 0x1000;
    wr.rdma.rkey = key;
    pair_send(&p, &p.a, &wr);
    pair_run(&p);
    pair_expect(&p.a, FAKERNIC_CQE_RDMA_WRITE, 3, FAKERNIC_WC_REM_ACCESS_ERR);
}

static void invalidating_a_plain_region_is_refused(void)
{
    RoceSendWr wr;
    PAIR(p, FAKERNIC_QP_RC);

    pair_recv(&p.b, 5, 0, 64);
    wr = pair_wr(&p.a, 2, FAKERNIC_SQ_SEND_INV, 0, 64);
    wr.imm_or_key = p.b.key;
    pair_send(&p, &p.a, &wr);
    pair_run(&p);
    pair_expect(&p.a, FAKERNIC_CQE_SEND, 2, FAKERNIC_WC_REM_ACCESS_ERR);
    CHECK_EQ(p.b.host->completions[0].status, FAKERNIC_WC_MW_BIND_ERR);
}

static void bound_window_grants_its_range(void)
{
    RoceSendWr wr;
    uint32_t key;
    PAIR(p, FAKERNIC_QP_RC);

    CHECK_EQ(roce_mw_create(p.b.r, FAKERNIC_MW_TYPE_2B, 3, 1, &key),
             FAKERNIC_CMD_OK);
    wr = (RoceSendWr) {
        .opcode = FAKERNIC_SQ_BIND_MW, .flags = FAKERNIC_SQ_SIGNALED,
        .bind_mw = {
            .address = PAIR_MEMORY + 256, .length = 256, .mw_key = key,
            .new_key = key + 1, .mr_key = p.b.key,
            .access = FAKERNIC_ACCESS_REMOTE_WRITE,
        },
    };
    pair_send(&p, &p.b, &wr);
    pair_run(&p);
    pair_expect(&p.b, FAKERNIC_CQE_BIND_MW, 0, FAKERNIC_WC_SUCCESS);
    wr = pair_rdma_wr(&p.a, &p.b, 1, FAKERNIC_SQ_RDMA_WRITE, 256, 256);
    wr.rdma.rkey = key + 1;
    pair_send(&p, &p.a, &wr);
    wr = pair_rdma_wr(&p.a, &p.b, 2, FAKERNIC_SQ_RDMA_WRITE, 256, 257);
    wr.rdma.rkey = key + 1;
    pair_send(&p, &p.a, &wr);
    pair_run(&p);
    pair_expect(&p.a, FAKERNIC_CQE_RDMA_WRITE, 1, FAKERNIC_WC_SUCCESS);
    pair_expect(&p.a, FAKERNIC_CQE_RDMA_WRITE, 2, FAKERNIC_WC_REM_ACCESS_ERR);
}

/* A type 2 window belongs to its QP and ends with it; a type 1 window stays. */
static void destroyed_qp_releases_its_type_2_windows(void)
{
    uint32_t keys[2], other = 0;
    RoceQpInit init = {
        .type = FAKERNIC_QP_RC, .has_sq = true, .has_rq = true, .pd = 1,
    };
    RoceAccess access[2];
    const RoceMr *mr;
    unsigned i;
    PAIR(p, FAKERNIC_QP_RC);

    CHECK_EQ(roce_qp_create(p.b.r, &init, &other), FAKERNIC_CMD_OK);
    for (i = 0; i < 2; i++) {
        RoceSendWr wr = {
            .opcode = FAKERNIC_SQ_BIND_MW, .flags = FAKERNIC_SQ_SIGNALED,
            .bind_mw = {
                .address = PAIR_MEMORY, .length = 256, .mr_key = p.b.key,
                .access = FAKERNIC_ACCESS_REMOTE_READ,
            },
        };

        CHECK_EQ(roce_mw_create(p.b.r, i ? FAKERNIC_MW_TYPE_1
                                         : FAKERNIC_MW_TYPE_2B, 3, 1,
                                &keys[i]), FAKERNIC_CMD_OK);
        wr.bind_mw.mw_key = keys[i]++;
        wr.bind_mw.new_key = keys[i];
        pair_send(&p, &p.b, &wr);
        pair_run(&p);
        pair_expect(&p.b, FAKERNIC_CQE_BIND_MW, 0, FAKERNIC_WC_SUCCESS);
        access[i] = (RoceAccess) {
            .key = keys[i],
            .rights = FAKERNIC_ACCESS_REMOTE_READ,
            .pd = 1,
            .qpn = i ? 0 : p.b.qpn,
            .address = PAIR_MEMORY,
            .length = 1,
        };
    }
    CHECK_EQ(roce_qp_destroy(p.b.r, other), FAKERNIC_CMD_OK);
    CHECK_EQ(roce_mr_check(p.b.r->mrs, &access[0], &mr), 0);
    CHECK_EQ(roce_qp_destroy(p.b.r, p.b.qpn), FAKERNIC_CMD_OK);
    CHECK_EQ(roce_mr_check(p.b.r->mrs, &access[0], &mr),
             FAKERNIC_VENDOR_KEY_STATE);
    CHECK_EQ(roce_mr_check(p.b.r->mrs, &access[1], &mr), 0);
    CHECK_EQ(roce_mr_destroy(p.b.r, p.b.key), FAKERNIC_CMD_BUSY);
    CHECK_EQ(roce_mw_destroy(p.b.r, keys[1]), FAKERNIC_CMD_OK);
    CHECK_EQ(roce_mr_destroy(p.b.r, p.b.key), FAKERNIC_CMD_OK);
}

static void read_with_invalidate_invalidates_local_key(void)
{
    RoceSendWr wr;
    uint32_t key;
    PAIR(p, FAKERNIC_QP_RC);

    key = fast_reg_key(&p.a);
    wr = reg_wr(0, key, 8192);
    pair_send(&p, &p.a, &wr);
    wr = pair_rdma_wr(&p.a, &p.b, 1, FAKERNIC_SQ_RDMA_READ_INV, 0, 512);
    wr.sge[0] = (RoceSge) { .address = 0x1000, .length = 512, .lkey = key };
    wr.imm_or_key = key;
    pair_fill(p.b.memory, 512, 7);
    pair_send(&p, &p.a, &wr);
    pair_run(&p);
    pair_expect(&p.a, FAKERNIC_CQE_REG_MR, 0, FAKERNIC_WC_SUCCESS);
    pair_expect(&p.a, FAKERNIC_CQE_RDMA_READ, 1, FAKERNIC_WC_SUCCESS);
    CHECK_MEM(p.a.memory + 0x8000, p.b.memory, 512);
    wr.index = 2;
    pair_send(&p, &p.a, &wr);
    pair_run(&p);
    pair_expect(&p.a, FAKERNIC_CQE_RDMA_READ, 2, FAKERNIC_WC_LOC_PROT_ERR);
}

static const Test tests[] = {
    TEST(fast_registered_key_works_until_invalidated),
    TEST(invalidation_waits_for_outstanding_writes),
    TEST(bad_keys_fail_the_send_queue),
    TEST(send_with_invalidate_invalidates_key),
    TEST(invalidating_a_plain_region_is_refused),
    TEST(bound_window_grants_its_range),
    TEST(destroyed_qp_releases_its_type_2_windows),
    TEST(read_with_invalidate_invalidates_local_key),
};

TEST_MAIN(tests)
