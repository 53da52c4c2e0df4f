/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How two programs of a test find one another: over TCP, where they tell
 * addresses and keys, and wait for each other. Failures end the program.
 */
#ifndef MEET_H
#define MEET_H

#include "verbs_pair.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

/* A socket to HOST; without one, to whoever comes first. */
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
        return accept(sock, NULL, NULL);
    }
    if (getaddrinfo(host, port, &hints, &found)) {
        die("%s", host);
    }
    sock = socket(found->ai_family, SOCK_STREAM, 0);
    if (sock < 0 || connect(sock, found->ai_addr, found->ai_addrlen)) {
        die("connect to %s", host);
    }
    freeaddrinfo(found);
    return sock;
}

/* What the peer says, for what it is told: both sides at once. */
static inline void swap(int sock, const void *own, void *peer, size_t size)
{
    if (write(sock, own, size) != (ssize_t)size ||
        recv(sock, peer, size, MSG_WAITALL) != (ssize_t)size) {
        errno = ECONNRESET;
        die("the peer went away");
    }
}

#endif
