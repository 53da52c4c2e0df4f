/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The stream that roce_save() writes and roce_load() reads: little-endian
 * numbers and bytes, one after the other. One function per structure moves its
 * fields in either direction, so that both directions always agree:
 *
 *      void roce_window_transfer(RoceStream *s, RoceWindow *w)
 *      {
 *          ROCE_FIELD(s, w->size);
 *          ROCE_CHECK(s, w->size <= w->max, "window size");
 *          ROCE_DERIVED(w->max);
 *      }
 *
 * The functions of a structure name all of its fields (tests/laws): a field is
 * either moved or marked as derived. So a new field cannot be forgotten.
 *
 * A stream is hostile input. After the first error all numbers that are read
 * are zero, and the load fails as a whole. A check that fails while saving has
 * no effect.
 */
#ifndef ROCE_STREAM_H
#define ROCE_STREAM_H

#include "roce.h"

/* Times in a stream are below this, or NEVER. So sums do not overflow. */
#define ROCE_STREAM_TIME_MAX ((RoceTime)1 << 61)

struct RoceStream {
    bool loads;                 /* false: saves */
    bool failed;
    RoceSaveBytes write;
    RoceLoadBytes read;
    void *host;
    const char *object;         /* the one that is moved, for the error */
    uint32_t number;
    char *error;                /* loads: ROCE_LOAD_ERROR bytes */
};

/* Moves an unsigned number of 1, 2, 4 or 8 bytes. */
void roce_stream_uint(RoceStream *s, void *number, size_t size);
/* The same for a bool; loads accept only 0 and 1. */
void roce_stream_bool(RoceStream *s, void *value, size_t size);
/* Moves bytes; a failed load sets them to zero. */
void roce_stream_bytes(RoceStream *s, void *bytes, size_t size);
/* Moves a time, which may be ROCE_TIME_NEVER. */
void roce_stream_time(RoceStream *s, RoceTime *time);
/*
 * Moves a list of 'count' numbers. A load allocates the list, and fails if the
 * stream is shorter, before it has used much more memory than the stream. The
 * caller frees the list. It is NULL if the load fails.
 */
void roce_stream_list(RoceStream *s, uint64_t **list, uint32_t count);
/* The load fails; the first reason counts. */
void roce_stream_fail(RoceStream *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Moves an integer or bool. */
#define ROCE_FIELD(s, field)                                              \
    do {                                                                  \
        _Static_assert(sizeof(field) <= 8, "a structure has a function"); \
        _Generic((field), bool: roce_stream_bool,                         \
                 default: roce_stream_uint)(s, &(field), sizeof(field));  \
    } while (0)
/* Moves an enum, whose values are below 'end'. */
#define ROCE_ENUM(s, field, end)                                   \
    do {                                                           \
        uint32_t value_ = (uint32_t)(field);                       \
        ROCE_FIELD(s, value_);                                     \
        ROCE_CHECK(s, value_ < (uint32_t)(end), #field);           \
        if ((s)->loads) {                                          \
            (field) = (s)->failed ? 0 : value_;                    \
        }                                                          \
    } while (0)
/* Moves a number of at most 24 bits: a PSN, SSN or MSN. */
#define ROCE_PSN(s, field)                               \
    do {                                                 \
        ROCE_FIELD(s, field);                            \
        ROCE_CHECK(s, (field) <= 0xffffffu, #field);     \
    } while (0)
/* A load fails unless the condition holds. 'text' names what is wrong. */
#define ROCE_CHECK(s, condition, text)                     \
    do {                                                   \
        if ((s)->loads && !(s)->failed && !(condition)) {  \
            roce_stream_fail(s, "invalid %s", text);       \
        }                                                  \
    } while (0)
/* A field that a load derives from others, or that no later call uses. */
#define ROCE_DERIVED(field) ((void)sizeof(field))

#endif
