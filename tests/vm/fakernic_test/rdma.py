# SPDX-License-Identifier: GPL-2.0-or-later
"""The usual client/server pairs, between ports that are up.

fakernic_lab/rdma.py defines Port.
"""

import json
import re
import time

from fakernic_lab import show
from fakernic_lab.rdma import (FIND, NETWORK4, NETWORK6, WAIT_GIDS,  # noqa: F401
                               Port, bring_up, bring_up_all)

# Shell conditions: a server listens on a TCP port, or as an rdma_cm id.
LISTENS_TCP = "ss -Hltn 'sport = :{port}' | grep -q ."
LISTENS_CM = "rdma resource show cm_id | grep -q 'state LISTEN'"
BYTES_PORT = 7003


# Messages about wrong data; some programs (ibv_*_pingpong -c) still exit with 0.
WRONG_DATA = re.compile(r"byte \d+ is \w\w and not|invalid data|data mismatch")


class Pair:
    """What a server and its client printed."""

    def __init__(self, server, client):
        self.server = server
        self.client = client
        self.again = 0          # number of repetitions

    def wrong_data(self):
        """Returns whether a side has found wrong bytes."""
        return any(WRONG_DATA.search(side.out + side.err)
                   for side in (self.server, self.client))

    @property
    def ok(self):
        """Returns whether both have succeeded without wrong data."""
        return self.server.ok and self.client.ok and not self.wrong_data()

    def check(self):
        """Returns itself, or raises the failure of either side with both
        outputs."""
        if not self.ok:
            raise AssertionError(f"server: {self.server}\n"
                                 f"client: {self.client}")
        return self


def run_pair(server, client, server_command, client_command, listen=18515,
             timeout=60):
    """Runs a server in one guest, then its client in another; returns a Pair.

    LISTEN is the server's TCP port, or "cm" for an rdma_cm listener, or a
    shell command that succeeds once the server is ready.
    """
    test = (LISTENS_TCP.format(port=listen) if isinstance(listen, int) else
            LISTENS_CM if listen == "cm" else listen)
    job = server.guest.start(server_command, timeout)
    ready = server.guest.run(
        f"for i in $(seq 300); do {test} && exit 0; kill -0 {job.pid} || exit 1;"
        " sleep 0.05; done; exit 1", timeout)
    if not ready.ok:
        if job.poll() is None:
            server.guest.run(f"kill {job.pid}; sleep 0.5")
        return Pair(job.wait(), ready)
    answer = client.guest.run(client_command, timeout)
    deadline = time.monotonic() + server.vm.patience * (
        timeout if answer.ok else 10)
    while job.poll() is None and time.monotonic() < deadline:
        server.vm.assert_alive()
        time.sleep(0.02)
    if job.result is None:
        server.guest.run(f"kill {job.pid}; sleep 0.5")
    return Pair(job.wait(), answer)


def send_bytes(server, client, family=4, size="2M", address=None):
    """Sends random bytes from client to server over TCP and compares them.
    ADDRESS replaces the server's address of FAMILY."""
    pair = run_pair(
        server, client, f"nc -{family} -l {BYTES_PORT} | sha256sum",
        f"head -c {size} /dev/urandom >/tmp/data; sha256sum </tmp/data; "
        f"nc -{family} -N {address or server.ip(family)} {BYTES_PORT} </tmp/data;"
        " rm /tmp/data", BYTES_PORT, 120).check()
    assert pair.server.out == pair.client.out


# ---- what is left behind ------------------------------------------------

def reset(port):
    """Resets the card's function, and waits until its Ethernet port has a
    carrier again."""
    folder = f"/sys/class/net/{port.netdev}"
    port.guest.check(
        f"echo 1 >{folder}/device/reset; for i in $(seq 100); do "
        f"[ $(cat {folder}/carrier) = 1 ] && exit 0; sleep 0.1; done; exit 1")


def resources(port):
    """Returns the counts of `rdma resource` without those of the kernel."""
    text = port.guest.check(f"rdma resource show {port.ibdev}")
    return dict(re.findall(r"\b(pd|cq|qp|cm_id|mr|ctx|srq) (\d+)", text))


def wait_for_resources(port, wanted):
    """Waits until they are as WANTED, as the kernel cleans up after an exit. A
    new device has fewer CQs if the core had kept some."""
    deadline = time.monotonic() + 20
    while True:
        found = resources(port)
        if int(found["cq"]) <= int(wanted["cq"]):
            found["cq"] = wanted["cq"]
        if found == wanted:
            return
        assert time.monotonic() < deadline, f"{found} is left of {wanted}"
        time.sleep(0.2)


def driver_said(port):
    """Returns the driver's lines in the kernel's log. Those of DMA_API_DEBUG
    have its name in another place."""
    return [line for line in port.guest.check("dmesg -t").splitlines()
            if line.startswith("fakernic")]


# What a guest knows about connections that stand still.
SEEN = """
uptime
rdma resource show qp
ss -tinoe
ip neigh
nstat -az TcpRetransSegs IcmpInErrors
grep -H . /sys/class/infiniband/{ibdev}/ports/1/hw_counters/* | grep -v ':0$'
ethtool -S {netdev} | grep -v ': 0$'
grep -E 'CPU0|fakernic' /proc/interrupts
dmesg | tail -20
"""
INSIDE = ("qps", "cqs", "eqs", "counters")
RECORDED = 200


def describe(port):
    """Returns the state of a port as its guest and its card see it, for a test that has
    failed."""
    vm = port.vm
    lines = [f"--- {vm.name}", port.guest.run(
        SEEN.format(ibdev=port.ibdev, netdev=port.netdev), 30).out]
    if port.ibdev.startswith("rxe"):
        return "\n".join(lines)
    vm.qmp("query-status")                  # connects
    device = show.Device(vm.monitor, show.NIC)
    lines += show.listing(json.loads(device.get("x-state")))
    for what in INSIDE:
        objects = device.objects(what)
        lines += [f"{what}:", *show.object_lines(what, objects)]
        lines += [str(item) for item in objects if item.get("in-flight")]
    for what in ("x-recorder", "x-recorder-now"):
        lines += [f"{what}:", *device.get(what).splitlines()[-RECORDED:]]
    return "\n".join(lines)


def judged(port, command, tests, timeout=100):
    """Runs a guest program that prints TAP: it passes that many tests and
    leaves nothing."""
    before = resources(port)
    result = port.guest.run(command, timeout)
    passed = len(re.findall(r"^ok ", result.out, re.M))
    assert result.ok and passed == tests, f"{passed} passed: {result}"
    wait_for_resources(port, before)
    return result


# ---- the usual tools -----------------------------------------------------

def pingpong(kind, server, client, options="", family=4, timeout=60, inside=""):
    """Runs ibv_{rc,ud,…}_pingpong between two ports (or one with itself).

    FAMILY is that of the GIDs; its server listens for TCP on IPv4 only. Both
    commands are arguments of INSIDE.
    """
    at_server, at_client = (
        f"{inside} ibv_{kind}_pingpong -d {port.ibdev} "
        f"-g {port.gid_index(family)} {options}" for port in (server, client))
    return run_pair(server, client, at_server, f"{at_client} {server.ip4}",
                    18515, timeout)


CLOSED = "rdma_get_cm_event: Bad file descriptor"


def rping(server, client, count=10, size=64, family=4, timeout=60,
          address=None, inside=""):
    """Runs rping, which connects by rdma_cm and compares bytes with -V.
    ADDRESS replaces the server's address of FAMILY. Both commands are
    arguments of INSIDE."""
    common = f"-C {count} -S {size} -V -v -a {address or server.ip(family)}"
    pair = run_pair(server, client, f"{inside} rping -s {common}",
                    f"{inside} rping -c {common}", f"{inside} {LISTENS_CM}",
                    timeout)
    # All data has arrived. Then rping's event thread used a channel that the main
    # thread had closed, and ended the program.
    if (pair.client.code == 255 and CLOSED in pair.client.err and
            f"rdma-ping-{count - 1}:" in pair.client.out):
        pair.client.code = 0
    return pair


def udaddy(server, client, count=100, size=100, family=4, timeout=60):
    """Sends datagrams in both directions between two rdma_cm ids."""
    common = f"udaddy -C {count} -S {size}"
    return run_pair(
        server, client, f"{common} -b {server.ip(family)}",
        f"{common} -b {client.ip(family)} -s {server.ip(family)}", "cm",
        timeout)


GROUPS = {4: "239.7.7.7", 6: "ff12::7:7"}


def mckey(receiver, sender, count=100, size=100, family=4, timeout=60, options=""):
    """Sends datagrams to a multicast group; the receiver waits for all of
    them.

    The sender destroys its QP without waiting for its sends, and the card
    drops what it has not sent. So all must fit into the wire: a socket buffer
    of 90 frames of 1 KB if nobody reads it yet. The sender waits 3 s first,
    and the receiver joins long before.
    """
    common = f"mckey -m {GROUPS[family]} -C {count} -S {size} {options}"
    receiver.guest.check("rm -f /tmp/mckey.out")
    return run_pair(
        receiver, sender,
        f"stdbuf -oL {common} -b {receiver.ip(family)} | tee /tmp/mckey.out; "
        "exit ${PIPESTATUS[0]}",
        f"{common} -s -b {sender.ip(family)}",
        "grep -q 'joined dgid' /tmp/mckey.out", timeout)


JOIN = """
import ipaddress, socket, struct, sys, time
group = ipaddress.ip_address(sys.argv[1])
six = group.version == 6
sock = socket.socket(socket.AF_INET6 if six else socket.AF_INET,
                     socket.SOCK_DGRAM)
index = struct.pack("@I" if six else "@4xI", socket.if_nametoindex(sys.argv[2]))
sock.setsockopt(socket.IPPROTO_IPV6 if six else socket.IPPROTO_IP,
                socket.IPV6_JOIN_GROUP if six else socket.IP_ADD_MEMBERSHIP,
                group.packed + index)
open("/tmp/joined", "w").close()
time.sleep(1000)
"""


def join_group(port, group):
    """Returns a job that keeps a guest's IP layer in a multicast group."""
    port.guest.write("/tmp/join.py", JOIN)
    port.guest.check("rm -f /tmp/joined")
    job = port.guest.start(
        f"exec python3 /tmp/join.py {group} {port.netdev}", 1000)
    port.guest.check("until [ -e /tmp/joined ]; do sleep 0.05; done")
    return job


def verify(kind, server, client, options="", family=4, timeout=60,
           indexes=None):
    """Runs every operation of a service and compares every byte: rdma_verify.

    KIND is rc, uc, ud, or srq for RC with shared receives. INDEXES replace the
    GIDs of FAMILY.
    """
    common = f"rdma_verify -t {kind} {options} -g "
    indexes = indexes or [port.gid_index(family) for port in (server, client)]
    return run_pair(server, client, f"{common}{indexes[0]}",
                    f"{common}{indexes[1]} {server.ip4}", 18601, timeout)


def arrived(pair):
    """Returns how many messages verify()'s server has received, and of how
    many."""
    words = re.search(r"(\d+) of (\d+) messages arrived", pair.server.out)
    return int(words[1]), int(words[2])


def perftest(tool, server, client, options="", family=4, timeout=60):
    """Runs one of perftest's ib_{write,read,send}_{bw,lat} programs."""
    common = f"-F {options}"
    return run_pair(
        server, client,
        f"{tool} -d {server.ibdev} -x {server.gid_index(family)} {common}",
        f"{tool} -d {client.ibdev} -x {client.gid_index(family)} {common} "
        f"{server.ip4}", 18515, timeout)


def perftest_numbers(output):
    """Returns the columns of perftest's last result line, as floats."""
    rows = re.findall(r"^ *(\d+ +\d[\d .\t]*)$", output, re.M)
    return [float(column) for column in rows[-1].split()] if rows else []


MEASURED_TRIES = 3


def measured(tool, server, client, options=""):
    """Repeats perftest() until it has a result. On a busy machine it may fail
    to measure its clock, and prints inf microseconds or 0 MiB/s."""
    column = 3 if tool.endswith("_bw") else 4
    for _ in range(MEASURED_TRIES):
        pair = perftest(tool, server, client, options)
        numbers = perftest_numbers(pair.client.out)
        if not pair.ok or (len(numbers) > column and numbers[column] > 0):
            break
    return pair


def line_of_text(server, client, text, family=4):
    """Runs the program that writes a line into the server's memory."""
    return run_pair(server, client, "rdma_write_line -s",
                    f"rdma_write_line {server.ip(family)} '{text}'", 18600)


def exercise(a, b):
    """Uses what every version of driver and provider has, in both directions, and the
    Ethernet port, for which the oldest driver uses no offloads."""
    for kind, options in (("rc", "-c"), ("rc", "-e"), ("uc", "-c"), ("ud", "-c"),
                          ("srq", "-c"), ("xsrq", "")):
        pingpong(kind, a, b, f"-n 100 {options}").check()
    rping(a, b).check()
    rping(b, a, family=6).check()
    for kind in ("rc", "srq", "ud"):
        verify(kind, a, b).check()
    perftest("ib_write_bw", b, a, "-n 100").check()
    perftest("ib_atomic_lat", a, b, "-n 100").check()
    send_bytes(a, b)
    send_bytes(b, a, family=6)
