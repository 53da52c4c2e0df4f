/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Fault rules: each action at each point. Time is the virtual clock, which
 * stands still unless a test steps it.
 */
#include "qemu/osdep.h"
#include "qapi/error.h"
#include "qobject/qdict.h"
#include "qobject/qjson.h"
#include "fakernic-chance.h"
#include "fakernic-setup.h"

#define MS 1000000ll

/* Waits in real time, at most 30 s. */
#define AWAIT(condition) do {                                               \
        const int64_t until_ = g_get_monotonic_time() + 30000000;           \
                                                                            \
        while (!(condition)) {                                              \
            if (g_get_monotonic_time() > until_) {                          \
                g_error("timeout: %s", #condition);                         \
            }                                                               \
            g_usleep(1000);                                                 \
        }                                                                   \
    } while (0)

static void fault_refused(Machine *m, const char *rules, const char *word)
{
    QDict *reply = qtest_qmp(m->qts, "{ 'execute': 'qom-set', 'arguments': {"
                                     " 'path': %s, 'property': 'x-fault',"
                             " 'value': %s } }", NIC0, rules);
    QDict *error = qdict_get_qdict(reply, "error");

    g_assert_nonnull(error);
    g_assert_nonnull(strstr(qdict_get_str(error, "desc"), word));
    qobject_unref(reply);
}

/* The hits of the only rule. */
static unsigned fault_hits(Machine *m)
{
    QDict *reply = qtest_qmp(m->qts, "{ 'execute': 'qom-get', 'arguments': {"
                             " 'path': %s, 'property': 'x-fault' } }", NIC0);
    const char *text = qdict_get_str(reply, "return");
    const char *hits = strstr(text, " hits=");
    unsigned count;

    g_assert_nonnull(hits);
    count = strtoul(hits + strlen(" hits="), NULL, 10);
    qobject_unref(reply);
    return count;
}

/* The hits of the rule with this id. */
static unsigned fault_hits_of(Machine *m, const char *id)
{
    QDict *reply = qtest_qmp(m->qts, "{ 'execute': 'qom-get', 'arguments': {"
                             " 'path': %s, 'property': 'x-fault' } }", NIC0);
    g_autofree char *name = g_strdup_printf("id=%s ", id);
    const char *rule = strstr(qdict_get_str(reply, "return"), name);
    unsigned count;

    g_assert_nonnull(rule);
    rule = strstr(rule, " hits=");
    count = strtoul(rule + strlen(" hits="), NULL, 10);
    qobject_unref(reply);
    return count;
}

/* The hits of all rules. */
static unsigned fault_hits_of_all(Machine *m)
{
    QDict *reply = qtest_qmp(m->qts, "{ 'execute': 'qom-get', 'arguments': {"
                             " 'path': %s, 'property': 'x-fault' } }", NIC0);
    const char *hits = qdict_get_str(reply, "return");
    unsigned count = 0;

    while ((hits = strstr(hits, " hits="))) {
        hits += strlen(" hits=");
        count += strtoul(hits, NULL, 10);
    }
    qobject_unref(reply);
    return count;
}

/* RC in loopback, with data to READ. MORE: as for rig_start(). */
static void pair_start(Rig *r, const char *more)
{
    rig_start(r, more);
    nic_bringup(&r->n);
    setup_pair(&r->n, &r->s, &r->a, &r->b);
    fill(&r->n, &r->s, 0, 5000);
}

static void fault_pair(Rig *r)
{
    pair_start(r, "");
}

/* No turn ends because the host is busy. */
static void fault_patient(Rig *r)
{
    pair_start(r, ",turn-us=1000000");
}

/* An RDMA READ of five packets. */
static void pair_read(Rig *r)
{
    Wqe wqe = wqe_rdma(&r->s, FAKERNIC_SQ_RDMA_READ, 16384, 0, 5000);

    POST(r, wqe);
}

/* The READ completes with all its data after 'ns', and not before. */
static void pair_has_read(Rig *r, int64_t ns)
{
    struct fakernic_cqe cqe;

    if (ns) {
        g_assert_false(cq_poll(&r->n, &r->s.cq, &cqe));
    }
    for (int64_t slept = 0; slept < ns; slept += MS) {
        qtest_clock_step(r->m.qts, MS);
    }
    cqe = rig_cqe(r, FAKERNIC_CQE_RDMA_READ, FAKERNIC_WC_SUCCESS);
    g_assert_cmpuint(le32_to_cpu(cqe.byte_count), ==, 5000);
    assert_same(&r->n, &r->s, 0, 16384, 5000);
}

/* The device has executed all commands, and there is no completion. */
static void pair_expect_none(Rig *r)
{
    struct fakernic_cqe cqe;

    assert_status(cmd(&r->n, FAKERNIC_CMD_NOP, NULL, 0, NULL, 0), OK);
    g_assert_false(cq_poll(&r->n, &r->s.cq, &cqe));
}

/*
 * A rule acts on one frame of a READ, which returns all its data all the same.
 * A counter of the device shows the rule's effect, or the READ is 'ns' late.
 */
static void read_counting(const char *rule, int64_t ns, enum fakernic_stat stat)
{
    const bool counted = stat != FAKERNIC_STAT_COUNT;
    Rig r;

    pair_start(&r, "");
    g_assert_cmphex(reg_read(&r.n, FAKERNIC_REG_STATUS) &
                    FAKERNIC_STATUS_FAULTS, ==, 0);
    if (counted) {
        g_assert_cmpuint(nic_stat(&r.n, stat), ==, 0);
    }
    fault(&r.m, rule);
    g_assert_cmphex(reg_read(&r.n, FAKERNIC_REG_STATUS) &
                    FAKERNIC_STATUS_FAULTS, !=, 0);
    pair_read(&r);
    if (ns) {
        pair_expect_none(&r);
    }
    pair_has_read(&r, ns);
    g_assert_cmpuint(fault_hits(&r.m), ==, 1);
    if (counted) {
        g_assert_cmpuint(nic_stat(&r.n, stat), >=, 1);
    }
    machine_stop(&r.m);
}

static void read_late(const char *rule, int64_t ns)
{
    read_counting(rule, ns, FAKERNIC_STAT_COUNT);
}

/* The engine's shortest response timeout, after which it retries a READ. */
#define RETRY (600 * MS)

static void test_tx_drop(void)
{
    read_counting("at=tx opcode=rc-read-response-middle nth=2 do=drop", 0,
                  FAKERNIC_STAT_IMPLIED_NAK);
    read_counting("at=tx opcode=rc-read-request do=drop", RETRY,
                  FAKERNIC_STAT_TIMEOUTS);
}

static void test_rx_drop(void)
{
    read_counting("at=rx opcode=rc-read-response-first do=drop", 0,
                  FAKERNIC_STAT_IMPLIED_NAK);
    read_counting("at=rx opcode=rc-read-response-last do=drop", RETRY,
                  FAKERNIC_STAT_RETRANSMITS);
}

static void test_tx_corrupt(void)
{
    read_counting("at=tx opcode=rc-read-response-first do=corrupt", 0,
                  FAKERNIC_STAT_DROP_ICRC);
}

static void test_rx_corrupt(void)
{
    read_counting("at=rx opcode=rc-read-response-first offset=70 mask=0x80 "
                  "do=corrupt", 0, FAKERNIC_STAT_DROP_ICRC);
}

/* A frame of less than the length in its IP header. */
static void test_tx_truncate(void)
{
    read_counting("at=tx opcode=rc-read-response-first bytes=50 do=truncate", 0,
                  FAKERNIC_STAT_DROP_SHORT);
}

static void test_rx_truncate(void)
{
    read_counting("at=rx opcode=rc-read-response-first bytes=0 do=truncate", 0,
                  FAKERNIC_STAT_IMPLIED_NAK);
    read_counting("at=rx opcode=rc-read-response-first bytes=50 do=truncate", 0,
                  FAKERNIC_STAT_DROP_SHORT);
}

/* The device drops a frame whose Ethernet header is cut. */
static void test_rx_truncate_stump(void)
{
    struct fakernic_cqe cqe;
    uint8_t frame[64];
    Machine m;
    Nic n;
    Setup s;
    Qp raw;
    int fds[2];

    g_assert_cmpint(socketpair(AF_UNIX, SOCK_DGRAM, 0, fds), ==, 0);
    machine_start(&m, "-netdev dgram,id=n0,local.type=fd,local.str=%d "
                      "%s,id=nic0,netdev=n0", fds[1], DEVICE);
    close(fds[1]);
    nic_find(&n, &m, SLOT);
    nic_bringup(&n);
    setup(&n, &s);
    port_up(&n, &s, &raw, FAKERNIC_FILTER_PROMISCUOUS);
    rq_post(&n, &raw.rq, 0, s.data, 2048, s.key);
    rq_post(&n, &raw.rq, 1, s.data, 2048, s.key);
    frame_make(frame, nic_mac, sizeof(frame));
    fault(&m, "at=rx times=2 bytes=13 do=truncate");
    for (unsigned i = 0; i < 3; i++) {
        wire_send(fds[0], frame, sizeof(frame));
    }
    cq_await(&n, &s.cq, &cqe, FAKERNIC_CQE_RECV, FAKERNIC_WC_SUCCESS);
    g_assert_cmpuint(le32_to_cpu(cqe.byte_count), ==, sizeof(frame));
    g_assert_cmpuint(fault_hits(&m), ==, 2);
    g_free(n.pci);
    machine_stop(&m);
    close(fds[0]);
}

/* The requester drops the second copy of a response. */
static void test_tx_duplicate(void)
{
    read_counting("at=tx opcode=rc-read-response-middle do=duplicate", 0,
                  FAKERNIC_STAT_DROP_RESPONSE);
}

static void test_rx_duplicate(void)
{
    read_counting("at=rx opcode=rc-read-request do=duplicate", 0,
                  FAKERNIC_STAT_DUPLICATES);
}

static void test_tx_mark(void)
{
    read_counting("at=tx opcode=rc-read-response-first do=mark", 0,
                  FAKERNIC_STAT_RX_ECN_MARKED);
}

static void test_rx_mark(void)
{
    read_counting("at=rx opcode=rc-read-response-first do=mark", 0,
                  FAKERNIC_STAT_RX_ECN_MARKED);
}

static void test_tx_delay(void)
{
    read_late("at=tx opcode=rc-read-response-last delay-ns=20000000 do=delay",
              20 * MS);
}

static void test_rx_delay(void)
{
    read_late("at=rx opcode=rc-read-request delay-ns=20000000 do=delay",
              20 * MS);
}

/* The frames behind it arrive first, which looks like a gap. */
static void test_tx_reorder(void)
{
    read_counting("at=tx opcode=rc-read-response-first by=2 do=reorder", 0,
                  FAKERNIC_STAT_IMPLIED_NAK);
}

static void test_rx_reorder(void)
{
    read_counting("at=rx opcode=rc-read-response-first by=2 do=reorder", 0,
                  FAKERNIC_STAT_IMPLIED_NAK);
}

/* No other frame follows: the reordered frame leaves after 100 ms. */
static void test_tx_reorder_last(void)
{
    read_late("at=tx opcode=rc-read-request by=9 do=reorder", 100 * MS);
}

/* The first two attempts are lost. The third one succeeds. */
static void test_tx_drop_attempt(Rig *r)
{
    fault(&r->m, "id=a at=tx opcode=rc-read-request attempt=1 do=drop");
    fault(&r->m, "id=b at=tx opcode=rc-read-request attempt=2 do=drop");
    fault(&r->m, "id=c at=tx opcode=rc-read-request attempt=3 do=count");
    pair_read(r);
    pair_has_read(r, 3 * RETRY);
    fault(&r->m, "remove=a; remove=b");
    g_assert_cmpuint(fault_hits(&r->m), ==, 1);
}

/* After a reset, STATUS reports fault rules once the device is enabled. */
static void nic_reset_faulty(Nic *n)
{
    nic_reset(n);
    nic_bringup(n);
    g_assert_cmphex(reg_read(n, FAKERNIC_REG_STATUS), ==,
                    FAKERNIC_STATUS_READY | FAKERNIC_STATUS_ENABLED |
                        FAKERNIC_STATUS_FAULTS);
}

/* A reset drops delayed frames, and the device works. */
static void test_tx_delay_reset(Rig *r)
{
    fault(&r->m, "at=tx times=0 delay-ns=5000000000 do=delay");
    pair_read(r);
    nic_reset_faulty(&r->n);
    qtest_clock_step(r->m.qts, 6000 * MS);
    assert_status(cmd(&r->n, FAKERNIC_CMD_NOP, NULL, 0, NULL, 0), OK);
}

/* ---- the device as a whole ----------------------------------------------- */

static void test_device_fatal(Rig *r)
{
    fault(&r->m, "at=device do=fatal");
    AWAIT(reg_read(&r->n, FAKERNIC_REG_STATUS) & FAKERNIC_STATUS_FATAL);
    g_assert_cmpuint(reg_read(&r->n, FAKERNIC_REG_FATAL_CODE), ==,
                     FAKERNIC_FATAL_FAULT);
    g_assert_true(msix_fired(&r->n, FAKERNIC_VECTOR_CMDQ));
    nic_reset_faulty(&r->n);
}

static void test_device_fatal_code(Rig *r)
{
    fault(&r->m, "at=device code=5 do=fatal");
    AWAIT(reg_read(&r->n, FAKERNIC_REG_STATUS) & FAKERNIC_STATUS_FATAL);
    g_assert_cmpuint(reg_read(&r->n, FAKERNIC_REG_FATAL_CODE), ==, 5);
}

/* Waits until the rule has frozen or killed the device: it takes a turn. */
static void wait_hit(Machine *m)
{
    AWAIT(fault_hits(m));
}

/* A frozen device only notes doorbells. It acts on them after the thaw. */
static void test_device_freeze(Rig *r)
{
    struct fakernic_cqe cqe;

    fault(&r->m, "id=ice at=device do=freeze");
    wait_hit(&r->m);
    pair_read(r);
    qtest_clock_step(r->m.qts, 10 * RETRY);
    g_assert_false(cq_poll(&r->n, &r->s.cq, &cqe));
    g_assert_cmphex(reg_read(&r->n, FAKERNIC_REG_MAGIC), ==, FAKERNIC_MAGIC);
    fault(&r->m, "remove=ice");
    pair_has_read(r, 0);
    g_assert_cmpuint(nic_stat(&r->n, FAKERNIC_STAT_DOORBELL_DROPPED), ==, 0);
}

/* A rule that takes the id of the freezing rule does not keep it frozen. */
static void test_device_freeze_replaced(Rig *r)
{
    static const char *const others[] = {
        "remove=ice; id=ice at=tx opcode=cnp do=drop",
        "remove=all; id=ice at=device nth=1000000 do=freeze",
    };
    struct fakernic_cqe cqe;

    for (unsigned i = 0; i < ARRAY_SIZE(others); i++) {
        fault(&r->m, "id=ice at=device do=freeze");
        wait_hit(&r->m);
        pair_read(r);
        g_assert_false(cq_poll(&r->n, &r->s.cq, &cqe));
        fault(&r->m, others[i]);
        pair_has_read(r, 0);
        g_assert_cmpuint(fault_hits(&r->m), ==, 0);
        fault(&r->m, "remove=all");
    }
}

static void test_device_freeze_for(Rig *r)
{
    fault(&r->m, "at=device for-ns=50000000 do=freeze");
    wait_hit(&r->m);
    pair_read(r);
    pair_has_read(r, 50 * MS);
}

static void test_device_freeze_command(Rig *r)
{
    struct fakernic_cmd_completion completion;
    struct fakernic_cmd request = { .opcode = LE16(FAKERNIC_CMD_ALLOC_PD) };
    uint32_t index;

    fault(&r->m, "id=ice at=device do=freeze");
    wait_hit(&r->m);
    index = r->n.cmd_pi;
    cmd_submit(&r->n, &request);
    cmd_ring(&r->n);
    qtest_clock_step(r->m.qts, 1000 * MS);
    fault(&r->m, "remove=all");
    cmd_wait(&r->n, index, &completion);
    g_assert_cmpuint(completion.status, ==, FAKERNIC_CMD_OK);
}

/* A fatal doorbell takes effect at the thaw, and writes nothing before. */
static void test_device_freeze_overrun(Rig *r)
{
    struct fakernic_eqe eqe;

    fault(&r->m, "id=ice at=device do=freeze");
    wait_hit(&r->m);
    reg_write(&r->n, FAKERNIC_REG_CMDQ_DOORBELL, r->n.cmd_pi - 1);
    g_assert_false(eq_poll(&r->n, &r->s.async, &eqe));
    g_assert_cmphex(
        reg_read(&r->n, FAKERNIC_REG_STATUS) & FAKERNIC_STATUS_FATAL, ==, 0);
    fault(&r->m, "remove=ice");
    AWAIT(reg_read(&r->n, FAKERNIC_REG_STATUS) & FAKERNIC_STATUS_FATAL);
    g_assert_cmpuint(reg_read(&r->n, FAKERNIC_REG_FATAL_CODE), ==,
                     FAKERNIC_FATAL_CMDQ_OVERRUN);
    eq_expect(&r->n, &r->s.async, FAKERNIC_EVENT_DEVICE_FATAL);
}

static void test_device_freeze_reset(Rig *r)
{
    fault(&r->m, "at=device do=freeze");
    wait_hit(&r->m);
    nic_reset_faulty(&r->n);
    fault(&r->m, "remove=all");
}

/* Off the bus: reads return all ones and writes do nothing until an FLR. */
static void test_device_dead(Rig *r)
{
    uint8_t express;

    fault(&r->m, "at=device do=dead");
    wait_hit(&r->m);
    g_assert_cmphex(reg_read(&r->n, FAKERNIC_REG_MAGIC), ==, 0xffffffff);
    reg_write(&r->n, FAKERNIC_REG_CONTROL, FAKERNIC_CONTROL_RESET);
    g_assert_cmphex(reg_read(&r->n, FAKERNIC_REG_STATUS), ==, 0xffffffff);
    pair_read(r);
    express = qpci_find_capability(r->n.pci, PCI_CAP_ID_EXP, 0);
    qpci_config_writew(r->n.pci, express + PCI_EXP_DEVCTL,
                       PCI_EXP_DEVCTL_BCR_FLR);
    /* FLR clears the BARs, too. */
    qpci_config_writel(r->n.pci, PCI_BASE_ADDRESS_0, r->n.regs.addr);
    qpci_config_writel(r->n.pci, PCI_BASE_ADDRESS_2, r->n.uar.addr);
    qpci_device_enable(r->n.pci);
    g_assert_cmphex(reg_read(&r->n, FAKERNIC_REG_MAGIC), ==, FAKERNIC_MAGIC);
    g_assert_cmphex(reg_read(&r->n, FAKERNIC_REG_STATUS), ==,
                    FAKERNIC_STATUS_READY);
}

/* ---- doorbells, commands, queues ----------------------------------------- */

static uint32_t pair_post(Rig *r)
{
    Wqe wqe = wqe_rdma(&r->s, FAKERNIC_SQ_RDMA_READ, 16384, 0, 100);

    return sq_put(&r->n, &r->a, &wqe, sizeof(wqe));
}

static void pair_small_read(Rig *r)
{
    pair_post(r);
    sq_ring(&r->n, &r->a);
}

/* The next completion is that of a WQE. */
static void pair_expect(Rig *r, uint32_t index)
{
    struct fakernic_cqe cqe;

    cq_await(&r->n, &r->s.cq, &cqe, FAKERNIC_CQE_RDMA_READ,
             FAKERNIC_WC_SUCCESS);
    g_assert_cmpuint(le32_to_cpu(cqe.wqe_index), ==, index);
}

static void hit_once(Rig *r)
{
    g_assert_cmpuint(fault_hits(&r->m), ==, 1);
}

/* How often the recorder's text contains 'what'. */
static unsigned recorded(Rig *r, const char *what)
{
    QDict *reply = qtest_qmp(r->m.qts, "{ 'execute': 'qom-get', 'arguments': {"
                             " 'path': %s, 'property': 'x-recorder' } }", NIC0);
    const char *text = qdict_get_str(reply, "return");
    unsigned count = 0;

    while ((text = strstr(text, what))) {
        text++;
        count++;
    }
    qobject_unref(reply);
    return count;
}

static void test_doorbell_drop(Rig *r)
{
    g_autofree char *rule = NULL;

    rule = g_strdup_printf("at=doorbell number=%u qpn=%u do=drop",
                           FAKERNIC_DOORBELL_SQ, r->a.qpn);
    fault(&r->m, rule);
    pair_small_read(r);
    pair_expect_none(r);
    sq_ring(&r->n, &r->a);
    pair_expect(r, 0);
    hit_once(r);
}

static void test_doorbell_delay(Rig *r)
{
    fault(&r->m, "at=doorbell delay-ns=20000000 do=delay");
    pair_small_read(r);
    pair_expect_none(r);
    qtest_clock_step(r->m.qts, 20 * MS);
    pair_expect(r, 0);
    hit_once(r);
}

static void test_doorbell_duplicate(Rig *r)
{
    fault(&r->m, "at=doorbell do=duplicate");
    pair_small_read(r);
    pair_expect(r, 0);
    pair_expect_none(r);
    g_assert_cmpuint(recorded(r, " doorbell_sq "), ==, 2);
    hit_once(r);
}

/* The device acts on the doorbell after another one has been rung. */
static void test_doorbell_reorder(Rig *r)
{
    fault(&r->m, "at=doorbell do=reorder");
    pair_small_read(r);
    pair_expect_none(r);
    cq_arm(&r->n, &r->s.cq, 0, false);
    pair_expect(r, 0);
    hit_once(r);
}

/* The queue's next doorbell includes the reordered one, which is ignored. */
static void test_doorbell_reorder_overtaken(Rig *r)
{
    fault(&r->m, "at=doorbell do=reorder");
    pair_small_read(r);
    pair_small_read(r);
    pair_expect(r, 0);
    pair_expect(r, 1);
    pair_small_read(r);
    pair_expect(r, 2);
    g_assert_cmpuint(nic_stat(&r->n, FAKERNIC_STAT_DOORBELL_DROPPED), ==, 0);
    hit_once(r);
}

/* The corrupted bit is reserved, so the device drops the doorbell. */
static void test_doorbell_corrupt(Rig *r)
{
    fault(&r->m, "at=doorbell mask=0x80 do=corrupt");
    pair_small_read(r);
    pair_expect_none(r);
    g_assert_cmpuint(nic_stat(&r->n, FAKERNIC_STAT_DOORBELL_DROPPED), ==, 1);
    sq_ring(&r->n, &r->a);
    pair_expect(r, 0);
    hit_once(r);
}

static void test_command_fail(Rig *r)
{
    fault(&r->m, "at=command cmd=ALLOC_PD nth=2 status=7 code=12 do=fail");
    pd_alloc(&r->n);
    assert_status(cmd(&r->n, FAKERNIC_CMD_ALLOC_PD, NULL, 0, NULL, 0),
                  NO_RESOURCE);
    g_assert_cmpuint(r->n.detail, ==, 12);
    pd_alloc(&r->n);
    hit_once(r);
}

/* Submits an ALLOC_PD that a rule hits; its place in the ring. */
static uint32_t submit_hit(Rig *r)
{
    struct fakernic_cmd request = { .opcode = LE16(FAKERNIC_CMD_ALLOC_PD) };
    const uint32_t index = r->n.cmd_pi;

    cmd_submit(&r->n, &request);
    cmd_ring(&r->n);
    wait_hit(&r->m);
    return index;
}

static bool is_completed(Rig *r, uint32_t index)
{
    struct fakernic_cmd_completion completion;

    qtest_memread(r->m.qts, r->n.cmd_cq + index * sizeof(completion),
                  &completion, sizeof(completion));
    return completion.owner & 1;
}

/* The command is executed without a completion. */
static void test_command_drop(Rig *r)
{
    uint32_t index;

    g_assert_cmpuint(r->n.cmd_pi, <, 1U << r->n.cmd_log_depth);
    fault(&r->m, "at=command cmd=ALLOC_PD do=drop");
    index = submit_hit(r);
    assert_status(cmd(&r->n, FAKERNIC_CMD_NOP, NULL, 0, NULL, 0), OK);
    g_assert_false(is_completed(r, index));
    g_assert_cmpuint(pd_alloc(&r->n), ==, r->s.pd + 2);
    hit_once(r);
}

static void test_cmd_doorbell_drop(Rig *r)
{
    struct fakernic_cmd_completion completion;
    uint32_t index;

    fault(&r->m, "at=cmd-doorbell do=drop");
    index = submit_hit(r);
    qtest_clock_step(r->m.qts, MS);
    g_assert_false(is_completed(r, index));
    cmd_ring(&r->n);
    cmd_wait(&r->n, index, &completion);
    g_assert_cmpuint(completion.status, ==, FAKERNIC_CMD_OK);
    hit_once(r);
}

/* A command that a rule holds back for 20 ms completes then, not before. */
static void command_late(Rig *r, const char *rule)
{
    struct fakernic_cmd_completion completion;
    uint32_t index;

    g_assert_cmpuint(r->n.cmd_pi, <, 1U << r->n.cmd_log_depth);
    fault(&r->m, rule);
    index = submit_hit(r);
    qtest_clock_step(r->m.qts, 19 * MS);
    g_assert_false(is_completed(r, index));
    qtest_clock_step(r->m.qts, MS);
    cmd_wait(&r->n, index, &completion);
    g_assert_cmpuint(completion.status, ==, FAKERNIC_CMD_OK);
    hit_once(r);
}

static void test_cmd_doorbell_delay(Rig *r)
{
    command_late(r, "at=cmd-doorbell delay-ns=20000000 do=delay");
}

/* The next doorbell announces the delayed command, too. */
static void test_cmd_doorbell_delay_overtaken(Rig *r)
{
    uint32_t index;

    fault(&r->m, "at=cmd-doorbell delay-ns=20000000 do=delay");
    index = submit_hit(r);
    assert_status(cmd(&r->n, FAKERNIC_CMD_NOP, NULL, 0, NULL, 0), OK);
    g_assert_true(is_completed(r, index));
    qtest_clock_step(r->m.qts, 40 * MS);
    assert_status(cmd(&r->n, FAKERNIC_CMD_NOP, NULL, 0, NULL, 0), OK);
    hit_once(r);
}

static void test_command_delay(Rig *r)
{
    command_late(r,
                 "at=command times=0 cmd=ALLOC_PD delay-ns=20000000 do=delay");
}

/* The delayed command is announced: a smaller doorbell index is fatal. */
static void test_command_delay_taken_back(Rig *r)
{
    fault(&r->m, "at=command cmd=ALLOC_PD delay-ns=20000000 do=delay");
    submit_hit(r);
    reg_write(&r->n, FAKERNIC_REG_CMDQ_DOORBELL, r->n.cmd_pi - 1);
    AWAIT(reg_read(&r->n, FAKERNIC_REG_STATUS) & FAKERNIC_STATUS_FATAL);
    g_assert_cmpuint(reg_read(&r->n, FAKERNIC_REG_FATAL_CODE), ==,
                     FAKERNIC_FATAL_CMDQ_OVERRUN);
}

static void test_command_delay_reset(Rig *r)
{
    fault(&r->m, "at=command cmd=ALLOC_PD delay-ns=20000000 do=delay");
    submit_hit(r);
    nic_reset_faulty(&r->n);
    qtest_clock_step(r->m.qts, 40 * MS);
    hit_once(r);
}

static void test_cqe_drop(Rig *r)
{
    fault(&r->m, "at=cqe do=drop");
    pair_post(r);
    pair_small_read(r);
    pair_expect(r, 1);
    hit_once(r);
}

static void test_cqe_duplicate(Rig *r)
{
    fault(&r->m, "at=cqe do=duplicate");
    pair_post(r);
    pair_small_read(r);
    pair_expect(r, 0);
    pair_expect(r, 0);
    pair_expect(r, 1);
    hit_once(r);
}

/* Later CQEs wait, too: a CQ keeps its order. */
static void test_cqe_delay(Rig *r)
{
    g_autofree char *rule = NULL;

    rule = g_strdup_printf("at=cqe number=%u qpn=%u delay-ns=20000000 do=delay",
                           r->s.cq.id, r->a.qpn);
    fault(&r->m, rule);
    pair_post(r);
    pair_small_read(r);
    wait_hit(&r->m);
    qtest_clock_step(r->m.qts, 19 * MS);
    pair_expect_none(r);
    qtest_clock_step(r->m.qts, MS);
    pair_expect(r, 0);
    pair_expect(r, 1);
    hit_once(r);
}

/* The first of three comes last, behind two of its CQ. */
static void test_cqe_reorder(Rig *r)
{
    fault(&r->m, "at=cqe by=2 do=reorder");
    pair_post(r);
    pair_post(r);
    pair_small_read(r);
    pair_expect(r, 1);
    pair_expect(r, 2);
    pair_expect(r, 0);
    hit_once(r);
}

/* A reordered CQE stays behind the delayed one before it; the next passes. */
static void test_cqe_reorder_delayed(Rig *r)
{
    fault(&r->m, "id=late at=cqe delay-ns=200000000 do=delay; "
                 "id=last at=cqe nth=2 do=reorder");
    pair_post(r);
    pair_post(r);
    pair_small_read(r);
    AWAIT(fault_hits_of(&r->m, "last"));
    qtest_clock_step(r->m.qts, 199 * MS);
    pair_expect_none(r);
    qtest_clock_step(r->m.qts, MS);
    pair_expect(r, 0);
    pair_expect(r, 2);
    pair_expect(r, 1);
    hit_once(r);
}

/* No other CQE of its CQ follows, so it arrives after 100 ms. CQEs of another
 * CQ do not count. */
static void test_cqe_reorder_last(Rig *r)
{
    struct fakernic_cqe cqe;
    Queue other;
    Qp c;

    cq_create(&r->n, &other, 4, &r->s.eq, 0, 0);
    qp_create(&r->n, &c, FAKERNIC_QP_RC, r->s.pd, &other, 0);
    rc_connect(&r->n, c.qpn, r->b.qpn, own_gid, nic_mac);
    fault(&r->m, "at=cqe do=reorder");
    pair_small_read(r);
    wait_hit(&r->m);
    complete_nops(&r->n, &c, 1);
    cq_await(&r->n, &other, &cqe, FAKERNIC_CQE_NOP, FAKERNIC_WC_SUCCESS);
    qtest_clock_step(r->m.qts, 99 * MS);
    pair_expect_none(r);
    qtest_clock_step(r->m.qts, MS);
    pair_expect(r, 0);
    hit_once(r);
}

/* The CQ is in error, and its QPs with it, though it has room. */
static void test_cqe_overrun(Rig *r)
{
    fault(&r->m, "at=cqe nth=2 do=overrun");
    pair_small_read(r);
    pair_expect(r, 0);
    pair_small_read(r);
    g_assert_cmpuint(eq_expect(&r->n, &r->s.async, FAKERNIC_EVENT_CQ_ERROR), ==,
                     r->s.cq.id);
    pair_expect_none(r);
    g_assert_cmpuint(nic_stat(&r->n, FAKERNIC_STAT_CQ_OVERRUNS), ==, 1);
    g_assert_cmpuint(qp_state(&r->n, r->a.qpn), ==, FAKERNIC_QPS_ERR);
    hit_once(r);
}

/* DESTROY_CQ drops the delayed CQEs of the CQ. */
static void test_cqe_delay_destroy(Rig *r)
{
    fault(&r->m, "at=cqe delay-ns=20000000 do=delay");
    pair_small_read(r);
    wait_hit(&r->m);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_QP, r->a.qpn), OK);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_QP, r->b.qpn), OK);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_CQ, r->s.cq.id), OK);
    qtest_clock_step(r->m.qts, 40 * MS);
    pair_expect_none(r);
    hit_once(r);
}

/* The delayed CQEs of a QP that is destroyed or reset are dropped: the driver
 * has already removed the QP's CQEs from the CQ. */
static void cqe_late(Rig *r, bool destroy)
{
    fault(&r->m, "at=cqe delay-ns=20000000 do=delay");
    pair_small_read(r);
    wait_hit(&r->m);
    if (destroy) {
        assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_QP, r->a.qpn), OK);
    } else {
        assert_status(qp_to(&r->n, r->a.qpn, FAKERNIC_QPS_RESET), OK);
    }
    qtest_clock_step(r->m.qts, 40 * MS);
    pair_expect_none(r);
    hit_once(r);
}

static void test_cqe_delay_destroy_qp(Rig *r)
{
    cqe_late(r, true);
}

static void test_cqe_delay_reset_qp(Rig *r)
{
    cqe_late(r, false);
}

/* The CQE reports an error that the QP has not had; the QP stays in RTS. */
static void test_cqe_fail(Rig *r)
{
    struct fakernic_cqe cqe;

    fault(&r->m, "at=cqe status=12 code=77 do=fail");
    pair_small_read(r);
    cq_await(&r->n, &r->s.cq, &cqe, FAKERNIC_CQE_RDMA_READ,
             FAKERNIC_WC_RETRY_EXC_ERR);
    g_assert_cmpuint(le16_to_cpu(cqe.vendor_err), ==, 77);
    g_assert_cmpuint(qp_state(&r->n, r->a.qpn), ==, FAKERNIC_QPS_RTS);
    pair_small_read(r);
    pair_expect(r, 1);
    hit_once(r);
}

/* Corrupts a bit of the second CQE, which waits behind a delayed one. */
static void test_cqe_corrupt(Rig *r)
{
    const size_t offset = offsetof(struct fakernic_cqe, wqe_index);
    g_autofree char *rule = g_strdup_printf("id=b at=cqe nth=2 offset=%zu "
                                            "mask=4 do=corrupt", offset);

    fault(&r->m, "id=a at=cqe delay-ns=20000000 do=delay");
    fault(&r->m, rule);
    pair_post(r);
    pair_small_read(r);
    AWAIT(fault_hits_of_all(&r->m) >= 2);
    fault(&r->m, "remove=b");
    pair_expect_none(r);
    qtest_clock_step(r->m.qts, 20 * MS);
    pair_expect(r, 0);
    pair_expect(r, 1 ^ 4);
    pair_small_read(r);
    pair_expect(r, 2);
    hit_once(r);
}

/* A completion that causes an event. */
static void pair_event(Rig *r, uint32_t index)
{
    cq_arm(&r->n, &r->s.cq, 0, false);
    pair_small_read(r);
    pair_expect(r, index);
}

static void test_eqe_drop(Rig *r)
{
    struct fakernic_eqe eqe;

    fault(&r->m, "at=eqe do=drop");
    pair_event(r, 0);
    wait_hit(&r->m);
    g_assert_false(eq_poll(&r->n, &r->s.eq, &eqe));
    pair_event(r, 1);
    eq_expect(&r->n, &r->s.eq, FAKERNIC_EVENT_COMPLETION);
    g_assert_false(eq_poll(&r->n, &r->s.eq, &eqe));
    hit_once(r);
}

static void test_eqe_duplicate(Rig *r)
{
    struct fakernic_eqe eqe;

    fault(&r->m, "at=eqe do=duplicate");
    pair_event(r, 0);
    g_assert_cmpuint(eq_expect(&r->n, &r->s.eq, FAKERNIC_EVENT_COMPLETION), ==,
                     r->s.cq.id);
    g_assert_cmpuint(eq_expect(&r->n, &r->s.eq, FAKERNIC_EVENT_COMPLETION), ==,
                     r->s.cq.id);
    g_assert_false(eq_poll(&r->n, &r->s.eq, &eqe));
    hit_once(r);
}

/* The event names a CQ that does not exist. */
static void test_eqe_corrupt(Rig *r)
{
    const size_t offset = offsetof(struct fakernic_eqe, id);
    g_autofree char *rule = g_strdup_printf("at=eqe offset=%zu mask=0x80 "
                                            "do=corrupt", offset);

    fault(&r->m, rule);
    pair_event(r, 0);
    g_assert_cmpuint(eq_expect(&r->n, &r->s.eq, FAKERNIC_EVENT_COMPLETION), ==,
                     r->s.cq.id ^ 0x80);
    eq_ring(&r->n, &r->s.eq, true);
    pair_event(r, 1);
    g_assert_cmpuint(eq_expect(&r->n, &r->s.eq, FAKERNIC_EVENT_COMPLETION), ==,
                     r->s.cq.id);
    hit_once(r);
}

static void test_eqe_delay(Rig *r)
{
    struct fakernic_eqe eqe;
    g_autofree char *rule = NULL;

    rule = g_strdup_printf("at=eqe number=%u times=0 delay-ns=20000000 "
                           "do=delay", r->s.eq.id);
    fault(&r->m, rule);
    pair_event(r, 0);
    wait_hit(&r->m);
    qtest_clock_step(r->m.qts, 19 * MS);
    pair_expect_none(r);
    g_assert_false(eq_poll(&r->n, &r->s.eq, &eqe));
    qtest_clock_step(r->m.qts, MS);
    eq_expect(&r->n, &r->s.eq, FAKERNIC_EVENT_COMPLETION);
    g_assert_true(msix_fired(&r->n, 1));
    hit_once(r);
}

/* The write of an event fails for a while; the event arrives later. */
static void test_dma_write_fail_eqe(Rig *r)
{
    struct fakernic_eqe eqe;

    fault(&r->m, "at=dma-write len=16 do=fail");
    pair_event(r, 0);
    wait_hit(&r->m);
    qtest_clock_step(r->m.qts, 99 * MS);
    g_assert_false(eq_poll(&r->n, &r->s.eq, &eqe));
    qtest_clock_step(r->m.qts, 1 * MS);
    g_assert_cmpuint(eq_expect(&r->n, &r->s.eq, FAKERNIC_EVENT_COMPLETION), ==,
                     r->s.cq.id);
    g_assert_true(msix_fired(&r->n, 1));
    g_assert_false(eq_poll(&r->n, &r->s.eq, &eqe));
    g_assert_cmpuint(nic_stat(&r->n, FAKERNIC_STAT_DMA_ERRORS), ==, 1);
    hit_once(r);
}

/* The number of recorded messages of the vector of completions. */
static unsigned messages(Rig *r)
{
    return recorded(r, " interrupt vector=1\n");
}

static void test_interrupt_drop(Rig *r)
{
    fault(&r->m, "at=interrupt number=1 do=drop");
    pair_event(r, 0);
    eq_expect(&r->n, &r->s.eq, FAKERNIC_EVENT_COMPLETION);
    wait_hit(&r->m);
    g_assert_false(msix_fired(&r->n, 1));
    eq_ring(&r->n, &r->s.eq, true);
    pair_event(r, 1);
    eq_expect(&r->n, &r->s.eq, FAKERNIC_EVENT_COMPLETION);
    g_assert_true(msix_fired(&r->n, 1));
    hit_once(r);
}

static void test_interrupt_delay(Rig *r)
{
    fault(&r->m, "at=interrupt number=1 times=0 delay-ns=20000000 do=delay");
    pair_event(r, 0);
    wait_hit(&r->m);
    qtest_clock_step(r->m.qts, 19 * MS);
    pair_expect_none(r);
    g_assert_cmpuint(messages(r), ==, 0);
    qtest_clock_step(r->m.qts, MS);
    AWAIT(messages(r));
    g_assert_true(msix_fired(&r->n, 1));
    hit_once(r);
}

/* The device sends a second message without an event. */
static void test_interrupt_duplicate(Rig *r)
{
    fault(&r->m, "at=interrupt number=1 times=0 do=duplicate");
    pair_event(r, 0);
    AWAIT(messages(r) >= 2);
    pair_expect_none(r);
    g_assert_cmpuint(messages(r), ==, 2);
    hit_once(r);
}

/* ---- work requests and memory -------------------------------------------- */

/* With each status the QP fails, and its next work request is flushed. */
static void test_send_wqe_fail(Rig *r)
{
    for (unsigned status = 1; status <= FAKERNIC_WC_GENERAL_ERR; status++) {
        g_autofree char *rule = NULL;
        struct fakernic_cqe cqe;

        rc_pair(&r->n, &r->s, &r->a, &r->b);
        rule = g_strdup_printf("id=w at=send-wqe qpn=%u nth=2 status=%u "
                               "code=%u do=fail",
                               r->a.qpn, status, status + 99);
        fault(&r->m, rule);
        pair_post(r);
        pair_post(r);
        pair_small_read(r);
        pair_expect(r, 0);
        cq_await(&r->n, &r->s.cq, &cqe, FAKERNIC_CQE_RDMA_READ, status);
        g_assert_cmpuint(le32_to_cpu(cqe.wqe_index), ==, 1);
        g_assert_cmpuint(le16_to_cpu(cqe.vendor_err), ==, status + 99);
        cq_await(&r->n, &r->s.cq, &cqe, FAKERNIC_CQE_RDMA_READ,
                 FAKERNIC_WC_WR_FLUSH_ERR);
        queue_record(&r->n, &r->s.cq, r->s.cq.index);
        g_assert_cmpuint(qp_state(&r->n, r->a.qpn), ==, FAKERNIC_QPS_ERR);
        g_assert_cmpuint(fault_hits(&r->m), ==, 1);
        fault(&r->m, "remove=w");
    }
}

/* Two of three work requests vanish, as if they had never been posted. */
static void test_send_wqe_drop(Rig *r)
{
    fault(&r->m, "at=send-wqe times=2 do=drop");
    pair_post(r);
    pair_post(r);
    pair_small_read(r);
    pair_expect(r, 2);
    pair_expect_none(r);
    g_assert_cmpuint(fault_hits(&r->m), ==, 2);
}

/* Later WQEs wait, too, even if a doorbell is rung. */
static void test_send_wqe_delay(Rig *r)
{
    fault(&r->m, "at=send-wqe delay-ns=20000000 do=delay");
    pair_post(r);
    pair_small_read(r);
    wait_hit(&r->m);
    qtest_clock_step(r->m.qts, 19 * MS);
    sq_ring(&r->n, &r->a);
    pair_expect_none(r);
    qtest_clock_step(r->m.qts, MS);
    pair_expect(r, 0);
    pair_expect(r, 1);
    hit_once(r);
}

/* A reset of the queue cancels the wait. */
static void test_send_wqe_delay_reset(Rig *r)
{
    struct fakernic_cqe cqe;

    fault(&r->m, "at=send-wqe delay-ns=3600000000000 do=delay");
    pair_small_read(r);
    wait_hit(&r->m);
    assert_status(qp_to(&r->n, r->a.qpn, FAKERNIC_QPS_RESET), OK);
    r->a.sq.index = 0;
    rc_connect(&r->n, r->a.qpn, r->b.qpn, own_gid, nic_mac);
    complete_nops(&r->n, &r->a, 1);
    cq_await(&r->n, &r->s.cq, &cqe, FAKERNIC_CQE_NOP, FAKERNIC_WC_SUCCESS);
    hit_once(r);
}

/* The device checks the corrupted block: a reserved field is not zero. */
static void test_send_wqe_corrupt(Rig *r)
{
    const size_t offset = offsetof(struct fakernic_sq_hdr, xrc_srqn);
    g_autofree char *rule = g_strdup_printf("at=send-wqe offset=%zu do=corrupt",
                                            offset);
    struct fakernic_cqe cqe;

    fault(&r->m, rule);
    pair_small_read(r);
    cq_await(&r->n, &r->s.cq, &cqe, FAKERNIC_CQE_RDMA_READ,
             FAKERNIC_WC_LOC_QP_OP_ERR);
    g_assert_cmpuint(le16_to_cpu(cqe.vendor_err), ==, FAKERNIC_VENDOR_SQ_RSVD);
    hit_once(r);
}

/* Inline data of the second block arrive corrupted: nothing checks them. */
static void test_send_wqe_corrupt_data(Rig *r)
{
    QEMU_ALIGNED(8) uint8_t wqe[2 * FAKERNIC_SQ_BB_SIZE] = { 0 };
    struct fakernic_sq_hdr *hdr = (void *)wqe;
    struct fakernic_sq_rdma *rdma = (void *)(wqe + sizeof(*hdr));
    struct fakernic_cqe cqe;
    uint8_t seen[sizeof(wqe) - FAKERNIC_SQ_DATA_OFFSET_RDMA];

    fault(&r->m, "at=send-wqe offset=100 mask=0x42 do=corrupt");
    *hdr = (struct fakernic_sq_hdr) {
        .opcode = FAKERNIC_SQ_RDMA_WRITE,
        .flags = FAKERNIC_SQ_SIGNALED | FAKERNIC_SQ_INLINE,
        .bb_count = 2, .inline_length = LE16(sizeof(seen)),
    };
    rdma->remote_address = LE64(r->s.data);
    rdma->rkey = LE32(r->s.key);
    sq_put(&r->n, &r->a, wqe, sizeof(wqe));
    sq_ring(&r->n, &r->a);
    cq_await(&r->n, &r->s.cq, &cqe, FAKERNIC_CQE_RDMA_WRITE,
             FAKERNIC_WC_SUCCESS);
    qtest_memread(r->m.qts, r->s.data, seen, sizeof(seen));
    wqe[100] ^= 0x42;
    g_assert_cmpmem(seen, sizeof(seen), wqe + FAKERNIC_SQ_DATA_OFFSET_RDMA,
                    sizeof(seen));
    hit_once(r);
}

/* One receive at b, one SEND of 300 bytes to it. */
static void pair_message(Rig *r)
{
    Wqe wqe = wqe_send(&r->s, 0, 300);

    rq_post(&r->n, &r->b.rq, 77, r->s.data + 32768, 300, r->s.key);
    POST(r, wqe);
}

static void pair_has_message(Rig *r)
{
    struct fakernic_cqe cqe;

    cqe = rig_cqe(r, FAKERNIC_CQE_RECV, FAKERNIC_WC_SUCCESS);
    g_assert_cmpuint(le32_to_cpu(cqe.wqe_index), ==, 77);
    cqe = rig_cqe(r, FAKERNIC_CQE_SEND, FAKERNIC_WC_SUCCESS);
    assert_same(&r->n, &r->s, 0, 32768, 300);
}

/* As if no receive were posted: the sender gets an RNR NAK. */
static void test_recv_wqe_drop(Rig *r)
{
    struct fakernic_cqe cqe;

    fault(&r->m, "at=recv-wqe qpn=0-65535 number=0 times=2 do=drop");
    pair_message(r);
    g_assert_false(cq_poll(&r->n, &r->s.cq, &cqe));
    for (unsigned ms = 0; ms < 20; ms++) {
        qtest_clock_step(r->m.qts, MS);
    }
    pair_has_message(r);
    g_assert_cmpuint(fault_hits(&r->m), ==, 2);
    g_assert_cmpuint(nic_stat(&r->n, FAKERNIC_STAT_TX_RNR_NAK), ==, 2);
}

/* The receive is found later. Until then the sender gets RNR NAKs. */
static void test_recv_wqe_delay(Rig *r)
{
    struct fakernic_cqe cqe;

    fault(&r->m, "at=recv-wqe delay-ns=20000000 do=delay");
    pair_message(r);
    for (unsigned ms = 0; ms < 19; ms++) {
        qtest_clock_step(r->m.qts, MS);
    }
    g_assert_cmpuint(nic_stat(&r->n, FAKERNIC_STAT_TX_RNR_NAK), >, 3);
    g_assert_false(cq_poll(&r->n, &r->s.cq, &cqe));
    for (unsigned ms = 0; ms < 4; ms++) {
        qtest_clock_step(r->m.qts, MS);
    }
    g_assert_true(cq_poll(&r->n, &r->s.cq, &cqe));
    g_assert_cmpuint(cqe.opcode, ==, FAKERNIC_CQE_RECV);
    hit_once(r);
}

/* The receive fails, and both queue pairs with it. */
static void recv_wqe_fails(const char *rule, enum fakernic_vendor_err code)
{
    Rig r;
    struct fakernic_cqe cqe;

    pair_start(&r, "");
    fault(&r.m, rule);
    pair_message(&r);
    cq_expect(&r.n, &r.s.cq, &cqe, FAKERNIC_CQE_RECV,
              FAKERNIC_WC_LOC_QP_OP_ERR);
    g_assert_cmpuint(le16_to_cpu(cqe.vendor_err), ==, code);
    cq_expect(&r.n, &r.s.cq, &cqe, FAKERNIC_CQE_SEND, FAKERNIC_WC_REM_OP_ERR);
    g_assert_cmpuint(qp_state(&r.n, r.b.qpn), ==, FAKERNIC_QPS_ERR);
    g_assert_cmpuint(fault_hits(&r.m), ==, 1);
    machine_stop(&r.m);
}

static void test_recv_wqe_fail(void)
{
    recv_wqe_fails("at=recv-wqe do=fail", FAKERNIC_VENDOR_RQ_FORMAT);
    recv_wqe_fails("at=recv-wqe code=34 do=fail", FAKERNIC_VENDOR_RQ_DMA);
}

/* The rule corrupts the tag of the receive, which the completion reports. */
static void test_recv_wqe_corrupt(Rig *r)
{
    struct fakernic_cqe cqe;

    fault(&r->m, "at=recv-wqe offset=0 mask=0x80 do=corrupt");
    pair_message(r);
    cqe = rig_cqe(r, FAKERNIC_CQE_RECV, FAKERNIC_WC_SUCCESS);
    g_assert_cmpuint(le32_to_cpu(cqe.wqe_index), ==, 77 ^ 0x80);
    cqe = rig_cqe(r, FAKERNIC_CQE_SEND, FAKERNIC_WC_SUCCESS);
    assert_same(&r->n, &r->s, 0, 32768, 300);
    hit_once(r);
}

/* CREATE_CQ and CREATE_MR fail once and leave nothing behind. */
static void test_page_list_fail(Rig *r)
{
    Queue cq;
    struct fakernic_create_cq_req req;
    struct fakernic_create_mr_req mr = {
        .iova = 0,
        .length = LE64(8192),
        .access = 0,
        .type = FAKERNIC_MR_MEMORY,
    };

    req = (struct fakernic_create_cq_req) {
        .pages = queue_alloc(&r->n, &cq, 4, 6),
        .log_depth = 4,
        .eqn = LE32(r->s.eq.id),
    };
    fault(&r->m, "id=one at=page-list do=fail");
    assert_status(CMD(&r->n, CREATE_CQ, req), DMA_ERROR);
    g_assert_cmpuint(fault_hits(&r->m), ==, 1);
    assert_status(CMD(&r->n, CREATE_CQ, req), OK);
    fault(&r->m, "remove=one; id=two at=page-list len=2 do=fail");
    mr.pdn = LE32(r->s.pd);
    mr.pages = contiguous(r->s.data, 8192);
    assert_status(CMD(&r->n, CREATE_MR, mr), DMA_ERROR);
    g_assert_cmpuint(fault_hits(&r->m), ==, 1);
    assert_status(CMD(&r->n, CREATE_MR, mr), OK);
    pair_read(r);
    pair_has_read(r, 0);
}

/* The error that the AER capability shows after the rule. */
static void aer(const char *severity, unsigned where, uint32_t status)
{
    Rig r;
    g_autofree char *rule = g_strdup_printf("at=device severity=%s do=aer",
                                            severity);
    uint64_t config;

    pair_start(&r, "");
    ecam_enable(&r.m);
    config = ecam(SLOT) + extended_capability(&r.m, ecam(SLOT), 1);
    g_assert_cmphex(qtest_readl(r.m.qts, config + where), ==, 0);
    fault(&r.m, rule);
    wait_hit(&r.m);
    g_assert_cmphex(qtest_readl(r.m.qts, config + where), ==, status);
    pair_read(&r);
    pair_has_read(&r, 0);
    machine_stop(&r.m);
}

static void test_device_aer(void)
{
    aer("correctable", PCI_ERR_COR_STATUS, PCI_ERR_COR_RCVR);
    aer("nonfatal", PCI_ERR_UNCOR_STATUS, PCI_ERR_UNC_POISON_TLP);
    aer("fatal", PCI_ERR_UNCOR_STATUS, PCI_ERR_UNC_SURPDN);
}

static bool link_is_up(Rig *r)
{
    struct fakernic_query_port_resp port;

    assert_status(cmd(&r->n, FAKERNIC_CMD_QUERY_PORT, NULL, 0, &port,
                      sizeof(port)), OK);
    return port.link_up;
}

/* The port reports down and up again; loopback works in between. */
static void test_device_link_down(Rig *r)
{
    g_assert_true(link_is_up(r));
    fault(&r->m, "at=device for-ns=50000000 do=link-down");
    wait_hit(&r->m);
    g_assert_false(link_is_up(r));
    eq_expect(&r->n, &r->s.async, FAKERNIC_EVENT_PORT_ERROR);
    pair_read(r);
    pair_has_read(r, 0);
    qtest_clock_step(r->m.qts, 49 * MS);
    g_assert_false(link_is_up(r));
    qtest_clock_step(r->m.qts, MS);
    g_assert_true(link_is_up(r));
    eq_expect(&r->n, &r->s.async, FAKERNIC_EVENT_PORT_ACTIVE);
    fault(&r->m, "remove=all; id=down at=device do=link-down");
    wait_hit(&r->m);
    g_assert_false(link_is_up(r));
    fault(&r->m, "remove=down");
    g_assert_true(link_is_up(r));
}

static void test_device_link_down_replaced(Rig *r)
{
    fault(&r->m, "id=down at=device do=link-down");
    wait_hit(&r->m);
    g_assert_false(link_is_up(r));
    fault(&r->m, "remove=down; id=down at=tx opcode=cnp do=drop");
    g_assert_true(link_is_up(r));
}

/* The read of a WQE fails, and the QP with it. */
static void test_dma_read_fail(Rig *r)
{
    g_autofree char *rule = NULL;

    rule = g_strdup_printf("at=dma-read len=%u do=fail", FAKERNIC_SQ_BB_SIZE);
    fault(&r->m, rule);
    pair_small_read(r);
    g_assert_cmpuint(eq_expect(&r->n, &r->s.async, FAKERNIC_EVENT_QP_FATAL), ==,
                     r->a.qpn);
    g_assert_cmpuint(nic_stat(&r->n, FAKERNIC_STAT_DMA_ERRORS), ==, 1);
    hit_once(r);
}

/* The write of a CQE fails, and the CQ with it. */
static void test_dma_write_fail(Rig *r)
{
    g_autofree char *rule = NULL;

    rule = g_strdup_printf("at=dma-write len=%zu do=fail",
                           sizeof(struct fakernic_cqe));
    fault(&r->m, rule);
    pair_small_read(r);
    g_assert_cmpuint(eq_expect(&r->n, &r->s.async, FAKERNIC_EVENT_CQ_ERROR), ==,
                     r->s.cq.id);
    g_assert_cmpuint(nic_stat(&r->n, FAKERNIC_STAT_DMA_ERRORS), ==, 1);
    hit_once(r);
}

/* The write fails after its first 40 bytes; the others stay as they were. */
static void test_dma_write_fail_bytes(Rig *r)
{
    uint8_t seen[100], none[60] = { 0 };
    struct fakernic_cqe cqe;

    fault(&r->m, "at=dma-write why=payload bytes=40 do=fail");
    pair_small_read(r);
    cq_await(&r->n, &r->s.cq, &cqe, FAKERNIC_CQE_RDMA_READ,
             FAKERNIC_WC_LOC_PROT_ERR);
    assert_same(&r->n, &r->s, 0, 16384, 40);
    qtest_memread(r->m.qts, r->s.data + 16384, seen, sizeof(seen));
    g_assert_cmpmem(seen + 40, 60, none, 60);
    hit_once(r);
}

/* The device reports success without writing the data. */
static void test_dma_write_drop(Rig *r)
{
    uint8_t byte;

    fault(&r->m, "at=dma-write len=100 do=drop");
    pair_small_read(r);
    pair_expect(r, 0);
    qtest_memread(r->m.qts, r->s.data + 16384, &byte, 1);
    g_assert_cmpuint(byte, ==, 0);
    pair_small_read(r);
    pair_expect(r, 1);
    assert_same(&r->n, &r->s, 0, 16384, 100);
    hit_once(r);
}

/* The first READ returns one corrupted byte, the second one none. */
static void read_corrupt(Rig *r, const char *rule)
{
    uint8_t there, here;

    fault(&r->m, rule);
    pair_small_read(r);
    pair_expect(r, 0);
    qtest_memread(r->m.qts, r->s.data + 30, &there, 1);
    qtest_memread(r->m.qts, r->s.data + 16384 + 30, &here, 1);
    g_assert_cmphex(here, ==, there ^ 0x11);
    qtest_memwrite(r->m.qts, r->s.data + 16384 + 30, &there, 1);
    assert_same(&r->n, &r->s, 0, 16384, 100);
    pair_small_read(r);
    pair_expect(r, 1);
    assert_same(&r->n, &r->s, 0, 16384, 100);
    hit_once(r);
}

static void test_dma_read_corrupt(Rig *r)
{
    read_corrupt(r, "at=dma-read len=100 offset=30 mask=0x11 do=corrupt");
}

static void test_dma_write_corrupt(Rig *r)
{
    read_corrupt(r, "at=dma-write len=100 offset=30 mask=0x11 do=corrupt");
}

/* Adds 2 to a word of value 40, and returns the status. */
static uint8_t pair_atomic(Rig *r)
{
    AtomicWqe wqe = wqe_atomic(&r->s, FAKERNIC_SQ_ATOMIC_FETCH_ADD, 40968,
                               40960, 2);
    struct fakernic_cqe cqe;

    qtest_writeq(r->m.qts, r->s.data + 40960, 40);
    POST(r, wqe);
    while (!cq_poll(&r->n, &r->s.cq, &cqe)) {
        qtest_clock_step(r->m.qts, MS);
    }
    g_assert_cmpuint(cqe.opcode, ==, FAKERNIC_CQE_FETCH_ADD);
    return cqe.status;
}

/* Expects the value that memory has after the atomic, and the one that its
 * response reports as the old value. */
static void atomic_with(Rig *r, const char *rule, uint64_t there,
                        uint64_t before)
{
    fault(&r->m, rule);
    g_assert_cmpuint(pair_atomic(r), ==, FAKERNIC_WC_SUCCESS);
    g_assert_cmpuint(qtest_readq(r->m.qts, r->s.data + 40960), ==, there);
    g_assert_cmpuint(qtest_readq(r->m.qts, r->s.data + 40968), ==, before);
    g_assert_cmpuint(pair_atomic(r), ==, FAKERNIC_WC_SUCCESS);
    g_assert_cmpuint(qtest_readq(r->m.qts, r->s.data + 40960), ==, 42);
    g_assert_cmpuint(qtest_readq(r->m.qts, r->s.data + 40968), ==, 40);
    hit_once(r);
}

static void test_dma_atomic_drop(Rig *r)
{
    atomic_with(r, "at=dma-atomic do=drop", 40, 40);
}

static void test_dma_atomic_corrupt(Rig *r)
{
    atomic_with(r, "at=dma-atomic offset=1 do=corrupt", 42, 40 | 1 << 8);
}

static void test_dma_atomic_fail(Rig *r)
{
    fault(&r->m, "at=dma-atomic do=fail");
    g_assert_cmpuint(pair_atomic(r), ==, FAKERNIC_WC_REM_ACCESS_ERR);
    g_assert_cmpuint(qtest_readq(r->m.qts, r->s.data + 40960), ==, 40);
    g_assert_cmpuint(nic_stat(&r->n, FAKERNIC_STAT_DMA_ERRORS), ==, 1);
    hit_once(r);
}

static uint8_t pair_flush(Rig *r, uint32_t flush)
{
    Wqe wqe = wqe_rdma(&r->s, FAKERNIC_SQ_FLUSH, 0, 4096, 512);
    struct fakernic_cqe cqe;

    wqe.rdma.rdma.flush = LE32(flush);
    POST(r, wqe);
    while (!cq_poll(&r->n, &r->s.cq, &cqe)) {
        qtest_clock_step(r->m.qts, MS);
    }
    g_assert_cmpuint(cqe.opcode, ==, FAKERNIC_CQE_FLUSH);
    return cqe.status;
}

static void test_dma_flush_fail(Rig *r)
{
    fault(&r->m, "at=dma-flush do=fail");
    g_assert_cmpuint(pair_flush(r, FAKERNIC_FLUSH_GLOBAL), ==,
                     FAKERNIC_WC_REM_ACCESS_ERR);
    g_assert_cmpuint(nic_stat(&r->n, FAKERNIC_STAT_DMA_ERRORS), ==, 1);
    hit_once(r);
}

/* This memory has no medium. The dropped FLUSH succeeds, the next one fails. */
static void test_dma_flush_drop(Rig *r)
{
    fault(&r->m, "at=dma-flush len=512 do=drop");
    g_assert_cmpuint(pair_flush(r, FAKERNIC_FLUSH_PERSISTENT), ==,
                     FAKERNIC_WC_SUCCESS);
    g_assert_cmpuint(pair_flush(r, FAKERNIC_FLUSH_PERSISTENT), ==,
                     FAKERNIC_WC_REM_ACCESS_ERR);
    hit_once(r);
}

/* ---- all points ---------------------------------------------------------- */

static bool is_stopped(Machine *m)
{
    QDict *reply = qtest_qmp(m->qts, "{ 'execute': 'query-status' }");
    const bool runs = qdict_get_bool(qdict_get_qdict(reply, "return"),
                                     "running");

    qobject_unref(reply);
    return !runs;
}

/*
 * Resumes the machine once, after a rule has stopped it. QEMU stops it in the
 * next round of its main loop; a monitor's answer needs such a round, too.
 */
static void pair_resume(Rig *r, bool *paused)
{
    if (!*paused && fault_hits(&r->m)) {
        for (unsigned tries = 0; !is_stopped(&r->m); tries++) {
            g_assert_cmpuint(tries, <, 1000);
        }
        qtest_qmp_assert_success(r->m.qts, "{ 'execute': 'cont' }");
        *paused = true;
    }
}

/* A command for which the device reads a page list of one table. */
static void pair_command(Rig *r, bool *paused)
{
    struct fakernic_create_mr_req req = {
        .length = LE64(8192),
        .type = FAKERNIC_MR_MEMORY,
        .pdn = LE32(r->s.pd),
        .pages = contiguous(build_tables(&r->m, 1, r->s.data,
                                         FAKERNIC_PAGE_SIZE, 2), 8192),
    };
    struct fakernic_cmd request = { .opcode = LE16(FAKERNIC_CMD_CREATE_MR) };
    struct fakernic_cmd_completion completion;
    const uint32_t index = r->n.cmd_pi;

    req.pages.levels = 1;
    memcpy(request.payload, &req, sizeof(req));
    cmd_submit(&r->n, &request);
    cmd_ring(&r->n);
    pair_resume(r, paused);
    cmd_wait(&r->n, index, &completion);
    g_assert_cmpuint(completion.status, ==, FAKERNIC_CMD_OK);
}

/* Passes every point. Only a rule that stops the machine has an effect. */
static void pair_all(Rig *r, bool *paused)
{
    pair_resume(r, paused);
    pair_command(r, paused);
    cq_arm(&r->n, &r->s.cq, 0, false);
    pair_resume(r, paused);
    pair_message(r);
    pair_resume(r, paused);
    pair_has_message(r);
    eq_expect(&r->n, &r->s.eq, FAKERNIC_EVENT_COMPLETION);
    g_assert_true(msix_fired(&r->n, 1));
    g_assert_cmpuint(pair_flush(r, FAKERNIC_FLUSH_GLOBAL), ==,
                     FAKERNIC_WC_SUCCESS);
    pair_resume(r, paused);
    g_assert_cmpuint(pair_atomic(r), ==, FAKERNIC_WC_SUCCESS);
    pair_resume(r, paused);
    g_assert_cmpuint(qtest_readq(r->m.qts, r->s.data + 40960), ==, 42);
}

static void point_counts(Rig *r, const char *point)
{
    g_autofree char *rule = g_strdup_printf("at=%s do=count", point);
    bool paused = true;

    fault(&r->m, rule);
    pair_all(r, &paused);
    hit_once(r);
}

static void point_pauses(Rig *r, const char *point)
{
    g_autofree char *rule = g_strdup_printf("at=%s do=pause", point);
    bool paused = false;

    fault(&r->m, rule);
    pair_all(r, &paused);
    g_assert_true(paused);
    hit_once(r);
}

#define POINT(name, text)                                                    \
    static void test_ ## name ## _count(Rig *r) { point_counts(r, text); }    \
    static void test_ ## name ## _pause(Rig *r) { point_pauses(r, text); }

POINT(tx, "tx")
POINT(rx, "rx")
POINT(doorbell, "doorbell")
POINT(cmd_doorbell, "cmd-doorbell")
POINT(command, "command")
POINT(send_wqe, "send-wqe")
POINT(recv_wqe, "recv-wqe")
POINT(cqe, "cqe")
POINT(eqe, "eqe")
POINT(interrupt, "interrupt")
POINT(page_list, "page-list")
POINT(dma_read, "dma-read")
POINT(dma_write, "dma-write")
POINT(dma_atomic, "dma-atomic")
POINT(dma_flush, "dma-flush")
POINT(device, "device")

/* Each access has exactly one reason, which rules can select (why=). */
static void test_why(Rig *r)
{
    static const char *const reasons[] = { "wqe", "record", "page-list",
                                           "payload", "cqe", "eqe", "cmd" };
    const struct {
        const char *point;
        unsigned seen;          /* a bit for each reason */
    } points[] = {
        { "dma-read", 0x4f },
        /* The event index is in the record. */
        { "dma-write",
          r->n.features & FAKERNIC_FEATURE_SHADOW_DOORBELL ? 0x7a : 0x78 },
    };
    bool paused = true;

    for (unsigned i = 0; i < ARRAY_SIZE(points); i++) {
        g_autofree char *all = g_strdup_printf("id=all%u at=%s times=0 "
                                               "do=count", i, points[i].point);

        fault(&r->m, all);
        for (unsigned k = 0; k < ARRAY_SIZE(reasons); k++) {
            g_autofree char *rule = g_strdup_printf(
                "id=%u-%s at=%s why=%s times=0 do=count", i, reasons[k],
                points[i].point, reasons[k]);

            fault(&r->m, rule);
        }
    }
    pair_all(r, &paused);
    for (unsigned i = 0; i < ARRAY_SIZE(points); i++) {
        g_autofree char *all = g_strdup_printf("all%u", i);
        unsigned sum = 0;

        for (unsigned k = 0; k < ARRAY_SIZE(reasons); k++) {
            g_autofree char *id = g_strdup_printf("%u-%s", i, reasons[k]);
            const unsigned hits = fault_hits_of(&r->m, id);

            g_assert_cmpint(hits > 0, ==, points[i].seen >> k & 1);
            sum += hits;
        }
        g_assert_cmpuint(fault_hits_of(&r->m, all), ==, sum);
    }
}

/* PSNs begin with 0xfffffe from a to b, and with 100 from b to a. */
static void test_rpsn(Rig *r)
{
    static const char *const rules[] = {
        "id=a at=tx opcode=rc-read-request psn=0xfffffe rpsn=0 do=count",
        "id=b at=rx opcode=rc-read-request psn=0xfffffe rpsn=0 do=count",
        "id=c at=tx opcode=rc-read-response-middle psn=0 rpsn=2 do=count",
        "id=d at=rx opcode=rc-read-response-middle psn=0 rpsn=2 do=count",
        "id=e at=tx opcode=rc-read-request psn=3 rpsn=5 do=count",
        "id=f at=tx opcode=rc-read-request psn=100 rpsn=0 do=count",
        "id=g at=rx opcode=rc-read-response-last psn=104 rpsn=4 do=count",
    };
    Wqe wqe;

    assert_status(qp_to(&r->n, r->a.qpn, FAKERNIC_QPS_RESET), OK);
    assert_status(qp_to(&r->n, r->b.qpn, FAKERNIC_QPS_RESET), OK);
    connect_qp_at(&r->n, FAKERNIC_QP_RC, r->a.qpn, r->b.qpn, own_gid, nic_mac,
                  0xfffffe, 100);
    connect_qp_at(&r->n, FAKERNIC_QP_RC, r->b.qpn, r->a.qpn, own_gid, nic_mac,
                  100, 0xfffffe);
    for (unsigned i = 0; i < ARRAY_SIZE(rules); i++) {
        fault(&r->m, rules[i]);
    }
    pair_read(r);
    pair_has_read(r, 0);
    g_assert_cmpuint(fault_hits_of_all(&r->m), ==, 4);
    pair_read(r);
    pair_has_read(r, 0);
    g_assert_cmpuint(fault_hits_of_all(&r->m), ==, 5);
    wqe = wqe_rdma(&r->s, FAKERNIC_SQ_RDMA_READ, 16384, 0, 5000);
    sq_put(&r->n, &r->b, &wqe, sizeof(wqe));
    sq_ring(&r->n, &r->b);
    pair_has_read(r, 0);
    g_assert_cmpuint(fault_hits_of_all(&r->m), ==, 7);
}

/* Syndrome 44 is an RNR NAK with the timer of the QP, 12. */
static void test_syndrome(Rig *r)
{
    fault(&r->m, "at=recv-wqe do=drop");
    fault(&r->m, "id=late at=tx syndrome=44 times=0 do=count");
    fault(&r->m, "id=ack at=rx syndrome=0-31 times=0 do=count");
    pair_message(r);
    g_assert_cmpuint(fault_hits_of(&r->m, "late"), ==, 1);
    g_assert_cmpuint(fault_hits_of(&r->m, "ack"), ==, 0);
    for (unsigned ms = 0; ms < 20; ms++) {
        qtest_clock_step(r->m.qts, MS);
    }
    pair_has_message(r);
    g_assert_cmpuint(fault_hits_of(&r->m, "late"), ==, 1);
    g_assert_cmpuint(fault_hits_of(&r->m, "ack"), ==, 1);
}

/* A rule hits an access if its range contains one byte of the access. */
static void test_address(Rig *r)
{
    for (unsigned i = 0; i < 4; i++) {
        static const int first[] = { -9, 99, 30, 100 };
        const uint64_t from = r->s.data + first[i];
        g_autofree char *rule = g_strdup_printf(
            "id=a%u at=dma-read why=payload address=0x%" PRIx64 "-0x%" PRIx64
            " do=count", i, from, from + 9);

        fault(&r->m, rule);
    }
    pair_small_read(r);
    pair_expect(r, 0);
    g_assert_cmpuint(fault_hits_of(&r->m, "a0"), ==, 1);
    g_assert_cmpuint(fault_hits_of(&r->m, "a1"), ==, 1);
    g_assert_cmpuint(fault_hits_of(&r->m, "a2"), ==, 1);
    g_assert_cmpuint(fault_hits_of(&r->m, "a3"), ==, 0);
}

/* ---- frames, slow or forged -------------------------------------------- */

/* One byte of the payload is corrupted under a valid ICRC: not detected. */
static void forged_with(Rig *r, const char *rule)
{
    struct fakernic_cqe cqe;
    uint8_t there, here;

    fault(&r->m, rule);
    pair_read(r);
    wait_hit(&r->m);
    cq_await(&r->n, &r->s.cq, &cqe, FAKERNIC_CQE_RDMA_READ,
             FAKERNIC_WC_SUCCESS);
    qtest_memread(r->m.qts, r->s.data + 12, &there, 1);
    qtest_memread(r->m.qts, r->s.data + 16384 + 12, &here, 1);
    g_assert_cmphex(here, ==, there ^ 0x11);
    qtest_memwrite(r->m.qts, r->s.data + 16384 + 12, &there, 1);
    assert_same(&r->n, &r->s, 0, 16384, 5000);
    g_assert_cmpuint(nic_stat(&r->n, FAKERNIC_STAT_DROP_ICRC), ==, 0);
    g_assert_cmpuint(fault_hits(&r->m), ==, 1);
}

/* The payload begins behind Ethernet, IPv4, UDP, BTH and AETH, at byte 58. */
#define FORGE " opcode=rc-read-response-first offset=70 mask=0x11 " \
              "fix-icrc=on do=corrupt"

static void test_tx_corrupt_fix_icrc(Rig *r)
{
    forged_with(r, "at=tx" FORGE);
}

static void test_rx_corrupt_fix_icrc(Rig *r)
{
    forged_with(r, "at=rx" FORGE);
}

/*
 * Responses of 1086, 3 x 1082, and 966 bytes, at one bit per microsecond. The
 * last one leaves after the others have been sent, which takes 34.656 ms.
 */
static void test_tx_throttle(Rig *r)
{
    fault(&r->m, "at=tx opcode=rc-read-response* mbps=1 do=throttle");
    pair_read(r);
    AWAIT(fault_hits(&r->m) >= 5);
    qtest_clock_step(r->m.qts, 34655999);
    pair_expect_none(r);
    qtest_clock_step(r->m.qts, 1);
    pair_has_read(r, 0);
}

/* ---- words --------------------------------------------------------------- */

static void test_command_line(void)
{
    Rig r;

    pair_start(&r, ",x-fault='id=one at=rx opcode=rc-read-response-first"
                   " do=drop; id=two at=tx do=count'");
    pair_read(&r);
    pair_has_read(&r, 0);
    g_assert_cmpuint(fault_hits(&r.m), ==, 1);
    machine_stop(&r.m);
}

/* The end of a socket that receives an event for each hit. */
typedef struct Listener {
    int fd;
    FILE *file;
} Listener;

/* A pair that reports hits. 'room' is the size of the socket's buffer; 0 is
 * the default. */
static void listening_start(Rig *r, Listener *l, int room)
{
    const struct timeval patience = { .tv_sec = 60 };
    g_autofree char *more = NULL;
    int ends[2];

    g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), ==, 0);
    setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    if (room) {
        setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
    }
    l->fd = ends[0];
    l->file = fdopen(ends[0], "r");
    /* No turn may end early: see test_same_seed_same_hits(). */
    more = g_strdup_printf(",turn-us=1000000,x-fault-events=events "
                           "-chardev socket,id=events,fd=%d", ends[1]);
    pair_start(r, more);
    close(ends[1]);
}

/* The data of the next event. */
static QDict *next_event(Listener *l)
{
    QDict *event, *data;
    char line[512];

    do {
        g_assert_nonnull(fgets(line, sizeof(line), l->file));
    } while (line[0] == '\n');
    event = qobject_to(QDict, qobject_from_json(line, &error_abort));
    g_assert_cmpstr(qdict_get_str(event, "event"), ==, "FAKERNIC_FAULT");
    data = qobject_ref(qdict_get_qdict(event, "data"));
    qobject_unref(event);
    return data;
}

static void test_events(void)
{
    Listener l;
    Rig r;

    listening_start(&r, &l, 0);
    fault(&r.m, "id=one at=rx opcode=rc-read-response-middle times=2 do=mark");
    pair_read(&r);
    pair_has_read(&r, 0);
    for (unsigned i = 1; i <= 2; i++) {
        QDict *data = next_event(&l);

        g_assert_cmpstr(qdict_get_str(data, "id"), ==, "one");
        g_assert_cmpstr(qdict_get_str(data, "at"), ==, "rx");
        g_assert_cmpstr(qdict_get_str(data, "do"), ==, "mark");
        g_assert_cmpint(qdict_get_int(data, "hits"), ==, i);
        g_assert_cmpint(qdict_get_int(data, "qpn"), ==, r.a.qpn);
        g_assert_cmpint(qdict_get_int(data, "untold"), ==, 0);
        qobject_unref(data);
    }
    machine_stop(&r.m);
    fclose(l.file);
}

/* A client that does not read delays nothing. A later event has the number of
 * lost events. */
static void test_events_unread(void)
{
    char waste[4096];
    Listener l;
    QDict *data;
    Rig r;

    listening_start(&r, &l, 4096);
    fault(&r.m, "at=tx times=0 do=mark");
    for (unsigned i = 0; i < 12; i++) {
        pair_read(&r);
        pair_has_read(&r, 0);
    }
    g_assert_cmpuint(fault_hits(&r.m), >=, 60);
    while (recv(l.fd, waste, sizeof(waste), MSG_DONTWAIT) > 0) {
    }
    pair_read(&r);
    data = next_event(&l);
    g_assert_cmpint(qdict_get_int(data, "untold"), >, 0);
    qobject_unref(data);
    data = next_event(&l);
    g_assert_cmpint(qdict_get_int(data, "untold"), ==, 0);
    qobject_unref(data);
    machine_stop(&r.m);
    fclose(l.file);
}

/*
 * Returns the number of lines of a file. 'news' counts those of the rule "new",
 * and 'untold' adds up the unreported hits that all lines name.
 */
static uint64_t file_lines(const char *path, uint64_t *news, uint64_t *untold)
{
    g_autofree char *text = NULL;
    uint64_t count = 0;

    *news = 0;
    *untold = 0;
    g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
    for (const char *at = text; (at = strstr(at, "\"untold\": ")); at++) {
        *untold += g_ascii_strtoull(at + strlen("\"untold\": "), NULL, 10);
        count++;
    }
    for (const char *at = text; (at = strstr(at, "\"id\": \"new\"")); at++) {
        ++*news;
    }
    return count;
}

#define FLOOD_BURSTS 2200
#define FLOOD_NOPS   32         /* a full send queue, which is never changed */
#define FLOOD_RULES  540

/*
 * A file never blocks, so the device writes a smaller and smaller part of the
 * hits to it. It always writes the first hits of each rule.
 */
static void test_events_flood(void)
{
    const Wqe nop = { .send.hdr = { .opcode = FAKERNIC_SQ_NOP,
                                    .flags = FAKERNIC_SQ_SIGNALED,
                                    .bb_count = 1 } };
    g_autofree char *path = g_strdup("/tmp/fakernic-events-XXXXXX");
    const int fd = g_mkstemp(path);
    g_autofree char *more = g_strdup_printf(
        ",turn-us=1000000,turn-work=100000,x-fault-events=events "
        "-chardev file,id=events,path=%s", path);
    const uint64_t hits = FLOOD_BURSTS * FLOOD_NOPS;
    uint64_t lines, news, untold;
    Rig r;

    g_assert_cmpint(fd, >=, 0);
    pair_start(&r, more);
    fault(&r.m, "at=cqe times=0 do=drop");
    for (unsigned i = 0; i < FLOOD_NOPS; i++) {
        sq_put(&r.n, &r.a, &nop, sizeof(nop));
    }
    for (unsigned i = 0; i < FLOOD_BURSTS; i++) {
        sq_ring(&r.n, &r.a);
        r.a.sq.index += FLOOD_NOPS;
    }
    g_assert_cmpuint(fault_hits(&r.m), ==, hits);
    fault(&r.m, "remove=all; id=new at=cqe times=20 do=drop");
    sq_ring(&r.n, &r.a);
    g_assert_cmpuint(fault_hits(&r.m), ==, 20);
    /* Adding and removing rules does not fill a disk, either. */
    for (unsigned i = 0; i < FLOOD_RULES; i++) {
        r.a.sq.index += FLOOD_NOPS;
        fault(&r.m, "remove=all; at=cqe times=0 do=drop");
        sq_ring(&r.n, &r.a);
    }
    g_assert_cmpuint(fault_hits(&r.m), ==, FLOOD_NOPS);
    machine_stop(&r.m);
    lines = file_lines(path, &news, &untold);
    g_assert_cmpuint(news, ==, 16);
    g_assert_cmpuint(lines, >, 65536 + 60 + 8192);
    g_assert_cmpuint(lines, <, 65536 + 120 + 8192);
    g_assert_cmpuint(lines + untold, <=, hits + 20 + FLOOD_RULES * FLOOD_NOPS);
    g_assert_cmpuint(lines + untold, >, hits - hits / 1024);
    unlink(path);
    close(fd);
}

static void test_refused(Rig *r)
{
    fault_refused(&r->m, "at=moon do=drop", "moon");
    fault_refused(&r->m, "at=rx do=freeze", "freeze");
    fault_refused(&r->m, "remove=nobody", "nobody");
    g_assert_cmphex(reg_read(&r->n, FAKERNIC_REG_STATUS) &
                    FAKERNIC_STATUS_FAULTS, ==, 0);
    fault(&r->m, "id=one at=rx opcode=cnp do=drop; "
                 "id=two at=rx opcode=cnp do=drop");
    fault_refused(&r->m, "remove=one id=r1 at=rx do=drop", "put ';'");
    fault_refused(&r->m, "remove=one remove=two", "put ';'");
    g_assert_cmpuint(fault_hits_of(&r->m, "one"), ==, 0);
}

/* Rules hold at most 1,024 frames, and drop the oldest ones beyond that. */
static void test_held_bounded(void)
{
    Machine m;
    Nic n;
    uint8_t frame[60];
    int fd;
    int fds[2];

    g_assert_cmpint(socketpair(AF_UNIX, SOCK_DGRAM, 0, fds), ==, 0);
    machine_start(&m, "-netdev dgram,id=n0,local.type=fd,local.str=%d "
                  "%s,netdev=n0,id=nic0", fds[1], DEVICE);
    close(fds[1]);
    fd = fds[0];
    nic_find(&n, &m, SLOT);
    nic_bringup(&n);
    fault(&m, "at=rx times=0 delay-ns=1000000 do=delay");
    frame_make(frame, nic_mac, sizeof(frame));
    for (unsigned i = 0; i < 1500; i++) {
        wire_send(fd, frame, sizeof(frame));
    }
    AWAIT(fault_hits(&m) >= 1500);
    qtest_clock_step(m.qts, 2 * MS);
    g_assert_cmpuint(nic_stat(&n, FAKERNIC_STAT_RX_NO_BUFFER) +
                     nic_stat(&n, FAKERNIC_STAT_RX_FILTERED), <=, 1024);
    close(fd);
    machine_stop(&m);
}

/* The number of frames, doorbells and completions that rules hold. */
static unsigned held(Machine *m)
{
    QDict *reply = qtest_qmp(m->qts, "{ 'execute': 'qom-get', 'arguments': {"
                             " 'path': %s, 'property': 'x-state' } }", NIC0);
    QDict *state = qobject_to(
        QDict, qobject_from_json(qdict_get_str(reply, "return"), &error_abort));
    const unsigned count = qdict_get_int(state, "faults-held");

    qobject_unref(state);
    qobject_unref(reply);
    return count;
}

/* A rule delays events of more EQs than it can hold. The destruction of an EQ
 * frees its place. */
static void test_stalled_eqs(Rig *r)
{
    fault(&r->m, "id=stall at=eqe times=0 delay-ns=3600000000000 do=delay");
    for (unsigned i = 0; i < 1100; i++) {
        Queue eq, cq;

        eq_create(&r->n, &eq, 4, 1, false);
        cq_create(&r->n, &cq, 4, &eq, 0, 0);
        /* As if an entry were there already. */
        ring(&r->n, 0, FAKERNIC_DOORBELL_CQ_ARM, doorbell(cq.id, UINT32_MAX));
        assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_CQ, cq.id), OK);
        assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_EQ, eq.id), OK);
        guest_free(&r->m.alloc, eq.address);
        guest_free(&r->m.alloc, cq.address);
    }
    g_assert_cmpuint(fault_hits(&r->m), ==, 1100);
    g_assert_cmpuint(held(&r->m), ==, 0);
    complete_nops(&r->n, &r->a, 1);
    rig_cqe(r, FAKERNIC_CQE_NOP, FAKERNIC_WC_SUCCESS);
}

/* The number of completions that are in the CQ now. */
static unsigned completed(Rig *r, Queue *cq)
{
    struct fakernic_cqe cqe;
    unsigned count = 0;

    while (cq_poll(&r->n, cq, &cqe)) {
        count++;
    }
    return count;
}

/* A rule hits more send queues than it can delay; all of them continue. */
static void test_stalled_sqs(void)
{
    const unsigned all = 1100, may = 1024;
    unsigned done = 0;
    Queue cq;
    Qp *qps = g_new0(Qp, all);
    Rig r;

    pair_start(&r, "");
    cq_create(&r.n, &cq, 11, &r.s.eq, 0, 0);
    fault(&r.m, "id=w at=send-wqe times=0 delay-ns=20000000 do=delay");
    for (unsigned i = 0; i < all; i++) {
        qp_create(&r.n, &qps[i], FAKERNIC_QP_RC, r.s.pd, &cq, 0);
        rc_connect(&r.n, qps[i].qpn, qps[i].qpn, own_gid, nic_mac);
        complete_nops(&r.n, &qps[i], 1);
    }
    AWAIT(fault_hits(&r.m) == all);
    g_assert_cmpuint(held(&r.m), ==, may);
    /* Another queue does not wait. Its frame does, in a place of its own. */
    fault(&r.m, "at=tx opcode=rc-read-request delay-ns=20000000 do=delay");
    pair_small_read(&r);
    AWAIT(held(&r.m) == may + 1);
    qtest_clock_step(r.m.qts, 19 * MS);
    AWAIT((done += completed(&r, &cq)) >= all - may);
    pair_expect_none(&r);
    g_assert_cmpuint(done + completed(&r, &cq), ==, all - may);
    qtest_clock_step(r.m.qts, MS);
    AWAIT((done += completed(&r, &cq)) >= all);
    pair_expect(&r, 0);
    g_assert_cmpuint(held(&r.m), ==, 0);
    /* The reset of a queue frees its place. */
    fault(&r.m, "remove=w; at=send-wqe times=0 delay-ns=3600000000000 "
                "do=delay");
    complete_nops(&r.n, &qps[0], 1);
    AWAIT(held(&r.m) == 1);
    assert_status(qp_to(&r.n, qps[0].qpn, FAKERNIC_QPS_RESET), OK);
    g_assert_cmpuint(held(&r.m), ==, 0);
    machine_stop(&r.m);
    g_free(qps);
}

/* ---- repeatable hits ----------------------------------------------------- */

#define AGAIN 100
#define AGAIN_READS 3
#define AGAIN_STEP  (10 * MS)

/* Waits until all work that does not need the clock is done. */
static void again_settle(Rig *r)
{
    for (unsigned i = 0; i < 2; i++) {
        reg_read(&r->n, FAKERNIC_REG_STATUS);
    }
}

/* READs over a wire that loses and delays frames by chance. Returns a line for
 * each hit. */
static char *again_run(Rig *r, Listener *l)
{
    static const char rules[] =
        "id=lost at=tx class=roce percent=12 seed=4711 times=0 do=drop; "
        "id=late at=rx class=roce percent=20 seed=11 times=0 "
        "delay-ns=3000000 do=delay";
    const int64_t begin = qtest_clock_step(r->m.qts, MS);
    GString *hits = g_string_new(NULL);
    struct fakernic_cqe cqe;

    fault(&r->m, rules);
    for (unsigned i = 0; i < AGAIN_READS; i++) {
        pair_read(r);
        again_settle(r);
        for (unsigned step = 0; !cq_poll(&r->n, &r->s.cq, &cqe); step++) {
            g_assert_cmpuint(step, <, 2000);
            qtest_clock_step(r->m.qts, AGAIN_STEP);
            again_settle(r);
        }
        g_assert_cmpuint(cqe.status, ==, FAKERNIC_WC_SUCCESS);
        queue_record(&r->n, &r->s.cq, r->s.cq.index);
    }
    for (unsigned left = fault_hits_of_all(&r->m); left; left--) {
        QDict *data = next_event(l);

        g_assert_cmpint(qdict_get_int(data, "untold"), ==, 0);
        g_string_append_printf(
            hits, "%s %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 "\n",
            qdict_get_str(data, "id"), qdict_get_int(data, "hits"),
            qdict_get_int(data, "time-ns") - begin,
            qdict_get_int(data, "psn"), qdict_get_int(data, "index"));
        qobject_unref(data);
    }
    fault(&r->m, "remove=all");
    return g_string_free(hits, false);
}

/* Same rules, same seeds, same input: the same hits at the same times. */
static void test_same_seed_same_hits(void)
{
    g_autofree char *first = NULL;
    Listener l;
    Rig r;

    listening_start(&r, &l, 0);
    for (unsigned i = 0; i < AGAIN; i++) {
        g_autofree char *hits = again_run(&r, &l);

        g_assert_nonnull(strstr(hits, "lost 2 "));
        g_assert_nonnull(strstr(hits, "late 2 "));
        first = first ?: g_strdup(hits);
        g_assert_cmpstr(hits, ==, first);
        nic_bringup(&r.n);
        setup(&r.n, &r.s);
        rc_pair(&r.n, &r.s, &r.a, &r.b);
        fill(&r.n, &r.s, 0, 5000);
    }
    machine_stop(&r.m);
    fclose(l.file);
}

/* Checks whether the port's receive queue gets frame i. */
static bool chance_arrives(Nic *n, Setup *s, Queue *rq, unsigned i, bool comes)
{
    struct fakernic_cqe cqe;
    uint8_t number;

    if (!comes) {
        assert_status(cmd(n, FAKERNIC_CMD_NOP, NULL, 0, NULL, 0), OK);
        return cq_poll(n, &s->cq, &cqe);
    }
    cq_await(n, &s->cq, &cqe, FAKERNIC_CQE_RECV, FAKERNIC_WC_SUCCESS);
    g_assert_cmpuint(le32_to_cpu(cqe.byte_count), ==, CHANCE_LENGTH);
    qtest_memread(n->m->qts, s->data + CHANCE_LENGTH - 1, &number, 1);
    g_assert_cmpuint(number, ==, i);
    queue_record(n, &s->cq, s->cq.index);
    rq_post(n, rq, i, s->data, 2048, s->key);
    return true;
}

/* The device hits the same frames of the list as unit/test_fault.c. */
static void test_chance(void)
{
    uint8_t frame[CHANCE_LENGTH];
    uint64_t lost = 0;
    Machine m;
    Nic n;
    Setup s;
    Qp raw;
    int fds[2];

    g_assert_cmpint(socketpair(AF_UNIX, SOCK_DGRAM, 0, fds), ==, 0);
    machine_start(&m, "-netdev dgram,id=n0,local.type=fd,local.str=%d "
                      "%s,id=nic0,netdev=n0", fds[1], DEVICE);
    close(fds[1]);
    nic_find(&n, &m, SLOT);
    nic_bringup(&n);
    setup(&n, &s);
    port_up(&n, &s, &raw, FAKERNIC_FILTER_PROMISCUOUS);
    rq_post(&n, &raw.rq, 0, s.data, 2048, s.key);
    fault(&m, CHANCE_RULE);
    for (unsigned i = 0; i < CHANCE_FRAMES; i++) {
        const unsigned before = fault_hits(&m);
        bool comes;

        chance_frame(i, nic_mac, frame);
        wire_send(fds[0], frame, sizeof(frame));
        AWAIT(nic_stat(&n, FAKERNIC_STAT_RX_FRAMES) > i);
        comes = fault_hits(&m) == before;
        if (!chance_arrives(&n, &s, &raw.rq, i, comes)) {
            lost |= 1ull << i;
        }
    }
    g_assert_cmphex(lost, ==, CHANCE_HITS);
    machine_stop(&m);
    close(fds[0]);
}

const FakernicTest fakernic_fault_tests[] = {
    { "fault/tx-drop", test_tx_drop },
    { "fault/tx-drop-attempt", ON(fault_pair, test_tx_drop_attempt) },
    { "fault/rx-drop", test_rx_drop },
    { "fault/tx-corrupt", test_tx_corrupt },
    { "fault/rx-corrupt", test_rx_corrupt },
    { "fault/tx-corrupt-fix-icrc", ON(fault_pair, test_tx_corrupt_fix_icrc) },
    { "fault/rx-corrupt-fix-icrc", ON(fault_pair, test_rx_corrupt_fix_icrc) },
    { "fault/tx-truncate", test_tx_truncate },
    { "fault/rx-truncate", test_rx_truncate },
    { "fault/rx-truncate-stump", test_rx_truncate_stump },
    { "fault/tx-duplicate", test_tx_duplicate },
    { "fault/rx-duplicate", test_rx_duplicate },
    { "fault/tx-mark", test_tx_mark },
    { "fault/rx-mark", test_rx_mark },
    { "fault/tx-delay", test_tx_delay },
    { "fault/rx-delay", test_rx_delay },
    { "fault/tx-delay-reset", ON(fault_pair, test_tx_delay_reset) },
    { "fault/tx-reorder", test_tx_reorder },
    { "fault/tx-reorder-last", test_tx_reorder_last },
    { "fault/rx-reorder", test_rx_reorder },
    { "fault/tx-throttle", ON(fault_pair, test_tx_throttle) },
    { "fault/device-fatal", ON(fault_pair, test_device_fatal) },
    { "fault/device-fatal-code", ON(fault_pair, test_device_fatal_code) },
    { "fault/device-freeze", ON(fault_pair, test_device_freeze) },
    { "fault/device-freeze-for", ON(fault_pair, test_device_freeze_for) },
    { "fault/device-freeze-command",
      ON(fault_pair, test_device_freeze_command) },
    { "fault/device-freeze-overrun",
      ON(fault_pair, test_device_freeze_overrun) },
    { "fault/device-freeze-reset", ON(fault_pair, test_device_freeze_reset) },
    { "fault/device-freeze-replaced",
      ON(fault_pair, test_device_freeze_replaced) },
    { "fault/device-dead", ON(fault_pair, test_device_dead) },
    { "fault/device-aer", test_device_aer },
    { "fault/device-link-down", ON(fault_pair, test_device_link_down) },
    { "fault/device-link-down-replaced",
      ON(fault_pair, test_device_link_down_replaced) },
    { "fault/doorbell-drop", ON(fault_pair, test_doorbell_drop) },
    { "fault/doorbell-delay", ON(fault_pair, test_doorbell_delay) },
    { "fault/doorbell-duplicate", ON(fault_pair, test_doorbell_duplicate) },
    { "fault/doorbell-reorder", ON(fault_pair, test_doorbell_reorder) },
    { "fault/doorbell-reorder-overtaken",
      ON(fault_pair, test_doorbell_reorder_overtaken) },
    { "fault/doorbell-corrupt", ON(fault_pair, test_doorbell_corrupt) },
    { "fault/cmd-doorbell-drop", ON(fault_pair, test_cmd_doorbell_drop) },
    { "fault/cmd-doorbell-delay", ON(fault_pair, test_cmd_doorbell_delay) },
    { "fault/cmd-doorbell-delay-overtaken",
      ON(fault_pair, test_cmd_doorbell_delay_overtaken) },
    { "fault/command-fail", ON(fault_pair, test_command_fail) },
    { "fault/command-drop", ON(fault_pair, test_command_drop) },
    { "fault/command-delay", ON(fault_pair, test_command_delay) },
    { "fault/command-delay-reset", ON(fault_pair, test_command_delay_reset) },
    { "fault/command-delay-taken-back",
      ON(fault_pair, test_command_delay_taken_back) },
    { "fault/cqe-drop", ON(fault_pair, test_cqe_drop) },
    { "fault/cqe-duplicate", ON(fault_pair, test_cqe_duplicate) },
    { "fault/cqe-delay", ON(fault_pair, test_cqe_delay) },
    { "fault/cqe-delay-destroy", ON(fault_pair, test_cqe_delay_destroy) },
    { "fault/cqe-delay-destroy-qp", ON(fault_pair, test_cqe_delay_destroy_qp) },
    { "fault/cqe-delay-reset-qp", ON(fault_pair, test_cqe_delay_reset_qp) },
    { "fault/cqe-reorder", ON(fault_pair, test_cqe_reorder) },
    { "fault/cqe-reorder-delayed", ON(fault_pair, test_cqe_reorder_delayed) },
    { "fault/cqe-reorder-last", ON(fault_pair, test_cqe_reorder_last) },
    { "fault/cqe-overrun", ON(fault_pair, test_cqe_overrun) },
    { "fault/cqe-fail", ON(fault_pair, test_cqe_fail) },
    { "fault/cqe-corrupt", ON(fault_pair, test_cqe_corrupt) },
    { "fault/eqe-drop", ON(fault_pair, test_eqe_drop) },
    { "fault/eqe-duplicate", ON(fault_pair, test_eqe_duplicate) },
    { "fault/eqe-delay", ON(fault_pair, test_eqe_delay) },
    { "fault/eqe-corrupt", ON(fault_pair, test_eqe_corrupt) },
    { "fault/interrupt-drop", ON(fault_pair, test_interrupt_drop) },
    { "fault/interrupt-delay", ON(fault_pair, test_interrupt_delay) },
    { "fault/interrupt-duplicate", ON(fault_pair, test_interrupt_duplicate) },
    { "fault/send-wqe-fail", ON(fault_pair, test_send_wqe_fail) },
    { "fault/send-wqe-drop", ON(fault_pair, test_send_wqe_drop) },
    { "fault/send-wqe-delay", ON(fault_pair, test_send_wqe_delay) },
    { "fault/send-wqe-delay-reset", ON(fault_pair, test_send_wqe_delay_reset) },
    { "fault/send-wqe-corrupt", ON(fault_pair, test_send_wqe_corrupt) },
    { "fault/send-wqe-corrupt-data",
      ON(fault_pair, test_send_wqe_corrupt_data) },
    { "fault/recv-wqe-drop", ON(fault_pair, test_recv_wqe_drop) },
    { "fault/recv-wqe-delay", ON(fault_pair, test_recv_wqe_delay) },
    { "fault/recv-wqe-fail", test_recv_wqe_fail },
    { "fault/recv-wqe-corrupt", ON(fault_pair, test_recv_wqe_corrupt) },
    { "fault/page-list-fail", ON(fault_pair, test_page_list_fail) },
    { "fault/dma-read-fail", ON(fault_pair, test_dma_read_fail) },
    { "fault/dma-read-corrupt", ON(fault_pair, test_dma_read_corrupt) },
    { "fault/dma-write-fail", ON(fault_pair, test_dma_write_fail) },
    { "fault/dma-write-fail-eqe", ON(fault_pair, test_dma_write_fail_eqe) },
    { "fault/dma-write-fail-bytes", ON(fault_pair, test_dma_write_fail_bytes) },
    { "fault/dma-write-drop", ON(fault_pair, test_dma_write_drop) },
    { "fault/dma-write-corrupt", ON(fault_pair, test_dma_write_corrupt) },
    { "fault/dma-atomic-fail", ON(fault_pair, test_dma_atomic_fail) },
    { "fault/dma-atomic-drop", ON(fault_pair, test_dma_atomic_drop) },
    { "fault/dma-atomic-corrupt", ON(fault_pair, test_dma_atomic_corrupt) },
    { "fault/dma-flush-fail", ON(fault_pair, test_dma_flush_fail) },
    { "fault/dma-flush-drop", ON(fault_pair, test_dma_flush_drop) },
    { "fault/tx-count", ON(fault_patient, test_tx_count) },
    { "fault/tx-pause", ON(fault_patient, test_tx_pause) },
    { "fault/rx-count", ON(fault_patient, test_rx_count) },
    { "fault/rx-pause", ON(fault_patient, test_rx_pause) },
    { "fault/doorbell-count", ON(fault_patient, test_doorbell_count) },
    { "fault/doorbell-pause", ON(fault_patient, test_doorbell_pause) },
    { "fault/cmd-doorbell-count", ON(fault_patient, test_cmd_doorbell_count) },
    { "fault/cmd-doorbell-pause", ON(fault_patient, test_cmd_doorbell_pause) },
    { "fault/command-count", ON(fault_patient, test_command_count) },
    { "fault/command-pause", ON(fault_patient, test_command_pause) },
    { "fault/send-wqe-count", ON(fault_patient, test_send_wqe_count) },
    { "fault/send-wqe-pause", ON(fault_patient, test_send_wqe_pause) },
    { "fault/recv-wqe-count", ON(fault_patient, test_recv_wqe_count) },
    { "fault/recv-wqe-pause", ON(fault_patient, test_recv_wqe_pause) },
    { "fault/cqe-count", ON(fault_patient, test_cqe_count) },
    { "fault/cqe-pause", ON(fault_patient, test_cqe_pause) },
    { "fault/eqe-count", ON(fault_patient, test_eqe_count) },
    { "fault/eqe-pause", ON(fault_patient, test_eqe_pause) },
    { "fault/interrupt-count", ON(fault_patient, test_interrupt_count) },
    { "fault/interrupt-pause", ON(fault_patient, test_interrupt_pause) },
    { "fault/page-list-count", ON(fault_patient, test_page_list_count) },
    { "fault/page-list-pause", ON(fault_patient, test_page_list_pause) },
    { "fault/dma-read-count", ON(fault_patient, test_dma_read_count) },
    { "fault/dma-read-pause", ON(fault_patient, test_dma_read_pause) },
    { "fault/dma-write-count", ON(fault_patient, test_dma_write_count) },
    { "fault/dma-write-pause", ON(fault_patient, test_dma_write_pause) },
    { "fault/dma-atomic-count", ON(fault_patient, test_dma_atomic_count) },
    { "fault/dma-atomic-pause", ON(fault_patient, test_dma_atomic_pause) },
    { "fault/dma-flush-count", ON(fault_patient, test_dma_flush_count) },
    { "fault/dma-flush-pause", ON(fault_patient, test_dma_flush_pause) },
    { "fault/device-count", ON(fault_patient, test_device_count) },
    { "fault/device-pause", ON(fault_patient, test_device_pause) },
    { "fault/why", ON(fault_patient, test_why) },
    { "fault/address", ON(fault_patient, test_address) },
    { "fault/rpsn", ON(fault_patient, test_rpsn) },
    { "fault/syndrome", ON(fault_patient, test_syndrome) },
    { "fault/command-line", test_command_line },
    { "fault/events", test_events },
    { "fault/events-unread", test_events_unread },
    { "fault/events-flood", test_events_flood },
    { "fault/refused", ON(fault_pair, test_refused) },
    { "fault/held-bounded", test_held_bounded },
    { "fault/stalled-eqs", ON(fault_pair, test_stalled_eqs) },
    { "fault/stalled-sqs", test_stalled_sqs },
    { "fault/same-seed-same-hits", test_same_seed_same_hits },
    { "fault/chance", test_chance },
    {}
};
