/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What two members of a link share: a sealed memfd with a ring each way, and
 * the messages by which they agree on it. POSIX and Linux, without QEMU.
 *
 * They meet on a unix socket of packets. Who connects makes the memfd and sends
 * it with its hello; who accepts checks it, and answers with its own hello.
 * From then on a packet is a signal, whatever it holds, and the end of the
 * socket is the end of the peer.
 */
#ifndef FAKERNIC_LINK_PAIR_H
#define FAKERNIC_LINK_PAIR_H

#include "ring.h"

#define LINK_MAGIC      "fakelink"
#define LINK_VERSION    1U

typedef struct LinkHello {
    char magic[8];
    uint32_t version;
    uint32_t ring_size;
    uint32_t frame_max;
    uint32_t refused;           /* in an answer: not 0 if nothing comes of it */
} LinkHello;

typedef struct LinkPair {
    uint8_t *map;               /* NULL: none */
    LinkWriter tx;
    LinkReader rx;
} LinkPair;

/* Makes the memory and maps it; its memfd, which the caller closes, or -1. */
int link_pair_make(LinkPair *pair);

/*
 * Maps a memfd that a peer has sent; NULL, or why not. One that could shrink
 * under us, or is not of the right size, is refused.
 */
const char *link_pair_adopt(LinkPair *pair, int memfd);

void link_pair_unmap(LinkPair *pair);

/* Our hello. */
LinkHello link_hello(void);

/* What is wrong with a peer's of so many bytes; NULL: nothing. */
const char *link_hello_check(const LinkHello *hello, size_t len);

/*
 * What a function returns for a packet with descriptors other than the memory
 * that a hello brings. The packet stays in the queue: the call that drops the
 * last reference to a file closes it, and that takes as long as the sender
 * likes (a TCP socket with SO_LINGER, a file of its FUSE mount). Only
 * link_closer_start() may close such a socket.
 */
#define LINK_FOREIGN    (-2)

/* Sends a hello, with a descriptor unless that is -1. Never blocks. */
bool link_hello_send(int sock, const LinkHello *hello, int fd);

/*
 * Receives one; 0: none is there yet, -1: the peer is gone, and left none. *fd
 * is the memory that came with it, or -1. For LINK_FOREIGN *fd is -1 or a
 * descriptor that link_closer_start() has to close. Never blocks. A descriptor
 * that comes while the process can have no other counts as foreign.
 */
int link_hello_receive(int sock, LinkHello *hello, int *fd);

/* The process at the other end, for people; 0: none that can be seen. */
long link_process(int sock);

/* Signals the peer. Never blocks; false: it is gone. */
bool link_signal(int sock);

/*
 * Takes some of the signals that are there; -1: the peer is gone, LINK_FOREIGN:
 * it sends descriptors. Never blocks.
 */
int link_signals_take(int sock);

#endif
