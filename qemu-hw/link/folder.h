/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where the members of a link find each other: a folder with a listening unix
 * socket per member. A new member connects to all existing members and then
 * listens. So each pair has one connection, and no relay is needed.
 *
 * A folder belongs to one user: no other user can write to it or connect to a
 * socket in it. A new member removes the sockets of killed members.
 */
#ifndef FAKERNIC_LINK_FOLDER_H
#define FAKERNIC_LINK_FOLDER_H

#include <stdbool.h>

typedef struct LinkFolder {
    int listener;
    char *socket;               /* path of the listening socket */
} LinkFolder;

/*
 * Called for each member with a connected socket, which the callee closes. -1:
 * connecting to the member of this name failed; errno has the reason.
 */
typedef void LinkFound(void *opaque, int sock, const char *name);

/*
 * Joins the link of a folder, which is created if it does not exist, and calls
 * 'found' for each member. NULL, or a message for the user; errno is then the
 * reason, or 0.
 */
const char *link_folder_join(LinkFolder *folder, const char *path,
                             LinkFound *found, void *opaque);

/* Accepts a connection of a new member; -1 and errno: there is none. */
int link_folder_accept(LinkFolder *folder);

/*
 * Leaves the link, without waiting for close() of the listening socket
 * (closer.h). The caller has no other descriptor of that socket.
 */
void link_folder_leave(LinkFolder *folder);

#endif
