/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The data sheet's driver (firmware-spec/driver.c) runs on a machine whose
 * memory the test maps, like a bare-metal driver. The test also compares the
 * hex examples of the data sheet and of qemu-hw/JOURNEY.md with what the device
 * reads, writes and sends. overlay.sh extracts the driver and the examples.
 */
#include "qemu/osdep.h"
#include <sys/mman.h>
#include "qemu/units.h"
#include "qobject/qdict.h"
#include "fakernic-setup.h"

/* The functions of firmware-spec/driver.c, and those that it needs. */
void driver(void);
void driver_nop(void);
void driver_write(const __u8 *mac);
void driver_open(void);
void driver_send(const void *frame, __u32 length);
__u32 driver_receive(void *frame);
__u32 bar0_read(__u32 offset);
void bar0_write(__u32 offset, __u32 value);
void bar2_write(__u32 offset, __u64 word);
void *dma_alloc(__u32 size, __u64 *address);
void relax(void);
void give_up(const char *why);

#define RAM_SIZE (128 * MiB)
#define DMA_START (16 * MiB)

static struct {
    Machine m;
    Nic n;
    uint8_t *ram;
    uint64_t dma_end;
    uint64_t last_doorbell;
    unsigned waited;
    int wire;
} bare;

__u32 bar0_read(__u32 offset)
{
    return reg_read(&bare.n, offset);
}

void bar0_write(__u32 offset, __u32 value)
{
    reg_write(&bare.n, offset, value);
}

void bar2_write(__u32 offset, __u64 word)
{
    bare.last_doorbell = word;
    ring(&bare.n, 0, offset, word);
}

void *dma_alloc(__u32 size, __u64 *address)
{
    *address = bare.dma_end;
    bare.dma_end += ROUND_UP(size, FAKERNIC_PAGE_SIZE);
    g_assert_cmpuint(bare.dma_end, <=, RAM_SIZE);
    return bare.ram + *address;
}

void relax(void)
{
    g_assert_cmpuint(bare.waited++, <, 5000);
    g_usleep(1000);
}

void give_up(const char *why)
{
    g_error("the data sheet's driver gives up: %s", why);
}

static void bare_start(void)
{
    g_autofree char *path = g_strdup("/tmp/fakernic-qtest-XXXXXX");
    int fd = g_mkstemp(path);
    int wire[2];

    g_assert_cmpint(fd, >=, 0);
    g_assert_cmpint(socketpair(AF_UNIX, SOCK_DGRAM, 0, wire), ==, 0);
    memset(&bare, 0, sizeof(bare));
    bare.dma_end = DMA_START;
    bare.wire = wire[0];
    machine_start(&bare.m, "-m 128M -object memory-backend-file,id=ram,"
                  "share=on,size=128M,mem-path=%s -machine memory-backend=ram "
                  "-netdev dgram,id=n0,local.type=fd,local.str=%d "
                  DEVICE ",netdev=n0", path, wire[1]);
    close(wire[1]);
    unlink(path);
    bare.ram = mmap(NULL, RAM_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    g_assert_true(bare.ram != MAP_FAILED);
    close(fd);
    nic_find(&bare.n, &bare.m, SLOT);
    msix_setup(&bare.n);
}

static void bare_stop(void)
{
    machine_stop(&bare.m);
    munmap(bare.ram, RAM_SIZE);
    close(bare.wire);
}

static void test_driver(void)
{
    bare_start();
    driver();
    driver_nop();
    g_assert_true(msix_fired(&bare.n, 1));
    driver_write(nic_mac);
    bare_stop();
}

/*
 * More completions and events than the driver's queues of 16 entries hold. The
 * driver polls, so the test enables no MSI-X.
 */
static void test_driver_without_end(void)
{
    bare_start();
    qpci_msix_disable(bare.n.pci);
    driver();
    for (unsigned i = 0; i < 100; i++) {
        driver_nop();
    }
    bare_stop();
}

/* More frames each way than its queues hold. */
static void test_driver_ethernet(void)
{
    uint8_t frame[1514], got[2048];

    bare_start();
    driver();
    driver_open();
    g_assert_cmpuint(driver_receive(got), ==, 0);
    for (unsigned i = 0; i < 40; i++) {
        const size_t len = i % 2 ? sizeof(frame) : 60 + i;
        __u32 received;

        frame_make(frame, nic_mac, len);
        frame[20] = i;
        driver_send(frame, len);
        g_assert_cmpint(wire_receive(bare.wire, got, sizeof(got)), ==, len);
        g_assert_cmpmem(got, len, frame, len);
        if (i % 3 == 0) {
            memset(frame, 0xff, 6);
        }
        wire_send(bare.wire, frame, len);
        while (!(received = driver_receive(got))) {
            relax();
        }
        g_assert_cmpmem(got, received, frame, len);
    }
    bare_stop();
}

/* ---- examples in hex --------------------------------------------------- */

static const struct {
    const char *name;
    unsigned offset;
    const char *bytes;
} example_lines[] = {
#include "fakernic-example-lines.h"
};

/*
 * Reads the bytes of an example; bytes that it leaves out are zero. False:
 * there is no such example.
 */
static bool example_read(const char *name, uint8_t *bytes, size_t size)
{
    unsigned found = 0;

    memset(bytes, 0, size);
    for (unsigned i = 0; i < ARRAY_SIZE(example_lines); i++) {
        const char *at = example_lines[i].bytes;
        unsigned offset = example_lines[i].offset;
        unsigned byte;
        int len;

        if (strcmp(example_lines[i].name, name)) {
            continue;
        }
        for (; sscanf(at, "%2x%n", &byte, &len) == 1; at += len) {
            g_assert_cmpuint(offset, <, size);
            bytes[offset++] = byte;
        }
        g_assert_cmpint(*at, ==, '\0');
        found++;
    }
    return found;
}

static void assert_example(const char *name, const void *bytes, size_t size)
{
    g_autofree uint8_t *example = g_malloc(size);

    if (example_read(name, example, size) && !memcmp(example, bytes, size)) {
        return;
    }
    g_test_message("example %s is not what the device does:", name);
    for (size_t i = 0; i < size; i += 16) {
        g_autoptr(GString) line = g_string_new(NULL);

        for (size_t j = i; j < MIN(size, i + 16); j++) {
            g_string_append_printf(line, "%s%02x", j % 8 ? " " : "  ",
                                   ((const uint8_t *)bytes)[j]);
        }
        g_test_message("    %04zx%s", i, line->str);
    }
    g_test_fail();
}

/* The places of the driver's queues, in the order of their creation. */
#define REQUESTS    (DMA_START + 0x0000)
#define ANSWERS     (DMA_START + 0x2000)
#define EVENTS      (DMA_START + 0x4000)
#define COMPLETIONS (DMA_START + 0x5000)
#define DATA        (DMA_START + 0x7000)
#define SENDS       (DMA_START + 0x9000)
#define RECEIVES    (DMA_START + 0x14000)

static void test_examples(void)
{
    bare_start();
    driver();
    driver_nop();
    driver_write(nic_mac);
    assert_example("request", bare.ram + REQUESTS + sizeof(struct fakernic_cmd),
                   sizeof(struct fakernic_cmd));
    assert_example("answer", bare.ram + ANSWERS +
                   sizeof(struct fakernic_cmd_completion),
                   sizeof(struct fakernic_cmd_completion));
    assert_example("event", bare.ram + EVENTS, sizeof(struct fakernic_eqe));
    assert_example("wqe", bare.ram + SENDS, FAKERNIC_SQ_BB_SIZE);
    bare.last_doorbell = LE64(bare.last_doorbell);
    assert_example("doorbell", &bare.last_doorbell, sizeof(uint64_t));
    assert_example("cqe", bare.ram + COMPLETIONS + sizeof(struct fakernic_cqe),
                   sizeof(struct fakernic_cqe));
    g_assert_cmpmem(bare.ram + DATA, 13, "Hello, world", 13);
    /* These commands overwrite the first ones. */
    driver_open();
    assert_example("slot", bare.ram + RECEIVES,
                   1 << FAKERNIC_RQ_LOG_STRIDE_MIN);
    bare_stop();
}

/* The limits of a device with default properties. */
static void test_limits(Rig *r)
{
    struct fakernic_query_device_resp resp;

    assert_status(cmd(&r->n, FAKERNIC_CMD_QUERY_DEVICE, NULL, 0, &resp,
                      sizeof(resp)), OK);
    assert_example("limits", &resp, sizeof(resp));
}

/*
 * The datagram of the data sheet, which a QP sends to itself. The test sets
 * buffer and Q_Key.
 */
static void test_datagram(Rig *r)
{
    struct fakernic_cqe cqe;
    uint8_t text[12];
    UdWqe wqe;
    Qp qp;

    ud_to_rts(&r->n, &r->s, &qp);
    rq_post(&r->n, &qp.rq, 0, r->s.data + 4096, 4096, r->s.key);
    g_assert_true(example_read("datagram", (void *)&wqe, sizeof(wqe)));
    wqe.ud.qkey = LE32(7);
    wqe.sge.address = LE64(r->s.data);
    wqe.sge.lkey = LE32(r->s.key);
    qtest_memwrite(r->m.qts, r->s.data, "Hello, world", 12);
    sq_put(&r->n, &qp, &wqe, sizeof(wqe));
    sq_ring(&r->n, &qp);
    cqe = rig_cqe(r, FAKERNIC_CQE_RECV, FAKERNIC_WC_SUCCESS);
    g_assert_cmpuint(le32_to_cpu(cqe.byte_count), ==, 40 + 12);
    qtest_memread(r->m.qts, r->s.data + 4096 + 40, text, 12);
    g_assert_cmpmem(text, 12, "Hello, world", 12);
    cqe = rig_cqe(r, FAKERNIC_CQE_SEND, FAKERNIC_WC_SUCCESS);
}

/* The frame of a WRITE to a peer, by QP 3, the number of the driver's QP. */
static void test_frame(void)
{
    static const uint8_t peer_mac[6] = { 2, 0, 0, 0, 0, 9 };
    uint8_t frame[256], peer_gid[16];
    Machine m;
    Nic n;
    Setup s;
    Qp first, qp;
    Wqe wqe;
    ssize_t len;
    int wire = start_wired(&m, &n);

    setup(&n, &s);
    memcpy(peer_gid, own_gid, 16);
    peer_gid[15] = 2;
    qp_create(&n, &first, FAKERNIC_QP_UD, s.pd, &s.cq, 0);
    qp_create(&n, &qp, FAKERNIC_QP_RC, s.pd, &s.cq, 0);
    g_assert_cmpuint(qp.qpn, ==, 3);
    rc_connect(&n, qp.qpn, 0x11, peer_gid, peer_mac);
    qtest_memwrite(m.qts, s.data, "Hello, world", 12);
    wqe = wqe_rdma(&s, FAKERNIC_SQ_RDMA_WRITE, 0, 0, 12);
    wqe.rdma.rdma.remote_address = LE64(0x123456789000);
    wqe.rdma.rdma.rkey = LE32(0x2a17);
    sq_put(&n, &qp, &wqe, sizeof(wqe));
    sq_ring(&n, &qp);
    len = wire_receive(wire, frame, sizeof(frame));
    g_assert_cmpint(len, >, 0);
    assert_example("frame", frame, len);
    machine_stop(&m);
    close(wire);
}

/* ---- the journey (qemu-hw/JOURNEY.md) ------------------------------------ */

#define JOURNEY_BYTES 4096
#define JOURNEY_PACKETS 4
#define JOURNEY_PSN 0x123456

/* Two devices a and b; 'wire' receives all frames between them. */
typedef struct Journey {
    Neighbours t;
    Qp spare, a, b;
    uint32_t rkey;
    int wire;
} Journey;

static void journey_connect(Journey *j, unsigned i, const Qp *own,
                            const Qp *peer)
{
    const uint32_t psn[2] = { JOURNEY_PSN, 0 };

    connect_qp_at(&j->t.nics[i], FAKERNIC_QP_RC, own->qpn, peer->qpn,
                  neighbour_gids[!i], neighbour_macs[!i], psn[i], psn[!i]);
}

static void journey_start(Journey *j)
{
    Neighbours *t = &j->t;
    int wire[2];
    g_autofree char *more = NULL;

    g_assert_cmpint(socketpair(AF_UNIX, SOCK_DGRAM, 0, wire), ==, 0);
    more = g_strdup_printf(",id=b -netdev dgram,id=w,local.type=fd,"
                           "local.str=%d -netdev hubport,id=h2,hubid=0,"
                           "netdev=w", wire[1]);
    neighbours_start(t, ",id=a", more);
    close(wire[1]);
    j->wire = wire[0];
    qp_create(&t->nics[1], &j->spare, FAKERNIC_QP_RC, t->s[1].pd, &t->s[1].cq,
              0);
    qp_create(&t->nics[0], &j->a, FAKERNIC_QP_RC, t->s[0].pd, &t->s[0].cq, 0);
    qp_create(&t->nics[1], &j->b, FAKERNIC_QP_RC, t->s[1].pd, &t->s[1].cq, 0);
    journey_connect(j, 0, &j->a, &j->b);
    journey_connect(j, 1, &j->b, &j->a);
    j->rkey = mr_create(&t->nics[1], t->s[1].pd, t->s[1].data, JOURNEY_BYTES,
                        FAKERNIC_ACCESS_LOCAL_WRITE |
                            FAKERNIC_ACCESS_REMOTE_WRITE);
}

static void assert_journey_frame(Journey *j, const char *name)
{
    uint8_t frame[2048];
    const ssize_t len = wire_receive(j->wire, frame, sizeof(frame));

    g_assert_cmpint(len, >, 0);
    if (name) {
        assert_example(name, frame, len);
    }
}

/* The recorder has the document's lines of this device, in that order. */
static void assert_journey_lines(Journey *j, const char *name)
{
    g_autofree char *path = g_strdup_printf("/machine/peripheral/%s",
                                            name + strlen("journey-"));
    QDict *reply = qtest_qmp(j->t.m.qts, "{ 'execute': 'qom-get', 'arguments':"
                             " { 'path': %s, 'property': 'x-recorder-now' } }",
                             path);
    const char *text = qdict_get_str(reply, "return");
    const char *at = text;
    unsigned found = 0;

    for (unsigned i = 0; i < ARRAY_SIZE(example_lines); i++) {
        g_autofree char *line = g_strdup_printf(" %s\n",
                                                example_lines[i].bytes);

        if (strcmp(example_lines[i].name, name)) {
            continue;
        }
        found++;
        at = strstr(at, line);
        if (!at) {
            g_test_message("%s has no line%sin:\n%s", name, line, text);
            g_test_fail();
            break;
        }
        at++;
    }
    g_assert_cmpuint(found, >, 0);
    qobject_unref(reply);
}

/* The WRITE of JOURNEY.md, with the bytes and recorder lines that it shows. */
static void test_journey(void)
{
    uint8_t bytes[FAKERNIC_SQ_BB_SIZE];
    struct fakernic_cqe cqe;
    uint64_t word;
    Journey j;
    Setup *s = j.t.s;
    QTestState *qts;
    Wqe wqe;

    journey_start(&j);
    qts = j.t.m.qts;
    qtest_memset(qts, s[0].data, 0, JOURNEY_BYTES);
    qtest_memwrite(qts, s[0].data, "Hello, b", 8);
    wqe = wqe_rdma(&s[0], FAKERNIC_SQ_RDMA_WRITE, 0, 0, JOURNEY_BYTES);
    wqe.rdma.rdma.remote_address = LE64(s[1].data);
    wqe.rdma.rdma.rkey = LE32(j.rkey);
    sq_put(&j.t.nics[0], &j.a, &wqe, sizeof(wqe));
    assert_example("journey-wqe", &wqe, sizeof(wqe));
    word = LE64(doorbell(j.a.qpn, j.a.sq.index));
    assert_example("journey-doorbell", &word, sizeof(word));
    sq_ring(&j.t.nics[0], &j.a);
    cq_expect(&j.t.nics[0], &s[0].cq, &cqe, FAKERNIC_CQE_RDMA_WRITE,
              FAKERNIC_WC_SUCCESS);
    assert_example("journey-cqe", &cqe, sizeof(cqe));
    assert_journey_frame(&j, "journey-first");
    for (unsigned i = 2; i < JOURNEY_PACKETS; i++) {
        assert_journey_frame(&j, NULL);
    }
    assert_journey_frame(&j, "journey-last");
    assert_journey_frame(&j, "journey-ack");
    qtest_memread(qts, s[1].data, bytes, 8);
    g_assert_cmpmem(bytes, 8, "Hello, b", 8);
    assert_journey_lines(&j, "journey-a");
    assert_journey_lines(&j, "journey-b");
    machine_stop(&j.t.m);
    close(j.wire);
}

const FakernicTest fakernic_example_tests[] = {
    { "example/driver", test_driver },
    { "example/driver-without-end", test_driver_without_end },
    { "example/driver-ethernet", test_driver_ethernet },
    { "example/hex", test_examples },
    { "example/limits", ENABLED(test_limits) },
    { "example/datagram", READY(test_datagram) },
    { "example/frame", test_frame },
    { "example/journey", test_journey },
    { NULL }
};
