/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a peer owes to a member's others: debt.h. */
#include "debt.h"

#define PAID_BACK 10            /* one in so many ns */

static int64_t owed(const LinkDebt *debt, int64_t now)
{
    const int64_t paid = (now - debt->at) / PAID_BACK;

    if (debt->owed <= 0) {
        return debt->owed;
    }
    return debt->owed > paid ? debt->owed - paid : 0;
}

void link_debt_add(LinkDebt *debt, int64_t waited, uint32_t head, int64_t now)
{
    const int64_t worth = (int64_t)(uint32_t)(head - debt->head) *
                          LINK_DEBT_NS_A_BYTE;
    int64_t sum = owed(debt, now) + waited - worth;

    sum = sum < LINK_DEBT_MAX_NS ? sum : LINK_DEBT_MAX_NS;
    debt->owed = sum > -LINK_CREDIT_MAX_NS ? sum : -LINK_CREDIT_MAX_NS;
    debt->at = now;
    debt->head = head;
}

int64_t link_debt_patience(const LinkDebt *debt, int64_t now)
{
    const int64_t left = LINK_DEBT_NS - owed(debt, now);

    return left < 0 ? 0 : left < LINK_DEBT_NS ? left : LINK_DEBT_NS;
}
