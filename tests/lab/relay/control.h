/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Whoever controls the wire. A client of the socket says some lines, then that
 * these are all (it shuts its side down), and gets one answer:
 *
 *      rules END RULE[; RULE]...       fault rules for an end: faults.h
 *      inject END HEX                  a frame that comes to the end
 *
 * The answer is "error: ..." of the first line that cannot be obeyed, behind
 * which none is; else of each end "END frames=N lost=N": how many it has sent,
 * and how many it did not take; and behind it its rules, with their counters.
 */
#ifndef RELAY_CONTROL_H
#define RELAY_CONTROL_H

#include "wire.h"

#define CONTROL_CLIENTS 8

typedef struct Client {
    int fd;                     /* -1: nobody */
    uint32_t watched;           /* what epoll tells of it */
    char *line;                 /* what came of the next one */
    size_t len;
    char *answer;               /* NULL: there is none yet */
    size_t sent, size;
} Client;

typedef struct Control {
    int listener;
    uint32_t listened;          /* what epoll tells of it */
    Client clients[CONTROL_CLIENTS];
    unsigned next;              /* whose place is taken next */
} Control;

/* Listens at 'path'; false: errno says why. */
bool control_open(Control *c, const char *path);

/* Takes who has come, in place of who has been there longest. */
void control_accept(Control *c);

/* Obeys what has come, or answers more; who is done goes. */
void control_talk(Client *client, Wire *w);

/* What epoll is to tell of the client. */
uint32_t control_wants(const Client *client);

#endif
