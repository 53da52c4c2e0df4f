/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How long a member waits for one peer at the cost of its others. The time
 * that it waited is the peer's debt, but for LINK_DEBT_NS_A_BYTE of what the
 * peer has taken: who is slow, and not stuck, owes nothing. A tenth of all time
 * is paid back. Who owes too much is waited for no more: beside what its frames
 * take at 16 MB/s it costs the others LINK_DEBT_NS and LINK_CREDIT_MAX_NS once,
 * and a tenth of the time from then on.
 *
 * Plain C11; times are in ns, of a clock that never goes back.
 */
#ifndef FAKERNIC_LINK_DEBT_H
#define FAKERNIC_LINK_DEBT_H

#include <stdint.h>

#define LINK_DEBT_NS        100000000
#define LINK_DEBT_NS_A_BYTE 62
/* It never owes more, however late we look: our own sleep is not its fault. */
#define LINK_DEBT_MAX_NS    (2 * LINK_DEBT_NS)
/* Nor is it owed more: what it takes at once pays for a wait that follows, as
 * one wait may be told of in pieces. */
#define LINK_CREDIT_MAX_NS  LINK_DEBT_NS

/* All 0: it owes nothing. */
typedef struct LinkDebt {
    int64_t owed;               /* < 0: it is owed */
    int64_t at;                 /* when it owed that */
    uint32_t head;              /* what it had taken then */
} LinkDebt;

/*
 * We have waited for it for so long, until now. 'head' is what it has taken
 * since it came, in bytes modulo 2^32.
 */
void link_debt_add(LinkDebt *debt, int64_t waited, uint32_t head, int64_t now);

/* How long we may wait for it; 0: not at all. */
int64_t link_debt_patience(const LinkDebt *debt, int64_t now);

#endif
