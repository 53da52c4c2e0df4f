/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The bytes of a saved engine, see stream.h. Numbers have the same bytes on
 * every machine.
 */
#include "engine.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Numbers of a list that are read at a time. */
#define STREAM_PIECE 512u

void roce_stream_fail(RoceStream *s, const char *format, ...)
{
    va_list args;
    int at;

    if (!s->loads || s->failed) {
        return;
    }
    s->failed = true;
    at = s->object ? snprintf(s->error, ROCE_LOAD_ERROR, "%s %u: ", s->object,
                              s->number) : 0;
    va_start(args, format);
    vsnprintf(s->error + at, ROCE_LOAD_ERROR - (size_t)at, format, args);
    va_end(args);
}

void roce_stream_bytes(RoceStream *s, void *bytes, size_t size)
{
    if (!s->loads) {
        s->failed = s->failed || !s->write(s->host, bytes, size);
        return;
    }
    if (!s->failed && !s->read(s->host, bytes, size)) {
        roce_stream_fail(s, "the stream ends too early");
    }
    if (s->failed) {
        memset(bytes, 0, size);
    }
}

static uint64_t stream_get(const void *number, size_t size)
{
    uint64_t value = 0;

    switch (size) {
    case 1:
        return *(const uint8_t *)number;
    case 2:
        return *(const uint16_t *)number;
    case 4:
        return *(const uint32_t *)number;
    default:
        assert(size == sizeof(value));
        memcpy(&value, number, size);
        return value;
    }
}

static void stream_put(void *number, size_t size, uint64_t value)
{
    switch (size) {
    case 1:
        *(uint8_t *)number = (uint8_t)value;
        break;
    case 2:
        *(uint16_t *)number = (uint16_t)value;
        break;
    case 4:
        *(uint32_t *)number = (uint32_t)value;
        break;
    default:
        memcpy(number, &value, size);
        break;
    }
}

void roce_stream_uint(RoceStream *s, void *number, size_t size)
{
    uint64_t value = stream_get(number, size);
    uint8_t bytes[sizeof(value)];

    for (size_t i = 0; i < size; i++) {
        bytes[i] = (uint8_t)(value >> 8 * i);
    }
    roce_stream_bytes(s, bytes, size);
    if (s->loads) {
        value = 0;
        for (size_t i = 0; i < size; i++) {
            value |= (uint64_t)bytes[i] << 8 * i;
        }
        stream_put(number, size, value);
    }
}

void roce_stream_bool(RoceStream *s, void *value, size_t size)
{
    uint8_t byte = *(bool *)value;

    assert(size == sizeof(bool));
    roce_stream_uint(s, &byte, 1);
    ROCE_CHECK(s, byte <= 1, "flag");
    *(bool *)value = byte == 1;
}

void roce_stream_time(RoceStream *s, RoceTime *time)
{
    roce_stream_uint(s, time, sizeof(*time));
    ROCE_CHECK(s, *time == ROCE_TIME_NEVER ||
                      (*time > -ROCE_STREAM_TIME_MAX &&
                       *time < ROCE_STREAM_TIME_MAX), "time");
}

static void stream_numbers(RoceStream *s, uint64_t *numbers, uint32_t count)
{
    for (uint32_t i = 0; i < count && !s->failed; i++) {
        ROCE_FIELD(s, numbers[i]);
    }
}

void roce_stream_list(RoceStream *s, uint64_t **list, uint32_t count)
{
    uint64_t room = 0;

    if (!s->loads) {
        stream_numbers(s, *list, count);
        return;
    }
    *list = NULL;
    for (uint32_t done = 0; done < count && !s->failed;) {
        const uint32_t left = count - done;
        const uint32_t piece = left < STREAM_PIECE ? left : STREAM_PIECE;

        if (done + piece > room) {
            uint64_t *more;

            room = 2 * room > count ? count : 2 * room;
            room = room < done + piece ? done + piece : room;
            more = realloc(*list, (size_t)room * sizeof(**list));
            if (!more) {
                /* Not reached by tests: out of memory. */
                roce_stream_fail(s, "out of memory");
                break;
            }
            *list = more;
        }
        stream_numbers(s, *list + done, piece);
        done += piece;
    }
    if (s->failed) {
        free(*list);
        *list = NULL;
    }
}

void roce_stream_qp(RoceStream *s, Roce *r, RoceQp **qp)
{
    uint32_t qpn = !s->loads && *qp ? (*qp)->qpn : 0;

    ROCE_FIELD(s, qpn);
    if (s->loads) {
        ROCE_CHECK(s, qpn == 0 || (qpn < r->limits.max_qp && r->qps[qpn]),
                   "number of a queue pair");
        *qp = s->failed || qpn == 0 ? NULL : r->qps[qpn];
    }
}
