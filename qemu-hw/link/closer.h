/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Closes what may hold files of a peer. A close() that drops the last
 * reference to a file runs the file's own code: for a TCP socket with
 * SO_LINGER or a file of the peer's FUSE mount it takes as long as the peer
 * likes. So each such close() gets a thread of its own, which nobody waits
 * for. POSIX, without QEMU.
 */
#ifndef FAKERNIC_LINK_CLOSER_H
#define FAKERNIC_LINK_CLOSER_H

#include <stdbool.h>

/* A close() under way. */
typedef struct LinkCloser LinkCloser;

/*
 * Ends a connection, or a listening socket, at once, and closes it and 'fd',
 * unless that is -1. NULL: there is no memory or no thread, and both
 * descriptors are still open.
 */
LinkCloser *link_closer_start(int sock, int fd);

/* True: all is closed, and the closer is freed. */
bool link_closer_done(LinkCloser *closer);

/* Nobody will ask again: the thread frees the closer. */
void link_closer_leave(LinkCloser *closer);

#endif
