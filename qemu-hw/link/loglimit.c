/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Limits the lines that a link prints about its members: loglimit.h. */
#include "loglimit.h"

static void give_back(LinkLogLimit *limit, int64_t now)
{
    const int64_t back = (now - limit->at) / LINK_LOG_NS;

    if (back >= limit->used) {
        limit->used = 0;
        limit->at = now;
    } else {
        limit->used -= back;
        limit->at += back * LINK_LOG_NS;
    }
}

bool link_log_limit_pass(LinkLogLimit *limit, int64_t now,
                         unsigned *suppressed)
{
    give_back(limit, now);
    if (limit->used == LINK_LOG_BURST) {
        limit->suppressed++;
        return false;
    }
    limit->used++;
    *suppressed = limit->suppressed;
    limit->suppressed = 0;
    return true;
}
