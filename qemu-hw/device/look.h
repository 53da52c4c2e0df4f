/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A look into a ring: its entries as they are in guest memory now, decoded as
 * the device decodes them. Nothing is counted or changed by it.
 */
#ifndef FAKERNIC_DEVICE_LOOK_H
#define FAKERNIC_DEVICE_LOOK_H

#include "common.h"

typedef enum FakernicLookKind {
    FAKERNIC_LOOK_NONE,
    FAKERNIC_LOOK_SQ,
    FAKERNIC_LOOK_RQ,
    FAKERNIC_LOOK_SRQ,
    FAKERNIC_LOOK_CQ,
    FAKERNIC_LOOK_EQ,
} FakernicLookKind;

/* Which ring, and which of its entries. */
typedef struct FakernicLook {
    FakernicLookKind kind;
    bool has_from;              /* else from what is next, or was last */
    uint32_t number;            /* of the QP, SRQ, CQ or EQ */
    uint32_t from;              /* free-running index */
    uint32_t count;
} FakernicLook;

/*
 * Takes "sq 17", or "cq 3 from=12 count=64". False: it is not like that, or
 * there is no such ring; nothing is taken.
 */
bool fakernic_look_at(FakernicState *s, const char *words, Error **errp);

/*
 * The ring that was named, in JSON, to be freed. NULL: none was named, it is
 * gone, or out of the device's reach.
 */
char *fakernic_look(FakernicState *s, Error **errp);

/* The ring that the words name, in the same way; what was taken stays. */
char *fakernic_look_words(FakernicState *s, const char *words, Error **errp);

#endif
