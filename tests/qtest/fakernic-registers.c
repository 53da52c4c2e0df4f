/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * PCI configuration space, BAR0 registers, bring-up and fatal errors, the
 * device's properties.
 */
#include "qemu/osdep.h"
#include <poll.h>
#include "qobject/qdict.h"
#include "fakernic-setup.h"

/* ---- PCI ------------------------------------------------------------- */

static void test_pci_identity(Rig *r)
{
    g_assert_cmphex(qpci_config_readw(r->n.pci, PCI_VENDOR_ID), ==,
                    FAKERNIC_PCI_VENDOR_ID);
    g_assert_cmphex(qpci_config_readw(r->n.pci, PCI_DEVICE_ID), ==,
                    FAKERNIC_PCI_DEVICE_ID);
    g_assert_cmphex(qpci_config_readb(r->n.pci, PCI_REVISION_ID), ==,
                    FAKERNIC_PCI_REVISION);
    g_assert_cmphex(qpci_config_readw(r->n.pci, PCI_CLASS_DEVICE), ==, 0x0200);
    g_assert_cmphex(qpci_config_readb(r->n.pci, PCI_INTERRUPT_PIN), ==, 0);
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

static void test_pci_bars(Rig *r)
{
    uint32_t bar;

    bar = qpci_config_readl(r->n.pci, PCI_BASE_ADDRESS_0);
    g_assert_cmphex(bar & 0xf, ==, PCI_BASE_ADDRESS_SPACE_MEMORY);
    g_assert_cmphex(bar_size(&r->n, FAKERNIC_BAR_REGS), ==,
                    FAKERNIC_BAR_REGS_SIZE);
    bar = qpci_config_readl(r->n.pci, PCI_BASE_ADDRESS_2);
    g_assert_cmphex(bar & 0xf, ==, PCI_BASE_ADDRESS_MEM_TYPE_64 |
                    PCI_BASE_ADDRESS_MEM_PREFETCH);
    g_assert_cmpuint(bar_size(&r->n, FAKERNIC_BAR_UAR), >=,
                     (reg_read(&r->n, FAKERNIC_REG_UAR_COUNT) + 1) *
                         FAKERNIC_PAGE_SIZE);
    bar = qpci_config_readl(r->n.pci, PCI_BASE_ADDRESS_4);
    g_assert_cmphex(bar & 0xf, ==, PCI_BASE_ADDRESS_SPACE_MEMORY);
    g_assert_cmpuint(qpci_config_readl(r->n.pci, PCI_BASE_ADDRESS_1), ==, 0);
    g_assert_cmpuint(qpci_config_readl(r->n.pci, PCI_BASE_ADDRESS_5), ==, 0);
}

static void test_pci_capabilities(Rig *r)
{
    uint8_t exp, pm;
    unsigned dsn;

    exp = qpci_find_capability(r->n.pci, PCI_CAP_ID_EXP, 0);
    pm = qpci_find_capability(r->n.pci, PCI_CAP_ID_PM, 0);
    g_assert_cmpuint(exp, !=, 0);
    g_assert_cmpuint(pm, !=, 0);
    g_assert_true(qpci_config_readl(r->n.pci, exp + PCI_EXP_DEVCAP) &
                  PCI_EXP_DEVCAP_FLR);
    g_assert_true(qpci_config_readw(r->n.pci, pm + PCI_PM_CTRL) &
                  PCI_PM_CTRL_NO_SOFT_RESET);
    g_assert_cmpuint(qpci_msix_table_size(r->n.pci), ==, FAKERNIC_VECTOR_COUNT);
    ecam_enable(&r->m);
    g_assert_cmpuint(extended_capability(&r->m, ecam(SLOT), PCI_EXT_CAP_ID_ERR),
                     !=, 0);
    dsn = extended_capability(&r->m, ecam(SLOT), PCI_EXT_CAP_ID_DSN);
    g_assert_cmpuint(dsn, !=, 0);
    /* The MAC with ff:fe in its middle; the first byte is the highest. */
    g_assert_cmphex(qtest_readl(r->m.qts, ecam(SLOT) + dsn + 8), ==,
                    0x525400ff);
    g_assert_cmphex(qtest_readl(r->m.qts, ecam(SLOT) + dsn + 4), ==,
                    0xfe0a0b0c);
}

static void test_pci_root_port(void)
{
    Machine m;

    machine_start(&m, "-device pcie-root-port,id=rp,chassis=1,addr=05.0 "
                      "-device fakernic,bus=rp");
    /* On bus 1, behind the root port, it has type and link of an endpoint. */
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

static void test_regs_reset_values(Rig *r)
{
    g_assert_cmphex(reg_read(&r->n, FAKERNIC_REG_MAGIC), ==, FAKERNIC_MAGIC);
    g_assert_cmphex(reg_read(&r->n, FAKERNIC_REG_INTERFACE_VERSION), ==,
                    FAKERNIC_INTERFACE_MAJOR << 16 | FAKERNIC_INTERFACE_MINOR);
    g_assert_cmphex(reg_read(&r->n, FAKERNIC_REG_CONTROL), ==, 0);
    g_assert_cmphex(reg_read(&r->n, FAKERNIC_REG_STATUS), ==,
                    FAKERNIC_STATUS_READY);
    g_assert_cmphex(reg_read(&r->n, FAKERNIC_REG_FATAL_CODE), ==, 0);
    g_assert_cmphex(reg_read(&r->n, FAKERNIC_REG_DRIVER_FEATURES_LO), ==, 0);
    g_assert_cmphex(reg_read(&r->n, FAKERNIC_REG_DRIVER_FEATURES_HI), ==, 0);
    g_assert_cmphex(reg_read(&r->n, FAKERNIC_REG_MAC_LO), ==, 0x0a005452);
    g_assert_cmphex(reg_read(&r->n, FAKERNIC_REG_MAC_HI), ==, 0x0c0b);
    g_assert_cmpuint(reg_read(&r->n, FAKERNIC_REG_VECTOR_COUNT), ==,
                     FAKERNIC_VECTOR_COUNT);
    g_assert_cmpuint(reg_read(&r->n, FAKERNIC_REG_UAR_COUNT), ==, 1024);
    g_assert_cmphex(reg_read(&r->n, FAKERNIC_REG_TEST), ==, 0);
    g_assert_cmphex(reg_read(&r->n, FAKERNIC_REG_TEST_INVERTED), ==, ~0u);
    for (unsigned reg = FAKERNIC_REG_CMDQ_SQ_LO;
         reg <= FAKERNIC_REG_CMDQ_DOORBELL; reg += 4) {
        g_assert_cmphex(reg_read(&r->n, reg), ==, 0);
    }
    g_assert_cmpuint(nic_offered(&r->n) & FAKERNIC_FEATURE_RC, !=, 0);
    g_assert_cmpuint(nic_offered(&r->n) & FAKERNIC_FEATURE_UD, !=, 0);
    g_assert_cmpuint(nic_offered(&r->n) & FAKERNIC_FEATURE_RAW_PACKET, !=, 0);
}

static void test_regs_access(Rig *r)
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

    for (unsigned i = 0; i < ARRAY_SIZE(read_only); i++) {
        uint32_t value = reg_read(&r->n, read_only[i]);

        reg_write(&r->n, read_only[i], ~value);
        g_assert_cmphex(reg_read(&r->n, read_only[i]), ==, value);
    }
    /* Registers ignore accesses that are not aligned 32-bit ones. */
    reg_write(&r->n, FAKERNIC_REG_TEST, 0x12345678);
    qtest_writeb(r->m.qts, r->n.regs.addr + FAKERNIC_REG_TEST, 0xff);
    qtest_writew(r->m.qts, r->n.regs.addr + FAKERNIC_REG_TEST, 0xffff);
    qtest_writeq(r->m.qts, r->n.regs.addr + FAKERNIC_REG_TEST, ~0ull);
    qtest_writel(r->m.qts, r->n.regs.addr + FAKERNIC_REG_TEST + 1, ~0u);
    g_assert_cmphex(reg_read(&r->n, FAKERNIC_REG_TEST), ==, 0x12345678);
    g_assert_cmphex(qtest_readb(r->m.qts, r->n.regs.addr + FAKERNIC_REG_TEST),
                    ==, 0);
    g_assert_cmphex(qtest_readw(r->m.qts, r->n.regs.addr + FAKERNIC_REG_TEST),
                    ==, 0);
    g_assert_cmphex(qtest_readq(r->m.qts, r->n.regs.addr + FAKERNIC_REG_TEST),
                    ==, 0);
    /* An offset behind the last register, and one in a gap. */
    reg_write(&r->n, FAKERNIC_REG_END, 1);
    g_assert_cmphex(reg_read(&r->n, FAKERNIC_REG_END), ==, 0);
    g_assert_cmphex(reg_read(&r->n, 0x058), ==, 0);
    g_assert_cmphex(reg_read(&r->n, FAKERNIC_BAR_REGS_SIZE - 4), ==, 0);
}

static void test_regs_test(Rig *r)
{
    static const uint32_t values[] = { 0, ~0u, 0xa5a5a5a5, 0x00ff00ff };

    for (unsigned i = 0; i < ARRAY_SIZE(values); i++) {
        reg_write(&r->n, FAKERNIC_REG_TEST, values[i]);
        g_assert_cmphex(reg_read(&r->n, FAKERNIC_REG_TEST), ==, values[i]);
        g_assert_cmphex(reg_read(&r->n, FAKERNIC_REG_TEST_INVERTED), ==,
                        ~values[i]);
    }
}

static uint64_t clock_read(Nic *n)
{
    uint32_t lo = reg_read(n, FAKERNIC_REG_CLOCK_LO);

    return (uint64_t)reg_read(n, FAKERNIC_REG_CLOCK_HI) << 32 | lo;
}

static void test_regs_clock(Rig *r)
{
    const int64_t step = 5000000000;
    uint64_t page, before;

    before = clock_read(&r->n);
    qtest_clock_step(r->m.qts, step);
    g_assert_cmpuint(clock_read(&r->n) - before, ==, step);
    g_assert_cmpuint(reg_read(&r->n, FAKERNIC_REG_CLOCK_PAGE_COUNT), ==, 1);
    page = r->n.uar.addr + FAKERNIC_PAGE_SIZE *
                               reg_read(&r->n, FAKERNIC_REG_CLOCK_PAGE_OFFSET);
    /* The clock page shows users whether the device works. */
    g_assert_cmpuint(qtest_readq(r->m.qts, page), ==, 0);
    nic_bringup(&r->n);
    g_assert_cmpuint(qtest_readq(r->m.qts, page), ==, clock_read(&r->n));
    g_assert_cmpuint(qtest_readq(r->m.qts, page), >=, before + step);
    g_assert_cmpuint(qtest_readq(r->m.qts, page + 8), ==, 0);
    nic_reset(&r->n);
    g_assert_cmpuint(qtest_readq(r->m.qts, page), ==, 0);
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

static void test_fatal_bringup(Rig *r)
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

    for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
        nic_set_cmdq(&r->n, cases[i].sq, cases[i].cq, cases[i].log_depth);
        reg_write(&r->n, FAKERNIC_REG_CONTROL, FAKERNIC_CONTROL_ENABLE);
        expect_fatal(&r->n, cases[i].code);
    }
    nic_set_cmdq(&r->n, 0x100000, 0x200000, 4);
    nic_set_features(&r->n, nic_offered(&r->n) | 1ull << 63);
    reg_write(&r->n, FAKERNIC_REG_CONTROL, FAKERNIC_CONTROL_ENABLE);
    expect_fatal(&r->n, FAKERNIC_FATAL_FEATURES);
}

static void test_fatal_overrun(Rig *r)
{
    Queue eq;
    struct fakernic_eqe eqe;

    eq_create(&r->n, &eq, 4, 0, true);
    msix_fired(&r->n, 0);
    reg_write(&r->n, FAKERNIC_REG_CMDQ_DOORBELL, r->n.cmd_pi + 17);
    g_assert_true(msix_fired(&r->n, 0));
    g_assert_true(eq_poll(&r->n, &eq, &eqe));
    g_assert_cmpuint(eqe.type, ==, FAKERNIC_EVENT_DEVICE_FATAL);
    g_assert_cmpuint(le32_to_cpu(eqe.data), ==, FAKERNIC_FATAL_CMDQ_OVERRUN);
    expect_fatal(&r->n, FAKERNIC_FATAL_CMDQ_OVERRUN);
}

/* Without bus mastering the device cannot read the command ring. */
static void test_fatal_dma(Rig *r)
{
    struct fakernic_cmd request = { .opcode = LE16(FAKERNIC_CMD_NOP) };

    cmd_submit(&r->n, &request);
    qpci_config_writew(r->n.pci, PCI_COMMAND, PCI_COMMAND_MEMORY);
    cmd_ring(&r->n);
    expect_fatal(&r->n, FAKERNIC_FATAL_CMDQ_DMA);
}

static void test_enable_rules(Rig *r)
{
    uint32_t depth;

    /* A doorbell before ENABLE, and reserved bits, do nothing. */
    reg_write(&r->n, FAKERNIC_REG_CMDQ_DOORBELL, 1);
    reg_write(&r->n, FAKERNIC_REG_CONTROL, FAKERNIC_CONTROL_ENABLE | 4);
    g_assert_cmphex(reg_read(&r->n, FAKERNIC_REG_STATUS), ==,
                    FAKERNIC_STATUS_READY);
    nic_bringup(&r->n);
    depth = reg_read(&r->n, FAKERNIC_REG_CMDQ_LOG_DEPTH);
    reg_write(&r->n, FAKERNIC_REG_CMDQ_LOG_DEPTH, depth + 1);
    g_assert_cmpuint(reg_read(&r->n, FAKERNIC_REG_CMDQ_LOG_DEPTH), ==, depth);
    reg_write(&r->n, FAKERNIC_REG_CONTROL, 0);
    g_assert_cmphex(reg_read(&r->n, FAKERNIC_REG_STATUS), ==,
                    FAKERNIC_STATUS_READY | FAKERNIC_STATUS_ENABLED);
    assert_status(cmd(&r->n, FAKERNIC_CMD_NOP, NULL, 0, NULL, 0), OK);
}

/* ---- the command line ------------------------------------------------ */

static void test_properties(void)
{
    static const char *const bad[] = {
        "uars=0", "uars=1", "uars=65537", "max-qp=8", "max-qp=100",
        "max-qp=131072", "max-cq=0", "max-srq=0", "max-pd=0", "max-mr=17",
        "max-mr=0", "max-mr-pages=0", "gids=0", "gids=4097", "mtu-max=575",
        "mtu-max=9001", "mac=01:00:00:00:00:00", "uars=x", "nonsense=1",
        "netdev=none", "vfs=128",
        "vfs=1",                /* not on the root bus */
    };
    g_autofree char *bios = machine_bios();

    for (unsigned i = 0; i < ARRAY_SIZE(bad); i++) {
        g_autofree char *line = g_strdup_printf(
            "%s -display none -machine q35 -accel qtest -nodefaults -bios %s "
            "-S -global apic-common.vapic=off "
            "-device fakernic,%s", getenv("QTEST_QEMU_BINARY"), bios, bad[i]);
        g_autofree char *err = NULL;
        int status;

        g_assert_true(g_spawn_command_line_sync(line, NULL, &err, &status,
                                                NULL));
        g_assert_true(WIFEXITED(status));
        g_assert_cmpint(WEXITSTATUS(status), ==, 1);
        /* The error is one line, which names the option. */
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

const FakernicTest fakernic_registers_tests[] = {
    { "pci/identity", BARE(test_pci_identity) },
    { "pci/bars", BARE(test_pci_bars) },
    { "pci/capabilities", BARE(test_pci_capabilities) },
    { "pci/root-port", test_pci_root_port },
    { "regs/reset-values", BARE(test_regs_reset_values) },
    { "regs/access", BARE(test_regs_access) },
    { "regs/test", BARE(test_regs_test) },
    { "regs/clock", BARE(test_regs_clock) },
    { "enable/fatal", BARE(test_fatal_bringup) },
    { "enable/rules", BARE(test_enable_rules) },
    { "fatal/overrun", ENABLED(test_fatal_overrun) },
    { "fatal/dma", ENABLED(test_fatal_dma) },
    { "command-line/bad-properties", test_properties },
    { "command-line/property-values", test_property_values },
    { NULL }
};
