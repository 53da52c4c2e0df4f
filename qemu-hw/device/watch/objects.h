/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The state of the device and its objects as JSON, for tools and tests. A query
 * changes nothing. It works while the VM is stopped, and while the device is
 * frozen, dead or in error.
 */
#ifndef FAKERNIC_DEVICE_WATCH_OBJECTS_H
#define FAKERNIC_DEVICE_WATCH_OBJECTS_H

#include "../common.h"

typedef struct FakernicQuery {
    const char *property;       /* "x-qps" */
    const char *description;
    char open, close;           /* of an array or an object */
    /* either writes the whole answer, */
    void (*write)(FakernicState *s, GString *text);
    /* or one object; false: none has this index; indexes are below end() */
    bool (*entry)(FakernicState *s, uint32_t index, GString *text);
    uint32_t (*end)(const FakernicState *s);
} FakernicQuery;

/* Limits of an answer, because the main thread writes it without a pause: its
 * objects, and the length after which no further object begins. */
#define FAKERNIC_QUERY_MAX      8192
#define FAKERNIC_QUERY_BYTES    (512u << 10)

/* Selects the objects of the next answer to one query. */
typedef struct FakernicWindow {
    const FakernicQuery *query; /* NULL: nothing is selected */
    uint32_t from, count;
} FakernicWindow;

/* All queries; the last entry has no property. */
extern const FakernicQuery fakernic_queries[];

/*
 * Parses a number: decimal, also with leading zeros, or hexadecimal after 0x.
 * False: it is not a number, or above 'max'.
 */
bool fakernic_query_number(const char *text, uint32_t max, uint32_t *value);

/* False: the device is not realized, or in the middle of a reset. */
bool fakernic_query_possible(const FakernicState *s);

/*
 * Parses "from=INDEX count=N", which selects the objects of the next answer to
 * this query. False: the text has another form.
 */
bool fakernic_query_window(FakernicState *s, const FakernicQuery *query,
                           const char *words, Error **errp);

/*
 * The answer in JSON; the caller frees it. If there are more objects, the last
 * element is {"next": INDEX}. The answer is empty if the device is not realized
 * or in the middle of a reset.
 */
char *fakernic_query(FakernicState *s, const FakernicQuery *query);

/* The same for up to 'count' objects from index 'from' on; ignores the
 * window. */
char *fakernic_query_part(FakernicState *s, const FakernicQuery *query,
                          uint32_t from, uint32_t count);

/* One object in JSON, which the caller frees; NULL: none has this number. */
char *fakernic_query_one(FakernicState *s, enum fakernic_dump_kind kind,
                         uint32_t id);

#endif
