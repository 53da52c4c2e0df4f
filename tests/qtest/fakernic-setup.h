/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Shared by all chapters of the fakernic qtest: a machine with an enabled
 * device, two connected QPs with a buffer and its key, work requests to post,
 * and a wire with the test at its other end.
 */
#ifndef FAKERNIC_SETUP_H
#define FAKERNIC_SETUP_H

#include <poll.h>
#include <sys/socket.h>
#include "fakernic-driver.h"

typedef struct Rig Rig;

/*
 * One test: either 'run', which starts its own machine, or 'on', which gets a
 * rig that 'begin' has set up. A chapter's list ends with a NULL name.
 */
typedef struct FakernicTest {
    const char *name;
    void (*run)(void);
    void (*begin)(Rig *r);
    void (*on)(Rig *r);
} FakernicTest;

extern const FakernicTest fakernic_registers_tests[],
    fakernic_commands_tests[],
    fakernic_queues_tests[],
    fakernic_traffic_tests[],
    fakernic_srq_tests[],
    fakernic_xrc_tests[],
    fakernic_dm_tests[],
    fakernic_flow_tests[],
    fakernic_odp_tests[],
    fakernic_rss_tests[],
    fakernic_port_tests[],
    fakernic_resets_tests[],
    fakernic_life_tests[],
    fakernic_save_tests[],
    fakernic_fault_tests[],
    fakernic_query_tests[],
    fakernic_qmp_tests[],
    fakernic_record_tests[],
    fakernic_sheet_tests[],
    fakernic_cost_tests[],
    fakernic_persist_tests[],
    fakernic_peer_tests[],
    fakernic_link_tests[],
    fakernic_vf_tests[],
    fakernic_example_tests[],
    fakernic_rates[];           /* measurements: only with -m perf */

#define SLOT 4
#define MAC_STRING "52:54:00:0a:0b:0c"
static const uint8_t nic_mac[6] = { 0x52, 0x54, 0x00, 0x0a, 0x0b, 0x0c };
#define DEVICE "-device fakernic,addr=04.0,mac=" MAC_STRING

static inline void start(Machine *m, Nic *n)
{
    machine_start(m, "%s", DEVICE);
    nic_find(n, m, SLOT);
}

/* ---- how long QEMU takes ------------------------------------------------- */

#define MONITOR_US    50000       /* within which the monitor must answer */
#define MONITOR_QUERIES 10

/*
 * How long a thread has run, or with 'waiting' how long it has waited for a
 * processor, in nanoseconds. 'thread' is its folder in /proc.
 */
static inline uint64_t thread_ns(const char *thread, bool waiting)
{
    g_autofree char *path = g_strdup_printf("/proc/%s/schedstat", thread);
    g_autofree char *text = NULL;
    char *behind;
    uint64_t ran;

    g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
    ran = g_ascii_strtoull(text, &behind, 10);
    return waiting ? g_ascii_strtoull(behind, NULL, 10) : ran;
}

/* Of QEMU's main thread. */
static inline uint64_t main_thread_ns(Machine *m, bool waiting)
{
    g_autofree char *thread = g_strdup_printf("%d", (int)qtest_pid(m->qts));

    return thread_ns(thread, waiting);
}

/* The CPU time that QEMU's main thread has taken, in microseconds. */
static inline uint64_t main_cpu_us(Machine *m)
{
    return main_thread_ns(m, false) / 1000;
}

/*
 * Elapsed time without the time that this program and QEMU's main thread wait
 * for a processor. So other programs on the host do not count, but the time
 * that the main thread sleeps does.
 */
static inline int64_t unhindered_us(Machine *m)
{
    return g_get_monotonic_time() - (int64_t)(main_thread_ns(m, true) / 1000) -
           (int64_t)(thread_ns("thread-self", true) / 1000);
}

/* Anonymous memory of the QEMU process, in bytes. */
static inline uint64_t anonymous_memory(Nic *n)
{
    g_autofree char *path = g_strdup_printf("/proc/%d/status",
                                            (int)qtest_pid(n->m->qts));
    g_autofree char *status = NULL;
    const char *line;

    g_assert_true(g_file_get_contents(path, &status, NULL, NULL));
    line = strstr(status, "RssAnon:");
    if (!line) {
        line = strstr(status, "VmRSS:");
    }
    g_assert_nonnull(line);
    return strtoull(strchr(line, ':') + 1, NULL, 10) * 1024;
}

/*
 * The monitor answers in time while the device works. 'since' is main_cpu_us()
 * before the store that began the work: the monitor waits for the store, too.
 */
static inline void monitor_must_answer(Machine *m, const char *input,
                                       uint64_t since)
{
    uint64_t longest = 0;
    int64_t sleepy = 0;

    for (unsigned i = 0; i < MONITOR_QUERIES; i++) {
        const int64_t asked = unhindered_us(m);
        uint64_t now;

        qtest_qmp_assert_success(m->qts, "{ 'execute': 'query-status' }");
        sleepy = MAX(sleepy, unhindered_us(m) - asked);
        now = main_cpu_us(m);
        longest = MAX(longest, now - since);
        since = now;
    }
    g_test_message("%s: the monitor waited for %" PRIu64 " us of work, %"
                   PRId64 " us in all", input, longest, sleepy);
    g_assert_cmpuint(longest, <=, MONITOR_US);
    g_assert_cmpint(sleepy, <=, MONITOR_US);
}

/*
 * Round trips through the main loop, which runs whatever is ready. In each the
 * monitor answers in time. The first began when main_cpu_us() was 'since'.
 */
static inline void main_loop_turns_since(Machine *m, unsigned count,
                                         uint64_t since)
{
    while (count-- > 0) {
        uint64_t now;

        qtest_qmp_assert_success(m->qts, "{ 'execute': 'query-status' }");
        now = main_cpu_us(m);
        g_assert_cmpuint(now - since, <=, MONITOR_US);
        since = now;
    }
}

static inline void main_loop_turns(Machine *m, unsigned count)
{
    main_loop_turns_since(m, count, main_cpu_us(m));
}

/* ---- devices to begin with ----------------------------------------------- */

/* One device, enabled, with all features. */
static inline void start_enabled(Machine *m, Nic *n)
{
    start(m, n);
    nic_bringup(n);
}

static inline void set_link(Machine *m, bool up)
{
    qtest_qmp_assert_success(m->qts,
        "{ 'execute': 'set_link', 'arguments': { 'name': 'n0', 'up': %i } }",
                             up);
}

/* After a reset, which clears the BARs: maps them again as they were. */
static inline void nic_map_again(Nic *n)
{
    g_assert_cmphex(qpci_config_readw(n->pci, PCI_COMMAND) & PCI_COMMAND_MASTER,
                    ==, 0);
    qpci_config_writel(n->pci, PCI_BASE_ADDRESS_0, n->regs.addr);
    qpci_config_writel(n->pci, PCI_BASE_ADDRESS_2, n->uar.addr);
    qpci_device_enable(n->pci);
    n->pci->msix_enabled = false;
}

/* A function-level reset, and the work of firmware after it. */
static inline void nic_flr(Nic *n)
{
    const uint8_t exp = qpci_find_capability(n->pci, PCI_CAP_ID_EXP, 0);
    const uint16_t control = qpci_config_readw(n->pci, exp + PCI_EXP_DEVCTL);

    qpci_config_writew(n->pci, exp + PCI_EXP_DEVCTL,
                       control | PCI_EXP_DEVCTL_BCR_FLR);
    nic_map_again(n);
}

/* D0 to D3. */
static inline void set_power_state(Nic *n, unsigned state)
{
    uint8_t pm = qpci_find_capability(n->pci, PCI_CAP_ID_PM, 0);

    qpci_config_writew(n->pci, pm + PCI_PM_CTRL, state);
}

/* Extended configuration space is reached through q35's MMCONFIG window. */
#define ECAM 0xb0000000u

static inline uint64_t ecam(unsigned slot)
{
    return ECAM + (slot << 15);
}

static inline void ecam_enable(Machine *m)
{
    QPCIDevice *mch = qpci_device_find(m->bus, 0);

    qpci_config_writel(mch, 0x64, 0);
    qpci_config_writel(mch, 0x60, ECAM | 1);
    g_free(mch);
}

static inline unsigned extended_capability(Machine *m, uint64_t config,
                                           uint16_t id)
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

/* ---- a slot behind a root port ------------------------------------------- */

#define PORT_SLOT 3
#define BEHIND_PORT 32          /* bus 1, device 0 */
#define NATIVE_HOTPLUG \
    "-global ICH9-LPC.acpi-pci-hotplug-with-bridge-support=off " \
    "-device pcie-root-port,id=rp0,chassis=1,addr=03.0 "

/* The root port forwards bus 1 and all of the PCI hole, as after firmware. */
static inline void root_port_setup(Machine *m)
{
    QPCIDevice *port = qpci_device_find(m->bus, QPCI_DEVFN(PORT_SLOT, 0));

    qpci_device_enable(port);
    qpci_config_writel(port, PCI_PRIMARY_BUS, 0x00010100);
    qpci_config_writel(port, PCI_MEMORY_BASE, 0xfeb0e000);
    qpci_config_writel(port, PCI_PREF_MEMORY_BASE, 0x0000fff0);
    g_free(port);
}

/* The device behind the root port has been unplugged, and QEMU still works. */
static inline void assert_gone(Machine *m)
{
    for (unsigned tries = 0; tries < 5000; tries++) {
        if (qtest_readl(m->qts, ECAM + (1 << 20)) == 0xffffffff) {
            main_loop_turns(m, 10);
            qtest_clock_step(m->qts, 10000000000);
            main_loop_turns(m, 10);
            return;
        }
        g_usleep(1000);
    }
    g_error("the device is still there");
}

static const uint8_t own_gid[16] = { [10] = 0xff, 0xff, 10, 0, 0, 1 };

static inline struct fakernic_set_gid_req gid_req(uint16_t index,
                                                  const uint8_t *gid)
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

/* Builds the tables of a list of 'levels'; page i is at pages + i * step.
 * Returns the root. */
static inline uint64_t build_tables(Machine *m, unsigned levels, uint64_t pages,
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

/* Objects for a test of the data path: EQs, a CQ, a PD, a buffer, its key. */
typedef struct Setup {
    Queue async, eq, cq;
    uint32_t pd, key, other_key;
    uint64_t data;
} Setup;

#define DATA_SIZE 65536

static inline void setup(Nic *n, Setup *s)
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
                           FAKERNIC_ACCESS_REMOTE_ATOMIC |
                           FAKERNIC_ACCESS_FLUSH_GLOBAL |
                           FAKERNIC_ACCESS_FLUSH_PERSISTENT);
    assert_status(CMD(n, SET_GID, gid), OK);
}

/* The attributes that each half of a connection needs on the way to RTS. */
#define RTR_MASK                                                             \
    (FAKERNIC_QP_ATTR_STATE | FAKERNIC_QP_ATTR_AV |                          \
     FAKERNIC_QP_ATTR_PATH_MTU | FAKERNIC_QP_ATTR_DEST_QPN |                 \
     FAKERNIC_QP_ATTR_RQ_PSN)
#define RTR_RESPONDER_MASK                                                   \
    (FAKERNIC_QP_ATTR_MAX_DEST_RD_ATOMIC | FAKERNIC_QP_ATTR_MIN_RNR_TIMER)
#define RTS_REQUESTER_MASK                                                   \
    (FAKERNIC_QP_ATTR_TIMEOUT | FAKERNIC_QP_ATTR_RETRY_CNT |                 \
     FAKERNIC_QP_ATTR_RNR_RETRY | FAKERNIC_QP_ATTR_SQ_PSN |                  \
     FAKERNIC_QP_ATTR_MAX_RD_ATOMIC)

/* A request that connects an RC QP, or half of an XRC connection, with these
 * first PSNs. */
static inline struct fakernic_modify_qp_req
connect_req(uint32_t qpn, uint32_t dest, const uint8_t *dgid,
            const uint8_t *dmac, uint32_t sq_psn, uint32_t rq_psn)
{
    struct fakernic_modify_qp_req req = {
        .qpn = LE32(qpn),
        .attr = {
            .port = 1,
            .access_flags = LE32(FAKERNIC_ACCESS_REMOTE_WRITE |
                                 FAKERNIC_ACCESS_REMOTE_READ |
                                 FAKERNIC_ACCESS_REMOTE_ATOMIC |
                                 FAKERNIC_ACCESS_FLUSH_GLOBAL |
                                 FAKERNIC_ACCESS_FLUSH_PERSISTENT),
            .path_mtu = FAKERNIC_MTU_1024,
            .dest_qpn = LE32(dest),
            .rq_psn = LE32(rq_psn),
            .sq_psn = LE32(sq_psn),
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
    return req;
}

/* Brings a QP to RTR. */
static inline void connect_rtr(Nic *n, uint8_t type,
                               struct fakernic_modify_qp_req *req)
{
    req->attr.state = FAKERNIC_QPS_INIT;
    req->mask = LE32(FAKERNIC_QP_ATTR_STATE | FAKERNIC_QP_ATTR_PKEY_INDEX |
                     FAKERNIC_QP_ATTR_PORT | FAKERNIC_QP_ATTR_ACCESS_FLAGS);
    assert_status(CMD(n, MODIFY_QP, *req), OK);
    req->attr.state = FAKERNIC_QPS_RTR;
    req->mask = LE32(RTR_MASK |
                     (type == FAKERNIC_QP_XRC_INI ? 0 : RTR_RESPONDER_MASK));
    assert_status(CMD(n, MODIFY_QP, *req), OK);
}

/* Brings a QP to RTS. */
static inline void connect_qp_at(Nic *n, uint8_t type, uint32_t qpn,
                                 uint32_t dest, const uint8_t *dgid,
                                 const uint8_t *dmac, uint32_t sq_psn,
                                 uint32_t rq_psn)
{
    struct fakernic_modify_qp_req req = connect_req(qpn, dest, dgid, dmac,
                                                    sq_psn, rq_psn);

    connect_rtr(n, type, &req);
    req.attr.state = FAKERNIC_QPS_RTS;
    req.mask = LE32(FAKERNIC_QP_ATTR_STATE |
                    (type == FAKERNIC_QP_XRC_TGT ? 0 : RTS_REQUESTER_MASK));
    assert_status(CMD(n, MODIFY_QP, req), OK);
}

static inline void connect_qp(Nic *n, uint8_t type, uint32_t qpn,
                              uint32_t dest, const uint8_t *dgid,
                              const uint8_t *dmac)
{
    connect_qp_at(n, type, qpn, dest, dgid, dmac, 0xfffffe, 0xfffffe);
}

static inline void rc_connect(Nic *n, uint32_t qpn, uint32_t dest,
                              const uint8_t *dgid, const uint8_t *dmac)
{
    connect_qp(n, FAKERNIC_QP_RC, qpn, dest, dgid, dmac);
}

/* Brings a UC QP to RTS; its first PSN is 0. */
static inline void uc_connect(Nic *n, uint32_t qpn, uint32_t dest,
                              const uint8_t *dgid, const uint8_t *dmac)
{
    struct fakernic_modify_qp_req req = {
        .qpn = LE32(qpn),
        .mask = LE32(FAKERNIC_QP_ATTR_STATE | FAKERNIC_QP_ATTR_PKEY_INDEX |
                     FAKERNIC_QP_ATTR_PORT | FAKERNIC_QP_ATTR_ACCESS_FLAGS),
        .attr = {
            .state = FAKERNIC_QPS_INIT,
            .port = 1,
            .path_mtu = FAKERNIC_MTU_1024,
            .dest_qpn = LE32(dest),
        },
    };

    memcpy(req.attr.av.dgid, dgid, 16);
    memcpy(req.attr.av.dmac, dmac, 6);
    assert_status(CMD(n, MODIFY_QP, req), OK);
    req.attr.state = FAKERNIC_QPS_RTR;
    req.mask = LE32(RTR_MASK);
    assert_status(CMD(n, MODIFY_QP, req), OK);
    req.attr.state = FAKERNIC_QPS_RTS;
    req.mask = LE32(FAKERNIC_QP_ATTR_STATE | FAKERNIC_QP_ATTR_SQ_PSN);
    assert_status(CMD(n, MODIFY_QP, req), OK);
}

static inline void rc_pair(Nic *n, Setup *s, Qp *a, Qp *b)
{
    qp_create(n, a, FAKERNIC_QP_RC, s->pd, &s->cq, 0);
    qp_create(n, b, FAKERNIC_QP_RC, s->pd, &s->cq, 0);
    rc_connect(n, a->qpn, b->qpn, own_gid, nic_mac);
    rc_connect(n, b->qpn, a->qpn, own_gid, nic_mac);
}

/* Sets up everything with which most tests of the data path begin. */
static inline void setup_pair(Nic *n, Setup *s, Qp *a, Qp *b)
{
    setup(n, s);
    rc_pair(n, s, a, b);
}

/* The device of most tests: -device fakernic,id=nic0. */
#define NIC0 "/machine/peripheral/nic0"

/* Adds or removes fault rules of NIC0; QEMU must accept the text. */
static inline void fault(Machine *m, const char *rules)
{
    qtest_qmp_assert_success(m->qts, "{ 'execute': 'qom-set', 'arguments': {"
                                     " 'path': %s, 'property': 'x-fault',"
                             " 'value': %s } }", NIC0, rules);
}

/* One machine with one device, and the objects of a test's rig. */
struct Rig {
    Machine m;
    Nic n;
    Setup s;                    /* of READY and PAIR */
    Qp a, b;                    /* of PAIR: an RC connection in loopback */
};

/* MORE: options of the device, which begin with a comma, or "". */
static inline void rig_start(Rig *r, const char *more)
{
    machine_start(&r->m, "%s,id=nic0%s", DEVICE, more);
    nic_find(&r->n, &r->m, SLOT);
}

static inline void rig_bare(Rig *r)
{
    rig_start(r, "");
}

static inline void rig_enabled(Rig *r)
{
    rig_bare(r);
    nic_bringup(&r->n);
}

static inline void rig_ready(Rig *r)
{
    rig_enabled(r);
    setup(&r->n, &r->s);
}

static inline void rig_pair(Rig *r)
{
    rig_enabled(r);
    setup_pair(&r->n, &r->s, &r->a, &r->b);
}

/* Posts a work request on the rig's first QP. */
#define POST(r, wqe) rig_post((r), &(wqe), sizeof(wqe))

static inline void rig_post(Rig *r, const void *wqe, size_t size)
{
    sq_put(&r->n, &r->a, wqe, size);
    sq_ring(&r->n, &r->a);
}

/* Waits for the next completion, which must be this one. */
static inline struct fakernic_cqe rig_cqe(Rig *r, uint8_t opcode,
                                          uint8_t status)
{
    struct fakernic_cqe cqe;

    cq_expect(&r->n, &r->s.cq, &cqe, opcode, status);
    return cqe;
}

/* Rows of a chapter's list: the test gets such a rig. */
#define ON(rig, test) .begin = (rig), .on = (test)
#define BARE(test)    ON(rig_bare, test)        /* device not enabled */
#define ENABLED(test) ON(rig_enabled, test)
#define READY(test)   ON(rig_ready, test)
#define PAIR(test)    ON(rig_pair, test)

/* Two devices on a hub in one QEMU, with an RC QP each, connected. */
typedef struct Neighbours {
    Machine m;
    Nic nics[2];
    Setup s[2];
    Qp qp[2];
} Neighbours;

static const uint8_t neighbour_gids[2][16] = {
    { [10] = 0xff, 0xff, 10, 0, 0, 1 }, { [10] = 0xff, 0xff, 10, 0, 0, 2 },
};
static const uint8_t neighbour_macs[2][6] = { { 2, 0, 0, 0, 0, 1 },
                                              { 2, 0, 0, 0, 0, 2 } };

/* Another such pair, of the first's QP and the second's. */
static inline void neighbours_connect(Neighbours *t, Qp *first, Qp *second)
{
    Qp *const qp[2] = { first, second };

    for (unsigned i = 0; i < 2; i++) {
        qp_create(&t->nics[i], qp[i], FAKERNIC_QP_RC, t->s[i].pd, &t->s[i].cq,
                  0);
    }
    for (unsigned i = 0; i < 2; i++) {
        rc_connect(&t->nics[i], qp[i]->qpn, qp[!i]->qpn, neighbour_gids[!i],
                   neighbour_macs[!i]);
    }
}

/* MORE: options of each device, which begin with a comma, or "". */
static inline void neighbours_start(Neighbours *t, const char *more0,
                                    const char *more1)
{
    machine_start(&t->m, "-netdev hubport,id=h0,hubid=0 "
                         "-netdev hubport,id=h1,hubid=0 "
                         "-device fakernic,addr=04.0,mac=02:00:00:00:00:01,"
                         "netdev=h0%s "
                         "-device fakernic,addr=05.0,mac=02:00:00:00:00:02,"
                         "netdev=h1%s", more0, more1);
    for (unsigned i = 0; i < 2; i++) {
        struct fakernic_set_gid_req gid = gid_req(0, neighbour_gids[i]);

        nic_find(&t->nics[i], &t->m, 4 + i);
        nic_bringup(&t->nics[i]);
        setup(&t->nics[i], &t->s[i]);
        memcpy(gid.mac, neighbour_macs[i], 6);
        assert_status(CMD(&t->nics[i], SET_GID, gid), OK);
    }
    neighbours_connect(t, &t->qp[0], &t->qp[1]);
}

/* Waits for a completion in real time: the clock of retries stands still. */
static inline void cq_await(Nic *n, Queue *cq, struct fakernic_cqe *cqe,
                            enum fakernic_cqe_opcode opcode,
                            enum fakernic_cqe_status status)
{
    for (unsigned tries = 0; tries < 30000; tries++) {
        if (cq_poll(n, cq, cqe)) {
            g_assert_cmpuint(cqe->status, ==, status);
            g_assert_cmpuint(cqe->opcode, ==, opcode);
            return;
        }
        g_usleep(1000);
    }
    g_error("no completion of opcode %u", opcode);
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

static inline Wqe wqe_send(const Setup *s, uint64_t offset, uint32_t length)
{
    return (Wqe) {
        .send = {
            .hdr = { .opcode = FAKERNIC_SQ_SEND, .flags = FAKERNIC_SQ_SIGNALED,
                     .sge_count = 1, .bb_count = 1 },
            .sge = { { LE64(s->data + offset), LE32(length), LE32(s->key) } },
        },
    };
}

static inline Wqe wqe_rdma(const Setup *s, uint8_t opcode, uint64_t local,
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

/* An atomic's, of two blocks. */
typedef struct AtomicWqe {
    struct fakernic_sq_hdr hdr;
    struct fakernic_sq_atomic atomic;
    struct fakernic_sge sge[2];
    uint8_t rest[32];
} AtomicWqe;
QEMU_BUILD_BUG_ON(sizeof(AtomicWqe) != 2 * FAKERNIC_SQ_BB_SIZE);

static inline AtomicWqe wqe_atomic(const Setup *s, uint8_t opcode,
                                   uint64_t local, uint64_t remote,
                                   uint64_t swap_or_add)
{
    return (AtomicWqe) {
        .hdr = { .opcode = opcode, .flags = FAKERNIC_SQ_SIGNALED,
                 .sge_count = 1, .bb_count = 2 },
        .atomic = { .remote_address = LE64(s->data + remote),
                    .rkey = LE32(s->key), .swap_or_add = LE64(swap_or_add) },
        .sge = { { LE64(s->data + local), LE32(8), LE32(s->key) } },
    };
}

/* A WRITE from the first device to the second, at the same offset of their
 * buffers. */
static inline void neighbours_write(Neighbours *t, uint32_t length)
{
    Wqe wqe = wqe_rdma(&t->s[0], FAKERNIC_SQ_RDMA_WRITE, 0, 0, length);
    struct fakernic_cqe cqe;

    wqe.rdma.rdma.remote_address = LE64(t->s[1].data);
    wqe.rdma.rdma.rkey = LE32(t->s[1].key);
    sq_put(&t->nics[0], &t->qp[0], &wqe, sizeof(wqe));
    sq_ring(&t->nics[0], &t->qp[0]);
    cq_expect(&t->nics[0], &t->s[0].cq, &cqe, FAKERNIC_CQE_RDMA_WRITE,
              FAKERNIC_WC_SUCCESS);
}

static inline void fill(Nic *n, const Setup *s, uint64_t offset, size_t len)
{
    g_autofree uint8_t *bytes = g_malloc(len);

    for (size_t i = 0; i < len; i++) {
        bytes[i] = i * 7 + (i >> 8) + 1;
    }
    qtest_memwrite(n->m->qts, s->data + offset, bytes, len);
}

static inline void assert_same(Nic *n, const Setup *s, uint64_t a, uint64_t b,
                               size_t len)
{
    g_autofree uint8_t *x = g_malloc(len), *y = g_malloc(len);

    qtest_memread(n->m->qts, s->data + a, x, len);
    qtest_memread(n->m->qts, s->data + b, y, len);
    g_assert_cmpmem(x, len, y, len);
}

/* Posts NOPs, which complete without a peer, to get this many CQEs. */
static inline void complete_nops(Nic *n, Qp *qp, unsigned count)
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

/* A raw-packet QP as the Ethernet port. */
static inline void port_up(Nic *n, Setup *s, Qp *raw, uint8_t filter)
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

/* A UD QP in RTS, Q_Key 7. */
static inline void ud_to_rts(Nic *n, Setup *s, Qp *qp)
{
    struct fakernic_modify_qp_req req = {
        .mask = LE32(FAKERNIC_QP_ATTR_STATE | FAKERNIC_QP_ATTR_PKEY_INDEX |
                     FAKERNIC_QP_ATTR_PORT | FAKERNIC_QP_ATTR_QKEY),
        .attr = { .state = FAKERNIC_QPS_INIT, .port = 1, .qkey = LE32(7) },
    };

    qp_create(n, qp, FAKERNIC_QP_UD, s->pd, &s->cq, 0);
    req.qpn = LE32(qp->qpn);
    assert_status(CMD(n, MODIFY_QP, req), OK);
    assert_status(qp_to(n, qp->qpn, FAKERNIC_QPS_RTR), OK);
    req.mask = LE32(FAKERNIC_QP_ATTR_STATE | FAKERNIC_QP_ATTR_SQ_PSN);
    req.attr.state = FAKERNIC_QPS_RTS;
    assert_status(CMD(n, MODIFY_QP, req), OK);
}

/* A datagram's WQE, of two blocks. */
typedef struct UdWqe {
    struct fakernic_sq_hdr hdr;
    struct fakernic_sq_ud ud;
    struct fakernic_sge sge;
    uint8_t rest[48];
} UdWqe;
QEMU_BUILD_BUG_ON(sizeof(UdWqe) != 2 * FAKERNIC_SQ_BB_SIZE);

/* A device on one end of a datagram socket pair. Returns the other end. */
static inline int start_wired(Machine *m, Nic *n)
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

static inline void wire_send(int fd, const uint8_t *frame, size_t len)
{
    g_assert_cmpint(send(fd, frame, len, 0), ==, len);
}

static inline ssize_t wire_receive(int fd, void *buf, size_t size)
{
    struct pollfd ready = { .fd = fd, .events = POLLIN };

    if (poll(&ready, 1, 5000) != 1) {
        return -1;
    }
    return recv(fd, buf, size, 0);
}

static inline void frame_make(uint8_t *frame, const uint8_t *dst, size_t len)
{
    static const uint8_t peer[6] = { 2, 0, 0, 0, 0, 9 };

    memset(frame, 0x3c, len);
    memcpy(frame, dst, 6);
    memcpy(frame + 6, peer, 6);
    frame[12] = 0x88;
    frame[13] = 0xb5;           /* local experimental ethertype */
}
#endif
