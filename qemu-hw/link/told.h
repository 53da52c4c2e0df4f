/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Limits the lines that a link prints about its members, because a process that
 * can connect causes a line per connection. LINK_TOLD_AT_ONCE lines may be
 * printed in a row, and one per LINK_TOLD_NS after that; others are counted.
 *
 * Plain C11; times are in ns of a monotonic clock.
 */
#ifndef FAKERNIC_LINK_TOLD_H
#define FAKERNIC_LINK_TOLD_H

#include <stdbool.h>
#include <stdint.h>

/* One for each other member. */
#define LINK_TOLD_AT_ONCE   32U
#define LINK_TOLD_NS        INT64_C(60000000000)

/* All 0: no line is printed yet. */
typedef struct LinkTold {
    unsigned used;              /* of LINK_TOLD_AT_ONCE */
    int64_t at;                 /* when 'used' was last reduced */
    unsigned untold;            /* lines left out since the last one */
} LinkTold;

/*
 * True: a line may be printed now. *untold is how many were left out before it.
 */
bool link_told_next(LinkTold *told, int64_t now, unsigned *untold);

#endif
