#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Counts what a message costs: cost.py [--wires link stream] [--rows 'write-*'] ...

Runs a tool of perftest with few and with many messages, and divides the difference
of all counts by the difference of messages. So the start and the end of the tools
cancel out. Counts depend little on the speed of the machine. Then measures the
processor time of idle machines. COSTS.md explains the numbers, and
`cost.py --page RESULT.json` makes its tables.
"""

import argparse
import contextlib
import fnmatch
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "vm"), str(HERE.parent / "lab")]

import bench                                        # noqa: E402
from fakernic_lab import places                     # noqa: E402
from fakernic_lab.machine import Machine            # noqa: E402
from fakernic_lab.qmp import QMPError               # noqa: E402
from fakernic_test import rdma                      # noqa: E402
from pairs import DEVICES, Pair, why                # noqa: E402
from results import KINDS, number                   # noqa: E402
from reach import table                             # noqa: E402

WIRES = ("link", "stream")
QPS = 64
KEPT = HERE / "costs.json"
PAGE = HERE / "COSTS.md"
MARKED = re.compile(r"(<!-- begin cost.py -->\n).*?(<!-- end cost.py -->\n)", re.S)
TIMEOUT_S = 120
# Strace may stop a machine for longer than perftest's ACK timeout of 67 ms: 4 s.
PATIENT = "-u 20"
TRIES = 2
# How many times fewer messages the short one of two runs has, and those with strace.
FEWER = 10
ENDS = ("client", "server")
PATH = "/machine/peripheral/nic0"
# Accesses by the guest in x-activity, which are exits with KVM: doorbells, and all
# others together.
DOORS = {"send": "doorbell-sq", "arm": "doorbell-cq-arm", "event": "doorbell-eq",
         "poll": "doorbell-poll"}
OTHER_DOORS = ("config-load", "config-store", "msix", "doorbell-other",
               "doorbell-load")
REGISTER = re.compile(r"(load|store)-0x")
DMAS = ("dma-read", "dma-write", "dma-atomic")
# The counters that show a wire without loss.
LOSSES = ("retransmits", "timeouts", "tx_dropped")
IDLE_S = 60
# How long a machine that has just come up is busy.
IDLE_SETTLES_S = 20


class Row:
    """A tool with its options. TURNS: messages of a round of the tool, in both
    directions and on all QPs."""

    def __init__(self, name, tool, options, many, turns=1):
        self.name, self.tool, self.options = name, tool, options
        self.many, self.turns = many, turns

    def rounds(self, traced):
        """Few rounds, and many."""
        many = self.many // FEWER if traced else self.many
        return many // FEWER, many


def bandwidth_row(verb, size):
    """Small messages are many, so that the idle work of the machines has no weight."""
    many = 40000 if size < 4096 else 20000 if size == 4096 else 4000
    return Row(f"{verb}-{size}", f"ib_{verb}_bw", f"-s {size} -m 4096", many)


def latency_row(verb, turns):
    size = "" if verb == "atomic" else "-s 8 "
    return Row(f"{verb}-lat", f"ib_{verb}_lat", f"{size}-m 4096", 10000, turns)


def all_rows():
    """Every row, the most important first, as a job may be interrupted. Bandwidth tools
    have up to 128 requests outstanding, each posted with a doorbell of its own. Latency
    tools have one."""
    verbs = ("write", "send", "read")
    return [
        *(bandwidth_row(verb, 64) for verb in verbs),
        *(latency_row(verb, turns) for verb, turns in
          (("write", 2), ("send", 2), ("read", 1), ("atomic", 1))),
        Row("send-lat-events", "ib_send_lat", "-s 8 -m 4096 -e", 4000, 2),
        Row("send-64-events", "ib_send_bw", "-s 64 -m 4096 -e", 20000),
        *(bandwidth_row(verb, 65536) for verb in verbs),
        Row("atomic-8", "ib_atomic_bw", "-m 4096", 40000),
        Row("send-ud-lat", "ib_send_lat", "-c UD -s 8", 4000, 2),
        Row(f"write-64-q{QPS}", "ib_write_bw", f"-s 64 -m 4096 -q {QPS}", 2000, QPS),
        Row(f"write-65536-q{QPS}", "ib_write_bw", f"-s 65536 -m 4096 -q {QPS}", 600,
            QPS),
        *(bandwidth_row(verb, size) for size in (4096, 8) for verb in verbs)]


# ---- counts ----------------------------------------------------------------------

def activity(vm):
    """What the device of a machine did so far."""
    return json.loads(vm.qmp("qom-get", path=PATH, property="x-activity"))


def counters(vm):
    return json.loads(vm.qmp("qom-get", path=PATH, property="x-counters"))[0]


def threads(vm, kinds):
    """How often the threads of each kind slept so far, and their processor time in
    us."""
    found = {f"{what} {kind}": 0 for what in ("wake-ups", "us") for kind in KINDS}
    for task in Path(f"/proc/{vm.pid}/task").iterdir():
        kind = kinds.get(int(task.name), "other")
        with contextlib.suppress(OSError, TypeError):       # the thread has ended
            text = (task / "status").read_text(encoding="utf-8")
            found[f"wake-ups {kind}"] += int(re.search(
                r"^voluntary_ctxt_switches:\s*(\d+)", text, re.M)[1])
            text = (task / "schedstat").read_text(encoding="utf-8")
            found[f"us {kind}"] += int(text.split()[0]) / 1000
    return found


def kvm_exits(vm):
    """KVM's own counts of all vCPUs; empty without KVM."""
    found = {}
    with contextlib.suppress(QMPError):
        for vcpu in vm.qmp("query-stats", target="vcpu"):
            for stat in vcpu["stats"]:
                if isinstance(stat["value"], int):
                    name = f"kvm {stat['name']}"
                    found[name] = found.get(name, 0) + stat["value"]
    return found


def accesses(did):
    """The accesses of the guest in x-activity, by kind."""
    others = {f"other {key}": value for key, value in did.items()
              if key in OTHER_DOORS or REGISTER.match(key)}
    return {**{name: did.get(key, 0) for name, key in DOORS.items()}, **others,
            "other": sum(others.values())}


def counts(vm, kinds):
    """All counts of a machine so far that cost it nothing."""
    did, counter = activity(vm), counters(vm)
    return {**{f"access {name}": value for name, value in accesses(did).items()},
            "interrupts": did["interrupt"], "turns": did["turn"],
            "bottom halves": did["bottom-half"],
            "DMAs": sum(did[name] for name in DMAS), "mappings": did["dma-map"],
            "packets": counter["tx_roce"],
            "lost": sum(counter[name] for name in LOSSES),
            **threads(vm, kinds), **kvm_exits(vm)}


# ---- what is counted only during a run ---------------------------------------------

class Strace:
    """Counts the system calls of a machine."""

    def __init__(self, vm, path):
        self.path = path
        self.process = subprocess.Popen(
            ["strace", "-f", "-c", "-U", "calls,name", "-o", str(path), "-p",
             str(vm.pid)], stderr=subprocess.PIPE, text=True)
        for text in self.process.stderr:
            if "attached" in text:
                return
        raise OSError("strace ended")

    def stop(self):
        self.process.terminate()
        self.process.stderr.close()
        self.process.wait()
        calls = calls_in(self.path.read_text(encoding="utf-8"))
        return {"system calls": sum(calls.values()),
                **{f"call {name}": count for name, count in calls.items()}}


def can_trace():
    """Whether strace may attach to a program."""
    with subprocess.Popen(["sleep", "60"]) as program, \
            tempfile.TemporaryDirectory() as folder:
        try:
            Strace(SimpleNamespace(pid=program.pid), Path(folder, "calls")).stop()
        except OSError:
            return False
        finally:
            program.kill()
    return True


def calls_in(text):
    """System call -> count in strace's table."""
    return {name: int(calls) for calls, name in
            re.findall(r"^\s*(\d+) (\w+)$", text, re.M) if name != "total"}


def lock_count(text):
    """Acquisitions of the big lock in QEMU's synchronization profile."""
    return sum(int(calls) for calls in re.findall(
        r"^BQL mutex\s.*?\S+:\d+\s+[\d.]+\s+(\d+)\s", text, re.M))


class LockProfile:
    """Counts acquisitions of a machine's big lock, by QEMU itself."""

    def __init__(self, vm):
        self.vm = vm
        vm.hmp("sync-profile on")
        vm.hmp("sync-profile reset")

    def stop(self):
        locks = lock_count(self.vm.hmp("info sync-profile 1000"))
        self.vm.hmp("sync-profile off")
        return {"big lock": locks}


# ---- runs ----------------------------------------------------------------------

def ends_of(pair):
    """The machines by their part. perftest's server is the first."""
    server, client = (port.vm for port in pair.ports)
    return {"client": client, "server": server}


def run(pair, row, rounds, traced, folder):
    """Counts of one run, by end: system calls, or all others."""
    ends = ends_of(pair)
    before = {end: counts(vm, pair.kinds) for end, vm in ends.items()}
    counting = {end: Strace(vm, folder / f"strace-{end}") if traced else
                LockProfile(vm) for end, vm in ends.items()}
    try:
        both = rdma.perftest(row.tool, *pair.ports,
                             f"{row.options} {PATIENT} -n {rounds}",
                             timeout=TIMEOUT_S)
        assert both.ok, why(both)
    finally:
        found = {end: one.stop() for end, one in counting.items()}
    for end, vm in ends.items() if not traced else ():
        found[end].update((name, value - before[end].get(name, 0))
                          for name, value in counts(vm, pair.kinds).items())
    return found


def per_message(few, many, messages):
    """The differences of counts, per message. A name that one run lacks counts as 0."""
    return {end: {name: round((many[end].get(name, 0) - few[end].get(name, 0)) /
                              messages, 4)
                  for name in {**few[end], **many[end]}} for end in ENDS}


def measure(pair, row, traces, folder):
    """The counts of each end per message."""
    found = {"messages": 0, "client": {}, "server": {}}
    for traced in (False, True) if traces else (False,):
        few, many = row.rounds(traced)
        messages = (many - few) * row.turns
        runs = [run(pair, row, rounds, traced, folder) for rounds in (few, many)]
        found["messages"] = found["messages"] or messages
        for end, each in per_message(*runs, messages).items():
            found[end].update(each)
    return found


def measure_again(pair, row, options):
    """The same, or None and the reason why the tool failed twice."""
    reason = ""
    for _ in range(TRIES):
        try:
            return measure(pair, row, options.strace, options.out), ""
        except AssertionError as error:
            reason = str(error)
    return None, reason


def measure_wire(wire, rows, options, result):
    """Adds the counts of each row over one wire to the result."""
    pair = Pair(wire, options.qemu, options.out / "vm")
    found = result["rows"].setdefault(wire, {})
    try:
        for row in rows:
            cells, reason = measure_again(pair, row, options)
            if cells:
                found[row.name] = cells
                print(line(f"{wire} {row.name}", cells), flush=True)
            else:
                result["failed"].append(f"{wire} {row.name}: {reason}")
                print(result["failed"][-1], flush=True)
            save(result, options)
    finally:
        pair.stop()


# ---- idle machines ---------------------------------------------------------------

def processor_s(vm):
    """The processor time of all threads of a machine."""
    return sum(int((task / "schedstat").read_text(encoding="utf-8").split()[0])
               for task in Path(f"/proc/{vm.pid}/task").iterdir()) / 1e9


def idle(options):
    """The processors that idle machines use, in percent of one: without the device, and
    with it on each wire."""
    with contextlib.ExitStack() as stack:
        plain = Machine("plain", options.out / "vm/plain", memory=512,
                        qemu=[str(options.qemu)])
        stack.callback(plain.stop)
        plain.boot()
        machines = {"no device": plain}
        for wire in options.wires:
            pair = Pair(wire, options.qemu, options.out / "vm/idle")
            stack.callback(pair.stop)
            machines[wire] = pair.ports[0].vm
        time.sleep(IDLE_SETTLES_S)
        before = {name: (processor_s(vm), time.monotonic())
                  for name, vm in machines.items()}
        time.sleep(options.idle)
        found = {name: round(100 * (processor_s(vm) - before[name][0]) /
                             (time.monotonic() - before[name][1]), 3)
                 for name, vm in machines.items()}
    print("idle, % of a processor:", found, flush=True)
    return {"seconds": options.idle, "percent": found}


# ---- the table ------------------------------------------------------------------

COLUMNS = (("sends", ("access send",)), ("arms", ("access arm",)),
           ("polls", ("access poll",)),
           ("other accesses", ("access event", "access other")),
           ("interrupts", ("interrupts",)), ("DMAs", ("DMAs",)),
           ("packets", ("packets",)),
           ("wake-ups", tuple(f"wake-ups {kind}" for kind in KINDS)),
           ("system calls", ("system calls",)), ("big lock", ("big lock",)))


# Below minus this the two runs differ by more than their messages.
UNCLEAR = 0.05


def cell(found, names):
    """The counts of client and server, if they were counted."""
    if not any(name in found[end] for end in ENDS for name in names):
        return "not counted"
    both = [round(sum(found[end].get(name, 0) for name in names), 2)
            for end in ENDS]
    return " + ".join("unclear" if value < -UNCLEAR else number(max(value, 0), 3)
                      for value in both)


def line(name, found):
    return f"{name}: " + ", ".join(f"{what} {cell(found, names)}"
                                   for what, names in COLUMNS)


def tables(result):
    """The tables in Markdown."""
    lines = []
    for wire, rows in result["rows"].items():
        lines += [f"Wire: {wire}", "",
                  *table(("message", *(what for what, _ in COLUMNS)), (
                      (row, *(cell(found, names) for _, names in COLUMNS))
                      for row, found in rows.items())), ""]
    if result.get("idle"):
        lines += [*table(("idle machine", "% of a processor"), (
            (name, number(value, 3))
            for name, value in result["idle"]["percent"].items())), ""]
    return "\n".join(lines)


def page_with(text, page):
    if not MARKED.search(page):
        raise SystemExit(f"cost.py: {PAGE}: no markers 'begin cost.py' and "
                         "'end cost.py'")
    return MARKED.sub(lambda found: found[1] + text + found[2], page)


def write_page(path):
    """Keeps a result, and writes the tables of the page."""
    result = json.loads(path.read_text(encoding="utf-8"))
    KEPT.write_text(written(result), encoding="utf-8")
    PAGE.write_text(page_with(tables(result), PAGE.read_text(encoding="utf-8")),
                    encoding="utf-8")
    print(f"{KEPT}\n{PAGE}")


def written(result):
    """JSON with one line per row."""
    rows = ",\n".join(
        f"{json.dumps(wire)}: {{\n" + ",\n".join(
            f"{json.dumps(row)}: {json.dumps(found)}"
            for row, found in rows.items()) + "\n}"
        for wire, rows in result["rows"].items())
    rest = "".join(f"{json.dumps(key)}: {json.dumps(result[key])},\n"
                   for key in ("machine", "idle", "failed") if key in result)
    return f"{{\n{rest}\"rows\": {{\n{rows}\n}}\n}}\n"


def save(result, options):
    """Writes what was measured so far: an interrupted job leaves that."""
    (options.out / "result.json").write_text(written(result), encoding="utf-8")
    (options.out / "result.md").write_text(tables(result), encoding="utf-8")


# ---- the job --------------------------------------------------------------------

def parse(words=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--wires", nargs="*", default=WIRES,
                        choices=[name for name, device in DEVICES.items()
                                 if device[1] == "fakernic"], metavar="WIRE")
    parser.add_argument("--rows", nargs="+", default=["*"], metavar="PATTERN")
    parser.add_argument("--no-strace", dest="strace", action="store_false",
                        help="without system calls, which take most of the time")
    parser.add_argument("--idle", type=int, default=IDLE_S, metavar="SECONDS",
                        help="how long to watch idle machines; 0: not at all")
    parser.add_argument("--qemu", type=Path)
    parser.add_argument("--out", type=Path, default=Path("/cache/log/bench-cost"))
    parser.add_argument("--page", type=Path, metavar="RESULT",
                        help="write costs.json and the tables of COSTS.md")
    return parser.parse_args(words)


def chosen(patterns):
    found = [row for row in all_rows()
             if any(fnmatch.fnmatchcase(row.name, text) for text in patterns)]
    if not found:
        raise SystemExit(f"cost.py: no row matches {' '.join(patterns)}; rows: "
                         + " ".join(row.name for row in all_rows()))
    return found


def main():
    options = parse()
    if options.page:
        write_page(options.page)
        return 0
    rows = chosen(options.rows)
    options.qemu = options.qemu or Path(places.qemu_command()[0])
    options.out.mkdir(parents=True, exist_ok=True)
    if options.strace and not can_trace():
        print("cost.py: strace cannot attach (is ptrace allowed?): system calls are "
              "not counted")
        options.strace = False
    result = {"machine": bench.machine(options.qemu), "rows": {}, "failed": []}
    for wire in options.wires:
        measure_wire(wire, rows, options, result)
    if options.idle:
        result["idle"] = idle(options)
    save(result, options)
    print(f"{tables(result)}\n{options.out}/result.json\n{options.out}/result.md")
    return 1 if result["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
