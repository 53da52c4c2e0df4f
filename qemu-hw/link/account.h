/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What each process at the other end of a link's connections owes (debt.h),
 * and how many connections it has. A process keeps its debt when it leaves and
 * joins again. A process that forks gets a new account; its share in the sum
 * of all debts remains.
 *
 * Plain C11; times are in ns, of a clock that never goes back.
 */
#ifndef FAKERNIC_LINK_ACCOUNT_H
#define FAKERNIC_LINK_ACCOUNT_H

#include "debt.h"

/* More than there are connections, so that one is always free. */
#define LINK_ACCOUNTS 192

typedef struct LinkAccount {
    long process;               /* 0: one that this process cannot see */
    unsigned connections;
    LinkDebt debt;
} LinkAccount;

/* All 0: no process has connected. */
typedef struct LinkAccounts {
    LinkAccount each[LINK_ACCOUNTS];
    LinkDebt all;               /* the sum of their debts */
} LinkAccounts;

/*
 * The account of a process that has one connection more. There are fewer than
 * LINK_ACCOUNTS others.
 */
LinkAccount *link_account_open(LinkAccounts *accounts, long process,
                               int64_t now);

/* The process has one connection less. */
void link_account_close(LinkAccount *account);

#endif
