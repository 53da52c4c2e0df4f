/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Device memory: the part of BAR2 that is RAM, its regions, and the accesses
 * that reach it through them.
 */
#include "qemu/osdep.h"
#include "fakernic-save.h"
#include "fakernic-setup.h"

#define DM_RIGHTS                                                            \
    (FAKERNIC_ACCESS_LOCAL_WRITE | FAKERNIC_ACCESS_REMOTE_WRITE |            \
     FAKERNIC_ACCESS_REMOTE_READ | FAKERNIC_ACCESS_REMOTE_ATOMIC |           \
     FAKERNIC_ACCESS_ZERO_BASED | FAKERNIC_ACCESS_FLUSH_GLOBAL |             \
     FAKERNIC_ACCESS_FLUSH_PERSISTENT)

static uint64_t dm_address(Nic *n)
{
    return n->uar.addr +
           (uint64_t)reg_read(n, FAKERNIC_REG_DM_OFFSET) * FAKERNIC_PAGE_SIZE;
}

/* A zero-based region of device memory, from a byte offset on. */
static struct fakernic_create_mr_req dm_req(const Setup *s, uint64_t offset,
                                            uint64_t length)
{
    const uint64_t in_page = offset % FAKERNIC_PAGE_SIZE;

    return (struct fakernic_create_mr_req) {
        .iova = LE64(in_page),
        .length = LE64(length),
        .pages = {
            .address = LE64(offset - in_page),
            .page_count = LE32(MAX(1, DIV_ROUND_UP(in_page + length,
                                                   FAKERNIC_PAGE_SIZE))),
            .page_shift = FAKERNIC_PAGE_SHIFT,
        },
        .pdn = LE32(s->pd),
        .access = LE32(DM_RIGHTS),
        .type = FAKERNIC_MR_DM,
        .tag = 0x22,
    };
}

static void test_dm_bar(void)
{
    Machine m;
    Nic n;
    struct fakernic_query_device_resp dev;
    uint64_t dm, size;

    start_enabled(&m, &n);
    assert_status(cmd(&n, FAKERNIC_CMD_QUERY_DEVICE, NULL, 0, &dev,
                      sizeof(dev)), OK);
    size = (uint64_t)reg_read(&n, FAKERNIC_REG_DM_PAGES) * FAKERNIC_PAGE_SIZE;
    g_assert_cmpuint(size, ==, 1 << 20);
    g_assert_cmpuint(le32_to_cpu(dev.dm_size), ==, size);
    dm = dm_address(&n);
    qtest_writeq(m.qts, dm, 0x1122334455667788ull);
    qtest_writeb(m.qts, dm + size - 1, 0x5a);
    g_assert_cmphex(qtest_readl(m.qts, dm + 4), ==, 0x11223344);
    g_assert_cmphex(qtest_readb(m.qts, dm + size - 1), ==, 0x5a);
    /* The page before it is the clock page, which ignores writes. */
    qtest_writeq(m.qts, dm - FAKERNIC_PAGE_SIZE + 8, ~0ull);
    g_assert_cmphex(qtest_readq(m.qts, dm - FAKERNIC_PAGE_SIZE + 8), ==, 0);
    nic_reset(&n);
    g_assert_cmphex(qtest_readq(m.qts, dm), ==, 0);
    machine_stop(&m);

    machine_start(&m, "%s,dm-size=0", DEVICE);
    nic_find(&n, &m, SLOT);
    g_assert_cmpuint(reg_read(&n, FAKERNIC_REG_DM_PAGES), ==, 0);
    g_assert_cmpuint(reg_read(&n, FAKERNIC_REG_DM_OFFSET), ==, 0);
    g_assert_false(nic_offered(&n) & FAKERNIC_FEATURE_DM);
    machine_stop(&m);
}

static void test_dm_mr(Rig *r)
{
    struct fakernic_create_mr_req req, good;
    struct fakernic_rereg_mr_req rereg;
    uint32_t key;

    good = dm_req(&r->s, 8192, 8192);
#define BAD(change, code, field) \
    do { \
        req = good; \
        change; \
        assert_refused(&r->n, CMD(&r->n, CREATE_MR, req), code, \
                       fakernic_create_mr_req, field); \
    } while (0)
    BAD(req.pages.levels = 1, BAD_PAGE_LIST, pages);
    BAD(req.pages.page_shift = 13, BAD_PAGE_LIST, pages);
    BAD(req.pages.page_count = LE32(1), BAD_PAGE_LIST, pages);
    BAD(req.pages.page_count = 0, BAD_PAGE_LIST, pages);
    BAD(req.pages.rsvd = LE16(1), BAD_PAGE_LIST, pages);
    BAD(req.pages.address = LE64(8), BAD_PAGE_LIST, pages);
    BAD(req.pages.address = LE64((1 << 20) - 4096), BAD_PAGE_LIST, pages);
    BAD(req.pages.address = LE64(-4096ull), BAD_PAGE_LIST, pages);
    BAD(req.length = LE64(1ull << 41), BAD_PARAM, length);
    BAD(req.iova = LE64(-4ull), BAD_PARAM, length);
    BAD(req.max_pages = LE32(1), BAD_PARAM, max_pages);
    BAD(req.pdn = LE32(77), BAD_ID, pdn);
    BAD(req.access = LE32(FAKERNIC_ACCESS_REMOTE_WRITE), BAD_PARAM, access);
    /* Guest memory that pretends to be device memory. */
    BAD(req.type = FAKERNIC_MR_MEMORY; req.pages.address = LE64(1ull << 63),
                                       BAD_PAGE_LIST, pages);
    BAD(req.type = FAKERNIC_MR_MEMORY;
        req.pages.address = LE64((1ull << 63) - 4096), BAD_PAGE_LIST, pages);
#undef BAD
    key = cmd_create(&r->n, FAKERNIC_CMD_CREATE_MR, &good, sizeof(good));
    rereg = (struct fakernic_rereg_mr_req) {
        .key = LE32(key), .mask = LE32(FAKERNIC_REREG_PD), .pdn = LE32(r->s.pd),
    };
    assert_status(CMD(&r->n, REREG_MR, rereg), BAD_STATE);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_MR, key), OK);
    /* A region of 0 bytes may begin in the last page. */
    req = dm_req(&r->s, (1 << 20) - 4096, 0);
    key = cmd_create(&r->n, FAKERNIC_CMD_CREATE_MR, &req, sizeof(req));
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_MR, key), OK);
}

/* WRITE, READ, an atomic and FLUSH at a region that begins within a page. */
static void test_dm_traffic(Rig *r)
{
    const uint64_t offset = 4096 + 64, length = 5000;
    struct fakernic_create_mr_req req;
    uint8_t got[5000], want[5000];
    AtomicWqe atomic;
    uint32_t key;
    Wqe wqe;

    req = dm_req(&r->s, offset, length);
    key = cmd_create(&r->n, FAKERNIC_CMD_CREATE_MR, &req, sizeof(req));
    fill(&r->n, &r->s, 0, length);
    wqe = wqe_rdma(&r->s, FAKERNIC_SQ_RDMA_WRITE, 0, 0, length);
    wqe.rdma.rdma.remote_address = 0;
    wqe.rdma.rdma.rkey = LE32(key);
    sq_put(&r->n, &r->a, &wqe, sizeof(wqe));
    wqe.hdr.opcode = FAKERNIC_SQ_RDMA_READ;
    wqe.rdma.sge[0].address = LE64(r->s.data + 8192);
    sq_put(&r->n, &r->a, &wqe, sizeof(wqe));
    wqe.hdr.opcode = FAKERNIC_SQ_FLUSH;
    wqe.rdma.rdma.flush = LE32(FAKERNIC_FLUSH_GLOBAL);
    POST(r, wqe);
    rig_cqe(r, FAKERNIC_CQE_RDMA_WRITE, FAKERNIC_WC_SUCCESS);
    rig_cqe(r, FAKERNIC_CQE_RDMA_READ, FAKERNIC_WC_SUCCESS);
    rig_cqe(r, FAKERNIC_CQE_FLUSH, FAKERNIC_WC_SUCCESS);
    assert_same(&r->n, &r->s, 0, 8192, length);
    qtest_memread(r->m.qts, r->s.data, want, length);
    qtest_memread(r->m.qts, dm_address(&r->n) + offset, got, length);
    g_assert_cmpmem(got, length, want, length);
    /* The bytes around the region have not changed. */
    g_assert_cmphex(qtest_readq(r->m.qts, dm_address(&r->n) + offset - 8), ==,
                    0);
    g_assert_cmphex(qtest_readq(r->m.qts, dm_address(&r->n) + offset + length),
                    ==, 0);
    qtest_writeq(r->m.qts, dm_address(&r->n) + offset + 8, 41);
    atomic = wqe_atomic(&r->s, FAKERNIC_SQ_ATOMIC_FETCH_ADD, 0, 0, 1);
    atomic.atomic.remote_address = LE64(8);
    atomic.atomic.rkey = LE32(key);
    POST(r, atomic);
    rig_cqe(r, FAKERNIC_CQE_FETCH_ADD, FAKERNIC_WC_SUCCESS);
    g_assert_cmpuint(qtest_readq(r->m.qts, r->s.data), ==, 41);
    g_assert_cmpuint(qtest_readq(r->m.qts, dm_address(&r->n) + offset + 8), ==,
                     42);
    /* One byte beyond the region. */
    wqe = wqe_rdma(&r->s, FAKERNIC_SQ_RDMA_WRITE, 0, 0, 1);
    wqe.rdma.rdma.remote_address = LE64(length);
    wqe.rdma.rdma.rkey = LE32(key);
    POST(r, wqe);
    rig_cqe(r, FAKERNIC_CQE_RDMA_WRITE, FAKERNIC_WC_REM_ACCESS_ERR);
    /* Address 0 of this region is not 8-byte aligned: atomics fail. */
    req = dm_req(&r->s, 4, 64);
    key = cmd_create(&r->n, FAKERNIC_CMD_CREATE_MR, &req, sizeof(req));
    rc_pair(&r->n, &r->s, &r->a, &r->b);
    atomic.atomic.remote_address = 0;
    atomic.atomic.rkey = LE32(key);
    POST(r, atomic);
    rig_cqe(r, FAKERNIC_CQE_FETCH_ADD, FAKERNIC_WC_REM_ACCESS_ERR);
}

/* The region of all DMA addresses does not reach device memory. */
static void test_dm_not_by_dma(Rig *r)
{
    struct fakernic_create_mr_req req;
    Wqe wqe;
    uint32_t key;

    req = (struct fakernic_create_mr_req) {
        .pdn = LE32(r->s.pd), .type = FAKERNIC_MR_DMA,
        .access = LE32(FAKERNIC_ACCESS_LOCAL_WRITE |
                       FAKERNIC_ACCESS_REMOTE_WRITE),
    };
    key = cmd_create(&r->n, FAKERNIC_CMD_CREATE_MR, &req, sizeof(req));
    wqe = wqe_rdma(&r->s, FAKERNIC_SQ_RDMA_WRITE, 0, 0, 16);
    fill(&r->n, &r->s, 0, 16);
    wqe.rdma.rdma.remote_address = LE64(1ull << 63);
    wqe.rdma.rdma.rkey = LE32(key);
    POST(r, wqe);
    rig_cqe(r, FAKERNIC_CQE_RDMA_WRITE, FAKERNIC_WC_REM_ACCESS_ERR);
    g_assert_cmphex(qtest_readq(r->m.qts, dm_address(&r->n)), ==, 0);
}

/* The data and a region of device memory move. A WRITE to it works then. */
static void test_dm_move(Rig *r)
{
    struct fakernic_create_mr_req req = dm_req(&r->s, 4096, 8192);
    const uint32_t key = cmd_create(&r->n, FAKERNIC_CMD_CREATE_MR, &req,
                                    sizeof(req));
    uint8_t want[64], got[64];
    Wqe wqe;

    qtest_writeq(r->m.qts, dm_address(&r->n) + 8192, 0x1122334455667788ull);
    save_move(&r->m, DEVICE ",id=nic0");
    g_assert_cmphex(qtest_readq(r->m.qts, dm_address(&r->n) + 8192), ==,
                    0x1122334455667788ull);
    fill(&r->n, &r->s, 0, sizeof(want));
    wqe = wqe_rdma(&r->s, FAKERNIC_SQ_RDMA_WRITE, 0, 0, sizeof(want));
    wqe.rdma.rdma.remote_address = 0;
    wqe.rdma.rdma.rkey = LE32(key);
    POST(r, wqe);
    rig_cqe(r, FAKERNIC_CQE_RDMA_WRITE, FAKERNIC_WC_SUCCESS);
    qtest_memread(r->m.qts, r->s.data, want, sizeof(want));
    qtest_memread(r->m.qts, dm_address(&r->n) + 4096, got, sizeof(got));
    g_assert_cmpmem(got, sizeof(got), want, sizeof(want));
}

const FakernicTest fakernic_dm_tests[] = {
    { "dm/bar", test_dm_bar },
    { "dm/mr", READY(test_dm_mr) },
    { "dm/traffic", PAIR(test_dm_traffic) },
    { "dm/not-by-dma", PAIR(test_dm_not_by_dma) },
    { "dm/move", PAIR(test_dm_move) },
    { NULL }
};
