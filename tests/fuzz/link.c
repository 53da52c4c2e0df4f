/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The fuzz target "link": a member of a link with hostile peers. They write
 * anything to the shared memory, to the socket, and into their hello. An input
 * is a list of records (records.h). Each is one step of the member or of the
 * peer; the first one also selects what happens after the peer is caught lying.
 *
 * Errors are those that the sanitizers find, and accesses outside of the rings,
 * which have inaccessible pages around them. Others are: the member writes a
 * word that belongs to the peer; an index of the member is out of bounds; the
 * member accepts memory that can shrink; a descriptor leaks; each FUZZ_CHECK.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "pair.h"
#include "records.h"
#include "../qtest/fakernic-stranger.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define GUARD           4096U
#define MEMORY_SIZE     (2 * (LINK_CONTROL_SIZE + (off_t)LINK_RING_SIZE))
#define MEMORY_SEALS    (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

#define FUZZ_CHECK(condition)                                               \
    do {                                                                    \
        if (!(condition)) {                                                 \
            fprintf(stderr, "%s:%d: broken rule: %s\n", __FILE__, __LINE__, \
                    #condition);                                            \
            abort();                                                        \
        }                                                                   \
    } while (0)

typedef struct Link {
    LinkPair ours, theirs;
    int memfd;
    int sock[2];                /* the member's, the peer's; -1: closed */
    uint64_t now;
    bool emptied;               /* the peer sent an empty packet */
    bool broken;                /* the member found the peer lying */
} Link;

/* ---- memory with guards -------------------------------------------------- */

/* Replace mmap() and munmap() in pair.c. */
void *fuzz_mmap(void *at, size_t len, int rights, int flags, int fd,
                off_t from);
int fuzz_munmap(void *at, size_t len);

void *fuzz_mmap(void *at, size_t len, int rights, int flags, int fd,
                off_t from)
{
    uint8_t *map;

    if (at) {
        return mmap(at, len, rights, flags, fd, from);
    }
    map = mmap(NULL, len + 2 * GUARD, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS,
               -1, 0);
    FUZZ_CHECK(map != MAP_FAILED && rights == PROT_NONE);
    return map + GUARD;
}

int fuzz_munmap(void *at, size_t len)
{
    return munmap((uint8_t *)at - GUARD, len + 2 * GUARD);
}

/* ---- a connected peer ---------------------------------------------------- */

static void link_meet(Link *l)
{
    l->memfd = link_pair_make(&l->theirs);
    FUZZ_CHECK(l->memfd >= 0);
    FUZZ_CHECK(link_pair_adopt(&l->ours, l->memfd) == NULL);
    FUZZ_CHECK(!socketpair(AF_UNIX, SOCK_SEQPACKET, 0, l->sock));
    l->emptied = false;
    l->broken = false;
}

static void link_part(Link *l)
{
    link_pair_unmap(&l->ours);
    link_pair_unmap(&l->theirs);
    close(l->memfd);
    close(l->sock[0]);
    if (l->sock[1] >= 0) {
        close(l->sock[1]);
    }
}

/* The words that only the peer may write. */
typedef struct PeersWords {
    uint32_t tail, wants_room, head, asleep;
    uint64_t polled;
} PeersWords;

static PeersWords peers_words(const Link *l)
{
    const LinkControl *in = l->ours.rx.control, *out = l->ours.tx.control;

    return (PeersWords) {
        in->tail, in->wants_room, out->head, out->asleep, out->polled,
    };
}

static void link_check(const Link *l, const PeersWords *before)
{
    const PeersWords now = peers_words(l);
    const LinkWriter *tx = &l->ours.tx;

    FUZZ_CHECK(!memcmp(&now, before, sizeof(now)));
    FUZZ_CHECK(tx->tail - tx->head <= LINK_RING_SIZE);
    FUZZ_CHECK(tx->control->tail == tx->tail);
    FUZZ_CHECK(l->ours.rx.control->head == l->ours.rx.head);
    FUZZ_CHECK((tx->tail | l->ours.rx.head) % LINK_RECORD_ALIGN == 0);
}

/* ---- steps of the member ------------------------------------------------- */

static uint32_t frame_length(const FuzzRecord *r)
{
    switch (r->b & 3) {
    case 0:
        return 60;
    case 1:
        return LINK_FRAME_MAX - (r->c & 7);
    case 2:
        return 1 + r->c % 9000U;
    default:
        return 1 + r->e % LINK_FRAME_MAX;
    }
}

/* Puts a copy of exact size, so that a read behind its end is found. */
static LinkRingResult put_one(LinkWriter *tx, uint32_t len)
{
    uint8_t *frame = calloc(1, len);
    LinkRingResult result;

    FUZZ_CHECK(frame != NULL);
    result = link_ring_put(tx, frame, len);
    free(frame);
    return result;
}

static LinkRingResult get_one(LinkReader *rx)
{
    const uint32_t used = rx->control->tail - rx->head;
    uint8_t *frame = malloc(LINK_FRAME_MAX);
    LinkRingResult result;
    uint32_t len = 0;

    FUZZ_CHECK(frame != NULL);
    result = link_ring_get(rx, frame, &len);
    FUZZ_CHECK((result == LINK_RING_NONE) == !used);
    FUZZ_CHECK(result != LINK_RING_OK ||
               (used <= LINK_RING_SIZE && used % LINK_RECORD_ALIGN == 0 &&
                len && len + LINK_RECORD_ALIGN <= used &&
                len <= LINK_FRAME_MAX));
    free(frame);
    return result;
}

static void step_put(Link *l, const FuzzRecord *r)
{
    for (unsigned i = 0; i <= r->a % 32U; i++) {
        LinkRingResult result = put_one(&l->ours.tx, frame_length(r));

        l->broken |= result == LINK_RING_BROKEN;
        if (result != LINK_RING_OK) {
            break;
        }
    }
}

static void step_get(Link *l, const FuzzRecord *r)
{
    for (unsigned i = 0; i <= r->a % 32U; i++) {
        LinkRingResult result = get_one(&l->ours.rx);

        l->broken |= result == LINK_RING_BROKEN;
        if (result != LINK_RING_OK) {
            break;
        }
    }
}

static void step_signals(Link *l, const FuzzRecord *r)
{
    LinkRingResult result;
    uint32_t taken;

    switch (r->a & 7) {
    case 0:
        link_ring_wakes(&l->ours.tx, l->now);       /* for a ticket */
        link_ring_wakes(&l->ours.tx, l->now);       /* for a poll */
        FUZZ_CHECK(!link_ring_wakes(&l->ours.tx, l->now));
        break;
    case 1:
        link_ring_frees(&l->ours.rx);
        FUZZ_CHECK(!link_ring_frees(&l->ours.rx));
        break;
    case 2:
        if (link_ring_sleep(&l->ours.rx)) {
            FUZZ_CHECK(l->ours.rx.control->asleep);
        }
        break;
    case 3:
        link_ring_polled(&l->ours.rx, l->now);
        link_ring_wake(&l->ours.rx);
        break;
    case 4:
        link_ring_see(&l->ours.tx);
        break;
    case 5:
        link_ring_unread(&l->ours.tx, &taken);
        link_ring_oversleeps(&l->ours.tx);
        break;
    case 6:
        result = link_ring_await_room(&l->ours.tx, frame_length(r));
        l->broken |= result == LINK_RING_BROKEN;
        FUZZ_CHECK((result == LINK_RING_NONE) ==
                   (l->ours.tx.control->wants_room != 0));
        l->ours.tx.control->wants_room = 0;
        break;
    default:
        l->now += (uint64_t)1 << r->b % 63U;
        break;
    }
}

/* ---- steps of the peer --------------------------------------------------- */

/* A step of an honest peer. */
static void step_peer(Link *l, const FuzzRecord *r)
{
    for (unsigned i = 0; i <= r->a % 32U; i++) {
        if ((r->c & 1 ? put_one(&l->theirs.tx, frame_length(r)) :
                        get_one(&l->theirs.rx)) != LINK_RING_OK) {
            break;
        }
    }
}

/* A number near an important one, or any. */
static uint32_t lie(const FuzzRecord *r, uint32_t near)
{
    const int16_t delta = (int16_t)r->c;

    switch (r->b & 3) {
    case 0:
        return near + (uint32_t)(delta * (int)LINK_RECORD_ALIGN);
    case 1:
        return near + LINK_RING_SIZE + (uint32_t)delta;
    case 2:
        return near + (uint32_t)delta;
    default:
        return r->e;
    }
}

static void step_word(Link *l, const FuzzRecord *r)
{
    LinkControl *tx = l->theirs.tx.control, *rx = l->theirs.rx.control;

    switch (r->a % 6U) {
    case 0:
        tx->tail = lie(r, r->d & 1 ? l->theirs.tx.tail : l->ours.rx.head);
        break;
    case 1:
        tx->wants_room = lie(r, l->ours.rx.signalled);
        break;
    case 2:
        rx->head = lie(r, r->d & 1 ? l->ours.tx.head : l->ours.tx.tail);
        break;
    case 3:
        rx->asleep = lie(r, l->ours.tx.signalled);
        break;
    case 4:
        rx->polled = r->b & 1 ? r->g : l->now - r->c;
        break;
    default:            /* an honest value again */
        tx->tail = l->ours.rx.head;
        rx->head = l->ours.tx.tail;
        break;
    }
}

/* Changes a word near the frame that the member reads next, or any other. */
static void step_data(Link *l, const FuzzRecord *r)
{
    const uint32_t at = r->d & 1 ? r->f : l->ours.rx.head + r->d / 2U;
    const uint32_t word = lie(r, l->theirs.tx.control->tail - l->ours.rx.head);

    memcpy(l->theirs.tx.data + at % LINK_RING_SIZE, &word, sizeof(word));
}

static void step_file(Link *l, const FuzzRecord *r)
{
    switch (r->a & 3) {
    case 0:
        FUZZ_CHECK(ftruncate(l->memfd, r->g % MEMORY_SIZE) < 0);
        break;
    case 1:
        FUZZ_CHECK(fcntl(l->memfd, F_ADD_SEALS, F_SEAL_WRITE) < 0);
        break;
    default:    /* a hole: shared bytes become 0, private state stays */
        fallocate(l->memfd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                  2 * LINK_CONTROL_SIZE + r->e % 256U * 4096,
                  4096 * (1 + r->b));
        break;
    }
}

static void step_socket(Link *l, const FuzzRecord *r)
{
    static const char bytes[256];
    bool there;

    for (unsigned i = 0; l->sock[1] >= 0 && i < r->a % 40U; i++) {
        send(l->sock[1], bytes, r->b, MSG_DONTWAIT | MSG_NOSIGNAL);
        l->emptied |= r->b == 0;
    }
    if (r->c % 8U == 0 && l->sock[1] >= 0) {
        close(l->sock[1]);
        l->sock[1] = -1;
    }
    there = link_signal(l->sock[0]);
    FUZZ_CHECK(there == (l->sock[1] >= 0));
    there = link_signals_take(l->sock[0]) > 0;
    FUZZ_CHECK(there || l->sock[1] < 0 || l->emptied);
}

/* ---- strangers ----------------------------------------------------------- */

static off_t stranger_size(const FuzzRecord *r)
{
    switch (r->b >> 1 & 3) {
    case 0:
        return (off_t)(r->h % (3 * MEMORY_SIZE));
    case 1:
        return MEMORY_SIZE - 4096;
    default:
        return MEMORY_SIZE;
    }
}

static int stranger_fd(const FuzzRecord *r, unsigned kind)
{
    LinkPair pair;
    int fd;

    switch (kind & 3) {
    case 0:
        fd = link_pair_make(&pair);
        link_pair_unmap(&pair);
        return fd;
    case 1:
        fd = memfd_create("stranger", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        FUZZ_CHECK(!ftruncate(fd, stranger_size(r)));
        fcntl(fd, F_ADD_SEALS, r->e & 0x20 ? MEMORY_SEALS : (int)(r->e & 0x1f));
        return fd;
    case 2:
        return open("/dev/null", O_RDWR | O_CLOEXEC);
    default:
        return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    }
}

static void stranger_speaks(int sock, const FuzzRecord *r)
{
    uint8_t bytes[256] = { 0 };
    const LinkHello hello = link_hello();
    const unsigned count = r->d & 3;
    int fds[STRANGER_FDS_MAX];

    memcpy(bytes, &hello, sizeof(hello));
    if (r->b & 8) {
        bytes[r->a % sizeof(hello)] ^= (uint8_t)r->f;
    }
    for (unsigned i = 0; i < count; i++) {
        fds[i] = stranger_fd(r, r->d >> (2 + 2 * i));
        FUZZ_CHECK(fds[i] >= 0);
    }
    stranger_send(sock, bytes, r->b & 1 ? sizeof(hello) : r->c % 256U, fds,
                  count, MSG_DONTWAIT);
    for (unsigned i = 0; i < count; i++) {
        close(fds[i]);
    }
}

/* The number of open descriptors, of those that this program can open. */
static unsigned open_fds(void)
{
    unsigned count = 0;

    for (int fd = 0; fd < 64; fd++) {
        count += fcntl(fd, F_GETFD) >= 0;
    }
    return count;
}

/* The number that the next descriptor will get. */
static int next_fd(void)
{
    int fd = fcntl(0, F_DUPFD, 0);

    close(fd);
    return fd;
}

/* Receives a hello while no descriptor is left. */
static int receive_without(int sock, LinkHello *hello, int *fd)
{
    struct rlimit all, none;
    int len;

    FUZZ_CHECK(!getrlimit(RLIMIT_NOFILE, &all));
    none = (struct rlimit) { (rlim_t)next_fd(), all.rlim_max };
    FUZZ_CHECK(!setrlimit(RLIMIT_NOFILE, &none));
    len = link_hello_receive(sock, hello, fd);
    FUZZ_CHECK(!setrlimit(RLIMIT_NOFILE, &all));
    FUZZ_CHECK(*fd == -1);
    return len;
}

/* The hello was accepted, so its memory must be valid. */
static void stranger_is_taken(Link *l, LinkPair *pair, int fd)
{
    struct stat st;
    const int seals = fcntl(fd, F_GET_SEALS);

    FUZZ_CHECK((seals & MEMORY_SEALS) == MEMORY_SEALS);
    FUZZ_CHECK(!fstat(fd, &st) && st.st_size == MEMORY_SIZE);
    get_one(&pair->rx);
    put_one(&pair->tx, LINK_FRAME_MAX);
    link_ring_wakes(&pair->tx, l->now);
    link_ring_frees(&pair->rx);
    link_pair_unmap(pair);
}

static void stranger_is_heard(Link *l, int sock, bool no_fd)
{
    LinkHello hello = { 0 };
    LinkPair pair = { 0 };
    int fd = -2, len;

    len = no_fd ? receive_without(sock, &hello, &fd) :
                  link_hello_receive(sock, &hello, &fd);
    FUZZ_CHECK(len >= LINK_FOREIGN && len <= (int)sizeof(hello));
    /* A received descriptor must be sealed memory. */
    FUZZ_CHECK(len < 0 || fd == -1 ||
               (fcntl(fd, F_GET_SEALS) & MEMORY_SEALS) == MEMORY_SEALS);
    FUZZ_CHECK(fd == -1 || fcntl(fd, F_GETFD) == FD_CLOEXEC);
    if (len > 0 && !link_hello_check(&hello, (size_t)len)) {
        if (!link_pair_adopt(&pair, fd)) {
            stranger_is_taken(l, &pair, fd);
        }
        FUZZ_CHECK(pair.map == NULL);
    }
    if (fd >= 0) {
        close(fd);
    }
}

static void step_stranger(Link *l, const FuzzRecord *r)
{
    const LinkHello answer = link_hello();
    int ends[2];

    FUZZ_CHECK(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends));
    if (r->g & 8) {             /* a packet that the member will not read */
        link_hello_send(ends[0], &answer, -1);
    }
    stranger_speaks(ends[1], r);
    if (r->g & 1) {
        stranger_speaks(ends[1], r);
    }
    if (r->g & 2) {
        close(ends[1]);
    }
    FUZZ_CHECK(link_process(ends[0]) == getpid());
    for (unsigned i = 0; i < 3; i++) {
        stranger_is_heard(l, ends[0], r->g & 4);
    }
    close(ends[0]);
    if (!(r->g & 2)) {
        close(ends[1]);
    }
}

/* ---- the fuzzer's calls -------------------------------------------------- */

static void step_ours(Link *l, const FuzzRecord *r)
{
    const PeersWords before = peers_words(l);

    switch (r->op % 16U) {
    case 0:
    case 1:
        step_put(l, r);
        break;
    case 2:
    case 3:
        step_get(l, r);
        break;
    default:
        step_signals(l, r);
        break;
    }
    link_check(l, &before);
}

static void step(Link *l, const FuzzRecord *r)
{
    switch (r->op % 16U) {
    case 6:
    case 7:
        step_peer(l, r);
        break;
    case 8:
    case 9:
    case 10:
        step_word(l, r);
        break;
    case 11:
    case 12:
        step_data(l, r);
        break;
    case 13:
        step_file(l, r);
        break;
    case 14:
        step_socket(l, r);
        break;
    case 15:
        step_stranger(l, r);
        break;
    default:
        step_ours(l, r);
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    FuzzInput input = { .data = data, .size = size };
    const unsigned fds = open_fds();
    Link l = { .now = 1 };
    FuzzRecord first, r;

    if (!fuzz_next(&input, &first)) {
        return 0;
    }
    link_meet(&l);
    while (fuzz_next(&input, &r)) {
        step(&l, &r);
        /* link.c drops such a peer; some inputs continue with it. */
        if (l.broken && !(first.a & 1)) {
            link_part(&l);
            link_meet(&l);
        }
    }
    link_part(&l);
    FUZZ_CHECK(open_fds() == fds);
    return 0;
}
