/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One QEMU's end of the wire, a socket of `-netdev stream`. Each frame follows
 * its length, 32 bits big-endian. The input and the output are buffers of a
 * fixed size. An end is full when END_OUTPUT_LIMIT bytes wait in its output;
 * then the other ends wait for it. With two ends the wait is over when the
 * full end has read nothing for END_STUCK_NS. With more ends, the time that
 * the others wait is charged to it (stall.h), also after its connection ends,
 * and the charge limits the wait. After the wait the end is stuck and loses
 * frames.
 */
#ifndef RELAY_END_H
#define RELAY_END_H

#include "stall.h"
#include "roce.h"

#include <sys/types.h>

#define END_FRAME_MAX    (65536 + 4096)         /* QEMU's own limit */
#define END_OUTPUT_LIMIT (1u << 22)             /* bytes; then it is full */
#define END_STUCK_NS     3500000000ll
#define END_WAIT_MIN_NS  1000000ll              /* no shorter wait begins */
#define END_NEVER        (-1)

typedef struct End {
    const char *name;           /* of its QEMU */
    int listener;
    int fd;                     /* -1: no QEMU is connected */
    uint32_t listened, watched; /* events of both; 0: none */
    uint8_t *input, *output;
    size_t input_at, input_end; /* the received bytes */
    size_t output_at, output_end;       /* the bytes that wait */
    RoceTime full_since;        /* END_NEVER: not full */
    RoceTime wait_ends;         /* from then on it is stuck */
    LinkStall stall;
    LinkStall *all;             /* of all ends; NULL: there are two */
    uint32_t taken;             /* bytes it read since the last wait */
    uint64_t frames;            /* frames that it sent */
    uint64_t lost;              /* frames that it did not receive */
} End;

/*
 * Listens at 'path'. The part after its last dot names the end. False: errno
 * has the reason. 'all' is the sum of the charges of all ends; NULL: there are
 * two ends.
 */
bool end_open(End *e, const char *path, LinkStall *all);

/* Accepts a connection, which may be closed already. */
void end_accept(End *e);

/* Closes the connection and drops the frames that wait for it. */
void end_close(End *e, RoceTime now);

/* Reads once. False: the connection is closed. */
bool end_read(End *e);

/* Is a complete frame there, or an invalid length? */
bool end_has_frame(const End *e);

/*
 * Takes the next received frame, which is valid until the next end_read().
 * Returns its length. 0: no frame is complete. -1: the length is invalid, so
 * the end does not speak this protocol.
 */
ssize_t end_next(End *e, const uint8_t **frame);

/* Queues the frame; or counts it as lost if the end is stuck or has left. */
void end_queue(End *e, const uint8_t *frame, size_t len, RoceTime now);

/* Sends as much as the socket accepts. False: the connection is closed. */
bool end_flush(End *e, RoceTime now);

/* Do bytes wait to be sent? */
bool end_waits(const End *e);

/* Full and not stuck: do the other ends have to wait for it? */
bool end_is_full(const End *e, RoceTime now);

#endif
