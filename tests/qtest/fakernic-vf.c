/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Virtual functions: their PCI side, RDMA between the functions of a card and
 * with the wire, what VF Enable, resets and an unplug do to them, and the most
 * that a VF can cost.
 */
#include "qemu/osdep.h"
#include <glib/gstdio.h>
#include "fakernic-setup.h"
#include "fakernic-save.h"
#include "fakernic/vport.h"

#define BUS1        (ECAM + (1 << 20))
#define PF_CONFIG   BUS1
/* The BARs of all VFs, inside the root port's window. */
#define VF_REGS     0xf0000000u
#define VF_MSIX     0xf1000000u
#define VF_UAR      0xf4000000u
#define VF_UAR_SIZE (32 * FAKERNIC_PAGE_SIZE)
#define VF_VECTORS  9
#define VF_ENABLE   (PCI_SRIOV_CTRL_VFE | PCI_SRIOV_CTRL_MSE | \
                     PCI_SRIOV_CTRL_ARI)

/* ---- a card with VFs ----------------------------------------------------- */

/* A function with what it needs for RDMA. Number 0 is the PF, n + 1 VF n. */
typedef struct Function {
    Nic n;
    Setup s;
    uint8_t mac[6];
    uint8_t gid[16];
} Function;

typedef struct Card {
    Machine m;
    unsigned sriov;             /* offset of the capability */
    Function pf;
} Card;

static void function_mac(Function *f)
{
    const uint64_t mac = reg_read(&f->n, FAKERNIC_REG_MAC_LO) |
                         (uint64_t)reg_read(&f->n, FAKERNIC_REG_MAC_HI) << 32;

    for (unsigned i = 0; i < 6; i++) {
        f->mac[i] = mac >> 8 * i;
    }
}

/* Brings the function up, with a GID of its own. */
static void function_up(Function *f, unsigned number)
{
    const uint8_t gid[16] = { [10] = 0xff, 0xff, 10, 0, 7, number };
    struct fakernic_set_gid_req req = gid_req(0, gid);

    nic_bringup(&f->n);
    setup(&f->n, &f->s);
    function_mac(f);
    memcpy(f->gid, gid, sizeof(gid));
    memcpy(req.mac, f->mac, sizeof(req.mac));
    assert_status(CMD(&f->n, SET_GID, req), OK);
}

static void card_find(Card *c)
{
    ecam_enable(&c->m);
    root_port_setup(&c->m);
    nic_find(&c->pf.n, &c->m, BEHIND_PORT);
    c->sriov = extended_capability(&c->m, PF_CONFIG, PCI_EXT_CAP_ID_SRIOV);
    g_assert_cmphex(c->sriov, !=, 0);
}

static void card_start(Card *c, const char *options)
{
    machine_start(&c->m, NATIVE_HOTPLUG "-device fakernic,id=nic,bus=rp0,"
                  "mac=" MAC_STRING "%s", options);
    card_find(c);
}

static void card_stop(Card *c)
{
    g_free(c->pf.n.pci);
    machine_stop(&c->m);
}

static void sriov_write(Card *c, unsigned place, uint32_t value)
{
    qtest_writel(c->m.qts, PF_CONFIG + c->sriov + place, value);
}

static void vf_bar(Card *c, unsigned bar, uint32_t address)
{
    sriov_write(c, PCI_SRIOV_BAR + 4 * bar, address);
    sriov_write(c, PCI_SRIOV_BAR + 4 * bar + 4, 0);
}

static void vfs_control(Card *c, uint16_t control)
{
    qtest_writew(c->m.qts, PF_CONFIG + c->sriov + PCI_SRIOV_CTRL, control);
}

static void vfs_enable(Card *c, unsigned count)
{
    qtest_writew(c->m.qts, PF_CONFIG + c->sriov + PCI_SRIOV_NUM_VF, count);
    vf_bar(c, FAKERNIC_BAR_REGS, VF_REGS);
    vf_bar(c, FAKERNIC_BAR_MSIX, VF_MSIX);
    vf_bar(c, FAKERNIC_BAR_UAR, VF_UAR);
    vfs_control(c, VF_ENABLE);
}

static void vfs_disable(Card *c)
{
    vfs_control(c, 0);
}

static uint64_t vf_config(unsigned vf)
{
    return BUS1 + ((uint64_t)(vf + 1) << 12);
}

/* A disabled function does not answer. */
static bool vf_exists(Card *c, unsigned vf)
{
    return qtest_readl(c->m.qts, vf_config(vf) + PCI_CLASS_REVISION) !=
           0xffffffff;
}

static void vf_command(Nic *n)
{
    qpci_config_writew(n->pci, PCI_COMMAND,
                       PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER);
}

/* A driver finds a VF by its PF, because a VF has no ids of its own. */
static void vf_find(Card *c, Function *f, unsigned vf)
{
    Nic *n = &f->n;

    memset(f, 0, sizeof(*f));
    n->m = &c->m;
    n->pci = g_new0(QPCIDevice, 1);
    n->pci->bus = c->m.bus;
    n->pci->devfn = (BEHIND_PORT << 3) + vf + 1;
    vf_command(n);
    n->regs.addr = VF_REGS + vf * FAKERNIC_BAR_REGS_SIZE;
    n->uar.addr = VF_UAR + vf * VF_UAR_SIZE;
    n->pci->msix_table_bar.addr = VF_MSIX + vf * FAKERNIC_PAGE_SIZE;
}

static void vf_msix(Nic *n)
{
    const uint8_t msix = qpci_find_capability(n->pci, PCI_CAP_ID_MSIX, 0);

    qpci_config_writew(n->pci, msix + PCI_MSIX_FLAGS, PCI_MSIX_FLAGS_ENABLE);
    n->pci->msix_enabled = true;
    msix_aim(n, VF_VECTORS);
}

static void vf_up(Card *c, Function *f, unsigned vf)
{
    vf_find(c, f, vf);
    vf_msix(&f->n);
    function_up(f, vf + 1);
}

/* Starts a card whose PF and first 'count' VFs work. */
static void card_up(Card *c, const char *options, Function *vf, unsigned count)
{
    card_start(c, options);
    function_up(&c->pf, 0);
    vfs_enable(c, count);
    for (unsigned i = 0; i < count; i++) {
        vf_up(c, &vf[i], i);
    }
}

/* ---- RDMA between functions ---------------------------------------------- */

typedef struct Connection {
    Function *side[2];
    Qp qp[2];
} Connection;

/* The first QP has this doorbell page. */
static void functions_connect_at(Connection *t, Function *a, Function *b,
                                 uint32_t uar)
{
    t->side[0] = a;
    t->side[1] = b;
    for (unsigned i = 0; i < 2; i++) {
        Function *f = t->side[i];

        qp_create(&f->n, &t->qp[i], FAKERNIC_QP_RC, f->s.pd, &f->s.cq,
                  i ? 0 : uar);
    }
    for (unsigned i = 0; i < 2; i++) {
        rc_connect(&t->side[i]->n, t->qp[i].qpn, t->qp[!i].qpn,
                   t->side[!i]->gid, t->side[!i]->mac);
    }
}

static void functions_connect(Connection *t, Function *a, Function *b)
{
    functions_connect_at(t, a, b, 0);
}

static void post_write(Connection *t, uint32_t length)
{
    Function *from = t->side[0], *to = t->side[1];
    Wqe wqe = wqe_rdma(&from->s, FAKERNIC_SQ_RDMA_WRITE, 0, 32768, length);

    wqe.rdma.rdma.remote_address = LE64(to->s.data + 32768);
    wqe.rdma.rdma.rkey = LE32(to->s.key);
    sq_put(&from->n, &t->qp[0], &wqe, sizeof(wqe));
    sq_ring(&from->n, &t->qp[0]);
}

/* A WRITE of 4,000 bytes from the first side arrives at the second. */
static void write_passes(Connection *t)
{
    Function *from = t->side[0], *to = t->side[1];
    uint8_t sent[4000], got[4000];
    struct fakernic_cqe cqe;

    fill(&from->n, &from->s, 0, sizeof(sent));
    qtest_memset(to->n.m->qts, to->s.data + 32768, 0, sizeof(got));
    post_write(t, sizeof(sent));
    cq_await(&from->n, &from->s.cq, &cqe, FAKERNIC_CQE_RDMA_WRITE,
             FAKERNIC_WC_SUCCESS);
    qtest_memread(from->n.m->qts, from->s.data, sent, sizeof(sent));
    qtest_memread(to->n.m->qts, to->s.data + 32768, got, sizeof(got));
    g_assert_cmpmem(sent, sizeof(sent), got, sizeof(got));
}

/* ---- tests --------------------------------------------------------------- */

static void test_capabilities(void)
{
    static const uint8_t bars[] = { FAKERNIC_BAR_REGS, FAKERNIC_BAR_UAR,
                                    FAKERNIC_BAR_MSIX };
    QTestState *q;
    Card c;

    card_start(&c, ",vfs=8");
    q = c.m.qts;
    g_assert_cmpuint(qtest_readw(q, PF_CONFIG + c.sriov + PCI_SRIOV_TOTAL_VF),
                     ==, 8);
    g_assert_cmphex(qtest_readw(q, PF_CONFIG + c.sriov + PCI_SRIOV_VF_DID), ==,
                    FAKERNIC_PCI_VF_DEVICE_ID);
    g_assert_cmpuint(qtest_readw(q, PF_CONFIG + c.sriov + PCI_SRIOV_VF_OFFSET),
                     ==, 1);
    g_assert_cmpuint(qtest_readw(q, PF_CONFIG + c.sriov + PCI_SRIOV_VF_STRIDE),
                     ==, 1);
    for (unsigned i = 0; i < ARRAY_SIZE(bars); i++) {
        g_assert_cmphex(qtest_readl(q, PF_CONFIG + c.sriov + PCI_SRIOV_BAR +
                                           4 * bars[i]), ==,
                        PCI_BASE_ADDRESS_MEM_TYPE_64 |
                            PCI_BASE_ADDRESS_MEM_PREFETCH);
    }
    nic_flr(&c.pf.n);           /* keeps the capabilities behind SR-IOV */
    g_assert_cmphex(extended_capability(&c.m, PF_CONFIG, PCI_EXT_CAP_ID_ARI),
                    !=, 0);
    vfs_enable(&c, 8);
    g_assert_cmphex(extended_capability(&c.m, vf_config(7), PCI_EXT_CAP_ID_ARI),
                    !=, 0);
    g_assert_cmphex(extended_capability(&c.m, vf_config(7), PCI_EXT_CAP_ID_DSN),
                    ==, 0);
    card_stop(&c);
}

/* Without VFs the card has neither capability. */
static void test_none(void)
{
    Machine m;

    machine_start(&m, NATIVE_HOTPLUG "-device fakernic,bus=rp0");
    ecam_enable(&m);
    root_port_setup(&m);
    g_assert_cmphex(extended_capability(&m, PF_CONFIG, PCI_EXT_CAP_ID_ERR), !=,
                    0);
    g_assert_cmphex(extended_capability(&m, PF_CONFIG, PCI_EXT_CAP_ID_SRIOV),
                    ==, 0);
    g_assert_cmphex(extended_capability(&m, PF_CONFIG, PCI_EXT_CAP_ID_ARI), ==,
                    0);
    machine_stop(&m);
}

/* Each pair of PF, VF 0 and VF 1 does RDMA, in both directions. */
static void test_traffic(void)
{
    Function vf[2];
    Connection t[6];
    Card c;

    card_up(&c, ",vfs=2", vf, 2);
    g_assert_cmpuint(reg_read(&vf[0].n, FAKERNIC_REG_VECTOR_COUNT), ==,
                     VF_VECTORS);
    functions_connect(&t[0], &vf[0], &vf[1]);
    functions_connect(&t[1], &vf[1], &vf[0]);
    functions_connect(&t[2], &c.pf, &vf[0]);
    functions_connect(&t[3], &vf[0], &c.pf);
    functions_connect(&t[4], &c.pf, &vf[1]);
    functions_connect(&t[5], &vf[1], &c.pf);
    for (unsigned i = 0; i < ARRAY_SIZE(t); i++) {
        write_passes(&t[i]);
    }
    g_free(vf[0].n.pci);
    g_free(vf[1].n.pci);
    card_stop(&c);
}

/* ---- migration ----------------------------------------------------------- */

#define MOVING NATIVE_HOTPLUG "-device fakernic,id=nic,bus=rp0,mac=" \
               MAC_STRING ",vfs="

/* A card moves with two enabled VFs of four, and a WRITE that is not polled.
 * All connections continue, and the VFs get interrupts. */
static void test_move(void)
{
    Function vf[2];
    Connection t[4];
    struct fakernic_cqe cqe;
    Card c;

    card_up(&c, ",vfs=4", vf, 2);
    functions_connect(&t[0], &vf[0], &vf[1]);
    functions_connect(&t[1], &vf[1], &vf[0]);
    functions_connect(&t[2], &c.pf, &vf[0]);
    functions_connect(&t[3], &vf[1], &c.pf);
    write_passes(&t[0]);
    post_write(&t[1], 100);
    cq_arm(&vf[0].n, &vf[0].s.cq, 0, false);
    for (unsigned moves = 0; moves < 2; moves++) {
        save_move(&c.m, MOVING "4");
        g_assert_true(vf_exists(&c, 1));
        g_assert_false(vf_exists(&c, 2));
        if (!moves) {
            cq_await(&vf[1].n, &vf[1].s.cq, &cqe, FAKERNIC_CQE_RDMA_WRITE,
                     FAKERNIC_WC_SUCCESS);
        }
        for (unsigned i = 0; i < ARRAY_SIZE(t); i++) {
            write_passes(&t[i]);
        }
    }
    g_assert_true(msix_fired(&vf[0].n, 1));
    /* A VF that was not enabled before works, too. */
    vfs_disable(&c);
    vfs_enable(&c, 4);
    g_free(vf[1].n.pci);
    vf_up(&c, &vf[1], 3);
    functions_connect(&t[0], &c.pf, &vf[1]);
    write_passes(&t[0]);
    g_free(vf[0].n.pci);
    g_free(vf[1].n.pci);
    card_stop(&c);
}

/* A card with VFs that are not enabled moves, and they can be enabled then. */
static void test_move_disabled(void)
{
    Connection t;
    Function vf;
    Card c;

    card_start(&c, ",vfs=2");
    function_up(&c.pf, 0);
    save_move(&c.m, MOVING "2");
    g_assert_false(vf_exists(&c, 0));
    vfs_enable(&c, 1);
    vf_up(&c, &vf, 0);
    functions_connect(&t, &c.pf, &vf);
    write_passes(&t);
    g_free(vf.n.pci);
    card_stop(&c);
}

/* States in which the card has other VFs than it has are refused. */
static void test_move_hostile(void)
{
    static const struct {
        unsigned at;
        uint16_t value;
        const char *words;
    } cases[] = {
        { PCI_SRIOV_NUM_VF, 3, "enables 3 virtual functions of 2" },
        { PCI_SRIOV_NUM_VF, 0xffff, "enables 65535 virtual functions of 2" },
        { PCI_SRIOV_TOTAL_VF, 0xffff, "Bad config data" },
        { PCI_SRIOV_VF_OFFSET, 0, "Bad config data" },
        { PCI_SRIOV_VF_STRIDE, 0, "Bad config data" },
    };
    /* From InitialVFs to the device id of VFs: one of two is enabled. */
    const uint16_t capability[] = {
        LE16(2), LE16(2), LE16(1), 0, LE16(1), LE16(1), 0,
        LE16(FAKERNIC_PCI_VF_DEVICE_ID),
    };
    g_autofree char *path = NULL, *bytes = NULL;
    int64_t now;
    size_t size;
    char *at;
    Card c;

    card_start(&c, ",vfs=2");
    function_up(&c.pf, 0);
    vfs_enable(&c, 1);
    path = save_end(&c.m, &now);
    g_assert_true(g_file_get_contents(path, &bytes, &size, NULL));
    at = memmem(bytes, size, capability, sizeof(capability));
    g_assert_nonnull(at);
    at -= PCI_SRIOV_INITIAL_VF;
    for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
        const uint16_t before = lduw_le_p(at + cases[i].at);

        stw_le_p(at + cases[i].at, cases[i].value);
        g_assert_true(g_file_set_contents(path, bytes, size, NULL));
        save_refused(MOVING "2", path, cases[i].words);
        stw_le_p(at + cases[i].at, before);
    }
    g_assert_true(g_file_set_contents(path, bytes, size, NULL));
    save_begin(&c.m, MOVING "2", path, now);
    unlink(path);
    g_assert_true(vf_exists(&c, 0));
    g_assert_false(vf_exists(&c, 1));
    card_stop(&c);
}

/* A frame of the wire goes to the function with its address, and back. */
static void test_wire(void)
{
    uint8_t frame[64];
    g_autofree char *options = NULL;
    Function vf;
    int fds[2];
    Qp raw;
    Card c;

    g_assert_cmpint(socketpair(AF_UNIX, SOCK_DGRAM, 0, fds), ==, 0);
    options = g_strdup_printf(",vfs=1,netdev=n0 -netdev dgram,id=n0,"
                              "local.type=fd,local.str=%d", fds[1]);
    card_start(&c, options);
    close(fds[1]);
    function_up(&c.pf, 0);
    vfs_enable(&c, 1);
    vf_up(&c, &vf, 0);
    port_up(&vf.n, &vf.s, &raw, 0);
    frame_make(frame, vf.mac, sizeof(frame));
    wire_send(fds[0], frame, sizeof(frame));
    wait_stat(&vf.n, FAKERNIC_STAT_RX_FRAMES, 1);
    g_assert_cmpuint(nic_stat(&c.pf.n, FAKERNIC_STAT_RX_FRAMES), ==, 0);
    frame_make(frame, c.pf.mac, sizeof(frame));
    wire_send(fds[0], frame, sizeof(frame));
    wait_stat(&c.pf.n, FAKERNIC_STAT_RX_FRAMES, 1);
    g_assert_cmpuint(nic_stat(&vf.n, FAKERNIC_STAT_RX_FRAMES), ==, 1);
    close(fds[0]);
    g_free(vf.n.pci);
    card_stop(&c);
}

/* The same over the link, which a VF also looks at when its guest polls. */
static void test_link(void)
{
    g_autofree char *folder = g_dir_make_tmp("fakernic-XXXXXX", NULL);
    g_autofree char *lock = g_build_filename(folder, "lock", NULL);
    g_autofree char *options = NULL;
    Function vf, other = { 0 };
    Connection t[2];
    Card c;

    g_assert_nonnull(folder);
    options = g_strdup_printf(",vfs=1,link=%s -device fakernic,addr=05.0,"
                              "mac=02:00:00:00:00:05,link=%s", folder, folder);
    card_start(&c, options);
    vfs_enable(&c, 1);
    vf_up(&c, &vf, 0);
    nic_find(&other.n, &c.m, 5);
    function_up(&other, 5);
    functions_connect(&t[0], &vf, &other);
    functions_connect(&t[1], &other, &vf);
    write_passes(&t[0]);
    write_passes(&t[1]);
    ring(&vf.n, 0, FAKERNIC_DOORBELL_POLL, 0);
    g_assert_cmpuint(nic_stat(&vf.n, FAKERNIC_STAT_DOORBELL_DROPPED), ==, 0);
    g_free(other.n.pci);
    g_free(vf.n.pci);
    card_stop(&c);
    g_unlink(lock);
    g_assert_cmpint(rmdir(folder), ==, 0);
}

/* VFs come and go while one of them sends to the PF. */
static void test_loop(void)
{
    Card c;

    card_start(&c, ",vfs=4");
    function_up(&c.pf, 0);
    for (unsigned round = 0; round < 40; round++) {
        Connection t;
        Function vf;

        vfs_enable(&c, 4);
        for (unsigned i = 0; i < 4; i++) {
            g_assert_true(vf_exists(&c, i));
        }
        if (round % 8 == 0) {
            vf_up(&c, &vf, round % 4);
            functions_connect(&t, &vf, &c.pf);
            write_passes(&t);
            post_write(&t, 32000);
            g_free(vf.n.pci);
        }
        vfs_disable(&c);
        for (unsigned i = 0; i < 4; i++) {
            g_assert_false(vf_exists(&c, i));
        }
    }
    main_loop_turns(&c.m, 10);
    card_stop(&c);
}

/* The reset of a VF does not affect other functions. */
static void test_flr_of_vf(void)
{
    Function vf[2];
    Connection t;
    Card c;

    card_up(&c, ",vfs=2", vf, 2);
    functions_connect(&t, &vf[1], &c.pf);
    post_write(&t, 32000);
    qpci_config_writew(vf[0].n.pci,
                       qpci_find_capability(vf[0].n.pci, PCI_CAP_ID_EXP, 0) +
                           PCI_EXP_DEVCTL, PCI_EXP_DEVCTL_BCR_FLR);
    vf_command(&vf[0].n);
    nic_await_reset(&vf[0].n);
    cq_await(&vf[1].n, &vf[1].s.cq, &(struct fakernic_cqe) { 0 },
             FAKERNIC_CQE_RDMA_WRITE, FAKERNIC_WC_SUCCESS);
    vf_msix(&vf[0].n);
    function_up(&vf[0], 1);
    functions_connect(&t, &vf[0], &vf[1]);
    write_passes(&t);
    g_free(vf[0].n.pci);
    g_free(vf[1].n.pci);
    card_stop(&c);
}

/* The reset of the PF takes all VFs away; CONTROL.RESET takes none. */
static void test_reset_of_pf(void)
{
    Function vf[2];
    Connection t;
    Card c;

    card_up(&c, ",vfs=2", vf, 2);
    functions_connect(&t, &vf[0], &vf[1]);
    nic_reset(&c.pf.n);
    write_passes(&t);
    nic_flr(&c.pf.n);
    g_assert_false(vf_exists(&c, 0));
    g_free(vf[0].n.pci);
    g_free(vf[1].n.pci);
    function_up(&c.pf, 0);
    vfs_enable(&c, 2);
    vf_up(&c, &vf[0], 0);
    functions_connect(&t, &c.pf, &vf[0]);
    write_passes(&t);
    g_free(vf[0].n.pci);
    card_stop(&c);
}

/* A VF takes 0.7 MB. When it appears, QEMU builds its memory maps again, and
 * frees the old ones later: up to 1.5 MB more. */
#define VF_MEMORY (4u << 20)

/* All VFs of the largest card answer, each with an address of its own, and use
 * a bounded amount of QEMU's memory. */
static void test_all(void)
{
    g_autoptr(GHashTable) macs = g_hash_table_new(g_int64_hash, g_int64_equal);
    uint64_t mac[127], before;
    Card c;

    card_start(&c, ",vfs=127");
    before = anonymous_memory(&c.pf.n);
    vfs_enable(&c, 127);
    for (unsigned i = 0; i < 127; i++) {
        Function vf;

        vf_find(&c, &vf, i);
        g_assert_cmphex(reg_read(&vf.n, FAKERNIC_REG_MAGIC), ==,
                        FAKERNIC_MAGIC);
        mac[i] = reg_read(&vf.n, FAKERNIC_REG_MAC_LO) |
                 (uint64_t)reg_read(&vf.n, FAKERNIC_REG_MAC_HI) << 32;
        g_assert_cmphex(mac[i] & 3, ==, 2);     /* local, unicast */
        g_assert_true(g_hash_table_add(macs, &mac[i]));
        g_free(vf.n.pci);
    }
    g_test_message("a VF: %" PRIu64 " bytes",
                   (anonymous_memory(&c.pf.n) - before) / 127);
    g_assert_cmpuint(anonymous_memory(&c.pf.n), <, before + 127 * VF_MEMORY);
    vfs_disable(&c);
    main_loop_turns(&c.m, 10);
    card_stop(&c);
}

/* Creates large QPs until the device has no memory for another. */
static unsigned create_qps(Function *f)
{
    const struct fakernic_page_list pages = {
        .page_count = LE32(8193), .page_shift = FAKERNIC_PAGE_SHIFT,
    };
    const struct fakernic_create_qp_req req = {
        .sq_pages = pages, .rq_pages = pages,
        .type = FAKERNIC_QP_RC,
        .sq_log_depth = 16, .rq_log_depth = 16,
        .rq_log_stride = 9,
        .pdn = LE32(f->s.pd),
        .send_cqn = LE32(f->s.cq.id),
        .recv_cqn = LE32(f->s.cq.id),
    };
    struct fakernic_id id;
    unsigned count = 0;
    uint8_t status;

    while ((status = cmd(&f->n, FAKERNIC_CMD_CREATE_QP, &req, sizeof(req), &id,
                         sizeof(id))) == FAKERNIC_CMD_OK) {
        count++;
    }
    assert_status(status, NO_RESOURCE);
    return count;
}

/* A VF gets a quarter of the card's memory at most. After its reset the others
 * can use that, except a third of it. The third is reserved for this VF: a
 * quarter of the card's memory is divided among three functions. */
static void test_memory(void)
{
    unsigned quarter, rest, more, own;
    Function vf[2];
    Card c;

    card_up(&c, ",vfs=2,max-memory=16M", vf, 2);
    quarter = create_qps(&vf[0]);
    g_assert_cmpuint(quarter, >, 10);
    g_assert_cmpuint(create_qps(&vf[1]), ==, quarter);
    rest = create_qps(&c.pf);
    g_assert_cmpuint(rest, >=, 2 * quarter - 1);
    g_assert_cmpuint(rest, <, 2 * (quarter + 2));
    nic_reset(&vf[0].n);
    function_up(&vf[0], 1);
    more = create_qps(&c.pf);
    own = create_qps(&vf[0]);
    g_assert_cmpuint(own, >=, quarter / 3 - 1);
    g_assert_cmpuint(own, <=, quarter / 3 + 2);
    g_assert_cmpuint(more, >=, quarter - own - 2);
    g_free(vf[0].n.pci);
    g_free(vf[1].n.pci);
    card_stop(&c);
}

/* Whether a VF has device memory depends on vf-dm-size, and not on the PF. */
static void test_device_memory(void)
{
    static const struct {
        const char *options;
        bool offered;
    } cases[] = {
        { ",vfs=1,dm-size=0,vf-dm-size=64K", true },
        { ",vfs=1,dm-size=64K", false },
    };

    for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
        Function vf;
        Card c;

        card_start(&c, cases[i].options);
        vfs_enable(&c, 1);
        vf_find(&c, &vf, 0);
        g_assert_cmpint(!!(nic_offered(&vf.n) & FAKERNIC_FEATURE_DM), ==,
                        cases[i].offered);
        g_assert_cmpint(!!reg_read(&vf.n, FAKERNIC_REG_DM_PAGES), ==,
                        cases[i].offered);
        g_free(vf.n.pci);
        card_stop(&c);
    }
}

/* ---- shares of the main loop --------------------------------------------- */

#define BUSY_VFS    6
#define BUSY_WRITES 30          /* below the depth of the send queue */
#define BUSY_TURN   64          /* units */

/* A property of the card, or of a VF. */
static uint64_t card_property(Card *c, const char *function, const char *name)
{
    g_autofree char *path = g_strconcat("/machine/peripheral/nic", function,
                                        NULL);
    QDict *answer = qtest_qmp(c->m.qts, "{ 'execute': 'qom-get', 'arguments': "
                                        "{ 'path': %s, 'property': %s } }",
                              path, name);
    uint64_t value = qdict_get_int(answer, "return");

    qobject_unref(answer);
    return value;
}

static uint64_t longest_round(Card *c)
{
    uint64_t value = card_property(c, "", "x-longest-round");

    g_test_message("longest round: %" PRIu64 " units", value);
    return value;
}

/* Puts WRITEs from a function to itself into its queue, without ringing. Each
 * is the work of a turn or more. */
static void put_writes(Connection *t, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        Wqe wqe = wqe_rdma(&t->side[0]->s, FAKERNIC_SQ_RDMA_WRITE, 0, 32768,
                           32000);

        sq_put(&t->side[0]->n, &t->qp[0], &wqe, sizeof(wqe));
    }
}

static unsigned count_writes(Function *f)
{
    struct fakernic_cqe cqe;
    unsigned count = 0;

    while (cq_poll(&f->n, &f->s.cq, &cqe)) {
        g_assert_cmpuint(cqe.status, ==, FAKERNIC_WC_SUCCESS);
        count++;
    }
    return count;
}

/* Six busy VFs get equal shares. In a round of the main loop one of those that
 * wait gets a turn, in addition to the one whose doorbell rings. */
static void test_share(void)
{
    unsigned done[BUSY_VFS] = { 0 }, most = 0;
    Function vf[BUSY_VFS];
    Connection t[BUSY_VFS];
    Card c;

    card_start(&c, ",vfs=6,turn-work=64,turn-us=1000000");
    function_up(&c.pf, 0);
    vfs_enable(&c, BUSY_VFS);
    for (unsigned i = 0; i < BUSY_VFS; i++) {
        vf_up(&c, &vf[i], i);
        functions_connect(&t[i], &vf[i], &vf[i]);
        put_writes(&t[i], BUSY_WRITES);
    }
    for (unsigned i = 0; i < BUSY_VFS; i++) {
        sq_ring(&vf[i].n, &t[i].qp[0]);
    }
    for (unsigned tries = 0; most < BUSY_WRITES && tries < 30000; tries++) {
        for (unsigned i = 0; i < BUSY_VFS; i++) {
            done[i] += count_writes(&vf[i]);
            most = MAX(most, done[i]);
        }
    }
    g_assert_cmpuint(most, ==, BUSY_WRITES);
    for (unsigned i = 0; i < BUSY_VFS; i++) {
        done[i] += count_writes(&vf[i]);
        g_test_message("VF %u: %u", i, done[i]);
        g_assert_cmpuint(done[i], >=, BUSY_WRITES / 2);
    }
    g_assert_cmpuint(longest_round(&c), >=, BUSY_TURN);
    g_assert_cmpuint(longest_round(&c), <, 4 * BUSY_TURN);
    for (unsigned i = 0; i < BUSY_VFS; i++) {
        g_free(vf[i].n.pci);
    }
    card_stop(&c);
}

#define RUNG_QPS    20
#define RUNG_TURN   256

/* Many doorbells of a VF ring in one round of the main loop. The VF gets no
 * more than its share in that round, and does the rest of the work later. */
static void test_doorbells(void)
{
    const size_t size = (RUNG_QPS - 1) * FAKERNIC_PAGE_SIZE + 8;
    g_autofree uint8_t *pages = g_malloc(size);
    Connection t[RUNG_QPS];
    unsigned done = 0;
    Function vf;
    Card c;

    card_up(&c, ",vfs=1,turn-work=256,turn-us=1000000", &vf, 1);
    memset(pages, 0xff, size);          /* no doorbell: reserved bits */
    for (unsigned i = 0; i < RUNG_QPS; i++) {
        g_assert_cmpuint(cmd_create(&vf.n, FAKERNIC_CMD_ALLOC_UAR, NULL, 0), ==,
                         i + 1);
        functions_connect_at(&t[i], &vf, &vf, i + 1);
        put_writes(&t[i], 1);
        stq_le_p(pages + i * FAKERNIC_PAGE_SIZE,
                 doorbell(t[i].qp[0].qpn, t[i].qp[0].sq.index));
    }
    qtest_memwrite(c.m.qts, vf.n.uar.addr + FAKERNIC_PAGE_SIZE +
                            FAKERNIC_DOORBELL_SQ, pages, size);
    for (unsigned tries = 0; done < RUNG_QPS && tries < 30000; tries++) {
        done += count_writes(&vf);
    }
    g_assert_cmpuint(done, ==, RUNG_QPS);
    g_assert_cmpuint(longest_round(&c), <, 4 * RUNG_TURN);
    g_free(vf.n.pci);
    card_stop(&c);
}

/* ---- costs of a hostile VF ----------------------------------------------- */

#define COST_TURN       256     /* units */
#define COST_STEP       256     /* likewise: what is begun is completed */
#define COST_BY_CHANCE  24      /* see fakernic-cost.c */
#define COST_VFS        127
#define COST_FRAMES     30      /* below the depth of queues */
#define COST_MEMORY     (64u << 20)
/* A VF gets a quarter of it, and the allocator needs some. */
#define COST_VF_MEMORY  (COST_MEMORY / 4 + COST_MEMORY / 8)

static void cost_limit(Card *c, unsigned vf)
{
    g_autofree char *path = g_strdup_printf("/machine/peripheral/nic/vf[%u]",
                                            vf);

    qtest_qmp_assert_success(c->m.qts, "{ 'execute': 'qom-set', 'arguments': { "
                             "'path': %s, 'property': 'x-cost-limit', "
                             "'value': 10000 } }", path);      /* ns a unit */
}

/* A VF that receives broadcasts into its memory. */
static void listener_up(Card *c, Function *f, unsigned vf)
{
    Qp raw;

    vf_up(c, f, vf);
    cost_limit(c, vf);
    port_up(&f->n, &f->s, &raw, FAKERNIC_FILTER_BROADCAST);
    for (unsigned i = 0; i < COST_FRAMES; i++) {
        rq_post(&f->n, &raw.rq, i, f->s.data, 2048, f->s.key);
    }
}

/* A VF floods all other VFs of the largest card. The monitor answers, and each
 * step of each function counts as what it costs. */
static void test_cost_broadcast(void)
{
    static const uint8_t all[6] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };
    g_autofree Function *vf = g_new0(Function, COST_VFS);
    uint8_t frame[1514];
    uint64_t found = 0, since;
    Wqe wqe;
    Qp raw;
    Card c;

    card_start(&c, ",vfs=127,turn-work=256,turn-us=1000000");
    vfs_enable(&c, COST_VFS);
    for (unsigned i = 0; i < COST_VFS; i++) {
        listener_up(&c, &vf[i], i);
    }
    port_up(&vf[0].n, &vf[0].s, &raw, 0);
    frame_make(frame, all, sizeof(frame));
    memcpy(frame + 6, vf[0].mac, 6);
    qtest_memwrite(c.m.qts, vf[0].s.data, frame, sizeof(frame));
    wqe = wqe_send(&vf[0].s, 0, sizeof(frame));
    for (unsigned i = 0; i < COST_FRAMES; i++) {
        sq_put(&vf[0].n, &raw, &wqe, sizeof(wqe));
    }
    since = main_cpu_us(&c.m);
    sq_ring(&vf[0].n, &raw);
    monitor_must_answer(&c.m, "a VF's broadcasts to 126 VFs", since);
    for (unsigned i = 0; i < COST_VFS; i++) {
        g_autofree char *path = g_strdup_printf("/vf[%u]", i);

        wait_stat(&vf[i].n, FAKERNIC_STAT_RX_FRAMES, i ? COST_FRAMES : 0);
        found += card_property(&c, path, "x-cost-found");
        g_assert_cmpuint(card_property(&c, path, "x-longest-turn"), <=,
                         COST_TURN + COST_STEP);
        g_free(vf[i].n.pci);
    }
    g_assert_cmpuint(found, <=, COST_BY_CHANCE);
    /*
     * A copy is a quarter of a unit for its sender, and one for its receiver.
     */
    g_assert_cmpuint(longest_round(&c), <=, 5 * (COST_TURN + COST_STEP));
    card_stop(&c);
}

/* A VF creates as many objects as it can, three times. */
static void test_cost_vf_memory(void)
{
    uint64_t before, taken;
    Function vf;
    Card c;

    card_up(&c, ",vfs=1,max-memory=64M", &vf, 1);
    before = anonymous_memory(&c.pf.n);
    for (unsigned round = 0; round < 3; round++) {
        const unsigned count = create_qps(&vf);

        taken = anonymous_memory(&c.pf.n) - MIN(before,
                                                anonymous_memory(&c.pf.n));
        g_test_message("%u QPs: %" PRIu64 " KiB taken", count, taken / 1024);
        g_assert_cmpuint(count, >, 40);
        g_assert_cmpuint(taken, >, COST_MEMORY / 16);
        g_assert_cmpuint(taken, <=, COST_VF_MEMORY);
        nic_reset(&vf.n);
        function_up(&vf, 1);
    }
    g_free(vf.n.pci);
    card_stop(&c);
}

/* A guest unplugs the card with VFs at work. */
static void test_unplug(void)
{
    QPCIDevice *port;
    Connection t;
    Function vf;
    uint8_t exp;
    Card c;

    card_start(&c, ",vfs=4");
    function_up(&c.pf, 0);
    vfs_enable(&c, 4);
    vf_up(&c, &vf, 2);
    functions_connect(&t, &vf, &c.pf);
    for (unsigned i = 0; i < 8; i++) {
        post_write(&t, 32000);
    }
    port = qpci_device_find(c.m.bus, QPCI_DEVFN(PORT_SLOT, 0));
    exp = qpci_find_capability(port, PCI_CAP_ID_EXP, 0);
    qpci_config_writew(port, exp + PCI_EXP_SLTCTL,
                       PCI_EXP_SLTCTL_PWR_OFF | PCI_EXP_SLTCTL_PWR_IND_OFF);
    assert_gone(&c.m);
    /* A card of the same name may take its place. */
    qtest_qmp_device_add(c.m.qts, "fakernic", "nic",
                         "{'bus': 'rp0', 'vfs': 2}");
    g_free(port);
    g_free(vf.n.pci);
    card_stop(&c);
}

static void refused(Machine *m, const char *options, const char *why)
{
    QDict *reply = qtest_qmp(
        m->qts, "{ 'execute': 'human-monitor-command', 'arguments': "
                "{ 'command-line': %s } }", options);
    const char *text = qdict_get_str(reply, "return");

    if (!strstr(text, why)) {
        g_error("%s: %s", options, text);
    }
    qobject_unref(reply);
}

static void test_refused(void)
{
    Machine m;

    machine_start(&m, NATIVE_HOTPLUG);
    refused(&m, "device_add fakernic,bus=rp0,vfs=128",
            "'vfs' must be 0 to 127, not 128");
    refused(&m, "device_add fakernic,bus=rp0,vfs=1,vf-max-qp=24",
            "'vf-max-qp' must be a power of two");
    refused(&m, "device_add fakernic,bus=rp0,vfs=1,vf-uars=1",
            "'vf-uars' must be 2 to 65536, not 1");
    refused(&m, "device_add fakernic,bus=rp0,vfs=1,vf-vectors=34",
            "'vf-vectors' must be 1 to 33, not 34");
    refused(&m, "device_add fakernic,bus=rp0,vfs=1,vf-max-mr=8",
            "'vf-max-mr' must be");
    refused(&m, "device_add fakernic,bus=rp0,vfs=1,vf-gids=0",
            "'vf-gids' must be 1 to 4096, not 0");
    refused(&m, "device_add fakernic,bus=rp0,vfs=1,vf-dm-size=5",
            "'vf-dm-size' must be a multiple of 4096, not 5");
    refused(&m, "device_add fakernic-vf,bus=rp0", "pluggable device type");
    refused(&m, "device_add fakernic-function,bus=rp0",
            "non-abstract device type");
    /* Nothing is left of them. */
    qtest_qmp_device_add(m.qts, "fakernic", "nic", "{'bus': 'rp0', 'vfs': 1}");
    machine_stop(&m);
}

/* A VF is queried as a property of its card. */
static void test_query(void)
{
    QDict *reply;
    Function vf;
    Card c;

    card_start(&c, ",vfs=2");
    reply = qtest_qmp(c.m.qts, "{ 'execute': 'x-query-fakernic', 'arguments': "
                               "{ 'path': '/machine/peripheral/nic/vf[1]' } }");
    g_assert_nonnull(strstr(qdict_get_str(qdict_get_qdict(reply, "error"),
                                          "desc"), "never enabled"));
    qobject_unref(reply);
    vfs_enable(&c, 2);
    vf_up(&c, &vf, 1);
    reply = qtest_qmp(c.m.qts, "{ 'execute': 'x-query-fakernic', 'arguments': "
                               "{ 'path': 'nic/vf[1]' } }");
    g_assert_true(qdict_haskey(reply, "return"));
    qobject_unref(reply);
    g_free(vf.n.pci);
    card_stop(&c);
}

/* ---- vports -------------------------------------------------------------- */

/* A card on one end of a datagram socket pair, with its PF up. */
static int vports_start(Card *c, Function *vf, unsigned vfs)
{
    g_autofree char *options = NULL;
    int fds[2];

    g_assert_cmpint(socketpair(AF_UNIX, SOCK_DGRAM, 0, fds), ==, 0);
    options = g_strdup_printf(",vfs=%u,netdev=n0 -netdev dgram,id=n0,"
                              "local.type=fd,local.str=%d", vfs, fds[1]);
    card_start(c, options);
    close(fds[1]);
    function_up(&c->pf, 0);
    vfs_enable(c, vfs);
    for (unsigned i = 0; i < vfs; i++) {
        vf_up(c, &vf[i], i);
    }
    return fds[0];
}

static void vports_stop(Card *c, Function *vf, unsigned vfs, int wire)
{
    for (unsigned i = 0; i < vfs; i++) {
        g_free(vf[i].n.pci);
    }
    close(wire);
    card_stop(c);
}

static struct fakernic_set_vport_req vport_req(unsigned vport, uint32_t mask)
{
    return (struct fakernic_set_vport_req) {
        .vport = LE16(vport), .mask = LE32(mask),
        .settings = { .vlan_proto = LE16(0x8100) },
    };
}

static struct fakernic_query_vport_resp vport_query(Card *c, unsigned vport)
{
    struct fakernic_id req = { .id = LE32(vport) };
    struct fakernic_query_vport_resp resp;

    assert_status(cmd(&c->pf.n, FAKERNIC_CMD_QUERY_VPORT, &req, sizeof(req),
                      &resp, sizeof(resp)), OK);
    return resp;
}

static uint64_t vport_stat(Card *c, unsigned vport, unsigned which)
{
    struct fakernic_query_vport_stats_req req = {
        .first = LE16(vport), .counters = LE16(FAKERNIC_VPORT_STAT_COUNT),
        .length = LE32(8 * FAKERNIC_VPORT_STAT_COUNT),
        .address = LE64(mem_alloc(&c->m, 4096)),
    };
    struct fakernic_query_vport_stats_resp resp;
    uint64_t value;

    assert_status(cmd(&c->pf.n, FAKERNIC_CMD_QUERY_VPORT_STATS, &req,
                      sizeof(req), &resp, sizeof(resp)), OK);
    g_assert_cmpuint(le32_to_cpu(resp.vports), ==, 1);
    g_assert_cmpuint(le32_to_cpu(resp.counters), ==, FAKERNIC_VPORT_STAT_COUNT);
    value = qtest_readq(c->m.qts, le64_to_cpu(req.address) + 8 * which);
    guest_free(&c->m.alloc, le64_to_cpu(req.address));
    return value;
}

/* The function sends a raw frame of 64 bytes from its address. */
static void raw_send(Function *f, Qp *raw, uint8_t *frame)
{
    Wqe wqe = wqe_send(&f->s, 0, 64);
    struct fakernic_cqe cqe;

    qtest_memwrite(f->n.m->qts, f->s.data, frame, 64);
    sq_put(&f->n, raw, &wqe, sizeof(wqe));
    sq_ring(&f->n, raw);
    cq_await(&f->n, &f->s.cq, &cqe, FAKERNIC_CQE_SEND, FAKERNIC_WC_SUCCESS);
}

static const uint8_t elsewhere[6] = { 2, 0, 0, 0, 0, 9 };

static void test_vport_function(void)
{
    Function vf[2];
    Machine m;
    Card c;
    Nic n;
    int wire = vports_start(&c, vf, 2);

    g_assert_cmphex(reg_read(&c.pf.n, FAKERNIC_REG_FUNCTION), ==, 2 << 16);
    g_assert_cmphex(reg_read(&vf[0].n, FAKERNIC_REG_FUNCTION), ==, 1);
    g_assert_cmphex(reg_read(&vf[1].n, FAKERNIC_REG_FUNCTION), ==, 2);
    assert_status(cmd_id(&vf[0].n, FAKERNIC_CMD_QUERY_VPORT, 0), UNSUPPORTED);
    assert_status(cmd_id(&vf[0].n, FAKERNIC_CMD_RESET_VPORT, 2), UNSUPPORTED);
    vports_stop(&c, vf, 2, wire);
    /* Without VFs the card does not offer it. */
    machine_start(&m, DEVICE);
    nic_find(&n, &m, SLOT);
    g_assert_cmphex(reg_read(&n, FAKERNIC_REG_FUNCTION), ==, 0);
    g_assert_cmphex(nic_offered(&n) & (FAKERNIC_FEATURE_FUNCTION |
                                        FAKERNIC_FEATURE_VPORT), ==, 0);
    machine_stop(&m);
}

static void test_vport_set(void)
{
    const struct fakernic_vport_settings all = {
        .mac = { 2, 1, 1, 1, 1, 1 }, .vid = LE16(4094),
        .vlan_proto = LE16(0x88a8), .qos = 7,
        .link = FAKERNIC_VPORT_LINK_ENABLE, .trust = 1, .rss_query = 1,
        .min_mbps = LE32(40), .max_mbps = LE32(100),
    };
    struct fakernic_set_vport_req req = vport_req(2, 0x7f);
    struct fakernic_query_vport_resp resp;
    Function vf[2];
    Card c;
    int wire = vports_start(&c, vf, 2);

    resp = vport_query(&c, 2);
    g_assert_cmpuint(resp.settings.spoof_check, ==, 1);
    g_assert_cmpuint(resp.flags, ==, FAKERNIC_VPORT_PRESENT |
                     FAKERNIC_VPORT_ENABLED | FAKERNIC_VPORT_LINK_UP);
    g_assert_cmpmem(resp.permanent_mac, 6, vf[1].mac, 6);
    g_assert_cmpmem(resp.driver_mac, 6, vf[1].mac, 6);
    req.settings = all;
    assert_status(CMD(&c.pf.n, SET_VPORT, req), OK);
    resp = vport_query(&c, 2);
    g_assert_cmpmem(&resp.settings, sizeof(all), &all, sizeof(all));
    /* What the mask does not name stays. */
    req = vport_req(2, FAKERNIC_VPORT_TRUST);
    assert_status(CMD(&c.pf.n, SET_VPORT, req), OK);
    resp = vport_query(&c, 2);
    g_assert_cmpuint(resp.settings.trust, ==, 0);
    g_assert_cmpuint(le16_to_cpu(resp.settings.vid), ==, 4094);
    resp = vport_query(&c, 1);
    g_assert_cmpuint(le16_to_cpu(resp.settings.vid), ==, 0);
    resp = vport_query(&c, FAKERNIC_VPORT_UPLINK);
    g_assert_cmpuint(resp.flags, ==, FAKERNIC_VPORT_PRESENT |
                     FAKERNIC_VPORT_LINK_UP);
    vports_stop(&c, vf, 2, wire);
}

/* Settings and counters move with the card. */
static void test_move_vports(void)
{
    struct fakernic_set_vport_req req = vport_req(1, 0x7f);
    struct fakernic_query_vport_resp resp;
    uint64_t frames;
    Connection t;
    Function vf[2];
    Card c;

    card_up(&c, ",vfs=2", vf, 2);
    req.settings.trust = 1;
    req.settings.max_mbps = LE32(100);
    assert_status(CMD(&c.pf.n, SET_VPORT, req), OK);
    functions_connect(&t, &vf[1], &c.pf);
    write_passes(&t);
    frames = vport_stat(&c, 2, FAKERNIC_VPORT_STAT_TX_FRAMES);
    g_assert_cmpuint(frames, >, 0);
    save_move(&c.m, MOVING "2");
    resp = vport_query(&c, 1);
    g_assert_cmpuint(resp.settings.trust, ==, 1);
    g_assert_cmpuint(resp.settings.spoof_check, ==, 0);
    g_assert_cmpuint(le32_to_cpu(resp.settings.max_mbps), ==, 100);
    g_assert_cmpmem(resp.driver_mac, 6, vf[0].mac, 6);
    g_assert_cmpuint(vport_stat(&c, 2, FAKERNIC_VPORT_STAT_TX_FRAMES), ==,
                     frames);
    write_passes(&t);
    g_free(vf[0].n.pci);
    g_free(vf[1].n.pci);
    card_stop(&c);
}

#define REFUSED(vport, bits, code, field, ...) do {                         \
        req = vport_req(vport, bits);                                       \
        __VA_ARGS__;                                                        \
        assert_refused(&c.pf.n, CMD(&c.pf.n, SET_VPORT, req), code,         \
                       fakernic_set_vport_req, field);                      \
    } while (0)

static void test_vport_refusals(void)
{
    struct fakernic_set_vport_req req;
    struct fakernic_query_vport_stats_req stats = {
        .address = LE64(8), .length = LE32(96), .counters = LE16(12),
    };
    Function vf[2];
    Card c;
    int wire = vports_start(&c, vf, 2);

    REFUSED(0, FAKERNIC_VPORT_TRUST, BAD_ID, vport);
    REFUSED(3, FAKERNIC_VPORT_TRUST, BAD_ID, vport);
    REFUSED(FAKERNIC_VPORT_UPLINK, FAKERNIC_VPORT_TRUST, BAD_ID, vport);
    REFUSED(1, 0x80, BAD_PARAM, mask);
    REFUSED(1, FAKERNIC_VPORT_MAC, BAD_PARAM, settings.mac,
            req.settings.mac[0] = 1);
    REFUSED(1, FAKERNIC_VPORT_VLAN, BAD_PARAM, settings.vid,
            req.settings.vid = LE16(4095));
    REFUSED(1, FAKERNIC_VPORT_VLAN, BAD_PARAM, settings.vlan_proto,
            req.settings.vlan_proto = LE16(0x9100));
    REFUSED(1, FAKERNIC_VPORT_VLAN, BAD_PARAM, settings.qos,
            req.settings.qos = 8);
    REFUSED(1, FAKERNIC_VPORT_LINK, BAD_PARAM, settings.link,
            req.settings.link = 3);
    REFUSED(1, FAKERNIC_VPORT_SPOOF_CHECK, BAD_PARAM, settings.spoof_check,
            req.settings.spoof_check = 2);
    REFUSED(1, FAKERNIC_VPORT_TRUST, BAD_PARAM, settings.trust,
            req.settings.trust = 2);
    REFUSED(1, FAKERNIC_VPORT_RSS_QUERY, BAD_PARAM, settings.rss_query,
            req.settings.rss_query = 2);
    REFUSED(1, FAKERNIC_VPORT_RATE, BAD_PARAM, settings.min_mbps,
            req.settings.min_mbps = LE32(5), req.settings.max_mbps = LE32(4));
    REFUSED(1, FAKERNIC_VPORT_RATE, BAD_PARAM, settings.min_mbps,
            req.settings.min_mbps = LE32(UINT32_MAX));
    REFUSED(1, 0, BAD_RESERVED, rsvd, req.rsvd = LE16(1));
    REFUSED(1, 0, BAD_RESERVED, settings.rsvd, req.settings.rsvd = 1);
    assert_refused(&c.pf.n, cmd_id(&c.pf.n, FAKERNIC_CMD_QUERY_VPORT, 3),
                   BAD_ID, fakernic_id, id);
    assert_refused(&c.pf.n, cmd_id(&c.pf.n, FAKERNIC_CMD_RESET_VPORT, 0),
                   BAD_ID, fakernic_id, id);
    stats.first = LE16(3);
    assert_refused(&c.pf.n, CMD(&c.pf.n, QUERY_VPORT_STATS, stats), BAD_ID,
                   fakernic_query_vport_stats_req, first);
    stats.first = LE16(0);
    stats.counters = LE16(13);
    assert_refused(&c.pf.n, CMD(&c.pf.n, QUERY_VPORT_STATS, stats), BAD_PARAM,
                   fakernic_query_vport_stats_req, counters);
    stats.counters = LE16(11);
    assert_refused(&c.pf.n, CMD(&c.pf.n, QUERY_VPORT_STATS, stats), BAD_PARAM,
                   fakernic_query_vport_stats_req, length);
    stats.address = LE64(4);
    assert_refused(&c.pf.n, CMD(&c.pf.n, QUERY_VPORT_STATS, stats), BAD_PARAM,
                   fakernic_query_vport_stats_req, address);
    vports_stop(&c, vf, 2, wire);
}

#undef REFUSED

/* The VF has its administrative address from its next reset on. */
static void test_vport_mac(void)
{
    struct fakernic_set_vport_req req = vport_req(1, FAKERNIC_VPORT_MAC);
    const uint8_t mac[6] = { 2, 1, 2, 3, 4, 5 };
    uint8_t permanent[6];
    Function vf;
    Card c;
    int wire = vports_start(&c, &vf, 1);

    memcpy(permanent, vf.mac, 6);
    memcpy(req.settings.mac, mac, 6);
    assert_status(CMD(&c.pf.n, SET_VPORT, req), OK);
    function_mac(&vf);
    g_assert_cmpmem(vf.mac, 6, permanent, 6);
    nic_reset(&vf.n);
    function_mac(&vf);
    g_assert_cmpmem(vf.mac, 6, mac, 6);
    memset(req.settings.mac, 0, 6);
    assert_status(CMD(&c.pf.n, SET_VPORT, req), OK);
    assert_status(cmd_id(&c.pf.n, FAKERNIC_CMD_RESET_VPORT, 1), OK);
    nic_await_reset(&vf.n);
    function_mac(&vf);
    g_assert_cmpmem(vf.mac, 6, permanent, 6);
    vports_stop(&c, &vf, 1, wire);
}

static void test_vport_spoof(void)
{
    struct fakernic_set_vport_req req = vport_req(1,
                                                  FAKERNIC_VPORT_SPOOF_CHECK);
    uint8_t frame[64], got[128];
    Function vf[2];
    Qp raw;
    Card c;
    int wire = vports_start(&c, vf, 2);

    port_up(&vf[0].n, &vf[0].s, &raw, 0);
    frame_make(frame, elsewhere, sizeof(frame));
    memcpy(frame + 6, vf[1].mac, 6);
    raw_send(&vf[0], &raw, frame);
    g_assert_cmpuint(vport_stat(&c, 1, FAKERNIC_VPORT_STAT_TX_SPOOFED), ==, 1);
    g_assert_cmpuint(vport_stat(&c, 1, FAKERNIC_VPORT_STAT_TX_FRAMES), ==, 0);
    memcpy(frame + 6, vf[0].mac, 6);
    raw_send(&vf[0], &raw, frame);
    g_assert_cmpint(wire_receive(wire, got, sizeof(got)), ==, 64);
    g_assert_cmpmem(got, 64, frame, 64);
    assert_status(CMD(&c.pf.n, SET_VPORT, req), OK);
    memcpy(frame + 6, vf[1].mac, 6);
    raw_send(&vf[0], &raw, frame);
    g_assert_cmpint(wire_receive(wire, got, sizeof(got)), ==, 64);
    g_assert_cmpmem(got, 64, frame, 64);
    vports_stop(&c, vf, 2, wire);
}

/* On the wire the VF's frames have the tag of its port VLAN; it sees none. */
static void test_vport_vlan(void)
{
    struct fakernic_set_vport_req req = vport_req(1, FAKERNIC_VPORT_VLAN);
    uint8_t frame[64], tagged[68], got[128];
    Connection t;
    Function vf[2];
    Qp raw;
    Card c;
    int wire = vports_start(&c, vf, 2);

    port_up(&vf[0].n, &vf[0].s, &raw, FAKERNIC_FILTER_BROADCAST);
    req.settings.vid = LE16(100);
    req.settings.qos = 2;
    assert_status(CMD(&c.pf.n, SET_VPORT, req), OK);
    frame_make(frame, elsewhere, sizeof(frame));
    memcpy(frame + 6, vf[0].mac, 6);
    raw_send(&vf[0], &raw, frame);
    g_assert_cmpint(wire_receive(wire, got, sizeof(got)), ==, 68);
    g_assert_cmpmem(got + 12, 4, "\x81\x00\x40\x64", 4);
    g_assert_cmpmem(got + 16, 52, frame + 12, 52);
    frame_make(tagged, vf[0].mac, sizeof(tagged));
    wire_send(wire, tagged, sizeof(tagged));
    memcpy(tagged + 12, "\x81\x00\x00\x64", 4);
    wire_send(wire, tagged, sizeof(tagged));
    wait_stat(&vf[0].n, FAKERNIC_STAT_RX_FRAMES, 1);
    g_assert_cmpuint(nic_stat(&vf[0].n, FAKERNIC_STAT_RX_BYTES), ==, 64);
    /* RoCEv2, too: both VFs in the VLAN reach each other. */
    req.vport = LE16(2);
    assert_status(CMD(&c.pf.n, SET_VPORT, req), OK);
    functions_connect(&t, &vf[0], &vf[1]);
    write_passes(&t);
    vports_stop(&c, vf, 2, wire);
}

static bool vf_link_up(Function *f, uint32_t flags)
{
    struct fakernic_query_port_resp resp;

    assert_status(cmd(&f->n, FAKERNIC_CMD_QUERY_PORT, NULL, 0, &resp,
                      sizeof(resp)), OK);
    g_assert_cmphex(le32_to_cpu(resp.vf_flags), ==, flags);
    return resp.link_up;
}

/* One link is up without the uplink, one follows it, and one is off. */
static void test_vport_link(void)
{
    struct fakernic_set_vport_req req = vport_req(1, FAKERNIC_VPORT_LINK);
    const uint32_t spoof = FAKERNIC_PORT_FLAG_SPOOF_CHECK;
    Connection t;
    Function vf[3];
    Card c;
    int wire = vports_start(&c, vf, 3);

    req.settings.link = FAKERNIC_VPORT_LINK_ENABLE;
    for (unsigned i = 0; i < 2; i++) {
        req.vport = LE16(i + 1);
        assert_status(CMD(&c.pf.n, SET_VPORT, req), OK);
        eq_expect(&vf[i].n, &vf[i].s.async, FAKERNIC_EVENT_PORT_CHANGED);
    }
    qtest_qmp_assert_success(c.m.qts, "{ 'execute': 'set_link', 'arguments': "
                                      "{ 'name': 'nic', 'up': false } }");
    eq_expect(&vf[2].n, &vf[2].s.async, FAKERNIC_EVENT_PORT_ERROR);
    g_assert_true(vf_link_up(&vf[0], spoof | FAKERNIC_PORT_FLAG_FORCED_UP));
    g_assert_false(vf_link_up(&vf[2], spoof));
    functions_connect(&t, &vf[0], &vf[1]);
    write_passes(&t);
    qtest_qmp_assert_success(c.m.qts, "{ 'execute': 'set_link', 'arguments': "
                                      "{ 'name': 'nic', 'up': true } }");
    eq_expect(&vf[2].n, &vf[2].s.async, FAKERNIC_EVENT_PORT_ACTIVE);
    req.vport = LE16(3);
    req.settings.link = FAKERNIC_VPORT_LINK_DISABLE;
    assert_status(CMD(&c.pf.n, SET_VPORT, req), OK);
    g_assert_false(vf_link_up(&vf[2], spoof | FAKERNIC_PORT_FLAG_FORCED_DOWN));
    vports_stop(&c, vf, 3, wire);
}

/* QMP takes the link of one VF down. Commands do not bring it up again. */
static void test_vport_set_link(void)
{
    const uint32_t spoof = FAKERNIC_PORT_FLAG_SPOOF_CHECK;
    Function vf[2];
    Card c;
    int wire = vports_start(&c, vf, 2);

    qtest_qmp_assert_success(c.m.qts, "{ 'execute': 'set_link', 'arguments': "
                                      "{ 'name': 'nic.vf0', 'up': false } }");
    assert_status(cmd(&vf[0].n, FAKERNIC_CMD_NOP, NULL, 0, NULL, 0), OK);
    g_assert_false(vf_link_up(&vf[0], spoof));
    g_assert_true(vf_link_up(&vf[1], spoof));
    qtest_qmp_assert_success(c.m.qts, "{ 'execute': 'set_link', 'arguments': "
                                      "{ 'name': 'nic.vf0', 'up': true } }");
    g_assert_true(vf_link_up(&vf[0], spoof));
    vports_stop(&c, vf, 2, wire);
}

static void test_vport_stats(void)
{
    const uint8_t all[6] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };
    struct fakernic_query_vport_stats_req req = {
        .first = LE16(1), .counters = LE16(2), .length = LE32(8 * 2 * 9),
    };
    struct fakernic_query_vport_stats_resp resp;
    uint8_t frame[64];
    Function vf[2];
    uint64_t copy;
    Qp raw[2];
    Card c;
    int wire = vports_start(&c, vf, 2);

    port_up(&vf[0].n, &vf[0].s, &raw[0], 0);
    port_up(&vf[1].n, &vf[1].s, &raw[1], FAKERNIC_FILTER_BROADCAST);
    frame_make(frame, all, sizeof(frame));
    memcpy(frame + 6, vf[0].mac, 6);
    raw_send(&vf[0], &raw[0], frame);
    frame_make(frame, vf[1].mac, sizeof(frame));
    memcpy(frame + 6, vf[0].mac, 6);
    raw_send(&vf[0], &raw[0], frame);
    g_assert_cmpuint(vport_stat(&c, 1, FAKERNIC_VPORT_STAT_TX_BROADCAST), ==,
                     1);
    g_assert_cmpuint(vport_stat(&c, 2, FAKERNIC_VPORT_STAT_RX_BROADCAST), ==,
                     1);
    g_assert_cmpuint(vport_stat(&c, FAKERNIC_VPORT_UPLINK,
                                FAKERNIC_VPORT_STAT_RX_FRAMES), ==, 1);
    /* Two counters of each vport, no more than there are. */
    copy = mem_alloc(&c.m, 4096);
    qtest_memset(c.m.qts, copy, 0x5a, 8 * 2 * 3);
    req.address = LE64(copy);
    assert_status(cmd(&c.pf.n, FAKERNIC_CMD_QUERY_VPORT_STATS, &req,
                      sizeof(req), &resp, sizeof(resp)), OK);
    g_assert_cmpuint(le32_to_cpu(resp.vports), ==, 2);
    g_assert_cmpuint(qtest_readq(c.m.qts, copy), ==, 0);
    g_assert_cmpuint(qtest_readq(c.m.qts, copy + 16), ==, 2);
    g_assert_cmpuint(qtest_readq(c.m.qts, copy + 24), ==, 128);
    g_assert_cmphex(qtest_readq(c.m.qts, copy + 32), ==, 0x5a5a5a5a5a5a5a5a);
    vports_stop(&c, vf, 2, wire);
}

/* Rings once for a number of copies of the frame, with the VF's address. */
static void raw_send_many(Function *vf, Qp *raw, uint8_t *frame, size_t size,
                          unsigned count)
{
    Wqe wqe = wqe_send(&vf->s, 0, size);

    port_up(&vf->n, &vf->s, raw, 0);
    frame_make(frame, elsewhere, size);
    memcpy(frame + 6, vf->mac, 6);
    qtest_memwrite(vf->n.m->qts, vf->s.data, frame, size);
    for (unsigned i = 0; i < count; i++) {
        sq_put(&vf->n, raw, &wqe, sizeof(wqe));
    }
    sq_ring(&vf->n, raw);
}

/* At 100 Mbit/s a frame of 1500 bytes leaves every 120 us, after a burst. */
static void test_vport_rate(void)
{
    struct fakernic_set_vport_req req = vport_req(1, FAKERNIC_VPORT_RATE);
    const unsigned burst = 9, frames = 20;
    uint8_t frame[1514];
    Function vf;
    Qp raw;
    Card c;
    int wire = vports_start(&c, &vf, 1);

    req.settings.max_mbps = LE32(100);
    assert_status(CMD(&c.pf.n, SET_VPORT, req), OK);
    raw_send_many(&vf, &raw, frame, sizeof(frame), frames);
    for (unsigned sent = burst; sent <= frames; sent++) {
        main_loop_turns(&c.m, 10);
        g_assert_cmpuint(vport_stat(&c, 1, FAKERNIC_VPORT_STAT_TX_FRAMES), ==,
                         sent);
        qtest_clock_step(c.m.qts, 120000);
    }
    g_assert_cmpuint(vport_stat(&c, 1, FAKERNIC_VPORT_STAT_TX_WAITED), ==,
                     frames - burst);
    vports_stop(&c, &vf, 1, wire);
}

/* A VF that disappears while a frame of it waits sends again later. */
static void test_vport_rate_ends(void)
{
    struct fakernic_set_vport_req req = vport_req(1, FAKERNIC_VPORT_RATE);
    uint8_t frame[64];
    Function vf;
    Qp raw;
    Card c;
    int wire = vports_start(&c, &vf, 1);

    req.settings.max_mbps = LE32(1);
    assert_status(CMD(&c.pf.n, SET_VPORT, req), OK);
    raw_send_many(&vf, &raw, frame, sizeof(frame), 8);
    main_loop_turns(&c.m, 10);
    g_assert_cmpuint(vport_stat(&c, 1, FAKERNIC_VPORT_STAT_TX_WAITED), ==, 1);
    vfs_disable(&c);
    g_free(vf.n.pci);
    req.settings.max_mbps = 0;
    assert_status(CMD(&c.pf.n, SET_VPORT, req), OK);
    vfs_enable(&c, 1);
    vf_up(&c, &vf, 0);
    port_up(&vf.n, &vf.s, &raw, 0);
    raw_send(&vf, &raw, frame);
    g_assert_cmpuint(vport_stat(&c, 1, FAKERNIC_VPORT_STAT_TX_FRAMES), ==, 1);
    vports_stop(&c, &vf, 1, wire);
}

/* The secondary bus reset of the card's port, and the work of firmware. */
static void card_hot_reset(Card *c)
{
    QPCIDevice *port = qpci_device_find(c->m.bus, QPCI_DEVFN(PORT_SLOT, 0));

    qpci_config_writew(port, PCI_BRIDGE_CONTROL, PCI_BRIDGE_CTL_BUS_RESET);
    qpci_config_writew(port, PCI_BRIDGE_CONTROL, 0);
    nic_map_again(&c->pf.n);
    g_free(port);
}

/* The PF's reset took the VF away. Software that restores no settings enables
 * it. Its frames have the tag of its port VLAN all the same. */
static void vf_keeps_vlan(Card *c, int wire)
{
    uint8_t frame[64], got[128];
    Function vf;
    Qp raw;

    g_assert_false(vf_exists(c, 0));
    function_up(&c->pf, 0);
    g_assert_cmphex(vport_query(c, 1).flags, ==, 0);
    vfs_enable(c, 1);
    vf_up(c, &vf, 0);
    port_up(&vf.n, &vf.s, &raw, 0);
    frame_make(frame, elsewhere, sizeof(frame));
    memcpy(frame + 6, vf.mac, 6);
    raw_send(&vf, &raw, frame);
    g_assert_cmpint(wire_receive(wire, got, sizeof(got)), ==, 68);
    g_assert_cmpmem(got + 12, 4, "\x81\x00\x00\x64", 4);
    g_free(vf.n.pci);
}

/* Settings stay over an FLR and a hot reset of the PF. A reset of the machine
 * ends them. */
static void test_vport_stays(void)
{
    struct fakernic_set_vport_req req = vport_req(1, FAKERNIC_VPORT_VLAN);
    Function vf;
    Card c;
    int wire = vports_start(&c, &vf, 1);

    req.settings.vid = LE16(100);
    assert_status(CMD(&c.pf.n, SET_VPORT, req), OK);
    nic_flr(&c.pf.n);
    vf_keeps_vlan(&c, wire);
    card_hot_reset(&c);
    vf_keeps_vlan(&c, wire);
    qtest_qmp_assert_success(c.m.qts, "{ 'execute': 'system_reset' }");
    qtest_qmp_eventwait(c.m.qts, "RESET");
    g_free(c.pf.n.pci);
    card_find(&c);
    function_up(&c.pf, 0);
    g_assert_cmphex(vport_query(&c, 1).flags, ==, 0);
    g_assert_cmpuint(le16_to_cpu(vport_query(&c, 1).settings.vid), ==, 0);
    vports_stop(&c, &vf, 1, wire);
}

/* RESET_VPORT resets one VF. It and other resets leave the settings. */
static void test_vport_resets(void)
{
    struct fakernic_set_vport_req req = vport_req(1, FAKERNIC_VPORT_TRUST);
    Function vf[2];
    Connection t;
    Card c;
    int wire = vports_start(&c, vf, 2);

    req.settings.trust = 1;
    assert_status(CMD(&c.pf.n, SET_VPORT, req), OK);
    functions_connect(&t, &vf[1], &c.pf);
    assert_status(cmd_id(&c.pf.n, FAKERNIC_CMD_RESET_VPORT, 1), OK);
    nic_await_reset(&vf[0].n);
    g_assert_cmphex(reg_read(&vf[0].n, FAKERNIC_REG_STATUS), ==,
                    FAKERNIC_STATUS_READY);
    write_passes(&t);
    g_assert_cmpuint(vport_query(&c, 1).settings.trust, ==, 1);
    g_assert_cmpuint(vport_query(&c, 1).flags & FAKERNIC_VPORT_ENABLED, ==, 0);
    nic_reset(&c.pf.n);
    function_up(&c.pf, 0);
    g_assert_cmpuint(vport_query(&c, 1).settings.trust, ==, 1);
    vfs_disable(&c);
    g_assert_cmpuint(vport_query(&c, 1).flags, ==, 0);
    g_assert_cmpuint(vport_query(&c, 1).settings.trust, ==, 1);
    assert_status(cmd_id(&c.pf.n, FAKERNIC_CMD_RESET_VPORT, 1), BAD_ID);
    vports_stop(&c, vf, 2, wire);
}

const FakernicTest fakernic_vf_tests[] = {
    { "vf/capabilities", test_capabilities },
    { "vf/none", test_none },
    { "vf/traffic", test_traffic },
    { "vf/wire", test_wire },
    { "vf/link", test_link },
    { "vf/loop", test_loop },
    { "vf/flr-of-vf", test_flr_of_vf },
    { "vf/reset-of-pf", test_reset_of_pf },
    { "vf/all", test_all },
    { "vf/memory", test_memory },
    { "vf/device-memory", test_device_memory },
    { "vf/share", test_share },
    { "vf/doorbells", test_doorbells },
    { "vf/move", test_move },
    { "vf/move-disabled", test_move_disabled },
    { "vf/move-hostile", test_move_hostile },
    { "vf/move-vports", test_move_vports },
    { "cost/vf-broadcast", test_cost_broadcast },
    { "cost/vf-memory", test_cost_vf_memory },
    { "vf/unplug", test_unplug },
    { "vf/refused", test_refused },
    { "vf/query", test_query },
    { "vport/function", test_vport_function },
    { "vport/set", test_vport_set },
    { "vport/refusals", test_vport_refusals },
    { "vport/mac", test_vport_mac },
    { "vport/spoof", test_vport_spoof },
    { "vport/vlan", test_vport_vlan },
    { "vport/link", test_vport_link },
    { "vport/set-link", test_vport_set_link },
    { "vport/stats", test_vport_stats },
    { "vport/rate", test_vport_rate },
    { "vport/rate-ends", test_vport_rate_ends },
    { "vport/resets", test_vport_resets },
    { "vport/settings-stay", test_vport_stays },
    { NULL }
};
