/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Accounts of the processes at the other end of a link's connections: the time
 * waited for them (stall.h) and their number of connections. A process keeps
 * its account when it leaves and joins again. A forked process gets a new
 * account, but the old one still counts in the sum of all.
 *
 * Plain C11; times are in ns of a monotonic clock.
 */
#ifndef FAKERNIC_LINK_ACCOUNT_H
#define FAKERNIC_LINK_ACCOUNT_H

#include "stall.h"

/* More than there are connections, so that one is always free. */
#define LINK_ACCOUNTS 192

typedef struct LinkAccount {
    long process;               /* 0: the process id is not known */
    unsigned connections;
    LinkStall stall;
} LinkAccount;

/* All 0: no process has connected. */
typedef struct LinkAccounts {
    LinkAccount each[LINK_ACCOUNTS];
    LinkStall all;               /* the sum of all */
} LinkAccounts;

/*
 * Adds a connection to the account of a process, and returns the account. The
 * caller has fewer than LINK_ACCOUNTS connections.
 */
LinkAccount *link_account_open(LinkAccounts *accounts, long process,
                               int64_t now);

/* Removes a connection from the account. */
void link_account_close(LinkAccount *account);

#endif
