/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Resets, hot plug, DMA and interrupts to the wrong address, and a guest that
 * writes random values to random registers.
 */
#include "qemu/osdep.h"
#include <poll.h>
#include "fakernic-setup.h"

/* ---- resets ---------------------------------------------------------- */

static void assert_power_on(Nic *n)
{
    nic_await_reset(n);
    g_assert_cmphex(reg_read(n, FAKERNIC_REG_CONTROL), ==, 0);
    g_assert_cmphex(reg_read(n, FAKERNIC_REG_TEST), ==, 0);
    g_assert_cmphex(reg_read(n, FAKERNIC_REG_DRIVER_FEATURES_LO), ==, 0);
    g_assert_cmphex(reg_read(n, FAKERNIC_REG_CMDQ_SQ_LO), ==, 0);
}

/* Reset with work in every stage, then a new life with the same steps. */
static void test_reset(Rig *r)
{
    struct fakernic_query_port_resp query;
    struct fakernic_set_port_req port = {
        .mask = LE32(FAKERNIC_PORT_MTU), .mtu = LE32(9000),
    };

    for (unsigned life = 0; life < 4; life++) {
        Setup s;
        Qp a, b;
        struct fakernic_cqe cqe;
        Wqe wqe;

        nic_bringup(&r->n);
        g_assert_cmpuint(nic_stat(&r->n, FAKERNIC_STAT_COMMANDS), ==, 0);
        assert_status(cmd(&r->n, FAKERNIC_CMD_QUERY_PORT, NULL, 0, &query,
                          sizeof(query)), OK);
        g_assert_cmpuint(le32_to_cpu(query.mtu), ==, 1500);
        assert_status(CMD(&r->n, SET_PORT, port), OK);
        setup_pair(&r->n, &s, &a, &b);
        reg_write(&r->n, FAKERNIC_REG_TEST, 77);
        wqe = wqe_rdma(&s, FAKERNIC_SQ_RDMA_WRITE, 0, 16384, 10000);
        sq_put(&r->n, &a, &wqe, sizeof(wqe));
        if (life % 2) {
            sq_ring(&r->n, &a);
        } else {
            /* A send that no peer answers, so that timers run. */
            wqe = wqe_send(&s, 0, 100);
            sq_put(&r->n, &a, &wqe, sizeof(wqe));
            sq_ring(&r->n, &a);
        }
        nic_reset(&r->n);
        assert_power_on(&r->n);
        /* Work of the old life neither writes nor interrupts. */
        while (cq_poll(&r->n, &s.cq, &cqe)) {
            g_assert_cmpuint(cqe.status, ==, FAKERNIC_WC_SUCCESS);
        }
        sq_ring(&r->n, &a);
        qtest_clock_step(r->m.qts, 10000000000);
        g_assert_false(cq_poll(&r->n, &s.cq, &cqe));
    }
}

static void test_flr(Rig *r)
{
    nic_flr(&r->n);
    assert_power_on(&r->n);
    nic_bringup(&r->n);
    assert_status(cmd(&r->n, FAKERNIC_CMD_NOP, NULL, 0, NULL, 0), OK);
}

/* Bus mastering is disabled during a transfer: errors, no hang, recovery. */
static void test_bus_master_off(Rig *r)
{
    Wqe wqe;
    uint16_t command;

    wqe = wqe_send(&r->s, 0, 100);
    sq_put(&r->n, &r->a, &wqe, sizeof(wqe));
    command = qpci_config_readw(r->n.pci, PCI_COMMAND);
    qpci_config_writew(r->n.pci, PCI_COMMAND, command & ~PCI_COMMAND_MASTER);
    sq_ring(&r->n, &r->a);
    qpci_config_writew(r->n.pci, PCI_COMMAND, command);
    g_assert_cmpuint(qp_state(&r->n, r->a.qpn), ==, FAKERNIC_QPS_ERR);
    g_assert_cmpuint(nic_stat(&r->n, FAKERNIC_STAT_DMA_ERRORS), >=, 1);
    nic_bringup(&r->n);
    assert_status(cmd(&r->n, FAKERNIC_CMD_NOP, NULL, 0, NULL, 0), OK);
}

/* QEMU blocks an MSI-X message whose address is the device's RESET bit. */
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
    /* The message is raised during a register write, then outside of one. */
    assert_status(cmd(&n, FAKERNIC_CMD_NOP, NULL, 0, NULL, 0), OK);
    set_link(&m, false);
    eq_expect(&n, &s.async, FAKERNIC_EVENT_PORT_ERROR);
    g_assert_cmphex(reg_read(&n, FAKERNIC_REG_STATUS), ==,
                    FAKERNIC_STATUS_READY | FAKERNIC_STATUS_ENABLED);
    machine_stop(&m);
}

/*
 * A message may also write to the device's own configuration space. That is a
 * reset in the middle of a completion, which the device must survive.
 */
static void test_msix_into_own_config(Rig *r)
{
    Setup s;
    Qp a, b;
    uint8_t exp;
    uint16_t control;

    ecam_enable(&r->m);
    setup_pair(&r->n, &s, &a, &b);
    exp = qpci_find_capability(r->n.pci, PCI_CAP_ID_EXP, 0);
    control = qpci_config_readw(r->n.pci, exp + PCI_EXP_DEVCTL);
    qtest_writel(r->m.qts, msix_entry(&r->n, 1) + PCI_MSIX_ENTRY_LOWER_ADDR,
                 ecam(SLOT) + exp + PCI_EXP_DEVCTL);
    qtest_writel(r->m.qts, msix_entry(&r->n, 1) + PCI_MSIX_ENTRY_DATA,
                 control | PCI_EXP_DEVCTL_BCR_FLR);
    cq_arm(&r->n, &s.cq, 0, false);
    complete_nops(&r->n, &a, 1);
    g_assert_cmphex(
        qpci_config_readw(r->n.pci, PCI_COMMAND) & PCI_COMMAND_MASTER, ==, 0);
    qpci_config_writel(r->n.pci, PCI_BASE_ADDRESS_0, r->n.regs.addr);
    qpci_config_writel(r->n.pci, PCI_BASE_ADDRESS_2, r->n.uar.addr);
    qpci_device_enable(r->n.pci);
    assert_power_on(&r->n);
    r->n.pci->msix_enabled = false;
    nic_bringup(&r->n);
    assert_status(cmd(&r->n, FAKERNIC_CMD_NOP, NULL, 0, NULL, 0), OK);
}

/* DMA reaches no registers, neither the device's own nor another device's. */
static void test_dma_into_bar(Rig *r)
{
    uint32_t key;
    Wqe wqe;

    key = mr_create(&r->n, r->s.pd, r->n.regs.addr, 4096,
                    FAKERNIC_ACCESS_LOCAL_WRITE | FAKERNIC_ACCESS_REMOTE_WRITE);
    qtest_memset(r->m.qts, r->s.data, 0xff, 64);
    wqe = wqe_rdma(&r->s, FAKERNIC_SQ_RDMA_WRITE, 0, 0, 4);
    wqe.rdma.rdma.remote_address = LE64(r->n.regs.addr + FAKERNIC_REG_TEST);
    wqe.rdma.rdma.rkey = LE32(key);
    POST(r, wqe);
    rig_cqe(r, FAKERNIC_CQE_RDMA_WRITE, FAKERNIC_WC_REM_ACCESS_ERR);
    g_assert_cmpuint(nic_stat(&r->n, FAKERNIC_STAT_DMA_ERRORS), ==, 1);
    g_assert_cmphex(reg_read(&r->n, FAKERNIC_REG_TEST), ==, 0);
}

/* Hot plug, bring-up, and unplug with live objects, several times. */
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
        setup_pair(&n, &s, &a, &b);
        qpci_unplug_acpi_device_test(m.qts, "nic", 6);
        g_free(n.pci);
    }
    machine_stop(&m);
}

/* ---- hostile guests -------------------------------------------------- */

/* A number that a careless or hostile driver could write. */
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

        /* A reset must undo everything, but QUERY_STATS writes memory. */
        if (le16_to_cpu(request.opcode) == FAKERNIC_CMD_QUERY_STATS) {
            continue;
        }
        while (count--) {
            /* Most changes are in the requests, which are short. */
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

/* The guest writes random values everywhere it can. After a reset the device
 * works. */
static void test_hostile(Rig *r)
{
    for (unsigned life = 0; life < 8; life++) {
        Setup s;
        Qp a, b;

        nic_bringup(&r->n);
        setup_pair(&r->n, &s, &a, &b);
        for (unsigned round = 0; round < 30; round++) {
            any_work(&r->n, &s, &a);
            any_commands(&r->n, &s);
            queue_record(&r->n, &b.rq, any_number(&s));
            queue_record(&r->n, &s.cq, any_number(&s));
            qtest_clock_step(r->m.qts, 1000000);
            /* Not to the command doorbell, where they would be fatal. */
            reg_write(&r->n, 4 * g_test_rand_int_range(8, 0x15),
                      any_number(&s));
        }
    }
    nic_bringup(&r->n);
    assert_status(cmd(&r->n, FAKERNIC_CMD_NOP, NULL, 0, NULL, 0), OK);
}

const FakernicTest fakernic_resets_tests[] = {
    { "msix/into-own-bar", test_msix_into_own_bar },
    { "msix/into-own-config", ENABLED(test_msix_into_own_config) },
    { "dma/into-bar", PAIR(test_dma_into_bar) },
    { "hotplug", test_hotplug },
    { "hostile", BARE(test_hostile) },
    { "reset/control", BARE(test_reset) },
    { "reset/flr", READY(test_flr) },
    { "reset/bus-master-off", PAIR(test_bus_master_off) },
    { NULL }
};
