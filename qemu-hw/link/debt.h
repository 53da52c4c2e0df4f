/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How long a member waits for one peer at the cost of its others. The time
 * that it waited is the peer's debt, of which a tenth of all time is paid back.
 * Who owes too much is waited for no more: it costs the others LINK_DEBT_NS
 * once, and a tenth of the time from then on.
 *
 * Plain C11; times are in ns, of a clock that never goes back.
 */
#ifndef FAKERNIC_LINK_DEBT_H
#define FAKERNIC_LINK_DEBT_H

#include <stdint.h>

#define LINK_DEBT_NS        100000000
/* It never owes more, however late we look: our own sleep is not its fault. */
#define LINK_DEBT_MAX_NS    (2 * LINK_DEBT_NS)

/* All 0: it owes nothing. */
typedef struct LinkDebt {
    int64_t owed;
    int64_t at;                 /* when it owed that */
} LinkDebt;

/* We have waited for it for so long, until now. */
void link_debt_add(LinkDebt *debt, int64_t waited, int64_t now);

/* How long we may wait for it; 0: not at all. */
int64_t link_debt_patience(const LinkDebt *debt, int64_t now);

#endif
