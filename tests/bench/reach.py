#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""What is to be reached, and what was: reach.py RESULT.json [bench-engine.json]

Makes a table of a result of bench.py --reach, and of bench-engine's; a number in
bold falls short. It passes or fails nothing.
"""

import json
import sys
from pathlib import Path

from results import Result

WIRES = ("stream", "link")
DATAGRAMS = "unix datagrams of 4200 bytes, GB/s"
ONE_WAY = ("write", "read", "send")


def cell(value, wanted, text, more_is_better=True):
    """A number for the table, in bold if it falls short."""
    if value is None:
        return "not measured"
    good = value >= wanted if more_is_better else value <= wanted
    return text.format(value) if good else f"**{text.format(value)}**"


def bandwidth(result):
    """64 KiB and 1 MiB on one QP."""
    for size in (65536, 1 << 20):
        for verb in ONE_WAY:
            row = f"{verb}-{size}"
            limit = result.limits[DATAGRAMS] * 1e3
            yield (row, "25 x | 100 x, above datagrams",
                   *(cell(result.times(row, wire, "MB/s"), wanted, "{:.3g} x")
                     for wire, wanted in zip(WIRES, (25, 100))))
            yield (f"{row} in MB/s, datagrams {limit:.0f}", " | limit",
                   cell(result.median(row, "stream", "MB/s"), 0, "{:.0f}"),
                   cell(result.median(row, "link", "MB/s"), limit, "{:.0f}"))


def many(result):
    """The same on 8 and 64 QPs, against one."""
    for size in (65536, 1 << 20):
        for verb in ONE_WAY:
            for qps in (8, 64):
                row = f"{verb}-{size}-q{qps}"
                if row in result.rows:
                    yield (row, "90 % of 1 QP | 75 %", *(
                        cell(result.share(row, f"{verb}-{size}", wire, "MB/s"),
                             wanted, "{:.0%}")
                        for wire, wanted in zip(WIRES, (0.9, 0.75))))


def rates(result):
    """64 bytes."""
    null = result.median("write-64", "null", "k/s")
    for verb in ONE_WAY:
        row = f"{verb}-64"
        yield (row, "12 x | 40 x",
               *(cell(result.times(row, wire, "k/s"), wanted, "{:.3g} x")
                 for wire, wanted in zip(WIRES, (12, 40))))
        mine = result.median(row, "link", "k/s")
        yield (f"{row} of the null device's {null or 0:.0f} k/s", " | 50 %", "",
               cell(mine / null if mine and null else None, 0.5, "{:.0%}"))


def latencies(result):
    """8 bytes."""
    for verb in ("send", "read", "atomic", "write"):
        row = f"{verb}-lat"
        wanted = (10, 20) if verb == "write" else (10, 50)
        for key, most in (("median", 10), ("p99", 100)):
            yield (f"{row}, {key}", f"1/{wanted[0]} | 1/{wanted[1]}", *(
                cell(result.times(row, wire, key, min), least, "1/{:.3g}")
                for wire, least in zip(WIRES, wanted)))
            if verb != "write":
                yield (f"{row}, {key} in us", f" | {most}",
                       cell(result.median(row, "stream", key), 1e9, "{:.4g}",
                            False),
                       cell(result.median(row, "link", key), most, "{:.4g}",
                            False))
        yield (f"{row}, mean / median", "1.5 | 1.5", *(
            cell(ratio(result.median(row, wire, "mean"),
                       result.median(row, wire, "median")), 1.5, "{:.2f}",
                 False) for wire in WIRES))


def ratio(a, b):
    """Of two numbers of which either may be unknown."""
    return None if a is None or not b else a / b


def others(result):
    """Polling, faults, ACKs, TCP."""
    poll, events = "pingpong-poll", "pingpong-events"
    yield ("ibv_rc_pingpong polling / -e", "1 | 1", *(
        cell(ratio(result.median(poll, wire, "mean"),
                   result.median(events, wire, "mean")), 1, "{:.2f}", False)
        for wire in WIRES))
    yield ("faults, runs without an RNR NAK", "0 | 0", *(
        cell(sum(sum(run["faults"].values()) for row in result.rows.values()
                 for run in row.get(wire, []) if not any(
                     "rnr" in name for name in run["faults"])), 0, "{}", False)
        for wire in WIRES))
    yield ("ACK frames per 64 B WRITE", "0.25 | 0.1", *(
        cell(result.median("write-64", wire, "frames back"), most, "{:.3f}",
             False) for wire, most in zip(WIRES, (0.25, 0.1))))
    yield ("TCP against virtio-net", "1 x | 2 x", *(
        cell(result.times("tcp", wire, "MB/s"), least, "{:.2f} x")
        for wire, least in zip(WIRES, (1, 2))))


def engine(path):
    """What bench-engine has found."""
    found = json.loads(Path(path).read_text(encoding="utf-8"))
    memory = found["memory"]

    def best(**wanted):
        return [at for at in found["cells"]
                if all(at[key] == value for key, value in wanted.items())]

    large = max(at["gb_per_s"] for at in best(bytes=65536))
    small = max(at["messages_per_s"] for at in best(bytes=64))
    many_qps, few = (best(op="write", bytes=64, qps=qps)[0]["messages_per_s"]
                     for qps in (1000, 8))
    yield ("engine alone, 64 KiB", "2.5, aim 4.5 GB/s",
           cell(large, 2.5, "{:.2f} GB/s"), "")
    yield ("engine alone, 64 bytes", "2, aim 4 M/s",
           cell(small / 1e6, 2, "{:.2f} M/s"), "")
    yield ("1,000 active QPs against 8", "80 %",
           cell(many_qps / few, 0.8, "{:.0%}"), "")
    for key, what, most in (("connected_qp", "a connected QP", 4 << 10),
                            ("registered_gib", "a registered GiB", 5 << 19),
                            ("engine", "an idle engine", 16 << 20)):
        yield (f"memory of {what}", f"{most >> 10} KiB",
               cell(memory[key] / 1024, most / 1024, "{:.1f} KiB", False), "")


def main():
    result = Result.read(sys.argv[1])
    rows = [*bandwidth(result), *many(result), *rates(result),
            *latencies(result), *others(result)]
    if len(sys.argv) > 2:
        rows += engine(sys.argv[2])
    print("| what | wanted: stream \\| link | stream | link |\n|---|---|---|---|")
    for what, wanted, stream, link in rows:
        print(f"| {what} | {wanted.replace('|', chr(92) + '|')} | {stream} | "
              f"{link} |")


if __name__ == "__main__":
    main()
