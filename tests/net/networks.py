# SPDX-License-Identifier: GPL-2.0-or-later
"""Networks of the host that join taps: a bridge, VXLAN, Open vSwitch.

A Host is a network namespace that plays a separate machine. A process keeps it alive.
Taps, which QEMU has open, are moved between Hosts. The parts of a network end with its
Hosts.
"""

import os
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

START_S = 20
UNDERLAY = "10.77.0.{}"
VXLAN = "vxlan0 type vxlan id 77 dstport 4789 local {here} remote {there}"
# Bytes that VXLAN over IPv4 adds to an IP packet: 50, with the inner Ethernet header.
OVERHEAD = 14 + 20 + 8 + 8
SCHEMA = "/usr/share/openvswitch/vswitch.ovsschema"


def run(*words, **options):
    """Run a command that must succeed and return its output."""
    done = subprocess.run([str(word) for word in words], text=True, check=False,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=60, **options)
    assert done.returncode == 0, f"{words}: {done.stdout}"
    return done.stdout


def until(condition, what):
    deadline = time.monotonic() + START_S
    while not condition():
        assert time.monotonic() < deadline, f"not within {START_S} s: {what}"
        time.sleep(0.05)


class Host:
    """A network namespace and the processes in it."""

    def __init__(self):
        self.processes = []
        self.keeper = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "sh", "-c",
             "echo; exec sleep infinity"], stdout=subprocess.PIPE)
        assert self.keeper.stdout.read(1) == b"\n"
        self.run("ip", "link", "set", "lo", "up")

    @property
    def pid(self):
        return self.keeper.pid

    def inside(self, *words):
        return ["nsenter", f"--net=/proc/{self.pid}/ns/net",
                *(str(word) for word in words)]

    def run(self, *words, **options):
        return run(*self.inside(*words), **options)

    def start(self, *words, **options):
        """Start a process that runs until the host ends."""
        self.processes.append(subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *self.inside(*words)],
            stdin=subprocess.DEVNULL, **options))

    def take(self, tap, mtu):
        """Move a tap from its original namespace into this host."""
        run("ip", "link", "set", tap, "netns", self.pid)
        self.run("ip", "link", "set", tap, "mtu", mtu, "up")

    def give_back(self, tap):
        """Move a tap back to its original namespace. Otherwise it would end with this
        host."""
        self.run("ip", "link", "set", tap, "netns", os.getpid())

    def bridge(self, *ports):
        self.run("ip", "link", "add", "br0", "type", "bridge")
        for port in ports:
            self.run("ip", "link", "set", port, "master", "br0", "up")
        self.run("ip", "link", "set", "br0", "up")

    def stop(self):
        for process in [*reversed(self.processes), self.keeper]:
            process.kill()
            process.wait(START_S)


@contextmanager
def hosts(taps, mtu):
    """A Host for each tap."""
    made = []
    try:
        for tap in taps:
            host = Host()
            made.append(host)
            host.take(tap, mtu)
        yield made
    finally:
        for host, tap in zip(made, taps):
            host.give_back(tap)
            host.stop()


def join(made, mtu):
    """Joins two hosts by a veth pair with addresses."""
    here, there = made
    here.run("ip", "link", "add", "cable", "type", "veth", "peer", "name",
             "cable", "netns", there.pid)
    for number, host in enumerate(made, start=1):
        host.run("ip", "link", "set", "cable", "mtu", mtu, "up")
        host.run("ip", "addr", "add", f"{UNDERLAY.format(number)}/24", "dev",
                 "cable")


@contextmanager
def bridge(taps, mtu=1500):
    """One host whose Linux bridge joins the taps."""
    host = Host()
    try:
        for tap in taps:
            host.take(tap, mtu)
        host.bridge(*taps)
        yield host
    finally:
        for tap in taps:
            host.give_back(tap)
        host.stop()


@contextmanager
def vxlan(taps, underlay=1500, mtu=1500):
    """Two hosts, each with a bridge, joined by VXLAN over a network with MTU UNDERLAY."""
    with hosts(taps, mtu) as made:
        join(made, underlay)
        for number, (host, tap) in enumerate(zip(made, taps), start=1):
            host.run("ip", "link", "add", *VXLAN.format(
                here=UNDERLAY.format(number),
                there=UNDERLAY.format(3 - number)).split())
            host.run("ip", "link", "set", "vxlan0", "mtu", underlay - OVERHEAD)
            host.bridge(tap, "vxlan0")
        yield made


class Switch:
    """Open vSwitch in a host, with the data path in user space: the kernel's data path
    would need a module."""

    def __init__(self, host, folder):
        self.host = host
        self.folder = Path(folder)
        self.socket = f"unix:{folder}/db"
        run("ovsdb-tool", "create", f"{folder}/conf.db", SCHEMA)
        self.start("ovsdb-server", f"{folder}/conf.db",
                   f"--remote=punix:{folder}/db")
        until(Path(f"{folder}/db").exists, "ovsdb-server")
        self.set("--no-wait", "init")
        self.start("ovs-vswitchd", self.socket)

    def start(self, program, *words):
        with open(self.folder / f"{program}.log", "wb") as log:
            self.host.start(
                program, *words, f"--unixctl={self.folder}/{program}.ctl",
                stdout=log, stderr=subprocess.STDOUT,
                env={**os.environ, "OVS_RUNDIR": str(self.folder)})

    def set(self, *words):
        """Run ovs-vsctl, which waits until the change is applied."""
        return run("ovs-vsctl", "--timeout=20", f"--db={self.socket}", *words)

    def bridge(self, *ports):
        self.set("add-br", "br0", "--", "set", "bridge", "br0",
                 "datapath_type=netdev")
        for port in ports:
            self.set("add-port", "br0", port)

    def errors(self):
        """The errors that Open vSwitch reports."""
        return self.set("--columns=name,error", "find", "interface",
                        "error!=[]").strip()


@contextmanager
def open_vswitch(taps, mtu=1500):
    """Two hosts, each with Open vSwitch, joined by a veth pair."""
    with hosts(taps, mtu) as made, tempfile.TemporaryDirectory() as folder:
        join(made, mtu)
        for number, (host, tap) in enumerate(zip(made, taps)):
            own = Path(folder) / str(number)
            own.mkdir()
            switch = Switch(host, own)
            switch.bridge(tap, "cable")
            assert not switch.errors(), switch.errors()
        yield made
