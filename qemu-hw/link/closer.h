/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Closes sockets that may hold a peer's files. A close() that drops the last
 * reference to a file runs code of that file. For a TCP socket with SO_LINGER,
 * or a file in the peer's FUSE mount, the peer decides how long that takes. So
 * each such close() runs in its own thread, and no thread waits for it. POSIX,
 * without QEMU.
 */
#ifndef FAKERNIC_LINK_CLOSER_H
#define FAKERNIC_LINK_CLOSER_H

#include <stdbool.h>

/* A close() under way. */
typedef struct LinkCloser LinkCloser;

/*
 * Shuts down a connection or a listening socket at once. A thread then closes
 * it, and 'fd' unless that is -1. NULL: no memory or no thread; both
 * descriptors are still open.
 */
LinkCloser *link_closer_start(int sock, int fd);

/* True: both descriptors are closed, and the closer is freed. */
bool link_closer_done(LinkCloser *closer);

/* Gives up the closer: its thread frees it. */
void link_closer_leave(LinkCloser *closer);

#endif
