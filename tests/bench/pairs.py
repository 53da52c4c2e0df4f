# SPDX-License-Identifier: GPL-2.0-or-later
"""Two machines with a device, for bench.py: what is counted while a row runs."""

import contextlib
import os
import time
from pathlib import Path

from fakernic_lab.errors import (CommandFailed, GuestCrashed, GuestTimeout,
                                 LabError)
from fakernic_test import rdma
from fakernic_test.lab import Lab
from results import KINDS
from rows import QPS, USUAL_MTU, numbers_of

# Name -> the device's model, driver, what joins two of them, and properties. Of
# a mixed pair there are two of each: of the server's machine, then the client's.
DEVICES = {
    "rxe": ("virtio-net-pci", "rxe", "netdev", {}),
    "stream": ("fakernic", "fakernic", "netdev", {}),
    "dgram": ("fakernic", "fakernic", "dgram", {}),
    "link": ("fakernic", "fakernic", "link", {}),
    "null": ("fakernic", "fakernic", "link", {"x-null": "on"}),
    "stream+nice10": ("fakernic", "fakernic", "netdev", {}),
    "link+nice10": ("fakernic", "fakernic", "link", {}),
    "inet": ("fakernic", "fakernic", "inet", {}),
    "mcast": ("fakernic", "fakernic", "mcast", {}),
    "tap": ("virtio-net-pci", "rxe", "tap", {}),
    "to-rxe": (("virtio-net-pci", "fakernic"), ("rxe", "fakernic"), "netdev",
               {}),
    "by-rxe": (("fakernic", "virtio-net-pci"), ("fakernic", "rxe"), "netdev",
               {}),
}
# By how much virtual CPUs are below the thread that feeds them.
CPU_NICE = {"stream+nice10": 10, "link+nice10": 10}
USUAL = ("rxe", "stream", "dgram", "link", "null")
# Soft-RoCE is at an end of these.
SLOW = ("rxe", "tap", "to-rxe", "by-rxe")
# Of a guest, in MiB. Soft-RoCE keeps what was sent again until it looks at it,
# and has run out of less with 64 QPs.
MEMORY, MEMORY_SLOW = 640, 2048
MTU = 9000
# What a tool may take beside what it measures for.
TIMEOUT_S = 30
# perftest compares the processor's clock with the system's before it reckons:
# where a machine stood still meanwhile, it gives up and prints a rate of 0.
NO_CLOCK = "Correlation coefficient r^2"
CLOCKLESS = "client: could not tell the rate of its clock"
CLOCK_TRIES = 3
BOOT_TRIES = 2
TCP_PORT = 5301
# perftest asks for as many outstanding READs as its own card answers, which may
# be more than the other kind's.
ANSWERED = ("read", "atomic")
READS_OF_BOTH = " -o 16"
# Words in the names of counters that stand still on a clean wire; of RNR NAKs,
# too, after which perftest's first SENDs go again: they met no receive yet.
FAULTS = ("retrans", "timeout", "dup", "drop", "retry", "seq", "rnr")
# The RoCE frames that a port has sent: fakernic's name, and Soft-RoCE's.
SENT = ("tx_roce", "sent_pkts")
VERSIONS = "uname -sr; echo perftest; ib_write_bw --version | " \
    "sed 's/.*: *//'; iperf3 --version | sed -n '1s/(.*//p'"
# What happens when a machine is lost while something runs in it.
LOST = (GuestTimeout, GuestCrashed, CommandFailed, OSError)


class Pair:
    """Two machines with a device, up."""

    def __init__(self, name, qemu, folder, pin=False):
        self.name = name
        self.device = name.partition("@")[0]
        self.mixed = not isinstance(DEVICES[self.device][1], str)
        self.slow = self.device in SLOW
        self.qemu, self.pinned = qemu, pin
        self.lab = Lab(folder / name)
        self.ports, self.kinds = [], {}
        self.crashes = []       # what fakernic's guests have died of
        self.boot()

    def boot(self):
        """Brings the machines up."""
        model, driver, wire, properties = DEVICES[self.device]
        os.environ["FAKERNIC_WIRE"] = wire
        vms = self.lab.get(
            model=model, options={"memory": MEMORY_SLOW if self.slow else MEMORY,
                                  "qemu": [str(self.qemu)],
                                  "cpu_nice": CPU_NICE.get(self.device, 0)},
            **properties)
        self.ports = rdma.bring_up_all(vms, driver)
        for port in self.ports:
            port.set_mtu(MTU)
        self.kinds = self.find_threads()
        if self.pinned:
            self.pin()

    def boot_again(self):
        """After one was lost."""
        for last in range(BOOT_TRIES):
            self.stop()
            try:
                return self.boot()
            except (*LOST, LabError, LookupError):
                if last + 1 == BOOT_TRIES:
                    raise

    def find_threads(self):
        """Thread -> what it does: each main loop's, each virtual CPU's."""
        kinds = {}
        for vm in (port.vm for port in self.ports):
            kinds[vm.pid] = "main"
            for cpu in vm.qmp("query-cpus-fast"):
                kinds[cpu["thread-id"]] = "cpu"
        return kinds

    def pin(self):
        """Each machine on a processor of its own, with all its threads."""
        free = sorted(os.sched_getaffinity(0))
        for number, port in enumerate(self.ports):
            for task in Path(f"/proc/{port.vm.pid}/task").iterdir():
                os.sched_setaffinity(int(task.name), {free[number % len(free)]})

    def stop(self):
        self.lab.stop()

    @staticmethod
    def would_take(name, row):
        """Whether a row says something of a device: the null device sends nothing,
        so that a path MTU does not matter to it; and Soft-RoCE, whose guest runs
        out of memory with 64 QPs, is not asked for more."""
        device = name.partition("@")[0]
        if device == "null":
            return (row.verb == "write" and not row.is_latency and
                    row.mtu == USUAL_MTU)
        return device not in SLOW or row.qps <= max(QPS)

    def takes(self, row):
        return self.would_take(self.device, row)

    def versions(self):
        """What runs in a guest."""
        return " ".join(self.ports[0].guest.check(VERSIONS).split())

    def counters(self):
        """Those of a fault, of both ports together, and what each has sent."""
        found, sent = {}, []
        for port in self.ports:
            counters = port.counters()
            sent.append(sum(counters.get(name, 0) for name in SENT))
            for name, value in counters.items():
                if any(word in name for word in FAULTS):
                    found[name] = found.get(name, 0) + value
        return found, sent

    def threads(self):
        """Thread -> its kind, and what it has had of the processors by now."""
        found = {}
        for vm in (port.vm for port in self.ports):
            for task in Path(f"/proc/{vm.pid}/task").iterdir():
                with contextlib.suppress(OSError):              # it ended
                    found[int(task.name)] = (
                        self.kinds.get(int(task.name), "other"),
                        *map(int, (task / "schedstat").read_text().split()))
        return found

    def run(self, row, more):
        """One run of its tool; a rdma.Pair."""
        words = row.words(self.slow)
        limit = TIMEOUT_S + row.connecting() + row.seconds(self.slow)
        if row.tool == "iperf3":
            server, client = self.ports
            return rdma.run_pair(
                server, client, f"iperf3 -s -1 -p {TCP_PORT}",
                f"iperf3 -c {server.ip4} -p {TCP_PORT} {words}", TCP_PORT, limit)
        if not row.is_perftest:
            return rdma.pingpong("rc", *self.ports, words, timeout=limit)
        if self.mixed and row.verb in ANSWERED:
            more += READS_OF_BOTH
        return rdma.perftest(row.tool, *self.ports, words + more, timeout=limit)

    def measure(self, row, more=""):
        """One run with MORE options: its numbers and ""; or {} and why it gave
        none."""
        try:
            return self.measured(row, more)
        except LOST as error:
            # A machine cannot be killed, or has died: that happens to Soft-RoCE.
            if isinstance(error, GuestCrashed) and not self.slow:
                self.crashes.append(f"{row.name} {self.name}: {error}")
            self.boot_again()
            words = str(error).splitlines() or [type(error).__name__]
            return {}, f"lost: {words[0]}"

    def measured(self, row, more, tries=CLOCK_TRIES):
        before = (*self.counters(), self.threads())
        began = time.monotonic()
        pair = self.run(row, more)
        seconds = time.monotonic() - began
        found = numbers_of(row, pair.client.out) if pair.ok else {}
        if not found:
            reason = why(pair)
            if reason == CLOCKLESS and tries > 1:
                return self.measured(row, more, tries - 1)
            return {}, reason
        after = (*self.counters(), self.threads())
        found["faults"] = {name: after[0][name] - before[0].get(name, 0)
                           for name in after[0]
                           if after[0][name] != before[0].get(name, 0)}
        found.update(frames(row, found, before[1], after[1]))
        found.update(times(found, before[2], after[2], seconds))
        return found, ""


def why(pair):
    """In a line, why a tool has given no numbers."""
    for side, answer in (("client", pair.client), ("server", pair.server)):
        if answer.timed_out:
            return f"{side}: no end in its time"
        if not answer.ok:
            lines = (answer.err or answer.out).strip().splitlines()
            return f"{side}: {lines[-1].strip() if lines else answer.code}"
    if NO_CLOCK in pair.client.out + pair.client.err:
        return CLOCKLESS
    return "no message ended in its time"


def frames(row, found, before, after):
    """What frames tell of a one-way row, for each message: how many went, and how
    many came back. A null device sends none."""
    back, there = (late - early for early, late in zip(before, after))
    if row.is_latency or not found.get("messages") or not there:
        return {}
    return {"frames there": there / found["messages"],
            "frames back": back / found["messages"]}


def times(found, before, after, seconds):
    """Of each kind of thread: processors used, how long it waited for one each
    time that it wanted it, and its time per message, all in us; of a whole run,
    with its programs' start and end. Of a thread that ended meanwhile nobody
    knows."""
    totals = {kind: [0, 0, 0] for kind in KINDS}
    for thread, (kind, *late) in after.items():
        _, *early = before.get(thread, (kind, 0, 0, 0))
        for at, number in enumerate(late):
            totals[kind][at] += number - early[at]
    told = {"cpu": 0, "queued": 0}
    for kind, (run, wait, wakes) in totals.items():
        told["cpu"] += run / 1e9 / seconds
        told["queued"] += wait / 1e9 / seconds
        told[f"{kind} wait"] = wait / 1e3 / wakes if wakes else 0
        if found.get("messages"):
            told[f"{kind} per message"] = run / 1e3 / found["messages"]
    return told
