/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Statements of the data sheet (firmware-spec/fakernic.rst) on which its reader
 * relies: what a reset keeps, how a refused work request completes, which
 * frames leave the device and which counters count them.
 */
#include "qemu/osdep.h"
#include "fakernic-setup.h"

/* ---- configuration space --------------------------------------------- */

/* Vectors in BAR4 from offset 0 on, pending bits at half its size. */
static void test_bars(void)
{
    Machine m;
    Nic n;
    uint64_t size;
    uint8_t msix;

    machine_start(&m, "%s,uars=16,dm-size=64K", DEVICE);
    nic_find(&n, &m, SLOT);
    g_assert_cmpuint(reg_read(&n, FAKERNIC_REG_CLOCK_PAGE_OFFSET), ==, 16);
    g_assert_cmpuint(reg_read(&n, FAKERNIC_REG_DM_OFFSET), ==, 17);
    msix = qpci_find_capability(n.pci, PCI_CAP_ID_MSIX, 0);
    g_assert_cmpuint((qpci_config_readw(n.pci, msix + PCI_MSIX_FLAGS) &
                      PCI_MSIX_FLAGS_QSIZE) + 1, ==, FAKERNIC_VECTOR_COUNT);
    g_assert_cmphex(qpci_config_readl(n.pci, msix + PCI_MSIX_TABLE), ==,
                    FAKERNIC_BAR_MSIX);
    g_assert_cmphex(qpci_config_readl(n.pci, msix + PCI_MSIX_PBA), ==,
                    0x800 | FAKERNIC_BAR_MSIX);
    qpci_iomap(n.pci, FAKERNIC_BAR_MSIX, &size);
    g_assert_cmpuint(size, ==, 4096);
    qpci_iomap(n.pci, FAKERNIC_BAR_REGS, &size);
    g_assert_cmpuint(size, ==, FAKERNIC_BAR_REGS_SIZE);
    /* 16 doorbell pages, the clock page, 16 pages of memory: 64 pages. */
    qpci_iomap(n.pci, FAKERNIC_BAR_UAR, &size);
    g_assert_cmpuint(size, ==, 64 * FAKERNIC_PAGE_SIZE);
    machine_stop(&m);
}

static uint16_t msix_control(Nic *n)
{
    uint8_t msix = qpci_find_capability(n->pci, PCI_CAP_ID_MSIX, 0);

    return qpci_config_readw(n->pci, msix + PCI_MSIX_FLAGS);
}

/* After a function level reset a driver has to begin at step 1 of bring-up. */
static void test_flr_leaves_nothing(Rig *r)
{
    uint8_t exp;

    g_assert_cmphex(msix_control(&r->n) & PCI_MSIX_FLAGS_ENABLE, !=, 0);
    exp = qpci_find_capability(r->n.pci, PCI_CAP_ID_EXP, 0);
    qpci_config_writew(r->n.pci, exp + PCI_EXP_DEVCTL,
                       qpci_config_readw(r->n.pci, exp + PCI_EXP_DEVCTL) |
                           PCI_EXP_DEVCTL_BCR_FLR);
    g_assert_cmphex(qpci_config_readw(r->n.pci, PCI_COMMAND) &
                    (PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER), ==, 0);
    g_assert_cmphex(qpci_config_readl(r->n.pci, PCI_BASE_ADDRESS_0) & ~0xfu, ==,
                    0);
    g_assert_cmphex(qpci_config_readl(r->n.pci, PCI_BASE_ADDRESS_2) & ~0xfu, ==,
                    0);
    g_assert_cmphex(qpci_config_readl(r->n.pci, PCI_BASE_ADDRESS_4) & ~0xfu, ==,
                    0);
    g_assert_cmphex(msix_control(&r->n) & PCI_MSIX_FLAGS_ENABLE, ==, 0);
}

/* The vectors and all of configuration space survive the driver's own reset. */
static void test_control_reset_leaves_pci(Rig *r)
{
    nic_reset(&r->n);
    g_assert_cmphex(qpci_config_readw(r->n.pci, PCI_COMMAND) &
                    PCI_COMMAND_MASTER, !=, 0);
    g_assert_cmphex(msix_control(&r->n) & PCI_MSIX_FLAGS_ENABLE, !=, 0);
    g_assert_cmphex(qtest_readl(r->m.qts, msix_entry(&r->n, 3) +
                                PCI_MSIX_ENTRY_DATA), ==, MSI_DATA(3));
}

/* In D3hot the BARs do not respond; in D0 the same objects still exist. */
static void test_d3hot(Rig *r)
{
    Qp qp;
    struct fakernic_cqe cqe;
    uint8_t pm;

    qp_create(&r->n, &qp, FAKERNIC_QP_RC, r->s.pd, &r->s.cq, 0);
    rc_connect(&r->n, qp.qpn, qp.qpn, own_gid, nic_mac);
    pm = qpci_find_capability(r->n.pci, PCI_CAP_ID_PM, 0);
    qpci_config_writew(r->n.pci, pm + PCI_PM_CTRL, PCI_PM_CTRL_STATE_MASK);
    g_assert_cmphex(reg_read(&r->n, FAKERNIC_REG_MAGIC), ==, 0);
    complete_nops(&r->n, &qp, 1);
    qpci_config_writew(r->n.pci, pm + PCI_PM_CTRL, 0);
    g_assert_cmphex(reg_read(&r->n, FAKERNIC_REG_STATUS), ==,
                    FAKERNIC_STATUS_READY | FAKERNIC_STATUS_ENABLED);
    g_assert_false(cq_poll(&r->n, &r->s.cq, &cqe));
    sq_ring(&r->n, &qp);
    cqe = rig_cqe(r, FAKERNIC_CQE_NOP, FAKERNIC_WC_SUCCESS);
}

/*
 * A driver that has enabled no feature can use the clock page and device
 * memory, but cannot create a key for device memory.
 */
static void test_bar2_without_features(Rig *r)
{
    struct fakernic_create_mr_req dm = {
        .length = LE64(4096), .type = FAKERNIC_MR_DM,
        .pages = { .page_count = LE32(1), .page_shift = FAKERNIC_PAGE_SHIFT },
    };
    uint64_t clock, memory;

    nic_reset(&r->n);
    nic_set_features(&r->n, 0);
    nic_set_cmdq(&r->n, mem_alloc(&r->m, 4096), mem_alloc(&r->m, 4096), 4);
    clock = r->n.uar.addr + FAKERNIC_PAGE_SIZE *
        (uint64_t)reg_read(&r->n, FAKERNIC_REG_CLOCK_PAGE_OFFSET);
    memory = r->n.uar.addr + FAKERNIC_PAGE_SIZE *
                              (uint64_t)reg_read(&r->n, FAKERNIC_REG_DM_OFFSET);
    qtest_clock_step(r->m.qts, 12345);
    g_assert_cmpuint(qtest_readq(r->m.qts, clock), ==, 0);
    reg_write(&r->n, FAKERNIC_REG_CONTROL, FAKERNIC_CONTROL_ENABLE);
    g_assert_cmpuint(qtest_readq(r->m.qts, clock), >=, 12345);
    qtest_writeq(r->m.qts, memory, 0x1122334455667788);
    g_assert_cmphex(qtest_readq(r->m.qts, memory), ==, 0x1122334455667788);
    dm.pdn = LE32(pd_alloc(&r->n));
    assert_status(CMD(&r->n, CREATE_MR, dm), UNSUPPORTED);
}

/* No object has the number 0, except the doorbell page of the kernel. */
static void test_numbers(Rig *r)
{
    static const uint16_t destroy[] = {
        FAKERNIC_CMD_DESTROY_EQ, FAKERNIC_CMD_DESTROY_CQ,
        FAKERNIC_CMD_DEALLOC_PD, FAKERNIC_CMD_DEALLOC_XRCD,
        FAKERNIC_CMD_DEALLOC_UAR, FAKERNIC_CMD_DESTROY_MR,
        FAKERNIC_CMD_DESTROY_MW, FAKERNIC_CMD_DESTROY_QP,
        FAKERNIC_CMD_DESTROY_SRQ, FAKERNIC_CMD_DESTROY_FLOW,
        FAKERNIC_CMD_DESTROY_WQ, FAKERNIC_CMD_DESTROY_IND_TABLE,
        FAKERNIC_CMD_DESTROY_COUNTER,
    };
    Qp qp;

    qp_create(&r->n, &qp, FAKERNIC_QP_UD, r->s.pd, &r->s.cq, 0);
    g_assert_cmpuint(r->s.async.id, ==, 1);
    g_assert_cmpuint(r->s.cq.id, ==, 1);
    g_assert_cmpuint(r->s.pd, ==, 1);
    g_assert_cmphex(r->s.key, ==, 0x111);
    g_assert_cmpuint(qp.qpn, ==, 2);
    for (unsigned i = 0; i < ARRAY_SIZE(destroy); i++) {
        assert_status(cmd_id(&r->n, destroy[i], 0), BAD_ID);
    }
}

/* 'detail' names the address vector, not the field in it. */
static void test_detail_of_av(Rig *r)
{
    Qp qp;
    struct fakernic_modify_qp_req req = {
        .mask = LE32(FAKERNIC_QP_ATTR_STATE | FAKERNIC_QP_ATTR_PKEY_INDEX |
                     FAKERNIC_QP_ATTR_PORT | FAKERNIC_QP_ATTR_ACCESS_FLAGS),
        .attr = { .state = FAKERNIC_QPS_INIT, .port = 1 },
    };

    qp_create(&r->n, &qp, FAKERNIC_QP_RC, r->s.pd, &r->s.cq, 0);
    req.qpn = LE32(qp.qpn);
    assert_status(CMD(&r->n, MODIFY_QP, req), OK);
    req.mask = LE32(RTR_MASK | RTR_RESPONDER_MASK);
    req.attr.state = FAKERNIC_QPS_RTR;
    req.attr.path_mtu = FAKERNIC_MTU_1024;
    memcpy(req.attr.av.dgid, own_gid, 16);
    req.attr.av.sl = 8;
    assert_refused(&r->n, CMD(&r->n, MODIFY_QP, req), BAD_PARAM,
                   fakernic_modify_qp_req, attr.av);
    req.attr.av.sl = 0;
    req.attr.av.rsvd = LE16(1);
    assert_refused(&r->n, CMD(&r->n, MODIFY_QP, req), BAD_RESERVED,
                   fakernic_modify_qp_req, attr.av.rsvd);
}

/* A wrong page list is never BAD_RESERVED; 'detail' names the whole list. */
static void test_detail_of_page_list(Rig *r)
{
    struct fakernic_create_cq_req good = { .log_depth = 4 }, req;

    good.eqn = LE32(r->s.eq.id);
    good.pages = contiguous(r->s.data, 2048);
#define BAD(change) \
    do { \
        req = good; \
        change; \
        assert_refused(&r->n, CMD(&r->n, CREATE_CQ, req), BAD_PAGE_LIST, \
                       fakernic_create_cq_req, pages); \
    } while (0)
    BAD(req.pages.address = LE64(r->s.data + 8));
    BAD(req.pages.page_count = 0);
    BAD(req.pages.page_shift = 11);
    BAD(req.pages.levels = 4);
    BAD(req.pages.rsvd = LE16(1));
#undef BAD
    req = good;
    req.rsvd = LE16(1);
    assert_refused(&r->n, CMD(&r->n, CREATE_CQ, req), BAD_RESERVED,
                   fakernic_create_cq_req, rsvd);
    assert_status(CMD(&r->n, CREATE_CQ, good), OK);
}

/* ---- requests for events --------------------------------------------- */

/* An EQ doorbell without ARM frees entries, and the EQ stays armed. */
static void test_eq_stays_armed(Rig *r)
{
    Qp qp;

    qp_create(&r->n, &qp, FAKERNIC_QP_RC, r->s.pd, &r->s.cq, 0);
    rc_connect(&r->n, qp.qpn, qp.qpn, own_gid, nic_mac);
    eq_ring(&r->n, &r->s.eq, false);
    g_assert_false(msix_fired(&r->n, 1));
    cq_arm(&r->n, &r->s.cq, 0, false);
    complete_nops(&r->n, &qp, 1);
    g_assert_true(msix_fired(&r->n, 1));
    eq_expect(&r->n, &r->s.eq, FAKERNIC_EVENT_COMPLETION);
    eq_ring(&r->n, &r->s.eq, false);
    cq_arm(&r->n, &r->s.cq, 0, false);
    g_assert_false(msix_fired(&r->n, 1));
}

/* An arm request names an index, but frees nothing: the record does. */
static void test_arm_frees_nothing(Rig *r)
{
    Qp qp;
    struct fakernic_cqe cqe;

    cq_create(&r->n, &r->s.cq, 1, &r->s.eq, 0, 0);
    qp_create(&r->n, &qp, FAKERNIC_QP_RC, r->s.pd, &r->s.cq, 0);
    rc_connect(&r->n, qp.qpn, qp.qpn, own_gid, nic_mac);
    complete_nops(&r->n, &qp, 2);
    cqe = rig_cqe(r, FAKERNIC_CQE_NOP, FAKERNIC_WC_SUCCESS);
    cqe = rig_cqe(r, FAKERNIC_CQE_NOP, FAKERNIC_WC_SUCCESS);
    cq_arm(&r->n, &r->s.cq, 0, false);
    complete_nops(&r->n, &qp, 1);
    g_assert_false(cq_poll(&r->n, &r->s.cq, &cqe));
    g_assert_cmpuint(eq_expect(&r->n, &r->s.async, FAKERNIC_EVENT_CQ_ERROR), ==,
                     r->s.cq.id);
}

/* ---- refused work requests ------------------------------------------- */

/* A work request of one block, with only its header filled in. */
static Wqe wqe_bare(uint8_t opcode)
{
    return (Wqe) { .hdr = { .opcode = opcode, .bb_count = 1,
                            .flags = FAKERNIC_SQ_SIGNALED } };
}

static Wqe wqe_local_inv(uint32_t key)
{
    Wqe wqe = wqe_bare(FAKERNIC_SQ_LOCAL_INV);

    wqe.hdr.imm_or_key = LE32(key);
    return wqe;
}

static Wqe wqe_reg_mr(const struct fakernic_sq_reg_mr *reg)
{
    Wqe wqe = wqe_bare(FAKERNIC_SQ_REG_MR);

    memcpy(wqe.bytes + sizeof(wqe.hdr), reg, sizeof(*reg));
    return wqe;
}

static Wqe wqe_bind_mw(const struct fakernic_sq_bind_mw *bind)
{
    Wqe wqe = wqe_bare(FAKERNIC_SQ_BIND_MW);

    memcpy(wqe.bytes + sizeof(wqe.hdr), bind, sizeof(*bind));
    return wqe;
}

/* Posts a WQE on one of two new QPs. It must complete with this opcode, status
 * and vendor error. */
static void assert_completes(Nic *n, Setup *s, const Wqe *wqe, uint8_t opcode,
                             uint8_t status, uint16_t vendor_err)
{
    struct fakernic_cqe cqe;
    Qp a, b;

    rc_pair(n, s, &a, &b);
    sq_put(n, &a, wqe, sizeof(*wqe));
    a.sq.index = 1;             /* whatever bb_count is */
    sq_ring(n, &a);
    cq_expect(n, &s->cq, &cqe, opcode, status);
    g_assert_cmpuint(le16_to_cpu(cqe.vendor_err), ==, vendor_err);
    queue_record(n, &s->cq, s->cq.index);
    assert_status(cmd_id(n, FAKERNIC_CMD_DESTROY_QP, a.qpn), OK);
    assert_status(cmd_id(n, FAKERNIC_CMD_DESTROY_QP, b.qpn), OK);
}

/* A CQE has the opcode of its work request, also of a malformed one. */
static void test_opcode_of_malformed(Rig *r)
{
    static const struct {
        uint8_t sq, cqe;
    } opcodes[] = {
        { 0, FAKERNIC_CQE_SEND },
        { FAKERNIC_SQ_SEND, FAKERNIC_CQE_SEND },
        { FAKERNIC_SQ_SEND_IMM, FAKERNIC_CQE_SEND },
        { FAKERNIC_SQ_SEND_INV, FAKERNIC_CQE_SEND },
        { FAKERNIC_SQ_RDMA_WRITE, FAKERNIC_CQE_RDMA_WRITE },
        { FAKERNIC_SQ_RDMA_WRITE_IMM, FAKERNIC_CQE_RDMA_WRITE },
        { FAKERNIC_SQ_RDMA_READ, FAKERNIC_CQE_RDMA_READ },
        { FAKERNIC_SQ_RDMA_READ_INV, FAKERNIC_CQE_RDMA_READ },
        { FAKERNIC_SQ_ATOMIC_CMP_SWAP, FAKERNIC_CQE_CMP_SWAP },
        { FAKERNIC_SQ_ATOMIC_FETCH_ADD, FAKERNIC_CQE_FETCH_ADD },
        { FAKERNIC_SQ_ATOMIC_MASKED_CMP_SWAP, FAKERNIC_CQE_MASKED_CMP_SWAP },
        { FAKERNIC_SQ_ATOMIC_MASKED_FETCH_ADD,
          FAKERNIC_CQE_MASKED_FETCH_ADD },
        { FAKERNIC_SQ_ATOMIC_WRITE, FAKERNIC_CQE_ATOMIC_WRITE },
        { FAKERNIC_SQ_FLUSH, FAKERNIC_CQE_FLUSH },
        { FAKERNIC_SQ_LOCAL_INV, FAKERNIC_CQE_LOCAL_INV },
        { FAKERNIC_SQ_REG_MR, FAKERNIC_CQE_REG_MR },
        { FAKERNIC_SQ_BIND_MW, FAKERNIC_CQE_BIND_MW },
        { FAKERNIC_SQ_NOP, FAKERNIC_CQE_NOP },
        { FAKERNIC_SQ_NOP + 1, FAKERNIC_CQE_SEND },
        { 0xff, FAKERNIC_CQE_SEND },
    };

    for (unsigned i = 0; i < ARRAY_SIZE(opcodes); i++) {
        bool known = opcodes[i].sq && opcodes[i].sq <= FAKERNIC_SQ_NOP;
        Wqe wqe = wqe_bare(opcodes[i].sq);

        wqe.hdr.mss = LE16(1);
        assert_completes(&r->n, &r->s, &wqe, opcodes[i].cqe,
                         FAKERNIC_WC_LOC_QP_OP_ERR,
                         known ? FAKERNIC_VENDOR_SQ_RSVD
                               : FAKERNIC_VENDOR_SQ_OPCODE);
        wqe.hdr.bb_count = 0;
        assert_completes(&r->n, &r->s, &wqe, opcodes[i].cqe,
                         FAKERNIC_WC_LOC_QP_OP_ERR, FAKERNIC_VENDOR_SQ_FORMAT);
    }
}

/* A reserved flag or field fails with SQ_RSVD. A flag that does not fit the
 * opcode, or an inline length without the flag, fails with SQ_FORMAT. */
static void test_flags_of_malformed(Rig *r)
{
    Wqe wqe;

    wqe = wqe_bare(FAKERNIC_SQ_SEND);
    wqe.hdr.flags |= FAKERNIC_SQ_IP_CSUM;
    assert_completes(&r->n, &r->s, &wqe, FAKERNIC_CQE_SEND,
                     FAKERNIC_WC_LOC_QP_OP_ERR, FAKERNIC_VENDOR_SQ_RSVD);
    wqe = wqe_bare(FAKERNIC_SQ_NOP);
    wqe.hdr.flags |= FAKERNIC_SQ_INLINE;
    assert_completes(&r->n, &r->s, &wqe, FAKERNIC_CQE_NOP,
                     FAKERNIC_WC_LOC_QP_OP_ERR, FAKERNIC_VENDOR_SQ_FORMAT);
    wqe = wqe_bare(FAKERNIC_SQ_SEND);
    wqe.hdr.inline_length = LE16(1);
    assert_completes(&r->n, &r->s, &wqe, FAKERNIC_CQE_SEND,
                     FAKERNIC_WC_LOC_QP_OP_ERR, FAKERNIC_VENDOR_SQ_FORMAT);
    /* "Else 0" is reserved. */
    wqe = wqe_bare(FAKERNIC_SQ_SEND);
    wqe.hdr.imm_or_key = LE32(1);
    assert_completes(&r->n, &r->s, &wqe, FAKERNIC_CQE_SEND,
                     FAKERNIC_WC_LOC_QP_OP_ERR, FAKERNIC_VENDOR_SQ_RSVD);
}

static uint32_t key_create(Nic *n, uint32_t pd, uint8_t type,
                           uint32_t max_pages)
{
    struct fakernic_create_mr_req req = {
        .pdn = LE32(pd), .type = type, .tag = 1, .max_pages = LE32(max_pages),
    };

    return cmd_create(n, FAKERNIC_CMD_CREATE_MR, &req, sizeof(req));
}

static uint32_t window_create(Nic *n, uint32_t pd, uint8_t type)
{
    struct fakernic_create_mw_req req = {
        .pdn = LE32(pd), .type = type, .tag = 1,
    };

    return cmd_create(n, FAKERNIC_CMD_CREATE_MW, &req, sizeof(req));
}

/* Every refusal of REG_MR that the sheet lists, in its order. */
static void test_refused_reg_mr(Rig *r)
{
    const uint8_t malformed = FAKERNIC_WC_LOC_QP_OP_ERR;
    const uint8_t refused = FAKERNIC_WC_MW_BIND_ERR;
    struct fakernic_sq_reg_mr good;
    uint32_t other_pd;

    other_pd = pd_alloc(&r->n);
    good = (struct fakernic_sq_reg_mr) {
        .iova = LE64(0x10000), .length = LE64(8192),
        .key = LE32(key_create(&r->n, r->s.pd, FAKERNIC_MR_FAST_REG, 2)),
        .access = LE32(FAKERNIC_ACCESS_LOCAL_WRITE),
        .pages = contiguous(r->s.data, 8192),
    };
#define CASE(status, vendor, change) \
    do { \
        struct fakernic_sq_reg_mr reg = good; \
        Wqe wqe; \
        change; \
        wqe = wqe_reg_mr(&reg); \
        assert_completes(&r->n, &r->s, &wqe, FAKERNIC_CQE_REG_MR, status, \
                         FAKERNIC_VENDOR_##vendor); \
    } while (0)
    CASE(malformed, SQ_RSVD, reg.rsvd = LE64(1));
    CASE(malformed, SQ_FORMAT, reg.length = 0);
    CASE(malformed, SQ_FORMAT, reg.length = LE64(513 * 4096));
    CASE(malformed, SQ_FORMAT, reg.iova = LE64(-4096ull));
    CASE(malformed, SQ_FORMAT, reg.pages.page_shift = 11);
    CASE(malformed, SQ_FORMAT, reg.pages.page_count = LE32(1));
    CASE(malformed, SQ_FORMAT, reg.pages.levels = 4);
    CASE(malformed, SQ_FORMAT, reg.pages.rsvd = LE16(1));
    CASE(malformed, SQ_FORMAT, reg.pages.address = LE64(r->s.data + 1));
    CASE(malformed, SQ_DMA, reg.pages.levels = 1;
         reg.pages.address = LE64(1ull << 55));
    CASE(refused, KEY_INDEX, reg.key = LE32(0xffff00));
    CASE(refused, KEY_STATE, reg.key = LE32(r->s.key));
    CASE(refused, KEY_PD, reg.key = LE32(key_create(&r->n, other_pd,
                                                    FAKERNIC_MR_FAST_REG, 2)));
    CASE(refused, KEY_ACCESS,
         reg.access = LE32(FAKERNIC_ACCESS_REMOTE_WRITE));
    CASE(refused, KEY_ACCESS, reg.access = LE32(FAKERNIC_ACCESS_ON_DEMAND));
    CASE(refused, KEY_BOUNDS, reg.length = LE64(3 * 4096);
         reg.pages.page_count = LE32(3));
    CASE(FAKERNIC_WC_SUCCESS, NONE, reg.key = good.key);
    CASE(refused, KEY_STATE, reg.key = good.key);
#undef CASE
}

/* Every refusal of LOCAL_INV. It does not refuse a key that is free already. */
static void test_refused_local_inv(Rig *r)
{
    uint32_t fast, other_pd;

    other_pd = pd_alloc(&r->n);
    fast = key_create(&r->n, r->s.pd, FAKERNIC_MR_FAST_REG, 2);
#define CASE(status, vendor, key) \
    do { \
        Wqe wqe = wqe_local_inv(key); \
        assert_completes(&r->n, &r->s, &wqe, FAKERNIC_CQE_LOCAL_INV, status, \
                         FAKERNIC_VENDOR_##vendor); \
    } while (0)
#define REFUSED(vendor, key) CASE(FAKERNIC_WC_MW_BIND_ERR, vendor, key)
    REFUSED(KEY_INDEX, 0);
    REFUSED(KEY_INDEX, 0xffff00);
    REFUSED(KEY_TAG, fast ^ 1);
    REFUSED(KEY_PD, key_create(&r->n, other_pd, FAKERNIC_MR_FAST_REG, 2));
    REFUSED(KEY_STATE, r->s.key);
    REFUSED(KEY_STATE, window_create(&r->n, r->s.pd, FAKERNIC_MW_TYPE_1));
    CASE(FAKERNIC_WC_SUCCESS, NONE, fast);
    CASE(FAKERNIC_WC_SUCCESS, NONE,
         window_create(&r->n, r->s.pd, FAKERNIC_MW_TYPE_2B));
#undef REFUSED
#undef CASE
}

static uint32_t bindable(Nic *n, const Setup *s, uint32_t pd, uint32_t access)
{
    return mr_create(n, pd, s->data, 8192, FAKERNIC_ACCESS_MW_BIND | access);
}

/* Every refusal of BIND_MW that the sheet lists, in its order. */
static void test_refused_bind_mw(Rig *r)
{
    struct fakernic_sq_bind_mw good;
    uint32_t mw, other_pd, region;

    other_pd = pd_alloc(&r->n);
    region = bindable(&r->n, &r->s, r->s.pd, FAKERNIC_ACCESS_LOCAL_WRITE);
    mw = window_create(&r->n, r->s.pd, FAKERNIC_MW_TYPE_1);
    good = (struct fakernic_sq_bind_mw) {
        .address = LE64(r->s.data), .length = LE64(4096), .mw_key = LE32(mw),
        .new_key = LE32(mw + 1), .mr_key = LE32(region),
        .access = LE32(FAKERNIC_ACCESS_REMOTE_WRITE),
    };
#define CASE(status, vendor, change) \
    do { \
        struct fakernic_sq_bind_mw bind = good; \
        Wqe wqe; \
        change; \
        wqe = wqe_bind_mw(&bind); \
        assert_completes(&r->n, &r->s, &wqe, FAKERNIC_CQE_BIND_MW, status, \
                         FAKERNIC_VENDOR_##vendor); \
    } while (0)
#define REFUSED(vendor, change) CASE(FAKERNIC_WC_MW_BIND_ERR, vendor, change)
    CASE(FAKERNIC_WC_LOC_QP_OP_ERR, SQ_RSVD, bind.rsvd[0] = 1);
    REFUSED(KEY_INDEX, bind.mw_key = LE32(0xffff00));
    REFUSED(KEY_TAG, bind.mw_key = LE32(window_create(&r->n, r->s.pd,
                                                  FAKERNIC_MW_TYPE_2B) ^ 1));
    REFUSED(KEY_STATE, bind.mw_key = LE32(region));
    REFUSED(KEY_PD, bind.mw_key = LE32(window_create(&r->n, other_pd,
                                                     FAKERNIC_MW_TYPE_1)));
    REFUSED(BIND, bind.new_key = LE32(mw + 0x100));
    REFUSED(BIND, bind.access = LE32(FAKERNIC_ACCESS_LOCAL_WRITE));
    REFUSED(BIND, bind.new_key = LE32(mw + 2));
    REFUSED(BIND, bind.access = LE32(FAKERNIC_ACCESS_ZERO_BASED));
    REFUSED(KEY_INDEX, bind.mr_key = LE32(0xffff00));
    REFUSED(KEY_TAG, bind.mr_key = LE32(region ^ 1));
    REFUSED(KEY_STATE, bind.mr_key = LE32(key_create(&r->n, r->s.pd,
                                                     FAKERNIC_MR_FAST_REG, 2)));
    REFUSED(KEY_PD, bind.mr_key = LE32(bindable(&r->n, &r->s, other_pd,
                                                FAKERNIC_ACCESS_LOCAL_WRITE)));
    REFUSED(KEY_ACCESS, bind.mr_key = LE32(r->s.key));
    REFUSED(KEY_ACCESS, bind.mr_key = LE32(bindable(&r->n, &r->s, r->s.pd, 0)));
    REFUSED(BIND, bind.mr_key = LE32(bindable(&r->n, &r->s, r->s.pd,
                                              FAKERNIC_ACCESS_LOCAL_WRITE |
                                                  FAKERNIC_ACCESS_ZERO_BASED)));
    REFUSED(KEY_BOUNDS, bind.length = LE64(8193));
    CASE(FAKERNIC_WC_SUCCESS, NONE, bind.access = good.access);
#undef REFUSED
#undef CASE
}

/* Length 0 unbinds a window of type 1. Type 2B needs an invalidation. */
static void test_unbind(Rig *r)
{
    struct fakernic_sq_bind_mw bind;
    uint32_t region, mw;
    Wqe wqe;

    region = bindable(&r->n, &r->s, r->s.pd, FAKERNIC_ACCESS_LOCAL_WRITE);
    mw = window_create(&r->n, r->s.pd, FAKERNIC_MW_TYPE_1);
    bind = (struct fakernic_sq_bind_mw) {
        .address = LE64(r->s.data), .length = LE64(4096), .mw_key = LE32(mw),
        .new_key = LE32(mw + 1), .mr_key = LE32(region),
    };
    wqe = wqe_bind_mw(&bind);
    assert_completes(&r->n, &r->s, &wqe, FAKERNIC_CQE_BIND_MW,
                     FAKERNIC_WC_SUCCESS, FAKERNIC_VENDOR_NONE);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_MR, region), BUSY);
    /* The device ignores address and region. */
    bind = (struct fakernic_sq_bind_mw) {
        .mw_key = LE32(mw + 1), .new_key = LE32(mw + 2), .mr_key = LE32(~0u),
    };
    wqe = wqe_bind_mw(&bind);
    assert_completes(&r->n, &r->s, &wqe, FAKERNIC_CQE_BIND_MW,
                     FAKERNIC_WC_SUCCESS, FAKERNIC_VENDOR_NONE);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_MR, region), OK);
    mw = window_create(&r->n, r->s.pd, FAKERNIC_MW_TYPE_2B);
    bind.mw_key = LE32(mw);
    bind.new_key = LE32(mw + 1);
    wqe = wqe_bind_mw(&bind);
    assert_completes(&r->n, &r->s, &wqe, FAKERNIC_CQE_BIND_MW,
                     FAKERNIC_WC_MW_BIND_ERR, FAKERNIC_VENDOR_BIND);
}

/* ---- what leaves the device, and what counts it ----------------------- */

/* Which GIDs the tests below use, and in which VLANs. */
enum { PLAIN, TAGGED, PRIORITY };

static void set_gid(Nic *n, uint16_t index, uint8_t last, uint16_t vlan)
{
    struct fakernic_set_gid_req gid = gid_req(index, own_gid);

    gid.gid[15] = last;
    gid.vlan = LE16(vlan);
    assert_status(CMD(n, SET_GID, gid), OK);
}

static void set_gids(Nic *n)
{
    set_gid(n, PLAIN, 1, FAKERNIC_VLAN_NONE);
    set_gid(n, TAGGED, 2, 5);
    set_gid(n, PRIORITY, 3, 0);
}

static UdWqe ud_wqe(const Setup *s, uint32_t dest, uint16_t from, uint8_t to)
{
    UdWqe wqe = {
        .hdr = { .opcode = FAKERNIC_SQ_SEND, .flags = FAKERNIC_SQ_SIGNALED,
                 .sge_count = 1, .bb_count = 2 },
        .ud = { .av = { .sgid_index = LE16(from) },
                .dest_qpn = LE32(dest), .qkey = LE32(7) },
        .sge = { LE64(s->data), LE32(16), LE32(s->key) },
    };

    memcpy(wqe.ud.av.dgid, own_gid, 16);
    wqe.ud.av.dgid[15] = to;
    /* Loopback ignores the MAC address. */
    memset(wqe.ud.av.dmac, 0x22, 6);
    return wqe;
}

/* A machine with a wire, a UD QP in RTS that can send to itself. */
typedef struct Datagrams {
    Machine m;
    Nic n;
    Setup s;
    Qp qp;
    int wire;
} Datagrams;

static void datagrams_start(Datagrams *d)
{
    d->wire = start_wired(&d->m, &d->n);
    setup(&d->n, &d->s);
    set_gids(&d->n);
    ud_to_rts(&d->n, &d->s, &d->qp);
    for (unsigned i = 0; i < 8; i++) {
        rq_post(&d->n, &d->qp.rq, i, d->s.data + 4096, 4096, d->s.key);
    }
}

static void datagrams_stop(Datagrams *d)
{
    machine_stop(&d->m);
    close(d->wire);
}

static void datagram_send(Datagrams *d, uint16_t from, uint8_t to)
{
    UdWqe wqe = ud_wqe(&d->s, d->qp.qpn, from, to);

    sq_put(&d->n, &d->qp, &wqe, sizeof(wqe));
    sq_ring(&d->n, &d->qp);
}

static void assert_stat(Nic *n, enum fakernic_stat which, uint64_t value)
{
    g_assert_cmpuint(nic_stat(n, which), ==, value);
}

/*
 * Loopback connects GIDs of one VLAN; VLAN 0 means none. A frame to a GID in
 * another VLAN goes to the wire, as the device does not route.
 */
static void test_loopback_and_vlan(void)
{
    static const struct {
        uint16_t from;
        uint8_t to;
        bool loops;
    } cases[] = {
        { PLAIN, 1, true }, { PLAIN, 3, true }, { PRIORITY, 1, true },
        { TAGGED, 2, true }, { TAGGED, 1, false }, { PLAIN, 2, false },
        { TAGGED, 3, false },
    };
    uint64_t loops = 0, leaves = 0;
    struct fakernic_cqe cqe;
    uint8_t frame[256];
    Datagrams d;

    datagrams_start(&d);
    for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
        datagram_send(&d, cases[i].from, cases[i].to);
        if (cases[i].loops) {
            cq_expect(&d.n, &d.s.cq, &cqe, FAKERNIC_CQE_RECV,
                      FAKERNIC_WC_SUCCESS);
            loops++;
        } else {
            bool tagged = cases[i].from == TAGGED;

            g_assert_cmpint(wire_receive(d.wire, frame, sizeof(frame)), >, 18);
            g_assert_cmphex(lduw_be_p(frame + 12), ==,
                            tagged ? 0x8100 : 0x0800);
            leaves++;
        }
        cq_expect(&d.n, &d.s.cq, &cqe, FAKERNIC_CQE_SEND, FAKERNIC_WC_SUCCESS);
        assert_stat(&d.n, FAKERNIC_STAT_RX_LOOPBACK, loops);
        assert_stat(&d.n, FAKERNIC_STAT_RX_ROCE, loops);
        assert_stat(&d.n, FAKERNIC_STAT_TX_FRAMES, leaves);
    }
    datagrams_stop(&d);
}

/* Packets of a connection between two VLANs go to the wire, too. */
static void test_rc_between_vlans(void)
{
    Datagrams d;
    Qp a;
    uint8_t dgid[16], frame[2048];
    Wqe wqe;

    datagrams_start(&d);
    set_gid(&d.n, PLAIN, 1, 5);
    qp_create(&d.n, &a, FAKERNIC_QP_RC, d.s.pd, &d.s.cq, 0);
    memcpy(dgid, own_gid, 16);
    dgid[15] = 3;
    rc_connect(&d.n, a.qpn, a.qpn, dgid, nic_mac);
    wqe = wqe_send(&d.s, 0, 16);
    sq_put(&d.n, &a, &wqe, sizeof(wqe));
    sq_ring(&d.n, &a);
    g_assert_cmpint(wire_receive(d.wire, frame, sizeof(frame)), >, 18);
    g_assert_cmphex(lduw_be_p(frame + 14), ==, 5);
    assert_stat(&d.n, FAKERNIC_STAT_RX_LOOPBACK, 0);
    datagrams_stop(&d);
}

/* The port's counters count RoCEv2 frames, including those dropped later. */
static void test_port_counters(void)
{
    uint8_t frame[256], other[6] = { 2, 0, 0, 0, 0, 7 };
    struct fakernic_cqe cqe;
    Datagrams d;
    ssize_t len;

    datagrams_start(&d);
    /* A datagram to a peer; then the same frame comes back, corrupted. */
    datagram_send(&d, PLAIN, 9);
    cq_expect(&d.n, &d.s.cq, &cqe, FAKERNIC_CQE_SEND, FAKERNIC_WC_SUCCESS);
    len = wire_receive(d.wire, frame, sizeof(frame));
    g_assert_cmpint(len, >, 0);
    assert_stat(&d.n, FAKERNIC_STAT_TX_FRAMES, 1);
    assert_stat(&d.n, FAKERNIC_STAT_TX_BYTES, len);
    assert_stat(&d.n, FAKERNIC_STAT_TX_ROCE, 1);
    /* Swapping the addresses keeps the IPv4 checksum valid. */
    frame[14 + 12 + 3] = 9;
    frame[14 + 16 + 3] = 1;
    frame[len - 1] ^= 1;
    wire_send(d.wire, frame, len);
    wait_stat(&d.n, FAKERNIC_STAT_DROP_ICRC, 1);
    assert_stat(&d.n, FAKERNIC_STAT_RX_FRAMES, 1);
    assert_stat(&d.n, FAKERNIC_STAT_RX_ROCE, 1);
    assert_stat(&d.n, FAKERNIC_STAT_RX_ROCE_BYTES, len);
    assert_stat(&d.n, FAKERNIC_STAT_RX_LOOPBACK, 0);
    /* A frame to another MAC address. */
    frame_make(frame, other, 100);
    wire_send(d.wire, frame, 100);
    wait_stat(&d.n, FAKERNIC_STAT_RX_FILTERED, 1);
    assert_stat(&d.n, FAKERNIC_STAT_RX_FRAMES, 2);
    assert_stat(&d.n, FAKERNIC_STAT_RX_BYTES, len + 100);
    assert_stat(&d.n, FAKERNIC_STAT_RX_ROCE, 1);
    datagrams_stop(&d);
}

/* The MTU counts what follows the header and up to two tags. */
static void test_frame_limit(void)
{
    static const struct {
        uint32_t length;
        bool fits;
        uint8_t types[10];      /* behind the addresses */
    } cases[] = {
        { 1514, true, { 0x08, 0x00 } },
        { 1515, false, { 0x91, 0x00, 0, 1, 0x08, 0x00 } },
        { 1518, true, { 0x81, 0x00, 0, 1, 0x08, 0x00 } },
        { 1519, false, { 0x81, 0x00, 0, 1, 0x08, 0x00 } },
        { 1518, true, { 0x88, 0xa8, 0, 1, 0x08, 0x00 } },
        { 1519, false, { 0x88, 0xa8, 0, 1, 0x08, 0x00 } },
        { 1522, true, { 0x88, 0xa8, 0, 1, 0x81, 0x00, 0, 2, 0x08, 0x00 } },
        { 1523, false, { 0x88, 0xa8, 0, 1, 0x81, 0x00, 0, 2, 0x81, 0x00 } },
    };
    uint64_t dropped = 0, oversize = 0, passed = 0;
    uint8_t frame[2048];
    struct fakernic_cqe cqe;
    Datagrams d;
    Qp raw;

    datagrams_start(&d);
    port_up(&d.n, &d.s, &raw, FAKERNIC_FILTER_PROMISCUOUS);
    for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
        Wqe wqe = wqe_send(&d.s, 0, cases[i].length);

        frame_make(frame, nic_mac, cases[i].length);
        memcpy(frame + 12, cases[i].types, sizeof(cases[i].types));
        qtest_memwrite(d.m.qts, d.s.data, frame, cases[i].length);
        sq_put(&d.n, &raw, &wqe, sizeof(wqe));
        sq_ring(&d.n, &raw);
        cq_expect(&d.n, &d.s.cq, &cqe, FAKERNIC_CQE_SEND, FAKERNIC_WC_SUCCESS);
        g_assert_cmpuint(le32_to_cpu(cqe.byte_count), ==, cases[i].length);
        dropped += !cases[i].fits;
        assert_stat(&d.n, FAKERNIC_STAT_TX_DROPPED, dropped);
        rq_post(&d.n, &raw.rq, i, d.s.data + 8192, 2048, d.s.key);
        wire_send(d.wire, frame, cases[i].length);
        if (cases[i].fits) {
            cq_expect(&d.n, &d.s.cq, &cqe, FAKERNIC_CQE_RECV,
                      FAKERNIC_WC_SUCCESS);
            passed++;
        } else {
            oversize++;
            wait_stat(&d.n, FAKERNIC_STAT_RX_OVERSIZE, oversize);
        }
        assert_stat(&d.n, FAKERNIC_STAT_RX_FRAMES, passed + oversize);
    }
    /* The receives of oversized frames are left; then one is too small. */
    for (unsigned i = 0; i < oversize; i++) {
        wire_send(d.wire, frame, 60);
        cq_expect(&d.n, &d.s.cq, &cqe, FAKERNIC_CQE_RECV, FAKERNIC_WC_SUCCESS);
    }
    rq_post(&d.n, &raw.rq, 0, d.s.data + 8192, 59, d.s.key);
    wire_send(d.wire, frame, 60);
    wait_stat(&d.n, FAKERNIC_STAT_RX_OVERSIZE, oversize + 1);
    datagrams_stop(&d);
}

static bool link_up(Nic *n)
{
    struct fakernic_query_port_resp resp;

    assert_status(cmd(n, FAKERNIC_CMD_QUERY_PORT, NULL, 0, &resp,
                      sizeof(resp)), OK);
    return resp.link_up;
}

/* set_link takes the link down. The end of the netdev's far side does not. */
static void test_link_up(void)
{
    Machine m;
    Nic n;
    int wire = start_wired(&m, &n);

    g_assert_true(link_up(&n));
    close(wire);
    main_loop_turns(&m, 10);
    g_assert_true(link_up(&n));
    set_link(&m, false);
    g_assert_false(link_up(&n));
    set_link(&m, true);
    g_assert_true(link_up(&n));
    machine_stop(&m);
}

/* The device refuses to send a frame larger than 9000 + 22 bytes. */
static void test_frame_too_long(Rig *r)
{
    Qp raw;
    struct fakernic_cqe cqe;
    Wqe wqe;

    port_up(&r->n, &r->s, &raw, 0);
    wqe = wqe_send(&r->s, 0, 9022);
    sq_put(&r->n, &raw, &wqe, sizeof(wqe));
    sq_ring(&r->n, &raw);
    cqe = rig_cqe(r, FAKERNIC_CQE_SEND, FAKERNIC_WC_SUCCESS);
    assert_stat(&r->n, FAKERNIC_STAT_TX_DROPPED, 1);
    wqe = wqe_send(&r->s, 0, 9023);
    sq_put(&r->n, &raw, &wqe, sizeof(wqe));
    sq_ring(&r->n, &raw);
    cqe = rig_cqe(r, FAKERNIC_CQE_SEND, FAKERNIC_WC_LOC_LEN_ERR);
    g_assert_cmpuint(le16_to_cpu(cqe.vendor_err), ==, FAKERNIC_VENDOR_LENGTH);
}

/* ---- facts about the data path ----------------------------------------- */

/* Work requests rung before RTS are sent when the QP reaches RTS. */
static void test_doorbell_before_rts(Rig *r)
{
    Qp qp;
    struct fakernic_cqe cqe;
    struct fakernic_modify_qp_req req = {
        .mask = LE32(FAKERNIC_QP_ATTR_STATE | FAKERNIC_QP_ATTR_PKEY_INDEX |
                     FAKERNIC_QP_ATTR_PORT | FAKERNIC_QP_ATTR_QKEY),
        .attr = { .state = FAKERNIC_QPS_INIT, .port = 1 },
    };

    qp_create(&r->n, &qp, FAKERNIC_QP_UD, r->s.pd, &r->s.cq, 0);
    complete_nops(&r->n, &qp, 1);
    req.qpn = LE32(qp.qpn);
    assert_status(CMD(&r->n, MODIFY_QP, req), OK);
    assert_status(qp_to(&r->n, qp.qpn, FAKERNIC_QPS_RTR), OK);
    g_assert_false(cq_poll(&r->n, &r->s.cq, &cqe));
    req.mask = LE32(FAKERNIC_QP_ATTR_STATE | FAKERNIC_QP_ATTR_SQ_PSN);
    req.attr.state = FAKERNIC_QPS_RTS;
    assert_status(CMD(&r->n, MODIFY_QP, req), OK);
    cqe = rig_cqe(r, FAKERNIC_CQE_NOP, FAKERNIC_WC_SUCCESS);
}

/* An atomic's operand is little endian: a carry goes to higher addresses. */
static void test_atomic_byte_order(Rig *r)
{
    static const uint8_t before[8] = { 0xff, 0xff, 0, 0, 0, 0, 0, 0x10 };
    static const uint8_t after[8] = { 0, 0, 1, 0, 0, 0, 0, 0x10 };
    uint8_t bytes[8];
    AtomicWqe wqe;

    qtest_memwrite(r->m.qts, r->s.data + 64, before, sizeof(before));
    wqe = wqe_atomic(&r->s, FAKERNIC_SQ_ATOMIC_FETCH_ADD, 0, 64, 1);
    POST(r, wqe);
    rig_cqe(r, FAKERNIC_CQE_FETCH_ADD, FAKERNIC_WC_SUCCESS);
    qtest_memread(r->m.qts, r->s.data + 64, bytes, sizeof(bytes));
    g_assert_cmpmem(bytes, 8, after, 8);
    qtest_memread(r->m.qts, r->s.data, bytes, sizeof(bytes));
    g_assert_cmpmem(bytes, 8, before, 8);
}

/* A WRITE_IMM from a to b, of 'length' bytes. */
static Wqe wqe_write_imm(const Setup *s, uint32_t length)
{
    Wqe wqe = wqe_rdma(s, FAKERNIC_SQ_RDMA_WRITE_IMM, 0, 8192, length);

    wqe.hdr.imm_or_key = LE32(0x1234);
    return wqe;
}

/* byte_count of RECV_RDMA_IMM is the length of the WRITE, whatever the size of
 * the receive. */
static void test_write_imm_count(Rig *r)
{
    static const uint32_t lengths[] = { 0, 12, 1024, 3000 };
    struct fakernic_cqe cqe;

    for (unsigned i = 0; i < ARRAY_SIZE(lengths); i++) {
        Wqe wqe = wqe_write_imm(&r->s, lengths[i]);

        rq_post(&r->n, &r->b.rq, i, r->s.data + 16384, 4, r->s.key);
        POST(r, wqe);
        cqe = rig_cqe(r, FAKERNIC_CQE_RECV_RDMA_IMM, FAKERNIC_WC_SUCCESS);
        g_assert_cmpuint(le32_to_cpu(cqe.byte_count), ==, lengths[i]);
        g_assert_cmphex(le32_to_cpu(cqe.imm_or_key), ==, 0x1234);
        cqe = rig_cqe(r, FAKERNIC_CQE_RDMA_WRITE, FAKERNIC_WC_SUCCESS);
    }
}

/*
 * The device checks the key of a WRITE_IMM before it takes a receive. An event
 * reports why the QP fails, and its receive is flushed.
 */
static void test_write_imm_refused(Rig *r)
{
    Wqe wqe;

    rq_post(&r->n, &r->b.rq, 7, r->s.data + 16384, 64, r->s.key);
    wqe = wqe_write_imm(&r->s, 12);
    wqe.rdma.rdma.rkey = LE32(r->s.key + 0x100);
    POST(r, wqe);
    g_assert_cmpuint(
        eq_expect(&r->n, &r->s.async, FAKERNIC_EVENT_QP_ACCESS_ERROR), ==,
        r->b.qpn);
    rig_cqe(r, FAKERNIC_CQE_RECV, FAKERNIC_WC_WR_FLUSH_ERR);
    rig_cqe(r, FAKERNIC_CQE_RDMA_WRITE, FAKERNIC_WC_REM_ACCESS_ERR);
}

/* If the write to memory fails, the WRITE_IMM has already taken a receive. */
static void test_write_imm_unreachable(Rig *r)
{
    const uint64_t nowhere = 1ull << 40;
    struct fakernic_cqe cqe;
    Wqe wqe;

    rq_post(&r->n, &r->b.rq, 7, r->s.data + 16384, 64, r->s.key);
    wqe = wqe_write_imm(&r->s, 12);
    wqe.rdma.rdma.remote_address = LE64(nowhere);
    wqe.rdma.rdma.rkey = LE32(mr_create(&r->n, r->s.pd, nowhere, 4096,
                                        FAKERNIC_ACCESS_LOCAL_WRITE |
                                            FAKERNIC_ACCESS_REMOTE_WRITE));
    POST(r, wqe);
    cqe = rig_cqe(r, FAKERNIC_CQE_RECV, FAKERNIC_WC_LOC_ACCESS_ERR);
    g_assert_cmpuint(le32_to_cpu(cqe.wqe_index), ==, 7);
    g_assert_cmpuint(le16_to_cpu(cqe.vendor_err), ==, FAKERNIC_VENDOR_KEY_DMA);
    cqe = rig_cqe(r, FAKERNIC_CQE_RDMA_WRITE, FAKERNIC_WC_REM_ACCESS_ERR);
}

/* CREATE_MR checks the access rights of a FAST_REG key, but does not keep them:
 * REG_MR sets new ones. */
static void test_fast_reg_access(Rig *r)
{
    struct fakernic_create_mr_req req = {
        .type = FAKERNIC_MR_FAST_REG, .max_pages = LE32(1),
        .access = LE32(FAKERNIC_ACCESS_REMOTE_WRITE),
    };
    struct fakernic_sq_reg_mr reg;
    uint32_t key;
    Wqe wqe;

    req.pdn = LE32(r->s.pd);
    assert_refused(&r->n, CMD(&r->n, CREATE_MR, req), BAD_PARAM,
                   fakernic_create_mr_req, access);
    req.access = LE32(FAKERNIC_ACCESS_LOCAL_WRITE |
                      FAKERNIC_ACCESS_REMOTE_WRITE);
    key = cmd_create(&r->n, FAKERNIC_CMD_CREATE_MR, &req, sizeof(req));
    reg = (struct fakernic_sq_reg_mr) {
        .iova = LE64(r->s.data), .length = LE64(4096), .key = LE32(key),
        .pages = contiguous(r->s.data, 4096),
    };
    wqe = wqe_reg_mr(&reg);
    assert_completes(&r->n, &r->s, &wqe, FAKERNIC_CQE_REG_MR,
                     FAKERNIC_WC_SUCCESS, FAKERNIC_VENDOR_NONE);
    wqe = wqe_rdma(&r->s, FAKERNIC_SQ_RDMA_WRITE, 8192, 0, 8);
    wqe.rdma.rdma.rkey = LE32(key);
    assert_completes(&r->n, &r->s, &wqe, FAKERNIC_CQE_RDMA_WRITE,
                     FAKERNIC_WC_REM_ACCESS_ERR,
                     FAKERNIC_VENDOR_NAK_REMOTE_ACCESS);
}

/* The clock is the VM's, which a qtest moves explicitly. */
static void test_clock_is_virtual(Rig *r)
{
    uint32_t before;

    before = reg_read(&r->n, FAKERNIC_REG_CLOCK_LO);
    g_assert_cmpuint(reg_read(&r->n, FAKERNIC_REG_CLOCK_LO), ==, before);
    qtest_clock_step(r->m.qts, 12345);
    g_assert_cmpuint(reg_read(&r->n, FAKERNIC_REG_CLOCK_LO), ==,
                     before + 12345);
}

#define CLOCK_PERIOD_US 50000
#define CLOCK_TRIES     100

/* Stops the VM while an event is held back. False: the stop came too late. */
static bool clock_stop(Nic *n, Setup *s, Qp *a, uint32_t *stopped)
{
    uint32_t armed;

    cq_arm(n, &s->cq, 0, false);
    armed = reg_read(n, FAKERNIC_REG_CLOCK_LO);
    complete_nops(n, a, 1);
    qtest_qmp_assert_success(n->m->qts, "{ 'execute': 'stop' }");
    *stopped = reg_read(n, FAKERNIC_REG_CLOCK_LO);
    g_assert_cmpuint(*stopped, !=, armed);
    return *stopped - armed < CLOCK_PERIOD_US * 1000;
}

/* Resumes the VM; the event arrives. */
static void clock_cont(Nic *n, Setup *s)
{
    struct fakernic_cqe cqe;

    qtest_qmp_assert_success(n->m->qts, "{ 'execute': 'cont' }");
    g_assert_cmpuint(eq_expect(n, &s->eq, FAKERNIC_EVENT_COMPLETION), ==,
                     s->cq.id);
    eq_ring(n, &s->eq, true);
    g_assert_true(cq_poll(n, &s->cq, &cqe));
    queue_record(n, &s->cq, s->cq.index);
}

/*
 * The clock stands still while the VM is stopped, and so does every timer, such
 * as that of an event that moderation holds back. With emulated CPUs the clock
 * otherwise runs by itself. These CPUs find only zeros to execute.
 */
static void test_clock_stands_still(void)
{
    struct fakernic_modify_cq_req moderate = {
        .count = LE16(100), .period_us = LE16(CLOCK_PERIOD_US),
    };
    struct fakernic_eqe eqe;
    unsigned tries = 0;
    uint32_t stopped;
    Machine m;
    Nic n;
    Setup s;
    Qp a, b;

    machine_start(&m, "-accel tcg %s", DEVICE);
    nic_find(&n, &m, SLOT);
    nic_bringup(&n);
    setup_pair(&n, &s, &a, &b);
    moderate.cqn = LE32(s.cq.id);
    assert_status(CMD(&n, MODIFY_CQ, moderate), OK);
    while (!clock_stop(&n, &s, &a, &stopped)) {
        g_assert_cmpuint(++tries, <, CLOCK_TRIES);
        clock_cont(&n, &s);
    }
    g_usleep(2 * CLOCK_PERIOD_US);
    g_assert_cmpuint(reg_read(&n, FAKERNIC_REG_CLOCK_LO), ==, stopped);
    g_assert_false(eq_poll(&n, &s.eq, &eqe));
    clock_cont(&n, &s);
    machine_stop(&m);
}

const FakernicTest fakernic_sheet_tests[] = {
    { "sheet/bars", test_bars },
    { "sheet/flr", ENABLED(test_flr_leaves_nothing) },
    { "sheet/control-reset", ENABLED(test_control_reset_leaves_pci) },
    { "sheet/d3hot", READY(test_d3hot) },
    { "sheet/bar2-without-features", BARE(test_bar2_without_features) },
    { "sheet/numbers", READY(test_numbers) },
    { "sheet/detail-of-av", READY(test_detail_of_av) },
    { "sheet/detail-of-page-list", READY(test_detail_of_page_list) },
    { "sheet/eq-stays-armed", READY(test_eq_stays_armed) },
    { "sheet/arm-frees-nothing", READY(test_arm_frees_nothing) },
    { "sheet/malformed-opcode", READY(test_opcode_of_malformed) },
    { "sheet/malformed-flags", READY(test_flags_of_malformed) },
    { "sheet/refused-reg-mr", READY(test_refused_reg_mr) },
    { "sheet/refused-local-inv", READY(test_refused_local_inv) },
    { "sheet/refused-bind-mw", READY(test_refused_bind_mw) },
    { "sheet/unbind", READY(test_unbind) },
    { "sheet/loopback-vlan", test_loopback_and_vlan },
    { "sheet/rc-between-vlans", test_rc_between_vlans },
    { "sheet/port-counters", test_port_counters },
    { "sheet/frame-limit", test_frame_limit },
    { "sheet/link-up", test_link_up },
    { "sheet/frame-too-long", READY(test_frame_too_long) },
    { "sheet/doorbell-before-rts", READY(test_doorbell_before_rts) },
    { "sheet/atomic-byte-order", PAIR(test_atomic_byte_order) },
    { "sheet/write-imm-count", PAIR(test_write_imm_count) },
    { "sheet/write-imm-refused", PAIR(test_write_imm_refused) },
    { "sheet/write-imm-unreachable", PAIR(test_write_imm_unreachable) },
    { "sheet/fast-reg-access", READY(test_fast_reg_access) },
    { "sheet/clock", BARE(test_clock_is_virtual) },
    { "sheet/clock-stands-still", test_clock_stands_still },
    { NULL }
};
