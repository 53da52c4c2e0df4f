/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Two members of a link: the memory they share, and how they agree on it. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "pair.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/* The file: a control area per direction, then a ring per direction. */
#define FILE_SIZE (2 * (LINK_CONTROL_SIZE + LINK_RING_SIZE))
/* The mapping has each ring twice in succession (ring.h). */
#define MAP_SIZE (2 * (LINK_CONTROL_SIZE + 2 * LINK_RING_SIZE))
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define SIGNALS_AT_ONCE 16

_Static_assert(LINK_RING_SIZE % LINK_CONTROL_SIZE == 0,
               "a ring is mapped by whole pages");
_Static_assert(sizeof(LinkControl) <= LINK_CONTROL_SIZE,
               "the control words of a ring fit into its area");

static bool map_at(uint8_t *place, size_t len, int memfd, off_t offset)
{
    return mmap(place, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                memfd, offset) != MAP_FAILED;
}

static uint8_t *map_all(int memfd)
{
    uint8_t *map = mmap(NULL, MAP_SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS,
                        -1, 0);
    bool good;

    if (map == MAP_FAILED) {
        return NULL;
    }
    good = map_at(map, 2 * LINK_CONTROL_SIZE, memfd, 0);
    for (unsigned i = 0; i < 4; i++) {
        good = good && map_at(map + 2 * LINK_CONTROL_SIZE + i * LINK_RING_SIZE,
                              LINK_RING_SIZE, memfd,
                              2 * LINK_CONTROL_SIZE + i / 2 * LINK_RING_SIZE);
    }
    if (!good) {
        munmap(map, MAP_SIZE);
        return NULL;
    }
    return map;
}

/* SIDE 0 writes the first ring, side 1 the second. */
static bool pair_map(LinkPair *pair, int memfd, unsigned side)
{
    uint8_t *map = map_all(memfd);
    uint8_t *rings;

    memset(pair, 0, sizeof(*pair));
    if (!map) {
        return false;
    }
    rings = map + 2 * LINK_CONTROL_SIZE;
    pair->map = map;
    pair->tx.control = (LinkControl *)(map + side * LINK_CONTROL_SIZE);
    pair->tx.data = rings + side * 2 * LINK_RING_SIZE;
    pair->rx.control = (LinkControl *)(map + !side * LINK_CONTROL_SIZE);
    pair->rx.data = rings + !side * 2 * LINK_RING_SIZE;
    return true;
}

int link_pair_make(LinkPair *pair)
{
    int fd = memfd_create("fakernic-link", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd < 0) {
        return -1;
    }
    if (ftruncate(fd, FILE_SIZE) || fcntl(fd, F_ADD_SEALS, SEALS) ||
        !pair_map(pair, fd, 0)) {
        close(fd);
        return -1;
    }
    return fd;
}

/*
 * Checks a peer's memory; NULL: it is good, else the reason. The seals are
 * checked first. Only memfds have them, and the query calls no file system of
 * the peer.
 */
static const char *memory_check(int memfd)
{
    struct statfs fs;
    struct stat st;
    int seals = fcntl(memfd, F_GET_SEALS);

    if (memfd < 0) {
        return "no memory came with its hello";
    }
    if (seals < 0 || (seals & SEALS) != SEALS || (seals & F_SEAL_WRITE)) {
        return "its memory lacks the required seals";
    }
    if (fstat(memfd, &st) || st.st_size != FILE_SIZE || fstatfs(memfd, &fs) ||
        fs.f_type != TMPFS_MAGIC) {
        return "its memory has the wrong size or type";
    }
    return NULL;
}

const char *link_pair_adopt(LinkPair *pair, int memfd)
{
    const char *why = memory_check(memfd);

    if (why) {
        return why;
    }
    return pair_map(pair, memfd, 1) ? NULL : "its memory cannot be mapped";
}

void link_pair_unmap(LinkPair *pair)
{
    if (pair->map) {
        munmap(pair->map, MAP_SIZE);
        pair->map = NULL;
    }
}

/* ---- messages ------------------------------------------------------------ */

LinkHello link_hello(void)
{
    return (LinkHello) {
        .magic = { 'f', 'a', 'k', 'e', 'l', 'i', 'n', 'k' },
        .version = LINK_VERSION,
        .ring_size = LINK_RING_SIZE,
        .frame_max = LINK_FRAME_MAX,
    };
}

const char *link_hello_check(const LinkHello *hello, size_t len)
{
    if (len < sizeof(*hello) ||
        memcmp(hello->magic, LINK_MAGIC, sizeof(hello->magic))) {
        return "it does not send a hello of a link";
    }
    if (hello->version != LINK_VERSION ||
        hello->ring_size != LINK_RING_SIZE ||
        hello->frame_max != LINK_FRAME_MAX) {
        return "it speaks another version: run the same build of QEMU's device "
               "on both sides";
    }
    return hello->refused ? "it refuses the connection: its output has the reason" : NULL;
}

bool link_hello_send(int sock, const LinkHello *hello, int fd)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = { 0 };
    struct iovec iov = { (void *)hello, sizeof(*hello) };
    struct msghdr message = { .msg_iov = &iov, .msg_iovlen = 1 };

    if (fd >= 0) {
        struct cmsghdr *c = &control.align;

        message.msg_control = &control;
        message.msg_controllen = sizeof(control);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(c), &fd, sizeof(fd));
    }
    return sendmsg(sock, &message, MSG_DONTWAIT | MSG_NOSIGNAL) ==
           sizeof(*hello);
}

/* The descriptor of a message, which has room for one; -1: it has none. */
static int message_fd(struct msghdr *message)
{
    struct cmsghdr *c = CMSG_FIRSTHDR(message);
    int fd = -1;

    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
        c->cmsg_len == CMSG_LEN(sizeof(int))) {
        memcpy(&fd, CMSG_DATA(c), sizeof(fd));
    }
    return fd;
}

static bool nothing_there(void)
{
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

/*
 * Peeks at the next packet. It stays in the queue and keeps its references to
 * the files that came with it.
 */
static ssize_t look(int sock, struct msghdr *message)
{
    const int flags = MSG_PEEK | MSG_DONTWAIT | MSG_CMSG_CLOEXEC;
    ssize_t len = recvmsg(sock, message, flags);

    /* The peer closed before it had read all packets. The error is reported
     * once; its own packets are behind it in the queue. */
    if (len < 0 && errno == ECONNRESET) {
        len = recvmsg(sock, message, flags);
    }
    return len;
}

int link_hello_receive(int sock, LinkHello *hello, int *fd)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_LEN(sizeof(int))];
    } control;
    struct iovec iov = { hello, sizeof(*hello) };
    struct msghdr message = {
        .msg_iov = &iov,
        .msg_iovlen = 1,
        .msg_control = &control,
        /* Without the union's padding, which has room for a second one. */
        .msg_controllen = sizeof(control.bytes),
    };
    ssize_t len;

    *fd = -1;
    len = look(sock, &message);
    if (len < 0) {
        return nothing_there() ? 0 : -1;
    }
    *fd = message_fd(&message);
    if ((message.msg_flags & MSG_CTRUNC) || (*fd >= 0 && memory_check(*fd))) {
        return LINK_FOREIGN;
    }
    recv(sock, hello, sizeof(*hello), MSG_DONTWAIT);
    return len ? len : -1;
}

long link_process(int sock)
{
    struct ucred peer = { 0 };
    socklen_t len = sizeof(peer);

    getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &peer, &len);
    return peer.pid;
}

bool link_signal(int sock)
{
    /* EAGAIN: the peer has enough unread signals. */
    return send(sock, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1 ||
           nothing_there();
}

int link_signals_take(int sock)
{
    char byte;

    for (unsigned i = 0; i < SIGNALS_AT_ONCE; i++) {
        struct iovec iov = { &byte, 1 };
        struct msghdr message = { .msg_iov = &iov, .msg_iovlen = 1 };
        ssize_t len = look(sock, &message);

        if (len > 0 && (message.msg_flags & MSG_CTRUNC)) {
            return LINK_FOREIGN;
        }
        if (len <= 0) {
            return len && nothing_there() ? 1 : -1;
        }
        recv(sock, &byte, 1, MSG_DONTWAIT);
    }
    return 1;
}
