/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A window of packets in flight: answers and losses adjust its size. It knows
 * neither packets nor time.
 */
#include "window.h"

#include "stream.h"

void roce_window_init(RoceWindow *w, uint32_t max)
{
    *w = (RoceWindow) { .size = max, .max = max };
}

void roce_window_answered(RoceWindow *w, uint32_t count)
{
    if (!roce_window_reduced(w)) {
        return;
    }
    w->answered += count;
    while (w->answered >= w->size && roce_window_reduced(w)) {
        w->answered -= w->size;
        w->size++;
    }
}

void roce_window_lost(RoceWindow *w)
{
    w->size = w->size / 2 > ROCE_WINDOW_MIN ? w->size / 2 : ROCE_WINDOW_MIN;
    w->answered = 0;
}

uint32_t roce_window_share(const RoceWindow *w, uint32_t busy)
{
    uint32_t share;

    if (busy < 2) {
        return w->size;
    }
    share = ROCE_WINDOW_ALL / busy;
    share = share > ROCE_WINDOW_SHARE ? share : ROCE_WINDOW_SHARE;
    return w->size < share ? w->size : share;
}

uint32_t roce_window_ack_every(const RoceWindow *w, uint32_t most)
{
    uint32_t quarter = w->size / 4;

    return quarter >= most ? most : quarter > 0 ? quarter : 1;
}

void roce_window_transfer(RoceStream *s, RoceWindow *w, uint32_t max)
{
    ROCE_FIELD(s, w->size);
    ROCE_FIELD(s, w->max);
    ROCE_FIELD(s, w->answered);
    ROCE_CHECK(s, w->max == max || (w->max == 0 && w->size == 0), "window");
    ROCE_CHECK(s, w->max == 0 || (w->size >= ROCE_WINDOW_MIN &&
                                  w->size <= w->max), "size of a window");
}
