# SPDX-License-Identifier: GPL-2.0-or-later
"""The confidence interval of a median."""

import math

CONFIDENCE = 0.95


def median_range(values):
    """Two of the values: the median of what they sample lies between (sign test)."""
    values = sorted(values)
    count, tail, cut = len(values), 0, 0
    while cut < count // 2:
        tail += math.comb(count, cut) / 2 ** count
        if 2 * tail > 1 - CONFIDENCE:
            break
        cut += 1
    cut = max(cut, 1)
    return values[cut - 1], values[-cut]
