# SPDX-License-Identifier: GPL-2.0-or-later
"""librdmacm between two guests: every program of rdmacm-utils over IPv4 and
IPv6, and connections that are rejected, reach no host, or lose their peer.
test_connections.py makes thousands of connections."""

import re
import time

import pytest

from fakernic_test import rdma

FAMILIES = pytest.mark.parametrize("family", (4, 6), ids=("ipv4", "ipv6"))
CMTIME_PORT = 7471      # TCP port where the two sides of cmtime synchronize
UDPONG_LISTENS = "ss -Hlun 'sport = :7174' | grep -q ."


def both(program, server_words, client_words, ready="cm"):
    """Returns a row: the two command lines, where {s} and {c} are the
    addresses."""
    def run(server, client, family, timeout=60):
        where = {"s": server.ip(family), "c": client.ip(family),
                 "f": "ip" if family == 4 else "ipv6"}
        return rdma.run_pair(server, client,
                             f"{program[0]} {server_words}".format(**where),
                             f"{program[-1]} {client_words}".format(**where),
                             ready, timeout)
    return run


PROGRAMS = {
    "rping": lambda s, c, family: rdma.rping(s, c, 10, 2000, family),
    "ucmatose": both(["ucmatose"], "-b {s} -c 4 -C 20 -S 1000",
                     "-s {s} -b {c} -c 4 -C 20 -S 1000"),
    "udaddy": lambda s, c, family: rdma.udaddy(s, c, 50, 500, family),
    "mckey": lambda s, c, family: rdma.mckey(s, c, 50, 500, family),
    "mckey_without_loopback": lambda s, c, family: rdma.mckey(
        s, c, 50, 500, family, options="-l"),
    "rstream": both(["rstream"], "-b {s} -S 5000 -C 50 -I 2 -T v",
                    "-s {s} -S 5000 -C 50 -I 2 -T v"),
    "riostream": both(["riostream"], "-b {s} -S 5000 -C 50 -I 2 -T v",
                      "-s {s} -S 5000 -C 50 -I 2 -T v"),
    "udpong": both(["udpong"], "-b {s} -S 500 -C 50 -T e",
                   "-s {s} -S 500 -C 50 -T e", UDPONG_LISTENS),
    "cmtime": both(["cmtime"], "-b {s} -c 20", "-s {s} -b {c} -c 20",
                   CMTIME_PORT),
    "rdma_server": both(["rdma_server", "rdma_client"], "-s {s}", "-s {s}"),
    "rdma_xserver_rc": both(["rdma_xserver", "rdma_xclient"], "-c r",
                            "-s {s} -c r"),
    "rdma_xserver_xrc": both(["rdma_xserver", "rdma_xclient"], "-c x",
                             "-s {s} -c x"),
}
# What these programs cannot do with any device, and their messages.
# udpong: librdmacm's datagram rsockets make address handles without a GRH
# (ds_add_qp_dest()), which no RoCE device has; cleaning up then overwrites
# errno. mckey: see test_interop_rxe.py. The others only know IPv4.
CANNOT = {
    ("udpong", 4): "rconnect: No such file or directory",
    ("udpong", 6): "rconnect: No such file or directory",
    ("mckey", 6): "Unknown error 524",
    ("mckey_without_loopback", 6): "Unknown error 524",
    ("cmtime", 6): "Address family for hostname not supported",
    ("rdma_xserver_rc", 6): "Connection refused",
    ("rdma_xserver_xrc", 6): "Connection refused",
}


def row(program, family, name):
    """Returns a row. One that cannot work runs once in make test, as it takes
    long."""
    seen = family == 4 or program not in (
        "udpong", "rdma_xserver_xrc", "mckey_without_loopback")
    return pytest.param(program, family, id=f"{program}-{name}",
                        marks=() if seen else pytest.mark.long)


@pytest.mark.parametrize("program, family", [
    row(program, family, name) for program in PROGRAMS
    for family, name in ((4, "ipv4"), (6, "ipv6"))])
def test_program(ports, program, family):
    pair = PROGRAMS[program](*ports, family)
    words = CANNOT.get((program, family))
    if words:
        said = (pair.server.out + pair.server.err +
                pair.client.out + pair.client.err)
        assert words in said, f"{pair.server}\n{pair.client}"
    else:
        pair.check()


@FAMILIES
def test_rcopy(ports, family):
    """rcopy sends a whole file over rsockets.

    The host needs a name, as a colon ends the address on rcopy's command line.
    The server listens at the first wildcard address, which is IPv4's.
    """
    a, b = ports
    server = a.guest.start("cd /tmp; exec rcopy")
    try:
        a.guest.check(f"until {rdma.LISTENS_CM}; do sleep 0.05; done")
        client = b.guest.run(
            "head -c 3M /dev/urandom >/tmp/sent; "
            f"echo {a.ip(family)} peer{family} >>/etc/hosts; "
            f"rcopy /tmp/sent peer{family}:/tmp/received; code=$?; "
            "sha256sum </tmp/sent; exit $code")
    finally:
        a.guest.run("pkill -x rcopy")
        server.wait()
    if family == 6:
        assert "Connection refused" in client.err, client
        return
    assert client.ok, client
    assert a.guest.check("sha256sum </tmp/received").strip() in client.out


def rejected_or_not(result, event):
    assert not result.ok and not result.timed_out, result
    assert re.search(event, result.err), result


@FAMILIES
def test_connect_without_listener_is_rejected(ports, family):
    """Without a listener the peer's CM rejects: invalid service ID (IBTA
    12.6.7.2, reason 8)."""
    a, b = ports
    rejected_or_not(b.guest.run(
        f"rping -c -v -C 1 -a {a.ip(family)} -p 9999", 30),
        "RDMA_CM_EVENT_REJECTED, error 8")


def test_connect_to_absent_host_fails(ports):
    """A connection to an address without a host fails with an address
    resolution error."""
    rejected_or_not(ports[1].guest.run(
        f"rping -c -v -C 1 -a {rdma.NETWORK4}.99", 60),
        r"RDMA_CM_EVENT_ADDR_ERROR, error -\d+")


def wait_until_silent(port):
    """Waits until the port sends no more RoCE packets."""
    before = None
    while (now := port.counters()["tx_roce"]) != before:
        before = now
        time.sleep(0.5)


class Endless:
    """An rping without end, and what is left after it."""

    def __init__(self, server, client):
        self.ports = (server, client)
        self.before = [rdma.resources(port) for port in self.ports]
        common = f"-v -a {server.ip4} >/tmp/out"
        for port in self.ports:
            port.guest.check("rm -f /tmp/out")
        self.server = server.guest.start(f"exec rping -s {common}")
        server.guest.check(f"until {rdma.LISTENS_CM}; do sleep 0.05; done")
        self.client = client.guest.start(f"exec rping -c {common}")
        client.guest.check(
            "until grep -qs 'ping data' /tmp/out; do sleep 0.05; done")

    def nothing_left(self):
        for port, counts in zip(self.ports, self.before):
            rdma.wait_for_resources(port, counts)


@pytest.mark.parametrize("victim", ("server", "client"))
def test_killed_peer_disconnects(ports, victim):
    """If a side is killed, its kernel disconnects and the peer is notified.

    The peer is stopped during the kill: the regions of the killed side go
    before its QP, which would refuse packets of the peer.
    """
    endless = Endless(*ports)
    index = ("server", "client").index(victim)
    jobs = [endless.server, endless.client]
    ports[1 - index].guest.check("kill -STOP $(pidof rping)")
    wait_until_silent(ports[index])
    ports[index].guest.check("kill -9 $(pidof rping)")
    assert not jobs[index].wait().ok
    rdma.wait_for_resources(ports[index], endless.before[index])
    ports[1 - index].guest.check("kill -CONT $(pidof rping)")
    other = jobs[1 - index].wait()
    assert "DISCONNECT EVENT" in other.err and not other.timed_out, other
    endless.nothing_left()


@pytest.mark.parametrize("turn", ("server", "client"))
def test_lost_peer_ends_the_connection(ports, turn):
    """If the peer is lost, the retries of a sender run out: its request fails,
    and later ones are flushed.

    The other side, which waits for a message, has no timeout, as RC has no
    keepalive. The test must choose the sender, so it stops one side until the
    other one waits for it.
    """
    endless = Endless(*ports)
    sides = [(ports[0], endless.server), (ports[1], endless.client)]
    sender, waiting = sides if turn == "server" else sides[::-1]
    sender[0].guest.check("kill -STOP $(pidof rping)")
    wait_until_silent(waiting[0])
    ports[0].vm.set_link(False)
    try:
        sender[0].guest.check("kill -CONT $(pidof rping)")
        failed = sender[1].wait()
    finally:
        ports[0].vm.set_link(True)
    assert not failed.timed_out, failed
    assert "cq completion failed status 12" in failed.err, failed
    waiting[0].guest.check("kill -9 $(pidof rping) || true")
    waiting[1].wait()
    endless.nothing_left()
