/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The ends of the wire. */
#include "end.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define LENGTH_SIZE 4
#define READ_SIZE   (1u << 18)
/* Room for an incomplete frame and for one read after it. */
#define INPUT_SIZE  (LENGTH_SIZE + END_FRAME_MAX + READ_SIZE)
/*
 * Twice the limit, so that queued bytes are seldom moved to the front, plus
 * room for copies of the frame that reaches the limit.
 */
#define OUTPUT_SIZE (2 * END_OUTPUT_LIMIT + 8 * (LENGTH_SIZE + END_FRAME_MAX))

bool end_open(End *e, const char *path, LinkStall *all)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    const char *dot = strrchr(path, '.');

    if (strlen(path) >= sizeof(address.sun_path)) {
        errno = ENAMETOOLONG;
        return false;
    }
    strcpy(address.sun_path, path);
    *e = (End) { .name = dot ? dot + 1 : path, .fd = -1, .all = all,
                 .full_since = END_NEVER };
    e->input = malloc(INPUT_SIZE);
    e->output = malloc(OUTPUT_SIZE);
    e->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC,
                         0);
    return e->input && e->output && e->listener >= 0 &&
           bind(e->listener, (struct sockaddr *)&address,
                sizeof(address)) == 0 &&
           listen(e->listener, 1) == 0;
}

void end_accept(End *e)
{
    e->fd = accept4(e->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
}

/* ---- waits for an end --------------------------------------------------- */

static RoceTime end_wait_left(const End *e, RoceTime now)
{
    RoceTime left;

    if (!e->all) {
        return END_STUCK_NS;
    }
    left = link_stall_left(&e->stall, e->all, now);
    return left < END_WAIT_MIN_NS ? 0 : left;
}

/* The end is full: the other ends wait for it from now on. */
static void end_begin_wait(End *e, RoceTime now)
{
    e->full_since = now;
    e->wait_ends = now + end_wait_left(e, now);
}

/* The wait is over. Its time, at most the limit, is charged to the end. */
static void end_end_wait(End *e, RoceTime now)
{
    if (e->full_since != END_NEVER && e->all) {
        const RoceTime end = now < e->wait_ends ? now : e->wait_ends;

        link_stall_add(&e->stall, e->all, end - e->full_since, e->taken, now);
        e->taken = 0;
    }
    e->full_since = END_NEVER;
}

static bool end_is_stuck(const End *e, RoceTime now)
{
    return e->full_since != END_NEVER && now >= e->wait_ends;
}

bool end_is_full(const End *e, RoceTime now)
{
    return e->full_since != END_NEVER && !end_is_stuck(e, now);
}

/* ---- its bytes ----------------------------------------------------------- */

void end_close(End *e, RoceTime now)
{
    end_end_wait(e, now);
    close(e->fd);
    e->fd = -1;
    e->watched = 0;
    e->input_at = e->input_end = 0;
    e->output_at = e->output_end = 0;
}

bool end_read(End *e)
{
    ssize_t got;

    memmove(e->input, e->input + e->input_at, e->input_end - e->input_at);
    e->input_end -= e->input_at;
    e->input_at = 0;
    if (e->input_end > INPUT_SIZE - READ_SIZE) {
        return true;
    }
    got = recv(e->fd, e->input + e->input_end, READ_SIZE, 0);
    if (got > 0) {
        e->input_end += (size_t)got;
    }
    return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
}

/* The length field of the next frame, whose four bytes must be there. */
static uint32_t end_length(const End *e)
{
    const uint8_t *p = e->input + e->input_at;

    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 |
           p[3];
}

bool end_has_frame(const End *e)
{
    const size_t there = e->input_end - e->input_at;

    return there >= LENGTH_SIZE && (end_length(e) > END_FRAME_MAX ||
                                    there - LENGTH_SIZE >= end_length(e));
}

ssize_t end_next(End *e, const uint8_t **frame)
{
    uint32_t len = 0;

    /* Skip empty frames. */
    while (len == 0) {
        if (!end_has_frame(e)) {
            return 0;
        }
        len = end_length(e);
        if (len > END_FRAME_MAX) {
            return -1;
        }
        *frame = e->input + e->input_at + LENGTH_SIZE;
        e->input_at += LENGTH_SIZE + len;
    }
    e->frames++;
    return len;
}

bool end_waits(const End *e)
{
    return e->output_end > e->output_at;
}

void end_queue(End *e, const uint8_t *frame, size_t len, RoceTime now)
{
    const size_t waits = e->output_end - e->output_at;
    const size_t size = LENGTH_SIZE + len;
    uint8_t *to;

    if (e->all && end_is_stuck(e, now)) {       /* its charge fell */
        end_end_wait(e, now);
        end_begin_wait(e, now);
    }
    if (e->fd < 0 || end_is_stuck(e, now) || waits + size > OUTPUT_SIZE) {
        e->lost++;
        return;
    }
    if (e->output_end + size > OUTPUT_SIZE) {
        memmove(e->output, e->output + e->output_at, waits);
        e->output_at = 0;
        e->output_end = waits;
    }
    to = e->output + e->output_end;
    for (unsigned i = 0; i < LENGTH_SIZE; i++) {
        to[i] = (uint8_t)(len >> (24 - 8 * i));
    }
    memcpy(to + LENGTH_SIZE, frame, len);
    e->output_end += size;
    if (e->full_since == END_NEVER && waits + size >= END_OUTPUT_LIMIT) {
        end_begin_wait(e, now);
    }
}

bool end_flush(End *e, RoceTime now)
{
    while (end_waits(e)) {
        const ssize_t sent = send(e->fd, e->output + e->output_at,
                                  e->output_end - e->output_at, MSG_NOSIGNAL);

        if (sent < 0) {
            return errno == EAGAIN || errno == EINTR;
        }
        e->output_at += (size_t)sent;
        e->taken += (uint32_t)sent;
        if (e->output_end - e->output_at < END_OUTPUT_LIMIT) {
            end_end_wait(e, now);
        } else if (!e->all) {
            end_begin_wait(e, now);
        }
    }
    e->output_at = e->output_end = 0;
    return true;
}
