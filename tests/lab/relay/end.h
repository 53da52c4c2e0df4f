/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One QEMU's end of the wire, a socket of `-netdev stream`: each frame has its
 * length in front, 32 bits big-endian. What comes in and what waits to go out
 * is in two buffers of fixed size. An end is full when END_OUTPUT_LIMIT waits;
 * then the others wait for it. Between two ends that ends when it has taken
 * nothing for END_STUCK_NS. Among more, the time that they wait is its debt
 * (debt.h), which outlives its connection. An end that they no longer wait for
 * is stuck, and loses frames.
 */
#ifndef RELAY_END_H
#define RELAY_END_H

#include "debt.h"
#include "roce.h"

#include <sys/types.h>

#define END_FRAME_MAX    (65536 + 4096)         /* QEMU's own limit */
#define END_OUTPUT_LIMIT (1u << 22)             /* then it is full */
#define END_STUCK_NS     3500000000ll
#define END_WAIT_MIN_NS  1000000ll              /* shorter waits are none */
#define END_NEVER        (-1)

typedef struct End {
    const char *name;           /* of its QEMU */
    int listener;
    int fd;                     /* -1: nobody is there */
    uint32_t listened, watched; /* events of both; 0: none */
    uint8_t *input, *output;
    size_t input_at, input_end; /* of the bytes that came */
    size_t output_at, output_end;       /* of those that wait */
    RoceTime full_since;        /* others wait; END_NEVER: it has room */
    RoceTime wait_ends;         /* from then on it is stuck */
    LinkDebt debt;
    LinkDebt *all;              /* of all ends; NULL: there are two */
    uint32_t taken;             /* bytes, since they were last counted */
    uint64_t frames;            /* it has sent */
    uint64_t lost;              /* it did not take */
} End;

/*
 * Listens at 'path', whose last part names the end; false: errno says why.
 * 'all' is the sum of the debts of all ends; NULL: there are two.
 */
bool end_open(End *e, const char *path, LinkDebt *all);

/* Accepts a connection, which may be closed already. */
void end_accept(End *e);

/* Closes the connection and drops the frames that wait for it. */
void end_close(End *e, RoceTime now);

/* Reads once. False: the connection is closed. */
bool end_read(End *e);

/* Has a whole frame come, or the length of one that cannot be? */
bool end_has_frame(const End *e);

/*
 * The next frame that came; its length, or 0: there is no whole one, -1: it is
 * longer than any can be, so the end speaks another language. Good until the
 * end is read again.
 */
ssize_t end_next(End *e, const uint8_t **frame);

/* The frame waits to go out, or is lost, as the end is stuck or gone. */
void end_queue(End *e, const uint8_t *frame, size_t len, RoceTime now);

/* Sends what the socket takes. False: the connection is closed. */
bool end_flush(End *e, RoceTime now);

/* Are there bytes that wait to go out? */
bool end_waits(const End *e);

/* Full, and not stuck: the others are to wait for it. */
bool end_is_full(const End *e, RoceTime now);

#endif
