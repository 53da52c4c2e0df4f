/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How long a member waits for one peer at the cost of its others. The time that
 * it waited is the peer's debt. The peer pays with its frames,
 * LINK_DEBT_NS_A_BYTE for a byte, and gets a tenth of all time for nothing: a
 * peer that is slow, and not stuck, owes little. A peer that owes LINK_DEBT_NS
 * is no longer waited for. Besides the time that its frames take at 16 MB/s, it
 * costs the others at most LINK_DEBT_NS once, and a tenth of the time after
 * that.
 *
 * The debts of all peers are also added up in one more, 'all', of which a
 * tenth of the time is paid back, too. Once it reaches LINK_DEBTS_NS no peer
 * is waited for: together, and however often they leave and join, peers cost
 * no more than LINK_DEBTS_NS once and a tenth of the time.
 *
 * Plain C11; times are in ns, of a clock that never goes back.
 */
#ifndef FAKERNIC_LINK_DEBT_H
#define FAKERNIC_LINK_DEBT_H

#include <stdint.h>

#define LINK_DEBT_NS        200000000
#define LINK_DEBT_NS_A_BYTE 62
/* It never owes more, however late we look: our own sleep is not its fault. */
#define LINK_DEBT_MAX_NS    (2 * LINK_DEBT_NS)
/* The limit of the sum: two stuck peers reach it, one does not. */
#define LINK_DEBTS_NS       (2 * LINK_DEBT_NS)

/* All 0: it owes nothing. */
typedef struct LinkDebt {
    int64_t owed;
    int64_t at;                 /* when it owed that */
} LinkDebt;

/*
 * We have waited for a peer for 'waited' ns, until now; it has taken 'taken'
 * bytes since the last such report.
 */
void link_debt_add(LinkDebt *debt, LinkDebt *all, int64_t waited,
                   uint32_t taken, int64_t now);

/* What it owes now. */
int64_t link_debt_owed(const LinkDebt *debt, int64_t now);

/* How long we may wait for it; 0: not at all. */
int64_t link_debt_patience(const LinkDebt *debt, const LinkDebt *all,
                           int64_t now);

#endif
