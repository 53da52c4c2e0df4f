/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The link and the poll doorbell: two devices, and members that the test plays.
 * Some of these lie or are killed.
 */
#include "qemu/osdep.h"
#include "qemu/atomic.h"
#include <poll.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include "qobject/qdict.h"
#include "fakernic-setup.h"
#include "fakernic-stranger.h"
#include "../../hw/net/fakernic/link/closer.c"
#include "../../hw/net/fakernic/link/folder.c"
#include "../../hw/net/fakernic/link/pair.c"
#include "../../hw/net/fakernic/link/ring.c"

#define LINK_DEVICES 2
#define LINK_MEMBERS 4
#define LINK_DEVICE \
    "-device fakernic,id=nic0,addr=04.0,mac=" MAC_STRING ",link=%s "
#define OTHER_MAC "52:54:00:0a:0b:0d"

static const uint8_t link_macs[LINK_MEMBERS][6] = {
    { 0x52, 0x54, 0x00, 0x0a, 0x0b, 0x0c },
    { 0x52, 0x54, 0x00, 0x0a, 0x0b, 0x0d },
    { 0x52, 0x54, 0x00, 0x0a, 0x0b, 0x0e },
    { 0x52, 0x54, 0x00, 0x0a, 0x0b, 0x0f },
};
static const uint8_t link_gids[LINK_MEMBERS][16] = {
    { [10] = 0xff, 0xff, 10, 0, 0, 1 }, { [10] = 0xff, 0xff, 10, 0, 0, 2 },
    { [10] = 0xff, 0xff, 10, 0, 0, 3 }, { [10] = 0xff, 0xff, 10, 0, 0, 4 },
};

static char *link_folder(void)
{
    char *path = g_dir_make_tmp("fakernic-link-XXXXXX", NULL);

    g_assert_nonnull(path);
    return path;
}

/* The folder may contain nothing except the lock. */
static void link_folder_end(char *folder)
{
    g_autofree char *lock = g_build_filename(folder, "lock", NULL);

    unlink(lock);
    g_assert_cmpint(rmdir(folder), ==, 0);
    g_free(folder);
}

static void link_start_one(Machine *m, Nic *n, const char *folder)
{
    machine_start(m, LINK_DEVICE, folder);
    nic_find(n, m, SLOT);
    nic_bringup(n);
}

/* The number of lost wake-ups that all devices report. */
static unsigned lost_wakeups(Machine *m)
{
    static const char word[] = "lost-wakeups=";
    g_autofree char *text = qtest_hmp(m->qts, "info network");
    unsigned lost = 0, found = 0;

    for (char *at = text; (at = strstr(at, word)); found++) {
        at += strlen(word);
        lost += strtoul(at, NULL, 10);
    }
    g_assert_cmpuint(found, >, 0);
    return lost;
}

/* ---- two devices --------------------------------------------------------- */

/* Two devices in one process, or the second in another process, 'far'. */
typedef struct Two {
    Machine m, far;
    unsigned first;             /* index of the first one's addresses */
    Nic n[LINK_DEVICES];
    Setup s[LINK_DEVICES];
    Qp qp[LINK_DEVICES];
} Two;

static void two_setup(Two *t, unsigned i, Machine *m, unsigned slot)
{
    struct fakernic_set_gid_req gid = gid_req(0, link_gids[t->first + i]);

    nic_find(&t->n[i], m, slot);
    nic_bringup(&t->n[i]);
    setup(&t->n[i], &t->s[i]);
    memcpy(gid.mac, link_macs[t->first + i], 6);
    assert_status(CMD(&t->n[i], SET_GID, gid), OK);
}

static void two_connect_qps(Two *t, Qp *qp)
{
    for (unsigned i = 0; i < LINK_DEVICES; i++) {
        qp_create(&t->n[i], &qp[i], FAKERNIC_QP_RC, t->s[i].pd, &t->s[i].cq, 0);
    }
    for (unsigned i = 0; i < LINK_DEVICES; i++) {
        rc_connect(&t->n[i], qp[i].qpn, qp[!i].qpn, link_gids[t->first + !i],
                   link_macs[t->first + !i]);
    }
}

static void two_connect(Two *t)
{
    two_connect_qps(t, t->qp);
}

static void two_start(Two *t, const char *folder, const char *other)
{
    machine_start(&t->m, LINK_DEVICE "-device fakernic,id=nic1,addr=05.0,"
                  "mac=" OTHER_MAC ",link=%s", folder, other);
    two_setup(t, 0, &t->m, SLOT);
    two_setup(t, 1, &t->m, SLOT + 1);
    two_connect(t);
}

static void two_start_apart(Two *t, const char *folder)
{
    machine_start(&t->m, LINK_DEVICE, folder);
    machine_start(&t->far, "-device fakernic,id=nic1,addr=04.0,mac=" OTHER_MAC
                  ",link=%s", folder);
    two_setup(t, 0, &t->m, SLOT);
    two_setup(t, 1, &t->far, SLOT);
    two_connect(t);
}

static void two_stop(Two *t)
{
    g_assert_cmpuint(lost_wakeups(&t->m), ==, 0);
    for (unsigned i = 0; i < LINK_DEVICES; i++) {
        g_free(t->n[i].pci);
    }
    if (t->far.qts) {
        g_assert_cmpuint(lost_wakeups(&t->far), ==, 0);
        machine_stop(&t->far);
    }
    machine_stop(&t->m);
}

/* Writes the first half of one device's memory to the other's second half. */
static void two_write(Two *t, unsigned from)
{
    Wqe wqe = wqe_rdma(&t->s[from], FAKERNIC_SQ_RDMA_WRITE, 0, 0,
                       DATA_SIZE / 2);

    wqe.rdma.rdma.remote_address = LE64(t->s[!from].data + DATA_SIZE / 2);
    wqe.rdma.rdma.rkey = LE32(t->s[!from].key);
    sq_put(&t->n[from], &t->qp[from], &wqe, sizeof(wqe));
    sq_ring(&t->n[from], &t->qp[from]);
}

static void two_completed(Two *t, unsigned from)
{
    struct fakernic_cqe cqe;

    cq_await(&t->n[from], &t->s[from].cq, &cqe, FAKERNIC_CQE_RDMA_WRITE,
             FAKERNIC_WC_SUCCESS);
    queue_record(&t->n[from], &t->s[from].cq, t->s[from].cq.index);
}

static void two_same(Two *t, unsigned from)
{
    g_autofree uint8_t *x = g_malloc(DATA_SIZE), *y = g_malloc(DATA_SIZE);

    qtest_bufread(t->n[from].m->qts, t->s[from].data, x, DATA_SIZE / 2);
    qtest_bufread(t->n[!from].m->qts, t->s[!from].data + DATA_SIZE / 2, y,
                  DATA_SIZE / 2);
    g_assert_cmpmem(x, DATA_SIZE / 2, y, DATA_SIZE / 2);
}

static void two_written(Two *t, unsigned from)
{
    two_completed(t, from);
    two_same(t, from);
}

/* No frame was lost, duplicated or reordered. */
static void two_clean(Two *t)
{
    for (unsigned i = 0; i < LINK_DEVICES; i++) {
        g_assert_cmpuint(nic_stat(&t->n[i], FAKERNIC_STAT_RETRANSMITS), ==, 0);
        g_assert_cmpuint(nic_stat(&t->n[i], FAKERNIC_STAT_PROBES), ==, 0);
        g_assert_cmpuint(nic_stat(&t->n[i], FAKERNIC_STAT_TX_DROPPED), ==, 0);
        g_assert_cmpuint(nic_stat(&t->n[i], FAKERNIC_STAT_TX_ROCE), ==,
                         nic_stat(&t->n[!i], FAKERNIC_STAT_RX_ROCE));
    }
}

static void two_exchange(Two *t, unsigned rounds)
{
    for (unsigned i = 0; i < rounds; i++) {
        fill(&t->n[0], &t->s[0], 0, DATA_SIZE / 2);
        fill(&t->n[1], &t->s[1], 1, DATA_SIZE / 2);
        qtest_memset(t->n[i % 2].m->qts, t->s[i % 2].data, i, 999);
        two_write(t, 0);
        two_write(t, 1);
        two_written(t, 0);
        two_written(t, 1);
    }
}

/* WRITEs in both directions that wrap the ring, with stops of the VM. */
static void test_link_writes_and_stops(void)
{
    char *folder = link_folder();
    Two t = { 0 };

    two_start(&t, folder, folder);
    two_exchange(&t, 40);
    for (unsigned i = 0; i < 8; i++) {
        two_write(&t, 0);
        two_write(&t, 1);
        qtest_qmp_assert_success(t.m.qts, "{ 'execute': 'stop' }");
        qtest_qmp_assert_success(t.m.qts, "{ 'execute': 'cont' }");
        two_written(&t, 0);
        two_written(&t, 1);
    }
    two_stop(&t);
    link_folder_end(folder);
}

static void test_link_no_retransmission(void)
{
    char *folder = link_folder();
    Two t = { 0 };

    two_start(&t, folder, folder);
    for (unsigned i = 0; i < 40; i++) {
        two_write(&t, 0);
        two_write(&t, 1);
    }
    for (unsigned i = 0; i < 40; i++) {
        two_written(&t, 0);
        two_written(&t, 1);
    }
    two_clean(&t);
    two_stop(&t);
    link_folder_end(folder);
}

/* ---- correct data under load --------------------------------------------- */

/* The windows of this many QPs exceed the capacity of a ring. */
#define LOAD_QPS    10
#define LOAD_EACH   3
#define LOAD_WRITES (LOAD_QPS * LOAD_EACH)
#define LOAD_SLOT   (48 * 1024u)
#define LOAD_SIZE   (LOAD_WRITES * LOAD_SLOT)
#define LOAD_ROUNDS 3

/*
 * A region of each device. Its first half goes to the other's second half.
 */
typedef struct Load {
    uint64_t memory[LINK_DEVICES];
    uint32_t key[LINK_DEVICES];
    uint8_t *sent[LINK_DEVICES];
    Qp qp[LOAD_QPS][LINK_DEVICES];
} Load;

static void load_begin(Load *l, Two *t)
{
    for (unsigned i = 0; i < LINK_DEVICES; i++) {
        l->memory[i] = mem_alloc(t->n[i].m, 2 * LOAD_SIZE);
        l->key[i] = mr_create(&t->n[i], t->s[i].pd, l->memory[i], 2 * LOAD_SIZE,
                              FAKERNIC_ACCESS_LOCAL_WRITE |
                                  FAKERNIC_ACCESS_REMOTE_WRITE);
        l->sent[i] = g_malloc(LOAD_SIZE);
    }
    for (unsigned i = 0; i < LOAD_QPS; i++) {
        two_connect_qps(t, l->qp[i]);
    }
}

/* Random bytes that differ in each place and each round. */
static void load_draw(Load *l, Two *t, unsigned from, unsigned round)
{
    g_autoptr(GRand) rand = g_rand_new_with_seed(2 * round + from);
    uint32_t *words = (uint32_t *)l->sent[from];

    for (unsigned i = 0; i < LOAD_SIZE / sizeof(*words); i++) {
        words[i] = g_rand_int(rand);
    }
    qtest_bufwrite(t->n[from].m->qts, l->memory[from], words, LOAD_SIZE);
}

/* The place at the peer to which WRITE i goes, another one in each round. */
static unsigned load_place(unsigned i, unsigned round)
{
    return (i * 7 + round) % LOAD_WRITES;
}

static void load_write(Load *l, Two *t, unsigned from, unsigned round)
{
    for (unsigned i = 0; i < LOAD_WRITES; i++) {
        Qp *qp = &l->qp[i / LOAD_EACH][from];
        Wqe wqe = wqe_rdma(&t->s[from], FAKERNIC_SQ_RDMA_WRITE, 0, 0,
                           LOAD_SLOT);

        wqe.rdma.sge[0].address = LE64(l->memory[from] + i * LOAD_SLOT);
        wqe.rdma.sge[0].lkey = LE32(l->key[from]);
        wqe.rdma.rdma.remote_address = LE64(
            l->memory[!from] + LOAD_SIZE + load_place(i, round) * LOAD_SLOT);
        wqe.rdma.rdma.rkey = LE32(l->key[!from]);
        sq_put(&t->n[from], qp, &wqe, sizeof(wqe));
        if (i % LOAD_EACH == LOAD_EACH - 1) {
            sq_ring(&t->n[from], qp);
        }
    }
}

static void load_check(const Load *l, Two *t, unsigned from, unsigned round)
{
    g_autofree uint8_t *came = g_malloc(LOAD_SIZE);

    for (unsigned i = 0; i < LOAD_WRITES; i++) {
        two_completed(t, from);
    }
    qtest_bufread(t->n[!from].m->qts, l->memory[!from] + LOAD_SIZE, came,
                  LOAD_SIZE);
    for (unsigned i = 0; i < LOAD_WRITES; i++) {
        g_assert_cmpmem(came + load_place(i, round) * LOAD_SLOT, LOAD_SLOT,
                        l->sent[from] + i * LOAD_SLOT, LOAD_SLOT);
    }
}

static void load_run(Two *t)
{
    Load l;

    load_begin(&l, t);
    for (unsigned round = 0; round < LOAD_ROUNDS; round++) {
        load_draw(&l, t, 0, round);
        load_draw(&l, t, 1, round);
        load_write(&l, t, 1, round);
        /* While one process is stopped, its peer must wait for room. */
        if (t->far.qts) {
            g_assert_cmpint(kill(qtest_pid(t->far.qts), SIGSTOP), ==, 0);
        }
        load_write(&l, t, 0, round);
        if (t->far.qts) {
            g_assert_cmpint(kill(qtest_pid(t->far.qts), SIGCONT), ==, 0);
        }
        load_check(&l, t, 0, round);
        load_check(&l, t, 1, round);
    }
    two_clean(t);
    g_free(l.sent[0]);
    g_free(l.sent[1]);
}

/* Many WRITEs at a time, in both directions: every byte arrives. */
static void test_link_load(void)
{
    char *folder = link_folder();
    Two t = { 0 };

    two_start(&t, folder, folder);
    load_run(&t);
    two_stop(&t);
    link_folder_end(folder);
}

/* The same between two processes, which signal each other. */
static void test_link_load_two_processes(void)
{
    char *folder = link_folder();
    Two t = { 0 };

    two_start_apart(&t, folder);
    load_run(&t);
    two_stop(&t);
    link_folder_end(folder);
}

/* ---- members that leave -------------------------------------------------- */

static void two_plug(Two *t, unsigned i, const char *folder)
{
    qtest_qmp_device_add(t->m.qts, "fakernic", i ? "nic1" : "nic0",
                         "{'addr': %s, 'mac': %s, 'link': %s}", i ? "07" : "06",
                         i ? OTHER_MAC : MAC_STRING, folder);
    two_setup(t, i, &t->m, 6 + i);
}

/* A device is unplugged with frames in flight, and another one joins. */
static void test_link_unplug(void)
{
    char *folder = link_folder();
    struct fakernic_cqe cqe;
    Two t = { 0 };

    machine_start(&t.m, "-machine pc");
    two_plug(&t, 0, folder);
    two_plug(&t, 1, folder);
    two_connect(&t);
    two_exchange(&t, 2);
    for (unsigned i = 0; i < 10; i++) {
        two_write(&t, 0);
        two_write(&t, 1);
    }
    qpci_unplug_acpi_device_test(t.m.qts, "nic1", 7);
    g_free(t.n[1].pci);
    for (unsigned i = 0; i < 10 && cq_poll(&t.n[0], &t.s[0].cq, &cqe); i++) {
    }
    two_plug(&t, 1, folder);
    cq_create(&t.n[0], &t.s[0].cq, 6, &t.s[0].eq, 0, 0);
    two_connect(&t);
    two_exchange(&t, 2);
    two_stop(&t);
    link_folder_end(folder);
}

static void far_start(Two *t, const char *folder)
{
    machine_start(&t->far, "-device fakernic,id=nic3,addr=04.0,"
                  "mac=52:54:00:0a:0b:0f,link=%s", folder);
    two_setup(t, 1, &t->far, SLOT);
    two_connect(t);
}

/* Kills the far QEMU; qtest_quit() would report that as a crash. */
static void far_kill(Two *t)
{
    g_assert_cmpint(kill(qtest_pid(t->far.qts), SIGKILL), ==, 0);
    while (qtest_probe_child(t->far.qts)) {
        g_usleep(1000);
    }
    g_free(t->n[1].pci);
    qpci_free_pc(t->far.bus);
    alloc_destroy(&t->far.alloc);
}

/* Waits until 'devices' devices of a machine report this text 'peers'. */
static void peers_await(Machine *m, const char *peers, unsigned devices)
{
    for (unsigned tries = 0; tries < 30000; tries++) {
        g_autofree char *text = qtest_hmp(m->qts, "info network");
        unsigned found = 0;

        for (char *at = text; (at = strstr(at, peers)); at += strlen(peers)) {
            found++;
        }
        if (found == devices) {
            return;
        }
        g_usleep(1000);
    }
    g_error("not %s", peers);
}

/*
 * A QEMU is killed with frames in flight in both directions. The others
 * continue, its place becomes free, and the next member connects.
 */
static void test_link_killed(void)
{
    char *folder = link_folder();
    Two t = { 0 }, killed = { .first = 2 };

    machine_start(&t.m, LINK_DEVICE "-device fakernic,id=nic1,addr=05.0,"
                  "mac=" OTHER_MAC ",link=%s -device fakernic,id=nic2,addr=06.0,"
                  "mac=52:54:00:0a:0b:0e,link=%s", folder, folder, folder);
    two_setup(&t, 0, &t.m, SLOT);
    two_setup(&t, 1, &t.m, SLOT + 1);
    two_setup(&killed, 0, &t.m, SLOT + 2);
    two_connect(&t);
    for (unsigned round = 0; round < 3; round++) {
        far_start(&killed, folder);
        two_exchange(&killed, 2);
        for (unsigned i = 0; i < 20; i++) {
            two_write(&killed, 0);
            two_write(&killed, 1);
            two_write(&t, i % 2);
        }
        far_kill(&killed);
        for (unsigned i = 0; i < 20; i++) {
            two_written(&t, i % 2);
        }
        two_exchange(&t, 2);
        peers_await(&t.m, "peers=2,", 3);
        /* A new CQ: completions of the old connection do not count. */
        cq_create(&killed.n[0], &killed.s[0].cq, 6, &killed.s[0].eq, 0, 0);
    }
    far_start(&killed, folder);
    two_exchange(&killed, 2);
    g_free(killed.n[0].pci);
    g_free(killed.n[1].pci);
    g_assert_cmpuint(lost_wakeups(&killed.far), ==, 0);
    machine_stop(&killed.far);
    two_stop(&t);
    link_folder_end(folder);
}

/* ---- members that the test plays ----------------------------------------- */

typedef struct Member {
    int sock;
    LinkPair pair;
} Member;

/* Connects to the only member of the folder. */
static int member_connect(const char *folder)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    GDir *dir = g_dir_open(folder, 0, NULL);
    const char *name;

    g_assert_nonnull(dir);
    while ((name = g_dir_read_name(dir)) && !g_str_has_suffix(name, ".member")) {
    }
    g_assert_nonnull(name);
    snprintf(address.sun_path, sizeof(address.sun_path), "%s/%s", folder, name);
    g_dir_close(dir);
    g_assert_cmpint(connect(sock, (struct sockaddr *)&address, sizeof(address)),
                    ==, 0);
    return sock;
}

static bool member_readable(const Member *p)
{
    struct pollfd ready = { .fd = p->sock, .events = POLLIN };

    return poll(&ready, 1, 10000) == 1;
}

/*
 * Connects 'count' times in another process, which then ends. Returns the last
 * of the sockets, which have consecutive numbers.
 */
static int member_connect_apart(const char *folder, unsigned count)
{
    const pid_t pid = syscall(SYS_clone, CLONE_FILES | SIGCHLD, 0, 0, 0, 0);
    int status;

    g_assert_cmpint(pid, >=, 0);
    if (!pid) {
        int sock = -1;

        for (unsigned i = 0; i < count; i++) {
            sock = member_connect(folder);
        }
        _exit(sock);
    }
    g_assert_cmpint(waitpid(pid, &status, 0), ==, pid);
    g_assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* Exchanges hellos on a connected socket. */
static void member_greet(Member *p)
{
    LinkHello hello = link_hello(), answer;
    int fd = link_pair_make(&p->pair);

    g_assert_cmpint(fd, >=, 0);
    g_assert_true(link_hello_send(p->sock, &hello, fd));
    close(fd);
    g_assert_true(member_readable(p));
    g_assert_cmpint(link_hello_receive(p->sock, &answer, &fd), >, 0);
    g_assert_null(link_hello_check(&answer, sizeof(answer)));
}

static void member_join(Member *p, const char *folder)
{
    p->sock = member_connect(folder);
    member_greet(p);
}

static void member_leave(Member *p)
{
    close(p->sock);
    link_pair_unmap(&p->pair);
}

/* The device closes the connection of this member. */
static void member_expect_end(Member *p)
{
    char byte;

    while (member_readable(p)) {
        if (recv(p->sock, &byte, 1, 0) <= 0) {
            member_leave(p);
            return;
        }
    }
    g_error("a member that lies is not cut off");
}

static void member_signal(Member *p)
{
    if (link_ring_wakes(&p->pair.tx, 0)) {
        g_assert_true(link_signal(p->sock));
    }
}

/* Takes the next frame that the device has sent. */
static uint32_t member_get(Member *p, uint8_t *frame)
{
    uint32_t len;

    for (unsigned tries = 0; tries < 30000; tries++) {
        if (link_ring_get(&p->pair.rx, frame, &len) == LINK_RING_OK) {
            return len;
        }
        g_usleep(1000);
    }
    g_error("the device sends nothing");
}

/*
 * An acknowledgement is in the device's ring when its retry timer expires. The
 * device reads the ring first, and retransmits nothing. The device's guest
 * polls, so the peer does not signal.
 */
static void test_link_ack_before_timer(void)
{
    g_autofree uint8_t *frame = g_malloc(LINK_FRAME_MAX);
    char *folders[] = { link_folder(), link_folder() };
    Member here, there;
    uint32_t len;
    Two t = { 0 };

    two_start(&t, folders[0], folders[1]);
    member_join(&here, folders[0]);
    member_join(&there, folders[1]);
    fill(&t.n[0], &t.s[0], 0, DATA_SIZE / 2);
    two_write(&t, 0);
    for (unsigned i = 0; i < DATA_SIZE / 2 / 1024; i++) {
        len = member_get(&here, frame);
        g_assert_cmpint(link_ring_put(&there.pair.tx, frame, len), ==,
                        LINK_RING_OK);
        member_signal(&there);
    }
    len = member_get(&there, frame);
    ring(&t.n[0], 0, FAKERNIC_DOORBELL_POLL, 0);
    g_assert_cmpint(link_ring_put(&here.pair.tx, frame, len), ==, LINK_RING_OK);
    qtest_clock_step(t.m.qts, 300000000);
    two_written(&t, 0);
    g_assert_cmpuint(nic_stat(&t.n[0], FAKERNIC_STAT_RETRANSMITS), ==, 0);
    g_assert_cmpuint(nic_stat(&t.n[0], FAKERNIC_STAT_PROBES), ==, 0);
    member_leave(&here);
    member_leave(&there);
    two_stop(&t);
    link_folder_end(folders[0]);
    link_folder_end(folders[1]);
}

/* A device whose port receives the frames of members. */
typedef struct Wired {
    Machine m;
    Nic n;
    Setup s;
    Qp raw;
    char *folder;
    uint8_t frame[64];
} Wired;

static void wired_start(Wired *w)
{
    w->folder = link_folder();
    link_start_one(&w->m, &w->n, w->folder);
    setup(&w->n, &w->s);
    port_up(&w->n, &w->s, &w->raw, FAKERNIC_FILTER_BROADCAST);
    for (unsigned i = 0; i < 8; i++) {
        rq_post(&w->n, &w->raw.rq, i, w->s.data, 2048, w->s.key);
    }
    frame_make(w->frame, nic_mac, sizeof(w->frame));
}

static void wired_end(Wired *w)
{
    g_free(w->n.pci);
    machine_stop(&w->m);
    link_folder_end(w->folder);
}

/* Ends the machine, which must have counted 'lost' lost wake-ups. */
static void wired_stop_lost(Wired *w, unsigned lost)
{
    g_assert_cmpuint(lost_wakeups(&w->m), ==, lost);
    wired_end(w);
}

static void wired_stop(Wired *w)
{
    wired_stop_lost(w, 0);
}

static void wired_put(Wired *w, Member *p)
{
    g_assert_cmpint(link_ring_put(&p->pair.tx, w->frame, sizeof(w->frame)), ==,
                    LINK_RING_OK);
}

static void wired_expect(Wired *w)
{
    struct fakernic_cqe cqe;

    cq_await(&w->n, &w->s.cq, &cqe, FAKERNIC_CQE_RECV, FAKERNIC_WC_SUCCESS);
}

/* Lies of a member about the only frame in its ring. */
static void lie_far_tail(Member *p)
{
    p->pair.tx.control->tail = 0x7ffffff8;
}

static void lie_long_ring(Member *p)
{
    p->pair.tx.control->tail = LINK_RING_SIZE + LINK_RECORD_ALIGN;
}

static void lie_odd_tail(Member *p)
{
    p->pair.tx.control->tail += 3;
}

static void lie_tail_back(Member *p)
{
    p->pair.tx.control->tail = -LINK_RECORD_ALIGN;
}

static void lie_cut_tail(Member *p)
{
    p->pair.tx.control->tail -= LINK_RECORD_ALIGN;
}

static void lie_no_length(Member *p)
{
    memset(p->pair.tx.data, 0, 4);
}

static void lie_length(Member *p)
{
    memset(p->pair.tx.data, 0xff, 4);
}

static void lie_longer(Member *p)
{
    p->pair.tx.data[0] = 64 + 1;
}

static void (*const lies[])(Member *) = {
    lie_far_tail, lie_long_ring, lie_odd_tail, lie_tail_back, lie_cut_tail,
    lie_no_length, lie_length, lie_longer,
};

/* The device still receives a frame of the honest member. */
static void honest_still_reaches_device(Wired *w, Member *honest)
{
    rq_post(&w->n, &w->raw.rq, 0, w->s.data, 2048, w->s.key);
    wired_put(w, honest);
    member_signal(honest);
    wired_expect(w);
    queue_record(&w->n, &w->s.cq, w->s.cq.index);
}

/* Members that lie or are killed do not disturb an honest one. */
static void test_link_lying_members(void)
{
    Member honest, liar;
    Wired w;

    wired_start(&w);
    member_join(&honest, w.folder);
    for (unsigned i = 0; i <= ARRAY_SIZE(lies); i++) {
        member_join(&liar, w.folder);
        wired_put(&w, &liar);
        if (i < ARRAY_SIZE(lies)) {
            lies[i](&liar);
            g_assert_true(link_signal(liar.sock));
            member_expect_end(&liar);
        } else {
            member_leave(&liar);
        }
        honest_still_reaches_device(&w, &honest);
    }
    member_leave(&honest);
    wired_stop(&w);
}

/* A member that keeps writing to memory that the device reads. */
typedef struct Scribbler {
    Member member;
    bool ended;
} Scribbler;

#define SCRIBBLE_RECORD 72      /* size of the record of a 64-byte frame */

static void *scribbler_run(void *opaque)
{
    static const uint32_t lengths[] = { 64, UINT32_MAX, LINK_FRAME_MAX, 0 };
    Scribbler *s = opaque;
    LinkWriter *tx = &s->member.pair.tx;
    LinkControl *rx = s->member.pair.rx.control;

    for (uint32_t i = 0; !qatomic_read(&s->ended); i++) {
        const uint32_t head = qatomic_read(&tx->control->head);
        uint8_t *record = tx->data + head % LINK_RING_SIZE;

        /* Most indexes are plausible. Otherwise the device would end the
         * connection at once. */
        qatomic_set((uint32_t *)record, lengths[i % 512 ? 0 :
                                                i / 512 % ARRAY_SIZE(lengths)]);
        qatomic_set((uint32_t *)(record + 20), i);
        qatomic_set(&tx->control->tail, head + 4 * SCRIBBLE_RECORD);
        qatomic_set(&rx->head, i % 4096 ? qatomic_read(&rx->tail) : i);
        qatomic_set(&rx->asleep, i);
    }
    return NULL;
}

/* The device may end the scribbler's connection; others do not notice. */
static void test_link_random_writes(void)
{
    Member honest;
    Wired w;

    wired_start(&w);
    member_join(&honest, w.folder);
    for (unsigned round = 0; round < 20; round++) {
        Scribbler s = { 0 };
        GThread *thread;

        member_join(&s.member, w.folder);
        for (unsigned i = 0; i < LINK_RING_SIZE / SCRIBBLE_RECORD; i++) {
            uint8_t *record = s.member.pair.tx.data + i * SCRIBBLE_RECORD;

            memcpy(record, &(uint32_t) { 64 }, 4);
            memcpy(record + 8, link_macs[1], 6);        /* not the device's */
        }
        thread = g_thread_new("scribbler", scribbler_run, &s);
        for (unsigned i = 0; i < 50 && link_signal(s.member.sock); i++) {
            qtest_qmp_assert_success(w.m.qts, "{ 'execute': 'query-status' }");
        }
        qatomic_set(&s.ended, true);
        g_thread_join(thread);
        member_leave(&s.member);
        honest_still_reaches_device(&w, &honest);
    }
    member_leave(&honest);
    wired_end(&w);
}

typedef struct Stranger {
    size_t size;                /* of its hello */
    unsigned at;                /* offset of a wrong byte in it; 0: none */
    unsigned fds;
    enum { OURS, NOT_MEMORY, NOT_SEALED, NOT_SIZED } memory;
} Stranger;

#define HELLO sizeof(LinkHello)

static const Stranger strangers[] = {
    { 1, 0, 1 }, { HELLO - 1, 0, 1 }, { 4096, 1, 1 }, { HELLO, 1, 1 },
    { HELLO, offsetof(LinkHello, version), 1 },
    { HELLO, offsetof(LinkHello, ring_size), 1 },
    { HELLO, offsetof(LinkHello, frame_max), 1 },
    { HELLO, offsetof(LinkHello, refused), 1 },
    { HELLO, 0, 0 }, { HELLO, 0, 1, NOT_MEMORY }, { HELLO, 0, 1, NOT_SEALED },
    { HELLO, 0, 1, NOT_SIZED }, { HELLO, 0, 3, NOT_MEMORY },
};

static int stranger_memory(const Stranger *s, LinkPair *pair)
{
    int fd;

    if (s->memory == OURS) {
        return link_pair_make(pair);
    }
    if (s->memory == NOT_MEMORY) {
        return open("/dev/zero", O_RDWR | O_CLOEXEC);
    }
    fd = memfd_create("stranger", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    g_assert_cmpint(ftruncate(fd, s->memory == NOT_SEALED ? FILE_SIZE : 4096),
                    ==, 0);
    if (s->memory == NOT_SIZED) {
        g_assert_cmpint(fcntl(fd, F_ADD_SEALS, SEALS), ==, 0);
    }
    return fd;
}

static void stranger_comes(const Stranger *s, const char *folder)
{
    uint8_t bytes[4096] = { 0 };
    LinkHello hello = link_hello();
    Member p = { .sock = member_connect(folder) };
    int fds[3];

    memcpy(bytes, &hello, sizeof(hello));
    bytes[s->at] ^= s->at != 0;
    fds[0] = stranger_memory(s, &p.pair);
    g_assert_cmpint(fds[0], >=, 0);
    fds[1] = fds[2] = fds[0];
    g_assert_true(stranger_send(p.sock, bytes, s->size, fds, s->fds, 0));
    close(fds[0]);
    member_expect_end(&p);
}

static unsigned descriptors(pid_t pid)
{
    g_autofree char *path = g_strdup_printf("/proc/%d/fd", (int)pid);
    GDir *dir = g_dir_open(path, 0, NULL);
    unsigned count = 0;

    g_assert_nonnull(dir);
    while (g_dir_read_name(dir)) {
        count++;
    }
    g_dir_close(dir);
    return count;
}

/* Processes that send wrong messages, or descriptors that are no memory. The
 * device ends their connections and leaks no descriptor. */
static void test_link_invalid_messages(void)
{
    Member honest;
    unsigned before;
    Wired w;

    wired_start(&w);
    member_join(&honest, w.folder);
    before = descriptors(qtest_pid(w.m.qts));
    for (unsigned i = 0; i < ARRAY_SIZE(strangers); i++) {
        stranger_comes(&strangers[i], w.folder);
        honest_still_reaches_device(&w, &honest);
    }
    for (unsigned i = 0; descriptors(qtest_pid(w.m.qts)) > before; i++) {
        g_assert_cmpuint(i, <, 10000);
        g_usleep(1000);
    }
    member_leave(&honest);
    wired_stop(&w);
}

/* The device receives the frames that a member wrote before it closed its
 * socket, and none that it writes later. */
static void test_link_closed(void)
{
    struct fakernic_cqe cqe;
    Member honest, other;
    Wired w;

    wired_start(&w);
    member_join(&honest, w.folder);
    member_join(&other, w.folder);
    wired_put(&w, &other);
    close(other.sock);
    wired_expect(&w);
    while (true) {
        g_autofree char *text = qtest_hmp(w.m.qts, "info network");

        if (strstr(text, "peers=1,")) {
            break;
        }
        g_usleep(1000);
    }
    wired_put(&w, &other);
    ring(&w.n, 0, FAKERNIC_DOORBELL_POLL, 0);
    g_assert_false(cq_poll(&w.n, &w.s.cq, &cqe));
    honest_still_reaches_device(&w, &honest);
    g_assert_false(cq_poll(&w.n, &w.s.cq, &cqe));
    g_assert_true(link_ring_filled(&(LinkReader) {
        .control = other.pair.tx.control,
        .head = other.pair.tx.control->head,
    }));
    link_pair_unmap(&other.pair);
    member_leave(&honest);
    wired_stop(&w);
}

/* ---- files that take long to close --------------------------------------- */

/*
 * Sends a packet whose last descriptor takes long to close, while QEMU is
 * stopped. So the device has the last reference to it.
 */
static void foreign_send(Wired *w, Member *p, const void *bytes, size_t size,
                         const int *fds, unsigned count)
{
    g_assert_cmpint(kill(qtest_pid(w->m.qts), SIGSTOP), ==, 0);
    g_assert_true(stranger_send(p->sock, bytes, size, fds, count, 0));
    g_assert_cmpint(close(fds[count - 1]), ==, 0);
}

/* The descriptor is in the hello, in place of the memory. */
static void foreign_hello(Wired *w, Member *p, int fd)
{
    const LinkHello hello = link_hello();

    p->sock = member_connect(w->folder);
    foreign_send(w, p, &hello, sizeof(hello), &fd, 1);
}

/* A second descriptor in the hello, where only one is allowed. */
static void foreign_surplus(Wired *w, Member *p, int fd)
{
    const LinkHello hello = link_hello();
    const int fds[] = { link_pair_make(&p->pair), fd };

    p->sock = member_connect(w->folder);
    foreign_send(w, p, &hello, sizeof(hello), fds, 2);
    close(fds[0]);
}

static void foreign_signal(Wired *w, Member *p, int fd)
{
    member_join(p, w->folder);
    foreign_send(w, p, "", 1, &fd, 1);
}

/* In a packet that the device has not read when it ends the connection. */
static void foreign_unread(Wired *w, Member *p, int fd)
{
    member_join(p, w->folder);
    g_assert_cmpint(kill(qtest_pid(w->m.qts), SIGSTOP), ==, 0);
    lie_long_ring(p);
    for (unsigned i = 0; i < SIGNALS_AT_ONCE; i++) {
        g_assert_true(link_signal(p->sock));
    }
    foreign_send(w, p, "", 1, &fd, 1);
}

/* In the last packet before the member shuts its socket down. */
static void foreign_last(Wired *w, Member *p, int fd)
{
    foreign_signal(w, p, fd);
    shutdown(p->sock, SHUT_WR);
}

static void (*const foreigners[])(Wired *, Member *, int) = {
    foreign_hello, foreign_surplus, foreign_signal, foreign_unread,
    foreign_last,
};

/* Such a file delays neither the monitor nor other members. */
static void test_link_lingering_socket(void)
{
    Member honest;
    Wired w;

    wired_start(&w);
    member_join(&honest, w.folder);
    for (unsigned i = 0; i < ARRAY_SIZE(foreigners); i++) {
        Member p = { 0 };
        StrangerTcp tcp;
        uint64_t since;

        g_assert_true(stranger_tcp(&tcp));
        since = main_cpu_us(&w.m);
        foreigners[i](&w, &p, tcp.lingers);
        g_assert_cmpint(kill(qtest_pid(w.m.qts), SIGCONT), ==, 0);
        monitor_must_answer(&w.m, "a lingering socket", since);
        honest_still_reaches_device(&w, &honest);
        member_expect_end(&p);
        close(tcp.peer);
    }
    member_leave(&honest);
    wired_stop(&w);
}

/* QEMU quits while such files are in the queues of its sockets. */
static void test_link_lingering_socket_at_quit(void)
{
    const int64_t limit = 10 * G_USEC_PER_SEC;
    Member crowd[20] = { 0 };
    StrangerTcp tcp;
    int64_t since;
    Wired w;

    wired_start(&w);
    g_assert_true(stranger_tcp(&tcp));
    g_assert_cmpint(kill(qtest_pid(w.m.qts), SIGSTOP), ==, 0);
    for (unsigned i = 0; i < ARRAY_SIZE(crowd); i++) {
        foreign_hello(&w, &crowd[i], dup(tcp.lingers));
    }
    close(tcp.lingers);
    qtest_qmp_send(w.m.qts, "{ 'execute': 'quit' }");
    g_assert_cmpint(kill(qtest_pid(w.m.qts), SIGCONT), ==, 0);
    since = g_get_monotonic_time();
    while (qtest_probe_child(w.m.qts)) {
        g_assert_cmpint(g_get_monotonic_time() - since, <, limit);
        g_usleep(1000);
    }
    for (unsigned i = 0; i < ARRAY_SIZE(crowd); i++) {
        close(crowd[i].sock);
    }
    close(tcp.peer);
    wired_end(&w);
}

/* ---- what a device prints ------------------------------------------------ */

/* The standard error of a machine, which the test writes to a file. */
typedef struct Stderr {
    char *path;
    int real;
} Stderr;

static void stderr_begin(Stderr *printed)
{
    int fd;

    printed->path = g_strdup("/tmp/fakernic-stderr-XXXXXX");
    fd = g_mkstemp(printed->path);
    printed->real = dup(STDERR_FILENO);
    g_assert_cmpint(dup2(fd, STDERR_FILENO), ==, STDERR_FILENO);
    close(fd);
}

static void stderr_restore(Stderr *printed)
{
    g_assert_cmpint(dup2(printed->real, STDERR_FILENO), ==, STDERR_FILENO);
    close(printed->real);
}

static char *stderr_text(const Stderr *printed)
{
    char *text = NULL;

    g_assert_true(g_file_get_contents(printed->path, &text, NULL, NULL));
    return text;
}

static void stderr_await(const Stderr *printed, const char *what)
{
    for (unsigned tries = 0; tries < 10000; tries++) {
        g_autofree char *text = stderr_text(printed);

        if (strstr(text, what)) {
            return;
        }
        g_usleep(1000);
    }
    g_error("not reported: %s", what);
}

static unsigned stderr_count(const Stderr *printed, const char *what)
{
    g_autofree char *text = stderr_text(printed);
    unsigned lines = 0;

    for (char *at = text; (at = strstr(at, what)); at += strlen(what)) {
        lines++;
    }
    return lines;
}

static void stderr_end(Stderr *printed)
{
    unlink(printed->path);
    g_free(printed->path);
}

/* Silent connections take no member's place, and time out. */
static void test_link_silent(void)
{
    Member honest, silent[30];
    Wired w;

    wired_start(&w);
    for (unsigned i = 0; i < ARRAY_SIZE(silent); i++) {
        silent[i] = (Member) { .sock = member_connect(w.folder) };
    }
    member_join(&honest, w.folder);
    wired_put(&w, &honest);
    member_signal(&honest);
    wired_expect(&w);
    for (unsigned i = 0; i < ARRAY_SIZE(silent); i++) {
        member_expect_end(&silent[i]);
    }
    wired_put(&w, &honest);
    member_signal(&honest);
    wired_expect(&w);
    member_leave(&honest);
    wired_stop(&w);
}

static int64_t cpu_time_ns(pid_t pid)
{
    struct timespec used;
    clockid_t clock;

    g_assert_cmpint(clock_getcpuclockid(pid, &clock), ==, 0);
    g_assert_cmpint(clock_gettime(clock, &used), ==, 0);
    return used.tv_sec * 1000000000LL + used.tv_nsec;
}

/* The lowest unused descriptor of a process, after skipping 'others'. */
static unsigned free_descriptor(pid_t pid, unsigned others)
{
    for (unsigned i = 0;; i++) {
        g_autofree char *path = g_strdup_printf("/proc/%d/fd/%u", (int)pid, i);
        struct stat st;

        if (lstat(path, &st) && !others--) {
            return i;
        }
    }
}

/*
 * A member joins while QEMU may open only 'left' more descriptors. The device
 * does not spin, and answers once it has enough.
 */
static void descriptors_left(unsigned left)
{
    LinkHello hello = link_hello(), answer;
    struct rlimit all, full;
    int64_t before;
    Member late;
    Wired w;
    pid_t pid;
    int fd;

    wired_start(&w);
    pid = qtest_pid(w.m.qts);
    g_assert_cmpint(prlimit(pid, RLIMIT_NOFILE, NULL, &all), ==, 0);
    full = (struct rlimit) { free_descriptor(pid, left), all.rlim_max };
    g_assert_cmpint(prlimit(pid, RLIMIT_NOFILE, &full, NULL), ==, 0);
    late.sock = member_connect(w.folder);
    fd = link_pair_make(&late.pair);
    g_assert_true(link_hello_send(late.sock, &hello, fd));
    close(fd);
    before = cpu_time_ns(pid);
    g_usleep(2500000);
    g_assert_cmpint(cpu_time_ns(pid) - before, <, 500000000);
    g_assert_cmpint(link_hello_receive(late.sock, &answer, &fd), ==, 0);
    g_assert_cmpint(prlimit(pid, RLIMIT_NOFILE, &all, NULL), ==, 0);
    g_assert_true(member_readable(&late));
    g_assert_cmpint(link_hello_receive(late.sock, &answer, &fd), >, 0);
    g_assert_null(link_hello_check(&answer, sizeof(answer)));
    wired_put(&w, &late);
    member_signal(&late);
    wired_expect(&w);
    member_leave(&late);
    wired_stop(&w);
}

static void test_link_no_descriptor_left(void)
{
    descriptors_left(0);
}

/* Enough for the connection, but not for the memory that comes with it. */
static void test_link_one_descriptor_left(void)
{
    descriptors_left(1);
}

static void refused_expect(int sock)
{
    Member p = { .sock = sock };
    LinkHello answer;
    int fd;

    g_assert_true(member_readable(&p));
    g_assert_cmpint(link_hello_receive(sock, &answer, &fd), ==, sizeof(answer));
    g_assert_cmpuint(answer.refused, !=, 0);
    close(sock);
}

#define PLACES 64               /* LINK_SOCKETS_MAX */
#define HELLO_US 1000000        /* LINK_HELLO_NS */

/*
 * More connections than places: the device answers each of them, but logs only
 * 32 lines. It logs a late hello, too. False: the machine was so busy that the
 * hellos were late, and these may be all that was logged.
 */
static bool crowd_comes_in_time(bool apart, const char *why)
{
    LinkHello hello = { .version = 1 };
    int64_t begin;
    bool in_time;
    int crowd[160];
    Stderr printed;
    Wired w;

    stderr_begin(&printed);
    wired_start(&w);
    stderr_restore(&printed);
    begin = g_get_monotonic_time();
    for (unsigned i = 0; i < ARRAY_SIZE(crowd); i++) {
        crowd[i] = apart ? member_connect_apart(w.folder, 1) :
                           member_connect(w.folder);
    }
    /* The first one without a place is refused at once, and logged. */
    refused_expect(crowd[PLACES]);
    in_time = g_get_monotonic_time() - begin < HELLO_US;
    for (unsigned i = 0; i < ARRAY_SIZE(crowd); i++) {
        if (i != PLACES) {
            link_hello_send(crowd[i], &hello, -1);
            refused_expect(crowd[i]);
        }
    }
    if (in_time) {
        g_assert_cmpuint(stderr_count(&printed, why), >, 0);
        g_assert_cmpuint(stderr_count(&printed, "fakernic: link"), ==, 32);
    }
    wired_stop(&w);
    stderr_end(&printed);
    return in_time;
}

static void crowd_comes(bool apart, const char *why)
{
    unsigned tries = 0;

    while (!crowd_comes_in_time(apart, why)) {
        g_assert_cmpuint(++tries, <, 20);
    }
}

static void test_link_too_many_connections(void)
{
    crowd_comes(false, "its process has more than 32 connections");
}

static void test_link_too_many_processes(void)
{
    crowd_comes(true, "more than 64 connections");
}

#define HOGGED 70

/* The connections of one process leave places for others. */
static void test_link_connections_per_process(void)
{
    Member honest;
    int last;
    Wired w;

    wired_start(&w);
    last = member_connect_apart(w.folder, HOGGED);
    member_join(&honest, w.folder);
    honest_still_reaches_device(&w, &honest);
    for (int i = 0; i < HOGGED; i++) {
        g_assert_cmpint(close(last - i), ==, 0);
    }
    member_leave(&honest);
    wired_stop(&w);
}

static void no_others(void *opaque, int sock, const char *name)
{
    g_assert_not_reached();
}

/* Devices that join a folder whose first member the test plays. */
static void joiners_start(Machine *m, const char *folder, unsigned count)
{
    g_autoptr(GString) text = g_string_new("");

    for (unsigned i = 0; i < count; i++) {
        g_string_append_printf(text, "-device fakernic,id=nic%u,addr=%02x.0,"
                               "mac=52:54:00:0a:0c:%02x,link=%s ", i, SLOT + i,
                               i, folder);
    }
    machine_start(m, "%s", text->str);
}

/* Accepts the next joining device, but does not answer yet. */
static void joiner_accept(Member *p, LinkFolder *folder)
{
    p->sock = link_folder_accept(folder);
    g_assert_cmpint(p->sock, >=, 0);
    g_assert_true(member_readable(p));
}

typedef struct Answer {
    unsigned at;                /* offset of a wrong byte in it */
    size_t size;
    const char *message;
} Answer;

/*
 * A device joins, and its peer refuses or speaks another version: the
 * message that it prints says what to do.
 */
static void test_link_refused(void)
{
    static const Answer answers[] = {
        { offsetof(LinkHello, refused), HELLO, "it refuses" },
        { offsetof(LinkHello, version), HELLO, "it speaks another version" },
        { offsetof(LinkHello, ring_size), HELLO, "it speaks another version" },
        { offsetof(LinkHello, frame_max), HELLO, "it speaks another version" },
        { 1, HELLO, "it does not send a hello of a link" },
        { offsetof(LinkHello, refused), HELLO - 4,
          "it does not send a hello of a link" },
    };
    char *folder = link_folder();
    LinkFolder first;
    Stderr printed;
    Machine m;

    g_assert_null(link_folder_join(&first, folder, no_others, NULL));
    stderr_begin(&printed);
    joiners_start(&m, folder, ARRAY_SIZE(answers));
    stderr_restore(&printed);
    for (unsigned i = 0; i < ARRAY_SIZE(answers); i++) {
        union {
            LinkHello hello;
            uint8_t bytes[HELLO];
        } answer = { .hello = link_hello() };
        Member p;

        joiner_accept(&p, &first);
        /* The test does not read the device's hello. The device receives the
         * answer all the same. */
        answer.bytes[answers[i].at] ^= 1;
        g_assert_cmpint(send(p.sock, answer.bytes, answers[i].size, 0), ==,
                        answers[i].size);
        close(p.sock);
        for (unsigned k = 0; stderr_count(&printed, "is disconnected") <= i; k++) {
            g_assert_cmpuint(k, <, 10000);
            g_usleep(1000);
        }
    }
    stderr_await(&printed, "until one of the two joins again");
    for (unsigned i = 0; i < ARRAY_SIZE(answers); i++) {
        unsigned same = 0;

        for (unsigned k = 0; k < ARRAY_SIZE(answers); k++) {
            same += g_str_equal(answers[i].message, answers[k].message);
        }
        g_assert_cmpuint(stderr_count(&printed, answers[i].message), ==, same);
    }
    peers_await(&m, "peers=5,", ARRAY_SIZE(answers));
    machine_stop(&m);
    link_folder_leave(&first);
    link_folder_end(folder);
    stderr_end(&printed);
}

/* Answers the hello: the device becomes a member. */
static void joiner_answer(Member *p)
{
    LinkHello hello = link_hello();
    int fd;

    g_assert_cmpint(link_hello_receive(p->sock, &hello, &fd), >, 0);
    g_assert_null(link_hello_check(&hello, sizeof(hello)));
    g_assert_null(link_pair_adopt(&p->pair, fd));
    close(fd);
    hello = link_hello();
    g_assert_true(link_hello_send(p->sock, &hello, -1));
}

/* A joining member lies; the first member reports it. */
static void test_link_lying_newcomer(void)
{
    const unsigned count = ARRAY_SIZE(lies);
    char *folder = link_folder();
    Member older[ARRAY_SIZE(lies)];
    uint8_t frame[64];
    LinkFolder first;
    g_autofree char *all = g_strdup_printf("peers=%u,", count);
    g_autofree char *others = g_strdup_printf("peers=%u,", count - 1);
    Machine m;

    frame_make(frame, nic_mac, sizeof(frame));
    g_assert_null(link_folder_join(&first, folder, no_others, NULL));
    joiners_start(&m, folder, count);
    for (unsigned i = 0; i < count; i++) {
        joiner_accept(&older[i], &first);
        joiner_answer(&older[i]);
    }
    peers_await(&m, all, count);
    for (unsigned i = 0; i < count; i++) {
        g_assert_cmpint(link_ring_put(&older[i].pair.tx, frame, sizeof(frame)),
                        ==, LINK_RING_OK);
        lies[i](&older[i]);
        g_assert_true(link_signal(older[i].sock));
        member_expect_end(&older[i]);
    }
    peers_await(&m, others, count);
    machine_stop(&m);
    link_folder_leave(&first);
    link_folder_end(folder);
}

/* Frames that arrive while the VM is stopped wait in the ring. */
static void test_link_stopped(void)
{
    struct fakernic_cqe cqe;
    Member peer;
    Wired w;

    wired_start(&w);
    member_join(&peer, w.folder);
    qtest_qmp_assert_success(w.m.qts, "{ 'execute': 'stop' }");
    for (unsigned i = 0; i < 6; i++) {
        wired_put(&w, &peer);
        member_signal(&peer);
    }
    for (unsigned i = 0; i < 50; i++) {
        qtest_qmp_assert_success(w.m.qts, "{ 'execute': 'query-status' }");
        g_assert_false(cq_poll(&w.n, &w.s.cq, &cqe));
    }
    /* One frame may wait in QEMU's net layer. */
    g_assert_cmpuint(peer.pair.tx.control->head, <=, 72);
    qtest_qmp_assert_success(w.m.qts, "{ 'execute': 'cont' }");
    for (unsigned i = 0; i < 6; i++) {
        wired_expect(&w);
    }
    member_leave(&peer);
    wired_stop(&w);
}

/* A member joins, and the device learns its address from a frame. */
static void wired_introduce(Wired *w, Member *p, const uint8_t *mac)
{
    member_join(p, w->folder);
    memcpy(w->frame + 6, mac, 6);
    wired_put(w, p);
    member_signal(p);
    wired_expect(w);
}

/* Posts a frame to an address. Each address has its own place in memory. */
static void wired_post(Wired *w, const uint8_t *to, size_t len)
{
    const uint64_t offset = (1 + to[5] % 3) * 16384;
    g_autofree uint8_t *frame = g_malloc(len);
    Wqe wqe = wqe_send(&w->s, offset, len);

    frame_make(frame, to, len);
    memcpy(frame + 6, nic_mac, 6);
    qtest_memwrite(w->m.qts, w->s.data + offset, frame, len);
    sq_put(&w->n, &w->raw, &wqe, sizeof(wqe));
    sq_ring(&w->n, &w->raw);
}

/* Posts a frame and waits until the device has sent it. */
static void wired_send(Wired *w, const uint8_t *to)
{
    struct fakernic_cqe cqe;

    wired_post(w, to, 64);
    cq_await(&w->n, &w->s.cq, &cqe, FAKERNIC_CQE_SEND, FAKERNIC_WC_SUCCESS);
}

/* Each member gets the frames to its address and no others, although all the
 * addresses have the same hash. */
static void test_link_addresses(void)
{
    g_autofree uint8_t *frame = g_malloc(LINK_FRAME_MAX);
    static const uint8_t macs[3][6] = {
        { 0x52, 0x54, 0, 0, 0, 1 }, { 0x52, 0x54, 0, 0, 0x10, 1 },
        { 0x52, 0x54, 0, 1, 0, 6 },
    };
    Member peers[ARRAY_SIZE(macs)];
    Wired w;

    wired_start(&w);
    for (unsigned i = 0; i < ARRAY_SIZE(macs); i++) {
        wired_introduce(&w, &peers[i], macs[i]);
    }
    for (unsigned i = 0; i < ARRAY_SIZE(macs); i++) {
        wired_send(&w, macs[i]);
    }
    for (unsigned i = 0; i < ARRAY_SIZE(macs); i++) {
        g_assert_cmpuint(member_get(&peers[i], frame), ==, 64);
        g_assert_cmpmem(frame, 6, macs[i], 6);
        g_assert_false(link_ring_filled(&peers[i].pair.rx));
        member_leave(&peers[i]);
    }
    wired_stop(&w);
}

/* A member has 300 addresses, as a card with many virtual functions has. Frames
 * to them go to no other member. */
static void test_link_many_addresses(void)
{
    g_autofree uint8_t *frame = g_malloc(LINK_FRAME_MAX);
    uint8_t mac[6] = { 2, 0, 0, 9, 0, 0 };
    Member many, other;
    Wired w;

    wired_start(&w);
    wired_introduce(&w, &other, mac);
    mac[3] = 0;
    wired_introduce(&w, &many, mac);
    for (unsigned i = 1; i < 300; i++) {
        mac[4] = i >> 8;
        mac[5] = i;
        memcpy(w.frame + 6, mac, 6);
        honest_still_reaches_device(&w, &many);
    }
    mac[4] = 0;
    for (unsigned i = 0; i < 64; i++) {
        mac[5] = i;
        wired_send(&w, mac);
        queue_record(&w.n, &w.s.cq, w.s.cq.index);
        g_assert_cmpuint(member_get(&many, frame), ==, 64);
        g_assert_cmpmem(frame, 6, mac, 6);
    }
    g_assert_false(link_ring_filled(&other.pair.rx));
    member_leave(&many);
    member_leave(&other);
    wired_stop(&w);
}

static const uint8_t slow_macs[2][6] = {
    { 0x52, 0x54, 0, 0, 0, 1 }, { 0x52, 0x54, 0, 0, 0, 2 },
};

/*
 * A peer sleeps without checking its ring, which has a frame. The device counts
 * each such sleep once, and does not wake the peer.
 */
static void test_link_watchdog(void)
{
    g_autofree uint8_t *frame = g_malloc(LINK_FRAME_MAX);
    struct pollfd silent = { .events = POLLIN };
    LinkControl *control;
    Member peer;
    Wired w;

    wired_start(&w);
    wired_introduce(&w, &peer, slow_macs[0]);
    control = peer.pair.rx.control;
    silent.fd = peer.sock;
    for (unsigned i = 1; i <= 2; i++) {
        wired_send(&w, slow_macs[0]);
        qatomic_set(&control->asleep, i);
        for (unsigned k = 0; lost_wakeups(&w.m) < i; k++) {
            g_assert_cmpuint(k, <, 10000);
            g_usleep(1000);
        }
        g_usleep(200000);
        g_assert_cmpuint(lost_wakeups(&w.m), ==, i);
        g_assert_cmpint(poll(&silent, 1, 0), ==, 0);
        g_assert_cmpuint(member_get(&peer, frame), ==, 64);
        qatomic_set(&control->asleep, 0);
    }
    /* A peer that is awake may leave a frame in its ring. */
    wired_send(&w, slow_macs[0]);
    g_usleep(200000);
    member_leave(&peer);
    wired_stop_lost(&w, 2);
}

#define SLOW_FRAME  9014
#define SLOW_PAIRS  16

/* The number of frames that fill a ring. */
#define SLOW_FULL   (LINK_RING_SIZE / ROUND_UP(SLOW_FRAME + 8, \
                                               LINK_RECORD_ALIGN))

static void slow_start(Wired *w, Member *slow, Member *other)
{
    const struct fakernic_set_port_req port = {
        .mask = LE32(FAKERNIC_PORT_MTU), .mtu = LE32(9000),
    };

    wired_start(w);
    wired_introduce(w, slow, slow_macs[0]);
    wired_introduce(w, other, slow_macs[1]);
    assert_status(CMD(&w->n, SET_PORT, port), OK);
}

static void slow_fill(Wired *w, const uint8_t *mac, unsigned frames)
{
    struct fakernic_cqe cqe;

    for (unsigned i = 0; i < frames; i++) {
        wired_post(w, mac, SLOW_FRAME);
        cq_await(&w->n, &w->s.cq, &cqe, FAKERNIC_CQE_SEND,
                 FAKERNIC_WC_SUCCESS);
        queue_record(&w->n, &w->s.cq, w->s.cq.index);
    }
}

/*
 * A slow member takes one frame every 0.5 s. Another member gets all its frames
 * before the slow one has taken two.
 */
static void test_link_slow_member(void)
{
    g_autofree uint8_t *frame = g_malloc(LINK_FRAME_MAX);
    unsigned came = 0;
    Member slow, other;
    uint32_t len;
    Wired w;

    slow_start(&w, &slow, &other);
    slow_fill(&w, slow_macs[0], SLOW_FULL);
    for (unsigned i = 0; i < SLOW_PAIRS; i++) {
        wired_post(&w, slow_macs[0], SLOW_FRAME);
        wired_post(&w, slow_macs[1], 64);
    }
    for (unsigned i = 0; came < SLOW_PAIRS; i++) {
        /* Each wait is shorter than LINK_STALL_NS. */
        g_assert_cmpuint(i, <, 2);
        g_usleep(500000);
        g_assert_cmpuint(member_get(&slow, frame), ==, SLOW_FRAME);
        if (link_ring_frees(&slow.pair.rx)) {
            g_assert_true(link_signal(slow.sock));
        }
        while (link_ring_get(&other.pair.rx, frame, &len) == LINK_RING_OK) {
            came++;
        }
    }
    member_leave(&slow);
    member_leave(&other);
    wired_stop(&w);
}

/*
 * A peer process was stopped and its ring is full. It sends no frames, but it
 * signals that its ring has room again.
 */
static void test_link_room_of_stopped_peer(void)
{
    const struct fakernic_set_port_req port = {
        .mask = LE32(FAKERNIC_PORT_MTU), .mtu = LE32(9000),
    };
    char *folder = link_folder();
    struct fakernic_cqe cqe;
    unsigned sent = 0;
    Two t = { 0 };
    Wired w;

    two_start_apart(&t, folder);
    port_up(&t.n[0], &t.s[0], &w.raw, 0);
    assert_status(CMD(&t.n[0], SET_PORT, port), OK);
    w.m = t.m;
    w.n = t.n[0];
    w.s = t.s[0];
    for (unsigned round = 0; round < 3; round++) {
        g_assert_cmpint(kill(qtest_pid(t.far.qts), SIGSTOP), ==, 0);
        slow_fill(&w, link_macs[1], SLOW_FULL);
        for (unsigned i = 0; i < 8; i++) {
            wired_post(&w, link_macs[1], SLOW_FRAME);
        }
        g_assert_cmpint(kill(qtest_pid(t.far.qts), SIGCONT), ==, 0);
        for (unsigned i = 0; i < 8; i++) {
            cq_await(&w.n, &w.s.cq, &cqe, FAKERNIC_CQE_SEND,
                     FAKERNIC_WC_SUCCESS);
        }
        queue_record(&w.n, &w.s.cq, w.s.cq.index);
        sent += SLOW_FULL + 8;
        /* Its ring must be empty before the next round fills it. */
        for (unsigned i = 0;
             nic_stat(&t.n[1], FAKERNIC_STAT_RX_FRAMES) < sent; i++) {
            g_assert_cmpuint(i, <, 10000);
            g_usleep(1000);
        }
    }
    two_stop(&t);
    link_folder_end(folder);
}

/* Takes half of the frames of its ring, and one more. */
static void slow_take(Member *slow)
{
    g_autofree uint8_t *frame = g_malloc(LINK_FRAME_MAX);

    for (unsigned i = 0; i <= SLOW_FULL / 2; i++) {
        g_assert_cmpuint(member_get(slow, frame), ==, SLOW_FRAME);
    }
    if (link_ring_frees(&slow->pair.rx)) {
        g_assert_true(link_signal(slow->sock));
    }
}

/*
 * A member takes half a ring every two seconds and nothing in between. The
 * other member does not wait that long.
 */
static void test_link_bursty_member(void)
{
    g_autofree uint8_t *frame = g_malloc(LINK_FRAME_MAX);
    struct fakernic_cqe cqe;
    Member slow, other;
    uint32_t len;
    Wired w;

    slow_start(&w, &slow, &other);
    slow_fill(&w, slow_macs[0], SLOW_FULL);
    for (unsigned i = 0; i < 3; i++) {
        wired_post(&w, slow_macs[0], SLOW_FRAME);
        wired_post(&w, slow_macs[1], 64);
        g_usleep(2000000);
        g_assert_cmpint(link_ring_get(&other.pair.rx, frame, &len), ==,
                        LINK_RING_OK);
        g_assert_cmpuint(len, ==, 64);
        for (unsigned k = 0; k < 2; k++) {
            cq_await(&w.n, &w.s.cq, &cqe, FAKERNIC_CQE_SEND,
                     FAKERNIC_WC_SUCCESS);
        }
        slow_take(&slow);
        slow_fill(&w, slow_macs[0], SLOW_FULL / 2 + 1);
    }
    member_leave(&slow);
    member_leave(&other);
    wired_stop(&w);
}

#define REJOIN_US       300000
#define REJOIN_TIME_US  (6 * G_USEC_PER_SEC)

_Static_assert(SLOW_FULL % 4 == 0, "bursts fill a ring");

/* Sends a frame to a full ring, then one to the other member. Returns how long
 * the second one had to wait. */
static int64_t rejoin_pair(Wired *w, Member *other)
{
    const int64_t since = unhindered_us(&w->m);
    g_autofree uint8_t *frame = g_malloc(LINK_FRAME_MAX);
    struct fakernic_cqe cqe;

    wired_post(w, slow_macs[0], SLOW_FRAME);
    wired_post(w, slow_macs[1], 64);
    for (unsigned i = 0; i < 2; i++) {
        cq_await(&w->n, &w->s.cq, &cqe, FAKERNIC_CQE_SEND,
                 FAKERNIC_WC_SUCCESS);
    }
    queue_record(&w->n, &w->s.cq, w->s.cq.index);
    g_assert_cmpuint(member_get(other, frame), ==, 64);
    return unhindered_us(&w->m) - since;
}

#define REJOIN_BURST 29         /* a quarter of SLOW_FULL */

/* The member takes one ring of frames, then none until its ring is full. The
 * frames that it took give it no credit. */
static void rejoin_fill(Wired *w, Member *again)
{
    g_autofree uint8_t *frame = g_malloc(LINK_FRAME_MAX);
    Wqe wqe = wqe_send(&w->s, 0, SLOW_FRAME);
    struct fakernic_cqe cqe;

    frame_make(frame, slow_macs[0], SLOW_FRAME);
    memcpy(frame + 6, nic_mac, 6);
    qtest_memwrite(w->m.qts, w->s.data, frame, SLOW_FRAME);
    for (unsigned i = 0; i < 2 * SLOW_FULL; i += REJOIN_BURST) {
        for (unsigned k = 0; k < REJOIN_BURST; k++) {
            sq_put(&w->n, &w->raw, &wqe, sizeof(wqe));
        }
        sq_ring(&w->n, &w->raw);
        for (unsigned k = 0; k < REJOIN_BURST; k++) {
            cq_await(&w->n, &w->s.cq, &cqe, FAKERNIC_CQE_SEND,
                     FAKERNIC_WC_SUCCESS);
        }
        queue_record(&w->n, &w->s.cq, w->s.cq.index);
        for (unsigned k = 0; i < SLOW_FULL && k < REJOIN_BURST; k++) {
            member_get(again, frame);
        }
    }
}

/*
 * A member that takes no frames leaves and joins again every 0.3 s. The others
 * lose a tenth of the time, plus once the time that stall.h states.
 */
static void rejoin_run(bool apart, int64_t once_us)
{
    const int64_t begin = g_get_monotonic_time();
    int64_t lost = 0, now = begin;
    Member other, again;
    Wired w;

    slow_start(&w, &again, &other);
    member_leave(&again);
    while (now < begin + REJOIN_TIME_US) {
        const int64_t leaves = now + REJOIN_US;

        again.sock = apart ? member_connect_apart(w.folder, 1) :
                             member_connect(w.folder);
        member_greet(&again);
        rq_post(&w.n, &w.raw.rq, 0, w.s.data, 2048, w.s.key);
        memcpy(w.frame + 6, slow_macs[0], 6);
        wired_put(&w, &again);
        member_signal(&again);
        wired_expect(&w);
        rejoin_fill(&w, &again);
        while (now < leaves) {
            const int64_t took = rejoin_pair(&w, &other);

            lost += took > 5000 ? took : 0;
            now = g_get_monotonic_time();
        }
        member_leave(&again);
    }
    g_test_message("others lost %" PRId64 " of %" PRId64 " us", lost,
                   now - begin);
    g_assert_cmpint(lost, <, (now - begin) / 10 + once_us);
    member_leave(&other);
    wired_stop(&w);
}

static void test_link_rejoin(void)
{
    rejoin_run(false, 250000);
}

/* Another process joins each time. */
static void test_link_rejoin_other_process(void)
{
    rejoin_run(true, 450000);
}

#define FLOOD_PEERS  32
/* 16 frames of this size fill a ring. */
#define FLOOD_FRAME  (LINK_RING_SIZE / 16 - LINK_RECORD_ALIGN)
#define FLOOD_ROUNDS 20

typedef struct Flood {
    Member peers[FLOOD_PEERS];
    bool ended;
} Flood;

static void flood_prepare(Member *p, const char *folder)
{
    const uint32_t len = FLOOD_FRAME;

    member_join(p, folder);
    for (unsigned i = 0; i < 16; i++) {
        uint8_t *record = p->pair.tx.data + i * (LINK_RING_SIZE / 16);

        memcpy(record, &len, sizeof(len));
        memset(record + LINK_RECORD_ALIGN, 2, 2 * sizeof(nic_mac));
    }
}

/* Fills the rings again as soon as the device takes a frame. */
static void *flood_run(void *opaque)
{
    Flood *f = opaque;

    while (!qatomic_read(&f->ended)) {
        for (unsigned i = 0; i < FLOOD_PEERS; i++) {
            LinkControl *tx = f->peers[i].pair.tx.control;

            qatomic_set(&tx->tail, qatomic_read(&tx->head) + LINK_RING_SIZE);
            if (qatomic_read(&tx->asleep)) {
                link_signal(f->peers[i].sock);
            }
        }
    }
    return NULL;
}

/* All members send as fast as possible to a device that is not enabled. */
static void test_link_flood(void)
{
    char *folder = link_folder();
    Flood f = { 0 };
    GThread *thread;
    Machine m;

    machine_start(&m, LINK_DEVICE, folder);
    for (unsigned i = 0; i < FLOOD_PEERS; i++) {
        flood_prepare(&f.peers[i], folder);
    }
    thread = g_thread_new("flood", flood_run, &f);
    for (unsigned i = 0; i < FLOOD_ROUNDS; i++) {
        monitor_must_answer(&m, "a flood", main_cpu_us(&m));
    }
    qatomic_set(&f.ended, true);
    g_thread_join(thread);
    for (unsigned i = 0; i < FLOOD_PEERS; i++) {
        g_assert_cmpuint(f.peers[i].pair.tx.control->head, >, 0);
        member_leave(&f.peers[i]);
    }
    machine_stop(&m);
    link_folder_end(folder);
}

/* Lies about the reader's index. The device knows the true one, as the ring
 * has been full since. */
static void head_ahead(Member *p)
{
    qatomic_set(&p->pair.rx.control->head, qatomic_read(
        &p->pair.rx.control->tail) + LINK_RECORD_ALIGN);
}

static void head_far(Member *p)
{
    qatomic_set(&p->pair.rx.control->head, p->pair.rx.head + 0x7ffffff8);
}

static void head_odd(Member *p)
{
    qatomic_set(&p->pair.rx.control->head, p->pair.rx.head + 3);
}

static void head_back(Member *p)
{
    qatomic_set(&p->pair.rx.control->head, p->pair.rx.head - LINK_RECORD_ALIGN);
}

static void (*const heads[])(Member *) = {
    head_ahead, head_far, head_odd, head_back,
};

/* A reader lies about its index, also while the device waits for room. The
 * device ends its connection. */
static void test_link_lying_reader(void)
{
    struct fakernic_cqe cqe;
    Member liar, other;
    Wired w;

    slow_start(&w, &liar, &other);
    for (unsigned i = 0; i < 2 * ARRAY_SIZE(heads); i++) {
        const bool waits = i >= ARRAY_SIZE(heads);

        slow_fill(&w, slow_macs[0], SLOW_FULL);
        slow_take(&liar);
        slow_fill(&w, slow_macs[0], SLOW_FULL / 2 + 1);
        if (waits) {
            wired_post(&w, slow_macs[0], SLOW_FRAME);
        }
        heads[i % ARRAY_SIZE(heads)](&liar);
        g_assert_true(link_signal(liar.sock));
        wired_post(&w, slow_macs[0], SLOW_FRAME);
        for (unsigned k = 0; k <= waits; k++) {
            cq_await(&w.n, &w.s.cq, &cqe, FAKERNIC_CQE_SEND,
                     FAKERNIC_WC_SUCCESS);
        }
        member_expect_end(&liar);
        honest_still_reaches_device(&w, &other);
        /* No member has its address now: the next liar takes it. */
        wired_introduce(&w, &liar, slow_macs[0]);
        rq_post(&w.n, &w.raw.rq, 0, w.s.data, 2048, w.s.key);
        memcpy(w.frame + 6, slow_macs[1], 6);
    }
    member_leave(&liar);
    member_leave(&other);
    wired_end(&w);
}

/* Receives all pending signals. Returns their number. */
static unsigned member_signals(Member *p)
{
    unsigned signals = 0;
    char byte;

    while (recv(p->sock, &byte, 1, MSG_DONTWAIT) > 0) {
        signals++;
    }
    return signals;
}

#define BURST 16

/* One doorbell for BURST sends. The member takes the frames at the end. */
static void wired_burst(Wired *w, Member *p, const uint8_t *to)
{
    g_autofree uint8_t *frame = g_malloc(LINK_FRAME_MAX);
    struct fakernic_cqe cqe;
    Wqe wqe = wqe_send(&w->s, 0, 64);

    frame_make(frame, to, 64);
    qtest_memwrite(w->m.qts, w->s.data, frame, 64);
    for (unsigned i = 0; i < BURST; i++) {
        sq_put(&w->n, &w->raw, &wqe, sizeof(wqe));
    }
    sq_ring(&w->n, &w->raw);
    for (unsigned i = 0; i < BURST; i++) {
        cq_await(&w->n, &w->s.cq, &cqe, FAKERNIC_CQE_SEND,
                 FAKERNIC_WC_SUCCESS);
    }
    queue_record(&w->n, &w->s.cq, w->s.cq.index);
    for (unsigned i = 0; i < BURST; i++) {
        g_assert_cmpuint(member_get(p, frame), ==, 64);
    }
}

/*
 * One signal, which is a system call, per batch: a sleeping member gets one for
 * any number of frames. A member that is awake or already signalled gets none.
 */
static void test_link_signals(void)
{
    Member peer;
    Wired w;

    wired_start(&w);
    wired_introduce(&w, &peer, slow_macs[0]);
    g_assert_cmpuint(member_signals(&peer), ==, 0);
    for (unsigned i = 0; i < 3; i++) {
        wired_burst(&w, &peer, slow_macs[0]);
        g_assert_cmpuint(member_signals(&peer), ==, 0);
        g_assert_true(link_ring_sleep(&peer.pair.rx));
        wired_burst(&w, &peer, slow_macs[0]);
        g_assert_cmpuint(member_signals(&peer), ==, 1);
        wired_burst(&w, &peer, slow_macs[0]);
        g_assert_cmpuint(member_signals(&peer), ==, 0);
        link_ring_wake(&peer.pair.rx);
    }
    member_leave(&peer);
    wired_stop(&w);
}

/*
 * A peer has emptied its ring and sleeps without reporting the room. The
 * watchdog of the device finds the room and counts a lost wake-up. If the
 * device finds the room before the peer sleeps, the test tries again.
 */
static void test_link_watchdog_room(void)
{
    const struct fakernic_set_port_req port = {
        .mask = LE32(FAKERNIC_PORT_MTU), .mtu = LE32(9000),
    };
    struct fakernic_cqe cqe;
    LinkControl *control;
    Member peer;
    Wired w;

    wired_start(&w);
    wired_introduce(&w, &peer, slow_macs[0]);
    assert_status(CMD(&w.n, SET_PORT, port), OK);
    control = peer.pair.rx.control;
    for (unsigned i = 1; !lost_wakeups(&w.m); i++) {
        g_assert_cmpuint(i, <, 100);
        slow_fill(&w, slow_macs[0], SLOW_FULL);
        wired_post(&w, slow_macs[0], SLOW_FRAME);
        qatomic_set(&control->head, qatomic_read(&control->tail));
        qatomic_set(&control->asleep, i);
        cq_await(&w.n, &w.s.cq, &cqe, FAKERNIC_CQE_SEND, FAKERNIC_WC_SUCCESS);
        queue_record(&w.n, &w.s.cq, w.s.cq.index);
        qatomic_set(&control->asleep, 0);
        qatomic_set(&control->head, qatomic_read(&control->tail));
    }
    member_leave(&peer);
    wired_stop_lost(&w, 1);
}

/* ---- the poll doorbell --------------------------------------------------- */

static uint64_t poll_drops(Nic *n, uint64_t word)
{
    uint64_t before = nic_stat(n, FAKERNIC_STAT_DOORBELL_DROPPED);

    ring(n, 0, FAKERNIC_DOORBELL_POLL, word);
    return nic_stat(n, FAKERNIC_STAT_DOORBELL_DROPPED) - before;
}

/*
 * Without a link and an emulated CPU the device has no poll doorbell. With a
 * link it drops the doorbells of a driver that has not enabled the feature.
 */
static void test_poll_refused(void)
{
    char *folder = link_folder();
    Machine m;
    Nic n;

    start_enabled(&m, &n);
    g_assert_false(nic_offered(&n) & (FAKERNIC_FEATURE_POLL_DOORBELL |
                                      FAKERNIC_FEATURE_POLL_SELDOM));
    g_assert_cmpuint(poll_drops(&n, 0), ==, 1);
    g_free(n.pci);
    machine_stop(&m);
    link_start_one(&m, &n, folder);
    g_assert_true(nic_offered(&n) & FAKERNIC_FEATURE_POLL_DOORBELL);
    g_assert_false(nic_offered(&n) & FAKERNIC_FEATURE_POLL_SELDOM);
    g_assert_cmpuint(poll_drops(&n, 0), ==, 0);
    g_assert_cmpuint(poll_drops(&n, 1), ==, 1);
    nic_reset(&n);
    nic_set_features(&n, nic_offered(&n) & ~FAKERNIC_FEATURE_POLL_DOORBELL);
    nic_set_cmdq(&n, n.cmd_sq, n.cmd_cq, 4);
    qtest_memset(m.qts, n.cmd_cq, 0, 16 * sizeof(struct fakernic_cmd));
    reg_write(&n, FAKERNIC_REG_CONTROL, FAKERNIC_CONTROL_ENABLE);
    g_assert_cmpuint(poll_drops(&n, 0), ==, 1);
    g_free(n.pci);
    machine_stop(&m);
    link_folder_end(folder);
}

/* The poll doorbell receives a frame that the peer has not signalled. */
static void test_poll_takes(void)
{
    struct fakernic_cqe cqe;
    LinkControl *control;
    Member peer;
    Wired w;

    wired_start(&w);
    member_join(&peer, w.folder);
    control = peer.pair.tx.control;
    wired_put(&w, &peer);
    ring(&w.n, 0, FAKERNIC_DOORBELL_POLL, 0);
    cq_expect(&w.n, &w.s.cq, &cqe, FAKERNIC_CQE_RECV, FAKERNIC_WC_SUCCESS);
    /* Without more polls the device sleeps, and asks for signals. */
    for (unsigned i = 0; !qatomic_read(&control->asleep); i++) {
        g_assert_cmpuint(i, <, 30000);
        g_usleep(1000);
    }
    g_assert_cmpuint(qatomic_read(&control->polled), ==, 0);
    wired_put(&w, &peer);
    member_signal(&peer);
    wired_expect(&w);
    member_leave(&peer);
    wired_stop(&w);
}

/* A reader polls when the frame arrives, so it gets no signal, and then stops
 * polling. The next poll doorbell of the sender signals it. */
static void test_poll_reminds(void)
{
    const uint64_t ever = UINT64_MAX / 2, once = 1;
    struct pollfd silent = { .events = POLLIN };
    LinkControl *control;
    Member peer;
    Wired w;

    wired_start(&w);
    member_join(&peer, w.folder);
    control = peer.pair.rx.control;
    silent.fd = peer.sock;
    qatomic_set(&control->polled, ever);
    wired_send(&w, nic_mac);
    ring(&w.n, 0, FAKERNIC_DOORBELL_POLL, 0);
    g_assert_true(link_ring_filled(&peer.pair.rx));
    g_assert_cmpint(poll(&silent, 1, 0), ==, 0);
    qatomic_set(&control->polled, once);
    ring(&w.n, 0, FAKERNIC_DOORBELL_POLL, 0);
    g_assert_true(member_readable(&peer));
    member_leave(&peer);
    wired_stop(&w);
}

/* A frozen device keeps other doorbells, however often a guest polls. */
static void test_poll_frozen(void)
{
    char *folder = link_folder();
    Two t = { 0 };

    two_start(&t, folder, folder);
    fill(&t.n[0], &t.s[0], 0, DATA_SIZE / 2);
    fault(&t.m, "id=cold at=device do=freeze");
    for (unsigned i = 0; i < 50; i++) {
        qtest_qmp_assert_success(t.m.qts, "{ 'execute': 'query-status' }");
    }
    two_write(&t, 0);
    for (unsigned i = 0; i < 1100; i++) {
        ring(&t.n[0], 0, FAKERNIC_DOORBELL_POLL, 0);
    }
    fault(&t.m, "remove=cold");
    two_written(&t, 0);
    two_stop(&t);
    link_folder_end(folder);
}

const FakernicTest fakernic_link_tests[] = {
    { "link/writes-and-stops", test_link_writes_and_stops },
    { "link/no-retransmission", test_link_no_retransmission },
    { "link/load", test_link_load },
    { "link/load-two-processes", test_link_load_two_processes },
    { "link/unplug", test_link_unplug },
    { "link/killed", test_link_killed },
    { "link/lying-members", test_link_lying_members },
    { "link/lying-newcomer", test_link_lying_newcomer },
    { "link/lying-reader", test_link_lying_reader },
    { "link/random-writes", test_link_random_writes },
    { "link/signals", test_link_signals },
    { "link/invalid-messages", test_link_invalid_messages },
    { "link/closed", test_link_closed },
    { "link/silent", test_link_silent },
    { "link/too-many-connections", test_link_too_many_connections },
    { "link/too-many-processes", test_link_too_many_processes },
    { "link/connections-per-process", test_link_connections_per_process },
    { "link/lingering-socket", test_link_lingering_socket },
    { "link/lingering-socket-at-quit", test_link_lingering_socket_at_quit },
    { "link/rejoin", test_link_rejoin },
    { "link/rejoin-other-process", test_link_rejoin_other_process },
    { "link/flood", test_link_flood },
    { "link/refused", test_link_refused },
    { "link/no-descriptor-left", test_link_no_descriptor_left },
    { "link/one-descriptor-left", test_link_one_descriptor_left },
    { "link/stopped", test_link_stopped },
    { "link/addresses", test_link_addresses },
    { "link/many-addresses", test_link_many_addresses },
    { "link/watchdog", test_link_watchdog },
    { "link/watchdog-room", test_link_watchdog_room },
    { "link/room-of-stopped-peer", test_link_room_of_stopped_peer },
    { "link/slow-member", test_link_slow_member },
    { "link/bursty-member", test_link_bursty_member },
    { "link/ack-before-timer", test_link_ack_before_timer },
    { "link/poll/refused", test_poll_refused },
    { "link/poll/takes", test_poll_takes },
    { "link/poll/reminds", test_poll_reminds },
    { "link/poll/frozen", test_poll_frozen },
    { NULL }
};
