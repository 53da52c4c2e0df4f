/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Clients that control the wire. A client of the socket sends lines, shuts its
 * side down, and gets one answer:
 *
 *      rules END RULE[; RULE]...       fault rules for an end: faults.h
 *      inject END HEX                  send a frame to the end
 *
 * The answer is "error: ..." for the first invalid line; later lines are not
 * carried out. Otherwise it has a line "END frames=N lost=N" for each end: the
 * frames that it sent, and those that it did not receive. The rules of the end
 * and their counters follow.
 */
#ifndef RELAY_CONTROL_H
#define RELAY_CONTROL_H

#include "wire.h"

#define CONTROL_CLIENTS 8

typedef struct Client {
    int fd;                     /* -1: no client */
    uint32_t watched;           /* the events that epoll reports */
    char *line;                 /* received bytes, not yet carried out */
    size_t len;
    char *answer;               /* NULL: there is none yet */
    size_t sent, size;
} Client;

typedef struct Control {
    int listener;
    uint32_t listened;          /* the events that epoll reports */
    Client clients[CONTROL_CLIENTS];
    unsigned next;              /* the place of the next client */
} Control;

/* Listens at 'path'. False: errno has the reason. */
bool control_open(Control *c, const char *path);

/* Accepts a client. If there are too many, the oldest is closed. */
void control_accept(Control *c);

/* Carries out received lines or sends more of the answer, then closes. */
void control_talk(Client *client, Wire *w);

/* The events of this client that epoll has to report. */
uint32_t control_wants(const Client *client);

#endif
