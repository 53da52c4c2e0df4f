/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How long a member waits for a peer: stall.h. */
#include "stall.h"

#define EXPIRES_IN 10           /* 1 ns of a charge expires in this many ns */

static int64_t within(int64_t value, int64_t most)
{
    return value < 0 ? 0 : value < most ? value : most;
}

int64_t link_stall_charged(const LinkStall *stall, int64_t now)
{
    return within(stall->ns - (now - stall->at) / EXPIRES_IN, stall->ns);
}

void link_stall_add(LinkStall *stall, LinkStall *all, int64_t waited,
                    uint32_t taken, int64_t now)
{
    const int64_t reduced = (int64_t)taken * LINK_STALL_NS_PER_BYTE;
    const int64_t before = link_stall_charged(stall, now);
    const int64_t after = within(before + waited - reduced, LINK_STALL_MAX_NS);
    const int64_t sum = link_stall_charged(all, now) + after - before;

    *stall = (LinkStall) { after, now };
    *all = (LinkStall) { within(sum, LINK_STALLS_NS + LINK_STALL_NS), now };
}

int64_t link_stall_left(const LinkStall *stall, const LinkStall *all,
                        int64_t now)
{
    const int64_t own = LINK_STALL_NS - link_stall_charged(stall, now);
    const int64_t left = LINK_STALLS_NS - link_stall_charged(all, now);

    return within(own < left ? own : left, LINK_STALL_NS);
}
