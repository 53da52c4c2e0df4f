/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What is inside, for whoever looks from outside: the device and its objects as
 * JSON. Looking changes nothing, and works while the VM is stopped and the
 * device frozen, dead or in error.
 */
#ifndef FAKERNIC_DEVICE_QUERY_H
#define FAKERNIC_DEVICE_QUERY_H

#include "common.h"

typedef struct FakernicQuery {
    const char *property;       /* "x-qps" */
    const char *description;
    char open, close;           /* of an array or an object */
    /* all of it, or */
    void (*write)(FakernicState *s, GString *text);
    /* the object at an index, false: there is none; of all below the end */
    bool (*entry)(FakernicState *s, uint32_t index, GString *text);
    uint32_t (*end)(const FakernicState *s);
} FakernicQuery;

/* An answer has at most so many objects, and begins none behind so many bytes:
 * the main thread writes it in one go. */
#define FAKERNIC_QUERY_MAX      8192
#define FAKERNIC_QUERY_BYTES    (512u << 10)

/* Which of the objects the next answer to one query has. */
typedef struct FakernicWindow {
    const FakernicQuery *query; /* NULL: none was asked for */
    uint32_t from, count;
} FakernicWindow;

/* All there is to ask for; the last has no property. */
extern const FakernicQuery fakernic_queries[];

/*
 * A number, decimal whatever it begins with but for 0x. False: it is none, or
 * more than 'max'.
 */
bool fakernic_query_number(const char *text, uint32_t max, uint32_t *value);

/* False: it is not realized, or in the middle of a reset. */
bool fakernic_query_possible(const FakernicState *s);

/*
 * "from=INDEX count=N": which objects the next answer to this query has. False:
 * that is not what was said.
 */
bool fakernic_query_window(FakernicState *s, const FakernicQuery *query,
                           const char *words, Error **errp);

/*
 * The answer in JSON, to be freed. If there are more objects, the last is
 * {"next": INDEX}. There is nothing in a device that is not
 * realized, or is in the middle of a reset.
 */
char *fakernic_query(FakernicState *s, const FakernicQuery *query);

/* The same, where there are objects of 'count' from an index on; no window
 * matters. */
char *fakernic_query_part(FakernicState *s, const FakernicQuery *query,
                          uint32_t from, uint32_t count);

/* An object in JSON, to be freed; NULL: there is none of this number. */
char *fakernic_query_one(FakernicState *s, enum fakernic_dump_kind kind,
                         uint32_t id);

#endif
