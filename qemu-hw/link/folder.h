/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where the members of a link find each other: a folder with a listening unix
 * socket per member. Who joins connects to all that are there, and then
 * listens: so each two have one connection, and there is nobody in the middle.
 *
 * A folder belongs to one user: nobody else can write to it, nor connect to
 * what is in it. What members left behind that were killed is removed by the
 * next.
 */
#ifndef FAKERNIC_LINK_FOLDER_H
#define FAKERNIC_LINK_FOLDER_H

#include <stdbool.h>

typedef struct LinkFolder {
    int listener;
    char *socket;               /* its path */
} LinkFolder;

/*
 * Gets a connected socket, which is the callee's; or -1 where the member of
 * this name could not be reached, for the reason in errno.
 */
typedef void LinkFound(void *opaque, int sock, const char *name);

/*
 * Joins the link of a folder, which is made if it does not exist: 'found' gets
 * a connection to each member. NULL, or what to tell the user; errno is then
 * the reason, or 0.
 */
const char *link_folder_join(LinkFolder *folder, const char *path,
                             LinkFound *found, void *opaque);

/* The next member that joins; -1: none now. */
int link_folder_accept(LinkFolder *folder);

/*
 * Leaves it, without waiting for the listening socket to close: closer.h. No
 * other descriptor of that socket is open.
 */
void link_folder_leave(LinkFolder *folder);

#endif
