/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Where the members of a link find each other: folder.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "folder.h"
#include "closer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define LOCK_NAME       "lock"
#define SOCKET_SUFFIX   ".member"
#define BACKLOG         64
/* Members hold the lock only while they connect: milliseconds. Waiting for it
 * stops the guest, so this gives up after a second. */
#define LOCK_TRIES      100
#define LOCK_PAUSE_NS   10000000
/* Sockets of a folder that are tried: far more than there are members. */
#define LOOK_MAX        256

static int new_socket(void)
{
    return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

static bool set_address(struct sockaddr_un *address, const char *folder,
                        const char *name)
{
    int len = snprintf(address->sun_path, sizeof(address->sun_path), "%s/%s",
                       folder, name);

    address->sun_family = AF_UNIX;
    return len > 0 && (size_t)len < sizeof(address->sun_path);
}

/* Other files that have such a name are left alone. */
static bool is_member(DIR *dir, const char *name)
{
    size_t len = strlen(name), suffix = strlen(SOCKET_SUFFIX);
    struct stat st;

    return len > suffix && !strcmp(name + len - suffix, SOCKET_SUFFIX) &&
           !fstatat(dirfd(dir), name, &st, AT_SYMLINK_NOFOLLOW) &&
           S_ISSOCK(st.st_mode);
}

/* Only this user may write to it: any process that can connect is a peer. */
static const char *check_folder(const char *path)
{
    struct stat st;

    if (mkdir(path, 0700) && errno != EEXIST) {
        return "cannot create the folder";
    }
    if (lstat(path, &st)) {
        return "cannot read the folder's attributes";
    }
    errno = 0;
    if (!S_ISDIR(st.st_mode)) {
        return "is not a folder: name one that only this link uses";
    }
    if (st.st_uid != geteuid() || (st.st_mode & (S_IWGRP | S_IWOTH))) {
        return "must belong to this user, and be writable by no other "
               "(chmod 700)";
    }
    return NULL;
}

/* The lock's descriptor; -1 and errno: it cannot be opened. */
static int open_lock(const char *path)
{
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int lock, why;

    if (folder < 0) {
        return -1;
    }
    lock = openat(folder, LOCK_NAME, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW,
                  0600);
    why = errno;
    close(folder);
    errno = why;
    return lock;
}

/* Locking failed for another reason than a holder. */
static const char *cannot_lock(int lock)
{
    const int why = errno;

    close(lock);
    errno = why;
    return "has a lock file that cannot be locked";
}

/* Locks the folder: NULL, and *lock is the descriptor; or why it failed. */
static const char *lock_folder(const char *path, int *lock)
{
    const struct timespec pause = { 0, LOCK_PAUSE_NS };

    *lock = open_lock(path);
    if (*lock < 0) {
        return "has a lock file that cannot be opened";
    }
    for (unsigned i = 0; i < LOCK_TRIES; i++) {
        if (!flock(*lock, LOCK_EX | LOCK_NB)) {
            return NULL;
        }
        if (errno != EWOULDBLOCK && errno != EINTR) {
            return cannot_lock(*lock);
        }
        nanosleep(&pause, NULL);
    }
    close(*lock);
    errno = 0;
    return "is locked by a member that makes no progress";
}

static void connect_to(const char *path, const char *name, LinkFound *found,
                       void *opaque)
{
    struct sockaddr_un address;
    int sock, why;

    if (!set_address(&address, path, name)) {
        errno = ENAMETOOLONG;
        found(opaque, -1, name);
        return;
    }
    sock = new_socket();
    if (sock < 0) {
        found(opaque, -1, name);
        return;
    }
    if (!connect(sock, (struct sockaddr *)&address, sizeof(address))) {
        found(opaque, sock, name);
        return;
    }
    why = errno;
    close(sock);
    if (why == ECONNREFUSED) {
        unlink(address.sun_path);       /* left behind by a killed member */
    } else if (why != ENOENT) {         /* ENOENT: the member has left */
        errno = why;
        found(opaque, -1, name);
    }
}

static void connect_to_all(const char *path, LinkFound *found, void *opaque)
{
    DIR *dir = opendir(path);
    struct dirent *entry;
    unsigned looked = 0;

    while (dir && looked < LOOK_MAX && (entry = readdir(dir))) {
        if (is_member(dir, entry->d_name)) {
            connect_to(path, entry->d_name, found, opaque);
            looked++;
        }
    }
    if (dir) {
        closedir(dir);
    }
}

/*
 * Listens on a socket with a name that no other member has. The file gets its
 * mode from the descriptor; write permission on it is permission to connect.
 */
static const char *listen_in(LinkFolder *folder, const char *path)
{
    struct sockaddr_un address;
    char name[64];
    int sock = new_socket();

    if (sock >= 0 && fchmod(sock, 0600)) {
        close(sock);
        sock = -1;
    }
    for (unsigned i = 0; sock >= 0 && i < LOOK_MAX; i++) {
        snprintf(name, sizeof(name), "%ld-%u" SOCKET_SUFFIX, (long)getpid(), i);
        if (!set_address(&address, path, name)) {
            close(sock);
            errno = 0;
            return "has a path that is too long for a unix socket in it";
        }
        if (bind(sock, (struct sockaddr *)&address, sizeof(address))) {
            continue;
        }
        if (listen(sock, BACKLOG)) {
            break;
        }
        folder->listener = sock;
        folder->socket = strdup(address.sun_path);
        return NULL;
    }
    if (sock >= 0) {
        close(sock);
    }
    return "cannot listen in the folder";
}

const char *link_folder_join(LinkFolder *folder, const char *path,
                             LinkFound *found, void *opaque)
{
    const char *why = check_folder(path);
    int lock;

    if (why) {
        return why;
    }
    why = lock_folder(path, &lock);
    if (why) {
        return why;
    }
    connect_to_all(path, found, opaque);
    why = listen_in(folder, path);
    close(lock);
    return why;
}

int link_folder_accept(LinkFolder *folder)
{
    return accept4(folder->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
}

void link_folder_leave(LinkFolder *folder)
{
    LinkCloser *closer;

    unlink(folder->socket);
    free(folder->socket);
    /* Members that are not accepted yet may have sent files already. */
    closer = link_closer_start(folder->listener, -1);
    if (closer) {
        link_closer_leave(closer);
    }
}
