/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The data path in loopback: work requests of every kind, good and malformed,
 * from the ring to the completion.
 */
#include "qemu/osdep.h"
#include <poll.h>
#include "fakernic-setup.h"

/* ---- the data path in loopback --------------------------------------- */

static void test_rc_send(Rig *r)
{
    struct fakernic_cqe cqe;

    /* Three packets at a path MTU of 1024; PSNs wrap. */
    fill(&r->n, &r->s, 0, 3000);
    rq_post(&r->n, &r->b.rq, 0xdead0001, r->s.data + 8192, 4096, r->s.key);
    Wqe wqe = wqe_send(&r->s, 0, 3000);
    wqe.hdr.opcode = FAKERNIC_SQ_SEND_IMM;
    wqe.hdr.imm_or_key = LE32(0x11223344);
    POST(r, wqe);
    cqe = rig_cqe(r, FAKERNIC_CQE_RECV, FAKERNIC_WC_SUCCESS);
    g_assert_cmpuint(le32_to_cpu(cqe.qpn), ==, r->b.qpn);
    g_assert_cmphex(le32_to_cpu(cqe.wqe_index), ==, 0xdead0001);
    g_assert_cmpuint(le32_to_cpu(cqe.byte_count), ==, 3000);
    g_assert_cmphex(le32_to_cpu(cqe.imm_or_key), ==, 0x11223344);
    g_assert_true(cqe.flags & FAKERNIC_CQE_IMM);
    cqe = rig_cqe(r, FAKERNIC_CQE_SEND, FAKERNIC_WC_SUCCESS);
    g_assert_cmpuint(le32_to_cpu(cqe.qpn), ==, r->a.qpn);
    g_assert_cmpuint(le32_to_cpu(cqe.wqe_index), ==, 0);
    assert_same(&r->n, &r->s, 0, 8192, 3000);
    g_assert_cmpuint(nic_stat(&r->n, FAKERNIC_STAT_RX_LOOPBACK), >=, 4);
}

static void test_rc_rdma(Rig *r)
{
    struct fakernic_cqe cqe;
    Wqe wqe;

    fill(&r->n, &r->s, 0, 10000);
    wqe = wqe_rdma(&r->s, FAKERNIC_SQ_RDMA_WRITE, 0, 16384, 10000);
    sq_put(&r->n, &r->a, &wqe, sizeof(wqe));
    wqe = wqe_rdma(&r->s, FAKERNIC_SQ_RDMA_READ, 32768, 16384, 10000);
    wqe.hdr.flags |= FAKERNIC_SQ_FENCE;
    POST(r, wqe);
    cqe = rig_cqe(r, FAKERNIC_CQE_RDMA_WRITE, FAKERNIC_WC_SUCCESS);
    cqe = rig_cqe(r, FAKERNIC_CQE_RDMA_READ, FAKERNIC_WC_SUCCESS);
    g_assert_cmpuint(le32_to_cpu(cqe.wqe_index), ==, 1);
    g_assert_cmpuint(le32_to_cpu(cqe.byte_count), ==, 10000);
    assert_same(&r->n, &r->s, 0, 16384, 10000);
    assert_same(&r->n, &r->s, 0, 32768, 10000);
}

/* A device for measurements: a WRITE completes, but nothing is written. */
static void test_rc_null(void)
{
    Machine m;
    Nic n;
    Setup s;
    Qp a, b;
    struct fakernic_cqe cqe;
    Wqe wqe;

    machine_start(&m, DEVICE ",x-null=on");
    nic_find(&n, &m, SLOT);
    nic_bringup(&n);
    setup_pair(&n, &s, &a, &b);
    qtest_memset(m.qts, s.data + 16384, 0xee, 512);
    fill(&n, &s, 0, 512);
    wqe = wqe_rdma(&s, FAKERNIC_SQ_RDMA_WRITE, 0, 16384, 512);
    sq_put(&n, &a, &wqe, sizeof(wqe));
    sq_ring(&n, &a);
    cq_expect(&n, &s.cq, &cqe, FAKERNIC_CQE_NOP, FAKERNIC_WC_SUCCESS);
    g_assert_cmpuint(le32_to_cpu(cqe.wqe_index), ==, 0);
    g_assert_cmpuint(nic_stat(&n, FAKERNIC_STAT_TX_ROCE), ==, 0);
    g_assert_cmphex(qtest_readq(m.qts, s.data + 16384), ==, ~0ull / 255 * 0xee);
    wqe = wqe_rdma(&s, FAKERNIC_SQ_RDMA_READ, 32768, 0, 512);
    sq_put(&n, &a, &wqe, sizeof(wqe));
    sq_ring(&n, &a);
    cq_expect(&n, &s.cq, &cqe, FAKERNIC_CQE_RDMA_READ, FAKERNIC_WC_SUCCESS);
    assert_same(&n, &s, 0, 32768, 512);
    machine_stop(&m);
}

static void test_rc_atomic(Rig *r)
{
    struct fakernic_cqe cqe;
    AtomicWqe wqe;

    qtest_writeq(r->m.qts, r->s.data + 64, 40);
    wqe = wqe_atomic(&r->s, FAKERNIC_SQ_ATOMIC_FETCH_ADD, 0, 64, 2);
    sq_put(&r->n, &r->a, &wqe, sizeof(wqe));
    wqe.hdr.opcode = FAKERNIC_SQ_ATOMIC_CMP_SWAP;
    wqe.atomic.compare = LE64(42);
    wqe.atomic.swap_or_add = LE64(0x123456789abcdef0ull);
    wqe.sge[0].address = LE64(r->s.data + 8);
    POST(r, wqe);
    cqe = rig_cqe(r, FAKERNIC_CQE_FETCH_ADD, FAKERNIC_WC_SUCCESS);
    cqe = rig_cqe(r, FAKERNIC_CQE_CMP_SWAP, FAKERNIC_WC_SUCCESS);
    g_assert_cmpuint(le32_to_cpu(cqe.wqe_index), ==, 2);
    g_assert_cmpuint(qtest_readq(r->m.qts, r->s.data), ==, 40);
    g_assert_cmpuint(qtest_readq(r->m.qts, r->s.data + 8), ==, 42);
    g_assert_cmphex(qtest_readq(r->m.qts, r->s.data + 64), ==,
                    0x123456789abcdef0ull);
}

/* A masked FetchAdd on fields of 16 bits, without carries between them, and a
 * CmpSwap of some bits. */
static void test_rc_atomic_masked(Rig *r)
{
    struct fakernic_cqe cqe;
    AtomicWqe wqe;

    qtest_writeq(r->m.qts, r->s.data + 64, 0x0001ffff0002ffffull);
    wqe = wqe_atomic(&r->s, FAKERNIC_SQ_ATOMIC_MASKED_FETCH_ADD, 0, 64,
                     0x0001000100010001ull);
    wqe.atomic.swap_mask_or_boundary = LE64(0x8000800080008000ull);
    POST(r, wqe);
    cqe = rig_cqe(r, FAKERNIC_CQE_MASKED_FETCH_ADD, FAKERNIC_WC_SUCCESS);
    g_assert_cmphex(qtest_readq(r->m.qts, r->s.data), ==,
                    0x0001ffff0002ffffull);
    g_assert_cmphex(qtest_readq(r->m.qts, r->s.data + 64), ==,
                    0x0002000000030000ull);
    wqe.hdr.opcode = FAKERNIC_SQ_ATOMIC_MASKED_CMP_SWAP;
    wqe.atomic.compare = LE64(0x2000000000000ull);
    wqe.atomic.compare_mask = LE64(0xffff000000000000ull);
    wqe.atomic.swap_or_add = LE64(~0ull);
    wqe.atomic.swap_mask_or_boundary = LE64(0xff);
    POST(r, wqe);
    cqe = rig_cqe(r, FAKERNIC_CQE_MASKED_CMP_SWAP, FAKERNIC_WC_SUCCESS);
    g_assert_cmphex(qtest_readq(r->m.qts, r->s.data + 64), ==,
                    0x00020000000300ffull);
    /* Every atomic has exactly one data segment. */
    wqe.hdr.sge_count = 2;
    POST(r, wqe);
    cqe = rig_cqe(r, FAKERNIC_CQE_MASKED_CMP_SWAP, FAKERNIC_WC_LOC_QP_OP_ERR);
    g_assert_cmpuint(le16_to_cpu(cqe.vendor_err), ==,
                     FAKERNIC_VENDOR_SQ_FORMAT);
}

static Wqe wqe_flush(const Setup *s, uint32_t flush)
{
    Wqe wqe = wqe_rdma(s, FAKERNIC_SQ_FLUSH, 0, 4096, 512);

    wqe.rdma.rdma.flush = LE32(flush);
    wqe.hdr.sge_count = !(flush & FAKERNIC_FLUSH_LEVEL_MR);
    return wqe;
}

/* Guest RAM without a file has no medium: only a global FLUSH succeeds. */
static void test_rc_flush(Rig *r)
{
    Wqe wqe;

    wqe = wqe_rdma(&r->s, FAKERNIC_SQ_RDMA_WRITE, 0, 4096, 512);
    fill(&r->n, &r->s, 0, 512);
    sq_put(&r->n, &r->a, &wqe, sizeof(wqe));
    wqe = wqe_flush(&r->s, FAKERNIC_FLUSH_GLOBAL);
    sq_put(&r->n, &r->a, &wqe, sizeof(wqe));
    wqe = wqe_flush(&r->s, FAKERNIC_FLUSH_GLOBAL | FAKERNIC_FLUSH_LEVEL_MR);
    sq_put(&r->n, &r->a, &wqe, sizeof(wqe));
    wqe = wqe_flush(&r->s, FAKERNIC_FLUSH_PERSISTENT);
    POST(r, wqe);
    rig_cqe(r, FAKERNIC_CQE_RDMA_WRITE, FAKERNIC_WC_SUCCESS);
    rig_cqe(r, FAKERNIC_CQE_FLUSH, FAKERNIC_WC_SUCCESS);
    rig_cqe(r, FAKERNIC_CQE_FLUSH, FAKERNIC_WC_SUCCESS);
    assert_same(&r->n, &r->s, 0, 4096, 512);
    rig_cqe(r, FAKERNIC_CQE_FLUSH, FAKERNIC_WC_REM_ACCESS_ERR);
    g_assert_cmpuint(nic_stat(&r->n, FAKERNIC_STAT_DMA_ERRORS), >=, 1);
}

/* With a shared file as RAM the bytes are in the file afterwards. */
static void test_rc_flush_persistent(void)
{
    g_autofree char *path = g_strdup("/tmp/fakernic-qtest-XXXXXX");
    int fd = g_mkstemp(path);
    uint8_t want[512], got[512];
    Machine m;
    Nic n;
    Setup s;
    Qp a, b;
    struct fakernic_cqe cqe;
    Wqe wqe;

    g_assert_cmpint(fd, >=, 0);
    machine_start(&m, "-m 128M -object memory-backend-file,id=ram,share=on,"
                  "size=128M,mem-path=%s -machine memory-backend=ram " DEVICE,
                  path);
    unlink(path);
    nic_find(&n, &m, SLOT);
    nic_bringup(&n);
    setup_pair(&n, &s, &a, &b);
    fill(&n, &s, 0, 512);
    wqe = wqe_rdma(&s, FAKERNIC_SQ_RDMA_WRITE, 0, 4096, 512);
    sq_put(&n, &a, &wqe, sizeof(wqe));
    wqe = wqe_flush(&s, FAKERNIC_FLUSH_PERSISTENT);
    sq_put(&n, &a, &wqe, sizeof(wqe));
    sq_ring(&n, &a);
    cq_expect(&n, &s.cq, &cqe, FAKERNIC_CQE_RDMA_WRITE, FAKERNIC_WC_SUCCESS);
    cq_await(&n, &s.cq, &cqe, FAKERNIC_CQE_FLUSH, FAKERNIC_WC_SUCCESS);
    qtest_memread(m.qts, s.data, want, sizeof(want));
    g_assert_cmpint(pread(fd, got, sizeof(got), s.data + 4096), ==,
                    sizeof(got));
    g_assert_cmpmem(got, sizeof(got), want, sizeof(want));
    close(fd);
    machine_stop(&m);
}

/* ATOMIC_WRITE stores 8 inline bytes. */
static void test_rc_atomic_write(Rig *r)
{
    Wqe wqe;

    wqe = wqe_rdma(&r->s, FAKERNIC_SQ_ATOMIC_WRITE, 0, 4096, 0);
    wqe.hdr.sge_count = 0;
    wqe.hdr.inline_length = LE16(8);
    wqe.hdr.flags |= FAKERNIC_SQ_INLINE;
    memcpy(wqe.bytes + FAKERNIC_SQ_DATA_OFFSET_RDMA, "atomic-w", 8);
    POST(r, wqe);
    rig_cqe(r, FAKERNIC_CQE_ATOMIC_WRITE, FAKERNIC_WC_SUCCESS);
    g_assert_cmphex(qtest_readq(r->m.qts, r->s.data + 4096), ==,
                    ldq_le_p("atomic-w"));
}

/* Posts a WQE of a header and a 48-byte segment. */
static void post_segment(Nic *n, Qp *qp, uint8_t opcode, const void *segment)
{
    Wqe wqe = { .hdr = { .opcode = opcode, .flags = FAKERNIC_SQ_SIGNALED,
                         .bb_count = 1 } };

    memcpy(wqe.bytes + sizeof(wqe.hdr), segment, 48);
    sq_put(n, qp, &wqe, sizeof(wqe));
    sq_ring(n, qp);
}

static uint32_t fast_reg_key(Nic *n, uint32_t pd, uint32_t max_pages)
{
    struct fakernic_create_mr_req req = {
        .pdn = LE32(pd), .type = FAKERNIC_MR_FAST_REG, .tag = 1,
        .max_pages = LE32(max_pages),
    };

    return cmd_create(n, FAKERNIC_CMD_CREATE_MR, &req, sizeof(req));
}

/* REG_MR registers pages of a table. The key works until it is invalidated. */
static void test_fast_reg(Rig *r)
{
    struct fakernic_sq_reg_mr reg;
    uint32_t key;
    Wqe wqe;

    key = (fast_reg_key(&r->n, r->s.pd, 4) & ~0xffu) | 0x42;
    /* Pages 3, 2, 1, 0 of the buffer, from address 0x10000 on. */
    reg = (struct fakernic_sq_reg_mr) {
        .iova = LE64(0x10000), .length = LE64(4 * 4096), .key = LE32(key),
        .access = LE32(FAKERNIC_ACCESS_LOCAL_WRITE |
                       FAKERNIC_ACCESS_REMOTE_WRITE),
        .pages = { .address = LE64(build_tables(&r->m, 1, r->s.data + 3 * 4096,
                                                -4096ull, 4)),
                   .page_count = LE32(4), .page_shift = 12, .levels = 1 },
    };
    post_segment(&r->n, &r->a, FAKERNIC_SQ_REG_MR, &reg);
    rig_cqe(r, FAKERNIC_CQE_REG_MR, FAKERNIC_WC_SUCCESS);
    fill(&r->n, &r->s, 32768, 8192);
    wqe = wqe_rdma(&r->s, FAKERNIC_SQ_RDMA_WRITE, 32768, 0, 8192);
    wqe.rdma.rdma.remote_address = LE64(0x10000);
    wqe.rdma.rdma.rkey = LE32(key);
    POST(r, wqe);
    rig_cqe(r, FAKERNIC_CQE_RDMA_WRITE, FAKERNIC_WC_SUCCESS);
    assert_same(&r->n, &r->s, 32768, 3 * 4096, 4096);
    assert_same(&r->n, &r->s, 32768 + 4096, 2 * 4096, 4096);
    wqe = (Wqe) { .hdr = { .opcode = FAKERNIC_SQ_LOCAL_INV, .bb_count = 1,
                           .flags = FAKERNIC_SQ_SIGNALED,
                           .imm_or_key = LE32(key) } };
    POST(r, wqe);
    rig_cqe(r, FAKERNIC_CQE_LOCAL_INV, FAKERNIC_WC_SUCCESS);
    wqe = wqe_rdma(&r->s, FAKERNIC_SQ_RDMA_WRITE, 32768, 0, 8);
    wqe.rdma.rdma.rkey = LE32(key);
    POST(r, wqe);
    rig_cqe(r, FAKERNIC_CQE_RDMA_WRITE, FAKERNIC_WC_REM_ACCESS_ERR);
}

/* Malformed page lists and reserved fields in REG_MR and BIND_MW. */
static void test_segment_malformed(Rig *r)
{
    struct {
        struct fakernic_sq_reg_mr reg;
        uint16_t vendor_err;
    } cases[6];
    struct fakernic_sq_bind_mw bind = { .rsvd = { 0, LE64(1) } };
    struct fakernic_cqe cqe;
    Qp a, b;

    for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
        cases[i].reg = (struct fakernic_sq_reg_mr) {
            .length = LE64(4096),
            .key = LE32(fast_reg_key(&r->n, r->s.pd, 512)),
            .pages = contiguous(r->s.data, 4096),
        };
        cases[i].vendor_err = FAKERNIC_VENDOR_SQ_FORMAT;
    }
    cases[0].reg.length = 0;
    cases[1].reg.length = LE64(513 * 4096);
    cases[2].reg.pages.page_count = 0;
    cases[3].reg.pages.levels = 7;
    cases[4].reg.pages.levels = 1;
    cases[4].reg.pages.address = LE64(1ull << 55);
    cases[4].vendor_err = FAKERNIC_VENDOR_SQ_DMA;
    cases[5].reg.rsvd = LE64(1);
    cases[5].vendor_err = FAKERNIC_VENDOR_SQ_RSVD;
    for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
        rc_pair(&r->n, &r->s, &a, &b);
        post_segment(&r->n, &a, FAKERNIC_SQ_REG_MR, &cases[i].reg);
        cqe = rig_cqe(r, FAKERNIC_CQE_REG_MR, FAKERNIC_WC_LOC_QP_OP_ERR);
        g_assert_cmpuint(le16_to_cpu(cqe.vendor_err), ==, cases[i].vendor_err);
    }
    rc_pair(&r->n, &r->s, &a, &b);
    post_segment(&r->n, &a, FAKERNIC_SQ_BIND_MW, &bind);
    cqe = rig_cqe(r, FAKERNIC_CQE_BIND_MW, FAKERNIC_WC_LOC_QP_OP_ERR);
    g_assert_cmpuint(le16_to_cpu(cqe.vendor_err), ==, FAKERNIC_VENDOR_SQ_RSVD);
}

static void ud_up(Nic *n, Setup *s, Qp *qp, uint32_t qkey)
{
    struct fakernic_modify_qp_req req = {
        .mask = LE32(FAKERNIC_QP_ATTR_STATE | FAKERNIC_QP_ATTR_PKEY_INDEX |
                     FAKERNIC_QP_ATTR_PORT | FAKERNIC_QP_ATTR_QKEY),
        .attr = { .state = FAKERNIC_QPS_INIT, .port = 1, .qkey = LE32(qkey) },
    };

    qp_create(n, qp, FAKERNIC_QP_UD, s->pd, &s->cq, 0);
    req.qpn = LE32(qp->qpn);
    assert_status(CMD(n, MODIFY_QP, req), OK);
    assert_status(qp_to(n, qp->qpn, FAKERNIC_QPS_RTR), OK);
    req.mask = LE32(FAKERNIC_QP_ATTR_STATE | FAKERNIC_QP_ATTR_SQ_PSN);
    req.attr.state = FAKERNIC_QPS_RTS;
    assert_status(CMD(n, MODIFY_QP, req), OK);
}

/* A datagram arrives. One with a reserved field set fails only the SQ. */
static void test_ud(Rig *r)
{
    Qp a, b;
    struct fakernic_cqe cqe;
    struct {
        struct fakernic_sq_hdr hdr;
        struct fakernic_sq_ud ud;
        struct fakernic_sge sge;
        uint8_t rest[48];
    } wqe = {
        .hdr = { .opcode = FAKERNIC_SQ_SEND, .flags = FAKERNIC_SQ_SIGNALED,
                 .sge_count = 1, .bb_count = 2 },
    };

    ud_up(&r->n, &r->s, &a, 0x1111);
    ud_up(&r->n, &r->s, &b, 0x2222);
    fill(&r->n, &r->s, 0, 500);
    rq_post(&r->n, &b.rq, 9, r->s.data + 4096, 4096, r->s.key);
    memcpy(wqe.ud.av.dgid, own_gid, 16);
    memcpy(wqe.ud.av.dmac, nic_mac, 6);
    wqe.ud.dest_qpn = LE32(b.qpn);
    wqe.ud.qkey = LE32(0x2222);
    wqe.sge =
        (struct fakernic_sge) { LE64(r->s.data), LE32(500), LE32(r->s.key) };
    sq_put(&r->n, &a, &wqe, sizeof(wqe));
    sq_ring(&r->n, &a);
    for (unsigned i = 0; i < 2; i++) {
        while (!cq_poll(&r->n, &r->s.cq, &cqe)) {
            g_usleep(1000);
        }
        g_assert_cmpuint(cqe.status, ==, FAKERNIC_WC_SUCCESS);
        if (cqe.opcode == FAKERNIC_CQE_RECV) {
            g_assert_cmpuint(le32_to_cpu(cqe.byte_count), ==, 540);
            g_assert_cmpuint(le32_to_cpu(cqe.src_qpn), ==, a.qpn);
            g_assert_cmpuint(cqe.network_type, ==, FAKERNIC_GID_IPV4);
            g_assert_true(cqe.flags & FAKERNIC_CQE_GRH);
        }
    }
    assert_same(&r->n, &r->s, 0, 4096 + 40, 500);
    wqe.ud.av.rsvd = LE16(1);
    sq_put(&r->n, &a, &wqe, sizeof(wqe));
    sq_ring(&r->n, &a);
    cqe = rig_cqe(r, FAKERNIC_CQE_SEND, FAKERNIC_WC_LOC_QP_OP_ERR);
    g_assert_cmpuint(le16_to_cpu(cqe.vendor_err), ==, FAKERNIC_VENDOR_SQ_RSVD);
    g_assert_cmpuint(qp_state(&r->n, a.qpn), ==, FAKERNIC_QPS_SQE);
}

/* Receives with too many SGEs, a reserved field, or an impossible index. */
static void test_recv_malformed(Rig *r)
{
    struct fakernic_cqe cqe;
    Wqe wqe;

    for (unsigned i = 0; i < 3; i++) {
        Qp a, b;

        rc_pair(&r->n, &r->s, &a, &b);
        rq_post(&r->n, &b.rq, 77, r->s.data + 4096, 4096, r->s.key);
        switch (i) {
        case 0:
            qtest_writeb(r->m.qts, b.rq.address + 4, 4);   /* slots hold 3 */
            break;
        case 1:
            qtest_writeb(r->m.qts, b.rq.address + 15, 1);
            break;
        default:
            queue_record(&r->n, &b.rq, b.rq.depth + 1);
            break;
        }
        wqe = wqe_send(&r->s, 0, 8);
        sq_put(&r->n, &a, &wqe, sizeof(wqe));
        sq_ring(&r->n, &a);
        if (i < 2) {
            cqe = rig_cqe(r, FAKERNIC_CQE_RECV, FAKERNIC_WC_LOC_QP_OP_ERR);
            g_assert_cmphex(le32_to_cpu(cqe.wqe_index), ==, 77);
            g_assert_cmpuint(le16_to_cpu(cqe.vendor_err), ==,
                             FAKERNIC_VENDOR_RQ_FORMAT);
        }
        cqe = rig_cqe(r, FAKERNIC_CQE_SEND, FAKERNIC_WC_REM_OP_ERR);
        g_assert_cmpuint(qp_state(&r->n, b.qpn), ==, FAKERNIC_QPS_ERR);
    }
}

/* A WQE that wraps around the end of the ring, with inline data. */
static void test_rc_inline_wrap(Rig *r)
{
    struct fakernic_cqe cqe;
    QEMU_ALIGNED(8) uint8_t wqe[FAKERNIC_SQ_WQE_SIZE_MAX] = { 0 };
    uint8_t seen[FAKERNIC_INLINE_MAX];
    struct fakernic_sq_hdr *hdr = (void *)wqe;
    struct fakernic_sq_rdma *rdma = (void *)(wqe + sizeof(*hdr));

    *hdr = (struct fakernic_sq_hdr) {
        .opcode = FAKERNIC_SQ_RDMA_WRITE,
        .flags = FAKERNIC_SQ_SIGNALED | FAKERNIC_SQ_INLINE,
        .bb_count = 9, .inline_length = LE16(FAKERNIC_INLINE_MAX),
    };
    rdma->rkey = LE32(r->s.key);
    for (unsigned round = 0; round < 8; round++) {
        rdma->remote_address = LE64(r->s.data + round * 1024);
        memset(wqe + FAKERNIC_SQ_DATA_OFFSET_RDMA, round + 1,
               FAKERNIC_INLINE_MAX);
        sq_put(&r->n, &r->a, wqe, sizeof(wqe));
        sq_ring(&r->n, &r->a);
        cqe = rig_cqe(r, FAKERNIC_CQE_RDMA_WRITE, FAKERNIC_WC_SUCCESS);
        g_assert_cmpuint(le32_to_cpu(cqe.wqe_index), ==, round * 9);
        qtest_memread(r->m.qts, r->s.data + round * 1024, seen, sizeof(seen));
        g_assert_cmpmem(seen, sizeof(seen), wqe + FAKERNIC_SQ_DATA_OFFSET_RDMA,
                        sizeof(seen));
    }
}

/* The receive is posted after the message arrived: RNR NAK, wait, retry. */
static void test_rc_rnr(Rig *r)
{
    struct fakernic_cqe cqe;
    Wqe wqe;

    wqe = wqe_send(&r->s, 0, 100);
    POST(r, wqe);
    g_assert_cmpuint(nic_stat(&r->n, FAKERNIC_STAT_RX_RNR_NAK), ==, 1);
    g_assert_false(cq_poll(&r->n, &r->s.cq, &cqe));
    rq_post(&r->n, &r->b.rq, 5, r->s.data + 4096, 4096, r->s.key);
    cqe = rig_cqe(r, FAKERNIC_CQE_RECV, FAKERNIC_WC_SUCCESS);
    cqe = rig_cqe(r, FAKERNIC_CQE_SEND, FAKERNIC_WC_SUCCESS);
}

/* Each malformed WQE completes with its vendor error, and the QP fails. */
static void test_wqe_malformed(Rig *r)
{
    static const uint8_t named[UINT8_MAX + 1] = {
        [FAKERNIC_SQ_RDMA_WRITE] = FAKERNIC_CQE_RDMA_WRITE,
        [FAKERNIC_SQ_ATOMIC_WRITE] = FAKERNIC_CQE_ATOMIC_WRITE,
        [FAKERNIC_SQ_FLUSH] = FAKERNIC_CQE_FLUSH,
    };
    struct {
        Wqe wqe;
        uint16_t vendor_err;
    } cases[19];
    unsigned count = 0;

#define CASE(err, change) \
    do { \
        Wqe *w = &cases[count].wqe; \
        *w = wqe_rdma(&r->s, FAKERNIC_SQ_RDMA_WRITE, 0, 4096, 16); \
        change; \
        cases[count++].vendor_err = FAKERNIC_VENDOR_##err; \
    } while (0)
    CASE(SQ_OPCODE, w->hdr.opcode = 0);
    CASE(SQ_OPCODE, w->hdr.opcode = 18);
    CASE(SQ_FORMAT, w->hdr.opcode = FAKERNIC_SQ_FLUSH);
    CASE(SQ_FORMAT, w->hdr.opcode = FAKERNIC_SQ_FLUSH;
         w->rdma.rdma.flush = LE32(FAKERNIC_FLUSH_GLOBAL |
                                   FAKERNIC_FLUSH_LEVEL_MR));
    CASE(SQ_FORMAT, w->hdr.opcode = FAKERNIC_SQ_FLUSH; w->hdr.sge_count = 0;
         w->rdma.rdma.flush = LE32(FAKERNIC_FLUSH_GLOBAL));
    CASE(SQ_RSVD, w->hdr.opcode = FAKERNIC_SQ_FLUSH;
         w->rdma.rdma.flush = LE32(0x20 | FAKERNIC_FLUSH_GLOBAL));
    CASE(SQ_FORMAT, w->hdr.opcode = FAKERNIC_SQ_ATOMIC_WRITE;
         w->hdr.sge_count = 2);
    CASE(SQ_FORMAT, w->hdr.opcode = FAKERNIC_SQ_ATOMIC_WRITE;
         w->hdr.sge_count = 0);
    CASE(SQ_RSVD, w->hdr.imm_or_key = LE32(1));
    CASE(SQ_RSVD, w->hdr.xrc_srqn = LE32(1));
    CASE(SQ_FORMAT, w->hdr.bb_count = 0);
    CASE(SQ_FORMAT, w->hdr.bb_count = 10);
    CASE(SQ_FORMAT, w->hdr.sge_count = 3);
    CASE(SQ_FORMAT, w->hdr.sge_count = 31);
    CASE(SQ_FORMAT, w->hdr.inline_length = LE16(1));
    CASE(SQ_FORMAT, w->hdr.flags |= FAKERNIC_SQ_INLINE);
    CASE(SQ_RSVD, w->hdr.mss = LE16(1));
    CASE(SQ_RSVD, w->hdr.flags |= 0x80);
    CASE(SQ_RSVD, w->rdma.rdma.flush = LE32(1));
#undef CASE
    g_assert_cmpuint(count, ==, ARRAY_SIZE(cases));
    for (unsigned i = 0; i < count; i++) {
        struct fakernic_cqe cqe;
        Qp a, b;
        Wqe next = wqe_send(&r->s, 0, 1);

        rc_pair(&r->n, &r->s, &a, &b);
        sq_put(&r->n, &a, &cases[i].wqe, sizeof(Wqe));
        a.sq.index = 1;
        sq_put(&r->n, &a, &next, sizeof(next));
        sq_ring(&r->n, &a);
        cqe = rig_cqe(r, named[cases[i].wqe.hdr.opcode] ?: FAKERNIC_CQE_SEND,
                      FAKERNIC_WC_LOC_QP_OP_ERR);
        g_assert_cmpuint(le16_to_cpu(cqe.vendor_err), ==, cases[i].vendor_err);
        g_assert_cmpuint(le32_to_cpu(cqe.wqe_index), ==, 0);
        g_assert_cmpuint(le32_to_cpu(cqe.qpn), ==, a.qpn);
        cqe = rig_cqe(r, FAKERNIC_CQE_SEND, FAKERNIC_WC_WR_FLUSH_ERR);
        g_assert_cmpuint(le32_to_cpu(cqe.wqe_index), ==, 1);
        g_assert_cmpuint(qp_state(&r->n, a.qpn), ==, FAKERNIC_QPS_ERR);
        queue_record(&r->n, &r->s.cq, r->s.cq.index);
        assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_QP, a.qpn), OK);
        assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_QP, b.qpn), OK);
    }
}

/* An impossible index fails the QP, with an event. */
static void test_sq_overrun(Rig *r)
{
    ring(&r->n, 0, FAKERNIC_DOORBELL_SQ, doorbell(r->a.qpn, r->a.sq.depth + 1));
    g_assert_cmpuint(eq_expect(&r->n, &r->s.async, FAKERNIC_EVENT_QP_FATAL), ==,
                     r->a.qpn);
    g_assert_cmpuint(qp_state(&r->n, r->a.qpn), ==, FAKERNIC_QPS_ERR);
}

static void test_key_errors(Rig *r)
{
    Qp a, b;
    struct fakernic_cqe cqe;
    Wqe wqe;

    /* The local key's tag is wrong. */
    rc_pair(&r->n, &r->s, &a, &b);
    wqe = wqe_rdma(&r->s, FAKERNIC_SQ_RDMA_WRITE, 0, 4096, 16);
    wqe.rdma.sge[0].lkey ^= LE32(1);
    sq_put(&r->n, &a, &wqe, sizeof(wqe));
    sq_ring(&r->n, &a);
    cqe = rig_cqe(r, FAKERNIC_CQE_RDMA_WRITE, FAKERNIC_WC_LOC_PROT_ERR);
    g_assert_cmpuint(le16_to_cpu(cqe.vendor_err), ==, FAKERNIC_VENDOR_KEY_TAG);
    /* The remote range ends one byte behind the region. */
    rc_pair(&r->n, &r->s, &a, &b);
    wqe = wqe_rdma(&r->s, FAKERNIC_SQ_RDMA_WRITE, 0, DATA_SIZE - 15, 16);
    sq_put(&r->n, &a, &wqe, sizeof(wqe));
    sq_ring(&r->n, &a);
    cqe = rig_cqe(r, FAKERNIC_CQE_RDMA_WRITE, FAKERNIC_WC_REM_ACCESS_ERR);
    g_assert_cmpuint(le16_to_cpu(cqe.vendor_err), ==,
                     FAKERNIC_VENDOR_NAK_REMOTE_ACCESS);
    g_assert_cmpuint(
        eq_expect(&r->n, &r->s.async, FAKERNIC_EVENT_QP_ACCESS_ERROR), ==,
        b.qpn);
    g_assert_cmpuint(qp_state(&r->n, b.qpn), ==, FAKERNIC_QPS_ERR);
}

static void test_srq_receive(Rig *r)
{
    Qp a, b;
    Queue srq, sq;
    struct fakernic_cqe cqe;
    Wqe wqe;
    struct fakernic_create_srq_req srq_req = {
        .log_depth = 2, .log_stride = 6, .limit = LE32(1),
    };
    struct fakernic_create_qp_req qp_req = {
        .type = FAKERNIC_QP_RC, .sq_log_depth = 2,
        .rq_log_depth = FAKERNIC_QUEUE_NONE,
    };

    srq_req.pages = queue_alloc(&r->n, &srq, 2, 6);
    srq_req.pdn = LE32(r->s.pd);
    srq.id = cmd_create(&r->n, FAKERNIC_CMD_CREATE_SRQ, &srq_req,
                        sizeof(srq_req));
    qp_req.sq_pages = queue_alloc(&r->n, &sq, 2, 6);
    qp_req.pdn = LE32(r->s.pd);
    qp_req.send_cqn = qp_req.recv_cqn = LE32(r->s.cq.id);
    qp_req.srqn = LE32(srq.id);
    b.qpn = cmd_create(&r->n, FAKERNIC_CMD_CREATE_QP, &qp_req, sizeof(qp_req));
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_SRQ, srq.id), BUSY);
    qp_create(&r->n, &a, FAKERNIC_QP_RC, r->s.pd, &r->s.cq, 0);
    rc_connect(&r->n, a.qpn, b.qpn, own_gid, nic_mac);
    rc_connect(&r->n, b.qpn, a.qpn, own_gid, nic_mac);
    fill(&r->n, &r->s, 0, 500);
    rq_post(&r->n, &srq, 0xabc, r->s.data + 4096, 4096, r->s.key);
    wqe = wqe_send(&r->s, 0, 500);
    sq_put(&r->n, &a, &wqe, sizeof(wqe));
    sq_ring(&r->n, &a);
    cqe = rig_cqe(r, FAKERNIC_CQE_RECV, FAKERNIC_WC_SUCCESS);
    g_assert_cmpuint(le32_to_cpu(cqe.srqn), ==, srq.id);
    g_assert_cmphex(le32_to_cpu(cqe.wqe_index), ==, 0xabc);
    assert_same(&r->n, &r->s, 0, 4096, 500);
    /* No receive is left: the limit of 1 is passed. */
    g_assert_cmpuint(eq_expect(&r->n, &r->s.async, FAKERNIC_EVENT_SRQ_LIMIT),
                     ==, srq.id);
}

const FakernicTest fakernic_traffic_tests[] = {
    { "rc/send", PAIR(test_rc_send) },
    { "rc/rdma", PAIR(test_rc_rdma) },
    { "rc/null", test_rc_null },
    { "rc/atomic", PAIR(test_rc_atomic) },
    { "rc/atomic-masked", PAIR(test_rc_atomic_masked) },
    { "rc/atomic-write", PAIR(test_rc_atomic_write) },
    { "rc/flush", PAIR(test_rc_flush) },
    { "rc/flush-persistent", test_rc_flush_persistent },
    { "rc/fast-reg", PAIR(test_fast_reg) },
    { "rc/inline-wrap", PAIR(test_rc_inline_wrap) },
    { "rc/rnr", PAIR(test_rc_rnr) },
    { "rc/srq", READY(test_srq_receive) },
    { "rc/key-errors", READY(test_key_errors) },
    { "sq/malformed", READY(test_wqe_malformed) },
    { "sq/segment-malformed", READY(test_segment_malformed) },
    { "rq/malformed", READY(test_recv_malformed) },
    { "ud/send", READY(test_ud) },
    { "sq/overrun", PAIR(test_sq_overrun) },
    { NULL }
};
