/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Limits the lines that a link prints about its members: told.h. */
#include "told.h"

static void give_back(LinkTold *told, int64_t now)
{
    const int64_t back = (now - told->at) / LINK_TOLD_NS;

    if (back >= told->used) {
        told->used = 0;
        told->at = now;
    } else {
        told->used -= back;
        told->at += back * LINK_TOLD_NS;
    }
}

bool link_told_next(LinkTold *told, int64_t now, unsigned *untold)
{
    give_back(told, now);
    if (told->used == LINK_TOLD_AT_ONCE) {
        told->untold++;
        return false;
    }
    told->used++;
    *untold = told->untold;
    told->untold = 0;
    return true;
}
