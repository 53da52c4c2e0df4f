/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Clients that control the wire. */
#include "control.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* The longest line: a frame in hexadecimal. */
#define LINE_SIZE (2 * END_FRAME_MAX + 256)

bool control_open(Control *c, const char *path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };

    if (strlen(path) >= sizeof(address.sun_path)) {
        errno = ENAMETOOLONG;
        return false;
    }
    strcpy(address.sun_path, path);
    for (unsigned i = 0; i < CONTROL_CLIENTS; i++) {
        c->clients[i].fd = -1;
        c->clients[i].line = malloc(LINE_SIZE);
        if (!c->clients[i].line) {
            return false;
        }
    }
    c->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC,
                         0);
    return c->listener >= 0 &&
           bind(c->listener, (struct sockaddr *)&address,
                sizeof(address)) == 0 &&
           listen(c->listener, CONTROL_CLIENTS) == 0;
}

static void control_close(Client *client)
{
    close(client->fd);
    free(client->answer);
    *client = (Client) { .fd = -1, .line = client->line };
}

void control_accept(Control *c)
{
    Client *client = &c->clients[c->next];
    int fd = accept4(c->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

    if (fd < 0) {
        return;
    }
    if (client->fd >= 0) {
        control_close(client);
    }
    client->fd = fd;
    c->next = (c->next + 1) % CONTROL_CLIENTS;
}

uint32_t control_wants(const Client *client)
{
    return client->answer ? EPOLLOUT : EPOLLIN;
}

/* ---- lines --------------------------------------------------------------- */

static int control_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' :
           c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Decodes in place. Returns the number of bytes; 0: not hexadecimal. */
static size_t control_bytes(char *text)
{
    uint8_t *to = (uint8_t *)text;
    size_t len = 0;

    for (; text[2 * len]; len++) {
        const int high = control_digit(text[2 * len]);
        const int low = control_digit(text[2 * len + 1]);

        if (high < 0 || low < 0 || len == END_FRAME_MAX) {
            return 0;
        }
        to[len] = (uint8_t)(high << 4 | low);
    }
    return len;
}

static bool control_inject(Wire *w, WireEnd *e, char *text,
                           char error[ROCE_FAULT_ERROR])
{
    const size_t len = control_bytes(text);

    if (!len) {
        snprintf(error, ROCE_FAULT_ERROR, "not a frame in hexadecimal");
        return false;
    }
    if (!wire_inject(w, (unsigned)(e - w->ends), (const uint8_t *)text, len)) {
        snprintf(error, ROCE_FAULT_ERROR, "end '%.40s' is not connected", e->end.name);
        return false;
    }
    return true;
}

/* Carries out a line "VERB END TEXT". False: 'error' has the reason. */
static bool control_line(Wire *w, char *line, char error[ROCE_FAULT_ERROR])
{
    char *name = strchr(line, ' ');
    char *text = name ? strchr(name + 1, ' ') : NULL;
    WireEnd *e;

    if (!text) {
        snprintf(error, ROCE_FAULT_ERROR, "no line of ours: '%.40s'", line);
        return false;
    }
    *name++ = '\0';
    *text++ = '\0';
    e = wire_named(w, name);
    if (!e) {
        snprintf(error, ROCE_FAULT_ERROR, "there is no end '%.40s'", name);
        return false;
    }
    if (strcmp(line, "rules") == 0) {
        return faults_add(&e->faults, text, error);
    }
    if (strcmp(line, "inject") == 0) {
        return control_inject(w, e, text, error);
    }
    snprintf(error, ROCE_FAULT_ERROR, "neither rules nor inject: '%.40s'",
             line);
    return false;
}

/* ---- answers ------------------------------------------------------------- */

static void control_answer(Client *client, const Wire *w, const char *error)
{
    FILE *to = open_memstream(&client->answer, &client->size);

    if (!to) {
        control_close(client);
        return;
    }
    if (error) {
        fprintf(to, "error: %s\n", error);
    }
    for (unsigned i = 0; !error && i < w->count; i++) {
        const WireEnd *e = &w->ends[i];

        fprintf(to, "%s frames=%llu lost=%llu\n", e->end.name,
                (unsigned long long)e->end.frames,
                (unsigned long long)e->end.lost);
        faults_print(&e->faults, e->end.name, to);
    }
    fclose(to);
}

/* Carries out complete lines, up to the first invalid one: that is answered. */
static void control_obey(Client *client, Wire *w)
{
    char error[ROCE_FAULT_ERROR];
    char *line = client->line;
    char *end;

    while ((end = memchr(line, '\n', client->len))) {
        *end = '\0';
        client->len -= (size_t)(end + 1 - line);
        if (!control_line(w, line, error)) {
            control_answer(client, w, error);
            return;
        }
        line = end + 1;
    }
    memmove(client->line, line, client->len);
    if (client->len == LINE_SIZE) {
        control_answer(client, w, "the line is too long");
    }
}

static void control_send(Client *client)
{
    const ssize_t sent = send(client->fd, client->answer + client->sent,
                              client->size - client->sent, MSG_NOSIGNAL);

    if (sent < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    client->sent += sent > 0 ? (size_t)sent : 0;
    if (sent <= 0 || client->sent == client->size) {
        control_close(client);
    }
}

void control_talk(Client *client, Wire *w)
{
    ssize_t got;

    if (client->answer) {
        control_send(client);
        return;
    }
    got = recv(client->fd, client->line + client->len, LINE_SIZE - client->len,
               0);
    if (got > 0) {
        client->len += (size_t)got;
        control_obey(client, w);
    } else if (got == 0 && client->len) {
        control_answer(client, w, "the last line has no end");
    } else if (got == 0) {
        control_answer(client, w, NULL);
    } else if (errno != EAGAIN && errno != EINTR) {
        control_close(client);
    }
}
