/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Closes sockets that may hold a peer's files: closer.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "closer.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

struct LinkCloser {
    int sock, fd;
    bool left;                  /* the thread or the owner is done with it */
};

/* Thread and owner call this once each; the second call frees it. */
static void leave(LinkCloser *closer)
{
    /* Uses of 'closer' come before 'left', and 'left' before free(). Pairs with
     * the other's call, and with link_closer_done(). */
    if (__atomic_exchange_n(&closer->left, true, __ATOMIC_ACQ_REL)) {
        free(closer);
    }
}

static void *closer_run(void *opaque)
{
    LinkCloser *closer = opaque;

    if (closer->fd >= 0) {
        close(closer->fd);
    }
    close(closer->sock);
    leave(closer);
    return NULL;
}

/* Starts the thread with all signals blocked: QEMU's threads handle them. */
static bool start_thread(LinkCloser *closer)
{
    pthread_attr_t attr;
    pthread_t thread;
    sigset_t all, before;
    int error;

    if (pthread_attr_init(&attr)) {
        return false;
    }
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&thread, &attr, closer_run, closer);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    return !error;
}

LinkCloser *link_closer_start(int sock, int fd)
{
    LinkCloser *closer = calloc(1, sizeof(*closer));

    /* From now on no packet can enter the queue. */
    shutdown(sock, SHUT_RDWR);
    if (!closer) {
        return NULL;
    }
    closer->sock = sock;
    closer->fd = fd;
    if (!start_thread(closer)) {
        free(closer);
        return NULL;
    }
    return closer;
}

bool link_closer_done(LinkCloser *closer)
{
    /* Loads 'left' before free(). Pairs with leave() in the thread. */
    if (!__atomic_load_n(&closer->left, __ATOMIC_ACQUIRE)) {
        return false;
    }
    free(closer);
    return true;
}

void link_closer_leave(LinkCloser *closer)
{
    leave(closer);
}
