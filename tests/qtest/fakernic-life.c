/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The life of the device and its turns: it is unplugged, reset, stopped or
 * frozen with work in every stage, also by its own interrupts. Work runs in
 * turns of a bounded size; frames arrive in bursts.
 */
#include "qemu/osdep.h"
#include "fakernic-setup.h"

/* ---- a slot whose power the guest switches ------------------------------- */

#define SLOT_DEVICE \
    "-device fakernic,id=nic,bus=rp0,mac=" MAC_STRING

static void start_in_slot(Machine *m, Nic *n, const char *wire)
{
    machine_start(m, "%s %s " SLOT_DEVICE "%s", NATIVE_HOTPLUG, wire,
                  *wire ? ",netdev=n0" : "");
    ecam_enable(m);
    root_port_setup(m);
    nic_find(n, m, BEHIND_PORT);
    nic_bringup(n);
}

/* The vector's message switches off the power of the device's own slot. */
static void aim_at_slot_power(Nic *n, unsigned vector)
{
    QPCIDevice *port = qpci_device_find(n->m->bus, QPCI_DEVFN(PORT_SLOT, 0));
    uint8_t exp = qpci_find_capability(port, PCI_CAP_ID_EXP, 0);

    qtest_writel(n->m->qts, msix_entry(n, vector) + PCI_MSIX_ENTRY_LOWER_ADDR,
                 ecam(PORT_SLOT) + exp + PCI_EXP_SLTCTL);
    qtest_writel(n->m->qts, msix_entry(n, vector) + PCI_MSIX_ENTRY_DATA,
                 PCI_EXP_SLTCTL_PWR_OFF | PCI_EXP_SLTCTL_PWR_IND_OFF);
    g_free(port);
}

/* A doorbell store unplugs the device, which has more work to do. */
static void test_unplug_from_doorbell(void)
{
    Machine m;
    Nic n;
    Setup s;
    Qp a, b;
    Wqe wqe;

    start_in_slot(&m, &n, "");
    setup_pair(&n, &s, &a, &b);
    aim_at_slot_power(&n, 1);
    cq_arm(&n, &s.cq, 0, false);
    for (unsigned i = 0; i < 16; i++) {
        wqe = wqe_rdma(&s, FAKERNIC_SQ_RDMA_WRITE, 0, 32768, 32768);
        sq_put(&n, &a, &wqe, sizeof(wqe));
    }
    sq_ring(&n, &a);
    assert_gone(&m);
    g_free(n.pci);
    machine_stop(&m);
}

/* A command's interrupt unplugs the device while another one is raised. */
static void test_unplug_from_command(void)
{
    struct fakernic_cmd nop = { .opcode = LE16(FAKERNIC_CMD_NOP) };
    Machine m;
    Nic n;
    Setup s;
    Qp a, b;

    start_in_slot(&m, &n, "");
    setup_pair(&n, &s, &a, &b);
    cq_arm(&n, &s.cq, 0, false);
    aim_at_slot_power(&n, 0);
    for (unsigned i = 0; i < 12; i++) {
        cmd_submit(&n, &nop);
    }
    cmd_ring(&n);
    assert_gone(&m);
    g_free(n.pci);
    machine_stop(&m);
}

/* A frame unplugs the device, from the netdev's handler or just after it. */
static void test_unplug_from_frame(void)
{
    uint8_t frame[64];
    g_autofree char *wire = NULL;
    Machine m;
    Nic n;
    Setup s;
    Qp raw;
    int fds[2];

    g_assert_cmpint(socketpair(AF_UNIX, SOCK_DGRAM, 0, fds), ==, 0);
    wire = g_strdup_printf("-netdev dgram,id=n0,local.type=fd,local.str=%d",
                           fds[1]);
    start_in_slot(&m, &n, wire);
    close(fds[1]);
    setup(&n, &s);
    port_up(&n, &s, &raw, FAKERNIC_FILTER_BROADCAST);
    for (unsigned i = 0; i < 4; i++) {
        rq_post(&n, &raw.rq, i, s.data, 2048, s.key);
    }
    aim_at_slot_power(&n, 1);
    cq_arm(&n, &s.cq, 0, false);
    frame_make(frame, nic_mac, sizeof(frame));
    for (unsigned i = 0; i < 4; i++) {
        wire_send(fds[0], frame, sizeof(frame));
    }
    assert_gone(&m);
    wire_send(fds[0], frame, sizeof(frame));
    main_loop_turns(&m, 10);
    g_free(n.pci);
    machine_stop(&m);
    close(fds[0]);
}

/* A timer unplugs the device: an event that moderation has held back. */
static void test_unplug_from_timer(void)
{
    struct fakernic_modify_cq_req moderate = {
        .count = LE16(100), .period_us = LE16(100),
    };
    Machine m;
    Nic n;
    Setup s;
    Qp a, b;

    start_in_slot(&m, &n, "");
    setup_pair(&n, &s, &a, &b);
    moderate.cqn = LE32(s.cq.id);
    assert_status(CMD(&n, MODIFY_CQ, moderate), OK);
    aim_at_slot_power(&n, 1);
    cq_arm(&n, &s.cq, 0, false);
    complete_nops(&n, &a, 1);
    qtest_clock_step(m.qts, 1000000);
    assert_gone(&m);
    g_free(n.pci);
    machine_stop(&m);
}

/* ---- entries into a device that has ended -------------------------------- */

/*
 * A device in a slot, whose next completion switches the slot off. QEMU looks
 * up a region once for a whole DMA, so the rest of that DMA still reaches the
 * device after its end.
 */
typedef struct End {
    Machine m;
    Nic n;
    Setup s;
    Qp a, b;
} End;

/* glibc overwrites freed memory at once, so that a use after free fails. */
#define OVERWRITES "glibc.malloc.perturb=170:glibc.malloc.tcache_count=0"

static void end_prepare(End *e)
{
    Wqe wqe;

    setup_pair(&e->n, &e->s, &e->a, &e->b);
    wqe = wqe_rdma(&e->s, FAKERNIC_SQ_RDMA_WRITE, 0, 32768, 1000);
    sq_put(&e->n, &e->a, &wqe, sizeof(wqe));
}

static void end_begin(End *e)
{
    g_setenv("GLIBC_TUNABLES", OVERWRITES, true);
    start_in_slot(&e->m, &e->n, "");
    g_unsetenv("GLIBC_TUNABLES");
    end_prepare(e);
    aim_at_slot_power(&e->n, 1);
}

static void end_done(End *e)
{
    assert_gone(&e->m);
    g_free(e->n.pci);
    machine_stop(&e->m);
}

/* The first of two doorbells ends the device, the same DMA rings the other. */
static void test_end_doorbell(void)
{
    uint64_t words[2];
    End e;

    end_begin(&e);
    cq_arm(&e.n, &e.s.cq, 0, false);
    words[0] = cpu_to_le64(doorbell(e.a.qpn, e.a.sq.index));
    words[1] = cpu_to_le64(doorbell(e.s.cq.id, e.s.cq.index));
    qtest_memwrite(e.m.qts, e.n.uar.addr + FAKERNIC_DOORBELL_SQ, words,
                   sizeof(words));
    end_done(&e);
}

/* A DMA of 7 bytes to CMDQ_DOORBELL: the first 4 end the device, the others
 * reach the next register. */
static void test_end_register(void)
{
    const struct fakernic_cmd nop = { .opcode = LE16(FAKERNIC_CMD_NOP) };
    uint8_t bytes[7] = { 0 };
    End e;

    end_begin(&e);
    aim_at_slot_power(&e.n, FAKERNIC_VECTOR_CMDQ);
    cmd_submit(&e.n, &nop);
    stl_le_p(bytes, e.n.cmd_pi);
    qtest_memwrite(e.m.qts, e.n.regs.addr + FAKERNIC_REG_CMDQ_DOORBELL, bytes,
                   sizeof(bytes));
    end_done(&e);
}

/* A masked vector is pending. Its message will switch the slot off. */
static void end_pending(End *e)
{
    end_begin(e);
    msix_mask(&e->n, 1, true);
    cq_arm(&e->n, &e->s.cq, 0, false);
    sq_ring(&e->n, &e->a);
    main_loop_turns(&e->m, 10);
}

/* The DMA that unmasks the vector continues into the next table entries. */
static void test_end_vectors(void)
{
    const uint8_t zeros[4 + 2 * PCI_MSIX_ENTRY_SIZE] = { 0 };
    End e;

    end_pending(&e);
    qtest_memwrite(e.m.qts, msix_entry(&e.n, 1) + PCI_MSIX_ENTRY_VECTOR_CTRL,
                   zeros, sizeof(zeros));
    end_done(&e);
}

/*
 * A store to configuration space unmasks all vectors. The slot belongs to a
 * bridge, which switches it by a store to memory (SHPC). A root port does so in
 * configuration space, which QEMU refuses during another such store.
 */
static void test_end_config(void)
{
    enum { BRIDGE = 5, DEVICE_ON_BRIDGE = 33, COMMAND = 0x14, OFF = 0x10f };
    const uint32_t shpc = 0xfe000000;
    QPCIDevice *bridge;
    uint8_t msix;
    uint16_t flags;
    End e;

    g_setenv("GLIBC_TUNABLES", OVERWRITES, true);
    machine_start(&e.m, "-machine pc -device pci-bridge,id=br,chassis_nr=1,"
                  "shpc=on,addr=05 -device fakernic,id=nic,bus=br,addr=1,mac="
                  MAC_STRING);
    g_unsetenv("GLIBC_TUNABLES");
    bridge = qpci_device_find(e.m.bus, QPCI_DEVFN(BRIDGE, 0));
    qpci_config_writel(bridge, PCI_BASE_ADDRESS_0, shpc);
    qpci_config_writel(bridge, PCI_BASE_ADDRESS_1, 0);
    qpci_config_writel(bridge, PCI_PRIMARY_BUS, 0x00010100);
    qpci_config_writel(bridge, PCI_MEMORY_BASE, 0xeff0e000);
    qpci_config_writel(bridge, PCI_PREF_MEMORY_BASE, 0x0000fff0);
    qpci_device_enable(bridge);
    nic_find(&e.n, &e.m, DEVICE_ON_BRIDGE);
    nic_bringup(&e.n);
    end_prepare(&e);
    qtest_writel(e.m.qts, msix_entry(&e.n, 1) + PCI_MSIX_ENTRY_LOWER_ADDR,
                 shpc + COMMAND);
    qtest_writel(e.m.qts, msix_entry(&e.n, 1) + PCI_MSIX_ENTRY_DATA, OFF);
    msix = qpci_find_capability(e.n.pci, PCI_CAP_ID_MSIX, 0);
    flags = qpci_config_readw(e.n.pci, msix + PCI_MSIX_FLAGS);
    qpci_config_writew(e.n.pci, msix + PCI_MSIX_FLAGS,
                       flags | PCI_MSIX_FLAGS_MASKALL);
    cq_arm(&e.n, &e.s.cq, 0, false);
    sq_ring(&e.n, &e.a);
    main_loop_turns(&e.m, 10);
    qpci_config_writew(e.n.pci, msix + PCI_MSIX_FLAGS, flags);
    g_assert_cmphex(qpci_config_readl(e.n.pci, 0), ==, 0xffffffff);
    main_loop_turns(&e.m, 10);
    g_free(bridge);
    g_free(e.n.pci);
    machine_stop(&e.m);
}

/* Where the guest's program finds addresses; 0 until they are valid. */
#define CPU_UAR    0x8000
#define CPU_REGS   0x8004
#define CPU_MSIX   0x8008
#define CPU_ROUNDS 0x800c       /* counted by the program */

/* The CPU's program: from reset to 32-bit mode, then endless accesses. */
static char *cpu_program(void)
{
    static const uint8_t enter[] = {
        0xfa,                                           /* cli */
        0x66, 0x2e, 0x0f, 0x01, 0x16, 0x40, 0x00,       /* lgdt cs:0x40 */
        0x0f, 0x20, 0xc0, 0x0c, 0x01, 0x0f, 0x22, 0xc0, /* cr0 |= 1 */
        0x66, 0xea, 0x80, 0x00, 0xff, 0xff, 0x08, 0x00, /* jmp 8:0xffff0080 */
    };
    static const uint8_t tables[] = {
        0x17, 0x00, 0x48, 0x00, 0xff, 0xff, 0, 0,       /* of 0xffff0048 */
        0, 0, 0, 0, 0, 0, 0, 0,
        0xff, 0xff, 0, 0, 0, 0x9b, 0xcf, 0,             /* code */
        0xff, 0xff, 0, 0, 0, 0x93, 0xcf, 0,             /* data */
    };
    static const uint8_t loop[] = {
        0x66, 0xb8, 0x10, 0x00, 0x8e, 0xd8,             /* ds = 0x10 */
        0x8b, 0x35, 0x00, 0x80, 0x00, 0x00,             /* esi = UAR */
        0x8b, 0x3d, 0x04, 0x80, 0x00, 0x00,             /* edi = REGS */
        0x8b, 0x1d, 0x08, 0x80, 0x00, 0x00,             /* ebx = MSIX */
        0x85, 0xdb, 0x74, 0xea,                         /* wait for them */
        0x89, 0x06, 0x8b, 0x06,                         /* a doorbell page */
        0x89, 0x47, 0x28, 0x8b, 0x47, 0x08,             /* registers */
        0x8b, 0x03, 0xc7, 0x43, 0x2c, 1, 0, 0, 0,       /* the vectors */
        0x8b, 0x83, 0x00, 0x08, 0x00, 0x00,             /* pending bits */
        0xff, 0x05, 0x0c, 0x80, 0x00, 0x00,             /* ROUNDS++ */
        0xeb, 0xc9,
    };
    static const uint8_t reset[] = { 0xe9, 0x0d, 0x00 };
    g_autofree uint8_t *bios = g_malloc0(65536);
    char *path = g_strdup("/tmp/fakernic-program-XXXXXX");
    const int fd = g_mkstemp(path);

    memcpy(bios, enter, sizeof(enter));
    memcpy(bios + 0x40, tables, sizeof(tables));
    memcpy(bios + 0x80, loop, sizeof(loop));
    memcpy(bios + 0xfff0, reset, sizeof(reset));
    g_assert_cmpint(write(fd, bios, 65536), ==, 65536);
    close(fd);
    return path;
}

/* Waits until the CPU has done 'rounds' more rounds. */
static void cpu_runs(Machine *m, uint32_t rounds)
{
    const uint32_t end = qtest_readl(m->qts, CPU_ROUNDS) + rounds;

    for (unsigned tries = 0; tries < 10000; tries++) {
        if (qtest_readl(m->qts, CPU_ROUNDS) >= end) {
            return;
        }
        g_usleep(1000);
    }
    g_error("the CPU stands still");
}

/*
 * A CPU waits for the big lock in the middle of an access to the device, and
 * gets it after the device has ended. Its program accesses nothing else.
 */
static void test_end_cpu(void)
{
    g_autofree char *program = cpu_program();
    g_autofree char *options = g_strdup_printf(
        "-netdev hubport,id=n0,hubid=0 -accel tcg -bios %s", program);

    for (unsigned i = 0; i < 3; i++) {
        End e;

        start_in_slot(&e.m, &e.n, options);
        end_prepare(&e);
        aim_at_slot_power(&e.n, 1);
        cq_arm(&e.n, &e.s.cq, 0, false);
        qtest_writel(e.m.qts, CPU_UAR, e.n.uar.addr);
        qtest_writel(e.m.qts, CPU_REGS, e.n.regs.addr);
        qtest_writel(e.m.qts, CPU_MSIX, msix_entry(&e.n, 0));
        cpu_runs(&e.m, 100);
        sq_ring(&e.n, &e.a);
        cpu_runs(&e.m, 100);
        g_assert_cmphex(qtest_readl(e.m.qts, ECAM + (1 << 20)), ==, 0xffffffff);
        g_free(e.n.pci);
        machine_stop(&e.m);
    }
    unlink(program);
}

/* The port event of set_link ends the device; then QEMU uses the NIC. */
static void test_end_set_link(void)
{
    End e;

    end_begin(&e);
    aim_at_slot_power(&e.n, FAKERNIC_VECTOR_CMDQ);
    eq_ring(&e.n, &e.s.async, true);
    qtest_qmp_assert_success(e.m.qts, "{ 'execute': 'set_link', 'arguments': {"
                                      " 'name': 'nic', 'up': false } }");
    end_done(&e);
}

/* A UC QP that sends to a peer on the wire which does not exist. */
static void away_create(Nic *n, const Setup *s, Queue *cq, Qp *away)
{
    static const uint8_t peer_mac[6] = { 2, 0, 0, 0, 0, 9 };
    static const uint8_t peer_gid[16] = { [10] = 0xff, 0xff, 10, 0, 0, 9 };

    qp_create(n, away, FAKERNIC_QP_UC, s->pd, cq, 0);
    uc_connect(n, away->qpn, 77, peer_gid, peer_mac);
}

/* ---- work that is left at a stop, reset or unplug ------------------------ */

#define PAIRS 8
#define PAIRS_MAX 32
#define WRITES 31
#define SMALL_TURNS \
    "-device fakernic,id=nic,addr=04.0,turn-work=64,mac=" MAC_STRING

/* Loopback writes of 2 MB per pair, more than a turn does. */
typedef struct Bulk {
    Setup s;
    Queue cq;
    unsigned pairs;
    uint32_t length;            /* of a write */
    Qp a[PAIRS_MAX], b[PAIRS_MAX];
} Bulk;

static void bulk_post(Nic *n, Bulk *bulk)
{
    Wqe wqe = wqe_rdma(&bulk->s, FAKERNIC_SQ_RDMA_WRITE, 0, 0, bulk->length);

    for (unsigned i = 0; i < bulk->pairs; i++) {
        for (unsigned j = 0; j < WRITES; j++) {
            sq_put(n, &bulk->a[i], &wqe, sizeof(wqe));
        }
    }
    for (unsigned i = 0; i < bulk->pairs; i++) {
        sq_ring(n, &bulk->a[i]);
    }
}

static void bulk_create(Nic *n, Bulk *bulk, unsigned pairs)
{
    Setup *s = &bulk->s;

    setup(n, s);
    bulk->pairs = pairs;
    bulk->length = DATA_SIZE;
    cq_create(n, &bulk->cq, 10, &s->eq, 0, 0);
    for (unsigned i = 0; i < bulk->pairs; i++) {
        qp_create(n, &bulk->a[i], FAKERNIC_QP_RC, s->pd, &bulk->cq, 0);
        qp_create(n, &bulk->b[i], FAKERNIC_QP_RC, s->pd, &bulk->cq, 0);
        rc_connect(n, bulk->a[i].qpn, bulk->b[i].qpn, own_gid, nic_mac);
        rc_connect(n, bulk->b[i].qpn, bulk->a[i].qpn, own_gid, nic_mac);
    }
}

static void bulk_start(Nic *n, Bulk *bulk)
{
    bulk_create(n, bulk, PAIRS);
    bulk_post(n, bulk);
}

/* The number of new completions, which must have succeeded. */
static unsigned bulk_poll(Nic *n, Bulk *bulk)
{
    struct fakernic_cqe cqe;
    unsigned count = 0;

    while (cq_poll(n, &bulk->cq, &cqe)) {
        g_assert_cmpuint(cqe.status, ==, FAKERNIC_WC_SUCCESS);
        count++;
    }
    queue_record(n, &bulk->cq, bulk->cq.index);
    return count;
}

static void bulk_finish(Nic *n, Bulk *bulk, unsigned done)
{
    for (unsigned tries = 0; done < bulk->pairs * WRITES && tries < 20000;
         tries++) {
        unsigned more = bulk_poll(n, bulk);

        done += more;
        if (!more) {
            g_usleep(1000);
        }
    }
    g_assert_cmpuint(done, ==, bulk->pairs * WRITES);
}

static bool end_asked(Machine *m, const char *command, const char *property)
{
    QDict *answer = qtest_qmp(m->qts, "{ 'execute': %s, 'arguments': {"
                                      " 'path': '/machine/peripheral/nic',"
                              " 'property': %s } }", command, property);
    const bool answered = qdict_haskey(answer, "return");

    qobject_unref(answer);
    return answered;
}

static bool end_set(Machine *m, const char *property, const char *value)
{
    QDict *answer = qtest_qmp(m->qts, "{ 'execute': 'qom-set', 'arguments': {"
                                      " 'path': '/machine/peripheral/nic',"
                              " 'property': %s, 'value': %s } }", property,
                              value);
    const bool taken = qdict_haskey(answer, "return");

    qobject_unref(answer);
    return taken;
}

static void end_realize(Machine *m, bool realized, bool taken)
{
    QDict *answer = qtest_qmp(m->qts, "{ 'execute': 'qom-set', 'arguments': {"
                                      " 'path': '/machine/peripheral/nic',"
                              " 'property': 'realized', 'value': %i } }",
                              realized);

    g_assert(qdict_haskey(answer, "return") == taken);
    qobject_unref(answer);
}

/*
 * A device that the monitor has unrealized stays in QEMU's tree. All of its
 * properties fail, it cannot be realized again, and nothing else reaches it.
 */
static void test_end_properties(void)
{
    static const char *const properties[] = {
        "x-state", "x-qps", "x-cqs", "x-srqs", "x-eqs", "x-keys", "x-gids",
        "x-flows", "x-counters", "x-activity", "x-ring", "x-fault",
        "x-recorder", "x-recorder-now",
    };
    Machine m;
    Nic n;
    Bulk bulk;

    machine_start(&m, "%s", SMALL_TURNS);
    nic_find(&n, &m, SLOT);
    nic_bringup(&n);
    bulk_start(&n, &bulk);
    end_realize(&m, false, true);
    for (unsigned i = 0; i < ARRAY_SIZE(properties); i++) {
        g_assert_false(end_asked(&m, "qom-get", properties[i]));
    }
    g_assert_false(end_set(&m, "x-fault", "at=device do=freeze"));
    g_assert_false(end_set(&m, "x-ring", "sq 17"));
    g_assert_false(end_set(&m, "x-qps", "from=0 count=1"));
    end_realize(&m, true, false);
    qtest_qmp_assert_success(m.qts, "{ 'execute': 'stop' }");
    qtest_qmp_assert_success(m.qts, "{ 'execute': 'cont' }");
    qtest_qmp_assert_success(m.qts, "{ 'execute': 'system_reset' }");
    qtest_qmp_eventwait(m.qts, "RESET");
    qtest_clock_step(m.qts, 1000000000);
    main_loop_turns(&m, 100);
    g_assert_false(end_asked(&m, "qom-get", "x-state"));
    g_free(n.pci);
    machine_stop(&m);
}

/* A stopped VM completes nothing; after 'cont' all the work completes. */
static void test_stop(void)
{
    unsigned left = 0;

    for (unsigned tries = 0; !left && tries < 10; tries++) {
        Machine m;
        Nic n;
        Bulk bulk;
        unsigned done;

        machine_start(&m, "%s", SMALL_TURNS);
        nic_find(&n, &m, SLOT);
        nic_bringup(&n);
        bulk_start(&n, &bulk);
        qtest_qmp_assert_success(m.qts, "{ 'execute': 'stop' }");
        done = bulk_poll(&n, &bulk);
        left = PAIRS * WRITES - done;
        main_loop_turns(&m, 1000);
        g_assert_cmpuint(bulk_poll(&n, &bulk), ==, 0);
        qtest_qmp_assert_success(m.qts, "{ 'execute': 'cont' }");
        bulk_finish(&n, &bulk, done);
        g_free(n.pci);
        machine_stop(&m);
    }
    /* At least one try must have left work. */
    g_assert_cmpuint(left, >, 0);
}

/* A store to the device of a stopped VM has no effect: no CPU can cause it. */
static void test_stop_doorbell(Rig *r)
{
    Wqe wqe;
    struct fakernic_cqe cqe;

    fill(&r->n, &r->s, 0, 1000);
    wqe = wqe_rdma(&r->s, FAKERNIC_SQ_RDMA_WRITE, 0, 32768, 1000);
    sq_put(&r->n, &r->a, &wqe, sizeof(wqe));
    qtest_qmp_assert_success(r->m.qts, "{ 'execute': 'stop' }");
    sq_ring(&r->n, &r->a);
    main_loop_turns(&r->m, 100);
    g_assert_false(cq_poll(&r->n, &r->s.cq, &cqe));
    g_assert_cmpuint(qtest_readq(r->m.qts, r->s.data + 32768), ==, 0);
    qtest_qmp_assert_success(r->m.qts, "{ 'execute': 'cont' }");
    main_loop_turns(&r->m, 100);
    g_assert_false(cq_poll(&r->n, &r->s.cq, &cqe));
    sq_ring(&r->n, &r->a);
    cqe = rig_cqe(r, FAKERNIC_CQE_RDMA_WRITE, FAKERNIC_WC_SUCCESS);
    assert_same(&r->n, &r->s, 0, 32768, 1000);
}

/* A reset drops the work that is left; the next life sees none of it. */
static void test_reset_behind(void)
{
    Machine m;
    Nic n;
    unsigned left = 0;

    machine_start(&m, "%s", SMALL_TURNS);
    nic_find(&n, &m, SLOT);
    for (unsigned life = 0; life < 4; life++) {
        Bulk bulk;

        nic_bringup(&n);
        bulk_start(&n, &bulk);
        if (life == 1) {
            qtest_qmp_assert_success(m.qts, "{ 'execute': 'system_reset' }");
            qtest_qmp_eventwait(m.qts, "RESET");
            qpci_config_writel(n.pci, PCI_BASE_ADDRESS_0, n.regs.addr);
            qpci_config_writel(n.pci, PCI_BASE_ADDRESS_2, n.uar.addr);
            qpci_device_enable(n.pci);
            n.pci->msix_enabled = false;
        } else if (life == 2) {
            nic_flr(&n);
            nic_await_reset(&n);
        } else {
            nic_reset(&n);
        }
        left += PAIRS * WRITES - bulk_poll(&n, &bulk);
        main_loop_turns(&m, 100);
        g_assert_cmpuint(bulk_poll(&n, &bulk), ==, 0);
    }
    /* At least one reset must have had work to drop. */
    g_assert_cmpuint(left, >, 0);
    nic_bringup(&n);
    assert_status(cmd(&n, FAKERNIC_CMD_NOP, NULL, 0, NULL, 0), OK);
    g_free(n.pci);
    machine_stop(&m);
}

/* A reset of a stopped VM drops all work: none completes when it resumes. */
static void test_reset_stopped(void)
{
    Machine m;
    Nic n;
    Bulk bulk;

    machine_start(&m, "%s", SMALL_TURNS);
    nic_find(&n, &m, SLOT);
    nic_bringup(&n);
    bulk_start(&n, &bulk);
    qtest_qmp_assert_success(m.qts, "{ 'execute': 'stop' }");
    qtest_qmp_assert_success(m.qts, "{ 'execute': 'system_reset' }");
    qtest_qmp_eventwait(m.qts, "RESET");
    bulk_poll(&n, &bulk);
    qtest_qmp_assert_success(m.qts, "{ 'execute': 'cont' }");
    main_loop_turns(&m, 100);
    g_assert_cmpuint(bulk_poll(&n, &bulk), ==, 0);
    g_free(n.pci);
    machine_stop(&m);
}

/* The device is unplugged with work left. */
static void test_unplug_behind(void)
{
    Machine m;
    Nic n;
    Bulk bulk;

    machine_start(&m, "-machine pc");
    qtest_qmp_device_add(m.qts, "fakernic", "nic",
                         "{'addr': '06', 'turn-work': 64}");
    nic_find(&n, &m, 6);
    nic_bringup(&n);
    bulk_start(&n, &bulk);
    qpci_unplug_acpi_device_test(m.qts, "nic", 6);
    main_loop_turns(&m, 100);
    g_free(n.pci);
    machine_stop(&m);
}

/* The device is unplugged with a frame that its netdev cannot send. */
static void test_unplug_blocked(void)
{
    Machine m;
    Nic n;
    int fds[2];

    g_assert_cmpint(socketpair(AF_UNIX, SOCK_DGRAM, 0, fds), ==, 0);
    machine_start(&m, "-machine pc -netdev dgram,id=n0,local.type=fd,"
                  "local.str=%d", fds[1]);
    close(fds[1]);
    for (unsigned i = 0; i < 4; i++) {
        Setup s;
        Qp away;

        qtest_qmp_device_add(m.qts, "fakernic", "nic",
                             "{'addr': '06', 'netdev': 'n0', 'mac': %s}",
                             MAC_STRING);
        nic_find(&n, &m, 6);
        nic_bringup(&n);
        setup(&n, &s);
        away_create(&n, &s, &s.cq, &away);
        for (unsigned k = 0; k < 16; k++) {
            Wqe wqe = wqe_rdma(&s, FAKERNIC_SQ_RDMA_WRITE, 0, 0, DATA_SIZE);

            sq_put(&n, &away, &wqe, sizeof(wqe));
        }
        sq_ring(&n, &away);
        qpci_unplug_acpi_device_test(m.qts, "nic", 6);
        main_loop_turns(&m, 100);
        g_free(n.pci);
    }
    machine_stop(&m);
    close(fds[0]);
}

static uint64_t longest_turn(Machine *m)
{
    QDict *answer = qtest_qmp(m->qts, "{ 'execute': 'qom-get', 'arguments': {"
                                      " 'path': '/machine/peripheral/nic',"
                                      " 'property': 'x-longest-turn' } }");
    uint64_t value = qdict_get_int(answer, "return");

    qobject_unref(answer);
    return value;
}

/* A turn exceeds its budget by the work of one frame at most. */
static void test_turn(void)
{
    Machine m;
    Nic n;
    Bulk bulk;

    machine_start(&m, "%s,turn-us=1000000", SMALL_TURNS);
    nic_find(&n, &m, SLOT);
    nic_bringup(&n);
    bulk_start(&n, &bulk);
    bulk_finish(&n, &bulk, 0);
    g_test_message("longest turn: %" PRIu64 " units", longest_turn(&m));
    g_assert_cmpuint(longest_turn(&m), >=, 64);
    g_assert_cmpuint(longest_turn(&m), <, 64 + 32);
    g_free(n.pci);
    machine_stop(&m);
}

/* The longest turn of bulk work, with this time limit of a turn and practically
 * no limit of work. */
static uint64_t timed_turn(unsigned microseconds)
{
    uint64_t longest;
    Machine m;
    Nic n;
    Bulk bulk;

    machine_start(&m, "%s,id=nic,turn-work=1048576,turn-us=%u", DEVICE,
                  microseconds);
    nic_find(&n, &m, SLOT);
    nic_bringup(&n);
    bulk_start(&n, &bulk);
    bulk_finish(&n, &bulk, 0);
    longest = longest_turn(&m);
    g_test_message("longest turn of %u us: %" PRIu64 " units", microseconds,
                   longest);
    g_free(n.pci);
    machine_stop(&m);
    return longest;
}

/*
 * The time limit ends a turn, too. The test compares units of work, not times:
 * a slow machine does fewer units in the limit, and no machine is a hundred
 * times as fast as one unit per microsecond.
 */
static void test_time_limit(void)
{
    const uint64_t endless = timed_turn(1000000);

    g_assert_cmpuint(endless, >, 1000);
    g_assert_cmpuint(timed_turn(10), <, endless / 2);
}

/* ---- frames -------------------------------------------------------------- */

/* In D3hot, or while the VM is stopped, a frame waits at the netdev. */
static void test_frame_waits(void)
{
    uint8_t frame[64];
    struct fakernic_cqe cqe;
    Machine m;
    Nic n;
    Setup s;
    Qp raw;
    int wire = start_wired(&m, &n);

    setup(&n, &s);
    port_up(&n, &s, &raw, FAKERNIC_FILTER_BROADCAST);
    frame_make(frame, nic_mac, sizeof(frame));
    for (unsigned i = 0; i < 8; i++) {
        rq_post(&n, &raw.rq, i, s.data, 2048, s.key);
    }
    for (unsigned i = 0; i < 4; i++) {
        set_power_state(&n, 3);
        wire_send(wire, frame, sizeof(frame));
        main_loop_turns(&m, 100);
        g_assert_false(cq_poll(&n, &s.cq, &cqe));
        set_power_state(&n, 0);
        cq_expect(&n, &s.cq, &cqe, FAKERNIC_CQE_RECV, FAKERNIC_WC_SUCCESS);
        qtest_qmp_assert_success(m.qts, "{ 'execute': 'stop' }");
        wire_send(wire, frame, sizeof(frame));
        main_loop_turns(&m, 100);
        g_assert_false(cq_poll(&n, &s.cq, &cqe));
        qtest_qmp_assert_success(m.qts, "{ 'execute': 'cont' }");
        cq_expect(&n, &s.cq, &cqe, FAKERNIC_CQE_RECV, FAKERNIC_WC_SUCCESS);
    }
    g_assert_cmpuint(nic_stat(&n, FAKERNIC_STAT_RX_FRAMES), ==, 8);
    g_free(n.pci);
    machine_stop(&m);
    close(wire);
}

/* The link changes while the VM is stopped: one event with its last state. */
static void test_link_stopped(void)
{
    struct fakernic_eqe eqe;
    Machine m;
    Nic n;
    Setup s;

    machine_start(&m, "-netdev hubport,id=n0,hubid=0 %s,netdev=n0", DEVICE);
    nic_find(&n, &m, SLOT);
    nic_bringup(&n);
    setup(&n, &s);
    qtest_qmp_assert_success(m.qts, "{ 'execute': 'stop' }");
    set_link(&m, false);
    set_link(&m, true);
    set_link(&m, false);
    g_assert_false(eq_poll(&n, &s.async, &eqe));
    qtest_qmp_assert_success(m.qts, "{ 'execute': 'cont' }");
    eq_expect(&n, &s.async, FAKERNIC_EVENT_PORT_ERROR);
    main_loop_turns(&m, 10);
    g_assert_false(eq_poll(&n, &s.async, &eqe));
    g_free(n.pci);
    machine_stop(&m);
}

/* A stream delivers more frames at once than a turn takes: none is lost. */
static void test_flood(void)
{
    const unsigned count = 4000;
    const size_t len = 14;
    g_autofree uint8_t *bytes = g_malloc(count * (4 + len));
    uint64_t seen = 0;
    Machine m;
    Nic n;
    int fds[2];

    g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), ==, 0);
    machine_start(&m, "-netdev stream,id=n0,addr.type=fd,addr.str=%d "
                  "%s,netdev=n0,turn-us=1000000", fds[1], SMALL_TURNS);
    close(fds[1]);
    nic_find(&n, &m, SLOT);
    nic_bringup(&n);
    for (unsigned i = 0; i < count; i++) {
        stl_be_p(bytes + i * (4 + len), len);
        frame_make(bytes + i * (4 + len) + 4, nic_mac, len);
    }
    g_assert_cmpint(send(fds[0], bytes, count * (4 + len), 0), ==,
                    count * (4 + len));
    for (unsigned tries = 0; seen < count && tries < 5000; tries++) {
        seen = nic_stat(&n, FAKERNIC_STAT_RX_FRAMES);
        g_usleep(1000);
    }
    g_assert_cmpuint(seen, ==, count);
    g_assert_cmpuint(longest_turn(&m), <, 64 + 32);
    g_free(n.pci);
    machine_stop(&m);
    close(fds[0]);
}

/* The responder acknowledges a burst of requests with few frames. */
static void test_burst(void)
{
    static const uint8_t other_mac[6] = { 0x52, 0x54, 0x00, 0x0a, 0x0b, 0x0d };
    static const uint8_t other_gid[16] = { [10] = 0xff, 0xff, 10, 0, 0, 2 };
    const unsigned writes = 24;
    struct fakernic_set_gid_req gid = gid_req(0, other_gid);
    struct fakernic_cqe cqe;
    Machine m;
    Nic n, o;
    Setup s, t;
    Qp a, b;
    Wqe wqe;

    machine_start(&m, "-netdev hubport,id=n0,hubid=0 %s,netdev=n0 "
                      "-netdev hubport,id=n1,hubid=0 "
                      "-device fakernic,addr=05.0,netdev=n1,"
                  "mac=52:54:00:0a:0b:0d", DEVICE);
    nic_find(&n, &m, SLOT);
    nic_bringup(&n);
    nic_find(&o, &m, SLOT + 1);
    nic_bringup(&o);
    setup(&n, &s);
    setup(&o, &t);
    memcpy(gid.mac, other_mac, 6);
    assert_status(CMD(&o, SET_GID, gid), OK);
    qp_create(&n, &a, FAKERNIC_QP_RC, s.pd, &s.cq, 0);
    qp_create(&o, &b, FAKERNIC_QP_RC, t.pd, &t.cq, 0);
    rc_connect(&n, a.qpn, b.qpn, other_gid, other_mac);
    rc_connect(&o, b.qpn, a.qpn, own_gid, nic_mac);
    fill(&n, &s, 0, 1000);
    for (unsigned i = 0; i < writes; i++) {
        wqe = wqe_rdma(&s, FAKERNIC_SQ_RDMA_WRITE, 0, 0, 1000);
        wqe.rdma.rdma.remote_address = LE64(t.data + i * 1024);
        wqe.rdma.rdma.rkey = LE32(t.key);
        sq_put(&n, &a, &wqe, sizeof(wqe));
    }
    sq_ring(&n, &a);
    for (unsigned i = 0; i < writes; i++) {
        cq_expect(&n, &s.cq, &cqe, FAKERNIC_CQE_RDMA_WRITE,
                  FAKERNIC_WC_SUCCESS);
    }
    g_assert_cmpuint(nic_stat(&n, FAKERNIC_STAT_TX_ROCE), ==, writes);
    g_assert_cmpuint(nic_stat(&o, FAKERNIC_STAT_TX_ROCE), <=, writes / 4);
    g_free(n.pci);
    g_free(o.pci);
    machine_stop(&m);
}

/* ---- a server with two clients ------------------------------------------- */

enum { SERVER, WRITER, READER, HUB_HOSTS };
#define HUB_READERS 8
#define HUB_WQES    31
#define HUB_READS   16          /* the last one ends the test */
#define HUB_HOST \
    "-netdev hubport,id=h%u,hubid=0 " \
    "-device fakernic,addr=0%u.0,netdev=h%u,mac=02:00:00:00:00:0%u," \
    "turn-work=%u,turn-us=1000000%s "
/* A rule delays the clients' doorbells until the clock steps. */
#define HUB_HOLD \
    ",x-fault='id=hold at=doorbell number=%u times=0 delay-ns=1000 do=delay%s'"
#define HUB_PAUSE "; id=end at=cqe nth=%u do=pause"

typedef struct Hub {
    Machine m;
    Nic nics[HUB_HOSTS];
    Setup s[HUB_HOSTS];
    Queue cq[HUB_HOSTS];
} Hub;

static const uint8_t *hub_gid(unsigned host)
{
    static uint8_t gids[HUB_HOSTS][16];

    memcpy(gids[host], own_gid, 16);
    gids[host][15] = 1 + host;
    return gids[host];
}

static const uint8_t *hub_mac(unsigned host)
{
    static uint8_t macs[HUB_HOSTS][6];

    macs[host][0] = 2;
    macs[host][5] = 1 + host;
    return macs[host];
}

/* Sets up the hosts. The machine stops at the last of HUB_READS. */
static void hub_start(Hub *hub)
{
    g_autofree char *end = g_strdup_printf(HUB_PAUSE, HUB_READS);
    g_autoptr(GString) options = g_string_new(NULL);

    for (unsigned i = 0; i < HUB_HOSTS; i++) {
        g_autofree char *hold = g_strdup_printf(HUB_HOLD, FAKERNIC_DOORBELL_SQ,
                                                i == READER ? end : "");

        g_string_append_printf(options, HUB_HOST, i, SLOT + i, i, 1 + i,
                               i == SERVER ? 256 : 1u << 20,
                               i == SERVER ? "" : hold);
    }
    machine_start(&hub->m, "%s", options->str);
    for (unsigned i = 0; i < HUB_HOSTS; i++) {
        struct fakernic_set_gid_req gid = gid_req(0, hub_gid(i));
        Nic *n = &hub->nics[i];

        nic_find(n, &hub->m, SLOT + i);
        nic_bringup(n);
        setup(n, &hub->s[i]);
        memcpy(gid.mac, hub_mac(i), 6);
        assert_status(CMD(n, SET_GID, gid), OK);
        cq_create(n, &hub->cq[i], 9, &hub->s[i].eq, 0, 0);
    }
}

/* Posts a full send queue of this opcode to the server. */
static void hub_post(Hub *hub, unsigned client, uint8_t opcode)
{
    Nic *n = &hub->nics[client], *server = &hub->nics[SERVER];
    Wqe wqe = wqe_rdma(&hub->s[client], opcode, 0, 0, DATA_SIZE);
    Qp qp, peer;

    qp_create(n, &qp, FAKERNIC_QP_RC, hub->s[client].pd, &hub->cq[client], 0);
    qp_create(server, &peer, FAKERNIC_QP_RC, hub->s[SERVER].pd,
              &hub->cq[SERVER], 0);
    rc_connect(n, qp.qpn, peer.qpn, hub_gid(SERVER), hub_mac(SERVER));
    rc_connect(server, peer.qpn, qp.qpn, hub_gid(client), hub_mac(client));
    wqe.rdma.rdma.remote_address = LE64(hub->s[SERVER].data);
    wqe.rdma.rdma.rkey = LE32(hub->s[SERVER].key);
    for (unsigned i = 0; i < HUB_WQES; i++) {
        sq_put(n, &qp, &wqe, sizeof(wqe));
    }
    sq_ring(n, &qp);
}

static unsigned hub_done(Hub *hub, unsigned client)
{
    struct fakernic_cqe cqe;
    unsigned count = 0;

    while (cq_poll(&hub->nics[client], &hub->cq[client], &cqe)) {
        g_assert_cmpuint(cqe.status, ==, FAKERNIC_WC_SUCCESS);
        count++;
    }
    return count;
}

/*
 * One client WRITEs, another READs by many QPs. The server receives frames
 * between its turns, so it completes at least one WRITE for four READs.
 */
static void test_read_and_write_clients(void)
{
    unsigned written, read;
    uint64_t since;
    Hub hub;

    hub_start(&hub);
    hub_post(&hub, WRITER, FAKERNIC_SQ_RDMA_WRITE);
    for (unsigned i = 0; i < HUB_READERS; i++) {
        hub_post(&hub, READER, FAKERNIC_SQ_RDMA_READ);
    }
    g_assert_cmpuint(hub_done(&hub, WRITER), ==, 0);
    g_assert_cmpuint(hub_done(&hub, READER), ==, 0);
    since = main_cpu_us(&hub.m);
    qtest_clock_step(hub.m.qts, 10000);
    monitor_must_answer(&hub.m, "a server with two clients", since);
    qtest_qmp_eventwait(hub.m.qts, "STOP");
    written = hub_done(&hub, WRITER);
    read = hub_done(&hub, READER);
    g_test_message("%u messages written beside %u read", written, read);
    g_assert_cmpuint(read, >=, HUB_READS);
    g_assert_cmpuint(written, >=, read / 4);
    g_assert_cmpuint(written, <, HUB_WQES);
    for (unsigned i = 0; i < HUB_HOSTS; i++) {
        g_free(hub.nics[i].pci);
    }
    machine_stop(&hub.m);
}

/* ---- a wire that is blocked ---------------------------------------------- */

/* The number of completions without a clock step; all must succeed. */
static unsigned cq_count(Nic *n, Queue *cq)
{
    struct fakernic_cqe cqe;
    unsigned count = 0;

    main_loop_turns(n->m, 50);
    while (cq_poll(n, cq, &cqe)) {
        g_assert_cmpuint(cqe.status, ==, FAKERNIC_WC_SUCCESS);
        count++;
    }
    return count;
}

/* The test does not read from the wire: loopback and NOPs continue. */
static void test_blocked_wire(void)
{
    uint8_t buf[2048];
    Machine m;
    Nic n;
    Setup s;
    Queue cq;
    Qp away, a, b;
    Wqe wqe;
    unsigned frames = 0;
    uint64_t since;
    int wire = start_wired(&m, &n);

    setup(&n, &s);
    cq_create(&n, &cq, 6, &s.eq, 0, 0);
    away_create(&n, &s, &cq, &away);
    rc_pair(&n, &s, &a, &b);
    for (unsigned i = 0; i < 16; i++) {
        wqe = wqe_rdma(&s, FAKERNIC_SQ_RDMA_WRITE, 0, 0, DATA_SIZE);
        sq_put(&n, &away, &wqe, sizeof(wqe));
    }
    since = main_cpu_us(&m);
    sq_ring(&n, &away);
    monitor_must_answer(&m, "a wire that takes nothing", since);
    g_assert_cmpuint(cq_count(&n, &cq), <, 16);
    fill(&n, &s, 0, 20000);
    for (unsigned i = 0; i < 20; i++) {
        wqe = wqe_rdma(&s, FAKERNIC_SQ_RDMA_WRITE, 0, 32768, 20000);
        sq_put(&n, &a, &wqe, sizeof(wqe));
        sq_ring(&n, &a);
        g_assert_cmpuint(cq_count(&n, &s.cq), ==, 1);
    }
    assert_same(&n, &s, 0, 32768, 20000);
    complete_nops(&n, &a, 1);
    g_assert_cmpuint(cq_count(&n, &s.cq), ==, 1);
    while (frames < 16 * DATA_SIZE / 1024) {
        g_assert_cmpint(wire_receive(wire, buf, sizeof(buf)), >, 0);
        frames++;
    }
    cq_count(&n, &cq);
    g_free(n.pci);
    machine_stop(&m);
    close(wire);
}

/* ---- silence ------------------------------------------------------------- */

#define QUIET_WRITES 16
#define QUIET_FRAMES (QUIET_WRITES * (DATA_SIZE / 1024))

/* Receives frames during some rounds of the main loop. Returns their number. */
static unsigned quiet_frames(Nic *n, int wire, unsigned rounds)
{
    uint8_t buf[2048];
    unsigned frames = 0;

    while (rounds--) {
        main_loop_turns(n->m, 1);
        while (recv(wire, buf, sizeof(buf), MSG_DONTWAIT) > 0) {
            frames++;
        }
    }
    return frames;
}

static void quiet_stop(Nic *n, bool stop)
{
    qtest_qmp_assert_success(n->m->qts, "{ 'execute': %s }",
                             stop ? "stop" : "cont");
}

static void quiet_sleep(Nic *n, bool sleep)
{
    set_power_state(n, sleep ? 3 : 0);
}

typedef struct Quiet {
    Machine m;
    Nic n;
    Setup s;
    Qp away;
    int wire;
} Quiet;

/* A device that still has frames to send, a completion and an interrupt. With
 * 'pluggable' it can be unplugged. */
static void quiet_begin(Quiet *q, bool pluggable)
{
    Nic *n = &q->n;
    int fds[2];

    g_assert_cmpint(socketpair(AF_UNIX, SOCK_DGRAM, 0, fds), ==, 0);
    q->wire = fds[0];
    machine_start(&q->m, "-netdev dgram,id=n0,local.type=fd,local.str=%d %s",
                  fds[1], pluggable ? "-machine pc"
                                    : DEVICE ",id=nic,netdev=n0");
    close(fds[1]);
    if (pluggable) {
        qtest_qmp_device_add(q->m.qts, "fakernic", "nic",
                             "{'addr': '06', 'netdev': 'n0', 'mac': %s}",
                             MAC_STRING);
    }
    nic_find(n, &q->m, pluggable ? 6 : SLOT);
    nic_bringup(n);
    setup(n, &q->s);
    away_create(n, &q->s, &q->s.cq, &q->away);
    eq_ring(n, &q->s.eq, true);
    cq_arm(n, &q->s.cq, 0, false);
    for (unsigned i = 0; i < QUIET_WRITES; i++) {
        Wqe wqe = wqe_rdma(&q->s, FAKERNIC_SQ_RDMA_WRITE, 0, 0, DATA_SIZE);

        if (i != QUIET_WRITES - 1) {
            wqe.hdr.flags &= ~FAKERNIC_SQ_SIGNALED;
        }
        sq_put(n, &q->away, &wqe, sizeof(wqe));
    }
    sq_ring(n, &q->away);
}

/* No frame arrives any more, except those that the netdev already holds.
 * Returns their number. */
static unsigned quiet_is(Quiet *q)
{
    const unsigned frames = quiet_frames(&q->n, q->wire, 100);
    struct fakernic_cqe cqe;

    g_assert_cmpuint(frames, >, 0);
    g_assert_cmpuint(frames, <, QUIET_FRAMES);
    g_assert_cmpuint(quiet_frames(&q->n, q->wire, 500), ==, 0);
    g_assert_false(cq_poll(&q->n, &q->s.cq, &cqe));
    for (unsigned v = 0; v < FAKERNIC_VECTOR_COUNT; v++) {
        /* Commands have raised their own vector. */
        g_assert_true(v == FAKERNIC_VECTOR_CMDQ || !msix_fired(&q->n, v));
    }
    return frames;
}

static void quiet_end(Quiet *q)
{
    g_free(q->n.pci);
    machine_stop(&q->m);
    close(q->wire);
}

/* The device stays silent when time passes; then the machine ends. */
static void quiet_for_good(Quiet *q)
{
    struct fakernic_cqe cqe;

    quiet_is(q);
    qtest_clock_step(q->m.qts, 10000000000);
    g_assert_cmpuint(quiet_frames(&q->n, q->wire, 100), ==, 0);
    g_assert_false(cq_poll(&q->n, &q->s.cq, &cqe));
    g_assert_false(msix_fired(&q->n, 1));
    quiet_end(q);
}

/*
 * A halted device sends no frame. After it resumes the test receives all
 * frames, except those that QEMU itself has 'lost'.
 */
static void quiet_try(void (*halt)(Nic *n, bool on), unsigned lost)
{
    struct fakernic_cqe cqe;
    unsigned frames;
    Quiet q;

    quiet_begin(&q, false);
    halt(&q.n, true);
    frames = quiet_is(&q);
    halt(&q.n, false);
    for (unsigned i = 0; frames < QUIET_FRAMES - lost && i < 1000; i++) {
        frames += quiet_frames(&q.n, q.wire, 1);
    }
    g_assert_cmpuint(frames, >=, QUIET_FRAMES - lost);
    cq_expect(&q.n, &q.s.cq, &cqe, FAKERNIC_CQE_RDMA_WRITE,
              FAKERNIC_WC_SUCCESS);
    g_assert_true(msix_fired(&q.n, 1));
    quiet_end(&q);
}

static void test_quiet(void)
{
    /* At a stop, QEMU drops the frame that a netdev could not send. */
    quiet_try(quiet_stop, 1);
    quiet_try(quiet_sleep, 0);
}

/* A device that is off the bus stays silent, like an unplugged one. */
static void test_quiet_dead(void)
{
    Quiet q;

    quiet_begin(&q, false);
    qtest_qmp_assert_success(q.m.qts, "{ 'execute': 'qom-set', 'arguments': {"
                             " 'path': '/machine/peripheral/nic', 'property':"
                             " 'x-fault', 'value': 'at=device do=dead' } }");
    main_loop_turns(&q.m, 10);
    g_assert_cmphex(reg_read(&q.n, FAKERNIC_REG_STATUS), ==, 0xffffffff);
    quiet_for_good(&q);
}

/* A device that was reset is silent until the driver brings it up again. */
static void test_quiet_reset(void)
{
    Quiet q;

    quiet_begin(&q, false);
    reg_write(&q.n, FAKERNIC_REG_CONTROL, FAKERNIC_CONTROL_RESET);
    quiet_for_good(&q);
    quiet_begin(&q, false);
    nic_flr(&q.n);
    quiet_for_good(&q);
}

static void test_quiet_unplugged(void)
{
    Quiet q;

    quiet_begin(&q, true);
    qpci_unplug_acpi_device_test(q.m.qts, "nic", 6);
    quiet_for_good(&q);
}

/* ---- the monitor --------------------------------------------------------- */

typedef struct Flood {
    GThread *thread;
    int fd;
    int stop;                   /* atomic */
} Flood;

static void *flood_run(void *opaque)
{
    enum { COUNT = 3000, FRAME = 14 };
    Flood *flood = opaque;
    g_autofree uint8_t *bytes = g_malloc(COUNT * (4 + FRAME));

    for (unsigned i = 0; i < COUNT; i++) {
        stl_be_p(bytes + i * (4 + FRAME), FRAME);
        frame_make(bytes + i * (4 + FRAME) + 4, nic_mac, FRAME);
    }
    while (!g_atomic_int_get(&flood->stop)) {
        if (send(flood->fd, bytes, COUNT * (4 + FRAME), MSG_NOSIGNAL) !=
            COUNT * (4 + FRAME)) {
            break;
        }
    }
    return NULL;
}

#define MONITOR_PAGES  256
#define MONITOR_ROUNDS 5
#define MONITOR_TRIES  10

/* WRITEs of 1 MiB each, all of the same page: a GB in total. */
static void bulk_enlarge(Nic *n, Bulk *bulk)
{
    Setup *s = &bulk->s;
    const struct fakernic_create_mr_req req = {
        .iova = LE64(s->data),
        .length = LE64(MONITOR_PAGES * FAKERNIC_PAGE_SIZE),
        .pages = {
            .address = LE64(build_tables(n->m, 1, s->data, 0, MONITOR_PAGES)),
            .page_count = LE32(MONITOR_PAGES),
            .page_shift = FAKERNIC_PAGE_SHIFT,
            .levels = 1,
        },
        .pdn = LE32(s->pd),
        .access = LE32(FAKERNIC_ACCESS_LOCAL_WRITE |
                       FAKERNIC_ACCESS_REMOTE_WRITE),
        .type = FAKERNIC_MR_MEMORY,
    };

    s->key = cmd_create(n, FAKERNIC_CMD_CREATE_MR, &req, sizeof(req));
    bulk->length = MONITOR_PAGES * FAKERNIC_PAGE_SIZE;
}

/*
 * Frames arrive as fast as possible, and the device has more work than it can
 * do while the monitor waits. Returns the number of rounds that left some work.
 */
static unsigned monitor_rounds(Nic *n, Bulk *bulk, int fd)
{
    Flood flood = { .fd = fd };
    unsigned done = 0, beside = 0;

    bulk_post(n, bulk);
    flood.thread = g_thread_new("flood", flood_run, &flood);
    for (unsigned i = 0; i < MONITOR_ROUNDS; i++) {
        monitor_must_answer(n->m, "a flood of frames and other work",
                            main_cpu_us(n->m));
        done += bulk_poll(n, bulk);
        beside += done < PAIRS_MAX * WRITES;
    }
    g_atomic_int_set(&flood.stop, 1);
    g_thread_join(flood.thread);
    bulk_finish(n, bulk, done);
    return beside;
}

/* The monitor answers during a flood. If the host did not run the test for a
 * while, the device has finished all work, and the test tries again. */
static void test_monitor(void)
{
    unsigned beside = 0;
    Machine m;
    Nic n;
    Bulk bulk;
    int fds[2];

    g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), ==, 0);
    machine_start(&m, "-netdev stream,id=n0,addr.type=fd,addr.str=%d "
                  "%s,netdev=n0", fds[1], DEVICE);
    close(fds[1]);
    nic_find(&n, &m, SLOT);
    nic_bringup(&n);
    bulk_create(&n, &bulk, PAIRS_MAX);
    bulk_enlarge(&n, &bulk);
    for (unsigned i = 0; !beside && i < MONITOR_TRIES; i++) {
        beside = monitor_rounds(&n, &bulk, fds[0]);
    }
    g_test_message("in %u of %u rounds some writes were left", beside,
                   MONITOR_ROUNDS);
    g_assert_cmpuint(beside, >, 0);
    g_assert_cmpuint(nic_stat(&n, FAKERNIC_STAT_RX_FRAMES), >, 0);
    shutdown(fds[0], SHUT_RDWR);
    g_free(n.pci);
    machine_stop(&m);
    close(fds[0]);
}

/* ---- sleep --------------------------------------------------------------- */

#define LPC_SLOT      0x1f
#define LPC_PM_BASE   0x40      /* in configuration space; bit 0: in use */
#define LPC_ACPI      0x44
#define PM_BASE       0x600
#define PM1_CONTROL   (PM_BASE + 4)
#define SLEEP_IN_S3   (1 << 13 | 1 << 10)

static void fall_asleep(Machine *m)
{
    QPCIDevice *lpc = qpci_device_find(m->bus, QPCI_DEVFN(LPC_SLOT, 0));

    g_assert_nonnull(lpc);
    qpci_config_writel(lpc, LPC_PM_BASE, PM_BASE | 1);
    qpci_config_writeb(lpc, LPC_ACPI, 0x80);
    qtest_outw(m->qts, PM1_CONTROL, SLEEP_IN_S3);
    qtest_qmp_eventwait(m->qts, "SUSPEND");
    g_free(lpc);
}

/*
 * QEMU keeps a frame that arrives while the machine sleeps, and does not notify
 * the device. The frame and those behind it arrive once the device works again.
 */
static void test_frame_during_suspend(void)
{
    uint8_t frame[60];
    Machine m;
    Nic n;
    int fd = start_wired(&m, &n);

    frame_make(frame, nic_mac, sizeof(frame));
    fall_asleep(&m);
    wire_send(fd, frame, sizeof(frame));
    main_loop_turns(&m, 100);
    qtest_qmp_assert_success(m.qts, "{ 'execute': 'system_wakeup' }");
    qtest_qmp_eventwait(m.qts, "WAKEUP");
    main_loop_turns(&m, 100);
    g_free(n.pci);
    nic_find(&n, &m, SLOT);
    nic_bringup(&n);
    wire_send(fd, frame, sizeof(frame));
    main_loop_turns(&m, 100);
    g_assert_cmpuint(nic_stat(&n, FAKERNIC_STAT_RX_FRAMES), >, 0);
    g_free(n.pci);
    machine_stop(&m);
    close(fd);
}

const FakernicTest fakernic_life_tests[] = {
    { "life/unplug/from-doorbell", test_unplug_from_doorbell },
    { "life/unplug/from-command", test_unplug_from_command },
    { "life/unplug/from-frame", test_unplug_from_frame },
    { "life/unplug/from-timer", test_unplug_from_timer },
    { "life/end/doorbell", test_end_doorbell },
    { "life/end/register", test_end_register },
    { "life/end/vectors", test_end_vectors },
    { "life/end/config", test_end_config },
    { "life/end/cpu", test_end_cpu },
    { "life/end/set-link", test_end_set_link },
    { "life/end/properties", test_end_properties },
    { "life/unplug/behind", test_unplug_behind },
    { "life/unplug/blocked", test_unplug_blocked },
    { "life/stop", test_stop },
    { "life/stop-doorbell", PAIR(test_stop_doorbell) },
    { "life/reset/behind", test_reset_behind },
    { "life/reset/stopped", test_reset_stopped },
    { "life/frame-waits", test_frame_waits },
    { "life/quiet", test_quiet },
    { "life/quiet-dead", test_quiet_dead },
    { "life/quiet-reset", test_quiet_reset },
    { "life/quiet-unplugged", test_quiet_unplugged },
    { "life/link-stopped", test_link_stopped },
    { "life/frame-during-suspend", test_frame_during_suspend },
    { "turn/bounded", test_turn },
    { "turn/time-limit", test_time_limit },
    { "turn/flood", test_flood },
    { "turn/burst", test_burst },
    { "turn/read-and-write-clients", test_read_and_write_clients },
    { "turn/monitor", test_monitor },
    { "turn/blocked-wire", test_blocked_wire },
    { NULL }
};
