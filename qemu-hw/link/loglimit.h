/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Limits the lines that a link prints about its members, because a process that
 * can connect causes a line per connection. LINK_LOG_BURST lines may be
 * printed in a row, and one per LINK_LOG_NS after that; others are counted.
 *
 * Plain C11; times are in ns of a monotonic clock.
 */
#ifndef FAKERNIC_LINK_LOGLIMIT_H
#define FAKERNIC_LINK_LOGLIMIT_H

#include <stdbool.h>
#include <stdint.h>

/* One for each other member. */
#define LINK_LOG_BURST  32U
#define LINK_LOG_NS     INT64_C(60000000000)

/* All 0: no line is printed yet. */
typedef struct LinkLogLimit {
    unsigned used;              /* of LINK_LOG_BURST */
    int64_t at;                 /* when 'used' was last reduced */
    unsigned suppressed;        /* lines since the last one */
} LinkLogLimit;

/*
 * True: a line may be printed now. *suppressed is the number of lines that were
 * suppressed since the last one.
 */
bool link_log_limit_pass(LinkLogLimit *limit, int64_t now,
                         unsigned *suppressed);

#endif
