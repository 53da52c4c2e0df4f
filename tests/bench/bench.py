#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Measures fakernic and Soft-RoCE side by side: bench.py [--rows PATTERN] ...

Pairs of machines of all devices are up at once, in the same QEMU; each row runs
on one after the other, in alternating order, after a run that does not count.
Nothing here passes or fails on a time. README.md tells how to read the result.
"""

import argparse
import contextlib
import fnmatch
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "vm"), str(HERE.parent / "lab")]

from fakernic_test import rdma                      # noqa: E402
from fakernic_test.lab import Lab                   # noqa: E402
from fakernic_lab import places                     # noqa: E402
from fakernic_lab.errors import GuestTimeout        # noqa: E402

# Name -> the device's model, driver, and what joins two of them. Of a mixed
# pair there are two of each: of the server's machine, then the client's.
DEVICES = {
    "rxe": ("virtio-net-pci", "rxe", "netdev"),
    "stream": ("fakernic", "fakernic", "netdev"),
    "link": ("fakernic", "fakernic", "link"),
    "inet": ("fakernic", "fakernic", "inet"),
    "mcast": ("fakernic", "fakernic", "mcast"),
    "to-rxe": (("virtio-net-pci", "fakernic"), ("rxe", "fakernic"), "netdev"),
    "by-rxe": (("fakernic", "virtio-net-pci"), ("fakernic", "rxe"), "netdev"),
}
USUAL = ("rxe", "stream", "link")
VERBS = ("write", "read", "send", "atomic")
SIZES = (64, 4096, 65536, 1 << 20)
QPS = (1, 8, 64)
PATH_MTUS = (1024, 4096)
TCP_PORT = 5301
# perftest asks for as many outstanding READs as its own card answers, which may
# be more than the other kind's.
ANSWERED = ("ib_read", "ib_atomic")
READS_OF_BOTH = " -o 16"
LATENCY_ROUNDS = 1000
SECONDS = 2
MIB = 1 << 20
# perftest's columns: of bandwidth tools, of latency tools.
BW_AVERAGE, BW_RATE = 3, 4
LATENCY = {"median": 4, "mean": 5, "p99": 7, "p99.9": 8}
FAULTS = ("retrans", "timeout", "dup", "drop")
# make bench-quick: what tells most in three minutes.
QUICK = ("write-64", "send-64", "write-65536", "read-65536", "send-65536",
         "write-lat", "send-lat", "read-lat")


class Row:
    """One measurement: a tool of perftest with options, or iperf3."""

    def __init__(self, name, tool, options, size):
        self.name, self.tool, self.options, self.size = (name, tool, options,
                                                         size)

    @property
    def is_latency(self):
        return self.tool.endswith("_lat")


def bandwidth_row(verb, size, qps, mtu):
    name = f"{verb}-{size}" + (f"-q{qps}" if qps > 1 else "") + (
        f"-m{mtu}" if mtu != PATH_MTUS[-1] else "")
    sizes = "" if verb == "atomic" else f"-s {size} "
    return Row(name, f"ib_{verb}_bw", f"{sizes}-q {qps} -m {mtu} -D {SECONDS}",
               size)


def all_rows():
    rows = [Row(f"{verb}-lat", f"ib_{verb}_lat",
                ("" if verb == "atomic" else "-s 8 ") +
                f"-n {LATENCY_ROUNDS}", 8) for verb in VERBS]
    rows.append(Row("tcp", "iperf3", f"-t {SECONDS} -J", MIB))
    for mtu in reversed(PATH_MTUS):
        for qps in QPS:
            rows += [bandwidth_row(verb, size, qps, mtu) for verb in VERBS
                     for size in (SIZES if verb != "atomic" else (8,))]
    return rows


def chosen_rows(patterns):
    rows = [row for row in all_rows()
            if any(fnmatch.fnmatch(row.name, text) for text in patterns)]
    if not rows:
        raise SystemExit(f"bench.py: no row is like {' '.join(patterns)}; "
                         "--list names them")
    return rows


def numbers_of(row, output):
    """What a tool has printed, by the names that tables have; {}: nothing."""
    if row.tool == "iperf3":
        got = json.loads(output)["end"]["sum_received"]["bits_per_second"]
        return {"MB/s": got / 8e6}
    columns = rdma.perftest_numbers(output)
    if len(columns) <= BW_RATE:
        return {}
    if row.is_latency:
        return {key: columns[at] for key, at in LATENCY.items()}
    return {"MB/s": columns[BW_AVERAGE] * MIB / 1e6,
            "k/s": columns[BW_RATE] * 1e3}


# ---- one pair of machines ----------------------------------------------------

class Pair:
    """Two machines with a device, up."""

    def __init__(self, name, qemu, folder, pin=False):
        self.name = name
        model, driver, wire = DEVICES[name.partition("@")[0]]
        self.mixed = not isinstance(driver, str)
        os.environ["FAKERNIC_WIRE"] = wire
        self.lab = Lab(folder / name)
        vms = self.lab.get(model=model, options={"memory": 640,
                                                 "qemu": [str(qemu)]})
        self.ports = rdma.bring_up_all(vms, driver)
        for port in self.ports:
            port.set_mtu(9000 if driver == "fakernic" else 4200)
        if pin:
            self.pin()

    def pin(self):
        """Each machine on a processor of its own, with all its threads."""
        free = sorted(os.sched_getaffinity(0))
        for number, port in enumerate(self.ports):
            for task in Path(f"/proc/{port.vm.pid}/task").iterdir():
                os.sched_setaffinity(int(task.name), {free[number % len(free)]})

    def stop(self):
        self.lab.stop()

    def counters(self):
        found = {}
        for port in self.ports:
            for name, value in port.counters().items():
                if any(word in name for word in FAULTS):
                    found[name] = found.get(name, 0) + value
        return found

    def threads(self):
        """Seconds on a processor, and waiting for one, of all threads."""
        run = wait = 0
        for vm in (port.vm for port in self.ports):
            for task in Path(f"/proc/{vm.pid}/task").iterdir():
                with contextlib.suppress(FileNotFoundError):    # it ended
                    numbers = (task / "schedstat").read_text().split()
                    run, wait = run + int(numbers[0]), wait + int(numbers[1])
        return run / 1e9, wait / 1e9

    def run(self, row):
        """One run of its tool; a rdma.Pair."""
        if row.tool != "iperf3":
            options = row.options
            if self.mixed and row.tool.startswith(ANSWERED):
                options += READS_OF_BOTH
            return rdma.perftest(row.tool, *self.ports, options, timeout=90)
        server, client = self.ports
        return rdma.run_pair(
            server, client, f"iperf3 -s -1 -p {TCP_PORT}",
            f"iperf3 -c {server.ip4} -p {TCP_PORT} {row.options}", TCP_PORT, 90)

    def measure(self, row):
        """The numbers of one run; {} and a line if it failed."""
        faults, cpu = self.counters(), self.threads()
        began = time.monotonic()
        try:
            pair = self.run(row)
        except GuestTimeout as error:       # it cannot even be killed
            print(f"# {row.name} {self.name} hangs: {error}", flush=True)
            return {}
        seconds = time.monotonic() - began
        found = numbers_of(row, pair.client.out) if pair.ok else {}
        if not found:
            print(f"# {row.name} {self.name} failed: {pair.client}", flush=True)
            return {}
        after, cpu_after = self.counters(), self.threads()
        found["cpu"] = (cpu_after[0] - cpu[0]) / seconds
        found["queued"] = (cpu_after[1] - cpu[1]) / seconds
        found["faults"] = {name: after[name] - faults.get(name, 0)
                           for name in after
                           if after[name] != faults.get(name, 0)}
        return found


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
    for run in range(options.runs + 1):
        for pair in pairs if (run + boot) % 2 else pairs[::-1]:
            numbers = pair.measure(row)
            if run and numbers:         # the first is to warm up
                numbers["boot"] = boot
                found.setdefault(row.name, {}).setdefault(
                    pair.name, []).append(numbers)
    print(line(row, found.get(row.name, {}), list(options.builds)), flush=True)


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


def keys_of(row):
    if row.is_latency:
        return ("median", "mean", "p99", "p99.9")
    return ("k/s",) if row.size < 4096 else ("MB/s",)


def line(row, devices, names):
    """One row for people: each device's median and spread, and its ratio to the
    first's."""
    texts = []
    for key in keys_of(row):
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
