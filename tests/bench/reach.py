#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Compares a result with the targets: reach.py RESULT.json [bench-engine.json]

Prints a table of a result of bench.py --reach, and one of bench-engine's result. A
number is the median of all runs, with the least and the greatest run. A ratio
divides each run by the median of the other device. A number in bold misses its
target. The exit status does not depend on the numbers.
"""

import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "vm"), str(HERE.parent / "lab")]

from results import RXE, WIRES, Result, values, wanted_times  # noqa: E402
from rows import MANY_QPS, MANY_QPS_PARTNER, QPS            # noqa: E402

DATAGRAMS = "unix datagrams of 4200 bytes, GB/s"
ONE_WAY = ("write", "read", "send")
UNKNOWN = "not measured"


# ---- numbers: (median, least, greatest), or None --------------------------------

def over(found, by):
    """The numbers of FOUND divided by BY, each of which may be unknown (None)."""
    return found and by and tuple(value / by for value in found)


def times(result, row, wire, key, fast=max):
    """The speed relative to Soft-RoCE's better median."""
    mine = result.spread(row, wire, key)
    base = result.median(row, result.best(row, RXE, key, fast), key)
    if not mine or not base or not all(mine):
        return None
    if fast is max:
        return over(mine, base)
    middle, least, greatest = mine
    return base / middle, base / greatest, base / least


def share(result, row, of, wire, key):
    """The numbers of a row relative to the median of the row OF."""
    return over(result.spread(row, wire, key), result.median(of, wire, key))


def inner(result, row, wire, key, by):
    """The ratio of two medians of a row. The spread is that of the ratios of each run."""
    found = [run[key] / run[by] for run in result.runs(row, wire)
             if key in run and run.get(by)]
    if not found:
        return None
    return (result.median(row, wire, key) / result.median(row, wire, by),
            min(found), max(found))


def cell(found, wanted, form, before="", after="", more=True):
    """A cell of the table, in bold if the median misses WANTED, which may be None. MORE:
    more is better."""
    if not found:
        return UNKNOWN
    middle, least, greatest = (f"{before}{value:{form}}" for value in found)
    text = middle + after
    short = wanted is not None and (
        found[0] < wanted if more else found[0] > wanted)
    return f"{f'**{text}**' if short else text} ({least}..{greatest})"


def single(value, wanted, form, more=True):
    """The same for a number that was measured once."""
    text = format(value, form)
    return text if (value >= wanted if more else value <= wanted) else (
        f"**{text}**")


# ---- rows: what, wanted, stream, link ---------------------------------------------

def bandwidth(result):
    """Rows for 64 KiB and 1 MiB on one QP."""
    limit = result.limits.get(DATAGRAMS, 0) * 1e3
    for size in (65536, 1 << 20):
        for verb in ONE_WAY:
            row = f"{verb}-{size}"
            yield (row, "25 x | 100 x, above datagrams",
                   *(cell(times(result, row, wire, "MB/s"), wanted, ".3g",
                          after=" x")
                     for wire, wanted in zip(WIRES, wanted_times(row))))
            yield (f"{row} in MB/s, datagrams "
                   f"{f'{limit:.0f}' if limit else UNKNOWN}", " | limit",
                   *(cell(result.spread(row, wire, "MB/s"), least or None, ".0f")
                     for wire, least in zip(WIRES, (None, limit))))


def many(result):
    """Rows for the same sizes on 8 and 64 QPs relative to one QP, and for 1,000 QPs."""
    for size in (65536, 1 << 20):
        for verb in ONE_WAY:
            for qps in QPS[1:]:
                row = f"{verb}-{size}-q{qps}"
                yield (row, "90 % of 1 QP | 75 %, aim 90 %", *(
                    cell(share(result, row, f"{verb}-{size}", wire, "MB/s"),
                         wanted, ".0%") for wire, wanted in zip(WIRES,
                                                                (0.9, 0.75))))
    yield (f"{MANY_QPS} against {MANY_QPS_PARTNER}", "80 % | 80 %", *(
        cell(share(result, MANY_QPS, MANY_QPS_PARTNER, wire, "k/s"), 0.8, ".0%")
        for wire in WIRES))


def rates(result):
    """Rows for 64 bytes."""
    null = result.median("write-64", "null", "k/s")
    for verb in ONE_WAY:
        row = f"{verb}-64"
        yield (row, "12 x | 40 x",
               *(cell(times(result, row, wire, "k/s"), wanted, ".3g", after=" x")
                 for wire, wanted in zip(WIRES, wanted_times(row))))
        yield (f"{row} of the null device's WRITEs, "
               f"{f'{null:.0f} k/s' if null else UNKNOWN}", " | 50 %, aim 80 %",
               "", cell(over(result.spread(row, "link", "k/s"), null), 0.5,
                        ".0%"))


def latencies(result):
    """Rows for the latency of 8 bytes."""
    for verb in ("send", "read", "atomic", "write"):
        row = f"{verb}-lat"
        wanted = wanted_times(row)
        for key, most in (("median", 10), ("p99", 100), ("p99.9", None)):
            if most:
                yield (f"{row}, {key}", f"1/{wanted[0]} | 1/{wanted[1]}", *(
                    cell(times(result, row, wire, key, min), least, ".3g", "1/")
                    for wire, least in zip(WIRES, wanted)))
            most = None if verb == "write" else most
            yield (f"{row}, {key} in us", f" | {most}" if most else "",
                   *(cell(result.spread(row, wire, key), limit, ".4g",
                          more=False) for wire, limit in zip(WIRES,
                                                             (None, most))))
        yield (f"{row}, mean / median", "1.5 | 1.5", *(
            cell(inner(result, row, wire, "mean", "median"), 1.5, ".2f",
                 more=False) for wire in WIRES))


def faults(result, wire):
    """Retransmissions and errors in all runs without an RNR NAK. perftest itself causes
    RNR NAKs."""
    runs = [run.get("faults", {}) for row in result.rows.values()
            for run in row.get(wire, [])]
    runs = [run for run in runs if not any("rnr" in name for name in run)]
    if not runs:
        return UNKNOWN
    return f"{single(sum(sum(run.values()) for run in runs), 0, ',', False)} " \
        f"in {len(runs)} runs"


def others(result):
    """Rows for polling, faults, ACKs and TCP."""
    poll, events = "pingpong-poll", "pingpong-events"
    yield ("ibv_rc_pingpong polling / -e", "1 | 1", *(
        cell(share(result, poll, events, wire, "mean"), 1, ".2f", more=False)
        for wire in WIRES))
    yield ("faults, runs without an RNR NAK", "0 | 0",
           *(faults(result, wire) for wire in WIRES))
    yield ("ACK frames per 64 B WRITE", "0.25 | 0.1", *(
        cell(result.spread("write-64", wire, "frames back"), most, ".3f",
             more=False) for wire, most in zip(WIRES, (0.25, 0.1))))
    yield ("TCP against virtio-net", "1 x | 2 x", *(
        cell(times(result, "tcp", wire, "MB/s"), least, ".2f", after=" x")
        for wire, least in zip(WIRES, (1, 2))))


def engine(found):
    """Rows from a result of bench-engine: name, target, result."""
    memory = found["memory"]

    def best(**wanted):
        return [at for at in found["cells"]
                if all(at[key] == value for key, value in wanted.items())]

    large = max(at["gb_per_s"] for at in best(bytes=65536))
    small = max(at["messages_per_s"] for at in best(bytes=64))
    many_qps, few = (best(op="write", bytes=64, qps=qps)[0]["messages_per_s"]
                     for qps in (1000, 8))
    yield ("64 KiB, GB/s", "2.5, aim 4.5", single(large, 2.5, ".2f"))
    yield ("64 bytes, million/s", "2, aim 4", single(small / 1e6, 2, ".2f"))
    yield ("1,000 active QPs against 8", "80 %",
           single(many_qps / few, 0.8, ".0%"))
    for key, what, most in (("connected_qp", "a connected QP", 4 << 10),
                            ("registered_gib", "a registered GiB", 5 << 19),
                            ("engine", "idle", 16 << 20)):
        yield (f"memory, KiB: {what}", f"{most >> 10:,}",
               single(memory[key] / 1024, most / 1024, ",.1f", False))
    yield ("registering a GiB, ms", "50",
           single(memory["register_gib_ms"], 50, ".2f", False))


# ---- the table ------------------------------------------------------------------

def about(result):
    """One line about the build and the job."""
    machine = result.found["machine"]
    runs = [run for row in result.rows.values() for name in WIRES
            for run in row.get(name, [])]
    each = {len(values(row.get(name, []), "boot"))
            for row in result.rows.values() for name in WIRES if name in row}
    boots = len({run["boot"] for run in runs})
    return (f"Revision {machine.get('revision', 'not recorded')}, "
            f"{machine.get('qemu', 'QEMU not recorded')}, binary "
            f"{machine.get('binary', 'not recorded')}; "
            f"{'..'.join(map(str, sorted({min(each), max(each)})))} runs of a "
            f"row in {boots} boot{'s'[:boots != 1]}." if runs else UNKNOWN)


def table(head, rows):
    """A table as lines of Markdown."""
    return ["| " + " | ".join(head) + " |", "|" + "---|" * len(head),
            *("| " + " | ".join(text.replace("|", "\\|") for text in row) + " |"
              for row in rows)]


def main():
    result = Result.read(sys.argv[1])
    lines = [about(result), "",
             *table(("what", "wanted: stream \\| link", "stream", "link"),
                    [*bandwidth(result), *many(result), *rates(result),
                     *latencies(result), *others(result)])]
    alone = result.found.get("engine")
    if len(sys.argv) > 2:
        alone = json.loads(Path(sys.argv[2]).read_text(encoding="utf-8"))
    if alone:
        lines += ["", *table(("the engine alone", "wanted", "engine"),
                             engine(alone))]
    print("\n".join(lines))


if __name__ == "__main__":
    main()
