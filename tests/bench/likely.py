# SPDX-License-Identifier: GPL-2.0-or-later
"""Where a median is, if what was measured is a sample."""

import math

SURE = 0.95


def likely(values):
    """Between which of them the median is, by the sign test."""
    values = sorted(values)
    count, tail, cut = len(values), 0, 0
    while cut < count // 2:
        tail += math.comb(count, cut) / 2 ** count
        if 2 * tail > 1 - SURE:
            break
        cut += 1
    cut = max(cut, 1)
    return values[cut - 1], values[-cut]
