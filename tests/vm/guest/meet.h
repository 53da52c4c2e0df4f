/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Two programs of a test meet over TCP, where they exchange addresses and keys
 * and wait for each other. Failures end the program.
 */
#ifndef MEET_H
#define MEET_H

#include "verbs_pair.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#define ASK_EVERY_S 1
#define ASK_TIMES 60            /* without an answer of the peer */

/*
 * A peer that exits with unread data sends one RST, which is lost if the test
 * has killed the card. So both sides send keepalive probes, and are notified
 * when the card works again.
 */
static inline int keep_asking(int sock)
{
    const struct { int level, name, value; } options[] = {
        { SOL_SOCKET, SO_KEEPALIVE, 1 },
        { IPPROTO_TCP, TCP_KEEPIDLE, ASK_EVERY_S },
        { IPPROTO_TCP, TCP_KEEPINTVL, ASK_EVERY_S },
        { IPPROTO_TCP, TCP_KEEPCNT, ASK_TIMES },
    };

    for (unsigned i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
        if (setsockopt(sock, options[i].level, options[i].name,
                       &options[i].value, sizeof(options[i].value))) {
            die("a socket");
        }
    }
    return sock;
}

/* A socket to HOST, or without HOST to the first client. */
static inline int meet(const char *host, const char *port)
{
    struct addrinfo *found, hints = { .ai_socktype = SOCK_STREAM };
    struct sockaddr_in6 any = {
        .sin6_family = AF_INET6, .sin6_port = htons(atoi(port)),
    };
    int one = 1, sock;

    if (!host) {
        sock = socket(AF_INET6, SOCK_STREAM, 0);
        setsockopt(sock, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
        if (sock < 0 || bind(sock, (void *)&any, sizeof(any)) ||
            listen(sock, 1)) {
            die("listen");
        }
        sock = accept(sock, NULL, NULL);
        if (sock < 0) {
            die("accept");
        }
        return keep_asking(sock);
    }
    if (getaddrinfo(host, port, &hints, &found)) {
        die("%s", host);
    }
    sock = socket(found->ai_family, SOCK_STREAM, 0);
    if (sock < 0 || connect(sock, found->ai_addr, found->ai_addrlen)) {
        die("connect to %s", host);
    }
    freeaddrinfo(found);
    return keep_asking(sock);
}

/* Both sides send OWN and receive PEER. */
static inline void swap(int sock, const void *own, void *peer, size_t size)
{
    if (write(sock, own, size) != (ssize_t)size ||
        recv(sock, peer, size, MSG_WAITALL) != (ssize_t)size) {
        errno = ECONNRESET;
        die("the peer went away");
    }
}

#endif
