/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Accounts of the processes of a link: account.h. */
#include "account.h"

#include <stddef.h>

/* NULL: it has none. Processes of unknown id (0) never share an account. */
static LinkAccount *find(LinkAccounts *accounts, long process)
{
    for (unsigned i = 0; process && i < LINK_ACCOUNTS; i++) {
        if (accounts->each[i].process == process) {
            return &accounts->each[i];
        }
    }
    return NULL;
}

/* The account with the smallest charge of those without a connection. */
static LinkAccount *find_unused(LinkAccounts *accounts, int64_t now)
{
    LinkAccount *best = NULL;

    for (unsigned i = 0; i < LINK_ACCOUNTS; i++) {
        LinkAccount *account = &accounts->each[i];

        if (!account->connections &&
            (!best || link_stall_charged(&account->stall, now) <
                          link_stall_charged(&best->stall, now))) {
            best = account;
        }
    }
    return best;
}

LinkAccount *link_account_open(LinkAccounts *accounts, long process,
                               int64_t now)
{
    LinkAccount *account = find(accounts, process);

    if (!account) {
        account = find_unused(accounts, now);
        *account = (LinkAccount) { .process = process };
    }
    account->connections++;
    return account;
}

void link_account_close(LinkAccount *account)
{
    account->connections--;
}
