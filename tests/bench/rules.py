#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Measures the cost of fault rules that match nothing: the latency of an RDMA WRITE
of 8 bytes between two machines with two cards each, of which one has sixteen rules
at each end (../timeline/turns.py). The ratio must be below 1.05. For the engine
alone use `make bench-engine`."""

import argparse
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "timeline"))

import turns                                            # noqa: E402

PARTS = ("sixteen rules", turns.NONE)
LIMITS = {PARTS[0]: 1.05}
# The device checks them for every frame; none matches.
RULES = "; ".join(f"at={('tx', 'rx')[number % 2]} qpn={0xfff000 + number} "
                  "times=0 do=drop" for number in range(16))


class Ruled(turns.Cards):
    """A card with rules, and one without."""

    def __init__(self, out, shift):
        super().__init__(out, PARTS, shift)

    def properties(self, name, part):
        return {} if part == turns.NONE else {"x_fault": RULES}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default="fakernic-rules.out")
    parser.add_argument("--cycles", type=int, default=4, help="cycles of two "
                        "boots each, at most")
    options = parser.parse_args()
    out = Path(options.out)
    return int(turns.measure(lambda shift: Ruled(out, shift), LIMITS,
                             "with {}", options.cycles))


if __name__ == "__main__":
    sys.exit(main())
