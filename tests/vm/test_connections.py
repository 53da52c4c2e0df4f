# SPDX-License-Identifier: GPL-2.0-or-later
"""Thousands of librdmacm connections, and peers that do not answer: nothing
may be left.

guest/rdma_connect.c makes the connections, half of them over IPv4, half over
IPv6. Each has a CQ, a memory region and a QP of its own, and moves bytes that
are compared. Afterwards the kernel's objects (`rdma resource`), its log and
QEMU's memory are as before.
"""

import re
import time

import pytest

from fakernic_test import memory, rdma

PROGRAM = "rdma_connect"
HOLD = "/tmp/go"                # file that -k waits for
SAID = "/tmp/connected"         # output of the program
SERVER, CLIENT = 0, 1

# Limit for the growth of QEMU's heap, 300 bytes per connection. A QP alone
# takes 1,100 in the device, a CQ and a memory region another 300.
GROWTH = 0.3    # KiB


class Report:
    """What rdma_connect prints at its end."""

    def __init__(self, result):
        self.result = result
        numbers = dict(re.findall(
            r"(connections|verified|given_up|too_late) (\d+)", result.out))
        self.counts = {name: int(number) for name, number in numbers.items()}
        self.events = {name: (int(count), int(status))
                       for name, count, status in re.findall(
                           r"RDMA_CM_EVENT_(\w+) (\d+) status (-?\d+)",
                           result.out)}

    def expect(self, connections, verified=0, given_up=0, too_late=0, **events):
        """Checks for exactly these events: a count, or a count and a status."""
        assert self.counts == {
            "connections": connections, "verified": verified,
            "given_up": given_up, "too_late": too_late}, self.result
        assert self.events == {
            name: what if isinstance(what, tuple) else (what, 0)
            for name, what in events.items()}, self.result


class Connections:
    """Both sides of COUNT connections, and the objects before them."""

    def __init__(self, ports, count, window=32, server="", client="",
                 limit=200):
        self.ports = ports
        self.count = count
        for port in ports:
            port.guest.check(f"rm -f {HOLD} {SAID}; dmesg -C")
        self.before = [self.state(port) for port in ports]
        common = f"{PROGRAM} -n {count} -w {window}"
        said = f"| tee {SAID}; exit ${{PIPESTATUS[0]}}"
        listening, asking = ports
        self.jobs = [listening.guest.start(f"{common} {server} -s {said}",
                                           limit)]
        listening.guest.check(
            f"until {rdma.LISTENS_CM}; do sleep 0.05; done")
        self.jobs.append(asking.guest.start(
            f"{common} {client} {listening.ip4} {listening.ip6} {said}", limit))

    @staticmethod
    def state(port):
        return {**rdma.resources(port), "messages": port.guest.check(
            "dmesg -t | grep -cE '^(fakernic|infiniband|rdma|ib_)' || "
            "true").strip()}

    def wait_for(self, side, kind, count, limit=100):
        """Waits for COUNT more objects of a kind than before."""
        wanted = int(self.before[side][kind]) + count
        deadline = time.monotonic() + limit
        while int(rdma.resources(self.ports[side])[kind]) != wanted:
            assert self.jobs[side].poll() is None, self.jobs[side].result
            assert time.monotonic() < deadline, rdma.resources(self.ports[side])
            time.sleep(0.2)

    def wait_until_open(self):
        """Waits until both sides have received data on each connection."""
        for side, port in enumerate(self.ports):
            while not port.guest.run(
                    f"grep -q '^all {self.count} open' {SAID}").ok:
                assert self.jobs[side].poll() is None, self.jobs[side].result
                time.sleep(0.2)
            for kind in ("qp", "cq", "mr"):
                self.wait_for(side, kind, self.count)

    def go_on(self, side):
        self.ports[side].guest.check(f"touch {HOLD}")

    def kill(self, side):
        self.ports[side].guest.check(f"kill -9 $(pidof {PROGRAM})")
        assert not self.jobs[side].wait().ok

    def report(self, side):
        """Returns both reports. If one side fails the other one waits, so a
        failure shows both."""
        result = self.jobs[side].wait()
        if not result.ok:
            other = self.jobs[1 - side].wait()
            pytest.fail(f"{result}\nits peer:\n{other}")
        return Report(result)

    def succeed(self):
        """Checks that every connection was made, used and closed, and nothing
        else."""
        n = self.count
        self.report(SERVER).expect(n, n, CONNECT_REQUEST=n, ESTABLISHED=n,
                                   DISCONNECTED=n)
        self.report(CLIENT).expect(n, n, ADDR_RESOLVED=n, ROUTE_RESOLVED=n,
                                   ESTABLISHED=n, DISCONNECTED=n)
        self.nothing_left()

    def nothing_left(self):
        for port, before in zip(self.ports, self.before):
            deadline = time.monotonic() + 20
            while (found := self.state(port)) != before:
                assert time.monotonic() < deadline, f"{found}, not {before}"
                time.sleep(0.2)


@pytest.mark.timeout(900)
def test_1000_connections_at_once(ports):
    """1,000 connections are open at once, and each has moved data."""
    many = Connections(ports, 1000, client=f"-k {HOLD}", limit=800)
    many.wait_until_open()
    many.go_on(CLIENT)
    many.succeed()


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_10000_connections_in_turn(ports, vms, rounds):
    """More than twice as many connections as QPs or CQs can exist are made in
    turn, and leave nothing."""
    count = rounds(10000)
    Connections(ports, 200).succeed()
    before = [memory.heap(vm) for vm in vms]
    Connections(ports, count, limit=1700).succeed()
    growth = [memory.heap(vm) - kib for vm, kib in zip(vms, before)]
    assert max(growth) < GROWTH * count, growth


@pytest.mark.parametrize("victim", (SERVER, CLIENT), ids=("server", "client"))
def test_killed_process_disconnects_all(ports, victim):
    """If a process is killed its kernel closes all connections, and the peer
    is notified."""
    n = 100
    some = Connections(ports, n, client=f"-k {HOLD}")
    some.wait_until_open()
    some.kill(victim)
    left = some.report(1 - victim)
    assert left.counts["connections"] == left.counts["verified"] == n
    assert left.events["DISCONNECTED"] == (n, 0), left.result
    some.nothing_left()


def test_unanswered_connect_times_out(ports):
    """If a listener takes the REQ and does not answer, the client times out.

    The client's time limit is longer than the CM's first timeout. By then the
    listener's kernel has sent an MRA. The listener accepts too late and is
    notified.
    """
    n = 20
    silent = Connections(ports, n, server=f"-k {HOLD}", client="-g 7")
    silent.report(CLIENT).expect(n, given_up=n, ADDR_RESOLVED=n,
                                 ROUTE_RESOLVED=n)
    silent.go_on(SERVER)
    silent.report(SERVER).expect(n, too_late=n, CONNECT_REQUEST=n)
    silent.nothing_left()


def test_killed_listener_rejects(ports):
    """If a silent listener is killed, its kernel rejects the connection
    (reason 28, consumer)."""
    n = 20
    silent = Connections(ports, n, server="-k /tmp/never")
    silent.wait_for(SERVER, "cm_id", n + 1)
    silent.kill(SERVER)
    silent.report(CLIENT).expect(n, ADDR_RESOLVED=n, ROUTE_RESOLVED=n,
                                 REJECTED=(n, 28))
    silent.nothing_left()


@pytest.mark.long
def test_link_loss_while_connecting_times_out(ports):
    """If the link goes down between REQ and REP, both sides time out.

    Both retransmit 15 times, which takes 77 s. The server has a permanent
    neighbour entry. Without one it could not resolve the client's address on a
    link that is down.
    """
    n = 10
    server, client = ports
    mac = client.guest.check(f"cat /sys/class/net/{client.netdev}/address")
    for address in (client.ip4, client.ip6):
        server.guest.check(f"ip neigh replace {address} lladdr {mac.strip()} "
                           f"nud permanent dev {server.netdev}")
    lost = Connections(ports, n, server=f"-k {HOLD}")
    lost.wait_for(SERVER, "cm_id", n + 1)
    server.vm.set_link(False)
    try:
        lost.go_on(SERVER)
        lost.report(CLIENT).expect(n, ADDR_RESOLVED=n, ROUTE_RESOLVED=n,
                                   UNREACHABLE=(n, -110))
        lost.report(SERVER).expect(n, CONNECT_REQUEST=n,
                                   UNREACHABLE=(n, -110))
        lost.nothing_left()
    finally:
        server.vm.set_link(True)
        for address in (client.ip4, client.ip6):
            server.guest.check(f"ip neigh del {address} dev {server.netdev}")
