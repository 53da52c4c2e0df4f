/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The recorder: the actions of the device, in order, in memory and in a file;
 * the entries before the first error are kept.
 */
#include "qemu/osdep.h"
#include "qobject/qdict.h"
#include "fakernic-setup.h"

#define HEADER 4096             /* bytes before the entries of a file */

/* The lines of a property; to be freed. */
static char *lines_of(Machine *m, const char *property)
{
    QDict *reply = qtest_qmp(m->qts, "{ 'execute': 'qom-get', 'arguments': {"
                             " 'path': %s, 'property': %s } }", NIC0, property);
    char *text = g_strdup(qdict_get_str(reply, "return"));

    qobject_unref(reply);
    return text;
}

static char *recorded(Machine *m)
{
    return lines_of(m, "x-recorder");
}

/* The text contains these words, in this order. */
static void assert_order(const char *text, const char *const *words)
{
    for (; *words; words++) {
        text = strstr(text, *words);
        if (!text) {
            g_error("there is no '%s' where it should be", *words);
        }
        text++;
    }
}

static void one_write(Nic *n, Setup *s, Qp *a)
{
    Wqe wqe = wqe_rdma(s, FAKERNIC_SQ_RDMA_WRITE, 0, 16384, 2000);
    struct fakernic_cqe cqe;

    fill(n, s, 0, 2000);
    sq_put(n, a, &wqe, sizeof(wqe));
    sq_ring(n, a);
    cq_expect(n, &s->cq, &cqe, FAKERNIC_CQE_RDMA_WRITE, FAKERNIC_WC_SUCCESS);
    queue_record(n, &s->cq, s->cq.index);
}

static void start_recorded(Machine *m, Nic *n, Setup *s, Qp *a, Qp *b,
                           const char *more)
{
    machine_start(m, "%s,id=nic0%s", DEVICE, more);
    nic_find(n, m, SLOT);
    nic_bringup(n);
    setup_pair(n, s, a, b);
}

static void recorded_pair(Rig *r)
{
    start_recorded(&r->m, &r->n, &r->s, &r->a, &r->b, "");
}

/* A file for the device to record to, and the option that names it. */
typedef struct File {
    char *path, *option;
    int fd;
} File;

static void file_make(File *f)
{
    f->path = g_strdup("/tmp/fakernic-record-XXXXXX");
    f->fd = g_mkstemp(f->path);
    g_assert_cmpint(f->fd, >=, 0);
    f->option = g_strdup_printf(",x-record=%s", f->path);
}

static void file_drop(File *f)
{
    close(f->fd);
    unlink(f->path);
    g_free(f->path);
    g_free(f->option);
}

static void test_order(Rig *r)
{
    static const char *const words[] = {
        " doorbell_sq ", " dma_read ", " wqe ", "opcode=4", " dma_read ",
        "len=1024", " tx ", "attempt=1", " rx ", " dma_write ", " tx ",
        " rx ", " tx ", " rx ", " cqe ", " dma_write ", " cqe_visible ", NULL
    };
    g_autofree char *text = NULL;

    one_write(&r->n, &r->s, &r->a);
    text = recorded(&r->m);
    assert_order(text, words);
}

/* The ring keeps the last 1,024 entries. */
static void test_wrap(Rig *r)
{
    g_autofree char *text = NULL;
    g_auto(GStrv) lines = NULL;

    for (unsigned i = 0; i < 80; i++) {
        one_write(&r->n, &r->s, &r->a);
    }
    text = recorded(&r->m);
    lines = g_strsplit(text, "\n", -1);
    g_assert_cmpuint(g_strv_length(lines), ==, 1024 + 1);
    g_assert_cmpuint(strtoul(lines[0], NULL, 10), >, 0);
    g_assert_cmpuint(strtoul(lines[1023], NULL, 10), ==,
                     strtoul(lines[0], NULL, 10) + 1023);
}

/* A WRITE with an invalid rkey: both QPs fail. */
static void one_bad_write(Nic *n, Setup *s, Qp *a)
{
    Wqe wqe = wqe_rdma(s, FAKERNIC_SQ_RDMA_WRITE, 0, 16384, 8);
    struct fakernic_cqe cqe;

    wqe.rdma.rdma.rkey = LE32(0xdead00);
    sq_put(n, a, &wqe, sizeof(wqe));
    sq_ring(n, a);
    cq_expect(n, &s->cq, &cqe, FAKERNIC_CQE_RDMA_WRITE,
              FAKERNIC_WC_REM_ACCESS_ERR);
}

/* The last packet is lost, so no NAK follows: the device sends a probe. */
static void test_probe(Rig *r)
{
    static const char *const words[] = {
        " fault ", " probe qpn=", " tx ", "attempt=2", " rx ", " cqe ", NULL
    };
    g_autofree char *text = NULL;
    Wqe wqe;

    one_write(&r->n, &r->s, &r->a);
    fault(&r->m, "at=rx opcode=rc-write-last do=drop");
    wqe = wqe_rdma(&r->s, FAKERNIC_SQ_RDMA_WRITE, 0, 16384, 2000);
    POST(r, wqe);
    qtest_clock_step(r->m.qts, 100000000);
    rig_cqe(r, FAKERNIC_CQE_RDMA_WRITE, FAKERNIC_WC_SUCCESS);
    text = recorded(&r->m);
    assert_order(text, words);
}

static void end_fatally(Machine *m, Nic *n)
{
    fault(m, "at=device do=fatal");
    while (!(reg_read(n, FAKERNIC_REG_STATUS) & FAKERNIC_STATUS_FATAL)) {
        g_usleep(1000);
    }
}

/*
 * x-recorder keeps the entries before a QP's error until a fatal error occurs.
 * x-recorder-now always has the later entries, too.
 */
static void test_fatal_error(Rig *r)
{
    g_autofree char *first = NULL, *second = NULL, *fatal = NULL, *now = NULL;
    Qp c, d;

    rc_pair(&r->n, &r->s, &c, &d);
    one_bad_write(&r->n, &r->s, &r->a);
    first = recorded(&r->m);
    g_assert_nonnull(strstr(first, " qp_error "));
    one_write(&r->n, &r->s, &c);
    second = recorded(&r->m);
    g_assert_cmpstr(first, ==, second);
    now = lines_of(&r->m, "x-recorder-now");
    g_assert_true(g_str_has_prefix(now, first));
    g_assert_nonnull(strstr(now + strlen(first), " doorbell_sq "));
    end_fatally(&r->m, &r->n);
    fatal = recorded(&r->m);
    g_assert_nonnull(strstr(fatal, " fatal code=6\n"));
}

/* The entries before the first error stay, whatever follows. */
static void test_first_error(Rig *r)
{
    g_autofree char *first = NULL, *later = NULL;

    one_write(&r->n, &r->s, &r->a);
    end_fatally(&r->m, &r->n);
    first = recorded(&r->m);
    g_assert_nonnull(strstr(first, " doorbell_sq "));
    g_assert_nonnull(strstr(first, " fatal code=6\n"));
    nic_bringup(&r->n);
    later = recorded(&r->m);
    g_assert_cmpstr(first, ==, later);
}

static void test_file(void)
{
    uint8_t header[HEADER], last[64] = { 0 };
    uint64_t count, frames;
    File f;
    Machine m;
    Nic n;
    Setup s;
    Qp a, b;

    file_make(&f);
    start_recorded(&m, &n, &s, &a, &b, f.option);
    for (unsigned i = 0; i < 80; i++) {
        one_write(&n, &s, &a);
    }
    machine_stop(&m);
    g_assert_cmpint(pread(f.fd, header, HEADER, 0), ==, HEADER);
    g_assert_cmpstr((char *)header, ==, "fakerec");
    memcpy(&count, header + 16, sizeof(count));
    g_assert_cmpuint(count, >, 1024);
    g_assert_cmpint(pread(f.fd, last, sizeof(last), HEADER + 64 * (count - 1)),
                    ==, 64);
    g_assert_cmpuint(last[16], !=, 0);
    g_assert_nonnull(strstr((char *)header + 56, "\ncqe - cqn pi qpn index"));
    g_assert_nonnull(strstr((char *)header + 56, "\nactions count drop"));
    /* The file has all bytes of two data packets and one ACK per WRITE. */
    memcpy(&frames, header + 48, sizeof(frames));
    g_assert_cmpuint(frames, >, 80 * 2000);
    g_assert_cmpint(pread(f.fd, last, sizeof(last), HEADER + (64 << 20)),
                    ==, 64);
    g_assert_cmphex(last[12] << 8 | last[13], ==, 0x800);
    file_drop(&f);
}

/* Another process writes to the file: the device does not read it. */
static void test_file_corrupted(void)
{
    g_autofree char *text = NULL, *before = NULL;
    File f;
    Machine m;
    Nic n;
    Setup s;
    Qp a, b;

    file_make(&f);
    start_recorded(&m, &n, &s, &a, &b, f.option);
    before = recorded(&m);
    for (uint32_t i = 1; i < 30; i++) {
        uint32_t kind = 20u << i;

        g_assert_cmpint(pwrite(f.fd, &kind, sizeof(kind),
                               HEADER + 64 * (i - 1) + 16), ==, sizeof(kind));
    }
    text = recorded(&m);
    g_assert_cmpstr(text, ==, before);
    machine_stop(&m);
    file_drop(&f);
}

static void record_to_file(Machine *m, bool on)
{
    qtest_qmp_assert_success(m->qts, "{ 'execute': 'qom-set', 'arguments': {"
                                     " 'path': %s, 'property': 'x-recording',"
                             " 'value': %i } }", NIC0, on);
}

/* Stores the host's time stamp in a doorbell record. */
static void stamp(Nic *n, const Queue *q, uint64_t ticks)
{
    qtest_writeq(n->m->qts, q->address + (uint64_t)q->depth * q->entry +
                 offsetof(struct fakernic_queue_record, stamp), ticks);
}

/* How often the last 1,024 entries contain 'words'. */
static unsigned count_recorded(Machine *m, const char *words)
{
    g_autofree char *text = recorded(m);
    unsigned count = 0;

    for (const char *at = text; (at = strstr(at, words)); at++) {
        count++;
    }
    return count;
}

/* A WRITE with stamps of its post and of the poll of its CQE. */
static void one_stamped_write(Nic *n, Setup *s, Qp *a, uint64_t ticks)
{
    stamp(n, &a->sq, ticks);
    stamp(n, &s->cq, ticks + 1);
    one_write(n, s, a);
}

/*
 * The device records a post's stamp at the doorbell. It records a poll's stamp
 * with the next CQE, or when the CQ is armed or destroyed. Each stamp is
 * recorded once.
 */
static void test_stamps(void)
{
    File f;
    Machine m;
    Nic n;
    Setup s;
    Qp a, b;

    file_make(&f);
    start_recorded(&m, &n, &s, &a, &b, f.option);
    g_assert_true(nic_offered(&n) & FAKERNIC_FEATURE_STAMPS);
    one_write(&n, &s, &a);
    one_stamped_write(&n, &s, &a, 0xabcdef0123456789);
    g_assert_cmpuint(count_recorded(&m, " mark "), ==, 2);
    g_assert_cmpuint(count_recorded(&m, " mark ticks=0xabcdef0123456789 "
                                    "step=1 "), ==, 1);
    /* This stamp is of the poll before: the CQE was written after it. */
    g_assert_cmpuint(count_recorded(&m, " mark ticks=0xabcdef012345678a "
                                    "step=2 "), ==, 1);
    /* A doorbell without a new WQE is no post. */
    sq_ring(&n, &a);
    g_assert_cmpuint(count_recorded(&m, " step=1 "), ==, 1);
    cq_arm(&n, &s.cq, 0, false);
    g_assert_cmpuint(count_recorded(&m, " step=2 "), ==, 2);
    cq_arm(&n, &s.cq, 0, false);
    g_assert_cmpuint(count_recorded(&m, " step=2 "), ==, 2);
    one_stamped_write(&n, &s, &a, 3);
    assert_status(cmd_id(&n, FAKERNIC_CMD_DESTROY_QP, a.qpn), OK);
    assert_status(cmd_id(&n, FAKERNIC_CMD_DESTROY_QP, b.qpn), OK);
    assert_status(cmd_id(&n, FAKERNIC_CMD_DESTROY_CQ, s.cq.id), OK);
    g_assert_cmpuint(count_recorded(&m, " mark ticks=0x4 step=2 "), ==, 1);
    machine_stop(&m);
    file_drop(&f);
}

/* No stamps while the file is paused, or without a file. */
static void test_no_stamps(void)
{
    File f;
    Machine m;
    Nic n;
    Setup s;
    Qp a, b;

    file_make(&f);
    start_recorded(&m, &n, &s, &a, &b, f.option);
    record_to_file(&m, false);
    one_stamped_write(&n, &s, &a, 7);
    g_assert_cmpuint(count_recorded(&m, " mark "), ==, 0);
    machine_stop(&m);
    file_drop(&f);

    start_recorded(&m, &n, &s, &a, &b, "");
    g_assert_false(nic_offered(&n) & FAKERNIC_FEATURE_STAMPS);
    one_stamped_write(&n, &s, &a, 7);
    g_assert_cmpuint(count_recorded(&m, " mark "), ==, 0);
    machine_stop(&m);
}

/* ---- a file that is paused ----------------------------------------------- */

/* Reads the number of entries and the bytes of frames from a file's header. */
static void file_counts(int fd, uint64_t *entries, uint64_t *frames)
{
    g_assert_cmpint(pread(fd, entries, sizeof(*entries), 16), ==,
                    sizeof(*entries));
    g_assert_cmpint(pread(fd, frames, sizeof(*frames), 48), ==,
                    sizeof(*frames));
}

/* The name of an entry's kind, and its value. */
static char *file_kind(int fd, uint64_t entry, uint64_t *value)
{
    char names[HEADER - 56];
    g_auto(GStrv) lines = NULL;
    uint64_t words[3];

    g_assert_cmpint(pread(fd, names, sizeof(names), 56), ==, sizeof(names));
    lines = g_strsplit(names, "\n", -1);
    g_assert_cmpint(pread(fd, words, sizeof(words), HEADER + 64 * entry), ==,
                    sizeof(words));
    *value = words[1];
    return g_strndup(lines[(uint32_t)words[2]],
                     strcspn(lines[(uint32_t)words[2]], " "));
}

/* After a pause the file has the number of entries that it missed. Memory has
 * all of them. */
static void test_pause(void)
{
    g_autofree char *text = NULL, *kind = NULL, *rests = NULL;
    uint64_t before, after, frames, frames_after, missed;
    File f;
    QDict *reply;
    Machine m;
    Nic n;
    Setup s;
    Qp a, b;

    file_make(&f);
    start_recorded(&m, &n, &s, &a, &b, f.option);
    one_write(&n, &s, &a);
    record_to_file(&m, false);
    record_to_file(&m, false);
    file_counts(f.fd, &before, &frames);
    rests = file_kind(f.fd, before - 1, &missed);
    g_assert_cmpstr(rests, ==, "rests");
    one_write(&n, &s, &a);
    file_counts(f.fd, &after, &frames_after);
    g_assert_cmpuint(before, ==, after);
    g_assert_cmpuint(frames, ==, frames_after);
    record_to_file(&m, true);
    one_write(&n, &s, &a);
    file_counts(f.fd, &after, &frames_after);
    g_assert_cmpuint(after, >, before + 10);
    g_assert_cmpuint(frames_after, >, frames + 2000);
    kind = file_kind(f.fd, before, &missed);
    g_assert_cmpstr(kind, ==, "resumed");
    g_assert_cmpuint(missed, >, 10);
    text = recorded(&m);
    g_assert_nonnull(strstr(text, " resumed missed=0x"));
    machine_stop(&m);
    file_drop(&f);

    start_recorded(&m, &n, &s, &a, &b, "");
    reply = qtest_qmp(m.qts, "{ 'execute': 'qom-set', 'arguments': {"
                             " 'path': %s, 'property': 'x-recording',"
                      " 'value': true } }", NIC0);
    g_assert_nonnull(strstr(qdict_get_str(qdict_get_qdict(reply, "error"),
                                          "desc"), "x-record=FILE"));
    qobject_unref(reply);
    machine_stop(&m);
}

/* How many entries of a kind a file has. */
static unsigned file_count(int fd, const char *name)
{
    uint64_t entries, frames, value;
    unsigned count = 0;

    file_counts(fd, &entries, &frames);
    for (uint64_t i = 0; i < entries; i++) {
        g_autofree char *kind = file_kind(fd, i, &value);

        count += !strcmp(kind, name);
    }
    return count;
}

/* Two devices in one QEMU: each writes its actions only to its own file. */
static void test_two_files(void)
{
    Neighbours t;
    File a, b;

    file_make(&a);
    file_make(&b);
    neighbours_start(&t, a.option, b.option);
    neighbours_write(&t, 20000);
    g_assert_cmpuint(file_count(a.fd, "doorbell_sq"), ==, 1);
    g_assert_cmpuint(file_count(a.fd, "wqe"), ==, 1);
    g_assert_cmpuint(file_count(a.fd, "cqe"), ==, 1);
    g_assert_cmpuint(file_count(a.fd, "tx"), ==, 20);
    g_assert_cmpuint(file_count(b.fd, "rx"), ==, 20);
    g_assert_cmpuint(file_count(b.fd, "tx"), ==, file_count(a.fd, "rx"));
    g_assert_cmpuint(file_count(b.fd, "tx"), >, 0);
    g_assert_cmpuint(file_count(b.fd, "doorbell_sq"), ==, 0);
    g_assert_cmpuint(file_count(b.fd, "wqe"), ==, 0);
    g_assert_cmpuint(file_count(b.fd, "cqe"), ==, 0);
    machine_stop(&t.m);
    file_drop(&a);
    file_drop(&b);
}

#define COST_ROUNDS 60
#define COST_WRS    30

/* The number of minor page faults of QEMU. */
static uint64_t record_faults(Machine *m)
{
    g_autofree char *path = g_strdup_printf("/proc/%d/stat",
                                            (int)qtest_pid(m->qts));
    g_autofree char *text = NULL;
    g_auto(GStrv) words = NULL;

    g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
    words = g_strsplit(strrchr(text, ')'), " ", 10);
    return g_ascii_strtoull(words[8], NULL, 10);
}

/* CPU time of the main thread for WRITEs of 8 bytes by one doorbell. */
static uint64_t record_burst(Nic *n, Setup *s, Qp *a)
{
    const Wqe wqe = wqe_rdma(s, FAKERNIC_SQ_RDMA_WRITE, 0, 16384, 8);
    struct fakernic_cqe cqe;
    uint64_t before;

    for (unsigned i = 0; i < COST_WRS; i++) {
        sq_put(n, a, &wqe, sizeof(wqe));
    }
    before = main_thread_ns(n->m, false);
    sq_ring(n, a);
    for (unsigned i = 0; i < 4; i++) {
        reg_read(n, FAKERNIC_REG_STATUS);
    }
    before = main_thread_ns(n->m, false) - before;
    for (unsigned i = 0; i < COST_WRS; i++) {
        cq_expect(n, &s->cq, &cqe, FAKERNIC_CQE_RDMA_WRITE,
                  FAKERNIC_WC_SUCCESS);
    }
    queue_record(n, &s->cq, s->cq.index);
    return before;
}

static int record_compare(const void *a, const void *b)
{
    return *(const uint64_t *)a < *(const uint64_t *)b ? -1 :
           *(const uint64_t *)a > *(const uint64_t *)b;
}

/*
 * The test prints the CPU time that a file costs. It sets no limit, as that
 * depends on the machine. The file must have all entries, and its new pages
 * must cause few page faults.
 */
static void test_cost(void)
{
    g_autofree char *more = NULL;
    uint64_t took[2][COST_ROUNDS], first, last, frames, with, without, faults;
    File f;
    Machine m;
    Nic n;
    Setup s;
    Qp a, b;

    file_make(&f);
    more = g_strdup_printf(",turn-work=100000,turn-us=1000000%s", f.option);
    start_recorded(&m, &n, &s, &a, &b, more);
    record_burst(&n, &s, &a);
    faults = record_faults(&m);
    file_counts(f.fd, &first, &frames);
    for (unsigned i = 0; i < COST_ROUNDS; i++) {
        for (unsigned on = 0; on < 2; on++) {
            record_to_file(&m, on);
            took[on][i] = record_burst(&n, &s, &a);
        }
    }
    file_counts(f.fd, &last, &frames);
    faults = record_faults(&m) - faults;
    qsort(took[0], COST_ROUNDS, sizeof(uint64_t), record_compare);
    qsort(took[1], COST_ROUNDS, sizeof(uint64_t), record_compare);
    without = took[0][COST_ROUNDS / 2];
    with = took[1][COST_ROUNDS / 2];
    g_test_message("record: %u WRITEs take %" PRIu64 " ns, %" PRIu64
                   " ns with a file: %.1f %%; %" PRIu64 " entries each",
                   COST_WRS, without, with, 100.0 * with / without - 100,
                   (last - first) / COST_ROUNDS / COST_WRS);
    g_assert_cmpuint(last - first, >=, COST_ROUNDS * COST_WRS * 10);
    g_test_message("record: %" PRIu64 " page faults", faults);
    g_assert_cmpuint(faults, <, (last - first) * 64 / 4096 / 2);
    machine_stop(&m);
    file_drop(&f);
}

#define ROOT_PORT "-device pcie-root-port,id=rp0,chassis=1,addr=6"

/* QEMU refuses a device with this file. Its error contains 'words'. */
static void assert_file_refused(Machine *m, const char *path, const char *words)
{
    QDict *reply, *error;

    reply = qtest_qmp(m->qts, "{ 'execute': 'device_add', 'arguments': {"
                              " 'driver': 'fakernic', 'id': 'x', 'bus': 'rp0',"
                              " 'x-record': %s } }", path);
    error = qdict_get_qdict(reply, "error");
    g_assert_nonnull(error);
    g_assert_nonnull(strstr(qdict_get_str(error, "desc"), path));
    g_assert_nonnull(strstr(qdict_get_str(error, "desc"), words));
    qobject_unref(reply);
}

static void test_file_refused(void)
{
    Machine m;

    machine_start(&m, ROOT_PORT);
    assert_file_refused(&m, "/nowhere/at/all", "cannot open");
    machine_stop(&m);
}

/*
 * A file belongs to one device. Another one is refused, also in another QEMU,
 * and the file keeps its entries. A removed device releases the file.
 */
static void test_file_in_use(void)
{
    File f;
    Machine m, other;
    Nic n;
    Setup s;
    Qp a, b;
    uint64_t before, after, frames;

    file_make(&f);
    g_assert_cmpint(write(f.fd, "old", 3), ==, 3);
    start_recorded(&m, &n, &s, &a, &b, f.option);
    one_write(&n, &s, &a);
    file_counts(f.fd, &before, &frames);
    machine_start(&other, ROOT_PORT);
    assert_file_refused(&other, f.path, "is in use");
    one_write(&n, &s, &a);
    file_counts(f.fd, &after, &frames);
    g_assert_cmpuint(before, >, 0);
    g_assert_cmpuint(after, >, before + 10);
    machine_stop(&m);
    qtest_qmp_assert_success(other.qts, "{ 'execute': 'device_add',"
                             " 'arguments': { 'driver': 'fakernic', 'id': 'x',"
                             " 'bus': 'rp0', 'x-record': %s } }", f.path);
    machine_stop(&other);
    file_drop(&f);
}

/* Each trace event names its device. */
static void test_traced_by_name(void)
{
    g_autofree char *path = g_strdup("/tmp/fakernic-trace-XXXXXX");
    const int fd = g_mkstemp(path);
    g_autofree char *more = g_strdup_printf(",id=nic1 -trace 'fakernic_*' "
                                            "-D %s", path);
    g_autofree char *text = NULL;
    g_auto(GStrv) lines = NULL;
    unsigned of[2] = { 0 }, writes[2] = { 0 };
    Neighbours t;

    g_assert_cmpint(fd, >=, 0);
    close(fd);
    neighbours_start(&t, ",id=nic0", more);
    neighbours_write(&t, 2000);
    machine_stop(&t.m);
    g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
    unlink(path);
    lines = g_strsplit(text, "\n", -1);
    for (unsigned i = 0; lines[i] && *lines[i]; i++) {
        const bool first = strstr(lines[i], " " NIC0);
        const bool second = strstr(lines[i], " /machine/peripheral/nic1");

        if (first == second) {
            g_error("of which device? %s", lines[i]);
        }
        of[second]++;
        writes[second] += !!strstr(lines[i], "fakernic_sq_wqe ");
    }
    g_assert_cmpuint(of[0], >, 20);
    g_assert_cmpuint(of[1], >, 20);
    g_assert_cmpuint(writes[0], ==, 1);
    g_assert_cmpuint(writes[1], ==, 0);
}

const FakernicTest fakernic_record_tests[] = {
    { "record/order", ON(recorded_pair, test_order) },
    { "record/wrap", ON(recorded_pair, test_wrap) },
    { "record/probe", ON(recorded_pair, test_probe) },
    { "record/first-error", ON(recorded_pair, test_first_error) },
    { "record/fatal-error", ON(recorded_pair, test_fatal_error) },
    { "record/file", test_file },
    { "record/file-corrupted", test_file_corrupted },
    { "record/stamps", test_stamps },
    { "record/no-stamps", test_no_stamps },
    { "record/pause", test_pause },
    { "record/two-files", test_two_files },
    { "record/traced-by-name", test_traced_by_name },
    { "record/cost", test_cost },
    { "record/file-refused", test_file_refused },
    { "record/file-in-use", test_file_in_use },
    {}
};
