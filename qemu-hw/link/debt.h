/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Limits how long a member waits for one peer while its other peers are
 * stalled. The time waited is the peer's debt. Each byte that the peer takes
 * reduces the debt by LINK_DEBT_NS_A_BYTE, and so does a tenth of elapsed time.
 * So a peer that is slow but not stuck has little debt. The member does not
 * wait for a peer whose debt has reached LINK_DEBT_NS. Not counting the time
 * that its frames take at 16 MB/s, a peer stalls the others for at most
 * LINK_DEBT_NS once, and 10 % of the time after that.
 *
 * 'all' is the sum of the peers' debts, and is reduced by a tenth of elapsed
 * time, too. Once it reaches LINK_DEBTS_NS the member waits for no peer. So all
 * peers together, however often they leave and join, stall the others for at
 * most LINK_DEBTS_NS once, and 10 % of the time after that.
 *
 * Plain C11; times are in ns of a monotonic clock.
 */
#ifndef FAKERNIC_LINK_DEBT_H
#define FAKERNIC_LINK_DEBT_H

#include <stdint.h>

#define LINK_DEBT_NS        200000000
#define LINK_DEBT_NS_A_BYTE 62
/* The largest debt: a member that looks late must not charge its own delay. */
#define LINK_DEBT_MAX_NS    (2 * LINK_DEBT_NS)
/* The limit of the sum: two stuck peers reach it, one alone does not. */
#define LINK_DEBTS_NS       (2 * LINK_DEBT_NS)

/* All 0: it owes nothing. */
typedef struct LinkDebt {
    int64_t owed;
    int64_t at;                 /* the time of 'owed' */
} LinkDebt;

/*
 * Charges a peer for a wait of 'waited' ns that ends now. It has taken 'taken'
 * bytes since the last call.
 */
void link_debt_add(LinkDebt *debt, LinkDebt *all, int64_t waited,
                   uint32_t taken, int64_t now);

/* The debt at time 'now'. */
int64_t link_debt_owed(const LinkDebt *debt, int64_t now);

/* How long the member may wait for this peer; 0: not at all. */
int64_t link_debt_patience(const LinkDebt *debt, const LinkDebt *all,
                           int64_t now);

#endif
