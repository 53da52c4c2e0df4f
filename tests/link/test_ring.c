/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A ring of the link, with a peer that obeys the rules and with one that does
 * not; and how two members agree on their memory. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "harness.h"
#include "pair.h"
#include "../qtest/fakernic-stranger.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define FRAMES 200000U

static LinkPair a, b;
static uint8_t frame[LINK_FRAME_MAX], got[LINK_FRAME_MAX];

static void join(void)
{
    int fd = link_pair_make(&a);

    REQUIRE(fd >= 0);
    REQUIRE(link_pair_adopt(&b, fd) == NULL);
    close(fd);
}

static void part(void)
{
    link_pair_unmap(&a);
    link_pair_unmap(&b);
}

/* A frame's number determines its length and bytes. */
static uint32_t make_frame(uint32_t number)
{
    uint32_t len = 1 + number * 2654435761U % 9000;

    memset(frame, number, len);
    memcpy(frame, &number, len < 4 ? len : 4);
    return len;
}

static void frames_arrive_whole_and_in_order(void)
{
    uint32_t sent = 0, received = 0, len;

    join();
    while (received < 3000) {
        while (sent < 3000 &&
               link_ring_put(&a.tx, frame, make_frame(sent)) == LINK_RING_OK) {
            sent++;
        }
        REQUIRE(link_ring_get(&b.rx, got, &len) == LINK_RING_OK);
        CHECK_EQ(len, make_frame(received));
        CHECK_MEM(got, frame, len);
        received++;
    }
    CHECK(link_ring_get(&b.rx, got, &len) == LINK_RING_NONE);
    part();
}

static void longest_frame_fits(void)
{
    uint32_t len;

    join();
    for (unsigned i = 0; i < 100; i++) {
        memset(frame, i, sizeof(frame));
        REQUIRE(link_ring_put(&a.tx, frame, LINK_FRAME_MAX) == LINK_RING_OK);
        REQUIRE(link_ring_get(&b.rx, got, &len) == LINK_RING_OK);
        CHECK_EQ(len, LINK_FRAME_MAX);
        CHECK_MEM(got, frame, len);
    }
    part();
}

static void sleeper_is_signalled_once(void)
{
    uint32_t len;

    join();
    CHECK(link_ring_sleep(&b.rx));
    link_ring_put(&a.tx, frame, 60);
    CHECK(link_ring_wakes(&a.tx, 1));
    link_ring_put(&a.tx, frame, 60);
    CHECK(!link_ring_wakes(&a.tx, 1));
    link_ring_wake(&b.rx);
    CHECK(!link_ring_sleep(&b.rx));
    link_ring_get(&b.rx, got, &len);
    link_ring_put(&a.tx, frame, 60);
    CHECK(!link_ring_wakes(&a.tx, 1));
    part();
}

static void polling_reader_is_signalled_when_it_stops(void)
{
    join();
    link_ring_polled(&b.rx, 1000);
    link_ring_put(&a.tx, frame, 60);
    CHECK(!link_ring_wakes(&a.tx, 1000 + LINK_POLL_RECENT - 1));
    CHECK(link_ring_wakes(&a.tx, 1000 + LINK_POLL_RECENT));
    CHECK(!link_ring_wakes(&a.tx, 2000 + LINK_POLL_RECENT));
    part();
}

/* A writer sees whether the reader has read everything, and its progress. */
static void writer_sees_unread_frames(void)
{
    uint32_t len, taken, before;

    join();
    CHECK(!link_ring_unread(&a.tx, &before));
    link_ring_put(&a.tx, frame, 60);
    link_ring_put(&a.tx, frame, 60);
    CHECK(link_ring_unread(&a.tx, &taken));
    CHECK(taken == before);
    REQUIRE(link_ring_get(&b.rx, got, &len) == LINK_RING_OK);
    CHECK(link_ring_unread(&a.tx, &taken));
    CHECK(taken != before);
    REQUIRE(link_ring_get(&b.rx, got, &len) == LINK_RING_OK);
    CHECK(!link_ring_unread(&a.tx, &taken));
    part();
}

/* The writer detects a reader that sleeps without a signal while there is a
 * frame. */
static void lost_wakeups_are_detected(void)
{
    uint32_t len;

    join();
    CHECK(link_ring_sleep(&b.rx));
    CHECK_EQ(link_ring_oversleeps(&a.tx), 0);
    link_ring_put(&a.tx, frame, 60);
    CHECK(link_ring_oversleeps(&a.tx) != 0);
    CHECK(link_ring_wakes(&a.tx, 1));
    CHECK_EQ(link_ring_oversleeps(&a.tx), 0);
    link_ring_wake(&b.rx);
    link_ring_put(&a.tx, frame, 60);
    CHECK_EQ(link_ring_oversleeps(&a.tx), 0);
    /* The reader's mistake: it does not check the ring again. */
    b.rx.control->asleep = ++b.rx.ticket;
    CHECK_EQ(link_ring_oversleeps(&a.tx), b.rx.ticket);
    while (link_ring_get(&b.rx, got, &len) == LINK_RING_OK) {
    }
    CHECK_EQ(link_ring_oversleeps(&a.tx), 0);
    part();
}

/* The writer detects a reader that sleeps without reporting the room that it
 * has made. */
static void unreported_room_is_detected(void)
{
    uint32_t len, ticket;

    join();
    CHECK(link_ring_sleep(&b.rx));
    while (link_ring_put(&a.tx, frame, 9000) == LINK_RING_OK) {
    }
    CHECK(link_ring_await_room(&a.tx, 9000) == LINK_RING_NONE);
    CHECK(!link_ring_overwaits(&a.tx));     /* it sleeps, the ring is full */
    link_ring_wake(&b.rx);
    while (link_ring_get(&b.rx, got, &len) == LINK_RING_OK) {
    }
    CHECK(!link_ring_overwaits(&a.tx));     /* it may still report room */
    CHECK(link_ring_sleep(&b.rx));
    ticket = link_ring_overwaits(&a.tx);
    CHECK(ticket != 0);
    link_ring_wake(&b.rx);
    CHECK(!link_ring_overwaits(&a.tx));
    while (link_ring_put(&a.tx, frame, 9000) == LINK_RING_OK) {
    }
    CHECK(link_ring_await_room(&a.tx, 9000) == LINK_RING_NONE);
    while (link_ring_get(&b.rx, got, &len) == LINK_RING_OK) {
    }
    CHECK(link_ring_sleep(&b.rx));
    CHECK(link_ring_overwaits(&a.tx) != ticket);
    part();
}

static void reader_reports_room(void)
{
    uint32_t len;

    join();
    while (link_ring_put(&a.tx, frame, 9000) == LINK_RING_OK) {
    }
    CHECK(!link_ring_frees(&b.rx));
    CHECK(link_ring_await_room(&a.tx, 9000) == LINK_RING_NONE);
    REQUIRE(link_ring_get(&b.rx, got, &len) == LINK_RING_OK);
    CHECK(link_ring_frees(&b.rx));
    CHECK(!link_ring_frees(&b.rx));
    CHECK(link_ring_put(&a.tx, frame, 9000) == LINK_RING_OK);
    part();
}

/* ---- a peer that lies ---------------------------------------------------- */

static void reader_refuses_invalid_tail(void)
{
    static const uint32_t lies[] = {
        LINK_RING_SIZE + 8, 0x80000000, 0xfffffff8, 4, 12,
    };
    uint32_t len;

    for (unsigned i = 0; i < TEST_COUNT(lies); i++) {
        join();
        b.rx.control->tail = lies[i];
        CHECK(link_ring_get(&b.rx, got, &len) == LINK_RING_BROKEN);
        part();
    }
}

/* The reader refuses a tail behind the frames that it has read. */
static void reader_refuses_tail_behind_its_position(void)
{
    uint32_t len;

    join();
    for (unsigned i = 0; i < 3; i++) {
        link_ring_put(&a.tx, frame, 60);
        REQUIRE(link_ring_get(&b.rx, got, &len) == LINK_RING_OK);
    }
    for (uint32_t back = 8; back <= b.rx.head; back += 8) {
        a.tx.control->tail = b.rx.head - back;
        CHECK(link_ring_filled(&b.rx));
        CHECK(link_ring_get(&b.rx, got, &len) == LINK_RING_BROKEN);
    }
    part();
}

/* The reader refuses a frame that ends behind the tail. */
static void reader_refuses_tail_inside_a_frame(void)
{
    uint32_t len;

    for (uint32_t cut = 8; cut <= 64; cut += 8) {
        join();
        link_ring_put(&a.tx, frame, 64);
        a.tx.control->tail -= cut;
        CHECK(link_ring_get(&b.rx, got, &len) == LINK_RING_BROKEN);
        part();
    }
}

static void reader_refuses_invalid_length(void)
{
    static const uint32_t lies[] = { 0, 61, LINK_FRAME_MAX + 1, 0xffffffff };
    uint32_t len;

    for (unsigned i = 0; i < TEST_COUNT(lies); i++) {
        join();
        memcpy(a.tx.data, &lies[i], 4);
        a.tx.control->tail = 64;
        CHECK(link_ring_get(&b.rx, got, &len) == LINK_RING_BROKEN);
        part();
    }
}

static void writer_refuses_invalid_head(void)
{
    static const uint32_t lies[] = { 0xfffffff8, 0x80000000, 3, 0x1000000 };

    for (unsigned i = 0; i < TEST_COUNT(lies); i++) {
        join();
        while (link_ring_put(&a.tx, frame, 9000) == LINK_RING_OK) {
        }
        a.tx.control->head = lies[i];
        CHECK(link_ring_put(&a.tx, frame, 9000) == LINK_RING_BROKEN);
        CHECK(link_ring_await_room(&a.tx, 9000) == LINK_RING_BROKEN);
        part();
    }
}

/* Any head between the last one and the tail is valid; others are refused. */
static void writer_refuses_head_behind_the_last(void)
{
    uint32_t len, size = 9000 + 8, full = 0;

    join();
    while (link_ring_put(&a.tx, frame, 9000) == LINK_RING_OK) {
        full++;
    }
    REQUIRE(link_ring_get(&b.rx, got, &len) == LINK_RING_OK);
    CHECK(link_ring_put(&a.tx, frame, 9000) == LINK_RING_OK);
    a.tx.control->head -= size;
    CHECK(link_ring_put(&a.tx, frame, 9000) == LINK_RING_BROKEN);
    a.tx.control->head = (full + 2) * size;
    CHECK(link_ring_put(&a.tx, frame, 9000) == LINK_RING_BROKEN);
    link_ring_see(&a.tx);
    CHECK_EQ(a.tx.head, size);
    a.tx.control->head = (full + 1) * size;
    CHECK(link_ring_put(&a.tx, frame, 9000) == LINK_RING_OK);
    part();
}

/* Tickets and polls are only compared: the writer signals each value once. */
static void each_ticket_is_signalled_once(void)
{
    static const uint32_t tickets[] = { 1, 0xffffffff, 2, 0x80000000 };

    join();
    for (unsigned i = 0; i < TEST_COUNT(tickets); i++) {
        b.rx.control->asleep = tickets[i];
        b.tx.control->wants_room = tickets[i];
        CHECK(link_ring_wakes(&a.tx, 1000000));
        CHECK(link_ring_frees(&a.rx));
        b.rx.control->polled = i % 2 ? UINT64_MAX : 1 + i;
        link_ring_wakes(&a.tx, 1000000);
        CHECK(!link_ring_wakes(&a.tx, 1000000));
        CHECK(!link_ring_frees(&a.rx));
    }
    part();
}

static void scribble(uint32_t *random)
{
    uint32_t x = *random = *random * 1664525 + 1013904223;

    a.tx.control->tail = x >> 8 & 0x1ffff8;
    memcpy(a.tx.data + b.rx.head % LINK_RING_SIZE, &(uint32_t) { x >> 12 }, 4);
    b.tx.control->head = x >> 4 & ~7U;
    b.tx.control->asleep = x;
}

/* Whatever a peer writes, no access leaves the ring. */
static void random_writes_of_peer_stay_in_ring(void)
{
    uint32_t len, broken = 0, good = 0, random = 1;

    join();
    for (unsigned i = 0; i < 20000; i++) {
        LinkRingResult result;

        scribble(&random);
        result = link_ring_get(&b.rx, got, &len);
        CHECK(result != LINK_RING_OK || (len > 0 && len <= LINK_FRAME_MAX));
        good += result == LINK_RING_OK;
        broken += result == LINK_RING_BROKEN;
        broken += link_ring_put(&b.tx, frame, 9000) == LINK_RING_BROKEN;
        link_ring_wakes(&b.tx, i);
    }
    CHECK(broken > 0);
    CHECK(good > 0);
    part();
}

/* The run lasts this long, and until each event has happened. */
#define SCRIBBLE_CLOCKS (CLOCKS_PER_SEC / 2)

/* A record of 64 bytes, which divides the size of the ring. */
#define SCRIBBLE_LEN 56U

static bool scribbled;

static void shared_store(uint32_t *word, uint32_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELAXED);
}

/* Writes valid and invalid lengths and indexes of the next record. */
static void *scribble_on(void *opaque)
{
    static const uint32_t lengths[] = {
        SCRIBBLE_LEN, UINT32_MAX, SCRIBBLE_LEN, LINK_FRAME_MAX + 1, 0,
    };
    LinkControl *in = a.tx.control, *out = a.rx.control;

    for (uint32_t i = 0; !__atomic_load_n(&scribbled, __ATOMIC_RELAXED); i++) {
        const uint32_t head = __atomic_load_n(&in->head, __ATOMIC_RELAXED);

        shared_store((uint32_t *)(a.tx.data + head % LINK_RING_SIZE),
                     lengths[i % TEST_COUNT(lengths)]);
        shared_store(&in->tail, head + (i % 7 ? LINK_RING_SIZE : 3));
        shared_store(&out->head, i % 5 ?
                     __atomic_load_n(&out->tail, __ATOMIC_RELAXED) : i * 8);
    }
    return opaque;
}

/*
 * The reader must not read a value again after its check, as the peer may have
 * changed it. The number of tries depends on free processors: a run that passes
 * shows little, one that fails shows a bug.
 */
static void concurrent_writes_of_peer_stay_in_ring(void)
{
    const clock_t end = clock() + SCRIBBLE_CLOCKS;
    uint32_t len, broken = 0, good = 0, stuck = 0;
    pthread_t thread;

    join();
    scribbled = false;
    for (unsigned i = 0; i < LINK_RING_SIZE; i += 64) {
        memcpy(a.tx.data + i, &(uint32_t) { SCRIBBLE_LEN }, 4);
    }
    REQUIRE(!pthread_create(&thread, NULL, scribble_on, NULL));
    while (clock() < end || !good || !broken || !stuck) {
        LinkRingResult result = link_ring_get(&b.rx, got, &len);

        CHECK(result != LINK_RING_OK || (len > 0 && len <= LINK_FRAME_MAX));
        good += result == LINK_RING_OK;
        broken += result == LINK_RING_BROKEN;
        stuck += link_ring_put(&b.tx, frame, 9000) != LINK_RING_OK;
    }
    __atomic_store_n(&scribbled, true, __ATOMIC_RELAXED);
    printf("# %u frames were good, %u were not\n", good, broken);
    pthread_join(thread, NULL);
    CHECK(good > 0);
    CHECK(broken > 0);
    CHECK(stuck > 0);
    part();
}

/* ---- lost wake-ups ------------------------------------------------------- */

static int wire[2];

static void *send_all(void *opaque)
{
    struct timeval patience = { 10, 0 };
    char byte;

    setsockopt(wire[0], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    for (uint32_t i = 0; i < FRAMES; i++) {
        while (link_ring_put(&a.tx, &i, sizeof(i)) == LINK_RING_NONE) {
            if (link_ring_await_room(&a.tx, sizeof(i)) == LINK_RING_NONE &&
                recv(wire[0], &byte, 1, 0) != 1) {
                return (void *)"a writer waited without limit";
            }
        }
        if (link_ring_wakes(&a.tx, 0) && !link_signal(wire[0])) {
            return (void *)"no signal";
        }
    }
    return opaque;
}

/* Two threads sleep whenever they can. A lost wake-up causes a timeout. */
static void two_sleepers_lose_no_wakeup(void)
{
    struct timeval patience = { 10, 0 };
    uint32_t next = 0, number = 0, len, sleeps = 0;
    pthread_t thread;
    void *wrong;
    char byte;

    join();
    REQUIRE(!socketpair(AF_UNIX, SOCK_SEQPACKET, 0, wire));
    setsockopt(wire[1], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    REQUIRE(!pthread_create(&thread, NULL, send_all, NULL));
    while (next < FRAMES) {
        LinkRingResult result = link_ring_get(&b.rx, got, &len);

        REQUIRE(result != LINK_RING_BROKEN);
        if (result == LINK_RING_OK) {
            memcpy(&number, got, sizeof(number));
            CHECK_EQ(number, next++);
            continue;
        }
        if (link_ring_frees(&b.rx)) {
            CHECK(link_signal(wire[1]));
        }
        if (link_ring_sleep(&b.rx)) {
            sleeps++;
            REQUIRE(recv(wire[1], &byte, 1, 0) == 1);
            link_ring_wake(&b.rx);
        }
    }
    pthread_join(thread, &wrong);
    CHECK(wrong == NULL);
    printf("# slept %u times\n", sleeps);
    close(wire[0]);
    close(wire[1]);
    part();
}

/* ---- meeting ------------------------------------------------------------- */

static void only_sealed_memory_is_accepted(void)
{
    int plain = memfd_create("plain", MFD_ALLOW_SEALING);
    int good = link_pair_make(&a);

    REQUIRE(plain >= 0 && good >= 0);
    CHECK(link_pair_adopt(&b, -1) != NULL);
    CHECK(link_pair_adopt(&b, STDIN_FILENO) != NULL);
    CHECK(!ftruncate(plain, 2 * (LINK_CONTROL_SIZE + LINK_RING_SIZE)));
    CHECK(link_pair_adopt(&b, plain) != NULL);
    CHECK(!fcntl(plain, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW |
                                     F_SEAL_SEAL));
    CHECK(link_pair_adopt(&b, plain) == NULL);
    CHECK(ftruncate(good, 4096) < 0);
    close(plain);
    close(good);
    part();
}

/* Makes a memfd with this size and these seals. */
static int make_memory(off_t size, int seals)
{
    int fd = memfd_create("other", MFD_ALLOW_SEALING);

    REQUIRE(fd >= 0 && !ftruncate(fd, size));
    REQUIRE(!seals || !fcntl(fd, F_ADD_SEALS, seals));
    return fd;
}

#define MEMORY_SIZE (2 * (LINK_CONTROL_SIZE + (off_t)LINK_RING_SIZE))
#define MEMORY_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x10
#endif

/* Memory that could end, shrink, or fail while it is in use. */
static void unsuitable_memory_is_refused(void)
{
    static const struct {
        off_t size;
        int seals;
    } bad[] = {
        { MEMORY_SIZE, 0 },
        { MEMORY_SIZE, MEMORY_SEALS & ~F_SEAL_SHRINK },
        { MEMORY_SIZE, MEMORY_SEALS & ~F_SEAL_GROW },
        { MEMORY_SIZE, MEMORY_SEALS & ~F_SEAL_SEAL },
        { MEMORY_SIZE, MEMORY_SEALS | F_SEAL_WRITE },
        { MEMORY_SIZE, MEMORY_SEALS | F_SEAL_FUTURE_WRITE },
        { 0, MEMORY_SEALS },
        { MEMORY_SIZE - 1, MEMORY_SEALS },
        { MEMORY_SIZE + 1, MEMORY_SEALS },
        { MEMORY_SIZE - 4096, MEMORY_SEALS },
        { 2 * MEMORY_SIZE, MEMORY_SEALS },
    };

    for (unsigned i = 0; i < TEST_COUNT(bad); i++) {
        int fd = make_memory(bad[i].size, bad[i].seals);

        CHECK(link_pair_adopt(&b, fd) != NULL);
        CHECK(b.map == NULL);
        close(fd);
    }
}

/* Files that are not memory, or are memory that can shrink. */
static void other_files_are_refused(void)
{
    char path[] = "/dev/shm/test_ring-XXXXXX";
    int fds[6], ends[2];

    fds[0] = mkstemp(path);
    REQUIRE(fds[0] >= 0 && !unlink(path) && !ftruncate(fds[0], MEMORY_SIZE));
    fds[1] = open("/dev/zero", O_RDWR);
    fds[2] = open("/proc/self/exe", O_RDONLY);
    fds[3] = open("/", O_RDONLY | O_DIRECTORY);
    REQUIRE(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    fds[4] = ends[0];
    fds[5] = ends[1];
    for (unsigned i = 0; i < TEST_COUNT(fds); i++) {
        CHECK(fds[i] >= 0 && link_pair_adopt(&b, fds[i]) != NULL);
        close(fds[i]);
    }
}

/* A peer with the memfd may change it, but accesses never fail. */
static void memory_does_not_shrink_later(void)
{
    int fd = link_pair_make(&a);
    uint32_t len;

    REQUIRE(fd >= 0 && link_pair_adopt(&b, fd) == NULL);
    CHECK(ftruncate(fd, 0) < 0);
    CHECK(ftruncate(fd, MEMORY_SIZE / 2) < 0);
    CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) < 0);
    link_ring_put(&a.tx, frame, 60);
    CHECK(!fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                     MEMORY_SIZE));
    CHECK(link_ring_get(&b.rx, got, &len) == LINK_RING_NONE);
    CHECK(link_ring_put(&b.tx, frame, 60) == LINK_RING_OK);
    close(fd);
    part();
}

static void valid_hello_is_accepted(void)
{
    LinkHello hello = link_hello(), other = hello;
    int ends[2], fd = link_pair_make(&a), came;

    REQUIRE(fd >= 0 && !socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends));
    CHECK_EQ(link_hello_receive(ends[1], &other, &came), 0);
    CHECK(link_hello_send(ends[0], &hello, fd));
    CHECK_EQ(link_hello_receive(ends[1], &other, &came), sizeof(other));
    CHECK(came >= 0 && !link_hello_check(&other, sizeof(other)));
    CHECK(link_hello_check(&other, sizeof(other) - 1) != NULL);
    other.version++;
    CHECK(strstr(link_hello_check(&other, sizeof(other)), "version"));
    other = hello;
    other.magic[0]++;
    CHECK(link_hello_check(&other, sizeof(other)) != NULL);
    close(ends[0]);
    CHECK_EQ(link_hello_receive(ends[1], &other, &came), -1);
    CHECK(!link_signal(ends[1]));
    CHECK_EQ(link_signals_take(ends[1]), -1);
    close(ends[1]);
    close(fd);
    part();
}

/* A peer refuses and closes, perhaps before it has read the hello. Its answer
 * is still received. */
static void answer_of_closing_peer_is_received(void)
{
    LinkHello hello = link_hello(), other;
    int ends[2], came;

    REQUIRE(!socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends));
    CHECK(link_hello_send(ends[0], &hello, -1));
    hello.refused = 1;
    CHECK(link_hello_send(ends[1], &hello, -1));
    close(ends[1]);
    CHECK_EQ(link_hello_receive(ends[0], &other, &came), sizeof(other));
    CHECK_EQ(other.refused, 1);
    CHECK_EQ(link_hello_receive(ends[0], &other, &came), -1);
    close(ends[0]);
}

static void process_of_peer_is_identified(void)
{
    int ends[2];

    REQUIRE(!socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends));
    CHECK_EQ(link_process(ends[0]), getpid());
    CHECK_EQ(link_process(-1), 0);
    close(ends[0]);
    close(ends[1]);
}

/* Hellos of other sizes. A longer one counts by its first bytes. */
static void hello_of_wrong_size_is_refused(void)
{
    char bytes[4096] = { 0 };
    LinkHello hello = link_hello(), other;
    int ends[2], came;

    REQUIRE(!socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends));
    memcpy(bytes, &hello, sizeof(hello));
    for (size_t size = 1; size <= sizeof(bytes); size += 1 + size / 2) {
        ssize_t len;

        memset(&other, 0, sizeof(other));
        REQUIRE(send(ends[0], bytes, size, 0) == (ssize_t)size);
        len = link_hello_receive(ends[1], &other, &came);
        CHECK_EQ(len, size < sizeof(hello) ? size : sizeof(hello));
        CHECK_EQ(came, -1);
        CHECK((link_hello_check(&other, len) == NULL) ==
              (size >= sizeof(hello)));
    }
    /* An empty packet looks like the end of the connection. */
    REQUIRE(send(ends[0], bytes, 0, 0) == 0);
    CHECK_EQ(link_hello_receive(ends[1], &other, &came), -1);
    close(ends[0]);
    close(ends[1]);
}

/* A hello that differs in one bit is refused. */
static void hello_with_a_flipped_bit_is_refused(void)
{
    const LinkHello hello = link_hello();

    for (size_t i = 0; i < 8 * sizeof(hello); i++) {
        LinkHello other = hello;

        ((uint8_t *)&other)[i / 8] ^= 1 << i % 8;
        CHECK(link_hello_check(&other, sizeof(other)) != NULL);
    }
}

/* The number that the next descriptor will get. */
static int next_fd(void)
{
    int fd = dup(STDIN_FILENO);

    close(fd);
    return fd;
}

static void surplus_descriptors_are_closed(void)
{
    const int fds[] = { STDIN_FILENO, STDIN_FILENO };
    LinkHello hello = link_hello(), other;
    int ends[2], came, next;

    REQUIRE(!socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends));
    next = next_fd();
    for (unsigned i = 0; i < 10; i++) {
        REQUIRE(stranger_send(ends[0], &hello, sizeof(hello), fds, 2, 0));
        CHECK_EQ(link_hello_receive(ends[1], &other, &came), LINK_FOREIGN);
        if (came >= 0) {
            close(came);
        }
    }
    CHECK_EQ(next_fd(), next);
    close(ends[0]);
    close(ends[1]);
}

static const Test tests[] = {
    TEST(frames_arrive_whole_and_in_order),
    TEST(longest_frame_fits),
    TEST(sleeper_is_signalled_once),
    TEST(polling_reader_is_signalled_when_it_stops),
    TEST(writer_sees_unread_frames),
    TEST(lost_wakeups_are_detected),
    TEST(unreported_room_is_detected),
    TEST(reader_reports_room),
    TEST(reader_refuses_invalid_tail),
    TEST(reader_refuses_tail_behind_its_position),
    TEST(reader_refuses_tail_inside_a_frame),
    TEST(reader_refuses_invalid_length),
    TEST(writer_refuses_invalid_head),
    TEST(writer_refuses_head_behind_the_last),
    TEST(each_ticket_is_signalled_once),
    TEST(random_writes_of_peer_stay_in_ring),
    TEST(concurrent_writes_of_peer_stay_in_ring),
    TEST(two_sleepers_lose_no_wakeup),
    TEST(only_sealed_memory_is_accepted),
    TEST(unsuitable_memory_is_refused),
    TEST(other_files_are_refused),
    TEST(memory_does_not_shrink_later),
    TEST(valid_hello_is_accepted),
    TEST(hello_of_wrong_size_is_refused),
    TEST(hello_with_a_flipped_bit_is_refused),
    TEST(answer_of_closing_peer_is_received),
    TEST(process_of_peer_is_identified),
    TEST(surplus_descriptors_are_closed),
};

TEST_MAIN(tests)
