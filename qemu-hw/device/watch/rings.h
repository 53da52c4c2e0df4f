/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Shows a ring: its entries in guest memory now, decoded as the device decodes
 * them. Nothing is counted or changed.
 */
#ifndef FAKERNIC_DEVICE_WATCH_RINGS_H
#define FAKERNIC_DEVICE_WATCH_RINGS_H

#include "../common.h"

typedef enum FakernicLookKind {
    FAKERNIC_LOOK_NONE,
    FAKERNIC_LOOK_SQ,
    FAKERNIC_LOOK_RQ,
    FAKERNIC_LOOK_SRQ,
    FAKERNIC_LOOK_CQ,
    FAKERNIC_LOOK_EQ,
} FakernicLookKind;

/* Selects a ring and a range of its entries. */
typedef struct FakernicLook {
    FakernicLookKind kind;
    bool has_from;              /* else the next entries, or the last ones */
    uint32_t number;            /* of the QP, SRQ, CQ or EQ */
    uint32_t from;              /* free-running index */
    uint32_t count;
} FakernicLook;

/*
 * Selects a ring by words: "sq 17", or "cq 3 from=12 count=64". False: the form
 * is wrong or there is no such ring; the selection does not change.
 */
bool fakernic_look_at(FakernicState *s, const char *words, Error **errp);

/*
 * The selected ring in JSON; the caller frees it. NULL: none is selected, it
 * does not exist any more, or its memory cannot be read.
 */
char *fakernic_look(FakernicState *s, Error **errp);

/* The same for the ring that the words name; the selection does not change. */
char *fakernic_look_words(FakernicState *s, const char *words, Error **errp);

#endif
