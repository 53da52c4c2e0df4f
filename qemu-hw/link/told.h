/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How many lines a link may print about its members: whoever can connect to it
 * can make it print one for each connection. LINK_TOLD_AT_ONCE in a row, and
 * one in LINK_TOLD_NS from then on; the others are counted.
 *
 * Plain C11; times are in ns, of a clock that never goes back.
 */
#ifndef FAKERNIC_LINK_TOLD_H
#define FAKERNIC_LINK_TOLD_H

#include <stdbool.h>
#include <stdint.h>

/* One for each other member. */
#define LINK_TOLD_AT_ONCE   32U
#define LINK_TOLD_NS        INT64_C(60000000000)

/* All 0: nothing was told. */
typedef struct LinkTold {
    unsigned used;              /* of LINK_TOLD_AT_ONCE */
    int64_t at;                 /* from then on one is given back at a time */
    unsigned untold;            /* since the last line */
} LinkTold;

/*
 * True: a line may be printed now. *untold are those before it that were not.
 */
bool link_told_next(LinkTold *told, int64_t now, unsigned *untold);

#endif
