/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Sockets whose queues contain files that take long to close. A member reads
 * and closes such sockets without waiting.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "harness.h"
#include "closer.h"
#include "pair.h"
#include "../qtest/fakernic-stranger.h"

#include <errno.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define SOON_S 1.0              /* a close() that lingers takes 20 s */

static int ends[2];             /* the stranger's, the member's */
static StrangerTcp tcp;
static double begun;

static double now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

static void begin(void)
{
    REQUIRE(!socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends));
    REQUIRE(stranger_tcp(&tcp));
    begun = now_s();
}

/* Sends 'count' descriptors of the file; then only the member has it. */
static void send_lingering(const void *bytes, size_t size, unsigned count)
{
    const int fds[] = { tcp.lingers, STDIN_FILENO };

    REQUIRE(stranger_send(ends[0], bytes, size, fds, count, 0));
    close(tcp.lingers);
    begun = now_s();
}

/* The file is closed: the other side of its connection sees the end. */
static void end_soon(LinkCloser *closer)
{
    CHECK(now_s() - begun < SOON_S);
    close(tcp.peer);            /* now the close() can return */
    while (!link_closer_done(closer)) {
        usleep(1000);
    }
    CHECK(now_s() - begun < 10 * SOON_S);
    close(ends[0]);
}

static void lingering_close_blocks_only_the_closer(void)
{
    LinkCloser *closer;
    char byte;

    begin();
    send_lingering("", 1, 1);
    closer = link_closer_start(ends[1], -1);
    REQUIRE(closer);
    CHECK(recv(ends[0], &byte, 1, 0) <= 0);    /* or it was reset */
    usleep(50000);
    CHECK(!link_closer_done(closer));
    end_soon(closer);
}

static void hello_with_a_lingering_socket_is_refused(void)
{
    LinkHello hello = link_hello(), other;
    int came;

    begin();
    send_lingering(&hello, sizeof(hello), 1);
    CHECK_EQ(link_hello_receive(ends[1], &other, &came), LINK_FOREIGN);
    CHECK(came >= 0);
    end_soon(link_closer_start(ends[1], came));
}

/* Only one descriptor is allowed: the packet with two is dropped. */
static void hello_with_two_descriptors_is_refused(void)
{
    LinkHello hello = link_hello(), other;
    int came;

    begin();
    send_lingering(&hello, sizeof(hello), 2);
    CHECK_EQ(link_hello_receive(ends[1], &other, &came), LINK_FOREIGN);
    end_soon(link_closer_start(ends[1], came));
}

static void signal_with_a_lingering_socket_is_refused(void)
{
    begin();
    CHECK(link_signal(ends[0]));
    send_lingering("", 1, 1);
    CHECK_EQ(link_signals_take(ends[1]), LINK_FOREIGN);
    CHECK_EQ(link_signals_take(ends[1]), LINK_FOREIGN);
    end_soon(link_closer_start(ends[1], -1));
}

static void leaving_the_closer_leaks_nothing(void)
{
    begin();
    close(tcp.lingers);
    link_closer_leave(link_closer_start(ends[1], -1));
    close(ends[0]);
    close(tcp.peer);
}

static const Test tests[] = {
    TEST(lingering_close_blocks_only_the_closer),
    TEST(hello_with_a_lingering_socket_is_refused),
    TEST(hello_with_two_descriptors_is_refused),
    TEST(signal_with_a_lingering_socket_is_refused),
    TEST(leaving_the_closer_leaks_nothing),
};

TEST_MAIN(tests)
