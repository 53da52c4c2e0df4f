#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Makes the results page: page.py [RESULT.json bench-engine.json]

With a result of bench.py --reach and one of bench-engine it reduces both to
results.json: what the page, its figures and reach.py use. Then it writes the
figures, and the tables between the markers in RESULTS.md.
"""

import json
import re
import sys
from pathlib import Path

import plot
import reach
from results import PATIENT, RXE, Result, number

HERE = Path(__file__).resolve().parent
KEPT = HERE / "results.json"
PAGE = HERE / "RESULTS.md"
MARKED = re.compile(r"(<!-- begin page.py -->\n).*?(<!-- end page.py -->\n)",
                    re.S)
# The numbers that the file keeps for each run, and their significant digits.
NUMBERS = ("MB/s", "k/s", "median", "mean", "p99", "p99.9", "frames back")
DIGITS = 6
DEVICES = (RXE, "stream", "link", "null")
NULL_ROW = "write-64"
# (row, key, name on the page). For a latency less is better.
HEADLINES = (
    ("write-64", "k/s", "WRITE, 64 bytes, thousand/s"),
    ("write-64-q1000", "k/s", "WRITE, 64 bytes, 1,000 QPs, thousand/s"),
    ("write-65536", "MB/s", "WRITE, 64 KiB, MB/s"),
    ("read-65536", "MB/s", "READ, 64 KiB, MB/s"),
    ("send-65536", "MB/s", "SEND, 64 KiB, MB/s"),
    ("write-65536-q64", "MB/s", "WRITE, 64 KiB, 64 QPs, MB/s"),
    ("write-1048576", "MB/s", "WRITE, 1 MiB, MB/s"),
    ("send-lat", "median", "SEND latency, median, us"),
    ("send-lat", "p99", "SEND latency, 99th percentile, us"),
    ("read-lat", "median", "READ latency, median, us"),
    ("write-lat", "median", "WRITE latency, median, us"),
    ("tcp", "MB/s", "TCP over the Ethernet port, MB/s"))
LESS = ("median", "p99")


# ---- the kept file ---------------------------------------------------------------

def kept_run(run):
    found = {key: float(f"{run[key]:.{DIGITS}g}")
             for key in NUMBERS if key in run}
    if run["faults"]:
        found["faults"] = run["faults"]
    return {**found, "boot": run["boot"]}


def kept(result, engine):
    """The parts of a result that the page needs."""
    rows = {row: {name: [kept_run(run) for run in runs]
                  for name, runs in devices.items()
                  if name.removesuffix(PATIENT) in DEVICES and
                  (name != "null" or row == NULL_ROW)}
            for row, devices in result["rows"].items()}
    return {"machine": result["machine"], "limits": result["limits"],
            "limits after": result["limits after"],
            "devices": [name for name in result["devices"] if name in DEVICES],
            "rows": rows, "engine": engine}


def written(value, depth):
    """JSON in which only the outer DEPTH levels are split into lines."""
    if not depth or not isinstance(value, dict):
        return json.dumps(value)
    inner = ",\n".join(f"{json.dumps(key)}: {written(one, depth - 1)}"
                       for key, one in value.items())
    return f"{{\n{inner}\n}}"


def text_of_kept(found):
    return written(found, 3) + "\n"


# ---- the page --------------------------------------------------------------------

def number_cell(result, row, name, key):
    found = result.spread(row, name, key)
    if not found:
        return reach.UNKNOWN
    middle, least, greatest = (number(value, 3) for value in found)
    return f"{middle} ({least}..{greatest})"


def headlines(result):
    for row, key, what in HEADLINES:
        fast = min if key in LESS else max
        base = result.best(row, RXE, key, fast)
        ratios = (result.times(row, wire, key, fast) for wire in reach.WIRES)
        yield (what, *(number_cell(result, row, name, key)
                       for name in (base, *reach.WIRES)),
               *(f"{number(ratio, 3)} x" if ratio else "" for ratio in ratios))


def tables(result):
    """The tables in Markdown: the headlines, this machine's limits, the engine alone."""
    after = result.found["limits after"]
    return "\n".join([
        *reach.table(("what", "Soft-RoCE", "stream", "link", "stream / Soft-RoCE",
                      "link / Soft-RoCE"), headlines(result)), "",
        *reach.table(("limit of this machine", "before the job", "after"), (
            (name, number(value, 3), number(after[name], 3))
            for name, value in result.limits.items())), "",
        *reach.table(("the engine alone", "wanted", "measured"),
                     reach.engine(result.found["engine"])), ""])


def page_with(text, page):
    """PAGE with TEXT inserted between its markers."""
    if not MARKED.search(page):
        raise SystemExit(f"page.py: {PAGE}: no markers 'begin page.py' and "
                         "'end page.py'")
    return MARKED.sub(lambda found: found[1] + text + found[2], page)


def main():
    if len(sys.argv) not in (1, 3):
        raise SystemExit(__doc__.split("\n", maxsplit=1)[0])
    if len(sys.argv) == 3:
        found = [json.loads(Path(path).read_text(encoding="utf-8"))
                 for path in sys.argv[1:]]
        KEPT.write_text(text_of_kept(kept(*found)), encoding="utf-8")
    PAGE.write_text(page_with(tables(Result.read(KEPT)),
                              PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    print("\n".join(map(str, [KEPT, PAGE, *plot.draw(KEPT)])))


if __name__ == "__main__":
    main()
