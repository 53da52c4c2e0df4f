/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fakernic-lab-relay CONTROL PCAP SOCKET...: a wire with faults between QEMUs,
 * one at each SOCKET. The part after the last dot of its path names the end.
 * CONTROL is a socket for rules and counters (control.h). PCAP, unless empty,
 * is a file that gets every frame as its sender sent it.
 *
 * This file handles the sockets and the clock. Files call downwards: relay,
 * control, wire, held, faults, end, capture, and stall of qemu-hw/link.
 */
#include "control.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define EVENTS_MAX 64
#define SECOND_NS  1000000000ll

/* The source of an event. epoll's data has it in the upper 32 bits, and the
 * number of the client or the end in the lower ones. */
typedef enum Door {
    DOOR_CONTROL,
    DOOR_CLIENT,
    DOOR_LISTENER,
    DOOR_END,
    DOOR_CLOCK,
} Door;

static struct {
    int epoll, clock;
    struct timespec began;
    Control control;
    Wire wire;
} relay;

static void relay_fail(const char *what)
{
    fprintf(stderr, "relay: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* Makes epoll report these events of 'fd'; without events, remove 'fd'. */
static void relay_watch(int fd, Door door, unsigned number, uint32_t *watched,
                        uint32_t events)
{
    struct epoll_event event = { .events = events,
                                 .data.u64 = (uint64_t)door << 32 | number };

    if (fd < 0 || *watched == events) {
        return;
    }
    if (epoll_ctl(relay.epoll, !*watched ? EPOLL_CTL_ADD :
                               !events ? EPOLL_CTL_DEL : EPOLL_CTL_MOD, fd,
                  &event) != 0) {
        relay_fail("epoll");
    }
    *watched = events;
}

static void relay_watch_all(void)
{
    Wire *w = &relay.wire;

    relay_watch(relay.control.listener, DOOR_CONTROL, 0,
                &relay.control.listened, EPOLLIN);
    for (unsigned i = 0; i < CONTROL_CLIENTS; i++) {
        Client *client = &relay.control.clients[i];

        relay_watch(client->fd, DOOR_CLIENT, i, &client->watched,
                    control_wants(client));
    }
    for (unsigned i = 0; i < w->count; i++) {
        End *e = &w->ends[i].end;

        relay_watch(e->listener, DOOR_LISTENER, i, &e->listened,
                    e->fd < 0 ? EPOLLIN : 0);
        relay_watch(e->fd, DOOR_END, i, &e->watched,
                    (wire_reads(w, i) ? EPOLLIN : 0) |
                        (end_waits(e) ? EPOLLOUT : 0));
    }
}

/* ---- the clock ----------------------------------------------------------- */

static void relay_look_at_clock(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    relay.wire.now = (now.tv_sec - relay.began.tv_sec) * SECOND_NS +
                     now.tv_nsec - relay.began.tv_nsec;
}

/* Sets the timer, which ends epoll_wait() at the deadline. */
static void relay_set_clock(RoceTime deadline)
{
    struct itimerspec at = { 0 };

    if (deadline != ROCE_TIME_NEVER) {
        deadline += relay.began.tv_nsec;
        at.it_value.tv_sec = relay.began.tv_sec + deadline / SECOND_NS;
        at.it_value.tv_nsec = deadline % SECOND_NS;
    }
    if (timerfd_settime(relay.clock, TFD_TIMER_ABSTIME, &at, NULL) != 0) {
        relay_fail("clock");
    }
}

/* ---- events -------------------------------------------------------------- */

static void relay_event(Door door, unsigned number)
{
    uint64_t ticks;
    End *e;

    switch (door) {
    case DOOR_CONTROL:
        control_accept(&relay.control);
        break;
    case DOOR_CLIENT:
        /* The event may be that of a client that was just replaced. */
        if (relay.control.clients[number].fd >= 0) {
            control_talk(&relay.control.clients[number], &relay.wire);
        }
        break;
    case DOOR_LISTENER:
        end_accept(&relay.wire.ends[number].end);
        break;
    case DOOR_END:
        e = &relay.wire.ends[number].end;
        /* Frames that wait come first: a QEMU may have sent them and left. */
        if (e->fd >= 0 && wire_reads(&relay.wire, number) &&
            !end_has_frame(e) && !end_read(e)) {
            end_close(e, relay.wire.now);
        }
        break;
    case DOOR_CLOCK:
        if (read(relay.clock, &ticks, sizeof(ticks)) < 0 && errno != EAGAIN) {
            relay_fail("clock");
        }
        break;
    }
}

static void relay_run(void)
{
    struct epoll_event events[EVENTS_MAX];
    RoceTime deadline, set = ROCE_TIME_NEVER;
    int count;

    for (;;) {
        wire_turn(&relay.wire);
        relay_watch_all();
        deadline = wire_deadline(&relay.wire);
        if (deadline > relay.wire.now && deadline != set) {
            relay_set_clock(deadline);
            set = deadline;
        }
        count = epoll_wait(relay.epoll, events, EVENTS_MAX,
                           deadline > relay.wire.now ? -1 : 0);
        if (count < 0 && errno != EINTR) {
            relay_fail("epoll");
        }
        relay_look_at_clock();
        for (int i = 0; i < count; i++) {
            relay_event((Door)(events[i].data.u64 >> 32),
                        (unsigned)events[i].data.u64);
        }
    }
}

static void relay_open(const char *control, const char *pcap, char **paths,
                       unsigned count)
{
    uint32_t nothing = 0;

    relay.wire.count = count;
    relay.wire.ends = calloc(count, sizeof(*relay.wire.ends));
    relay.epoll = epoll_create1(EPOLL_CLOEXEC);
    relay.clock = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (!relay.wire.ends || relay.epoll < 0 || relay.clock < 0) {
        relay_fail("begin");
    }
    relay_watch(relay.clock, DOOR_CLOCK, 0, &nothing, EPOLLIN);
    for (unsigned i = 0; i < count; i++) {
        WireEnd *e = &relay.wire.ends[i];

        if (!end_open(&e->end, paths[i],
                      count > 2 ? &relay.wire.stalls : NULL)) {
            relay_fail(paths[i]);
        }
        /* A random rule must not hit the same frames of every end. */
        e->faults.rules.salt = (uint64_t)i << 32;
    }
    if (!capture_open(&relay.wire.capture, pcap)) {
        relay_fail(pcap);
    }
    /* Last: a client that finds the control socket finds all ends, too. */
    if (!control_open(&relay.control, control)) {
        relay_fail(control);
    }
}

int main(int argc, char **argv)
{
    if (argc < 4 || argc - 3 > WIRE_ENDS_MAX) {
        fprintf(stderr, "usage: %s CONTROL PCAP SOCKET...\n", argv[0]);
        return 2;
    }
    clock_gettime(CLOCK_MONOTONIC, &relay.began);
    relay_open(argv[1], argv[2], argv + 3, (unsigned)argc - 3);
    relay_run();
}
