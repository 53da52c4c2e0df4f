/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Migration and snapshots: a device with queues in several states moves to a
 * second QEMU and continues. If a save or load is refused, one line says why,
 * and the source continues.
 */
#include "qemu/osdep.h"
#include <sys/wait.h>
#include "qobject/qdict.h"
#include "qobject/qlist.h"
#include "fakernic-setup.h"
#include "fakernic-peer.h"
#include "fakernic-save.h"

/* ---- moving -------------------------------------------------------------- */

/* A file name for a saved machine. */
static char *save_path(void)
{
    char *path = g_strdup("/tmp/fakernic-save-XXXXXX");
    int fd = g_mkstemp(path);

    g_assert_cmpint(fd, >=, 0);
    close(fd);
    return path;
}

/* Waits for the end of a migration; true: it completed. */
static bool save_ended(QTestState *qts)
{
    for (unsigned tries = 0; tries < 60000; tries++) {
        QDict *answer = qtest_qmp(qts, "{ 'execute': 'query-migrate' }");
        QDict *info = qdict_get_qdict(answer, "return");
        const char *status = qdict_get_try_str(info, "status");
        const bool completed = status && !strcmp(status, "completed");
        const bool failed = status && !strcmp(status, "failed");

        qobject_unref(answer);
        if (completed || failed) {
            return completed;
        }
        g_usleep(1000);
    }
    g_error("the migration does not end");
}

static bool save_to(Machine *m, const char *uri)
{
    qtest_qmp_assert_success(m->qts, "{ 'execute': 'migrate',"
                             " 'arguments': { 'uri': %s } }", uri);
    return save_ended(m->qts);
}

/* Options of a machine that loads a file. */
static char *save_options(const char *bios, const char *options,
                          const char *path)
{
    return g_strdup_printf("-machine q35 -nodefaults -bios %s "
                           "-global apic-common.vapic=off %s "
                           "-incoming file:%s", bios, options, path);
}

char *save_end(Machine *m, int64_t *now)
{
    char *path = save_path();
    g_autofree char *uri = g_strdup_printf("file:%s", path);

    *now = qtest_clock_step(m->qts, 1);
    g_assert_true(save_to(m, uri));
    qtest_quit(m->qts);
    return path;
}

void save_begin(Machine *m, const char *options, const char *path, int64_t now)
{
    g_autofree char *bios = machine_bios();
    g_autofree char *all = save_options(bios, options, path);

    m->qts = qtest_init(all);
    m->bus->qts = m->qts;
    for (unsigned tries = 0; tries < 60000; tries++) {
        QDict *answer = qtest_qmp(m->qts, "{ 'execute': 'query-status' }");
        QDict *status = qdict_get_qdict(answer, "return");
        const bool runs = qdict_get_bool(status, "running");
        const bool stood_still = !strcmp(qdict_get_str(status, "status"),
                                         "paused");

        qobject_unref(answer);
        if (stood_still) {
            qtest_qmp_assert_success(m->qts, "{ 'execute': 'cont' }");
        } else if (runs) {
            unlink(bios);
            /* The clock of a qtest begins at zero. */
            qtest_clock_set(m->qts, now);
            return;
        }
        g_usleep(1000);
    }
    g_error("the loaded machine does not run");
}

void save_move(Machine *m, const char *options)
{
    int64_t now;
    g_autofree char *path = save_end(m, &now);

    save_begin(m, options, path, now);
    unlink(path);
}

static void rig_move(Rig *r)
{
    save_move(&r->m, DEVICE ",id=nic0");
}

/* ---- what continues ------------------------------------------------------ */

static void test_idle(Rig *r)
{
    fill(&r->n, &r->s, 0, 512);
    rig_move(r);
    rig_move(r);
    Wqe wqe = wqe_rdma(&r->s, FAKERNIC_SQ_RDMA_WRITE, 0, 16384, 512);
    POST(r, wqe);
    rig_cqe(r, FAKERNIC_CQE_RDMA_WRITE, FAKERNIC_WC_SUCCESS);
    assert_same(&r->n, &r->s, 0, 16384, 512);
    g_assert_cmpuint(nic_stat(&r->n, FAKERNIC_STAT_TX_ROCE), >, 0);
}

/* A SEND waits for a receive, which is posted after the move. */
static void test_rnr(Rig *r)
{
    struct fakernic_cqe cqe;
    Wqe wqe = wqe_send(&r->s, 0, 3000);

    fill(&r->n, &r->s, 0, 3000);
    POST(r, wqe);
    g_assert_cmpuint(nic_stat(&r->n, FAKERNIC_STAT_RX_RNR_NAK), ==, 1);
    rig_move(r);
    rq_post(&r->n, &r->b.rq, 7, r->s.data + 8192, 4096, r->s.key);
    qtest_clock_step(r->m.qts, 1000000000);
    cqe = rig_cqe(r, FAKERNIC_CQE_RECV, FAKERNIC_WC_SUCCESS);
    g_assert_cmpuint(le32_to_cpu(cqe.wqe_index), ==, 7);
    rig_cqe(r, FAKERNIC_CQE_SEND, FAKERNIC_WC_SUCCESS);
    assert_same(&r->n, &r->s, 0, 8192, 3000);
}

/* Completions that were not polled, an armed CQ and EQ, MSI-X. */
static void test_events(Rig *r)
{
    struct fakernic_eqe eqe;
    Wqe wqe = wqe_rdma(&r->s, FAKERNIC_SQ_RDMA_WRITE, 0, 16384, 8);

    msix_setup(&r->n);
    POST(r, wqe);
    cq_arm(&r->n, &r->s.cq, 0, false);
    rig_move(r);
    g_assert_true(msix_fired(&r->n, 1));
    rig_cqe(r, FAKERNIC_CQE_RDMA_WRITE, FAKERNIC_WC_SUCCESS);
    g_assert_true(eq_poll(&r->n, &r->s.eq, &eqe));
    eq_ring(&r->n, &r->s.eq, true);
    cq_arm(&r->n, &r->s.cq, 0, false);
    rig_move(r);
    g_assert_false(msix_fired(&r->n, 1));
    POST(r, wqe);
    g_assert_true(msix_fired(&r->n, 1));
    rig_cqe(r, FAKERNIC_CQE_RDMA_WRITE, FAKERNIC_WC_SUCCESS);
}

/* The held event of a moderated CQ comes when its time is up. */
static void test_held_event(Rig *r)
{
    struct fakernic_modify_cq_req req = {
        .cqn = LE32(r->s.cq.id), .count = LE16(100), .period_us = LE16(1000),
    };
    struct fakernic_eqe eqe;
    Wqe wqe = wqe_rdma(&r->s, FAKERNIC_SQ_RDMA_WRITE, 0, 16384, 8);

    assert_status(CMD(&r->n, MODIFY_CQ, req), OK);
    cq_arm(&r->n, &r->s.cq, 0, false);
    POST(r, wqe);
    rig_move(r);
    g_assert_false(eq_poll(&r->n, &r->s.eq, &eqe));
    qtest_clock_step(r->m.qts, 2000000);
    g_assert_cmpuint(eq_expect(&r->n, &r->s.eq, FAKERNIC_EVENT_COMPLETION),
                     ==, r->s.cq.id);
}

/* A full EQ: the events stay latched until there is room. */
static void test_latched_events(Rig *r)
{
    struct fakernic_eqe eqe;
    Qp qp[20];

    for (unsigned i = 0; i < ARRAY_SIZE(qp); i++) {
        qp_create(&r->n, &qp[i], FAKERNIC_QP_RC, r->s.pd, &r->s.cq, 0);
        rc_connect(&r->n, qp[i].qpn, qp[i].qpn, own_gid, nic_mac);
        /* Its doorbell announces more than the ring holds. */
        ring(&r->n, 0, FAKERNIC_DOORBELL_SQ, doorbell(qp[i].qpn, 0x1000));
    }
    rig_move(r);
    for (unsigned i = 0; i < ARRAY_SIZE(qp); i++) {
        g_assert_cmpuint(eq_expect(&r->n, &r->s.async,
                                   FAKERNIC_EVENT_QP_FATAL), ==, qp[i].qpn);
        eq_ring(&r->n, &r->s.async, true);
    }
    g_assert_false(eq_poll(&r->n, &r->s.async, &eqe));
}

/* Objects can be destroyed in order: each counts its users. */
static void test_users(Rig *r)
{
    rig_move(r);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DEALLOC_PD, r->s.pd), BUSY);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_CQ, r->s.cq.id), BUSY);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_QP, r->a.qpn), OK);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_QP, r->b.qpn), OK);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DEALLOC_PD, r->s.pd), BUSY);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_MR, r->s.key), OK);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DEALLOC_PD, r->s.pd), OK);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_CQ, r->s.cq.id), OK);
    nic_reset(&r->n);
    nic_bringup(&r->n);
}

/* A device that no driver has enabled. */
static void test_not_enabled(Rig *r)
{
    rig_move(r);
    g_assert_cmphex(nic_status(&r->n), ==, FAKERNIC_STATUS_READY);
    nic_bringup(&r->n);
    assert_status(cmd(&r->n, FAKERNIC_CMD_NOP, NULL, 0, NULL, 0), OK);
}

/* Continues in a QEMU with another wire, which the test holds. */
static void peer_move(Peer *p)
{
    uint8_t frame[4 + 64] = { [3] = 64 };
    int64_t now;
    g_autofree char *path = save_end(&p->m, &now);
    g_autofree char *options = NULL;
    int fds[2];

    close(p->wire);
    g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), ==, 0);
    options = g_strdup_printf("-netdev stream,id=n0,addr.type=fd,addr.str=%d "
                              DEVICE ",netdev=n0", fds[1]);
    save_begin(&p->m, options, path, now);
    unlink(path);
    close(fds[1]);
    p->wire = fds[0];
    frame_make(frame + 4, nic_mac, 64);
    g_byte_array_append(p->out, frame, sizeof(frame));
    peer_send(p);
}

/* The packets of a WRITE are not answered. After the move the device sends the
 * same PSNs again, and the WRITE completes once. */
static void test_wire(void)
{
    struct fakernic_cqe cqe;
    Packet packet;
    Wqe wqe;
    Peer p;
    Qp qp;

    peer_start(&p, "", 0);
    peer_connect(&p, &qp, 0);
    wqe = wqe_rdma(&p.s, FAKERNIC_SQ_RDMA_WRITE, 0, 4096, 2000);
    sq_put(&p.n, &qp, &wqe, sizeof(wqe));
    sq_ring(&p.n, &qp);
    for (unsigned moved = 0; moved < 2; moved++) {
        g_assert_true(peer_next(&p, &packet));
        g_assert_cmphex(packet.psn, ==, PEER_PSN);
        g_assert_true(peer_next(&p, &packet));
        g_assert_cmphex(packet.psn, ==, PEER_PSN + 1);
        if (!moved) {
            peer_move(&p);
            g_assert_false(peer_next(&p, &packet));
            qtest_clock_step(p.m.qts, 1000000000);
        }
    }
    packet = packet_answer(PEER_ACK, qp.qpn, PEER_PSN + 1, PEER_ACKED);
    peer_put(&p, &packet);
    peer_send(&p);
    cq_await(&p.n, &p.s.cq, &cqe, FAKERNIC_CQE_RDMA_WRITE,
             FAKERNIC_WC_SUCCESS);
    g_assert_false(cq_poll(&p.n, &p.s.cq, &cqe));
    peer_stop(&p);
}

/* ---- what is refused ----------------------------------------------------- */

void save_refused(const char *options, const char *path, const char *words)
{
    g_autofree char *bios = machine_bios();
    g_autofree char *all = save_options(bios, options, path);
    g_autofree char *line = g_strdup_printf(
        "%s -accel qtest -display none -S %s", getenv("QTEST_QEMU_BINARY"),
        all);
    g_autofree char *output = NULL, *errors = NULL;
    int status;

    g_assert_true(g_spawn_command_line_sync(line, &output, &errors, &status,
                                            NULL));
    unlink(bios);
    g_test_message("%s", errors);
    g_assert_true(WIFEXITED(status));
    g_assert_cmpint(WEXITSTATUS(status), ==, 1);
    g_assert_nonnull(strstr(errors, words));
}

static void test_other_options(Rig *r)
{
    int64_t now;
    g_autofree char *path = save_end(&r->m, &now);

    save_refused(DEVICE ",max-qp=64", path,
                 "property 'max-qp' is 4096 in the saved state and 64 here");
    save_refused(DEVICE ",dm-size=8K", path, "fakernic-dm");
    save_refused(DEVICE ",x-feature-mask=0x13", path,
                 "the driver uses features that are not offered here");
    save_begin(&r->m, DEVICE ",id=nic0", path, now);
    unlink(path);
    Wqe wqe = wqe_rdma(&r->s, FAKERNIC_SQ_RDMA_WRITE, 0, 16384, 8);
    POST(r, wqe);
    rig_cqe(r, FAKERNIC_CQE_RDMA_WRITE, FAKERNIC_WC_SUCCESS);
}

/* Only a device that no driver uses may load with another MAC address. */
static void test_other_mac(Rig *r)
{
    static const char other[] =
        "-device fakernic,addr=04.0,id=nic0,mac=52:54:00:0a:0b:0d";
    g_autofree char *path = NULL;
    int64_t now;
    uint64_t dsn;

    save_move(&r->m, other);
    g_assert_cmphex(reg_read(&r->n, FAKERNIC_REG_MAC_HI), ==, 0x0d0b);
    ecam_enable(&r->m);
    dsn = extended_capability(&r->m, ecam(SLOT), PCI_EXT_CAP_ID_DSN);
    g_assert_cmphex(qtest_readl(r->m.qts, ecam(SLOT) + dsn + 4), ==,
                    0xfe0a0b0d);
    nic_bringup(&r->n);
    path = save_end(&r->m, &now);
    save_refused(DEVICE, path,
                 "property 'mac' differs, and a driver uses the device");
    save_begin(&r->m, other, path, now);
    unlink(path);
    assert_status(cmd(&r->n, FAKERNIC_CMD_NOP, NULL, 0, NULL, 0), OK);
}

/* The device's state in a file, behind its name without "-dm". */
static char *save_find(char *file, size_t size)
{
    static const char name[] = "04.0/fakernic";
    char *at = file;

    do {
        at = memmem(at, file + size - at, name, sizeof(name) - 1);
        g_assert_nonnull(at);
        at += sizeof(name) - 1;
    } while (*at == '-');
    return at;
}

/* A file that ends within the device's state. */
static void test_truncated(Rig *r)
{
    int64_t now;
    g_autofree char *path = save_end(&r->m, &now);
    static const struct {
        size_t kept;
        const char *words;
    } cases[] = {
        { 64, "the saved state ends too early" },   /* the properties */
        { 1024, "load of migration failed" },       /* QEMU's own part */
        { 10000, "the stream ends too early" },     /* objects */
        { 76000, "the stream ends too early" },     /* the engine */
    };
    g_autofree char *saved = NULL;
    size_t size, start;

    g_assert_true(g_file_get_contents(path, &saved, &size, NULL));
    start = save_find(saved, size) - saved;
    for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
        g_assert_true(g_file_set_contents(path, saved, start + cases[i].kept,
                                          NULL));
        save_refused(DEVICE ",id=nic0", path, cases[i].words);
    }
    g_assert_true(g_file_set_contents(path, saved, size, NULL));
    save_begin(&r->m, DEVICE ",id=nic0", path, now);
    unlink(path);
    assert_status(cmd(&r->n, FAKERNIC_CMD_NOP, NULL, 0, NULL, 0), OK);
}

/* Loads a file in another QEMU, which then quits. Returns its wait status. */
static int save_try(const char *path)
{
    g_autofree char *bios = machine_bios();
    g_autofree char *all = save_options(bios, DEVICE ",id=nic0", path);
    g_autofree char *line = g_strdup_printf(
        "%s -accel qtest -display none -S -qmp stdio %s",
        getenv("QTEST_QEMU_BINARY"), all);
    g_auto(GStrv) args = NULL;
    char answer[4096];
    FILE *to, *from;
    int in, out, status;
    GPid pid;

    g_assert_true(g_shell_parse_argv(line, NULL, &args, NULL));
    g_assert_true(g_spawn_async_with_pipes(
        NULL, args, NULL, G_SPAWN_DO_NOT_REAP_CHILD, NULL, NULL, &pid, &in,
        &out, NULL, NULL));
    to = fdopen(in, "w");
    from = fdopen(out, "r");
    setvbuf(to, NULL, _IONBF, 0);
    fputs("{ 'execute': 'qmp_capabilities' } { 'execute': 'query-status' }\n",
          to);
    while (fgets(answer, sizeof(answer), from)) {
        if (strstr(answer, "inmigrate")) {
            g_usleep(1000);
            fputs("{ 'execute': 'query-status' }\n", to);
        } else if (strstr(answer, "\"status\"")) {
            fputs("{ 'execute': 'quit' }\n", to);
        }
    }
    g_assert_cmpint(waitpid(pid, &status, 0), ==, pid);
    fclose(to);
    fclose(from);
    unlink(bios);
    return status;
}

/* A changed byte is refused, or gives another valid state. Nothing crashes. */
static void test_changed(Rig *r)
{
    int64_t now;
    g_autofree char *path = save_end(&r->m, &now);
    g_autofree char *saved = NULL;
    unsigned refused = 0;
    size_t size, at;

    signal(SIGPIPE, SIG_IGN);
    g_assert_true(g_file_get_contents(path, &saved, &size, NULL));
    at = save_find(saved, size) - saved;
    for (unsigned i = 0; i < 24; i++) {
        int status;

        at += 16 + 61 * i;
        saved[at] ^= 0x81;
        g_assert_true(g_file_set_contents(path, saved, size, NULL));
        saved[at] ^= 0x81;
        status = save_try(path);
        g_assert_true(WIFEXITED(status));
        refused += WEXITSTATUS(status) == 1;
    }
    g_assert_cmpuint(refused, >, 3);
    g_assert_true(g_file_set_contents(path, saved, size, NULL));
    save_begin(&r->m, DEVICE ",id=nic0", path, now);
    unlink(path);
    assert_status(cmd(&r->n, FAKERNIC_CMD_NOP, NULL, 0, NULL, 0), OK);
}

/* A saved machine, and a copy of its bytes that the test changes. */
typedef struct Saved {
    char *path, *bytes, *copy;
    size_t size, copy_size;
    int64_t now;
} Saved;

static Saved saved_take(Rig *r)
{
    Saved saved;

    /* The state has the last command. One without parameters is no match. */
    assert_status(cmd(&r->n, FAKERNIC_CMD_NOP, NULL, 0, NULL, 0), OK);
    saved.path = save_end(&r->m, &saved.now);
    g_assert_true(g_file_get_contents(saved.path, &saved.bytes, &saved.size,
                                      NULL));
    saved.copy = g_memdup2(saved.bytes, saved.size);
    saved.copy_size = saved.size;
    return saved;
}

/* The first place in the device's state that has these bytes. */
static char *saved_find(Saved *saved, const void *bytes, size_t len)
{
    char *begin = save_find(saved->copy, saved->copy_size);
    char *at = memmem(begin, saved->copy + saved->copy_size - begin, bytes,
                      len);

    g_assert_nonnull(at);
    return at;
}

/* The changed copy is refused. The machine continues from the original. */
static void saved_refused(Rig *r, Saved *saved)
{
    int status;

    signal(SIGPIPE, SIG_IGN);
    g_assert_true(g_file_set_contents(saved->path, saved->copy,
                                      saved->copy_size, NULL));
    status = save_try(saved->path);
    g_assert_true(WIFEXITED(status));
    g_assert_cmpint(WEXITSTATUS(status), ==, 1);
    g_assert_true(g_file_set_contents(saved->path, saved->bytes, saved->size,
                                      NULL));
    save_begin(&r->m, DEVICE ",id=nic0", saved->path, saved->now);
    unlink(saved->path);
    assert_status(cmd(&r->n, FAKERNIC_CMD_NOP, NULL, 0, NULL, 0), OK);
    g_free(saved->path);
    g_free(saved->bytes);
    g_free(saved->copy);
}

/* An interrupt of vector 63. The mask follows the port's address. */
static void test_absent_vector(Rig *r)
{
    Saved saved = saved_take(r);
    char *mac = saved_find(&saved, nic_mac, sizeof(nic_mac));

    mac[sizeof(nic_mac)] = (char)0x80;
    saved_refused(r, &saved);
}

/* A flow rule that is missing in the order of evaluation. */
static void test_unlisted_flow_rule(Rig *r)
{
    struct fakernic_create_flow_req req = {
        .type = FAKERNIC_FLOW_NORMAL,
        .value.dmac = { 2, 0xca, 0xfe, 0xba, 0xbe, 1 },
        .mask.dmac = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff },
    };
    const uint32_t no_freed_number = 0;
    uint32_t first;
    Saved saved;
    char *at;
    Qp raw;

    qp_create(&r->n, &raw, FAKERNIC_QP_RAW_PACKET, r->s.pd, &r->s.cq, 0);
    req.qpn = LE32(raw.qpn);
    first = LE32(cmd_create(&r->n, FAKERNIC_CMD_CREATE_FLOW, &req,
                            sizeof(req)));
    saved = saved_take(r);
    /* The only rule ends with its mask. Then comes the list of each type. */
    at = saved_find(&saved, &req.value, sizeof(req.value)) +
         sizeof(req.value) + sizeof(req.mask);
    g_assert_cmpmem(at, 4, &no_freed_number, 4);
    at += 4;
    g_assert_cmpmem(at, 4, &first, 4);
    saved.copy_size -= 4;
    memmove(at, at + 4, saved.copy + saved.copy_size - at);
    saved_refused(r, &saved);
}

/* An RC QP that is marked as a work queue. */
static void test_wq_of_wrong_type(Rig *r)
{
    /* Up to the numbers of its PD, XRC domain, doorbell page and CQs. */
    struct QEMU_PACKED {
        uint32_t qpn;
        uint8_t type, is_wq;
        uint32_t pdn, xrcdn, uar, send_cqn, recv_cqn;
    } qp = {
        .qpn = LE32(r->a.qpn), .type = FAKERNIC_QP_RC, .pdn = LE32(r->s.pd),
        .send_cqn = LE32(r->s.cq.id), .recv_cqn = LE32(r->s.cq.id),
    };
    Saved saved = saved_take(r);
    char *at = saved_find(&saved, &qp, sizeof(qp));

    at[offsetof(typeof(qp), is_wq)] = 1;
    saved_refused(r, &saved);
}

/* ---- fault rules --------------------------------------------------------- */

/* Asserts that the text of the device's rules has these words. */
static void fault_has(Rig *r, const char *words)
{
    QDict *answer = qtest_qmp(r->m.qts, "{ 'execute': 'qom-get', 'arguments': {"
                              " 'path': %s, 'property': 'x-fault' } }", NIC0);

    g_test_message("%s", qdict_get_str(answer, "return"));
    g_assert_nonnull(strstr(qdict_get_str(answer, "return"), words));
    qobject_unref(answer);
}

static void assert_no_cqe(Rig *r)
{
    struct fakernic_cqe cqe;

    g_assert_false(cq_poll(&r->n, &r->s.cq, &cqe));
}

/* A rule moves with its counters: only the second WRITE is dropped. It is sent
 * again after a timeout. */
static void test_fault_rules(Rig *r)
{
    Wqe wqe = wqe_rdma(&r->s, FAKERNIC_SQ_RDMA_WRITE, 0, 16384, 8);

    fault(&r->m, "id=one at=rx opcode=rc-write-only nth=2 do=drop");
    POST(r, wqe);
    rig_cqe(r, FAKERNIC_CQE_RDMA_WRITE, FAKERNIC_WC_SUCCESS);
    rig_move(r);
    fault_has(r, "matches=1 hits=0");
    POST(r, wqe);
    assert_no_cqe(r);
    qtest_clock_step(r->m.qts, 1000000000);
    rig_cqe(r, FAKERNIC_CQE_RDMA_WRITE, FAKERNIC_WC_SUCCESS);
    fault_has(r, " hits=1");
}

/* Rules that the destination has from its options are replaced. */
static void test_fault_replaced(Rig *r)
{
    fault(&r->m, "id=mine at=rx do=count");
    save_move(&r->m, DEVICE ",id=nic0,x-fault='id=other at=tx do=drop'");
    fault_has(r, "id=mine");
}

/* The destination of an idle device without rules keeps the rules of its
 * options. If the saved device has rules, they replace those. */
static void test_fault_of_idle(Rig *r)
{
    static const char other[] =
        DEVICE ",id=nic0,x-fault='id=other at=tx do=drop'";

    save_move(&r->m, other);
    fault_has(r, "id=other");
    fault(&r->m, "id=mine at=rx do=count");
    save_move(&r->m, other);
    fault_has(r, "id=mine");
}

/* An item that a rule holds moves, and is released at its time. */
static void fault_holds(Rig *r, const char *rule)
{
    Wqe wqe = wqe_rdma(&r->s, FAKERNIC_SQ_RDMA_WRITE, 0, 16384, 8);

    fault(&r->m, rule);
    fill(&r->n, &r->s, 0, 8);
    POST(r, wqe);
    assert_no_cqe(r);
    rig_move(r);
    assert_no_cqe(r);
    qtest_clock_step(r->m.qts, 5000000);
    rig_cqe(r, FAKERNIC_CQE_RDMA_WRITE, FAKERNIC_WC_SUCCESS);
    assert_same(&r->n, &r->s, 0, 16384, 8);
}

static void test_held_doorbell(Rig *r)
{
    fault_holds(r, "at=doorbell number=0-7 do=delay delay-ns=1000000");
}

static void test_held_frame(Rig *r)
{
    fault_holds(r, "at=tx opcode=rc-write-only do=delay delay-ns=1000000");
}

static void test_held_completion(Rig *r)
{
    fault_holds(r, "at=cqe do=delay delay-ns=1000000");
}

static void test_stalled_queue(Rig *r)
{
    fault_holds(r, "at=send-wqe do=delay delay-ns=1000000");
}

static void test_frozen(Rig *r)
{
    fault_holds(r, "at=device do=freeze for-ns=1000000");
}

/* A freeze without an end ends when its rule is removed, after the move. */
static void test_frozen_without_end(Rig *r)
{
    Wqe wqe = wqe_rdma(&r->s, FAKERNIC_SQ_RDMA_WRITE, 0, 16384, 8);

    fault(&r->m, "id=ice at=device do=freeze");
    POST(r, wqe);
    rig_move(r);
    qtest_clock_step(r->m.qts, 5000000);
    assert_no_cqe(r);
    fault(&r->m, "remove=ice");
    rig_cqe(r, FAKERNIC_CQE_RDMA_WRITE, FAKERNIC_WC_SUCCESS);
}

/* ---- recorder ------------------------------------------------------------ */

static char *recorded(Rig *r, const char *property)
{
    QDict *answer = qtest_qmp(r->m.qts, "{ 'execute': 'qom-get', 'arguments': {"
                              " 'path': 'nic0', 'property': %s } }", property);
    char *text = g_strdup(qdict_get_str(answer, "return"));

    qobject_unref(answer);
    return text;
}

/* The entries before the move, and those kept from before an error, move. */
static void test_recorder(Rig *r)
{
    g_autofree char *before = NULL, *error = NULL;
    g_autofree char *after = NULL, *error_after = NULL;
    Wqe wqe = wqe_rdma(&r->s, FAKERNIC_SQ_RDMA_WRITE, 0, 16384, 8);

    POST(r, wqe);
    rig_cqe(r, FAKERNIC_CQE_RDMA_WRITE, FAKERNIC_WC_SUCCESS);
    ring(&r->n, 0, FAKERNIC_DOORBELL_SQ, doorbell(r->a.qpn, 0x1000));
    eq_expect(&r->n, &r->s.async, FAKERNIC_EVENT_QP_FATAL);
    before = recorded(r, "x-recorder-now");
    error = recorded(r, "x-recorder");
    rig_move(r);
    after = recorded(r, "x-recorder-now");
    error_after = recorded(r, "x-recorder");
    g_assert_cmpstr(error, ==, error_after);
    g_assert_cmpuint(strlen(before), >, 1000);
    /* The stop for the save was recorded, too. */
    g_assert_true(g_str_has_prefix(after, before));
}

/* ---- failures ------------------------------------------------------------ */

/* The other end fails: the source continues. */
static void test_failed_target(Rig *r)
{
    g_assert_false(save_to(&r->m, "exec:false"));
    Wqe wqe = wqe_rdma(&r->s, FAKERNIC_SQ_RDMA_WRITE, 0, 16384, 8);
    POST(r, wqe);
    rig_cqe(r, FAKERNIC_CQE_RDMA_WRITE, FAKERNIC_WC_SUCCESS);
}

/* ---- snapshots ----------------------------------------------------------- */

static void job_wait(QTestState *qts, const char *id)
{
    for (unsigned tries = 0; tries < 60000; tries++) {
        QDict *answer = qtest_qmp(qts, "{ 'execute': 'query-jobs' }");
        QListEntry *entry;
        bool ended = false;

        QLIST_FOREACH_ENTRY(qdict_get_qlist(answer, "return"), entry) {
            QDict *job = qobject_to(QDict, qlist_entry_obj(entry));

            if (!strcmp(qdict_get_str(job, "id"), id) &&
                !strcmp(qdict_get_str(job, "status"), "concluded")) {
                if (qdict_haskey(job, "error")) {
                    g_error("job %s: %s", id, qdict_get_str(job, "error"));
                }
                ended = true;
            }
        }
        qobject_unref(answer);
        if (ended) {
            qtest_qmp_assert_success(qts, "{ 'execute': 'job-dismiss',"
                                     " 'arguments': { 'id': %s } }", id);
            return;
        }
        g_usleep(1000);
    }
    g_error("job %s does not end", id);
}

/* A disk that holds snapshots. */
static char *snapshot_disk(QTestState *qts)
{
    char *path = save_path();

    qtest_qmp_assert_success(qts, "{ 'execute': 'blockdev-add', 'arguments': {"
        " 'driver': 'file', 'node-name': 'f', 'filename': %s } }", path);
    qtest_qmp_assert_success(qts, "{ 'execute': 'blockdev-create',"
        " 'arguments': { 'job-id': 'make', 'options': { 'driver': 'qcow2',"
                                  " 'file': 'f', 'size': 1048576 } } }");
    job_wait(qts, "make");
    qtest_qmp_assert_success(qts, "{ 'execute': 'blockdev-add', 'arguments': {"
        " 'driver': 'qcow2', 'node-name': 'disk', 'file': 'f' } }");
    return path;
}

static void snapshot(QTestState *qts, bool load)
{
    const char *what = load ? "snapshot-load" : "snapshot-save";

    qtest_qmp_assert_success(qts, "{ 'execute': %s, 'arguments': {"
        " 'job-id': 'move', 'tag': 'then', 'vmstate': 'disk',"
        " 'devices': [ 'disk' ] } }", what);
    job_wait(qts, "move");
}

static const uint8_t foreign_gid[16] = { [10] = 0xff, 0xff, 10, 0, 0, 9 };

/* Connects a QP to another machine, then saves and loads a snapshot, of a
 * machine that runs or stands still. The caller lets it continue. */
static void snapshot_foreign(Rig *r, Qp *qp, bool runs)
{
    g_autofree char *disk = snapshot_disk(r->m.qts);
    const int64_t now = qtest_clock_step(r->m.qts, 1);

    qp_create(&r->n, qp, FAKERNIC_QP_RC, r->s.pd, &r->s.cq, 0);
    rc_connect(&r->n, qp->qpn, 99, foreign_gid, nic_mac);
    if (!runs) {
        qtest_qmp_assert_success(r->m.qts, "{ 'execute': 'stop' }");
    }
    snapshot(r->m.qts, false);
    snapshot(r->m.qts, true);
    qtest_clock_set(r->m.qts, now);
    unlink(disk);
}

static void snapshot_ends(Rig *r, bool runs)
{
    Qp qp;

    snapshot_foreign(r, &qp, runs);
    qtest_qmp_assert_success(r->m.qts, "{ 'execute': 'cont' }");
    g_assert_cmpuint(eq_expect(&r->n, &r->s.async, FAKERNIC_EVENT_QP_FATAL),
                     ==, qp.qpn);
    g_assert_cmpuint(qp_state(&r->n, qp.qpn), ==, FAKERNIC_QPS_ERR);
    /* Connections within the machine continue. */
    Wqe wqe = wqe_rdma(&r->s, FAKERNIC_SQ_RDMA_WRITE, 0, 16384, 8);
    POST(r, wqe);
    rig_cqe(r, FAKERNIC_CQE_RDMA_WRITE, FAKERNIC_WC_SUCCESS);
}

static void test_snapshot(Rig *r)
{
    snapshot_ends(r, true);
}

static void test_snapshot_of_stopped(Rig *r)
{
    snapshot_ends(r, false);
}

/* The machine migrates before it runs again. */
static void test_snapshot_moves(Rig *r)
{
    Qp qp;

    snapshot_foreign(r, &qp, false);
    rig_move(r);
    g_assert_cmpuint(eq_expect(&r->n, &r->s.async, FAKERNIC_EVENT_QP_FATAL),
                     ==, qp.qpn);
    g_assert_cmpuint(qp_state(&r->n, qp.qpn), ==, FAKERNIC_QPS_ERR);
}

static void rig_keep(Rig *r)
{
    rig_start(r, ",snapshot-qps=keep");
    nic_bringup(&r->n);
    setup_pair(&r->n, &r->s, &r->a, &r->b);
}

static void test_snapshot_keep(Rig *r)
{
    struct fakernic_eqe eqe;
    Qp qp;

    snapshot_foreign(r, &qp, true);
    qtest_qmp_assert_success(r->m.qts, "{ 'execute': 'cont' }");
    g_assert_false(eq_poll(&r->n, &r->s.async, &eqe));
    g_assert_cmpuint(qp_state(&r->n, qp.qpn), ==, FAKERNIC_QPS_RTS);
}

const FakernicTest fakernic_save_tests[] = {
    { "save/idle", PAIR(test_idle) },
    { "save/rnr", PAIR(test_rnr) },
    { "save/events", PAIR(test_events) },
    { "save/held-event", PAIR(test_held_event) },
    { "save/latched-events", READY(test_latched_events) },
    { "save/wire", test_wire },
    { "save/users", PAIR(test_users) },
    { "save/not-enabled", BARE(test_not_enabled) },
    { "save/other-options", PAIR(test_other_options) },
    { "save/other-mac", BARE(test_other_mac) },
    { "save/truncated", PAIR(test_truncated) },
    { "save/changed", PAIR(test_changed) },
    { "save/absent-vector", READY(test_absent_vector) },
    { "save/unlisted-flow-rule", READY(test_unlisted_flow_rule) },
    { "save/wq-of-wrong-type", PAIR(test_wq_of_wrong_type) },
    { "save/fault-rules", PAIR(test_fault_rules) },
    { "save/fault-of-idle", BARE(test_fault_of_idle) },
    { "save/fault-replaced", PAIR(test_fault_replaced) },
    { "save/held-doorbell", PAIR(test_held_doorbell) },
    { "save/held-frame", PAIR(test_held_frame) },
    { "save/held-completion", PAIR(test_held_completion) },
    { "save/stalled-queue", PAIR(test_stalled_queue) },
    { "save/frozen", PAIR(test_frozen) },
    { "save/frozen-without-end", PAIR(test_frozen_without_end) },
    { "save/recorder", PAIR(test_recorder) },
    { "save/failed-target", PAIR(test_failed_target) },
    { "save/snapshot", PAIR(test_snapshot) },
    { "save/snapshot-of-stopped", PAIR(test_snapshot_of_stopped) },
    { "save/snapshot-moves", PAIR(test_snapshot_moves) },
    { "save/snapshot-keep", ON(rig_keep, test_snapshot_keep) },
    { NULL }
};
