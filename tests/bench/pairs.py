# SPDX-License-Identifier: GPL-2.0-or-later
"""Two machines with a device, for bench.py: what is counted while a row runs."""

import contextlib
import os
import time
from pathlib import Path

from fakernic_lab.errors import GuestCrashed, GuestTimeout
from fakernic_test import rdma
from fakernic_test.lab import Lab
from rows import numbers_of

# Name -> the device's model, driver, what joins two of them, and properties. Of
# a mixed pair there are two of each: of the server's machine, then the client's.
DEVICES = {
    "rxe": ("virtio-net-pci", "rxe", "netdev", {}),
    "stream": ("fakernic", "fakernic", "netdev", {}),
    "dgram": ("fakernic", "fakernic", "dgram", {}),
    "link": ("fakernic", "fakernic", "link", {}),
    "null": ("fakernic", "fakernic", "link", {"x-null": "on"}),
    "inet": ("fakernic", "fakernic", "inet", {}),
    "mcast": ("fakernic", "fakernic", "mcast", {}),
    "to-rxe": (("virtio-net-pci", "fakernic"), ("rxe", "fakernic"), "netdev",
               {}),
    "by-rxe": (("fakernic", "virtio-net-pci"), ("fakernic", "rxe"), "netdev",
               {}),
}
USUAL = ("rxe", "stream", "dgram", "link", "null")
MTU = 9000
TIMEOUT_S = 40
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
# Of a thread: on a processor and waiting for one, in ns, and how often it got it.
SCHEDSTAT = ("run", "wait", "wakes")


class Pair:
    """Two machines with a device, up."""

    def __init__(self, name, qemu, folder, pin=False):
        self.name = name
        self.device = name.partition("@")[0]
        self.mixed = not isinstance(DEVICES[self.device][1], str)
        self.qemu, self.pinned = qemu, pin
        self.lab = Lab(folder / name)
        self.ports, self.kinds = [], {}
        self.boot()

    def boot(self):
        """Brings the machines up."""
        model, driver, wire, properties = DEVICES[self.device]
        os.environ["FAKERNIC_WIRE"] = wire
        vms = self.lab.get(model=model, options={"memory": 640,
                                                 "qemu": [str(self.qemu)]},
                           **properties)
        self.ports = rdma.bring_up_all(vms, driver)
        for port in self.ports:
            port.set_mtu(MTU)
        self.kinds = self.find_threads()
        if self.pinned:
            self.pin()

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

    def takes(self, row):
        """Whether the row says something of it."""
        return self.device != "null" or (row.verb == "write" and
                                         not row.is_latency)

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
        """Kind -> what its threads have had of the processors by now."""
        found = {kind: dict.fromkeys(SCHEDSTAT, 0)
                 for kind in ("main", "cpu", "other")}
        for vm in (port.vm for port in self.ports):
            for task in Path(f"/proc/{vm.pid}/task").iterdir():
                total = found[self.kinds.get(int(task.name), "other")]
                with contextlib.suppress(FileNotFoundError):    # it ended
                    numbers = (task / "schedstat").read_text().split()
                    for key, number in zip(SCHEDSTAT, numbers):
                        total[key] += int(number)
        return found

    def run(self, row, more):
        """One run of its tool; a rdma.Pair."""
        if row.tool == "iperf3":
            server, client = self.ports
            return rdma.run_pair(
                server, client, f"iperf3 -s -1 -p {TCP_PORT}",
                f"iperf3 -c {server.ip4} -p {TCP_PORT} {row.options}",
                TCP_PORT, TIMEOUT_S)
        if not row.is_perftest:
            return rdma.pingpong("rc", *self.ports, row.options,
                                 timeout=TIMEOUT_S)
        if self.mixed and row.verb in ANSWERED:
            more += READS_OF_BOTH
        return rdma.perftest(row.tool, *self.ports, row.options + more,
                             timeout=TIMEOUT_S)

    def measure(self, row, more=""):
        """The numbers of one run, with MORE options; {} and a line if it
        failed."""
        before = (*self.counters(), self.threads())
        began = time.monotonic()
        try:
            pair = self.run(row, more)
        except (GuestTimeout, GuestCrashed) as error:
            # It cannot be killed, or has died. That happens to Soft-RoCE.
            print(f"# {row.name} {self.name}{more} is lost: {error}",
                  flush=True)
            if isinstance(error, GuestCrashed) and self.device != "rxe":
                raise
            self.stop()
            self.boot()
            return {}
        seconds = time.monotonic() - began
        found = numbers_of(row, pair.client.out) if pair.ok else {}
        if not found:
            print(f"# {row.name} {self.name}{more} failed: {pair.client}",
                  flush=True)
            return {}
        after = (*self.counters(), self.threads())
        found["faults"] = {name: after[0][name] - before[0].get(name, 0)
                           for name in after[0]
                           if after[0][name] != before[0].get(name, 0)}
        found.update(frames(row, before[1], after[1]))
        found.update(times(found, before[2], after[2], seconds))
        return found


def frames(row, before, after):
    """What frames tell of a one-way row: how many messages there were, and how
    many frames came back for each."""
    back, there = (late - early for early, late in zip(before, after))
    if row.is_latency or not row.is_perftest or there < row.packets:
        return {}
    messages = there / row.packets
    return {"messages": messages, "frames back": back / messages}


def times(found, before, after, seconds):
    """Of each kind of thread: processors used, how long it waited for one each
    time that it wanted it, and its time per message, all in us; of a whole run,
    with its programs' start and end."""
    told = {"cpu": 0, "queued": 0}
    for kind, late in after.items():
        run, wait, wakes = (late[key] - before[kind][key] for key in SCHEDSTAT)
        told["cpu"] += run / 1e9 / seconds
        told["queued"] += wait / 1e9 / seconds
        told[f"{kind} wait"] = wait / 1e3 / wakes if wakes else 0
        if "messages" in found:
            told[f"{kind} per message"] = run / 1e3 / found["messages"]
    return told
