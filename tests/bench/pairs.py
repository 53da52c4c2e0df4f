# SPDX-License-Identifier: GPL-2.0-or-later
"""A pair of machines for bench.py, and the counters of a run."""

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

# Name -> the device's model, driver, wire and properties. A mixed pair has two
# models and drivers: the server's, then the client's.
DEVICES = {
    "rxe": ("virtio-net-pci", "rxe", "netdev", {}),
    "stream": ("fakernic", "fakernic", "netdev", {}),
    "dgram": ("fakernic", "fakernic", "dgram", {}),
    "link": ("fakernic", "fakernic", "link", {}),
    "null": ("fakernic", "fakernic", "link", {"x-null": "on"}),
    # Two pairs of one kind show the noise of a job.
    "link+again": ("fakernic", "fakernic", "link", {}),
    "link+awake": ("fakernic", "fakernic", "link", {"sq-awake-us": 100}),
    "null+awake": ("fakernic", "fakernic", "link",
                   {"x-null": "on", "sq-awake-us": 100}),
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
# How far virtual CPUs are below the thread that feeds them.
CPU_NICE = {"stream+nice10": 10, "link+nice10": 10}
USUAL = ("rxe", "stream", "dgram", "link", "null")
# Pairs with Soft-RoCE at one end or both.
SLOW = ("rxe", "tap", "to-rxe", "by-rxe")
# MiB of a guest. Soft-RoCE keeps retransmitted packets until it looks at them, and
# has run out of less memory with 64 QPs.
MEMORY, MEMORY_SLOW = 640, 2048
MTU = 9000
# What a tool may take in addition to its measurement.
TIMEOUT_S = 30
# perftest compares the processor's clock with the system's before it computes a
# rate. If the machine paused in between, it prints a rate of 0.
NO_CLOCK = "Correlation coefficient r^2"
CLOCKLESS = "client: could not measure the rate of its clock"
CLOCK_TRIES = 3
BOOT_TRIES = 2
TCP_PORT = 5301
# perftest requests as many outstanding READs as its own device answers, which may
# exceed the limit of the other device.
ANSWERED = ("read", "atomic")
READS_OF_BOTH = " -o 16"
# Words in the names of counters that do not change on a clean wire. RNR NAKs are
# among them: perftest's first SENDs arrive before their receives are posted.
FAULTS = ("retrans", "timeout", "dup", "drop", "retry", "seq", "rnr")
# The RoCE frames that a port has sent: fakernic's name, and Soft-RoCE's.
SENT = ("tx_roce", "sent_pkts")
VERSIONS = "uname -sr; echo perftest; ib_write_bw --version | " \
    "sed 's/.*: *//'; iperf3 --version | sed -n '1s/(.*//p'"
# Errors when a machine is lost while something runs in it.
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
        self.crashes = []       # why fakernic's guests crashed
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
        """Boots the machines again after one was lost."""
        for last in range(BOOT_TRIES):
            self.stop()
            try:
                return self.boot()
            except (*LOST, LabError, LookupError):
                if last + 1 == BOOT_TRIES:
                    raise

    def find_threads(self):
        """Thread -> kind, of each main loop and each virtual CPU."""
        kinds = {}
        for vm in (port.vm for port in self.ports):
            kinds[vm.pid] = "main"
            for cpu in vm.qmp("query-cpus-fast"):
                kinds[cpu["thread-id"]] = "cpu"
        return kinds

    def pin(self):
        """Keeps all threads of each machine on a processor of its own."""
        free = sorted(os.sched_getaffinity(0))
        for number, port in enumerate(self.ports):
            for task in Path(f"/proc/{port.vm.pid}/task").iterdir():
                os.sched_setaffinity(int(task.name), {free[number % len(free)]})

    def stop(self):
        self.lab.stop()

    @staticmethod
    def would_take(name, row):
        """Whether a device runs a row. The null device sends nothing, so it runs
        WRITEs with one path MTU. Soft-RoCE runs no more than 64 QPs, with which
        its guest already runs out of memory."""
        device = name.partition("@")[0]
        if device.startswith("null"):
            return (row.verb == "write" and not row.is_latency and
                    row.mtu == USUAL_MTU)
        return device not in SLOW or row.qps <= max(QPS)

    def takes(self, row):
        return self.would_take(self.device, row)

    def versions(self):
        """Versions of the programs in a guest."""
        return " ".join(self.ports[0].guest.check(VERSIONS).split())

    def counters(self):
        """Error counters of both ports together, and frames sent by each."""
        found, sent = {}, []
        for port in self.ports:
            counters = port.counters()
            sent.append(sum(counters.get(name, 0) for name in SENT))
            for name, value in counters.items():
                if any(word in name for word in FAULTS):
                    found[name] = found.get(name, 0) + value
        return found, sent

    def threads(self):
        """Thread -> its kind, and its processor time, wait time and wake-ups."""
        found = {}
        for vm in (port.vm for port in self.ports):
            for task in Path(f"/proc/{vm.pid}/task").iterdir():
                with contextlib.suppress(OSError):              # it ended
                    found[int(task.name)] = (
                        self.kinds.get(int(task.name), "other"),
                        *map(int, (task / "schedstat").read_text().split()))
        return found

    def run(self, row, more):
        """Runs the tool of a row once; a rdma.Pair."""
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
        """Runs a row with MORE options: its numbers and ""; or {} and the reason why
        it gave none."""
        try:
            return self.measured(row, more)
        except LOST as error:
            # The guest hangs or crashed, which happens with Soft-RoCE.
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
    """In one line, the reason why a tool gave no numbers."""
    for side, answer in (("client", pair.client), ("server", pair.server)):
        if answer.timed_out:
            return f"{side}: timeout"
        if not answer.ok:
            lines = (answer.err or answer.out).strip().splitlines()
            return f"{side}: {lines[-1].strip() if lines else answer.code}"
    if NO_CLOCK in pair.client.out + pair.client.err:
        return CLOCKLESS
    return "timeout: no message finished"


def frames(row, found, before, after):
    """Frames per message of a one-way row, in both directions. A null device sends
    none."""
    back, there = (late - early for early, late in zip(before, after))
    if row.is_latency or not found.get("messages") or not there:
        return {}
    return {"frames there": there / found["messages"],
            "frames back": back / found["messages"]}


def times(found, before, after, seconds):
    """Of each kind of thread: processors used, wait per wake-up and time per message
    in us, over the whole run with the start and end of its programs. A thread that
    ended during the run does not count."""
    totals = {kind: [0, 0, 0] for kind in KINDS}
    for thread, (kind, *late) in after.items():
        _, *early = before.get(thread, (kind, 0, 0, 0))
        for at, number in enumerate(late):
            totals[kind][at] += number - early[at]
    found_times = {"cpu": 0, "queued": 0}
    for kind, (run, wait, wakes) in totals.items():
        found_times["cpu"] += run / 1e9 / seconds
        found_times["queued"] += wait / 1e9 / seconds
        found_times[f"{kind} wait"] = wait / 1e3 / wakes if wakes else 0
        if found.get("messages"):
            found_times[f"{kind} per message"] = run / 1e3 / found["messages"]
    return found_times
