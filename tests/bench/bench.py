#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Measures fakernic and Soft-RoCE side by side: bench.py [--rows PATTERN] ...

Pairs of machines of all devices are up at once, in the same QEMU; each row runs
on one after the other, in alternating order, after a run that does not count.
Nothing here passes or fails on a time. README.md tells how to read the result.
"""

import argparse
import contextlib
import hashlib
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "vm"), str(HERE.parent / "lab")]

from fakernic_lab import places                     # noqa: E402
from pairs import DEVICES, USUAL, Pair              # noqa: E402
from rows import QUICK, REACH, all_rows, chosen_rows    # noqa: E402

# Soft-RoCE's default gives up waiting for an ACK after 67 ms: what is measured
# then is how it repeats itself. It gets a second try, with a second.
PATIENT = " -u 18"


# ---- the job -----------------------------------------------------------------

def measure_all(options, rows, result):
    """Fills result["rows"]: row -> device -> list of runs."""
    names = list(options.builds)
    for boot in range(options.boots):
        with contextlib.ExitStack() as stack:
            pairs = []
            for name in names:
                folder = options.out / "vm" / f"boot{boot}"
                pairs.append(Pair(name, options.builds[name], folder,
                                  options.pin))
                stack.callback(pairs[-1].stop)
            for row in rows:
                measure_row(options, row, pairs, boot, result["rows"])
                save(options, result)


def save(options, result):
    """What there is so far: a long job may be ended."""
    result["machine"]["load after"] = os.getloadavg()[0]
    (options.out / "result.json").write_text(
        json.dumps(result, indent=1) + "\n", encoding="utf-8")


def measure_row(options, row, pairs, boot, found):
    """All runs of a row. A pair that has failed twice without success between is
    not asked again, as Soft-RoCE with many QPs would take hours."""
    failed = dict.fromkeys(pairs, 0)
    runs = found.setdefault(row.name, {})
    for run in range(options.runs + 1):
        for pair in pairs if (run + boot) % 2 else pairs[::-1]:
            if not pair.takes(row) or failed[pair] == 2:
                continue
            numbers = pair.measure(row)
            failed[pair] = 0 if numbers else failed[pair] + 1
            if run and numbers:         # the first is to warm up
                runs.setdefault(pair.name, []).append({**numbers, "boot": boot})
    for pair in pairs:
        if pair.device == "rxe" and row.is_perftest and (
                failed[pair] or any(run["faults"]
                                    for run in runs.get(pair.name, []))):
            measure_patient(options, row, pair, boot, runs)
    print(line(row, runs, [*options.builds, *(name for name in runs
                                              if name not in options.builds)]),
          flush=True)


def measure_patient(options, row, pair, boot, runs):
    """Soft-RoCE once more, with a longer wait for ACKs."""
    for _ in range(options.runs):
        numbers = pair.measure(row, PATIENT)
        if not numbers:
            break
        runs.setdefault(pair.name + PATIENT, []).append({**numbers,
                                                         "boot": boot})


def limits():
    """What this machine can do without any of us, now."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "limits")
        link = HERE.parents[1] / "qemu-hw/link"
        subprocess.run(["cc", "-O2", "-std=gnu11", "-pthread", "-o", program,
                        HERE / "limits.c", link / "ring.c", link / "pair.c",
                        f"-I{link}", "-ldeflate"], check=True)
        text = subprocess.run([program], check=True, capture_output=True,
                              text=True, timeout=120).stdout
    return {name: float(value) for name, value in
            re.findall(r"^(.+?): ([\d.]+)", text, re.M)}


def machine(qemu):
    version = subprocess.run([str(qemu), "--version"], check=True,
                             capture_output=True, text=True).stdout
    cpu = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    return {"processor": cpu[1] if cpu else platform.machine(),
            "processors": os.cpu_count(), "kernel": platform.release(),
            "load before": os.getloadavg()[0], "qemu": version.split("\n")[0],
            "binary": hashlib.sha256(qemu.read_bytes()).hexdigest()[:16],
            "accelerator": places.accelerator()}


# ---- what is printed -----------------------------------------------------------

def values(runs, key):
    return [run[key] for run in runs if key in run]


def spread(runs, key):
    found = values(runs, key)
    if not found:
        return "-"
    return (f"{statistics.median(found):.4g} ({min(found):.3g}.."
            f"{max(found):.3g})")


def line(row, devices, names):
    """One row for people: each device's median and spread, and its ratio to the
    first's."""
    texts = []
    for key in row.keys:
        text = f"{row.name:18} {key:7}"
        base = values(devices.get(names[0], []), key)
        for name in names:
            runs = devices.get(name, [])
            text += f" | {name} {spread(runs, key):26}"
            found = values(runs, key)
            if name != names[0] and base and found:
                ratio = statistics.median(found) / statistics.median(base)
                text += f" x{1 / ratio if row.is_latency else ratio:.3g}"
        texts.append(text)
    faults = {name: {} for name in names}
    for name in names:
        for run in devices.get(name, []):
            for fault, count in run["faults"].items():
                faults[name][fault] = faults[name].get(fault, 0) + count
    told = {name: counts for name, counts in faults.items() if counts}
    return "\n".join(texts) + (f"\n{'':18} {told}" if told else "")


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", nargs="+", default=["*"], metavar="PATTERN",
                        help="only these rows, such as 'write-*'")
    parser.add_argument("--quick", action="store_true", help="a few rows, one "
                        "run each: three minutes on two idle processors")
    parser.add_argument("--reach", action="store_true", help="the rows of what "
                        "is to be reached (reach.py)")
    parser.add_argument("--list", action="store_true", help="name the rows")
    parser.add_argument("--devices", nargs="+", default=list(USUAL),
                        choices=DEVICES)
    parser.add_argument("--runs", type=int, default=None, help="that count, of "
                        "each row in each boot (3)")
    parser.add_argument("--boots", type=int, default=None, help="of each pair: "
                        "it has its luck for its life (2)")
    parser.add_argument("--qemu", type=Path, default=None)
    parser.add_argument("--old", type=Path, help="compare with this QEMU: each "
                        "device runs in both, rxe in neither")
    parser.add_argument("--null", action="store_true", help="with --old: the "
                        "old one twice, which tells what luck is worth")
    parser.add_argument("--pin", action="store_true", help="each machine of a "
                        "pair to a processor of its own")
    parser.add_argument("--out", type=Path, default=Path("/cache/log/bench"))
    return parser.parse_args()


def settle(options):
    """What follows from the options: which device runs in which QEMU."""
    if options.null and not options.old:
        raise SystemExit("bench.py: --null needs --old: a build to run twice")
    if options.quick and options.rows == ["*"]:
        options.rows = list(QUICK)
    if options.reach and options.rows == ["*"]:
        options.rows = list(REACH)
    options.runs = options.runs or (1 if options.quick else 3)
    options.boots = options.boots or (1 if options.quick else 2)
    qemu = options.qemu or Path(places.qemu_command()[0])
    options.qemu = qemu
    if options.old:
        devices = [name for name in options.devices if name != "rxe"]
        binaries = {"old": options.old, "new": qemu}
        if options.null:
            binaries["again"] = options.old
        options.builds = {f"{name}@{which}": binary for name in devices
                          for which, binary in binaries.items()}
    else:
        options.builds = {name: qemu for name in options.devices}


def main():
    options = parse()
    if options.list:
        print("\n".join(row.name for row in all_rows()))
        return
    settle(options)
    rows = chosen_rows(options.rows)
    options.out.mkdir(parents=True, exist_ok=True)
    result = {"machine": machine(options.qemu), "limits": limits(),
              "devices": list(options.builds), "rows": {}}
    for part in ("machine", "limits"):
        for name, value in result[part].items():
            print(f"{name}: {value}")
    measure_all(options, rows, result)
    path = options.out / "result.json"
    print(f"{path}; plots by tests/bench/plot.py {path}")


if __name__ == "__main__":
    main()
