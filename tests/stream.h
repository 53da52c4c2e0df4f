/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A saved engine in memory: what roce_save() has written and roce_load() reads.
 * For the unit tests, the simulator and the fuzzer.
 */
#ifndef FAKERNIC_TESTS_STREAM_H
#define FAKERNIC_TESTS_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct Stream {
    uint8_t *bytes;             /* allocated, 'room' bytes */
    size_t size, read, room;
} Stream;

/* RoceSaveBytes; 'opaque' is the Stream. */
static inline bool stream_write(void *opaque, const void *bytes, size_t size)
{
    Stream *s = opaque;

    if (size > s->room - s->size) {
        s->room = 2 * s->room + size;
        s->bytes = realloc(s->bytes, s->room);
        if (!s->bytes) {
            abort();
        }
    }
    if (size > 0) {
        memcpy(s->bytes + s->size, bytes, size);
    }
    s->size += size;
    return true;
}

/* RoceLoadBytes. */
static inline bool stream_read(void *opaque, void *bytes, size_t size)
{
    Stream *s = opaque;

    if (size > s->size - s->read) {
        return false;
    }
    if (size > 0) {
        memcpy(bytes, s->bytes + s->read, size);
    }
    s->read += size;
    return true;
}

static inline bool stream_equal(const Stream *a, const Stream *b)
{
    return a->size == b->size && memcmp(a->bytes, b->bytes, a->size) == 0;
}

#endif
