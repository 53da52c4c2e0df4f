/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The Ethernet port and the wire: frames through a netdev, two devices, links
 * that go down or fail.
 */
#include "qemu/osdep.h"
#include <linux/filter.h>
#include <linux/if_packet.h>
#include <linux/if_tun.h>
#include <linux/seccomp.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include "libqos/fw_cfg.h"
#include "fakernic-setup.h"

/* ---- a tap with several queues ---------------------------------------- */

#define TAP_QUEUES_MAX 4
#define TAP_FLOWS      64

/* A tap in a new network namespace, which lives as long as the sockets. */
typedef struct Tap {
    int queues[TAP_QUEUES_MAX];
    int wire;                   /* a packet socket that sends to the tap */
} Tap;

static void tap_up(Tap *tap, struct ifreq *request)
{
    struct sockaddr_ll address = { .sll_family = AF_PACKET };

    tap->wire = socket(AF_PACKET, SOCK_RAW, 0);
    g_assert_cmpint(tap->wire, >=, 0);
    address.sll_ifindex = if_nametoindex(request->ifr_name);
    g_assert_cmpint(bind(tap->wire, (struct sockaddr *)&address,
                         sizeof(address)), ==, 0);
    request->ifr_flags = IFF_UP;
    g_assert_cmpint(ioctl(tap->wire, SIOCSIFFLAGS, request), ==, 0);
}

static void tap_open(Tap *tap, unsigned queues)
{
    struct ifreq request = {
        .ifr_name = "tap0",
        .ifr_flags = IFF_TAP | IFF_NO_PI | IFF_MULTI_QUEUE,
    };
    const int home = open("/proc/self/ns/net", O_RDONLY);

    g_assert_cmpint(unshare(CLONE_NEWNET), ==, 0);
    for (unsigned i = 0; i < queues; i++) {
        tap->queues[i] = open("/dev/net/tun", O_RDWR);
        if (tap->queues[i] < 0) {
            g_error("/dev/net/tun does not open: load the module tun");
        }
        g_assert_cmpint(ioctl(tap->queues[i], TUNSETIFF, &request), ==, 0);
    }
    tap_up(tap, &request);
    g_assert_cmpint(setns(home, CLONE_NEWNET), ==, 0);
    close(home);
}

/* Sends a frame of each flow. The kernel chooses its queue by its addresses. */
static void tap_send(const Tap *tap)
{
    uint8_t frame[64];

    for (unsigned i = 0; i < TAP_FLOWS; i++) {
        memset(frame, 0, sizeof(frame));
        frame_make(frame, nic_mac, ETH_HLEN);
        stw_be_p(frame + 12, ETH_P_IP);
        frame[14] = 0x45;
        stw_be_p(frame + 16, sizeof(frame) - ETH_HLEN);
        frame[22] = 64;
        frame[23] = IPPROTO_UDP;
        stl_be_p(frame + 26, 0x0a000002);
        stl_be_p(frame + 30, 0x0a000001);
        stw_be_p(frame + 34, 1024 + i);
        stw_be_p(frame + 36, 9);
        stw_be_p(frame + 38, sizeof(frame) - 34);
        g_assert_cmpint(send(tap->wire, frame, sizeof(frame), 0), ==,
                        sizeof(frame));
    }
}

/*
 * Frames that wait at the netdev of a device in D3hot arrive after D0, of all
 * flows, and so do later frames. No receive is posted, so the test counts the
 * frames that were dropped for that reason.
 */
static void tap_test(unsigned queues)
{
    g_autoptr(GString) fds = g_string_new(NULL);
    Machine m;
    Nic n;
    Setup s;
    Qp raw;
    Tap tap;

    tap_open(&tap, queues);
    for (unsigned i = 0; i < queues; i++) {
        g_string_append_printf(fds, "%s%d", i ? ":" : "", tap.queues[i]);
    }
    machine_start(&m, "-netdev tap,id=n0,fds=%s %s,netdev=n0", fds->str,
                  DEVICE);
    nic_find(&n, &m, SLOT);
    nic_bringup(&n);
    setup(&n, &s);
    port_up(&n, &s, &raw, FAKERNIC_FILTER_BROADCAST);
    tap_send(&tap);
    wait_stat(&n, FAKERNIC_STAT_RX_NO_BUFFER, TAP_FLOWS);
    set_power_state(&n, 3);
    tap_send(&tap);
    main_loop_turns(&m, 100);
    set_power_state(&n, 0);
    wait_stat(&n, FAKERNIC_STAT_RX_NO_BUFFER, 2 * TAP_FLOWS);
    tap_send(&tap);
    wait_stat(&n, FAKERNIC_STAT_RX_NO_BUFFER, 3 * TAP_FLOWS);
    g_free(n.pci);
    machine_stop(&m);
    close(tap.wire);
    for (unsigned i = 0; i < queues; i++) {
        close(tap.queues[i]);
    }
}

static void test_tap_two_queues(void)
{
    tap_test(2);
}

static void test_tap_four_queues(void)
{
    tap_test(4);
}

/* ---- properties that other cards have, too ------------------------------- */

/* The firmware's list of boot devices contains the card. */
static void test_bootindex(void)
{
    char list[256] = "";
    QFWCFG *fw_cfg;
    Machine m;

    machine_start(&m, "%s,bootindex=1", DEVICE);
    fw_cfg = pc_fw_cfg_init(m.qts);
    qfw_cfg_get_file(fw_cfg, "bootorder", list, sizeof(list) - 1);
    g_assert_cmpstr(list, ==, "/pci@i0cf8/ethernet@4/ethernet-phy@0");
    pc_fw_cfg_uninit(fw_cfg);
    machine_stop(&m);
}

/* Denies setpriority() to this process, as QEMU's sandbox does with
 * resourcecontrol=deny. */
static void deny_setpriority(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_setpriority, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { ARRAY_SIZE(code), code };

    g_assert_cmpint(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), ==, 0);
    g_assert_cmpint(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), ==,
                    0);
}

/* QEMU warns once that cpu-nice has no effect, not once per CPU. */
static void test_cpu_nice_denied(void)
{
    Machine m;

    if (g_test_subprocess()) {
        deny_setpriority();
        machine_start(&m, "-smp 4 %s,cpu-nice=10", DEVICE);
        main_loop_turns(&m, 100);
        machine_stop(&m);
        return;
    }
    g_test_trap_subprocess(NULL, 0, 0);
    g_test_trap_assert_passed();
    g_test_trap_assert_stderr("*warning: fakernic: property 'cpu-nice'*");
    g_test_trap_assert_stderr_unmatched("*'cpu-nice'*'cpu-nice'*");
}

/* ---- the port -------------------------------------------------------- */

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
    /* Filtered while the port has no QP; then dropped for lack of a receive. */
    g_assert_cmpint(send(fd, frame, 60, 0), ==, 60);
    wait_stat(&n, FAKERNIC_STAT_RX_FILTERED, 1);
    port_up(&n, &s, &raw, FAKERNIC_FILTER_PROMISCUOUS);
    g_assert_cmpint(send(fd, frame, 60, 0), ==, 60);
    wait_stat(&n, FAKERNIC_STAT_RX_NO_BUFFER, 1);
    /* The port's QP is destroyed: the device filters frames again. */
    assert_status(cmd_id(&n, FAKERNIC_CMD_DESTROY_QP, raw.qpn), OK);
    g_assert_cmpint(send(fd, frame, 60, 0), ==, 60);
    wait_stat(&n, FAKERNIC_STAT_RX_FILTERED, 2);
    g_assert_cmpuint(nic_stat(&n, FAKERNIC_STAT_RX_NO_BUFFER), ==, 1);
    g_assert_false(cq_poll(&n, &s.cq, &cqe));
    close(fd);
    machine_stop(&m);
}

/* Random frames of all sizes do no harm. */
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

    setup_pair(&n, &s, &a, &b);
    for (size_t len = 1; len < sizeof(frame); len += 13) {
        for (size_t i = 0; i < len; i++) {
            frame[i] = g_rand_int(rand);
        }
        /* Half of the longer ones are IPv4 packets to UDP port 4791. */
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

/* A stream can carry an empty frame. The device drops it; the next arrives. */
static void test_empty_frame(void)
{
    Machine m;
    Nic n;
    Setup s;
    Qp raw;
    struct fakernic_cqe cqe;
    uint8_t wire[4 + 4 + 60];
    int fds[2];

    g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), ==, 0);
    machine_start(&m, "-netdev socket,id=n0,fd=%d %s,netdev=n0", fds[1],
                  DEVICE);
    close(fds[1]);
    nic_find(&n, &m, SLOT);
    nic_bringup(&n);
    setup(&n, &s);
    port_up(&n, &s, &raw, 0);
    rq_post(&n, &raw.rq, 7, s.data, 2048, s.key);
    stl_be_p(wire, 0);
    stl_be_p(wire + 4, 60);
    frame_make(wire + 8, nic_mac, 60);
    g_assert_cmpint(write(fds[0], wire, sizeof(wire)), ==, sizeof(wire));
    cq_expect(&n, &s.cq, &cqe, FAKERNIC_CQE_RECV, FAKERNIC_WC_SUCCESS);
    g_assert_cmpuint(le32_to_cpu(cqe.byte_count), ==, 60);
    g_assert_cmpuint(nic_stat(&n, FAKERNIC_STAT_DROP_SHORT), ==, 1);
    close(fds[0]);
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

static uint8_t port_enable(Nic *n, uint8_t enabled)
{
    struct fakernic_set_port_req req = {
        .mask = LE32(FAKERNIC_PORT_ENABLED),
        .enabled = enabled,
    };

    return CMD(n, SET_PORT, req);
}

/* One frame in each direction. The device has had time for the one it gets. */
static void port_exchange(Nic *n, Setup *s, Qp *raw, int fd)
{
    struct fakernic_cqe cqe;
    uint8_t frame[60];
    Wqe wqe = wqe_send(s, 0, sizeof(frame));

    sq_put(n, raw, &wqe, sizeof(wqe));
    sq_ring(n, raw);
    cq_expect(n, &s->cq, &cqe, FAKERNIC_CQE_SEND, FAKERNIC_WC_SUCCESS);
    frame_make(frame, nic_mac, sizeof(frame));
    wire_send(fd, frame, sizeof(frame));
    main_loop_turns(n->m, 10);
}

/* A disabled port drops frames as if the link were down. It reports no event,
 * QUERY_PORT shows the link up, and loopback works. */
static void test_disabled(void)
{
    Machine m;
    Nic n;
    Setup s;
    Qp raw, a, b;
    struct fakernic_query_port_resp resp;
    struct fakernic_cqe cqe;
    struct fakernic_eqe eqe;
    int fd = start_wired(&m, &n);
    Wqe wqe;

    setup_pair(&n, &s, &a, &b);
    port_up(&n, &s, &raw, 0);
    assert_status(port_enable(&n, 0), OK);
    port_exchange(&n, &s, &raw, fd);
    g_assert_cmpuint(nic_stat(&n, FAKERNIC_STAT_TX_DROPPED), ==, 1);
    g_assert_cmpuint(nic_stat(&n, FAKERNIC_STAT_TX_FRAMES), ==, 0);
    g_assert_cmpuint(nic_stat(&n, FAKERNIC_STAT_RX_FRAMES), ==, 0);
    g_assert_false(eq_poll(&n, &s.async, &eqe));
    assert_status(cmd(&n, FAKERNIC_CMD_QUERY_PORT, NULL, 0, &resp,
                      sizeof(resp)), OK);
    g_assert_cmpuint(resp.link_up, ==, 1);
    wqe = wqe_rdma(&s, FAKERNIC_SQ_RDMA_WRITE, 0, 16384, 64);
    sq_put(&n, &a, &wqe, sizeof(wqe));
    sq_ring(&n, &a);
    cq_expect(&n, &s.cq, &cqe, FAKERNIC_CQE_RDMA_WRITE, FAKERNIC_WC_SUCCESS);
    assert_status(port_enable(&n, 1), OK);
    port_exchange(&n, &s, &raw, fd);
    g_assert_cmpuint(nic_stat(&n, FAKERNIC_STAT_TX_FRAMES), ==, 1);
    g_assert_cmpuint(nic_stat(&n, FAKERNIC_STAT_RX_FRAMES), ==, 1);
    close(fd);
    machine_stop(&m);
}

static void test_disabled_until_reset(void)
{
    Machine m;
    Nic n;
    Setup s;
    Qp raw;
    int fd = start_wired(&m, &n);

    assert_status(port_enable(&n, 0), OK);
    nic_reset(&n);
    nic_bringup(&n);
    setup(&n, &s);
    port_up(&n, &s, &raw, 0);
    port_exchange(&n, &s, &raw, fd);
    g_assert_cmpuint(nic_stat(&n, FAKERNIC_STAT_TX_FRAMES), ==, 1);
    g_assert_cmpuint(nic_stat(&n, FAKERNIC_STAT_RX_FRAMES), ==, 1);
    close(fd);
    machine_stop(&m);
}

static void test_disabled_refused(Rig *r)
{
    assert_status(port_enable(&r->n, 2), BAD_PARAM);
    nic_reset(&r->n);
    nic_set_features(&r->n,
                     nic_offered(&r->n) & ~FAKERNIC_FEATURE_PORT_DISABLE);
    nic_set_cmdq(&r->n, r->n.cmd_sq, r->n.cmd_cq, 4);
    qtest_memset(r->m.qts, r->n.cmd_cq, 0,
                 16 * sizeof(struct fakernic_cmd_completion));
    reg_write(&r->n, FAKERNIC_REG_CONTROL, FAKERNIC_CONTROL_ENABLE);
    assert_status(port_enable(&r->n, 1), BAD_PARAM);
}

/* Two devices on a hub in one process: frames arrive while others leave. */
static void test_two_devices(void)
{
    Neighbours t;
    uint8_t x[20000], y[20000];

    neighbours_start(&t, "", "");
    for (unsigned round = 0; round < 5; round++) {
        fill(&t.nics[0], &t.s[0], 0, sizeof(x));
        qtest_memset(t.m.qts, t.s[0].data, round, 100);
        neighbours_write(&t, sizeof(x));
        qtest_memread(t.m.qts, t.s[0].data, x, sizeof(x));
        qtest_memread(t.m.qts, t.s[1].data, y, sizeof(y));
        g_assert_cmpmem(x, sizeof(x), y, sizeof(y));
    }
    g_assert_cmpuint(nic_stat(&t.nics[0], FAKERNIC_STAT_RETRANSMITS), ==, 0);
    g_assert_cmpuint(nic_stat(&t.nics[0], FAKERNIC_STAT_PROBES), ==, 0);
    machine_stop(&t.m);
}

/* A hub without another port never takes a frame. */
static void test_blocked_netdev(void)
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
    /* After a timeout all complete: one frame waits, the others are dropped. */
    for (unsigned i = 0; i < 8; i++) {
        for (unsigned tries = 0; !cq_poll(&n, &s.cq, &cqe); tries++) {
            g_assert_cmpuint(tries, <, 100);
            qtest_clock_step(m.qts, 10000000);
        }
        g_assert_cmpuint(cqe.status, ==, FAKERNIC_WC_SUCCESS);
    }
    g_assert_cmpuint(nic_stat(&n, FAKERNIC_STAT_TX_DROPPED), ==, 7);
    /* Loopback does not wait for the wire. */
    wqe = wqe_rdma(&s, FAKERNIC_SQ_RDMA_WRITE, 0, 4096, 3000);
    sq_put(&n, &a, &wqe, sizeof(wqe));
    sq_ring(&n, &a);
    cq_expect(&n, &s.cq, &cqe, FAKERNIC_CQE_RDMA_WRITE, FAKERNIC_WC_SUCCESS);
    machine_stop(&m);
}

/* ---- checksums and long segments -------------------------------------- */

#define TCP_AT (14 + 20)
#define TCP_DATA (TCP_AT + 20)

static unsigned ones_sum(unsigned sum, const uint8_t *p, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        sum += p[i] << (i % 2 ? 0 : 8);
    }
    return sum % 0xffff;
}

/* A TCP segment over IPv4 without checksums; its data differ in each place. */
static void tcp_make(uint8_t *frame, const uint8_t *dst, size_t len)
{
    frame_make(frame, dst, len);
    stw_be_p(frame + 12, 0x0800);
    memset(frame + 14, 0, TCP_DATA - 14);
    frame[14] = 0x45;
    stw_be_p(frame + 16, len - 14);
    frame[22] = 64;
    frame[23] = 6;
    memcpy(frame + 26, "\x0a\x00\x00\x01\x0a\x00\x00\x02", 8);
    stl_be_p(frame + TCP_AT + 4, 1000);
    frame[TCP_AT + 12] = 5 << 4;
    frame[TCP_AT + 13] = 0x18;
    for (size_t i = TCP_DATA; i < len; i++) {
        frame[i] = i * 7 + (i >> 8);
    }
}

static bool tcp_good(const uint8_t *frame, size_t len)
{
    const unsigned pseudo = ones_sum(6 + len - TCP_AT, frame + 26, 8);

    return ones_sum(0, frame + 14, 20) == 0 &&
           ones_sum(pseudo, frame + TCP_AT, len - TCP_AT) == 0;
}

static void tcp_receive(Nic *n, Setup *s, int fd, const uint8_t *frame,
                        size_t len, uint8_t flags, unsigned wrong)
{
    struct fakernic_cqe cqe;

    wire_send(fd, frame, len);
    cq_expect(n, &s->cq, &cqe, FAKERNIC_CQE_RECV, FAKERNIC_WC_SUCCESS);
    g_assert_cmpuint(le32_to_cpu(cqe.byte_count), ==, len);
    g_assert_cmpuint(cqe.flags, ==, flags);
    g_assert_cmpuint(nic_stat(n, FAKERNIC_STAT_RX_CSUM_WRONG), ==, wrong);
}

/* Sends this frame with the offloads that the header 'asks' requests. */
static void raw_send(Nic *n, Setup *s, Qp *raw, const uint8_t *frame,
                     size_t len, const struct fakernic_sq_hdr *asks)
{
    Wqe wqe = wqe_send(s, 0, len);

    qtest_memwrite(n->m->qts, s->data, frame, len);
    wqe.hdr.flags |= asks->flags;
    wqe.hdr.mss = asks->mss;
    wqe.hdr.imm_or_key = asks->imm_or_key;
    sq_put(n, raw, &wqe, sizeof(wqe));
    sq_ring(n, raw);
}

static void test_checksums(void)
{
    const struct fakernic_sq_hdr fill_in = {
        .flags = FAKERNIC_SQ_IP_CSUM | FAKERNIC_SQ_L4_CSUM,
    };
    static const uint8_t peer[6] = { 2, 0, 0, 0, 0, 9 };
    const uint8_t good = FAKERNIC_CQE_IP_CSUM_OK | FAKERNIC_CQE_L4_CSUM_OK;
    Machine m;
    Nic n;
    Setup s;
    Qp raw;
    struct fakernic_cqe cqe;
    uint8_t frame[1514], seen[2000];
    int fd = start_wired(&m, &n);

    setup(&n, &s);
    port_up(&n, &s, &raw, 0);
    tcp_make(frame, peer, sizeof(frame));
    raw_send(&n, &s, &raw, frame, sizeof(frame), &fill_in);
    g_assert_cmpint(wire_receive(fd, seen, sizeof(seen)), ==, sizeof(frame));
    g_assert_true(tcp_good(seen, sizeof(frame)));
    g_assert_cmpmem(seen + TCP_DATA, sizeof(frame) - TCP_DATA,
                    frame + TCP_DATA, sizeof(frame) - TCP_DATA);
    cq_expect(&n, &s.cq, &cqe, FAKERNIC_CQE_SEND, FAKERNIC_WC_SUCCESS);
    /* It arrives: intact, with a wrong data bit, with a wrong header bit. */
    for (unsigned i = 0; i < 4; i++) {
        rq_post(&n, &raw.rq, i, s.data + 4096 + i * 4096, 2048, s.key);
    }
    memcpy(seen, nic_mac, 6);
    tcp_receive(&n, &s, fd, seen, sizeof(frame), good, 0);
    seen[700] ^= 0x10;
    tcp_receive(&n, &s, fd, seen, sizeof(frame), FAKERNIC_CQE_IP_CSUM_OK, 1);
    seen[700] ^= 0x10;
    seen[22]--;
    tcp_receive(&n, &s, fd, seen, sizeof(frame), FAKERNIC_CQE_L4_CSUM_OK, 2);
    frame_make(frame, nic_mac, 60);
    tcp_receive(&n, &s, fd, frame, 60, 0, 2);
    close(fd);
    machine_stop(&m);
}

static void test_long_segments(void)
{
    static const uint8_t peer[6] = { 2, 0, 0, 0, 0, 9 };
    const size_t mss = 1000, len = TCP_DATA + 60500;
    const struct fakernic_sq_hdr cut = { .mss = LE16(mss) };
    Machine m;
    Nic n;
    Setup s;
    Qp raw;
    struct fakernic_cqe cqe;
    g_autofree uint8_t *frame = g_malloc(len);
    uint8_t seen[2000];
    int fd = start_wired(&m, &n);

    setup(&n, &s);
    port_up(&n, &s, &raw, 0);
    tcp_make(frame, peer, len);
    raw_send(&n, &s, &raw, frame, len, &cut);
    for (size_t at = 0; at < len - TCP_DATA; at += mss) {
        const size_t data = MIN(mss, len - TCP_DATA - at);

        g_assert_cmpint(wire_receive(fd, seen, sizeof(seen)), ==,
                        TCP_DATA + data);
        g_assert_true(tcp_good(seen, TCP_DATA + data));
        g_assert_cmpuint(lduw_be_p(seen + 16), ==, TCP_DATA + data - 14);
        g_assert_cmpuint(lduw_be_p(seen + 18), ==, at / mss);
        g_assert_cmpuint(ldl_be_p(seen + TCP_AT + 4), ==, 1000 + at);
        g_assert_cmpmem(seen + TCP_DATA, data, frame + TCP_DATA + at, data);
    }
    cq_expect(&n, &s.cq, &cqe, FAKERNIC_CQE_SEND, FAKERNIC_WC_SUCCESS);
    g_assert_cmpuint(nic_stat(&n, FAKERNIC_STAT_TX_FRAMES), ==, 61);
    /* A frame that is not TCP is dropped, and the queue continues. */
    frame_make(frame, peer, 4000);
    raw_send(&n, &s, &raw, frame, 4000, &cut);
    cq_expect(&n, &s.cq, &cqe, FAKERNIC_CQE_SEND, FAKERNIC_WC_SUCCESS);
    g_assert_cmpuint(nic_stat(&n, FAKERNIC_STAT_TX_DROPPED), ==, 1);
    g_assert_cmpuint(nic_stat(&n, FAKERNIC_STAT_TX_FRAMES), ==, 61);
    close(fd);
    machine_stop(&m);
}

static void set_vlan_strip(Nic *n, uint8_t strip, enum fakernic_cmd_status want)
{
    struct fakernic_set_port_req req = {
        .mask = LE32(FAKERNIC_PORT_VLAN_STRIP),
        .vlan_strip = strip,
    };

    g_assert_cmpint(cmd(n, FAKERNIC_CMD_SET_PORT, &req, sizeof(req), NULL, 0),
                    ==, want);
}

/* Receives a tagged frame, and checks its completion and its bytes. */
static void tagged_receive(Nic *n, Setup *s, Qp *raw, unsigned index, int fd,
                           const uint8_t *frame, size_t len, bool stripped)
{
    const size_t tag = stripped ? 4 : 0;
    g_autofree uint8_t *seen = g_malloc(len);
    struct fakernic_cqe cqe;

    rq_post(n, &raw->rq, index, s->data + 4096, 2048, s->key);
    wire_send(fd, frame, len);
    cq_await(n, &s->cq, &cqe, FAKERNIC_CQE_RECV, FAKERNIC_WC_SUCCESS);
    g_assert_cmpuint(le32_to_cpu(cqe.byte_count), ==, len - tag);
    g_assert_cmpuint(!!(cqe.flags & FAKERNIC_CQE_VLAN), ==, stripped);
    g_assert_cmpuint(le16_to_cpu(cqe.vlan), ==,
                     stripped ? lduw_be_p(frame + 14) : 0);
    qtest_memread(n->m->qts, s->data + 4096, seen, len - tag);
    g_assert_cmpmem(seen, 12, frame, 12);
    g_assert_cmpmem(seen + 12, len - tag - 12, frame + 12 + tag,
                    len - tag - 12);
}

static void test_vlan_tags(void)
{
    static const uint8_t peer[6] = { 2, 0, 0, 0, 0, 9 };
    Machine m;
    Nic n;
    Setup s;
    Qp raw;
    struct fakernic_cqe cqe;
    uint8_t frame[200], seen[300];
    struct fakernic_sq_hdr tag = {
        .flags = FAKERNIC_SQ_VLAN, .imm_or_key = LE32(0x6005),
    };
    int fd = start_wired(&m, &n);

    setup(&n, &s);
    port_up(&n, &s, &raw, 0);
    frame_make(frame, peer, sizeof(frame));
    raw_send(&n, &s, &raw, frame, sizeof(frame), &tag);
    g_assert_cmpint(wire_receive(fd, seen, sizeof(seen)), ==,
                    sizeof(frame) + 4);
    g_assert_cmpmem(seen, 12, frame, 12);
    g_assert_cmphex((uint32_t)ldl_be_p(seen + 12), ==, 0x81006005);
    g_assert_cmpmem(seen + 16, sizeof(frame) - 12, frame + 12,
                    sizeof(frame) - 12);
    cq_expect(&n, &s.cq, &cqe, FAKERNIC_CQE_SEND, FAKERNIC_WC_SUCCESS);
    /* The tag stays in received frames until the port is set to strip it. */
    memcpy(seen, nic_mac, 6);
    tagged_receive(&n, &s, &raw, 0, fd, seen, sizeof(frame) + 4, false);
    set_vlan_strip(&n, 2, FAKERNIC_CMD_BAD_PARAM);
    tagged_receive(&n, &s, &raw, 1, fd, seen, sizeof(frame) + 4, false);
    set_vlan_strip(&n, 1, FAKERNIC_CMD_OK);
    tagged_receive(&n, &s, &raw, 2, fd, seen, sizeof(frame) + 4, true);
    set_vlan_strip(&n, 0, FAKERNIC_CMD_OK);
    tagged_receive(&n, &s, &raw, 3, fd, seen, sizeof(frame) + 4, false);
    /* A tag of more than 16 bits. */
    tag.imm_or_key = LE32(0x10000);
    raw_send(&n, &s, &raw, frame, sizeof(frame), &tag);
    cq_expect(&n, &s.cq, &cqe, FAKERNIC_CQE_SEND, FAKERNIC_WC_LOC_QP_OP_ERR);
    g_assert_cmpuint(le16_to_cpu(cqe.vendor_err), ==, FAKERNIC_VENDOR_SQ_RSVD);
    close(fd);
    machine_stop(&m);
}

/* For a driver without these features the bits are reserved, and completions
 * report no offload. */
static void test_offloads_not_taken(void)
{
    const struct fakernic_sq_hdr asks[] = {
        { .flags = FAKERNIC_SQ_IP_CSUM },
        { .flags = FAKERNIC_SQ_L4_CSUM },
        { .mss = LE16(100) },
        { .flags = FAKERNIC_SQ_VLAN },
    };
    const size_t size = 16 * sizeof(struct fakernic_cmd);
    Machine m;
    Nic n;
    struct fakernic_cqe cqe;
    uint8_t frame[100];
    int fd = start_wired(&m, &n);

    for (unsigned i = 0; i < G_N_ELEMENTS(asks); i++) {
        Setup s;
        Qp raw;

        nic_reset(&n);
        nic_set_features(&n, nic_offered(&n) & ~(FAKERNIC_FEATURE_CSUM |
                                                 FAKERNIC_FEATURE_TSO |
                                                 FAKERNIC_FEATURE_VLAN));
        nic_set_cmdq(&n, mem_alloc(&m, size), mem_alloc(&m, size), 4);
        reg_write(&n, FAKERNIC_REG_CONTROL, FAKERNIC_CONTROL_ENABLE);
        setup(&n, &s);
        port_up(&n, &s, &raw, 0);
        set_vlan_strip(&n, 1, FAKERNIC_CMD_BAD_PARAM);
        tcp_make(frame, nic_mac, sizeof(frame));
        rq_post(&n, &raw.rq, i, s.data + 4096, 2048, s.key);
        tcp_receive(&n, &s, fd, frame, sizeof(frame), 0, 0);
        raw_send(&n, &s, &raw, frame, 60, &asks[i]);
        cq_expect(&n, &s.cq, &cqe, FAKERNIC_CQE_SEND,
                  FAKERNIC_WC_LOC_QP_OP_ERR);
        g_assert_cmpuint(le16_to_cpu(cqe.vendor_err), ==,
                         FAKERNIC_VENDOR_SQ_RSVD);
    }
    close(fd);
    machine_stop(&m);
}

/* ---- a wire whose reader is late ------------------------------------- */

#define LATE_SIZE 1514
#define LATE_COUNT 16

/* A stream that holds a few frames. Returns the end that the test reads. */
static int start_streamed(Machine *m, Nic *n)
{
    const int few = 2 * LATE_SIZE;
    int fds[2];

    g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), ==, 0);
    g_assert_cmpint(setsockopt(fds[1], SOL_SOCKET, SO_SNDBUF, &few,
                               sizeof(few)), ==, 0);
    machine_start(m, "-netdev stream,id=n0,addr.type=fd,addr.str=%d,server=off "
                  "%s,netdev=n0", fds[1], DEVICE);
    close(fds[1]);
    nic_find(n, m, SLOT);
    nic_bringup(n);
    return fds[0];
}

/* Posts frames that contain their number. */
static void late_post(Nic *n, Setup *s, Qp *raw, uint8_t first, uint8_t count)
{
    static const uint8_t peer[6] = { 2, 0, 0, 0, 0, 9 };

    for (uint8_t i = 0; i < count; i++) {
        uint32_t offset = (first + i) % LATE_COUNT * 2048;
        Wqe wqe = wqe_send(s, offset, LATE_SIZE);
        uint8_t frame[LATE_SIZE];

        frame_make(frame, peer, sizeof(frame));
        frame[14] = frame[LATE_SIZE - 1] = first + i;
        qtest_memwrite(n->m->qts, s->data + offset, frame, sizeof(frame));
        sq_put(n, raw, &wqe, sizeof(wqe));
    }
    sq_ring(n, raw);
}

static void late_read_bytes(int fd, uint8_t *to, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t got = wire_receive(fd, to + done, size - done);

        g_assert_cmpint(got, >, 0);
        done += got;
    }
}

static void late_read(int fd, uint8_t first, uint8_t count)
{
    uint8_t frame[4 + LATE_SIZE];

    for (uint8_t i = 0; i < count; i++) {
        late_read_bytes(fd, frame, sizeof(frame));
        g_assert_cmpuint(ldl_be_p(frame), ==, LATE_SIZE);
        g_assert_cmpuint(frame[4 + 14], ==, first + i);
        g_assert_cmpuint(frame[sizeof(frame) - 1], ==, first + i);
    }
}

static unsigned completions(Nic *n, Setup *s)
{
    struct fakernic_cqe cqe;
    unsigned count = 0;

    while (cq_poll(n, &s->cq, &cqe)) {
        g_assert_cmpuint(cqe.status, ==, FAKERNIC_WC_SUCCESS);
        count++;
    }
    return count;
}

static void step_tenths(Machine *m, unsigned count)
{
    while (count--) {
        qtest_clock_step(m->qts, 100000000);
    }
}

/* A reader that is late for less than 4 s loses no frame. After that the device
 * drops the frames that it could not send. */
static void test_late_reader(void)
{
    Machine m;
    Nic n;
    Setup s;
    Qp raw;
    struct fakernic_cqe cqe;
    int fd = start_streamed(&m, &n);
    unsigned sent, done;

    setup(&n, &s);
    port_up(&n, &s, &raw, 0);
    /* The reader sleeps for a second. */
    late_post(&n, &s, &raw, 0, LATE_COUNT);
    step_tenths(&m, 10);
    g_assert_cmpuint(nic_stat(&n, FAKERNIC_STAT_TX_FRAMES), <, LATE_COUNT);
    late_read(fd, 0, LATE_COUNT);
    for (unsigned i = 0; i < LATE_COUNT; i++) {
        cq_expect(&n, &s.cq, &cqe, FAKERNIC_CQE_SEND, FAKERNIC_WC_SUCCESS);
    }
    g_assert_cmpuint(nic_stat(&n, FAKERNIC_STAT_TX_FRAMES), ==, LATE_COUNT);
    /* After 3.9 s unsent frames still wait; after 4.1 s they are dropped. */
    late_post(&n, &s, &raw, LATE_COUNT, LATE_COUNT);
    step_tenths(&m, 39);
    done = completions(&n, &s);
    g_assert_cmpuint(done, <, LATE_COUNT);
    g_assert_cmpuint(nic_stat(&n, FAKERNIC_STAT_TX_DROPPED), ==, 0);
    step_tenths(&m, 2);
    g_assert_cmpuint(done + completions(&n, &s), ==, LATE_COUNT);
    sent = nic_stat(&n, FAKERNIC_STAT_TX_FRAMES) - LATE_COUNT;
    g_assert_cmpuint(sent, <, LATE_COUNT);
    g_assert_cmpuint(nic_stat(&n, FAKERNIC_STAT_TX_DROPPED), ==,
                     LATE_COUNT - sent);
    /* The reader then gets whole frames, and later frames work. */
    late_read(fd, LATE_COUNT, sent);
    late_post(&n, &s, &raw, 2 * LATE_COUNT, 1);
    late_read(fd, 2 * LATE_COUNT, 1);
    g_assert_cmpuint(nic_stat(&n, FAKERNIC_STAT_TX_DROPPED), ==,
                     LATE_COUNT - sent);
    close(fd);
    machine_stop(&m);
}

const FakernicTest fakernic_port_tests[] = {
    { "port/ethernet", test_ethernet },
    { "port/no-buffer", test_ethernet_no_buffer },
    { "port/garbage", test_wire_garbage },
    { "port/empty-frame", test_empty_frame },
    { "port/link", test_link },
    { "port/disabled", test_disabled },
    { "port/disabled-until-reset", test_disabled_until_reset },
    { "port/disabled-refused", ENABLED(test_disabled_refused) },
    { "port/two-devices", test_two_devices },
    { "port/blocked-netdev", test_blocked_netdev },
    { "port/late-reader", test_late_reader },
    { "port/checksums", test_checksums },
    { "port/long-segments", test_long_segments },
    { "port/vlan-tags", test_vlan_tags },
    { "port/offloads-not-taken", test_offloads_not_taken },
    { "port/tap-two-queues", test_tap_two_queues },
    { "port/tap-four-queues", test_tap_four_queues },
    { "port/bootindex", test_bootindex },
    { "port/cpu-nice-denied", test_cpu_nice_denied },
    { NULL }
};
