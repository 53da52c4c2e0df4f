#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Prints a result of bench.py as Markdown: table.py RESULT.json"""

import re
import sys

from results import KINDS, PATIENT, RXE, Result, number, values

UNITS = {"MB/s": "MB/s", "k/s": "thousand/s", "mean": "us", "median": "us",
         "p99": "us", "p99.9": "us"}
LATENCIES = ("mean", "median", "p99", "p99.9")
# Word in a counter's name -> what it counts; the first match wins.
REPEATED = (("dup", "duplicates"), ("rnr", "RNR NAKs"),
            ("retrans", "sent again"), ("retry", "sent again"),
            ("timeout", "timeouts"), ("seq", "out of sequence"))
ELSE = "drops"


def table(head, rows):
    """Lines of Markdown."""
    return ["| " + " | ".join(head) + " |", "|" + "---|" * len(head),
            *("| " + " | ".join(row) + " |" for row in rows), ""]


def names_of(result):
    """The columns: devices, and Soft-RoCE with the longer ACK timeout if it ran."""
    found = {name for devices in (*result.rows.values(),
                                  *result.failed.values()) for name in devices}
    return [name for device in result.devices
            for name in (device, device + PATIENT) if name in found]


def cell(result, row, name, key, base):
    """Median, spread, and how many times as fast as the first device."""
    found = result.spread(row, name, key)
    if not found:
        failed = result.failed.get(row, {}).get(name)
        return "failed" if failed else ""
    middle, least, greatest = map(number, found)
    text = f"{middle} ({least}..{greatest})"
    if name.removesuffix(PATIENT) == base:
        return text
    times = result.times(row, name, key, min if key in LATENCIES else max, base)
    return text + (f", {number(times)} x" if times else "")


def key_of(row):
    """The unit of a row of bandwidth."""
    size = re.fullmatch(r"[a-z]+-(\d+).*", row)
    return "k/s" if size and int(size[1]) < 4096 else "MB/s"


def numbers(result, names, title, wanted):
    """A table with the numbers whose keys WANTED returns for a row."""
    base = RXE if RXE in result.devices else result.devices[0]
    rows = []
    for row in dict.fromkeys([*result.rows, *result.failed]):
        for key in wanted(row):
            cells = [cell(result, row, name, key, base) for name in names]
            if any(cells):
                what = f", {key}" if key in LATENCIES else ""
                rows.append([row + what, UNITS[key], *cells])
    return [f"## {title}", "", *table(["row", "unit", *names], rows)
            ] if rows else []


def is_latency(row):
    return "-lat" in row or row.startswith("pingpong")


def faults(runs):
    """Retransmissions and errors of some runs, in words."""
    found = {}
    for run in runs:
        for name, count in run.get("faults", {}).items():
            kind = next((kind for word, kind in REPEATED if word in name), ELSE)
            found[kind] = found.get(kind, 0) + count
    return ", ".join(f"{count:,} {kind}" for kind, count in found.items())


def middle(result, row, name, key):
    value = result.median(row, name, key)
    return "" if value is None else number(value)


def costs(result, names):
    """Processor time and frames per message, per row and device."""
    rows = []
    for row in result.rows:
        for name in names:
            runs = result.runs(row, name)
            if values(runs, "cpu"):
                rows.append([
                    row, name,
                    *(middle(result, row, name, f"{kind} per message")
                      for kind in KINDS),
                    *(middle(result, row, name, f"{kind} wait")
                      for kind in KINDS),
                    *(middle(result, row, name, f"frames {way}")
                      for way in ("there", "back")), faults(runs)])
    return ["## Cost of a message", "",
            "Medians: us of the threads of both QEMUs per message (main loops, "
            "virtual CPUs, others), us that a thread waited for a processor when "
            "it woke, frames per message there and back (of WRITE and SEND, "
            "ACKs); and errors of all runs together.", "",
            *table(["row", "device", *KINDS, *(f"{kind} waits" for kind in KINDS),
                    "there", "back", "errors"], rows)] if rows else []


def failures(result):
    """Runs without numbers, and why."""
    rows = []
    for row, devices in result.failed.items():
        for name, runs in devices.items():
            whys = list(dict.fromkeys(run["why"].splitlines()[0][:120]
                                      for run in runs))
            rows.append([row, name, str(len(runs)),
                         "; ".join(whys).replace("|", "\\|")])
    return ["## Failed runs", "",
            *table(["row", "device", "runs", "why"], rows)] if rows else []


def limits(result):
    """Before the job and after it."""
    after = result.found.get("limits after", {})
    return ["## Limits of this machine", "",
            *table(["limit", "before", "after"], [
                [name, number(value), number(after.get(name))]
                for name, value in result.limits.items()])]


def text_of(result):
    """The whole document."""
    names = names_of(result)
    lines = ["<!-- SPDX-License-Identifier: GPL-2.0-or-later -->",
             "# A result of bench.py", "",
             "Median (least..greatest), and how many times as fast as the first "
             "device at its best: of latencies, too.", "",
             *table(["", ""], [[name, str(value).replace("|", "\\|")]
                               for name, value in
                               result.found["machine"].items()]),
             *limits(result),
             *numbers(result, names, "Bandwidth and rate",
                      lambda row: () if is_latency(row) else (key_of(row),)),
             *numbers(result, names, "Latency",
                      lambda row: LATENCIES if is_latency(row) else ()),
             *costs(result, names), *failures(result)]
    return "\n".join(lines).rstrip("\n") + "\n"


def main():
    print(text_of(Result.read(sys.argv[1])), end="")


if __name__ == "__main__":
    main()
