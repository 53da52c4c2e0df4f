/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What two members of a link share: a sealed memfd with a ring per direction,
 * and the messages that set it up. POSIX and Linux, without QEMU.
 *
 * They use a SOCK_SEQPACKET unix socket. The connecting member creates the
 * memfd and sends it with its hello. The accepting member checks it and answers
 * with its own hello. After that each packet is a signal, whatever its content,
 * and a closed socket means that the peer is gone.
 */
#ifndef FAKERNIC_LINK_PAIR_H
#define FAKERNIC_LINK_PAIR_H

#include "ring.h"

#define LINK_MAGIC      "fakelink"
#define LINK_VERSION    2U
/* Each part of the memory is whole pages: those of a host have up to 64 KiB. */
#define LINK_CONTROL_SIZE   65536U

typedef struct LinkHello {
    char magic[8];
    uint32_t version;
    uint32_t ring_size;
    uint32_t frame_max;
    uint32_t refused;           /* in an answer: not 0 if it refuses */
} LinkHello;

typedef struct LinkPair {
    uint8_t *map;               /* NULL: none */
    LinkWriter tx;
    LinkReader rx;
} LinkPair;

/* Creates and maps the memory; a memfd that the caller closes, or -1. */
int link_pair_make(LinkPair *pair);

/*
 * Maps a memfd that a peer has sent; NULL, or why it is refused. It must have
 * the right size, and be sealed so that the peer cannot shrink it.
 */
const char *link_pair_adopt(LinkPair *pair, int memfd);

void link_pair_unmap(LinkPair *pair);

/* The hello of this member. */
LinkHello link_hello(void);

/* Checks a peer's hello of 'len' bytes; NULL: it is good, else the reason. */
const char *link_hello_check(const LinkHello *hello, size_t len);

/*
 * Returned for a packet with descriptors other than the memory of a hello. The
 * packet stays in the queue: dropping the last reference to a file closes it,
 * and the sender decides how long that takes (a TCP socket with SO_LINGER, a
 * file in its FUSE mount). Only link_closer_start() may close such a socket.
 */
#define LINK_FOREIGN    (-2)

/* Sends a hello, with a descriptor unless that is -1. Never blocks. */
bool link_hello_send(int sock, const LinkHello *hello, int fd);

/*
 * Receives a hello and returns its length. 0: none has arrived yet. -1: the
 * peer is gone and has sent none. *fd is the memory that came with it, or -1.
 * For LINK_FOREIGN *fd is -1 or a descriptor that link_closer_start() has to
 * close. Never blocks. If the process has no free descriptor, one that arrives
 * counts as foreign.
 */
int link_hello_receive(int sock, LinkHello *hello, int *fd);

/* The process id of the peer, for messages and accounts; 0: not known. */
long link_process(int sock);

/* Signals the peer. Never blocks; false: the peer is gone. */
bool link_signal(int sock);

/*
 * Reads some of the signals that have arrived. -1: the peer is gone.
 * LINK_FOREIGN: it sends descriptors. Never blocks.
 */
int link_signals_take(int sock);

#endif
