#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Measures fakernic and Soft-RoCE side by side: bench.py [--short] ...

Pairs of machines of all devices are up at once, in the same QEMU. A pass is
one run of each row on each pair, in alternating order. A boot has several passes,
as many as time allows. Nothing here passes or fails on a time. README.md explains
the result.
"""

import argparse
import contextlib
import hashlib
import json
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOP = HERE.parents[1]
sys.path[:0] = [str(HERE.parent / "vm"), str(HERE.parent / "lab")]

import plot                                         # noqa: E402
import table                                        # noqa: E402
from fakernic_lab import places                     # noqa: E402
from pairs import DEVICES, MTU, USUAL, Pair              # noqa: E402
from results import PATIENT, RXE, Result, number    # noqa: E402
from rows import (QUICK, REACH, SHORT, SHORT_NOT, all_rows,     # noqa: E402
                  chosen_rows)

# The devices that --old compares.
COMPARED = ("stream", "link")
# Sizes of the rows that warm up, one per tool.
WARM_SIZES = (8, 65536, 1 << 20)
# A row is skipped on a pair after this many failures in a row.
ENOUGH = 2
# Name -> rows, excluded rows, passes per boot, boots, maximum minutes.
SELECTIONS = {
    "full": (("*",), (), 3, 2, 240),
    "short": (SHORT, SHORT_NOT, 5, 1, 60),
    "reach": (REACH, (), 5, 1, 100),
    "quick": (QUICK, (), 1, 1, 10),
}


# ---- the job -----------------------------------------------------------------

class Job:
    """Fills result["rows"], row -> device -> list of runs, and result["failed"]
    likewise. A cell is (row's name, device's name)."""

    def __init__(self, options, rows, result):
        self.options, self.rows, self.result = options, rows, result
        self.found, self.failed = result["rows"], result["failed"]
        self.failures = {}      # cell -> failures since the last success
        self.began = time.monotonic()
        machine_then = result["machine"]
        self.load = list(machine_then.get("load", []))
        self.minutes_before = machine_then.get("minutes", 0)

    def minutes(self):
        return (time.monotonic() - self.began) / 60

    # ---- what was measured so far ----

    def runs(self, cell, failed=False):
        row, name = cell
        return (self.failed if failed else self.found).get(row, {}).get(name, [])

    def visits(self, cell, boot):
        """How often a boot has run a cell, with and without success."""
        return sum(run["boot"] == boot for failed in (False, True)
                   for run in self.runs(cell, failed))

    def visits_of_row(self, row):
        """The number of runs of a row by the pair with the most runs."""
        return max(len(self.runs((row.name, name), False)) +
                   len(self.runs((row.name, name), True))
                   for name in self.options.builds)

    def skipped(self, cell):
        """Whether a cell failed too often. Soft-RoCE with many QPs would take hours."""
        failed = 0 if self.runs(cell) else len(self.runs(cell, True))
        return self.failures.get(cell, failed) >= ENOUGH

    def wanted(self, row, name, boot, done):
        """Whether a boot lacks a run of a row after DONE passes."""
        cell = row.name, name
        return self.visits(cell, boot) <= done and not self.skipped(cell)

    def boots_left(self, takes):
        """Boots in which something is left to do."""
        return [boot for boot in range(self.options.boots)
                if any(self.wanted(row, name, boot, self.options.runs - 1)
                       for row in self.rows for name in self.options.builds
                       if takes(name, row))]

    # ---- measuring ----

    def run(self, make_pair, takes):
        """Runs all boots within the time limit; MAKE_PAIR boots a pair."""
        left = self.boots_left(takes)
        for number_of_boot, boot in enumerate(left, 1):
            with contextlib.ExitStack() as stack:
                pairs = []
                for name in self.options.builds:
                    pairs.append(make_pair(name, boot))
                    stack.callback(pairs[-1].stop)
                self.warm_up(pairs)
                self.run_boot(pairs, boot, self.options.minutes *
                              number_of_boot / len(left))

    def warm_up(self, pairs):
        """Runs each tool once on each pair, so that programs are read, code is
        translated and addresses are resolved."""
        tools = {row.tool for row in self.rows}
        for row in all_rows():
            if row.tool in tools and row.size in WARM_SIZES:
                tools.remove(row.tool)
                for pair in pairs:
                    if pair.takes(row):
                        pair.measure(row)

    def run_boot(self, pairs, boot, until):
        """Runs the passes of a boot, rows with the fewest runs first."""
        for done in range(self.options.runs):
            for row in sorted(self.rows, key=self.visits_of_row):
                if self.minutes() > until:
                    print(f"# {self.minutes():.0f} minutes have passed: boot "
                          f"{boot} ends in pass {done}", flush=True)
                    return
                self.visit(row, pairs, boot, done)

    def visit(self, row, pairs, boot, done):
        """Runs a row once on each pair that lacks a run."""
        turns = pairs if (done + boot) % 2 else pairs[::-1]
        ran = [self.measure(row, pair, boot, more)
               for pair in turns if pair.takes(row)
               for more in self.ways(row, pair, boot, done)]
        if ran:
            print(self.summary(row, ran), flush=True)
            self.save()

    def repeats(self, row, name):
        """Whether Soft-RoCE's default has failed or retransmitted."""
        cell = row, name
        return bool(self.runs(cell, True) or any(
            run["faults"] for run in self.runs(cell)))

    def ways(self, row, pair, boot, done):
        """The options with which a pair runs. Soft-RoCE that retransmits also runs
        with a longer ACK timeout. If it retransmitted with fewer QPs, it runs only
        so with many, because its guest may hang."""
        patient = pair.device == RXE and row.is_perftest
        hopeless = patient and any(self.repeats(fewer, pair.name)
                                   for fewer in row.fewer())
        if not hopeless and self.wanted(row, pair.name, boot, done):
            yield ""
        if patient and (hopeless or self.repeats(row.name, pair.name)) and \
                self.wanted(row, pair.name + PATIENT, boot, done):
            yield PATIENT

    def measure(self, row, pair, boot, more):
        """Runs a row and stores the result; (name, numbers)."""
        name = pair.name + more
        numbers, why = pair.measure(row, more)
        into = self.found if numbers else self.failed
        into.setdefault(row.name, {}).setdefault(name, []).append(
            {**(numbers or {"why": why}), "boot": boot})
        cell = row.name, name
        self.failures[cell] = 0 if numbers else self.failures.get(cell, 0) + 1
        if why:
            print(f"# {row.name} {name}: {why}", flush=True)
        return name, numbers

    def summary(self, row, ran):
        """One line with the numbers of a visit."""
        key = row.keys[0]
        return (f"{self.minutes():6.1f} min  {row.name:20} {key:7}" +
                "".join(f"  {name} {number(numbers.get(key))}"
                        for name, numbers in sorted(
                            ran, key=lambda run: self.place(run[0]))))

    def place(self, name):
        return list(self.options.builds).index(name.removesuffix(PATIENT))

    def save(self):
        """Replaces the result file: a long job may be interrupted at any time."""
        machine = self.result["machine"]
        machine["load"] = [*self.load, os.getloadavg()[0]]
        machine["minutes"] = round(self.minutes_before + self.minutes(), 1)
        path = self.options.out / "result.json"
        new = path.with_suffix(".new")
        new.write_text(json.dumps(self.result, indent=1) + "\n",
                       encoding="utf-8")
        new.replace(path)


# ---- the machine ---------------------------------------------------------------

def limits():
    """What this machine can do without fakernic, now."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "limits")
        link = TOP / "qemu-hw/link"
        subprocess.run(["cc", "-O2", "-std=gnu11", "-pthread", "-o", program,
                        HERE / "limits.c", link / "ring.c", link / "pair.c",
                        f"-I{link}", "-ldeflate"], check=True)
        text = subprocess.run([program], check=True, capture_output=True,
                              text=True, timeout=120).stdout
    return {name: float(value) for name, value in
            re.findall(r"^(.+?): ([\d.]+)", text, re.M)}


def revision():
    """Of this checkout; "unknown" without git."""
    try:
        return subprocess.run(
            ["git", "-c", f"safe.directory={TOP}", "-C", str(TOP), "describe",
             "--always", "--dirty"], check=True, capture_output=True,
            text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def checksum(qemu):
    return hashlib.sha256(qemu.read_bytes()).hexdigest()[:16]


def machine(qemu):
    version = subprocess.run([str(qemu), "--version"], check=True,
                             capture_output=True, text=True).stdout
    cpu = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {"processor": cpu[1] if cpu else platform.machine(),
            "processors": os.cpu_count(), "memory, GiB": round(memory / 2**30),
            "kernel": platform.release(), "revision": revision(),
            "qemu": version.split("\n")[0], "binary": checksum(qemu),
            "accelerator": places.accelerator(),
            "load": [os.getloadavg()[0]]}


def make_taps():
    """Makes two taps and a bridge in a network namespace of this job."""
    os.unshare(os.CLONE_NEWNET)
    words = ["link set lo up", f"link add br0 mtu {MTU} type bridge"]
    for tap in ("tap1", "tap2"):
        words += [f"tuntap add dev {tap} mode tap",
                  f"link set {tap} mtu {MTU} master br0 up"]
    for line in [*words, "link set br0 up"]:
        subprocess.run(["ip", *line.split()], check=True)


# ---- options -------------------------------------------------------------------

def parse(words=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--short", dest="selection", action="store_const",
                        const="short", help="one QP of each size, and what many "
                        "QPs and a smaller path MTU change: most of an hour")
    choice.add_argument("--reach", dest="selection", action="store_const",
                        const="reach", help="the rows of the results page and "
                        "of reach.py: an hour and a half")
    choice.add_argument("--quick", dest="selection", action="store_const",
                        const="quick", help="a few rows, one run each: three "
                        "minutes on two idle processors")
    parser.add_argument("--rows", nargs="+", metavar="PATTERN",
                        help="only these rows, such as 'write-*'")
    parser.add_argument("--minutes", type=float, help="start no run after that "
                        "time (240)")
    parser.add_argument("--list", action="store_true", help="name the rows")
    parser.add_argument("--devices", nargs="+", choices=DEVICES,
                        metavar="DEVICE", help=f"of {', '.join(DEVICES)}: "
                        f"{', '.join(USUAL)}; with --old {', '.join(COMPARED)}")
    parser.add_argument("--runs", type=int, help="runs of each row in each "
                        "boot (3)")
    parser.add_argument("--boots", type=int, help="boots of each pair: runs of "
                        "one boot resemble each other (2)")
    parser.add_argument("--qemu", type=Path)
    parser.add_argument("--old", type=Path, help="compare with this QEMU: each "
                        "device runs in both, rxe in neither; rows as with "
                        "--short")
    parser.add_argument("--null", action="store_true", help="with --old: run "
                        "the old one twice, which shows the noise")
    parser.add_argument("--pin", action="store_true", help="keep each machine "
                        "of a pair on a processor of its own")
    parser.add_argument("--resume", action="store_true", help="continue an "
                        "interrupted job with the same options")
    parser.add_argument("--out", type=Path, default=Path("/cache/log/bench"))
    return parser.parse_args(words)


def settle(options):
    """Completes the options: runs, boots, and which device runs in which QEMU.
    Returns the rows."""
    if options.null and not options.old:
        raise SystemExit("bench.py: --null needs --old: a build to run twice")
    selection = options.selection or ("short" if options.old else "full")
    patterns, but, runs, boots, minutes = SELECTIONS[selection]
    options.runs = options.runs or runs
    options.boots = options.boots or boots
    options.minutes = options.minutes or minutes
    devices = options.devices or (COMPARED if options.old else USUAL)
    qemu = options.qemu or Path(places.qemu_command()[0])
    options.qemu = qemu
    if options.old:
        binaries = {"old": options.old, "new": qemu}
        if options.null:
            binaries["again"] = options.old
        options.builds = {f"{name}@{which}": binary for name in devices
                          if name != RXE for which, binary in binaries.items()}
    else:
        options.builds = {name: qemu for name in devices}
    if options.rows:
        return chosen_rows(options.rows)
    return chosen_rows(patterns, but)


def begin(options, rows):
    """The result that the job fills: a new one, or that of an earlier job."""
    about = {"devices": list(options.builds), "rows": [row.name for row in rows],
             "binary": checksum(options.qemu),
             "old": checksum(options.old) if options.old else None}
    path = options.out / "result.json"
    if options.resume and path.exists():
        result = json.loads(path.read_text(encoding="utf-8"))
        if result.get("asked") != about:
            raise SystemExit(f"bench.py: {path} has other rows, devices or "
                             "QEMU: start a new job without --resume")
        # The machine may have changed: measure its limits again.
        result.setdefault("limits resumed", []).append(limits())
        result["machine"]["load"].append(os.getloadavg()[0])
        return result
    return {"machine": machine(options.qemu), "limits": limits(), "asked": about,
            "devices": list(options.builds), "rows": {}, "failed": {},
            "crashes": []}


def report(options, result):
    """The table and the figures."""
    path = options.out / "result.json"
    text = table.text_of(Result(result))
    path.with_suffix(".md").write_text(text, encoding="utf-8")
    print(text)
    print("\n".join(map(str, [path, path.with_suffix(".md"),
                              *plot.draw(path)])))


def end(_signal, _frame):
    """Ends the job as Ctrl-C does: with its report."""
    raise KeyboardInterrupt


def main():
    options = parse()
    rows = all_rows() if options.list and not (
        options.rows or options.selection) else settle(options)
    if options.list:
        print("\n".join(row.name for row in rows))
        return 0
    signal.signal(signal.SIGTERM, end)
    options.out.mkdir(parents=True, exist_ok=True)
    result = begin(options, rows)
    for part in ("machine", "limits"):
        for name, value in result[part].items():
            print(f"{name}: {value}", flush=True)
    if any(DEVICES[name.partition("@")[0]][2] == "tap"
           for name in options.builds):
        make_taps()
    job = Job(options, rows, result)

    def pair(name, boot):
        made = Pair(name, options.builds[name],
                    options.out / "vm" / f"boot{boot}", options.pin)
        made.crashes = result["crashes"]
        result["machine"].setdefault("guests", made.versions())
        return made
    try:
        job.run(pair, Pair.would_take)
        result["limits after"] = limits()
    except KeyboardInterrupt:
        print("# interrupted: --resume continues", flush=True)
    finally:
        job.save()
        report(options, result)
    for crash in result["crashes"]:
        print(f"a guest of fakernic crashed: {crash}", file=sys.stderr)
    return 1 if result["crashes"] else 0


if __name__ == "__main__":
    sys.exit(main())
