/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The recorder: a ring of entries in memory, and one in a mapped file. An entry
 * costs a read of the clock and a store of 64 bytes per ring. A frame is copied
 * into the file. There are no system calls.
 */
#include "qemu/osdep.h"
#include "qemu/timer.h"
#include "qapi/error.h"
#include "../clock.h"
#include "record.h"
#include "../state.h"
#include "../../roce/stream.h"
#include <sys/file.h>
#include <sys/mman.h>

/* Per kind: its name, the name of its value (- for none), its arguments. */
static const char *const fakernic_record_names[FAKERNIC_RECORD_KINDS] = {
    [FAKERNIC_RECORD_NONE] = "none -",
    [FAKERNIC_RECORD_DOORBELL_SQ] = "doorbell_sq - qpn pi ci",
    [FAKERNIC_RECORD_WQE] = "wqe - qpn index opcode blocks error",
    [FAKERNIC_RECORD_RECV_WQE] = "recv_wqe - qpn srqn tag sges error",
    [FAKERNIC_RECORD_TX] =
        "tx - qpn peer index psn opcode attempt len loopback roce",
    [FAKERNIC_RECORD_RX] = "rx - qpn psn opcode",
    [FAKERNIC_RECORD_DROP] = "drop - qpn stat psn",
    [FAKERNIC_RECORD_NAK_TX] = "nak_tx - qpn psn syndrome",
    [FAKERNIC_RECORD_NAK_RX] = "nak_rx - qpn psn syndrome",
    [FAKERNIC_RECORD_RETRY] = "retry - qpn psn left",
    [FAKERNIC_RECORD_TIMEOUT] = "timeout - qpn psn left",
    [FAKERNIC_RECORD_PROBE] = "probe - qpn psn count",
    [FAKERNIC_RECORD_QP_STATE] = "qp_state - qpn from to",
    [FAKERNIC_RECORD_QP_ERROR] = "qp_error - qpn vendor_err",
    [FAKERNIC_RECORD_DMA_READ] = "dma_read address len",
    [FAKERNIC_RECORD_DMA_WRITE] = "dma_write address len",
    [FAKERNIC_RECORD_CQE] = "cqe - cqn pi qpn index opcode status vendor_err",
    [FAKERNIC_RECORD_CQE_VISIBLE] = "cqe_visible - cqn pi qpn index",
    [FAKERNIC_RECORD_ARM] = "arm - cqn ci pi solicited",
    [FAKERNIC_RECORD_EQE] = "eqe - eqn pi type id data vector armed",
    [FAKERNIC_RECORD_DOORBELL_EQ] = "doorbell_eq - eqn ci arm",
    [FAKERNIC_RECORD_INTERRUPT] = "interrupt - vector",
    [FAKERNIC_RECORD_COMMAND] = "command - opcode cookie",
    [FAKERNIC_RECORD_COMMAND_DONE] =
        "command_done - opcode cookie status detail",
    [FAKERNIC_RECORD_FAULT] = "fault - point action qpn psn hits rule",
    [FAKERNIC_RECORD_FATAL] = "fatal - code",
    [FAKERNIC_RECORD_RESET] = "reset -",
    [FAKERNIC_RECORD_HELD] = "held - reasons",
    [FAKERNIC_RECORD_FRAME] = "frame offset len way",
    [FAKERNIC_RECORD_MARK] = "mark ticks step id index low high",
    [FAKERNIC_RECORD_RESUMED] = "resumed missed",
    [FAKERNIC_RECORD_RESTS] = "rests -",
    [FAKERNIC_RECORD_SQ_RECORD] = "sq_record - qpn pi ci",
    [FAKERNIC_RECORD_LOADED] = "loaded -",
};

static const char fakernic_record_magic[8] = "fakerec";

/*
 * Opens and locks the file for this device alone. If another device truncated
 * it, a store into the mapping would kill QEMU (SIGBUS). -1: it failed.
 */
static int fakernic_recorder_take(const char *path, Error **errp)
{
    const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

    if (fd < 0) {
        error_setg_errno(errp, errno, "property 'x-record': cannot open '%s'",
                         path);
        return -1;
    }
    if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        if (errno == EWOULDBLOCK) {
            error_setg(errp, "property 'x-record': '%s' is in use by another "
                             "device", path);
        } else {
            error_setg_errno(errp, errno,
                             "property 'x-record': cannot lock '%s'", path);
        }
        close(fd);
        return -1;
    }
    return fd;
}

/*
 * Allocates 'size' bytes of zeros on the disk and maps them. A store into a
 * hole would kill QEMU on a full disk. All pages are mapped at once, because a
 * page fault costs more than all entries of the page.
 */
static void *fakernic_recorder_map(int fd, const char *path, size_t size,
                                   Error **errp)
{
    const int error = ftruncate(fd, 0) < 0 ? errno
                                           : posix_fallocate(fd, 0, size);
    void *p;

    if (error) {
        error_setg_errno(errp, error, "property 'x-record': no room for '%s'",
                         path);
        return NULL;
    }
    p = mmap(NULL, size, PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_POPULATE, fd, 0);
    if (p == MAP_FAILED) {
        error_setg_errno(errp, errno, "property 'x-record': cannot map '%s'",
                         path);
        return NULL;
    }
    return p;
}

/* Writes the names of the numbers in entries into the header. */
static void fakernic_recorder_describe(FakernicRecordHeader *header)
{
    g_autoptr(GString) text = g_string_new(NULL);

    for (unsigned i = 0; i < FAKERNIC_RECORD_KINDS; i++) {
        g_string_append_printf(text, "%s\n", fakernic_record_names[i]);
    }
    g_string_append(text, "points");
    for (unsigned i = 0; i < ROCE_FAULT_POINTS; i++) {
        g_string_append_printf(text, " %s", roce_fault_point_name(i));
    }
    g_string_append(text, "\nactions");
    for (unsigned i = 0; i < ROCE_FAULT_ACTIONS; i++) {
        g_string_append_printf(text, " %s", roce_fault_action_name(i));
    }
    g_assert(text->len < sizeof(header->names));
    memcpy(header->names, text->str, text->len + 1);
}

static bool fakernic_recorder_open(FakernicState *s, Error **errp)
{
    FakernicRecorder *r = &s->recorder;
    const size_t frames =
        sizeof(*r->header) + FAKERNIC_RECORDS_FILE * sizeof(*r->ring);

    r->mapped = frames + FAKERNIC_RECORD_FRAMES;
    r->fd = fakernic_recorder_take(r->path, errp);
    if (r->fd < 0) {
        return false;
    }
    r->header = fakernic_recorder_map(r->fd, r->path, r->mapped, errp);
    if (!r->header) {
        close(r->fd);
        return false;
    }
    r->ring = (FakernicRecord *)(r->header + 1);
    r->frames = (uint8_t *)r->header + frames;
    r->header->frames_room = FAKERNIC_RECORD_FRAMES;
    fakernic_recorder_describe(r->header);
    memcpy(r->header->magic, fakernic_record_magic, sizeof(r->header->magic));
    r->header->version = 2;
    r->header->room = FAKERNIC_RECORDS_FILE;
    r->header->virtual_ns = fakernic_now() - get_clock();
    memcpy(r->header->mac, s->conf.macaddr.a, sizeof(r->header->mac));
    return true;
}

bool fakernic_recorder_init(FakernicState *s, Error **errp)
{
    FakernicRecorder *r = &s->recorder;

    QEMU_BUILD_BUG_ON(sizeof(FakernicRecord) != 64);
    QEMU_BUILD_BUG_ON(sizeof(FakernicRecordHeader) != 4096);
    if (r->path && !fakernic_recorder_open(s, errp)) {
        return false;
    }
    r->last = g_new0(FakernicRecord, FAKERNIC_RECORDS);
    r->count = 0;
    return true;
}

void fakernic_recorder_cleanup(FakernicState *s)
{
    FakernicRecorder *r = &s->recorder;

    if (r->header) {
        munmap(r->header, r->mapped);
        close(r->fd);
    }
    g_free(r->last);
    g_free(r->first_error);
    r->header = NULL;
    r->last = NULL;
    r->first_error = NULL;
}

/* Writes an entry into the file, and prefetches the place after the next. */
static void fakernic_recorder_file(FakernicRecorder *r,
                                   const FakernicRecord *entry)
{
    const uint64_t count = r->header->count;

    r->ring[count % FAKERNIC_RECORDS_FILE] = *entry;
    __builtin_prefetch(&r->ring[(count + 2) % FAKERNIC_RECORDS_FILE], 1);
    r->header->count = count + 1;
}

void fakernic_record_put(FakernicState *s, FakernicRecordKind kind,
                         uint64_t value,
                         const uint32_t arg[FAKERNIC_RECORD_ARGS])
{
    FakernicRecorder *r = &s->recorder;
    FakernicRecord *entry;

    if (!r->last) {
        return;                 /* after fakernic_recorder_cleanup() */
    }
    entry = &r->last[r->count % FAKERNIC_RECORDS];
    entry->time_ns = get_clock();
    entry->value = value;
    entry->kind = kind;
    memcpy(entry->arg, arg, sizeof(entry->arg));
    r->count++;
    if (r->header && !r->paused) {
        fakernic_recorder_file(r, entry);
    } else if (r->header) {
        r->missed++;
    }
}

void fakernic_record_mark(FakernicState *s, FakernicRecordStep step,
                          uint32_t id, uint32_t index, uint64_t stamp)
{
    const uint64_t now = cpu_get_host_ticks();

    fakernic_record(s, MARK, stamp, step, id, index, now, now >> 32);
}

void fakernic_record_frame(FakernicState *s, FakernicRecordWay way,
                           const uint8_t *frame, size_t len)
{
    FakernicRecorder *r = &s->recorder;

    if (r->header && r->paused) {
        r->missed++;
    } else if (r->header) {
        const uint64_t at = r->header->frames % FAKERNIC_RECORD_FRAMES;
        const size_t first = MIN(len, FAKERNIC_RECORD_FRAMES - at);

        memcpy(r->frames + at, frame, first);
        memcpy(r->frames, frame + first, len - first);
        fakernic_record(s, FRAME, r->header->frames, len, way);
        r->header->frames += len;
    }
}

bool fakernic_recorder_is_on(const FakernicState *s)
{
    return s->recorder.header && !s->recorder.paused;
}

void fakernic_recorder_set(FakernicState *s, bool on, Error **errp)
{
    FakernicRecorder *r = &s->recorder;

    if (!r->header) {
        error_setg(errp, "property 'x-recording': there is no file, start the "
                         "device with 'x-record=FILE'");
        return;
    }
    if (on && r->paused) {
        r->paused = false;
        fakernic_record(s, RESUMED, r->missed);
        r->missed = 0;
    }
    if (!on && !r->paused) {
        fakernic_record(s, RESTS, 0);
    }
    r->paused = !on;
}

void fakernic_record_keep(FakernicState *s, bool fatal)
{
    FakernicRecorder *r = &s->recorder;

    if (!r->last || (r->first_error && (!fatal || r->first_error_fatal))) {
        return;
    }
    g_free(r->first_error);
    r->first_error_fatal = fatal;
    r->first_error_count = r->count;
    r->first_error = g_memdup2(r->last, FAKERNIC_RECORDS * sizeof(*r->last));
}

/* Writes a number. For all entries printf() would take longer than a turn. */
static void fakernic_record_digits(GString *text, uint64_t value, bool hex)
{
    char digits[20];
    unsigned at = sizeof(digits);

    do {
        digits[--at] = "0123456789abcdef"[hex ? value % 16 : value % 10];
        value = hex ? value / 16 : value / 10;
    } while (value);
    g_string_append_len(text, digits + at, sizeof(digits) - at);
}

/* Writes the next of the names as " name="; false: there is none. */
static bool fakernic_record_name(GString *text, const char **names)
{
    const size_t len = strcspn(*names, " ");

    if (!len) {
        return false;
    }
    g_string_append_c(text, ' ');
    g_string_append_len(text, *names, len);
    g_string_append_c(text, '=');
    *names += len + ((*names)[len] != '\0');
    return true;
}

static void fakernic_record_line(GString *text, uint64_t number,
                                 const FakernicRecord *entry)
{
    const char *names = fakernic_record_names[entry->kind];
    const size_t len = strcspn(names, " ");

    fakernic_record_digits(text, number, false);
    g_string_append_c(text, ' ');
    fakernic_record_digits(text, entry->time_ns, false);
    g_string_append_c(text, ' ');
    g_string_append_len(text, names, len);
    names += len + 1;
    if (*names == '-') {
        names += names[1] ? 2 : 1;
    } else {
        fakernic_record_name(text, &names);
        g_string_append(text, "0x");
        fakernic_record_digits(text, entry->value, true);
    }
    for (unsigned i = 0; fakernic_record_name(text, &names); i++) {
        fakernic_record_digits(text, entry->arg[i], false);
    }
    g_string_append_c(text, '\n');
}

char *fakernic_record_text(const FakernicState *s, bool now)
{
    const FakernicRecorder *r = &s->recorder;
    const bool kept = r->first_error && !now;
    const FakernicRecord *ring = kept ? r->first_error : r->last;
    const uint64_t count = kept ? r->first_error_count : r->count;
    GString *text = g_string_new(NULL);

    for (uint64_t i = count - MIN(count, FAKERNIC_RECORDS); ring && i < count;
         i++) {
        fakernic_record_line(text, i, &ring[i % FAKERNIC_RECORDS]);
    }
    return g_string_free(text, false);
}

/* ---- saving and loading -------------------------------------------------- */

static void record_save_entry(RoceStream *s, FakernicRecord *entry)
{
    ROCE_FIELD(s, entry->time_ns);
    ROCE_FIELD(s, entry->value);
    ROCE_FIELD(s, entry->kind);
    for (unsigned i = 0; i < FAKERNIC_RECORD_ARGS; i++) {
        ROCE_FIELD(s, entry->arg[i]);
    }
    ROCE_CHECK(s, entry->kind > FAKERNIC_RECORD_NONE &&
                      entry->kind < FAKERNIC_RECORD_KINDS, "kind of a record");
}

static void record_save_ring(RoceStream *s, FakernicRecord *ring,
                             uint64_t count)
{
    for (uint64_t i = count - MIN(count, FAKERNIC_RECORDS);
         i < count && !s->failed; i++) {
        record_save_entry(s, &ring[i % FAKERNIC_RECORDS]);
    }
}

static void record_save(RoceStream *s, FakernicRecorder *r)
{
    bool error = !s->loads && r->first_error;

    ROCE_FIELD(s, r->count);
    record_save_ring(s, r->last, r->count);
    ROCE_FIELD(s, error);
    ROCE_FIELD(s, r->first_error_count);
    ROCE_FIELD(s, r->first_error_fatal);
    if (s->loads) {
        g_free(r->first_error);
        r->first_error = error ? g_new0(FakernicRecord, FAKERNIC_RECORDS)
                               : NULL;
    }
    if (error) {
        record_save_ring(s, r->first_error, r->first_error_count);
    }
    ROCE_DERIVED(r->header);            /* the file */
    ROCE_DERIVED(r->ring);
    ROCE_DERIVED(r->frames);
    ROCE_DERIVED(r->path);
    ROCE_DERIVED(r->mapped);
    ROCE_DERIVED(r->fd);
    ROCE_DERIVED(r->paused);
    ROCE_DERIVED(r->missed);
}

void fakernic_record_save(RoceStream *s, FakernicState *d)
{
    FakernicRecorder *r = &d->recorder;

    record_save(s, r);
    if (s->loads && s->failed) {
        r->count = 0;           /* entries may be invalid */
        g_clear_pointer(&r->first_error, g_free);
    }
}
