#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""What fault rules that match nothing cost WRITEs of 64 KiB between two
machines: ib_write_bw without any and with sixteen at each end, by turns, on one
pair of machines. It passes if the median of what is left of the rate is likely
(95 %) above 0.95, fails if below, and else more rounds are needed. Of the engine
alone `make bench-engine` tells it."""

import argparse
import contextlib
import io
import re
import statistics
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lab"))

from likely import likely                               # noqa: E402
from fakernic_lab import faults, launch                 # noqa: E402
from fakernic_lab.lab import Lab                        # noqa: E402

TOOL = "ib_write_bw -F -s 65536 -n 3000"
# Of every frame, but never right.
RULES = "; ".join(f"at={('tx', 'rx')[number % 2]} qpn={0xfff000 + number} "
                  "times=0 do=drop" for number in range(16))
LEFT = 0.95


def rate(lab):
    """MB/s."""
    with contextlib.redirect_stdout(io.StringIO()):
        verdict, runs = launch.run_all(lab, [TOOL, f"{TOOL} node1"], 120)
    if verdict.code:
        raise SystemExit(f"rules: {TOOL} failed: {verdict.reason}")
    text = (runs[1].node.vm.directory / "output").read_text("utf-8")
    (found,) = re.findall(r"^ *65536 +\d+ +[\d.]+ +([\d.]+)", text, re.M)
    return float(found)


def rules(lab, text):
    for node in lab.nodes:
        faults.set_fault(node.vm, text)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default="fakernic-rules.out")
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    ratios = []
    with Lab(out=Path(options.out)) as lab:
        rate(lab)                                       # does not count
        for number in range(options.rounds):
            rates = {}
            for ruled in (number % 2, 1 - number % 2):
                rules(lab, RULES if ruled else "remove=all")
                rates[ruled] = rate(lab)
            ratios.append(rates[1] / rates[0])
            rules(lab, "remove=all")
    low, high = likely(ratios)
    print(f"with 16 rules: {statistics.median(ratios):.3f} of the rate without, "
          f"likely {low:.3f} to {high:.3f}; {LEFT} is wanted "
          f"({len(ratios)} rounds)")
    if low < LEFT <= high:
        print("not shown: more --rounds would tell")
    return int(low < LEFT)


if __name__ == "__main__":
    sys.exit(main())
