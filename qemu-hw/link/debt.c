/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The debt of a peer that a member has waited for: debt.h. */
#include "debt.h"

#define PAID_BACK 10            /* 1 ns of debt expires in this many ns */

static int64_t within(int64_t value, int64_t most)
{
    return value < 0 ? 0 : value < most ? value : most;
}

int64_t link_debt_owed(const LinkDebt *debt, int64_t now)
{
    return within(debt->owed - (now - debt->at) / PAID_BACK, debt->owed);
}

void link_debt_add(LinkDebt *debt, LinkDebt *all, int64_t waited,
                   uint32_t taken, int64_t now)
{
    const int64_t paid = (int64_t)taken * LINK_DEBT_NS_A_BYTE;
    const int64_t before = link_debt_owed(debt, now);
    const int64_t after = within(before + waited - paid, LINK_DEBT_MAX_NS);
    const int64_t sum = link_debt_owed(all, now) + after - before;

    *debt = (LinkDebt) { after, now };
    *all = (LinkDebt) { within(sum, LINK_DEBTS_NS + LINK_DEBT_NS), now };
}

int64_t link_debt_patience(const LinkDebt *debt, const LinkDebt *all,
                           int64_t now)
{
    const int64_t own = LINK_DEBT_NS - link_debt_owed(debt, now);
    const int64_t left = LINK_DEBTS_NS - link_debt_owed(all, now);

    return within(own < left ? own : left, LINK_DEBT_NS);
}
