/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * QTest of the fakernic device: what a driver sees, without a guest.
 *
 * Registers, bring-up, the command queue, every command in its good and its
 * malformed forms, queues, interrupts, resets, the data path in loopback and
 * over a netdev. What a test expects is in firmware-spec/fakernic.rst.
 */
#include "qemu/osdep.h"
#include <poll.h>
#include <sys/socket.h>
#include "qobject/qdict.h"
#include "fakernic-driver.h"

#define SLOT 4
#define MAC_STRING "52:54:00:0a:0b:0c"
static const uint8_t nic_mac[6] = { 0x52, 0x54, 0x00, 0x0a, 0x0b, 0x0c };
#define DEVICE "-device fakernic,addr=04.0,mac=" MAC_STRING

static void start(Machine *m, Nic *n)
{
    machine_start(m, "%s", DEVICE);
    nic_find(n, m, SLOT);
}

/* One device, enabled, with all features. */
static void start_enabled(Machine *m, Nic *n)
{
    start(m, n);
    nic_bringup(n);
}

static void set_link(Machine *m, bool up)
{
    qtest_qmp_assert_success(m->qts,
        "{ 'execute': 'set_link', 'arguments': { 'name': 'n0', 'up': %i } }",
        up);
}

/* ---- PCI ------------------------------------------------------------- */

static void test_pci_identity(void)
{
    Machine m;
    Nic n;

    start(&m, &n);
    g_assert_cmphex(qpci_config_readw(n.pci, PCI_VENDOR_ID), ==,
                    FAKERNIC_PCI_VENDOR_ID);
    g_assert_cmphex(qpci_config_readw(n.pci, PCI_DEVICE_ID), ==,
                    FAKERNIC_PCI_DEVICE_ID);
    g_assert_cmphex(qpci_config_readb(n.pci, PCI_REVISION_ID), ==,
                    FAKERNIC_PCI_REVISION);
    g_assert_cmphex(qpci_config_readw(n.pci, PCI_CLASS_DEVICE), ==, 0x0200);
    g_assert_cmphex(qpci_config_readb(n.pci, PCI_INTERRUPT_PIN), ==, 0);
    machine_stop(&m);
}

static uint64_t bar_size(Nic *n, unsigned bar)
{
    uint8_t reg = PCI_BASE_ADDRESS_0 + 4 * bar;
    uint32_t old = qpci_config_readl(n->pci, reg), mask;

    qpci_config_writel(n->pci, reg, ~0u);
    mask = qpci_config_readl(n->pci, reg) & ~0xfu;
    qpci_config_writel(n->pci, reg, old);
    return (uint32_t)-mask;
}

static void test_pci_bars(void)
{
    Machine m;
    Nic n;
    uint32_t bar;

    start(&m, &n);
    bar = qpci_config_readl(n.pci, PCI_BASE_ADDRESS_0);
    g_assert_cmphex(bar & 0xf, ==, PCI_BASE_ADDRESS_SPACE_MEMORY);
    g_assert_cmphex(bar_size(&n, FAKERNIC_BAR_REGS), ==,
                    FAKERNIC_BAR_REGS_SIZE);
    bar = qpci_config_readl(n.pci, PCI_BASE_ADDRESS_2);
    g_assert_cmphex(bar & 0xf, ==, PCI_BASE_ADDRESS_MEM_TYPE_64 |
                    PCI_BASE_ADDRESS_MEM_PREFETCH);
    g_assert_cmpuint(bar_size(&n, FAKERNIC_BAR_UAR), >=,
                     (reg_read(&n, FAKERNIC_REG_UAR_COUNT) + 1) *
                     FAKERNIC_PAGE_SIZE);
    bar = qpci_config_readl(n.pci, PCI_BASE_ADDRESS_4);
    g_assert_cmphex(bar & 0xf, ==, PCI_BASE_ADDRESS_SPACE_MEMORY);
    g_assert_cmpuint(qpci_config_readl(n.pci, PCI_BASE_ADDRESS_1), ==, 0);
    g_assert_cmpuint(qpci_config_readl(n.pci, PCI_BASE_ADDRESS_5), ==, 0);
    machine_stop(&m);
}

/* Extended configuration space is reached through q35's MMCONFIG window. */
#define ECAM 0xb0000000u

static uint64_t ecam(unsigned slot)
{
    return ECAM + (slot << 15);
}

static void ecam_enable(Machine *m)
{
    QPCIDevice *mch = qpci_device_find(m->bus, 0);

    qpci_config_writel(mch, 0x64, 0);
    qpci_config_writel(mch, 0x60, ECAM | 1);
    g_free(mch);
}

static unsigned extended_capability(Machine *m, uint64_t config, uint16_t id)
{
    unsigned offset = 0x100;

    while (offset) {
        uint32_t header = qtest_readl(m->qts, config + offset);

        if ((header & 0xffff) == id) {
            return offset;
        }
        offset = header >> 20;
    }
    return 0;
}

static void test_pci_capabilities(void)
{
    Machine m;
    Nic n;
    uint8_t exp, pm;
    unsigned dsn;

    start(&m, &n);
    exp = qpci_find_capability(n.pci, PCI_CAP_ID_EXP, 0);
    pm = qpci_find_capability(n.pci, PCI_CAP_ID_PM, 0);
    g_assert_cmpuint(exp, !=, 0);
    g_assert_cmpuint(pm, !=, 0);
    g_assert_true(qpci_config_readl(n.pci, exp + PCI_EXP_DEVCAP) &
                  PCI_EXP_DEVCAP_FLR);
    g_assert_true(qpci_config_readw(n.pci, pm + PCI_PM_CTRL) &
                  PCI_PM_CTRL_NO_SOFT_RESET);
    g_assert_cmpuint(qpci_msix_table_size(n.pci), ==, FAKERNIC_VECTOR_COUNT);
    ecam_enable(&m);
    g_assert_cmpuint(extended_capability(&m, ecam(SLOT), PCI_EXT_CAP_ID_ERR),
                     !=, 0);
    dsn = extended_capability(&m, ecam(SLOT), PCI_EXT_CAP_ID_DSN);
    g_assert_cmpuint(dsn, !=, 0);
    /* The MAC with ff:fe in its middle, its first byte on top. */
    g_assert_cmphex(qtest_readl(m.qts, ecam(SLOT) + dsn + 8), ==, 0x525400ff);
    g_assert_cmphex(qtest_readl(m.qts, ecam(SLOT) + dsn + 4), ==, 0xfe0a0b0c);
    machine_stop(&m);
}

static void test_pci_root_port(void)
{
    Machine m;

    machine_start(&m, "-device pcie-root-port,id=rp,chassis=1,addr=05.0 "
                  "-device fakernic,bus=rp");
    /* Bus 1 behind the root port; type and link of an endpoint. */
    QPCIDevice *rp = qpci_device_find(m.bus, QPCI_DEVFN(5, 0));
    uint64_t config = ECAM + (1u << 20);
    uint8_t cap;

    qpci_config_writel(rp, PCI_PRIMARY_BUS, 0x00010100);
    ecam_enable(&m);
    g_assert_cmphex(qtest_readl(m.qts, config), ==,
                    FAKERNIC_PCI_DEVICE_ID << 16 | FAKERNIC_PCI_VENDOR_ID);
    cap = qtest_readb(m.qts, config + PCI_CAPABILITY_LIST);
    while (cap && qtest_readb(m.qts, config + cap) != PCI_CAP_ID_EXP) {
        cap = qtest_readb(m.qts, config + cap + 1);
    }
    g_assert_cmpuint(cap, !=, 0);
    g_assert_cmphex((qtest_readw(m.qts, config + cap + PCI_EXP_FLAGS) &
                     PCI_EXP_FLAGS_TYPE) >> 4, ==, PCI_EXP_TYPE_ENDPOINT);
    g_free(rp);
    machine_stop(&m);
}

/* ---- registers ------------------------------------------------------- */

static void test_regs_reset_values(void)
{
    Machine m;
    Nic n;

    start(&m, &n);
    g_assert_cmphex(reg_read(&n, FAKERNIC_REG_MAGIC), ==, FAKERNIC_MAGIC);
    g_assert_cmphex(reg_read(&n, FAKERNIC_REG_INTERFACE_VERSION), ==,
                    FAKERNIC_INTERFACE_MAJOR << 16 | FAKERNIC_INTERFACE_MINOR);
    g_assert_cmphex(reg_read(&n, FAKERNIC_REG_CONTROL), ==, 0);
    g_assert_cmphex(reg_read(&n, FAKERNIC_REG_STATUS), ==,
                    FAKERNIC_STATUS_READY);
    g_assert_cmphex(reg_read(&n, FAKERNIC_REG_FATAL_CODE), ==, 0);
    g_assert_cmphex(reg_read(&n, FAKERNIC_REG_DRIVER_FEATURES_LO), ==, 0);
    g_assert_cmphex(reg_read(&n, FAKERNIC_REG_DRIVER_FEATURES_HI), ==, 0);
    g_assert_cmphex(reg_read(&n, FAKERNIC_REG_MAC_LO), ==, 0x0a005452);
    g_assert_cmphex(reg_read(&n, FAKERNIC_REG_MAC_HI), ==, 0x0c0b);
    g_assert_cmpuint(reg_read(&n, FAKERNIC_REG_VECTOR_COUNT), ==,
                     FAKERNIC_VECTOR_COUNT);
    g_assert_cmpuint(reg_read(&n, FAKERNIC_REG_UAR_COUNT), ==, 1024);
    g_assert_cmphex(reg_read(&n, FAKERNIC_REG_TEST), ==, 0);
    g_assert_cmphex(reg_read(&n, FAKERNIC_REG_TEST_INVERTED), ==, ~0u);
    for (unsigned reg = FAKERNIC_REG_CMDQ_SQ_LO;
         reg <= FAKERNIC_REG_CMDQ_DOORBELL; reg += 4) {
        g_assert_cmphex(reg_read(&n, reg), ==, 0);
    }
    g_assert_cmpuint(nic_offered(&n) & FAKERNIC_FEATURE_RC, !=, 0);
    g_assert_cmpuint(nic_offered(&n) & FAKERNIC_FEATURE_UD, !=, 0);
    g_assert_cmpuint(nic_offered(&n) & FAKERNIC_FEATURE_RAW_PACKET, !=, 0);
    machine_stop(&m);
}

static void test_regs_access(void)
{
    static const unsigned read_only[] = {
        FAKERNIC_REG_MAGIC, FAKERNIC_REG_INTERFACE_VERSION,
        FAKERNIC_REG_FEATURES_LO, FAKERNIC_REG_FEATURES_HI,
        FAKERNIC_REG_FW_VERSION, FAKERNIC_REG_STATUS, FAKERNIC_REG_FATAL_CODE,
        FAKERNIC_REG_TEST_INVERTED, FAKERNIC_REG_MAC_LO, FAKERNIC_REG_MAC_HI,
        FAKERNIC_REG_UAR_COUNT, FAKERNIC_REG_VECTOR_COUNT,
        FAKERNIC_REG_CLOCK_PAGE_OFFSET, FAKERNIC_REG_CLOCK_PAGE_COUNT,
        FAKERNIC_REG_DM_OFFSET, FAKERNIC_REG_DM_PAGES,
    };
    Machine m;
    Nic n;

    start(&m, &n);
    for (unsigned i = 0; i < ARRAY_SIZE(read_only); i++) {
        uint32_t value = reg_read(&n, read_only[i]);

        reg_write(&n, read_only[i], ~value);
        g_assert_cmphex(reg_read(&n, read_only[i]), ==, value);
    }
    /* Nothing but aligned 32-bit accesses. */
    reg_write(&n, FAKERNIC_REG_TEST, 0x12345678);
    qtest_writeb(m.qts, n.regs.addr + FAKERNIC_REG_TEST, 0xff);
    qtest_writew(m.qts, n.regs.addr + FAKERNIC_REG_TEST, 0xffff);
    qtest_writeq(m.qts, n.regs.addr + FAKERNIC_REG_TEST, ~0ull);
    qtest_writel(m.qts, n.regs.addr + FAKERNIC_REG_TEST + 1, ~0u);
    g_assert_cmphex(reg_read(&n, FAKERNIC_REG_TEST), ==, 0x12345678);
    g_assert_cmphex(qtest_readb(m.qts, n.regs.addr + FAKERNIC_REG_TEST), ==, 0);
    g_assert_cmphex(qtest_readw(m.qts, n.regs.addr + FAKERNIC_REG_TEST), ==, 0);
    g_assert_cmphex(qtest_readq(m.qts, n.regs.addr + FAKERNIC_REG_TEST), ==, 0);
    /* Behind the last register, and a gap. */
    reg_write(&n, FAKERNIC_REG_END, 1);
    g_assert_cmphex(reg_read(&n, FAKERNIC_REG_END), ==, 0);
    g_assert_cmphex(reg_read(&n, 0x058), ==, 0);
    g_assert_cmphex(reg_read(&n, FAKERNIC_BAR_REGS_SIZE - 4), ==, 0);
    machine_stop(&m);
}

static void test_regs_test(void)
{
    static const uint32_t values[] = { 0, ~0u, 0xa5a5a5a5, 0x00ff00ff };
    Machine m;
    Nic n;

    start(&m, &n);
    for (unsigned i = 0; i < ARRAY_SIZE(values); i++) {
        reg_write(&n, FAKERNIC_REG_TEST, values[i]);
        g_assert_cmphex(reg_read(&n, FAKERNIC_REG_TEST), ==, values[i]);
        g_assert_cmphex(reg_read(&n, FAKERNIC_REG_TEST_INVERTED), ==,
                        ~values[i]);
    }
    machine_stop(&m);
}

static uint64_t clock_read(Nic *n)
{
    uint32_t lo = reg_read(n, FAKERNIC_REG_CLOCK_LO);

    return (uint64_t)reg_read(n, FAKERNIC_REG_CLOCK_HI) << 32 | lo;
}

static void test_regs_clock(void)
{
    const int64_t step = 5000000000;
    Machine m;
    Nic n;
    uint64_t page, before;

    start(&m, &n);
    before = clock_read(&n);
    qtest_clock_step(m.qts, step);
    g_assert_cmpuint(clock_read(&n) - before, ==, step);
    g_assert_cmpuint(reg_read(&n, FAKERNIC_REG_CLOCK_PAGE_COUNT), ==, 1);
    page = n.uar.addr + FAKERNIC_PAGE_SIZE *
           reg_read(&n, FAKERNIC_REG_CLOCK_PAGE_OFFSET);
    g_assert_cmpuint(qtest_readq(m.qts, page), ==, before + step);
    g_assert_cmpuint(qtest_readq(m.qts, page + 8), ==, 0);
    machine_stop(&m);
}

/* ---- bring-up and fatal errors --------------------------------------- */

static void expect_fatal(Nic *n, enum fakernic_fatal_code code)
{
    g_assert_cmphex(reg_read(n, FAKERNIC_REG_STATUS) & FAKERNIC_STATUS_FATAL,
                    ==, FAKERNIC_STATUS_FATAL);
    g_assert_cmpuint(reg_read(n, FAKERNIC_REG_FATAL_CODE), ==, code);
    nic_reset(n);
    g_assert_cmpuint(reg_read(n, FAKERNIC_REG_FATAL_CODE), ==, 0);
}

static void test_fatal_bringup(void)
{
    const struct {
        uint64_t sq, cq;
        unsigned log_depth;
        enum fakernic_fatal_code code;
    } cases[] = {
        { 0x100800, 0x200000, 4, FAKERNIC_FATAL_CMDQ_ADDRESS },
        { 0x100000, 0x200001, 4, FAKERNIC_FATAL_CMDQ_ADDRESS },
        { 0x100000, 0x200000, 3, FAKERNIC_FATAL_CMDQ_DEPTH },
        { 0x100000, 0x200000, 9, FAKERNIC_FATAL_CMDQ_DEPTH },
        { 0x100000, 0x200000, ~0u, FAKERNIC_FATAL_CMDQ_DEPTH },
        { 1ull << 50, 0x200000, 4, FAKERNIC_FATAL_CMDQ_DMA },
        { 0x100000, 1ull << 50, 4, FAKERNIC_FATAL_CMDQ_DMA },
    };
    Machine m;
    Nic n;

    start(&m, &n);
    for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
        nic_set_cmdq(&n, cases[i].sq, cases[i].cq, cases[i].log_depth);
        reg_write(&n, FAKERNIC_REG_CONTROL, FAKERNIC_CONTROL_ENABLE);
        expect_fatal(&n, cases[i].code);
    }
    nic_set_cmdq(&n, 0x100000, 0x200000, 4);
    nic_set_features(&n, nic_offered(&n) | 1ull << 63);
    reg_write(&n, FAKERNIC_REG_CONTROL, FAKERNIC_CONTROL_ENABLE);
    expect_fatal(&n, FAKERNIC_FATAL_FEATURES);
    machine_stop(&m);
}

static void test_fatal_overrun(void)
{
    Machine m;
    Nic n;
    Queue eq;
    struct fakernic_eqe eqe;

    start_enabled(&m, &n);
    eq_create(&n, &eq, 4, 0, true);
    msix_fired(&n, 0);
    reg_write(&n, FAKERNIC_REG_CMDQ_DOORBELL, n.cmd_pi + 17);
    g_assert_true(msix_fired(&n, 0));
    g_assert_true(eq_poll(&n, &eq, &eqe));
    g_assert_cmpuint(eqe.type, ==, FAKERNIC_EVENT_DEVICE_FATAL);
    g_assert_cmpuint(le32_to_cpu(eqe.data), ==, FAKERNIC_FATAL_CMDQ_OVERRUN);
    expect_fatal(&n, FAKERNIC_FATAL_CMDQ_OVERRUN);
    machine_stop(&m);
}

/* Without bus mastering the ring is out of reach. */
static void test_fatal_dma(void)
{
    Machine m;
    Nic n;
    struct fakernic_cmd request = { .opcode = LE16(FAKERNIC_CMD_NOP) };

    start_enabled(&m, &n);
    cmd_submit(&n, &request);
    qpci_config_writew(n.pci, PCI_COMMAND, PCI_COMMAND_MEMORY);
    cmd_ring(&n);
    expect_fatal(&n, FAKERNIC_FATAL_CMDQ_DMA);
    machine_stop(&m);
}

static void test_enable_rules(void)
{
    Machine m;
    Nic n;
    uint32_t depth;

    start(&m, &n);
    /* A doorbell before ENABLE, and reserved bits, do nothing. */
    reg_write(&n, FAKERNIC_REG_CMDQ_DOORBELL, 1);
    reg_write(&n, FAKERNIC_REG_CONTROL, FAKERNIC_CONTROL_ENABLE | 4);
    g_assert_cmphex(reg_read(&n, FAKERNIC_REG_STATUS), ==,
                    FAKERNIC_STATUS_READY);
    nic_bringup(&n);
    depth = reg_read(&n, FAKERNIC_REG_CMDQ_LOG_DEPTH);
    reg_write(&n, FAKERNIC_REG_CMDQ_LOG_DEPTH, depth + 1);
    g_assert_cmpuint(reg_read(&n, FAKERNIC_REG_CMDQ_LOG_DEPTH), ==, depth);
    reg_write(&n, FAKERNIC_REG_CONTROL, 0);
    g_assert_cmphex(reg_read(&n, FAKERNIC_REG_STATUS), ==,
                    FAKERNIC_STATUS_READY | FAKERNIC_STATUS_ENABLED);
    assert_status(cmd(&n, FAKERNIC_CMD_NOP, NULL, 0, NULL, 0), OK);
    machine_stop(&m);
}

/* ---- command queue --------------------------------------------------- */

static void test_cmdq_wrap(void)
{
    Machine m;
    Nic n;

    start_enabled(&m, &n);
    /* More than four passes: owner bits 1, 0, 1, 0, 1. */
    for (unsigned i = 0; i < 70; i++) {
        uint8_t payload[FAKERNIC_CMD_PAYLOAD], echo[FAKERNIC_CMD_PAYLOAD];

        memset(payload, i + 1, sizeof(payload));
        assert_status(cmd(&n, FAKERNIC_CMD_NOP, payload, sizeof(payload), echo,
                          sizeof(echo)), OK);
        g_assert_cmpmem(payload, sizeof(payload), echo, sizeof(echo));
        g_assert_true(msix_fired(&n, 0));
    }
    g_assert_cmpuint(nic_stat(&n, FAKERNIC_STAT_COMMANDS), ==, 70);
    machine_stop(&m);
}

/* A full ring announced with one doorbell. */
static void test_cmdq_many(void)
{
    Machine m;
    Nic n;
    struct fakernic_cmd_completion completion;

    start_enabled(&m, &n);
    for (unsigned round = 0; round < 3; round++) {
        uint32_t first = n.cmd_pi;

        for (unsigned i = 0; i < 16; i++) {
            struct fakernic_cmd request = {
                .opcode = LE16(FAKERNIC_CMD_NOP), .cookie = LE32(n.cmd_pi),
            };
            cmd_submit(&n, &request);
        }
        cmd_ring(&n);
        for (unsigned i = 0; i < 16; i++) {
            cmd_wait(&n, first + i, &completion);
            g_assert_cmpuint(le32_to_cpu(completion.cookie), ==, first + i);
            assert_status(completion.status, OK);
        }
    }
    machine_stop(&m);
}

static void test_cmd_opcodes(void)
{
    static const uint16_t unknown[] = {
        0, 0x08, 0x0f, 0x12, 0x1c, 0x26, 0x34, 0x42, 0x49, 0x71, 0xff, 0xffff,
    };
    static const uint16_t set_aside[] = {
        FAKERNIC_CMD_SET_PKEY, FAKERNIC_CMD_MODIFY_CQ, FAKERNIC_CMD_ALLOC_XRCD,
        FAKERNIC_CMD_DEALLOC_XRCD, FAKERNIC_CMD_RSVD_FLOW, FAKERNIC_CMD_RSVD_WQ,
        FAKERNIC_CMD_RSVD_DM, FAKERNIC_CMD_RSVD_ODP, FAKERNIC_CMD_RSVD_COUNTER,
        FAKERNIC_CMD_RSVD_FAULT,
    };
    Machine m;
    Nic n;

    start_enabled(&m, &n);
    for (unsigned i = 0; i < ARRAY_SIZE(unknown); i++) {
        assert_status(cmd(&n, unknown[i], NULL, 0, NULL, 0), BAD_OPCODE);
    }
    for (unsigned i = 0; i < ARRAY_SIZE(set_aside); i++) {
        assert_status(cmd(&n, set_aside[i], NULL, 0, NULL, 0), UNSUPPORTED);
    }
    g_assert_cmpuint(nic_stat(&n, FAKERNIC_STAT_COMMANDS_FAILED), ==,
                     ARRAY_SIZE(unknown) + ARRAY_SIZE(set_aside));
    machine_stop(&m);
}

/* A command of a feature the driver did not take. */
static void test_cmd_feature_not_taken(void)
{
    Machine m;
    Nic n;
    uint64_t sq, cq;

    start(&m, &n);
    sq = mem_alloc(&m, 4096);
    cq = mem_alloc(&m, 4096);
    nic_set_features(&n, FAKERNIC_FEATURE_RC);
    nic_set_cmdq(&n, sq, cq, 4);
    reg_write(&n, FAKERNIC_REG_CONTROL, FAKERNIC_CONTROL_ENABLE);
    assert_status(cmd(&n, FAKERNIC_CMD_CREATE_SRQ, NULL, 0, NULL, 0),
                  UNSUPPORTED);
    assert_status(cmd(&n, FAKERNIC_CMD_CREATE_MW, NULL, 0, NULL, 0),
                  UNSUPPORTED);
    machine_stop(&m);
}

/* Each command: reserved bytes, and bytes behind the request. */
static void test_cmd_reserved(void)
{
    static const struct {
        uint16_t opcode;
        uint8_t size;
        uint8_t rsvd[8];        /* offsets in the request, 0-terminated */
    } commands[] = {
        { FAKERNIC_CMD_QUERY_DEVICE, 0 },
        { FAKERNIC_CMD_QUERY_PORT, 0 },
        { FAKERNIC_CMD_ALLOC_PD, 0 },
        { FAKERNIC_CMD_ALLOC_UAR, 0 },
        { FAKERNIC_CMD_SET_PORT, 28, { 13, 20, 27 } },
        { FAKERNIC_CMD_QUERY_STATS, 16, { 12, 15 } },
        { FAKERNIC_CMD_SET_GID, 32, { 3, 28, 31 } },
        { FAKERNIC_CMD_CREATE_EQ, 24, { 17, 21, 23 } },
        { FAKERNIC_CMD_DESTROY_EQ, 8, { 4, 7 } },
        { FAKERNIC_CMD_CREATE_CQ, 32, { 18, 19, 28, 31 } },
        { FAKERNIC_CMD_DESTROY_CQ, 8, { 4, 7 } },
        { FAKERNIC_CMD_RESIZE_CQ, 24, { 21, 23 } },
        { FAKERNIC_CMD_DEALLOC_PD, 8, { 4, 7 } },
        { FAKERNIC_CMD_DEALLOC_UAR, 8, { 4, 7 } },
        { FAKERNIC_CMD_CREATE_MR, 48, { 42, 43 } },
        { FAKERNIC_CMD_DESTROY_MR, 8, { 4, 7 } },
        { FAKERNIC_CMD_REREG_MR, 48 },
        { FAKERNIC_CMD_CREATE_MW, 8, { 6, 7 } },
        { FAKERNIC_CMD_DESTROY_MW, 8, { 4, 7 } },
        { FAKERNIC_CMD_CREATE_QP, 64, { 60, 63 } },
        { FAKERNIC_CMD_DESTROY_QP, 8, { 4, 7 } },
        { FAKERNIC_CMD_MODIFY_QP, 144, { 47, 86, 87, 91, 126, 131, 132, } },
        { FAKERNIC_CMD_QUERY_QP, 8, { 4, 7 } },
        { FAKERNIC_CMD_CREATE_SRQ, 40, { 18, 19, 36, 39 } },
        { FAKERNIC_CMD_DESTROY_SRQ, 8, { 4, 7 } },
        { FAKERNIC_CMD_MODIFY_SRQ, 32, { 22, 23, 28, 31 } },
        { FAKERNIC_CMD_QUERY_SRQ, 8, { 4, 7 } },
        { FAKERNIC_CMD_ATTACH_MCAST, 24, { 20, 23 } },
        { FAKERNIC_CMD_DETACH_MCAST, 24, { 20, 23 } },
    };
    Machine m;
    Nic n;

    start_enabled(&m, &n);
    for (unsigned c = 0; c < ARRAY_SIZE(commands); c++) {
        uint8_t payload[FAKERNIC_CMD_PAYLOAD] = { 0 };

        for (unsigned i = 0; i < 8 && commands[c].rsvd[i]; i++) {
            payload[commands[c].rsvd[i]] = 1;
            assert_status(cmd(&n, commands[c].opcode, payload, sizeof(payload),
                              NULL, 0), BAD_RESERVED);
            g_assert_cmpuint(n.detail, >=, 16);
            g_assert_cmpuint(n.detail, <=, 16 + commands[c].rsvd[i]);
            payload[commands[c].rsvd[i]] = 0;
        }
        for (unsigned i = commands[c].size; i < sizeof(payload);
             i = i == commands[c].size ? sizeof(payload) - 1 : i + 1) {
            payload[i] = 0x80;
            assert_status(cmd(&n, commands[c].opcode, payload, sizeof(payload),
                              NULL, 0), BAD_RESERVED);
            g_assert_cmpuint(n.detail, ==, 16 + i);
            payload[i] = 0;
        }
    }
    machine_stop(&m);
}

/* The reserved fields of the request header. */
static void test_cmd_header_reserved(void)
{
    Machine m;
    Nic n;
    struct fakernic_cmd_completion completion;
    struct fakernic_cmd request = {
        .opcode = LE16(FAKERNIC_CMD_NOP), .rsvd = LE16(0x100),
    };

    start_enabled(&m, &n);
    cmd_submit(&n, &request);
    request.rsvd = 0;
    request.rsvd2 = LE64(1ull << 63);
    cmd_submit(&n, &request);
    cmd_ring(&n);
    cmd_wait(&n, 0, &completion);
    assert_status(completion.status, BAD_RESERVED);
    g_assert_cmpuint(le32_to_cpu(completion.detail), ==, 2);
    cmd_wait(&n, 1, &completion);
    assert_status(completion.status, BAD_RESERVED);
    g_assert_cmpuint(le32_to_cpu(completion.detail), ==, 8);
    machine_stop(&m);
}

/* ---- device and port ------------------------------------------------- */

static void test_query_device(void)
{
    Machine m;
    Nic n;
    struct fakernic_query_device_resp resp;

    start_enabled(&m, &n);
    assert_status(cmd(&n, FAKERNIC_CMD_QUERY_DEVICE, NULL, 0, &resp,
                      sizeof(resp)), OK);
    g_assert_cmphex(le64_to_cpu(resp.node_guid), ==, 0x505400fffe0a0b0cull);
    g_assert_cmpuint(le32_to_cpu(resp.max_qp), >=, 14);
    g_assert_cmpuint(le32_to_cpu(resp.max_cq), ==, 4096);
    g_assert_cmpuint(le32_to_cpu(resp.max_uar), ==, 1024);
    g_assert_cmpuint(le16_to_cpu(resp.gid_count), ==, 256);
    g_assert_cmpuint(le16_to_cpu(resp.pkey_count), ==, 1);
    g_assert_cmpuint(resp.port_count, ==, 1);
    g_assert_cmpuint(resp.max_mtu, ==, FAKERNIC_MTU_4096);
    g_assert_cmpuint(resp.vector_count, ==, FAKERNIC_VECTOR_COUNT);
    g_assert_true(le64_to_cpu(resp.page_sizes) & 1 << 12);
    g_assert_cmpuint(le32_to_cpu(resp.max_inline), <=, FAKERNIC_INLINE_MAX);
    g_assert_cmpuint(le16_to_cpu(resp.max_send_sge), <=, FAKERNIC_SGE_MAX);
    machine_stop(&m);
}

static void test_port(void)
{
    Machine m;
    Nic n;
    struct fakernic_query_port_resp resp;
    struct fakernic_set_port_req good = {
        .mask = LE32(FAKERNIC_PORT_MTU | FAKERNIC_PORT_MAC |
                     FAKERNIC_PORT_FILTER | FAKERNIC_PORT_QPN),
        .mtu = LE32(9000), .filter = FAKERNIC_FILTER_BROADCAST,
        .mac = { 2, 1, 2, 3, 4, 5 },
    };
    struct fakernic_set_port_req req;

    start_enabled(&m, &n);
    assert_status(cmd(&n, FAKERNIC_CMD_QUERY_PORT, NULL, 0, &resp,
                      sizeof(resp)), OK);
    g_assert_cmpuint(resp.link_up, ==, 1);
    g_assert_cmpuint(le32_to_cpu(resp.mtu), ==, 1500);
    g_assert_cmpuint(resp.active_mtu, ==, FAKERNIC_MTU_1024);
    g_assert_cmpmem(resp.mac, 6, nic_mac, 6);
    assert_status(CMD(&n, SET_PORT, good), OK);
    assert_status(cmd(&n, FAKERNIC_CMD_QUERY_PORT, NULL, 0, &resp,
                      sizeof(resp)), OK);
    g_assert_cmpuint(le32_to_cpu(resp.mtu), ==, 9000);
    g_assert_cmpuint(resp.active_mtu, ==, FAKERNIC_MTU_4096);
    g_assert_cmpmem(resp.mac, 6, nic_mac, 6);

#define BAD(field, value, code)                                              \
    req = good; req.field = value;                                           \
    assert_refused(&n, CMD(&n, SET_PORT, req), code, fakernic_set_port_req,  \
                   field)
    BAD(mask, LE32(0x10), BAD_PARAM);
    BAD(mtu, LE32(9001), BAD_PARAM);
    BAD(mtu, LE32(67), BAD_PARAM);
    BAD(mtu, LE32(~0u), BAD_PARAM);
    BAD(filter, 8, BAD_PARAM);
    BAD(qpn, LE32(7), BAD_ID);
    BAD(qpn, LE32(~0u), BAD_ID);
#undef BAD
    req = good;
    req.mac[0] = 1;
    assert_refused(&n, CMD(&n, SET_PORT, req), BAD_PARAM, fakernic_set_port_req,
                   mac);
    memset(req.mac, 0, 6);
    assert_refused(&n, CMD(&n, SET_PORT, req), BAD_PARAM, fakernic_set_port_req,
                   mac);
    /* What the mask does not name is not looked at. */
    req = (struct fakernic_set_port_req) { .mtu = LE32(1), .filter = 0xff };
    assert_status(CMD(&n, SET_PORT, req), OK);
    machine_stop(&m);
}

static void test_stats(void)
{
    Machine m;
    Nic n;
    uint64_t address;
    struct fakernic_query_stats_req req;
    struct fakernic_query_stats_resp resp;

    start_enabled(&m, &n);
    address = mem_alloc(&m, 4096);
    qtest_memset(m.qts, address, 0xee, 4096);
    req = (struct fakernic_query_stats_req) { .address = LE64(address) };
    assert_status(cmd(&n, FAKERNIC_CMD_QUERY_STATS, &req, sizeof(req), &resp,
                      sizeof(resp)), OK);
    g_assert_cmpuint(le32_to_cpu(resp.count), ==, FAKERNIC_STAT_COUNT);
    g_assert_cmphex(qtest_readq(m.qts, address), ==, 0xeeeeeeeeeeeeeeee);
    req.length = LE32(2 * 8);
    assert_status(CMD(&n, QUERY_STATS, req), OK);
    g_assert_cmpuint(qtest_readq(m.qts, address + 8), ==, 0);
    g_assert_cmphex(qtest_readq(m.qts, address + 16), ==, 0xeeeeeeeeeeeeeeee);
    req.length = LE32(4096);
    assert_status(CMD(&n, QUERY_STATS, req), OK);
    g_assert_cmphex(qtest_readq(m.qts, address + FAKERNIC_STAT_COUNT * 8), ==,
                    0xeeeeeeeeeeeeeeee);
    req.length = LE32(12);
    assert_refused(&n, CMD(&n, QUERY_STATS, req), BAD_PARAM,
                   fakernic_query_stats_req, length);
    req.length = LE32(8);
    req.address = LE64(address + 4);
    assert_refused(&n, CMD(&n, QUERY_STATS, req), BAD_PARAM,
                   fakernic_query_stats_req, address);
    req.address = LE64(1ull << 60);
    assert_status(CMD(&n, QUERY_STATS, req), DMA_ERROR);
    machine_stop(&m);
}

static const uint8_t own_gid[16] = { [10] = 0xff, 0xff, 10, 0, 0, 1 };

static struct fakernic_set_gid_req gid_req(uint16_t index, const uint8_t *gid)
{
    struct fakernic_set_gid_req req = {
        .index = LE16(index),
        .type = FAKERNIC_GID_IPV4,
        .vlan = LE16(FAKERNIC_VLAN_NONE),
    };

    memcpy(req.gid, gid, 16);
    memcpy(req.mac, nic_mac, 6);
    return req;
}

static void test_gid(void)
{
    Machine m;
    Nic n;
    struct fakernic_set_gid_req req, good = gid_req(255, own_gid);

    start_enabled(&m, &n);
    assert_status(CMD(&n, SET_GID, good), OK);
#define BAD(field, value)                                                    \
    req = good; req.field = value;                                           \
    assert_refused(&n, CMD(&n, SET_GID, req), BAD_PARAM, fakernic_set_gid_req, \
                   field)
    BAD(index, LE16(256));
    BAD(type, 1);
    BAD(type, 4);
    BAD(vlan, LE16(4095));
#undef BAD
    req = good;
    req.type = FAKERNIC_GID_IPV6;
    assert_refused(&n, CMD(&n, SET_GID, req), BAD_PARAM, fakernic_set_gid_req,
                   gid);
    req = good;
    req.gid[0] = 0xfe;
    assert_refused(&n, CMD(&n, SET_GID, req), BAD_PARAM, fakernic_set_gid_req,
                   gid);
    req = good;
    req.mac[0] |= 1;
    assert_refused(&n, CMD(&n, SET_GID, req), BAD_PARAM, fakernic_set_gid_req,
                   mac);
    req.type = FAKERNIC_GID_NONE;
    assert_status(CMD(&n, SET_GID, req), OK);
    machine_stop(&m);
}

/* ---- objects --------------------------------------------------------- */

static void test_pd_uar(void)
{
    Machine m;
    Nic n;
    uint32_t pd, other, uar;

    start_enabled(&m, &n);
    pd = pd_alloc(&n);
    other = pd_alloc(&n);
    g_assert_cmpuint(pd, !=, 0);
    g_assert_cmpuint(pd, !=, other);
    assert_status(cmd_id(&n, FAKERNIC_CMD_DEALLOC_PD, pd), OK);
    assert_refused(&n, cmd_id(&n, FAKERNIC_CMD_DEALLOC_PD, pd), BAD_ID,
                   fakernic_id, id);
    assert_refused(&n, cmd_id(&n, FAKERNIC_CMD_DEALLOC_PD, ~0u), BAD_ID,
                   fakernic_id, id);
    /* A freed number is not the next one given out. */
    g_assert_cmpuint(pd_alloc(&n), !=, pd);
    uar = cmd_create(&n, FAKERNIC_CMD_ALLOC_UAR, NULL, 0);
    g_assert_cmpuint(uar, >=, 1);
    assert_status(cmd_id(&n, FAKERNIC_CMD_DEALLOC_UAR, uar), OK);
    assert_status(cmd_id(&n, FAKERNIC_CMD_DEALLOC_UAR, uar), BAD_ID);
    assert_status(cmd_id(&n, FAKERNIC_CMD_DEALLOC_UAR, 0), BAD_ID);
    machine_stop(&m);
}

static void test_limits(void)
{
    Machine m;
    Nic n;

    machine_start(&m, "%s,max-pd=2,uars=2,max-cq=1", DEVICE);
    nic_find(&n, &m, SLOT);
    nic_bringup(&n);
    pd_alloc(&n);
    pd_alloc(&n);
    assert_status(cmd(&n, FAKERNIC_CMD_ALLOC_PD, NULL, 0, NULL, 0),
                  NO_RESOURCE);
    cmd_create(&n, FAKERNIC_CMD_ALLOC_UAR, NULL, 0);
    assert_status(cmd(&n, FAKERNIC_CMD_ALLOC_UAR, NULL, 0, NULL, 0),
                  NO_RESOURCE);
    machine_stop(&m);
}

static void test_eq(void)
{
    Machine m;
    Nic n;
    Queue q;
    struct fakernic_create_eq_req req, good = {
        .log_depth = 4, .vector = LE16(32), .async = 1,
    };
    uint32_t eqn;

    start_enabled(&m, &n);
    good.pages = queue_alloc(&n, &q, 4, 4);
#define BAD(field, value, code)                                              \
    req = good; req.field = value;                                           \
    assert_refused(&n, CMD(&n, CREATE_EQ, req), code, fakernic_create_eq_req, \
                   field)
    BAD(log_depth, 3, BAD_PARAM);
    BAD(log_depth, 17, BAD_PARAM);
    BAD(vector, LE16(33), BAD_PARAM);
    BAD(async, 2, BAD_PARAM);
#undef BAD
    eqn = cmd_create(&n, FAKERNIC_CMD_CREATE_EQ, &good, sizeof(good));
    assert_status(CMD(&n, CREATE_EQ, good), BUSY);
    assert_status(cmd_id(&n, FAKERNIC_CMD_DESTROY_EQ, eqn), OK);
    assert_status(cmd_id(&n, FAKERNIC_CMD_DESTROY_EQ, eqn), BAD_ID);
    assert_status(CMD(&n, CREATE_EQ, good), OK);
    machine_stop(&m);
}

static void test_cq(void)
{
    Machine m;
    Nic n;
    Queue eq, cq;
    struct fakernic_create_cq_req req, good = { .log_depth = 3 };
    uint32_t cqn, uar;

    start_enabled(&m, &n);
    eq_create(&n, &eq, 4, 1, false);
    uar = cmd_create(&n, FAKERNIC_CMD_ALLOC_UAR, NULL, 0);
    good.pages = queue_alloc(&n, &cq, 3, 6);
    good.eqn = LE32(eq.id);
    good.uar = LE32(uar);
#define BAD(field, value, code)                                              \
    req = good; req.field = value;                                           \
    assert_refused(&n, CMD(&n, CREATE_CQ, req), code, fakernic_create_cq_req, \
                   field)
    BAD(log_depth, 0, BAD_PARAM);
    BAD(log_depth, 17, BAD_PARAM);
    BAD(flags, 2, BAD_PARAM);
    BAD(uar, LE32(uar + 1), BAD_ID);
    BAD(uar, LE32(~0u), BAD_ID);
    BAD(eqn, LE32(eq.id + 1), BAD_ID);
    BAD(eqn, 0, BAD_ID);
#undef BAD
    cqn = cmd_create(&n, FAKERNIC_CMD_CREATE_CQ, &good, sizeof(good));
    assert_status(cmd_id(&n, FAKERNIC_CMD_DESTROY_EQ, eq.id), BUSY);
    assert_status(cmd_id(&n, FAKERNIC_CMD_DEALLOC_UAR, uar), BUSY);
    assert_status(cmd_id(&n, FAKERNIC_CMD_DESTROY_CQ, cqn), OK);
    assert_status(cmd_id(&n, FAKERNIC_CMD_DESTROY_CQ, cqn), BAD_ID);
    assert_status(cmd_id(&n, FAKERNIC_CMD_DESTROY_EQ, eq.id), OK);
    assert_status(cmd_id(&n, FAKERNIC_CMD_DEALLOC_UAR, uar), OK);
    machine_stop(&m);
}

/* ---- page lists and memory regions ----------------------------------- */

/* Tables of a list of 'levels' for page i at pages + i * step; the root. */
static uint64_t build_tables(Machine *m, unsigned levels, uint64_t pages,
                             uint64_t step, uint32_t count)
{
    uint32_t tables = DIV_ROUND_UP(count, FAKERNIC_PAGE_TABLE_ENTRIES);
    uint64_t address = mem_alloc(m, (uint64_t)tables * FAKERNIC_PAGE_SIZE);

    for (uint32_t i = 0; i < count; i++) {
        qtest_writeq(m->qts, address + i * 8, pages + i * step);
    }
    return levels == 1 ? address :
           build_tables(m, levels - 1, address, FAKERNIC_PAGE_SIZE, tables);
}

static void test_page_lists(void)
{
    Machine m;
    Nic n;
    struct fakernic_create_mr_req req, good;
    uint64_t data, root;
    const uint32_t count = 600;

    start_enabled(&m, &n);
    data = mem_alloc(&m, 4096);
    good = (struct fakernic_create_mr_req) {
        .length = LE64(count * 4096ull),
        .pages = { .address = LE64(data), .page_count = LE32(count),
                   .page_shift = 12 },
        .pdn = LE32(pd_alloc(&n)),
        .type = FAKERNIC_MR_MEMORY,
    };
    assert_status(CMD(&n, CREATE_MR, good), OK);
#define BAD_LIST(field, value)                                               \
    req = good; req.pages.field = value;                                     \
    assert_refused(&n, CMD(&n, CREATE_MR, req), BAD_PAGE_LIST,               \
                   fakernic_create_mr_req, pages)
    BAD_LIST(page_count, 0);
    BAD_LIST(page_count, LE32(count - 1));
    BAD_LIST(page_shift, 11);
    BAD_LIST(page_shift, 31);
    BAD_LIST(page_shift, 255);
    BAD_LIST(levels, 4);
    BAD_LIST(rsvd, LE16(1));
    BAD_LIST(address, LE64(data + 8));
    BAD_LIST(address, LE64(-4096ull));  /* wraps */
    /* 600 pages do not fit in one table. */
    BAD_LIST(levels, 1);
#undef BAD_LIST
    /* Two tables of pages under a root, then one more level. */
    for (unsigned levels = 2; levels <= 3; levels++) {
        root = build_tables(&m, levels, data, 0, count);
        req = good;
        req.pages.levels = levels;
        req.pages.address = LE64(root);
        assert_status(CMD(&n, CREATE_MR, req), OK);
        /* More pages than needed are not read. */
        req.length = LE64(4096);
        assert_status(CMD(&n, CREATE_MR, req), OK);
        /* An unaligned entry in the table of the last level. */
        req.pages.address = LE64(build_tables(&m, levels, data + 8, 0, count));
        assert_refused(&n, CMD(&n, CREATE_MR, req), BAD_PAGE_LIST,
                       fakernic_create_mr_req, pages);
        /* A table that is not there. */
        qtest_writeq(m.qts, root, 1ull << 55);
        req.pages.address = LE64(root);
        assert_status(CMD(&n, CREATE_MR, req), DMA_ERROR);
        g_assert_cmpuint(n.detail, ==, 0);
        /* A table address that is not aligned. */
        qtest_writeq(m.qts, root, data + 0x800);
        assert_status(CMD(&n, CREATE_MR, req), BAD_PAGE_LIST);
    }
    /* Levels 1; pages of 2 MiB named by a table of 4 KiB. */
    req = good;
    req.length = LE64(3ull << 21);
    req.pages = (struct fakernic_page_list) {
        .address = LE64(build_tables(&m, 1, 1u << 24, 1u << 21, 3)),
        .page_count = LE32(3), .page_shift = 21, .levels = 1,
    };
    assert_status(CMD(&n, CREATE_MR, req), OK);
    req.iova = LE64(1);     /* offset 1: one page too few */
    assert_status(CMD(&n, CREATE_MR, req), BAD_PAGE_LIST);
    machine_stop(&m);
}

static void test_mr(void)
{
    Machine m;
    Nic n;
    struct fakernic_create_mr_req req, good;
    uint32_t pd, key;
    uint64_t data;

    start_enabled(&m, &n);
    pd = pd_alloc(&n);
    data = mem_alloc(&m, 8192);
    good = (struct fakernic_create_mr_req) {
        .iova = LE64(data), .length = LE64(8192),
        .pages = contiguous(data, 8192), .pdn = LE32(pd),
        .access = LE32(FAKERNIC_ACCESS_LOCAL_WRITE),
        .type = FAKERNIC_MR_MEMORY, .tag = 0xab,
    };
#define BAD(field, value, code)                                              \
    req = good; req.field = value;                                           \
    assert_refused(&n, CMD(&n, CREATE_MR, req), code, fakernic_create_mr_req, \
                   field)
    BAD(length, 0, BAD_PARAM);
    BAD(length, LE64(~0ull), BAD_PARAM);
    BAD(length, LE64((1ull << 40) + 1), BAD_PARAM);
    BAD(pdn, LE32(pd + 1), BAD_ID);
    BAD(pdn, LE32(~0u), BAD_ID);
    BAD(access, LE32(1u << 30), BAD_PARAM);
    BAD(access, LE32(FAKERNIC_ACCESS_ON_DEMAND), BAD_PARAM);
    BAD(access, LE32(FAKERNIC_ACCESS_REMOTE_WRITE), BAD_PARAM);
    BAD(access, LE32(FAKERNIC_ACCESS_REMOTE_ATOMIC), BAD_PARAM);
    BAD(type, 0, BAD_PARAM);
    BAD(type, 7, BAD_PARAM);
    BAD(max_pages, LE32(1), BAD_PARAM);
#undef BAD
    req = good;
    req.iova = LE64(-4096ull);
    assert_refused(&n, CMD(&n, CREATE_MR, req), BAD_PARAM,
                   fakernic_create_mr_req, length);
    req = good;
    req.type = FAKERNIC_MR_ON_DEMAND;
    assert_status(CMD(&n, CREATE_MR, req), UNSUPPORTED);
    req.type = FAKERNIC_MR_DMA;
    assert_status(CMD(&n, CREATE_MR, req), BAD_PARAM);
    req.iova = req.length = 0;
    assert_refused(&n, CMD(&n, CREATE_MR, req), BAD_PARAM,
                   fakernic_create_mr_req, pages);
    memset(&req.pages, 0, sizeof(req.pages));
    assert_status(CMD(&n, CREATE_MR, req), OK);
    req.type = FAKERNIC_MR_FAST_REG;
    assert_refused(&n, CMD(&n, CREATE_MR, req), BAD_PARAM,
                   fakernic_create_mr_req, max_pages);
    req.max_pages = LE32(513);
    assert_status(CMD(&n, CREATE_MR, req), BAD_PARAM);
    req.max_pages = LE32(512);
    assert_status(CMD(&n, CREATE_MR, req), OK);

    key = cmd_create(&n, FAKERNIC_CMD_CREATE_MR, &good, sizeof(good));
    g_assert_cmphex(key & 0xff, ==, 0xab);
    g_assert_cmpuint(key >> 8, !=, 0);
    assert_status(cmd_id(&n, FAKERNIC_CMD_DEALLOC_PD, pd), BUSY);
    assert_status(cmd_id(&n, FAKERNIC_CMD_DESTROY_MR, key), OK);
    assert_refused(&n, cmd_id(&n, FAKERNIC_CMD_DESTROY_MR, key), BAD_ID,
                   fakernic_id, id);
    assert_status(cmd_id(&n, FAKERNIC_CMD_DESTROY_MR, 0), BAD_ID);
    assert_status(cmd_id(&n, FAKERNIC_CMD_DESTROY_MR, ~0u), BAD_ID);
    machine_stop(&m);
}

/* The pages of all regions together are bounded. */
static void test_mr_budget(void)
{
    Machine m;
    Nic n;
    uint32_t pd, key;
    uint64_t data;

    machine_start(&m, "%s,max-mr-pages=16", DEVICE);
    nic_find(&n, &m, SLOT);
    nic_bringup(&n);
    pd = pd_alloc(&n);
    data = mem_alloc(&m, 17 * 4096);
    key = mr_create(&n, pd, data, 10 * 4096, 0);
    mr_create(&n, pd, data, 6 * 4096, 0);
    struct fakernic_create_mr_req req = {
        .iova = LE64(data), .length = LE64(4096), .pages = contiguous(data, 1),
        .pdn = LE32(pd), .type = FAKERNIC_MR_MEMORY,
    };
    assert_status(CMD(&n, CREATE_MR, req), NO_RESOURCE);
    assert_status(cmd_id(&n, FAKERNIC_CMD_DESTROY_MR, key), OK);
    mr_create(&n, pd, data, 10 * 4096, 0);
    assert_status(CMD(&n, CREATE_MR, req), NO_RESOURCE);
    machine_stop(&m);
}

static void test_rereg_mw(void)
{
    Machine m;
    Nic n;
    uint32_t pd, other, key, mw;
    uint64_t data;
    struct fakernic_rereg_mr_req req;
    struct fakernic_create_mw_req mw_req;

    start_enabled(&m, &n);
    pd = pd_alloc(&n);
    other = pd_alloc(&n);
    data = mem_alloc(&m, 8192);
    key = mr_create(&n, pd, data, 4096, 0);
    req = (struct fakernic_rereg_mr_req) {
        .key = LE32(key), .pdn = LE32(other),
        .mask = LE32(FAKERNIC_REREG_PD),
    };
    key = cmd_create(&n, FAKERNIC_CMD_REREG_MR, &req, sizeof(req));
    assert_status(cmd_id(&n, FAKERNIC_CMD_DEALLOC_PD, pd), OK);
    assert_status(cmd_id(&n, FAKERNIC_CMD_DEALLOC_PD, other), BUSY);
    req = (struct fakernic_rereg_mr_req) {
        .key = LE32(key), .iova = LE64(data), .length = LE64(8192),
        .pages = contiguous(data, 8192),
        .mask = LE32(FAKERNIC_REREG_TRANSLATION),
    };
    key = cmd_create(&n, FAKERNIC_CMD_REREG_MR, &req, sizeof(req));
    req.key = LE32(key);
    req.pages.page_count = LE32(1);
    assert_status(CMD(&n, REREG_MR, req), BAD_PAGE_LIST);
    req.mask = LE32(8);
    assert_refused(&n, CMD(&n, REREG_MR, req), BAD_PARAM,
                   fakernic_rereg_mr_req, mask);
    req = (struct fakernic_rereg_mr_req) {
        .key = LE32(key + 0x100), .pdn = LE32(other),
        .mask = LE32(FAKERNIC_REREG_PD),
    };
    assert_refused(&n, CMD(&n, REREG_MR, req), BAD_ID,
                   fakernic_rereg_mr_req, key);
    mw_req = (struct fakernic_create_mw_req) {
        .pdn = LE32(other), .type = FAKERNIC_MW_TYPE_2B, .tag = 0x77,
    };
    mw = cmd_create(&n, FAKERNIC_CMD_CREATE_MW, &mw_req, sizeof(mw_req));
    g_assert_cmphex(mw & 0xff, ==, 0x77);
    assert_status(cmd_id(&n, FAKERNIC_CMD_DESTROY_MW, mw), OK);
    assert_status(cmd_id(&n, FAKERNIC_CMD_DESTROY_MW, mw), BAD_ID);
    mw_req.type = 3;
    assert_refused(&n, CMD(&n, CREATE_MW, mw_req), BAD_PARAM,
                   fakernic_create_mw_req, type);
    mw_req.type = FAKERNIC_MW_TYPE_1;
    mw_req.pdn = LE32(pd);
    assert_refused(&n, CMD(&n, CREATE_MW, mw_req), BAD_ID,
                   fakernic_create_mw_req, pdn);
    assert_status(cmd_id(&n, FAKERNIC_CMD_DESTROY_MR, key), OK);
    assert_status(cmd_id(&n, FAKERNIC_CMD_DEALLOC_PD, other), OK);
    machine_stop(&m);
}

/* ---- queue pairs ----------------------------------------------------- */

/* What a data path test needs: EQs, a CQ, a PD, a buffer with its key. */
typedef struct Setup {
    Queue async, eq, cq;
    uint32_t pd, key, other_key;
    uint64_t data;
} Setup;

#define DATA_SIZE 65536

static void setup(Nic *n, Setup *s)
{
    struct fakernic_set_gid_req gid = gid_req(0, own_gid);

    eq_create(n, &s->async, 4, 0, true);
    eq_create(n, &s->eq, 4, 1, false);
    eq_ring(n, &s->eq, true);
    cq_create(n, &s->cq, 6, &s->eq, 0, 0);
    s->pd = pd_alloc(n);
    s->data = mem_alloc(n->m, DATA_SIZE);
    s->key = mr_create(n, s->pd, s->data, DATA_SIZE,
                       FAKERNIC_ACCESS_LOCAL_WRITE |
                       FAKERNIC_ACCESS_REMOTE_WRITE |
                       FAKERNIC_ACCESS_REMOTE_READ |
                       FAKERNIC_ACCESS_REMOTE_ATOMIC);
    assert_status(CMD(n, SET_GID, gid), OK);
}

static void rc_connect(Nic *n, uint32_t qpn, uint32_t dest,
                       const uint8_t *dgid, const uint8_t *dmac)
{
    struct fakernic_modify_qp_req req = {
        .qpn = LE32(qpn),
        .mask = LE32(FAKERNIC_QP_ATTR_STATE | FAKERNIC_QP_ATTR_PKEY_INDEX |
                     FAKERNIC_QP_ATTR_PORT | FAKERNIC_QP_ATTR_ACCESS_FLAGS),
        .attr = {
            .state = FAKERNIC_QPS_INIT,
            .port = 1,
            .access_flags = LE32(FAKERNIC_ACCESS_REMOTE_WRITE |
                                 FAKERNIC_ACCESS_REMOTE_READ |
                                 FAKERNIC_ACCESS_REMOTE_ATOMIC),
            .path_mtu = FAKERNIC_MTU_1024,
            .dest_qpn = LE32(dest),
            .rq_psn = LE32(0xfffffe),
            .sq_psn = LE32(0xfffffe),
            .max_rd_atomic = 4,
            .max_dest_rd_atomic = 4,
            .min_rnr_timer = 12,
            .timeout = 14,
            .retry_cnt = 7,
            .rnr_retry = 7,
        },
    };

    memcpy(req.attr.av.dgid, dgid, 16);
    memcpy(req.attr.av.dmac, dmac, 6);
    assert_status(CMD(n, MODIFY_QP, req), OK);
    req.attr.state = FAKERNIC_QPS_RTR;
    req.mask = LE32(FAKERNIC_QP_ATTR_STATE | FAKERNIC_QP_ATTR_AV |
                    FAKERNIC_QP_ATTR_PATH_MTU | FAKERNIC_QP_ATTR_DEST_QPN |
                    FAKERNIC_QP_ATTR_RQ_PSN |
                    FAKERNIC_QP_ATTR_MAX_DEST_RD_ATOMIC |
                    FAKERNIC_QP_ATTR_MIN_RNR_TIMER);
    assert_status(CMD(n, MODIFY_QP, req), OK);
    req.attr.state = FAKERNIC_QPS_RTS;
    req.mask = LE32(FAKERNIC_QP_ATTR_STATE | FAKERNIC_QP_ATTR_TIMEOUT |
                    FAKERNIC_QP_ATTR_RETRY_CNT | FAKERNIC_QP_ATTR_RNR_RETRY |
                    FAKERNIC_QP_ATTR_SQ_PSN | FAKERNIC_QP_ATTR_MAX_RD_ATOMIC);
    assert_status(CMD(n, MODIFY_QP, req), OK);
}

static void rc_pair(Nic *n, Setup *s, Qp *a, Qp *b)
{
    qp_create(n, a, FAKERNIC_QP_RC, s->pd, &s->cq, 0);
    qp_create(n, b, FAKERNIC_QP_RC, s->pd, &s->cq, 0);
    rc_connect(n, a->qpn, b->qpn, own_gid, nic_mac);
    rc_connect(n, b->qpn, a->qpn, own_gid, nic_mac);
}

/* A WQE of one block with one data segment. */
typedef union Wqe {
    uint8_t bytes[FAKERNIC_SQ_BB_SIZE];
    struct {
        struct fakernic_sq_hdr hdr;
        struct fakernic_sge sge[3];
    } send;
    struct {
        struct fakernic_sq_hdr hdr;
        struct fakernic_sq_rdma rdma;
        struct fakernic_sge sge[2];
    } rdma;
    struct fakernic_sq_hdr hdr;
} Wqe;

static Wqe wqe_send(const Setup *s, uint64_t offset, uint32_t length)
{
    return (Wqe) {
        .send = {
            .hdr = { .opcode = FAKERNIC_SQ_SEND, .flags = FAKERNIC_SQ_SIGNALED,
                     .sge_count = 1, .bb_count = 1 },
            .sge = { { LE64(s->data + offset), LE32(length), LE32(s->key) } },
        },
    };
}

static Wqe wqe_rdma(const Setup *s, uint8_t opcode, uint64_t local,
                    uint64_t remote, uint32_t length)
{
    return (Wqe) {
        .rdma = {
            .hdr = { .opcode = opcode, .flags = FAKERNIC_SQ_SIGNALED,
                     .sge_count = 1, .bb_count = 1 },
            .rdma = { LE64(s->data + remote), LE32(s->key) },
            .sge = { { LE64(s->data + local), LE32(length), LE32(s->key) } },
        },
    };
}

static void fill(Nic *n, const Setup *s, uint64_t offset, size_t len)
{
    g_autofree uint8_t *bytes = g_malloc(len);

    for (size_t i = 0; i < len; i++) {
        bytes[i] = i * 7 + (i >> 8) + 1;
    }
    qtest_memwrite(n->m->qts, s->data + offset, bytes, len);
}

static void assert_same(Nic *n, const Setup *s, uint64_t a, uint64_t b,
                        size_t len)
{
    g_autofree uint8_t *x = g_malloc(len), *y = g_malloc(len);

    qtest_memread(n->m->qts, s->data + a, x, len);
    qtest_memread(n->m->qts, s->data + b, y, len);
    g_assert_cmpmem(x, len, y, len);
}

static void test_qp_create(void)
{
    Machine m;
    Nic n;
    Setup s;
    Queue sq, rq;
    struct fakernic_create_qp_req req, good = {
        .type = FAKERNIC_QP_RC, .sq_log_depth = 2, .rq_log_depth = 2,
        .rq_log_stride = 5,
    };
    uint32_t qpn;

    start_enabled(&m, &n);
    setup(&n, &s);
    good.sq_pages = queue_alloc(&n, &sq, 2, 6);
    good.rq_pages = queue_alloc(&n, &rq, 2, 5);
    good.pdn = LE32(s.pd);
    good.send_cqn = good.recv_cqn = LE32(s.cq.id);
#define BAD(field, value, code)                                              \
    req = good; req.field = value;                                           \
    assert_refused(&n, CMD(&n, CREATE_QP, req), code, fakernic_create_qp_req, \
                   field)
    BAD(type, 0, BAD_PARAM);
    BAD(type, 8, BAD_PARAM);
    BAD(sq_log_depth, 17, BAD_PARAM);
    BAD(rq_log_depth, 17, BAD_PARAM);
    BAD(rq_log_stride, 4, BAD_PARAM);
    BAD(rq_log_stride, 10, BAD_PARAM);
    BAD(pdn, LE32(s.pd + 1), BAD_ID);
    BAD(send_cqn, LE32(0), BAD_ID);
    BAD(recv_cqn, LE32(s.cq.id + 1), BAD_ID);
    BAD(srqn, LE32(5), BAD_ID);
    BAD(xrcdn, LE32(1), BAD_ID);
    BAD(uar, LE32(1), BAD_ID);
#undef BAD
    req = good;
    req.sq_pages.page_count = 0;
    assert_refused(&n, CMD(&n, CREATE_QP, req), BAD_PAGE_LIST,
                   fakernic_create_qp_req, sq_pages);
    req = good;
    req.rq_pages.levels = 9;
    assert_refused(&n, CMD(&n, CREATE_QP, req), BAD_PAGE_LIST,
                   fakernic_create_qp_req, rq_pages);
    req = good;
    req.rq_log_depth = FAKERNIC_QUEUE_NONE;
    assert_refused(&n, CMD(&n, CREATE_QP, req), BAD_PARAM,
                   fakernic_create_qp_req, rq_log_stride);
    req.rq_log_stride = 0;
    assert_refused(&n, CMD(&n, CREATE_QP, req), BAD_PARAM,
                   fakernic_create_qp_req, rq_pages);
    req = good;
    req.type = FAKERNIC_QP_XRC_INI;
    assert_status(CMD(&n, CREATE_QP, req), UNSUPPORTED);

    req = good;
    req.type = FAKERNIC_QP_GSI;
    g_assert_cmpuint(cmd_create(&n, FAKERNIC_CMD_CREATE_QP, &req, sizeof(req)),
                     ==, FAKERNIC_QPN_GSI);
    assert_status(CMD(&n, CREATE_QP, req), BUSY);
    qpn = cmd_create(&n, FAKERNIC_CMD_CREATE_QP, &good, sizeof(good));
    g_assert_cmpuint(qpn, >, 1);
    g_assert_cmpuint(qp_state(&n, qpn), ==, FAKERNIC_QPS_RESET);
    assert_status(cmd_id(&n, FAKERNIC_CMD_DESTROY_CQ, s.cq.id), BUSY);
    assert_status(cmd_id(&n, FAKERNIC_CMD_DEALLOC_PD, s.pd), BUSY);
    assert_status(cmd_id(&n, FAKERNIC_CMD_DESTROY_QP, qpn), OK);
    assert_status(cmd_id(&n, FAKERNIC_CMD_DESTROY_QP, qpn), BAD_ID);
    assert_status(cmd_id(&n, FAKERNIC_CMD_QUERY_QP, qpn), BAD_ID);
    assert_status(cmd_id(&n, FAKERNIC_CMD_DESTROY_QP, 0), BAD_ID);
    assert_status(cmd_id(&n, FAKERNIC_CMD_DESTROY_QP, ~0u), BAD_ID);
    assert_status(cmd_id(&n, FAKERNIC_CMD_DESTROY_QP, FAKERNIC_QPN_GSI), OK);
    assert_status(cmd_id(&n, FAKERNIC_CMD_DESTROY_CQ, s.cq.id), OK);
    machine_stop(&m);
}

static void test_qp_modify(void)
{
    Machine m;
    Nic n;
    Setup s;
    Qp a, b;
    struct fakernic_modify_qp_req req = { 0 };
    struct fakernic_qp_attr attr;
    struct fakernic_id id;

    start_enabled(&m, &n);
    setup(&n, &s);
    qp_create(&n, &a, FAKERNIC_QP_RC, s.pd, &s.cq, 0);
    req.qpn = LE32(999);
    assert_refused(&n, CMD(&n, MODIFY_QP, req), BAD_ID, fakernic_modify_qp_req,
                   qpn);
    req.qpn = LE32(a.qpn);
    /* From RESET straight to RTS. */
    req.mask = LE32(FAKERNIC_QP_ATTR_STATE);
    req.attr.state = FAKERNIC_QPS_RTS;
    assert_status(CMD(&n, MODIFY_QP, req), BAD_STATE);
    req.attr.state = 7;
    assert_refused(&n, CMD(&n, MODIFY_QP, req), BAD_PARAM,
                   fakernic_modify_qp_req, attr.state);
    /* To INIT without the required attributes, then with a bad port. */
    req.attr.state = FAKERNIC_QPS_INIT;
    assert_status(CMD(&n, MODIFY_QP, req), BAD_PARAM);
    req.mask |= LE32(FAKERNIC_QP_ATTR_PKEY_INDEX | FAKERNIC_QP_ATTR_PORT |
                     FAKERNIC_QP_ATTR_ACCESS_FLAGS);
    req.attr.port = 2;
    assert_refused(&n, CMD(&n, MODIFY_QP, req), BAD_PARAM,
                   fakernic_modify_qp_req, attr.port);
    g_assert_cmpuint(qp_state(&n, a.qpn), ==, FAKERNIC_QPS_RESET);
    assert_status(cmd_id(&n, FAKERNIC_CMD_DESTROY_QP, a.qpn), OK);

    rc_pair(&n, &s, &a, &b);
    id = (struct fakernic_id) { .id = LE32(a.qpn) };
    assert_status(cmd(&n, FAKERNIC_CMD_QUERY_QP, &id, sizeof(id), &attr,
                      sizeof(attr)), OK);
    g_assert_cmpuint(attr.state, ==, FAKERNIC_QPS_RTS);
    g_assert_cmpuint(attr.path_mtu, ==, FAKERNIC_MTU_1024);
    g_assert_cmpuint(le32_to_cpu(attr.dest_qpn), ==, b.qpn);
    g_assert_cmphex(le32_to_cpu(attr.sq_psn), ==, 0xfffffe);
    g_assert_cmpuint(attr.timeout, ==, 14);
    g_assert_cmpmem(attr.av.dgid, 16, own_gid, 16);
    g_assert_cmpmem(attr.av.dmac, 6, nic_mac, 6);
    assert_status(qp_to(&n, a.qpn, FAKERNIC_QPS_ERR), OK);
    g_assert_cmpuint(qp_state(&n, a.qpn), ==, FAKERNIC_QPS_ERR);
    assert_status(qp_to(&n, a.qpn, FAKERNIC_QPS_RESET), OK);
    g_assert_cmpuint(qp_state(&n, a.qpn), ==, FAKERNIC_QPS_RESET);
    machine_stop(&m);
}

static void test_srq(void)
{
    Machine m;
    Nic n;
    Setup s;
    Queue ring_;
    struct fakernic_create_srq_req req, good = {
        .log_depth = 2, .log_stride = 6,
    };
    struct fakernic_modify_srq_req modify;
    struct fakernic_query_srq_resp resp;
    struct fakernic_id id;
    uint32_t srqn;

    start_enabled(&m, &n);
    setup(&n, &s);
    good.pages = queue_alloc(&n, &ring_, 2, 6);
    good.pdn = LE32(s.pd);
#define BAD(field, value, code)                                              \
    req = good; req.field = value;                                           \
    assert_refused(&n, CMD(&n, CREATE_SRQ, req), code,                       \
                   fakernic_create_srq_req, field)
    BAD(log_depth, 17, BAD_PARAM);
    BAD(log_stride, 4, BAD_PARAM);
    BAD(log_stride, 10, BAD_PARAM);
    BAD(pdn, 0, BAD_ID);
    BAD(limit, LE32(5), BAD_PARAM);
#undef BAD
    srqn = cmd_create(&n, FAKERNIC_CMD_CREATE_SRQ, &good, sizeof(good));
    id = (struct fakernic_id) { .id = LE32(srqn) };
    assert_status(cmd(&n, FAKERNIC_CMD_QUERY_SRQ, &id, sizeof(id), &resp,
                      sizeof(resp)), OK);
    g_assert_cmpuint(le32_to_cpu(resp.depth), ==, 4);
    g_assert_cmpuint(le32_to_cpu(resp.limit), ==, 0);
    modify = (struct fakernic_modify_srq_req) {
        .srqn = LE32(srqn), .mask = FAKERNIC_SRQ_RESIZE,
    };
    assert_status(CMD(&n, MODIFY_SRQ, modify), UNSUPPORTED);
    modify.mask = 4;
    assert_refused(&n, CMD(&n, MODIFY_SRQ, modify), BAD_PARAM,
                   fakernic_modify_srq_req, mask);
    modify.mask = FAKERNIC_SRQ_LIMIT;
    modify.limit = LE32(5);
    assert_refused(&n, CMD(&n, MODIFY_SRQ, modify), BAD_PARAM,
                   fakernic_modify_srq_req, limit);
    /* Nothing is posted: fewer than 2 are left at once. */
    modify.limit = LE32(2);
    assert_status(CMD(&n, MODIFY_SRQ, modify), OK);
    g_assert_cmpuint(eq_expect(&n, &s.async, FAKERNIC_EVENT_SRQ_LIMIT), ==,
                     srqn);
    assert_status(cmd_id(&n, FAKERNIC_CMD_DEALLOC_PD, s.pd), BUSY);
    assert_status(cmd_id(&n, FAKERNIC_CMD_DESTROY_SRQ, srqn), OK);
    assert_status(cmd_id(&n, FAKERNIC_CMD_DESTROY_SRQ, srqn), BAD_ID);
    assert_status(cmd_id(&n, FAKERNIC_CMD_QUERY_SRQ, srqn), BAD_ID);
    machine_stop(&m);
}

static void test_mcast(void)
{
    static const uint8_t group[16] = { 0xff, 0x0e, [15] = 1 };
    Machine m;
    Nic n;
    Setup s;
    Qp ud, rc;
    struct fakernic_mcast_req req = { 0 };

    start_enabled(&m, &n);
    setup(&n, &s);
    qp_create(&n, &ud, FAKERNIC_QP_UD, s.pd, &s.cq, 0);
    qp_create(&n, &rc, FAKERNIC_QP_RC, s.pd, &s.cq, 0);
    memcpy(req.gid, group, 16);
    req.qpn = LE32(ud.qpn);
    assert_status(CMD(&n, DETACH_MCAST, req), BAD_ID);
    assert_status(CMD(&n, ATTACH_MCAST, req), OK);
    assert_status(CMD(&n, ATTACH_MCAST, req), OK);
    assert_status(CMD(&n, DETACH_MCAST, req), OK);
    assert_status(CMD(&n, DETACH_MCAST, req), BAD_ID);
    req.qpn = LE32(rc.qpn);
    assert_refused(&n, CMD(&n, ATTACH_MCAST, req), BAD_PARAM,
                   fakernic_mcast_req, qpn);
    req.qpn = LE32(0);
    assert_refused(&n, CMD(&n, ATTACH_MCAST, req), BAD_ID, fakernic_mcast_req,
                   qpn);
    req.qpn = LE32(ud.qpn);
    memcpy(req.gid, own_gid, 16);
    assert_refused(&n, CMD(&n, ATTACH_MCAST, req), BAD_PARAM,
                   fakernic_mcast_req, gid);
    machine_stop(&m);
}

/* ---- the data path in loopback --------------------------------------- */

static void test_rc_send(void)
{
    Machine m;
    Nic n;
    Setup s;
    Qp a, b;
    struct fakernic_cqe cqe;

    start_enabled(&m, &n);
    setup(&n, &s);
    rc_pair(&n, &s, &a, &b);
    /* Three packets at a path MTU of 1024; PSNs wrap. */
    fill(&n, &s, 0, 3000);
    rq_post(&n, &b.rq, 0xdead0001, s.data + 8192, 4096, s.key);
    Wqe wqe = wqe_send(&s, 0, 3000);
    wqe.hdr.opcode = FAKERNIC_SQ_SEND_IMM;
    wqe.hdr.imm_or_key = LE32(0x11223344);
    sq_put(&n, &a, &wqe, sizeof(wqe));
    sq_ring(&n, &a);
    cq_expect(&n, &s.cq, &cqe, FAKERNIC_CQE_RECV, FAKERNIC_WC_SUCCESS);
    g_assert_cmpuint(le32_to_cpu(cqe.qpn), ==, b.qpn);
    g_assert_cmphex(le32_to_cpu(cqe.wqe_index), ==, 0xdead0001);
    g_assert_cmpuint(le32_to_cpu(cqe.byte_count), ==, 3000);
    g_assert_cmphex(le32_to_cpu(cqe.imm_or_key), ==, 0x11223344);
    g_assert_true(cqe.flags & FAKERNIC_CQE_IMM);
    cq_expect(&n, &s.cq, &cqe, FAKERNIC_CQE_SEND, FAKERNIC_WC_SUCCESS);
    g_assert_cmpuint(le32_to_cpu(cqe.qpn), ==, a.qpn);
    g_assert_cmpuint(le32_to_cpu(cqe.wqe_index), ==, 0);
    assert_same(&n, &s, 0, 8192, 3000);
    g_assert_cmpuint(nic_stat(&n, FAKERNIC_STAT_RX_LOOPBACK), >=, 4);
    machine_stop(&m);
}

static void test_rc_rdma(void)
{
    Machine m;
    Nic n;
    Setup s;
    Qp a, b;
    struct fakernic_cqe cqe;
    Wqe wqe;

    start_enabled(&m, &n);
    setup(&n, &s);
    rc_pair(&n, &s, &a, &b);
    fill(&n, &s, 0, 10000);
    wqe = wqe_rdma(&s, FAKERNIC_SQ_RDMA_WRITE, 0, 16384, 10000);
    sq_put(&n, &a, &wqe, sizeof(wqe));
    wqe = wqe_rdma(&s, FAKERNIC_SQ_RDMA_READ, 32768, 16384, 10000);
    wqe.hdr.flags |= FAKERNIC_SQ_FENCE;
    sq_put(&n, &a, &wqe, sizeof(wqe));
    sq_ring(&n, &a);
    cq_expect(&n, &s.cq, &cqe, FAKERNIC_CQE_RDMA_WRITE, FAKERNIC_WC_SUCCESS);
    cq_expect(&n, &s.cq, &cqe, FAKERNIC_CQE_RDMA_READ, FAKERNIC_WC_SUCCESS);
    g_assert_cmpuint(le32_to_cpu(cqe.wqe_index), ==, 1);
    g_assert_cmpuint(le32_to_cpu(cqe.byte_count), ==, 10000);
    assert_same(&n, &s, 0, 16384, 10000);
    assert_same(&n, &s, 0, 32768, 10000);
    machine_stop(&m);
}

static void test_rc_atomic(void)
{
    Machine m;
    Nic n;
    Setup s;
    Qp a, b;
    struct fakernic_cqe cqe;
    struct {
        struct fakernic_sq_hdr hdr;
        struct fakernic_sq_atomic atomic;
        struct fakernic_sge sge;
        uint8_t rest[48];
    } wqe;

    start_enabled(&m, &n);
    setup(&n, &s);
    rc_pair(&n, &s, &a, &b);
    qtest_writeq(m.qts, s.data + 64, 40);
    memset(&wqe, 0, sizeof(wqe));
    wqe.hdr = (struct fakernic_sq_hdr) {
        .opcode = FAKERNIC_SQ_ATOMIC_FETCH_ADD, .flags = FAKERNIC_SQ_SIGNALED,
        .sge_count = 1, .bb_count = 2,
    };
    wqe.atomic.remote_address = LE64(s.data + 64);
    wqe.atomic.rkey = LE32(s.key);
    wqe.atomic.swap_or_add = LE64(2);
    wqe.sge = (struct fakernic_sge) { LE64(s.data), LE32(8), LE32(s.key) };
    sq_put(&n, &a, &wqe, sizeof(wqe));
    wqe.hdr.opcode = FAKERNIC_SQ_ATOMIC_CMP_SWAP;
    wqe.atomic.compare = LE64(42);
    wqe.atomic.swap_or_add = LE64(0x123456789abcdef0ull);
    wqe.sge.address = LE64(s.data + 8);
    sq_put(&n, &a, &wqe, sizeof(wqe));
    sq_ring(&n, &a);
    cq_expect(&n, &s.cq, &cqe, FAKERNIC_CQE_FETCH_ADD, FAKERNIC_WC_SUCCESS);
    cq_expect(&n, &s.cq, &cqe, FAKERNIC_CQE_CMP_SWAP, FAKERNIC_WC_SUCCESS);
    g_assert_cmpuint(le32_to_cpu(cqe.wqe_index), ==, 2);
    g_assert_cmpuint(qtest_readq(m.qts, s.data), ==, 40);
    g_assert_cmpuint(qtest_readq(m.qts, s.data + 8), ==, 42);
    g_assert_cmphex(qtest_readq(m.qts, s.data + 64), ==, 0x123456789abcdef0ull);
    machine_stop(&m);
}

/* 8 bytes, inline, stored as one. */
static void test_rc_atomic_write(void)
{
    Machine m;
    Nic n;
    Setup s;
    Qp a, b;
    struct fakernic_cqe cqe;
    Wqe wqe;

    start_enabled(&m, &n);
    setup(&n, &s);
    rc_pair(&n, &s, &a, &b);
    wqe = wqe_rdma(&s, FAKERNIC_SQ_ATOMIC_WRITE, 0, 4096, 0);
    wqe.hdr.sge_count = 0;
    wqe.hdr.inline_length = LE16(8);
    wqe.hdr.flags |= FAKERNIC_SQ_INLINE;
    memcpy(wqe.bytes + FAKERNIC_SQ_DATA_OFFSET_RDMA, "atomic-w", 8);
    sq_put(&n, &a, &wqe, sizeof(wqe));
    sq_ring(&n, &a);
    cq_expect(&n, &s.cq, &cqe, FAKERNIC_CQE_ATOMIC_WRITE, FAKERNIC_WC_SUCCESS);
    g_assert_cmphex(qtest_readq(m.qts, s.data + 4096), ==,
                    ldq_le_p("atomic-w"));
    machine_stop(&m);
}

/* Posts a WQE that consists of a header and a 48-byte segment. */
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

/* Registered by a work request from a table, used, invalidated, refused. */
static void test_fast_reg(void)
{
    Machine m;
    Nic n;
    Setup s;
    Qp a, b;
    struct fakernic_cqe cqe;
    struct fakernic_sq_reg_mr reg;
    uint32_t key;
    Wqe wqe;

    start_enabled(&m, &n);
    setup(&n, &s);
    rc_pair(&n, &s, &a, &b);
    key = (fast_reg_key(&n, s.pd, 4) & ~0xffu) | 0x42;
    /* Pages 3, 2, 1, 0 of the buffer, from address 0x10000 on. */
    reg = (struct fakernic_sq_reg_mr) {
        .iova = LE64(0x10000), .length = LE64(4 * 4096), .key = LE32(key),
        .access = LE32(FAKERNIC_ACCESS_LOCAL_WRITE |
                       FAKERNIC_ACCESS_REMOTE_WRITE),
        .pages = { .address = LE64(build_tables(&m, 1, s.data + 3 * 4096,
                                                -4096ull, 4)),
                   .page_count = LE32(4), .page_shift = 12, .levels = 1 },
    };
    post_segment(&n, &a, FAKERNIC_SQ_REG_MR, &reg);
    cq_expect(&n, &s.cq, &cqe, FAKERNIC_CQE_REG_MR, FAKERNIC_WC_SUCCESS);
    fill(&n, &s, 32768, 8192);
    wqe = wqe_rdma(&s, FAKERNIC_SQ_RDMA_WRITE, 32768, 0, 8192);
    wqe.rdma.rdma.remote_address = LE64(0x10000);
    wqe.rdma.rdma.rkey = LE32(key);
    sq_put(&n, &a, &wqe, sizeof(wqe));
    sq_ring(&n, &a);
    cq_expect(&n, &s.cq, &cqe, FAKERNIC_CQE_RDMA_WRITE, FAKERNIC_WC_SUCCESS);
    assert_same(&n, &s, 32768, 3 * 4096, 4096);
    assert_same(&n, &s, 32768 + 4096, 2 * 4096, 4096);
    wqe = (Wqe) { .hdr = { .opcode = FAKERNIC_SQ_LOCAL_INV, .bb_count = 1,
                           .flags = FAKERNIC_SQ_SIGNALED,
                           .imm_or_key = LE32(key) } };
    sq_put(&n, &a, &wqe, sizeof(wqe));
    sq_ring(&n, &a);
    cq_expect(&n, &s.cq, &cqe, FAKERNIC_CQE_LOCAL_INV, FAKERNIC_WC_SUCCESS);
    wqe = wqe_rdma(&s, FAKERNIC_SQ_RDMA_WRITE, 32768, 0, 8);
    wqe.rdma.rdma.rkey = LE32(key);
    sq_put(&n, &a, &wqe, sizeof(wqe));
    sq_ring(&n, &a);
    cq_expect(&n, &s.cq, &cqe, FAKERNIC_CQE_RDMA_WRITE,
              FAKERNIC_WC_REM_ACCESS_ERR);
    machine_stop(&m);
}

/* Malformed page lists and reserved fields in REG_MR and BIND_MW. */
static void test_segment_malformed(void)
{
    Machine m;
    Nic n;
    Setup s;
    struct {
        struct fakernic_sq_reg_mr reg;
        uint16_t vendor_err;
    } cases[6];
    struct fakernic_sq_bind_mw bind = { .rsvd = { 0, LE64(1) } };
    struct fakernic_cqe cqe;
    Qp a, b;

    start_enabled(&m, &n);
    setup(&n, &s);
    for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
        cases[i].reg = (struct fakernic_sq_reg_mr) {
            .length = LE64(4096), .key = LE32(fast_reg_key(&n, s.pd, 512)),
            .pages = contiguous(s.data, 4096),
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
        rc_pair(&n, &s, &a, &b);
        post_segment(&n, &a, FAKERNIC_SQ_REG_MR, &cases[i].reg);
        cq_expect(&n, &s.cq, &cqe, FAKERNIC_CQE_SEND,
                  FAKERNIC_WC_LOC_QP_OP_ERR);
        g_assert_cmpuint(le16_to_cpu(cqe.vendor_err), ==, cases[i].vendor_err);
    }
    rc_pair(&n, &s, &a, &b);
    post_segment(&n, &a, FAKERNIC_SQ_BIND_MW, &bind);
    cq_expect(&n, &s.cq, &cqe, FAKERNIC_CQE_SEND, FAKERNIC_WC_LOC_QP_OP_ERR);
    g_assert_cmpuint(le16_to_cpu(cqe.vendor_err), ==, FAKERNIC_VENDOR_SQ_RSVD);
    machine_stop(&m);
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

/* A datagram, then one with a reserved field set: the SQ alone fails. */
static void test_ud(void)
{
    Machine m;
    Nic n;
    Setup s;
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

    start_enabled(&m, &n);
    setup(&n, &s);
    ud_up(&n, &s, &a, 0x1111);
    ud_up(&n, &s, &b, 0x2222);
    fill(&n, &s, 0, 500);
    rq_post(&n, &b.rq, 9, s.data + 4096, 4096, s.key);
    memcpy(wqe.ud.av.dgid, own_gid, 16);
    memcpy(wqe.ud.av.dmac, nic_mac, 6);
    wqe.ud.dest_qpn = LE32(b.qpn);
    wqe.ud.qkey = LE32(0x2222);
    wqe.sge = (struct fakernic_sge) { LE64(s.data), LE32(500), LE32(s.key) };
    sq_put(&n, &a, &wqe, sizeof(wqe));
    sq_ring(&n, &a);
    for (unsigned i = 0; i < 2; i++) {
        while (!cq_poll(&n, &s.cq, &cqe)) {
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
    assert_same(&n, &s, 0, 4096 + 40, 500);
    wqe.ud.av.rsvd = LE16(1);
    sq_put(&n, &a, &wqe, sizeof(wqe));
    sq_ring(&n, &a);
    cq_expect(&n, &s.cq, &cqe, FAKERNIC_CQE_SEND, FAKERNIC_WC_LOC_QP_OP_ERR);
    g_assert_cmpuint(le16_to_cpu(cqe.vendor_err), ==, FAKERNIC_VENDOR_SQ_RSVD);
    g_assert_cmpuint(qp_state(&n, a.qpn), ==, FAKERNIC_QPS_SQE);
    machine_stop(&m);
}

/* Receives: too many SGEs, a reserved field, an index no queue can have. */
static void test_recv_malformed(void)
{
    Machine m;
    Nic n;
    Setup s;
    struct fakernic_cqe cqe;
    Wqe wqe;

    start_enabled(&m, &n);
    setup(&n, &s);
    for (unsigned i = 0; i < 3; i++) {
        Qp a, b;

        rc_pair(&n, &s, &a, &b);
        rq_post(&n, &b.rq, 77, s.data + 4096, 4096, s.key);
        switch (i) {
        case 0:
            qtest_writeb(m.qts, b.rq.address + 4, 4);   /* slots hold 3 */
            break;
        case 1:
            qtest_writeb(m.qts, b.rq.address + 15, 1);
            break;
        default:
            queue_record(&n, &b.rq, b.rq.depth + 1);
            break;
        }
        wqe = wqe_send(&s, 0, 8);
        sq_put(&n, &a, &wqe, sizeof(wqe));
        sq_ring(&n, &a);
        if (i < 2) {
            cq_expect(&n, &s.cq, &cqe, FAKERNIC_CQE_RECV,
                      FAKERNIC_WC_LOC_QP_OP_ERR);
            g_assert_cmphex(le32_to_cpu(cqe.wqe_index), ==, 77);
            g_assert_cmpuint(le16_to_cpu(cqe.vendor_err), ==,
                             FAKERNIC_VENDOR_RQ_FORMAT);
        }
        cq_expect(&n, &s.cq, &cqe, FAKERNIC_CQE_SEND, FAKERNIC_WC_REM_OP_ERR);
        g_assert_cmpuint(qp_state(&n, b.qpn), ==, FAKERNIC_QPS_ERR);
    }
    machine_stop(&m);
}

/* A WQE that wraps around the end of the ring, with inline data. */
static void test_rc_inline_wrap(void)
{
    Machine m;
    Nic n;
    Setup s;
    Qp a, b;
    struct fakernic_cqe cqe;
    QEMU_ALIGNED(8) uint8_t wqe[FAKERNIC_SQ_WQE_SIZE_MAX] = { 0 };
    uint8_t seen[FAKERNIC_INLINE_MAX];
    struct fakernic_sq_hdr *hdr = (void *)wqe;
    struct fakernic_sq_rdma *rdma = (void *)(wqe + sizeof(*hdr));

    start_enabled(&m, &n);
    setup(&n, &s);
    rc_pair(&n, &s, &a, &b);
    *hdr = (struct fakernic_sq_hdr) {
        .opcode = FAKERNIC_SQ_RDMA_WRITE,
        .flags = FAKERNIC_SQ_SIGNALED | FAKERNIC_SQ_INLINE,
        .bb_count = 9, .inline_length = LE16(FAKERNIC_INLINE_MAX),
    };
    rdma->rkey = LE32(s.key);
    for (unsigned round = 0; round < 8; round++) {
        rdma->remote_address = LE64(s.data + round * 1024);
        memset(wqe + FAKERNIC_SQ_DATA_OFFSET_RDMA, round + 1,
               FAKERNIC_INLINE_MAX);
        sq_put(&n, &a, wqe, sizeof(wqe));
        sq_ring(&n, &a);
        cq_expect(&n, &s.cq, &cqe, FAKERNIC_CQE_RDMA_WRITE,
                  FAKERNIC_WC_SUCCESS);
        g_assert_cmpuint(le32_to_cpu(cqe.wqe_index), ==, round * 9);
        qtest_memread(m.qts, s.data + round * 1024, seen, sizeof(seen));
        g_assert_cmpmem(seen, sizeof(seen), wqe + FAKERNIC_SQ_DATA_OFFSET_RDMA,
                        sizeof(seen));
    }
    machine_stop(&m);
}

/* A receive posted only after the message came: RNR NAK, wait, retry. */
static void test_rc_rnr(void)
{
    Machine m;
    Nic n;
    Setup s;
    Qp a, b;
    struct fakernic_cqe cqe;
    Wqe wqe;

    start_enabled(&m, &n);
    setup(&n, &s);
    rc_pair(&n, &s, &a, &b);
    wqe = wqe_send(&s, 0, 100);
    sq_put(&n, &a, &wqe, sizeof(wqe));
    sq_ring(&n, &a);
    g_assert_cmpuint(nic_stat(&n, FAKERNIC_STAT_RX_RNR_NAK), ==, 1);
    g_assert_false(cq_poll(&n, &s.cq, &cqe));
    rq_post(&n, &b.rq, 5, s.data + 4096, 4096, s.key);
    cq_expect(&n, &s.cq, &cqe, FAKERNIC_CQE_RECV, FAKERNIC_WC_SUCCESS);
    cq_expect(&n, &s.cq, &cqe, FAKERNIC_CQE_SEND, FAKERNIC_WC_SUCCESS);
    machine_stop(&m);
}

/* Each malformed WQE: its vendor error, and the QP in the error state. */
static void test_wqe_malformed(void)
{
    Machine m;
    Nic n;
    Setup s;
    struct {
        Wqe wqe;
        uint16_t vendor_err;
    } cases[12];
    unsigned count = 0;

    start_enabled(&m, &n);
    setup(&n, &s);
#define CASE(err, change) do {                                               \
        Wqe *w = &cases[count].wqe;                                          \
        *w = wqe_rdma(&s, FAKERNIC_SQ_RDMA_WRITE, 0, 4096, 16);              \
        change;                                                              \
        cases[count++].vendor_err = FAKERNIC_VENDOR_ ## err;                 \
    } while (0)
    CASE(SQ_OPCODE, w->hdr.opcode = 0);
    CASE(SQ_OPCODE, w->hdr.opcode = 18);
    CASE(SQ_OPCODE, w->hdr.opcode = FAKERNIC_SQ_FLUSH);
    CASE(SQ_FORMAT, w->hdr.bb_count = 0);
    CASE(SQ_FORMAT, w->hdr.bb_count = 10);
    CASE(SQ_FORMAT, w->hdr.sge_count = 3);
    CASE(SQ_FORMAT, w->hdr.sge_count = 31);
    CASE(SQ_FORMAT, w->hdr.inline_length = LE16(1));
    CASE(SQ_FORMAT, w->hdr.flags |= FAKERNIC_SQ_INLINE);
    CASE(SQ_RSVD, w->hdr.rsvd = LE16(1));
    CASE(SQ_RSVD, w->hdr.flags |= 0x80);
    CASE(SQ_RSVD, w->rdma.rdma.flush = LE32(1));
#undef CASE
    g_assert_cmpuint(count, ==, ARRAY_SIZE(cases));
    for (unsigned i = 0; i < count; i++) {
        struct fakernic_cqe cqe;
        Qp a, b;
        Wqe next = wqe_send(&s, 0, 1);

        rc_pair(&n, &s, &a, &b);
        sq_put(&n, &a, &cases[i].wqe, sizeof(Wqe));
        a.sq.index = 1;
        sq_put(&n, &a, &next, sizeof(next));
        sq_ring(&n, &a);
        /* What it was meant to be is not known: it completes as a send. */
        cq_expect(&n, &s.cq, &cqe, FAKERNIC_CQE_SEND,
                  FAKERNIC_WC_LOC_QP_OP_ERR);
        g_assert_cmpuint(le16_to_cpu(cqe.vendor_err), ==, cases[i].vendor_err);
        g_assert_cmpuint(le32_to_cpu(cqe.wqe_index), ==, 0);
        g_assert_cmpuint(le32_to_cpu(cqe.qpn), ==, a.qpn);
        cq_expect(&n, &s.cq, &cqe, FAKERNIC_CQE_SEND, FAKERNIC_WC_WR_FLUSH_ERR);
        g_assert_cmpuint(le32_to_cpu(cqe.wqe_index), ==, 1);
        g_assert_cmpuint(qp_state(&n, a.qpn), ==, FAKERNIC_QPS_ERR);
        queue_record(&n, &s.cq, s.cq.index);
        assert_status(cmd_id(&n, FAKERNIC_CMD_DESTROY_QP, a.qpn), OK);
        assert_status(cmd_id(&n, FAKERNIC_CMD_DESTROY_QP, b.qpn), OK);
    }
    machine_stop(&m);
}

/* An index no queue can have breaks the QP, with an event. */
static void test_sq_overrun(void)
{
    Machine m;
    Nic n;
    Setup s;
    Qp a, b;

    start_enabled(&m, &n);
    setup(&n, &s);
    rc_pair(&n, &s, &a, &b);
    ring(&n, 0, FAKERNIC_DOORBELL_SQ, doorbell(a.qpn, a.sq.depth + 1));
    g_assert_cmpuint(eq_expect(&n, &s.async, FAKERNIC_EVENT_QP_FATAL), ==,
                     a.qpn);
    g_assert_cmpuint(qp_state(&n, a.qpn), ==, FAKERNIC_QPS_ERR);
    machine_stop(&m);
}

static void test_key_errors(void)
{
    Machine m;
    Nic n;
    Setup s;
    Qp a, b;
    struct fakernic_cqe cqe;
    Wqe wqe;

    start_enabled(&m, &n);
    setup(&n, &s);
    /* The local key's tag is wrong. */
    rc_pair(&n, &s, &a, &b);
    wqe = wqe_rdma(&s, FAKERNIC_SQ_RDMA_WRITE, 0, 4096, 16);
    wqe.rdma.sge[0].lkey ^= LE32(1);
    sq_put(&n, &a, &wqe, sizeof(wqe));
    sq_ring(&n, &a);
    cq_expect(&n, &s.cq, &cqe, FAKERNIC_CQE_RDMA_WRITE,
              FAKERNIC_WC_LOC_PROT_ERR);
    g_assert_cmpuint(le16_to_cpu(cqe.vendor_err), ==, FAKERNIC_VENDOR_KEY_TAG);
    /* The remote range ends one byte behind the region. */
    rc_pair(&n, &s, &a, &b);
    wqe = wqe_rdma(&s, FAKERNIC_SQ_RDMA_WRITE, 0, DATA_SIZE - 15, 16);
    sq_put(&n, &a, &wqe, sizeof(wqe));
    sq_ring(&n, &a);
    cq_expect(&n, &s.cq, &cqe, FAKERNIC_CQE_RDMA_WRITE,
              FAKERNIC_WC_REM_ACCESS_ERR);
    g_assert_cmpuint(le16_to_cpu(cqe.vendor_err), ==,
                     FAKERNIC_VENDOR_NAK_REMOTE_ACCESS);
    g_assert_cmpuint(eq_expect(&n, &s.async, FAKERNIC_EVENT_QP_ACCESS_ERROR),
                     ==, b.qpn);
    g_assert_cmpuint(qp_state(&n, b.qpn), ==, FAKERNIC_QPS_ERR);
    machine_stop(&m);
}

static void test_srq_receive(void)
{
    Machine m;
    Nic n;
    Setup s;
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

    start_enabled(&m, &n);
    setup(&n, &s);
    srq_req.pages = queue_alloc(&n, &srq, 2, 6);
    srq_req.pdn = LE32(s.pd);
    srq.id = cmd_create(&n, FAKERNIC_CMD_CREATE_SRQ, &srq_req,
                        sizeof(srq_req));
    qp_req.sq_pages = queue_alloc(&n, &sq, 2, 6);
    qp_req.pdn = LE32(s.pd);
    qp_req.send_cqn = qp_req.recv_cqn = LE32(s.cq.id);
    qp_req.srqn = LE32(srq.id);
    b.qpn = cmd_create(&n, FAKERNIC_CMD_CREATE_QP, &qp_req, sizeof(qp_req));
    assert_status(cmd_id(&n, FAKERNIC_CMD_DESTROY_SRQ, srq.id), BUSY);
    qp_create(&n, &a, FAKERNIC_QP_RC, s.pd, &s.cq, 0);
    rc_connect(&n, a.qpn, b.qpn, own_gid, nic_mac);
    rc_connect(&n, b.qpn, a.qpn, own_gid, nic_mac);
    fill(&n, &s, 0, 500);
    rq_post(&n, &srq, 0xabc, s.data + 4096, 4096, s.key);
    wqe = wqe_send(&s, 0, 500);
    sq_put(&n, &a, &wqe, sizeof(wqe));
    sq_ring(&n, &a);
    cq_expect(&n, &s.cq, &cqe, FAKERNIC_CQE_RECV, FAKERNIC_WC_SUCCESS);
    g_assert_cmpuint(le32_to_cpu(cqe.srqn), ==, srq.id);
    g_assert_cmphex(le32_to_cpu(cqe.wqe_index), ==, 0xabc);
    assert_same(&n, &s, 0, 4096, 500);
    /* None is left: the limit of 1 is passed. */
    g_assert_cmpuint(eq_expect(&n, &s.async, FAKERNIC_EVENT_SRQ_LIMIT), ==,
                     srq.id);
    machine_stop(&m);
}

/* ---- completion queues, events, interrupts --------------------------- */

/* A NOP completes without a peer: CQEs made to order. */
static void complete_nops(Nic *n, Qp *qp, unsigned count)
{
    Wqe wqe = {
        .hdr = { .opcode = FAKERNIC_SQ_NOP, .flags = FAKERNIC_SQ_SIGNALED,
                 .bb_count = 1 },
    };

    while (count--) {
        sq_put(n, qp, &wqe, sizeof(wqe));
        sq_ring(n, qp);
    }
}

static void test_event_and_interrupt(void)
{
    Machine m;
    Nic n;
    Setup s;
    Qp a, b;
    struct fakernic_eqe eqe;
    struct fakernic_cqe cqe;

    start_enabled(&m, &n);
    setup(&n, &s);
    rc_pair(&n, &s, &a, &b);
    /* Not armed: a completion, no event. */
    complete_nops(&n, &a, 1);
    cq_expect(&n, &s.cq, &cqe, FAKERNIC_CQE_NOP, FAKERNIC_WC_SUCCESS);
    g_assert_false(eq_poll(&n, &s.eq, &eqe));
    g_assert_false(msix_fired(&n, 1));
    /* Armed: one event for two completions, one interrupt. */
    cq_arm(&n, &s.cq, 0, false);
    g_assert_false(eq_poll(&n, &s.eq, &eqe));
    complete_nops(&n, &a, 2);
    g_assert_cmpuint(eq_expect(&n, &s.eq, FAKERNIC_EVENT_COMPLETION), ==,
                     s.cq.id);
    g_assert_false(eq_poll(&n, &s.eq, &eqe));
    g_assert_true(msix_fired(&n, 1));
    /* Armed behind the device's back: at once. The EQ itself is not armed. */
    cq_arm(&n, &s.cq, 0, false);
    g_assert_cmpuint(eq_expect(&n, &s.eq, FAKERNIC_EVENT_COMPLETION), ==,
                     s.cq.id);
    g_assert_false(msix_fired(&n, 1));
    s.eq.index--;
    eq_ring(&n, &s.eq, true);       /* something lies beyond: at once */
    g_assert_true(msix_fired(&n, 1));
    s.eq.index++;
    eq_ring(&n, &s.eq, true);
    g_assert_false(msix_fired(&n, 1));
    machine_stop(&m);
}

static void test_event_solicited(void)
{
    Machine m;
    Nic n;
    Setup s;
    Qp a, b;
    struct fakernic_eqe eqe;
    struct fakernic_cqe cqe;
    Wqe wqe;

    start_enabled(&m, &n);
    setup(&n, &s);
    rc_pair(&n, &s, &a, &b);
    cq_arm(&n, &s.cq, 0, true);
    complete_nops(&n, &a, 1);
    cq_expect(&n, &s.cq, &cqe, FAKERNIC_CQE_NOP, FAKERNIC_WC_SUCCESS);
    g_assert_false(eq_poll(&n, &s.eq, &eqe));
    rq_post(&n, &b.rq, 1, s.data + 4096, 4096, s.key);
    wqe = wqe_send(&s, 0, 8);
    wqe.hdr.flags |= FAKERNIC_SQ_SOLICITED;
    sq_put(&n, &a, &wqe, sizeof(wqe));
    sq_ring(&n, &a);
    g_assert_cmpuint(eq_expect(&n, &s.eq, FAKERNIC_EVENT_COMPLETION), ==,
                     s.cq.id);
    /* Solicited entries from ci on count when arming; those before do not. */
    cq_expect(&n, &s.cq, &cqe, FAKERNIC_CQE_RECV, FAKERNIC_WC_SUCCESS);
    cq_arm(&n, &s.cq, 0, true);
    g_assert_false(eq_poll(&n, &s.eq, &eqe));
    s.cq.index--;
    cq_arm(&n, &s.cq, 0, true);
    g_assert_true(eq_poll(&n, &s.eq, &eqe));
    machine_stop(&m);
}

static void test_msix_masked(void)
{
    Machine m;
    Nic n;

    start_enabled(&m, &n);
    msix_mask(&n, 0, true);
    assert_status(cmd(&n, FAKERNIC_CMD_NOP, NULL, 0, NULL, 0), OK);
    g_assert_false(msix_fired(&n, 0));
    g_assert_true(qpci_msix_pending(n.pci, 0));
    msix_mask(&n, 0, false);
    g_assert_true(msix_fired(&n, 0));
    g_assert_false(qpci_msix_pending(n.pci, 0));
    machine_stop(&m);
}

/* Many objects raise events, the EQ holds 16: none is lost. */
static void test_eq_full(void)
{
    Machine m;
    Nic n;
    Setup s;
    Qp qp[20];
    struct fakernic_eqe eqe;
    bool seen[20] = { false };
    unsigned count = 0;

    start_enabled(&m, &n);
    setup(&n, &s);
    for (unsigned i = 0; i < 20; i++) {
        qp_create(&n, &qp[i], FAKERNIC_QP_RC, s.pd, &s.cq, 0);
        rc_connect(&n, qp[i].qpn, qp[i].qpn, own_gid, nic_mac);
        ring(&n, 0, FAKERNIC_DOORBELL_SQ, doorbell(qp[i].qpn, 1000));
    }
    g_assert_cmpuint(nic_stat(&n, FAKERNIC_STAT_EQ_DELAYED), >=, 4);
    while (eq_poll(&n, &s.async, &eqe)) {
        count++;
        g_assert_cmpuint(eqe.type, ==, FAKERNIC_EVENT_QP_FATAL);
        g_assert_cmpuint(le32_to_cpu(eqe.data), ==, FAKERNIC_VENDOR_SQ_OVERRUN);
        for (unsigned i = 0; i < 20; i++) {
            seen[i] |= le32_to_cpu(eqe.id) == qp[i].qpn;
        }
        if (count % 5 == 0) {
            eq_ring(&n, &s.async, true);
        }
    }
    g_assert_cmpuint(count, ==, 20);
    for (unsigned i = 0; i < 20; i++) {
        g_assert_true(seen[i]);
    }
    /* An index the queue cannot have. */
    s.async.index += 100;
    eq_ring(&n, &s.async, false);
    g_assert_cmpuint(nic_stat(&n, FAKERNIC_STAT_DOORBELL_DROPPED), ==, 1);
    machine_stop(&m);
}

static void test_cq_overrun(void)
{
    Machine m;
    Nic n;
    Setup s;
    Queue small;
    Qp a;
    struct fakernic_cqe cqe;

    start_enabled(&m, &n);
    setup(&n, &s);
    cq_create(&n, &small, 2, &s.eq, 0, 0);
    qp_create(&n, &a, FAKERNIC_QP_RC, s.pd, &small, 0);
    rc_connect(&n, a.qpn, a.qpn, own_gid, nic_mac);
    /* Consumed in time: the device looks at the record. */
    complete_nops(&n, &a, 4);
    for (unsigned i = 0; i < 4; i++) {
        cq_expect(&n, &small, &cqe, FAKERNIC_CQE_NOP, FAKERNIC_WC_SUCCESS);
    }
    queue_record(&n, &small, small.index);
    complete_nops(&n, &a, 4);
    g_assert_cmpuint(qp_state(&n, a.qpn), ==, FAKERNIC_QPS_RTS);
    complete_nops(&n, &a, 1);
    g_assert_cmpuint(eq_expect(&n, &s.async, FAKERNIC_EVENT_CQ_ERROR), ==,
                     small.id);
    g_assert_cmpuint(eq_expect(&n, &s.async, FAKERNIC_EVENT_QP_FATAL), ==,
                     a.qpn);
    g_assert_cmpuint(qp_state(&n, a.qpn), ==, FAKERNIC_QPS_ERR);
    g_assert_cmpuint(nic_stat(&n, FAKERNIC_STAT_CQ_OVERRUNS), ==, 1);
    /* The four that were written are intact; a fifth is not. */
    for (unsigned i = 0; i < 4; i++) {
        g_assert_true(cq_poll(&n, &small, &cqe));
        g_assert_cmpuint(le32_to_cpu(cqe.wqe_index), ==, 4 + i);
    }
    g_assert_false(cq_poll(&n, &small, &cqe));
    assert_status(cmd_id(&n, FAKERNIC_CMD_DESTROY_QP, a.qpn), OK);
    assert_status(cmd_id(&n, FAKERNIC_CMD_DESTROY_CQ, small.id), OK);
    machine_stop(&m);
}

static void test_cq_resize(void)
{
    Machine m;
    Nic n;
    Setup s;
    Queue cq, wide;
    Qp a;
    struct fakernic_cqe cqe;
    struct fakernic_resize_cq_req req;

    start_enabled(&m, &n);
    setup(&n, &s);
    cq_create(&n, &cq, 2, &s.eq, 0, 0);
    qp_create(&n, &a, FAKERNIC_QP_RC, s.pd, &cq, 0);
    rc_connect(&n, a.qpn, a.qpn, own_gid, nic_mac);
    complete_nops(&n, &a, 4);
    cq_expect(&n, &cq, &cqe, FAKERNIC_CQE_NOP, FAKERNIC_WC_SUCCESS);
    queue_record(&n, &cq, cq.index);
    complete_nops(&n, &a, 1);       /* ring positions 1, 2, 3, 0 */
    req = (struct fakernic_resize_cq_req) {
        .pages = queue_alloc(&n, &wide, 4, 6), .cqn = LE32(cq.id),
        .log_depth = 1,
    };
    assert_refused(&n, CMD(&n, RESIZE_CQ, req), BAD_PARAM,
                   fakernic_resize_cq_req, log_depth);
    req.log_depth = 4;
    req.cqn = LE32(cq.id + 1);
    assert_refused(&n, CMD(&n, RESIZE_CQ, req), BAD_ID,
                   fakernic_resize_cq_req, cqn);
    req.cqn = LE32(cq.id);
    assert_status(CMD(&n, RESIZE_CQ, req), OK);
    complete_nops(&n, &a, 2);
    for (unsigned i = 0; i < 6; i++) {
        g_assert_true(cq_poll(&n, &wide, &cqe));
        g_assert_cmpuint(le32_to_cpu(cqe.wqe_index), ==, 1 + i);
    }
    g_assert_false(cq_poll(&n, &wide, &cqe));
    machine_stop(&m);
}

/* ---- doorbells ------------------------------------------------------- */

static void test_doorbell_rules(void)
{
    Machine m;
    Nic n;
    Setup s;
    Qp a, b;
    struct fakernic_cqe cqe;
    uint32_t uar, other;
    uint64_t page, word;
    unsigned dropped = 0;
    Wqe nop = { .hdr = { .opcode = FAKERNIC_SQ_NOP, .bb_count = 1,
                         .flags = FAKERNIC_SQ_SIGNALED } };

    start_enabled(&m, &n);
    setup(&n, &s);
    uar = cmd_create(&n, FAKERNIC_CMD_ALLOC_UAR, NULL, 0);
    other = cmd_create(&n, FAKERNIC_CMD_ALLOC_UAR, NULL, 0);
    qp_create(&n, &a, FAKERNIC_QP_RC, s.pd, &s.cq, uar);
    qp_create(&n, &b, FAKERNIC_QP_RC, s.pd, &s.cq, uar);
    rc_connect(&n, a.qpn, b.qpn, own_gid, nic_mac);
    sq_put(&n, &a, &nop, sizeof(nop));
    word = doorbell(a.qpn, 1);
    page = n.uar.addr + uar * FAKERNIC_PAGE_SIZE;

    ring(&n, other, FAKERNIC_DOORBELL_SQ, word);
    ring(&n, 0, FAKERNIC_DOORBELL_SQ, word);
    ring(&n, other + 1, FAKERNIC_DOORBELL_SQ, word);
    ring(&n, 1024, FAKERNIC_DOORBELL_SQ, word);
    ring(&n, uar, 0x18, word);
    ring(&n, uar, 0xff8, word);
    ring(&n, uar, FAKERNIC_DOORBELL_SQ, word | 1ull << 58);
    ring(&n, uar, FAKERNIC_DOORBELL_SQ, word | FAKERNIC_DOORBELL_ARM);
    ring(&n, uar, FAKERNIC_DOORBELL_SQ, doorbell(0xffffff, 1));
    ring(&n, uar, FAKERNIC_DOORBELL_CQ_ARM, doorbell(s.cq.id, 0));
    ring(&n, uar, FAKERNIC_DOORBELL_EQ, doorbell(s.eq.id, 0));
    dropped += 11;
    qtest_writel(m.qts, page, 1);
    qtest_writel(m.qts, page + 4, a.qpn);
    qtest_writew(m.qts, page, 1);
    qtest_writeb(m.qts, page, 1);
    dropped += 4;
    g_assert_cmpuint(nic_stat(&n, FAKERNIC_STAT_DOORBELL_DROPPED), ==, dropped);
    g_assert_false(cq_poll(&n, &s.cq, &cqe));
    g_assert_cmphex(qtest_readq(m.qts, page), ==, 0);

    sq_ring(&n, &a);
    cq_expect(&n, &s.cq, &cqe, FAKERNIC_CQE_NOP, FAKERNIC_WC_SUCCESS);
    /* Overtaken: ignored. */
    ring(&n, uar, FAKERNIC_DOORBELL_SQ, doorbell(a.qpn, 0));
    g_assert_cmpuint(qp_state(&n, a.qpn), ==, FAKERNIC_QPS_RTS);
    assert_status(cmd_id(&n, FAKERNIC_CMD_DEALLOC_UAR, uar), BUSY);
    machine_stop(&m);
}

/* ---- resets ---------------------------------------------------------- */

static void assert_power_on(Nic *n)
{
    g_assert_cmphex(reg_read(n, FAKERNIC_REG_CONTROL), ==, 0);
    g_assert_cmphex(reg_read(n, FAKERNIC_REG_STATUS), ==,
                    FAKERNIC_STATUS_READY);
    g_assert_cmphex(reg_read(n, FAKERNIC_REG_TEST), ==, 0);
    g_assert_cmphex(reg_read(n, FAKERNIC_REG_DRIVER_FEATURES_LO), ==, 0);
    g_assert_cmphex(reg_read(n, FAKERNIC_REG_CMDQ_SQ_LO), ==, 0);
}

/* Reset with work in every stage, then a new life with the same steps. */
static void test_reset(void)
{
    Machine m;
    Nic n;
    struct fakernic_query_port_resp query;
    struct fakernic_set_port_req port = {
        .mask = LE32(FAKERNIC_PORT_MTU), .mtu = LE32(9000),
    };

    start(&m, &n);
    for (unsigned life = 0; life < 4; life++) {
        Setup s;
        Qp a, b;
        struct fakernic_cqe cqe;
        Wqe wqe;

        nic_bringup(&n);
        g_assert_cmpuint(nic_stat(&n, FAKERNIC_STAT_COMMANDS), ==, 0);
        assert_status(cmd(&n, FAKERNIC_CMD_QUERY_PORT, NULL, 0, &query,
                          sizeof(query)), OK);
        g_assert_cmpuint(le32_to_cpu(query.mtu), ==, 1500);
        assert_status(CMD(&n, SET_PORT, port), OK);
        setup(&n, &s);
        rc_pair(&n, &s, &a, &b);
        reg_write(&n, FAKERNIC_REG_TEST, 77);
        wqe = wqe_rdma(&s, FAKERNIC_SQ_RDMA_WRITE, 0, 16384, 10000);
        sq_put(&n, &a, &wqe, sizeof(wqe));
        if (life % 2) {
            sq_ring(&n, &a);
        } else {
            /* A send nobody receives: timers run. */
            wqe = wqe_send(&s, 0, 100);
            sq_put(&n, &a, &wqe, sizeof(wqe));
            sq_ring(&n, &a);
        }
        nic_reset(&n);
        assert_power_on(&n);
        /* Nothing of the old life writes or rings any more. */
        while (cq_poll(&n, &s.cq, &cqe)) {
            g_assert_cmpuint(cqe.status, ==, FAKERNIC_WC_SUCCESS);
        }
        sq_ring(&n, &a);
        qtest_clock_step(m.qts, 10000000000);
        g_assert_false(cq_poll(&n, &s.cq, &cqe));
    }
    machine_stop(&m);
}

static void test_flr(void)
{
    Machine m;
    Nic n;
    Setup s;
    uint8_t exp;
    uint16_t control;

    start_enabled(&m, &n);
    setup(&n, &s);
    exp = qpci_find_capability(n.pci, PCI_CAP_ID_EXP, 0);
    control = qpci_config_readw(n.pci, exp + PCI_EXP_DEVCTL);
    qpci_config_writew(n.pci, exp + PCI_EXP_DEVCTL,
                       control | PCI_EXP_DEVCTL_BCR_FLR);
    g_assert_cmphex(qpci_config_readw(n.pci, PCI_COMMAND) & PCI_COMMAND_MASTER,
                    ==, 0);
    /* FLR clears the BARs; map them again as they were. */
    qpci_config_writel(n.pci, PCI_BASE_ADDRESS_0, n.regs.addr);
    qpci_config_writel(n.pci, PCI_BASE_ADDRESS_2, n.uar.addr);
    qpci_device_enable(n.pci);
    assert_power_on(&n);
    n.pci->msix_enabled = false;
    nic_bringup(&n);
    assert_status(cmd(&n, FAKERNIC_CMD_NOP, NULL, 0, NULL, 0), OK);
    machine_stop(&m);
}

/* Bus mastering is withdrawn in mid-flight: errors, no hang, then recovery. */
static void test_bus_master_off(void)
{
    Machine m;
    Nic n;
    Setup s;
    Qp a, b;
    Wqe wqe;
    uint16_t command;

    start_enabled(&m, &n);
    setup(&n, &s);
    rc_pair(&n, &s, &a, &b);
    wqe = wqe_send(&s, 0, 100);
    sq_put(&n, &a, &wqe, sizeof(wqe));
    command = qpci_config_readw(n.pci, PCI_COMMAND);
    qpci_config_writew(n.pci, PCI_COMMAND, command & ~PCI_COMMAND_MASTER);
    sq_ring(&n, &a);
    qpci_config_writew(n.pci, PCI_COMMAND, command);
    g_assert_cmpuint(qp_state(&n, a.qpn), ==, FAKERNIC_QPS_ERR);
    g_assert_cmpuint(nic_stat(&n, FAKERNIC_STAT_DMA_ERRORS), >=, 1);
    nic_bringup(&n);
    assert_status(cmd(&n, FAKERNIC_CMD_NOP, NULL, 0, NULL, 0), OK);
    machine_stop(&m);
}

/* A message that the guest points at the device's own RESET bit is blocked. */
static void test_msix_into_own_bar(void)
{
    Machine m;
    Nic n;
    Setup s;

    machine_start(&m, "-netdev hubport,id=n0,hubid=0 %s,netdev=n0", DEVICE);
    nic_find(&n, &m, SLOT);
    nic_bringup(&n);
    setup(&n, &s);
    eq_ring(&n, &s.async, true);
    qtest_writel(m.qts, msix_entry(&n, 0) + PCI_MSIX_ENTRY_LOWER_ADDR,
                 n.regs.addr + FAKERNIC_REG_CONTROL);
    qtest_writel(m.qts, msix_entry(&n, 0) + PCI_MSIX_ENTRY_DATA,
                 FAKERNIC_CONTROL_RESET);
    /* Raised from within a register write, then from outside. */
    assert_status(cmd(&n, FAKERNIC_CMD_NOP, NULL, 0, NULL, 0), OK);
    set_link(&m, false);
    eq_expect(&n, &s.async, FAKERNIC_EVENT_PORT_ERROR);
    g_assert_cmphex(reg_read(&n, FAKERNIC_REG_STATUS), ==,
                    FAKERNIC_STATUS_READY | FAKERNIC_STATUS_ENABLED);
    machine_stop(&m);
}

/*
 * A message may also hit the device's own configuration space: a reset in the
 * middle of a completion, which the device has to survive.
 */
static void test_msix_into_own_config(void)
{
    Machine m;
    Nic n;
    Setup s;
    Qp a, b;
    uint8_t exp;
    uint16_t control;

    start_enabled(&m, &n);
    ecam_enable(&m);
    setup(&n, &s);
    rc_pair(&n, &s, &a, &b);
    exp = qpci_find_capability(n.pci, PCI_CAP_ID_EXP, 0);
    control = qpci_config_readw(n.pci, exp + PCI_EXP_DEVCTL);
    qtest_writel(m.qts, msix_entry(&n, 1) + PCI_MSIX_ENTRY_LOWER_ADDR,
                 ecam(SLOT) + exp + PCI_EXP_DEVCTL);
    qtest_writel(m.qts, msix_entry(&n, 1) + PCI_MSIX_ENTRY_DATA,
                 control | PCI_EXP_DEVCTL_BCR_FLR);
    cq_arm(&n, &s.cq, 0, false);
    complete_nops(&n, &a, 1);
    g_assert_cmphex(qpci_config_readw(n.pci, PCI_COMMAND) & PCI_COMMAND_MASTER,
                    ==, 0);
    qpci_config_writel(n.pci, PCI_BASE_ADDRESS_0, n.regs.addr);
    qpci_config_writel(n.pci, PCI_BASE_ADDRESS_2, n.uar.addr);
    qpci_device_enable(n.pci);
    assert_power_on(&n);
    n.pci->msix_enabled = false;
    nic_bringup(&n);
    assert_status(cmd(&n, FAKERNIC_CMD_NOP, NULL, 0, NULL, 0), OK);
    machine_stop(&m);
}

/* Nor does DMA reach registers: neither its own nor another device's. */
static void test_dma_into_bar(void)
{
    Machine m;
    Nic n;
    Setup s;
    Qp a, b;
    struct fakernic_cqe cqe;
    uint32_t key;
    Wqe wqe;

    start_enabled(&m, &n);
    setup(&n, &s);
    rc_pair(&n, &s, &a, &b);
    key = mr_create(&n, s.pd, n.regs.addr, 4096, FAKERNIC_ACCESS_LOCAL_WRITE |
                    FAKERNIC_ACCESS_REMOTE_WRITE);
    qtest_memset(m.qts, s.data, 0xff, 64);
    wqe = wqe_rdma(&s, FAKERNIC_SQ_RDMA_WRITE, 0, 0, 4);
    wqe.rdma.rdma.remote_address = LE64(n.regs.addr + FAKERNIC_REG_TEST);
    wqe.rdma.rdma.rkey = LE32(key);
    sq_put(&n, &a, &wqe, sizeof(wqe));
    sq_ring(&n, &a);
    cq_expect(&n, &s.cq, &cqe, FAKERNIC_CQE_RDMA_WRITE,
              FAKERNIC_WC_REM_ACCESS_ERR);
    g_assert_cmpuint(nic_stat(&n, FAKERNIC_STAT_DMA_ERRORS), ==, 1);
    g_assert_cmphex(reg_read(&n, FAKERNIC_REG_TEST), ==, 0);
    machine_stop(&m);
}

/* Plugged in, brought up and pulled out with live objects, more than once. */
static void test_hotplug(void)
{
    Machine m;

    /* The later machine type wins; this one has ACPI hotplug on its root. */
    machine_start(&m, "-machine pc");
    for (unsigned i = 0; i < 3; i++) {
        Nic n;
        Setup s;
        Qp a, b;

        qtest_qmp_device_add(m.qts, "fakernic", "nic", "{'addr': '06'}");
        nic_find(&n, &m, 6);
        nic_bringup(&n);
        setup(&n, &s);
        rc_pair(&n, &s, &a, &b);
        qpci_unplug_acpi_device_test(m.qts, "nic", 6);
        g_free(n.pci);
    }
    machine_stop(&m);
}

/* ---- hostile guests -------------------------------------------------- */

/* A number as a careless or hostile driver would write it. */
static uint32_t any_number(const Setup *s)
{
    const uint32_t numbers[] = {
        0, 1, 2, 3, 4, 12, 16, 17, 0xff, 0x1000, 0xffff, 0x80000000, ~0u,
        s->pd, s->cq.id, s->eq.id, s->key, s->data, s->data + 4,
    };

    return g_test_rand_int_range(0, 8) ?
           numbers[g_test_rand_int_range(0, ARRAY_SIZE(numbers))] :
           (uint32_t)g_test_rand_int();
}

static void any_commands(Nic *n, const Setup *s)
{
    struct fakernic_cmd_completion completion;

    for (unsigned i = 0; i < 16; i++) {
        struct fakernic_cmd request = {
            .opcode = LE16(g_test_rand_int_range(0, 0x48)),
        };
        unsigned count = g_test_rand_int_range(0, 40);

        /* Nothing that reset does not undo: QUERY_STATS writes memory. */
        if (le16_to_cpu(request.opcode) == FAKERNIC_CMD_QUERY_STATS) {
            continue;
        }
        while (count--) {
            /* Mostly in the requests, which are short. */
            unsigned place = g_test_rand_int_range(0, 16) *
                             (g_test_rand_int_range(0, 4) ? 1 : 3);
            uint32_t number = LE32(any_number(s));

            memcpy(request.payload + 4 * place, &number,
                   g_test_rand_int_range(1, 5));
        }
        cmd_submit(n, &request);
    }
    cmd_ring(n);
    cmd_wait(n, n->cmd_pi - 1, &completion);
}

static void any_work(Nic *n, const Setup *s, Qp *qp)
{
    for (unsigned i = 0; i < 8; i++) {
        Wqe wqe;

        for (unsigned j = 0; j < sizeof(wqe); j += 4) {
            stl_he_p(wqe.bytes + j, LE32(any_number(s)));
        }
        wqe.hdr.opcode = g_test_rand_int_range(0, 20);
        wqe.hdr.bb_count = g_test_rand_int_range(0, 4);
        wqe.hdr.sge_count = g_test_rand_int_range(0, 4);
        sq_put(n, qp, &wqe, sizeof(wqe));
    }
    ring(n, 0, FAKERNIC_DOORBELL_SQ,
         doorbell(qp->qpn, qp->sq.index + g_test_rand_int_range(0, 4)));
    ring(n, g_test_rand_int_range(0, 4), 8 * g_test_rand_int_range(0, 4),
         (uint64_t)any_number(s) << 32 | any_number(s));
}

/* Nonsense in every place a guest can write, then a reset, then all is well. */
static void test_hostile(void)
{
    Machine m;
    Nic n;

    start(&m, &n);
    for (unsigned life = 0; life < 8; life++) {
        Setup s;
        Qp a, b;

        nic_bringup(&n);
        setup(&n, &s);
        rc_pair(&n, &s, &a, &b);
        for (unsigned round = 0; round < 30; round++) {
            any_work(&n, &s, &a);
            any_commands(&n, &s);
            queue_record(&n, &b.rq, any_number(&s));
            queue_record(&n, &s.cq, any_number(&s));
            qtest_clock_step(m.qts, 1000000);
            /* Not the command doorbell: that is fatal, as it should be. */
            reg_write(&n, 4 * g_test_rand_int_range(8, 0x15), any_number(&s));
        }
    }
    nic_bringup(&n);
    assert_status(cmd(&n, FAKERNIC_CMD_NOP, NULL, 0, NULL, 0), OK);
    machine_stop(&m);
}

/* ---- the port -------------------------------------------------------- */

/* A raw-packet QP as the Ethernet port. */
static void port_up(Nic *n, Setup *s, Qp *raw, uint8_t filter)
{
    struct fakernic_modify_qp_req req = {
        .mask = LE32(FAKERNIC_QP_ATTR_STATE | FAKERNIC_QP_ATTR_PORT),
        .attr = { .state = FAKERNIC_QPS_INIT, .port = 1 },
    };
    struct fakernic_set_port_req port = {
        .mask = LE32(FAKERNIC_PORT_QPN | FAKERNIC_PORT_FILTER),
        .filter = filter,
    };

    qp_create(n, raw, FAKERNIC_QP_RAW_PACKET, s->pd, &s->cq, 0);
    req.qpn = LE32(raw->qpn);
    assert_status(CMD(n, MODIFY_QP, req), OK);
    assert_status(qp_to(n, raw->qpn, FAKERNIC_QPS_RTR), OK);
    assert_status(qp_to(n, raw->qpn, FAKERNIC_QPS_RTS), OK);
    port.qpn = LE32(raw->qpn);
    assert_status(CMD(n, SET_PORT, port), OK);
}

/* A device on one end of a datagram socket pair; the other end. */
static int start_wired(Machine *m, Nic *n)
{
    int fds[2];

    g_assert_cmpint(socketpair(AF_UNIX, SOCK_DGRAM, 0, fds), ==, 0);
    machine_start(m, "-netdev dgram,id=n0,local.type=fd,local.str=%d "
                  "%s,netdev=n0", fds[1], DEVICE);
    close(fds[1]);
    nic_find(n, m, SLOT);
    nic_bringup(n);
    return fds[0];
}

static ssize_t wire_receive(int fd, void *buf, size_t size)
{
    struct pollfd ready = { .fd = fd, .events = POLLIN };

    if (poll(&ready, 1, 5000) != 1) {
        return -1;
    }
    return recv(fd, buf, size, 0);
}

static void frame_make(uint8_t *frame, const uint8_t *dst, size_t len)
{
    static const uint8_t peer[6] = { 2, 0, 0, 0, 0, 9 };

    memset(frame, 0x3c, len);
    memcpy(frame, dst, 6);
    memcpy(frame + 6, peer, 6);
    frame[12] = 0x88;
    frame[13] = 0xb5;           /* local experimental ethertype */
}

static void test_ethernet(void)
{
    static const uint8_t peer[6] = { 2, 0, 0, 0, 0, 9 };
    static const uint8_t broadcast[6] = { 255, 255, 255, 255, 255, 255 };
    static const uint8_t group[6] = { 0x33, 0x33, 0, 0, 0, 1 };
    Machine m;
    Nic n;
    Setup s;
    Qp raw;
    struct fakernic_cqe cqe;
    uint8_t frame[2000], seen[2000];
    int fd = start_wired(&m, &n);
    Wqe wqe;

    setup(&n, &s);
    port_up(&n, &s, &raw, FAKERNIC_FILTER_BROADCAST);
    /* out: 1514 bytes pass, 1515 are dropped, both complete */
    frame_make(frame, peer, 1515);
    qtest_memwrite(m.qts, s.data, frame, 1515);
    wqe = wqe_send(&s, 0, 1515);
    sq_put(&n, &raw, &wqe, sizeof(wqe));
    wqe = wqe_send(&s, 0, 1514);
    sq_put(&n, &raw, &wqe, sizeof(wqe));
    sq_ring(&n, &raw);
    g_assert_cmpint(wire_receive(fd, seen, sizeof(seen)), ==, 1514);
    g_assert_cmpmem(seen, 1514, frame, 1514);
    cq_expect(&n, &s.cq, &cqe, FAKERNIC_CQE_SEND, FAKERNIC_WC_SUCCESS);
    cq_expect(&n, &s.cq, &cqe, FAKERNIC_CQE_SEND, FAKERNIC_WC_SUCCESS);
    g_assert_cmpuint(nic_stat(&n, FAKERNIC_STAT_TX_DROPPED), ==, 1);
    g_assert_cmpuint(nic_stat(&n, FAKERNIC_STAT_TX_FRAMES), ==, 1);
    g_assert_cmpuint(nic_stat(&n, FAKERNIC_STAT_TX_BYTES), ==, 1514);
    /* in: filtered, oversize, broadcast, own */
    for (unsigned i = 0; i < 4; i++) {
        rq_post(&n, &raw.rq, i, s.data + 4096 + i * 4096, 2048, s.key);
    }
    frame_make(frame, group, 60);
    g_assert_cmpint(send(fd, frame, 60, 0), ==, 60);
    frame_make(frame, peer, 60);
    g_assert_cmpint(send(fd, frame, 60, 0), ==, 60);
    frame_make(frame, nic_mac, 1515);
    g_assert_cmpint(send(fd, frame, 1515, 0), ==, 1515);
    frame_make(frame, broadcast, 60);
    g_assert_cmpint(send(fd, frame, 60, 0), ==, 60);
    frame_make(frame, nic_mac, 1514);
    g_assert_cmpint(send(fd, frame, 1514, 0), ==, 1514);
    cq_expect(&n, &s.cq, &cqe, FAKERNIC_CQE_RECV, FAKERNIC_WC_SUCCESS);
    g_assert_cmpuint(le32_to_cpu(cqe.byte_count), ==, 60);
    g_assert_cmpuint(le32_to_cpu(cqe.wqe_index), ==, 0);
    cq_expect(&n, &s.cq, &cqe, FAKERNIC_CQE_RECV, FAKERNIC_WC_SUCCESS);
    g_assert_cmpuint(le32_to_cpu(cqe.byte_count), ==, 1514);
    qtest_memread(m.qts, s.data + 8192, seen, 1514);
    g_assert_cmpmem(seen, 1514, frame, 1514);
    g_assert_cmpuint(nic_stat(&n, FAKERNIC_STAT_RX_FILTERED), ==, 2);
    g_assert_cmpuint(nic_stat(&n, FAKERNIC_STAT_RX_OVERSIZE), ==, 1);
    g_assert_cmpuint(nic_stat(&n, FAKERNIC_STAT_RX_FRAMES), ==, 5);
    close(fd);
    machine_stop(&m);
}

static void test_ethernet_no_buffer(void)
{
    Machine m;
    Nic n;
    Setup s;
    Qp raw;
    struct fakernic_cqe cqe;
    uint8_t frame[100];
    int fd = start_wired(&m, &n);

    setup(&n, &s);
    frame_make(frame, nic_mac, sizeof(frame));
    /* Before the port has a QP, and with one that has no receive. */
    g_assert_cmpint(send(fd, frame, 60, 0), ==, 60);
    while (nic_stat(&n, FAKERNIC_STAT_RX_NO_BUFFER) < 1) {
        g_usleep(1000);
    }
    port_up(&n, &s, &raw, FAKERNIC_FILTER_PROMISCUOUS);
    g_assert_cmpint(send(fd, frame, 60, 0), ==, 60);
    while (nic_stat(&n, FAKERNIC_STAT_RX_NO_BUFFER) < 2) {
        g_usleep(1000);
    }
    /* The port's QP goes away: so do the port's frames, and nothing crashes. */
    assert_status(cmd_id(&n, FAKERNIC_CMD_DESTROY_QP, raw.qpn), OK);
    g_assert_cmpint(send(fd, frame, 60, 0), ==, 60);
    while (nic_stat(&n, FAKERNIC_STAT_RX_NO_BUFFER) < 3) {
        g_usleep(1000);
    }
    g_assert_false(cq_poll(&n, &s.cq, &cqe));
    close(fd);
    machine_stop(&m);
}

/* Frames of all sizes full of nothing sensible do no harm. */
static void test_wire_garbage(void)
{
    Machine m;
    Nic n;
    Setup s;
    Qp a, b;
    uint8_t frame[1600];
    int fd = start_wired(&m, &n);
    GRand *rand = g_rand_new_with_seed(4791);
    unsigned sent = 0;

    setup(&n, &s);
    rc_pair(&n, &s, &a, &b);
    for (size_t len = 1; len < sizeof(frame); len += 13) {
        for (size_t i = 0; i < len; i++) {
            frame[i] = g_rand_int(rand);
        }
        /* Often enough an IPv4 packet to UDP port 4791. */
        if (len > 46 && len % 2) {
            frame[12] = 8;
            frame[13] = 0;
            frame[14] = 0x45;
            frame[23] = 17;
            frame[36] = 4791 >> 8;
            frame[37] = 4791 & 0xff;
        }
        g_assert_cmpint(send(fd, frame, len, 0), ==, len);
        sent++;
    }
    while (nic_stat(&n, FAKERNIC_STAT_RX_FRAMES) < sent) {
        g_usleep(1000);
    }
    g_assert_cmpuint(qp_state(&n, a.qpn), ==, FAKERNIC_QPS_RTS);
    g_assert_cmpuint(nic_stat(&n, FAKERNIC_STAT_DROP_SHORT) +
                     nic_stat(&n, FAKERNIC_STAT_DROP_IP_CSUM), >, 0);
    g_rand_free(rand);
    close(fd);
    machine_stop(&m);
}

static void test_link(void)
{
    Machine m;
    Nic n;
    Setup s;
    Qp raw;
    struct fakernic_query_port_resp resp;
    struct fakernic_cqe cqe;
    int fd = start_wired(&m, &n);
    Wqe wqe;

    setup(&n, &s);
    port_up(&n, &s, &raw, 0);
    eq_ring(&n, &s.async, true);
    msix_fired(&n, 0);
    set_link(&m, false);
    eq_expect(&n, &s.async, FAKERNIC_EVENT_PORT_ERROR);
    g_assert_true(msix_fired(&n, 0));
    assert_status(cmd(&n, FAKERNIC_CMD_QUERY_PORT, NULL, 0, &resp,
                      sizeof(resp)), OK);
    g_assert_cmpuint(resp.link_up, ==, 0);
    wqe = wqe_send(&s, 0, 60);
    sq_put(&n, &raw, &wqe, sizeof(wqe));
    sq_ring(&n, &raw);
    cq_expect(&n, &s.cq, &cqe, FAKERNIC_CQE_SEND, FAKERNIC_WC_SUCCESS);
    g_assert_cmpuint(nic_stat(&n, FAKERNIC_STAT_TX_DROPPED), ==, 1);
    set_link(&m, true);
    eq_expect(&n, &s.async, FAKERNIC_EVENT_PORT_ACTIVE);
    assert_status(cmd(&n, FAKERNIC_CMD_QUERY_PORT, NULL, 0, &resp,
                      sizeof(resp)), OK);
    g_assert_cmpuint(resp.link_up, ==, 1);
    close(fd);
    machine_stop(&m);
}

/* Two devices on a hub in one process: frames arrive while others leave. */
static void test_two_devices(void)
{
    static const uint8_t gids[2][16] = {
        { [10] = 0xff, 0xff, 10, 0, 0, 1 }, { [10] = 0xff, 0xff, 10, 0, 0, 2 },
    };
    static const uint8_t macs[2][6] = { { 2, 0, 0, 0, 0, 1 },
                                        { 2, 0, 0, 0, 0, 2 } };
    Machine m;
    Nic nics[2];
    Setup s[2];
    Qp qp[2];
    struct fakernic_cqe cqe;
    Wqe wqe;
    uint8_t x[20000], y[20000];

    machine_start(&m, "-netdev hubport,id=h0,hubid=0 "
                  "-netdev hubport,id=h1,hubid=0 "
                  "-device fakernic,addr=04.0,mac=02:00:00:00:00:01,netdev=h0 "
                  "-device fakernic,addr=05.0,mac=02:00:00:00:00:02,netdev=h1");
    for (unsigned i = 0; i < 2; i++) {
        struct fakernic_set_gid_req gid = gid_req(0, gids[i]);

        nic_find(&nics[i], &m, 4 + i);
        nic_bringup(&nics[i]);
        setup(&nics[i], &s[i]);
        memcpy(gid.mac, macs[i], 6);
        assert_status(CMD(&nics[i], SET_GID, gid), OK);
        qp_create(&nics[i], &qp[i], FAKERNIC_QP_RC, s[i].pd, &s[i].cq, 0);
    }
    for (unsigned i = 0; i < 2; i++) {
        rc_connect(&nics[i], qp[i].qpn, qp[!i].qpn, gids[!i], macs[!i]);
    }
    for (unsigned round = 0; round < 5; round++) {
        fill(&nics[0], &s[0], 0, sizeof(x));
        qtest_memset(m.qts, s[0].data, round, 100);
        wqe = wqe_rdma(&s[0], FAKERNIC_SQ_RDMA_WRITE, 0, 0, sizeof(x));
        wqe.rdma.rdma.remote_address = LE64(s[1].data);
        wqe.rdma.rdma.rkey = LE32(s[1].key);
        sq_put(&nics[0], &qp[0], &wqe, sizeof(wqe));
        sq_ring(&nics[0], &qp[0]);
        cq_expect(&nics[0], &s[0].cq, &cqe, FAKERNIC_CQE_RDMA_WRITE,
                  FAKERNIC_WC_SUCCESS);
        qtest_memread(m.qts, s[0].data, x, sizeof(x));
        qtest_memread(m.qts, s[1].data, y, sizeof(y));
        g_assert_cmpmem(x, sizeof(x), y, sizeof(y));
    }
    g_assert_cmpuint(nic_stat(&nics[0], FAKERNIC_STAT_RETRANSMITS), ==, 0);
    machine_stop(&m);
}

/* A hub without another port takes no frames, ever. */
static void test_dead_wire(void)
{
    Machine m;
    Nic n;
    Setup s;
    Qp raw, a, b;
    struct fakernic_cqe cqe;
    Wqe wqe;

    machine_start(&m, "-netdev hubport,id=h0,hubid=0 %s,netdev=h0", DEVICE);
    nic_find(&n, &m, SLOT);
    nic_bringup(&n);
    setup(&n, &s);
    port_up(&n, &s, &raw, 0);
    rc_pair(&n, &s, &a, &b);
    wqe = wqe_send(&s, 0, 60);
    for (unsigned i = 0; i < 8; i++) {
        sq_put(&n, &raw, &wqe, sizeof(wqe));
    }
    sq_ring(&n, &raw);
    /* The clock steps in here: all complete, one waits, the rest is dropped. */
    for (unsigned i = 0; i < 8; i++) {
        for (unsigned tries = 0; !cq_poll(&n, &s.cq, &cqe); tries++) {
            g_assert_cmpuint(tries, <, 100);
            qtest_clock_step(m.qts, 10000000);
        }
        g_assert_cmpuint(cqe.status, ==, FAKERNIC_WC_SUCCESS);
    }
    g_assert_cmpuint(nic_stat(&n, FAKERNIC_STAT_TX_DROPPED), ==, 7);
    /* Loopback is not held up. */
    wqe = wqe_rdma(&s, FAKERNIC_SQ_RDMA_WRITE, 0, 4096, 3000);
    sq_put(&n, &a, &wqe, sizeof(wqe));
    sq_ring(&n, &a);
    cq_expect(&n, &s.cq, &cqe, FAKERNIC_CQE_RDMA_WRITE, FAKERNIC_WC_SUCCESS);
    machine_stop(&m);
}

/* ---- the command line ------------------------------------------------ */

static void test_properties(void)
{
    static const char *const bad[] = {
        "uars=0", "uars=1", "uars=65537", "max-qp=8", "max-qp=100",
        "max-qp=131072", "max-cq=0", "max-srq=0", "max-pd=0", "max-mr=17",
        "max-mr=0", "max-mr-pages=0", "gids=0", "gids=4097", "mtu-max=575",
        "mtu-max=9001", "mac=01:00:00:00:00:00", "uars=x", "nonsense=1",
        "netdev=none",
    };
    g_autofree char *bios = machine_bios();

    for (unsigned i = 0; i < ARRAY_SIZE(bad); i++) {
        g_autofree char *line = g_strdup_printf(
            "%s -display none -machine q35 -nodefaults -bios %s -S "
            "-global apic-common.vapic=off "
            "-device fakernic,%s", getenv("QTEST_QEMU_BINARY"), bios, bad[i]);
        g_autofree char *err = NULL;
        int status;

        g_assert_true(g_spawn_command_line_sync(line, NULL, &err, &status,
                                                NULL));
        g_assert_true(WIFEXITED(status));
        g_assert_cmpint(WEXITSTATUS(status), ==, 1);
        /* One line, which names the option. */
        g_assert_nonnull(strstr(err, "-device fakernic"));
        g_assert_cmpint(strchr(err, '\n') - err, ==, strlen(err) - 1);
    }
    unlink(bios);
}

static void test_property_values(void)
{
    Machine m;
    Nic n;

    machine_start(&m, "%s,x-interface-version=0x20005,uars=16,"
                  "x-feature-mask=0x13", DEVICE);
    nic_find(&n, &m, SLOT);
    g_assert_cmphex(reg_read(&n, FAKERNIC_REG_INTERFACE_VERSION), ==, 0x20005);
    g_assert_cmpuint(reg_read(&n, FAKERNIC_REG_UAR_COUNT), ==, 16);
    g_assert_cmphex(nic_offered(&n), ==, FAKERNIC_FEATURE_RC |
                    FAKERNIC_FEATURE_UD | FAKERNIC_FEATURE_RAW_PACKET);
    g_assert_cmpuint(reg_read(&n, FAKERNIC_REG_CLOCK_PAGE_COUNT), ==, 0);
    machine_stop(&m);
}

/* Hot unplug and migration: the device goes cleanly, its state does not. */
static void test_migration_blocked(void)
{
    Machine m;
    QDict *answer;

    machine_start(&m, "%s", DEVICE);
    answer = qtest_qmp(m.qts, "{ 'execute': 'migrate', 'arguments': "
                       "{ 'uri': 'exec:cat >/dev/null' } }");
    g_assert_true(qdict_haskey(answer, "error"));
    qobject_unref(answer);
    machine_stop(&m);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } tests[] = {
        { "pci/identity", test_pci_identity },
        { "pci/bars", test_pci_bars },
        { "pci/capabilities", test_pci_capabilities },
        { "pci/root-port", test_pci_root_port },
        { "regs/reset-values", test_regs_reset_values },
        { "regs/access", test_regs_access },
        { "regs/test", test_regs_test },
        { "regs/clock", test_regs_clock },
        { "enable/fatal", test_fatal_bringup },
        { "enable/rules", test_enable_rules },
        { "fatal/overrun", test_fatal_overrun },
        { "fatal/dma", test_fatal_dma },
        { "cmdq/wrap", test_cmdq_wrap },
        { "cmdq/many", test_cmdq_many },
        { "cmd/opcodes", test_cmd_opcodes },
        { "cmd/feature-not-taken", test_cmd_feature_not_taken },
        { "cmd/reserved", test_cmd_reserved },
        { "cmd/header-reserved", test_cmd_header_reserved },
        { "cmd/query-device", test_query_device },
        { "cmd/port", test_port },
        { "cmd/stats", test_stats },
        { "cmd/gid", test_gid },
        { "cmd/pd-uar", test_pd_uar },
        { "cmd/limits", test_limits },
        { "cmd/eq", test_eq },
        { "cmd/cq", test_cq },
        { "cmd/page-lists", test_page_lists },
        { "cmd/mr", test_mr },
        { "cmd/mr-budget", test_mr_budget },
        { "cmd/rereg-mw", test_rereg_mw },
        { "cmd/qp-create", test_qp_create },
        { "cmd/qp-modify", test_qp_modify },
        { "cmd/srq", test_srq },
        { "cmd/mcast", test_mcast },
        { "rc/send", test_rc_send },
        { "rc/rdma", test_rc_rdma },
        { "rc/atomic", test_rc_atomic },
        { "rc/atomic-write", test_rc_atomic_write },
        { "rc/fast-reg", test_fast_reg },
        { "rc/inline-wrap", test_rc_inline_wrap },
        { "rc/rnr", test_rc_rnr },
        { "rc/srq", test_srq_receive },
        { "rc/key-errors", test_key_errors },
        { "sq/malformed", test_wqe_malformed },
        { "sq/segment-malformed", test_segment_malformed },
        { "rq/malformed", test_recv_malformed },
        { "ud/send", test_ud },
        { "sq/overrun", test_sq_overrun },
        { "cq/event", test_event_and_interrupt },
        { "cq/solicited", test_event_solicited },
        { "cq/overrun", test_cq_overrun },
        { "cq/resize", test_cq_resize },
        { "eq/full", test_eq_full },
        { "msix/masked", test_msix_masked },
        { "msix/into-own-bar", test_msix_into_own_bar },
        { "msix/into-own-config", test_msix_into_own_config },
        { "dma/into-bar", test_dma_into_bar },
        { "hotplug", test_hotplug },
        { "hostile", test_hostile },
        { "doorbell/rules", test_doorbell_rules },
        { "reset/control", test_reset },
        { "reset/flr", test_flr },
        { "reset/bus-master-off", test_bus_master_off },
        { "port/ethernet", test_ethernet },
        { "port/no-buffer", test_ethernet_no_buffer },
        { "port/garbage", test_wire_garbage },
        { "port/link", test_link },
        { "port/two-devices", test_two_devices },
        { "port/dead-wire", test_dead_wire },
        { "command-line/bad-properties", test_properties },
        { "command-line/property-values", test_property_values },
        { "migration/blocked", test_migration_blocked },
    };

    g_test_init(&argc, &argv, NULL);
    for (unsigned i = 0; i < ARRAY_SIZE(tests); i++) {
        g_autofree char *path = g_strdup_printf("/fakernic/%s", tests[i].name);

        qtest_add_func(path + 1, tests[i].run);
    }
    return g_test_run();
}
