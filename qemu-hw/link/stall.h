/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Limits how long a member waits for one peer while its other peers are
 * stalled. The time waited is charged to the peer. Each byte that the peer
 * takes reduces the charge by LINK_STALL_NS_PER_BYTE, and a tenth of elapsed
 * time reduces it, too. So a peer that is slow but not stuck has a small
 * charge. The member does not wait for a peer whose charge has reached
 * LINK_STALL_NS. Not counting the time that its frames take at 16 MB/s, a peer
 * stalls the others for at most LINK_STALL_NS once, and 10 % of the time after
 * that.
 *
 * 'all' is the sum of the peers' charges, and is reduced by a tenth of elapsed
 * time, too. Once it reaches LINK_STALLS_NS the member waits for no peer. So
 * all peers together, however often they leave and join, stall the others for
 * at most LINK_STALLS_NS once, and 10 % of the time after that.
 *
 * Plain C11; times are in ns of a monotonic clock.
 */
#ifndef FAKERNIC_LINK_STALL_H
#define FAKERNIC_LINK_STALL_H

#include <stdint.h>

#define LINK_STALL_NS          200000000
#define LINK_STALL_NS_PER_BYTE 62
/*
 * The largest charge: a member that looks late must not charge its own delay.
 */
#define LINK_STALL_MAX_NS      (2 * LINK_STALL_NS)
/* The limit of the sum: two stuck peers reach it, one alone does not. */
#define LINK_STALLS_NS         (2 * LINK_STALL_NS)

/* All 0: nothing is charged. */
typedef struct LinkStall {
    int64_t ns;                 /* the charge */
    int64_t at;                 /* the time of 'ns' */
} LinkStall;

/*
 * Charges a peer for a wait of 'waited' ns that ends now. It has taken 'taken'
 * bytes since the last call.
 */
void link_stall_add(LinkStall *stall, LinkStall *all, int64_t waited,
                    uint32_t taken, int64_t now);

/* The charge at time 'now'. */
int64_t link_stall_charged(const LinkStall *stall, int64_t now);

/* How long the member may wait for this peer from now on; 0: not at all. */
int64_t link_stall_left(const LinkStall *stall, const LinkStall *all,
                        int64_t now);

#endif
