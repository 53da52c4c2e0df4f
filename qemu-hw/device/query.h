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
    void (*write)(FakernicState *s, GString *text);
} FakernicQuery;

/* All there is to ask for; the last has no property. */
extern const FakernicQuery fakernic_queries[];

/* False: it is not realized, or in the middle of a reset. */
bool fakernic_query_possible(const FakernicState *s);

/*
 * The answer in JSON, to be freed. There is nothing in a device that is not
 * realized, or is in the middle of a reset.
 */
char *fakernic_query(FakernicState *s, const FakernicQuery *query);

/* An object in JSON, to be freed; NULL: there is none of this number. */
char *fakernic_query_one(FakernicState *s, enum fakernic_dump_kind kind,
                         uint32_t id);

#endif
