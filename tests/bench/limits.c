/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Prints what this machine can do without fakernic, one limit per line, for
 * comparison with bench.py's numbers. Each measurement takes half a second.
 */
#define _GNU_SOURCE
#include <libdeflate.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "pair.h"

/* Frames that carry 4 KiB and 64 bytes, with their headers. */
#define FRAME 4200U
#define SMALL 138U
#define HALF_A_SECOND 500000000ULL

static uint64_t now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

static uint8_t from[FRAME], to[LINK_FRAME_MAX];
static uint32_t sink;

static void say(const char *what, double value)
{
    printf("%s: %.3f\n", what, value);
}

static void copy_limit(void)
{
    uint64_t begin = now(), count = 0;

    while (now() - begin < HALF_A_SECOND) {
        for (unsigned i = 0; i < 1000; i++, count++) {
            memcpy(to, from, FRAME);
            __asm__ volatile("" ::: "memory");
        }
    }
    say("memcpy of 4200 bytes, GB/s", (double)count * FRAME / (now() - begin));
}

static void crc_limit(void)
{
    uint64_t begin = now(), count = 0;

    while (now() - begin < HALF_A_SECOND) {
        for (unsigned i = 0; i < 1000; i++, count++) {
            sink = libdeflate_crc32(sink, from, FRAME);
        }
    }
    say("CRC32 of 4200 bytes, GB/s", (double)count * FRAME / (now() - begin));
}

static int ends[2];
static atomic_bool over;

static void *read_frames(void *opaque)
{
    while (recv(ends[1], to, sizeof(to), 0) > 1) {
    }
    return opaque;
}

static void socket_limit(uint32_t len)
{
    char name[64];
    uint64_t begin, count = 0;
    pthread_t reader;

    if (socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) ||
        pthread_create(&reader, NULL, read_frames, NULL)) {
        exit(1);
    }
    begin = now();
    while (now() - begin < HALF_A_SECOND && send(ends[0], from, len, 0) > 0) {
        count++;
    }
    snprintf(name, sizeof(name), "unix datagrams of %u bytes, GB/s", len);
    say(name, (double)count * len / (now() - begin));
    if (send(ends[0], from, 1, 0) != 1) {
        exit(1);
    }
    pthread_join(reader, NULL);
    close(ends[0]);
    close(ends[1]);
}

static LinkPair left, right;

static void *read_ring(void *opaque)
{
    uint32_t len;

    while (!over) {
        link_ring_get(&right.rx, to, &len);
    }
    return opaque;
}

static void ring_limit(uint32_t len)
{
    char name[64];
    uint64_t begin, count = 0;
    pthread_t reader;
    int fd = link_pair_make(&left);

    over = false;
    if (fd < 0 || link_pair_adopt(&right, fd) ||
        pthread_create(&reader, NULL, read_ring, NULL)) {
        exit(1);
    }
    begin = now();
    while (now() - begin < HALF_A_SECOND) {
        count += link_ring_put(&left.tx, from, len) == LINK_RING_OK;
    }
    snprintf(name, sizeof(name), "the link's ring, frames of %u bytes, GB/s",
             len);
    say(name, (double)count * len / (now() - begin));
    over = true;
    pthread_join(reader, NULL);
    link_pair_unmap(&left);
    link_pair_unmap(&right);
    close(fd);
}

static int there, back;

static void *answer(void *opaque)
{
    uint64_t value;

    while (read(there, &value, sizeof(value)) == sizeof(value) && value == 1) {
        if (write(back, &value, sizeof(value)) != sizeof(value)) {
            exit(1);
        }
    }
    return opaque;
}

static void wake_limit(void)
{
    uint64_t begin, value = 1, count = 0;
    pthread_t other;

    there = eventfd(0, 0);
    back = eventfd(0, 0);
    if (pthread_create(&other, NULL, answer, NULL)) {
        exit(1);
    }
    begin = now();
    while (now() - begin < HALF_A_SECOND) {
        value = 1;
        if (write(there, &value, 8) != 8 || read(back, &value, 8) != 8) {
            exit(1);
        }
        count++;
    }
    say("a thread woken and back by eventfd, us",
        (now() - begin) / 1e3 / count);
    value = 2;
    if (write(there, &value, 8) != 8) {
        exit(1);
    }
    pthread_join(other, NULL);
}

int main(void)
{
    copy_limit();
    crc_limit();
    socket_limit(FRAME);
    socket_limit(SMALL);
    ring_limit(FRAME);
    ring_limit(SMALL);
    wake_limit();
    return 0;
}
