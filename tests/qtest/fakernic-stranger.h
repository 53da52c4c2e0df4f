/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a process that follows no rule may send to a member of a link. Used by
 * unit tests (tests/link), by qtests (fakernic-link.c), and by tests/fuzz.
 */
#ifndef FAKERNIC_STRANGER_H
#define FAKERNIC_STRANGER_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

/* The largest number of descriptors in one message. */
#define STRANGER_FDS_MAX 3u

/*
 * Sends some bytes with 'count' descriptors, which the caller still owns. True:
 * all bytes were sent. 'flags' are those of sendmsg().
 */
static inline bool stranger_send(int sock, const void *bytes, size_t size,
                                 const int *fds, unsigned count, int flags)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(STRANGER_FDS_MAX * sizeof(int))];
    } control = { 0 };
    struct iovec iov = { (void *)bytes, size };
    struct msghdr message = { .msg_iov = &iov, .msg_iovlen = 1 };

    if (count > 0) {
        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE(count * sizeof(int));
        control.align.cmsg_level = SOL_SOCKET;
        control.align.cmsg_type = SCM_RIGHTS;
        control.align.cmsg_len = CMSG_LEN(count * sizeof(int));
        memcpy(CMSG_DATA(&control.align), fds, count * sizeof(int));
    }
    return sendmsg(sock, &message, MSG_NOSIGNAL | flags) == (ssize_t)size;
}

/* A TCP connection of which one end takes 20 s to close. */
typedef struct StrangerTcp {
    int lingers;                /* has data that the peer does not read */
    int peer;                   /* its close ends the other's close() */
} StrangerTcp;

/* False: this machine has no TCP. */
static inline bool stranger_tcp(StrangerTcp *tcp)
{
    static const char bytes[65536];
    const struct linger linger = { 1, 20 };
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    socklen_t size = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool good;

    tcp->lingers = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    good = !bind(listener, (struct sockaddr *)&address, size) &&
           !listen(listener, 1) &&
           !getsockname(listener, (struct sockaddr *)&address, &size) &&
           !connect(tcp->lingers, (struct sockaddr *)&address, size);
    tcp->peer = good ? accept(listener, NULL, NULL) : -1;
    close(listener);
    while (good && send(tcp->lingers, bytes, sizeof(bytes), MSG_DONTWAIT) > 0) {
    }
    return tcp->peer >= 0 && !setsockopt(tcp->lingers, SOL_SOCKET, SO_LINGER,
                                         &linger, sizeof(linger));
}

#endif
